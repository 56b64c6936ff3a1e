# SPDX-License-Identifier: Apache-2.0
"""What `.numpy` columns may name beyond NumPy itself, tolerances, and which checks cover the other ops."""
import math

import numpy as np

NUMPY = {"bool": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
         "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "f16": np.float16,
         "bf16": np.float32, "f32": np.float32, "f64": np.float64, "c64": np.complex64,
         "c128": np.complex128, "int": np.int64, "float": np.float64}


class DType:
    """An element type as an attribute."""

    def __init__(self, name):
        self.name, self.numpy = name, NUMPY[name]


# Units in the last place (of 16-bit floats at most 2), or a pair with an absolute tolerance.
ULPS_BY_FAMILY = {"math": 4}
ULPS = {
    "Power": 4, "FloorDiv": 1, "Mod": 1, "Reciprocal": 1, "Abs": 1, "Div": 1, "Mul": 0,
    "Digamma": (64, 1e-13), "Lgamma": (8, 1e-6), "Erf": 4,
}

# Ops that NumPy cannot check, and where they are checked.
CHECKED_ELSEWHERE = {}


def real(f, *args):
    """f elementwise in double, rounded to the type of the arguments, or double for integers."""
    t = np.result_type(*args)
    if t.kind != "f":
        t = np.dtype(np.float64)
    return np.vectorize(f, otypes=[np.float64])(*args).astype(t) if np.broadcast(*args).size else np.zeros(
        np.broadcast(*args).shape, t)


def erf(x):
    return real(math.erf, x)


def erfc(x):
    return real(math.erfc, x)


def lgamma(x):
    def one(v):
        if v <= 0 and v == math.floor(v):
            return math.inf
        return math.lgamma(v)
    return real(one, x)


def digamma(x):
    """The difference quotient's limit by the recurrence to 60 and Stirling's series; not our code's 10."""
    def one(v):
        s = 0.0
        terms = []
        if v < 0:
            terms.append(-math.pi / math.tan(math.pi * v))
            v = 1 - v
        while v < 60:
            terms.append(-1 / v)
            v += 1
        terms += [math.log(v), -1 / (2 * v), -1 / (12 * v**2), 1 / (120 * v**4), -1 / (252 * v**6)]
        return math.fsum(terms) + s
    return real(one, x)


def fma(a, b, c):
    t = np.result_type(a, b, c)
    if t.kind != "f":
        return a * b + c
    def one(p, q, r):
        x, y, z = float(p), float(q), float(r)
        if not all(map(math.isfinite, (x, y, z))):
            return x * y + z
        from fractions import Fraction
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        if exact == 0:
            return x * y + z
        if t == np.float64:
            return exact.numerator / exact.denominator
        wide = exact.numerator / exact.denominator   # then once more: sticky bit keeps it right
        if Fraction(wide) != exact and not int(np.float64(wide).view(np.int64)) & 1:
            wide = float(np.nextafter(wide, np.inf if exact > Fraction(wide) else -np.inf))
        return wide
    out = np.vectorize(one, otypes=[np.float64])(a, b, c) if np.broadcast(a, b, c).size else np.zeros(
        np.broadcast(a, b, c).shape)
    return out.astype(np.float32).astype(t) if t == np.float16 else out.astype(t)


def popcount(x):
    if x.dtype == np.bool_:
        return x
    bits = x.dtype.itemsize * 8
    return np.vectorize(lambda v: bin(int(v) & (2**bits - 1)).count("1"), otypes=[x.dtype])(x) if x.size else x


def clz(x):
    if x.dtype == np.bool_:
        return ~x
    bits = x.dtype.itemsize * 8
    one = lambda v: bits - (int(v) & (2**bits - 1)).bit_length()
    return np.vectorize(one, otypes=[x.dtype])(x) if x.size else x


def make_complex(re, im):
    t = np.complex64 if np.result_type(re, im) in (np.float32, np.float16) else np.complex128
    out = np.zeros(np.broadcast(re, im).shape, t)
    out.real, out.imag = re, im
    return out


from reference_nn import *  # noqa: E402,F401,F403 - neural networks, contraction, random numbers, sorting
from reference_nn import CHECKED_ELSEWHERE_NN, ULPS_NN, ULPS_NN_FAMILY  # noqa: E402

ULPS.update(ULPS_NN)
ULPS_BY_FAMILY.update(ULPS_NN_FAMILY)
CHECKED_ELSEWHERE.update(CHECKED_ELSEWHERE_NN)
