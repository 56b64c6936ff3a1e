# SPDX-License-Identifier: Apache-2.0
"""Objects of classes with an __init__ of their own, made in compiled functions: they are what Python makes."""
import anfora
import numpy as np
from anfora import grad, jit

W = np.arange(6.0).reshape(2, 3) / 10


class Linear:
    scale = 2.0

    def __init__(self, w, b=None, name="linear"):
        super().__init__()
        self.w = w
        if b is None:
            b = np.zeros(w.shape[1])
        self.b: object = b
        self.n = w.shape[0]
        self.n += 1
        self.name = name

    def __call__(self, x):
        return x @ self.w + self.b * self.scale

    def __add__(self, other):
        return Linear(self.w + other.w, self.b + other.b)

    def norm(self):
        return np.sum(self.w ** 2) + self.n

    @property
    def twice(self):
        return self.n * 2


class Network:
    def __init__(self, weights):
        self.layers = [Linear(w) for w in weights]
        self.first = self.layers[0]

    def forward(self, x):
        for layer in self.layers:
            x = np.tanh(layer(x))
        return x


class Moving:
    def __init__(self, x):
        self.x = x

    def move(self, d):
        self.x = self.x + d


class Registered(Linear):
    all = []

    def __init__(self, w):
        super().__init__(w)
        Registered.all.append(self)


class Base:
    def __init__(self, k, c=1.0):
        twice = k * 2
        self.k, self.twice = k, twice
        self.c, self.calls = c, 0

    def value(self, x):
        return x * self.k

    def run(self, x):
        self.calls += 1
        return self.value(x) + self.c


class Shifted(Base):
    def __init__(self, k, b):
        super().__init__(k, c=b[0])
        self.b = b

    def value(self, x):
        return super().value(x) + self.b


class Counted(Shifted):
    def __init__(self, k):
        c = k + 1
        super().__init__(c, np.ones(3))
        self.start = c

    def run(self, x):
        self.calls += 10
        return super().run(x) * 2


class Left(Linear):
    def __init__(self, w):
        super().__init__(w)
        self.left = w


class Diamond(Left, Moving):
    def __init__(self, w):
        super().__init__(w)
        self.both = w


class Kept:
    def __init__(self, x, others):
        self.x = x
        others.append(self)
        self.others = len(others)


def called(w):
    layer = Linear(w, np.ones(3))
    both = layer + Linear(w)
    return layer(np.ones(2)), Linear(w)(np.ones(2)), both.w, layer.norm() + layer.twice


def deep(w):
    net = Network([w, np.ones((3, 3))])
    return net.forward(np.ones(2)), net.first.norm(), sum(layer.norm() for layer in net.layers)


def repeated(w):
    layer = Linear(w)
    for _ in range(3):
        layer = Linear(layer.w * 2, layer.b + 1)
    return layer.norm(), layer.b, 1.0 if isinstance(layer, Linear) else 2.0


def inherited(w):
    x = w[0]
    a = Shifted(2.0, x)
    b = Counted(x[1])
    ways = [o.value(x) for o in (Base(1.0), Shifted(2.0, x), Counted(x[1]))]
    y = a.run(x)
    y = b.run(y)
    y = a.run(y)
    return y, a.calls, b.calls, a.k, b.twice, b.start, a.c, *ways


def test_values():
    for f in (called, deep, repeated, inherited):
        assert all(map(np.allclose, f(W), jit(f)(W))), f
    assert np.allclose(np.asarray(grad(lambda w: Linear(w).norm())(W)), 2 * W)


def test_results():
    made = jit(lambda w: Linear(w, name="last"))(W)
    assert type(made) is Linear and np.allclose(np.asarray(made.w), W) and made.n == 3 and made.name == "last"


def shared(w):
    h = np.zeros(3)
    layer = Linear(w, h)
    h[0] = 5.0
    return layer.b


def moved(w):
    m = Moving(w)
    other = m
    m.move(1.0)
    return other.x


def test_refusals():
    for f, words in ((shared, "another name"), (moved, "do not change in place"), (lambda w: Registered(w).n, "more than its fields"),
                     (lambda w: Diamond(w).w, "another class"), (lambda w: Kept(w, []).x, "more than its fields")):
        try:
            jit(f)(W)
        except anfora.CompileError as e:
            assert words in str(e), e
        else:
            raise AssertionError(words)


class Pair:
    def __init__(self, x):
        self.x = x

    def __truediv__(self, n):
        return [self.x / n, (self.x, n)]

    def __sub__(self, other):
        return Pair(self.x - other.x)


def test_results_of_operators():
    def parts(w):
        a, b = Pair(w), Pair(2 * w)
        return a / 3.0, a - b
    want, (halves, rest) = parts(W), jit(parts)(W)
    assert type(halves) is list and type(halves[1]) is tuple and np.allclose(halves[0], want[0][0]) and type(rest) is Pair and np.allclose(rest.x, -W)
