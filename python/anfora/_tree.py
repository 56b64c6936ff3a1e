# SPDX-License-Identifier: Apache-2.0
"""Trees: dictionaries, lists, tuples, named tuples and dataclasses of tensors and numbers.

In programs a list is a tuple, and a dictionary or an object is a record. What Python gets back is what it gave:
a result that has the type of an argument has its structure too, which gradients and new parameters rely on."""
from __future__ import annotations

import dataclasses
import enum
import functools
import sys
import types
from typing import Any, Callable, Sequence

from . import _core
from ._types import dtype_name


class Fixed:
    """A default that a call leaves as it is: a constant of the code."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _is_named_tuple(x: Any) -> bool:
    return isinstance(x, tuple) and hasattr(type(x), "_fields")


def field_names(kind: Any) -> tuple[str, ...] | None:
    """The fields of a dataclass or named tuple; None for other classes."""
    if dataclasses.is_dataclass(kind):
        return tuple(f.name for f in dataclasses.fields(kind))
    return kind._fields if hasattr(kind, "_fields") and issubclass(kind, tuple) else None


def _is_static(x: Any) -> bool:
    return callable(x) or isinstance(x, (str, types.ModuleType, enum.Enum, Fixed)) or dtype_name(x) is not None


def children(x: Any) -> tuple[Any, list] | None:
    """What the extension asks about objects that it does not know: (their class, their parts), None if static."""
    names = field_names(type(x))
    if names is not None:
        return type(x), [getattr(x, n) for n in names]
    if _is_static(x):
        return None
    raise TypeError(f"an argument of type {type(x).__name__} cannot be passed to a compiled function; arrays, numbers, "
                    "None, functions, and dictionaries, lists, tuples and dataclasses of these can")


# ---- flattening, for Python code ----

def _parts(x: Any) -> tuple[list, Callable[[list], Any]] | None:
    """The parts of a node, and what makes such a node of new ones; None of a leaf."""
    if isinstance(x, dict):
        keys = list(x)
        return [x[k] for k in keys], lambda items: dict(zip(keys, items))
    if isinstance(x, list):
        return list(x), list
    names = field_names(type(x))
    if names is not None:
        kind = type(x)
        return [getattr(x, n) for n in names], lambda items: kind(**dict(zip(names, items)))
    if isinstance(x, tuple):
        return list(x), tuple
    return None


def tree_leaves(tree: Any) -> list:
    """The leaves of a tree, in order. None counts as a tree without leaves."""
    node = _parts(tree)
    if node is None:
        return [] if tree is None else [tree]
    return [leaf for part in node[0] for leaf in tree_leaves(part)]


def tree_map(f: Callable, tree: Any, *rest: Any) -> Any:
    """A tree of the same structure, of f of the leaves at each place. In compiled functions: hyper_map."""
    node = _parts(tree)
    if node is None:
        return None if tree is None else f(tree, *rest)
    others = []
    for r in rest:
        other = _parts(r)
        if other is None or len(other[0]) != len(node[0]):
            raise ValueError("the trees differ in structure")
        others.append(other[0])
    return node[1]([tree_map(f, part, *more) for part, *more in zip(node[0], *others)])


def tree_structure(tree: Any) -> Any:
    """The tree with 0 at each leaf; tree_unflatten takes it."""
    return tree_map(lambda _: 0, tree)


def tree_flatten(tree: Any) -> tuple[list, Any]:
    """(leaves, structure)"""
    return tree_leaves(tree), tree_structure(tree)


def tree_unflatten(structure: Any, leaves: Any) -> Any:
    """The tree of this structure with these leaves."""
    rest = list(leaves)
    if len(rest) != len(tree_leaves(structure)):
        raise ValueError(f"the tree has {len(tree_leaves(structure))} leaves, not {len(rest)}")
    left = iter(rest)
    return tree_map(lambda _: next(left), structure)


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
            return ("record", tuple(map(str, self.names)), tuple(p.type() for p in self.parts))
        return ("tuple", tuple(p.type() for p in self.parts)) if self.kind in ("tuple", "list") else ("none",)

    def text(self) -> str:
        return type_text(self.type())

    def key(self) -> tuple:
        """Equal for equal structures; of static things it has the address."""
        return (self.kind, self.names, id(self.of) if self.kind in ("object", "static") else None, *(p.key() for p in self.parts))

    def size(self) -> int:
        return 1 + sum(p.size() for p in self.parts)

    def walk(self):
        yield self
        for p in self.parts:
            yield from p.walk()


def quoted(name: str) -> str:
    """A name as the language has it: between backticks if it is no plain word."""
    return name if name.isidentifier() else "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def type_text(t: Any) -> str:
    """A type as the language writes it."""
    if t[0] == "tuple":
        return "(" + ", ".join(map(type_text, t[1])) + ("," if len(t[1]) == 1 else "") + ")"
    if t[0] == "record":
        return "{" + ", ".join(f"{quoted(n)}: {type_text(x)}" for n, x in zip(t[1], t[2])) + "}"
    if len(t) == 1:
        return t[0]
    return t[0] + (f"[{', '.join(map(str, t[1]))}]" if t[1] else "")


def shape_of(x: Any) -> Shape:
    """The shape of an argument, as the extension sees it."""
    if x is None:
        return Shape("none")
    if isinstance(x, bool):
        return Shape("leaf", of=("bool", ()))
    if type(x) in (int, float):
        return Shape("leaf", of=(type(x).__name__, ()))
    if type(x) is complex:
        return Shape("leaf", of=("c128", ()))
    if type(x) in (tuple, list):
        return Shape(type(x).__name__, [shape_of(p) for p in x])
    if isinstance(x, dict):
        for k in x:
            if not isinstance(k, str):
                raise TypeError(f"keys of dictionaries in compiled functions are texts, not {k!r}")
        return Shape("dict", [shape_of(p) for p in x.values()], tuple(x))
    names = field_names(type(x))
    if names is not None:
        return Shape("object", [shape_of(getattr(x, n)) for n in names], names, type(x))
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
        return numpy.cast(x, dtype=cast)
    names = tuple(x) if isinstance(x, dict) else field_names(type(x))
    if names is not None:
        items = x.values() if isinstance(x, dict) else [getattr(x, n) for n in names]
        return [names, tuple(map(plain_value, items))]
    return tuple(map(plain_value, x)) if type(x) in (tuple, list) else _core.asarray(x)


# ---- structure of results ----

LEAF, NONE, TUPLE, LIST, DICT, CALL, OBJECT = range(7)


class Maker:
    """Says how the result of a type is built, in the code that the extension runs. `known` are the shapes of
    arguments, `classes` the classes that the function makes objects of."""

    def __init__(self, known: list[Shape], classes: list[type]) -> None:
        self.code: list[int] = []
        self.objects: list = []
        self.leaves: list = []
        self.by_type: dict = {}
        for shape in known:
            for s in shape.walk():
                if s.kind in ("list", "dict", "object", "tuple"):
                    self.by_type.setdefault(s.type(), s)
        self.by_names = {field_names(c): c for c in reversed(classes)}

    def _object(self, x: Any) -> int:
        self.objects.append(x)
        return len(self.objects) - 1

    def add(self, t: Any, hint: Any = None) -> None:
        """`hint` is what the text of the function says: ("tuple" or "list", [hints] or None), else None."""
        if t[0] == "none":
            self.code.append(NONE)
        elif t[0] not in ("tuple", "record"):
            self.code.append(LEAF)
            self.leaves.append(t)
        else:
            self._node(t, hint)

    def _node(self, t: Any, hint: Any) -> None:
        like = self.by_type.get(t) if hint is None else None
        parts = t[-1]
        if t[0] == "tuple":
            kind = hint[0] if _matches(hint, parts) and hint[0] != "dict" else like.kind if like else "tuple"
            self.code += [LIST if kind == "list" else TUPLE, len(parts)]
        else:
            kind = like.of if like and like.kind == "object" else None if like else self.by_names.get(t[1])
            if kind:
                names = t[1]
                make = kind if issubclass(kind, tuple) or _positional(kind) else _by_name(kind, names)
                self.code += [CALL, len(parts), self._object(make)]
            else:
                self.code += [DICT, len(parts), self._object(like.names if like else tuple(map(sys.intern, t[1])))]
        hints = hint[1] if _matches(hint, parts) and hint[1] else [None] * len(parts)
        if like:  # the parts are those of the argument
            hints = [None] * len(parts)
        for part, h in zip(parts, hints):
            self.add(part, h)

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
            items = [build(x[i]) for i in range(n)]
            return items if op == LIST else tuple(items) if op == TUPLE else \
                dict(zip(obj, items)) if op == DICT else obj(*items)
        return build(leaf)


def _matches(hint: Any, parts: tuple) -> bool:
    return hint is not None and (hint[1] is None or len(hint[1]) >= len(parts))


def _positional(kind: type) -> bool:
    return all(f.init and not f.kw_only for f in dataclasses.fields(kind))


def _by_name(kind: type, names: tuple) -> Callable:
    return lambda *items: kind(**dict(zip(names, items)))
