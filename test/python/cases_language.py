# SPDX-License-Identifier: Apache-2.0
"""What of Python can be compiled, against Python itself: each function is run both ways."""
import math
import warnings
from collections import namedtuple
from dataclasses import dataclass

import anfora
import numpy as np
from anfora import jit

SCALE = 3.0
TABLE = {"rate": 0.5, "sizes": (2, 3)}
WEIGHT = np.array([[1.0, 2.0], [3.0, 4.0]])


def same(f, *args, **options):
    """The compiled function gives what Python gives."""
    got, want = jit(f, **options)(*args), f(*args)
    assert np.allclose(flat(got), flat(want), rtol=1e-12, atol=0), (got, want)


def flat(x):
    if isinstance(x, (tuple, list)):
        return np.concatenate([flat(i) for i in x]) if x else np.zeros(0)
    return np.asarray(x, dtype=np.float64).ravel()


def test_branches():
    def f(x):
        if x > 2:
            y = x * 2
        elif x < -1:
            return -x
        else:
            y = x + 1
        return y
    for x in (3, -4, 0, 2.5):
        same(f, x)


def test_while_break_continue():
    def collatz(n):
        count = 0
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            count += 1
            if count > 1000:
                break
        return count
    def odd(n):
        s = 0
        for i in range(n):
            if i % 2 == 0:
                continue
            s = s + i
        return s
    same(collatz, 27)
    same(odd, 10)


def test_ranges():
    def f(n):
        s = 0
        for i in range(1, n):
            for j in range(i):
                s += i * j
        for k in range(10, 0, -3):
            s = s * 2 + k
        for k in range(0, n, 2):
            s = s + k
        return s
    for n in (1, 2, 7):
        same(f, n)


def test_while_true_and_return_in_loops():
    def f(n):
        i = 0
        while True:
            if i * i > n:
                return i
            i += 1
    same(f, 50)


def test_chains_and_words():
    def f(a, b, c):
        if a < b < c and not a == 0 or c > 100:
            return 1
        return 2
    for t in ((1, 2, 3), (3, 2, 1), (0, 1, 2), (5, 5, 101)):
        same(f, *t)


def test_functions_in_functions():
    def f(x):
        def twice(g, y):
            return g(g(y))
        def scaled(k, by=2.0):
            return lambda v: v * k + by
        return twice(scaled(3.0), x) + scaled(2.0, by=1.0)(x)
    same(f, 1.5)


def test_mutual_recursion():
    same(is_even, 10)
    same(is_even, 7)


def is_even(n):
    return True if n == 0 else is_odd(n - 1)


def is_odd(n):
    return False if n == 0 else is_even(n - 1)


def test_globals_and_closures():
    k = 4.0
    def f(x):
        return x * SCALE + k + TABLE["rate"] + TABLE["sizes"][1]
    same(f, 2.0)


def helper(v):
    return WEIGHT @ v


def test_arrays_from_outside():
    bias = np.array([10.0, 20.0])
    def f(x):
        return helper(x) + bias
    same(f, np.array([1.0, -1.0]))


def test_math_and_numpy():
    def f(x):
        return math.sin(x) * math.exp(-x) + np.tanh(x) + abs(-x) + math.pi + max(x, 1.0, 2.0) + min(x, 0.25) + x ** 2
    same(f, 0.7)
    def g(x):
        return np.sum(np.sin(x) ** 2, axis=1) + np.mean(x) + x.max(axis=1) - x.T[0] + np.where(x[:, 0] > 0, 1.0, -1.0)
    same(g, np.array([[0.1, 2.0], [-3.0, 0.5]]))


def test_integers():
    def f(a, b):
        return a // b, a % b, a << 2, a >> 1, a & b, a | b, a ^ b, ~a, divmod(a, b)[1], a / b
    same(f, 17, 5)
    same(f, -17, 5)


def test_tuples_and_patterns():
    def f(p):
        (a, b), c = p
        a, b = b, a
        xs = [a, b, c]
        return xs[0] - xs[-1], xs[1:]
    same(f, ((1.0, 2.0), 5.0))


def test_loops_over_things():
    def f(v):
        s = 0.0
        for i, e in enumerate(v):
            s = s + i * e
        for r in v:
            s = s * 2 + r
        return s
    same(f, np.array([1.0, 5.0, 7.0]))


def test_comprehensions():
    def f(a, b):
        return [x * 2 for x in (a, b)], [a + k for k in range(3)], [p - q for p, q in zip((a, b), (1.0, 5.0))]
    got = jit(f)(1.0, 2.0)
    assert got == ([2.0, 4.0], [1.0, 2.0, 3.0], [0.0, -3.0]), got


def test_comprehensions_over_shapes():
    def over_shape(x):
        return sum([x[i, j] * (i + 2 * j) for i in range(x.shape[0]) for j in range(x.shape[1])])
    def over_rows(x):
        return sum(r[0] * k * s for r, s in zip(x, x[:, 1]) for k in range(x.shape[0]))
    def in_order(x):
        return [10 * r[0] + s[1] for r in x for s in x]
    x = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    same(over_shape, x)
    same(over_rows, x)
    same(in_order, x)
    assert anfora.grad(over_shape)(x).tolist() == [[0.0, 2.0], [1.0, 3.0], [2.0, 4.0]]
    assert anfora.grad(over_rows)(x).tolist() == [[6.0, 3.0], [12.0, 9.0], [18.0, 15.0]]


def test_indexing():
    def f(x, i):
        return x[i], x[1:3, ::2], x[..., 0], x[-1, -1], x[:, None, 0], x[i, 1]
    same(f, np.arange(16.0).reshape(4, 4), 2)


@dataclass
class Point:
    x: float
    y: float = 2.0


Pair = namedtuple("Pair", "first second")


def test_dataclasses_and_dictionaries():
    @jit
    def f(p, d):
        return Point(p.x + d["a"], y=p.y * d["b"]["c"]), {"sum": p.x + p.y}, Pair(p.x, 1.0)
    got = f(Point(1.0), {"a": 2.0, "b": {"c": 3.0}})
    assert got == (Point(3.0, 6.0), {"sum": 3.0}, Pair(1.0, 1.0)), got
    assert isinstance(got[0], Point) and isinstance(got[2], Pair)


def test_lists_come_back_as_lists():
    @jit
    def f(params):
        return [p * 2 for p in params]
    @jit
    def g(params):
        return params, 1.0
    assert f([1.0, 2.0]) == [2.0, 4.0]
    assert g([1.0, (2.0,)]) == ([1.0, (2.0,)], 1.0)
    assert jit(lambda a, b: (b, a))(1.0, 2.0) == (2.0, 1.0)


def test_functions_as_arguments():
    @jit
    def apply(f, x):
        return f(x) + 1
    assert apply(lambda v: v * 2, 3.0) == 7.0
    assert apply(math.sqrt, 9.0) == 4.0
    assert apply(np.exp, 0.0) == 2.0
    assert apply(abs, -5) == 6


def test_static_arguments():
    @jit(static_argnames="n")
    def f(x, n):
        xs = [x + k for k in range(n)]
        return xs
    assert f(1.0, 2) == [1.0, 2.0]
    assert f(1.0, n=3) == [1.0, 2.0, 3.0]
    assert f.compiled == 2


def test_lists_of_functions():
    def lambdas(x):
        fs = []
        for k in range(4):
            fs.append(lambda y, k=k: y * x + k)
        y = x
        for f in fs:
            y = f(y)
        return y
    def defined(x):
        fs = []
        for k in range(4):
            def f(y, k=k):
                return y * x + k
            fs.append((f, k))
        y = x
        for g, k in fs:
            y = g(y) + 0.0 * k
        return f(y, 10.0)  # the last one
    def comprehended(x):
        y = x
        for f in [lambda y, k=k: y * x + k for k in range(4)]:
            y = f(y)
        return y
    for f in (lambdas, defined, comprehended):
        assert np.allclose(jit(f)(1.5), f(1.5))
        assert np.allclose(anfora.grad(f)(1.5), (f(1.5 + 1e-6) - f(1.5 - 1e-6)) / 2e-6)
    @jit
    def unknown(x, n):
        fs = []
        for k in range(n):
            fs.append(lambda y, k=k: y * x + k)
        return x
    try:
        unknown(1.0, np.array(3))
        assert False, "it compiled"
    except anfora.CompileError as e:
        assert "known how many" in str(e)


def test_defaults_and_names():
    @jit
    def f(x, y=2.0, *, z=3.0):
        return x + 10 * y + 100 * z
    assert f(1.0) == 321.0
    assert f(1.0, z=1.0) == 121.0
    assert f(y=1.0, x=0.0) == 310.0


def test_words_of_the_language_as_names():
    @jit
    def f(fn, type, map):
        i64 = fn + type
        shape = i64 * map
        return shape
    assert f(1, 2, 3) == 9


def test_types_of_arguments():
    @jit
    def f(x: anfora.f32[2, "B"], k: anfora.f32) -> anfora.f32:
        return x * k
    r = f(np.ones((2, 3), np.float32), 2)
    assert r.dtype == "f32" and r.tolist() == [[2.0] * 3] * 2
    for bad in (np.ones((3, 3), np.float32), np.ones((2, 3)), np.ones(2, np.float32), "no"):
        try:
            f(bad, 2)
        except TypeError as e:
            assert "f32[2, B]" in str(e)
        else:
            raise AssertionError("it took " + repr(bad))


def test_lambdas_in_one_line():
    f, g = jit(lambda x: x + 1), jit(lambda x: x * 10)
    assert f(2) == 3 and g(2) == 20


def test_assertions():
    @jit
    def f(x):
        assert x > 0, "x must be positive"
        return x
    assert f(1.0) == 1.0
    try:
        f(-1.0)
    except anfora.RunError as e:
        assert "x must be positive" in str(e) and "cases_language.py" in str(e) and "assert x > 0" in str(e)
    else:
        raise AssertionError("the assertion did not stop it")


def test_prints():
    import contextlib
    import io
    @jit
    def f(x):
        print("x is", x)
        print(f"twice: {x * 2}")
        return x
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        f(1.5)
        f(2.5)
    assert out.getvalue() == "x is 1.5\ntwice: 3.0\nx is 2.5\ntwice: 5.0\n", out.getvalue()


def test_none_and_is():
    @jit
    def f(x, bias=None):
        if bias is None:
            return x
        return x + bias
    assert f(1.0) == 1.0
    assert f(1.0, 2.0) == 3.0
    @jit
    def g(x):
        return shifted(x) + shifted(x, 2.0) + f(x)
    assert g(1.0) == 1.0 + 3.0 + 1.0


def shifted(x, by=None, how="plain"):
    if by is not None and how == "plain":
        x = x + by
    return x


def test_items_by_index():
    def steps(x, n):
        hs = [x, x, x]
        i = 0
        while i < n:
            hs[i] = hs[i - 1] * 2.0
            i = i + 1
        return hs
    def filled(x):
        hs = []
        for i in range(len(x)):
            hs.append(x[i])
        for i in range(len(x)):
            if x[i] > 2.0:
                hs[i] = hs[i - 1] * 2.0
        for i in range(1, len(x)):
            hs[-i] += hs[i - 1]
        return hs
    def widened(x, n):
        hs = [0, 0, 0, 0, 0]
        for i in range(n):
            hs[i] = x[i] * 0.5
        return hs
    def nested(x, n):
        c = [0.0, 0.0, 0.0]
        for i in range(n):
            for j in range(n):
                c[(i + j) % 3] = c[(i + j) % 3] + x[i] * x[j]
        return [c[0], c[1], c[2], len(c) * 1.0]
    x = np.arange(1.0, 6.0)
    for f, *args in ((steps, x, 2), (steps, x, 0), (filled, x), (widened, x, 3), (nested, x, 4)):
        want, got = f(*args), jit(f)(*args)
        assert np.array_equal(np.stack([np.asarray(v) for v in want]), np.stack([np.asarray(v) for v in got])), f.__name__
    compiled = jit(steps)
    slope = anfora.grad(lambda x: anfora.numpy.sum(compiled(x, 2)[1]))(x)
    assert np.array_equal(np.asarray(slope), np.full(5, 4.0))


def test_items_by_index_refused():
    def alias(x, n):
        hs = [x[0], x[1]]
        ys = hs
        for i in range(n):
            hs[i] = 1.0
        return ys[0]
    def alias_in_the_loop(x, n):
        hs, ys = [x[0], x[1]], [x[0], x[1]]
        for i in range(n):
            hs[i] = 1.0
            ys = hs
        return ys[0]
    def alias_before_another(x, n):
        hs = [x[0], x[1]]
        for i in range(n):
            hs[i] = 1.0
        ys = hs
        for i in range(n):
            hs[i] = 2.0
        return ys[0]
    def shapes(x, n):
        hs = [x, x[:2]]
        for i in range(n):
            hs[i] = hs[i] * 2.0
        return hs[0]
    def slices(x, n):
        hs = [x[0], x[1]]
        for i in range(n):
            hs[i:i + 1] = [2.0]
        return hs[0]
    def grown(x, n):
        hs = [x, x]
        for i in range(n):
            hs[i] = x + 1.0
        hs.append(x)
        return hs
    x = np.arange(1.0, 6.0)
    assert all(map(np.array_equal, jit(grown)(x, 2), grown(x, 2)))

    def outside(x, n):
        hs = [x, x]
        for i in range(n):
            hs[i + 1] = hs[i] * 2.0
        return hs[0]
    for f, word in ((alias, "changes in place"), (alias_in_the_loop, "changes in place"), (alias_before_another, "in place"), (shapes, "do not fit"),
                    (slices, "one item"), (outside, "outside a dim of size 2")):
        try:
            jit(f)(np.arange(1.0, 6.0), np.array(2))
        except anfora.AnforaError as e:
            assert word in str(e), (f.__name__, e)
        else:
            raise AssertionError(f.__name__)


def test_lists_of_a_loop():
    """What Python would make longer is no arithmetic of items; an item of tuples is a tuple."""
    def pairs(x):
        hs = []
        for i in range(len(x)):
            hs.append((x[i], x[i] * 2))
        return hs[1]
    x = np.arange(1.0, 6.0)
    assert tuple(float(v) for v in jit(pairs)(x)) == (2.0, 4.0)
    def twice(x):
        hs = []
        for i in range(len(x)):
            hs.append(x[i])
        return hs * 2
    def both(x):
        hs = []
        for i in range(len(x)):
            hs.append(x[i])
        return hs + hs
    for f in (twice, both):
        try:
            jit(f)(x)
        except anfora.CompileError as e:
            assert "make longer" in str(e), e
        else:
            raise AssertionError(f.__name__)


def test_products_of_shapes():
    a = np.arange(24.0).reshape(2, 3, 4)
    same(lambda x: x.reshape(np.prod(x.shape)), a)
    same(lambda x: x.reshape(x.shape[0], int(np.prod(x.shape[1:]))), a)
    same(lambda x: np.zeros(math.prod(x.shape)) + np.max(x.shape) + np.min(x.shape[1:]) + np.sum(x.shape), a)
    same(lambda x: np.array(x.shape) * 2, a)
    same(lambda x: np.sqrt(np.prod(np.array(x.shape))) * x, a)
    same(lambda x: np.prod(x.shape[3:]) * x, a)

    def named(x):
        shape = x.shape
        return x.reshape(int(np.prod(shape[:-1])), shape[-1])
    same(named, a)


def test_conditions_that_are_numbers():
    a = np.array([0.0, 2.0, np.nan, -1.0])
    same(lambda x: np.where(x, 1.0, -1.0), a)
    same(lambda x: np.where(x.astype(int), x, 5.0), np.arange(3.0))


def test_slices_with_bounds_of_an_array():
    """A size that the numbers of an argument decide is interpreted, with a warning; x[k[0]:k[0]+2] has a size that is known."""
    x = np.arange(6.0)
    for f in (lambda x, k: x[k[0]:], lambda x, k: np.sin(x)[:k[0]] * 2, lambda x, k: np.cumsum(x[::k[1]]), lambda x, k: x[k[0]:k[1]]):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            for k in ([2, 3], [1, 2], [0, 6], [1, 2], [1, 2], [1, 2]):
                same(f, x, np.array(k))
        assert {str(w.message).split(": ")[1] for w in seen} == {"W0908"}, seen
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for i in (0, 3, -3):
            same(lambda x, k: np.cos(x[k[0]:k[0] + 2]), x, np.array([i]))


def test_elements_of_a_mask_that_a_size_depends_on():
    x, a = np.array([3.0, 1.0, 5.0, 0.0, 7.0]), np.arange(12.0).reshape(4, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # W0908: what follows is interpreted
        for f in (lambda x: x[x > 1], lambda x: np.sort(x[x > 1])[::-1] * 2, lambda x: x[x > 100], lambda x: x[x > 1][0],
                  lambda x: np.cumsum(x[x > 0])):
            same(f, x)
        for f in (lambda a: a[a > 4], lambda a: a[a[:, 0] > 2], lambda a: a[(a > 2) & (a < 9)]):
            same(f, a)
        same(lambda a, m: a[m], a, np.array([True, False, True, False]))
        f = jit(lambda x: x[x > 1])
        assert [len(f(x + by)) for by in (0, 2, -9)] == [3, 5, 0]

        def counted(x):
            y = x[x > 1]
            return y, y.shape[0]
        assert jit(counted)(x)[1] == 3
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        jit(lambda x: x[x > 2])(x)
    assert "W0908" in str(seen[0].message)
    for f in (anfora.grad(lambda x: np.sum(np.sort(x[x > 1]))), anfora.vmap(lambda x: x[x > 1])):
        try:
            f(np.stack([x, x]) if "vmap" in f.__name__ else x)
        except anfora.CompileError as e:
            assert "the shape of x[mask] depends on values" in str(e) and "sums and means" in str(e)
        else:
            raise AssertionError(f)
