# SPDX-License-Identifier: Apache-2.0
"""Functions that loops and choices of the library call, such as the body of scan: what is known of their arguments, and what they
give. One that cannot be written when nothing is known of its arguments is written where it is called."""
from __future__ import annotations

import ast
import dataclasses
import types
from typing import Any

from .._errors import CompileError
from .known import ANY, Like, Part, is_structure, levels, part_entry, skeleton
from .names import local_names
from .various import takes_any
from .foreign import counterpart
from .static import Call, _like_constant, argument_nodes, is_foreign, known_of_arguments
from .._tree import Shape, field_names

MAPS_OF = ("vmap", "checkpoint")  # transforms whose results are those of the function
JACOBIANS = ("jacfwd", "jacrev")   # and these, by an argument that is no tree
APPLIED = ("jvp", "vjp", "linearize")


class Bodies(Part):
    """The part of the writer for functions that functions of the library call."""

    scope: Any

    # ---- what is known ----

    def known_tree(self, node: Any) -> Shape | None:
        """The structure of what an expression gives; None if nothing is known of it."""
        if not isinstance(node, (ast.Tuple, ast.List, ast.Dict)):
            known, x = self.static(node)
            if known:
                s = _like_constant(x)
                return Shape("none") if x is None else ANY if s is None else skeleton(s)
        s = self.like(node)
        return None if s is None else skeleton(s)

    def known_returned(self, node: Any) -> Shape | None:
        """The same of what a function returns: of a list that is an array, that it is one."""
        s = self.like(node)
        return s if levels(s) and not (self.fn.__module__ or "").startswith("anfora.") else self.known_tree(node)

    def known_trees(self, node: ast.Call) -> list:
        """The same of the arguments of a call, in order; empty if * gives some."""
        return [] if any(isinstance(a, ast.Starred) for a in node.args) else list(map(self.known_tree, node.args))

    def called_with(self, name: str, nodes: dict[str, Any]) -> dict[str, list]:
        """Of a loop or choice, by its parameters that are functions: what their arguments are like."""
        if name == "scan":
            return {"f": [self.known_tree(nodes["init"]), self.known_tree(nodes["xs"])]}
        if name == "while_loop":
            return dict.fromkeys(("cond_fun", "body_fun"), [self.known_tree(nodes["init_val"])])
        if name == "fori_loop":
            return {"body_fun": [ANY, self.known_tree(nodes["init_val"])]}
        if name == "map":
            return {"f": [self.known_tree(nodes["xs"])]}
        if name == "associative_scan":
            return {"fn": [self.known_tree(nodes["elems"])] * 2}
        if name in ("cond", "switch"):
            given = list(map(self.known_tree, nodes["operands"].elts))
            if name == "cond" and getattr(self.static(nodes["operand"])[1], "__name__", "") != "absent":
                given = [self.known_tree(nodes["operand"])]
            return dict.fromkeys(("true_fun", "false_fun") if name == "cond" else ("branches",), given)
        return {}

    def bind_like(self, args: ast.arguments, shapes: list) -> None:
        """What is known of the parameters of the function whose scope this is."""
        for p, s in zip((*args.posonlyargs, *args.args), shapes):
            if s is not None:
                self.scope.env[p.arg] = part_entry(s) or Like(s)

    # ---- functions as arguments ----

    def body_text(self, node: Any, shapes: list) -> str | None:
        """A function that is called with arguments of which this is known; None: nothing is gained by it."""
        if isinstance(node, (ast.List, ast.Tuple)) and node.elts and any(isinstance(e, ast.Lambda) or self.is_refused(e) for e in node.elts):
            return "(" + "".join(f"{self.body_text(e, shapes) or self.expr(e)}, " for e in node.elts).rstrip(" ") + ")"
        if isinstance(node, ast.Lambda):
            self.argued[id(node)] = shapes
            return self.expr(node)
        if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords and (isinstance(node.args[0], ast.Lambda) or self.is_refused(node.args[0])):
            known, transform = self.static(node.func)
            if known and getattr(transform, "__name__", "") == "checkpoint" and hasattr(transform, "_emit_twice"):
                if isinstance(node.args[0], ast.Lambda):
                    self.argued[id(node.args[0])] = shapes
                    return self.expr(node)
                name = ast.copy_location(ast.Name(self.written_as(node.args[0].id, shapes), ast.Load()), node)
                return self.expr(ast.copy_location(ast.Call(node.func, [name], []), node))
        return self.written_as(node.id, shapes) if self.is_refused(node) else None

    def is_function(self, node: Any) -> bool:
        """Whether a name is that of a function within the one that is written."""
        owner = self.scope.owner(node.id) if isinstance(node, ast.Name) and self.scope else None
        return owner is not None and (node.id in owner.defs or node.id in owner.lambdas)

    def not_refused(self, name: str) -> None:
        owner = self.scope.owner(name) if self.scope else None
        if owner is not None and name in owner.refused:
            raise owner.refused[name]

    def is_refused(self, node: Any) -> bool:
        """Whether it is a function of the one that is written, and waits for what its arguments are like."""
        return isinstance(node, ast.Name) and bool(self.scope) and node.id in self.scope.refused and node.id in self.scope.names

    def written_for(self, node: ast.Name, args: list, kw: dict[str, Any]) -> str | None:
        """The name of a function that is written for a call, as it is for a text: `of("w")` reads d["w"]; None: it is written already."""
        own = bool(self.scope) and node.id in self.scope.names and node.id in self.scope.nodes
        if kw and own:
            named = self.scope.nodes[node.id].args
            args = [*args, *(kw.get(p.arg) for p in (*named.posonlyargs, *named.args)[len(args):])]
        texts = {i: x for i, a in enumerate(args) if a is not None and isinstance(x := self.static(a)[1], str)}
        if texts and own and not takes_any(self.scope.nodes[node.id].args):
            return self.written_as(node.id, [Shape("static", of=texts[i]) if i in texts else a and self.known_tree(a) for i, a in enumerate(args)])
        return self.written_as(node.id, list(map(self.known_tree, args))) if not kw and self.is_refused(node) else None

    def written_as(self, name: str, shapes: list) -> str:
        """The name of a function within, written anew before the current statement."""
        node, given = self.scope.nodes[name], f"{self.local(name)}_{self.fresh()}"
        if not takes_any(node.args) and not any(s is not None and s.kind != "any" for s in shapes):
            raise self.scope.refused[name]
        self.scope.names.add(given)
        self.before.append(self.function_text(node, given, shapes, self.indent))
        return given

    def function_text(self, node: ast.FunctionDef, name: str, shapes: list, indent: str) -> str:
        """The definition of a function within."""
        scope, flags, returning, like, filling = self.scope, self.flags, self.returning, self.returning_like, self.filling
        hints, likes, before = [], [], self.before
        try:
            params, _ = self.enter(node.args, local_names(node.body), node)
            self.bind_like(node.args, shapes)
            if shapes:
                self.bind_rest(node.args, shapes)
            self.flags, self.filling, self.before = [], {}, []
            self.returning, self.returning_like = hints, likes
            text = f"{indent}{self.mark(node)}def {name}({params}) {{\n{self.body(node.body, indent + '  ')}{indent}}}\n"
        finally:
            self.scope, self.flags, self.filling, self.before = scope, flags, filling, before
            self.returning, self.returning_like, self.ended = returning, like, False
        self.returned.setdefault(node.name, []).extend(hints)
        self.returned_like.setdefault(node.name, []).extend(likes)
        return text

    # ---- what they give ----

    def like_replaced(self, node: ast.Call, f: Any) -> Shape | None:
        """Of x._replace(a=..) and dataclasses.replace(x, a=..)."""
        of = node.func.value if isinstance(node.func, ast.Attribute) and node.func.attr == "_replace" and not node.args else \
            node.args[0] if f is dataclasses.replace and len(node.args) == 1 else None
        s, given = self.like_object(of) if of is not None else None, {k.arg: k.value for k in node.keywords}
        if s is None or s.kind != "object" or not given.keys() <= set(s.names):
            return None
        return Shape("object", [self.part_shape(given[n]) if n in given else p for n, p in zip(s.names, s.parts)], s.names, s.of)

    def like_object(self, node: Any) -> Shape | None:
        """The fields of an object, a constant too."""
        known, x = self.static(node)
        names = field_names(type(x)) if known else None
        return self.like(node) if names is None else Shape("object", [Shape("static", of=getattr(x, n)) for n in names], names, type(x))

    def like_of_body(self, node: ast.Call, f: Any) -> Shape | None:
        """Of a call of a loop or choice of the library, of vmap(f)(x) or of a function within: what the function gives."""
        if isinstance(node.func, ast.Call) and node.func.args and not node.func.keywords:
            known, transform = self.static(node.func.func)
            shapes = list(map(self.known_tree, node.args)) if known and hasattr(transform, "_emit_twice") else []
            plain = all(s is None or s.kind == "any" for s in shapes)
            if shapes and (transform.__name__ in MAPS_OF or transform.__name__ in JACOBIANS and plain):
                return self.given_by(node.func.args[0], shapes)
        if (aux := self.like_with_aux(node, f)) is not None:
            return aux
        if f is not None and getattr(f, "__name__", "") in APPLIED and hasattr(f, "_known") and len(node.args) > 1 and not node.keywords:
            primals = node.args[1:] if f.__name__ != "jvp" else getattr(node.args[1], "elts", [])
            given = self.given_by(node.args[0], list(map(self.known_tree, primals)))
            return None if given is None else Shape("tuple", [given, given if f.__name__ == "jvp" else ANY])
        if isinstance(node.func, ast.Name) and f is None:
            return self.given_by(node.func, self.known_trees(node))
        from .._library.composed import CONTROL
        name = getattr(f, "__name__", "")
        if CONTROL.get(name) is not f or f is None or any(isinstance(a, ast.Starred) for a in node.args) or None in [k.arg for k in node.keywords]:
            return None
        nodes = argument_nodes(self, Call(node, f, True), f.__wrapped__)
        called = self.called_with(name, nodes)
        gives = self.given_by_each(nodes, called)
        if name in ("while_loop", "fori_loop", "associative_scan"):
            return list(called.values())[-1][-1] or gives[-1]
        if name == "scan":
            both = gives[0].parts if gives[0] is not None and gives[0].kind == "tuple" and len(gives[0].parts) == 2 else [None, None]
            return Shape("tuple", [called["f"][0] or both[0] or ANY, both[1] or ANY])
        return alike(gives)

    def given_by_each(self, nodes: dict[str, Any], called: dict[str, list]) -> list:
        """What the functions give that a loop or choice is given, in order."""
        gives: list = []
        for parameter, shapes in called.items():
            of = nodes[parameter]
            known, x = self.static(of)
            if known and isinstance(x, (list, tuple)):
                gives += [self.like_of_unit(f, shapes) for f in x]
                continue
            gives += [self.given_by(e, shapes) for e in (of.elts if isinstance(of, (ast.List, ast.Tuple)) else [of])]
        return gives

    def same_structures(self, node: Any, name: str, nodes: dict[str, Any], called: dict[str, list]) -> None:
        """Refuses a loop whose body gives a state of another structure than it takes, and a choice whose ways give different ones, as
        JAX does: a list is no tuple, and the keys of dictionaries must be the same."""
        if name == "cond" and isinstance(self.static(nodes["pred"])[1], str):
            self.refuse(node, "TypeError: lax.cond chooses by a truth value or a number, and this is a text")
        if name in ("cond", "switch"):
            gives = self.given_by_each(nodes, called)
            for other in gives[1:]:
                if (why := unlike(gives[0], other)):
                    self.refuse(node, f"TypeError: the functions that {name} chooses from give different structures: {why[0]} and {why[1]}",
                                "both must give the same lists, tuples and keys")
        if name in ("scan", "fori_loop", "while_loop"):
            last = list(called)[-1]
            state, gives = called[last][0 if name == "scan" else -1], self.given_by_each(nodes, {last: called[last]})[0]
            if name == "scan" and gives is not None:
                if gives.kind in ("tuple", "list") and len(gives.parts) != 2:
                    self.refuse(node, f"TypeError: the function that scan calls gives two things, and this one gives {len(gives.parts)}",
                                "return carry, y (y may be None)")
                gives = gives.parts[0] if gives.kind in ("tuple", "list") else None
            if (why := unlike(state, gives)):
                self.refuse(node, f"TypeError: the body of {name} is given {why[0]} in its state, and gives {why[1]}",
                            "the state keeps its structure: the same lists, tuples and keys in each round")

    def like_with_aux(self, node: ast.Call, f: Any) -> Shape | None:
        """Of grad(f, has_aux=True)(x), value_and_grad and vjp(f, x, has_aux=True): the gradient is like x, the aux result
        as the function gives it."""
        word, of, wrt, args, holds = getattr(f, "__name__", ""), None, 0, node.args, False
        if f is not None and word == "vjp" and hasattr(f, "_known") and [k.arg for k in node.keywords] == ["has_aux"] and args:
            of, args = args[0], args[1:]
            holds = self.static(node.keywords[0].value) == (True, True)
        elif isinstance(node.func, ast.Call) and node.func.args and not node.keywords:
            known, transform = self.static(node.func.func)
            word, of = (transform.__name__, node.func.args[0]) if known and hasattr(transform, "_emit_twice") else ("", None)
            options = {"wrt" if k.arg == "argnums" else k.arg: self.static(k.value) for k in node.func.keywords}
            wrt = options.get("wrt", (True, 0))[1] if len(node.func.args) == 1 else None
            holds = options.get("has_aux") == (True, True)
        elif hasattr(f, "_word"):
            word, of, wrt, holds = f._word, f._functions[0], f._given.get("wrt", 0), bool(f._given.get("has_aux"))
        if word not in ("grad", "value_and_grad", "vjp") or of is None or not holds or any(isinstance(a, ast.Starred) for a in args):
            return None
        shapes = list(map(self.known_tree, args))
        both = self.given_by(of, shapes) if isinstance(of, ast.AST) else self.like_of_unit(of, shapes)
        value, aux = both.parts if both is not None and both.kind == "tuple" and len(both.parts) == 2 else (ANY, ANY)
        if word == "vjp":
            return Shape("tuple", [value, ANY, aux])
        slope = shapes[wrt] or ANY if type(wrt) is int and 0 <= wrt < len(shapes) else \
            Shape("tuple", [shapes[i] or ANY for i in wrt]) if isinstance(wrt, tuple) and all(0 <= i < len(shapes) for i in wrt) else ANY
        return Shape("tuple", [slope, aux] if word == "grad" else [Shape("tuple", [ANY, aux]), slope])

    def given_by(self, f: Any, shapes: list) -> Shape | None:
        """What a lambda or a function within gives for arguments of which this is known."""
        if isinstance(f, ast.Lambda):
            from .known import Scope
            outer, self.scope = self.scope, Scope({a.arg for a in (*f.args.posonlyargs, *f.args.args, *f.args.kwonlyargs)}, self.scope)
            try:
                self.bind_like(f.args, shapes)
                return self.known_tree(f.body)
            except CompileError:  # the body is refused at its own line
                return None
            finally:
                self.scope = outer
        known, of = self.static(f)
        if known:
            return self.like_of_unit(of, shapes)
        if isinstance(f, ast.Call) and len(f.args) == 1 and not f.keywords and getattr(self.static(f.func)[1], "__name__", "") == "checkpoint":
            return self.given_by(f.args[0], shapes)
        owner = self.scope.owner(f.id) if isinstance(f, ast.Name) and self.scope else None
        if owner is None or f.id not in owner.nodes:
            return None
        return self.given_by_within(f.id, owner, shapes) if any(map(is_structure, shapes)) else alike(self.returned_like.get(f.id, []))

    def given_by_within(self, name: str, owner: Any, shapes: list) -> Shape | None:
        """What a function within gives for arguments of which some have parts: it is written for these, and the text left."""
        node = owner.nodes[name]
        key = tried_key(node, shapes)
        if key not in self.tried:
            self.tried[key] = None  # of one that calls itself
            hints, likes = list(self.returned.get(name, [])), list(self.returned_like.get(name, []))
            outer, self.scope = self.scope, owner
            self.returned[name], self.returned_like[name] = [], []
            try:
                self.function_text(node, self.fresh(), shapes, "")
                self.tried[key], self.hints_tried[key] = alike(self.returned_like[name]), self.returned[name]
            except CompileError:  # the body is refused at its own line
                pass
            finally:
                self.scope, self.returned[name], self.returned_like[name] = outer, hints, likes
        return self.tried[key]

    def like_of_call(self, node: ast.Call, f: Any) -> Shape | None:
        """What a function from outside gives for the arguments of a call: the copy for these is written, if it is not by now."""
        inner = getattr(f, "__wrapped__", f)
        of_users = isinstance(inner, types.FunctionType) and not (inner.__module__ or "").startswith("anfora.")
        if not of_users or hasattr(f, "_emit_call") or counterpart(f) is not None or is_foreign(f):
            return self.like_of_unit(f, [])
        from .source import emit_function
        try:
            unit = emit_function(self.b, inner, *known_of_arguments(self, argument_nodes(self, Call(node, f, True), inner)))
        except CompileError:  # it is refused where it is written
            return None
        return alike(self.b.units[int(unit[1:-1])].likes)

    def like_of_unit(self, f: Any, shapes: list) -> Shape | None:
        """What a function from outside gives, which is written by now."""
        f = getattr(f, "__wrapped__", f)
        if not isinstance(f, types.FunctionType):
            return None
        names = list(f.__code__.co_varnames[:f.__code__.co_argcount])
        if any(map(is_structure, shapes)) and len(shapes) <= len(names) and not (f.__module__ or "").startswith("anfora."):
            from .source import emit_function
            try:
                unit = emit_function(self.b, f, None, {n: s for n, s in zip(names, shapes) if s is not None})
                return alike(self.b.units[int(unit[1:-1])].likes)
            except CompileError:
                return None
        return alike([s for u in self.b.units_of(f) for s in u.likes])


def tried_key(node: ast.FunctionDef, shapes: list) -> tuple:
    """What says which function within, and what is known of its arguments."""
    return id(node), tuple(s and s.key() for s in shapes)


def unlike(one: Shape | None, two: Shape | None) -> tuple[str, str] | None:
    """What two structures are where they differ, in words; None if they do not, as far as is known."""
    if one is None or two is None:
        return None
    kinds = ["none" if s.kind == "static" and s.of is None else "any" if s.kind == "static" else s.kind for s in (one, two)]
    if kinds == ["none", "none"] or not all(k in ("none", "any", "tuple", "list", "dict", "object") for k in kinds):
        return None
    if "any" in kinds:
        return (said(one), said(two)) if "none" in kinds else None
    names = [set(s.names) if k == "dict" else s.names for s, k in zip((one, two), kinds)]
    if kinds[0] != kinds[1] or len(one.parts) != len(two.parts) or names[0] != names[1] or kinds[0] == "object" and one.of is not two.of:
        return said(one), said(two)
    others = dict(zip(two.names, two.parts)) if kinds[0] == "dict" else dict(enumerate(two.parts))
    found = (unlike(p, others[k]) for k, p in (zip(one.names, one.parts) if kinds[0] == "dict" else enumerate(one.parts)))
    return next((f for f in found if f), None)


def said(s: Shape) -> str:
    """A structure in words."""
    if s.kind == "none" or s.kind == "static" and s.of is None:
        return "None"
    if s.kind in ("tuple", "list"):
        return f"a {s.kind} of {len(s.parts)}"
    return f"a dictionary of {', '.join(map(repr, s.names))}" if s.kind == "dict" else s.of.__name__ if s.kind == "object" else "a number or an array"


def alike(shapes: list) -> Shape | None:
    """What several ways give, if all are known and have one structure."""
    if not shapes or any(s is None for s in shapes) or len({s.key() for s in shapes}) > 1:
        return None
    return shapes[0] if shapes[0].kind != "any" else None
