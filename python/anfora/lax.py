# SPDX-License-Identifier: Apache-2.0
"""Control flow and array functions by the names of jax.lax, so that programs written for it run with the import exchanged.

>>> from anfora import lax
>>> lax.scan(lambda carry, x: (carry + x, carry), 0.0, xs)

What stands before the / of a function is computed in the program, what stands after it is a constant."""
from __future__ import annotations

import math
from typing import Any

from ._library import complexes as _complexes  # noqa: F401: fills COMPOSED
from ._library import control as _control  # noqa: F401: fills CONTROL
from ._library.composed import CONTROL, Composed, into
from ._compile.known import Known, has_parts
from ._library.collectives import COLLECTIVES
from ._library.elements import ELEMENTS, FftType, Precision, RoundingMethod  # noqa: F401: JAX's names
from ._library.factors import FACTORS
from ._library.windows import SHAPES, WINDOWS, ConvDimensionNumbers, conv_dimension_numbers  # noqa: F401: JAX's names
from ._names import Namespace, missing
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
    i = op.arange(len(branches))[op.clip(index, 0, len(branches) - 1)]  # an integer
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
def associative_scan(fn, elems, /, reverse=False, axis=0):
    """All the beginnings of fn(fn(x0, x1), x2)... of the rows of elems, an array or a tree of arrays; reverse: the ends."""
    rows = tree_map(lambda x: op.swapaxes(x, 0, axis), elems)
    rows = tree_map(lambda x: op.flip(x, 0), rows) if reverse else rows
    so_far = tree_map(lambda x: x[0:1], rows)
    ys = []
    for i in range(tree_leaves(rows)[0].shape[0]):
        row = tree_map(lambda x: op.expand_dims(x[i], 0), rows)  # noqa: B023: called at once
        if i > 0:
            so_far = fn(so_far, row)
        ys.append(tree_map(lambda x: x[0], so_far))
    ys = tree_map(lambda y: op.flip(y, 0), ys) if reverse else ys
    return tree_map(lambda y: op.swapaxes(y, 0, axis), ys)


CONTROL |= {n: TABLE[n] for n in ("switch", "map", "associative_scan")}


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
    return op.reshape(x if dimensions is None else op.transpose(x, dimensions), new_sizes)


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


# ---- sums and products ----

@_lax
def cumsum(x, /, axis=0, reverse=False):
    """Sums up to each element."""
    return op.cast_like(op.cumsum(x, axis, reverse=reverse), x)


@_lax
def cumprod(x, /, axis=0, reverse=False):
    """Products up to each element."""
    return op.cast_like(op.cumprod(x, axis, reverse=reverse), x)


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
    return op.cast_like(op.sum(x, axes), x)


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
    return op.cast_like(op.prod(x, axes), x)


@_lax
def dot(a, b, /, dimension_numbers=None, precision=None, preferred_element_type=None):
    """The product of vectors and matrices; with dimension_numbers dot_general."""
    a, b = (a, b) if preferred_element_type is None else (op.cast(a, preferred_element_type), op.cast(b, preferred_element_type))
    return a @ b if dimension_numbers is None else dot_general(a, b, dimension_numbers)


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
    a, b = (a, b) if preferred_element_type is None else (op.cast(a, preferred_element_type), op.cast(b, preferred_element_type))
    for rank in _RANKS:
        for other in _RANKS:
            equation = contraction(rank, other, dimension_numbers)
            if a.ndim == rank:
                if b.ndim == other:
                    if equation is None:
                        raise ValueError("dot_general: there is no such axis")
                    return op.einsum(a, b, equation=equation)
    raise ValueError("dot_general: too many dims")


# ---- choices, dims ----

@Known
def _others(rank: int, dims: Any) -> tuple:
    """The dims that are not among these."""
    return tuple(i for i in range(rank) if i not in dims)


@_lax
def select_n(which, /, *cases):
    """Of each element the case of its number, or of false and true."""
    y = cases[0]
    for k in range(1, len(cases)):
        y = op.where(which == k, cases[k], y)
    return y


@_lax
def broadcast_in_dim(operand, /, shape, broadcast_dimensions):
    """The array whose dim i is dim broadcast_dimensions[i] of the result, repeated along the others."""
    if len(broadcast_dimensions) != operand.ndim or any(i >= j for i, j in zip(broadcast_dimensions, broadcast_dimensions[1:])):
        raise ValueError("broadcast_in_dim: there is one dim of the result for each dim of the array, in ascending order")
    return op.broadcast_to(op.expand_dims(operand, _others(len(shape), broadcast_dimensions)), shape)


@_lax
def broadcasted_iota(dtype, shape, dimension):
    """0, 1, 2, ... along a dim."""
    return op.broadcast_to(op.expand_dims(op.cast(op.arange(shape[dimension]), dtype), _others(len(shape), (dimension,))), shape)


_OPERATIONS = """abs exp expm1 log log1p log2 sqrt rsqrt sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh floor ceil
    sign square reciprocal cbrt erf erfc lgamma digamma add sub mul neg pow=power max=maximum min=minimum logistic=sigmoid
    is_finite=isfinite exp2 eq=equal ne=not_equal lt=less le=less_equal gt=greater ge=greater_equal population_count=pop_count real
    imag conj bitwise_and bitwise_or bitwise_xor bitwise_not clz=leading_zeros stop_gradient zeros_like_array=zeros_like
    full_like shift_left=left_shift complex=make_complex stack unstack tile broadcast_like empty conj"""
_HERE: dict[str, Any] = {"stop_gradient": stop_gradient}
for _name in _OPERATIONS.split():
    _here, _, _there = _name.partition("=")
    _HERE.setdefault(_here, COMPOSED.get(_there or _here) or OPS.get(_there or _here))
_HERE |= TABLE | WINDOWS | SHAPES | ELEMENTS | COLLECTIVES
globals().update(_HERE)
linalg = Namespace("anfora.lax.linalg", **FACTORS)
__all__ = [*_HERE, "ConvDimensionNumbers", "FftType", "Precision", "RoundingMethod", "cond", "conv_dimension_numbers", "fori_loop", "linalg", "scan",
           "while_loop"]
RANKS_OF_SEVERAL = "all_to_all pbroadcast pcast pshuffle psum_scatter pswapaxes ragged_all_to_all".split()
_missing = missing(__name__, __all__)


def __getattr__(name: str) -> Any:
    if name in RANKS_OF_SEVERAL:
        raise AttributeError(f"anfora.lax has no {name}: over the lanes of a vmap there are {', '.join(COLLECTIVES)}; anfora.comm has sums over ranks")
    if name.endswith("_p"):
        raise AttributeError(f"anfora.lax has no {name}: there are no primitives; call the function {name[:-2]}")
    if name == "rng_uniform":
        raise AttributeError("anfora.lax has no rng_uniform, whose numbers have no key; anfora.random.uniform takes one")
    return _missing(name)
