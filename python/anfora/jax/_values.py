# SPDX-License-Identifier: Apache-2.0
"""How primitives of linear algebra and special functions are lowered, whatever JAX's default device is: as for a CPU, by calls of LAPACK, which
the reader knows (frontend/stablehlo/stablehlo.anf), or in terms of JAX itself. The derivatives are JAX's own rules."""
from __future__ import annotations

from typing import Any, Callable

from jax import lax
from jax._src.interpreters import mlir
from jax._src.lax import linalg
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import hlo


def _cholesky(ctx: Any, a: Any) -> list:
    return [hlo.cholesky(a, lower=ir.BoolAttr.get(True))]


def values(plainly: Callable) -> tuple:
    """Lowerings of primitives; `plainly` is JAX's own for a CPU."""
    def of(f: Callable) -> Callable:
        return mlir.lower_fun(f, multiple_results=False)
    called = (linalg.lu_p, linalg.geqrf_p, linalg.householder_product_p, linalg.eigh_p, linalg.svd_p, lax.zeta_p, lax.polygamma_p)
    return ((linalg.cholesky_p, _cholesky), (linalg.triangular_solve_p, linalg._triangular_solve_lowering), *((p, plainly) for p in called),
            (linalg.ormqr_p, of(linalg._ormqr_lowering)), (linalg.tridiagonal_solve_p, of(linalg._tridiagonal_solve_jax)))


FACTORISATIONS = (linalg.cholesky_p, linalg.lu_p, linalg.qr_p, linalg.eigh_p, linalg.svd_p)
