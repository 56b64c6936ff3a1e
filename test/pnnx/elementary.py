# SPDX-License-Identifier: Apache-2.0
"""Cases of test_layers.py: functions that pnnx leaves as PyTorch's, with their arguments in order, against NumPy."""
import math

import numpy as np


def checker(check):
    """named(kind, inputs, want, arguments in order: x0, x1, .. are inputs, others are constants; a list is made of its inputs)"""
    def named(name, inputs, want, *arguments, outputs=1, note=""):
        before, takes = [], []
        for i, a in enumerate(arguments):
            if isinstance(a, str) and a.startswith("x"):
                takes.append(a)
            elif isinstance(a, list):
                names = [f"x{k}" for k in a]
                before.append(f"pnnx.Expression l{i} {len(a)} 1 {' '.join(names)} l{i} expr=[{','.join(f'@{k}' for k in range(len(a)))}]")
                takes.append(f"l{i}")
            else:
                before.append(f"pnnx.Expression c{i} 0 1 c{i} expr={a}")
                takes.append(f"c{i}")
        check(f"{name}{note}", name, inputs, want, before=before, takes=takes, outputs=tuple(f"y{k}" for k in range(outputs)))
    return named


def order(named, x):
    lowest, first = np.sort(x, 1)[:, 1], np.argsort(x, 1)[:, 1]
    named("aten::aminmax", [x], [x.min(1), x.max(1)], "x0", 1, False, outputs=2)
    named("aten::aminmax", [x], [x.min(), x.max()], "x0", None, False, outputs=2, note=" of all")
    named("aten::kthvalue", [x], [lowest, first], "x0", 2, 1, False, outputs=2)
    named("aten::kthvalue", [x], [lowest[:, None], first[:, None]], "x0", 2, -1, True, outputs=2, note=", kept")
    for how in ("linear", "lower", "higher", "nearest", "midpoint"):
        want = np.quantile(x.astype("f8"), np.float32(0.3), axis=1, method=how).astype("f4")
        named("aten::quantile", [x], want, "x0", 0.3, 1, False, how, note=" " + how)
    named("aten::quantile", [x], np.float32(np.quantile(x, 0.5)), "x0", 0.5, None, False, "linear", note=" of all")
    holes = x.copy()
    holes[0, 1] = np.nan
    named("aten::quantile", [holes], np.quantile(holes, 0.5, axis=1, keepdims=True).astype("f4"), "x0", 0.5, 1, True, "linear", note=" with NaN")
    named("aten::histc", [x], np.histogram(x, 5, (-1, 1))[0].astype("f4"), "x0", 5, -1.0, 1.0)
    named("aten::histc", [x], np.histogram(x, 4)[0].astype("f4"), "x0", 4, 0.0, 0.0, note=" of all")


def elements(named, x):
    odd = np.array([[np.nan, np.inf, -np.inf], [1.5, 0.0, -0.0]], "f4")
    whole = np.arange(6).reshape(2, 3)
    named("aten::deg2rad", [x], np.deg2rad(x), "x0")
    named("aten::rad2deg", [whole], np.rad2deg(whole).astype("f4"), "x0", note=" of integers")
    named("aten::rad2deg", [x], np.rad2deg(x), "x0")
    named("aten::float_power", [np.abs(x)], np.float_power(np.abs(x), 2.5), "x0", 2.5)
    named("aten::heaviside", [odd, np.full_like(odd, 0.25)], np.where(odd == 0, 0.25, odd > 0).astype("f4"), "x0", "x1")
    named("aten::isfinite", [odd], np.isfinite(odd), "x0")
    other = odd + np.float32(1e-6)
    for nans in (False, True):
        named("aten::isclose", [odd, other], np.isclose(odd, other, equal_nan=nans), "x0", "x1", 1e-5, 1e-8, nans, note=f" {nans}")
    named("aten::ldexp", [x[:2, :3], whole], np.ldexp(x[:2, :3], whole), "x0", "x1")
    named("aten::nan_to_num", [odd], np.nan_to_num(odd), "x0", None, None, None)
    named("aten::nan_to_num", [odd], np.nan_to_num(odd, nan=1.0, posinf=2.0, neginf=-3.0), "x0", 1.0, 2.0, -3.0, note=" with values")
    named("aten::nan_to_num", [whole], whole, "x0", 1.0, 2.0, -3.0, note=" of integers")


def joins(named, check, x):
    a, b, c = x[0], x[:2], x[1, :2]
    named("aten::diff", [x], np.diff(x, axis=1), "x0", 1, -1, None, None)
    named("aten::diff", [x, x[:, :1]], np.diff(x, 2, axis=1, prepend=x[:, :1], append=x[:, :1]), "x0", 2, 1, "x1", "x1", note=" twice, with ends")
    named("aten::diff", [x > 0], np.diff(x > 0, axis=0), "x0", 1, 0, None, None, note=" of booleans")
    named("aten::trapezoid", [x], np.trapz(x, dx=0.5, axis=0), "x0", 0.5, 0)
    for name, f in (("fftshift", np.fft.fftshift), ("ifftshift", np.fft.ifftshift)):
        named(f"aten::fft_{name}", [x], f(x), "x0", None)
        check(f"torch.fft_{name}", f"torch.fft_{name} dim=(1)", [x], f(x, 1))
        check(f"torch.fft.{name}", f"torch.fft.{name} dim=(0,1)", [x], f(x))
    named("aten::atleast_2d", [a], np.atleast_2d(a), "x0")
    named("aten::vstack", [a, b], np.vstack([a, b]), [0, 1])
    named("aten::dstack", [b, b + 1], np.dstack([b, b + 1]), [0, 1])
    named("aten::dstack", [a, a + 1], np.dstack([a, a + 1]), [0, 1], note=" of lines")
    named("aten::column_stack", [x[:, 0], x], np.column_stack([x[:, 0], x]), [0, 1])
    want = np.zeros((3, 6), "f4")
    want[:2, :4], want[2:, 4:] = b, c
    named("aten::block_diag", [b, c], want, [0, 1])
    row = x.copy()
    row[:, 2] = x[:, 0] * 2
    named("aten::select_scatter", [x, x[:, 0] * 2], row, "x0", "x1", 1, -2)
    mask = x > 0
    filled = x.copy()
    filled[mask] = np.arange(mask.sum(), dtype="f4")
    named("aten::masked_scatter", [x, mask, np.arange(12, dtype="f4").reshape(3, 4)], filled, "x0", "x1", "x2")


def algebra(named, check, x):
    square, batch, vector = x[:, :3], np.stack([x[:, :3], x[:, 1:]]), x[0]
    named("aten::cov", [x], np.cov(x).astype("f4"), "x0", 1, None, None)
    named("aten::cov", [vector], np.float32(np.cov(vector, ddof=0)), "x0", 0, None, None, note=" of one variable")
    named("aten::corrcoef", [x], np.corrcoef(x).astype("f4"), "x0")
    for p in (1, 2, 3, 0, math.inf):
        d = np.float32(np.linalg.norm((x - x[::-1]).ravel(), p))
        named("aten::dist", [x, x[::-1].copy()], d, "x0", "x1", p, note=f" {p}")
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    named("aten::renorm", [x], np.where(norms > 1, x / norms, x), "x0", 2, 0, 1.0)
    named("aten::numpy_T", [x], x.T, "x0")
    named("aten::numpy_T", [batch], batch.T, "x0", note=" of three dims")
    named("aten::addr", [x, x[:, 0], vector], 0.5 * x + 2 * np.outer(x[:, 0], vector), "x0", "x1", "x2", 0.5, 2.0)
    named("aten::addbmm", [square, batch, batch], square + (batch @ batch).sum(0), "x0", "x1", "x2", 1, 1)
    named("aten::inner", [x, x[:2]], np.inner(x, x[:2]), "x0", "x1")
    named("aten::vdot", [vector, vector + 1], np.float32(np.vdot(vector, vector + 1)), "x0", "x1")
    named("aten::linalg_multi_dot", [square, square, x], square @ square @ x, [0, 1, 2])
    for n in (0, 1, 5, -2):
        named("aten::linalg_matrix_power", [square + 3 * np.eye(3, dtype="f4")], np.linalg.matrix_power(square + 3 * np.eye(3, dtype="f4"), n), "x0", n, note=f" {n}")
    w, bias = np.stack([x[:, :3], x[:, 1:]]), x[0, :2]
    want = np.einsum("bi,oij,bj->bo", square, w, square[::-1])
    named("aten::bilinear", [square, square[::-1].copy(), w], want, "x0", "x1", "x2", None)
    check("nn.Bilinear", "nn.Bilinear in1_features=3 in2_features=3 out_features=2 bias=True", [square, square[::-1].copy()], want + bias,
          weights={"op.weight": w, "op.bias": bias})


def losses(named, x):
    t = np.where(x > 0.2, 1, -1)
    y, p = x[::-1].copy(), np.abs(x) + np.float32(0.1)
    named("aten::hinge_embedding_loss", [x, t], np.float32(np.where(t == 1, x, np.maximum(0.5 - x, 0)).mean()), "x0", "x1", 0.5, 1)
    named("aten::margin_ranking_loss", [x, y, t.astype("f4")], np.maximum(0.3 - t * (x - y), 0).astype("f4"), "x0", "x1", "x2", 0.3, 0)
    at, w = np.array([0, 3, 1]), np.arange(1, 5, dtype="f4")
    for power in (1, 2):
        m = np.maximum(0.7 - x[range(3), at][:, None] + x, 0) ** power
        m[range(3), at] = 0
        named("aten::multi_margin_loss", [x, at], np.float32((m.sum(1) / 4).mean()), "x0", "x1", power, 0.7, None, 1, note=f" {power}")
    named("aten::multi_margin_loss", [x, at, w], (m.sum(1) / 4 * w[at]).astype("f4"), "x0", "x1", 2, 0.7, "x2", 0, note=" with weights")
    far = x * 100
    named("aten::soft_margin_loss", [far, t.astype("f4")], np.float32(np.logaddexp(0, -t * far).sum()), "x0", "x1", 2)
    for logs, full in ((True, False), (False, True)):
        want = np.exp(x) - p * x if logs else p - 2 * p * np.log(p + 1e-8)
        target = p if logs else 2 * p
        stirling = np.where(target > 1, target * np.log(target) - target + 0.5 * np.log(2 * np.pi * target), 0)
        named("aten::poisson_nll_loss", [x if logs else p, target], np.float32((want + stirling * full).mean()), "x0", "x1", logs, full, 1e-8, 1, note=f" {logs}")
    c = (x * y).sum(1) / np.linalg.norm(x, axis=1) / np.linalg.norm(y, axis=1)
    named("aten::cosine_embedding_loss", [x, y, t[:, 0]], np.where(t[:, 0] == 1, 1 - c, np.maximum(c - 0.1, 0)).astype("f4"), "x0", "x1", "x2", 0.1, 0)


def reductions(named, check, x):
    check("torch.var with a correction, as pnnx has it", "torch.var dim=(1) keepdim=False unbiased=2", [x], np.var(x, axis=1, ddof=2))
    at = np.array([[0, 0, 2, 1], [1, 1, 1, 1]])
    v = x[:2] * 2
    for how, f in (("mean", np.mean), ("amax", np.max), ("amin", np.min), ("sum", np.sum), ("prod", np.prod)):
        for include in (True, False):
            want = x.copy()
            for c in range(4):
                for r in set(at[:, c]):
                    values = [v[k, c] for k in range(2) if at[k, c] == r]
                    want[r, c] = f(values + [x[r, c]] * include)
            named("aten::scatter_reduce", [x, at, v], want, "x0", 0, "x1", "x2", how, include, note=f" {how} {include}")


def last_state(check, rand):
    """The state alone, where pnnx left the sequence away: by the sizes that the file states."""
    x, w, u, b, c = rand(2, 5, 3), rand(12, 3), rand(12, 4), rand(12), rand(12)
    h = np.zeros((2, 4), "f4")
    for t in range(5):
        i, j = np.split(x[:, t] @ w.T + b, 3, 1), np.split(h @ u.T + c, 3, 1)
        r, z = 1 / (1 + np.exp(-i[0] - j[0])), 1 / (1 + np.exp(-i[1] - j[1]))
        h = (1 - z) * np.tanh(i[2] + r * j[2]) + z * h
    weights = {"op.weight_ih_l0": w, "op.weight_hh_l0": u, "op.bias_ih_l0": b, "op.bias_hh_l0": c}
    line = "nn.GRU batch_first=True bias=True bidirectional=False hidden_size=4 input_size=3 num_layers=1"
    check("nn.GRU of which the state is used", line + " #out=(1,2,4)f32", [x], h[None].astype("f4"), weights=weights)


def cases(check, rand):
    last_state(check, rand)
    named, x = checker(check), rand(3, 4)
    order(named, x)
    elements(named, x)
    joins(named, check, x)
    algebra(named, check, x)
    losses(named, x)
    reductions(named, check, x)
