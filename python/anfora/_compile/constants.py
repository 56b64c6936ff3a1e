# SPDX-License-Identifier: Apache-2.0
"""Constant evaluation: expressions whose value is known while a function is written, and conditions that are decided."""
from __future__ import annotations

import ast
import enum
import operator
import types
from typing import Any, Callable

from .._names import lacking
from .foreign import ROOTS, counterpart, module_of
from .known import PLAIN, Is, Known, Part, Said, class_member, has_parts, is_array, is_none, is_plain, is_structure, part_entry, tree_of
from .watched import watch_field
from .._tree import keystr, tree_structure
from .._types import DTYPES, default_float, finfo, iinfo

COMPARISONS = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
    ast.NotEq: operator.ne, ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}
_ARITHMETIC = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: lambda a, b: _power(a, b), ast.LShift: lambda a, b: _shifted(a, b),
    ast.RShift: operator.rshift, ast.BitOr: operator.or_, ast.BitAnd: operator.and_, ast.BitXor: operator.xor,
}
GRIDS = {"Grid", "MGridClass", "OGridClass", "nd_grid", "_Mgrid", "_Ogrid"}  # np.mgrid and np.ogrid, whose subscripts make arrays
_NUMBERS = {bool: "bool", int: "i64", float: None, complex: "c128"}  # their element types; None: the default
MOST_BITS = 4096  # of integers that are computed when code is made


def _power(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int) and b > 0 and a.bit_length() * b > MOST_BITS:
        raise ValueError("too large")
    return a ** b


def _shifted(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int) and a.bit_length() + b > MOST_BITS:
        raise ValueError("too large")
    return a << b


class Constants(Part):
    """The part of the writer for values that are known."""

    def static(self, node: Any) -> tuple[bool, Any]:
        """(True, what an expression is) if that is known without running the function."""
        if isinstance(node, ast.Constant):
            return True, node.value
        method = getattr(self, "static_" + type(node).__name__, None)
        return method(node) if method else (False, None)

    def static_Name(self, node: ast.Name) -> tuple[bool, Any]:
        if not self.is_local(node.id):
            return True, self.lookup(node)
        e = self.entry(node.id)
        return (True, e.value) if isinstance(e, Is) else (False, None)

    def static_Attribute(self, node: ast.Attribute) -> tuple[bool, Any]:
        known, x = self.static(node.value)
        if known and isinstance(x, Said):
            return False, None
        if known and not is_array(x):
            if node.attr == "dtype" and type(x) in _NUMBERS and module_of(self.fn).startswith("anfora."):  # an argument that is known, of one of ours
                return True, DTYPES[_NUMBERS[type(x)] or default_float()]
            if not hasattr(x, node.attr):
                self.refuse(node, lacking(x, node.attr))
            return True, watch_field(self.b.watched, x, node.attr, getattr(x, node.attr))
        s = self.like(node.value)
        member = class_member(s, node.attr)
        if member is not None and isinstance(member, (*PLAIN, tuple)) and s is not None and node.attr not in s.names:
            return True, member  # a constant of its class
        return self.static_part(node)

    def static_Subscript(self, node: ast.Subscript) -> tuple[bool, Any]:
        known, x = self.static(node.value)
        key, k = self.static(node.slice)
        if known and key and (isinstance(x, (dict, list, tuple, str)) or type(x).__name__ == "IndexExpression" or type(x).__name__ in GRIDS and module_of(x).split(".")[0] in ROOTS | {"anfora"}):
            try:
                return True, x[k]
            except (KeyError, IndexError, TypeError) as e:
                self.refuse(node, f"{type(e).__name__}: {e}")
        return self.static_part(node)

    def static_Slice(self, node: ast.Slice) -> tuple[bool, Any]:
        ends = [self.static(e) if e is not None else (True, None) for e in (node.lower, node.upper, node.step)]
        known = all(k and (x is None or isinstance(x, (int, float, complex))) for k, x in ends)
        return (True, slice(*(x for _, x in ends))) if known else (False, None)

    def static_part(self, node: Any) -> tuple[bool, Any]:
        s = self.like(node)
        e = part_entry(s) if s is not None else None
        return (True, e.value) if isinstance(e, Is) else (False, None)

    def static_Tuple(self, node: Any) -> tuple[bool, Any]:
        items = [self.static(e) for e in node.elts]
        return (True, tuple(x for _, x in items)) if all(k for k, _ in items) else (False, None)

    def static_List(self, node: ast.List) -> tuple[bool, Any]:
        known, x = self.static_Tuple(node)
        return known, list(x) if known else None

    def static_Set(self, node: ast.Set) -> tuple[bool, Any]:
        known, x = self.static_Tuple(node)
        return (True, set(x)) if known and all(isinstance(i, PLAIN) for i in x) else (False, None)

    def static_JoinedStr(self, node: ast.JoinedStr) -> tuple[bool, Any]:
        parts = [self.static(v) for v in node.values]
        return (True, "".join(x for _, x in parts)) if all(k for k, _ in parts) else (False, None)

    def static_FormattedValue(self, v: ast.FormattedValue) -> tuple[bool, Any]:
        known, x = self.static(v.value)
        also, spec = self.static(v.format_spec) if v.format_spec else (True, "")
        if not known or not also or not is_plain(x):
            return False, None
        convert: dict[int, Callable] = {115: str, 114: repr, 97: ascii}
        try:
            return True, format(convert.get(v.conversion, lambda y: y)(x), spec)
        except (ValueError, TypeError) as e:
            return self.refuse(v, f"{type(e).__name__}: {e}")

    def static_BinOp(self, node: ast.BinOp) -> tuple[bool, Any]:
        (known, a), (also, b) = self.static(node.left), self.static(node.right)
        f = _ARITHMETIC.get(type(node.op))
        plain = (int, float, str, tuple)
        if not (known and also and f and isinstance(a, plain) and isinstance(b, plain)):
            return False, None
        try:
            x = f(a, b)
        except (ArithmeticError, TypeError, ValueError):
            return False, None
        return (False, None) if isinstance(x, complex) else (True, x)

    def static_UnaryOp(self, node: ast.UnaryOp) -> tuple[bool, Any]:
        known, x = self.static(node.operand)
        if isinstance(node.op, ast.Not):
            known, x = self.decided(node.operand)
            return known, not x
        if known and isinstance(node.op, ast.USub) and isinstance(x, (int, float, complex)):
            return True, -x
        return False, None

    @staticmethod
    def truth(x: Any) -> tuple[bool, bool]:
        """(True, whether it holds) of what is known; arrays are not looked into."""
        return (False, False) if is_array(x) else (True, bool(x))

    def static_BoolOp(self, node: ast.BoolOp) -> tuple[bool, Any]:
        """The first part that decides, if all before it are known."""
        ends, x = isinstance(node.op, ast.Or), None
        for v in node.values:
            known, x = self.static(v)
            sure, holds = self.truth(x) if known else (False, False)
            if not sure:
                return False, None
            if holds == ends:
                return True, x
        return True, x

    def static_Compare(self, node: ast.Compare) -> tuple[bool, Any]:
        left, result = node.left, True
        for op, right in zip(node.ops, node.comparators):
            known, holds = self.known_comparison(op, left, right)
            if not known:
                return False, None
            result, left = result and holds, right
        return True, result

    def list_or_tuple(self, node: Any) -> str:
        """Which of both an expression gives, if it is plain to see: a list equals no tuple, though the program has tuples for both."""
        known, x = self.static(node)
        if known:
            return type(x).__name__
        if isinstance(node, ast.Attribute) and node.attr == "shape":
            return "tuple"
        s = self.like(node)
        return "" if s is None else s.kind if s.kind in ("list", "tuple") else s.names[0] if s.kind == "mapped" and s.names else ""

    def known_comparison(self, op: Any, left: Any, right: Any) -> tuple[bool, Any]:
        if (same := self.same_class(op, left, right)) is not None:
            return True, same
        (known, a), (also, b) = self.static(left), self.static(right)
        if isinstance(op, (ast.Is, ast.IsNot)):
            if not known and also and b is None and (s := self.like(left)) is not None and not is_none(s):
                return True, isinstance(op, ast.IsNot)
            if also and not known and getattr(b, "__name__", "") == "absent" and module_of(b).startswith("anfora."):
                return True, isinstance(op, ast.IsNot)
            return known and also, (a is b) == isinstance(op, ast.Is)
        if isinstance(op, (ast.In, ast.NotIn)) and known and not also:
            s = self.like(right)
            if s is not None and s.kind == "dict":
                return True, (a in s.names) == isinstance(op, ast.In)
        if isinstance(op, (ast.Eq, ast.NotEq)) and {self.list_or_tuple(left), self.list_or_tuple(right)} == {"list", "tuple"}:
            return True, isinstance(op, ast.NotEq)
        if not (known and also) or not isinstance(a, (*PLAIN, tuple, list, type, enum.Enum)):
            return False, None
        if not isinstance(b, (*PLAIN, tuple, list, type, enum.Enum)) and not isinstance(op, (ast.In, ast.NotIn)):
            return False, None
        try:
            return True, bool(COMPARISONS[type(op)](a, b))
        except TypeError:
            return False, None

    def static_IfExp(self, node: ast.IfExp) -> tuple[bool, Any]:
        known, test = self.decided(node.test)
        return self.static(node.body if test else node.orelse) if known else (False, None)

    def decided(self, node: Any) -> tuple[bool, bool]:
        """(True, whether a condition holds) if that is known."""
        known, x = self.static(node)
        if known:
            return self.truth(x)
        s = self.like(node) if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) else None
        return (True, bool(s.parts)) if s is not None and s.kind in ("tuple", "list", "dict") else (False, False)

    def remaining(self, node: ast.BoolOp) -> list[Any]:
        """The parts of `and` or `or` of which any may be what it gives."""
        ends, rest = isinstance(node.op, ast.Or), []
        for v in node.values:
            known, holds = self.decided(v)
            if known and holds != ends and v is not node.values[-1]:
                continue
            rest.append(v)
            if known and holds == ends:
                break
        return rest

    def of_unknown(self, node: ast.Call, f: Known) -> tuple[bool, Any]:
        if not hasattr(f, "_emit_call"):
            self.refuse(node, f"the arguments of {f.__name__}() must be known when the function is compiled")
        return False, None

    def static_Call(self, node: ast.Call) -> tuple[bool, Any]:
        known, f = self.static(node.func)
        if known and not isinstance(f, Known):
            own = counterpart(f)
            f = own if isinstance(own, Known) else Known(f) if f is keystr else f
        if known and isinstance(f, Known) and node.keywords and all(k.arg for k in node.keywords):
            given = {k.arg: self.static(k.value) for k in node.keywords}
            args = [self.static(a) for a in node.args]
            if not all(k for k, _ in (*args, *given.values())):
                return self.of_unknown(node, f)
            return True, f.fn(*(x for _, x in args), **{str(n): x for n, (_, x) in given.items()})
        if not known or node.keywords:
            return False, None
        if isinstance(f, Known):
            given = [self.static(a) for a in node.args]
            if not all(k for k, _ in given):
                return self.of_unknown(node, f)
            return True, f(*(x for _, x in given))
        if f is slice:
            ends = [self.static(a) for a in node.args]
            return (True, slice(*(x for _, x in ends))) if 1 <= len(ends) <= 3 and all(k and (x is None or type(x) is int) for k, x in ends) else (False, None)
        if f is tuple and len(node.args) == 1 and isinstance(self.static(node.args[0])[1], (tuple, list, range)):
            return True, tuple(self.static(node.args[0])[1])
        limits = self.limits(f)
        if limits and len(node.args) == 1:
            known, x = self.static(node.args[0])
            return (True, limits(x)) if known and (isinstance(x, type) or not is_array(x)) else (False, None)
        if f is len and len(node.args) == 1:
            self.not_iterator(node.args[0], "has no len()")
            return (False, None) if isinstance(class_member(self.like(node.args[0]), "__len__"), types.FunctionType) else self.known_length(node.args[0])
        if f is tree_structure and len(node.args) == 1 and self.like(node.args[0]) is not None:
            return True, tree_of(self.like(node.args[0]))
        if f in (float, int, complex) and len(node.args) == 1:
            known, x = self.static(node.args[0])
            return (True, f(x)) if known and type(x) in (bool, int, float) and (f is not int or x - x == 0) else (False, None)
        if f is isinstance and len(node.args) == 2:
            return self.known_instance(node)
        if f is type and len(node.args) == 1:
            kind = self.exact_class(node.args[0])
            return kind is not None, kind
        if f is issubclass and len(node.args) == 2 and (of := self.type_of(node.args[0])) is not None:
            return self.known_instance(ast.copy_location(ast.Call(node.func, [of, node.args[1]], []), node))
        if f is has_parts and len(node.args) == 1:
            known, x = self.static(node.args[0])
            return True, has_parts(x) if known else is_structure(self.like(node.args[0]))
        if f is callable and len(node.args) == 1:
            known, x = self.static(node.args[0])
            return (True, callable(x)) if known else (self.like(node.args[0]) is not None, False)
        if f is hasattr and len(node.args) == 2:
            (known, x), (also, name) = map(self.static, node.args)
            return (True, hasattr(x, name)) if known and also and not is_array(x) else (False, None)
        if f is getattr and len(node.args) == 2 and self.static(node.args[1])[0]:
            return self.static(ast.copy_location(ast.Attribute(node.args[0], self.static(node.args[1])[1], ast.Load()), node))
        if getattr(f, "__module__", None) in ("math", "cmath") and callable(f):
            return self.computed(node, f)
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("index", "count") and isinstance(getattr(f, "__self__", None), (list, tuple)):
            args = [self.static(a) for a in node.args]
            if all(k and isinstance(x, PLAIN) for k, x in args):
                try:
                    return True, f(*(x for _, x in args))
                except ValueError as e:
                    self.refuse(node, f"ValueError: {e}")
        if isinstance(getattr(f, "__self__", None), str) or f is str or f in (bin, hex, oct, ord, chr):
            args = [self.static(a) for a in node.args]
            if all(k and is_plain(x) for k, x in args):
                return True, f(*(x for _, x in args))
        return False, None

    @staticmethod
    def limits(f: Any) -> Callable | None:
        """finfo or iinfo, if f is one of some library."""
        own = {"finfo": finfo, "iinfo": iinfo}.get(getattr(f, "__name__", ""))
        return own if own and (f is own or str(f.__module__).split(".")[0] in ("numpy", "jax", "ml_dtypes")) else None

    def computed(self, node: ast.Call, f: Callable) -> tuple[bool, Any]:
        """A function of math of constants: what Python gives."""
        args = [self.static(a) for a in node.args]
        if not all(k and (isinstance(x, PLAIN) or isinstance(x, (tuple, list))) for k, x in args):
            return False, None
        try:
            return True, f(*(x for _, x in args))
        except (ArithmeticError, TypeError, ValueError) as e:
            return self.refuse(node, f"{type(e).__name__}: {e}")

    def known_length(self, node: Any) -> tuple[bool, Any]:
        known, x = self.static(node)
        if known and isinstance(x, (tuple, list, dict, str, set, frozenset)):
            return True, len(x)
        if isinstance(node, ast.Call) and self.static(node.func) == (True, range) and not node.keywords:
            ends = [self.static(a) for a in node.args]
            return (True, len(range(*(x for _, x in ends)))) if ends and all(k and type(x) is int for k, x in ends) else (False, None)
        s = self.like(node)
        self.has_items(node, s)
        return (True, len(s.parts)) if is_structure(s) else (False, None)
