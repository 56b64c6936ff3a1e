# SPDX-License-Identifier: Apache-2.0
"""The structure of what expressions give, tuples, lists, dictionaries and objects, as far as it is plain to see."""
from __future__ import annotations

import ast
import functools
import types
from typing import Any

from .foreign import counterpart, module_of
from .._ops import COMPOSED, OPS
from .holders import Made, Unmade, unmade
from .known import ANY, Filled, Is, Item, Like, Part, Scope, class_member, gives_list, is_array, is_structure, levels, mapped_as, of_no_numbers, part_entry, skeleton
from .static import BUILTINS, operation
from .._tree import REGISTERED, Shape, field_names, shape_of, tree_leaves, tree_unflatten, is_key

INDICES = ("diag_indices", "diag_indices_from", "ix_", "nonzero", "tril_indices", "triu_indices", "unravel_index")  # functions that give a tuple of indices, one for each dim
SPLITS = {name: lambda name=name: OPS.get(name) or COMPOSED[name] for name in ("split", "array_split", "hsplit", "vsplit", "dsplit")}


class Structures(Part):
    """The part of the writer for structures."""

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
        if levels(s) > 1:
            return Shape("stacked", of=s.of - (0 if isinstance(node.slice, ast.Slice) else 1))
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
            return Shape(item.kind, [Structures.item_shape(i) for i in item.parts])
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
        rows = self.rows_bound(node.generators[0].target, node.generators[0].iter)
        outer, self.scope = self.scope, Scope(names, self.scope)
        self.scope.env |= rows
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
        if known and f is functools.reduce:
            return self.like_reduced(node)
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
            return self.like_ordered(node)
        if known and f in (min, max) and node.args and not any(isinstance(a, ast.Starred) for a in node.args):
            return self.like_best(node)
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
        several = isinstance(wrt, (tuple, list))
        at = list(wrt) if several else [wrt]
        if word not in ("grad", "value_and_grad") or not all(type(i) is int and 0 <= i < len(node.args) for i in at):
            return None
        likes = [ANY if (given := self.like(node.args[i])) is None else skeleton(given) for i in at]
        of = Shape("tuple", likes) if several else likes[0]
        return Shape("tuple", [ANY, of]) if word == "value_and_grad" else None if of is ANY else of

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

    def like_reduced(self, node: ast.Call) -> Shape | None:
        """Of reduce(f, xs, start): what f gives of what it gave before and each item."""
        items = self.sequence(node.args[1]) if len(node.args) in (2, 3) else None
        if items is None:
            return None
        parts = [*([Item(entry=Like(self.part_shape(node.args[2])))] if len(node.args) == 3 else []), *items]
        made: Item | None = parts[0] if parts else None
        for item in parts[1:]:
            made = Item(entry=Like(self.like_applied(node.args[0], [made, item])))
        return self.item_shape(made) if made is not None else None

    def like_applied(self, f: Any, items: list[Item]) -> Shape:
        known, of = self.static(f) if isinstance(f, (ast.Name, ast.Attribute)) else (False, None)
        if known and isinstance(of, types.FunctionType):
            return self.like_of_unit(of, list(map(self.item_shape, items))) or ANY
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
        if not known or len(func.args) > 2 or options.get("has_aux"):
            return None, None
        wrt = self.static(func.args[1])[1] if len(func.args) == 2 else options.get("wrt", 0)
        return getattr(f, "__name__", None) if hasattr(f, "_emit_twice") else None, wrt


    def like_BoolOp(self, node: ast.BoolOp) -> Shape | None:
        rest = self.remaining(node)
        return self.like(rest[0]) if len(rest) == 1 else None
