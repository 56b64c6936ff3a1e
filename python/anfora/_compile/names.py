# SPDX-License-Identifier: Apache-2.0
"""What statements bind, read and change, and where they leave a loop."""
from __future__ import annotations

import ast
from typing import Any

from .stores import given_back


def position(node: Any) -> tuple[int, int]:
    return node.lineno, node.col_offset


def chain(node: Any) -> tuple[Any, list]:
    """Of x[i][j]: x and the indices i, j."""
    keys: list = []
    while isinstance(node, ast.Subscript):
        keys.insert(0, node.slice)
        node = node.value
    return node, keys


def stored_name(n: Any) -> set[str]:
    """The name that a node of the tree binds."""
    if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store):
        return {n.id}
    name = n.name if isinstance(n, (ast.MatchAs, ast.MatchStar)) else n.rest if isinstance(n, ast.MatchMapping) else None
    return {name} if name else set()


def read_names(node: Any) -> set[str]:
    """Names that are read, without those that lambdas and comprehensions bind themselves."""
    if isinstance(node, ast.Name):
        return {node.id} if isinstance(node.ctx, ast.Load) else set()
    own = {a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)} if isinstance(node, ast.Lambda) else \
        {n.id for g in getattr(node, "generators", ()) for n in ast.walk(g.target) if isinstance(n, ast.Name)}
    return set().union(*map(read_names, ast.iter_child_nodes(node))) - own


def around(body: list, node: Any) -> tuple[set[str], set[str]]:
    """Names that statements bind before a node, and that they read after it; of the body, and of the blocks within it that the node is in."""
    bound: set[str] = set()
    for k, s in enumerate(body):
        if any(n is node for n in ast.walk(s)):
            later = [s, *body[k + 1:]] if isinstance(s, (ast.For, ast.While)) else body[k + 1:]  # a loop comes again
            read = set().union(*map(read_names, later))
            for block in (b for b in (getattr(s, "body", []), getattr(s, "orelse", [])) if isinstance(b, list)):
                if any(n is node for x in block for n in ast.walk(x)):
                    inner = around(block, node)
                    return bound | inner[0], read | inner[1]
            return bound, read
        bound |= bound_names([s])
    return bound, set()


def bound_names(nodes: list) -> set[str]:
    """Names that statements bind or change, without those of functions within."""
    found: set[str] = set()
    todo = list(nodes)
    while todo:
        n = todo.pop()
        if isinstance(n, ast.FunctionDef):
            found.add(n.name)
            continue
        if isinstance(n, (ast.Lambda, ast.ListComp, ast.GeneratorExp, ast.DictComp, ast.SetComp)):
            continue
        if isinstance(n, (ast.Import, ast.ImportFrom)):
            found |= {(a.asname or a.name).split(".")[0] for a in n.names}
        changed = n.value if isinstance(n, (ast.Subscript, ast.Attribute)) and isinstance(n.ctx, ast.Store) else grown(n)
        if isinstance(changed := chain(changed)[0], ast.Name):
            found.add(changed.id)
        found |= stored_name(n)
        todo.extend(ast.iter_child_nodes(n))
    return found


def local_names(nodes: list) -> set[str]:
    """Names that are a function's own because statements of it bind them."""
    stored = {name for s in nodes for n in ast.walk(s) for name in stored_name(n)}
    functions = {n.name for s in nodes for n in ast.walk(s) if isinstance(n, ast.FunctionDef)}
    imported = {(a.asname or a.name).split(".")[0] for s in nodes for n in ast.walk(s)
                if isinstance(n, (ast.Import, ast.ImportFrom)) for a in n.names}
    return bound_names(nodes) & (stored | functions | imported)


def grown(node: Any) -> Any:
    """The list that a call of append or extend changes."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("append", "extend", "pop"):
        return node.func.value
    return None


def lengthened(node: Any) -> Any:
    """What xs += [x] changes, if xs is a list."""
    return node.target if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) else None


def changed_in_place(body: list) -> set[str]:
    """Names of what statements may change the items of."""
    nodes = [n for s in body for n in ast.walk(s)]
    calls = [n.func for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
    items = [n for n in nodes if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store)]
    return {of.id for n in (*calls, *items) if isinstance(of := chain(n.value)[0], ast.Name)}


def changed_by_method(n: Any) -> list[str]:
    """The name of a list or dictionary that a statement changes by xs.insert(...) or del xs[...]."""
    if isinstance(n, ast.Delete):
        return [t.value.id for t in n.targets if isinstance(t, ast.Subscript) and isinstance(t.value, ast.Name)]
    if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and isinstance(n.func.value, ast.Name) and \
            n.func.attr in ("insert", "pop", "clear", "reverse"):
        return [n.func.value.id]
    return []


def items_alone(node: Any, name: str) -> bool:
    """Whether a loop uses a list for its items and its length alone, or adds to it: no other name refers to it then."""
    alone = {id(n.value) for n in ast.walk(node) if isinstance(n, ast.Subscript)}
    alone |= {id(grown(n)) for n in ast.walk(node)} | {id(lengthened(n)) for n in ast.walk(node)}
    alone |= {id(n.args[0]) for n in ast.walk(node) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "len" and n.args}
    alone |= {id(m) for n in ast.walk(node) for m in given_back(n)}
    return all(id(n) in alone for n in ast.walk(node) if isinstance(n, ast.Name) and n.id == name)


def read_by_items(node: Any, name: str) -> bool:
    """Whether a loop uses a list for one item at a time, for its length, and appends to it; and no function in it does."""
    if not items_alone(node, name):
        return False
    for n in ast.walk(node):
        if isinstance(of := n.value if isinstance(n, ast.Subscript) else lengthened(n), ast.Name) and of.id == name and not (
                isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Load) and not isinstance(n.slice, (ast.Slice, ast.Tuple))):
            return False
        if isinstance(n, (ast.Lambda, ast.FunctionDef)) and any(isinstance(m, ast.Name) and m.id == name for m in ast.walk(n)):
            return False
    return True


def own_jumps(body: list) -> bool:
    """Whether statements leave or go on with the loop that they are the body of."""
    todo = list(body)
    while todo:
        n = todo.pop()
        if isinstance(n, (ast.Break, ast.Continue)):
            return True
        if isinstance(n, (ast.For, ast.While)):
            todo.extend(n.orelse)
        elif not isinstance(n, ast.FunctionDef):
            todo.extend(c for c in ast.iter_child_nodes(n) if isinstance(c, (ast.stmt, ast.match_case)))
    return False


def own_breaks(body: list) -> bool:
    todo = list(body)
    while todo:
        n = todo.pop()
        if isinstance(n, ast.Break):
            return True
        if not isinstance(n, (ast.For, ast.While, ast.FunctionDef)):
            todo.extend(c for c in ast.iter_child_nodes(n) if isinstance(c, (ast.stmt, ast.match_case)))
    return False
