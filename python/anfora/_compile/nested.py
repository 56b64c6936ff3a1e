# SPDX-License-Identifier: Apache-2.0
"""Lists within lists and dictionaries that grow, and dictionaries that make their items, in plainer words:

    near = [[] for _ in range(3)]
    near[i].append(j)                       near[i] = near[i] + [j]
    groups = defaultdict(list)              groups = {}
    groups[k].append(x)                     groups[k] = groups.get(k, []) + [x]
    total = defaultdict(float)              total = {}
    total[k] += x                           total[k] = total.get(k, 0.0) + x
    seen = Counter()                        seen = {}
    seen[k]                                 seen.get(k, 0)

What is rewritten so is used for its items and their lengths alone: no list within has another name, which would see it grow."""
from __future__ import annotations

import ast
import collections
import copy
from typing import Any, Callable

from .names import chain

_READERS = {"len", "sum", "max", "min", "any", "all", "sorted", "list", "tuple", "dict"}
_VIEWS = ("items", "keys", "values", "get")
_MADE = {int: 0, float: 0.0, collections.Counter: 0, list: None}  # what makes an item that is not there, and which number it is
_NUMBERS = {int, float, collections.Counter}


def _is_fresh(node: Any) -> bool:
    """Whether an expression makes lists and dictionaries that nothing else refers to, of numbers and of such."""
    if isinstance(node, (ast.List, ast.Tuple)):
        return all(map(_is_fresh, node.elts))
    if isinstance(node, ast.Dict):
        return all(v is not None and _is_fresh(v) for v in node.values) and None not in node.keys
    if isinstance(node, ast.ListComp):
        return _is_fresh(node.elt)
    if isinstance(node, ast.DictComp):
        return _is_fresh(node.value)
    return not isinstance(node, (ast.Name, ast.Call, ast.Attribute, ast.IfExp, ast.BoolOp, ast.Starred, ast.NamedExpr)) and \
        not (isinstance(node, ast.BinOp) and any(isinstance(n, (ast.List, ast.ListComp)) for n in (node.left, node.right)))


def _runs(key: Any) -> bool:
    """Whether a key may be another when it is computed a second time."""
    return any(isinstance(n, (ast.Call, ast.NamedExpr)) for k in (key if isinstance(key, list) else [key]) for n in ast.walk(k))


def grows(n: Any) -> Any:
    """xs[k] of xs[k].append(x), xs[k].extend(xs) and xs.setdefault(k, []).append(x)."""
    f = n.func if isinstance(n, ast.Call) else None
    if not isinstance(f, ast.Attribute) or f.attr not in ("append", "extend") or len(n.args) != 1 or n.keywords:
        return None
    of = f.value
    if _runs(of.args[0] if isinstance(of, ast.Call) and of.args else chain(of)[1]):
        return None
    if isinstance(of, ast.Call) and isinstance(of.func, ast.Attribute) and of.func.attr == "setdefault" and len(of.args) == 2 and isinstance(of.func.value, ast.Name) and \
            isinstance(of.args[1], ast.List) and not of.args[1].elts:
        return of
    name, keys = chain(of)
    return of if isinstance(name, ast.Name) and len(keys) == 1 and not isinstance(keys[0], ast.Slice) else None


class _Nested:
    """One name of a function."""

    def __init__(self, function: Any, name: str, called: Callable) -> None:
        self.function, self.name, self.called = function, name, called
        self.parents = {id(c): n for n in ast.walk(function) for c in ast.iter_child_nodes(n)}
        self.uses = [n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == name]
        stores = [p.value for n in self.uses if isinstance(n.ctx, ast.Store) and isinstance(p := self.parents[id(n)], ast.Assign)]
        self.kinds = {self.made(v) for v in stores}  # what makes the items that are not there
        self.numbers = bool(self.kinds) and self.kinds <= _NUMBERS

    def fits(self) -> bool:
        inner = {id(m) for n in ast.walk(self.function) if isinstance(n, (ast.FunctionDef, ast.Lambda)) and n is not self.function for m in ast.walk(n)}
        params = {a.arg for a in ast.walk(self.function.args) if isinstance(a, ast.arg)}
        return self.name not in params and not any(id(n) in inner for n in self.uses) and all(map(self.is_used_well, self.uses)) and len(self.kinds) == 1

    def is_used_well(self, n: ast.Name) -> bool:
        if not isinstance(n.ctx, ast.Load):
            p = self.parents[id(n)]
            if not isinstance(n.ctx, ast.Store) or not isinstance(p, ast.Assign) or p.targets != [n]:
                return False
            return self.made(p.value) is not None or _is_fresh(p.value)
        k, node, parent = 0, n, self.parents[id(n)]
        while isinstance(parent, ast.Subscript) and parent.value is node:
            k, node, parent = k + 1, parent, self.parents[id(parent)]
        if k and not isinstance(node.ctx, ast.Load):
            changed = isinstance(parent, ast.AugAssign) or isinstance(parent, ast.Assign) and (_is_fresh(parent.value) or self.numbers)
            return k == 1 and not isinstance(node.ctx, ast.Del) and changed and not _runs(node.slice)
        if k == 1 and isinstance(parent, ast.Attribute) and grows(self.parents[id(parent)]) is node:
            return not self.numbers and isinstance(self.parents[id(self.parents[id(parent)])], ast.Expr)
        if not k and isinstance(parent, ast.Attribute):
            call = self.parents[id(parent)]
            if isinstance(call, ast.Call) and parent.attr == "setdefault" and isinstance(up := self.parents[id(call)], ast.Attribute):
                return grows(self.parents[id(up)]) is call and isinstance(self.parents[id(self.parents[id(up)])], ast.Expr)
            if parent.attr not in _VIEWS or not isinstance(call, ast.Call) or call.func is not parent:
                return False
            k, node, parent = 1 if parent.attr == "get" else 0, call, self.parents[id(call)]
            return self.is_read(k, node, parent, alone=True)
        return self.is_read(k, node, parent)

    def is_read(self, k: int, node: Any, parent: Any, alone: bool = False) -> bool:
        """Whether a part, or a view of all, is read, and has no name after."""
        if k > 1 or k and self.numbers:
            return True
        if isinstance(parent, ast.Call) and node in parent.args and len(parent.args) == 1 and not parent.keywords:
            f = getattr(parent.func, "id", "")
            return f == "len" or f in _READERS and (k == 1 or self.numbers) or k == 1 and grows(parent) is not None and parent.func.attr == "extend"  # type: ignore[attr-defined]
        if isinstance(parent, ast.For) and parent.iter is node:
            within = [m for s in parent.body for m in ast.walk(s) if isinstance(m, ast.Name) and m.id == self.name]
            return (k == 1 or self.numbers) and not any(map(self.changes, within))
        if isinstance(parent, ast.comprehension) and parent.iter is node:
            return k == 1 or self.numbers
        if isinstance(parent, ast.Compare):
            return not alone and node is not parent.left and all(isinstance(op, (ast.In, ast.NotIn)) for op in parent.ops)
        while isinstance(parent, ast.Tuple):
            parent = self.parents[id(parent)]
        return not alone and isinstance(parent, ast.Return)

    def changes(self, n: ast.Name) -> bool:
        """Whether a use may change the list or dictionary, or a list in it."""
        p = self.parents[id(n)]
        up = self.parents[id(p)]
        return not isinstance(p, ast.Subscript) or not isinstance(p.ctx, ast.Load) or isinstance(up, ast.Attribute)

    def made(self, value: Any) -> Any:
        """What makes items that are not there: int, float, list, or Counter, which keeps none; None: nothing."""
        if not isinstance(value, ast.Call) or value.keywords:
            return None
        known, f = self.called(value.func)
        if known and f is collections.Counter and not value.args:
            return f
        if not known or f is not collections.defaultdict or len(value.args) != 1:
            return None
        known, kind = self.called(value.args[0])
        return kind if known and isinstance(kind, type) and kind in _MADE else None


class _Rewritten(ast.NodeTransformer):
    def __init__(self, name: str, kind: Any) -> None:
        self.name, self.kind = name, kind

    def item(self, key: Any, place: Any, default: Any = None) -> Any:
        """The item of a key, or what is made for it."""
        of = ast.Name(self.name, ast.Load())
        default = default if default is not None else None if self.kind is None else ast.List([], ast.Load()) if self.kind is list else ast.Constant(_MADE[self.kind])
        read = ast.Subscript(of, key, ast.Load()) if default is None else ast.Call(ast.Attribute(of, "get", ast.Load()), [key, default], [])
        return _placed(read, place)

    def bound(self, key: Any, value: Any, place: Any) -> Any:
        return _placed(ast.Assign([ast.Subscript(ast.Name(self.name, ast.Load()), copy.deepcopy(key), ast.Store())], value), place)

    def visit_Expr(self, node: ast.Expr) -> Any:
        of = grows(node.value)
        name = chain(of)[0] if isinstance(of, ast.Subscript) else of.func.value if of is not None else None
        if of is None or getattr(name, "id", "") != self.name:
            return self.generic_visit(node)
        call: Any = node.value
        call.args = [self.visit(a) for a in call.args]
        key, default = (of.slice, None) if isinstance(of, ast.Subscript) else (of.args[0], of.args[1])
        more = ast.List([call.args[0]], ast.Load()) if call.func.attr == "append" else ast.Call(ast.Name("list", ast.Load()), [call.args[0]], [])
        return self.bound(key, ast.BinOp(self.item(key, node, default), ast.Add(), more), node)

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        t = node.target
        if self.kind is None or not (isinstance(t, ast.Subscript) and isinstance(t.value, ast.Name) and t.value.id == self.name):
            return self.generic_visit(node)
        item = f"item_of_{self.name}__"  # an array changes in place
        return [_placed(ast.Assign([ast.Name(item, ast.Store())], self.item(t.slice, node)), node),
                _placed(ast.AugAssign(ast.Name(item, ast.Store()), node.op, self.visit(node.value)), node),
                self.bound(t.slice, ast.Name(item, ast.Load()), node)]

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        node = self.generic_visit(node)
        missing = self.kind is collections.Counter and isinstance(node.ctx, ast.Load) and isinstance(node.value, ast.Name) and node.value.id == self.name
        return self.item(node.slice, node) if missing else node

    def visit_Assign(self, node: ast.Assign) -> Any:
        if self.kind is not None and isinstance(node.targets[0], ast.Name) and node.targets[0].id == self.name:
            node.value = ast.copy_location(ast.Dict([], []), node.value)
            return node
        return self.generic_visit(node)


def _placed(made: Any, like: Any) -> Any:
    for n in ast.walk(made):
        if not hasattr(n, "lineno") and "lineno" in n._attributes:
            ast.copy_location(n, like)
    return made


def with_nested(function: Any, called: Callable[[Any], tuple[bool, Any]]) -> Any:
    """The function with such lists and dictionaries in plainer words; itself if there are none."""
    if not isinstance(function, ast.FunctionDef):
        return function
    names = {getattr(chain(of)[0] if isinstance(of, ast.Subscript) else of.func.value, "id", None) for n in ast.walk(function) if (of := grows(n)) is not None} | \
        {n.targets[0].id for n in ast.walk(function) if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name) and
         isinstance(n.value, ast.Call) and any(called(n.value.func)[1] is f for f in (collections.defaultdict, collections.Counter))}
    for name in sorted(n for n in names if n):
        of = _Nested(function, name, called)
        if of.fits():
            function = _Rewritten(name, next(iter(of.kinds))).visit(copy.deepcopy(function))
    return function
