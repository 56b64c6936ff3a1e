# SPDX-License-Identifier: Apache-2.0
"""Arithmetic, bits, order and implicit functions by the names of jax.lax, written as the functions of composed.py are."""
from __future__ import annotations

import enum
from typing import Any

from .._compile.known import Known, has_parts
from .._ops import COMPOSED, op
from .._transform import jvp, stop_gradient
from .._tree import tree_map
from .composed import RANKS, into, moveaxis
from ..fft import TABLE as TRANSFORMS
from .special import SPECIAL

ELEMENTS: dict[str, Any] = {}
_named, _part = into(ELEMENTS), into({})


class RoundingMethod(enum.IntEnum):
    """How lax.round rounds halves."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


class Precision(enum.Enum):
    """The precision of products, which is always that of the element type here."""

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2


class FftType(enum.IntEnum):
    """Transforms of lax.fft."""

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


INTEGERS = ("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8")


# ---- arithmetic ----

def towards_zero(x, y):
    """The quotient of integers without its fraction."""
    rest = op.fmod(x, y)
    return op.floor_div(x - rest, y)


@_named
def div(x, y, /):
    """The quotient; of integers without its fraction, as in C."""
    whole = x + op.zeros_like(y)
    for kind in INTEGERS:
        if whole.dtype == kind:
            return towards_zero(whole, y + op.zeros_like(x))
    return x / y


@_named
def rem(x, y, /):
    """What is left of x, with its sign."""
    return op.fmod(x, y)


@_named
def round_(x, /, rounding_method=0):
    """The nearest integer; halves away from 0, or to even ones."""
    if rounding_method == 1:
        return op.rint(x)
    whole = op.trunc(x)
    return op.copysign(op.where(op.abs(x - whole) >= 0.5, whole + op.sign(x), whole), x)


@_named
def reduce_precision(operand, /, exponent_bits, mantissa_bits):
    """The numbers as a narrower type has them: of f16, bf16 and f32."""
    if (exponent_bits, mantissa_bits) == (5, 10):
        return op.cast_like(op.cast(operand, "float16"), operand)
    if (exponent_bits, mantissa_bits) == (8, 7):
        return op.cast_like(op.cast(operand, "bfloat16"), operand)
    if (exponent_bits, mantissa_bits) == (8, 23):
        return op.cast_like(op.cast(operand, "float32"), operand)
    assert (exponent_bits, mantissa_bits) == (11, 52), "reduce_precision: exponent_bits and mantissa_bits are those of f16, bf16, f32 or f64"
    return operand


# ---- bits ----

@_named
def shift_right_arithmetic(x, y, /):
    """Bits moved to the right; the sign comes after them."""
    for signed, unsigned in PAIRS:
        if x.dtype == unsigned:
            return op.bitcast(op.right_shift(op.bitcast(x, signed), op.cast(y, signed)), unsigned)
    return op.right_shift(x, y)


@_named
def shift_right_logical(x, y, /):
    """Bits moved to the right; zeros come after them."""
    for signed, unsigned in PAIRS:
        if x.dtype == signed:
            return op.bitcast(op.right_shift(op.bitcast(x, unsigned), op.cast(y, unsigned)), signed)
    return op.right_shift(x, y)


PAIRS = (("int64", "uint64"), ("int32", "uint32"), ("int16", "uint16"), ("int8", "uint8"))
HALVES = (("int32", "int64", 32), ("uint32", "uint64", 32), ("int16", "int64", 16), ("uint16", "uint64", 16), ("int8", "int64", 8),
          ("uint8", "uint64", 8))


@_named
def mulhi(x, y, /):
    """The upper half of the product of integers of at most 32 bits."""
    for narrow, wide, bits in HALVES:
        if x.dtype == narrow:
            return op.cast(op.right_shift(op.cast(x, wide) * op.cast(y, wide), bits), narrow)
    raise ValueError("mulhi takes integers of at most 32 bits")


@_named
def bitcast_convert_type(operand, /, new_dtype):
    """The same bits as another element type of the same width."""
    return op.bitcast(operand, new_dtype)


# ---- order ----

def order_of(keys, axis):
    """The order by the first key; of equals by the second, and so on."""
    order = op.argsort(keys[-1], axis)
    for k in range(2, len(keys) + 1):
        order = op.take_along_axis(order, op.argsort(op.take_along_axis(keys[-k], order, axis), axis), axis)
    return order


@_named
def sort(operand, /, dimension=-1, is_stable=True, num_keys=1):
    """The elements along an axis in order; of several arrays by the first of them, or by the first num_keys."""
    if not has_parts(operand):
        return op.sort(operand, dimension)
    return sorted_by(operand, dimension, num_keys)


@_part
def sorted_by(operand, /, dimension, num_keys):
    """Several arrays in the order of the first ones."""
    order = order_of(operand[:num_keys], dimension)
    return tuple([op.take_along_axis(x, order, dimension) for x in operand])


@_named
def sort_key_val(keys, values, /, dimension=-1, is_stable=True):
    """(keys in order, values in the same order)"""
    order = op.argsort(keys, dimension)
    return op.take_along_axis(keys, order, dimension), op.take_along_axis(values, order, dimension)


@_named
def approx_max_k(operand, /, k, reduction_dimension=-1, recall_target=0.95):
    """(values, indices) of the k largest elements, exactly."""
    values, indices = op.top_k(operand, k, reduction_dimension)
    return values, op.cast(indices, "i32")


@_named
def approx_min_k(operand, /, k, reduction_dimension=-1, recall_target=0.95):
    """(values, indices) of the k smallest elements, exactly."""
    values, indices = op.top_k(operand, k, reduction_dimension, largest=False)
    return values, op.cast(indices, "i32")


# ---- reductions ----

@_named
def reduce_and(operand, /, axes):
    """Whether all elements along axes are true."""
    return op.all(operand, axes)


@_named
def reduce_or(operand, /, axes):
    """Whether one element along axes is true."""
    return op.any(operand, axes)


@_named
def cumlogsumexp(operand, /, axis=0, reverse=False):
    """Logarithms of the sums of exponentials up to each element."""
    rows = moveaxis(operand, axis, 0)
    rows = op.flip(rows, 0) if reverse else rows
    total, ys = rows[0], []
    for i in range(rows.shape[0]):
        if i > 0:
            total = COMPOSED["logaddexp"](total, rows[i])
        ys.append(total)
    y = op.flip(ys, 0) if reverse else ys
    return moveaxis(y, 0, axis)


# ---- parts and shapes ----

@_named
def split(operand, /, sizes, axis=0):
    """Parts of these sizes along an axis."""
    if total(sizes) != operand.shape[axis]:
        raise ValueError(f"split: sizes are {total(sizes)} together, and the axis has {operand.shape[axis]}")
    return op.split(operand, sums(sizes), axis=axis)


@Known
def total(sizes: Any) -> int:
    """What sizes are together."""
    return sum(sizes)


@Known
def sums(sizes: Any) -> tuple:
    """Where parts begin, but for the first."""
    return tuple(sum(sizes[:k]) for k in range(1, len(sizes)))


@_named
def expand_dims(array, /, dimensions):
    """The array with dims of size 1 at these places of the result."""
    return op.expand_dims(array, dimensions)


@_named
def squeeze(array, /, dimensions):
    """The array without these dims, which are of size 1."""
    return op.squeeze(array, dimensions)


@_named
def collapse(operand, /, start_dimension, stop_dimension=None):
    """Dims from one up to, without, another as one."""
    if stop_dimension is None:
        return op.flatten(operand, start_dimension, -1)
    return op.flatten(operand, start_dimension, stop_dimension - 1)


@_named
def broadcast_to_rank(x, /, rank):
    """The array with new dims before the others, `rank` in all."""
    for k in RANKS:
        new = first_dims(rank - k)
        if op.ndim(x) == k:
            return op.expand_dims(x, new)
    raise ValueError("broadcast_to_rank: too many dims")


@Known
def first_dims(n: int) -> tuple:
    """The first dims."""
    return tuple(range(n))


@_named
def batch_matmul(lhs, rhs, /, precision=None):
    """Products of matrices."""
    return lhs @ rhs


@_named
def index_take(src, idxs, /, axes):
    """Parts of size 1 along axes, at the rows of index arrays."""
    assert tuple(axes) == (0,), "index_take: axes is (0,); write x[i, j] for several"
    return op.expand_dims(op.take(src, idxs[0], 0), 1)


@_named
def optimization_barrier(operand, /):
    """The values as they are."""
    return operand


@_named
def platform_dependent(*args, default=None, cpu=None, cuda=None, rocm=None, tpu=None):
    """What the function for the CPU gives, or the default."""
    return default(*args) if cpu is None else cpu(*args)


# ---- transforms ----

@_named
def fft(x, /, fft_type, fft_lengths):
    """The Fourier transform along the last dims: FFT, IFFT, RFFT or IRFFT of these lengths."""
    kind, axes = kind_of(fft_type), last_dims(len(fft_lengths))
    if kind == "FFT":
        return TRANSFORMS["fftn"](x, fft_lengths, axes)
    if kind == "IFFT":
        return TRANSFORMS["ifftn"](x, fft_lengths, axes)
    if kind == "RFFT":
        return TRANSFORMS["rfftn"](x, fft_lengths, axes)
    return TRANSFORMS["irfftn"](x, fft_lengths, axes)


@Known
def kind_of(fft_type: Any) -> str:
    """The name of the transform."""
    name = str(getattr(fft_type, "name", fft_type)).upper()
    if name not in FftType.__members__:
        raise ValueError(f"fft: fft_type is FFT, IFFT, RFFT or IRFFT, not {fft_type!r}")
    return name


@Known
def last_dims(n: int) -> tuple:
    """The last dims."""
    return tuple(range(-n, 0))


# ---- implicit functions ----

@_named
def custom_root(f, initial_guess, solve, tangent_solve, /, has_aux=False):
    """A root of f that `solve` finds. Its derivatives, up to the third, are those of the implicit function: they come from two of
    Newton's steps, which tangent_solve(linear function, y) solves, and not from the rounds of solve."""
    if has_aux:
        found, aux = solve(f, initial_guess)
        return rooted(f, tree_map(stop_gradient, found), tangent_solve), aux
    return rooted(f, tree_map(stop_gradient, solve(f, initial_guess)), tangent_solve)


def newton(f, x, tangent_solve):
    """One of Newton's steps."""
    step = tangent_solve(lambda v: jvp(f, (x,), (v,))[1], f(x))
    return tree_map(lambda a, b: a - b, x, step)


def rooted(f, x, tangent_solve):
    """The root, with its derivatives."""
    near = newton(f, newton(f, x, tangent_solve), tangent_solve)
    return tree_map(lambda a, b: a + (b - stop_gradient(b)), x, near)


@_named
def custom_linear_solve(matvec, b, solve, transpose_solve=None, /, symmetric=False, has_aux=False):
    """x of matvec(x) = b, which `solve` finds. Derivatives by b and by what matvec captures are those of the solution, which `solve`
    finds, too; what solve itself captures has none of the first order."""
    if has_aux:
        found, aux = solve(matvec, b)
        return solved(matvec, b, tree_map(stop_gradient, found), lambda f, y: solve(f, y)[0]), aux
    return solved(matvec, b, tree_map(stop_gradient, solve(matvec, b)), solve)


def solved(matvec, b, x, solve):
    """The solution x with its derivatives: those of the solution for b + (b - matvec(x)), of which the b is a constant, less those of
    the solution for that constant, so that no derivative of solve's own is left."""
    still = tree_map(stop_gradient, b)
    near = solve(matvec, tree_map(lambda c, p, q: c + (p - q), still, b, matvec(x)))
    return tree_map(lambda a, p, q: a + (p - q), x, near, solve(matvec, still))


for _there, _here in {"igamma": "gammainc", "igammac": "gammaincc", "betainc": "betainc", "polygamma": "polygamma", "zeta": "zeta",
                      "bessel_i0e": "i0e", "bessel_i1e": "i1e", "erf_inv": "erfinv"}.items():
    ELEMENTS[_there] = SPECIAL[_here]
ELEMENTS["nextafter"] = COMPOSED["nextafter"]
