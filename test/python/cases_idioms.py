# SPDX-License-Identifier: Apache-2.0
"""Idioms of JAX's and PyTorch's users: what they mean there, they mean here."""
import collections
import dataclasses
import functools
import os
import pickle
import subprocess
import sys
import tempfile
from typing import Any, NamedTuple

import anfora
import anfora.numpy as anp
import numpy as np
from anfora import grad, jit, lax, nn, random, vmap

X = np.array([1.0, 2.0, 3.0])


class Pair(NamedTuple):
    a: Any
    b: Any


def refused(words, f, *args):
    try:
        f(*args)
    except (anfora.CompileError, TypeError) as e:
        assert words in str(e), e
    else:
        raise AssertionError("it was not refused")


def test_keys_that_are_no_texts():
    d = {0: X, 1: X + 1, (2, "a"): X * 2, "[0]": X - 1}
    out = jit(lambda d: {k: v * 2 for k, v in d.items()})(d)
    assert list(out) == list(d) and all(np.allclose(out[k], d[k] * 2) for k in d)
    assert np.allclose(jit(lambda d: d[0] + d[1] - d[(2, "a")])(d), 1)
    assert list(jit(lambda x: {7: x, -1: x + 1})(2.0).items()) == [(7, 2.0), (-1, 3.0)]
    assert list(grad(lambda d: anp.sum(d[0] * d[1]))({1: X, 0: X * 2})) == [1, 0]
    refused("keys", jit(lambda d: 1.0), {frozenset(): 1.0})


def test_classes_of_dictionaries():
    f = jit(lambda d: anfora.tree_map(lambda x: x * 2, d))
    assert type(f({"a": X})) is dict and type(f(collections.OrderedDict(a=X))) is collections.OrderedDict
    assert type(f({"a": X})) is dict


def test_partial_in_compiled_functions():
    def affine(a, x, b=1.0, *, c=0.0):
        return a * x + b + c
    assert jit(lambda a, x: functools.partial(affine, a)(x))(2.0, 3.0) == 7.0
    assert jit(lambda a, x: functools.partial(affine, x=x)(a))(2.0, 3.0) == 7.0
    assert jit(lambda a, x: functools.partial(affine, a, c=5.0)(x=x))(2.0, 3.0) == 12.0
    assert np.allclose(jit(lambda a, xs: vmap(functools.partial(affine, a))(xs))(2.0, X), 2 * X + 1)
    assert jit(lambda x: functools.partial(affine, 2.0, c=5.0)(x))(3.0) == 12.0


def test_short_names_of_element_types():
    assert str(jit(lambda: anp.zeros(2, "f4"))().dtype) == "f32" and str(anp.zeros(2, "<c8").dtype) == "c64"
    assert str(jit(lambda x: x.astype("i4"))(X).dtype) == "i32"
    refused("8 bytes", jit(lambda: anp.zeros(2, "i8")))
    refused("8 bytes", anp.zeros, 2, "u8")


@anfora.register_pytree_node_class
class Affine:
    """A class of a user, one field of which is constant."""

    def __init__(self, w, b, times=1):
        self.w, self.b, self.times = w, b, times

    def tree_flatten(self):
        return (self.w, self.b), self.times

    @classmethod
    def tree_unflatten(cls, times, parts):
        return cls(*parts, times)

    def __call__(self, x):
        for _ in range(self.times):
            x = x * self.w + self.b
        return x


def test_registered_classes():
    f = Affine(2.0, 1.0, 3)
    assert jit(lambda f, x: f(x))(f, 1.0) == f(1.0)
    g = grad(lambda f, x: f(x))(f, 1.0)
    assert isinstance(g, Affine) and (g.w, g.b, g.times) == (17.0, 7.0, 3)
    made = jit(lambda f: Affine(f.w + 1, f.b, 2))(f)
    assert isinstance(made, Affine) and (made.w, made.b, made.times) == (3.0, 1.0, 2)
    assert jit(lambda f, x: f(x))(Affine(2.0, 1.0, 1), 1.0) == 3.0  # other constants, other code
    both = jit(lambda f: [f, Affine(f.w, f.b, 7)])(f)
    assert [x.times for x in both] == [3, 7]
    refused("Affine", jit(lambda f, c: f if c else Affine(f.w, f.b, 7)), f, True)
    assert anfora.tree_leaves(f) == [2.0, 1.0] and anfora.tree_map(lambda x: -x, f).w == -2.0
    assert jit(lambda x: f(x))(1.0) == f(1.0)


Point = collections.namedtuple("Point", "x y")


@dataclasses.dataclass
class Vector:
    """A class with the fields of another one."""

    x: float
    y: float


def test_classes_with_the_same_fields():
    f = jit(lambda p: Vector(p.x, p.y + 1))
    assert f(Point(1.0, 2.0)) == Vector(1.0, 3.0) and f(Vector(1.0, 2.0)) == Vector(1.0, 3.0)
    assert jit(lambda x: [Point(x, x), Vector(x, x)])(1.0) == [Point(1.0, 1.0), Vector(1.0, 1.0)]

    def made(p):
        q = Vector(p.x, p.y)
        return q
    assert jit(made)(Point(1.0, 2.0)) == Vector(1.0, 2.0)


def test_rules_with_arguments_that_are_not_differentiated_by():
    @functools.partial(anfora.custom_vjp, nondiff_argnums=(0, 2))
    def scaled(f, x, by):
        return f(x) * by
    scaled.defvjp(lambda f, x, by: (f(x) * by, x), lambda f, by, x, dy: (7.0 * dy,))
    assert grad(scaled, argnums=1)(anp.sin, 2.0, 3.0) == 7.0 and abs(scaled(anp.sin, 2.0, 3.0) - 3 * np.sin(2)) < 1e-12
    assert np.allclose(vmap(lambda x: grad(lambda y: scaled(anp.sin, y, 2.0))(x))(X), 7)

    @anfora.custom_jvp
    def product(x, y):
        return x * y
    product.defjvps(lambda dx, value, x, y: 5.0 * dx, None)
    assert grad(product)(2.0, 3.0) == 5.0 and grad(product, argnums=1)(2.0, 3.0) == 0.0


def test_switch_and_scans():
    f = jit(lambda i, x: lax.switch(i, [lambda x: x, lambda x: x * 2, anp.sin], x))
    assert np.allclose([f(i, 0.5) for i in (-1, 0, 1, 2, 9)], [0.5, 0.5, 1.0, np.sin(0.5), np.sin(0.5)])
    xs = np.arange(6.0).reshape(3, 2)
    assert np.allclose(jit(lambda x: lax.associative_scan(anp.multiply, x + 1, reverse=True))(xs), np.cumprod((xs + 1)[::-1], 0)[::-1])
    assert np.allclose(lax.associative_scan(anp.add, xs, axis=1), np.cumsum(xs, 1))


def test_distributions():
    key = random.PRNGKey(3)
    many = {
        "gumbel": (random.gumbel(key, (20000,)), 0.5772, np.pi / 6 ** 0.5), "laplace": (random.laplace(key, (20000,)), 0, 2 ** 0.5),
        "truncated_normal": (random.truncated_normal(key, -2.0, 2.0, (20000,)), 0, 0.8796),
        "gamma": (random.gamma(key, 2.5, (20000,)), 2.5, 2.5 ** 0.5), "small": (random.gamma(key, 0.3, (20000,)), 0.3, 0.3 ** 0.5),
        "beta": (random.beta(key, 2.0, 3.0, (20000,)), 0.4, 0.2), "logistic": (random.logistic(key, (20000,)), 0, np.pi / 3 ** 0.5),
    }
    for name, (x, mean, deviation) in many.items():
        x = np.asarray(x)
        assert abs(x.mean() - mean) < 0.04 and abs(x.std() - deviation) < 0.04 and x.dtype == np.float64, (name, x.mean(), x.std())
    tail = np.asarray(random.truncated_normal(key, 3.0, np.inf, (1000,)))
    assert tail.min() >= 3 and 3.2 < tail.mean() < 3.36
    assert sorted(np.asarray(random.permutation(key, 10))) == list(range(10))
    rows = np.asarray(random.permutation(key, np.arange(6.0).reshape(3, 2)))
    assert sorted(map(tuple, rows)) == [(0, 1), (2, 3), (4, 5)]
    assert len(set(np.asarray(random.choice(key, 10, (10,), replace=False)))) == 10
    drawn = np.asarray(random.choice(key, np.array([5, 7]), (4000,), p=np.array([0.25, 0.75])))
    assert abs((drawn == 7).mean() - 0.75) < 0.03


def test_layers_by_their_names():
    assert np.allclose(nn.gelu(X), 0.5 * X * (1 + np.tanh((2 / np.pi) ** 0.5 * (X + 0.044715 * X ** 3))))
    q, k, v = (np.random.default_rng(i).normal(size=(2, 4, 2, 3)) for i in range(3))
    s = np.einsum("bqhd,bkhd->bhqk", q, k) / 3 ** 0.5
    s = np.where(np.tril(np.ones((4, 4))) > 0, s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    want = np.einsum("bhqk,bkhd->bqhd", p / p.sum(-1, keepdims=True), v)
    assert np.allclose(nn.dot_product_attention(q, k, v, is_causal=True), want)
    w = np.asarray(nn.initializers.orthogonal()(random.key(0), (5, 3)))
    assert np.allclose(w.T @ w, np.eye(3), atol=1e-5)
    w = np.asarray(nn.initializers.he_normal()(random.key(0), (300, 200)))
    assert abs(w.std() - (2 / 300) ** 0.5) < 1e-3


@jit
def module_level(x):
    return x * 3


def helper_of_pickles(x, n):
    return x * x * n


def test_pickles():
    assert pickle.loads(pickle.dumps(module_level)) is module_level
    assert pickle.loads(pickle.dumps(jit(helper_of_pickles, static_argnames=("n",))))(2.0, 3) == 12.0
    assert pickle.loads(pickle.dumps(grad(jit(helper_of_pickles))))(2.0, 3.0) == 12.0


def test_sources_that_are_no_files():
    code = ("import sys; sys.path.insert(0, {!r})\nimport anfora\n@anfora.jit\ndef f(x):\n    y = x * 2\n    return y\n"
            "print(f(3.0), anfora.grad(lambda x: x * x)(2.0))\n").format(os.path.dirname(os.path.dirname(anfora.__file__)))
    with tempfile.TemporaryFile("w+") as file:
        file.write(code)
        file.seek(0)
        done = subprocess.run([sys.executable, "-"], stdin=file, capture_output=True, text=True, check=False)
    assert done.stdout == "6.0 4.0\n", done.stderr
    typed = ("import readline, anfora\n"
             "for text in ('def f(x):\\n    return x + 1\\n', 'def f(x):\\n    y = x * 2\\n    return y\\n', 'g = lambda x: x * 5\\n'):\n"
             "    for line in text.splitlines():\n        readline.add_history(line)\n"
             "    exec(compile(text, '<stdin>', 'single'))\n"
             "print(anfora.jit(f)(3.0), anfora.jit(g)(2.0))\n")
    path = os.path.dirname(os.path.dirname(anfora.__file__))
    done = subprocess.run([sys.executable, "-c", typed], capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path})
    assert done.stdout == "6.0 10.0\n", done.stderr


def test_keys_in_files():
    keys = random.split(random.key(3), 2)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "keys.safetensors")
        anfora.save(path, {"keys": keys, "w": X}, about="this")
        back = anfora.load(path)
    assert str(back["keys"].dtype) == "key" and np.allclose(random.normal(back["keys"][0], (3,)), random.normal(keys[0], (3,)))


def test_derivatives_by_their_names():
    z = 1 + 2j
    assert abs(complex(grad(lambda z: anp.sin(z) * z ** 2, holomorphic=True)(z)) - (np.cos(z) * z ** 2 + 2 * z * np.sin(z))) < 1e-9
    assert np.allclose(anfora.hvp(lambda x: anp.sum(x ** 3), (X,), (X,)), 6 * X * X)
    assert np.allclose(jit(lambda x: anfora.hvp(lambda x: anp.sum(x ** 3), (x,), (x,)))(X), 6 * X * X)
    f = anfora.remat(lambda x: anp.sum(anp.sin(x @ x)), policy=anfora.checkpoint_policies.dots_saveable)
    assert np.allclose(grad(f)(np.eye(2)), 2 * np.cos(1) * np.eye(2) + (1 - np.eye(2)) * 2)
    made = anfora.eval_shape(lambda x, p: {"a": x @ p["w"], "b": [anp.sum(x)]}, anfora.ShapeDtypeStruct((3, 4), "float32"),
                             {"w": np.ones((4, 5), "f4")})
    assert made == {"a": anfora.ShapeDtypeStruct((3, 5), anfora.f32), "b": [anfora.ShapeDtypeStruct((), np.float32)]}
    huge = anfora.ShapeDtypeStruct((1 << 40,), "float32")  # for which there is no memory
    assert anfora.eval_shape(grad(lambda x: anp.sum(x * x)), huge) == huge


def test_functions_that_take_any_number_may_have_names_of_the_language():
    def partial(*xs):
        return {"a": xs[0] * xs[1]}
    made = anfora.eval_shape(partial, X, X)
    assert made == {"a": anfora.ShapeDtypeStruct(X.shape, X.dtype)}
    scan = functools.partial(anfora.lax.scan, lambda c, x: (c * x, {"b": c + x}))  # written as such a function
    (_, value), (_, slope) = anfora.jvp(scan, (2.0, np.array([3.0, 5.0])), (1.0, np.zeros(2)))
    assert np.allclose(value["b"], [5, 11]) and np.allclose(slope["b"], [1, 3])


def test_places_by_masks_and_by_other_operations():
    x, m = np.array([[1.0, -2.0], [3.0, 4.0]]), np.array([True, False])
    negative = jit(lambda x: x.at[x < 0].set(0.0))
    same(negative(x), np.maximum(x, 0))
    same(jit(lambda x, m: x.at[m].multiply(2))(x, m), [[2, -4], [3, 4]])  # a mask of the first dim
    same(jit(lambda x, m: x.at[m].multiply(2))(x, np.array([1, 1])), [[1, -2], [12, 16]])  # numbers of rows
    same(anfora.grad(lambda x: anp.sum(x.at[x < 0].add(1.0) ** 2))(x), [[2, -2], [6, 8]])
    same(jit(lambda x: x.at[0].divide(2))(np.array([3, 4])), [1.5, 4])
    same(jit(lambda x: x.at[x > 3].divide(2))(np.array([3, 4])), [3, 2])
    same(jit(lambda x: x.at[1].power(2))(np.array([3, 4])), [3, 16])
    same(jit(lambda x: x.at[0].apply(np.sqrt))(np.array([9.0, 4.0])), [3, 4])
    same(anp.array([3, 4]).at[0].divide(2), [1.5, 4])
    same(anp.array([3, 4]).at[0].power(2), [9, 4])
    same(anp.array([9.0, 4]).at[0].apply(np.sqrt), [3, 4])
    try:
        jit(lambda x, m: x.at[m].set(np.ones(2)))(x, m)
    except anfora.AnforaError as problem:
        assert "takes one number" in str(problem)
    else:
        raise AssertionError("an array at a mask")


def test_limits_of_types():
    for d in ("float16", "float32", "float64"):
        ours, theirs = anp.finfo(d), np.finfo(d)
        assert all(getattr(ours, n) == getattr(theirs, n) for n in ("bits", "eps", "max", "min", "tiny", "epsneg")), d
        x = np.ones(2, d)
        for n in ("eps", "max", "tiny"):
            same(jit(lambda x, n=n: np.finfo(x.dtype).eps if n == "eps" else np.finfo(x.dtype).max if n == "max" else
                     np.finfo(x.dtype).tiny)(x), getattr(theirs, n))
    for d in ("int8", "uint8", "int32", "uint64"):
        assert (anp.iinfo(d).min, anp.iinfo(d).max, anp.iinfo(d).bits) == (np.iinfo(d).min, np.iinfo(d).max, np.iinfo(d).bits)
    guarded = jit(lambda x: np.log(x + np.finfo(np.float32).tiny) + np.iinfo(np.int8).max)
    assert guarded(np.zeros(1, "f4")).dtype == np.float32 and np.isfinite(np.asarray(guarded(np.zeros(1, "f4")))).all()


def test_more_of_numpys_names():
    x, z = np.array([[1.0, np.nan, 3.0], [4.0, 5.0, np.nan]]), np.array([1j, -1, 1 + 1j])
    for name in ("nanprod", "nanvar", "nanstd"):
        f = getattr(np, name)
        same(jit(lambda x: f(x))(x), f(x))
        same(jit(lambda x: f(x, axis=1))(x), f(x, axis=1))
    same(jit(lambda z: np.angle(z, deg=True))(z), np.angle(z, deg=True))
    same(jit(lambda x: np.isin(x, [3.0, 4.0]))(x), np.isin(x, [3.0, 4.0]))
    same(anp.isin(np.arange(5), np.array([1, 3]), invert=True), np.isin(np.arange(5), [1, 3], invert=True))
    same(jit(lambda x: x.mT)(np.ones((4, 2, 3))), np.ones((4, 3, 2)))
    same(anp.ones((2, 3)).mT, np.ones((3, 2)))
    same(anp.vecdot(z, z), np.sum(np.conj(z) * z))
    same(+anp.ones(2), np.ones(2))
    same(anp.array([1, 2]) << 2, [4, 8])
    same(64 >> anp.array([1, 2]), [32, 16])


def same(a, b):
    assert np.shape(a) == np.shape(b) and np.allclose(np.asarray(a), np.asarray(b), equal_nan=True), (a, b)


def test_constants_of_transformed_functions():
    @functools.partial(anfora.jit, static_argnums=(0, 3))
    def f(name, x, y, n):
        for _ in range(n):
            x = x * y
        return x if name == "a" else -x
    assert anfora.grad(f, argnums=1)("a", 2.0, 3.0, 2) == 9 and anfora.grad(f, argnums=1)("b", 2.0, 3.0, 1) == -3
    assert [float(g) for g in anfora.grad(f, argnums=(1, 2))("b", 2.0, 3.0, 2)] == [-9, -12]
    assert np.asarray(anfora.vmap(f, in_axes=(None, 0, None, None))("b", np.arange(3.0), 2.0, 1)).tolist() == [0, -2, -4]
    assert anfora.jit(lambda x: anfora.grad(f, argnums=1)("b", x, 3.0, 2) + f("a", x, 1.0, 1))(1.0) == -8

    @functools.partial(anfora.jit, static_argnames=("act",))
    def k(x, act=None):
        return act(x) if act is not None else x
    assert anfora.grad(k)(2.0) == 1 and abs(float(anfora.grad(k)(2.0, act=anp.sin)) - np.cos(2)) < 1e-12


def test_callable_objects_are_compiled():
    class Linear:
        def __init__(self, w):
            self.w = w

        def __call__(self, x):
            return x @ self.w
    assert np.asarray(anfora.jit(Linear(np.eye(2) * 2))(np.ones(2))).tolist() == [2, 2]


def test_functions_within_have_names_of_their_own():
    @anfora.jit
    def total(b):
        def body(c):
            x, p, k = c
            q = p * 2
            x = x + q * p
            return x, p, k + 1
        x, *_ = anfora.while_loop(lambda c: c[2] < 3, body, (np.zeros(2), b, 0))
        return x
    assert np.asarray(total(np.ones(2))).tolist() == [6, 6]


def test_scan_from_a_state_of_constants():
    step = lambda s, u: ((s[0] + u, s[0]), s[1])
    last, rows = jit(lambda x: lax.scan(step, (0.0, 0.0), x))(X)
    assert np.allclose(last[0], 6) and np.allclose(last[1], 3) and np.allclose(rows, [0, 0, 1])
    last, rows = jit(lambda x: lax.scan(step, (0.0, 0.0), x, reverse=True))(X)
    assert np.allclose(last[0], 6) and np.allclose(last[1], 5) and np.allclose(rows, [3, 0, 0])
    last, rows = jit(lambda x: lax.scan(lambda s, u: ([s[0] + u, s[0]], u), [0.0, 0.0], x))(X)
    assert np.allclose(last[0], 6) and np.allclose(last[1], 3) and np.allclose(rows, X)
    assert np.allclose(jit(lambda x: anp.fft.fftfreq(4, 1 / x.shape[0]))(X), np.fft.fftfreq(4, 1 / 3))


class Held(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass
class Kept:
    x: Any
    y: Any


def held_scaled(p, h):
    return h._replace(x=h.x * p)


def kept_scaled(p, k):
    return dataclasses.replace(k, x=k.x * p)


def test_replaced_again():
    def twice(p, h):
        h = h._replace(x=h.x * p)
        h = h._replace(y=h.x)
        return h
    h, k = Held(np.ones(2), np.zeros(2)), Kept(np.ones(2), np.zeros(2))
    got = anfora.jit(twice)(3.0, h)
    assert type(got) is Held and np.array_equal(got.x, [3, 3]) and np.array_equal(got.y, [3, 3])

    def chain(ps, h):
        for p in ps:
            h = held_scaled(p, h)
        return h
    assert np.array_equal(anfora.jit(chain)([2.0, 3.0], h).x, [6, 6])
    assert np.array_equal(anfora.jit(lambda p, h: held_scaled(p, held_scaled(p, h)))(2.0, h).x, [4, 4])
    assert np.array_equal(anfora.jit(lambda p, k: kept_scaled(p, kept_scaled(p, k)))(2.0, k).x, [4, 4])
    assert np.array_equal(anfora.grad(lambda p: np.sum(held_scaled(p, held_scaled(p, h)).x))(2.0), 8.0)


def test_named_within_a_lambda():
    discounted = anfora.jit(lambda r: anfora.scan(lambda c, x: ((n := x + 0.5 * c), n), 0.0, r, reverse=True)[1])
    assert np.array_equal(discounted(np.arange(3.0)), [1, 2, 2])
    assert anfora.jit(lambda x: (y := x * 2) + (lambda z: (w := z + y) * w)(y))(3.0) == 150
    assert anfora.grad(lambda x: (y := x * 2) * y)(3.0) == 24
    try:
        anfora.jit(lambda x: x > 0 and (y := x) + y)(3.0)
    except anfora.CompileError as e:
        assert "not always evaluated" in str(e)
    else:
        raise AssertionError


def test_segments_by_shape():
    def messages(nodes, to):
        n = nodes.shape[0]
        return anfora.ops.segment_sum(nodes, to, num_segments=n)
    got = anfora.jit(lambda x, to: messages(messages(x, to), to))(np.arange(3.0), np.array([1, 1, 2]))
    assert np.array_equal(got, [0, 1, 2])


DEBUG = """
import anfora as jax, numpy as np, sys
@jax.jit
def f(x):
    jax.debug.print("sum {s}, {} and {y}", x[1], s=x.sum(), y=x[0])
    return jax.lax.fori_loop(0, 2, lambda i, c: (jax.debug.print("round {i}", i=i), c * 2)[1], x)
assert f(np.arange(3.0))[2] == 8
assert jax.grad(lambda x: (jax.debug.print("at {}", x), x * x)[1])(3.0) == 6
jax.debug.print("{} {z:.2f}", 3, z=2.0)
"""


def test_debug_print():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "p.py")
        with open(path, "w", encoding="utf-8") as out:
            out.write(f"import sys\nsys.path[:0] = {sys.path!r}\n{DEBUG}")
        said = subprocess.run([sys.executable, path], capture_output=True, text=True, check=True).stdout.splitlines()
    assert sorted(" ".join(s.replace(",", " ").split()) for s in said) == ["3 2.00", "at 3.0", "round 0", "round 1", "sum 3.0 1.0 and 0.0"], said
    refused("no value for {z}", jit(lambda x: anfora.debug.print("{z}", x)), 1.0)
    assert anp.issubdtype(anp.zeros(2).dtype, anp.floating) and not anp.issubdtype(anp.int32, anp.inexact)


def test_updates_at_computed_indices():
    """x[i] op= v where the index is a call or of bits: it may be a mask as well."""
    @anfora.jit
    def f(x):
        h, g, y = np.zeros(16), np.ones((4, 4)), x.copy()
        for i in range(len(x)):
            h[int(x[i] * 15.9)] += 1.0
            h[i & 15] += x[i]
            h[abs(i - 3) % 16] *= 2.0
            g[i & 3, min(i, 3)] += x[i]
            g[int(x[i] * 3.9)] *= 0.5
        y[(x > 0.3) & (x < 0.6)] += 5.0
        y[~(x > 0.1)] *= 3.0
        y[np.isnan(x)] -= 1.0
        return h, g, y
    x = np.random.default_rng(0).random(50)
    for got, want in zip(f(x), f.__wrapped__(x)):
        assert np.array_equal(np.asarray(got), want)


def attended(x, mask=None, cache=None):
    if cache is not None:
        x = x + cache
        mask = anp.arange(3) <= cache
    if mask is not None:
        x = anp.where(mask, x, 0)
    return x


def gated(p, x):
    gate = lambda name, act: act(x * p[name]["w"])  # noqa: E731

    def scaled(name, by=2.0):
        return p[name]["w"] * by
    return gate("i", anp.tanh) + gate("f", nn.sigmoid) + scaled("i") + scaled(name="f", by=3.0)


def settled(x, n):
    rounds = 0
    for i in range(n):
        rounds += 1
        y = x * i
        if y > 5:
            break
        rounds += 1
    return y, rounds


def doubled_until(x):
    n = 0
    while True:
        n += 1
        y = x * n
        if y > 5:
            break
    return y, n


def solved(a, b):
    h = np.zeros((3, 2))
    for j in range(2):
        h[:, j] = a * j + 1
    return np.linalg.lstsq(h, b, rcond=None)[0], np.einsum("ij,i->j", h, b)


def test_what_is_not_none():
    assert np.asarray(jit(attended)(X, cache=1)).tolist() == [2, 3, 0] and np.asarray(jit(attended)(X)).tolist() == [1, 2, 3]


def test_texts_of_functions_within():
    p = {"i": {"w": 2.0}, "f": {"w": 3.0}}
    assert np.allclose(jit(gated)(p, 0.5), np.tanh(1.0) + 1 / (1 + np.exp(-1.5)) + 4 + 9)


def test_first_bound_before_a_break():
    assert jit(settled)(2.0, 10) == settled(2.0, 10) and jit(doubled_until)(2.0) == doubled_until(2.0)
    try:
        jit(settled)(2.0, 0)
    except anfora.RunError as e:
        assert "does not run" in str(e)
    else:
        raise AssertionError("y has a value without a round")


def test_arrays_that_change_are_given():
    a, b = np.array([1.0, 2.0, 4.0]), np.array([1.0, 0.5, 2.0])
    assert all(map(np.allclose, solved(a, b), jit(solved)(a, b)))


def printing_rounds(x, n):
    for i in range(n):
        print(i)
        y = x + i
        if y > 3:
            break
    return y


def test_nothing_is_printed_twice():
    try:
        jit(printing_rounds)(1.0, 5)
    except anfora.CompileError as e:
        assert "some paths" in str(e)
    else:
        raise AssertionError("the first round is written twice")


def test_classes_that_are_compared():
    def of_number(n):
        return 1.0 if type(n) is int else 2.0 if type(n) is float else 3.0 if type(n) in (bool, str) else 4.0

    def of_tree(t):
        return 1 if type(t) is tuple else 2 if type(t) is dict else 3 if type(t) == collections.OrderedDict else 4 if type(t) == Pair else 5

    def times(x, n=3):
        assert type(n) not in (list, tuple) and issubclass(type(x), np.ndarray)
        return type(n)(2.7) * x * len(type(n).__name__)
    for f, values in ((of_number, (3, 3.0, np.int64(3), X, 1j)), (of_tree, ((1.0,), {"a": 1.0}, collections.OrderedDict(a=1.0), Pair(1.0, 2.0), [1.0])), (times, (X,))):
        for x in values:
            assert np.array_equal(jit(f)(x), f(x)), (f, x)
    refused("it is not known what class this has", jit(of_number), True)  # a scalar of NumPy has the same type here
    refused("it is not known what class this has", jit(lambda x: x if type(np.sum(x)) is np.float64 else -x), X)
    refused("it is not known what class this has", vmap(lambda x: x if type(x) is np.ndarray else -x), X)
