# SPDX-License-Identifier: Apache-2.0
"""Arrays that change where another name, a function that is called or a list may see it: what NumPy gives, or a refusal at the line."""
import warnings

import anfora
import numpy as np
from anfora import grad, jit

from cases_stores import M, V, differences, refused, same


# ---- x += v ----

def keeps_its_type(a):
    f, n, b = np.zeros(3, np.float32), np.zeros(3, np.int32), np.zeros((2, 3), np.uint8)
    f += a[:3]
    f *= np.float64(2)
    n += np.arange(3)
    b[0] += 1
    n[0] += 2.9
    f[1:] -= a[1:3]
    return f, n, b


def numbers_take_the_sum(a):
    s, n, k = 0, np.float32(1.5), 1
    for v in a:
        s += v
    n += 1
    k *= 2.5
    return s, k


def residual(a):
    r = a
    a = a * 2
    a += r
    return a, r


def recent(a):
    h, d = a * 1, a * 0
    for _ in range(3):
        before = h
        h = h * 2
        h += 1
        d = h - before
    return d


def parts_apart(m):
    w, b = m[0] * 1, m[1]
    w += 1
    return b * w


def counted(a):
    old = new = 0
    for _ in range(3):
        old = new
        new += 2
    return old, new


def whole_numbers(a):
    n = np.zeros(3, np.int64)
    n += 0.5
    return n


def whole_numbers_cut(a):
    n = np.zeros(3, np.int64)
    n[0:2] += 0.5
    return n


def divided(a):
    n = np.arange(3)
    n /= 2
    return n


def grown(a):
    x = np.zeros((1, 4))
    x += np.ones((2, 4))
    return x


def seen(a):
    x = np.zeros(4)
    y = x
    x += a
    return y


def row_of(m):
    x = m * 1
    r = x[0]
    r += 1
    return x


def rows_of(m):
    x = m * 1
    for r in x:
        r += 1
    return x


def history(a):
    s, h = a * 0, []
    for _ in range(3):
        s += a
        h.append(s)
    return np.stack(h)


def in_a_tuple(a):
    x = a * 1
    pair = (x, 1)
    x += 1
    return pair[0]


def raised(v):
    v += 1
    return v.sum()


def through_a_call(a):
    x = a * 2
    s = raised(x)
    return x, s


def call_of_a_number(a):
    n = a[0]
    return raised(np.float64(n)), n


# ---- names that are read before the array changes ----

def rows_read_before(m):
    m = m.copy()
    s = 0.0
    for i in range(4):
        row = m[i]
        s = s + row.sum()
        m[i] = row * 2 + s
    return m


def parts_read_before(a):
    x = a.copy()
    left, same_ = x[:-1], x
    d = left * same_[1:]
    x[1:] = d
    return x


def read_in_the_next_round(a):
    x = a.copy()
    part, s = x[1:], 0.0
    for i in range(3):
        s = s + part[0]
        x[1] = s
    return x


# ---- functions that change what they are given ----

def smoothed(u, n):
    for _ in range(n):
        u[1:-1] = (u[:-2] + u[2:]) / 2


def smoothed_twice(u):
    smoothed(u, 1)
    u[0] *= u[1]
    smoothed(n=1, u=u)
    return u.sum()


def exchanged(u, v):
    u[0] = v[1]
    v[1] += 1
    if u[0] > 3:
        return u[0]
    return v.sum()


def filled(u, v):
    u[:] = v
    return u


def made(n, v):
    out = np.zeros(n)
    out[0] = v
    return out


def called(a):
    x, y = a * a, a * 3
    smoothed(x, 2)
    for _ in range(2):
        s = smoothed_twice(x)
    p = exchanged(x, y)
    q = exchanged(y, v=x)
    x = filled(x, y * 2)
    z = made(4, x[0])
    z[1] = y[2]
    return x, y, z, s, p, q


def sum_called(a):
    return sum(np.sum(r) for r in called(a))


def of_an_argument(a):
    smoothed(a, 2)
    return a


def given_twice(a):
    x = a * 2
    return exchanged(x, x)


def result_is_the_argument(a):
    x = a * 2
    z = filled(x, a)
    z[0] = 5.0
    return x, z


def in_an_expression(a):
    x = a * 2
    return exchanged(x, a * 1) + x.sum()


def rebound(u):
    u[0] = 1.0
    u = u * 2
    u[1] = 5.0
    return u


def calls_rebound(a):
    x = a * 1
    z = rebound(x)
    return x, z


# ---- what NumPy's programs use ----

def numpys(a):
    x = np.ndarray(4, dtype=np.float32)
    x[:] = a
    i, j = np.mgrid[0:2, 0:3]
    counts, edges = np.histogram(a, 3)
    weighed = np.histogram(a, 2, weights=a)[0]
    ends = np.linspace(a[0], a[3], 5)
    return (x, i * j, counts, edges, weighed, ends, np.linspace(a[0], 9.0, 4, endpoint=False), np.add.outer(a, a[:2]), np.multiply.reduce(a),
            np.add.accumulate(a), np.maximum.outer(a, np.ones((2, 2))))


def bound_in_the_loop(a):
    for i in range(1, 4):
        d = a * i
        last = d.sum()
    return d, last


def bound_in_no_round(a, n):
    for i in range(n):
        d = a * i
    return d


def test_augmented():
    for f in (keeps_its_type, numbers_take_the_sum, residual, recent, counted, call_of_a_number):
        same(f, V)
    same(parts_apart, M)
    refused(whole_numbers, "n += 0.5", V)
    refused(whole_numbers_cut, "n[0:2] += 0.5", V)
    refused(divided, "n /= 2", V)
    refused(grown, "x += np.ones((2, 4))", V)


def test_another_name_sees_it():
    refused(seen, "x += a", V)
    refused(row_of, "r += 1", M)
    refused(rows_of, "r += 1", M)
    refused(history, "s += a", V)
    refused(in_a_tuple, "x += 1", V)
    refused(through_a_call, "s = raised(x)", V)


def test_read_before():
    same(rows_read_before, M)
    same(parts_read_before, V)
    refused(read_in_the_next_round, "x[1] = s", V)


def test_calls_that_change():
    same(called, V)
    g = np.asarray(grad(sum_called)(V))
    assert np.allclose(g, differences(sum_called, V), atol=1e-5)
    refused(of_an_argument, "smoothed(a, 2)", V)
    refused(given_twice, "u[0] = v[1]", V)
    refused(result_is_the_argument, "z = filled(x, a)", V)
    refused(in_an_expression, "u[0] = v[1]", V)
    refused(calls_rebound, "u[0] = 1.0", V)


def test_idioms_of_numpy():
    same(numpys, V)
    same(bound_in_the_loop, V)
    try:
        jit(bound_in_no_round)(V, 0)
    except anfora.RunError as e:
        assert "the loop does not run, so d is not bound" in str(e)
    else:
        raise AssertionError("d has a value")


# ---- masks on both sides ----

def masked(m, k):
    x, n = m - 0.8, np.zeros((4, 4), np.int64)
    x[x > 0] = x[x > 0] ** (-1.5) * k
    near = np.abs(x) < 1.0
    x[near] = -x[near] + np.sin(m[near]) / k
    x[near] += 2 * m[near]
    x[near] *= 0.5
    n[near] += 3
    x[~near] = 1 / x[~near]
    row = m[0] > 0.2
    x[row] = x[row] * 2
    return x, n


def masked_at_zero(m):
    d = (m - m[0]) ** 2
    d[d > 0] = d[d > 0] ** (-0.5)
    return d.sum()


def indices_both_sides(a, i):
    x = a * 1
    x[i] = x[i] * 2 + a[i]
    x[i] += 1
    return x


def counts_beside(a, v):
    x = a * 1
    x[x > 1] = x[x > 1] + v
    return x


def test_masks():
    same(masked, M, 2.0)
    assert np.allclose(np.asarray(grad(masked_at_zero)(M)), differences(masked_at_zero, M), rtol=1e-4)
    same(indices_both_sides, V, np.array([0, 2]))
    same(indices_both_sides, V, 1)
    try:
        jit(counts_beside)(V, np.ones(4))
    except (anfora.CompileError, anfora.RunError) as e:
        assert "needs a number" in str(e)
    else:
        raise AssertionError("an array beside elements chosen by a mask")


# ---- slices that a loop counts ----

def by_columns(m):
    m = m.copy()
    for i in range(m.shape[0]):
        for j in range(i):
            m[i, j] -= m[i, :j] @ m[:j, j]
            m[i, j] /= m[j, j]
        for j in range(i, m.shape[0]):
            m[i, j] -= np.dot(m[i, :i], m[:i, j])
    return m


def backwards(m, b):
    x = np.zeros_like(b)
    for i in range(m.shape[0] - 1, -1, -1):
        x[i] = (b[i] - m[i, i + 1:] @ x[i + 1:]) / m[i, i]
    return x


def recursion(r):
    y = np.zeros_like(r)
    for k in range(1, r.shape[0]):
        y[k] = r[k] + np.dot(np.flip(r[:k]), y[:k] + 0.1)
        y[:k] += 0.3 * np.flip(y[:k])
    return y


def sums(x, n):
    s, y, i = x[0] * 0, x * 1, -n
    while i < n:
        s = s + np.sum(x[i:]) + np.sum(np.sin(x[:i]) * 2 + 1)
        y[i:] = 3 * x[i:] + s
        y[:i - 1] *= 2
        i += 1
    return s, y


def of_different_lengths(x, n):
    s = x[0]
    for i in range(n):
        s = s + np.dot(x[:i], x[1:i])
    return s


def beside_an_array(x, n):
    s = x[0]
    for i in range(n):
        s = s + np.sum(x[:i] * x)
    return s


def covariances(d):
    c = np.zeros(d.shape)
    for i in range(d.shape[0]):
        c[i:, i] = c[i, i:] = d[:, i] @ d[:, i:] / 3.0 + np.sin(d[i, i:])
    return c


def of_named_slices(d):
    c, e = np.zeros(d.shape), d.copy()
    for i in range(d.shape[0]):
        t, u = d[0, i:] * 2.0, d[:, i] @ d[:, i:]
        c[i, i:] = t + u
        c[i:, i] += t
        w = e[0, i:].copy()
        e[0, i:] = w + 1.0
    return c, e


def of_rows(d, v):
    s, c, e = 0.0, d.copy(), np.zeros((*d.shape, 3))
    for i in range(1, d.shape[0]):
        s += np.sum(d[i:] @ v) + np.sum(d[:i]) + np.sum(d[:, :i] * 2) + np.sum(v[:i] @ d[:i]) + np.sum(d[:, i:] @ v[i:])
        s += (d[:, :i] @ d[:i, :])[0, 0] + np.inner(v[:i], v[:i]) + np.sum(np.dot(d[0, i:], d[i:, :]) * v)
        c[i:] += d[i:] * 2.0 + v
        c[:, :i] *= 0.5
        c[i, :i] = d[:i] @ d[:, 0]
        e[:, i:] += 1.5
        c[i:] = v
        e[i:] += e[0, :, :1]
        s += np.sum(e[:, :i] @ v[:3])
    return s, c, e


def of_complex_slices(a, b):
    s = a[0] * 0
    for i in range(1, a.shape[0]):
        s += np.vdot(a[:i], b[:i]) + np.inner(a[:i], b[:i]) + a[i:] @ b[i:]
    return s


def another_axis(d):
    c = np.zeros(d.shape)
    for i in range(d.shape[0]):
        c[:i] = d[i, :i]
    return c


def summed_along_a_slice(d):
    s = 0.0
    for i in range(1, d.shape[0]):
        s += np.sum((d[0] @ d[:, i:]) @ d)
    return s


def flipped_rows(d):
    c = np.zeros(d.shape)
    for i in range(d.shape[0]):
        c[:i] = np.flip(d[:i])
    return c


def changed_meanwhile(d):
    d = d.copy()
    for i in range(d.shape[0]):
        t = d[0, i:]
        d[0, i:] = t + 1.0
        d[1, i:] = t
    return d


def total_of_covariances(m):
    return covariances(m).sum() + of_rows(m, m[0])[0]


def total_of_rows(m):
    return by_columns(m).sum()


def test_counted_slices():
    m = M + 3 * np.eye(4)
    same(by_columns, m)
    same(backwards, m, V)
    same(recursion, V)
    same(covariances, m)
    same(of_named_slices, m)
    same(of_rows, m, m[1])
    same(of_complex_slices, m[0] + 1j * m[1], m[2] - 2j * m[3])
    for n in (0, 3, 6):
        same(sums, V, n)
    assert np.allclose(np.asarray(grad(total_of_rows)(m)), differences(total_of_rows, m), atol=1e-5)
    assert np.allclose(np.asarray(grad(total_of_covariances)(m)), differences(total_of_covariances, m), atol=1e-5)
    for f, args, why in ((of_different_lengths, (V, 3), "slices of different lengths meet"), (beside_an_array, (V, 3), "slice both"),
                         (another_axis, (m,), "along another axis"), (flipped_rows, (m,), "takes a vector"),
                         (summed_along_a_slice, (m,), "slice both"), (changed_meanwhile, (m,), "slice both")):
        try:
            jit(f)(*args)
        except (anfora.CompileError, anfora.RunError) as e:
            assert why in str(e), e
        else:
            raise AssertionError(f.__name__)


def complex_system(m, b):
    a = m + 1j * m.T + 3 * np.eye(4)
    return np.linalg.solve(a, b), np.linalg.solve(a, m), np.linalg.inv(a)


def test_complex_system():
    same(complex_system, M, V)


# ---- what a mask chooses, and what NumPy writes as calls that change an array ----

def chosen(x, m, k):
    far = x > k
    by_row = [m[np.argmax(m, axis=1) == i].sum(0) for i in range(len(m))]
    return (x[far].sum(), x[x > k].mean(), np.sum(m[m > 0.5]), x[far].max(), np.min(x[~far]), len(x[far]), x[far].std(), m[far].mean(axis=0), m[far].sum(),
            np.any(x[far] > 3), x[far].prod(), by_row)


def chosen_sum(x):
    return x[x > 2.5].sum() + np.sum((x[x > 1.5] - 0.5) ** 3) + x[x > 1.5].mean() * x[x < 3.5].max() + x[x > 1.5].var()


def chosen_and_named(x, n=4):
    means, top = np.zeros(n), x.max()
    for i in range(n):
        mask = np.logical_and(top * i / n <= x, x <= top * (i + 1) / n)
        some = x[mask]
        means[i] = some.mean()
    one = x[x > 1.5]
    spread = np.std(one) / len(one)
    row = x[n - 2]
    return np.sum(means ** 2) + spread + row.mean()


def chosen_by_another(x):
    v = x[x > 1.5]
    return [v.sum() for x in (x * 2, x * 3)]


def binned(x, n):
    return np.histogram(x, n, weights=x * x)[0] / np.histogram(x, n)[0]


def binned_sum(x):
    return np.sum(binned(x, 3) ** 2) + np.sum(binned(x, np.array([0.0, 2.5, 5.0])))


def by_calls(a, i):
    x, y, z = a[::-1].copy(), np.zeros(4), np.zeros((2, 2))
    x.sort()
    y.fill(2.5)
    np.add(x, a, out=y)
    np.multiply(y, x, x)
    np.exp(a[1:], out=y[1:])
    np.copyto(z[0], a[:2])
    np.add.at(y, i, a[0])
    np.add.at(y, [0, 0, 3], 1.0)
    z[1] = [a[0], 1.5]
    return x, y, z


def another_sees_out(a):
    x = a * 1
    y = x[1:]
    np.add(x, 1.0, out=x)
    return y


def test_chosen_by_masks():
    same(chosen, V, M, 1.5)
    assert np.allclose(np.asarray(grad(chosen_sum)(V)), differences(chosen_sum, V), atol=1e-5)


def test_named_choice_has_no_size():
    """v = x[mask], which only reductions read: all of it is compiled, so it has a gradient."""
    x = np.array([0.5, 1.1, 2.3, 3.3, 4.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same(chosen_and_named, x)
        assert np.allclose(np.asarray(grad(chosen_and_named)(x)), differences(chosen_and_named, x), atol=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its sizes depend on data
        same(chosen_by_another, x)


def test_number_of_bins_that_a_caller_gives():
    x = np.array([0.5, 1.0, 2.0, 3.5, 4.0])
    same(binned_sum, x)
    assert np.allclose(np.asarray(grad(binned_sum)(x)), differences(binned_sum, x), atol=1e-5)


def test_calls_of_numpy():
    same(by_calls, V, np.array([1, 1, 2]))
    refused(another_sees_out, "np.add(x, 1.0, out=x)", V)


def whole_beside_chosen(x, y):
    return np.sum(y + np.sum(x[x > 1.5])) + np.sum(y * len(x[x > 2.5]))


def test_whole_beside_chosen():
    same(whole_beside_chosen, V, V * 2)


def test_logaddexp_of_equal_numbers():
    for f, base in ((np.logaddexp, np.e), (np.logaddexp2, 2)):
        g = grad(lambda a, b, f=f: np.sum(f(a, b)), argnums=(0, 1))(V, np.array([1.0, 5.0, -np.inf, 4.0]))
        for got, want in zip(g, ([0.5, base ** 2 / (base ** 2 + base ** 5), 1.0, 0.5], [0.5, base ** 5 / (base ** 2 + base ** 5), 0.0, 0.5])):
            assert np.allclose(np.asarray(got), want), (got, want)
        far = np.array([np.inf, -np.inf, np.inf, 1e8])
        same(lambda a, b, f=f: f(a, b), far, np.array([np.inf, -np.inf, 1.0, -1e8]))


def test_kron_of_all_ranks():
    for a in (V[0], V, M[:2], M.reshape(2, 2, 4)):
        for b in (V[1], V[:3], M[1:], M.reshape(4, 2, 2)):
            same(lambda x, y: np.kron(x, y), a, b)
