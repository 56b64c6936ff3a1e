# SPDX-License-Identifier: Apache-2.0
"""check_grads, by the name of jax.test_util: derivatives of a function beside differences.

>>> check_grads(lambda x: anp.sum(anp.sin(x)), (x,), order=2)"""
from __future__ import annotations

from typing import Any, Callable, Sequence

from ._names import missing
from ._transform import jvp, vjp
from ._tree import tree_leaves, tree_map, tree_unflatten, tree_structure

STEPS = {2: 1e-1, 4: 1e-2, 8: 1e-4}  # of differences, by the bytes of a number
TOLERANCES = {2: 2e-1, 4: 2e-2, 8: 1e-5}


def _arrays(tree: Any) -> list:
    import numpy
    return [numpy.asarray(x) for x in tree_leaves(tree)]


def _direction(rng: Any, tree: Any) -> Any:
    """Random numbers of the types and shapes of a tree."""
    def like(x: Any) -> Any:
        import numpy
        a = numpy.asarray(x)
        if a.dtype.kind not in "fc":
            raise TypeError(f"check_grads: {a.dtype} has no derivative; write floats, or leave it in the function")
        numbers = rng.standard_normal(a.shape) + (1j * rng.standard_normal(a.shape) if a.dtype.kind == "c" else 0)
        return numpy.asarray(numbers).astype(a.dtype)
    return tree_map(like, tree)


def _product(a: Any, b: Any) -> float:
    """The real inner product of two trees."""
    import numpy
    return float(sum(numpy.sum(numpy.real(numpy.conj(x.astype(complex)) * y.astype(complex))) for x, y in zip(_arrays(a), _arrays(b))))


def _along(f: Callable, args: tuple, d: tuple, h: float) -> list:
    """The derivative of f in a direction, by a difference."""
    import numpy
    ends = []
    for s in (0.5, -0.5):
        there = [numpy.asarray(x + s * h * t).astype(x.dtype) for x, t in zip(_arrays(args), _arrays(d))]
        ends.append(_arrays(f(*tree_unflatten(tree_structure(args), there))))
    return [(a.astype(complex) - b.astype(complex)) / h for a, b in zip(*ends)]


def _near(what: str, got: Any, want: Any, atol: float, rtol: float) -> None:
    import numpy
    for x, y in zip(got, want):
        numpy.testing.assert_allclose(x, y, atol=atol, rtol=rtol, err_msg=what)


def check_grads(f: Callable, args: Sequence, order: int, modes: Sequence[str] = ("fwd", "rev"), atol: float | None = None,
                rtol: float | None = None, eps: float | None = None) -> None:
    """Raises an AssertionError if derivatives of f at args, up to an order, are not those of differences along random directions: in
    forward mode ("fwd"), in reverse mode ("rev")."""
    import numpy
    rng = numpy.random.default_rng(0)
    args = tuple(args)
    width = min((a.dtype.itemsize // (1 + (a.dtype.kind == "c")) for a in _arrays(args)), default=8)
    h, tol = eps or STEPS[width], TOLERANCES[width]
    atol, rtol = tol if atol is None else atol, tol if rtol is None else rtol
    for mode in modes:
        if mode not in ("fwd", "rev"):
            raise ValueError(f"check_grads: modes are fwd and rev, not {mode!r}")
        d = _direction(rng, args)
        by = _along(f, args, d, h)
        if mode == "fwd":
            _near("forward mode: derivative and difference", _arrays(jvp(f, args, d)[1]), by, atol, rtol)
        else:
            y, back = vjp(f, *args)
            w = _direction(rng, y)
            found = back(w)
            _near("reverse mode: derivative and difference", [numpy.asarray(_product(found, d))], [numpy.asarray(_product(w, tree_unflatten(tree_structure(y), by)))], atol, rtol)
        if order > 1:
            check_grads(_derivative(f, mode, d if mode == "fwd" else None, args, rng), args, order - 1, (mode,), atol, rtol, eps)


def _derivative(f: Callable, mode: str, d: Any, args: tuple, rng: Any) -> Callable:
    """A derivative of f as a function of the same arguments."""
    if mode == "fwd":
        return lambda *xs: jvp(f, xs, d)[1]
    w = _direction(rng, f(*args))
    return lambda *xs: vjp(f, *xs)[1](w)


__all__ = ["check_grads"]
__getattr__ = missing(__name__, __all__)
