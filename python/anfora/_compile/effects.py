# SPDX-License-Identifier: Apache-2.0
"""What a call of a Python function does to the arrays that it is given.

    def smooth(u, n):             changes u
        u[1:-1] = ...

    smooth(u, 3)                  in the program: _, u = smooth'(u, 3), where smooth' gives its result and then u

A call that stands in a statement of its own, or whose result is bound, is written so; a function that changes its arguments is
compiled to give them back. What such a function may do is what stores.py allows for arrays of its own."""
from __future__ import annotations

import ast
import builtins
import copy
import types
from typing import Any, Callable

from .captures import CHANGING
from .emit import number_of
from .static import is_foreign
from .stores import Stores, is_whole


class Giving:
    """A function that gives its result and then its arguments `names`, which it changes."""

    def __init__(self, fn: types.FunctionType, names: tuple[str, ...], fresh: bool) -> None:
        self.fn, self.names, self.fresh = fn, names, fresh
        self.__name__ = fn.__name__

    def _emit_call(self, w: Any, c: Any) -> str:
        from .static import call_source
        w.may_change(c.node)
        text = call_source(w, c, self.fn, self.fn, self.names)
        w.gave = number_of(text)
        return w.one_given(c.node, text) if w.must_be_one(c.node) and not w.gives_lists(c.node) else text


class Effect:
    """Arguments that change by x[i] = v, and those of which an item may by x[i] += v; those that change by x += v; whether the result has memory of its own, or which
    argument it is; arguments that it may be, or hold, and names from outside."""

    def __init__(self, changed: tuple[str, ...] = (), added: frozenset = frozenset(), fresh: bool = False, returned: str | None = None,
                 passed: frozenset = frozenset(), outside: frozenset = frozenset(), items: frozenset = frozenset(), rebound: frozenset = frozenset(),
                 one: bool = False) -> None:
        self.one = one  # the result is new, or one element of an argument if that is a number
        self.rebound = rebound  # of those that change: names that are bound anew, so that another list or array may be meant
        self.changed, self.added, self.fresh, self.returned, self.passed, self.outside, self.items = changed, added, fresh, returned, passed, outside, items


NOTHING_KNOWN = Effect()
_EFFECTS: dict[Any, Effect] = {}


def plain(f: Any) -> Any:
    """The Python function that a call of f runs."""
    inner = getattr(f, "__wrapped__", None) if hasattr(f, "_emit") and not hasattr(f, "_emit_call") else f
    return inner if isinstance(inner, types.FunctionType) else None


def resolver(fn: types.FunctionType) -> Callable[[Any], tuple[bool, Any]]:
    """What names and attributes from outside of a function are now."""
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or ()))
    own = set(fn.__code__.co_varnames) | set(fn.__code__.co_cellvars)

    def called(node: Any) -> tuple[bool, Any]:
        if isinstance(node, ast.Constant):
            return True, node.value
        if isinstance(node, ast.Attribute):
            known, x = called(node.value)
            fields = isinstance(x, types.ModuleType) or type(x).__name__ == "ufunc"
            return (True, getattr(x, node.attr)) if known and fields and hasattr(x, node.attr) else (False, None)
        if not isinstance(node, ast.Name) or node.id in own:
            return False, None
        if node.id in cells:
            try:
                return True, cells[node.id].cell_contents
            except ValueError:
                return False, None
        found = fn.__globals__.get(node.id, getattr(builtins, node.id, None))
        return found is not None, found
    return called


def forget_effects() -> None:
    """The functions that a function calls may be others now."""
    _EFFECTS.clear()


def effect(f: Any) -> Effect:
    fn = plain(f)
    if fn is None or is_foreign(fn) or str(fn.__module__).split(".")[0] == __name__.split(".")[0]:
        return NOTHING_KNOWN
    key = fn.__code__, tuple(map(id, fn.__closure__ or ())), id(fn.__globals__)
    if key not in _EFFECTS:
        _EFFECTS[key] = NOTHING_KNOWN  # of a call of itself
        _EFFECTS[key] = _found(fn)
    return _EFFECTS[key]


def _found(fn: types.FunctionType) -> Effect:
    from .._errors import CompileError
    from .aliases import roots
    from .exchanged import Exchanged
    from .fields import with_fields
    from .origin import source_of
    try:
        node, _ = source_of(fn)
    except CompileError:
        return NOTHING_KNOWN
    if not isinstance(node, ast.FunctionDef):
        return NOTHING_KNOWN
    called = resolver(fn)
    exchanged = Exchanged(with_given(with_fields(node, called)[0], called), called)
    node = exchanged.written()
    params = tuple(a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs))
    stores = Stores(node, called, params)
    grown = {p for n in stores.nodes if id(n) not in stores.inner and (p := changed_list(n, stores.parents)) is not None and not rebound(stores, p)}
    changed = tuple(p for p in params if p in grown or p in stores.stored and not stores.start(p))
    results = [n.value for n in stores.nodes if isinstance(n, ast.Return) and id(n) not in stores.inner]
    moved = {p for g in exchanged.params for p in g}
    shared = (*params, *exchanged.other_names(stores))
    fresh = all(v is None or _is_new(stores, v, shared) for v in results)
    names = {v.id if isinstance(v, ast.Name) else "" for v in results}
    returned = names.pop() if len(names) == 1 and isinstance(node.body[-1], ast.Return) and names <= set(changed) else None
    one = not fresh and all(v is None or _is_item(v) or _is_new(stores, v, shared) for v in results)
    given = roots(stores.seen.results) | (set() if fresh else moved)
    whole = {*params, *(a.arg for a in (node.args.vararg, node.args.kwarg) if a)}
    return Effect(changed, frozenset(stores.seen.added & whole) - set(changed), fresh, returned, frozenset(given & whole), frozenset(given - whole), frozenset(stores.seen.summed & set(changed)), frozenset(p for p in changed if p in moved or rebound(stores, p)), one)


def changed_list(node: Any, parents: dict[int, Any]) -> str | None:
    """The name of the list or dictionary that a call of a method in a statement of its own changes, or pop, or del xs[i]."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Del):
        return node.value.id if isinstance(node.value, ast.Name) else None
    f = node.func if isinstance(node, ast.Call) else None
    if not isinstance(f, ast.Attribute) or f.attr not in CHANGING or not isinstance(f.value, ast.Name):
        return None
    return f.value.id if f.attr == "pop" or isinstance(parents.get(id(node)), ast.Expr) else None


def rebound(stores: Stores, name: str) -> bool:
    """Whether a name is bound anew, so that what it is at first may not change."""
    return any(not isinstance(n.ctx, ast.Load) and not stores.is_change(n) for n in stores.names.get(name, []) if id(n) not in stores.inner) or \
        any(isinstance(n, ast.Nonlocal) and name in n.names for n in stores.nodes)


def _is_item(value: Any) -> bool:
    return isinstance(value, ast.Subscript) and isinstance(value.value, ast.Name) and is_whole(value.slice)


def _is_new(stores: Stores, value: Any, params: tuple[str, ...]) -> bool:
    """Whether a result has memory that no argument has, and parts of it are apart."""
    if isinstance(value, (ast.Tuple, ast.List)):
        names = [e.id for e in value.elts if isinstance(e, ast.Name)]
        return len(set(names)) == len(names) and all(_is_new(stores, e, params) for e in value.elts)
    return value.id not in params and stores.all_fresh(value.id) if isinstance(value, ast.Name) else stores.is_fresh(value)


def add_at(x: Any, i: Any, v: Any) -> None:
    """np.add.at(x, i, v)"""
    x = x.at[i].add(v)


def applied(f: Any) -> str:
    """Of np.add.at: add."""
    owner = getattr(f, "__self__", None)
    return owner.__name__ if getattr(f, "__name__", "") == "at" and type(owner).__name__ == "ufunc" else ""


WRITERS = {"fill_diagonal": 2, "place": 3, "put": 3, "put_along_axis": 4, "putmask": 3}  # functions of NumPy that write to an array, and of how many arguments


def into(target: Any, value: Any) -> Any:
    """x[:] = value, or x[i] = value"""
    if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
        return ast.Assign([ast.copy_location(ast.Subscript(target.value, target.slice, ast.Store()), target)], value)
    if not isinstance(target, ast.Name):
        return None
    return ast.Assign([ast.copy_location(ast.Subscript(target, ast.Slice(None, None, None), ast.Store()), target)], value)


def given_back(giving: Giving, call: ast.Call, names: list[str], result: Any) -> ast.Assign:
    targets = [result, *(ast.Name(n, ast.Store()) for n in names)]
    value = ast.Call(ast.copy_location(ast.Constant(giving), call.func), call.args, call.keywords)
    return ast.Assign([ast.Tuple(targets, ast.Store())], ast.copy_location(value, call))


class _Rewriter(ast.NodeTransformer):
    def __init__(self, function: Any, called: Callable) -> None:
        self.called, self.count = called, 0
        a = function.args
        self.own = {p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs)} | \
            {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}

    def visit_FunctionDef(self, node: Any) -> Any:
        return node  # of a function within

    visit_Lambda = visit_ClassDef = visit_FunctionDef

    def given(self, call: Any) -> tuple[Giving, list[str]] | None:
        """The function that gives back what it changes, and the names of the caller that it is given."""
        known, f = self.called(call.func) if isinstance(call, ast.Call) else (False, None)
        found = effect(f) if known else NOTHING_KNOWN
        fn = plain(f) if found.changed else None
        if fn is None or any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
            return None
        positional = fn.__code__.co_varnames[:fn.__code__.co_argcount]
        args = dict(zip(positional, call.args)) | {k.arg: k.value for k in call.keywords}
        nodes = [args.get(p) for p in found.changed]
        names = [n.id for n in nodes if isinstance(n, ast.Name) and n.id in self.own]
        return (Giving(fn, found.changed, found.fresh), names) if len(set(names)) == len(nodes) else None

    def rewritten(self, node: Any, call: Any, result: Any) -> Any:
        found = self.given(call)
        if found is None:
            return node
        giving, names = found
        if isinstance(result, ast.Name) and result.id in names:
            if effect(giving.fn).returned != giving.names[names.index(result.id)]:
                return node
            result = None  # it is what is given back
        made = given_back(giving, call, names, result or self.temporary())
        return ast.fix_missing_locations(ast.copy_location(made, node))

    def visit_Expr(self, node: ast.Expr) -> Any:
        plain_ = self.as_assignment(node.value) if isinstance(node.value, ast.Call) else None
        made = ast.fix_missing_locations(ast.copy_location(plain_, node)) if plain_ is not None else self.rewritten(node, node.value, None)
        return self.ahead(node) if made is node else made

    def as_assignment(self, call: ast.Call) -> Any:
        """What NumPy writes as a call that changes an array, as an assignment; None: it is another call."""
        known, f = self.called(call.func)
        args, how = call.args, getattr(call.func, "attr", "")
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        if not known and how in ("fill", "sort") and isinstance(owner, ast.Name) and owner.id in self.own and len(args) == (how == "fill"):
            return None if call.keywords else into(owner, args[0] if args else self.library("sort", [owner]))
        if known and applied(f) == "add" and len(args) == 3 and isinstance(args[0], ast.Name) and args[0].id in self.own:
            from .builtins import array
            at = ast.Call(ast.Constant(array), [args[1]], []) if isinstance(args[1], ast.List) else args[1]
            added = ast.copy_location(ast.Call(call.func, [args[0], at, args[2]], []), call)
            return given_back(Giving(add_at, ("x",), True), added, [args[0].id], self.temporary())
        if not known or not is_foreign(f):
            return None
        out = next((k.value for k in call.keywords if k.arg == "out"), None)
        if type(f).__name__ == "ufunc" and len(args) == f.nin + 1:
            args, out = args[:-1], args[-1]
        if out is not None:
            return into(out, ast.Call(call.func, args, [k for k in call.keywords if k.arg != "out"]))
        word = getattr(f, "__name__", "")
        if word == "copyto" and len(args) == 2 and not call.keywords:
            return into(args[0], args[1])
        if word in WRITERS and len(args) == WRITERS[word] and all(k.arg == "mode" for k in call.keywords):
            return into(args[0], ast.Call(self.library(word, []).func, args, call.keywords))
        return None

    @staticmethod
    def library(name: str, args: list) -> ast.Call:
        from .._library.composed import COMPOSED, HELPERS
        from .._ops import OPS
        return ast.Call(ast.Constant(OPS.get(name) or COMPOSED.get(name) or HELPERS[name]), args, [])

    def temporary(self) -> ast.Name:
        self.count += 1
        return ast.Name(f"given{self.count}__", ast.Store())

    def ahead(self, node: Any) -> Any:
        """A statement after those of its expression's calls that change what they are given."""
        first = _Ahead(self)
        field = next(f for f in ("test", "iter", "value") if hasattr(node, f))
        if getattr(node, field) is not None:
            first.read = {n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)} if isinstance(node, ast.AugAssign) else set()
            setattr(node, field, first.visit(getattr(node, field)))
        return [*first.before, self.generic_visit(node)] if first.before else self.generic_visit(node)

    visit_Return = visit_If = visit_For = visit_AugAssign = ahead

    def visit_Assign(self, node: ast.Assign) -> Any:
        made = self.rewritten(node, node.value, node.targets[0]) if len(node.targets) == 1 else node
        return self.ahead(node) if made is node and not any(isinstance(n, ast.Call) for t in node.targets for n in ast.walk(t)) else made


class _Ahead(ast.NodeTransformer):
    """Takes the calls that change what they are given out of an expression, in the order in which they run, as long as nothing that was
    computed before may be something else after them."""

    def __init__(self, rewriter: _Rewriter) -> None:
        self.rewriter = rewriter
        self.before: list = []
        self.read: set[str] = set()  # names whose values are used by then
        self.ended = False

    def visit(self, node: Any) -> Any:
        if isinstance(node, ast.Call) and not self.ended:
            return self.call(node)
        if isinstance(node, ast.Name):
            self.read.add(node.id)
        elif isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Tuple, ast.List, ast.Subscript, ast.keyword)) or isinstance(node, ast.Compare) and len(node.ops) == 1:
            return self.generic_visit(node)
        elif not isinstance(node, (ast.Constant, ast.expr_context, ast.operator, ast.unaryop, ast.cmpop)):
            self.ended = True
        return node

    def call(self, node: ast.Call) -> Any:
        found, read = self.rewriter.given(node), set(self.read)
        node.args, node.keywords = [self.visit(a) for a in node.args], [self.visit(k) for k in node.keywords]
        if self.ended or found is None or read & set(found[1]):
            self.ended = True  # what runs after it stays after it
            return node
        self.read = read  # what it is given stands before it
        t = self.rewriter.temporary()
        self.before.append(self.rewriter.rewritten(node, node, t))
        return ast.copy_location(ast.Name(t.id, ast.Load()), node)


class _Returns(ast.NodeTransformer):
    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    def visit_FunctionDef(self, node: Any) -> Any:
        return node

    visit_Lambda = visit_ClassDef = visit_FunctionDef

    def visit_Return(self, node: ast.Return) -> Any:
        parts = [node.value or ast.Constant(None), *(ast.Name(n, ast.Load()) for n in self.names)]
        return ast.fix_missing_locations(ast.copy_location(ast.Return(ast.Tuple(parts, ast.Load())), node))


def with_given(node: Any, called: Callable) -> Any:
    """The function with calls of others that change their arguments written as bindings of these."""
    if not isinstance(node, ast.FunctionDef):
        return node
    rewriter = _Rewriter(node, called)
    if not any(isinstance(n, ast.Call) and (rewriter.given(n) or rewriter.as_assignment(n) is not None) for n in ast.walk(node)):
        return node
    made = [rewriter.visit(copy.deepcopy(s)) for s in node.body]
    return with_body(node, [s for m in made for s in (m if isinstance(m, list) else [m])])


def with_body(node: ast.FunctionDef, body: list) -> ast.FunctionDef:
    fields = {k: v for k, v in ast.iter_fields(node)} | {"body": body}
    return ast.copy_location(ast.FunctionDef(**fields), node)


def giving_back(node: Any, names: tuple[str, ...]) -> Any:
    """The function that gives arguments back after its result."""
    if not names:
        return node
    end = ast.copy_location(ast.Return(None), node.body[-1])
    body = [*copy.deepcopy(node.body), *([] if isinstance(node.body[-1], ast.Return) else [end])]
    return with_body(node, [_Returns(names).visit(s) for s in body])

