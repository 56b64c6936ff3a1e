# SPDX-License-Identifier: Apache-2.0
"""From the source of a Python function to a function of a program.

Python's statements and expressions have counterparts in the language nearly one to one (docs/language.md), so
they are written as they stand; what has none is refused, with its place and what to write instead. Names of
the function itself stay names; all other names mean what they are bound to now, and become constants,
functions of the program, or captured arrays."""
from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import operator
import types
from typing import Any

from ._emit import Builder, fail, safe_name
from ._errors import CompileError, Place
from ._static import Call, emit_call, static_text
from ._types import declared

_BINARY = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.MatMult: "@", ast.LShift: "<<", ast.RShift: ">>", ast.BitOr: "|", ast.BitXor: "^", ast.BitAnd: "&",
}
_COMPARE = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
_COMPARISONS = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
    ast.NotEq: operator.ne, ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}
_UNARY = {ast.USub: "-", ast.UAdd: "+", ast.Invert: "~", ast.Not: "not "}

# What to write instead of what cannot be compiled
_INSTEAD = {
    ast.Try: ("try", "errors of a compiled function reach the caller; catch them there"),
    ast.With: ("with", "call what it does outside of the compiled function"),
    ast.Raise: ("raise", "write assert condition, \"why\""),
    ast.Global: ("global", "return the new value, and let the caller bind it"),
    ast.Nonlocal: ("nonlocal", "closures capture values: return the new value instead"),
    ast.ClassDef: ("class", "define the class outside of the compiled function"),
    ast.Import: ("import", "import at the head of the module"),
    ast.ImportFrom: ("import", "import at the head of the module"),
    ast.Delete: ("del", "leave it out: values that nothing needs are not kept"),
    ast.AsyncFunctionDef: ("async", "write a plain function"),
    ast.AsyncFor: ("async", "write a plain loop"),
    ast.AsyncWith: ("async", "call what it does outside of the compiled function"),
    ast.Match: ("match", "write if, elif and else"),
    ast.Await: ("await", "write a plain call"),
    ast.Yield: ("yield", "collect what it gives in a tuple, and return that"),
    ast.YieldFrom: ("yield", "collect what it gives in a tuple, and return that"),
    ast.NamedExpr: (":=", "bind the name in a statement of its own"),
    ast.Set: ("a set", "write a tuple"),
    ast.SetComp: ("a set", "write a tuple"),
    ast.DictComp: ("a dictionary comprehension", "write the dictionary out, or use hyper_map"),
    ast.JoinedStr: ("a formatted text", "give print the parts: print(\"loss\", x)"),
    ast.Starred: ("*", "write the arguments out"),
}


def bound_names(nodes: list) -> set[str]:
    """Names that statements bind, without those of functions within."""
    found: set[str] = set()
    todo = list(nodes)
    while todo:
        n = todo.pop()
        if isinstance(n, ast.FunctionDef):
            found.add(n.name)
            continue
        if isinstance(n, (ast.Lambda, ast.ListComp, ast.GeneratorExp)):
            continue
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store):
            found.add(n.id)
        todo.extend(ast.iter_child_nodes(n))
    return found


def returns_always(body: list) -> bool:
    """Whether a block cannot be left by its end."""
    last = body[-1] if body else None
    if isinstance(last, ast.While) and isinstance(last.test, ast.Constant) and last.test.value is True:
        return not any(isinstance(n, ast.Break) for n in ast.walk(last))
    return isinstance(last, ast.Return)


def result_hint(node: Any, within: Any = None) -> Any:
    """What is plain to see of the structure that an expression gives: (kind, hints of the items or None)."""
    if isinstance(node, (ast.Tuple, ast.List)) and not any(isinstance(e, ast.Starred) for e in node.elts):
        return ("list" if isinstance(node, ast.List) else "tuple", [result_hint(e, within) for e in node.elts])
    if isinstance(node, ast.ListComp):
        return ("list", None)
    if isinstance(node, ast.Name) and within is not None:
        found = [n.value for n in ast.walk(within) if isinstance(n, ast.Assign) and
                 any(isinstance(t, ast.Name) and t.id == node.id for t in n.targets)]
        return result_hint(found[0]) if len(found) == 1 else None
    return None


class Scope:
    """The names of one function, and of the functions around it."""

    def __init__(self, names: set[str], outer: "Scope | None") -> None:
        self.names, self.outer = names, outer
        self.defs: dict[str, ast.arguments] = {}  # nested functions, of which calls know the parameters
        self.defaults: dict[str, dict[str, str]] = {}

    def owner(self, name: str) -> "Scope | None":
        s: Scope | None = self
        while s and name not in s.names:
            s = s.outer
        return s


class Writer:
    """Writes one outermost function and those within it."""

    def __init__(self, builder: Builder, fn: types.FunctionType, file: str, statics: dict[str, Any]) -> None:
        self.b, self.fn, self.file = builder, fn, file
        self.statics = statics  # parameters that are known: functions and texts
        self.scope: Scope | None = None
        self.cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or ()))
        self.temp = 0
        self.ended = False
        self.params: set[str] = set()

    # ---- places, names ----

    def mark(self, node: Any) -> str:
        return self.b.mark(self.file, node)

    def place(self, node: Any) -> Place:
        end = node.end_col_offset + 1 if node.end_lineno == node.lineno else 10**6
        return Place(self.file, node.lineno, node.col_offset + 1, end)

    def refuse(self, node: Any, message: str, hint: str = "") -> None:
        fail(self.place(node), message, hint)

    def fresh(self) -> str:
        self.temp += 1
        return f"t{self.temp}__"

    def local(self, name: str) -> str:
        self.b.locals.add(safe_name(name))
        return safe_name(name)

    def is_parameter(self, node: Any) -> bool:
        """A parameter of the outermost function that is not None: those that are have been put in."""
        owner = self.scope.owner(node.id) if isinstance(node, ast.Name) else None
        return owner is not None and owner.outer is None and node.id in self.params - set(self.statics)

    def is_local(self, name: str) -> bool:
        owner = self.scope.owner(name) if self.scope else None
        return owner is not None and not (owner.outer is None and name in self.statics)

    def lookup(self, node: ast.Name) -> Any:
        """What a name that is not the function's own is bound to now."""
        name = node.id
        if name in self.statics and self.scope and self.scope.owner(name):
            return self.statics[name]
        if name in self.cells:
            try:
                return self.cells[name].cell_contents
            except ValueError:
                self.refuse(node, f"{name} is not bound yet", "define it before the compiled function is called")
        if name in self.fn.__globals__:
            return self.fn.__globals__[name]
        if hasattr(builtins, name):
            return getattr(builtins, name)
        return self.refuse(node, f"there is no {name}")

    def static(self, node: Any) -> tuple[bool, Any]:
        """(True, what an expression is) if that is known without running the function."""
        if isinstance(node, ast.Constant):
            return True, node.value
        if isinstance(node, ast.Name):
            return (False, None) if self.is_local(node.id) else (True, self.lookup(node))
        if isinstance(node, ast.Attribute):
            known, x = self.static(node.value)
            if known and not hasattr(x, "__array__") and not hasattr(x, "__dlpack__"):
                if not hasattr(x, node.attr):
                    self.refuse(node, f"{getattr(x, '__name__', type(x).__name__)} has no {node.attr}")
                return True, getattr(x, node.attr)
        if isinstance(node, ast.Subscript):
            known, x = self.static(node.value)
            key, k = self.static(node.slice)
            if known and key and isinstance(x, (dict, list, tuple)):
                try:
                    return True, x[k]
                except (KeyError, IndexError, TypeError) as e:
                    self.refuse(node, f"{type(e).__name__}: {e}")
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            known, x = self.static(node.operand)
            return (True, -x) if known and isinstance(x, (int, float, complex)) else (False, None)
        if isinstance(node, (ast.Tuple, ast.List)):
            items = [self.static(e) for e in node.elts]
            if all(k for k, _ in items):
                return True, tuple(x for _, x in items)
        return self.known_test(node) if isinstance(node, (ast.Compare, ast.BoolOp, ast.UnaryOp)) else (False, None)

    def known_test(self, node: Any) -> tuple[bool, Any]:
        """A condition of things that are known: texts, numbers from outside, what is None."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            known, test = self.static(node.operand)
            return known, not test
        if isinstance(node, ast.BoolOp):
            ends = isinstance(node.op, ast.Or)  # the value of a part that decides
            parts = [self.static(v) for v in node.values]
            if any(k and bool(x) == ends for k, x in parts[:1]):
                return True, ends
            rest = [p for p in parts if not (p[0] and bool(p[1]) != ends)]
            return (True, not ends) if not rest else (True, ends) if rest[0][0] else (False, None)
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            return self.known_comparison(node)
        return False, None

    def known_comparison(self, node: ast.Compare) -> tuple[bool, Any]:
        op, (known, a), (also, b) = node.ops[0], self.static(node.left), self.static(node.comparators[0])
        if isinstance(op, (ast.Is, ast.IsNot)) and (also, b) == (True, None) and self.is_parameter(node.left):
            return True, isinstance(op, ast.IsNot)  # were it None, it would be known
        plain = (bool, int, float, str, type(None))
        if known and also and isinstance(op, (ast.Is, ast.IsNot)):
            return True, (a is b) == isinstance(op, ast.Is)
        if known and also and isinstance(a, plain) and (isinstance(b, plain) or isinstance(op, (ast.In, ast.NotIn))):
            try:
                return True, _COMPARISONS[type(op)](a, b)
            except TypeError:
                return False, None
        return False, None

    # ---- expressions ----

    def expr(self, node: Any) -> str:
        method = getattr(self, "expr_" + type(node).__name__, None)
        if method is None:
            what, hint = _INSTEAD.get(type(node), (type(node).__name__, ""))
            self.refuse(node, f"{what} cannot be compiled", hint)
        return self.mark(node) + method(node)

    def exprs(self, nodes: list) -> str:
        return ", ".join(self.expr(n) for n in nodes)

    def expr_Constant(self, node: ast.Constant) -> str:
        return static_text(self, node, node.value)

    def expr_Name(self, node: ast.Name) -> str:
        return self.local(node.id) if self.is_local(node.id) else static_text(self, node, self.lookup(node))

    def expr_BinOp(self, node: ast.BinOp) -> str:
        sides = (node.left, node.right)
        if isinstance(node.op, ast.Add) and any(isinstance(x, (ast.Tuple, ast.List, ast.ListComp)) for x in sides):
            return f"TupleConcat({self.expr(node.left)}, {self.expr(node.right)})"
        return f"({self.expr(node.left)} {self.mark(node)}{_BINARY[type(node.op)]} {self.expr(node.right)})"

    def expr_UnaryOp(self, node: ast.UnaryOp) -> str:
        return f"({self.mark(node)}{_UNARY[type(node.op)]}{self.expr(node.operand)})"

    def expr_BoolOp(self, node: ast.BoolOp) -> str:
        known, test = self.known_test(node)
        if known:
            return "true" if test else "false"
        ends = isinstance(node.op, ast.Or)
        word = " or " if ends else " and "
        rest = [v for v in node.values if self.static(v) not in ((True, False), (True, True)) or
                self.static(v)[1] == ends]
        return "(" + (self.mark(node) + word).join(self.expr(v) for v in rest) + ")"

    def expr_Compare(self, node: ast.Compare) -> str:
        known, test = self.known_comparison(node) if len(node.ops) == 1 else (False, None)
        if known:
            return "true" if test else "false"
        if any(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops):
            self.refuse(node, "is compares objects, which compiled functions do not have",
                        "compare numbers with ==; pass None and other choices as static arguments")
        if isinstance(node.ops[0], (ast.In, ast.NotIn)):
            return self.membership(node)
        text = self.expr(node.left)
        for op, right in zip(node.ops, node.comparators):
            if type(op) not in _COMPARE:
                self.refuse(node, "this comparison cannot be part of a chain")
            text += f" {self.mark(node)}{_COMPARE[type(op)]} {self.expr(right)}"
        return f"({text})"

    def membership(self, node: ast.Compare) -> str:
        items = node.comparators[0]
        if len(node.ops) > 1 or not isinstance(items, (ast.Tuple, ast.List)) or not items.elts:
            self.refuse(node, "in needs a tuple that is written out", "write x == 1 or x == 2")
        x = self.expr(node.left)
        text = "(" + " or ".join(f"{x} == {self.expr(e)}" for e in items.elts) + ")"
        return f"(not {text})" if isinstance(node.ops[0], ast.NotIn) else text

    def expr_IfExp(self, node: ast.IfExp) -> str:
        known, test = self.static(node.test)
        if known:
            return self.expr(node.body if test else node.orelse)
        return f"(if {self.expr(node.test)} {{ {self.expr(node.body)} }} else {{ {self.expr(node.orelse)} }})"

    def expr_Tuple(self, node: Any) -> str:
        return "(" + self.exprs(node.elts) + (",)" if len(node.elts) == 1 else ")")

    expr_List = expr_Tuple

    def expr_Dict(self, node: ast.Dict) -> str:
        items = []
        for k, v in zip(node.keys, node.values):
            known, name = self.static(k) if k is not None else (False, None)
            if not known or not isinstance(name, str):
                self.refuse(node, "keys of dictionaries must be texts that are written out")
            items.append((name, self.expr(v)))
        return self.record(items)

    def record(self, items: list) -> str:
        from ._tree import quoted
        return "{" + ", ".join(f"{quoted(n)} = {v}" for n, v in items) + "}"

    def expr_Lambda(self, node: ast.Lambda) -> str:
        params, scope = self.enter(node.args, set())
        text = f"fn ({params}) {{ {self.expr(node.body)} }}"
        self.scope = scope
        return text

    def expr_ListComp(self, node: Any) -> str:
        gen = node.generators[0]
        if len(node.generators) > 1 or gen.ifs or gen.is_async:
            self.refuse(node, "comprehensions have one for and no if in compiled functions", "write a loop")
        items = self.comprehended(gen.iter)
        outer, self.scope = self.scope, Scope(bound_names([gen.target]), self.scope)
        if isinstance(gen.target, ast.Name):
            text = f"map(fn ({self.local(gen.target.id)}) {{ {self.expr(node.elt)} }}, {items})"
        else:
            t = self.fresh()
            text = f"map(fn ({t}) {{ {self.target(gen.target)} = {t}; {self.expr(node.elt)} }}, {items})"
        self.scope = outer
        return text

    expr_GeneratorExp = expr_ListComp

    def comprehended(self, node: Any) -> str:
        """What a comprehension goes over: a tuple. Ranges must be known."""
        if isinstance(node, ast.Call) and self.static(node.func) == (True, range):
            bounds = [self.static(a) for a in node.args]
            if not all(k and isinstance(x, int) for k, x in bounds):
                self.refuse(node, "the range of a comprehension must be constant", "write a for loop")
            items = list(range(*(x for _, x in bounds)))
            return "(" + ", ".join(map(str, items)) + (",)" if len(items) == 1 else ")")
        return self.iterated(node)

    def iterated(self, node: Any) -> str:
        if isinstance(node, ast.Call) and self.static(node.func) == (True, zip):
            names = [self.fresh() for _ in node.args]
            return f"map(fn ({', '.join(names)}) {{ ({', '.join(names)}) }}, {self.exprs(node.args)})"
        if isinstance(node, ast.Call) and self.static(node.func) == (True, reversed):
            return f"({self.expr(node.args[0])})[::-1]"
        return self.expr(node)

    # ---- subscripts, attributes, calls ----

    def expr_Subscript(self, node: ast.Subscript) -> str:
        known, x = self.static(node)
        if known:
            return static_text(self, node, x)
        key, k = self.static(node.slice)
        if key and isinstance(k, str):
            from ._tree import quoted
            return f"{self.expr(node.value)}{self.mark(node)}.{quoted(k)}"
        return f"{self.expr(node.value)}{self.mark(node)}[{self.index(node.slice)}]"

    def index(self, node: Any) -> str:
        if isinstance(node, ast.Tuple):
            return ", ".join(self.index(e) for e in node.elts)
        if isinstance(node, ast.Slice):
            part = [self.expr(p) if p else "" for p in (node.lower, node.upper, node.step)]
            return f"{part[0]}:{part[1]}" + (f":{part[2]}" if node.step else "")
        if isinstance(node, ast.Constant) and node.value is Ellipsis:
            return "..."
        if isinstance(node, ast.List):
            return "[" + self.exprs(node.elts) + "]"
        return self.expr(node)

    def expr_Attribute(self, node: ast.Attribute) -> str:
        known, x = self.static(node)
        if known:
            return static_text(self, node, x)
        if node.attr == "T":
            return f"Transpose{self.mark(node)}({self.expr(node.value)})"
        return f"{self.expr(node.value)}{self.mark(node)}.{safe_field(node.attr)}"

    def expr_Call(self, node: ast.Call) -> str:
        known, f = self.static(node.func)
        return emit_call(self, Call(node, f if known else None, known))

    # ---- statements ----

    def block(self, body: list, indent: str) -> str:
        """The statements that can be reached. `self.ended`: the end of the block cannot."""
        text, self.ended = "", False
        for s in body:
            text += self.statement(s, indent)
            if isinstance(s, (ast.Return, ast.Break, ast.Continue)):
                self.ended = True
            elif not isinstance(s, ast.If):  # an if has said it
                self.ended = returns_always([s])
            if self.ended:
                break
        return text

    def statement(self, node: Any, indent: str) -> str:
        method = getattr(self, "stmt_" + type(node).__name__, None)
        if method is None:
            what, hint = _INSTEAD.get(type(node), (type(node).__name__, ""))
            self.refuse(node, f"{what} cannot be compiled", hint)
        return method(node, indent)

    def stmt_Pass(self, _node: Any, _indent: str) -> str:
        return ""

    def stmt_Expr(self, node: ast.Expr, indent: str) -> str:
        if isinstance(node.value, ast.Constant):
            return ""
        return f"{indent}{self.expr(node.value)}\n"

    def stmt_Return(self, node: ast.Return, indent: str) -> str:
        return f"{indent}{self.mark(node)}return{' ' + self.expr(node.value) if node.value else ''}\n"

    def stmt_Break(self, node: Any, indent: str) -> str:
        return f"{indent}{self.mark(node)}break\n"

    def stmt_Continue(self, node: Any, indent: str) -> str:
        return f"{indent}{self.mark(node)}continue\n"

    def target(self, node: Any) -> str:
        if isinstance(node, ast.Name):
            return self.local(node.id)
        if isinstance(node, (ast.Tuple, ast.List)):
            if any(isinstance(e, ast.Starred) for e in node.elts):
                self.refuse(node, "* cannot stand in a pattern", "take a slice: rest = xs[1:]")
            return "(" + ", ".join(self.target(e) for e in node.elts) + (",)" if len(node.elts) == 1 else ")")
        if isinstance(node, ast.Subscript):
            return self.refuse(node, "values do not change in place",
                               "write x = anfora.numpy.index_write(x, i, value), or make a new tuple or dictionary")
        return self.refuse(node, "fields do not change in place", "make a new object")

    def stmt_Assign(self, node: ast.Assign, indent: str) -> str:
        value = self.expr(node.value)
        if len(node.targets) == 1:
            return f"{indent}{self.mark(node)}{self.target(node.targets[0])} = {value}\n"
        t = self.fresh()
        return f"{indent}{t} = {value}\n" + "".join(f"{indent}{self.target(x)} = {t}\n" for x in node.targets)

    def stmt_AnnAssign(self, node: ast.AnnAssign, indent: str) -> str:
        if node.value is None:
            return ""
        known, x = self.static(node.annotation)
        if isinstance(node.annotation, ast.Subscript):
            known, x = self.annotation(node.annotation)
        t = declared(x) if known else None
        return f"{indent}{self.mark(node)}{self.target(node.target)}{f': {t}' if t else ''} = {self.expr(node.value)}\n"

    def annotation(self, node: Any) -> tuple[bool, Any]:
        """A subscript such as f32[3, "B"]."""
        known, x = self.static(node.value) if isinstance(node, ast.Subscript) else self.static(node)
        if not isinstance(node, ast.Subscript) or not known:
            return known, x
        dims, k = self.static(node.slice)
        try:
            return dims, x[k]
        except (TypeError, KeyError, IndexError):
            return False, None

    def stmt_AugAssign(self, node: ast.AugAssign, indent: str) -> str:
        op = _BINARY[type(node.op)]
        t = self.target(node.target)
        return f"{indent}{t} = {t} {self.mark(node)}{op} {self.expr(node.value)}\n"

    def stmt_Assert(self, node: ast.Assert, indent: str) -> str:
        why = ""
        if node.msg:
            known, x = self.static(node.msg)
            if not known or not isinstance(x, str):
                self.refuse(node.msg, "the message of an assertion must be a constant text")
            why = ", " + static_text(self, node.msg, x)
        return f"{indent}{self.mark(node)}assert({self.expr(node.test)}{why})\n"

    def stmt_If(self, node: ast.If, indent: str) -> str:
        known, test = self.static(node.test)
        if known:
            return self.block(node.body if test else node.orelse, indent)
        text = f"{indent}{self.mark(node.test)}if {self.expr(node.test)} {{\n{self.block(node.body, indent + '  ')}{indent}}}"
        ended = self.ended
        if node.orelse:
            text += f" else {{\n{self.block(node.orelse, indent + '  ')}{indent}}}"
        self.ended = ended and bool(node.orelse) and self.ended
        return text + "\n"

    def no_else(self, node: Any) -> None:
        if node.orelse:
            self.refuse(node.orelse[0], "else of a loop cannot be compiled", "set a flag before break")

    def stmt_While(self, node: ast.While, indent: str) -> str:
        self.no_else(node)
        return f"{indent}{self.mark(node.test)}while {self.expr(node.test)} {{\n{self.block(node.body, indent + '  ')}{indent}}}\n"

    def stmt_For(self, node: ast.For, indent: str) -> str:
        self.no_else(node)
        inner = indent + "  "
        body = self.block(node.body, inner)
        if isinstance(node.iter, ast.Call):
            known, f = self.static(node.iter.func)
            if known and f is range:
                return self.for_range(node, indent, body)
            if known and f is enumerate and isinstance(node.target, ast.Tuple) and len(node.target.elts) == 2:
                return self.for_enumerate(node, indent, body)
        head, first = self.loop_target(node.target, inner)
        return f"{indent}{self.mark(node)}for {head} in {self.iterated(node.iter)} {{\n{first}{body}{indent}}}\n"

    def loop_target(self, node: Any, inner: str) -> tuple[str, str]:
        if isinstance(node, ast.Name):
            return self.local(node.id), ""
        t = self.fresh()
        return t, f"{inner}{self.target(node)} = {t}\n"

    def for_range(self, node: ast.For, indent: str, body: str) -> str:
        args = node.iter.args
        head, first = self.loop_target(node.target, indent + "  ")
        if len(args) == 3:
            known, step = self.static(args[2])
            if not known or not isinstance(step, int) or step == 0:
                self.refuse(args[2], "the step of a range must be a constant that is not 0", "count, and multiply")
            start, stop, t = self.expr(args[0]), self.expr(args[1]), self.fresh()
            count = f"({stop} - {start} + {step - 1 if step > 0 else step + 1}) // {step}"
            lines = f"{indent}  {head} = {start} + {t} * {step}\n"
            return f"{indent}{self.mark(node)}for {t} in 0..({count}) {{\n{lines}{first}{body}{indent}}}\n"
        start = self.expr(args[0]) if len(args) == 2 else "0"
        return f"{indent}{self.mark(node)}for {head} in {start}..({self.expr(args[-1])}) {{\n{first}{body}{indent}}}\n"

    def for_enumerate(self, node: ast.For, indent: str, body: str) -> str:
        count, item = node.target.elts
        start = self.expr(node.iter.args[1]) if len(node.iter.args) > 1 else "0"
        head, first = self.loop_target(item, indent + "  ")
        n, t = self.target(count), self.fresh()
        return (f"{indent}{t} = {start} - 1\n{indent}{self.mark(node)}for {head} in {self.iterated(node.iter.args[0])} "
                f"{{\n{indent}  {t} = {t} + 1\n{indent}  {n} = {t}\n{first}{body}{indent}}}\n")

    # ---- functions ----

    def parameters(self, args: ast.arguments) -> list[ast.arg]:
        if args.vararg or args.kwarg:
            self.refuse(args.vararg or args.kwarg, "a compiled function has a fixed number of parameters",
                        "take one tuple or dictionary")
        return [*args.posonlyargs, *args.args, *args.kwonlyargs]

    def enter(self, args: ast.arguments, names: set[str], types_of: dict | None = None) -> tuple[str, Scope | None]:
        """The parameters as text; the scope is that of the function now, the one before is given back."""
        params = self.parameters(args)
        outer = self.scope
        texts = []
        for p in params:
            if outer is None and p.arg in self.statics:
                continue
            t = types_of.get(p.arg) if types_of is not None else None
            if types_of is None and p.annotation:
                known, x = self.annotation(p.annotation)
                t = declared(x) if known else None
            texts.append(self.mark(p) + self.local(p.arg) + (f": {t}" if t else ""))
        self.scope = Scope({p.arg for p in params} | names, outer)
        return ", ".join(texts), outer

    def stmt_FunctionDef(self, node: ast.FunctionDef, indent: str) -> str:
        text = ""
        scope = self.scope
        defaults = {}
        named = [*node.args.posonlyargs, *node.args.args]
        pairs = [*zip(named[len(named) - len(node.args.defaults):], node.args.defaults),
                 *((a, d) for a, d in zip(node.args.kwonlyargs, node.args.kw_defaults) if d)]
        for arg, default in pairs:
            t = self.fresh()
            text += f"{indent}{t} = {self.expr(default)}\n"
            defaults[arg.arg] = t
        scope.defs[node.name], scope.defaults[node.name] = node.args, defaults
        params, outer = self.enter(node.args, bound_names(node.body))
        name = self.local(node.name)
        text += f"{indent}{self.mark(node)}def {name}({params}) {{\n{self.body(node.body, indent + '  ')}{indent}}}\n"
        self.scope = outer
        for decorator in reversed(node.decorator_list):
            text += self.decorated(decorator, name, indent)
        return text

    def decorated(self, node: Any, name: str, indent: str) -> str:
        known, f = self.static(node.func if isinstance(node, ast.Call) else node)
        from ._function import jit
        if known and f is jit:
            return ""
        call = ast.Call(func=node, args=[ast.Name(id=name, ctx=ast.Load())], keywords=[])
        if isinstance(node, ast.Call):
            call = ast.Call(func=node.func, args=[ast.Name(id=name, ctx=ast.Load()), *node.args], keywords=node.keywords)
        ast.copy_location(call, node)
        ast.fix_missing_locations(call)
        return f"{indent}{name} = {self.expr(call)}\n"

    def body(self, body: list, indent: str) -> str:
        text = self.block(body, indent)
        return text + ("" if self.ended else f"{indent}return\n")

    def write(self, node: Any, name: str, types_of: dict) -> str:
        """The whole function; `name` is a unit's mark."""
        inner = bound_names(node.body) if isinstance(node, ast.FunctionDef) else set()
        self.params = {p.arg for p in self.parameters(node.args)} - inner
        params, _ = self.enter(node.args, inner, types_of)
        if isinstance(node, ast.Lambda):
            return f"def {name}({params}) {{\n  {self.expr(node.body)}\n}}\n"
        return f"{self.mark(node)}def {name}({params}) {{\n{self.body(node.body, '  ')}}}\n"


def safe_field(name: str) -> str:
    from ._emit import WORDS
    return f"`{name}`" if name in WORDS and name not in ("shape",) else name


# ---- the source of a function ----

_PARSED: dict[str, tuple[tuple, ast.Module]] = {}


def _tree_of(file: str) -> ast.Module | None:
    lines = tuple(linecache.getlines(file))
    if not lines:
        return None
    known = _PARSED.get(file)
    if known is None or known[0] != lines:
        known = _PARSED[file] = (lines, ast.parse("".join(lines), file))
    return known[1]


def _positions(code: types.CodeType) -> set[tuple]:
    return {(p[0], p[2]) for p in code.co_positions() if p[0] is not None and p[2] is not None}


def source_of(fn: types.FunctionType) -> tuple[Any, str]:
    """The syntax tree of a function, with places of its file, and the file."""
    code = fn.__code__
    file = code.co_filename
    linecache.checkcache(file)
    tree = _tree_of(file)
    if tree is None:
        raise CompileError([_no_source(fn)], "ANF_UNSUPPORTED")
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == fn.__name__:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if first == code.co_firstlineno:
                return node, file
        elif isinstance(node, ast.Lambda) and fn.__name__ == "<lambda>" and node.lineno == code.co_firstlineno:
            found.append(node)
    if len(found) > 1:  # several in one line: the one that the code's positions are of
        at = _positions(code)
        found = [n for n in found if any((m.lineno, m.col_offset) in at for m in ast.walk(n.body)
                                         if hasattr(m, "lineno"))] or found
    if not found:
        raise CompileError([_no_source(fn)], "ANF_UNSUPPORTED")
    return found[0], file


def _no_source(fn: types.FunctionType) -> Any:
    from ._errors import Finding
    return Finding("", f"the source of {fn.__name__} is not at hand",
                   hint="define it in a file or in a notebook; functions made by exec or typed at >>> have no source")


def declared_types(fn: types.FunctionType) -> dict[str, Any]:
    """Types that the annotations of a function declare."""
    try:
        notes = inspect.get_annotations(fn, eval_str=True)
    except Exception:  # names in annotations that only type checkers know
        return {}
    return {name: t for name, note in notes.items() if (t := declared(note)) is not None}


def emit_function(b: Builder, fn: types.FunctionType, statics: dict[str, Any] | None = None) -> str:
    """The function as a unit of the program; gives the unit's name, a mark."""
    def write(unit: Any) -> str:
        node, file = source_of(fn)
        wish = fn.__name__ if fn.__name__.isidentifier() else "lambda_"
        unit.wish = safe_name(wish)
        return Writer(b, fn, file, statics or {}).write(node, f"\ue001{unit.number}\ue002", declared_types(fn))
    return b.unit(fn, "f", write, tuple((n, id(x)) for n, x in sorted((statics or {}).items())))
