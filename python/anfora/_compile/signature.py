# SPDX-License-Identifier: Apache-2.0
"""Calls of functions whose parameters Python knows: a call that Python would refuse is refused, whatever takes its place."""
from __future__ import annotations

import ast
import inspect
from typing import Any

# Builtins that tell nothing of their parameters: the least and the most positional arguments, and whether keywords are taken.
_COUNTS = {range: (1, 3, False), min: (1, None, True), max: (1, None, True), zip: (0, None, True), map: (2, None, False), filter: (2, 2, False),
           int: (0, 2, True), float: (0, 1, False), bool: (0, 1, False), list: (0, 1, False), tuple: (0, 1, False),
           enumerate: (1, 2, True), reversed: (1, 1, False), isinstance: (2, 2, False)}


def refusal(f: Any, args: list, kw: dict[str, Any]) -> str | None:
    """Why Python would not call a builtin or a function of NumPy with so many arguments and these keywords; None: it would, or it is
    not known."""
    name = getattr(f, "__name__", "it")
    try:
        counts = _COUNTS.get(f)
    except TypeError:  # not hashable
        return None
    if counts:
        least, most, keywords = counts
        if len(args) < least or (most is not None and len(args) > most):
            return f"{name}() takes {_range(least, most)}, and is given {len(args)}"
        return f"{name}() takes no keywords" if kw and not keywords else None
    if not _is_plain(f):
        return None
    try:
        inspect.signature(f).bind(*args, **kw)
    except TypeError as e:
        return f"{name}(): {e}"
    except ValueError:  # it tells nothing
        return None
    return None


def enumerated(call: ast.Call) -> tuple[ast.expr, ast.expr | None] | None:
    """What enumerate goes through, and the number of the first item if it is given; None: Python would not call it so."""
    kw: dict[Any, Any] = {k.arg: k.value for k in call.keywords}
    names = ["iterable", "start"]
    if len(call.args) > 2 or kw.keys() - names[len(call.args):] or any(isinstance(a, ast.Starred) for a in call.args):
        return None
    given = dict(zip(names, call.args)) | kw
    return (given["iterable"], given.get("start")) if "iterable" in given else None


def is_strict(w: Any, call: ast.Call) -> bool:
    """Whether zip is to refuse parts of other lengths; other arguments by name are refused."""
    for k in call.keywords:
        known, strict = w.static(k.value)
        if k.arg != "strict" or not known:
            w.refuse(call, "zip takes strict alone by name, which must be known when the function is compiled")
        return bool(strict)
    return False


def _range(least: int, most: int | None) -> str:
    return f"{least} argument{'s' * (least != 1)}" if least == most else f"at least {least}" if most is None else f"{least} to {most} arguments"


def _is_plain(f: Any) -> bool:
    """A function of builtins, math or NumPy; its place's other functions check their own."""
    module = getattr(f, "__module__", None) or ""
    return callable(f) and not isinstance(f, type) and module.split(".")[0] in ("builtins", "math", "numpy")
