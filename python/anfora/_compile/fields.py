# SPDX-License-Identifier: Apache-2.0
"""Objects that a function makes and changes: their fields are variables of the function.

    acc = Acc(0, 0.0)             n_of_acc__ = 0
                                  total_of_acc__ = 0.0
    acc.n += 1                    n_of_acc__ += 1
    acc.add(x)                    the statements of add, where self is acc
    return acc                    return Acc(n_of_acc__, total_of_acc__)

What variables may do, and what is refused of lists and arrays that have other names, holds for fields as it does for variables. An object
whose fields change must have one name, and be used for its fields and methods alone, until the function returns it."""
from __future__ import annotations

import ast
import copy
import dataclasses
import inspect
import types
from typing import Any, Callable

from .._errors import CompileError
from .._tree import field_names
from .captures import CHANGING
from .holders import Made, Unmade, unmade
from .origin import source_of
from .static import is_foreign

_BLOCKS = ("body", "orelse", "finalbody")
_WITHIN = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Yield, ast.YieldFrom, ast.Await, ast.Nonlocal, ast.Global, ast.Import, ast.ImportFrom)
_COLUMN = 8  # of all nodes that are numbered; what goes before one stands left of it
_GIVEN = "_given__"  # after the name of an object that is made of one that the function is given
MOST_ROUNDS = 8   # of objects in fields of objects
MOST_CALLS = 400  # of methods whose statements are written into one function


class Apart(Exception):
    """Why an object stays an object, and where."""

    def __init__(self, node: Any, why: str) -> None:
        super().__init__(node, why)
        self.node, self.why = node, why.replace(_GIVEN, "")

    def __str__(self) -> str:
        return f"{self.why} (line {self.node.lineno})"


def _name(node: Any) -> str | None:
    return node.id if isinstance(node, ast.Name) else None


def _start(node: Any) -> Any:
    """x.f of x.f[i].g"""
    while isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.value, ast.Name):
        node = node.value
    return node


def bound_to_call(s: Any) -> str | None:
    """The name that a statement binds to what a call gives."""
    targets = s.targets if isinstance(s, ast.Assign) else [s.target] if isinstance(s, ast.AnnAssign) else []
    return _name(targets[0]) if len(targets) == 1 and isinstance(s.value, ast.Call) else None


def kind_of(f: Any) -> type | None:
    """A class whose objects have fields that change as variables do."""
    if not isinstance(f, type) or isinstance(how_made(f), str):
        return None
    return f


def how_made(f: type) -> Any:
    """None: its fields are what it is given; an Unmade: its __init__ binds them; a text: why neither."""
    if dataclasses.is_dataclass(f):
        plain = not hasattr(f, "__post_init__") and f.__setattr__ is object.__setattr__ and f.__getattribute__ is object.__getattribute__ and \
            getattr(getattr(f.__init__, "__code__", None), "co_filename", "") == "<string>" and field_names(f) and all(x.init for x in dataclasses.fields(f))
        return None if plain else "its class is not plain"
    try:
        return unmade(f)
    except (CompileError, AttributeError):
        return "its source cannot be read"


def fields_of(kind: type) -> tuple[str, ...]:
    how = how_made(kind)
    return field_names(how.kind if isinstance(how, Unmade) else kind) or ()


def method_of(kind: type, name: str) -> types.FunctionType | None:
    found = inspect.getattr_static(kind, name, None)
    return found if isinstance(found, types.FunctionType) else None


def stores_fields(node: Any, me: str) -> bool:
    """Whether a node changes a field of the object of a name, or a list that is one."""
    if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
        return isinstance(s := _start(node), ast.Attribute) and _name(s.value) == me
    of = node.func if isinstance(node, ast.Call) else None
    return isinstance(of, ast.Attribute) and of.attr in CHANGING and isinstance(s := _start(of.value), ast.Attribute) and _name(s.value) == me


def called_of(call: ast.Call, me: str) -> str | None:
    """The method of the object of a name that a call runs."""
    f = call.func
    return f.attr if isinstance(f, ast.Attribute) and _name(f.value) == me else "__call__" if _name(f) == me else None


def changer(call: Any, me: str, kind: type, called: Callable, seen: frozenset = frozenset()) -> tuple[types.FunctionType, str] | None:
    """The method or function that a call runs and that changes the object of a name, and its parameter that the object is."""
    if not isinstance(call, ast.Call):
        return None
    if (method := called_of(call, me)) is not None:
        f, given = method_of(kind, method), ["", *call.args]
        at: list = [0]
    elif any(_name(x) == me for x in (*call.args, *(k.value for k in call.keywords))):
        from .effects import plain
        known, f = called(call.func)
        f, given = plain(f) if known and not is_foreign(f) else None, call.args
        at = [i for i, x in enumerate(given) if _name(x) == me] + [k.arg for k in call.keywords if _name(k.value) == me]
    else:
        return None
    if f is None or f in seen or len(at) != 1 or str(f.__module__).split(".")[0] == __name__.split(".")[0]:
        return None
    try:
        node, _ = source_of(f)
    except CompileError:
        return None
    args = [a.arg for a in (*node.args.posonlyargs, *node.args.args)]
    param = at[0] if isinstance(at[0], str) else args[at[0]] if at[0] < len(args) else None
    from .effects import resolver
    return (f, param) if param and isinstance(node, ast.FunctionDef) and changes(node.body, param, kind, resolver(f), seen | {f}) else None


def changes(nodes: list, me: str, kind: type, called: Callable, seen: frozenset = frozenset()) -> bool:
    """Whether statements change the object of a name."""
    return any(stores_fields(n, me) or changer(n, me, kind, called, seen) is not None for s in nodes for n in ast.walk(s))


def keeps_apart(f: types.FunctionType, at: int, kind: type, seen: frozenset = frozenset()) -> bool:
    """Whether a function uses an object that it is given for its fields and methods alone, so that nothing else refers to it after."""
    try:
        node, _ = source_of(f)
    except CompileError:
        return False
    args = [a.arg for a in (*node.args.posonlyargs, *node.args.args)]
    if at >= len(args) or not isinstance(node, ast.FunctionDef) or any(isinstance(n, _WITHIN) for s in node.body for n in ast.walk(s)):
        return False
    uses = {id(n.value): n.attr for s in node.body for n in ast.walk(s) if isinstance(n, ast.Attribute) and _name(n.value) == args[at]}
    above = [n for s in node.body for n in ast.walk(s) if isinstance(n, ast.Call) and isinstance(n.func, ast.Constant) and n.args and _name(n.args[0]) == args[at]]
    given = {id(n.args[0]) for n in above}  # to methods of base classes
    alone = all(id(n) in uses or id(n) in given for s in node.body for n in ast.walk(s) if _name(n) == args[at])
    members = [*(inspect.getattr_static(kind, name, None) for name in set(uses.values())), *(n.func.value for n in above)]
    methods = [m for x in members if isinstance(m := x.fget if isinstance(x, property) else x, types.FunctionType) and m not in seen and m is not f]
    return alone and all(keeps_apart(m, 0, kind, seen | {f}) for m in methods)


def _no_names(_node: Any) -> tuple[bool, Any]:
    return False, None


def method_changes(kind: type, name: str) -> bool:
    call = ast.Call(ast.Attribute(ast.Name("me", ast.Load()), name, ast.Load()), [], [])
    return changer(call, "me", kind, _no_names) is not None


# ---- places ----

class Constant(ast.Constant):
    """A constant that stays one object when the tree is copied: modules and arrays, too."""

    def __deepcopy__(self, _memo: Any) -> "Constant":
        return ast.copy_location(Constant(self.value), self)


def numbered(function: Any, file: str) -> dict[int, tuple]:
    """Numbers the nodes in the order in which they stand, as what is written from a method has the place of that; gives the places."""
    places: dict[int, tuple] = {}
    waiting: list[tuple[Any, bool]] = [(function, False)]
    count = 0
    while waiting:
        node, left = waiting.pop()
        if left:
            node.end_lineno, node.end_col_offset = count, _COLUMN + 1
            continue
        if hasattr(node, "lineno"):
            count += 1
            end = node.end_col_offset + 1 if node.end_lineno == node.lineno else 10**6
            places[count] = (getattr(node, "origin", None) or file, node.lineno, node.col_offset + 1, end)
            node.lineno, node.col_offset = count, _COLUMN
            waiting.append((node, True))
        waiting += [(n, False) for n in reversed(list(ast.iter_child_nodes(node)))]
    return places


# ---- the statements of a method ----

class _Renamed(ast.NodeTransformer):
    """A method's own names as new names of the caller; names from outside as what they are."""

    def __init__(self, names: dict[str, Any], called: Callable, same: Callable) -> None:
        self.names, self.called, self.same = names, called, same

    def visit_Name(self, node: ast.Name) -> Any:
        if node.id in self.names:
            new = copy.copy(self.names[node.id])
            if isinstance(new, ast.Name):
                new.ctx = node.ctx
            return ast.copy_location(new, node)
        known, x = self.called(node)
        if not known:
            raise Apart(node, f"it is not known what {node.id} is")
        if self.same(node, x):
            return node
        return ast.copy_location(Constant(x), node)

    def visit_arg(self, node: ast.arg) -> Any:
        return ast.copy_location(ast.arg(self.names[node.arg].id), node)


def _own_names(node: ast.FunctionDef) -> set[str]:
    return {n.id for s in node.body for n in ast.walk(s) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)} | \
        {n.arg for n in ast.walk(node) if isinstance(n, ast.arg)}


def _returns(nodes: list) -> bool:
    return any(isinstance(n, ast.Return) for s in nodes for n in ast.walk(s))


def tails(body: list, place: Any, given: Callable[[Any, Any], list]) -> list:
    """The statements with each return, which must stand at the end of a way through them, as what `given` makes of its value."""
    for i, s in enumerate(body):
        rest = body[i + 1:]
        if isinstance(s, ast.Return):
            return [*body[:i], *given(s, s.value)]
        if isinstance(s, ast.If) and _returns([s]):
            both = [tails([*copy.deepcopy(part), *copy.deepcopy(rest)], s, given) for part in (s.body, s.orelse)]
            made = ast.copy_location(ast.If(s.test, both[0] or [ast.copy_location(ast.Pass(), s)], both[1]), s)
            return [*body[:i], made]
        if _returns([s]):
            raise Apart(s, "what changes them returns within a loop or a context")
    return [*body, *given(place, None)]


class Objects:
    """The objects of one function."""

    def __init__(self, function: ast.FunctionDef, called: Callable[[Any], tuple[bool, Any]]) -> None:
        self.function, self.called, self.count = function, called, 0
        self.running: list[types.FunctionType] = []  # methods whose statements are being written
        self.bound = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)} | \
            {n.arg for n in ast.walk(function) if isinstance(n, ast.arg)} | {n.name for n in ast.walk(function) if isinstance(n, ast.FunctionDef)}

    def same(self, node: ast.Name, x: Any) -> bool:
        """Whether a name from outside of a method is the same in the function."""
        known, y = self.called(node) if node.id not in self.bound else (False, None)
        return known and x is y

    def found(self) -> dict[str, type]:
        """Names that are bound to new objects of one class alone, and whose objects change."""
        out: dict[str, type] = {}
        stores: dict[str, int] = {}
        for n in ast.walk(self.function):
            if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load):
                stores[n.id] = stores.get(n.id, 0) + 1
        params = {p.arg for p in ast.walk(self.function) if isinstance(p, ast.arg)}
        made: dict[str, list] = {}
        for n in ast.walk(self.function):
            if (name := bound_to_call(n)) is not None:
                known, f = self.called(n.value.func)
                made.setdefault(name, []).append(kind_of(f) if known else None)
        for name, kinds in made.items():
            if len(kinds) == stores[name] and len(set(kinds)) == 1 and kinds[0] is not None and name not in params and \
                    changes(self.function.body, name, kinds[0], self.called):
                out[name] = kinds[0]
        return out

    # ---- calls ----

    def block(self, body: list, name: str, kind: type) -> list:
        out = []
        for s in body:
            for field in _BLOCKS:
                if isinstance(inner := getattr(s, field, None), list) and not isinstance(s, ast.FunctionDef):
                    setattr(s, field, self.block(inner, name, kind))
            for case in (*getattr(s, "cases", ()), *getattr(s, "handlers", ())):
                case.body = self.block(case.body, name, kind)
            out += self.statement(s, name, kind)
        return out

    def statement(self, s: Any, name: str, kind: type) -> list:
        if bound_to_call(s) == name:
            return self.made(s, name, kind)
        value = getattr(s, "value", None)
        if not isinstance(s, (ast.Expr, ast.Assign, ast.Return)) or (found := self.runs(value, name, kind)) is None:
            before = self.apart(s, name, kind)
            return self.block([*before, s], name, kind) if before else [s]

        def given(place: Any, result: Any) -> list:
            if isinstance(s, ast.Expr):
                return [ast.copy_location(ast.Expr(result), place)] if isinstance(result, ast.Call) else []
            result = result or ast.copy_location(ast.Constant(None), place)
            if isinstance(s, ast.Return):
                return [ast.copy_location(ast.Return(result), place)]
            return [ast.copy_location(ast.Assign(copy.deepcopy(s.targets), result), place)]
        if changer(value, name, kind, self.called) is not None:
            return self.run(value, found, name, kind, given)
        running = list(self.running)
        try:
            return self.run(copy.deepcopy(value), found, name, kind, given)
        except Apart:  # it is called as it is
            self.running = running
            return [s]

    def runs(self, call: Any, name: str, kind: type) -> tuple[types.FunctionType, str] | None:
        """The function whose statements stand for a call: one that changes the object, or a method, which may read what changes in place."""
        found = changer(call, name, kind, self.called)
        if found is None and isinstance(call, ast.Call) and self.count < MOST_CALLS // 4 and (called := called_of(call, name)) and \
                (method := method_of(kind, called)) is not None:
            return method, method.__code__.co_varnames[0]
        return found

    def apart(self, s: Any, name: str, kind: type) -> list:
        """Calls that change the object, within an expression of a statement, as statements before it: nothing before such a call in the
        expression may be something else after it."""
        field = "test" if isinstance(s, ast.If) else "value" if isinstance(s, (ast.Expr, ast.Assign, ast.Return, ast.AugAssign)) else None
        value = getattr(s, field, None) if field else None
        if value is None or isinstance(s, ast.AugAssign) and not isinstance(s.target, ast.Name) or changer(value, name, kind, self.called) and \
                isinstance(s, (ast.Expr, ast.Assign, ast.Return)):
            return []
        finder = _First(name, kind, self)
        setattr(s, field, finder.visit(value))
        return finder.before

    def temporary(self, call: ast.Call) -> tuple[ast.Assign, ast.Name]:
        self.count += 1
        t = f"given_{self.count}__"
        return ast.copy_location(ast.Assign([ast.copy_location(ast.Name(t, ast.Store()), call)], call), call), ast.copy_location(ast.Name(t, ast.Load()), call)

    def run(self, call: ast.Call, of: tuple[types.FunctionType, str], name: str, kind: type, *how: Callable) -> list:
        method, me = of
        if method in self.running:
            raise Apart(call, f"{method.__name__} calls itself")
        self.running.append(method)
        body = self.block(self.written(call, method, me, name, kind, *how), name, kind)
        self.running.pop()
        return body

    def written(self, call: ast.Call, method: types.FunctionType, me: str, name: str, kind: type, given: Callable, skipped: Callable = lambda s: False) -> list:
        """The statements of a method, where self is the object of a name."""
        from .effects import resolver
        node, file = source_of(method)
        self.count += 1
        if self.count > MOST_CALLS:
            raise Apart(call, "its methods call each other, or are many")
        if not isinstance(node, ast.FunctionDef) or node.decorator_list or node.args.vararg or node.args.kwarg or \
                any(_name(n) in ("super", "__class__") for s in node.body if not skipped(s) for n in ast.walk(s)) or \
                any(isinstance(n, _WITHIN) for s in node.body for n in ast.walk(s)) or any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
            raise Apart(call, f"what {method.__name__} does cannot be written into the function that calls it")
        if call.keywords and any(changer(n, name, kind, self.called) for a in (*call.args, *call.keywords) for n in ast.walk(a)):
            raise Apart(call, "an argument changes it, and others are given by name")
        try:
            of_object = called_of(call, name) is not None or method.__name__ == "__init__"
            bound = inspect.signature(method).bind(*([name] if of_object else []), *call.args, **{str(k.arg): k.value for k in call.keywords})
        except TypeError as e:
            raise Apart(call, f"TypeError: {method.__name__}(): {e}") from None
        args = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        names = {n: ast.Name(f"{n}_in_{method.__name__}{self.count}__", ast.Load()) for n in _own_names(node)}
        within = [n for s in node.body for n in ast.walk(s)]
        stored = {n.id for n in within if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)} | {n.arg for n in within if isinstance(n, ast.arg)}
        if me in stored:
            raise Apart(call, f"{method.__name__} binds {me}")
        names[me] = ast.Name(name, ast.Load())
        before: list = []
        for p in (a for a in args if a != me):
            default = inspect.signature(method).parameters[p].default
            if p not in bound.arguments and not isinstance(default, (int, float, complex, str, tuple, type(None))):
                raise Apart(call, f"the default of {p} is one object for all calls")
            value = bound.arguments[p] if p in bound.arguments else ast.copy_location(ast.Constant(default), call)
            if p not in stored and isinstance(value, (ast.Name, ast.Constant)) and _name(value) != name:
                names[p] = value
            else:
                before.append(ast.copy_location(ast.Assign([ast.copy_location(ast.Name(names[p].id, ast.Store()), call)], value), call))
        body = [s for s in copy.deepcopy(node.body) if not skipped(s)]
        renamed = _Renamed(names, resolver(method), self.same)
        body = [renamed.visit(s) for s in body]
        for n in (m for s in body for m in ast.walk(s)):
            n.origin = file
            if isinstance(n, ast.AnnAssign):
                n.annotation = ast.copy_location(ast.Constant(None), n)
        return [*before, *tails(body, call, given)]

    def made(self, s: Any, name: str, kind: type) -> list:
        """name = Class(...)"""
        how, call = how_made(kind), s.value
        if isinstance(how, Unmade):
            from .holders import _is_base_call
            return self.run(call, (how.init, how.init.__code__.co_varnames[0]), name, kind, lambda _place, _result: [], _is_base_call)
        if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
            raise Apart(call, "it is not known what its class is given")
        try:
            given = inspect.signature(kind).bind(*call.args, **{str(k.arg): k.value for k in call.keywords}).arguments
        except TypeError as e:
            raise Apart(call, f"TypeError: {kind.__name__}(): {e}") from None
        out, late = [], []
        for f in dataclasses.fields(kind):
            target = ast.copy_location(ast.Attribute(ast.copy_location(ast.Name(name, ast.Load()), call), f.name, ast.Store()), call)
            value = given[f.name] if f.name in given else self.default(f, call)
            if any(_name(n) == name for n in ast.walk(value)):  # all is computed before the name is another object
                self.count += 1
                t = f"given_{self.count}_of_{name}__"
                out.append(ast.copy_location(ast.Assign([ast.copy_location(ast.Name(t, ast.Store()), call)], value), call))
                value = ast.copy_location(ast.Name(t, ast.Load()), call)
            late.append(ast.copy_location(ast.Assign([target], value), call))
        return [*out, *late]

    @staticmethod
    def default(f: Any, call: ast.Call) -> Any:
        made = {list: ast.List([], ast.Load()), dict: ast.Dict([], [])}.get(f.default_factory)
        if made is None and f.default_factory is not dataclasses.MISSING:
            made = ast.Call(ast.copy_location(ast.Constant(f.default_factory), call), [], [])
        return ast.copy_location(ast.Constant(f.default) if made is None else made, call)

    # ---- fields ----

    def variables(self, function: Any, name: str, kind: type) -> Any:
        """The function with the fields of an object as variables, and the object made of them where it is returned."""
        names = fields_of(kind)
        made = _Variables(name, names, how_made(kind), kind, self.called)
        for n in ast.walk(function):
            if isinstance(n, (ast.FunctionDef, ast.Lambda)) and n is not function and changes([n], name, kind, self.called):
                raise Apart(n, f"a function within changes {name}")
        made.read_returned(function.body)
        function.body = [made.visit(s) for s in function.body]
        return function


class _First(ast.NodeTransformer):
    """Takes the calls out of an expression that change an object, in the order in which they run."""

    def __init__(self, name: str, kind: type, objects: Objects) -> None:
        self.name, self.kind, self.objects = name, kind, objects
        self.before: list = []
        self.kept = True  # what has been computed before is the same after a call

    def visit(self, node: Any) -> Any:
        if isinstance(node, (ast.Name, ast.Constant, ast.Tuple, ast.List, ast.Starred, ast.expr_context, ast.operator, ast.unaryop, ast.cmpop)) or \
                isinstance(node, (ast.BinOp, ast.UnaryOp, ast.keyword)) or isinstance(node, ast.Compare) and len(node.ops) == 1:
            return self.generic_visit(node)
        if isinstance(node, ast.Call):
            return self.call(node)
        if isinstance(node, ast.Attribute) and self.objects.called(node)[0]:
            return node
        if isinstance(node, ast.Subscript):
            node = self.generic_visit(node)
            self.kept = self.kept and (_name(node.value) or "").startswith("given_")
            return node
        self.kept = False
        return node

    def call(self, node: ast.Call) -> Any:
        kept = self.kept
        if not isinstance(node.func, ast.Attribute) or _name(node.func.value) is None:  # else it is a method of what has the name
            node.func = self.visit(node.func)
        node.args = [self.visit(a) for a in node.args]
        node.keywords = [self.visit(k) for k in node.keywords]
        if kept and changer(node, self.name, self.kind, self.objects.called) is not None:
            made, t = self.objects.temporary(node)
            self.before.append(made)
            self.kept = True
            return t
        self.kept = self.kept and self.is_pure(node) and not any(_name(n) == self.name for n in ast.walk(node))
        return node

    def is_pure(self, call: ast.Call) -> bool:
        """Whether a call is that of a function of a library, whose result nothing changes."""
        known, f = self.objects.called(call.func)
        return known and is_foreign(f)


class _Variables(ast.NodeTransformer):
    def __init__(self, name: str, names: tuple[str, ...], how: Any, kind: type, called: Callable) -> None:
        self.called = called
        self.name, self.names, self.base, self.kind = name, names, kind, how.kind if isinstance(how, Unmade) else kind
        self.returned: set[int] = set()

    def read_returned(self, body: list) -> None:
        """Uses of the object as a whole by what is returned: nothing changes after."""
        for s in body:
            if isinstance(s, ast.Return) and s.value is not None:
                self.returned |= {id(n) for n in ast.walk(s.value)}
            elif isinstance(s, (ast.If, ast.For, ast.While, ast.With)):
                self.read_returned([*s.body, *getattr(s, "orelse", ())])

    def variable(self, field: str) -> str:
        return f"{field}_of_{self.name}__"

    def whole(self, node: Any) -> ast.Call:
        fields = [ast.keyword(n, ast.copy_location(ast.Name(self.variable(n), ast.Load()), node)) for n in self.names]
        return ast.fix_missing_locations(ast.copy_location(ast.Call(ast.copy_location(ast.Constant(Made(self.kind)), node), [], fields), node))

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        if _name(node.value) != self.name:
            return self.generic_visit(node)
        if node.attr in self.names:
            new = ast.copy_location(ast.Name(self.variable(node.attr), node.ctx), node)
            new.origin = getattr(node, "origin", None)
            return new
        if not isinstance(node.ctx, ast.Load):
            raise Apart(node, f"{self.kind.__name__} has no field {node.attr} when it is made")
        if method_changes(self.base, node.attr):
            raise self.within(node, f"{self.name}.{node.attr}(...)")
        member = inspect.getattr_static(self.base, node.attr, None)
        method = member.fget if isinstance(member, property) else member
        if isinstance(method, types.FunctionType) and not keeps_apart(method, 0, self.base):
            raise Apart(node, f"{node.attr} uses {self.name} for more than its fields")
        node.value = self.whole(node.value)
        return node

    @staticmethod
    def within(node: Any, call: str) -> Apart:
        return Apart(node, f"{call} changes it within another expression, after what it changes may have been read: write y = {call} before")

    def visit_Call(self, node: ast.Call) -> Any:
        if not called_of(node, self.name) and changer(node, self.name, self.base, self.called) is not None:
            raise self.within(node, f"{ast.unparse(node.func)}({self.name}, ...)")
        if _name(node.func) == self.name:
            node.func = ast.copy_location(ast.Attribute(node.func, "__call__", ast.Load()), node.func)
        at = [i for i, x in enumerate(node.args) if _name(x) == self.name]
        if len(at) == 1:
            from .effects import plain
            known, f = self.called(node.func)
            f = plain(f) if known and not is_foreign(f) else None
            if f is not None and changer(node, self.name, self.base, self.called) is None and keeps_apart(f, at[0], self.base):
                self.returned.add(id(node.args[at[0]]))
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> Any:
        if node.id != self.name:
            return node
        if id(node) not in self.returned:
            raise Apart(node, f"{self.name} is used here for more than its fields and methods")
        return self.whole(node)


def with_fields(function: Any, called: Callable[[Any], tuple[bool, Any]], file: str = "") -> tuple[Any, dict[int, tuple]]:
    """The function with objects that it makes and changes as variables, and the places of its nodes by number; itself if there are none."""
    if not isinstance(function, ast.FunctionDef) or not any(map(bound_to_call, ast.walk(function))):
        return function, {}
    made = _of_within(_of_one(function, called), called)
    return (made, numbered(ast.fix_missing_locations(made), file)) if made is not function else (function, {})


def _of_within(function: ast.FunctionDef, called: Callable) -> ast.FunctionDef:
    """The same of the functions within."""
    if not any(isinstance(n, ast.FunctionDef) and n is not function for n in ast.walk(function)):
        return function
    whole = copy.deepcopy(function)
    changed = False
    for n in [n for n in ast.walk(whole) if isinstance(n, ast.FunctionDef) and n is not whole]:
        own = _own_names(n)

        def within(node: Any, own: set = own) -> tuple[bool, Any]:
            start = node
            while isinstance(start, ast.Attribute):
                start = start.value
            return (False, None) if _name(start) in own else called(node)
        made = _of_one(n, within)
        if made is not n:
            n.body, changed = made.body, True
    return whole if changed else function


def _of_one(function: ast.FunctionDef, called: Callable) -> ast.FunctionDef:
    refused: set[str] = set()
    count = 0
    for _ in range(MOST_ROUNDS):
        objects = Objects(function, called)
        objects.count = count
        name, kind = next(((n, k) for n, k in objects.found().items() if n not in refused), (None, None))
        if name is None or kind is None:
            break
        whole = copy.deepcopy(function)
        try:
            whole.body = objects.block(whole.body, name, kind)
            function = objects.variables(whole, name, kind)
        except (Apart, CompileError) as why:
            function = copy.deepcopy(function)
            _marked(function, name, kind, called, why)
            refused.add(name)
        count = objects.count
    return function


def _marked(function: Any, name: str, kind: type, called: Callable, why: Any) -> None:
    """Says at all changes of an object why it does not change."""
    for n in ast.walk(function):
        if stores_fields(n, name) or changer(n, name, kind, called) is not None:
            n.apart = name.removesuffix(_GIVEN), why


# ---- objects that a function is given ----

class _Named(ast.NodeTransformer):
    def __init__(self, old: str, new: str) -> None:
        self.old, self.new = old, new

    def visit_Name(self, node: ast.Name) -> Any:
        return ast.copy_location(ast.Name(self.new, node.ctx), node) if node.id == self.old else node


def only_result(function: Any) -> str | None:
    """The name that all returns of a function give; None: there are others."""
    returns = [n for n in ast.walk(function) if isinstance(n, ast.Return)]
    names = {_name(n.value) for n in returns}
    return names.pop() if len(names) == 1 and isinstance(function.body[-1], ast.Return) else None


def holds(function: Any, name: str) -> bool:
    """Whether a result of a function may be an object of a name, or hold it."""
    fields = {id(n.value) for n in ast.walk(function) if isinstance(n, ast.Attribute)}
    return any(_name(m) == name and id(m) not in fields for n in ast.walk(function) if isinstance(n, ast.Return) and n.value is not None for m in ast.walk(n.value))


def changes_given(fn: types.FunctionType, name: str, kind: type) -> bool:
    """Whether a function changes fields of an object that it is given, in a way that these can be variables."""
    from .effects import resolver
    if kind_of(kind) is None or not dataclasses.is_dataclass(kind) or kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        return False
    try:
        node, _ = source_of(fn)
    except CompileError:
        return False
    bound = any(_name(n) == name and not isinstance(n.ctx, ast.Load) for n in ast.walk(node))
    return isinstance(node, ast.FunctionDef) and not bound and changes(node.body, name, kind, resolver(fn))


def remade(function: Any, objects: dict[str, type]) -> Any:
    """The function with objects that it makes of the fields of those that it is given; it gives them after its result."""
    from .effects import giving_back
    if not objects:
        return function
    function, first = copy.deepcopy(function), function.body[0]
    begin, names = [], []
    for p, kind in objects.items():
        for s in function.body:
            _Named(p, p + _GIVEN).visit(s)
        fields = [ast.keyword(f, ast.Attribute(ast.Name(p, ast.Load()), f, ast.Load())) for f in fields_of(kind)]
        begin.append(ast.Assign([ast.Name(p + _GIVEN, ast.Store())], ast.Call(ast.Constant(kind), [], fields)))
        names.append(p + _GIVEN)
    for s in begin:
        for n in ast.walk(s):
            if isinstance(n, (ast.expr, ast.stmt, ast.keyword)):
                ast.copy_location(n, first)
    function.body = [*begin, *function.body]
    return giving_back(function, tuple(names))
