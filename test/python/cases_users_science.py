# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E701, E702, E731, E741
"""Programs of signals, statistics, physics and control, as users of JAX write them: they run with the import exchanged, and agree with NumPy or with what must hold."""
from functools import partial
from typing import NamedTuple

import numpy as np

import anfora as jax
import anfora.numpy as jnp
from anfora import grad, jit, lax, nn, random, tree_util, vmap

rng = np.random.default_rng(0)


def close(a, b, tol=1e-5):
    a, b = np.asarray(a), np.asarray(b)
    assert a.shape == b.shape, (a.shape, b.shape)
    assert np.allclose(a, b, rtol=tol, atol=tol), (a, b)


def numgrad(f, x, e=1e-6):
    x = np.asarray(x, float); g = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        p = x.copy(); p[i] += e; m = x.copy(); m[i] -= e
        g[i] = (float(f(p)) - float(f(m))) / (2*e)
    return g


def test_stft():
    @partial(jit, static_argnames=("n", "hop"))
    def stft(x, n=8, hop=4):
        w = jnp.hanning(n)
        starts = jnp.arange(0, x.shape[0] - n + 1, hop)
        frames = vmap(lambda s: lax.dynamic_slice(x, (s,), (n,)))(starts)
        return jnp.abs(jnp.fft.rfft(frames * w, axis=-1)) ** 2
    x = rng.normal(size=32)
    ref = np.stack([np.abs(np.fft.rfft(x[i:i+8]*np.hanning(8)))**2 for i in range(0, 25, 4)])
    close(stft(x), ref)


def test_iir():
    @jit
    def biquad(b, a, x):
        def f(s, u):
            y = b[0]*u + s[0]
            return (b[1]*u - a[1]*y + s[1], b[2]*u - a[2]*y), y
        return lax.scan(f, (0., 0.), x)[1]
    b, a, x = [.2, .3, .1], [1, -.4, .1], rng.normal(size=20)
    y = np.zeros(20); s0 = s1 = 0
    for i, u in enumerate(x):
        y[i] = b[0]*u+s0; s0, s1 = b[1]*u - a[1]*y[i] + s1, b[2]*u-a[2]*y[i]
    close(biquad(np.array(b), np.array(a), x), y)


def test_convolve():
    x, h = rng.normal(size=10), rng.normal(size=3)
    for m in ("full", "same", "valid"):
        close(jit(lambda x, h: jnp.convolve(x, h, mode=m))(x, h), np.convolve(x, h, mode=m))
        close(jit(lambda x, h: jnp.correlate(x, h, mode=m))(x, h), np.correlate(x, h, mode=m))


def test_bootstrap():
    @partial(jit, static_argnums=2)
    def boot(key, x, n):
        def one(k):
            i = random.randint(k, (x.shape[0],), 0, x.shape[0])
            return jnp.mean(x[i])
        return jnp.percentile(vmap(one)(random.split(key, n)), jnp.array([2.5, 97.5]))
    lo, hi = boot(random.key(0), rng.normal(size=50), 200); assert lo < hi


def test_irls():
    @jit
    def logistic(X, y):
        def step(w, _):
            p = nn.sigmoid(X @ w)
            H = X.T @ (X * (p * (1-p))[:, None]) + 1e-3*jnp.eye(X.shape[1])
            return w + jnp.linalg.solve(H, X.T @ (y - p)), jnp.linalg.norm(y - p)
        return lax.scan(step, jnp.zeros(X.shape[1]), None, length=10)
    X = rng.normal(size=(60, 3)); y = (X @ [1, -1, .5] + rng.normal(size=60) > 0).astype(float)
    w, e = logistic(X, y)
    p = 1/(1+np.exp(-X@np.asarray(w))); assert np.abs(X.T@(y-p)).max() < .1 and e.shape == (10,)


def test_em():
    @jit
    def em(x, mu, sig, pi):
        def body(i, s):
            mu, sig, pi = s
            lp = jax.scipy.stats.norm.logpdf(x[:, None], mu, sig) + jnp.log(pi)
            r = jnp.exp(lp - jax.scipy.special.logsumexp(lp, axis=1, keepdims=True))
            n = r.sum(0)
            mu = (r * x[:, None]).sum(0) / n
            sig = jnp.sqrt((r * (x[:, None] - mu)**2).sum(0) / n)
            return mu, sig, n / x.shape[0]
        return lax.fori_loop(0, 30, body, (mu, sig, pi))
    x = np.concatenate([rng.normal(-3, 1, 100), rng.normal(3, 1, 100)])
    r = em(x, np.array([-1., 1.]), np.ones(2), np.ones(2)/2)
    assert isinstance(r, tuple) and abs(r[0][0] + 3) < .5


def test_kde():
    @jit
    def kde(x, q, h):
        return jnp.mean(jnp.exp(-.5*((q[:, None]-x[None])/h)**2), axis=1)/(h*jnp.sqrt(2*jnp.pi))
    x, q = rng.normal(size=30), np.linspace(-2, 2, 5)
    close(kde(x, q, .3), np.mean(np.exp(-.5*((q[:,None]-x)/.3)**2),1)/(.3*np.sqrt(2*np.pi)))


def test_hmc():
    def logp(q): return -0.5 * jnp.sum(q["x"]**2) - 0.5*jnp.sum((q["y"]-1)**2)
    @partial(jit, static_argnames=("L",))
    def hmc(key, q, eps, L=5):
        keys = random.split(key)
        leaves, treedef = tree_util.tree_flatten(q)
        ks = random.split(keys[0], len(leaves))
        p = tree_util.tree_unflatten(treedef, [random.normal(k, l.shape) for k, l in zip(ks, leaves)])
        energy = lambda q, p: -logp(q) + sum(0.5*jnp.sum(a**2) for a in tree_util.tree_leaves(p))
        def leap(c, _):
            q, p = c
            p = tree_util.tree_map(lambda p, g: p + .5*eps*g, p, grad(logp)(q))
            q = tree_util.tree_map(lambda q, p: q + eps*p, q, p)
            p = tree_util.tree_map(lambda p, g: p + .5*eps*g, p, grad(logp)(q))
            return (q, p), None
        (q1, p1), _ = lax.scan(leap, (q, p), None, length=L)
        acc = jnp.log(random.uniform(keys[1])) < energy(q, p) - energy(q1, p1)
        return lax.cond(acc, lambda: q1, lambda: q), acc
    q = {"x": np.zeros(2), "y": np.zeros(())}
    key = random.PRNGKey(1); n = 0; ys = []
    for i in range(300):
        key, k = random.split(key)
        q, a = hmc(k, q, .5); n += bool(a); ys.append(float(q["y"]))
    assert n > 200 and abs(np.mean(ys) - 1) < .4, (n, np.mean(ys))


def test_mh_vec():
    @jit
    def chain(key, x0):
        def step(x, k):
            k1, k2 = random.split(k)
            y = x + random.normal(k1, x.shape)
            a = jnp.log(random.uniform(k2, x.shape)) < -.5*y**2 + .5*x**2
            x = jnp.where(a, y, x)
            return x, {"x": x, "acc": a.mean()}
        return lax.scan(step, x0, random.split(key, 100))
    x, out = chain(random.key(3), np.zeros(50))
    assert out["x"].shape == (100, 50) and .3 < float(out["acc"].mean()) < .9


def test_nuts_tree():
    @jit
    def build(q, p, v, depth):
        def cond(s): return jnp.logical_and(s["n"] < 2**depth, ~s["turn"])
        def body(s):
            q = s["q"] + .1*v*s["p"]; p = s["p"] - .1*v*q
            turn = jnp.dot(q - s["q0"], p) < 0
            return {**s, "q": q, "p": p, "n": s["n"]+1, "turn": turn}
        return lax.while_loop(cond, body, {"q": q, "p": p, "q0": q, "n": 0, "turn": False})
    r = build(np.ones(2), np.ones(2), 1., 3); assert r["n"] >= 1 and set(r) == {"q","p","q0","n","turn"}


def test_gp():
    def kernel(p, a, b):
        return jnp.exp(p["amp"]) * jnp.exp(-0.5*jnp.sum(((a-b)/jnp.exp(p["ls"]))**2))
    def gram(k, xs, ys): return vmap(lambda x: vmap(lambda y: k(x, y))(ys))(xs)
    def nll(p, X, y):
        K = gram(partial(kernel, p), X, X) + jnp.exp(p["noise"])*jnp.eye(len(X))
        L = jnp.linalg.cholesky(K)
        a = jax.scipy.linalg.cho_solve((L, True), y)
        return .5*y@a + jnp.log(jnp.diag(L)).sum() + .5*len(X)*jnp.log(2*jnp.pi)
    X = rng.normal(size=(8, 2)); y = np.sin(X[:,0])
    p = {"amp": np.array(.1), "ls": np.zeros(2), "noise": np.array(-2.)}
    v, g = jit(jax.value_and_grad(nll))(p, X, y)
    D = ((X[:,None]-X[None])**2).sum(-1); K = np.exp(.1)*np.exp(-.5*D)+np.exp(-2)*np.eye(8)
    ref = .5*y@np.linalg.solve(K,y)+.5*np.linalg.slogdet(K)[1]+4*np.log(2*np.pi)
    close(v, ref); assert g["ls"].shape == (2,)


def test_realnvp():
    def mlp(ps, x):
        for i, (w, b) in enumerate(ps):
            x = x @ w + b
            if i < len(ps) - 1: x = jnp.tanh(x)
        return x
    def init(key, sizes):
        return [(random.normal(k, (m, n)) * .1, jnp.zeros(n)) for k, m, n in zip(random.split(key, len(sizes)-1), sizes[:-1], sizes[1:])]
    def forward(params, x):
        logdet = jnp.zeros(x.shape[0])
        for i, p in enumerate(params):
            a, b = jnp.split(x, 2, axis=-1)
            if i % 2: a, b = b, a
            s, t = jnp.split(mlp(p, a), 2, axis=-1)
            s = jnp.tanh(s)
            b = b * jnp.exp(s) + t
            logdet += s.sum(-1)
            x = jnp.concatenate([a, b] if not i % 2 else [b, a], -1)
        return x, logdet
    params = [init(k, [2, 8, 4]) for k in random.split(random.key(0), 3)]
    x = rng.normal(size=(5, 4))
    z, ld = jit(forward)(params, x)
    J = vmap(jax.jacfwd(lambda v: forward(params, v[None])[0][0]))(x)
    close(ld, np.linalg.slogdet(np.asarray(J))[1])
    g = jit(grad(lambda p: -jnp.mean(jnp.sum(-.5*forward(p, x)[0]**2, -1) + forward(p, x)[1])))(params)
    assert isinstance(g, list) and isinstance(g[0], list) and isinstance(g[0][0], tuple), type(g[0])


def test_rk45():
    @jit
    def solve(y0, t1):
        f = lambda t, y: jnp.array([y[1], -y[0]])
        def cond(s): return s[0] < t1
        def body(s):
            t, y, h = s
            h = jnp.minimum(h, t1 - t)
            k1 = f(t, y); k2 = f(t+h/2, y+h/2*k1); k3 = f(t+3*h/4, y+3*h/4*k2)
            y1 = y + h*(2*k1+3*k2+4*k3)/9; k4 = f(t+h, y1)
            err = jnp.linalg.norm(h*(-5*k1/72+k2/12+k3/9-k4/8))
            ok = err < 1e-8
            fac = jnp.clip(.9*(1e-8/(err+1e-30))**(1/3), .2, 5.)
            return jnp.where(ok, t+h, t), jnp.where(ok, y1, y), h*fac
        return lax.while_loop(cond, body, (0., y0, .01))[1]
    close(solve(np.array([1., 0.]), 2.), [np.cos(2), -np.sin(2)], 1e-5)


def test_symplectic():
    G = 1.0
    @jit
    def accel(pos, mass):
        d = pos[None] - pos[:, None]
        r2 = (d**2).sum(-1) + 1e-2
        return G * jnp.einsum("ij,ijk->ik", mass[None, :] / r2**1.5, d)
    @jit
    def sim(pos, vel, mass):
        def step(c, _):
            p, v = c
            v = v + .005*accel(p, mass); p = p + .01*v; v = v + .005*accel(p, mass)
            return (p, v), (p, .5*jnp.sum(mass[:, None]*v**2))
        return lax.scan(step, (pos, vel), jnp.arange(10))
    (p, v), (tr, e) = sim(rng.normal(size=(4, 3)), np.zeros((4, 3)), np.ones(4))
    assert tr.shape == (10, 4, 3) and e.shape == (10,); close(v.sum(0), np.zeros(3), 1e-8)


def test_heat():
    @partial(jit, static_argnums=(1,))
    def heat(u, n):
        for _ in range(n):
            u = u.at[1:-1, 1:-1].add(.1*(u[2:,1:-1]+u[:-2,1:-1]+u[1:-1,2:]+u[1:-1,:-2]-4*u[1:-1,1:-1]))
        return u
    u = rng.normal(size=(6, 6)); r = u.copy()
    for _ in range(5):
        r[1:-1,1:-1] = r[1:-1,1:-1] + .1*(r[2:,1:-1]+r[:-2,1:-1]+r[1:-1,2:]+r[1:-1,:-2]-4*r[1:-1,1:-1])
    close(heat(u, 5), r)


def test_lbm():
    c = np.array([[0,0],[1,0],[-1,0],[0,1],[0,-1]])
    @jit
    def stream(f): return jnp.stack([jnp.roll(f[i], c[i], axis=(0, 1)) for i in range(5)])
    f = rng.normal(size=(5, 4, 4))
    close(stream(f), np.stack([np.roll(f[i], c[i], axis=(0,1)) for i in range(5)]))


def test_ising():
    @jit
    def sweep(key, s):
        m = (jnp.indices(s.shape).sum(0) % 2) == 0
        for k, mask in zip(random.split(key), (m, ~m)):
            nb = sum(jnp.roll(s, d, ax) for d in (-1, 1) for ax in (0, 1))
            flip = random.uniform(k, s.shape) < jnp.exp(-2*.4*s*nb)
            s = jnp.where(flip & mask, -s, s)
        return s
    s = sweep(random.key(0), np.ones((4,4), np.int32)); assert s.dtype == np.int32 and set(np.unique(s)) <= {-1, 1}


def test_lqr():
    @jit
    def lqr(A, B, Q, R):
        def back(P, _):
            K = jnp.linalg.solve(R + B.T@P@B, B.T@P@A)
            return Q + A.T@P@(A - B@K), K
        P, Ks = lax.scan(back, Q, None, length=50)
        return P, Ks[::-1]
    A, B = np.array([[1,.1],[0,1]]), np.array([[0],[.1]])
    P, Ks = lqr(A, B, np.eye(2), np.eye(1)); P = np.asarray(P)
    K = np.linalg.solve(np.eye(1)+B.T@P@B, B.T@P@A); assert np.abs(np.eye(2)+A.T@P@(A-B@K)-P).max() < .2


def test_ilqr():
    def dyn(x, u): return x + .1*jnp.array([x[1], jnp.sin(x[0]) + u[0]])
    def cost(us, x0):
        x, c = x0, 0.
        for u in us:
            c += jnp.sum(x**2) + .1*jnp.sum(u**2); x = dyn(x, u)
        return c + 10*jnp.sum(x**2)
    us, x0 = rng.normal(size=(5, 1)), np.array([1., 0.])
    close(jit(grad(cost))(us, x0), numgrad(lambda u: cost(u, x0), us), 1e-4)
    A, B = jit(jax.jacobian(dyn, argnums=(0, 1)) if hasattr(jax, "jacobian") else jax.jacrev(dyn, argnums=(0, 1)))(x0, us[0])
    assert A.shape == (2, 2) and B.shape == (2, 1)


def test_kalman():
    class State(NamedTuple):
        m: object
        P: object
    @jit
    def filt(ys, s0):
        def step(s, y):
            m, P = s.m, s.P + .1*jnp.eye(2)
            H = jnp.array([[1., 0.]])
            S = H@P@H.T + .5
            K = P@H.T/S
            m = m + (K*(y - H@m)).ravel()
            s = s._replace(m=m, P=(jnp.eye(2)-K@H)@P)
            return s, s
        return lax.scan(step, s0, ys)
    s, tr = filt(rng.normal(size=7), State(np.zeros(2), np.eye(2)))
    assert isinstance(s, State) and isinstance(tr, State) and tr.P.shape == (7, 2, 2)


def test_reinforce():
    def policy(p, s): return nn.log_softmax(jnp.tanh(s @ p["w"]) @ p["v"])
    def rollout(p, key):
        def step(s, k):
            lp = policy(p, s)
            a = random.categorical(k, lp)
            s1 = s * .9 + jnp.where(a == 0, .1, -.1)
            return s1, (lp[a], -jnp.sum(s1**2))
        _, (lps, rs) = lax.scan(step, jnp.ones(3), random.split(key, 6))
        R = jnp.cumsum(rs[::-1])[::-1]
        return -jnp.sum(lps * lax.stop_gradient(R - R.mean())), R[0]
    p = {"w": rng.normal(size=(3, 4)), "v": rng.normal(size=(4, 2))}
    loss = lambda p, keys: jax.tree_util.tree_map(jnp.mean, vmap(rollout, in_axes=(None, 0))(p, keys))
    (l, r), g = jit(jax.value_and_grad(loss, has_aux=True))(p, random.split(random.key(0), 4))
    assert g["w"].shape == (3, 4) and np.isfinite(l)


def test_gae():
    @jit
    def gae(r, v, d, gamma=.99, lam=.95):
        def f(a, t):
            r, v, v1, d = t
            a = r + gamma*v1*(1-d) - v + gamma*lam*(1-d)*a
            return a, a
        return lax.scan(f, jnp.zeros(()), (r, v[:-1], v[1:], d), reverse=True)[1]
    r, v, d = rng.normal(size=6), rng.normal(size=7), np.array([0,0,1,0,0,0.])
    a = 0; out = np.zeros(6)
    for t in range(5,-1,-1): a = r[t]+.99*v[t+1]*(1-d[t])-v[t]+.99*.95*(1-d[t])*a; out[t]=a
    close(gae(r, v, d), out)


def test_qlearn():
    @jit
    def update(q, batch, lr):
        s, a, r, s1 = batch["s"], batch["a"], batch["r"], batch["s1"]
        target = r + .9*q[s1].max(axis=-1)
        return q.at[s, a].add(lr*(target - q[s, a]))
    q = np.zeros((5, 2)); b = {"s": np.array([0,1,1]), "a": np.array([0,1,1]), "r": np.ones(3), "s1": np.array([1,2,2])}
    ref = q.copy(); np.add.at(ref, (b["s"], b["a"]), .1); close(update(q, b, .1), ref)
