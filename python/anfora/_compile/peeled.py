# SPDX-License-Identifier: Apache-2.0
"""Loops whose first round is another: a name that is None before a loop, and is compared with None in it, has no type until a round
bound it. The first round is written before the others, so that the name is None there and has one type in the others:

    best = None                                   best = None
    for x in xs:                                  if len(xs) > 0:
        if best is None or x > best:                  x = xs[0]
            best = x                                  if best is None or x > best:
                                                          best = x
                                                      for x in xs[1:]:
                                                          if best is None or x > best:
                                                              best = x

Which comparison with None holds the types say."""
from __future__ import annotations

import ast
import builtins
import copy
from typing import Any, Callable

from .names import bound_names, own_jumps, read_names


def has_unbound(function: Any) -> bool:
    """Whether a loop compares a name with None."""
    return any(isinstance(n, (ast.For, ast.While)) and _compared(n.body) for n in ast.walk(function))


def _compared(body: list) -> set[str]:
    """Names that statements compare with None."""
    return {n.left.id for s in body for n in ast.walk(s) if isinstance(n, ast.Compare) and isinstance(n.left, ast.Name) and len(n.ops) == 1 and
            isinstance(n.ops[0], (ast.Is, ast.IsNot)) and isinstance(n.comparators[0], ast.Constant) and n.comparators[0].value is None}


def _made_none(s: Any) -> set[str]:
    """Names that a statement binds to None: best = None; best, at = None, 0."""
    if not isinstance(s, (ast.Assign, ast.AnnAssign)):
        return set()
    found = set()
    for target in s.targets if isinstance(s, ast.Assign) else [s.target]:
        pairs = [(target, s.value)]
        if isinstance(target, ast.Tuple) and isinstance(s.value, ast.Tuple) and len(target.elts) == len(s.value.elts):
            pairs = list(zip(target.elts, s.value.elts))
        found |= {t.id for t, v in pairs if isinstance(t, ast.Name) and isinstance(v, ast.Constant) and v.value is None}
    return found


class Peeled:
    """Writes the blocks of a function; `is_call` tells whether a node calls a function of Python."""

    def __init__(self, is_call: Callable[[Any, Any], bool]) -> None:
        self.is_call, self.count, self.changed = is_call, 0, False

    def block(self, body: list, none: set[str]) -> list:
        """The statements; none: names that are None before them."""
        none, made = set(none), []
        for s in body:
            made += self.statement(s, none)
            none = none - bound_names([s]) | _made_none(s)
        return made

    def statement(self, s: Any, none: set[str]) -> list:
        if isinstance(s, (ast.For, ast.While)):
            names = none & _compared(s.body) & bound_names(s.body)
            first = self.first_round(s) if names and not s.orelse and not own_jumps(s.body) else None
            if first is not None:
                return self.split(s, none, *first)
            none = none - bound_names(s.body)
        elif isinstance(s, (ast.FunctionDef, ast.Try, ast.With)):
            none = set()
        for part in ("body", "orelse"):
            if isinstance(getattr(s, part, None), list):
                setattr(s, part, self.block(getattr(s, part), none))
        return [s]

    def split(self, s: Any, none: set[str], before: list, tests: list, begin: list, rest: Any) -> list:
        """The first round, where there is one, and the others."""
        self.changed = True
        first = [*begin, *copy.deepcopy(s.body)]
        _bind_before(first, s)
        rounds = [*self.block(first, none), rest]
        rest.body = self.block(s.body, set())
        for test in tests:
            rounds = [ast.If(test, rounds, [])]
        made = [*before, *rounds]
        for n in (n for m in made for n in ast.walk(m)):
            if not hasattr(n, "lineno") and "lineno" in n._attributes:
                ast.copy_location(n, s)
        return made

    def first_round(self, s: Any) -> tuple | None:
        """(statements before, what holds if there is a first round, what it binds, the loop of the others) of a loop; None: another form."""
        if isinstance(s, ast.While):
            return [], [copy.deepcopy(s.test)], [], ast.While(s.test, [], [])
        if self.is_call(s.iter, builtins.range):
            return self.of_range(s)
        of = s.iter.args if self.is_call(s.iter, builtins.zip) or self.is_call(s.iter, builtins.enumerate) and len(s.iter.args) == 1 else [s.iter]
        plain = of and not getattr(s.iter, "keywords", None) and all(isinstance(a, (ast.Name, ast.Attribute, ast.Subscript)) for a in of)
        if not plain or not self.is_call(_expression("len()"), builtins.len):
            return None
        names = [self.fresh() for _ in of]
        before = [_assign(ast.Name(n, ast.Store()), a) for n, a in zip(names, of)]
        tests = [_expression(f"len({n}) > 0") for n in names]
        items: list = [_expression(f"{n}[0]") for n in names]
        others: list = [_expression(f"{n}[1:]") for n in names]
        if s.iter is of[0]:
            return before, tests, [_assign(s.target, items[0])], ast.For(copy.deepcopy(s.target), others[0], [], [])
        if self.is_call(s.iter, builtins.enumerate):
            items, others = [ast.Constant(0), *items], [*others, ast.Constant(1)]
        over = ast.Call(s.iter.func, others, [])
        return before, tests, [_assign(s.target, ast.Tuple(items, ast.Load()))], ast.For(copy.deepcopy(s.target), over, [], [])

    def of_range(self, s: ast.For) -> tuple | None:
        args = s.iter.args  # type: ignore[attr-defined]
        if len(args) > 2 or bound_names([*s.body, s.target]) & read_names(s.iter):
            return None
        start, stop = (ast.Constant(0), args[0]) if len(args) == 1 else args
        test = ast.Compare(copy.deepcopy(stop), [ast.Gt()], [copy.deepcopy(start)])
        after = ast.Constant(1) if len(args) == 1 else ast.BinOp(copy.deepcopy(start), ast.Add(), ast.Constant(1))
        over = ast.Call(s.iter.func, [after, stop], [])  # type: ignore[attr-defined]
        return [], [test], [_assign(s.target, copy.deepcopy(start))], ast.For(copy.deepcopy(s.target), over, [], [])

    def fresh(self) -> str:
        self.count += 1
        return f"rounds{self.count}__"


def _bind_before(first: list, loop: Any) -> None:
    """The first round gets places right before those of the others' loop, which are those of the whole loop."""
    nodes = [n for s in first for n in ast.walk(s)]
    targets = {id(t) for n in nodes if isinstance(n, ast.For) for t in ast.walk(n.target)}
    for n in nodes:
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and id(n) not in targets:
            n.lineno = n.end_lineno = loop.lineno
            n.col_offset = n.end_col_offset = max(loop.col_offset - 1, 0)


def _expression(text: str) -> Any:
    made = ast.parse(text, mode="eval").body
    for n in ast.walk(made):
        for name in ("lineno", "col_offset", "end_lineno", "end_col_offset"):
            n.__dict__.pop(name, None)
    return made


def _assign(target: Any, value: Any) -> ast.Assign:
    return ast.Assign([copy.deepcopy(target)], value)
