#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Derivatives of GradBench's evals beside JAX and PyTorch, f64, one thread, the same inputs in one run:

    peer_gradbench.py BIN [EVAL..]

BIN has the programs of tools/gradbench/Makefile. JAX is compiled and waited for; PyTorch runs eagerly. Each line: eval, sizes, the
fastest of several evaluations in ms of ours and of each peer, and ours / the best peer. Values that differ by more than 1e-6 of the
largest end in status 1."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools/gradbench"))

import check  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402

jax.config.update("jax_enable_x64", True)
torch.set_num_threads(1)
SECONDS = 0.7

# ---- JAX ----


def jax_llsq(i):
    t = -1 + jnp.arange(i["n"]) * 2 / (i["n"] - 1)
    return jax.grad(lambda x: jnp.sum((jnp.sign(t) - jnp.polyval(x[::-1], t)) ** 2) / 2), ("x",)


def jax_lse(i):
    return jax.grad(jax.scipy.special.logsumexp), ("x",)


def jax_ode(i):
    h, steps = 2 / i["s"], i["s"]

    def last(x):
        slope = lambda y: jnp.concatenate([x[:1], x[1:] * y[:-1]])

        def step(y, _):
            k1 = slope(y)
            k2 = slope(y + h / 2 * k1)
            k3 = slope(y + h / 2 * k2)
            return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + slope(y + h * k3)), None
        return jax.lax.scan(step, jnp.zeros_like(x), None, length=steps)[0][-1]
    return jax.grad(last), ("x",)


def jax_kmeans(i):
    def cost(c, p):
        return jnp.sum(jnp.min(jnp.sum((p[:, None] - c[None]) ** 2, 2), 1))

    def direction(p, c):
        g, h = jax.jvp(lambda c: jax.grad(cost)(c, p), (c,), (jnp.ones_like(c),))
        return g / h
    return direction, ("points", "centroids")


def jax_gmm(i):
    d, m, gamma = i["d"], i["m"], i["gamma"]
    column, row = np.triu_indices(d, 1)

    def f(alpha, mu, q, l, x):
        factor = jnp.zeros((i["k"], d, d)).at[:, row, column].set(l)
        y = x[:, None] - mu[None]
        z = jnp.exp(q)[None] * y + jnp.einsum("kij,nkj->nki", factor, y)
        terms = alpha + q.sum(1) - 0.5 * (z * z).sum(2)
        lse = jax.scipy.special.logsumexp
        return lse(terms, 1).sum() - i["n"] * lse(alpha) - 0.5 * gamma**2 * (jnp.sum(jnp.exp(2 * q)) + jnp.sum(l * l)) + m * q.sum()
    return jax.grad(f, (0, 1, 2, 3)), ("alpha", "mu", "q", "l", "x")


def jax_lstm(i):
    b, layers, count = i["state"].shape[1], len(i["state"]) // 2, len(i["sequence"]) - 1

    def f(main, extra, state, sequence):
        def step(carry, now):
            hidden, cell = carry
            x, hs, cs = now[0] * extra[0], [], []
            for k in range(layers):
                w, bias = main[2 * k].reshape(4, b), main[2 * k + 1].reshape(4, b)
                forget, gate = jax.nn.sigmoid(x * w[0] + bias[0]), jax.nn.sigmoid(hidden[k] * w[1] + bias[1])
                out, change = jax.nn.sigmoid(x * w[2] + bias[2]), jnp.tanh(hidden[k] * w[3] + bias[3])
                c = cell[k] * forget + gate * change
                x = out * jnp.tanh(c)
                hs.append(x)
                cs.append(c)
            y = x * extra[1] + extra[2]
            return (jnp.stack(hs), jnp.stack(cs)), jnp.sum(now[1] * (y - jnp.log(jnp.sum(jnp.exp(y)) + 2)))
        return -jax.lax.scan(step, (state[0::2], state[1::2]), (sequence[:-1], sequence[1:]))[1].sum() / (count * b)
    return jax.grad(f, (0, 1)), ("main_params", "extra_params", "state", "sequence")


# ---- PyTorch ----


def torch_gradient(f, names, wrt):
    def derivative(*args):
        return torch.autograd.grad(f(*args), args[:wrt])
    return derivative, names, wrt


def torch_llsq(i):
    t = -1 + torch.arange(i["n"], dtype=torch.float64) * 2 / (i["n"] - 1)

    def f(x):
        p = torch.zeros_like(t)
        for c in reversed(x.unbind()):
            p = p * t + c
        return ((torch.sign(t) - p) ** 2).sum() / 2
    return torch_gradient(f, ("x",), 1)


def torch_lse(i):
    return torch_gradient(lambda x: torch.logsumexp(x, 0), ("x",), 1)


def torch_ode(i):
    h, steps = 2 / i["s"], i["s"]

    def f(x):
        slope = lambda y: torch.cat([x[:1], x[1:] * y[:-1]])
        y = torch.zeros_like(x)
        for _ in range(steps):
            k1 = slope(y)
            k2 = slope(y + h / 2 * k1)
            k3 = slope(y + h / 2 * k2)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + slope(y + h * k3))
        return y[-1]
    return torch_gradient(f, ("x",), 1)


def torch_gmm(i):
    d, m, gamma = i["d"], i["m"], i["gamma"]
    column, row = map(torch.as_tensor, np.triu_indices(d, 1))

    def f(alpha, mu, q, l, x):
        factor = torch.zeros((i["k"], d, d), dtype=torch.float64).index_put((torch.arange(i["k"])[:, None], row, column), l)
        y = x[:, None] - mu[None]
        z = torch.exp(q)[None] * y + torch.einsum("kij,nkj->nki", factor, y)
        terms = alpha + q.sum(1) - 0.5 * (z * z).sum(2)
        prior = 0.5 * gamma**2 * (torch.exp(2 * q).sum() + (l * l).sum())
        return torch.logsumexp(terms, 1).sum() - i["n"] * torch.logsumexp(alpha, 0) - prior + m * q.sum()
    return torch_gradient(f, ("alpha", "mu", "q", "l", "x"), 4)


# ---- the run ----

OURS = {"llsq": "gradient", "lse": "gradient", "ode": "gradient", "kmeans": "dir", "gmm": "jacobian", "lstm": "jacobian"}


def fastest(call):
    times, start = [], time.perf_counter()
    while len(times) < 3 or (time.perf_counter() - start < SECONDS and len(times) < 100):
        before = time.perf_counter()
        call()
        times.append(time.perf_counter() - before)
    return 1e3 * min(times)


def flat(x):
    if isinstance(x, dict):
        x = list(x.values())
    if isinstance(x, (list, tuple)) and not all(isinstance(e, float) for e in x):
        return np.concatenate([flat(e) for e in x])
    return np.ravel(np.asarray(x, float))


def run_jax(name, given):
    f, names = globals()["jax_" + name](given)
    f, args = jax.jit(f), [jnp.asarray(given[n]) for n in names]
    out = jax.block_until_ready(f(*args))
    return flat(jax.tree.leaves(out)), fastest(lambda: jax.block_until_ready(f(*args)))


def run_torch(name, given):
    f, names, wrt = globals()["torch_" + name](given)
    args = [torch.tensor(given[n], requires_grad=k < wrt) for k, n in enumerate(names)]
    return flat([o.numpy() for o in f(*args)]), fastest(lambda: f(*args))


def main():
    right, binaries = True, pathlib.Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/input.json"
        for name in sys.argv[2:] or OURS:
            for given, _ in getattr(check, "of_" + name)(True):
                pathlib.Path(file).write_text(json.dumps({**check.plain(given), "min_runs": 3, "min_seconds": SECONDS}))
                got, why, ms = check.evaluate(binaries / name, file, OURS[name])
                if why:
                    sys.exit(why)
                peers, got = {}, flat(got)
                for peer, run in (("JAX", run_jax), ("PyTorch", run_torch)):
                    if f"{peer.lower().replace('py', '')}_{name}" not in globals():
                        continue
                    want, peers[peer] = run(name, given)
                    far = np.max(np.abs(got - want)) / max(np.max(np.abs(want)), 1e-300)
                    right = right and far < 1e-6
                    if far >= 1e-6:
                        print(f"{name}: differs from {peer} by {far:.1e}")
                others = "  ".join(f"{p} {t:.3f}" for p, t in peers.items())
                print(f"{name:8} {check.sizes(given):60} ours {ms:9.3f}  {others}  {ms / min(peers.values()):.2f}", flush=True)
    return not right


if __name__ == "__main__":
    sys.exit(main())
