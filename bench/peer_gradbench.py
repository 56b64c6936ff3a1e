#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Derivatives of GradBench's evals beside JAX and PyTorch, f64, one thread, the same inputs in one run:

    peer_gradbench.py BIN [EVAL..]

BIN has the programs of tools/gradbench/Makefile. JAX is compiled and waited for; PyTorch runs eagerly. Each line: eval, sizes, the
fastest of several evaluations in ms of ours and of each peer, and ours / the best peer. Values that differ by more than 1e-6 of the
largest end in status 1. `particle` and `saddle` have a line for each mode of the inner derivative; JAX does not reverse loops whose
rounds data decide, as the outer derivative would, and PyTorch takes minutes for one evaluation of either.

The Jacobian of `ba` comes from two cotangents of ones, not from one of each observation, and `det` expands all minors of a size at
once: both are several times as fast in JAX and PyTorch as what GradBench has for them."""
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


# ---- programs that are the same in both ----


class JaxWords:
    stack, cat, sin, cos, sqrt, total, where = jnp.stack, jnp.concatenate, jnp.sin, jnp.cos, jnp.sqrt, jnp.sum, jnp.where
    array, integers = staticmethod(lambda x: jnp.asarray(x, jnp.float64)), staticmethod(lambda x: jnp.asarray(x, jnp.int64))


class TorchWords:
    stack, cat, sin, cos, sqrt, total, where = torch.stack, torch.cat, torch.sin, torch.cos, torch.sqrt, torch.sum, torch.where
    array, integers = staticmethod(lambda x: torch.as_tensor(x, dtype=torch.float64)), staticmethod(lambda x: torch.as_tensor(x, dtype=torch.int64))


def det(w, a):
    """By minors: a[.., n, n]"""
    n = a.shape[-1]
    if n == 1:
        return a[..., 0, 0]
    rest = [[k for k in range(n) if k != j] for j in range(n)]
    minors = w.stack([a[..., 1:, :][..., r] for r in rest], -3)
    return w.total(w.array([(-1) ** j for j in range(n)]) * a[..., 0, :] * det(w, minors), -1)


def cross(a, b):
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


def reproject(w, cam, x, weight, feat):
    """cam [11, p], x [3, p]"""
    r, x = cam[:3], x - cam[3:6]
    angle = w.sqrt(r[0] * r[0] + r[1] * r[1] + r[2] * r[2])
    c, s = w.cos(angle), w.sin(angle) / angle
    t, y = (1 - c) / (angle * angle) * (r[0] * x[0] + r[1] * x[1] + r[2] * x[2]), cross(r, x)
    y = [x[k] * c + y[k] * s + r[k] * t for k in range(3)]
    u, v = y[0] / y[2], y[1] / y[2]
    s = u * u + v * v
    l = (1 + cam[9] * s + cam[10] * s * s) * cam[6]
    return weight * (u * l + cam[7] - feat[0]), weight * (v * l + cam[8] - feat[1])


def bundle(w, i):
    """The observations, and the rows and columns of the Jacobian"""
    n, m, p = i["n"], i["m"], i["p"]
    at, spread = w.integers(np.arange(p)), lambda v, k: w.array(np.tile(np.asarray(v)[:, None], k))
    given = spread(i["cam"], n), spread(i["x"], m), w.array(np.full(p, i["w"])), w.array(i["feat"])

    def places():
        camera, point = at % n, at % m
        parts = [11 * camera[:, None] + w.integers(np.arange(11)), 11 * n + 3 * point[:, None] + w.integers(np.arange(3)),
                 11 * n + 3 * m + at[:, None]]
        columns = w.cat(parts, 1)
        return w.cat([15 * w.integers(np.arange(2 * p + 1)), 30 * p + 1 + at]), \
            w.cat([w.stack([columns, columns], 1).reshape(-1), 11 * n + 3 * m + at])
    return at % n, at % m, given, places


def ends_of_ba(out):
    return np.concatenate([flat(np.r_[np.asarray(o)[:30], np.asarray(o)[-1:]]) for o in out])


def by_angles(w, a):
    """[.., 3] -> [.., 4, 4]"""
    (cx, cz, cy), (sx, sz, sy) = ([f(a[..., k]) for k in range(3)] for f in (w.cos, w.sin))
    o = 0 * cx
    rows = [cy * cz, sx * sy * cz - cx * sz, sx * sz + cx * sy * cz, o, cy * sz, cx * cz + sx * sy * sz, cx * sy * sz - sx * cz, o,
            -sy, sx * cy, cx * cy, o, o, o, o, o + 1]
    return w.stack(rows, -1).reshape((*a.shape[:-1], 4, 4))


def hand(w, i):
    """errors(theta, us), as ht.anf has it"""
    model, data = i["data"]["model"], i["data"]
    parents, bones = model["parents"], len(model["parents"])
    relatives, inverses, positions, weights = (w.array(np.array(model[k])) for k in (
        "base_relatives", "inverse_base_absolutes", "base_positions", "weights"))
    points, corners = w.array(np.array(data["points"])), w.integers(np.array(model["triangles"])[np.array(data["correspondences"])])
    eye = w.array(np.eye(3))

    def errors(theta, us):
        t = theta[6:].reshape(5, 4)
        o = 0 * t[:, :1]
        finger = w.stack([w.cat([t[:, :2], o], 1), w.cat([t[:, 2:3], o, o], 1), w.cat([t[:, 3:], o, o], 1), w.cat([o, o, o], 1)], 1)
        posed = relatives @ by_angles(w, w.cat([w.array(np.zeros((2, 3))), finger.reshape(20, 3)])[:bones])
        placed = []
        for k in range(bones):
            placed.append(posed[k] if parents[k] < 0 else placed[parents[k]] @ posed[k])
        moves = (w.stack(placed, 0) @ inverses)[:, :3]
        v = w.total((positions @ moves.swapaxes(1, 2)) * weights.T[:, :, None], 0)
        angle = w.sqrt(w.total(theta[:3] * theta[:3], 0))
        x, y, z = (theta[k] / angle for k in range(3))
        o = 0 * x
        a = w.stack([o, -z, y, z, o, -x, -y, x, o], 0).reshape(3, 3)
        v = v @ (eye + w.sin(angle) * a + (1 - w.cos(angle)) * a @ a).T + theta[3:6]
        p, q = us[:, :1], us[:, 1:]
        return points - (p * v[corners[:, 0]] + q * v[corners[:, 1]] + (1 - p - q) * v[corners[:, 2]])
    return errors


def jax_det(i):
    n = i["ell"]
    return jax.grad(lambda a: det(JaxWords, a.reshape(n, n))), ("A",)


def torch_det(i):
    return torch_gradient(lambda a: det(TorchWords, a.reshape(i["ell"], i["ell"])), ("A",), 1)


def jax_ba(i):
    camera, point, (cams, points, weights, feat), places = bundle(JaxWords, i)

    def jacobian(cams, points, weights):
        args = cams[:, camera], points[:, point], weights
        e, pull = jax.vjp(lambda c, x, w: reproject(JaxWords, c, x, w, feat), *args)
        one, none = jnp.ones_like(weights), jnp.zeros_like(weights)
        rows = [jnp.concatenate([c, x, w[None]]).T for c, x, w in (pull((one, none)), pull((none, one)))]
        return (*places(), jnp.concatenate([jnp.stack(rows, 1).reshape(-1), jax.vmap(jax.grad(lambda w: 1 - w * w))(weights)]))
    return jacobian, (cams, points, weights)


def torch_ba(i):
    camera, point, (cams, points, weights, feat), places = bundle(TorchWords, i)

    def jacobian(*_):
        args = [t.detach().requires_grad_() for t in (cams[:, camera], points[:, point], weights)]
        u, v = reproject(TorchWords, *args, feat)
        rows = [torch.cat([c, x, w[None]]).T for c, x, w in
                (torch.autograd.grad(u.sum(), args, retain_graph=True), torch.autograd.grad(v.sum(), args))]
        error = (1 - args[2] * args[2]).sum()
        return (*places(), torch.cat([torch.stack(rows, 1).reshape(-1), *torch.autograd.grad(error, args[2:])]))
    return jacobian, (), 0


def jax_ht(i):
    errors = hand(JaxWords, i)

    def jacobian(theta, us):
        along = [jax.jvp(lambda u: errors(theta, u), (us,), (jnp.zeros_like(us) + jnp.array(e),))[1].reshape(-1, 1) for e in ([1., 0.], [0., 1.])]
        return jnp.concatenate([*along, jax.jacfwd(errors)(theta, us).reshape(-1, 26)], 1)
    return jacobian, ("theta", "us")


def torch_ht(i):
    errors, jvp = hand(TorchWords, i), torch.func.jvp

    def jacobian(theta, us):
        along = [jvp(lambda u: errors(theta, u), (us,), (torch.zeros_like(us) + torch.tensor(e, dtype=torch.float64),))[1].reshape(-1, 1)
                 for e in ([1., 0.], [0., 1.])]
        return [torch.cat([*along, torch.func.jacfwd(errors)(theta, us).reshape(-1, 26)], 1)]
    return jacobian, ("theta", "us"), 0


# ---- descent in descent ----


def jax_argmin(derivative, f, start):
    """As solver.anf; derivative: jax.jacfwd or jax.grad"""
    g, length = derivative(f), lambda x: jnp.sqrt(jnp.sum(x * x))

    def round_(s):
        x, fx, gx, step, i, _ = s
        y = x - step * gx
        fy, close = f(y), length(step * gx) <= 1e-5
        better = fy < fx
        new = jnp.where(better, y, x), jnp.where(better, fy, fx), jax.lax.cond(better, lambda: g(y), lambda: gx), \
            jnp.where(better, step, step / 2), jnp.where(better, i + 1, 0)
        tenth = i == 10
        kept = (x, fx, gx, jnp.where(tenth, 2 * step, step), jnp.where(tenth, 0, i))
        moved = [jnp.where(tenth | close, a, b) for a, b in zip(kept, new)]
        return (*moved, (length(moved[2]) > 1e-5) & (tenth | ~close))
    gx = g(start)
    return jax.lax.while_loop(lambda s: s[5], round_, (start, f(start), gx, 1e-5, 0, length(gx) > 1e-5))[0]


JAX_MODES = {"f": jax.jacfwd, "r": jax.grad}


def jax_particle(i, modes):
    def landing(w):
        distance = lambda x, p: jnp.sqrt((x[0] - p[0]) ** 2 + (x[1] - p[1]) ** 2)
        force = JAX_MODES[modes[1]](lambda x: 1 / distance(x, (10., 10. - w[0])) + 1 / distance(x, (10., 0.)))
        x, v = jnp.array([0., 8.]), jnp.array([0.75, 0.])

        def fly(s):
            x, v, y = s
            v = v - 0.1 * force(x)
            return y, v, y + 0.1 * v
        x, v, _ = jax.lax.while_loop(lambda s: s[2][1] > 0, fly, (x, v, x + 0.1 * v))
        return (x[0] - x[1] / v[1] * v[0]) ** 2
    return (lambda w: jax_argmin(JAX_MODES[modes[0]], landing, w.reshape(1))[0]), ("w",)


def jax_saddle(i, modes):
    outer, inner = (JAX_MODES[m] for m in modes)
    cost = lambda p, q: (p * p).sum() - (q * q).sum()
    argmax = lambda m, f, start: jax_argmin(m, lambda x: -f(x), start)

    def both(start):
        r1 = jax_argmin(outer, lambda p: cost(p, argmax(inner, lambda q: cost(p, q), start)), start)
        return r1, argmax(outer, lambda q: cost(r1, q), start)
    return both, ("start",)


# ---- the run ----

MODES = ("ff", "fr")
OURS = {"llsq": "gradient", "lse": "gradient", "ode": "gradient", "kmeans": "dir", "gmm": "jacobian", "lstm": "jacobian", "det": "gradient",
        "ba": "jacobian", "ht": "jacobian", "particle": MODES, "saddle": MODES}
ENDS = {"ba": ends_of_ba}  # what the eval's output has of all


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


def peer_of(name, peer, given, function):
    f = globals()[f"{peer.lower().replace('py', '')}_{name}"]
    return f(given, function) if OURS[name] is MODES else f(given)


def run_jax(name, given, function):
    f, names = peer_of(name, "JAX", given, function)
    f, args = jax.jit(f), [jnp.asarray(given[n] if isinstance(n, str) else n) for n in names]
    out = jax.block_until_ready(f(*args))
    return jax.tree.leaves(out), fastest(lambda: jax.block_until_ready(f(*args)))


def run_torch(name, given, function):
    f, names, wrt = peer_of(name, "PyTorch", given, function)
    args = [torch.tensor(given[n], dtype=torch.float64, requires_grad=k < wrt) for k, n in enumerate(names)]
    out = f(*args)
    return [o.detach().numpy() for o in (out if isinstance(out, (tuple, list)) else [out])], fastest(lambda: f(*args))


def compare(name, given, function, got, ms):
    """The line of a function, and whether the values are the same."""
    right, peers = True, {}
    for peer, run in (("JAX", run_jax), ("PyTorch", run_torch)):
        if f"{peer.lower().replace('py', '')}_{name}" not in globals():
            continue
        want, peers[peer] = run(name, given, function)
        want = ENDS.get(name, flat)(want)
        far = np.max(np.abs(got - want)) / max(np.max(np.abs(want)), 1e-300)
        right = right and far < 1e-6
        if far >= 1e-6:
            print(f"{name}: differs from {peer} by {far:.1e}")
    others = "  ".join(f"{p} {t:.3f}" for p, t in peers.items())
    what = f"{name} {function}" if OURS[name] is MODES else name
    print(f"{what:11} {check.sizes(given):57} ours {ms:9.3f}  {others}  {ms / min(peers.values()):.2f}", flush=True)
    return right


def main():
    right, binaries = True, pathlib.Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/input.json"
        for name in sys.argv[2:] or OURS:
            for given, _ in getattr(check, "of_" + name)(True):
                pathlib.Path(file).write_text(json.dumps({**check.plain(given), "min_runs": 3, "min_seconds": SECONDS}))
                for function in [OURS[name]] if isinstance(OURS[name], str) else OURS[name]:
                    got, why, ms = check.evaluate(binaries / name, file, function)
                    if why:
                        sys.exit(why)
                    right = compare(name, given, function, flat(got), ms) and right
    return not right


if __name__ == "__main__":
    sys.exit(main())
