# SPDX-License-Identifier: Apache-2.0
"""x += v and x[i] += v: an array keeps its shape and its element type, as in NumPy, and must have no other name that is read after;
a number takes the type of the sum."""
from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from .effects import effect
from .known import is_structure
from .static import static_text
from .stores import given_by

_SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**", ast.MatMult: "@",
          ast.LShift: "<<", ast.RShift: ">>", ast.BitOr: "|", ast.BitXor: "^", ast.BitAnd: "&"}
LONG = 40  # of an expression that stands in a message
_NUMBERS = (bool, int, float, complex)


class Augmented:
    """The part of Writer for augmented assignments."""

    if TYPE_CHECKING:
        def __getattr__(self, name: str) -> Any: ...

    def stmt_AugAssign(self, node: ast.AugAssign, indent: str) -> str:
        at = ast.copy_location(type(node.target)(**{k: v for k, v in ast.iter_fields(node.target) if k != "ctx"}, ctx=ast.Load()), node.target)
        shape = self.like(at)
        if isinstance(node.target, ast.Name) and shape is not None and isinstance(node.op, ast.Add) and \
                (shape.kind == "list" or shape.kind == "mapped" and shape.names == ("list",) and self.entry(node.target.id).own):
            extend = ast.Call(ast.Attribute(at, "extend", ast.Load()), [node.value], [])
            return self.grow(ast.fix_missing_locations(ast.copy_location(extend, node)), indent)
        value = ast.copy_location(ast.BinOp(at, node.op, node.value), node)
        if self.grid_at(node.target) is not None:
            return self.assign(node.target, value, node, indent)
        if isinstance(node.target, ast.Subscript) and self.of_parts(at, value, shape):  # an item of a list or dictionary may be an array
            return self.store(node.target, value, indent, self.kept(node, self.expr(at), self.expr(value)))
        if is_structure(shape) or is_structure(self.like(value)) or self.is_number(node, at):
            return self.assign(node.target, value, node, indent)
        if isinstance(node.target, ast.Subscript):
            of = self.like(node.target.value)
            if is_structure(of) or of is not None and of.kind == "stacked" or not isinstance(node.target.value, ast.Name):
                return self.assign(node.target, value, node, indent)
            if self.window(node.target) is not None:
                return self.assign(node.target, value, node, indent)
            masked = self.masked(node.target, value)
            if masked is not None:
                return self.store_elements(node.target, "", indent, masked)
            return self.store_elements(node.target, self.kept(node, self.expr(at), self.expr(value)), indent)
        text = self.kept(node, self.expr(at), self.expr(value))
        return f"{indent}{self.mark(node)}{self.target(node.target)} = {text}\n"

    def of_parts(self, at: ast.Subscript, value: Any, shape: Any) -> bool:
        """Whether an item of a list or dictionary of the function is no text and has no parts."""
        of = self.like(at.value)
        return is_structure(of) and of.kind in ("list", "dict") and isinstance(at.value, ast.Name) and self.is_local(at.value.id) and \
            not is_structure(shape) and not is_structure(self.like(value)) and not self.static(at)[0] and (shape is None or shape.kind in ("leaf", "any"))

    def is_number(self, node: ast.AugAssign, at: Any) -> bool:
        """Whether a name counts: it is known, or all that it is bound to and all that is added are constants."""
        if not isinstance(node.target, ast.Name):
            return False
        if self.static(at)[0]:
            return True
        of, name = self.scope.node, node.target.id
        if not hasattr(of, "body") or isinstance(of, ast.Lambda) or not self.is_local(name):
            return False
        bound = [n for n in ast.walk(of) if isinstance(n, (ast.Assign, ast.AugAssign)) and
                 any(isinstance(t, ast.Name) and t.id == name for t in getattr(n, "targets", None) or [n.target])]
        stores = [n for n in ast.walk(of) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store)]
        return len(stores) == len(bound) and name not in {a.arg for a in self.parameters_of(of.args)} and \
            all(isinstance(n.value, ast.Constant) and isinstance(n.value.value, _NUMBERS) for n in bound)

    def seen_by(self, change: Any) -> str | None:
        """A name that would see a change in the function that is written."""
        stores = self.stores()
        return min(stores.seen.found.get(id(change), set()), default=None) if stores else None

    def may_change(self, call: Any) -> None:
        """Refuses a call that changes what it is given, where the function must not change that."""
        stores = self.stores()
        lists = self.gives_lists(call)
        for name in lists:
            self.may_change_list(call, name)
        targets = [t.id for t in stores.parents[id(call)].targets[0].elts[1:] if t.id not in lists] if id(call) in stores.parents else []
        for why in filter(None, map(stores.refused.get, targets)):
            self.refuse(why[0] or call, why[1], why[2])
        if targets or not lists or effect(given_by(call).fn).items:
            self.seen_by_none(call, ast.unparse(call.args[0]) if call.args else "an array")

    def seen_by_none(self, change: Any, what: str) -> None:
        other = self.seen_by(change)
        if other is not None:
            self.refuse(change, f"{what} changes in place here, which {other} would see", f"bind {other} to a copy, x.copy()")

    def added_within(self, name: str) -> Any:
        """The parameters that a function within changes by x += v."""
        stores = self.stores()
        return stores.seen.within_added.get(name, ()) if stores else ()

    def unchanged(self, call: Any, added: Any, name: str, node: Any) -> str:
        """An argument of a function that changes these by x += v: a number, where another name would see the change of an array."""
        text = self.expr(node)
        if name not in added:
            return text
        stores = self.stores()
        other = self.seen_by(call) or (min(stores.seen.handed.get(id(call), ()), default=None) if stores else None)
        if other is None:
            return text
        if is_structure(self.like(node)):
            self.refuse(call, f"{ast.unparse(call.func)} changes a part of {name} in place, by +=, which {other} would see", "write a = a + ... there")
        t, called = self.fresh(), ast.unparse(call.func)
        why = static_text(self, call, f"TypeError: {called} changes {name} in place, which {other} would see; write {name} = {name} + ... there, or copy before")
        return f"(fn ({t}) {{ {self.mark(call)}assert(len({t}.shape) == 0, {why}); {t} }})({text})"

    def kept(self, node: ast.AugAssign, old: str, new: str) -> str:
        """The new value in the shape and element type of the old one, which is refused where Python refuses it."""
        from .._library.composed import HELPERS
        from .source import emit_function
        sign, target, what = _SIGNS[type(node.op)], ast.unparse(node.target), ast.unparse(node.value)
        what = what if len(what) <= LONG else "..."
        instead = f"{target} = {target} {sign} {what}"
        kind = emit_function(self.b, HELPERS["element_kind"].__wrapped__)
        a, b, mark = self.fresh(), self.fresh(), self.mark(node)
        tests = [(f"{kind}({b}) <= {kind}({a})", f"TypeError: {target} {sign}= {what} makes other numbers than the array has, which changes in place; write {instead}")]
        other = self.seen_by(node) or (self.seen_by(node.target) if isinstance(node.target, ast.Subscript) else None)
        if other is not None:
            tests.append(("false", f"TypeError: {target} {sign}= {what} changes an array in place, which {other} would see; write {instead}, or copy before"))
        checks = " ".join(f"{mark}assert({test}, {static_text(self, node, why)});" for test, why in tests)
        return f"(fn ({a}, {b}) {{ if len({a}.shape) == 0 {{ {b} }} else {{ {checks} BroadcastLike(CastLike({b}, {a}), {a}) }} }})({old}, {new})"
