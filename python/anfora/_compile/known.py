# SPDX-License-Identifier: Apache-2.0
"""What is known while a function is written: names whose value is a constant, a text, a function or None, and the
structure of tuples, lists, dictionaries and objects. Conditions on such things are decided, and loops over them
written out, part by part. What is known holds for the statement that is being written: a name that a branch or
a loop binds is forgotten where the ways meet again."""
from __future__ import annotations

import ast
import builtins
import difflib
import enum
import inspect
import operator
import sys
import types
from typing import TYPE_CHECKING, Any, Callable, Container, Iterable

from .._errors import CompileError
from .._names import lacking
from .foreign import ROOTS, counterpart, module_of
from .._ops import COMPOSED, OPS, literal
from .emit import fail
from .holders import Made, Unmade, unmade
from .static import BUILTINS, operation, static_text
from .watched import watch, watch_field
from .._tree import REGISTERED, Shape, field_names, keystr, made_of, shape_of, tree_leaves, tree_structure, tree_unflatten, is_key
from .._types import DTYPES, DType, default_float, finfo, iinfo

MOST_PARTS = 1024  # of what is written out
INDICES = ("diag_indices", "diag_indices_from", "ix_", "nonzero", "tril_indices", "triu_indices", "unravel_index")  # functions that give a tuple of indices, one for each dim

SPLITS = {name: lambda name=name: OPS.get(name) or COMPOSED[name] for name in ("split", "array_split", "hsplit", "vsplit", "dsplit")}

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
MOST_BITS = 4096  # of integers that are computed when code is made


def _power(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int) and b > 0 and a.bit_length() * b > MOST_BITS:
        raise ValueError("too large")
    return a ** b


def _shifted(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int) and a.bit_length() + b > MOST_BITS:
        raise ValueError("too large")
    return a << b


_PLAIN = (bool, int, float, str, type(None))
_NUMBERS = {bool: "bool", int: "i64", float: None, complex: "c128"}  # their element types; None: the default


def of_no_numbers(kind: type) -> bool:
    """Whether a class is one of a user, of which no number and no array is."""
    return type(kind) is type and module_of(kind).split(".")[0] not in ROOTS | {"anfora", "builtins", "numbers"} and \
        not issubclass(kind, (bool, int, float, complex))


def gives_list(f: Any) -> bool:
    """Whether meshgrid, broadcast_arrays and gradient of a library give lists; those of NumPy 2 give tuples."""
    root = module_of(f).split(".")[0]
    return root == "jax" or root == "numpy" and sys.modules["numpy"].__version__.startswith("1.")


class Known:
    """A function of Python's own that is called with what is known, when code is made."""

    def __init__(self, fn: Any) -> None:
        self.fn, self.__name__, self.__doc__ = fn, fn.__name__, fn.__doc__

    def __call__(self, *args: Any, **kw: Any) -> Any:
        return self.fn(*args, **kw)


def has_parts(x: Any) -> bool:
    """Whether something is a tuple, a list or such, not an array; in compiled functions that is known."""
    return isinstance(x, (tuple, list, dict))


class Is:
    """The name stands for this object."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Said:
    """A text that a name stands for: `node` makes it, of constants and of names of values that were computed where it was bound."""

    def __init__(self, node: Any) -> None:
        self.node = node

    def __bool__(self) -> bool:
        return fail(None, "whether a formatted text is empty is not known", "compare the values that are in it")


class Like:
    """The name has this structure. `own`: the function made it, and nothing else refers to it."""

    def __init__(self, shape: Shape, own: bool = False) -> None:
        self.shape, self.own = shape, own
        self.items: list | None = None  # of a list that a loop makes longer: what its items are like


ANY = Shape("any")  # something that is not None


class Item:
    """A part of something whose parts are known: its text, or what it is, or its own parts."""

    def __init__(self, text: str | None = None, entry: Is | Like | None = None, parts: list["Item"] | None = None, kind: str = "tuple") -> None:
        self.text: Any = text
        self.entry: Any = entry
        self.parts: Any = parts
        self.kind = kind  # of the parts together


class Scope:
    """The names of one function, and of the functions around it."""

    def __init__(self, names: set[str], outer: "Scope | None", node: Any = None) -> None:
        self.names, self.outer, self.node = names, outer, node
        self.defs: dict[str, ast.arguments] = {}  # nested functions, of which calls know the parameters
        self.defaults: dict[str, dict[str, str]] = {}
        self.nodes: dict[str, Any] = {}   # their definitions
        self.refused: dict[str, CompileError] = {}  # those that cannot be written when nothing is known of their arguments: why
        self.env: dict[str, Is | Like] = {}
        self.iterators: dict[str, str] = {}  # names of what is gone through once, and its kind
        self.dims: dict[str, Any] = {}  # names of numbers that shapes tell, and the expressions that do
        self.lambdas: set[str] = set()  # names of functions that are values
        self.virtual: set[str] = set()  # names that are not variables of the program: they are what `env` says
        self.kept: set[str] = set()  # names whose values pass from a round of a loop to what comes after it: each is a variable
        self.apart: set[str] = set()  # names that were of another structure on each of two ways that met
        self.several: dict[str, Any] = {}  # names that are a list before a round of a loop and a tuple after it, say, and what is known of them
        self.mixed: set[str] = set()  # those of them that a round of a loop leaves so: nothing is known of them

    def owner(self, name: str) -> "Scope | None":
        s: Scope | None = self
        while s and name not in s.names:
            s = s.outer
        return s


def parameters(args: ast.arguments) -> list[ast.arg]:
    """All of them in order; *xs is a tuple, and **kw a dictionary."""
    return [*args.posonlyargs, *args.args, *([args.vararg] if args.vararg else []), *args.kwonlyargs,
            *([args.kwarg] if args.kwarg else [])]


def is_array(x: Any) -> bool:
    return hasattr(x, "__array__") or hasattr(x, "__dlpack__")


def is_plain(x: Any) -> bool:
    """Whether it is made of numbers and texts alone, which do not change."""
    return isinstance(x, _PLAIN) or type(x) in (tuple, list) and all(map(is_plain, x))


def is_structure(s: Shape | None) -> bool:
    return s is not None and s.kind in ("tuple", "list", "dict", "object")


def is_tree(s: Shape) -> bool:
    """Whether it is no array or number, as far as is known."""
    return is_structure(s) or s.kind in ("mapped", "hinted") or s.kind == "static" and (s.of is None or has_parts(s.of))


class Filled(Shape):
    """Of a list of tuples that a loop has filled: `rows` is a tuple like one of them whose parts have a row for each."""

    def __init__(self, item: Shape, rows: str) -> None:
        super().__init__("mapped", of=item)
        self.rows = rows


def mapped_as(s: Shape, kind: str) -> Shape:
    """A tuple whose length the types of arguments tell, which is a list or a tuple in Python; one that a loop filled stays so."""
    return s if isinstance(s, Filled) and kind == "list" else Shape("mapped", of=s.of, names=(kind,))


def skeleton(s: Shape) -> Shape:
    """The structure alone: of the leaves nothing is known."""
    if not is_structure(s):
        return s if s.kind in ("none", "static") and (s.kind == "none" or s.of is None) else ANY
    return Shape(s.kind, [skeleton(p) for p in s.parts], s.names, s.of)


def is_none(s: Shape) -> bool:
    return s.kind == "none" or s.kind == "static" and s.of is None


def differs_in_none(a: Shape, b: Shape) -> bool:
    """Whether a part is None in one of two structures alone."""
    if is_structure(a) and is_structure(b):
        return any(map(differs_in_none, a.parts, b.parts))
    return is_none(a) != is_none(b)


def tree_of(s: Shape) -> Any:
    """The structure as a tree with 0 at each leaf, as tree_structure gives it."""
    parts = [tree_of(p) for p in s.parts]
    if is_none(s):
        return None
    if s.kind in ("dict", "object"):
        return dict(zip(s.names, parts)) if s.kind == "dict" else made_of(s.of, s.names, parts)
    return tuple(parts) if s.kind == "tuple" else parts if s.kind == "list" else 0


def part_entry(s: Shape) -> Is | Like | None:
    if s.kind == "static":
        return Is(s.of)
    if s.kind == "none":
        return Is(None)
    return None if s.kind == "any" else Like(s)


def _virtual_kind(x: Any) -> bool:
    """What is not worth a variable, or cannot be one."""
    return x is None or isinstance(x, (str, type, types.ModuleType, DType, enum.Enum)) or (callable(x) and not is_array(x)) \
        or not (isinstance(x, (bool, int, float, complex, tuple, list, dict)) or is_array(x) or field_names(type(x)))


class Part:
    """One part of the writer; what it has not, the others have."""

    scope: Any  # the current Scope; None outside of all

    if TYPE_CHECKING:
        def __getattr__(self, name: str) -> Any: ...


class Knowing(Part):
    """The part of the writer that decides."""

    # ---- element types ----

    def type_text(self, node: Any, of_type: bool) -> str:
        """A side of a comparison; of element types a text is the name of one."""
        known, x = self.static(node)
        if not of_type or not known or not isinstance(x, str):
            return self.expr(node)
        try:
            return literal(x, "dtype")
        except TypeError as e:
            return self.refuse(node, str(e))

    # ---- names ----

    def entry(self, name: str) -> Is | Like | None:
        owner = self.scope.owner(name) if self.scope else None
        return owner.env.get(name) if owner else None

    def is_local(self, name: str) -> bool:
        """A variable of the program."""
        owner = self.scope.owner(name) if self.scope else None
        return owner is not None and name not in owner.virtual

    def lookup(self, node: ast.Name) -> Any:
        """What a name that is no variable of the program is bound to now."""
        name = node.id
        owner = self.scope.owner(name) if self.scope else None
        if owner is not None:
            return owner.env[name].value
        if name in self.cells:
            try:
                return watch(self.b.watched, self.cells[name], "cell_contents", self.cells[name].cell_contents)
            except ValueError:
                self.refuse(node, f"{name} is not bound yet", "define it before the compiled function is called")
        if name in self.fn.__globals__:
            return watch(self.b.watched, self.fn.__globals__, name, self.fn.__globals__[name])
        if hasattr(builtins, name):
            return getattr(builtins, name)
        names = {*self.fn.__globals__, *self.cells, *dir(builtins), *(self.scope.names if self.scope else ())}
        near = difflib.get_close_matches(name, names, 1, 0.8)
        return self.refuse(node, f"there is no {name}", f"there is {near[0]}" if near else "bind it before, or import it")

    def is_bound(self, node: Any) -> bool:
        """Whether the name that an expression starts with is one here, not a parameter of a function within."""
        while isinstance(node, (ast.Attribute, ast.Subscript)):
            node = node.value
        return not isinstance(node, ast.Name) or self.is_local(node.id) or node.id in self.cells or \
            node.id in self.fn.__globals__ or hasattr(builtins, node.id) or bool(self.scope and self.scope.owner(node.id))

    def bind(self, name: str, entry: Is | Like | None = None, virtual: bool = False) -> None:
        """The name is bound anew, to something of which `entry` is known."""
        s = self.scope
        s.env.pop(name, None)
        s.virtual.discard(name)
        s.lambdas.discard(name)
        s.dims.pop(name, None)
        if entry is not None:
            s.env[name] = entry
        if virtual:
            s.virtual.add(name)

    def bind_static(self, node: Any, name: str, x: Any, indent: str) -> str:
        """Binds a name to what is known: a variable if it can be one."""
        if name in self.scope.kept or not _virtual_kind(x):
            try:
                text = f"{indent}{self.mark(node)}{self.local(name)} = {static_text(self, node, x)}\n"
                self.bind(name, None if is_array(x) else Is(x))
                return text
            except CompileError:
                if name in self.scope.kept:
                    raise
        self.bind(name, Is(x), virtual=True)
        return ""

    def made_variables(self, names: Iterable[str], node: Any, indent: str) -> str:
        """Names that are about to be bound on some ways become variables."""
        text = ""
        for name in sorted(set(names) & self.scope.virtual):
            text += f"{indent}{self.local(name)} = {static_text(self, node, self.scope.env[name].value)}\n"
            self.scope.virtual.discard(name)
        return text

    def forget(self, names: Iterable[str], changed: Container[str] = ()) -> None:
        """Names that a loop binds: they keep their type, so of those with parts the structure is known; of lists whose length
        changes the items are, if they are alike."""
        for name in names:
            e = self.scope.env.get(name) if name not in self.scope.mixed else None
            if name in self.scope.several and e is not None:
                self.bind(name, self.scope.several[name])
                continue
            if name in changed and isinstance(e, Like):
                kind = e.shape.names if e.shape.kind == "mapped" else (e.shape.kind,)
                self.bind(name, Like(Shape("mapped", of=self.items_like(e.shape) if e.shape.parts or e.shape.kind == "mapped" else ANY, names=kind), own=e.own))
                continue
            keep = isinstance(e, Like) and (is_structure(e.shape) and bool(e.shape.parts) or e.shape is ANY)
            self.bind(name, Like(skeleton(e.shape)) if keep else None)

    # ---- values ----

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
        if member is not None and isinstance(member, (*_PLAIN, tuple)) and s is not None and node.attr not in s.names:
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
        return (True, set(x)) if known and all(isinstance(i, _PLAIN) for i in x) else (False, None)

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
        if not (known and also) or not isinstance(a, (*_PLAIN, tuple, list, type, enum.Enum)):
            return False, None
        if not isinstance(b, (*_PLAIN, tuple, list, type, enum.Enum)) and not isinstance(op, (ast.In, ast.NotIn)):
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

    def like_BoolOp(self, node: ast.BoolOp) -> Shape | None:
        rest = self.remaining(node)
        return self.like(rest[0]) if len(rest) == 1 else None

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
            if all(k and isinstance(x, _PLAIN) for k, x in args):
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
        if not all(k and (isinstance(x, _PLAIN) or isinstance(x, (tuple, list))) for k, x in args):
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

    # ---- structures ----

    def like(self, node: Any) -> Any:
        """The structure of what an expression gives, as far as it is plain to see."""
        method = getattr(self, "like_" + type(node).__name__, None)
        return method(node) if method else None

    def is_value(self, node: Any) -> bool:
        """Whether an expression surely gives a number or an array, so that it is not None."""
        if isinstance(node, ast.BinOp):
            return not any(is_structure(self.like(n)) for n in (node.left, node.right))
        if isinstance(node, ast.Call):
            known, f = self.static(node.func) if isinstance(node.func, (ast.Name, ast.Attribute)) else (False, None)
            return known and operation(f) is not None
        if isinstance(node, ast.IfExp):
            known, test = self.decided(node.test)
            return self.is_value(node.body if test else node.orelse) if known else self.is_value(node.body) and self.is_value(node.orelse)
        return isinstance(node, (ast.Compare, ast.UnaryOp))

    def like_Name(self, node: ast.Name) -> Shape | None:
        e = self.entry(node.id)
        return e.shape if isinstance(e, Like) else None

    def like_Attribute(self, node: ast.Attribute) -> Shape | None:
        s = self.like(node.value)
        if s is not None and s.kind == "object" and node.attr in s.names:
            return s.parts[s.names.index(node.attr)]
        return None

    def like_Subscript(self, node: ast.Subscript) -> Shape | None:
        s = self.like(node.value)
        if s is not None and s.kind == "mapped" and not isinstance(s, Filled) and s.names != ("tuple",):
            return s if isinstance(node.slice, ast.Slice) else None if s.of is None or s.of is ANY else s.of
        if s is not None and s.kind == "hinted":
            return self.like_hinted(s.of, node)
        if not is_structure(s) or s.kind == "object" and not issubclass(s.of, tuple):
            return None
        if isinstance(node.slice, ast.Slice):
            ends = [self.static(p) if p else (True, None) for p in (node.slice.lower, node.slice.upper, node.slice.step)]
            if s.kind in ("tuple", "list") and all(k for k, _ in ends):
                return Shape(s.kind, s.parts[slice(*(x for _, x in ends))])
            return None
        known, k = self.static(node.slice)
        if not known:
            return None
        if s.kind == "dict":
            if k not in s.names:
                self.refuse(node, f"the dictionary has no {k!r}", f"it has {', '.join(map(repr, s.names))}")
            return s.parts[s.names.index(k)]
        if isinstance(k, slice) and s.kind in ("tuple", "list"):
            return Shape(s.kind, s.parts[k])
        if isinstance(k, int) and not -len(s.parts) <= k < len(s.parts):
            if isinstance(node.value, ast.Name) and node.value.id in self.filling and self.filling[node.value.id].before:
                return None  # the first round of a loop may not come to it
            self.refuse(node, f"there is no item {k}: there are {len(s.parts)}")
        return s.parts[k] if isinstance(k, int) else None

    def like_hinted(self, hint: Any, node: ast.Subscript) -> Shape | None:
        """Of a part of what is a list on one way and a tuple on another, or has such parts."""
        from .kinds import part_hint
        known, k = self.static(node.slice)
        of = part_hint(hint, k) if known and type(k) is int else None
        return Shape("hinted", of=of) if of is not None else None

    def part_shape(self, node: Any) -> Shape:
        known, x = self.static(node)
        if known and not is_array(x) and not isinstance(node, (ast.List, ast.Dict)):  # of these the constant does not tell
            return Shape("static", of=x)
        s = self.like(node)
        if s is None and isinstance(node, (ast.IfExp, ast.Call)):
            from .kinds import either_in
            hint = self.structure(node)
            return Shape("hinted", of=hint) if either_in(hint) is not None else ANY
        return s or ANY

    def like_Tuple(self, node: Any) -> Shape | None:
        parts: list[Shape] = []
        for e in node.elts:
            if isinstance(e, ast.Starred):
                items = self.sequence(e.value)
                if items is None:
                    return None
                parts += [self.item_shape(i) for i in items]
            else:
                parts.append(self.part_shape(e))
        return Shape("list" if isinstance(node, ast.List) else "tuple", parts)

    like_List = like_Tuple

    @staticmethod
    def item_shape(item: Item) -> Shape:
        if isinstance(item.entry, Is):
            return Shape("static", of=item.entry.value)
        if item.entry is None and item.parts is not None:
            return Shape(item.kind, [Knowing.item_shape(i) for i in item.parts])
        return item.entry.shape if item.entry else ANY

    def like_Dict(self, node: ast.Dict) -> Shape | None:
        found: dict[str, Shape] = {}
        for k, v in zip(node.keys, node.values):
            if k is None:
                given, x = self.static(v)
                s = shape_of(x) if given and type(x) is dict and all(map(is_key, x)) else self.like(v)
                if s is None or s.kind != "dict":
                    return None
                if given:
                    s = Shape("dict", [Shape("static", of=part) for part in x.values()], tuple(x))
                found.update(zip(s.names, s.parts))
            else:
                known, name = self.static(k)
                if not known:
                    return None
                found[name] = self.part_shape(v)
        return Shape("dict", list(found.values()), tuple(found))

    def like_ListComp(self, node: ast.ListComp) -> Shape | None:
        shapes: list[Shape] = []
        texts = self.comprehended(node.generators, [node.elt], shapes)
        return Shape("mapped", of=self.like_item(node)) if texts is None else Shape("list", shapes)

    def like_item(self, node: ast.ListComp) -> Shape:
        """Of an item of a comprehension whose targets are not known."""
        names = {n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
        outer, self.scope = self.scope, Scope(names, self.scope)
        found = self.part_shape(node.elt)
        self.scope = outer
        return found

    like_GeneratorExp = like_ListComp

    def like_BinOp(self, node: ast.BinOp) -> Shape | None:
        times = self.repeated(node)
        if times is not None:
            s = self.like(times[0])
            return Shape(s.kind, s.parts * times[1]) if s.kind in ("tuple", "list") else None
        if (found := self.often(node)) is not None:
            return Shape("mapped", of=self.items_like(self.like(found[0])), names=("list" if isinstance(found[0], ast.List) else "tuple",))
        if isinstance(node.op, ast.BitOr):
            return self.like_joined(node)
        if not isinstance(node.op, ast.Add):
            return None
        a, b = self.like(node.left), self.like(node.right)
        if a is not None and b is not None and a.kind == b.kind and a.kind in ("tuple", "list"):
            return Shape(a.kind, [*a.parts, *b.parts])
        of = [self.items_like(s) for s in (a, b) if s is not None and s.kind in ("mapped", "list") and s.names != ("tuple",) and (s.parts or s.kind == "mapped")]
        if of and a is not None and b is not None and "mapped" in (a.kind, b.kind):
            return Shape("mapped", of=of[0] if all(s.key() == of[0].key() for s in of) else ANY, names=("list",))
        return None

    def like_joined(self, node: ast.BinOp) -> Shape | None:
        """d | e of two dictionaries."""
        a, b = ((Shape("dict") if k and isinstance(x, dict) else self.like(e)) for e, (k, x) in ((e, self.static(e)) for e in (node.left, node.right)))
        if a is None or b is None or a.kind != "dict" or b.kind != "dict":
            return None
        return self.like_Dict(ast.Dict([None, None], [node.left, node.right]))

    def repeated(self, node: ast.BinOp) -> tuple[Any, int] | None:
        """A list or tuple times a number: (it, how often)."""
        if isinstance(node.op, ast.Mult):
            for of, by in ((node.left, node.right), (node.right, node.left)):
                known, n = self.static(by)
                if known and type(n) is int and (s := self.like(of)) is not None and s.kind in ("tuple", "list", "mapped"):
                    return of, max(n, 0)
        return None

    def often(self, node: ast.BinOp) -> tuple[Any, Any] | None:
        """A tuple or list that is written here times a number that shapes tell: (it, how often)."""
        if isinstance(node.op, ast.Mult):
            for of, by in ((node.left, node.right), (node.right, node.left)):
                if isinstance(of, (ast.Tuple, ast.List)) and of.elts and not self.static(by)[0] and self.told_by_shapes(by):
                    return of, by
        return None

    def like_DictComp(self, node: ast.DictComp) -> Shape | None:
        shapes: list[Shape] = []
        pairs = self.comprehended(node.generators, [node.key, node.value], shapes)
        if pairs is None:
            return None
        parts = dict(zip((k for k, _ in pairs), shapes))
        return Shape("dict", list(parts.values()), tuple(parts))

    def like_IfExp(self, node: ast.IfExp) -> Shape | None:
        known, test = self.decided(node.test)
        return self.like(node.body if test else node.orelse) if known else None

    def like_Call(self, node: ast.Call) -> Shape | None:
        """Of grad(f)(x, ...) and tree_map(f, x): the structure of x."""
        self.no_change_of(node)
        known, f = self.static(node.func) if isinstance(node.func, (ast.Name, ast.Attribute)) else (False, None)
        name, given = getattr(f, "__name__", ""), None
        if isinstance(node.func, ast.Constant) and isinstance(node.func.value, Made):
            return Shape("object", [self.part_shape(k.value) for k in node.keywords], field_names(node.func.value.kind) or (), node.func.value.kind)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "get" and 1 <= len(node.args) <= 2 and (s := self.like(node.func.value)) is not None and s.kind == "dict":
            known, key = self.static(node.args[0])
            return None if not known else s.parts[s.names.index(key)] if key in s.names else self.like(node.args[1]) if len(node.args) > 1 else Shape("none")
        if isinstance(node.func, ast.Attribute) and node.func.attr == "_asdict" and (s := self.like(node.func.value)) is not None:
            return Shape("dict", s.parts, s.names)
        if (changed := self.like_replaced(node, f)) is not None:
            return changed
        if known and f is map and len(node.args) > 1:
            return self.like_map(node)
        if not known and isinstance(node.func, ast.Attribute) and not node.keywords:
            method = class_member(of := self.like(node.func.value), node.func.attr)
            if isinstance(method, types.FunctionType):
                return self.like_of_unit(method, [of, *map(self.known_tree, node.args)])
        if known and f is tree_leaves and len(node.args) == 1 and (leaves := self.leaves(node.args[0])) is not None:
            return Shape("list", [self.item_shape(i) for i in leaves])
        if known and f is tree_leaves and len(node.args) == 1:
            return Shape("mapped", of=ANY, names=("list",))
        if known and isinstance(f, type) and field_names(f) is not None and f not in REGISTERED and not any(isinstance(a, ast.Starred) for a in node.args):
            from .builtins import fields_given
            fields = fields_given(self, node, f)
            return Shape("object", [self.part_shape(x) for x in fields.values()], tuple(fields), f)
        if known and isinstance(f, type) and f not in BUILTINS and field_names(f) is None and of_no_numbers(f) and isinstance(how := unmade(f), Unmade):
            names = field_names(how.kind) or ()
            made = ast.copy_location(ast.Call(node.func, [ast.copy_location(ast.Constant(how), node), *node.args], node.keywords), node)
            return self.like_of_call(made, how.init) or Shape("object", [ANY] * len(names), names, how.kind)
        if known and f is dict and len(node.args) <= 1 and not self.is_iterator(node.args[0] if node.args else None):
            return self.like_Dict(ast.Dict([*([None] if node.args else []), *(ast.Constant(k.arg) if k.arg else None for k in node.keywords)],
                                           [*node.args, *(k.value for k in node.keywords)]))
        if known and f in (list, tuple) and len(node.args) == 1 and self.counted_by_shapes(node.args[0]) is not None:
            return Shape("mapped", of=ANY, names=(name,))
        if known and f in (list, tuple) and len(node.args) == 1:
            given = self.like(node.args[0])
            if given is not None and given.kind in ("tuple", "list", "mapped"):
                return mapped_as(given, name) if given.kind == "mapped" else Shape(name, given.parts)
            if given is None and self.is_iterator(node.args[0]):
                if (items := self.sequence(node.args[0])) is not None:
                    return Shape(name, list(map(self.item_shape, items)))
                return mapped_as(Shape("mapped", of=self.like_listed(node.args[0])), name)
        if known and (name in INDICES or name == "where" and len(node.args) == 1) and (hasattr(counterpart(f) or f, "_emit_call") or operation(f) is not None):
            return Shape("mapped", of=ANY, names=("tuple",))
        if known and f is sorted and len(node.args) == 1 and self.sequence_call(node, f) is None:
            return Shape("mapped", of=ANY, names=("list",))
        if known and name in SPLITS and (counterpart(f) or f) is SPLITS[name]():
            kind, parts = "list" if module_of(f) != "torch" else "tuple", self.cut_in(node)
            return Shape(kind, [ANY] * parts) if parts else Shape("mapped", of=ANY, names=(kind,))
        if known and name in ("meshgrid", "broadcast_arrays") and counterpart(f) is not None:
            return Shape("mapped", of=ANY, names=("list" if gives_list(f) else "tuple",))
        if known and name in ("tree_map", "hyper_map") and len(node.args) > 1:
            given = self.like(node.args[1])
            return given and skeleton(given)
        if known and f is tree_unflatten and len(node.args) == 2 and self.static(node.args[0])[0]:
            return skeleton(shape_of(self.static(node.args[0])[1]))
        if known and getattr(f, "_anfora_like", None) is not None:  # a function of this package that makes a known tree
            return skeleton(shape_of(f._anfora_like))
        body = self.like_of_body(node, f if known else None) or (self.like_of_call(node, f) if known else None)
        if body is not None:
            return body
        word, wrt = self.derived(node.func, f if known else None)
        if word is None or not isinstance(wrt, int) or not 0 <= wrt < len(node.args):
            return None
        given = self.like(node.args[wrt])
        of = ANY if given is None else skeleton(given)
        return of if word == "grad" and given is not None else Shape("tuple", [ANY, of]) if word == "value_and_grad" else None

    @staticmethod
    def like_listed(node: Any) -> Shape:
        """Of an item of an iterator: zip and enumerate give tuples."""
        f = getattr(getattr(node, "func", None), "id", "")
        n = len(node.args) if f == "zip" else 2 if f == "enumerate" else 0
        return Shape("tuple", [ANY] * n) if n and not any(isinstance(a, ast.Starred) for a in node.args) else ANY

    def like_map(self, node: ast.Call) -> Shape:
        """Of map(f, xs): what a lambda gives of each item, as far as it is known."""
        all_of = [self.sequence(a) for a in node.args[1:]]
        if any(items is None for items in all_of):
            return Shape("mapped")
        return Shape("list", [self.like_applied(node.args[0], list(items)) for items in zip(*all_of)])

    def like_applied(self, f: Any, items: list[Item]) -> Shape:
        names = [a.arg for a in f.args.args] if isinstance(f, ast.Lambda) else []
        if len(names) != len(items):
            return ANY
        outer, self.scope = self.scope, Scope(set(names), self.scope)
        for name, item in zip(names, items):
            shape = self.item_shape(item)
            self.scope.env[name] = part_entry(shape) or Like(shape)
        found = self.part_shape(f.body)
        self.scope = outer
        return found

    def cut_in(self, node: ast.Call) -> int:
        """How many parts split gives, if that is known."""
        given = node.args[1] if len(node.args) > 1 else next((k.value for k in node.keywords if k.arg in ("sections", "indices_or_sections")), None)
        known, n = self.static(given) if given is not None and not isinstance(node.args[0], ast.Starred) else (False, None)
        return n if known and type(n) is int else len(n) + 1 if known and isinstance(n, (tuple, list)) else 0

    def is_mapped(self, node: Any) -> bool:
        """Whether an expression gives a tuple whose length the types of arguments tell: of items of an array, say."""
        s = self.like(node) if isinstance(node, (ast.Name, ast.ListComp, ast.GeneratorExp, ast.Call, ast.BinOp)) else None
        return s is not None and s.kind == "mapped"

    def derived(self, func: Any, f: Any) -> tuple[str | None, Any]:
        """(grad or value_and_grad, by which argument) of a function that is such a derivative."""
        if hasattr(f, "_word"):
            return f._word if not f._given.get("has_aux") else None, f._given.get("wrt", 0)
        if not isinstance(func, ast.Call):
            return None, None
        known, f = self.static(func.func)
        options = {"wrt" if k.arg == "argnums" else k.arg: self.static(k.value)[1] for k in func.keywords}
        if not known or len(func.args) > 1 or options.get("has_aux"):
            return None, None
        return getattr(f, "__name__", None) if hasattr(f, "_emit_twice") else None, options.get("wrt", 0)


def class_member(s: Shape | None, name: str) -> Any:
    """A method or property of the class of an object that is an argument; else None."""
    if s is None or s.kind != "object":
        return None
    return inspect.getattr_static(s.of, name, None)
