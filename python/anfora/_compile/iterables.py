# SPDX-License-Identifier: Apache-2.0
"""Items that functions of itertools make of known ones, and those that a key chooses or sorts:

    for i, j in combinations(range(3), 2): ...       three rounds that are written out
    max(range(3), key=lambda i: x[i])                (0, x[0]), (1, x[1]), (2, x[2]): the first of the pair with the greatest key
"""
from __future__ import annotations

import ast
import itertools
import operator
import re
import types
from typing import Any

from .emit import END, MARK
from .known import ANY, MOST_PARTS, Is, Item, Like, Part, Scope, shape_of_plain
from .static import Call

_GROUPS = {itertools.product: "repeat", itertools.combinations: "r", itertools.permutations: "r", itertools.combinations_with_replacement: "r"}
_CALL = re.compile(f"[\\w\\])`{END}]\\(")
_MARK = re.compile(f"{MARK}[^{END}]*{END}")
MADE = (*_GROUPS, itertools.chain, itertools.chain.from_iterable, itertools.pairwise, itertools.islice, itertools.repeat, itertools.zip_longest,
        itertools.accumulate, filter)


MOST_SUMS = 32  # of accumulate: each has those before it in its text


def is_made(f: Any) -> bool:
    return isinstance(f, (type, types.BuiltinFunctionType)) and f in MADE


def is_simple(item: Item) -> bool:
    """Whether an item may be written several times: it is known, or calls nothing."""
    return all(map(is_simple, item.parts)) if item.parts is not None else item.text is None or not _CALL.search(_MARK.sub("", item.text))


class Iterables(Part):
    """The part of the writer for them."""

    def sequence_of_itertools(self, node: ast.Call, f: Any) -> list[Item] | None:
        """The items that a function of itertools gives; None: they are not known."""
        if any(isinstance(a, ast.Starred) for a in node.args) or not all(k.arg for k in node.keywords):
            return None
        kw: dict[str, Any] = {str(k.arg): self.static(k.value) for k in node.keywords}
        if f in (itertools.islice, itertools.repeat, itertools.combinations, itertools.permutations, itertools.combinations_with_replacement):
            given = [self.static(a) for a in node.args[1:]]
            if not all(k for k, _ in (*given, *kw.values())):
                return None
            return self.grouped(node, f, node.args[:1], [x for _, x in given], {k: x for k, (_, x) in kw.items()})
        if f is itertools.accumulate:
            return self.accumulated(node)
        if f is filter:
            items = self.sequence(node.args[1]) if len(node.args) == 2 and not kw else None
            keys = None if items is None else [(True, bool(i.entry.value), "") if isinstance(i.entry, Is) and self.static(node.args[0]) == (True, None) else
                                               self.keys_of(node, node.args[0], [i])[0] for i in items]
            return [i for i, (_, x, _) in zip(items or (), keys) if x] if keys is not None and all(k for k, _, _ in keys) else None
        if not all(k for k, _ in kw.values()):
            return None
        return self.grouped(node, f, node.args, [], {k: x for k, (_, x) in kw.items()})

    def grouped(self, node: ast.Call, f: Any, over: list, rest: list, kw: dict) -> list[Item] | None:
        if f is itertools.repeat:
            known, x = self.static(over[0]) if len(over) == 1 else (False, None)
            return [Item(entry=Is(x))] * int((*rest, *kw.values())[0]) if known and len(rest) + len(kw) == 1 else None
        of = [self.sequence(a) for a in over]
        if any(items is None or not all(map(is_simple, items)) for items in of):
            return None
        if f == itertools.chain.from_iterable:  # a method, made anew by each look at it
            inner = [self.item_parts(i) for i in of[0] or ()]
            return None if any(p is None for p in inner) else [i for p in inner for i in p or ()]
        if f is itertools.zip_longest:
            kw = {k: Item(entry=Is(x)) for k, x in kw.items()} or {"fillvalue": Item(entry=Is(None))}
        try:
            made = list(itertools.islice(f(*of, *rest, **kw), MOST_PARTS + 1))
        except (TypeError, ValueError) as e:
            self.refuse(node, f"{type(e).__name__}: {e}")
        if len(made) > MOST_PARTS:
            return None
        return [Item(parts=list(x)) if isinstance(x, tuple) else x for x in made]

    def accumulated(self, node: ast.Call) -> list[Item] | None:
        """accumulate(items, f, initial=): of known numbers, by a function that Python can call, or a text for each."""
        items = self.sequence(node.args[0]) if node.args else None
        given = {"func": node.args[1]} if len(node.args) == 2 else {}
        given |= {str(k.arg): k.value for k in node.keywords}
        (known, f), (also, initial) = (self.static(given[n]) if n in given else (True, None) for n in ("func", "initial"))
        plain = items is not None and all(isinstance(i.entry, Is) and isinstance(i.entry.value, (int, float)) for i in items)
        if items and not plain and len(node.args) < 3 and given.keys() <= {"func", "initial"}:
            return self.accumulated_texts(node, items, given)
        if not plain or not known or not also or not (f is None or type(f).__name__ == "builtin_function_or_method"):
            return None
        values = itertools.accumulate([i.entry.value for i in items or ()], f, initial=initial) if f is not None else \
            itertools.accumulate([i.entry.value for i in items or ()], initial=initial)
        return [Item(entry=Is(x)) for x in values]

    def accumulated_texts(self, node: ast.Call, items: list[Item], given: dict[str, Any]) -> list[Item] | None:
        """The same of a few items that the program computes."""
        known, f = self.static(given["func"]) if "func" in given else (True, operator.add)
        text = "" if known and f is operator.add else self.expr(given["func"])
        if "initial" in given and self.static(given["initial"]) != (True, None):
            items = [Item(self.expr(given["initial"])), *items]
        if len(items) > MOST_SUMS or not all(is_simple(i) and not i.parts and not isinstance(i.entry, Like) for i in items):
            return None
        made = [items[0]]
        for item in items[1:]:
            a, b = (self.item_text(node, i) for i in (made[-1], item))
            made.append(Item(f"({text}){self.mark(node)}({a}, {b})" if text else f"({a} {self.mark(node)}+ {b})"))
        return made

    # ---- by a key ----

    def keys_of(self, node: ast.Call, key: Any, items: list[Item]) -> list[tuple[bool, Any, str]]:
        """The key of each item: (whether it is known, it or its structure, its text)."""
        made = []
        for item in items:
            name = key.args.args[0].arg if isinstance(key, ast.Lambda) and len(key.args.args) == 1 else f"item_{self.fresh()}"
            outer, self.scope = self.scope, Scope({name}, self.scope)
            target: Any = ast.copy_location(ast.Name(name, ast.Store()), node)
            lines = self.assign_item(target, item, "").replace("\n", "; ")
            body = key.body if isinstance(key, ast.Lambda) else \
                ast.copy_location(ast.Call(key, [ast.copy_location(ast.Name(name, ast.Load()), node)], []), node)
            known, x = self.static(body)
            s = self.parts_known(body) or ANY
            made.append((known, x if known else s, "" if known else self.within(lines, self.scalar(body) if s is ANY else self.looked_at(body))))
            self.scope = outer
        return made

    def key_and_default(self, c: Call) -> tuple[Any, Any]:
        kw = dict(c.kw)
        key, default = kw.pop("key", None), kw.pop("default", None)
        if kw:
            self.refuse(c.node, f"TypeError: {c.f.__name__}() has no argument {next(iter(kw))}")
        if isinstance(key, ast.Constant) and key.value is None:
            key = None
        return key, default

    def chosen_by_key(self, c: Call, key: Any, items: list[Item] | None) -> str:
        """min and max by a key."""
        if items is None:
            return self.refuse(c.node, f"{c.f.__name__}() by a key is of items that are known when the function is compiled",
                               f"write x[np.arg{c.f.__name__}(keys)] for an array of keys")
        keys = self.keys_of(c.node, key, items)
        if all(known for known, _, _ in keys):
            best = c.f(range(len(items)), key=lambda i: keys[i][1])
            return self.item_text(c.node, items[best])
        texts = [k[2] or self.item_text(c.node, Item(entry=Is(k[1]))) for k in keys]
        pairs = [f"({self.item_text(c.node, i)}, {t})" for i, t in zip(items, texts)]
        s = self.one_structure(c.node, [shape_of_plain(x) if known else x for known, x, _ in keys])
        return self.best_text(c.node, ast.Lt if c.f is min else ast.Gt, pairs, s, "[1]") + "[0]"

    def sorted_by_key(self, node: ast.Call, items: list[Item]) -> list[Item] | None:
        """sorted by keys that are known; None: they are not."""
        given = {str(k.arg): k.value for k in node.keywords}
        known, back = self.static(given["reverse"]) if "reverse" in given else (True, False)
        key = given.get("key")
        if not known or given.keys() - {"key", "reverse"}:
            return None
        if key is None or isinstance(key, ast.Constant) and key.value is None:
            values = [(isinstance(i.entry, Is), i.entry.value if isinstance(i.entry, Is) else None, "") for i in items]
        else:
            values = self.keys_of(node, key, items)
        if not all(k and isinstance(x, (int, float, str, tuple)) for k, x, _ in values):
            return None
        order = sorted(range(len(items)), key=lambda i: values[i][1], reverse=bool(back))
        return [items[i] for i in order]
