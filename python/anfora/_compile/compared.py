# SPDX-License-Identifier: Apache-2.0
"""Lists and tuples of which it is known how many items there are: xs == ys, xs < ys, x in xs, xs.index(x) and xs.count(x)."""
from __future__ import annotations

import ast
from typing import Any, Callable

from .known import ANY, Item, is_structure, shape_of_plain
from .ordered import ORDERS, Ordered, kind_of, tree_shape
from .._ops import COMPOSED
from .._tree import Shape



class Compared(Ordered):
    """The part of the writer for such lists."""

    def compared_lists(self, node: ast.Compare) -> str | None:
        """What xs == ys, xs < ys and the like are; None: it is another comparison."""
        op = type(node.ops[0])
        if len(node.ops) > 1 or op not in (ast.Eq, ast.NotEq, *ORDERS):
            return None
        sides = [node.left, node.comparators[0]]
        shapes = [self.parts_known(s) for s in sides]
        if (rows := self.compared_rows(node, op, sides)) is not None:
            return rows
        if None in shapes or all(self.static(s)[0] for s in sides):
            return None
        a, b = (self.fresh() for _ in sides)
        if op in ORDERS:
            text = self.order_text(node, op, a, b, *shapes)
        else:
            text = self.same_text(node, a, b, *shapes)
            text = f"not ({text})" if op is ast.NotEq else text
        return f"(fn ({a}, {b}) {{ {text} }})({', '.join(self.looked_at(s) for s in sides)})"

    def compared_rows(self, node: ast.Compare, op: type, sides: list) -> str | None:
        """The same of lists one of which is an array; None: none is."""
        kinds = [self.list_kind(s) or getattr(self.like(s), "kind", None) for s in sides]
        if "stacked" not in kinds or (self.fn.__module__ or "").startswith("anfora.") or not set(kinds) <= {"stacked", "list", "tuple"}:
            return None
        if op in ORDERS:
            self.refuse(node, "the list is an array, as a loop filled it, which is not ordered as a list", "compare items: xs[0] < ys[0]")
        same = "false" if "tuple" in kinds else self.expr(ast.fix_missing_locations(ast.copy_location(ast.Call(ast.Constant(COMPOSED["array_equal"]), sides, []), node)))
        return f"(not {same})" if op is ast.NotEq else same

    def parts_known(self, node: Any) -> Shape | None:
        """The structure of a tuple, list or dictionary whose parts are known, with its constants."""
        known, x = self.static(node)
        s = shape_of_plain(x) if known else self.like(node)
        return s if is_structure(s) and s.kind != "object" else None

    def list_kind(self, node: Any) -> str | None:
        """Whether something is a list or a tuple; None: another thing."""
        known, x = self.static(node)
        if known:
            return type(x).__name__ if type(x) in (list, tuple) else None
        s = self.like(node)
        return s.kind if s is not None and s.kind in ("list", "tuple") else None

    def found_in_list(self, node: ast.Call) -> str | None:
        """xs.index(x) and xs.count(x); None: it is another call."""
        f = node.func
        if not isinstance(f, ast.Attribute) or f.attr not in ("index", "count") or len(node.args) != 1 or node.keywords or self.static(node)[0]:
            return None
        items = self.sequence(f.value) if self.list_kind(f.value) else None
        if items is None:
            return None
        mark, t = self.mark(node), self.fresh()
        if f.attr == "count":
            return self.like_items(node, node.args[0], items, lambda same: " + ".join(f"(if {s} {{ 1 }} else {{ 0 }})" for s in same) or "0")
        return self.like_items(node, node.args[0], items, lambda same: f'{mark}assert(false, "ValueError: the value is not in the list"); 0' if not same else
                               f'{t} = Stack({", ".join(same)}); {mark}assert(Any({t}), "ValueError: the value is not in the list"); ArgMax(Cast({t}, dtype=int), axis=0)')

    def like_items(self, node: Any, x: Any, items: list[Item], made: Callable[[list[str]], str]) -> str:
        """What is made of whether each item equals a value."""
        s, one, every = self.parts_known(x) or self.part_shape(x), self.fresh(), self.fresh()
        s = ANY if s.kind == "leaf" else s  # an array is refused where it is made a number
        same = [self.same_text(node, one, f"{every}[{i}]", s, tree_shape(item, self.item_shape)) for i, item in enumerate(items)]
        given = "".join(self.item_text(node, i) + ", " for i in items).rstrip(" ")
        value = self.looked_at(x) if kind_of(s) in ("parts", "none", "text") else self.scalar(x)
        return f"(fn ({one}, {every}) {{ {made(same)} }})({value}, ({given}))"
