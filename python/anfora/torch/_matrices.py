# SPDX-License-Identifier: Apache-2.0
"""Factors of a matrix as LAPACK has them and what is made of them, written as the functions of the library are: rows of
_rows_linalg.py compile them in."""
from __future__ import annotations

from .._library.decompositions import pseudo, reflections, svdvals
from .._ops import op
from .._transform import stop_gradient


def in_order(rows, pivots):
    """The order of rows, a list of their numbers, after the exchanges."""
    order = rows
    for k in range(pivots.shape[0]):
        p = op.cast(op.take(pivots, k, 0), "i64") - 1
        order = op.take(order, op.where(rows == k, p, op.where(rows == p, k, rows)), 0)
    return order


def order_of(like, pivots):
    """The same, of as many rows as `like` has elements, as a tuple of one."""
    return (in_order(op.arange(like.shape[0]), pivots),)


def solved(m, pivots, b):
    """x with a x = b, as a tuple of one."""
    order = in_order(op.arange(m.shape[0]), pivots)
    y = op.triangular_solve(m, op.take(b, order, 0), lower=True, unit=True)
    return (op.triangular_solve(m, y, lower=False),)


def solved_transposed(m, pivots, b):
    """x with the transposed a, as a tuple of one."""
    order = in_order(op.arange(m.shape[0]), pivots)
    y = op.triangular_solve(m, b, lower=False, transpose=True)
    return (op.take(op.triangular_solve(m, y, lower=True, transpose=True, unit=True), op.argsort(order), 0),)


def on_diagonal(m):
    """The diagonal of a matrix, square or not."""
    n = m.shape[0] if m.shape[0] < m.shape[1] else m.shape[1]
    return m[op.arange(n), op.arange(n)]


def first(wrong):
    """The number from 1 on of the first that is true, 0 if none is."""
    n = wrong.shape[0]
    at = op.min(op.where(wrong, op.arange(n) + 1, n + 1))
    return op.cast(op.where(at > n, 0, at), "i32")


def singular_at(m):
    """The number of the first pivot that is 0, as a tuple of one."""
    return (first(on_diagonal(m) == 0),)


def indefinite_at(a, factor):
    """The number of the first row that Cholesky's factor has none for, which is all NaN then, as a tuple of one."""
    n, rows, d = a.shape[0], op.arange(a.shape[0]), on_diagonal(factor)
    at = op.cast(n + 1, "i64")
    if op.any(d != d):
        for k in range(n):  # elimination by the lower half
            column = op.take(a, k, 1)
            pivot = op.take(column, k, 0)
            at = op.where(pivot > 0, at, op.minimum(at, op.cast(k + 1, "i64")))
            below = op.where(rows > k, column, op.zeros_like(column))
            a = a - below[:, None] * below[None, :] / pivot
    return (op.cast(op.where(at > n, 0, at), "i32"),)


def sign_and_log(m, pivots):
    """The determinant's sign and the logarithm of its size."""
    n, d = m.shape[0], on_diagonal(m)
    odd = op.sum(op.cast(op.cast(pivots, "i64") != op.arange(n) + 1, "i64")) % 2
    return op.prod(op.sign(d)) * op.cast_like(1 - 2 * odd, d), op.sum(op.log(op.abs(d)))


def packed(a):
    """(R with the vectors of the reflections below it, which are 1 on the diagonal, and their factors)"""
    r, vectors = reflections(a)
    k = vectors.shape[1]
    d = on_diagonal(vectors)
    below = op.tril(vectors / op.where(d == 0, op.ones_like(d), d), -1)
    if a.shape[1] > k:
        below = op.concatenate([below, op.zeros_like(a[:, k:])], 1)
    return r + below, d * d


def reflected(a, tau, x):
    """The product of the reflections times x, as a tuple of one."""
    k, rows = tau.shape[0], op.arange(a.shape[0])
    for i in range(k):
        j = k - 1 - i
        x = one_reflection(a, tau, x, j, rows)
    return (x,)


def reflected_back(a, tau, x):
    """The product's transpose times x, as a tuple of one."""
    rows = op.arange(a.shape[0])
    for j in range(tau.shape[0]):
        x = one_reflection(a, tau, x, j, rows)
    return (x,)


def one_reflection(a, tau, x, j, rows):
    """x - tau v v^T x with column j of the vectors."""
    v = op.where(rows == j, 1.0, op.where(rows > j, op.take(a, j, 1), 0.0))
    v = op.cast_like(v, x)
    return x - op.take(tau, j, 0) * v[:, None] * op.sum(v[:, None] * x, 0, keepdims=True)


def pseudo_inverse(a, atol, rtol):
    """By singular values above atol and above rtol times the largest, as a tuple of one."""
    most = op.max(stop_gradient(svdvals(a)))
    least = op.where(most > 0, op.maximum(rtol, atol / op.where(most > 0, most, 1.0)), rtol)
    return (pseudo(a, op.cast_like(least, a)),)
