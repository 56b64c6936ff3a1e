# SPDX-License-Identifier: Apache-2.0
"""Functions that yield, whose items a loop, a comprehension or a call goes through at once: they give the list of these.

    def pairs(xs):                              def pairs(xs):
        for i in range(1, len(xs)):                 items__ = []
            yield xs[i - 1], xs[i]        ->        for i in range(1, len(xs)):
                                                        items__.append((xs[i - 1], xs[i]))
    for a, b in pairs(layers): ...                  return items__

A generator that does not end, that is given values, or that would see what the loop over it changes stays what it is, and is refused."""
from __future__ import annotations

import ast
import copy
import inspect
import types
from typing import Any, Callable

from .names import bound_names, changed_in_place, own_breaks, read_names

READERS = (list, tuple, sum, sorted, max, min, dict, any, all, set, enumerate, zip, map)  # functions that go through all items
ITEMS = "items__"


class Gathered:
    """A function from outside that yields, as one that gives a list."""

    def __init__(self, fn: types.FunctionType) -> None:
        self.fn, self.__name__ = fn, fn.__name__

    def _emit_call(self, w: Any, c: Any) -> str:
        from .static import call_source
        w.b.gathered.add(self.fn)
        return call_source(w, c, self.fn, self.fn)


def own_nodes(function: Any) -> list:
    """The nodes of a function without those of functions within it."""
    found, waiting = [], list(function.body) if isinstance(function.body, list) else [function.body]
    while waiting:
        n = waiting.pop()
        found.append(n)
        if not isinstance(n, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
            waiting += ast.iter_child_nodes(n)
    return found


def yields(function: Any) -> bool:
    return isinstance(function, ast.FunctionDef) and any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in own_nodes(function))


def _ends(function: Any) -> bool:
    """Whether a generator is given nothing, and has no loop without an end."""
    nodes = own_nodes(function)
    alone = {id(n.value) for n in nodes if isinstance(n, ast.Expr)}
    if any(isinstance(n, (ast.Yield, ast.YieldFrom)) and id(n) not in alone for n in nodes) or any(isinstance(n, ast.Return) and n.value is not None for n in nodes):
        return False
    return not any(isinstance(n, ast.While) and isinstance(n.test, ast.Constant) and not own_breaks(n.body) and
                   not any(isinstance(m, ast.Return) for m in ast.walk(n)) for n in nodes)


class _Gatherer(ast.NodeTransformer):
    def visit_FunctionDef(self, node: Any) -> Any:
        return node

    visit_Lambda = visit_ClassDef = visit_FunctionDef

    def visit_Expr(self, node: ast.Expr) -> Any:
        if isinstance(node.value, ast.Yield):
            return self.appended(node.value.value or ast.Constant(None), node)
        if isinstance(node.value, ast.YieldFrom):
            each = ast.Name("item__", ast.Store())
            return _placed(ast.For(each, node.value.value, [self.appended(ast.Name("item__", ast.Load()), node)], []), node)
        return node

    @staticmethod
    def appended(value: Any, node: Any) -> Any:
        return _placed(ast.Expr(ast.Call(ast.Attribute(ast.Name(ITEMS, ast.Load()), "append", ast.Load()), [value], [])), node)

    def visit_Return(self, node: ast.Return) -> Any:
        return _placed(ast.Return(ast.Name(ITEMS, ast.Load())), node)


def _placed(made: Any, node: Any) -> Any:
    for n in ast.walk(made):
        if not hasattr(n, "lineno") and "lineno" in n._attributes:
            ast.copy_location(n, node)
    return made


def gathering(function: Any) -> Any:
    """A function that yields, as one that gives the list of its items; itself if it cannot be one."""
    if not yields(function) or not _ends(function):
        return function
    made = copy.deepcopy(function)
    first = _placed(ast.Assign([ast.Name(ITEMS, ast.Store())], ast.List([], ast.Load())), made.body[0])
    last = _placed(ast.Return(ast.Name(ITEMS, ast.Load())), made.body[-1])
    made.body = [first, *(_Gatherer().visit(s) for s in made.body), last]
    return made


class _Uses:
    """The calls of generators in a function, and which of them something goes through at once."""

    def __init__(self, function: Any, called: Callable) -> None:
        self.called, self.within = called, {n.name: n for n in ast.walk(function) if n is not function and yields(n)}
        self.read: set[int] = set()
        for n in ast.walk(function):
            if isinstance(n, ast.For):
                self.reads(n.iter, n)
            elif isinstance(n, (ast.ListComp, ast.GeneratorExp, ast.DictComp, ast.SetComp)):
                self.reads(n.generators[0].iter, None)
            elif isinstance(n, ast.Call) and self.called(n.func)[1] in READERS and self.called(n.func)[1] not in (enumerate, zip, map):
                for a in n.args:
                    self.reads(a, None)

    def reads(self, node: Any, loop: Any) -> None:
        if isinstance(node, ast.Call) and self.called(node.func)[1] in (enumerate, zip, map):
            for a in node.args:
                self.reads(a, loop)
        elif self.generator(node) is not None and (loop is None or not self.sees(node, loop)):
            self.read.add(id(node))

    def generator(self, node: Any) -> Any:
        """The function that yields of a call: its definition, or the function from outside."""
        if not isinstance(node, ast.Call):
            return None
        if isinstance(node.func, ast.Name) and node.func.id in self.within:
            return self.within[node.func.id]
        f = self.called(node.func)[1]
        return f if isinstance(f, types.FunctionType) and inspect.isgeneratorfunction(f) else None

    def sees(self, call: ast.Call, loop: ast.For) -> bool:
        """Whether the generator could see what a round of the loop changes."""
        of = self.generator(call)
        given = read_names(ast.Tuple([*call.args, *(k.value for k in call.keywords)], ast.Load()))
        names = {n.id for n in ast.walk(of) if isinstance(n, ast.Name)} if isinstance(of, ast.FunctionDef) else set()
        changed = {n for n in changed_in_place(loop.body) if not isinstance(self.called(ast.Name(n, ast.Load()))[1], types.ModuleType)}
        changed |= {n.target.id for s in loop.body for n in ast.walk(s) if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)}
        return bool(given & changed or names & (bound_names(loop.body) | changed))


def with_gathered(function: Any, called: Callable) -> Any:
    """The function with generators that are gone through at once as functions that give lists."""
    if not isinstance(function, ast.FunctionDef):
        return function
    calls = [n for n in ast.walk(function) if isinstance(n, ast.Call)]
    if not any(n is not function and yields(n) for n in ast.walk(function)) and not any(
            isinstance(f := called(n.func)[1], types.FunctionType) and inspect.isgeneratorfunction(f) for n in calls):
        return function
    whole = copy.deepcopy(function)
    uses = _Uses(whole, called)
    for name, definition in uses.within.items():
        named = [n for n in ast.walk(whole) if isinstance(n, ast.Name) and n.id == name]
        read = [n for n in ast.walk(whole) if isinstance(n, ast.Call) and id(n) in uses.read and n.func in named]
        if len(read) == len(named) and sum(isinstance(n, ast.FunctionDef) and n.name == name for n in ast.walk(whole)) == 1:
            definition.body = gathering(definition).body
    for n in ast.walk(whole):
        if isinstance(n, ast.Call) and id(n) in uses.read and isinstance(f := uses.generator(n), types.FunctionType):
            n.func = ast.copy_location(ast.Constant(Gathered(f)), n.func)
    return whole
