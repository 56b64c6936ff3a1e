# SPDX-License-Identifier: Apache-2.0
"""Copies of lists and dictionaries that then change, tuples and dictionaries whose length or keys shapes and loops tell, orders of
elements and element types, as NumPy's users write them: as Python gives them, with NumPy's types."""
import copy

import anfora
import numpy as np
from anfora import jit

V = np.array([3.0, -1.0, 2.0, 5.0])
M = np.arange(12.0).reshape(3, 4)


def alike(want, got):
    if isinstance(want, (tuple, list, dict)):
        assert type(want) is type(got) and len(want) == len(got), (want, got)
        for k in want if isinstance(want, dict) else range(len(want)):
            alike(want[k], got[k])
        return
    w, g = np.asarray(want), np.asarray(got)
    assert w.dtype == g.dtype and w.shape == g.shape and np.allclose(w, g), (want, got)


def same(f, *args):
    alike(f(*copy.deepcopy(args)), jit(f)(*args))


def refused(f, *args, say):
    try:
        got = jit(f)(*args)
    except anfora.AnforaError as e:
        assert say in str(e), e
        return
    raise AssertionError(f"not refused: {got}")


def test_copies_that_change():
    def slices(x):
        a = [1, 2]
        b = a[:]
        b.append(3)
        c = a[:1]
        d = a + [x]
        a[0] = 5
        d.append(x)
        c.append(a[0])
        return a, b, c, d

    def methods(x):
        a, d = [1, 2], {"k": x}
        b = a.copy()
        e = d.copy()
        f = {**d}
        b.append(9)
        a[0] = 7
        e["k"], d["y"], f["z"] = 0, 1, [*a]
        return a, b, d, e, f

    def best(x):
        path, found = [0], []
        for i in range(1, 4):
            path.append(i)
            found = path[:]
        return path, found, x
    for f in slices, methods, best:
        same(f, V)

    def of_arguments(p, xs):
        q = p.copy()
        ys = xs[:]
        zs = list(xs)
        q["b"], ys[0] = 2.0, xs[1] + 1
        q["c"] = p["w"]
        zs.append(xs[0])
        return p, q, xs, ys, zs
    same(of_arguments, {"w": V, "b": 1.0}, [V, V])


def test_copies_hold_the_same_arrays():
    def by_slice(x):
        y = x.copy()
        a = [y]
        b = a[:]
        b[0] += 1
        return a, b

    def by_method(x):
        y = x.copy()
        a = [y]
        b = a.copy()
        b[0] += 1
        return a, b

    def of_dictionary(x):
        y = x.copy()
        a = {"k": y}
        b = a.copy()
        b["k"] += 1
        return a, b

    def joined(x):
        y = x.copy()
        a = [y]
        b = a + [x]
        b[0] += 1
        return a, b
    for f in by_slice, by_method, of_dictionary, joined:
        refused(f, V, say="which a would see")


def test_lengths_that_ranks_tell():
    def ones(x):
        def column(v):
            return v.reshape(v.shape[0], *(1,) * (v.ndim - 1)), (1,) * (v.ndim - 1)
        w = np.arange(3.0)
        return x * w.reshape(w.shape + (1,) * (x.ndim - w.ndim)), column(x[:, :1]), column(x[:, 0]), x.reshape([1] * (3 - x.ndim) + list(x.shape))

    def axes(x):
        return x.sum(tuple(range(1, x.ndim))), x.mean(axis=tuple(range(x.ndim - 1))), x.transpose(tuple(range(x.ndim))[::-1])

    def lists(x):
        zeros = [0] * len(x)
        return zeros, zeros + [1], sum(zeros), [z + 1 for z in zeros], ([1, 2] * x.ndim)[3], np.zeros(x.shape[:1] + (1,) * x.ndim)
    for f in ones, axes, lists:
        same(f, M)


def test_dictionaries_of_comprehensions():
    def steps(x):
        p = {"w": x, "b": 0.5}
        m = {k: 0.0 * v for k, v in p.items()}
        for t in range(1, 4):
            g = {k: 2 * v for k, v in p.items()}
            m = {k: 0.9 * m[k] + 0.1 * g[k] for k in m}
            p = {k: p[k] - 0.1 * m[k] / (1 - 0.9 ** t) for k in p}
        return p, m

    def named(x):
        d = {n: x * i for i, n in enumerate("aba")}
        e = {k: v.sum() for k, v in d.items() if k != "b"}
        d["a"] = d["a"] + 1
        rows = {k: {j: x + i for i, j in enumerate("xy")} for k in "ab"}
        return d, e, {k: {j: v * 2 for j, v in r.items()} for k, r in rows.items()}

    def called(x):
        base = dict(a=1, b=2)

        def f(v, a=0, b=0, c=0):
            return v * a + b - c
        return f(x, **base), f(x, **dict(base, c=7)), {k: v for k, v in dict(base, c=x).items()}
    for f in steps, named, called:
        same(f, V)


def test_orders_and_types():
    def orders(x):
        return np.ravel(x, "F"), x.flatten("F"), np.reshape(x, (2, 6), "F"), np.reshape(x, -1, "C"), x.reshape(4, 3, order="F")
    same(orders, M)

    def types(x):
        return x.dtype.type(0), x.dtype.type(1) + x, np.zeros(2, x.dtype) * x.dtype.type(1)
    for t in "i1", "i4", "f4", "f8":
        same(types, V.astype(t))
    same(lambda x: (x.dtype.type(2.7), x.dtype.type(x[0])), np.array([1, 2], "i1"))
    same(lambda x: x.dtype.type(1), np.array([True]))
    refused(lambda x: x.dtype.type(300), np.array([1, 2], "i1"), say="E0561")

    def checked(x):
        if x.ndim != 2:
            raise ValueError(f"got {x.ndim} dims of {x.dtype} in {x.shape}")
        return x
    refused(checked, np.array([1, 2], "i4"), say="got 1 dims of int32 in (2,)")
    refused(checked, np.array([True]), say="got 1 dims of bool in (1,)")


CONSTANT = {"sizes": [1, 2], "of": {"k": [3]}}


def test_lists_stay_lists():
    def stored(x):
        d = {}
        d["y"], d["z"] = 1, [2, x]
        d["a"], d["b"] = [1], {"q": [x]}
        rows = [0, 0]
        rows[0], rows[1] = [1], [2, x]
        return d, rows

    def bound(x):
        (c, d), e = ([1], (2,)), [x]
        a = b = [1, 2]
        named = {}
        for k, v in [("a", [1, 2]), ("b", [x])]:
            named[k] = v
        return a, b, c, d, e, named

    def gone_through(x):
        xs = [[1, 2], [3]]
        return {i: v for i, v in enumerate(xs)}, [v for v in xs], [xs[0], x]

    def constants(x):
        s = CONSTANT["sizes"]
        return s, {"s": CONSTANT["sizes"], "n": CONSTANT["of"]}, [CONSTANT["sizes"], x]

    def told_apart(x):
        xs, found = [1, 2], []
        for v in [[1, 2], (3,)]:
            found.append(1 if isinstance(v, list) else 2)
        return found, xs == [1, 2], xs == (1, 2), tuple(xs) == (1, 2), [1, 2] != (1, 2), x.shape == [4], x.shape == (4,), [1, (2,)] == [1, [2]]
    def texts(x):
        return "a,b".split(","), x
    assert jit(texts)(V)[0] == ["a", "b"]
    for f in stored, bound, gone_through, constants, told_apart:
        same(f, V)
    assert jit(lambda x: f"{[1, 2]} {(1,)} {'a'!r}")(V) == "[1, 2] (1,) 'a'"
    assert jit(lambda x: str([1, 2]))(V) == "[1, 2]" and jit(lambda x: str(3))(V) == "3"
