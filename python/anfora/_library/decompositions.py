# SPDX-License-Identifier: Apache-2.0
"""Decompositions of real matrices, made of operations; dims before the last two are a batch.

Eigenvalues and singular values come from Jacobi rotations (Golub and Van Loan, 8.5 and 8.6): a round turns n / 2 pairs of
rows at once, each row i with its partner, and n - 1 rounds are a sweep that meets every pair. It ends when all pairs are
orthogonal to rounding, after some ten sweeps. Derivatives are formulas of their own, not those of the sweeps."""
from __future__ import annotations

from typing import Any

from .composed import Composed, into
from .._ops import op
from .._transform import custom_vjp, stop_gradient

TABLE: dict[str, Composed] = {}
decomposed = into(TABLE, lists=True)
SWEEPS = 40


def rounding(x):
    """The distance from 1 to the next number of the element type of x."""
    return op.where(op.cast_like(1.0 + 2.0 ** -52, x) > 1, op.cast_like(2.0 ** -52, x), op.cast_like(2.0 ** -23, x))


def transposed(x):
    """Rows as columns."""
    return op.swapaxes(x, -1, -2)


def partners(n, turn):
    """Whom each of n rows meets in a round of a tournament; itself, if nobody. Rows i and j meet where i + j = turn."""
    m = n + n % 2
    i = op.arange(n)
    met = (turn - i + 2 * (m - 1)) % (m - 1)
    odd = op.where(met == i, m - 1 if n % 2 == 0 else i, met)
    return op.where(i == m - 1, turn * (m // 2) % (m - 1), odd)


def rotations(own, other, both, partner):
    """(c, s) that make a pair orthogonal, for each row: the new row is c times itself minus s times its partner. `own` and
    `other` are the squares of the pair, `both` its product."""
    i = op.arange(partner.shape[0])
    still = op.logical_or(both == 0, partner == i)
    tau = (other - own) / (2 * op.where(still, 1.0, both))
    side = op.where(tau > 0, 1.0, op.where(tau < 0, -1.0, op.where(i < partner, 1.0, -1.0)))
    t = op.where(still, 0.0, side / (op.abs(tau) + op.hypot(tau, op.ones_like(tau))))
    c = 1.0 / op.sqrt(1.0 + t * t)
    return op.cast_like(c, own), op.cast_like(t * c, own)


def paired(x, partner):
    """Columns of the partners."""
    return op.take(x, partner, axis=-1)


def on_diagonal(x):
    """The diagonals of matrices."""
    n = x.shape[-1]
    return op.sum(op.where(op.arange(n)[:, None] == op.arange(n)[None, :], x, op.zeros_like(x)), -1)


def like_eye(x, n):
    """The unit matrix for each matrix of a batch."""
    unit = op.cast_like(op.eye(n), x)
    return op.broadcast_to(unit, tuple(x.shape[:-2]) + (n, n))


def eigh_sweeps(a):
    """Eigenvalues and eigenvectors of symmetric matrices, as they come."""
    n = a.shape[-1]
    v = like_eye(a, n)
    unit = like_eye(a, n)
    left, sweep = op.cast_like(1.0, a), 0
    while sweep < SWEEPS and left > 0:
        for turn in range(n - 1 + n % 2):
            partner = partners(n, turn)
            d = on_diagonal(a)
            both = op.squeeze(op.take_along_axis(a, op.broadcast_to(partner[:, None], tuple(a.shape[:-1]) + (1,)), -1), -1)
            c, s = rotations(d, paired(d, partner), both, partner)
            columns = a * c[..., None, :] - paired(a, partner) * s[..., None, :]
            a = transposed(columns) * c[..., None, :] - paired(transposed(columns), partner) * s[..., None, :]
            v = v * c[..., None, :] - paired(v, partner) * s[..., None, :]
        squares = a * a
        rest = op.sum(squares * (1 - unit), (-2, -1))
        left = op.sum(op.where(rest > op.sum(squares, (-2, -1)) * rounding(a) ** 2, op.ones_like(rest), op.zeros_like(rest)))
        sweep = sweep + 1
    return on_diagonal(a), v


def by_order(x, order):
    """Columns in an order."""
    return op.take_along_axis(x, op.broadcast_to(order[..., None, :], tuple(x.shape)), -1)


@custom_vjp
def eigen(a):
    """Eigenvalues of symmetric matrices, the least first, and eigenvectors."""
    w, v = eigh_sweeps(a)
    order = op.argsort(w, -1)
    return op.take_along_axis(w, order, -1), by_order(v, order)


def eigen_forward(a):
    """With what its derivative needs."""
    w, v = eigen(a)
    return (w, v), (w, v)


def reciprocals(x):
    """1 / x, and 0 for 0."""
    return op.where(x == 0, op.zeros_like(x), 1.0 / op.where(x == 0, op.ones_like(x), x))


def eigen_backward(residuals, slopes):
    """V (diag(dw) + F o (V^T dV)) V^T with F[i, j] = 1 / (w[j] - w[i])."""
    (w, v), (dw, dv) = residuals, slopes
    f = reciprocals(w[..., None, :] - w[..., :, None])
    n = w.shape[-1]
    inner = f * (transposed(v) @ dv) + like_eye(v, n) * dw[..., None, :]
    return (v @ inner @ transposed(v),)


eigen.defvjp(eigen_forward, eigen_backward)


def symmetric(a):
    """The matrix that its lower triangle tells, as NumPy has it; its derivative is symmetric, as that of JAX and PyTorch."""
    lower = op.tril(a, 0) + transposed(op.tril(a, -1))
    half = (a + transposed(a)) / 2
    return stop_gradient(lower) + (half - stop_gradient(half))


@decomposed
def eigh(a, /):
    """Eigenvalues, the least first, and eigenvectors (the columns) of symmetric real matrices."""
    return eigen(symmetric(a * 1.0))


@decomposed
def eigvalsh(a, /):
    """The eigenvalues of symmetric real matrices, the least first."""
    return eigen(symmetric(a * 1.0))[0]


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


@decomposed
def qr(a, /, mode="reduced"):
    """Q with orthonormal columns and R, upper triangular, whose product is a; mode is reduced, complete or r."""
    x = a * 1.0
    m, n = x.shape[-2], x.shape[-1]
    k = m if m < n else n
    r, vectors = reflections(x)
    if mode == "r":
        return r[..., :k, :]
    if mode == "complete":
        return all_reflected(vectors, like_eye(x, m)), r
    assert mode == "reduced", "qr: mode is reduced, complete or r"
    return all_reflected(vectors, like_eye(x, m)[..., :k]), r[..., :k, :]


# ---- singular values ----

def svd_sweeps(a):
    """(a V, V) with orthogonal columns of a V, of matrices that are not wider than high."""
    n = a.shape[-1]
    v = like_eye(a, n)
    eps, left, sweep = rounding(a), op.cast_like(1.0, a), 0
    while sweep < SWEEPS and left > 0:
        left = op.cast_like(0.0, a)  # how many pairs were not orthogonal
        for turn in range(n - 1 + n % 2):
            partner = partners(n, turn)
            own = op.sum(a * a, -2)
            other, beside = paired(own, partner), paired(a, partner)
            both = op.sum(a * beside, -2)
            c, s = rotations(own, other, both, partner)
            size = op.sqrt(own) * op.sqrt(other)
            noise = op.max(own, -1, keepdims=True) * (n * eps) ** 2  # columns as short as this are rounding errors
            apart = op.logical_and(op.abs(both) > 4 * eps * size, op.logical_and(size > noise, partner != op.arange(n)))
            left = left + op.sum(op.where(apart, op.ones_like(both), op.zeros_like(both)))
            a = a * c[..., None, :] - beside * s[..., None, :]
            v = v * c[..., None, :] - paired(v, partner) * s[..., None, :]
        sweep = sweep + 1
    return a, v


def tall_svd(a):
    """All of U, S and V of matrices that are not wider than high, the largest singular value first."""
    b, v = svd_sweeps(a)
    s = op.sqrt(op.sum(b * b, -2))
    order = op.argsort(-s, -1)
    s, v, b = op.take_along_axis(s, order, -1), by_order(v, order), by_order(b, order)
    r, vectors = reflections(b)  # b = U S: its Q is U, but for signs, and completes it where s is 0
    q = all_reflected(vectors, like_eye(a, a.shape[-2]))
    n = a.shape[-1]
    side = op.where(on_diagonal(r[..., :n, :]) < 0, -op.ones_like(s), op.ones_like(s))
    return op.concatenate([q[..., :n] * side[..., None, :], q[..., n:]], -1), s, v


def whole_svd(a):
    """U, S, V of matrices of any shape, U and V square."""
    if a.shape[-2] >= a.shape[-1]:
        return tall_svd(a)
    v, s, u = tall_svd(transposed(a))
    return u, s, v


@custom_vjp
def singular(a):
    """U, S, V with as many columns as there are singular values."""
    u, s, v = whole_svd(a)
    k = s.shape[-1]
    return u[..., :k], s, v[..., :k]


def singular_forward(a):
    """With what its derivative needs."""
    u, s, v = singular(a)
    return (u, s, v), (u, s, v)


def singular_backward(residuals, slopes):
    """Townsend, Differentiating the Singular Value Decomposition (2016)."""
    (u, s, v), (du, ds, dv) = residuals, slopes
    ut, vt = transposed(u), transposed(v)
    f = reciprocals(s[..., None, :] * s[..., None, :] - s[..., :, None] * s[..., :, None])
    left, right, over = ut @ du, vt @ dv, reciprocals(s)
    inner = (f * (left - transposed(left))) * s[..., None, :] + s[..., :, None] * (f * (right - transposed(right)))
    k = s.shape[-1]
    inner = inner + like_eye(inner, k) * ds[..., None, :]
    outside = ((du - u @ left) * over[..., None, :]) @ vt + u @ transposed((dv - v @ right) * over[..., None, :])
    return (u @ inner @ vt + outside,)


singular.defvjp(singular_forward, singular_backward)


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
    x = a * 1.0
    if compute_uv:
        if full_matrices and x.shape[-2] != x.shape[-1]:
            u, s, v = singular(x)
            k = s.shape[-1]
            all_u, _, all_v = whole_svd(x)
            u = op.concatenate([u, completed(all_u[..., k:])], -1)
            v = op.concatenate([v, completed(all_v[..., k:])], -1)
            return u, s, transposed(v)
        u, s, v = singular(x)
        return u, s, transposed(v)
    return singular(x)[1]


@decomposed
def svdvals(a, /):
    """The singular values, the largest first."""
    return singular(a * 1.0)[1]


@decomposed
def matrix_rank(a, /, tol=None, rtol=None):
    """How many singular values are larger than tol, by default the largest times the larger dim and the rounding."""
    s = singular(a * 1.0)[1]
    size = a.shape[-1] if a.shape[-1] > a.shape[-2] else a.shape[-2]
    least = tol if tol is not None else op.max(s, -1, keepdims=True) * (size * rounding(s) if rtol is None else rtol)
    return op.sum(op.cast(s > least, "i64"), -1)


@custom_vjp
def pseudo(a, least):
    """The inverse by singular values above `least` times the largest."""
    u, s, v = singular(a)
    over = op.where(s > least * op.max(s, -1, keepdims=True), reciprocals(s), op.zeros_like(s))
    return (v * over[..., None, :]) @ transposed(u)


def pseudo_forward(a, least):
    """With what its derivative needs."""
    p = pseudo(a, least)
    return p, (a, p, least)


def pseudo_backward(residuals, dp):
    """Golub and Pereyra (1973)."""
    a, p, least = residuals
    pt, dpt = transposed(p), transposed(dp)
    slope = (dpt - a @ (p @ dpt)) @ p @ pt + pt @ p @ (dpt - (dpt @ p) @ a) - pt @ dp @ pt
    return slope, op.zeros_like(least)


pseudo.defvjp(pseudo_forward, pseudo_backward)


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
    s = singular(x)[1]
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
