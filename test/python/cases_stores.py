# SPDX-License-Identifier: Apache-2.0
"""x[i] = v in compiled functions: what Python gives where nothing else has the memory of x, else a refusal at the line."""
import anfora
import numpy as np
from anfora import grad, jit, vmap

V = np.array([1.0, 2.0, 3.0, 4.0])
M = np.arange(16.0).reshape(4, 4) / 10 + 0.1
HOST = np.zeros(3)


def copies(args):
    return [a.copy() if isinstance(a, np.ndarray) else a for a in args]


def same(f, *args, **how):
    want, got = f(*copies(args)), jit(f, **how)(*copies(args))
    for w, g in zip(want, got) if isinstance(want, (tuple, list)) else [(want, got)]:
        w, g = np.asarray(w), np.asarray(g)
        assert w.dtype == g.dtype and w.shape == g.shape and np.allclose(w, g), (f.__name__, w, g)


def refused(f, line, *args):
    """At the line with this text."""
    try:
        jit(f)(*copies(args))
    except (anfora.CompileError, anfora.RunError) as e:
        assert f"\n    {line}" in str(e) or line in str(e), str(e)
        return
    raise AssertionError(f"{f.__name__} is not refused")


def differences(f, x):
    g = np.zeros_like(x)
    for i in range(x.size):
        more, less = x.copy(), x.copy()
        more.flat[i] += 1e-6
        less.flat[i] -= 1e-6
        g.flat[i] = (f(more) - f(less)) / 2e-6
    return g


# ---- what is the same ----

def running(a):
    x = np.zeros_like(a)
    x[0] = a[0]
    for i in range(1, len(a)):
        x[i] = x[i - 1] * 0.5 + a[i] * a[i]
    return x.sum()


def heat(a):
    a = a.copy()
    for _ in range(3):
        a[1:-1, 1:-1] += 0.2 * a[1:-1, :-2] * a[2:, 1:-1]
    a[0, :] = a[1, :] * a[2, :]
    a[:, 1] *= 2.0
    return np.sum(a * a)


def jacobi(a, b):
    a, b = a.copy(), b.copy()
    for _ in range(3):
        b[1:-1] = 0.25 * (a[:-2] + a[1:-1] + a[2:])
        a[1:-1] = 0.5 * (b[:-2] + b[2:])
    return a, b


def swapped(a):
    a = a.copy()
    t = a[0]
    a[0] = a[1]
    a[1] = t
    a[2], a[3] = a[3], a[2]
    return a


def mirrored(m):
    c = np.eye(4)
    for i in range(4):
        for j in range(i + 1, 4):
            c[i, j] = c[j, i] = np.dot(m[:, i], m[:, j])
    return c


def under_conditions(a, n):
    x = np.zeros(4)
    while n > 0:
        for k in range(4):
            if k % 2 == 0:
                x[k] += a[k]
            elif n > 2:
                x[-1] = 9.0
        n = n - 1
    return x


def elements_chosen(a):
    x = a.copy()
    x[a > 2] = -1.0
    x[[0, 1]] = a[[1, 0]]
    x[np.array([3, 3])] = np.array([5.0, 6.0])
    x[2:10] += 0.5
    x[3:1] = 5.0
    return x


def backwards(a):
    x = np.empty(4)
    x[::-1] = a
    x[::2] = 1.0
    return x


def of_another_type(a):
    n, f, b = np.zeros(3, np.int64), np.zeros(2, np.float32), np.zeros(2, bool)
    n[0], n[1] = a[1] * 1.9, 2.9
    f[0] = a[2]
    b[1] = a[0]
    return n, f, b


def numbers_read(a):
    x, s = np.zeros(3), 0.0
    for i in range(3):
        x[i] = a[i]
        s += x[i]
    most = x[0] if x[0] > x[1] else x[1]
    return s, most, [x[i] for i in range(3)], sum(x[i] for i in range(3))


def sums_along_an_axis(m):
    m = m.copy()
    rows = m.sum(axis=1)
    most = m.max(axis=0, keepdims=True)
    m[0] = rows
    m[1] = most[0]
    return m, rows, most


def of_functions_within(a):
    def doubled(y):
        z = y.copy()
        z[0] = 3.0
        return z
    return doubled(a) + doubled(a * 2)


def test_python_means_this():
    same(running, V)
    same(heat, M)
    same(jacobi, V, V * 2)
    same(swapped, V)
    same(mirrored, M)
    for n in (0, 1, 3):
        same(under_conditions, V, n)
    same(elements_chosen, V)
    same(backwards, V)
    same(of_another_type, V)
    same(of_functions_within, V)
    same(sums_along_an_axis, M)
    want, got = numbers_read(V), jit(numbers_read)(V)
    assert np.allclose(want[2], got[2]) and (want[0], want[1], want[3]) == (float(got[0]), float(got[1]), float(got[3]))


def test_derivatives():
    for f, x in ((running, V), (heat, M)):
        assert np.allclose(grad(f)(x), differences(f, x), atol=1e-6), f.__name__
    assert np.allclose(jit(vmap(grad(running)))(np.stack([V, V * 2])), [differences(running, V), differences(running, V * 2)], atol=1e-5)
    d = anfora.hessian(running)(V)
    assert np.allclose(d, d.T) and np.allclose(np.diag(d), 2 * np.array([0, 1.75, 1.5, 1.0]))


# ---- arrays that take each other's names ----

def exchanged(a):
    u, v = a.copy(), a * 2
    for i in range(len(a)):
        v[i] = u[i - 1] + 1
        u, v = v, u
    return u, v


def exchanged_by_a_third(a):
    u, v = a.copy(), a * 2
    for i in range(len(a)):
        v[i] = u[i - 1] + 1
        t = u
        u = v
        v = t
    return u, v


def three_turn(a):
    u, v, w = a.copy(), a * 2, a * 3
    for i in range(len(a)):
        w[i] = u[i - 1] + v[i]
        u, v, w = w, u, v
    return u - v, w


def exchanged_in_a_branch(a):
    a = a.copy()
    b = a * 2
    for i in range(3):
        if a[i] > 1.5:
            a, b = b, a
        a[i] += b[0]
    return a, b


def last_row(a):
    last = np.zeros(4)
    for i in range(3):
        row = np.full(4, 1.0 * i)
        for j in range(1, 4):
            row[j] = last[j - 1] + a[j]
        last = row
        last[3] = 7.0
    return last


def step_into(u, v):
    for i in range(4):
        v[i] = u[i - 1] + 1


def stepped(a):
    u, v = a.copy(), a * 2
    for _ in range(3):
        step_into(u, v)
        u, v = v, u
    return u


def delayed(x):  # numbers that begin as constants
    y, one, two = np.zeros(4), 0.0, 0.0
    for i in range(4):
        y[i] = x[i] + 0.5 * one - two
        two = one
        one = y[i]
    return y, one, two


def elements_swapped(m):
    m = m.copy()
    for j in range(4):
        t = m[0, j]
        m[0, j] = m[1, j]
        m[1, j] = t
    t = 0.0
    for j in range(4):
        t += m[0, j]
    return m, t


def test_exchanges():
    for f in (exchanged, exchanged_by_a_third, three_turn, exchanged_in_a_branch, last_row, stepped, delayed):
        same(f, V)
    same(elements_swapped, M)
    total = lambda a: exchanged_in_a_branch(a)[0].sum()  # noqa: E731
    assert np.allclose(grad(total)(V), differences(total, V), atol=1e-5)


# ---- what is refused ----

def an_argument(x):
    x[0] = 1.0
    return x


def a_part(a):
    x = a.copy()
    y = x[1:]
    x[1] = 7.0
    return y


def a_part_of_the_argument(a):
    x = a[1:]
    x[0] = 1.0
    return a


def another_name(a):
    x = a.copy()
    y = x
    x[0] = 3.0
    return y


def two_names(a):
    x = y = np.zeros(3)
    x[0] = a[0]
    return y


def rows_swapped(m):
    m = m.copy()
    t = m[0]
    m[0] = m[1]
    m[1] = t
    return m


def rows_exchanged(m):
    m = m.copy()
    m[0], m[1] = m[1], m[0]
    return m


def in_a_lambda(a):
    x = a.copy()
    f = lambda: x[0]  # noqa: E731
    x[0] = 3.0
    return f()


def in_a_generator(a):
    x = a.copy()
    g = (x[i] * 1 for i in range(2))
    x[0] = 3.0
    return sum(g)


def in_a_list(a):
    x = a.copy()
    both = [x] + [a]
    x[0] = 3.0
    return both[0]


def without_a_copy(a):
    x = a.copy()
    y = x.astype(np.float64, copy=False)
    x[0] = 3.0
    return y


def appended(a):
    xs, x = [], np.zeros(2)
    xs.append(x)
    x[0] = a[0]
    return xs


def an_item(a):
    xs = [0.0] * 2
    x = a.copy()
    xs[0] = x[1:]
    x[1] = 7.0
    return xs


def an_item_of_lists(a):
    xs = [a, a]
    x = a.copy()
    for i in range(2):
        xs[i] = x
        x[0] = 5.0 + i
    return xs


def of_the_module(a):
    HOST[0] = a[0]
    return HOST


def itself(x):
    return x


def through_a_function(a):
    x = a.copy()
    y = itself(x)
    x[0] = 9.0
    return y


def through_the_walk(m):
    m, s = m.copy(), 0.0
    for row in m:
        m[1] = 5.0
        s = s + row.sum()
    return s


def by_a_method(m):
    m = m.copy()
    flat = m.reshape(-1)
    m[0, 0] = 5.0
    return flat


def part_of_a_part(a):
    x = np.zeros((2, 3))
    x[0][1] = a[0]
    return x


def too_many(a):
    x = a.copy()
    x[0:2] = a
    return x


def outside(a, i):
    x = a.copy()
    x[i] = 1.0
    return x


def exchanged_with_itself(a):
    u = a.copy()
    v = u
    for i in range(3):
        v[i] = u[i - 1] + 1
        u, v = v, u
    return u


def with_a_third_name(a):
    u, v = a.copy(), a * 2
    k = u
    u, v = v, u
    v[0] = 5.0
    return k


def with_the_argument(a):
    u, v = a, a * 2
    for i in range(3):
        v[i] = u[i - 1] + 1
        u, v = v, u
    return u


def given_back(a):
    x = a.copy()
    y = x
    z = itself(y)
    x[0] = 9.0
    return z


def given_back_within(a):
    x = a.copy()
    y = x
    z = (lambda q: q)(y)
    x[0] = 9.0
    return z


def captured(a):
    x = a.copy()
    y = x
    f = lambda: y[0]  # noqa: E731
    x[0] = 9.0
    return f()


def captured_by_a_function(a):
    x = a.copy()
    y = x
    def g():
        return y * 1
    x[0] = 9.0
    return g()


def gone_through_later(a):
    x = a.copy()
    y = x
    g = (v * 1 for v in y)
    x[0] = 9.0
    return sum(g)


def in_an_item(a):
    x = a.copy()
    y = x
    xs = [0.0] * 2
    xs[0] = y
    x[0] = 9.0
    return xs


def test_refusals():
    refused(an_argument, "x[0] = 1.0", V)
    refused(a_part, "x[1] = 7.0", V)
    refused(a_part_of_the_argument, "x = a[1:]", V)
    refused(another_name, "x[0] = 3.0", V)
    refused(two_names, "x = y = np.zeros(3)", V)
    refused(rows_swapped, "t = m[0]", M)
    refused(rows_exchanged, "m[0], m[1] = m[1], m[0]", M)
    refused(in_a_lambda, "f = lambda: x[0]", V)
    refused(in_a_generator, "x[0] = 3.0", V)
    refused(in_a_list, "both = [x] + [a]", V)
    refused(without_a_copy, "y = x.astype(np.float64, copy=False)", V)
    refused(appended, "xs.append(x)", V)
    refused(an_item, "xs[0] = x[1:]", V)
    refused(an_item_of_lists, "xs[i] = x", V)
    refused(of_the_module, "HOST[0] = a[0]", V)
    refused(through_a_function, "y = itself(x)", V)
    refused(through_the_walk, "for row in m:", M)
    refused(by_a_method, "m[0, 0] = 5.0", M)
    refused(part_of_a_part, "x[0][1] = a[0]", V)
    refused(too_many, "x[0:2] = a", V)
    refused(exchanged_with_itself, "v[i] = u[i - 1] + 1", V)
    refused(with_a_third_name, "v[0] = 5.0", V)
    refused(with_the_argument, "u, v = v, u", V)
    for f in (given_back, given_back_within, captured, captured_by_a_function, gone_through_later, in_an_item):
        refused(f, "x[0] = 9.0", V)
    for i in (4, -5):
        refused(outside, "x[i] = 1.0", V, i)
    assert np.all(HOST == 0)


def test_random_names():
    import random_names
    counts, wrong = random_names.run(anfora, 1000, 25)
    assert not wrong and counts["same"] > 6 and counts["refused"] > 3, (counts, [random_names.program(s) for s in wrong[:2]])


def test_random_parts():
    import random_parts
    counts, wrong = random_parts.run(anfora, 500, 16)
    assert not wrong and counts["same"] > 12, (counts, [random_parts.program(s) for s in wrong[:2]])


def test_exchanged_buffers():
    def stencil(x, n):
        u, v = x.copy(), np.zeros_like(x)
        for _ in range(n):
            for j in range(1, len(u) - 1):
                v[j] = u[j - 1] + u[j + 1]
            u, v = v, u
        return u, v

    def three(x, n):
        p, q, r = x.copy(), x * 2, np.zeros_like(x)
        for _ in range(n):
            r[1:] = 2 * q[1:] - p[:-1]
            p, q, r = q, r, p
        return p, q, r

    def sometimes(x, n):
        u, v = x.copy(), np.zeros_like(x)
        for i in range(n):
            v[0] = u[1] + 1
            v[1] += u[0]
            if i % 2 == 0:
                u, v = v, u
        return u, v

    def seen(x, n):
        u, v = x.copy(), np.zeros_like(x)
        w = u
        for _ in range(n):
            v[0] += u[1] + 1
            u, v = v, u
        return u, v, w

    def one_memory(x, n):
        u = x.copy()
        v = u
        for _ in range(n):
            v[0] = u[1] + 1
            u, v = v, u
        return u, v

    def argument(x, n):
        v = np.zeros_like(x)
        for _ in range(n):
            v[0] = x[1] + 1
            x, v = v, x
        return x, v
    x = np.array([1.0, 2.0, 4.0, 8.0, 3.0])
    for f in (stencil, three, sometimes):
        for n in range(5):
            for got, want in zip(anfora.jit(f)(x, n), f(x.copy(), n)):
                assert np.array_equal(np.asarray(got), want), (f.__name__, n)
    for f in (seen, one_memory, argument):
        try:
            anfora.jit(f)(x, 3)
        except anfora.CompileError as e:
            assert "changes in place" in str(e)
        else:
            raise AssertionError(f.__name__)


def passed_on(a):
    return a


def made_anew(a):
    a = a + 1
    return a


def test_items_of_lists_that_are_arrays():
    """p[k] += v changes the array that the item is, which other names have."""
    def name(x):
        y = np.arange(3.0) * x
        p = [y]
        p[0] += 1
        return p, y

    def copied(x):
        p = [np.arange(3.0) * x, np.ones(3)]
        q = list(p)
        q[0] += 1
        return p, q

    def spread(x):
        p = {"a": np.arange(3.0) * x}
        q = {**p}
        q["a"] += 1
        return p, q

    def appended(x):
        y = np.arange(3.0) * x
        p = []
        p.append(y)
        p[0] += 1
        return p, y

    def repeated(x):
        p = [np.arange(3.0) * x] * 2
        p[0] += 1
        return p

    def each(x):
        y = np.arange(3.0) * x
        p = [y for _ in range(2)]
        p[0] += 1
        return p

    def updated(x):
        y = np.arange(3.0) * x
        d = {"a": y}
        d.update(b=y)
        d["b"] += 1
        return d
    for f in (name, copied, spread, appended, repeated, each, updated):
        try:
            anfora.jit(f)(2.0)
        except anfora.AnforaError as e:
            assert "in place" in str(e), e
        else:
            raise AssertionError(f.__name__)

    def alone(x):
        p = {"w": np.arange(3.0) * x, "n": 0, "f": np.zeros(2, np.float32)}
        p["w"] += x
        p["n"] += 1
        p["f"] += x
        t = [0.0] * 3
        for i in range(3):
            t[i] += i * x
        return p, t
    got, want = anfora.jit(alone)(2.0), alone(2.0)
    for k in ("w", "n", "f"):
        assert np.array_equal(np.asarray(got[0][k]), want[0][k]) and got[0][k].dtype == np.asarray(want[0][k]).dtype, k
    assert np.array_equal(np.asarray(got[1]), want[1])


def test_functions_that_pass_an_array_on():
    def changed(x, f):
        y = np.arange(3.0) * x
        z = f(y)
        z += 1
        return y, z

    def within(x):
        y = np.arange(3.0) * x

        def g(a, flag=True):
            return a if flag else a * 2
        z = g(y)
        z += 1
        return y

    def captured(x):
        y = np.arange(3.0) * x
        f = lambda: y  # noqa: E731
        z = f()
        z += 1
        return y

    def viewed(x):
        y = np.arange(3.0) * x
        z = np.atleast_1d(y.astype(y.dtype, copy=False))
        z += 1
        return y
    for f in (lambda x: changed(x, passed_on), within, captured, viewed):
        try:
            anfora.jit(f)(2.0)
        except anfora.AnforaError as e:
            assert "in place" in str(e), e
        else:
            raise AssertionError(f)

    def anew(x):
        y = np.arange(3.0) * x
        z = made_anew(y)
        z += 1
        return y, z
    for got, want in zip(anfora.jit(anew)(2.0), anew(2.0)):
        assert np.array_equal(np.asarray(got), want)


def swept(d):
    n = len(d)
    y = np.zeros(n)
    x = [0.0] * n
    for i in range(n):
        y[i] = d[i] * 2
    x[-1] = y[-1]
    for i in range(n - 2, -1, -1):
        x[i] = y[i] - x[i + 1]
    return x


def rows_kept(m):
    y = m.copy()
    x = [0.0, 0.0]
    x[0] = y[0]
    y[0] = 7.0
    return x[0]


def test_elements_become_items():
    """A number of an array that changes is stored into a list; a row would be seen to change."""
    d = np.array([1.0, 4.0, 2.0, 8.0])
    assert np.allclose(np.asarray(anfora.jit(swept)(d)), swept(d))
    try:
        anfora.jit(rows_kept)(np.ones((2, 2)))
    except (anfora.CompileError, anfora.RunError):
        return
    raise AssertionError("the row is not seen to change")


def first_power(m, n):
    y = m * 2
    z = np.linalg.matrix_power(y, n)
    y[0, 0] = 7.0
    return z


def no_differences(x):
    y = x * 2
    z = np.diff(y, n=0)
    y[0] = 7.0
    return z


def converted(x):
    y = x * 2
    z = np.float64(y)
    y[0] = 7.0
    return z


def test_results_that_may_be_the_argument():
    """matrix_power(x, 1), diff(x, n=0) and float64 of x of f64 are x in NumPy."""
    for f, args in ((first_power, (np.eye(2), 1)), (no_differences, (np.arange(3.0),)), (converted, (np.arange(3.0),))):
        try:
            got = anfora.jit(f)(*args)
        except (anfora.CompileError, anfora.RunError):
            continue
        assert np.array_equal(np.asarray(got), f(*args)), f


def test_parts_are_written_in_place():
    def waves(a, b, n):
        a, b = a.copy(), b.copy()
        for _ in range(n):
            a[1:, :] -= 0.5 * (b[1:, :] - b[:-1, :])
            b[:-1, :-1] -= 0.7 * (a[:-1, 1:] - a[:-1, :-1])
        return a, b
    m = np.arange(30.0).reshape(5, 6)
    same(waves, m, m * m, 3)
    code = anfora.jit(waves).tir(m, m, 3)
    assert code.count("tensor ") == 2, code  # the copies of a and b alone


def test_names_that_become_views_of_their_own_array():
    def turned(x):
        y = np.zeros((2, 3))
        y = y.reshape(3, 2).T
        y[0] = x[0]
        y[:, 1] += 2.0
        return y

    def other_name(x):
        y = np.ones((2, 3))
        z = y
        y = y.T
        y[0] = x[0]
        return y, z

    def of_an_argument(x):
        x = x.reshape(2, -1)
        x[0] = 0.0
        return x

    def held(x):
        y = np.zeros(4)
        r = [y]
        y = y.reshape(2, 2)
        y[0] = x[0]
        return y, r[0]
    same(turned, V)
    refused(other_name, "y[0] = x[0]", V)
    refused(of_an_argument, "x[0] = 0.0", V)
    refused(held, "r = [y]", V)
