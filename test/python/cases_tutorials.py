# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E401, E701, E702, E731, E741
"""Programs of tutorials (JAX 101, the Autodiff Cookbook, the deep learning notebooks of Amsterdam, READMEs of Flax, Optax and Equinox), unchanged but
for the import: structure, element types, shapes and values are those of JAX 0.10.2 (tutorials_values.json)."""
import dataclasses
import json
import os
from functools import partial
from typing import Any, Callable, NamedTuple

import numpy as onp

import anfora as jax
import anfora.numpy as jnp

jax.config.update("jax_enable_x64", True)
R = onp.random.RandomState(0)
PROGRAMS = []
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "tutorials_values.json"), encoding="utf-8") as file:
    VALUES = json.load(file)


def prog(f):
    PROGRAMS.append(f)
    return f


def flattened(x, structure, values):
    """The structure as words, and of each array the sum of its elements times cosines of their places."""
    if x is None:
        structure.append("none")
    elif isinstance(x, str):
        structure.append("str " + x)
    elif isinstance(x, dict):
        structure.append("dict " + " ".join(sorted(x)))
        for k in sorted(x):
            flattened(x[k], structure, values)
    elif isinstance(x, (list, tuple)):
        structure.append(f"{type(x).__name__} {len(x)}")
        for v in x:
            flattened(v, structure, values)
    else:
        a = onp.asarray(x)
        structure.append(f"{a.dtype} {list(a.shape)}")
        a = a.astype(float).ravel()
        values.append(float(onp.sum(a * onp.cos(onp.arange(a.size)))))


@prog
def autodiff_cookbook():
    def sigmoid(x): return 0.5 * (jnp.tanh(x / 2) + 1)
    def predict(W, b, inputs): return sigmoid(jnp.dot(inputs, W) + b)
    inputs = jnp.array([[0.52, 1.12, 0.77], [0.88, -1.08, 0.15], [0.52, 0.06, -1.30], [0.74, -2.49, 1.39]])
    targets = jnp.array([True, True, False, True])
    def loss(W, b):
        preds = predict(W, b, inputs)
        label_probs = preds * targets + (1 - preds) * (1 - targets)
        return -jnp.sum(jnp.log(label_probs))
    W, b = jnp.array([0.1, -0.2, 0.3]), 0.5
    out = [jax.grad(loss, argnums=0)(W, b), jax.grad(loss, 1)(W, b), jax.grad(loss, (0, 1))(W, b)]
    def loss2(params_dict):
        preds = predict(params_dict['W'], params_dict['b'], inputs)
        label_probs = preds * targets + (1 - preds) * (1 - targets)
        return -jnp.sum(jnp.log(label_probs))
    out.append(jax.grad(loss2)({'W': W, 'b': b}))
    out.append(jax.value_and_grad(loss, (0, 1))(W, b))
    eps = 1e-4
    vec = jnp.array([0.3, 0.2, -0.5])
    unitvec = vec / jnp.sqrt(jnp.vdot(vec, vec))
    def hvp(f, x, v): return jax.grad(lambda x: jnp.vdot(jax.grad(f)(x), v))(x)
    f = lambda W: predict(W, b, inputs)
    J = jax.jacfwd(f)(W); J2 = jax.jacrev(f)(W)
    def hessian(f): return jax.jacfwd(jax.jacrev(f))
    H = hessian(f)(W)
    y, u = jax.jvp(f, (W,), (vec,))
    y, vjp_fun = jax.vjp(f, W)
    def vmap_mjp(f, x, M):
        y, vjp_fun = jax.vjp(f, x)
        outs, = jax.vmap(vjp_fun)(M)
        return outs
    M = jnp.array(R.normal(size=(5, 4)))
    def hvp2(f, primals, tangents): return jax.jvp(jax.grad(f), primals, tangents)[1]
    Xm = jnp.array(R.normal(size=(4, 4))); V = jnp.array(R.normal(size=(4, 4)))
    g = lambda X: jnp.sum(jnp.tanh(X)**2)
    out += [J, J2, H, y, u, vjp_fun(y), vmap_mjp(f, W, M), hvp(g, Xm, V), hvp2(g, (Xm,), (V,)), jnp.tensordot(hessian(g)(Xm), V, 2)]
    dict_val = {'a': 1., 'b': 2.}
    @jax.custom_vjp
    def clip_gradient(lo, hi, x): return x
    def clip_gradient_fwd(lo, hi, x): return x, (lo, hi)
    def clip_gradient_bwd(res, g):
        lo, hi = res
        return (None, None, jnp.clip(g, lo, hi))
    clip_gradient.defvjp(clip_gradient_fwd, clip_gradient_bwd)
    def clip_sin(x):
        x = clip_gradient(-0.75, 0.75, x)
        return jnp.sin(x)
    t = jnp.linspace(0, 10, 20)
    out.append(jax.vmap(jax.grad(clip_sin))(t))
    @jax.custom_jvp
    def log1pexp(x): return jnp.log(1. + jnp.exp(x))
    @log1pexp.defjvp
    def log1pexp_jvp(primals, tangents):
        x, = primals
        x_dot, = tangents
        ans = log1pexp(x)
        ans_dot = (1 - 1/(1 + jnp.exp(x))) * x_dot
        return ans, ans_dot
    out += [jax.grad(log1pexp)(100.), jax.vmap(jax.jit(jax.grad(log1pexp)))(jnp.arange(4.))]
    return out


@prog
def pytrees101():
    example_trees = [[1, 'a', object()], (1, (2, 3), ()), [1, {'k1': 2, 'k2': (3, 4)}, 5], {'a': 2, 'b': (2, 3)}, jnp.array([1, 2, 3])]
    out = [len(jax.tree.leaves(t)) for t in example_trees]
    list_of_lists = [[1, 2, 3], [1, 2], [1, 2, 3, 4]]
    out.append(jax.tree.map(lambda x: x*2, list_of_lists))
    out.append(jax.tree.map(lambda x, y: x+y, list_of_lists, list_of_lists))
    def init_mlp_params(layer_widths):
        params = []
        for n_in, n_out in zip(layer_widths[:-1], layer_widths[1:]):
            params.append(dict(weights=jnp.asarray(R.normal(size=(n_in, n_out)) * onp.sqrt(2/n_in)), biases=jnp.ones(shape=(n_out,))))
        return params
    params = init_mlp_params([1, 16, 16, 1])
    out.append(jax.tree.map(lambda x: x.shape, params, ))
    def forward(params, x):
        *hidden, last = params
        for layer in hidden:
            x = jax.nn.relu(x @ layer['weights'] + layer['biases'])
        return x @ last['weights'] + last['biases']
    def loss_fn(params, x, y): return jnp.mean((forward(params, x) - y) ** 2)
    LEARNING_RATE = 0.001
    @jax.jit
    def update(params, x, y):
        grads = jax.grad(loss_fn)(params, x, y)
        return jax.tree.map(lambda p, g: p - LEARNING_RATE * g, params, grads)
    xs = R.normal(size=(32, 1)); ys = xs ** 2
    for _ in range(5):
        params = update(params, xs, ys)
    out.append(params)
    flat, treedef = jax.tree_util.tree_flatten_with_path({'l': [1, {'b': 2}]}) if False else (None, None)
    def tree_transpose(list_of_trees): return jax.tree.map(lambda *xs: list(xs), *list_of_trees)
    episode_steps = [dict(t=1, obs=3), dict(t=2, obs=4)]
    out.append(tree_transpose(episode_steps))
    out.append(jax.tree.transpose(outer_treedef=jax.tree.structure([0 for e in episode_steps]), inner_treedef=jax.tree.structure(episode_steps[0]), pytree_to_transpose=episode_steps))
    out.append(jax.tree.reduce(lambda a, b: a + b, list_of_lists))
    out.append(jax.tree.all([True, (True, False)]))
    out.append(jax.tree.leaves([None, None, 1], is_leaf=lambda x: x is None))
    return out


@prog
def custom_node():
    @jax.tree_util.register_pytree_node_class
    class Point:
        def __init__(self, x, y): self.x, self.y = x, y
        def tree_flatten(self): return ((self.x, self.y), None)
        @classmethod
        def tree_unflatten(cls, aux, children): return cls(*children)
    p = Point(jnp.arange(3.), 2.0)
    f = jax.jit(lambda p: Point(p.x * 2, p.y + 1))
    q = f(p)
    g = jax.grad(lambda p: jnp.sum(p.x ** 2) * p.y)(p)
    return [q.x, q.y, g.x, g.y, [type(l).__name__ != '' for l in jax.tree.leaves(q)]]


@prog
def control_flow():
    out = []
    out.append(jax.lax.cond(True, lambda x: x + 1, lambda x: x - 1, 3.0))
    out.append(jax.lax.while_loop(lambda c: c[0] < 10, lambda c: (c[0] + 1, c[1] * 2), (0, 1.0)))
    out.append(jax.lax.fori_loop(0, 10, lambda i, x: x + i, 0))
    out.append(jax.lax.scan(lambda c, x: (c + x, {'s': c * x, 'l': [c]}), 0.0, jnp.arange(5.)))
    out.append(jax.lax.map(lambda x: [x, (x * 2,)], jnp.arange(3.)))
    out.append(jax.lax.switch(2, [lambda x: x, lambda x: x * 2, lambda x: x * 3], 5.0))
    @partial(jax.jit, static_argnums=(1,))
    def h(x, n):
        y = 0.
        for i in range(n): y = y + x[i]
        return y
    out.append(h(jnp.array([2., 3., 4.]), 2))
    @jax.jit
    def f(x):
        for i in range(3): x = 2 * x
        return x
    out.append(f(3))
    @jax.jit
    def g(x):
        y = 0.
        for i in range(x.shape[0]): y = y + x[i]
        return y
    out.append(g(jnp.array([1., 2., 3.])))
    def body_fun(carry):
        i, x = carry
        return i + 1, jnp.where(i % 2 == 0, x + 1, x * 2)
    out.append(jax.jit(lambda n: jax.lax.while_loop(lambda c: c[0] < n, body_fun, (0, 1)))(7))
    out.append(jax.lax.associative_scan(jnp.multiply, jnp.arange(1., 6.), reverse=True))
    out.append(jax.lax.select(jnp.array([True, False]), jnp.array([1., 2.]), jnp.array([3., 4.])))
    out.append(jax.lax.scan(lambda c, _: (c * 2, c), 1, None, length=4))
    out.append(jax.lax.fori_loop(0, 4, lambda i, a: a.at[i].set(i * 2), jnp.zeros(4, int)))
    return out


@prog
def attention_uva():
    def scaled_dot_product(q, k, v, mask=None):
        d_k = q.shape[-1]
        attn_logits = jnp.matmul(q, jnp.swapaxes(k, -2, -1))
        attn_logits = attn_logits / jnp.sqrt(d_k)
        if mask is not None:
            attn_logits = jnp.where(mask == 0, -9e15, attn_logits)
        attention = jax.nn.softmax(attn_logits, axis=-1)
        values = jnp.matmul(attention, v)
        return values, attention
    def expand_mask(mask):
        assert mask.ndim >= 2
        if mask.ndim == 3: mask = mask[:, None]
        while mask.ndim < 4: mask = mask[None]
        return mask
    @jax.jit
    def mha(p, x, mask=None):
        batch_size, seq_length, embed_dim = x.shape
        if mask is not None: mask = expand_mask(mask)
        qkv = x @ p['qkv']
        qkv = qkv.reshape(batch_size, seq_length, 2, -1)
        qkv = qkv.transpose(0, 2, 1, 3)
        q, k, v = jnp.array_split(qkv, 3, axis=-1)
        values, attention = scaled_dot_product(q, k, v, mask=mask)
        values = values.transpose(0, 2, 1, 3)
        values = values.reshape(batch_size, seq_length, embed_dim)
        return values @ p['o'], attention
    p = {'qkv': R.normal(size=(8, 24)), 'o': R.normal(size=(8, 8))}
    x = R.normal(size=(2, 5, 8))
    def posenc(d_model, max_len):
        pe = onp.zeros((max_len, d_model))
        position = onp.arange(0, max_len, dtype=onp.float32)[:, None]
        div_term = onp.exp(onp.arange(0, d_model, 2) * (-onp.log(10000.0) / d_model))
        pe[:, 0::2] = onp.sin(position * div_term)
        pe[:, 1::2] = onp.cos(position * div_term)
        return pe[None]
    m = jnp.tril(jnp.ones((5, 5)))
    return [mha(p, x + posenc(8, 5)), mha(p, x, m), jax.grad(lambda p: mha(p, x, m)[0].sum())(p)]


@prog
def pinn_burgers():
    def mlp(params, t, x):
        h = jnp.stack([t, x])
        for W, b in params[:-1]:
            h = jnp.tanh(W @ h + b)
        W, b = params[-1]
        return (W @ h + b)[0]
    sizes = [2, 8, 8, 1]
    params = [(R.normal(size=(m, n)) * 0.5, onp.zeros(m)) for n, m in zip(sizes[:-1], sizes[1:])]
    nu = 0.01 / onp.pi
    def residual(params, t, x):
        u = mlp(params, t, x)
        u_t = jax.grad(mlp, 1)(params, t, x)
        u_x = jax.grad(mlp, 2)(params, t, x)
        u_xx = jax.grad(jax.grad(mlp, 2), 2)(params, t, x)
        return u_t + u * u_x - nu * u_xx
    vres = jax.vmap(residual, in_axes=(None, 0, 0))
    vu = jax.vmap(mlp, in_axes=(None, 0, 0))
    def loss(params, tc, xc, x0):
        lr = jnp.mean(vres(params, tc, xc) ** 2)
        l0 = jnp.mean((vu(params, jnp.zeros_like(x0), x0) + jnp.sin(jnp.pi * x0)) ** 2)
        lb = jnp.mean(vu(params, tc, jnp.ones_like(tc)) ** 2) + jnp.mean(vu(params, tc, -jnp.ones_like(tc)) ** 2)
        return lr + l0 + lb
    tc, xc, x0 = R.uniform(size=20), R.uniform(-1, 1, size=20), R.uniform(-1, 1, 10)
    @jax.jit
    def step(params, lr):
        l, g = jax.value_and_grad(loss)(params, tc, xc, x0)
        return l, jax.tree.map(lambda p, q: p - lr * q, params, g)
    ls = []
    for i in range(4):
        l, params = step(params, 0.05)
        ls.append(l)
    return ls, params


@prog
def spline_flow():
    def rqs(x, w, h, d, B=3.0, min_w=1e-3):
        K = w.shape[-1]
        w = min_w + (1 - min_w * K) * jax.nn.softmax(w, axis=-1)
        h = min_w + (1 - min_w * K) * jax.nn.softmax(h, axis=-1)
        d = min_w + jax.nn.softplus(d)
        cumw = jnp.pad(jnp.cumsum(w, -1), (1, 0)) * 2 * B - B
        cumh = jnp.pad(jnp.cumsum(h, -1), (1, 0)) * 2 * B - B
        d = jnp.pad(d, (1, 1), constant_values=1.0)
        inside = (x > -B) & (x < B)
        xs = jnp.clip(x, -B, B)
        k = jnp.clip(jnp.searchsorted(cumw, xs, side='right') - 1, 0, K - 1)
        wk = cumw[k + 1] - cumw[k]; hk = cumh[k + 1] - cumh[k]
        s = hk / wk
        xi = (xs - cumw[k]) / wk
        dk, dk1 = d[k], d[k + 1]
        num = hk * (s * xi ** 2 + dk * xi * (1 - xi))
        den = s + (dk1 + dk - 2 * s) * xi * (1 - xi)
        y = cumh[k] + num / den
        dydx = s ** 2 * (dk1 * xi ** 2 + 2 * s * xi * (1 - xi) + dk * (1 - xi) ** 2) / den ** 2
        return jnp.where(inside, y, x), jnp.where(inside, jnp.log(dydx), 0.0)
    p = (R.normal(size=5), R.normal(size=5), R.normal(size=4))
    x = onp.linspace(-4, 4, 17)
    f = jax.jit(jax.vmap(rqs, in_axes=(0, None, None, None)))
    def nll(p, x):
        y, ld = jax.vmap(rqs, in_axes=(0, None, None, None))(x, *p)
        return -jnp.mean(jax.scipy.stats.norm.logpdf(y) + ld)
    return f(x, *p), jax.grad(nll)(p, x), jax.vmap(jax.grad(lambda v: rqs(v, *p)[0]))(x)


@prog
def kalman():
    class State(NamedTuple):
        mean: Any
        cov: Any
    A = jnp.array([[1., 1.], [0., 1.]]); Q = 0.1 * jnp.eye(2); C = jnp.array([[1., 0.]]); Rn = jnp.array([[0.5]])
    def step(s: State, y):
        m, P = s
        m = A @ m
        P = A @ P @ A.T + Q
        S = C @ P @ C.T + Rn
        K = jnp.linalg.solve(S, C @ P).T
        r = y - C @ m
        m = m + K @ r
        P = P - K @ S @ K.T
        ll = -0.5 * (r @ jnp.linalg.solve(S, r) + jnp.linalg.slogdet(2 * jnp.pi * S)[1])
        return State(m, P), (State(m, P), ll)
    ys = R.normal(size=(12, 1)).cumsum(0)
    s0 = State(jnp.zeros(2), jnp.eye(2))
    last, (hist, ll) = jax.jit(lambda ys: jax.lax.scan(step, s0, ys))(ys)
    def smooth(carry, s):
        m, P = s
        Pp = A @ P @ A.T + Q
        G = jnp.linalg.solve(Pp, A @ P).T
        ms = m + G @ (carry.mean - A @ m)
        Ps = P + G @ (carry.cov - Pp) @ G.T
        return State(ms, Ps), State(ms, Ps)
    _, sm = jax.lax.scan(smooth, last, State(hist.mean[:-1], hist.cov[:-1]), reverse=True)
    return last, hist, ll.sum(), sm, type(sm).__name__, type(last).__name__


@prog
def beam_search():
    V, B, T = 7, 3, 5
    W = jnp.array(R.normal(size=(V, V)))
    def step(carry, t):
        seqs, scores, done = carry
        last = seqs[jnp.arange(B), t]
        logp = jax.nn.log_softmax(W[last], axis=-1)
        logp = jnp.where(done[:, None], jnp.where(jnp.arange(V) == 0, 0.0, -1e9), logp)
        total = scores[:, None] + logp
        top, idx = jax.lax.top_k(total.reshape(-1), B)
        beam, tok = idx // V, idx % V
        seqs = seqs[beam].at[:, t + 1].set(tok)
        done = done[beam] | (tok == 0)
        return (seqs, top, done), top
    seqs = jnp.ones((B, T + 1), dtype=jnp.int32)
    scores = jnp.array([0.0] + [-1e9] * (B - 1))
    (seqs, scores, done), hist = jax.lax.scan(step, (seqs, scores, jnp.zeros(B, bool)), jnp.arange(T))
    return seqs, scores, done, hist


@prog
def gp_hyper():
    def rbf(x, y, ls, var): return var * jnp.exp(-0.5 * ((x - y) / ls) ** 2)
    def gram(kernel, xs, ys): return jax.vmap(lambda x: jax.vmap(lambda y: kernel(x, y))(ys))(xs)
    x = onp.linspace(0, 3, 8); y = onp.sin(x) + 0.1 * R.normal(size=8)
    def nlml(p):
        ls, var, noise = jax.tree.map(jnp.exp, (p['ls'], p['var'], p['noise']))
        K = gram(partial(rbf, ls=ls, var=var), x, x) + (noise + 1e-6) * jnp.eye(8)
        L = jnp.linalg.cholesky(K)
        alpha = jax.scipy.linalg.cho_solve((L, True), y)
        return 0.5 * y @ alpha + jnp.sum(jnp.log(jnp.diag(L))) + 0.5 * len(x) * jnp.log(2 * jnp.pi)
    p = {'ls': 0.0, 'var': 0.0, 'noise': -2.0}
    vg = jax.jit(jax.value_and_grad(nlml))
    out = []
    for _ in range(5):
        v, g = vg(p)
        p = jax.tree.map(lambda a, b: a - 0.01 * b, p, g)
        out.append(v)
    return out, p, jax.hessian(nlml)(p)


@prog
def crf():
    K, T = 4, 6
    U, Tr = R.normal(size=(T, K)), R.normal(size=(K, K))
    def logZ(U, Tr):
        def f(a, u):
            a = jax.nn.logsumexp(a[:, None] + Tr, axis=0) + u
            return a, None
        a, _ = jax.lax.scan(f, U[0], U[1:])
        return jax.nn.logsumexp(a)
    def score(U, Tr, y): return U[jnp.arange(T), y].sum() + Tr[y[:-1], y[1:]].sum()
    def viterbi(U, Tr):
        def f(a, u):
            s = a[:, None] + Tr
            return s.max(0) + u, s.argmax(0)
        a, bp = jax.lax.scan(f, U[0], U[1:])
        last = jnp.argmax(a)
        _, path = jax.lax.scan(lambda y, b: (b[y], y), last, bp, reverse=True)
        return path, last
    y = jnp.array([0, 1, 2, 3, 2, 1])
    return logZ(U, Tr), jax.grad(logZ, (0, 1))(U, Tr), score(U, Tr, y), jax.jit(viterbi)(U, Tr), jax.grad(lambda U: score(U, Tr, y) - logZ(U, Tr))(U)


@prog
def black_scholes():
    N = jax.scipy.stats.norm.cdf
    def call(S, K, T, r, sigma):
        d1 = (jnp.log(S / K) + (r + sigma ** 2 / 2) * T) / (sigma * jnp.sqrt(T))
        d2 = d1 - sigma * jnp.sqrt(T)
        return S * N(d1) - K * jnp.exp(-r * T) * N(d2)
    args = (100., 110., 1.0, 0.05, 0.2)
    delta = jax.grad(call)(*args); gamma = jax.grad(jax.grad(call))(*args)
    greeks = jax.grad(call, argnums=(0, 1, 2, 3, 4))(*args)
    Ks = jnp.linspace(80, 120, 9)
    surf = jax.vmap(lambda K: jax.vmap(lambda s: call(100., K, 1.0, .05, s))(jnp.array([.1, .2, .3])))(Ks)
    def implied(price, K):
        def body(i, s):
            f, g = jax.value_and_grad(lambda s: call(100., K, 1.0, .05, s) - price)(s)
            return s - f / g
        return jax.lax.fori_loop(0, 10, body, 0.3)
    return delta, gamma, greeks, surf, jax.vmap(implied)(call(100., Ks, 1.0, .05, 0.25), Ks)


@prog
def deq():
    @partial(jax.custom_vjp, nondiff_argnums=(0,))
    def fixed_point(f, a, x_guess):
        def cond_fun(carry):
            x_prev, x = carry
            return jnp.max(jnp.abs(x_prev - x)) > 1e-8
        def body_fun(carry):
            _, x = carry
            return x, f(a, x)
        _, x_star = jax.lax.while_loop(cond_fun, body_fun, (x_guess, f(a, x_guess)))
        return x_star
    def fixed_point_fwd(f, a, x_init):
        x_star = fixed_point(f, a, x_init)
        return x_star, (a, x_star)
    def rev_iter(f, packed, u):
        a, x_star, x_star_bar = packed
        _, vjp_x = jax.vjp(lambda x: f(a, x), x_star)
        return x_star_bar + vjp_x(u)[0]
    def fixed_point_rev(f, res, x_star_bar):
        a, x_star = res
        _, vjp_a = jax.vjp(lambda a: f(a, x_star), a)
        a_bar, = vjp_a(fixed_point(partial(rev_iter, f), (a, x_star, x_star_bar), x_star_bar))
        return a_bar, jnp.zeros_like(x_star)
    fixed_point.defvjp(fixed_point_fwd, fixed_point_rev)
    def newton_sqrt(a):
        def update(a, x): return 0.5 * (x + a / x)
        return fixed_point(update, a, a)
    return newton_sqrt(2.0), jax.grad(newton_sqrt)(2.), jax.grad(jax.grad(newton_sqrt))(2.0), jax.jit(jax.vmap(newton_sqrt))(jnp.array([1., 2., 3., 4.]))


@prog
def flaxlike():
    @dataclasses.dataclass
    class Dense:
        features: int
        use_bias: bool = True
        def init(self, k, x):
            d = {'kernel': R.normal(size=(x.shape[-1], self.features)) / onp.sqrt(x.shape[-1])}
            if self.use_bias: d['bias'] = onp.zeros(self.features)
            return d
        def apply(self, params, x):
            y = x @ params['kernel']
            return y + params['bias'] if self.use_bias else y
    class MLP:
        def __init__(self, features): self.layers = [Dense(f) for f in features]
        def init(self, k, x):
            params = {}
            for i, l in enumerate(self.layers):
                params[f'layers_{i}'] = l.init(k, x)
                x = l.apply(params[f'layers_{i}'], x)
            return {'params': params}
        def apply(self, variables, x):
            for i, l in enumerate(self.layers):
                x = l.apply(variables['params'][f'layers_{i}'], x)
                if i != len(self.layers) - 1: x = jax.nn.relu(x)
            return x
    model = MLP([12, 8, 4])
    batch = R.normal(size=(32, 10))
    variables = model.init(None, batch)
    y = R.normal(size=(32, 4))
    @jax.jit
    def mse(params, xb, yb):
        def sq(x, y):
            pred = model.apply(params, x)
            return jnp.inner(y - pred, y - pred) / 2.0
        return jnp.mean(jax.vmap(sq)(xb, yb), axis=0)
    lg = jax.value_and_grad(mse)
    @jax.jit
    def upd(params, grads, lr): return jax.tree_util.tree_map(lambda p, g: p - lr * g, params, grads)
    out = []
    for i in range(5):
        l, g = lg(variables, batch, y)
        variables = upd(variables, g, 0.05)
        out.append(l)
    return out, variables, jax.tree_util.tree_map(jnp.shape, variables)


@prog
def optaxlike():
    class ScaleByAdamState(NamedTuple):
        count: Any
        mu: Any
        nu: Any
    class GradientTransformation(NamedTuple):
        init: Callable
        update: Callable
    def scale_by_adam(b1=0.9, b2=0.999, eps=1e-8):
        def init_fn(params):
            return ScaleByAdamState(jnp.zeros([], jnp.int32), jax.tree.map(jnp.zeros_like, params), jax.tree.map(jnp.zeros_like, params))
        def update_fn(updates, state, params=None):
            mu = jax.tree.map(lambda g, t: (1 - b1) * g + b1 * t, updates, state.mu)
            nu = jax.tree.map(lambda g, t: (1 - b2) * (g ** 2) + b2 * t, updates, state.nu)
            count = state.count + jnp.array(1, jnp.int32)
            mh = jax.tree.map(lambda t: t / (1 - b1 ** count), mu)
            nh = jax.tree.map(lambda t: t / (1 - b2 ** count), nu)
            return jax.tree.map(lambda m, v: m / (jnp.sqrt(v) + eps), mh, nh), ScaleByAdamState(count, mu, nu)
        return GradientTransformation(init_fn, update_fn)
    def scale(s):
        return GradientTransformation(lambda p: (), lambda u, st, params=None: (jax.tree.map(lambda g: s * g, u), st))
    def clip_by_global_norm(m):
        def update_fn(updates, state, params=None):
            n = jnp.sqrt(sum(jnp.sum(jnp.square(x)) for x in jax.tree.leaves(updates)))
            return jax.tree.map(lambda t: jnp.where(n < m, t, (t / n) * m), updates), state
        return GradientTransformation(lambda p: (), update_fn)
    def chain(*ts):
        def init_fn(params): return tuple(t.init(params) for t in ts)
        def update_fn(u, state, params=None):
            new = []
            for s, t in zip(state, ts):
                u, s2 = t.update(u, s, params)
                new.append(s2)
            return u, tuple(new)
        return GradientTransformation(init_fn, update_fn)
    opt = chain(clip_by_global_norm(1.0), scale_by_adam(), scale(-0.1))
    params = {'w': jnp.ones(3), 'b': [jnp.zeros(2), jnp.array(1.0)]}
    state = opt.init(params)
    loss = lambda p: jnp.sum((p['w'] - 3) ** 2) + jnp.sum((p['b'][0] + 1) ** 2) * p['b'][1]
    @jax.jit
    def step(params, state):
        g = jax.grad(loss)(params)
        u, state = opt.update(g, state, params)
        return jax.tree.map(lambda p, u: p + u, params, u), state
    for _ in range(6): params, state = step(params, state)
    return params, state, [type(s).__name__ for s in state]


@prog
def equinoxlike():
    @partial(jax.tree_util.register_dataclass, data_fields=['weight', 'bias'], meta_fields=['act'])
    @dataclasses.dataclass
    class Linear:
        weight: Any
        bias: Any
        act: str = 'relu'
        def __call__(self, x):
            y = self.weight @ x + self.bias
            return jax.nn.relu(y) if self.act == 'relu' else y
    m = [Linear(R.normal(size=(4, 3)), onp.zeros(4)), Linear(R.normal(size=(2, 4)), onp.zeros(2), 'none')]
    x, y = R.normal(size=(10, 3)), R.normal(size=(10, 2))
    @jax.jit
    @jax.value_and_grad
    def compute_loss(m, x, y):
        def f(x):
            for l in m: x = l(x)
            return x
        pred = jax.vmap(f)(x)
        return jnp.mean((y - pred) ** 2)
    v, g = compute_loss(m, x, y)
    m = jax.tree_util.tree_map(lambda p, g: p - 0.1 * g, m, g)
    return v, g[0].weight, g[1].bias, m[1].weight, m[0].act, type(m[0]).__name__


@prog
def lstm_lm():
    H, V = 6, 5
    p = {k: R.normal(size=s) * 0.3 for k, s in dict(emb=(V, H), Wx=(H, 4 * H), Wh=(H, 4 * H), b=(4 * H,), out=(H, V)).items()}
    toks = R.randint(0, V, (3, 9))
    def cell(p, carry, x):
        h, c = carry
        z = x @ p['Wx'] + h @ p['Wh'] + p['b']
        i, f, g, o = jnp.split(z, 4, axis=-1)
        c = jax.nn.sigmoid(f + 1.0) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h
    def loss(p, toks):
        x = jnp.take(p['emb'], toks[:, :-1], axis=0)
        h0 = jnp.zeros((toks.shape[0], H))
        _, hs = jax.lax.scan(partial(cell, p), (h0, h0), jnp.swapaxes(x, 0, 1))
        logits = jnp.einsum('tbh,hv->btv', hs, p['out'])
        lp = jax.nn.log_softmax(logits)
        return -jnp.mean(jnp.take_along_axis(lp, toks[:, 1:, None], axis=-1))
    return jax.jit(jax.value_and_grad(loss))(p, toks)


@prog
def hmc():
    def logp(q): return -0.5 * jnp.sum(q ** 2 / jnp.array([1., 4.])) - 0.1 * jnp.sum(q ** 4)
    def leapfrog(q, p, eps, n):
        def body(i, s):
            q, p = s
            p = p + 0.5 * eps * jax.grad(logp)(q)
            q = q + eps * p
            p = p + 0.5 * eps * jax.grad(logp)(q)
            return q, p
        return jax.lax.fori_loop(0, n, body, (q, p))
    ps, us = R.normal(size=(20, 2)), R.uniform(size=20)
    def step(q, r):
        p0, u = r
        q1, p1 = leapfrog(q, p0, 0.2, 8)
        h0 = -logp(q) + 0.5 * p0 @ p0; h1 = -logp(q1) + 0.5 * p1 @ p1
        acc = u < jnp.exp(h0 - h1)
        q = jax.lax.select(acc, q1, q)
        return q, (q, acc)
    return jax.jit(lambda q: jax.lax.scan(step, q, (ps, us)))(jnp.zeros(2))


@prog
def vae():
    D, Z = 6, 2
    p = {'enc': {'w': R.normal(size=(D, 2 * Z)) * .3, 'b': onp.zeros(2 * Z)}, 'dec': {'w': R.normal(size=(Z, D)) * .3, 'b': onp.zeros(D)}}
    x = (R.uniform(size=(10, D)) > .5).astype(onp.float64); eps = R.normal(size=(10, Z))
    def elbo(p, x, eps):
        h = x @ p['enc']['w'] + p['enc']['b']
        mu, logvar = h[..., :Z], h[..., Z:]
        z = mu + eps * jnp.exp(0.5 * logvar)
        logits = z @ p['dec']['w'] + p['dec']['b']
        rec = -jnp.sum(jnp.logaddexp(0., jnp.where(x, -1., 1.) * logits))
        kl = -0.5 * jnp.sum(1. + logvar - mu ** 2. - jnp.exp(logvar))
        return (rec - kl) / x.shape[0], {'kl': kl, 'rec': [rec]}
    (l, aux), g = jax.value_and_grad(elbo, has_aux=True)(p, x, eps)
    return l, aux, g, jax.jit(jax.value_and_grad(elbo, has_aux=True))(p, x, eps)


@prog
def em_gmm():
    X = onp.concatenate([R.normal(size=(20, 2)) - 2, R.normal(size=(20, 2)) + 2])
    def logN(X, mu, cov):
        return jax.vmap(lambda x: jax.scipy.stats.multivariate_normal.logpdf(x, mu, cov))(X)
    @jax.jit
    def em(state):
        pi, mu, cov = state
        lr = jax.vmap(logN, (None, 0, 0), 1)(X, mu, cov) + jnp.log(pi)
        ll = jax.nn.logsumexp(lr, 1, keepdims=True)
        r = jnp.exp(lr - ll)
        n = r.sum(0)
        mu = (r.T @ X) / n[:, None]
        d = X[:, None] - mu
        cov = jnp.einsum('nk,nki,nkj->kij', r, d, d) / n[:, None, None] + 1e-6 * jnp.eye(2)
        return (n / X.shape[0], mu, cov), ll.sum()
    s = (jnp.ones(2) / 2, jnp.array([[-1., 0.], [1., 0.]]), jnp.stack([jnp.eye(2)] * 2))
    lls = []
    for _ in range(5):
        s, l = em(s)
        lls.append(l)
    return s, lls


@prog
def lotka_fit():
    def rk4(f, y, dt, p):
        k1 = f(y, p); k2 = f(y + dt / 2 * k1, p); k3 = f(y + dt / 2 * k2, p); k4 = f(y + dt * k3, p)
        return y + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    def lv(y, p):
        a, b, c, d = p
        x, z = y
        return jnp.array([a * x - b * x * z, -c * z + d * x * z])
    def sim(p, y0, n):
        def step(y, _):
            y = rk4(lv, y, 0.1, p)
            return y, y
        return jax.lax.scan(step, y0, None, length=n)[1]
    p0 = jnp.array([1., .5, 1., .5])
    data = sim(p0, jnp.array([1., 2.]), 30)
    loss = lambda p: jnp.mean((sim(p, jnp.array([1., 2.]), 30) - data) ** 2)
    p = p0 * 1.1
    g = jax.jit(jax.grad(loss))
    for _ in range(4): p = p - 0.01 * g(p)
    return data, p, loss(p), jax.jacfwd(lambda p: sim(p, jnp.array([1., 2.]), 5))(p0)


@prog
def jit101():
    out = []
    def selu(x, alpha=1.67, lambda_=1.05): return lambda_ * jnp.where(x > 0, x, alpha * jnp.exp(x) - alpha)
    out.append(jax.jit(selu)(jnp.arange(5.) - 2))
    def f(x, n):
        i = 0
        while i < n: i += 1
        return x + i
    out.append(jax.jit(f, static_argnames='n')(10, 20))
    @partial(jax.jit, static_argnames=['n'])
    def g(x, n): return jnp.stack([x ** k for k in range(n)])
    out.append(g(2.0, 4))
    @jax.jit
    def norm(X):
        X = X - X.mean(0)
        return X / X.std(0)
    out.append(norm(jnp.array(R.normal(size=(6, 3)))))
    @jax.jit
    def d(x): return {'a': x, 'b': (x + 1, [x + 2]), 'c': None, 'd': 3, 'e': jnp.int32(4)}
    out.append(d(1.0))
    @jax.jit
    def shape_dep(x):
        return x.reshape(jnp.array(x.shape).prod()) if False else x.reshape(onp.prod(x.shape))
    out.append(shape_dep(jnp.ones((2, 3))))
    @jax.jit
    def un(x, y): return x + y, x > y, x.astype(jnp.int32), x.dtype == jnp.float32
    out.append(un(jnp.float32(1.5), jnp.float32(2.5)))
    return out


@prog
def per_example_etc():
    W = R.normal(size=(3, 2)); X = R.normal(size=(5, 3)); Y = R.randint(0, 2, 5)
    def loss(W, x, y):
        return -jax.nn.log_softmax(x @ W)[y]
    g = jax.jit(jax.vmap(jax.grad(loss), in_axes=(None, 0, 0)))(W, X, Y)
    norms = jax.vmap(lambda t: jnp.sqrt(sum(jnp.sum(l ** 2) for l in jax.tree.leaves(t))))({'w': g})
    a = jax.vmap(jnp.dot, in_axes=(0, None), out_axes=0)(X, W)
    b = jax.vmap(lambda d: d['a'] + d['b'], in_axes=({'a': 0, 'b': None},))({'a': X, 'b': X[0]})
    c = jax.vmap(lambda x, y: (x, y * 2), out_axes=(1, 0))(X, X)
    from_flat, unravel = jax.flatten_util.ravel_pytree({'a': X, 'b': [W]})
    d = jax.linearize(lambda x: jnp.sin(x) * 2, 1.0)
    e = jax.jacrev(lambda p: {'y': p['w'] ** 2, 'z': p['w'].sum()})({'w': jnp.arange(3.)})
    return g, norms, a, b, c, from_flat, unravel(from_flat * 2), d[0], d[1](0.5), e


def test_programs():
    assert len(PROGRAMS) == len(VALUES)
    for f in PROGRAMS:
        R.seed(0)
        structure, values, want = [], [], VALUES[f.__name__]
        flattened(f(), structure, values)
        assert structure == want["structure"], (f.__name__, [x for x in zip(structure, want["structure"]) if x[0] != x[1]])
        assert onp.allclose(values, want["values"], rtol=1e-5, atol=1e-6), (f.__name__, list(zip(values, want["values"])))
