# SPDX-License-Identifier: Apache-2.0
"""Lists in loops: those that rounds make longer are tuples, those that they fill or whose items they replace are arrays."""
from __future__ import annotations

import ast
from typing import Any

from .comprehensions import WIDENED
from .known import ANY, Filled, Like, Part, is_structure, is_tree, skeleton
from .names import bound_names, grown, items_alone, lengthened, own_jumps, position
from .static import hyper_mapped, static_text
from .._tree import Shape


class Rows:
    """Lists that are arrays in a loop, and the statements that make them so."""

    def __init__(self) -> None:
        self.text = ""
        self.names: list[str] = []

    def bind(self, writer: Any) -> None:
        for x in self.names:
            writer.scope.env[x] = Like(Shape("stacked"), own=True)


def item_like(s: Shape) -> Shape:
    """The structure of an item of a list."""
    return s if s.kind == "mapped" and not isinstance(s, Filled) else skeleton(s)


class Longer:
    """Lists that a loop makes longer, with the type of the items where it is known."""

    def __init__(self) -> None:
        self.items: dict[str, list[Shape]] = {}

    def bind(self, writer: Any) -> None:
        for x, items in self.items.items():
            same = bool(items) and all(s.key() == items[0].key() for s in items)
            writer.scope.env[x] = Like(Shape("mapped", of=items[0] if same else ANY, names=("list",)), own=True)
            writer.scope.env[x].items = items


def parts_written(item: Any) -> list:
    """The parts of a tuple, list or dictionary that is written out, or the item itself."""
    parts = item.elts if isinstance(item, (ast.Tuple, ast.List)) else item.values if isinstance(item, ast.Dict) else None
    return [item] if parts is None else [n for p in parts for n in parts_written(p)]


class Lists(Part):
    """The part of the writer for lists that loops change."""

    filling: dict[str, tuple]  # lists that the current loop fills: how long they become, the round's number, what was appended

    # ---- lists that a loop makes longer where shapes alone tell how often it runs: tuples, whose types have their length ----

    def longer(self, node: Any) -> "Longer":
        """The lists of the function to which the rounds of a loop append, and that nothing else refers to in it. A program in
        which values tell how often is refused when its types are inferred (E0724)."""
        lists = Longer()
        nodes = [n for s in node.body for n in ast.walk(s)]
        grow = [grown(n) for n in nodes if grown(n) is not None and n.func.attr != "pop"] + list(map(lengthened, nodes))
        for x in sorted({n.id for n in grow if isinstance(n, ast.Name)}):
            e = self.scope.env.get(x)
            if isinstance(e, Like) and e.own and e.shape.kind in ("list", "mapped") and x not in self.filling and items_alone(node, x):
                known = e.items if e.shape.kind == "mapped" else None
                begin = [self.items_like(e.shape)] if e.shape.kind == "mapped" or e.shape.parts else []
                lists.items[x] = begin if known is None else known
        return lists

    @staticmethod
    def items_like(s: Shape) -> Shape:
        """What all items of a list are like."""
        parts = [s.of or ANY] if s.kind == "mapped" else list(map(item_like, s.parts))
        return parts[0] if all(p.key() == parts[0].key() for p in parts) else ANY

    # ---- lists whose items a loop replaces by index: one array, with a row for each item ----

    def in_rows(self, node: Any, indent: str) -> Rows:
        """Lists of the function of which the rounds replace items, xs[i] = x, become arrays before the loop; nothing else may
        refer to them in it."""
        rows = Rows()
        changed = {n.value.id for s in node.body for n in ast.walk(s)
                   if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store) and isinstance(n.value, ast.Name)}
        for x in sorted(changed):
            e = self.scope.env.get(x)
            if not (isinstance(e, Like) and e.own and items_alone(node, x)):
                continue
            whole = e.shape.kind == "list" and e.shape.parts and not any(is_structure(s) for s in e.shape.parts)
            if whole:
                items = [i.text for i in self.parts_of(self.local(x), e.shape)]
                names = ", ".join(f"e{i}" for i in range(len(items)))
                rows.text += f"{indent}{self.mark(node)}{self.local(x)} = {hyper_mapped(f'fn ({names}) {{ Stack({names}) }}', items)}\n"
            if whole or e.shape.kind == "stacked":
                rows.names.append(x)
        return rows

    def store_row(self, target: Any, value: Any, indent: str) -> str:
        """xs[i] = x of a list that is an array; the array takes the element type that holds all items."""
        if isinstance(target.slice, (ast.Slice, ast.Tuple)):
            self.refuse(target, "one item of a list changes at a time", "write a loop")
        name, k = self.local(target.value.id), self.fresh()
        made = hyper_mapped(f"fn (b, e) {{ {WIDENED}IndexWrite(b, {k}, CastLike(e, b), axis=0, mode=\"update\") }}", [name, self.expr(value)])
        return f"{indent}{k} = {self.expr(target.slice)}\n{indent}{self.mark(target)}{name} = {made}\n"

    # ---- lists that a loop fills: one array each, with a row a round ----

    def filled(self, node: Any) -> list[str]:
        """Empty lists to which each round of a loop appends one item."""
        if own_jumps(node.body) or node.orelse:
            return []
        ends: list[Any] = [s.value for s in node.body if isinstance(s, ast.Expr)]
        found = [n.func.value.id for n in ends if isinstance(grown(n), ast.Name) and n.func.attr == "append"]
        return [x for x in found if sum(isinstance(grown(n), ast.Name) and grown(n).id == x for s in node.body for n in ast.walk(s)) == 1
                and isinstance(self.entry(x), Like) and self.entry(x).own and self.entry(x).shape.kind == "list"
                and not self.entry(x).shape.parts]

    def first_bound(self, node: ast.For) -> list[str]:
        """Names that the rounds of a loop bind, nothing before it does, and something after it reads."""
        of = self.scope.node
        if own_jumps(node.body) or node.orelse or not isinstance(of, ast.FunctionDef):
            return []
        bound = bound_names([s for s in node.body if isinstance(s, (ast.Assign, ast.AnnAssign))])
        end = node.end_lineno, node.end_col_offset
        read = {n.id for n in ast.walk(of) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and position(n) >= end}
        return sorted(x for x in bound & read if not self.bound_before(x, node))

    def write_filling(self, node: Any, lists: list[str], late: list[str], called: Any, indent: str) -> str:
        """The first round is written before the loop: it tells what the items are like, and what the names that it binds are."""
        n, first, k = self.fresh(), self.fresh(), self.fresh()
        text, item = self.counted(node, called, n, indent)
        why = f"it is not known what is in {', '.join(lists)}" if lists else f"{', '.join(late)} is not bound"
        text += f"{indent}{self.mark(node)}assert({n} > 0, \"the loop does not run, so {why}\")\n{indent}{first} = 0\n"
        items: dict[str, list[Shape]] = {x: [] for x in lists}
        self.filling |= {x: (n, None, items[x]) for x in lists}
        names = bound_names([*node.body, node.target])
        before = {x: e for x in names if isinstance(e := self.scope.env.get(x), Like) and is_structure(e.shape)}
        text += item(first, indent) + self.block(node.body, indent)
        self.filling |= {x: (n, k, items[x]) for x in lists}
        self.scope.env |= {x: e for x, e in before.items() if x not in self.scope.env and x not in lists}  # what a loop carries keeps its structure
        text += self.made_variables(names, node, indent)
        self.forget(names)
        inner = indent + "  "
        text += f"{indent}{self.mark(node)}for {k} in 1..{n} {{\n{item(k, inner)}{self.block(node.body, inner)}{indent}}}\n"
        self.forget(names)
        for x in lists:
            del self.filling[x]
            text += self.write_filled(node, x, n, items[x][0], indent)
        self.ended = False
        return text

    def write_filled(self, node: Any, x: str, n: str, item: Shape, indent: str) -> str:
        """A list of numbers or arrays stays an array. A list of tuples, whose parts have a row a round each, becomes a tuple of them; the
        library's own loops, such as scan's, want the parts."""
        name, part = self.local(x), self.fresh()
        row = f"map(fn ({part}) {{ {hyper_mapped(f'fn (e) {{ e[{part}] }}', [name])} }}, Arange(stop={n}))"
        if (self.fn.__module__ or "").startswith("anfora."):
            tree = skeleton(item) if is_structure(item) else item if item.kind == "hinted" else None
            self.scope.env[x] = Like(tree) if tree is not None else Like(Shape("stacked"), own=items_alone(node, x))
            return ""
        if is_tree(item):
            rows = self.fresh()
            self.scope.env[x] = Like(Filled(item, rows))
            return f"{indent}{rows} = {name}\n{indent}{self.mark(node)}{name} = {row}\n"
        self.scope.env[x] = Like(Shape("stacked"), own=items_alone(node, x))
        why = static_text(self, node, f"TypeError: what {x} is filled with are tuples or dictionaries; make them where they are appended: {x}.append((a, b))")
        tree = f"fn ({part}: %s) {{ {self.mark(node)}assert(false, {why}); {part} }}"
        return f"{indent}{name} = multitype({tree % 'tuple'}, {tree % 'record'}, fn ({part}) {{ {part} }})({name})\n"

    def fill(self, node: Any, name: str, indent: str) -> str:
        """xs.append(x) in a loop that fills xs."""
        n, k, items = self.filling[name]
        if any(isinstance(x, ast.Lambda) for x in parts_written(node.args[0])):
            self.refuse(node, "functions can be collected only where it is known how many there are",
                        "give range() a constant, or pass the parts on that the functions are made of")
        x, list_ = self.expr(node.args[0]), self.local(name)
        item = self.part_shape(node.args[0])
        hint = None if is_tree(item) or item.kind == "stacked" else self.structure(node.args[0])  # of what functions give
        items.append(Shape("hinted", of=hint) if hint else item)
        if k is None:
            made = hyper_mapped(f"fn (e) {{ BroadcastTo(e, TupleConcat(({n},), e.shape)) }}", [x])
        else:
            # rows of the element type that holds all items, as numpy.stack gives them
            made = hyper_mapped(f"fn (b, e) {{ {WIDENED}"
                                f"IndexWrite(b, {k}, CastLike(e, b), axis=0, mode=\"update\") }}", [list_, x])
        return f"{indent}{self.mark(node)}{list_} = {made}\n"
