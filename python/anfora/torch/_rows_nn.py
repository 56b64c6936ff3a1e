# SPDX-License-Identifier: Apache-2.0
"""Rows: products, convolutions, pools, normalisations, softmax, attention, interpolation."""
from __future__ import annotations

import math
from typing import Any

import torch

from ._graph import DTYPES, Dims, Expr, Unsupported, Value, number
from ._rows_index import from_start, put_over
from ._table import row


# ---- products ----

SHAPING = {torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default, torch.ops.aten.reshape.default}


def repeated(g: Any, node: Any) -> Any:
    """The node of the one matrix that a batch repeats, by expand and views of its leading dims; None: its matrices may differ."""
    matrix = g.sizes.dims(node.meta["val"])[-2:]
    while node.target in SHAPING and g.sizes.dims(node.args[0].meta["val"])[-2:] == matrix:
        node = node.args[0]
    if node.target is not torch.ops.aten.expand.default:
        return None
    shape = g.sizes.dims(node.args[0].meta["val"])
    return node.args[0] if shape[-2:] == matrix and math.prod(shape[:-2]) == 1 and isinstance(g.env.get(node.args[0]), Value) else None


@row("bmm.default")
def bmm(g: Any, self_: Value, mat2: Value) -> Any:
    """By one matrix for the whole batch, which matmul repeats where no gradient is wanted, as one product: neither that matrix nor its
    gradient is made for each element of the batch."""
    (batch, rows, k), n = self_.shape, mat2.shape[-1]
    left, right = (repeated(g, x) for x in g.node.args[:2])
    if right is not None and g.out.numel:
        return g.let(f"{g.reshape(self_, (batch * rows, k))} @ {g.reshape(g.env[right], (k, n))}", g.out.dtype, (batch * rows, n))
    return f"{self_ if left is None else g.reshape(g.env[left], (rows, k))} @ {mat2}"


@row("addmm", "addbmm", "addmv", "baddbmm")
def addmm(g: Any, self_: Value, beta: Any, alpha: Any, **operands: Value) -> Any:
    a, b = operands.values()
    text = f"{a} @ {b}"
    if "addbmm" in str(g.node.target) and "baddbmm" not in str(g.node.target):
        text = f"Sum({text}, axis=0)"
    if alpha != 1:
        text = f"{number(alpha, g.out.dtype)} * ({text})"
    if beta == 0:
        return g.broadcast(g.let(text, g.out.dtype, g.out.shape), g.out.shape)
    return f"{text} + {self_ if beta == 1 else f'{number(beta, g.out.dtype)} * {self_}'}"


@row("_trilinear")
def trilinear(g: Any, i1: Value, i2: Value, i3: Value, expand1: list, expand2: list, expand3: list, sumdim: list, unroll_dim: int) -> Any:
    """The product of all three, each with new dims, summed along some."""
    n = i1.ndim + len(expand1)
    parts = []
    for x, new in ((i1, expand1), (i2, expand2), (i3, expand3)):
        old = iter(x.shape)
        parts.append(g.reshape(x, [1 if k in new else next(old) for k in range(n)]))
    return f"Sum({' * '.join(parts)}, axis={Dims(sumdim)})"


@row("linear")
def linear(g: Any, input: Value, weight: Value, bias: Any) -> Any:
    return f"Linear({input}, {weight}{'' if bias is None else f', {bias}'})"


# ---- convolutions ----

def window(**attributes: Any) -> str:
    return "".join(f", {k}={Dims(v) if isinstance(v, (list, tuple)) else v}" for k, v in attributes.items())


@row("convolution")
def convolution(g: Any, input: Value, weight: Value, bias: Any, stride: list, padding: list, dilation: list, transposed: bool,
                output_padding: list, groups: int) -> Any:
    n = input.ndim - 2
    operands = f"{input}, {weight}" + ("" if bias is None else f", {bias}")
    attributes = window(stride=spread(stride, n), padding=spread(padding, n), dilation=spread(dilation, n), groups=groups)
    if transposed:
        return f"ConvTranspose{n}D({operands}{attributes}{window(output_padding=spread(output_padding, n))})"
    return f"Conv{n}D({operands}{attributes})"


def spread(v: list, n: int) -> list:
    return list(v) if len(v) == n else list(v) * n


@row("convolution_backward")
def convolution_backward(g: Any, grad_output: Value, input: Value, weight: Value, bias_sizes: Any, stride: list, padding: list,
                         dilation: list, transposed: bool, output_padding: list, groups: int, output_mask: list) -> Any:
    n = input.ndim - 2
    w = window(stride=spread(stride, n), padding=spread(padding, n), dilation=spread(dilation, n), groups=groups)
    dx = f"Conv{n}D({grad_output}, {weight}{w})" if transposed else \
        f"ConvGradInput({grad_output}, {weight}{w}, shape={input.shape})"
    x, dy = (grad_output, input) if transposed else (input, grad_output)
    dw = f"ConvGradWeight({x}, {dy}{w}, shape={weight.shape})"
    db = f"Sum({grad_output}, axis={Dims([0, *range(2, input.ndim)])})"
    return [Expr(t, input.dtype, o.shape) if wanted and isinstance(o, Value) else None
            for t, o, wanted in zip((dx, dw, db), g.out, output_mask)]


# ---- pools ----

def batched(g: Any, x: Value, n: int) -> Value:
    """With a batch dim in front, as pools take it."""
    return x if x.ndim == n + 2 else g.reshape(x, (1,) * (n + 2 - x.ndim) + x.shape)


def pooling(n: int, kernel: list, stride: list, padding: list, ceil_mode: bool, **more: Any) -> str:
    return window(kernel=spread(kernel, n), stride=spread(stride, n) if stride else spread(kernel, n), padding=spread(padding, n),
                  ceil_mode="true" if ceil_mode else "false", **more)


@row("avg_pool1d", "avg_pool2d", "avg_pool3d")
def avg_pool(g: Any, self_: Value, kernel_size: list, stride: list, padding: list, ceil_mode: bool, count_include_pad: bool,
             divisor_override: Any = None) -> Any:
    n = int(str(g.node.target).split("avg_pool")[1][0])
    x = batched(g, self_, n)
    w = pooling(n, kernel_size, stride, padding, ceil_mode, count_include_pad="true" if count_include_pad or divisor_override else "false")
    y = f"AvgPool{n}D({x}{w})" + rescaled(n, kernel_size, ceil_mode, divisor_override, x)
    return g.reshape(g.let(y, x.dtype, x.shape[:2] + g.out.shape[-n:]), g.out.shape)


def rescaled(n: int, kernel: list, ceil_mode: bool, divisor: Any, x: Value) -> str:
    """A mean divided by the window's size as one with another divisor."""
    if divisor and ceil_mode:
        raise Unsupported("it has a divisor of its own, and windows beyond the end")
    return f" * {number(math.prod(spread(kernel, n)) / divisor, x.dtype)}" if divisor else ""


@row("avg_pool2d_backward", "avg_pool3d_backward")
def avg_pool_backward(g: Any, grad_output: Value, self_: Value, kernel_size: list, stride: list, padding: list, ceil_mode: bool,
                      count_include_pad: bool, divisor_override: Any) -> Any:
    n = int(str(g.node.target).split("avg_pool")[1][0])
    x, dy = batched(g, self_, n), batched(g, grad_output, n)
    w = pooling(n, kernel_size, stride, padding, ceil_mode, count_include_pad="true" if count_include_pad or divisor_override else "false")
    dx = f"AvgPoolGrad({dy}{w}, shape={x.shape})" + rescaled(n, kernel_size, ceil_mode, divisor_override, x)
    return g.reshape(g.let(dx, x.dtype, x.shape), g.out.shape)


@row("_adaptive_avg_pool2d", "_adaptive_avg_pool3d")
def adaptive_avg_pool(g: Any, self_: Value, output_size: list) -> Any:
    n = len(output_size)
    x = batched(g, self_, n)
    return g.reshape(g.let(f"AdaptiveAvgPool{n}D({x}, shape={g.out.shape[-n:]})", x.dtype, x.shape[:2] + g.out.shape[-n:]), g.out.shape)


@row("_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward")
def adaptive_avg_pool_backward(g: Any, grad_output: Value, self_: Value) -> Any:
    n = 2 if "2d" in str(g.node.target) else 3
    x, dy = batched(g, self_, n), batched(g, grad_output, n)
    return g.reshape(g.let(f"AdaptiveAvgPoolGrad({dy}, shape={x.shape})", x.dtype, x.shape), g.out.shape)


@row("max_pool2d_with_indices", "max_pool3d_with_indices")
def max_pool(g: Any, self_: Value, kernel_size: list, stride: list, padding: list, dilation: list, ceil_mode: bool) -> Any:
    return _max_pool(g, 2 if "2d" in str(g.node.target) else 3, self_, kernel_size, stride, padding, dilation, ceil_mode)


def _max_pool(g: Any, n: int, self_: Value, kernel_size: list, stride: list, padding: list, dilation: list, ceil_mode: bool) -> list:
    x, out = batched(g, self_, n), g.out[0]
    w = pooling(n, kernel_size, stride, padding, ceil_mode, dilation=spread(dilation, n))
    shape = x.shape[:2] + out.shape[-n:]
    y = g.reshape(g.let(f"MaxPool{n}D({x}{w})", x.dtype, shape), out.shape)
    if not g.uses(1):
        return [y, None]
    size = math.prod(x.shape[2:])
    if size > 1 << 24:
        raise Unsupported("its planes have more than 2^24 elements")
    wide = torch.float64 if x.dtype is torch.float64 else torch.float32
    place = f"BroadcastTo(Reshape(Arange(0, {size}, dtype={DTYPES[wide]}), shape={x.shape[2:]}), shape={x.shape})"
    at = g.let(f"MaxPoolPick({g.cast(x, wide)}, {place}{w})", wide, shape)
    return [y, g.reshape(g.cast(at, torch.int64), out.shape)]


@row("adaptive_max_pool2d", "adaptive_max_pool3d")
def adaptive_max_pool(g: Any, self_: Value, output_size: list) -> Any:
    n = len(output_size)
    sizes = self_.shape[-n:]
    if not all(output_size):
        raise Unsupported("it has no windows")
    if any(s % o for s, o in zip(sizes, output_size)):
        return _max_pool_uneven(g, n, self_, output_size)
    kernel = [s // o for s, o in zip(sizes, output_size)]
    return _max_pool(g, n, self_, kernel, kernel, [0] * n, [1] * n, False)


def _max_pool_uneven(g: Any, n: int, x: Value, output_size: list) -> list:
    """Windows of different sizes: those that are too small repeat their last element."""
    place = g.let(f"Reshape(Arange(0, {math.prod(x.shape[-n:])}, dtype=i64), shape={Dims(x.shape[-n:])})", torch.int64, x.shape[-n:])
    kernel = []
    for k, o in enumerate(output_size):
        size = x.shape[k - n]
        windows = [range(i * size // o, -(-(i + 1) * size // o)) for i in range(o)]
        most = max(map(len, windows))
        rows = [w[min(j, len(w) - 1)] for w in windows for j in range(most)]
        taken = lambda v, axis: g.let(f"Take({v}, {rows}, axis={axis})", v.dtype,  # noqa: E731
                                      [len(rows) if i == axis else d for i, d in enumerate(v.shape)])
        x, place = taken(x, x.ndim - n + k), taken(place, k)
        kernel.append(most)
    y, at = _max_pool(g, n, x, kernel, kernel, [0] * n, [1] * n, False)
    if at is None:
        return [y, None]
    return [y, g.let(f"Take(Reshape({place}, shape=(-1,)), {at}, axis=0)", torch.int64, at.shape)]


@row("max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward", "adaptive_max_pool2d_backward",
     "adaptive_max_pool3d_backward")
def max_pool_backward(g: Any, grad_output: Value, self_: Value, indices: Value, **window: Any) -> Any:
    n = 2 if "2d" in str(g.node.target) else 3
    x, dy, at = (batched(g, v, n) for v in (self_, grad_output, indices))
    flat = [x.shape[0], x.shape[1], -1]
    zeros = g.let(f"Zeros(shape={Dims(flat[:2] + [math.prod(x.shape[2:])])}, dtype={DTYPES[dy.dtype]})", dy.dtype,
                  (*flat[:2], math.prod(x.shape[2:])))
    lines = [g.reshape(v, (*flat[:2], math.prod(dy.shape[2:]))) for v in (at, dy)]
    return g.reshape(g.let(f'WriteAlongAxis({zeros}, {lines[0]}, {lines[1]}, axis=2, mode="add")', dy.dtype, zeros.shape), g.out.shape)


@row("max_unpool2d", "max_unpool3d")
def max_unpool(g: Any, self_: Value, indices: Value, output_size: list, stride: Any = None, padding: Any = None) -> Any:
    """The elements at their places in planes of zeros."""
    if not g.out.numel:
        return Expr(f"Zeros(shape={g.out.shape}, dtype={DTYPES[g.out.dtype]})", g.out.dtype, g.out.shape)
    n = len(output_size)
    flat = (math.prod(self_.shape[:-n]), math.prod(output_size))
    at, x = (g.reshape(v, (flat[0], math.prod(self_.shape[-n:]))) for v in (from_start(g, indices), self_))
    zeros = g.let(f"Zeros(shape={Dims(flat)}, dtype={DTYPES[x.dtype]})", x.dtype, flat)
    return g.reshape(put_over(g, zeros, x, f"WriteAlongAxis({{x}}, {at}, {{v}}, axis=1)", f"TakeAlongAxis({{x}}, {at}, axis=1)"), g.out.shape)


# ---- normalisations ----

def optional(**operands: Any) -> str:
    return "".join(f", {k}={v}" for k, v in operands.items() if v is not None)


def wide_of(x: Value) -> torch.dtype:
    return torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype


@row("native_layer_norm")
def layer_norm(g: Any, input: Value, normalized_shape: list, weight: Any, bias: Any, eps: float) -> Any:
    n = input.ndim - len(normalized_shape)
    axes = Dims(range(n, input.ndim))
    y, mean, rstd = g.out
    x = g.cast(input, wide_of(input))
    w, b = (None if v is None else g.cast(v, x.dtype) for v in (weight, bias))
    r = [g.let(f"LayerNorm({x}{optional(scale=w, bias=b)}, axis={axes}, eps={eps!r})", x.dtype, y.shape), None, None]
    if g.uses(1) or g.uses(2):
        m = g.let(f"Mean({x}, axis={axes}, keepdims=true)", x.dtype, [*x.shape[:n], *[1] * len(axes)])
        r[1] = m
        r[2] = g.let(f"Rsqrt(Mean(Square({x} - {m}), axis={axes}, keepdims=true) + {number(eps, x.dtype)})", x.dtype, m.shape)
    return r


@row("native_group_norm")
def group_norm(g: Any, input: Value, weight: Any, bias: Any, N: int, C: int, HxW: int, group: int, eps: float) -> Any:
    y, mean, rstd = g.out
    x = g.reshape(g.cast(input, wide_of(input)), (N, C, HxW))
    w, b = (None if v is None else g.reshape(g.cast(v, x.dtype), (C,)) for v in (weight, bias))
    r = [g.let(f"GroupNorm({x}{optional(scale=w, bias=b)}, groups={group}, eps={eps!r})", x.dtype, x.shape), None, None]
    if g.uses(1) or g.uses(2):
        z = g.reshape(x, (N, group, C // group * HxW))
        r[1] = g.let(f"Mean({z}, axis=2)", x.dtype, (N, group))
        m = g.reshape(r[1], (N, group, 1))
        r[2] = g.let(f"Rsqrt(Mean(Square({z} - {m}), axis=2) + {number(eps, x.dtype)})", x.dtype, (N, group))
    return r


def batch_norm(g: Any, input: Value, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float) -> list:
    """(y, saved mean, saved 1/std, new running mean, new running var)"""
    x, c = g.cast(input, wide_of(input)), input.shape[1]
    scale, shift = (g.let(f"Full({number(v, x.dtype)}, shape=({c},))", x.dtype, (c,)) if t is None else g.cast(t, x.dtype)
                    for t, v in ((weight, 1), (bias, 0)))
    if not training:
        y = g.let(f"BatchNorm({x}, {scale}, {shift}, {g.cast(mean, x.dtype)}, {g.cast(var, x.dtype)}, eps={eps!r})", x.dtype, x.shape)
        none = Expr(f"Zeros(shape=(0,), dtype={DTYPES[x.dtype]})", x.dtype, (0,))
        return [y, none, none, mean, var]
    all_ = g.let(f"BatchNormTrain({x}, {scale}, {shift}, eps={eps!r})", x.dtype, x.shape)
    y, m, v = (g.let(f"{all_}[{i}]", x.dtype, s) for i, s in enumerate((x.shape, (c,), (c,))))
    r = [y, m, g.let(f"Rsqrt({v} + {number(eps, x.dtype)})", x.dtype, (c,)), None, None]
    if mean is not None:
        n = math.prod(x.shape) // max(1, c)
        t = mean.dtype
        keep, new = number(1 - momentum, t), number(momentum, t)
        unbiased = g.let(f"{g.cast(v, t)} * {number(n / (n - 1) if n > 1 else math.nan, t)}", t, (c,))
        r[3] = g.let(f"{keep} * {mean} + {new} * {g.cast(m, t)}", t, (c,))
        r[4] = g.let(f"{keep} * {var} + {new} * {unbiased}", t, (c,))
    return r


@row("_native_batch_norm_legit_functional")
def batch_norm_functional(g: Any, input: Value, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool,
                          momentum: float, eps: float) -> Any:
    return batch_norm(g, input, weight, bias, running_mean, running_var, training, momentum, eps)


@row("_native_batch_norm_legit_no_training")
def batch_norm_no_training(g: Any, input: Value, weight: Any, bias: Any, running_mean: Value, running_var: Value, momentum: float,
                           eps: float) -> Any:
    return batch_norm(g, input, weight, bias, running_mean, running_var, False, momentum, eps)[:3]


@row("_native_batch_norm_legit.no_stats")
def batch_norm_no_stats(g: Any, input: Value, weight: Any, bias: Any, training: bool, momentum: float, eps: float) -> Any:
    return batch_norm(g, input, weight, bias, None, None, True, momentum, eps)[:3]


# ---- softmax and attention ----

@row("_softmax", "_log_softmax", "_safe_softmax")
def softmax(g: Any, self_: Value, dim: int, half_to_float: bool = False, dtype: Any = None) -> Any:
    name = str(g.node.target)
    op = "LogSoftmax" if "_log_softmax" in name else "Softmax"
    x = g.cast(self_, wide_of(g.out))
    if not x.ndim:
        return g.let(f"Reshape({op}(Reshape({x}, shape=(1,)), axis=0), shape=())", x.dtype, ())
    y = g.let(f"{op}({x}, axis={dim % x.ndim})", x.dtype, x.shape)
    if "_safe" in name:  # rows of -inf alone give 0
        empty = f"All({x} == {number(-math.inf, x.dtype)}, axis={dim % x.ndim}, keepdims=true)"
        return g.let(f"Where({empty}, {number(0, x.dtype)}, {y})", x.dtype, x.shape)
    return y


@row("logsumexp")
def logsumexp(g: Any, self_: Value, dim: list, keepdim: bool) -> Any:
    x = g.cast(self_, g.out.dtype)
    if not x.ndim:
        return x
    return g.let(f"Reshape(LogSumExp({x}, axis={Dims(d % x.ndim for d in dim) if dim else 'None'}), shape={g.out.shape})", x.dtype, g.out.shape)


def scores(g: Any, query: Value, key: Value, is_causal: bool, mask: Any, scale: Any) -> Value:
    """query @ key^T * scale + mask, as f32 if the operands are narrower."""
    q, k = (g.cast(v, wide_of(v)) for v in (query, key))
    shape = (*q.shape[:-1], k.shape[-2])
    s = g.let(f"MatMul({q}, {k}, tb=true) * {number(scale, q.dtype)}", q.dtype, shape)
    low = number(-math.inf, q.dtype)
    if mask is not None and mask.dtype is torch.bool:
        s = g.let(f"Where({mask}, {s}, {low})", q.dtype, shape)
    elif mask is not None:
        s = g.let(f"{s} + {g.cast(mask, q.dtype)}", q.dtype, shape)
    if is_causal:
        below = f"Tril(Full(true, shape=({shape[-2]}, {shape[-1]})))"
        s = g.let(f"Where({below}, {s}, {low})", q.dtype, shape)
    return s


def as_many_heads(g: Any, x: Value, query: Value) -> Value:
    """Keys or values with each head repeated for the queries' heads that share it."""
    n = query.shape[-3] // x.shape[-3] if x.ndim > 2 else 1
    if n == 1:
        return x
    groups = g.broadcast(g.reshape(x, (*x.shape[:-2], 1, *x.shape[-2:])), (*x.shape[:-2], n, *x.shape[-2:]))
    return g.reshape(groups, (*x.shape[:-3], x.shape[-3] * n, *x.shape[-2:]))


def as_few_heads(g: Any, x: Value, like: Value) -> Value:
    """The adjoint of as_many_heads."""
    if x.shape == like.shape:
        return x
    n = x.shape[-3] // like.shape[-3]
    groups = g.reshape(x, (*like.shape[:-2], n, *like.shape[-2:]))
    return g.let(f"Sum({groups}, axis={groups.ndim - 3})", x.dtype, like.shape)


def scale_of(query: Value, scale: Any) -> float:
    return 1 / math.sqrt(query.shape[-1]) if scale is None else scale


@row("_scaled_dot_product_flash_attention_for_cpu")
def attention(g: Any, query: Value, key: Value, value: Value, dropout_p: float, is_causal: bool, attn_mask: Any, scale: Any) -> Any:
    if dropout_p:
        raise Unsupported("it drops elements")
    scale = scale_of(query, scale)
    key, value = (as_many_heads(g, x, query) for x in (key, value))
    if not g.uses(1):
        mask = None if attn_mask is None or attn_mask.dtype is torch.bool else g.cast(attn_mask, query.dtype)
        mask = attn_mask if mask is None else mask
        return [f"Attention({query}, {key}, {value}{optional(mask=mask)}, causal={'true' if is_causal else 'false'}, scale={scale!r})", None]
    s = scores(g, query, key, is_causal, attn_mask, scale)
    total = g.let(f"LogSumExp({s}, axis={s.ndim - 1})", s.dtype, s.shape[:-1])
    p = g.let(f"Exp({s} - {g.reshape(total, (*total.shape, 1))})", s.dtype, s.shape)
    return [g.let(f"{p} @ {g.cast(value, s.dtype)}", s.dtype, g.out[0].shape), total]


@row("_scaled_dot_product_flash_attention_for_cpu_backward")
def attention_backward(g: Any, grad_out: Value, query: Value, key: Value, value: Value, out: Value, logsumexp: Value, dropout_p: float,
                       is_causal: bool, attn_mask: Any, scale: Any) -> Any:
    return through_weights(g, grad_out, query, key, value, out, is_causal, attn_mask, scale, logsumexp)


@row("anfora.attention_backward")
def attention_without_sums(g: Any, grad: Value, query: Value, key: Value, value: Value, out: Value, is_causal: bool, attn_mask: Any, scale: Any) -> Any:
    return through_weights(g, grad, query, key, value, out, is_causal, attn_mask, scale)


def through_weights(g: Any, grad: Value, query: Value, key: Value, value: Value, out: Value, is_causal: bool, mask: Any, scale: Any, sums: Any = None) -> list:
    """With p = softmax(scores): dv = p^T dy, ds = p (dy v^T - rowsum(dy out)), dq = ds k scale, dk = ds^T q scale."""
    scale, few = scale_of(query, scale), (key, value)
    key, value = (as_many_heads(g, x, query) for x in few)
    s = scores(g, query, key, is_causal, mask, scale)
    q, k, v, y, dy = (g.cast(x, s.dtype) for x in (query, key, value, out, grad))
    weights = f"Softmax({s}, axis={s.ndim - 1})" if sums is None else f"Exp({s} - {g.reshape(g.cast(sums, s.dtype), (*sums.shape, 1))})"
    p = g.let(weights, s.dtype, s.shape)
    d = g.let(f"Sum({dy} * {y}, axis={y.ndim - 1}, keepdims=true)", s.dtype, (*y.shape[:-1], 1))
    ds = g.let(f"{p} * (MatMul({dy}, {v}, tb=true) - {d}) * {number(scale, s.dtype)}", s.dtype, s.shape)
    dk, dv = g.let(f"MatMul({ds}, {q}, ta=true)", s.dtype, key.shape), g.let(f"MatMul({p}, {dy}, ta=true)", s.dtype, value.shape)
    return [g.let(f"{ds} @ {k}", s.dtype, query.shape), as_few_heads(g, dk, few[0]), as_few_heads(g, dv, few[1])]


# ---- padding ----

@row("replication_pad1d_backward", "replication_pad2d_backward", "replication_pad3d_backward")
def replication_backward(g: Any, grad_output: Value, self_: Value, padding: list) -> Any:
    """Each border that was repeated adds to the first, or the last, of what it was repeated from."""
    x = grad_output
    for k in range(len(padding) // 2):
        axis, before, after = x.ndim - 1 - k, padding[2 * k], padding[2 * k + 1]
        if before < 0 or after < 0:
            raise Unsupported("it cuts borders off")
        n = self_.shape[axis]
        at = g.let(f"Clip(Arange(0, {x.shape[axis]}, dtype=i64) - {before}, i64(0), i64({n - 1}))", torch.int64, (x.shape[axis],))
        shape = [n if i == axis else d for i, d in enumerate(x.shape)]
        x = g.let(f'IndexWrite(Zeros(shape={Dims(shape)}, dtype={DTYPES[x.dtype]}), {at}, {x}, axis={axis}, mode="add")', x.dtype, shape)
    return x


# ---- interpolation ----

@row("upsample_bilinear2d_backward", "upsample_linear1d_backward", "upsample_trilinear3d_backward")
def linear_backward(g: Any, grad_output: Value, output_size: list, input_size: list, align_corners: bool, **scales: Any) -> Any:
    if any(s is not None and int(s * n) * n != o * n for s, n, o in zip(scales.values(), input_size[2:], output_size)):
        raise Unsupported("its scales are not those of its sizes")
    corners = "true" if align_corners else "false"
    return f'ResizeGrad({grad_output}, shape={Dims(input_size)}, mode="linear", align_corners={corners})'
