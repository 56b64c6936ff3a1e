# SPDX-License-Identifier: Apache-2.0
"""Random Python functions that make objects and change their fields, by stores and by methods, under one name and under several: their results and
the arrays that they are given, beside CPython's. random_objects.py FOLDER SEED COUNT [BACKEND] runs programs SEED, SEED + 1, ..., and says what differs."""
import collections
import os
import random
import sys
import tempfile

import numpy as np

from random_programs import differs

HEAD = "from dataclasses import dataclass, field\nimport numpy as np\n"
PEEK = "def peek(o, v):\n    return o.n * v\ndef same(o):\n    return o\ndef bump(o, v):\n    o.n += v\n    return o.n\n"


class Program:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.arrays, self.lists, self.objects = ["x"], [], []
        self.text = HEAD + PEEK + self.class_() + self.function()

    def pick(self, *choices):
        return self.r.choice(choices)

    def number(self, of=()):
        own = [f"{o}.n" for o in of] + [f"{o}.w[{self.r.randrange(3)}]" for o in of] + [f"np.sum({o}.w)" for o in of] + [f"len({o}.items)" for o in of]
        a = self.pick("v", str(self.r.randrange(1, 5)), "0.5", *own)
        return self.pick(a, f"{a} * {self.pick('v', '0.5')}", f"{a} + {self.pick('1', 'v', *own)}")

    def array(self, of=()):
        own = [f"{o}.w" for o in of]
        return self.pick("np.zeros(3)", "u", "u * 2", "np.ones(3) * v", *own, *(f"{w} + u" for w in own), *(f"{w}.copy()" for w in own))

    # ---- the class ----

    def class_(self):
        kind = self.r.randrange(3)
        if kind == 0:
            out = "@dataclass\nclass C:\n    n: float\n    w: object\n    items: list = field(default_factory=list)\n"
        else:
            w = self.pick("w", "w.copy()", "w * 1.0")
            out = f"class C:\n    def __init__(self, n, w, items=None):\n        self.n = n\n        self.w = {w}\n        self.items = []\n"
        for i in range(3):
            out += f"    def m{i}(self, v, u):\n" + "".join(self.method(i, 2) for _ in range(self.r.randrange(1, 4))) + self.ending()
        return out + "    def get(self):\n        return " + self.pick("self.n", "self.w", "self.items", "self", "self.n + self.w[0]") + "\n" + \
            "    @property\n    def size(self):\n        return self.n * 2\n"

    def method(self, i, depth):
        pad = "    " * depth
        what = self.r.randrange(11)
        if what == 0 and depth < 3:
            return f"{pad}if {self.number(['self'])} > 2:\n" + self.method(i, depth + 1) + (f"{pad}else:\n" + self.method(i, depth + 1) if self.r.random() < 0.5 else "")
        if what == 1 and i:
            return f"{pad}self.m{self.r.randrange(i)}({self.number(['self'])}, {self.array(['self'])})\n"
        return pad + self.change("self") + "\n"

    def change(self, o):
        return self.pick(f"{o}.n += {self.number([o])}", f"{o}.n = {self.number([o])}", f"{o}.n *= 0.5", f"{o}.w = {self.array([o])}", f"{o}.w += {self.array([o])}",
                         f"{o}.w[{self.r.randrange(3)}] = {self.number([o])}", f"{o}.items.append({self.number([o])})", f"{o}.items = [{self.number([o])}]",
                         f"{o}.w = {o}.w * 0.5", f"{o}.n, {o}.w = {self.number([o])}, {self.array([o])}", f"t = {o}.n; {o}.n = t + {self.number([o])}")

    def ending(self):
        if self.r.random() < 0.2:
            return f"        if self.n > {self.r.randrange(4)}:\n            return self.n\n        self.n += 1\n        return v\n"
        return self.pick("", "", f"        return {self.number(['self'])}\n", "        return self.n\n", "        return self.w\n", "        return self.items\n", "        return self\n")

    # ---- the function ----

    def function(self):
        out = f"def f(x, v):\n    u = {self.pick('x', 'x.copy()', 'x * 2')}\n    k = 0.0\n"
        out += f"    a = C({self.number()}, {self.array()})\n"
        self.objects.append("a")
        for _ in range(self.r.randrange(2, 7)):
            out += self.statement(1)
        parts = [*(f"{o}.{f}" for o in self.objects for f in ("n", "w", "items")), "k", *self.arrays, *self.lists]
        if self.r.random() < 0.15:
            parts.append("a")
        return out + f"    return {', '.join(parts)}\n"

    def call(self, o):
        return f"{o}.m{self.r.randrange(3)}({self.number([o])}, {self.array([o])})"

    def statement(self, depth):
        pad, o = "    " * depth, self.pick(*self.objects)
        what = self.r.randrange(16)
        if what < 4:
            return f"{pad}{self.change(o)}\n"
        if what < 7:
            return f"{pad}{self.call(o)}\n"
        if what == 7 and depth == 1:
            return self.name(pad, o)
        if what == 8:
            return f"{pad}k = {self.pick('k + ', '')}{self.pick(f'peek({o}, 2.0)', f'bump({o}, v)', f'{o}.size', f'{o}.n')}\n"
        if what < 11 and depth < 3:
            head = self.pick("for i in range(3):", "for v in x:", f"if {self.number([o])} > 2:", f"if {o}.n < 3:", "for i in range(2):")
            return f"{pad}{head}\n" + self.statement(depth + 1) + self.statement(depth + 1)
        if what == 11:
            return f"{pad}{o} = C({self.number([o])}, {self.array([o])})\n"
        return f"{pad}{self.change(o)}\n"

    def name(self, pad, o):
        """Another name of an object, or of a part of it."""
        n = len(self.arrays) + len(self.lists) + len(self.objects)
        what = self.r.randrange(7)
        if what == 0:
            self.arrays.append(f"a{n}")
            return f"{pad}a{n} = {o}.w\n"
        if what == 1:
            self.lists.append(f"l{n}")
            return f"{pad}l{n} = {o}.items\n"
        if what == 2:
            self.objects.append(f"b{n}")
            return f"{pad}b{n} = {self.pick(o, f'same({o})')}\n"
        if what == 3:
            self.arrays.append(f"k{n}")
            return f"{pad}k{n} = {self.pick(self.call(o), f'{o}.get()')}\n"
        if what == 4:
            self.arrays.append(f"g{n}()")
            return f"{pad}g{n} = lambda: {self.pick(f'{o}.n', f'{o}.w')}\n"
        self.objects.append(f"c{n}")
        return f"{pad}c{n} = C({self.number([o])}, {self.array([o])})\n"


def taken_apart(x):
    if hasattr(x, "items") and hasattr(x, "w"):
        return (taken_apart(x.n), taken_apart(x.w), taken_apart(x.items))
    if isinstance(x, (list, tuple)):
        return type(x)(map(taken_apart, x))
    return np.nan if x is None else x


def outcome(anfora, seed, folder, backend):
    p = Program(seed)
    path = os.path.join(folder, f"p{seed}.py")
    with open(path, "w") as file:
        file.write(p.text)
    names = {"__name__": f"p{seed}"}
    exec(compile(p.text, path, "exec"), names)
    x, v = np.array([0.5, 1.5, -1.0]), 1.25
    own, given = x.copy(), x.copy()
    try:
        want = names["f"](own, v)
    except Exception as e:
        want = e
    try:
        got = anfora.jit(names["f"], backend=backend)(given, v)
    except (anfora.CompileError, anfora.RunError) as e:
        return "refused", str(e).split("error: ")[-1].split("\n")[0], p
    if isinstance(want, Exception):
        return "accepted", f"{type(want).__name__}: {want}", p
    why = differs(taken_apart((*want, own)), taken_apart((*got, given)))
    return ("wrong", why, p) if why else ("same", "", p)


def main():
    sys.path.insert(0, sys.argv[1])
    import anfora
    counts, why = collections.Counter(), collections.Counter()
    first, count = map(int, sys.argv[2:4])
    with tempfile.TemporaryDirectory() as folder, np.errstate(all="ignore"):
        for seed in range(first, first + count):
            what, reason, p = outcome(anfora, seed, folder, sys.argv[4] if len(sys.argv) > 4 else "llvm")
            counts[what] += 1
            if what == "wrong":
                print(f"---- program {seed}: {reason}\n{p.text}")
            elif what != "same":
                why[f"{what}: {reason}"] += 1
    for reason, n in why.most_common(20):
        print(n, reason[:170])
    print(dict(counts))


if __name__ == "__main__":
    main()
