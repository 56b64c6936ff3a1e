# SPDX-License-Identifier: Apache-2.0
"""Transforms of functions: derivatives, batches, recomputation. Each gives a function that is compiled when it is
called, and stands for itself in compiled functions."""
from __future__ import annotations

import ast
import functools
import inspect
import itertools
import math
import re
import types
from typing import Any, Callable

from ._compile.emit import END, NAME, Builder
from ._function import Function
from ._jit import Jit, Kept, as_function
from ._compile.kinds import batched_hint, joined_hints, shape_hint
from ._ops import literal
from ._compile.known import ANY, skeleton
from ._compile.static import Call, _like_constant, argument_nodes, attribute, operation, outside, positional
from . import _core
from ._names import absent
from ._tree import Fixed, Shape, Untouched, in_order_of, structured, tree_leaves, tree_map
from ._types import ELEMENT_TYPES, dtype_name


# Transforms whose arguments are those of the function: what is static there is static here
ARGUMENTS_STAY = ("grad", "value_and_grad", "vmap", "jacrev", "jacfwd", "hessian", "checkpoint")


def of_argument(w: Any, node: Any) -> Shape:
    """What is known of an argument of a function that is transformed. A number with a point may be what the function is
    differentiated by, so it is no constant there."""
    return _without_floats(w.part_shape(node))


def _without_floats(s: Shape) -> Shape:
    if s.kind == "static":
        if isinstance(s.of, (float, complex)):
            return ANY
        like = _like_constant(s.of)
        return s if like is None or not any(isinstance(x, (float, complex)) for x in tree_leaves(s.of)) else skeleton(like)
    return Shape(s.kind, [_without_floats(p) for p in s.parts], s.names, s.of) if s.parts else s


def given_static(w: Any, f: Function, nodes: list) -> tuple[list, list[str]]:
    """The shapes of the arguments of a call, and these as texts; what the function takes as constants is in the shapes alone."""
    shapes, texts = [], []
    for i, node in enumerate(nodes):
        known, x = w.static(node) if i in f._static else (False, None)
        shapes.append(Shape("static", of=x) if known else of_argument(w, node))
        texts.append("0" if known else w.expr(node))
    return shapes, texts


def _row_of(s: Shape, axis: Any) -> Shape:
    """The shape of what one lane of a vmap has of an argument."""
    if axis is None or s.kind in ("none", "static"):
        return s
    if s.kind == "leaf":
        kind, dims = s.of
        at = axis % len(dims) if isinstance(axis, int) and dims else len(dims)
        return Shape("leaf", of=(kind, dims[:at] + dims[at + 1:]))
    axes = [axis] * len(s.parts) if isinstance(axis, int) else list(axis) if isinstance(axis, (tuple, list)) else \
        [axis[n] for n in s.names if n in axis] if isinstance(axis, dict) else []
    return Shape(s.kind, list(map(_row_of, s.parts, axes)), s.names, s.of) if len(axes) == len(s.parts) else s  # what does not fit is refused later


class Transformed(Function):
    """A transform of functions, such as ``grad(f)``."""

    def __init__(self, word: str, functions: tuple, options: dict[str, Any], nparam: int, name: str) -> None:
        super().__init__(name, nparam, static=functions[0]._static if word in ARGUMENTS_STAY else (), **functions[0]._inherited())
        self._word, self._functions, self._given = word, functions, options
        self._options_text = "".join(f", {k}={literal(v)}" for k, v in options.items())
        self._names = [f"a{i}" for i in range(nparam)]

    def _emit(self, b: Builder) -> str:
        return self._around([f._emit(b) for f in self._functions])

    def _emit_like(self, b: Builder, shapes: list[Shape]) -> str:
        if self._word == "vmap":
            shapes = [_row_of(s, axis) for s, axis in itertools.zip_longest(shapes, self._axes(frozenset())[:len(shapes)])]
        return self._around([self._functions[0]._emit_like(b, shapes), *(f._emit(b) for f in self._functions[1:])])

    def __reduce__(self) -> Any:
        return _transformed_again, (self._word, self._functions[0], self._given)

    def _optioned(self, options: dict[str, Any]) -> Function:
        """jit(grad(f), static_argnums=1) is grad(jit(f, static_argnums=1))."""
        if self._word not in ARGUMENTS_STAY or len(self._functions) > 1:
            return super()._optioned(options)
        own = {"dynamic": options["dynamic"]} if "dynamic" in options else {}  # rows of a batch are not those of its gradient
        made = _transformed_again(self._word, self._functions[0]._optioned({k: v for k, v in options.items() if k not in own}), self._given)
        made._dynamic = own.get("dynamic")
        return made

    def _around(self, inner: list[str], whole: frozenset = frozenset()) -> str:
        """`whole`: the arguments that a batch is not along, because they are defaults."""
        options = self._options_text
        if self._word == "vmap" and whole:
            options = "".join(f", {k}={literal(v)}" for k, v in (self._given | {"in_axes": self._axes(whole)}).items())
        return f"{self._word}({', '.join(inner)}{options})"

    def _emit_whole(self, b: Builder, shapes: list[Shape], whole: frozenset) -> str:
        """With arguments that no batch of the transforms within is along."""
        f = self._functions[0]
        if isinstance(f, Transformed) and f._word in ARGUMENTS_STAY and f._nparam == self._nparam:
            return self._around([f._emit_whole(b, shapes, whole), *(g._emit(b) for g in self._functions[1:])], whole)
        return self._around([f._emit_like(b, shapes), *(g._emit(b) for g in self._functions[1:])], whole)

    def _within(self) -> Function:
        """The function that is transformed, by this transform and those within that keep its arguments."""
        f: Function = self
        while isinstance(f, Transformed) and f._word in ARGUMENTS_STAY:
            f = f._functions[0]
        return f

    def _axes(self, whole: frozenset) -> tuple:
        axes = self._given.get("in_axes", 0)
        given = axes if isinstance(axes, (tuple, list)) else [axes] * self._nparam
        return tuple(None if i in whole else given[i] for i in range(self._nparam) if i in whole or i < len(given))

    def _emit_applied(self, w: Any, c: Call) -> str:
        """A call in a compiled function."""
        f, within = self._functions[0], self._within()
        f = within if hasattr(within, "_signature") and len(c.args) + len(c.kw) < self._nparam else f
        nodes = list(argument_nodes(w, c, f.__wrapped__).values()) if hasattr(f, "__wrapped__") else c.args
        if c.kw and not hasattr(f, "__wrapped__"):
            w.refuse(c.node, f"{self.__name__}() takes no arguments by name")
        if self._word == "vmap" and len(c.args) + len(c.kw) < len(nodes):
            given = set(f._signature.bind(*c.args, **c.kw).arguments)
            whole = frozenset(i for i, n in enumerate(f._signature.parameters) if n not in given)
            return f"{self._emit_whole(w.b, [of_argument(w, n) for n in nodes], whole)}{w.mark(c.node)}({w.exprs(nodes)})"
        if self._static:
            shapes, texts = given_static(w, f, nodes)
            return f"{self._emit_like(w.b, shapes)}{w.mark(c.node)}({', '.join(texts)})"
        return f"{self._emit_like(w.b, [of_argument(w, n) for n in nodes])}{w.mark(c.node)}({w.exprs(nodes)})"

    def _root(self, b: Builder, statics: dict[int, Any], shapes: list[Shape]) -> tuple[str, list[str]]:
        def write(unit: Any) -> str:
            unit.wish = self.__name__
            names = [n for i, n in enumerate(self._names) if i not in statics]
            given = ["0" if i in self._static and i in statics else outside(b, statics[i]) if i in statics else n
                     for i, n in enumerate(self._names)]
            text = self._emit_like(b, shapes)
            unit.hints = [self._hint(b, text, shapes)]
            if statics and self._word in ARGUMENTS_STAY:
                text = self._emit_whole(b, shapes, frozenset(statics))
            return f"def \ue001{unit.number}\ue002({', '.join(names)}) {{\n  {text}({', '.join(given)})\n}}\n"
        return b.unit(self, self.__name__, write), \
            [n for i, n in enumerate(self._names) if i not in statics]

    def _like_arguments(self, shapes: list[Shape]) -> Any:
        """The hint of derivatives by arguments: they are like those."""
        wrt, names = self._given.get("wrt", 0), list(getattr(getattr(self._within(), "_signature", None), "parameters", ()))
        at = [names.index(i) if i in names else i for i in (wrt if isinstance(wrt, (tuple, list)) else (wrt,))]
        if not all(isinstance(i, int) and -len(shapes) <= i < len(shapes) for i in at):
            return None
        likes = [shape_hint(shapes[i]) for i in at]
        return ("tuple", likes) if isinstance(wrt, (tuple, list)) else likes[0]

    def _hint(self, b: Builder, text: str, shapes: list[Shape]) -> Any:
        """Which parts of the result are lists: what the function's text says of its own; derivatives are like the arguments."""
        inner = hint_of(b, self._functions[0], text, shapes)
        if self._word in ("vmap", "checkpoint", "jacrev", "jacfwd"):
            return batched_hint(inner) if self._word == "vmap" else inner
        if self._word not in ("grad", "value_and_grad"):
            return None
        like = self._like_arguments(shapes)
        aux = inner[1][1] if self._given.get("has_aux") and inner is not None and inner[0] == "tuple" and inner[1] else None
        if self._word == "grad":
            return ("tuple", [like, aux]) if self._given.get("has_aux") else like
        return "tuple", [("tuple", [None, aux]) if self._given.get("has_aux") else None, like]

    def _bind(self, args: tuple, kw: dict) -> tuple:
        f = self._within()
        if self._word != "vmap" or not hasattr(f, "_signature"):
            return self._functions[0]._bind(args, kw)
        given = f._signature.bind(*args, **kw).arguments  # a batch is along what is given, not along defaults
        return tuple(given[n] if n in given else Fixed(p.default) for n, p in f._signature.parameters.items())


def hint_of(b: Builder, f: Function, text: str, shapes: list[Shape]) -> Any:
    """Which parts of the result of a function are lists, whose text has been made."""
    if isinstance(f, Transformed):
        return f._hint(b, text, shapes)
    unit = re.search(f"{NAME}(\\d+){END}", text)
    return joined_hints(b.units[int(unit[1])].hints) if unit else None


def name_of(word: str, f: Function) -> str:
    return f"{word}_{f.__name__}".replace("<lambda>", "lambda")


def _transformed_again(word: str, f: Function, given: dict) -> Any:
    return globals()[word](f, **given)


class Various(Transformed):
    """A transform of a function that takes any number of arguments: another one for each number."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._by_number: dict[int, Transformed] = {}

    def _of(self, n: int) -> Function:
        if n not in self._by_number:
            self._by_number[n] = Transformed(self._word, (self._functions[0]._of(n),), self._given, n, self.__name__)
        return self._by_number[n]

    def __call__(self, *args: Any) -> Any:
        return self._of(len(args))(*args)

    def _emit_applied(self, w: Any, c: Call) -> str:
        return self._of(len(c.args))._emit_applied(w, c)


class Transform:
    """One transform: called with a function it gives a function; with options alone, a decorator."""

    def __init__(self, name: str, options: dict[str, Any], doc: str) -> None:
        self.__name__ = self.__qualname__ = name
        self.__doc__ = doc
        self._options = options

    def _given(self, kw: dict) -> dict:
        if "argnums" in kw:
            kw["wrt"] = kw.pop("argnums")
        if "policy" in kw:
            kw["keep"] = kw.pop("policy") or "arguments"
        if self.__name__ == "vmap":  # of several machines
            kw = {k: x for k, x in kw.items() if k != "spmd_axis_name"}
        for k in kw:
            if k not in self._options:
                raise TypeError(f"{self.__name__}() has no argument {k}; it takes {', '.join(self._options)}")
        return kw

    def __call__(self, f: Any = None, *args: Any, **kw: Any) -> Any:
        if kw.pop("holomorphic", False):
            return holomorphic(self, f, *args, **kw)
        static = kw.pop("static_argnums", ()) if self.__name__ == "checkpoint" else ()
        if self.__name__ == "checkpoint":
            kw.pop("prevent_cse", None)  # which changes nothing here
        kw = self._given(dict(zip(self._options, args)) | kw)
        if f is None:
            return functools.partial(self, **kw, **({"static_argnums": static} if static not in ((), None) else {}))
        f = as_function(f) if static in ((), None) else Jit(f, static_argnums=static)
        return (Transformed if f._nparam >= 0 else Various)(self.__name__, (f,), kw, f._nparam, name_of(self.__name__, f))

    def _emit(self, _b: Builder) -> str:
        return self.__name__

    def _emit_call(self, w: Any, c: Call) -> str:
        return self._written(w, c, [w.expr(c.args[0])] if c.args else [])

    def _written(self, w: Any, c: Call, parts: list[str]) -> str:
        for k, v in self._given(dict(zip(self._options, c.args[1:])) | c.kw).items():
            if k != "keep" or w.static(v) != (True, None):
                parts.append(f"{k}={attribute(w, v, 'any')}")
        return f"{self.__name__}{w.mark(c.node)}({', '.join(parts)})"

    def _emit_twice(self, w: Any, c: Call, transform: Call) -> str:
        """grad(f)(x, y) in a compiled function: f is known, and what its arguments are like."""
        known, f = w.static(transform.args[0]) if transform.args else (False, None)
        f = f if isinstance(f, Function) else as_function(f) if known and isinstance(f, types.FunctionType) else None
        if f is not None and f._nparam < 0:
            inner = f._of(len(c.args))._emit_like(w.b, [of_argument(w, n) for n in c.args])
            return f"{self._written(w, transform, [inner])}{w.mark(c.node)}({w.exprs(c.args)})"
        inside = transformed_known(w, transform) if f is None else None
        if inside is not None and 0 <= len(c.args) + len(c.kw) < inside._nparam and hasattr(inside._within(), "_signature"):
            return inside._emit_applied(w, c)  # parameters with defaults, which the transforms within leave
        if f is None or not hasattr(f, "__wrapped__"):
            inner = w.body_text(transform.args[0], [w.known_tree(n) for n in c.args]) if transform.args and self.__name__ in ARGUMENTS_STAY else None
            return f"{w.expr(c.node.func) if inner is None else self._written(w, transform, [inner])}{w.mark(c.node)}({positional(w, c)})"
        nodes = list(argument_nodes(w, c, f.__wrapped__).values())
        if f._static:
            shapes, texts = given_static(w, f, nodes)
            return f"{self._written(w, transform, [f._emit_like(w.b, shapes)])}{w.mark(c.node)}({', '.join(texts)})"
        inner = f._emit_like(w.b, [of_argument(w, n) for n in nodes])
        if self.__name__ == "vmap" and len(c.args) + len(c.kw) < len(nodes):
            options = {k: w.static(v) for k, v in (dict(zip(self._options, transform.args[1:])) | transform.kw).items()}
            if not all(known for known, _ in options.values()):
                w.refuse(transform.node, "the axes of vmap must be constants, where defaults of parameters are left")
            return self(f, **{k: x for k, (_, x) in options.items()})._emit_applied(w, c)
        return f"{self._written(w, transform, [inner])}{w.mark(c.node)}({w.exprs(nodes)})"


def transformed_known(w: Any, c: Call) -> Any:
    """The transformed function that a call of a transform gives, such as vmap(grad(f), (None, 0)), if all of it is known; else None."""
    known, transform = w.static(c.node.func)
    if not known or not isinstance(transform, Transform) or not c.args:
        return None
    known, f = w.static(c.args[0])
    if not known and isinstance(c.args[0], ast.Call) and not any(isinstance(a, ast.Starred) for a in c.args[0].args):
        f = transformed_known(w, Call(c.args[0], None, False))
    if not isinstance(f, (Function, types.FunctionType)):
        return None
    options = {k: w.static(v) for k, v in (dict(zip(transform._options, c.args[1:])) | c.kw).items()}
    return transform(f, **{k: x for k, (_, x) in options.items()}) if all(known for known, _ in options.values()) else None


def holomorphic(transform: Transform, f: Any, *args: Any, **kw: Any) -> Any:
    """The complex derivative of a holomorphic function: the conjugate of the gradient of its real part."""
    from . import numpy as anp

    def real_part(*xs):
        return anp.real(f(*xs))

    def derivative(*xs):
        return hyper_map(anp.conj, inner(*xs))
    if transform.__name__ != "grad":
        raise TypeError(f"{transform.__name__}() takes no holomorphic functions; grad() does")
    inner = transform(real_part, *args, **kw)
    return Jit(derivative)


class _Policies:
    """What checkpoint(policy=) takes, by JAX's names."""

    everything_saveable = "all"
    nothing_saveable = "arguments"
    dots_saveable = checkpoint_dots = "products"
    dots_with_no_batch_dims_saveable = checkpoint_dots_with_no_batch_dims = "products"


checkpoint_policies = _Policies()
MOST_APPLIED = 256  # functions whose code is kept


class Applied:
    """jvp, vjp and linearize: transforms that are given the arguments at once."""

    def __init__(self, name: str, doc: str) -> None:
        self.__name__ = self.__qualname__ = name
        self.__doc__ = doc
        self._known: dict = {}

    def __call__(self, f: Any, *args: Any, has_aux: bool = False) -> Any:
        n = len(args)
        if self.__name__ == "jvp":
            if n != 2 or not all(isinstance(a, (tuple, list)) for a in args):
                raise TypeError("jvp() takes a function, a tuple of arguments and a tuple of tangents")
            for i, (x, by) in enumerate(zip(*args)):
                if _is_integer(x) and by is not None:
                    raise TypeError(f"jvp(): argument {i} is an integer, which has no derivative: write a number with a point, or x.astype(float)")
            args, n = (args[0], in_order_of(args[0], args[1])), len(args[0])
        key = (f, n, has_aux)
        if key not in self._known:
            if len(self._known) == MOST_APPLIED:  # the oldest
                del self._known[next(iter(self._known))]
            self._known[key] = _AppliedFunction(self.__name__, as_function(f)._of(n), len(args), has_aux)
        found = self._known[key](*args)
        if self.__name__ == "jvp":
            return _like_results(self._known[key], args[0], has_aux, found)
        return _kept(self._known[key], f, args, has_aux, found)

    def _emit(self, _b: Builder) -> str:
        return self.__name__

    def _emit_call(self, w: Any, c: Call) -> str:
        parts = w.exprs(c.args) + "".join(f", {k}={attribute(w, v, 'any')}" for k, v in c.kw.items())
        return f"{self.__name__}{w.mark(c.node)}({parts})"


def _is_integer(x: Any) -> bool:
    return type(x) is int or str(getattr(x, "dtype", "")).startswith(("i", "u"))


def _like_results(transform: Transformed, args: Any, has_aux: bool, found: tuple, values: int = 2) -> tuple:
    """The first `values` of some results, and what has_aux gives, in the structure of what the function gives."""
    if not any(isinstance(x, (tuple, dict)) for x in found):
        return found
    like = transform._functions[0]._result_types(tuple(args), lambda shape, name: 0)
    value, *aux = like if has_aux else (like,)
    return tuple(structured(s, x) for s, x in zip([value] * values + aux, found))


def _kept(transform: Transformed, f: Any, args: tuple, has_aux: bool, found: Any) -> Any:
    """The results of vjp or linearize in their structure, with a function that can be transformed."""
    fn, results = (None, found) if has_aux and transform._word == "vjp" else (found[1]._fn, (found[0], *found[2:]))
    value, *aux = _like_results(transform, args, has_aux, results, 1)
    given = tuple(tree_map(lambda x: x.copy() if type(x).__name__ == "ndarray" else x, a) for a in args)  # as they are now

    def pullback(adjoint):
        return vjp(f, *given, has_aux=has_aux)[1](adjoint)

    def tangent(*tangents):
        return linearize(f, *given)[1](*tangents)
    again, like = (pullback, tree_map(lambda _: 0, given)) if transform._word == "vjp" else (tangent, tree_map(lambda _: 0, value))
    return (value, Kept(fn, again, like), *aux)


class _AppliedFunction(Transformed):
    def __init__(self, word: str, f: Function, n: int, has_aux: bool) -> None:
        super().__init__(word, (f,), {"has_aux": True} if has_aux else {}, n, name_of(word, f))

    def _emit_applied(self, w: Any, c: Call) -> str:
        return f"{self._emit(w.b)}{w.mark(c.node)}({positional(w, c)})"

    def _root(self, b: Builder, statics: dict[int, Any], shapes: list[Shape]) -> tuple[str, list[str]]:
        def write(unit: Any) -> str:
            unit.wish = self.__name__
            names = ", ".join(self._names)
            primals = shapes[0].parts if self._word == "jvp" and shapes and shapes[0].kind in ("tuple", "list") else shapes
            inner = self._with_defaults(b, primals)
            call = f"{self._word}({inner}, {names}{self._options_text})"
            if self._given and self._word == "vjp":  # the function that vjp gives is made anew: _kept
                call = f"r = {call}\n  (r[0], r[2])"
            return f"def \ue001{unit.number}\ue002({names}) {{\n  {call}\n}}\n"
        return b.unit(self, self.__name__, write), self._names

    def _with_defaults(self, b: Builder, primals: list[Shape]) -> str:
        """The function of the arguments that are given; the others are constants."""
        f, n = self._functions[0], len(primals)
        text = f._emit_like(b, primals)
        if n >= f._nparam:
            return text
        rest = [x.value if isinstance(x, Fixed) else x for x in f._bind((None,) * n, {})[n:]]
        names = ", ".join(f"p{i}" for i in range(n))
        return f"fn ({names}) {{ {text}({names}, {', '.join(outside(b, x) for x in rest)}) }}"


def nothing_for(f: Any) -> set[int]:
    """The arguments for which the backward rule of a function returns None."""
    from ._compile.origin import source_of
    if not hasattr(f, "__wrapped__"):
        return set()
    node, _ = source_of(f.__wrapped__)
    results = [node.body] if isinstance(node, ast.Lambda) else [n.value for n in ast.walk(node) if isinstance(n, ast.Return)]
    return {i for r in results if isinstance(r, ast.Tuple) for i, e in enumerate(r.elts)
            if isinstance(e, ast.Constant) and e.value is None}


def no_symbols(symbolic_zeros: bool) -> None:
    if symbolic_zeros:
        raise TypeError("rules take arrays of zeros, not symbols for them: leave symbolic_zeros out")


NAMED = ("with its rules",)
OF_NUMBERS = (int, float, bool, len, abs, min, max, sum, round)  # which give no functions
MOST_RULES = 2  # how often rules are written again for a function that they make of their own


def makes_function(w: Any, node: Any, asked: frozenset = frozenset()) -> bool:
    """Whether an argument may be a function that is made where the call is, of what is known there only when the program runs."""
    if isinstance(node, ast.Lambda):
        return True
    if w.static(node)[0]:
        return False
    if isinstance(node, ast.Call):
        known, f = w.static(node.func)
        return not known or operation(f) is None and f not in OF_NUMBERS
    if isinstance(node, ast.IfExp):
        return any(makes_function(w, n, asked) for n in (node.body, node.orelse))
    if not isinstance(node, ast.Name) or node.id in asked:
        return False
    return any(x is None or makes_function(w, x, asked | {node.id}) for x in _bound_to(w, node.id))


def _bound_to(w: Any, name: str) -> list:
    """What a function binds a name to; None: to a function within."""
    from ._compile.origin import source_of
    found: list = []
    whole, _ = source_of(w.fn)
    for n in ast.walk(whole):
        if isinstance(n, ast.FunctionDef) and n.name == name and n is not whole:
            found.append(None)
        elif isinstance(n, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and n.value is not None:
            targets = n.targets if isinstance(n, ast.Assign) else [n.target]
            if any(isinstance(t, ast.Name) and t.id == name for target in targets for t in ast.walk(target)):
                found.append(n.value)
    return found


class Custom(Transformed):
    """A function with a derivative of its own."""

    _define = ""  # how its rules are given

    def __init__(self, word: str, f: Any, nondiff_argnums: Any, nondiff_argnames: Any = ()) -> None:
        f = as_function(f)
        super().__init__(word, (f,), {}, f._nparam, f.__name__)
        given = (nondiff_argnums,) if isinstance(nondiff_argnums, int) else tuple(nondiff_argnums)
        parameters = list(getattr(f, "_signature", inspect.Signature()).parameters)
        for n in (nondiff_argnames,) if isinstance(nondiff_argnames, str) else nondiff_argnames:
            if n not in parameters:
                raise ValueError(absent(f"{f.__name__}()", n, parameters))
            given += (parameters.index(n),)
        self._nondiff = tuple(sorted({i % max(1, f._nparam) for i in given}))
        self.__wrapped__ = getattr(f, "__wrapped__", None)
        self._signature = getattr(f, "_signature", None)

    def _rules(self, b: Builder) -> list[str] | None:
        """The function and its rules as texts; None: one of these is being written."""
        if len(self._functions) == 1:
            raise TypeError(f"{self.__name__} has no derivative yet: call {self._define}")
        if id(self) in b.within:
            return None
        b.within.add(id(self))
        try:
            texts: list[str] = []
            for g, shapes in zip(self._functions, (lambda: None, *self._given_to_rules(b))):
                like = shapes()
                texts.append(g._emit(b) if like is None or g._nparam != len(like) else g._emit_like(b, like))
            self._write_named(b, texts)
            return texts
        finally:
            b.within.discard(id(self))

    def _given_to_rules(self, b: Builder) -> tuple[Callable[[], list[Shape] | None], ...]:
        """What the arguments of each rule are like, when those before it are written; None: nothing is known."""
        return (lambda: None,) * (len(self._functions) - 1)

    def _emit(self, b: Builder) -> str:
        texts = self._rules(b)
        return b.unit(self, self.__name__, lambda _: "", NAMED) if texts is None else self._with(texts)

    def _differs(self, w: Any, nodes: list) -> bool:
        """Whether a call by its own rules may be of other types at each depth: of a function that they make, and of a tuple or record
        that they put together. A number or array is of one type, and one text serves all depths."""
        return id(self) in w.b.within and any(makes_function(w, n) for i, n in enumerate(nodes) if i in self._nondiff) and \
            any(w.part_shape(n).parts for i, n in enumerate(nodes) if i not in self._nondiff)

    def _emit_deeper(self, b: Builder) -> str:
        """The function for a call by its own rules that differs at each depth: with rules of its own, where one text for all depths would
        be of all these functions and types at once. At the last depth, the function without rules."""
        level = b.depths.get(id(self), 0) + 1
        if level > MOST_RULES:
            return self._functions[0]._emit(b)

        def write(u: Any) -> str:
            u.wish = self.__name__
            outer, ours = b.by_object, b.by_object.get((id(self), NAMED))
            b.by_object = {k: x for k, x in outer.items() if x not in b.current and not (ours and b.reaches(x, ours))}
            b.depths[id(self)] = level
            b.within.discard(id(self))
            try:
                names = ", ".join(self._names)
                return f"def {NAME}{u.number}{END}({names}) {{\n  ({self._emit(b)})({names})\n}}\n"
            finally:
                b.by_object = outer
                b.depths[id(self)] = level - 1
                b.within.add(id(self))
        return b.unit(self, self.__name__, write, (*NAMED, level))

    def _write_named(self, b: Builder, texts: list[str]) -> None:
        """The function that its own rules call, which has these rules, too: written when they are."""
        unit = b.by_object.get((id(self), NAMED))
        if unit is None or unit.text:
            return
        names, text = ", ".join(self._names), self._with(texts)
        unit.text = f"def {NAME}{unit.number}{END}({names}) {{\n  ({text})({names})\n}}\n"
        unit.uses = {int(n) for n in re.findall(f"{NAME}(\\d+){END}", text)}

    def _with(self, texts: list[str]) -> str:
        """The function with its rules. Arguments that are not differentiated by stand before the others of the backward rule;
        the function of the others alone has the derivative."""
        if not self._nondiff:
            return self._around_rules(texts, self._names)
        left = [n for i, n in enumerate(self._names) if i not in self._nondiff]
        whole, first, free = (", ".join(x) for x in (self._names, [self._names[i] for i in self._nondiff], left))
        bound = [f"fn ({free}) {{ {texts[0]}({whole}) }}"]
        if self._word == "custom_vjp":
            bound += [f"fn ({free}) {{ {texts[1]}({whole}) }}", f"fn (kept_, dy_) {{ {texts[2]}({first}, kept_, dy_) }}"]
        else:
            bound += [f"fn (x_, dx_) {{ {texts[1]}({first}, x_, dx_) }}"]
        return f"fn ({whole}) {{ ({self._around_rules(bound, left)})({free}) }}"

    def _around_rules(self, texts: list[str], names: list[str]) -> str:
        return f"{self._word}({', '.join(texts)})"

    def _emit_like(self, b: Builder, shapes: list[Shape]) -> str:
        return self._emit(b)

    def _emit_with(self, b: Builder, statics: dict[str, Any], shapes: dict[str, Shape]) -> str:
        return self._emit(b)

    def _emit_applied(self, w: Any, c: Call) -> str:
        nodes = list(argument_nodes(w, c, self.__wrapped__).values()) if self.__wrapped__ is not None else c.args
        return f"{self._emit_deeper(w.b) if self._differs(w, nodes) else self._emit(w.b)}{w.mark(c.node)}({w.exprs(nodes)})"

    def _bind(self, args: tuple, kw: dict) -> tuple:
        return self._functions[0]._bind(args, kw)


class CustomVjp(Custom):
    """A function with a derivative of its own: ``defvjp(forward, backward)``. ``forward`` gives (value, kept),
    ``backward(kept, gradient)`` the gradients of the arguments, a tuple. ``nondiff_argnums``: arguments that are functions or
    constants; ``backward`` takes these first, and gives gradients of the others."""

    _define = "defvjp(forward, backward)"

    def _given_to_rules(self, b: Builder) -> tuple[Callable[[], list[Shape] | None], ...]:
        """What the forward rule keeps has the structure that it returns."""
        def backward() -> list[Shape] | None:
            f = getattr(self._functions[1], "__wrapped__", None)
            likes = [x for (i, _), u in b.by_object.items() if i == id(f) for x in u.likes]
            if not likes or any(x is None or x.kind != "tuple" or len(x.parts) != 2 for x in likes):
                return None
            kept = [skeleton(x.parts[1]) for x in likes]
            return [*[ANY] * len(self._nondiff), kept[0], ANY] if all(x.key() == kept[0].key() for x in kept) else None
        return lambda: None, backward

    def __init__(self, f: Any, nondiff_argnums: Any = (), nondiff_argnames: Any = ()) -> None:
        super().__init__("custom_vjp", f, nondiff_argnums, nondiff_argnames)

    def defvjp(self, forward: Any, backward: Any, symbolic_zeros: bool = False, optimize_remat: bool = False) -> None:
        """The rules of its derivative. `optimize_remat` changes nothing."""
        no_symbols(symbolic_zeros)
        self._functions = (self._functions[0], as_function(forward), as_function(backward))

    def _around_rules(self, texts: list[str], names: list[str]) -> str:
        f, forward, backward = texts
        zero = nothing_for(self._functions[2])
        if zero:  # None is the gradient 0, of the shape of the argument
            whole = ", ".join(names)
            forward = f"fn ({whole}) {{ r = {forward}({whole}); (r[0], (r[1], {whole})) }}"
            parts = [f"hyper_map(fn (x) {{ ZerosLike(x) }}, kept[{i + 1}])" if i in zero else f"g[{i}]" for i in range(len(names))]
            backward = f"fn (kept, dy) {{ g = {backward}(kept[0], dy); ({', '.join(parts)}{',' if len(parts) == 1 else ''}) }}"
        return f"custom_vjp({f}, {forward}, {backward})"


class CustomJvp(Custom):
    """A function with a derivative of its own: ``defjvp(rule)``; ``rule(primals, tangents)`` gives both results. ``nondiff_argnums``:
    arguments that are functions or constants, which the rule takes first."""

    _define = "defjvp(rule)"

    def _given_to_rules(self, b: Builder) -> tuple[Callable[[], list[Shape] | None], ...]:
        several = Shape("tuple", [ANY] * (self._nparam - len(self._nondiff)))
        return (lambda: [*[ANY] * len(self._nondiff), several, several],)

    def __init__(self, f: Any, nondiff_argnums: Any = (), nondiff_argnames: Any = ()) -> None:
        super().__init__("custom_jvp", f, nondiff_argnums, nondiff_argnames)

    def defjvp(self, rule: Any, symbolic_zeros: bool = False) -> Any:
        """The rule of its derivative; serves as a decorator."""
        no_symbols(symbolic_zeros)
        self._functions = (self._functions[0], as_function(rule))
        return rule

    def defjvps(self, *rules: Any) -> None:
        """A rule for each argument: rule(tangent, value, *arguments) gives a part of the result's tangent."""
        n = self._nparam
        names, given = [f"x{i}" for i in range(n)], [(i, as_function(r)) for i, r in enumerate(rules) if r is not None]
        self._functions = (self._functions[0], _Summed(self._functions[0], given, names))


class _Summed(Function):
    """The rule of a derivative that is a sum, of one part for each argument."""

    def __init__(self, f: Function, rules: list, names: list[str]) -> None:
        super().__init__(f.__name__, 2)
        self._f, self._rules, self._names = f, rules, names

    def _emit(self, b: Builder) -> str:
        whole = ", ".join(self._names)
        parts = " + ".join(f"{r._emit(b)}(dx[{i}], y, {whole})" for i, r in self._rules) or "ZerosLike(y)"
        return f"fn (x, dx) {{ ({whole}{',' if len(self._names) == 1 else ''}) = x; y = {self._f._emit(b)}({whole}); (y, {parts}) }}"


custom_vjp, custom_jvp = CustomVjp, CustomJvp

_WRT = {"wrt": 0, "has_aux": False, "allow_int": False}
grad = Transform("grad", _WRT, """The gradient of a function that gives one number, by its first argument.

    ``wrt`` (or ``argnums``): positions or names of the arguments to differentiate by; several give a tuple.
    ``has_aux``: the function gives (value, more), and its gradient (gradient, more).
    The gradient of a tree has the tree's structure.""")
value_and_grad = Transform("value_and_grad", _WRT, """Like grad; gives (value, gradient).""")
jacrev = Transform("jacrev", _WRT, """The Jacobian, row by row: for functions with few results.""")
jacfwd = Transform("jacfwd", _WRT, """The Jacobian, column by column: for functions with few arguments.""")
hessian = Transform("hessian", _WRT, """The second derivatives of a function that gives one number.""")
vmap = Transform("vmap", {"in_axes": 0, "out_axes": 0, "axis_name": None}, """The function over a batch: arguments have one dim more.

    ``in_axes``: where that dim is, for all arguments, for each, or for each part of one (a tree like the argument, or
    the upper part of one); None: there is no such dim. ``out_axes``: the same for the result.
    ``axis_name``: a name for the batch, by which lax.psum(x, name) and its like find it.""")
checkpoint = Transform("checkpoint", {"keep": "arguments", "rounds": 0, "memory": 0, "tree": False},
                       """A function that keeps little for its derivative and computes the rest again.

    ``keep``: "arguments" alone, or "products", the results of matrix products and convolutions too, or "all".
    ``rounds``: of a loop, the state once every so many rounds. ``memory``: bytes, from which the number of rounds follows.
    ``tree``: a loop's rounds are halved until they are so few; less is kept at a time, more is computed again.""")
jvp = Applied("jvp", """jvp(f, primals, tangents): (value, derivative in the direction of the tangents).""")
vjp = Applied("vjp", """vjp(f, *primals): (value, function from the gradient of the value to those of the arguments).""")
linearize = Applied("linearize", """linearize(f, *primals): (value, the derivative there as a function).""")


def hvp(f: Any, primals: tuple, tangents: tuple) -> Any:
    """The second derivatives of a function that gives one number times a direction: hvp(f, (x,), (v,))."""
    return jvp(grad(f), primals, tangents)[1]


class ShapeDtypeStruct:
    """The shape and element type of an array."""

    def __init__(self, shape: Any, dtype: Any) -> None:
        self.shape, self.dtype = tuple(shape), ELEMENT_TYPES[str(dtype_name(dtype))]

    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: math.prod(self.shape))

    def __repr__(self) -> str:
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype})"

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, ShapeDtypeStruct) and (self.shape, self.dtype) == (other.shape, other.dtype)

    def __hash__(self) -> int:
        return hash((self.shape, str(self.dtype)))


def eval_shape(f: Any, *args: Any) -> Any:
    """What f would give for arguments, which may be ShapeDtypeStructs: their shapes and element types. Nothing is computed."""
    given = tree_map(lambda x: Untouched(str(x.dtype), x.shape) if isinstance(x, ShapeDtypeStruct) else x, args)
    return as_function(f)._of(len(args))._result_types(given, ShapeDtypeStruct)


class _StopGradient:
    """x, as a constant to derivatives."""

    __name__ = "stop_gradient"

    def __call__(self, x: Any) -> Any:
        return x

    def _emit(self, _b: Builder) -> str:
        return "stop_gradient"


stop_gradient = _StopGradient()


class _HyperMap:
    """hyper_map(f, tree, ...): f on each leaf; of compiled functions what tree_map is of Python's."""

    __name__ = "hyper_map"

    def __call__(self, f: Callable, *trees: Any) -> Any:
        from ._tree import tree_map
        return tree_map(f, *trees)

    def _emit(self, _b: Builder) -> str:
        return "hyper_map"


hyper_map = _HyperMap()
