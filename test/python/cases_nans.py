# SPDX-License-Identifier: Apache-2.0
"""debug_nans, and messages of checks that fail when code is made: shapes are known then."""
import anfora
import anfora.numpy as anp
import numpy as np


def logs(x):
    y = x - 2.0
    z = anp.log(y)
    return {"a": anp.sum(z * 2), "n": 3}


def stopped(word, f, *args, kind=FloatingPointError):
    try:
        got = f(*args)
    except kind as e:
        assert word in str(e), f"{word!r} is not in {e}"
    else:
        raise AssertionError(f"it gives {got!r}")


def test_debug_nans():
    f, bad = anfora.jit(logs), np.array([1.0, 3.0])
    assert np.isnan(f(bad)["a"])
    with anfora.debug_nans(True):
        stopped("z = anp.log(y)", f, bad)
        stopped("Log makes a NaN", f, bad)
        assert f(np.array([3.0, 3.0]))["a"] == 0.0
        assert np.isnan(f(np.array([np.nan, 3.0]))["a"])  # nothing made it
        stopped("x * x", anfora.grad(lambda x: anp.sqrt(anp.sum(x * x))), np.zeros(3))
        stopped("Div makes a NaN", anfora.vmap(lambda x: x / x), np.array([0.0, 1.0]))
    assert np.isnan(f(bad)["a"])
    anfora.config.update("jax_debug_nans", True)
    try:
        stopped("Log makes a NaN", f, bad)
    finally:
        anfora.config.update("jax_debug_nans", False)


def test_messages_have_shapes():
    def f(x, y):
        if x.shape != y.shape:
            raise ValueError(f"{x.shape} is not {y.shape}, of {x.shape[0]:03d} rows and {x.dtype}")
        return x + y
    words = "ValueError: (3,) is not (4,), of 003 rows and float64"
    stopped(words, anfora.jit(f), np.ones(3), np.ones(4), kind=anfora.RunError)
    def g(x):
        assert x.ndim == 2, f"{x.ndim} dims, {x.shape}"
        return f(x[0], x[1])
    stopped("1 dims, (3,)", anfora.jit(g), np.ones(3), kind=anfora.RunError)
