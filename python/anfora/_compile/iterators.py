# SPDX-License-Identifier: Apache-2.0
"""Iterators give their items once, and are no sequences: what reads one twice, takes a part of it or returns it is refused, for in
programs its items are a tuple."""
from __future__ import annotations

import ast
import types
from typing import Any

from .iterables import MADE
from .captures import changed_before_read
from .known import Part, Scope, is_structure
from .comprehensions import items_of_any
from .names import position
from .._ops import literal

KINDS = (map, zip, enumerate, reversed, *MADE)
_LATER = (ast.For, ast.While, ast.ListComp, ast.GeneratorExp, ast.DictComp, ast.FunctionDef, ast.Lambda)
LIST = "write list(...) where it is made"


class Iterators(Part):
    """The part of the writer for what can be gone through once."""

    def is_iterator(self, node: Any) -> str | None:
        """What kind of iterator an expression gives; None: it gives another thing."""
        if isinstance(node, ast.GeneratorExp):
            return "generator"
        if isinstance(node, ast.Name):
            owner: Scope | None = self.scope.owner(node.id) if self.scope else None
            return owner.iterators.get(node.id) if owner else None
        known, f = self.static(node.func) if isinstance(node, ast.Call) else (False, None)
        return f.__name__ if known and isinstance(f, (type, types.BuiltinFunctionType)) and f in KINDS else None

    def not_iterator(self, node: Any, what: str) -> None:
        kind = self.is_iterator(node)
        if kind:
            self.refuse(node, f"TypeError: a {kind} object {what}", LIST)

    def bind_iterator(self, name: str, node: Any) -> None:
        """`name` is an iterator from here on: it is read once before it is bound anew."""
        kind, of = self.is_iterator(node), self.scope.node
        self.scope.iterators.pop(name, None)
        if kind is None or of is None:
            return
        self.scope.iterators[name] = kind
        named = [n for n in ast.walk(of) if isinstance(n, ast.Name) and n.id == name]
        until = min((position(n) for n in named if isinstance(n.ctx, ast.Store) and position(n) > position(node)), default=None)
        reads = [n for n in named if isinstance(n.ctx, ast.Load) and position(n) > position(node) and (until is None or position(n) < until)]
        again = [n for n in reads[:1] if self.is_repeated(n, node, of)]
        for n in sorted(reads[1:] + again, key=position):
            self.refuse(n, f"{name} is a {kind} object, whose items are gone when they have been read once", LIST)
        change = changed_before_read(node, reads[0], of) if reads else None
        if change is not None:
            self.refuse(change, f"{change.id} changes here, which {name}, a {kind} object, would see when it is read", LIST)

    @staticmethod
    def is_repeated(read: Any, made: Any, of: Any) -> bool:
        """Whether a loop or a function reads what was made before it began."""
        for loop in (n for n in ast.walk(of) if isinstance(n, _LATER) and n is not of):
            parts = loop.body if isinstance(loop, (ast.For, ast.While, ast.FunctionDef)) else [loop.body] if isinstance(loop, ast.Lambda) else \
                [getattr(loop, "elt", None) or loop.key, *(t for g in loop.generators for t in g.ifs), *(g.iter for g in loop.generators[1:])]
            inside = {id(n) for p in parts for n in ast.walk(p)}
            if id(read) in inside and not position(loop) <= position(made) < (loop.end_lineno, loop.end_col_offset):
                return True
        return False

    def no_iterator_given(self, node: Any) -> None:
        """A result is no iterator."""
        for n in node.elts if isinstance(node, (ast.Tuple, ast.List)) else node.values if isinstance(node, ast.Dict) else [node]:
            if n is not None:
                self.not_iterator(n, "is no value of compiled functions")

    def listed(self, node: Any) -> str:
        """The items of an iterator as a tuple."""
        t = self.fresh()
        item: Any = ast.ListComp(ast.Name(t, ast.Load()), [ast.comprehension(ast.Name(t, ast.Store()), node, [], 0)])
        for n in (item, item.elt, item.generators[0].target):
            ast.copy_location(n, node)
        return self.expr(item)

    def items_text(self, node: Any) -> str:
        """The items of what *node goes through, as a tuple."""
        text = self.listed(node) if self.is_iterator(node) else self.looked_at(node) if is_structure(self.like(node)) else self.expr(node)
        return text if is_structure(self.like(node)) or self.gives_dims(node) else items_of_any(text)

    def membership(self, node: ast.Compare) -> str:
        items, right = self.sequence(node.comparators[0]), self.like(node.comparators[0])
        if items is None and len(node.ops) == 1 and (right is None or right.kind in ("leaf", "any", "stacked")) and not self.static(node.comparators[0])[0]:
            text = f"Reshape(Any{self.mark(node)}({self.scalar(node.left)} == {self.expr(node.comparators[0])}), ())"  # of an array
            return f"(not {text})" if isinstance(node.ops[0], ast.NotIn) else text
        if len(node.ops) > 1 or items is None:
            self.refuse(node, "in needs a tuple or list whose parts are known", "write x == 1 or x == 2, or np.any(xs == x)")
        if isinstance(node.left, ast.Attribute) and node.left.attr == "dtype":
            t = self.fresh()
            names = [literal(p[1:-1], "dtype") if p.startswith('"') else p for p in (self.item_text(node, i) for i in items)]
            text = f"(fn ({t}) {{ {' or '.join(f'{t} == {n}' for n in names) or 'false'} }})({self.expr(node.left)})"
        else:
            text = self.like_items(node, node.left, items, lambda same: " or ".join(f"({s})" for s in same) or "false")
        return f"(not {text})" if isinstance(node.ops[0], ast.NotIn) else text
