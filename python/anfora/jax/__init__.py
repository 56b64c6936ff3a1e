# SPDX-License-Identifier: Apache-2.0
"""Functions of JAX as functions of Anfora, lowered to StableHLO by JAX and read here, and functions of Anfora as functions of JAX.

>>> import jax.numpy as jnp
>>> f = anfora.from_jax(lambda x, y: jnp.sum(jnp.tanh(x @ y)))
>>> f(x, y)
>>> anfora.grad(f)(x, y)
"""
from __future__ import annotations

import inspect
import itertools
import os
import re
import tempfile
from typing import Any, Callable

import jax
import numpy as np

from .. import _core
from .._errors import CompileError, SourceMap, translated
from .._function import Function as Compiled
from .._tree import Shape, quoted, shape_of
from .._compile.emit import fail, safe_name
from . import _rules
from ._primitive import NAMES, Function

__all__ = ["FromJax", "Function", "from_jax"]

_SYMBOL = re.compile(r'(?<!custom_call )@([A-Za-z_][\w.$-]*)')
_number = itertools.count()


def _leaf(of: tuple) -> Any:
    """What JAX traces instead of an argument of this type; a number of Python has no element type of its own there either."""
    kind, dims = of
    if kind in ("int", "float"):
        return jax.ShapeDtypeStruct((), jax.dtypes.canonicalize_dtype(np.int64 if kind == "int" else np.float64), weak_type=True)
    return jax.ShapeDtypeStruct(dims, jax.numpy.dtype(NAMES[kind]))


def _pattern(s: Shape) -> Any:
    if s.kind == "leaf":
        return _leaf(s.of)
    if s.kind == "none":
        return None
    if s.kind in ("tuple", "list"):
        return (tuple if s.kind == "tuple" else list)(map(_pattern, s.parts))
    if s.kind == "dict":
        return dict(zip(s.names, map(_pattern, s.parts)))
    raise TypeError(f"arguments of functions of JAX are arrays, numbers, and tuples, lists and dictionaries of these, not {s.kind}")


def _leaves(s: Shape, text: str) -> list[str]:
    """The parts of an argument in JAX's order: dictionaries by their sorted keys."""
    if s.kind == "leaf":
        return [text]
    if s.kind in ("tuple", "list"):
        return [leaf for i, p in enumerate(s.parts) for leaf in _leaves(p, f"{text}[{i}]")]
    if s.kind == "dict":
        return [leaf for name, p in sorted(zip(s.names, s.parts), key=lambda x: x[0]) for leaf in _leaves(p, f"{text}.{quoted(name)}")]
    return []


def _nested(tree: Any, names: Any) -> str:
    """The results as JAX's tree has them, of their names in order."""
    if tree is None:
        return "None"
    if isinstance(tree, dict):
        parts = {k: _nested(tree[k], names) for k in sorted(tree)}
        return "{" + ", ".join(f"{quoted(k)} = {parts[k]}" for k in tree) + "}"
    if isinstance(tree, (tuple, list)):
        return "(" + "".join(_nested(x, names) + ", " for x in tree) + ")"
    return next(names)


def _is_wide(pattern: Any) -> bool:
    return any(x.dtype.itemsize == (16 if x.dtype.kind == "c" else 8) and not getattr(x, "weak_type", False) for x in jax.tree.leaves(pattern))


def _read(text: str, name: str) -> Any:
    """The program of a text of StableHLO."""
    handle, path = tempfile.mkstemp(suffix=".mlir")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as f:
            f.write(text)
        return _core.Program.read(path)
    except _core.Failure as failure:
        raise translated(failure, CompileError, name, SourceMap([], [])) from None
    finally:
        os.unlink(path)


class _Lowered:
    """A function of JAX for arguments of certain types."""

    def __init__(self, f: Callable, name: str, patterns: list) -> None:
        with jax.enable_x64(True) if _is_wide(patterns) else jax.enable_x64(jax.config.jax_enable_x64):
            lowered = _rules.lowered(f, patterns)
            self.results = jax.tree.map(lambda x: x, lowered.out_info)
        self.start = f"jax{next(_number)}_main"
        prefix = self.start.removesuffix("main")
        self.core = _read(_SYMBOL.sub(lambda m: "@" + prefix + m[1], lowered.as_text()), name)

    @property
    def text(self) -> str:
        return self.core.print("ir")


class FromJax(Compiled):
    """A function of JAX: called, compiled, differentiated and batched like every function of Anfora. It is traced by JAX once for
    each kind of arguments; loops and choices of jax.lax stay loops and choices, so reverse mode goes through while_loop, too."""

    def __init__(self, f: Callable, arguments: int | None = None, **options: Any) -> None:
        name = safe_name(getattr(f, "__name__", "function").replace("<lambda>", "lambda"))
        super().__init__(name, _count(f) if arguments is None else arguments, **options)
        self._f, self._given, self._lowered = f, options, {}
        self.__wrapped__ = f

    def _of(self, n: int) -> Compiled:
        return self if n == self._nparam else FromJax(self._f, n, **self._given)

    def _for(self, shapes: list[Shape]) -> _Lowered:
        patterns = [_pattern(s) for s in shapes]
        leaves, structure = jax.tree.flatten(patterns)
        key = structure, tuple((x.shape, x.dtype, x.weak_type) for x in leaves)
        if key not in self._lowered:
            self._lowered[key] = _Lowered(self._f, self.__name__, patterns)
        return self._lowered[key]

    def at(self, *args: Any) -> Compiled:
        """The function for arguments like these alone, which functions of Anfora's may call, too."""
        return _At(self, [shape_of(x) for x in args])

    def _emit(self, b: Any) -> str:
        fail(None, f"{self.__name__} of JAX is called where the types of its arguments are not known yet",
             "make it for its arguments outside, g = f.at(x), and call g")

    def _emit_like(self, b: Any, shapes: list[Shape]) -> str:
        lowered = self._for(shapes)
        b.typed = True
        b.whole(lowered, lowered.text)

        def write(u: Any) -> str:
            params = [f"x{i}" for i in range(self._nparam)]
            given = [leaf for p, s in zip(params, shapes) for leaf in _leaves(s, p)]
            n = len(jax.tree.leaves(lowered.results))
            names = ["y"] if n == 1 else [f"y[{i}]" for i in range(n)]
            result = _nested(lowered.results, iter(names))
            return f"def \ue001{u.number}\ue002({', '.join(params)}) {{\n  y = {lowered.start}({', '.join(given)})\n  {result}\n}}\n"
        return b.unit(self, self.__name__, write, (lowered.start,))

    def _root(self, b: Any, statics: dict, shapes: list[Shape]) -> tuple[str, list[str]]:
        return self._emit_like(b, shapes), [f"x{i}" for i in range(self._nparam)]


class _At(Compiled):
    def __init__(self, f: FromJax, shapes: list[Shape]) -> None:
        super().__init__(f.__name__, len(shapes), **f._given)
        self._f, self._shapes_given = f._of(len(shapes)), shapes

    def _emit(self, b: Any) -> str:
        return self._f._emit_like(b, self._shapes_given)

    def _root(self, b: Any, statics: dict, shapes: list[Shape]) -> tuple[str, list[str]]:
        return self._emit(b), [f"x{i}" for i in range(self._nparam)]


def _count(f: Callable) -> int:
    """How many arguments a function must have."""
    kinds = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    return sum(p.kind in kinds and p.default is p.empty for p in inspect.signature(f).parameters.values())


def from_jax(f: Callable, arguments: int | None = None, **options: Any) -> FromJax:
    """A function of JAX as one of Anfora. `arguments` is how many it is called with, if not all that have no default; options are
    those of jit."""
    return FromJax(f, arguments, **options)
