# SPDX-License-Identifier: Apache-2.0
"""What a function within a function reads: the program's sees a name as it is when the function is made, Python's
what the name is when the function is called. So a function that may be called after a change is refused: after the name is bound
anew, and after the list or dictionary changes in place. So is an iterator that is read after what it goes through changed."""
from __future__ import annotations

import ast
from typing import Any

from .names import local_names, position

_LOOPS = (ast.For, ast.While)
_GROW = ("append", "insert", "extend")
CHANGING = (*_GROW, "pop", "popitem", "remove", "clear", "reverse", "sort", "update", "setdefault")  # of lists and dictionaries
_LAZY = ("map", "filter")


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
    for n in changes(within):
        if n.id not in read & names or id(n) in inside:
            continue
        if position(n) > _end(function) and _used_after(uses, function, n, within):
            return n
        if any(x is n for loop in around for x in ast.walk(loop)) and any(_lasts(uses, function, loop) for loop in around):
            return n
    return None


def changes(within: Any, anew: bool = True) -> list[ast.Name]:
    """The names that are bound, if anew, and those whose lists and dictionaries change in place: xs[i] = v, del d[k], xs.append(v)."""
    found = []
    for n in ast.walk(within):
        at: Any = n if anew and isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) else None
        if isinstance(n, ast.Subscript) and not isinstance(n.ctx, ast.Load):
            at = n.value
        elif isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr in CHANGING:
            at = n.func.value
        if isinstance(at, ast.Name):
            found.append(at)
    return found


def changed_before_read(iterator: Any, read: ast.Name, within: Any) -> ast.Name | None:
    """Where something changes that the iterator goes through, after it was made and before its items are read; or None."""
    late = set()
    if isinstance(iterator, ast.GeneratorExp):  # what it goes through first is bound when it is made, all others when it is read
        parts = [iterator.elt, *(t for g in iterator.generators for t in g.ifs), *(g.iter for g in iterator.generators[1:])]
        late = {n.id for p in parts for n in ast.walk(p) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    own = {n.id for n in ast.walk(iterator) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    names = {n.id for n in ast.walk(iterator) if isinstance(n, ast.Name)} - own
    until = max([position(read), *(_end(n) for n in ast.walk(within) if isinstance(n, ast.For) and any(x is read for x in ast.walk(n.iter)))])
    bound = {id(n) for n in changes(within)} - {id(n) for n in changes(within, False)}
    return next((n for n in changes(within) if n.id in (names & late if id(n) in bound else names) and _end(iterator) < position(n) < until), None)


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
                made = any(x is what or isinstance(x, ast.Name) and x.id == what for x in ast.walk(s.value))  # g = compose(lambda ..., f)
                lazy = made and isinstance(s.value, ast.Call) and isinstance(s.value.func, ast.Name) and s.value.func.id in _LAZY
                targets = {t.id for at in s.targets for t in ast.walk(at) if isinstance(t, ast.Name)}
                held = targets if lazy or _gives(s.value, what) else targets & called if made else set()
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
