# SPDX-License-Identifier: Apache-2.0
"""Calls of functions that change lists, dictionaries and objects among their arguments: the caller sees it after the call, as in Python. An array
of NumPy that is an argument does not change (docs/python.md)."""
from __future__ import annotations

import dataclasses
from typing import Any

from . import _core
from ._compile.effects import effect
from ._compile.emit import Builder, fail, number_of
from ._compile.fields import changes_given, holds, only_result
from ._compile.origin import source_of
from ._compile.source import emit_function
from ._jit import Jit
from ._tree import Shape

_NUMBERS = (bool, int, float, complex)


def _within(x: Any) -> list:
    """The list or dictionary, and those in a value."""
    found, waiting = [], [x]
    while waiting:
        x = waiting.pop()
        if isinstance(x, (list, dict)) or dataclasses.is_dataclass(x):
            found.append(x)
        waiting += x.values() if isinstance(x, dict) else x if isinstance(x, (list, tuple)) else vars(x).values() if hasattr(x, "__dict__") and not callable(x) else ()
    return found


def changed_arguments(f: Jit, args: tuple) -> tuple[int, ...]:
    """The places of arguments that are lists, dictionaries or objects of numbers, and that the function changes."""
    at = [i for i, x in enumerate(args) if i not in f._static and (values := _values(x)) is not None and all(type(v) in _NUMBERS for v in values)]
    if not at:
        return ()
    names, of = list(f._signature.parameters), effect(f.__wrapped__)
    changed = set(of.changed) - of.rebound
    return tuple(i for i in at if (names[i] in changed if type(args[i]) in (list, dict) else changes_given(f.__wrapped__, names[i], type(args[i]))))


def _values(x: Any) -> Any:
    """What is in a list, a dictionary or an object; None: it is another thing."""
    return x if type(x) is list else x.values() if type(x) is dict else vars(x).values() if dataclasses.is_dataclass(x) and hasattr(x, "__dict__") and not isinstance(x, type) else None


class Changing(Jit):
    """The function, which gives its result and then these arguments, and puts them where they were."""

    def __init__(self, f: Jit, at: tuple[int, ...], **options: Any) -> None:
        super().__init__(f.__wrapped__, **({"static_argnums": tuple(f._static)} | f._inherited() | {"dynamic": f._dynamic} | options))
        self._at, self._of_these = at, [list(self._signature.parameters)[i] for i in at]
        self._returned = effect(f.__wrapped__).returned or only_result(source_of(f.__wrapped__)[0])

    def _plan_of_changing(self, args: tuple) -> Any:
        return None

    def _with_static(self, at: list[int]) -> Jit:
        return Changing(self, self._at, static_argnums=at)

    def _root(self, b: Builder, statics: dict[int, Any], shapes: list[Shape]) -> tuple[str, list[str]]:
        names = list(self._signature.parameters)
        root = emit_function(b, self.__wrapped__, {names[i]: x for i, x in statics.items()},
                             {names[i]: s for i, s in enumerate(shapes) if i not in statics}, tuple(self._of_these))
        unit = b.units[number_of(root)]
        for n, i in zip(self._of_these, self._at):
            held = holds(source_of(self.__wrapped__)[0], n) if shapes[i].kind == "object" else n not in unit.unheld
            if held and n != self._returned:
                fail(self._place(), f"a result of {self.__name__} may hold {n}, which changes", "return a copy of it, or what is in it")
        return root, [n for i, n in enumerate(names) if i not in statics]

    def _check_outside(self, args: tuple) -> None:
        """Refuses a list that the function reads by a name from outside, too."""
        seen = {id(x) for holder, _, value in self._watched.values() for x in (holder, value)}
        for i, n in zip(self._at, self._of_these):
            if id(args[i]) in seen or id(getattr(args[i], "__dict__", None)) in seen:
                fail(self._place(), f"{n} changes, and {self.__name__} reads it by a name from outside, too", "read the argument")

    def run(self, args: tuple) -> Any:
        """Calls it, and the caller's lists are what it has made of them."""
        every = [id(x) for a in args for x in _within(a)]
        for i, n in zip(self._at, self._of_these):
            if every.count(id(args[i])) > 1:
                fail(self._place(), f"{n} is given twice to {self.__name__}, and changes", "give a copy of it: list(xs)")
        objects = [i for i in self._at if dataclasses.is_dataclass(args[i])]
        result, *made = self(*args)
        self._check_outside(args)
        if objects:  # they are given before lists are
            (result, *fields), lists = (result, made) if len(objects) < len(self._at) else ((result, *made), [])
            made = [(fields if i in objects else lists).pop(0) for i in self._at]
        for i, new in zip(self._at, made):
            x = args[i]
            if i in objects:
                for name, old in list(vars(x).items()):
                    if (value := _plain(getattr(new, name))) != old:
                        setattr(x, name, value)
                continue
            if isinstance(x, dict) and not isinstance(new, dict):
                fail(self._place(), "how long a list becomes depends on data, and a dictionary changes in the same function", "change them in two functions")
            if isinstance(x, dict):
                x.clear()
                x.update((k, _plain(v)) for k, v in new.items())
            else:
                x[:] = map(_plain, new)
        return args[self._at[self._of_these.index(self._returned)]] if self._returned in self._of_these else result


def _plain(x: Any) -> Any:
    """A number of Python."""
    return x.item() if hasattr(x, "item") and x.shape == () else x


def plan_of_changing(f: Jit, args: tuple) -> Any:
    """The plan of calls that change lists; None: they change none."""
    at = changed_arguments(f, args)
    if not at:
        return None
    changing = f._variants.setdefault(("changes", *at), Changing(f, at))
    return _core.Plan(None, [], [], [], [], (), (changing,), changing.run)
