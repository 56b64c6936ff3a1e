# SPDX-License-Identifier: Apache-2.0
"""All operations, by NumPy's names where NumPy has them; those of deep learning by their usual ones.

>>> import anfora.numpy as np
>>> np.softmax(np.sin(x))  # outside a compiled function this compiles one operation
"""
import math as _math

from . import fft, linalg
from ._compile.builtins import array, asarray
from ._library import complexes as _complexes  # noqa: F401: fills COMPOSED
from ._library import chosen as _chosen  # noqa: F401: fills HELPERS
from ._library import arrays as _more
from ._library import numeric as _numeric  # noqa: F401: fills COMPOSED
from ._library import numbers as _numbers  # noqa: F401: fills HELPERS
from ._library.vectorized import vectorize
from ._library.composed import COMPOSED as _COMPOSED
from ._ops import OPS as _OPS
from ._core import Array as ndarray  # noqa: F401: NumPy's name
from ._library.standard import GRIDS as _GRIDS, TABLE as _OUTSIDE, VERSION as __array_api_version__, __array_namespace_info__
from ._names import missing as _missing
from ._types import BY_NUMPY_NAME as _DTYPES, DTYPES as _ALL, finfo, iinfo

pi, e, inf, nan, newaxis = _math.pi, _math.e, _math.inf, _math.nan, None
euler_gamma = 0.57721566490153286
_COMPOSED |= {"degrees": _COMPOSED["rad2deg"], "radians": _COMPOSED["deg2rad"], "in1d": _COMPOSED["isin"]}
# What NumPy has and this has not, and what to write instead
ELSEWHERE = dict.fromkeys(("save", "load", "savez", "savez_compressed"), "anfora.save and anfora.load keep trees of arrays, and NumPy's functions take arrays")
ELSEWHERE |= dict.fromkeys(("loadtxt", "genfromtxt", "fromfile", "frombuffer", "fromiter", "fromstring", "savetxt"), "read with NumPy; its arrays are arguments here")
ELSEWHERE |= dict.fromkeys(("copyto", "place", "putmask"), "arrays do not change; write where(mask, value, x) or x.at[i].set(value)")
ELSEWHERE |= dict.fromkeys(("roots", "poly1d", "polynomial"), "there are no eigenvalues of matrices that are not symmetric; polyval, polyfit and polymul are there")
ELSEWHERE |= dict.fromkeys(("seterr", "geterr", "errstate", "nditer", "ndenumerate", "ndindex"), "it is NumPy's own, for its arrays")
ELSEWHERE |= {"random": "anfora.random has random numbers, which take a key",
              "frompyfunc": "vectorize(f) is the function of each element", "matrix": "arrays of two dims are matrices; a @ b multiplies them",
              "ma": "where= of sums takes a mask", "row_stack": "write vstack", "product": "write prod", "alltrue": "write all", "sometrue": "write any"}
KINDS = ("generic", "number", "integer", "signedinteger", "unsignedinteger", "inexact", "floating", "complexfloating")  # of element types, for issubdtype
globals().update(_OPS | _COMPOSED | _OUTSIDE | _GRIDS | _DTYPES | {"bool": _ALL["bool"], "fft": fft})
__all__ = [*(_OPS.keys() - {"fft"}), *_COMPOSED, *_OUTSIDE, *_GRIDS, *_DTYPES, *KINDS, "ndarray", "pi", "e", "inf", "nan", "newaxis", "euler_gamma", "array", "asarray", "fft", "finfo", "iinfo", "linalg", "vectorize"]


def __dir__() -> list[str]:
    return sorted(__all__)


_absent = _missing(__name__, __all__)


def __getattr__(name: str) -> object:
    if name in KINDS:
        import numpy
        return getattr(numpy, name)
    if name in ELSEWHERE:
        raise AttributeError(f"{__name__} has no {name}: {ELSEWHERE[name]}")
    return _absent(name)
