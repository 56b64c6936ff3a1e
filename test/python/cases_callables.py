# SPDX-License-Identifier: Apache-2.0
"""Functions of any number of arguments as values, functools.partial, and names from outside that change between calls."""
import functools
import tempfile
import warnings
from types import SimpleNamespace

import anfora
import anfora.lax as lax
import anfora.numpy as anp
import numpy as np
import random_closures
from anfora import checkpoint, cond, grad, hessian, jacrev, jit, jvp, linearize, scan, value_and_grad, vjp, vmap
from anfora.optim import SGD
from anfora.train import Step

X = np.array([1.0, 2.0, 3.0])
TWICE = [2.0, 2.0, 2.0]


def same(got, want):
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), 1e-12)


def test_any_number_of_arguments_in_transforms():
    for f in (lambda x: grad(lambda *a: anp.sum(a[0] * 2))(x), lambda x: value_and_grad(lambda *a: anp.sum(a[0] * 2))(x)[1],
              lambda x: vjp(lambda *a: anp.sum(a[0] * 2), x)[1](1.0)[0], lambda x: grad(checkpoint(lambda *a: anp.sum(a[0] * 2)))(x),
              lambda x: anp.diag(hessian(lambda *a: anp.sum(a[0] ** 2))(x)), lambda x: anp.diag(jacrev(lambda *a: a[0] * 2)(x)),
              lambda x: vmap(grad(lambda *a: a[0] * 2))(x)):
        same(jit(f)(X), TWICE)
    for f in (lambda x: vmap(lambda *a: a[0] * 2)(x), lambda x: cond(x[0] > 0, lambda *a: a[0] * 2, lambda *a: a[0] * 3, x),
              lambda x: lax.switch(0, [lambda *a: a[0] * 2, lambda *a: a[0] * 3], x), lambda x: (lambda *a: a[0] * 2)(x),
              lambda x: [lambda *a: a[0] * 2][0](x), lambda x: vmap(lambda *a: a[0] + a[1])(x, x), lambda x: functools.reduce(lambda *a: a[0] + a[1], [x, x])):
        same(jit(f)(X), 2 * X)
    assert jit(lambda x: jvp(lambda *a: anp.sum(a[0] * 2), (x,), (x,))[1])(X) == 12.0
    assert jit(lambda x: linearize(lambda *a: anp.sum(a[0] * 2), x)[1](x))(X) == 12.0
    assert jit(lambda x: scan(lambda *a: (a[0] + a[1], a[0]), 0.0, x)[0])(X) == 6.0


def of_outside(*a):
    return anp.sum(a[0] * 2) + len(a)


def test_any_number_of_arguments_as_values():
    def given(x):
        def h(*a):
            return anp.sum(a[0] * 2) + len(a)

        def apply(f, *xs):
            return f(*xs)
        return apply(h, x), apply(h, x, x), apply(of_outside, x), grad(h)(x), [h, h][0](x), (lambda x, *, by=2.0, **k: x * by + k["a"])(1.0, a=3.0)
    got = jit(given)(X)
    assert [float(got[i]) for i in (0, 1, 2, 4, 5)] == [13.0, 14.0, 13.0, 13.0, 5.0]
    same(got[3], TWICE)
    same(jit(lambda x: vjp(of_outside, x)[1](1.0)[0])(X), TWICE)

    def wrapped(f):
        def inner(*args, **kw):
            return f(*args, **kw) * 2
        return inner
    same(jit(lambda x: wrapped(anp.sin)(x))(X), 2 * np.sin(X))
    same(jit(lambda x: anp.array(list(map(lambda *a: a[0] + len(a), [x[0], x[1]]))) * 2)(X), [4.0, 6.0])


def line(y, *more, by=2.0):
    return y * 3.0 + by + sum(more)


def test_constants_that_are_differentiated_by():
    k = 3.0
    assert jit(lambda x: grad(line)(k))(1.0) == 3.0 and jit(lambda x: grad(lambda y: y * y)(k))(1.0) == 6.0

    def square(y):
        return y * y
    twice = functools.partial(square)
    assert jit(lambda x: grad(square)(3.0))(1.0) == 6.0 and jit(lambda x: grad(twice)(k))(1.0) == 6.0
    assert jit(lambda x: value_and_grad(square)(3.0)[1])(1.0) == 6.0 and jit(lambda x: hessian(square)(3.0))(1.0) == 2.0


summed = functools.partial(anp.sum, axis=0)


def test_partial_of_operations():
    def f(x):
        summed(x)
        return functools.partial(anp.sum, axis=0)(x), summed(x), functools.partial(anp.add, x)(x), functools.partial(anp.concatenate, axis=0)([x, x]), \
            functools.partial(line, by=1.0)(x[0])
    got = jit(f)(X)
    assert got[0] == got[1] == 6.0 and got[4] == 4.0
    same(got[2], 2 * X)
    assert got[3].shape == (6,)
    same(grad(summed)(X), [1.0, 1.0, 1.0])
    assert jit(summed)(X) == 6.0 and jit(anp.bitwise_and)(3, 5) == 1 and jit(anp.sum)(X, axis=0) == 6.0


RATE, ITEMS, TABLE, SETTINGS = 2.0, [1.0, 2.0], {"a": 1.0}, SimpleNamespace(w=1.0)


def scaled(x):
    return anp.sum(x * RATE)


def test_names_from_outside_are_as_they_are_now():
    global RATE
    compiled, derived = jit(scaled), grad(scaled)
    for rate in (2.0, 3.0, np.array([1.0, 1.0, 1.0]), np.array([2.0, 0.0, 0.0])):
        RATE = rate
        want = float(np.sum(X * RATE))
        assert compiled(X) == want and jvp(scaled, (X,), (X,))[1] == want and linearize(scaled, X)[1](X) == want
        for got in (derived(X), vjp(scaled, X)[1](1.0)[0], value_and_grad(scaled)(X)[1]):
            same(got, np.ones(3) * RATE)
        if isinstance(RATE, np.ndarray):
            RATE[1] = 7.0
            assert compiled(X) == float(np.sum(X * RATE)) == jvp(scaled, (X,), (X,))[1]
    RATE = 2.0


def test_items_and_fields_from_outside():
    f = jit(lambda x: x * sum(ITEMS) * TABLE["a"] * SETTINGS.w)
    assert f(1.0) == 3.0
    ITEMS.append(1.0)
    assert f(1.0) == 4.0
    ITEMS[0] = 2.0
    assert f(1.0) == 5.0
    TABLE["a"] = 2.0
    assert f(1.0) == 10.0
    SETTINGS.w = 3.0
    assert f(1.0) == 30.0 and f.compiled == 1

    def made():
        w = 1.0

        def change(x):
            nonlocal w
            w = x
        return jit(lambda x: x * w), change
    g, change = made()
    assert g(2.0) == 2.0
    change(4.0)
    assert g(2.0) == 8.0


def test_a_name_that_changes_at_each_call_is_said():
    count = 0.0
    f = jit(lambda x: x + count)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for i in range(12):
            count = float(i)
            assert f(1.0) == 1.0 + i
    assert len(said) == 1 and "make it an argument" in str(said[0].message), said


def test_a_step_sees_what_changed():
    k = 1.0

    def loss(p, x):
        return anp.sum(p * x) * k
    step = Step(loss, SGD(1.0), np.zeros(2))
    step(np.ones(2))
    k = 10.0
    step(np.ones(2))
    same(step.params, [-11.0, -11.0])


def test_random_functions_of_functions():
    with tempfile.TemporaryDirectory() as folder:
        counts, wrong, why = random_closures.run(anfora, 1, 25, folder, "interp")
        more = random_closures.run(anfora, 500, 4, folder)
    assert not wrong and not more[1], (wrong, more[1])
    assert counts["same"] >= 20, (counts, why)


def test_types_of_sums_and_sizes():
    small, floats = np.array([100, 100, 100], "i4"), np.array([1.5, 2.5, 3.75])
    for name in ("sum", "prod", "cumsum", "cumprod", "nansum", "nanprod"):
        for x, dtype in ((small, "int8"), (small, "uint8"), (small, "int16"), (small, "int64"), (floats, "int16"), (floats, "float32"), (small, "bool")):
            want, f = getattr(np, name)(x, dtype=dtype), functools.partial(getattr(anp, name), dtype=dtype)
            for got in (getattr(anp, name)(x, dtype=dtype), jit(f)(x)):
                assert np.asarray(got).dtype == want.dtype and np.array_equal(np.asarray(got), want), (name, dtype, got, want)
    x, k = np.array([0.75, 1.0, 1e300, 1e-300, -3.0]), np.array([1024, -1074, -2000, 2000, 5000])
    for dtype in ("f8", "f4"):
        with np.errstate(all="ignore"):
            assert np.array_equal(np.asarray(anp.ldexp(x.astype(dtype), k)), np.ldexp(x.astype(dtype), k))
    for f in (lambda x: lax.split(x, (1, 1)), lambda x: anp.sum(x, initial=np.ones(2)), lambda x: lax.broadcast_in_dim(x, (2, 3), ()),
              lambda x: lax.broadcast_in_dim(x, (1, 3), (1, 0))):
        for way in (f, jit(f)):
            try:
                way(X)
            except anfora.AnforaError:
                continue
            raise AssertionError("a wrong size was taken")
