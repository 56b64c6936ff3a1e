# SPDX-License-Identifier: Apache-2.0
"""raise and assert: an assertion of the program, with a message that says what is known when code is made, and has places for the rest
(explain.py)."""
from __future__ import annotations

import ast
import operator
import re
import string
from typing import Any

from .explain import CLOSE, OPEN
from .known import Part, Said, is_structure
from .numbers import is_number
from .static import static_text


TYPES = ("float64", "float32", "int64", "int32", "bool", "int16", "int8", "uint8", "uint16", "uint32", "uint64", "float16", "complex64", "complex128", "bfloat16")


def type_named(node: Any) -> Any:
    """The name of an element type, x.dtype, as a text that the program has for each type."""
    made: Any = ast.Constant("another type")
    for name in reversed(TYPES):
        made = ast.IfExp(ast.Compare(node, [ast.Eq()], [ast.Constant(name)]), ast.Constant(name), made)
    return ast.fix_missing_locations(ast.copy_location(made, node))


_RAISING = {ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow,
            ast.LShift: operator.lshift, ast.RShift: operator.rshift}


class Raises(Part):
    """The part of the writer for errors of the user."""

    def stmt_Assert(self, node: ast.Assert, indent: str) -> str:
        if self.decided(node.test) == (True, True):
            return ""
        self.shown = []
        why = ", " + static_text(self, node.msg, self.message(node.msg)) if node.msg else ""
        return f"{self.shown_values(indent)}{indent}{self.mark(node)}assert({self.condition(node.test)}{why})\n"

    def stmt_Raise(self, node: ast.Raise, indent: str) -> str:
        """An assertion that fails; what follows it is never reached, and has any type."""
        self.ended = True
        self.shown = []
        why = static_text(self, node, self.raised(node.exc))
        return f"{self.shown_values(indent)}{indent}{self.mark(node)}assert(false, {why})\n{indent}while true {{ }}\n"

    def raising(self, node: Any, error: Exception, text: str) -> str:
        """An expression that raises where it is reached, with the text of its value for the type."""
        self.noted(type(error))
        why = static_text(self, node, f"{type(error).__name__}: {error}")
        return f"(fn () {{ {self.mark(node)}assert(false, {why}); {text} }})()"

    def arithmetic_error(self, node: ast.BinOp) -> Exception | None:
        """What an operation of numbers of Python raises, if that is known: 1 << -1, or n / 0. Of an array a division by 0 gives inf or nan."""
        known, right = self.static(node.right)
        if not known or type(node.op) not in _RAISING or type(right) not in (int, float, bool) or right > 0:
            return None
        known, left = self.static(node.left)
        if not known and right == 0 and type(node.op) in (ast.Div, ast.FloorDiv, ast.Mod) and is_number(self, node.left):
            left = 1.0
        if type(left) not in (int, float, bool):
            return None
        try:
            return _RAISING[type(node.op)](left, right)
        except (ArithmeticError, ValueError) as error:
            return error

    def shown_values(self, indent: str) -> str:
        """Statements that print the values of a message, in a program that explains."""
        self.b.explained |= bool(self.shown)
        return "".join(f"{indent}print({static_text(self, n, OPEN)}, {self.expr(n)})\n" for n in self.shown)

    def raised(self, node: Any) -> str:
        """The message of an exception."""
        if isinstance(node, ast.Call) and self.static(node.func)[0]:
            kind = self.noted(self.static(node.func)[1])
            return f"{getattr(kind, '__name__', kind)}: {self.message(node.args[0])}" if node.args else kind.__name__
        known, x = self.static(node) if node is not None else (True, "raise")
        return getattr(self.noted(x), "__name__", str(x)) if known else "raise"

    def noted(self, kind: Any) -> Any:
        """A class of exceptions, which what the caller meets is of too."""
        if isinstance(kind, type) and issubclass(kind, Exception):
            self.b.raises[kind.__name__] = kind
        return kind

    def message(self, node: Any) -> str:
        """A text; what is only known when the program runs stands in it as it was written."""
        known, x = self.static(node)
        if known and isinstance(x, Said):
            return self.message(x.node)
        if known:
            return str(x)
        joined = self.as_joined(node)
        if joined is not None:
            return "".join(map(self.message, joined))
        if isinstance(node, ast.FormattedValue):
            return self.message_part(node)
        if isinstance(node, ast.JoinedStr):
            parts: list[Any] = node.values
            return "".join(self.message(v) if isinstance(v, ast.Constant) else self.message_part(v) for v in parts)
        if self.b.explains:
            return self.message_part(ast.FormattedValue(node, -1, None))
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.BinOp)) and not is_structure(self.like(node)):
            return "{" + ast.unparse(node) + "}"
        return self.refuse(node, "the message must be a text that is known when the function is compiled")

    def as_joined(self, node: Any) -> list | None:
        """The parts of a text that +, %, .format and str make; None: it is made in another way."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and self.is_text(node):
            return [node.left, node.right]
        if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords and self.static(node.func) in ((True, str), (True, repr)):
            conversion = 114 if self.static(node.func)[1] is repr else -1
            return [ast.copy_location(ast.FormattedValue(node.args[0], conversion, None), node)]
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and isinstance(self.static(node.left)[1], str):
            values = node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]
            pieces: list = re.split(r"%([-+ 0]*\d*(?:\.\d+)?)([a-zA-Z%])", self.static(node.left)[1])
            fields = [(pieces[i], pieces[i + 1]) for i in range(1, len(pieces), 3)]
            given = iter(values)
            if sum(kind != "%" for _, kind in fields) != len(values) or any(kind not in "dfFgGeEsrxi%" for _, kind in fields):
                return None
            out: list = [ast.Constant(pieces[0])]
            for i, (flags, kind) in enumerate(fields):
                out.append(ast.Constant("%") if kind == "%" else self.formatted(next(given), flags, kind, node))
                out.append(ast.Constant(pieces[3 * i + 3]))
            return out
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format" and isinstance(self.static(node.func.value)[1], str):
            return self.of_format(node, self.static(node.func.value)[1])
        return None

    @staticmethod
    def formatted(value: Any, flags: str, kind: str, place: Any) -> ast.FormattedValue:
        """The value of %5.2f as that of {:5.2f}."""
        align = "<" if "-" in flags else ">" if kind in "sr" and flags else ""
        spec = align + flags.replace("-", "") + ("" if kind in "sr" else "d" if kind == "i" else kind)
        node = ast.FormattedValue(value, 114 if kind == "r" else -1, ast.JoinedStr([ast.Constant(spec)]) if spec else None)
        return ast.fix_missing_locations(ast.copy_location(node, place))

    def of_format(self, node: ast.Call, text: str) -> list | None:
        out: list = []
        kw, count = {k.arg: k.value for k in node.keywords}, 0
        for literal, field, spec, conversion in string.Formatter().parse(text):
            out.append(ast.Constant(literal))
            if field is None:
                continue
            value = kw.get(field) if field and not field.isdigit() else dict(enumerate(node.args)).get(int(field or count))
            count += 1
            if value is None or "{" in (spec or ""):
                return None
            made = ast.FormattedValue(value, ord(conversion) if conversion else -1, ast.JoinedStr([ast.Constant(spec)]) if spec else None)
            out.append(ast.fix_missing_locations(ast.copy_location(made, node)))
        return out

    def message_part(self, node: ast.FormattedValue) -> str:
        """A value in a text: itself if it is known; else as it was written, or where an explaining program puts it."""
        known, x = self.static(node)
        if known:
            return x
        spec = "".join(str(self.static(v)[1]) for v in node.format_spec.values) if isinstance(node.format_spec, ast.JoinedStr) else ""
        if not self.b.explains:
            return "{" + ast.unparse(node.value) + (f":{spec}" if spec else "") + "}"
        is_type = isinstance(node.value, ast.Attribute) and node.value.attr == "dtype"  # which is no value of a program
        self.shown.append(type_named(node.value) if is_type else node.value)
        return f"{OPEN}{spec}{CLOSE}"
