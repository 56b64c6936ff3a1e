# SPDX-License-Identifier: Apache-2.0
"""Derivative rules of JAX programs: custom_jvp, custom_vjp and JAX's own for what it does not differentiate op by op. Values, gradients,
tangents and Hessians beside JAX's; the rules have wrong factors, which show that they are used. Without JAX each case is skipped."""
import importlib.util
import os
from functools import partial

import numpy as np

import anfora

os.environ.setdefault("ANFORA_CACHE", "off")
HAS_JAX = importlib.util.find_spec("jax") is not None
if HAS_JAX:
    import jax
    import jax.numpy as jnp
    import jax.scipy.special as special
    from jax import lax
    from jax.experimental.ode import odeint
    jax.config.update("jax_enable_x64", True)

X = np.array([0.5, -1.25, 2.0, 0.0])
A = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]])


class Skip(Exception):
    """A case that cannot run here."""


def need_jax():
    if not HAS_JAX:
        raise Skip("JAX is not installed")


def same(name, got, want, tol=1e-8):
    got, want = jax.tree.leaves(got), jax.tree.leaves(want)
    assert len(got) == len(want), (name, len(got), len(want))
    for a, b in zip(got, want):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tol, atol=tol, err_msg=name)


def gradient(name, f, x, tol=1e-8):
    g = anfora.from_jax(f)
    same(name, g(x), f(jnp.asarray(x)), tol)
    same(name + ", gradient", anfora.grad(g)(x), jax.grad(f)(jnp.asarray(x)), tol)


def all_orders(name, f, x):
    gradient(name, f, x)
    g, ones = anfora.from_jax(f), np.ones_like(x)
    same(name + ", tangent", anfora.jvp(g, (x,), (ones,)), jax.jvp(f, (jnp.asarray(x),), (jnp.asarray(ones),)))
    same(name + ", hessian", anfora.jacrev(anfora.grad(g))(x), jax.jacrev(jax.grad(f))(jnp.asarray(x)))


def refused(code, f):
    try:
        f()
    except anfora.AnforaError as e:
        assert code in str(e), str(e)
    else:
        raise AssertionError(f"no {code}")


# ---- custom_jvp ----

def square():
    f = jax.custom_jvp(lambda x: x * x)
    f.defjvp(lambda p, t: (f(p[0]), 3.0 * p[0] * t[0]))
    return f


def test_forward_rules():
    need_jax()
    f = square()
    cases = {
        "a rule": f,
        "in jit": lambda x: jax.jit(lambda y: jax.jit(f)(f(y)))(x),
        "in vmap": jax.vmap(f),
        "in a branch": lambda x: lax.cond(x[0] > 0, f, lambda x: x, x),
        "in a gradient": lambda x: jax.grad(lambda y: jnp.sum(f(y)))(x),
        "in checkpoint": lambda x: jax.checkpoint(lambda y: jnp.sin(f(y)))(x),
        "checkpoint that keeps products": lambda x: jax.checkpoint(lambda y: jnp.sin(jnp.sin(y)), policy=jax.checkpoint_policies.dots_saveable)(x),
        "in a map": lambda x: lax.map(f, x),
    }
    for name, g in cases.items():
        all_orders(name, lambda x, g=g: jnp.sum(g(x)), X)


def test_forward_rules_in_loops():
    need_jax()
    f = square()

    def unrolled(x):
        c = 1.5
        for i in range(4):
            c = f(c) * x[i]
        return c
    scanned = anfora.from_jax(lambda x: lax.scan(lambda c, v: (f(c) * v, c), 1.5, x)[0])
    same("gradient", anfora.grad(scanned)(X), jax.grad(unrolled)(X))
    same("hessian", anfora.jacrev(anfora.grad(scanned))(X), jax.hessian(unrolled)(X))
    repeated = anfora.from_jax(lambda x: jnp.sum(lax.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, f(s[1]) + x), (0, x))[1]))
    same("while", anfora.grad(repeated)(X), jax.grad(lambda x: jnp.sum(f(f(x) + x) + x))(X))


def test_forms_of_forward_rules():
    need_jax()
    pair = jax.custom_jvp(lambda x, y: (x * y, jnp.round(x).astype(int)))
    pair.defjvp(lambda p, t: (pair(*p), (2 * t[0] * p[1] + 3 * p[0] * t[1], np.zeros(p[0].shape, jax.dtypes.float0))))
    power = jax.custom_jvp(lambda x, n: x ** n, nondiff_argnums=(1,))
    power.defjvp(lambda n, p, t: (power(p[0], n), 10.0 * t[0] * p[0]))
    parts = jax.custom_jvp(lambda x, y: x * y)
    parts.defjvps(lambda t, out, x, y: 2 * t * y, None)
    zeros = jax.custom_jvp(lambda x, y: x * y)

    @partial(zeros.defjvp, symbolic_zeros=True)
    def _(p, t):
        moved = [w * (k + 2) for k, w in enumerate(t) if type(w) is not jax.custom_derivatives.SymbolicZero]
        return p[0] * p[1], sum(moved, jnp.zeros_like(p[0]))
    linear = jax.custom_jvp(lambda x, w: 2 * x * w)  # its own rule applies it to the tangent
    linear.defjvp(lambda p, t: (linear(*p), linear(t[0], p[1])))
    cases = {
        "integers": lambda x: pair(x, x + 1)[0] * pair(x, x)[1], "arguments that are not differentiated": lambda x: power(x, 3),
        "a rule an argument": lambda x: parts(x, x), "symbolic zeros": lambda x: zeros(x, 2 * x), "one symbolic zero": lambda x: zeros(x, 2.0),
        "a linear function": lambda x: linear(x, 3.0),
    }
    for name, g in cases.items():
        all_orders(name, lambda x, g=g: jnp.sum(g(x)), X)


def sines(*factors, backward=False):
    """sin, whose rule takes the sine of the next factor for its slope: all have the same text but for the last one's."""
    f = (jax.custom_vjp if backward else jax.custom_jvp)(lambda x: jnp.sin(x))
    slope = sines(*factors[1:], backward=backward) if len(factors) > 1 else lambda x: factors[0] * jnp.cos(x)
    if backward:
        f.defvjp(lambda x: (f(x), x), lambda x, d: (d * slope(x),))
    else:
        f.defjvp(lambda p, t: (f(p[0]), t[0] * slope(p[0])))
    return f


def test_rules_that_differ_in_deeper_rules_alone():
    need_jax()
    f, g = sines(1.0, 1.0, 3.0), sines(1.0, 1.0, 5.0)
    mine = want = lambda x: f(x) + 7 * g(x)
    mine = anfora.from_jax(mine)
    for _ in range(3):
        mine, want = anfora.grad(mine), jax.grad(want)
    same("forward rules", mine(0.7), want(0.7))
    f, g = sines(1.0, 3.0, backward=True), sines(1.0, 5.0, backward=True)
    twice = lambda x: f(x) + 7 * g(x)
    same("backward rules", anfora.grad(anfora.grad(anfora.from_jax(twice)))(0.7), jax.grad(jax.grad(twice))(0.7))


# ---- custom_vjp ----

def product():
    f = jax.custom_vjp(lambda x, y: jnp.sin(x) * y)
    f.defvjp(lambda x, y: (f(x, y), (x, y)), lambda r, g: (7 * jnp.cos(r[0]) * g * r[1], 5 * jnp.sin(r[0]) * g))
    return f


def test_backward_rules():
    need_jax()
    f = product()
    power = jax.custom_vjp(lambda n, x: x ** n, nondiff_argnums=(0,))
    power.defvjp(lambda n, x: (power(n, x), x), lambda n, r, g: (g * r * 11.0,))
    clip = jax.custom_vjp(lambda x: x)
    clip.defvjp(lambda x: (x, None), lambda _, g: (jnp.clip(g, -1, 1),))
    tree = jax.custom_vjp(lambda d, i: d["a"] * d["b"][i])
    tree.defvjp(lambda d, i: (tree(d, i), (d, i)),
                lambda r, g: ({"a": g * 2 * r[0]["b"][r[1]], "b": jnp.zeros_like(r[0]["b"]).at[r[1]].set(3 * g * r[0]["a"])}, None))
    marked = jax.custom_vjp(lambda x, y: x * y)
    marked.defvjp(lambda x, y: (x.value * y.value, (x.value, y.value)), lambda r, g: (g * r[1] * 2, jnp.sum(g * r[0]) * 3), symbolic_zeros=True)
    whole = jax.custom_gradient(lambda x: (x ** 2, lambda g: g * x * 13))
    cases = {
        "a rule": lambda x: f(x, x + 1), "nothing to differentiate by": lambda x: power(3, x), "clipped": lambda x: 3 * clip(x) * x,
        "trees": lambda x: tree({"a": x[0], "b": x}, 2), "symbolic zeros": lambda x: marked(x, 2.0), "custom_gradient": whole,
        "in vmap": lambda x: jax.vmap(f, (0, None))(x, 2.0), "in a scan": lambda x: lax.scan(lambda c, v: (f(c, v), c), 1.5, x)[1],
        "an initial value problem": lambda x: odeint(lambda y, t, a: -y * a, x, jnp.array([0.0, 0.5, 1.0]), 2.0)[-1],
    }
    for name, g in cases.items():
        gradient(name, lambda x, g=g: jnp.sum(g(x)), X)
    twice = lambda x: jnp.sum(f(x, x + 1))
    same("hessian", anfora.jacrev(anfora.grad(anfora.from_jax(twice)))(X), jax.jacrev(jax.grad(twice))(X))
    refused("E0712", lambda: anfora.jvp(anfora.from_jax(twice), (X,), (X,)))


def test_values_around_a_backward_rule_have_no_gradient():
    need_jax()

    def f(x):
        g = jax.custom_vjp(lambda a: a * x)
        g.defvjp(lambda a: (a * x, None), lambda _, d: (d * 2,))
        return jnp.sum(g(x))
    same("value", anfora.from_jax(f)(X), f(X))
    refused("E0701", lambda: anfora.grad(anfora.from_jax(f))(X))


def test_rules_that_call_functions_with_rules_stay_small():
    """The backward pass of an initial value problem solves one of an equation of its own, whose backward pass does again."""
    need_jax()
    from anfora.jax import _rules
    x = jax.ShapeDtypeStruct((2,), "float64")
    with jax.enable_x64(True):
        text = _rules.lowered(lambda x: odeint(lambda y, t, a: -y * a, x, jnp.array([0.0, 1.0]), 2.0)[-1], [x]).as_text()
    names = [line for line in text.splitlines() if "func.func private @rule" in line]
    assert any("without_derivative" in n for n in names) and len(text) < 400000, len(text)


def test_what_a_call_captured_before_a_rule_bound_it_again_has_no_gradient():
    """odeint's forward rule calls odeint, where the solver's table of constants is an argument."""
    need_jax()
    total = lambda x: jnp.sum(odeint(lambda y, t: -y * y, x, jnp.array([0.0, 1.0]))[-1])
    f = anfora.from_jax(total).at(X[:1])
    same("second", anfora.grad(lambda x: anfora.grad(f)(x)[0])(X[:1]), jax.grad(lambda x: jax.grad(total)(x)[0])(X[:1]))


def test_implicit_functions():
    need_jax()
    newton = lambda f, y: lax.fori_loop(0, 60, lambda i, y: y - f(y) / (3 * y * y + 1), y)
    root = lambda x: jnp.sum(lax.custom_root(lambda y: y ** 3 + y - x, x, newton, lambda g, y: y / g(jnp.ones_like(y))))
    gradient("a root", root, X)
    gradient("conjugate gradients", lambda x: jnp.sum(jax.scipy.sparse.linalg.cg(lambda v: 2 * v + x * v * x, x + 1)[0]), X)


# ---- JAX's own rules ----

def test_what_derivatives_take_for_a_constant():
    need_jax()
    all_orders("stop_gradient", lambda x: jnp.sum(x ** 2 * lax.stop_gradient(x)), X)


def test_ties_have_the_derivative_that_jax_gives_them():
    need_jax()
    names = "relu relu6 elu celu gelu silu softplus log_sigmoid leaky_relu hard_tanh hard_sigmoid softmax log_softmax squareplus mish selu"
    for name in names.split():
        gradient(name, lambda x, f=getattr(jax.nn, name): jnp.sum(f(x) * jnp.arange(1.0, 5.0)), X)
    cases = {"abs": jnp.abs, "maximum": lambda x: jnp.maximum(x, 0), "both": lambda x: jnp.maximum(x, 0) + jnp.minimum(x, 0), "clip": lambda x: jnp.clip(x, 0, 2),
             "sinc": jnp.sinc, "logaddexp": lambda x: jnp.logaddexp(x, x[::-1]), "max": lambda x: jnp.max(x * 0), "sort": lambda x: jnp.sort(x * 0) * jnp.arange(4.0)}
    for name, f in cases.items():
        gradient(name, lambda x, f=f: jnp.sum(f(x)), X)
    numbers = lambda x: jnp.maximum(x, 1.0) * jnp.maximum(1.0, x) + 3 * jnp.minimum(x, x * x) + lax.fori_loop(0, 2, lambda i, y: jnp.maximum(y, x), x)
    gradient("numbers", numbers, np.float64(1.0))
    scattered = lambda x: jnp.zeros(3).at[jnp.array([0, 2, 0])].max(x) + lax.reduce(x, -1.0, lax.max, (0,)) + lax.reduce_window(x, -1.0, lax.max, (1,), (1,), "VALID")
    same("bodies of scatters and reductions", anfora.from_jax(scattered)(X[:3]), scattered(X[:3]))


def test_special_functions():
    need_jax()
    cases = {
        "gammainc by a": lambda x: special.gammainc(jnp.abs(x) + 0.5, 1.3), "gammainc by x": lambda x: special.gammainc(1.3, jnp.abs(x) + 0.5),
        "gammaincc": lambda x: special.gammaincc(jnp.abs(x) + 0.5, 1.3), "betainc by x": lambda x: special.betainc(1.3, 0.4, jnp.abs(x) / 3 + 0.1),
        "erfinv": lambda x: special.erfinv(x / 4), "ndtri": lambda x: special.ndtri(x / 8 + 0.5), "zeta": lambda x: special.zeta(3.0, x + 3),
        "polygamma": lambda x: special.polygamma(2, x + 3), "digamma": lambda x: special.digamma(x + 3), "xlogy": lambda x: special.xlogy(x + 2, x + 3),
        "entropy": lambda x: special.entr(x + 2), "log_ndtr": special.log_ndtr,
        "a gamma variate": lambda x: jax.random.gamma(jax.random.PRNGKey(0), jnp.abs(x) + 0.3, (4,)),
    }
    for name, f in cases.items():
        gradient(name, lambda x, f=f: jnp.sum(f(x)), X)
    s, q = np.array([1.5, 2.0, 3.0, 9.0, 1.0, 0.5]), np.array([0.3, 1.0, 12.0, 2.5, 2.0, 2.0])
    same("values of zeta", anfora.from_jax(lambda s, q: special.zeta(s, q))(s, q), special.zeta(s, q), 1e-12)
    refused("E0701", lambda: anfora.grad(anfora.from_jax(lambda x: jnp.sum(special.betainc(jnp.abs(x) + 1, 0.4, 0.3))))(X))


def test_linear_algebra():
    need_jax()
    la, b = jnp.linalg, jnp.arange(3.0)
    cases = {
        "inv": la.inv, "det": la.det, "slogdet": lambda a: la.slogdet(a)[1], "cholesky": la.cholesky, "qr": la.qr, "eigvalsh": la.eigvalsh,
        "eigh": lambda a: jnp.abs(la.eigh(a)[1]), "svd": lambda a: la.svd(a, compute_uv=False), "svd vectors": lambda a: jnp.abs(la.svd(a, full_matrices=False)[0]),
        "solve": lambda a: la.solve(a, b), "pinv": la.pinv, "expm": jax.scipy.linalg.expm, "power": lambda a: la.matrix_power(a, 3),
        "triangular": lambda a: jax.scipy.linalg.solve_triangular(a, b), "cond": la.cond, "nuclear norm": lambda a: la.norm(a, "nuc"),
        "lstsq": lambda a: la.lstsq(a, b)[0], "a factor, used": lambda a: jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(a), b),
    }
    for name, f in cases.items():
        gradient(name, lambda a, f=f: sum(jnp.sum(y * jnp.cos(jnp.arange(y.size).reshape(y.shape))) for y in jax.tree.leaves(f(a))), A)
    rng = np.random.default_rng(0)
    for shape in ((3, 5), (5, 3), (2, 4, 4), (1, 1)):
        m = rng.normal(size=shape)
        low = m[..., :1] @ m[..., :1, :]  # of rank 1
        for x in (m, low):
            u, s, v = anfora.from_jax(partial(la.svd, full_matrices=True))(x)
            same("svd", np.asarray(u)[..., :, :min(shape[-2:])] * np.asarray(s)[..., None, :] @ np.asarray(v)[..., :min(shape[-2:]), :], x)
            same("U", np.swapaxes(u, -1, -2) @ np.asarray(u), np.broadcast_to(np.eye(shape[-2]), np.asarray(u).shape))
            q, r = anfora.from_jax(la.qr)(x)
            same("qr", np.asarray(q) @ np.asarray(r), x)
        same("singular values", anfora.from_jax(partial(la.svd, compute_uv=False))(m), la.svd(m, compute_uv=False))
        same("qr beside LAPACK's", anfora.from_jax(la.qr)(m), la.qr(m))
        if shape[-1] == shape[-2]:
            same("eigvalsh", anfora.from_jax(la.eigvalsh)(m), la.eigvalsh(m))
        if shape[0] == shape[-1]:
            same("lu", anfora.from_jax(jax.scipy.linalg.lu)(m), jax.scipy.linalg.lu(m))
    z = rng.normal(size=(4, 4)) + 1j * rng.normal(size=(4, 4))
    refused("E0506", lambda: anfora.from_jax(la.solve)(z, z[0]))
    refused("E1221", lambda: anfora.from_jax(la.qr)(z))
    refused("E1221", lambda: anfora.from_jax(la.eigvalsh)(z))
