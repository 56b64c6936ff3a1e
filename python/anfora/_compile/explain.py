# SPDX-License-Identifier: Apache-2.0
"""Messages with values in them: raise ValueError(f"{x} is too large"). Compiled code stops with the text as it was written;
then the function runs once more as a program that prints the values first, and they are put in."""
from __future__ import annotations

import ast
import contextlib
import io
import re
from typing import Any

from .emit import Builder
from .._errors import AnforaError

OPEN, CLOSE = "\ue004", "\ue005"  # around what is known of a value's format, in a message; before a value, where it is printed


def with_values(function: Any, error: AnforaError, args: tuple) -> AnforaError:
    """The error with values in its messages, if they have places for some and the second run ends there too."""
    if not any("{" in f.message for f in error.findings):
        return error
    b = Builder()
    b.explains = True
    shapes, statics = function._shapes(args)
    out = io.StringIO()
    try:
        program = b.program(*function._root(b, statics, shapes), f"<{function.__name__}>")
        if not program.explains:
            return error
        casts = function._fit(shapes, statics)
        with contextlib.redirect_stdout(out):
            function._run_once(program, args, statics, casts, [s for i, s in enumerate(shapes) if i not in statics])
    except AnforaError as second:
        values = out.getvalue().split(OPEN)[1:]
        if any(len(re.findall(OPEN, f.message)) > len(values) for f in second.findings):
            return error
        for f in second.findings:
            f.message = _filled(f.message, values)
        return type(error)(second.findings, second.status)
    return error


def _filled(message: str, values: list[str]) -> str:
    places = re.findall(f"{OPEN}([^{CLOSE}]*){CLOSE}", message)
    last = iter(values[len(values) - len(places):])
    return re.sub(f"{OPEN}([^{CLOSE}]*){CLOSE}", lambda m: _formatted(next(last).strip(), m[1]), message)


def _formatted(text: str, spec: str) -> str:
    try:
        return format(ast.literal_eval(text), spec)
    except (ValueError, SyntaxError, TypeError):
        return text
