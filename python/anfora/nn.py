# SPDX-License-Identifier: Apache-2.0
"""Activations and such by the names of jax.nn: anfora.nn."""
from __future__ import annotations

import math
from typing import Any

from . import initializers
from ._library.composed import COMPOSED, Composed, HELPERS, into
from ._ops import OPS, op

TABLE: dict[str, Composed] = {}
_nn = into(TABLE)


@_nn
def gelu(x, /, approximate=True):
    """GELU, by default as the tanh of a polynomial, as in JAX; anfora.numpy.gelu is the exact one."""
    return op.gelu(x, approximate=approximate)


@_nn
def leaky_relu(x, /, negative_slope=0.01):
    """x, or a part of it below 0."""
    return op.leaky_relu(x, alpha=negative_slope)


@_nn
def glu(x, /, axis=-1):
    """One half along an axis times the sigmoid of the other."""
    a, b = op.split(x, 2, axis)
    return a * op.sigmoid(b)


@_nn
def hard_tanh(x, /):
    """x between -1 and 1."""
    return op.clip(x, -1.0, 1.0)


@_nn
def squareplus(x, b=4.0, /):
    """(x + sqrt(x^2 + b)) / 2."""
    return (x + op.sqrt(x * x + b)) / 2


@_nn
def softmax(x, /, axis=-1, where: Any = None):
    """Exponentials that sum to 1 along an axis; with `where` of the elements for which it holds, 0 for the others."""
    if where is None:
        return op.softmax(x, axis)
    return op.where(where, op.softmax(op.where(where, x, -math.inf), axis), 0.0)


@_nn
def log_softmax(x, /, axis=-1, where: Any = None):
    """The logarithm of softmax; with `where` that of the elements for which it holds, -inf for the others."""
    if where is None:
        return op.log_softmax(x, axis)
    return op.where(where, op.log_softmax(op.where(where, x, -math.inf), axis), -math.inf)


@_nn
def identity(x, /):
    """x."""
    return x


@_nn
def log1mexp(x, /):
    """The logarithm of 1 - exp(-x), of positive numbers (Maechler 2012)."""
    near = x < math.log(2.0)
    return op.where(near, op.log(-op.expm1(-op.where(near, x, 1.0))), op.log1p(-op.exp(-op.where(near, 1.0, x))))


@_nn
def logsumexp(a, /, axis=None, b: Any = None, keepdims=False):
    """The logarithm of the sum of exponentials, weighted by b if it is given."""
    if b is None:
        return op.logsumexp(a, axis, keepdims)
    a = op.where(b != 0, a * 1.0, -math.inf)  # which no number is larger than
    high = op.max(a, axis, keepdims=True)
    high = op.where(op.isfinite(high), high, 0.0)
    whole = op.sum(b * op.exp(a - high), axis, keepdims=True)
    y = op.log(whole) + high
    return y if keepdims else op.sum(y, axis)


@_nn
def standardize(x, /, axis=-1, mean: Any = None, variance: Any = None, epsilon=1e-5):
    """x less its mean, over its standard deviation."""
    apart = x - (op.mean(x, axis, keepdims=True) if mean is None else mean)
    return apart * op.rsqrt((op.mean(apart * apart, axis, keepdims=True) if variance is None else variance) + epsilon)


@_nn
def one_hot(x, /, num_classes, dtype=None, axis=-1):
    """1 at the index x, 0 elsewhere."""
    return op.one_hot(x, num_classes, axis, dtype)


@_nn
def dot_product_attention(query, key, value, bias=None, mask=None, /, scale=None, is_causal=False):
    """Attention of [batch, time, heads, width], as jax.nn has it; heads of keys and values may be fewer, each for several queries."""
    q, k, v = (op.swapaxes(a, -3, -2) for a in (query, key, value))
    if k.shape[-3] != q.shape[-3]:
        k = op.repeat(k, q.shape[-3] // k.shape[-3], -3)
        v = op.repeat(v, q.shape[-3] // v.shape[-3], -3)
    scores = q @ op.swapaxes(k, -1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        scores = op.where(mask, scores, -math.inf)
    if is_causal:
        rows, columns = op.arange(scores.shape[-2])[:, None], op.arange(scores.shape[-1])[None, :]
        scores = op.where(columns <= rows, scores, -math.inf)
    return op.swapaxes(op.softmax(scores, -1) @ v, -3, -2)


_SAME = """relu relu6 sigmoid softplus silu swish=silu elu celu selu log_sigmoid mish hard_sigmoid hard_swish hard_silu=hard_swish
    soft_sign=softsign softsign tanh"""
_HERE = {a: OPS[b or a] for a, _, b in (n.partition("=") for n in _SAME.split())} | TABLE
globals().update(_HERE)
__all__ = [*_HERE, "initializers"]
