# SPDX-License-Identifier: Apache-2.0
"""Typical mistakes of users: each is refused, and the message names what was expected and what to write. And idioms of tutorials, which
mean what they mean in JAX."""
import dataclasses

import anfora
import anfora.numpy as anp
import numpy as np
from anfora import grad, jit, lax, schedules, tree_util, vmap
from anfora.optim import SGD, Adam, AdamW, Lion
from anfora.train import Step, batches

X = np.arange(3.0)
A = np.ones((2, 3))


def refused(words, f, *args, line=None):
    """`line`: the message shows this part of the user's source."""
    try:
        got = f(*args)
    except (anfora.CompileError, anfora.RunError, TypeError, ValueError, AttributeError) as e:
        assert words in str(e), f"{words!r} is not in {e}"
        assert line is None or line in str(e).split("library's line")[0], f"{line!r} is not in {e}"
    else:
        raise AssertionError(f"it was not refused: {got!r}")


def test_scan_of_rows_that_are_not_as_many():
    f = jit(lambda a, b: lax.scan(lambda c, x: (c + x[0] * x[1], c), 0.0, (a, b)))
    assert f(X, X)[0] == 5.0
    refused("3 and 4", f, X, np.ones(4), line="lax.scan(lambda c, x")
    refused("length=5, and xs has 3 rows", jit(lambda a: lax.scan(lambda c, x: (c, x), 0.0, a, length=5)), X, line="length=5))")
    refused("xs is a number", lambda: lax.scan(lambda c, x: (c, x), 0.0, 3.0))
    refused("needs xs", lambda: lax.scan(lambda c, x: (c, x), 0.0))
    assert lax.scan(lambda c, _: (c + 1, None), 0, None, length=3)[0] == 3
    assert lax.scan(lambda c, x: (c, x), 0.0, X, length=3)[1].shape == (3,)


def test_control_flow_by_jaxs_names():
    assert lax.scan(f=lambda c, x: (c + x, c), init=0.0, xs=X)[0] == 3.0
    assert lax.fori_loop(0, 3, body_fun=lambda i, x: x + i, init_val=0) == 3
    assert lax.while_loop(cond_fun=lambda x: x < 3, body_fun=lambda x: x + 1, init_val=0.0) == 3.0
    f = jit(lambda x: lax.cond(x > 0, true_fun=lambda x: x, false_fun=lambda x: -x, operand=x))
    assert f(-2.0) == 2.0 and f(2.0) == 2.0
    assert np.allclose(lax.associative_scan(fn=anp.add, elems=X), [0, 1, 3])


def test_trees_that_differ():
    add = lambda a, b: a + b  # noqa: E731
    refused("one has the keys ['a'], one ['b']", anfora.tree_map, add, {"a": 1}, {"b": 1})
    refused("None stands beside", anfora.tree_map, add, [1, None], [1, 2])
    refused("stands beside", anfora.tree_map, add, {"a": 1}, [1])
    refused("a list of 2 stands beside a list of 1", anfora.tree_map, add, [1, 2], [1])
    assert anfora.tree_map(add, {"a": 1, "b": 2}, {"b": 20, "a": 10}) == {"a": 11, "b": 22}
    assert anfora.tree_map(add, [1, None], [1, None]) == [2, None]
    assert anfora.tree_map(lambda a, b: (a, b), [1], [{"x": 2}]) == [(1, {"x": 2})]


def test_paths_of_trees():
    tree = [1, {"k": 2, 3: (4, None)}]
    found, structure = tree_util.tree_flatten_with_path(tree)
    assert [tree_util.keystr(p) for p, _ in found] == ["[0]", "[1]['k']", "[1][3][0]"] and [x for _, x in found] == [1, 2, 4]
    assert anfora.tree.unflatten(structure, [x for _, x in found]) == tree
    assert anfora.tree.map_with_path(lambda p, x: p[-1].key != "bias" and x, {"w": 1, "bias": 2}) == {"w": 1, "bias": False}
    assert tree_util.keystr(found[1][0], simple=True, separator="/") == "1/k"

    @dataclasses.dataclass
    class Layer:
        w: float
    assert tree_util.keystr(tree_util.tree_leaves_with_path(Layer(1.0))[0][0]) == ".w"


def test_calls_that_do_not_fit():
    f = jit(lambda x, n: x)
    refused("(x, n): missing a required argument: 'n'", f, 1.0)
    refused("(x, n): too many positional arguments", f, 1.0, 2.0, 3.0)
    refused("has 2 parameters", lambda: jit(lambda x, n: x, static_argnums=5))
    refused("'m', which is no parameter", lambda: jit(lambda x, n: x, static_argnames="m"))
    refused("grad(f)(x)", grad, anp.sum(X))

    refused("a tuple for a list", jit(lambda x, sizes: x, static_argnums=1), 1.0, [1, 2])

    async def later(x):
        return x
    refused("leave out async", jit, later)


def test_derivatives_of_integers():
    refused("argument 0 is an integer", anfora.jvp, lambda x: x * 2.0, (3,), (1,))
    refused("no derivative", grad(lambda x: x * 2), 3)
    refused("x.astype(float)", grad(lambda x: anp.sum(x)), np.arange(3))
    refused("has_aux=True", grad(lambda x: (x, {"y": x})), 1.0)
    refused("holomorphic=True", grad(lambda z: z * z), 1 + 2j)


def test_truths_of_arrays():
    refused("anp.any(x)", bool, anp.zeros(3))
    refused("anp.logical_not(x)", jit(lambda x: not x), X, line="not x")
    refused("anp.maximum(x, y)", jit(lambda x: max(x, 0.0)), X, line="max(x, 0.0)")


def test_numpys_refusals():
    refused("3 elements", anp.cross, np.ones(4), np.ones(4))
    refused("3 elements", jit(lambda a: anp.cross(a, a)), np.ones(4), line="anp.cross(a, a)")
    refused("as many values as points", anp.interp, 0.5, X, np.ones(2))
    refused("one tuple or list", anp.concatenate, A, A)
    refused("a tuple: zeros((2, 3))", anp.zeros, 2, 3)
    refused("float32", lambda: anp.zeros(2, dtype="flot32"))
    refused("numpy.asarray(x)", lambda: anp.zeros(2).numpy())
    refused("they have shape", lambda: anp.zeros(2).shpae)
    assert np.allclose(anp.cross(X, np.ones(3)), np.cross(X, np.ones(3)))


def test_names_of_jax_that_are_not_there():
    refused("use vmap", lambda: anfora.pmap)
    refused("it has grad", lambda: anfora.gradd)
    assert anfora.devices() == ["cpu"] and anfora.device_count() == 1
    assert anfora.device_put({"a": X})["a"].shape == (3,) and isinstance(anfora.device_get(anp.zeros(2)), np.ndarray)


def loss(p, x):
    return anp.sum((x @ p["w"]) ** 2)


def test_training():
    p = {"w": np.ones(3)}
    refused("write Adam(rate)", Step, loss, Adam, p)
    refused("not 'adam'", Step, loss, "adam", p)
    refused("parameters are given to the step", Adam, p)
    refused("it takes rate, b1", lambda: Adam(beta1=0.9))
    refused("of one array alone (x,)", lambda: next(batches(A, 1)))
    refused("have 2 and 3", lambda: next(batches((A, X), 1)))
    refused("not 20", lambda: next(batches((A,), 20)))
    refused("greater than 0", schedules.cosine, 0.1, -5)
    assert Adam(lr=0.5).rate == 0.5 and Adam(learning_rate=0.25).rate == 0.25 and Lion(lr=0.1).rate == 0.1
    assert AdamW(lr=0.1, weight_decay=0.2).decay == 0.2 and Adam(betas=(0.8, 0.7)).b2 == 0.7
    w = Step(loss, SGD(0.1, weight_decay=0.5), p)
    w(A)
    assert np.allclose(w.params["w"], 1 - 0.1 * (12 + 0.5))


def test_functions_that_vjp_gives():
    p = {"w": X, "b": 1.0}
    y, back = anfora.vjp(lambda p, x: p["w"] * x + p["b"], p, X)
    assert set(back(np.ones(3))[0]) == {"w", "b"}  # the structure of what it is of
    rows = vmap(back)(np.eye(3))
    assert np.allclose(rows[0]["w"], np.diag(X)) and np.allclose(rows[0]["b"], 1) and np.allclose(rows[1], np.diag(X))
    assert np.allclose(jit(lambda c: back(c)[1])(np.ones(3)), X)
    assert np.allclose(jit(back)(np.ones(3))[1], X)
    a = X.copy()
    _, back = anfora.vjp(lambda x: x * x, a)
    a[:] = 0  # it has the values of the call
    assert np.allclose(vmap(back)(np.eye(3))[0], np.diag(2 * X))
    _, tangent = anfora.linearize(lambda x: {"y": x * x}, X)
    assert np.allclose(vmap(tangent)(np.eye(3))["y"], np.diag(2 * X)) and list(tangent(X)) == ["y"]
    value, back, aux = anfora.vjp(lambda x: ({"y": x}, [x, {"z": x}]), X, has_aux=True)
    assert list(value) == ["y"] and isinstance(aux, list) and list(aux[1]) == ["z"] and np.allclose(back({"y": X})[0], X)


def test_modes_of_at():
    x, i = np.arange(10.0), np.array([1, 11, -1, -12])
    for f in (lambda f: f(anp.asarray(x)), lambda f: jit(f)(x)):
        assert np.allclose(f(lambda x: x.at[i].get(mode="fill", fill_value=7)), [1, 7, 9, 7])
        assert np.allclose(f(lambda x: x.at[i].get(mode="fill")), [1, np.nan, 9, np.nan], equal_nan=True)
        assert np.allclose(f(lambda x: x.at[i].get(mode="clip")), [1, 9, 9, 0])
        assert np.allclose(f(lambda x: x.at[i].set(5.0, mode="drop"))[[1, 9, 0]], [5, 5, 0])
        assert np.allclose(f(lambda x: x.at[11].add(5.0, mode="clip"))[9], 14)
        assert np.allclose(f(lambda x: x.at[1].add(5.0, indices_are_sorted=True, unique_indices=True))[1], 6)
    refused("mode is one of", lambda: anp.zeros(3).at[0].set(1.0, mode="nearest"))
    refused("needs fill_value", lambda: anp.arange(3).at[5].get(mode="fill"))
    refused("needs fill_value", jit(lambda x: x.at[5].get(mode="fill")), np.arange(3))


def test_indices_of_several_dims_are_broadcast():
    i = np.array([[0, 1], [1, 2]], np.int32)
    want = np.zeros((2, 3))
    want[np.arange(2)[:, None], i] = 7
    assert np.allclose(jit(lambda x, i: x.at[anp.arange(2)[:, None], i].set(7.0))(np.zeros((2, 3)), i), want)
    assert np.allclose(jit(lambda x, i: x.at[0, i].add(1.0))(np.zeros((2, 3)), np.array([1, 1])), [[0, 2, 0], [0, 0, 0]])


class Module:
    """A class without fields."""


@dataclasses.dataclass
class Dense(Module):
    n: int
    bias: bool = True

    def apply(self, p, x):
        y = x * p["w"] * self.n
        if self.bias:
            y = y + p["b"]
        return y


@dataclasses.dataclass
class Sequence(Module):
    layers: tuple

    def apply(self, ps, x):
        for i, layer in enumerate(self.layers):
            x = layer.apply(ps[i], x) if isinstance(layer, Module) else layer(x)
        return x


def test_modules_by_hand():
    model = Sequence((Dense(2), anp.tanh, Dense(3, bias=False)))
    ps = ({"w": 0.1, "b": 0.2}, None, {"w": 2.0})
    want = np.tanh(X * 0.2 + 0.2) * 6
    assert np.allclose(jit(lambda ps, x: model.apply(ps, x))(ps, X), want)
    assert np.allclose(jit(model.apply)(ps, X), want)
    slope = grad(lambda ps, x: anp.sum(model.apply(ps, x)))(ps, X)
    assert np.allclose(slope[2]["w"], np.sum(want) / 2) and slope[1] is None


def rounds(f, y, *args):
    return f(*args, y)


def test_captured_trees_as_further_arguments():
    p = {"w": np.array(2.0)}
    assert jit(lambda y: rounds(lambda p, y: p["w"] * y, y, p))(3.0) == 6.0
    step = lambda y, _: (rounds(lambda p, y: p["w"] * y, y, p), y)  # noqa: E731
    assert lax.scan(step, 1.0, X)[0] == 8.0


def test_leaves_beside_leaves():
    def update(p, g):
        leaves, structure = anfora.tree.flatten(p)
        slopes = anfora.tree.leaves(g)
        return anfora.tree.unflatten(structure, [a - 0.5 * b for a, b in zip(leaves, slopes)])
    tree = {"w": 1.0, "l": [X, (2.0,)]}
    new = jit(update)(tree, tree)
    assert new["w"] == 0.5 and np.allclose(new["l"][0], X / 2) and new["l"][1][0] == 1.0


def test_lists_that_transforms_give():
    f = lambda x: {"z": [x], "t": (x,)}  # noqa: E731
    is_kept = lambda d: isinstance(d["z"], list) and isinstance(d["t"], tuple)  # noqa: E731
    assert is_kept(vmap(f)(X)) and is_kept(anfora.checkpoint(f)(X)) and is_kept(anfora.jacrev(f)(X)) and is_kept(anfora.jacfwd(f)(X))
    assert is_kept(vmap(vmap(f))(A)) and isinstance(vmap(lambda x: [x, x])(X), list)
    assert is_kept(grad(lambda x: (x.sum(), f(x)), has_aux=True)(X)[1])
    (_, aux), slope = anfora.value_and_grad(lambda p: (p["a"][0] ** 2, [p["a"], f(1.0)]), has_aux=True)({"a": [2.0]})
    assert isinstance(aux, list) and is_kept(aux[1]) and slope == {"a": [4.0]}
    value, tangent = anfora.jvp(f, (X,), (X,))
    assert is_kept(value) and is_kept(tangent)


def test_trees_as_one_array():
    p = {"a": A, "b": [X]}
    flat, unravel = anfora.flatten_util.ravel_pytree(p)
    assert np.allclose(flat, [1] * 6 + [0, 1, 2]) and np.allclose(unravel(flat * 2)["b"][0], X * 2)
    assert np.allclose(grad(lambda v: sum(anp.sum(x ** 2) for x in anfora.tree.leaves(unravel(v))))(flat), 2 * np.asarray(flat))
    refused("cast them before", anfora.flatten_util.ravel_pytree, [A, np.arange(2)])


def test_indices_by_where():
    assert np.allclose(anp.where(X > 0)[0], [1, 2])
    assert np.allclose(anp.where(X > 0, size=3, fill_value=-1)[0], [1, 2, -1])
    assert np.allclose(jit(lambda x: anp.where(x > 0, size=3, fill_value=-1)[0])(X), [1, 2, -1])
    refused("give size=", grad(lambda x: anp.sum(x[anp.where(x > 0)])), X, line="anp.where(x > 0)")


def test_checks_of_shapes_come_before_what_they_guard():
    def rows(x):
        if x.ndim == 0:
            raise ValueError("x is a number")
        return x.shape[0] * x[0]

    def product(x, w):
        assert x.shape[-1] == w.shape[0], "columns are not rows"
        return x @ w

    for f, args, words in ((rows, (3.0,), "ValueError: x is a number"), (product, (np.ones((2, 3)), np.ones((4, 2))), "columns are not rows")):
        for g in (jit(f), jit(lambda *a: f(*a)), anfora.grad(lambda *a: np.sum(f(*a)))):
            try:
                g(*args)
            except anfora.RunError as e:
                assert words in str(e), e
            else:
                raise AssertionError(f.__name__)
    assert jit(rows)(X) == 3 * X[0]
