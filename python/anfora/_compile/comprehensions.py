# SPDX-License-Identifier: Apache-2.0
"""Comprehensions: over what has known parts they are written out, others become maps of the program."""
from __future__ import annotations

import ast
import functools
from typing import Any

from .known import MOST_PARTS, Part, Scope
from .names import bound_names
from .signature import enumerated, is_strict
from .._tree import is_key


def items_of_any(text: str) -> str:
    """The items of a tuple, or the rows of an array, as a tuple."""
    return f"map(fn (e) {{ e }}, {text})"


MANY = 64  # items of a comprehension: a loop makes more
# b, rows of items like e, with the element type that holds e, too
WIDENED = "b = Where(false, Reshape(e, b.shape[1:]), b); "


class Comprehensions(Part):
    """The part of the writer for comprehensions, and for what loops go through."""

    def comprehended(self, generators: list, elements: list, shapes: list | None = None) -> list | None:
        """The texts of a comprehension over known parts: one for each round, or a list if there are several
        elements. None if the parts are not known. `shapes` takes the structure of each."""
        gen = generators[0]
        items = None if gen.is_async else self.sequence(gen.iter)
        if items is None or len(items) > MOST_PARTS:
            return None
        out: list = []
        for item in items:
            outer, self.scope = self.scope, Scope(bound_names([gen.target]), self.scope)
            lines = self.assign_item(gen.target, item, "").replace("\n", "; ")
            tests = [self.decided(t) for t in gen.ifs]
            if not all(known for known, _ in tests):
                self.refuse(gen.ifs[[k for k, _ in tests].index(False)],
                            "how long a tuple is must be known when the function is compiled", "use where")
            if all(holds for _, holds in tests):
                if shapes is not None and len(generators) == 1:
                    shapes.append(self.part_shape(elements[-1]))
                inner = self.comprehended(generators[1:], elements, shapes) if len(generators) > 1 else [self.element(elements)]
                if inner is None:
                    self.scope = outer
                    return None
                out += [self.within(lines, t) for t in inner]
            self.scope = outer
        return out

    def element(self, elements: list) -> Any:
        """The text of one round; of a key its value."""
        texts = [self.expr(e) for e in elements[-1:]]
        if len(elements) == 1:
            return texts[0]
        known, key = self.static(elements[0])
        if not known or not is_key(key):
            self.refuse(elements[0], "keys of dictionaries must be texts or numbers that are known")
        return key, texts[0]

    @staticmethod
    def within(lines: str, text: Any) -> Any:
        if not lines:
            return text
        if isinstance(text, tuple):
            return text[0], f"(fn () {{ {lines}{text[1]} }})()"
        return f"(fn () {{ {lines}{text} }})()"

    def expr_ListComp(self, node: Any) -> str:
        texts = self.comprehended(node.generators, [node.elt])
        if texts is not None:
            return "(" + ", ".join(texts) + (",)" if len(texts) == 1 else ")")
        if any(gen.ifs or gen.is_async for gen in node.generators):
            self.refuse(node, "a comprehension with if needs parts that are known when the function is compiled",
                        "write a loop that fills an array, or use where")
        return self.mapped(node, node.generators)

    def mapped(self, node: Any, generators: list) -> str:
        """A comprehension as maps of maps, whose tuples become one."""
        gen = generators[0]
        before, over = self.mapped_over(gen.iter)
        rows = self.rows_bound(gen.target, gen.iter)
        outer, self.scope = self.scope, Scope(bound_names([gen.target]), self.scope)
        params, first = self.mapped_target(gen.target, len(over))
        self.scope.env |= rows
        inner = self.mapped(node, generators[1:]) if len(generators) > 1 else self.expr(node.elt)
        text = f"map{self.mark(node)}(fn ({', '.join(params)}) {{ {first}{inner} }}, {', '.join(over)})"
        self.scope = outer
        if len(generators) > 1:
            join, t, i = self.fresh(), self.fresh(), self.fresh()
            text = (f"(fn () {{ def {join}({t}, {i}) {{ if {i} == len({t}) {{ () }} else {{ "
                    f"TupleConcat({t}[{i}], {join}({t}, {i} + 1)) }} }}; {join}({text}, 0) }})()")
        return f"(fn () {{ {before}{text} }})()" if before else text

    def mapped_over(self, node: Any) -> tuple[str, list[str]]:
        """What `map` goes through for an iterable, and the statements before it: each text is a tuple, or an array,
        whose rows are the items."""
        called = self.static(node.func)[1] if isinstance(node, ast.Call) and self.static(node.func)[0] else None
        if called is zip and node.args:
            return self.mapped_zip(node)
        if called is enumerate and (counted := enumerated(node)) is not None:
            before, over = self.mapped_as_one(counted[0])
            start, t = self.expr(counted[1]) if counted[1] is not None else "0", self.fresh()
            return f"{before}{t} = {over}; ", [f"Unstack({start} + Arange(stop=len({t})))", t]
        counted = self.ranged(node, called)
        return "", [self.iterated(node) if counted is None else f"Unstack({counted})"]

    def ranged(self, node: Any, called: Any) -> str | None:
        """What range() counts, as an array."""
        if called is not range or not 1 <= len(node.args) <= 3 or node.keywords:
            return None
        ends = [self.whole(a) for a in node.args]
        start, stop, step = ("0", *ends, "1") if len(ends) == 1 else (*ends, "1")[:3]
        return f"Arange{self.mark(node)}(start={start}, stop={stop}, step={step})"

    def rows_of_many(self, node: Any, few: str) -> str:
        """The items of a comprehension as rows of one array, which a loop fills if they are many; `few` is the text otherwise."""
        gen = node.generators[0]
        called = self.static(gen.iter.func)[1] if isinstance(gen.iter, ast.Call) and self.static(gen.iter.func)[0] else None
        if len(node.generators) != 1 or gen.ifs or gen.is_async or not isinstance(gen.target, ast.Name) or \
                not (called is range or isinstance(gen.iter, ast.Name)):
            return few
        over, name, f, k, rows = self.ranged(gen.iter, called) or self.iterated(gen.iter), *(self.fresh() for _ in range(4))
        bound = self.rows_bound(gen.target, gen.iter)
        outer, self.scope = self.scope, Scope(bound_names([gen.target]), self.scope)
        self.scope.env |= bound
        item = f"fn ({self.local(gen.target.id)}) {{ {self.expr(node.elt)} }}"
        self.scope = outer
        put = f"(fn (b, e) {{ {WIDENED}IndexWrite(b, {k}, CastLike(e, b), axis=0) }})({rows}, {f}({name}[{k}]))"
        many = (f"{f} = {item}; {rows} = (fn (e) {{ BroadcastTo(e, TupleConcat((len({name}),), e.shape)) }})({f}({name}[0])); "
                f"for {k} in 1..len({name}) {{ {rows} = {put} }}; {rows}")
        either = f"fn ({name}) {{ if len({name}) <= {MANY} {{ {few} }} else {{ {many} }} }}"
        if called is not range:
            either = f"multitype(fn ({name}: tuple) {{ {few} }}, {either})"
        return f"({either}){self.mark(node)}({over})"

    def mapped_zip(self, node: ast.Call) -> tuple[str, list[str]]:
        """Of zip: parts as long as the shortest."""
        strict = is_strict(self, node)
        parts = [self.mapped_as_one(a) for a in node.args]
        before = "".join(b for b, _ in parts)
        if strict or len(parts) == 1:
            return before, [over for _, over in parts]
        names = [self.fresh() for _ in parts]
        before += "".join(f"{t} = {over}; " for t, (_, over) in zip(names, parts))
        n = functools.reduce(lambda a, b: f"Minimum({a}, {b})", [f"len({t})" for t in names])
        return before, [f"{t}{self.mark(node)}[:{n}]" for t in names]

    def mapped_as_one(self, node: Any) -> tuple[str, str]:
        """The same as one tuple or array."""
        before, over = self.mapped_over(node)
        if len(over) == 1:
            return before, over[0]
        names = ", ".join(self.fresh() for _ in over)
        return before, f"map(fn ({names}) {{ ({names}) }}, {', '.join(over)})"

    def mapped_target(self, target: Any, n: int) -> tuple[list[str], str]:
        """The parameters of the function that `map` calls with n items, and what binds the target to them."""
        names = [e for e in target.elts] if isinstance(target, (ast.Tuple, ast.List)) else [target]
        if n == 1 and isinstance(target, ast.Name):
            return [self.local(target.id)], ""
        params = [self.fresh() for _ in range(n)]
        if n == len(names) and not any(isinstance(e, ast.Starred) for e in names) and (n > 1 or target is names[0]):
            return params, "".join(self.bind_text(e, t, "") for e, t in zip(names, params)).replace("\n", "; ")
        whole = params[0] if n == 1 else f"({', '.join(params)})"
        return params, self.bind_text(target, whole, "").replace("\n", "; ")

    expr_GeneratorExp = expr_ListComp

    def expr_DictComp(self, node: ast.DictComp) -> str:
        pairs = self.comprehended(node.generators, [node.key, node.value])
        if pairs is None:
            return self.refuse(node, "it is not known what keys the dictionary has", "write the dictionary out, or use hyper_map")
        return self.record(list(dict(pairs).items()))

    def iterated(self, node: Any) -> str:
        if isinstance(node, ast.Call) and self.static(node.func) == (True, zip):
            before, over = self.mapped_zip(node)
            names = [self.fresh() for _ in over]
            text = f"map(fn ({', '.join(names)}) {{ ({', '.join(names)}) }}, {', '.join(over)})"
            return f"(fn () {{ {before}{text} }})()" if before else text
        if isinstance(node, ast.Call) and self.static(node.func) == (True, reversed):
            return f"({self.expr(node.args[0])})[::-1]"
        return self.expr(node)
