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


# Units in the last place (of 16-bit floats at most 2), or a pair with an absolute tolerance; that pair also
# lets zeros differ in sign.
ULPS_BY_FAMILY = {"math": 4, "reduction": 4}
ULPS = {
    "Power": 4, "FloorDiv": 1, "Mod": 1, "Reciprocal": 1, "Abs": 1, "Div": 1,
    "Maximum": (0, 1e-300), "Minimum": (0, 1e-300), "Clip": (0, 1e-300),
    "Max": (0, 1e-300), "Min": (0, 1e-300), "CumMax": (0, 1e-300), "CumMin": (0, 1e-300),
    "Digamma": (64, 1e-13), "Polygamma": (256, 1e-12), "LinearScan": 1, "Lgamma": (8, 1e-6),
}
# Sums and products are made in double and rounded once: so must be what they are compared with.
IN_DOUBLE = {"Sum", "Mean", "Prod", "Var", "Std", "CumSum", "CumProd", "SumTo", "LogSumExp"}

# Cases that no random choice would meet: op, attributes, inputs. Expected values come from `.numpy`.
HALFWAY = [2**60 + 2**36 + 1, 2**60 + 2**36, 2**60 + 3 * 2**36 - 1, -(2**60 + 2**36 + 1), 2**62 + 2**54 + 1]
BEYOND = [math.nan, math.inf, -math.inf, 1e20, -1e20, 127.9, 128, -128.9, -129, 255.9, 256, 300.7, -0.9, -1, 32768, 65536, 2**31 - 128,
          2**31, -2**31, -2**31 - 256, 2**32 - 256, 2**32, 2**63 - 2**39, 2**63, -2**63, 2**64 - 2**40, 2**64]
EXTRA = [
    ("Cast", {"dtype": "f32"}, [np.array(HALFWAY, np.int64)]),
    ("Cast", {"dtype": "f32"}, [np.array([2**63 + 2**39 + 1, 2**63 + 2**39, 2**64 - 1], np.uint64)]),
    ("Cast", {"dtype": "f64"}, [np.array([2**63 + 2**10 + 1, 2**63 + 2**10, 2**64 - 1], np.uint64)]),
    ("Cast", {"dtype": "f16"}, [np.array([1 + 2**-11 + 2**-40, 1 + 2**-11, 65519.99, 65520, 2**-25, 2**-24 * 1.5])]),
    *[("Cast", {"dtype": d}, [np.array(BEYOND, f)])
      for d in ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64") for f in (np.float32, np.float64)],
    ("Cast", {"dtype": "i64"}, [np.array([65504, math.inf, -math.inf, math.nan], np.float16)]),
    ("Add", {}, [np.array(HALFWAY, np.int64), np.float32(0)]),
    ("Fma", {}, [np.float32(1 + 2**-12), np.float32(1 + 2**-12), np.float32(-1 - 2**-11)]),
    ("FloorDiv", {}, [np.array([-128], np.int8), np.array([-1], np.int8)]),
    ("FloorDiv", {}, [np.array([-2**63], np.int64), np.array([-1], np.int64)]),
    ("Mod", {}, [np.array([-2**63], np.int64), np.array([-1], np.int64)]),
    ("Fmod", {}, [np.array([-2**31], np.int32), np.array([-1], np.int32)]),
    ("Abs", {}, [np.array([-2**63, -2**63 + 1], np.int64)]),
    ("Less", {}, [np.array([2**63, 1, 2**64 - 1], np.uint64), np.array([1, 2**63, 2**64 - 2], np.uint64)]),
    ("Sum", {}, [np.full(3, 2**63 - 1, np.int64)]),
    ("Sum", {"axis": 0}, [np.array([[1e8], [1.0], [-1e8]], np.float32)]),
    ("Max", {}, [np.array([2**63, 1], np.uint64)]),
    ("Take", {"axis": 0}, [np.arange(5), np.array([-5, 4], np.int8)]),
]
# Requests that must fail, and with which code.
ERRORS = [
    ("FloorDiv | i32[]:01000000 i32[]:00000000", "E0401"),
    ("Mod | i64[1]:0100000000000000 i64[1]:0000000000000000", "E0401"),
    ("Fmod | u8[1]:01 u8[1]:00", "E0401"),
    ("Power | i8[1]:02 i8[1]:ff", "E0402"),
    ("Take axis=0 | f32[2]:0000000000000000 i64[1]:0200000000000000", "E0404"),
    ("Take axis=0 | f32[2]:0000000000000000 i64[1]:fdffffffffffffff", "E0404"),
    ("Take axis=0 | f32[2]:0000000000000000 u64[1]:ffffffffffffffff", "E0404"),
    ("Take axis=0 | f32[0]: i64[1]:0000000000000000", "E0404"),
    ("Take axis=1 | f32[2]:0000000000000000 i64[1]:0200000000000000", "E0540"),
    ("Take axis=0 | f32[2]:0000000000000000 f32[1]:00000000", "E0546"),
    ("WindowStart size=2 length=5 | i64[]:0400000000000000", "E0406"),
    ("WindowStart size=2 length=5 | i64[]:feffffffffffffff", "E0406"),
    ("WindowStart size=2 length=5 | i64[]:faffffffffffffff", "E0406"),
    ("WindowStart size=2 length=500 | u8[]:fe", "E0406"),
    ("WindowStart size=2 length=5 | u64[]:ffffffffffffffff", "E0406"),
    ("TakeAlongAxis axis=0 | f32[2]:0000000000000000 i64[1]:0200000000000000", "E0404"),
    ("GatherNd | f32[2]:0000000000000000 i64[1]:0200000000000000", "E0404"),
    ("ScatterNd mode='sum | f32[1]:00000000 i64[1]:0000000000000000 f32[]:00000000", "E0405"),
    ("ScatterNd | i32[1]:00000000 i64[1]:0000000000000000 f32[]:00000000", "E0546"),
    ("Add | f32[2]:0000000000000000 f32[3]:000000000000000000000000", "E0503"),
    ("Add | None f32[]:00000000", "E0502"),
    ("Add | f32[]:00000000", "E0202"),
    ("Sub | bool[]:00 bool[]:01", "E0506"),
    ("BitAnd | f32[]:00000000 f32[]:00000000", "E0506"),
    ("Less | c64[]:0000000000000000 c64[]:0000000000000000", "E0506"),
    ("Add | key[]:0000000000000000 i32[]:00000000", "E0501"),
    ("Max | f32[0]:", "E0501"),
    ("Unreduce axis=0 | f32[2]:0000000000000000 f32[2]:0000000000000000", "E0546"),
    ("Max | c64[1]:0000000000000000", "E0506"),
    ("Sum axis=2 | f32[1]:00000000", "E0540"),
    ("Sum axis=(0,0) | f32[1]:00000000", "E0501"),
    ("Sum keepdims=2 | f32[1]:00000000", "E0205"),
    ("Reshape shape=(3,) | f32[2]:0000000000000000", "E0508"),
    ("Reshape shape=(-1,-1) | f32[2]:0000000000000000", "E0501"),
    ("Reshape shape=(-1,0) | f32[2]:0000000000000000", "E0508"),
    ("Reshape | f32[2]:0000000000000000", "E0206"),
    ("Zeros shape=(1099511627776,1099511627776) |", "E0507"),
    ("Zeros shape=(4294967296,4294967296,4294967296,0) |", ""),
    ("Add | f32[4294967296,0]: f32[1,0]:", ""),
    ("Zeros shape=(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1) |", "E0507"),
    ("Zeros shape=(-1,) |", "E0501"),
    ("Tile reps=(9223372036854775807,3) | f32[]:00000000", "E0507"),
    ("UnpackBits | f32[1]:00000000", "E0501"),
    ("UnpackBits bits=3 | u8[1]:00", "E0501"),
    ("UnpackBits axis=1 | u8[1]:00", "E0540"),
    ("UnpackBits | u8[]:00", "E0540"),
    ("Repeat repeats=9223372036854775807 | f32[2]:0000000000000000", "E0507"),
    ("Pad pad_width=(9223372036854775807,1) | f32[1]:00000000", "E0507"),
    ("Pad pad_width=(1,1) mode='edge | f32[0]:", "E0501"),
    ("Pad pad_width=(1,1) mode='odd | f32[1]:00000000", "E0501"),
    ("Eye n=4611686018427387904 |", "E0507"),
    ("Eye n=1 k=-9223372036854775808 |", ""),
    ("Arange stop=9223372036854775807 start=-9223372036854775808 |", "E0501"),
    ("Arange stop=1 step=0 |", "E0501"),
    ("Arange start=0.0 stop=1.0 step=nan |", "E0501"),
    ("Arange stop=9223372036854775807 start=9223372036854775805 step=9223372036854775807 |", ""),
    ("Roll shift=9223372036854775807 axis=0 | f32[3]:000000000000000000000000", ""),
    ("Diag k=-9223372036854775808 | f32[1]:00000000", "E0501"),
    ("Diag k=4611686018427387904 | f32[1]:00000000", "E0501"),
    ("Slice step=0 | f32[1]:00000000", "E0501"),
    ("Slice start=-9223372036854775808 stop=9223372036854775807 step=-9223372036854775808 | f32[1]:00000000", ""),
    ("Split sections=2 | f32[3]:000000000000000000000000", "E0501"),
    ("Split sections=0 | f32[3]:000000000000000000000000", "E0501"),
    ("Concat |", "E0501"),
    ("Concat | f32[1]:00000000 f32[]:00000000", "E0544"),
    ("Concat | f32[]:00000000 f32[]:00000000", "E0540"),
    ("Where | f32[]:00000000 f32[]:00000000 f32[]:00000000", "E0501"),
    ("Cast dtype=@f32 | key[]:0000000000000000", "E0506"),
    ("DynamicSlice sizes=(3,) | f32[2]:0000000000000000 i64[]:0000000000000000", "E0501"),
    ("DynamicSlice sizes=(1,) | f32[2]:0000000000000000", "E0501"),
    ("Transpose axes=(0,0) | f32[1,1]:00000000", "E0501"),
    ("Squeeze axis=0 | f32[2]:0000000000000000", "E0501"),
    ("Len | f32[]:00000000", "E0501"),
    ("OneHot depth=-1 | i32[]:00000000", "E0501"),
    ("ShiftLeft | i64[]:0100000000000000 i64[]:0000000000000080", ""),
    ("ShiftRight | i64[]:0100000000000080 i64[]:ffffffffffffffff", ""),
    ("Grad | None", "E0403"),
]

CLASSES = [["bool"], ["int", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"], ["float", "f16", "bf16", "f32", "f64"],
           ["c64", "c128"]]


def promote(a, b):
    """docs/language.md: the higher class wins; in it the wider; weak numbers give way within a class."""
    if a == b:
        return a
    ca, cb = (next(i for i, c in enumerate(CLASSES) if d in c) for d in (a, b))
    if ca != cb:
        hi, lo = (a, b) if ca > cb else (b, a)
        if hi == "float":
            return hi if lo == "int" else "f64"
        if hi == "int":
            return "i64"
        return "c128" if hi == "c64" and lo == "f64" else hi
    if a in ("int", "float") or b in ("int", "float"):
        return b if a in ("int", "float") else a
    if {a, b} == {"f16", "bf16"}:
        return "f32"
    size = lambda d: int(d.lstrip("bficu"))
    if a[0] == b[0] or ca != 1:
        return a if size(a) >= size(b) else b
    i, u = (a, b) if a[0] == "i" else (b, a)
    return i if size(i) > size(u) else f"i{min(64, 2 * size(u))}"


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
        if math.isinf(v) or (v <= 0 and v == math.floor(v)):
            return math.inf
        return math.lgamma(v)
    return real(one, x)


def digamma(x):
    """The difference quotient's limit by the recurrence to 60 and Stirling's series; not our code's 10."""
    def one(v):
        s = 0.0
        terms = []
        if v < 0:
            terms.append(-math.pi / math.tan(math.pi * math.fmod(v, 1)))
            v = 1 - v
        while v < 60:
            terms.append(-1 / v)
            v += 1
        terms += [math.log(v), -1 / (2 * v), -1 / (12 * v**2), 1 / (120 * v**4), -1 / (252 * v**6)]
        return math.fsum(terms) + s
    return real(one, x)


def polygamma(n, x):
    """n-th derivative of digamma: many terms of its series upwards, the rest by Euler-Maclaurin."""
    def one(v):
        if v <= 0 and v == math.floor(v):
            return math.inf if n % 2 else math.nan
        m = max(0, math.ceil(-v)) + 150
        f = math.factorial(n)
        w = v + m
        tail = [f / n / w**n, f / 2 / w**(n + 1), f * (n + 1) / 12 / w**(n + 2),
                -f * (n + 1) * (n + 2) * (n + 3) / 720 / w**(n + 4)]
        return (-1)**(n + 1) * math.fsum([f / (v + k)**(n + 1) for k in range(m)] + tail)
    return real(one, x)


def linear_scan(a, b, axis, reverse):
    """y[i] = b[i] + a[i] * y[before], from the other end if reverse."""
    t = np.result_type(a, b)
    w = t if t.kind in "iu" else np.complex128 if t.kind == "c" else np.float64
    p, q = (np.moveaxis(v.astype(w), axis, 0)[::-1 if reverse else 1] for v in (a, b))
    y = np.array(q)
    for i in range(1, len(y)):
        y[i] = q[i] + p[i] * y[i - 1]
    return np.moveaxis(y[::-1 if reverse else 1], 0, axis).astype(t)


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


def saturated(x, t):
    """x as another element type; floats become the nearest integer of the type's range towards zero, NaN 0."""
    if np.dtype(t).kind not in "iu" or x.dtype.kind not in "fc":
        return x.astype(t)
    limits, x = np.iinfo(t), np.asarray(x.real)
    one = lambda v: 0 if math.isnan(v) else limits.max if v >= limits.max else limits.min if v <= limits.min else int(v)
    return np.array([one(float(v)) for v in x.ravel()], t).reshape(x.shape)


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
from reference_nn import ULPS_NN, ULPS_NN_FAMILY  # noqa: E402

ULPS.update(ULPS_NN)
ULPS_BY_FAMILY.update(ULPS_NN_FAMILY)


def logsumexp(x, axis, keepdims):
    t = x.dtype if x.dtype.kind == "f" else np.dtype(np.float64)
    w = x.astype(np.float64)
    if not w.size:
        return np.full(np.sum(w, axis=axis, keepdims=keepdims).shape, -np.inf, t)
    return np.asarray(np.logaddexp.reduce(w, axis=axis if axis is not None else tuple(range(w.ndim)),
                                          keepdims=keepdims)
                      if axis is None or isinstance(axis, int)
                      else np.log(np.sum(np.exp(w), axis=axis, keepdims=keepdims))).astype(t)


def cumulate(f, first, x, axis, reverse, exclusive):
    """f along the axis, from the other end if reverse; exclusive puts `first` before and drops the last."""
    if axis is None:
        x, axis = x.ravel(), 0
    x = np.flip(x, axis) if reverse else x
    y = f(x, axis=axis)
    if exclusive:
        lead = np.full_like(np.take(y, [0], axis), first)
        y = np.concatenate([lead, np.delete(y, -1, axis)], axis)
    return np.flip(y, axis) if reverse else y


def reduced_axes(x, axis):
    return tuple(range(x.ndim)) if axis is None else axis


def sum_to(x, like):
    x = np.sum(x.astype(np.float64) if x.dtype.kind == "f" else x, axis=tuple(range(x.ndim - like.ndim)),
               dtype=None if x.dtype.kind == "f" else x.dtype).astype(x.dtype) if x.ndim > like.ndim else x
    axes = tuple(k for k in range(like.ndim) if like.shape[k] == 1 and x.shape[k] != 1)
    return np.sum(x, axis=axes, keepdims=True, dtype=x.dtype) if axes else x


def flatten(x, start, end):
    if x.ndim == 0:
        return x.reshape(1)
    end %= x.ndim
    return x.reshape(x.shape[:start] + (int(np.prod(x.shape[start:end + 1])),) + x.shape[end + 1:])


def unstack(x, axis):
    return tuple(np.moveaxis(x, axis, 0))


def pad(x, pad_width, mode, value):
    pairs = np.reshape(pad_width, (-1, 2)).astype(int)
    if mode == "constant":
        return np.pad(x, pairs, constant_values=np.asarray(value).astype(x.dtype)) if x.ndim else x
    return np.pad(x, pairs, mode=mode)


def sl(start, stop, step, axis):
    s = slice(start, stop, step)
    return (Ellipsis, s) if axis == -1 else (slice(None),) * axis + (s,)


def getitem(x, indices, spec):
    """x[spec], an "i" being the next of the indices."""
    rest = iter(indices)

    def number(t):
        return None if not t else next(rest).item() if t == "i" else int(t)

    def part(t):
        if t in ("n", "..."):
            return None if t == "n" else Ellipsis
        if ":" in t:
            return slice(*map(number, t.split(":")))
        if t != "i":
            return int(t)
        a = next(rest)
        return a if a.ndim else a.item()

    return np.asarray(x[tuple(part(t) for t in spec.split(","))])


def setitem(x, where, update):
    x = x.copy()
    x[where] = update
    return x


def combine(x, where, u, mode):
    """One update after the other, so that equal indices meet in order."""
    x[where] = {"update": lambda a, b: b, "add": np.add, "mul": np.multiply, "min": np.minimum,
                "max": np.maximum}[mode](x[where], u)


def index_write(x, indices, updates, axis, mode):
    shape = x.shape
    x = x.copy()
    if axis is None:
        x, axis = x.reshape(-1), 0
    y = np.moveaxis(x, axis, 0)
    axis %= x.ndim
    u = np.moveaxis(updates, tuple(range(axis, axis + indices.ndim)), tuple(range(indices.ndim)))
    for at in np.ndindex(indices.shape):
        combine(y, int(indices[at]), u[at], mode)
    return x.reshape(shape)


def write_along(x, indices, updates, axis, mode):
    x = x.copy()
    for at in np.ndindex(indices.shape):
        where = list(at)
        where[axis] = int(indices[at])
        combine(x, tuple(where), updates[at], mode)
    return x


def scatter_nd(x, indices, updates, mode):
    x = x.copy()
    for at in np.ndindex(indices.shape[:-1]):
        combine(x, tuple(int(i) for i in indices[at]), updates[at], mode)
    return x


def dynamic_at(x, starts, sizes):
    out = []
    for s, n, d in zip(starts, sizes, x.shape):
        s = int(s)
        s = max(s + d, 0) if s < 0 else s
        s = min(s, d - n)
        out.append(slice(s, s + n))
    return tuple(out)


def dynamic_slice(x, starts, sizes):
    return x[dynamic_at(x, starts, sizes)]


def dynamic_update_slice(x, update, starts):
    return setitem(x, dynamic_at(x, starts, update.shape), update)


def one_hot(indices, depth, axis, dtype):
    hot = (indices[..., None] == np.arange(depth)).astype(dtype)
    return np.moveaxis(hot, -1, axis)
