# SPDX-License-Identifier: Apache-2.0
"""match and := as plainer statements: a match becomes if and elif, a name that is bound within an expression is
bound before the statement. Whether a pattern fits the structure of a value is known when code is made, so a
branch that cannot be taken is not written."""
from __future__ import annotations

import ast
import copy
import functools
from typing import Any

from .known import Part, is_structure
from .._tree import field_names

# Where := is evaluated whenever the statement is
HEADS = {ast.Expr: "value", ast.Assign: "value", ast.AugAssign: "value", ast.AnnAssign: "value", ast.Return: "value",
         ast.If: "test", ast.Assert: "test", ast.For: "iter", ast.Match: "subject"}


def at(place: Any, node: Any) -> Any:
    """A node that was made, where another one stands."""
    return ast.fix_missing_locations(ast.copy_location(node, place))


def named_within(node: Any) -> list[str]:
    """The names that := binds in an expression; those of functions within are theirs."""
    waiting, names = [node], []
    while waiting:
        n = waiting.pop()
        if not isinstance(n, ast.Lambda):
            names += [n.target.id] if isinstance(n, ast.NamedExpr) else []
            waiting += ast.iter_child_nodes(n)
    return names


def has_named(node: Any) -> bool:
    return bool(named_within(node))


class _Hoist(ast.NodeTransformer):
    """Takes := out of an expression; `found` are the bindings, in the order in which they are evaluated."""

    def __init__(self, writer: Any) -> None:
        self.writer = writer
        self.found: list[tuple] = []
        self.read: set[str] = set()

    def visit_Name(self, node: ast.Name) -> Any:
        self.read.add(node.id)
        return node

    def visit_NamedExpr(self, node: ast.NamedExpr) -> Any:
        before = set(self.read)
        value = self.visit(node.value)
        if node.target.id in before:
            self.refuse(node, f"{node.target.id} is read before it is bound here", "bind the name in a statement of its own")
        self.found.append((node.target, value))
        return at(node, ast.Name(node.target.id, ast.Load()))

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        return self.only(node, [self.visit(node.values[0]), *node.values[1:]], node.values[1:], "values")

    def visit_Compare(self, node: ast.Compare) -> Any:
        node.left = self.visit(node.left)
        return self.only(node, [self.visit(node.comparators[0]), *node.comparators[1:]], node.comparators[1:], "comparators")

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        node.test = self.visit(node.test)
        return self.only(node, node.body, [node.body, node.orelse], "body")

    def only(self, node: Any, value: Any, rest: list, field: str) -> Any:
        """`rest` is not always evaluated."""
        for r in rest:
            self.never(r)
        setattr(node, field, value)
        return node

    def never(self, node: Any) -> Any:
        waiting = [node]
        while waiting:
            n = waiting.pop()
            if isinstance(n, ast.NamedExpr):
                self.refuse(n, ":= stands where it is not always evaluated", "bind the name in a statement before")
            waiting += [] if isinstance(n, ast.Lambda) else ast.iter_child_nodes(n)
        return node

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        """What is bound in it is its own (lambda_body)."""
        return node

    def refuse(self, node: Any, message: str, hint: str) -> None:
        self.writer.refuse(node, message, hint)

    visit_ListComp = visit_GeneratorExp = visit_DictComp = visit_SetComp = never


class Matching(Part):
    """The part of the writer for match and :=."""

    def hoisted(self, node: Any, indent: str) -> tuple[str, Any]:
        """The bindings of := in a statement as text, and the statement without them."""
        field = HEADS.get(type(node), "")
        head = getattr(node, field) if field else None
        if head is None or not has_named(head):
            return "", node
        hoist = _Hoist(self)
        node = copy.copy(node)
        setattr(node, field, hoist.visit(copy.deepcopy(head)))
        return "".join(self.assign(target, value, node, indent) for target, value in hoist.found), node

    def lambda_body(self, body: Any, indent: str) -> tuple[str, Any]:
        """The bindings of := in the body of a lambda as text, and the value without them."""
        if not has_named(body):
            return "", body
        text, node = self.hoisted(at(body, ast.Return(body)), indent)
        return text, node.value

    def tested_within(self, node: ast.While) -> ast.While:
        """while (n := f()) > 0: a loop that ends within."""
        if node.orelse:
            self.refuse(node.test, ":= cannot be compiled in a loop with else", "bind the name in a statement of its own")
        leave = at(node.test, ast.If(ast.UnaryOp(ast.Not(), node.test), [ast.Break()], []))
        return at(node, ast.While(at(node.test, ast.Constant(True)), [leave, *node.body], []))

    # ---- match ----

    def stmt_Match(self, node: ast.Match, indent: str) -> str:
        text, subject = "", node.subject
        if not isinstance(subject, ast.Name):
            name = at(subject, ast.Name(self.fresh(), ast.Store()))
            self.scope.names.add(name.id)
            text = self.assign_name(name, subject, node, indent)
            subject = at(subject, ast.Name(name.id, ast.Load()))
        rest: list = []
        for case in reversed(node.cases):
            rest = self.case(case, subject, rest)
        return text + self.block(rest, indent)

    def case(self, case: ast.match_case, subject: Any, rest: list) -> list:
        """One case as statements; `rest` are those of the cases after it."""
        test, bound = self.pattern(case.pattern, subject)
        if test is not None and self.decided(test) == (True, False):
            return rest
        body = [at(case.pattern, ast.Assign([ast.Name(n, ast.Store())], value)) for n, value in bound.items()] + case.body
        if case.guard is not None:
            guard = _Put(bound).visit(copy.deepcopy(case.guard))
            test = guard if test is None else at(case.pattern, ast.BoolOp(ast.And(), [test, guard]))
        return body if test is None else [at(case.pattern, ast.If(test, body, rest))]

    def pattern(self, p: Any, of: Any) -> tuple[Any, dict[str, Any]]:
        """(the condition under which the pattern fits, None if always; what its names are bound to)"""
        return getattr(self, "pattern_" + type(p).__name__)(p, of)

    def patterns(self, place: Any, pairs: list) -> tuple[Any, dict[str, Any]]:
        tests, bound = [], {}
        for p, of in pairs:
            test, names = self.pattern(p, of)
            if test is not None:
                tests.append(test)
            bound.update(names)
        return functools.reduce(lambda a, b: at(place, ast.BoolOp(ast.And(), [a, b])), tests) if tests else None, bound

    def pattern_MatchAs(self, p: ast.MatchAs, of: Any) -> tuple[Any, dict[str, Any]]:
        test, bound = self.pattern(p.pattern, of) if p.pattern else (None, {})
        return test, bound | {p.name: of} if p.name else bound

    def pattern_MatchOr(self, p: ast.MatchOr, of: Any) -> tuple[Any, dict[str, Any]]:
        tests = []
        for q in p.patterns:
            test, bound = self.pattern(q, of)
            if bound:
                self.refuse(q, "the alternatives of a pattern cannot bind names", "write a case for each")
            tests.append(at(q, ast.Constant(True)) if test is None else test)
        return at(p, ast.BoolOp(ast.Or(), tests)), {}

    def pattern_MatchValue(self, p: ast.MatchValue, of: Any) -> tuple[Any, dict[str, Any]]:
        if is_structure(self.like(of)):
            return never(p)
        known, value = self.static(p.value)
        if known and isinstance(value, str) and not self.static(of)[0]:
            return never(p)  # what is not known is a number or an array
        return at(p, ast.Compare(of, [ast.Eq()], [p.value])), {}

    def pattern_MatchSingleton(self, p: ast.MatchSingleton, of: Any) -> tuple[Any, dict[str, Any]]:
        how = ast.Is() if p.value is None else ast.Eq()
        return at(p, ast.Compare(of, [how], [ast.Constant(p.value)])), {}

    def kind_of(self, p: Any, of: Any) -> Any:
        """What a value is made of: a class, "number" of numbers and arrays."""
        known, x = self.static(of)
        if known:
            return type(x)
        s = self.like(of)
        if is_structure(s):
            return s.of if s.kind == "object" else {"tuple": tuple, "list": list, "dict": dict}[s.kind]
        if s is None or s.kind != "leaf":
            self.refuse(p, "it is not known what this matches against", "match an argument, or what is made of literals")
        return "number"

    def pattern_MatchSequence(self, p: ast.MatchSequence, of: Any) -> tuple[Any, dict[str, Any]]:
        kind = self.kind_of(p, of)
        if kind == "number" or not issubclass(kind, (tuple, list)):
            return never(p)
        n, count = len(p.patterns), self.known_length(of)[1]
        star = next((i for i, q in enumerate(p.patterns) if isinstance(q, ast.MatchStar)), None)
        if count < n - 1 or (star is None and count != n):
            return never(p)
        pairs = []
        for i, q in enumerate(p.patterns):
            key: ast.expr
            if isinstance(q, ast.MatchStar):
                q = at(q, ast.MatchAs(None, q.name))
                key = ast.Slice(ast.Constant(i), ast.Constant(count - (n - 1 - i)))
            else:
                key = ast.Constant(i if star is None or i < star else i - n + count)
            pairs.append((q, at(q, ast.Subscript(of, key, ast.Load()))))
        return self.patterns(p, pairs)

    def pattern_MatchMapping(self, p: ast.MatchMapping, of: Any) -> tuple[Any, dict[str, Any]]:
        kind = self.kind_of(p, of)
        if kind == "number" or not issubclass(kind, dict):
            return never(p)
        known, x = self.static(of)
        names = list(x) if known else list(self.like(of).names)
        keys = [self.static(k)[1] for k in p.keys]
        if any(k not in names for k in keys):
            return never(p)
        part = lambda k: at(p, ast.Subscript(of, ast.Constant(k), ast.Load()))  # noqa: E731
        test, bound = self.patterns(p, [(q, part(k)) for k, q in zip(keys, p.patterns)])
        if p.rest:
            left = [k for k in names if k not in keys]
            bound[p.rest] = at(p, ast.Dict([ast.Constant(k) for k in left], [part(k) for k in left]))
        return test, bound

    def pattern_MatchClass(self, p: ast.MatchClass, of: Any) -> tuple[Any, dict[str, Any]]:
        known, cls = self.static(p.cls)
        if not known or not isinstance(cls, type):
            self.refuse(p.cls, "it is not known what class this is")
        if not self.static(of)[0] and not (field_names(cls) or cls in (tuple, list, dict, str)):
            self.refuse(p, "numbers and arrays have no classes in compiled functions")
        kind = self.kind_of(p, of)
        if kind == "number" or not issubclass(kind, cls):
            return never(p)
        if p.patterns and cls in (bool, int, float, str, tuple, list, dict):
            return self.pattern(p.patterns[0], of)
        names = [*getattr(cls, "__match_args__", ())[:len(p.patterns)], *p.kwd_attrs]
        field = lambda n: at(p, ast.Attribute(of, n, ast.Load()))  # noqa: E731
        return self.patterns(p, [(q, field(n)) for n, q in zip(names, [*p.patterns, *p.kwd_patterns])])


class _Put(ast.NodeTransformer):
    """Puts what names of a pattern stand for in their place."""

    def __init__(self, bound: dict[str, Any]) -> None:
        self.bound = bound

    def visit_Name(self, node: ast.Name) -> Any:
        return self.bound.get(node.id, node)


def never(place: Any) -> tuple[Any, dict[str, Any]]:
    """The condition of a pattern that cannot fit."""
    return at(place, ast.Constant(False)), {}
