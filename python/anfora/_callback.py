# SPDX-License-Identifier: Apache-2.0
"""pure_callback by JAX's name: an operation of the host (_host.py) whose type is that of a call."""
from __future__ import annotations

import ast
import functools
from typing import Any, Callable

from ._compile.builtins import asarray
from ._generated import Generated
from ._host import HostOp, _Type
from ._ops import op
from ._transform import ShapeDtypeStruct
from ._tree import tree_map
from ._types import TensorType


def _text(t: Any) -> str:
    """A type of the core's in the words of the type of an operation."""
    if not isinstance(t, TensorType) or None in t.dims:
        raise TypeError(f"a function of the host takes and gives arrays and numbers, not {t}")
    name = {"int": "i64", "float": "f64", "complex": "c128"}.get(t.dtype.name, t.dtype.name)
    return name + (f"[{', '.join(map(str, t.dims))}]" if t.dims else "")


class _Calling(Generated):
    """What calls a function of the host, for the types of the results, which an array or a tuple of arrays has, and of the arguments."""

    def __init__(self, f: Callable) -> None:
        @functools.wraps(f)
        def of_arrays(*args: Any) -> Any:
            import numpy as np
            return f(*map(np.asarray, args))

        def callback(results: Any, *args: Any) -> str:
            of = [_text(r) for r in (results if isinstance(results, tuple) else (results,))]
            gives = f"({', '.join(of)})" if isinstance(results, tuple) else of[0]
            made = HostOp(of_arrays, _Type(f"fn({', '.join(map(_text, args))}) -> {gives}"), None, False, None)
            names = ", ".join(f"a{i}" for i in range(len(args)))
            return f"def callback(results__, {names}) {{ {made._op}({names}) }}\n"
        super().__init__(callback)
        self.calls = f  # its address names this


class PureCallback:
    """JAX's pure_callback."""

    def __init__(self) -> None:
        self.__name__ = self.__qualname__ = "pure_callback"
        self.__module__ = "anfora"
        self._made: dict[int, _Calling] = {}

    def __call__(self, callback: Callable, result_shape_dtypes: Any, *args: Any, vmap_method: str | None = None, **kw: Any) -> Any:
        """callback(*args), of arrays of NumPy, whose results have the shapes and element types of a ShapeDtypeStruct or an array, or of a
        tree of these. In compiled functions it is called each time that the function is; it has no derivative (anfora.op has)."""
        import numpy as np
        got = callback(*(tree_map(np.asarray, a) for a in args), **kw)

        def checked(want: Any, x: Any) -> Any:
            x = np.asarray(x)
            if x.shape != tuple(want.shape):
                raise ValueError(f"{self.__name__}: the function gave an array of shape {x.shape} for {tuple(want.shape)}")
            return asarray(x).astype(want.dtype)
        return tree_map(checked, result_shape_dtypes, got)

    def _emit_call(self, w: Any, c: Any) -> str:
        kw = c.kw.keys() - {"vmap_method", "result_shape_dtypes", "callback"}
        nodes = [*c.args[:2], *(c.kw[n] for n in ("callback", "result_shape_dtypes") if n in c.kw)]
        known, f = w.static(nodes[0]) if nodes else (False, None)
        if kw or len(nodes) != 2 or not known or not callable(f):
            w.refuse(c.node, f"{self.__name__}() takes a function that is defined outside of the compiled one, what its results are like, and arrays",
                     f"write {self.__name__}(f, jax.ShapeDtypeStruct(x.shape, x.dtype), x)")
        if len(c.args) < 3:
            w.refuse(c.node, f"{self.__name__}() of no arrays is a constant of the code", "call the function outside, and pass what it gives")
        if id(f) not in self._made:
            self._made[id(f)] = _Calling(f)
        made = self._made[id(f)]
        w.b.keep.append(made)
        return f"{made._emit(w.b)}{w.mark(c.node)}({', '.join([self._like(w, nodes[1]), *map(w.expr, c.args[2:])])})"

    def _like(self, w: Any, node: Any) -> str:
        """An array of the type of a result, or a tuple of such; nothing reads it."""
        if isinstance(node, (ast.Tuple, ast.List)):
            return "(" + "".join(f"{self._like(w, e)}, " for e in node.elts).rstrip(" ") + ")"
        known, x = w.static(node)
        if known and isinstance(x, (tuple, list)):
            return "(" + "".join(f"{self._like(w, ast.copy_location(ast.Constant(e), node))}, " for e in x).rstrip(" ") + ")"
        parts = None
        if known and hasattr(x, "shape") and hasattr(x, "dtype"):
            parts = [ast.Constant(tuple(x.shape)), ast.Constant(x.dtype)]
        elif isinstance(node, ast.Call) and w.static(node.func) == (True, ShapeDtypeStruct):
            given = dict(zip(("shape", "dtype"), node.args)) | {k.arg: k.value for k in node.keywords}
            parts = [given[n] for n in ("shape", "dtype") if n in given]
        if parts is None:
            return w.expr(node)
        return w.expr(ast.fix_missing_locations(ast.copy_location(ast.Call(ast.Constant(op.zeros), parts, []), node)))


pure_callback = PureCallback()
