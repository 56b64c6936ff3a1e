# SPDX-License-Identifier: Apache-2.0
"""x[mask] = f(y[mask]): how many elements there are depends on values, but each is made of one of y, so all are made and those
of the mask taken. Where the mask is false y is 1, so that what is computed there has a derivative."""
from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any
from .windows import call

_CHOOSES = (ast.Name, ast.Compare, ast.BinOp, ast.UnaryOp, ast.Call)  # what a mask is written as


class Masked:
    """The part of Writer for them."""

    if TYPE_CHECKING:
        def __getattr__(self, name: str) -> Any: ...

    def of_all(self, target: Any, value: Any) -> Any:
        """The value for all elements, of which the mask of the target chooses; None: it does not read elements by that mask."""
        mask = target.slice
        if not isinstance(mask, _CHOOSES) or isinstance(mask, ast.Name) and self.static(mask)[0]:
            return None
        key = ast.dump(mask)
        reads = [n for n in ast.walk(value) if isinstance(n, ast.Subscript) and ast.dump(n.slice) == key]
        return self.each(value, key) if reads else None

    def each(self, node: Any, key: str) -> Any:
        """An elementwise expression with all elements in place of those of a mask; None: it is another expression."""
        if isinstance(node, ast.Subscript) and ast.dump(node.slice) == key:
            return call(node, "ones_outside", [node.value, node.slice])
        if isinstance(node, ast.BinOp) and not isinstance(node.op, ast.MatMult):
            parts = [self.each(node.left, key), self.each(node.right, key)]
            return None if None in parts else ast.copy_location(ast.BinOp(parts[0], node.op, parts[1]), node)
        if isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.Not):
            part = self.each(node.operand, key)
            return None if part is None else ast.copy_location(ast.UnaryOp(node.op, part), node)
        if isinstance(node, ast.Call) and not node.keywords and type(self.static(node.func)[1]).__name__ == "ufunc":
            parts = [self.each(a, key) for a in node.args]
            return None if None in parts else ast.copy_location(ast.Call(node.func, parts, []), node)
        if self.static(node)[0]:
            return node
        return call(node, "number_beside_mask", [node])

    def masked(self, target: Any, value: Any) -> str | None:
        """The array with those elements written, if the index is a mask; else what the index writes."""
        whole = self.of_all(target, value)
        if whole is None:
            return None
        array, mask = self.local(target.value.id), self.expr(target.slice)
        written = self.expr(call(target, "at_mask_each", [target.value, target.slice, whole]))
        if not isinstance(target.slice, ast.Name):
            return written
        from .static import written_at
        rows = written_at(self, target, target, self.expr(value), "update", array, masks=False)
        return f"(if {mask}.dtype == bool {{ {written} }} else {{ {rows} }})"
