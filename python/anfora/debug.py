# SPDX-License-Identifier: Apache-2.0
"""Printing by the names of jax.debug: debug.print("x = {x}", x=x) prints when the function runs."""
from __future__ import annotations

import ast
import builtins
from typing import Any

from ._compile.static import BUILTINS, Call

__all__ = ["print"]


def print(fmt: str, *args: Any, ordered: bool = True, **kwargs: Any) -> None:  # noqa: A001: JAX's name
    """Prints a text with values; in compiled functions as `print` there does, in the order of the program."""
    builtins.print(fmt.format(*args, **kwargs))


def _emit_print(w: Any, c: Any) -> str:
    known, text = w.static(c.args[0]) if c.args else (False, None)
    if not known or not isinstance(text, str):
        w.refuse(c.node, "debug.print() takes a text that is known when the function is compiled, and values", "write debug.print(\"x = {}\", x)")
    try:  # the fields are those that are given
        text.format(*(_Any() for _ in c.args[1:]), **{k: _Any() for k in c.kw})
    except (LookupError, ValueError) as e:
        w.refuse(c.args[0], f"{type(e).__name__}: {e}", "name the values that are given")
    given = [ast.keyword(name, node) for name, node in c.kw.items() if name != "ordered"]
    said = ast.Call(ast.Attribute(ast.Constant(text), "format", ast.Load()), c.args[1:], given)
    call = ast.fix_missing_locations(ast.copy_location(ast.Call(ast.Name("print", ast.Load()), [said], []), c.node))
    return BUILTINS[builtins.print](w, Call(call, builtins.print, True))


class _Any:
    """Stands for a value of which a text may name fields and parts."""

    def __getattr__(self, _name: str) -> "_Any":
        return self

    def __getitem__(self, _key: Any) -> "_Any":
        return self

    def __format__(self, _spec: str) -> str:
        return ""


BUILTINS[print] = _emit_print
