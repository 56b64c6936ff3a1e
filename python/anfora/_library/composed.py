# SPDX-License-Identifier: Apache-2.0
"""Functions of NumPy and JAX that are made of operations. Each is written as users write compiled functions, so it
serves compiled functions and, compiled alone, calls outside of them. Parameters before the / are arrays, or tuples of
arrays; those after it are constants, but for those of the type Any. What depends on the rank of an array is written for
each rank: which it is, is known when the code is made for the types of arguments."""
from __future__ import annotations

import dis
import functools
import inspect
import math
import types
from typing import Any, Callable, Sequence

from .._compile.builtins import asarray, listed_array
from .._jit import Jit
from .._compile.known import Known, has_parts
from .._ops import COMPOSED, array_of, few, op
from .._compile.source import emit_function
from .._compile.static import Call, _like_constant, argument_nodes
from .._tree import Shape
from .._types import default_float
from .constants import frozen, has_arrays, numbers_in, plain_constant

CONTROL: dict[str, Any] = {}
HELPERS: dict[str, Any] = {}  # what functions of other libraries mean that have no name here
LINALG = ("solve", "matrix_power", "multi_dot", "outer", "tensordot")
# Constants that the types of arguments may give too, such as x.shape[0] and x.dtype
SIZES = {"shape", "n", "m", "N", "M", "num", "num_classes", "slice_size", "slice_sizes", "length", "sizes", "new_sizes", "size", "dtype", "new_dtype",
         "minval", "maxval", "dimensions", "num_segments", "total_repeat_length"}
RANKS, SOME = range(9), range(1, 7)


def bound_names(fn: types.FunctionType) -> set[str]:
    """The variables that a function binds, parameters if it does so anew."""
    stores = [i.argval for i in dis.get_instructions(fn) if i.opname.startswith(("STORE_FAST", "STORE_DEREF"))]
    return {name for s in stores for name in ((s,) if isinstance(s, str) else s)}


class Composed(Jit):
    """A function made of operations."""

    _loops = False  # whether it has loops that are worth compiling for few elements too
    _arrays: frozenset = frozenset()  # parameters for which a list of numbers is an array

    def __init__(self, fn: types.FunctionType, **options: Any) -> None:
        signature = vars(fn).setdefault("_first_signature", inspect.signature(fn, follow_wrapped=False))
        self._constant = [p.name for p in signature.parameters.values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and p.annotation != "Any"]
        named = [p.replace(kind=p.POSITIONAL_OR_KEYWORD) if p.kind == p.POSITIONAL_ONLY else p for p in signature.parameters.values()]
        if not any(p.kind == p.VAR_POSITIONAL for p in named) or fn.__name__ in ("cond", "switch"):  # arrays may be given by name too
            vars(fn)["__signature__"] = signature.replace(parameters=named)
        super().__init__(fn, static_argnames=tuple(self._constant), **options)
        self._bound, self._named = bound_names(fn), [*signature.parameters]
        self._interpreted: Any = None

    def __call__(self, *args: Any, **kw: Any) -> Any:
        args = tuple(frozen(plain_constant(a)) if i in self._static else self._of_list(i, a) for i, a in enumerate(args))
        kw = {n: frozen(plain_constant(a)) if n in self._constant else a for n, a in kw.items()}
        if not self._loops and few((*args, *kw.values())):
            if self._interpreted is None:
                self._interpreted = type(self)(self.__wrapped__, backend="interp")
            return super(Composed, self._interpreted).__call__(*args, **kw)
        return super().__call__(*args, **kw)

    def _of_list(self, i: int, a: Any) -> Any:
        """A list or tuple of numbers as an array, where an array is taken."""
        return array_of(a) if isinstance(a, (list, tuple)) and i < len(self._named) and self._named[i] in self._arrays else a

    def _emit_call(self, w: Any, c: Call) -> str:
        statics: dict[str, Any] = {}
        shapes: dict[str, Shape] = {}
        parts = []
        nodes = argument_nodes(w, c, self.__wrapped__)
        called = w.called_with(self.__name__, nodes) if CONTROL.get(self.__name__) is self else {}
        if called:
            w.same_structures(c.node, self.__name__, nodes, called)
        for name, node in nodes.items():
            if name in called and (body := w.body_text(node, called[name])) is not None:
                parts.append(body)
                continue
            known, x = w.static(node)
            if name in self._constant and not known and name not in SIZES:
                w.refuse(node, f"{name} of {self.__name__}() must be known when the function is compiled")
            made = listed_array(w, node) if name in self._arrays else None
            if made is not None:
                parts.append(made)
                continue
            captured = known and name not in self._constant and has_arrays(x)
            if known and not captured and (
                    name in self._constant or x is None or callable(x) or type(x) is int and not 0 <= x < 128 or  # which not all integer types hold
                    isinstance(x, (str, tuple, list, dict)) and not (name in self._bound and numbers_in(x))):
                statics[name] = x
                continue
            s = _like_constant(x) if captured else w.like(node)
            if s is not None and s.kind not in ("leaf", "any"):
                shapes[name] = s
            parts.append(w.expr(node))
        return f"{emit_function(w.b, self.__wrapped__, statics, shapes)}{w.mark(c.node)}({', '.join(parts)})"


class ByValue:
    """A function that is `constant` if one of its arguments, by place and name, is a known value of a type, else `other`."""

    def __init__(self, function: str, constant: Composed, other: Composed, place: int, name: str, kind: Any) -> None:
        self.constant, self._for_arrays, self.place, self.name, self.kind = constant, other, place, name, kind
        functools.update_wrapper(self, constant)
        self.__name__ = self.__qualname__ = function

    def chosen(self, known: bool, x: Any) -> Composed:
        return self.constant if known and isinstance(x, self.kind) else self._for_arrays

    def __call__(self, *args: Any, **kw: Any) -> Any:
        given = self.name in kw or len(args) > self.place
        x = kw[self.name] if self.name in kw else args[self.place] if given else None
        return (self.chosen(True, x) if given else self.constant)(*args, **kw)

    def _emit_call(self, w: Any, c: Call) -> str:
        node = c.kw[self.name] if self.name in c.kw else c.args[self.place] if len(c.args) > self.place else None
        return (self.constant if node is None else self.chosen(*w.static(node)))._emit_call(w, c)


def into(table: dict[str, Any], lists: bool = False) -> Callable:
    """A decorator: the function is one of a table. `lists`: it takes lists of numbers for arrays, as NumPy's do, but for
    parameters that are a Sequence."""
    def add(fn: types.FunctionType) -> Composed:
        name = fn.__name__.rstrip("_")
        table[name] = f = Composed(fn)
        if lists:
            parameters = vars(fn)["_first_signature"].parameters.values()
            f._arrays = frozenset(p.name for p in parameters if p.kind == p.POSITIONAL_ONLY and p.annotation != "Sequence")
        f.__name__ = f.__qualname__ = name
        return f
    return add


composed, controlled, helper = into(COMPOSED, lists=True), into(CONTROL), into(HELPERS)


@Known
def floats(dtype: Any) -> Any:
    """An element type, by default that of floats for which none is given."""
    return default_float() if dtype is None else dtype


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


@Known
def rolled(rank: int, axis: int, start: int) -> tuple:
    """Where rollaxis takes a dim from, and where it goes."""
    source, before = axis + rank * (axis < 0), start + rank * (start < 0)
    return source, before - (before > source)


@composed
def rollaxis(a, /, axis, start=0):
    """One dim moved before another."""
    for rank in RANKS:
        source, place = rolled(rank, axis, start)
        if a.ndim == rank:
            return moveaxis(a, source, place)
    raise ValueError("rollaxis: too many dims")


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
def rot90(m, /, k=1, axes=(0, 1)):
    """Turned by k quarters in the plane of two axes."""
    one, two = axes
    if k % 4 == 0:
        return m
    if k % 4 == 1:
        return op.swapaxes(op.flip(m, two), one, two)
    if k % 4 == 2:
        return op.flip(op.flip(m, one), two)
    return op.flip(op.swapaxes(m, one, two), two)


# ---- putting together, taking apart ----

@composed
def vstack(arrays: Sequence, /):
    """Rows under each other."""
    return op.concatenate([atleast_2d(a) for a in arrays], 0)


@composed
def hstack(arrays: Sequence, /):
    """Arrays beside each other."""
    whole = [atleast_1d(a) for a in arrays]
    if whole[0].ndim == 1:
        return op.concatenate(whole, 0)
    return op.concatenate(whole, 1)


@composed
def dstack(arrays: Sequence, /):
    """Arrays one after the other."""
    return op.concatenate([atleast_3d(a) for a in arrays], 2)


@composed
def column_stack(arrays: Sequence, /):
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
    assert indexing in ("xy", "ij"), "meshgrid: indexing is xy or ij"
    sizes = tuple([op.size(a) for a in arrays])
    grids = [op.broadcast_to(op.reshape(a, along(i, len(arrays))), sizes) for i, a in enumerate(arrays)]
    return tuple([op.swapaxes(g, 0, 1) if indexing == "xy" and len(arrays) > 1 else g for g in grids])


@Known
def along(i: int, n: int) -> tuple:
    """The shape of a vector along one of n dims."""
    return tuple(-1 if k == i else 1 for k in range(n))


@composed
def indices(dimensions, dtype="i64", sparse=False):
    """For each dim, the index along it at each place."""
    assert not sparse, "indices: sparse=True is not there; write ogrid, or arange(n)[:, None]"
    for rank in SOME:
        if len(dimensions) == rank:
            of = op.stack([op.broadcast_to(op.reshape(op.arange(dimensions[i]), along(i, rank)), dimensions) for i in range(rank)])
            return op.cast(of, dtype)
    raise ValueError("indices: too many dims, or none")


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
    return tuple([op.broadcast_like(a, whole) for a in arrays])


@composed
def select(conditions: Sequence, choices: Sequence, default=0, /):
    """The first choice whose condition holds, element by element."""
    result = default
    for c, x in zip(reversed(conditions), reversed(choices)):
        result = op.where(c, x, result)
    return result


# ---- making ----

@composed
def identity(n, dtype=None):
    """The matrix with ones on its diagonal."""
    return op.eye(n, dtype=dtype)


@composed
def empty(shape, dtype=None, device=None):
    """An array of zeros: none is without values."""
    return op.zeros(shape, dtype=dtype, device=device)


@composed
def empty_like(x, /, dtype=None, device=None):
    """Zeros in the shape of another array."""
    return op.zeros_like(x, dtype=dtype, device=device)


@composed
def tri(N, M=None, k=0, dtype=None):  # noqa: N803: NumPy's names
    """Ones at and below a diagonal."""
    return op.tril(op.ones((N, N if M is None else M), dtype=dtype), k)


@helper
def reshape_by_columns(x, /, shape):
    """Elements read and written with the first index as the fastest."""
    dims = tuple(shape) if has_parts(shape) else (shape,)
    return op.transpose(op.reshape(op.transpose(x), dims[::-1]))


@helper
def flatten_by_columns(x, /):
    return op.reshape(op.transpose(x), (-1,))


@composed
def logspace(start, stop, num=50, endpoint=True, base=10.0):
    """Powers whose exponents are evenly spaced."""
    return base ** op.linspace(start, stop, num, endpoint)


@composed
def geomspace(start, stop, num=50, endpoint=True):
    """Numbers of which each is the same multiple of the one before."""
    return op.exp(op.linspace(logarithm(start), logarithm(stop), num, endpoint))


@Known
def logarithm(x: float) -> float:
    """Of a constant."""
    return math.log(x)


# ---- products ----

@composed
def dot(a, b, /, preferred_element_type=None):
    """The product of matrices and vectors; of more dims the sum over the last of a and the last but one of b."""
    if preferred_element_type is not None:
        return dot(op.cast(a, preferred_element_type), op.cast(b, preferred_element_type))
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
    """Each element of an array times another array, next to one another along each dim."""
    for rank in RANKS:
        if op.ndim(a) == rank:
            for other in RANKS:
                if op.ndim(b) == other:
                    return kron_of(a, b, rank, other)
    raise ValueError(f"kron is of arrays of up to {len(RANKS) - 1} dims")


@helper
def kron_of(a, b, /, rank, other):
    if max(rank, other) == 0:
        return a * b
    for _ in range(max(other - rank, 0)):
        a = op.expand_dims(a, 0)
    for _ in range(max(rank - other, 0)):
        b = op.expand_dims(b, 0)
    dims = [p * q for p, q in zip(a.shape, b.shape)]
    for k in range(max(rank, other)):
        a, b = op.expand_dims(a, 2 * k + 1), op.expand_dims(b, 2 * k)
    return op.reshape(a * b, tuple(dims))


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
    """A vector under another that is no longer, at all places that the mode names."""
    n = v.shape[0]
    if mode == "full":
        a = op.pad(a, (n - 1, n - 1))
    elif mode == "same":
        a = op.pad(a, (n // 2, n - 1 - n // 2))
    else:
        assert mode == "valid", "convolve and correlate: mode is full, same or valid"
    return op.conv1d(a[None, None, :], v[None, None, :])[0, 0]


@composed
def convolve(a, v, /, mode="full"):
    """The convolution of two vectors."""
    if v.shape[0] > a.shape[0]:
        return slid(v, op.flip(a, 0), mode)
    return slid(a, op.flip(v, 0), mode)


@composed
def correlate(a, v, /, mode="valid"):
    """The correlation of two vectors."""
    if v.shape[0] > a.shape[0]:
        return op.flip(slid(v, a, mode), 0)
    return slid(a, v, mode)


@helper
def rows_stacked(x, /, axis=0):
    """stack of the rows of an array."""
    return moveaxis(x, 0, axis)


@helper
def rows_joined(x, /, axis=0):
    """concatenate of the rows of an array."""
    if axis is None:
        return op.ravel(x)
    for rank in SOME:
        if x.ndim == rank:
            k = axis if axis >= 0 else axis + rank - 1
            rows = moveaxis(x, 0, k)
            return op.reshape(rows, tuple(rows.shape[:k]) + (rows.shape[k] * rows.shape[k + 1],) + tuple(rows.shape[k + 2:]))
    raise ValueError("concatenate: arrays of no dims cannot be joined")


@composed
def size(a, /, axis=None):
    """The number of elements, or of those along an axis."""
    if axis is None:
        return op.size(a)
    if isinstance(axis, tuple):
        n = 1
        for i in axis:
            n = n * a.shape[i]
        return n
    return a.shape[axis]


# ---- linear algebra ----

@composed
def trace(a, /, offset=0, axis1=0, axis2=1, dtype=None, out=None):
    """The sum of the diagonal."""
    return op.sum(diagonal(a, offset, axis1, axis2), -1, dtype=dtype, out=out)


@composed
def diagonal(a, /, offset=0, axis1=0, axis2=1):
    """The elements of the diagonal of two dims, along a last one."""
    if axis1 != 0 or axis2 != 1:
        return diagonal(moveaxis(a, (axis1, axis2), (0, 1)), offset)
    if a.ndim == 2:
        return op.diag(a, k=offset)
    n = min(a.shape[0] - max(-offset, 0), a.shape[1] - max(offset, 0))
    i = op.arange(n)
    return moveaxis(a[i + max(-offset, 0), i + max(offset, 0)], 0, -1)


def solve_complex(a, b):
    """As real numbers: [re -im; im re] of a times [re; im] of x."""
    n = a.shape[-1]
    re, im = op.real(a), op.imag(a)
    rows = [op.concatenate([re, -im], axis=-1), op.concatenate([im, re], axis=-1)]
    parts = op.concatenate([op.real(b) + op.zeros_like(re[..., :1]), op.imag(b) + op.zeros_like(re[..., :1])], axis=-2)
    x = op.solve(op.concatenate(rows, axis=-2), parts)
    return op.make_complex(x[..., :n, :], x[..., n:, :])


@composed
def solve(a, b, /):
    """x of a x = b; b is a vector or a matrix."""
    for kind in KINDS[-1]:
        for x in (a, b):
            if x.dtype == kind:
                return solve_complex(a, b[:, None])[:, 0] if b.ndim == 1 else solve_complex(a, b)
    return op.solve(a, b[:, None])[:, 0] if b.ndim == 1 else op.solve(a, b)


@composed
def inv(a, /):
    """The inverse of a matrix."""
    for kind in KINDS[-1]:
        if a.dtype == kind:
            return solve_complex(a, op.cast_like(op.eye(a.shape[-1]), a) + op.zeros_like(a))
    return op.inverse(a)


@composed
def matrix_power(a, /, n):
    """A matrix times itself."""
    if n < 0:
        return matrix_power(inv(a), -n)
    if n == 0:
        return op.cast_like(op.eye(a.shape[-1]), a) + op.zeros_like(a)
    half = a if n < 2 else matrix_power(a, n // 2)
    if n == 1:
        return a
    return half @ half if n % 2 == 0 else half @ half @ a


@composed
def multi_dot(arrays: Sequence, /):
    """The product of several matrices."""
    result = arrays[0]
    for a in arrays[1:]:
        result = result @ a
    return result


# ---- statistics ----

def with_dims(y, a, q, axis):
    """Of dims that a quantile took, each of size 1."""
    if axis is None:
        for rank in RANKS:
            if a.ndim == rank:
                return op.reshape(y, q.shape + (1,) * rank)
    return op.expand_dims(y, axis + q.ndim if axis >= 0 else axis)


def between(below, above, at, method):
    """The value at a place between two neighbours."""
    part = op.cast_like(at - op.floor(at), below)
    assert method in ("linear", "lower", "higher", "midpoint", "nearest"), \
        "quantile: method is linear, lower, higher, midpoint or nearest"
    if method == "lower":
        return below
    if method == "higher":
        return above
    if method == "midpoint":
        return op.where(part == 0, below, (below + above) / 2)
    if method == "nearest":
        return op.where(op.rint(at) == op.floor(at), below, above)
    step = above - below  # of infinities it is no number
    return op.where(op.logical_or(part == 0, below == above), below,
                    op.where(op.isfinite(step), below + step * part, below * (1 - part) + above * part))


@composed
def quantile(a, q, /, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False):
    """The value below which the part q of the elements lies, between two of them if need be; of several q along dim 0."""
    assert out is None, "quantile() makes a new array: out cannot be given"
    q = asarray(q)
    flat = op.sort(op.ravel(a) if axis is None else moveaxis(a, axis, -1), axis=-1) * 1.0
    if flat.shape[-1] == 0:  # there is none
        flat = op.broadcast_to(op.cast_like(math.nan, flat), tuple(flat.shape[:-1]) + (1,))
    at = q * (flat.shape[-1] - 1)
    low = op.cast(op.floor(at), "i64")
    high = op.cast(op.ceil(at), "i64")
    below, above = op.take(flat, low, axis=-1), op.take(flat, high, axis=-1)
    last = flat[..., -1:] if q.ndim == 1 else flat[..., -1]  # NaN comes last, and makes the result NaN
    y = op.where(op.isnan(last), last, between(below, above, at, method))
    if q.ndim == 1:
        y = moveaxis(y, -1, 0)
    return with_dims(y, a, q, axis) if keepdims else y


@composed
def percentile(a, q, /, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False):
    """quantile with q in hundredths."""
    return quantile(a, asarray(q) / 100.0, axis, out, overwrite_input, method, keepdims)


@composed
def median(a, /, axis=None, out=None, overwrite_input=False, keepdims=False):
    """The middle value."""
    return quantile(a, 0.5, axis, out, overwrite_input, "linear", keepdims)


@composed
def ptp(a, /, axis=None, out=None, keepdims=False):
    """The largest less the smallest."""
    return op.max(a, axis, out=out, keepdims=keepdims) - op.min(a, axis, keepdims=keepdims)


@composed
def average(a, /, axis=None, weights: Any = None, returned=False, keepdims=False):
    """The mean, weighted if weights are given: as many as elements, or as along the axes. `returned`: (the mean, the sum of weights)."""
    w = op.ones_like(a * 1.0) if weights is None else weights_of(a, asarray(weights) * 1.0, axis)  # products of integers would wrap
    total = op.sum(w + op.zeros_like(a), axis, keepdims)
    y = op.mean(a, axis, keepdims) if weights is None else op.sum(a * w, axis, keepdims) / total
    return (y, total + op.zeros_like(y)) if returned else y


@Known
def beside(rank: int, axis: Any) -> tuple | None:
    """For dims that go with some axes: their order as dims of the whole, and the dims that are missing. None if there are no such axes."""
    axes = axis if isinstance(axis, tuple) else (axis,)
    if any(not -rank <= d < rank for d in axes):
        return None
    axes = [d % rank for d in axes]
    return tuple(sorted(range(len(axes)), key=axes.__getitem__)), tuple(d for d in range(rank) if d not in axes)


@helper
def weights_of(a, w, /, axis):
    """The weights of average with the dims of a."""
    if w.shape == a.shape:
        return w
    if axis is None:
        raise TypeError("average: shapes of a and weights differ, and no axis is given")
    for rank in RANKS:
        at = beside(rank, axis)
        if a.ndim == rank:
            if at is None:
                raise ValueError("average: there is no such dim")
            order, missing = at
            if w.ndim == len(order):
                if not all([w.shape[i] == a.shape[axis[i] if isinstance(axis, tuple) else axis] for i in range(len(order))]):
                    raise ValueError("average: weights are as many as elements along the axes")
                return op.expand_dims(op.transpose(w, order), missing)
            raise ValueError("average: weights are as many as elements, or as along the axes")
    raise ValueError("average: too many dims")


@composed
def isin(a, test, /, assume_unique=False, invert=False):
    """Whether each element is one of the others."""
    found = op.any(op.expand_dims(a, -1) == op.ravel(asarray(test)), -1)
    return op.logical_not(found) if invert else found


@composed
def digitize(x, bins, /, right=False):
    """The number of the bin of each element. The bins rise or fall."""
    if bins.shape[0] < 2:
        return op.searchsorted(bins, x, side="left" if right else "right")
    falls = bins[0] > bins[-1]
    found = op.searchsorted(op.where(falls, op.flip(bins, 0), bins), x, side="left" if right else "right")
    return op.where(falls, bins.shape[0] - found, found)


@composed
def trapezoid(y, x=None, /, dx=1.0, axis=-1):
    """The area under a curve."""
    y = moveaxis(y, axis, -1)
    middle = (y[..., 1:] + y[..., :-1]) / 2
    if x is None:
        return op.sum(middle * dx, -1)
    if x.ndim == 1:
        return op.sum(middle * (x[1:] - x[:-1]), -1)
    at = moveaxis(x, axis, -1)
    return op.sum(middle * (at[..., 1:] - at[..., :-1]), -1)


def as_floats(x):
    """Integers as floats; complex numbers stay, whose product with 1.0 has NaN for infinities."""
    for kind in ("complex64", "complex128"):
        if x.dtype == kind:
            return x
    return x * 1.0


def not_complex(x):
    """The numbers, which must be real."""
    for kind in ("complex64", "complex128"):
        assert x.dtype != kind, "this is not defined for complex numbers"
    return x


def not_narrow(x):
    """Integers of 64 bits for narrower ones, whose powers would wrap."""
    for kind in ("bool", "int8", "int16", "int32", "uint8", "uint16", "uint32"):
        if x.dtype == kind:
            return op.cast(x, "int64")
    return x


@composed
def polyval(p: Sequence, x, /):
    """A polynomial, the highest power first."""
    x = not_narrow(x)
    result = op.zeros_like(x)
    for c in p:
        result = result * x + c
    return result


@composed
def unravel_index(i, /, shape):
    """The index in each dim of a flat index."""
    found, i = [], not_narrow(i)
    for d in reversed(shape):
        found.append(i % d)
        i = i // d
    return tuple(reversed(found))


# ---- element by element ----

@composed
def isclose(a, b, /, rtol=1e-5, atol=1e-8, equal_nan=False):
    """Whether elements are nearly the same."""
    a, b = as_floats(a), as_floats(b)  # differences of integers would wrap
    near = op.logical_and(op.isfinite(b), op.abs(a - b) <= atol + rtol * op.abs(b))
    same = op.logical_or(a == b, near)
    return op.logical_or(same, op.logical_and(op.isnan(a), op.isnan(b))) if equal_nan else same


@composed
def allclose(a, b, /, rtol=1e-5, atol=1e-8, equal_nan=False):
    """Whether all elements are nearly the same."""
    return op.all(isclose(a, b, rtol, atol, equal_nan))


@composed
def array_equal(a, b, /, equal_nan=False):
    """Whether all elements are the same, and the shapes are."""
    if op.shape(a) != op.shape(b):
        return op.any(op.zeros((1,), dtype="bool"))
    return op.all(op.logical_or(a == b, op.logical_and(a != a, b != b))) if equal_nan else op.all(a == b)


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
    """Powers in f64, of complex numbers in c128."""
    for kind in KINDS[-1]:
        for x in (a, b):
            if x.dtype == kind:
                return op.cast(a, "complex128") ** op.cast(b, "complex128")
    return op.cast(a, "float64") ** op.cast(b, "float64")


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
    z = as_floats(z)
    turn = op.arctan2(op.imag(z), op.real(z))
    return turn * (180 / math.pi) if deg else turn


@composed
def positive(a, /):
    """The array as it is."""
    return asarray(a)


@composed
def nan_to_num(x, /, copy=True, nan=0.0, posinf=None, neginf=None):
    """Numbers in place of NaN and infinities: the largest ones if no others are given."""
    for kind in ("complex64", "complex128"):
        if x.dtype == kind:
            return op.make_complex(nan_to_num(op.real(x), copy, nan, posinf, neginf), nan_to_num(op.imag(x), copy, nan, posinf, neginf))
    for kind in ("float16", "bfloat16", "float32", "float64"):
        if x.dtype == kind:
            return only_numbers(x, nan, posinf, neginf)
    return x


def only_numbers(x, nan, posinf, neginf):
    """nan_to_num of floats."""
    high = limit(x, "max") if posinf is None else posinf
    low = limit(x, "min") if neginf is None else neginf
    return op.where(op.isnan(x), nan, op.where(x == math.inf, high, op.where(x == -math.inf, low, x)))


def limit(x, name):
    """What finfo(x.dtype) tells: eps, max, min, tiny."""
    found = op.cast_like(1.0, x)
    for most, eps, tiny in ((65504.0, 2.0 ** -10, 2.0 ** -14), (3.3895313892515355e38, 2.0 ** -7, 2.0 ** -126),
                            (3.4028234663852886e38, 2.0 ** -23, 2.0 ** -126), (1.7976931348623157e308, 2.0 ** -52, 2.0 ** -1022)):
        number = eps if name == "eps" else most if name == "max" else -most if name == "min" else tiny
        found = op.where(op.isfinite(op.cast_like(most, x)), op.cast_like(number, x), found)
    return found


@helper
def limit_of(x, /, name):
    """An entry of finfo(x.dtype)."""
    return limit(x, name)


def widened(mask, x):
    """A mask of the first dims of x, for all."""
    return mask if op.ndim(mask) >= op.ndim(x) else widened(mask[..., None], x)


KINDS = (("bool",), ("uint8", "uint16", "uint32", "uint64"), ("int8", "int16", "int32", "int64"),
         ("bfloat16", "float16", "float32", "float64"), ("complex64", "complex128"))


@helper
def element_kind(x, /):
    """The kind of elements, of which a greater one has values that a smaller one has not."""
    for k, names in enumerate(KINDS):
        for name in names:
            if x.dtype == name:
                return k
    return len(KINDS)


@helper
def item(x, /):
    """x.item(): a number of Python of the kind of x."""
    for name in KINDS[3]:
        if x.dtype == name:
            return float(x)
    for name in KINDS[1] + KINDS[2]:
        if x.dtype == name:
            return int(x)
    return op.reshape(x, ())


@helper
def gamma(x, /):
    """The gamma function."""
    sign = op.where(op.logical_and(x < 0, op.mod(op.floor(x), 2) != 0), -1.0, 1.0)
    return op.exp(op.lgamma(x)) * sign


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
