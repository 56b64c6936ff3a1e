# SPDX-License-Identifier: Apache-2.0
"""try and except, where a condition says whether the error comes; and ranges whose ends data tell."""
import copy
import math

import anfora
import numpy as np
from anfora import jit
from random_changes import differs


class Own(Exception):
    pass


def item(xs, i):
    try:
        return xs[i]
    except IndexError:
        return -1.0


def items(xs, i, j):
    try:
        y = xs[i] + xs[j]
    except IndexError:
        y = 9
    return y


def quotient(a, b):
    try:
        return a / b
    except ZeroDivisionError:
        return 0.0


def whole(a, b):
    try:
        y = a // b + a % b
    except ZeroDivisionError:
        y = 7
    return y


def raised(x):
    try:
        if x < 0:
            raise ValueError("negative")
        y = x * 2
    except ValueError:
        y = 0
    return y


def own_error(x):
    t = 0
    for i in range(5):
        try:
            if i == x:
                raise Own
            t += i
        except Own:
            t += 100
    return t


def other_error(x):
    try:
        if x < 0:
            raise ValueError("negative")
        elif x > 5:
            raise Own("large")
        y = x
    except ValueError:
        y = -1
    return y


def reduced(n):
    return sum(range(n)), sum(range(20, n, -3)), 3 in range(n), n not in range(20, 1, -2), len(range(1, n, 3)), list(range(n)), sum(range(n)[::2]), sum(range(3)[::2])


def ends(n):
    return max(range(n)), min(range(n, 20, 3)), max(range(20, n, -3)), min(range(20, n, -3)), range(n)[-1], range(1, n + 2, 2)[0]


def parts(n):
    t = 0
    for i in range(n)[::-1]:
        t = t * 3 % 101 + i
    for i in range(2, n)[-3:]:
        t = t * 3 % 101 + i
    for i in range(n)[1:-1]:
        t = t * 3 % 101 + i
    for i in range(n)[-2:0:-2]:
        t = t * 3 % 101 + i
    return t, [i * i for i in range(n)[:2:-1]]


def outcome(f, args):
    try:
        return f(*copy.deepcopy(args))
    except (Own, ValueError, IndexError) as e:
        return type(e).__mro__


def test_values():
    numbers = [1.0, 2.0]
    for f, *args in [*((item, numbers, i) for i in (0, -1, 2, -3)), (item, np.array(numbers), 5), *((items, [1, 2, 3], i, 1) for i in (2, -3, 3)), *((quotient, 1.0, b) for b in (0, 0.0, 2.0)), *((whole, 7, b) for b in (0, -2)),
                     *((f, x) for f in (raised, own_error, other_error) for x in (-1, 3, 9)), *((f, n) for f in (reduced, ends, parts) for n in (0, 1, 5, 9))]:
        want, got = outcome(f, args), outcome(jit(f), args)
        if isinstance(want, tuple) and want[-1] is object:
            assert want[0] in got, (f.__name__, args, got)
        else:
            assert not differs(want, got), (f.__name__, args, want, got)


def test_refused():
    def any_error(a, b):
        try:
            y = a / b
        except Exception:
            y = 7.0
        return y

    def arrays(a, b):
        try:
            y = a / b
        except ZeroDivisionError:
            y = 7.0
        return y

    def called(x):
        try:
            y = raised(x)
        except ValueError:
            y = 0
        return y

    def of_math(x):
        try:
            if x > 2:
                raise ValueError
            y = math.sqrt(x)
        except ValueError:
            y = -1.0
        return y

    def key(d, k):
        try:
            return d[k]
        except IndexError:
            return 3

    def second_name(x):
        y = np.zeros(3)
        try:
            z = y
            if x > 0:
                raise ValueError
        except ValueError:
            z = np.ones(3)
        y[0] = 5
        return z
    for f, args, word in [(any_error, (1.0, 2.0), "try cannot be compiled"), (arrays, (np.ones(2), np.ones(2)), "of arrays by zero raises nothing"), (called, (1,), "try cannot be compiled"), (of_math, (1.0,), "try cannot be compiled"),
                          (key, ({"a": 1}, "a"), "it is not known whether d is a list"), (second_name, (1,), "which z would see")]:
        try:
            jit(f)(*args)
        except anfora.CompileError as e:
            assert word in str(e), (f.__name__, e)
        else:
            raise AssertionError(f.__name__)
