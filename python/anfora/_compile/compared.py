# SPDX-License-Identifier: Apache-2.0
"""Lists and tuples of numbers of which it is known how many there are: xs == ys, xs < ys, xs.index(x) and xs.count(x)."""
from __future__ import annotations

import ast
import numbers
import operator
from typing import Any

from .known import Is, Item, Like, Part

_WORDS: dict = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_LENGTHS: dict = {ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge}


class Compared(Part):
    """The part of the writer for such lists."""

    def compared_lists(self, node: ast.Compare) -> str | None:
        """What xs == ys, xs < ys and the like are; None: it is another comparison."""
        if len(node.ops) > 1 or type(node.ops[0]) not in _WORDS:
            return None
        sides = [node.left, node.comparators[0]]
        kinds = [self.list_kind(s) for s in sides]
        if None in kinds or kinds[0] != kinds[1] or all(self.static(s)[0] for s in sides):
            return None
        items = [self.numbers_in(s) for s in sides]
        if items[0] is None or items[1] is None:
            return None
        op, names = type(node.ops[0]), [self.fresh() for _ in sides]
        pairs = [(f"{names[0]}[{i}]", f"{names[1]}[{i}]") for i in range(min(map(len, items)))]
        mark = self.mark(node)
        if op in (ast.Eq, ast.NotEq):
            same = " and ".join(f"{a} =={mark} {b}" for a, b in pairs) or "true"
            text = same if len(items[0]) == len(items[1]) else "false"
            text = f"not ({text})" if op is ast.NotEq else text
        else:
            text = "true" if _LENGTHS[op](*map(len, items)) else "false"
            for a, b in reversed(pairs):
                text = f"(if {a} =={mark} {b} {{ {text} }} else {{ {a} {_WORDS[op]}{mark} {b} }})"
        return f"(fn ({', '.join(names)}) {{ {text} }})({', '.join(self.together(node, of) for of in items)})"

    def list_kind(self, node: Any) -> str | None:
        """Whether something is a list or a tuple; None: another thing."""
        known, x = self.static(node)
        if known:
            return type(x).__name__ if type(x) in (list, tuple) else None
        s = self.like(node)
        return s.kind if s is not None and s.kind in ("list", "tuple") else None

    def numbers_in(self, node: Any) -> list[Item] | None:
        """The items, if they are all numbers."""
        items = self.sequence(node) if self.list_kind(node) else None
        return items if items is not None and all(map(_may_be_number, items)) else None

    def found_in_list(self, node: ast.Call) -> str | None:
        """xs.index(x) and xs.count(x); None: it is another call."""
        f = node.func
        if not isinstance(f, ast.Attribute) or f.attr not in ("index", "count") or len(node.args) != 1 or node.keywords or self.static(node)[0]:
            return None
        items = self.numbers_in(f.value)
        if items is None:
            return None
        mark, x, xs = self.mark(node), self.fresh(), self.fresh()
        same = [f"{x} == {xs}[{i}]" for i in range(len(items))]
        if f.attr == "count":
            text = " + ".join(f"(if {s} {{ 1 }} else {{ 0 }})" for s in same) or "0"
        else:
            found = str(max(len(same) - 1, 0))
            for i in reversed(range(len(same) - 1)):
                found = f"(if {same[i]} {{ {i} }} else {{ {found} }})"
            text = f'{mark}assert({" or ".join(same) or "false"}, "ValueError: the value is not in the list"); {found}'
        return f"(fn ({xs}, {x}) {{ {text} }})({self.together(node, items)}, {self.scalar(node.args[0])})"

    def together(self, node: Any, items: list[Item]) -> str:
        """The items as a tuple of numbers."""
        return "(" + "".join(f"Reshape({self.item_text(node, i)}, ()), " for i in items) + ")"


def _may_be_number(item: Item) -> bool:
    """Whether nothing tells that an item is no number; Reshape refuses tuples of which that is not known before."""
    if isinstance(item.entry, Is):
        return isinstance(item.entry.value, numbers.Number)
    s = item.entry.shape if isinstance(item.entry, Like) else None
    return item.parts is None and (s is None or s.kind == "any" or s.kind == "leaf" and not s.of[1])
