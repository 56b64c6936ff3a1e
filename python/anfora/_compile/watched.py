# SPDX-License-Identifier: Apache-2.0
"""What names from outside were when code was made: (holder, key, value). A call whose functions refer to others now makes new code.

    rate = 0.1
    step(p)           code for rate = 0.1; watched: (globals, "rate", 0.1)
    rate = 0.01
    step(p)           code for rate = 0.01

The elements of arrays need no new code: they are read at each call. Attributes are watched that an object or a module
holds itself, and the items of lists and dictionaries, MOST_ITEMS of each function."""
from __future__ import annotations

import types
from typing import Any

from .foreign import ROOTS, module_of
from .._tree import field_names

MOST_ITEMS = 256
LENGTH = ...  # the key of the number of items
_OURS = __name__.split(".")[0]


def _is_fixed(x: Any) -> bool:
    """Modules, types, and the functions of libraries: what a program does not bind anew."""
    if isinstance(x, (types.ModuleType, type, types.BuiltinFunctionType)):
        return True
    return not isinstance(x, (int, float, complex, str, list, dict, tuple)) and x is not None and module_of(x).split(".")[0] in ROOTS | {_OURS, "builtins"} \
        and not hasattr(x, "__array__") and not hasattr(x, "__dlpack__") and not hasattr(x, "__wrapped__")


def watch(watched: dict, holder: Any, key: Any, value: Any) -> Any:
    """Notes what a name is; gives that."""
    ours = isinstance(holder, dict) and str(holder.get("__name__", "")).split(".")[0] == _OURS
    if (id(holder), key) not in watched and not ours and not _is_fixed(value):
        watched[id(holder), key] = (holder, key, value)
        _items(watched, value)
    return value


def watch_field(watched: dict, x: Any, name: str, value: Any) -> Any:
    """The same of x.name, if x holds it."""
    fields = getattr(x, "__dict__", None)
    if type(fields) is dict and fields.get(name) is value:
        return watch(watched, fields, name, value)
    return value


def _items(watched: dict, x: Any) -> None:
    """What a list, a dictionary or an object with fields has, and what these have."""
    waiting = [x]
    for x in waiting:
        if isinstance(x, tuple):
            waiting += x[:MOST_ITEMS]
            continue
        fields = getattr(x, "__dict__", None)
        x = fields if type(fields) is dict and field_names(type(x)) is not None else x
        if type(x) not in (list, dict) or (id(x), LENGTH) in watched or len(watched) + len(x) > MOST_ITEMS:
            continue
        watched[id(x), LENGTH] = (x, LENGTH, len(x))
        for k, v in x.items() if isinstance(x, dict) else enumerate(x):
            watched[id(x), k] = (x, k, v)
            waiting.append(v)
