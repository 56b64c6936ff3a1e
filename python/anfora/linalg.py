# SPDX-License-Identifier: Apache-2.0
"""Linear algebra by NumPy's names: anfora.numpy.linalg."""
from ._composed import COMPOSED as _COMPOSED, LINALG as _LINALG
from ._decompositions import TABLE as _DECOMPOSED
from ._ops import OPS as _OPS

_HERE = {name: _COMPOSED[name] for name in _LINALG}
_HERE |= {name: _OPS[name] for name in ("inv", "det", "cholesky", "matmul", "triangular_solve")}
_HERE |= _DECOMPOSED
globals().update(_HERE)
__all__ = [*_HERE]
