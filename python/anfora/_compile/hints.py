# SPDX-License-Identifier: Apache-2.0
"""Hints for results: which tuples of a program are lists, which records dictionaries or objects of Python. A hint is (kind, hints of
the parts), the parts None if nothing is known of them; None: nothing is known."""
from __future__ import annotations

from typing import Any

from .known import MOST_PARTS
from .._tree import Shape


def joined_hints(hints: list) -> Any:
    """What several ways give: (kind, hints of the items or None), None if it is not known or they differ. Ways of which
    nothing is known, such as calls of the function itself, give what the others do."""
    known = [h for h in hints if h is not None]
    if not known or any(h[0] != known[0][0] for h in known):
        return None
    inside = [h[1] for h in known]
    if any(x is None for x in inside):
        return known[0][0], None
    n = min(map(len, inside))
    return known[0][0], [joined_hints([x[i] for x in inside]) if any(x[i] is not inside[0][i] for x in inside) else inside[0][i]
                         for i in range(n)]


def repeated_hint(kind: str, item: Any) -> Any:
    """Of something with any number of parts that are alike."""
    return kind, [item] * MOST_PARTS if item is not None else None


def mixed_hint(hints: list) -> Any:
    """Of what takes parts of several lists or tuples, in any order."""
    known = [h for h in hints if h is not None]
    if not known or any(h[0] != known[0][0] for h in known):
        return None
    parts = [part for h in known for part in (h[1] or [None])]
    return repeated_hint(known[0][0], None if None in parts else joined_hints(parts))


def shape_hint(s: Shape | None) -> Any:
    if s is None:
        return None
    if s.kind == "mapped":
        return repeated_hint(s.names[0] if s.names else "list", shape_hint(s.of))
    if s.kind == "static":
        return value_hint(s.of)
    if s.kind == "hinted":
        return s.of
    if s.kind == "object" or s.kind == "dict" and s.of is not None:
        return s.of, list(map(shape_hint, s.parts))
    return (s.kind, list(map(shape_hint, s.parts))) if s.kind in ("list", "tuple", "dict") else None


def value_hint(x: Any) -> Any:
    """Of a constant."""
    if type(x) in (list, tuple):
        return type(x).__name__, list(map(value_hint, x))
    return ("dict", list(map(value_hint, x.values()))) if type(x) is dict else None
