# SPDX-License-Identifier: Apache-2.0
"""Items of lists of numbers by an index that is not known: xs[m] of xs = [1, 2, 5], m[i][j] of lists of lists that are as long as each other.

A list is a tuple of the program, whose items have types of their own. Where the index of one becomes no constant, the program is written
again (`Builder.rows`), and the item is one of an array of the list's numbers."""
from __future__ import annotations

import ast
from typing import Any

from .known import Part
from .names import chain
from .._tree import Shape, shape_of


class Indexed(Part):
    """The part of the writer for these items."""

    def item_of_numbers(self, node: ast.Subscript) -> str | None:
        """The item, if there is an array; None: it is of something else, or may be a constant."""
        of, keys = chain(node)
        known = [self.static(k) for k in keys]
        if all(k for k, _ in known) or any(isinstance(k, (ast.Slice, ast.Tuple, ast.List, ast.Starred)) for k in keys):
            return None
        constant, x = self.static(of)
        found = _numbers(shape_of(x) if constant and isinstance(x, (list, tuple)) else self.like(of), len(keys))
        if found is None or any(isinstance(x, (str, bool, float, type(None))) for k, x in known if k):
            return None
        self.b.grows = True
        if not self.b.rows:
            return None
        kind, shape = found
        t, mark = self.fresh(), self.mark(node)
        item = f"{_stacked(t, shape)}{mark}[{', '.join(f'Reshape({self.expr(k)} + 0, ())' for k in keys)}]"  # a truth value is 0 or 1
        return f"(fn ({t}) {{ Cast({item}, dtype={kind}) }})({self.looked_at(of)})"


def _numbers(s: Any, depth: int) -> tuple[str, Shape] | None:
    """What the items of lists of this depth are, if they are numbers of Python of one class, and the lists as long as each other."""
    kinds: set = set()
    row, level = s, [s]
    for _ in range(depth):
        if not all(x is not None and type(x) is Shape and x.kind in ("list", "tuple") and x.parts for x in level) or len({len(x.parts) for x in level}) > 1:
            return None
        level = [p for x in level for p in x.parts]
    for p in level:
        kinds.add(p.of[0] if p.kind == "leaf" and not p.of[1] else type(p.of).__name__ if p.kind == "static" else None)
    return (kinds.pop(), row) if len(kinds) == 1 and kinds <= {"int", "float"} else None


def _stacked(text: str, s: Shape) -> str:
    rows = (_stacked(f"{text}[{i}]", p) if p.kind in ("list", "tuple") else f"{text}[{i}]" for i, p in enumerate(s.parts))
    return f"Stack({', '.join(rows)})"
