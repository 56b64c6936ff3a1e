# SPDX-License-Identifier: Apache-2.0
"""Functions within compiled functions: what is known of their arguments where loops of the library call them, what they give, and
the numbers of shapes that they read."""
import collections
import warnings

import anfora
import anfora.numpy as jnp
import numpy as np
from anfora import jit, lax, tree_util, vmap

X = np.arange(6.0).reshape(3, 2)


def refused(words, f, *args):
    try:
        got = f(*args)
    except (anfora.CompileError, anfora.RunError, TypeError, ValueError) as e:
        assert words in str(e), f"{words!r} is not in {e}"
    else:
        raise AssertionError(f"it was not refused: {got!r}")


def same(got, want):
    assert tree_util.tree_structure(got) == tree_util.tree_structure(want), (got, want)
    for a, b in zip(tree_util.tree_leaves(got), tree_util.tree_leaves(want)):
        assert np.shape(a) == np.shape(b) and np.allclose(a, b), (got, want)


def test_bodies_know_the_carry():
    def count(d):
        def body(s):
            return {**s, "n": s["n"] + 1}
        return lax.while_loop(lambda s: s["n"] < 3, body, {**d, "n": 0})
    assert jit(count)({"a": 1.0}) == {"a": 1.0, "n": 3}
    Pair = collections.namedtuple("Pair", "m P")
    def run(s, xs):
        def step(s, x):
            s = s._replace(m=s.m + x)
            return s, s
        return lax.scan(step, s, xs)
    last, all_of = jit(run)(Pair(0.0, 1.0), np.arange(3.0))
    assert isinstance(last, Pair) and isinstance(all_of, Pair) and last.m == 3.0
    same(all_of.m, np.array([0.0, 1.0, 3.0]))
    total = jit(lambda t: lax.fori_loop(0, 3, lambda i, t: tree_util.tree_map(lambda x: x + len(tree_util.tree_leaves(t)), t), t))
    same(total({"a": 0.0, "b": [1.0]}), {"a": 6.0, "b": [7.0]})


def test_each_call_has_its_own_arguments():
    def f(a, b):
        def total(t):
            return sum(jnp.sum(x) for x in tree_util.tree_leaves(t))
        norm = lambda t: sum(jnp.sum(x * x) for x in tree_util.tree_leaves(t))  # noqa: E731
        return total(a), total(b), norm(a) + norm(b)
    assert jit(f)({"x": X}, [X, (X, 1.0)]) == (15.0, 31.0, 55 * 3 + 1)
    def never(t):
        def unused(s):
            return {**s, "k": 1}
        return t + 1
    assert jit(never)(1.0) == 2.0
    def unknown(x):
        def body(s):
            return {**s, "k": 1}
        return body(x)
    refused("it is not known what keys this has", jit(unknown), X)


def test_results_are_lists_where_python_has_lists():
    same(jit(lambda x: lax.scan(lambda c, a: ([c[0] + a], [a, (a,)]), [x], jnp.arange(3.0)))(1.0), ([4.0], [np.arange(3.0), (np.arange(3.0),)]))
    same(jit(lambda x: lax.map(lambda r: [r.sum(), {"k": [r]}], x))(X), [X.sum(1), {"k": [X]}])
    same(jit(lambda x: vmap(lambda r: [r, (r,)])(x))(X), [X, (X,)])
    same(jit(lambda x: lax.cond(x > 0, lambda: [x], lambda: [-x]))(2.0), [2.0])
    same(jit(lambda x: anfora.jvp(lambda x: [x * x], (x,), (1.0,)))(2.0), ([4.0], [4.0]))
    same(jit(lambda x: lax.associative_scan(lambda a, b: [a[0] + b[0]], [x]))(np.ones(3)), [np.arange(1.0, 4.0)])


def test_numbers_of_shapes_in_functions_within():
    def f(x):
        T, d = x.shape
        half = T // 2 + d
        def step(c, t):
            return c, jnp.arange(half) + jnp.sum(jnp.arange(T))
        return lax.scan(step, 0.0, x)[1]
    same(jit(f)(X), np.tile(np.arange(3) + 3, (3, 1)))
    def shadowed(x, y):
        n = len(x)
        return vmap(lambda x: jnp.zeros(len(x)) + n)(y)  # this x is another one
    same(jit(shadowed)(np.ones(5), X), np.full((3, 2), 5.0))
    def rebound(x):
        n = x.shape[0]
        x = x[1:]
        g = lambda: n + 0 * x  # noqa: E731
        return g()
    same(jit(rebound)(np.ones(4)), np.full(3, 4.0))
    def in_loop(x):
        total = 0.0
        for r in (x, x[:2], x[:1]):
            n = r.shape[0]
            total = total + (lambda y: y * n)(1.0)
        return total
    assert jit(in_loop)(np.ones(4)) == 7.0


def test_trees_of_any_list():
    def f(t, key):
        leaves, structure = tree_util.tree_flatten(t)
        keys = anfora.random.split(key, len(leaves))
        return tree_util.tree_unflatten(structure, [x + 0 * anfora.random.normal(k) for k, x in zip(keys, leaves)])
    same(jit(f)({"a": 1.0, "b": [X]}, anfora.random.key(0)), {"a": 1.0, "b": [X]})
    refused("2 leaves", jit(lambda t, xs: tree_util.tree_unflatten(tree_util.tree_structure(t), [x for x in xs])), [1.0, 2.0], X)
    refused("2 leaves, not 3", jit(lambda t: tree_util.tree_unflatten(tree_util.tree_structure(t), [1, 2, 3])), [1.0, 2.0])


def test_vectorize():
    f = jnp.vectorize(lambda a, b: a if a > b else b)
    same(f(np.arange(3.0)[:, None], np.ones(2)), np.maximum(np.arange(3.0)[:, None], np.ones(2)))
    g = jnp.vectorize(lambda m, v: m @ v, signature="(n,m),(m)->(n)")
    m, v = np.arange(24.0).reshape(2, 3, 4), np.arange(4.0)
    same(jit(g)(m, v), m @ v)
    pair = jnp.vectorize(lambda v: (v.sum(), v * 2), signature="(n)->(),(n)")
    same(pair(m), (m.sum(-1), m * 2))
    numpys = np.vectorize(lambda a: a * 2 if a > 0 else a)
    same(jit(lambda x: numpys(x))(np.array([-1.0, 1.0])), np.array([-1.0, 2.0]))
    refused("other dims than its signature", jnp.vectorize(lambda v: v, signature="(n)->()"), v)
    refused("takes 2 arguments, not 1", g, m)
    refused("is no signature", lambda: jnp.vectorize(f, signature="n->m"))


def test_rolls_and_indices_that_values_tell():
    roll = jit(lambda x, s: jnp.roll(x, s))
    for s in (-7, -1, 0, 2, 9):
        same(roll(X, s), np.roll(X, s))
    same(jit(lambda x, s: jnp.roll(x, s, (0, 1)))(X, np.array([1, -1])), np.roll(X, (1, -1), (0, 1)))
    same(jnp.roll(X, np.array([1, -1]), (0, 1)), np.roll(X, (1, -1), (0, 1)))
    same(jit(lambda x: jnp.indices(x.shape))(X), np.indices(X.shape))
    y = np.array([[1.0, -2.0], [3.0, -4.0]])
    same(jit(lambda x: x[jnp.nonzero(x > 0, size=3)])(y), np.array([1.0, 3.0, 1.0]))
    def by_name(x):
        at = jnp.where(x < 0, size=2)
        return x[at]
    same(jit(by_name)(y), np.array([-2.0, -4.0]))
    same(jit(lambda x: jnp.compress(x[0] > 0, x, axis=1, size=2, fill_value=9.0))(y), np.array([[1.0, 9.0], [3.0, 9.0]]))
    same(jit(lambda x: jnp.extract(x > 0, x, size=3, fill_value=9.0))(y), np.array([1.0, 3.0, 9.0]))


def test_conjugate_gradients():
    a = X.T @ X + np.eye(2)
    b = np.array([1.0, 2.0])
    cg = anfora.scipy.sparse.linalg.cg
    for got in (cg(a, b, tol=1e-12)[0], cg(lambda v: a @ v, b, tol=1e-12)[0], jit(lambda a, b: cg(a, b, tol=1e-12)[0])(a, b),
                jit(lambda a, b: cg(lambda v: a @ v, b, tol=1e-12)[0])(a, b)):
        same(got, np.linalg.solve(a, b))
    same(cg(a, np.zeros(2))[0], np.zeros(2))
    assert np.isnan(np.asarray(cg(a * np.nan, b)[0])).all()  # and it ends


def test_flags_and_partials():
    def run(x, reverse=False):
        return lax.scan(lambda c, x: (c + x, c), 0.0, x, reverse=reverse)[1]
    same(jit(lambda x: run(x, reverse=True) + run(x))(np.arange(3.0)), np.array([3.0, 2.0, 1.0]))
    from functools import partial
    same(jit(lambda x: partial(jnp.multiply, 2.0)(x))(X), 2 * X)
    twice = anfora.checkpoint(lambda x, n: x * n, static_argnums=(1,), prevent_cse=False)
    assert jit(anfora.grad(lambda x: twice(x, 2) ** 2))(3.0) == 24.0


def carry_and_row(c, x):
    return c, [c, x]


def loss_and_parts(p, x):
    return np.sum(x) * p[0], p


def test_structure_of_what_is_passed_on():
    """Lists that a body passes on, or that stand beside a loss, stay lists, whoever wrote the function."""
    tree, rows = [1.0, (2.0, [3.0])], np.arange(2.0)

    def scanned(c, xs):
        def body(c, x):
            return c, c
        return lax.scan(body, c, xs), lax.scan(carry_and_row, c, xs)
    stacked = [np.full(2, 1.0), (np.full(2, 2.0), [np.full(2, 3.0)])]
    same(jit(scanned)(tree, rows), ((tree, stacked), (tree, [stacked, rows])))

    def step(p, xs):
        def one(p, x):
            (value, parts), slope = anfora.value_and_grad(loss_and_parts, has_aux=True)(p, x)
            return [a - b for a, b in zip(p, slope)], {"value": value, "parts": parts}
        return lax.scan(one, p, xs)
    same(jit(step)([2.0, 3.0], np.ones((2, 1))), ([0.0, 3.0], {"value": np.array([2.0, 1.0]), "parts": [np.array([2.0, 1.0]), np.full(2, 3.0)]}))
    outer = anfora.value_and_grad(loss_and_parts, has_aux=True)
    want = (4.0, [2.0, [3.0]]), [2.0, [0.0]]
    same(jit(lambda p, x: outer(p, x))([2.0, [3.0]], np.ones(2)), want)
    same(jit(lambda p, x: anfora.value_and_grad(loss_and_parts, has_aux=True)(p, x))([2.0, [3.0]], np.ones(2)), want)

    def slope_of(p, x):
        slope, parts = anfora.grad(lambda p: (np.sum(p * x), [p, [x]]), has_aux=True)(p)
        value, pull, more = anfora.vjp(lambda p: (p * x, [p, {"k": [x]}]), p, has_aux=True)
        return slope, parts, value, pull(np.ones(2)), more
    x = np.ones(2)
    same(jit(slope_of)(2.0, x), (2.0, [2.0, [x]], 2 * x, (2.0,), [2.0, {"k": [x]}]))


def test_a_state_keeps_its_structure():
    """What JAX refuses of states and choices is refused, with what differs."""
    x, xs = np.ones(3), np.ones((3, 2))
    refused("a tuple of 2 in its state, and gives a tuple of 3", jit(lambda xs: lax.scan(lambda c, v: ((c[0], c[1], v), v), (1.0, 2.0), xs)), x)
    refused("a list of 2 in its state, and gives a tuple of 2", jit(lambda xs: lax.scan(lambda c, v: ((c[0], c[1]), v), [1.0, 2.0], xs)), x)
    refused("a dictionary of 'a' in its state, and gives a dictionary of 'b'", jit(lambda xs: lax.scan(lambda c, v: ({"b": c["a"]}, v), {"a": 1.0}, xs)), x)
    refused("gives None", jit(lambda xs: lax.scan(lambda c, v: (None, v), 1.0, xs)), x)
    refused("a list of 2 in its state", jit(lambda v: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1]), [v, v])), 1.0)
    refused("a list of 1 in its state", jit(lambda v: lax.fori_loop(0, 3, lambda i, c: (c[0] + 1,), [v])), 1.0)
    refused("a tuple of 2 and a list of 2", jit(lambda p, v: lax.cond(p, lambda v: (v, v), lambda v: [v, v], v)), True, x)
    refused("{'a'}".strip("{}"), jit(lambda p, v: lax.cond(p, lambda v: {"a": v}, lambda v: {"b": v}, v)), True, x)
    refused("shape () before a round and (2,) after", jit(lambda xs: lax.scan(lambda c, v: (c + v, v), 0.0, xs)), xs)
    refused("changes its element type", jit(lambda xs: lax.scan(lambda c, v: (c + v, v), np.int32(0), xs)), x)
    refused("changes its element type", jit(lambda xs: lax.scan(lambda c, v: (c + v, v), np.float32(0), xs)), x)
    for begin, rows in ((0.0, x.astype("f4")), (0, np.arange(3, dtype="i4")), (np.float64(0), x)):
        assert lax.scan(lambda c, v: (c + v, v), begin, rows)[0] == rows.sum()


def doubled(_, x):
    return None, [x, 2 * x]


def test_scan_without_a_state():
    x = np.arange(3.0)
    for f in (lambda x: lax.scan(doubled, None, x), lambda x: lax.scan(lambda _, v: (None, [v, 2 * v]), None, x, reverse=True)):
        same(jit(f)(x), (None, [x, 2 * x]))
        same(f(x), (None, [x, 2 * x]))
    same(jit(anfora.grad(lambda x: np.sum(lax.scan(doubled, None, x)[1][1])))(x), np.full(3, 2.0))


def test_what_chooses():
    refused("a truth value or a number", jit(lambda x: lax.cond("a", lambda: x, lambda: -x)), 1.0)
    refused("a truth value or a number", jit(lambda x: lax.cond(None, lambda x: x, lambda x: -x, x)), 1.0)
    refused("an index must be an integer", jit(lambda i: lax.switch(i, [lambda: 1, lambda: 2])), 0.7)
    assert [lax.switch(i, [lambda: 1, lambda: 2, lambda: 3]) for i in (-1, 0, 1, 2, 9)] == [1, 1, 2, 3, 3]
    assert lax.cond(2.0, lambda: 1, lambda: 2) == 1 and lax.cond(0, lambda: 1, lambda: 2) == 2
    refused("x + anp.array(xs)", jit(lambda x: x + [1, 2]), np.ones(2))


def test_options_of_what_is_compiled_already():
    """jit(grad(f), static_argnums=1) and jit(jit(f), backend=..) have the options; what is made of a function runs as it does."""
    def f(x, n):
        for _ in range(n):
            x = x * x
        return np.sum(x)
    assert list(jit(anfora.grad(f), static_argnums=(1,))(np.ones(3), 2)) == [4.0] * 3
    again = jit(jit(f, static_argnums=1), backend="interp")
    assert again(np.ones(3), 2) == 3.0 and again._options[0] == "interp" and again._static == {1}
    rows = jit(anfora.vmap(anfora.grad(lambda x: np.sum(x * x))), backend="interp", max_compiled=3)
    assert rows._options[0] == rows._functions[0]._options[0] == "interp" and rows._most == 3
    assert rows(np.ones((2, 3))).tolist() == [[2.0] * 3] * 2
    assert anfora.grad(jit(lambda x: x * x, backend="interp"))._options[0] == "interp"
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        own = anfora.custom_vjp(lambda x: x * x)
        assert jit(own) is own and not said and jit(own, backend="interp") is own
    assert "changes nothing" in str(said[0].message)
