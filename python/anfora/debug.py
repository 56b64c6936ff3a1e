# SPDX-License-Identifier: Apache-2.0
"""Printing by the names of jax.debug: debug.print("x = {x}", x=x) prints when the function runs."""
from __future__ import annotations

import ast
import builtins
import string
from typing import Any

from ._compile.static import BUILTINS, Call

__all__ = ["print"]


def print(fmt: str, *args: Any, ordered: bool = True, **kwargs: Any) -> None:  # noqa: A001: JAX's name
    """Prints a text with values; in compiled functions as `print` there does, in the order of the program."""
    builtins.print(fmt.format(*args, **kwargs))


def _emit_print(w: Any, c: Any) -> str:
    kw = {name: node for name, node in c.kw.items() if name != "ordered"}
    known, text = w.static(c.args[0]) if c.args else (False, None)
    if not known or not isinstance(text, str):
        w.refuse(c.node, "debug.print() takes a text that is known when the function is compiled, and values", "write debug.print(\"x = {}\", x)")
    parts, count = [], 0
    for literal, field, _, _ in string.Formatter().parse(text):
        if literal.strip():
            parts.append(ast.copy_location(ast.Constant(literal.strip()), c.node))
        if field is None:
            continue
        place = field or str(count)
        count += not field
        given = c.args[1:][int(place)] if place.isdigit() and int(place) < len(c.args) - 1 else kw.get(place)
        if given is None:
            w.refuse(c.args[0], f"debug.print() is given no value for {{{field}}}", "name a value that is given, without its fields and parts")
        parts.append(given)
    call = ast.Call(ast.Name("print", ast.Load()), parts, [])
    return BUILTINS[builtins.print](w, Call(ast.copy_location(call, c.node), builtins.print, True))


BUILTINS[print] = _emit_print
