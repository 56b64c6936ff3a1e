# SPDX-License-Identifier: Apache-2.0
"""Random Python functions, compiled and as they stand: control flow, lists, comprehensions, closures, scalars and arrays.
A value must be Python's; what cannot be compiled must be refused. Alone: random_programs.py FOLDER SEED COUNT runs programs
SEED, SEED + 1, ... with the package in FOLDER and says what differs and what was refused."""
import collections
import contextlib
import copy
import io
import os
import random
import re
import sys
import tempfile

import numpy as np

KINDS = ("int", "float", "bool", "ints", "floats", "rows", "array", "matrix", "small")
SMALL = ("int8", "uint8", "int16", "int32", "uint32", "int64")  # of arrays of the kind "small", one in each program
ARGUMENTS = {
    "int": lambda r: r.randint(-4, 6), "float": lambda r: r.choice([0.0, 1.0, -2.5, 0.5, 3.25, r.uniform(-3, 3)]),
    "bool": lambda r: r.random() < 0.5, "floats": lambda r: [round(r.uniform(-3, 3), 2) for _ in range(3)],
    "ints": lambda r: [r.randint(-4, 6) for _ in range(3)], "array": lambda r: np.array([round(r.uniform(-3, 3), 2) for _ in range(3)]),
    "rows": lambda r: [[round(r.uniform(-3, 3), 2) for _ in range(3)] for _ in range(2)],
    "matrix": lambda r: np.array([[round(r.uniform(-3, 3), 2) for _ in range(3)] for _ in range(2)]),
}


class Program:
    """Writes one function."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.lines, self.names, self.count, self.depth = [], {}, 0, 0
        self.functions, self.loops, self.own, self.extra = [], 0, set(), []
        self.form = self.r.choice(["({}, )", "[{}]", "({}, 1)"])
        self.small = self.r.choice(SMALL)
        params = [(self.fresh(), self.r.choice(KINDS)) for _ in range(self.r.randint(1, 4))]
        self.arguments = [self.small_array() if k == "small" else ARGUMENTS[k](self.r) for _, k in params]
        self.names.update(params)
        self.lines.append(f"def f({', '.join(n for n, _ in params)}):")
        self.lines += [f"    {n} = {n}.copy()" for n, k in params if k in ("array", "small")]  # items of it may change
        self.block(1, self.r.randint(2, 7))
        given = self.r.sample(sorted(self.names), min(len(self.names), self.r.randint(1, 4))) + self.extra
        self.line(1, "return " + self.form.format(", ".join(given)))
        self.text = "\n".join(self.lines) + "\n"

    def fresh(self, wish="v"):
        self.count += 1
        return f"{wish}{self.count}"

    def line(self, indent, text):
        self.lines.append("    " * indent + text)

    def least(self):
        return 0 if self.small[0] == "u" else -100

    def small_array(self):
        return np.array([self.r.randint(self.least(), 100) for _ in range(3)], self.small)

    def held(self):
        """A number that the small integers hold."""
        return str(self.r.choice([1, 2, 3, 7, 100, 127, 0, self.least()]))

    def names_of(self, *kinds):
        return [n for n, k in self.names.items() if k in kinds]

    # ---- expressions ----

    def expr(self, kind, depth=2):
        names = self.names_of(kind)
        if names and self.r.random() < (0.35 if depth else 0.85):
            return self.r.choice(names)
        text = getattr(self, "make_" + kind)(depth)
        return text if re.fullmatch(r"[\w.]+|\[[^][]*\]", text) else f"({text})"

    def pick(self, *ways):
        return self.r.choice(ways)()

    def number(self, depth):
        return self.expr(self.r.choice(["int", "float"]), depth)

    def index(self):
        return self.r.choice(["0", "1", "2", "-1", "-2"])

    def make_int(self, d):
        if not d:
            return str(self.r.randint(-3, 9))
        e = lambda: self.expr("int", d - 1)  # noqa: E731
        return self.pick(
            lambda: f"(({e()} {self.r.choice('+-*')} {e()}) % {self.r.choice([7, 11, -5])})", lambda: f"({e()} // {self.r.choice([2, 3, -2])})",
            lambda: f"abs({e()})", lambda: f"({e()} if {self.expr('bool', d - 1)} else {e()})", lambda: f"min({e()}, {e()})",
            lambda: f"max({e()}, {e()}, {e()})", lambda: f"len({self.expr(self.r.choice(['ints', 'floats', 'array', 'matrix']), d - 1)})",
            lambda: f"int({self.expr('float', d - 1)} % 50)", lambda: f"(sum({self.expr('ints', d - 1)}) % 23)", lambda: f"(-{e()})",
            lambda: f"({e()} & 7)", lambda: f"({e()} ^ 3) % 9", lambda: f"(~{e()})", lambda: f"(({e()}) % 5 << 2)",
            lambda: f"({e()} {self.r.choice(['and', 'or'])} {e()})", lambda: f"round({self.expr('float', d - 1)})",
            lambda: f"int({self.expr('bool', d - 1)})", lambda: f"int({self.expr('small', d - 1)}[{self.index()}])",
            lambda: f"(sum([{self.expr('bool', d - 1)}, {e()} < 3]) % 7)", lambda: f"(int(np.sum({self.expr('small', d - 1)})) % 41)",
            lambda: f"{self.expr('ints', d - 1)}[{self.index()}]",
            lambda: f"[{e()}, {e()}, 1].count({e()})", lambda: f"[{e()}, {e()}, 1].index(1)", lambda: f"len({self.expr('rows', d - 1)})",
            lambda: f"sum(x * {e()} % 5 for x in {self.expr('ints', d - 1)})", lambda: self.called("int", d), lambda: str(self.r.randint(-3, 9)))

    def make_float(self, d):
        if not d:
            return repr(round(self.r.uniform(-3, 3), 2))
        e = lambda: self.expr("float", d - 1)  # noqa: E731
        n = lambda: self.number(d - 1)  # noqa: E731
        return self.pick(
            lambda: f"({e()} {self.r.choice('+-')} {n()}) % 13.0", lambda: f"({n()} * {e()}) % 17.0", lambda: f"({e()} / {self.r.choice([2, 4.0, -8])})",
            lambda: f"({e()} // 1.5)", lambda: f"abs({e()})", lambda: f"({e()} if {self.expr('bool', d - 1)} else {e()})",
            lambda: f"min({e()}, {e()})", lambda: f"max({e()}, {e()})", lambda: f"float({self.expr('int', d - 1)})",
            lambda: f"sum({self.expr('floats', d - 1)}) % 19.0", lambda: f"(-{e()})", lambda: f"({e()} and {e()})", lambda: f"({e()} or {e()})",
            lambda: f"{self.expr('floats', d - 1)}[{self.index()}]", lambda: f"{self.expr('array', d - 1)}[{self.index()}]",
            lambda: f"np.sum({self.expr(self.r.choice(['array', 'matrix']), d - 1)}) % 29.0", lambda: f"{self.expr('array', d - 1)}.max()",
            lambda: f"{self.expr('matrix', d - 1)}[{self.r.choice(['0', '1', '-1'])}, {self.index()}]",
            lambda: f"sum(x * {e()} % 5.0 for x in {self.expr(self.r.choice(['floats', 'array']), d - 1)})",
            lambda: f"max(x + {n()} for x in {self.expr(self.r.choice(['floats', 'array']), d - 1)})",
            lambda: f"sum(np.sum(r) for r in {self.expr('matrix', d - 1)}) % 31.0",
            lambda: self.called("float", d), lambda: f"round({e()}, 1)", lambda: f"({self.expr('int', d - 1)} / 4)", lambda: f"np.tanh({e()})",
            lambda: f"float(np.dot({self.expr('array', d - 1)}, {self.expr('array', d - 1)}) % 37.0)")

    def make_bool(self, d):
        if not d:
            return self.r.choice(["True", "False"])
        e = lambda: self.expr("bool", d - 1)  # noqa: E731
        n = lambda: self.number(d - 1)  # noqa: E731
        compare = lambda: self.r.choice(["<", "<=", ">", ">=", "==", "!="])  # noqa: E731
        return self.pick(
            lambda: f"({n()} {compare()} {n()})", lambda: f"({n()} {compare()} {n()} {compare()} {n()})", lambda: f"(not {e()})",
            lambda: f"({e()} and {e()})", lambda: f"({e()} or {e()})", lambda: f"bool({n()})", lambda: f"(not {n()})",
            lambda: f"any(x > {n()} for x in {self.expr(self.r.choice(['floats', 'ints', 'array']), d - 1)})",
            lambda: f"all(x > {n()} for x in {self.expr(self.r.choice(['floats', 'ints', 'array']), d - 1)})",
            lambda: f"({self.expr('int', d - 1)} in ({self.expr('int', d - 1)}, 2, 3))", lambda: f"({e()} if {e()} else {e()})", lambda: self.compared(d))

    def compared(self, d):
        """Of lists and tuples."""
        kind, sign = self.r.choice(["ints", "floats", "rows"]), self.r.choice(["==", "!=", "<", "<=", ">", ">="])
        one, two = self.expr(kind, d - 1), self.expr(kind, d - 1)
        return self.pick(
            lambda: f"({one} {sign} {two})", lambda: f"({one} in [{two}, {one}])", lambda: f"(({self.number(d - 1)}, {one}) {sign} ({self.number(d - 1)}, {two}))",
            lambda: f"({one} == tuple({two}))", lambda: f"({one}[:2] {sign} {two})")

    def called(self, kind, d):
        """A call of a function within, or of a lambda."""
        fits = [f for f in self.functions if f[2] == kind]
        if fits and self.r.random() < 0.7:
            name, params, _, named, defaults = self.r.choice(fits)
            given = [(p, self.expr(k, d - 1)) for p, k in zip(named, params)]
            given = given[:len(given) - (self.r.randrange(defaults + 1))]
            at = self.r.randrange(len(given) + 1) if self.r.random() < 0.4 else len(given)  # by name from there on, in any order
            late = self.r.sample(given[at:], len(given) - at)
            return f"{name}({', '.join([e for _, e in given[:at]] + [f'{p}={e}' for p, e in late])})"
        x = self.fresh("x")
        of = self.r.choice(["int", "float"]) if kind == "float" else "int"
        given = self.expr(of, d - 1)
        saved, self.names = self.names, dict(self.names)
        self.names[x] = of
        body = self.expr(kind, d - 1)
        self.names = saved
        return f"(lambda {x}: {body})({given})"

    def make_list(self, kind, d):
        if not d:
            return f"[{', '.join(self.expr(kind, 0) for _ in range(3))}]"
        other = "ints" if kind == "int" else self.r.choice(["floats", "ints", "array"])
        of = "int" if other == "ints" else "float"
        x, y = self.fresh("x"), self.fresh("y")
        over = self.expr(other, d - 1)
        saved, self.names = self.names, dict(self.names)
        self.names[x] = of
        body = self.expr(kind, d - 1)
        self.names[y] = "int"
        both = self.expr(kind, d - 1)
        self.names = saved
        e = lambda: self.expr(kind, d - 1)  # noqa: E731
        return self.pick(
            lambda: f"[{e()}, {e()}, {e()}]", lambda: f"[{body} for {x} in {over}]", lambda: f"[{both} for {y}, {x} in enumerate({over})]",
            lambda: f"[{both} for {x}, {y} in zip({over}, [3, 1, 2])]", lambda: f"[{body.replace(x, f'({x} * 1)')} for {x} in reversed({over})]",
            lambda: f"list(map(lambda {x}: {body}, {over}))", lambda: f"({self.expr(kind + 's', d - 1)} + [{e()}])[1:]",
            lambda: f"{self.expr(kind + 's', d - 1)}[::-1]", lambda: f"sorted({self.expr(kind + 's', d - 1)}, key=lambda {x}: {body if of == kind else x})",
            lambda: f"sorted({self.expr(kind + 's', d - 1)}, reverse={self.r.random() < 0.5})", lambda: f"[{y} for _, {y} in sorted(zip({over}, {self.expr(kind + 's', d - 1)}))]",
            lambda: f"{self.r.choice(['max', 'min'])}({self.expr(kind + 's', d - 1)}, {self.expr(kind + 's', d - 1)})",
            lambda: f"{self.expr('rows', d - 1)}[{self.r.choice(['0', '1', '-1'])}]" if kind == "float" else f"sorted(range(3), key=lambda {x}: {over}[{x}])",
            lambda: f"[{body} for {x} in range(3)]" if of == "int" else f"[{e()}] * 3")

    def make_ints(self, d):
        return self.make_list("int", d)

    def make_floats(self, d):
        return self.make_list("float", d)

    def make_rows(self, d):
        if not d:
            return "[[1.0, 2.0, 3.0], [0.5, -1.0, 2.0]]"
        row, r = lambda: self.expr("floats", d - 1), self.fresh("r")  # noqa: E731
        e = lambda: self.expr("rows", d - 1)  # noqa: E731
        return self.pick(
            lambda: f"[{row()}, {row()}]", lambda: f"[{r}[::-1] for {r} in {e()}]", lambda: f"[[x * 2 for x in {r}] for {r} in {e()}]", lambda: f"{e()}[::-1]", lambda: f"sorted({e()})",
            lambda: f"sorted({e()}, key=sum)", lambda: f"[[x for x in {r}] for {r} in {self.expr('matrix', d - 1)}]", lambda: f"({e()} + [{row()}])[1:]",
            lambda: f"[list({r}) for {r} in {e()}]", lambda: f"[{r} + [] for {r} in {e()}]")

    def make_array(self, d):
        if not d:
            return "np.array([1.0, -2.0, 0.5])"
        e = lambda: self.expr("array", d - 1)  # noqa: E731
        return self.pick(
            lambda: f"(({e()} {self.r.choice('+-*')} {self.expr(self.r.choice(['array', 'float', 'int']), d - 1)}) % 7.0)",
            lambda: f"np.where({e()} > {self.number(d - 1)}, {e()}, {e()})", lambda: f"np.tanh({e()})", lambda: f"{e()}[::-1]",
            lambda: f"np.array([{self.expr('float', d - 1)}, {self.expr('float', d - 1)}, {self.expr('int', d - 1)}])", lambda: f"(np.cumsum({e()}) % 5.0)",
            lambda: f"({e()} if {self.expr('bool', d - 1)} else {e()})", lambda: f"np.stack([x * 2 for x in {e()}])", lambda: f"np.clip({e()}, -1, 1.5)",
            lambda: f"{self.expr('matrix', d - 1)}[{self.r.choice(['0', '1', '-1'])}]", lambda: f"np.sort({e()})", lambda: f"np.maximum({e()}, {self.number(d - 1)})",
            lambda: f"np.sum({self.expr('matrix', d - 1)}, axis=0)", lambda: f"np.round({e()}, 1)", lambda: f"({self.expr('matrix', d - 1)}.T @ np.array([1.0, 2.0]))")

    def make_small(self, d):
        if not d:
            return f"np.array([1, 2, 100], np.{self.small})"
        e = lambda: self.expr("small", d - 1)  # noqa: E731
        k, sign = self.held, self.r.choice("+-*")
        return self.pick(
            lambda: f"({e()} {sign} {k()})", lambda: f"({k()} {sign} {e()})", lambda: f"({e()} {sign} {e()})", lambda: f"({e()} // {self.r.choice([2, 3, 7])})",
            lambda: f"({e()} % {self.r.choice([2, 5, 100])})", lambda: f"({e()} {self.r.choice('&|^')} {k()})", lambda: f"(-{e()})", lambda: f"(~{e()})",
            lambda: f"np.maximum({e()}, {k()})", lambda: f"np.minimum({e()}, {k()})", lambda: f"np.clip({e()}, 1, {self.r.choice([5, 100])})", lambda: f"{e()}[::-1]",
            lambda: f"np.where({e()} > {self.number(d - 1)}, {e()}, {e()})", lambda: f"np.sort({e()})", lambda: f"np.abs({e()})", lambda: f"np.full_like({e()}, {k()})",
            lambda: f"({e()} if {self.expr('bool', d - 1)} else {e()})", lambda: f"({e()} << {self.r.choice([1, 3])})", lambda: f"({e()} >> {self.r.choice([1, 3])})",
            lambda: f"({e()}.astype(np.int64) + {self.expr('int', d - 1)}).astype(np.{self.small})", lambda: f"np.concatenate([{e()}[1:], {e()}[:1]])",
            lambda: f"np.array([1, {k()}, {k()}], np.{self.small})")

    def make_matrix(self, d):
        if not d:
            return "np.array([[1.0, 2.0, 3.0], [0.5, -1.0, 2.0]])"
        return self.pick(
            lambda: f"(({self.expr('matrix', d - 1)} * {self.expr(self.r.choice(['matrix', 'array', 'float']), d - 1)}) % 5.0)",
            lambda: f"np.stack([{self.expr('array', d - 1)}, {self.expr('array', d - 1)}])", lambda: f"np.array([[x, x * 2, 1.0] for x in [{self.expr('float', d - 1)}, 2.0]])",
            lambda: f"np.stack([r[::-1] for r in {self.expr('matrix', d - 1)}])")

    # ---- statements ----

    def block(self, indent, n):
        self.depth += 1
        for _ in range(n):
            ways = [self.assigned] * 4 + [self.augmented, self.branch, self.branch, self.loop, self.loop, self.function, self.unpacked, self.filled, self.filled_rows]
            self.r.choice(ways if self.depth < 4 else ways[:5])(indent)
        self.depth -= 1

    def assigned(self, indent):
        kind = self.r.choice(KINDS)
        known = self.names_of(kind)
        name = self.r.choice(known) if known and self.r.random() < 0.5 else self.fresh()
        if self.loops and name not in self.names:
            name = self.r.choice(known) if known else name
        self.line(indent, f"{name} = {self.expr(kind)}")
        self.bind(name, kind)

    def bind(self, name, kind):
        self.names[name] = kind

    def augmented(self, indent):
        names = self.names_of("int", "float", "array", "small")
        if not names:
            return self.assigned(indent)
        name = self.r.choice(names)
        kind = self.names[name]
        if kind == "array" and self.r.random() < 0.3:
            return self.stored(indent, name)
        if kind == "small":
            return self.stored_small(indent, name)
        if kind == "array":
            return self.line(indent, f"{name} = ({name} {self.r.choice('+-*')} {self.expr(kind, 1)}) % 11.0")
        self.line(indent, f"{name} {self.r.choice(['+=', '-=', '*='])} {self.expr(kind, 1)}")
        return self.line(indent, f"{name} = {name} % {'11' if kind == 'int' else '11.0'}")

    def stored(self, indent, name):
        """Items of an array change, or all of it."""
        number, array = self.expr("float", 1), self.expr("array", 1)
        return self.line(indent, self.r.choice([
            f"{name}[{self.index()}] = {number} % 9.0", f"{name}[{self.index()}] {self.r.choice('+-')}= {number} % 9.0", f"{name}[1:] = {array}[:2]",
            f"{name}[:] = {array}", f"{name}[{name} > {self.number(1)}] = {number} % 9.0", f"{name} {self.r.choice('+-')}= {array} % 9.0",
            f"{name}[{name} < 1.0] = {name}[{name} < 1.0] / 2 - 1.0"]))

    def stored_small(self, indent, name):
        return self.line(indent, self.r.choice([
            f"{name}[{self.index()}] = {self.held()}", f"{name}[{self.index()}] {self.r.choice(['+', '-', '//', '&', '*'])}= {self.r.choice([1, 2, 3])}", f"{name}[1:] = {self.expr('small', 1)}[:2]",
            f"{name}[:] = {self.expr('small', 1)}", f"{name}[{name} > {self.number(1)}] = {self.held()}", f"{name} {self.r.choice(['+', '-', '*', '|'])}= {self.held()}",
            f"{name}[{self.index()}] = {name}[{self.index()}]", f"{name} += {self.expr('small', 1)}"]))

    def unpacked(self, indent):
        a, b, kind = self.fresh(), self.fresh(), self.r.choice(["int", "float"])
        self.line(indent, self.r.choice([f"{a}, {b} = {self.expr(kind)}, {self.expr(kind)}", f"{a}, *_, {b} = {self.expr(kind + 's')}"]))
        self.names |= {a: kind, b: kind}
        if self.r.random() < 0.5:
            self.line(indent, f"{a}, {b} = {b}, {a}")

    def within(self, indent, n, **names):
        """A block whose new names are not known behind it."""
        saved = dict(self.names)
        functions = list(self.functions)
        self.names.update(names)
        self.block(indent, n)
        self.names, self.functions = saved, functions

    def branch(self, indent):
        self.line(indent, f"if {self.expr(self.r.choice(['bool', 'bool', 'int', 'float']))}:")
        self.within(indent + 1, self.r.randint(1, 3))
        if self.depth == 1 and self.r.random() < 0.04:
            self.line(indent + 1, "return " + self.form.format(self.expr("float")))
            return None
        if self.r.random() < 0.4:
            self.line(indent, f"elif {self.expr('bool')}:")
            self.within(indent + 1, 1)
        if self.r.random() < 0.6:
            self.line(indent, "else:")
            self.within(indent + 1, self.r.randint(1, 2))

    def loop(self, indent):
        i = self.fresh("i")
        self.loops += 1
        kind = "int"
        if self.r.random() < 0.3:
            self.line(indent, f"{i} = 0")
            self.line(indent, f"while {i} < {self.r.choice(['3', '4', '2'])} and {self.expr('bool', 1)}:")
            self.line(indent + 1, f"{i} += 1")
            kind = None
        else:
            over, kind = self.r.choice([("range({})", "int"), ("range({})", "int"), ("{}", "float"), ("ints", "int"), ("floats", "float"), ("array", "float")])
            if over == "range({})":
                over = f"range({self.r.choice(['3', '4', 'abs(' + self.expr('int', 0) + ') % 4', '1, 6, 2', '3, 0, -1'])})"
            elif over == "{}":
                over = "(1.0, 2.5, -1.0)"
            else:
                over = self.expr(over, 1)
            self.line(indent, f"for {i} in {over}:")
        self.within(indent + 1, self.r.randint(1, 3), **({i: kind} if kind else {}))
        ends = self.r.random()
        if ends < 0.15:
            self.line(indent + 1, f"if {self.expr('bool', 1)}:")
            self.line(indent + 2, self.r.choice(["break", "continue"]))
        if ends < 0.08:
            self.line(indent, "else:")
            self.within(indent + 1, 1)
        self.loops -= 1

    def filled(self, indent):
        out, i, kind = self.fresh(), self.fresh("i"), self.r.choice(["int", "float"])
        over, of = self.r.choice([("range(3)", "int"), (self.expr("array", 1), "float"), (self.expr("floats", 1), "float")])
        self.line(indent, f"{out} = []")
        self.line(indent, f"for {i} in {over}:")
        self.loops += 1
        saved = dict(self.names)
        self.names[i] = of
        if self.r.random() < 0.5:
            self.augmented(indent + 1)
        self.line(indent + 1, f"{out}.append({self.expr(kind, 1)})")
        self.names = saved
        self.loops -= 1
        self.names[out] = kind + "s"

    def filled_rows(self, indent):
        out, row, i, j = self.fresh(), self.fresh(), self.fresh("i"), self.fresh("j")
        over, each = self.r.choice([("range(2)", "range(3)"), (self.expr("matrix", 1), i), (self.expr("rows", 1), i)])
        self.line(indent, f"{out} = []")
        self.line(indent, f"for {i} in {over}:")
        self.line(indent + 1, f"{row} = []")
        self.line(indent + 1, f"for {j} in {each}:")
        saved, self.names = self.names, {**self.names, j: "float" if each == i else "int"}
        self.loops += 1
        self.line(indent + 2, f"{row}.append({self.expr('float', 1)})")
        self.loops -= 1
        self.names = {**saved, out: "rows"}
        self.line(indent + 1, f"{out}.append({row})")

    def function(self, indent):
        if self.loops:
            return self.assigned(indent)
        name, kind = self.fresh("g"), self.r.choice(["int", "float"])
        params = [(self.fresh("p"), self.r.choice(["int", "float"])) for _ in range(self.r.randint(1, 2))]
        defaults = self.r.choice([0, 0, 1, len(params)])
        values = [self.expr(k, 0) for _, k in params]  # taken where the function is defined
        heads = [f"{p}={v}" if i >= len(params) - defaults else p for i, ((p, _), v) in enumerate(zip(params, values))]
        self.line(indent, f"def {name}({', '.join(heads)}):")
        saved, functions = dict(self.names), list(self.functions)
        self.names.update(params)
        local = self.fresh()
        self.line(indent + 1, f"{local} = {self.expr(kind)}")
        self.names[local] = kind
        if self.r.random() < 0.4:
            self.line(indent + 1, f"if {self.expr('bool')}:")
            self.line(indent + 2, f"return {self.expr(kind)}")
        self.line(indent + 1, f"return {self.expr(kind)}")
        self.names, self.functions = saved, functions
        return self.functions.append((name, [k for _, k in params], kind, [p for p, _ in params], defaults))


def differs(want, got):
    """How a result differs from Python's; None: it does not."""
    if isinstance(want, (tuple, list)):
        if type(want) is not type(got) or len(want) != len(got):
            return f"{want!r} became {got!r}"
        return next((d for w, g in zip(want, got) if (d := differs(w, g))), None)
    w, g = np.asarray(want), np.asarray(got)
    if isinstance(want, np.ndarray) and w.dtype.kind in "iu" and w.dtype != g.dtype:
        return f"{want!r} became {got!r}, of another type"
    if w.shape != g.shape or not np.allclose(w.astype(float), g.astype(float), 1e-9, 1e-9, equal_nan=True):
        return f"{want!r} became {got!r}"
    return f"{want!r} became {got!r}, of another type" if w.dtype.kind != g.dtype.kind and w.dtype.kind == "b" else None


def outcome(anfora, seed, folder, backend, program=Program, head="import numpy as np\n", differs=differs):
    """(what happened: same, refused, raises or wrong; why; the program)"""
    p = program(seed)
    path = os.path.join(folder, f"program_{seed}.py")
    with open(path, "w") as file:
        file.write(head + p.text)
    space = {"__name__": "program"}
    exec(compile(head + p.text, path, "exec"), space)
    f = space["f"]
    said, said_too = io.StringIO(), io.StringIO()
    theirs, ours = copy.deepcopy(p.arguments), copy.deepcopy(p.arguments)
    try:
        with contextlib.redirect_stdout(said):
            want = f(*theirs)
    except AssertionError as e:
        want = e
    except Exception as e:
        return "raises", repr(e), p
    try:
        with contextlib.redirect_stdout(said_too):
            got = anfora.jit(f, backend=backend)(*ours)
    except AssertionError as e:  # of the program: a RunError of that class, with its words
        return "same" if isinstance(want, AssertionError) and str(want) in str(e) else "wrong", str(e), p
    except anfora.CompileError as e:
        return "refused", re.sub(r"[vxypgi]\d+", "v", str(e).split("error: ", 1)[-1].split("\n")[0]), p
    except anfora.RunError as e:
        return "refused" if re.search(r"in place|in Python and .* in NumPy|\[E05\d\d\]", str(e)) else "wrong", str(e), p
    if isinstance(want, AssertionError):
        return "wrong", f"{want!r} was not raised", p
    why = differs(want, got) or (said.getvalue() != said_too.getvalue() and f"{said.getvalue()!r} became {said_too.getvalue()!r}")
    if not why and (why := differs(theirs, ours)):
        why = f"of the arguments after the call: {why}"
    return ("wrong", why, p) if why else ("same", "", p)


def run(anfora, first, count, folder, backend="llvm", **of):
    """Counts of outcomes, the wrong ones, and the reasons of refusals."""
    counts, wrong, why = collections.Counter(), [], collections.Counter()
    with np.errstate(all="ignore"):
        for seed in range(first, first + count):
            what, reason, p = outcome(anfora, seed, folder, backend, **of)
            counts[what] += 1
            if what == "wrong":
                wrong.append((seed, reason, p.text, p.arguments))
            elif what == "refused":
                why[reason] += 1
    return counts, wrong, why


def main(**of):
    sys.path.insert(0, sys.argv[1])
    import anfora
    with tempfile.TemporaryDirectory() as folder:
        counts, wrong, why = run(anfora, int(sys.argv[2]), int(sys.argv[3]), folder, *sys.argv[4:], **of)
    shown = int(os.environ.get("SHOW", "6"))
    for i, (seed, reason, text, arguments) in enumerate(wrong):
        print(f"---- program {seed}: {reason}" + (f"\n{text}{arguments}" if i < shown else ""))
    for reason, n in why.most_common(25):
        print(n, reason[:150])
    print(dict(counts))


if __name__ == "__main__":
    main()
