# SPDX-License-Identifier: Apache-2.0
"""Values that nothing reads. Python computes them, and raises where it cannot; the language leaves out what no result needs, with the
errors in it.

    x[7]                 assert(len((x[7],)) == 1)        the value has a type, or the error is found here
    y = x.nope           y = x.nope; assert(len((y,)) == 1)

The assertion holds whatever the value is, as soon as its type is known, so no code remains of it and of what it reads."""
from __future__ import annotations

import ast
import re
from collections import Counter
from typing import Any

from .emit import END, MARK
from .known import Part
from .liveness import functions_within, live_after
from .names import chain

_MARKS = f"(?:{MARK}[0-9]+{END})*"


class Unread(Part):
    """The part of the writer for values that nothing reads."""

    read_in: dict[int, tuple]

    def typed_once(self, node: Any, text: str, indent: str) -> str:
        """A statement that finds the type of what the text gives."""
        return f"{indent}{self.mark(node)}assert(len(({text},)) == 1)\n"

    def stands_alone(self, node: Any, indent: str) -> str:
        """An expression as a statement."""
        known, f = self.static(node.func) if isinstance(node, ast.Call) else (False, None)
        if known and f is print:
            return f"{indent}{self.expr(node)}\n"
        return self.typed_once(node, self.expr(node), indent)

    def after_unread(self, node: Any, text: str, indent: str) -> str:
        """Behind a statement that binds or changes names: what finds the types of those that nothing reads."""
        return "".join(self.typed_once(node, self.local(n), indent) for n in dict.fromkeys(t.id for t in touched(node))
                       if re.search(f"^{indent}{_MARKS}{re.escape(self.local(n))} = ", text, re.M) and self.is_unread(n, node))

    def is_unread(self, name: str, statement: Any) -> bool:
        of = self.scope.node
        if not isinstance(of, ast.FunctionDef) or name.endswith("__"):  # names of ours
            return False
        if id(of) not in self.read_in:
            self.read_in[id(of)] = of, functions_within(of), *_read(of)
        _, within, read, again = self.read_in[id(of)]
        return name not in read or name in again and not live_after(of, statement, name, within)


def touched(node: Any) -> list[ast.Name]:
    """What a statement binds, or changes items of: x and y of x, y[i] = 1, 2 and xs of xs.append(1)."""
    if isinstance(node, ast.Expr):
        of = node.value.func.value if isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute) else None
        return [of] if isinstance(of, ast.Name) else []
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, (ast.AugAssign, ast.AnnAssign)) else []
    return [of for t in targets for e in _parts(t) if isinstance(of := chain(e)[0], ast.Name)]


def _parts(target: Any) -> list:
    if isinstance(target, (ast.Tuple, ast.List)):
        return [p for e in target.elts for p in _parts(e)]
    return [target.value if isinstance(target, ast.Starred) else target]


def _read(function: Any) -> tuple[set[str], set[str]]:
    """Names that a function and those within it read, other than to change items; names that are bound or changed more than once."""
    nodes = list(ast.walk(function))
    changes = [t for n in nodes if isinstance(n, ast.stmt) for t in touched(n)]
    reads = Counter(n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Store))
    reads.subtract(t.id for t in changes if not isinstance(t.ctx, ast.Store))
    outside = {x for n in nodes if isinstance(n, (ast.Global, ast.Nonlocal)) for x in n.names}
    return outside | {x for x, k in reads.items() if k > 0}, {x for x, k in Counter(t.id for t in changes).items() if k > 1}
