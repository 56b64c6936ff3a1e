# SPDX-License-Identifier: Apache-2.0
"""Trees: dictionaries, lists, tuples, named tuples and dataclasses of tensors and numbers.

In programs a list is a tuple, and a dictionary or an object is a record. What Python gets back is what it gave:
a result that has the type of an argument has its structure too, which gradients and new parameters rely on."""
from __future__ import annotations

import ast
import collections
import dataclasses
import enum
import functools
import sys
import types
from typing import Any, Callable, Sequence

from . import _core
from ._table import RESERVED
from ._types import DTYPES, dtype_name


class Fixed:
    """A default that a call leaves as it is: a constant of the code."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _is_named_tuple(x: Any) -> bool:
    return isinstance(x, tuple) and hasattr(type(x), "_fields")


def field_names(kind: Any) -> tuple[str, ...] | None:
    """The fields of a dataclass or named tuple; None for other classes, and for those that a library takes apart in its own way."""
    own = getattr(kind, "_anfora_names", None)
    if own is not None or kind in REGISTERED or any(of(kind) for of in FOREIGN):
        return own
    if dataclasses.is_dataclass(kind):
        return tuple(f.name for f in dataclasses.fields(kind))
    return kind._fields if hasattr(kind, "_fields") and issubclass(kind, tuple) else None


# ---- classes that a user has registered, and dictionaries of other classes ----

class Node:
    """How objects of a class are taken apart and made."""

    def __init__(self, flatten: Callable, unflatten: Callable) -> None:
        self.flatten, self.unflatten = flatten, unflatten


REGISTERED: dict[type, Node] = {}
OTHERS: list[Callable] = []  # each gives a Node for an object of a class that another library takes apart, else None
FOREIGN: list[Callable] = []  # each tells whether a class is a dataclass that another library takes apart otherwise than by its fields
_KINDS: dict[Any, type] = {}  # (class, names of the parts, what is constant) -> the class in programs


def register_pytree_node(kind: type, flatten: Callable, unflatten: Callable) -> None:
    """Objects of a class are trees: ``flatten(x)`` gives (parts, constant), ``unflatten(constant, parts)`` makes an object.
    What is constant can be compared and hashed; there is code for each."""
    if kind in REGISTERED:
        raise ValueError(f"{kind.__name__} is registered already")
    REGISTERED[kind] = Node(flatten, unflatten)


def register_pytree_node_class(kind: type) -> type:
    """A decorator of classes with the methods ``tree_flatten()`` and ``tree_unflatten(constant, parts)``."""
    register_pytree_node(kind, lambda x: x.tree_flatten(), kind.tree_unflatten)  # type: ignore[attr-defined]
    return kind


def register_dataclass(kind: type | None = None, data_fields: Sequence[str] | None = None, meta_fields: Sequence[str] | None = None) -> Any:
    """A dataclass some of whose fields are constant: those of ``meta_fields``, or those with ``metadata={"static": True}``."""
    if kind is None:
        return functools.partial(register_dataclass, data_fields=data_fields, meta_fields=meta_fields)
    fields = dataclasses.fields(kind)
    meta = tuple(f.name for f in fields if f.metadata.get("static")) if meta_fields is None else tuple(meta_fields)
    data = tuple(f.name for f in fields if f.name not in meta) if data_fields is None else tuple(data_fields)
    register_pytree_node(kind, lambda x: ([getattr(x, n) for n in data], tuple(getattr(x, n) for n in meta)),
                         lambda aux, parts: kind(**dict(zip(data, parts)), **dict(zip(meta, aux))))
    return kind


def _frozen(x: Any) -> Any:
    """A constant as a key: structures of trees are lists and dictionaries here."""
    if type(x) in (list, tuple):
        return type(x), *map(_frozen, x)
    return (dict, *((k, _frozen(v)) for k, v in x.items())) if type(x) is dict else x


def registered(x: Any) -> tuple[type, list] | None:
    """(the class in programs, the parts) of an object of a registered class. That class has the constant parts of the object
    as its own, and makes such objects of new parts."""
    node = REGISTERED.get(type(x)) or next(filter(None, (of(x) for of in OTHERS)), None)
    return None if node is None else taken_apart(node, x)


def taken_apart(node: Node, x: Any) -> tuple[type, list]:
    """The same by a node that is given."""
    parts, constant = node.flatten(x)
    parts, attributes = list(parts), dict(x._asdict() if hasattr(x, "_fields") else getattr(x, "__dict__", {}))
    left, names = dict(attributes), []
    for i, part in enumerate(parts):
        name = next((n for n, v in left.items() if v is part), f"part{i}")
        left.pop(name, None)
        names.append(name)
    try:
        key = type(x), tuple(names), _frozen(constant)
        kind = _KINDS.get(key)
    except TypeError:
        raise TypeError(f"the constant part of a {type(x).__name__} cannot be hashed") from None
    if kind is None:
        def make(*parts: Any) -> Any:
            return node.unflatten(constant, parts if isinstance(constant, tuple) or constant is None else tuple(parts))
        kind = _KINDS[key] = type(type(x).__name__, (type(x),), {**left, "_anfora_names": tuple(names), "_anfora_make": staticmethod(make)})
    return kind, parts


def made_of(kind: Any, names: Sequence, parts: Sequence) -> Any:
    """An object of a class with these parts."""
    make = getattr(kind, "_anfora_make", None)
    return make(*parts) if make else kind(**dict(zip(names, parts)))


def _is_static(x: Any) -> bool:
    return callable(x) or isinstance(x, (str, types.ModuleType, enum.Enum, Fixed)) or dtype_name(x) is not None


def children(x: Any) -> tuple[Any, list] | None:
    """What the extension asks about objects that it does not know: (their class, their parts), None if static."""
    names = field_names(type(x))
    if names is not None:
        return type(x), [getattr(x, n) for n in names]
    node = registered(x)
    if node is not None:
        return node
    if _is_static(x) or isinstance(x, _core.Fn):
        return None
    raise TypeError(f"an argument of type {type(x).__name__} cannot be passed to a compiled function; arrays, numbers, "
                    "None, functions, and dictionaries, lists, tuples and dataclasses of these can")


# ---- flattening, for Python code ----

def _parts(x: Any) -> tuple[list, Callable[[list], Any]] | None:
    """The parts of a node, and what makes such a node of new ones; None of a leaf."""
    if isinstance(x, dict):
        keys = list(x)
        return [x[k] for k in keys], lambda items: dict_like(x, zip(keys, items))
    if isinstance(x, list):
        return list(x), list
    names = field_names(type(x))
    if names is not None:
        kind = type(x)
        return [getattr(x, n) for n in names], lambda items: kind(**dict(zip(names, items)))
    node = registered(x)
    if node is not None:
        return node[1], lambda items: made_of(node[0], (), items)
    if isinstance(x, tuple):
        return list(x), tuple
    return None


def dict_like(x: dict, items: Any) -> dict:
    """A dictionary of the same class."""
    if type(x) is collections.defaultdict:
        return collections.defaultdict(x.default_factory, items)
    return collections.OrderedDict(items) if isinstance(x, collections.OrderedDict) else dict(items)


def tree_leaves(tree: Any, is_leaf: Callable | None = None) -> list:
    """The leaves of a tree, in order. None counts as a tree without leaves. ``is_leaf(part)``: it is not taken apart."""
    node = None if is_leaf is not None and is_leaf(tree) else _parts(tree)
    if node is None:
        return [] if tree is None and is_leaf is None else [tree]
    return [leaf for part in node[0] for leaf in tree_leaves(part, is_leaf)]


def tree_map(f: Callable, tree: Any, *rest: Any, is_leaf: Callable | None = None) -> Any:
    """A tree of the same structure, of f of the leaves at each place. In compiled functions: hyper_map."""
    if is_leaf is not None and is_leaf(tree):
        return f(tree, *rest)
    node = _parts(tree)
    if node is None and tree is not None:
        return f(tree, *rest)
    others = [_parts_beside(tree, r) for r in rest]
    if node is None:
        return None
    return node[1]([tree_map(f, part, *more, is_leaf=is_leaf) for part, *more in zip(node[0], *others)])


def _parts_beside(tree: Any, other: Any) -> list:
    """The parts of another tree in the order of those of a tree that is no leaf; ValueError: it has other parts."""
    if isinstance(tree, dict) and isinstance(other, dict):
        if tree.keys() != other.keys():
            raise ValueError(f"the trees differ in structure: one has the keys {list(tree)}, one {list(other)}")
        return [other[k] for k in tree]
    node, mine = _parts(other), _parts(tree)
    if tree is None and other is None:
        return []
    if node is None or mine is None or isinstance(tree, dict) != isinstance(other, dict) or len(node[0]) != len(mine[0]):
        raise ValueError(f"the trees differ in structure: {_described(tree)} stands beside {_described(other)}")
    return node[0]


def _described(tree: Any) -> str:
    """A node in few words."""
    node = _parts(tree)
    return "None" if tree is None else f"a {type(tree).__name__}" + (f" of {len(node[0])}" if node else "")


# ---- paths: where the leaves of a tree are ----

@dataclasses.dataclass(frozen=True)
class DictKey:
    """A step of a path: the item of a dictionary."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"


@dataclasses.dataclass(frozen=True)
class SequenceKey:
    """A step of a path: the item of a list or tuple."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx}]"


@dataclasses.dataclass(frozen=True)
class GetAttrKey:
    """A step of a path: the field of an object."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"


def _keys(tree: Any, parts: list) -> list:
    if isinstance(tree, dict):
        return [DictKey(k) for k in tree]
    names = field_names(type(tree)) or field_names((registered(tree) or [None])[0])
    return [GetAttrKey(n) for n in names] if names else [SequenceKey(i) for i in range(len(parts))]


def keystr(path: Sequence, *, simple: bool = False, separator: str = "") -> str:
    """A path as text, such as ['layers'][0].w; simple: layers0w, with a separator between."""
    return separator.join(str(next(iter(vars(k).values()))) if simple else str(k) for k in path)


def tree_map_with_path(f: Callable, tree: Any, *rest: Any, is_leaf: Callable | None = None) -> Any:
    """A tree of f(path, leaf, ...) at each place."""
    paths = iter([path for path, _ in tree_leaves_with_path(tree, is_leaf)])
    return tree_map(lambda *leaves: f(next(paths), *leaves), tree, *rest, is_leaf=is_leaf)


def tree_leaves_with_path(tree: Any, is_leaf: Callable | None = None) -> list[tuple[tuple, Any]]:
    """(path, leaf) of each leaf, in order."""
    node = None if is_leaf is not None and is_leaf(tree) else _parts(tree)
    if node is None:
        return [] if tree is None and is_leaf is None else [((), tree)]
    return [((key, *path), leaf) for key, part in zip(_keys(tree, node[0]), node[0]) for path, leaf in tree_leaves_with_path(part, is_leaf)]


def tree_flatten_with_path(tree: Any, is_leaf: Callable | None = None) -> tuple[list[tuple[tuple, Any]], Any]:
    """([(path, leaf), ...], structure)"""
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree)


def tree_structure(tree: Any) -> Any:
    """The tree with 0 at each leaf; tree_unflatten takes it."""
    return tree_map(lambda _: 0, tree)


def tree_flatten(tree: Any) -> tuple[list, Any]:
    """(leaves, structure)"""
    return tree_leaves(tree), tree_structure(tree)


def structured(like: Any, raw: Any) -> Any:
    """What the core gave as nested tuples, in the structure of another tree."""
    node = _parts(like)
    parts = list(raw.values()) if isinstance(raw, dict) else raw
    return raw if node is None or not isinstance(parts, (tuple, list)) else node[1]([structured(p, x) for p, x in zip(node[0], parts)])


def tree_all(tree: Any) -> bool:
    """Whether all leaves hold."""
    return all(tree_leaves(tree))


def treedef_is_leaf(structure: Any) -> bool:
    """Whether it is the structure of a leaf alone."""
    return _parts(structure) is None and structure is not None


def tree_transpose(outer_treedef: Any, inner_treedef: Any, pytree_to_transpose: Any) -> Any:
    """A tree of trees the other way round, of their structures."""
    n = len(tree_leaves(inner_treedef))
    leaves = tree_leaves(pytree_to_transpose)
    if len(leaves) != n * len(tree_leaves(outer_treedef)):
        raise ValueError("the tree is not of these structures")
    return tree_unflatten(inner_treedef, [tree_unflatten(outer_treedef, leaves[i::n]) for i in range(n)])


def tree_unflatten(structure: Any, leaves: Any) -> Any:
    """The tree of this structure with these leaves."""
    rest = list(leaves)
    if len(rest) != len(tree_leaves(structure)):
        raise ValueError(f"the tree has {len(tree_leaves(structure))} leaves, not {len(rest)}")
    left = iter(rest)
    return tree_map(lambda _: next(left), structure)


def key_text(key: Any) -> str:
    """A key of a dictionary as the name of a field: of one that is no text, what Python writes for it between brackets."""
    return key if isinstance(key, str) and not key.startswith("[") else f"[{key!r}]"


def key_of(name: str) -> Any:
    """The key that a field is named for."""
    return ast.literal_eval(name[1:-1]) if name.startswith("[") else sys.intern(name)


def is_key(key: Any) -> bool:
    """What keys of dictionaries in programs can be."""
    return key is None or isinstance(key, (str, int, float)) or isinstance(key, tuple) and all(map(is_key, key))


def tree_reduce(f: Callable, tree: Any, *start: Any) -> Any:
    """f(f(a, b), c) of the leaves in order."""
    return functools.reduce(f, tree_leaves(tree), *start)


def tree_paths(tree: Any, at: str = "") -> list[str]:
    """The name of each leaf, such as "layers.0.w"."""
    node = _parts(tree)
    if node is None:
        return [] if tree is None else [at or "value"]
    names = list(tree) if isinstance(tree, dict) else field_names(type(tree)) or range(len(node[0]))
    return [p for n, part in zip(names, node[0]) for p in tree_paths(part, f"{at}.{n}" if at else str(n))]


def in_order_of(like: Any, tree: Any) -> Any:
    """The same tree with the keys of its dictionaries in the order that they have in another one."""
    if isinstance(like, dict) and isinstance(tree, dict) and like.keys() == tree.keys():
        return {k: in_order_of(part, tree[k]) for k, part in like.items()}
    if type(tree) in (tuple, list) and type(like) in (tuple, list) and len(tree) == len(like):
        return type(tree)(map(in_order_of, like, tree))
    return tree


# ---- types of arguments ----

class Shape:
    """What an argument looks like: kind is leaf, none, tuple, list, dict, object or static; of what a function makes
    also stacked, an array that stands for a list, and mapped, a tuple whose length the types of arguments tell."""

    def __init__(self, kind: str, parts: Sequence["Shape"] = (), names: tuple = (), of: Any = None) -> None:
        self.kind, self.parts, self.names, self.of = kind, list(parts), names, of

    def type(self) -> Any:
        """As the core tells types of results, so that both can be compared."""
        if self.kind == "leaf":
            return self.of
        if self.kind in ("dict", "object"):
            return ("record", tuple(map(key_text, self.names)), tuple(p.type() for p in self.parts))
        return ("tuple", tuple(p.type() for p in self.parts)) if self.kind in ("tuple", "list") else ("none",)

    def text(self) -> str:
        return type_text(self.type())

    def key(self) -> tuple:
        """Equal for equal structures; of static things it has the address."""
        return (self.kind, tuple((type(n), n) for n in self.names), id(self.of) if self.kind in ("object", "static", "dict") else self.of if self.kind == "stacked" else None, *(p.key() for p in self.parts))

    def numbers(self) -> tuple:
        """Which leaves are numbers of Python, and of which kind: code that asks is for these alone."""
        return tuple(p.of[0] if p.of[0] in ("int", "float", "complex", "bool") and not p.of[1] else "" for p in self.walk() if p.kind == "leaf")

    def size(self) -> int:
        return 1 + sum(p.size() for p in self.parts)

    def walk(self):
        yield self
        for p in self.parts:
            yield from p.walk()


def quoted(name: Any) -> str:
    """A name or key as the language has it: between backticks if it is no plain word, or a word of the language."""
    return _field(key_text(name))


def _field(name: str) -> str:
    return name if name.isidentifier() and name not in RESERVED else "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def type_text(t: Any) -> str:
    """A type as the language writes it."""
    if t[0] == "tuple":
        return "(" + ", ".join(map(type_text, t[1])) + ("," if len(t[1]) == 1 else "") + ")"
    if t[0] == "record":
        return "{" + ", ".join(f"{_field(n)}: {type_text(x)}" for n, x in zip(t[1], t[2])) + "}"
    if len(t) == 1:
        return t[0]
    return t[0] + (f"[{', '.join(map(str, t[1]))}]" if t[1] else "")


class Untouched:
    """Stands for an argument of which only the shape and the element type are asked."""

    def __init__(self, dtype: str, shape: tuple) -> None:
        self.of = dtype, shape


def shape_of(x: Any) -> Shape:
    """The shape of an argument, as the extension sees it."""
    if x is None:
        return Shape("none")
    if isinstance(x, Untouched):
        return Shape("leaf", of=x.of)
    if isinstance(x, bool):
        return Shape("leaf", of=("bool", ()))
    if type(x) in (int, float):
        return Shape("leaf", of=(type(x).__name__, ()))
    if type(x) is complex:
        return Shape("leaf", of=("complex", ()))
    if type(x) in (tuple, list):
        return Shape(type(x).__name__, [shape_of(p) for p in x])
    if isinstance(x, dict):
        for k in x:
            if not is_key(k):
                raise TypeError(f"keys of dictionaries in compiled functions are texts and numbers, not {k!r}")
        return Shape("dict", [shape_of(p) for p in x.values()], tuple(x), None if type(x) is dict else type(x))
    names = field_names(type(x))
    if names is not None:
        return Shape("object", [shape_of(getattr(x, n)) for n in names], names, type(x))
    node = registered(x)
    if node is not None:
        return Shape("object", list(map(shape_of, node[1])), field_names(node[0]) or (), node[0])
    if _is_static(x) or isinstance(x, _core.Fn):
        return Shape("static", of=x)
    a = _core.asarray(x)
    return Shape("leaf", of=(str(a.dtype), a.shape))


def plain_value(x: Any, cast: str | None = None) -> Any:
    """The argument as the core makes values of it: tuples, [names, items], arrays, numbers."""
    if x is None or isinstance(x, (bool, _core.Fn, str)) or (type(x) in (int, float) and not cast):
        return x
    if type(x) in (int, float):
        from . import numpy
        return numpy.cast(x, dtype=DTYPES[cast])
    names = tuple(map(key_text, x)) if isinstance(x, dict) else field_names(type(x))
    node = registered(x)
    if node is not None:
        return [field_names(node[0]), tuple(map(plain_value, node[1]))]
    if names is not None:
        items = x.values() if isinstance(x, dict) else [getattr(x, n) for n in names]
        return [names, tuple(map(plain_value, items))]
    if type(x) in (tuple, list):
        return tuple(map(plain_value, x))
    return None if _is_static(x) else _core.asarray(x)


# ---- structure of results ----

LEAF, NONE, TUPLE, LIST, DICT, CALL, OBJECT = range(7)


class ManyKinds(Exception):
    """A part of a result is a list on one way and a tuple on another, say: `either` tells which."""

    def __init__(self, either: Any) -> None:
        super().__init__(str(either))
        self.either = either


def _objects(s: Shape) -> list:
    """What is constant of the objects within."""
    return [x.of for x in s.walk() if x.kind == "object"]


class Maker:
    """Says how the result of a type is built, in the code that the extension runs. `known` are the shapes of
    arguments, `classes` the classes that the function makes objects of."""

    def __init__(self, known: list[Shape], classes: list[type]) -> None:
        self.code: list[int] = []
        self.objects: list = []
        self.leaves: list = []
        self.by_type: dict = {}
        self.unsure: set = set()  # types of arguments whose objects differ in class or constants
        for shape in known:
            for s in shape.walk():
                if s.kind in ("list", "dict", "object", "tuple") and _objects(self.by_type.setdefault(s.type(), s)) != _objects(s):
                    self.unsure.add(s.type())
        self.classes = classes
        self.by_names = {field_names(c): c for c in reversed(classes)}

    def _object(self, x: Any) -> int:
        self.objects.append(x)
        return len(self.objects) - 1

    def add(self, t: Any, hint: Any = None, like: Shape | None = None) -> None:
        """`hint` is what the text of the function says: ("tuple" or "list", [hints] or None), else None. `like` is the part of an
        argument that it is known to be like."""
        if t[0] == "none":
            self.code.append(NONE)
        elif t[0] not in ("tuple", "record"):
            if hint is not None and len(t) > 1 and t[1]:
                self._rows(len(t[1]), hint)
            self.code.append(LEAF)
            self.leaves.append(t)
        else:
            self._node(t, hint, like)

    def _rows(self, rank: int, hint: Any) -> None:
        """Of an array that is a list in Python, or a list of lists: it is made of the array's rows."""
        kinds: list = []
        while hint is not None and len(kinds) < rank and not is_one_sided(hint):
            if hasattr(hint[0], "kinds") and hint[0].known:
                raise ManyKinds(hint[0])
            if hint[0] not in ("list", "tuple"):
                break
            kinds.append(list if hint[0] == "list" else tuple)
            hint = hint[1][0] if hint[1] else None
        if kinds:
            self.code += [CALL, 1, self._object(Rows(kinds))]

    def _node(self, t: Any, hint: Any, like: Shape | None) -> None:
        if hint is None and like is None and t in self.unsure:
            raise TypeError("it is not known which argument this is like, whose objects differ in what is constant: return what makes it, and write a derivative in one expression, grad(f)(a, b)")
        like = (like or self.by_type.get(t)) if hint is None else None
        parts, likes = t[-1], like.parts if like else [None] * len(t[-1])
        hint = _lengthened(hint, parts)
        if hint is not None and hasattr(hint[0], "kinds") and (parts and t[0] == "tuple" or hint[0].known):
            raise ManyKinds(hint[0])
        if hint is not None and hasattr(hint[0], "kinds"):
            hint = None
        if t[0] == "tuple":
            kind = hint[0] if _matches(hint, parts) and hint[0] in ("list", "tuple") else like.kind if like else "tuple"
            self.code += [LIST if kind == "list" else TUPLE, len(parts)]
        else:
            like, kind = self._class(t, like, hint)
            if kind:
                names = t[1]
                make = getattr(kind, "_anfora_make", None) or \
                    (kind if issubclass(kind, tuple) or _positional(kind) else _by_name(kind, names))
                self.code += [CALL, len(parts), self._object(make)]
            elif like and like.of is not None:
                self.code += [CALL, len(parts), self._object(_dict_maker(like.of, like.names))]
            else:
                self.code += [DICT, len(parts), self._object(like.names if like else tuple(map(key_of, t[1])))]
        hints = hint[1] if _matches(hint, parts) and hint[1] else [None] * len(parts)
        if like:  # the parts are those of the argument
            hints = [None] * len(parts)
        for part, h, of in zip(parts, hints, likes):
            self.add(part, h, of)

    def _class(self, t: Any, like: Shape | None, hint: Any) -> tuple[Shape | None, Any]:
        """(what a record is like, its class): what the text says, else that of an argument of the type, else one that the
        function makes objects of."""
        if hint is not None and isinstance(hint[0], type):
            if issubclass(hint[0], dict):
                return Shape("dict", names=tuple(map(key_of, t[1])), of=hint[0]), None
            return None, hint[0]
        kind = like.of if like and like.kind == "object" else None
        made = {c for c in self.classes if field_names(c) == t[1]} if hint is None else set()
        if len(made - {kind}) > (0 if like else 1):
            raise TypeError(f"it is not known whether this is a {' or a '.join(sorted({c.__name__ for c in made} | {kind.__name__ if kind else 'dict'}))}: "
                            f"these have the same fields; return what makes it")
        return like, kind if like else self.by_names.get(t[1]) if hint is None else None

    def restructure(self, raw: Any) -> Any:
        """The same for a result that the core gave as nested tuples."""
        at, leaf = 0, raw

        def build(x: Any) -> Any:
            nonlocal at
            op = self.code[at]
            if op in (LEAF, NONE):
                at += 1
                return x
            n = self.code[at + 1]
            obj: Any = self.objects[self.code[at + 2]] if op in (DICT, CALL) else None
            at += 3 if op in (DICT, CALL) else 2
            items = [build(x)] if isinstance(obj, Rows) else [build(x[i]) for i in range(n)]
            return items if op == LIST else tuple(items) if op == TUPLE else \
                dict(zip(obj, items)) if op == DICT else obj(*items)
        return build(leaf)


class Rows:
    """Makes a list or tuple of the rows of an array, or lists of lists, by the kinds of all levels."""

    def __init__(self, kinds: list) -> None:
        self.kinds = kinds

    def __call__(self, x: Any, level: int = 0) -> Any:
        return self.kinds[level](x if level + 1 == len(self.kinds) else [self(row, level + 1) for row in x])


def is_one_sided(hint: Any) -> bool:
    """Whether a hint is of a + b or a * b one of which is a list, or of what is stacked: if the result is an array, it does not hold."""
    return len(hint) > 2


def _lengthened(hint: Any, parts: tuple) -> Any:
    """A hint for a list that became longer: further parts are as those before, if these are alike."""
    if hint is None or hint[0] not in ("list", "tuple") or hint[1] is None or len(hint[1]) >= len(parts):
        return hint
    alike = hint[1] and all(h == hint[1][0] for h in hint[1])
    return hint[0], [hint[1][0]] * len(parts) if alike else None


def _matches(hint: Any, parts: tuple) -> bool:
    return hint is not None and (hint[1] is None or len(hint[1]) >= len(parts))


def _positional(kind: type) -> bool:
    return all(f.init and not f.kw_only for f in dataclasses.fields(kind))


def _with_fields(kind: type, names: tuple, items: tuple) -> Any:
    """An object of a dataclass some of whose fields __init__ does not take."""
    made = object.__new__(kind)
    for name, x in zip(names, items):
        object.__setattr__(made, name, x)
    return made


def _dict_maker(kind: type, keys: tuple) -> Callable:
    """Of a class of dictionaries that is not dict; of one that is not Python's, dict."""
    def make(*items: Any) -> Any:
        return collections.OrderedDict(zip(keys, items)) if issubclass(kind, collections.OrderedDict) else dict(zip(keys, items))
    return make


def _by_name(kind: type, names: tuple) -> Callable:
    if dataclasses.is_dataclass(kind) and not all(f.init for f in dataclasses.fields(kind)):
        return lambda *items: _with_fields(kind, names, items)
    return lambda *items: kind(**dict(zip(names, items)))
