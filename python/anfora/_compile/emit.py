# SPDX-License-Identifier: Apache-2.0
"""From functions to one program: which functions it has, their names, and where each piece was written.

Text that is put together has marks in it, which are taken out at the end: where a piece starts that some place
of Python's source stands for, and where the name of a function belongs that is chosen last."""
from __future__ import annotations

import re
import struct
from typing import Any, NoReturn

from .. import _core
from .._errors import CompileError, Finding, Place, SourceMap, translated
from .._ops import OPS
from .._table import RESERVED
from .._types import DTYPES

MARK, NAME, END = "\ue000", "\ue001", "\ue002"
WORDS = {
    *RESERVED, "assert", "cast", "checkpoint", "custom_jvp", "custom_vjp", "grad",
    "grad_operation", "hessian", "hvp", "hyper_map", "jacfwd", "jacrev", "jvp", "len", "linearize", "map", "multitype",
    "print", "shape", "stop_gradient", "switch", "value_and_grad", "vjp", "vmap", "key", "effect", "parent", "none",
    "str", "any", "private", *DTYPES, *(op.op for op in OPS.values()), "Identity", "Print", "Switch", "Loop", "Grad",
    "Map", "Len", "Custom", "Derive",
}


MOST_COPIES = 300  # functions of a program that has copies for integers


def safe_name(name: str) -> str:
    """A name of Python's that is not a word of the language."""
    return name + "_" if name in WORDS else name


class Unit:
    """One function of the program at its outermost level."""

    def __init__(self, number: int, wish: str) -> None:
        self.number, self.wish = number, wish
        self.text = ""
        self.uses: set[int] = set()  # units that it refers to
        self.captures = False        # it refers to arrays that the host captured
        self.name = ""
        self.hints: list = []        # of the structure of its results, as far as the source shows it
        self.likes: list = []        # the same as shapes, None where nothing is known
        self.done = False            # it is written
        self.unheld: set[str] = set()  # lists that it is given and gives back, and that no result holds
        self.gives_back: list[list] = []  # by return: what they are like
        self.assumed: list[tuple] = []  # of calls of itself: such a list, and what it was taken to be after


class Builder:
    """Collects what one program needs, starting with the function that is called."""

    def __init__(self) -> None:
        self.units: list[Unit] = []
        self.by_object: dict[tuple, Unit] = {}
        self.keep: list = []           # what ids are taken of
        self.gathered: set = set()     # functions that yield, whose items are taken as lists
        self.places: list[Place] = []
        self.place_ids: dict[tuple, int] = {}
        self.arrays: list = []         # captured, in order
        self.locals: set[str] = set()  # names that functions bind: no unit is called so
        self.classes: list[type] = []  # whose objects programs make
        self.current: list[Unit] = []
        self.prints = False            # it has the core's Print
        self.calls_host = False        # an operation of the host, which may have effects, is called
        self.hosted = False            # it prints by operations of the host, which Python makes the texts of
        self.own_prints = ""           # "alone", "batch": it has to print without Python, in lanes of a batch; see printed.py
        self.raises: dict[str, type] = {}  # exceptions that it raises, by name
        self.explains = False          # values in messages are printed before the program stops
        self.typed = False             # what was written is for these element types and shapes alone
        self.unrolls = False           # loops over constant ranges are written out
        self.picks: frozenset = frozenset()  # places of x[mask] whose size is counted
        self.counts = False            # there is a copy of a function for each known integer that it is called with
        self.rolled = False            # and there is one that is not
        self.rows = False              # lists of numbers that loops make longer, or whose index is not known, are arrays there
        self.grows = False             # and there is one that is a tuple, which may have to be an array
        self.explained = False         # and there are some
        self.checks = True             # what nothing reads is typed
        self.checked = False           # and there is some
        self.wholes: dict[int, tuple] = {}  # programs that were read: (text, names, the object)
        self.watched: dict[tuple, tuple] = {}  # what names from outside are: see watched.py
        self.within: set[int] = set()  # functions whose own rules are being written
        self.depths: dict[int, int] = {}  # by function: its rules are written within how many others of it

    # ---- places ----

    def mark(self, place: Place) -> str:
        """What stands for the place of a node of Python's syntax tree."""
        key = (place.file, place.line, place.col, place.end)
        if key not in self.place_ids:
            self.place_ids[key] = len(self.places)
            self.places.append(place)
        return f"{MARK}{self.place_ids[key]}{END}"

    # ---- functions and arrays ----

    def unit(self, of: Any, wish: str, write: Any, variant: tuple = ()) -> str:
        """The name, as a mark, of the unit that stands for an object; `write(unit)` gives its text if it is new."""
        u = self.by_object.get((id(of), variant))
        if u is None:
            if self.counts and len(self.units) == MOST_COPIES:
                fail(None, f"{wish} and what it calls need more than {MOST_COPIES} copies", "pass the numbers as arrays")
            u = Unit(len(self.units), wish)
            self.units.append(u)
            self.by_object[id(of), variant] = u
            self.keep.append(of)
            self.current.append(u)
            try:
                u.text = write(u)
            except CompileError:  # it may be written for other arguments
                del self.by_object[id(of), variant]
                raise
            finally:
                self.current.pop()
        if self.current:
            self.current[-1].uses.add(u.number)
        return f"{NAME}{u.number}{END}"

    def units_of(self, f: Any, given: tuple[str, ...] = ()) -> list[Unit]:
        """The units that stand for a function, of those that give these arguments back after the result."""
        return [u for (i, variant), u in self.by_object.items() if i == id(f) and (variant[2:] or ((),))[0] == given]

    def reaches(self, u: Unit, other: Unit) -> bool:
        """Whether a unit refers to another, by way of others too."""
        seen, open_ = {u.number}, [u]
        while open_:
            x = open_.pop()
            if x is other:
                return True
            more = x.uses - seen
            seen |= more
            open_ += [self.units[k] for k in more]
        return False

    def whole(self, of: Any, text: str) -> None:
        """A program that stands in this one with its own names."""
        if id(of) in self.wholes:
            return
        names = set(re.findall(r"^(?:private )?def ([^\s(]+)", text, re.M))
        taken = names & set().union(*(n for _, n, _ in self.wholes.values()))
        if taken:
            fail(None, f"two programs that were read have a function {min(taken)}", "use one of them, or other names in its file")
        self.wholes[id(of)] = text, names, of

    def array(self, x: Any) -> str:
        """The name of a captured array: a parameter more of the function that is called."""
        for i, known in enumerate(self.arrays):
            if known is x:
                break
        else:
            i = len(self.arrays)
            self.arrays.append(x)
        self.current[-1].captures = True
        return f"captured{i}_"

    # ---- the whole ----

    def _spread(self) -> None:
        """Who refers to a function that captures, captures."""
        changed = True
        while changed:
            changed = False
            for u in self.units:
                if not u.captures and any(self.units[k].captures for k in u.uses):
                    u.captures = changed = True

    def _name_units(self) -> None:
        taken = set(self.locals).union(*(n for _, n, _ in self.wholes.values())) | {f"captured{i}_" for i in range(len(self.arrays))}
        for u in self.units:
            wish, k = safe_name(u.wish), 1  # the wish may be a word of the language
            name = wish
            while name in taken:
                name, k = f"{wish}_{k}", k + 1
            taken.add(name)
            u.name = name

    def program(self, root: str, params: list[str], name: str) -> "Program":
        """The program whose function `root` (a unit's mark) is called with parameters of these names."""
        self._spread()
        self._name_units()
        entry = self.units[int(root[1:-1])]
        outside = [*(t for t, _, _ in self.wholes.values()), *(u.text for u in self.units if not u.captures)]
        inside = [u.text for u in self.units if u.captures]
        start = entry.name
        if inside:
            names = [safe_name(p) for p in params]
            hidden = [f"captured{i}_" for i in range(len(self.arrays))]
            start = entry.name + "_with_captured"
            outside.append(f"def {start}({', '.join(names + hidden)}) {{\n" + "".join(inside) +
                           f"  {root}({', '.join(names)})\n}}\n")
        text = re.sub(f"{NAME}(\\d+){END}", lambda m: self.units[int(m[1])].name, "".join(outside))
        return Program(*self._unmarked(text), start, name, self)

    def _unmarked(self, text: str) -> tuple[str, list[tuple]]:
        """The text without marks, and (line, column, place) of each, in order."""
        found: list[tuple] = []
        out, line, col = [], 1, 1
        for piece in re.split(f"({MARK}\\d+{END})", text):
            if piece.startswith(MARK):
                entry = (line, col, int(piece[1:-1]))
                if found and found[-1][:2] == entry[:2]:
                    found[-1] = entry
                else:
                    found.append(entry)
                continue
            out.append(piece)
            newlines = piece.count("\n")
            line += newlines
            col = len(piece) - piece.rfind("\n") if newlines else col + len(piece)
        return "".join(out), found


class Program:
    """A program that the core has read, its entry and what its result is made of."""

    def __init__(self, text: str, marks: list[tuple], start: str, name: str, b: Builder) -> None:
        self.text, self.start, self.name = text, start, name
        self.statics: Any = None
        self.raises = b.raises
        self.watched = b.watched
        self.arrays, self.classes, self.prints = tuple(b.arrays), b.classes, b.prints
        self.hosted, self.own_prints = b.hosted, b.own_prints
        self.keep, self.explains, self.rolled = b.keep, b.explained, b.rolled
        self.grows, self.checked = b.grows, b.checked
        self.hints = b.units[0].hints
        self.map = SourceMap([m[:2] for m in marks], [b.places[m[2]] for m in marks])
        files = sorted({p.file for p in self.map.places})
        number = {f: i for i, f in enumerate(files)}
        self.files, self.marks = files, b"".join(struct.pack("=IIIIi", m[0], m[1], p.line, p.col, number[p.file])
                                                 for m, p in zip(marks, self.map.places))
        try:
            self.core = _core.Program(text, name, self.marks, files)
        except _core.Failure as failure:
            raise self.error(failure) from None

    def error(self, failure: Exception, kind: type = CompileError) -> Any:
        return translated(failure, kind, self.name, self.map, self.raises)


def number_of(call: str) -> int:
    """Which unit the text of a call names."""
    return int(call[call.index(NAME) + 1:call.index(END)])


def fail(place: Place | None, message: str, hint: str = "") -> NoReturn:
    """A construct that cannot be compiled."""
    where = (place.file, place.line, place.col, place.end) if place else ("", 0, 0, 0)
    raise CompileError([Finding("", message, *where, hint=hint)], "ANF_UNSUPPORTED")
