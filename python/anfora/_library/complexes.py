# SPDX-License-Identifier: Apache-2.0
"""Functions of complex numbers that the operations of the same names have for real ones: logarithms to bases, signs, and the inverse functions
with the branch cuts of Kahan (1987), "Branch cuts for complex elementary functions"."""
from __future__ import annotations

import math

from .._ops import op
from .composed import COMPOSED, composed

_COMPLEX = ("complex64", "complex128")


def scaled(x, by):
    """A complex number times a real one, of which infinite parts stay infinite."""
    return op.make_complex(op.real(x) * by, op.imag(x) * by)


@composed
def exp2(x, /):
    """2 to the power of x."""
    for kind in _COMPLEX:
        if x.dtype == kind:
            return op.exp(scaled(x, math.log(2)))
    return op.exp2(x)


@composed
def expm1(x, /):
    """exp(x) - 1, exact near 0."""
    for kind in _COMPLEX:
        if x.dtype == kind:
            a, b = op.real(x), op.imag(x)
            return op.make_complex(op.expm1(a) * op.cos(b) - 2 * op.sin(b / 2) ** 2, op.exp(a) * op.sin(b))
    return op.expm1(x)


@composed
def log1p(x, /):
    """log(1 + x), exact near 0."""
    for kind in _COMPLEX:
        if x.dtype == kind:
            a, b = op.real(x), op.imag(x)
            return op.make_complex(log_size(a, b), op.arctan2(b, 1 + a))
    return op.log1p(x)


def log_size(a, b):
    """log |1 + a + b i|: exact near 1, and without squares elsewhere, which overflow, or leave nothing near 0."""
    square = a * (2 + a) + b * b  # |1 + a + b i| ** 2 - 1
    near = (square > -0.5) & (square < 4)
    size = op.abs(op.make_complex(1 + a, b))
    return op.where(near, op.log1p(op.where(near, square, 0)) / 2, op.log(op.where(near, 1, size)))


@composed
def log2(x, /):
    """The logarithm to the base 2."""
    for kind in _COMPLEX:
        if x.dtype == kind:
            return scaled(op.log(x), 1 / math.log(2))
    return op.log2(x)


@composed
def log10(x, /):
    """The logarithm to the base 10."""
    for kind in _COMPLEX:
        if x.dtype == kind:
            return scaled(op.log(x), 1 / math.log(10))
    return op.log10(x)


@composed
def sign(x, /):
    """-1, 0 or 1; of a complex number what lies in its direction at distance 1."""
    for kind in _COMPLEX:
        if x.dtype == kind:
            size = op.abs(x)
            return op.where(size == 0, x, x / op.where(size == 0, 1, size))
    return op.sign(x)


def roots(x):
    """The roots of 1 + x and 1 - x."""
    a, b = op.real(x), op.imag(x)
    return op.sqrt(op.make_complex(1 + a, b)), op.sqrt(op.make_complex(1 - a, -b))


def asin_of(x):
    over, under = roots(x)
    return op.make_complex(op.arctan2(op.real(x), op.real(over * under)), op.arcsinh(op.imag(op.conj(under) * over)))


def atanh_of(x):
    a, b = op.real(x), op.imag(x)
    side = op.where(a < 0, -1, 1)
    right = a * side  # the pole that is nearer lies at 1
    apart = op.abs(op.make_complex(1 - right, b))
    near = apart < 1e-3
    far = op.where(near, 1, apart)
    size = op.where(near, (log_size(right, b) - op.log(op.where(near, apart, 1))) / 2, op.log1p(4 * (right / far) / far) / 4)
    beyond = op.maximum(right, op.abs(b)) > 1e17  # squares may overflow, and the angle is a right one
    angle = op.arctan2(op.where(beyond, op.copysign(op.zeros_like(b), b), 2 * b), op.where(beyond, -1, (1 - a) * (1 + a) - b * b)) / 2
    return op.make_complex(op.where(apart == math.inf, op.copysign(op.zeros_like(a), a), size * side), angle)


def turned(x):
    """i x."""
    return op.make_complex(-op.imag(x), op.real(x))


def turned_back(x):
    """-i x."""
    return op.make_complex(op.imag(x), -op.real(x))


@composed
def arcsin(x, /):
    """The inverse of sin."""
    for kind in _COMPLEX:
        if x.dtype == kind:
            return asin_of(x)
    return op.arcsin(x)


@composed
def arccos(x, /):
    """The inverse of cos."""
    for kind in _COMPLEX:
        if x.dtype == kind:
            over, under = roots(x)
            return op.make_complex(2 * op.arctan2(op.real(under), op.real(over)), op.arcsinh(op.imag(op.conj(over) * under)))
    return op.arccos(x)


@composed
def arctan(x, /):
    """The inverse of tan."""
    for kind in _COMPLEX:
        if x.dtype == kind:
            return turned_back(atanh_of(turned(x)))
    return op.arctan(x)


@composed
def arcsinh(x, /):
    """The inverse of sinh."""
    for kind in _COMPLEX:
        if x.dtype == kind:
            return turned_back(asin_of(turned(x)))
    return op.arcsinh(x)


@composed
def arccosh(x, /):
    """The inverse of cosh."""
    for kind in _COMPLEX:
        if x.dtype == kind:
            a, b = op.real(x), op.imag(x)
            low, high = op.sqrt(op.make_complex(a - 1, b)), op.sqrt(op.make_complex(a + 1, b))
            return op.make_complex(op.arcsinh(op.real(op.conj(low) * high)), 2 * op.arctan2(op.imag(low), op.real(high)))
    return op.arccosh(x)


@composed
def arctanh(x, /):
    """The inverse of tanh."""
    for kind in _COMPLEX:
        if x.dtype == kind:
            return atanh_of(x)
    return op.arctanh(x)


COMPOSED |= {f"a{n[3:]}": COMPOSED[n] for n in ("arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh")}
