# SPDX-License-Identifier: Apache-2.0
"""Results that have as many elements as values say, in compiled functions: NumPy's values, types and structure. The exercises are of the kind
of Rougier's "100 NumPy exercises"."""
import copy
import warnings

import anfora
import anfora.numpy as anp
import numpy as np
from anfora import jit
from numpy.lib.stride_tricks import sliding_window_view

rng = np.random.default_rng(3)
M = rng.integers(0, 3, (6, 3))
M[0] = [1, 0, 2]
R = rng.random((4, 4))
V = np.array([0.0, 3.0, 0.0, 1.0, 3.0, 0.0])


def alike(want, got):
    if isinstance(want, (list, tuple)):
        assert type(got).__name__ == type(want).__name__ and len(got) == len(want), (want, got)
        for w, g in zip(want, got):
            alike(w, g)
        return
    w, g = np.asarray(want), np.asarray(got)
    assert w.shape == g.shape and w.dtype == g.dtype and np.allclose(w, g, rtol=1e-12, atol=1e-12, equal_nan=True), (want, got)


def same(f, *args):
    want = f(*copy.deepcopy(args))
    alike(tuple(want) if type(want) is not tuple and isinstance(want, tuple) else want, jit(f)(*args))


def quiet(test):
    """Sizes that values decide are interpreted, which a warning says: test_it_is_said looks at that."""
    def run():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            test()
    run.__name__ = test.__name__
    return run


@quiet
def test_where_something_is():
    same(lambda x: (np.nonzero(x), np.flatnonzero(x), np.argwhere(x > 0), np.where(x > 1), x.nonzero()), M)
    same(lambda x: (np.where(x[0] > 0)[0][0], (x > 1).nonzero()[0].sum(), len(np.nonzero(x)[0])), M)
    same(lambda x: x[np.nonzero(x > 0.5)], R)
    same(lambda x: (np.compress(x[:, 0] > 0, x, axis=0), np.extract(x > 0, x), np.compress(x[0] > 0, x, axis=1)), M)
    same(lambda x: (np.trim_zeros(x), np.trim_zeros(x, "b"), np.trim_zeros(x, "f"), np.trim_zeros(x * 0)), V)
    same(lambda x: np.argwhere(x > 9), M)


@quiet
def test_what_occurs():
    same(lambda x: (np.unique(x), np.unique(x, return_counts=True), np.unique(x[:, 0], return_index=True, return_inverse=True)), M)
    same(lambda x: (np.unique(x, axis=0), np.unique(x, axis=1), len(np.unique(x, axis=0))), M)
    same(lambda x: (np.unique(np.concatenate([x, [np.nan, np.nan]])), np.unique(x[:0])), V)
    same(lambda x: [len(np.unique(row)) for row in x], M)

    def commonest(x):
        values, counts = np.unique(x, return_counts=True)
        return values[np.argmax(counts)]
    same(commonest, M)
    same(lambda x, y: (np.intersect1d(x, y), np.union1d(x, y), np.setdiff1d(x, y), np.setxor1d(x, y)), M[:, 0], np.array([1, 5, 0]))
    same(lambda x: (np.bincount(x), np.bincount(x, minlength=7), np.bincount(x, weights=x * 0.5), np.bincount([1, 1, 4])), M[:, 1])
    same(lambda x: (np.bincount(x, minlength=len(x)), np.bincount(x).argmax()), M[:, 1])
    same(lambda x, n: (np.repeat(x, n), np.repeat(x, [1, 0, 2, 3]), np.repeat(x, [2]), np.repeat(x[None], n, axis=1)), R[0], np.array([2, 0, 1, 3]))


@quiet
def test_parts_by_masks():
    same(lambda x: (x[:, x[0] > 0], x[x[:, 0] > 0, 1], x[x[:, 0] > 0, :][:, x[0] > 0], x[x[:, 0] > 0, 1:]), M)
    same(lambda x: (x[x[:, 0] > 0][:, 0], x[~(x[:, 0] > 0)].mean(axis=0), x[(x[:, 0] > 0) & (x[:, 1] == 0)].shape[0]), M)

    def written(x):
        a, m = x.astype(float), x[:, 0] > 0
        a[m, 1] = 7.0
        a[m, 0] += 2.0
        a[:, x[0] > 0] *= 3.0
        a[m, 2] = np.arange(np.sum(m))
        a[m, 1:] -= 0.5
        return a
    same(written, M)

    def shrinking(x):
        for _ in range(3):
            x = x[x > np.mean(x)] if len(x) > 2 else x
        while len(x) > 1:
            x = x[1:]
        return x
    same(shrinking, R[0])

    def medians(x):
        s = 0.0
        for row in x:
            s += np.median(row[row > 0]) if np.any(row > 0) else 0.0
        return s
    same(medians, M)


@quiet
def test_parts_of_parts_are_written():
    def f(x):
        x = x.copy()
        x[1:, :2][x[1:, :2] > 0.5] = 0.0
        x[:2][:, 1] += 1.0
        x[1:3, 1:][0] = 5.0
        return x
    same(f, R)

    def life(z):
        n = sum(z[i:i + z.shape[0] - 2, j:j + z.shape[1] - 2] for i in range(3) for j in range(3)) - z[1:-1, 1:-1]
        birth, stays = (n == 3) & (z[1:-1, 1:-1] == 0), ((n == 2) | (n == 3)) & (z[1:-1, 1:-1] == 1)
        z[...] = 0
        z[1:-1, 1:-1][birth | stays] = 1
        return z

    def lives(z):
        z = z.copy()
        for _ in range(4):
            z = life(z)
        return z
    same(lives, rng.integers(0, 2, (8, 9)))


@quiet
def test_functions_that_write():
    def f(x):
        x = x.copy()
        np.putmask(x, x > 0.5, -1.0)
        np.putmask(x, x < 0.2, np.array([1.0, 2.0, 3.0]))
        np.place(x, x == -1.0, [5.0, 6.0])
        np.put(x, [0, 3, -1], [7.0, 8.0, 9.0])
        np.fill_diagonal(x, 2.0)
        return x
    same(f, R)


@quiet
def test_bits_windows_and_ranges():
    same(lambda x: (np.packbits(x), np.packbits(x, axis=1), np.packbits(x, bitorder="little")), (R > 0.5).astype(np.uint8)[:, :3])
    same(lambda x: (np.unpackbits(x), np.unpackbits(x, axis=0), np.unpackbits(x, count=13), np.unpackbits(x, bitorder="little")), M.astype(np.uint8) * 77)
    same(lambda x: (sliding_window_view(x, (2, 2)), sliding_window_view(x, 2, axis=1), sliding_window_view(x, (3,), 0).max(axis=-1)), R)
    same(lambda x: (np.sum(range(5)), np.mean(range(1, 10, 2)), np.array(range(4)) * x[0], np.cumsum(range(x.shape[0]))), R)
    same(lambda x: (x.flat[5], x.flat[np.argmax(x)], sum(v for v in x.flat)), R)
    same(lambda x: (x.view(np.int64), x.astype(np.float32).view(np.uint32) >> 23), R)
    same(lambda x: (x.itemsize, x.nbytes, x.astype(np.float32).nbytes), R)

    def seen_through(x):
        y = x.copy()
        z = y.view(np.int64)
        z[0] = 0
        return y
    try:
        same(seen_through, R)
    except anfora.CompileError as e:
        assert "may share its memory" in str(e), e

    def enumerated(x):
        s = 0.0
        for (i, j), v in np.ndenumerate(x):
            s += (i + 2 * j) * v
        return s
    same(enumerated, R)


def test_reductions_from_indices():
    same(lambda x: (np.add.reduceat(x, [0, 2, 1, 3]), np.add.reduceat(x, np.arange(0, 4, 2), axis=1), np.maximum.reduceat(x, [1, 3], 1)), R)
    same(lambda x: (np.multiply.reduceat(x, [0, 2]), np.logical_or.reduceat(x > 1, [0, 4, 5]), np.minimum.reduceat(x, [5, 0], axis=0)), M)


@quiet
def test_lists_as_long_as_data_say():
    def chosen(x):
        out = []
        for v in x:
            if v > 1:
                out.append(v)
        return out
    same(lambda x: [float(v) for v in chosen(x)], V)

    def until(x):
        out, k = [], 0
        while x[k] < 3:
            out.append(x[k] * 2)
            k += 1
        return np.array(out)
    same(until, V)


def test_it_is_said():
    def said(f, *args):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            jit(f)(*args)
        return "; ".join(str(w.message) for w in found)
    assert "W0908" in said(lambda x: np.unique(x), M)
    loop = said(lambda x: [len(np.unique(row)) for row in x], M)
    assert "W0908" in loop and "calls are interpreted" in loop and "(line " in loop, loop
    assert said(lambda x: np.sum(x[x > 0.5]), R) == ""


@quiet
def test_errors_are_those_of_the_call():
    def at(x):
        k = np.nonzero(x)[0]
        for i in range(3):
            x = x + np.unique(x)[:1] * k[i]
        return x
    same(at, np.array([1.0, 2.0, 3.0]))
    try:
        jit(at)(np.array([0.0, 2.0, 0.0]))
    except IndexError as e:
        assert "k[i]" in str(e), e
    else:
        raise AssertionError("an index outside was not found")
