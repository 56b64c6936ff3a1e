# SPDX-License-Identifier: Apache-2.0
"""Control flow and array functions by the names of jax.lax, so that programs written for it run with the import exchanged.

>>> from anfora import lax
>>> lax.scan(lambda carry, x: (carry + x, carry), 0.0, xs)

What stands before the / of a function is computed in the program, what stands after it is a constant."""
from __future__ import annotations

import math
from typing import Any

from ._composed import CONTROL, Composed, into
from ._known import Known, has_parts
from ._ops import COMPOSED, OPS, op
from ._transform import stop_gradient
from ._tree import tree_leaves, tree_map

cond, fori_loop, while_loop, scan = (CONTROL[n] for n in ("cond", "fori_loop", "while_loop", "scan"))
TABLE: dict[str, Composed] = {}  # the functions below, by name
_lax = into(TABLE)
_RANKS = range(1, 7)


# ---- control ----

@_lax
def switch(index, branches, /, *operands):
    """branches[index](*operands); an index outside of the branches is the nearest one."""
    i = op.clip(index, 0, len(branches) - 1)
    for k in range(len(branches) - 1):
        if i == k:
            return branches[k](*operands)
    return branches[len(branches) - 1](*operands)


@_lax
def map_(f, xs, /, batch_size=None):
    """f of each row of xs, an array or a tree of arrays, stacked. `batch_size` changes nothing."""
    ys = []
    for i in range(tree_leaves(xs)[0].shape[0]):
        ys.append(f(tree_map(lambda x: x[i], xs)))  # noqa: B023: called at once
    return ys


@_lax
def associative_scan(f, xs, /, reverse=False, axis=0):
    """All the beginnings of f(f(x0, x1), x2)... of the rows of xs, an array or a tree of arrays; reverse: the ends."""
    rows = tree_map(lambda x: op.swapaxes(x, 0, axis), xs)
    rows = tree_map(lambda x: op.flip(x, 0), rows) if reverse else rows
    so_far = tree_map(lambda x: x[0:1], rows)
    ys = []
    for i in range(tree_leaves(rows)[0].shape[0]):
        row = tree_map(lambda x: op.expand_dims(x[i], 0), rows)  # noqa: B023: called at once
        if i > 0:
            so_far = f(so_far, row)
        ys.append(tree_map(lambda x: x[0], so_far))
    ys = tree_map(lambda y: op.flip(y, 0), ys) if reverse else ys
    return tree_map(lambda y: op.swapaxes(y, 0, axis), ys)


# ---- parts of arrays ----

@_lax
def dynamic_slice(x, start_indices, /, slice_sizes):
    """The part of x of these sizes that begins at start_indices, moved inside if it does not fit."""
    return op.dynamic_slice(x, [start_indices[i] for i in range(len(slice_sizes))], slice_sizes)


@_lax
def dynamic_update_slice(x, update, start_indices, /):
    """x with the part that begins at start_indices replaced."""
    if has_parts(start_indices):
        return op.dynamic_update_slice(x, op.cast_like(update, x), start_indices)
    for rank in _RANKS:
        if x.ndim == rank:
            return op.dynamic_update_slice(x, op.cast_like(update, x), [start_indices[i] for i in range(rank)])
    raise ValueError("dynamic_update_slice: too many dims")


@_lax
def dynamic_slice_in_dim(x, start, /, slice_size, axis=0):
    """The part of x along one axis."""
    t = op.swapaxes(x, 0, axis)
    i = op.where(start < 0, start + t.shape[0], start)
    at = op.clip(i, 0, t.shape[0] - slice_size) + op.arange(slice_size)
    return op.swapaxes(op.take(t, at, 0), 0, axis)


@_lax
def dynamic_update_slice_in_dim(x, update, start, /, axis=0):
    """x with a part along one axis replaced."""
    t, u = op.swapaxes(x, 0, axis), op.swapaxes(update, 0, axis)
    i = op.where(start < 0, start + t.shape[0], start)
    at = op.clip(i, 0, t.shape[0] - u.shape[0]) + op.arange(u.shape[0])
    return op.swapaxes(t.at[at].set(u), 0, axis)


@_lax
def dynamic_index_in_dim(x, index, /, axis=0, keepdims=True):
    """The part of x at one index along an axis."""
    t = op.swapaxes(x, 0, axis)
    i = op.clip(op.where(index < 0, index + t.shape[0], index), 0, t.shape[0] - 1)
    part = op.swapaxes(op.expand_dims(t[i], 0), 0, axis)
    return part if keepdims else op.squeeze(part, axis)


@_lax
def dynamic_update_index_in_dim(x, update, index, /, axis=0):
    """x with the part at one index along an axis replaced."""
    u = update if op.ndim(update) == op.ndim(x) else op.expand_dims(update, axis)
    return dynamic_update_slice_in_dim(x, u, index, axis)


@_lax
def slice_in_dim(x, /, start_index=None, limit_index=None, stride=1, axis=0):
    """A slice along one axis, of constants."""
    return op.slice(x, 0 if start_index is None else start_index, limit_index, stride, axis)


@_lax
def slice_(x, /, start_indices, limit_indices, strides=None):
    """A slice along each axis, of constants."""
    for i in range(len(start_indices)):
        x = op.slice(x, start_indices[i], limit_indices[i], 1 if strides is None else strides[i], i)
    return x


@_lax
def index_in_dim(x, /, index, axis=0, keepdims=True):
    """The part of x at a constant index along an axis."""
    return dynamic_index_in_dim(x, index, axis, keepdims)


# ---- shapes ----

@_lax
def broadcast(x, /, sizes):
    """x repeated along new leading axes."""
    return op.broadcast_to(x, tuple(sizes) + tuple(x.shape)) if len(sizes) > 0 else x


@_lax
def iota(dtype, size):
    """0, 1, 2, ... of an element type."""
    return op.cast(op.arange(size), dtype)


@_lax
def full(shape, fill_value, dtype=None):
    """An array of one value."""
    return op.full(shape, fill_value, dtype=dtype)


@_lax
def reshape(x, /, new_sizes, dimensions=None):
    """The same elements in another shape."""
    assert dimensions is None, "reshape: dimensions must be None; transpose before"
    return op.reshape(x, new_sizes)


@_lax
def rev(x, /, dimensions):
    """Some axes in the other direction."""
    return op.flip(x, dimensions)


@_lax
def concatenate(operands, /, dimension):
    """Arrays one after the other along an axis."""
    return op.concatenate(operands, dimension)


@_lax
def transpose(x, /, permutation):
    """The axes in another order."""
    return op.transpose(x, permutation)


@_lax
def select(which, on_true, on_false, /):
    """Element by element, one or the other."""
    return op.where(which, on_true, on_false)


@_lax
def clamp(low, x, high, /):
    """Elements no smaller than low and no larger than high."""
    return op.minimum(op.maximum(x, low), high)


@_lax
def convert_element_type(x, /, new_dtype):
    """The same numbers as another element type."""
    return op.cast(x, new_dtype)


@_lax
def integer_pow(x, /, y):
    """A constant whole power."""
    return x ** y


@_lax
def top_k(x, /, k, axis=-1):
    """(values, indices) of the k largest elements along an axis."""
    values, indices = op.top_k(x, k, axis)
    return values, op.cast(indices, "i32")


@_lax
def argmax(x, /, axis, index_dtype="i32"):
    """Where the largest element along an axis is."""
    return op.cast(op.argmax(x, axis), index_dtype)


@_lax
def argmin(x, /, axis, index_dtype="i32"):
    """Where the smallest element along an axis is."""
    return op.cast(op.argmin(x, axis), index_dtype)


@_lax
def sort(x, /, dimension=-1):
    """The elements along an axis in order."""
    return op.sort(x, dimension)


# ---- sums and products ----

@_lax
def cumsum(x, /, axis=0, reverse=False):
    """Sums up to each element."""
    return op.cumsum(x, axis, reverse)


@_lax
def cumprod(x, /, axis=0, reverse=False):
    """Products up to each element."""
    return op.cumprod(x, axis, reverse)


@_lax
def cummax(x, /, axis=0, reverse=False):
    """The largest up to each element."""
    return op.cum_max(x, axis, reverse)


@_lax
def cummin(x, /, axis=0, reverse=False):
    """The smallest up to each element."""
    return op.cum_min(x, axis, reverse)


@_lax
def reduce_sum(x, /, axes):
    """The sum along axes."""
    return op.sum(x, axes)


@_lax
def reduce_max(x, /, axes):
    """The largest along axes."""
    return op.max(x, axes)


@_lax
def reduce_min(x, /, axes):
    """The smallest along axes."""
    return op.min(x, axes)


@_lax
def reduce_prod(x, /, axes):
    """The product along axes."""
    return op.prod(x, axes)


@_lax
def dot(a, b, /):
    """The product of vectors and matrices."""
    return a @ b


@Known
def contraction(rank: int, other: int, numbers: Any) -> str | None:
    """The equation of dot_general; None if there are no such axes."""
    (one, two), (first, second) = ((tuple(a), tuple(b)) for a, b in numbers)
    if any(i >= rank for i in (*one, *first)) or any(i >= other for i in (*two, *second)):
        return None
    left, right = [chr(97 + i) for i in range(rank)], [chr(97 + rank + i) for i in range(other)]
    for i, k in zip((*one, *first), (*two, *second)):
        right[k] = left[i]
    batch = [left[i] for i in first]
    kept = [c for c in left if c not in right] + [c for c in right if c not in left]
    return f"{''.join(left)},{''.join(right)}->{''.join(batch + kept)}"


@_lax
def dot_general(a, b, /, dimension_numbers, precision=None, preferred_element_type=None):
    """Sums of products: ((axes of a, axes of b) summed over, (axes of a, axes of b) that both have)."""
    for rank in _RANKS:
        for other in _RANKS:
            equation = contraction(rank, other, dimension_numbers)
            if a.ndim == rank:
                if b.ndim == other:
                    if equation is None:
                        raise ValueError("dot_general: there is no such axis")
                    return op.einsum(a, b, equation=equation)
    raise ValueError("dot_general: too many dims")


# ---- convolutions, windows ----

@Known
def layouts(numbers: Any, n: int) -> tuple:
    """(axes of x in the order N, C, space), the same of the weights (O, I, space), and of the result the other way round."""
    space = "DHW"[3 - n:]
    x, w, y = numbers if isinstance(numbers, (tuple, list)) else ("NC" + space, "OI" + space, "NC" + space)
    named = [tuple(s.index(c) for c in order + space) for s, order in ((x, "NC"), (w, "OI"), (y, "NC"))]
    back = tuple(named[2].index(i) for i in range(n + 2))
    return named[0], named[1], back


@Known
def padded(padding: Any) -> Any:
    """Padding as the operations take it."""
    return padding.lower() if isinstance(padding, str) else tuple(tuple(p) for p in padding)


@_lax
def conv_general_dilated(x, w, /, window_strides, padding, lhs_dilation=None, rhs_dilation=None, dimension_numbers=None,
                         feature_group_count=1, batch_group_count=1, precision=None, preferred_element_type=None):
    """A convolution of one to three dims; dimension_numbers are texts such as ("NHWC", "HWIO", "NHWC")."""
    n = len(window_strides)
    assert lhs_dilation is None and batch_group_count == 1, "conv_general_dilated: lhs_dilation and batch_group_count cannot be given"
    order = layouts(dimension_numbers, n)
    a, b = op.transpose(x, order[0]), op.transpose(w, order[1])
    by = (1,) * n if rhs_dilation is None else tuple(rhs_dilation)
    if n == 1:
        y = op.conv1d(a, b, stride=tuple(window_strides), padding=padded(padding), dilation=by, groups=feature_group_count)
    elif n == 2:
        y = op.conv2d(a, b, stride=tuple(window_strides), padding=padded(padding), dilation=by, groups=feature_group_count)
    else:
        y = op.conv3d(a, b, stride=tuple(window_strides), padding=padded(padding), dilation=by, groups=feature_group_count)
    return op.transpose(y, order[2])


@_lax
def conv(x, w, /, window_strides, padding, precision=None, preferred_element_type=None):
    """A convolution of x [n, c, ...] with w [o, c, ...]."""
    return conv_general_dilated(x, w, window_strides, padding)


@_lax
def conv_with_general_padding(x, w, /, window_strides, padding, lhs_dilation=None, rhs_dilation=None):
    """A convolution with padding and dilation."""
    return conv_general_dilated(x, w, window_strides, padding, lhs_dilation, rhs_dilation)


@Known
def windowed(dimensions: tuple, strides: tuple, padding: Any) -> tuple:
    """(the axes that windows have, these as the last ones, and along these their sizes, strides and padding)"""
    axes = tuple(i for i, (d, s) in enumerate(zip(dimensions, strides)) if (d, s) != (1, 1))
    border = padding.lower() if isinstance(padding, str) else tuple(tuple(padding[i]) for i in axes)
    ends = tuple(range(-len(axes), 0))
    return axes, ends, tuple(dimensions[i] for i in axes), tuple(strides[i] for i in axes), border


_MAX = {1: op.max_pool1d, 2: op.max_pool2d, 3: op.max_pool3d}  # by the number of axes
_MEAN = {1: op.avg_pool1d, 2: op.avg_pool2d, 3: op.avg_pool3d}


@_lax
def reduce_window(x, /, init_value, computation, window_dimensions, window_strides, padding):
    """The largest (lax.max), the smallest (lax.min) or the sum (lax.add) of each window of up to three axes."""
    strides = (1,) * len(window_dimensions) if window_strides is None else window_strides
    axes, ends, kernel, stride, border = windowed(window_dimensions, strides, padding)
    n = len(axes)
    t = COMPOSED["moveaxis"](x, axes, ends)
    flat = op.reshape(t, (1, -1) + tuple(t.shape[-n:]))
    if computation is OPS["maximum"]:
        y = _MAX[n](flat, kernel, stride, border)
    elif computation is OPS["minimum"]:
        y = -_MAX[n](-flat, kernel, stride, border)
    else:
        assert computation is OPS["add"], "reduce_window: the computation must be lax.max, lax.min or lax.add"
        y = _MEAN[n](flat, kernel, stride, border) * math.prod(kernel)
    return COMPOSED["moveaxis"](op.reshape(y, tuple(t.shape[:-n]) + tuple(y.shape[2:])), ends, axes)


_OPERATIONS = """abs exp expm1 log log1p log2 sqrt rsqrt sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh floor ceil
    sign square reciprocal cbrt erf erfc lgamma digamma add sub mul neg pow=power max=maximum min=minimum rem=fmod logistic=sigmoid
    is_finite=isfinite exp2 eq=equal ne=not_equal lt=less le=less_equal gt=greater ge=greater_equal population_count=pop_count real
    imag conj bitwise_and bitwise_or bitwise_xor bitwise_not expand_dims squeeze clz=leading_zeros stop_gradient zeros_like_array=zeros_like
    full_like shift_left=left_shift complex=make_complex"""
_HERE: dict[str, Any] = {"stop_gradient": stop_gradient}
for _name in _OPERATIONS.split():
    _here, _, _there = _name.partition("=")
    _HERE.setdefault(_here, COMPOSED.get(_there or _here) or OPS.get(_there or _here))
_HERE |= TABLE
globals().update(_HERE)
__all__ = [*_HERE, "cond", "fori_loop", "scan", "while_loop"]
