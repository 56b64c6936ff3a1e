# SPDX-License-Identifier: Apache-2.0
"""Ranges whose ends are not known when code is made, where no loop goes through them:

    sum(range(a, b))                  range_sum(a, b, 1), and so max and min
    x in range(n)                     in_range(x, 0, n, 1)
    for i in range(n)[::2]            for i in range(0, n, 2)
    range(n)[k]                       range_item(0, n, 1, k)
    list(range(n)), tuple(range(n))   [i for i in range(n)]
"""
from __future__ import annotations

import ast
import builtins
import copy
from typing import Any

from .windows import call as library_call

_REDUCED = {builtins.sum: "range_sum", builtins.max: "range_max", builtins.min: "range_min"}


def ends(sugar: Any, node: Any) -> list[Any] | None:
    """(start, stop, step) of range(...), of which the step is a constant and something is not known; None: it is another thing."""
    if not sugar.is_call(node, builtins.range) or node.keywords or not 1 <= len(node.args) <= 3 or all(sugar.resolve(a)[0] for a in node.args):
        return None
    start, stop = (node.args[0], node.args[1]) if len(node.args) > 1 else (ast.Constant(0), node.args[0])
    step = node.args[2] if len(node.args) == 3 else ast.Constant(1)
    known, x = sugar.resolve(step) if not isinstance(step, ast.UnaryOp) else (isinstance(step.operand, ast.Constant) and isinstance(step.op, ast.USub), None)
    x = -step.operand.value if known and isinstance(step, ast.UnaryOp) else x  # type: ignore[attr-defined]
    return [start, stop, ast.Constant(x)] if known and type(x) is int and x != 0 else None


def reduced(sugar: Any, node: ast.Call) -> ast.Call | None:
    """sum(range(...)), max and min of it."""
    if len(node.args) != 1 or node.keywords or (of := ends(sugar, node.args[0])) is None:
        return None
    name = next((n for f, n in _REDUCED.items() if sugar.is_call(node, f)), None)
    return None if name is None else library_call(node, name, of)


def contained(sugar: Any, node: ast.Compare) -> Any:
    """x in range(...)"""
    if len(node.ops) != 1 or not isinstance(node.ops[0], (ast.In, ast.NotIn)) or (of := ends(sugar, node.comparators[0])) is None:
        return None
    found = library_call(node, "in_range", [node.left, *of])
    return found if isinstance(node.ops[0], ast.In) else ast.UnaryOp(ast.Not(), found)


def part(sugar: Any, node: ast.Subscript) -> Any:
    """range(...)[k] and range(a, b)[i:j:k], whose bounds are constants."""
    if (known := sugar.written_range(node.value)) is not None and isinstance(node.slice, ast.Slice):
        bounds = [_constant(b) for b in (node.slice.lower, node.slice.upper, node.slice.step)]
        cut = known[slice(*(b[0] for b in bounds))] if None not in bounds and bounds[2] != (0,) else None  # type: ignore[index]
        return None if cut is None else ast.Call(node.value.func, [ast.Constant(x) for x in (cut.start, cut.stop, cut.step)], [])  # type: ignore[attr-defined]
    if (of := ends(sugar, node.value)) is None or not isinstance(node.ctx, ast.Load):
        return None
    if not isinstance(node.slice, ast.Slice):
        return library_call(node, "range_item", [*of, node.slice])
    bounds = [_constant(b) for b in (node.slice.lower, node.slice.upper, node.slice.step)]
    if None in bounds or of[2].value != 1 or not all(isinstance(e, (ast.Name, ast.Constant)) for e in of[:2]) or bounds[2] == (0,):
        return None
    (low,), (high,), (step,) = bounds  # type: ignore[misc]
    made = [library_call(node, "range_bound", [*copy.deepcopy(of[:2])], at=at, back=(step or 1) < 0, last=last) for at, last in ((low, False), (high, True))]
    return ast.Call(node.value.func, [*made, ast.Constant(step or 1)], [])  # type: ignore[attr-defined]


def _constant(node: Any) -> tuple | None:
    """The integer that a bound is, or that there is none."""
    sign = -1 if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else 1
    node = node.operand if sign < 0 else node
    if node is None:
        return (None,)
    return (sign * node.value,) if isinstance(node, ast.Constant) and type(node.value) is int else None
