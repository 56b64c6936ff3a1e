# SPDX-License-Identifier: Apache-2.0
"""Lists of lists of numbers, all of one length, whose numbers change: one array.

    best = [[0] * (m + 1) for _ in range(n + 1)]     best = full((n + 1, m + 1), 0)
    best[i][j] = best[i - 1][j] + 1                  best[i, j] = best[i - 1, j] + 1

The list is used for its numbers and lengths, and returned: no row of it has another name."""
from __future__ import annotations

import ast
from typing import Any

from .known import Like, Part
from .names import chain
from .static import _together, static_text
from .._tree import Shape

_READERS = {"len", "sum", "max", "min"}  # of a row; the length of any part
_JOINS = {"array", "asarray"}


def made_of(node: Any) -> tuple[list, Any] | None:
    """(how many items there are by dim, as expressions, and the number that all are) of [[c] * m for _ in range(n)]."""
    if isinstance(node, ast.ListComp) and len(node.generators) == 1:
        g = node.generators[0]
        of = g.iter if isinstance(g.iter, ast.Call) and getattr(g.iter.func, "id", "") == "range" and len(g.iter.args) == 1 and not g.iter.keywords else None
        unused = isinstance(g.target, ast.Name) and not any(isinstance(n, ast.Name) and n.id == g.target.id and isinstance(n.ctx, ast.Load) for n in ast.walk(node.elt))
        if of is None or g.ifs or not unused:
            return None
        inner = made_of(node.elt)
        return ([of.args[0], *inner[0]], inner[1]) if inner else ([of.args[0]], node.elt)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and isinstance(node.left, ast.List) and len(node.left.elts) == 1:
        return ([node.right], node.left.elts[0]) if not isinstance(node.left.elts[0], (ast.List, ast.Starred, ast.ListComp)) else None
    return None


class Grids(Part):
    """The part of the writer for such lists."""

    def grid(self, target: Any, value: Any, indent: str) -> str | None:
        """name = [[c] * m for _ in range(n)], whose numbers change; None: it is another thing."""
        found = made_of(value) if isinstance(value, ast.ListComp) else None
        if found is None or len(found[0]) < 2 or not isinstance(target, ast.Name) or not self.is_grid(target.id):
            return None
        known, number = self.static(found[1])
        draws = any(isinstance(n, ast.Call) and getattr(n.func, "id", "") != "float" for n in ast.walk(found[1]))
        if known and type(number) not in (bool, int, float) or not known and draws:
            return None
        c, mark = self.fresh(), self.mark(value)
        number = static_text(self, found[1], number) if known else self.expr(found[1])
        one = f"(fn ({c}) {{ {mark}assert(len({c}.shape) == 0, \"TypeError: the items are arrays; make one array of them\"); {c} }})({number})"
        text = f"{indent}{mark}{self.target(target)} = BroadcastTo({one}, ({self.exprs(found[0])}))\n"
        self.scope.env[target.id] = Like(Shape("stacked"), own=True)
        return text

    def is_grid(self, name: str) -> int:
        """How many dims a list has that is used as this file says; 0: it is not."""
        scope = self.scope
        while scope is not None and scope.node is None:  # of a comprehension
            scope = scope.outer
        of = scope.node if scope else None
        key = id(of), name
        if key not in self.grids:
            self.grids[key] = (_dims_of(of, name, self.is_join), of)
        return self.grids[key][0]

    def is_join(self, f: Any) -> bool:
        known, x = self.static(f)
        return known and getattr(x, "__name__", "") in _JOINS

    def grid_at(self, node: Any) -> tuple[ast.Name, list] | None:
        """A number of such a list: its name and the indices."""
        name, keys = chain(node)
        e = self.scope.env.get(name.id) if isinstance(name, ast.Name) and len(keys) > 1 and self.scope else None
        if not isinstance(e, Like) or e.shape.kind != "stacked" or self.is_grid(name.id) != len(keys):
            return None
        return name, keys

    def grid_item(self, node: ast.Subscript) -> str | None:
        found = self.grid_at(node)
        return None if found is None else f"{self.local(found[0].id)}{self.mark(node)}[{', '.join(map(self.expr, found[1]))}]"

    def store_grid(self, target: Any, value: Any, indent: str) -> str:
        """best[i][j] = x; the array takes the element type that holds all numbers."""
        name, keys = self.grid_at(target) or (None, [])
        array, b, e, at = self.local(name.id), self.fresh(), self.fresh(), self.fresh()
        mark = self.mark(target)
        made = f"{b} = Where(false, Reshape({e}, ()), {b}); ScatterNd{mark}({b}, {at}, BroadcastLike(CastLike({e}, {b}), GatherNd({b}, {at})), mode=\"update\")"
        self.bind(name.id, Like(Shape("stacked"), own=True))
        return (f"{indent}{e} = {self.expr(value)}\n{indent}{at} = {_together([(self.expr(k), self.mark(k)) for k in keys])}\n"
                f"{indent}{mark}{array} = (fn ({b}, {e}, {at}) {{ {made} }})({array}, {e}, {at})\n")


def _dims_of(function: Any, name: str, is_join: Any) -> int:
    if not isinstance(function, ast.FunctionDef) or name in {a.arg for a in ast.walk(function.args) if isinstance(a, ast.arg)}:
        return 0
    parents = {id(c): n for n in ast.walk(function) for c in ast.iter_child_nodes(n)}
    uses = [n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == name]
    inner = {id(m) for n in ast.walk(function) if isinstance(n, (ast.FunctionDef, ast.Lambda)) and n is not function for m in ast.walk(n)}
    dims: set[int] = set()
    stored = False
    for n in uses:
        if id(n) in inner or isinstance(n.ctx, ast.Del):
            return 0
        if isinstance(n.ctx, ast.Store):
            p: Any = parents[id(n)]
            made = made_of(p.value) if isinstance(p, ast.Assign) and p.targets == [n] else None
            dims.add(len(made[0]) if made else 0)
    if len(dims) != 1 or (depth := dims.pop()) < 2:
        return 0
    for n in uses:
        if isinstance(n.ctx, ast.Load):
            used = _used(n, parents, depth, is_join)
            if used is None:
                return 0
            stored = stored or used
    return depth if stored else 0


def _used(node: Any, parents: dict, depth: int, is_join: Any) -> bool | None:
    """Whether a number is stored by a use of the name; None: it is used for more."""
    k, parent = 0, parents[id(node)]
    while isinstance(parent, ast.Subscript) and parent.value is node:
        if isinstance(parent.slice, (ast.Slice, ast.Tuple)):
            return None
        k, node, parent = k + 1, parent, parents[id(parent)]
    if k:
        if isinstance(node.ctx, ast.Del) or isinstance(node.ctx, ast.Store) and k != depth:
            return None
        if k == depth:
            return isinstance(node.ctx, ast.Store)
    if isinstance(parent, ast.Call) and parent.args == [node] and not parent.keywords:
        f = getattr(parent.func, "id", "")
        return False if f == "len" or f in _READERS and k == depth - 1 or is_join(parent.func) else None
    while not k and isinstance(parent, ast.Tuple):
        parent = parents[id(parent)]
    return False if not k and isinstance(parent, ast.Return) else None
