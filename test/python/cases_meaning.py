# SPDX-License-Identifier: Apache-2.0
"""What Python means, or a refusal: each case was once a value that was neither. Functions run compiled and as they stand,
and must give the same; what cannot be compiled must be refused at its line."""
import cmath
import collections
import copy
import dataclasses
import functools
import importlib.util
import math
import os
import subprocess
import sys
import tempfile
import warnings

import anfora
import anfora.numpy as anp
import numpy as np
from anfora import jit, random

M = np.arange(6.0).reshape(2, 3)
V = np.array([1.0, 2.0, 3.0])


def plain(x):
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items()}
    if type(x) in (tuple, list):
        return type(x)(map(plain, x))
    return x if x is None or isinstance(x, (bool, int, float, complex, str)) else np.asarray(x)


def alike(want, got):
    assert type(want) is type(got) or not isinstance(want, (dict, tuple, list)), (want, got)
    if isinstance(want, dict):
        assert list(want) == list(got), (want, got)
        want, got = list(want.values()), list(got.values())
    if isinstance(want, (tuple, list)):
        assert len(want) == len(got), (want, got)
        for w, g in zip(want, got):
            alike(w, g)
        return
    if want is None or isinstance(want, str):
        assert want is got or want == got, (want, got)
        return
    w, g = np.asarray(want), np.asarray(got)
    assert w.shape == g.shape and np.allclose(w, g, 1e-6, 1e-6, equal_nan=True), (want, got)


def same(f, *args):
    want = plain(f(*copy.deepcopy(args)))
    alike(want, plain(jit(f)(*args)))


def refused(f, *args, say=""):
    try:
        got = jit(f)(*args)
    except anfora.AnforaError as e:
        assert say in str(e), e
        assert f.__code__.co_filename in str(e), e  # at its line
        return
    raise AssertionError(f"not refused: {got}")


def test_items_of_arrays():
    same(lambda m: [np.sum(r) for r in m], M)
    same(lambda m: sum(np.sum(r) for r in m), M)
    same(lambda m: sum([np.sum(r) for r in m], 10.0), M)
    same(lambda m: list(map(lambda r: np.sum(r), m)), M)
    same(lambda m: list(map(lambda a, r: a * np.sum(r), [1.0, 2.0], m)), M)
    same(lambda m: [a * np.sum(b) for a, b in zip([1.0, 2.0], m)], M)
    same(lambda m: [a * b for a, b in m.T], M)
    same(lambda m: [i * np.sum(r) for i, r in enumerate(m)], M)
    same(lambda m: [i * np.sum(r) * x for i, (r, x) in enumerate(zip(m, m[:, 0]), 1)], M)
    same(lambda m: max(np.sum(r) for r in m) - min(np.sum(r) for r in m), M)
    same(lambda m: (any(np.sum(r) > 10 for r in m), all(np.sum(r) > 10 for r in m)), M)
    same(lambda m: np.stack([np.sum(r) for r in m]), M)
    same(lambda m: np.concatenate([r * 2 for r in m], 0), M)
    same(lambda m: np.array([np.sum(r) for r in m]), M)
    same(lambda m: [r for r in reversed(m)], M)
    refused(lambda x: [i for i in x], 3.0)
    same(lambda m: [a for a, b in zip([1.0], m)], M)

    def names(m):
        rows = [r * 2 for r in m]
        return rows, sum(rows), len(rows), rows[-1], np.stack(rows, 1)
    same(names, M)


def test_keys_of_an_array():
    keys = random.split(random.key(1), 3)
    got = jit(lambda k: [random.normal(q) for q in random.split(k, 3)])(random.key(1))
    assert [float(x) for x in got] == [float(random.normal(keys[i])) for i in range(3)]


def test_lists_hold_all_their_items():
    def filled(xs):
        out, s = [], 0
        for x in xs:
            out.append(s)
            s = s + x
        return np.stack(out)
    same(filled, V / 4)

    def whole_then_part(xs):
        out = []
        for i in range(3):
            out.append(xs[0] if i == 0 else xs[i] * 0.5)
        return out
    same(whole_then_part, V)
    carry, ys = anfora.scan(lambda c, x: (c + x, c), 0, np.array([0.5, 0.25]))
    assert float(carry) == 0.75 and np.allclose(np.asarray(ys), [0, 0.5])

    def bools(xs):
        out = []
        b = True
        for x in xs:
            out.append(b)
            b = x * 2
        return np.stack(out)
    same(bools, V)


def test_words():
    for x, y in ((2.0, 3.0), (0.0, 3.0), (0.0, 0.0), (2.0, 0.0)):
        same(lambda x, y: (x and 5.0, x or 5.0, x and y, x or y, 0.0 or x, 1.0 and x, x and y and 7.0), x, y)
        same(lambda x, y: (1 if x and y else 2, 1 if x or y else 2, 1 if not x else 2, not x, bool(x)), x, y)
        same(lambda x, y: 1 if x > 1 and y else 2, x, y)
    refused(lambda x: not x, V)
    refused(lambda x: bool(x), V)
    refused(lambda x: float(x), V)
    refused(lambda x: max(x, 0.0), V)
    refused(lambda x: max(x), M)
    refused(lambda x: any(x > 1), M)
    same(lambda x: (float(x[0]), int(x[0]), x.item(), not x, bool(x)), np.array([3.0]))  # float(x) of one element is an error since NumPy 2.4
    same(lambda x: (max(x), min(x), any(x > 2), all(x > 2), sum(x)), V)


LAMBDAS = [lambda x: 1.0 if x > 0 else 2.0, lambda x: 3.0 if x > 0 else 4.0, lambda x: (lambda y: y * 2 if y > 0 else y)(x + 1)]
PAIR = (lambda x: (x if x > 0 else 0.0), lambda x: x if x > 1 else 1.0)
MAKER = lambda k: lambda x: x * k if x > 0 else x - k  # noqa: E731
EMPTY, FULL = lambda: 1.0, lambda: 2.0  # noqa: E731


def test_several_lambdas_of_a_line():
    for f in (*LAMBDAS, *PAIR, MAKER(3.0), MAKER(5.0)):
        same(f, 1.0)
        same(f, -1.0)
    assert float(jit(EMPTY)()) == 1.0 and float(jit(FULL)()) == 2.0


def test_functions_of_math_of_integers():
    def f(n, k):
        return (math.pow(n, 30) / 1e30, math.pow(n, -k), math.fmod(n, k), math.fmod(-n, k), math.hypot(n, k, 2), math.hypot(n), math.log(n, 2), math.gcd(n, 15, k), math.lcm(k, n, 4),
                math.comb(n + 40, 30), math.perm(n, k), math.perm(k), math.factorial(n + 10), math.isqrt(n * 10 ** 17 - 1), math.frexp(n), math.nextafter(n, 11))
    for n, k in ((10, 3), (7, 5)):
        want, got = plain(f(n, k)), plain(jit(f)(n, k))
        alike(want, got)
        assert [np.asarray(x).dtype.kind for x in want] == [np.asarray(x).dtype.kind for x in got]
    same(lambda x, y: (math.remainder(x, y), math.remainder(-x, y), math.remainder(y, x), math.pow(x, y % 3.0)), 1e16 + 6.0, 3.25)
    same(lambda x: (math.remainder(x, math.inf), math.remainder(7.5, x), math.remainder(4.5, x)), 3.0)
    same(lambda x, b: (math.isclose(x, math.inf), math.isclose(-math.inf, x), math.isclose(x, x + 1e-9), math.isclose(b, 1), math.floor(b), math.ceil(b), math.trunc(b), math.comb(b, b)), 2.0, True)
    for f in (lambda n: math.factorial(n + 11), lambda n: math.comb(n * 10, 50), lambda n: math.perm(n - 20, 2), lambda n: math.isqrt(-n)):
        refused(f, 10, say="Error: ")


def test_functions_of_other_libraries():
    same(lambda x: (math.gamma(x), math.gamma(-x), math.lgamma(x), math.remainder(x, 3.0), math.fmod(x, 3.0)), 4.5)
    same(lambda n, m: (pow(n, 30, 7), pow(-n, 5, m), pow(n + 10 ** 9, 10 ** 9, -m), pow(m, 0, 1), pow(2, 10, 1000)), 10, 3037000499)
    for f in (lambda n: pow(n, 2, n - 10), lambda n: pow(n, 2, n + 10 ** 10), lambda n: pow(n, -1, 7), lambda n: pow(n, 2.0, 7)):
        refused(f, 10, say="pow")
    same(lambda x: (x * math.isqrt(17), x * math.comb(5, 2), x * math.prod([2, 3]), math.degrees(x)), 1.5)
    same(lambda x: (np.dot(x, x), np.dot(x, 2.0), np.round(x * 1.23456, 2), np.around(x / 3, 1)), V)
    same(lambda x: np.dot(x, x), np.arange(8.0).reshape(2, 2, 2))
    same(lambda x: np.clip(x, 0.5, 1.5), np.array([0, 1, 2]))
    same(lambda x: (np.isclose(x, np.inf), np.nan_to_num(x), np.logaddexp(x, x)), np.array([1.0, np.inf, -np.inf]))
    same(lambda x: np.nan_to_num(x), np.array([np.nan, np.inf, -np.inf], np.float32))
    refused(lambda x: math.fsum(x), V, say="cannot be called")
    same(lambda x: (math.isclose(x, 1.0), math.isclose(x, 1.0 + 1e-7), math.isclose(x, 1.1, rel_tol=0.2)), 1.0)
    try:
        import torch
    except ImportError:
        return
    refused(lambda x: torch.var(x), V, say="cannot be called")
    refused(lambda x: torch.median(x), V, say="cannot be called")


def test_gradients_of_matrices():
    for got, want in zip(jit(lambda m: np.gradient(m * m))(M), np.gradient(M * M)):
        alike(want, np.asarray(got))
    same(lambda m: np.gradient(m * m, axis=1), M)
    same(lambda v: np.gradient(v * v, 0.5), V)


def test_large_integers():
    same(lambda x: (x / 2**64, x / (2**63 + 1), 2**100 / 2**98 * x, x * (2**62 // 2**60)), 1.0)
    refused(lambda x: x + 2**64, 1.0, say="does not fit into 64 bits")
    refused(lambda x: 2**64, 1.0, say="does not fit into 64 bits")
    same(lambda x: x + (2**70 >> 68) + (1 << 5) + (7 & 3), 1)


def test_structure_of_results():
    same(lambda x: {"a": [1.0 * x], "b": (x, [x, (x,)]), "c": {"d": [x]}}, 1.0)
    same(lambda x: [[x * i] for i in range(2)], 1.0)
    same(lambda x: {k: [x] for k in ("a", "b")}, 1.0)
    same(lambda x: [x] if isinstance(2.0, float) else (x,), 1.0)

    def helper(x):
        return [x, (x,)]

    def through(x):
        def inner(y):
            return {"a": [y]}
        r = [x]
        return helper(x), inner(x), r, (r, [r])
    same(through, 1.0)

    def early(x):
        if x > 1:
            return [x]
        return helper(x)[:1]
    same(early, 2.0)


def test_what_changes_in_place_is_refused():
    def fill(x):
        x.fill(3.0)
        return x

    def sort(x):
        x.sort()
        return x
    refused(fill, V, say="the caller would see")
    refused(sort, V, say="the caller would see")


def test_loops_over_numbers_are_refused():
    def nothing(x):
        for _ in x:
            pass
        return 1
    refused(nothing, 3.0)


def test_captured_arrays_are_read_when_called():
    held = np.array([1.0, 2.0])
    f = jit(lambda x: x + held)
    alike(np.array([2.0, 3.0]), np.asarray(f(1.0)))
    held[0] = 100.0
    alike(held + 1.0, np.asarray(f(1.0)))


def message(f, *args):
    try:
        jit(f)(*args)
    except anfora.RunError as e:
        return str(e)
    raise AssertionError("it did not stop")


def test_values_in_messages():
    def stops(x, n):
        if x > 1:
            raise ValueError(f"x is {x}, {x:.3f} of {n + 1} {'known'!r}")
        assert n > 0, f"n is {n}"
        return x
    assert "ValueError: x is 2.5, 2.500 of 8 'known'" in message(stops, 2.5, 7)
    assert "n is -1" in message(stops, 0.5, -1)

    def in_a_loop(xs):
        s = 0.0
        for x in xs:
            s += x
            if s > 2:
                raise ValueError(f"{s} at {x}")
        return s
    assert "ValueError: 3.0 at 2.0" in message(in_a_loop, V)
    assert float(jit(in_a_loop)(V / 10)) > 0.5
    assert anp is not None


def test_complex_numbers_take_the_type_of_what_they_meet():
    def f(x, w, n):
        return (x * 1j, 1j * x + 2, complex(x[0], n) * x, cmath.exp(1j * n) * x, w * x, np.where(x.real > 0, x, 1j), w * w, w, abs(w), w.real, w.imag, np.add(x, 1j),
                np.exp(w), np.full(2, 1j), w.conjugate(), isinstance(w, complex), w == 2j, [w, 1j, 2.0], sum([w, w]), w + True, w / 3, x ** 2j)
    for dtype in (np.float32, np.float64, np.complex64, np.complex128):
        x = np.array([1.5, 0.5], dtype)
        same(f, x, 2j, 3)
        for mine, theirs in ((anfora.asarray(x) * 1j, x * 1j), (anfora.numpy.add(1j, x), np.add(1j, x)), (anfora.numpy.where(x.real > 0, x, 1j), np.where(x.real > 0, x, 1j))):
            assert np.asarray(mine).dtype == theirs.dtype and np.array_equal(mine, theirs)


def test_rounding_keeps_the_type():
    """Of integers to integers, and of numbers of NumPy by NumPy's way."""
    same(lambda n, x: (round(n, -1), round(n, 1), round(n), round(x, -1), round(x, 2)), 15, 2.675)
    same(lambda n, x: (round(n, -1), round(n, 1), round(x, 2), round(x, -1)), np.int8(15), np.float32(2.675))
    for x in (np.array([15, 25, 35, -15, 149]), np.array([15, 25, 14], np.uint8), np.array([15.25, 25.35], np.float32), np.array([15.25 + 3.14j])):
        same(lambda x: (np.round(x), np.round(x, 1), np.around(x, -1), x.round(1), [round(v, -1) for v in x.real]), x)
    for x in (np.array([2.0]), np.array([[0.5]])):
        same(lambda x: (bool(x > 1), bool(x), not x, int(x), float(x)), x)


def test_rounding():
    same(lambda x: (round(x, 1), round(x + 0.3, 1), round(x * 100, 2), round(x), round(x * 10, 0)), -1.15)
    same(lambda x: (round(x, 2), round(x, 1), round(x * 1000, -2)), 2.675)


def test_texts_in_results():
    same(lambda x: (x, "a", [x, {"name": "b", "x": x}]), 1.0)
    same(lambda x: "only a text", 1.0)
    refused_anywhere(lambda x: (x, np.float32), 1.0, say="element type")


def refused_anywhere(f, *args, say):
    try:
        jit(f)(*args)
    except anfora.AnforaError as e:
        assert say in str(e), e
    else:
        raise AssertionError("not refused")


def test_structure_after_loops_and_branches():
    def kept(x, n):
        xs, ys = [x, x + 1], [x]
        for i in range(n):
            xs = [a * 2 for a in xs]
        if n > 1:
            ys = [x * 3]
        return xs, ys, [x] * 3, xs[::-1]
    same(kept, 1.0, 3)
    same(lambda x: ([x, 2] * 2, (x,) * 3, sum([x] * 4), np.array([[a, a * 2] for a in [x, 1.0]])), 2.0)

    def either(x):
        if x > 1:
            return [x]
        return (x,)
    refused_anywhere(either, 2.0, say="returns a list here and a tuple there")


def test_kinds_after_loops_and_in_functions_within():
    def parts(x):
        if bool(0 / 4):  # decided late: ways of other lengths
            return [x]
        f = (lambda: ((x, x),)) if not True else (lambda: ([x, x],))
        return [x, f()]
    same(parts, 2.0)

    def given(x):
        def g(a):
            return a
        h = lambda b: g(b)  # noqa: E731
        def pair():
            return [[x], (x,)]
        return g([x]), g((x,)), h([x]), h((x, [x])), (lambda a: a)([x, x]), pair()[0], pair()[1]
    same(given, 2.0)

    def within(x, n):
        a = {"k": [x, x]}
        for _ in range(n):
            a = {"k": (x, x)}
        return a

    def by_function(x, n):
        def g(a):
            for _ in range(n):
                a = (x, x)
            return a
        return g([x, x])

    def by_lambda(x, n):
        g = lambda a: (x, x) if n > 1 else a  # noqa: E731
        return g([x, x])

    def again(x, n):
        def g(k, a):
            return a if k < 1 else g(k - 1, (x, x))
        return g(n, [x, x])
    for f in (within, by_function, by_lambda, again):
        for n in (0, 3):
            refused_anywhere(f, 2.0, np.array(n), say="returns a list here and a tuple there")

    def unknown(x):
        def g(f):
            return f()
        return g(lambda: [x])

    def one_of(x):
        fs = [lambda: [x], lambda: (x,)]
        return fs[0]()
    for f in (unknown, one_of):
        refused_anywhere(f, 2.0, say="a list or a tuple, which of both is not known")


def test_trees_have_none():
    p = {"w": V, "b": [M, None]}
    same(lambda p: anfora.tree_map(lambda a: a * 2, p), p)
    same(lambda p: anfora.tree.map(lambda a, b: a + b, p, p), p)
    same(lambda p: anfora.tree_reduce(lambda s, a: s + np.sum(a), p, 0.0), p)

    def rebuilt(p):
        leaves, structure = anfora.tree_flatten(p)
        return anfora.tree_unflatten(structure, [a * 2 for a in leaves]), len(leaves)
    same(rebuilt, p)


def test_scan_as_jax_has_it():
    def cumulated(reverse):
        return anfora.scan(lambda c, x: (c + x, (c, None)), 0.0, V, reverse=reverse, unroll=2)
    total, (before, nothing) = cumulated(False)
    assert float(total) == 6 and np.allclose(np.asarray(before), [0, 1, 3]) and nothing is None
    total, (before, nothing) = cumulated(True)
    assert float(total) == 6 and np.allclose(np.asarray(before), [5, 3, 0]) and nothing is None
    assert anfora.scan(lambda c, x: (c + x, None), 0.0, V)[1] is None


def scaled(x, k=2.0, n=1):
    return x * k + n


def test_batches_leave_defaults_alone():
    vmap = anfora.vmap
    for got in (vmap(scaled)(V), jit(lambda v: vmap(scaled)(v))(V), jit(lambda v: vmap(scaled, in_axes=0)(v))(V)):
        alike(V * 2 + 1, np.asarray(got))
    alike(V * V + 1, np.asarray(vmap(scaled)(V, V)))
    alike(V * V + 1, np.asarray(vmap(scaled)(V, k=V)))
    alike(V * 5 + 1, np.asarray(vmap(scaled, in_axes=(0, None))(V, 5.0)))
    alike(V * V + 1, np.asarray(jit(lambda v: vmap(scaled)(v, v))(V)))


def twice(f):
    @functools.wraps(f)
    def g(*args):
        return f(*args) * 2
    return g


@twice
def wrapped(x):
    return x + 1


def test_wrapped_functions():
    same(wrapped, 1.0)
    same(lambda x: wrapped(x) + 1, 1.0)


def test_numpy_takes_arrays():
    a = anfora.asarray(M)
    assert float(np.sum(a)) == 15 and np.allclose(np.asarray(np.max(a, axis=0)), [3, 4, 5])
    assert np.allclose(np.asarray(np.mean(a, axis=1)), [1, 4]) and np.allclose(np.asarray(np.cumsum(a)), np.cumsum(M))
    assert float(anfora.asarray(3.0)) == 3.0 and anfora.asarray([1, 2]).shape == (2,)


def test_lists_as_python_has_them():
    def stack(x):
        xs = [x, x + 1, x + 2, x + 3]
        last = xs.pop()
        first = xs.pop(0)
        xs.pop()
        return xs, last, first
    same(stack, 1.0)
    same(lambda x, y: (x in y, x not in y, x in [1.0, 2.0], 3 in (1, 2), x in [x, y[0]]), 1.0, (1.0, 2.0))
    same(lambda x: (isinstance(x, (list, tuple)), isinstance(x, dict), isinstance([x], list)), V)
    same(lambda d: (d["a"] * 2, sum(d.values())), collections.OrderedDict(a=1.0, b=2.0))

    def quiet(x):
        with np.errstate(all="ignore"):
            y = x / 2
        return y
    same(quiet, V)


def test_functions_of_a_command():
    code = "import anfora\n@anfora.jit\ndef f(x):\n    return x * 2 + 1\nprint(float(f(3.0)), float(anfora.jit(lambda x: x + 1)(1.0)))\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": sys.path[0]})
    assert done.stdout == "7.0 2.0\n", done


def test_loops_whose_shapes_change():
    def doubled(x):
        for _ in range(3):
            x = np.concatenate([x, x])
        return x
    same(doubled, V)

    def halves(x):
        s, k = 0.0, 1
        for i in range(2):
            x = x[: x.shape[0] // 2] + x[x.shape[0] // 2:]
            s = s + np.sum(x) * i
        return x, s
    same(halves, np.arange(8.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # W0908
        same(lambda x, n: grown(x, n), V, np.array(3))


SINGLE = anfora.asarray(V.astype(np.float32)).dtype


def grown(x, n):
    for _ in range(n):
        x = np.concatenate([x, x])
    return x


def test_element_types_are_numpys():
    for name in ("float32", "float64", "int32", "uint8", "bool", "complex64"):
        d = anfora.asarray(np.zeros(3, name)).dtype
        assert d == np.dtype(name) and d == name and np.dtype(d) == np.dtype(name) and d.name == name and d == (bool if name == "bool" else getattr(np, name))
        assert d.itemsize == np.dtype(name).itemsize and not d != np.dtype(name) and d != np.dtype("int16") and d is not None
    assert anfora.asarray(V).dtype == "f64" and {"f64": 1}[anfora.asarray(V).dtype] == 1
    assert np.zeros(2, anfora.asarray(V).dtype).dtype == np.float64
    got = np.asarray(jit(lambda m: m.astype(SINGLE))(M))
    assert got.dtype == np.float32 and np.allclose(got, M)


def test_large_arrays_are_printed_as_numpys():
    text = repr(anfora.asarray(np.arange(1000.0)))
    assert text.startswith("Array([") and "..." in text and text.endswith("f64, shape=(1000,))") and len(text) < 200, text


def test_names_of_optimisers():
    assert anfora.train.Adam(1e-3, weight_decay=0.1).decay == anfora.train.Adam(1e-3, decay=0.1).decay


def test_sizes_that_depend_on_data():
    """They are compiled up to there, for each shape of the arguments, and that is said once."""
    @jit
    def f(x):
        y = anp.sin(x @ x)
        n = anp.sum(y > 0.5)
        return {"ones": anp.zeros((n,)) + 1, "rows": y.shape[0], "y": (y, n)}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for scale in (1.0, 3.0):
            x = np.arange(12.0).reshape(12, 1) * np.arange(12.0) * scale
            y = np.sin(x @ x)
            got = f(x)
            assert got["ones"].shape == ((y > 0.5).sum(),) and got["rows"] == 12 and got["y"][1] == (y > 0.5).sum()
            np.testing.assert_allclose(got["y"][0], y, atol=1e-9)
    assert [str(w.message).split(": ")[1] for w in said] == ["W0908"], said
    try:
        anfora.eval_shape(f, x)
    except TypeError as e:
        assert "size depends on data" in str(e), e
    else:
        raise AssertionError("a shape that is not known")


def test_one_way_raises():
    def last(x, c):
        best = None
        if c < 0:
            raise ValueError("negative")
        else:
            best = x * 2
        return best

    def middle(x, c):
        if c < 0:
            y = x
        elif c == 0:
            raise ValueError(f"zero {c}")
        elif c == 1:
            y = x * 2
        else:
            raise TypeError("large")
        return y

    def lists(x, c):
        if c > 0:
            xs = [x, x]
            xs.append(x * c)
            d = {"a": x}
        else:
            raise ValueError("negative")
        d["b"] = xs[2]
        return d, xs

    def within(x, n):
        for _ in range(n):
            if x > 100.0:
                raise ValueError(f"large {x}")
            else:
                y = x * 2
            x = y
        return x
    for f, x, values in ((last, 2.0, (1, -1)), (middle, 2.0, (-1, 0, 1, 2)), (lists, 2.0, (1, -1)), (within, 2.0, (0, 3, 30))):
        for c in values:
            try:
                want = f(x, c)
            except (ValueError, TypeError) as e:
                try:
                    anfora.jit(f)(x, c)
                except anfora.RunError as got:
                    assert str(e) in str(got), got
                else:
                    raise AssertionError((f.__name__, c))
            else:
                assert anfora.jit(f)(x, c) == want, (f.__name__, c)
    assert anfora.grad(middle)(2.0, 1) == 2.0


def test_lists_that_closures_read_later():
    """A function within sees a list or dictionary as it is when the function is called, an iterator when its items are read."""
    def reads_list(x):
        xs = [x[0]]

        def count():
            return len(xs)
        before = count()
        xs.append(x[1])
        return before, count()

    def reads_in_loop(x):
        history, total = [], 0.0

        def so_far():
            return sum(history)
        for i in range(3):
            history.append(x[i])
            total += so_far()
        return total

    def reads_dict(x):
        d = {"a": x}
        f = lambda: d["a"] * 2  # noqa: E731
        d["a"] = x + 1
        return f()

    def reads_deleted(x):
        d = {"a": 1, "b": 2}
        f = lambda: len(d)  # noqa: E731
        del d["a"]
        return f() * x

    def given_back(x):
        xs = [1]

        def make():
            def inner():
                return xs[0] * x
            return inner
        g = make()
        xs[0] = 5
        return g()

    def composed(x):
        k = 2
        f, both = lambda v: v * k, lambda f, g: lambda v: g(f(v))
        h = both(f, np.sin)
        k = 3
        return h(x)

    def mapped(x):
        k = 2
        ys = map(lambda v: v * k, x)
        k = 3
        return list(ys)
    for f in reads_list, reads_in_loop, reads_dict, reads_deleted, given_back, composed, mapped:
        refused(f, V, say="which changes here, before it is called again")

    def generator(x):
        k = 2
        ys = (v * k for v in x)
        k = 3
        return list(ys)

    def zipped(x):
        xs = [1, 2]
        pairs = zip(xs, xs)
        xs.append(3)
        return sum(a * b for a, b in pairs) * x

    def turned(x):
        xs = [1, 2, 3]
        back = reversed(xs)
        xs[0] = 9
        return list(back), x
    for f in generator, zipped, turned:
        refused(f, V, say="would see when it is read")

    def apart(x):
        out, d, k = [], {}, 2
        d["w"] = x

        def f(v):
            out = []
            for i in range(2):
                out.append(v * d["w"] * k * i)
            return out
        for i in range(3):
            out.append(f(i + 1.0)[1])
        ys = (v * k for v in x)
        y = sum(ys)
        k = 3
        return out, y, k
    same(apart, V)


def test_kinds_of_parts_that_are_chosen():
    """A tuple or dictionary with a part that a condition chooses: of names of it and of its parts that part is known, too."""
    def names(x, c):
        v = ([x, x] if c > 0 else [x, x + 1], x)
        u, w, (p, q) = v, v[0], v
        return u, w, p, v[0], v[-1]

    def keys(x, c):
        d = {"k": [x, x] if c > 0 else [x, x + 1], "l": (x,)}
        return d["k"], d, d["l"]

    def rows(x, c):
        v = [([x, x] if c > 0 else [x, x + 1]) for _ in range(2)]
        return v[1], v

    def given(x, c):
        def h(z):
            return ([z, z] if c > 0 else [z, z + 1], z)
        r = h(x)
        return r[0], r

    def carried(x, c):
        v = (x, [x] if c > 0 else [x + 1])
        for _ in range(3):
            v = (v[0] + 1, v[1])
        return v
    for f in (names, keys, rows, given, carried):
        same(f, 1.5, 3.25)
        same(f, 1.5, -3.25)


def test_numbers_as_python_has_them():
    same(lambda n, x: (n ** -1, (-n) ** -3, x[0] ** 2, int("ff", 16), bool(""), bool("a")), 4, V)
    same(lambda x: (cmath.exp(1j * x[0]), cmath.sqrt(-1), cmath.phase(complex(x[0], x[1])), cmath.log(x[0] + 1j, 2), math.log(abs(x[0]) + 1, 3)), V)
    same(lambda x: (np.argsort(x, kind="stable"), np.sort(x, kind="mergesort")), np.array([2, 1, 2, 0]))
    refused(lambda x: np.argsort(x, kind="best"), V, say="mergesort")
    refused(lambda x: np.vectorize(lambda v: v * 2)(x), V, say="vmap")
    refused(lambda x: collections.deque([x]), V, say="a queue is an array")

    def ranges(x):
        a = list(range(4))
        b = a.copy()
        b.append(9)
        a[0], a[2] = a[2], a[0]
        return a, b, 3 in a, [v * x for v in a]
    same(ranges, 2.0)


def test_names_that_are_bound_many_times():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "long.py")
        with open(path, "w") as f:
            f.write("def f(x):\n    y = x\n" + "    x = x * 0.5 + y\n    y = x - y\n    x = x + y\n" * 60 + "    return x, y\n")
        spec = importlib.util.spec_from_file_location("long", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        same(module.f, V)


@dataclasses.dataclass
class Span:
    a: float
    b: float = 2.0

    def __iter__(self):
        yield self.b
        yield self.a


@dataclasses.dataclass
class Fixed:
    a: float


def test_objects_have_no_items_of_their_own():
    for f in (tuple, list, sum, lambda p: [x for x in p], lambda p: list(map(lambda x: x + 1, p)), lambda p: min(*p), lambda p: (lambda x, y: x - y)(*p)):
        refused(lambda x, f=f: f(Span(x)), 1.5, say="__iter__ of Span")
        refused(lambda x, f=f: f(Fixed(x)), 1.5, say="'Fixed' object has no items")
    refused(lambda x: len(Fixed(x)), 1.5, say="'Fixed' object has no items")


def test_arguments_that_numpy_writes_to():
    same(lambda x: (np.clip(x, 0.5, 2.0), np.clip(x, None, 2.0), np.clip(x, a_min=1.0, a_max=None), x.clip(0.5, max=2.0)), V)
    refused(lambda x, y: np.clip(x, 0.5, 2.0, y), V, np.zeros(3), say="out cannot be given")
    refused(lambda x, y: x.clip(0.5, 2.0, y), V, np.zeros(3), say="out cannot be given")


def test_dates_are_no_arrays():
    for x in (np.datetime64("2020-01-01"), np.timedelta64(5, "D"), np.array(["2020-01-01"], "M8[D]")):
        for f in (jit(lambda x: x), anp.negative, anp.asarray):
            try:
                got = f(x)
            except TypeError as e:
                assert "64[D] are not supported" in str(e), e
            else:
                raise AssertionError(f"{x!r} became {got!r}")


def passed(x):
    return x


def listed(k):
    return [1.0 for _ in range(k)]


def optional(x, d=None):
    return (x, x) if d is None else (x, d, x)


class Kept:
    def __init__(self, x):
        self.x = x


def test_results_are_of_the_arguments_of_each_call():
    def loops(z):
        a, b, s = [z, z, z], (z, z), 0.0
        for j in passed(b):
            s += j
        for j in passed(a):
            s += j
        return s, len(passed(b)), len(passed(a)), [len(passed(t)) for t in ((z,), (z, z, z))]

    def within(z):
        def inner():
            return sum(v for v in passed((z, z)))
        return inner(), sum(v for v in passed((z, z, z))), [len(v) for v in map(passed, [(z, z), (z, z, z)])]

    def named(z):
        a, b, p = passed(x=(z, z)), passed(x=(z, z, z)), ((z,),)
        return len(a), len(b), len(passed(*p)), len(listed(k=2)), len(listed(k=3)), len(optional(z)), len(optional(z, 1.0)), len(optional(z, d=2.0)), len(optional(z))

    def kept(z):
        a, b = Kept((z, z)), Kept((z, z, z))
        return len(a.x), len(b.x), [k for k in passed({"a": z})], [k for k in passed({"b": z, "c": z})]
    for f in (loops, within, named, kept):
        same(f, 1.5)
