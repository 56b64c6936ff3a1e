# SPDX-License-Identifier: Apache-2.0
"""f.fix(...): arguments that are constants of the code."""
import functools

import anfora.numpy as jnp
import numpy as onp
from anfora import f32, grad, jit, vmap

rng = onp.random.default_rng(0)
W = (rng.normal(size=(16, 16)) / 4).astype("f4")
X = rng.normal(size=(4, 16)).astype("f4")


def equal(a, b):
    assert onp.array_equal(onp.asarray(a), onp.asarray(b)), (a, b)


def close(a, b):
    assert onp.allclose(onp.asarray(a), onp.asarray(b), rtol=1e-4, atol=1e-5), (a, b)


def refused(what, *words):
    try:
        what()
    except TypeError as e:
        assert all(w in str(e) for w in words), str(e)
    else:
        raise AssertionError("it was not refused")


@jit
def layer(p, x, scale=1.0):
    return {"y": jnp.maximum(x @ p["w"][0] + p["b"], 0) @ p["w"][1] * scale}


P = {"w": [W, W.T.copy()], "b": onp.ones(16, "f4")}


def test_positions_names_and_defaults():
    f = layer.fix(P)
    equal(f(X)["y"], layer(P, X)["y"])
    equal(f(X, scale=2.0)["y"], layer(P, X, 2.0)["y"])
    equal(f(X[:2])["y"], layer(P, X[:2])["y"])  # code for other sizes
    g = layer.fix(scale=3.0)
    equal(g(P, X)["y"], layer(P, X, 3.0)["y"])
    equal(g.fix(P)(X)["y"], layer(P, X, 3.0)["y"])
    equal(g.fix(x=X)(p=P)["y"], layer(P, X, 3.0)["y"])


def test_arguments_have_the_values_of_then():
    w = W.copy()
    f = jit(lambda w, x: x @ (w @ w)).fix(w)
    first = onp.asarray(f(X))
    w[:] = 0
    equal(f(X), first)
    equal(f(X[:3]), first[:3])  # compiled after the change


def test_numbers_that_types_depend_on():
    row = jit(lambda i, x: x[i:])
    equal(row.fix(2)(X), X[2:])
    equal(jit(lambda n, x: jnp.reshape(x, (n, -1))).fix(8)(X), X.reshape(8, -1))


def test_captured_arrays():
    class Model:
        def __init__(self):
            self.w = W

        def __call__(self, x):
            return jnp.tanh(x @ self.w)
    m = Model()
    equal(jit(m).fix()(X), jit(m)(X))


def test_backends():
    for backend in ("llvm", "cjit", "interp"):
        close(jit(lambda w, x: x @ w, backend=backend).fix(W)(X), X @ W)


def test_functions_texts_and_prints():
    act = jit(lambda kind, f, x: f(x) if kind == "a" else x)
    close(act.fix("a", lambda t: t * 2)(X), X * 2)
    close(act.fix(kind="b")(lambda t: t, X), X)

    @jit
    def shows(w, x):
        print(x.shape)
        return x @ w
    close(shows.fix(W)(X), X @ W)
    close(jit(lambda f, w, x: f(x) @ w).fix(w=W)(jit(lambda t: t + 1), X), (X + 1) @ W)


def test_static_arguments():
    @functools.partial(jit, static_argnums=(1,))
    def power(x, n, y):
        for _ in range(n):
            x = x * y
        return x
    close(power.fix(X)(2, X), X ** 3)
    close(power.fix(n=2)(X, X), X ** 3)


def test_transforms_and_calls():
    f = layer.fix(P)
    total = jit(lambda x: jnp.sum(f(x)["y"]) + jnp.sum(f(x, 2.0)["y"]))
    close(total(X), 3 * onp.asarray(layer(P, X)["y"]).sum())
    close(grad(lambda x: jnp.sum(f(x)["y"]))(X), grad(lambda p, x: jnp.sum(layer(p, x)["y"]), wrt=1)(P, X))
    slope = grad(lambda w, x: jnp.sum(x @ w))
    close(slope.fix(W)(X), slope(W, X))
    close(vmap(lambda w, x: x @ w, in_axes=(None, 0)).fix(W)(X), X @ W)


def test_refusals():
    refused(lambda: layer.fix(P)(X, 1.0, X), "too many")
    refused(lambda: layer.fix(q=1), "'q'")
    refused(lambda: layer.fix(P, X, 1.0, 2.0), "too many")
    refused(lambda: jit(lambda *a: a[0]).fix(1), "any number of arguments")

    @jit
    def declared(w: f32[16, "B"], x: f32["N", 16]):
        return x @ w
    close(declared.fix(W)(X), X @ W)
    refused(lambda: declared.fix(W.astype("f8"))(X), "f64[16, 16]", "f32[16, B]")


def test_a_large_network_is_packed_once():
    w = [(rng.normal(size=(512, 512)) / 16).astype("f4") for _ in range(3)]
    x = rng.normal(size=(32, 512)).astype("f4")

    @jit
    def net(w, x):
        for m in w:
            x = jnp.maximum(x @ m, 0)
        return x
    equal(net.fix(w)(x), net(w, x))
