# SPDX-License-Identifier: Apache-2.0
"""Functions that change arguments in place whose names exchange their arrays, and results that are what a function has changed."""
import anfora
import numpy as np

from cases_stores import differences, refused, same

A, B = np.array([0.5, -1.0, 2.0, 0.25, 3.0]), np.array([1.0, 4.0, -2.0, 0.5, 1.5])


def jacobi(a, b, n):
    for _ in range(n):
        for i in range(1, len(a) - 1):
            b[i] = 0.5 * (a[i - 1] + a[i + 1])
        a, b = b, a
    return a


def waves(p, q, n):
    if n == 0:
        return q.sum()
    r = np.zeros_like(p)
    for _ in range(n):
        r[1:-1] = 2 * q[1:-1] - p[1:-1] + 0.1 * (q[:-2] - 2 * q[1:-1] + q[2:])
        if r[2] > 1e3:
            return r.sum()
        p, q, r = q, r, p
    return q.sum()


def carried(a, b, n):
    k = 0
    while k < n:
        b[1:] = a[:-1]
        t = a
        a = b
        b = t
        k += 1


def larger(a, b, _n):
    if a[0] < b[0]:
        a, b = b, a
    a[0] = 7.0
    return a - b


def with_one_made(a, b, n):
    c = a.copy()
    for _ in range(n):
        c[1:-1] = 0.5 * (a[:-2] + a[2:]) + b[1:-1]
        a, c = c, a
    return (a * c).sum()


def called(f):
    def both(a, b, n):
        x, y = a.copy(), b * 1
        r = f(x, y, n)
        return 0 if r is None else r * 2, x, y
    return both


def test_arguments_change_by_the_name_that_they_have():
    for f in (jacobi, waves, carried, larger, with_one_made):
        for n in (0, 1, 2, 3):
            same(called(f), A, B, n)
    same(called(larger), B, A, 1)


def rounds(a, b):
    x, y = a.copy(), b.copy()
    for _ in range(3):
        jacobi(x, y, 1)
        x += 1.0
    return (x * x).sum() + (x * y).sum()


def test_gradients():
    for k, g in enumerate(anfora.jit(anfora.grad(rounds, wrt=(0, 1)))(A, B)):
        want = differences(lambda v, k=k: rounds(*[v if i == k else x for i, x in enumerate((A, B))]), (A, B)[k])
        assert np.allclose(np.asarray(g), want, atol=1e-6)


def copied_before(a, n):
    a, b = a.copy(), a.copy()
    for _ in range(n):
        b[1:] = a[:-1]
        a, b = b, a
    return a


def not_copied(a, n):
    b = a.copy()
    for _ in range(n):
        b[1:] = a[:-1]
        a, b = b, a
    return a


def test_arrays_of_the_function():
    """A copy under the argument's name exchanges, too, and a part of one is stored into the other as it is."""
    for n in (0, 1, 2):
        same(copied_before, A, n)
    refused(not_copied, "write a = a.copy() before", A, 2)


def first(a, b, _n):
    a[0], b[0] = 1.0, 2.0
    return a


def part(a, b, _n):
    a[0], b[0] = 1.0, 2.0
    return b[1:]


def kept(a, b, n):
    for _ in range(n):
        b[0] = a[1]
        a, b = b, a
    w = a
    return w


def element_first(a, b, n):
    a[0], b[0] = 1.0, 2.0
    if n > 5:
        return a.sum()
    return b[1]


def row(a, b, _n):
    b[0] = 2.0
    a[0] = b[0]
    return b[1]


def longer(xs):
    xs.append(xs[0] * 2)
    return xs[0]


def items_of_a_list(a, b):
    xs = [a, b]
    r = longer(xs)
    longer(xs)
    return r + xs[2] * xs[3]


def seen_later(f):
    def both(a, b):
        x, y = a.copy(), b.copy()
        r = f(x, y, 2)
        x[1] = y[1] = 50.0
        return r
    return both


def changed_later(a, b):
    x, y = a.copy(), b.copy()
    r = kept(x, y, 2)
    r[1] = 50.0
    return x, y


def test_results_that_are_what_changed():
    """A change after the call is seen by the result, and one of the result by the argument."""
    for f in (first, part, jacobi, kept):
        refused(seen_later(f), "which r would see", A, B)
    same(seen_later(element_first), A, B)
    same(seen_later(row), A, B)
    same(items_of_a_list, A, B)
    refused(seen_later(row), "a part of", np.outer(A, B), np.outer(B, A))
    refused(changed_later, "r = kept(x, y, 2)", A, B)
