# SPDX-License-Identifier: Apache-2.0
"""Errors: of programs, with the place in the Python source and a caret under it."""
from __future__ import annotations

import bisect
import builtins
import functools
import linecache
import os
import re
import sys
import threading
import warnings
from dataclasses import dataclass, field

from ._advice import advice, advice_for_call


PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def warn(message: str) -> None:
    """A warning at the line outside of this package that led to it."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and os.path.abspath(frame.f_code.co_filename).startswith(PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)


@dataclass
class Finding:
    """One finding: what is wrong, where, and what to do about it."""
    code: str
    message: str
    file: str = ""
    line: int = 0
    col: int = 0  # from 1
    end: int = 0  # column after the end, in the same line; 0: not known
    hint: str = ""
    note: bool = False

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.col}: " if self.line else ""
        code = f" [{self.code}]" if self.code else ""
        text = f"{place}{'note' if self.note else 'error'}: {self.message}{code}"
        source = linecache.getline(self.file, self.line).rstrip("\n") if self.line else ""
        if source:
            width = max(1, min(self.end, len(source) + 1) - self.col)
            blank = "".join("\t" if ch == "\t" else " " for ch in source[:self.col - 1])
            text += f"\n    {source}\n    {blank}{'^' * width}"
        return text + (f"\n  hint: {self.hint}" if self.hint else "")


class AnforaError(Exception):
    """What Anfora has against a program, a call or a file. ``findings`` has the parts."""

    def __init__(self, findings: list[Finding], status: str = "ANF_INVALID") -> None:
        self.findings, self.status = findings, status
        super().__init__("\n".join(map(str, findings)) or status)


class CompileError(AnforaError):
    """The function cannot be compiled, or not for these arguments."""


class RunError(AnforaError, RuntimeError):
    """A compiled function stopped: an assertion, an index out of bounds, a division of integers by zero."""


@dataclass
class Place:
    """Where something was written."""
    file: str
    line: int
    col: int
    end: int


@dataclass
class SourceMap:
    """From places of a program's text to places of Python's. Keys are sorted (line, column)."""
    keys: list = field(default_factory=list)
    places: list = field(default_factory=list)

    def find(self, line: int, col: int) -> Place | None:
        i = bisect.bisect_right(self.keys, (line, col)) - 1
        return self.places[i] if i >= 0 and self.keys[i][0] == line else None

    def exact(self, file: str, line: int, col: int) -> Place | None:
        """The widest known place that starts there."""
        found = [p for p in self.places if (p.file, p.line, p.col) == (file, line, col)]
        return max(found, key=lambda p: p.end, default=None)


_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
_CALLED = re.compile(r"while specialising \W*(?P<call>.*?)(, called here)?$")


def of_library(f: Finding) -> bool:
    """Whether a place is in a function of this package, not in one of its user's."""
    return f.line > 0 and f.file.startswith(_OWN)


def outside_of_library(findings: list[Finding], places: SourceMap | None) -> list[Finding]:
    """An error in a function of this package stands where the user calls it; the library's line is a note."""
    if not findings or findings[0].note or not of_library(findings[0]):
        return findings
    first, rest = findings[0], findings[1:]
    n = next((i for i, f in enumerate(rest) if not of_library(f)), len(rest))
    inner = Finding("", "the library's line", first.file, first.line, first.col, first.end, note=True)
    called = _CALLED.match(rest[n].message) if n < len(rest) else None
    if called is None:  # no note says who called: an error of a program that ran
        name = _function_at(first.file, first.line)
        name, called_at = _called_by_user(name, first.file, places)
        if len(called_at) != 1:
            return [*findings, *(Finding("", f"{name} is called here", p.file, p.line, p.col, p.end, note=True) for p in called_at[:4])]
        place = called_at[0]
        error = Finding(first.code, f"{name}: {first.message}", place.file, place.line, place.col, place.end, hint=advice_for_call(name, first.message) or first.hint)
        return [error, inner, *rest]
    at, call = rest[n], called["call"].replace("_(", "(", 1)  # nonzero_ is what nonzero is in compiled functions
    error = Finding(first.code, f"{call}: {first.message}", at.file, at.line, at.col, at.end, hint=advice_for_call(call, first.message) or first.hint)
    return [error, inner, *rest[n + 1:]]


def _function_at(file: str, line: int) -> str:
    """The name of the outermost function that a line is in."""
    for text in reversed(linecache.getlines(file)[:line]):
        if text.startswith("def "):
            return text[4:].split("(")[0]
    return ""


def _called_by_user(name: str, file: str, places: SourceMap | None) -> tuple[str, list[Place]]:
    """A function of the library, or the next one that calls it in its file, that the user's program calls: its name and the calls."""
    from ._compile.foreign import names_of
    text, todo, seen = "".join(linecache.getlines(file)), [name], set()
    while todo:
        at = todo.pop(0)
        for written in (at, *sorted(names_of(at))):
            found = _calls(written, places)
            if found:
                return written, found
        seen.add(at)
        for body in re.split(r"^(?=def )", text, flags=re.M)[1:] if at else ():
            owner = body[4:].split("(")[0]
            if owner not in seen and re.search(rf"\b{at}\(", body[4 + len(owner):]):
                todo.append(owner)
    return name, []


def _calls(name: str, places: SourceMap | None) -> list[Place]:
    """The places of a user's program that call a function of this name."""
    found = {}
    for p in places.places if places and name else ():
        text = linecache.getline(p.file, p.line)[p.col - 1:p.end - 1]
        if not p.file.startswith(_OWN) and re.match(rf"[\w.]*\b{name}\(", text):
            found[p.file, p.line, p.col] = p
    return list(found.values())


_BUILTIN = {"E0401": ZeroDivisionError, "E0404": IndexError}
_RAISED = re.compile(r"(?:.*: )?(?:assertion failed: |it raised )(\w+)(?::|$)", re.S)


def of_python(kind: type[AnforaError], findings: list[Finding], raises: dict[str, type]) -> type[AnforaError]:
    """The class of an error that is also that of Python's own: `except ValueError` meets a RunError of `raise ValueError`. `raises` are the
    exceptions that the program names. What a program asserts of itself in place of its writer is a CompileError."""
    if kind is not RunError or not findings:
        return kind
    first = findings[0]
    named = _RAISED.match(first.message) if first.code in ("E0442", "E0444") else None
    if named and named[1] == "CompileError" and first.code == "E0442":  # a program stops where its writer knew too little
        first.message = first.message[named.end():].strip()
        return CompileError
    cls = _BUILTIN.get(first.code) or (raises.get(named[1]) or getattr(builtins, named[1], None) if named else None)
    if not (isinstance(cls, type) and issubclass(cls, Exception)):
        cls = AssertionError if first.code == "E0442" else None
    return _both(cls) if cls is not None and not issubclass(kind, cls) else kind


@functools.cache
def _both(cls: type) -> type[AnforaError]:
    def again(self: AnforaError) -> tuple:  # for pickle
        return RunError, (self.findings, self.status)
    try:
        return type("RunError", (RunError, cls), {"__module__": RunError.__module__, "__reduce__": again})
    except TypeError:  # of exceptions with memory of their own, such as OSError
        return RunError


raised = threading.local()  # raised.error: by a function of Python that a program called (_host.py)


def _with_cause(code: str, message: str) -> str:
    error = getattr(raised, "error", None)
    if code != "E0444" or error is None:
        return message
    raised.error = None
    if not isinstance(error, Exception):  # Ctrl-C, sys.exit()
        raise error
    return f"{message.split(': ')[0]}: it raised {type(error).__name__}: {error}"


def translated(failure: Exception, kind: type[AnforaError], name: str, places: SourceMap | None, raises: dict | None = None) -> AnforaError:
    """An exception of the core, with the places of Python. `name` is the program's own file name, `raises` as of_python takes it."""
    status, items = failure.args
    findings = []
    for severity, _, code, message, file, line, col, _, hint in items:
        message = _with_cause(code, message)
        finding = Finding(code, message, file, line, col, hint=hint or advice(code, message), note=severity == 0)
        place = None
        if places and file == name:
            place = places.find(line, col)
            finding.line = 0
        elif places and line:
            place = places.exact(file, line, col)
        if place:
            finding.file, finding.line, finding.col, finding.end = place.file, place.line, place.col, place.end
        findings.append(finding)
    findings = outside_of_library(findings, places)
    if status == "ANF_NOMEM":
        raise MemoryError("\n".join(str(f) for f in findings)) from failure
    fails = bool(findings) and findings[0].code == "E0442"  # an assertion that is known to fail when code is made
    return of_python(RunError if fails and kind is CompileError else kind, findings, raises or {})(findings, status)
