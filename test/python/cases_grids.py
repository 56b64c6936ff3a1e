# SPDX-License-Identifier: Apache-2.0
"""Lists of lists of numbers whose numbers change: one array, as long as no row has another name."""
import anfora
import numpy as np

from cases_meaning import refused

X = np.array([1.0, 2.0, 3.0])


def subsequence(a, b):
    n, m = len(a), len(b)
    t = [[0] * (m + 1) for _ in range(n + 1)]
    for i in range(n):
        for j in range(m):
            if a[i] == b[j]:
                t[i + 1][j + 1] = t[i][j] + 1
            else:
                t[i + 1][j + 1] = max(t[i][j + 1], t[i + 1][j])
    return t[n][m], t


def warped(a, b):
    d = [[float("inf")] * (len(b) + 1) for _ in range(len(a) + 1)]
    d[0][0] = 0.0
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            d[i][j] = (a[i - 1] - b[j - 1]) ** 2 + min(d[i - 1][j], d[i][j - 1], d[i - 1][j - 1])
    return d[-1][-1]


def widened(a, b):
    g = [[0] * 3 for _ in range(2)]
    h = [[[0.0 for _ in range(2)] for _ in range(3)] for _ in range(2)]
    for i in range(2):
        for j in range(3):
            g[i][j] += a[i] * b[j]
            h[i][j][0], h[i][j][1] = h[i][j][1] + b[j], a[i]
    return g, np.array(h), sum(g[0]), max(g[1]), len(g), len(g[0])


def test_as_python():
    for f in (subsequence, warped, widened):
        want, got = f(X, X[::-1] + 1), anfora.jit(f, backend="interp")(X, X[::-1] + 1)
        for w, g in zip(np.atleast_1d(want) if f is warped else want, np.atleast_1d(got) if f is warped else got):
            assert np.allclose(w, g), (f.__name__, want, got)


def test_derivative():
    d, e = anfora.grad(warped)(X, X + 0.25), 1e-6
    near = [(warped(X + e * (np.arange(3) == i), X + 0.25) - warped(X - e * (np.arange(3) == i), X + 0.25)) / (2 * e) for i in range(3)]
    assert np.allclose(d, near)


def row_named(x):
    g = [[0.0] * 3 for _ in range(2)]
    row = g[0]
    g[0][1] = x[0]
    return row


def one_row(x):
    g = [[0.0] * 3] * 2
    g[0][1] = x[0]
    return g


def rows_looped(x):
    g = [[0.0] * 3 for _ in range(2)]
    for row in g:
        row[0] = x[0]
        g[0][0] = 2.0
    return g


def named(x):
    g = [[0.0] * 3 for _ in range(2)]
    h = g
    h[0][0] = x[0]
    return g[0][0]


def read_within(x):
    g = [[0.0] * 3 for _ in range(2)]
    f = lambda: g[0][0]
    g[0][0] = x[0]
    return f()


def too_far(x):
    g = [[0.0] * 3 for _ in range(2)]
    for i in range(3):
        g[i][0] = x[i]
    return g


def test_refusals():
    for f in (row_named, one_row, rows_looped, named, read_within, too_far):
        refused(f, X.copy())
