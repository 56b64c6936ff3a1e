# SPDX-License-Identifier: Apache-2.0
"""Functions of JAX through StableHLO: values beside JAX's own, gradients beside jax.grad's. Without JAX each case says so and is skipped."""
import dataclasses
import importlib.util
import os
import subprocess
import tempfile
from typing import Any

import numpy as np

import anfora

os.environ.setdefault("ANFORA_CACHE", "off")
HAS_JAX = importlib.util.find_spec("jax") is not None
if HAS_JAX:
    import jax
    import jax.numpy as jnp
    from jax import lax
    jax.config.update("jax_enable_x64", True)


class Skip(Exception):
    """A case that cannot run here."""


def need_jax():
    if not HAS_JAX:
        raise Skip("JAX is not installed")


def same(got, want, tol=1e-9):
    got, want = jax.tree.leaves(got), jax.tree.leaves(want)
    assert len(got) == len(want), (len(got), len(want))
    for a, b in zip(got, want):
        a, b = np.asarray(a), np.asarray(b)
        assert a.shape == b.shape, (a.shape, b.shape)
        np.testing.assert_allclose(a, b, rtol=tol, atol=tol)


def as_jax(f, *args, tol=1e-9):
    with np.errstate(divide="ignore"):
        same(anfora.from_jax(f)(*args), f(*map(jnp.asarray, args)), tol)


def x23():
    return np.array([[0.5, -1.25, 2.0], [3.0, 0.25, -0.75]])


def snippets():
    i = np.array([1, 0, 1])
    return {
        "matmul relu": lambda x: jnp.sum(jax.nn.relu(x @ x.T)),
        "softmax": lambda x: jax.nn.softmax(x, axis=1),
        "log softmax": jax.nn.log_softmax if HAS_JAX else None,
        "gelu": lambda x: jax.nn.gelu(x),
        "gelu exact": lambda x: jax.nn.gelu(x, approximate=False),
        "silu elu": lambda x: jax.nn.silu(x) + jax.nn.elu(x),
        "softplus": lambda x: jax.nn.softplus(x),
        "one hot": lambda x: jax.nn.one_hot(jnp.array([0, 2]), 3) + x,
        "layer norm": lambda x: (x - x.mean(1, keepdims=True)) / jnp.sqrt(x.var(1, keepdims=True) + 1e-5),
        "var std": lambda x: (jnp.var(x, axis=0), jnp.std(x)),
        "argmax": lambda x: jnp.argmax(x, axis=1),
        "argmin all": lambda x: jnp.argmin(x),
        "max min": lambda x: (jnp.max(x, axis=0), jnp.min(x, axis=1)),
        "prod": lambda x: jnp.prod(x, axis=1),
        "any all": lambda x: (jnp.any(x > 2), jnp.all(x > -2, axis=0)),
        "sort": lambda x: jnp.sort(x, axis=1),
        "argsort": lambda x: jnp.argsort(x, axis=1),
        "top k": lambda x: lax.top_k(x, 2),
        "median": lambda x: jnp.median(x, axis=1),
        "percentile": lambda x: jnp.percentile(x, 30),
        "take": lambda x: x[i],
        "take along axis": lambda x: jnp.take_along_axis(x, jnp.argsort(x, axis=1), axis=1),
        "index pairs": lambda x: x[jnp.array([0, 1]), jnp.array([2, 0])],
        "slices": lambda x: x[:, ::-1][0:1, 1:],
        "negative stride": lambda x: x[::-1, ::2],
        "at set": lambda x: x.at[0, 1].set(5.0),
        "at add": lambda x: x.at[i].add(1.0),
        "at max": lambda x: x.at[:, 1].max(1.0),
        "at mul": lambda x: x.at[i, i].multiply(2.0),
        "drop": lambda x: x.at[jnp.array([0, 9])].add(1.0, mode="drop"),
        "fill": lambda x: x.at[jnp.array([0, 9])].get(mode="fill", fill_value=7.0),
        "dynamic slice": lambda x: lax.dynamic_slice(x, (jnp.argmax(x[0]) - 1, 1), (1, 2)),
        "dynamic update": lambda x: lax.dynamic_update_slice(x, jnp.ones((1, 2)), (1, jnp.argmin(x[0]))),
        "concatenate": lambda x: jnp.concatenate([x, 2 * x], axis=1),
        "stack": lambda x: jnp.stack([x, -x], axis=1),
        "split": lambda x: jnp.split(x, 3, axis=1),
        "pad": lambda x: jnp.pad(x, ((1, 0), (0, 2)), constant_values=3.0),
        "pad reflect": lambda x: jnp.pad(x, ((1, 1), (1, 1)), mode="reflect"),
        "tile repeat": lambda x: (jnp.tile(x, (2, 1)), jnp.repeat(x, 2, axis=0)),
        "roll": lambda x: jnp.roll(x, 1, axis=1),
        "where": lambda x: jnp.where(x > 0, x, jnp.exp(x)),
        "clip": lambda x: jnp.clip(x, -1, 1),
        "cumsum": lambda x: jnp.cumsum(x, axis=1),
        "cumprod": lambda x: jnp.cumprod(x, axis=0),
        "cummax": lambda x: lax.cummax(x, axis=1),
        "logsumexp": lambda x: jax.nn.logsumexp(x, axis=1),
        "einsum": lambda x: jnp.einsum("ij,kj->ik", x, x),
        "tensordot": lambda x: jnp.tensordot(x, x, axes=((0, 1), (0, 1))),
        "outer": lambda x: jnp.outer(x[0], x[1]),
        "batched": lambda x: jnp.matmul(jnp.stack([x, 2 * x]), jnp.stack([x.T, x.T])),
        "kron": lambda x: jnp.kron(x, x),
        "norm": lambda x: jnp.linalg.norm(x, axis=1),
        "trace diag": lambda x: (jnp.trace(x @ x.T), jnp.diag(x @ x.T)),
        "tril": lambda x: jnp.tril(x) + jnp.triu(x, 1),
        "convolve": lambda x: jnp.convolve(x[0], x[1], mode="same"),
        "conv": lambda x: lax.conv_general_dilated(x.reshape(1, 1, 2, 3), jnp.ones((2, 1, 2, 2)), (1, 1), "SAME"),
        "conv dilated": lambda x: lax.conv_general_dilated(x.reshape(1, 1, 2, 3), jnp.ones((2, 1, 2, 2)), (1, 1), ((2, 1), (0, 3)), lhs_dilation=(2, 1), rhs_dilation=(1, 2)),
        "conv channels last": lambda x: lax.conv_general_dilated(x.reshape(1, 2, 3, 1), jnp.ones((2, 2, 1, 2)), (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")),
        "conv groups": lambda x: lax.conv_general_dilated(x.reshape(1, 2, 1, 3), jnp.ones((4, 1, 1, 2)), (1, 1), "SAME", feature_group_count=2),
        "max pool": lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (1, 1), "VALID"),
        "sum pool": lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 2), (1, 2), "SAME"),
        "pool gradient": lambda x: jax.grad(lambda y: lax.reduce_window(y, -jnp.inf, lax.max, (2, 2), (1, 1), "VALID").sum())(x),
        "while": lambda x: lax.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, s[1] * 0.5 + jnp.sin(s[1])), (0, x))[1],
        "while until": lambda x: lax.while_loop(lambda y: jnp.sum(y) < 100, lambda y: y * 2 + 1, x),
        "fori": lambda x: lax.fori_loop(0, 4, lambda k, v: v + k * x, x),
        "scan": lambda x: lax.scan(lambda c, a: (c * 0.5 + a, c * a), jnp.zeros(3), x),
        "scan reverse": lambda x: lax.scan(lambda c, a: (c + a, c), jnp.zeros(3), x, reverse=True),
        "map": lambda x: lax.map(lambda r: r.sum() * r, x),
        "associative scan": lambda x: lax.associative_scan(jnp.add, x, axis=1),
        "cond": lambda x: lax.cond(x.sum() > 3, lambda v: v * 2, lambda v: v - 1, x),
        "switch": lambda x: lax.switch(jnp.argmax(x[0]), [lambda v: v * 2, lambda v: v - 1, jnp.sin], x),
        "nested": lambda x: lax.fori_loop(0, 3, lambda k, v: lax.cond(k % 2 == 0, lambda u: u * 2, lambda u: lax.fori_loop(0, k, lambda j, w: w + j, u), v), x),
        "newton": lambda x: lax.while_loop(lambda s: jnp.max(jnp.abs(s * s - jnp.abs(x) - 1)) > 1e-12, lambda s: 0.5 * (s + (jnp.abs(x) + 1) / s), jnp.ones_like(x)),
        "jit in jit": lambda x: jax.jit(lambda y: jnp.sin(y))(x) + jax.jit(lambda y: jnp.sin(y))(2 * x),
        "remat": lambda x: jax.grad(lambda y: jnp.sum(jax.checkpoint(lambda z: jnp.sin(jnp.sin(z)))(y)))(x),
        "custom jvp": lambda x: jax.nn.relu6(x),
        "vmap": lambda x: jax.vmap(lambda r: jnp.sum(r * r))(x),
        "vmap gather": lambda x: jax.vmap(lambda r, k: lax.dynamic_slice(r, (k,), (2,)))(x, jnp.array([0, 1])),
        "vmap while": lambda x: jax.vmap(lambda r: lax.while_loop(lambda y: jnp.sum(y) < 10, lambda y: y * 2 + 1, r))(x),
        "grad": lambda x: jax.grad(lambda y: jnp.sum(jnp.tanh(y @ y.T)))(x),
        "hessian": lambda x: jax.hessian(lambda y: jnp.sum(jnp.tanh(y) ** 3))(x[0]),
        "jacfwd": lambda x: jax.jacfwd(lambda y: jnp.sin(y) * jnp.sum(y))(x[0]),
        "gather gradient": lambda x: jax.grad(lambda y: jnp.sum(y[i] ** 2))(x),
        "scan gradient": lambda x: jax.grad(lambda y: lax.scan(lambda c, a: (jnp.sin(c) + a.sum(), c), 0.0, y)[0])(x),
        "erf": lambda x: (jax.scipy.special.erf(x), jax.scipy.special.erfc(x)),
        "erfinv": lambda x: jax.scipy.special.erfinv(x / 4),
        "gammaln": lambda x: jax.scipy.special.gammaln(jnp.abs(x) + 0.5),
        "digamma": lambda x: jax.scipy.special.digamma(jnp.abs(x) + 0.5),
        "logit": lambda x: jax.scipy.special.expit(x) + jax.scipy.special.logit(jax.nn.sigmoid(x)),
        "xlogy": lambda x: jax.scipy.special.xlogy(jnp.abs(x), jnp.abs(x)),
        "norm logpdf": lambda x: jax.scipy.stats.norm.logpdf(x) + jax.scipy.stats.norm.cdf(x),
        "trigonometry": lambda x: jnp.sin(x) + jnp.cos(x) * jnp.tan(x) + jnp.arctan2(x, 2.0) + jnp.arcsinh(x),
        "hyperbolic": lambda x: jnp.sinh(x) + jnp.cosh(x) + jnp.tanh(x) + jnp.arccosh(2 + jnp.abs(x)) + jnp.arctanh(x / 4),
        "rounding": lambda x: (jnp.round(x), jnp.floor(x), jnp.ceil(x), jnp.trunc(x)),
        "powers": lambda x: x ** 3 + jnp.power(jnp.abs(x), 1.5) + jnp.exp2(x) + jnp.cbrt(x),
        "remainders": lambda x: (x % 0.4, jnp.fmod(x, 0.4), jnp.divmod(x, 0.4)),
        "integers": lambda x: (x.astype(jnp.int32) // 2, x.astype(jnp.int32) % 3, (x * 30).astype(jnp.int8)),
        "bits": lambda x: (i << 2, i ^ 5, jnp.bitwise_not(i), lax.population_count(i), lax.shift_right_logical(-i, 3)),
        "bitcast": lambda x: lax.bitcast_convert_type(x, jnp.int64),
        "nextafter": lambda x: jnp.nextafter(x, 0.0),
        "sign": lambda x: (jnp.sign(x), jnp.signbit(x), jnp.copysign(2.0, x)),
        "isfinite": lambda x: (jnp.isfinite(x / 0), jnp.isnan(x * jnp.nan), jnp.nan_to_num(x / 0)),
        "complex": lambda x: (jnp.abs(x + 1j * x), jnp.real(jnp.exp(1j * x)), jnp.angle(x + 2j)),
        "fft": lambda x: jnp.abs(jnp.fft.fft(x)),
        "rfft": lambda x: jnp.fft.irfft(jnp.fft.rfft(x, axis=1), n=3, axis=1),
        "searchsorted": lambda x: jnp.searchsorted(jnp.array([0.0, 2.0, 4.0]), x),
        "interp": lambda x: jnp.interp(x, jnp.array([0.0, 3.0, 5.0]), jnp.array([1.0, 2.0, 0.0])),
        "histogram": lambda x: jnp.histogram(x, bins=4, range=(-2, 4))[0],
        "bincount": lambda x: jnp.bincount(i, length=4),
        "unique": lambda x: jnp.unique(jnp.round(x), size=4),
        "segment sum": lambda x: jax.ops.segment_sum(x.T, i, 2),
        "meshgrid": lambda x: jnp.meshgrid(x[0], x[1]),
        "linspace": lambda x: jnp.linspace(x[0, 0], x[1, 0], 5),
        "polyval": lambda x: jnp.polyval(jnp.array([1.0, -2.0, 0.5]), x),
        "trapezoid": lambda x: jnp.trapezoid(x, axis=1),
        "cov": lambda x: jnp.cov(x),
        "cross": lambda x: jnp.cross(x[0], x[1]),
        "uniform": lambda x: jax.random.uniform(jax.random.key(0), (4,)) + x[0, 0],
        "normal": lambda x: jax.random.normal(jax.random.PRNGKey(3), (2, 3)) + x,
        "randint": lambda x: jax.random.randint(jax.random.key(1), (5,), 0, 10),
        "permutation": lambda x: jax.random.permutation(jax.random.key(2), 6),
        "categorical": lambda x: jax.random.categorical(jax.random.key(2), x),
        "bernoulli": lambda x: jax.random.bernoulli(jax.random.key(5), 0.3, (7,)),
        "fold in": lambda x: jax.random.uniform(jax.random.fold_in(jax.random.split(jax.random.key(7))[1], 3)),
        "dropout": lambda x: jnp.where(jax.random.bernoulli(jax.random.key(0), 0.8, x.shape), x / 0.8, 0.0),
        "trees": lambda x: {"b": (x, [x + 1]), "a": None, "c": x.sum()},
    }


def test_snippets():
    need_jax()
    wrong = []
    for name, f in snippets().items():
        try:
            as_jax(f, x23())
        except Exception as e:  # noqa: BLE001
            wrong.append(f"{name}: {type(e).__name__} {str(e)[:300]}")
    assert not wrong, f"{len(wrong)} of {len(snippets())}\n" + "\n".join(wrong)


def test_gradients_beside_jax():
    need_jax()
    i = np.array([1, 0, 1])
    wrong = []
    for name, f in {
            "mlp": lambda x: jnp.sum(jnp.tanh(x @ x.T)), "softmax": lambda x: jnp.sum(jax.nn.softmax(x) ** 2), "gather": lambda x: jnp.sum(x[i] ** 2),
            "scatter": lambda x: jnp.sum(x.at[i].add(x[0]) ** 2), "sort": lambda x: jnp.sum(jnp.sort(x, axis=1) * jnp.arange(3)),
            "max": lambda x: jnp.max(x) + jnp.sum(jnp.max(x, axis=1)), "cumsum": lambda x: jnp.sum(jnp.cumsum(x, axis=1) ** 2),
            "cumprod": lambda x: jnp.sum(jnp.cumprod(x, axis=1)), "pool": lambda x: jnp.sum(lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (1, 1), "VALID") ** 2),
            "conv": lambda x: jnp.sum(lax.conv_general_dilated(x.reshape(1, 1, 2, 3), jnp.ones((2, 1, 2, 2)), (1, 1), "SAME") ** 2),
            "scan": lambda x: jnp.sum(lax.scan(lambda c, a: (jnp.sin(c) + a, c * a), jnp.zeros(3), x)[1]),
            "cond": lambda x: lax.cond(x.sum() > 3, lambda v: jnp.sum(v * v), lambda v: jnp.sum(v), x),
            "fori": lambda x: jnp.sum(lax.fori_loop(0, 3, lambda k, v: jnp.sin(v) * x, x)), "logsumexp": jax.nn.logsumexp,
            "dynamic slice": lambda x: jnp.sum(lax.dynamic_slice(x, (0, jnp.argmin(x[0])), (2, 2)) ** 2), "where": lambda x: jnp.sum(jnp.where(x > 0, x ** 2, jnp.exp(x)))}.items():
        try:
            same(anfora.grad(anfora.from_jax(f))(x23()), jax.grad(f)(x23()))
        except Exception as e:  # noqa: BLE001
            wrong.append(f"{name}: {type(e).__name__} {str(e)[:300]}")
    assert not wrong, "\n".join(wrong)


def test_reverse_mode_goes_through_while_which_jax_refuses():
    need_jax()

    def root(a):
        return jnp.sum(lax.while_loop(lambda s: jnp.max(jnp.abs(s * s - a)) > 1e-13, lambda s: 0.5 * (s + a / s), jnp.ones_like(a)))
    a = np.array([2.0, 3.0, 10.0])
    same(anfora.grad(anfora.from_jax(root))(a), 0.5 / np.sqrt(a))
    try:
        jax.grad(root)(a)
    except ValueError as e:
        assert "Reverse-mode" in str(e)
    else:
        raise AssertionError("JAX differentiates it now: say so in the docs")


def test_one_function_at_several_shapes_and_types():
    need_jax()
    f = anfora.from_jax(lambda x, y: jnp.sin(x) * y)
    for shape, dtype in (((3,), "f8"), ((2, 2), "f8"), ((3,), "f4"), ((), "f8")):
        x = np.full(shape, 0.5, dtype)
        got = np.asarray(f(x, x))
        assert got.dtype == x.dtype or not shape
        np.testing.assert_allclose(got, np.sin(x) * x, rtol=1e-6)
    g = anfora.grad(anfora.from_jax(lambda x: jnp.sum(x ** 2)))
    same(g(np.ones(3)), 2 * np.ones(3))
    same(g(np.ones((2, 2))), 2 * np.ones((2, 2)))


def test_trees_go_in_and_out():
    need_jax()

    def f(p, x):
        return {"z": jnp.dot(x, p["w"]) + p["b"][0], "a": (x, p["b"][1])}
    p = {"w": np.ones((3, 2)), "b": [np.arange(2.0), np.float64(3.0)]}
    got = anfora.from_jax(f)(p, x23())
    assert set(got) == {"z", "a"}
    same(got, f(p, x23()))


def test_two_functions_in_one_program():
    need_jax()
    f, g = anfora.from_jax(lambda x: lax.fori_loop(0, 3, lambda i, v: v * 2, x)), anfora.from_jax(lambda x: lax.fori_loop(0, 2, lambda i, v: v + 1, x))
    fx, gx = f.at(x23()), g.at(x23())
    h = anfora.jit(lambda x: fx(x) + gx(x))
    same(h(x23()), x23() * 8 + x23() + 2)


def test_a_call_from_a_compiled_function_says_what_to_do():
    need_jax()
    f = anfora.from_jax(lambda x: x + 1)
    try:
        anfora.jit(lambda x: f(x))(x23())
    except anfora.CompileError as e:
        assert "f.at(x)" in str(e), str(e)
    else:
        raise AssertionError("it is known")


def functions():
    """Functions of Anfora, of NumPy's names, and the same of JAX."""
    import anfora.jax as aj
    import anfora.numpy as anp
    one, two = aj.Function(lambda x: anp.sum(anp.cos(x) ** 2)), aj.Function(lambda x, y: (x * y, anp.sum(anp.sin(x) * y)))
    return one, lambda x: jnp.sum(jnp.cos(x) ** 2), two, lambda x, y: (x * y, jnp.sum(jnp.sin(x) * y))


def test_functions_of_anfora_are_functions_of_jax():
    need_jax()
    f, want, g, both = functions()
    x, m = jnp.array([0.3, -1.2, 2.0]), jnp.array([[0.3, -1.2, 2.0], [0.5, 0.25, -1.0]])
    for t in (lambda h: h, jax.jit, jax.grad, lambda h: jax.jit(jax.grad(h)), lambda h: lambda v: jax.jvp(h, (v,), (2 * v,)), jax.hessian,
              jax.jacfwd, lambda h: jax.jacrev(jax.jacrev(h)), lambda h: lambda v: jax.vjp(h, v)[1](3.0)):
        same(t(f)(x), t(want)(x))
    for t in (jax.vmap, lambda h: jax.jit(jax.vmap(jax.grad(h))), lambda h: jax.grad(lambda v: jnp.sum(jax.vmap(h)(v) ** 2))):
        same(t(f)(m), t(want)(m))

    def loss(h):
        return lambda a, b: jnp.sum(h(a, b)[0] ** 2) + h(a, b)[1] ** 2
    same(jax.grad(loss(g), argnums=(0, 1))(x, 2 * x), jax.grad(loss(both), argnums=(0, 1))(x, 2 * x))
    same(jax.vmap(g, in_axes=(1, None))(m.T, x), jax.vmap(both, in_axes=(1, None))(m.T, x))


def test_a_loop_of_anfora_is_differentiated_in_jax():
    need_jax()
    import anfora.jax as aj
    import anfora.numpy as anp

    def root(a):
        s = anp.ones_like(a)
        while anp.max(anp.abs(s * s - a)) > 1e-13:
            s = 0.5 * (s + a / s)
        return s
    a = jnp.array([2.0, 3.0])
    same(jax.jacrev(aj.Function(root))(a), jax.jacrev(jnp.sqrt)(a))


def test_programs_of_jax_call_code_without_python():
    need_jax()
    import anfora.jax as aj
    import anfora.numpy as anp
    table = np.arange(5.0)
    cases = {
        "a number": (lambda x: anp.sum(anp.cos(x) ** 2), lambda x: jnp.sum(jnp.cos(x) ** 2), (jnp.array([0.3, -1.2, 2.0]),)),
        "numbers and arrays": (lambda x, k, b: (x * k, k + 1, anp.sum(x) > b, x.T), lambda x, k, b: (x * k, k + 1, jnp.sum(x) > b, x.T),
                               (jnp.ones((2, 3)), jnp.int32(3), jnp.float32(0.5))),
        "captured": (lambda x: x + table, lambda x: x + table, (jnp.arange(5.0),)),
        "many": (lambda x: tuple(x[i] * i for i in range(40)), lambda x: tuple(x[i] * i for i in range(40)), (jnp.arange(40.0),)),
        "complex": (lambda x: x * 2j, lambda x: x * 2j, (jnp.array(1.0 + 2j),)),
        "none": (lambda x: x * 2, lambda x: x * 2, (jnp.zeros((0, 3)),))}
    for name, (f, want, args) in cases.items():
        g = jax.jit(aj.Function(f))
        text = g.lower(*args).as_text()
        assert "@anfora(" in text and "callback" not in text, (name, text)
        same(g(*args), want(*args))
    pick = jax.jit(aj.Function(lambda x, k: x[k]))
    assert pick(jnp.arange(3.0), 1) == 1.0
    try:
        pick(jnp.arange(3.0), 7).block_until_ready()
    except Exception as e:  # noqa: BLE001: JAX has several classes for it
        assert "anfora: the function failed" in str(e), str(e)
    else:
        raise AssertionError("an index outside")


def test_integers_are_arguments_and_no_derivatives():
    need_jax()
    import anfora.jax as aj
    pick = aj.Function(lambda x, k: x[k] * 2.0)
    same(jax.grad(lambda v: pick(v, jnp.array(1)))(jnp.ones(3)), jnp.array([0.0, 2.0, 0.0]))
    sign = aj.Function(lambda x: (x * 2.0, x > 0))
    try:
        jax.jvp(lambda v: sign(v)[0], (jnp.ones(3),), (jnp.ones(3),))
    except TypeError as e:
        assert "integers or bools" in str(e), str(e)
    else:
        raise AssertionError("say so in the docs")


def test_functions_in_jax_have_its_element_types():
    need_jax()
    import anfora.jax as aj

    def alike(f, g, *args):
        for d in (lambda h: jax.vmap(h, (None, 0)), lambda h: jax.jit(jax.grad(lambda x, y: h(x, y).sum(), (0, 1)))):
            got, want = jax.tree.leaves(d(f)(*args)), jax.tree.leaves(d(g)(*args))
            assert [x.dtype for x in got] == [x.dtype for x in want], (got, want)
            same(got, want, 1e-5)
    a, table = jnp.asarray([1.0, 2.0], "float32"), np.array([2.0, 3.0])
    alike(aj.Function(lambda x, y: x * y * y), lambda x, y: x * y * y, 3.0, a)
    integers = aj.Function(lambda x, y: x * y)
    assert integers(3, jnp.ones(2, "int8")).dtype == "int8" and jax.jit(integers)(2j, a).dtype == "complex64"
    with jax.enable_x64(False):
        alike(aj.Function(lambda x, y: x * y * table), lambda x, y: x * y * table, 3.0, a)


def command(*args):
    return subprocess.run([os.path.join(os.path.dirname(anfora.__file__), "_command"), *args], capture_output=True, text=True, check=False)


def run_text(text, args):
    """The results of a module of StableHLO, compiled by JAX."""
    from jax._src.lib import xla_client
    made = jax.devices()[0].client.compile_and_load(text, xla_client.DeviceList(tuple(jax.devices()[:1])), xla_client.CompileOptions())
    out = made.execute_sharded([jax.device_put(x) for x in args]).disassemble_into_single_device_arrays()
    return [np.asarray(x[0]) for x in out]


def models():
    """(function, arguments, the arguments that it is differentiated by)"""
    r = np.random.default_rng(4).normal
    x, w = r(size=(2, 3, 9, 9)), r(size=(4, 3, 3, 3))

    def cnn(x, w):
        y = lax.conv_general_dilated(x, w, (2, 1), ((1, 0), (2, 1)), rhs_dilation=(1, 2))
        y = lax.reduce_window(jax.nn.relu(y), -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
        return jnp.mean(y ** 2)

    def rnn(w, xs):
        return jnp.sum(lax.scan(lambda h, x: (jnp.tanh(h @ w + x), h), xs[0], xs)[0] ** 2)

    def attention(q, k, v):
        return jnp.sum(jax.nn.softmax(q @ k.T / 2, axis=-1) @ v ** 2)

    def choice(x):
        return lax.cond(x[0] > 0, lambda y: jnp.sum(y ** 3), lambda y: jnp.sum(jnp.sin(y)), x) + lax.switch(1, (jnp.sum, jnp.prod), x)
    i = np.array([2, 0, 2])
    return {"cnn": (cnn, (x, w), "0,1"), "rnn": (rnn, (r(size=(3, 3)), r(size=(7, 3))), "0,1"), "choice": (choice, (r(size=4),), "0"),
            "attention": (attention, (r(size=(4, 3)), r(size=(5, 3)), r(size=(5, 2))), "0,1,2"),
            "indices": (lambda t: jnp.sum(t[i] ** 2 * t.at[i].add(2.0)[1]), (r(size=(3, 4)),), "0"),
            "sorted": (lambda v: jnp.sum(jnp.sort(v) * jnp.arange(6.0)) + jnp.cumsum(v)[3] ** 2, (r(size=6),), "0")}


def test_portable_bytecode():
    """Artifacts of jax.export, read by jaxlib; a clear refusal by what has no jaxlib, and of bytes that are no artifact."""
    need_jax()
    from jax import export
    x = np.arange(6.0).reshape(2, 3)
    data = export.export(jax.jit(lambda x: jnp.tanh(x @ x.T)))(x).mlir_module_serialized
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "f.mlir.bc")
        for content, word in ((data, None), (data[:40], "no portable artifact of StableHLO")):
            with open(path, "wb") as f:
                f.write(content)
            if word is None:
                same(anfora.read(path).main(x), np.tanh(x @ x.T), 1e-12)
                continue
            try:
                anfora.read(path)
            except anfora.CompileError as e:
                assert word in str(e), e
            else:
                raise AssertionError("it was read")
        r = command("run", path)
        assert r.returncode != 0 and "E1220" in r.stderr and "anfora.read" in r.stderr, r.stderr


def test_gradients_of_text_run_in_jax():
    """anfora grad in.mlir -o out.mlir, of programs that JAX lowered, run by JAX."""
    need_jax()
    with tempfile.TemporaryDirectory() as folder:
        for name, (f, args, wrt) in models().items():
            into, out = os.path.join(folder, "in.mlir"), os.path.join(folder, "out.mlir")
            with open(into, "w", encoding="utf-8") as file:
                file.write(jax.jit(f).lower(*args).as_text())
            r = command("grad", into + ":main", "--wrt", wrt, "--value", "-o", out)
            assert r.returncode == 0, (name, r.stderr)
            with open(out, encoding="utf-8") as file:
                got = run_text(file.read(), args)
            same(got, jax.value_and_grad(f, tuple(map(int, wrt.split(","))))(*args), 1e-10)


def test_what_is_not_supported_is_named():
    need_jax()
    try:
        anfora.from_jax(lambda x: jnp.linalg.eigvals(x @ x.T))(x23())
    except anfora.CompileError as e:
        assert "E1221" in str(e) and "lapack" in str(e), str(e)
    else:
        raise AssertionError("it is supported")


def test_named_tuples_and_dataclasses():
    need_jax()
    import collections
    import dataclasses

    state = collections.namedtuple("state", "count mean")

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class Layer:
        w: object
        b: object
        name: str = dataclasses.field(default="layer", metadata={"static": True})

    def step(layer, s, x):
        y = jnp.tanh(x @ layer.w + layer.b)
        return Layer(layer.w - jnp.mean(y), layer.b), state(s.count + 1, {"b": s.mean["b"] + y.mean(0), "a": s.mean["a"]}), y
    layer = Layer(np.arange(6.0).reshape(3, 2) / 10, np.ones(2))
    s = state(np.int64(0), {"b": np.zeros(2), "a": np.ones(1)})
    f = anfora.from_jax(step)
    got, want = f(layer, s, x23()), step(layer, s, x23())
    same(got, want)
    assert type(got[1]) is state and type(got[0]) is Layer, got
    same(f(*got[:2], x23()), step(*want[:2], x23()))
    g = anfora.grad(anfora.from_jax(lambda s, x: jnp.sum(jnp.sin(s.mean * x) + s.count)))(state(np.float64(2), np.ones(3)), x23())
    same(g, (np.float64(6), np.sum(np.cos(x23()) * x23(), 0)))
    assert type(anfora.from_jax(jnp.linalg.eigh)(np.eye(3))).__name__ == "EighResult"


def test_arguments_by_name_and_in_any_number():
    need_jax()
    f = anfora.from_jax(lambda x, y=2.0, *, z=1.0: x * y + z)
    x = x23()
    for got, want in ((f(x), x * 2 + 1), (f(x, 3.0), x * 3 + 1), (f(x, y=3.0), x * 3 + 1), (f(x, z=x), x * 3), (f(x, z=0.5, y=x), x * x + 0.5)):
        same(got, want)
    many = anfora.from_jax(lambda *xs: sum(jnp.sum(jnp.sin(x)) for x in xs))
    same(many(x), np.sin(x).sum())
    same(many(x, x, x), 3 * np.sin(x).sum())
    same(anfora.grad(many)(x, x), np.cos(x))
    for wrong in (lambda: f(x, w=1.0), lambda: f(), lambda: f(x, 1.0, 2.0)):
        try:
            wrong()
        except TypeError:
            continue
        raise AssertionError("arguments that do not fit were taken")


def test_results_are_what_the_function_gives():
    need_jax()
    import collections
    a, b, nothing = collections.namedtuple("A", "x"), collections.namedtuple("B", "x"), collections.namedtuple("Nothing", "")
    x = x23()
    for f, of in ((lambda x: (a(x), b(x), {"x": x}), x), (lambda s: (b(s.x), a(s.x)), a(x)), (lambda d: (nothing(), {}, d, [], None), {"x": x}),
                  (lambda x: [x, (x, [x]), ()], x), (lambda t: [t[0]], (x,)), (lambda x: collections.OrderedDict(z=x, y=x + 1), x),
                  (lambda x: {"if": x, "in": {"nan": x + 1}}, x), (lambda d: jax.grad(lambda d: jnp.sum(d["if"] ** 2 * d["type"]))(d), {"if": x, "type": x}),
                  (lambda x: jax.lax.cond(jnp.sum(x) > 0, lambda: (), lambda: ()), x), (lambda x: jax.lax.scan(lambda c, _: ((), ()), (), x), x),
                  (lambda x: jax.lax.scan(lambda c, _: (c * 2, None), x, None, 3), x), (lambda x: (jnp.sin(x), jnp.zeros((0, 3)))[1], x)):
        got, want = anfora.from_jax(f)(of), f(of)
        assert jax.tree.structure(got) == jax.tree.structure(want), (got, want)
        same(got, want)


def test_objects_that_jax_takes_apart():
    need_jax()

    @jax.tree_util.register_pytree_node_class
    class Layer:  # as modules of Equinox are
        def __init__(self, w, b, act):
            self.w, self.b, self.act = w, b, act

        def tree_flatten(self):
            return (self.w, self.b), self.act

        @classmethod
        def tree_unflatten(cls, act, parts):
            return cls(*parts, act)

        def __call__(self, x):
            return self.act(x @ self.w + self.b)

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class State:  # as Flax's TrainState is
        step: int
        layer: Layer
        apply: Any = dataclasses.field(metadata={"static": True})

    def train(s, x):
        g = jax.grad(lambda m: jnp.sum(s.apply(m, x) ** 2))(s.layer)
        return dataclasses.replace(s, step=s.step + 1, layer=jax.tree.map(lambda p, d: p - 0.1 * d, s.layer, g))
    f, x = anfora.from_jax(train), x23()
    got = want = State(0, Layer(np.ones((3, 2)), np.zeros(2), jnp.tanh), Layer.__call__)
    for _ in range(2):
        got, want = f(got, x), train(want, x)
        assert type(got) is State and type(got.layer) is Layer and got.apply is Layer.__call__ and got.layer.act is jnp.tanh
        same((got.step, got.layer.w, got.layer.b), (want.step, want.layer.w, want.layer.b))
    same(anfora.grad(anfora.from_jax(lambda m, x: jnp.sum(m(x))))(want.layer, x).w, jax.grad(lambda m, x: jnp.sum(m(x)))(want.layer, x).w)
    part = anfora.from_jax(lambda x: jax.tree_util.Partial(jnp.add, x))(x)
    assert type(part) is jax.tree_util.Partial and part.func is jnp.add
    same(part.args, (x,))


def test_dataclasses_with_an_own_init():
    """As Equinox's modules are: JAX makes them without their __init__, and numbers of Python that are static are constants."""
    need_jax()

    @dataclasses.dataclass(init=False)
    class Linear:
        w: Any
        b: Any
        size: int = dataclasses.field(metadata={"static": True})

        def __init__(self, m, n):
            self.w, self.b, self.size = np.ones((m, n)) / m, None, n

        def __call__(self, x):
            return jnp.broadcast_to(x @ self.w, (len(x), self.size))

    @dataclasses.dataclass(init=False)
    class Net:
        layers: Any

        def __init__(self, *sizes):
            self.layers = [Linear(m, n) for m, n in zip(sizes, sizes[1:])]

        def __call__(self, x):
            for layer in self.layers:
                x = jnp.tanh(layer(x))
            return x

    def register(kind, parts, constants):
        def unflatten(constant, values):
            x = object.__new__(kind)
            vars(x).update(zip((*parts, *constants), (*values, *constant)))
            return x
        jax.tree_util.register_pytree_node(kind, lambda x: ([getattr(x, n) for n in parts], tuple(getattr(x, n) for n in constants)), unflatten)
    register(Linear, ("w", "b"), ("size",))
    register(Net, ("layers",), ())

    def step(net, x):
        value, g = jax.value_and_grad(lambda n: jnp.sum(n(x) ** 2))(net)
        return jax.tree.map(lambda p, d: p - 0.1 * d, net, g), value
    f, net = anfora.from_jax(step), Net(3, 4, 2)
    got = f(net, x23())
    same(got, step(net, x23()))
    assert type(got[0]) is Net and got[0].layers[1].size == 2 and got[0].layers[0].b is None
    same(f(*got[:1], x23()), step(jax.tree.map(np.asarray, got[0]), x23()))


def test_callbacks_are_operations_of_the_host():
    """With several arguments and results, in a choice, for each lane of vmap; what one raises is raised, and only where it is called."""
    need_jax()

    def spread(x, k):
        if k["s"] > 5:
            raise ValueError("too large")
        return np.sort(x) * k["s"], np.int32(3)

    def f(x):
        like = jax.ShapeDtypeStruct(x.shape, x.dtype), jax.ShapeDtypeStruct((), jnp.int32)
        a, b = lax.cond(x[0] > 0, lambda: jax.pure_callback(spread, like, x, {"s": x[0]}), lambda: (x, jnp.int32(1)))
        sums = jax.vmap(lambda r: jax.pure_callback(lambda q: q.sum(), like[0].update(shape=()), r, vmap_method="sequential"))(jnp.stack([x, a]))
        return a, b, sums
    g = anfora.from_jax(f)
    for x in (np.array([2.0, 1.0, 3.0]), np.array([-9.0, 1.0, 3.0])):
        same(g(x), f(x))
    try:
        g(np.array([9.0, 1.0, 3.0]))
    except anfora.RunError as e:
        assert "E0444" in str(e) and "too large" in f"{e} {e.__cause__}", e
    else:
        raise AssertionError("it was not raised")


def test_callbacks_that_count():
    """jax.debug.print and others without a result, and io_callback, are called in their order each time that the program is."""
    need_jax()
    from jax.experimental import io_callback
    said = []

    def f(x):
        jax.debug.callback(lambda y, k: said.append((y.dtype, y.tolist(), k)), x, k="first")
        n = io_callback(lambda: np.int32(len(said)), jax.ShapeDtypeStruct((), jnp.int32))
        jax.debug.callback(lambda n: said.append(int(n)), n)
        return lax.fori_loop(0, 2, lambda i, y: (jax.debug.callback(lambda y: said.append(float(y[0])), y), y * 2)[1], x) + n
    g, x = anfora.from_jax(f), np.array([0.1, 3.0])
    want = [(np.float64, [0.1, 3.0], "first"), 1, 0.1, 0.2]
    for _ in range(2):
        said.clear()
        same(g(x), 4 * x + 1)
        assert said == want, said
    said.clear()
    total = anfora.from_jax(lambda x: jnp.sum(f(x) ** 2))
    for slope in anfora.grad(total), anfora.jit(lambda x: anfora.grad(total)(x)):
        said.clear()
        same(slope(x), 8 * (4 * x + 1))
        assert said == want, said
    said.clear()
    same(anfora.jvp(g, (x,), (np.ones(2),))[1], np.full(2, 4.0))
    assert said == want, said


def test_linear_algebra_of_lapack_that_has_a_definition():
    need_jax()
    a, c, d = np.random.default_rng(1).normal(size=(3, 4, 4))
    f = lambda a, c: (lax.linalg.ormqr(*(lambda h, t: (h.mT, t))(*jnp.linalg.qr(a, mode="raw")), c, left=False, transpose=True),  # noqa: E731
                      lax.linalg.tridiagonal_solve(c[0], c[1] + 9, c[2], d))
    same(anfora.from_jax(f)(a, c), f(a, c))


def test_files_that_call_lapack():
    need_jax()
    la, sla, rng = jnp.linalg, jax.scipy.linalg, np.random.default_rng(1)
    a = rng.normal(size=(2, 3, 3))
    a = a @ np.swapaxes(a, -1, -2) + np.eye(3)
    tall = rng.normal(size=(4, 3))
    cases = {"systems": (lambda a: (la.inv(a), la.cholesky(a), la.eigh(a)[1] ** 2), a),
             "factors": (lambda a: (sla.lu(a), la.qr(a), la.svd(a, full_matrices=False)[0] ** 2), tall),
             "zeta": (lambda x: jax.scipy.special.polygamma(2, x * x + 1), tall)}
    for name, (f, x) in cases.items():
        total = lambda x, f=f: sum(jnp.sum(y * jnp.cos(jnp.arange(y.size).reshape(y.shape))) for y in jax.tree.leaves(f(x)))  # noqa: E731
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, name + ".mlir")
            with open(path, "w", encoding="utf-8") as file:
                file.write(jax.jit(total).lower(x).as_text())
            same(anfora.value_and_grad(anfora.read(path).main)(x), jax.jit(jax.value_and_grad(total))(x), 1e-8)


def test_typed_keys_of_random_numbers():
    need_jax()
    k = jax.random.key(3)
    draw = anfora.from_jax(lambda k, x: jnp.sum(x * jax.random.normal(k, x.shape)))
    same(draw(k, np.ones(3)), jnp.sum(jax.random.normal(k, (3,))))
    same(anfora.grad(draw, 1)(k, np.ones(3)), jax.random.normal(k, (3,)))
    keys = jax.random.split(k, 4)
    same(anfora.vmap(draw, (0, None))(keys, np.ones(3)), jax.vmap(lambda k: jax.random.normal(k, (3,)).sum())(keys))

    def step(state):  # as a state of training holds one
        state = dict(state, rng=jax.random.split(state["rng"])[0], none=None)
        return {**state, "w": state["w"] * jax.random.bernoulli(state["rng"], 0.5, (8,)), "all": jax.random.split(state["rng"], (2, 3))}
    f, state, want = anfora.from_jax(step), {"w": np.ones(8), "rng": k}, {"w": jnp.ones(8), "rng": k}
    for _ in range(3):
        state, want = f(state), step(want)
        assert state["rng"].dtype == k.dtype and state["all"].shape == (2, 3)
        same(*(dict(s, rng=jax.random.key_data(s["rng"]), all=jax.random.key_data(s["all"])) for s in (state, want)))
    made = anfora.from_jax(lambda x: jax.random.key(7, impl="rbg"))(np.ones(2))
    assert jax.random.key_impl(made) == "rbg" and jax.random.key_data(made).tolist() == jax.random.key_data(jax.random.key(7, impl="rbg")).tolist()


def test_constants_of_objects_have_no_derivative():
    need_jax()
    import dataclasses

    @dataclasses.dataclass
    class Box:
        value: object
        names: tuple
    jax.tree_util.register_dataclass(Box, ["value"], ["names"])
    x = np.arange(3.0)

    def f(p):
        return jnp.sum(p["a"].value ** 2) + (jnp.sum(p["b"].value) if p["b"].names == ("in",) else 0)
    g = anfora.grad(anfora.from_jax(f))({"a": Box(x, ("out", None)), "b": Box(x, ("in",))})
    same((g["a"].value, g["b"].value), (2 * x, np.ones(3)))
    assert g["a"].names == ("out", None) and g["b"].names == ("in",) and type(g["a"]).__name__ == "Box", g
    y = anfora.from_jax(lambda p: jax.tree.map(jnp.sin, p))(Box(x, ("in",)))
    same(y.value, np.sin(x))
    assert y.names == ("in",)


def test_complex_numbers_have_no_element_type():
    need_jax()
    f = anfora.from_jax(lambda x, c: x * c + 1j)
    for x in (np.ones(3, "f4"), np.ones(3), np.ones(3, "c8"), np.ones(3, "i4")):
        got, want = np.asarray(f(x, 2j)), np.asarray(jnp.asarray(x) * 2j + 1j)
        assert got.dtype == want.dtype, (x.dtype, got.dtype, want.dtype)
        same(got, want)
    same(anfora.from_jax(lambda c: c * c)(2j), -4 + 0j)


def test_vmap_gives_a_function_of_jax_one_lane():
    need_jax()
    f = anfora.from_jax(lambda t, x: jnp.sum(x * x.shape[0]) + t["a"][0])
    x, t = np.arange(12.0).reshape(4, 3), {"a": [np.arange(4.0)], "b": np.ones(2)}
    same(anfora.vmap(f, (None, 1))({"a": [2.0]}, x), x.sum(0) * 4 + 2)
    same(anfora.vmap(f, ({"a": 0, "b": None}, 0))(t, x), x.sum(1) * 3 + np.arange(4))
    same(anfora.vmap(anfora.vmap(anfora.grad(f, 1), (None, 0)), (None, 1))({"a": [2.0]}, x.reshape(2, 2, 3)), np.full((2, 2, 3), 3.0))


def test_random_functions():
    need_jax()
    import random_jax
    bad, refused = random_jax.run(1, 16, "interp")
    assert not bad, "\n".join(bad[:2])
    assert sum(refused.values()) < 3, refused
