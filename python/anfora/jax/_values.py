# SPDX-License-Identifier: Apache-2.0
"""What JAX leaves to LAPACK and to XLA, in terms of JAX itself; the derivatives are JAX's own rules.

Eigenvalues and singular values come from Jacobi rotations like those of `_library/decompositions.py`: a round turns n / 2 pairs at
once, each row i with its partner, and n - 1 rounds are a sweep that meets every pair."""
from __future__ import annotations

import math
from functools import partial
from typing import Any, Callable

import jax
import jax.numpy as jnp
from jax import lax
from jax._src.interpreters import mlir
from jax._src.lax import linalg
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import hlo

SWEEPS = 40


def _for_each(f: Callable) -> Callable:
    """f of a matrix as one of a batch of matrices."""
    def whole(*args: Any, **params: Any) -> Any:
        g = partial(f, **params)
        for _ in range(args[0].ndim - 2):
            g = jax.vmap(g)
        return g(*args)
    return whole


# ---- reflections ----

def _reflected(r: Any, j: Any) -> tuple:
    """(v, tau, beta): (1 - tau v v^H) makes column j zero below the diagonal, where beta is; v is 1 there, as in LAPACK."""
    rows = jnp.arange(r.shape[0])
    x = jnp.where(rows > j, r[:, j], 0)
    alpha, square = r[j, j], jnp.sum(jnp.abs(x) ** 2)
    still = (square == 0) & (jnp.imag(alpha) == 0)
    size = jnp.sqrt(jnp.abs(alpha) ** 2 + square)
    beta = jnp.where(jnp.real(alpha) < 0, size, -size)
    safe = jnp.where(still, 1, beta).astype(r.dtype)
    tau = jnp.where(still, 0, (safe - alpha) / safe)
    v = jnp.where(rows == j, 1, x / jnp.where(still, 1, alpha - safe))
    return v, tau, jnp.where(still, alpha, safe)


@_for_each
def _geqrf(a: Any) -> tuple:
    """R on and above the diagonal, the vectors of the reflections below it, and their factors."""
    m, n = a.shape
    rows, columns = jnp.arange(m)[:, None], jnp.arange(n)

    def turn(j: Any, state: tuple) -> tuple:
        r, taus = state
        v, tau, beta = _reflected(r, j)
        after = r - jnp.conj(tau) * v[:, None] * (jnp.conj(v) @ r)
        column = jnp.where(rows[:, 0] > j, v, jnp.where(rows[:, 0] == j, beta, r[:, j]))
        r = jnp.where(columns > j, after, jnp.where(columns == j, column[:, None], r))
        return r, jnp.where(jnp.arange(taus.shape[0]) == j, tau, taus)
    return lax.fori_loop(0, min(m, n), turn, (a, jnp.zeros(min(m, n), a.dtype)))


@_for_each
def _product(a: Any, taus: Any) -> Any:
    """The first columns of the product of the reflections."""
    m, n = a.shape
    rows = jnp.arange(m)

    def turn(i: Any, q: Any) -> Any:
        j = taus.shape[0] - 1 - i
        v = jnp.where(rows == j, 1, jnp.where(rows > j, a[:, j], 0))
        return q - taus[j] * v[:, None] * (jnp.conj(v) @ q)
    return lax.fori_loop(0, taus.shape[0], turn, jnp.eye(m, n, dtype=a.dtype))


# ---- Jacobi rotations ----

def _partners(n: int, turn: Any) -> Any:
    """Whom each of n rows meets in a round of a tournament; itself, if nobody. Rows i and j meet where i + j = turn."""
    m, i = n + n % 2, jnp.arange(n)
    met = (turn - i + 2 * (m - 1)) % (m - 1)
    odd = jnp.where(met == i, m - 1 if n % 2 == 0 else i, met)
    return jnp.where(i == m - 1, turn * (m // 2) % (m - 1), odd)


def _rotations(own: Any, other: Any, both: Any, partner: Any) -> tuple:
    """(c, s) that make a pair orthogonal, for each row: the new row is c times itself minus s times its partner."""
    i = jnp.arange(partner.shape[0])
    still = (both == 0) | (partner == i)
    tau = (other - own) / (2 * jnp.where(still, 1, both))
    side = jnp.where(tau > 0, 1.0, jnp.where(tau < 0, -1.0, jnp.where(i < partner, 1.0, -1.0))).astype(own.dtype)
    t = jnp.where(still, 0, side / (jnp.abs(tau) + jnp.hypot(tau, jnp.ones_like(tau))))
    c = 1 / jnp.sqrt(1 + t * t)
    return c, t * c


def _sweeps(sweep: Callable, state: tuple) -> tuple:
    """Sweeps until one says that nothing is left."""
    def body(s: tuple) -> tuple:
        new, left = sweep(s[0])
        return new, left, s[2] + 1
    return lax.while_loop(lambda s: (s[2] < SWEEPS) & s[1], body, (state, jnp.bool_(True), jnp.int32(0)))[0]


def _eigh_sweep(state: tuple) -> tuple:
    n = state[0].shape[0]

    def turn(k: Any, state: tuple) -> tuple:
        a, v = state
        partner = _partners(n, k)
        d = jnp.diagonal(a)
        c, s = _rotations(d, d[partner], a[jnp.arange(n), partner], partner)
        columns = a * c - a[:, partner] * s
        a = columns.T * c - columns.T[:, partner] * s
        return a, v * c - v[:, partner] * s
    a, v = lax.fori_loop(0, n - 1 + n % 2, turn, state)
    rest = jnp.sum(jnp.where(jnp.eye(n, dtype=bool), 0, a * a))
    return (a, v), rest > jnp.sum(a * a) * jnp.finfo(a.dtype).eps ** 2


@_for_each
def _eigh(a: Any, lower: bool, sort_eigenvalues: bool, subset_by_index: Any, algorithm: Any) -> tuple:
    half = jnp.tril(a) if lower else jnp.triu(a).T
    whole = half + jnp.tril(half, -1).T
    a, v = _sweeps(_eigh_sweep, (whole, jnp.eye(a.shape[0], dtype=a.dtype)))
    w = jnp.diagonal(a)
    order = jnp.argsort(w)
    return v[:, order], w[order]


def _svd_sweep(state: tuple) -> tuple:
    n, eps = state[0].shape[1], jnp.finfo(state[0].dtype).eps

    def turn(k: Any, state: tuple) -> tuple:
        a, v, left = state
        partner = _partners(n, k)
        own, beside = jnp.sum(a * a, 0), a[:, partner]
        other, both = own[partner], jnp.sum(a * beside, 0)
        c, s = _rotations(own, other, both, partner)
        size = jnp.sqrt(own) * jnp.sqrt(other)
        noise = jnp.max(own) * (n * eps) ** 2  # columns as short as this are rounding errors
        apart = (jnp.abs(both) > 4 * eps * size) & (size > noise) & (partner != jnp.arange(n))
        return a * c - beside * s, v * c - v[:, partner] * s, left | jnp.any(apart)
    a, v, left = lax.fori_loop(0, n - 1 + n % 2, turn, (*state, jnp.bool_(False)))
    return (a, v), left


def _tall_svd(a: Any) -> tuple:
    """All of U, S and V of a matrix that is not wider than high."""
    n = a.shape[1]
    b, v = _sweeps(_svd_sweep, (a, jnp.eye(n, dtype=a.dtype)))
    s = jnp.sqrt(jnp.sum(b * b, 0))
    order = jnp.argsort(-s)
    s, v = s[order], v[:, order]
    r, taus = _geqrf(b[:, order])  # b = U S: its Q is U, but for signs, and completes it where s is 0
    q = _product(jnp.pad(r, ((0, 0), (0, a.shape[0] - n))), taus)
    side = jnp.where(jnp.diagonal(r) < 0, -1, 1).astype(a.dtype)
    return q * jnp.pad(side, (0, a.shape[0] - n), constant_values=1), s, v


@_for_each
def _svd(a: Any, full_matrices: bool, compute_uv: bool, subset_by_index: Any, algorithm: Any) -> tuple:
    tall = a.shape[0] >= a.shape[1]
    u, s, v = _tall_svd(a if tall else a.T)
    if not tall:
        u, v = v, u
    if not compute_uv:
        return (s,)
    k = s.shape[0]
    return (s, u, v.T) if full_matrices else (s, u[:, :k], v[:, :k].T)


# ---- special functions ----

def _zeta(x: Any, q: Any) -> Any:
    """The sum of (q + k)^-x: its first terms, and Euler and Maclaurin's formula for the rest."""
    first, bernoulli = 10, (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330)
    total = sum((q + k) ** -x for k in range(first))
    a, factor = q + first, x
    power = a ** -x
    total = total + power * a / (x - 1) + power / 2
    power = power / a
    for j, b in enumerate(bernoulli):
        total = total + factor * power * (b / math.factorial(2 * j + 2))
        factor = factor * (x + 2 * j + 1) * (x + 2 * j + 2)
        power = power / a / a
    total = jnp.where(x == 1, jnp.inf, jnp.where(x < 1, jnp.nan, total))
    pole = (q <= 0) & (q == jnp.floor(q))
    return jnp.where(pole & (x > 1), jnp.inf, total).astype(q.dtype)


def _polygamma(n: Any, x: Any) -> Any:
    sign = jnp.where(n % 2 == 0, -1, 1).astype(x.dtype)
    high = sign * jnp.exp(lax.lgamma(n + 1)) * lax.zeta(n + 1, x)
    return jnp.where(n == 0, lax.digamma(x), jnp.where((n < 0) | (n != jnp.floor(n)), jnp.nan, high)).astype(x.dtype)


# ---- as lowerings ----

def _cholesky(ctx: Any, a: Any) -> list:
    return [hlo.cholesky(a, lower=ir.BoolAttr.get(True))]


def _of_reals(lower: Callable, otherwise: Callable) -> Callable:
    """For real matrices of all eigenvalues; others as JAX lowers them, which is refused."""
    def rule(ctx: Any, *args: Any, **params: Any) -> Any:
        given = params.get("subset_by_index")
        whole = given is None or tuple(given) == (0, min(ctx.avals_in[0].shape[-2:]))
        real = not jnp.issubdtype(ctx.avals_in[0].dtype, jnp.complexfloating) and 0 not in ctx.avals_in[0].shape
        return (lower if real and whole else otherwise)(ctx, *args, **params)
    return rule


def values(plainly: Callable) -> tuple:
    """Lowerings of primitives; `plainly` is JAX's own."""
    def of(f: Callable, several: bool = True) -> Callable:
        return mlir.lower_fun(f, multiple_results=several)
    return ((linalg.cholesky_p, _cholesky), (linalg.triangular_solve_p, linalg._triangular_solve_lowering),
            (linalg.lu_p, of(linalg._lu_python)), (linalg.geqrf_p, of(_geqrf)), (linalg.householder_product_p, of(_product, False)),
            (linalg.eigh_p, _of_reals(of(_eigh), plainly)), (linalg.svd_p, _of_reals(of(_svd), plainly)),
            (linalg.ormqr_p, of(linalg._ormqr_lowering, False)), (linalg.tridiagonal_solve_p, of(linalg._tridiagonal_solve_jax, False)),
            (lax.zeta_p, of(_zeta, False)), (lax.polygamma_p, of(_polygamma, False)))


FACTORISATIONS = (linalg.cholesky_p, linalg.lu_p, linalg.qr_p, linalg.eigh_p, linalg.svd_p)
