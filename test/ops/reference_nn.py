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


# ---- windows ----

def each(v, n):
    return tuple(v) if isinstance(v, (tuple, list)) else (v,) * n


def pads_of(padding, in_, kernel, stride, dilation):
    """(before, after) of each spatial dim."""
    n = len(in_)
    if padding == "valid":
        return [(0, 0)] * n
    if padding == "same":
        out = [-(-i // s) for i, s in zip(in_, stride)]
        total = [max(0, (o - 1) * s + (k - 1) * d + 1 - i)
                 for o, s, k, d, i in zip(out, stride, kernel, dilation, in_)]
        return [(t // 2, t - t // 2) for t in total]
    return [p if isinstance(p, tuple) else (p, p) for p in each(padding, n)]


def windows(x, kernel, stride, dilation):
    """[n, c, out..., kernel...] of an array that is padded already."""
    n = len(kernel)
    extent = [(k - 1) * d + 1 for k, d in zip(kernel, dilation)]
    v = np.lib.stride_tricks.sliding_window_view(x, extent, axis=tuple(range(2, 2 + n)))
    cut = (slice(None),) * 2 + tuple(slice(None, None, s) for s in stride)
    return v[cut + tuple(slice(None, None, d) for d in dilation)]


def conv_wide(x, w, stride, padding, dilation, groups):
    """Of float64 or int64 arrays."""
    n = x.ndim - 2
    stride, dilation = each(stride, n), each(dilation, n)
    pads = pads_of(padding, x.shape[2:], w.shape[2:], stride, dilation)
    x = np.pad(x, [(0, 0), (0, 0)] + pads)
    v = windows(x, w.shape[2:], stride, dilation)
    out = []
    for g in range(groups):
        co, ci = w.shape[0] // groups, w.shape[1]
        vg, wg = v[:, g * ci:(g + 1) * ci], w[g * co:(g + 1) * co]
        o, k = "xyz"[:n], "klm"[:n]
        out.append(np.einsum(f"bi{o}{k},oi{k}->bo{o}", vg, wg))
    return np.concatenate(out, 1)


def widen(x):
    return wide(x) if x.dtype.kind == "f" else x.astype(np.int64)


def with_bias(y, bias, t):
    if bias is not None:
        y = y + widen(bias).reshape((1, -1) + (1,) * (y.ndim - 2))
    return y.astype(t)


def conv(x, w, bias, stride, padding, dilation, groups):
    t = np.result_type(*[a for a in (x, w, bias) if a is not None])
    return with_bias(conv_wide(widen(x), widen(w), stride, padding, dilation, groups), bias, t)


def transpose_of(f, dy, shape):
    """The transpose of the linear map f, applied to dy: f of each basis vector, times dy."""
    out = np.zeros(int(np.prod(shape)), dy.dtype)
    for i in range(out.size):
        e = np.zeros(out.size, dy.dtype)
        e[i] = 1
        out[i] = np.sum(f(e.reshape(shape)) * dy)
    return out.reshape(shape)


def linear_transpose(f, dy, shape):
    return transpose_of(lambda x: wide(f(x)), wide(dy), shape).astype(kind_of(dy))


def conv_grad_input(dy, w, stride, padding, dilation, groups, shape):
    f = lambda x: conv_wide(x, widen(w), stride, padding, dilation, groups)
    return transpose_of(f, widen(dy), shape).astype(np.result_type(dy, w))


def conv_grad_weight(x, dy, stride, padding, dilation, groups, shape):
    f = lambda w: conv_wide(widen(x), w, stride, padding, dilation, groups)
    return transpose_of(f, widen(dy), shape).astype(np.result_type(x, dy))


def conv_transpose(x, w, bias, stride, padding, dilation, groups, output_padding):
    n = x.ndim - 2
    stride, dilation, extra = each(stride, n), each(dilation, n), each(output_padding, n)
    extent = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilation)]
    if padding == "same":
        size = [i * s for i, s in zip(x.shape[2:], stride)]
    else:
        pads = pads_of(padding, x.shape[2:], w.shape[2:], stride, dilation)
        size = [(i - 1) * s - sum(p) + e + o for i, s, p, e, o in zip(x.shape[2:], stride, pads, extent, extra)]
    shape = (x.shape[0], w.shape[1] * groups) + tuple(size)
    t = np.result_type(*[a for a in (x, w, bias) if a is not None])
    f = lambda v: conv_wide(v, widen(w), stride, padding, dilation, groups)
    return with_bias(transpose_of(f, widen(x), shape), bias, t)


def pool_windows(x, fill, kernel, stride, padding, ceil_mode, dilation):
    """Windows of x padded with `fill`; with ceil_mode padded further, for windows that start within."""
    n = x.ndim - 2
    kernel = each(kernel, n)
    stride, dilation = each(kernel if stride is None else stride, n), each(dilation, n)
    pads = pads_of(padding, x.shape[2:], kernel, stride, dilation)
    more = []
    for i, (a, b), k, s, d in zip(x.shape[2:], pads, kernel, stride, dilation):
        extent = (k - 1) * d + 1
        rest = (i + a + b - extent) % s
        start = i + a + b - extent - rest + s   # where one more window would start
        more.append(start + extent - (i + a + b) if ceil_mode and rest and start < i + a else 0)
    x = np.pad(x, [(0, 0), (0, 0)] + pads, constant_values=fill)
    counted = np.ones(x.shape[2:])
    x = np.pad(x, [(0, 0), (0, 0)] + [(0, m) for m in more], constant_values=fill)
    counted = np.pad(counted, [(0, m) for m in more])
    return windows(x, kernel, stride, dilation), windows(counted[None, None], kernel, stride, dilation), n


def last(n):
    return tuple(range(-n, 0))


def avg_pool(x, kernel, stride, padding, ceil_mode, count_include_pad):
    v, counted, n = pool_windows(wide(x), 0.0, kernel, stride, padding, ceil_mode, 1)
    if not count_include_pad:
        counted = pool_windows(np.ones((1, 1) + x.shape[2:]), 0.0, kernel, stride, padding, ceil_mode, 1)[0]
    return (v.sum(last(n)) / counted.sum(last(n))).astype(kind_of(x))


def least(t):
    return -np.inf if t.kind == "f" else False if t.kind == "b" else np.iinfo(t).min


def max_pool(x, kernel, stride, padding, ceil_mode, dilation):
    v, _, n = pool_windows(x, least(x.dtype), kernel, stride, padding, ceil_mode, dilation)
    return v.max(last(n), initial=least(x.dtype))


def max_pool_places(x, kernel, stride, padding, ceil_mode, dilation):
    """The number of the element of x that is the first greatest one, for each window."""
    v, _, n = pool_windows(wide(x), -np.inf, kernel, stride, padding, ceil_mode, dilation)
    ids = np.arange(x.size, dtype=np.float64).reshape(x.shape)
    which, _, _ = pool_windows(ids, -1.0, kernel, stride, padding, ceil_mode, dilation)
    flat = v.reshape(v.shape[:x.ndim] + (-1,))
    return np.take_along_axis(which.reshape(flat.shape), flat.argmax(-1)[..., None], -1)[..., 0].astype(int)


def max_pool_pick(x, v, kernel, stride, padding, ceil_mode, dilation):
    return v.ravel()[max_pool_places(x, kernel, stride, padding, ceil_mode, dilation)].astype(kind_of(v))


def max_pool_grad(x, dy, kernel, stride, padding, ceil_mode, dilation):
    at = max_pool_places(x, kernel, stride, padding, ceil_mode, dilation)
    out = np.zeros(x.size)
    np.add.at(out, at.ravel(), wide(dy).ravel())
    return out.reshape(x.shape).astype(kind_of(dy))


def adaptive_avg_pool(x, shape):
    v = wide(x)
    for k, size in enumerate(each(shape, x.ndim - 2)):
        axis, d = 2 + k, v.shape[2 + k]
        parts = [np.mean(np.take(v, range(i * d // size, -(-(i + 1) * d // size)), axis), axis, keepdims=True)
                 for i in range(size)]
        v = np.concatenate(parts, axis) if parts else np.take(v, [], axis)
    return v.astype(kind_of(x))


def resize(x, shape, mode, align_corners):
    shape = each(shape, x.ndim - 2)
    v = x if mode == "nearest" else wide(x)
    for k, n in enumerate(shape):
        axis, d = 2 + k, v.shape[2 + k]
        o = np.arange(n)
        if mode == "nearest":
            v = np.take(v, o * d // n, axis)
            continue
        at = o * ((d - 1) / (n - 1) if n > 1 else 0) if align_corners else np.maximum((o + 0.5) * d / n - 0.5, 0)
        low = np.minimum(np.floor(at).astype(int), d - 1)
        high = np.minimum(low + 1, d - 1)
        w = (at - low).reshape((-1,) + (1,) * (v.ndim - axis - 1))
        v = np.take(v, low, axis) * (1 - w) + np.take(v, high, axis) * w
    return v if mode == "nearest" else v.astype(kind_of(x))


# ---- random: docs/random.md in NumPy ----

def philox(counter, key):
    """Blocks of four words: counter is four arrays of 32-bit words, key two words."""
    mask, c, k = np.uint64(0xFFFFFFFF), [np.asarray(w, np.uint64) for w in counter], [int(w) for w in key]
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(b >> np.uint64(32)) ^ c[1] ^ np.uint64(k[0]), b & mask,
             (a >> np.uint64(32)) ^ c[3] ^ np.uint64(k[1]), a & mask]
        k = [(k[0] + 0x9E3779B9) % 2**32, (k[1] + 0xBB67AE85) % 2**32]
    return np.stack(c, -1)


def blocks(key, numbers, purpose):
    n = np.asarray(numbers, np.uint64)
    zero = np.zeros(n.shape, np.uint64)
    words = (int(key) % 2**32, int(key) >> 32)
    return philox((n & np.uint64(0xFFFFFFFF), n >> np.uint64(32), zero, zero + np.uint64(purpose)), words)


def words32(key, n):
    return blocks(key, np.arange(-(-n // 4)), 0).reshape(-1)[:n]


def words64(key, n):
    w = blocks(key, np.arange(-(-n // 2)), 0).reshape(-1, 2)
    return (w[:, 0] | w[:, 1] << np.uint64(32))[:n]


def size_of(shape):
    shape = shape if isinstance(shape, tuple) else (shape,)
    return shape, int(np.prod(shape, dtype=int))


def random_split(key, n):
    w = blocks(key, np.arange(n), 1)
    return w[:, 0] | w[:, 1] << np.uint64(32)


def random_fold_in(key, data):
    w = blocks(key, np.asarray(data).astype(np.int64).astype(np.uint64), 2)
    return w[0] | w[1] << np.uint64(32)


def random_bits(key, shape, dtype):
    shape, n = size_of(shape)
    bits = np.dtype(dtype).itemsize * 8
    w = words64(key, n) if bits == 64 else words32(key, n) >> np.uint64(32 - bits)
    return w.astype(dtype).reshape(shape)


def random_uniform(key, shape, dtype, low, high):
    shape, n = size_of(shape)
    if dtype == np.float64:
        x = low + (words64(key, n) >> np.uint64(11)).astype(np.float64) * 2.0**-53 * (high - low)
    else:
        p = 11 if dtype == np.float16 else 24
        low, high = (np.float32(dtype(v)) for v in (low, high))
        u = (words32(key, n) >> np.uint64(32 - p)).astype(np.float32) * np.float32(2.0**-p)
        x = (low + u * (high - low)).astype(dtype)
    if low < high:
        x = np.where(x < dtype(high), x, np.nextafter(dtype(high), dtype(-np.inf)))
    return x.astype(dtype).reshape(shape)


def halfway32(key, n):
    return (words32(key, n).astype(np.float64) + 0.5) * 2.0**-32


def random_normal(key, shape, dtype, mean, std):
    from statistics import NormalDist
    shape, n = size_of(shape)
    p = (words64(key, n) >> np.uint64(12)).astype(np.float64)
    p = (p + 0.5) * 2.0**-52 if dtype == np.float64 else halfway32(key, n)
    z = np.array([NormalDist().inv_cdf(float(v)) for v in p], np.float64)
    return (mean + std * z).astype(dtype).reshape(shape)


def random_bernoulli(key, p, shape):
    shape, n = size_of(p.shape if shape is None else shape)
    return (words32(key, n).astype(np.float64) * 2.0**-32).reshape(shape) < p


def random_int(key, high, low, shape, dtype):
    shape, n = size_of(shape)
    v = [low + (int(w) * (high - low) >> 64) for w in words64(key, n)]
    return np.array(v, np.int64 if np.dtype(dtype).kind == "i" else np.uint64).astype(dtype).reshape(shape)


def random_permutation(key, n):
    return np.argsort(words64(key, n), kind="stable")


def random_categorical(key, logits, axis, shape):
    x = np.moveaxis(wide(logits), axis, -1)
    shape, n = size_of(x.shape[:-1] if shape is None else shape)
    classes = x.shape[-1]
    gumbel = -np.log(-np.log(halfway32(key, n * classes)))
    return np.asarray(np.argmax(x + gumbel.reshape(shape + (classes,)), -1))


def random_dropout(x, key, rate):
    keep = (words32(key, x.size).astype(np.float64) * 2.0**-32 >= rate).reshape(x.shape)
    scale = x.dtype.type(1 / (1 - rate)) if rate < 1 else x.dtype.type(0)
    return np.where(keep, x * scale, x.dtype.type(0))


# ---- quantised numbers ----

def code_type(*xs):
    return np.float64 if np.result_type(*[np.float64 if np.asarray(x).dtype.kind in "iub" else x for x in xs]) == np.float64 else np.float32


def quantize(x, scale, zero, dtype, t=None):
    t = t or code_type(x, scale)
    info = np.iinfo(dtype)
    hi = t(info.max) if t is np.float64 or info.max < 2**24 else np.nextafter(t(2.0**31), t(0))
    with np.errstate(all="ignore"):
        q = np.rint(x.astype(t) / scale.astype(t)) + (t(0) if zero is None else zero.astype(t))
        return np.nan_to_num(np.clip(q, t(info.min), hi)).astype(dtype)


def unpack_bits(x, bits, axis, t=None):
    """Codes of each byte along an axis, from the lowest bits on."""
    x = np.asarray(x)
    code = np.stack([x.view(np.uint8) >> bits * k & 2**bits - 1 for k in range(8 // bits)], axis % x.ndim + 1)
    if x.dtype == np.int8:
        code = np.where(code >= 2 ** (bits - 1), code.astype(int) - 2**bits, code)
    shape = list(x.shape)
    shape[axis] *= 8 // bits
    return code.reshape(shape).astype(x.dtype)


def dequantize(q, scale, zero):
    t = code_type(scale)
    d = q.astype(t) - (t(0) if zero is None else zero.astype(t))
    return (d * scale.astype(t)).astype(scale.dtype)


def fake_quantize(x, scale, zero, dtype):
    t = code_type(x, scale)
    y = dequantize(quantize(x, scale, zero, dtype, t), scale.astype(t), zero)
    return y.astype(np.result_type(x, scale))


def dynamic_quantize(x, dtype, axis):
    t, info = code_type(x), np.iinfo(dtype)
    axis = None if axis is None else tuple(np.atleast_1d(axis))
    kw = dict(axis=axis, keepdims=axis is not None)
    lo, hi = np.minimum(np.min(x, **kw), 0).astype(t), np.maximum(np.max(x, **kw), 0).astype(t)
    span = np.maximum(-lo, hi) if info.min < 0 else hi - lo
    scale = (span / t(info.max)).astype(x.dtype)
    scale = np.where(scale == 0, x.dtype.type(1), scale)
    zero = quantize(-lo, scale, None, dtype, t) if info.min == 0 else np.zeros(np.shape(scale), dtype)
    return quantize(x, scale, zero, dtype, t), scale, zero


# ---- sorting ----

def argsort(x, axis, descending=False):
    """With Python's stable sort: NaN last, then by value."""
    def order(line):
        key = lambda i: (bool(line[i] != line[i]), 0 if line[i] != line[i] else
                         -line[i].item() if descending else line[i].item())
        return np.array(sorted(range(len(line)), key=key), np.int64)
    if x.size == 0:
        return np.zeros(x.shape, np.int64)
    return np.apply_along_axis(order, axis, x)


def topk(x, k, axis, largest):
    i = np.take(argsort(x, axis, largest), range(k), axis)
    return np.take_along_axis(x, i, axis), i


def bincount(x, weights, length):
    t = np.dtype(np.int64) if weights is None or weights.dtype == np.bool_ else weights.dtype
    hot = np.asarray(x)[None, :] == np.arange(length)[:, None]
    w = np.ones(x.shape) if weights is None else weights.astype(np.float64)
    return np.sum(np.where(hot, w[None, :], 0), 1).astype(t)


# ---- linear algebra ----

def cholesky(a):
    v = wide(a)
    sym = np.tril(v) + np.swapaxes(np.tril(v, -1), -1, -2)
    out = np.full(v.shape, np.nan)
    for i in np.ndindex(v.shape[:-2]):
        try:
            out[i] = np.linalg.cholesky(sym[i])
        except np.linalg.LinAlgError:
            pass
    return out.astype(kind_of(a))


def greatest_positive(vectors, axis):
    """1 or -1 for each vector, so that its greatest component is positive."""
    if not vectors.size:
        return np.ones_like(np.sum(vectors, axis, keepdims=True))
    at = np.expand_dims(np.argmax(np.abs(vectors), axis), axis)
    return np.where(np.take_along_axis(vectors, at, axis) < 0, -1.0, 1.0)


def eigh(a):
    x = wide(a)
    w, v = np.linalg.eigh((x + np.swapaxes(x, -1, -2)) / 2)
    return w.astype(kind_of(a)), (v * greatest_positive(v, -2)).astype(kind_of(a))


def svd(a):
    u, s, vt = np.linalg.svd(wide(a), full_matrices=False)
    sign = greatest_positive(vt, -1)
    return (u * np.swapaxes(sign, -1, -2)).astype(kind_of(a)), s.astype(kind_of(a)), (vt * sign).astype(kind_of(a))


def lu(a):
    """By elimination, one matrix after another."""
    x = wide(a)
    (m, n), lead = x.shape[-2:], x.shape[:-2]
    pivots, rows = np.zeros((*lead, min(m, n)), np.int32), np.zeros((*lead, m), np.int32)
    for i in np.ndindex(lead):
        rows[i] = np.arange(m)
        for c in range(min(m, n)):
            p = pivots[i][c] = c + np.argmax(abs(x[i][c:, c]))
            for t in (x[i], rows[i]):
                t[[c, p]] = t[[p, c]]
            x[i][c + 1:, c] /= x[i][c, c] if x[i][c, c] else 1
            x[i][c + 1:, c + 1:] -= np.outer(x[i][c + 1:, c], x[i][c, c + 1:])
    return x.astype(kind_of(a)), pivots, rows


def householder(a):
    x = wide(a)
    (m, n), lead = x.shape[-2:], x.shape[:-2]
    tau = np.zeros((*lead, min(m, n)))
    for i in np.ndindex(lead if x.size else (0,)):
        h, tau[i] = np.linalg.qr(x[i], mode="raw")
        x[i] = h.T
    return x.astype(kind_of(a)), tau.astype(kind_of(a))


def fft(x, axis, inverse):
    y = np.fft.ifft(x, axis=axis, norm="forward") if inverse else np.fft.fft(x, axis=axis)
    return y.astype(np.complex64 if x.dtype in (np.float16, np.float32, np.complex64) else np.complex128)


def triangular_solve(a, b, lower, transpose, unit):
    v = np.tril(wide(a)) if lower else np.triu(wide(a))
    if unit:
        eye = np.eye(a.shape[-1])
        v = v * (1 - eye) + eye
    return np.linalg.solve(v.swapaxes(-1, -2) if transpose else v, wide(b)).astype(kind_of(a, b))


# Units in the last place; a pair adds an absolute tolerance where terms cancel.
ULPS_NN = {
    "Gelu": (64, 1e-6), "SigmoidCrossEntropy": (8, 1e-6),
    "MatMul": (1, 1e-12), "Einsum": (1, 1e-12), "Linear": (1, 1e-12), "Attention": (1, 1e-12),
    "LayerNorm": (1, 1e-12), "RMSNorm": (1, 1e-12), "L2Normalize": (1, 1e-12), "BatchNorm": (1, 1e-12),
    "BatchNormTrain": (1, 1e-12), "GroupNorm": (1, 1e-12), "InstanceNorm": (1, 1e-12),
    "Normal": (4, 1e-15), "Uniform": 0, "Softmax": (4, 1e-300), "LogSoftmax": (4, 1e-12), "SoftmaxCrossEntropy": (4, 1e-12),
}

ULPS_NN_FAMILY = {"activations": 8, "convolutions": (1, 1e-12), "pools": (1, 1e-12), "linear algebra": (4000, 1e-9)}

# Cases that no random choice would meet: op, attributes, inputs.
SPECIAL = np.array([3.0, np.nan, -np.inf, 0.0, -0.0, np.inf, np.nan, -1.0], np.float32)
EXTRA_NN = [
    ("SearchSorted", {}, [np.array([1, 2, 2, 2, 5], np.int32), np.arange(7, dtype=np.int32)]),
    ("SearchSorted", {"side": "right"}, [np.array([1, 2, 2, 2, 5], np.int32), np.arange(7, dtype=np.int32)]),
    ("SearchSorted", {"side": "right"}, [np.sort(SPECIAL), SPECIAL]),
    ("SearchSorted", {}, [np.sort(SPECIAL), SPECIAL]),
    ("SearchSorted", {}, [np.array([1, 2**63], np.uint64), np.array([0, 2**63 - 1, 2**64 - 1], np.uint64)]),
    ("Sort", {}, [SPECIAL]), ("Sort", {"descending": True}, [SPECIAL]),
    ("ArgSort", {}, [SPECIAL]), ("ArgSort", {"descending": True}, [SPECIAL]),
    ("ArgSort", {}, [np.array([2, 1, 2, 1, 2, 1, 0], np.int8)]),
    ("ArgSort", {"descending": True}, [np.array([2**63, 1, 2**64 - 1, 1], np.uint64)]),
    ("TopK", {"k": 3}, [SPECIAL]), ("TopK", {"k": 5, "largest": False}, [SPECIAL]),
    ("Softmax", {}, [np.array([[1e4, 1e4 - 1, -1e4], [-np.inf, 0, 0]], np.float32)]),
    ("Softmax", {}, [np.full((2, 3), -np.inf, np.float32)]),
    ("LogSoftmax", {}, [np.array([[1e4, 1e4 - 1, -1e4], [-np.inf, 0, 0]], np.float32)]),
    ("MatMul", {}, [np.full((1, 3), 1e20, np.float32), np.array([[1e20], [-1e20], [1]], np.float32)]),
    ("MatMul", {}, [np.array([[2**62, 2]], np.int64), np.array([[4], [3]], np.int64)]),
    ("MaxPool2D", {"kernel": 2, "stride": 1}, [SPECIAL.reshape(1, 1, 2, 4)]),
    ("Relu", {}, [SPECIAL]), ("Sigmoid", {}, [np.array([-1000.0, 1000.0, -np.inf, np.inf])]),
    ("Softplus", {}, [np.array([-1000.0, 1000.0, 0.0])]), ("Silu", {}, [np.array([-1000.0, 1000.0])]),
    ("Cholesky", {}, [np.array([[4, 99, 99], [2, 5, 99], [-2, 1, 6]], np.float64)]),
    ("Cholesky", {}, [np.array([[[2, 0], [1, 2]], [[1, 0], [1, 1]], [[1, 0], [2, 1]]], np.float32)]),
    ("Inverse", {}, [np.array([[0, 2], [4, 0]], np.float32)]), ("Det", {}, [np.array([[0, 2], [4, 0]], np.float32)]),
    ("Det", {}, [np.array([[1, 2], [2, 4]], np.float64)]), ("Solve", {}, [np.array([[0, 2], [4, 0]], np.int32), np.eye(2)]),
    ("RandInt", {"high": 2**63 - 1, "low": -2**63, "shape": (9,)}, [np.array(7, np.uint64)]),
]

# Requests that must fail, and with which code.
X23, X32, V2, ONE, KEY = ("f32[2,3]:" + "00" * 24, "f32[3,2]:" + "00" * 24, "f32[2]:" + "00" * 8,
                          "f32[]:00000000", "key[]:" + "00" * 8)
IMAGE, KERNEL = "f32[1,2,4,4]:" + "00" * 128, "f32[2,2,3,3]:" + "00" * 144
ERRORS_NN = [
    (f"Partial | {ONE}", "E0501"), (f"TupleGet index=0 | {ONE}", "E0504"), (f"TupleGet index=2 | ( {ONE} )", "E0505"),
    (f"TupleGet index=-2 | ( {ONE} )", "E0505"), (f"TupleSet index=1 | ( {ONE} ) {ONE}", "E0501"),
    (f"TupleSlice step=0 | ( {ONE} )", "E0501"), (f"TupleLen | {ONE}", "E0501"), (f"TupleConcat | ( ) {ONE}", "E0501"),
    (f"SwitchLayer | i64[]:{'00' * 8}", "E0441"), (f"SwitchLayer | i64[]:03{'00' * 7} {ONE} {ONE} {ONE}", "E0441"),
    (f"SwitchLayer | {ONE} {ONE}", "E0501"), (f"Switch | {V2} {ONE} {ONE}", "E0501"),
    ("Assert | bool[]:00", "E0442"), (f"Assert | {V2}", "E0501"), ("Assert | bool[]:01 None", ""),
    (f"MakeRecord names=(1,) | {ONE}", "E0541"), (f"MakeRecord names=() | {ONE}", "E0541"),
    (f"RecordGet field='a | {ONE}", "E0501"), (f"RecordSet field='a | {ONE} {ONE}", "E0501"),
    (f"MatMul | {X23} {X23}", "E0544"), (f"MatMul tb=true | {X23} {X32}", "E0544"), (f"MatMul | {ONE} {X23}", "E0501"),
    (f"MatMul ta=true | {V2} {X23}", "E0501"), (f"MatMul | None {X23}", "E0502"), (f"MatMul | {KEY} {X23}", "E0501"),
    (f"MatMul | f32[2,1,1]:{'00' * 8} f32[3,1,1]:{'00' * 12}", "E0544"),
    (f"Linear | {X23} {X32}", "E0544"), (f"Linear | {X23} {X23} {ONE}", "E0544"), (f"Linear | {ONE} {X23}", "E0501"),
    (f"Linear | {X23} {X23} None", ""), (f"Linear | {X23} {KEY}", "E0501"), (f"Linear | {X23} None", "E0502"),
    ("Einsum equation='ij |", "E0501"),
    *[(f"Einsum equation='{e} | {X23}", "E0545") for e in
      ("i", "ijk", "ij,jk", "i1", "ij->ik", "ij->ii", "ij-", "ij->ij,i", "i..j", "......", "->", "", "ij>", ",", "i.j")],
    (f"Einsum equation='ij,ij | {X23} {X32}", "E0545"), (f"Einsum equation='ij | {KEY}", "E0545"),
    (f"Einsum equation='ij,ij | {X23} {KEY}", "E0501"),
    (f"Softmax axis=2 | {X23}", "E0540"), (f"Softmax axis=(0,-2) | {X23}", "E0501"), (f"Softmax | {ONE}", "E0540"),
    ("Softmax | c64[1]:" + "00" * 8, "E0506"), ("Softmax | None", "E0502"), ("Relu | c64[]:" + "00" * 8, "E0506"),
    (f"SoftmaxCrossEntropy | {V2} i64[]:02{'00' * 7}", "E0443"), (f"SoftmaxCrossEntropy | {V2} i64[]:{'ff' * 8}", "E0443"),
    (f"SoftmaxCrossEntropy | {V2} i64[1]:{'00' * 8}", "E0546"), (f"SoftmaxCrossEntropy | {V2} {X23}", "E0546"),
    (f"SoftmaxCrossEntropy | {V2} bool[]:00", "E0501"), (f"SoftmaxCrossEntropy | {V2} None", "E0502"),
    ("SoftmaxCrossEntropy | f32[0]: i64[]:" + "00" * 8, "E0443"), ("SoftmaxCrossEntropy | f32[3,0]: i64[3]:" + "00" * 24, "E0443"),
    (f"LayerNorm | {X23} {V2}", "E0546"), (f"LayerNorm axis=5 | {X23}", "E0540"), (f"BatchNorm | {X23} {V2} {V2} {V2} {V2}", "E0546"),
    (f"BatchNormTrain axis=0 | {X23} {V2} {X23}", "E0546"), (f"GroupNorm groups=2 | {X23}", "E0501"),
    (f"GroupNorm groups=0 | {X23}", "E0501"), (f"InstanceNorm | {V2}", "E0501"), (f"GroupNorm | {X23}", "E0206"),
    (f"Attention | {X23} {X32} {X32}", "E0544"), (f"Attention | {X23} {X23} {X32}", "E0544"), (f"Attention | {V2} {V2} {V2}", "E0501"),
    (f"Attention | {X23} {X23} {X23} {X23}", "E0544"), (f"Attention | {X23} {X23} {X23} i64[]:{'00' * 8}", "E0501"),
    (f"Embedding | {X23} i64[]:02{'00' * 7}", "E0404"), (f"Embedding | {X23} {ONE}", "E0501"), (f"Embedding | {ONE} i64[]:{'00' * 8}", "E0501"),
    (f"Conv2D stride=0 | {IMAGE} {KERNEL}", "E0548"), (f"Conv2D stride=(1,1,1) | {IMAGE} {KERNEL}", "E0547"),
    (f"Conv2D padding='full | {IMAGE} {KERNEL}", "E0549"), (f"Conv2D padding=(1,(1,2,3)) | {IMAGE} {KERNEL}", "E0549"),
    (f"Conv2D padding=0.5 | {IMAGE} {KERNEL}", "E0549"), (f"Conv2D padding=(1,) | {IMAGE} {KERNEL}", "E0549"),
    (f"Conv2D padding=-1 | {IMAGE} {KERNEL}", "E0548"), (f"Conv2D groups=2 | {IMAGE} {KERNEL}", "E0544"),
    (f"Conv2D groups=0 | {IMAGE} {KERNEL}", "E0501"), (f"Conv2D dilation=3 | {IMAGE} {KERNEL}", "E0501"),
    (f"Conv2D dilation=2147483647 stride=2147483647 padding=2147483647 | {IMAGE} {KERNEL}", ""),
    (f"Conv2D | {IMAGE} {KERNEL} {ONE}", "E0546"), (f"Conv1D | {IMAGE} {KERNEL}", "E0501"), (f"Conv2D | {IMAGE} None", "E0502"),
    ("Conv2D | c64[1,0,1,1]: c64[1,0,1,1]:", "E0506"), (f"ConvGradInput shape=(1,2,4) | {IMAGE} {KERNEL}", "E0501"),
    (f"ConvGradInput shape=(1,2,4,4) | {IMAGE} {KERNEL}", "E0501"), (f"ConvGradInput padding=1 shape=(1,3,4,4) | {IMAGE} {KERNEL}", "E0544"),
    (f"ConvGradInput padding=1 shape=(1,2,4,4) | {IMAGE} {KERNEL}", ""), (f"ConvGradWeight shape=(2,-1,3,3) | {IMAGE} {IMAGE}", "E0548"),
    (f"ConvTranspose2D output_padding=1 | {IMAGE} {KERNEL}", "E0501"), (f"ConvTranspose2D padding=9 | {IMAGE} {KERNEL}", "E0501"),
    (f"ConvTranspose2D stride=2147483647 | {IMAGE} {KERNEL}", "E0507"),
    (f"MaxPool2D kernel=0 | {IMAGE}", "E0548"), (f"MaxPool2D kernel=5 | {IMAGE}", "E0501"), (f"MaxPool2D kernel=(1,1,1) | {IMAGE}", "E0547"),
    (f"AvgPool2D kernel=2 padding=2 | {IMAGE}", "E0501"), (f"MaxPool1D kernel=1 | {IMAGE}", "E0501"), ("MaxPool1D kernel=1 | c64[1,1,0]:", "E0506"),
    (f"MaxPoolGrad kernel=2 | {IMAGE} {IMAGE}", "E0546"), (f"AvgPoolGrad kernel=2 shape=(1,2,4,4) | {IMAGE}", "E0546"),
    (f"AvgPoolGrad kernel=2 shape=(1,2) | {IMAGE}", "E0501"), (f"AdaptiveAvgPool2D shape=-1 | {IMAGE}", "E0548"),
    (f"AdaptiveAvgPool2D shape=2147483647 | {IMAGE}", "E0507"), ("AdaptiveAvgPool1D shape=1 | f32[1,1,0]:", "E0501"),
    (f"Resize shape=-1 | {IMAGE}", "E0548"), (f"Resize shape=2 mode='cubic | {IMAGE}", "E0501"), ("Resize shape=2 | f32[1,1,0]:", "E0501"),
    (f"Upsample scale=2147483647 | {IMAGE}", "E0507"), (f"ResizeGrad shape=(1,1,2,2) | {IMAGE}", "E0501"),
    (f"Key | {ONE}", "E0501"), (f"SplitKey | {ONE}", "E0550"), (f"SplitKey n=-1 | {KEY}", "E0501"), (f"FoldIn | {KEY} {ONE}", "E0501"),
    (f"RandomBits dtype=@i32 | {KEY}", "E0501"), (f"Uniform dtype=@i32 | {KEY}", "E0501"), (f"Uniform shape=(-1,) | {KEY}", "E0501"),
    (f"RandInt high=0 | {KEY}", "E0501"), (f"RandInt high=129 dtype=@i8 | {KEY}", "E0501"), (f"RandInt high=1 dtype=@f32 | {KEY}", "E0501"),
    (f"Bernoulli shape=(3,) | {KEY} {V2}", "E0544"), (f"Permutation n=-1 | {KEY}", "E0501"), (f"Permutation n=9223372036854775807 | {KEY}", "E0507"),
    (f"Shuffle | {KEY} {ONE}", "E0540"), ("Categorical | " + KEY + " f32[0]:", "E0501"), (f"Categorical shape=(3,) | {KEY} {X23}", "E0544"),
    (f"Dropout rate=1.5 | {ONE} {KEY}", "E0501"), (f"Dropout rate=nan | {ONE} {KEY}", "E0501"), (f"Dropout | {ONE} {ONE}", "E0550"),
    (f"Sort | {ONE}", "E0540"), ("Sort | c64[1]:" + "00" * 8, "E0506"), (f"Sort | {KEY}", "E0506"), (f"TopK k=3 | {V2}", "E0501"),
    (f"SearchSorted side='middle | {V2} {V2}", "E0501"), (f"SearchSorted | {X23} {V2}", "E0501"), (f"Bincount length=1 | {V2}", "E0501"),
    ("Bincount length=2 | i8[1]:02", "E0404"), ("Bincount length=2 | i8[1]:ff", "E0404"), ("Bincount length=-1 | i8[0]:", "E0501"),
    (f"Inverse | {X23}", "E0501"), (f"Det | {V2}", "E0501"), ("Cholesky | c64[0,0]:", "E0506"),
    (f"Solve | f32[2,2]:{'00' * 16} {V2}", "E0544"), (f"TriangularSolve | f32[2,2]:{'00' * 16} {X32}", "E0544"),
    (f"Inverse | f32[2,2]:{'00' * 16}", ""), ("HyperMap | None", "E0403"), ("Print |", "E0403"),
]

# Ops that NumPy cannot check, and where they are checked.
CONTROL = ("Assert Partial Switch SwitchLayer MakeRecord RecordGet RecordSet MakeTuple TupleConcat "
           "TupleGet TupleLen TupleSet TupleSlice")
PROGRAMS = ("HyperMap Map MultiType Print Checkpoint CustomJvp CustomVjp Grad Hessian JacFwd JacRev Jvp Linearize "
            "ValueAndGrad Vjp Vmap")
CHECKED_ELSEWHERE_NN = {**dict.fromkeys(CONTROL.split(), "test/unit/test_ops_nn.c"),
                        **dict.fromkeys(PROGRAMS.split(), "golden programs")}
