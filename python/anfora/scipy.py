# SPDX-License-Identifier: Apache-2.0
"""What programs take from jax.scipy: anfora.scipy.special, anfora.scipy.linalg and anfora.scipy.stats."""
from __future__ import annotations

import math
import types

from . import nn
from ._composed import COMPOSED, HELPERS, Composed, into
from ._ops import OPS, op

SPECIAL: dict[str, Composed] = {}
LINALG: dict[str, Composed] = {}
NORM: dict[str, Composed] = {}
_special, _linalg, _norm = into(SPECIAL), into(LINALG), into(NORM)


@_special
def logit(x, /):
    """log(x / (1 - x))."""
    return op.log(x) - op.log1p(-x)


@_special
def xlogy(x, y, /):
    """x log(y), 0 if x is 0."""
    return op.where(x == 0, 0.0, x * op.log(op.where(x == 0, 1.0, y)))


@_special
def xlog1py(x, y, /):
    """x log(1 + y), 0 if x is 0."""
    return op.where(x == 0, 0.0, x * op.log1p(op.where(x == 0, 0.0, y)))


@_special
def entr(x, /):
    """-x log(x), 0 if x is 0."""
    return -xlogy(x, x)


@_special
def ndtr(x, /):
    """The normal distribution function."""
    return 0.5 * op.erfc(-x * math.sqrt(0.5))


@_special
def betaln(a, b, /):
    """The logarithm of the beta function."""
    return op.lgamma(a) + op.lgamma(b) - op.lgamma(a + b)


@_special
def polygamma(n, x, /):
    """Derivatives of digamma; n is a constant."""
    return op.polygamma(x, n)


@_linalg
def cho_solve(c_and_lower, b, /):
    """x of a x = b, from the Cholesky factor (c, lower) of a."""
    c, lower = c_and_lower
    m = b[:, None] if b.ndim == 1 else b
    if lower:
        x = op.triangular_solve(c, op.triangular_solve(c, m), transpose=True)
    else:
        u = op.swapaxes(c, -1, -2)
        x = op.triangular_solve(u, op.triangular_solve(u, m), transpose=True)
    return x[:, 0] if b.ndim == 1 else x


@_linalg
def solve_triangular(a, b, /, trans=0, lower=False, unit_diagonal=False):
    """x of a x = b for a triangular a."""
    m = b[:, None] if b.ndim == 1 else b
    x = op.triangular_solve(a, m, lower=lower, transpose=trans in (1, "T", "C"), unit=unit_diagonal)
    return x[:, 0] if b.ndim == 1 else x


@_linalg
def cholesky(a, /, lower=False):
    """The Cholesky factor, by default the upper one."""
    c = op.cholesky(a)
    return c if lower else op.swapaxes(c, -1, -2)


@_linalg
def cho_factor(a, /, lower=False):
    """(the Cholesky factor, lower), as cho_solve takes it."""
    c = op.cholesky(a)
    return (c if lower else op.swapaxes(c, -1, -2)), lower


@_norm
def logpdf(x, loc=0.0, scale=1.0, /):
    """The logarithm of the normal density."""
    z = (x - loc) / scale
    return -0.5 * z * z - op.log(scale) - 0.5 * math.log(2 * math.pi)


@_norm
def pdf(x, loc=0.0, scale=1.0, /):
    """The normal density."""
    return op.exp(logpdf(x, loc, scale))


@_norm
def cdf(x, loc=0.0, scale=1.0, /):
    """The normal distribution function."""
    return ndtr((x - loc) / scale)


special = types.SimpleNamespace(**SPECIAL, logsumexp=nn.TABLE["logsumexp"], softmax=nn.TABLE["softmax"],
                                log_softmax=nn.TABLE["log_softmax"], gamma=HELPERS["gamma"], expit=OPS["sigmoid"], gammaln=OPS["lgamma"],
                                **{n: OPS[n] for n in ("erf", "erfc", "digamma")})
linalg = types.SimpleNamespace(**LINALG, solve=COMPOSED["solve"], inv=OPS["inv"], det=OPS["det"])
stats = types.SimpleNamespace(norm=types.SimpleNamespace(**NORM))
__all__ = ["linalg", "special", "stats"]
