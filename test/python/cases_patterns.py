# SPDX-License-Identifier: Apache-2.0
"""Patterns, :=, and several names bound at once."""
import dataclasses

import anfora
import anfora.numpy as jnp
import numpy as onp
from anfora import jit

rng = onp.random.default_rng(0)


def close(a, b, tol=1e-5):
    a, b = onp.asarray(a), onp.asarray(b)
    assert a.shape == b.shape and onp.allclose(a, b, rtol=tol, atol=tol), (a, b)


def test_unpack_tensor():
    @jit
    def f(x):
        a, b = x
        return a * 2 + b
    close(f(onp.array([1., 2.])), 4.0)
    @jit
    def g(x):
        a, *rest = x
        return a, rest
    @jit
    def h(xs):
        s = 0.0
        for a, b in xs:
            s = s + a * b
        return s
    close(h(onp.array([[1., 2.], [3., 4.]])), 14.0)
    r = g(onp.array([1., 2., 3.]))
    assert len(r[1]) == 2


def test_unpack_shape():
    @jit
    def f(x):
        b, t, c = x.shape
        n = x.ndim
        return x.reshape(b * t, c).sum(0) / n, x.reshape(-1, c), x.size
    x = rng.normal(size=(2, 3, 4))
    close(f(x)[0], x.reshape(6, 4).sum(0) / 3)
    assert f(x)[2] == 24
    @jit
    def g(x):
        *lead, c = x.shape
        return x.reshape(-1, c)
    assert g(x).shape == (6, 4)


def test_match():
    @jit
    def act(x, kind):
        match kind:
            case "relu":
                return jnp.maximum(x, 0)
            case "tanh" | "sigmoid":
                return jnp.tanh(x)
            case _:
                raise ValueError(kind)
    close(act(onp.array([-1., 2.]), "relu"), [0., 2.])
    close(act(onp.array([-1., 2.]), "tanh"), onp.tanh([-1., 2.]))
    @jit
    def num(n):
        match n:
            case 0:
                return 1.0
            case 1 | 2:
                return 2.0
            case k if k > 10:
                return 3.0 * k
            case _:
                return 4.0
    assert [num(k) for k in (0, 1, 2, 3, 11)] == [1.0, 2.0, 2.0, 4.0, 33.0]
    @jit
    def shp(p):
        match p:
            case (a, b):
                return a + b
            case (a, b, c):
                return a * b * c
            case {"x": x, "y": y}:
                return x - y
    assert shp((1., 2.)) == 3. and shp((2., 3., 4.)) == 24. and shp({"x": 5., "y": 1.}) == 4.


@dataclasses.dataclass
class Point:
    x: float
    y: float


def test_match_class():
    @jit
    def f(p):
        match p:
            case Point(x=a, y=b):
                return a * b
            case _:
                return 0.0
    assert f(Point(2., 3.)) == 6.
    @jit
    def g(p):
        match p:
            case Point(a, b):
                return a * b
    assert g(Point(2., 3.)) == 6.


def test_walrus():
    @jit
    def f(x):
        if (y := x * 2) > 3:
            return y
        return (z := y + 1) * z
    assert f(2.0) == 4.0 and f(1.0) == 9.0
    @jit
    def g(n):
        s = 0
        while (n := n - 1) > 0:
            s += n
        return s
    assert g(5) == 10


def refused(f, args, *words):
    try:
        jit(f)(*args)
    except anfora.AnforaError as e:
        assert all(w in str(e) for w in words), str(e)
        return
    raise AssertionError("it was not refused")


def test_what_is_refused():
    def many(x):
        a, b = x
        return a + b
    def sometimes(x):
        if x > 0 and (y := x * 2) > 1:
            return y
        return x
    def read_before(x):
        return x + (x := x * 2)
    def class_of_a_number(x):
        match x:
            case int():
                return 1
            case _:
                return 2
    refused(many, (onp.ones(3),), "there are 2 names for another number of items", "a, b = x")
    refused(many, ((1.0, 2.0, 3.0),), "there are 2 names for 3 items")
    refused(sometimes, (1.0,), "not always evaluated")
    refused(read_before, (1.0,), "x is read before it is bound here")
    refused(class_of_a_number, (1.0,), "have no classes in compiled functions")


def test_lists_that_loops_fill():
    @jit
    def f(xs, ys):
        outs, pairs, even = [], [], []
        total = 0.0
        for x, y in zip(xs, ys):
            total = total + x
            outs.append(total * y)
        for i, x in enumerate(xs):
            pairs.append(jnp.stack([x, total]) * i)
        for k in range(0, len(xs), 2):
            even.append(xs[k])
        return jnp.stack(outs), jnp.stack(pairs, axis=1), jnp.concatenate(pairs), even[-1], len(outs), sum(outs)
    xs, ys = onp.arange(1.0, 5.0), onp.arange(4.0)
    t = xs.sum()
    outs, pairs = onp.cumsum(xs) * ys, [onp.array([x, t]) * i for i, x in enumerate(xs)]
    for got, want in zip(f(xs, ys), (outs, onp.stack(pairs, 1), onp.concatenate(pairs), xs[2], 4, outs.sum())):
        close(got, want)
    refused(lambda xs: f.__wrapped__(xs, xs), (onp.zeros(0),), "the loop does not run")


def test_gradients_through_lists():
    def f(xs, w):
        h, hs = 0.0, []
        for x in xs:
            h = jnp.tanh(h * w + x)
            hs.append(h)
        return jnp.sum(jnp.stack(hs) ** 2)
    xs, e = onp.array([0.1, -0.4, 0.8]), 1e-6
    close(anfora.grad(f, 1)(xs, 0.5), (float(jit(f)(xs, 0.5 + e)) - float(jit(f)(xs, 0.5 - e))) / (2 * e), 1e-5)
