# SPDX-License-Identifier: Apache-2.0
"""minimize by the name and arguments of jax.scipy.optimize: BFGS, with a line search of Wolfe's conditions (Nocedal and Wright 2006,
algorithms 6.1, 3.5 and 3.6). The loop is Python's: values and gradients are one compiled function."""
from __future__ import annotations

from typing import Any, Callable, NamedTuple

from .._compile.builtins import asarray
from .._transform import value_and_grad

C1, C2 = 1e-4, 0.9  # of the decrease, and of the slope


class OptimizeResults(NamedTuple):
    """What minimize found, by the names of SciPy. status: 0 if the gradient is small, 1 after the most iterations, 3 if no step goes down."""
    x: Any
    success: bool
    status: int
    fun: Any
    jac: Any
    hess_inv: Any
    nfev: int
    njev: int
    nit: int


class _Line:
    """f along x + a p, and how often it was asked."""

    def __init__(self, f: Callable, x: Any, p: Any) -> None:
        self.f, self.x, self.p = f, x, p

    def __call__(self, a: float) -> tuple:
        value, slope = self.f(self.x + a * self.p)
        return value, slope, float(slope @ self.p)


def _zoom(line: _Line, low: tuple, high: tuple, start: tuple) -> tuple:
    """A step between two of which the first goes down more; (a, value, gradient, slope)."""
    for _ in range(30):
        a = (low[0] + high[0]) / 2
        value, gradient, slope = line(a)
        if not value <= start[1] + C1 * a * start[3] or value >= low[1]:
            high = a, value, gradient, slope
            continue
        if abs(slope) <= -C2 * start[3]:
            return a, value, gradient, slope
        if slope * (high[0] - low[0]) >= 0:
            high = low
        low = a, value, gradient, slope
    return low


def _searched(line: _Line, value: float, gradient: Any, first: float) -> tuple:
    """A step that goes down enough; of length 0 if there is none."""
    start = before = 0.0, value, gradient, float(gradient @ line.p)
    a = first
    for i in range(20):
        at = (a, *line(a))
        if not at[1] <= value + C1 * a * start[3] or i > 0 and at[1] >= before[1]:
            return _zoom(line, before, at, start)
        if abs(at[3]) <= -C2 * start[3]:
            return at
        if at[3] >= 0:
            return _zoom(line, at, before, start)
        before, a = at, 2 * a
    return before


def minimize(fun: Callable, x0: Any, args: tuple = (), *, method: str = "BFGS", tol: float | None = None, options: dict | None = None) -> OptimizeResults:
    """A local minimum of fun(x, *args) from x0, an array of one dim. tol: of the gradient (1e-5). options: gtol, maxiter."""
    import numpy as np
    if method.upper() not in ("BFGS", "L-BFGS-EXPERIMENTAL-DO-NOT-RELY-ON-THIS"):
        raise ValueError(f"minimize has the method 'BFGS', not {method!r}; scipy.optimize.minimize takes fun and jac=anfora.grad(fun), and has others")
    if not isinstance(args, tuple):
        raise TypeError("args of minimize is a tuple, (a,) for one argument")
    given = dict(options or {})
    gtol, most = given.pop("gtol", 1e-5 if tol is None else tol), given.pop("maxiter", None)
    if given.keys() - {"norm", "line_search_maxiter"}:
        raise ValueError(f"minimize has no option {next(iter(given))!r}; it has gtol and maxiter")
    x = np.array(x0, dtype=np.float32 if np.asarray(x0).dtype == np.float32 else np.float64)
    if x.ndim != 1:
        raise ValueError(f"minimize takes x0 of one dim, and this has {x.ndim}: anfora.flatten_util.ravel_pytree makes one of a tree")
    both, asked = value_and_grad(fun), 0

    def f(at: Any) -> tuple:
        nonlocal asked
        asked += 1
        value, gradient = both(at.astype(x.dtype), *args)
        return float(value), np.asarray(gradient)
    value, gradient = f(x)
    h, status, rounds = np.eye(x.size, dtype=x.dtype), 1, 0
    most = 200 * x.size if most is None else most
    while rounds < most:
        if np.abs(gradient).max(initial=0.0) < gtol:
            status = 0
            break
        p = -h @ gradient
        if not gradient @ p < 0:  # no direction that goes down: begin again
            h, p = np.eye(x.size, dtype=x.dtype), -gradient
        first = 1.0 if rounds else min(1.0, 1.0 / max(float(np.abs(gradient).sum()), 1e-30))
        a, value_, gradient_, _ = _searched(_Line(f, x, p), value, gradient, first)
        if a == 0.0 or not np.isfinite(value_):
            status = 3
            break
        s, y = a * p, gradient_ - gradient
        x, value, gradient, rounds = x + s, value_, gradient_, rounds + 1
        sy = float(s @ y)
        if sy > 1e-10 * float(np.linalg.norm(s) * np.linalg.norm(y)):
            if rounds == 1:
                h = h * (sy / float(y @ y))
            w = np.eye(x.size, dtype=x.dtype) - np.outer(s, y) / sy
            h = w @ h @ w.T + np.outer(s, s) / sy
    else:
        status = 0 if np.abs(gradient).max(initial=0.0) < gtol else 1
    return OptimizeResults(asarray(x), status == 0, status, value, asarray(gradient), asarray(h), asked, asked, rounds)


def _in_compiled_code(w: Any, c: Any) -> None:
    w.refuse(c.node, "minimize() is a loop of Python, which no compiled function has", "call it outside; the function that it is given is compiled")


vars(minimize)["_emit_call"] = _in_compiled_code
