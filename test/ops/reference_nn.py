# SPDX-License-Identifier: Apache-2.0
"""Plain NumPy references of the ops that NumPy lacks, computed in float64 and rounded at the end. They are
written from the ops' definitions, by other means than the library's: whole-array expressions, not loops."""
import numpy as np


def kind_of(*args):
    """The result's type: that of the reals given, float64 of integers."""
    t = np.result_type(*[np.asarray(a).dtype for a in args if a is not None])
    return t if t.kind == "f" else np.dtype(np.float64)


def wide(x):
    return None if x is None else np.asarray(x).astype(np.float64)


def axes_of(axis, rank):
    return tuple(a % rank for a in (axis if isinstance(axis, tuple) else (axis,)))


# ---- contraction ----

def einsum(equation, *xs):
    t = np.result_type(*[x.dtype for x in xs])
    if t.kind == "f":
        return np.asarray(np.einsum(equation, *[x.astype(np.float64) for x in xs])).astype(t)
    if t.kind == "c":
        return np.asarray(np.einsum(equation, *[x.astype(np.complex128) for x in xs])).astype(t)
    return np.asarray(np.einsum(equation, *xs, dtype=t))


def matmul(a, b):
    t = np.result_type(a, b)
    if t.kind not in "fc":
        return np.asarray(np.matmul(a, b))
    w = np.float64 if t.kind == "f" else np.complex128
    return np.asarray(np.matmul(a.astype(w), b.astype(w))).astype(t)


def linear(x, w, bias):
    t = np.result_type(*[v for v in (x, w, bias) if v is not None])
    if t.kind == "f":
        x, w, bias = wide(x), wide(w), wide(bias)
    y = np.matmul(x, w.T)
    return (y if bias is None else y + bias).astype(t)


# ---- activations ----

def gelu(x, approximate):
    from reference import erfc
    t, v = kind_of(x), wide(x)
    if approximate:
        return (0.5 * v * (1 + np.tanh(np.sqrt(2 / np.pi) * (v + 0.044715 * v**3)))).astype(t)
    return (0.5 * v * erfc(-v / np.sqrt(2))).astype(t)


def rounded(f, *args):
    """f of the arguments in float64, rounded to their type."""
    return np.asarray(f(*[wide(a) for a in args])).astype(kind_of(*args))


# ---- softmax and losses ----

def softmax(x, axis):
    axis = axes_of(axis, x.ndim)
    v = wide(x)
    e = np.exp(v - np.max(v, axis, keepdims=True, initial=-np.inf))
    return (e / np.sum(e, axis, keepdims=True)).astype(kind_of(x))


def log_softmax(x, axis):
    axis = axes_of(axis, x.ndim)
    v = wide(x)
    m = np.max(v, axis, keepdims=True, initial=-np.inf)
    return (v - (np.log(np.sum(np.exp(v - m), axis, keepdims=True)) + m)).astype(kind_of(x))


def cross_entropy(x, y, axis, ignore=None):
    t = kind_of(x) if y.dtype.kind != "f" else kind_of(x, y)
    lp = np.moveaxis(log_softmax(wide(x), axis), axis, -1)
    if y.dtype.kind == "f":
        return -np.sum(np.moveaxis(wide(y), axis, -1) * lp, -1).astype(t)
    hot = np.eye(lp.shape[-1])[np.where(y == ignore, 0, y).astype(int)]
    return np.where(y == ignore, 0.0, -np.sum(hot * lp, -1)).astype(t)


def attention(q, k, v, mask, causal, scale):
    t = kind_of(q, k, v)
    q, k, v = wide(q), wide(k), wide(v)
    s = np.matmul(q, k.swapaxes(-1, -2)) * (1 / np.sqrt(q.shape[-1]) if scale is None else scale)
    may = np.ones(s.shape, bool)
    if mask is not None and mask.dtype == np.bool_:
        may = may & mask
    elif mask is not None:
        s = s + wide(mask)
    if causal:
        may = np.tril(may)
    s = np.where(may, s, -np.inf)
    m = np.max(s, -1, keepdims=True, initial=-np.inf)
    e = np.where(may, np.exp(s - np.where(np.isfinite(m), m, 0)), 0)
    total = np.sum(e, -1, keepdims=True)
    return np.matmul(e / np.where(total == 0, 1, total), v).astype(t)


# ---- normalisations ----

def along(p, axes, rank):
    """A scale or bias, whose dims are those of the axes, as an array that broadcasts."""
    shape = [1] * rank
    for d, a in zip(p.shape, sorted(axes)):
        shape[a] = d
    return wide(p).reshape(shape)


def layer_norm(x, scale, bias, axis, eps):
    t, axes, v = kind_of(x, scale, bias), axes_of(axis, x.ndim), wide(x)
    y = (v - v.mean(axes, keepdims=True)) / np.sqrt(v.var(axes, keepdims=True) + eps)
    y = y if scale is None else y * along(scale, axes, x.ndim)
    return (y if bias is None else y + along(bias, axes, x.ndim)).astype(t)


def rms_norm(x, scale, axis, eps):
    t, axes, v = kind_of(x, scale), axes_of(axis, x.ndim), wide(x)
    y = v / np.sqrt(np.mean(v * v, axes, keepdims=True) + eps)
    return (y if scale is None else y * along(scale, axes, x.ndim)).astype(t)


def l2_normalize(x, axis, eps):
    v = wide(x)
    n = np.sqrt(np.sum(v * v, axes_of(axis, x.ndim), keepdims=True))
    return (v / np.maximum(n, eps)).astype(kind_of(x))


def batch_norm(x, scale, bias, mean, var, axis, eps):
    a = axes_of(axis, x.ndim)
    s, b, m, v = (along(p, a, x.ndim) for p in (scale, bias, mean, var))
    return ((wide(x) - m) / np.sqrt(v + eps) * s + b).astype(kind_of(x, scale, bias, mean, var))


def batch_norm_train(x, scale, bias, axis, eps):
    rest = tuple(k for k in range(x.ndim) if k not in axes_of(axis, x.ndim))
    t, v = kind_of(x, scale, bias), wide(x)
    mean, var = v.mean(rest), v.var(rest)
    return batch_norm(v, wide(scale), wide(bias), mean, var, axis, eps).astype(t), mean.astype(t), var.astype(t)


def group_norm(x, scale, bias, groups, eps):
    t, v = kind_of(x, scale, bias), wide(x)
    g = v.reshape(x.shape[0], groups, -1)
    y = ((g - g.mean(2, keepdims=True)) / np.sqrt(g.var(2, keepdims=True) + eps)).reshape(x.shape)
    y = y if scale is None else y * along(scale, (1,), x.ndim)
    return (y if bias is None else y + along(bias, (1,), x.ndim)).astype(t)


# Units in the last place; a pair adds an absolute tolerance where terms cancel.
ULPS_NN = {
    "Gelu": (64, 1e-6), "SigmoidCrossEntropy": (8, 1e-6),
    "MatMul": (1, 1e-12), "Einsum": (1, 1e-12), "Linear": (1, 1e-12), "Attention": (1, 1e-12),
    "LayerNorm": (1, 1e-12), "RMSNorm": (1, 1e-12), "L2Normalize": (1, 1e-12), "BatchNorm": (1, 1e-12),
    "BatchNormTrain": (1, 1e-12), "GroupNorm": (1, 1e-12), "InstanceNorm": (1, 1e-12),
    "Softmax": (4, 1e-300), "LogSoftmax": (4, 1e-12), "SoftmaxCrossEntropy": (4, 1e-12),
}

ULPS_NN_FAMILY = {"activations": 8}

CHECKED_ELSEWHERE_NN = {}
