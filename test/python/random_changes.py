# SPDX-License-Identifier: Apache-2.0
"""Random Python functions that change lists and dictionaries that they are given, and call each other: the result, and the arguments after
the call, must be Python's. Lists get second names, stand in tuples and results, and are given twice. random_changes.py FOLDER SEED COUNT [BACKEND]"""
import random

from random_programs import differs as numbers_differ
from random_programs import main

HEAD = "import numpy as np\n"


def differs(want, got):
    if isinstance(want, dict):
        if type(got) is not dict or list(want) != list(got):
            return f"{want!r} became {got!r}"
        want, got = list(want.values()), list(got.values())
    if isinstance(want, (tuple, list)) and type(want) is type(got) and len(want) == len(got):
        return next((d for w, g in zip(want, got) if (d := differs(w, g))), None)
    return numbers_differ(want, got)


class Function:
    """Writes one function of lists and numbers."""

    def __init__(self, r, name, lists, numbers, others, gives):
        self.r, self.others, self.count, self.grows = r, others, 0, True
        self.lists = [f"{name}_a{i}" for i in range(lists)]
        self.numbers = [f"{name}_n{i}" for i in range(numbers)]
        self.tables = [f"{name}_d"] if name == "f" and r.random() < 0.3 else []
        self.name, self.lines = name, [f"def {name}({', '.join([*self.lists, *self.numbers, *self.tables])}):"]
        self.block(1, r.randint(1, 5))
        self.line(1, "return " + self.result(gives))

    def line(self, indent, text):
        self.lines.append("    " * indent + text)

    def fresh(self):
        self.count += 1
        return f"{self.name}_v{self.count}"

    def number(self, depth=1):
        r = self.r
        ways = [lambda: str(r.randint(-3, 9)), lambda: r.choice(self.numbers) if self.numbers else "2"]
        if depth:
            xs = r.choice(self.lists)
            ways += [lambda: self.item(xs), lambda: f"len({xs})", lambda: f"({self.number(0)} {r.choice('+-*')} {self.number(0)}) % 97", lambda: f"sum({xs}) % 7", lambda: f"max({xs})"]
            if self.tables:
                ways += [lambda: f"{self.tables[0]}['k']", lambda: f"{self.tables[0]}.get('z', 3)"]
        return r.choice(ways)()

    def index(self, xs):
        return self.r.choice(["0", "-1", "1", f"{self.number(0)} % len({xs})", f"{self.number(0)} % 2"])

    def item(self, xs):
        return f"{xs}[{self.index(xs)}]"

    def call(self):
        name, lists, numbers, gives = self.r.choice(self.others)
        return f"{name}({', '.join([*self.r.choices(self.lists, k=lists), *(self.number() for _ in range(numbers))])})", gives

    def result(self, gives):
        xs = self.r.choice(self.lists)
        if gives == "number":
            return self.number()
        return self.r.choice([xs, xs, f"list({xs})", f"({xs}, {self.number()})" if self.name == "f" else xs, f"{xs} + [1]", f"({', '.join([*self.numbers, f'{xs}[0]'])},)" if self.name == "f" else f"{xs}[:]"])

    def block(self, indent, n):
        lists, numbers = list(self.lists), list(self.numbers)
        for _ in range(n):
            self.statement(indent)
        if indent > 1:
            self.lists, self.numbers = lists, numbers

    def statement(self, indent):
        r, xs = self.r, self.r.choice(self.lists)
        kind = r.random()
        if kind < 0.45:
            self.line(indent, self.change(xs))
        elif kind < 0.65 and self.others and self.grows:
            self.called(indent)
        elif kind < 0.75:
            new = self.fresh()
            self.line(indent, f"{new} = " + r.choice([xs, f"list({xs})", f"{xs}[:]", f"{xs}.copy()", f"[{self.number()}, {self.number()}, 1]", f"[v + 1 for v in {xs}]"]))
            self.lists.append(new)
        elif kind < 0.82:
            new = self.fresh()
            self.line(indent, f"{new} = {self.number()}")
            self.numbers.append(new)
        elif kind < 0.91 and indent < 3:
            self.line(indent, f"if {self.number()} {r.choice(['<', '>', '=='])} {self.number()}:")
            self.block(indent + 1, r.randint(1, 2))
            if r.random() < 0.4:
                self.line(indent, "else:")
                self.block(indent + 1, 1)
        elif indent < 3:
            i = self.fresh()
            self.line(indent, f"for {i} in " + r.choice([f"range(len({xs}))", "range(3)", f"range({self.number(0)} % 3 + 1)"]) + ":")
            (numbers, self.numbers), (grows, self.grows) = (self.numbers, [*self.numbers, i]), (self.grows, self.grows and "(3)" in self.lines[-1] and indent == 1)
            self.block(indent + 1, r.randint(1, 2))
            self.numbers, self.grows = numbers, grows
        else:
            self.line(indent, self.change(xs))

    def change(self, xs):
        r, e = self.r, self.number
        if self.tables and r.random() < 0.3:
            d = self.tables[0]
            return r.choice([f"{d}['k'] = {e()}", f"{d}['k'] += {e()}", f"{d}['z'] = {e()}", f"{d}.update(m={e()})", f"{d}.setdefault('z', 4)"])
        if r.random() < 0.06:
            ys = r.choice(self.lists)
            return r.choice([f"{xs} = [{e()}, 1]", f"{xs} = {xs} + [1]", f"{xs}, {ys} = {ys}, {xs}", f"{xs} = {ys}", f"{xs} += [{e()}]"])
        i, j = self.item(xs), self.item(xs)
        if not self.grows:
            return r.choice([f"{i} = {e()}", f"{i}, {j} = {j}, {i}", f"{i} += {e()}", f"{xs}.sort()", f"{xs}.reverse()"])
        return r.choice([f"{i} = {e()}", f"{i} = {e()}", f"{i}, {j} = {j}, {i}", f"{i}, {j} = {j}, {i}", f"{i} += {e()}", f"{xs}.append({e()})", f"{xs}.append({e()})", f"{xs}.sort()", f"{xs}.reverse()", f"{xs}.insert(0, {e()})",
                         f"{xs}.pop()", f"{xs}.extend([{e()}, 2])", f"del {xs}[0]", f"{xs}[:] = [v * 2 % 97 for v in {xs}]", f"{xs}.sort(reverse=True)"])

    def called(self, indent):
        call, gives = self.call()
        how = self.r.random()
        if how < 0.4:
            return self.line(indent, call)
        if gives == "number" and how < 0.6:
            other, more = self.call()
            if more == "number":
                call = f"({call} {self.r.choice('+-*')} {other}) % 97"
        if gives == "number" and how > 0.85:
            self.line(indent, f"if {call} > {self.number()}:")
            return self.line(indent + 1, self.change(self.r.choice(self.lists)))
        new = self.fresh()
        self.line(indent, f"{new} = {call}")
        (self.numbers if gives == "number" else self.lists).append(new)


class Program:
    """Some functions, of which f is called."""

    def __init__(self, seed):
        r = random.Random(seed)
        others, lines = [], []
        for k in range(r.randint(0, 3)):
            lists, numbers, gives = r.choice([1, 1, 2]), r.randint(0, 2), r.choice(["number", "number", "list"])
            lines += [*Function(r, f"g{k}", lists, numbers, others, gives).lines, ""]
            others = [*others, (f"g{k}", lists, numbers, gives)]
        f = Function(r, "f", r.choice([1, 1, 2]), r.randint(1, 2), others, r.choice(["number", "list"]))
        self.text = "\n".join([*lines, *f.lines]) + "\n"
        own = r.choice([lambda: r.randint(-4, 9), lambda: r.randint(-4, 9), lambda: round(r.uniform(-3, 3), 2)])
        self.arguments = [[own() for _ in range(r.randint(2, 4))] for n in f.lines[0].split("(")[1].split(",") if "_a" in n]
        self.arguments += [r.randint(-3, 6) for n in f.lines[0].split("(")[1].split(",") if "_n" in n] + [{"k": 2, "m": 5} for _ in f.tables]


if __name__ == "__main__":
    main(program=Program, head=HEAD, differs=differs)
