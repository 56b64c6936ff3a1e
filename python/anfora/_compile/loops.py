# SPDX-License-Identifier: Apache-2.0
"""Loops: over what has known parts they are written out, others become loops of the program."""
from __future__ import annotations

import ast
import copy
import functools
from typing import Any

from .kinds import of_several_kinds
from .known import Item, Like, Part, differs_in_none, is_structure, levels
from .liveness import live_after, read_in_rounds
from .loop_lists import parts_written
from .names import bound_names, changed_by_method, changed_in_place, grown, own_breaks, own_jumps, position
from .signature import enumerated, is_strict, refusal
from .static import static_text
from .._tree import Shape


def _asks_keys(node: Any, name: str) -> bool:
    """Whether a node asks which keys a dictionary of this name has."""
    def is_it(n: Any) -> bool:
        return isinstance(n, ast.Name) and n.id == name
    if isinstance(node, ast.Call):
        method = isinstance(node.func, ast.Attribute) and is_it(node.func.value) and node.func.attr in ("get", "setdefault", "keys", "values", "items", "pop")
        return method or isinstance(node.func, ast.Name) and any(map(is_it, node.args))
    return isinstance(node, ast.Compare) and any(map(is_it, node.comparators)) or isinstance(node, (ast.For, ast.comprehension)) and is_it(node.iter)


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

    ended: bool                # the end of the current block is not reached

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
        text = self.begun(node, None, indent) + self.made_variables(names, node, indent)
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

    def no_new_keys(self, node: Any, held: dict[str, Shape]) -> None:
        """Refuses a loop that asks which keys a dictionary has, of which a round has others than the one before."""
        for x, s in held.items():
            e = self.scope.env.get(x)
            if s.kind == "dict" and isinstance(e, Like) and e.shape.kind == "dict" and e.shape.names != s.names and \
                    (asks := next((n for n in ast.walk(node) if _asks_keys(n, x)), None)) is not None:
                self.refuse(asks, f"the rounds of the loop change which keys {x} has, which is asked here", f"make {x} with all its keys before the loop")

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

        stacked = {x: e.shape for x in names - own - stored if isinstance(e := s.env.get(x), Like) and x not in s.mixed and
                   any(p.kind == "stacked" for p in e.shape.walk())}  # and so in each round, unless one binds another thing

        outer = s.kept
        s.kept = outer | {x for x in names if read_in_rounds(node, x) or live_after(s.node, node, x)}

        def forget() -> None:
            self.forget(names, changed)
            for x, shape in stacked.items():
                self.bind(x, Like(shape))
            for x in own | stored:  # no other name for it
                if isinstance(e := s.env.get(x), Like):
                    e.own = True
            for b in bound:
                b.bind(self)
        while True:
            s.env, s.virtual = dict(before[0]), set(before[1])
            forget()
            held = {x: e.shape for x in names if isinstance(e := s.env.get(x), Like)}
            begin = {x: e.shape for x in names if isinstance(e := s.env.get(x), Like) and e.shape.kind in ("list", "tuple")}
            text, self.ended = write(), False
            if other := {x for x, shape in stacked.items() if not isinstance(e := s.env.get(x), Like) or e.shape.key() != shape.key()}:
                stacked = {x: shape for x, shape in stacked.items() if x not in other}
                continue
            now = {x for x, shape in begin.items() if isinstance(e := s.env.get(x), Like) and (
                e.shape.kind == "mapped" or e.shape.kind in ("list", "tuple") and len(e.shape.parts) != len(shape.parts))}
            mixed = {x for x in begin if s.env.get(x) is None and x in s.apart} - s.virtual
            kinds = {x: found for x in names if x not in s.several and (found := of_several_kinds([before[0].get(x), s.env.get(x)])) is not None}
            s.several |= kinds
            given = {x for x in stored if not isinstance(e := s.env.get(x), Like) or not e.own}  # a round gives it away
            stored -= given
            mixed |= {x for x, shape in held.items() if isinstance(e := s.env.get(x), Like) and differs_in_none(shape, e.shape)}
            self.no_new_keys(node, held)
            if not now and not mixed and not kinds and not given:
                break
            changed |= now
            s.mixed |= mixed
        for x in sorted(x for x in begin if s.env.get(x) is None and x not in s.virtual):  # of a call, say
            why = static_text(self, node, f"CompileError: the loop in line {self.place(node).line} changes how many items {x} has, which is not known before it")
            text += f"{indent}{self.mark(node)}assert(len({self.local(x)}) == {len(begin[x].parts)}, {why})\n"
        s.kept = outer
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
        text = self.begun(node, called[1] if called[0] else None, indent) + self.made_variables(names, node, indent)
        rows, longer = self.in_rows(node, indent), self.longer(node)
        text += rows.text

        def write() -> str:
            if called == (True, range):
                return self.for_range(node, indent)
            if called == (True, zip) and node.iter.args:
                return self.for_zip(node, indent)
            if called == (True, enumerate) and isinstance(node.target, ast.Tuple) and len(node.target.elts) == 2 and enumerated(node.iter):
                return self.for_enumerate(node, indent)
            inner, t = indent + "  ", self.fresh()
            text = f"{indent}{t} = {self.iterated(node.iter)}\n{indent}{self.mark(node.iter)}assert(len({t}) >= 0)\n"  # also if the body does nothing
            before, head, first = self.kept_target(node, node.target, f"{t}[0]", t, indent)
            return f"{text}{before}{indent}{self.mark(node)}for {head} in {t} {{\n{first}{self.round(node, inner)}{indent}}}\n"
        text += self.rounds(node, names, (rows, longer), write, indent)
        self.ended = False
        return text

    def round(self, node: Any, indent: str) -> str:
        """The body of a loop whose target is bound."""
        self.scope.env |= self.rows_bound(node.target, node.iter)
        return self.block(node.body, indent)

    def rows_bound(self, target: Any, over: Any) -> dict[str, Like]:
        """The names that a target binds to lists: the items of a list of lists, or the rows of an array that stands for one."""
        called = self.static(over.func)[1] if isinstance(over, ast.Call) and over.args and self.static(over.func)[0] else None
        if called in (zip, enumerate) and isinstance(target, ast.Tuple):
            pairs = zip(target.elts, over.args) if called is zip else [(target.elts[-1], over.args[0])]
            return {n: e for t, a in pairs for n, e in self.rows_bound(t, a).items()}
        s = self.like(over)
        if not isinstance(target, ast.Name) or s is None:
            return {}
        if s.kind == "mapped" and s.of is not None and s.of.kind == "mapped":
            return {target.id: Like(s.of)}
        return {target.id: Like(Shape("stacked", of=s.of - 1))} if levels(s) > 1 else {}

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
        rows = [self.rows_of(a, indent) for a in over]
        text, lengths = "".join(r[0] for r in rows), [r[1] for r in rows]
        text += self.strictly(node.iter, lengths, indent) if strict else ""
        if starts is not None:
            low = self.fresh()
            text += f"{indent}{low} = {self.expr(starts)}\n"
        text += f"{indent}{n} = {functools.reduce(lambda a, b: f'Minimum({a}, {b})', lengths)}\n"
        targets = target.elts[-len(over):] if len(over) > 1 or count is not None or called is zip else [target]

        def item(k: str, at: str) -> str:
            number = f"{low} + {k}" if starts is not None else k
            counting = self.bind_text(count, number, at) if count is not None else ""
            return counting + "".join(self.bind_text(e, r[2](k), at) for e, r in zip(targets, rows))
        return text, item

    def rows_of(self, node: Any, indent: str) -> tuple[str, str, Any]:
        """What a loop goes through: what stands before the loop, how many items there are, and what gives item k. A range needs no array."""
        t = self.fresh()
        called = isinstance(node, ast.Call) and self.static(node.func) == (True, range) and not node.keywords and 1 <= len(node.args) <= 3
        known, step = self.static(node.args[2]) if called and len(node.args) == 3 else (True, 1)
        if not called or not known or type(step) is not int or step == 0:
            return f"{indent}{t} = {self.iterated(node)}\n", f"len({t})", lambda k: f"{t}[{k}]"
        n, low = self.fresh(), self.expr(node.args[0]) if len(node.args) > 1 else "0"
        count = f"({self.expr(node.args[1] if len(node.args) > 1 else node.args[0])} - {t} + {step - 1 if step > 0 else step + 1}) // {step}"
        return f"{indent}{t} = {low}\n{indent}{n} = Maximum({count}, 0)\n", n, lambda k: f"({t} + {k} * {step})"

    def strictly(self, node: Any, lengths: list[str], indent: str) -> str:
        """What stops a loop over zip(strict=True) whose parts have several lengths."""
        same = " and ".join(f"{n} == {lengths[0]}" for n in lengths[1:]) or "true"
        return f"{indent}{self.mark(node)}assert({same}, \"ValueError: zip(strict=True) is of parts of several lengths\")\n"

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
        """Whether what the loop binds to its variable is read after it."""
        return live_after(self.scope.node, node, node.target.id)

    def kept_target(self, node: Any, target: Any, first_item: str, over: str, indent: str) -> tuple[str, str, str]:
        """What stands before a loop over the rows of an array, the name in its head, and what begins its body: a variable that is read
        after the loop keeps its last value."""
        if not isinstance(target, ast.Name) or not live_after(self.scope.node, node, target.id):
            return "", *self.loop_target(target, indent + "  ")
        head, name, before = self.fresh(), self.local(target.id), ""
        if not self.bound_before(target.id, node):
            before = self.assert_runs(node, target, f"len({over}) > 0", indent) + f"{indent}{name} = {first_item}\n"
        return before, head, f"{indent}  {self.mark(target)}{name} = {head}\n"

    def assert_runs(self, node: Any, target: ast.Name, runs: str, indent: str) -> str:
        return f"{indent}{self.mark(node)}assert({runs}, \"the loop does not run, so {target.id} is not bound\")\n"

    def bound_before(self, name: str, node: Any) -> bool:
        args = self.scope.node.args
        if name in {a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)}:
            return True
        return any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store) and position(n) < position(node)
                   for n in ast.walk(self.scope.node))

    def whole(self, node: Any) -> str:
        """An end of a range, which is a whole number: of a float BitOr is refused."""
        known, x = self.static(node)
        if known and not hasattr(type(x), "__index__"):
            self.refuse(node, f"TypeError: {type(x).__name__!r} object cannot be interpreted as an integer", "a // b is a whole number, a / b a float")
        if known or isinstance(node, ast.Call) and self.static(node.func) == (True, len) or \
                isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
            return self.expr(node)
        return f"BitOr{self.mark(node)}({self.expr(node)}, 0)"

    def for_range(self, node: Any, indent: str) -> str:
        args, inner = node.iter.args, indent + "  "
        if node.iter.keywords or not 1 <= len(args) <= 3:
            self.refuse(node.iter, "range takes one to three numbers")
        known, step = self.static(args[2]) if len(args) == 3 else (True, 1)
        if known and (not isinstance(step, int) or step == 0):
            self.refuse(args[2], "ValueError: the step of a range is a whole number that is not 0")
        start = self.whole(args[0]) if len(args) > 1 else "0"
        stop = self.whole(args[1] if len(args) > 1 else args[0])
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
                before += self.assert_runs(node, node.target, runs, indent) + f"{indent}{name} = {start}\n"
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
        return f"{before}{indent}{self.mark(node)}for {head} in {span} {{\n{first}{self.round(node, inner)}{indent}}}\n"

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
                f"{first}{self.round(node, inner)}{indent}}}\n")

    def for_zip(self, node: Any, indent: str) -> str:
        """Over tensors: by their first dim, as long as all have parts."""
        inner = indent + "  "
        over = [self.rows_of(a, indent) for a in node.iter.args]
        text, lengths = "".join(r[0] for r in over), [r[1] for r in over]
        if is_strict(self, node.iter):
            text += self.strictly(node.iter, lengths, indent)
        count = functools.reduce(lambda a, b: f"Minimum({a}, {b})", lengths)
        k = self.fresh()
        parts = [r[2](k) for r in over]
        if isinstance(node.target, ast.Tuple) and len(node.target.elts) == len(parts):
            first = "".join(self.bind_text(e, p, inner) for e, p in zip(node.target.elts, parts))
        else:
            first = self.bind_text(node.target, "(" + "".join(p + ", " for p in parts).rstrip(" ") + ")", inner)
        return f"{text}{indent}{self.mark(node)}for {k} in 0..{count} {{\n{first}{self.round(node, inner)}{indent}}}\n"

    def for_numbers(self, node: Any, over: ast.Call, start: str, indent: str) -> str:
        """Over enumerate of a range or zip, of which no array is made."""
        count, item = node.target.elts
        zipped = self.static(over.func)[1] is zip
        rows = [self.rows_of(a, indent) for a in (self.parts_given(over.args) if zipped else [over])]
        lengths, n, low, k = [r[1] for r in rows], self.fresh(), self.fresh(), self.fresh()
        text = "".join(r[0] for r in rows) + (self.strictly(over, lengths, indent) if zipped and is_strict(self, over) else "")
        text += f"{indent}{n} = {functools.reduce(lambda a, b: f'Minimum({a}, {b})', lengths)}\n{indent}{low} = {start}\n"
        apart = zipped and isinstance(item, ast.Tuple) and len(item.elts) == len(rows)

        def bound(k: str, at: str) -> str:
            parts = [r[2](k) for r in rows]
            whole = f"({''.join(p + ', ' for p in parts).rstrip(' ')})" if zipped else parts[0]
            items = [*zip(item.elts, parts)] if apart else [(item, whole)]
            return self.bind_text(count, f"{low} + {k}", at) + "".join(self.bind_text(e, p, at) for e, p in items)
        late = [x for x in ast.walk(node.target) if isinstance(x, ast.Name) and live_after(self.scope.node, node, x.id) and not self.bound_before(x.id, node)]
        if late:
            text += self.assert_runs(node, late[0], f"{n} > 0", indent) + bound("0", indent)
        return f"{text}{indent}{self.mark(node)}for {k} in 0..{n} {{\n{bound(k, indent + '  ')}{self.round(node, indent + '  ')}{indent}}}\n"

    def for_enumerate(self, node: Any, indent: str) -> str:
        count, item = node.target.elts
        over_, start_ = enumerated(node.iter) or (node.iter, None)
        start = self.expr(start_) if start_ is not None else "0"
        if isinstance(over_, ast.Call) and self.static(over_.func)[1] in (range, zip):
            return self.for_numbers(node, over_, start, indent)
        inner = indent + "  "
        t, rows = self.fresh(), self.fresh()
        over = f"{indent}{rows} = {self.iterated(over_)}\n"
        before, head, first = self.kept_target(node, item, f"{rows}[0]", rows, indent)
        n = self.target(count)
        if isinstance(count, ast.Name) and live_after(self.scope.node, node, count.id) and not self.bound_before(count.id, node):
            before += self.assert_runs(node, count, f"len({rows}) > 0", indent) + f"{indent}{n} = {start}\n"
        return (f"{over}{before}{indent}{t} = {start} - 1\n{indent}{self.mark(node)}for {head} in {rows} {{\n{inner}{t} = {t} + 1\n"
                f"{inner}{n} = {t}\n{first}{self.round(node, inner)}{indent}}}\n")
