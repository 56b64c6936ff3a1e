# SPDX-License-Identifier: Apache-2.0
"""Tuples and lists as Python compares, finds, orders and sorts them, where the program computes their numbers."""
import warnings

import numpy as np
from anfora import jit

from cases_meaning import refused

PAIRS = [(2, 1.0), (1, 2.0), (2, 1.0), (1, 3.0), (2, 0.0)]
M = np.arange(6.0).reshape(3, 2)


def plain(x):
    if isinstance(x, (list, tuple)):
        return type(x)(map(plain, x))
    return {k: plain(v) for k, v in x.items()} if isinstance(x, dict) else np.asarray(x).tolist()


def same(f, *args):
    want, got = plain(f(*args)), plain(jit(f, backend="interp")(*args))
    assert want == got, (want, got)


def by_parts(a):
    return sorted(a), sorted(a, reverse=True), max(a), min(a), sorted(a)[0], sorted(a)[-1][1]


def by_keys(a):
    return (sorted(a, key=lambda t: t[0]), sorted(a, key=lambda t: t[0], reverse=True), sorted(a, key=lambda t: (-t[0], t[1])),
            max(a, key=lambda t: t[1]), min(a, key=lambda t: (t[1], -t[0])))


def in_loop(a):
    s = 0.0
    for i, (x, y) in enumerate(sorted(a)):
        s += i * x + y
    return s, [x for x, _ in sorted(a)]


def in_place(a):
    b = list(a)
    b.sort(key=lambda t: t[1], reverse=True)
    x, y = b[0]
    b.append((1, 1.0))
    return b, x, y


def of_zip(a, b):
    return [y for _, y in sorted(zip(a, b))], [x for x, _ in sorted(zip(a, b), key=lambda t: -t[1])], min(zip(a, b)), max(zip(b, a))[1]


def of_numbers(a):
    return sorted(range(len(a)), key=lambda i: a[i]), sorted(a, key=abs), max(a, key=abs), min(a, key=lambda x: (abs(x), x)), sorted(a, key=None)


def of_lists(a):
    return sorted(a), max(a), min(a, key=lambda r: r[1]), sorted(a, key=sum), sorted(a, key=len)


def equal(a, b, c):
    return (a == b, a != b, a == c, a < b, a <= b, a > b[1:], c[0] == a[0], c[1] == a[1], c[1] in a, a.count(c[1]), a.index([2, 5]),
            [2, 5] in a, (2, 5) in a, [2] in a, [] == a)


def with_none(a, b):
    return a == b, None in a, a == [1, None, 2], {"a": a, "b": 1} == {"b": 1, "a": b}, {"a": 1} == {"a": a[0]}


def greatest(a):
    return max(a), min(a), a.count(3.0), a.index(36.0), 3.0 in a


def test_orders():
    for f in (by_parts, by_keys, in_loop, in_place):
        same(f, PAIRS)
    same(of_zip, [3.0, 1.0, 2.0], [7, 8, 9])
    same(of_numbers, [3.0, -1.0, 2.0])
    same(of_lists, [[3, 1], [2, 5], [2, 4]])


def test_equality():
    same(equal, [[3, 1], [2, 5]], [[3, 1], [2, 5.0]], [(3, 1), [2, 5]])
    same(with_none, [1, None, 2], [1, None, 3])


def test_many_items():
    same(greatest, [float(i % 37) for i in range(1200)])


def not_known(a, b):
    return sorted(zip(a, b))


def of_arrays(a):
    return a == [np.ones(2), 1]


def of_a_set(a):
    return sorted(set(a))


def test_refusals():
    refused(not_known, [1.0, 2.0], ["a", "b"], say="sorted")
    refused(of_arrays, [np.ones(2), 1], say="compared")
    refused(of_a_set, [1, 2, 2], say="a set that is not known")


# ---- lists that loops fill ----

def filled(a):
    xs = []
    for x in a:
        xs.append(x * 2)
    return xs


def rows(a):
    out = []
    for r in a:
        row = []
        for x in r:
            row.append(x * 2)
        out.append(row)
    return out


def filled_twice(a):
    out = rows(a)
    few = []
    for i in range(2):
        row = []
        for j in range(a.shape[1]):
            row.append(a[i, j] * j)
        few.append(row)
    return out, out[1], out[1][0], out[1:], few, {"r": out}, [r for r in out], [sum(r) for r in out], [[x + 1 for x in r] for r in out], len(out[0])


def compared(a):
    xs, ys = filled(a), filled(a)
    return xs == ys, xs != ys, xs == [0.0, 2.0], [0.0, 2.0] == xs, xs == [0.0], xs == (0.0, 2.0)


def test_lists_of_loops():
    same(filled_twice, M)
    same(compared, M[0])
    for f in (lambda a: filled(a) * 2, lambda a: filled(a) + filled(a)):
        refused(f, M[0], say="longer")
    refused(lambda a: [r * 2 for r in rows(a)], M, say="longer")
    refused(lambda a: filled(a) < [1.0, 2.0], M[0], say="ordered")


def test_texts_stay_in_lists():
    assert jit(lambda a: (a, a[1:], {"a": a}))(["1", "2"]) == (["1", "2"], ["2"], {"a": ["1", "2"]})


def test_fixed_lists():
    f = jit(lambda x, y: [x * y, {"a": [x, y]}])
    assert plain(f.fix(x=2.0)(3.0)) == plain(f.fix(2.0, 3.0)()) == [6.0, {"a": [2.0, 3.0]}]


def test_rounded_integers():
    same(lambda a: (np.around(a, -1), np.round(a, 2), np.round([x + 0.25 for x in a], 1)), [1, 2, 2**53 + 1])
    assert np.asarray(jit(lambda a: np.around(a, -1))([1, 2, 13])).dtype == np.int64


def doubled(x, n):
    return [x for _ in range(n)]


def test_warnings_name_the_line_of_the_user():
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        f = jit(doubled)
        for n in (1, 2):
            f(1.0, n)
    assert [w.filename for w in said] == [__file__], said
