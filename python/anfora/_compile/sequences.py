# SPDX-License-Identifier: Apache-2.0
"""The items of tuples, lists, dictionaries and calls such as zip(xs, ys), where it is known which these are: loops and comprehensions
over them are written out, and names are bound to them, part by part."""
from __future__ import annotations

import ast
import enum
import functools
from typing import Any

from .iterables import is_made
from .known import MOST_PARTS, Is, Item, Like, Part, is_array, is_structure, part_entry, shape_of_plain, tree_of
from .signature import enumerated, is_strict
from .static import static_text
from .._tree import (DictKey, GetAttrKey, SequenceKey, Shape, quoted, tree_flatten, tree_flatten_with_path, tree_leaves,
                     tree_leaves_with_path)


@functools.cache
def _leaves_of_type() -> Any:
    """A function that is made for the type of a tree: it gives the tuple of its leaves."""
    from .._generated import Generated

    def leaves(tree: Any) -> str:
        found, waiting = [], [(tree, "x")]
        while waiting:
            t, text = waiting.pop()
            if isinstance(t, (tuple, dict)):
                parts = [(p, f"{text}[{i}]") for i, p in enumerate(t)] if isinstance(t, tuple) else [(p, f"{text}.{quoted(k)}") for k, p in t.items()]
                waiting += reversed(parts)
            elif t != "none":
                found.append(text)
        return f"def leaves(x) {{ ({''.join(f'{p}, ' for p in found).rstrip(' ')}) }}\n"
    return Generated(leaves)


class Sequences(Part):
    """The part of the writer that takes things apart."""

    def sequence(self, node: Any) -> list[Item] | None:
        """The parts of what an expression gives, if it is known which these are."""
        if isinstance(node, ast.Call):
            items = self.sequence_of_dict(node)
            known, f = self.static(node.func) if items is None else (False, None)
            items = self.sequence_call(node, f) if known else items
            if items is not None or not known:
                return items
        if isinstance(node, (ast.Tuple, ast.List)):
            return self.sequence_written(node)
        known, x = self.static(node)
        if known:
            if isinstance(x, (tuple, list, dict, range, str, set, frozenset)) or (isinstance(x, type) and issubclass(x, enum.Enum)):
                return [Item(entry=Is(v)) for v in x] if len(x) <= MOST_PARTS else None
            return None
        s = self.like(node)
        if not is_structure(s):
            return None
        if s.kind == "dict":
            return [Item(entry=Is(k)) for k in s.names]
        if s.kind == "object" and hasattr(s.of, "_anfora_names") and hasattr(s.of, "_fields"):  # a named tuple some of whose fields are constant
            parts = dict(zip(s.names, self.parts_of(self.looked_at(node), s)))
            return [parts[n] if n in parts else Item(entry=Is(getattr(s.of, n))) for n in s.of._fields]
        self.has_items(node, s)
        return self.parts_of(self.looked_at(node), s)

    def has_items(self, node: Any, s: Shape | None) -> None:
        """Refuses what goes through an object: its class says what its items are, and its fields are none."""
        if s is None or s.kind != "object" or issubclass(s.of, tuple):
            return
        if hasattr(s.of, "__iter__"):
            self.refuse(node, f"the items that __iter__ of {s.of.__name__} yields are not gone through in a compiled function", "write a method that returns them as a tuple")
        self.refuse(node, f"TypeError: '{s.of.__name__}' object has no items", "name its fields: p.x, p.y")

    @staticmethod
    def parts_of(text: str, s: Shape) -> list[Item]:
        """The items of a tuple, list or named tuple, the values of a dictionary."""
        if s.kind in ("dict", "object"):
            return [Item(f"{text}.{quoted(n)}", part_entry(p)) for n, p in zip(s.names, s.parts)]
        return [Item(f"{text}[{i}]", part_entry(p)) for i, p in enumerate(s.parts)]

    def sequence_written(self, node: Any) -> list[Item] | None:
        items: list[Item] = []
        for e in node.elts:
            if isinstance(e, ast.Starred):
                more = self.sequence(e.value)
                if more is None:
                    return None
                items += more
                continue
            known, x = self.static(e)
            if known and not is_array(x):
                items.append(Item(entry=Is(x)))
            else:
                s = self.like(e)
                items.append(Item(self.expr(e), part_entry(s) if s is not None else None))
        return items

    def sequence_call(self, node: ast.Call, f: Any) -> list[Item] | None:
        if f is range:
            ends = [self.static(a) for a in node.args]
            if not all(k and isinstance(x, int) for k, x in ends) or not 1 <= len(ends) <= 3:
                return None
            r = range(*(x for _, x in ends))
            return [Item(entry=Is(i)) for i in r] if len(r) <= MOST_PARTS else None
        if f is tree_leaves and len(node.args) == 1:
            return self.leaves(node.args[0])
        if f in (tree_leaves_with_path, tree_flatten_with_path) and len(node.args) == 1 and not node.keywords:
            pairs = self.leaves_with_paths(node.args[0])
            if pairs is None or f is tree_leaves_with_path:
                return pairs
            return [Item(parts=pairs, kind="list"), Item(entry=Is(tree_of(self.like(node.args[0]))))]
        if f is tree_flatten and len(node.args) == 1 and (leaves := self.leaves(node.args[0])) is not None:
            return [Item(parts=leaves, kind="list"), Item(entry=Is(tree_of(self.like(node.args[0]))))]
        if f is zip and node.args:
            strict = is_strict(self, node)
            all_of: list = []
            for a in node.args:
                if isinstance(a, ast.Starred):
                    rows = self.sequence(a.value)
                    all_of += [None] if rows is None else [self.item_parts(r) for r in rows]
                else:
                    all_of.append(self.sequence(a))
            if any(s is None for s in all_of):
                return None
            if strict and len(set(map(len, all_of))) > 1:
                self.refuse(node, f"ValueError: zip(strict=True) is of {' and '.join(str(len(s)) for s in all_of)} items")
            return [Item(parts=list(t)) for t in zip(*all_of)]
        if f is enumerate:
            parts = enumerated(node)
            if parts is None:
                self.refuse(node, "enumerate takes what it goes through, and start")
            known, start = self.static(parts[1]) if parts[1] is not None else (True, 0)
            items = self.sequence(parts[0])
            return [Item(parts=[Item(entry=Is(start + i)), x]) for i, x in enumerate(items)] if known and items is not None else None
        if f is sorted and len(node.args) == 1:
            items = self.sequence(node.args[0])
            return None if items is None else self.sorted_by_key(node, items)
        if is_made(f):
            return self.sequence_of_itertools(node, f)
        if f in (reversed, list, tuple) and len(node.args) == 1 and not node.keywords:
            items = self.sequence(node.args[0])
            return items[::-1] if f is reversed and items is not None else items
        return None

    def leaves(self, node: Any) -> list[Item] | None:
        """The leaves of a tree whose structure is known."""
        s = self.like(node)
        if s is None or s.kind == "any":
            return None
        why = ""

        def of(text: str, s: Shape) -> list[Item]:
            nonlocal why
            if s.kind == "any":  # a leaf, or else no value
                why = why or static_text(self, node, "TypeError: it is not known what the tree is made of here: give the function the leaves")
                stops = [f"fn (t__: {kind}) {{ {self.mark(node)}assert(false, {why}); t__ }}" for kind in ("tuple", "record")]
                return [Item(f"multitype({stops[0]}, {stops[1]}, fn (t__) {{ t__ }})({text})")]
            if is_structure(s):
                return [x for i, p in zip(self.parts_of(text, s), s.parts) for x in of(i.text, p)]
            e = part_entry(s)
            return [] if isinstance(e, Is) and e.value is None else [Item(text, e)]
        return of(self.looked_at(node), s)

    def leaves_with_paths(self, node: Any) -> list[Item] | None:
        """(path, leaf) of each leaf of a tree whose structure is known; the paths are constants."""
        s, leaves = self.like(node), self.leaves(node)
        if s is None or leaves is None:
            return None
        paths, waiting = [], [((), s)]
        while waiting:
            path, of = waiting.pop()
            if is_structure(of):
                keys = [DictKey(n) if of.kind == "dict" else GetAttrKey(n) for n in of.names] if of.names else [SequenceKey(i) for i in range(len(of.parts))]
                waiting += reversed([((*path, k), p) for k, p in zip(keys, of.parts)])
            elif of.kind != "none" and not (of.kind == "static" and of.of is None):
                paths.append(path)
        return [Item(parts=[Item(entry=Is(p)), leaf]) for p, leaf in zip(paths, leaves)]

    def leaves_by_type(self, place: Any, node: Any) -> str:
        """The leaves of what has a type by the time that it is compiled."""
        made = _leaves_of_type()
        self.b.keep.append(made)
        return f"{made._emit(self.b)}{self.mark(place)}({self.expr(node)})"

    def sequence_of_dict(self, node: Any) -> list[Item] | None:
        """d.items(), d.keys(), d.values()."""
        how = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if how not in ("items", "keys", "values") or node.args or node.keywords:
            return None
        known, x = self.static(node.func.value)
        if known and isinstance(x, dict):
            names, values = list(x), [Item(entry=Is(v)) for v in x.values()]
        else:
            s = self.like(node.func.value)
            if s is None or s.kind != "dict":
                return None
            names, values = list(s.names), self.parts_of(self.looked_at(node.func.value), s)
        keys = [Item(entry=Is(k)) for k in names]
        return {"keys": keys, "values": values, "items": [Item(parts=[k, v]) for k, v in zip(keys, values)]}[how]

    def item_text(self, node: Any, item: Item) -> str:
        if item.text is not None:
            return item.text
        if item.parts is not None:
            texts = [self.item_text(node, p) for p in item.parts]
            return "(" + ", ".join(texts) + (",)" if len(texts) == 1 else ")")
        return static_text(self, node, item.entry.value)

    def item_parts(self, item: Item) -> list[Item] | None:
        if item.parts is not None:
            return item.parts
        if isinstance(item.entry, Is) and isinstance(item.entry.value, (tuple, list)):
            return [Item(entry=Is(v)) for v in item.entry.value]
        s = item.entry.shape if isinstance(item.entry, Like) else None
        return self.parts_of(item.text, s) if s is not None and is_structure(s) and s.kind != "dict" else None

    def assign_item(self, target: Any, item: Item, indent: str) -> str:
        """Binds a target to a part."""
        if isinstance(target, ast.Name):
            if isinstance(item.entry, Is) and item.text is None:
                return self.bind_static(target, target.id, item.entry.value, indent)
            text = f"{indent}{self.mark(target)}{self.target(target)} = {self.item_text(target, item)}\n"
            if item.entry is not None:
                self.scope.env[target.id] = item.entry
            elif item.parts is not None:
                self.scope.env[target.id] = Like(Shape(item.kind, [self.item_shape(i) for i in item.parts]))
            return text
        parts = self.item_parts(item) if isinstance(target, (ast.Tuple, ast.List)) else None
        if parts is None:
            shape = shape_of_plain(item.entry.value) if isinstance(item.entry, Is) else self.item_shape(item)
            return self.bind_text(target, self.item_text(target, item), indent, shape)
        return self.assign_parts(target, parts, indent)

    def assign_parts(self, target: Any, parts: list[Item], indent: str) -> str:
        stars = [i for i, e in enumerate(target.elts) if isinstance(e, ast.Starred)]
        n = len(target.elts)
        if stars and len(stars) == 1 and len(parts) >= n - 1:
            at, end = stars[0], len(parts) - (n - 1 - stars[0])
            parts = [*parts[:at], Item(parts=parts[at:end]), *parts[end:]]
        if len(parts) != n:
            self.refuse(target, f"there are {n} names for {len(parts)} items")
        text = ""
        for e, p in zip(target.elts, parts):
            if isinstance(e, ast.Starred) and isinstance(e.value, ast.Name):
                name = self.target(e.value)
                text += f"{indent}{name} = {self.item_text(target, p)}\n"
                self.scope.env[e.value.id] = Like(Shape("list", [self.item_shape(i) for i in p.parts]), own=True)
            else:
                text += self.assign_item(e, p, indent)
        return text

    def in_variables(self, node: Any, item: Item, indent: str) -> tuple[str, Item]:
        """Evaluates a part now: names that it is made of may be bound anew before it is used."""
        if item.parts is not None:
            pairs = [self.in_variables(node, p, indent) for p in item.parts]
            return "".join(t for t, _ in pairs), Item(parts=[p for _, p in pairs], kind=item.kind)
        if item.text is None:
            return "", item
        t = self.fresh()
        return f"{indent}{t} = {item.text}\n", Item(t, item.entry)
