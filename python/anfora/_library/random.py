# SPDX-License-Identifier: Apache-2.0
"""Random numbers from keys, by JAX's names, made of operations as the functions of composed.py are."""
from __future__ import annotations

import math
from typing import Any

from .composed import ByValue, HELPERS, floats, helper, into
from .._ops import op

RANDOM: dict[str, Any] = {}
randomly = into(RANDOM)


@randomly
def key(seed, /):
    """The key that a seed gives."""
    return op.key(seed)


@randomly
def split(key, /, num=2):
    """Keys made of one."""
    return op.split_key(key, n=num)


@randomly
def fold_in(key, data, /):
    """A key made of one and a number."""
    return op.fold_in(key, data)


@randomly
def normal(key, /, shape=(), dtype=None):
    """Numbers of the standard normal distribution."""
    return op.normal(key, shape=shape, dtype=dtype)


@randomly
def uniform(key, /, shape=(), dtype=None, minval=0.0, maxval=1.0):
    """Numbers evenly distributed."""
    u = op.uniform(key, shape=shape, dtype=dtype)
    if minval == 0.0 and maxval == 1.0:
        return u
    return op.cast_like(minval + u * (maxval - minval), u)


@randomly
def bernoulli(key, p=0.5, /, shape=()):
    """True with a probability."""
    return op.uniform(key, shape=shape, dtype="f32") < op.cast(p, "f32")


@randomly
def randint(key, /, shape, minval, maxval, dtype="i32"):
    """Whole numbers from minval to below maxval."""
    return op.randint(key, shape=shape, low=minval, high=maxval, dtype=dtype)


@randomly
def PRNGKey(seed, /):  # noqa: N802: named as in JAX
    """The key that a seed gives."""
    return op.key(seed)


@randomly
def permutation(key, x, /, axis=0, independent=False):
    """The rows of an array in random order; of a number n, 0 to n - 1. `independent`: each row along the axis in an order of its own."""
    if op.ndim(x) == 0:
        return op.shuffle(key, op.arange(x))
    if independent:
        return op.take_along_axis(x, op.argsort(op.uniform(key, shape=x.shape, dtype="f64"), axis), axis)
    return op.shuffle(key, x, axis)


@randomly
def choice(key, a, /, shape=(), replace=True, p: Any = None, axis=0):
    """Rows of an array, or numbers below a, as likely as p says; `replace`: more than once."""
    count = op.size(op.zeros(shape))
    x = op.arange(a) if op.ndim(a) == 0 else a
    n = x.shape[axis]
    if replace:
        i = op.cast(op.floor(op.uniform(key, shape=shape, dtype="f64") * n), "i64") if p is None else drawn(key, p, shape)
        return op.take(x, op.minimum(i, n - 1), axis)
    assert count <= n, "choice: there are fewer rows than are chosen without replacing them"
    order = op.argsort(op.uniform(key, shape=(n,), dtype="f64")) if p is None else \
        op.argsort(-(op.log(p) + gumbel(key, (n,), "f64")))
    return op.take(x, op.reshape(order[:count], shape), axis)


def drawn(key, p, shape):
    """Numbers of rows, as likely as p says."""
    sums = op.cumsum(p, 0)
    return op.searchsorted(sums, op.cast_like(op.uniform(key, shape=shape, dtype="f64") * sums[-1], sums), side="right")


@helper
def permutation_of_number(key, /, x, axis=0, independent=False):
    """0 to x - 1 in random order."""
    return op.shuffle(key, op.arange(x))


@helper
def choice_of_number(key, /, a, shape=(), replace=True, p: Any = None, axis=0):
    """Numbers below a."""
    return RANDOM["choice"]._for_arrays(key, op.arange(a), shape, replace, p, axis)


for _name, _arg in (("permutation", "x"), ("choice", "a")):
    RANDOM[_name] = ByValue(_name, HELPERS[f"{_name}_of_number"], RANDOM[_name], 1, _arg, int)


@randomly
def gumbel(key, /, shape=(), dtype=None):
    """Numbers of Gumbel's distribution."""
    return -op.log(exponential(key, shape, dtype) + (1e-38 if floats(dtype) == "f32" else 0.0))


@randomly
def laplace(key, /, shape=(), dtype=None):
    """Numbers of Laplace's distribution."""
    u = op.uniform(key, shape=shape, dtype=dtype) - 0.5
    return -op.sign(u) * op.log1p(-2 * op.abs(u))


@randomly
def logistic(key, /, shape=(), dtype=None):
    """Numbers of the logistic distribution."""
    u = op.clip(op.uniform(key, shape=shape, dtype=dtype), 1e-7, 1 - 1e-7)
    return op.log(u) - op.log1p(-u)


@randomly
def cauchy(key, /, shape=(), dtype=None):
    """Numbers of Cauchy's distribution."""
    return op.tan(math.pi * (op.uniform(key, shape=shape, dtype=dtype) - 0.5))


@randomly
def rademacher(key, /, shape=(), dtype="i32"):
    """1 or -1."""
    return op.cast(op.where(op.uniform(key, shape=shape, dtype="f32") < 0.5, -1, 1), dtype)


@randomly
def truncated_normal(key, lower, upper, /, shape=(), dtype=None):
    """Numbers of the normal distribution between two bounds."""
    low, high = normal_part(op.cast(lower, "f64")), normal_part(op.cast(upper, "f64"))
    u = low + (high - low) * op.uniform(key, shape=shape, dtype="f64")
    return op.cast(op.clip(normal_quantile(u), op.cast(lower, "f64"), op.cast(upper, "f64")), floats(dtype))


def normal_part(x):
    """The normal distribution function."""
    return 0.5 * op.erfc(-x * math.sqrt(0.5))


def normal_quantile(p):
    """Its inverse: a start from a logistic curve, and Newton's method where the function is flat in logarithms."""
    q = op.clip(op.minimum(p, 1 - p), 1e-300, 0.5)
    t = op.sqrt(-2 * op.log(q))
    x = (2.515517 + 0.802853 * t + 0.010328 * t * t) / (1 + 1.432788 * t + 0.189269 * t * t + 0.001308 * t ** 3) - t
    for _ in range(3):
        error = (normal_part(x) - q) * math.sqrt(2 * math.pi) * op.exp(0.5 * x * x)
        x = x - error / (1 + 0.5 * x * error)
    return op.where(p < 0.5, x, -x)


@randomly
def gamma(key, a, /, shape=None, dtype=None):
    """Numbers of the gamma distribution with the parameter a, by the method of Marsaglia and Tsang: of 16 proposals the first
    that is accepted, which one is but for a part of 10^-20."""
    dims = op.shape(a) if shape is None else shape
    large = op.where(a < 1, a + 1, a) + op.zeros(dims, dtype="f64")
    d = large - 1 / 3
    c = 1 / op.sqrt(9 * d)
    keys = op.split_key(key, n=33)
    result, done = d, d < 0
    for i in range(16):
        x = op.normal(keys[2 * i], shape=dims, dtype="f64")
        u = op.uniform(keys[2 * i + 1], shape=dims, dtype="f64")
        v = (1 + c * x) ** 3
        good = op.logical_and(v > 0, op.log(u) < 0.5 * x * x + d - d * v + d * op.log(op.where(v > 0, v, 1.0)))
        result = op.where(op.logical_and(good, op.logical_not(done)), d * v, result)
        done = op.logical_or(done, good)
    less = op.uniform(keys[32], shape=dims, dtype="f64") ** (1 / op.where(a < 1, a, 1.0))
    return op.cast(op.where(a < 1, result * less, result), floats(dtype))


@randomly
def beta(key, a, b, /, shape=None, dtype=None):
    """Numbers of the beta distribution."""
    keys = op.split_key(key, n=2)
    x, y = gamma(keys[0], a, shape, "f64"), gamma(keys[1], b, shape, "f64")
    return op.cast(x / (x + y), floats(dtype))


@randomly
def dirichlet(key, alpha, /, dtype=None):
    """Numbers that sum to 1, of Dirichlet's distribution."""
    x = gamma(key, alpha, None, "f64")
    return op.cast(x / op.sum(x, -1, keepdims=True), floats(dtype))


@randomly
def multivariate_normal(key, mean, cov, /, dtype=None):
    """Vectors of a normal distribution of several dims."""
    factor = op.cholesky(op.cast(cov, floats(dtype)))
    return op.cast(mean, floats(dtype)) + factor @ op.normal(key, shape=mean.shape, dtype=dtype)


@randomly
def categorical(key, logits, /, axis=-1, shape=None):
    """A number for each row, as likely as its logit says."""
    return op.categorical(key, logits, axis) if shape is None else op.categorical(key, logits, axis, shape)


@randomly
def exponential(key, /, shape=(), dtype=None):
    """Numbers of the exponential distribution."""
    return -op.log1p(-op.uniform(key, shape=shape, dtype=dtype))
