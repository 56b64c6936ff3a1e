# SPDX-License-Identifier: Apache-2.0
"""Hints: which tuples of a program are lists, which records dictionaries or objects of Python. A hint is (kind, hints of
the parts), the parts None if nothing is known of them; None: nothing is known. A third part says that an array stays one: it is of a list
that is an array no longer, as batches are."""
from __future__ import annotations

import functools
from typing import Any

from .known import MOST_PARTS, Is, Like
from .._tree import Shape


class Either:
    """A kind that is another on each of several ways, though the program has one type for all: a list here and a tuple there."""

    known = True

    def __init__(self, kinds: set) -> None:
        self.kinds, self.place = kinds, None

    def __str__(self) -> str:
        names = sorted(k if isinstance(k, str) else k.__name__ for k in self.kinds)
        return " here and ".join(f"{'an' if n[0] in 'aeiou' else 'a'} {n}" for n in names) + " there"


class Unknown(Either):
    """A kind that a function gives of which nothing is known."""

    known = False

    def __str__(self) -> str:
        return "a list or a tuple, which of both is not known, for the function that makes it is known only when the program runs"


def kinds_of(hint: Any) -> set:
    return hint[0].kinds if isinstance(hint[0], Either) else {hint[0]}


def either_in(hint: Any) -> Either | None:
    """The first part of a hint that is of several kinds."""
    waiting, seen = [hint], set()
    while waiting:
        h = waiting.pop()
        if h is None or id(h) in seen:
            continue
        seen.add(id(h))
        if isinstance(h[0], Either):
            return h[0]
        waiting += h[1] or ()
    return None


def joined_hints(hints: list) -> Any:
    """What several ways give: (kind, hints of the items or None), None if it is not known. Ways of which nothing is known, such as
    calls of the function itself, give what the others do."""
    known = [h for h in hints if h is not None]
    if not known:
        return None
    kinds = set().union(*map(kinds_of, known))
    if len(kinds) > 1:
        return next((h for h in known if kinds_of(h) == kinds), (Either(kinds), None))
    inside = [h[1] for h in known if h[1] is not None]
    mark = (True,) if all(len(h) > 2 for h in known) else ()
    if not inside:
        return known[0][0], None, *mark
    # ways of other lengths have other types, so the program takes one of them: each part is what the ways that have it say
    return known[0][0], [inside[0][i] if all(len(x) > i and x[i] is inside[0][i] for x in inside) else joined_hints([x[i] for x in inside if len(x) > i])
                         for i in range(max(map(len, inside)))], *mark


def filled_hint(one: Any, other: Any) -> Any:
    """What both say of the same value: the parts of which one says nothing are those of the other."""
    if one is None or other is None or one[0] != other[0]:
        return other if one is None or other is not None and isinstance(other[0], Either) and other[0].known else one
    if one[1] is None or other[1] is None:
        return one[0], other[1] if one[1] is None else one[1]
    n = max(len(one[1]), len(other[1]))
    a, b = ([*h[1], *[None] * (n - len(h[1]))] for h in (one, other))
    return one[0], [filled_hint(x, y) for x, y in zip(a, b)]


def repeated_hint(kind: str, item: Any) -> Any:
    """Of something with any number of parts that are alike."""
    return kind, [item] * MOST_PARTS if item is not None else None


def mixed_hint(hints: list) -> Any:
    """Of what takes parts of several lists or tuples, in any order."""
    known = [h for h in hints if h is not None]
    if not known or len(set().union(*map(kinds_of, known))) > 1 or isinstance(known[0][0], Either):
        return joined_hints(known)
    parts = [part for h in known for part in (h[1] or [None])]
    return repeated_hint(known[0][0], None if None in parts else joined_hints(parts))


def batched_hint(hint: Any) -> Any:
    """Of what stands for many of those that a hint is of, stacked: what is an array stays one."""
    return None if hint is None else (hint[0], None if hint[1] is None else list(map(batched_hint, hint[1])), True)


def placed(hint: Any, place: Any) -> Any:
    """The hint of what a statement returns: if it is of several kinds, that is said there."""
    either = either_in(hint)
    if either is not None:
        either.place = place
    return hint


def part_hint(hint: Any, k: int) -> Any:
    """Of one part of what a hint is of."""
    return hint[1][k] if hint[1] is not None and -len(hint[1]) <= k < len(hint[1]) else None


def nested_lists(depth: int) -> Any:
    """Of so many lists within each other."""
    return functools.reduce(lambda of, _: ("list", [of] if of else None), range(depth), None)


def shape_hint(s: Shape | None) -> Any:
    if s is None:
        return None
    if s.kind == "mapped":
        return repeated_hint(s.names[0] if s.names else "list", shape_hint(s.of))
    if s.kind == "static":
        return value_hint(s.of)
    if s.kind == "hinted":
        return s.of
    if s.kind == "stacked" and s.of:
        return nested_lists(s.of)
    if s.kind == "object" or s.kind == "dict" and s.of is not None:
        return s.of, list(map(shape_hint, s.parts))
    return (s.kind, list(map(shape_hint, s.parts))) if s.kind in ("list", "tuple", "dict") else None


def value_hint(x: Any) -> Any:
    """Of a constant."""
    if type(x) in (list, tuple):
        return type(x).__name__, list(map(value_hint, x))
    return ("dict", list(map(value_hint, x.values()))) if type(x) is dict else None


def of_several_kinds(entries: list) -> Like | None:
    """What ways that meet make of a name, if they make lists of it, or of a part of it, here and tuples there."""
    hints = [value_hint(e.value) if isinstance(e, Is) else shape_hint(e.shape) if isinstance(e, Like) else None for e in entries]
    hint = joined_hints(hints)
    return Like(Shape("hinted", of=hint)) if either_in(hint) is not None else None
