# SPDX-License-Identifier: Apache-2.0
"""Lists whose length is known only when the program is compiled, and whose items are replaced later: they are filled by a loop.

    xs = [0.0] * len(x)                          xs = []
    xs = [0.0 for i in range(len(x))]     ->     for i in range(len(x)): xs.append(0.0)
"""
from __future__ import annotations

import ast
import copy
from typing import Any

from .known import is_structure


def is_replaced(w: Any, name: str, anywhere: bool = True) -> bool:
    """Whether the function that is written has xs[i] = x; not `anywhere`: and not only where a constant says which item."""
    of = w.scope.node
    if id(of) not in w.replaced:
        stores = [n for n in ast.walk(of) if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store) and isinstance(n.value, ast.Name)]
        computed = [n for n in stores if not isinstance(n.slice, (ast.Constant, ast.UnaryOp, ast.Slice))]
        w.replaced[id(of)] = of, {n.value.id for n in stores}, {n.value.id for n in computed}  # type: ignore[attr-defined]
    return name in w.replaced[id(of)][1 if anywhere else 2]


class Named(ast.NodeTransformer):
    def __init__(self, old: str, new: str) -> None:
        self.old, self.new = old, new

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.copy_location(ast.Name(self.new, node.ctx), node) if node.id == self.old else node


def repeated(w: Any, value: Any) -> tuple | None:
    """[x] * n, where n is not known yet: (x, n)."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult):
        for of, by in ((value.left, value.right), (value.right, value.left)):
            one = isinstance(of, ast.List) and len(of.elts) == 1 and not isinstance(of.elts[0], ast.Starred)
            if one and not w.static(by)[0] and not is_structure(w.like(by)):
                return of.elts[0], by
    return None


def comprehended(w: Any, value: Any, name: str) -> tuple | None:
    """[x for i in xs], of parts that are not known yet: (x, i, xs), with a name for i that nothing else has."""
    if not isinstance(value, ast.ListComp) or len(value.generators) != 1:
        return None
    gen = value.generators[0]
    inner = (ast.Lambda, ast.ListComp, ast.GeneratorExp, ast.DictComp, ast.SetComp, ast.NamedExpr)
    if gen.ifs or gen.is_async or not isinstance(gen.target, ast.Name) or any(isinstance(n, inner) for n in ast.walk(value.elt)) or \
            w.sequence(gen.iter) is not None:
        return None
    new = f"{gen.target.id}_of_{name}"
    return Named(gen.target.id, new).visit(copy.deepcopy(value.elt)), ast.copy_location(ast.Name(new, ast.Store()), gen.target), gen.iter


def filling(w: Any, target: ast.Name, value: Any) -> list | None:
    """The statements that fill such a list; None: it is another one."""
    if not isinstance(value, (ast.BinOp, ast.ListComp)) or not isinstance(w.scope.node, ast.FunctionDef) or not is_replaced(w, target.id):
        return None
    if (times := repeated(w, value)) is not None:
        count = ast.Name(f"{target.id}_at", ast.Store())
        found = times[0], count, ast.Call(ast.Constant(range), [times[1]], [])
    elif (found := comprehended(w, value, target.id)) is None:
        return None
    item, each, over = found
    w.scope.names.add(each.id)
    grow = ast.Expr(ast.Call(ast.Attribute(ast.Name(target.id, ast.Load()), "append", ast.Load()), [item], []))
    made: list = [ast.Assign([ast.Name(target.id, ast.Store())], ast.List([], ast.Load())), ast.For(each, over, [grow], [])]
    for s in made:
        for n in ast.walk(s):
            if not hasattr(n, "lineno"):
                ast.copy_location(n, value)
    return made
