# SPDX-License-Identifier: Apache-2.0
"""Values that nothing reads. Python computes them, and raises where it cannot; the language leaves out what no result needs, with the
errors in it.

    x[7]                 assert(len((x[7],)) == 1)        the value has a type, or the error is found here
    y = x.nope           y = x.nope; assert(len((y,)) == 1)

The assertion holds whatever the value is, as soon as its type is known, so no code remains of it and of what it reads. What Python may not
compute is left as it is, for types would be found, and refused, of what never runs: what branches, loops and functions of the user decide.
Where a size is not known without values, the program is written again without assertions (Function._needs_no_checks)."""
from __future__ import annotations

import ast
import re
from collections import Counter
from typing import Any

from .._errors import CompileError
from .emit import END, MARK
from .foreign import ROOTS
from .fields import method_of
from .known import Part
from .match import at
from .liveness import blocks_of, functions_within, live_after, way_to
from .names import chain

_MARKS = f"(?:{MARK}[0-9]+{END})*"
_BY_CASES = (ast.IfExp, ast.BoolOp, ast.Lambda, ast.NamedExpr, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
LIBRARIES = ROOTS | {"anfora", "math", "builtins", "None"}  # None: of methods of built-in objects


class Unread(Part):
    """The part of the writer for values that nothing reads."""

    read_in: dict[int, tuple]

    def typed_once(self, node: Any, text: str, indent: str) -> str:
        """A statement that finds the type of what the text gives."""
        return f"{indent}{self.mark(node)}assert(len(({text},)) == 1)\n"

    def stands_alone(self, node: Any, indent: str) -> str:
        """An expression as a statement."""
        known, f = self.static(node.func) if isinstance(node, ast.Call) else (False, None)
        if known and f is print or not self.is_computed(at(node, ast.Expr(node))):
            return f"{indent}{self.expr(node)}\n"
        return self.typed_once(node, self.expr(node), indent)

    def after_unread(self, node: Any, text: str, indent: str) -> str:
        """Behind a statement that binds or changes names: what finds the types of those that nothing reads."""
        return "".join(self.typed_once(node, self.local(n), indent) for n in dict.fromkeys(t.id for t in touched(node))
                       if re.search(f"^{indent}{_MARKS}{re.escape(self.local(n))} = ", text, re.M) and self.is_unread(n, node))

    def is_unread(self, name: str, statement: Any) -> bool:
        of = self.scope.node
        if name.endswith("__") or not isinstance(of, ast.FunctionDef):  # names of ours
            return False
        _, within, read, again, _ = self.facts_of_names()
        return (name not in read or name in again and not live_after(of, statement, name, within)) and self.is_computed(statement)

    def facts_of_names(self) -> tuple:
        of = self.scope.node
        if id(of) not in self.read_in:
            self.read_in[id(of)] = of, functions_within(of), *_read(of), []
        return self.read_in[id(of)]

    def is_computed(self, node: Any) -> bool:
        """Whether Python computes a statement or expression in each call of the whole function, and all that it is made of."""
        of, b = self.scope.node, self.b
        if not isinstance(of, ast.FunctionDef) or self.scope.outer is not None or len(b.current) != 1 or not b.checks:
            return False
        certain = self.is_plain(node) and is_reached(of, node) and not names_in(node) & self.doubtful(of)
        b.checked |= certain
        return certain

    def doubtful(self, function: Any) -> set[str]:
        """Names that a function may bind to what has no type although Python computes it, or does not compute."""
        facts = self.facts_of_names()[4]
        if facts:
            return facts[0]
        found, within = _statements(function.body), [n for n in ast.walk(function) if isinstance(n, (ast.Global, ast.Nonlocal))]
        binds = [(names_in(n), names, not reached or not self.is_plain(n)) for n, reached in found if (names := {t.id for t in touched(n)})]
        binds += [(set(), {n.name}, True) for n, _ in found if isinstance(n, (ast.FunctionDef, ast.ClassDef))]
        binds += [(set(), set(n.names), True) for n in within]
        doubt: set[str] = set()
        while more := {x for reads, names, alone in binds if alone or reads & doubt for x in names} - doubt:
            doubt |= more
        facts.append(doubt)
        return doubt

    def is_plain(self, node: Any) -> bool:
        """Whether all parts of a statement or expression are computed, by nothing but functions of libraries and methods."""
        scope = self.scope
        try:
            return not any(isinstance(n, _BY_CASES) or isinstance(n, ast.Compare) and len(n.ops) > 1 or isinstance(n, ast.Call) and self.calls_own(n)
                           for n in ast.walk(node))
        except CompileError:  # it is refused at its own line, if it is reached
            self.scope = scope
            return False

    def calls_own(self, node: ast.Call) -> bool:
        """Whether a call may be one of the user's functions, or is given one."""
        known, f = self.static(node.func)
        if known and str(getattr(f, "__module__", None)).split(".")[0] not in LIBRARIES:
            return True
        if not known and (not isinstance(node.func, ast.Attribute) or (c := self.exact_class(node.func.value)) and method_of(c, node.func.attr)):
            return True
        given = [self.static(a) for a in (*node.args, *(k.value for k in node.keywords))]
        return any(k and callable(x) and not isinstance(x, type) for k, x in given)


def _statements(block: list, reached: bool = True) -> list[tuple[Any, bool]]:
    """Those of a function, without those of functions and classes within, and whether `is_reached` holds of each."""
    found = []
    for n in block:
        found.append((n, reached))
        if isinstance(n, (ast.FunctionDef, ast.ClassDef)):
            continue
        for inner in blocks_of(n):
            within = isinstance(n, ast.With) or isinstance(n, ast.For) and inner is n.body and _rounds(n.iter) > 0
            found += _statements(inner, reached and within)
        reached = reached and not any(isinstance(x, (ast.Return, ast.Break, ast.Continue)) for x in ast.walk(n))
    return found


def names_in(node: Any) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def is_reached(function: Any, node: Any) -> bool:
    """Whether a statement, or one of an expression, is in no branch, behind no return, and in loops over constant ranges alone."""
    way = way_to(function, node)
    for k, (block, i) in enumerate(way or ()):
        if any(isinstance(n, (ast.Return, ast.Break, ast.Continue)) for s in block[:i] for n in ast.walk(s)):
            return False
        if k + 1 < len(way) and not (isinstance(s := block[i], ast.With) or isinstance(s, ast.For) and way[k + 1][0] is s.body and _rounds(s.iter)):
            return False
    return way is not None


def _rounds(of: Any) -> int:
    """Of range(3): 3; 0: it is not known."""
    if not isinstance(of, ast.Call) or not isinstance(of.func, ast.Name) or of.func.id != "range" or of.keywords:
        return 0
    try:
        return len(range(*map(ast.literal_eval, of.args)))
    except (TypeError, ValueError):
        return 0


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
