# SPDX-License-Identifier: Apache-2.0
"""Functions within that bind names of the function around them: these become arguments that they give back.

    def bump(x):                                def bump(count, x):
        nonlocal count                              count += 1
        count += 1                         ->       return x * count, count
        return x * count
    y = bump(2)                                 y, count = bump(count, 2)

Where such a function is more than called by statements of the function around it, it stays what it is, and is refused."""
from __future__ import annotations

import ast
import copy
from typing import Any

from .names import local_names

_WITHIN = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.ListComp, ast.GeneratorExp, ast.DictComp, ast.SetComp)


def _own(body: list) -> list:
    """The nodes of statements, without what functions and comprehensions within hold."""
    found, waiting = [], list(body)
    while waiting:
        n = waiting.pop()
        found.append(n)
        if not isinstance(n, _WITHIN):
            waiting += ast.iter_child_nodes(n)
    return found


def _ends(body: list) -> bool:
    last = body[-1] if body else None
    return isinstance(last, (ast.Return, ast.Raise)) or isinstance(last, ast.If) and _ends(last.body) and _ends(last.orelse)


def _placed(made: Any, like: Any) -> Any:
    for n in ast.walk(made):
        if not hasattr(n, "lineno") and "lineno" in n._attributes:
            ast.copy_location(n, like)
    return made


class _Changer:
    """One function within: what it binds outside, and the statements that call it."""

    def __init__(self, outer: Any, within: ast.FunctionDef) -> None:
        self.outer, self.within = outer, within
        own = _own(within.body)
        self.names = sorted({x for n in own if isinstance(n, ast.Nonlocal) for x in n.names})
        self.returns = [n for n in own if isinstance(n, ast.Return)]
        self.gives = any(n.value is not None for n in self.returns)
        self.calls: dict[int, ast.Call] = {}  # by statement

    def fits(self) -> bool:
        f, a = self.within, self.within.args
        bound = local_names(self.outer.body) | {x.arg for x in ast.walk(self.outer.args) if isinstance(x, ast.arg)}
        inner = [n for s in f.body for n in ast.walk(s)]
        if a.vararg or a.kwarg or f.decorator_list or not set(self.names) <= bound or any(isinstance(n, (*_WITHIN, ast.Yield, ast.YieldFrom)) for n in inner):
            return False
        if self.gives and not (_ends(f.body) and all(n.value is not None for n in self.returns)):
            return False
        return self.found_calls()

    def found_calls(self) -> bool:
        """Whether all uses of the function are calls by statements, which are noted."""
        name = self.within.name
        if sum(isinstance(n, ast.FunctionDef) and n.name == name for n in ast.walk(self.outer)) != 1 or name in \
                {n.id for n in ast.walk(self.outer) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}:
            return False
        for s in (n for n in _own(self.outer.body) if isinstance(n, ast.stmt)):
            value = getattr(s, "value", None) if isinstance(s, (ast.Expr, ast.Assign, ast.AugAssign, ast.Return)) else None
            if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Name) or value.func.id != name:
                continue
            if not isinstance(s, ast.Expr) and not self.gives or isinstance(s, ast.AugAssign) and not (
                    isinstance(s.target, ast.Name) and s.target.id not in self.names):
                return False
            self.calls[id(s)] = value
        uses = [n for n in ast.walk(self.outer) if isinstance(n, ast.Name) and n.id == name]
        return len(uses) == len(self.calls) and {id(c.func) for c in self.calls.values()} == {id(n) for n in uses}

    def given(self, value: Any, ctx: Any) -> Any:
        parts = [*([value] if value is not None else []), *(ast.Name(n, ctx) for n in self.names)]
        return parts[0] if len(parts) == 1 else ast.Tuple(parts, ctx)

    def rewrite_function(self) -> None:
        f = self.within
        for n in self.returns:
            n.value = _placed(self.given(n.value, ast.Load()), n)
        if not _ends(f.body):
            f.body.append(_placed(ast.Return(self.given(None, ast.Load())), f.body[-1]))
        f.body = [_Without().visit(s) for s in f.body]
        first = f.args.posonlyargs if f.args.posonlyargs else f.args.args
        first[:0] = [_placed(ast.arg(n), f) for n in self.names]

    def rewritten(self, s: Any, number: int) -> list:
        """A statement that calls the function."""
        call = self.calls[id(s)]
        call.args[:0] = [_placed(ast.Name(n, ast.Load()), call) for n in self.names]
        if isinstance(s, ast.Expr) and not self.gives:
            return [_placed(ast.Assign([self.given(None, ast.Store())], call), s)]
        result = f"given_{number}__"
        s.value = _placed(ast.Name(result, ast.Load()), call)
        bound = _placed(ast.Assign([self.given(ast.Name(result, ast.Store()), ast.Store())], call), s)
        return [bound] if isinstance(s, ast.Expr) else [bound, s]


class _Without(ast.NodeTransformer):
    def visit_Nonlocal(self, node: ast.Nonlocal) -> Any:
        return ast.copy_location(ast.Pass(), node)


class _Calls(ast.NodeTransformer):
    """The statements that call such a function, written anew."""

    def __init__(self, changer: _Changer) -> None:
        self.changer, self.count = changer, 0

    def generic_visit(self, node: Any) -> Any:
        if id(node) not in self.changer.calls:
            return super().generic_visit(node)
        self.count += 1
        return self.changer.rewritten(node, self.count)


def without_nonlocals(function: Any) -> Any:
    """The function with what its functions bind outside as arguments; itself if there is none."""
    if not isinstance(function, ast.FunctionDef) or not any(isinstance(n, ast.Nonlocal) for n in ast.walk(function)):
        return function
    whole = copy.deepcopy(function)
    changed = False
    for outer in [n for n in ast.walk(whole) if isinstance(n, ast.FunctionDef)]:
        for g in [n for n in _own(outer.body) if isinstance(n, ast.FunctionDef)]:
            changer = _Changer(outer, g)
            if changer.names and changer.fits():
                _Calls(changer).visit(outer)
                changer.rewrite_function()
                changed = True
    return whole if changed else function
