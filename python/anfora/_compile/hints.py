# SPDX-License-Identifier: Apache-2.0
"""Hints for the results of a function, from how it is written."""
from __future__ import annotations

import ast
import functools
import types
from typing import Any

from .builtins import class_made
from .foreign import module_of
from .kinds import Unknown, filled_hint, joined_hints, mixed_hint, nested_lists, part_hint, repeated_hint, shape_hint, value_hint
from .bodies import tried_key
from .containers import METHODS_OF
from .known import Part, Scope, class_member, gives_list, is_structure, levels, parameters
from .names import bound_names, position
from .match import named_within
from .holders import Made
from .stores import given_by
from .._errors import CompileError
from .._tree import REGISTERED, field_names


def last_before(body: list, node: ast.Name) -> Any:
    """The last statement of a function's own body before a place that binds a name for all ways: what bound it before does not matter."""
    found = None
    for s in body:
        if position(s) >= position(node) or getattr(s, "end_lineno", s.lineno) >= node.lineno:
            break
        if isinstance(s, ast.Assign) and any(isinstance(t, ast.Name) and t.id == node.id for t in s.targets):
            found = s
    return found


def overtaken(function: Any, node: ast.Name) -> set[int]:
    """The statements that bind a name whose value a later one of the same block replaces before a place reads it."""
    found: set[int] = set()
    for n in [function, *nodes_of(function)]:
        for block in (getattr(n, "body", None), getattr(n, "orelse", None)):
            of = [s for s in block if isinstance(s, ast.Assign) and any(isinstance(t, ast.Name) and t.id == node.id for t in s.targets)] if isinstance(block, list) else []
            for one, next_ in zip(of, of[1:]):
                leaves = any(isinstance(m, (ast.Break, ast.Continue)) for s in block[block.index(one):block.index(next_)] for m in ast.walk(s))  # type: ignore[index]
                between = position(one) < position(node) and node.lineno <= (next_.end_lineno or 0)
                if not leaves and not between:
                    found.add(id(one))
    return found


def is_whole(hint: Any, s: Any) -> bool:
    """Whether a hint says of all parts of a tree what they are: one that it says nothing of is an array."""
    waiting = [(hint, s)]
    while waiting:
        h, of = waiting.pop()
        if h is None and (of is None or of.kind not in ("leaf", "static")):
            return False
        if h is not None and of is not None and h[1] is not None and len(of.parts or ()) == len(h[1]):
            waiting += zip(h[1], of.parts)
    return True


def paths_to(name: str, target: Any, path: tuple = ()) -> Any:
    """The places of a name in the tuples of a target: the numbers of parts, from the end after a part with a star."""
    if isinstance(target, ast.Name) and target.id == name:
        yield path
    if isinstance(target, (ast.Tuple, ast.List)):
        stars = [i for i, e in enumerate(target.elts) if isinstance(e, ast.Starred)]
        for i, e in enumerate(target.elts):
            yield from paths_to(name, e, (*path, i - len(target.elts) if stars and i > stars[0] else i))


ARRAY = ("array", None)
MOST_NAMES = 80  # names that lead from one to the other


def nodes_of(function: Any) -> Any:
    """The nodes of a function without those of functions within it, whose names are their own."""
    waiting = list(ast.iter_child_nodes(function))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
            waiting += ast.iter_child_nodes(node)


def is_numeric(node: Any) -> bool:
    """Whether the form of an expression tells that it gives no list, tuple or dictionary, but by an operator of a class."""
    if isinstance(node, ast.BinOp):
        if not isinstance(node.op, (ast.Add, ast.Mult, ast.BitOr)):
            return True
        return any(map(is_numeric, (node.left, node.right))) if not isinstance(node.op, ast.Mult) else \
            any(is_numeric(s) and not _is_whole(s) for s in (node.left, node.right))  # [x] * n
    return isinstance(node, ast.UnaryOp) or isinstance(node, ast.Constant) and isinstance(node.value, (int, float, complex))


def _is_whole(node: Any) -> bool:
    """Whether an expression that gives a number may give an integer."""
    return not (isinstance(node, ast.Constant) and isinstance(node.value, (float, complex)) or isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div))


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
            hint = joined_hints([self.structure_returned(n) for n in ways])
            return None if hint == ARRAY else hint
        if isinstance(node, ast.Call):
            return self.structure_called(node)
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) or isinstance(node, ast.BinOp):
            if isinstance(node, ast.BinOp) and (own := self.structure_of_operator(node)) is not None:
                return own
            if is_numeric(node):
                return shape_hint(self.like(node))
            sides = [node.value] if isinstance(node, ast.Subscript) else [node.left, node.right]
            hints = [self.structure(n) for n in sides]
            mixed = shape_hint(self.like(node)) or mixed_hint(hints)
            return (*mixed[:2], True) if mixed is not None and None in hints and len(hints) > 1 else mixed
        known, x = self.static(node)
        if known and type(x) in (list, tuple, dict):
            return value_hint(x)
        s = self.like(node)
        if s is not None and s.kind == "stacked":  # an array, or what the function of a loop of the library gives
            return (Unknown({"list", "tuple"}), None) if (self.fn.__module__ or "").startswith("anfora.") else self.rows_hint(node)
        hint = shape_hint(s)
        if is_whole(hint, s):
            return hint
        if isinstance(node, ast.Name):
            return filled_hint(hint, self.structure_of_name(node))
        return filled_hint(hint, self.structure_of_part(node)) if isinstance(node, ast.Subscript) else hint

    def rows_hint(self, node: Any) -> Any:
        """Of a list that is an array, or a list of lists."""
        return nested_lists(max(levels(self.like(node)), self.is_grid(node.id) if isinstance(node, ast.Name) else 0))

    def structure_returned(self, node: Any) -> Any:
        """The hint of a statement that returns; an array where another returns a list that is an array is of several kinds."""
        hint = self.structure(node)
        return ARRAY if hint is None and self.gives_array(node) else hint

    def gives_array(self, node: Any) -> bool:
        s = self.like(node)
        if s is not None:
            return s.kind == "leaf" and bool(s.of[1])
        if isinstance(node, ast.Call):
            known, f = self.static(node.func)
            return known and module_of(f) in ("numpy", "anfora.numpy", "jax.numpy", "torch")
        return isinstance(node, ast.BinOp) and any(map(self.gives_array, (node.left, node.right)))

    def structure_of_part(self, node: ast.Subscript) -> Any:
        """Of x[k]: of that part of what x is."""
        known, k = self.static(node.slice)
        if not known or type(k) not in (int, str):
            return None
        of = self.structure(node.value)
        if of is None or type(k) is int and of[0] != "dict":
            return of and part_hint(of, k)
        s = self.like(node.value)
        keys = list(s.names) if s is not None and s.kind == "dict" else []
        return part_hint(of, keys.index(k)) if k in keys else None

    def structure_of_name(self, node: ast.Name) -> Any:
        """Of a name of which nothing is known here: what all its bindings are that reach this place."""
        name = node.id
        if self.scope is None or id(node) in self.asking or len(self.asking) > MOST_NAMES or not hasattr(self.scope.node, "body"):
            return None
        last = last_before(self.scope.node.body, node) if isinstance(self.scope.node.body, list) else None
        key = id(self.scope.node), name, last and position(last)
        if key in self.answered:
            return self.answered[key]
        outermost, scope = not self.asking, self.scope
        self.asking.add(id(node))
        try:
            bindings = [n for n in nodes_of(self.scope.node) if isinstance(n, ast.Assign)]
            if last is not None:
                bindings = [n for n in bindings if position(n) >= position(last)]
            over = overtaken(self.scope.node, node)
            bound = [n.value for n in bindings if id(n) not in over and any(isinstance(t, ast.Name) and t.id == name for t in n.targets)]
            hints = [self.structure_returned(n) for n in bound]
            for n in bindings:  # a, (b, c) = f(x)
                for t in n.targets:
                    for path in paths_to(name, t) if not isinstance(t, ast.Name) else ():
                        hints.append(functools.reduce(lambda of, k: of and part_hint(of, k), path, self.structure(n.value)))
            hint = joined_hints(hints)
            self.answered[key] = None if hint == ARRAY else hint
            return self.answered[key]
        except CompileError:  # of what stands in a branch that is not taken
            self.scope = scope
            return None
        finally:
            self.asking.discard(id(node))
            if outermost:
                self.answered.clear()

    def structure_within(self, node: Any) -> Any:
        """Of one item of a comprehension, whose targets are not known."""
        rows = [self.rows_bound(g.target, g.iter) for g in node.generators[:1]]
        outer, self.scope = self.scope, Scope(bound_names([g.target for g in node.generators]), self.scope)
        self.scope.env |= rows[0]
        try:
            return self.structure(node.value if isinstance(node, ast.DictComp) else node.elt)
        finally:
            self.scope = outer

    def hints_of_function(self, node: Any, shapes: list) -> list:
        """Of what one of several functions gives for arguments of which this is known: those that a name is bound to, or that a
        condition chooses among."""
        if isinstance(node, ast.IfExp):
            known, test = self.decided(node.test)
            ways = [node.body if test else node.orelse] if known else [node.body, node.orelse]
            return [h for way in ways for h in self.hints_of_function(way, shapes)]
        if isinstance(node, ast.Lambda):
            outer, self.scope = self.scope, Scope({a.arg for a in parameters(node.args)} | set(named_within(node.body)), self.scope)
            try:
                self.bind_like(node.args, shapes)
                return [self.structure(node.body)]
            except CompileError:  # the body is refused at its own line
                return []
            finally:
                self.scope = outer
        if not isinstance(node, ast.Name) or node.id in self.asking or not hasattr(getattr(self.scope, "node", None), "body"):
            return []
        if node.id in self.returned:
            return self.hints_within(node.id, shapes)
        self.asking.add(node.id)
        try:
            return [h for n in nodes_of(self.scope.node) if isinstance(n, ast.Assign) and any(isinstance(t, ast.Name) and t.id == node.id for t in n.targets)
                    for h in self.hints_of_function(n.value, shapes)]
        finally:
            self.asking.discard(node.id)

    def hints_within(self, name: str, shapes: list) -> list:
        """Of what a function within gives: as it is written for these arguments, if they have parts."""
        owner = self.scope.owner(name)
        if owner is None or name not in owner.nodes or not any(map(is_structure, shapes)):
            return self.returned[name]
        self.given_by_within(name, owner, shapes)
        return self.hints_tried.get(tried_key(owner.nodes[name], shapes)) or self.returned[name]

    def structure_of_operator(self, node: ast.BinOp) -> Any:
        """Of what the left side's class says of an operator."""
        f = class_member(self.like(node.left), METHODS_OF.get(type(node.op), ""))
        return joined_hints([h for u in self.b.units_of(f) for h in u.hints]) if isinstance(f, types.FunctionType) else None

    def structure_called(self, node: ast.Call) -> Any:
        """Of what a call gives: lists of Python's own functions, and what functions of the program return."""
        known, f = self.static(node.func)
        if known and f in (list, sorted, tuple):
            return shape_hint(self.like(node)) or ("tuple" if f is tuple else "list", None)
        if known and f is functools.reduce:
            within = self.hints_of_function(node.args[0], []) if node.args and not self.static(node.args[0])[0] and not isinstance(node.args[0], ast.Lambda) else []
            return shape_hint(self.like(node)) or joined_hints(within) or (Unknown({"list", "tuple"}), None)
        if (fields := self.fields_of_call(node, f if known else None)) is not None:
            hint = shape_hint(self.like(node))
            return hint and (hint[0], [filled_hint(h, self.structure(x)) for h, x in zip(hint[1], fields)] if hint[1] is not None else None)
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
        if not known and isinstance(node.func, ast.Attribute):
            f = class_member(self.like(node.func.value), node.func.attr)
            known = isinstance(f, types.FunctionType)
        giving = given_by(node)
        f = giving.fn if giving is not None else getattr(f, "__wrapped__", f) if known else None
        back = giving.names if giving is not None else ()
        of = [u.hints for u in self.b.units_of(f, back)] if isinstance(f, types.FunctionType) else []
        if isinstance(node.func, ast.Name) and not known or isinstance(node.func, ast.Lambda):
            of = [self.hints_of_function(node.func, self.known_trees(node))]
        returned = joined_hints([h for hints in of for h in hints])
        returned = None if returned == ARRAY else returned
        hint = filled_hint(body, returned) or shape_hint(self.like(node))
        if hint is None and not known and self.is_any_function(node.func):
            return Unknown({"list", "tuple"}), None
        return hint

    def fields_of_call(self, node: ast.Call, f: Any) -> list | None:
        """The fields of the object that a call makes, as expressions; None: it makes none, or not of what it is given."""
        if isinstance(node.func, ast.Constant) and isinstance(node.func.value, Made):
            return [k.value for k in node.keywords]
        if not isinstance(f, type) or f in REGISTERED or field_names(f) is None or any(isinstance(a, ast.Starred) for a in node.args):
            return None
        from .builtins import fields_given
        return list(fields_given(self, node, f).values())

    def is_any_function(self, node: Any) -> bool:
        """Whether nothing is known of a function: a parameter of one within, or one of several in a list."""
        of = node.value if isinstance(node, ast.Subscript) else node
        if not isinstance(of, ast.Name) or self.scope is None or (self.fn.__module__ or "").startswith("anfora."):
            return False
        owner = self.scope.owner(of.id)
        if owner is None or isinstance(node, ast.Subscript):
            return owner is not None
        return owner.outer is not None and of.id not in owner.nodes and of.id not in owner.env
