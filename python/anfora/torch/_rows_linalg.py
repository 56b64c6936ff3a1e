# SPDX-License-Identifier: Apache-2.0
"""Rows: factors of real matrices, systems of equations, Fourier transforms; by the library's functions, which are compiled in."""
from __future__ import annotations

import math
from typing import Any, Callable

import torch

from .. import fft
from .._library import decompositions
from . import _matrices
from ._graph import DTYPES, Dims, Expr, Unsupported, Value, number
from ._table import row


def turned(g: Any, x: Value) -> Value:
    """The matrices transposed."""
    return g.transpose(x, [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2])


def nothing(g: Any) -> Any:
    """The results, if they have no elements."""
    outs = g.out if isinstance(g.out, list) else [g.out]
    if any(o.numel for o in outs):
        return None
    made = [zeros(o) for o in outs]
    return made if isinstance(g.out, list) else made[0]


def zeros(o: Value) -> Expr:
    return Expr(f"Zeros(shape={o.shape}, dtype={DTYPES[o.dtype]})", o.dtype, o.shape)


def real(*xs: Value) -> None:
    for x in xs:
        if x.dtype.is_complex:
            raise Unsupported("its matrices are complex")
        if not x.numel:
            raise Unsupported("its matrices have no elements")


def parts(g: Any, text: str, outs: list) -> list:
    """The elements of a tuple, for the results that are in it: None of `outs` is left out."""
    whole = g.let(text, outs[0].dtype, ())
    return [g.let(f"{whole}[{i}]", o.dtype, o.shape) for i, o in enumerate(outs)]


def each(g: Any, f: Callable, xs: list, shapes: list, dtypes: list) -> list:
    """A function of matrices and lists, for each of a batch: `xs` are (value, dims without the batch)."""
    lead = torch.broadcast_shapes(*(x.shape[:x.ndim - n] for x, n in xs))
    name = g.function(f)
    if not lead:
        return parts(g, f"{name}({', '.join(x for x, _ in xs)})", [Value("", t, s) for s, t in zip(shapes, dtypes)])
    n = math.prod(lead)
    flat = [g.reshape(g.broadcast(x, (*lead, *x.shape[x.ndim - k:])), (n, *x.shape[x.ndim - k:])) for x, k in xs]
    made = parts(g, f"vmap({name})({', '.join(flat)})", [Value("", t, (n, *s)) for s, t in zip(shapes, dtypes)])
    return [g.reshape(y, (*lead, *s)) for y, s in zip(made, shapes)]


# ---- factors ----

@row("linalg_cholesky_ex")
def cholesky_ex(g: Any, self_: Value, upper: bool, check_errors: bool) -> Any:
    if not self_.numel:
        return [zeros(o) for o in g.out]
    factor = cholesky(g, self_, upper)
    if not g.uses(1) or factor.dtype.is_complex:
        return [factor, zeros(g.out[1])]
    return [factor, *each(g, _matrices.indefinite_at, [(turned(g, self_) if upper else self_, 2), (factor, 2)], [()], [torch.int32])]


def cholesky(g: Any, self_: Value, upper: bool) -> Any:
    if upper:  # of the upper half
        return turned(g, g.let(f"Cholesky({turned(g, self_)})", self_.dtype, self_.shape))
    return g.let(f"Cholesky({self_})", self_.dtype, self_.shape)


@row("linalg_qr")
def qr(g: Any, A: Value, mode: str) -> Any:
    if (none := nothing(g)) is not None:
        return none
    real(A)
    q, r = g.out
    if mode == "r":
        return [zeros(q), g.let(f"{g.function(decompositions.TABLE['qr'], mode='r')}({A})", A.dtype, r.shape)]
    return parts(g, f"{g.function(decompositions.TABLE['qr'], mode=mode)}({A})", g.out)


@row("geqrf")
def geqrf(g: Any, self_: Value) -> Any:
    if (none := nothing(g)) is not None:
        return none
    real(self_)
    return each(g, _matrices.packed, [(self_, 2)], [o.shape[o.ndim - k:] for o, k in zip(g.out, (2, 1))], [o.dtype for o in g.out])


@row("linalg_householder_product")
def householder_product(g: Any, input: Value, tau: Value) -> Any:
    if (none := nothing(g)) is not None:
        return none
    real(input, tau)
    m, n = input.shape[-2:]
    unit = g.let(f"Eye({m}, m={n}, dtype={DTYPES[input.dtype]})", input.dtype, (m, n))
    return each(g, _matrices.reflected, [(input, 2), (tau, 1), (unit, 2)], [(m, n)], [input.dtype])[0]


@row("ormqr")
def ormqr(g: Any, self_: Value, input2: Value, input3: Value, left: bool, transpose: bool) -> Any:
    if (none := nothing(g)) is not None:
        return none
    real(self_, input2, input3)
    x = input3 if left else turned(g, input3)
    f = _matrices.reflected if left != transpose else _matrices.reflected_back
    y, = each(g, f, [(self_, 2), (input2, 1), (x, 2)], [x.shape[-2:]], [x.dtype])
    return y if left else turned(g, y)


@row("linalg_pinv.atol_rtol_tensor")
def pinv(g: Any, self_: Value, atol: Any, rtol: Any, hermitian: bool) -> Any:
    if (none := nothing(g)) is not None:
        return none
    real(self_)
    t, x = self_.dtype, self_
    if hermitian:  # given by the lower half
        x = g.let(f"Tril({x}, k=0) + {turned(g, g.let(f'Tril({x}, k=-1)', t, x.shape))}", t, x.shape)
    else:
        numbers(g, x, "svd")
    default = torch.finfo(t).eps * max(self_.shape[-2:]) if atol is None else 0.0
    bounds = [g.let(number(d, t), t, ()) if x is None else g.cast(x, t) for x, d in ((atol, 0.0), (rtol, default))]
    return each(g, _matrices.pseudo_inverse, [(x, 2), *((b, 0) for b in bounds)], [self_.shape[-2:][::-1]], [t])[0]


@row("_linalg_svd")
def svd(g: Any, A: Value, full_matrices: bool, compute_uv: bool, driver: Any) -> Any:
    if (none := nothing(g)) is not None:
        return none
    real(A)
    u, s, vh = g.out
    numbers(g, A, "svd")
    if not compute_uv:
        return [zeros(u), g.let(f"{g.function(decompositions.TABLE['svdvals'])}({A})", A.dtype, s.shape), zeros(vh)]
    return parts(g, f"{g.function(decompositions.TABLE['svd'], full_matrices=full_matrices, compute_uv=True)}({A})", g.out)


@row("_linalg_eigh")
def eigh(g: Any, A: Value, UPLO: str, compute_v: bool) -> Any:
    if (none := nothing(g)) is not None:
        return none
    real(A)
    half = turned(g, A) if UPLO in "Uu" else A
    w, v = g.out
    if not compute_v:
        return [g.let(f"{g.function(decompositions.TABLE['eigvalsh'])}({half})", A.dtype, w.shape), zeros(v)]
    return parts(g, f"{g.function(decompositions.TABLE['eigh'])}({half})", g.out)


def numbers(g: Any, a: Value, of: str) -> None:
    """Checks that there is no NaN."""
    g.check_all(f"{a} == {a}", f"linalg.{of}: The algorithm failed to converge because the input matrix contained non-finite values.")


def exchanges(g: Any, pivots: Value, rows: int, of: str) -> None:
    """Checks that pivots are numbers of rows, which count from 1."""
    g.check_all(f"LogicalAnd({pivots} >= i32(1), {pivots} <= i32({rows}))", f"pivots passed to {of} must be between 1 and LU.size(-2) inclusive.")


def eliminated(g: Any, a: Value) -> list:
    """(multipliers below U, the pivots, the order of rows)"""
    real(a)
    made = g.let(f"Lu({a})", a.dtype, a.shape)
    (*lead, m, n), k = a.shape, min(a.shape[-2:])
    return [g.let(f"{made}[0]", a.dtype, a.shape), g.let(f"Cast({made}[1], dtype=i32) + i32(1)", torch.int32, (*lead, k)),
            g.let(f"Cast({made}[2], dtype=i64)", torch.int64, (*lead, m))]


def info(g: Any, f: Callable, factor: Value) -> Value:
    """Which row or pivot of a factor is wrong, for each matrix; 0: none."""
    return each(g, f, [(factor, 2)], [()], [torch.int32])[0]


@row("linalg_lu_factor_ex")
def lu_factor(g: Any, A: Value, pivot: bool, check_errors: bool) -> Any:
    if not pivot:
        raise Unsupported("it exchanges no rows")
    if not g.out[0].numel:
        return [zeros(o) for o in g.out]
    m, pivots, _ = eliminated(g, A)
    return [m, pivots, info(g, _matrices.singular_at, m) if g.uses(2) else zeros(g.out[2])]


@row("linalg_lu")
def lu(g: Any, A: Value, pivot: bool) -> Any:
    if not pivot:
        raise Unsupported("it exchanges no rows")
    if (none := nothing(g)) is not None:
        return none
    m, _, order = eliminated(g, A)
    return [permutation(g, order), *triangles(g, m)]


def permutation(g: Any, order: Value) -> Value:
    """The matrix of an order of rows, the first result."""
    p, rows = g.out[0], order.shape[-1]
    at = g.let(f"Reshape(Arange(0, {rows}, dtype=i64), shape=({rows}, 1))", torch.int64, (rows, 1))
    return g.let(f"Cast({at} == {g.reshape(order, (*order.shape[:-1], 1, rows))}, dtype={DTYPES[p.dtype]})", p.dtype, p.shape)


def triangles(g: Any, m: Value) -> list:
    """L and U, the second and third result, of the matrix that holds both."""
    (rows, columns), (_, lower, upper) = m.shape[-2:], g.out
    k = min(rows, columns)
    below = f"Tril({g.slice(m, m.ndim - 1, 0, k)}, k=-1) + Eye({rows}, m={k}, dtype={DTYPES[m.dtype]})"
    return [g.let(below, m.dtype, lower.shape), g.let(f"Triu({g.slice(m, m.ndim - 2, 0, k)}, k=0)", m.dtype, upper.shape)]


@row("lu_unpack")
def lu_unpack(g: Any, LU_data: Value, LU_pivots: Value, unpack_data: bool, unpack_pivots: bool) -> Any:
    p, lower, upper = g.out
    real(LU_data)
    rows = LU_data.shape[-2]
    made = [zeros(p), zeros(lower), zeros(upper)]
    if unpack_pivots:
        exchanges(g, LU_pivots, rows, "lu_unpack")
        like = [(g.let(f"Zeros(shape=({rows},), dtype=i64)", torch.int64, (rows,)), 1), (LU_pivots, 1)]
        order, = each(g, _matrices.order_of, like, [(rows,)], [torch.int64])
        made[0] = permutation(g, order)
    if unpack_data:
        made[1:] = triangles(g, LU_data)
    return made


# ---- systems of equations ----

@row("linalg_inv_ex")
def inverse(g: Any, A: Value, check_errors: bool) -> Any:
    if not A.numel:
        return [zeros(o) for o in g.out]
    checked = g.uses(1) and not A.dtype.is_complex
    return [Expr(f"Inverse({A})", A.dtype, A.shape), info(g, _matrices.singular_at, eliminated(g, A)[0]) if checked else zeros(g.out[1])]


def triangular(g: Any, a: Value, b: Value, upper: bool, transposed: bool = False, unit: bool = False) -> Value:
    lead = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = g.broadcast(a, (*lead, *a.shape[-2:])), g.broadcast(b, (*lead, *b.shape[-2:]))
    words = f"lower={_word(not upper)}, transpose={_word(transposed)}, unit={_word(unit)}"
    return g.let(f"TriangularSolve({a}, {b}, {words})", b.dtype, b.shape)


def _word(x: bool) -> str:
    return "true" if x else "false"


@row("linalg_solve_triangular")
def solve_triangular(g: Any, self_: Value, B: Value, upper: bool, left: bool, unitriangular: bool) -> Any:
    if (none := nothing(g)) is not None:
        return none
    if left:
        return triangular(g, self_, B, upper, unit=unitriangular)
    return turned(g, triangular(g, self_, turned(g, B), upper, True, unitriangular))


@row("triangular_solve")
def triangular_solve(g: Any, self_: Value, A: Value, upper: bool, transpose: bool, unitriangular: bool) -> Any:
    real(A)
    return [triangular(g, A, self_, upper, transpose, unitriangular), g.broadcast(A, g.out[1].shape)]


@row("cholesky_solve")
def cholesky_solve(g: Any, self_: Value, input2: Value, upper: bool) -> Any:
    if (none := nothing(g)) is not None:
        return none
    real(self_, input2)
    y = triangular(g, input2, self_, upper, upper)
    return triangular(g, input2, y, upper, not upper)


@row("cholesky_inverse")
def cholesky_inverse(g: Any, self_: Value, upper: bool) -> Any:
    if (none := nothing(g)) is not None:
        return none
    real(self_)
    n = self_.shape[-1]
    diagonal = f"LogicalOr({self_} != {number(0, self_.dtype)}, Eye({n}, m={n}, dtype=bool) == false)"
    g.check_all(diagonal, "cholesky_inverse: A diagonal element is zero, the inversion could not be completed because the input matrix is singular.")
    return cholesky_solve(g, g.let(f"Eye({n}, m={n}, dtype={DTYPES[self_.dtype]})", self_.dtype, (n, n)), self_, upper)


@row("linalg_lu_solve")
def lu_solve(g: Any, LU: Value, pivots: Value, B: Value, left: bool, adjoint: bool) -> Any:
    if (none := nothing(g)) is not None:
        return none
    real(LU, B)
    exchanges(g, pivots, LU.shape[-2], "lu_solve")
    b = B if left else turned(g, B)
    f = _matrices.solved if adjoint != left else _matrices.solved_transposed
    x, = each(g, f, [(LU, 2), (pivots, 1), (b, 2)], [b.shape[-2:]], [b.dtype])
    return x if left else turned(g, x)


@row("_linalg_solve_ex")
def solve_ex(g: Any, A: Value, B: Value, left: bool, check_errors: bool) -> Any:
    if not g.out[0].numel:
        return [zeros(o) for o in g.out]
    real(A, B)
    list_ = B.ndim == 1 or B.ndim + 1 == A.ndim and B.shape == A.shape[:-1]
    b = g.reshape(B, (*B.shape, 1)) if list_ else B if left else turned(g, B)
    a = A if left else turned(g, A)
    lead = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = g.broadcast(a, (*lead, *a.shape[-2:])), g.broadcast(b, (*lead, *b.shape[-2:]))
    x = g.let(f"Solve({a}, {b})", b.dtype, b.shape)
    more = eliminated(g, A)[:2] if any(map(g.uses, (1, 2, 3))) else [None, None]
    return [g.reshape(x, g.out[0].shape) if list_ or left else turned(g, x), *more,
            info(g, _matrices.singular_at, more[0]) if g.uses(3) else zeros(g.out[3])]


def factored(g: Any, a: Value) -> list:
    """LU and pivots, of the transposed matrix where PyTorch factors that: where rows are columns of LAPACK's."""
    rows = g.node.args[0].meta["val"].is_contiguous()
    return eliminated(g, turned(g, a) if rows else a)[:2]


def one(o: Value, x: int) -> Expr:
    return Expr(f"Full({number(x, o.dtype)}, shape={o.shape})", o.dtype, o.shape)


@row("_linalg_det")
def det(g: Any, A: Value) -> Any:
    if not A.numel:
        return [one(g.out[0], 1), zeros(g.out[1]), zeros(g.out[2])]
    real(A)
    more = factored(g, A) if g.uses(1) or g.uses(2) else [None, None]
    return [g.let(f"Det({A})", A.dtype, g.out[0].shape), *more]


@row("_linalg_slogdet")
def slogdet(g: Any, A: Value) -> Any:
    if not A.numel:
        return [one(g.out[0], 1), *map(zeros, g.out[1:])]
    real(A)
    lu_, pivots = factored(g, A)
    sign, log = each(g, _matrices.sign_and_log, [(lu_, 2), (pivots, 1)], [(), ()], [A.dtype, A.dtype])
    return [sign, log, lu_, pivots]


@row("linalg_matrix_exp")
def matrix_exp(g: Any, self_: Value) -> Any:
    if (none := nothing(g)) is not None:
        return none
    real(self_)
    return g.let(f"{g.function(decompositions.TABLE['expm'])}({self_})", self_.dtype, self_.shape)


# ---- Fourier transforms ----

def transformed(g: Any, x: Value, dims: list, forward: bool) -> Value:
    """Along each of some dims, of complex numbers, and not scaled."""
    for d in dims:
        x = g.let(f"Fft({x}, axis={d}, inverse={'false' if forward else 'true'})", g.out.dtype, x.shape)
    return x


def scaled(g: Any, x: Value, n: int, normalization: int) -> Value:
    """By 1, 1 / sqrt(n) or 1 / n."""
    if not normalization:
        return x
    by = 1 / math.sqrt(n) if normalization == 1 else 1 / n
    return g.let(f"{x} * {number(by, x.dtype)}", x.dtype, x.shape)


@row("_fft_c2c")
def c2c(g: Any, self_: Value, dim: list, normalization: int, forward: bool) -> Any:
    if (none := nothing(g)) is not None:
        return none
    dims = [d % self_.ndim for d in dim]
    return scaled(g, transformed(g, self_, dims, forward), math.prod(self_.shape[d] for d in dims), normalization)


@row("_fft_r2c")
def r2c(g: Any, self_: Value, dim: list, normalization: int, onesided: bool) -> Any:
    if (none := nothing(g)) is not None:
        return none
    dims = [d % self_.ndim for d in dim]
    x = self_
    if onesided:
        x = transformed(g, x, dims[-1:], True)
        x = transformed(g, g.slice(x, dims[-1], 0, g.out.shape[dims[-1]]), dims[:-1], True)
    else:
        x = transformed(g, x, dims, True)
    return scaled(g, x, math.prod(self_.shape[d] for d in dims), normalization)


@row("_fft_c2r")
def c2r(g: Any, self_: Value, dim: list, normalization: int, last_dim_size: int) -> Any:
    if (none := nothing(g)) is not None:
        return none
    dims = [d % self_.ndim for d in dim]
    x = transformed(g, self_, dims[:-1], False)
    axes = list(range(x.ndim))
    axes[dims[-1]], axes[-1] = axes[-1], axes[dims[-1]]
    y = g.transpose(x, axes)
    name = g.function(fft.TABLE["irfft"], n=int(last_dim_size), axis=-1, norm="forward")
    r = g.transpose(g.let(f"{name}({y})", g.out.dtype, (*y.shape[:-1], last_dim_size)), axes)
    return scaled(g, r, math.prod(g.out.shape[d] for d in dims), normalization)
