# SPDX-License-Identifier: Apache-2.0
"""Random numbers from keys, by JAX's names, made of operations as the functions of composed.py are."""
from __future__ import annotations

import math
from typing import Any

from .composed import ByValue, HELPERS, floats, helper, into
from .decompositions import qr
from .._compile.known import Known
from .._ops import op
from .._types import dtype_name

RANDOM: dict[str, Any] = {}
randomly = into(RANDOM, lists=True)


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


@Known
def part_of_complex(dtype: Any) -> str | None:
    """The element type of the parts of complex numbers; None for others."""
    return {"c64": "f32", "c128": "f64"}.get(dtype_name(dtype) or "")


@randomly
def normal(key, /, shape=(), dtype=None):
    """Numbers of the standard normal distribution; the two parts of complex ones have half the variance each."""
    part = part_of_complex(dtype)
    if part is not None:
        keys = op.split_key(key, n=2)
        return op.make_complex(op.normal(keys[0], shape=shape, dtype=part), op.normal(keys[1], shape=shape, dtype=part)) * math.sqrt(0.5)
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
    x = op.clip(normal_quantile(u), op.cast(lower, "f64"), op.cast(upper, "f64"))
    return op.cast(op.where(lower <= upper, x, math.nan), floats(dtype))


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
    """Numbers of the gamma distribution with the parameter a, by the method of Marsaglia and Tsang, with a round of proposals until
    each place has taken one."""
    dims = op.shape(a) if shape is None else shape
    large = op.where(a < 0, math.nan, op.where(a < 1, a + 1, a)) + op.zeros(dims, dtype="f64")
    d = large - 1 / 3
    c = 1 / op.sqrt(9 * d)
    keys = op.split_key(key, n=2)
    result, done, i = d, op.logical_not(op.isfinite(d)), 0
    while not op.all(done):
        pair = op.split_key(op.fold_in(keys[0], i), n=2)
        x = op.normal(pair[0], shape=dims, dtype="f64")
        u = op.uniform(pair[1], shape=dims, dtype="f64")
        v = (1 + c * x) ** 3
        good = op.logical_and(v > 0, op.log(u) < 0.5 * x * x + d - d * v + d * op.log(op.where(v > 0, v, 1.0)))
        result = op.where(op.logical_and(good, op.logical_not(done)), d * v, result)
        done = op.logical_or(done, good)
        i = i + 1
    less = op.uniform(keys[1], shape=dims, dtype="f64") ** (1 / op.where(a < 1, a, 1.0))
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


@randomly
def bits(key, /, shape=(), dtype="u32"):
    """Whole numbers of 32 bits, all as likely."""
    assert dtype in ("u32", "uint32"), "bits: the element type is u32"
    return op.cast(op.randint(key, shape=shape, low=0, high=2 ** 32, dtype="i64"), "u32")


@randomly
def loggamma(key, a, /, shape=None, dtype=None):
    """Logarithms of numbers of the gamma distribution, which do not vanish for small a."""
    keys = op.split_key(key, n=2)
    dims = op.shape(a) if shape is None else shape
    less = op.log(1 - op.uniform(keys[1], shape=dims, dtype="f64"))
    a = op.where(a >= 0, op.cast(a, "f64"), math.nan)
    more = gamma(keys[0], a + 1.0, dims, "f64")
    return op.cast(op.log(more) + less / a, floats(dtype))


@randomly
def chisquare(key, df, /, shape=None, dtype=None):
    """Numbers of the chi-square distribution."""
    return op.cast(2 * gamma(key, df / 2, shape, "f64"), floats(dtype))


@randomly
def t(key, df, /, shape=None, dtype=None):
    """Numbers of Student's distribution."""
    keys = op.split_key(key, n=2)
    dims = op.shape(df) if shape is None else shape
    return op.cast(op.normal(keys[0], shape=dims, dtype="f64") / op.sqrt(chisquare(keys[1], df, dims, "f64") / df), floats(dtype))


@randomly
def f(key, dfnum, dfden, /, shape=None, dtype=None):
    """Numbers of Fisher's distribution."""
    keys = op.split_key(key, n=2)
    dims = op.shape(dfnum + dfden) if shape is None else shape
    return op.cast((chisquare(keys[0], dfnum, dims, "f64") / dfnum) / (chisquare(keys[1], dfden, dims, "f64") / dfden), floats(dtype))


@randomly
def pareto(key, b, /, shape=None, dtype=None):
    """Numbers of Pareto's distribution, of which 1 is the least."""
    dims = op.shape(b) if shape is None else shape
    return op.cast(op.exp(exponential(key, dims, "f64") / op.where(b >= 0, op.cast(b, "f64"), math.nan)), floats(dtype))


@randomly
def rayleigh(key, scale, /, shape=None, dtype=None):
    """Numbers of Rayleigh's distribution."""
    dims = op.shape(scale) if shape is None else shape
    return op.cast(op.where(scale >= 0, scale * op.sqrt(2 * exponential(key, dims, "f64")), math.nan), floats(dtype))


@randomly
def weibull_min(key, scale, concentration, /, shape=None, dtype=None):
    """Numbers of Weibull's distribution."""
    dims = op.shape(scale + concentration) if shape is None else shape
    good = op.logical_and(scale >= 0, concentration > 0)
    return op.cast(op.where(good, scale * exponential(key, dims, "f64") ** (1 / op.cast(concentration, "f64")), math.nan), floats(dtype))


@randomly
def lognormal(key, sigma=1.0, /, shape=None, dtype=None):
    """Numbers whose logarithms are normal."""
    dims = op.shape(sigma) if shape is None else shape
    return op.cast(op.exp(op.where(sigma >= 0, op.cast(sigma, "f64"), math.nan) * op.normal(key, shape=dims, dtype="f64")), floats(dtype))


@randomly
def maxwell(key, /, shape=(), dtype=None):
    """Lengths of vectors of three normal numbers."""
    return op.sqrt(op.sum(op.normal(key, shape=(*shape, 3), dtype=dtype) ** 2, -1))


@randomly
def double_sided_maxwell(key, loc, scale, /, shape=(), dtype=None):
    """Numbers of Maxwell's distribution of either sign, about loc."""
    keys = op.split_key(key, n=2)
    sign = op.where(op.uniform(keys[0], shape=shape, dtype="f64") < 0.5, -1.0, 1.0)
    return op.cast(loc + scale * sign * maxwell(keys[1], shape, "f64"), floats(dtype))


@randomly
def generalized_normal(key, p, /, shape=(), dtype=None):
    """Numbers whose density falls as exp(-|x|^p)."""
    keys = op.split_key(key, n=2)
    sign = op.where(op.uniform(keys[0], shape=shape, dtype="f64") < 0.5, -1.0, 1.0)
    return op.cast(sign * gamma(keys[1], op.zeros(shape, dtype="f64") + 1 / op.cast(p, "f64"), None, "f64") ** (1 / op.cast(p, "f64")), floats(dtype))


@randomly
def ball(key, /, d, p=2, shape=(), dtype=None):
    """Points evenly distributed in the ball of d dims whose norm is of the order p."""
    keys = op.split_key(key, n=2)
    x = generalized_normal(keys[0], p, (*shape, d), "f64")
    size = op.sum(op.abs(x) ** p, -1) + exponential(keys[1], shape, "f64")
    return op.cast(x / op.expand_dims(size ** (1 / p), -1), floats(dtype))


@randomly
def orthogonal(key, /, n, shape=(), dtype=None, m=None):
    """Matrices with orthonormal rows or columns, evenly distributed."""
    rows, columns = n, n if m is None else m
    x = op.normal(key, shape=(*shape, max(rows, columns), min(rows, columns)), dtype="f64")
    q, r = qr(x)
    y = q * op.expand_dims(op.where(op.sum(r * op.eye(min(rows, columns), dtype="f64"), -1) < 0, -1.0, 1.0), -2)
    return op.cast(op.swapaxes(y, -2, -1) if rows < columns else y, floats(dtype))


@randomly
def wald(key, mean, /, shape=None, dtype=None):
    """Numbers of the inverse Gaussian distribution of scale 1, by the method of Michael, Schucany and Haas."""
    keys = op.split_key(key, n=2)
    dims = op.shape(mean) if shape is None else shape
    mean = op.where(mean > 0, op.cast(mean, "f64"), math.nan)
    y = mean * op.normal(keys[0], shape=dims, dtype="f64") ** 2
    part = 1 + y / 2 + op.sqrt(y) * op.sqrt(1 + y / 4)  # the larger root; the smaller one is its inverse
    x = mean / part
    return op.cast(op.where(op.uniform(keys[1], shape=dims, dtype="f64") * (mean + x) <= mean, x, mean * part), floats(dtype))


@randomly
def triangular(key, left, mode, right, /, shape=None, dtype=None):
    """Numbers of the triangular distribution."""
    u = op.uniform(key, shape=op.shape(left + mode + right) if shape is None else shape, dtype="f64")
    up = left + op.sqrt(u * (right - left) * (mode - left))
    down = right - op.sqrt((1 - u) * (right - left) * (right - mode))
    good = op.logical_and(left <= mode, mode <= right)
    return op.cast(op.where(good, op.where(u * (right - left) < mode - left, up, down), math.nan), floats(dtype))


@randomly
def geometric(key, p, /, shape=None, dtype="i32"):
    """How many trials there are up to the first success, of probability p; -1 where p is no probability."""
    dims = op.shape(p) if shape is None else shape
    good, p = op.logical_and(p >= 0, p <= 1), op.cast(p, "f64")
    count = op.ceil(-exponential(key, dims, "f64") / op.log1p(-op.where(good, p, 0.5)))
    return op.cast(op.where(good, op.maximum(count, 1.0), -1.0), dtype)


@randomly
def binomial(key, n, p, /, shape=None, dtype=None):
    """How many of n trials succeed, each with probability p: below 10 of the rarer kind by the waits between them, which are
    geometric, above it by transformed rejection, and above 1e12 by the normal distribution. NaN where n or p is none of such."""
    dims = op.shape(n + p) if shape is None else shape
    n, p = op.cast(n, "f64") + op.zeros(dims, dtype="f64"), op.cast(p, "f64") + op.zeros(dims, dtype="f64")
    good = op.logical_and(op.logical_and(n >= 0, n < math.inf), op.logical_and(p >= 0, p <= 1))
    n, p = op.where(good, n, 0.0), op.where(good, p, 0.0)
    rare = op.minimum(p, 1 - p)
    scale = op.log1p(-op.where(rare > 0, rare, 0.5))
    few = op.logical_and(rare > 0, n * rare < 10)
    at, count, i = op.where(few, 0.0, math.inf), op.zeros(dims, dtype="f64") - 1, 0
    while op.any(at <= n):
        count = count + op.cast(at <= n, "f64")
        at = at + op.maximum(op.ceil(-exponential(op.fold_in(key, i), dims, "f64") / scale), 1.0)
        i = i + 1
    large = n * rare >= 10
    trials, chance = op.where(large, n, 100.0), op.where(large, rare, 0.5)
    spread = op.sqrt(trials * chance) * op.sqrt(1 - chance)
    normal_key, key = op.fold_in(key, 2 ** 31 - 1), op.fold_in(key, 2 ** 31 - 2)
    near = op.floor(trials * chance + spread * op.normal(normal_key, shape=dims, dtype="f64") + 0.5)
    found, done, j = op.clip(near, 0.0, trials), op.logical_or(op.logical_not(large), spread > 1e6), 0
    while not op.all(done):
        proposed, taken = binomial_proposal(op.fold_in(key, j), trials, chance, spread, dims)
        found = op.where(op.logical_and(taken, op.logical_not(done)), proposed, found)
        done = op.logical_or(done, taken)
        j = j + 1
    count = op.where(large, found, op.maximum(count, 0.0))
    return op.cast(op.where(good, op.where(p > 0.5, n - count, count), math.nan), floats(dtype))


def stirling_rest(k):
    """The logarithm of k! less what Stirling's formula of k + 1 gives."""
    q = k + 1
    small = op.lgamma(op.minimum(q, 16.0)) - ((op.minimum(q, 16.0) - 0.5) * op.log(op.minimum(q, 16.0)) - op.minimum(q, 16.0) + 0.5 * math.log(2 * math.pi))
    return op.where(q < 16, small, (1 / 12 - (1 / 360 - 1 / 1260 / (q * q)) / (q * q)) / q)


def binomial_proposal(key, n, p, spread, dims):
    """A proposal for each place by Hoermann's BTRS, and whether it is taken."""
    keys = op.split_key(key, n=2)
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    u, v = op.uniform(keys[0], shape=dims, dtype="f64") - 0.5, op.uniform(keys[1], shape=dims, dtype="f64")
    us = 0.5 - op.abs(u)
    k = op.floor((2 * a / us + b) * u + n * p + 0.5)
    inside = op.logical_and(k >= 0, k <= n)
    k, m, r = op.clip(k, 0.0, n), op.floor((n + 1) * p), p / (1 - p)
    bound = (m + 0.5) * op.log((m + 1) / (r * (n - m + 1))) + (n + 1) * op.log((n - m + 1) / (n - k + 1)) + \
        (k + 0.5) * op.log(r * (n - k + 1) / (k + 1)) + stirling_rest(m) + stirling_rest(n - m) - stirling_rest(k) - stirling_rest(n - k)
    height = op.log(v * (2.83 + 5.1 / b) * spread / (a / (us * us) + b))
    quick = op.logical_and(us >= 0.07, v <= 0.92 - 4.2 / b)
    return k, op.logical_and(inside, op.logical_or(quick, height <= bound))


@randomly
def poisson(key, lam, /, shape=None, dtype="i32"):
    """Numbers of events of which lam are expected: products of uniform numbers below 10, and above it the transformed rejection of
    Hörmann, with a round of proposals until each place has taken one. -1 where lam is negative or not finite."""
    dims = op.shape(lam) if shape is None else shape
    lam = op.cast(lam, "f64") + op.zeros(dims, dtype="f64")
    low = op.logical_not(op.logical_and(lam >= 10, lam < math.inf))
    few, many = op.where(op.logical_and(low, lam < 10), lam, -1.0), op.where(low, 10.0, lam)
    keys = op.split_key(key, n=2)
    count, left, i = op.zeros(dims, dtype="f64") - 1, few + 0.0, 0
    while op.any(left >= 0):
        count = count + op.cast(left >= 0, "f64")
        left = left - exponential(op.fold_in(keys[0], i), dims, "f64")
        i = i + 1
    result, done, j = many, low, 0
    while not op.all(done):
        at, good = transformed_rejection(op.fold_in(keys[1], j), many, dims)
        result = op.where(op.logical_and(good, op.logical_not(done)), at, result)
        done = op.logical_or(done, good)
        j = j + 1
    return op.cast(op.where(low, count, result), dtype)


def transformed_rejection(key, lam, dims):
    """A proposal for each mean, and whether it is taken."""
    keys = op.split_key(key, n=2)
    b = 0.931 + 2.53 * op.sqrt(lam)
    a = -0.059 + 0.02483 * b
    u, v = op.uniform(keys[0], shape=dims, dtype="f64") - 0.5, op.uniform(keys[1], shape=dims, dtype="f64")
    us = 0.5 - op.abs(u)
    k = op.floor((2 * a / us + b) * u + lam + 0.43)
    inner = op.logical_and(us >= 0.07, v <= 0.9277 - 3.6224 / (b - 2))
    bound = op.log(v * (1.1239 + 1.1328 / (b - 3.4)) / (a / (us * us) + b)) <= k * op.log(lam) - lam - op.lgamma(op.maximum(k, 0.0) + 1)
    good = op.logical_and(k >= 0, op.logical_and(op.logical_or(us >= 0.013, v <= us), bound))
    return op.maximum(k, 0.0), op.logical_or(inner, good)
