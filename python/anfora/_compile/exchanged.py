# SPDX-License-Identifier: Apache-2.0
"""Arguments that change in place, and whose names exchange their arrays.

    def smooth(a, b, n):                  def smooth(a, b, n):
        for k in range(n):                    a__, b__, of_a__, of_b__ = a.copy(), b.copy(), 0, 1
            b[1:-1] = a[:-2] + a[2:]          for k in range(n):
            a, b = b, a                           b__[1:-1] = a__[:-2] + a__[2:]
        return a                                  a__, b__, of_a__, of_b__ = b__, a__, of_b__, of_a__
                                              a[...] = a__ if of_a__ == 0 else b__
                                              b[...] = a__ if of_a__ == 1 else b__
                                              return a__

The names are arrays of the function, which exchange as such do (stores.py), and beside each is the number of the memory that it names;
the arguments change where the function ends. Each memory has one name at all times, as names are bound by exchanges alone, and arrays
that the function makes before the first of them may take part."""
from __future__ import annotations

import ast
import copy
from typing import Any, Callable

from .stores import Stores, given_by


def exchange(node: Any) -> list[str]:
    """The names of a statement that exchanges what they are: u, v, w = v, w, u."""
    if not (isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple)):
        return []
    to, of = ([e.id if isinstance(e, ast.Name) else "" for e in t.elts] for t in (node.targets[0], node.value))
    return to if len(to) > 1 and "" not in to and sorted(to) == sorted(of) and len(set(to)) == len(to) else []


def groups(nodes: Any) -> list[set[str]]:
    """Names that exchange with each other."""
    found: list[set[str]] = []
    for names in filter(None, map(exchange, nodes)):
        joined = set(names).union(*(g for g in found if g & set(names)))
        found = [g for g in found if not g & joined] + [joined]
    return found


def copied(node: Any) -> tuple[str, str]:
    """Of t = u: t and u."""
    names = [*node.targets, node.value] if isinstance(node, ast.Assign) else []
    return (names[0].id, names[1].id) if len(names) == 2 and all(isinstance(n, ast.Name) for n in names) else ("", "")


def carried(function: ast.FunctionDef) -> list[tuple[list, int, int]]:
    """Where t = u; u = v; v = t is written and t is nothing else: the block, and its first and last statement."""
    runs: dict[str, list] = {}
    for block in (b for n in ast.walk(function) for field in ("body", "orelse", "finalbody") if isinstance(b := getattr(n, field, None), list)):
        for i, (t, u) in enumerate(map(copied, block)):
            k, last = i + 1, u
            while t and k < len(block) and copied(block[k])[0] == last and copied(block[k])[1] != t:
                last, k = copied(block[k])[1], k + 1
            if t and k > i + 1 and k < len(block) and copied(block[k]) == (last, t):
                runs.setdefault(t, []).append((block, i, k))
    uses = [n.id for n in ast.walk(function) if isinstance(n, ast.Name)]
    return [r for t, of in runs.items() if uses.count(t) == 2 * len(of) for r in of]


def without_carriers(function: ast.FunctionDef) -> ast.FunctionDef:
    """The function in which t = u; u = v; v = t is u, v = v, u."""
    if not carried(function):
        return function
    whole = copy.deepcopy(function)
    for block, i, k in sorted(carried(whole), key=lambda r: -r[1]):
        names = [copied(s)[0] for s in block[i + 1:k + 1]]
        to, of = (ast.Tuple([ast.Name(n, ctx) for n in some], ctx) for some, ctx in ((names, ast.Store()), (names[1:] + names[:1], ast.Load())))
        block[i:k + 1] = [ast.fix_missing_locations(ast.copy_location(ast.Assign([to], of), block[i]))]
    return whole


class Exchanged:
    """Of one function: the arguments that exchanges move, by their groups, and all names of these."""

    def __init__(self, function: Any, called: Callable[[Any], tuple[bool, Any]]) -> None:
        self.plain, self.groups, self.params = function, [], []
        if not isinstance(function, ast.FunctionDef):
            return
        self.function = function = without_carriers(function)
        a = function.args
        params = [p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs)]
        candidates = [g for g in groups(ast.walk(function)) if g & set(params)]
        if not candidates:
            return
        stores = Stores(function, called, tuple(params))
        self.groups = [[*(p for p in params if p in g), *sorted(g - set(params))] for g in candidates if g & stores.stored and self.fits(stores, g, params)]
        self.params = [[p for p in g if p in params] for g in self.groups]
        self.names = set().union(*self.groups)
        self.begun = False  # the function may have exchanged some by the statement that is written

    def fits(self, stores: Stores, group: set[str], params: list[str]) -> bool:
        """Whether nothing but exchanges binds the arguments, and arrays that the function makes are there before the first."""
        made = {id(n) for s in self.function.body[:self.first(group)] if isinstance(s, (ast.Assign, ast.AnnAssign)) for n in ast.walk(s)}
        taken = {f"{n}__" for n in group} | {f"of_{n}__" for n in group}
        if taken & {*params, *stores.names} or any(isinstance(n, (ast.Global, ast.Nonlocal)) and group & set(n.names) for n in stores.nodes):
            return False
        bound = set(params)
        for n in (n for name in group for n in stores.names.get(name, [])):
            of = stores.parents.get(id(stores.parents[id(n)]))
            if id(n) in stores.inner or isinstance(n.ctx, ast.Del):
                return False
            if isinstance(n.ctx, ast.Store) and not exchange(of) and not stores.is_change(n):
                if n.id in params or id(n) not in made or not stores.binds_fresh(n):
                    return False
                bound.add(n.id)
        return group <= bound

    def first(self, group: set[str]) -> int:
        """The statement of the function in which the first exchange is."""
        return next(i for i, s in enumerate(self.function.body) if any(set(exchange(n)) & group for n in ast.walk(s)))

    def other_names(self, stores: Stores) -> set[str]:
        """Of the function that is written: names of the exchanged arrays."""
        found = {f"{n}__" for n in self.names} if self.groups else set()
        while more := {n for n, nodes in stores.names.items() if any(isinstance(x.ctx, ast.Store) and stores.taken_from(x) in found for x in nodes)} - found:
            found |= more
        return found

    def written(self) -> Any:
        """The function in which names of its own exchange, and the arguments change where it ends."""
        if not self.groups:
            return self.plain
        node = copy.deepcopy(self.function)
        first, body = min(self.first(set(g)) for g in self.groups), []
        for i, s in enumerate(node.body):
            self.begun = i >= first
            body += self.statement(s)
        start = [s for g, params in zip(self.groups, self.params) for p in params for s in self.start(g, p)]
        end = [] if isinstance(node.body[-1], ast.Return) else self.ends()
        node.body = [*(self.placed(s, node.body[0]) for s in start), *body, *(self.placed(s, node.body[-1]) for s in end)]
        return node

    @staticmethod
    def placed(made: Any, at: Any) -> Any:
        return ast.fix_missing_locations(ast.copy_location(made, at))

    @staticmethod
    def start(group: list[str], param: str) -> list:
        return ast.parse(f"{param}__ = {param}.copy()\nof_{param}__ = {group.index(param)}").body

    def ends(self) -> list:
        """The arguments become what their memory holds."""
        text = ""
        for g, params in zip(self.groups, self.params):
            for p in params:
                choice = "".join(f"{n}__ if of_{n}__ == {g.index(p)} else " for n in g[:-1])
                text += f"{p}[...] = {choice}{g[-1]}__\n" if self.begun else f"{p}[...] = {p}__\n"
        return ast.parse(text).body

    def statement(self, node: Any) -> list:
        """A statement by the function's own names."""
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            return [node]
        of = [n for n in exchange(node) if n in self.names]
        made = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)} & self.names if isinstance(node, (ast.Assign, ast.AnnAssign)) else set()
        for field in ("body", "orelse", "finalbody"):
            if isinstance(inner := getattr(node, field, None), list):
                setattr(node, field, [x for s in inner for x in self.statement(s)])
        for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
            part.body = [x for s in part.body for x in self.statement(s)]
        for n in ast.walk(node):
            if isinstance(n, ast.Name) and n.id in self.names:
                n.id += "__"
        if of:
            for side, ctx in ((node.targets[0], ast.Store()), (node.value, ast.Load())):
                side.elts += [ast.copy_location(ast.Name(f"of_{e.id}", ctx), e) for e in side.elts]
            return [node]
        if isinstance(node, ast.Return):
            return [*(self.placed(s, node) for s in self.ends()), node]
        numbers = [(n, g.index(n)) for g, params in zip(self.groups, self.params) for n in g if n in made and n not in params and given_by(node.value) is None]  # type: ignore[attr-defined]
        return [node, *(self.placed(ast.parse(f"of_{n}__ = {i}").body[0], node) for n, i in numbers)]
