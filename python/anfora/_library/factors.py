# SPDX-License-Identifier: Apache-2.0
"""Factors and triangular systems by the names of jax.lax.linalg; dims before the last two are a batch."""
from __future__ import annotations

from typing import Any

from .._ops import op
from .composed import into
from .decompositions import qr as qr_, svd as svd_
from .matrices import adjoint, lu_factor, mirrored

FACTORS: dict[str, Any] = {}
factor = into(FACTORS)


@factor
def cholesky(x, /, symmetrize_input=True):
    """The lower Cholesky factor; without symmetrize_input only the lower triangle is read."""
    return op.cholesky((x + adjoint(x)) / 2 if symmetrize_input else mirrored(x, True))


@factor
def triangular_solve(a, b, /, left_side=False, lower=False, transpose_a=False, conjugate_a=False, unit_diagonal=False):
    """x of x a = b, or of a x = b with left_side; only the triangle that `lower` names is read. The flags hold of a."""
    m = op.conj(a) if conjugate_a else a
    if left_side:
        return op.triangular_solve(m, b, lower=lower, transpose=transpose_a, unit=unit_diagonal)
    x = op.triangular_solve(m, op.swapaxes(b, -1, -2), lower=lower, transpose=not transpose_a, unit=unit_diagonal)
    return op.swapaxes(x, -1, -2)


@factor
def qr(x, /, pivoting=False, full_matrices=True):
    """Q and R, of which Q R is x; Q is square with full_matrices."""
    assert not pivoting, "qr: columns are not pivoted here"
    return qr_(x, mode="complete" if full_matrices else "reduced")


@factor
def svd(x, /, full_matrices=True, compute_uv=True):
    """U, the singular values and V^T; the values alone without compute_uv."""
    return svd_(x, full_matrices=full_matrices, compute_uv=compute_uv)


@factor
def eigh(x, /, lower=True, symmetrize_input=True, sort_eigenvalues=True):
    """(eigenvectors, eigenvalues), the least first."""
    w, v = op.eigh((x * 1.0 + op.swapaxes(x, -1, -2)) / 2 if symmetrize_input else mirrored(x * 1.0, lower))
    return v, w


@factor
def lu(x, /):
    """(L below the diagonal and U, the row that each row was exchanged with, the order of the rows)."""
    m, pivots = lu_factor(x)
    rows, order = x.shape[-2], op.zeros_like(op.cast(x[..., 0], "i32")) + op.arange(x.shape[-2], dtype="i32")
    n = pivots.shape[-1]
    at = op.arange(rows, dtype="i32")
    for k in range(n):
        p = pivots[..., k][..., None]
        swap = op.where(at == k, p, op.where(at == p, k, at))
        order = op.take_along_axis(order, op.cast(swap, "i64"), -1)
    return m, pivots, order
