# SPDX-License-Identifier: Apache-2.0
"""Batches of many sizes: how much code is made for them, and that values stay those of code for each size."""
import os
import tempfile
import threading
import warnings

import anfora
import anfora.numpy as jnp
import numpy as onp
from anfora import _nans, grad, jit, vmap

rng = onp.random.default_rng(0)
P = {"w": [(rng.normal(size=(8, 16)) / 3).astype("f4"), (rng.normal(size=(16, 3)) / 4).astype("f4")], "b": onp.ones(16, "f4")}


def network(p, x):
    h = jnp.maximum(x @ p["w"][0] + p["b"], 0)
    y = h @ p["w"][1]
    return {"y": jnp.exp(y) / jnp.sum(jnp.exp(y), axis=-1, keepdims=True), "h": (h, x[:, 0])}


def batch(n):
    return rng.normal(size=(n, 8)).astype("f4")


def same(f, each, *args):
    got, want = f(*args), each(*args)
    for a, b in zip(anfora.tree_leaves(got), anfora.tree_leaves(want), strict=True):
        a, b = onp.asarray(a), onp.asarray(b)
        assert a.shape == b.shape and a.dtype == b.dtype and onp.allclose(a, b, rtol=1e-5, atol=1e-6), (a, b)


def compilations(f):
    return int(f.explain().split()[0])


def test_from_the_third_size_on_one_code_is_for_all():
    f, each = jit(network), jit(network, dynamic=False)
    for n in [*range(1, 65), 129, 1000]:
        same(f, each, P, batch(n))
    assert compilations(f) == 7, f.explain()
    assert compilations(each) == 66 and each.compiled == 64
    assert "rows are apart" in f.explain()


def test_two_sizes_have_code_of_their_own():
    f = jit(network)
    for n in (32, 17, 32, 17):
        f(P, batch(n))
    assert compilations(f) == 2 and "f32[17, 8]" in f.explain()


def test_constants():
    f, each = jit(network).fix(P), jit(network, dynamic=False).fix(P)
    for n in range(3, 20):
        same(f, each, batch(n))
    assert compilations(f) == 6, f.explain()  # 3 and 4, and 1, 2, 8, 16


def test_gradients_of_each_row():
    energy = lambda p, x: jnp.sum(jnp.sin(x @ p["w"][0]) ** 2)
    f, each = jit(vmap(grad(energy, 1), in_axes=(None, 0))), jit(vmap(grad(energy, 1), in_axes=(None, 0)), dynamic=False)
    g, h = jit(lambda p, x: vmap(grad(energy, 1), in_axes=(None, 0))(p, x)), jit(lambda p, x: vmap(grad(energy, 1), in_axes=(None, 0))(p, x), dynamic=False)
    for n in range(2, 12):
        same(f, each, P, batch(n))
        same(g, h, P, batch(n))
    assert compilations(g) == 5, g.explain()


def test_what_needs_all_rows_has_code_for_each_size():
    f, each = jit(lambda x: x - jnp.mean(x, axis=0), interpret_after=0), jit(lambda x: x - jnp.mean(x, axis=0), dynamic=False)
    for n in range(2, 8):
        same(f, each, batch(n))
    assert compilations(f) == 6
    assert "code is made for each size" in f.explain()


def test_it_can_be_asked_for():
    f, each = jit(network, dynamic=True), jit(network, dynamic=False)
    for n in (100, 37, 3):
        same(f, each, P, batch(n))
    assert compilations(f) == 5, f.explain()  # 100; 37 is 32, 4 and 1; 3 is 2 and 1
    loss = jit(lambda x: jnp.sum(x * x), dynamic=True)
    loss(batch(2))
    try:
        loss(batch(3))
    except anfora.CompileError as e:
        assert "E1595" in str(e) and "not computed apart" in str(e), e
    else:
        raise AssertionError("it was not refused")


def test_an_error_in_a_piece_is_told_as_in_a_batch():
    @jit
    def rows(t, i):
        return t[i] * 2
    t = onp.ones((4, 3))
    for n in (90, 95, 100):
        rows(t, onp.zeros(n, int))
    wrong = onp.zeros(100, int)
    wrong[97] = 4
    try:
        rows(t, wrong)
    except anfora.RunError as e:
        assert "outside a dim of size 4" in str(e), e
    else:
        raise AssertionError("it was not refused")


def test_forgotten_code_is_made_again():
    f, each = jit(network, max_compiled=4), jit(network, dynamic=False)
    for n in [*range(1, 12), 5, 3, 1]:
        same(f, each, P, batch(n))
    f.clear_cache()
    assert f.compiled == 0 and compilations(f) == 0
    same(f, each, P, batch(5))


def decode(w, past, x):
    """Attention of one token over all before; gives the longer cache."""
    keys = jnp.concatenate([past, x @ w], axis=0)
    weights = jnp.exp(keys @ (x @ w)[0])
    return (weights / jnp.sum(weights)) @ keys, keys


def interpreted(f):
    return int(f.explain().split("change from call to call: ")[1].split()[0]) if "change from call" in f.explain() else 0


def decodes_as(f, each, n):
    w, past = (rng.normal(size=(4, 4)) / 4).astype("f4"), onp.zeros((1, 4), "f4")
    for _ in range(n):
        x = rng.normal(size=(1, 4)).astype("f4")
        same(f, each, w, past, x)
        past = onp.asarray(each(w, past, x)[1])


def test_sizes_that_do_not_come_back_are_interpreted():
    f, each = jit(decode, interpret_after=2), jit(decode)
    decodes_as(f, each, 12)
    assert compilations(f) + interpreted(f) == 12 and compilations(f) >= 2, f.explain()
    assert compilations(f) == 2, f.explain()
    w, x, past = onp.eye(4, dtype="f4"), onp.ones((1, 4), "f4"), onp.ones((2000, 4), "f4")
    while compilations(f) == 2 and interpreted(f) < 1000:  # until that has been as much work as code
        same(f, each, w, past, x)
    again = interpreted(f)
    same(f, each, w, past, x)
    assert 12 < interpreted(f) == again and compilations(f) == 3, f.explain()
    f.clear_cache()
    assert compilations(f) == 0
    decodes_as(f, each, 2)
    assert compilations(f) == 2, f.explain()


def test_when_a_size_has_code_is_counted_and_not_timed():
    def calls_before_code():
        f, w, x = jit(decode, interpret_after=2), onp.eye(4, dtype="f4"), onp.ones((1, 4), "f4")
        for n in (1, 2):
            f(w, onp.ones((n, 4), "f4"), x)
        while compilations(f) == 2 and interpreted(f) < 1000:
            f(w, onp.ones((4000, 4), "f4"), x)
        return interpreted(f)
    assert 2 < calls_before_code() == calls_before_code() < 1000


def test_three_sizes_have_code_unless_it_is_asked_for():
    f, each = jit(decode), jit(decode, dynamic=False)
    decodes_as(f, each, 8)
    assert 3 <= compilations(f) == 8 - interpreted(f) and interpreted(f), f.explain()
    assert compilations(each) == 8 and not interpreted(each), each.explain()


def test_code_after_an_interpreted_call_has_its_own_result():
    f, each = jit(lambda x: x * 2 + 1), jit(lambda x: x * 2 + 1, interpret_after=0)
    for dims in ((2, 2), (0, 2, 2), (3, 3), (4, 4), (5, 5), (2, 4, 4), (1, 2, 3, 4, 4), (6, 6), (1, 6, 6)):
        for dtype in ("f4", "f8"):
            x = onp.ones(dims, dtype)
            same(f, each, x)
            assert f(x).shape == dims and f(x).dtype == each(x).dtype and jnp.tanh(x).shape == dims
    assert interpreted(f), f.explain()


def test_a_batch_of_a_further_size_has_pieces_and_no_interpreter():
    f = jit(lambda x: jnp.exp(x) * 2)
    for n in range(3, 20):
        same(f, f, batch(n))
    assert not interpreted(f) and f.compiled == 17, f.explain()


def test_element_types_are_no_sizes():
    f, each = jit(lambda x: x - jnp.max(x, axis=0), interpret_after=2), jit(lambda x: x - jnp.max(x, axis=0))
    for dtype in ("f4", "f8"):
        for n in (2, 3):
            same(f, each, onp.ones((n, 4), dtype))
    assert compilations(f) == 4, f.explain()


def test_files_take_options_as_jit_does():
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "decode.dat")
    jit(decode).save(path)
    f = anfora.read(path, interpret_after=1)["decode"]
    decodes_as(f, jit(decode), 6)
    assert compilations(f) + interpreted(f) == 6 and interpreted(f), f.explain()  # code of all its sizes belongs together
    for options, error in (({"static_argnums": 0}, TypeError), ({"interpret_after": -1}, ValueError)):
        try:
            anfora.read(path, **options)
        except error as e:
            assert next(iter(options)) in str(e), e
        else:
            raise AssertionError("it was not refused")


def test_another_thread_between_a_call_and_its_result():
    """Code for many sizes has the result type of its last call: each call must take its own."""
    rows = jit(lambda x: (jnp.cumsum(x), [2 * r for r in x]), interpret_after=1)
    rows(batch(2)[:, 0])
    on, main, sizes = _nans.on, threading.current_thread(), iter(range(9, 99))  # `on` is asked between the run and what is made of the result

    def on_then_another():
        if threading.current_thread() is main:
            t = threading.Thread(target=rows, args=(onp.ones(next(sizes)),))
            t.start(), t.join()
        return on()
    _nans.on = on_then_another
    try:
        for n in (4, 5, 6):
            sums, items = rows(onp.ones(n))
            assert sums.shape == (n,) and len(items) == n, (sums, items)
    finally:
        _nans.on = on
    assert interpreted(rows), rows.explain()


def test_sizes_of_integers():
    """An integer that a size follows from is a constant of the code, with a warning."""
    @anfora.jit
    def f(n, x, m=2):
        z = onp.zeros(n)
        for i in range(n):
            z[i] = i * x
        return z, [i * x for i in range(m)]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for n, x, m in ((3, 2.0, 2), (4, 2.0, 3), (3, 5.0, 2)):
            got, want = f(n, x, m), f.__wrapped__(n, x, m)
            onp.testing.assert_array_equal(got[0], want[0])
            assert [float(v) for v in got[1]] == want[1]
    assert [str(w.message) for w in said if w.category is UserWarning] == [
        "f: sizes follow from n or m, so code is made for each value of them; jit(static_argnames=['n', 'm']) says that this is meant"], [str(w.message) for w in said]
    assert f.explain().startswith("2 compilations"), f.explain()


def test_parts_by_integers():
    """What would be interpreted where sizes depend on an integer is compiled whole, for each value of it."""
    def f(d):
        x = onp.arange(6 * d).reshape((6, d))
        s = 0
        for i in range(6):
            s += onp.sum(x[i] * x[5 - i])
        return s
    for values, words in (((2, 3, 2), "f: sizes follow from d, so"), ((onp.array(2),), "f: W0908: sizes depend")):
        g = anfora.jit(f)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for d in values:
                assert g(d) == f(int(d))
        assert [str(w.message).startswith(words) for w in said] == [True], [str(w.message) for w in said]
    with warnings.catch_warnings(record=True) as said:  # no integer decides it
        warnings.simplefilter("always")
        assert list(anfora.jit(lambda d, x: x[x > d])(1, onp.arange(4))) == [2, 3]
    assert len(said) == 1 and "W0908" in str(said[0].message), said


def test_two_parts_of_sizes_that_data_tell_in_many_rounds():
    """More rounds than there may be types: that the second part asks for what the first has got must not make that an error (E0724)."""
    def product(rows, columns, values, x):
        y = onp.empty(rows.size - 1, values.dtype)  # nothing before the loop that could be compiled alone
        for i in range(rows.size - 1):
            at = columns[rows[i]:rows[i + 1]]
            y[i] = values[rows[i]:rows[i + 1]] @ x[at]
        return y

    n = 600
    rows = onp.cumsum(onp.concatenate([[0], onp.arange(n) % 3])).astype(onp.uint32)
    columns = (onp.arange(rows[-1]) * 7 % 5).astype(onp.uint32)
    values, x = onp.cos(onp.arange(rows[-1])), onp.array([1.0, 2.0, -1.0, 0.5, 3.0])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        got = onp.asarray(anfora.jit(product)(rows, columns, values, x))
    assert onp.allclose(got, product(rows, columns, values, x))
    assert said and all("W0908" in str(w.message) for w in said), [str(w.message) for w in said]


def test_items_by_integers():
    def f(n):
        xs = [1, 3, 4, 5]
        xs.insert(n, 2)
        x = xs.pop(n + 1)
        return x, xs * n, n + 1 in xs[n:]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for n in (1, 2):
            assert anfora.jit(f)(n) == f(n)
    assert all("what can be compiled follows from n" in str(w.message) for w in said) and len(said) == 2
