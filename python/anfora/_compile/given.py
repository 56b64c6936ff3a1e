# SPDX-License-Identifier: Apache-2.0
"""Lists and dictionaries that a function is given and changes.

    def put(xs, v):           put' gives its result and then xs (effects.py), and a call is
        xs.append(v)          _, xs = put'(xs, v)

In put' the list is one of its own, for the caller has no other name for it and takes the one that is given back. A result that holds the
list gives it another name: it changes no more. Items are numbers, arrays and tuples; a list within would have the name of the outer one, too."""
from __future__ import annotations

import ast
from typing import Any

from .effects import rebound
from .kinds import placed
from .known import ANY, Like, Part, is_none, is_structure, skeleton
from .listed import is_replaced
from .static import hyper_mapped
from .stores import FRESH, NUMBERS_OF, given_by, library_name
from .._tree import Shape

_READERS = ("sorted", "list", "tuple", "dict")  # which copy what they are given
_CONTAINERS = ("list", "dict", "stacked", "mapped")


def is_container(s: Shape | None) -> bool:
    """Whether a structure is one of a list or dictionary."""
    return s is not None and s.kind in _CONTAINERS and (s.kind != "mapped" or s.names == ("list",))


def is_flat(s: Shape) -> bool:
    """Whether no item of it changes in place."""
    items = [s.of or ANY] if s.kind == "mapped" else s.parts
    return not any(p.kind in (*_CONTAINERS, "object", "hinted") for p in items)


def _form(s: Shape | None) -> Shape:
    """What a list or dictionary is like, and nothing of its numbers."""
    return s if s is not None and s.kind in ("stacked", "mapped") else ANY if s is None else skeleton(s)


class Given(Part):
    """The part of the writer for them."""

    given: tuple[str, ...]
    unheld: set[str]  # of these: no result holds them
    gives_back: list[list[Shape]]  # by return: what they are like

    def begin_given(self) -> str:
        """The lists and dictionaries that the function gives back are its own."""
        text = ""
        for x in self.given:
            e = self.scope.env.get(x)
            if not isinstance(e, Like) or not is_container(e.shape):
                continue
            if rebound(self.stores(), x):
                self.refuse(self.scope.node.body[0], f"{x} changes in place, and the function binds the name anew", "give the new list another name")
            if not is_flat(e.shape):
                continue
            self.scope.env[x] = Like(e.shape, own=True)
            self.unheld.add(x)
            if is_replaced(self, x, self.b.rows):
                text += self.as_rows(x, self.scope.node.body[0], "  ")
        return text

    def as_rows(self, name: str, node: Any, indent: str) -> str:
        """A list of numbers or arrays as one array, with a row for each item; nothing if it is another."""
        s = self.scope.env[name].shape
        if s.kind != "list" or not s.parts or any(is_structure(p) or is_none(p) for p in s.parts):
            return ""
        items = [i.text for i in self.parts_of(self.local(name), s)]
        names = ", ".join(f"e{i}" for i in range(len(items)))
        self.scope.env[name] = Like(Shape("stacked"), own=True)
        return f"{indent}{self.mark(node)}{self.local(name)} = {hyper_mapped(f'fn ({names}) {{ Stack({names}) }}', items)}\n"

    def return_given(self, node: ast.Return, indent: str) -> str:
        """return (value, xs): of a function that gives xs back."""
        value, *names = node.value.elts  # type: ignore[union-attr]
        text = self.expr(value)
        self.unheld -= {n.id for n in names if isinstance(e := self.scope.env.get(n.id), Like) and not e.own}
        self.returning.append(placed(self.structure(node.value), self.place(node)))
        self.returning_like.append(self.known_returned(node.value))
        self.gives_back.append([_form(self.like(n)) for n in names])
        return f"{indent}{self.mark(node)}return ({', '.join([text, *map(self.looked_at, names)])})\n"

    def only_read(self, node: Any) -> list[Like]:
        """Lists and dictionaries of the function that an expression reads, and that nothing which it gives holds."""
        entries = [self.scope.env.get(n.id) for n in self.operands(node) if isinstance(n, ast.Name)] if self.scope else []
        return [e for e in entries if isinstance(e, Like) and e.own and is_container(e.shape) and is_flat(e.shape)]

    def operands(self, node: Any) -> list:
        """The parts of an operation that only reads them: of comparisons, sums and calls of functions that copy what they are given."""
        if isinstance(node, ast.Compare):
            return [] if any(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops) else [node.left, *node.comparators]
        if isinstance(node, (ast.BinOp, ast.UnaryOp)):
            return [node.operand] if isinstance(node, ast.UnaryOp) else [node.left, node.right]
        if not isinstance(node, ast.Call):
            return []
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("index", "count", "copy"):
            return [node.func.value]
        known, f = self.static(node.func)
        name = library_name(f) if known else None
        reads = name in _READERS or name in FRESH | NUMBERS_OF and (name not in ("max", "min") or len(node.args) == 1)
        return node.args if reads else []

    def gives_lists(self, call: Any) -> list[str]:
        """The lists and dictionaries that a call changes and gives back, by their names."""
        giving = given_by(call)
        names = [t.id for t in self.stores().parents[id(call)].targets[0].elts[1:]] if giving is not None and self.stores() else []
        return [x for x in names if isinstance(e := self.scope.env.get(x), Like) and is_container(e.shape)]

    def may_change_list(self, call: Any, name: str) -> None:
        """Refuses a call that changes a list that has another name, or that is given by two ways."""
        used = [n for a in (*call.args, *(k.value for k in call.keywords)) for n in ast.walk(a) if isinstance(n, ast.Name) and n.id == name]
        items = {id(n.value) for a in (*call.args, *(k.value for k in call.keywords)) for n in ast.walk(a)
                 if isinstance(n, ast.Subscript) and not isinstance(n.slice, ast.Slice)} | \
            {id(n.args[0]) for a in call.args for n in ast.walk(a) if isinstance(n, ast.Call) and len(n.args) == 1 and self.static(n.func) == (True, len)}
        if sum(id(n) not in items for n in used) > 1:
            self.refuse(call, f"{name} is given twice, and changes in place", f"give a copy: list({name})")
        e = self.owned(used[0], call)
        if not is_flat(e.shape):
            self.refuse(call, f"{name} changes in place, and has lists or dictionaries in it, which would have another name", "give the list within, and put back what it becomes")

    def bind_given(self, target: ast.Tuple, call: ast.Call, lists: list[str], indent: str) -> str:
        """_, xs = put'(xs, v)"""
        giving, before = given_by(call), {x: self.scope.env[x] for x in lists}
        text = self.expr(call)
        for e in before.values():  # another way may begin with it
            e.own = True
        unit = self.b.units[self.gave]
        likes = [s for s in unit.likes if s is not None]
        like = likes[0] if likes and all(s.key() == likes[0].key() for s in likes) else None
        out = self.bind_text(target, text, indent, like)
        for n, p in zip(target.elts[1:], giving.names):
            x = getattr(n, "id", "")
            if x not in lists:
                continue
            shapes = [ways[giving.names.index(p)] for ways in unit.gives_back]
            if not unit.done:
                shapes = [_form(before[x].shape)]
                unit.assumed.append((p, shapes[0]))
            if any(s.key() != shapes[0].key() for s in shapes):
                self.refuse(call, f"{x} has one length on one way through {giving.__name__}, and another one on another", "change it by as many items on all ways")
            self.scope.env[x] = Like(shapes[0], own=not unit.done or p in unit.unheld)
        return out

    def check_assumed(self, unit: Any, node: Any) -> None:
        """Of a function that calls itself: the lists that it gives back are what its calls took them to be."""
        for p, s in unit.assumed:
            if p not in unit.unheld or any(ways[self.given.index(p)].key() != s.key() for ways in unit.gives_back):
                self.refuse(node, f"the function calls itself, and {p} becomes another list in it", "return the new list")
