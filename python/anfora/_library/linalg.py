# SPDX-License-Identifier: Apache-2.0
"""Functions of linalg that need decompositions, or differ from those of the same name outside of linalg: these take the last two
dims as matrices. Written as the functions of _composed.py are."""
from __future__ import annotations

import math
from typing import Any

from .._ops import op
from .composed import COMPOSED, composed, into, moveaxis
from .decompositions import pinv as any_pinv, qr, svdvals

TABLE: dict[str, Any] = {}
linear = into(TABLE, lists=True)
SMALL = 8  # the determinant of matrices up to this size neither overflows nor vanishes once they are scaled


@linear
def matrix_transpose(x, /):
    """Rows as columns, of each matrix."""
    return op.swapaxes(x, -1, -2)


@linear
def outer(x1, x2, /):
    """The products of each element of a vector with each of another."""
    if op.ndim(x1) != 1 or op.ndim(x2) != 1:
        raise ValueError("linalg.outer() is of vectors; numpy.outer() takes all elements")
    return COMPOSED["outer"](x1, x2)


@linear
def vecdot(x1, x2, /, axis=-1):
    """The sum of products along a dim, the first conjugated."""
    products = op.conj(x1) * x2
    return op.cast_like(op.sum(products, axis), products)


@linear
def cross(x1, x2, /, *, axis=-1):
    """The vectors that stand on two others in space, along one axis."""
    return cross_product(x1, x2, axis, axis, axis)


@composed
def cross_product(x1, x2, /, axisa=-1, axisb=-1, axisc=-1, axis=None):
    """The vectors that stand on two others in space; each array has an axis of its own."""
    if axis is not None:
        return cross_product(x1, x2, axis, axis, axis)
    a = moveaxis(x1, axisa, -1) if op.ndim(x1) > 1 else x1
    b = moveaxis(x2, axisb, -1) if op.ndim(x2) > 1 else x2
    if a.shape[-1] != 3 or b.shape[-1] != 3:
        raise ValueError(f"cross() is of vectors of 3 elements, and these have {a.shape[-1]} and {b.shape[-1]}")
    x, y = (a[..., 0], a[..., 1], a[..., 2]), (b[..., 0], b[..., 1], b[..., 2])
    found = op.stack([x[1] * y[2] - x[2] * y[1], x[2] * y[0] - x[0] * y[2], x[0] * y[1] - x[1] * y[0]], -1)
    return moveaxis(found, -1, axisc) if op.ndim(found) > 1 else found


@linear
def diagonal(x, /, offset=0):
    """The elements of the diagonal of each matrix."""
    rows, columns = x.shape[-2], x.shape[-1]
    n = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    i = op.arange(n)
    return x[..., i + max(-offset, 0), i + max(offset, 0)]


@linear
def trace(x, /, offset=0, dtype=None):
    """The sum of the diagonal of each matrix."""
    d = diagonal(x, offset)
    return op.sum(d, -1) if dtype is None else op.sum(op.cast(d, dtype), -1)


@linear
def cholesky(x, /, upper=False):
    """The triangular factor of a symmetric, positive definite matrix."""
    l = op.cholesky(x)  # noqa: E741
    return op.conj(op.swapaxes(l, -1, -2)) if upper else l


@linear
def vector_norm(x, /, axis=None, keepdims=False, ord=2):
    """The norm of vectors along one dim or several: of order 2, 1, inf, -inf, 0 or another number."""
    size = op.abs(x) * 1.0
    if ord == 2:
        return op.sqrt(op.sum(size * size, axis, keepdims=keepdims))
    if ord == math.inf:
        return op.max(size, axis, keepdims=keepdims)
    if ord == -math.inf:
        return op.min(size, axis, keepdims=keepdims)
    if ord == 1:
        return op.sum(size, axis, keepdims=keepdims)
    if ord == 0:
        return op.sum(op.cast_like(size != 0, size), axis, keepdims=keepdims)
    return op.sum(size ** ord, axis, keepdims=keepdims) ** (1.0 / ord)


@linear
def matrix_norm(x, /, keepdims=False, ord="fro"):
    """The norm of each matrix: "fro", "nuc", 2 or -2 (of singular values), 1, -1, inf or -inf (of sums of columns or rows)."""
    size = op.abs(x) * 1.0
    if ord == "fro" or ord is None:
        return op.sqrt(op.sum(size * size, (-2, -1), keepdims=keepdims))
    if ord == "nuc" or ord == 2 or ord == -2:
        s = svdvals(x * 1.0)
        found = op.sum(s, -1) if ord == "nuc" else op.max(s, -1) if ord == 2 else op.min(s, -1)
        return found[..., None, None] if keepdims else found
    if ord == 1 or ord == -1:
        sums = op.sum(size, -2, keepdims=True)
        found = op.max(sums, -1, keepdims=True) if ord == 1 else op.min(sums, -1, keepdims=True)
        return found if keepdims else found[..., 0, 0]
    assert ord == math.inf or ord == -math.inf, "matrix_norm: ord is \"fro\", \"nuc\", 1, -1, 2, -2, inf or -inf"
    sums = op.sum(size, -1, keepdims=True)
    found = op.max(sums, -2, keepdims=True) if ord == math.inf else op.min(sums, -2, keepdims=True)
    return found if keepdims else found[..., 0, 0]


@linear
def norm(x, /, ord=None, axis=None, keepdims=False):
    """The norm of vectors along an axis, or of matrices along two: as vector_norm and matrix_norm. Without ord and axis that of all
    elements."""
    if axis is None and (ord is None or op.ndim(x) == 1):
        return vector_norm(x, None, keepdims, 2 if ord is None else ord)
    if isinstance(axis, int) or isinstance(axis, (tuple, list)) and len(axis) == 1:
        return vector_norm(x, axis, keepdims, 2 if ord is None else ord)
    if axis is None:
        return matrix_norm(x, keepdims, ord)
    found = matrix_norm(moveaxis(x, axis, (-2, -1)), keepdims, ord)
    return moveaxis(found, (-2, -1), axis) if keepdims else found


@linear
def cond(x, /, p=None):
    """The condition number: the norm of a matrix times that of its inverse; by default the greatest singular value over the least."""
    if p is None or p == 2 or p == -2:
        s = svdvals(x * 1.0)
        return without_inverse(x, op.max(s, -1) / op.min(s, -1)) if p != -2 else op.min(s, -1) / op.max(s, -1)
    return without_inverse(x, matrix_norm(x, False, p) * matrix_norm(COMPOSED["inv"](x), False, p))


def without_inverse(x, found):
    """The condition number of matrices of numbers that have no inverse is infinite."""
    return op.where(op.logical_and(op.isnan(found), op.logical_not(op.any(op.isnan(x), (-2, -1)))), op.cast_like(math.inf, found), found)


@linear
def pinv(x, /, rtol=None, *, rcond=None):
    """The pseudo-inverse: singular values below rtol times the largest one count as 0."""
    least = rcond if rtol is None else rtol
    return any_pinv(x) if least is None else any_pinv(x, least)


@linear
def slogdet(x, /):
    """The sign of the determinant, and the logarithm of its size, which neither overflows nor vanishes."""
    if x.shape[-1] <= SMALL:
        top = op.max(op.abs(x), (-2, -1), keepdims=True)
        by = op.where(op.logical_and(top > 0, op.isfinite(top)), top, op.cast_like(1, top))
        d = op.det(x / by)
        return op.sign(d), op.log(op.abs(d)) + x.shape[-1] * op.log(by[..., 0, 0])
    q, r = qr(x)
    d = diagonal(r)
    return op.rint(op.det(q)) * op.prod(op.sign(d), -1), op.sum(op.log(op.abs(d)), -1)


@linear
def tensorsolve(a, b, /):
    """x of tensordot(a, x, x.ndim) = b."""
    n = op.size(b)
    return op.reshape(op.solve(op.reshape(a, (n, n)), op.ravel(b)[:, None]), tuple(a.shape[op.ndim(b):]))


@linear
def tensorinv(a, /, ind=2):
    """The inverse of tensordot(a, x, ind)."""
    n = 1
    for k in range(ind):
        n = n * a.shape[k]
    return op.reshape(op.inverse(op.reshape(a, (n, -1))), tuple(a.shape[ind:]) + tuple(a.shape[:ind]))


COMPOSED.update({name: TABLE[name] for name in ("norm", "slogdet", "matrix_transpose", "vecdot")})
COMPOSED["cross"] = COMPOSED.pop("cross_product")
