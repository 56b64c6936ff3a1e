# SPDX-License-Identifier: Apache-2.0
"""Orthogonal polynomials and divisors, written as the functions of the library are: rows of _rows_special.py compile them in."""
from __future__ import annotations

import math

from .._ops import op


def divisor(a, b):
    """The greatest common divisor of integers."""
    a, b = op.abs(a), op.abs(b)
    while op.any(b != 0):
        some = b != 0
        a, b = op.where(some, b, a), op.where(some, a % op.where(some, b, 1), 0)
    return a


def recurred(x, n, first, step):
    """The polynomial of the degree n: 1, `first` = (slope, constant), then p(k + 1) = ((c0 + c1 k) x + d0 + d1 k) p(k) - (e0 + e1 k) p(k - 1),
    divided by k + 1 if the last of `step` says so."""
    c0, c1, d0, d1, e0, e1, divides = step
    before, p = op.ones_like(x), first[0] * x + first[1]
    y = op.where(n < 0, 0.0, op.where(n < 1, before, p))
    k, most = 1.0, op.max(op.where(op.isfinite(n), n, 0.0))
    while k < most:
        after = ((c0 + c1 * k) * x + d0 + d1 * k) * p - (e0 + e1 * k) * before
        if divides:
            after = after / (k + 1)
        before, p, k = p, after, k + 1
        y = op.where(n < k, y, p)
    return y


def on_circle(x, n, kind):
    """Chebyshev's polynomials where |x| < 1: t, u, v, w."""
    a = op.acos(x)
    if kind == 0:
        return op.cos(n * a)
    if kind == 1:
        return op.sin((n + 1) * a) / op.sin(a)
    if kind == 2:
        return op.cos((n + 0.5) * a) / op.cos(a / 2)
    return op.sin((n + 0.5) * a) / op.sin(a / 2)


def chebyshev(x, n, kind, shifted):
    n = op.trunc(n)
    if shifted:
        x = 2 * x - 1
    first = (1.0, 0.0) if kind == 0 else (2.0, 0.0) if kind == 1 else (2.0, -1.0) if kind == 2 else (2.0, 1.0)
    inside = (op.abs(x) < 1) & (n > 6)
    y = recurred(x, op.where(inside, 0.0, n), first, (2.0, 0.0, 0.0, 0.0, 1.0, 0.0, False))
    return op.where(inside, on_circle(op.where(inside, x, 0.0), op.where(inside, n, 0.0), kind), y)


def polynomial(x, n, first, step):
    return recurred(x, op.trunc(n), first, step)


def hermite(x, n, first, step, most):
    """NaN beyond the degree that is computed."""
    return op.where(n > most, math.nan, recurred(x, op.where(n > most, 0.0, op.trunc(n)), first, step))
