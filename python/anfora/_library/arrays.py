# SPDX-License-Identifier: Apache-2.0
"""Statistics, limits and sums by the names and arguments of the Array API standard and NumPy, written as the functions of
_composed.py are."""
from __future__ import annotations

import math
from typing import Any

from .. import _core
from .._compile.builtins import asarray
from .._compile.known import Known
from .._ops import COMPOSED, _numpy, op
from .composed import RANKS, as_floats, between, composed, helper, limit_of, moveaxis, not_narrow, widened, with_dims


# ---- variance ----

@Known
def freedom(correction: Any, ddof: int) -> Any:
    """How much less than the number of elements the sum of squares is divided by."""
    return ddof if correction is None else correction


@composed
def var(x, /, axis=None, dtype=None, out=None, ddof=0, keepdims=False, where: Any = None, mean: Any = None, correction=None):
    """The variance: the sum of squared distances from the mean over the number of elements less ddof, which the standard calls
    correction; of the elements where `where` is true."""
    assert out is None, "var() makes a new array: out cannot be given"
    less = freedom(correction, ddof)
    x = x if dtype is None else op.cast(x, dtype)
    for kind in ("complex64", "complex128"):
        if x.dtype == kind:
            return spread(x, axis, less, keepdims, where, mean)
    if isinstance(less, int) and mean is None and where is None:
        return op.var(x, axis, keepdims, less)
    return spread(x, axis, less, keepdims, where, mean)


def spread(x, axis, less, keepdims, where, mean):
    """The variance, by its definition."""
    if where is not None:
        middle = op.mean(x, axis, keepdims=True, where=where) if mean is None else mean
        return op.sum(op.abs(x - middle) ** 2, axis, keepdims=keepdims, where=where) / op.maximum(how_many(x, where, axis, keepdims) - less, 0)
    middle = op.mean(x, axis, keepdims=True) if mean is None else mean
    squares = op.abs(x - middle) ** 2
    count = op.size(squares) / op.size(op.sum(squares, axis))
    return op.sum(squares, axis, keepdims=keepdims) / op.maximum(count - less, 0)


@composed
def std(x, /, axis=None, dtype=None, out=None, ddof=0, keepdims=False, where: Any = None, mean: Any = None, correction=None):
    """The standard deviation, the root of the variance."""
    return op.sqrt(var(x, axis, dtype, out, ddof, keepdims, where, mean, correction))


# ---- reductions of some elements ----

def chosen(x, where, other):
    """The elements where a condition holds, another number elsewhere."""
    return x if where is None else op.where(where, x, op.cast_like(other, x))


@helper
def one_number(x, /):
    """What a reduction starts with."""
    return op.reshape(x, ())


def how_many(x, where, axis, keepdims):
    """How many elements a condition chooses."""
    return op.sum(chosen(op.zeros_like(x * 1.0) + 1, where, 0), axis, keepdims=keepdims)


@helper
def sum_of_some(x, /, axis=None, dtype=None, keepdims=False, initial: Any = None, where: Any = None):
    """The sum of the elements where a condition holds, and of a first number."""
    y = op.sum(chosen(x if dtype is None else op.cast(x, dtype), where, 0), axis, keepdims=keepdims)
    y = y if initial is None else y + op.cast_like(one_number(initial), y)
    return y if dtype is None else op.cast(y, dtype)


@helper
def prod_of_some(x, /, axis=None, dtype=None, keepdims=False, initial: Any = None, where: Any = None):
    """The product of the elements where a condition holds, and of a first number."""
    y = op.prod(chosen(x if dtype is None else op.cast(x, dtype), where, 1), axis, keepdims=keepdims)
    y = y if initial is None else y * op.cast_like(one_number(initial), y)
    return y if dtype is None else op.cast(y, dtype)


@helper
def mean_of_some(x, /, axis=None, dtype=None, keepdims=False, where: Any = None):
    """The mean of the elements where a condition holds."""
    x = x * 1.0 if dtype is None else op.cast(x, dtype)
    return op.sum(chosen(x, where, 0), axis, keepdims=keepdims) / how_many(x, where, axis, keepdims)


@helper
def max_of_some(x, /, axis=None, keepdims=False, initial: Any = None, where: Any = None):
    """The largest of a first number and of the elements where a condition holds."""
    if initial is None:
        raise ValueError("max: where needs initial, the result for no elements")
    y = op.max(chosen(x, where, initial), axis, keepdims=keepdims)
    return op.maximum(y, op.cast_like(one_number(initial), y))


@helper
def min_of_some(x, /, axis=None, keepdims=False, initial: Any = None, where: Any = None):
    """The smallest of a first number and of the elements where a condition holds."""
    if initial is None:
        raise ValueError("min: where needs initial, the result for no elements")
    y = op.min(chosen(x, where, initial), axis, keepdims=keepdims)
    return op.minimum(y, op.cast_like(one_number(initial), y))


@helper
def all_of_some(x, /, axis=None, keepdims=False, where: Any = None):
    """Whether all elements are true where a condition holds."""
    return op.all(op.logical_or(x != 0, op.logical_not(where)), axis, keepdims=keepdims)


@helper
def any_of_some(x, /, axis=None, keepdims=False, where: Any = None):
    """Whether an element is true where a condition holds."""
    return op.any(op.logical_and(x != 0, where), axis, keepdims=keepdims)


@helper
def reduced_of_mask(x, mask, /, how, axis=None):
    """The sum or such of x[mask], all of it or along its first axis."""
    if axis == 0:
        for rank in RANKS:
            if op.ndim(mask) == rank:
                x = op.reshape(x, (-1,) + x.shape[rank:])
        mask = op.ravel(mask)
    chosen_, rest = widened(mask, x), op.sum(op.cast_like(mask, op.arange(1)))
    if how == "len":
        return rest
    if how == "any" or how == "all":
        return any_of_some(x, axis, where=chosen_) if how == "any" else all_of_some(x, axis, where=chosen_)
    if how == "sum" or how == "prod":
        return sum_of_some(x, axis, where=chosen_) if how == "sum" else prod_of_some(x, axis, where=chosen_)
    if how == "max" or how == "min":
        if rest == 0:
            raise ValueError("there is no element of which to take the " + how)
        none = limit_of(x, "min" if how == "max" else "max")
        return op.max(chosen(x, chosen_, none), axis) if how == "max" else op.min(chosen(x, chosen_, none), axis)
    mean = mean_of_some(x, axis, where=chosen_)
    if how == "mean":
        return mean
    var = mean_of_some((x - mean) ** 2, axis, where=chosen_)
    return op.sqrt(var) if how == "std" else var


# ---- running sums ----

@composed
def cumulative_sum(x, /, axis=None, dtype=None, include_initial=False):
    """The sums of all elements up to each one along an axis; include_initial puts a 0 before them."""
    sums = op.cumsum(x, 0 if axis is None else axis, dtype)
    return begun(sums, 0, 0 if axis is None else axis) if include_initial else sums


@composed
def cumulative_prod(x, /, axis=None, dtype=None, include_initial=False):
    """The products of all elements up to each one along an axis; include_initial puts a 1 before them."""
    products = op.cumprod(x, 0 if axis is None else axis, dtype)
    return begun(products, 1, 0 if axis is None else axis) if include_initial else products


def begun(x, first, axis):
    """An array with a value before the first along an axis."""
    before = op.sum(x, axis, keepdims=True) * 0
    return op.concatenate([op.full_like(op.cast_like(before, x), first), x], axis)


@composed
def diff(a, /, n=1, axis=-1, prepend: Any = None, append: Any = None):
    """The differences of neighbours, n times; with values before the first and after the last if they are given."""
    if n == 0:
        return a
    if prepend is not None:
        a = op.concatenate([edge(prepend, a, axis), a], axis)
    if append is not None:
        a = op.concatenate([a, edge(append, a, axis)], axis)
    for _ in range(n):
        a = op.slice(a, 1, a.shape[axis], axis=axis) - op.slice(a, 0, a.shape[axis] - 1, axis=axis)
    return a


def edge(value, a, axis):
    """A value beside an array: an array of its rank, or a number."""
    if op.ndim(value) == 0:
        return op.full_like(op.cast_like(op.sum(a, axis, keepdims=True), a), value)
    return value


@composed
def count_nonzero(a, /, axis=None, keepdims=False):
    """How many elements are not 0."""
    return op.sum(op.cast(a != 0, "i64"), axis, keepdims=keepdims)


@composed
def full_like(x, fill_value, /, dtype=None, device=None, shape=None):
    """An array of the shape and the element type of another, or of these, with one value."""
    of = x if shape is None else op.broadcast_to(op.cast_like(0, x), shape)
    return op.full_like(op.zeros_like(of, dtype=dtype, device=device), fill_value)


@composed
def searchsorted(sorted, v, /, side="left", sorter: Any = None, *, method=None):  # noqa: A002: NumPy's name
    """Where values go into a sorted vector so that it stays sorted; `sorter` is the order that sorts it. `method`, JAX's, changes nothing."""
    return op.searchsorted(sorted if sorter is None else op.take(sorted, sorter), v, side=side)


@composed
def take(x, indices, /, axis=None, out: Any = None, mode=None, fill_value: Any = None):
    """Elements by index along an axis, or of the flat array. An index outside is an error; with the mode "clip" it is the nearest one
    that is not, with "wrap" it counts around, with "fill" the element is fill_value, which is NaN unless it is given."""
    assert out is None, "TypeError: take() makes a new array: out cannot be given"
    if mode is None or mode == "raise":
        return op.take(x, indices, axis)
    rows = op.ravel(x) if axis is None else x
    along = 0 if axis is None else axis
    n = rows.shape[along]
    if mode == "wrap":
        return op.take(rows, op.mod(indices, n), along)
    if mode == "clip":
        return op.take(rows, op.clip(indices, 0, n - 1), along)
    assert mode == "fill", "take: mode is raise, clip, wrap or fill"
    last = edge(math.nan if fill_value is None else fill_value, rows, along)
    at = op.where(indices < 0, indices + n, indices)
    return op.take(op.concatenate([rows, last], along), op.where(op.logical_or(at < 0, at >= n), n, at), along)


# ---- limits ----

@composed
def clip(x, min: Any = None, max: Any = None, /, out: Any = None, *, a_min: Any = None, a_max: Any = None):
    """Elements no smaller than min and no larger than max; None: no limit."""
    assert out is None, "TypeError: clip() makes a new array: out cannot be given"
    if min is not None:
        x = op.maximum(x, min)
    if a_min is not None:
        x = op.maximum(x, a_min)
    if max is not None:
        x = op.minimum(x, max)
    if a_max is not None:
        x = op.minimum(x, a_max)
    return x


@composed
def nextafter(a, b, /):
    """The floating-point number next to a in the direction of b."""
    whole = op.zeros_like(a * 1.0) + op.zeros_like(b)
    a, b = op.broadcast_like(op.cast_like(a, whole), whole), op.broadcast_like(op.cast_like(b, whole), whole)
    for floats, bits in (("float64", "int64"), ("float32", "int32"), ("float16", "int16"), ("bfloat16", "int16")):
        if a.dtype == floats:
            return stepped(a, b, bits, floats)
    for kind in ("complex64", "complex128"):
        if a.dtype == kind:
            raise TypeError("nextafter() is of real numbers")
    return stepped(op.cast(a, "float64"), op.cast(b, "float64"), "int64", "float64")  # numbers of Python


def stepped(a, b, bits, floats):
    """The numbers of one sign are ordered as their bits are."""
    whole = op.bitcast(a, bits)
    step = op.cast(op.where((b > a) == (a > 0), 1, -1), bits)
    least = op.copysign(op.bitcast(op.ones_like(whole), floats), b)
    found = op.where(a == 0, least, op.bitcast(whole + step, floats))
    return op.where(op.logical_or(op.isnan(a), op.isnan(b)), op.cast(math.nan, floats), op.where(a == b, b, found))


# ---- rows of numbers ----

@composed
def cov(m, y: Any = None, /, rowvar=True, bias=False, ddof=None, fweights: Any = None, aweights: Any = None):
    """The covariances of rows, or of columns if not rowvar; of the rows of y too."""
    x = variables(m, rowvar)
    if y is not None:
        x = op.concatenate([x, variables(y, rowvar)], 0)
    less = (0 if bias else 1) if ddof is None else ddof
    w = op.ones_like(op.real(x[0])) if fweights is None else op.cast_like(fweights, op.real(x[0]))
    total = op.sum(w) - less
    if aweights is not None:
        w = w * aweights
        total = op.sum(w) - less * op.sum(w * aweights) / op.sum(w)
    apart = x - op.sum(x * w, -1, keepdims=True) / op.sum(w)
    c = (apart * w) @ op.transpose(op.conj(apart)) / op.maximum(total, 0)
    return c[0, 0] if c.shape[0] == 1 else c


def variables(m, rowvar):
    """The rows of a matrix, or its columns; a vector is one row."""
    if op.ndim(m) < 2:
        return as_floats(op.reshape(m, (1, -1)))
    return as_floats(m) if rowvar else as_floats(op.transpose(m))


@composed
def corrcoef(m, y: Any = None, /, rowvar=True):
    """The correlations of rows, or of columns if not rowvar."""
    c = cov(m, y, rowvar)
    if op.ndim(c) == 0:
        return c / c
    d = op.sqrt(op.real(op.diag(c)))
    return c / d[:, None] / d[None, :]


@composed
def interp(x, xp, fp, /, left: Any = None, right: Any = None):
    """Between points of a line; xp rises. Before the first point the value is `left`, after the last one `right`, or that of the point."""
    if xp.shape != fp.shape:
        raise ValueError(f"interp() has as many values as points, and these have the shapes {fp.shape} and {xp.shape}")
    i = op.clip(op.searchsorted(xp, x, side="right") - 1, 0, xp.shape[0] - 2)
    part = op.clip((x - xp[i]) / (xp[i + 1] - xp[i]), 0.0, 1.0)
    y = fp[i] + part * (fp[i + 1] - fp[i])
    y = y if left is None else op.where(x < xp[0], op.cast_like(left, y), y)
    return y if right is None else op.where(x > xp[-1], op.cast_like(right, y), y)


@composed
def resize(a, /, new_shape):
    """The elements in another shape, from the beginning again if there are too few."""
    flat = op.ravel(a)
    return op.reshape(op.take(flat, op.mod(op.arange(number_of(new_shape)), flat.shape[0]), 0), new_shape)


@Known
def number_of(shape: Any) -> int:
    """How many elements a shape has."""
    return math.prod(shape) if isinstance(shape, (tuple, list)) else shape


@composed
def array_equiv(a1, a2, /):
    """Whether all elements are the same, one array repeated as the other needs."""
    return op.all(a1 == a2)


# ---- without elements that are no numbers ----

def known(a, value):
    """The elements, another value where one is no number."""
    return op.where(op.isnan(a), op.cast_like(value, a), a)


def numbers(a, axis, keepdims):
    """How many elements are numbers."""
    return op.sum(op.cast_like(op.logical_not(op.isnan(a)), a), axis, keepdims=keepdims)


@composed
def nansum(a, /, axis=None, dtype=None, out=None, keepdims=False, initial: Any = None, where: Any = None):
    """The sum without elements that are no numbers."""
    assert out is None, "nansum() makes a new array: out cannot be given"
    return op.sum(known(a, 0), axis, dtype, keepdims=keepdims, initial=initial, where=where)


@composed
def nanprod(a, /, axis=None, dtype=None, out=None, keepdims=False, initial: Any = None, where: Any = None):
    """The product without elements that are no numbers."""
    assert out is None, "nanprod() makes a new array: out cannot be given"
    return op.prod(known(a, 1), axis, dtype, keepdims=keepdims, initial=initial, where=where)


@composed
def nancumsum(a, /, axis=None, dtype=None, out=None):
    """Running sums without elements that are no numbers."""
    return op.cumsum(known(a, 0), axis, dtype=dtype, out=out)


@composed
def nancumprod(a, /, axis=None, dtype=None, out=None):
    """Running products without elements that are no numbers."""
    return op.cumprod(known(a, 1), axis, dtype=dtype, out=out)


@composed
def nanmean(a, /, axis=None, dtype=None, out=None, keepdims=False, where: Any = None):
    """The mean of the elements that are numbers."""
    x = as_floats(a) if dtype is None else op.cast(a, dtype)
    x = x if where is None else op.where(where, x, op.cast_like(math.nan, x))
    return nansum(x, axis, None, out, keepdims) / numbers(x, axis, keepdims)


@composed
def nanvar(a, /, axis=None, dtype=None, out=None, ddof=0, keepdims=False, where: Any = None, mean: Any = None, correction=None):
    """The variance of the elements that are numbers."""
    x = as_floats(a) if dtype is None else op.cast(a, dtype)
    x = x if where is None else op.where(where, x, op.cast_like(math.nan, x))
    apart = op.abs(op.where(op.isnan(x), 0, x - (nanmean(x, axis, None, out, True) if mean is None else mean)))
    count = op.real(numbers(x, axis, keepdims)) - freedom(correction, ddof)
    return op.where(count > 0, op.sum(apart * apart, axis, keepdims=keepdims), math.nan) / count


@composed
def nanstd(a, /, axis=None, dtype=None, out=None, ddof=0, keepdims=False, where: Any = None, mean: Any = None, correction=None):
    """Their standard deviation."""
    return op.sqrt(nanvar(a, axis, dtype, out, ddof, keepdims, where, mean, correction))


@composed
def nanmax(a, /, axis=None, out=None, keepdims=False, initial: Any = None, where: Any = None):
    """The largest element that is a number; NaN if there is none."""
    some = chosen(known(a, -math.inf), where, -math.inf)
    if initial is not None:
        return op.max(some, axis, out=out, keepdims=keepdims, initial=initial)
    found = op.max(some, axis, out=out, keepdims=keepdims)
    return op.where(none_of(a, axis, keepdims, where), op.cast_like(math.nan, found), found)


def none_of(a, axis, keepdims, where):
    """Whether no element is a number."""
    return op.all(op.isnan(a) if where is None else op.logical_or(op.isnan(a), op.logical_not(where)), axis, keepdims=keepdims)


@composed
def nanmin(a, /, axis=None, out=None, keepdims=False, initial: Any = None, where: Any = None):
    """The smallest element that is a number; NaN if there is none."""
    some = chosen(known(a, math.inf), where, math.inf)
    if initial is not None:
        return op.min(some, axis, out=out, keepdims=keepdims, initial=initial)
    found = op.min(some, axis, out=out, keepdims=keepdims)
    return op.where(none_of(a, axis, keepdims, where), op.cast_like(math.nan, found), found)


@composed
def nanargmax(a, /, axis=None, out=None, keepdims=False):
    """The index of the largest element that is a number."""
    assert not op.any(op.all(op.isnan(a), axis)), "nanargmax: there are no numbers"
    return op.argmax(known(a, -math.inf), axis, out=out, keepdims=keepdims)


@composed
def nanargmin(a, /, axis=None, out=None, keepdims=False):
    """The index of the smallest element that is a number."""
    assert not op.any(op.all(op.isnan(a), axis)), "nanargmin: there are no numbers"
    return op.argmin(known(a, math.inf), axis, out=out, keepdims=keepdims)


@composed
def nanquantile(a, q, /, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False):
    """The value below which the part q of the elements that are numbers lies."""
    assert out is None, "nanquantile() makes a new array: out cannot be given"
    q = asarray(q)
    rows = op.ravel(a) if axis is None else moveaxis(a, axis, -1)
    flat = op.sort(rows, -1) * 1.0  # NaN comes last
    if flat.shape[-1] == 0:  # there is none
        flat = op.broadcast_to(op.cast_like(math.nan, flat), tuple(flat.shape[:-1]) + (1,))
    count = op.sum(op.cast(op.logical_not(op.isnan(flat)), "i64"), -1, keepdims=True)
    at = op.cast_like(q, flat) * op.cast_like(op.maximum(count - 1, 0), flat)
    low, high = op.cast(op.floor(at), "i64"), op.cast(op.ceil(at), "i64")
    below, above = op.take_along_axis(flat, low, -1), op.take_along_axis(flat, high, -1)
    found = op.where(count > 0, between(below, above, at, method), op.cast_like(math.nan, flat))
    y = moveaxis(found, -1, 0) if q.ndim == 1 else found[..., 0]
    return with_dims(y, a, q, axis) if keepdims else y


@composed
def nanpercentile(a, q, /, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False):
    """nanquantile with q in hundredths."""
    return nanquantile(a, asarray(q) / 100.0, axis, out, overwrite_input, method, keepdims)


@composed
def nanmedian(a, /, axis=None, out=None, overwrite_input=False, keepdims=False):
    """The middle one of the elements that are numbers."""
    return nanquantile(a, 0.5, axis, out, overwrite_input, "linear", keepdims)


# ---- indices of parts of matrices ----

@helper
def indices_at_or_below(n, k=0, m=None):
    columns = n if m is None else m
    return nonzero_of(op.tril(op.ones((n, columns)), k), below(n, columns, k))


@helper
def indices_at_or_above(n, k=0, m=None):
    columns = n if m is None else m
    return nonzero_of(op.triu(op.ones((n, columns)), k), n * columns - below(n, columns, k - 1))


@helper
def indices_of_diagonal(n, ndim=2):
    return (op.arange(n),) * ndim


@helper
def nonzero_of(x, /, size):
    """The rows and the columns of the elements that are not 0, of which there are so many."""
    at = op.argsort(op.where(op.ravel(x) != 0, 0, 1), -1)[:size]
    return at // x.shape[1], at % x.shape[1]


@helper
def below(n, m, k):
    """How many elements of an n by m matrix are at and below the diagonal k."""
    return up_to(n + k, m) - up_to(k, m)


@helper
def up_to(t, /, m):
    """The sum of min(i, m) for i in 1..t."""
    full = min(max(t, 0), m)
    return full * (full + 1) // 2 + m * max(t - m, 0)


class Indices(Known):
    """NumPy's tuple of arrays for known sizes; for those that the types of arguments give a function of the same parameters."""

    def __init__(self, f: Any, by_types: Any) -> None:
        def call(*args: Any, **kw: Any) -> tuple:
            return tuple(_core.asarray(a) for a in getattr(_numpy(), f.__name__)(*args, **kw))
        call.__name__, call.__doc__ = f.__name__, f.__doc__
        super().__init__(call)
        self.by_types = by_types
        COMPOSED[f.__name__] = self

    def _emit_call(self, w: Any, c: Any) -> str:
        return self.by_types._emit_call(w, c)


def indices_of(by_types: Any) -> Any:
    return lambda f: Indices(f, by_types)


@indices_of(indices_at_or_above)
def triu_indices(n: int, k: int = 0, m: Any = None) -> None:
    """The rows and the columns of the elements at and above a diagonal of an n by m matrix."""


@indices_of(indices_at_or_below)
def tril_indices(n: int, k: int = 0, m: Any = None) -> None:
    """The rows and the columns of the elements at and below a diagonal of an n by m matrix."""


@indices_of(indices_of_diagonal)
def diag_indices(n: int, ndim: int = 2) -> None:
    """The indices of the main diagonal of an array of ndim dims of length n."""


@composed
def vander(x, /, N=None, increasing=False):  # noqa: N803: NumPy's name
    """The powers of a vector as columns, the highest first, or last."""
    assert op.ndim(x) == 1, "vander: x is a vector"
    count = x.shape[0] if N is None else N
    x, powers = not_narrow(x), op.arange(count)
    return x[:, None] ** op.cast_like(powers if increasing else op.flip(powers, 0), x)[None, :]
