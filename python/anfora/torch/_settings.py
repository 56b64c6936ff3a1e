# SPDX-License-Identifier: Apache-2.0
"""Numbers of an optimizer's groups that a program takes as inputs: those that changed between steps, as schedulers change momentum.
Where the optimizer branches on one (`if momentum != 0`), the trace takes the branch of its value then, and the program serves all values
that take the same one."""
from __future__ import annotations

from typing import Any

import sympy
import torch

Place = tuple  # (number of the group, name, place in a tuple or None)

FIXED = ("params", "lr", "initial_lr", "max_lr", "min_lr", "max_momentum", "base_momentum", "swa_lr")  # of schedulers, or inputs anyway


def numbers(optimizer: Any) -> dict:
    """The real numbers among the settings, by place."""
    found = {}
    for i, group in enumerate(optimizer.param_groups):
        for name, value in group.items():
            if name not in FIXED:
                for k, v in enumerate(value) if isinstance(value, (tuple, list)) else [(None, value)]:
                    if type(v) is float:
                        found[i, name, k] = v
    return found


def others(optimizer: Any) -> tuple:
    """The settings that are no real numbers."""
    plain = lambda v: tuple(type(x) if type(x) is float else x for x in v) if isinstance(v, (tuple, list)) else type(v) if type(v) is float else v  # noqa: E731
    return tuple((name, plain(v)) for g in optimizer.param_groups for name, v in g.items() if name not in FIXED)


def put(group: dict, number: int, values: dict) -> dict:
    """The group with these values at their places."""
    group = dict(group)
    for (i, name, k), v in values.items():
        if i == number:
            group[name] = v if k is None else tuple(v if j == k else x for j, x in enumerate(group[name]))
    return group


class Branches:
    """What a trace takes the inputs for where it has to decide, and what it decided."""

    def __init__(self, values: dict) -> None:
        self.values = values
        self.traces: list = []  # (ShapeEnv, its symbols in the order of the values)

    def settle(self, tensors: list) -> dict:
        """The numbers in these tensors of a trace, by place."""
        made, symbols = {}, []
        for place, t in zip(self.values, tensors):
            made[place] = number = t.item()
            env, symbol = number.node.shape_env, number.node.expr
            env.backed_var_to_val[symbol] = sympy.Float(self.values[place])
            symbols.append(symbol)
            if len(symbols) == 1:
                self.traces.append((env, symbols))
        return made

    def hold(self, values: dict) -> bool:
        """Are the decisions the same for these values?"""
        for env, symbols in self.traces:
            at = dict(zip(symbols, map(sympy.Float, values.values())))
            for guard in env.guards:
                if guard.expr.free_symbols <= at.keys() and not guard.expr.subs(at):
                    return False
        return True
