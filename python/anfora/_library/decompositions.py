# SPDX-License-Identifier: Apache-2.0
"""Decompositions of real matrices, made of operations; dims before the last two are a batch.

Eigenvalues and singular values are operations; what NumPy has around them, QR and the exponential are here."""
from __future__ import annotations

from typing import Any

from .composed import Composed, into
from .._ops import op
from .._transform import custom_jvp, custom_vjp, stop_gradient

TABLE: dict[str, Composed] = {}
decomposed = into(TABLE, lists=True)


def rounding(x):
    """The distance from 1 to the next number of the element type of x."""
    return op.where(op.cast_like(1.0 + 2.0 ** -52, x) > 1, op.cast_like(2.0 ** -52, x), op.cast_like(2.0 ** -23, x))


def transposed(x):
    """Rows as columns."""
    return op.swapaxes(x, -1, -2)


def like_eye(x, n):
    """The unit matrix for each matrix of a batch."""
    unit = op.cast_like(op.eye(n), x)
    return op.broadcast_to(unit, tuple(x.shape[:-2]) + (n, n))


def reciprocals(x):
    """1 / x, and 0 for 0."""
    return op.where(x == 0, op.zeros_like(x), 1.0 / op.where(x == 0, op.ones_like(x), x))


def symmetric(a):
    """The matrix that its lower triangle tells, as NumPy has it; its derivative is symmetric, as that of JAX and PyTorch."""
    lower = op.tril(a, 0) + transposed(op.tril(a, -1))
    half = (a + transposed(a)) / 2
    return stop_gradient(lower) + (half - stop_gradient(half))


@decomposed
def eigh(a, /):
    """Eigenvalues, the least first, and eigenvectors (the columns) of symmetric real matrices."""
    return op.eigh(symmetric(a * 1.0))


@decomposed
def eigvalsh(a, /):
    """The eigenvalues of symmetric real matrices, the least first."""
    return op.eigh(symmetric(a * 1.0))[0]


# ---- QR ----

def reflected(r, j):
    """The vector of the reflection that makes column j zero below the diagonal: of length sqrt(2), or of zeros where the column
    is so already, as in LAPACK."""
    m, n = r.shape[-2], r.shape[-1]
    rows = op.arange(m)
    x = op.sum(op.where(op.arange(n) == j, r, op.zeros_like(r)), -1)
    x = op.where(rows >= j, x, op.zeros_like(x))
    most = op.max(op.abs(x), -1, keepdims=True)
    unit = x / op.where(most == 0, op.ones_like(most), most)
    square = op.sum(unit * unit, -1, keepdims=True)
    size = op.sqrt(op.where(square == 0, op.ones_like(square), square))
    first = op.sum(op.where(rows == j, unit, op.zeros_like(unit)), -1, keepdims=True)
    side = op.where(first < 0, -op.ones_like(size), op.ones_like(size))
    v = unit + op.where(rows == j, side * size, op.zeros_like(unit))
    scale = op.sqrt(size * (size + op.abs(first)))
    below = op.max(op.where(rows > j, op.abs(unit), op.zeros_like(unit)), -1, keepdims=True)
    return op.where(below == 0, op.zeros_like(v), v / scale)


def reflections(a):
    """R, and the vectors of the reflections that made it."""
    m, n = a.shape[-2], a.shape[-1]
    k = m if m < n else n
    r, vectors = a, op.zeros_like(a[..., :k])
    for j in range(k):
        v = reflected(r, j)
        r = r - v[..., :, None] * op.sum(v[..., :, None] * r, -2, keepdims=True)
        vectors = vectors + op.where(op.arange(k) == j, v[..., :, None], op.zeros_like(vectors))
    return op.triu(r, 0), vectors


def all_reflected(vectors, q):
    """The product of the reflections, times q."""
    k = vectors.shape[-1]
    for i in range(k):
        v = op.sum(op.where(op.arange(k) == k - 1 - i, vectors, op.zeros_like(vectors)), -1)
        q = q - v[..., :, None] * op.sum(v[..., :, None] * q, -2, keepdims=True)
    return q


@custom_jvp
def tall_factors(a):
    """Q and R of a matrix with at least as many rows as columns."""
    n = a.shape[-1]
    r, vectors = reflections(a)
    return all_reflected(vectors, like_eye(a, a.shape[-2])[..., :n]), r[..., :n, :]


@tall_factors.defjvp
def tall_factors_jvp(primals, tangents):
    """With d = da R^-1 and s = Q^T d, whose part below the diagonal is that of the skew w: dQ = d + Q (w - s), dR = (s - w) R. The
    reflections have none where a column is zero below its diagonal: the sign of R jumps there, which is constant here."""
    (a,), (da,) = primals, tangents
    q, r = tall_factors(a)
    d = transposed(op.triangular_solve(r, transposed(da), lower=False, transpose=True))
    s = op.matmul(transposed(q), d)
    w = op.tril(s, -1) - transposed(op.tril(s, -1))
    return (q, r), (d + op.matmul(q, w - s), op.matmul(s - w, r))


def factors(x):
    """Q and R, with as many columns in Q as x has rows or columns, whichever are fewer."""
    m, n = x.shape[-2], x.shape[-1]
    if m >= n:
        return tall_factors(x)
    q, r = tall_factors(x[..., :m])
    return q, op.concat(r, op.matmul(transposed(q), x[..., m:]), axis=-1)


def complement(vectors):
    """The columns that the product of the reflections has beyond as many as there are vectors."""
    return all_reflected(vectors, like_eye(vectors, vectors.shape[-2])[..., vectors.shape[-1]:])


@custom_jvp
def with_slope(q, x, slope):
    """q, whose derivative by each element of x is larger by slope."""
    return q


@with_slope.defjvp
def with_slope_jvp(primals, tangents):
    """A slope of 0 or NaN."""
    (q, _, slope), (dq, dx, _) = primals, tangents
    return q, dq + slope * op.sum(dx, (-2, -1), keepdims=True)


def complete_factors(x):
    """Q and R, with Q square. The further columns of Q are those of the reflections, which jump where a column of x is zero below its
    diagonal: their derivative is NaN there, never a silent zero."""
    m, n = x.shape[-2], x.shape[-1]
    if m <= n:
        return factors(x)
    q, r = tall_factors(x)
    _, vectors = reflections(x)
    sizes = op.sum(op.abs(stop_gradient(vectors)), -2, keepdims=True)
    slope = op.sum(op.where(sizes == 0, op.full_like(sizes, float("nan")), op.zeros_like(sizes)), -1, keepdims=True)
    rest = with_slope(complement(vectors), x, slope)
    return op.concat(q, rest, axis=-1), op.concat(r, op.zeros_like(x[..., n:, :]), axis=-2)


@decomposed
def qr(a, /, mode="reduced"):
    """Q with orthonormal columns and R, upper triangular, whose product is a; mode is reduced, complete or r."""
    x = a * 1.0
    if mode == "r":
        return factors(x)[1]
    if mode == "complete":
        return complete_factors(x)
    assert mode == "reduced", "qr: mode is reduced, complete or r"
    return factors(x)


# ---- singular values ----

@custom_vjp
def completed(columns):
    """The columns that make U or V square: any orthonormal ones, so they have no derivative."""
    return columns


def completed_forward(columns):
    """Nothing is needed."""
    return columns, columns


def completed_backward(residuals, slope):
    """NaN for a result that depends on them: never a silent zero."""
    return (op.where(slope == 0, op.zeros_like(residuals), op.full_like(residuals, float("nan"))),)


completed.defvjp(completed_forward, completed_backward)


@decomposed
def svd(a, /, full_matrices=True, compute_uv=True):
    """U, the singular values S (the largest first) and V^T with U S V^T = a. The columns that full_matrices=True adds have no
    derivative: that of a result that depends on them is NaN."""
    u, s, vt = op.svd(a * 1.0)
    if not compute_uv:
        return s
    m, n, k = a.shape[-2], a.shape[-1], s.shape[-1]
    if full_matrices and m > k:
        u = op.concatenate([u, completed(complement(reflections(u)[1]))], -1)
    if full_matrices and n > k:
        vt = op.concatenate([vt, transposed(completed(complement(reflections(transposed(vt))[1])))], -2)
    return u, s, vt


@decomposed
def svdvals(a, /):
    """The singular values, the largest first."""
    return op.svd(a * 1.0)[1]


@decomposed
def matrix_rank(a, /, tol=None, *, rtol=None):
    """How many singular values are larger than tol, by default the largest times the larger dim and the rounding."""
    s = op.svd(a * 1.0)[1]
    size = a.shape[-1] if a.shape[-1] > a.shape[-2] else a.shape[-2]
    least = tol if tol is not None else op.max(s, -1, keepdims=True) * (size * rounding(s) if rtol is None else rtol)
    return op.sum(op.cast(s > least, "i64"), -1)


@custom_jvp
def pseudo(a, least):
    """The inverse by singular values above `least` times the largest."""
    u, s, vt = op.svd(a)
    over = op.where(s > least * op.max(s, -1, keepdims=True), reciprocals(s), op.zeros_like(s))
    return (transposed(vt) * over[..., None, :]) @ transposed(u)


@pseudo.defjvp
def pseudo_jvp(primals, tangents):
    """Golub and Pereyra (1973)."""
    (a, least), (da, _) = primals, tangents
    p = pseudo(a, least)
    pt, dat = transposed(p), transposed(da)
    return p, p @ pt @ (dat - (dat @ a) @ p) + (dat - p @ (a @ dat)) @ pt @ p - p @ da @ p


@decomposed
def pinv(a, /, rcond=1e-15):
    """The pseudo-inverse; singular values below rcond times the largest count as 0."""
    x = a * 1.0
    return pseudo(x, op.maximum(op.cast_like(rcond, x), rounding(x)))


@decomposed
def lstsq(a, b, /, rcond=None):
    """x that makes a x nearest to b, the sums of the squares that are left (none unless a is higher than wide), the rank and the
    singular values."""
    x = a * 1.0
    m, n = x.shape[-2], x.shape[-1]
    least = (m if m > n else n) * rounding(x) if rcond is None else op.cast_like(rcond, x)
    p = pseudo(x, least)
    s = op.svd(x)[1]
    rank = op.sum(op.cast(s > least * op.max(s), "i64"))
    found = p @ b
    rest = x @ found - b
    if m > n:
        left = op.sum(rest * rest, 0, keepdims=True) if op.ndim(b) == 1 else op.sum(rest * rest, 0)
    else:
        left = op.zeros_like(s[:0])
    return found, left, rank, s


# Coefficients of the approximation of degree 13 that Higham (2005) takes up to a norm of 5.37
PADE = (64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0, 10559470521600.0,
        670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0)


@decomposed
def expm(a, /):
    """The exponential of square matrices: of a / 2^k as a quotient of polynomials, then squared k times."""
    x = a * 1.0
    size = stop_gradient(op.max(op.sum(op.abs(x), -2)))
    k = op.where(size > 5.37, op.cast(op.ceil(op.log2(op.where(op.isfinite(size), op.maximum(size, 5.37), 5.37) / 5.37)), "i64"), 0)
    x = x / op.cast_like(2.0, x) ** op.cast_like(k, x)
    one = like_eye(x, x.shape[-1])
    x2 = x @ x
    x4 = x2 @ x2
    x6 = x4 @ x2
    b = PADE
    odd = x @ (x6 @ (b[13] * x6 + b[11] * x4 + b[9] * x2) + b[7] * x6 + b[5] * x4 + b[3] * x2 + b[1] * one)
    even = x6 @ (b[12] * x6 + b[10] * x4 + b[8] * x2) + b[6] * x6 + b[4] * x4 + b[2] * x2 + b[0] * one
    y = op.solve(even - odd, even + odd)
    for _ in range(k):
        y = y @ y
    return y


_HERE: dict[str, Any] = TABLE
globals().update(_HERE)
