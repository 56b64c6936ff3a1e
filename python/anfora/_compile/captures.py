# SPDX-License-Identifier: Apache-2.0
"""What a function within a function reads: the program's sees a name as it is when the function is made, Python's
what the name is when the function is called. So a function that may be called after a change is refused."""
from __future__ import annotations

import ast
from typing import Any

from .loops import local_names, position

_LOOPS = (ast.For, ast.While)
_GROW = ("append", "insert", "extend")


def late_change(function: Any, within: Any, names: set[str], parameters: set[str]) -> ast.Name | None:
    """Where one of the names that the function reads changes, though it may be called after that; or None."""
    read = _read(function, parameters)
    inside = {id(n) for s in _body(function) for n in ast.walk(s)}
    around = [n for n in ast.walk(within) if isinstance(n, _LOOPS) and any(x is function for s in n.body for x in ast.walk(s))]
    for of in (n for n in ast.walk(within) if isinstance(n, (ast.ListComp, ast.GeneratorExp, ast.DictComp))):
        if _gives(of.value if isinstance(of, ast.DictComp) else of.elt, function):
            for target in (t for g in of.generators for t in ast.walk(g.target)):
                if isinstance(target, ast.Name) and target.id in read:
                    return target
    holders = _holders(function, within)
    uses = [n for n in ast.walk(within) if isinstance(n, ast.Name) and n.id in holders and isinstance(n.ctx, ast.Load) and id(n) not in inside]
    for n in ast.walk(within):
        if not isinstance(n, ast.Name) or not isinstance(n.ctx, ast.Store) or n.id not in read & names or id(n) in inside:
            continue
        if position(n) > _end(function) and _used_after(uses, function, n, within):
            return n
        if any(x is n for loop in around for x in ast.walk(loop)) and any(_lasts(uses, function, loop) for loop in around):
            return n
    return None


def _end(node: Any) -> tuple[int, int]:
    return node.end_lineno, node.end_col_offset


def _body(function: Any) -> list[Any]:
    return function.body if isinstance(function.body, list) else [function.body]


def _read(function: Any, parameters: set[str]) -> set[str]:
    """The names from outside that its body reads; its defaults are as they are when it is made."""
    own = parameters | (local_names(function.body) if isinstance(function.body, list) else set())
    return {n.id for s in _body(function) for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)} - own


def _gives(value: Any, function: Any) -> bool:
    """Whether the expression gives the function itself, alone or among others."""
    if isinstance(value, (ast.Tuple, ast.List)):
        return any(_gives(x, function) for x in value.elts)
    if isinstance(value, ast.Dict):
        return any(_gives(x, function) for x in value.values)
    if isinstance(value, ast.IfExp):
        return _gives(value.body, function) or _gives(value.orelse, function)
    return value is function or isinstance(function, str) and isinstance(value, ast.Name) and value.id == function


def _holders(function: Any, within: Any) -> set[str]:
    """The names that may hold the function: its own, those that it is bound to, and lists that it is put in."""
    called = {n.func.id for n in ast.walk(within) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    found: list[Any] = [function]
    if isinstance(function, ast.FunctionDef):
        found.append(function.name)
    for what in found:
        for s in ast.walk(within):
            if isinstance(s, ast.Assign):
                made = not isinstance(what, str) and any(x is what for x in ast.walk(s.value))  # f = compose(lambda ..., f)
                targets = {t.id for at in s.targets for t in ast.walk(at) if isinstance(t, ast.Name)}
                held = targets if _gives(s.value, what) else targets & called if made else set()
            elif isinstance(s, ast.Call) and isinstance(s.func, ast.Attribute) and s.func.attr in _GROW and isinstance(s.func.value, ast.Name):
                held = {s.func.value.id} if any(_gives(a, what) for a in s.args) else set()
            else:
                continue
            found += [name for name in sorted(held) if name not in found]
    return {x for x in found if isinstance(x, str)}


def _used_after(uses: list[ast.Name], function: Any, change: Any, within: Any) -> bool:
    """Whether the function may be called after the change: it is read there, or earlier in a loop around both."""
    if any(position(u) > position(change) for u in uses):
        return True
    for loop in (n for n in ast.walk(within) if isinstance(n, _LOOPS)):
        here = set(map(id, ast.walk(loop)))
        if id(change) in here and id(function) not in here and any(id(u) in here for u in uses):
            return True
    return False


def _lasts(uses: list[ast.Name], function: Any, loop: Any) -> bool:
    """Whether a round of the loop may call what an earlier one made, or what follows it one that is not the last."""
    here = set(map(id, ast.walk(loop)))
    made = next((s for s in ast.walk(loop) if isinstance(s, ast.Assign) and any(x is function for x in ast.walk(s))), function)
    if any(id(u) in here and position(u) < _end(made) for u in uses):
        return True
    leaves = any(isinstance(n, (ast.Break, ast.Continue)) and position(n) < position(function) for s in loop.body for n in ast.walk(s))
    always = any(s is function or isinstance(s, ast.Assign) and any(x is function for x in ast.walk(s)) for s in loop.body)
    return (leaves or not always) and any(position(u) > _end(loop) for u in uses)
