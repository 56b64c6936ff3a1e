# SPDX-License-Identifier: Apache-2.0
"""Statements that change a list or dictionary that the function itself has made: methods of Python's, del, and stores among the
targets of an assignment. The name is bound to the one with other parts."""
from __future__ import annotations

import ast
import types
from typing import Any

from .known import Like, Part, class_member, is_structure, shape_of_plain, skeleton
from .names import position, stored_name
from .owned import WHICH_PART
from .static import Call, call_source
from .._tree import Shape, is_key


# Operators, and the methods of classes that they are
METHODS_OF = {
    ast.Add: "__add__", ast.Sub: "__sub__", ast.Mult: "__mul__", ast.Div: "__truediv__", ast.FloorDiv: "__floordiv__", ast.Mod: "__mod__",
    ast.Pow: "__pow__", ast.MatMult: "__matmul__",
}


def is_copy(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Attribute) and node.func.attr == "copy" and not node.args and not node.keywords


def containers_of(function: Any) -> set[str]:
    """The names that a function binds to lists and dictionaries alone, as it is written."""
    made, other = set(), {a.arg for n in ast.walk(function) if isinstance(n, ast.arguments) for a in (*n.posonlyargs, *n.args, *n.kwonlyargs)}
    held: set[int] = set()
    for n in ast.walk(function):
        if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name) and len(n.targets) == 1 and (
                isinstance(n.value, (ast.List, ast.Dict, ast.ListComp, ast.DictComp)) or
                isinstance(n.value, ast.Call) and isinstance(n.value.func, ast.Name) and n.value.func.id in ("list", "dict")):
            made.add(n.targets[0].id)
            held.add(id(n.targets[0]))
        elif isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and id(n) not in held:
            other.add(n.id)
    return made - other


class Containers(Part):
    """The part of the writer for changes of lists and dictionaries."""

    def changed_container(self, node: Any, indent: str) -> str | None:
        """d.update(...), xs.insert(i, x), xs.reverse(), xs.clear(); None: it is another statement."""
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name)):
            return None
        s, how = self.like(node.func.value), node.func.attr
        if s is not None and s.kind == "mapped" and s.names == ("list",) and how == "insert" and node.args and self.static(node.args[0]) == (True, 0):
            s = Shape("list")
        if s is not None and s.kind == "stacked":
            return self.changed_rows(node, how, indent)
        if s is None or s.kind not in ("list", "dict") or any(isinstance(a, ast.Starred) for a in node.args):
            return None
        name: Any = node.func.value
        if s.kind == "list" and how == "sort" and not node.args:
            return self.made_anew(node, name, ast.Call(ast.Constant(sorted), [name], node.keywords), indent)
        if s.kind == "dict" and how == "update" and len(node.args) <= 1:
            parts = [*node.args, *([ast.Dict([ast.Constant(k.arg) if k.arg else None for k in node.keywords],
                                             [k.value for k in node.keywords])] if node.keywords else [])]
            return self.made_anew(node, name, ast.Dict([None] * (1 + len(parts)), [name, *parts]), indent)
        if s.kind == "dict" and how == "setdefault" and 1 <= len(node.args) <= 2 and not node.keywords:
            known, key = self.static(node.args[0])
            if not known or key in s.names:
                return "" if known else None
            value = node.args[1] if len(node.args) == 2 else ast.copy_location(ast.Constant(None), node)
            return self.made_anew(node, name, ast.Dict([None, node.args[0]], [name, value]), indent)
        if node.keywords or s.kind != "list":
            return None
        made: Any = None
        if how == "insert" and len(node.args) == 2:
            at = node.args[0]
            head, tail = (ast.Subscript(name, ast.Slice(*ends), ast.Load()) for ends in ((None, at), (at, None)))
            made = ast.List([ast.Starred(head, ast.Load()), node.args[1], ast.Starred(tail, ast.Load())], ast.Load())
        elif how == "reverse" and not node.args:
            made = ast.Subscript(name, ast.Slice(None, None, ast.Constant(-1)), ast.Load())
        elif how == "clear" and not node.args:
            made = ast.List([], ast.Load())
        return None if made is None else self.made_anew(node, name, made, indent)

    def makes_container(self, value: Any) -> bool:
        """Whether an expression gives a list or dictionary that is new, and its items are no lists that change."""
        if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Slice) or isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
            s = self.like(value)
            return s is not None and s.kind == "list"
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.BitOr):
            return self.like_joined(value) is not None
        return isinstance(value, (ast.List, ast.Dict, ast.ListComp, ast.DictComp)) or \
            isinstance(value, ast.BinOp) and self.repeated(value) is not None or \
            isinstance(value, ast.Call) and self.static(value.func) in ((True, list), (True, dict))

    def copied(self, value: Any) -> Any:
        """xs.copy() of a list or dictionary, as [*xs] or {**xs}; None: it is another thing."""
        if not (isinstance(value, ast.Call) and is_copy(value) and isinstance(value.func.value, ast.Name)):
            return None
        name, of = value.func.value, self.scope.node if self.scope else None
        s = self.like(name)
        if s is None or s.kind not in ("list", "dict") or not isinstance(of, ast.FunctionDef):
            return None
        if name.id not in containers_of(of) and any(isinstance(n, ast.AugAssign) for n in ast.walk(of)):  # whose arrays may change in place
            return None
        made: Any = ast.Dict([None], [name]) if s.kind == "dict" else ast.List([ast.copy_location(ast.Starred(name, ast.Load()), value)], ast.Load())
        return ast.copy_location(made, value)

    def made_anew(self, place: Any, name: ast.Name, value: Any, indent: str) -> str:
        """name = value, where nothing else refers to what it was."""
        self.owned(name, place)
        value = ast.copy_location(value, place)
        for n in ast.walk(value):
            if isinstance(n, (ast.expr, ast.keyword)) and not hasattr(n, "lineno"):
                ast.copy_location(n, place)
        shape = self.like(value) or self.like_sorted(value)
        if shape is None and self.like(name).kind == "mapped":
            shape = self.like(name)
        if shape is None or shape.kind not in ("list", "dict", "mapped"):
            self.refuse(place, WHICH_PART, "make a new list or dictionary")
        text = self.expr(value)
        self.bind(name.id, Like(shape, own=True))
        return f"{indent}{self.mark(place)}{self.local(name.id)} = {text}\n"

    def like_sorted(self, value: Any) -> Shape | None:
        """sorted(xs) of a list of numbers, or of tuples that are alike."""
        s = self.like(value.args[0]) if isinstance(value, ast.Call) and self.static(value.func) == (True, sorted) and value.args else None
        return Shape("list", [skeleton(shape_of_plain(p.of) if p.kind == "static" else p) for p in s.parts]) if s is not None and s.kind == "list" else None

    def stmt_Delete(self, node: ast.Delete, indent: str) -> str:
        return "".join(self.deleted(t, indent) for t in node.targets)

    def deleted(self, target: Any, indent: str) -> str:
        if isinstance(target, ast.Name):
            self.no_read_after(target)
            return ""
        s = self.like(target.value) if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name) else None
        known, k = self.static(target.slice) if isinstance(target, ast.Subscript) else (False, None)
        if s is not None and s.kind == "stacked" and known and k in (0, -1):
            return self.deleted_row(target, k, indent)
        if s is None or s.kind not in ("list", "dict") or not known:
            self.refuse(target, "parts of values cannot be deleted", "make a new tuple or dictionary")
        self.owned(target.value, target)
        name = self.local(target.value.id)
        if s.kind == "dict":
            if not is_key(k) or k not in s.names:
                self.refuse(target, f"KeyError: the dictionary has no {k!r}")
            left = [(n, p, i.text) for n, p, i in zip(s.names, s.parts, self.parts_of(name, s)) if n != k]
            shape, text = Shape("dict", [p for _, p, _ in left], tuple(n for n, _, _ in left)), self.record([(n, t) for n, _, t in left])
        else:
            kept = list(range(len(s.parts)))
            try:
                del kept[k]
            except (IndexError, TypeError) as e:
                self.refuse(target, f"{type(e).__name__}: {e}")
            shape, text = Shape("list", [s.parts[i] for i in kept]), "(" + "".join(f"{name}[{i}], " for i in kept).rstrip(" ") + ")"
        self.bind(target.value.id, Like(shape, own=True))
        return f"{indent}{self.mark(target)}{name} = {text}\n"

    def no_read_after(self, target: ast.Name) -> None:
        """A name that is deleted was bound, and is read no more, unless it is bound anew."""
        of = self.scope.node
        if not any(stored_name(n) or isinstance(n, ast.arg) for n in ast.walk(of) if target.id in (getattr(n, "id", ""), getattr(n, "arg", ""), getattr(n, "name", ""))):
            self.refuse(target, f"UnboundLocalError: {target.id} is not bound here")
        named = sorted((n for n in ast.walk(of) if isinstance(n, ast.Name) and n.id == target.id and position(n) > position(target)), key=position)
        first = next((n for n in named if not isinstance(n.ctx, ast.Del)), None)
        if first is not None and isinstance(first.ctx, ast.Load):
            self.refuse(first, f"{target.id} is not bound here: line {self.place(target).line} deletes it")

    def store_text(self, target: ast.Subscript, text: str, indent: str, shape: Shape | None = None) -> str:
        """x[i] = what a text gives, among several targets."""
        s = self.like(target.value)
        if self.grid_at(target) is None and (s is None or s.kind not in ("tuple", "list", "dict", "object", "stacked")):
            return self.store_elements(target, text, indent)
        t = self.fresh()
        self.scope.names.add(t)
        if shape is not None and is_structure(shape):
            self.scope.env[t] = Like(shape)
        return f"{indent}{t} = {text}\n" + self.assign(target, ast.copy_location(ast.Name(t, ast.Load()), target), target, indent)

    # ---- objects ----

    def own_operator(self, node: Any, of: Any, name: str, args: list) -> str | None:
        """What an object's class says of an operator; None: it is another thing, or the class says nothing of it."""
        method = class_member(self.like(of), name) if name else None
        if not isinstance(method, types.FunctionType) or method.__code__.co_filename.startswith("<"):
            return None
        c = Call(ast.copy_location(ast.Call(node, [of, *args], []), node), method, True)
        return call_source(self, c, method, method)
