#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The evals of GradBench on generated inputs, compared with NumPy:

    check.py BIN [--large] [--seconds S] [--only EVAL] [--floor N]

Objectives are written here once more, number by number. Their derivatives come from complex steps, which are exact to
rounding; those of `kmeans` from the centres of clusters; `particle` and `saddle` have the results that GradBench expects.
The tolerance is 1e-9 of the largest value (GradBench's is 1e-4). --large takes the largest published sizes and compares
nothing. Each line: eval, function, sizes, the fastest evaluation in ms."""
import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

STEP = 1e-30


def complex_steps(f, x):
    """The Jacobian of f at the array x, by columns."""
    x = np.asarray(x, float)
    out = []
    for i in range(x.size):
        z = x.astype(complex)
        z.flat[i] += 1j * STEP
        out.append(np.imag(f(z)) / STEP)
    return np.stack(out, axis=-1)


def llsq(x, n):
    t = -1 + np.arange(n) * 2 / (n - 1)
    return sum((np.sign(t) - sum(c * t**j for j, c in enumerate(x))) ** 2) / 2


def lse(x):
    return np.log(np.sum(np.exp(x)))


def ode(x, s):
    h, y = 2 / s, np.zeros_like(x)
    slope = lambda y: np.concatenate([x[:1], x[1:] * y[:-1]])
    for _ in range(s):
        k1 = slope(y)
        k2 = slope(y + h / 2 * k1)
        k3 = slope(y + h / 2 * k2)
        k4 = slope(y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return y


def gmm(alpha, mu, q, l, x, gamma, m):
    n, d = x.shape
    k = len(alpha)
    total = -0.5 * n * d * math.log(2 * math.pi) - n * lse(alpha)
    factor = []
    for i in range(k):
        a = np.diag(np.exp(q[i])).astype(np.result_type(q, l))
        column, row = np.triu_indices(d, 1)
        a[row, column] = l[i]
        factor.append(a)
    for point in x:
        total += lse(np.array([alpha[i] + sum(q[i]) - 0.5 * sum((factor[i] @ (point - mu[i])) ** 2) for i in range(k)]))
    w = d + m + 1
    c = w * d * (math.log(gamma) - 0.5 * math.log(2)) - 0.25 * d * (d - 1) * math.log(math.pi)
    c -= sum(math.lgamma(0.5 * w + 0.5 * (1 - j)) for j in range(1, d + 1))
    return total + k * c - sum(0.5 * gamma**2 * np.sum(f**2) for f in factor) + m * np.sum(q)


def lstm(main, extra, state, sequence):
    sigmoid = lambda v: 1 / (1 + np.exp(-v))
    hidden, cell, total = list(state[0::2]), list(state[1::2]), 0
    b = state.shape[1]
    for t in range(len(sequence) - 1):
        x = sequence[t] * extra[0]
        for i in range(len(hidden)):
            w, bias = main[2 * i].reshape(4, b), main[2 * i + 1].reshape(4, b)
            forget, ingate = sigmoid(x * w[0] + bias[0]), sigmoid(hidden[i] * w[1] + bias[1])
            outgate, change = sigmoid(x * w[2] + bias[2]), np.tanh(hidden[i] * w[3] + bias[3])
            cell[i] = cell[i] * forget + ingate * change
            x = hidden[i] = outgate * np.tanh(cell[i])
        y = x * extra[1] + extra[2]
        total += np.sum(sequence[t + 1] * (y - np.log(np.sum(np.exp(y)) + 2)))
    return -total / ((len(sequence) - 1) * b)


def ba(v, feat):
    cam, x, w = v[:11], v[11:14], v[14]
    y = x - cam[3:6]
    angle = np.sqrt(np.sum(cam[:3] ** 2))
    axis = cam[:3] / angle
    y = y * np.cos(angle) + np.cross(axis, y) * np.sin(angle) + axis * (axis @ y) * (1 - np.cos(angle))
    u = y[:2] / y[2]
    s = u @ u
    return w * (u * (1 + cam[9] * s + cam[10] * s * s) * cam[6] + cam[7:9] - feat)


def turn(axis, angle):
    c, s = np.cos(angle), np.sin(angle)
    m = np.eye(4, dtype=np.result_type(c))
    i, j = [k for k in range(3) if k != axis]
    m[i, i] = m[j, j] = c
    m[i, j], m[j, i] = (-s, s) if axis != 1 else (s, -s)
    return m


def ht(theta, us, data):
    model = {k: np.array(v) for k, v in data["model"].items()}
    bones = len(model["parents"])
    angles = np.zeros((bones + 5, 3), theta.dtype)
    at = 6
    for finger in range(5):
        for joint in range(3):
            angles[2 + 4 * finger + joint, 0] = theta[at]
            at += 1
            if joint == 0:
                angles[2 + 4 * finger, 1] = theta[at]
                at += 1
    placed, v = [], 0
    for i in range(bones):
        a = angles[i]
        own = model["base_relatives"][i] @ turn(2, a[1]) @ turn(1, a[2]) @ turn(0, a[0])
        parent = model["parents"][i]
        placed.append(own if parent < 0 else placed[parent] @ own)
        move = placed[i] @ model["inverse_base_absolutes"][i]
        v = v + model["weights"][:, i : i + 1] * (model["base_positions"] @ move.T)[:, :3]
    if data["model"]["is_mirrored"]:
        v = v * np.array([-1, 1, 1])
    n = np.sqrt(np.sum(theta[:3] ** 2))
    x, y, z = theta[:3] / n
    across = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    r = np.eye(3) + np.sin(n) * across + (1 - np.cos(n)) * across @ across
    v = v @ r.T + theta[3:6]
    points, at = np.array(data["points"]), np.array(data["correspondences"])
    if us is None:
        return (points - v[at]).ravel()
    t = model["triangles"][at]
    inside = us[:, :1] * v[t[:, 0]] + us[:, 1:] * v[t[:, 1]] + (1 - us[:, :1] - us[:, 1:]) * v[t[:, 2]]
    return (points - inside).ravel()


# ---- inputs, and what is expected of each function ----


def random():
    return np.random.default_rng(31337)


def of_llsq(large):
    n, m = (16392, 128) if large else (64, 9)
    x = random().random(m)
    yield {"x": x, "n": n}, {"primal": lambda: llsq(x, n), "gradient": lambda: complex_steps(lambda v: llsq(v, n), x)}


def of_lse(large):
    x = random().random(1280000 if large else 50)
    yield {"x": x}, {"primal": lambda: lse(x), "gradient": lambda: complex_steps(lse, x)}


def of_ode(large):
    for n, s in [(10000, 100), (100000, 100)] if large else [(12, 1), (7, 10)]:
        x = random().random(n)
        yield {"x": x, "s": s}, {"primal": lambda: ode(x, s), "gradient": lambda: complex_steps(lambda v: ode(v, s)[-1], x)}


def of_det(large):
    for n in [9, 10] if large else [1, 2, 5, 7]:
        a = random().random((n, n))
        yield {"A": a.ravel(), "ell": n}, {
            "primal": lambda: np.linalg.det(a),
            "gradient": lambda: (np.linalg.det(a) * np.linalg.inv(a).T).ravel(),
        }


def kmeans_step(points, centroids):
    d = ((points[:, None] - centroids[None]) ** 2).sum(2)
    own = d.argmin(1)
    return np.array([c - points[own == j].mean(0) for j, c in enumerate(centroids)])


def of_kmeans(large):
    for k, n, d in [(10, 10000, 8), (1000, 10000, 16)] if large else [(5, 60, 3), (10, 200, 8)]:
        p = random().random((n, d))
        c = p[-k:]
        yield {"points": p, "centroids": c}, {
            "cost": lambda: ((p[:, None] - c[None]) ** 2).sum(2).min(1).sum(),
            "dir": lambda: kmeans_step(p, c),
        }


def of_gmm(large):
    for d, k, n, m in [(10, 25, 1000, 0), (64, 100, 1000, 0)] if large else [(2, 3, 10, 0), (4, 2, 7, 2)]:
        r = random()
        x, gamma = r.normal(size=(n, d)), 1.0 + m
        v = {"alpha": r.normal(size=k), "mu": r.random((k, d)), "q": r.normal(size=(k, d)), "l": r.normal(size=(k, d * (d - 1) // 2))}
        f = lambda **with_: gmm(**{**v, **with_}, x=x, gamma=gamma, m=m)
        yield {"d": d, "k": k, "n": n, "x": x, "gamma": gamma, "m": m, **v}, {
            "objective": f,
            "jacobian": lambda: {name: complex_steps(lambda z: f(**{name: z}), v[name]).reshape(v[name].shape) for name in v},
        }


def of_lstm(large):
    for l, c, b in [(2, 1024, 14), (6, 8192, 14)] if large else [(1, 4, 3), (3, 9, 5)]:
        r = random()
        main, extra, state = r.random((2 * l, 4 * b)), r.random((3, b)), r.random((2 * l, b))
        sequence = r.integers(0, 2, (c, b)).astype(float)
        gradient = lambda: np.concatenate(
            [
                complex_steps(lambda z: lstm(z, extra, state, sequence), main),
                complex_steps(lambda z: lstm(main, z, state, sequence), extra),
            ]
        )
        yield {"main_params": main, "extra_params": extra, "state": state, "sequence": sequence}, {
            "objective": lambda: lstm(main, extra, state, sequence),
            "jacobian": gradient,
        }


def of_ba(large):
    for n, m, p in [(49, 7776, 31843), (372, 47423, 204472)] if large else [(3, 4, 20)]:
        cam = np.array([-0.76, -1.11, -0.85, 34.6, 39.7, 53.9, 419.2, 5.9, -8.5, 0.088, 0.0027])
        x, w, feat = np.array([7.2, 0.001, 3.0]), 0.417, np.array([271.8, 834.2])
        v = np.concatenate([cam, x, [w]])

        def jacobian():
            columns = [i + 0.0 for i in [*range(11), *range(11 * n, 11 * n + 3), 11 * n + 3 * m]]
            last = 11 * n + 3 * m + p - 1
            return {
                "vals": np.append(complex_steps(lambda z: ba(z, feat), v), -2 * w),
                "cols": np.array(columns * 2 + [last]),
                "rows": np.append(15 * np.arange(30), 31 * p),
            }

        yield {"n": n, "m": m, "p": p, "cam": cam, "x": x, "w": w, "feat": feat}, {
            "objective": lambda: {
                "reproj_error": {"elements": ba(v, feat), "repeated": p},
                "w_err": {"element": 1 - w * w, "repeated": p},
            },
            "jacobian": jacobian,
        }


def of_ht(large):
    for with_us, mirrored in [(True, False)] if large else [(False, False), (True, False), (True, True)]:
        r = random()
        bones, v, t, n = (22, 1692, 3000, 25600) if large else (22, 40, 30, 11)
        transforms = lambda: r.normal(size=(bones, 4, 4)) * 0.3 + np.eye(4)
        model = {
            "bone_names": [f"bone {i}" for i in range(bones)],
            "parents": [-1] + [int(r.integers(0, i)) for i in range(1, bones)],
            "base_relatives": transforms().tolist(),
            "inverse_base_absolutes": transforms().tolist(),
            "base_positions": np.hstack([r.normal(size=(v, 3)), np.ones((v, 1))]).tolist(),
            "weights": r.random((v, bones)).tolist(),
            "triangles": r.integers(0, v, (t, 3)).tolist(),
            "is_mirrored": mirrored,
        }
        data = {
            "model": model,
            "correspondences": r.integers(0, t if with_us else v, n).tolist(),
            "points": r.normal(size=(n, 3)).tolist(),
        }
        theta, us = r.random(26), r.random((n, 2)) if with_us else None

        def jacobian():
            j = complex_steps(lambda z: ht(z, us, data), theta)
            if us is None:
                return j
            along = [np.imag(ht(theta + 0j, us + 1j * STEP * e, data)) / STEP for e in np.eye(2)]
            return np.hstack([np.stack(along, 1), j])

        yield {"theta": theta, "data": data, "us": us if with_us else []}, {
            "objective": lambda: ht(theta, us, data),
            "jacobian": jacobian,
        }


def of_hello(large):
    yield 3.0, {"square": lambda: 9.0, "double": lambda: 6.0}


def of_particle(large):
    yield {"w": 0.0}, {f: lambda: 0.2071918746486116 for f in ("ff", "fr", "rf", "rr")}


def of_saddle(large):
    yield {"start": [1.0, 1.0]}, {f: lambda: np.full(4, 8.246324826140356e-06) for f in ("ff", "fr", "rf", "rr")}


# ---- running ----


def plain(x):
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items()}
    return x.tolist() if isinstance(x, np.ndarray) else x


def differs(got, want, path=""):
    """Where and how they differ, or None."""
    if isinstance(want, dict):
        if not isinstance(got, dict) or got.keys() != want.keys():
            return f"{path}: other fields"
        return next((d for k in want if (d := differs(got[k], want[k], f"{path}.{k}"))), None)
    a, b = np.asarray(got, float), np.asarray(want, float)
    if a.shape != b.shape:
        return f"{path}: shape {a.shape}, expected {b.shape}"
    far = np.max(np.abs(a - b), initial=0) / max(1.0, np.max(np.abs(b), initial=0))
    return None if far <= 1e-9 else f"{path}: differs by {far:.2e} of the largest"


def evaluate(binary, file, function):
    done = subprocess.run([binary, file, function], capture_output=True, text=True)
    if done.returncode:
        return None, done.stderr, 0
    lines = done.stdout.splitlines()
    times = [json.loads(t)["nanoseconds"] for t in lines[1:] if '"evaluate"' in t]
    return json.loads(lines[0]), "", min(times) / 1e6


def sizes(input):
    if not isinstance(input, dict):
        return ""
    dims = lambda v: "x".join(map(str, np.shape(v))) if np.ndim(v) else v
    return " ".join(f"{k}={dims(v)}" for k, v in input.items() if k != "data")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("bin", type=pathlib.Path)
    p.add_argument("--large", action="store_true")
    p.add_argument("--seconds", type=float, default=0)
    p.add_argument("--only", default="")
    p.add_argument("--floor", type=int, default=0)
    args = p.parse_args()
    evals = {k[3:]: f for k, f in globals().items() if k.startswith("of_") and args.only in k}
    valid = 0
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/input.json"
        for name, inputs in sorted(evals.items()):
            wrong = 0
            for input, expected in inputs(args.large):
                limits = {"min_runs": 1, "min_seconds": args.seconds} if isinstance(input, dict) else {}
                pathlib.Path(file).write_text(json.dumps({**plain(input), **limits} if limits else input))
                for function, want in expected.items():
                    got, why, ms = evaluate(args.bin / name, file, function)
                    if not why and not args.large:
                        why = differs(got, want())
                    wrong += bool(why)
                    print(f"{name:9} {function:10} {ms:10.4f}  {sizes(input)}  {why or ''}".rstrip(), flush=True)
            valid += not wrong
    print(f"{valid} of {len(evals)} evals valid")
    sys.exit(valid < args.floor)


if __name__ == "__main__":
    main()
