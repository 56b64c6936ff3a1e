# SPDX-License-Identifier: Apache-2.0
"""`jit`: compiled functions of Python functions, methods and partials, and of text; what transforms take is made here."""
from __future__ import annotations

import functools
import inspect
import sys
import types
from typing import Any, Callable, Collection, overload

from . import _core
from ._compile.emit import Builder
from ._compile.known import ANY
from ._compile.source import declared_types, emit_function
from ._compile.static import BUILTINS, outside
from ._compile.various import by_number
from ._errors import CompileError, warn
from ._function import Closure, Function
from ._tree import Fixed, Shape, shape_of, structured
from ._types import TensorType

SIZED = ("E0520", "E0953", "W0908")  # what is said of sizes that values tell


class Jit(Function):
    """A Python function, compiled from its own source."""

    def __init__(self, fn: Any, static_argnums: Any = (), static_argnames: Any = (), **options: Any) -> None:
        self.__wrapped__ = fn
        self._signature = inspect.signature(fn, follow_wrapped=False)
        names = list(self._signature.parameters)
        static = {static_argnums} if isinstance(static_argnums, int) else set(static_argnums)
        by_name = (static_argnames,) if isinstance(static_argnames, str) else static_argnames
        for n in by_name:
            if n not in names:
                raise ValueError(f"jit: static_argnames has {n!r}, which is no parameter of {fn.__name__}{self._signature}")
        static |= {names.index(n) for n in by_name}
        various = any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in self._signature.parameters.values())
        wrong = [i for i in static if not various and not -len(names) <= i < len(names)]
        if wrong:
            raise ValueError(f"jit: static_argnums has {wrong[0]}, and {fn.__name__}{self._signature} has {len(names)} parameters")
        super().__init__(fn.__name__, -1 if various else len(names), static=tuple(i % max(1, len(names)) for i in static), **options)
        functools.update_wrapper(self, fn)
        self._types: dict[int, TensorType] | None = None
        self._fixed = {n: Fixed(p.default) for n, p in self._signature.parameters.items()
                       if type(p.default) in (int, bool) and names.index(n) not in self._static}

    def _optioned(self, options: dict[str, Any]) -> Function:
        if type(self) is not Jit:
            return super()._optioned(options)
        statics = {} if options.keys() & {"static_argnums", "static_argnames"} else {"static_argnums": tuple(self._static)}
        return Jit(self.__wrapped__, **(self._inherited() | {"dynamic": self._dynamic} | statics | options))

    def _plan(self, args: tuple, whole: bool = False) -> Any:
        return self._plan_of_changing(args) or super()._plan(args, whole)

    def _plan_of_changing(self, args: tuple) -> Any:
        from ._changing import plan_of_changing
        return plan_of_changing(self, args) if type(self) is Jit and self._nparam >= 0 else None

    def _with_static(self, at: list[int]) -> Jit | None:
        """The same, of which code is made for each value of these arguments; None: there is none."""
        return self._optioned({"static_argnums": at}) if type(self) is Jit else None  # type: ignore[return-value]

    def _plan_by_value(self, codes: Collection[str], args: tuple) -> Any:
        declared = self._declared()
        numbers = [i for i, x in enumerate(args) if type(x) is int and i not in self._static and i not in declared]
        if self._nparam < 0 or not numbers:
            return None
        known = self._variants.get(("value", *numbers))
        other = known or self._with_static(sorted({*self._static, *numbers}))
        if other is None:
            return None
        try:
            if other._plan(args, whole=True) is None:
                return None
        except CompileError:
            return None
        if known is None:
            self._variants["value", *numbers] = other
            names = [n for i, n in enumerate(self._signature.parameters) if i in numbers]
            why = "sizes follow" if any(c in SIZED for c in codes) else "what can be compiled follows"
            warn(f"{self.__name__}: {why} from {' or '.join(names)}, so code is made for each value of {'them' if len(names) > 1 else 'it'}; "
                 f"jit(static_argnames={names}) says that this is meant")
        return _core.Plan(None, [], [], [], [], (), (other,), lambda args: other(*args))

    def _emit(self, b: Builder) -> str:
        if self._nparam < 0:
            return by_number(lambda n: Spread(self, n)._emit(b))
        return emit_function(b, self.__wrapped__)

    def _emit_with(self, b: Builder, statics: dict[str, Any], shapes: dict[str, Shape]) -> str:
        return emit_function(b, self.__wrapped__, statics, shapes)

    def _emit_like(self, b: Builder, shapes: list[Shape]) -> str:
        names = list(self._signature.parameters)
        constant = {i: shapes[i].of for i in self._static if i < len(shapes) and shapes[i].kind == "static"}
        text = emit_function(b, self.__wrapped__, {names[i]: x for i, x in constant.items()},
                             {n: s for i, (n, s) in enumerate(zip(names, shapes)) if i not in constant})
        if not constant:
            return text
        taken = [f"p{i}" for i in range(len(shapes))]
        return f"fn ({', '.join(taken)}) {{ {text}({', '.join(n for i, n in enumerate(taken) if i not in constant)}) }}"

    def _root(self, b: Builder, statics: dict[int, Any], shapes: list[Shape]) -> tuple[str, list[str]]:
        names = list(self._signature.parameters)
        root = emit_function(b, self.__wrapped__, {names[i]: x for i, x in statics.items()},
                             {names[i]: s for i, s in enumerate(shapes) if i not in statics})
        return root, [n for i, n in enumerate(names) if i not in statics]

    def __reduce__(self) -> Any:
        """For pickle: the function by its name, or how it is made of one."""
        found: Any = sys.modules.get(self.__module__)
        for part in self.__qualname__.split("."):
            found = getattr(found, part, None)
        if found is self:
            return self.__qualname__
        backend, fast, threads, tune = self._options
        return _again, (self.__wrapped__, tuple(self._static), dict(backend=backend, fast=fast, threads=threads, tune=tune))

    def _of(self, n: int) -> Function:
        return self if self._nparam >= 0 else Spread(self, n)

    def _chosen(self, args: tuple, kw: dict) -> dict[int, Any]:
        if self._nparam < 0:
            return super()._chosen(args, kw)
        names = list(self._signature.parameters)
        return {names.index(n): x for n, x in self._signature.bind_partial(*args, **kw).arguments.items()}

    def _declared(self) -> dict[int, TensorType]:
        if self._types is None:
            types_ = declared_types(self.__wrapped__)
            self._types = {i: types_[n] for i, n in enumerate(self._signature.parameters) if n in types_}
        return self._types

    def _bind(self, args: tuple, kw: dict) -> tuple:
        try:
            bound = self._signature.bind(*args, **kw)
        except TypeError as e:
            raise TypeError(f"{self.__name__}{self._signature}: {e}") from None
        given = set(bound.arguments)
        bound.apply_defaults()
        return tuple(x if n in given else self._fixed.get(n, x) for n, x in ((n, bound.arguments[n]) for n in self._signature.parameters))


def _again(fn: Any, static: tuple, options: dict) -> Any:
    return jit(fn, static_argnums=static, **options)


class Spread(Function):
    """A function that takes any number of arguments, called with n of them."""

    def __init__(self, f: Jit, n: int) -> None:
        super().__init__(f.__name__, n)
        self._f, self._names = f, [f"a{i}" for i in range(n)]

    def _emit(self, b: Builder) -> str:
        return self._emit_like(b, [ANY] * self._nparam)

    def _emit_like(self, b: Builder, shapes: list[Shape]) -> str:
        signature = self._f._signature
        bound = signature.bind(*zip(self._names, shapes))
        bound.apply_defaults()
        texts, inner = [], []
        for name, p in signature.parameters.items():
            x = bound.arguments[name]
            if p.kind is p.VAR_POSITIONAL:
                texts.append("(" + "".join(text + ", " for text, _ in x) + ")")
                inner.append(Shape("tuple", [s for _, s in x]))
            elif p.kind is p.VAR_KEYWORD:
                texts.append("{}")
                inner.append(Shape("dict"))
            else:
                given = isinstance(x, tuple) and len(x) == 2 and isinstance(x[1], Shape)
                texts.append(x[0] if given else outside(b, x))
                inner.append(x[1] if given else shape_of(x))
        names = ", ".join(self._names)
        return f"fn ({names}) {{ {self._f._emit_like(b, inner)}({', '.join(texts)}) }}"

    def _root(self, b: Builder, statics: dict[int, Any], shapes: list[Shape]) -> tuple[str, list[str]]:
        def write(u: Any) -> str:
            u.wish = self.__name__.replace("<lambda>", "lambda_")
            names = ", ".join(self._names)
            return f"def \ue001{u.number}\ue002({names}) {{\n  {self._emit_like(b, shapes)}({names})\n}}\n"
        return b.unit(self, self.__name__, write), self._names


class Bound(Jit):
    """A method of an object, or functools.partial of a function: what is bound is constant in the code."""

    def __init__(self, f: Any, **options: Any) -> None:
        inner = f.__func__ if isinstance(f, types.MethodType) else f.func
        inner = inner.__wrapped__ if isinstance(inner, Jit) else inner
        if not isinstance(inner, types.FunctionType):
            raise TypeError(f"a {type(inner).__name__} is not a function that can be compiled")
        given = inspect.signature(inner, follow_wrapped=False).bind_partial(*((f.__self__,) if isinstance(f, types.MethodType) else f.args),
                                                      **getattr(f, "keywords", {})).arguments
        self._bound = dict(given)
        free = inspect.signature(inner, follow_wrapped=False)
        self._inner = inner
        super().__init__(signed(inner, [p for n, p in free.parameters.items() if n not in given]), **options)

    def _emit(self, b: Builder) -> str:
        return emit_function(b, self._inner, self._bound)

    def _emit_with(self, b: Builder, statics: dict[str, Any], shapes: dict[str, Shape]) -> str:
        return emit_function(b, self._inner, self._bound | statics, shapes)

    def _emit_like(self, b: Builder, shapes: list[Shape]) -> str:
        return emit_function(b, self._inner, self._bound, dict(zip(self._signature.parameters, shapes)))

    def _root(self, b: Builder, statics: dict[int, Any], shapes: list[Shape]) -> tuple[str, list[str]]:
        names = list(self._signature.parameters)
        root = emit_function(b, self._inner, self._bound | {names[i]: x for i, x in statics.items()},
                             {names[i]: s for i, s in enumerate(shapes) if i not in statics})
        return root, [n for i, n in enumerate(names) if i not in statics]


def signed(fn: types.FunctionType, parameters: list[inspect.Parameter]) -> types.FunctionType:
    """The function, known to have these parameters alone."""
    copy = types.FunctionType(fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
    copy.__kwdefaults__, copy.__doc__, copy.__qualname__, copy.__module__ = fn.__kwdefaults__, fn.__doc__, fn.__qualname__, fn.__module__
    later = False
    for i, p in enumerate(parameters):  # after one with a default, others are given by name
        later = later or (i > 0 and parameters[i - 1].default is not p.empty)
        if later and p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD:
            parameters[i] = p.replace(kind=p.KEYWORD_ONLY)
    vars(copy)["__signature__"] = inspect.Signature(parameters)
    return copy


@overload
def jit(fn: Callable, **options: Any) -> Any: ...
@overload
def jit(fn: None = None, **options: Any) -> Callable[[Callable], Any]: ...
def jit(fn: Callable | None = None, **options: Any) -> Any:
    """Compiles a function from its own source, when it is called.

    ``if``, ``while``, ``for``, recursion, closures, nested functions, lambdas and functions as arguments are
    compiled as they stand. Options: ``backend`` ("llvm", "cjit", "interp"), ``fast`` (floats may be
    reassociated), ``threads`` (large loops run on all CPUs), ``tune`` (how matrix products are cut is measured on this
    machine, once for each), ``static_argnums`` and ``static_argnames`` (arguments that code is made for anew when they
    change), ``max_compiled``, ``dynamic``: with the third size of a batch (True: the second; False: never) calls run in pieces of
    1, 2, 4 .. rows, so that no size needs code of its own; where rows are not computed apart, code is made for each size (True: an
    error); ``interpret_after`` (3; with ``dynamic=False`` 0, which is never): when so many sizes have code, calls of a further one are
    interpreted until that has been as much work as its code would be to make. ``explain()`` tells.

    >>> @anfora.jit
    ... def power(x, n):
    ...     acc = 1.0
    ...     for i in range(n):
    ...         acc = acc * x
    ...     return acc
    """
    if fn is None:
        return functools.partial(jit, **options)
    from ._ops import Op
    if isinstance(fn, (Function, Op)):  # which is compiled when it is called, too
        return fn._optioned(options) if options and isinstance(fn, Function) else fn
    if isinstance(fn, Kept):
        fn = fn.__wrapped__
    if isinstance(fn, types.MethodType) and not isinstance(fn.__func__, types.FunctionType):
        return as_function(fn)
    if _is_called(fn):
        return _called(fn, **options)
    if isinstance(fn, (types.MethodType, functools.partial)):
        return Bound(fn, **options)
    if not isinstance(fn, type) and isinstance(getattr(type(fn), "__call__", None), types.FunctionType):
        return Bound(fn.__call__, **options)
    if inspect.iscoroutinefunction(fn):
        raise TypeError(f"jit compiles functions, and {fn.__name__} is a coroutine: leave out async")
    if not isinstance(fn, types.FunctionType):
        raise TypeError(f"jit compiles functions written in Python, and {getattr(fn, '__name__', 'this')} is of the type {type(fn).__name__}: "
                        "write a function that calls it")
    return Jit(fn, **options)


class TextFunction(Function):
    """A function of a program in Anfora's own language."""

    def __init__(self, name: str, nparam: int, text: str, **options: Any) -> None:
        super().__init__(name, nparam, **options)
        self._text = text
        self._calls = text.split("(", 1)[0].removeprefix("def ").strip()

    def _emit(self, b: Builder) -> str:
        return b.unit(self, self._calls, lambda u: self._renamed(u))

    def _renamed(self, u: Any) -> str:
        u.wish = self._calls
        return self._text

    def _root(self, b: Builder, statics: dict[int, Any], shapes: list[Shape]) -> tuple[str, list[str]]:
        return self._emit(b), [f"a{i}" for i in range(self._nparam)]


def _is_called(f: Any) -> bool:
    """Whether it is functools.partial of what has no source in Python, such as an operation."""
    inner = f.func if isinstance(f, functools.partial) else None
    return inner is not None and not isinstance(inner, types.FunctionType) and (not isinstance(inner, Jit) or hasattr(inner, "_emit_call"))


def _called(f: functools.partial, **options: Any) -> "Jit":
    func, args, kw = f.func, f.args, f.keywords

    def partial(*rest):
        return func(*args, *rest, **kw)
    return Jit(partial, **options)


def as_function(f: Any) -> Function:
    """What a transform takes: a compiled function, or one that can be."""
    if isinstance(f, Function):
        return f
    if isinstance(f, (types.FunctionType, Kept)):
        return Jit(f if isinstance(f, types.FunctionType) else f.__wrapped__)
    from ._ops import Op
    if isinstance(f, Op):
        return _op_function(f)
    if _is_called(f):
        return _called(f)
    f = getattr(f, "_for_arrays", f)
    if isinstance(f, types.MethodType) and isinstance(f.__func__, Jit):
        f = types.MethodType(f.__func__.__wrapped__, f.__self__)
    if isinstance(f, (types.MethodType, functools.partial)):
        return Bound(f)
    if not isinstance(f, type) and isinstance(getattr(type(f), "__call__", None), types.FunctionType):
        return Bound(f.__call__)
    kind = type(f).__name__
    raise TypeError(f"{'an' if kind[0] in 'AEIOUaeiou' else 'a'} {kind} is not a function that can be compiled"
                    + ("; a transform is given a function, and gives one: grad(f)(x)" if hasattr(f, "dtype") else ""))


def _op_function(op: Any) -> Function:
    n = sum(1 for _, mark in op.inputs if mark != "?")
    names = ", ".join(f"a{i}" for i in range(n))
    return TextFunction(op.__name__, n, f"def {op.__name__}_({names}) {{ {op.op}({names}) }}\n")


def _jit_within(w: Any, c: Any) -> str:
    """jit(f) in a compiled function is f, which is compiled with it."""
    if len(c.args) != 1:
        w.refuse(c.node, "jit takes one function")
    return w.expr(c.args[0])


BUILTINS[jit] = _jit_within


class Kept(Closure):
    """A function that vjp or linearize returned. `again` computes the same from the beginning, which is what transforms and compiled
    functions take, and what a call is if there is no `fn`. Its results have the structure of `like`."""

    def __init__(self, fn: Any, again: types.FunctionType, like: Any) -> None:
        super().__init__(fn)
        self.__wrapped__ = again
        self.__name__ = self.__qualname__ = again.__name__
        self._like, self._again = like, None if fn is not None else Jit(again)

    def __call__(self, *args: Any) -> Any:
        if self._again is not None:
            return self._again(*args)
        return structured(self._like, super().__call__(*args))

    def _emit(self, b: Builder) -> str:
        return emit_function(b, self.__wrapped__)
