# SPDX-License-Identifier: Apache-2.0
"""Lists that each branch in a loop appends to once: the items are chosen, and one append follows, so that the list can be an array with
a row a round (`loop_lists.py`), however many rounds there are:

    for x in xs:                          for x in xs:
        if x > 0:                             if x > 0:
            y.append(x * x)                       y_next = x * x
        else:                                 else:
            y.append(0.0)                         y_next = 0.0
                                              y.append(y_next)

Only appends at the ends of branches move, past appends to other lists; what they append is computed where it was. None move in a loop that makes
a list longer in another way, where all are tuples."""
from __future__ import annotations

import ast
import copy
from typing import Any

from .names import grown, lengthened


def _appended(s: Any) -> str | None:
    """The list to which a statement appends one item."""
    call = s.value if isinstance(s, ast.Expr) else None
    plain = isinstance(of := grown(call), ast.Name) and call.func.attr == "append" and len(call.args) == 1 and not call.keywords
    return of.id if plain and not isinstance(call.args[0], ast.Starred) else None


def _last(body: list) -> dict[str, int]:
    """Lists to which the statements at the end of a block append once, none of whose items are functions, and at which statement."""
    found: list[tuple[str, int]] = []
    for i in reversed(range(len(body))):
        if (x := _appended(body[i])) is None:
            break
        found.append((x, i))
    names = [x for x, _ in found]
    inner = [n for _, i in found for n in ast.walk(body[i].value.args[0])]
    read = {n.id for n in inner if isinstance(n, ast.Name)}
    return {} if any(isinstance(n, ast.Lambda) for n in inner) else {x: i for x, i in found if names.count(x) == 1 and x not in read}


class _Sunk(ast.NodeTransformer):
    def __init__(self, names: set[str]) -> None:
        self.names, self.changed = names, False

    def visit_For(self, node: Any) -> Any:
        self.generic_visit(node)
        body = [t for s in copy.deepcopy(node.body) for t in (self.sunk(s) if isinstance(s, ast.If) else [s])]
        grow = [n for s in body for n in ast.walk(s) if grown(n) is not None or lengthened(n) is not None]
        lists = {of.id for n in grow if isinstance(of := grown(n), ast.Name)}
        direct = [x for s in body if (x := _appended(s)) is not None]
        counted = [n for n in grow if isinstance(of := grown(n) or lengthened(n), ast.Name) and of.id in lists]
        if len(body) > len(node.body) and len(counted) == len(direct) == len(lists):
            node.body, self.changed = body, True
        return node

    visit_While = visit_For

    def sunk(self, node: ast.If) -> list:
        """The choice, and the appends that follow it."""
        if len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
            node.orelse = self.sunk(node.orelse[0])
        ends = _last(node.body), _last(node.orelse)
        after = []
        both = [[x for x in reversed(end) if x in other] for end, other in (ends, ends[::-1])]
        for x in both[0] if both[0] == both[1] else []:
            name = self.fresh(x)
            append: Any = copy.deepcopy(node.body[ends[0][x]])
            append.value.args[0] = ast.copy_location(ast.Name(name, ast.Load()), append.value.args[0])
            after.append(append)
            for body, end in zip((node.body, node.orelse), ends):
                s: Any = body[end[x]]
                body[end[x]] = ast.copy_location(ast.Assign([ast.copy_location(ast.Name(name, ast.Store()), s)], s.value.args[0]), s)
        return [node, *after]

    def fresh(self, x: str) -> str:
        name = f"{x}_next"
        while name in self.names:
            name += "_"
        self.names.add(name)
        return name


def with_one_append(function: Any) -> Any:
    """The function with appends after branches; itself if there are none to move."""
    if not any(isinstance(n, ast.If) and n.orelse and _appended(n.body[-1]) for n in ast.walk(function)):
        return function
    whole = copy.deepcopy(function)
    sunk = _Sunk({n.id for n in ast.walk(whole) if isinstance(n, ast.Name)} | {n.arg for n in ast.walk(whole) if isinstance(n, ast.arg)})
    sunk.visit(whole)
    return whole if sunk.changed else function
