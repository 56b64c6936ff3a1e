# SPDX-License-Identifier: Apache-2.0
"""Matrices by the names of jax.scipy.linalg: systems of equations, factors, functions and special matrices. Written as the
functions of composed.py are."""
from __future__ import annotations

import math
from typing import Any, Sequence

from .._ops import COMPOSED, op
from .._transform import vmap
from .composed import into
from .decompositions import eigh as eigh_, expm, qr as qr_, svd as svd_

MATRICES: dict[str, Any] = {}
matrix = into(MATRICES, lists=True)


# ---- systems of equations ----

def columns(b):
    """Vectors as matrices of one column."""
    return b[:, None] if op.ndim(b) == 1 else b


def adjoint(a):
    """Transposed and conjugated."""
    return op.conj(op.swapaxes(a, -1, -2))


@matrix
def solve(a, b, /, lower=False, overwrite_a=False, overwrite_b=False, debug=False, check_finite=True, assume_a="gen"):
    """x of a x = b; assume_a is "gen", "sym", "her" or "pos", of which only the triangle that `lower` names is read."""
    m = columns(b)
    if assume_a == "pos":
        x = cho_solve(cho_factor(a, lower), m)
    elif assume_a == "gen":
        x = op.solve(a, m)
    else:
        assert assume_a == "sym" or assume_a == "her", "solve: assume_a is gen, sym, her or pos"
        half = op.tril(a, -1) if lower else op.triu(a, 1)
        other = op.swapaxes(half, -1, -2) if assume_a == "sym" else adjoint(half)
        x = op.solve(op.tril(op.triu(a)) + half + other, m)
    return x[..., 0] if op.ndim(b) == 1 else x


@matrix
def solve_triangular(a, b, /, trans=0, lower=False, unit_diagonal=False, overwrite_b=False, debug=None, check_finite=True):
    """x of a x = b for a triangular a; trans=1 or "T" solves with a transposed, trans=2 or "C" conjugated too."""
    m = columns(b)
    assert trans in (0, 1, 2, "N", "T", "C"), "solve_triangular: trans is 0, 1, 2, N, T or C"
    whole = op.conj(a) if trans in (2, "C") else a
    x = op.triangular_solve(whole, m, lower=lower, transpose=trans in (1, 2, "T", "C"), unit=unit_diagonal)
    return x[..., 0] if op.ndim(b) == 1 else x


@matrix
def cholesky(a, /, lower=False, overwrite_a=False, check_finite=True):
    """The Cholesky factor, by default the upper one; only that triangle is read."""
    c = op.cholesky(mirrored(a, lower))
    return c if lower else adjoint(c)


def mirrored(a, lower):
    """The symmetric matrix of one triangle."""
    half = op.tril(a, -1) if lower else op.triu(a, 1)
    return op.tril(op.triu(a)) + half + adjoint(half)


@matrix
def cho_factor(a, /, lower=False, overwrite_a=False, check_finite=True):
    """(the Cholesky factor, lower), as cho_solve takes it."""
    return cholesky(a, lower), lower


@matrix
def cho_solve(c_and_lower: Sequence, b, /, overwrite_b=False, check_finite=True):
    """x of a x = b, from the Cholesky factor (c, lower) of a."""
    c, lower = c_and_lower
    m = columns(b)
    if lower:
        x = op.triangular_solve(op.conj(c), op.triangular_solve(c, m), transpose=True)
    else:
        l = adjoint(c)  # noqa: E741
        x = op.triangular_solve(op.conj(l), op.triangular_solve(l, m), transpose=True)
    return x[..., 0] if op.ndim(b) == 1 else x


# ---- factors ----

@matrix
def lu(a, /, permute_l=False, overwrite_a=False, check_finite=True):
    """(P, L, U) with a = P L U; (P L, U) if permute_l."""
    if op.ndim(a) > 2:
        return vmap(lambda part: lu(part, permute_l))(a)
    m, _, order = op.lu(a * 1.0)
    k = min(a.shape[0], a.shape[1])
    l = op.tril(m[:, :k], -1) + op.cast_like(op.eye(a.shape[0], k), m)  # noqa: E741
    p = op.cast_like(op.arange(a.shape[0])[:, None] == order[None, :], m)
    u = op.triu(m[:k, :])
    if permute_l:
        return p @ l, u
    return p, l, u


@matrix
def lu_factor(a, /, overwrite_a=False, check_finite=True):
    """(the multipliers below and U at and above the diagonal, the row that each row was exchanged with), as lu_solve takes them."""
    if op.ndim(a) > 2:
        return vmap(lambda part: lu_factor(part))(a)
    m, pivots, _ = op.lu(a * 1.0)
    return m, op.cast(pivots, "i32")


@matrix
def lu_solve(lu_and_piv: Sequence, b, /, trans=0, overwrite_b=False, check_finite=True):
    """x of a x = b, from lu_factor(a); trans=1 solves with a transposed, trans=2 conjugated too."""
    m, pivots = lu_and_piv
    assert op.ndim(m) == 2, "lu_solve: the factors are of one matrix; vmap(lu_solve) takes more"
    n = m.shape[0]
    at = op.arange(n)
    order = at
    for k in range(n):
        p = op.cast(op.take(pivots, k, 0), "i64")
        order = op.take(order, op.where(at == k, p, op.where(at == p, k, at)), 0)
    right = columns(b) * 1.0
    assert trans in (0, 1, 2), "lu_solve: trans is 0, 1 or 2"
    if trans == 0:
        y = op.triangular_solve(m, op.take(right, order, 0), lower=True, unit=True)
        x = op.triangular_solve(m, y, lower=False)
    else:
        w = op.conj(m) if trans == 2 else m
        y = op.triangular_solve(w, right, lower=False, transpose=True)
        x = op.take(op.triangular_solve(w, y, lower=True, transpose=True, unit=True), op.argsort(order), 0)
    return x[..., 0] if op.ndim(b) == 1 else x


@matrix
def qr(a, /, overwrite_a=False, lwork=None, mode="full", pivoting=False, check_finite=True):
    """(Q, R): mode "full" with Q square, "economic", or "r" for R alone."""
    assert not pivoting, "qr: pivoting is False"
    assert mode in ("full", "economic", "r"), "qr: mode is full, economic or r"
    if mode == "r":
        return (qr_(a, "complete")[1],)
    q, r = qr_(a, "reduced" if mode == "economic" else "complete")
    return q, r


@matrix
def svd(a, /, full_matrices=True, compute_uv=True, overwrite_a=False, check_finite=True):
    """(u, s, vh), or s alone."""
    return svd_(a, full_matrices, compute_uv)


@matrix
def eigh(a, b=None, /, lower=True, eigvals_only=False, overwrite_a=False, overwrite_b=False, turbo=True, check_finite=True, type=1):  # noqa: A002
    """(eigenvalues, eigenvectors) of a symmetric matrix; of a x = w b x with a positive definite b."""
    assert type == 1, "eigh: type is 1"
    whole = mirrored(a, lower)
    if b is None:
        w, v = eigh_(whole)
        return w if eigvals_only else (w, v)
    l = op.cholesky(mirrored(b, lower))  # noqa: E741
    half = op.triangular_solve(l, whole)
    w, v = eigh_(op.triangular_solve(l, op.swapaxes(half, -1, -2)))
    return w if eigvals_only else (w, op.triangular_solve(l, v, transpose=True))


@matrix
def polar(a, /, side="right", method="qdwh", eps=None, max_iterations=None):
    """(U, P) with a = U P and U unitary; with side="left" a = P U."""
    assert side in ("right", "left"), "polar: side is right or left"
    u, s, vh = svd_(a, False, True)
    unitary = u @ vh
    return (unitary, (u * s[..., None, :]) @ adjoint(u)) if side == "left" else (unitary, adjoint(vh) @ (s[..., :, None] * vh))


@matrix
def expm_(a, /, upper_triangular=False, max_squarings=16):
    """The exponential of a matrix."""
    return expm(a)


@matrix
def expm_frechet(a, e, /, method=None, compute_expm=True):
    """(exp(a), its derivative in the direction e), the derivative alone without compute_expm."""
    n = a.shape[-1]
    top, below = op.concatenate((a, e), -1), op.concatenate((op.zeros_like(a), a), -1)
    y = expm(op.concatenate((top, below), -2))
    return (y[..., :n, :n], y[..., :n, n:]) if compute_expm else y[..., :n, n:]


# ---- special matrices ----

@matrix
def block_diag(*arrs):
    """Matrices along the diagonal."""
    y = COMPOSED["atleast_2d"](arrs[0])
    for a in arrs[1:]:
        m = COMPOSED["atleast_2d"](a)
        y = op.pad(y, (0, m.shape[0], 0, m.shape[1])) + op.pad(op.cast_like(m, m), (y.shape[0], 0, y.shape[1], 0))
    return y


def by_place(c, r, back):
    """The matrix whose element at (i, j) is number i - j (or i + j) of c, and of r beyond the first row or column."""
    rows, columns = c.shape[-1], r.shape[-1]
    i, j = op.arange(rows)[:, None], op.arange(columns)[None, :]
    k = i + j if back else i - j
    whole = op.concatenate((op.flip(r[..., 1:], -1), c), -1) if not back else op.concatenate((c, r[..., 1:]), -1)
    return op.take(whole, k if back else k + columns - 1, -1)


@matrix
def toeplitz(c, r=None, /):
    """The matrix of constant diagonals with this first column and first row; of rows of them a matrix each."""
    column = COMPOSED["atleast_1d"](c)
    row = op.conj(column) if r is None else COMPOSED["atleast_1d"](r)
    if op.ndim(column) > 1:
        if op.ndim(row) > 1:
            return vmap(toeplitz)(column, row)
        return vmap(lambda part: toeplitz(part, row))(column)
    if op.ndim(row) > 1:
        return vmap(lambda part: toeplitz(column, part))(row)
    return by_place(column, row, False)


@matrix
def hankel(c, r=None, /):
    """The matrix of constant anti-diagonals with this first column and last row."""
    column = op.ravel(c)
    return by_place(column, op.zeros_like(column) if r is None else op.ravel(r), True)


@matrix
def circulant(c, /):
    """The matrix whose columns are turned versions of a vector; of rows a matrix each."""
    rows = COMPOSED["atleast_1d"](c)
    n = rows.shape[-1]
    return op.take(rows, op.mod(op.arange(n)[:, None] - op.arange(n)[None, :], n), -1)


@matrix
def companion(a, /):
    """The matrix whose characteristic polynomial is this one."""
    if op.ndim(a) > 1:
        return vmap(companion)(a)
    n = op.size(a) - 1
    first = -a[1:] / a[0]
    return op.concatenate((first[None], op.cast_like(op.eye(n - 1, n), first)), 0)


@matrix
def convolution_matrix(a, /, n, mode="full"):
    """The matrix whose product with a vector of n numbers is its convolution with a."""
    assert mode in ("full", "same", "valid"), "convolution_matrix: mode is full, same or valid"
    assert n > 0, "convolution_matrix: n is greater than 0"
    if op.ndim(a) > 1:
        return vmap(lambda part: convolution_matrix(part, n, mode))(a)
    m = op.size(a)
    whole = toeplitz(op.pad(a, (0, n - 1)), op.pad(a[:1], (0, n - 1)))
    low = 0 if mode == "full" else (min(m, n) - 1) // 2 if mode == "same" else min(m, n) - 1
    size = m + n - 1 if mode == "full" else max(m, n) if mode == "same" else max(m, n) - min(m, n) + 1
    return whole[low:low + size]


@matrix
def hilbert(n):
    """1 / (i + j + 1)."""
    return 1.0 / (op.arange(n)[:, None] + op.arange(n)[None, :] + 1)


@matrix
def hadamard(n, dtype="i64"):
    """Sylvester's matrix of 1 and -1; n is a power of two."""
    assert n & (n - 1) == 0, "hadamard: n must be a power of two"
    i = op.arange(n)
    return op.cast(1 - 2 * op.mod(op.pop_count(i[:, None] & i[None, :]), 2), dtype)


@matrix
def pascal(n, kind="symmetric", dtype=None):
    """Binomial coefficients: "symmetric", "lower" or "upper"."""
    i, j = op.arange(n)[:, None], op.arange(n)[None, :]
    top = i + j if kind == "symmetric" else i if kind == "lower" else j
    low = j if kind == "lower" else i
    y = op.rint(op.exp(op.lgamma(top + 1.0) - op.lgamma(low + 1.0) - op.lgamma(op.maximum(top - low, 0) + 1.0)))
    return op.where(top >= low, y, 0.0)


@matrix
def dft(n, scale=None, dtype=None):
    """The matrix of the discrete Fourier transform, divided by n or its root for the scale "n" or "sqrtn"."""
    assert scale in (None, "n", "sqrtn"), "dft: scale is None, n or sqrtn"
    turn = -2 * math.pi / n * op.mod(op.arange(n)[:, None] * op.arange(n)[None, :], n)
    y = op.make_complex(op.cos(turn), op.sin(turn))
    y = y if scale is None else y / (n if scale == "n" else math.sqrt(n))
    return y if dtype is None else op.cast(y, dtype)


@matrix
def helmert(n, full=False):
    """Helmert's matrix: orthonormal rows that are contrasts; `full` has the constant row above them."""
    assert n > 0, "helmert: n is greater than 0"
    i, j = op.arange(n)[:, None], op.arange(n)[None, :]
    k = op.where(i == 0, 1, i) * 1.0
    below = op.where(j < i, 1.0, op.where(j == i, -k, 0.0)) / op.sqrt(k * (k + 1))
    whole = op.where(i == 0, 1.0 / math.sqrt(n), below)
    return whole if full else whole[1:]


@matrix
def leslie(f, s, /):
    """The matrix of a population: births f in the first row, the parts s that stay alive below the diagonal."""
    if op.ndim(f) > 1:
        return vmap(leslie)(f, s)
    n = op.size(f)
    assert op.size(s) == n - 1, "leslie: s has one number less than f"
    return op.concatenate((f[None] * 1.0, op.pad(op.diag(s * 1.0), (0, 0, 0, 1))), 0)


@matrix
def fiedler(a, /):
    """The absolute differences of all pairs of numbers."""
    return op.abs(a[..., :, None] - a[..., None, :])
