# SPDX-License-Identifier: Apache-2.0
"""Lists, dictionaries and arrays that a function has made and changes in place: xs.append(x), xs.pop(), d["k"] = x, x[i] = v."""
from __future__ import annotations

import ast
from typing import Any

from .given import is_container
from .known import Item, Like, Part, is_structure, is_tree, parameters
from .loop_lists import item_like
from .names import grown
from .static import hyper_mapped, static_text, written_at
from .stores import Stores, whole_position
from .._tree import Shape, is_key


WHICH_PART = "which part changes must be known when the function is compiled"


class Owned(Part):
    """The part of the writer for what changes in place."""

    def grow(self, node: Any, indent: str) -> Any:
        """xs.append(x), xs.extend(ys), as a statement; None: it is another."""
        list_ = grown(node)
        if list_ is None or len(node.args) != 1 or node.keywords:
            return None
        if isinstance(list_, ast.Name) and list_.id in self.filling:
            return self.fill(node, list_.id, indent)
        e = self.owned(list_, node)
        if e.shape.kind == "mapped":
            return self.grow_any(node, list_, e, indent)
        if e.shape.kind == "stacked":
            return self.grow_rows(node, list_, indent)
        if node.func.attr == "append":
            more, shapes = f"({self.expr(node.args[0])},)", [self.part_shape(node.args[0])]
        else:
            items = self.sequence(node.args[0])
            if items is None:
                self.refuse(node, "it is not known how long the list becomes")
            more, shapes = self.item_text(node, Item(parts=items)), [self.item_shape(i) for i in items]
        name = self.local(list_.id)
        self.bind(list_.id, Like(type(e.shape)("list", [*e.shape.parts, *shapes]), own=True))
        return f"{indent}{self.mark(node)}{name} = TupleConcat({name}, {more})\n"

    def grow_any(self, node: Any, list_: ast.Name, e: Like, indent: str) -> str:
        """The same of a list whose length types alone tell."""
        name, value = self.local(list_.id), node.args[0]
        e.items = [self.items_like(e.shape)] if e.items is None else e.items
        if node.func.attr == "append":
            e.items.append(item_like(self.part_shape(value)))
            more = f"({self.expr(value)},)"
        else:
            given = self.like(value)
            if given is None or given.kind not in ("list", "tuple", "mapped"):
                self.refuse(node, "it is not known how long the list becomes")
            e.items.append(self.items_like(given))
            more = self.looked_at(value)
        if any(is_tree(i) for i in e.items) and len({i.key() for i in e.items}) > 1:
            self.refuse(node, f"the items of {list_.id} are of several structures, and shapes tell how many there are", "append items of one structure")
        return f"{indent}{self.mark(node)}{name} = TupleConcat({name}, {more})\n"

    def popped(self, node: Any, indent: str) -> tuple[str, str, Shape | None] | None:
        """x = xs.pop(i) of a list that the function has made: the statements around the binding, and the part's structure;
        `part_popped` is the part."""
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "pop" and len(node.args) < 2
                and isinstance(node.func.value, ast.Name)) or node.keywords:
            return None
        s = self.like(node.func.value)
        known, k = self.static(node.args[0]) if node.args else (True, -1)
        if s is not None and s.kind == "dict" and known and node.args and k in s.names:
            return self.popped_key(node, k, s, indent)
        if s is not None and s.kind == "stacked" and known and k in (0, -1):
            return self.popped_row(node, k, indent)
        if s is None or s.kind != "list" or not known or not isinstance(k, int):
            return None
        if not -len(s.parts) <= k < len(s.parts):
            self.refuse(node, f"IndexError: the list has {len(s.parts)} items")
        self.owned(node.func.value, node)
        k, name, t = k % len(s.parts), self.local(node.func.value.id), self.fresh()
        rest = [*s.parts[:k], *s.parts[k + 1:]]
        self.part_popped = f"{t}[{k}]"
        self.bind(node.func.value.id, Like(Shape("list", rest), own=True))
        part = s.parts[k] if is_structure(s.parts[k]) else None
        return f"{indent}{t} = {name}\n", f"{indent}{name} = TupleConcat({t}[:{k}], {t}[{k + 1}:])\n", part

    def popped_result(self, node: ast.Return, indent: str) -> str | None:
        """return xs.pop(), as x = xs.pop(); return x; None: it is another statement."""
        gives = self.given and self.scope.outer is None
        value = node.value.elts[0] if gives and isinstance(node.value, ast.Tuple) else node.value
        if not (isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "pop" and is_container(self.like(value.func.value))):
            return None
        t = self.fresh()
        self.scope.names.add(t)
        bound, name = (ast.copy_location(ast.Name(t, ctx), value) for ctx in (ast.Store(), ast.Load()))
        text = self.assign(bound, value, value, indent)
        result = ast.Tuple([name, *node.value.elts[1:]], ast.Load()) if gives else name  # type: ignore[union-attr]
        return text + self.stmt_Return(ast.copy_location(ast.Return(ast.copy_location(result, value)), node), indent)

    def popped_key(self, node: Any, key: Any, s: Shape, indent: str) -> tuple[str, str, Shape | None]:
        """x = d.pop("k")"""
        self.owned(node.func.value, node)
        name, t = self.local(node.func.value.id), self.fresh()
        parts = {n: (p, i.text) for n, p, i in zip(s.names, s.parts, self.parts_of(t, s))}
        part, self.part_popped = parts.pop(key)
        self.bind(node.func.value.id, Like(Shape("dict", [p for p, _ in parts.values()], tuple(parts)), own=True))
        return f"{indent}{t} = {name}\n", f"{indent}{name} = {self.record([(n, text) for n, (_, text) in parts.items()])}\n", part if is_structure(part) else None

    def popped_row(self, node: Any, k: int, indent: str) -> tuple[str, str, Shape | None]:
        """x = xs.pop() of a list that is an array."""
        self.owned(node.func.value, node)
        name, t, b = self.local(node.func.value.id), self.fresh(), self.fresh()
        item, rest = (hyper_mapped(f"fn ({b}) {{ {b}{self.mark(node)}[{i}] }}", [t]) for i in (k, "1:" if k == 0 else ":-1"))
        self.part_popped = item
        self.bind(node.func.value.id, Like(Shape("stacked"), own=True))
        return f"{indent}{t} = {name}\n", f"{indent}{name} = {rest}\n", None

    def owned(self, node: Any, place: Any) -> Like:
        """What is known of a list or dictionary that may be changed: nothing else can see that it is."""
        e = self.scope.env.get(node.id) if isinstance(node, ast.Name) else None
        if isinstance(e, Like) and e.own:
            return e
        name = node.id if isinstance(node, ast.Name) else None
        if name is not None and not self.is_local(name):
            self.refuse(place, f"{name} is made outside of the function, and would change there: a compiled function changes only lists and dictionaries that it has made",
                        "return what is to be added, and let the caller add it")
        if name in self.given and self.scope.outer is None:
            self.refuse(place, f"{name} changes in place, and something else refers to it by now, or it has lists within", f"give what refers to it a copy: list({name})")
        if self.scope.node is not None and name in {a.arg for a in parameters(self.scope.node.args)} and is_structure(self.like(node)):
            copy = "dict" if self.like(node).kind == "dict" else "list"
            self.refuse(place, f"{name} is an argument, which the caller would see change: a compiled function changes only lists and dictionaries that it has made",
                        f"call the function in a statement of its own, y = f({name}), where {name} is a variable; or write {name} = {copy}({name}) before, and return {name}")
        return self.refuse(place, "only a list or dictionary that the function has made changes in place, where it is known how long it is",
                    "lists grow in loops over what has known parts, and not after they were given away; "
                    "otherwise write xs = xs + [x], {**d, \"k\": x}, or x.at[i].set(value)")

    def store(self, target: Any, value: Any, indent: str, text: str = "") -> str:
        """xs[0] = x and d["k"] = x; `text`: what x is, if that is written already."""
        s, stores = self.like(target.value), self.stores()
        if stores and (is_structure(s) or s is not None and s.kind == "stacked") and stores.shares(value):
            self.refuse(value, "an array that changes in place would have another name here", "write .copy() after it")
        if s is not None and s.kind in ("list", "stacked") and isinstance(target.slice, ast.Slice) and (whole := self.replaced_whole(target, value, indent)):
            return whole
        if s is not None and s.kind == "stacked" and self.owned(target.value, target):
            return self.store_row(target, value, indent)
        if not is_structure(s):
            if is_structure(self.like(value)) or isinstance(value, (ast.List, ast.ListComp)):
                from .builtins import array
                value = ast.copy_location(ast.Call(ast.copy_location(ast.Constant(array), value), [value], []), value)
            row = self.windowed_store(target, value) if isinstance(target.value, ast.Name) else None
            if row is not None:
                return self.store_elements(row[0], self.expr(row[1]), indent)
            masked = self.masked(target, value) if isinstance(target.value, ast.Name) else None
            return self.store_elements(target, self.expr(value) if masked is None else "", indent, masked)
        e = self.owned(target.value, target)
        known, k = self.static(target.slice)
        name, shape = self.local(target.value.id), e.shape
        names = list(shape.names)
        parts = dict(zip(names, shape.parts)) if shape.kind == "dict" else dict(enumerate(shape.parts))
        texts = {n: i.text for n, i in zip(parts, self.parts_of(name, shape))}
        if known and isinstance(k, int) and shape.kind == "list" and -len(parts) <= k < len(parts):
            k %= len(parts)
        elif not known or not is_key(k) or shape.kind != "dict":
            self.refuse(target, WHICH_PART, "use an array, and x.at[i].set(value)")
        texts[k], parts[k] = text or self.expr(value), self.part_shape(value)
        made = self.record(list(texts.items())) if shape.kind == "dict" else "(" + "".join(t + ", " for t in texts.values()).rstrip(" ") + ")"
        self.bind(target.value.id, Like(type(shape)(shape.kind, list(parts.values()), tuple(parts) if shape.kind == "dict" else ()), own=True))
        return f"{indent}{self.mark(target)}{name} = {made}\n"

    def stores(self) -> Stores | None:
        """Of the function that is written: which of its arrays change by x[i] = v."""
        s = self.scope
        while s and not isinstance(s.node, ast.FunctionDef):
            s = s.outer
        if s is None:
            return None
        if id(s.node) not in self.changed:
            self.changed[id(s.node)] = s.node, Stores(s.node, self.static, self.given if s.outer is None else ())
        return self.changed[id(s.node)][1]

    def one_element(self, node: ast.Subscript, text: str) -> str:
        """Of an array that changes in place: a number, which is a copy; a row would change with it."""
        t, array = self.fresh(), ast.unparse(node.value)
        why = static_text(self, node, f"TypeError: {ast.unparse(node)} is a part of {array}, which changes in place; write {ast.unparse(node)}.copy()")
        return f"(fn ({t}) {{ {self.mark(node)}assert(len({t}.shape) == 0, {why}); {t} }})({text})"

    def must_be_one(self, node: Any) -> bool:
        """Whether a subscript or a call must give a number, as what it is a part of changes later."""
        stores = self.stores()
        return stores is not None and whole_position(node) in stores.elements

    def one_given(self, node: ast.Call, text: str) -> str:
        """Of a call that gives its result and then what it changes: the result must be a number."""
        t, call = self.fresh(), ast.unparse(node.args[0]) if node.args else "an argument"
        why = static_text(self, node, f"TypeError: the result is a part of {call}, which changes in place; write .copy()")
        return f"(fn ({t}) {{ {self.mark(node)}assert(len({t}[0].shape) == 0, {why}); {t} }})({text})"

    def store_elements(self, target: ast.Subscript, text: str, indent: str, made: str | None = None) -> str:
        """x[i] = v of an array: the name is bound to the array with other elements, where nothing else has its memory."""
        s, stores = self.like(target.value), self.stores()
        if not isinstance(target.value, ast.Name) or is_structure(s) or s is not None and s.kind == "stacked" or stores is None:
            self.refuse(target, "only a variable of the function changes in place",
                        "write x[i, j] = v for x[i][j] = v, x = x.at[i].set(v), or make a new tuple or dictionary")
        name = target.value.id
        if name in self.scope.mixed:
            self.refuse(target, f"{name} has another structure before a round than after it, and a part of it changes", "bind a number in place of None before the loop")
        why = stores.refused.get(name, (target, f"{name} comes from outside of the function, where it would change", "")) if self.is_local(name) \
            else (target, f"{name} comes from outside of the function, where it would change", f"write x = {name}.copy(), and x[...] = ...")
        if why is not None:
            self.refuse(why[0] or target, why[1], why[2])
        self.seen_by_none(target, name)
        array, value = self.local(name), self.fresh()
        self.bind(name)
        if made is not None:
            return f"{indent}{self.mark(target)}{array} = {made}\n"
        return (f"{indent}{self.mark(target)}{value} = {text}\n"
                f"{indent}{self.mark(target)}{array} = {written_at(self, target, target, value, 'update', array)}\n")

    def give_away(self, node: Any) -> None:
        """Another name refers to it from now on."""
        e = self.scope.env.get(node.id) if isinstance(node, ast.Name) and self.scope else None
        if isinstance(e, Like):
            e.own = False
