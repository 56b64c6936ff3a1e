# SPDX-License-Identifier: Apache-2.0
"""Truth values, whose sum and complement are numbers in Python and truth values in NumPy:

    a = n > 1; b = n > 2; return a + b          2 in Python; of arrays `or`
"""
from __future__ import annotations

import ast
from typing import Any, Callable

from .known import Part
from .static import static_text


def assigned(function: Any) -> dict[str, list[Any]]:
    """Of names that a function binds by plain assignments alone, what it binds them to."""
    values: dict[str, list[Any]] = {}
    plain, others = set(), set()
    for n in ast.walk(function):
        targets = n.targets if isinstance(n, ast.Assign) else [n.target] if isinstance(n, (ast.AnnAssign, ast.NamedExpr)) else []
        for t in targets:
            if isinstance(t, ast.Name) and n.value is not None:
                values.setdefault(t.id, []).append(n.value)
                plain.add(t)
        if isinstance(n, ast.arg):
            others.add(n.arg)
    others |= {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load) and n not in plain}
    return {name: v for name, v in values.items() if name not in others}


class Truths(Part):
    """The part of the writer that knows them."""

    assigned: dict[int, dict[str, list[Any]]]  # by function

    def is_truth(self, node: Any, seen: frozenset = frozenset()) -> bool:
        """Whether an expression is written as a truth value, or as the name of one."""
        if isinstance(node, ast.Name):
            s = self.like(node)
            return s is not None and s.kind == "leaf" and s.of == ("bool", ()) or self.is_bound_to(node, self.is_truth, seen)
        if isinstance(node, ast.BoolOp):
            return all(self.is_truth(v, seen) for v in node.values)
        if isinstance(node, ast.Constant):
            return isinstance(node.value, bool)
        return isinstance(node, ast.Compare) or isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)

    def is_bound_to(self, node: ast.Name, test: Callable, seen: frozenset) -> bool:
        """Whether plain assignments alone bind a name, all to what a test holds of."""
        owner = self.scope.owner(node.id) if self.scope else None
        if owner is None or owner.node is None or node.id in owner.virtual or node.id in seen:
            return node.id in seen
        names = self.assigned.get(id(owner.node))
        if names is None:
            names = self.assigned[id(owner.node)] = assigned(owner.node)
        values = names.get(node.id, [])
        return bool(values) and all(test(v, seen | {node.id}) for v in values)

    def truths_added(self, node: ast.BinOp) -> str:
        """The sum of two truth values is 0, 1 or 2 in Python; of arrays it is `or`."""
        a, b, mark = self.fresh(), self.fresh(), self.mark(node)
        why = static_text(self, node, "TypeError: + of two truth values is a number in Python and `or` in NumPy; write int(a) + int(b), or a | b")
        return (f"(fn ({a}, {b}) {{ {mark}assert(len({a}.shape) + len({b}.shape) > 0, {why}); {a} {mark}+ {b} }})"
                f"({self.expr(node.left)}, {self.expr(node.right)})")

    def truth_inverted(self, node: ast.UnaryOp) -> str:
        """Of a truth value it is -1 or -2 in Python; of arrays `not`."""
        a, mark = self.fresh(), self.mark(node)
        why = static_text(self, node, "TypeError: ~ of a truth value is a number in Python and `not` in NumPy; write not a, or ~int(a)")
        return f"(fn ({a}) {{ {mark}assert(len({a}.shape) > 0, {why}); {mark}~{a} }})({self.expr(node.operand)})"
