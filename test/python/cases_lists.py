# SPDX-License-Identifier: Apache-2.0
"""Lists of tuples, lists and dictionaries: what loops fill, comprehensions make and functions return is what Python gives."""
import functools
import math
import warnings
from typing import Any, NamedTuple

import anfora
import numpy as np
from anfora import grad, jit, lax
from random_programs import differs

X = np.array([1.0, 5.0, 7.0])


def both(v):
    return v, 2 * v


def tuples(x):
    out = []
    for v in x:
        out.append((v, 2 * v))
    return out


def dictionaries(x):
    out = []
    for i, v in enumerate(x):
        out.append({"i": i, "v": v})
    return out, out[1]["v"], len(out)


def lists(x):
    out = []
    for v in x:
        out.append([v, v, 3.0])
    return {"r": out}


def named(x):
    out = []
    for v in x:
        r = both(v)
        out.append(r)
    return out, len(out)


def called(x):
    return len(tuples(x)), tuples(x)[-1]


def taken_apart(x):
    out = []
    for v in x:
        out.append((v, v * v))
    s = 0.0
    for a, b in out:
        s += a * b
    return s, [b for a, b in out], out[0]


def arrays(x):
    out, more = [], []
    for v in x:
        out.append([v, (v, 1.0)[1]])
        more.append(both(v))
    return np.array(out), np.array(more).sum(axis=0), np.stack(out)


def matrix(x):
    out = []
    for v in x:
        row = []
        for u in x:
            row.append(u * v)
        out.append(row)
    return np.array(out)


def nothing(x):
    out, more = [], []
    for v in x:
        out.append(None)
        more.append((v, None))
    return len(out), more


def one_list(x):
    y = [x]
    out = []
    for _ in x:
        out.append(y)
    z = [y for _ in x][1:]
    return out, [y for _ in x], [y for _, _ in zip(x, [1, 2, 3])][::-1], z


def constants(x):
    z = [[]]
    z.append(x[0])
    w = [[x[1]]]
    for i in range(2):
        w.append([i])
    return z, w


def like(want, got):
    """Does a result have Python's structure, dictionaries and None included?"""
    if isinstance(want, dict):
        return isinstance(got, dict) and want.keys() == got.keys() and all(like(want[k], got[k]) for k in want)
    if isinstance(want, (tuple, list)):
        return type(got) is type(want) and len(got) == len(want) and all(map(like, want, got))
    if isinstance(want, np.ndarray) and want.ndim and isinstance(got, list):
        return False
    return got is None if want is None else differs(want, got) is None


def test_structures_are_pythons():
    for f in (tuples, dictionaries, lists, named, called, taken_apart, arrays, nothing, one_list, constants):
        want = f(X)
        for backend in ("interp", "llvm"):
            got = jit(f, backend=backend)(X)
            assert like(want, got), f"{f.__name__} by {backend}: {want!r} became {got!r}"


def test_rows_of_numbers_stay_arrays():
    assert np.array_equal(jit(matrix)(X), np.outer(X, X))


def test_gradients_go_through_lists_of_tuples():
    def loss(x):
        out = []
        for v in x:
            out.append((v, v * v))
        return sum(a * b for a, b in out)
    assert np.allclose(grad(loss)(X), 3 * X**2)


def test_calls_that_python_refuses():
    for f, why in ((lambda x: np.clip(), "'a'"), (lambda x: np.stack([x, x], 0, 1, 2), "too many"), (lambda x: sum(), "iterable"),
                   (lambda x: np.sum(), "'a'"), (lambda x: max(), "at least 1"), (lambda x: len(x, x), "too many")):
        try:
            jit(f)(X)
        except anfora.CompileError as e:
            assert why in str(e) and "cases_lists.py" in str(e), str(e)
        else:
            raise AssertionError(why)


def comprehended(n, v):
    for _ in range(n):
        v = np.array([x * 2 for x in [n, 2.0, 3.0]])
    return v * 1.0, [x for x in (1.0, 2.0)]


def test_variables_of_comprehensions_are_not_the_loops():
    for n in (0, 2):
        assert differs(comprehended(n, X), jit(comprehended)(n, X)) is None


# ---- lists as long as an argument, of which a loop replaces items ----

def recurrence(x):
    hs = [0.0] * len(x)
    for i in range(1, len(hs)):
        hs[i] = hs[i - 1] * 0.5 + x[i]
    return sum(hs)


def comprehended_items(x):
    i = 2  # is not the comprehension's
    hs = [x[i] * 2.0 for i in range(x.shape[0])]
    hs[0] = 1.0
    for j in range(1, len(hs)):
        hs[j] = max(hs[j - 1], hs[j]) * x[i]
    return hs[-1] + hs[0] + len(hs)


def best_apart(x):  # the largest sum of items of which no two are neighbours
    best = (len(x) + 2) * [0.0]
    for i in range(len(x)):
        best[i + 2] = max(best[i + 1], best[i] + x[i])
    return best[-1]


def counts(x):
    c = [0 for _ in x]
    for i in range(len(x)):
        c[i] = c[i - 1] + 1
    s = 0.0
    for i in range(len(x)):
        s += c[i] * x[i]
    return s


def vectors(x):
    hs = [np.zeros(3)] * len(x)
    for i in range(1, len(x)):
        hs[i] = np.tanh(hs[i - 1] + x[i])
    return np.sum(hs[-1])


def test_lists_as_long_as_an_argument():
    for n in (3, 700):
        x = np.linspace(0.2, 0.9, n)
        for f in (recurrence, comprehended_items, best_apart, counts, vectors):
            for backend in ("interp", "llvm"):
                assert np.isclose(f(x), jit(f, backend=backend)(x), rtol=1e-12), f"{f.__name__} of {n} by {backend}"
            d, h = np.cos(np.arange(n)), 1e-6
            slope = (f(x + h * d) - f(x - h * d)) / (2 * h)
            assert np.isclose(np.sum(np.asarray(grad(f)(x)) * d), slope, rtol=1e-5), f.__name__


# ---- comprehensions over as many parts as an argument has ----

def squares(x):
    return np.sum(np.array([x[i] * x[i - 1] for i in range(x.shape[0])]) * x)


def rows(x):
    return np.sum(np.stack([np.array([v, v * v, 1]) for v in x]) * 0.5)


def windows(x):
    return np.sum(np.array([np.sum(x[i:i + 2]) * (x[i] if i % 2 else 1.0) for i in range(len(x) - 2)]))


def taken_together(x):
    total = sum([v * v for v in x]) + sum(v > 0.5 for v in x) + sum(i for i in range(len(x))) + max(v * 2 for v in x)
    return total * min([x[i] for i in range(len(x))]) * any(v > 0.3 for v in x) * all([v < 2 for v in x]) * (1 - any(v > 3 for v in [x[0], x[1]]))


def test_comprehensions_over_many():
    for n in (3, 65, 3000):  # a loop makes those of more than 64, whose code is as short then
        x = np.linspace(0.2, 0.9, n)
        for f in (squares, rows, windows, taken_together):
            for backend in ("interp", "llvm"):
                assert np.isclose(f(x), jit(f, backend=backend)(x), rtol=1e-12), f"{f.__name__} of {n} by {backend}"
            d, h = np.cos(np.arange(n)), 1e-6
            slope = (f(x + h * d) - f(x - h * d)) / (2 * h)
            assert np.isclose(np.sum(np.asarray(grad(f)(x)) * d), slope, rtol=1e-5), f.__name__


# ---- loops and choices of the library, of functions that give lists ----

def carried(c, v):
    return [c[0] + v, c[1] * 2], [v, {"a": [v]}]


def named(v):
    y = in_list(v)
    return {"k": y}


def in_list(v):
    return [v]


def structure(x):
    if isinstance(x, dict):
        return {k: structure(v) for k, v in x.items()}
    return type(x)(map(structure, x)) if isinstance(x, (list, tuple)) else np.asarray(x).shape


def test_lists_through_loops_of_the_library():
    want = ([(), ()], [(3,), {"a": [(3,)]}])
    over = lambda x: lax.scan(carried, [0.0, 1.0], x)  # noqa: E731
    for got in (over(X), jit(over)(X), lax.scan(lambda c, v: ([c[0] + v, c[1] * 2], [v, {"a": [v]}]), [0.0, 1.0], X, reverse=True)):
        assert structure(got) == want and got[0][0] == 13.0 and got[0][1] == 8.0
    assert structure(lax.map(named, X)) == structure(jit(lambda x: lax.map(named, x))(X)) == {"k": [(3,)]}
    assert structure(lax.cond(True, named, named, 1.0)) == structure(jit(named)(1.0)) == {"k": [()]}
    assert structure(lax.fori_loop(0, 3, lambda i, s: [s[0] + i, s[1]], [0.0, 1.0])) == [(), ()]
    assert structure(jit(anfora.vmap(named))(X)) == {"k": [(3,)]}


class Belief(NamedTuple):
    mean: Any
    cov: Any


def test_named_tuples_that_a_loop_carries():
    def filtered(s, y):
        m, p = s
        k = p / (p + 1.0)
        return Belief(m + k * (y - m), (1 - k) * p), (s, y)
    for f in (lax.scan, jit(lambda f, s, ys: lax.scan(f, s, ys), static_argnums=0)):
        last, (before, ys) = f(filtered, Belief(np.zeros(2), np.ones(2)), np.stack([X, X], 1))
        assert type(last) is Belief and type(before) is Belief and before.mean.shape == (3, 2) and ys.shape == (3, 2)
        assert np.allclose(last.mean, 13 / 4) and np.allclose(last.cov, 1 / 4)


def test_scan_through_captured_arrays():
    pairs, scale = (X, X * 2), {"a": X}
    f = jit(lambda q: lax.scan(lambda c, r: (c + r[0] * r[1], c), q, pairs))
    assert f(1.0)[0] == 1 + 2 * np.sum(X * X)
    pairs[0][0] = 3.0  # read at each call
    assert f(1.0)[0] == 1 + 2 * (3 + 25 + 49)
    pairs[0][0] = 1.0
    assert jit(lambda q: lax.scan(lambda c, r: (c + r["a"], None), q, scale))(0.0)[0] == 13.0


def haar(x):
    coeffs = []
    while x.shape[0] > 1:
        coeffs.append((x[::2] - x[1::2]) / np.sqrt(2.0))
        x = (x[::2] + x[1::2]) / np.sqrt(2.0)
    coeffs.append(x)
    return np.concatenate(coeffs[::-1])


def pyramid(x):
    levels, shapes = [x], []
    while len(levels[-1]) > 1:
        levels.append(levels[-1][::2])
        shapes += [levels[-1].shape]
    return levels, shapes, len(levels), levels[1:], levels + [x]


def pairs_left(x):
    found = []
    for i in range(3):
        if x.shape[0] == 1:
            break
        for j in range(2):
            if (i + j) % 2 == 0:
                found.append([i, {"j": j}])
        x = x[::2]
    return found, [a + d["j"] for a, d in found]


def triangle(x):
    rows = []
    while x.size > 1:
        row, y = [], x
        while y.size > 1:
            y = y[::2]
            row.append(y.sum())
        rows.append(row)
        x = x[::2]
    return rows


def test_longer_by_shapes():
    """Lists that loops make longer, where shapes or constants tell how often these run."""
    for f in (haar, pyramid, pairs_left, triangle):
        got, want = anfora.jit(f)(np.arange(8.0)), f(np.arange(8.0))
        assert plain(got) == plain(want), f.__name__
    slope = anfora.jit(anfora.grad(lambda x: np.sum(haar(x) ** 3)))(np.arange(4.0))
    a = np.array([[1, 1, 1, 1], [1, 1, -1, -1], [2 ** .5, -2 ** .5, 0, 0], [0, 0, 2 ** .5, -2 ** .5]]) / 2
    assert np.allclose(slope, 3 * (a @ np.arange(4.0)) ** 2 @ a)


def plain(x):
    if isinstance(x, (list, tuple)):
        return [type(x).__name__, *map(plain, x)]
    return {k: plain(v) for k, v in x.items()} if isinstance(x, dict) else np.round(np.asarray(x), 9).tolist()


def chosen(x):
    squares, signs, deep = [], [], 0.0
    for v in x:
        if v > 0.8:
            squares.append(v * v)
            signs.append((1.0, v))
        elif v > 0.5:
            deep += v
            squares.append(v * 0.5)
            signs.append((0.0, deep))
        else:
            squares.append(0.0)
            signs.append((-1.0, v * 0.1))
    total = 0.0
    for u, v in zip(squares, squares[1:]):
        total += u * v
    for s, v in reversed(signs):
        total = total * 0.9 + s * v
    return total


def test_each_branch_appends():
    """The list is as long as the loop, however many rounds that are."""
    for n in (1, 9, 200):
        x, d = 0.5 + 0.49 * np.sin(1.7 * np.arange(n) + 0.4), np.cos(np.arange(n))
        assert np.isclose(anfora.jit(chosen)(x), chosen(x)), n
        assert np.isclose(anfora.jit(anfora.grad(chosen))(x) @ d, (chosen(x + 1e-6 * d) - chosen(x - 1e-6 * d)) / 2e-6), n


def test_longer_by_values():
    """Where values tell how often, the call is interpreted, which a warning says; what would be seen elsewhere is refused."""
    def collatz(n):
        seen = [n]
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            seen.append(n)
        return seen

    def large(xs):
        found = []
        for x in xs:
            if x > 1:
                found.append(x)
        return found

    def shared(x):
        xs, ys = [], None
        while x.size > 1:
            x = x[::2]
            xs.append(x)
            ys = xs
        return ys

    def various(x):
        xs = [1]
        while x.size > 1:
            x = x[::2]
            xs.append([x])
        return xs
    for f, x in ((collatz, np.array(6)), (large, np.array([0.0, 2.0, 3.0]))):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            got = anfora.jit(f)(x)
        assert type(got) is list and got == f(x) and any("W0908" in str(w.message) for w in said), (f.__name__, got)
    for f, x, words in ((shared, np.arange(4.0), "changes in place"), (various, np.arange(4.0), "of several structures")):
        try:
            anfora.jit(f)(x)
            raise AssertionError(f.__name__)
        except anfora.CompileError as e:
            assert words in str(e), str(e)


def test_keys_that_are_words_of_the_language():
    from anfora._table import RESERVED
    x = np.arange(3.0)
    assert "if" in RESERVED and "None" in RESERVED, RESERVED
    for word in (*RESERVED, "f32", "key", "grad", "print", "é", "a b", ""):
        d = {word: x, "q": x + 1}
        assert np.array_equal(anfora.jit(lambda d, word=word: d[word] * 2)(d), x * 2), word
        got = anfora.jit(lambda d, word=word: {**d, word: d["q"]})(d)
        assert list(got) == [word, "q"] and np.array_equal(got[word], x + 1), (word, got)
        slope = anfora.grad(lambda d, word=word: anfora.numpy.sum(d[word] * d["q"]))(d)
        assert list(slope) == [word, "q"] and np.array_equal(slope[word], x + 1) and np.array_equal(slope["q"], x), (word, slope)


def cut(c, a, b):
    v = (a, b)
    if c:
        v = [a, b]
    else:
        v = (b, a)
    v = v[:1]
    return v


def test_a_part_of_list_or_tuple():
    """What is cut from a list on one way and a tuple on another, by the same name, is neither for sure."""
    try:
        got = jit(cut)(True, 1.0, 2.0)
    except anfora.CompileError as e:
        assert "a list here and a tuple there" in str(e)
    else:
        raise AssertionError(got)


def test_items_spread_into_arrays():
    half = np.array([1.0, 0.5], np.float32)
    for f, dtype in ((lambda x: np.array([*x, 3.0]), "f64"), (lambda x: np.array([0.5, *x[1:], x[0]]), "f64"), (lambda x: np.array([*x]), "f32"), (lambda x: np.array([[*x], [*x[::-1]]]), "f32"),
                     (lambda x: np.array([*x, *[1.0, 2.0]]), "f64"), (lambda x: np.array([*x, *(v * 2 for v in x)], np.int32), "i32")):
        got, want = jit(f)(half), f(half)
        assert got.dtype == dtype and np.array_equal(np.asarray(got), want), f.__code__.co_firstlineno


def test_dictionaries_of_keys():
    def changed(x):
        d = dict.fromkeys([1, 3], x)
        d[3] += 1.0
        return d

    assert jit(changed)(2.0) == changed(2.0) and jit(lambda x: sum(dict.fromkeys("aba", x).values()))(2.0) == 4


def orbit(x):
    history, p, v = [(0.0, 1.0)], x[0], x[1]
    for _ in range(50):
        p, v = p + 0.1 * v, v - 0.1 * p
        history.append((p, v))
    return np.array(history)


def counted(x):
    rows, i = [], 0
    while i < 4:
        rows.append([i, x[1] * i])
        i += 1
    return np.array(rows), np.array([(x[0], i) for i in range(3)])


def yielded(x):
    for i in range(4):
        yield i * x


def sums(x):
    return sum(yielded(x)), sum(yielded(x[0])), sum(x.reshape(3, 1))


def test_arrays_of_lists_of_tuples():
    x = np.array([1.0, 0.5, 2.0])
    for f in (orbit, counted, sums):
        for want, got in zip(f(x), jit(f)(x)):
            assert np.allclose(want, got) and np.shape(want) == np.shape(got)


MONTHS = [31, 28, 31, 30]


def position(xs, x):
    low, high = 0, len(xs) - 1
    while low <= high:
        middle = (low + high) // 2
        if xs[middle] == x:
            return middle
        low, high = (middle + 1, high) if xs[middle] < x else (low, middle - 1)
    return -1


def days(n):
    total = 0
    for k in range(n):
        total += MONTHS[k]
    return total


def corner(m, i, j):
    return m[i][j] - m[0][j] * m[i][-1]


def scaled(xs, i):
    return xs[i] * np.ones(2, np.float32)


def changed(xs, i):
    ys = list(xs)
    ys[0] = 9
    return ys[i], xs[i > 0], (3, 4, 5)[-i]


def widths(x):
    sizes, total = [1, 2, 3], 0.0
    for k in range(3):
        total += np.sum(x * np.ones(sizes[k]))
    return total


def test_items_by_an_index_that_is_not_known():
    """Of numbers of one class; they stay numbers of Python, and a list whose items decide sizes stays a tuple."""
    for f, args in ((position, ([1, 3, 5, 8], 5)), (position, ([1, 3, 5, 8], 4)), (days, (3,)), (corner, ([[1, 2], [3, 4]], 1, 0)),
                    (corner, ([[1, 2], [3, 4]], 1, -2)), (scaled, ([1.5, 2.5], -1)), (changed, ([1, 2, 5], 0)), (changed, ([1, 2, 5], 2)), (widths, (2.0,))):
        assert not differs(f(*args), jit(f, backend="interp")(*args)), f
    assert jit(scaled)([1.5, 2.5], 1).dtype == anfora.f32
    assert grad(lambda xs, i: xs[i] * xs[0])([1.0, 2.0, 3.0], 1) == [2.0, 1.0, 0.0]
    for i in (4, -5):
        try:
            jit(lambda xs, i: xs[i])(MONTHS, i)
        except IndexError:
            continue
        raise AssertionError(i)


def paths(a, b):
    if len(a) == 0 or len(b) == 0:
        return 1
    return paths(a[:-1], b) + paths(a, b[1:]) + (a[-1] == b[0])


def test_equal_texts_have_one_copy_of_a_function():
    f = jit(lambda: paths("GATT", "GALT"), backend="interp")
    assert f() == paths("GATT", "GALT") and f.source().count("def ") <= 26  # 5 by 5, and the one that calls


CHOSEN = (lambda n: sum(10 // v for v in n if v), lambda n: any(10 // v > 3 for v in n if v), lambda n: all(10 // v > 3 for v in n if v > 1),
          lambda n: any(v > 4 for v in n if v > 0 if v < 4), lambda n: len([v for v in n if v > 0]), lambda n: math.prod(v for v in n if v > 0),
          lambda n: math.prod(n[1:], start=2), lambda n: math.prod([2, 3]) * n, lambda n: min(v for v in n if v > 0), lambda n: max([v * 2 for v in n if v < 2]),
          lambda n: min((v for v in n if v > 9), default=5), lambda n: max(i for i, v in enumerate(n) if v < 4),
          lambda n: (any(v > 6 for r in n.reshape(2, 2) for v in r if v > 1), min(v for r in n.reshape(2, 2) for v in r if v > 1)))


def test_items_that_data_choose():
    """sum, prod, any, all, len, min and max of comprehensions with if over arrays."""
    n = np.array([3, 0, -2, 7])
    for f in CHOSEN:
        assert not differs(f(n), jit(f, backend="interp")(n)), f.__code__.co_firstlineno
    assert math.prod([1.0, 2.5]) == jit(lambda xs: math.prod(xs), backend="interp")([1.0, 2.5])
    for f, why in ((lambda n: min(v for v in n if v > 9), "iterable argument is empty"), (lambda n: max(r for r in n.reshape(2, 2) if r[0] > 0), "order")):
        try:
            jit(f, backend="interp")(n)
        except ValueError as e:
            assert why in str(e) and "cases_lists.py" in str(e)
        else:
            raise AssertionError(why)


def swapped(xs):
    ys = [x for x in xs]
    for i in range(len(ys) - 1):
        if ys[i] > ys[i + 1]:
            ys[i], ys[i + 1] = ys[i + 1], ys[i]
    return ys


def reversed_in(xs, n):
    ys = [0] * n
    for i in range(n):
        ys[n - 1 - i] = xs[i]
    return ys


def turned(m):
    out = [[0] * 2 for _ in range(3)]
    for i in range(2):
        for j in range(3):
            out[j][i] = m[i][j]
    return out


def filled(x):
    out = []
    for a in x:
        out.append(a * 2)
    return out


def parted(x):
    return {"a": filled(x), "b": (filled(x), 1)}


def last_of(x):
    for _ in range(2):
        q = []
        for a in x:
            q.append(a)
        q = np.array(q)
        x = x + q
    return q


def subsets(xs):
    return functools.reduce(lambda r, x: r + [s + [x] for s in r], xs, [[]])


def reduced_within(xs):
    def both(a, x):
        return a[0] + x, a[1] * x
    return functools.reduce(both, xs, (0, 1))


def grown_by(r, x):
    return r + [x]


def test_lists_that_are_arrays_come_back_as_lists():
    for f, x in ((swapped, [3, 1, 2]), (swapped, [3.0, 1.5]), (lambda xs: reversed_in(xs, len(xs)), [1, 2, 3]), (turned, [[1, 2, 3], [4, 5, 6]]),
                 (filled, np.arange(3)), (parted, np.arange(3)), (last_of, np.arange(3)), (subsets, [1, 2, 3]),
                 (lambda xs: functools.reduce(grown_by, xs, []), [1, 2]), (reduced_within, [1, 2]), (lambda xs: functools.reduce(lambda a, b: a + b, xs, 0), [1, 2])):
        assert like(f(x), jit(f)(x)), (f.__name__, jit(f)(x))
    rows = np.arange(6.0).reshape(2, 3)
    assert anfora.vmap(filled)(rows).shape == (2, 3) and anfora.scan(lambda c, x: (c, filled(x)), 0.0, rows)[1].shape == (2, 3)

    def either(c, x):
        return filled(x) if c[0] > 0 else x
    try:
        jit(either)(np.array([1]), np.arange(3))
    except anfora.CompileError as e:
        assert "an array here and a list there" in str(e), e
    else:
        raise AssertionError("a list or an array")


def test_lists_are_compared():
    def compared(a, b):
        return a == b, a != b, a < b, a <= b, a > b, a >= b
    for a, b in (([1, 2], [1, 3]), ([1, 2], [1, 2]), ([1], [1, 2]), ([1, 2], [1]), ([], [1]), ([2, 0], [1, 5]), ((1, 2), (1, 2.5))):
        assert jit(compared)(a, b) == compared(a, b), (a, b)
    assert not jit(lambda a, b: a == [1, b])([1, 2], np.int64(3))

    def found(xs, x):
        return xs.index(x), xs.count(x)
    assert jit(found)([1, 2, 2], np.int64(2)) == (1, 2)
    try:
        jit(found)([1, 2], np.int64(3))
    except anfora.AnforaError as e:
        assert "ValueError" in str(e)
    else:
        raise AssertionError("what is not in the list")
