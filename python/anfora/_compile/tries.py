# SPDX-License-Identifier: Apache-2.0
"""try and except, where a condition says whether the error comes:

    try: y = xs[i] * 2                    if -len(xs) <= i < len(xs): y = xs[i] * 2
    except IndexError: y = 0.0            else: y = 0.0

    try: y = a / b                        if b != 0: y = a / b
    except ZeroDivisionError: y = 0.0     else: y = 0.0

    try:                                  if x < 0: y = 0.0
        if x < 0: raise ValueError("x")   else: y = math.sqrt(x)
        y = math.sqrt(x)
    except ValueError: y = 0.0

One statement of arithmetic stands in the first two; the third raises what it catches by itself, and calls functions of libraries alone. Of
arrays a division by zero raises nothing."""
from __future__ import annotations

import ast
import copy
from typing import Any

from .foreign import module_of
from .known import is_structure
from .numbers import is_number
from .static import is_foreign
from .stores import library_name

QUIET = ("len", "abs", "round", "sum", "any", "all", "isinstance", "print")  # of Python's own functions
MOST_RAISES = 4  # what follows each is written twice
_ARITHMETIC = (ast.BinOp, ast.UnaryOp, ast.Name, ast.Constant, ast.Subscript, ast.expr_context, ast.operator, ast.unaryop)
_DIVISIONS = (ast.Div, ast.FloorDiv, ast.Mod)


class Condition:
    """Whether a statement raises no error, as a function that is called where the statement stands."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def _emit_call(self, w: Any, c: Any) -> str:
        return getattr(self, self.__name__)(w, c.node)

    @staticmethod
    def divides(w: Any, node: ast.Call) -> str:
        """(a, b, ...): a / b and so on."""
        for n in node.args:
            if not is_number(w, n):
                w.refuse(n, f"it is not known whether {ast.unparse(n)} is a number of Python: a division of arrays by zero raises nothing",
                         "write a condition: y = a / b if b != 0 else 0.0")
        tests = [ast.Compare(b, [ast.NotEq()], [ast.Constant(0)]) for b in node.args[1::2]]
        return _all(w, node, tests)

    @staticmethod
    def within(w: Any, node: ast.Call) -> str:
        """(xs, i, ...): xs[i] and so on."""
        tests: list = []
        for xs, i in zip(node.args[::2], node.args[1::2]):
            s = w.like(xs)
            if s is None or not (s.kind in ("list", "tuple", "stacked") or s.kind == "leaf" and s.of[1]) or is_structure(w.like(i)):
                w.refuse(xs, f"it is not known whether {ast.unparse(xs)} is a list or an array, whose index is caught", "write a condition: x = xs[i] if i < len(xs) else 0.0")
            n = ast.Call(ast.Constant(len), [xs], [])
            tests += [ast.Compare(ast.UnaryOp(ast.USub(), n), [ast.LtE()], [i]), ast.Compare(i, [ast.Lt()], [copy.deepcopy(n)])]
        return _all(w, node, tests)


def _all(w: Any, node: Any, tests: list) -> str:
    test = tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests)
    for n in ast.walk(test):
        if isinstance(n, ast.expr) and not hasattr(n, "lineno"):
            ast.copy_location(n, node)
    return w.condition(test)


def without_try(node: ast.Try, called: Any) -> list | None:
    """The statements with conditions; None: it is another one."""
    handler = node.handlers[0] if len(node.handlers) == 1 and not node.orelse and not node.finalbody else None
    known, kind = called(handler.type) if handler is not None and handler.type is not None else (False, None)
    if not known or not isinstance(kind, type) or handler is None or any(isinstance(n, ast.Raise) and n.exc is None for s in handler.body for n in ast.walk(s)) or \
            handler.name and any(isinstance(n, ast.Name) and n.id == handler.name for s in handler.body for n in ast.walk(s)):
        return None
    if kind in (IndexError, ZeroDivisionError):
        return _tested(node, handler, kind)
    own = kind in (ValueError, RuntimeError) or kind.__module__ != "builtins" and issubclass(kind, Exception)
    raises = [n for s in node.body for n in ast.walk(s) if isinstance(n, ast.Raise)]
    if not own or not 0 < len(raises) <= MOST_RAISES or not all(_is_quiet(n, called) for s in node.body for n in ast.walk(s)):
        return None
    return _tails(node.body, handler, kind, called)


def _tested(node: ast.Try, handler: ast.ExceptHandler, kind: type) -> list | None:
    s = node.body[0]
    value = s.value if len(node.body) == 1 and isinstance(s, (ast.Assign, ast.Return)) else None
    plain = isinstance(s, ast.Return) or isinstance(s, ast.Assign) and all(isinstance(t, ast.Name) for t in s.targets)
    if value is None or not plain or not all(isinstance(n, _ARITHMETIC) for n in ast.walk(value)):
        return None
    divisions = [n for n in ast.walk(value) if isinstance(n, ast.BinOp) and isinstance(n.op, _DIVISIONS)]
    items = [n for n in ast.walk(value) if isinstance(n, ast.Subscript)]
    if kind is ZeroDivisionError:
        if any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.Pow) for n in ast.walk(value)):
            return None  # 0 ** -1
        name, parts = "divides", [x for n in divisions for x in (n.left, n.right)]
        if any(isinstance(n, ast.BinOp) and isinstance(n.op, _DIVISIONS) for d in divisions for x in (d.left, d.right) for n in ast.walk(x)):
            return None  # a divisor that is divided itself
    else:
        name, parts = "within", [x for n in items for x in (n.value, n.slice)]
        if any(isinstance(n, ast.Subscript) for x in items for part in (x.value, x.slice) for n in ast.walk(part)):
            return None
    if not parts:
        return None
    test = ast.copy_location(ast.Call(ast.copy_location(ast.Constant(Condition(name)), value), copy.deepcopy(parts), []), value)
    return [ast.copy_location(ast.If(test, node.body, handler.body), node)]


def _is_quiet(n: Any, called: Any) -> bool:
    """Whether a part of a statement raises nothing by itself that the statement may catch."""
    if isinstance(n, (ast.Try, ast.With, ast.FunctionDef, ast.Lambda, ast.Assert, ast.Yield, ast.YieldFrom, ast.LShift, ast.RShift, ast.Starred)):
        return False
    if isinstance(n, (ast.Assign, ast.For)):  # items for several names
        targets, value = (n.targets, n.value) if isinstance(n, ast.Assign) else ([n.target], None)
        return all(isinstance(t, (ast.Name, ast.Subscript)) or isinstance(t, ast.Tuple) and isinstance(value, ast.Tuple) and len(t.elts) == len(value.elts) for t in targets)
    if not isinstance(n, ast.Call):
        return True
    known, f = called(n.func)
    return known and (isinstance(f, type) and issubclass(f, BaseException) or library_name(f) in QUIET or is_foreign(f) and module_of(f) != "math" and isinstance(n.func, ast.Attribute))


def _tails(body: list, handler: ast.ExceptHandler, kind: type, called: Any) -> list | None:
    for i, s in enumerate(body):
        raises = [n for n in ast.walk(s) if isinstance(n, ast.Raise)]
        if isinstance(s, ast.Raise):
            exc: Any = s.exc.func if isinstance(s.exc, ast.Call) else s.exc
            known, x = called(exc) if exc is not None and s.cause is None else (False, None)
            if not known or not isinstance(x, type):
                return None
            return [*body[:i], *copy.deepcopy(handler.body)] if issubclass(x, kind) else body[:i + 1]
        if isinstance(s, ast.If) and raises:
            ways = [_tails([*copy.deepcopy(part), *copy.deepcopy(body[i + 1:])], handler, kind, called) for part in (s.body, s.orelse)]
            if ways[0] is None or ways[1] is None:
                return None
            return [*body[:i], ast.copy_location(ast.If(s.test, ways[0] or [ast.copy_location(ast.Pass(), s)], ways[1]), s)]
        if raises:
            return None
    return body
