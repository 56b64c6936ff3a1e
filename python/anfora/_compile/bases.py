# SPDX-License-Identifier: Apache-2.0
"""super() in methods of classes with one base each, whose order of classes is the same for all objects.

    class B(A):                                  A.f is a function as others; A.__init__ stands where it is called:
        def __init__(self, k, n):                def __init__(self, k, n):
            super().__init__(k)                      k_of_A__ = k
            self.n = n                               self.k = k_of_A__
        def f(self, x):                              self.n = n
            return super().f(x) + self.n         def f(self, x): return A.f(self, x) + self.n"""
from __future__ import annotations

import ast
import copy
import inspect
import types
from typing import Any, Callable

_WITHIN = (ast.FunctionDef, ast.Lambda, ast.ClassDef, ast.ListComp, ast.GeneratorExp, ast.DictComp, ast.SetComp, ast.Return)
_PLAIN = (int, float, complex, str, tuple, type(None))


def base_call(node: Any, name: str = "") -> bool:
    """super().name(...)"""
    f = node.func if isinstance(node, ast.Call) else None
    of = f.value if isinstance(f, ast.Attribute) and name in ("", f.attr) else None
    return isinstance(of, ast.Call) and not of.args and not of.keywords and getattr(of.func, "id", "") == "super"


def with_bases(fn: types.FunctionType, node: Any, source_of: Callable) -> Any:
    """The method with what its calls of super() mean; those of which this is not known stay."""
    if "__class__" not in fn.__code__.co_freevars or not isinstance(node, ast.FunctionDef) or not node.args.args:
        return node
    owner = dict(zip(fn.__code__.co_freevars, fn.__closure__ or ()))["__class__"].cell_contents
    if any(len(c.__bases__) > 1 for c in owner.__mro__):
        return node
    made = copy.deepcopy(node)
    me = made.args.args[0].arg
    if fn.__name__ == "__init__":
        made.body = [x for s in made.body for x in _initialised(s, owner, me, fn, source_of)]
    return _Methods(owner, me).visit(made)


def _above(owner: type, name: str) -> Any:
    return next((vars(c)[name] for c in owner.__mro__[1:] if name in vars(c)), None)


class _Methods(ast.NodeTransformer):
    def __init__(self, owner: type, me: str) -> None:
        self.owner, self.me = owner, me

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        f = _above(self.owner, node.func.attr) if base_call(node) and node.func.attr != "__init__" else None
        if not isinstance(f, types.FunctionType):
            return node
        me = ast.copy_location(ast.Name(self.me, ast.Load()), node)
        return ast.copy_location(ast.Call(ast.copy_location(ast.Constant(f), node), [me, *node.args], node.keywords), node)


class _Renamed(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> Any:
        return ast.copy_location(ast.Name(self.names.get(node.id, node.id), node.ctx), node)


def _initialised(s: Any, owner: type, me: str, fn: types.FunctionType, source_of: Callable) -> list:
    """The statements that super().__init__(...) runs; the statement itself if they cannot stand in its place."""
    init = _above(owner, "__init__") if isinstance(s, ast.Expr) and base_call(s.value, "__init__") else None
    if init is object.__init__ and not s.value.args and not s.value.keywords:
        return [ast.copy_location(ast.Pass(), s)]
    if not isinstance(init, types.FunctionType) or init.__globals__ is not fn.__globals__ or init.__code__.co_filename != fn.__code__.co_filename or \
            not {"__class__"}.issuperset(init.__code__.co_freevars):
        return [s]
    node, _ = source_of(init)
    given = _arguments(init, node, s.value)
    if given is None or any(isinstance(n, _WITHIN) for b in node.body for n in ast.walk(b)):
        return [s]
    own = {n.id for b in node.body for n in ast.walk(b) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    base = init.__qualname__.split(".")[-2]
    names = {n: f"{n}_of_{base}__" for n in (*own, *given)} | {node.args.args[0].arg: me}
    outside = {n.id for b in node.body for n in ast.walk(b) if isinstance(n, ast.Name)} - names.keys()
    if outside & {*fn.__code__.co_varnames, *fn.__code__.co_cellvars, *fn.__code__.co_freevars}:  # they would mean something else
        return [s]
    bound = [ast.Assign([ast.Name(names[n], ast.Store())], v) for n, v in given.items()]
    body = [_Renamed(names).visit(copy.deepcopy(b)) for b in node.body]
    return [*(ast.fix_missing_locations(ast.copy_location(b, s)) for b in bound), *body]


def _arguments(init: types.FunctionType, node: Any, call: ast.Call) -> dict[str, Any] | None:
    """What the parameters of __init__ are bound to; None: it is not known."""
    args = node.args
    if args.vararg or args.kwarg or not args.args or any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
        return None
    signature = inspect.signature(init)
    try:
        given = dict(signature.bind(None, *call.args, **{str(k.arg): k.value for k in call.keywords}).arguments)
    except TypeError:
        return None
    found = {}
    for name in [*signature.parameters][1:]:
        default = signature.parameters[name].default
        if name not in given and not isinstance(default, _PLAIN):
            return None
        found[name] = given[name] if name in given else ast.copy_location(ast.Constant(default), call)
    return found
