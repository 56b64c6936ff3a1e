# SPDX-License-Identifier: Apache-2.0
"""Functions of Python's `math` that NumPy has not, or with other arguments, and rounding to places. Integers that have no 64 bits are refused."""
from __future__ import annotations

import math
from typing import Any

from .._ops import op
from .composed import COMPOSED, KINDS, Known, composed, helper, signbit
from .numeric import gcd, lcm

GREATEST = 2 ** 63 - 1


@helper
def math_remainder(x, y, /):
    """What is left of x without the nearest multiple of y, the even one of two; it is exact."""
    by = op.abs(y)
    r = op.fmod(op.abs(x), by + by)
    once = r - by
    r = op.where(r > by / 2, op.where(once >= by / 2, once - by, once), r)
    return op.where(signbit(x), -r, r)


@helper
def math_hypot(*coordinates):
    """The length of a vector of any number of coordinates."""
    if len(coordinates) == 1:
        return op.abs(coordinates[0])
    length = coordinates[0]
    for c in coordinates[1:]:
        length = op.hypot(length, c)
    return length


@helper
def math_isclose(a, b, /, rel_tol=1e-9, abs_tol=0.0):
    """Whether two numbers are equal but for a fraction of the greater one."""
    apart = op.abs(a * 1.0 - b * 1.0)
    return a == b or apart < math.inf and apart <= max(rel_tol * max(op.abs(a * 1.0), op.abs(b * 1.0)), abs_tol)


@helper
def math_gcd(*integers):
    """The greatest common divisor of any number of integers."""
    d = 0
    for n in integers:
        d = gcd(d, n)
    return d


@helper
def math_lcm(*integers):
    """The least common multiple of any number of integers."""
    m = 1
    for n in integers:
        m = lcm(m, n)
    return m


@helper
def math_factorial(n, /):
    """The product of the integers from 1 to n."""
    return math_perm(n)


@helper
def math_perm(n, k=None, /):
    """The number of sequences of k of n things."""
    assert n >= 0 and (k is None or k >= 0), "ValueError: the numbers of things must not be negative"
    n = n + 0  # of truth values
    k = n if k is None else k + 0
    ways = 1
    for i in range(min(k, n + 1)):
        assert n == i or ways <= GREATEST // (n - i), "OverflowError: the integer has more than 64 bits"
        ways = ways * (n - i)
    return ways


@helper
def math_comb(n, k, /):
    """The number of sets of k of n things."""
    assert n >= 0 and k >= 0, "ValueError: the numbers of things must not be negative"
    n, k = n + 0, k + 0  # of truth values
    ways = 0 if k > n else 1
    least = min(k, n - k)
    for i in range(1, least + 1):
        d = gcd(ways, i)
        more = (n - least + i) // (i // d)
        assert ways // d <= GREATEST // more, "OverflowError: the integer has more than 64 bits"
        ways = ways // d * more
    return ways


@helper
def math_isqrt(n, /):
    """The greatest integer whose square is not above n."""
    assert n >= 0, "ValueError: isqrt() argument must be nonnegative"
    root = op.cast(op.sqrt(op.cast(n, "f64")), "i64")  # off by one where n has more digits than a float
    root = op.where(root > n // op.maximum(root, 1), root - 1, root)
    return op.where(root + 1 <= n // (root + 1), root + 1, root)


MOST_SQUARED = 3037000499  # the greatest integer whose square has 64 bits


@helper
def pow(base, exponent, modulus, /):  # noqa: A001
    """By squares, each of which is less than the modulus."""
    base, exponent, modulus = base | 0, exponent | 0, modulus | 0  # of integers alone
    assert modulus != 0, "ValueError: pow() 3rd argument cannot be 0"
    assert exponent >= 0, "CompileError: pow() of a negative exponent and a modulus is an inverse, which is not compiled"
    assert -MOST_SQUARED <= modulus and modulus <= MOST_SQUARED, "OverflowError: the square of the modulus has more than 64 bits"
    result, square, left = 1 % modulus, base % modulus, exponent
    while left > 0:
        result = result * square % modulus if left % 2 == 1 else result
        square, left = square * square % modulus, left // 2
    return result


@Known
def ten_to(n: int) -> float:
    """A power of ten."""
    return 10.0 ** abs(n)


@composed
def round_(a, /, decimals=0, out: Any = None):
    """To so many places after the point, halves to even."""
    assert out is None, "TypeError: round() makes a new array: out cannot be given"
    for name in KINDS[4]:
        if a.dtype == name:
            return op.make_complex(rounded(op.real(a), decimals), rounded(op.imag(a), decimals))
    for name in KINDS[1] + KINDS[2]:
        if a.dtype == name:
            return a if decimals >= 0 else op.cast_like(rounded(a, decimals), a)
    if a.dtype == "bool":
        return rounded(a, decimals)
    made = op.cast_like(rounded(a, decimals), a)
    return op.where(op.cast_like(0.5, a) == 0, a, made) if decimals >= 0 else made  # integers of Python stay what they are


def rounded(x, decimals):
    """round of real numbers."""
    if decimals == 0:
        return op.rint(x)
    by = ten_to(decimals)
    return op.rint(x * by) / by if decimals > 0 else op.rint(x / by) * by


COMPOSED["around"] = COMPOSED["round_"] = COMPOSED["round"]


@helper
def round_to(x, /, n):
    """round(x, n) of Python: the decimal number nearest to x, which is the product itself unless that fell on a half."""
    for kinds in KINDS[1:4]:  # of NumPy: its own way
        for name in kinds:
            if x.dtype == name:
                return rounded(x, n) if kinds is KINDS[3] else x if n >= 0 else op.cast_like(rounded(x, n), x)
    if n < 0:
        return rounded(x, n)
    by = ten_to(n)
    y = x * by
    whole, rest = op.floor(y), op.fma(x, by, -y)
    half = op.where(rest > 0, whole + 1, op.where(rest < 0, whole, op.rint(y)))
    return op.where(y - whole == 0.5, half, op.rint(y)) / by
