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


def refused(words, call):
    try:
        call()
    except anfora.CompileError as e:
        assert words in str(e), e
    else:
        raise AssertionError(f"nothing was refused ({words})")


def test_a_candidate_that_nested_branches_take():
    def f(x):
        z, acc = x * 0.5, 0.0
        for i in range(1, len(x)):
            prop = z.copy()
            prop[i] = z[i] + 0.3 * (x[i - 1] - 0.5)
            a = (z[i] - x[i]) ** 2 - (prop[i] - x[i]) ** 2 + 0.1 * (z[i] - z[i - 1]) ** 2
            if a > 0:
                z = prop
                acc = acc + a
            elif x[i] > 0.9:
                z = prop
        return np.sum(z * z) + acc
    check(f)


def test_returns_of_several_numbers():
    def f(x):
        y = x * 1.0
        for i in range(1, len(x)):
            y[i] = 0.9 * y[i - 1] + 0.2 * (x[i] - 0.4)
            if y[i] < -5.0:
                return np.sum(y[:5]) * y[i]
            if i > 0.8 * len(x):
                return np.sum(y * x)
        return y[-1]
    check(f)


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


def test_a_list_that_rounds_read_and_make_longer():
    def queue(x):
        w = [0.0]
        for i in range(len(x) - 1):
            w.append(max(0.0, w[-1] + x[i] - 0.55 * x[i + 1]))
        return sum(w) / len(w) + w[-1]
    check(queue, 2000)

    def lags(x):
        w = [x[0], 0.5]
        for i in range(2, len(x)):
            w.append(0.5 * w[i - 1] - 0.3 * w[i - 2] + x[i] + (w[-6] if i > 5 else 0.0))
        return np.sum(np.array(w) * np.arange(len(w))) + w[3]
    check(lags, 80)

    def lengths(x):
        w, s = [0.0], 0.0
        for i in range(len(x)):
            s = s + len(w) * x[i]
            w.append(w[len(w) - 1] * 0.9 + x[i] + w[i // 2])
            s = s + w[i + 1] * len(w)
        return s + max(w)
    check(lengths, 80)

    def states(x):
        w = [np.eye(2)]
        for v in x:
            w.append(w[-1] @ np.array([[0.9, 0.1], [0.0, 1.0]]) * (1 + 0.01 * v))
        return np.sum(np.stack(w)[:, 0, 1])
    check(states, 80)

    def again(x):
        a, b = [0.0], []
        for v in x:
            b.append(v * a[-1])
            a.append(a[-1] * 0.5 + v)
        for i in range(len(x)):
            b.append(b[-1] * 0.4 + x[i] + b[i])
        return sum(a) * sum(b)
    check(again, 80)


def test_a_list_that_rounds_fill_and_read():
    def f(x):
        w, s = [], 0.0
        for i in range(len(x)):
            w.append(x[i] * 2)
            s += w[i] * len(w) + w[-1]
        return s
    check(f, 6)
    check(f, 80)


def test_a_list_has_no_items_that_are_not_appended_yet():
    @anfora.jit
    def f(x, at):
        w = [0.0]
        for i in range(len(x)):
            w.append(w[i - at] + x[i])
        return w[-1]
    x = point(80)
    for at in (-1, 2):
        try:
            f(x, np.int64(at))
        except anfora.AnforaError as e:
            assert "list index out of range" in str(e), e
        else:
            raise AssertionError(at)
    assert abs(float(f(x, np.int64(0))) - np.sum(x)) < 1e-9


def test_items_of_several_shapes_stay_refused():
    @anfora.jit
    def f(x):
        w = [0.0]
        for i in range(len(x)):
            w.append(w[-1] + x[i:i + 1])
        return w[-1]
    refused("signatures", lambda: f(point(80)))


def test_large_arrays_that_loops_carry_are_given():
    """They live in the caller's buffers: given twice, with what is read of them, exchanged, after no round, and of an argument."""
    def f(x, n):
        z, w, given = 0.5 * x, x + 1.0, x.copy()
        for i in range(n):
            z[i] = w[i] * 0.5 + x[i + 1]
            w[i + 1] = z[i] - given[i]
            given[i:i + 3] = w[i:i + 3] * 2.0
        u, v = x * 2.0, x * 3.0
        for i in range(n):
            v[i + 1] = u[i] + z[i]
            u, v = v, u
        s = np.sum(z * given)
        return z, w, z, given, u, v, z[:5] + s, x

    x = point(3000)
    jitted = anfora.jit(f)
    for n in (0, 1, 6):
        got, want = jitted(x, np.int64(n)), f(x, n)
        for a, b in zip(got, want):
            assert np.allclose(a, b, rtol=1e-13), n
        assert np.array_equal(x, point(3000))



def greatest_at(x):
    best, at = None, 0
    for i, v in enumerate(x):
        if best is None or v > best:
            best, at = v, i
    return best * 2 + at


def least_product(x):
    best = None
    for i in range(x.shape[0]):
        for j in range(1, x.shape[0]):
            if best is None or x[i] * x[j] < best:
                best = x[i] * x[j]
    return 0.0 if best is None else best


def extent(x):
    low = high = None
    for v in x:
        low = v if low is None else min(low, v)
        high = v if high is None else max(high, v)
    return high - low


def steps(x):
    before, total, i = None, 0.0, 0
    while i < len(x):
        if before is not None:
            total += abs(x[i] - before) ** 1.5
        before = x[i]
        i += 1
    return total


def widest_pair(x):
    gap = where = None
    for a, b in zip(x, x[::-1]):
        if gap is None or abs(a - b) > gap:
            gap, where = abs(a - b), a
    return gap + where


def least_by_row(x):
    found = []
    for scale in (0.5, -0.5):
        best = None
        for v in x:
            if best is None or v * scale < best:
                best = v * scale
        found.append(best)
    return found[0] * found[1]


def test_names_that_are_none_before_a_loop():
    """The first round binds them, and gives them a type; without rounds they are None."""
    for f in (greatest_at, least_product, extent, steps, widest_pair, least_by_row):
        check(f, 9)
        assert abs(float(anfora.jit(f)(point(1))) - f(point(1))) < 1e-12, f.__name__

    def greatest(x):
        best = None
        for i in range(len(x)):
            if best is None or x[i] > best:
                best = x[i]
        return best
    f = anfora.jit(greatest)
    assert f(np.zeros(0)) is None and f(np.array([1.0, 3.0, 2.0])) == 3 and f(point(0)) is None

    def found(x):
        best = None
        for v in x:
            if v > 0 and (best is None or v > best):
                best = v
        return best
    refused("f64 and none", lambda: anfora.jit(found)(point(3)))


def nothing(x):
    return None


def test_parts_and_results_that_are_none():
    """What a call gives may be None, and so may a part of a structure before a round that binds another."""
    def of_call(x):
        y = nothing(x)
        if y is None:
            return 0.5
        return y

    def of_list(x):
        last, total = [None], 0.0
        for v in x:
            if last[0] is not None:
                total += v * last[0]
            last = [v]
        return total

    def of_dictionary(x):
        last, total = {"a": None}, 0.0
        for i in range(3):
            if last["a"] is not None:
                total += x[i] * last["a"]
            last = {"a": x[i]}
        return total
    assert anfora.jit(of_call)(point(3)) == 0.5
    for f in (of_list, of_dictionary):
        assert abs(float(anfora.jit(f)(point(3))) - f(point(3))) < 1e-12, f.__name__

    def changed(x):
        last = [None]
        for v in x:
            last[0] = v if last[0] is None else last[0] + v
        return last[0]
    refused("another structure", lambda: anfora.jit(changed)(point(3)))


def test_enumerate_of_ranges_and_zip():
    def ranges(n, x):
        s = 0.0
        for i, j in enumerate(range(n, n + 5, 2), 3):
            if j == n + 2:
                continue
            s += i * j
        return s, i, j, len(range(n, 20, 3)), len(range(9, n, -2))

    def zips(n, x):
        s = 0.0
        for i, (j, v) in enumerate(zip(range(n), x)):
            s += i * j * v
        for i, z in enumerate(zip(x, x[1:])):
            s += i * z[0] * z[1]
        return s, i, v

    def nested(n, x):
        y = np.zeros(8)
        for i in range(n, 0, -1):
            for k, j in enumerate(range(1, i + 1)):
                y[j] += k * i
        else:
            y[0] = n
        return y
    for f in (ranges, zips, nested):
        for n in (1, 3):
            want, got = f(n, point(3)), anfora.jit(f)(n, point(3))
            assert all(np.allclose(w, g) for w, g in zip(want, got)), (f.__name__, n, want, got)
    try:
        anfora.jit(bound_by_none)(0)
    except anfora.RunError as e:
        assert "j is not bound" in str(e), e
    else:
        raise AssertionError("j has a value")


def bound_by_none(n):
    for _, j in enumerate(range(n)):
        pass
    return j
