# SPDX-License-Identifier: Apache-2.0
"""Namespaces of functions, and the message for a name that they lack."""
from __future__ import annotations

import difflib
import types
from typing import Any, Callable, Iterable


def absent(owner: str, name: str, names: Iterable[str]) -> str:
    """The message for a name that a namespace lacks."""
    near = difflib.get_close_matches(name, [n for n in names if not n.startswith("_")], 1)
    return f"{owner} has no {name}" + (f"; it has {near[0]}" if near else "")


def lacking(x: Any, name: str) -> str:
    """The message for an attribute that an object lacks: a module of this package says itself what to write instead."""
    if isinstance(x, types.ModuleType) and x.__name__.split(".")[0] == "anfora":
        try:
            getattr(x, name)
        except AttributeError as e:
            return str(e)
    return absent(getattr(x, "__name__", type(x).__name__), name, dir(x))


def missing(owner: str, names: Iterable[str]) -> Callable[[str], Any]:
    """The __getattr__ of a module of these names."""
    def get(name: str) -> Any:
        raise AttributeError(absent(owner, name, names) if not name.startswith("__") else f"module {owner!r} has no attribute {name!r}")
    return get


class Namespace(types.SimpleNamespace):
    """Functions under one name, as a module has them."""

    def __init__(self, name: str, **functions: Any) -> None:
        super().__init__(**functions)
        vars(self)["__name__"] = name

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(absent(vars(self).get("__name__", "this"), name, vars(self)))

    def __dir__(self) -> list[str]:
        return sorted(n for n in vars(self) if not n.startswith("_"))
