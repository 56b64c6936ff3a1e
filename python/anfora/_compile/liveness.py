# SPDX-License-Identifier: Apache-2.0
"""Whether a name is read after a loop that binds it, before something else does: then it keeps what the last round bound.

    for x in xs: ...                  x is live after the first loop, and not after the second one
    y = x
    for x in ys: ...
    x = 0"""
from __future__ import annotations

import ast
import functools
from typing import Any

from .names import position

_COMPREHENSIONS = (ast.ListComp, ast.GeneratorExp, ast.DictComp, ast.SetComp)
_FUNCTIONS = (ast.FunctionDef, ast.Lambda)
_ENDS = (ast.Return, ast.Raise)


def _binds(target: Any, name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store) for n in ast.walk(target))


def _reads(node: Any, name: str) -> bool:
    """Whether a statement or expression may read what the name was before it."""
    waiting = [node]
    while waiting:
        n = waiting.pop()
        if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load):
            return True
        if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name) and n.target.id == name:
            return True
        if isinstance(n, ast.For) and _binds(n.target, name):
            waiting += [n.iter, *n.orelse]
        elif isinstance(n, _COMPREHENSIONS) and any(_binds(g.target, name) for g in n.generators):
            waiting.append(n.generators[0].iter)
        elif isinstance(n, _FUNCTIONS) and name in {a.arg for a in ast.walk(n.args) if isinstance(a, ast.arg)}:
            waiting += [*n.args.defaults, *(d for d in n.args.kw_defaults if d)]
        else:
            waiting += ast.iter_child_nodes(n)
    return False


def _scan(block: list, name: str) -> bool | None:
    """Of statements in order: True if the name is read first, False if it is bound or the function ends first, None if neither is."""
    for s in block:
        if isinstance(s, (ast.Assign, ast.AnnAssign)):
            targets = s.targets if isinstance(s, ast.Assign) else [s.target]
            if s.value is not None and _reads(s.value, name) or any(_reads(t, name) for t in targets):
                return True
            if s.value is not None and any(_binds(t, name) for t in targets):
                return False
        elif _reads(s, name):
            return True
        elif isinstance(s, _ENDS):
            return False
        elif isinstance(s, (ast.Break, ast.Continue)):
            return None
    return None


def blocks_of(s: Any) -> list[list]:
    found = [getattr(s, field, None) for field in ("body", "orelse", "finalbody")]
    found += [part.body for part in (*getattr(s, "handlers", ()), *getattr(s, "cases", ()))]
    return [b for b in found if isinstance(b, list)]


@functools.lru_cache(maxsize=16)
def _ways(function: Any) -> dict[tuple, tuple]:
    """Of the statements of a function, by what they are and where: (their block, their position in it, the key of the statement that it is a
    block of)."""
    ways: dict[tuple, tuple] = {}
    waiting = [(s, function.body, i, None) for i, s in enumerate(function.body)][::-1]
    while waiting:
        s, block, i, above = waiting.pop()
        key = type(s), position(s)
        ways.setdefault(key, (block, i, above))
        within = [] if isinstance(s, (*_FUNCTIONS, ast.ClassDef)) else blocks_of(s)
        waiting += [(x, b, k, key) for b in within for k, x in enumerate(b)][::-1]
    return ways


def way_to(function: Any, statement: Any) -> list | None:
    """The blocks that a statement of a function is in, from outside: (block, position in it)."""
    ways, way = _ways(function), []
    key: Any = type(statement), position(statement)
    if key not in ways:
        return None
    while key is not None:
        block, i, key = ways[key]
        way.append((block, i))
    return way[::-1]


def functions_within(function: Any) -> list:
    return [n for n in ast.walk(function) if isinstance(n, _FUNCTIONS) and n is not function]


def live_after(function: Any, loop: Any, name: str, within: list | None = None) -> bool:
    """Whether what a loop or assignment of a function binds to a name may be read after it. True where it is not known where it stands.
    `within`: the functions within, if they were collected."""
    if any(position(n) < position(loop) and _reads(n, name) for n in (functions_within(function) if within is None else within)):
        return True
    way = way_to(function, loop) if isinstance(function.body, list) else None
    if way is None or _scan(getattr(loop, "orelse", []), name):
        return True
    for k in reversed(range(len(way))):
        block, i = way[k]
        after = _scan(block[i + 1:], name)
        if after is not None:
            return after
        around = way[k - 1][0][way[k - 1][1]] if k else None
        if not isinstance(around, (ast.For, ast.While)) or block is around.orelse:
            continue
        if read_in_rounds(around, name) or _scan(around.orelse, name):
            return True
    return False


def read_in_rounds(loop: Any, name: str) -> bool:
    """Whether a round of a loop may read what the round before it bound to a name."""
    if isinstance(loop, ast.While) and _reads(loop.test, name):
        return True
    return not (isinstance(loop, ast.For) and _binds(loop.target, name)) and bool(_scan(loop.body, name))
