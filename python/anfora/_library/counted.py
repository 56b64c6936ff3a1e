# SPDX-License-Identifier: Apache-2.0
"""Functions whose results have as many elements as the values say, made of operations, for compiled functions. With `size`, as in
JAX, the result has so many: the first ones, then fill_value. Without, the elements are counted, and what follows is interpreted.

    nonzero([0, 7, 0, 8])                (array([1, 3]),)
    nonzero([0, 7, 0, 8], size=3)        (array([1, 3, 0]),)
"""
from __future__ import annotations

from typing import Any

from .._ops import op
from .composed import COMPOSED, HELPERS, SOME, into, widened

COUNTED: dict[str, Any] = {}
_counted, _part = into(COUNTED, lists=True), into({})


@_part
def first_true(flat, /, size):
    """The indices of the first elements that are true, and whether there are as many."""
    order = op.argsort(op.where(flat, 0, 1), -1)
    count = op.sum(op.cast(flat, "i64"))
    padded = op.take(op.concatenate([order, op.zeros((1,), dtype="i64")], 0), op.minimum(op.arange(size), flat.shape[0]), 0)
    return padded, op.arange(size) < count


@_part
def all_true(flat, /):
    """The indices of all elements that are true."""
    return HELPERS["rows_of_mask"](op.arange(flat.shape[0]), flat)


@_counted
def nonzero_(x, /, *, size=None, fill_value=None):
    if size is None:
        at = all_true(op.ravel(x) != 0)
        for rank in SOME:
            if x.ndim == rank:
                return tuple([along(at, x, d, rank) for d in range(rank)])
    else:
        at, there = first_true(op.ravel(x) != 0, size)
        for rank in SOME:
            if x.ndim == rank:
                return tuple([op.where(there, along(at, x, d, rank), 0 if fill_value is None else fill_value) for d in range(rank)])
    raise ValueError("nonzero: too many dims, or none")


def along(at, x, d, rank):
    """The index along a dim of a flat index."""
    for k in range(d + 1, rank):
        at = at // x.shape[k]
    return at % x.shape[d]


@_counted
def flatnonzero_(x, /, *, size=None, fill_value=None):
    return COUNTED["nonzero"](op.ravel(x), size=size, fill_value=fill_value)[0]


@_counted
def argwhere_(x, /, *, size=None, fill_value=None):
    return op.stack(COUNTED["nonzero"](x, size=size, fill_value=fill_value), axis=1)


# ---- what occurs ----

@_part
def starts(x, /, equal_nan):
    """Where in rows that are in order one begins that is not its predecessor."""
    if x.ndim > 1:
        differs = op.any(x[1:] != x[:-1], 1)
    else:
        differs = x[1:] != x[:-1]
        if equal_nan:
            differs = op.logical_and(differs, op.logical_not(op.logical_and(x[1:] != x[1:], x[:-1] != x[:-1])))
    return op.concatenate([op.arange(1) == 0, differs], 0) if x.shape[0] > 0 else differs


@_part
def in_order(rows, /):
    """The order of numbers, or of rows by their first number, then their second and so on; equal ones stay as they are."""
    if rows.ndim == 1:
        return op.argsort(rows, -1)
    return COMPOSED["lexsort"](op.flip(op.transpose(rows), 0))


@_part
def unique_rows(rows, shape, /, return_index, return_inverse, return_counts, equal_nan, size, fill_value: Any):
    """The rows that occur, each once, with what else is asked for; `shape`: an array of the shape of the inverse."""
    order = in_order(rows)
    x = op.take(rows, order, 0)
    new = starts(x, equal_nan)
    if size is None:
        at = all_true(new)
        found = [op.take(x, at, 0)]
        if return_index:
            found.append(op.take(order, at, 0))
    else:
        at, there = first_true(new, size)
        found = [op.where(there, x[at], x[0] if fill_value is None else op.cast_like(fill_value, x))]
        if return_index:
            found.append(op.where(there, order[at], order[0]))
    number = op.cumsum(op.cast(new, "i64"), 0) - 1  # which row each one in order is
    if return_inverse:
        found.append(op.reshape_like(op.take(number, op.argsort(order, -1), 0), shape))
    if return_counts:
        if size is None:
            found.append(op.concatenate([at[1:], op.zeros((1,), dtype="i64") + x.shape[0]], 0)[:at.shape[0]] - at)
        else:
            found.append(op.bincount(number, length=size))
    return tuple(found) if return_index or return_inverse or return_counts else found[0]


@_counted
def unique_(ar, /, return_index=False, return_inverse=False, return_counts=False, axis=None, *, equal_nan=True, size=None, fill_value: Any = None):
    if axis is None:
        return unique_rows(op.ravel(ar), ar, return_index, return_inverse, return_counts, equal_nan, size, fill_value)
    assert size is None, "unique: with size there is no axis"
    assert not (return_index or return_inverse or return_counts), "unique: with an axis there are no indices, inverses or counts in compiled functions"
    first = op.swapaxes(ar, 0, axis) if ar.ndim < 3 else COMPOSED["moveaxis"](ar, axis, 0)
    rows = op.reshape(first, (first.shape[0], -1))
    found = unique_rows(rows, rows, False, False, False, equal_nan, None, None)
    back = op.reshape(found, (found.shape[0], *first.shape[1:]))
    return op.swapaxes(back, 0, axis) if ar.ndim < 3 else COMPOSED["moveaxis"](back, 0, axis)


@_counted
def unique_values_(x, /):
    return COUNTED["unique"](x, equal_nan=False)


# ---- sets ----

@_counted
def union1d_(ar1, ar2, /, *, size=None, fill_value: Any = None):
    return COUNTED["unique"](op.concatenate([op.ravel(ar1), op.ravel(ar2)], 0), size=size, fill_value=fill_value)


@_part
def of_both(ar1, ar2, /, assume_unique):
    """All values of two arrays, in order, a value that both have twice."""
    if assume_unique:
        return op.sort(op.concatenate([op.ravel(ar1), op.ravel(ar2)], 0), -1)
    return op.sort(op.concatenate([COUNTED["unique"](ar1), COUNTED["unique"](ar2)], 0), -1)


@_counted
def intersect1d_(ar1, ar2, /, assume_unique=False):
    both = of_both(ar1, ar2, assume_unique)
    return HELPERS["rows_of_mask"](both[:-1], both[1:] == both[:-1])


@_counted
def setxor1d_(ar1, ar2, /, assume_unique=False):
    both = of_both(ar1, ar2, assume_unique)
    new = op.concatenate([op.arange(1) == 0, both[1:] != both[:-1], op.arange(1) == 0], 0)
    return HELPERS["rows_of_mask"](both, op.logical_and(new[1:], new[:-1]))


@_counted
def setdiff1d_(ar1, ar2, /, assume_unique=False):
    own = op.ravel(ar1) if assume_unique else COUNTED["unique"](ar1)
    return HELPERS["rows_of_mask"](own, COMPOSED["isin"](own, ar2, invert=True))


# ---- parts by conditions ----

@_counted
def compress_(condition, a, /, axis=None, *, size=None, fill_value: Any = 0):
    rows, k = (op.ravel(a), 0) if axis is None else (a, axis)
    if size is None:
        return op.take(rows, all_true(op.ravel(condition) != 0), k)
    at, there = first_true(op.ravel(condition) != 0, size)
    found = op.swapaxes(op.take(rows, at, k), 0, k)
    return op.swapaxes(op.where(widened(there, found), found, op.cast_like(fill_value, found)), 0, k)


@_counted
def extract_(condition, arr, /, *, size=None, fill_value: Any = 0):
    return COUNTED["compress"](op.ravel(condition), op.ravel(arr), 0, size=size, fill_value=fill_value)


@_counted
def trim_zeros_(filt, /, trim="fb"):
    n, nonzero = filt.shape[0], filt != 0
    first = op.argmax(nonzero, 0) if "f" in trim.lower() else 0
    last = n - op.argmax(op.flip(nonzero, 0), 0) if "b" in trim.lower() else n
    within = op.logical_and(op.arange(n) >= first, op.arange(n) < last)
    return HELPERS["rows_of_mask"](filt, op.logical_and(within, op.any(nonzero)) if "f" in trim.lower() or "b" in trim.lower() else within)


@_counted
def bincount_(x, weights=None, /, minlength: Any = 0, *, length=None):
    if length is not None:
        return op.bincount(x, length=length) if weights is None else op.bincount(x, weights, length=length)
    n = op.maximum(op.max(x) + 1, minlength) if x.shape[0] > 0 else minlength
    at = op.cast(x, "i64")
    if weights is None:
        return op.zeros((n,), dtype="i64").at[at].add(1)
    return op.zeros((n,), dtype="f64").at[at].add(op.cast(weights, "f64"))
