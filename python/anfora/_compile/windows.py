# SPDX-License-Identifier: Apache-2.0
"""Slices whose bounds a loop counts, x[:i] and x[i + 1:]: how many elements they have depends on values. A sum of them, a product
of two and an assignment to one are computed of all elements, of which those of the slice count:

    np.dot(a[i, :j], b[:j])      sum of where(arange(n) < j, a[i, :] * b[:], 0)
    y[:k] += s * np.flip(y[:k])  where(arange(n) < k, y + s * y[k - 1 - arange(n)], y)
    v @ a[:, i:]                 (v @ a)[i:]
"""
from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from .containers import is_copy
from .static import library_word

PRODUCTS = {"dot", "matmul"}
DOTS = {"inner": "window_dot", "vdot": "window_vdot", "vecdot": "window_vdot"}  # of vectors


class Window:
    """A slice along one axis of an array, start:stop. The axis is counted among those of `row`, the array without the slice."""

    def __init__(self, row: Any, axis: int, ends: list, flipped: bool = False) -> None:
        self.row, self.axis, self.ends, self.flipped = row, axis, ends, flipped

    def count(self) -> Any:
        return call(self.row, "window_count", [self.row, *self.ends], axis=self.axis)

    def size(self) -> Any:
        return call(self.row, "window_size", [self.row, number(self.row, self.axis)])

    def from_last(self) -> Any:
        return call(self.row, "window_axis", [self.row, number(self.row, self.axis)])


class Windowed:
    """The part of Writer for them."""

    if TYPE_CHECKING:
        def __getattr__(self, name: str) -> Any: ...

    def function_scope(self) -> Any:
        s = self.scope
        while s and not isinstance(s.node, ast.FunctionDef):
            s = s.outer
        return s

    def counted_names(self) -> set[str]:
        """Names that loops of the function change."""
        s = self.function_scope()
        if s is None:
            return set()
        if id(s.node) not in self.in_loops:
            loops = [n for n in ast.walk(s.node) if isinstance(n, (ast.For, ast.While))]
            names = {n.id for x in loops for n in ast.walk(x) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
            self.in_loops[id(s.node)] = s.node, names
        return self.in_loops[id(s.node)][1]

    def has_counted_slice(self, node: Any) -> bool:
        return any(isinstance(n, ast.Slice) and (self.is_counted(n.lower) or self.is_counted(n.upper)) or
                   isinstance(n, ast.Name) and self.named(n) is not n and self.has_counted_slice(self.named(n)) for n in ast.walk(node))

    def has_no_effect(self, node: Any) -> bool:
        """Whether an expression may be written more than once: it calls functions of libraries only, and binds no name."""
        return not any(isinstance(n, (ast.NamedExpr, ast.Lambda, ast.Await, ast.Yield, ast.YieldFrom)) or
                       isinstance(n, ast.Call) and library_word(self, n) is None and not is_copy(n) and not self.is_each(n) for n in ast.walk(node))

    def named(self, node: Any) -> Any:
        """The slice that a name stands for, t = x[:i], if nothing that it reads changes while the name is read."""
        if not isinstance(node, ast.Name) or not (s := self.function_scope()):
            return node
        if id(s.node) not in self.slice_names:
            self.slice_names[id(s.node)] = s.node, named_slices(s.node)
        value, statements = self.slice_names[id(s.node)][1].get(node.id, (None, []))
        return value if value is not None and all(map(self.has_no_effect, statements)) else node

    def is_counted(self, end: Any) -> bool:
        names = self.counted_names()
        return end is not None and not self.static(end)[0] and any(isinstance(n, ast.Name) and n.id in names for n in ast.walk(end))

    def window(self, node: Any, flipped: bool = False) -> Window | None:
        """A subscript cut by counted bounds along one axis, or a product with one; x[i:i + 3] has a known length, and is another."""
        node = self.named(node)
        if isinstance(node, ast.Call) and is_copy(node):
            return self.window(node.func.value, flipped)
        if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords and library_word(self, node) == "flip":
            return self.window(node.args[0], not flipped)
        if not isinstance(node, ast.Subscript):
            return self.window_of_product(node) if not flipped else None
        parts = parts_of(node)
        cuts = [(k, p) for k, p in slices(node) if any(self.is_counted(e) for e in (p.lower, p.upper))]
        if len(cuts) != 1 or any(isinstance(p, (ast.List, ast.Starred)) or isinstance(p, ast.Constant) and not isinstance(p.value, int)
                                 for p in parts if not isinstance(p, ast.Slice)):
            return None
        k, cut = cuts[0]
        if cut.step is not None or cut.lower is not None and cut.upper is not None and ast.dump(cut.lower) in ast.dump(cut.upper):
            return None
        parts[k] = ast.copy_location(ast.Slice(None, None, None), node)
        whole = ast.copy_location(ast.Tuple(parts, ast.Load()), node) if isinstance(node.slice, ast.Tuple) else parts[0]
        ends = [e if e is not None else ast.copy_location(ast.Constant(None), node) for e in (cut.lower, cut.upper)]
        return Window(ast.copy_location(ast.Subscript(node.value, whole, ast.Load()), node), sum(j < k for j, _ in slices(node)), ends, flipped)

    def window_of_product(self, node: Any) -> Window | None:
        """a @ b[:, i:] is a slice of a @ b, and so is a[i:] @ b."""
        a, b = self.factors(node) or (None, None)
        if a is None:
            return None
        left, right = self.window(a), self.window(b)
        of, other = (left, b) if left else (right, a)
        if of is None or of.flipped or self.has_counted_slice(other) or not (self.has_no_effect(a) and self.has_no_effect(b)):
            return None
        if left:
            return Window(call(node, "product_of_rows", [of.row, b, number(node, of.axis)]), of.axis, of.ends)
        return Window(call(node, "product_of_columns", [a, of.row, number(node, of.axis)]), -1, of.ends)

    def factors(self, node: Any) -> Any:
        """Of a product of matrices or vectors."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            return node.left, node.right
        product = isinstance(node, ast.Call) and len(node.args) == 2 and not node.keywords and library_word(self, node) in PRODUCTS
        return node.args if product else None

    def windows_in(self, node: Any) -> list[Window]:
        node = self.named(node)
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
        return isinstance(node, ast.Call) and not node.keywords and type(self.static(node.func)[1]).__name__ == "ufunc" and not self.factors(node)

    def each_of(self, node: Any, size: Any, axis: Any) -> Any:
        """An elementwise expression of windows along an axis and of what has no such axis, as one of arrays of that size."""
        node = self.named(node)
        found = self.window(node)
        if found is not None:
            return call(node, "window_values", [found.row, *found.ends, size], axis=found.axis, flipped=found.flipped)
        if isinstance(node, ast.BinOp) and not isinstance(node.op, ast.MatMult):
            sides = [self.each_of(e, size, axis) for e in (node.left, node.right)]
            return ast.copy_location(ast.BinOp(sides[0], node.op, sides[1]), node)
        if isinstance(node, ast.UnaryOp):
            return ast.copy_location(ast.UnaryOp(node.op, self.each_of(node.operand, size, axis)), node)
        if self.is_each(node):
            return ast.copy_location(ast.Call(node.func, [self.each_of(a, size, axis) for a in node.args], []), node)
        known, x = self.static(node)
        return node if known and isinstance(x, (bool, int, float, complex)) else call(node, "beside_window", [node, axis])

    def windowed(self, node: Any) -> str | None:
        """A sum or a product of windows; None: it is something else."""
        sides, helper = self.factors(node), "window_product"
        if sides is None and isinstance(node, ast.Call) and not node.keywords:
            helper = (DOTS if len(node.args) == 2 else {"sum": "window_sum"}).get(library_word(self, node), "")
            sides = node.args if helper else []
        of = [self.windows_in(s) for s in sides or []]
        if not of or not all(of):
            return None
        windows = [w for ws in of for w in ws]
        size = call(node, "shortest", [w.size() for w in windows])
        axes = [call(node, "same_axis", [w.from_last() for w in ws]) for ws in of]
        values = [self.each_of(s, size, axis) for s, axis in zip(sides, axes)]
        return self.expr(call(node, helper, [*values, *axes, *(w.count() for w in windows)]))

    def windowed_store(self, target: Any, value: Any) -> Any:
        """The array that an assignment to a window gives, and the subscript of all of it; None: the target is none."""
        to = self.window(target)
        if to is None:
            return None
        windows = self.windows_in(value)
        size = call(target, "shortest", [w.size() for w in windows or [to]])
        axis = call(target, "same_axis", [w.from_last() for w in windows or [to]])
        row = call(target, "window_stored", [to.row, *to.ends, self.each_of(value, size, axis), to.from_last(), axis, *(w.count() for w in windows)])
        return ast.copy_location(ast.Subscript(target.value, to.row.slice, ast.Store()), target), row

    def stores_window_alone(self, node: ast.Assign) -> bool:
        """Whether a[i:] = b[i:] = v is a[i:] = v; b[i:] = v: v reads neither a nor b."""
        changed = {n.value.id for n in node.targets if isinstance(n, ast.Subscript) and isinstance(n.value, ast.Name)}
        read = {n.id for part in (node.value, *(t.slice for t in node.targets if isinstance(t, ast.Subscript)))
                for n in ast.walk(part) if isinstance(n, ast.Name)}
        plain = all(isinstance(t, ast.Subscript) and isinstance(t.value, ast.Name) for t in node.targets) and self.has_no_effect(node)
        return plain and not changed & read and any(map(self.window, node.targets)) and bool(self.windows_in(node.value))


def changed_by(statement: Any) -> set[str]:
    """Names that a statement binds, and those whose parts it changes."""
    found = set()
    for n in ast.walk(statement):
        if isinstance(getattr(n, "ctx", None), (ast.Store, ast.Del)):
            while isinstance(n, (ast.Subscript, ast.Attribute, ast.Starred)):
                n = n.value
            found |= {n.id} if isinstance(n, ast.Name) else set()
    return found


def named_slices(function: Any) -> dict[str, tuple[Any, list]]:
    """Names that are bound once, to what has slices: the value, and the statements from there to the last that reads the name. None of them
    changes what the value is computed of, but the last may after it has read."""
    names = [n for n in ast.walk(function) if isinstance(n, ast.Name)]
    found = {}
    for block in (b for n in ast.walk(function) for b in (getattr(n, "body", None), getattr(n, "orelse", None)) if isinstance(b, list)):
        for k, (target, value) in ((k, pair) for k, s in enumerate(block) for pair in bindings(s)):
            if not any(isinstance(n, ast.Slice) for n in ast.walk(value)):
                continue
            own = [n for n in names if n.id == target.id]
            last = max((j for j in range(k, len(block)) if any(n in own for n in ast.walk(block[j]))), default=k)
            within = {id(n) for s in block[k:last + 1] for n in ast.walk(s)}
            read = {n.id for n in ast.walk(value) if isinstance(n, ast.Name)}
            others = (changed_by(block[k]) - {target.id}) & read
            simple = isinstance(block[last], (ast.Assign, ast.AugAssign, ast.Return)) and len(getattr(block[last], "targets", [0])) == 1
            between = block[k + 1:last + (not simple)]
            if sum(isinstance(n.ctx, ast.Store) for n in own) == 1 and all(id(n) in within for n in own) and target.id not in read and not others and \
                    not any(read & changed_by(s) for s in between):
                found[target.id] = value, block[k:last + 1]
    return found


def bindings(s: Any) -> list[tuple[Any, Any]]:
    """The names that an assignment binds, and what to."""
    if not isinstance(s, ast.Assign) or len(s.targets) != 1:
        return []
    target, value = s.targets[0], s.value
    apart = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts)
    return [(t, v) for t, v in (zip(target.elts, value.elts) if apart else [(target, value)]) if isinstance(t, ast.Name)]


def parts_of(node: ast.Subscript) -> list:
    return list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]


def slices(node: ast.Subscript) -> list:
    return [(k, p) for k, p in enumerate(parts_of(node)) if isinstance(p, ast.Slice)]


def number(node: Any, value: int) -> Any:
    return ast.copy_location(ast.Constant(value), node)


def call(node: Any, name: str, args: list, **constants: Any) -> Any:
    """A call of a function of the library."""
    from .._library.composed import HELPERS
    keywords = [ast.keyword(k, ast.Constant(v)) for k, v in constants.items()]
    return ast.fix_missing_locations(ast.copy_location(ast.Call(ast.Constant(HELPERS[name]), args, keywords), node))
