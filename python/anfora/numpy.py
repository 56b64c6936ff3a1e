# SPDX-License-Identifier: Apache-2.0
"""All operations, by NumPy's names where NumPy has them; those of deep learning by their usual ones.

>>> import anfora.numpy as np
>>> np.softmax(np.sin(x))  # outside a compiled function this compiles one operation
"""
import math as _math

from . import fft, linalg
from ._builtins import array, asarray
from ._composed import COMPOSED as _COMPOSED
from ._ops import OPS as _OPS
from ._types import BY_NUMPY_NAME as _DTYPES, finfo, iinfo

pi, e, inf, nan, newaxis = _math.pi, _math.e, _math.inf, _math.nan, None
globals().update(_OPS | _COMPOSED | _DTYPES)
__all__ = [*_OPS, *_COMPOSED, *_DTYPES, "pi", "e", "inf", "nan", "newaxis", "array", "asarray", "fft", "finfo", "iinfo", "linalg"]


def __dir__() -> list[str]:
    return sorted(__all__)
