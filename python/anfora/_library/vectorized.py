# SPDX-License-Identifier: Apache-2.0
"""vectorize of NumPy and JAX: a function of numbers, or of arrays with some core dims, as one of arrays with any dims before these."""
from __future__ import annotations

import functools
import re
from typing import Any

from .._jit import Jit
from .._ops import op
from .._transform import vmap
from .._tree import tree_map


def core_dims(signature: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The core dims that arguments have, a point for each, and how many results have: "(n,m),(m)->(n)" gives (("..", "."), (1,))."""
    part = r"\(\s*(?:\w+\s*(?:,\s*\w+\s*)*)?\)"
    if not re.fullmatch(rf"\s*{part}(\s*,\s*{part})*\s*->\s*{part}(\s*,\s*{part})*\s*", signature):
        raise ValueError(f"vectorize: {signature!r} is no signature such as \"(n,m),(m)->(n)\"")
    taken, given = ([len(re.findall(r"\w+", p)) for p in re.findall(part, side)] for side in signature.split("->"))
    return tuple("." * k for k in taken), tuple(given)


def before(a, core):
    """Zeros of the dims before the core dims."""
    z = op.zeros_like(a)
    for _ in core:
        z = op.sum(z, -1)
    return z


def rows(a, core, whole):
    """The array with the dims before the core dims as one, broadcast to those of all arguments."""
    if core == "":
        return op.reshape(op.broadcast_to(a, whole.shape), (whole.size,))
    last = a.shape[-len(core):]
    return op.reshape(op.broadcast_to(a, tuple(whole.shape) + tuple(last)), (whole.size,) + tuple(last))


def vectorize(pyfunc: Any = None, *, excluded: Any = (), signature: str | None = None, otypes: Any = None, doc: Any = None, cache: bool = False) -> Any:
    """A function of numbers as one of arrays of any shape; with a signature such as "(n,m),(m)->(n)" one of arrays with core dims. `doc`
    and `cache` change nothing."""
    if pyfunc is None:
        return functools.partial(vectorize, excluded=excluded, signature=signature)
    if excluded or otypes is not None:
        raise TypeError("vectorize: excluded and otypes are not available; bind such arguments with functools.partial")
    taken, given = core_dims(signature) if signature is not None else (None, None)
    each = vmap(pyfunc)

    def called(*args):
        cores = taken if taken is not None else ("",) * len(args)
        if len(cores) != len(args):
            raise ValueError(f"vectorize: the function takes {len(cores)} arguments, not {len(args)}")
        zeros = [before(a, core) for a, core in zip(args, cores)]
        whole = zeros[0]
        for z in zeros[1:]:
            whole = whole + z
        y = each(*[rows(a, core, whole) for a, core in zip(args, cores)])
        if given is not None and len(given) == 1 and y.ndim != given[0] + 1:
            raise ValueError("vectorize: the function gives an array with other dims than its signature says")
        return tree_map(lambda y: op.reshape(y, tuple(whole.shape) + tuple(y.shape[1:])), y)
    f = Jit(called)
    f.__name__ = f.__qualname__ = getattr(pyfunc, "__name__", "vectorized")
    f.__doc__ = pyfunc.__doc__
    return f
