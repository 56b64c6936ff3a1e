# SPDX-License-Identifier: Apache-2.0
"""Special functions by the names of scipy.special and jax.scipy.special, written as the functions of composed.py are. Each is the
sum of a series where it converges fast and an expansion elsewhere (Abramowitz and Stegun; NIST's DLMF), and derivatives are those
of the sums."""
from __future__ import annotations

import math
from typing import Any

from .._compile.known import Known
from .._ops import op
from .composed import COMPOSED, HELPERS, into
from .random import normal_quantile
from .._transform import custom_jvp

SPECIAL: dict[str, Any] = {}
special = into(SPECIAL, lists=True)
MOST = 2000  # rounds of sums that end when they do not change
EULER = 0.57721566490153286


# ---- logarithms and such ----

@special
def logit(x, /):
    """log(x / (1 - x))."""
    return op.log(x) - op.log1p(-x)


@special
def xlogy(x, y, /):
    """x log(y), 0 if x is 0."""
    return product_with_log(x, y)


@custom_jvp
def product_with_log(x, y):
    return op.where((x == 0) & (y == y), 0.0, x * op.log(op.where((x == 0) & (y == y), 1.0, y + op.zeros_like(x))))


@product_with_log.defjvp
def product_with_log_jvp(primals, tangents):
    """Where x is 0 the derivative is log(y), too."""
    (x, y), (dx, dy) = primals, tangents
    return product_with_log(x, y), dx * op.log(y) + dy * (x / y)


@special
def xlog1py(x, y, /):
    """x log(1 + y), 0 if x is 0."""
    return product_with_log1p(x, y)


@custom_jvp
def product_with_log1p(x, y):
    return op.where((x == 0) & (y == y), 0.0, x * op.log1p(op.where((x == 0) & (y == y), 0.0, y + op.zeros_like(x))))


@product_with_log1p.defjvp
def product_with_log1p_jvp(primals, tangents):
    (x, y), (dx, dy) = primals, tangents
    return product_with_log1p(x, y), dx * op.log1p(y) + dy * (x / (1 + y))


@special
def entr(x, /):
    """-x log(x), 0 if x is 0, -inf below."""
    return op.where(x < 0, -math.inf, -product_with_own_log(op.where(x < 0, 0.0, x)))


@custom_jvp
def product_with_own_log(x):
    return product_with_log(x, x)


@product_with_own_log.defjvp
def product_with_own_log_jvp(primals, tangents):
    return product_with_own_log(*primals), tangents[0] * (op.log(primals[0]) + 1)


@special
def rel_entr(p, q, /):
    """p log(p / q); 0 if p is 0 and q is not negative, else inf where a logarithm is of no positive number."""
    both = op.logical_and(p > 0, q > 0)
    y = op.where(both, p, 1.0) * (op.log(op.where(both, p, 1.0)) - op.log(op.where(both, q, 1.0)))
    return op.where(both, y, op.where(op.logical_and(p == 0, q >= 0), 0.0, math.inf))


@special
def kl_div(p, q, /):
    """rel_entr(p, q) - p + q."""
    return rel_entr(p, q) - p + q


@special
def boxcox(x, lmbda, /):
    """(x^lmbda - 1) / lmbda, log(x) if lmbda is 0."""
    return expm1_over(op.log(x), lmbda)


@special
def boxcox1p(x, lmbda, /):
    """boxcox(1 + x, lmbda)."""
    return expm1_over(op.log1p(x), lmbda)


def expm1_over(v, by):
    """expm1(by v) / by. Where `by` is 0 it is v times a polynomial, which has the derivatives of the limit up to the fourth."""
    w, other = op.where((by == 0) & op.isfinite(v), v, 0.0), op.where(by == 0, 1.0, by)
    part = by * w
    return op.where(by == 0, v + w * part / 2 * (1 + part / 3 * (1 + part / 4 * (1 + part / 5))), op.expm1(other * v) / other)


# ---- the normal distribution ----

@special
def ndtr(x, /):
    """The normal distribution function."""
    return 0.5 * op.erfc(-x * math.sqrt(0.5))


@special
def ndtri(p, /):
    """The inverse of ndtr."""
    inside = op.logical_and(p > 0, p < 1)
    y = normal_quantile(op.where(inside, p, 0.5))
    return op.where(inside, y, op.where(p == 0, -math.inf, op.where(p == 1, math.inf, math.nan)))


def falling(x2, terms):
    """1 - 1/x2 + 1 3/x2^2 - 1 3 5/x2^3 + ..."""
    s = op.ones_like(x2)
    for k in range(terms, 0, -1):
        s = 1 - (2 * k - 1) / x2 * s
    return s


@special
def log_ndtr(x, /):
    """The logarithm of ndtr, which does not underflow."""
    far = x < -10
    low = op.where(far, x, -10.0)
    near = op.where(far, 0.0, x)
    body = op.where(near > 1, op.log1p(-ndtr(-near)), op.log(ndtr(op.minimum(near, 1.0))))
    return op.where(far, -0.5 * low * low - op.log(-low) - 0.5 * math.log(2 * math.pi) + op.log(falling(low * low, 20)), body)


@special
def erfinv(y, /):
    """The inverse of erf."""
    size = op.abs(y)
    small, inside = size < 0.5, size < 1
    v = op.where(small, y, 0.0)
    x = math.sqrt(math.pi) / 2 * v * (1 + math.pi / 12 * v * v)
    for _ in range(3):
        error = (op.erf(x) - v) * (math.sqrt(math.pi) / 2) * op.exp(x * x)
        x = x - error / (1 + x * error)
    far = -normal_quantile(op.where(op.logical_and(inside, op.logical_not(small)), (1 - size) / 2, 0.25)) * math.sqrt(0.5)
    edge = op.where(size == 1, math.inf, math.nan)
    return op.where(small, x, op.sign(y) * op.where(inside, far, edge))


@special
def erfcx(x, /):
    """exp(x^2) erfc(x), which does not underflow."""
    far = x > 10
    near, large = op.where(far, 0.0, x), op.where(far, x, 10.0)
    return op.where(far, falling(2 * large * large, 20) / (large * math.sqrt(math.pi)), op.exp(near * near) * op.erfc(near))


# ---- gamma and beta ----

@special
def gammasgn(x, /):
    """The sign of the gamma function; NaN at its poles below 0."""
    whole = op.floor(x)
    sign = op.where(op.mod(whole, 2) == 0, 1.0, -1.0)
    regular = op.logical_and(x != whole, op.isfinite(x))
    return op.where(x > 0, 1.0, op.where(x == 0, op.copysign(op.ones_like(x), x), op.where(regular, sign, math.nan)))


@special
def loggamma(x, /):
    """The logarithm of the gamma function; NaN below 0, where it is not real."""
    return op.where(x < 0, math.nan, op.lgamma(x * 1.0))


@special
def softmax(x, /, axis=None):
    """Exponentials that sum to 1 along an axis, or over all elements."""
    return op.reshape(op.softmax(op.ravel(x), 0), x.shape) if axis is None else op.softmax(x, axis)


@special
def log_softmax(x, /, axis=None):
    """The logarithm of softmax."""
    return op.reshape(op.log_softmax(op.ravel(x), 0), x.shape) if axis is None else op.log_softmax(x, axis)


@special
def factorial(n, /, exact=False):
    """n!, as a float; 0 below 0."""
    assert not exact, "factorial: exact is False"
    return op.where(n < 0, 0.0, op.exp(op.lgamma(op.maximum(n, 0) + 1.0)))


@special
def poch(z, m, /):
    """gamma(z + m) / gamma(z)."""
    sign = gammasgn(z + m * 1.0) * gammasgn(z * 1.0)
    return op.where(m == 0, 1.0, sign * op.exp(op.lgamma(z + m * 1.0) - op.lgamma(z * 1.0)))


@special
def betaln(a, b, /):
    """The logarithm of the beta function."""
    return op.lgamma(a) + op.lgamma(b) - op.lgamma(a + b)


@special
def beta(a, b, /):
    """The beta function."""
    return gammasgn(a * 1.0) * gammasgn(b * 1.0) * gammasgn(a + b * 1.0) * op.exp(betaln(a, b))


@special
def multigammaln(a, /, d):
    """The logarithm of the multivariate gamma function."""
    y = d * (d - 1) / 4 * math.log(math.pi) + 0 * a
    for k in range(d):
        y = y + op.lgamma(a - k / 2)
    return y


@special
def polygamma(n, x: Any):
    """Derivatives of digamma; n is a constant."""
    return op.polygamma(x, whole_number(n))


@Known
def whole_number(n: Any) -> int:
    """A constant as an integer."""
    if n != int(n):
        raise ValueError(f"polygamma: n is a whole number, not {n}")
    return int(n)


def gamma_series(a, x):
    """1 + x/(a + 1) + x^2/((a + 1)(a + 2)) + ..."""
    term = op.ones_like(a * x)
    total, k = term, 0
    while op.any(total + term != total) and k < MOST:
        k += 1
        term = term * x / (a + k)
        total = total + term
    return total


def gamma_fraction(a, x):
    """The continued fraction of the upper incomplete gamma function over x^a exp(-x), by Lentz."""
    b = x + 1 - a
    c = op.zeros_like(b) + 1e30
    d = 1 / b
    h, change, k = d, d * 0 + 2, 0
    while op.any(change != 1) and k < MOST:
        k += 1
        by = -k * (k - a)
        b = b + 2
        d = 1 / apart(by * d + b)
        c = apart(b + by / c)
        change = c * d
        h = h * change
    return h


def apart(x):
    """Away from 0."""
    return op.where(op.abs(x) < 1e-30, 1e-30, x)


def gamma_parts(a, x):
    """(P, Q, whether P is the one that is summed, whether arguments are inside): the regularised incomplete gamma functions."""
    a, x = a + 0.0 * x, x + 0.0 * a
    inside = (a > 0) & (x > 0) & op.isfinite(a) & op.isfinite(x)
    low = x <= a + 1
    a_low, x_low = op.where(inside & low, a, 1.0), op.where(inside & low, x, 0.5)
    a_up, x_up = op.where(inside & op.logical_not(low), a, 1.0), op.where(inside & op.logical_not(low), x, 3.0)
    p = op.exp(a_low * op.log(x_low) - x_low - op.lgamma(a_low + 1)) * gamma_series(a_low, x_low)
    q = op.exp(a_up * op.log(x_up) - x_up - op.lgamma(a_up)) * gamma_fraction(a_up, x_up)
    return p, q, low, inside


@special
def gammainc(a, x, /):
    """The regularised lower incomplete gamma function."""
    p, q, low, inside = gamma_parts(a, x)
    edge = op.where((x < 0) | (a < 0) | op.isnan(x) | op.isnan(a) | ((a == 0) & (x == 0)), math.nan,
                    op.where((a == 0) | (x == math.inf), 1.0, 0.0))
    return op.where(inside, op.where(low, p, 1 - q), edge)


@special
def gammaincc(a, x, /):
    """The regularised upper incomplete gamma function."""
    p, q, low, inside = gamma_parts(a, x)
    edge = op.where((x < 0) | (a < 0) | op.isnan(x) | op.isnan(a) | ((a == 0) & (x == 0)), math.nan,
                    op.where((a == 0) | (x == math.inf), 0.0, 1.0))
    return op.where(inside, op.where(low, 1 - p, q), edge)


def beta_fraction(a, b, x):
    """The continued fraction of the incomplete beta function, by Lentz."""
    c = op.ones_like(x)
    d = 1 / apart(1 - (a + b) * x / (a + 1))
    h, change, m = d, d * 0 + 2, 0
    while op.any(change != 1) and m < MOST:
        m += 1
        by = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1 / apart(1 + by * d)
        c = apart(1 + by / c)
        h = h * d * c
        by = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d = 1 / apart(1 + by * d)
        c = apart(1 + by / c)
        change = d * c
        h = h * change
    return h


@special
def betainc(a, b, x, /):
    """The regularised incomplete beta function."""
    whole = 0.0 * (a + b + x)
    a, b, x = a + whole, b + whole, x + whole
    inside = (a > 0) & (b > 0) & (x > 0) & (x < 1)
    turned = inside & (x > (a + 1) / (a + b + 2))
    a1, b1 = op.where(inside, op.where(turned, b, a), 1.0), op.where(inside, op.where(turned, a, b), 1.0)
    x1 = op.where(inside, op.where(turned, 1 - x, x), 0.25)
    y = op.exp(a1 * op.log(x1) + b1 * op.log1p(-x1) - betaln(a1, b1)) / a1 * beta_fraction(a1, b1, x1)
    edge = op.where((a > 0) & (b > 0) & (x == 0), 0.0, op.where((a > 0) & (b > 0) & (x == 1), 1.0, math.nan))
    return op.where(inside, op.where(turned, 1 - y, y), edge)


# ---- integrals of exponentials, Bessel functions, zeta ----

def exponential_series(x):
    """x - x^2/(2 2!) + x^3/(3 3!) - ..."""
    term = x
    total, k = x, 1
    while op.any(total + term != total) and k < MOST:
        k += 1
        term = -term * x / k
        total = total + term / k
    return total


@special
def exp1(x, /):
    """The integral of exp(-t) / t from x on."""
    low, inside = x <= 1, x > 0
    near, far = op.where(inside & low, x, 0.5), op.where(inside & op.logical_not(low), x, 2.0)
    y = op.where(low, -EULER - op.log(near) + exponential_series(near), op.exp(-far) * gamma_fraction(op.zeros_like(far), far))
    return op.where(inside, op.where(x == math.inf, 0.0, y), op.where(x == 0, math.inf, math.nan))


@special
def expi(x, /):
    """The integral of exp(t) / t up to x."""
    near = (x > 0) & (x < 40)
    a, b = op.where(near, x, 1.0), op.where(x >= 40, x, 40.0)
    s = op.ones_like(b)
    for k in range(38, 0, -1):
        s = 1 + k / b * s
    y = op.where(x >= 40, op.exp(b) / b * s, EULER + op.log(a) - exponential_series(-a))
    below = op.where(x < 0, -exp1(op.where(x < 0, -x, 1.0)), x)  # NaN stays
    return op.where(x > 0, op.where(x == math.inf, math.inf, y), op.where(x == 0, -math.inf, below))


@special
def expn(n, x, /):
    """The integral of exp(-x t) / t^n from 1 on; n is a constant."""
    y = exp1(x) if n > 0 else op.exp(-x) / x
    for k in range(1, n):
        y = (op.exp(-x) - op.where(x == 0, 0.0, x * op.where(x == 0, 0.0, y))) / k
    return y


def bessel_scaled(x, order):
    """exp(-|x|) I(x) of order 0 or 1."""
    size = op.abs(x * 1.0)
    low = size < 20
    near, far = op.where(low, size, 1.0), op.where(low, 20.0, size)
    quarter = near * near / 4
    s, t = op.ones_like(near), op.ones_like(far)
    for k in range(50, 0, -1):
        s = 1 + quarter / (k * (k + order)) * s
    for k in range(36, 0, -1):
        t = 1 + ((2 * k - 1) * (2 * k - 1) - 4 * order) / (8 * k * far) * t
    body = s if order == 0 else s * near / 2
    y = op.where(low, op.exp(-near) * body, t / op.sqrt(2 * math.pi * far))
    return y if order == 0 else op.sign(x) * y


@special
def i0e(x, /):
    """exp(-|x|) i0(x)."""
    return bessel_scaled(x, 0)


@special
def i1e(x, /):
    """exp(-|x|) i1(x)."""
    return bessel_scaled(x, 1)


@special
def i0(x, /):
    """The modified Bessel function of order 0."""
    x = x * 1.0
    half = op.exp(op.abs(x) / 2)
    return op.where(op.isinf(half), half, half * i0e(x) * half)


@special
def i1(x, /):
    """The modified Bessel function of order 1."""
    x = x * 1.0
    half = op.exp(op.abs(x) / 2)
    return op.where(op.isinf(half), op.copysign(half, x), half * i1e(x) * half)


@Known
def zeta_parts(n: int) -> tuple:
    """B(2k) / (2k)! for k from 1."""
    return tuple((2 * (-1) ** (k + 1) * sum(i ** -(2.0 * k) for i in range(1, 2000)) / (2 * math.pi) ** (2 * k)) if k > 1 else 1 / 12
                 for k in range(1, n + 1))


@special
def zeta(x, q: Any = None, /):
    """Hurwitz' zeta function for x above 1 and q above 0, Riemann's without q, by Euler and Maclaurin."""
    b = op.ones_like(x) * 1.0 if q is None else q + 0.0 * x
    good = (x > 1) & (b > 0)
    s, a = op.where(good, x, 2.0) + 0.0 * b, op.where(good, b, 1.0) + 0.0 * x
    total = a ** -s
    for k in range(1, 12):
        total = total + (a + k) ** -s
    end = a + 12
    total = total + end ** (1 - s) / (s - 1) + 0.5 * end ** -s
    rising, k = s * end ** (-s - 1), 0
    for part in zeta_parts(9):
        total = total + part * rising
        rising = rising * (s + 2 * k + 1) * (s + 2 * k + 2) / (end * end)
        k = k + 1
    pole = op.where(b > 0, x == 1, (x > 1) & (b == op.floor(b)))
    return op.where(good, total, op.where(pole, math.inf, math.nan))


SPECIAL["gamma"] = HELPERS["gamma"]
COMPOSED["i0"] = SPECIAL["i0"]
