# SPDX-License-Identifier: Apache-2.0
"""Functions some of whose arguments are constants of their code: ``f.fix(params)``.

The fixed arguments are captured, as a closure would, and captured arrays become constants (anf_exec_fix)."""
from __future__ import annotations

import inspect
from typing import Any

from . import _core
from ._compile.emit import Builder
from ._compile.known import ANY
from ._compile.static import Call, argument_nodes, outside
from ._function import Function
from ._jit import signed
from ._transform import given_static, hint_of, name_of
from ._tree import Shape, shape_of, tree_map
from ._types import TensorType


def _own(x: Any) -> Any:
    """A copy of an array, which nobody changes."""
    s = shape_of(x)
    array = s.kind == "leaf" and s.of[0] not in ("int", "float", "complex", "bool")
    return _core.owned(x) if array else x


class FixedFunction(Function):
    """The function `f` of the arguments that `values`, by position, does not have."""

    def __init__(self, f: Function, values: dict[int, Any]) -> None:
        self._f = f
        self._known = {i: x if i in f._static else tree_map(_own, x) for i, x in values.items()}
        self._free = [i for i in range(f._nparam) if i not in values]
        backend, fast, threads, tune = f._options
        super().__init__(name_of("fix", f), len(self._free), backend=backend, fast=fast, threads=threads, tune=tune, dynamic=f._dynamic,
                         interpret_after=f._interpret_after,
                         static=tuple(k for k, i in enumerate(self._free) if i in f._static))
        self._constants = True
        self._names = [f"a{k}" for k in range(len(self._free))]
        if hasattr(f, "_signature"):
            parameters = list(f._signature.parameters.values())
            self._face = signed(f.__wrapped__, [parameters[i] for i in self._free])
            self._signature = inspect.signature(self._face)

    def _bind(self, args: tuple, kw: dict) -> tuple:
        if not hasattr(self, "_signature"):
            return super()._bind(args, kw)
        bound = self._signature.bind(*args, **kw)
        given = set(bound.arguments)
        bound.apply_defaults()
        return tuple(x if n in given else self._f._fixed.get(n, x) for n, x in bound.arguments.items())

    def _chosen(self, args: tuple, kw: dict) -> dict[int, Any]:
        if not kw:
            return super()._chosen(args, kw)
        names = list(self._signature.parameters) if hasattr(self, "_signature") else []
        if not names:
            self._bind(args, kw)
        return {names.index(n): x for n, x in self._signature.bind_partial(*args, **kw).arguments.items()}

    def _shapes(self, args: tuple) -> tuple[list[Shape], dict[int, Any]]:
        return super()._shapes(self._bind(args, {}) if 0 < len(args) < self._nparam else args)

    def fix(self, *args: Any, **kw: Any) -> Function:
        more = {self._free[k]: x for k, x in self._chosen(args, kw).items()}
        return FixedFunction(self._f, self._known | more)

    def _whole(self, shapes: list[Shape]) -> list[Shape]:
        """Those of all arguments of f."""
        free = dict(zip(self._free, shapes))
        return [self._shape(i) if i in self._known else free.get(i, ANY) for i in range(self._f._nparam)]

    def _shape(self, i: int) -> Shape:
        x = self._known[i]
        return Shape("static", of=x) if i in self._f._static else shape_of(x)

    def _fit(self, shapes: list[Shape], statics: dict) -> list[str | None]:
        static = {self._free[k]: x for k, x in statics.items()}
        whole = self._whole(shapes)
        static |= {i: x for i, x in self._known.items() if whole[i].kind in ("static", "none")}
        casts = iter(self._f._fit(whole, static))
        taken: list[str | None] = []
        for i, s in enumerate(whole):
            if i in static:
                continue
            of = [next(casts) for leaf in s.walk() if leaf.kind == "leaf"]
            taken += of if i not in self._known else []
        return taken

    def _declared(self) -> dict[int, TensorType]:
        declared = self._f._declared()
        return {k: declared[i] for k, i in enumerate(self._free) if i in declared}

    def _applied(self, b: Builder, shapes: list[Shape], free: list[str]) -> str:
        """A call of f with these texts for the other arguments."""
        at = dict(zip(self._free, free))
        given = ["0" if i in self._f._static else at[i] if i in at else outside(b, self._known[i])
                 for i in range(self._f._nparam)]
        return f"{self._f._emit_like(b, self._whole(shapes))}({', '.join(given)})"

    def _emit(self, b: Builder) -> str:
        return self._emit_like(b, [ANY] * self._nparam)

    def _emit_like(self, b: Builder, shapes: list[Shape]) -> str:
        return f"fn ({', '.join(self._names)}) {{ {self._applied(b, shapes, self._names)} }}"

    def _emit_applied(self, w: Any, c: Call) -> str:
        """A call in a compiled function."""
        named = hasattr(self, "_face")
        if c.kw and not named:
            w.refuse(c.node, f"{self.__name__}() takes no arguments by name")
        nodes = list(argument_nodes(w, c, self._face).values()) if named else c.args
        shapes, texts = given_static(w, self, nodes)
        return f"{self._emit_like(w.b, shapes)}{w.mark(c.node)}({', '.join(texts)})"

    def _root(self, b: Builder, statics: dict[int, Any], shapes: list[Shape]) -> tuple[str, list[str]]:
        names = [n for k, n in enumerate(self._names) if k not in statics]
        given = [outside(b, statics[k]) if k in statics and k not in self._static else n for k, n in enumerate(self._names)]

        def write(unit: Any) -> str:
            unit.wish = self.__name__
            text = self._applied(b, shapes, given)
            unit.hints = [hint_of(b, self._f, text, self._whole(shapes))]
            return f"def \ue001{unit.number}\ue002({', '.join(names)}) {{\n  {text}\n}}\n"
        return b.unit(self, self.__name__, write), names
