# SPDX-License-Identifier: Apache-2.0
"""Random Python functions of statements that random_programs.py has not: lists and dictionaries that change under two names, buffers that
are exchanged, arrays of two float types, choices of mixed types, shifts, texts, named tuples. random_statements.py FOLDER SEED COUNT
[BACKEND], as random_programs.py; the element types of arrays must be NumPy's, too."""
import numpy as np

import random_programs
from random_programs import main

HEAD = """import dataclasses
import itertools
from typing import Any, NamedTuple
import numpy as np


class Pair(NamedTuple):
    a: Any
    b: Any = 1.5


@dataclasses.dataclass(frozen=True)
class Box:
    a: Any
    b: Any

    def total(self):
        return self.a + self.b


def passed(x):
    return x


"""


def differs(want, got):
    """As random_programs' differs, and the element types of arrays of floats are the same."""
    if isinstance(want, (tuple, list)) and not hasattr(got, "__dlpack__"):
        if type(want) is not type(got) or len(want) != len(got):
            return f"{want!r} became {got!r}"
        return next((d for w, g in zip(want, got) if (d := differs(w, g))), None)
    if isinstance(want, dict):
        return differs(list(want.items()), list(got.items())) if type(got) is dict else f"{want!r} became {got!r}"
    if isinstance(want, str):
        return None if want == got else f"{want!r} became {got!r}"
    if isinstance(want, np.ndarray) and want.ndim and str(np.asarray(got).dtype) != str(want.dtype):
        return f"{want!r} became {got!r}, of another type"
    w, g = np.asarray(want), np.asarray(got)
    if (w.dtype == np.float32 or g.dtype == np.float32 and not w.ndim) and w.shape == g.shape and np.allclose(w, g, 1e-4, 1e-4, equal_nan=True):
        return None
    return random_programs.differs(want, got)


class Program(random_programs.Program):
    """Writes one function."""

    # ---- expressions ----

    def make_int(self, d):
        if d and self.r.random() < 0.3:
            e = lambda: self.expr("int", d - 1)  # noqa: E731
            f = lambda: self.expr("float", d - 1)  # noqa: E731
            k = self.r.choice([2, 3, -2, -3, 7, -7])
            return self.pick(
                lambda: f"({e()} % {k})", lambda: f"({e()} // {k})", lambda: f"divmod({e()}, {k})[{self.r.randrange(2)}]", lambda: f"(({e()} & 15) << {self.r.randrange(4)})",
                lambda: f"({e()} >> {self.r.randrange(4)})", lambda: f"({e()} | {self.r.randrange(8)}) ^ {self.r.randrange(8)}", lambda: f"(({e()}) % 5) ** 2",
                lambda: f"len({'ab'!r} * {self.r.randrange(1, 4)})", lambda: f"int({str(self.r.randrange(20))!r})", lambda: f"(ord({self.r.choice('abz')!r}) - 97)",
                lambda: f"len(f'{{{self.r.randrange(99)}:0{self.r.randrange(1, 6)}d}}')", lambda: f"{'a,b,c'!r}.split(',').index({self.r.choice('abc')!r})",
                lambda: f"(True + {self.expr('bool', d - 1)} * 2)", lambda: f"int({f()} // 1 % 9)", lambda: f"round({f()} * 2) // 2", lambda: f"int(-{f()} % 7)",
                lambda: f"sum(1 for x in {self.expr('ints', d - 1)} if x > {e()})", lambda: f"[x for x in (3, {e()}, 5) if x != 3][-1]",
                lambda: f"len(passed(({', '.join(e() for _ in range(self.r.randint(2, 4)))})))", lambda: f"sum(v for v in passed([{', '.join(e() for _ in range(self.r.randint(1, 3)))}]))",
                lambda: f"int({e()} < {e()} <= {e()}) + int({e()} != {e()})", lambda: f"sum([{e()}, {e()}], {e()}) % 19",
                lambda: f"{{1: {e()}, 2: {e()}}}[{self.r.choice([1, 2])}]", lambda: f"{{'k': {e()}}}.get({self.r.choice(['k', 'z'])!r}, {e()})", lambda: f"int(np.argmax({self.expr('array', d - 1)}))",
                lambda: f"int({f()} > 0) - int({f()} < 0)", lambda: f"min([{e()}, {e()}, {e()}])", lambda: f"len([*{self.expr('ints', d - 1)}, {e()}])")
        return super().make_int(d)

    def make_float(self, d):
        if d and self.r.random() < 0.3:
            e = lambda: self.expr("float", d - 1)  # noqa: E731
            n = lambda: self.number(d - 1)  # noqa: E731
            return self.pick(
                lambda: f"({self.expr('int', d - 1)} if {self.expr('bool', d - 1)} else {e()})", lambda: f"({e()} % -2.5)", lambda: f"({e()} // -1.5)",
                lambda: f"divmod({e()}, 1.5)[{self.r.randrange(2)}]", lambda: f"({e()} % 3.0) ** 2", lambda: f"({n()} / 4 + {n()})", lambda: f"Pair({e()}).b",
                lambda: f"Pair({n()}, {e()})._replace(a={e()}).a", lambda: f"Box({e()}, {n()}).total()", lambda: f"sum(Pair({e()}, {e()})) % 9.0",
                lambda: f"float({self.expr('half', d - 1)}[{self.index()}])", lambda: f"{self.expr('half', d - 1)}.sum() * 1.0", lambda: f"abs(min({n()}, {e()}))",
                lambda: f"float(np.mean({self.expr('array', d - 1)}))", lambda: f"(lambda *a: a[-1] - a[0])({e()}, {e()})",
                lambda: f"({e()} if {self.expr('int', d - 1)} else {e()})", lambda: f"sorted([{e()}, {e()}, {e()}])[{self.index()}]")
        return super().make_float(d)

    def make_half(self, d):
        """An array of f32; with numbers of Python it stays one."""
        if not d:
            return "np.array([1.0, 0.5, -2.0], np.float32)"
        e = lambda: self.expr("half", d - 1)  # noqa: E731
        return self.pick(
            lambda: f"({e()} {self.r.choice('+-*')} {self.r.choice(['2', '0.5', '3.0', '-1'])})", lambda: f"({e()} {self.r.choice('+-')} {e()}) % 5", lambda: f"np.where({e()} > 0, {e()}, 0)",
            lambda: f"{e()}[::-1]", lambda: f"np.abs({e()})", lambda: f"np.clip({e()}, -2, 2.5)", lambda: f"np.maximum({e()}, 0.0)", lambda: f"{self.expr('array', d - 1)}.astype(np.float32)",
            lambda: f"(-{e()})", lambda: f"np.tanh({e()})", lambda: f"({e()} / 3)", lambda: f"np.zeros_like({e()})", lambda: f"np.concatenate([{e()}[1:], {e()}[:1]])", lambda: f"({e()} ** 2)",
            lambda: f"np.minimum({e()}, {e()})", lambda: f"np.sort({e()})[::-1]", lambda: f"np.roll({e()}, {self.r.choice([1, -1])})")

    def make_array(self, d):
        if d and self.r.random() < 0.25:
            e = lambda: self.expr("array", d - 1)  # noqa: E731
            return self.pick(
                lambda: f"({e()} + {self.expr('half', d - 1)})", lambda: f"({self.expr('half', d - 1)} * {e()} % 5.0)", lambda: f"np.where({self.expr('bool', d - 1)}, {e()}, {self.expr('half', d - 1)})",
                lambda: f"np.concatenate([{e()}[:1], {self.expr('half', d - 1)}[1:]])", lambda: f"({e()} / {self.r.choice(['2', 'np.array([1, 2, 4])'])})", lambda: f"(np.array([1, 2, 3]) / {self.r.choice([2, 4])})",
                lambda: f"(np.arange(3) * {self.expr('float', d - 1)} % 6.0)", lambda: f"np.array({self.expr('floats', d - 1)}[:2] + [{self.expr('float', d - 1)}]) * 1.0", lambda: f"{e()}[[2, 0, 1]]",
                lambda: f"{e()}[np.argsort({e()})]", lambda: f"np.diff({e()}, prepend=0.0)", lambda: f"np.array([{e()}[0], *{e()}[1:]])")
        return super().make_array(d)

    # ---- statements ----

    def block(self, indent, n):
        for _ in range(n):
            if self.depth < 4 and self.r.random() < 0.4:
                self.r.choice([self.halves, self.exchanged, self.listed, self.keyed, self.shadowed, self.checked, self.paired, self.nested, self.counted, self.other_name, self.said, self.longer, self.chosen, self.inner, self.asserted, self.of_two_kinds, self.lasting, self.lasting, self.around, self.ended, self.labelled, self.passed_on])(indent)
            else:
                super().block(indent, 1)

    def halves(self, indent):
        known = self.names_of("half")
        if known and self.r.random() < 0.5:
            name = self.r.choice(known)
            return self.line(indent, self.r.choice([f"{name} = {self.expr('half')}", f"{name} = {name} * 2 - {self.expr('half', 1)}"]))
        if self.loops:
            return self.assigned(indent)
        name = self.fresh()
        self.line(indent, f"{name} = {self.expr('half')}")
        return self.bind(name, "half")

    def exchanged(self, indent):
        """Two arrays, of which one is filled from the other, in turns."""
        u, v, i = self.fresh(), self.fresh(), self.fresh("i")
        self.line(indent, f"{u}, {v} = {self.expr('array', 1)} * 1.0, np.zeros(3)")
        self.line(indent, f"for {i} in range({self.r.choice(['2', '3', 'abs(' + self.expr('int', 0) + ') % 4'])}):")
        saved, self.names = self.names, self.names | {i: "int"}
        self.line(indent + 1, self.r.choice([f"{v}[{self.index()}] = {u}[{self.index()}] * 0.5 + {self.expr('float', 1)} % 3.0", f"{v}[1:] = {u}[:-1] + 1",
                                             f"{v}[:] = {u}[::-1] - {i}", f"{v} += {u} * 0.25", f"{v}[{i} % 3] -= {u}[0]"]))
        if self.r.random() < 0.4:
            self.line(indent + 1, f"if {self.expr('bool', 1)}:")
            self.line(indent + 2, f"{u}, {v} = {v}, {u}")
        else:
            self.line(indent + 1, f"{u}, {v} = {v}, {u}")
        self.names = saved | {u: "array", v: "array"}

    def listed(self, indent):
        """A list that changes, by another name, too."""
        a, b = self.fresh(), self.fresh()
        kind = self.r.choice(["int", "float"])
        e = lambda: self.expr(kind, 1)  # noqa: E731
        self.line(indent, f"{a} = [{e()}, {e()}, {e()}]")
        self.line(indent, f"{b} = {self.r.choice([a, a + '[:]', a + '.copy()', 'list(' + a + ')'])}")
        for _ in range(self.r.randint(1, 3)):
            x = self.r.choice([a, b])
            self.line(indent, self.r.choice([f"{x}.append({e()})", f"{x} += [{e()}]", f"{x}[{self.index()}] = {e()}", f"{x} = {x} + [{e()}]", f"{x}.insert(1, {e()})", f"{x}[1:2] = [{e()}, {e()}]",
                                             f"{x}.reverse()", f"{x}.extend([{e()}])", f"{x}[0] += {e()}", f"{x}.pop({self.r.choice(['', '0'])})", f"del {x}[-1]", f"{x}.sort()"]))
        total = self.fresh()
        self.line(indent, f"{total} = sum({a}) * 2 + sum({b}) + len({a}) * 10 + len({b})")
        self.names |= {total: kind} if not self.loops else {}

    def keyed(self, indent):
        """A dictionary that changes."""
        d, k, v, total = self.fresh(), self.fresh("k"), self.fresh(), self.fresh()
        e = lambda: self.expr("float", 1)  # noqa: E731
        self.line(indent, f"{d} = {{'x': {e()}, 'y': {e()}}}")
        other = d
        if self.r.random() < 0.4:
            other = self.fresh()
            self.line(indent, f"{other} = {self.r.choice([d, 'dict(' + d + ')', '{**' + d + '}', d + '.copy()'])}")
        for _ in range(self.r.randint(1, 3)):
            x = self.r.choice([d, other])
            self.line(indent, self.r.choice([f"{x}['x'] += {e()}", f"{x}['z'] = {e()}", f"{x}.update(y={e()})", f"{x}['y'] = {x}['x'] * 2", f"{x} = {{**{x}, 'x': {e()}}}"]))
        self.line(indent, f"{total} = 0.0")
        self.line(indent, f"for {k}, {v} in {self.r.choice([d, other])}.items():")
        self.line(indent + 1, f"{total} += {v} * (2 if {k} == 'x' else 3) + len({k})")
        self.line(indent, f"{total} += {other}['x'] * 100")
        self.names |= {total: "float"} if not self.loops else {}

    def shadowed(self, indent):
        """The variable of a comprehension is its own."""
        names = self.names_of("int", "float")
        if not names:
            return self.assigned(indent)
        name, out = self.r.choice(names), self.fresh()
        self.line(indent, f"{out} = sum([{name} * 2 for {name} in {self.expr('floats', 1)}]) + {name}")
        return self.names.update({out: "float"} if not self.loops else {})

    def checked(self, indent):
        """What does not happen is an error."""
        name = (self.names_of("int", "float") or ["0"])[-1]
        self.line(indent, f"if {name} > 1000000:")
        self.line(indent + 1, f'raise ValueError(f"too large: {{{name}}}")')
        if self.r.random() < 0.5:
            self.line(indent, f"assert {name} < 1000000, {name}")

    def paired(self, indent):
        """A named tuple or an object that is made anew."""
        p, x, y = self.fresh(), self.fresh(), self.fresh()
        e = lambda: self.expr("float", 1)  # noqa: E731
        kind = self.r.choice(["Pair", "Box"])
        self.line(indent, f"{p} = {kind}({e()}, {self.r.choice([e(), self.expr('array', 1)])})")
        changed = lambda: f"a={p}.a * 0.5 + {e()}"  # noqa: E731
        again = lambda: self.line(indent, f"{p} = " + (f"{p}._replace({changed()})" if kind == "Pair" else f"dataclasses.replace({p}, {changed()})"))  # noqa: E731
        for _ in range(self.r.randint(0, 2)):
            again()
        if self.r.random() < 0.5:
            self.line(indent, f"for _ in range({self.r.randrange(4)}):")
            indent += 1
            again()
            indent -= 1
        self.line(indent, f"{x}, {y} = {p}.a, np.sum({p}.b)" if kind == "Box" or self.r.random() < 0.5 else f"{x}, {y} = {p}[0], np.sum({p}[1])")
        self.names |= {x: "float", y: "float"} if not self.loops else {}

    def nested(self, indent):
        """Names of parts of parts."""
        a, b, c = self.fresh(), self.fresh(), self.fresh()
        e = lambda: self.expr("float", 1)  # noqa: E731
        self.line(indent, self.r.choice([f"({a}, {b}), {c} = ({e()}, {e()}), {e()}", f"{a}, ({b}, {c}) = {e()}, [{e()}, {e()}]", f"{a}, *{b}, {c} = {e()}, {e()}, {e()}, {e()}"]))
        if "*" in self.lines[-1]:
            self.line(indent, f"{b} = sum({b}) + len({b})")
        if self.r.random() < 0.5:
            self.line(indent, f"{a}, {b}, {c} = {c}, {a}, {b}")
        self.names |= {a: "float", b: "float", c: "float"} if not self.loops else {}

    def counted(self, indent):
        """while with := or else, loops that end early."""
        n, s = self.fresh(), self.fresh()
        self.line(indent, f"{n}, {s} = {self.r.randint(0, 6)}, {self.expr('float', 1)}")
        if self.r.random() < 0.5:
            self.line(indent, f"while ({n} := {n} - 1) > {self.r.choice(['0', '1', '-1'])}:")
            self.line(indent + 1, f"{s} = {s} * 0.5 + {n}")
        else:
            self.line(indent, f"while {n} > 0:")
            self.line(indent + 1, f"{n} -= {self.r.choice([1, 2])}")
            self.line(indent + 1, f"if {s} > {self.expr('float', 1)}:")
            self.line(indent + 2, self.r.choice(["break", "continue"]))
            self.line(indent + 1, f"{s} += {self.expr('float', 1)}")
            self.line(indent, "else:")
            self.line(indent + 1, f"{s} = {s} - 100.0")
        self.names |= {s: "float", n: "int"} if not self.loops else {}

    def other_name(self, indent):
        """An array that changes, and another name or part of it."""
        a, b = self.fresh(), self.fresh()
        self.line(indent, f"{a} = {self.expr('array', 1)} + 0.0")
        self.line(indent, f"{b} = {self.r.choice([a, a + '[1:]', a + '.copy()', a + ' * 1', a + '[::-1]', 'np.sum(' + a + ')'])}")
        self.line(indent, self.r.choice([f"{a}[0] = {self.expr('float', 1)}", f"{a} += 1", f"{a} = {a} + 1", f"{a}[{a} > 0] *= 2", f"{a}[::2] = 0.5"]))
        c = self.fresh()
        self.line(indent, f"{c} = np.sum({b}) + np.sum({a}) * 10")
        self.names |= {c: "float"} if not self.loops else {}

    def text(self):
        """A piece of an f-string. An expression that begins with a brace stands in parentheses: two braces are one that is printed."""
        def e(kind):
            text = self.expr(kind, 1)
            return f"({text})" if text.startswith("{") else text
        return self.pick(
            lambda: f"{{{e('float')}:.{self.r.randrange(1, 5)}f}}", lambda: f"{{{e('int')}:{self.r.choice(['5d', '<4', '03d', '+d', ',', 'x'])}}}", lambda: f"{{{e('int')}}}",
            lambda: f"{{{e('bool')}}}", lambda: f"{{len({e('ints')})}}", lambda: f"{{'up' if {e('bool')} else 'down':>5}}", lambda: f"{{{e('float')}:9.2e}}", lambda: self.r.choice([" and ", "%", "{{}}", ": "]))

    def said(self, indent):
        """print, of texts with values in them."""
        whole = lambda: "f\"" + "".join(self.text() for _ in range(self.r.randint(1, 3))) + "\""  # noqa: E731
        e = lambda kind: self.expr(kind, 1)  # noqa: E731
        self.line(indent, self.pick(
            lambda: f"print({whole()})", lambda: f"print('n', {e('int')}, {whole()}, sep={self.r.choice(['', ', '])!r})", lambda: f"print({whole()}, end=';')",
            lambda: f"print('%d of %s, %6.2f' % ({e('int')}, 'all', {e('float')}))", lambda: f"print('{{:>6}} {{:.3f}}'.format({e('int')}, {e('float')}))",
            lambda: f"print(', '.join(f'{{v:.2f}}' for v in {e('array')}))", lambda: f"print(np.round({e('array')}, 3))", lambda: f"print([{e('int')}, 'a'], ({e('int')},), str({e('int')}) + '!')",
            lambda: f"print({e('bool')}, not {e('bool')}, None, {e('int')})", lambda: f"print('=' * {self.r.randrange(4)}, {whole()}.strip())"))

    def longer(self, indent):
        """A list or tuple that a loop makes longer or shorter."""
        x, i, s = self.fresh(), self.fresh("i"), self.fresh()
        e = lambda: self.expr("float", 1)  # noqa: E731
        tuple_ = self.r.random() < 0.3
        start = self.r.choice([[], [1], [1, 2]])
        items = [e() for _ in start]
        self.line(indent, f"{x} = " + (("(" + "".join(i + ", " for i in items) + ")") if tuple_ else f"[{', '.join(items)}]"))
        self.line(indent, f"for {i} in {self.r.choice(['range(3)', 'reversed(range(2))', 'range(4, 1, -1)', '(1, 2)'])}:")
        item = lambda: f"{e()} + {i}"  # noqa: E731
        self.line(indent + 1, self.r.choice([f"{x} = ({item()},) + {x}", f"{x} = (*{x}, {item()})"]) if tuple_ else
                  self.r.choice([f"{x}.insert(0, {item()})", f"{x} = [{item()}] + {x}", f"{x} += [{item()}]", f"{x}.append({item()})", f"{x} = [*{x}, {item()}]", f"{x}.extend([{item()}, 0.5])"]))
        if not tuple_ and self.r.random() < 0.3:
            self.line(indent + 1, self.r.choice([f"{x}.reverse()", f"{x}.insert(1, 0.25)", f"{x} = {x}[::-1]"]))
        self.line(indent, f"{s} = len({x}) * 100.0 + {self.r.choice([f'{x}[0]', f'{x}[-1]', f'sum({x})', f'max({x})'])}")
        self.names |= {s: "float"} if not self.loops else {}

    def chosen(self, indent):
        """Items that keys, itertools and sets choose."""
        s = self.fresh()
        e = lambda kind: self.expr(kind, 1)  # noqa: E731
        a, b, c = e("float"), e("float"), e("float")
        self.line(indent, f"{s} = 1.0 * " + self.pick(
            lambda: f"max([{a}, {b}, {c}], key=lambda v: -v)", lambda: f"min(({a}, {b}), key=abs)", lambda: f"max(range(3), key=lambda i: [{a}, {b}, {c}][i])",
            lambda: f"sum(x * i for i, x in itertools.product(range(2), [{a}, {b}]))", lambda: f"sum(x - 2 * y for x, y in itertools.combinations([{a}, {b}, {c}], 2))",
            lambda: f"sorted([3, 1, 2], key=lambda v: v % 3)[{self.index()}]", lambda: f"int({e('int')} in {{1, 2, 5}})", lambda: f"min((3, {e('int')}, 5), default=0)",
            lambda: f"({{'a': {a}}} | {{'b': {b}, 'a': {c}}})['a']", lambda: f"sum(v for v in itertools.chain([{a}], [{b}, {c}]))", lambda: f"len(range({e('int')}))"))
        self.names |= {s: "float"} if not self.loops else {}

    def inner(self, indent):
        """A function within that returns lists, tuples and dictionaries."""
        if self.loops:
            return self.assigned(indent)
        g, p, a, b = self.fresh("g"), self.fresh("p"), self.fresh(), self.fresh()
        e = lambda: self.expr("float", 1)  # noqa: E731
        self.line(indent, f"def {g}({p}):")
        xs = self.fresh()
        self.line(indent + 1, f"{xs} = [{p}]")
        self.line(indent + 1, f"for {self.fresh('i')} in range({self.r.randint(1, 3)}):")
        self.line(indent + 2, f"{xs}.append({xs}[-1] * 0.5 + {e()})")
        self.line(indent + 1, self.r.choice([f"return {xs}, ({p}, {e()})", f"return ({xs}, {xs}[1:])", f"return [{xs}, {xs}[::-1]]", f"return {xs}[:1] + [{p}], {xs}"]))
        self.line(indent, f"{a}, {b} = {g}({e()})")
        self.extra += [a, b]
        return None

    def of_two_kinds(self, indent):
        """A pair, or a part of something, that may be a list on one way and a tuple on another."""
        if self.loops:
            return self.assigned(indent)
        a, g = self.fresh(), self.fresh("g")
        e, test = lambda: self.expr("float", 1), self.expr("bool", 1)  # noqa: E731
        pair = lambda: self.r.choice(["[{}, {}]", "({}, {})"]).format(e(), e())  # noqa: E731
        way = self.r.randrange(7)
        around, part = self.r.choice([("{}", ""), ("[{}, 1.5]", "[0]"), ("{{'k': {}}}", "['k']"), ("({},)", "")])
        if way == 0:
            self.line(indent, f"{a} = {around.format(f'{pair()} if {test} else {pair()}')}")
        elif way == 1:
            self.line(indent, f"{g} = (lambda: {around.format(pair())}) if {test} else (lambda: {around.format(pair())})")
            self.line(indent, f"{a} = {g}()")
        elif way == 2:
            self.line(indent, f"def {g}(c):")
            self.line(indent + 1, "if c:")
            self.line(indent + 2, f"return {around.format(pair())}")
            self.line(indent + 1, f"return {around.format(pair())}")
            self.line(indent, f"{a} = {g}({test})")
        else:
            self.line(indent, f"{a} = {around.format(pair())}")
            self.line(indent, f"for _ in range({self.r.choice(['2', 'abs(' + self.expr('int', 0) + ') % 3'])}):" if way == 3 else f"if {test}:")
            stored = a + (part if part and part != "" and self.r.random() < 0.5 else "")
            self.line(indent + 1, self.r.choice([f"{a} = {around.format(pair())}", f"{stored} = {pair() if stored != a else around.format(pair())}",
                                                 *([f"{a} = {self.r.choice(['list', 'tuple'])}({a})"] if not part and around == "{}" else [])]))
            if way == 4:
                self.line(indent, "else:")
                self.line(indent + 1, f"{a} = {around.format(pair())}")
        if self.r.random() < 0.3 and around == "{}":
            self.line(indent, f"{a} = " + self.r.choice([f"[{a}, 0.5]", f"{a}[:1]", f"(*{a},)", f"list({a})", f"{a} * 2", f"{a}[0]"]))
        self.extra.append(a)
        return None

    def lasting(self, indent):
        """Names that loops bind, read after them: a name that was there before, or a new one, of one loop or of two in each other."""
        known = self.names_of("float")
        x, s = self.r.choice(known) if known and self.r.random() < 0.6 else self.fresh(), self.fresh()
        e = lambda kind: self.expr(kind, 1)  # noqa: E731
        if x not in known and self.r.random() < 0.7:
            self.line(indent, f"{x} = {e('float')}")
        self.line(indent, f"{s} = {e('float')}")
        array, i = self.r.choice([e("array"), e("matrix") + "[0]", e("array") + "[1:]", e("floats"), f"np.arange(3) * {e('float')}"]), self.fresh("i")
        way = self.r.randrange(5)
        head = [f"for {x} in {array}:", f"for {i}, {x} in enumerate({array}):", f"for {x}, {i} in zip({array}, range(2)):", f"for {x} in [{e('float')}, 0.5]:", f"for {x} in {array}:"][way]
        inner = indent
        if self.r.random() < 0.3:
            inner += 1
            self.line(indent, self.r.choice([f"for {self.fresh('i')} in range(2):", f"for {x} in {e('array')}:", f"for {x} in range(2):"]))
            self.line(inner, f"{s} = ({s} + {x}) % 9.0" if "for " + x in self.lines[-1] or x in known else f"{s} += 1.0")
        self.line(inner, head)
        self.line(inner + 1, self.r.choice(["pass", f"{s} = {s} * 0.5 + {x}", f"{x} = {x} * 2 - {s}", f"{s} += {x} if {x} > 1 else 0.5"]))
        if self.r.random() < 0.4:
            self.line(inner + 1, f"if {x} > {e('float')}:")
            self.line(inner + 2, self.r.choice(["break", "continue"]))
            if self.r.random() < 0.4:
                self.line(inner, "else:")
                self.line(inner + 1, f"{x} = {e('float')}")
        if self.r.random() < 0.3:
            self.line(inner, f"{s} = {s} * 0.25 + {x}")
        self.line(indent, f"{s} = {s} + {x} * 10" + (f" + {i}" if way in (1, 2) and inner == indent and self.r.random() < 0.7 else ""))
        self.names |= {s: "float"} if not self.loops else {}
        if x not in known and not self.loops:
            self.names[x] = "float"

    def around(self, indent):
        """A function within that binds names of the function around it."""
        if self.loops or self.depth > 1:
            return self.assigned(indent)
        n, m, g, p, y = self.fresh(), self.fresh(), self.fresh("g"), self.fresh("p"), self.fresh()
        e = lambda: self.expr("float", 1)  # noqa: E731
        both = self.r.random() < 0.4
        self.line(indent, f"{n}, {m} = {e()}, {self.r.choice(['0', e()])}")
        self.line(indent, f"def {g}({p}):")
        self.line(indent + 1, f"nonlocal {n}" + (f", {m}" if both else ""))
        self.line(indent + 1, self.r.choice([f"{n} += {p}", f"{n} = {n} * 0.5 + {p}", f"{n} = {p} if {p} > {n} else {n}"]))
        if both:
            self.line(indent + 1, self.r.choice([f"{m} += 1", f"if {p} > 0: {m} += 2"]))
        gives = self.r.random() < 0.7
        if gives:
            self.line(indent + 1, self.r.choice([f"return {n} * 2", f"return {p} + {n}", f"return {n} if {p} > 1 else {p}"]))
        self.line(indent, f"{y} = 0.0")
        self.line(indent, f"for _ in range({self.r.choice(['1', '2', '3'])}):" if self.r.random() < 0.5 else f"if {self.expr('bool', 1)}:")
        call = lambda: f"{g}({e()} % 3.0)"  # noqa: E731
        self.line(indent + 1, (self.r.choice(["{} = {}", "{} += {}"]).format(y, call())) if gives else call())
        self.line(indent, f"{y} = {call()}" if gives and self.r.random() < 0.5 else call())
        self.line(indent, f"{y} = ({y} + {n} * 3 + {m}) % 99.0")
        self.names |= {y: "float"}
        return None

    def ended(self, indent):
        """What is bound whatever ends a block."""
        s = self.fresh()
        self.line(indent, f"{s} = {self.expr('float', 1)}")
        self.line(indent, "try:")
        self.line(indent + 1, f"{s} = {s} * 0.5 + {self.expr('float', 1)}")
        self.line(indent, "finally:")
        self.line(indent + 1, f"{s} {self.r.choice(['+=', '-=', '='])} {self.expr('float', 1)}")
        self.names |= {s: "float"} if not self.loops else {}

    def labelled(self, indent):
        """A name of what is no number, which a loop or branch may bind anew: a text, a function, an element type, nothing."""
        s, n, x = self.fresh(), self.fresh("n"), self.fresh()
        one, two, use = self.r.choice([("'on'", "'off'", f"1.0 if {s} == 'on' else 2.0"), ("None", "'off'", f"1.5 if {s} is None else 2.5"), ("None", "2.5", f"0.5 if {s} is None else {s}"),
                                       ("np.sin", "np.cos", f"{s}({self.expr('float', 1)} % 3)"), ("np.float32", "np.float64", f"np.zeros(3, {s})"), ("''", f"f'{{{n}}}'", f"1.0 if {s} == '' else 2.0")])
        lines = self.r.choice([[f"{s} = {two}"], [f"if {self.expr('bool', 1)}:", f"  {s} = {two}"], [f"{s} = {two}", f"if {n} == 2:", "  break"], [f"if {n} == 2:", f"  {s} = {two}", "  continue"],
                               [f"if {s} == {one}:", f"  {s} = {two}", "else:", f"  {s} = {one}"], [f"if {n} == 2:", f"  {s} = {two}", "  break"]])
        self.line(indent, f"{s} = {one}")
        self.line(indent, f"{n} = {self.r.choice(['2', '3', 'abs(' + self.expr('int', 0) + ') % 4'])}")
        self.line(indent, f"while {n} > 0:")
        self.line(indent + 1, f"{n} -= 1")
        for t in lines:
            self.line(indent + 1 + (len(t) - len(t.lstrip())) // 2, t.lstrip())
        self.line(indent, f"{x} = {use}")
        self.names |= {x: "array" if "zeros" in use else "float"} if not self.loops else {}

    def passed_on(self, indent):
        """A function that gives its argument, called with two structures."""
        x, y, s = self.fresh(), self.fresh(), self.fresh()
        items = lambda: ", ".join(self.expr("float", 1) for _ in range(self.r.randint(2, 4)))  # noqa: E731
        self.line(indent, f"{x} = passed(({items()}))")
        self.line(indent, f"{y} = passed([{items()}])")
        self.line(indent, f"{s} = len({x}) * 1.0 + sum(v for v in {y}) % 9.0 + {x}[-1]")
        self.names |= {s: "float"} if not self.loops else {}

    def asserted(self, indent):
        """An assertion that may fail, with a value in its message."""
        if self.loops:
            return self.assigned(indent)
        n = self.fresh("n")
        self.line(indent, f"{n} = {self.expr('int', 1)}")
        return self.line(indent, f"assert {n} % 9 < {self.r.choice([8, 9, 9])}, " + self.r.choice(['"odd"', f'f"{{{n}}} is odd"', f'f"{{{n}:4d}} %"', f'"%d is" % {n}', f'"is " + str({n})']))


if __name__ == "__main__":
    main(program=Program, head=HEAD, differs=differs)
