# SPDX-License-Identifier: Apache-2.0
"""Loops and comprehensions: over what has known parts they are written out, others become loops of the program."""
from __future__ import annotations

import ast
import copy
import functools
from typing import Any

from .kinds import of_several_kinds
from .known import ANY, Filled, Is, Item, Like, MOST_PARTS, Part, Scope, is_structure, is_tree, skeleton
from .signature import enumerated, is_strict, refusal
from .static import hyper_mapped, static_text, written_at
from .stores import Stores
from .._tree import Shape, is_key


def position(node: Any) -> tuple[int, int]:
    return node.lineno, node.col_offset


def stored_name(n: Any) -> set[str]:
    """The name that a node of the tree binds."""
    if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store):
        return {n.id}
    name = n.name if isinstance(n, (ast.MatchAs, ast.MatchStar)) else n.rest if isinstance(n, ast.MatchMapping) else None
    return {name} if name else set()


def items_of_any(text: str) -> str:
    """The items of a tuple, or the rows of an array, as a tuple."""
    return f"map(fn (e) {{ e }}, {text})"


MANY = 64  # items of a comprehension: a loop makes more
# b, rows of items like e, with the element type that holds e, too
WIDENED = "b = Where(false, Reshape(e, b.shape[1:]), b); "


def read_names(node: Any) -> set[str]:
    """Names that are read, without those that lambdas and comprehensions bind themselves."""
    if isinstance(node, ast.Name):
        return {node.id} if isinstance(node.ctx, ast.Load) else set()
    own = {a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)} if isinstance(node, ast.Lambda) else \
        {n.id for g in getattr(node, "generators", ()) for n in ast.walk(g.target) if isinstance(n, ast.Name)}
    return set().union(*map(read_names, ast.iter_child_nodes(node))) - own


def around(body: list, node: Any) -> tuple[set[str], set[str]]:
    """Names that statements bind before a node, and that they read after it; of the body, and of the blocks within it that the node is in."""
    bound: set[str] = set()
    for k, s in enumerate(body):
        if any(n is node for n in ast.walk(s)):
            later = [s, *body[k + 1:]] if isinstance(s, (ast.For, ast.While)) else body[k + 1:]  # a loop comes again
            read = set().union(*map(read_names, later))
            for block in (b for b in (getattr(s, "body", []), getattr(s, "orelse", [])) if isinstance(b, list)):
                if any(n is node for x in block for n in ast.walk(x)):
                    inner = around(block, node)
                    return bound | inner[0], read | inner[1]
            return bound, read
        bound |= bound_names([s])
    return bound, set()


def bound_names(nodes: list) -> set[str]:
    """Names that statements bind or change, without those of functions within."""
    found: set[str] = set()
    todo = list(nodes)
    while todo:
        n = todo.pop()
        if isinstance(n, ast.FunctionDef):
            found.add(n.name)
            continue
        if isinstance(n, (ast.Lambda, ast.ListComp, ast.GeneratorExp, ast.DictComp, ast.SetComp)):
            continue
        if isinstance(n, (ast.Import, ast.ImportFrom)):
            found |= {(a.asname or a.name).split(".")[0] for a in n.names}
        changed = n.value if isinstance(n, (ast.Subscript, ast.Attribute)) and isinstance(n.ctx, ast.Store) else grown(n)
        if isinstance(changed, ast.Name):
            found.add(changed.id)
        found |= stored_name(n)
        todo.extend(ast.iter_child_nodes(n))
    return found


def local_names(nodes: list) -> set[str]:
    """Names that are a function's own because statements of it bind them."""
    stored = {name for s in nodes for n in ast.walk(s) for name in stored_name(n)}
    functions = {n.name for s in nodes for n in ast.walk(s) if isinstance(n, ast.FunctionDef)}
    imported = {(a.asname or a.name).split(".")[0] for s in nodes for n in ast.walk(s)
                if isinstance(n, (ast.Import, ast.ImportFrom)) for a in n.names}
    return bound_names(nodes) & (stored | functions | imported)


def grown(node: Any) -> Any:
    """The list that a call of append or extend changes."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("append", "extend", "pop"):
        return node.func.value
    return None


def lengthened(node: Any) -> Any:
    """What xs += [x] changes, if xs is a list."""
    return node.target if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) else None


def changed_in_place(body: list) -> set[str]:
    """Names of what statements may change the items of."""
    nodes = [n for s in body for n in ast.walk(s)]
    calls = [n.func for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
    items = [n for n in nodes if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store)]
    return {n.value.id for n in (*calls, *items) if isinstance(n.value, ast.Name)}


def changed_by_method(n: Any) -> list[str]:
    """The name of a list or dictionary that a statement changes by xs.insert(...) or del xs[...]."""
    if isinstance(n, ast.Delete):
        return [t.value.id for t in n.targets if isinstance(t, ast.Subscript) and isinstance(t.value, ast.Name)]
    if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and isinstance(n.func.value, ast.Name) and \
            n.func.attr in ("insert", "pop", "clear", "reverse"):
        return [n.func.value.id]
    return []


def items_alone(node: Any, name: str) -> bool:
    """Whether a loop uses a list for its items and its length alone, or adds to it: no other name refers to it then."""
    alone = {id(n.value) for n in ast.walk(node) if isinstance(n, ast.Subscript)}
    alone |= {id(grown(n)) for n in ast.walk(node)} | {id(lengthened(n)) for n in ast.walk(node)}
    alone |= {id(n.args[0]) for n in ast.walk(node) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "len" and n.args}
    return all(id(n) in alone for n in ast.walk(node) if isinstance(n, ast.Name) and n.id == name)


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


def own_jumps(body: list) -> bool:
    """Whether statements leave or go on with the loop that they are the body of."""
    todo = list(body)
    while todo:
        n = todo.pop()
        if isinstance(n, (ast.Break, ast.Continue)):
            return True
        if isinstance(n, (ast.For, ast.While)):
            todo.extend(n.orelse)
        elif not isinstance(n, ast.FunctionDef):
            todo.extend(c for c in ast.iter_child_nodes(n) if isinstance(c, (ast.stmt, ast.match_case)))
    return False


def own_breaks(body: list) -> bool:
    todo = list(body)
    while todo:
        n = todo.pop()
        if isinstance(n, ast.Break):
            return True
        if not isinstance(n, (ast.For, ast.While, ast.FunctionDef)):
            todo.extend(c for c in ast.iter_child_nodes(n) if isinstance(c, (ast.stmt, ast.match_case)))
    return False


def parts_written(item: Any) -> list:
    """What stands in a tuple, list or dictionary that is written out, or the item itself."""
    parts = item.elts if isinstance(item, (ast.Tuple, ast.List)) else item.values if isinstance(item, ast.Dict) else None
    return [item] if parts is None else [n for p in parts for n in parts_written(p)]


class Renamed(ast.NodeTransformer):
    """Names replaced, also where functions are defined."""

    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self.names.get(node.id, node.id)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.name = self.names.get(node.name, node.name)
        return self.generic_visit(node)


class Loops(Part):
    """The part of the writer for what is repeated."""

    filling: dict[str, tuple]  # lists that the current loop fills: how long they become, the round's number, what was appended
    ended: bool                # the end of the current block is not reached

    # ---- comprehensions ----

    def comprehended(self, generators: list, elements: list, shapes: list | None = None) -> list | None:
        """The texts of a comprehension over known parts: one for each round, or a list if there are several
        elements. None if the parts are not known. `shapes` takes the structure of each."""
        gen = generators[0]
        items = None if gen.is_async else self.sequence(gen.iter)
        if items is None or len(items) > MOST_PARTS:
            return None
        out: list = []
        for item in items:
            outer, self.scope = self.scope, Scope(bound_names([gen.target]), self.scope)
            lines = self.assign_item(gen.target, item, "").replace("\n", "; ")
            tests = [self.decided(t) for t in gen.ifs]
            if not all(known for known, _ in tests):
                self.refuse(gen.ifs[[k for k, _ in tests].index(False)],
                            "how long a tuple is must be known when the function is compiled", "use where")
            if all(holds for _, holds in tests):
                if shapes is not None and len(generators) == 1:
                    shapes.append(self.part_shape(elements[-1]))
                inner = self.comprehended(generators[1:], elements, shapes) if len(generators) > 1 else [self.element(elements)]
                if inner is None:
                    self.scope = outer
                    return None
                out += [self.within(lines, t) for t in inner]
            self.scope = outer
        return out

    def element(self, elements: list) -> Any:
        """The text of one round; of a key its value."""
        texts = [self.expr(e) for e in elements[-1:]]
        if len(elements) == 1:
            return texts[0]
        known, key = self.static(elements[0])
        if not known or not is_key(key):
            self.refuse(elements[0], "keys of dictionaries must be texts or numbers that are known")
        return key, texts[0]

    @staticmethod
    def within(lines: str, text: Any) -> Any:
        if not lines:
            return text
        if isinstance(text, tuple):
            return text[0], f"(fn () {{ {lines}{text[1]} }})()"
        return f"(fn () {{ {lines}{text} }})()"

    def expr_ListComp(self, node: Any) -> str:
        texts = self.comprehended(node.generators, [node.elt])
        if texts is not None:
            return "(" + ", ".join(texts) + (",)" if len(texts) == 1 else ")")
        if any(gen.ifs or gen.is_async for gen in node.generators):
            self.refuse(node, "a comprehension with if needs parts that are known when the function is compiled",
                        "write a loop that fills an array, or use where")
        return self.mapped(node, node.generators)

    def mapped(self, node: Any, generators: list) -> str:
        """A comprehension as maps of maps, whose tuples become one."""
        gen = generators[0]
        before, over = self.mapped_over(gen.iter)
        outer, self.scope = self.scope, Scope(bound_names([gen.target]), self.scope)
        params, first = self.mapped_target(gen.target, len(over))
        inner = self.mapped(node, generators[1:]) if len(generators) > 1 else self.expr(node.elt)
        text = f"map{self.mark(node)}(fn ({', '.join(params)}) {{ {first}{inner} }}, {', '.join(over)})"
        self.scope = outer
        if len(generators) > 1:
            join, t, i = self.fresh(), self.fresh(), self.fresh()
            text = (f"(fn () {{ def {join}({t}, {i}) {{ if {i} == len({t}) {{ () }} else {{ "
                    f"TupleConcat({t}[{i}], {join}({t}, {i} + 1)) }} }}; {join}({text}, 0) }})()")
        return f"(fn () {{ {before}{text} }})()" if before else text

    def mapped_over(self, node: Any) -> tuple[str, list[str]]:
        """What `map` goes through for an iterable, and the statements before it: each text is a tuple, or an array,
        whose rows are the items."""
        called = self.static(node.func)[1] if isinstance(node, ast.Call) and self.static(node.func)[0] else None
        if called is zip and node.args:
            return self.mapped_zip(node)
        if called is enumerate and (counted := enumerated(node)) is not None:
            before, over = self.mapped_as_one(counted[0])
            start, t = self.expr(counted[1]) if counted[1] is not None else "0", self.fresh()
            return f"{before}{t} = {over}; ", [f"Unstack({start} + Arange(stop=len({t})))", t]
        counted = self.ranged(node, called)
        return "", [self.iterated(node) if counted is None else f"Unstack({counted})"]

    def ranged(self, node: Any, called: Any) -> str | None:
        """What range() counts, as an array."""
        if called is not range or not 1 <= len(node.args) <= 3 or node.keywords:
            return None
        ends = [self.expr(a) for a in node.args]
        start, stop, step = ("0", *ends, "1") if len(ends) == 1 else (*ends, "1")[:3]
        return f"Arange{self.mark(node)}(start={start}, stop={stop}, step={step})"

    def rows_of_many(self, node: Any, few: str) -> str:
        """The items of a comprehension as rows of one array, which a loop fills if they are many; `few` is the text otherwise."""
        gen = node.generators[0]
        called = self.static(gen.iter.func)[1] if isinstance(gen.iter, ast.Call) and self.static(gen.iter.func)[0] else None
        if len(node.generators) != 1 or gen.ifs or gen.is_async or not isinstance(gen.target, ast.Name) or \
                not (called is range or isinstance(gen.iter, ast.Name)):
            return few
        over, name, f, k, rows = self.ranged(gen.iter, called) or self.iterated(gen.iter), *(self.fresh() for _ in range(4))
        outer, self.scope = self.scope, Scope(bound_names([gen.target]), self.scope)
        item = f"fn ({self.local(gen.target.id)}) {{ {self.expr(node.elt)} }}"
        self.scope = outer
        put = f"(fn (b, e) {{ {WIDENED}IndexWrite(b, {k}, CastLike(e, b), axis=0) }})({rows}, {f}({name}[{k}]))"
        many = (f"{f} = {item}; {rows} = (fn (e) {{ BroadcastTo(e, TupleConcat((len({name}),), e.shape)) }})({f}({name}[0])); "
                f"for {k} in 1..len({name}) {{ {rows} = {put} }}; {rows}")
        either = f"fn ({name}) {{ if len({name}) <= {MANY} {{ {few} }} else {{ {many} }} }}"
        if called is not range:
            either = f"multitype(fn ({name}: tuple) {{ {few} }}, {either})"
        return f"({either}){self.mark(node)}({over})"

    def mapped_zip(self, node: ast.Call) -> tuple[str, list[str]]:
        """Of zip: parts as long as the shortest."""
        strict = is_strict(self, node)
        parts = [self.mapped_as_one(a) for a in node.args]
        before = "".join(b for b, _ in parts)
        if strict or len(parts) == 1:
            return before, [over for _, over in parts]
        names = [self.fresh() for _ in parts]
        before += "".join(f"{t} = {over}; " for t, (_, over) in zip(names, parts))
        n = functools.reduce(lambda a, b: f"Minimum({a}, {b})", [f"len({t})" for t in names])
        return before, [f"{t}{self.mark(node)}[:{n}]" for t in names]

    def mapped_as_one(self, node: Any) -> tuple[str, str]:
        """The same as one tuple or array."""
        before, over = self.mapped_over(node)
        if len(over) == 1:
            return before, over[0]
        names = ", ".join(self.fresh() for _ in over)
        return before, f"map(fn ({names}) {{ ({names}) }}, {', '.join(over)})"

    def mapped_target(self, target: Any, n: int) -> tuple[list[str], str]:
        """The parameters of the function that `map` calls with n items, and what binds the target to them."""
        names = [e for e in target.elts] if isinstance(target, (ast.Tuple, ast.List)) else [target]
        if n == 1 and isinstance(target, ast.Name):
            return [self.local(target.id)], ""
        params = [self.fresh() for _ in range(n)]
        if n == len(names) and not any(isinstance(e, ast.Starred) for e in names) and (n > 1 or target is names[0]):
            return params, "".join(self.bind_text(e, t, "") for e, t in zip(names, params)).replace("\n", "; ")
        whole = params[0] if n == 1 else f"({', '.join(params)})"
        return params, self.bind_text(target, whole, "").replace("\n", "; ")

    expr_GeneratorExp = expr_ListComp

    def expr_DictComp(self, node: ast.DictComp) -> str:
        pairs = self.comprehended(node.generators, [node.key, node.value])
        if pairs is None:
            return self.refuse(node, "it is not known what keys the dictionary has", "write the dictionary out, or use hyper_map")
        return self.record(list(dict(pairs).items()))

    def iterated(self, node: Any) -> str:
        if isinstance(node, ast.Call) and self.static(node.func) == (True, zip):
            before, over = self.mapped_zip(node)
            names = [self.fresh() for _ in over]
            text = f"map(fn ({', '.join(names)}) {{ ({', '.join(names)}) }}, {', '.join(over)})"
            return f"(fn () {{ {before}{text} }})()" if before else text
        if isinstance(node, ast.Call) and self.static(node.func) == (True, reversed):
            return f"({self.expr(node.args[0])})[::-1]"
        return self.expr(node)

    # ---- loops ----

    def with_else(self, node: Any, indent: str, write: Any) -> str:
        """A loop and its else, which runs if no break left the loop."""
        flag = self.fresh() if node.orelse and own_breaks(node.body) else None
        self.flags.append(flag)
        text = (f"{indent}{flag} = true\n" if flag else "") + write(node, indent)
        self.flags.pop()
        if not node.orelse or self.ended:
            return text
        names = bound_names(node.orelse)
        if not flag:
            return text + self.block(node.orelse, indent)
        text += self.made_variables(names, node, indent)
        text += f"{indent}if {flag} {{\n{self.block(node.orelse, indent + '  ')}{indent}}}\n"
        self.ended = False
        self.forget(names)
        return text

    def stmt_While(self, node: ast.While, indent: str) -> str:
        return self.with_else(node, indent, self.write_while)

    def write_while(self, node: ast.While, indent: str) -> str:
        names = bound_names(node.body)
        text = self.made_variables(names, node, indent)
        rows, longer, endless = self.in_rows(node, indent), self.longer(node), False
        text += rows.text

        def write() -> str:
            nonlocal endless
            endless = self.decided(node.test) == (True, True)
            test = "true" if endless else self.condition(node.test)
            return f"{indent}{self.mark(node.test)}while {test} {{\n{self.block(node.body, indent + '  ')}{indent}}}\n"
        text += self.rounds(node, names, (rows, longer), write, indent)
        self.ended = endless and not own_breaks(node.body)
        return text

    def rounds(self, node: Any, names: set[str], bound: tuple, write: Any, indent: str) -> str:
        """A loop whose rounds bind names: what is known of these holds in each round and after the last one. A list or tuple that a
        round makes longer or shorter is one whose length is not known; of what is of another structure on each of its ways nothing is. Then
        the loop is written anew."""
        s = self.scope
        before = dict(s.env), set(s.virtual)
        own = {x for n in ast.walk(node) for x in changed_by_method(n) if isinstance(e := s.env.get(x), Like) and e.own and e.shape.kind in ("list", "mapped")} - names
        names, changed = names | own, {x for x in own if not s.env[x].shape.parts}
        bound_anew = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
        at_any = {n.value.id for n in ast.walk(node) if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store) and isinstance(n.value, ast.Name) and not isinstance(n.slice, (ast.Constant, ast.UnaryOp))}
        stored = {x for x in names - bound_anew if isinstance(e := s.env.get(x), Like) and e.own and e.shape.parts and
                  (e.shape.kind == "dict" or e.shape.kind == "list" and x not in at_any)}

        def forget() -> None:
            self.forget(names, changed)
            for x in own | {x for x in stored if isinstance(s.env.get(x), Like)}:  # no other name for it
                s.env[x].own = True
            for b in bound:
                b.bind(self)
        while True:
            s.env, s.virtual = dict(before[0]), set(before[1])
            forget()
            begin = {x: e.shape for x in names if isinstance(e := s.env.get(x), Like) and e.shape.kind in ("list", "tuple")}
            text, self.ended = write(), False
            now = {x for x, shape in begin.items() if isinstance(e := s.env.get(x), Like) and (
                e.shape.kind == "mapped" or e.shape.kind in ("list", "tuple") and len(e.shape.parts) != len(shape.parts))}
            mixed = {x for x in begin if s.env.get(x) is None and x in s.apart} - s.virtual
            kinds = {x: found for x in begin if x not in s.several and (found := of_several_kinds([before[0].get(x), s.env.get(x)])) is not None}
            s.several |= kinds
            given = {x for x in stored if not isinstance(e := s.env.get(x), Like) or not e.own}  # a round gives it away
            stored -= given
            if not now and not mixed and not kinds and not given:
                break
            changed |= now
            s.mixed |= mixed
        for x in sorted(x for x in begin if s.env.get(x) is None and x not in s.virtual):  # of a call, say
            why = static_text(self, node, f"CompileError: the loop in line {node.lineno} changes how many items {x} has, which is not known before it")
            text += f"{indent}{self.mark(node)}assert(len({self.local(x)}) == {len(begin[x].parts)}, {why})\n"
        forget()
        return text

    def stmt_For(self, node: ast.For, indent: str) -> str:
        return self.with_else(node, indent, self.write_for)

    def write_for(self, node: Any, indent: str) -> str:
        called = self.static(node.iter.func) if isinstance(node.iter, ast.Call) else (False, None)
        measured = {id(n.args[0]) for n in ast.walk(node.iter) if isinstance(n, ast.Call) and len(n.args) == 1 and self.static(n.func) == (True, len)}
        for n in ast.walk(node.iter):  # len(xs) is a number by then, the loop does not hold xs
            if isinstance(n, ast.Name) and n.id in changed_in_place(node.body) and id(n) not in measured and not self.changes_own_keys(node, n):
                self.give_away(n)
        if not own_jumps(node.body) and (called != (True, range) or self.b.unrolls or self.wants_parts(node)):
            items = self.sequence(node.iter)
            if items is not None:
                return self.written_out(node, items, indent)
        self.b.rolled |= called == (True, range) and all(self.static(a)[0] for a in node.iter.args)
        lists, late = self.filled(node), self.first_bound(node)
        if lists or late:
            return self.write_filling(node, lists, late, called[1] if called[0] else None, indent)
        names = bound_names([*node.body, node.target])
        text = self.made_variables(names, node, indent)
        rows, longer = self.in_rows(node, indent), self.longer(node)
        text += rows.text

        def write() -> str:
            if called == (True, range):
                return self.for_range(node, indent)
            if called == (True, zip) and node.iter.args:
                return self.for_zip(node, indent)
            if called == (True, enumerate) and isinstance(node.target, ast.Tuple) and len(node.target.elts) == 2 and enumerated(node.iter):
                return self.for_enumerate(node, indent)
            inner = indent + "  "
            head, first = self.loop_target(node.target, inner)
            over, t = self.iterated(node.iter), self.fresh()
            text = f"{indent}{t} = {over}\n{indent}{self.mark(node.iter)}assert(len({t}) >= 0)\n"  # also if the body does nothing
            return f"{text}{indent}{self.mark(node)}for {head} in {t} {{\n{first}{self.block(node.body, inner)}{indent}}}\n"
        text += self.rounds(node, names, (rows, longer), write, indent)
        self.ended = False
        return text

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
        """The first round stands before the loop: it tells what the items are like, and what the names that it binds are."""
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

    def parts_given(self, args: list) -> list:
        """The arguments of zip; those of zip(*xs) are the parts of a tuple, which has a name."""
        if len(args) != 1 or not isinstance(args[0], ast.Starred):
            return list(args)
        known, n = self.known_length(args[0].value)
        if not known:
            self.refuse(args[0], "it is not known how many arguments * gives", "write the arguments out")
        t, s = self.fresh(), self.like(args[0].value)
        self.before.append(f"{self.indent}{t} = {self.expr(args[0].value)}\n")
        self.scope.names.add(t)
        if s is not None:
            self.scope.env[t] = Like(s)
        made = [ast.Subscript(ast.Name(t, ast.Load()), ast.Constant(i), ast.Load()) for i in range(n)]
        for m in made:
            for x in ast.walk(m):
                ast.copy_location(x, args[0])
        return made

    def counted(self, node: Any, called: Any, n: str, indent: str) -> tuple[str, Any]:
        """The number of rounds bound to a name, and what binds the loop's target in round k."""
        target, args = node.target, node.iter.args if isinstance(node.iter, ast.Call) else []
        why = refusal(called, args, {k.arg: k.value for k in node.iter.keywords}) if args or called is range else None
        if why:
            self.refuse(node.iter, why)
        if called is range:
            low, step = (self.expr(args[0]) if len(args) > 1 else "0"), (self.static(args[2])[1] if len(args) > 2 else 1)
            if not isinstance(step, int) or step == 0:
                self.refuse(node.iter, "the step of a range must be a constant that is not 0", "count, and multiply")
            start, end = self.fresh(), self.expr(args[1] if len(args) > 1 else args[0])
            text = f"{indent}{start} = {low}\n{indent}{n} = ({end} - {start} + {step - 1 if step > 0 else step + 1}) // {step}\n"
            return text, lambda k, at: self.bind_text(target, f"{start} + {k} * {step}", at)
        count, over = None, [node.iter]
        starts, strict = None, called is zip and is_strict(self, node.iter)
        if called is enumerate:
            first, starts = enumerated(node.iter) or self.refuse(node.iter, "enumerate takes what it goes through, and start")
        if called in (zip, enumerate) and isinstance(target, ast.Tuple):
            over = [first] if called is enumerate else self.parts_given(args)
            if len(target.elts) != len(over) + (called is enumerate):
                self.refuse(node.iter, "a loop that fills a list takes one name for each part")
            count = target.elts[0] if called is enumerate else None
        names = [self.fresh() for _ in over]
        text = "".join(f"{indent}{t} = {self.iterated(a)}\n" for t, a in zip(names, over))
        lengths = [f"len({t})" for t in names]
        text += self.strictly(node.iter, lengths, indent) if strict else ""
        if starts is not None:
            low = self.fresh()
            text += f"{indent}{low} = {self.expr(starts)}\n"
        text += f"{indent}{n} = {functools.reduce(lambda a, b: f'Minimum({a}, {b})', lengths)}\n"
        targets = target.elts[-len(over):] if len(over) > 1 or count is not None or called is zip else [target]

        def item(k: str, at: str) -> str:
            number = f"{low} + {k}" if starts is not None else k
            counting = self.bind_text(count, number, at) if count is not None else ""
            return counting + "".join(self.bind_text(e, f"{t}[{k}]", at) for e, t in zip(targets, names))
        return text, item

    def strictly(self, node: Any, lengths: list[str], indent: str) -> str:
        """What stops a loop over zip(strict=True) whose parts have several lengths."""
        same = " and ".join(f"{n} == {lengths[0]}" for n in lengths[1:]) or "true"
        return f"{indent}{self.mark(node)}assert({same}, \"ValueError: zip(strict=True) is of parts of several lengths\")\n"

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

    def wants_parts(self, node: ast.For) -> bool:
        """Whether a loop over a range takes parts of tuples by its count, makes lists longer, reads one that it fills, or
        fills one with functions."""
        counts = bound_names([node.target])
        functions = {s.name for s in node.body if isinstance(s, ast.FunctionDef)}
        for n in (n for s in node.body for n in ast.walk(s)):
            if isinstance(n, ast.Subscript) and self.is_bound(n.value) and any(isinstance(i, ast.Name) and i.id in counts for i in ast.walk(n.slice)):
                known, x = self.static(n.value) if isinstance(n.value, (ast.Name, ast.Attribute)) else (False, None)
                if (known and isinstance(x, (tuple, list, dict))) or is_structure(self.like(n.value)) or \
                        isinstance(n.slice, ast.JoinedStr):
                    return True
            list_ = grown(n)
            if list_ is not None and (is_structure(self.like(list_)) or self.reads_too(node.body, list_)):
                return True
            if list_ is not None and any(isinstance(x, ast.Lambda) or isinstance(x, ast.Name) and x.id in functions
                                         for a in n.args for x in parts_written(a)):
                return True
            if isinstance(n, ast.AugAssign) and is_structure(self.like(ast.Name(getattr(n.target, "id", ""), ast.Load()))):
                return True
        return False

    @staticmethod
    def reads_too(body: list, list_: Any) -> bool:
        """Whether the list is more than filled there."""
        return isinstance(list_, ast.Name) and any(isinstance(n, ast.Name) and n.id == list_.id and n is not list_ for s in body for n in ast.walk(s))

    def changes_own_keys(self, node: Any, name: ast.Name) -> bool:
        """for k in d: d[k] = ..., which changes no item that the loop reads later."""
        s, over = self.like(name), node.iter
        if isinstance(over, ast.Call) and isinstance(over.func, ast.Attribute) and over.func.attr in ("items", "keys") and not over.args:
            over = over.func.value
        key = node.target.elts[0] if isinstance(node.target, ast.Tuple) and isinstance(node.iter, ast.Call) else node.target
        if over is not name or s is None or s.kind != "dict" or not isinstance(key, ast.Name):
            return False
        uses = [n for s in node.body for n in ast.walk(s) if isinstance(n, (ast.Attribute, ast.Subscript)) and isinstance(n.value, ast.Name) and n.value.id == name.id]
        whole = [n for s in node.body for n in ast.walk(s) if isinstance(n, ast.Name) and n.id == name.id]
        rebound = any(isinstance(n, ast.Name) and n.id == key.id and isinstance(n.ctx, ast.Store) for s in node.body for n in ast.walk(s))
        return not rebound and len(whole) == len(uses) and all(
            isinstance(n, ast.Subscript) and (isinstance(n.ctx, ast.Load) or isinstance(n.ctx, ast.Store) and isinstance(n.slice, ast.Name) and n.slice.id == key.id) for n in uses)

    def written_out(self, node: ast.For, items: list[Item], indent: str) -> str:
        """A loop over known parts: its body once for each."""
        pairs = [self.in_variables(node, item, indent) for item in items]
        text = "".join(t for t, _ in pairs)
        self.ended = False
        for i, (_, item) in enumerate(pairs):
            body = self.with_own_functions(node.body) if i < len(pairs) - 1 else node.body
            text += self.assign_item(node.target, item, indent) + self.block(body, indent)
            if self.ended:
                break
        return text

    def with_own_functions(self, body: list) -> list:
        """The body with other names for the functions in it, which the next round defines again."""
        names = {s.name: f"{s.name}_{self.fresh()}" for s in body if isinstance(s, ast.FunctionDef)}
        if not names:
            return body
        self.scope.names |= set(names.values())
        return [Renamed(names).visit(copy.deepcopy(s)) for s in body]

    def loop_target(self, node: Any, inner: str) -> tuple[str, str]:
        if isinstance(node, ast.Name):
            return self.local(node.id), ""
        t = self.fresh()
        return t, self.bind_text(node, t, inner)

    def read_after(self, node: Any) -> bool:
        """Whether the loop's variable is read outside of loops that bind it."""
        name, todo = node.target.id, list(self.scope.node.body)
        while todo:
            n = todo.pop()
            if isinstance(n, ast.For) and isinstance(n.target, ast.Name) and n.target.id == name:
                todo += n.orelse
                continue
            if isinstance(n, (ast.ListComp, ast.GeneratorExp, ast.DictComp)) and name in bound_names([g.target for g in n.generators]):
                continue
            if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) and position(n) > position(node):
                return True
            todo.extend(ast.iter_child_nodes(n))
        return False

    def bound_before(self, name: str, node: Any) -> bool:
        args = self.scope.node.args
        if name in {a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)}:
            return True
        return any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store) and position(n) < position(node)
                   for n in ast.walk(self.scope.node))

    def for_range(self, node: Any, indent: str) -> str:
        args, inner = node.iter.args, indent + "  "
        if node.iter.keywords or not 1 <= len(args) <= 3:
            self.refuse(node.iter, "range takes one to three numbers")
        known, step = self.static(args[2]) if len(args) == 3 else (True, 1)
        if known and (not isinstance(step, int) or step == 0):
            self.refuse(args[2], "ValueError: the step of a range is a whole number that is not 0")
        start = self.expr(args[0]) if len(args) > 1 else "0"
        stop = self.expr(args[1] if len(args) > 1 else args[0])
        before, first = "", ""
        if not known:
            return self.for_steps(node, (start, stop, self.expr(args[2])), indent)
        if step != 1 and not self.static(args[0])[0]:  # a round may bind its names anew
            before, start = f"{indent}{(t := self.fresh())} = {start}\n", t
        if isinstance(node.target, ast.Name) and self.read_after(node):  # it keeps its last value
            head = self.fresh()
            start_, name = self.fresh(), self.local(node.target.id)
            before += f"{indent}{start_} = {start}\n"
            start = start_
            if not self.bound_before(node.target.id, node):
                runs = f"{stop} > {start}" if step > 0 else f"{stop} < {start}"
                before += (f"{indent}{self.mark(node)}assert({runs}, \"the loop does not run, so {node.target.id} is not "
                           f"bound\")\n{indent}{name} = {start}\n")
            first = f"{inner}{name} = {head if step == 1 else f'{start} + {head} * {step}'}\n"
        else:
            head, first = self.loop_target(node.target, inner)
            if step != 1:
                name, head = head, self.fresh()
                first = f"{inner}{name} = {start} + {head} * {step}\n{first}"
        if step == 1:
            span = f"{start}..({stop})"
        else:
            span = f"0..(({stop} - {start} + {step - 1 if step > 0 else step + 1}) // {step})"
        return f"{before}{indent}{self.mark(node)}for {head} in {span} {{\n{first}{self.block(node.body, inner)}{indent}}}\n"

    def for_steps(self, node: Any, ends: tuple, indent: str) -> str:
        """A range whose step is known when the program runs."""
        if isinstance(node.target, ast.Name) and self.read_after(node) and not self.bound_before(node.target.id, node):
            self.refuse(node.iter, f"the step of a range must be a constant where {node.target.id} is read after the loop", f"bind {node.target.id} before it")
        start, stop, step, k = (self.fresh() for _ in range(4))
        inner = indent + "  "
        head, first = self.loop_target(node.target, inner)
        before = "".join(f"{indent}{name} = {text}\n" for name, text in zip((start, stop, step), ends))
        why = static_text(self, node, "ValueError: range() arg 3 must not be zero")
        before += f"{indent}{self.mark(node.iter)}assert({step} != 0, {why})\n"
        return (f"{before}{indent}{self.mark(node)}for {k} in 0..(-(({start} - {stop}) // {step})) {{\n{inner}{head} = {start} + {k} * {step}\n"
                f"{first}{self.block(node.body, inner)}{indent}}}\n")

    def for_zip(self, node: Any, indent: str) -> str:
        """Over tensors: by their first dim, as long as all have parts."""
        inner = indent + "  "
        over = [self.fresh() for _ in node.iter.args]
        text = "".join(f"{indent}{t} = {self.expr(a)}\n" for t, a in zip(over, node.iter.args))
        if is_strict(self, node.iter):
            text += self.strictly(node.iter, [f"len({t})" for t in over], indent)
        count = f"len({over[0]})"
        for t in over[1:]:
            count = f"Minimum({count}, len({t}))"
        k = self.fresh()
        parts = [f"{t}[{k}]" for t in over]
        if isinstance(node.target, ast.Tuple) and len(node.target.elts) == len(parts):
            first = "".join(self.bind_text(e, p, inner) for e, p in zip(node.target.elts, parts))
        else:
            first = self.bind_text(node.target, "(" + "".join(p + ", " for p in parts).rstrip(" ") + ")", inner)
        return f"{text}{indent}{self.mark(node)}for {k} in 0..{count} {{\n{first}{self.block(node.body, inner)}{indent}}}\n"

    def for_enumerate(self, node: Any, indent: str) -> str:
        count, item = node.target.elts
        over_, start_ = enumerated(node.iter) or (node.iter, None)
        start = self.expr(start_) if start_ is not None else "0"
        inner = indent + "  "
        head, first = self.loop_target(item, inner)
        n, t = self.target(count), self.fresh()
        over = self.iterated(over_)
        return (f"{indent}{t} = {start} - 1\n{indent}{self.mark(node)}for {head} in {over} {{\n{inner}{t} = {t} + 1\n"
                f"{inner}{n} = {t}\n{first}{self.block(node.body, inner)}{indent}}}\n")

    # ---- lists and dictionaries that the function itself made ----

    def grow(self, node: Any, indent: str) -> Any:
        """xs.append(x), xs.extend(ys), as a statement; None: it is another."""
        list_ = grown(node)
        if list_ is None or len(node.args) != 1 or node.keywords:
            return None
        if isinstance(list_, ast.Name) and list_.id in self.filling:
            return self.fill(node, list_.id, indent)
        e = self.owned(list_, node)
        if e.shape.kind == "mapped":
            return self.grow_any(node, list_, e, indent)
        if e.shape.kind == "stacked":
            self.refuse(node, "the list is an array, as a loop filled it: it does not grow", "use concatenate")
        if node.func.attr == "append":
            more, shapes = f"({self.expr(node.args[0])},)", [self.part_shape(node.args[0])]
        else:
            items = self.sequence(node.args[0])
            if items is None:
                self.refuse(node, "it is not known how long the list becomes")
            more, shapes = self.item_text(node, Item(parts=items)), [self.item_shape(i) for i in items]
        name = self.local(list_.id)
        self.bind(list_.id, Like(type(e.shape)("list", [*e.shape.parts, *shapes]), own=True))
        return f"{indent}{self.mark(node)}{name} = TupleConcat({name}, {more})\n"

    def grow_any(self, node: Any, list_: ast.Name, e: Like, indent: str) -> str:
        """The same of a list whose length types alone tell."""
        name, value = self.local(list_.id), node.args[0]
        e.items = [self.items_like(e.shape)] if e.items is None else e.items
        if node.func.attr == "append":
            e.items.append(item_like(self.part_shape(value)))
            more = f"({self.expr(value)},)"
        else:
            given = self.like(value)
            if given is None or given.kind not in ("list", "tuple", "mapped"):
                self.refuse(node, "it is not known how long the list becomes")
            e.items.append(self.items_like(given))
            more = self.looked_at(value)
        if any(is_tree(i) for i in e.items) and len({i.key() for i in e.items}) > 1:
            self.refuse(node, f"the items of {list_.id} are of several structures, and shapes tell how many there are", "append items of one structure")
        return f"{indent}{self.mark(node)}{name} = TupleConcat({name}, {more})\n"

    def popped(self, node: Any, indent: str) -> tuple[str, str, Shape | None] | None:
        """x = xs.pop(i) of a list that the function has made: the statements around the binding, and the part's structure;
        `part_popped` is the part."""
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "pop" and len(node.args) < 2
                and isinstance(node.func.value, ast.Name)) or node.keywords:
            return None
        s = self.like(node.func.value)
        known, k = self.static(node.args[0]) if node.args else (True, -1)
        if s is None or s.kind != "list" or not known or not isinstance(k, int):
            return None
        if not -len(s.parts) <= k < len(s.parts):
            self.refuse(node, f"IndexError: the list has {len(s.parts)} items")
        self.owned(node.func.value, node)
        k, name, t = k % len(s.parts), self.local(node.func.value.id), self.fresh()
        rest = [*s.parts[:k], *s.parts[k + 1:]]
        self.part_popped = f"{t}[{k}]"
        self.bind(node.func.value.id, Like(Shape("list", rest), own=True))
        part = s.parts[k] if is_structure(s.parts[k]) else None
        return f"{indent}{t} = {name}\n", f"{indent}{name} = TupleConcat({t}[:{k}], {t}[{k + 1}:])\n", part

    def owned(self, node: Any, place: Any) -> Like:
        """What is known of a list or dictionary that may be changed: nothing else can see that it is."""
        e = self.scope.env.get(node.id) if isinstance(node, ast.Name) else None
        if isinstance(e, Like) and e.own:
            return e
        return self.refuse(place, "only a list or dictionary that the function has made changes in place, where it is known how long it is",
                    "lists grow in loops over what has known parts, and not after they were given away; "
                    "otherwise write xs = xs + [x], {**d, \"k\": x}, or x.at[i].set(value)")

    def store(self, target: Any, value: Any, indent: str, text: str = "") -> str:
        """xs[0] = x and d["k"] = x; `text`: what x is, if that is written already."""
        s, stores = self.like(target.value), self.stores()
        if stores and (is_structure(s) or s is not None and s.kind == "stacked") and stores.shares(value):
            self.refuse(value, "an array that changes in place would have another name here", "write .copy() after it")
        if s is not None and s.kind == "stacked" and self.owned(target.value, target):
            return self.store_row(target, value, indent)
        if not is_structure(s):
            if is_structure(self.like(value)) or isinstance(value, (ast.List, ast.ListComp)):
                from .builtins import array
                value = ast.copy_location(ast.Call(ast.copy_location(ast.Constant(array), value), [value], []), value)
            row = self.windowed_store(target, value) if isinstance(target.value, ast.Name) else None
            if row is not None:
                return self.store_elements(row[0], self.expr(row[1]), indent)
            masked = self.masked(target, value) if isinstance(target.value, ast.Name) else None
            return self.store_elements(target, self.expr(value) if masked is None else "", indent, masked)
        e = self.owned(target.value, target)
        known, k = self.static(target.slice)
        name, shape = self.local(target.value.id), e.shape
        names = list(shape.names)
        parts = dict(zip(names, shape.parts)) if shape.kind == "dict" else dict(enumerate(shape.parts))
        texts = {n: i.text for n, i in zip(parts, self.parts_of(name, shape))}
        if known and isinstance(k, int) and shape.kind == "list" and -len(parts) <= k < len(parts):
            k %= len(parts)
        elif not known or not is_key(k) or shape.kind != "dict":
            self.refuse(target, "which part changes must be known when the function is compiled", "use an array, and x.at[i].set(value)")
        texts[k], parts[k] = text or self.expr(value), self.part_shape(value)
        made = self.record(list(texts.items())) if shape.kind == "dict" else "(" + "".join(t + ", " for t in texts.values()).rstrip(" ") + ")"
        self.bind(target.value.id, Like(type(shape)(shape.kind, list(parts.values()), tuple(parts) if shape.kind == "dict" else ()), own=True))
        return f"{indent}{self.mark(target)}{name} = {made}\n"

    def stores(self) -> Stores | None:
        """Of the function that is written: which of its arrays change by x[i] = v."""
        s = self.scope
        while s and not isinstance(s.node, ast.FunctionDef):
            s = s.outer
        if s is None:
            return None
        if id(s.node) not in self.changed:
            self.changed[id(s.node)] = s.node, Stores(s.node, self.static, self.given if s.outer is None else ())
        return self.changed[id(s.node)][1]

    def one_element(self, node: ast.Subscript, text: str) -> str:
        """Of an array that changes in place: a number, which is a copy; a row would change with it."""
        t, array = self.fresh(), ast.unparse(node.value)
        why = static_text(self, node, f"TypeError: {ast.unparse(node)} is a part of {array}, which changes in place; write {ast.unparse(node)}.copy()")
        return f"(fn ({t}) {{ {self.mark(node)}assert(len({t}.shape) == 0, {why}); {t} }})({text})"

    def store_elements(self, target: ast.Subscript, text: str, indent: str, made: str | None = None) -> str:
        """x[i] = v of an array: the name is bound to the array with other elements, where nothing else has its memory."""
        s, stores = self.like(target.value), self.stores()
        if not isinstance(target.value, ast.Name) or is_structure(s) or s is not None and s.kind == "stacked" or stores is None:
            self.refuse(target, "only a variable of the function changes in place",
                        "write x[i, j] = v for x[i][j] = v, x = x.at[i].set(v), or make a new tuple or dictionary")
        name = target.value.id
        why = stores.refused.get(name, (target, f"{name} comes from outside of the function, where it would change", "")) if self.is_local(name) \
            else (target, f"{name} comes from outside of the function, where it would change", f"write x = {name}.copy(), and x[...] = ...")
        if why is not None:
            self.refuse(why[0] or target, why[1], why[2])
        self.seen_by_none(target, name)
        array, value = self.local(name), self.fresh()
        self.bind(name)
        if made is not None:
            return f"{indent}{self.mark(target)}{array} = {made}\n"
        return (f"{indent}{self.mark(target)}{value} = {text}\n"
                f"{indent}{self.mark(target)}{array} = {written_at(self, target, target, value, 'update', array)}\n")

    def give_away(self, node: Any) -> None:
        """Another name refers to it from now on."""
        e = self.scope.env.get(node.id) if isinstance(node, ast.Name) and self.scope else None
        if isinstance(e, Like):
            e.own = False


__all__ = ["Loops", "bound_names", "local_names", "position", "Is", "static_text"]
