# SPDX-License-Identifier: Apache-2.0
"""Calls of functions whose sizes only values tell, where no part before these can be compiled alone: the interpreter runs them, and a
warning says so.

    @anfora.jit
    def kinds(m):
        return sum(len(np.unique(row)) for row in m)      # np.unique in a loop: W0908, interpreted
"""
from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from . import _core
from ._errors import AnforaError, CompileError, Finding

if TYPE_CHECKING:
    from ._function import Function

BY_VALUES = ("E0520", "E0724", "E0953")  # a size, or how long a list is, that values decide
MASKS = (("E0501", "the shape of x[mask]"), ("E0546", "of Take must be integers, and is bool"), ("E0506", "Sub is not defined for bool"))


def sized_by_mask(f: Finding) -> bool:
    """Whether a finding says that the size of x[mask] is needed, or that an index of several is a mask (_compile/static.py)."""
    return f.line > 0 and any(f.code == code and text in f.message for code, text in MASKS)


def masks_of(error: AnforaError) -> set[tuple[str, int, int]]:
    """The places of x[mask] whose size is needed."""
    return {(f.file, f.line, f.col) for f in error.findings if sized_by_mask(f)}


class Interpreted:
    """The calls of one kind of arguments."""

    def __init__(self, function: Function, first: CompileError) -> None:
        self.function, self.first = function, first
        self.masks: frozenset = frozenset()
        self.program: Any = None  # the last that ran
        self.said = False

    def run(self, args: tuple) -> Any:
        """Calls the function; each x[mask] that comes to be needed is counted from then on."""
        while True:
            try:
                result = self.once(args)
            except AnforaError as error:
                found = masks_of(error) - self.masks
                if not found:
                    raise (error if any(f.code.startswith("E04") for f in error.findings) else self.first) from None
                self.masks |= found
                continue
            self.say()
            return result

    def once(self, args: tuple) -> Any:
        """One call, with those masks counted that are known."""
        f = self.function
        shapes, statics = f._shapes(args)
        program = f._program(statics, shapes, picks=self.masks)
        casts = f._fit(shapes, statics)
        shapes = [s for i, s in enumerate(shapes) if i not in statics]
        extra = tuple(_core.asarray(a) for a in program.arrays)
        if self.program is not program:
            self.program, self.code = program, f._exec(program, None)
        return f._run(program, self.code, args, statics, casts, shapes, extra, interpreted=True)

    def say(self) -> None:
        """Once: that it is interpreted, and what decided that."""
        if self.said:
            return
        self.said = True
        at = next((f for f in self.first.findings if f.line > 0), None)
        where = f" (line {at.line})" if at is not None else ""
        warnings.warn(f"{self.function.__name__}: W0908: sizes in it depend on values{where}, so calls are interpreted; "
                      "what needs no such size is faster in a function of its own", stacklevel=4)


def plan_of_interpreted(f: Function, error: CompileError) -> Any:
    """The plan of calls that are interpreted, as sizes depend on values; None: that is not what the error says."""
    if not any(x.code in BY_VALUES or sized_by_mask(x) for x in error.findings):
        return None
    calls = Interpreted(f, error)
    return _core.Plan(None, [], [], [], [], (), (calls,), calls.run)
