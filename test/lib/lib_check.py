#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The library of the language (lib/) against NumPy: lib_check.py ANFORA."""
import importlib.util
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from tap import Tap, run  # noqa: E402

RNG = np.random.default_rng(5)


def arr(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def erf(x):
    from math import erf as f
    return np.vectorize(f)(x)


def layer_norm(x, s, b):
    m = x.mean(-1, keepdims=True)
    return (x - m) / np.sqrt(((x - m) ** 2).mean(-1, keepdims=True) + 1e-5) * s + b


def conv(x, w, b):
    k = w.shape[2] // 2
    xp = np.pad(x, ((0, 0), (0, 0), (k, k), (k, k)))
    out = np.zeros((x.shape[0], w.shape[0], x.shape[2], x.shape[3]))
    for i in range(w.shape[2]):
        for j in range(w.shape[3]):
            part = xp[:, :, i:i + x.shape[2], j:j + x.shape[3]]
            out += np.einsum("nchw,oc->nohw", part, w[:, :, i, j])
    return out + b[:, None, None]


def pools(x):
    w = x.reshape(x.shape[0], x.shape[1], x.shape[2] // 2, 2, x.shape[3] // 2, 2)
    return w.max((3, 5)), w.mean((3, 5)), x.reshape(x.shape[0], -1)


def norms(x, s, b, m, v):
    last = x.transpose(0, 2, 3, 1)
    rms = last / np.sqrt((last ** 2).mean(-1, keepdims=True) + 1e-5) * s
    c = (slice(None), None, None)
    g = x.reshape(2, 3, -1)
    g = (g - g.mean(-1, keepdims=True)) / np.sqrt(g.var(-1, keepdims=True) + 1e-5)
    mean, var = x.mean((0, 2, 3)), x.var((0, 2, 3))
    n = x.size // 6
    return (layer_norm(last, s, b), rms, g.reshape(x.shape) * s[c] + b[c],
            (x - mean[c]) / np.sqrt(var[c] + 1e-5) * s[c] + b[c],
            0.9 * m + 0.1 * mean, 0.9 * v + 0.1 * var * n / (n - 1),
            (x - m[c]) / np.sqrt(v[c] + 1e-5) * s[c] + b[c])


def cells(x, h, c, w, u, b):
    rnn = np.tanh(x @ w[:, :5] + h @ u[:, :5] + b[:5])
    i, f, g, o = np.split(x @ w + h @ u + b, 4, 1)
    c2 = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    ar, az, an = np.split(x @ w[:, :15] + b[:15], 3, 1)
    br, bz, bn = np.split(h @ u[:, :15], 3, 1)
    r, z = sigmoid(ar + br), sigmoid(az + bz)
    new = np.tanh(an + r * bn)
    return rnn, sigmoid(o) * np.tanh(c2), c2, (1 - z) * new + z * h


def attention(x, qkv, qkv_b, out, out_b, up, down, s):
    def attend(y, causal):
        q, k, v = (np.einsum("btd,dhk->bhtk", y, qkv[:, i]) + qkv_b[i][None, :, None] for i in range(3))
        a = q @ k.swapaxes(-1, -2) / 2
        if causal:
            a = np.where(np.tril(np.ones((5, 5), bool)), a, -np.inf)
        z = (softmax(a) @ v).transpose(0, 2, 1, 3).reshape(2, 5, 8)
        return z @ out + out_b

    def mlp(y):
        z = y @ up
        return 0.5 * z * (1 + erf(z / np.sqrt(2))) @ down + out_b

    def block(y, causal):
        y = y + attend(layer_norm(y, s, out_b), causal)
        return y + mlp(layer_norm(y, s, out_b))
    return attend(x, False), attend(x, True), mlp(x), block(x, False), block(x, True)


def losses(a, b, y):
    p, q = softmax(a), sigmoid(b)
    d = np.abs(a - b)
    return (-np.log(p[np.arange(4), y]).mean(), -(q * np.log(sigmoid(a)) + (1 - q) * np.log(sigmoid(-a))).mean(),
            (d * d).mean(), d.mean(), np.where(d <= 0.5, d * d / 2, 0.5 * (d - 0.25)).mean(),
            (a.argmax(-1) == y).mean())


def optimisers(w, b, gw, gb):
    def each(step):
        out = []
        for p, g in ((w, gw), (b, gb)):
            p, g, s = p.astype(float), g.astype(float), {}
            for t in range(1, 4):
                p = step(p, g, s, t)
            out.append(p)
        return out

    def momentum(p, g, s, t, nesterov=False):
        s["v"] = 0.9 * s.get("v", 0) + g
        return p - 0.1 * (g + 0.9 * s["v"] if nesterov else s["v"])

    def rms(p, g, s, t):
        s["v"] = 0.99 * s.get("v", 0) + 0.01 * g * g
        return p - 0.01 * g / (np.sqrt(s["v"]) + 1e-8)

    def adam(p, g, s, t):
        s["m"] = 0.9 * s.get("m", 0) + 0.1 * g
        s["v"] = 0.999 * s.get("v", 0) + 0.001 * g * g
        return p - 0.01 * (s["m"] / (1 - 0.9 ** t)) / (np.sqrt(s["v"] / (1 - 0.999 ** t)) + 1e-8)
    return (each(lambda p, g, s, t: p - 0.1 * g), each(momentum),
            each(lambda p, g, s, t: momentum(p, g, s, t, True)), each(rms), each(adam),
            each(lambda p, g, s, t: adam(p * (1 - 0.01 * 0.1), g, s, t)))


def clipping(w, b, gw, gb):
    n = np.sqrt((gw ** 2).sum() + (gb ** 2).sum())
    return (n, gw * 0.5 / n, gb * 0.5 / n, gw.clip(-0.3, 0.3), gb.clip(-0.3, 0.3), gw + 0.01 * w, gb + 0.01 * b, gw)


def schedules(t):
    def cosine(u, n):
        return 0.01 + 0.5 * 0.09 * (1 + np.cos(np.pi * min(u / n, 1)))
    return (0.1, 0.1 * 0.5 ** (t // 3), 0.1 * 0.9 ** t, 1 - 0.8 * min(t / 8, 1), cosine(t, 8),
            0.1 * (t + 1) / 4 if t < 4 else cosine(t - 4, 8))


W20, QKV = (arr(4, 20), arr(5, 20), arr(20)), (arr(8, 3, 2, 4), arr(3, 2, 4), arr(8, 8), arr(8))
LABELS = np.array([0, 2, 1, 1], np.int32)
GRADS = arr(4, 3), arr(3), arr(4, 3), arr(3)
def calibrated(x, y):
    """What the Python package's calibration, in NumPy, says of the same batches."""
    spec = importlib.util.spec_from_file_location("quantise", os.path.join(HERE, "..", "..", "python", "anfora", "_calibration.py"))
    quantise = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(quantise)
    each = [quantise.Calibrator(m, d, percentile=99.0).add(x).add(y)
            for m, d in (("minmax", "i8"), ("percentile", "u8"), ("percentile", "i8"), ("entropy", "i8"))]
    return [c.range() for c in each] + [each[0].result(), each[1].result()]


CASES = [
    ("dense", (arr(5, 4), arr(4, 3), arr(3)), lambda x, w, b: x @ w + b),
    ("conv", (arr(2, 3, 6, 5), arr(4, 3, 3, 3), arr(4)), conv),
    ("pools", (arr(2, 3, 6, 4),), pools),
    ("norms", (arr(2, 6, 4, 4), arr(6), arr(6), arr(6), np.abs(arr(6)) + 0.5), norms),
    ("cells", (arr(3, 4), arr(3, 5), arr(3, 5), *W20), cells),
    ("attention", (arr(2, 5, 8), *QKV, arr(8, 16), arr(16, 8), arr(8)), attention),
    ("losses", (arr(4, 3), arr(4, 3), LABELS), losses),
    ("embedding", (arr(6, 3), np.array([[0, 5, 2, 2], [1, 3, 4, 0]], np.int32)), lambda t, i: t[i]),
    ("optimisers", GRADS, optimisers),
    ("clipping", GRADS, clipping),
    *[("schedules", (np.int32(t),), schedules) for t in (0, 3, 7, 11, 20)],
]


def with_outliers():
    y = arr(300) * 1.5
    y[[3, 200]] = 31.0, -44.0
    return y


CASES.append(("calibrated", (arr(2000), with_outliers()), calibrated))


def call(anfora, folder, name, args):
    words = [anfora, "run", "--json", "--backend", "interp", os.path.join(HERE, "lib.anf") + ":" + name]
    for i, a in enumerate(args):
        path = os.path.join(folder, f"{i}.npy")
        np.save(path, a)
        words.append("@" + path)
    out, problem = run(words)
    return (None, problem) if problem else (json.loads(out)["result"], "")


def flat(x):
    if isinstance(x, np.ndarray):
        return x.astype(float).ravel().tolist()
    if isinstance(x, (list, tuple)):
        return [y for z in x for y in flat(z)]
    return [float(x)]


def compare(got, want):
    got, want = np.array(flat(got)), np.array(flat(want))
    if got.shape != want.shape:
        return f"{got.shape} numbers, {want.shape} expected"
    worst = np.max(np.abs(got - want) / (1e-5 + np.maximum(np.abs(want), 0.1)))
    return "" if worst < 2e-5 else f"relative error {worst}"


def near(x, want, by):
    return abs(x - want) <= by * want


def first_values(got):
    std, most, bias, conv_std, conv_shape, emb, lstm, gru, rnn, qkv, up = got
    good = (near(std, np.sqrt(2 / 300), 0.02) and near(most, np.sqrt(6 / 300), 0.01) and bias == 0 and
            near(conv_std, np.sqrt(2 / 200), 0.05) and conv_shape == [16, 8, 5, 5] and near(emb, 0.02, 0.03) and
            lstm == [10, 80] and gru == [20, 60] and rnn == [20] and qkv == [32, 3, 4, 8] and up == [32, 64])
    return "" if good else str(got)


def imports(tap, anfora):
    """Files that import each other; from text, they cannot."""
    use = os.path.join(HERE, "use.anf")
    out, problem = run([anfora, "run", use + ":use", "3"])
    want = "(6, 7, 2002, 0.5, (1, 2))\n"
    tap.case("files import files", problem or ("" if out == want else out))
    out, problem = run([anfora, "print", use])
    names = sorted(line.split("(")[0] for line in out.splitlines() if line.startswith("def "))
    want = ["def area", "def area_1", "def back", "def constant", "def fn_twice", "def fn_use", "def helper",
            "def twice", "def use"]
    tap.case("of other files only what is used", problem or ("" if names == want else str(names)))
    with open(use, encoding="utf-8") as f:
        r = subprocess.run([anfora, "check", "-"], stdin=f, capture_output=True, encoding="utf-8", check=False)
    tap.case("text cannot import files", "" if r.returncode == 1 and "E0146" in r.stderr else r.stderr)


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        for name, args, want in CASES:
            got, error = call(sys.argv[1], folder, name, args)
            label = name + (f" {args[0]}" if name == "schedules" else "")
            exact = [a.astype(float) if isinstance(a, np.ndarray) and a.dtype == np.float32 else a for a in args]
            tap.case(label, error or compare(got, want(*exact)))
        got, error = call(sys.argv[1], folder, "first", ())
        tap.case("first values", error or first_values(got))
        got, error = call(sys.argv[1], folder, "dropped", (np.ones(1000, np.float32),))
        tap.case("dropout", error or ("" if near(got[0], 0.25, 0.2) and near(got[1], 4 / 3, 1e-6) else str(got)))
        imports(tap, sys.argv[1])
    tap.done()


main()
