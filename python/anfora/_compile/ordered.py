# SPDX-License-Identifier: Apache-2.0
"""Values with parts as Python compares and orders them: (x, y) == p, a < b of tuples within tuples, max(pairs), sorted(pairs) and
sorted(xs, key=f) where the program computes what the order is.

What is sorted has one structure: each number of it is stacked, and taken by the permutation that sorts the keys, the last of which counts least."""
from __future__ import annotations

import ast
import operator
from typing import Any, Callable

from .known import ANY, Is, Item, Part, is_none, is_structure, part_entry, shape_of_plain, skeleton
from .static import Call, hyper_mapped
from .._tree import Shape, quoted

ORDERS: dict = {ast.Lt: ("<", operator.lt), ast.LtE: ("<=", operator.le), ast.Gt: (">", operator.gt), ast.GtE: (">=", operator.ge)}
NUMBERS = (bool, int, float, complex)


def in_halves(join: Callable[[str, str], str], texts: list[str]) -> str:
    """The texts joined in pairs, and these in pairs: many of them nest no deeper than a few."""
    while len(texts) > 1:
        pairs = [texts[i:i + 2] for i in range(0, len(texts), 2)]
        texts = [join(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return texts[0]


def constant(s: Shape) -> Any:
    return None if s.kind == "none" else s.of


def kind_of(s: Shape) -> str:
    """What a part is, as far as it is compared."""
    if is_structure(s):
        return "other" if s.kind == "object" else "parts"
    if is_none(s):
        return "none"
    if s.kind == "static":
        return "text" if isinstance(s.of, str) else "number" if isinstance(s.of, NUMBERS) else "other"
    return "unknown" if s.kind == "any" else "number" if s.kind == "leaf" and not s.of[1] else "other"


def tree_shape(item: Item, of: Any) -> Shape:
    """The structure of an item, that of constants by their parts."""
    s = of(item)
    return shape_of_plain(s.of) if s.kind == "static" else s


def leaves_of(s: Shape, text: str) -> list[tuple[str, Shape]]:
    """The numbers of a tuple or list, in order."""
    return [x for i, p in enumerate(s.parts) for x in leaves_of(p, f"{text}[{i}]")] if s.kind in ("tuple", "list") else [(text, s)]


class Ordered(Part):
    """The part of the writer for them."""

    def same_text(self, node: Any, a: str, b: str, s: Shape, t: Shape) -> str:
        """Whether two values are equal, which are names or parts of such."""
        kinds = {kind_of(s), kind_of(t)}
        if kinds == {"parts"}:
            return self.same_parts(node, a, b, s, t)
        if "other" in kinds:
            self.refuse(node, "parts that are arrays or objects, or of which it is not known what they are, are not compared here", "compare numbers, or use np.all(a == b)")
        if all(x.kind in ("none", "static") for x in (s, t)):
            return "true" if constant(s) == constant(t) else "false"
        if len(kinds) > 1 and "unknown" not in kinds:
            return "false"
        return f"Reshape({a}, ()) =={self.mark(node)} Reshape({b}, ())"

    def same_parts(self, node: Any, a: str, b: str, s: Shape, t: Shape) -> str:
        if s.kind != t.kind or len(s.parts) != len(t.parts) or set(s.names) != set(t.names):
            return "false"
        if s.kind == "dict":
            of = dict(zip(t.names, t.parts))
            tests = [self.same_text(node, f"{a}.{quoted(n)}", f"{b}.{quoted(n)}", p, of[n]) for n, p in zip(s.names, s.parts)]
        else:
            tests = [self.same_text(node, f"{a}[{i}]", f"{b}[{i}]", p, q) for i, (p, q) in enumerate(zip(s.parts, t.parts))]
        return "false" if "false" in tests else " and ".join(f"({x})" for x in tests if x != "true") or "true"

    def order_text(self, node: Any, op: type, a: str, b: str, s: Shape, t: Shape) -> str:
        """a < b and the like, as tuples are ordered: by the first parts that differ."""
        word, before = ORDERS[op]
        if s.kind == t.kind and s.kind in ("tuple", "list"):
            text = "true" if before(len(s.parts), len(t.parts)) else "false"
            for i, (p, q) in reversed(list(enumerate(zip(s.parts, t.parts)))):
                of = node, f"{a}[{i}]", f"{b}[{i}]", p, q
                same = self.same_text(*of)
                text = text if same == "true" else f"(if {same} {{ {text} }} else {{ {self.order_text(node, op, *of[1:])} }})"
            return text
        kinds = {kind_of(s), kind_of(t)}
        if kinds == {"text"}:
            return "true" if before(s.of, t.of) else "false"
        if kinds - {"number", "unknown"}:
            self.refuse(node, "it is not known in what order these are", "compare numbers, texts that are known, and tuples of them that are alike")
        return f"Reshape({a}, ()) {word}{self.mark(node)} Reshape({b}, ())"

    def best_text(self, node: Any, op: type, texts: list[str], s: Shape, at: str = "") -> str:
        """The first of the texts that none comes before; `at` is what of each is compared."""
        p, q = self.fresh(), self.fresh()
        better = f"fn ({p}, {q}) {{ if {self.order_text(node, op, q + at, p + at, s, s)} {{ {q} }} else {{ {p} }} }}"
        return in_halves(lambda a, b: f"({better}){self.mark(node)}({a}, {b})", texts)

    def best_of(self, c: Call) -> str | None:
        """min and max of tuples or lists; None: of other things."""
        one = len(c.args) == 1
        items = self.sequence(c.args[0] if one else ast.copy_location(ast.Tuple(c.args, ast.Load()), c.node))
        shapes = [tree_shape(i, self.item_shape) for i in items or ()]
        if not any(s.kind in ("tuple", "list") for s in shapes):
            return None
        s = self.one_structure(c.node, shapes)
        return self.best_text(c.node, ast.Lt if c.f is min else ast.Gt, [self.item_text(c.node, i) for i in items or ()], s)

    def like_best(self, node: ast.Call) -> Shape | None:
        """Of min and max of tuples or lists."""
        items = self.sequence(node.args[0] if len(node.args) == 1 else ast.copy_location(ast.Tuple(node.args, ast.Load()), node))
        shapes = [skeleton(tree_shape(i, self.item_shape)) for i in items or ()]
        return shapes[0] if shapes and shapes[0].kind in ("tuple", "list") else None

    def one_structure(self, node: Any, shapes: list[Shape]) -> Shape:
        """The structure of all items, which the program moves."""
        if any(kind_of(p) in ("text", "other") for s in shapes for p in s.walk()):
            self.refuse(node, "it is not known how these items are sorted", "sort numbers and tuples of numbers, or constants; arrays by a key: xs[np.argsort(keys)]")
        if len({skeleton(s).key() for s in shapes}) > 1:
            self.refuse(node, "items of several structures cannot be put in order here", "give all of them the same parts")
        return skeleton(shapes[0])

    def ordered_items(self, c: Call, items: list[Item], key: Any, back: bool) -> str:
        """sorted(items, key=, reverse=) by what the program computes."""
        shapes = [tree_shape(i, self.item_shape) for i in items]
        s = self.one_structure(c.node, shapes)
        xs, order, column, mark = self.fresh(), self.fresh(), self.fresh(), self.mark(c.node)
        bound = [Item(f"{xs}[{i}]", part_entry(s)) for i in range(len(items))]
        keys = [(i.text, s) for i in bound] if key is None else \
            [(self.item_text(c.node, Item(entry=Is(x))), shape_of_plain(x)) if known else (t, x) for known, x, t in self.keys_of(c.node, key, bound)]
        names = [self.fresh() for _ in items]
        columns = hyper_mapped(f"fn ({', '.join(names)}) {{ Stack({', '.join(names)}) }}", [i.text for i in bound])
        rows = "".join(hyper_mapped(f"fn (x) {{ x[{order}[{i}]] }}", [column]) + ", " for i in range(len(items))).rstrip(" ")
        given = "".join(self.item_text(c.node, i) + ", " for i in items).rstrip(" ")
        return f"(fn ({xs}) {{ {self.permutation(c.node, order, keys, back)}{column} = {columns}; ({rows}) }}){mark}(({given}))"

    def like_ordered(self, node: ast.Call) -> Shape:
        """Of sorted(xs), of which it is not known what comes first."""
        items = self.sequence(node.args[0])
        if not sorts(items, next((k for k in node.keywords if k.arg == "key"), None)):
            return Shape("mapped", of=ANY, names=("list",))
        return Shape("list", [skeleton(tree_shape(items[0], self.item_shape))] * len(items))

    def permutation(self, node: Any, order: str, keys: list[tuple[str, Shape]], back: bool) -> str:
        """Statements that bind a name to the numbers of the items in the order of their keys; equal ones stay as they stand."""
        self.one_structure(node, [s for _, s in keys])
        names = [self.fresh() for _ in keys]
        text = "".join(f"{n} = {t}; " for n, (t, _) in zip(names, keys))
        columns = list(zip(*(leaves_of(s, n) for n, (_, s) in zip(names, keys))))
        turned = "[::-1]" if back else ""
        for k, column in enumerate(reversed(columns)):
            numbers = f"Stack({', '.join(f'Reshape({t}, ())' for t, _ in column)}){turned}"
            text += f"{order} = " + (f"{order}[ArgSort({numbers}[{order}], axis=0)]; " if k else f"ArgSort{self.mark(node)}({numbers}, axis=0); ")
        return text + (f"{order} = ({len(keys) - 1} - {order})[::-1]; " if back else "")


def sorts(items: list[Item] | None, key: Any) -> bool:
    """Whether sorted() of these is by a key, or of tuples: else numbers are sorted as an array."""
    return items is not None and (key is not None or any(i.parts is not None or isinstance(i.entry, Is) and isinstance(i.entry.value, (tuple, list)) or
                                                         i.entry is not None and not isinstance(i.entry, Is) and i.entry.shape.kind in ("tuple", "list") for i in items))
