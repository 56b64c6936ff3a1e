# SPDX-License-Identifier: Apache-2.0
"""Objects that compiled functions make and change, by stores and by methods: they are what Python makes, or the change is refused at its line."""
from dataclasses import dataclass, field

import anfora
import numpy as np

from random_objects import taken_apart
from random_programs import differs

X = np.array([1.0, 2.0, 3.0])


@dataclass
class State:
    n: float
    w: object = None
    items: list = field(default_factory=list)

    def log(self, x):
        self.items.append(x)
        self.n = max(self.n, x)


class Mean:
    def __init__(self):
        self.n = 0
        self.mean = 0.0
        self.m2 = 0.0

    def update(self, x):
        self.n += 1
        d = x - self.mean
        self.mean += d / self.n
        self.m2 += d * (x - self.mean)
        return self.mean

    @property
    def var(self):
        return self.m2 / (self.n - 1)

    def std(self):
        return np.sqrt(self.var)

    def me(self):
        return self

    def again(self):
        return self.me()


class Layer:
    def __init__(self, w):
        self.w = w.copy()
        self.x = np.zeros(3)

    def __call__(self, x):
        self.x = x
        return x @ self.w

    def back(self, g, rate=0.1):
        self.w -= rate * np.outer(self.x, g)
        return self.w @ g


class Net:
    def __init__(self):
        self.first = Layer(np.eye(3))
        self.second = Layer(np.eye(3) * 0.5)
        self.steps = 0

    def step(self, x):
        self.steps += 1
        y = self.second(np.tanh(self.first(x)))
        self.first.back(self.second.back(y - 1.0))
        return np.sum((y - 1.0) ** 2)


class Walk:
    def __init__(self, s):
        self.s = s
        self.steps = 0

    def step(self, a):
        self.s = self.s + a
        self.steps += 1
        if self.steps >= 3:
            return self.s, True
        return self.s, False

    def past(self, s):
        self.steps += 1
        if self.s > s:
            return self.s

    def most(self):
        while True:
            self.s += 1
            if self.s > 3:
                return self.s


class Ring:
    def __init__(self):
        self.data = np.zeros(3)
        self.at = 0

    def add(self, v):
        self.data[self.at] = v
        self.at = (self.at + 1) % 3


class Forest:
    def __init__(self, n):
        self.up = np.arange(n)
        self.count = n

    def find(self, i):
        while self.up[i] != i:
            i = self.up[i]
        return i

    def union(self, a, b):
        ra = self.find(a)
        rb = self.find(b)
        if ra != rb:
            self.up[ra] = rb
            self.count -= 1


class Control:
    def __init__(self, p, i):
        self.p, self.i = p, i
        self.sum = 0.0

    def __call__(self, e, dt):
        self.sum += e * dt
        return self.p * e + self.i * self.sum


def bump(s, x):
    s.n += x
    return s.n


def twice(s):
    return s.n * 2


def same(s):
    return s


def counted(x):
    s = State(0)
    for i in range(3):
        s.n += 1
        s.w = x * s.n
    return s.n, s.w


def running(x):
    m = Mean()
    for v in x:
        if v < 2.5:
            m.update(v)
    return m.mean, m.var, m.std(), m.n


def trained(x):
    net: Net = Net()
    losses = []
    for _ in range(3):
        losses.append(net.step(x))
    return losses, net.first.w, net.steps


def walked(x):
    w = Walk(x[0])
    total, done = 0.0, False
    while not done:
        s, done = w.step(x[1])
        total += s
    return total, w.steps


def logged(x):
    s = State(-1.0)
    for i in range(3):
        s.log(x[i] * 2)
    return s


def ring(x):
    r = Ring()
    for k in range(5):
        r.add(x[k % 3] * k)
    return r.data, r.data.mean(), r.at


def by_functions(x):
    s = State(x[0])
    y = bump(s, x[1]) + bump(s, x[2]) * twice(s)
    return y, s.n, twice(s)


def joined(x):
    f = Forest(5)
    for a, b in [(0, 1), (2, 3), (1, 3), (0, 2)]:
        f.union(a, b)
    return f.count, f.find(0) == f.find(3), f.find(4)


def controlled(x):
    y = 0.0
    c = Control(1.0, 0.1)
    for _ in range(20):
        y += 0.1 * c(2.0 - y, 0.1)
    return y


def in_rounds(x):
    total, none = 0.0, 0
    for v in x:
        w = Walk(v)
        w.step(v)
        w.past(3.0)
        total += w.s
        none += w.steps
    return total, none


def made_anew(x):
    s = State(x[0], 2 * x)
    s = State(s.w[1], s.n)
    s.n, t = s.w, s.n
    return s.n, t


def differentiated(x):
    def f(y):
        m = Mean()
        m.update(y)
        m.update(y * y)
        return m.mean
    return anfora.grad(f)(x[0]), anfora.vmap(f)(x)


SAME = [counted, running, trained, walked, logged, ring, by_functions, joined, controlled, in_rounds, made_anew]


def test_as_python():
    for f in SAME:
        want, got = f(X.copy()), anfora.jit(f, backend="interp")(X.copy())
        assert not differs(taken_apart(want), taken_apart(got)), (f.__name__, want, got)


def test_derivatives():
    d, values = anfora.jit(differentiated, backend="interp")(X)
    assert float(d) == 1.5 and np.allclose(values, (X + X * X) / 2)


def alias(x):
    a = Mean()
    b = a
    a.update(x[0])
    return b.n


def held(x):
    a = Mean()
    many = [a]
    a.update(x[0])
    return many[0].n


def given_back(x):
    a = Mean()
    b = a.again()
    a.n = 5
    return b.n


def given_back_by_function(x):
    a = State(0.0)
    b = same(a)
    a.n = x[0]
    return b.n


def read_later(x):
    a = Mean()
    f = lambda: a.mean
    a.update(x[0])
    return f()


def same_list(x):
    xs = []
    a = State(0.0, None, xs)
    a.log(x[0])
    return xs


def same_list_read(x):
    a = State(0.0)
    xs = a.items
    a.log(x[0])
    return len(xs)


def same_array(x):
    r = Ring()
    d = r.data
    r.add(x[0])
    return d


def argument(x):
    s = State(0.0, x)
    s.w += 1
    return s.w, x


def bound(x):
    s = Mean()
    f = s.update
    f(x[0])
    return s.mean


def bound_for_a_map(x):
    m = Mean()
    return list(map(m.update, [1.0, 2.0]))


def before_in_the_line(x):
    s = State(x[0])
    return s.n + bump(s, x[1])


def both(a, b):
    a.n += 1
    b.n += 10
    return a.n


def before_of_another(x):
    a = State(x[0])
    b = State(x[1])
    return b.n + both(a, b), b.n


def in_comprehension(x):
    m = Mean()
    return [m.update(v) for v in x], m.n


def no_field(x):
    s = State(x[0])
    s.other = x[1]
    return s.other


def within(x):
    w = Walk(x[0])
    return w.most()


REFUSED = [(alias, "more than its fields"), (held, "more than its fields"), (given_back, "more than its fields"), (given_back_by_function, "more than its fields"),
           (read_later, "changes here, before it is called"), (same_list, "list"), (same_list_read, "list"), (same_array, "d would see"),
           (argument, "x would see"), (before_in_the_line, "within another expression"), (before_of_another, "within another expression"), (in_comprehension, "within another expression"),
           (no_field, "no field other"), (bound, "s.update is a method"), (bound_for_a_map, "m.update is a method"), (within, "returns within a loop")]


def test_refusals():
    for f, words in REFUSED:
        try:
            got = anfora.jit(f, backend="interp")(X.copy())
        except (anfora.CompileError, anfora.RunError) as e:
            assert words in str(e), (f.__name__, e)
        else:
            raise AssertionError((f.__name__, got))
