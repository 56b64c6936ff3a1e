# SPDX-License-Identifier: Apache-2.0
"""Programs as JAX's users write them, which run with the import exchanged: jax_programs.py --write, under an interpreter that
has JAX, writes what JAX gives to jax_values.json, which cases_jax.py compares with."""
import json
import os
import sys
from functools import partial

import numpy as np
from jax_lax import (  # noqa: F401: programs
    prog_lax_convolutions, prog_lax_elements, prog_lax_implicit, prog_lax_linalg, prog_lax_order, prog_lax_padding, prog_lax_shapes,
    prog_lax_shapes_of_convolutions, prog_lax_windows)
from jax_names import prog_names_of_linalg, prog_names_of_numpy, prog_names_of_special, prog_names_of_stats  # noqa: F401: programs

if "--write" in sys.argv:
    import jax
    import jax.numpy as jnp
    from jax import grad, jit, lax, nn, random, value_and_grad, vmap
else:
    import anfora as jax
    import anfora.numpy as jnp
    from anfora import grad, jit, lax, nn, random, value_and_grad, vmap


def init_linear(key, m, n):
    k1, k2 = random.split(key)
    return {"w": jnp.array(np.random.default_rng(m*n).normal(size=(m, n)).astype("f4")) / np.sqrt(m).astype("f4"), "b": jnp.zeros(n)}

def prog_mlp_sgd():
    sizes = [3, 8, 1]
    params = [init_linear(random.PRNGKey(i), m, n) for i, (m, n) in enumerate(zip(sizes[:-1], sizes[1:]))]
    x = np.linspace(-1, 1, 30).reshape(10, 3).astype("f4"); y = x.sum(1, keepdims=True)
    def predict(params, x):
        for layer in params[:-1]:
            x = jnp.tanh(jnp.dot(x, layer["w"]) + layer["b"])
        last = params[-1]
        return jnp.dot(x, last["w"]) + last["b"]
    def loss(params, batch):
        inputs, targets = batch
        return jnp.mean((predict(params, inputs) - targets) ** 2)
    @jit
    def update(params, batch):
        grads = grad(loss)(params, batch)
        return jax.tree_util.tree_map(lambda p, g: p - 0.1 * g, params, grads)
    for _ in range(20):
        params = update(params, (x, y))
    return params

def prog_argument_order():
    x = np.linspace(-1, 2, 12).reshape(3, 4).astype("f4")
    return nn.logsumexp(x, 0), jax.scipy.special.logsumexp(x, 1, np.abs(x) + 1), nn.standardize(x, 1), jnp.quantile(x, np.array([.25, .5], "f4"), 1)

def prog_scan_by_length():
    def halves(x):
        return lax.scan(lambda c, _: (c * x, c.sum()), np.ones(2, "f4"), None, length=4)
    return halves(np.float32(.5)), jax.jvp(lambda x: halves(x)[1], (np.float32(.5),), (np.float32(1),))

def prog_branches_outside():
    def one(i):
        return lax.switch(i, [jnp.sin, jnp.cos, lambda x: x * 2], np.float32(.5))
    return [one(i) for i in (0, 1, 2, 7, -3)], vmap(lambda i: lax.switch(i, [jnp.sin, jnp.cos], np.float32(.5)))(np.array([1, 0, 1]))

def prog_lax_names():
    a, b = np.array([-7, 7, -8, 8], "i4"), np.array([2, -2, 3, -3], "i4")
    x = np.arange(3, dtype="f4")
    return (lax.rem(a, b), lax.select_n(x > 1, x, -x), lax.broadcast_in_dim(x, (2, 3, 2), (1,)),
            lax.broadcasted_iota(jnp.int32, (2, 3), 1))

def prog_maml():
    def net(p, x): 
        h = nn.relu(x @ p["w1"] + p["b1"])
        return h @ p["w2"] + p["b2"]
    def loss(p, x, y): return jnp.mean(jnp.square(net(p, x) - y))
    def inner(p, x, y, alpha=.1):
        g = grad(loss)(p, x, y)
        return jax.tree.map(lambda a, b: a - alpha * b, p, g)
    def maml_loss(p, x1, y1, x2, y2):
        return loss(inner(p, x1, y1), x2, y2)
    def batch_maml(p, x1, y1, x2, y2):
        return jnp.mean(vmap(partial(maml_loss, p))(x1, y1, x2, y2))
    r = np.random.default_rng(0)
    p = {"w1": r.normal(size=(1, 8)).astype("f4"), "b1": np.zeros(8, "f4"), "w2": r.normal(size=(8, 1)).astype("f4"), "b2": np.zeros(1, "f4")}
    x = r.normal(size=(4, 4, 5, 1)).astype("f4")
    return jit(value_and_grad(batch_maml))(p, x[0], np.sin(x[1]), x[2], np.sin(x[3]))

def prog_rnn_scan():
    r = np.random.default_rng(1)
    params = (r.normal(size=(4, 4)).astype("f4") * .3, r.normal(size=(2, 4)).astype("f4"), np.zeros(4, "f4"))
    def cell(params, h, x):
        wh, wx, b = params
        h = jnp.tanh(h @ wh + x @ wx + b)
        return h, h
    def run(params, xs):
        h0 = jnp.zeros((xs.shape[1], 4))
        return lax.scan(partial(cell, params), h0, xs)
    def loss(params, xs):
        _, hs = run(params, xs)
        return (hs ** 2).sum()
    return jit(grad(loss))(params, r.normal(size=(6, 3, 2)).astype("f4"))

def prog_lstm():
    r = np.random.default_rng(1); H = 4
    params = {"W": r.normal(size=(2 + H, 4 * H)).astype("f4") * .3, "b": np.zeros(4 * H, "f4")}
    @jit
    def lstm(params, xs):
        def step(carry, x):
            h, c = carry
            z = jnp.concatenate([x, h], axis=-1) @ params["W"] + params["b"]
            i, f, g, o = jnp.split(z, 4, axis=-1)
            c = nn.sigmoid(f + 1.0) * c + nn.sigmoid(i) * jnp.tanh(g)
            h = nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h
        init = (jnp.zeros((xs.shape[1], H)), jnp.zeros((xs.shape[1], H)))
        (h, c), hs = lax.scan(step, init, xs)
        return h, c, hs
    return lstm(params, r.normal(size=(6, 3, 2)).astype("f4"))

def prog_transformer():
    r = np.random.default_rng(2); D, Hn, T, V = 8, 2, 5, 11
    f = lambda *s: (r.normal(size=s) / np.sqrt(s[0])).astype("f4")
    params = {"emb": f(V, D), "pos": f(T, D), "blocks": [{"ln1": {"g": np.ones(D, "f4"), "b": np.zeros(D, "f4")},
        "attn": {"qkv": f(D, 3 * D), "proj": f(D, D)}, "ln2": {"g": np.ones(D, "f4"), "b": np.zeros(D, "f4")},
        "mlp": {"fc": f(D, 4 * D), "proj": f(4 * D, D)}} for _ in range(2)], "lnf": {"g": np.ones(D, "f4"), "b": np.zeros(D, "f4")}}
    def layer_norm(x, g, b, eps=1e-5):
        mean = jnp.mean(x, axis=-1, keepdims=True)
        variance = jnp.var(x, axis=-1, keepdims=True)
        return g * (x - mean) / jnp.sqrt(variance + eps) + b
    def attention(q, k, v, mask):
        return nn.softmax(q @ k.T / np.sqrt(q.shape[-1]) + mask) @ v
    def mha(x, qkv, proj, n_head):
        x = x @ qkv
        qkv_heads = list(map(lambda x: jnp.split(x, n_head, axis=-1), jnp.split(x, 3, axis=-1)))
        causal_mask = (1 - jnp.tri(x.shape[0], dtype=x.dtype)) * -1e10
        out_heads = [attention(q, k, v, causal_mask) for q, k, v in zip(*qkv_heads)]
        return jnp.hstack(out_heads) @ proj
    def ffn(x, fc, proj): return nn.gelu(x @ fc) @ proj
    def block(x, mlp, attn, ln1, ln2, n_head):
        x = x + mha(layer_norm(x, **ln1), **attn, n_head=n_head)
        return x + ffn(layer_norm(x, **ln2), **mlp)
    def gpt(tokens, params, n_head):
        x = params["emb"][tokens] + params["pos"][jnp.arange(len(tokens))]
        for b in params["blocks"]:
            x = block(x, **b, n_head=n_head)
        return layer_norm(x, **params["lnf"]) @ params["emb"].T
    def loss(params, tokens, targets):
        logits = gpt(tokens, params, Hn)
        logp = nn.log_softmax(logits)
        return -jnp.mean(logp[jnp.arange(len(targets)), targets])
    tokens = np.array([1, 4, 2, 7, 9]); targets = np.array([4, 2, 7, 9, 10])
    return jit(value_and_grad(loss))(params, tokens, targets)

def prog_kv_cache():
    r = np.random.default_rng(3); D, T = 4, 6
    wq, wk, wv = (r.normal(size=(D, D)).astype("f4") for _ in range(3))
    @jit
    def step(cache, x):
        k_cache, v_cache, pos = cache
        q, k, v = x @ wq, x @ wk, x @ wv
        k_cache = lax.dynamic_update_slice(k_cache, k[None], (pos, 0))
        v_cache = lax.dynamic_update_slice_in_dim(v_cache, v[None], pos, axis=0)
        scores = k_cache @ q / jnp.sqrt(D * 1.0)
        scores = jnp.where(jnp.arange(T) <= pos, scores, -jnp.inf)
        return (k_cache, v_cache, pos + 1), nn.softmax(scores) @ v_cache
    cache = (jnp.zeros((T, D)), jnp.zeros((T, D)), 0)
    outs = []
    for i in range(T):
        cache, o = step(cache, r.normal(size=D).astype("f4"))
        outs.append(o)
    return outs

def prog_beam_search():
    r = np.random.default_rng(4); V, B, T = 7, 3, 5
    trans = np.log(r.dirichlet(np.ones(V), size=V)).astype("f4")
    @jit
    def beam(trans, start):
        scores = jnp.full((B,), -jnp.inf).at[0].set(0.0)
        tokens = jnp.zeros((B, T), dtype=jnp.int32).at[:, 0].set(start)
        def body(t, carry):
            scores, tokens = carry
            logp = trans[tokens[:, t - 1]]
            total = scores[:, None] + logp
            top, idx = lax.top_k(total.reshape(-1), B)
            parent, tok = idx // V, idx % V
            tokens = tokens[parent].at[:, t].set(tok.astype(jnp.int32))
            return top, tokens
        return lax.fori_loop(1, T, body, (scores, tokens))
    return beam(trans, 2)

def prog_ode_rk45():
    def f(t, y, a): return jnp.array([y[1], -a * jnp.sin(y[0])])
    @partial(jit, static_argnums=(0,))
    def odeint(f, y0, t0, t1, a):
        def cond(state):
            t, y, h, n = state
            return (t < t1) & (n < 500)
        def body(state):
            t, y, h, n = state
            h = jnp.minimum(h, t1 - t)
            k1 = f(t, y, a); k2 = f(t + h / 2, y + h * k1 / 2, a); k3 = f(t + h * .75, y + h * k2 * .75, a)
            y3 = y + h * (2 * k1 + 3 * k2 + 4 * k3) / 9
            k4 = f(t + h, y3, a)
            y2 = y + h * (7 * k1 / 24 + k2 / 4 + k3 / 3 + k4 / 8)
            err = jnp.max(jnp.abs(y3 - y2)) / 1e-4
            accept = err <= 1.0
            t, y = lax.cond(accept, lambda _: (t + h, y3), lambda _: (t, y), None)
            h = h * jnp.clip(0.9 * err ** (-1 / 3), 0.2, 5.0)
            return t, y, h, n + 1
        t, y, h, n = lax.while_loop(cond, body, (t0, y0, 0.1, 0))
        return y
    return odeint(f, np.array([1.0, 0.0], "f4"), 0.0, 2.0, 1.5)

def prog_switch_map():
    @jit
    def g(i, xs):
        a = lax.switch(i, [lambda x: x * 2, lambda x: x + 1, lambda x: -x], xs)
        b = lax.map(lambda x: jnp.sin(x) * x, xs)
        c = lax.associative_scan(jnp.add, xs)
        return a, b, c
    return [g(i, np.arange(5, dtype="f4")) for i in (0, 1, 2, 7)]

def prog_newton_hvp():
    def f(x): return jnp.sum(x ** 4) + jnp.prod(jnp.cos(x))
    def hvp(f, x, v): return jax.jvp(grad(f), (x,), (v,))[1]
    x = np.array([.5, 1., 2.], "f4")
    H = jax.hessian(f)(x)
    return hvp(f, x, np.ones(3, "f4")), H, jnp.linalg.solve(H, grad(f)(x)), jax.jacfwd(grad(f))(x), jax.jacrev(grad(f))(x)

def prog_kalman():
    F = np.array([[1, 1], [0, 1]], "f4"); Hm = np.array([[1, 0]], "f4"); Q = 0.01 * np.eye(2, dtype="f4"); R = np.array([[.5]], "f4")
    @jit
    def kalman(zs):
        def step(carry, z):
            x, P = carry
            x = F @ x; P = F @ P @ F.T + Q
            S = Hm @ P @ Hm.T + R
            K = P @ Hm.T @ jnp.linalg.inv(S)
            x = x + K @ (z - Hm @ x)
            P = (jnp.eye(2) - K @ Hm) @ P
            return (x, P), x
        return lax.scan(step, (jnp.zeros(2), jnp.eye(2)), zs)
    return kalman(np.arange(6, dtype="f4")[:, None])

def prog_gp():
    def kernel(x1, x2, ls, var): 
        d = (x1[:, None] - x2[None, :]) / ls
        return var * jnp.exp(-0.5 * d ** 2)
    def nll(params, x, y):
        ls, var, noise = jax.tree.map(jnp.exp, params)
        K = kernel(x, x, ls, var) + (noise + 1e-4) * jnp.eye(len(x))
        L = jnp.linalg.cholesky(K)
        alpha = jax.scipy.linalg.cho_solve((L, True), y)
        return 0.5 * y @ alpha + jnp.sum(jnp.log(jnp.diag(L))) + 0.5 * len(x) * jnp.log(2 * jnp.pi)
    x = np.linspace(0, 3, 7).astype("f4")
    return jit(value_and_grad(nll))((0.1, 0.0, -1.0), x, np.sin(x))

def prog_vae():
    r = np.random.default_rng(5)
    W1, W2, W3 = (r.normal(size=s).astype("f4") * .3 for s in ((6, 4), (6, 4), (4, 6)))
    def elbo(params, x, eps):
        W1, W2, W3 = params
        mu, logvar = x @ W1, x @ W2
        z = mu + jnp.exp(0.5 * logvar) * eps
        logits = z @ W3
        rec = -jnp.sum(jnp.logaddexp(0., jnp.where(x > .5, -1, 1) * logits), axis=-1)
        kl = -0.5 * jnp.sum(1. + logvar - mu ** 2. - jnp.exp(logvar), axis=-1)
        return jnp.mean(rec - kl)
    x = (r.random((3, 6)) > .5).astype("f4")
    return jit(value_and_grad(elbo))((W1, W2, W3), x, r.normal(size=(3, 4)).astype("f4"))

def prog_cnn():
    r = np.random.default_rng(6)
    p = {"conv": r.normal(size=(4, 1, 3, 3)).astype("f4"), "dense": r.normal(size=(4 * 9, 5)).astype("f4")}
    def net(p, x):
        x = lax.conv_general_dilated(x, p["conv"], (1, 1), "SAME")
        x = nn.relu(x)
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
        x = x.reshape((x.shape[0], -1))
        return x @ p["dense"]
    def loss(p, x, y): return -jnp.mean(jnp.sum(nn.log_softmax(net(p, x)) * nn.one_hot(y, 5), axis=1))
    return jit(value_and_grad(loss))(p, r.normal(size=(2, 1, 6, 6)).astype("f4"), np.array([1, 3]))

def prog_pinn():
    r = np.random.default_rng(7)
    p = [(r.normal(size=(1, 8)).astype("f4"), np.zeros(8, "f4")), (r.normal(size=(8, 1)).astype("f4"), np.zeros(1, "f4"))]
    def u(p, x):
        h = jnp.atleast_1d(x)
        for w, b in p[:-1]: h = jnp.tanh(h @ w + b)
        w, b = p[-1]
        return (h @ w + b)[0]
    def residual(p, x): return grad(grad(u, argnums=1), argnums=1)(p, x) + jnp.sin(x)
    def loss(p, xs): return jnp.mean(vmap(residual, in_axes=(None, 0))(p, xs) ** 2) + u(p, 0.) ** 2
    return jit(value_and_grad(loss))(p, np.linspace(0, 1, 5).astype("f4"))

def prog_custom_vjp_clip():
    @jax.custom_vjp
    def clip_grad(lo, hi, x): return x
    def fwd(lo, hi, x): return x, (lo, hi)
    def bwd(res, g):
        lo, hi = res
        return (None, None, jnp.clip(g, lo, hi))
    clip_grad.defvjp(fwd, bwd)
    return vmap(grad(lambda x: clip_grad(-0.75, 0.75, jnp.sin(3 * x))))(np.linspace(0, 3, 7).astype("f4"))

def prog_custom_vjp_nondiff():
    @partial(jax.custom_vjp, nondiff_argnums=(0,))
    def app(f, x): return f(x)
    def app_fwd(f, x): return f(x), x
    def app_bwd(f, x, g): return (5 * g,)
    app.defvjp(app_fwd, app_bwd)
    return grad(app, argnums=1)(lambda x: x ** 3, 2.0), jit(lambda x: grad(lambda y: app(jnp.sin, y))(x))(1.0)

def prog_fixed_point():
    @partial(jax.custom_vjp, nondiff_argnums=(0,))
    def fixed_point(f, a, x_guess):
        def cond_fun(carry):
            x_prev, x = carry
            return jnp.abs(x_prev - x) > 1e-6
        def body_fun(carry):
            _, x = carry
            return x, f(a, x)
        _, x_star = lax.while_loop(cond_fun, body_fun, (x_guess, f(a, x_guess)))
        return x_star
    def fixed_point_fwd(f, a, x_init):
        x_star = fixed_point(f, a, x_init)
        return x_star, (a, x_star)
    def fixed_point_rev(f, res, x_star_bar):
        a, x_star = res
        _, vjp_a = jax.vjp(lambda a: f(a, x_star), a)
        a_bar, = vjp_a(fixed_point(partial(rev_iter, f), (a, x_star, x_star_bar), x_star_bar))
        return a_bar, jnp.zeros_like(x_star)
    def rev_iter(f, packed, u):
        a, x_star, x_star_bar = packed
        _, vjp_x = jax.vjp(lambda x: f(a, x), x_star)
        return x_star_bar + vjp_x(u)[0]
    fixed_point.defvjp(fixed_point_fwd, fixed_point_rev)
    def newton_sqrt(a):
        update = lambda a, x: 0.5 * (x + a / x)
        return fixed_point(update, a, a)
    return newton_sqrt(2.), grad(newton_sqrt)(2.), jit(vmap(newton_sqrt))(jnp.array([1., 2., 3., 4.]))

def prog_custom_jvp_log1pexp():
    @jax.custom_jvp
    def log1pexp(x): return jnp.log(1. + jnp.exp(x))
    @log1pexp.defjvp
    def log1pexp_jvp(primals, tangents):
        x, = primals
        x_dot, = tangents
        ans = log1pexp(x)
        ans_dot = (1 - 1 / (1 + jnp.exp(x))) * x_dot
        return ans, ans_dot
    return jit(grad(log1pexp))(3.), vmap(jit(grad(log1pexp)))(jnp.arange(3.)), grad(log1pexp)(100.)

def prog_pytree_class():
    @jax.tree_util.register_pytree_node_class
    class Special:
        def __init__(self, x, y): self.x, self.y = x, y
        def tree_flatten(self): return ((self.x, self.y), None)
        @classmethod
        def tree_unflatten(cls, aux, children): return cls(*children)
    s = Special(np.float32(1.), np.arange(3, dtype="f4"))
    out = jit(lambda s: Special(s.x * 2, s.y + s.x))(s)
    g = grad(lambda s: jnp.sum(s.x * s.y ** 2))(s)
    return out.x, out.y, g.x, g.y

def prog_reinforce():
    r = np.random.default_rng(8)
    th = r.normal(size=(4, 2)).astype("f4")
    def logp(th, s, a): return nn.log_softmax(s @ th)[a]
    def returns(rewards, gamma):
        def f(c, r_): 
            c = r_ + gamma * c
            return c, c
        return lax.scan(f, 0.0, rewards, reverse=True)[1]
    def loss(th, S, A, R):
        G = returns(R, .9)
        G = (G - G.mean()) / (G.std() + 1e-8)
        return -jnp.mean(vmap(logp, (None, 0, 0))(th, S, A) * lax.stop_gradient(G))
    return jit(value_and_grad(loss))(th, r.normal(size=(5, 4)).astype("f4"), np.array([0, 1, 1, 0, 1]), r.random(5).astype("f4"))

def prog_mandelbrot():
    @jit
    def mandel(c):
        def body(_, s):
            z, n = s
            z = jnp.where(jnp.abs(z) <= 2, z * z + c, z)
            return z, n + (jnp.abs(z) <= 2)
        return lax.fori_loop(0, 20, body, (jnp.zeros_like(c), jnp.zeros(c.shape, dtype=jnp.int32)))[1]
    re, im = np.linspace(-2, 1, 6), np.linspace(-1, 1, 5)
    return mandel((re[None] + 1j * im[:, None]).astype("c8"))

def prog_life():
    @jit
    def step(b):
        n = sum(jnp.roll(b, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0))
        return ((n == 3) | ((b == 1) & (n == 2))).astype(jnp.int32)
    b = (np.random.default_rng(0).random((6, 7)) > .5).astype("i4")
    for _ in range(3): b = step(b)
    return b

def prog_mcmc_hmc():
    def logp(x): return -0.5 * jnp.sum(x ** 2 * np.array([1., 4.], "f4"))
    @jit
    def leapfrog(x, p, eps, n):
        p = p + 0.5 * eps * grad(logp)(x)
        def body(i, s):
            x, p = s
            x = x + eps * p
            p = p + eps * grad(logp)(x)
            return x, p
        x, p = lax.fori_loop(0, n - 1, body, (x, p))
        x = x + eps * p
        p = p + 0.5 * eps * grad(logp)(x)
        return x, -p
    return leapfrog(np.array([1., .5], "f4"), np.array([.3, -.2], "f4"), .1, 10)

def prog_flow():
    r = np.random.default_rng(9)
    ps = [{"s": r.normal(size=(1, 1)).astype("f4") * .3, "t": r.normal(size=(1, 1)).astype("f4")} for _ in range(4)]
    def forward(ps, x):
        logdet = 0.
        for i, p in enumerate(ps):
            a, b = jnp.split(x, 2)
            if i % 2: a, b = b, a
            s = jnp.tanh(a @ p["s"]); t = a @ p["t"]
            b = b * jnp.exp(s) + t
            logdet += s.sum()
            x = jnp.concatenate([b, a] if i % 2 else [a, b])
        return x, logdet
    def nll(ps, xs):
        z, ld = vmap(forward, in_axes=(None, 0))(ps, xs)
        return -jnp.mean(jax.scipy.stats.norm.logpdf(z).sum(-1) + ld)
    return jit(value_and_grad(nll))(ps, r.normal(size=(5, 2)).astype("f4"))


def prog_fft_by_halves():
    def fft(x):
        n = x.shape[0]
        if n == 1:
            return x
        even, odd = fft(x[::2]), fft(x[1::2])
        t = jnp.exp(-2j * jnp.pi * jnp.arange(n // 2) / n) * odd
        return jnp.concatenate([even + t, even - t])
    return jit(fft)(np.arange(8).astype("c8"))

def prog_out_append():
    @jit
    def f(x):
        out = [0.0]
        for i in range(4):
            out.append(out[-1] + x * i)
        return jnp.array(out)
    return f(2.0)

def prog_fib_list():
    @jit
    def f(a, b):
        xs = [a, b]
        for _ in range(5):
            xs.append(xs[-1] + xs[-2])
        return jnp.stack(xs)
    return f(1.0, 2.0)

def prog_dropout_batchnorm():
    def bn(x, g, b): return g * (x - x.mean(0)) / jnp.sqrt(x.var(0) + 1e-5) + b
    return jit(grad(lambda p, x: jnp.sum(bn(x, *p) ** 3)))((np.array([1., 2.], "f4"), np.array([0., .5], "f4")), np.arange(6., dtype="f4").reshape(3, 2))

def prog_logsumexp_hmm():
    r = np.random.default_rng(0)
    logA, logB, logpi = (jnp.array(np.log(r.dirichlet(np.ones(3), size=s)).astype("f4")) for s in (3, 3, 1))
    @jit
    def forward(obs):
        alpha = logpi[0] + logB[:, obs[0]]
        def step(alpha, o):
            alpha = jax.scipy.special.logsumexp(alpha[:, None] + logA, axis=0) + logB[:, o]
            return alpha, alpha
        alpha, alphas = lax.scan(step, alpha, obs[1:])
        return jax.nn.logsumexp(alpha), alphas
    return forward(np.array([0, 1, 2, 1]))

def prog_viterbi():
    r = np.random.default_rng(0)
    trans = r.normal(size=(3, 3)).astype("f4"); emit = r.normal(size=(5, 3)).astype("f4")
    @jit
    def viterbi(emit):
        def step(score, e):
            m = score[:, None] + trans
            return jnp.max(m, axis=0) + e, jnp.argmax(m, axis=0)
        score, back = lax.scan(step, emit[0], emit[1:])
        last = jnp.argmax(score)
        def walk(s, b):
            return b[s], s
        first, path = lax.scan(walk, last, back, reverse=True)
        return jnp.max(score), jnp.concatenate([first[None], path])
    return viterbi(emit)

def prog_kmeans():
    pts = np.random.default_rng(1).normal(size=(20, 2)).astype("f4")
    @jit
    def run(pts, c):
        def body(i, c):
            d = jnp.sum((pts[:, None] - c[None]) ** 2, -1)
            a = jnp.argmin(d, axis=1)
            oh = nn.one_hot(a, 3)
            return (oh.T @ pts) / jnp.maximum(oh.sum(0)[:, None], 1)
        return lax.fori_loop(0, 10, body, c)
    return run(pts, pts[:3])

def prog_conjugate_gradient():
    A = np.array([[4., 1.], [1., 3.]], "f4"); b = np.array([1., 2.], "f4")
    @jit
    def cg(A, b):
        def cond(s): return (s[3] > 1e-8) & (s[4] < 10)
        def body(s):
            x, r, p, rs, k = s
            Ap = A @ p
            a = rs / (p @ Ap)
            x, r = x + a * p, r - a * Ap
            new = r @ r
            return x, r, r + new / rs * p, new, k + 1
        x = jnp.zeros_like(b)
        return lax.while_loop(cond, body, (x, b, b, b @ b, 0))[0]
    return cg(A, b)

def prog_gan_losses():
    bce = lambda logits, y: jnp.mean(jnp.maximum(logits, 0) - logits * y + jnp.log1p(jnp.exp(-jnp.abs(logits))))
    return jit(value_and_grad(bce))(np.array([-2., .5, 3.], "f4"), np.array([0., 1., 1.], "f4"))

def prog_ema_tree():
    @jit
    def ema(avg, new, d=.9):
        return jax.tree.map(lambda a, n: d * a + (1 - d) * n, avg, new)
    return ema({"a": np.ones(3, "f4"), "b": (np.zeros(2, "f4"), None)}, {"a": np.zeros(3, "f4"), "b": (np.ones(2, "f4"), None)})

def prog_argsort_gather():
    @jit
    def f(x, idx):
        o = jnp.argsort(x, axis=-1)
        s = jnp.take_along_axis(x, o, axis=-1)
        return s, o, x[jnp.arange(3), idx], x[:, ::-1], jnp.where(x > 0, x, 0).cumsum(1)
    return f(np.random.default_rng(2).normal(size=(3, 4)).astype("f4"), np.array([0, 3, 1]))

def prog_segment():
    @jit
    def f(x, s):
        return jnp.zeros(3).at[s].add(x), jnp.full(3, -jnp.inf).at[s].max(x), jax.ops.segment_sum(x, s, num_segments=3)
    return f(np.array([1., 2., 3., 4.], "f4"), np.array([0, 2, 0, 1]))

def prog_int_arith():
    @jit
    def f(a, b):
        return a // b, a % b, -a // b, (-a) % b, a << 2, a >> 1, a & b, a | b, a ^ b, ~a, a ** 2, abs(-a), divmod(a, b)
    return f(np.array([7, -8, 9]), np.array([2, 3, -4]))

def prog_broadcast_where():
    @jit
    def f(x):
        m = jnp.triu(jnp.ones((4, 4)), 1)
        return jnp.where(m == 1, -1e9, x[None] * jnp.eye(4)), jnp.clip(x, -1, 1), jnp.linspace(0, 1, 5), jnp.outer(x, x), jnp.flip(x), jnp.tile(x, (2, 1)), jnp.repeat(x, 2), jnp.concatenate([x, x[:1]]), jnp.squeeze(x[None]), jnp.prod(x), jnp.std(x), jnp.median(x)
    return f(np.array([-2., .5, 1., 3.], "f4"))

def prog_namedtuple_state():
    from typing import NamedTuple
    class S(NamedTuple):
        x: object
        v: object
        t: object = 0
    @jit
    def step(s, dt):
        a = -s.x
        return s._replace(x=s.x + dt * s.v, v=s.v + dt * a, t=s.t + 1)
    s = S(np.ones(2, "f4"), np.zeros(2, "f4"))
    for _ in range(3): s = step(s, .1)
    return s

def prog_grad_argnums_aux():
    def f(w, b, x):
        y = jnp.tanh(x @ w + b)
        return jnp.sum(y ** 2), {"y": y, "n": jnp.sum(y > 0)}
    (v, aux), g = jit(value_and_grad(f, argnums=(0, 1), has_aux=True))(np.ones((2, 2), "f4"), np.zeros(2, "f4"), np.array([[1., -2.]], "f4"))
    return v, aux, g

def prog_vmap_axes():
    f = lambda a, b: a @ b
    A = np.arange(24., dtype="f4").reshape(2, 3, 4); B = np.arange(8., dtype="f4").reshape(4, 2)
    return vmap(f, in_axes=(0, None))(A, B), vmap(f, in_axes=(None, 1), out_axes=1)(A[0], B), vmap(vmap(f, (0, None)), (None, 1))(A[0], B), vmap(lambda d: d["a"] * d["b"], in_axes=({"a": 0, "b": None},))({"a": B, "b": 2.})

def prog_mixed_int_float():
    @jit
    def f(n, x):
        total = 0
        for i in range(5):
            if i % 2 == 0:
                total += x * i
            else:
                total -= i
        mean = total / 5
        return mean, n * x, n / 2, n ** 2, x ** n, jnp.arange(3) * x, jnp.arange(3) / 2
    return f(3, np.float32(1.5))

def prog_euler_while():
    @jit
    def collatz(n):
        steps = 0
        def cond(s): return s[0] != 1
        def body(s):
            n, k = s
            return jnp.where(n % 2 == 0, n // 2, 3 * n + 1), k + 1
        return lax.while_loop(cond, body, (n, 0))
    return [collatz(i) for i in (6, 7, 27)]

def prog_ppo_loss():
    def loss(logits, old, adv, act, eps=.2):
        lp = nn.log_softmax(logits)[jnp.arange(len(act)), act]
        ratio = jnp.exp(lp - old)
        ent = -(nn.softmax(logits) * nn.log_softmax(logits)).sum(-1).mean()
        return -jnp.minimum(ratio * adv, jnp.clip(ratio, 1 - eps, 1 + eps) * adv).mean() - .01 * ent
    r = np.random.default_rng(3)
    return jit(value_and_grad(loss))(r.normal(size=(4, 3)).astype("f4"), -np.ones(4, "f4"), r.normal(size=4).astype("f4"), np.array([0, 2, 1, 1]))

def prog_gru_layers():
    r = np.random.default_rng(4)
    layers = [{"Wz": r.normal(size=(5, 3)).astype("f4"), "Wr": r.normal(size=(5, 3)).astype("f4"), "Wh": r.normal(size=(5, 3)).astype("f4")},
              {"Wz": r.normal(size=(6, 3)).astype("f4"), "Wr": r.normal(size=(6, 3)).astype("f4"), "Wh": r.normal(size=(6, 3)).astype("f4")}]
    def gru(p, xs):
        def step(h, x):
            z = nn.sigmoid(jnp.concatenate([h, x]) @ p["Wz"]); rr = nn.sigmoid(jnp.concatenate([h, x]) @ p["Wr"])
            c = jnp.tanh(jnp.concatenate([rr * h, x]) @ p["Wh"])
            h = (1 - z) * h + z * c
            return h, h
        return lax.scan(step, jnp.zeros(3), xs)[1]
    def net(layers, xs):
        for p in layers: xs = gru(p, xs)
        return jnp.sum(xs[-1])
    return jit(grad(net))(layers, r.normal(size=(4, 2)).astype("f4"))


def leaves(x):
    """The arrays of a tree, in the order of keys."""
    if isinstance(x, dict):
        return [a for k in sorted(x) for a in leaves(x[k])]
    if isinstance(x, (list, tuple)):
        return [a for y in x for a in leaves(y)]
    return [] if x is None else [np.asarray(x)]


def described(a):
    """An array as a file has it."""
    items = [[x.real, x.imag] for x in a.ravel().tolist()] if a.dtype.kind == "c" else a.ravel().tolist()
    return [list(a.shape), json.loads(json.dumps(items), parse_float=lambda s: float(f"{float(s):.6g}"))]


if __name__ == "__main__":
    found = {name: [described(a) for a in leaves(f())] for name, f in list(globals().items()) if name.startswith("prog_")}
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "jax_values.json"), "w", encoding="utf-8") as file:
        file.write("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in found.items()) + "\n}\n")
