# SPDX-License-Identifier: Apache-2.0
"""Numbers that the integers of an array cannot hold: an error as in NumPy 2, never another number. Sums of truth values count them."""
import anfora
import anfora.numpy as anp
import numpy as np
from anfora import jit

U, I, W = np.array([1, 200, 3], np.uint8), np.array([1, -100, 3], np.int8), np.array([1, 2, 3], np.uint64)


def stored(x, i, v):
    x = x.copy()
    x[i] = v
    return x


def item(x):
    return stored(x, 0, 300)


def below(x):
    return stored(x, 1, -1)


def part(x):
    x = x.copy()
    x[1:] = -7
    return x


def masked(x):
    x = x.copy()
    x[x > 1] = 300
    return x


def added(x):
    x = x.copy()
    x += 300
    return x


def in_a_loop(x):
    for i in range(250, 260):
        x = x + i
    return x


def in_a_loop_that_fits(x):
    for i in range(5):
        x = x + i * 50
    return x


REFUSED = [
    (lambda x: x + 300, U), (lambda x: -1 - x, U), (lambda x: x * -1, W), (lambda x: x // 256, U), (lambda x: x % -3, W), (lambda x: x ** 300, I),
    (lambda x: x & 255, I), (lambda x: x << 257, U), (lambda x: np.clip(x, -1, 300), U), (lambda x: np.maximum(x, -1), U), (lambda x: np.where(x > 1, x, 300), U),
    (lambda x: x[0] + 300, U), (lambda x: np.full(3, 300, np.uint8), U), (lambda x: np.full_like(x, -1), U), (lambda x: np.array([300, 1], np.uint8), U),
    (lambda x: np.array([[1, 2], [3, -1]], dtype="uint8"), U), (lambda x: np.pad(x, 1, constant_values=300), U), (lambda x: np.max(x, initial=300), U),
    (item, U), (below, U), (part, U), (masked, U), (added, U), (in_a_loop, U), (lambda x: x.at[0].set(300), anp.asarray(U))]

SAME = [
    (lambda x: x + 255, U), (lambda x: x - 1, U), (lambda x: 0 - x, U), (lambda x: x / 300, U), (lambda x: x + 300.5, U), (lambda x: (x == 300) | (x > -1), U),
    (lambda x: x.astype(np.int64) + 300, U), (lambda x: (x.astype(np.int64) + 300).astype(np.uint8), U), (lambda x: int(x[0]) + 300, U), (lambda x: x & 127, I),
    (lambda x: np.clip(x, 2, 100), U), (lambda x: np.array([255, 1], np.uint8), U), (lambda x: np.array([x[0], 1], np.uint8), U),
    (lambda x: np.sum(x, initial=300), U), (lambda x: -x, U), (lambda x: ~x, U), (in_a_loop_that_fits, U)]


def test_refused():
    for backend in ("interp", "llvm"):
        for n, (f, x) in enumerate(REFUSED):
            try:
                got = jit(f, backend=backend)(x)
            except anfora.AnforaError as e:
                assert "E0561" in str(e), (n, str(e))
            else:
                raise AssertionError(f"{n} is not refused: {got}")


def test_same():
    for backend in ("interp", "llvm"):
        for n, (f, x) in enumerate(SAME):
            want, got = np.asarray(f(x)), np.asarray(jit(f, backend=backend)(x))
            assert np.array_equal(want, got), (n, want, got)


def test_made_outside_of_functions():
    for numbers, dtype in (([300], "uint8"), ([-1], "uint64"), ([[128]], "int8")):
        try:
            got = anp.array(numbers, dtype=dtype)
        except OverflowError:
            continue
        raise AssertionError(f"not refused: {got}")
    assert np.array_equal(anp.array([255, 0], dtype="uint8"), np.array([255, 0], np.uint8))


COUNTED = [
    (lambda n: sum([n > 1, n > 2]), 3), (lambda n: sum(i < n for i in range(5)), 3), (lambda n: sum([i < n for i in range(5)]), 3),
    (lambda n: sum([n > 1, n > 2], 1), 3), (lambda n: sum([n > 1]), 3), (lambda n: (n > 1) + 1, 3), (lambda n: int(n > 1) + int(n > 2), 3),
    (lambda x: sum(v > 1 for v in x), U), (lambda x: sum([x > 1, x > 2]), U), (lambda x: (x > 1) + (x > 2), U), (lambda x: sum(x > 1), U),
    (lambda x: sum([x, x]), np.array([-0.0, 1.5], np.float32))]


def test_truth_values_are_counted():
    for backend in ("interp", "llvm"):
        for n, (f, x) in enumerate(COUNTED):
            want, got = np.asarray(f(x)), np.asarray(jit(f, backend=backend)(x))
            assert np.array_equal(want, got) and (want.dtype == bool) == (got.dtype == bool), (n, want, got)


def named(n):
    a = n > 1
    b = a
    return a + b


def inverted(n):
    a = not n
    return ~a


def renamed(n):
    a = n > 1
    for i in range(3):
        a = a + i
    return a + a


def test_sums_of_truth_values():
    for f in (lambda n: (n > 1) + (n > 2), lambda n: True + (n > 2), lambda n: (not n) + (n > 1 and n < 7), named, inverted,
              lambda n: ~(n > 1)):
        try:
            got = jit(f)(3)
        except anfora.RunError as e:
            assert "write int(a) + int(b)" in str(e) or "write not a" in str(e), e
            continue
        raise AssertionError(f"not refused: {got}")
    for f, x in ((named, U), (lambda x: ~(x > 1), U), (renamed, 3), (lambda n: ~n, 3)):
        assert np.array_equal(np.asarray(f(x)), np.asarray(jit(f)(x))), f
