# SPDX-License-Identifier: Apache-2.0
"""Branches: a condition that is known leaves one way, and where two ways meet, what both know is known."""
from __future__ import annotations

import ast
from typing import Any

from .known import ANY, Is, Like, Part, is_structure, parameters, skeleton
from .kinds import of_several_kinds
from .names import around, bound_names
from .match import at
from .._errors import CompileError


def met(one: Any, two: Any) -> Like | None:
    """What is known of a name where two ways meet that know different things: it has one type, so a structure that one of
    them knows is that of both."""
    if (mixed := of_several_kinds([one, two])) is not None:
        return mixed
    if all(isinstance(e, Like) and e.shape is ANY for e in (one, two)):
        return one
    if all(isinstance(e, Like) and e.shape.kind == "stacked" for e in (one, two)):
        return Like(one.shape, own=one.own and two.own)
    known = [e for e in (one, two) if isinstance(e, Like) and is_structure(e.shape)]
    if not known or any(isinstance(e, Is) for e in (one, two)) or len({e.shape.kind for e in known}) > 1:
        return None
    shapes = [skeleton(e.shape) for e in known]
    return Like(shapes[0], own=len(known) == 2 and all(e.own for e in known)) if all(s.key() == shapes[0].key() for s in shapes) else None


def form(e: Any) -> Any:
    """The kind of a structure and how many items it has, None if it is not known to be one."""
    if isinstance(e, Is):
        return (type(e.value).__name__, len(e.value)) if type(e.value) in (list, tuple) else ("static", 0)
    return (e.shape.kind, len(e.shape.parts)) if isinstance(e, Like) and is_structure(e.shape) else None


def differ(one: Any, two: Any) -> bool:
    """Whether two ways that meet are known to give other kinds of structures, or lists or tuples of other lengths."""
    forms = form(one), form(two)
    return None not in forms and forms[0] != forms[1]


class Branches(Part):
    """The part of the writer for `if`."""

    def stmt_If(self, node: ast.If, indent: str) -> str:
        known, test = self.decided(node.test)
        if known:
            return self.block(node.body if test else node.orelse, indent)
        for test, way, rest in ((node.test, node.body, node.orelse), (at(node.test, ast.UnaryOp(ast.Not(), node.test)), node.orelse, node.body)):
            if rest and way and isinstance(way[-1], ast.Raise) and not isinstance(rest[-1], ast.Raise) and self.binds_for_later(rest, node):
                return self.stmt_If(at(node, ast.If(test, way, [])), indent) + self.block(rest, indent)
        head = f"{indent}{self.mark(node.test)}if {self.condition(node.test)} {{\n"
        inner, s = indent + "  ", self.scope
        before, known = (dict(s.env), set(s.virtual)), (dict(s.env), set(s.virtual))
        then = self.block(node.body, inner)
        then_state, then_ended = (s.env, s.virtual), self.ended
        s.env, s.virtual = before
        other = self.block(node.orelse, inner)
        if then_ended != self.ended:  # a way that raises goes on for the program: it binds what the other one makes variables of
            after = (s.env, s.virtual) if then_ended else then_state
            bound = self.bound_too(known, after[1], node, inner)
            then, other = (bound + then, other) if then_ended else (then, bound + other)
        then, other = self.meet(node, (then, then_state, then_ended), (other, (s.env, s.virtual), self.ended), inner)
        self.ended = then_ended and self.ended
        return head + then + indent + "}" + (f" else {{\n{other}{indent}}}" if other else "") + "\n"

    def binds_for_later(self, rest: list, node: ast.If) -> bool:
        """Whether statements of one way bind a name that is read after, and that is not bound before, or to None."""
        before, read = around(getattr(self.scope.node, "body", []), node)
        params = {a.arg for a in parameters(self.scope.node.args)}
        none = {name for name in self.scope.virtual if self.scope.env[name].value is None}
        return bool(bound_names(rest) & read - ((before | params) - none))

    def bound_too(self, known: tuple, virtual: set[str], node: Any, indent: str) -> str:
        """What binds the names that were no variables before a branch and are after it."""
        s = self.scope
        state, (s.env, s.virtual) = (s.env, s.virtual), known
        text = ""
        for name in sorted(known[1] - virtual):
            try:
                text += self.made_variables([name], node, indent)
            except CompileError:  # of what cannot be a variable
                self.scope = s
        s.env, s.virtual = state
        return text

    def meet(self, node: Any, one: tuple, two: tuple, indent: str) -> tuple[str, str]:
        """Where the ways of a branch meet: what both know is known."""
        s, texts = self.scope, []
        if one[2] or two[2]:  # one of them does not go on
            s.env, s.virtual = two[1] if one[2] else one[1]
            return one[0], two[0]
        (env1, virtual1), (env2, virtual2) = one[1], two[1]
        same = {n for n in env1.keys() & env2.keys() if env1[n] is env2[n] or
                (isinstance(env1[n], Is) and isinstance(env2[n], Is) and env1[n].value is env2[n].value)}
        for text, (s.env, s.virtual) in ((one[0], one[1]), (two[0], two[1])):
            apart = s.virtual - (virtual1 & virtual2 & same)
            texts.append(text + self.made_variables(apart, node, indent))
        others = (env1.keys() | env2.keys()) - same
        s.apart |= {n for n in others if differ(env1.get(n), env2.get(n))}
        alike = {n: x for n in others - s.mixed if (x := met(env1.get(n), env2.get(n))) is not None}
        s.env, s.virtual = {n: env1[n] for n in same} | alike, virtual1 & virtual2 & same
        return texts[0], texts[1]
