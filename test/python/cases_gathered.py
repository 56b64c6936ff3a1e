# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E701, E702
"""Generators gone through at once, leaves of trees that only their type tells, lists here and tuples there, and other words of programs that
users write for JAX and autograd."""
import collections

import numpy as np

import anfora
import anfora.numpy as jnp
from anfora import grad, jit, lax, tree_util, vmap
from anfora.flatten_util import ravel_pytree
from anfora.numpy.linalg import solve

X = np.array([1.0, 2.0, 3.0])


def same(got, want):
    assert type(got) is type(want) or not isinstance(want, (list, tuple, dict)), (got, want)
    if isinstance(want, dict):
        assert list(got) == list(want), (got, want)
        return same(list(got.values()), list(want.values()))
    if isinstance(want, (list, tuple)):
        assert len(got) == len(want), (got, want)
        for g, w in zip(got, want):
            same(g, w)
        return None
    assert np.shape(got) == np.shape(want) and np.allclose(np.asarray(got), np.asarray(want)), (got, want)
    return None


def refused(f, *args, words=""):
    try:
        got = f(*args)
    except anfora.CompileError as e:
        assert words in str(e), str(e)
        return
    raise AssertionError(f"{got} and no error")


def neighbours(xs, n):
    for i in range(1, n):
        yield xs[i - 1], xs[i]


def layers(w, sizes):
    at = 0
    for m, n in sizes:
        yield w[at:at + m * n].reshape(m, n), m
        at += m * n


def fibonacci(n):
    a, b = 0.0, 1.0
    while n > 0:
        yield a
        a, b = b, a + b
        n -= 1


def endless():
    i = 0
    while True:
        yield i
        i += 1


def test_generators():
    def products(x): return sum(a * b for a, b in neighbours(x, 3))

    def network(x):
        out = jnp.ones((1, 1))
        for w, m in layers(x, [(1, 2), (1, 1)]):
            out = jnp.sum(out) + w * m
        return out

    def summed(x):
        t = 0.0
        for v in fibonacci(5):
            t = t + v * x
        return t, list(fibonacci(4)), [v + 1 for v in fibonacci(3)]

    def within(x):
        def g():
            yield x
            yield 2 * x
            yield from [3 * x, 4 * x]
        return np.stack(list(g()))

    def rebound(x):
        y = x * 2
        for i, (a, b) in enumerate(neighbours(y, 3)):
            y = y + a * b * i
        return y
    for f in (products, network, summed, within, rebound):
        same(jit(f)(X), f(X))
    same(grad(products)(X), np.array([2.0, 4.0, 2.0]))


def test_generators_refused():
    def ends_by_break(x):
        for i in endless():
            if i > 3: break
        return x + i

    def read_twice(x):
        g = fibonacci(4)
        return sum(g) + sum(g) + x

    def seen(x):
        y = x * 2
        for a, b in neighbours(y, 3):
            y[1] = 9.0
            x = x + a * b
        return x

    def captured(x):
        n = 1.0

        def g():
            for i in range(3): yield n * i
        t = 0.0
        for v in g():
            n = n + 1
            t = t + v
        return t + x
    for f in (ends_by_break, read_twice, seen, captured, lambda x: fibonacci(3), lambda x: [fibonacci, x]):
        refused(jit(f), X)


P = {"a": np.ones(3), "b": np.array(2.0)}


def energy(p): return 0.5 * sum(jnp.sum(x * x) for x in tree_util.tree_leaves(p))


def test_leaves_by_type():
    def counted(p): return 1.0 * len(tree_util.tree_leaves(p)) + 0.0 * energy(p)

    def by_name(p):
        slope = grad(energy)

        def one(q): return slope(q)
        return lax.fori_loop(0, 2, lambda i, s: tree_util.tree_map(lambda x, d: x + d, s, one(s)), p)

    def number(p):
        inner = anfora.checkpoint(counted)

        def one(q): return inner(q)
        return one(p), one((p, p, None)), one([X])
    same(jit(by_name)(P), {"a": 4 * np.ones(3), "b": np.array(8.0)})
    same(jit(number)(P), (2.0, 4.0, 1.0))
    same(jit(lambda p: jit(energy)(p))(P), 3.5)


def test_ravel_within():
    def shifted(p, d):
        flat, back = ravel_pytree(p)
        return back(flat + d), flat
    got, flat = jit(shifted)(P, 1.0)
    same(got, {"a": 2 * np.ones(3), "b": np.array(3.0)})
    same(flat, np.array([1.0, 1.0, 1.0, 2.0]))
    same(grad(lambda p: jnp.sum(ravel_pytree(p)[0] ** 2))(P), {"a": 2 * np.ones(3), "b": np.array(4.0)})
    refused(jit(lambda p: ravel_pytree(p)[0]), (np.ones(2), np.ones(2, np.int32)), words="several element types")


def test_kinds_of_two_ways():
    def chosen(c, x): return [x, x] if c > 0 else (x, x)

    def branch(c, x):
        y = {"k": (x, x)}
        if c > 0:
            y["k"] = [x, x]
        return y

    def loop(c, x):
        y = (x, x)
        while c > 0:
            y, c = [x, y[0]], c - 1
        return y

    def part(c, x):
        y = (x, (x, x))
        for _ in range(int(c)):
            y = (x, [x, x])
        return y[1]

    def functions(c, x):
        f = (lambda: [x, x]) if c > 0 else (lambda: (x, x))
        return f()

    def returned(c, x):
        if c > 0:
            return [x, x]
        return (x, x)
    for f in (chosen, branch, loop, part, functions, returned):
        refused(jit(f), np.array(1), 2.0, words="a list here and a tuple there")

    def parts(c, x):  # which of both it is does not matter
        a, b = [x, 2 * x] if c > 0 else (x, 3 * x)
        return a + b, list(chosen(c, x)), tuple(part(c, x))

    def rebound(x):
        y = (x, x)
        y = [y[0], 2.0]
        return y
    same(jit(parts)(1, 2.0), (6.0, [2.0, 2.0], (2.0, 2.0)))
    same(jit(rebound)(2.0), [2.0, 2.0])


Model = collections.namedtuple("Model", "w b")
SHAPE = (jnp.array(3), 1)
MODEL, OPTIONS = Model(np.ones(2), 0.5), {"sigma": 2.0}


def test_words_of_users():
    same(jit(lambda q: MODEL._replace(b=q).b * MODEL._replace(b=q).w)(3.0), np.array([3.0, 3.0]))

    def scaled(x, sigma=1.0, epsilon=1.0): return x * sigma * epsilon

    def options(x, **more):
        given = dict(OPTIONS, **more)
        return scaled(x, **given)
    same(jit(lambda x: options(x) + options(x, epsilon=3.0))(1.0), 8.0)
    same(jit(lambda n, e: jnp.repeat(jnp.arange(2), n, total_repeat_length=e.shape[0]))(np.array([1, 2]), np.ones(3)), np.array([0, 1, 1]))
    for p in (True, False):
        same(lax.cond(p, lambda _: 1.0, lambda _: 2.0, operand=None), 1.0 if p else 2.0)
        same(jit(lambda p, x: lax.cond(p, lambda _: x, lambda _: 2 * x, operand=None))(p, 3.0), 3.0 if p else 6.0)
        same(jit(lambda p, x: lax.cond(p, lambda y: y, lambda y: 2 * y, operand=x))(p, 3.0), 3.0 if p else 6.0)

    def stacked(p, x):
        rows = []
        for a, b in zip(*p):
            rows.append(a + b * x)
        return jnp.vstack(rows)
    same(jit(stacked)((np.ones(2), np.eye(2)), 2.0), np.array([[3.0, 1.0], [1.0, 3.0]]))

    def doubled(x): return x * 2 if isinstance(x, (jnp.ndarray, np.ndarray)) else x
    same(jit(doubled)(X), X * 2)
    same(jit(doubled)(3.0), 3.0)
    same(vmap(doubled)(X), X * 2)
    same(jit(lambda v: jnp.reshape(v, SHAPE))(X), X[:, None])
    same(solve(np.eye(3), X), X)


def test_parts_replaced_in_loops():
    def by_key(x):
        f = {k: jnp.zeros(2) for k in range(2)}
        for j in range(x.shape[0]):
            if j == 1: continue
            for k in f: f[k] = f[k] + k * x[j]
        return f

    def until(x):
        f = {"a": x}
        while f["a"][0] < 10: f["a"] = f["a"] * 2
        return f

    def exchanged(x):
        f = [[x], [x]]
        for _ in range(x.shape[0]):
            f[0] = f[1]
            f[1] = [f[0][0] + 1]
        return f

    def items(x):
        f = {"a": x, "b": 2 * x}
        for k, v in f.items(): f[k] = v + 1
        return f
    for f in (by_key, until, exchanged, items):
        same(jit(f)(X), f(X))

    def two_names(x):
        f = {"a": x}
        g = f
        for j in range(x.shape[0]): f["a"] = f["a"] + x[j]
        return f["a"], g["a"]

    def later(x):
        f, g = {"a": x}, {"a": 2 * x}
        for j in range(x.shape[0]):
            f["a"] = f["a"] + x[j]
            g = f
        return f["a"], g["a"]

    def kept(x):
        f, rows = {"a": x}, []
        for _ in range(x.shape[0]):
            f["a"] = f["a"] * 2
            rows.append(f)
        return rows
    for f in (two_names, later, kept):
        refused(jit(f), X)


def test_kinds_of_what_bodies_give():
    def scanned(x):
        def step(s, a): return s, (s, a)
        return lax.scan(anfora.checkpoint(step), x[0], x)
    same(jit(scanned)(X), (1.0, (np.ones(3), X)))

    def unknown(x):
        def over(f): return lax.scan(f, x[0], x)
        return over(lambda s, a: (s, [s, a]))
    refused(jit(unknown), X, words="a list or a tuple")
    same(jnp.split(X, indices_or_sections=3), [X[:1], X[1:2], X[2:]])
    same(jit(lambda x: jnp.split(x, indices_or_sections=3))(X), [X[:1], X[1:2], X[2:]])

    def decayed(p): return sum(jnp.sum(w) for w in tree_util.tree_leaves(p) if w.ndim > 0)
    same(jit(decayed)(P), 3.0)
    same(grad(decayed)(P), {"a": np.ones(3), "b": np.array(0.0)})
