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
import sys
import types
from typing import TYPE_CHECKING, Any, Container, Iterable

from .._errors import CompileError
from .foreign import ROOTS, module_of
from .._ops import literal
from .emit import fail
from .static import static_text
from .watched import watch
from .._tree import Shape, field_names, made_of
from .._types import DType

MOST_PARTS = 1024  # of what is written out
PLAIN = (bool, int, float, str, type(None))


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
    return isinstance(x, PLAIN) or type(x) in (tuple, list) and all(map(is_plain, x))


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


def levels(s: Shape | None) -> int:
    """How many lists are within each other that an array stands for."""
    return (s.of or 1) if s is not None and s.kind == "stacked" else 0


def mapped_as(s: Shape, kind: str) -> Shape:
    """A tuple whose length the types of arguments tell, which is a list or a tuple in Python; one that a loop filled stays so."""
    return s if isinstance(s, Filled) and kind == "list" else Shape("mapped", of=s.of, names=(kind,))


def shape_of_plain(x: Any) -> Shape:
    """Of a constant: lists and dictionaries by their parts."""
    if type(x) in (list, tuple):
        return Shape(type(x).__name__, [shape_of_plain(v) for v in x])
    return Shape("dict", [shape_of_plain(v) for v in x.values()], tuple(x)) if type(x) is dict else Shape("static", of=x)


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


def class_member(s: Shape | None, name: str) -> Any:
    """A method or property of the class of an object that is an argument; else None."""
    if s is None or s.kind != "object":
        return None
    return inspect.getattr_static(s.of, name, None)
