# SPDX-License-Identifier: Apache-2.0
"""Functions of the module operator: operator.add(a, b) is a + b, and as a value a lambda that computes it."""
from __future__ import annotations

import ast
import operator
from typing import Any

_BINARY = {
    operator.add: ast.Add, operator.sub: ast.Sub, operator.mul: ast.Mult, operator.truediv: ast.Div, operator.floordiv: ast.FloorDiv,
    operator.mod: ast.Mod, operator.pow: ast.Pow, operator.matmul: ast.MatMult, operator.lshift: ast.LShift, operator.rshift: ast.RShift,
    operator.and_: ast.BitAnd, operator.or_: ast.BitOr, operator.xor: ast.BitXor,
}
_COMPARED = {
    operator.lt: ast.Lt, operator.le: ast.LtE, operator.eq: ast.Eq, operator.ne: ast.NotEq, operator.gt: ast.Gt, operator.ge: ast.GtE,
}
_UNARY = {operator.neg: ast.USub, operator.pos: ast.UAdd, operator.invert: ast.Invert, operator.not_: ast.Not}


def is_operator(f: Any) -> bool:
    return getattr(f, "__module__", None) == "_operator" and not isinstance(f, type) and \
        (f in _BINARY or f in _COMPARED or f in _UNARY or f is operator.getitem)


def written(f: Any, args: list, place: Any) -> Any:
    """The expression that a call means; None: it has other arguments."""
    made: Any = None
    if len(args) == 2:
        a, b = args
        if f in _BINARY:
            made = ast.BinOp(a, _BINARY[f](), b)
        elif f in _COMPARED:
            made = ast.Compare(a, [_COMPARED[f]()], [b])
        elif f is operator.getitem:
            made = ast.Subscript(a, b, ast.Load())
    elif len(args) == 1 and f in _UNARY:
        made = ast.UnaryOp(_UNARY[f](), args[0])
    return None if made is None else ast.copy_location(made, place)


def as_value(f: Any, place: Any) -> ast.Lambda:
    """The function as a lambda."""
    names = ["a"] if f in _UNARY else ["a", "b"]
    args = ast.arguments(posonlyargs=[], args=[ast.arg(n) for n in names], kwonlyargs=[], kw_defaults=[], defaults=[])
    body = written(f, [ast.Name(n, ast.Load()) for n in names], place)
    whole = ast.copy_location(ast.Lambda(args, body), place)
    for n in ast.walk(whole):
        if not hasattr(n, "lineno"):
            ast.copy_location(n, place)
    return whole
