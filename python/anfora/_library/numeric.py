# SPDX-License-Identifier: Apache-2.0
"""Functions of NumPy that numerical programs use now and then: windows, polynomials, histograms. Written as the functions of
composed.py are."""
from __future__ import annotations

import math
from typing import Any, Sequence

from .._compile.known import Known, has_parts
from .._compile.builtins import asarray
from .._ops import op
from .._transform import vmap
from .composed import ByValue, COMPOSED, HELPERS, RANKS, SOME, along, as_floats, composed, floats, helper, moveaxis, not_complex, not_narrow, widened
from .counted import COUNTED
from .decompositions import lstsq
from .special import i0


@composed
def modf(x, /):
    """(the fraction, the integer), both with the sign of x."""
    x = not_complex(x) * 1.0
    whole = op.trunc(x)
    return op.copysign(op.where(op.isinf(x), 0.0, x - whole), x), whole


@composed
def ldexp(x1, x2, /):
    """x1 2^x2."""
    k = op.clip(op.cast(x2, "f64"), -3000.0, 3000.0)
    last = op.clip(k, -1000.0, 1000.0)  # 2^k alone may be no number of the type; the last step alone rounds
    more = op.clip(k - last, -1000.0, 1000.0)
    y = op.cast(x1, "f64") * op.exp2(k - last - more) * op.exp2(more) * op.exp2(last)
    return op.cast_like(y, x1 * 1.0)


@composed
def isposinf(x, /):
    """Whether each element is +inf."""
    return not_complex(x) == math.inf


@composed
def isneginf(x, /):
    """Whether each element is -inf."""
    return not_complex(x) == -math.inf


@composed
def matvec(x1, x2, /):
    """Matrices times vectors."""
    return (x1 @ x2[..., None])[..., 0]


@composed
def vecmat(x1, x2, /):
    """Vectors, conjugated, times matrices."""
    return (op.conj(x1)[..., None, :] @ x2)[..., 0, :]


@composed
def ediff1d(ary, /, to_end: Any = None, to_begin: Any = None):
    """The differences of elements that follow each other, with others behind or before them."""
    flat = op.ravel(ary)
    d = flat[1:] - flat[:-1]
    d = d if to_begin is None else op.concatenate((op.cast_like(op.ravel(to_begin), d), d), 0)
    return d if to_end is None else op.concatenate((d, op.cast_like(op.ravel(to_end), d)), 0)


@composed
def unwrap(p, /, discont=None, axis=-1, period=2 * math.pi):
    """Angles without jumps: each is nearest to the one before it."""
    assert discont is None, "unwrap: discont cannot be given"
    rows = moveaxis(p, axis, 0)
    d = rows[1:] - rows[:-1]
    near = op.mod(d + period / 2, period) - period / 2
    near = op.where((near == -period / 2) & (d > 0), period / 2, near)
    return moveaxis(op.concatenate((rows[:1], rows[1:] + op.cumsum(near - d, 0)), 0), 0, axis)


@composed
def ravel_multi_index(multi_index: Sequence, /, dims):
    """The place of elements in the flat array of these dims."""
    at = not_narrow(multi_index[0]) * math.prod(dims[1:])
    for k in range(1, len(dims)):
        at = at + not_narrow(multi_index[k]) * math.prod(dims[k + 1:])
    return at


# ---- element by element ----

@composed
def bitwise_count(x, /):
    """The number of bits that are 1 in the absolute value of integers."""
    return op.cast(op.pop_count(op.abs(x)), "uint8")


@composed
def gcd(x1, x2, /):
    """The greatest common divisor of whole numbers."""
    a, b = op.abs(x1) + op.bit_and(op.abs(x2), 0), op.abs(x2) + op.bit_and(op.abs(x1), 0)  # floats, for which this may not end, have no bits
    while op.any(b != 0):
        rest = op.where(b != 0, a % op.where(b == 0, 1, b), 0)
        a = op.where(b != 0, b, a)
        b = rest
    return op.abs(a)


@composed
def lcm(x1, x2, /):
    """The least common multiple."""
    d = gcd(x1, x2)
    return op.where(d == 0, 0, op.abs(x1) // op.where(d == 0, 1, d) * op.abs(x2))


@composed
def frexp(x, /):
    """(m, e) with x = m 2^e, where m is from 0.5 to below 1."""
    x = not_complex(x) * 1.0
    regular = op.logical_and(x != 0, op.isfinite(x))
    size = op.cast(op.abs(op.where(regular, x, 1.0)), "f64")
    little = size < 2.0 ** -1000  # scaled, for numbers with fewer bits have no exponent of their own
    bits = op.bitcast(op.where(little, size * 2.0 ** 200, size), "i64")
    e = op.where(regular, op.right_shift(bits, 52) - 1022 - op.where(little, 200, 0), 0)
    half = op.floor_divide(e, 2)
    return x * op.cast_like(op.exp2(-op.cast(half, "f64")), x) * op.cast_like(op.exp2(-op.cast(e - half, "f64")), x), op.cast(e, "i32")


@composed
def iscomplex(x, /):
    """Whether an element has an imaginary part."""
    return op.imag(x) != 0


@composed
def isreal(x, /):
    """Whether an element has no imaginary part."""
    return op.imag(x) == 0


@composed
def heaviside(x, h, /):
    """0 below 0, 1 above, h there."""
    return op.where(op.isnan(x), x, op.where(x == 0, h, op.where(x < 0, 0.0, 1.0)))


@composed
def sinc(x, /):
    """sin(pi x) / (pi x). At 0 it is a polynomial, which has the derivatives of the limit up to the ninth."""
    y = op.where(x == 0, 1.0, math.pi * x)
    s = -(math.pi * op.where(x == 0, x, 0)) ** 2
    return op.where(x == 0, 1.0 + s / 6 * (1.0 + s / 20 * (1.0 + s / 42 * (1.0 + s / 72))), op.sin(y) / y)


@composed
def deg2rad(x, /):
    """Degrees as radians."""
    return not_complex(x) * (math.pi / 180)


@composed
def rad2deg(x, /):
    """Radians as degrees."""
    return not_complex(x) * (180 / math.pi)


@composed
def logaddexp(a, b, /):
    """The logarithm of the sum of exponentials."""
    a, b = a * 1.0, b * 1.0  # of integers too
    first = a >= b
    less = op.where(first, b - a, a - b)  # of infinities that are alike it is NaN
    return op.where(first, a, b) + op.log1p(op.exp(op.where(op.logical_and(a == b, op.isinf(a)), op.zeros_like(less), less)))


@composed
def logaddexp2(a, b, /):
    """The same to base 2."""
    return logaddexp(a * math.log(2), b * math.log(2)) / math.log(2)


@composed
def fabs(x, /):
    """The absolute value, a float."""
    return op.abs(not_complex(x) * 1.0)


@composed
def spacing(x, /):
    """How far the next number is that is further from 0."""
    x = not_complex(x) * 1.0
    return op.copysign(COMPOSED["nextafter"](op.abs(x), op.cast_like(math.inf, x)) - op.abs(x), x)


@composed
def piecewise(x, condlist: Sequence, funclist: Sequence, /, *args):
    """Of each element the function, or the number, of the last condition that holds; one more is for those for which none does."""
    y = op.zeros_like(x)
    if len(funclist) > len(condlist):
        y = op.cast_like(funclist[-1](x, *args) if callable(funclist[-1]) else funclist[-1], x) + y
    for condition, f in zip(condlist, funclist):
        y = op.where(condition, op.cast_like(f(x, *args) if callable(f) else f, x), y)
    return y


@composed
def choose(a, choices: Sequence, /, out: Any = None, mode="raise"):
    """Of each element the choice of its number; mode "raise", "clip" or "wrap" for numbers that there are not."""
    assert out is None, "TypeError: choose() makes a new array: out cannot be given"
    n = len(choices)
    assert mode in ("raise", "clip", "wrap"), "choose: mode is raise, clip or wrap"
    if mode == "raise":
        assert op.all((a >= 0) & (a < n)), "choose: there is no choice of this number; mode= may be clip or wrap"
    at = op.mod(a, n) if mode == "wrap" else op.clip(a, 0, n - 1)
    y = choices[0]
    for k in range(1, n):
        y = op.where(at == k, choices[k], y)
    return y + op.zeros_like(op.where(at == 0, y, y))


# ---- parts ----

@composed
def copy(a, /):
    """The array; arrays do not change."""
    return asarray(a)


@composed
def dsplit(a, /, n):
    """Parts along the third dim."""
    return op.split(a, n, axis=2)


@composed
def diagflat(v, /, k=0):
    """The matrix with all elements on a diagonal."""
    return op.diag(op.ravel(v), k)


@composed
def ix_(*args):
    """Vectors along one dim each, so that together they are indices of a grid."""
    found = [op.reshape(a, along(i, len(args))) for i, a in enumerate(args)]
    for a in found:
        assert a.dtype != "bool", "ix_: the indices of what is true are nonzero(mask, size=...)[0]"
    return tuple(found)


@helper
def joined_rows(parts: Sequence, /):
    """np.r_[x, y]"""
    return op.concatenate([op.reshape(p, (1,)) if op.ndim(p) == 0 else p for p in parts], 0)


@helper
def joined_columns(parts: Sequence, /):
    """np.c_[x, y]"""
    return op.concatenate([op.reshape(p, (-1, 1)) if op.ndim(p) < 2 else p for p in parts], -1)


@composed
def distance(p, q, /):
    """math.dist of two points."""
    return op.sqrt(sum([(a - b) ** 2 for a, b in zip(p, q, strict=True)]))


def nested(x):
    """How deep lists are."""
    if has_parts(x):
        return 1 + nested(x[0])
    return 0


def at_least(a, n):
    """The array with at least n dims, new ones before the others."""
    return a if op.ndim(a) >= n else at_least(op.expand_dims(a, 0), n)


def highest(x):
    """A number with as many dims as the array of nested lists that has the most."""
    if has_parts(x):
        total = highest(x[0])
        for part in x[1:]:
            total = total + highest(part)
        return total
    return 0 * op.sum(x, keepdims=True)


def joined(x, n):
    """Arrays of nested lists as one of n dims: those of the innermost lists along the last axis."""
    if has_parts(x):
        return op.concatenate([joined(part, n) for part in x], -nested(x))
    return at_least(x, n)


@composed
def block(arrays: Sequence, /):
    """An array of nested lists of arrays: those of the innermost lists along the last axis, and so on."""
    return joined(arrays, op.ndim(at_least(highest(arrays), nested(arrays))))


@composed
def delete(a, /, obj, axis=None):
    """The array without the rows of these constant indices."""
    x, k = (op.ravel(a), 0) if axis is None else (a, axis)
    n = x.shape[k]
    gone = [obj] if isinstance(obj, int) else obj
    stays = op.ones((n,), dtype="i64")
    for i in gone:
        stays = stays * (op.arange(n) != (i + n if i < 0 else i))
    return op.take(x, op.argsort(1 - stays)[:n - different(gone)], k)


@Known
def different(indices: Any) -> int:
    """How many there are."""
    if any(i < 0 for i in indices) and any(i >= 0 for i in indices):
        raise ValueError("delete: indices must all count from the beginning, or all from the end")
    return len(set(indices))


@composed
def insert(a: Any, obj: Any, values: Any, axis=None):
    """The array with rows before an index, or one before each of several."""
    x, k = (op.ravel(a), 0) if axis is None else (a, axis)
    rows, new = moveaxis(x, k, 0), op.cast_like(values, x)
    n, at = rows.shape[0], asarray(obj)
    if op.ndim(new) == 0:
        new = op.zeros_like(rows[:1]) + new
    elif op.ndim(at) == 0 and op.ndim(new) == op.ndim(x) or op.ndim(at) == 1:
        new = moveaxis(new, k, 0) if op.ndim(new) == op.ndim(x) else new
    else:
        new = op.zeros_like(rows[:1]) + new
    if op.any(at > n) or op.any(at < -n):
        raise IndexError("insert: an index is outside of the axis")
    if op.ndim(at) == 1 and op.ndim(new) == op.ndim(rows) and new.shape[0] == 1:
        new = op.broadcast_to(new, at.shape + rows.shape[1:])
    before = op.broadcast_to(op.where(at < 0, at + n, at), (new.shape[0],))
    order = op.argsort(op.concatenate((before, op.arange(n)), 0))  # a new row comes before the old one at its index
    return moveaxis(op.take(op.concatenate((new, rows), 0), order, 0), 0, k)


@composed
def put(a, ind, v, /, mode=None, inplace=False):
    """The array with elements of flat indices replaced; arrays do not change, so inplace is False, as it must be in JAX."""
    assert not inplace, "put: arrays do not change; the result is the new one"
    n = op.size(a)
    at = op.mod(ind, n) if mode == "wrap" else op.clip(ind, 0, n - 1) if mode == "clip" else ind
    return op.reshape_like(op.ravel(a).at[at].set(v), a)


@helper
def putmask(a, mask, values, /):
    """The array with elements where a mask is true: the value at their own place, as often over as it takes."""
    flat = op.ravel(asarray(values) + op.zeros((1,), dtype=a.dtype))
    return op.where(mask, op.cast_like(op.reshape_like(op.take(flat, op.arange(op.size(a)) % flat.shape[0], 0), a), a), a)


@helper
def place(a, mask, values, /):
    """The array with the next value at each place where a mask is true."""
    flat = op.ravel(asarray(values) + op.zeros((1,), dtype=a.dtype))
    number = op.cumsum(op.cast(op.ravel(mask), "i64"), 0) - 1
    return op.where(mask, op.cast_like(op.reshape_like(op.take(flat, op.maximum(number, 0) % flat.shape[0], 0), a), a), a)


@composed
def packbits(a, /, axis=None, bitorder="big"):
    """Eight truth values in each byte, along an axis or of the flat array."""
    rows = op.cast(op.ravel(a) != 0 if axis is None else op.swapaxes(a, axis, -1) != 0, "uint8")
    n = rows.shape[-1]
    padded = op.concatenate([rows, op.zeros((*rows.shape[:-1], -n % 8), dtype="uint8")], -1)
    places = op.arange(8) if bitorder == "little" else 7 - op.arange(8)
    bytes_ = op.sum(op.reshape(padded, (*rows.shape[:-1], (n + 7) // 8, 8)) << op.cast(places, "uint8"), -1, dtype="uint8")
    return bytes_ if axis is None else op.swapaxes(bytes_, axis, -1)


@composed
def unpackbits(a, /, axis=None, count=None, bitorder="big"):
    """The bits of each byte, along an axis or of the flat array; `count`: so many, as many less if it is negative."""
    assert a.dtype == "uint8", "unpackbits: the array has bytes, uint8"
    rows = op.ravel(a) if axis is None else op.swapaxes(a, axis, -1)
    places = op.arange(8) if bitorder == "little" else 7 - op.arange(8)
    bits = op.reshape(rows[..., None] >> op.cast(places, "uint8") & 1, (*rows.shape[:-1], 8 * rows.shape[-1]))
    if count is not None:
        bits = op.concatenate([bits, op.zeros((*rows.shape[:-1], max(count - bits.shape[-1], 0)), dtype="uint8")], -1)[..., :count]
    return bits if axis is None else op.swapaxes(bits, axis, -1)


ITEM_SIZES = tuple((n, bits // 8) for n, bits in (
    ("int16", 16), ("int32", 32), ("int64", 64), ("uint16", 16), ("uint32", 32), ("uint64", 64), ("float16", 16), ("bfloat16", 16),
    ("float32", 32), ("float64", 64), ("complex64", 64), ("complex128", 128)))


@Known
def windows_of(window_shape: Any, axis: Any, rank: int) -> list:
    """(the size of a window, its axis) of each axis that has some; nothing if there are no such axes."""
    sizes = [window_shape] if isinstance(window_shape, int) else list(window_shape)
    axes = list(range(rank)) if axis is None else [axis] if isinstance(axis, int) else list(axis)
    if len(sizes) != len(axes) or any(not -rank <= k < rank for k in axes):
        return []
    return [(size, k % rank) for size, k in zip(sizes, axes)]


@helper
def windowed(x, /, windows):
    """All windows; of each axis that has some `windows` gives (size, axis)."""
    y = x
    for size, k in windows:
        assert size <= y.shape[k], "sliding_window_view: a window is no larger than the array"
        places = op.arange(y.shape[k] - size + 1)[:, None] + op.arange(size)
        y = COMPOSED["moveaxis"](op.take(y, places, k), k + 1, -1)
    return y


@composed
def sliding_window_view(x, /, window_shape, axis=None):
    """All windows of a shape, along all axes or those given: their dims are the last ones."""
    for rank in SOME:
        if x.ndim == rank:
            windows = windows_of(window_shape, axis, rank)
            assert windows, "sliding_window_view: there is a size for each axis"
            return windowed(x, windows)
    raise ValueError("sliding_window_view: too many dims, or none")


@helper
def reduced_from(a, indices, /, how, axis=0):
    """np.add.reduceat and such: of each index the elements up to the next one, or its own alone if that is no greater."""
    x, at = op.swapaxes(a, axis, -1), op.cast(asarray(indices), "i64")
    n = x.shape[-1]
    assert op.all(op.logical_and(at >= 0, at < n)), "IndexError: reduceat: an index is outside"
    ends = op.concatenate([at[1:], op.zeros((1,), dtype="i64") + n], 0)
    ends = op.where(at < ends, ends, at + 1)[:, None]
    inside = op.logical_and(op.arange(n) >= at[:, None], op.arange(n) < ends)
    first = op.expand_dims(op.take(x, at, -1), -1)
    rows = op.where(inside, op.expand_dims(x, -2), first if how in ("maximum", "minimum") else op.ones_like(first) if how in ("mul", "logical_and") else op.zeros_like(first))
    for name, reduce in REDUCES:
        if how == name:
            return op.swapaxes(reduce(rows, -1), axis, -1)
    raise ValueError("reduceat: the function is no reduction")


REDUCES = (("add", op.sum), ("mul", op.prod), ("maximum", op.max), ("minimum", op.min), ("logical_and", op.all), ("logical_or", op.any))


@composed
def put_along_axis(a, indices, values, /, axis, inplace=False):
    """The array with elements along an axis replaced."""
    assert not inplace, "put_along_axis: arrays do not change; the result is the new one"
    return op.write_along_axis(a, indices, op.broadcast_like(op.cast_like(values, a), indices), axis)


@composed
def fill_diagonal(a, val, /, wrap=False, inplace=False):
    """A matrix with another diagonal."""
    assert not inplace and not wrap, "fill_diagonal: inplace and wrap are False"
    rows, columns = op.arange(a.shape[0]), op.arange(a.shape[1])
    value = val if op.ndim(val) == 0 else op.take(val, op.mod(rows, op.size(val)))[:, None]
    return op.where(rows[:, None] == columns[None, :], op.cast_like(value, a), a)


@composed
def diag_indices_from(arr, /):
    """The indices of the main diagonal."""
    for rank in RANKS:
        if arr.ndim == rank:
            return (op.arange(arr.shape[0]),) * rank
    raise ValueError("diag_indices_from: too many dims")


@composed
def fromfunction(function, /, shape, dtype=None):
    """The function of the indices of each place."""
    grids = [op.broadcast_to(op.reshape(op.arange(n, dtype=floats(dtype)), along(i, len(shape))), shape) for i, n in enumerate(shape)]
    return function(*grids)


@composed
def apply_along_axis(func1d: Any, axis, arr: Any, *args):
    """The function of each row along an axis; its result, a number or a vector, takes the place of the row."""
    rows = moveaxis(arr, axis, -1)
    for rank in range(1, 7):
        if arr.ndim == rank:
            flat = op.reshape(rows, (-1, rows.shape[-1]))
            y = vmap(lambda r: func1d(r, *args))(flat)
            shape = tuple(rows.shape[:-1]) + tuple(y.shape[1:])
            y = op.reshape(y, shape)
            return y if y.ndim < rank else moveaxis(y, -1, axis)
    raise ValueError("apply_along_axis: too many dims")


# ---- order ----

@composed
def partition(a, kth: Sequence, /, axis=-1):
    """In order along an axis, so the kth element has the smaller ones before it."""
    return op.sort(a, axis)


@composed
def argpartition(a, kth: Sequence, /, axis=-1):
    """The indices of partition."""
    return op.argsort(a, axis)


@composed
def lexsort(keys: Sequence, /, axis=-1):
    """The order by the last key; of equals by the one before it, and so on."""
    order = op.argsort(keys[0], axis)
    for k in range(1, len(keys)):
        order = op.take_along_axis(order, op.argsort(op.take_along_axis(keys[k], order, axis), axis), axis)
    return order


@composed
def repeat(x, repeats, /, axis=None, total_repeat_length=None):
    """Each element repeated along an axis, of the flat array if there is none. With total_repeat_length, the length of the result,
    more are cut, and the last element is repeated if there are fewer; else how many there are is computed."""
    rows = op.ravel(x) if axis is None else x
    along_ = 0 if axis is None else axis
    if total_repeat_length is None and op.ndim(repeats) == 0:
        return op.repeat(rows, repeats, along_)
    n = rows.shape[along_]
    ends = op.cumsum(op.zeros((n,), dtype="i64") + repeats, 0)
    length = op.sum(op.zeros((n,), dtype="i64") + repeats) if total_repeat_length is None else total_repeat_length
    at = op.searchsorted(ends, op.arange(length), side="right")
    return op.take(rows, op.minimum(at, n - 1), along_)


@Known
def sum_of(repeats: Any) -> int:
    """How many elements there are of one each."""
    return int(sum(repeats))


@Known
def length_of(repeats: Any) -> int:
    """How many numbers there are."""
    return len(repeats)


@helper
def itemsize(x, /):
    """How many bytes an element takes."""
    for name, size in ITEM_SIZES:
        if x.dtype == name:
            return size
    return 1


@helper
def nbytes(x, /):
    """How many bytes all elements take."""
    return op.size(x) * itemsize(x)


@helper
def repeat_constant(x, /, repeats, axis=None, total_repeat_length=None):
    """repeat by constants."""
    if has_parts(repeats):
        if length_of(repeats) == 1:
            return repeat_constant(x, repeats[0], axis, total_repeat_length)
        n = op.size(x) if axis is None else x.shape[axis]
        assert length_of(repeats) == n, "repeat: there is a number of repeats for each element"
        return repeat(x, asarray(repeats), axis, sum_of(repeats) if total_repeat_length is None else total_repeat_length)
    y = op.repeat(x, repeats, axis)
    if total_repeat_length is None:
        return y
    k = 0 if axis is None else axis
    return op.take(y, op.minimum(op.arange(total_repeat_length), y.shape[k] - 1), k)


# ---- histograms ----

def equal_edges(flat, bins, range):  # noqa: A002: NumPy's name
    """The edges of equally wide bins from the least element to the greatest, or of a range."""
    low, high = (op.min(flat), op.max(flat)) if range is None else (range[0], range[1])
    wide = op.where(high > low, 0.0, 0.5)
    first, last, at = low - wide, high + wide, op.arange(bins + 1)
    return op.where(at == bins, last, first + at * ((last - first) / bins))  # the greatest element is in the last bin


@composed
def histogram_bin_edges(a, /, bins=10, range: Any = None, weights: Any = None):  # noqa: A002
    """equal_edges of the elements."""
    return equal_edges(op.ravel(a), bins, range)


def bin_of(flat, edges):
    """The number of the bin of each element; -1 or the number of bins outside."""
    at = op.searchsorted(edges, flat, side="right") - 1
    return op.where(flat == edges[-1], edges.shape[0] - 2, at)


def counted(flat, edges, weights, density):
    """(counts, edges)"""
    n = edges.shape[0] - 1
    at = bin_of(flat, edges)
    each = op.ones_like(flat) if weights is None else op.ravel(weights)
    counts = op.cast_like(op.zeros((n + 1,)), op.cast_like(each, edges)).at[op.where(op.logical_or(at < 0, at >= n), n, at)].add(each)[:n]
    if density:
        return counts / (op.sum(counts) * (edges[1:] - edges[:-1])), edges
    return counts, edges


@helper
def whole(found, /, weights: Any = None, density=False):
    """Counts are whole numbers if nothing is weighed."""
    counts, edges = found
    return (op.cast(counts, "int64") if weights is None and not density else counts), edges


@composed
def histogram(a, /, bins=10, range: Any = None, *, weights: Any = None, density=False):  # noqa: A002
    """(counts, edges) of equally wide bins from the least element to the greatest, or of a range; bins may be the edges."""
    return whole(counted(op.ravel(a), histogram_bin_edges(a, bins, range), weights, density), weights, density)


@helper
def histogram_by_edges(a, bins, /, range: Any = None, *, weights: Any = None, density=False):  # noqa: A002
    """histogram of edges, or of a number of bins that a caller gives."""
    flat, given = op.ravel(a), asarray(bins)
    edges = equal_edges(flat, bins, range) if given.ndim == 0 else op.cast_like(given, flat * 1.0)
    return whole(counted(flat, edges, weights, density), weights, density)


@composed
def histogram2d(x, y, /, bins=10, range: Any = None, *, weights: Any = None, density=False):  # noqa: A002
    """(counts, edges of x, edges of y)"""
    n = bins if isinstance(bins, tuple) else (bins, bins)
    xs = histogram_bin_edges(x, n[0], None if range is None else range[0])
    ys = histogram_bin_edges(y, n[1], None if range is None else range[1])
    rows = op.cast_like(op.arange(n[0])[:, None] == bin_of(x, xs), xs)
    columns = op.cast_like(op.arange(n[1])[:, None] == bin_of(y, ys), ys)
    counts = (rows if weights is None else rows * weights) @ op.swapaxes(columns, 0, 1)
    if density:
        area = (xs[1:] - xs[:-1])[:, None] * (ys[1:] - ys[:-1])[None, :]
        return counts / (op.sum(counts) * area), xs, ys
    return counts, xs, ys


COMPOSED["ix_"] = COMPOSED.pop("ix")
COMPOSED["histogram"] = ByValue("histogram", COMPOSED["histogram"], HELPERS["histogram_by_edges"], 1, "bins", int)
COMPOSED["repeat"] = COUNTED["repeat"] = ByValue("repeat", HELPERS["repeat_constant"], COMPOSED["repeat"], 1, "repeats", (int, tuple, list))


# ---- windows of signals ----

def cosines(m, dtype, *part):
    """Sums of cosines over a window of m points."""
    t = 2 * math.pi / (m - 1 if m > 1 else 1) * op.arange(m, dtype=floats(dtype))
    y = part[0] + 0 * t
    for k in range(1, len(part)):
        y = y + part[k] * op.cos(k * t)
    return y


@composed
def hanning(M):  # noqa: N803: NumPy's name
    """A cosine bell from 0 to 0."""
    return cosines(M, None, 0.5, -0.5) if M > 1 else op.ones((M,))


@composed
def hamming(M):  # noqa: N803
    """A cosine bell from .08 to .08."""
    return cosines(M, None, 0.54, -0.46) if M > 1 else op.ones((M,))


@composed
def blackman(M):  # noqa: N803
    """A bell of two cosines."""
    return cosines(M, None, 0.42, -0.5, 0.08) if M > 1 else op.ones((M,))


@composed
def kaiser(M, beta: Any):  # noqa: N803
    """The bell of Kaiser, of a shape beta."""
    n = op.arange(M, dtype=floats(None))
    part = (2 / (M - 1 if M > 1 else 1)) * n - (1.0 if M > 1 else 0.0)
    return i0(beta * op.sqrt(op.maximum(1 - part * part, 0.0))) / i0(op.zeros_like(n) + beta)


@composed
def bartlett(M):  # noqa: N803
    """A triangle."""
    return 1 - op.abs(2 / (M - 1) * op.arange(M, dtype=floats(None)) - 1) if M > 1 else op.ones((M,))


# ---- polynomials, the highest power first ----

def to_size(p, n):
    """With coefficients of 0 before it."""
    return op.concatenate((op.cast_like(op.zeros((n - p.shape[0],)), p), p), 0)


@composed
def polyadd(a1, a2, /):
    """The sum of two polynomials."""
    n = max(a1.shape[0], a2.shape[0])
    return to_size(a1, n) + to_size(a2, n)


@composed
def polysub(a1, a2, /):
    """The difference of two polynomials."""
    return polyadd(a1, -a2)


@composed
def polymul(a1, a2, /):
    """The product of two polynomials."""
    return COMPOSED["convolve"](a1, a2)


@composed
def polyder(p: Sequence, /, m=1):
    """The m-th derivative of a polynomial."""
    for _ in range(m):
        p = p[:-1] * op.arange(p.shape[0] - 1, 0, -1)
    return p


@composed
def polyint(p: Sequence, /, m=1, k=None):
    """The m-th integral of a polynomial, with constants of 0."""
    assert k is None, "polyint: the constants are 0; add to the last coefficient"
    for _ in range(m):
        p = op.concatenate((p / op.arange(p.shape[0], 0, -1), op.zeros_like(p[:1])), 0)
    return p


@composed
def poly(seq_of_zeros, /):
    """The polynomial of a vector of zeros, or the characteristic one of a matrix."""
    assert op.ndim(seq_of_zeros) == 1, "poly takes zeros; the eigenvalues of a matrix are linalg.eigvalsh's"
    z = seq_of_zeros * 1.0
    p = op.concatenate((op.ones_like(z[:1]), op.zeros_like(z)), 0)
    for i in range(z.shape[0]):
        p = p - z[i] * op.concatenate((op.zeros_like(z[:1]), p[:-1]), 0)
    return p


@composed
def polydiv(u, v, /):
    """(quotient, rest) of two polynomials; zeros at the beginning of the rest are not left out."""
    n, m = u.shape[0], v.shape[0]
    if n < m:
        return op.zeros_like(u[:1]) * 1.0, u * 1.0
    rest, parts = u * 1.0, []
    for i in range(n - m + 1):
        q = rest[i] / v[0]
        parts.append(q)
        rest = op.dynamic_update_slice(rest, op.dynamic_slice(rest, [i], (m,)) - q * v, [i])
    return op.stack(parts), rest[n - m + 1:]


@composed
def polyfit(x, y, /, deg, rcond=None, *, w: Any = None):
    """The coefficients of the polynomial of this degree that is nearest to points, by least squares."""
    rows = COMPOSED["vander"](x * 1.0, deg + 1)
    right = y * 1.0
    if w is not None:
        rows = rows * w[:, None]
        right = right * w if op.ndim(y) == 1 else right * w[:, None]
    scale = op.sqrt(op.sum(rows * rows, 0))
    c = lstsq(rows / scale, right[:, None] if op.ndim(y) == 1 else right)[0]
    return c[:, 0] / scale if op.ndim(y) == 1 else c / scale[:, None]


# ---- slopes ----

def slopes(a, spacing, edge_order):
    """Along the first dim."""
    if a.shape[0] < edge_order + 1:
        raise ValueError("gradient: there are fewer elements along an axis than edge_order + 1")
    if op.ndim(spacing) == 1:
        return slopes_at(a, widened(as_floats(spacing), a), edge_order)
    first, last = a[1:2] - a[:1], a[-1:] - a[-2:-1]
    if edge_order == 2:
        first, last = 2 * a[1:2] - 1.5 * a[:1] - 0.5 * a[2:3], 1.5 * a[-1:] - 2 * a[-2:-1] + 0.5 * a[-3:-2]
    return op.concatenate([first, (a[2:] - a[:-2]) / 2, last], 0) / spacing


def slopes_at(a, x, edge_order):
    """Along the first dim, at places x that have any distances."""
    if x.shape[0] != a.shape[0]:
        raise ValueError("gradient: there are not as many places as elements along the axis")
    steps, rises = x[1:] - x[:-1], a[1:] - a[:-1]
    h, k, left, right = steps[:-1], steps[1:], rises[:-1] / steps[:-1], rises[1:] / steps[1:]
    first, last = left[:1], right[-1:]
    if edge_order == 2:
        first = left[:1] + (left[:1] - right[:1]) * (h[:1] / (h[:1] + k[:1]))
        last = right[-1:] + (right[-1:] - left[-1:]) * (k[-1:] / (h[-1:] + k[-1:]))
    return op.concatenate([first, left * (k / (h + k)) + right * (h / (h + k)), last], 0)


@Known
def axes_of(rank: int, axis: Any) -> tuple:
    """The axes that an argument names, all if it is None."""
    return tuple(range(rank)) if axis is None else axis if isinstance(axis, tuple) else (axis,)


@composed
def gradient(f, /, *varargs, axis=None, edge_order=1):
    """Slopes by central differences along an axis; a tuple, one for each axis, if there are several. After the array stand the
    distance of its elements, or their places, for all axes or each of them."""
    assert edge_order == 1 or edge_order == 2, "gradient: edge_order is 1 or 2"
    a = as_floats(f)  # differences of integers would wrap
    for rank in RANKS:
        if a.ndim == rank:
            axes = axes_of(rank, axis)
            assert len(varargs) <= 1 or len(varargs) == len(axes), "gradient: there is one spacing, or one for each axis"
            if isinstance(axis, int) or rank == 1:
                k = axes[0]
                return moveaxis(slopes(moveaxis(a, k, 0), varargs[0] if len(varargs) == 1 else 1.0, edge_order), 0, k)
            if len(varargs) > 1:
                return tuple([moveaxis(slopes(moveaxis(a, k, 0), by, edge_order), 0, k) for k, by in zip(axes, varargs)])
            return tuple([moveaxis(slopes(moveaxis(a, k, 0), varargs[0] if len(varargs) == 1 else 1.0, edge_order), 0, k) for k in axes])
    raise ValueError("gradient: too many dims")
