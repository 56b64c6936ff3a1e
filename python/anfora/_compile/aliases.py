# SPDX-License-Identifier: Apache-2.0
"""Which `x += v` another name would see.

In the program x is bound to a new array. In Python the memory of an array changes, and with it all that shares it:

    y = x             y and x are one array
    x += 1            y would change too
    return y          and is read: found

Names are followed along the statements. Each has places of memory: a root, and the way to a part of it, so that the items of
a tuple are apart and a row is a part of its matrix. A place that is made anew is another than the one that was made there in
an earlier round of a loop. What a call gives may be what the results of the function may be (`results`); where the function is not known, as
of a method of what is known when code is made only, it may be any argument, the object, or a part of these."""
from __future__ import annotations

import ast
import types
from typing import Any, Callable

from .containers import containers_of, is_copy
from .._ops import METHODS
from .stores import FRESH_METHODS, NO_VIEW_FIELDS, Stores, VIEWS, given_by, whole_position

Place = tuple  # (root, step, ...): a step is an index, a field, or ANY_PART
ANY_PART = "*"
HANDED = ""  # no name: any argument of a call
MOST_ROUNDS = 4  # until what is known of names in a loop stays; each round only adds

SAME = {"T", "mT", "real", "imag", "flat"}  # fields that are the array in another form
HOLDERS = {"list", "tuple", "dict", "zip", "enumerate", "reversed", "iter", "sorted"}
PARTS = {"get", "items", "values", "pop", "setdefault"}
GROWN = {"append", "extend", "insert", "update"}
ARRAYS_OWN = FRESH_METHODS | VIEWS | set(METHODS) - {"conj", "conjugate"}  # of a real array it is the array


def overlap(a: Place, b: Place) -> bool:
    """Whether one is the other, or a part of it."""
    return all(x == y or ANY_PART in (x, y) for x, y in zip(a[1:], b[1:])) and a[0] == b[0]


def roots(places: frozenset) -> set[str]:
    """Of places that no function has made: the names of arguments, and from outside."""
    return {p[0] for p in places if isinstance(p[0], str)}


def gives_new(node: ast.Attribute) -> bool:
    """Whether a method is one of arrays, and gives what is new, or a view, which is asked before."""
    at = node.value.value if isinstance(node.value, ast.Subscript) else None
    return node.attr in ARRAYS_OWN or isinstance(at, ast.Attribute) and at.attr == "at"


class Name:
    """Where the memory of a name may be, and the statements that have changed it by another name."""

    def __init__(self, places: frozenset = frozenset(), stale: frozenset = frozenset()) -> None:
        self.places, self.stale = places, stale

    def joined(self, other: "Name") -> "Name":
        return Name(self.places | other.places, self.stale | other.stale)

    def __eq__(self, other: Any) -> bool:
        return (self.places, self.stale) == (other.places, other.stale)


def renamed(state: dict[str, Name], other: dict[str, Name]) -> dict[str, Name]:
    """The same state with other words for places that the function makes, so that names have the places that they have in the other
    state: where u, v = v, u exchanges two arrays, u and v are two arrays as before. INVARIANT: a permutation, so places that differ do."""
    to: dict[Any, Any] = {}
    for name, x in state.items():
        there = other[name].places if name in other else frozenset()
        if len(x.places) == len(there) == 1:
            [a], [b] = x.places, there
            if len(a) == len(b) == 1 and not isinstance(a[0], str) and not isinstance(b[0], str) and a[0] not in to and b[0] not in to.values():
                to[a[0]] = b[0]
    for b in [b for b in to.values() if b not in to]:  # the end of a chain goes where the chain begins
        a = b
        while a in (back := {v: k for k, v in to.items()}):
            a = back[a]
        to[b] = a
    return {name: Name(frozenset((to.get(p[0], p[0]), *p[1:]) for p in x.places), x.stale) for name, x in state.items()}


class Aliases:
    """Of one function: `found` has the changes that other names see, and which names."""

    def __init__(self, function: Any, stores: Stores, numbers: set[tuple] = frozenset(), within: dict | None = None) -> None:  # type: ignore[assignment]
        self.stores, self.is_view, self.name_of = stores, stores.is_view, stores.library
        self.numbers = numbers                # positions of subscripts that an assertion says are numbers
        self.found: dict[int, set[str]] = {}  # by the id of the statement, call or subscript
        self.doubled: set[str] = set()   # lists and dictionaries that may hold one array twice
        self.containers = containers_of(function)
        self.added: set[str] = set()     # names from outside and arguments whose memory changes by x += v
        self.summed: set[str] = set()    # of these: those that a call that gives them back has not changed alone
        a = function.args
        params = [*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg))]
        self.params = {p.arg for p in params}
        self.results: frozenset = frozenset()  # places that the function's results may be
        self.handed: dict[int, set[str]] = {}  # by the id of a call of what is not known: names from outside and arguments that it is given
        self.within: dict[str, set[str]] = dict(within or {})  # by the names of functions within: what they pass on
        self.within_added: dict[str, set[str]] = {}            # and their parameters that they change by x += v
        for n in ast.walk(function):
            if isinstance(n, ast.FunctionDef) and n is not function:
                self.within[n.name] = self.passed_on(n)
            elif isinstance(n, ast.Assign) and isinstance(n.value, ast.Lambda) and len(n.targets) == 1 and isinstance(n.targets[0], ast.Name):
                self.within[n.targets[0].id] = self.passed_on(n.value)
        self.state = {p.arg: Name(frozenset({(p.arg,)})) for p in params}
        self.block(function.body)

    def passed_on(self, function: Any) -> set[str]:
        """The names from outside that results of a function within may be, or hold; HANDED for its parameters."""
        params = {a.arg for a in ast.walk(function.args) if isinstance(a, ast.arg)}
        if isinstance(function, ast.Lambda):
            function = ast.FunctionDef(name="", args=function.args, body=[ast.copy_location(ast.Return(function.body), function.body)], decorator_list=[])
        inner = Aliases(function, self.stores, self.numbers, self.within)
        self.within_added[function.name] = inner.added & params
        return {HANDED if n in params else n for n in roots(inner.results)}

    # ---- expressions ----

    def read(self, node: Any) -> None:
        """All names that an expression reads."""
        for n in ast.walk(node):
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.id in self.state:
                for change in self.state[n.id].stale:
                    self.found.setdefault(change, set()).add(n.id)
        for n in ast.walk(node):
            if isinstance(n, ast.Call):
                self.call(n)

    def made(self, node: Any) -> frozenset:
        """A place that is new; that of an earlier round is another from now on."""
        root, old = id(node), ("before", id(node))
        for name, x in self.state.items():
            if any(p[0] == root for p in x.places):
                self.state[name] = Name(frozenset((old, *p[1:]) if p[0] == root else p for p in x.places), x.stale)
        return frozenset({(root,)})

    def places(self, node: Any) -> frozenset:
        how = getattr(self, "of_" + type(node).__name__, None)
        return how(node) if how else self.made(node)

    def of_all(self, nodes: Any) -> frozenset:
        return frozenset().union(*map(self.places, nodes))

    def of_Constant(self, _node: Any) -> frozenset:
        return frozenset()

    def of_Name(self, node: ast.Name) -> frozenset:
        return self.of_name(node.id).places

    def of_name(self, name: str) -> Name:
        return self.state.get(name) or Name(frozenset({(name,)}))  # an argument, or from outside

    def of_Subscript(self, node: ast.Subscript) -> frozenset:
        if isinstance(node.slice, (ast.List, ast.Compare)):
            return self.made(node)  # elements chosen are copies
        if whole_position(node) in self.numbers:
            return frozenset()
        k = node.slice.value if isinstance(node.slice, ast.Constant) else ANY_PART
        return frozenset((*p, k) for p in self.places(node.value))

    def of_Attribute(self, node: ast.Attribute) -> frozenset:
        if node.attr in NO_VIEW_FIELDS:
            return frozenset()
        return self.places(node.value) if node.attr in SAME else frozenset((*p, node.attr) for p in self.places(node.value))

    def of_Call(self, node: ast.Call) -> frozenset:
        if isinstance(node.func, ast.Attribute) and node.func.attr in PARTS:
            return frozenset((*p, ANY_PART) for p in self.places(node.func.value))
        if self.name_of(node) in HOLDERS:
            return self.of_all(node.args)
        if any(k.arg == "copy" for k in node.keywords):  # x.astype(t, copy=False)
            return self.of_all([*node.args, *([node.func.value] if isinstance(node.func, ast.Attribute) else [])])
        if is_copy(node) and isinstance(node.func.value, ast.Name) and node.func.value.id in self.containers:  # its items are the same
            return frozenset((*p, ANY_PART) for p in self.places(node.func.value))
        if self.is_view(node):
            method = isinstance(node.func, ast.Attribute) and self.name_of(node) is None
            return self.places(node.func.value) if method else self.of_all(node.args[:1])
        if whole_position(node) in self.numbers:
            return self.made(node)
        names, given = self.passed(node), [*node.args, *(k.value for k in node.keywords)]
        made = self.made(node)
        if names is None:
            return made | self.of_all([*given, node.func.value if isinstance(node.func, ast.Attribute) else node.func])
        outer = frozenset().union(*(self.of_name(n).places for n in names if n != HANDED))
        return made | outer | self.of_all(given) if HANDED in names else made | outer

    def passed(self, node: ast.Call) -> set[str] | None:
        """The names that what a call gives may be: HANDED for what it is given, and names from outside. None: it may be anything that the
        function holds or is given. Methods of arrays give what is new, and most functions of libraries."""
        from .effects import NOTHING_KNOWN, effect, plain
        if isinstance(node.func, ast.Lambda):
            return self.passed_on(node.func)
        if isinstance(node.func, ast.Name) and node.func.id in self.within:
            return self.within[node.func.id]
        known, f = self.stores.called(node.func)
        f = f.fn if given_by(node) is not None else f
        if self.name_of(node) is not None:
            return set() if self.stores.makes_new(node) else {HANDED}
        of = effect(getattr(f, "__func__", f)) if known else NOTHING_KNOWN
        if of is not NOTHING_KNOWN:
            me = plain(f.__func__).__code__.co_varnames[:1] if hasattr(f, "__func__") else ()
            owner = roots(self.places(node.func.value)) if isinstance(node.func, ast.Attribute) and of.passed & set(me) else set()
            return {HANDED for _ in of.passed - set(me)} | {f"{n} of {f.__name__}" for n in of.outside} | owner
        return set() if isinstance(node.func, ast.Attribute) and gives_new(node.func) else None

    def of_Lambda(self, node: Any) -> frozenset:
        """A function sees what it captures when it is called."""
        own = {a.arg for n in ast.walk(node) if isinstance(n, ast.arguments) for a in (*n.posonlyargs, *n.args, *n.kwonlyargs)}
        return frozenset().union(*(self.state[n.id].places for n in ast.walk(node)
                                   if isinstance(n, ast.Name) and n.id in self.state and n.id not in own))

    def call(self, node: ast.Call) -> None:
        """A function of the program may change what it is given by x += v."""
        from .effects import effect, plain
        known, f = self.stores.called(node.func)
        added = effect(f).added if known else frozenset()
        if isinstance(node.func, ast.Name) and self.within_added.get(node.func.id):
            self.mark(node, None, self.of_all([*node.args, *(k.value for k in node.keywords)]))
            return
        method = isinstance(node.func, ast.Attribute)
        if (not known or hasattr(f, "__func__")) and not (method and gives_new(node.func)):  # which function this is, is known when it is written
            own = self.of_all([node.func.value if method else node.func, *node.args, *(k.value for k in node.keywords)])
            self.handed.setdefault(id(node), set()).update(roots(own))
            self.seen_as_changed(node, None, own)
        if added:
            positional = plain(f).__code__.co_varnames
            given = dict(zip(positional, node.args)) | {k.arg: k.value for k in node.keywords}
            for name in added:  # *args and **kw are any argument
                self.mark(node, None, self.places(given[name]) if name in given else self.of_all(given.values()))

    def of_Tuple(self, node: Any) -> frozenset:
        return self.of_all(node.elts)

    of_List = of_Set = of_Tuple

    def of_Dict(self, node: ast.Dict) -> frozenset:
        return self.of_all(node.values)

    def of_Starred(self, node: ast.Starred) -> frozenset:
        return self.places(node.value)

    def of_IfExp(self, node: ast.IfExp) -> frozenset:
        return self.of_all((node.body, node.orelse))

    def of_BoolOp(self, node: ast.BoolOp) -> frozenset:
        return self.of_all(node.values)

    def of_NamedExpr(self, node: ast.NamedExpr) -> frozenset:
        self.bind(node.target, node.value)
        return self.of_Name(node.target)

    def of_ListComp(self, node: Any) -> frozenset:
        for g in node.generators:
            self.bind_parts(g.target, self.places(g.iter))
        return self.places(node.elt)

    of_SetComp = of_ListComp

    def of_GeneratorExp(self, node: Any) -> frozenset:
        places = self.of_ListComp(node)
        return places if self.stores.consumed(node) else places | self.of_Lambda(node)

    def of_BinOp(self, node: ast.BinOp) -> frozenset:
        sides = (node.left, node.right)
        return self.of_all(sides) if any(isinstance(e, (ast.List, ast.Tuple, ast.ListComp)) for e in sides) else self.made(node)

    # ---- statements ----

    def holds_twice(self, value: Any) -> bool:
        """Whether a list or dictionary that is written may hold one memory twice: [x] * 2, [x for _ in y], {"a": x, "b": x}."""
        if isinstance(value, ast.BinOp):
            return isinstance(value.op, ast.Mult) and any(isinstance(e, ast.List) and self.places(e) for e in (value.left, value.right))
        if isinstance(value, (ast.ListComp, ast.DictComp)):
            inner = {n.id for g in value.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
            of = value.elt if isinstance(value, ast.ListComp) else value.value
            return isinstance(of, ast.Name) and of.id not in inner
        items = [self.places(e) for e in (value.values if isinstance(value, ast.Dict) else value.elts) if isinstance(e, (ast.Name, ast.Subscript, ast.Attribute))] \
            if isinstance(value, (ast.Dict, ast.List)) else []
        return any(overlap(p, q) for i, one in enumerate(items) for two in items[:i] for p in one for q in two)

    def bind(self, target: Any, value: Any) -> None:
        if isinstance(target, ast.Name):
            self.doubled |= {target.id} if self.holds_twice(value) else set()
            self.state[target.id] = Name(self.places(value))
        elif isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
            if not self.stores.is_store(target):  # an item of a list, perhaps
                self.state[target.value.id] = self.of_name(target.value.id).joined(Name(self.places(value)))
        elif isinstance(target, (ast.Tuple, ast.List)):
            if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts) and not any(isinstance(e, ast.Starred) for e in (*target.elts, *value.elts)):
                for t, places in zip(target.elts, [self.places(v) for v in value.elts]):
                    self.bind_places(t, places)
            else:
                self.bind_places(target, self.places(value))

    def bind_places(self, target: Any, places: frozenset) -> None:
        if isinstance(target, ast.Name):
            self.state[target.id] = Name(places)
        elif isinstance(target, (ast.Tuple, ast.List)):
            starred = any(isinstance(t, ast.Starred) for t in target.elts)
            for i, t in enumerate(target.elts):
                self.bind_places(t.value if isinstance(t, ast.Starred) else t, frozenset((*p, ANY_PART if starred else i) for p in places))

    def bind_parts(self, target: Any, places: frozenset) -> None:
        """What goes through the parts of something."""
        if isinstance(target, ast.Name):
            self.state[target.id] = Name(frozenset((*p, ANY_PART) for p in places))
        elif isinstance(target, (ast.Tuple, ast.List)):
            for t in target.elts:
                self.bind_parts(t, places)

    def change(self, node: ast.AugAssign) -> None:
        """x += v: all other names of the memory have changed."""
        if not isinstance(node.target, ast.Name):
            return
        own = self.of_Name(node.target)
        self.state[node.target.id] = Name(own)
        self.mark(node, node.target.id, own)
        outside = {n for n in roots(own) if self.may_change(n, node)}
        if outside:
            self.found.setdefault(id(node), set()).update(outside)

    def may_change(self, name: str, node: Any) -> bool:
        """Whether a name is from outside, or an argument that is a constant, and may be an array or hold one."""
        known, x = self.stores.called(ast.copy_location(ast.Name(name, ast.Load()), node))
        return (known or name not in self.params) and not (known and (x is None or isinstance(x, (type, types.ModuleType, int, float, complex, str)) or callable(x) and hasattr(x, "__name__")))

    def stored(self, targets: Any) -> None:
        """x[i] = v, and arrays that a call has changed and gives back."""
        for t in targets:
            for n in ast.walk(t):
                if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store) and isinstance(n.value, ast.Name):
                    self.mark(n, None if n.value.id in self.doubled else n.value.id, self.of_Name(n.value))

    def mark(self, node: Any, name: str | None, own: frozenset, items: bool = True) -> None:
        """All names of the memory but the one by which it changes have changed."""
        if not isinstance(node, ast.Subscript):
            self.added |= roots(own)
            self.summed |= roots(own) if items else set()
        self.seen_as_changed(node, name, own)

    def seen_as_changed(self, node: Any, name: str | None, own: frozenset) -> None:
        """The same where the function that is called may change none of it."""
        for other, x in list(self.state.items()):
            if other != name and any(overlap(p, q) for p in own for q in x.places):
                self.state[other] = Name(x.places, x.stale | {id(node)})

    def block(self, body: list) -> None:
        for s in body:
            how = getattr(self, "stmt_" + type(s).__name__, None)
            if how:
                how(s)
            else:
                self.read(s)

    def stmt_Assign(self, node: ast.Assign) -> None:
        self.read(node)
        self.stored(node.targets)
        if given_by(node.value) is not None:
            from .effects import effect
            for t in node.targets[0].elts[1:]:  # type: ignore[attr-defined]
                self.mark(node.value, t.id, self.of_Name(t), bool(effect(given_by(node.value).fn).items))
            self.bind(node.targets[0].elts[0], node.value)  # type: ignore[attr-defined]
            return
        places = None
        for t in node.targets:
            if len(node.targets) == 1:
                self.bind(t, node.value)
            else:
                places = self.places(node.value) if places is None else places
                self.bind_places(t, places)

    def stmt_Return(self, node: ast.Return) -> None:
        self.read(node)
        if node.value is not None:
            self.results |= self.places(node.value)

    def stmt_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.read(node.value)
            self.bind(node.target, node.value)

    def stmt_AugAssign(self, node: ast.AugAssign) -> None:
        self.read(node)
        if isinstance(node.target, ast.Name):
            self.read(ast.Name(node.target.id, ast.Load()))
        self.stored([node.target])
        self.change(node)

    def stmt_Expr(self, node: ast.Expr) -> None:
        self.read(node)
        call = node.value
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in GROWN and \
                isinstance(call.func.value, ast.Name) and (call.args or call.keywords):
            name, given = call.func.value, self.of_all([*call.args[-1:], *(k.value for k in call.keywords)])
            self.doubled |= {name.id} if any(overlap(p, q) for p in given for q in self.of_Name(name)) else set()
            self.state[name.id] = Name(self.of_Name(name) | given)
        else:
            self.places(call)

    def stmt_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.read(node)
        self.state[node.name] = Name(self.of_Lambda(node))

    def joined(self, states: list[dict[str, Name]]) -> None:
        out: dict[str, Name] = {}
        for s in states:
            for name, x in s.items():
                out[name] = out[name].joined(x) if name in out else x
        self.state = out

    def stmt_Try(self, node: ast.Try) -> None:
        """An error may come before and after the statements."""
        before = dict(self.state)
        self.block(node.body)
        self.joined([before, self.state])
        ways, begin = [], dict(self.state)
        for body in (node.orelse, *(h.body for h in node.handlers)):
            self.state = dict(begin)
            self.block(body)
            ways.append(self.state)
        self.joined(ways)
        self.block(node.finalbody)

    def stmt_If(self, node: ast.If) -> None:
        self.read(node.test)
        before = dict(self.state)
        self.block(node.body)
        one, self.state = self.state, before
        self.block(node.orelse)
        self.joined([renamed(one, self.state), self.state])

    def rounds(self, node: Any, head: Callable[[], None]) -> None:
        for _ in range(MOST_ROUNDS):
            before = dict(self.state)
            head()
            self.block(node.body)
            self.joined([before, renamed(self.state, before)])
            if self.state == before:
                break
        self.block(node.orelse)

    def stmt_While(self, node: ast.While) -> None:
        self.rounds(node, lambda: self.read(node.test))

    def stmt_For(self, node: ast.For) -> None:
        self.read(node.iter)
        of = node.iter.args if isinstance(node.iter, ast.Call) and self.name_of(node.iter) in HOLDERS else [node.iter]
        apart = isinstance(node.target, (ast.Tuple, ast.List)) and len(node.target.elts) == len(of) > 1

        def head() -> None:
            for t, i in zip(node.target.elts, of) if apart else [(node.target, node.iter)]:  # type: ignore[attr-defined]
                self.bind_parts(t, self.places(i))
        self.rounds(node, head)

    def stmt_With(self, node: ast.With) -> None:
        self.block(node.body)

    def stmt_Match(self, node: ast.Match) -> None:
        self.read(node.subject)
        before, states = dict(self.state), []
        for case in node.cases:
            self.state = dict(before)
            self.block(case.body)
            states.append(self.state)
        self.joined([before, *states])
