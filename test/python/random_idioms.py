# SPDX-License-Identifier: Apache-2.0
"""Random Python functions of the idioms that people write: dictionaries that comprehensions fill, objects with methods, functions with
arguments of every kind, tables as lists of lists, parts of arrays that change, slices with steps, searches, keys. random_idioms.py
FOLDER SEED COUNT [BACKEND], as random_statements.py, whose statements are among these."""
import re

import random_statements
from random_programs import main
from random_statements import differs

HEAD = random_statements.HEAD + """class Tally:
    def __init__(self, start, scale=1.0):
        self.total = start
        self.scale = scale
        self.count = 0

    def add(self, x, times=1):
        self.total += x * self.scale * times
        self.count += times

    def mean(self):
        return self.total / max(self.count, 1)


@dataclasses.dataclass
class State:
    x: Any
    n: int = 0

    def step(self, by):
        self.x = self.x * 0.5 + by
        self.n += 1
        return self.n


def spread(x, *more, by=2.0, **named):
    return x + sum(more) * by - sum(named.values())


"""


class Program(random_statements.Program):
    """Writes one function."""

    # ---- expressions ----

    def some(self, *kinds):
        return self.expr(self.r.choice(kinds), 1)

    def step(self):
        return self.r.choice(["::2", "1::2", "::-1", "-1:-3:-1", "-2:", ":-1", "1:", ":2", "2::-2", "-3:2", "5:", ":9"])

    def make_int(self, d):
        if d and self.r.random() < 0.25:
            e, f, b = (lambda k=k: self.expr(k, d - 1) for k in ("int", "float", "bool"))
            xs, fs, a = (lambda k=k: self.expr(k, d - 1) for k in ("ints", "floats", "array"))
            return self.pick(
                lambda: f"sum({xs()}[{self.step()}])", lambda: f"len({fs()}[{self.step()}])", lambda: f"sum(i for i, v in enumerate({xs()}) if v > {e()})",
                lambda: f"sum(v for v in {xs()} if v % 2)", lambda: f"{xs()}[np.int64({self.r.randrange(3)})]", lambda: f"{xs()}[int(np.argmin({a()}))]",
                lambda: f"max({xs()}, key=lambda v: (v - {e()}) ** 2)", lambda: f"min({xs()}, key=abs)", lambda: f"sorted({xs()}, reverse={self.r.choice(['True', 'False'])})[{self.index()}]",
                lambda: f"sorted({xs()}, key=lambda v: -v)[{self.index()}]", lambda: f"{xs()}.count({e()})", lambda: f"int({e()} in {xs()})", lambda: f"int({e()} not in {xs()})",
                lambda: f"({b()} + {b()} - {b()})", lambda: f"({b()} * {e()})", lambda: f"sum(v > {e()} for v in {xs()})", lambda: f"int(({a()} > {f()}).sum())",
                lambda: f"int(np.count_nonzero({a()} > {f()}))", lambda: f"({e()} // ({e()} % 3 + 1))", lambda: f"(-{e()} // 3 * 3 + -{e()} % 3)", lambda: f"({e()} % (-({e()} % 4) - 1))",
                lambda: f"(1 < {e()} <= {e()} < 9) * 4", lambda: f"({e()} == {e()} != {e()}) + 1", lambda: f"dict(zip('abc', {xs()}))[{self.r.choice('abc')!r}]",
                lambda: f"{{i: v for i, v in enumerate({xs()})}}[{self.r.randrange(3)}]", lambda: f"len({{v % 3 for v in (1, 2, 4, 7)}})", lambda: f"sum(a * b for a, b in zip({xs()}, {xs()}[1:]))",
                lambda: f"[a for a, *_ in [({e()}, 2), ({e()}, 3)]][{self.r.choice([0, -1])}]", lambda: f"pow({e()} % 4, 3, 7)", lambda: f"int(np.floor({f()}))", lambda: f"int({f()})",
                lambda: f"(lambda a, b=2, *, c=3: a * b - c)({e()}, c={e()})", lambda: f"next(v for v in [{e()}, {e()}, 9])", lambda: f"int(np.sign({f()}))", lambda: f"[[{e()}, 1], [2, {e()}]][{self.r.choice([0, 1, -1])}][{self.r.choice([0, -1])}]",
                lambda: f"int(all(x <= y for x, y in zip({xs()}, {xs()})))", lambda: f"{a()}.shape[0] - {a()}.ndim", lambda: f"({e()}, {e()})[{b()}]", lambda: f"len([v for v in {xs()} if v > {e()}])")
        return super().make_int(d)

    def make_float(self, d):
        if d and self.r.random() < 0.25:
            e, n, i = (lambda: self.expr("float", d - 1)), (lambda: self.number(d - 1)), (lambda: self.expr("int", d - 1))
            fs, a, m = (lambda k=k: self.expr(k, d - 1) for k in ("floats", "array", "matrix"))
            return self.pick(
                lambda: f"spread({e()}, {e()}, by={n()})", lambda: f"spread({e()}, p={n()}, q={e()})", lambda: f"spread(*[{e()}, {n()}], **{{'by': {e()}}})", lambda: f"Tally({e()}).mean()",
                lambda: f"np.float64({n()})", lambda: f"{a()}[np.argmax({a()})]", lambda: f"{a()}[{i()} % 3]", lambda: f"{m()}[{i()} % 2][{i()} % 3]", lambda: f"np.linalg.norm({a()})", lambda: f"{a()}.mean()",
                lambda: f"{m()}[:, {self.index()}].sum()", lambda: f"({a()} @ {a()}) % 7.0", lambda: f"sum(v for v in {fs()} if v > {e()})", lambda: f"max({fs()}, key=lambda v: abs(v - {e()}))",
                lambda: f"sum(k * v for k, v in {{1: {e()}, 2: {e()}}}.items())", lambda: f"sum(x if i % 2 else -x for i, x in enumerate({fs()}))", lambda: f"np.std({a()})", lambda: f"{a()}[{self.step()}].sum()",
                lambda: f"({e()} > 0) * {e()}", lambda: f"float('{self.r.randrange(9)}.5')", lambda: f"(lambda x, *, k={n()}: x * k)({e()})", lambda: f"np.prod({a()}) % 5.0", lambda: f"(abs({e()}) ** 0.5)",
                lambda: f"({i()} ** 2 / 3)", lambda: f"min(zip({fs()}, (1, 2, 3)), key=lambda p: p[0] * p[1])[0]", lambda: f"sum(map(lambda p, q: p * q, {fs()}, {fs()})) % 9.0", lambda: f"np.where({self.expr('bool', d - 1)}, {e()}, {n()}) * 1.0")
        return super().make_float(d)

    def make_array(self, d):
        if d and self.r.random() < 0.25:
            e, f, i, m = (lambda k=k: self.expr(k, d - 1) for k in ("array", "float", "int", "matrix"))
            return self.pick(
                lambda: f"np.concatenate([{e()}[::2], {e()}[1::2]])", lambda: f"{e()} * ({e()} > {f()})", lambda: f"np.outer({e()}, {e()})[{self.index()}] % 5.0", lambda: f"{e()}[[-1, 0, 1]]", lambda: f"{e()}[np.array([2, 2, {i()} % 3])]",
                lambda: f"{m()}[{i()} % 2, ::-1]", lambda: f"({e()}[:, None] + {e()}[None]).sum(0) % 9.0", lambda: f"np.eye(3)[{self.index()}] * {f()}", lambda: f"np.full(3, {self.number(d - 1)}) * 1.0", lambda: f"np.zeros_like({e()}) + {i()}",
                lambda: f"np.array([v * 2 if v > {f()} else -v for v in {e()}])", lambda: f"np.linspace({f()}, {f()}, 3)", lambda: f"({e()} // 1.5 + {e()} % -1.5)", lambda: f"np.array(sorted({self.expr('floats', d - 1)}))",
                lambda: f"{m()}.mean(axis=0)", lambda: f"{m()}.max(0)", lambda: f"{e()}.reshape(3, 1).ravel()", lambda: f"np.append({e()}[:2], {f()})", lambda: f"np.array([spread(v, by={f()}) for v in {e()}])", lambda: f"{e()} / (np.abs({e()}).max() + 1)",
                lambda: f"np.sqrt(2.0) * {e()}", lambda: f"np.exp(-abs({f()})) * {e()}", lambda: f"-{e()} ** 2 % 3.0", lambda: f"np.vstack([{e()}, {e()}])[{self.r.choice([0, 1, -1])}]", lambda: f"np.minimum.reduce([{e()}, {e()}])")
        return super().make_array(d)

    def make_half(self, d):
        if d and self.r.random() < 0.2:
            e, i = (lambda: self.expr("half", d - 1)), (lambda: self.expr("int", d - 1))
            return self.pick(
                lambda: f"({e()} * {i()})", lambda: f"({e()} + float({i()}))", lambda: f"({e()} * np.float32(0.5))", lambda: f"({e()} > 0) * {e()}", lambda: f"{e()}[[2, 0, 1]]", lambda: f"np.cumsum({e()}) / 2", lambda: f"{e()} - {e()}.mean()",
                lambda: f"np.where({e()} > {i()}, {e()}, 0.5)", lambda: f"{e()} / ({e()}.max() + 4)", lambda: f"np.stack([v * 0.5 for v in {e()}])", lambda: f"np.full(3, 0.5, np.float32) * {e()}", lambda: f"np.ones(3, dtype={e()}.dtype) + {e()}")
        return super().make_half(d)

    # ---- statements ----

    def block(self, indent, n):
        for _ in range(n):
            if self.depth < 4 and self.r.random() < 0.4:
                self.r.choice([self.table, self.parts, self.parts, self.object, self.dictionary, self.function_of, self.search, self.until, self.strided, self.starred, self.shown, self.best, self.tried, self.ranged])(indent)
            else:
                super().block(indent, 1)

    def lines_at(self, indent, *lines):
        for deep, text in lines:
            self.line(indent + deep, text)

    def result(self, **names):
        self.names |= names if not self.loops else {}

    def table(self, indent):
        """A list of lists whose items change."""
        t, s, i, j = self.fresh(), self.fresh(), self.fresh("i"), self.fresh("j")
        e = lambda: self.some("float")  # noqa: E731
        self.line(indent, f"{t} = " + self.r.choice([f"[[{e()}, {e()}], [{e()}, {e()}]]", f"[[0.0] * 2 for _ in range(2)]", f"[[{e()} + {i} for {i} in range(2)] for _ in range(2)]"]))
        for _ in range(self.r.randint(1, 2)):
            self.line(indent, self.r.choice([f"{t}[{self.r.choice([0, 1, -1])}][{self.r.choice([0, 1, -1])}] {self.r.choice(['=', '+=', '*='])} {e()}", f"{t}[0], {t}[1] = {t}[1], {t}[0]", f"{t}[0] = [{e()}, {e()}]",
                                             f"{t} = [list(r) for r in zip(*{t})]", f"{t}[1] = {t}[0]", f"{t}.append([{e()}, {e()}])"]))
        self.lines_at(indent, (0, f"{s} = 0.0"), (0, f"for {i}, r in enumerate({t}):"), (1, f"for {j}, x in enumerate(r):"), (2, f"{s} += x * ({i} + 2 * {j} + 1)"))
        self.result(**{s: "float"})

    def parts(self, indent):
        """Parts of an array change, by slices with steps, rows, columns, masks and lists of places."""
        a, m, s = self.fresh(), self.fresh(), self.fresh()
        number, i = (lambda: f"{self.some('float')} % 4.0"), self.fresh("i")
        self.lines_at(indent, (0, f"{a} = {self.some('array')} + 0.0"), (0, f"{m} = {self.some('matrix')} * 1.0"))
        deep = indent
        if self.r.random() < 0.4:
            self.line(indent, f"for {i} in range({self.r.randint(1, 3)}):")
            deep += 1
        else:
            i = self.r.choice(["0", "1", "-1"])
        op = lambda: self.r.choice(["=", "+=", "-=", "*=", "/="])  # noqa: E731
        for _ in range(self.r.randint(1, 3)):
            some = self.some("array")
            self.line(deep, self.r.choice([
                f"{a}[{self.r.choice(['::2', '1::2', '-2:', ':2', '::-1', '-1:0:-1'])}] {op()} {number()}", f"{m}[0] {op()} {some}", f"{m}[:, {self.r.choice(['1', '-1', i + ' % 3'])}] {op()} {number()}", f"{m}[{m} > {number()}] {op()} 0.5",
                f"{m}[1, ::-1] = {some}", f"{a}[[0, 2]] {op()} {number()}", f"{m}[{i} % 2] = {some}", f"{m}[{i} % 2, {i} % 3] {op()} {number()}", f"{a}[{i} % 3] {op()} {a}[-1 - {i} % 3] + 1.5", f"{m}[...] = {some}",
                f"{m}[0], {m}[1] = {m}[1].copy(), {m}[0].copy()", f"{a}[1:] {op()} {a}[:-1]", f"{m}[:, 1:] += {m}[:, :1]", f"{a}[0], {a}[-1] = {a}[-1], {a}[0]", f"{a} **= 2", f"{a}[np.argmax({a})] = -1.0", f"{m}[:, ::2] = {number()}"]))
        self.line(indent, f"{s} = np.sum({a} * np.array([1.0, 2.0, 3.0])) + np.sum({m} * np.array([[1.0, 2.0, 4.0], [8.0, 16.0, 32.0]]))")
        self.result(**{s: "float", a: "array", m: "matrix"})

    def object(self, indent):
        """An object whose methods change it."""
        o, s, i, e = self.fresh("o"), self.fresh(), self.fresh("i"), lambda: self.some("float")  # noqa: E731
        tally = self.r.random() < 0.5
        self.line(indent, f"{o} = " + (self.r.choice([f"Tally({e()})", f"Tally({e()}, scale={e()})", f"Tally(start={e()})"]) if tally else self.r.choice([f"State({e()})", f"State(x={e()}, n=2)"])))
        change = (lambda: self.r.choice([f"{o}.add({e()})", f"{o}.add({e()}, times={self.r.randint(1, 3)})", f"{o}.total -= {e()}"])) if tally else (lambda: self.r.choice([f"{o}.step({e()})", f"{o}.x = {e()}", f"{o}.n += 1"]))
        self.line(indent, change())
        if self.r.random() < 0.5:
            self.lines_at(indent, (0, self.r.choice([f"for {i} in range({self.r.randint(1, 3)}):", f"if {self.some('bool')}:"])), (1, change()))
        self.line(indent, f"{s} = " + (f"{o}.mean() + {o}.count * 10" if tally else f"{o}.x + {o}.n * 10.0"))
        self.result(**{s: "float"})

    def dictionary(self, indent):
        """A dictionary that a loop or a comprehension fills, and what is asked of it."""
        d, s, k, e = self.fresh("d"), self.fresh(), self.fresh("k"), lambda: self.some("float")  # noqa: E731
        self.line(indent, f"{d} = " + self.r.choice([f"{{{k}: {k} * {e()} for {k} in (1, 2, 3)}}", "{}", f"{{{k}: {e()} for {k} in range(4) if {k} % 2}}", f"dict(zip([1, 2, 3], {self.some('floats')}))", f"dict.fromkeys([1, 3], {e()})"]))
        for _ in range(self.r.randint(1, 3)):
            key = self.r.choice(["1", "2", "3"])
            self.line(indent, self.r.choice([f"{d}[{key}] = {d}.get({key}, 0.0) + {e()}", f"{d}.setdefault({key}, {e()})", f"if {key} in {d}: {d}[{key}] *= 2.0", f"{d}.pop({key}, None)", f"{d}.update({{{key}: {e()}}})",
                                             f"{d} = {{{k}: v + 1.0 for {k}, v in {d}.items()}}", f"{d} = {{{k}: {d}[{k}] for {k} in sorted({d}, reverse=True)}}"]))
        self.line(indent, f"{s} = len({d}) * 100.0 + " + self.r.choice([f"sum({d}.values())", f"sum({k} * v for {k}, v in {d}.items())", f"sum({d}.keys())", f"sum(i * v for i, v in enumerate({d}.values()))", f"{d}.get(2, -1.0)"]))
        self.result(**{s: "float"})

    def function_of(self, indent):
        """A function within, of arguments with defaults, by name only, and of any number."""
        if self.loops:
            return self.assigned(indent)
        g, s, e = self.fresh("g"), self.fresh(), lambda: self.some("float")  # noqa: E731
        head, body, calls = self.r.choice([
            ("a, b=2.0, *, c=0.5", ["a * b - c"], ["e!", "e!, c=e!", "b=e!, a=e!", "e!, e!"]), ("a, *rest", ["a + len(rest)", "a - sum(rest)"], ["e!", "e!, e!, e!", "*(e!, e!)"]),
            ("a, **named", ["a + sum(named.values())", "a + named.get('k', 1.0)", "a * len(named)"], ["e!", "e!, k=e!", "e!, **{'k': e!, 'l': e!}"]), ("a, b=None", ["a if b is None else a - b"], ["e!", "e!, e!", "e!, b=e!"]),
            ("a, n=2", ["a if n == 0 else a * 0.5"], ["e!", "e!, n=0"])])
        self.lines_at(indent, (0, f"def {g}({head}):"), (1, f"return {self.r.choice(body)}"))
        call = lambda: f"{g}(" + re.sub("e!", lambda _: e(), self.r.choice(calls)) + ")"  # noqa: E731
        self.line(indent, f"{s} = {call()} + {call()}")
        self.result(**{s: "float"})

    def search(self, indent):
        """A loop that looks for something, with break and else."""
        at, s, i, x = self.fresh(), self.fresh(), self.fresh("i"), self.fresh("x")
        kind = self.r.choice(["floats", "array", "ints"])
        self.lines_at(indent, (0, f"{at}, {s} = -1, {self.some('float')}"), (0, self.r.choice([f"for {i}, {x} in enumerate({self.some(kind)}):", f"for {i}, {x} in enumerate({self.some(kind)}, 1):", f"for {i}, {x} in enumerate(reversed({self.some('floats')})):"])),
                      (1, f"if {x} > {self.some('float')}:"), (2, f"{at} = {i}"), (2, self.r.choice(["break", "continue", f"{s} += {x}"])), (1, self.r.choice([f"{s} = {s} - {x}", f"{s} += {i}", "pass"])))
        if self.r.random() < 0.4:
            self.lines_at(indent, (0, "else:"), (1, f"{at} = 7"))
        self.result(**{at: "int", s: "float"})

    def until(self, indent):
        """while True that ends itself."""
        n, s = self.fresh(), self.fresh()
        self.lines_at(indent, (0, f"{n}, {s} = 0, {self.some('float')}"), (0, "while True:"), (1, f"{n} += 1"), (1, f"if {n} > {self.r.randint(1, 4)} or {self.some('bool')}:"), (2, "break"))
        if self.r.random() < 0.4:
            self.lines_at(indent, (1, f"if {n} % 2 == {self.r.randrange(2)}:"), (2, "continue"))
        self.line(indent + 1, f"{s} = {s} * 0.5 + {self.r.choice([n, self.some('float')])}")
        self.result(**{n: "int", s: "float"})

    def strided(self, indent):
        """A list whose slices are read and written."""
        x, s, e = self.fresh(), self.fresh(), lambda: self.some("float")  # noqa: E731
        self.line(indent, f"{x} = [{e()}, {e()}, {e()}, {e()}]")
        self.line(indent, self.r.choice([f"{x}[::2] = [{e()}, {e()}]", f"{x}[1:3] = []", f"{x}[:0] = [{e()}]", f"{x}[-1:] = [{e()}, {e()}]", f"{x} = {x}[{self.step()}]", f"{x}[1:1] = {x}[::-1]", f"del {x}[::2]", f"del {x}[1:]", f"{x} *= 2", f"{x}[-1] -= {e()}"]))
        self.line(indent, f"{s} = sum(v * i for i, v in enumerate({x}, 1)) + len({x}) * 100.0")
        self.result(**{s: "float"})

    def starred(self, indent):
        a, b, c, e = self.fresh(), self.fresh(), self.fresh(), lambda: self.some("float")  # noqa: E731
        self.line(indent, self.r.choice([f"*{a}, {b} = {self.some('floats')}", f"{b}, *{a} = [{e()}, {e()}, {e()}]", f"{b}, *{a} = {self.some('array')}", f"(*{a}, {b}) = ({e()}, {e()})", f"{b}, {a} = {e()}, [{e()}]"]))
        self.line(indent, f"{c} = sum({a}) * 2.0 + len({a}) + {b}")
        self.result(**{c: "float", b: "float"})

    def shown(self, indent):
        """Texts with values in them, printed or kept."""
        e, i = (lambda: self.some("float")), (lambda: self.some("int"))
        self.line(indent, self.r.choice([f'print(f"{{{i()}:>4}}|{{{i()}:^5}}|{{{e()}:+.2f}}")', f'print(f"{{{i()}!r}} {{{self.r.randrange(9)}=}}")', f"print(*[{i()}, {i()}], sep='-')", f"print({{'n': {i()}}}, [{i()} > 1])",
                                         f'print(f"{{{e()}:.1%}}", "{{0}}{{1}}{{0}}".format({i()}, "x"))', f"print('%s %5.1f%%' % ({i()}, {e()}))", f"print(' '.join(str(v) for v in {self.some('ints')}))", f"print(len({self.some('floats')}), end=' ')"]))

    def tried(self, indent):
        """An error that is caught."""
        y, e, i = self.fresh(), (lambda: self.some("float")), (lambda: self.some("int"))
        how = self.r.randrange(4)
        body, kind = [([f"{y} = {self.some('floats')}[{i()}] * 2.0"], "IndexError"), ([f"{y} = {i()} / {self.r.choice(self.names_of('int') or ['0'])}"], "ZeroDivisionError"),
                      ([f"if {self.some('bool')}:", "    raise ValueError", f"{y} = {e()}"], "ValueError"), ([f"if {e()} > 1:", "    raise KeyError('x')", f"elif {self.some('bool')}:", f"    {y} = 1.0", "else:", f"    {y} = {e()}"], "KeyError")][how]
        self.lines_at(indent, (0, f"{y} = 3.0"), (0, "try:"), *((1, line) for line in body), (0, f"except {kind}:"), (1, f"{y} = {e()}"))
        self.result(**{y: "float"})

    def ranged(self, indent):
        """Ranges that no loop goes through, and parts of ranges that loops do."""
        y, k, v, n = self.fresh(), self.fresh("i"), self.some("int"), f"(abs({self.some('int')}) % 6 + 2)"
        self.line(indent, f"{y} = " + self.r.choice([f"sum(range({n}))", f"max(range(1, {n}))", f"min(range({n}, -3, -2))", f"int({v} in range({n}))", f"range({n})[-1]", f"len(range(0, {n}, 3))"]))
        m = self.fresh()
        self.lines_at(indent, (0, f"{m} = {n}"), (0, f"for {k} in range({m})[{self.step()}]:"), (1, f"{y} = ({y} * 3 + {k}) % 101"))
        self.result(**{y: "int"})

    def best(self, indent):
        """The best of some, from None on."""
        x, v, s = self.fresh(), self.fresh("x"), self.fresh()
        self.lines_at(indent, (0, f"{x} = None"), (0, f"for {v} in {self.r.choice([self.some('floats'), self.some('array'), '(0.5, 2.0, -1.0)'])}:"), (1, f"if {x} is None or {v} {self.r.choice('<>')} {x}:"), (2, f"{x} = {v}"), (0, f"{s} = {x} * 2.0"))
        self.result(**{s: "float"})


if __name__ == "__main__":
    main(program=Program, head=HEAD, differs=differs)
