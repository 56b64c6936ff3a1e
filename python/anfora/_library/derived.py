# SPDX-License-Identifier: Apache-2.0
"""Derivatives of functions as functions of flat arguments, for hosts that ask for them piece by piece."""
from __future__ import annotations

from typing import Any

from .._function import Function
from .._tree import Shape


class _Derived(Function):
    """A function made of another one of n arguments, which is differentiated in those numbered in `real`."""

    def __init__(self, what: str, f: Function, n: int, real: tuple, further: int) -> None:
        super().__init__(f"{what}_{f.__name__}".replace("<lambda>", "lambda"), n + further)
        self._f, self._n, self._real = f._of(n), n, real
        self._names = [f"x{i}" for i in range(n)] + [f"d{i}" for i in range(further)]

    def _text(self, whole: str, active: str, given: list[str]) -> str:
        raise NotImplementedError

    def _emit_like(self, b: Any, shapes: list) -> str:
        def write(u: Any) -> str:
            u.wish = self.__name__
            active = ", ".join(f"x{i}" for i in self._real)
            whole = f"fn ({active}) {{ {self._f._emit_like(b, shapes[:self._n])}({', '.join(self._names[:self._n])}) }}"
            return (f"def \ue001{u.number}\ue002({', '.join(self._names)}) {{\n"
                    f"{self._text(whole, active, self._names[self._n:])}}}\n")
        return b.unit(self, self.__name__, write, tuple(s.key() for s in shapes))

    def _root(self, b: Any, statics: dict, shapes: list) -> tuple[str, list[str]]:
        return self._emit_like(b, shapes), self._names


class Pullback(_Derived):
    """(arguments, adjoints of the results) to the adjoints of the arguments numbered in `real`, as vjp gives them; `results` is
    the number of results in the function's tuple, or None if it gives one value."""

    def __init__(self, f: Function, n: int, real: tuple, results: int | None) -> None:
        super().__init__("pullback", f, n, real, 1 if results is None else results)
        self._results = results

    def _text(self, whole: str, active: str, given: list[str]) -> str:
        adjoint = given[0] if self._results is None else "(" + "".join(d + ", " for d in given) + ")"
        return f"  (value, back) = vjp({whole}, {active})\n  back({adjoint})\n"


class Tangent(_Derived):
    """(arguments, tangents of those numbered in `real`) to the tangents of the results."""

    def __init__(self, f: Function, n: int, real: tuple) -> None:
        super().__init__("tangent", f, n, real, len(real))

    def _text(self, whole: str, active: str, given: list[str]) -> str:
        return f"  (value, tangent) = jvp({whole}, ({active},), ({', '.join(given)},))\n  tangent\n"


class Weak(_Derived):
    """The function of arguments, some of which stand for numbers of Python: `weak` has the kinds of these by their places."""

    def __init__(self, f: Function, n: int, weak: dict) -> None:
        super().__init__("weak", f, n, (), 0)
        self._weak = weak

    def _emit_like(self, b: Any, shapes: list) -> str:
        def write(u: Any) -> str:
            u.wish = self.__name__
            given = [f"Cast({x}, dtype={self._weak[i]})" if i in self._weak else x for i, x in enumerate(self._names)]
            like = [Shape("leaf", of=(self._weak[i], ())) if i in self._weak else s for i, s in enumerate(shapes)]
            return f"def \ue001{u.number}\ue002({', '.join(self._names)}) {{\n  {self._f._emit_like(b, like)}({', '.join(given)})\n}}\n"
        return b.unit(self, self.__name__, write, tuple(s.key() for s in shapes))


class Fitted(_Derived):
    """The function with results of these element types, a tuple of them or, `results` None, one array."""

    def __init__(self, f: Function, n: int, results: int | None, types: tuple) -> None:
        super().__init__("fitted", f, n, (), 0)
        self._results, self._types = results, types

    def _emit_like(self, b: Any, shapes: list) -> str:
        def write(u: Any) -> str:
            u.wish = self.__name__
            y = f"{self._f._emit_like(b, shapes)}({', '.join(self._names)})"
            parts = [f"Cast({'y' if self._results is None else f'y[{i}]'}, dtype={t})" for i, t in enumerate(self._types)]
            value = parts[0] if self._results is None else "(" + "".join(p + ", " for p in parts) + ")"
            return f"def \ue001{u.number}\ue002({', '.join(self._names)}) {{\n  y = {y}\n  {value}\n}}\n"
        return b.unit(self, self.__name__, write, tuple(s.key() for s in shapes))
