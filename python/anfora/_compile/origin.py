# SPDX-License-Identifier: Apache-2.0
"""The source of a function: its syntax tree, from a file, a notebook, standard input, python -c or what was typed at a prompt."""
from __future__ import annotations

import ast
import linecache
import os
import stat
import sys
import threading
import types
from typing import Any

from .._errors import CompileError, Finding
from .bases import with_bases
from .names import position

_PARSED: dict[str, tuple[tuple, ast.Module]] = {}
# CPython 3.11 counts the depth of a tree for all threads together: two that parse at once end in a SystemError (gh-106905).
_PARSING = threading.Lock()


def _tree_of(file: str) -> ast.Module | None:
    lines = tuple(linecache.getlines(file))
    if not lines and file == "<stdin>":
        lines = _standard_input()
    if not lines and file == "<string>" and "-c" in sys.orig_argv[:-1]:  # python -c
        lines = tuple(sys.orig_argv[sys.orig_argv.index("-c") + 1].splitlines(True))
    if not lines:
        return None
    with _PARSING:
        known = _PARSED.get(file)
        if known is None or known[0] != lines:
            known = _PARSED[file] = (lines, ast.parse("".join(lines), file))
        return known[1]


def _standard_input() -> tuple:
    """The lines of a program that Python reads from a file as its standard input."""
    try:
        size = os.fstat(0).st_size if stat.S_ISREG(os.fstat(0).st_mode) else 0
        return tuple(os.pread(0, size, 0).decode().splitlines(True))
    except (OSError, UnicodeDecodeError):
        return ()


MOST_TYPED = 400  # lines of what was typed at a prompt that are looked through


def _typed(code: types.CodeType) -> ast.Module | None:
    """What was typed at >>>, from the history of the prompt: the last statement that gives the same code."""
    readline = sys.modules.get("readline")
    if readline is None:
        return None
    n = readline.get_current_history_length()
    lines = [readline.get_history_item(i) or "" for i in range(max(1, n - MOST_TYPED), n + 1)]
    for first in range(len(lines) - 1, -1, -1):
        for last in range(first + 1, min(len(lines), first + 100) + 1):
            if last < len(lines) and lines[last][:1] in (" ", "\t"):
                continue  # the statement goes on
            text = "\n".join(lines[first:last]) + "\n"
            try:
                with _PARSING:
                    tree = ast.parse(text, "<stdin>")
                whole = compile(tree, "<stdin>", "exec", dont_inherit=True)
            except (SyntaxError, ValueError):
                continue
            if any(c.co_name == code.co_name and c == code for c in _codes(whole)):
                return tree
    return None


def _codes(code: types.CodeType) -> Any:
    yield code
    for c in code.co_consts:
        if isinstance(c, types.CodeType):
            yield from _codes(c)


def _is_within(code: types.CodeType, node: Any) -> bool:
    """Whether all instructions of the code stand within the node."""
    start, end = position(node), (node.end_lineno, node.end_col_offset)
    spans = [p for p in code.co_positions() if None not in p and (p[2], p[3]) != (0, 0)]
    return all(start <= (p[0], p[2]) and (p[1], p[3]) <= end for p in spans)


def source_of(fn: types.FunctionType) -> tuple[Any, str]:
    """The syntax tree of a function, with places of its file, and the file."""
    code = fn.__code__
    file = code.co_filename
    linecache.checkcache(file)
    tree = (_typed(code) if file == "<stdin>" else None) or _tree_of(file)
    if tree is None:
        raise CompileError([_no_source(fn)], "ANF_UNSUPPORTED")
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if first == code.co_firstlineno:
                return with_bases(fn, node, source_of), file
        elif isinstance(node, ast.Lambda) and code.co_name == "<lambda>" and node.lineno == code.co_firstlineno:
            found.append(node)
    # several in one line, or one in another: the innermost that all the code is within
    found = sorted((n for n in found if _is_within(code, n.body)), key=position, reverse=True)
    if not found:
        raise CompileError([_no_source(fn)], "ANF_UNSUPPORTED")
    return found[0], file


def _no_source(fn: types.FunctionType) -> Any:
    return Finding("", f"the source of {fn.__name__} cannot be read",
                   hint="define it in a file or in a notebook; functions made by exec have no source")
