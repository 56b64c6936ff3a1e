# SPDX-License-Identifier: Apache-2.0
"""Control flow by JAX's names. It fills CONTROL of composed.py."""
from __future__ import annotations

from typing import Any

from .._ops import op
from .._tree import tree_leaves, tree_map
from .composed import HELPERS, KINDS, controlled, helper

element_kind = HELPERS["element_kind"]
NO_ARRAY = len(KINDS)  # of keys, and of numbers of Python, which have no element type of their own


def absent():
    """Stands for an argument that is not given, where None is one."""


@controlled
def cond(pred, true_fun, false_fun, /, *operands, operand: Any = absent):
    """true_fun(*operands) if pred holds, else false_fun(*operands)."""
    if pred is None:
        raise TypeError("lax.cond chooses by a truth value or a number")
    if operand is not absent:  # None is given, too
        return cond(pred, true_fun, false_fun, operand)
    if pred:
        return true_fun(*operands)
    return false_fun(*operands)


@controlled
def fori_loop(lower, upper, body_fun, init_val, /, unroll=None):
    """state = body_fun(i, state) for each i. `unroll` changes nothing: loops are cut as the machine likes it."""
    for i in range(lower, upper):
        init_val = body_fun(i, init_val)
    return init_val


@controlled
def while_loop(cond_fun, body_fun, init_val, /):
    """state = body_fun(state) while cond_fun(state) holds."""
    while cond_fun(init_val):
        init_val = body_fun(init_val)
    return init_val


@helper
def rows_of_all(xs, /, length=None):
    """How many rows the arrays of a tree have, which have as many."""
    rows = tree_leaves(xs)[0].shape[0]
    for x in tree_leaves(xs):
        if x.shape[0] != rows:
            raise ValueError(f"scan goes through arrays of as many rows, and xs has {rows} and {x.shape[0]}")
    if length is not None and length != rows:
        raise ValueError(f"scan has length={length}, and xs has {rows} rows")
    return rows


@helper
def carried(before, after, /):
    """An array of the state after a round, which has the shape and element type that it had before; a number of Python takes the
    element type that it becomes."""
    if before.shape != after.shape:
        raise TypeError(f"scan: the state has shape {before.shape} before a round and {after.shape} after it, and must keep it: "
                        "begin with zeros of that shape")
    if before.dtype != after.dtype and element_kind(before) != NO_ARRAY and element_kind(after) != NO_ARRAY:
        raise TypeError("scan: the state changes its element type, and must keep it: cast what the function gives, new.astype(old.dtype)")
    return after


@controlled
def scan(f, init, xs=None, /, length=None, reverse=False, unroll=1):
    """(state, y) = f(state, x) for each row x of xs, an array or a tree of arrays, from the last one on if `reverse`; gives
    the state and all y, stacked as the rows are. `unroll` changes nothing: loops are cut as the machine likes it."""
    ys = []
    if init is None:
        return None, scan(lambda _, x: ((), f(None, x)[1]), (), xs, length=length, reverse=reverse)[1]
    if xs is None and length is None:
        raise ValueError("scan needs xs, arrays to go through, or length=")
    elif xs is None:
        for _ in range(op.arange(length).shape[0]):  # a loop of the program, so that its rows are stacked
            before = init
            init, y = f(init, None)
            tree_map(carried, before, init)
            ys.append(y)
    elif tree_leaves(xs)[0].ndim == 0:
        raise ValueError("scan goes through the rows of arrays, and xs is a number")
    elif reverse:
        for i in range(rows_of_all(xs, length)):
            before = init
            init, y = f(init, tree_map(lambda x: x[-1 - i], xs))  # noqa: B023: called at once
            tree_map(carried, before, init)
            ys.append(y)
    else:
        for i in range(rows_of_all(xs, length)):
            before = init
            init, y = f(init, tree_map(lambda x: x[i], xs))  # noqa: B023: called at once
            tree_map(carried, before, init)
            ys.append(y)
    return init, tree_map(lambda y: op.flip(y, 0), ys) if reverse else ys
