# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811: each distribution has functions of the same names
"""Distributions by the names and arguments of jax.scipy.stats, written as the functions of composed.py are: logpdf or logpmf,
and cdf, sf, ppf where they are closed forms. Densities are exponentials of their logarithms."""
from __future__ import annotations

import math
from typing import Any

from .._names import Namespace
from .._ops import op
from .composed import COMPOSED, Composed, into, moveaxis
from .special import betainc, betaln, gammainc, gammaincc, i0e, log_ndtr, ndtr, ndtri, xlog1py, xlogy

DISTRIBUTIONS: dict[str, dict[str, Any]] = {}
STATS: dict[str, Any] = {}
stat = into(STATS, lists=True)


def of(distribution: str) -> Any:
    """A decorator: the function is one of a distribution."""
    table = DISTRIBUTIONS.setdefault(distribution, {})

    def add(fn: Any) -> Composed:
        name = fn.__name__.rstrip("_")
        table[name] = f = Composed(fn)
        f.__name__ = name
        f.__qualname__ = f"{distribution}.{name}"
        return f
    return add


def within(inside, y):
    """A logarithm of a density, -inf outside."""
    return op.where(inside, y, -math.inf)


@of("norm")
def logpdf(x, loc=0.0, scale=1.0, /):
    """The logarithm of the normal density."""
    z = (x - loc) / scale
    return -0.5 * z * z - op.log(scale * 1.0) - 0.5 * math.log(2 * math.pi)


@of("norm")
def cdf(x, loc=0.0, scale=1.0, /):
    """The normal distribution function."""
    return ndtr((x - loc) / scale)


@of("norm")
def logcdf(x, loc=0.0, scale=1.0, /):
    """The logarithm of cdf."""
    return log_ndtr((x - loc) / scale)


@of("norm")
def sf(x, loc=0.0, scale=1.0, /):
    """1 - cdf."""
    return ndtr((loc - x) / scale)


@of("norm")
def logsf(x, loc=0.0, scale=1.0, /):
    """The logarithm of sf."""
    return log_ndtr((loc - x) / scale)


@of("norm")
def ppf(q, loc=0.0, scale=1.0, /):
    """The inverse of cdf."""
    return ndtri(q) * scale + loc


@of("norm")
def isf(q, loc=0.0, scale=1.0, /):
    """The inverse of sf."""
    return loc - ndtri(q) * scale


@of("uniform")
def logpdf_(x, loc=0.0, scale=1.0, /):
    return within((x >= loc) & (x <= loc + scale), -op.log(scale * 1.0) + 0.0 * x)


@of("uniform")
def cdf_(x, loc=0.0, scale=1.0, /):
    return op.clip((x - loc) / scale, 0.0, 1.0)


@of("uniform")
def ppf_(q, loc=0.0, scale=1.0, /):
    return op.where((q >= 0) & (q <= 1), loc + scale * q, math.nan)


@of("expon")
def logpdf_(x, loc=0.0, scale=1.0, /):
    return within(x >= loc, -op.log(scale * 1.0) - (x - loc) / scale)


@of("expon")
def cdf_(x, loc=0.0, scale=1.0, /):
    return op.where(x >= loc, -op.expm1(-op.maximum(x - loc, 0.0) / scale), 0.0)


@of("expon")
def sf_(x, loc=0.0, scale=1.0, /):
    return op.exp(-op.maximum(x - loc, 0.0) / scale)


@of("laplace")
def logpdf_(x, loc=0.0, scale=1.0, /):
    return -op.abs(x - loc) / scale - op.log(2.0 * scale)


@of("laplace")
def cdf_(x, loc=0.0, scale=1.0, /):
    z = (x - loc) / scale
    part = 0.5 * op.exp(-op.abs(z))
    return op.where(z <= 0, part, 1 - part)


@of("logistic")
def logpdf_(x, loc=0.0, scale=1.0, /):
    z = op.abs(x - loc) / scale
    return -z - 2 * op.log1p(op.exp(-z)) - op.log(scale * 1.0)


@of("logistic")
def cdf_(x, loc=0.0, scale=1.0, /):
    return op.sigmoid((x - loc) / scale)


@of("logistic")
def sf_(x, loc=0.0, scale=1.0, /):
    return op.sigmoid((loc - x) / scale)


@of("logistic")
def ppf_(q, loc=0.0, scale=1.0, /):
    return loc + scale * (op.log(q) - op.log1p(-q))


@of("cauchy")
def logpdf_(x, loc=0.0, scale=1.0, /):
    z = (x - loc) / scale
    return -op.log(math.pi * scale) - op.log1p(z * z)


@of("cauchy")
def cdf_(x, loc=0.0, scale=1.0, /):
    return 0.5 + op.arctan((x - loc) / scale) / math.pi


@of("cauchy")
def sf_(x, loc=0.0, scale=1.0, /):
    return 0.5 - op.arctan((x - loc) / scale) / math.pi


@of("cauchy")
def ppf_(q, loc=0.0, scale=1.0, /):
    return loc + scale * op.tan(math.pi * (q - 0.5))


@of("gumbel_r")
def logpdf_(x, loc=0.0, scale=1.0, /):
    z = (x - loc) / scale
    return -z - op.exp(-z) - op.log(scale * 1.0)


@of("gumbel_r")
def cdf_(x, loc=0.0, scale=1.0, /):
    return op.exp(-op.exp((loc - x) / scale))


@of("gumbel_l")
def logpdf_(x, loc=0.0, scale=1.0, /):
    z = (x - loc) / scale
    return z - op.exp(z) - op.log(scale * 1.0)


@of("gumbel_l")
def cdf_(x, loc=0.0, scale=1.0, /):
    return -op.expm1(-op.exp((x - loc) / scale))


@of("gamma")
def logpdf_(x, a, loc=0.0, scale=1.0, /):
    z = op.where(x >= loc, (x - loc) / scale, 1.0)
    return within(x >= loc, xlogy(a - 1.0, z) - z - op.lgamma(a * 1.0) - op.log(scale * 1.0))


@of("gamma")
def cdf_(x, a, loc=0.0, scale=1.0, /):
    return gammainc(a, op.maximum(x - loc, 0.0) / scale)


@of("gamma")
def sf_(x, a, loc=0.0, scale=1.0, /):
    return gammaincc(a, op.maximum(x - loc, 0.0) / scale)


@of("chi2")
def logpdf_(x, df, loc=0.0, scale=1.0, /):
    z = op.where(x >= loc, (x - loc) / scale, 1.0)
    return within(x >= loc, xlogy(df / 2 - 1.0, z) - z / 2 - op.lgamma(df / 2) - df * (math.log(2) / 2) - op.log(scale * 1.0))


@of("chi2")
def cdf_(x, df, loc=0.0, scale=1.0, /):
    return gammainc(df / 2, op.maximum(x - loc, 0.0) / scale / 2)


@of("chi2")
def sf_(x, df, loc=0.0, scale=1.0, /):
    return gammaincc(df / 2, op.maximum(x - loc, 0.0) / scale / 2)


@of("beta")
def logpdf_(x, a, b, loc=0.0, scale=1.0, /):
    inside = (x >= loc) & (x <= loc + scale)
    z = op.where(inside, (x - loc) / scale, 0.5)
    return within(inside, xlogy(a - 1.0, z) + xlog1py(b - 1.0, -z) - betaln(a * 1.0, b * 1.0) - op.log(scale * 1.0))


@of("beta")
def cdf_(x, a, b, loc=0.0, scale=1.0, /):
    return betainc(a, b, op.clip((x - loc) / scale, 0.0, 1.0))


@of("beta")
def sf_(x, a, b, loc=0.0, scale=1.0, /):
    return betainc(b, a, op.clip(1 - (x - loc) / scale, 0.0, 1.0))


@of("t")
def logpdf_(x, df, loc=0.0, scale=1.0, /):
    z = (x - loc) / scale
    return op.lgamma((df + 1) / 2) - op.lgamma(df / 2) - 0.5 * op.log(df * math.pi) - op.log(scale * 1.0) - (df + 1) / 2 * op.log1p(z * z / df)


@of("pareto")
def logpdf_(x, b, loc=0.0, scale=1.0, /):
    z = (x - loc) / scale
    return within(z >= 1, op.log(b * 1.0) - op.log(scale * 1.0) - (b + 1) * op.log(op.maximum(z, 1.0)))


@of("pareto")
def cdf_(x, b, loc=0.0, scale=1.0, /):
    return 1 - op.maximum((x - loc) / scale, 1.0) ** -b


@of("gennorm")
def logpdf_(x, beta, /):
    return op.log(0.5 * beta) - op.lgamma(1 / beta) - op.abs(x) ** beta


@of("gennorm")
def cdf_(x, beta, /):
    return 0.5 * (1 + op.sign(x) * gammainc(1 / beta, op.abs(x) ** beta))


@of("truncnorm")
def logpdf_(x, a, b, loc=0.0, scale=1.0, /):
    z = (x - loc) / scale
    return within((z >= a) & (z <= b), -0.5 * z * z - 0.5 * math.log(2 * math.pi) - op.log(scale * 1.0) - between(a + 0.0 * z, b + 0.0 * z))


@of("truncnorm")
def logcdf_(x, a, b, loc=0.0, scale=1.0, /):
    z = op.clip((x - loc) / scale, a, b)
    y = between(a + 0.0 * z, z) - between(a + 0.0 * z, b + 0.0 * z)
    return op.where((x - loc) / scale <= a, -math.inf, op.minimum(y, 0.0))


@of("truncnorm")
def cdf_(x, a, b, loc=0.0, scale=1.0, /):
    return op.exp(DISTRIBUTIONS["truncnorm"]["logcdf"](x, a, b, loc, scale))


def between(a, b):
    """log(ndtr(b) - ndtr(a)), on the side where both are small."""
    turned = a > 0
    low, high = op.where(turned, -b, a), op.where(turned, -a, b)
    return log_ndtr(high) + op.log1p(-op.exp(op.minimum(log_ndtr(low) - log_ndtr(high), 0.0)))


@of("vonmises")
def logpdf_(x, kappa, /):
    return kappa * (op.cos(x) - 1) - math.log(2 * math.pi) - op.log(i0e(kappa))


@of("wrapcauchy")
def logpdf_(x, c, /):
    inside = (x >= 0) & (x < 2 * math.pi)
    return within(inside, op.log((1 - c * c) / (2 * math.pi)) - op.log(1 + c * c - 2 * c * op.cos(x)))


# ---- of whole numbers ----

def counts(k, loc, least):
    """(the numbers from loc on, whether they are whole and no less than the least)"""
    z = (k - loc) * 1.0
    good = (z >= least) & (z == op.floor(z))
    return op.where(good, z, least * 1.0), good


@of("bernoulli")
def logpmf(k, p, loc=0, /):
    z, good = counts(k, loc, 0)
    return within(good & (z <= 1), xlogy(z, p) + xlog1py(1 - op.minimum(z, 1.0), -p))


@of("bernoulli")
def cdf_(k, p, loc=0, /):
    z = (k - loc) * 1.0
    return op.where(z < 0, 0.0, op.where(z < 1, 1 - p, 1.0))


@of("bernoulli")
def ppf_(q, p, loc=0, /):
    return op.where((q >= 0) & (q <= 1) & (p >= 0) & (p <= 1), op.where(q <= 1 - p, 0.0, 1.0) + loc, math.nan)


@of("binom")
def logpmf_(k, n, p, loc=0, /):
    z, good = counts(k, loc, 0)
    z = op.minimum(z, n * 1.0)
    chosen = op.lgamma(n + 1.0) - op.lgamma(z + 1) - op.lgamma(n - z + 1)
    return within(good & (k - loc <= n), chosen + xlogy(z, p) + xlog1py(n - z, -p))


@of("nbinom")
def logpmf_(k, n, p, loc=0, /):
    z, good = counts(k, loc, 0)
    return within(good, op.lgamma(z + n) - op.lgamma(z + 1) - op.lgamma(n * 1.0) + n * op.log(p) + xlog1py(z, -p))


@of("geom")
def logpmf_(k, p, loc=0, /):
    z, good = counts(k, loc, 1)
    return within(good, xlog1py(z - 1, -p) + op.log(p))


@of("poisson")
def logpmf_(k, mu, loc=0, /):
    z, good = counts(k, loc, 0)
    return within(good, xlogy(z, mu) - op.lgamma(z + 1) - mu)


@of("poisson")
def cdf_(k, mu, loc=0, /):
    z = op.floor((k - loc) * 1.0)
    return op.where(z < 0, 0.0, gammaincc(op.maximum(z, 0.0) + 1, mu))


@of("betabinom")
def logpmf_(k, n, a, b, loc=0, /):
    z, good = counts(k, loc, 0)
    z = op.minimum(z, n * 1.0)
    chosen = -op.log(n + 1.0) - betaln(n - z + 1, z + 1)
    return within(good & (k - loc <= n), chosen + betaln(z + a, n - z + b) - betaln(a * 1.0, b * 1.0))


@of("multinomial")
def logpmf_(x, n, p, /):
    y = op.lgamma(n + 1.0) + op.sum(xlogy(x, p) - op.lgamma(x + 1.0), -1)
    return within(op.sum(x, -1) == n, y)


# ---- of vectors ----

@of("dirichlet")
def logpdf_(x, alpha, /):
    """x has as many rows as alpha numbers, or one less: the last one makes the sum 1."""
    rows = x if x.shape[0] == alpha.shape[0] else op.concatenate((x, 1 - op.sum(x, 0, keepdims=True)), 0)
    a = op.reshape(alpha, (-1,) + (1,) * 0) if op.ndim(rows) == 1 else alpha[:, None]
    y = op.sum(xlogy(a - 1.0, rows), 0) + op.lgamma(op.sum(alpha)) - op.sum(op.lgamma(alpha))
    return within(op.all(rows > 0, 0) & (op.abs(op.sum(rows, 0) - 1) < 1e-6), y)


@of("multivariate_normal")
def logpdf_(x, mean, cov, allow_singular=None, /):
    if op.ndim(mean) == 0:
        return DISTRIBUTIONS["norm"]["logpdf"](x, mean, op.sqrt(cov * 1.0))
    n = mean.shape[-1]
    factor = op.cholesky(cov)
    apart = op.reshape(x - mean, (-1, n))
    z = op.triangular_solve(factor, op.swapaxes(apart, 0, 1))
    y = -0.5 * op.sum(z * z, 0) - op.sum(op.log(op.diag(factor))) - 0.5 * n * math.log(2 * math.pi)
    return op.reshape_like(y, op.sum(x - mean, -1))


# ---- of samples ----

@stat
def sem(a, /, axis=0, ddof=1, keepdims=False):
    """The standard error of the mean."""
    rows = op.ravel(a) if axis is None else a
    k = 0 if axis is None else axis
    y = COMPOSED["std"](rows, k, ddof=ddof, keepdims=keepdims) / op.sqrt(rows.shape[k] * 1.0)
    return y


@stat
def rankdata(a, /, method="average", axis=None):
    """The rank of each element, from 1: of equals their "average", "min", "max", in order ("ordinal") or of values ("dense")."""
    rows = op.ravel(a) if axis is None else moveaxis(a, axis, -1)
    less = op.sum(op.cast(rows[..., None, :] < rows[..., :, None], "i64"), -1)
    equal = rows[..., None, :] == rows[..., :, None]
    many = op.sum(op.cast(equal, "i64"), -1)
    if method == "min":
        y = less + 1.0
    elif method == "max":
        y = less + many * 1.0
    elif method == "ordinal":
        y = op.argsort(op.argsort(rows, -1), -1) + 1.0
    elif method == "dense":
        order = op.sort(rows, -1)
        new = op.concatenate((op.ones_like(order[..., :1]) != 0, order[..., 1:] != order[..., :-1]), -1)
        y = op.take_along_axis(op.cumsum(op.cast(new, "i64"), -1), less, -1) * 1.0
    else:
        assert method == "average", "rankdata: method is average, min, max, ordinal or dense"
        y = less + (many + 1) / 2
    return y if axis is None else moveaxis(y, -1, axis)


def followed(outer: Any, f: Any, name: str) -> Any:
    """A function of the result of another one."""
    def density(*args: Any, **kw: Any) -> Any:
        return outer(f(*args, **kw))
    density.__name__, density.__doc__ = name, f"The {outer.__name__} of {f.__name__}."
    return density


for _table in DISTRIBUTIONS.values():
    for _given, _made in (("logpdf", "pdf"), ("logpmf", "pmf"), ("cdf", "logcdf"), ("sf", "logsf")):
        if _given in _table:
            _table.setdefault(_made, followed(op.exp if _given.startswith("log") else op.log, _table[_given], _made))
stats = Namespace("anfora.scipy.stats", **STATS, **{d: Namespace(f"anfora.scipy.stats.{d}", **t) for d, t in DISTRIBUTIONS.items()})
