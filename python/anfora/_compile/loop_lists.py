# SPDX-License-Identifier: Apache-2.0
"""Lists in loops: those that rounds make longer are tuples, those that they fill or whose items they replace are arrays."""
from __future__ import annotations

import ast
from typing import Any

from .comprehensions import WIDENED
from .kinds import batched_hint
from .known import ANY, Filled, Like, Part, is_none, is_structure, is_tree, levels, skeleton
from .names import bound_names, chain, grown, items_alone, lengthened, own_jumps, position, read_by_items
from .static import hyper_mapped, static_text
from .stores import given_back
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


class Filling:
    """A list that the current loop fills: it is an array from the first append on, with a row for each item that it will have."""

    def __init__(self, rounds: str, before: list[str], counter: tuple | None, rows: str) -> None:
        self.rounds, self.before = rounds, before  # how many rounds append an item, and the items before the loop
        self.begin = rows or str(len(before))      # how many these are; `rows`: of an array
        self.rows = f"({self.begin} + {rounds})" if self.begin != "0" else rounds
        self.counter = counter                 # of a range of step 1: the loop's variable, and the number that it begins with
        self.items: list[Shape] = []           # what was appended
        self.at: str | None = None             # the row of this round; None: the first round, in which the array is made
        self.count: str | None = None          # how many items it has; None: it is no array yet
        self.least = len(before)               # it has at least so many in the first round, and in each later one as many more as rounds were before

    def in_round(self, k: str) -> None:
        self.least = len(self.before)
        self.at = self.count = f"({self.begin} + {k})" if self.begin != "0" else k

    def grew(self) -> None:
        self.least += 1
        self.count = f"({self.at or self.begin} + 1)"

    def offset(self, index: Any) -> int | None:
        """How much larger than the number of the round an index is: of w[i - 1], where i is the loop's variable."""
        if self.counter is None:
            return None
        if isinstance(index, ast.BinOp) and isinstance(index.op, (ast.Add, ast.Sub)) and isinstance(index.right, ast.Constant) and type(index.right.value) is int:
            of = self.offset(index.left)
            return None if of is None else of + index.right.value * (1 if isinstance(index.op, ast.Add) else -1)
        return self.counter[1] if isinstance(index, ast.Name) and index.id == self.counter[0] else None


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

    filling: dict[str, Filling]  # lists that the current loop fills

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
                self.b.grows |= e.shape.kind == "list"
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
        changed = {of.id for s in node.body for n in ast.walk(s)
                   if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store) and isinstance(of := chain(n)[0], ast.Name)}
        changed |= {m.id for s in node.body for n in ast.walk(s) for m in given_back(n)}
        for x in sorted(changed):
            e = self.scope.env.get(x)
            if not (isinstance(e, Like) and e.own and items_alone(node, x)):
                continue
            whole = e.shape.kind == "list" and e.shape.parts and not any(is_structure(s) or is_none(s) for s in e.shape.parts)
            if whole:
                self.b.grows = True
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
        """Lists to which each round of a loop appends one item, and of which it reads items one by one; they are empty or arrays, or their items
        are known and the list cannot be a tuple in the loop."""
        if own_jumps(node.body) or node.orelse:
            return []
        ends: list[Any] = [s.value for s in node.body if isinstance(s, ast.Expr)]
        found = [n.func.value.id for n in ends if isinstance(grown(n), ast.Name) and n.func.attr == "append"]
        alone = [x for x in found if sum(isinstance(grown(n), ast.Name) and grown(n).id == x for s in node.body for n in ast.walk(s)) == 1
                 and isinstance(e := self.entry(x), Like) and e.own and e.shape.kind in ("list", "stacked") and read_by_items(node, x)]
        begun = {x for x in alone if self.entry(x).shape.parts}
        if not self.b.rows and len(begun) == len(alone) and not self.first_bound(node):
            return []
        return [x for x in alone if x not in begun or not any(map(is_tree, self.entry(x).shape.parts))]

    def first_bound(self, node: ast.For) -> list[str]:
        """Names that the rounds of a loop bind, nothing before it does, and something after it reads."""
        of = self.scope.node
        if own_jumps(node.body) or node.orelse or not isinstance(of, ast.FunctionDef):
            return []
        bound = bound_names([s for s in node.body if isinstance(s, (ast.Assign, ast.AnnAssign))])
        end = node.end_lineno, node.end_col_offset
        read = {n.id for n in ast.walk(of) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and position(n) >= end}
        return sorted(x for x in bound & read if not self.bound_before(x, node))

    def begun(self, node: Any, called: Any, indent: str) -> str:
        """What is written before a loop that a round may leave, `y = f(i)`, `if y > 5: break`: the names that each round binds before that, and that
        something after the loop reads, are bound by the first round. Nothing else that it does stays."""
        ways = [i for i, s in enumerate(node.body) if any(isinstance(n, (ast.Break, ast.Continue, ast.Return)) for n in ast.walk(s))]
        plain = [isinstance(s, (ast.Assign, ast.AnnAssign, ast.AugAssign)) for s in node.body]
        of, prefix = self.scope.node, node.body[:ways[0]] if ways else []
        if node.orelse or not isinstance(of, ast.FunctionDef) or not all(plain[:len(prefix)]):
            return ""
        end = node.end_lineno, node.end_col_offset
        read = {n.id for n in ast.walk(of) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and position(n) >= end}
        late = sorted(x for x in bound_names([s for s in prefix if isinstance(s, ast.Assign)]) & read if not self.bound_before(x, node))
        if not late:
            return ""
        s, n, first = self.scope, self.fresh(), self.fresh()
        changed = bound_names([*prefix, *([node.target] if isinstance(node, ast.For) else [])]) - set(late)
        kept = {x: self.fresh() for x in sorted(changed) if self.bound_before(x, node) and x not in s.virtual}
        env, virtual = dict(s.env), set(s.virtual)
        why = f"\"the loop does not run, so {', '.join(late)} is not bound\""
        if isinstance(node, ast.While):
            text = f"{indent}{self.mark(node)}assert({self.condition(node.test)}, {why})\n"
        else:
            text, item = self.counted(node, called, n, indent)
            text += f"{indent}{self.mark(node)}assert({n} > 0, {why})\n{indent}{first} = 0\n"
        text += "".join(f"{indent}{t} = {self.local(x)}\n" for x, t in kept.items())
        text += (item(first, indent) if isinstance(node, ast.For) else "") + self.block(prefix, indent) + self.made_variables(late, node, indent)
        if self.b.prints or self.b.hosted or self.b.calls_host:  # what it prints, and what the host does, would come twice
            s.env, s.virtual, self.ended = env, virtual, False
            return ""
        text += "".join(f"{indent}{self.local(x)} = {t}\n" for x, t in kept.items())
        s.env, s.virtual = env | {x: s.env[x] for x in late if x in s.env}, virtual
        self.ended = False
        return text

    def write_filling(self, node: Any, lists: list[str], late: list[str], called: Any, indent: str) -> str:
        """The first round is written before the loop: it tells what the items are like, and what the names that it binds are."""
        n, first, k = self.fresh(), self.fresh(), self.fresh()
        text, item = self.counted(node, called, n, indent)
        why = f"it is not known what is in {', '.join(lists)}" if lists else f"{', '.join(late)} is not bound"
        text += f"{indent}{self.mark(node)}assert({n} > 0, \"the loop does not run, so {why}\")\n{indent}{first} = 0\n"
        fillings = {x: self.to_fill(node, x, n, called) for x in lists}
        text += "".join(f"{indent}{f.begin} = len({self.local(x)})\n" for x, f in fillings.items() if self.entry(x).shape.kind == "stacked")
        self.filling |= fillings
        names = bound_names([*node.body, node.target])
        before = {x: e for x in names if isinstance(e := self.scope.env.get(x), Like) and is_structure(e.shape)}
        text += item(first, indent) + self.round(node, indent)
        self.scope.env |= {x: e for x, e in before.items() if x not in self.scope.env and x not in lists}  # what a loop carries keeps its structure
        text += self.made_variables(names, node, indent)
        self.forget(names)
        for x, f in fillings.items():
            f.in_round(k)
            self.scope.env[x] = Like(Shape("stacked"), own=True)
        inner = indent + "  "
        text += f"{indent}{self.mark(node)}for {k} in 1..{n} {{\n{item(k, inner)}{self.round(node, inner)}{indent}}}\n"
        self.forget(names)
        for x in lists:
            del self.filling[x]
            text += self.write_filled(node, x, fillings[x].rows, fillings[x].items[0], indent)
        self.ended = False
        return text

    def to_fill(self, node: Any, x: str, n: str, called: Any) -> Filling:
        of = self.entry(x).shape
        before = [i.text for i in self.parts_of(self.local(x), of)] if of.kind == "list" else []
        args, counter = (node.iter.args if called is range else []), None
        if 1 <= len(args) <= 2 and isinstance(node.target, ast.Name) and node.target.id not in bound_names(node.body):
            known, start = self.static(args[0]) if len(args) == 2 else (True, 0)
            counter = (node.target.id, start) if known and type(start) is int else None
        return Filling(n, before, counter, self.fresh() if of.kind == "stacked" else "")

    def item_filled(self, node: ast.Subscript) -> str | None:
        """w[-1], w[i - 1] of a list that the current loop fills; None: it is another thing. Rows that follow are no items of it yet."""
        f = self.filling.get(node.value.id) if isinstance(node.value, ast.Name) else None
        if f is None:
            return None
        known, j = self.static(node.slice)
        known, offset = known and type(j) is int, f.offset(node.slice)
        if f.count is None and (not f.before or known and -f.least <= j < f.least):
            return None
        b, i, n = self.fresh(), self.fresh(), self.fresh()
        name, count = (self.local(node.value.id), f.count) if f.count is not None else (f"Stack({', '.join(f.before)})", f.begin)
        row = f"({count} - {-j})" if known and j < 0 else str(j) if known else self.expr(node.slice)
        item = f"fn ({b}) {{ {b}{self.mark(node)}[%s] }}"
        if -f.least <= j < f.least if known else offset is not None and 0 <= offset < f.least:
            return hyper_mapped(item % row, [name])
        why = static_text(self, node, "IndexError: list index out of range")
        row = row if not known or j >= 0 else str(j)
        inside = f"Maximum(0, Minimum({n} - 1, if {i} < 0 {{ {i} + {n} }} else {{ {i} }}))"  # also where the branch is not taken
        of = hyper_mapped(item % inside, [name])
        return f"(fn ({i}, {n}) {{ {self.mark(node)}assert({i} < {n} and -{n} <= {i}, {why}); {of} }})({row}, {count})"

    def length_filled(self, node: Any) -> str | None:
        """len(w) of it."""
        f = self.filling.get(node.id) if isinstance(node, ast.Name) else None
        return None if f is None else f.count

    def write_filled(self, node: Any, x: str, n: str, item: Shape, indent: str) -> str:
        """A list of numbers or arrays stays an array. A list of tuples, whose parts have a row a round each, becomes a tuple of them; the
        library's own loops, such as scan's, want the parts."""
        name, part = self.local(x), self.fresh()
        row = f"map(fn ({part}) {{ {hyper_mapped(f'fn (e) {{ e[{part}] }}', [name])} }}, Arange(stop={n}))"
        if (self.fn.__module__ or "").startswith("anfora."):
            tree = skeleton(item) if is_structure(item) else Shape("hinted", of=batched_hint(item.of)) if item.kind == "hinted" else None
            self.scope.env[x] = Like(tree) if tree is not None else Like(Shape("stacked"), own=items_alone(node, x))
            return ""
        if is_tree(item):
            rows = self.fresh()
            self.scope.env[x] = Like(Filled(item, rows))
            return f"{indent}{rows} = {name}\n{indent}{self.mark(node)}{name} = {row}\n"
        self.scope.env[x] = Like(Shape("stacked", of=1 + levels(item)), own=items_alone(node, x))
        why = static_text(self, node, f"TypeError: what {x} is filled with are tuples or dictionaries; make them where they are appended: {x}.append((a, b))")
        tree = f"fn ({part}: %s) {{ {self.mark(node)}assert(false, {why}); {part} }}"
        return f"{indent}{name} = multitype({tree % 'tuple'}, {tree % 'record'}, fn ({part}) {{ {part} }})({name})\n"

    def fill(self, node: Any, name: str, indent: str) -> str:
        """xs.append(x) in a loop that fills xs."""
        f = self.filling[name]
        if any(isinstance(x, ast.Lambda) for x in parts_written(node.args[0])):
            self.refuse(node, "functions can be collected only where it is known how many there are",
                        "give range() a constant, or pass the parts on that the functions are made of")
        x, list_ = self.expr(node.args[0]), self.local(name)
        item = self.part_shape(node.args[0])
        hint = None if is_tree(item) or item.kind == "stacked" else self.structure(node.args[0])  # of what functions give
        f.items.append(Shape("hinted", of=hint) if hint else item)
        if f.begin != "0" and (hint or is_tree(item)):
            self.refuse(node, f"{name} begins with numbers or arrays, and a tuple follows")
        if f.at is None:
            before = f.before or [list_] * (f.begin != "0")
            names = [f"e{i}" for i in range(len(before))]
            made = f"BroadcastTo(e, TupleConcat(({f.rounds},), e.shape))"
            first = f"Stack({', '.join(names)})" if f.before else "".join(names)
            made = f"Concat({first}, {made}, axis=0)" if names else made
            made = hyper_mapped(f"fn ({', '.join([*names, 'e'])}) {{ {made} }}", [*before, x])
        else:
            # rows of the element type that holds all items, as numpy.stack gives them
            made = hyper_mapped(f"fn (b, e) {{ {WIDENED}"
                                f"IndexWrite(b, {f.at}, CastLike(e, b), axis=0, mode=\"update\") }}", [list_, x])
        f.grew()
        self.scope.env[name] = Like(Shape("stacked"), own=True)
        return f"{indent}{self.mark(node)}{list_} = {made}\n"
