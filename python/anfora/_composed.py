# SPDX-License-Identifier: Apache-2.0
"""Functions of NumPy and JAX that are made of operations. Each is written as users write compiled functions, so it
serves compiled functions and, compiled alone, calls outside of them. Parameters before the / are arrays, or tuples of
arrays; those after it are constants, but for those of the type Any. What depends on the rank of an array is written for
each rank: which it is, is known when the code is made for the types of arguments."""
from __future__ import annotations

import functools
import inspect
import math
import types
from typing import Any, Callable

from ._builtins import asarray
from ._function import Jit
from ._known import Known
from ._ops import COMPOSED, op
from ._source import emit_function
from ._static import Call, argument_nodes
from ._tree import Shape, tree_leaves, tree_map

CONTROL: dict[str, Any] = {}
HELPERS: dict[str, Any] = {}  # what functions of other libraries mean that have no name here
LINALG = ("norm", "solve", "slogdet", "matrix_power", "multi_dot", "trace", "outer", "cross", "tensordot")
# Constants that may be told by the types of arguments too, such as x.shape[0] and x.dtype
SIZES = {"shape", "n", "m", "num", "num_classes", "slice_size", "slice_sizes", "length", "sizes", "new_sizes", "size", "dtype", "new_dtype"}
RANKS, SOME = range(9), range(1, 7)


class Composed(Jit):
    """A function made of operations."""

    def __init__(self, fn: types.FunctionType) -> None:
        signature = inspect.signature(fn, follow_wrapped=False)
        self._constant = [p.name for p in signature.parameters.values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and p.annotation != "Any"]
        named = [p.replace(kind=p.POSITIONAL_OR_KEYWORD) if p.kind == p.POSITIONAL_ONLY else p for p in signature.parameters.values()]
        if not any(p.kind == p.VAR_POSITIONAL for p in named):  # arrays may be given by name too
            vars(fn)["__signature__"] = signature.replace(parameters=named)
        super().__init__(fn, static_argnames=tuple(self._constant))

    def _emit_call(self, w: Any, c: Call) -> str:
        statics: dict[str, Any] = {}
        shapes: dict[str, Shape] = {}
        parts = []
        for name, node in argument_nodes(w, c, self.__wrapped__).items():
            known, x = w.static(node)
            if name in self._constant and not known and name not in SIZES:
                w.refuse(node, f"{name} of {self.__name__}() must be known when the function is compiled")
            if known and (name in self._constant or x is None or callable(x) or isinstance(x, (str, tuple, list, dict))):
                statics[name] = x
                continue
            s = w.like(node)
            if s is not None and s.kind not in ("leaf", "any"):
                shapes[name] = s
            parts.append(w.expr(node))
        return f"{emit_function(w.b, self.__wrapped__, statics, shapes)}{w.mark(c.node)}({', '.join(parts)})"


class OfNumber:
    """A function of an array that has another meaning for a number that is known."""

    def __init__(self, of_array: Composed, of_number: Composed) -> None:
        self.of_array, self.of_number = of_array, of_number
        functools.update_wrapper(self, of_array)

    def __call__(self, key: Any, x: Any, *args: Any, **kw: Any) -> Any:
        return (self.of_number if isinstance(x, int) else self.of_array)(key, x, *args, **kw)

    def _emit_call(self, w: Any, c: Call) -> str:
        known, x = w.static(c.args[1]) if len(c.args) > 1 else (False, None)
        return (self.of_number if known and isinstance(x, int) else self.of_array)._emit_call(w, c)


def into(table: dict[str, Any]) -> Callable:
    """A decorator: the function is one of a table."""
    def add(fn: types.FunctionType) -> Composed:
        name = fn.__name__.rstrip("_")
        table[name] = f = Composed(fn)
        f.__name__ = f.__qualname__ = name
        return f
    return add


composed, controlled, helper = into(COMPOSED), into(CONTROL), into(HELPERS)


# ---- the order of dims ----

@Known
def moved(rank: int, source: Any, destination: Any) -> tuple | None:
    """The dims in their new order; None if there are no such dims."""
    source, destination = ([x] if isinstance(x, int) else list(x) for x in (source, destination))
    if any(not -rank <= x < rank for x in source + destination):
        return None
    order = [i for i in range(rank) if i not in [s % rank for s in source]]
    for d, s in sorted(zip([d % rank for d in destination], [s % rank for s in source])):
        order.insert(d, s)
    return tuple(order)


@composed
def moveaxis(a, /, source, destination):
    """The array with some dims elsewhere."""
    for rank in RANKS:
        order = moved(rank, source, destination)
        if a.ndim == rank:
            if order is None:
                raise ValueError("moveaxis: there is no such dim")
            return op.transpose(a, order)
    raise ValueError("moveaxis: too many dims")


@composed
def rollaxis(a, /, axis, start=0):
    """One dim moved before another."""
    return moveaxis(a, axis, start if start <= axis else start - 1)


@composed
def atleast_1d(a, /):
    """The array with at least one dim."""
    return op.reshape(a, (1,)) if op.ndim(a) == 0 else a


@composed
def atleast_2d(a, /):
    """The array with at least two dims."""
    if op.ndim(a) == 0:
        return op.reshape(a, (1, 1))
    return a[None, :] if a.ndim == 1 else a


@composed
def atleast_3d(a, /):
    """The array with at least three dims."""
    if op.ndim(a) == 0:
        return op.reshape(a, (1, 1, 1))
    if a.ndim == 1:
        return a[None, :, None]
    return a[:, :, None] if a.ndim == 2 else a


@composed
def fliplr(a, /):
    """The columns in the other direction."""
    return op.flip(a, 1)


@composed
def flipud(a, /):
    """The rows in the other direction."""
    return op.flip(a, 0)


@composed
def rot90(a, /, k=1):
    """Turned by k quarters."""
    if k % 4 == 0:
        return a
    if k % 4 == 1:
        return op.flip(op.swapaxes(a, 0, 1), 0)
    if k % 4 == 2:
        return op.flip(op.flip(a, 0), 1)
    return op.swapaxes(op.flip(a, 0), 0, 1)


# ---- putting together, taking apart ----

@composed
def vstack(arrays, /):
    """Rows under each other."""
    return op.concatenate([atleast_2d(a) for a in arrays], 0)


@composed
def hstack(arrays, /):
    """Arrays beside each other."""
    whole = [atleast_1d(a) for a in arrays]
    if whole[0].ndim == 1:
        return op.concatenate(whole, 0)
    return op.concatenate(whole, 1)


@composed
def dstack(arrays, /):
    """Arrays one after the other."""
    return op.concatenate([atleast_3d(a) for a in arrays], 2)


@composed
def column_stack(arrays, /):
    """Vectors as columns."""
    return op.concatenate([a[:, None] if a.ndim == 1 else a for a in arrays], 1)


@composed
def append(a, b, /, axis=None):
    """Two arrays as one; flat if no axis is given."""
    return op.concatenate([op.ravel(a), op.ravel(b)], 0) if axis is None else op.concatenate([a, b], axis)


@composed
def hsplit(a, /, n):
    """Parts beside each other."""
    return op.split(a, n, axis=1) if a.ndim > 1 else op.split(a, n, axis=0)


@composed
def vsplit(a, /, n):
    """Parts under each other."""
    return op.split(a, n, axis=0)


@composed
def meshgrid(*arrays, indexing="xy"):
    """The coordinates of a grid: each array along one dim of its own."""
    sizes = tuple([op.size(a) for a in arrays])
    grids = [op.broadcast_to(op.reshape(a, along(i, len(arrays))), sizes) for i, a in enumerate(arrays)]
    return [op.swapaxes(g, 0, 1) if indexing == "xy" and len(arrays) > 1 else g for g in grids]


@Known
def along(i: int, n: int) -> tuple:
    """The shape of a vector along one of n dims."""
    return tuple(-1 if k == i else 1 for k in range(n))


@composed
def indices(dimensions):
    """For each dim, the index along it at each place."""
    grids = [op.broadcast_to(op.reshape(op.arange(d), along(i, len(dimensions))), dimensions) for i, d in enumerate(dimensions)]
    return op.stack(grids)


@Known
def first(n: int) -> range:
    """The numbers from 1 up to, without, n."""
    return range(1, n)


@composed
def array_split(a, /, n, axis=0):
    """Parts of nearly equal size."""
    size = a.shape[axis]
    return op.split(a, tuple([i * (size // n) + min(i, size % n) for i in first(n)]), axis=axis)


@composed
def broadcast_arrays(*arrays):
    """All arrays in one shape."""
    whole = arrays[0] * 0
    for a in arrays:
        whole = whole + a * 0
    return [op.broadcast_like(a, whole) for a in arrays]


@composed
def select(conditions, choices, default=0, /):
    """The first choice whose condition holds, element by element."""
    result = default
    for c, x in zip(reversed(conditions), reversed(choices)):
        result = op.where(c, x, result)
    return result


# ---- making ----

@composed
def identity(n, dtype="f32"):
    """The matrix with ones on its diagonal."""
    return op.eye(n, dtype=dtype)


@composed
def empty(shape, dtype="f32"):
    """An array of zeros: none is without values."""
    return op.zeros(shape, dtype=dtype)


@composed
def empty_like(a, /):
    """Zeros in the shape of another array."""
    return op.zeros_like(a)


@composed
def tri(n, m=None, k=0, dtype="f32"):
    """Ones at and below a diagonal."""
    return op.tril(op.ones((n, n if m is None else m), dtype=dtype), k)


@composed
def logspace(start, stop, num=50, base=10.0):
    """Powers whose exponents are evenly spaced."""
    return base ** op.linspace(start, stop, num)


@composed
def geomspace(start, stop, num=50):
    """Numbers of which each is the same multiple of the one before."""
    return op.exp(op.linspace(logarithm(start), logarithm(stop), num))


@Known
def logarithm(x: float) -> float:
    """Of a constant."""
    return math.log(x)


# ---- products ----

@composed
def dot(a, b, /):
    """The product of matrices and vectors; of more dims the sum over the last of a and the last but one of b."""
    if op.ndim(a) == 0:
        return a * b
    if op.ndim(b) == 0:
        return a * b
    if b.ndim <= 2:
        return a @ b
    return tensordot(a, b, ((-1,), (-2,)))


@composed
def outer(a, b, /):
    """The products of all pairs of elements."""
    return op.ravel(a)[:, None] * op.ravel(b)[None, :]


@composed
def inner(a, b, /):
    """The sum of products along the last dims."""
    return tensordot(a, b, ((-1,), (-1,)))


@composed
def vdot(a, b, /):
    """The sum of products of all elements, the first conjugated."""
    return op.sum(op.conj(op.ravel(a)) * op.ravel(b))


@composed
def kron(a, b, /):
    """Each element of a matrix times another matrix."""
    x, y = atleast_2d(a), atleast_2d(b)
    whole = op.reshape(x[:, None, :, None] * y[None, :, None, :], (x.shape[0] * y.shape[0], x.shape[1] * y.shape[1]))
    if op.ndim(a) < 2:
        if op.ndim(b) < 2:
            return whole[0]
    return whole


@composed
def cross(a, b, /):
    """The vectors that stand on two others in space."""
    x, y = (a[..., 0], a[..., 1], a[..., 2]), (b[..., 0], b[..., 1], b[..., 2])
    return op.stack([x[1] * y[2] - x[2] * y[1], x[2] * y[0] - x[0] * y[2], x[0] * y[1] - x[1] * y[0]], -1)


@Known
def summed(rank: int, other: int, axes: Any) -> str | None:
    """The equation of tensordot."""
    if isinstance(axes, int):
        axes = (tuple(range(rank - axes, rank)), tuple(range(axes)))
    one, two = ([a] if isinstance(a, int) else list(a) for a in axes)
    if any(not -rank <= i < rank for i in one) or any(not -other <= i < other for i in two):
        return None
    left = [chr(97 + i) for i in range(rank)]
    right = [chr(97 + rank + i) for i in range(other)]
    for i, k in zip(one, two):
        right[k] = left[i]
    kept = [c for c in left if c not in right] + [c for c in right if c not in left]
    return f"{''.join(left)},{''.join(right)}->{''.join(kept)}"


@composed
def tensordot(a, b, /, axes=2):
    """The sum of products along some dims of both."""
    for rank in SOME:
        for other in SOME:
            equation = summed(rank, other, axes)
            if a.ndim == rank:
                if b.ndim == other:
                    if equation is None:
                        raise ValueError("tensordot: there is no such dim")
                    return op.einsum(a, b, equation=equation)
    raise ValueError("tensordot: too many dims")


def slid(a, v, mode):
    """A vector under another, at all places that the mode names."""
    n = v.shape[0]
    if mode == "full":
        a = op.pad(a, (n - 1, n - 1))
    elif mode == "same":
        a = op.pad(a, (n // 2, n - 1 - n // 2))
    return op.conv1d(a[None, None, :], v[None, None, :])[0, 0]


@composed
def convolve(a, v, /, mode="full"):
    """The convolution of two vectors, the longer one first."""
    return slid(a, op.flip(v, 0), mode)


@composed
def correlate(a, v, /, mode="valid"):
    """The correlation of two vectors, the longer one first."""
    return slid(a, v, mode)


# ---- linear algebra ----

@composed
def trace(a, /, offset=0):
    """The sum of the diagonal."""
    return op.sum(diagonal(a, offset), -1)


@composed
def diagonal(a, /, offset=0):
    """The elements of the diagonal of the first two dims."""
    if a.ndim == 2:
        return op.diag(a, k=offset)
    n = min(a.shape[0] - max(-offset, 0), a.shape[1] - max(offset, 0))
    i = op.arange(n)
    return moveaxis(a[i + max(-offset, 0), i + max(offset, 0)], 0, -1)


@composed
def norm(x, /, ord=None, axis=None, keepdims=False):
    """The norm of vectors: Euclid's, or of order 1, 2, inf, -inf, 0 or another number; "fro" of matrices."""
    size = op.abs(x)
    if ord is None or ord == "fro" or (ord == 2 and (axis is not None or x.ndim == 1)):
        return op.sqrt(op.sum(size * size, axis, keepdims=keepdims))
    assert axis is not None or x.ndim == 1, "norm: of matrices there is the norm \"fro\" alone"
    if ord == math.inf:
        return op.max(size, axis, keepdims=keepdims)
    if ord == -math.inf:
        return op.min(size, axis, keepdims=keepdims)
    if ord == 1:
        return op.sum(size, axis, keepdims=keepdims)
    if ord == 0:
        return op.sum(op.where(size != 0, 1.0, 0.0), axis, keepdims=keepdims)
    return op.sum(size ** ord, axis, keepdims=keepdims) ** (1.0 / ord)


@composed
def solve(a, b, /):
    """x of a x = b; b is a vector or a matrix."""
    return op.solve(a, b[:, None])[:, 0] if b.ndim == 1 else op.solve(a, b)


@composed
def slogdet(a, /):
    """The sign of the determinant, and the logarithm of its size."""
    d = op.det(a)
    return op.sign(d), op.log(op.abs(d))


@composed
def matrix_power(a, /, n):
    """A matrix times itself."""
    if n < 0:
        return matrix_power(op.inverse(a), -n)
    if n == 0:
        return op.eye(a.shape[0]) + op.zeros_like(a)
    half = a if n < 2 else matrix_power(a, n // 2)
    if n == 1:
        return a
    return half @ half if n % 2 == 0 else half @ half @ a


@composed
def multi_dot(arrays, /):
    """The product of several matrices."""
    result = arrays[0]
    for a in arrays[1:]:
        result = result @ a
    return result


# ---- statistics ----

@composed
def quantile(a, q, /, axis=None):
    """The value below which the part q of the elements lies, between two of them if need be."""
    flat = op.sort(op.ravel(a) if axis is None else moveaxis(a, axis, -1), axis=-1)
    at = q * (flat.shape[-1] - 1)
    low = op.cast(op.floor(at), "i64")
    high = op.cast(op.ceil(at), "i64")
    below, above = op.take(flat, low, axis=-1), op.take(flat, high, axis=-1)
    part = at - op.floor(at)
    return below + (above - below) * op.cast_like(part, below)


@composed
def percentile(a, q, /, axis=None):
    """quantile with q in hundredths."""
    return quantile(a, q / 100.0, axis)


@composed
def median(a, /, axis=None):
    """The middle value."""
    return quantile(a, 0.5, axis)


@composed
def ptp(a, /, axis=None):
    """The largest less the smallest."""
    return op.max(a, axis) - op.min(a, axis)


@composed
def average(a, weights=None, /, axis=None):
    """The mean, weighted if weights are given."""
    if weights is None:
        return op.mean(a, axis)
    return op.sum(a * weights, axis) / op.sum(weights + 0 * a, axis)


@composed
def nansum(a, /, axis=None, keepdims=False):
    """The sum without elements that are no numbers."""
    return op.sum(op.where(op.isnan(a), 0, a), axis, keepdims=keepdims)


@composed
def nanmean(a, /, axis=None, keepdims=False):
    """The mean of the elements that are numbers."""
    count = op.sum(op.where(op.isnan(a), 0.0, 1.0), axis, keepdims=keepdims)
    total = nansum(a, axis, keepdims)
    return total / op.cast_like(count, total)


@composed
def nanmax(a, /, axis=None):
    """The largest element that is a number."""
    return op.max(op.where(op.isnan(a), -math.inf, a), axis)


@composed
def nanmin(a, /, axis=None):
    """The smallest element that is a number."""
    return op.min(op.where(op.isnan(a), math.inf, a), axis)


@composed
def nanprod(a, /, axis=None, keepdims=False):
    """The product without elements that are no numbers."""
    return op.prod(op.where(op.isnan(a), 1, a), axis, keepdims=keepdims)


@composed
def nanvar(a, /, axis=None, ddof=0, keepdims=False):
    """The variance of the elements that are numbers."""
    apart = op.where(op.isnan(a), 0, a - nanmean(a, axis, True))
    count = op.sum(op.where(op.isnan(a), 0.0, 1.0), axis, keepdims=keepdims)
    total = op.sum(apart * apart, axis, keepdims=keepdims)
    return total / op.cast_like(count - ddof, total)


@composed
def nanstd(a, /, axis=None, ddof=0, keepdims=False):
    """Their standard deviation."""
    return op.sqrt(nanvar(a, axis, ddof, keepdims))


@composed
def isin(a, test, /, invert=False):
    """Whether each element is one of the others."""
    found = op.any(op.expand_dims(a, -1) == op.ravel(asarray(test)), -1)
    return op.logical_not(found) if invert else found


@composed
def cov(m, /):
    """The covariances of rows."""
    apart = m - op.mean(m, -1, keepdims=True)
    return apart @ op.transpose(apart) / (m.shape[-1] - 1)


@composed
def corrcoef(m, /):
    """The correlations of rows."""
    c = cov(m)
    d = op.sqrt(op.diag(c))
    return c / d[:, None] / d[None, :]


@composed
def count_nonzero(a, /, axis=None):
    """How many elements are not 0."""
    return op.sum(op.cast(a != 0, "i64"), axis)


@composed
def digitize(x, bins, /, right=False):
    """The number of the bin of each element."""
    return op.searchsorted(bins, x, side="left" if right else "right")


@composed
def diff(a, /, n=1, axis=-1):
    """The differences of neighbours."""
    for _ in range(n):
        last = op.roll(a, -1, axis) - a
        a = moveaxis(moveaxis(last, axis, 0)[:-1], 0, axis)
    return a


def slopes(a, spacing):
    """Along the first dim."""
    return op.concatenate([a[1:2] - a[:1], (a[2:] - a[:-2]) / 2, a[-1:] - a[-2:-1]], 0) / spacing


@Known
def axes_of(rank: int, axis: Any) -> tuple:
    """The axes that an argument names, all if it is None."""
    return tuple(range(rank)) if axis is None else axis if isinstance(axis, tuple) else (axis,)


@composed
def gradient(a, spacing=1.0, /, axis=None):
    """Slopes by central differences along an axis; a tuple, one for each axis, if there are several."""
    for rank in RANKS:
        if a.ndim == rank:
            if isinstance(axis, int) or rank == 1:
                k = 0 if axis is None else axis
                return moveaxis(slopes(moveaxis(a, k, 0), spacing), 0, k)
            return tuple([moveaxis(slopes(moveaxis(a, k, 0), spacing), 0, k) for k in axes_of(rank, axis)])
    raise ValueError("gradient: too many dims")


@composed
def trapezoid(y, x=None, /, dx=1.0):
    """The area under a curve."""
    middle = (y[..., 1:] + y[..., :-1]) / 2
    return op.sum(middle * dx, -1) if x is None else op.sum(middle * (x[..., 1:] - x[..., :-1]), -1)


@composed
def interp(x, xp, fp, /):
    """Between points of a line; xp rises."""
    i = op.clip(op.searchsorted(xp, x, side="right") - 1, 0, xp.shape[0] - 2)
    part = op.clip((x - xp[i]) / (xp[i + 1] - xp[i]), 0.0, 1.0)
    return fp[i] + part * (fp[i + 1] - fp[i])


@composed
def polyval(p, x, /):
    """A polynomial, the highest power first."""
    result = op.zeros_like(x)
    for c in p:
        result = result * x + c
    return result


@composed
def vander(x, /, n=None):
    """The powers of a vector as columns, the highest first."""
    count = x.shape[0] if n is None else n
    return x[:, None] ** op.cast_like(op.flip(op.arange(count), 0), x)[None, :]


@composed
def unravel_index(i, /, shape):
    """The index in each dim of a flat index."""
    found = []
    for d in reversed(shape):
        found.append(i % d)
        i = i // d
    return tuple(reversed(found))


# ---- element by element ----

@composed
def isclose(a, b, /, rtol=1e-5, atol=1e-8, equal_nan=False):
    """Whether elements are nearly the same."""
    near = op.logical_and(op.isfinite(b), op.abs(a - b) <= atol + rtol * op.abs(b))
    same = op.logical_or(a == b, near)
    return op.logical_or(same, op.logical_and(op.isnan(a), op.isnan(b))) if equal_nan else same


@composed
def allclose(a, b, /, rtol=1e-5, atol=1e-8, equal_nan=False):
    """Whether all elements are nearly the same."""
    return op.all(isclose(a, b, rtol, atol, equal_nan))


@composed
def array_equal(a, b, /):
    """Whether all elements are the same."""
    return op.all(a == b)


@composed
def fmax(a, b, /):
    """The larger element; of NaN and a number the number."""
    return op.where(op.isnan(a), b, op.where(op.isnan(b), a, op.maximum(a, b)))


@composed
def fmin(a, b, /):
    """The smaller element; of NaN and a number the number."""
    return op.where(op.isnan(a), b, op.where(op.isnan(b), a, op.minimum(a, b)))


@composed
def float_power(a, b, /):
    """Powers in f64."""
    return op.cast(a, "f64") ** b


@composed
def divmod_(a, b, /):
    """Quotient and rest."""
    return a // b, a % b


@composed
def signbit(a, /):
    """Whether elements have a minus, zeros too."""
    return op.copysign(op.ones_like(a), a) < 0


@composed
def angle(z, /, deg=False):
    """The angle of complex numbers."""
    turn = op.arctan2(op.imag(z * 1.0), op.real(z * 1.0))
    return turn * (180 / math.pi) if deg else turn


@composed
def matrix_transpose(x, /):
    """Rows as columns, of each matrix."""
    return op.swapaxes(x, -1, -2)


@composed
def vecdot(a, b, /, axis=-1):
    """The sum of products along a dim, the first conjugated."""
    return op.sum(op.conj(a) * b, axis)


@composed
def positive(a, /):
    """The array as it is."""
    return a


@composed
def heaviside(x, h, /):
    """0 below 0, 1 above, h there."""
    return op.where(op.isnan(x), x, op.where(x == 0, h, op.where(x < 0, 0.0, 1.0)))


@composed
def sinc(x, /):
    """sin(pi x) / (pi x)."""
    y = op.where(x == 0, 1.0, math.pi * x)
    return op.where(x == 0, 1.0, op.sin(y) / y)


@composed
def deg2rad(x, /):
    """Degrees as radians."""
    return x * (math.pi / 180)


@composed
def rad2deg(x, /):
    """Radians as degrees."""
    return x * (180 / math.pi)


@composed
def logaddexp(a, b, /):
    """The logarithm of the sum of exponentials."""
    high, low = op.maximum(a, b), op.minimum(a, b)
    return op.where(high == low, high + math.log(2), high + op.log1p(op.exp(low - high)))


@composed
def logaddexp2(a, b, /):
    """The same to base 2."""
    return logaddexp(a * math.log(2), b * math.log(2)) / math.log(2)


@composed
def nan_to_num(x, /, nan=0.0, posinf=None, neginf=None):
    """Numbers in place of NaN and infinities: the largest ones if no others are given."""
    y = op.where(op.isnan(x), nan, x)
    high = largest(x) if posinf is None else posinf
    low = -largest(x) if neginf is None else neginf
    return op.where(y == math.inf, high, op.where(y == -math.inf, low, y))


def largest(x):
    """The largest number of the element type of x."""
    found = op.cast_like(1.0, x)
    for most in (65504.0, 3.3895313892515355e38, 3.4028234663852886e38, 1.7976931348623157e308):
        found = op.where(op.isfinite(op.cast_like(most, x)), op.cast_like(most, x), found)
    return found


@composed
def clip(x, low=None, high=None, /):
    """Elements no smaller than low and no larger than high; None: no limit."""
    if low is not None:
        x = op.maximum(x, low)
    if high is not None:
        x = op.minimum(x, high)
    return x


@composed
def round_(a, /, decimals=0):
    """To so many places after the point, halves to even."""
    if decimals == 0:
        return op.rint(a)
    by = ten_to(decimals)
    return op.rint(a * by) / by if decimals > 0 else op.rint(a / by) * by


@helper
def limit_of(x, /, name):
    """What finfo(x.dtype) tells: eps, max, min, tiny."""
    found = op.cast_like(1.0, x)
    for most, eps, tiny in ((65504.0, 2.0 ** -10, 2.0 ** -14), (3.3895313892515355e38, 2.0 ** -7, 2.0 ** -126),
                            (3.4028234663852886e38, 2.0 ** -23, 2.0 ** -126), (1.7976931348623157e308, 2.0 ** -52, 2.0 ** -1022)):
        limit = eps if name == "eps" else most if name == "max" else -most if name == "min" else tiny
        found = op.where(op.isfinite(op.cast_like(most, x)), op.cast_like(limit, x), found)
    return found


def widened(mask, x):
    """A mask of the first dims of x, for all."""
    return mask if op.ndim(mask) >= op.ndim(x) else widened(mask[..., None], x)


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


@Known
def ten_to(n: int) -> float:
    """A power of ten."""
    return 10.0 ** abs(n)


COMPOSED["around"] = COMPOSED["round_"] = COMPOSED["round"]


@helper
def round_to(x, /, n):
    """round(x, n) of Python: the decimal number nearest to x, which is the product itself unless that fell on a half."""
    by = ten_to(n)
    if n < 0:
        return op.rint(x / by) * by
    y = x * by
    whole, rest = op.floor(y), op.fma(x, by, -y)
    half = op.where(rest > 0, whole + 1, op.where(rest < 0, whole, op.rint(y)))
    return op.where(y - whole == 0.5, half, op.rint(y)) / by


@helper
def gamma(x, /):
    """The gamma function."""
    sign = op.where(op.logical_and(x < 0, op.mod(op.floor(x), 2) != 0), -1.0, 1.0)
    return op.exp(op.lgamma(x)) * sign


@helper
def ieee_remainder(x, y, /):
    """What is left of x without the nearest multiple of y."""
    return x - y * op.rint(x / y)


@helper
def gelu_tanh(x, /, approximate=True):
    """GELU, by default as the tanh of a polynomial."""
    return op.gelu(x, approximate=approximate)


@Known
def widths(rank: int, by: Any) -> tuple:
    """pad_width as NumPy takes it, flat."""
    if isinstance(by, int):
        return (by, by) * rank
    if all(isinstance(x, int) for x in by):
        return tuple(by) if len(by) == 2 * rank else tuple(by) * rank
    return tuple(x for pair in (by * rank if len(by) == 1 else by) for x in pair)


@composed
def pad(x, /, pad_width, mode="constant", constant_values=0, value=None):
    """The array with a border: pad_width is a number, or pairs (before, after); modes constant, edge, reflect."""
    for rank in RANKS:
        if x.ndim == rank:
            return op.pad(x, widths(rank, pad_width), mode, constant_values if value is None else value)
    raise ValueError("pad: too many dims")


# ---- control, by JAX's names ----

@controlled
def cond(test, yes, no, /, *operands):
    """yes(*operands) if the test holds, else no(*operands)."""
    if test:
        return yes(*operands)
    return no(*operands)


@controlled
def fori_loop(lower, upper, body, state, /):
    """state = body(i, state) for each i."""
    for i in range(lower, upper):
        state = body(i, state)
    return state


@controlled
def while_loop(test, body, state, /):
    """state = body(state) while test(state) holds."""
    while test(state):
        state = body(state)
    return state


@controlled
def scan(f, state, xs=None, /, length=None, reverse=False, unroll=1):
    """(state, y) = f(state, x) for each row x of xs, an array or a tree of arrays, from the last one on if `reverse`; gives
    the state and all y, stacked as the rows are. `unroll` changes nothing: loops are cut as the machine likes it."""
    ys = []
    if xs is None:
        for _ in range(length):
            state, y = f(state, None)
            ys.append(y)
    elif reverse:
        for i in range(tree_leaves(xs)[0].shape[0]):
            state, y = f(state, tree_map(lambda x: x[-1 - i], xs))  # noqa: B023: called at once
            ys.append(y)
    else:
        for i in range(tree_leaves(xs)[0].shape[0]):
            state, y = f(state, tree_map(lambda x: x[i], xs))  # noqa: B023: called at once
            ys.append(y)
    return state, tree_map(lambda y: op.flip(y, 0), ys) if reverse else ys
