# SPDX-License-Identifier: Apache-2.0
"""Items of lists of numbers by an index that is not known: xs[m] of xs = [1, 2, 5], m[i][j] of lists of lists that are as long as each other.

A list is a tuple of the program, whose items have types of their own. Where the index of one becomes no constant, the program is written
again (`Builder.rows`), and the item is one of an array of the list's numbers."""
from __future__ import annotations

import ast
from typing import Any

from .comprehensions import WIDENED
from .known import Like, Part
from .names import chain
from .static import hyper_mapped
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


    # ---- changes of a list that is an array ----

    def grow_rows(self, node: ast.Call, list_: ast.Name, indent: str) -> str:
        """xs.append(x)"""
        if node.func.attr != "append":  # type: ignore[attr-defined]
            self.refuse(node, "the list is an array, as items of it are replaced: it takes one item at a time", "append the items in a loop over what is known, or use concatenate")
        return self.rows_joined(node, list_, node.args[0], "b, e", indent)

    def rows_joined(self, place: Any, list_: ast.Name, value: Any, order: str, indent: str) -> str:
        """The rows b and an item e in this order."""
        self.owned(list_, place)
        name = self.local(list_.id)
        parts = ", ".join({"b": "b", "e": "BroadcastTo(CastLike(e, b), TupleConcat((1,), b.shape[1:]))"}[p] for p in order.split(", "))
        text = hyper_mapped(f"fn (b, e) {{ {WIDENED}Concat({parts}, axis=0) }}", [name, self.expr(value)])
        self.bind(list_.id, Like(Shape("stacked"), own=True))
        return f"{indent}{self.mark(place)}{name} = {text}\n"

    def changed_rows(self, node: ast.Call, how: str, indent: str) -> str | None:
        """xs.sort(), xs.reverse() and xs.insert(0, x); None: it is another method."""
        name = node.func.value  # type: ignore[attr-defined]
        if how == "insert" and len(node.args) == 2 and not node.keywords and self.static(node.args[0]) == (True, 0):
            return self.rows_joined(node, name, node.args[1], "e, b", indent)
        return self.ordered_rows(node, how, indent) if not node.args and how in ("sort", "reverse") else None

    def deleted_row(self, target: ast.Subscript, k: int, indent: str) -> str:
        """del xs[0] and del xs[-1]"""
        name: Any = target.value
        self.owned(name, target)
        x, b = self.local(name.id), self.fresh()
        text = hyper_mapped(f"fn ({b}) {{ {self.mark(target)}assert(len({b}) > 0, \"IndexError: list assignment index out of range\"); {b}[{'1:' if k == 0 else ':-1'}] }}", [x])
        self.bind(name.id, Like(Shape("stacked"), own=True))
        return f"{indent}{self.mark(target)}{x} = {text}\n"

    def copied_rows(self, target: ast.Name, value: Any, indent: str) -> str | None:
        """ys = list(xs) and xs.copy() of a list that is an array; None: it is another binding."""
        if not isinstance(value, ast.Call) or value.keywords:
            return None
        method = value.func.value if isinstance(value.func, ast.Attribute) and value.func.attr == "copy" and not value.args else None
        of = method or (value.args[0] if len(value.args) == 1 and self.static(value.func) == (True, list) else None)
        e = self.entry(of.id) if isinstance(of, ast.Name) else None
        if not isinstance(e, Like) or e.shape.kind != "stacked":
            return None
        text = f"{indent}{self.mark(value)}{self.target(target)} = {self.looked_at(of)}\n"
        self.scope.env[target.id] = Like(e.shape, own=True)
        return text

    def ordered_rows(self, node: ast.Call, how: str, indent: str) -> str | None:
        """xs.sort() and xs.reverse()"""
        back = next((self.static(k.value) for k in node.keywords if k.arg == "reverse"), (True, how == "reverse"))
        if any(k.arg != "reverse" for k in node.keywords) or not back[0]:
            return None
        name = node.func.value  # type: ignore[attr-defined]
        self.owned(name, node)
        x, b = self.local(name.id), self.fresh()
        order = (f"Sort({b}, axis=0)" if how == "sort" else b) + ("[::-1]" if back[1] else "")
        self.bind(name.id, Like(Shape("stacked"), own=True))
        return f"{indent}{self.mark(node)}{x} = {hyper_mapped(f'fn ({b}) {{ {order} }}', [x])}\n"

    def replaced_whole(self, target: ast.Subscript, value: Any, indent: str) -> str | None:
        """xs[:] = ys, and xs.sort(), which is written so; None: a part of it is replaced."""
        at: Any = target.slice
        if at.lower or at.upper or at.step or not isinstance(target.value, ast.Name):
            return None
        name = ast.copy_location(ast.Name(target.value.id, ast.Load()), target)
        sorts = isinstance(value, ast.Call) and isinstance(value.func, ast.Constant) and getattr(value.func.value, "__name__", "") == "sort"
        if self.like(name).kind == "stacked":
            method = ast.copy_location(ast.Attribute(name, "sort", ast.Load()), target)
            return self.ordered_rows(ast.copy_location(ast.Call(method, [], []), target), "sort", indent) if sorts else None
        made = ast.Call(ast.Constant(sorted), [name], []) if sorts else ast.List([ast.copy_location(ast.Starred(value, ast.Load()), target)], ast.Load())
        return self.made_anew(target, name, made, indent)


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
