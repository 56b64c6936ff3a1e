# SPDX-License-Identifier: Apache-2.0
"""Linear algebra by NumPy's names: anfora.numpy.linalg."""
from ._names import missing as _missing
from ._library.composed import COMPOSED as _COMPOSED, LINALG as _LINALG
from ._library.decompositions import TABLE as _DECOMPOSED
from ._library.linalg import TABLE as _LINEAR
from ._ops import OPS as _OPS

_HERE = {name: _COMPOSED[name] for name in _LINALG}
_HERE |= {"inv": _COMPOSED["inv"]} | {name: _OPS[name] for name in ("det", "matmul", "triangular_solve")}
_HERE |= _DECOMPOSED | _LINEAR
globals().update(_HERE)
__all__ = [*_HERE]
__getattr__ = _missing(__name__, __all__)
