# SPDX-License-Identifier: Apache-2.0
"""Idioms of tests of JAX and NumPy: slices as values, functions of operator, partial of loops, rules with *primals, orders of elements,
and derivatives where a function is filled by its limit."""
import functools
import operator
from functools import partial

import anfora
import anfora.numpy as anp
import numpy as np
from anfora import grad, jit, lax, scipy, tree_util

SECOND, PAIR = slice(1, None), slice(0, 2)


def same(got, want):
    for a, b in zip(tree_util.tree_leaves(got), tree_util.tree_leaves(want), strict=True):
        assert np.shape(a) == np.shape(b) and np.allclose(a, b, equal_nan=True), (got, want)


def test_slices_that_are_known_are_indices():
    x = np.arange(6.0).reshape(2, 3)
    def f(x, n):
        s = slice(0, n)
        return x[SECOND], x[SECOND, PAIR], x[s], x[:, s], x[tuple([slice(None), slice(0, 2)])], x[(slice(None),) + (slice(None, None, -1),)], [1, 2, 3][SECOND]
    same(jit(f, static_argnums=1)(x, 2), f(x, 2))
    def changed(x):
        y = x.copy()
        y[SECOND, PAIR] = 7.0
        return y
    same(jit(changed)(x), changed(x))


def test_functions_of_operator():
    x = np.array([1.0, 2.0, 4.0])
    def f(x):
        return (operator.add(x, 1), functools.reduce(operator.mul, [x, x, x]), operator.neg(x), operator.add(True, True), operator.lt(x, 2),
                operator.getitem(x, 1), operator.floordiv(7, 2), operator.truediv(7, 2))
    same(jit(f)(x), f(x))
    same(jit(lambda x: lax.associative_scan(operator.add, x))(x), np.cumsum(x))
    assert tree_util.tree_map(operator.sub, [1.0, 2.0], [4.0, 1.0]) == [-3.0, 1.0]


def test_partial_of_loops():
    step, x = lambda c, y: (c + y, c * y), np.arange(3.0)
    scan = partial(lax.scan, unroll=1)
    want = (3.0, np.array([0.0, 0.0, 2.0]))
    same(jit(lambda x: scan(step, 0.0, x))(x), want)
    same(jit(lambda x: anfora.checkpoint(partial(lax.scan, step), policy=None)(0.0, x))(x), want)
    same(grad(lambda x: anfora.checkpoint(partial(lax.scan, step, reverse=True))(0.0, x)[0])(x), np.ones(3))
    same(jit(lambda x: anfora.vmap(partial(anp.clip, min=0.5))(x))(x), np.array([0.5, 1.0, 2.0]))


def test_partial_from_outside():
    def f(n, x, y=2.0):
        return x * n + y
    rows = np.array([1.0, 2.0])
    some, named, of_array, branches = partial(f, 3), partial(f, 3, y=5.0), partial(f, rows), [partial(f, i) for i in range(3)]
    def g(i, x):
        return some(x), named(x), of_array(x), some(x, y=1.0), named(x, y=0.0), lax.switch(i, branches, x)
    same(jit(g)(1, 2.0), (8.0, 11.0, np.array([4.0, 6.0]), 7.0, 6.0, 4.0))
    rows[0] = 5.0  # elements are read at each call
    same(jit(g)(1, 2.0)[2], np.array([12.0, 6.0]))
    same(grad(lambda x: named(x) * some(x))(2.0), 3 * 8.0 + 11.0 * 3)


def test_rules_take_apart_what_they_are_given():
    @anfora.custom_jvp
    def f(x, y):
        return anp.sin(x) * y
    @f.defjvp
    def f_jvp(primals, tangents):
        (x, y), (dx, dy) = primals, tangents
        return f(*primals), np.cos(x) * y * dx + np.sin(x) * dy
    same(jit(grad(f, (0, 1)))(1.0, 2.0), (2 * np.cos(1), np.sin(1)))

    @anfora.custom_vjp
    def g(x, y):
        return x * y
    def products(a, b, d):
        return d * b, d * a
    g.defvjp(lambda x, y: (g(x, y), (x, y)), lambda kept, d: products(*kept, d))
    same(grad(g, (0, 1))(3.0, 4.0), (4.0, 3.0))


def test_orders_of_elements():
    x, v = np.arange(6.0).reshape(2, 3), np.array([1.0, 2.0, 4.0])
    def f(x, v):
        return (np.reshape(x, (3, 2), order="F"), x.reshape((3, -1), order="F"), np.ravel(x, order="F"), np.reshape(x, 6, order="F"), x.reshape(6, order="C"),
                np.vander(v, increasing=True), np.vander(v, N=2), np.tri(N=3, M=2), np.eye(N=3, M=2, k=1), np.triu_indices(3, k=1), np.full_like(x, 2.0, shape=(2, 2)),
                np.ediff1d(v, to_end=9.0), np.ediff1d(v, to_begin=[1.0, 2.0]))
    same(jit(f)(x, v), f(x, v))
    same(anp.reshape(x, (3, 2), order="F"), np.reshape(x, (3, 2), order="F"))
    def of_shapes(x):
        return np.tri(x.shape[0], x.shape[1], dtype=x.dtype), np.tri(x.shape[1]), np.eye(x.shape[0], M=x.shape[1]), np.vander(x[0], N=x.shape[0])
    same(jit(of_shapes)(x), of_shapes(x))
    same(anp.triu_indices(3, k=1), np.triu_indices(3, k=1))
    same(jit(lambda x: anp.argwhere(x, size=x.size // 2))(x), np.argwhere(x)[[0, 1, 2]])


def test_derivatives_of_limits():
    twice = lambda f: grad(grad(f))  # noqa: E731
    same(twice(anp.sinc)(0.0), -np.pi**2 / 3)
    same(twice(twice(anp.sinc))(0.0), np.pi**4 / 5)
    special = scipy.special
    same([grad(special.xlogy)(0.0, 3.0), grad(special.xlog1py)(0.0, 3.0), grad(special.xlogy, 1)(0.0, 3.0)], [np.log(3), np.log(4), 0.0])
    same([special.xlogy(0.0, 0.0), special.xlogy(2, 3), special.entr(0.5), grad(special.entr)(0.0), grad(special.entr)(0.5)],
         [0.0, 2 * np.log(3), 0.5 * np.log(2), np.inf, np.log(2) - 1])
    same([special.boxcox(2.0, 0.0), grad(special.boxcox, 1)(2.0, 0.0), twice(lambda k: special.boxcox(2.0, k))(0.0), special.boxcox(0.0, 0.0)],
         [np.log(2), np.log(2)**2 / 2, np.log(2)**3 / 3, -np.inf])


def test_indices_of_parts_of_matrices():
    def distances(x):
        i, j = np.triu_indices(x.shape[0], k=1)
        return np.sum((x[i] - x[j])**2), x[np.tril_indices(x.shape[0], m=x.shape[1])], x[np.diag_indices(x.shape[0])]
    x = np.arange(20.0).reshape(4, 5)**2
    same(jit(distances)(x), distances(x))
    same(grad(lambda x: distances(x)[0])(x), 2 * (4 * x - np.sum(x, 0)))
    for k in (-6, -2, 0, 1, 3, 7):
        at = jit(lambda x: (np.triu_indices(x.shape[0], k, x.shape[1]), np.tril_indices(x.shape[0], k, x.shape[1])))  # noqa: B023
        for n, m in ((3, 5), (5, 3), (4, 4), (1, 1), (0, 3)):
            want = np.triu_indices(n, k, m), np.tril_indices(n, k, m)
            assert all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in zip(sum(map(tuple, at(np.ones((n, m)))), ()), sum(want, ()))), (n, m, k)
