# SPDX-License-Identifier: Apache-2.0
"""What programs take from jax.scipy: anfora.scipy.special, linalg, stats, signal, ndimage, fft, integrate, optimize and sparse."""
from . import nn
from ._library.composed import COMPOSED
from ._library.images import IMAGES, NDIMAGE, ResizeMethod
from ._library.iterative import ITERATIVE
from ._library.matrices import MATRICES
from ._library.optimize import OptimizeResults, minimize
from ._library.signal import COSINES, SIGNAL
from ._library.special import SPECIAL
from ._library.stats import stats
from ._names import Namespace
from ._ops import OPS

special = Namespace("anfora.scipy.special", **SPECIAL, logsumexp=nn.TABLE["logsumexp"], expit=OPS["sigmoid"], gammaln=OPS["lgamma"],
                    **{n: OPS[n] for n in ("erf", "erfc", "digamma")})
special.psi = special.digamma
linalg = Namespace("anfora.scipy.linalg", **({"inv": OPS["inv"], "det": OPS["det"]} | MATRICES))
integrate = Namespace("anfora.scipy.integrate", trapezoid=COMPOSED["trapezoid"])
sparse = Namespace("anfora.scipy.sparse", linalg=Namespace("anfora.scipy.sparse.linalg", **ITERATIVE))
signal = Namespace("anfora.scipy.signal", **SIGNAL)
ndimage = Namespace("anfora.scipy.ndimage", **NDIMAGE)
fft = Namespace("anfora.scipy.fft", **COSINES)
image = Namespace("anfora.image", ResizeMethod=ResizeMethod, **IMAGES)  # jax.image
optimize = Namespace("anfora.scipy.optimize", minimize=minimize, OptimizeResults=OptimizeResults)
__all__ = ["fft", "integrate", "linalg", "ndimage", "optimize", "signal", "sparse", "special", "stats"]
