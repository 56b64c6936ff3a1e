# SPDX-License-Identifier: Apache-2.0
"""What is written of elements that values choose, by masks and by slices whose bounds a loop counts, in terms of all elements
(_compile/masks.py, _compile/windows.py); and functions of NumPy whose ends are not constants."""
from __future__ import annotations

import math
from typing import Any

from .._ops import op
from .composed import RANKS, SOME, helper, widened


@helper
def items_often(items, n, /):
    """A tuple so often, by halves: n is a number that shapes tell."""
    if n <= 0:
        return ()
    half = items_often(items, n // 2)
    return (*half, *half, *items) if n % 2 == 1 else (*half, *half)


@helper
def concat_as(arrays, /, axis=0, dtype=None):
    """concatenate with an element type."""
    whole = op.concatenate(arrays, axis)
    return whole if dtype is None else op.cast(whole, dtype)


@helper
def stack_as(arrays, /, axis=0, dtype=None):
    """stack with an element type."""
    whole = op.stack(arrays, axis)
    return whole if dtype is None else op.cast(whole, dtype)


@helper
def counted(start, stop, step, /):
    """A range of numbers that shapes tell, as a tuple."""
    n = -((start - stop) // step)
    if n <= 0:
        return ()
    if n == 1:
        return (start,)
    middle = start + n // 2 * step
    return (*counted(start, middle, step), *counted(middle, stop, step))


@helper
def each_with_each(a, b, /, f):
    """f of each element of a with each of b, as outer of NumPy's functions."""
    for rank in RANKS:
        if op.ndim(b) == rank:
            return f(op.reshape(a, a.shape + (1,) * rank), b)
    raise ValueError(f"outer is of arrays of up to {len(RANKS) - 1} dims")


@helper
def linspace_between(start, stop, /, num=50, endpoint=True, dtype=None):
    """linspace of ends that are not constants."""
    start, stop = start + op.zeros_like(stop) + 0.0, stop + op.zeros_like(start) + 0.0
    steps = num - 1 if endpoint else num
    along = each_with_each(op.cast_like(op.arange(num), start), op.ones_like(start), op.multiply)
    between = start + along * ((stop - start) / max(steps, 1))
    if endpoint and num > 1:
        between = op.where(along == num - 1, stop, between)
    return between if dtype is None else op.cast(between, dtype)


@helper
def roll_by(a, shift, /, axis=None):
    """The rows moved on by numbers that values tell, around the end."""
    if axis is None:
        return op.reshape_like(rolled(op.ravel(a), op.sum(shift), 0), a)
    if isinstance(axis, int):
        return rolled(a, op.sum(shift), axis)
    for i in range(len(axis)):
        a = rolled(a, shift if op.ndim(shift) == 0 else shift[i], axis[i])
    return a


def rolled(a, by, axis):
    n = a.shape[axis]
    return op.take(a, op.mod(op.arange(n) - by, n), axis)


@helper
def at_indices(x, at, /):
    """x[at], of a tuple with an array of indices for each of the first dims."""
    for n in SOME:
        if len(at) == n:
            zero = sum([at[k] * 0 for k in range(n)])  # they are broadcast
            return op.gather_nd(x, op.stack([at[k] + zero for k in range(n)], -1))
    raise ValueError("x[at]: too many indices, or none")


@helper
def dims_exactly(shape, n, /):
    """The sizes of n dims."""
    if len(shape) != n:
        raise ValueError("there are more or fewer dims than names in the loop over ndindex")
    return shape


@helper
def at_mask_each(x, mask, value, /):
    """x with the elements of the value where a mask is true."""
    if op.ndim(value) > 0 and value.shape != x.shape:
        raise ValueError("x[mask] = f(y[mask]) is of arrays x and y of one shape")
    return op.where(widened(mask, x), op.cast_like(value, x), x)


@helper
def rows_of_mask(x, mask, /):
    """x[mask], whose size depends on values: what follows in the program is interpreted."""
    chosen = op.reshape(mask, (-1,))
    n = chosen.shape[0]
    rows = op.reshape(x, (n, *x.shape[mask.ndim:]))
    first = op.argsort(op.where(chosen, op.arange(n), n))  # the places of the true ones, in order
    count = op.sum(op.cast(chosen, "int64"))
    return op.take(rows, op.take(first, op.cumsum(op.ones((count,), dtype="int64")) - 1, axis=0), axis=0)


@helper
def places_or_index(index, /):
    """An index; of a mask of one dim, the places of what is true."""
    if index.dtype == "bool":
        if op.ndim(index) != 1:
            raise ValueError("a mask beside other indices has one dim")
        return rows_of_mask(op.arange(index.shape[0]), index)
    return index


@helper
def ones_outside(x, mask, /):
    """x where a mask is true, else 1."""
    return op.where(widened(mask, x), x, op.ones_like(x))


@helper
def number_beside_mask(x, /):
    if op.ndim(x) > 0:
        raise ValueError("x[mask] = f(y[mask], v) needs a number v: how many elements there are depends on values")
    return x


def window_ends(n, start, stop):
    """Where a slice of n elements starts, and how many it has."""
    first = 0 if start is None else op.clip(op.where(start < 0, start + n, start), 0, n)
    end = n if stop is None else op.clip(op.where(stop < 0, stop + n, stop), 0, n)
    return first, op.maximum(end - first, 0)


@helper
def window_axis(x, axis, /):
    """The axis that a slice cuts, counted from the last one, as axes of what is broadcast agree: -1, -2, .."""
    if axis >= op.ndim(x):
        raise ValueError(f"a slice along axis {axis} of an array of {op.ndim(x)} dims")
    return axis - op.ndim(x) if axis >= 0 else axis


@helper
def same_axis(*axes):
    for axis in axes[1:]:
        if axis != axes[0]:
            raise ValueError("slices whose lengths depend on values meet along different axes")
    return axes[0]


@helper
def window_size(x, axis, /):
    return x.shape[axis]


@helper
def shortest(*sizes):
    n = sizes[0]
    for size in sizes[1:]:
        n = min(n, size)
    return n


@helper
def window_count(x, start: Any, stop: Any, /, axis):
    return window_ends(x.shape[axis], start, stop)[1]


def along(values, axis):
    """A vector along an axis that is counted from the last one."""
    return values if axis == -1 else along(values[..., None], axis + 1)


@helper
def window_values(x, start: Any, stop: Any, n, /, axis, flipped=False):
    """x[start:stop] along an axis, as n elements, of which as many count as there are; some of x stand for the others."""
    if flipped and op.ndim(x) != 1:
        raise ValueError("flip of a slice whose length depends on values takes a vector")
    first, count = window_ends(x.shape[axis], start, stop)
    if not flipped and start is None and axis == 0:
        return x[:n]
    at = op.arange(n)
    at = op.clip(first + (count - 1 - at if flipped else at), 0, x.shape[axis] - 1)
    return x[at] if axis == 0 else op.take(x, at, axis=axis)


def counts_agree(counts):
    for count in counts[1:]:
        if count != counts[0]:
            raise ValueError("slices of different lengths meet")


def those_that_count(values, axis, count):
    """The values, and 0 for those that do not count."""
    return op.where(along(op.arange(values.shape[axis]) < count, axis), values, op.zeros_like(values))


@helper
def window_sum(values, axis, /, *counts):
    """The sum of the elements that count."""
    counts_agree(counts)
    return op.sum(those_that_count(values, axis, counts[0]))


@helper
def window_product(a, b, axis_of_a, axis_of_b, /, *counts):
    """a @ b, where slices cut the axis along which it is summed."""
    counts_agree(counts)
    if op.ndim(a) > 2 or op.ndim(b) > 2 or axis_of_a != -1 or axis_of_b != -op.ndim(b):
        raise ValueError("a product of slices whose lengths depend on values is summed along the axis that they cut")
    if op.ndim(a) == 1 and op.ndim(b) == 1:
        return op.sum(those_that_count(a * b, -1, counts[0]))
    return those_that_count(a, axis_of_a, counts[0]) @ those_that_count(b, axis_of_b, counts[0])


@helper
def window_dot(a, b, axis_of_a, axis_of_b, /, *counts):
    """inner(a, b), of vectors."""
    if op.ndim(a) != 1 or op.ndim(b) != 1:
        raise ValueError("inner, vdot and vecdot take slices of vectors where their lengths depend on values; write a @ b")
    counts_agree(counts)
    return op.sum(those_that_count(a * b, -1, counts[0]))


@helper
def window_vdot(a, b, axis_of_a, axis_of_b, /, *counts):
    """vdot(a, b), of vectors."""
    return window_dot(op.conj(a), b, axis_of_a, axis_of_b, *counts)


@helper
def product_of_columns(a, b, axis, /):
    """a @ b, of whose columns a slice is taken, a @ b[:, start:stop]."""
    if op.ndim(b) != 2 or axis not in (-1, 1):
        raise ValueError("a product with a slice whose length depends on values: slice both")
    return a @ b


@helper
def product_of_rows(a, b, axis, /):
    """a @ b, of whose rows a slice is taken, a[start:stop] @ b."""
    if axis < 0 or axis >= op.ndim(a) - 1 or op.ndim(b) > 2:
        raise ValueError("a product with a slice whose length depends on values: slice both")
    return a @ b


@helper
def window_stored(x, start: Any, stop: Any, values, axis, axis_of_values, /, *counts):
    """x with x[start:stop] = values along an axis, of which as many count as the slice has."""
    first, count = window_ends(x.shape[axis], start, stop)
    counts_agree((count, *counts))
    if axis != axis_of_values or op.ndim(values) > op.ndim(x):
        raise ValueError("a slice whose length depends on values takes a slice along another axis")
    at = op.arange(x.shape[axis])
    if op.ndim(values) >= -axis:
        values = op.take(values, op.clip(at - first, 0, values.shape[axis] - 1), axis=axis)
    return op.where(along(op.logical_and(at >= first, at < first + count), axis), op.cast_like(values, x), x)


@helper
def beside_window(x, axis, /):
    """What is the same for all elements of a window: a number, a row beside rows, or one column beside columns."""
    for k, n in enumerate(x.shape):
        if k - len(x.shape) == axis and n != 1:
            raise ValueError("an array beside a slice whose length depends on values: slice both")
    return x


@helper
def at_mask(x, mask, value, /, mode):
    """x.at[mask].set(value) and the like."""
    if op.ndim(value) > 0:
        raise ValueError("x.at[mask] takes one number: which elements an array would go to depends on values")
    new = op.cast_like(value, x)
    if mode == "add":
        new = x + new
    if mode == "mul":
        new = x * new
    if mode == "min":
        new = op.minimum(x, new)
    if mode == "max":
        new = op.maximum(x, new)
    return op.where(widened(mask, x), new, x)


@helper
def index_clipped(i, x, /):
    """Indices of rows; one that is outside is the nearest that is not."""
    n = x.shape[0]
    return op.clip(op.where(i < 0, i + n, i), 0, n - 1)


@helper
def index_wrapped(i, x, /):
    """Indices of rows, counted around."""
    return op.mod(i, x.shape[0])


@helper
def index_or_length(i, x, /):
    """Indices of rows; one that is outside is that of a row after the last."""
    n = x.shape[0]
    at = op.where(i < 0, i + n, i)
    return op.where(op.logical_or(at < 0, at >= n), n, at)


@helper
def one_row_longer(x, /):
    """The array with a row after the last."""
    return op.concatenate([x, op.zeros_like(x[:1])], 0)


@helper
def filled(x, i, fill_value, /):
    """The rows of indices; of one that is outside the value."""
    more = op.full_like(x[0:1], math.nan) if fill_value is None else op.zeros_like(x[0:1]) + op.cast_like(fill_value, x)
    if fill_value is None and op.isnan(op.cast_like(math.nan, x)) == False:  # noqa: E712: a truth value of the program
        raise ValueError("get(mode=\"fill\") of integers needs fill_value")
    return op.concatenate([x, more], 0)[index_or_length(i, x)]


# ---- ranges (_compile/ranges.py) ----

def range_length(start, stop, step):
    return max(0, -((start - stop) // step))


@helper
def range_sum(start, stop, step, /):
    n = range_length(start, stop, step)
    return n * start + step * (n * (n - 1) // 2)


@helper
def range_max(start, stop, step, /):
    n = range_length(start, stop, step)
    if n <= 0:
        raise ValueError("max() arg is an empty sequence")
    return start + (n - 1) * step if step > 0 else start


@helper
def range_min(start, stop, step, /):
    n = range_length(start, stop, step)
    if n <= 0:
        raise ValueError("min() arg is an empty sequence")
    return start if step > 0 else start + (n - 1) * step


@helper
def range_item(start, stop, step, k, /):
    n = range_length(start, stop, step)
    if k >= n or k < -n:
        raise IndexError("range object index out of range")
    return start + (k + n if k < 0 else k) * step


@helper
def in_range(x, start, stop, step, /):
    inside = start <= x and x < stop if step > 0 else stop < x and x <= start
    return inside and (x - start) % step == 0


@helper
def range_bound(start, stop, /, at=None, back=False, last=False):
    """Where a part of range(start, stop) with this bound begins, or ends, `last`; `back`: it goes back."""
    n = max(0, stop - start)
    if at is None:
        return start + ((-1 if last else n - 1) if back else (n if last else 0))
    k = n + at if at < 0 else at
    return start + (max(-1, min(k, n - 1)) if back else max(0, min(k, n)))
