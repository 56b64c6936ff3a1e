# SPDX-License-Identifier: Apache-2.0
"""Slices whose bounds a loop counts, x[:i] and x[i + 1:]: how many elements they have depends on values. A sum of them, a dot product
of two and an assignment to one are computed of all elements, of which those of the slice count:

    np.dot(a[i, :j], b[:j])      sum of where(arange(n) < j, a[i, :] * b[:], 0)
    y[:k] += s * np.flip(y[:k])  where(arange(n) < k, y + s * y[k - 1 - arange(n)], y)
"""
from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from .static import library_word

DOTS = {"dot", "inner", "vdot", "vecdot"}


class Window:
    """A slice along the one axis that a subscript leaves."""

    def __init__(self, node: ast.Subscript, k: int, cut: ast.Slice, flipped: bool) -> None:
        parts = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
        parts[k] = ast.copy_location(ast.Slice(None, None, None), node)
        whole = ast.copy_location(ast.Tuple(parts, ast.Load()), node) if isinstance(node.slice, ast.Tuple) else parts[0]
        self.row = ast.copy_location(ast.Subscript(node.value, whole, ast.Load()), node)
        self.ends = [e if e is not None else ast.copy_location(ast.Constant(None), node) for e in (cut.lower, cut.upper)]
        self.flipped = flipped


class Windowed:
    """The part of Writer for them."""

    if TYPE_CHECKING:
        def __getattr__(self, name: str) -> Any: ...

    def counted_names(self) -> set[str]:
        """Names that loops of the function change."""
        s = self.scope
        while s and not isinstance(s.node, ast.FunctionDef):
            s = s.outer
        if s is None:
            return set()
        if id(s.node) not in self.in_loops:
            loops = [n for n in ast.walk(s.node) if isinstance(n, (ast.For, ast.While))]
            names = {n.id for x in loops for n in ast.walk(x) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
            self.in_loops[id(s.node)] = s.node, names
        return self.in_loops[id(s.node)][1]

    def is_counted(self, end: Any) -> bool:
        names = self.counted_names()
        return end is not None and not self.static(end)[0] and any(isinstance(n, ast.Name) and n.id in names for n in ast.walk(end))

    def window(self, node: Any, flipped: bool = False) -> Window | None:
        """A subscript that leaves one axis, cut by counted bounds; x[i:i + 3] has a known length, and is another."""
        if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords and library_word(self, node) == "flip":
            return self.window(node.args[0], not flipped)
        if not isinstance(node, ast.Subscript):
            return None
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        cuts = [(k, p) for k, p in enumerate(parts) if isinstance(p, ast.Slice)]
        if len(cuts) != 1 or any(isinstance(p, (ast.List, ast.Starred)) or isinstance(p, ast.Constant) and not isinstance(p.value, int)
                                 for p in parts if not isinstance(p, ast.Slice)):
            return None
        k, cut = cuts[0]
        if cut.step is not None or not (self.is_counted(cut.lower) or self.is_counted(cut.upper)):
            return None
        if cut.lower is not None and cut.upper is not None and ast.dump(cut.lower) in ast.dump(cut.upper):
            return None
        return Window(node, k, cut, flipped)

    def windows_in(self, node: Any) -> list[Window]:
        found = self.window(node)
        if found is not None:
            return [found]
        if isinstance(node, ast.BinOp):
            return self.windows_in(node.left) + self.windows_in(node.right) if not isinstance(node.op, ast.MatMult) else []
        if isinstance(node, ast.UnaryOp):
            return self.windows_in(node.operand)
        if self.is_each(node):
            return [w for a in node.args for w in self.windows_in(a)]
        return []

    def is_each(self, node: Any) -> bool:
        return isinstance(node, ast.Call) and not node.keywords and type(self.static(node.func)[1]).__name__ == "ufunc"

    def each_of(self, node: Any, size: Any) -> Any:
        """An elementwise expression of windows and numbers, as one of arrays of that size."""
        found = self.window(node)
        if found is not None:
            return call(node, "window_values", [found.row, *found.ends, size], flipped=found.flipped)
        if isinstance(node, ast.BinOp) and not isinstance(node.op, ast.MatMult):
            return ast.copy_location(ast.BinOp(self.each_of(node.left, size), node.op, self.each_of(node.right, size)), node)
        if isinstance(node, ast.UnaryOp):
            return ast.copy_location(ast.UnaryOp(node.op, self.each_of(node.operand, size)), node)
        if self.is_each(node):
            return ast.copy_location(ast.Call(node.func, [self.each_of(a, size) for a in node.args], []), node)
        return node if self.static(node)[0] else call(node, "number_beside_window", [node])

    def windowed(self, node: Any) -> str | None:
        """A sum or a dot product of windows; None: it is something else."""
        if isinstance(node, ast.BinOp):
            sides = [node.left, node.right] if isinstance(node.op, ast.MatMult) else []
        elif node.keywords:
            return None
        else:
            word = library_word(self, node)
            sides = node.args if word in DOTS and len(node.args) == 2 or word == "sum" and len(node.args) == 1 else []
        of = [self.windows_in(s) for s in sides]
        if not of or not all(of):
            return None
        windows = [w for ws in of for w in ws]
        size = call(node, "shortest", [w.row for w in windows])
        parts = [self.each_of(s, size) for s in sides]
        product = parts[0] if len(parts) == 1 else ast.copy_location(ast.BinOp(parts[0], ast.Mult(), parts[1]), node)
        counts = [call(node, "window_count", [w.row, *w.ends]) for w in windows]
        return self.expr(call(node, "window_sum", [product, *counts]))

    def windowed_store(self, target: Any, value: Any) -> Any:
        """The row that an assignment to a window gives, and the subscript of all of it; None: the target is none."""
        to = self.window(target)
        if to is None:
            return None
        windows = self.windows_in(value)
        size = call(target, "shortest", [w.row for w in windows or [to]])
        counts = [call(target, "window_count", [w.row, *w.ends]) for w in windows]
        row = call(target, "window_stored", [to.row, *to.ends, self.each_of(value, size), *counts])
        return ast.copy_location(ast.Subscript(target.value, to.row.slice, ast.Store()), target), row


def call(node: Any, name: str, args: list, **constants: Any) -> Any:
    """A call of a function of the library."""
    from .._library.composed import HELPERS
    keywords = [ast.keyword(k, ast.Constant(v)) for k, v in constants.items()]
    return ast.fix_missing_locations(ast.copy_location(ast.Call(ast.Constant(HELPERS[name]), args, keywords), node))
