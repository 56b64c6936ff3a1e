# SPDX-License-Identifier: Apache-2.0
"""Functions of JAX as functions of Anfora, lowered to StableHLO by JAX and read here, and functions of Anfora as functions of JAX.

>>> import jax.numpy as jnp
>>> f = anfora.from_jax(lambda x, y: jnp.sum(jnp.tanh(x @ y)))
>>> f(x, y)
>>> anfora.grad(f)(x, y)
"""
from __future__ import annotations

import functools
import inspect
import itertools
import re
from typing import Any, Callable

import jax
import numpy as np

from .. import _core
from .._errors import CompileError, SourceMap, translated
from .._function import Function as Compiled
from .._programs import read_text
from .._tree import Shape, field_names, made_of, quoted, registered, shape_of
from .._compile.emit import fail, safe_name
from . import _objects, _rules
from ._primitive import NAMES, Function

__all__ = ["FromJax", "Function", "from_jax"]

_SYMBOL = re.compile(r'(?<!custom_call )@([A-Za-z_][\w.$-]*)')
_number = itertools.count()
_WEAK = {"int": np.int64, "float": np.float64, "complex": np.complex128}


def _leaf(of: tuple) -> Any:
    """What JAX traces instead of an argument of this type; a number of Python has no element type of its own there either."""
    kind, dims = of
    if kind in _WEAK:
        return jax.ShapeDtypeStruct((), jax.dtypes.canonicalize_dtype(_WEAK[kind]), weak_type=True)
    return jax.ShapeDtypeStruct(dims, jax.numpy.dtype(NAMES[kind]))


def _tree(s: Shape, leaf: Callable, text: str, inside: bool = False) -> Any:
    """The argument with leaf(its type, what the language calls it) in the place of each of its arrays and numbers."""
    if s.kind == "leaf":
        return leaf(s.of, text)
    if s.kind == "none":
        return None
    if s.kind in ("tuple", "list"):
        return (tuple if s.kind == "tuple" else list)([_tree(p, leaf, f"{text}[{i}]", True) for i, p in enumerate(s.parts)])
    parts = [_tree(p, leaf, f"{text}.{quoted(name)}", True) for name, p in zip(s.names, s.parts)]
    if s.kind == "dict":
        return (s.of or dict)(zip(s.names, parts))
    if s.kind == "object":
        return made_of(s.of, s.names, parts)
    if inside:
        return s.of  # what objects have that is no array
    raise TypeError("arguments of functions of JAX are arrays, numbers, and tuples, lists, dictionaries and objects of these that JAX "
                    f"takes apart, not {type(s.of).__name__}")


def _pattern(s: Shape) -> Any:
    return _tree(s, lambda of, _: _leaf(of), "")


def _leaves(s: Shape, text: str) -> list[str]:
    """The parts of an argument in JAX's order."""
    return jax.tree.leaves(_tree(s, lambda _, text: _Name(text), text))


class _Name(str):
    """What the language calls an array, a leaf of a tree of JAX."""
    hint: Any = None


def _named(name: str, like: Any) -> Any:
    """A result of the program as JAX has it: a key is a record of its data."""
    if not _objects.is_key(like):
        return _Name(name)
    kind, data = _objects.kind_of(like)
    out = _Name(f"{{{quoted(data)} = {name}}}")
    out.hint = kind, [None]
    return out


def _nested(tree: Any, classes: list) -> tuple[str, Any]:
    """The results as JAX's tree has them, of their names, and the hint that says what Python has in their place. Objects, whose
    classes are noted, are records."""
    if isinstance(tree, _Name):
        return tree, tree.hint
    names = None if isinstance(tree, dict) else field_names(type(tree))
    if isinstance(tree, dict):
        names, parts, kind = tree.keys(), tree.values(), "dict" if type(tree) is dict else type(tree)
    elif names is not None and (node := _objects.with_constants(tree)) is not None:
        kind, parts = node
        names = field_names(kind)
        classes.append(kind)
    elif names is not None:
        classes.append(type(tree))
        parts, kind = [getattr(tree, n) for n in names], type(tree)
    elif isinstance(tree, (tuple, list)):
        parts, kind = tree, type(tree).__name__
    elif tree is None or jax.tree_util.all_leaves([tree]):
        return "None", None  # what objects have that is no array
    else:
        kind, parts = registered(tree)  # type: ignore[misc]
        names = field_names(kind)
        classes.append(kind)
    texts, hints = zip(*(_nested(x, classes) for x in parts)) if parts else ((), ())
    if names is None:
        return "(" + "".join(x + ", " for x in texts) + ")", (kind, list(hints))
    return "{" + ", ".join(f"{quoted(n)} = {x}" for n, x in zip(names, texts)) + "}", (kind, list(hints))


def _is_wide(pattern: Any) -> bool:
    return any(not _objects.is_key(x) and x.dtype.itemsize == (16 if x.dtype.kind == "c" else 8) and not getattr(x, "weak_type", False) for x in jax.tree.leaves(pattern))


def _read(text: str, name: str) -> Any:
    """The program of a text of StableHLO."""
    try:
        return read_text(text)
    except _core.Failure as failure:
        raise translated(failure, CompileError, name, SourceMap([], [])) from None


class _Lowered:
    """A function of JAX for arguments of certain types."""

    def __init__(self, f: Callable, name: str, patterns: list) -> None:
        with jax.enable_x64(True) if _is_wide(patterns) else jax.enable_x64(jax.config.jax_enable_x64):
            f, patterns, keys = _objects.as_data(f, patterns)
            lowered = _rules.lowered(f, patterns)
            self.results = jax.tree.map(lambda x, key: x if key is None else key, lowered.out_info, keys[0], is_leaf=lambda x: x is None)
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
        self._others: dict = {}  # the same function for other numbers of arguments, and for arguments by name
        self.__wrapped__ = f

    def _of(self, n: int) -> Compiled:
        return self if n == self._nparam else self._other(n, ())

    def _other(self, n: int, names: tuple) -> "FromJax":
        """The function of n arguments, the last of which have these names."""
        if (n, names) not in self._others:
            f, first = self._f, n - len(names)
            g = functools.wraps(f)(lambda *xs: f(*xs[:first], **dict(zip(names, xs[first:])))) if names else f
            self._others[n, names] = FromJax(g, n, **self._given)
        return self._others[n, names]

    def __call__(self, *args: Any, **kw: Any) -> Any:
        if len(args) == self._nparam and not kw:
            return super().__call__(*args)
        inspect.signature(self._f).bind(*args, **kw)  # raises what Python does of arguments that do not fit
        names = tuple(sorted(kw))
        return self._other(len(args) + len(names), names)(*args, *(kw[n] for n in names))

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
            leaves, structure = jax.tree.flatten(lowered.results)
            names = ["y"] if len(leaves) == 1 else [f"y[{i}]" for i in range(len(leaves))]
            result, hint = _nested(jax.tree.unflatten(structure, map(_named, names, leaves)), b.classes)
            u.hints = [hint]
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
    """How many arguments a function must have; -1 if it takes any number of them."""
    kinds = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    params = inspect.signature(f).parameters.values()
    return -1 if any(p.kind is p.VAR_POSITIONAL for p in params) else sum(p.kind in kinds and p.default is p.empty for p in params)


def from_jax(f: Callable, arguments: int | None = None, **options: Any) -> FromJax:
    """A function of JAX as one of Anfora. `arguments` is how many it is called with, if not all that have no default; options are
    those of jit."""
    return FromJax(f, arguments, **options)
