# SPDX-License-Identifier: Apache-2.0
"""Numerical programs by loops over arrays, as textbooks write them: Python's value, and a gradient that is that of differences."""
import anfora
import numpy as np


def point(n):
    return 0.5 + 0.49 * np.sin(1.7 * np.arange(n) + 0.4)


def check(f, n=66):
    x, step = point(n), np.cos(0.9 * np.arange(n)) * 1e-6
    value, slope = anfora.value_and_grad(f)(x)
    assert abs(float(value) - f(x)) <= 1e-11 * (1 + abs(f(x))), (f.__name__, float(value), f(x))
    want, got = (f(x + step) - f(x - step)) / 2, float(np.asarray(slope) @ step)
    assert abs(want - got) <= 1e-7 * (abs(want) + 1e-6), (f.__name__, got, want)


def test_a_loop_that_return_leaves():
    def f(x):
        z, s = np.zeros(len(x)), 0.0
        for i in range(1, len(x)):
            z[i] = 0.5 * z[i - 1] + x[i]
            s += z[i]
            if s > 0.9 * len(x):
                return np.sum(z * z) * 0.5
        return np.sum(z * z)
    check(f)


def test_a_loop_that_return_leaves_with_an_array():
    def fill(x):
        z = np.zeros(len(x))
        for i in range(1, len(x)):
            z[i] = 0.5 * z[i - 1] + x[i]
            if z[i] > 1.95:
                return z
        return z * 2

    def f(x):
        z = fill(x)
        return np.sum(z * z)
    check(f)


def test_the_best_so_far_is_copied():
    def f(x):
        z, fb = x.copy(), 1e9
        best = z.copy()
        for i in range(1, len(x)):
            z[i] = 0.5 * z[i - 1] + x[i]
            if abs(z[i] - 1.0) < fb:
                fb = abs(z[i] - 1.0)
                best = z.copy()
        return np.sum(best * best) + fb
    check(f)


def test_a_candidate_is_taken_or_dropped():
    def f(x):
        z, e = x.copy(), np.sum(x * x)
        for i in range(len(x)):
            c = z.copy()
            c[i] = z[i] * 0.5 + 0.1
            g = e - z[i] * z[i] + c[i] * c[i]
            if g < e:
                z, e = c, g
        return e + np.sum(z * z * z)
    check(f)
