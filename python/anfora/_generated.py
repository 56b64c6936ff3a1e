# SPDX-License-Identifier: Apache-2.0
"""Functions that are made for the types of their arguments: MetaFuncGraphs whose generators are functions of Python."""
from __future__ import annotations

import functools
import re
from typing import Any, Callable

from . import _core
from ._compile.emit import Builder
from ._compile.known import ANY
from ._compile.static import outside
from ._errors import CompileError, SourceMap, translated
from ._function import Function
from ._jit import TextFunction, as_function
from ._tree import Shape, key_of
from ._types import DTYPES, DType, TensorType

_WEAK = {name: DType(name) for name in ("int", "float", "complex", "key")}  # of a number without an element type; of a random key


class FunctionType:
    """The type of an argument that is a function of `nparam` parameters."""

    def __init__(self, nparam: int) -> None:
        self.nparam = nparam

    def __repr__(self) -> str:
        return f"fn({', '.join(['any'] * self.nparam)})"


def _type_of(t: tuple) -> Any:
    """A type of the core's as generators get it: trees of TensorType and FunctionType; other kinds by name."""
    if t[0] == "tuple":
        return tuple(map(_type_of, t[1]))
    if t[0] == "record":
        return {key_of(n): _type_of(p) for n, p in zip(t[1], t[2])}
    if t[0] == "fn":
        return FunctionType(t[1])
    if t[0] in DTYPES or t[0] in _WEAK:
        return TensorType(DTYPES.get(t[0]) or _WEAK[t[0]], tuple(d if d >= 0 else None for d in t[1]))
    return t[0]


def _shape_of(t: tuple) -> Shape:
    if t[0] == "tuple":
        return Shape("tuple", list(map(_shape_of, t[1])))
    if t[0] == "record":
        return Shape("dict", list(map(_shape_of, t[2])), tuple(map(key_of, t[1])))
    if t[0] == "none":
        return Shape("none")
    known = t[0] in DTYPES or t[0] in ("int", "float", "complex")
    return Shape("leaf", of=t) if known and all(d >= 0 for d in t[1]) else ANY


class Generated(Function):
    """A function whose graph `make` gives for the types of the arguments, however many they are."""

    names: dict[str, int] = {}  # of operations that there are: how many wanted each

    def __init__(self, make: Callable, **options: Any) -> None:
        super().__init__(make.__name__, -1)
        self._make, self._call_options = make, options
        self._by_count: dict[int, TextFunction] = {}
        self._plain = re.sub(r"\W", "_", make.__name__, flags=re.ASCII).strip("_") or "generated"
        wish = self._plain + "_of_types"
        count = Generated.names[wish] = Generated.names.get(wish, 0) + 1
        self._op = wish if count == 1 else f"{wish}_{count}"
        functools.update_wrapper(self, make)
        del self.__wrapped__  # its text is not what is compiled
        try:
            _core.add_generator(self._op, self._generate)
        except _core.Failure as failure:
            raise translated(failure, CompileError, self.__name__, SourceMap([], [])) from None

    # ---- in programs ----

    def _emit(self, b: Builder) -> str:
        b.locals.add(self._op)  # nothing else is called so
        return self._op

    def _of(self, n: int) -> Function:
        if n not in self._by_count:
            self._by_count[n] = _Called(self, n, **self._call_options)
        return self._by_count[n]

    def __call__(self, *args: Any) -> Any:
        return self._of(len(args))(*args)

    # ---- making graphs ----

    def _generate(self, types: list) -> Any:
        """What the core calls: (the program, the name of the function), or why there is none."""
        try:
            made = self._make(*map(_type_of, types))
            return self._from_text(made) if isinstance(made, str) else self._from_function(made, types)
        except Exception as error:
            lines = str(error).strip().splitlines()
            return f"{self.__name__} raised {type(error).__name__}{': ' + lines[0] if lines else ''}"

    def _from_text(self, text: str) -> tuple:
        try:
            core = _core.Program(text, f"<{self.__name__}>")
        except _core.Failure as failure:
            raise translated(failure, CompileError, self.__name__, SourceMap([], [])) from None
        names = [name for name, _ in core.functions()[0]]
        if not names:
            raise ValueError("its text has no function")
        start = self.__name__ if self.__name__ in names else names[-1]
        return core, start

    def _from_function(self, made: Any, types: list) -> tuple:
        f = as_function(made)._of(len(types))
        if f._nparam != len(types):
            raise TypeError(f"{f.__name__}() takes {f._nparam} arguments, not {len(types)}")
        b = Builder()
        root, params = f._root(b, {}, list(map(_shape_of, types)))
        program = b.program(root, params, f"<{self.__name__}>")
        if program.arrays:
            raise ValueError(f"{f.__name__}() captures arrays: give them as arguments")
        return program.core, program.start


class _Called(TextFunction):
    """One with a known number of arguments, to be called from Python."""

    def __init__(self, f: Generated, n: int, **options: Any) -> None:
        names = ", ".join(f"a{i}" for i in range(n))
        super().__init__(f.__name__, n, f"def {f._plain}_({names}) {{ {f._op}({names}) }}\n", **options)
        self._generated = f

    def _emit(self, b: Builder) -> str:
        self._generated._emit(b)
        return super()._emit(b)

    def _root(self, b: Builder, statics: dict[int, Any], shapes: list[Shape]) -> tuple[str, list[str]]:
        """Functions and texts among the arguments are constants of the program."""
        names = [f"a{i}" for i in range(self._nparam)]
        free = [n for i, n in enumerate(names) if i not in statics]

        def write(u: Any) -> str:
            args = ", ".join(outside(b, statics[i]) if i in statics else n for i, n in enumerate(names))
            return f"def \ue001{u.number}\ue002({', '.join(free)}) {{\n  {self._generated._emit(b)}({args})\n}}\n"
        return b.unit(self, self._generated._plain, write), free


def generated(make: Callable | None = None, **options: Any) -> Any:
    """Decorates a generator: a function that is called with the types of the arguments of a call, and gives the function to be
    called, in Python or as text in Anfora's language. In the words of MindSpore, a MetaFuncGraph.

    Types are ``TensorType`` (``.dtype``, ``.dims``) for arrays and numbers, tuples and dictionaries of types, and
    ``FunctionType`` for functions. The generator is called once for each list of types, when a program is compiled; an exception
    says that there is no function for such arguments. What it gives may take and give functions and records; it is inlined,
    differentiated and compiled like any other.

    >>> @anfora.generated
    ... def norm1(x):
    ...     if isinstance(x, tuple):
    ...         return lambda x: sum([norm1(p) for p in x])
    ...     return lambda x: jnp.sum(jnp.abs(x))
    """
    if make is None:
        return functools.partial(generated, **options)
    return Generated(make, **options)
