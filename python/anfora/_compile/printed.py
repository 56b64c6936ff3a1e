# SPDX-License-Identifier: Apache-2.0
"""print, as Python prints: the program calls the host with the values, and Python makes the text of them.

    print(f"{x[0]:.3f}", 2 * n, sep=";")      becomes      print_5e2c(x[0], 2 * n)

where print_5e2c is print(f"{a0:.3f}", a1, sep=";") of Python, with x[0] as a0 and 2 * n as a1. Texts stay Python's: f-strings, str(), %, +,
.format, .join and methods of texts; what stands in them is computed by the program. A generated function makes of the values what an
operation of the host can take: numbers that say what they are, all floats and all whole numbers."""
from __future__ import annotations

import ast
import builtins
import copy
import functools
import hashlib
import math
import re
import string
from typing import Any

from .known import Is, Like, Part, Said, Scope, is_array, is_plain
from .static import Call, is_foreign
from .._ops import literal
from .._tree import Shape, key_of, key_text, made_of, quoted
from .._types import DTYPES, TensorType

_FUNCTIONS = (str, repr, format, ascii)
_OPTIONS = ("sep", "end", "file", "flush")
_LISTS = (list, tuple, sorted, reversed, zip, enumerate, map, range, len)


class Template:
    """The call as Python runs it: `node` with a name for each value of the program, whose structure `likes` has; `fixed` are objects
    that are known."""

    def __init__(self) -> None:
        self.values: list[Any] = []      # expressions of the program
        self.likes: list[Shape | None] = []
        self.fixed: dict[str, Any] = {}
        self.inner: list[set[str]] = []  # names that comprehensions within bind

    def bound(self) -> set[str]:
        return set().union(*self.inner)

    def value(self, node: Any, like: Shape | None) -> ast.Name:
        self.values.append(node)
        self.likes.append(like)
        return ast.Name(f"a{len(self.values) - 1}", ast.Load())

    def known(self, x: Any) -> Any:
        if type(x) in (list, tuple):
            return (ast.List if type(x) is list else ast.Tuple)([self.known(i) for i in x], ast.Load())
        if is_plain(x) or x is Ellipsis:
            return ast.Constant(x)
        self.fixed[name := f"k{len(self.fixed)}"] = x
        return ast.Name(name, ast.Load())


class Binding(Template):
    """Where a name is bound to a text: the values in it become variables."""

    def __init__(self, w: Any, indent: str) -> None:
        super().__init__()
        self.w, self.indent, self.before = w, indent, ""

    def value(self, node: Any, like: Shape | None) -> ast.Name:
        name, w = self.w.fresh(), self.w
        self.before += f"{self.indent}{w.mark(node)}{name} = {w.expr(node)}\n"
        w.scope.names.add(name)
        w.bind(name, Like(like) if like is not None else None)
        return ast.copy_location(ast.Name(name, ast.Load()), node)

    def known(self, x: Any) -> Any:
        return ast.Constant(x)


def _like_key(s: Shape | None) -> Any:
    return None if s is None else (s.kind, s.names, getattr(s.of, "__qualname__", repr(s.of)) if s.kind in ("object", "static") else None, *map(_like_key, s.parts))


class Printed(Part):
    """The part of the writer for print and texts."""

    def is_text(self, node: Any) -> bool:
        """Whether an expression is a text, as far as it is plain to see."""
        known, x = self.static(node) if not isinstance(node, ast.JoinedStr) else (False, None)
        if known:
            return isinstance(x, (str, Said))
        if isinstance(node, ast.JoinedStr):
            return True
        if isinstance(node, ast.BinOp):
            if isinstance(node.op, (ast.Add, ast.Mult)):
                return self.is_text(node.left) or self.is_text(node.right)
            return isinstance(node.op, ast.Mod) and self.is_text(node.left)
        if isinstance(node, ast.IfExp):
            return self.is_text(node.body) or self.is_text(node.orelse)
        if isinstance(node, ast.Subscript):
            return self.is_text(node.value)
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and self.is_text(node.func.value):
                return True
            known, f = self.static(node.func)
            return known and f in _FUNCTIONS
        return False

    def print_text(self, c: Call) -> str:
        """A call of print."""
        for name in c.kw:
            if name not in _OPTIONS:
                self.refuse(c.node, f"TypeError: {name!r} is an invalid keyword argument for print()")
        t = Template()
        call: Any = ast.Call(ast.Name("print", ast.Load()), [self.spoken(a, t) for a in c.args], [ast.keyword(k, self.spoken(v, t)) for k, v in c.kw.items()])
        texts = [self.expr(v) for v in t.values]
        if self.b.own_prints:
            return self.print_alone(c, call, t, texts)
        self.b.hosted = True
        op, given = _made(ast.fix_missing_locations(ast.Expression(call)), t), self.fresh()
        self.b.locals.add(op)  # nothing else is called so
        return f"(fn ({given}) {{ {op}{self.mark(c.node)}({given}[0], {given}[1], {given}[2]); None }})({_describing()._emit(self.b)}{self.mark(c.node)}({', '.join(texts)}))"

    def print_alone(self, c: Call, call: ast.Call, t: Template, texts: list[str]) -> str:
        """A call of the core's Print, which writes its parts with blanks between. In a batch it has all items of one at once, which no format
        of a number is for; else a text of another form is refused."""
        batch, parts = self.b.own_prints == "batch", []
        usual = {"sep": (None, " "), "end": (None, "\n"), "file": (None,)}
        odd = [k.arg for k in call.keywords if k.arg in usual and not (isinstance(k.value, ast.Constant) and k.value.value in usual[k.arg])]
        for part in pieces(call.args, t.fixed):
            name = isinstance(part, ast.Name) and part.id not in t.fixed
            if isinstance(part, str) or name:
                parts.append(literal(part) if isinstance(part, str) else texts[int(part.id[1:])])
            elif batch:
                parts += [texts[int(n.id[1:])] for n in ast.walk(part) if isinstance(n, ast.Name) and re.fullmatch(r"a\d+", n.id)]
            else:
                odd.append("format")
        if odd and not batch:
            self.refuse(c.node, f"print with this {odd[0]} has a text that only Python makes, and the program is to run without it",
                        "print values and texts with blanks between: print(\"x\", x)")
        self.b.prints = True
        return f"print{self.mark(c.node)}({', '.join(parts)})"

    def said(self, target: ast.Name, node: Any, indent: str) -> str | None:
        """A name bound to a text with values in it, which is no value of the program; None: it is another thing."""
        if not isinstance(node, (ast.JoinedStr, ast.BinOp, ast.Call)) or self.static(node)[0] or not self.is_text(node):
            return None
        if target.id in self.scope.kept:
            self.refuse(node, f"{target.id} is a text that a loop makes of values, and is read after the round that makes it", "print it where it is made, or return the values")
        t = Binding(self, indent)
        made = ast.copy_location(self.spoken(node, t), node)
        for n in ast.walk(made):
            if not hasattr(n, "lineno") and isinstance(n, (ast.expr, ast.comprehension)):
                ast.copy_location(n, node)
        self.bind(target.id, Is(Said(made)), virtual=True)
        return t.before

    def spoken(self, node: Any, t: Template) -> Any:
        """An expression as Python is to run it; parts that are no texts are values of the program."""
        if isinstance(node, ast.Starred):
            return ast.Starred(self.spoken(node.value, t), ast.Load())
        if self.is_within(node, t):
            return self.spoken_text(node, t) if self.is_text(node) else self.spoken_within(node, t)
        known, x = self.static(node) if not isinstance(node, (ast.JoinedStr, ast.FormattedValue)) else (False, None)
        if known and isinstance(x, Said):
            return self.spoken(x.node, t)
        if known and not is_array(x):
            return t.known(x)
        if isinstance(node, ast.Attribute) and node.attr == "dtype":
            return ast.Attribute(self.spoken(node.value, t), "dtype", ast.Load())
        if isinstance(node, (ast.JoinedStr, ast.FormattedValue)) or self.is_text(node):
            return self.spoken_text(node, t)
        iterator = self.is_iterator(node)
        if iterator:
            self.refuse(node, f"a {iterator} is printed as the object that it is", "write list(...) around it")
        return t.value(node, self.like(node))

    def spoken_text(self, node: Any, t: Template) -> Any:
        if isinstance(node, ast.JoinedStr):
            return ast.JoinedStr([v if isinstance(v, ast.Constant) else self.spoken_text(v, t) for v in node.values])
        if isinstance(node, ast.FormattedValue):
            spec = None if node.format_spec is None else self.spoken_text(node.format_spec, t)
            return ast.FormattedValue(self.spoken(node.value, t), node.conversion, spec)
        if isinstance(node, ast.BinOp):
            right = ast.Tuple([self.spoken(e, t) for e in node.right.elts], ast.Load()) \
                if isinstance(node.op, ast.Mod) and isinstance(node.right, ast.Tuple) else self.spoken(node.right, t)
            return ast.BinOp(self.spoken(node.left, t), node.op, right)
        if isinstance(node, ast.IfExp):
            within = self.is_within(node.test, t)
            for way in () if within else (node.body, node.orelse):
                if any(isinstance(n, (ast.Call, ast.Subscript, ast.BinOp)) for n in ast.walk(way)) and not self.static(way)[0]:
                    self.refuse(way, "both ways of a choice of texts would be computed", "choose by an if statement around print")
            test = self.spoken(node.test, t) if within else t.value(ast.copy_location(ast.UnaryOp(ast.Not(), ast.copy_location(ast.UnaryOp(ast.Not(), node.test), node)), node), None)
            return ast.IfExp(test, self.spoken(node.body, t), self.spoken(node.orelse, t))
        if isinstance(node, ast.Subscript) and (isinstance(node.slice, ast.Slice) or not self.static(node.slice)[0]):
            parts = [p and self.spoken(p, t) for p in (node.slice.lower, node.slice.upper, node.slice.step)] if isinstance(node.slice, ast.Slice) else []
            return ast.Subscript(self.spoken(node.value, t), ast.Slice(*parts) if parts else self.spoken(node.slice, t), ast.Load())
        if isinstance(node, ast.Subscript):
            return ast.Subscript(self.spoken(node.value, t), self.spoken(node.slice, t), ast.Load())
        method = isinstance(node.func, ast.Attribute) and self.is_text(node.func.value)
        of: Any = t.known(self.static(node.func)[1]) if not method else ast.Attribute(self.spoken(node.func.value, t), node.func.attr, ast.Load())
        return ast.Call(of, [self.argument(a, t) for a in node.args], [ast.keyword(k.arg, self.spoken(k.value, t)) for k in node.keywords])

    def argument(self, node: Any, t: Template) -> Any:
        """An argument of a method of a text: the items of join are often made there."""
        if isinstance(node, (ast.GeneratorExp, ast.ListComp)):
            return self.spoken_items(node, t)
        if isinstance(node, ast.Call) and self.static(node.func) == (True, map) and len(node.args) == 2 and self.static(node.args[0])[1] in _FUNCTIONS:
            return ast.Call(t.known(map), [t.known(self.static(node.args[0])[1]), self.spoken(node.args[1], t)], [])
        return self.spoken(node, t)

    def spoken_items(self, node: Any, t: Template) -> Any:
        """A comprehension within a text: Python goes through its items."""
        made, before, outer = [], len(t.inner), self.scope
        for g in node.generators:
            over = self.spoken_within(g.iter, t) if self.is_within(g.iter, t) else self.over(g.iter, t)
            t.inner.append({n.id for n in ast.walk(g.target) if isinstance(n, ast.Name)})
            self.scope = Scope(t.inner[-1], self.scope)
            made.append(ast.comprehension(g.target, over, [self.spoken(i, t) for i in g.ifs], 0))
        elt = self.spoken(node.elt, t)
        del t.inner[before:]
        self.scope = outer
        return type(node)(elt, made)

    def over(self, node: Any, t: Template) -> Any:
        """What a comprehension goes through."""
        known, f = self.static(node.func) if isinstance(node, ast.Call) else (False, None)
        if known and f in _LISTS:
            return ast.Call(t.known(f), [self.over(a, t) for a in node.args], [ast.keyword(k.arg, self.spoken(k.value, t)) for k in node.keywords])
        return self.spoken(node, t)

    def spoken_within(self, node: Any, t: Template) -> Any:
        """An expression of the names that a comprehension binds: Python computes it, of what is known and of values of the program."""
        if isinstance(node, (ast.GeneratorExp, ast.ListComp)):
            return self.spoken_items(node, t)
        if isinstance(node, ast.Call):
            known, f = self.static(node.func) if not self.is_within(node.func, t) else (False, None)
            if known and not (f in _FUNCTIONS or f in _LISTS or f in (abs, round, int, float, bool, min, max, sum) or is_foreign(f)):
                self.refuse(node, "a function is not called within a text", "call it before, and print what it gives")
        if not isinstance(node, (ast.Name, ast.expr_context, ast.operator, ast.unaryop, ast.cmpop, ast.boolop, ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.Call,
                                 ast.Subscript, ast.Slice, ast.Tuple, ast.List, ast.JoinedStr, ast.FormattedValue, ast.IfExp, ast.Attribute, ast.Starred, ast.keyword)):
            self.refuse(node, f"{type(node).__name__} within a text cannot be compiled")
        out = copy.copy(node)
        for name, part in ast.iter_fields(node):
            if isinstance(part, list):
                setattr(out, name, [self.spoken_part(p, t) for p in part])
            elif isinstance(part, ast.expr):
                setattr(out, name, self.spoken_part(part, t))
        return out

    def spoken_part(self, node: Any, t: Template) -> Any:
        if isinstance(node, ast.Constant) or not isinstance(node, (ast.expr, ast.keyword)):
            return node
        if isinstance(node, (ast.Slice, ast.keyword)):
            return self.spoken_within(node, t)
        return self.spoken(node, t)

    @staticmethod
    def is_within(node: Any, t: Template) -> bool:
        """Whether an expression has names that a comprehension within the text binds."""
        return bool(t.inner) and any(isinstance(n, ast.Name) and n.id in t.bound() for n in ast.walk(node))


# ---- the core's Print ----

def pieces(nodes: list, fixed: dict) -> Any:
    """Texts, names of values and expressions of another form, which Python alone writes, that what is printed is made of."""
    for n in nodes:
        if isinstance(n, ast.Constant):
            yield str(n.value)
        elif isinstance(n, ast.JoinedStr):
            yield from filter(None, (p.strip() if isinstance(p, str) else p for p in pieces(n.values, fixed)))
        elif isinstance(n, ast.FormattedValue) and n.conversion in (-1, ord("s")) and n.format_spec is None:
            yield from pieces([n.value], fixed)
        elif isinstance(n, ast.BinOp) and isinstance(n.op, ast.Add):
            yield from filter(None, (p.strip() if isinstance(p, str) else p for p in pieces([n.left, n.right], fixed)))
        elif isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and fixed.get(n.func.id) is str and len(n.args) == 1:
            yield from pieces(n.args, fixed)
        elif isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr == "format" and isinstance(n.func.value, ast.Constant):
            yield from formatted(n, fixed)
        else:
            yield n


def formatted(n: Any, fixed: dict) -> Any:
    """Those of "x is {}".format(x)."""
    count, given = 0, {str(i): a for i, a in enumerate(n.args)} | {k.arg: k.value for k in n.keywords}
    for literal, field, spec, conversion in string.Formatter().parse(n.func.value.value):
        if literal.strip():
            yield literal.strip()
        if field is not None:
            place, count = field or str(count), count + (not field)
            if place not in given:
                yield n
            else:
                yield from pieces([ast.FormattedValue(given[place], ord(conversion or "s"), ast.Constant(spec) if spec else None)], fixed)


# ---- the operation of the host ----

_MADE: dict[Any, tuple] = {}
_TUPLE, _RECORD, _NONE = -1, -2, -3  # in the description of values; other numbers are element types
_KINDS = ("int", "float", "complex", *sorted(DTYPES))


def _made(call: ast.Expression, t: Template) -> str:
    """The operation that prints so. Equal names print equally, in each process."""
    from .._host import HostOp, _Type
    key = ast.dump(call), tuple(map(_like_key, t.likes)), tuple((n, id(x)) for n, x in t.fixed.items())
    if key not in _MADE:
        text = repr((key[:2], [(n, repr(x)) for n, x in t.fixed.items()]))
        name, likes = f"print_{hashlib.sha256(text.encode()).hexdigest()[:16]}", t.likes
        run = eval(compile(ast.fix_missing_locations(ast.Expression(ast.Lambda(  # of the user's own line
            ast.arguments(posonlyargs=[], args=[ast.arg(f"a{i}") for i in range(len(likes))], kwonlyargs=[], kw_defaults=[], defaults=[]), call.body))),
            "<print>", "eval"), {"print": builtins.print, **t.fixed})

        def printing(what: Any, floats: Any, whole: Any) -> tuple:
            given = _Given(what.tolist(), floats, whole)
            run(*map(given.next, likes))
            return ()
        if name not in HostOp.names:
            HostOp.names[name] = 1
            HostOp(printing, _Type("fn(i64[K], f64[N], i64[M]) -> ()"), 0, True, name)
        _MADE[key] = name, t.fixed
    return _MADE[key][0]


class _Given:
    """Values, from numbers that say what they are and from those that they are made of."""

    def __init__(self, what: list[int], floats: Any, whole: Any) -> None:
        self.what, self.at, self.floats, self.whole = what, 0, floats[1:], whole[1:]

    def int(self) -> int:
        self.at += 1
        return self.what[self.at - 1]

    def next(self, s: Shape | None) -> Any:
        kind = self.int()
        if s is not None and s.kind == "static":
            self.at -= 1
            self.skip()
            return s.of
        if kind == _NONE:
            return None
        if kind in (_TUPLE, _RECORD):
            n = self.int()
            keys = [self.key() for _ in range(n)] if kind == _RECORD else []
            return self.structure(s, keys, [self.next(q) for q in _parts_like(s, n)])
        x = self.array(_KINDS[kind], tuple(self.int() for _ in range(self.int())))
        return list(map(_plain, x)) if s is not None and s.kind == "stacked" else _plain(x)

    def skip(self) -> None:
        self.next(None)

    def key(self) -> Any:
        text = "".join(chr(self.int()) for _ in range(self.int()))
        return key_of(text)

    @staticmethod
    def structure(s: Shape | None, keys: list, parts: list) -> Any:
        if s is not None and s.kind == "object":
            return made_of(s.of, s.names, parts)
        if keys or s is not None and s.kind == "dict":
            return dict(zip(keys, parts))
        return parts if s is not None and (s.kind == "list" or s.kind == "mapped" and s.names != ("tuple",)) else tuple(parts)

    def array(self, kind: str, shape: tuple) -> Any:
        import numpy as np
        n = math.prod(shape) * (2 if kind[0] == "c" else 1)
        of = "floats" if kind[0] in "fc" or kind == "bf16" else "whole"
        given = getattr(self, of)
        setattr(self, of, given[n:])
        x = given[:n]
        if kind[0] == "c":
            x = x[::2] + 1j * x[1::2]
        name = {"int": "i64", "float": "f64", "complex": "c128", "bf16": "f32"}.get(kind, kind)
        return x.astype(np.dtype("?" if name == "bool" else name[0] + str(int(name[1:]) // 8))).reshape(shape)


def _parts_like(s: Shape | None, n: int) -> list:
    if s is not None and len(s.parts) == n and s.kind in ("tuple", "list", "dict", "object"):
        return s.parts
    return [s.of if s is not None and s.kind == "mapped" and isinstance(s.of, Shape) else None] * n


def _plain(x: Any) -> Any:
    """An array, or a number; those of Python's types as Python's, which print so."""
    return x if x.ndim else x.item() if x.dtype.char in "dlq?D" else x[()]


def _described(types: tuple) -> str:
    """A program that gives (what the arguments are, their floats, their whole numbers)."""
    what: list[int] = []
    floats, whole = ["f64(0)"], ["i64(0)"]

    def put(x: Any, text: str) -> None:
        if isinstance(x, tuple):
            what.extend((_TUPLE, len(x)))
            for i, p in enumerate(x):
                put(p, f"{text}[{i}]")
        elif isinstance(x, dict):
            what.extend((_RECORD, len(x)))
            for k in map(key_text, x):
                what.extend((len(k), *map(ord, k)))
            for k, p in x.items():
                put(p, f"{text}.{quoted(k)}")
        elif x is None or x == "none":
            what.append(_NONE)
        elif not isinstance(x, TensorType) or x.dtype.name not in _KINDS or None in x.dims:
            raise TypeError("what is chosen when the program runs cannot be printed, unless it is a number or an array")
        else:
            kind = x.dtype.name
            what.extend((_KINDS.index(kind), len(x.dims), *x.dims))
            if kind[0] == "c":
                floats.append(f"f64(Stack(Real({text}), Imag({text}), axis=-1))")
            else:
                (floats if kind[0] == "f" or kind == "bf16" else whole).append(f"{'f64' if kind[0] == 'f' or kind == 'bf16' else 'i64'}({text})")
    names = [f"a{i}" for i in range(len(types))]
    for x, name in zip(types, names):
        put(x, name)
    vectors = [f"Concat({', '.join(f'Reshape({p}, (-1,))' for p in parts)}, axis=0)" if len(parts) > 1 else f"Reshape({parts[0]}, (1,))" for parts in (floats, whole)]
    return f"def described({', '.join(names)}) {{\n  (i64(Stack({', '.join(map(str, what or [0]))})), {', '.join(vectors)})\n}}\n"


@functools.cache
def _describing() -> Any:
    from .._generated import Generated

    def described(*types: Any) -> str:
        return _described(types)
    return Generated(described)
