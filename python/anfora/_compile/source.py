# SPDX-License-Identifier: Apache-2.0
"""From the source of a Python function to a function of a program.

Python's statements and expressions have counterparts in the language nearly one to one (docs/language.md), so
they are written as they stand; what has none is refused, with its place and what to write instead. Names of
the function itself stay names; all other names mean what they are bound to now, and become constants,
functions of the program, or captured arrays."""
from __future__ import annotations

import ast
import importlib
import inspect
import sys
import types
from typing import Any, NoReturn

from .augmented import Augmented
from .bodies import Bodies
from .branches import Branches
from .captures import late_change
from .classes import Classes
from .comprehensions import Comprehensions, items_of_any
from .constants import Constants
from .containers import Containers, METHODS_OF
from .dims import Dims
from .exchanged import Exchanged
from .effects import giving_back, resolver, with_given
from .emit import Builder, fail, safe_name
from .fields import remade, with_fields
from .given import Given
from .grids import Grids
from .._errors import CompileError, Place
from .generators import gathering, with_gathered
from .hints import Hints
from .compared import Compared
from .holders import Unmade
from .kinds import placed
from .known import ANY, Is, Knowing, Like, Scope, class_member, is_structure, parameters, part_entry
from .indexed import Indexed
from .iterables import Iterables
from .iterators import Iterators
from .listed import filling, is_replaced
from .loop_lists import Lists
from .loops import Loops
from .masks import Masked
from .match import Matching, at, has_named, named_within
from .names import local_names
from .nested import with_nested
from .numbers import factor, is_inverse
from .sugar import plainer
from .static import Call, call_source, emit_call, hyper_mapped, static_text
from .origin import source_of
from .owned import Owned
from .printed import Printed
from .raises import Raises
from .sequences import Sequences
from .stores import Stores, whole_position
from .structures import Structures
from .truths import Truths
from .unread import Unread
from .various import Various, takes_any
from .windows import Windowed
from .windows import call as library_call
from .._tree import Shape, is_key, quoted
from .._types import declared, finfo

_BINARY = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.MatMult: "@", ast.LShift: "<<", ast.RShift: ">>", ast.BitOr: "|", ast.BitXor: "^", ast.BitAnd: "&",
}
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)
_COMPARE = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
_OF_TYPE = ("itemsize", "nbytes")  # of arrays, which their types tell
_PROPERTIES = {"T": "Transpose", "real": "Real", "imag": "Imag"}  # of arrays
_UNARY = {ast.USub: "-", ast.UAdd: "+", ast.Invert: "~", ast.Not: "not "}

SILENT = {"errstate", "nullcontext", "named_scope", "catch_warnings"}  # contexts that change no value

# What to write instead of what cannot be compiled
_INSTEAD = {
    ast.Try: ("try", "write a condition in place of it: if i < len(xs), if b != 0; one of IndexError or ZeroDivisionError about one statement of arithmetic, "
                     "and of what the statements raise themselves, is compiled; other errors reach the caller, who may catch them"),
    ast.Global: ("global", "return the new value, and let the caller bind it"),
    ast.Nonlocal: ("nonlocal", "call the function in statements of their own, y = f(x), or return the new value"),
    ast.ClassDef: ("class", "define the class outside of the compiled function"),
    ast.AsyncFunctionDef: ("async", "write a plain function"),
    ast.AsyncFor: ("async", "write a plain loop"),
    ast.AsyncWith: ("async", "call what it does outside of the compiled function"),
    ast.Await: ("await", "write a plain call"),
    ast.Yield: ("yield", "a generator is compiled where a loop, a comprehension or list(...) goes through all its items, that changes nothing that it reads; else return a list"),
    ast.YieldFrom: ("yield", "collect what it gives in a tuple, and return that"),
    ast.NamedExpr: (":=", "bind the name in a statement of its own"),  # what hoisted() does not reach
    ast.Set: ("a set", "write a tuple"),
    ast.SetComp: ("a set", "write a tuple"),
    ast.JoinedStr: ("a formatted text", "give print the parts: print(\"loss\", x)"),
}


def makes_apart(node: Any, target: Any) -> bool:
    """Whether an expression is a list or dictionary of which nothing is that the target binds."""
    bound = {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
    return isinstance(node, (ast.List, ast.Dict)) and not any(isinstance(n, ast.Name) and n.id in bound for n in ast.walk(node))


def makes_one_of(target: Any, value: Any) -> bool:
    """Whether a new list or dictionary is bound to one of several names."""
    return isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts) and \
        all(isinstance(t, ast.Name) for t in target.elts) and any(makes_apart(v, target) for v in value.elts)


class Writer(Knowing, Constants, Structures, Grids, Classes, Comprehensions, Loops, Lists, Owned, Given, Matching, Sequences, Branches, Raises, Hints, Augmented, Masked, Windowed, Iterators, Containers, Truths, Bodies, Dims, Various, Printed, Iterables, Indexed, Unread, Compared):
    """Writes one outermost function and those within it."""

    def __init__(self, builder: Builder, fn: types.FunctionType, file: str, statics: dict[str, Any],
                 shapes: dict[str, Shape], given: tuple[str, ...] = (), places: dict[int, tuple] | None = None) -> None:
        self.places = places or {}  # of nodes that are numbered
        self.b, self.fn, self.file = builder, fn, file
        self.given = given      # parameters that the function changes and gives back
        self.unheld: set[str] = set()  # of these: lists that no result holds
        self.gives_back: list = []  # by return: what these are like
        self.gave = -1          # the unit of the last call that gives something back
        self.statics = statics  # parameters that are known: functions and texts
        self.shapes = shapes    # the structure of others
        self.scope = None
        self.cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or ()))
        self.temp = 0
        self.ended = False
        self.hints: list = []
        self.asking: set[str | int] = set()         # names whose bindings are being visited, or the nodes that read them
        self.answered: dict[tuple, Any] = {}        # within one question, what is known of names by scope and last binding: loops name each other
        self.returning: list = self.hints           # of the current function: the structures that it returns
        self.returned: dict[str, list] = {}         # of functions within, by name
        self.returning_like: list = []              # the same as shapes, None where nothing is known
        self.returned_like: dict[str, list] = {}
        self.tried: dict[tuple, Any] = {}           # by function and arguments: what it gives
        self.hints_tried: dict[tuple, list] = {}    # and the hints for it
        self.argued: dict[int, list] = {}           # of lambdas: what their arguments are like
        self.before: list[str] = []                 # what stands before the current statement, and how far it is indented
        self.indent = ""
        self.flags: list[str | None] = []  # of loops with an else: what break sets
        self.filling = {}
        self.grids: dict[tuple, tuple[int, Any]] = {}  # by function and name: how many dims such a list has
        self.shown: list = []     # values in the current message
        self.unused: Any = None  # the expression that a statement is
        self.read_in: dict[int, tuple] = {}  # by function: names that it reads, and those that it binds more than once
        self.in_loops: dict[int, tuple[Any, set[str]]] = {}  # by function: names that its loops change
        self.slice_names: dict[int, tuple[Any, dict]] = {}  # by function: names of slices
        self.assigned = {}
        self.parts_named: dict[int, tuple[Any, dict]] = {}  # by function: names that it binds to parts and fields, and to which
        self.replaced: dict[int, tuple] = {}  # by function: names of which it replaces items, and of these by an index that is computed
        self.stores_of: dict[int, tuple[Any, Any]] = {}  # by function: how often it binds each name
        self.late: dict[tuple, tuple] = {}  # by function and the one around it: what changes before it is called again
        self.plain: set[int] = set()  # calls that are not of what a mask chooses
        self.changed: dict[int, tuple[Any, Stores]] = {}  # by function: which of its arrays change in place

    # ---- places, names ----

    def mark(self, node: Any) -> str:
        return self.b.mark(self.place(node))

    def place(self, node: Any) -> Place:
        if node.lineno in self.places:
            return Place(*self.places[node.lineno])
        end = node.end_col_offset + 1 if node.end_lineno == node.lineno else 10**6
        return Place(self.file, node.lineno, node.col_offset + 1, end)

    def refuse(self, node: Any, message: str, hint: str = "") -> NoReturn:
        fail(self.place(node), message, hint)

    def fresh(self) -> str:
        self.temp += 1
        return f"t{self.temp}__"

    def local(self, name: str) -> str:
        self.b.locals.add(safe_name(name))
        return safe_name(name)

    # ---- expressions ----

    def expr(self, node: Any) -> str:
        method = getattr(self, "expr_" + type(node).__name__, None)
        if method is None:
            what, hint = _INSTEAD.get(type(node), (type(node).__name__, ""))
            self.refuse(node, f"{what} cannot be compiled", hint)
        own = self.only_read(node)
        text = self.mark(node) + method(node)
        for e in own:
            e.own = True
        return text

    def exprs(self, nodes: list) -> str:
        return ", ".join(self.expr(n) for n in nodes)

    def expr_Constant(self, node: ast.Constant) -> str:
        return static_text(self, node, node.value)

    def expr_Name(self, node: ast.Name) -> str:
        dims = self.dims_text(node)
        if dims is not None:
            return dims
        self.give_away(node)
        owner = self.scope.owner(node.id)
        if owner and node.id in owner.defs and takes_any(owner.defs[node.id]):
            return self.mark(node) + self.any_number_named(node, owner)
        self.not_refused(node.id)
        if owner and owner.defaults.get(node.id):
            return self.mark(node) + self.with_defaults(node.id, owner.defs[node.id], owner.defaults[node.id])
        return self.looked_at(node)

    def with_defaults(self, name: str, args: ast.arguments, defaults: dict[str, str]) -> str:
        """A nested function as a value: of the arguments without defaults."""
        names = {p.arg: defaults.get(p.arg, self.local(p.arg)) for p in self.parameters_of(args)}
        free = ", ".join(self.local(n) for n in names if n not in defaults)
        return f"fn ({free}) {{ {self.local(name)}({', '.join(names.values())}) }}"

    def looked_at(self, node: Any) -> str:
        """What only looks at an expression: it may be changed after."""
        if not isinstance(node, ast.Name):
            return self.expr(node)
        self.not_refused(node.id)
        return self.mark(node) + (self.local(node.id) if self.is_local(node.id) else static_text(self, node, self.lookup(node)))

    def expr_BinOp(self, node: ast.BinOp) -> str:
        sides = (node.left, node.right)
        known, x = self.static(node)
        if known and isinstance(x, (str, tuple, int, float)):
            return static_text(self, node, x)
        if isinstance(error := self.arithmetic_error(node), Exception):
            return self.raising(node, error, f"{self.expr(node.left)} * {1 if isinstance(node.op, (ast.LShift, ast.RShift)) else 1.0}")
        if isinstance(node.op, ast.Div):  # as Python divides: a large integer is the number nearest to it
            large = [self.large(e) for e in sides]
            if any(large):
                return f"({large[0] or self.expr(node.left)} {self.mark(node)}/ {large[1] or self.expr(node.right)})"
        if isinstance(node.op, ast.BitOr) and self.like_joined(node) is not None:
            return self.expr(ast.copy_location(ast.Dict([None, None], list(sides)), node))
        windowed = self.windowed(node)
        if windowed is not None:
            return windowed
        self.no_list_of_rows(node)
        for side in sides:
            self.not_iterator(side, "has no operators")
        own = self.own_operator(node, node.left, METHODS_OF.get(type(node.op), ""), [node.right])
        if own is not None:
            return own
        if isinstance(node.op, ast.Pow) and is_inverse(self, node):  # 2 ** -1 of Python is a float, and of an array an error
            return f"(Cast({self.expr(node.left)}, dtype=float) {self.mark(node)}** {self.expr(node.right)})"
        times = self.repeated(node)
        if times is not None:
            t = self.fresh()
            return f"(fn ({t}) {{ TupleConcat({', '.join([t] * times[1]) or '()'}) }})({self.looked_at(times[0])})"
        if (found := self.often(node)) is not None:
            return self.expr(library_call(node, "items_often", list(found)))
        if isinstance(node.op, ast.Add) and any(isinstance(x, (ast.Tuple, ast.List, ast.ListComp)) or
                                                is_structure(self.like(x)) or self.is_mapped(x) or self.gives_dims(x) for x in sides):
            return f"TupleConcat({self.looked_at(node.left)}, {self.looked_at(node.right)})"
        if isinstance(node.op, ast.Add) and all(map(self.is_truth, sides)):
            return self.truths_added(node)
        left, right = (factor(self, a, b) if isinstance(node.op, _ARITHMETIC) else self.expr(a) for a, b in (sides, sides[::-1]))
        return f"({left} {self.mark(node)}{_BINARY[type(node.op)]} {right})"

    def no_list_of_rows(self, node: ast.BinOp) -> None:
        """xs + ys and xs * 2 make longer lists in Python; of a list that a loop filled, an array, they would add and multiply."""
        rows = [s is not None and s.kind == "stacked" for s in map(self.like, (node.left, node.right))]
        number = any(self.static(x)[0] and isinstance(self.static(x)[1], int) for x in (node.left, node.right))
        if isinstance(node.op, ast.Add) and all(rows) or isinstance(node.op, ast.Mult) and any(rows) and number:
            self.refuse(node, "the list is an array, as a loop filled it, which Python would make longer here",
                        "write concatenate for that, and asarray(xs) for arithmetic of the items")

    def gives_dims(self, node: Any) -> bool:
        """Whether an expression is x.shape or a part of it: tuples, which + puts one after the other."""
        if isinstance(node, ast.Attribute):
            return node.attr == "shape" and not self.static(node)[0]
        if isinstance(node, ast.Name):
            return self.is_named_shape(node)
        if isinstance(node, ast.Subscript):
            return isinstance(node.slice, ast.Slice) and self.gives_dims(node.value)
        if isinstance(node, ast.Call):
            return len(node.args) == 1 and self.static(node.func) in ((True, tuple), (True, list)) and self.gives_dims(node.args[0])
        return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and (self.gives_dims(node.left) or self.gives_dims(node.right))

    def large(self, node: Any) -> str | None:
        """An integer that 64 bits do not hold, as a number with a point."""
        known, x = self.static(node)
        return repr(float(x)) if known and type(x) is int and not -2**63 <= x < 2**63 and abs(x) < 2**1023 else None

    def expr_UnaryOp(self, node: ast.UnaryOp) -> str:
        known, x = self.static(node)
        if known and type(x) in (int, bool):
            return static_text(self, node, x)
        own = self.own_operator(node, node.operand, "__neg__" if isinstance(node.op, ast.USub) else "", [])
        if own is not None:
            return own
        if isinstance(node.op, ast.Not):
            return f"({self.mark(node)}not {self.truth_text(node.operand)})"
        if isinstance(node.op, ast.Invert) and self.is_truth(node.operand):
            return self.truth_inverted(node)
        return f"({self.mark(node)}{_UNARY[type(node.op)]}{self.expr(node.operand)})"

    def expr_BoolOp(self, node: ast.BoolOp) -> str:
        known, x = self.static(node)
        if known:
            return static_text(self, node, x)
        ends = isinstance(node.op, ast.Or)
        word = " or " if ends else " and "
        rest = self.remaining(node)
        return "(" + (self.mark(node) + word).join(self.expr(v) for v in rest) + ")"

    def condition(self, node: Any) -> str:
        """Whether an expression holds: of `and`, `or` and `not` only that matters, not which part they give."""
        known, test = self.decided(node)
        if known:
            return "true" if test else "false"
        if isinstance(node, ast.BoolOp):
            ends = isinstance(node.op, ast.Or)
            rest = [v for v in node.values if self.decided(v) != (True, not ends)]
            return "(" + (self.mark(node) + (" or " if ends else " and ")).join(self.truth_text(v) for v in rest) + ")"
        return self.truth_text(node) if (s := self.like(node)) is not None and s.kind == "stacked" else self.expr(node)

    def truth_text(self, node: Any) -> str:
        """The condition as a truth value."""
        if isinstance(node, (ast.Compare, ast.BoolOp)) or isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self.condition(node)
        if (s := self.like(node)) is not None and s.kind == "stacked":  # a list: whether it has items
            return f"(len({self.looked_at(node)}) > 0)"
        return f"({self.scalar(node)} != 0)"

    def scalar(self, node: Any) -> str:
        """A number: of an array its one element, as Python's conversions take it; others are refused."""
        return f"Reshape{self.mark(node)}({self.expr(node)}, ())"

    def expr_Compare(self, node: ast.Compare) -> str:
        known, test = self.static(node)
        if known:
            return "true" if test else "false"
        if isinstance(node.ops[0], (ast.Is, ast.IsNot)) and len(node.ops) == 1 and self.static(node.comparators[0]) == (True, None):
            return f"({self.expr(node.left)} {self.mark(node)}{'==' if isinstance(node.ops[0], ast.Is) else '!='} None)"
        if any(self.type_of(s) is not None for s in (node.left, *node.comparators)):
            self.no_class(node)
        if any(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops):
            self.refuse(node, "is compares objects, which compiled functions do not have",
                        "compare numbers with ==; pass None and other choices as static arguments")
        if isinstance(node.ops[0], (ast.In, ast.NotIn)):
            return self.membership(node)
        if (text := self.compared_lists(node)) is not None:
            return text
        sides = [node.left, *node.comparators]
        types = any(isinstance(s, ast.Attribute) and s.attr == "dtype" for s in sides)
        text = self.type_text(node.left, types)
        for op, right in zip(node.ops, node.comparators):
            if type(op) not in _COMPARE:
                self.refuse(node, "this comparison cannot be part of a chain")
            text += f" {self.mark(node)}{_COMPARE[type(op)]} {self.type_text(right, types)}"
        return f"({text})"

    def expr_IfExp(self, node: ast.IfExp) -> str:
        known, test = self.decided(node.test)
        if known:
            return self.expr(node.body if test else node.orelse)
        return f"(if {self.condition(node.test)} {{ {self.expr(node.body)} }} else {{ {self.expr(node.orelse)} }})"

    def expr_Tuple(self, node: Any) -> str:
        if not any(isinstance(e, ast.Starred) for e in node.elts):
            return "(" + self.exprs(node.elts) + (",)" if len(node.elts) == 1 else ")")
        return f"TupleConcat{self.mark(node)}({', '.join(self.items_text(e.value) if isinstance(e, ast.Starred) else f'({self.expr(e)},)' for e in node.elts)})"

    expr_List = expr_Tuple

    def expr_Dict(self, node: ast.Dict) -> str:
        items: dict[str, str] = {}
        for k, v in zip(node.keys, node.values):
            known, name = self.static(k) if k is not None else (True, None)
            if k is None:
                items.update(self.spread(v))
            elif not known or not is_key(name):
                self.refuse(node, "keys of dictionaries must be texts or numbers that are known")
            else:
                items[name] = self.expr(v)
        return self.record(list(items.items()))

    def spread(self, node: Any) -> dict[str, str]:
        """**node in a dictionary."""
        known, x = self.static(node)
        if known and isinstance(x, dict):
            return {k: static_text(self, node, v) for k, v in x.items()}
        s = self.like(node)
        if s is None or s.kind != "dict":
            self.refuse(node, "it is not known what keys this has", "write the keys out")
        return {n: i.text for n, i in zip(s.names, self.parts_of(self.looked_at(node), s))}

    def expr_JoinedStr(self, node: ast.JoinedStr) -> str:
        known, x = self.static(node)
        if not known:
            self.refuse(node, "a formatted text cannot be compiled", "give print the parts: print(\"loss\", x)")
        return static_text(self, node, x)

    def record(self, items: list) -> str:
        return "{" + ", ".join(f"{quoted(n)} = {v}" for n, v in items) + "}"

    def expr_Lambda(self, node: ast.Lambda) -> str:
        if takes_any(node.args):
            return self.any_number_lambda(node)
        given, bare = self.defaults_bound(node.args)
        params, scope = self.enter(bare, {a.arg for a in parameters(node.args)} | set(named_within(node.body)), node)
        self.bind_like(bare, self.argued.get(id(node), []))
        before, body = self.lambda_body(node.body, "  ")
        text = f"fn ({params}) {{ {before}{self.expr(body)} }}"
        self.scope = scope
        if given:  # what is bound to a default cannot be given
            text = f"(fn ({', '.join(given)}) {{ {text} }})({', '.join(given.values())})"
        return text

    def defaults_bound(self, args: ast.arguments) -> tuple[dict[str, str], ast.arguments]:
        """(names of parameters with defaults, to these; the parameters without them)"""
        n = len(args.args) - len(args.defaults)
        pairs = [*zip(args.args[max(0, n):], args.defaults), *((a, d) for a, d in zip(args.kwonlyargs, args.kw_defaults) if d)]
        given = {self.local(a.arg): self.expr(d) for a, d in pairs}
        bound = {a.arg for a, _ in pairs}
        bare = ast.arguments(posonlyargs=args.posonlyargs, args=[a for a in args.args if a.arg not in bound], vararg=args.vararg,
                             kwonlyargs=[a for a in args.kwonlyargs if a.arg not in bound], kw_defaults=[], kwarg=args.kwarg, defaults=[])
        return given, bare

    # ---- subscripts, attributes, calls ----

    def expr_Subscript(self, node: ast.Subscript) -> str:
        filled = self.item_filled(node) or self.grid_item(node)
        if filled is not None:
            return filled
        known, x = self.static(node)
        if known:
            return static_text(self, node, x)
        if (item := self.item_of_numbers(node)) is not None:
            return item
        if (side := self.side_by_side(node)) is not None:
            return self.expr(side)
        self.not_iterator(node.value, "has no parts by index")
        own = self.own_operator(node, node.value, "__getitem__", [node.slice])
        if own is not None:
            return own
        key, k = self.static(node.slice)
        value = self.looked_at(node.value)
        s, at_ = self.like(node.value), self.like(node.slice)
        if at_ is not None and at_.kind == "mapped" and at_.names == ("tuple",) and not is_structure(s):
            from .._library.composed import HELPERS
            return HELPERS["at_indices"]._emit_call(self, self.applied(node, [node.value, node.slice], {}))
        if key and (isinstance(k, str) or s is not None and s.kind == "dict"):
            return f"{value}{self.mark(node)}.{quoted(k)}"
        if key and type(k) is int and s is not None and s.kind == "object" and issubclass(s.of, tuple) and k < len(s.names):
            return f"{value}{self.mark(node)}.{quoted(s.names[k])}"
        node = self.places_in_tuple(node)
        if self.counts_mask(node):
            return self.expr(library_call(node, "rows_of_mask", [node.value, node.slice]))
        index = str(k) if key and type(k) is int else self.index(node.slice)
        if s is not None and s.kind == "stacked":  # items may be trees, of which each leaf has the rows
            b = self.fresh()
            return hyper_mapped(f"fn ({b}) {{ {b}{self.mark(node)}[{index}] }}", [value])
        text = f"{value}{self.mark(node)}[{index}]"
        return self.one_element(node, text) if self.must_be_one(node) and not is_structure(s) else text

    def side_by_side(self, node: ast.Subscript) -> ast.Call | None:
        """np.c_[x, y] and np.r_[x, y] of arrays and numbers."""
        known, x = self.static(node.value) if isinstance(node.value, (ast.Name, ast.Attribute)) else (False, None)
        name = {"CClass": "joined_columns", "_CClass": "joined_columns", "RClass": "joined_rows", "_RClass": "joined_rows"}.get(type(x).__name__) if known else None
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if name is None or any(isinstance(p, (ast.Slice, ast.Starred)) or isinstance(self.static(p)[1], str) for p in parts):
            return None
        return library_call(node, name, [ast.copy_location(ast.Tuple(parts, ast.Load()), node)])

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
        known, x = self.static(node)
        if known and isinstance(x, (tuple, slice)):
            return self.index(written_index(node, x))
        return self.expr(node)

    def expr_Attribute(self, node: ast.Attribute) -> str:
        known, x = self.static(node)
        if known:
            return static_text(self, node, x)
        member = class_member(self.like(node.value), node.attr)
        if isinstance(member, property) and isinstance(member.fget, types.FunctionType):
            return call_source(self, Call(ast.copy_location(ast.Call(node, [node.value], []), node), member.fget, True),
                               member.fget, member.fget)
        if isinstance(member, (types.FunctionType, classmethod, staticmethod)):
            self.refuse(node, f"{ast.unparse(node)} is a method, of which compiled functions have no value", "call it where it is needed")
        of = self.limit_of(node)
        if of is not None:
            return of
        if node.attr == "mT" and not is_structure(self.like(node.value)):
            return f"SwapAxes{self.mark(node)}({self.expr(node.value)}, axis1=-1, axis2=-2)"
        if node.attr == "flat" and not is_structure(self.like(node.value)):
            from .._ops import OPS
            return self.expr(ast.fix_missing_locations(ast.copy_location(ast.Call(ast.Constant(OPS["ravel"]), [node.value], []), node)))
        if node.attr in _OF_TYPE and not is_structure(self.like(node.value)):
            from .._library.composed import HELPERS
            return HELPERS[node.attr]._emit_call(self, self.applied(node, [node.value], {}))
        if node.attr in _PROPERTIES and not is_structure(self.like(node.value)):
            return f"{_PROPERTIES[node.attr]}{self.mark(node)}({self.expr(node.value)})"
        return f"{self.expr(node.value)}{self.mark(node)}.{quoted(node.attr)}"

    def limit_of(self, node: ast.Attribute) -> str | None:
        """finfo(x.dtype).eps of an array: it is known when the types of arguments are."""
        call = node.value
        if not (isinstance(call, ast.Call) and len(call.args) == 1 and isinstance(call.args[0], ast.Attribute) and
                call.args[0].attr == "dtype"):
            return None
        known, f = self.static(call.func)
        if not known or self.limits(f) is not finfo:
            return None
        name = {"smallest_normal": "tiny"}.get(node.attr, node.attr)
        if name not in ("eps", "max", "min", "tiny"):
            self.refuse(node, f"finfo(x.dtype) has no {name} in compiled functions", "it has eps, max, min, tiny")
        from .._library.composed import HELPERS
        return HELPERS["limit_of"]._emit_call(self, self.applied(node, [call.args[0].value], {"name": name}))

    @staticmethod
    def applied(node: Any, args: list, constants: dict) -> Call:
        """A call of a function of ours, with arguments as they stand and constants by name."""
        c = Call(ast.copy_location(ast.Call(node, args, []), node), None, True)
        c.args, c.kw = args, {k: ast.copy_location(ast.Constant(v), node) for k, v in constants.items()}
        return c

    def expr_Call(self, node: ast.Call) -> str:
        self.no_change_of(node)
        known, f = self.static(node.func)
        return self.windowed(node) or self.reduced(node) or self.found_in_list(node) or emit_call(self, Call(node, f if known else None, known))

    # ---- statements ----

    def block(self, body: list, indent: str) -> str:
        """The statements that can be reached. `self.ended`: the end of the block cannot."""
        text, self.ended = "", False
        for s in body:
            self.ended = False
            text += self.statement(s, indent)
            if isinstance(s, (ast.Return, ast.Break, ast.Continue)):
                self.ended = True
            if self.ended:
                break
        return text

    def statement(self, node: Any, indent: str) -> str:
        method = getattr(self, "stmt_" + type(node).__name__, None)
        if method is None:
            what, hint = _INSTEAD.get(type(node), (type(node).__name__, ""))
            self.refuse(node, f"{what} cannot be compiled", hint)
        if isinstance(node, ast.While) and has_named(node.test):
            node = self.tested_within(node)
        before, node = self.hoisted(node, indent)
        outer, self.before, self.indent = (self.before, self.indent), [], indent
        text = method(node, indent)
        before += "".join(self.before)
        self.before, self.indent = outer
        return before + text + self.after_unread(node, text, indent)

    def stmt_With(self, node: ast.With, indent: str) -> str:
        """Contexts that change no value: their body alone."""
        for item in node.items:
            f = self.static(item.context_expr.func)[1] if isinstance(item.context_expr, ast.Call) else None
            if getattr(f, "__name__", "") not in SILENT or item.optional_vars is not None:
                self.refuse(node, "with cannot be compiled", "call what it does outside of the compiled function")
        return self.block(node.body, indent)

    def stmt_Pass(self, _node: Any, _indent: str) -> str:
        return ""

    def stmt_Expr(self, node: ast.Expr, indent: str) -> str:
        if isinstance(node.value, ast.Constant):
            return ""
        popped = self.popped(node.value, indent)
        if popped is not None:
            return popped[0] + popped[1]
        changed = self.changed_container(node.value, indent)
        if changed is not None:
            return changed
        grows = self.grow(node.value, indent)
        self.unused = node.value
        return grows if grows is not None else self.stands_alone(node.value, indent)

    def stmt_Import(self, node: ast.Import, _indent: str) -> str:
        for a in node.names:
            module = importlib.import_module(a.name)
            self.bind(a.asname or a.name.split(".")[0], Is(module if a.asname else sys.modules[a.name.split(".")[0]]), virtual=True)
        return ""

    def stmt_ImportFrom(self, node: ast.ImportFrom, indent: str) -> str:
        module = importlib.import_module("." * node.level + (node.module or ""), self.fn.__globals__.get("__package__"))
        return "".join(self.bind_static(node, a.asname or a.name, getattr(module, a.name), indent) for a in node.names)

    def stmt_Return(self, node: ast.Return, indent: str) -> str:
        self.no_iterator_given(node.value)
        if (before := self.popped_result(node, indent)) is not None:
            return before
        if self.given and self.scope.outer is None:
            return self.return_given(node, indent)
        text = f"{indent}{self.mark(node)}return{' ' + self.expr(node.value) if node.value else ''}\n"
        if node.value:
            self.returning.append(placed(self.structure_returned(node.value), self.place(node)))
        self.returning_like.append(self.known_returned(node.value) if node.value else Shape("none"))
        return text

    def stmt_Break(self, node: Any, indent: str) -> str:
        flag = f"{indent}{self.flags[-1]} = false\n" if self.flags and self.flags[-1] else ""
        return f"{flag}{indent}{self.mark(node)}break\n"

    def stmt_Continue(self, node: Any, indent: str) -> str:
        return f"{indent}{self.mark(node)}continue\n"

    def target(self, node: Any) -> str:
        """The name that a target is; what is no name cannot be bound."""
        if isinstance(node, ast.Name):
            self.bind(node.id)
            return self.local(node.id)
        self.no_change_of(node)
        return self.refuse(node, "fields change in the function that has made the object only", "make a new object")

    def no_change_of(self, node: Any) -> None:
        """Refuses a change of an object whose fields are no variables (fields.py)."""
        if hasattr(node, "apart"):
            name, why = node.apart
            self.refuse(node, f"the fields of {name} do not change in place: {why}", "give it no other name before it has changed, or make a new object")

    def bind_text(self, target: Any, text: str, indent: str, s: Shape | None = None) -> str:
        """Binds a target to what a text gives: a tuple or the rows of an array for several names."""
        if isinstance(target, ast.Subscript):
            return self.store_text(target, text, indent, s)
        if not isinstance(target, (ast.Tuple, ast.List)):
            text = f"{indent}{self.mark(target)}{self.target(target)} = {text}\n"
            if s is not None and is_structure(s):
                self.scope.env[target.id] = Like(s)
            return text
        n, t = len(target.elts), self.fresh()
        star = next((i for i, e in enumerate(target.elts) if isinstance(e, ast.Starred)), n)
        test = f"len({t}) == {n}" if star == n else f"len({t}) >= {n - 1}"
        out = (f"{indent}{self.mark(target)}{t} = {text}\n"
               f"{indent}{self.mark(target)}assert({test}, \"ValueError: there are {n} names for another number of items\")\n")
        e: Any
        for i, e in enumerate(target.elts):
            end = i - n + 1 or ""
            part = f"{i}:{end}" if i == star else str(i if i < star else i - n)
            of = s.parts[i] if s is not None and star == n and s.kind == "tuple" and len(s.parts) == n else None
            text = items_of_any(f"{t}[{part}]") if i == star else f"{t}[{part}]"  # a list in Python
            out += self.bind_text(e.value if i == star else e, text, indent, of)
            if i == star and isinstance(e.value, ast.Name):
                self.scope.env[e.value.id] = Like(Shape("mapped"))
        return out

    def stmt_Assign(self, node: ast.Assign, indent: str) -> str:
        if len(node.targets) == 1:
            text = self.assign(node.targets[0], node.value, node, indent)
            self.note_dims(node.targets[0], node.value)
            return text
        if self.stores_window_alone(node):
            return "".join(self.assign(t, node.value, node, indent) for t in node.targets)
        t, shape = self.fresh(), self.like(node.value)
        return f"{indent}{t} = {self.expr(node.value)}\n" + "".join(self.bind_text(x, t, indent, shape) for x in node.targets)

    def assign(self, target: Any, value: Any, node: Any, indent: str) -> str:
        if isinstance(target, ast.Subscript):
            return self.store(target, value, indent) if self.grid_at(target) is None else self.store_grid(target, value, indent)
        if isinstance(target, ast.Name):
            return self.assign_name(target, value, node, indent)
        if makes_one_of(target, value):  # xs, n = [], 0: each list by itself, for loops to fill
            pairs = [(t, v, makes_apart(v, target)) for t, v in zip(target.elts, value.elts)]
            names, rest = [t for t, _, apart in pairs if not apart], [v for _, v, apart in pairs if not apart]
            text = self.assign(at(node, ast.Tuple(names, ast.Store())), at(node, ast.Tuple(rest, ast.Load())), node, indent)
            return text + "".join(self.assign(t, v, node, indent) for t, v, apart in pairs if apart)
        items = self.sequence(value) if isinstance(target, (ast.Tuple, ast.List)) else None
        if (lists := self.gives_lists(value)):
            return self.bind_given(target, value, lists, indent)
        if items is None:
            return self.bind_text(target, self.expr(value), indent, self.like(value))
        pairs = [self.in_variables(node, item, indent) for item in items]
        return "".join(t for t, _ in pairs) + self.assign_parts(target, [i for _, i in pairs], indent)

    def assign_name(self, target: ast.Name, value: Any, node: Any, indent: str) -> str:
        if isinstance(value, ast.Lambda) and (value.args.defaults or any(value.args.kw_defaults) or self.takes_texts(target.id)) and self.bound_once(target.id):
            return self.lambda_named(target, value, node, indent)
        if (text := self.grid(target, value, indent)) is not None:
            return text
        if (made := filling(self, target, value)) is not None:
            return self.block(made, indent)
        popped = self.popped(value, indent)
        if popped is not None:
            before, after, shape = popped
            text = f"{before}{indent}{self.mark(node)}{self.target(target)} = {self.part_popped}\n{after}"
            if shape is not None:
                self.scope.env[target.id] = Like(shape)
            return text
        if (said := self.said(target, value, indent) or self.copied_rows(target, value, indent)) is not None:
            return said
        value = self.copied(value) or value
        made = self.makes_container(value)
        known, x = self.static(value) if not made else (False, None)
        if known:
            return self.bind_static(node, target.id, x, indent)
        shape, scope = self.like(value), self.scope
        try:
            text = self.expr(value)
        except CompileError:
            self.scope = scope
            if not isinstance(value, ast.Lambda) or not self.bound_once(target.id):
                raise
            return self.lambda_named(target, value, node, indent)
        if (shape is None or shape.kind == "object" and all(p is ANY for p in shape.parts)) and isinstance(value, ast.Call):
            shape = self.like(value)  # a function from outside is written by now
        if shape is None and self.is_value(value):
            shape = ANY
        self.bind_iterator(target.id, value)
        text = f"{indent}{self.mark(node)}{self.target(target)} = {text}\n"
        if shape is not None:
            self.scope.env[target.id] = Like(shape, own=made)
            if made and self.b.rows and is_replaced(self, target.id):
                text += self.as_rows(target.id, node, indent)
        if isinstance(value, ast.Lambda):
            self.scope.lambdas.add(target.id)
        return text

    def lambda_named(self, target: ast.Name, value: ast.Lambda, node: Any, indent: str) -> str:
        """f = lambda x: ... as a function that is defined."""
        body = ast.copy_location(ast.Return(value.body), value.body)
        f = ast.FunctionDef(name=target.id, args=value.args, body=[body], decorator_list=[], returns=None)
        return self.stmt_FunctionDef(ast.copy_location(f, node), indent)

    def bound_once(self, name: str) -> bool:
        """Is the name one thing in the whole function, so that its definition's defaults are known at all calls?"""
        of = self.scope.node
        stores = [n for n in ast.walk(of) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store)] if of else []
        return len(stores) == 1 and name not in {a.arg for a in parameters(of.args)}

    def takes_texts(self, name: str) -> bool:
        """Whether a function within is called with a text that is written there."""
        return any(isinstance(a, ast.Constant) and isinstance(a.value, str) for n in ast.walk(self.scope.node or ast.Pass())
                   if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == name for a in (*n.args, *(k.value for k in n.keywords)))

    def stmt_AnnAssign(self, node: ast.AnnAssign, indent: str) -> str:
        if node.value is None:
            return ""
        known, x = self.static(node.annotation)
        if isinstance(node.annotation, ast.Subscript):
            known, x = self.annotation(node.annotation)
        t = declared(x) if known else None
        if t is None:
            return self.assign(node.target, node.value, node, indent)
        text = self.expr(node.value)
        return f"{indent}{self.mark(node)}{self.target(node.target)}: {t} = {text}\n"

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

    # ---- functions ----

    def enter(self, args: ast.arguments, names: set[str], node: Any, types_of: dict | None = None) -> tuple[str, Scope | None]:
        """The parameters as text; the scope is that of the function now, the one before is given back."""
        params, outer = parameters(args), self.scope
        scope, texts = Scope({p.arg for p in params} | names, outer, node), []
        self.late_captures(node)
        for p in params:
            if outer is None and p.arg in self.statics:
                scope.env[p.arg] = Is(self.statics[p.arg])
                scope.virtual.add(p.arg)
                continue
            if outer is None:
                s = self.shapes.get(p.arg, ANY)
                scope.env[p.arg] = part_entry(s) or Like(s)
            if p is args.vararg and outer is not None:
                scope.env[p.arg] = Like(Shape("mapped", of=ANY, names=("tuple",)))
            t = types_of.get(p.arg) if types_of is not None else None
            if types_of is None and p.annotation:
                known, x = self.annotation(p.annotation)
                t = declared(x) if known else None
            texts.append(self.mark(p) + self.local(p.arg) + (f": {t}" if t else ""))
        self.scope = scope
        return ", ".join(texts), outer

    def late_captures(self, node: Any) -> None:
        outer, names = self.scope, set()
        while outer is not None and outer.node is None:  # a comprehension's
            names, outer = names | outer.names, outer.outer
        if outer is None or isinstance(outer.node, ast.Lambda):
            return
        key = id(node), id(outer.node)
        if key not in self.late:
            change = late_change(node, outer.node, outer.names | names, {a.arg for a in parameters(node.args)})
            self.late[key] = change, node, outer.node
        change = self.late[key][0]
        if change is not None:
            n = change.id
            self.refuse(change, f"the function in line {self.place(node).line} reads {n}, which changes here, before it is called again",
                        f"give the function the value: as an argument, or as a default ({n}={n}) when it is made")

    parameters_of = staticmethod(lambda args: parameters(args))

    def stmt_FunctionDef(self, node: ast.FunctionDef, indent: str) -> str:
        text = ""
        scope = self.scope
        defaults = {}
        named = [*node.args.posonlyargs, *node.args.args]
        pairs = [*zip(named[len(named) - len(node.args.defaults):], node.args.defaults),
                 *((a, d) for a, d in zip(node.args.kwonlyargs, node.args.kw_defaults) if d)]
        for arg, default in pairs:
            known, x = self.static(default)
            if known and (x is None or isinstance(x, str)):
                defaults[arg.arg] = static_text(self, default, x)
                continue
            t = self.fresh()
            text += f"{indent}{t} = {self.expr(default)}\n"
            defaults[arg.arg] = t
        scope.defs[node.name], scope.defaults[node.name], scope.nodes[node.name] = node.args, defaults, node
        self.bind(node.name)
        name = self.local(node.name)
        try:
            text += self.function_text(node, name, [], indent)
            scope.refused.pop(node.name, None)
        except CompileError as e:
            if node.decorator_list:
                raise
            scope.refused[node.name] = e
        for decorator in reversed(node.decorator_list):
            text += self.decorated(decorator, name, indent)
        return text

    def decorated(self, node: Any, name: str, indent: str) -> str:
        known, f = self.static(node.func if isinstance(node, ast.Call) else node)
        from .._jit import jit
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
        inner = local_names(node.body) if isinstance(node, ast.FunctionDef) else set(named_within(node.body))
        params, _ = self.enter(node.args, inner, node, types_of)
        if isinstance(node, ast.Lambda):
            self.no_iterator_given(node.body)
            before, value = self.lambda_body(node.body, "  ")
            text = f"def {name}({params}) {{\n{before}  {self.expr(value)}\n}}\n"
            self.hints.append(placed(self.structure(value), self.place(value)))
            self.returning_like.append(self.known_returned(value))
            return text
        return f"{self.mark(node)}def {name}({params}) {{\n{self.begin_given()}{self.body(node.body, '  ')}}}\n"


def written_index(node: Any, x: Any) -> Any:
    """An index that is known, a slice or a tuple, as an expression."""
    def constant(value: Any) -> Any:
        return None if value is None else ast.copy_location(ast.Constant(value), node)
    if isinstance(x, slice):
        return ast.copy_location(ast.Slice(constant(x.start), constant(x.stop), constant(x.step)), node)
    parts = [written_index(node, i) if isinstance(i, slice) else ast.copy_location(ast.Constant(i), node) for i in x]
    return ast.copy_location(ast.Tuple(parts, ast.Load()), node)


def declared_types(fn: types.FunctionType) -> dict[str, Any]:
    """Types that the annotations of a function declare."""
    try:
        notes = inspect.get_annotations(fn, eval_str=True)
    except Exception:  # names in annotations that only type checkers know
        return {}
    return {name: t for name, note in notes.items() if (t := declared(note)) is not None}


def emit_function(b: Builder, fn: types.FunctionType, statics: dict[str, Any] | None = None,
                  shapes: dict[str, Shape] | None = None, given: tuple[str, ...] = ()) -> str:
    """The function as a unit of the program; gives the unit's name, a mark. `statics` are parameters that are put
    in, `shapes` the structure of others, `given` those that it changes and gives back after its result."""
    statics, shapes = statics or {}, {n: s for n, s in (shapes or {}).items() if s.kind != "any"}

    def write(unit: Any) -> str:
        node, file = source_of(fn)
        if (made := next((x for x in statics.values() if isinstance(x, Unmade)), None)) is not None:
            node = made.rewritten(node)
        if fn in b.gathered:
            node = gathering(node)
        node = with_gathered(node, resolver(fn))
        objects = {n: shapes[n].of for n in given if n in shapes and shapes[n].kind == "object"}
        node, places = with_fields(remade(node, objects), resolver(fn), file)
        lists = tuple(n for n in given if n not in objects)
        node = with_given(plainer(with_nested(node, resolver(fn)), resolver(fn)), resolver(fn))
        node = giving_back(Exchanged(node, resolver(fn)).written() if lists else node, lists)
        wish = fn.__name__ if fn.__name__.isidentifier() else "lambda_"
        unit.wish = safe_name(wish)
        w = Writer(b, fn, file, statics, shapes, lists, places)
        text = w.write(node, f"\ue001{unit.number}\ue002", declared_types(fn))
        unit.hints, unit.likes, unit.unheld, unit.gives_back, unit.done = w.hints, w.returning_like, w.unheld, w.gives_back, True
        w.check_assumed(unit, node)
        return text
    b.keep.append((statics, shapes))
    return b.unit(fn, "f", write, (tuple((n, type(x), x if type(x) in (str, int, bool) else id(x)) for n, x in sorted(statics.items())),
                                   tuple((n, s.key(), s.numbers()) for n, s in sorted(shapes.items())), given))
