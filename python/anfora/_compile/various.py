# SPDX-License-Identifier: Apache-2.0
"""Functions of *args and **kw that are values. The number of arguments decides among functions of known numbers of them.

    f = lambda *a: a[0] + len(a)      in the program: f = multitype(fn (p) { ... of (p,) }, fn (p, q) { ... of (p, q) }, ...)"""
from __future__ import annotations

import ast
from typing import Any, Callable

from .._errors import CompileError, Finding
from .known import ANY, Like, Part
from .static import Call, bind_nested
from .._tree import Shape

MOST_ARGUMENTS = 6  # of such a function where it is not known with how many it is called


def takes_any(args: ast.arguments) -> bool:
    return bool(args.vararg or args.kwarg)


def by_number(written: Callable[[int], str]) -> str:
    """The function for each number of arguments that it takes; what refuses all of them is refused."""
    ways: list[str] = []
    error: CompileError | None = None
    for n in range(MOST_ARGUMENTS + 1):
        try:
            ways.append(written(n))
        except CompileError as e:
            error = e
        except TypeError:  # Python would not call it with so many
            pass
    if not ways:
        raise error or CompileError([Finding("", f"a function takes at most {MOST_ARGUMENTS} arguments where it is not known with how many it is called")])
    return ways[0] if len(ways) == 1 else f"multitype({', '.join(ways)})"


class Various(Part):
    """The part of the writer for functions that take any number of arguments."""

    scope: Any

    def given_texts(self, args: ast.arguments, defaults: dict[str, str], given: list[str]) -> str:
        """The values in place of the parameters, in their order, if so many arguments are given."""
        named = [p.arg for p in (*args.posonlyargs, *args.args)]
        texts = defaults | dict(zip(named, given))
        if args.vararg:
            texts[args.vararg.arg] = "(" + "".join(g + ", " for g in given[len(named):]).rstrip(" ") + ")"
        elif len(given) > len(named):
            raise TypeError(f"it takes {len(named)} arguments, not {len(given)}")
        if args.kwarg:
            texts[args.kwarg.arg] = "{}"
        for p in self.parameters_of(args):
            if p.arg not in texts:
                raise TypeError(f"it lacks the argument {p.arg}")
        return ", ".join(texts[p.arg] for p in self.parameters_of(args))

    def bind_rest(self, args: ast.arguments, shapes: list, more: dict[str, Shape] | None = None) -> None:
        """What *args and **kw are, if arguments like these are given."""
        if args.vararg:
            rest = shapes[len(args.posonlyargs) + len(args.args):]
            self.scope.env[args.vararg.arg] = Like(Shape("tuple", [ANY if s is None else s for s in rest]))
        if args.kwarg:
            self.scope.env[args.kwarg.arg] = Like(Shape("dict", list((more or {}).values()), tuple(more or {})))

    def defaults_of(self, args: ast.arguments) -> dict[str, str]:
        named = [*args.posonlyargs, *args.args]
        pairs = [*zip(named[len(named) - len(args.defaults):], args.defaults), *((a, d) for a, d in zip(args.kwonlyargs, args.kw_defaults) if d)]
        return {a.arg: self.expr(d) for a, d in pairs}

    def called_lambda(self, node: ast.Lambda, c: Call) -> str:
        """(lambda *a, **k: ...)(x, y, by=z)"""
        args, scope = node.args, self.scope
        values = bind_nested(self, c, args, self.defaults_of(args), "lambda")
        shapes = list(map(self.known_tree, c.args))
        more = {k: self.known_tree(v) or ANY for k, v in c.kw.items() if k not in {p.arg for p in self.parameters_of(args)}}
        try:
            params, _ = self.enter(args, set(), node)
            self.bind_like(args, shapes)
            self.bind_rest(args, shapes, more)
            return f"(fn ({params}) {{ {self.expr(node.body)} }}){self.mark(c.node)}({values})"
        finally:
            self.scope = scope

    def any_number_lambda(self, node: ast.Lambda) -> str:
        args, scope, defaults = node.args, self.scope, self.defaults_of(node.args)

        def written(shapes: list) -> str:
            names = [self.fresh() for _ in shapes]
            values = self.given_texts(args, defaults, names)
            try:
                params, _ = self.enter(args, set(), node)
                self.bind_like(args, shapes)
                self.bind_rest(args, shapes)
                return f"fn ({', '.join(names)}) {{ (fn ({params}) {{ {self.expr(node.body)} }})({values}) }}"
            finally:
                self.scope = scope
        known = self.argued.get(id(node))
        return written(known) if known is not None else by_number(lambda n: written([ANY] * n))

    def any_number_named(self, node: ast.Name, owner: Any) -> str:
        """A function within, as a value."""
        args, name, defaults = owner.defs[node.id], node.id, owner.defaults.get(node.id, {})

        def written(n: int) -> str:
            names = [self.fresh() for _ in range(n)]
            values = self.given_texts(args, defaults, names)
            if name in owner.refused and self.scope is not owner:
                raise owner.refused[name]
            f = self.written_as(name, [ANY] * n) if name in owner.refused else self.local(name)
            return f"fn ({', '.join(names)}) {{ {f}({values}) }}"
        return by_number(written)


