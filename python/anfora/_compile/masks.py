# SPDX-License-Identifier: Apache-2.0
"""x[mask] = f(y[mask]): how many elements there are depends on values, but each is made of one of y, so all are made and those
of the mask taken. Where the mask is false y is 1, so that what is computed there has a derivative."""
from __future__ import annotations

import ast
import copy
from typing import TYPE_CHECKING, Any
from .static import library_word
from .windows import call

_CHOOSES = (ast.Name, ast.Compare, ast.BinOp, ast.UnaryOp, ast.Call)  # what a mask is written as


_OBJECTS = (ast.In, ast.NotIn, ast.Is, ast.IsNot)
_SCOPES = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.NamedExpr)  # which may bind x anew
_SIMPLE = (ast.Assign, ast.AugAssign, ast.Return, ast.Expr)
_REDUCED = {n: n for n in ("sum", "mean", "prod", "max", "min", "any", "all", "std", "var", "len")} | {"amax": "max", "amin": "min"}


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
        reads = [n for n in self.reads(value) if ast.dump(n.slice) == key]
        return self.each(value, key) if reads else None

    def each(self, node: Any, key: str) -> Any:
        """An elementwise expression with all elements in place of those of a mask."""
        if isinstance(node, ast.Subscript) and ast.dump(node.slice) == key:
            return call(node, "ones_outside", [node.value, node.slice])
        if self.static(node)[0]:
            return node
        parts = [self.each(p, key) for p in self.each_part(node)]
        if isinstance(node, ast.BinOp) and parts:
            return ast.copy_location(ast.BinOp(parts[0], node.op, parts[1]), node)
        if isinstance(node, ast.Compare) and parts:
            return ast.copy_location(ast.Compare(parts[0], node.ops, parts[1:]), node)
        if isinstance(node, ast.UnaryOp) and parts:
            return ast.copy_location(ast.UnaryOp(node.op, parts[0]), node)
        if isinstance(node, ast.Call) and parts:
            return ast.copy_location(ast.Call(node.func, parts, []), node)
        return call(node, "number_beside_mask", [node])

    def reduced(self, node: ast.Call) -> str | None:
        """A sum or such of x[mask], as one of all elements that the mask chooses; None: it is something else."""
        method = isinstance(node.func, ast.Attribute) and not self.static(node.func)[0]
        name = node.func.attr if method else "len" if self.static(node.func) == (True, len) else library_word(self, node)
        of, *more = [node.func.value, *node.args] if method else node.args or [None]
        mask = self.mask_read(of) if name in _REDUCED and id(node) not in self.plain else None
        axis = more[0] if len(more) == 1 else next((k.value for k in node.keywords), ast.Constant(None))
        known, k = self.static(axis)
        if mask is None or len(more) + len(node.keywords) > 1 or any(w.arg != "axis" for w in node.keywords) or not known or k not in (None, 0):
            return None
        value = of.value if isinstance(of, ast.Subscript) else self.each(of, ast.dump(mask))
        by_mask = self.expr(call(node, "reduced_of_mask", [value, mask], how=_REDUCED[name], axis=0 if name == "len" else k))
        if isinstance(mask, ast.Compare):
            return by_mask
        self.plain.add(id(node))
        return f"(if {self.expr(mask)}.dtype == bool {{ {by_mask} }} else {{ {self.expr(node)} }})"

    def counts_mask(self, node: ast.Subscript) -> bool:
        """Whether it is an x[mask] whose size is counted; of x[mask][i], which starts at the same place, the first part is."""
        within = isinstance(node.value, ast.Subscript) and self.is_mask(node.value.slice)
        at = self.place(node)
        return (at.file, at.line, at.col) in self.b.picks and self.is_mask(node.slice) and not within

    def places_in_tuple(self, node: ast.Subscript) -> ast.Subscript:
        """x[:, mask], whose size is counted, by the places of what is true."""
        def is_counted(e: Any) -> bool:
            at = self.place(e)
            return self.is_mask(e) and (whole or (at.file, at.line, at.col) in self.b.picks)

        at = self.place(node)
        whole = (at.file, at.line, at.col) in self.b.picks
        if not isinstance(node.slice, ast.Tuple) or not any(map(is_counted, node.slice.elts)):
            return node
        parts = [call(e, "places_or_index", [e]) if is_counted(e) else e for e in node.slice.elts]
        return ast.copy_location(ast.Subscript(node.value, ast.copy_location(ast.Tuple(parts, ast.Load()), node.slice), node.ctx), node)

    def mask_read(self, of: Any) -> Any:
        """The mask by which an expression reads elements, if there is one."""
        found = {ast.dump(n.slice): n.slice for n in self.reads(of)}
        return next(iter(found.values())) if len(found) == 1 else None

    def reads(self, node: Any) -> list[ast.Subscript]:
        """Subscripts that may be by masks, of which an expression is made element by element."""
        if isinstance(node, ast.Subscript):
            at = isinstance(node.value, ast.Attribute) and node.value.attr == "at"
            return [node] if self.is_mask(node.slice) and not at else []
        return [n for part in self.each_part(node) for n in self.reads(part)]

    def each_part(self, node: Any) -> list:
        """The operands of an elementwise operation."""
        if isinstance(node, ast.BinOp):
            return [node.left, node.right] if not isinstance(node.op, ast.MatMult) else []
        if isinstance(node, ast.Compare):
            return [node.left, *node.comparators] if len(node.ops) == 1 and not isinstance(node.ops[0], _OBJECTS) else []
        if isinstance(node, ast.UnaryOp):
            return [node.operand] if not isinstance(node.op, ast.Not) else []
        return node.args if isinstance(node, ast.Call) and not node.keywords and type(self.static(node.func)[1]).__name__ == "ufunc" else []

    def is_mask(self, index: Any) -> bool:
        """Whether an index may be a mask, by how it is written."""
        if isinstance(index, ast.BinOp) and not isinstance(index.op, (ast.BitAnd, ast.BitOr, ast.BitXor)):
            return False
        return isinstance(index, _CHOOSES) and not self.static(index)[0]

    def masked(self, target: Any, value: Any) -> str | None:
        """The array with those elements written, if the index is a mask; else what the index writes."""
        whole = self.of_all(target, value)
        if whole is None:
            return None
        array, mask = self.local(target.value.id), self.expr(target.slice)
        written = self.expr(call(target, "at_mask_each", [target.value, target.slice, whole]))
        if isinstance(target.slice, ast.Compare):
            return written
        from .static import written_at
        rows = written_at(self, target, target, self.expr(value), "update", array, masks=False)
        return f"(if {mask}.dtype == bool {{ {written} }} else {{ {rows} }})"


def reduced_name(node: Any) -> str | None:
    """v of v.mean(), np.mean(v) and len(v)."""
    if not isinstance(node, ast.Call):
        return None
    f = node.func
    word = f.attr if isinstance(f, ast.Attribute) else getattr(f, "id", "")
    of = node.args[0] if node.args else f.value if isinstance(f, ast.Attribute) else None
    return of.id if word in _REDUCED and isinstance(of, ast.Name) else None


def is_read_at_once(first: Any, then: Any, uses: dict[str, list]) -> bool:
    """Whether v = x[mask] is read by the next statement alone, by reductions alone: nothing else that the statement calls may change x
    before. A mask that a call makes, such as one of random numbers, is made once."""
    if not isinstance(first, ast.Assign) or len(first.targets) != 1 or not isinstance(then, _SIMPLE):
        return False
    target, value = first.targets[0], first.value
    if not isinstance(target, ast.Name) or not isinstance(value, ast.Subscript) or not isinstance(value.value, ast.Name) or not isinstance(value.slice, _CHOOSES):
        return False
    calls = [n for n in ast.walk(then) if isinstance(n, ast.Call)]
    reads = [n for n in calls if reduced_name(n) == target.id]
    if any(isinstance(n, _SCOPES) for n in ast.walk(then)) or len(reads) > 1 and any(isinstance(n, ast.Call) for n in ast.walk(value)):
        return False
    return bool(reads) and len(uses[target.id]) == 1 + len(reads) and len(calls) == len(reads)


class _ReadAtOnce(ast.NodeTransformer):
    """The value in place of a name."""

    def __init__(self, name: str, value: Any) -> None:
        self.name, self.value = name, value

    def visit_Name(self, node: ast.Name) -> Any:
        return copy.deepcopy(self.value) if node.id == self.name else node


def without_chosen(function: Any) -> Any:
    """v = x[mask]; m = v.mean() as m = x[mask].mean(), whose size does not depend on the mask."""
    def suites(tree: Any) -> list[list]:
        return [s for n in ast.walk(tree) for s in (getattr(n, "body", None), getattr(n, "orelse", None)) if isinstance(s, list)]

    uses: dict[str, list] = {}
    for n in ast.walk(function):
        names = [n.id] if isinstance(n, ast.Name) else [n.arg] if isinstance(n, ast.arg) else n.names if isinstance(n, (ast.Global, ast.Nonlocal)) else []
        for name in names:
            uses.setdefault(name, []).append(n)
    if not any(is_read_at_once(a, b, uses) for s in suites(function) for a, b in zip(s, s[1:])):
        return function
    function = copy.deepcopy(function)
    for suite in suites(function):
        for k in range(len(suite) - 2, -1, -1):
            if is_read_at_once(suite[k], suite[k + 1], uses):
                suite[k:k + 2] = [_ReadAtOnce(suite[k].targets[0].id, suite[k].value).visit(suite[k + 1])]
    return function
