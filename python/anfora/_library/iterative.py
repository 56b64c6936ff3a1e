# SPDX-License-Identifier: Apache-2.0
"""Iterative solvers by the names of jax.scipy.sparse.linalg."""
from __future__ import annotations

from typing import Any

from .._ops import op
from .composed import Composed, into

ITERATIVE: dict[str, Any] = {}
iteratively = into(ITERATIVE)


class OfMatrix(Composed):
    """A solver whose first argument is a function; one that is called with a matrix takes that of its products with vectors."""

    def __call__(self, A: Any, *args: Any, **kw: Any) -> Any:
        return super().__call__(A, *args, **kw) if callable(A) else super().__call__(products(A), *args, **kw)

    def _emit_call(self, w: Any, c: Any) -> str:
        import ast
        node = c.args[0] if c.args else c.kw.get("A")
        known, f = w.static(node) if node is not None else (False, None)
        if not isinstance(node, ast.Lambda) and not (known and callable(f)) and not w.is_function(node):
            v = ast.arg("v__")
            matrix = ast.BinOp(node, ast.MatMult(), ast.Name("v__", ast.Load()))
            lam = ast.Lambda(ast.arguments(posonlyargs=[], args=[v], kwonlyargs=[], kw_defaults=[], defaults=[]), matrix)
            for n in ast.walk(lam):
                if isinstance(n, (ast.expr, ast.arg)) and not hasattr(n, "lineno"):
                    ast.copy_location(n, c.node)
            if c.args:
                c.args = [lam, *c.args[1:]]
            else:
                c.kw["A"] = lam
        return super()._emit_call(w, c)


def products(A: Any) -> Any:
    def product(v):
        return A @ v
    return product


@iteratively
def cg(A: Any, b, x0: Any = None, /, tol: Any = 1e-5, atol: Any = 0.0, maxiter=None, M: Any = None):
    """(x, None) with A x = b, of a symmetric positive definite matrix or the function of its products with vectors: conjugate gradients
    until the residual is at most max(tol * |b|, atol), or maxiter rounds; 10 times the size of b if that is not given."""
    most = 10 * b.size if maxiter is None else maxiter
    x = op.zeros_like(b) * 1.0 if x0 is None else x0 * 1.0
    r = b - A(x)
    z = r if M is None else M(r)
    p, rz, k = z, op.sum(r * z), 0
    least = op.maximum(tol * op.sqrt(op.sum(b * b)), op.cast_like(atol, b * 1.0)) ** 2
    while k < most and op.sum(r * r) > least:
        Ap = A(p)
        alpha = rz / op.sum(p * Ap)
        x = x + alpha * p
        r = r - alpha * Ap
        z = r if M is None else M(r)
        again = op.sum(r * z)
        p = z + (again / rz) * p
        rz = again
        k = k + 1
    return x + 0 * op.sum(r * r), None  # NaN where the residual is


for _name, _f in ITERATIVE.items():
    ITERATIVE[_name] = OfMatrix(_f.__wrapped__)
    ITERATIVE[_name].__name__ = ITERATIVE[_name].__qualname__ = _name
