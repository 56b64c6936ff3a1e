# SPDX-License-Identifier: Apache-2.0
"""Objects of classes with an __init__ of their own, made in a compiled function: __init__ is a function that gives a record.

    def __init__(self, a, n=2):      def __init__(a, n):
        self.a = a                     a' = a
        self.b = self.a * n            b' = a' * n
                                       {a = a', b = b'}"""
from __future__ import annotations

import ast
import copy
import types
from typing import Any

from .._tree import REGISTERED, field_names
from .bases import base_call
from .names import position
from .origin import source_of

_FOUND: dict[type, Any] = {}


class Made:
    """Makes the object of its fields."""

    def __init__(self, kind: type) -> None:
        self.kind, self.__name__ = kind, kind.__name__

    def _emit_call(self, w: Any, c: Any) -> str:
        w.b.classes.append(self.kind)
        return w.record([(n, w.expr(v)) for n, v in c.kw.items()])


class Unmade:
    """What `self` is while __init__ runs: its fields are variables."""

    def __init__(self, kind: type, init: types.FunctionType, names: tuple[str, ...]) -> None:
        def make(*parts: Any) -> Any:
            x = object.__new__(kind)
            for name, part in zip(names, parts):
                setattr(x, name, part)
            return x
        self.init = init
        self.kind = type(kind.__name__, (kind,), {"_anfora_names": names, "_anfora_make": staticmethod(make)})

    def rewritten(self, node: Any) -> Any:
        """__init__ as a function that gives the record."""
        names = field_names(self.kind) or ()
        made = copy.deepcopy(node)
        me = [*made.args.posonlyargs, *made.args.args][0].arg
        fields = _Fields(me, names)
        made.body = [fields.visit(s) for s in made.body if not _is_base_call(s)]
        end = made.body[-1] if made.body else made
        given = ast.Call(ast.Constant(Made(self.kind)), [], [ast.keyword(n, ast.Name(fields.variable(n), ast.Load())) for n in names])
        made.body.append(ast.fix_missing_locations(ast.copy_location(ast.Return(given), end)))
        return made


class _Fields(ast.NodeTransformer):
    def __init__(self, me: str, names: tuple[str, ...]) -> None:
        self.me, self.names = me, names

    def variable(self, name: str) -> str:
        return f"{name}_of_{self.me}__"

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        if isinstance(node.value, ast.Name) and node.value.id == self.me and node.attr in self.names:
            return ast.copy_location(ast.Name(self.variable(node.attr), node.ctx), node)
        return self.generic_visit(node)


def unmade(kind: type) -> Unmade | str:
    """How objects of a class are made; else why not."""
    if kind not in _FOUND:
        _FOUND[kind] = _found(kind)
    return _FOUND[kind]


def _found(kind: type) -> Unmade | str:
    init = kind.__init__
    if not isinstance(init, types.FunctionType) or type(kind) is not type or kind in REGISTERED or kind.__new__ is not object.__new__ or \
            kind.__setattr__ is not object.__setattr__ or kind.__getattribute__ is not object.__getattribute__:
        return "it is not known what its __init__ does"
    node, _ = source_of(init)
    args = [*node.args.posonlyargs, *node.args.args]
    if not args:
        return "its __init__ has no self"
    me, inside = args[0].arg, [n for s in node.body if not _is_base_call(s) for n in ast.walk(s)]
    if any(_is_base_call(s) for s in node.body) and next(c for c in kind.__mro__[kind.__mro__.index(_owner(kind)) + 1:] if "__init__" in vars(c)) is not object:
        return "its __init__ calls that of another class"
    own = [n for n in inside if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id == me]
    names = tuple(dict.fromkeys(n.attr for n in sorted(own, key=position) if isinstance(n.ctx, ast.Store)))
    if any(isinstance(n, (ast.Return, ast.Delete, ast.Nonlocal, ast.Global)) for n in inside):
        return "its __init__ does more than bind fields"
    if not names or any(isinstance(inspected := getattr(kind, n, None), property) or hasattr(inspected, "__set__") for n in names):
        return "its __init__ binds no fields"
    if sum(isinstance(n, ast.Name) and n.id == me for n in inside) != sum(n.attr in names for n in own):
        return f"its __init__ uses {me} for more than its fields"
    return Unmade(kind, init, names)


def _owner(kind: type) -> type:
    return next(c for c in kind.__mro__ if "__init__" in vars(c))


def _is_base_call(s: Any) -> bool:
    """super().__init__()"""
    return isinstance(s, ast.Expr) and base_call(s.value, "__init__")
