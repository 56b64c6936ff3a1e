# SPDX-License-Identifier: Apache-2.0
"""Hints for results: which tuples of a program are lists, which records dictionaries or objects of Python. A hint is (kind, hints of
the parts), the parts None if nothing is known of them; None: nothing is known."""
from __future__ import annotations

import ast
import types
from typing import Any

from .builtins import class_made
from .known import MOST_PARTS, Part, Scope, gives_list
from .loops import bound_names
from .._errors import CompileError
from .._tree import Shape


def joined_hints(hints: list) -> Any:
    """What several ways give: (kind, hints of the items or None), None if it is not known or they differ. Ways of which
    nothing is known, such as calls of the function itself, give what the others do."""
    known = [h for h in hints if h is not None]
    if not known or any(h[0] != known[0][0] for h in known):
        return None
    inside = [h[1] for h in known]
    if any(x is None for x in inside):
        return known[0][0], None
    n = min(map(len, inside))
    return known[0][0], [joined_hints([x[i] for x in inside]) if any(x[i] is not inside[0][i] for x in inside) else inside[0][i]
                         for i in range(n)]


def filled_hint(one: Any, other: Any) -> Any:
    """What both say of the same value: the parts of which one says nothing are those of the other."""
    if one is None or other is None or one[0] != other[0]:
        return other if one is None else one
    if one[1] is None or other[1] is None:
        return one[0], other[1] if one[1] is None else one[1]
    n = max(len(one[1]), len(other[1]))
    a, b = ([*h[1], *[None] * (n - len(h[1]))] for h in (one, other))
    return one[0], [filled_hint(x, y) for x, y in zip(a, b)]


def repeated_hint(kind: str, item: Any) -> Any:
    """Of something with any number of parts that are alike."""
    return kind, [item] * MOST_PARTS if item is not None else None


def mixed_hint(hints: list) -> Any:
    """Of what takes parts of several lists or tuples, in any order."""
    known = [h for h in hints if h is not None]
    if not known or any(h[0] != known[0][0] for h in known):
        return None
    parts = [part for h in known for part in (h[1] or [None])]
    return repeated_hint(known[0][0], None if None in parts else joined_hints(parts))


def shape_hint(s: Shape | None) -> Any:
    if s is None:
        return None
    if s.kind == "mapped":
        return repeated_hint(s.names[0] if s.names else "list", shape_hint(s.of))
    if s.kind == "static":
        return value_hint(s.of)
    if s.kind == "hinted":
        return s.of
    if s.kind == "object" or s.kind == "dict" and s.of is not None:
        return s.of, list(map(shape_hint, s.parts))
    return (s.kind, list(map(shape_hint, s.parts))) if s.kind in ("list", "tuple", "dict") else None


def value_hint(x: Any) -> Any:
    """Of a constant."""
    if type(x) in (list, tuple):
        return type(x).__name__, list(map(value_hint, x))
    return ("dict", list(map(value_hint, x.values()))) if type(x) is dict else None


def nodes_of(function: Any) -> Any:
    """The nodes of a function without those of functions within it, whose names are their own."""
    waiting = list(ast.iter_child_nodes(function))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
            waiting += ast.iter_child_nodes(node)


class Hints(Part):
    """The part of the writer that says what a function returns."""

    def structure(self, node: Any) -> Any:
        """The hint for a result: what the text shows, then what is known of its names."""
        if isinstance(node, (ast.Tuple, ast.List)):
            if any(isinstance(e, ast.Starred) for e in node.elts):
                return shape_hint(self.like(node)) or ("list" if isinstance(node, ast.List) else "tuple", None)
            return ("list" if isinstance(node, ast.List) else "tuple", [self.structure(e) for e in node.elts])
        if isinstance(node, ast.Dict) and all(k is not None and self.static(k)[0] for k in node.keys):
            return "dict", [self.structure(v) for v in {self.static(k)[1]: v for k, v in zip(node.keys, node.values)}.values()]
        if isinstance(node, (ast.ListComp, ast.DictComp)):
            kind, within = "dict" if isinstance(node, ast.DictComp) else "list", self.structure_within(node)
            return repeated_hint(kind, within) if within is not None else shape_hint(self.like(node)) or (kind, None)
        if isinstance(node, ast.BoolOp):
            return joined_hints([self.structure(n) for n in self.remaining(node)])
        if isinstance(node, ast.IfExp):
            known, test = self.decided(node.test)
            ways = [node.body if test else node.orelse] if known else [node.body, node.orelse]
            return joined_hints([self.structure(n) for n in ways])
        if isinstance(node, ast.Call):
            return self.structure_called(node)
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) or isinstance(node, ast.BinOp):
            sides = [node.value] if isinstance(node, ast.Subscript) else [node.left, node.right]
            return shape_hint(self.like(node)) or mixed_hint([self.structure(n) for n in sides])
        known, x = self.static(node)
        if known and type(x) in (list, tuple, dict):
            return value_hint(x)
        return shape_hint(self.like(node)) or (self.structure_of_name(node.id) if isinstance(node, ast.Name) else None)

    def structure_of_name(self, name: str) -> Any:
        """Of a name of which nothing is known here: what all its bindings are."""
        if self.scope is None or name in self.asking or not hasattr(self.scope.node, "body"):
            return None
        self.asking.add(name)
        try:
            bound = [n.value for n in nodes_of(self.scope.node) if isinstance(n, ast.Assign)
                     and any(isinstance(t, ast.Name) and t.id == name for t in n.targets)]
            hints = [self.structure(n) for n in bound]
            for n in nodes_of(self.scope.node):  # a, b = f(x)
                for t in n.targets if isinstance(n, ast.Assign) else ():
                    at = [i for i, e in enumerate(t.elts) if isinstance(e, ast.Name) and e.id == name] if isinstance(t, (ast.Tuple, ast.List)) else []
                    if at and not any(isinstance(e, ast.Starred) for e in t.elts):
                        of = self.structure(n.value)
                        hints.append(of[1][at[0]] if of is not None and of[1] is not None and len(of[1]) > at[0] else None)
            return joined_hints(hints)
        except CompileError:  # of what stands in a branch that is not taken
            return None
        finally:
            self.asking.discard(name)

    def structure_within(self, node: Any) -> Any:
        """Of one item of a comprehension, whose targets are not known."""
        outer, self.scope = self.scope, Scope(bound_names([g.target for g in node.generators]), self.scope)
        try:
            return self.structure(node.value if isinstance(node, ast.DictComp) else node.elt)
        finally:
            self.scope = outer

    def structure_called(self, node: ast.Call) -> Any:
        """Of what a call gives: lists of Python's own functions, and what functions of the program return."""
        known, f = self.static(node.func)
        if known and f in (list, sorted, tuple):
            return shape_hint(self.like(node)) or ("tuple" if f is tuple else "list", None)
        if known and isinstance(f, type) and (made := class_made(self, node, f)) is not None:
            return shape_hint(self.like(node)) or (made, None)
        if known and f is dict:
            return "dict", [self.structure(k.value) for k in node.keywords] if not node.args else None
        given, x = self.static(node)  # "a,b".split(",")
        if given and type(x) in (list, tuple):
            return value_hint(x)
        if known and getattr(f, "__name__", "") == "gradient" and gives_list(f):
            return "list", None
        body = shape_hint(self.like_of_body(node, f if known else None))
        f = getattr(f, "__wrapped__", f) if known else None
        of = [u.hints for (i, _), u in self.b.by_object.items() if i == id(f)] if isinstance(f, types.FunctionType) else []
        if isinstance(node.func, ast.Name) and not known:
            of = [self.returned.get(node.func.id, [])]
        returned = joined_hints([h for hints in of for h in hints])
        return filled_hint(body, returned) or shape_hint(self.like(node))
