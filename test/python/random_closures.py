# SPDX-License-Identifier: Apache-2.0
"""Random Python functions of functions: closures over names that change between calls, *args, functools.partial, dictionaries, and
transforms of functions within, whose derivatives CPython has by a complex step. random_closures.py FOLDER SEED COUNT [BACKEND]
runs programs SEED, SEED + 1, ... and says what differs. A program is called, names from outside change, and it is called again."""
import collections
import functools
import os
import random
import re
import sys
import tempfile

import numpy as np

from random_programs import differs

STEP = 1e-30


def ref_grad(f):
    """By a complex step: of one number, or of each element of an array."""
    def derivative(x, *rest):
        if np.ndim(x) == 0:
            return np.imag(f(x + STEP * 1j, *rest)) / STEP
        return np.array([np.imag(f(x + STEP * 1j * (np.arange(len(x)) == i), *rest)) / STEP for i in range(len(x))])
    return derivative


def ref_vjp(f, x):
    return f(x), lambda dy: (ref_grad(f)(x) * dy,)


def ref_jvp(f, xs, dxs):
    return f(*xs), np.sum(ref_grad(f)(xs[0]) * dxs[0])


def ref_scan(f, carry, xs):
    ys = []
    for x in xs:
        carry, y = f(carry, x)
        ys.append(y)
    return carry, np.array(ys)


def ref_fori(low, high, f, x):
    for i in range(low, high):
        x = f(i, x)
    return x


REFERENCE = {
    "grad": ref_grad, "vjp": ref_vjp, "jvp": ref_jvp, "linearize": lambda f, x: (f(x), lambda d: np.sum(ref_grad(f)(x) * d)),
    "value_and_grad": lambda f: lambda x: (f(x), ref_grad(f)(x)), "vmap": lambda f: lambda *xs: np.array([f(*r) for r in zip(*xs)]),
    "checkpoint": lambda f: f, "cond": lambda p, f, g, *xs: f(*xs) if p else g(*xs), "scan": ref_scan, "fori_loop": ref_fori, "jit": lambda f: f,
    "switch": lambda i, fs, *xs: fs[min(max(int(i), 0), len(fs) - 1)](*xs),
}
HEAD = "import functools\nimport numpy as np\n"


class Program:
    """A module with names from outside and a function f(x, v): a number and an array."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.count, self.lines, self.floats, self.functions = 0, [], ["x"], []
        n, outside = self.number, {"K": self.number(), "KA": f"np.array([{self.number()}, {self.number()}, {self.number()}])",
                                   "KL": f"[{self.number()}, {self.number()}]", "KD": f"{{'a': {self.number()}, 'b': {self.number()}}}"}
        self.outside = "".join(f"{k} = {v}\n" for k, v in outside.items())
        self.change = self.r.choice([f"K = {n()}\n", f"KA[1] = {n()}\n", f"KA = np.array([{n()}, {n()}, {n()}])\n", f"KL[0] = {n()}\n",
                                     f"KL.append({n()})\n", f"KD['a'] = {n()}\n", f"K = {n()}\nKL = [{n()}]\n",
                                     f"def outer(*a):\n    return a[0] * {n()} + len(a)\n", f"settings.w = {n()}\n", f"set_cell({n()})\n"])
        self.outside += ("class Settings:\n    pass\nsettings = Settings()\n" + f"settings.w = {n()}\n" + f"def outer(*a):\n    return a[0] * K - len(a)\n"
                         f"def made():\n    w = {n()}\n    def set_(x):\n        nonlocal w\n        w = x\n"
                         f"    def inner(y, *more, by={n()}):\n        return y * w + by + sum(more)\n    return inner, set_\nclosed, set_cell = made()\n")
        deep = self.r.choice([1, 1, 1, 2])
        self.deep = deep
        for _ in range(self.r.randint(0, 2)):
            self.statement()
        results = self.r.sample(self.floats, min(len(self.floats), 2))
        self.lines.append(f"return ({', '.join(results)}, {self.float(deep)}, {self.array(deep)})")
        self.text = HEAD + self.outside + "def f(x, v):\n" + "".join(f"    {line}\n" for line in self.lines)
        self.arguments = float(self.number()), np.array([float(self.number()) for _ in range(3)])

    def number(self):
        return repr(self.r.choice([0.5, -1.5, 2.0, 3.25, round(self.r.uniform(-2, 2), 2)]))

    def fresh(self, wish):
        self.count += 1
        return f"{wish}{self.count}"

    def pick(self, *ways):
        return self.r.choice(ways)()

    # ---- expressions ----

    def float(self, d):
        if not d:
            return self.r.choice([*self.floats, "K", "KA[1]", "KL[0]", "KD['a']", "settings.w", self.number(), "v[0]"])
        e = lambda: self.float(d - 1)  # noqa: E731
        x = self.fresh("y")
        smooth = lambda *names: self.smooth(d - 1, names)  # noqa: E731
        return self.pick(
            lambda: f"({e()} {self.r.choice('+-*')} {e()})", lambda: f"np.tanh({e()})", lambda: f"np.sum({self.array(d - 1)})", lambda: f"sum(KL) * {e()}",
            lambda: f"sum(KD.values()) + {e()}", lambda: f"{{'p': {e()}, 'q': {e()}}}[{self.r.choice(['chr(112)', repr('q')])}]", lambda: f"len([{e()}, *KL]) * {e()}",
            lambda: f"outer({e()}, {e()})", lambda: f"closed({e()}, {e()}, {e()})", lambda: f"closed({e()}, by={e()})", lambda: f"outer(*[{e()}, {e()}])",
            lambda: f"functools.partial(outer, {e()})({e()})", lambda: f"functools.partial(closed, by={e()})({e()})", lambda: f"functools.reduce(lambda *a: a[0] + a[1], [{e()}, {e()}, {e()}])",
            lambda: f"(lambda *a: a[0] - len(a))({e()}, {e()})", lambda: f"(lambda {x}, *a: {x} + sum(a))({e()}, {e()}, {e()})",
            lambda: f"(lambda {x}, **k: {x} * k['b'])({e()}, b={e()})",
            lambda: f"grad(lambda {x}: {smooth(x)})({e()})", lambda: f"grad(lambda *a: {smooth('a[0]')})({e()})",
            lambda: f"vjp(lambda {self.star(x)}: {smooth(x)}, 1.0 * {e()})[1](1.0)[0]", lambda: f"jvp(lambda {self.star(x)}: {smooth(x)}, (1.0 * {e()},), (1.0,))[1]",
            lambda: f"linearize(lambda {self.star(x)}: {smooth(x)}, 1.0 * {e()})[1](1.0)", lambda: f"value_and_grad(lambda {self.star(x)}: {smooth(x)})({e()})[{self.r.choice('01')}]",
            lambda: f"cond({e()} > 0.0, lambda {self.star(x)}: {smooth(x)}, lambda {self.star(x)}: {smooth(x)}, {e()})",
            lambda: f"switch({self.r.choice('012')}, [lambda {self.star(x)}: {smooth(x)}, lambda {self.star(x)}: {smooth(x)}], {e()})",
            lambda: f"checkpoint(lambda {self.star(x)}: {smooth(x)})({e()})", lambda: f"grad(checkpoint(lambda {self.star(x)}: {smooth(x)}))({e()})",
            lambda: f"fori_loop(0, 3, lambda *a: np.tanh(a[1] + {e()}), {e()})", lambda: f"scan(lambda *a: (np.tanh(a[0] + a[1]), a[1]), {e()}, v)[{self.r.choice(['0', '1][0'])}]",
            lambda: f"grad({self.r.choice(['outer', 'closed'])})({e()})", lambda: self.called(d))

    def star(self, x):
        """One parameter x, or any number of arguments, of which x is the first."""
        return self.r.choice([x, x, f"{x}, *rest", f"{x}, k=K", f"{x}, **kw"])

    def smooth(self, d, names):
        """An expression that complex numbers go through."""
        n = lambda: self.r.choice([*names, *names, "K", "KL[0]", "KD['b']", "settings.w", self.number()])  # noqa: E731
        if d <= 0:
            return self.r.choice(names)
        e = lambda: self.smooth(d - 1, names)  # noqa: E731
        return self.pick(lambda: f"({e()} * {n()} + {n()})", lambda: f"({e()} - {e()})", lambda: f"np.tanh({e()})", lambda: f"({e()} * {e()})",
                         lambda: f"outer({e()})", lambda: f"closed({e()}, {n()})", lambda: f"np.sin({e()})")

    def array(self, d):
        if not d:
            return self.r.choice(["v", "v", "KA"])
        a, e, x = lambda: self.array(d - 1), lambda: self.float(d - 1), self.fresh("z")
        smooth = self.smooth(d - 1, [x])
        return self.pick(
            lambda: f"({a()} {self.r.choice('+-*')} {a()})", lambda: f"({a()} * {e()})", lambda: f"vmap(lambda {self.star(x)}: {smooth})({a()})",
            lambda: f"vmap(lambda *a: a[0] * a[1] + len(a))({a()}, {a()})", lambda: f"np.array([{smooth} for {x} in {a()}])",
            lambda: f"np.array([{e()}, {e()}, {e()}])", lambda: f"np.array(list(map(lambda *a: a[0] + len(a), [{e()}, {e()}, {e()}])))",
            lambda: f"grad(lambda {self.star(x)}: np.sum({smooth}))({a()})", lambda: f"grad(lambda *a: np.sum(a[0] * KA))({a()})",
            lambda: f"vjp(lambda *a: np.sum(a[0] * a[0] * KA), {a()})[1]({e()})[0]", lambda: f"vmap(grad(lambda {self.star(x)}: {smooth}))({a()})",
            lambda: f"scan(lambda *a: (np.tanh(a[0]), a[0] + a[1]), {e()}, {a()})[1]")

    def called(self, d):
        fits = [f for f in self.functions if f[1]]
        if not fits:
            return self.float(d - 1)
        name, least, most = self.r.choice(fits)
        given = [self.float(d - 1) for _ in range(self.r.randint(least, most))]
        return self.r.choice([f"{name}({', '.join(given)})", f"functools.partial({name}, {given[0]})({', '.join(given[1:])})",
                              f"[{name}, {name}][1]({', '.join(given)})", f"(lambda g, *a: g(*a))({name}, {', '.join(given)})"])

    # ---- statements ----

    def statement(self):
        self.pick(self.assigned, self.assigned, self.function, self.function, self.looped, self.lambdas)

    def assigned(self):
        name = self.fresh("w")
        self.lines.append(f"{name} = {self.float(self.deep)}")
        self.floats.append(name)

    def function(self):
        g, p, q = self.fresh("g"), self.fresh("p"), self.fresh("q")
        head, least, most, inner = self.r.choice([
            (f"*{p}", 1, 3, [f"{p}[0]", f"len({p})", f"sum({p})"]), (f"{p}, *{q}", 1, 3, [p, f"len({q})", f"sum({q})"]), (f"{p}, {q}={self.float(1)}", 1, 2, [p, q]),
            (f"{p}, **{q}", 1, 1, [p, f"len({q})"]), (f"{p}, *, {q}={self.number()}", 1, 1, [p, q])])
        saved = self.floats
        self.floats = [*saved, *inner]
        self.lines += [f"def {g}({head}):", f"    return {self.float(self.deep)}"]
        self.floats = saved
        self.functions.append((g, least, most))

    def lambdas(self):
        g, p = self.fresh("h"), self.fresh("p")
        saved = self.floats
        self.floats = [*saved, f"{p}[0]", f"len({p})"]
        self.lines.append(f"{g} = lambda *{p}: {self.float(self.deep)}")
        self.floats = saved
        self.functions.append((g, 1, 3))

    def looped(self):
        name, i = self.fresh("s"), self.fresh("i")
        self.lines.append(f"{name} = {self.float(0)}")
        saved = self.floats
        self.floats = [*saved, name, i]
        over = self.r.choice(["v", "KL", "KD.values()", "range(3)", "[1.0, 2.5]"])
        self.lines += [f"for {i} in {over}:", f"    {name} = np.tanh({self.float(self.deep)})"]
        self.floats = [*saved, name]


def outcome(anfora, names, seed, folder, backend):
    """(what happened: same, refused, raises or wrong; why; the program)"""
    p = Program(seed)
    path = os.path.join(folder, f"closures_{seed}.py")
    with open(path, "w") as file:
        file.write(p.text)
    ours, theirs = dict(names), dict(REFERENCE)
    code = compile(p.text, path, "exec")
    exec(code, theirs)
    exec(code, ours)
    f, within = anfora.jit(ours["f"], backend=backend), p.r.random() < 0.2
    for turn, change in enumerate(("", p.change)):
        exec(change, theirs)
        exec(change, ours)
        if turn and "def outer" in change:
            path = os.path.join(folder, f"closures_{seed}_change.py")
            with open(path, "w") as file:
                file.write(change)
            exec(compile(change, path, "exec"), ours)
        try:
            want = theirs["f"](*p.arguments)
        except Exception as e:
            return "raises", repr(e), p
        try:
            got = f(*p.arguments) if not within else ours["f"](*p.arguments)
        except anfora.CompileError as e:
            return "refused", re.sub(r"\b[a-z]+\d+", "v", str(e).split("error: ", 1)[-1].split("\n")[0]), p
        except Exception as e:
            if within and isinstance(e, TypeError):  # NumPy's functions on their own do not take all that is ours
                return "refused", str(e)[:60], p
            return "wrong", f"{type(e).__name__}: {e}", p
        why = differs(want, got)
        if why:
            return "wrong", f"call {turn}: {why}", p
    return "same", "", p


def run(anfora, first, count, folder, backend="llvm"):
    """Counts of outcomes, the wrong ones, and the reasons of refusals."""
    counts, wrong, why = collections.Counter(), [], collections.Counter()
    names = {n: getattr(anfora, n) for n in REFERENCE if n != "switch"} | {"switch": anfora.lax.switch, "functools": functools}
    with np.errstate(all="ignore"):
        for seed in range(first, first + count):
            what, reason, p = outcome(anfora, names, seed, folder, backend)
            counts[what] += 1
            if what == "wrong":
                wrong.append((seed, reason, p.text + "# then: " + p.change, p.arguments))
            elif what in ("refused", "raises"):
                why[f"{what}: {reason}"] += 1
    return counts, wrong, why


def main():
    sys.path.insert(0, sys.argv[1])
    import anfora
    import anfora.lax  # noqa: F401
    with tempfile.TemporaryDirectory() as folder:
        counts, wrong, why = run(anfora, int(sys.argv[2]), int(sys.argv[3]), folder, *sys.argv[4:])
    shown = int(os.environ.get("SHOW", "6"))
    for i, (seed, reason, text, arguments) in enumerate(wrong):
        print(f"---- program {seed}: {reason}" + (f"\n{text}{arguments}" if i < shown else ""))
    for reason, n in why.most_common(25):
        print(n, reason[:150])
    print(dict(counts))


if __name__ == "__main__":
    main()
