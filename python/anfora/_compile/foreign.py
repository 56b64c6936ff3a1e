# SPDX-License-Identifier: Apache-2.0
"""Functions of other libraries that compiled functions may call: which operation each one is. A name stands here only
if the operation means what the library's function does, for the arguments that both take; every other function is
refused. Functions are recognised by what they are, not by their names alone."""
from __future__ import annotations

import sys
from typing import Any

from .._ops import COMPOSED, OPS

_POINTWISE = """abs exp expm1 log log1p log2 log10 sqrt sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh
    floor ceil trunc sign square reciprocal isnan isinf isfinite maximum minimum where"""
_INVERSES = "acos acosh asin asinh atan atan2 atanh"
_NUMPY = _POINTWISE + """ absolute add all allclose amax amin angle any append arange arctan2 argmax argmin argsort around array_equal
    array_split atleast_1d atleast_2d atleast_3d average bincount bitwise_and bitwise_not bitwise_or bitwise_xor
    broadcast_arrays broadcast_to cbrt clip column_stack concat concatenate conj conjugate convolve copysign corrcoef correlate
    count_nonzero cov cross cumprod cumsum cumulative_prod cumulative_sum deg2rad diag diag_indices diagonal diff digitize divide divmod dot dstack ediff1d einsum empty empty_like
    equal exp2 expand_dims eye fabs fix flip fliplr flipud float_power floor_divide fmax fmin fmod full full_like geomspace histogram
    gradient greater greater_equal heaviside hsplit hstack hypot identity imag indices inner interp invert isclose isin kron
    left_shift less less_equal linspace logaddexp logaddexp2 logical_and logical_not logical_or logical_xor logspace matmul max
    matrix_transpose mean median meshgrid min mod moveaxis multiply nan_to_num nanargmax nanargmin nancumprod nancumsum nanmax nanmean nanmedian nanmin nanpercentile nanprod nanquantile
    nanstd nansum nanvar ndim nextafter negative not_equal ones
    ones_like outer pad percentile permute_dims polyval positive pow power prod ptp quantile rad2deg ravel real remainder repeat
    reshape right_shift rint roll rollaxis rot90 round round_ searchsorted select shape signbit sinc size sort split squeeze
    stack std subtract sum swapaxes take take_along_axis tensordot tile trace transpose trapezoid tri tril tril_indices triu triu_indices true_divide
    unravel_index unstack vander var vdot vecdot vsplit vstack zeros zeros_like
    apply_along_axis array_equiv astype bartlett bitwise_count bitwise_invert bitwise_left_shift bitwise_right_shift blackman block choose copy degrees delete
    diag_indices_from diagflat dsplit frexp fromfunction gcd hamming hanning histogram2d histogram_bin_edges i0 insert iscomplex isneginf isposinf isreal ix_
    kaiser lcm ldexp lexsort matvec modf poly polyadd polyder polydiv polyfit polyint polymul polysub radians ravel_multi_index resize spacing
    unwrap vecmat argpartition argwhere compress extract flatnonzero intersect1d nonzero packbits partition setdiff1d setxor1d trim_zeros union1d unique unpackbits """ + _INVERSES
_LINALG = """norm inv det cholesky solve slogdet matrix_power multi_dot eigh eigvalsh qr svd pinv lstsq matrix_rank
    cond cross diagonal matmul matrix_norm matrix_transpose outer svdvals tensordot tensorinv tensorsolve trace vecdot vector_norm"""
_FFT = """fft ifft rfft irfft hfft ihfft fft2 ifft2 rfft2 irfft2 fftn ifftn rfftn irfftn fftfreq rfftfreq fftshift ifftshift"""
_SPECIAL = """erf erfc gammaln=lgamma digamma expit=sigmoid gamma beta betainc betaln boxcox boxcox1p entr erfinv exp1 expi gammainc gammaincc i0 i0e i1 i1e
    kl_div log_ndtr logit logsumexp ndtr ndtri poch rel_entr xlog1py xlogy zeta"""
_MATRICES = """block_diag cho_factor cho_solve cholesky circulant companion convolution_matrix det eigh expm fiedler hankel helmert hilbert inv leslie
    lu lu_factor lu_solve polar qr solve solve_triangular svd toeplitz"""  # of scipy.linalg, which are other functions than NumPy's of these names
_SIGNAL = "convolve convolve2d correlate correlate2d detrend fftconvolve"
_NN = "relu relu6 sigmoid softplus silu elu celu selu log_softmax softmax"

# By module: the names that mean the same here, then those that have another name here ("there=here")
TABLE = {
    "numpy": _NUMPY,
    "numpy.linalg": _LINALG,
    "numpy.lib.stride_tricks": "sliding_window_view",
    "math": """acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs floor fmod gamma
        isfinite isinf isnan lgamma log log10 log1p log2 nextafter sin sinh sqrt tan tanh trunc degrees=rad2deg radians=deg2rad
        dist=distance ldexp modf frexp """ + " ".join(f"{n}=math_{n}" for n in (
            "comb", "factorial", "gcd", "hypot", "isclose", "isqrt", "lcm", "perm", "remainder")),
    "cmath": "cos cosh exp log phase=angle sin sinh sqrt tan tanh",
    "numpy.fft": _FFT,
    "jax.numpy": _NUMPY,
    "jax.numpy.fft": _FFT,
    "jax.numpy.linalg": _LINALG,
    "jax.nn": _NN + " leaky_relu log_sigmoid mish one_hot gelu=gelu_tanh logsumexp",
    "jax.lax": """abs exp expm1 log log1p log2 sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh floor ceil
        sign square reciprocal cbrt erf erfc lgamma digamma add sub mul neg atan2 pow=power max=maximum min=minimum rem=fmod
        logistic=sigmoid is_finite=isfinite exp2 select=where rev=flip eq=equal ne=not_equal lt=less le=less_equal gt=greater
        ge=greater_equal population_count=pop_count real imag conj concatenate bitwise_and bitwise_or bitwise_xor""",
    "jax.scipy.special": _SPECIAL,
    "scipy.special": _SPECIAL + " psi=digamma",
    "jax.scipy.linalg": _MATRICES,
    "scipy.linalg": _MATRICES,
    "jax.scipy.signal": _SIGNAL,
    "scipy.signal": _SIGNAL,
    "scipy.integrate": "trapezoid",
    "scipy.fft": "dct dctn idct idctn",
    "torch": _POINTWISE + """ absolute erf erfc lgamma digamma sigmoid relu selu softmax log_softmax exp2 rsqrt neg negative sub
        subtract mul multiply add atan2 hypot logaddexp pow remainder fmod floor_divide matmul mm=matmul round stack concatenate
        concat cat=concatenate sum mean prod argmax argmin cumsum cumprod all any outer einsum tril triu flip roll tile trace
        logsumexp eq=equal ne=not_equal lt=less le=less_equal gt=greater ge=greater_equal zeros_like ones_like real imag conj
        logical_and logical_or logical_xor logical_not reshape broadcast_to """ + _INVERSES,
    "torch.special": "erf erfc gammaln=lgamma digamma psi=digamma expit=sigmoid",
    "torch.nn.functional": "relu relu6 selu silu mish softplus softsign gelu sigmoid tanh",
}
_NAMES = {module: dict((n.split("=") * 2)[:2] for n in names.split()) for module, names in TABLE.items()}
# Arguments by name that mean the same under another name here
ARGUMENTS = {"torch": {"dim": "axis", "keepdim": "keepdims", "input": "x"}}
ROOTS = {module.split(".")[0] for module in TABLE}


def counterpart(f: Any) -> Any:
    """The operation, or the function made of operations, that a function of another library is; None if there is none."""
    name = getattr(f, "__name__", None)
    if not isinstance(name, str) or isinstance(f, type):
        return None
    if type(getattr(f, "__self__", None)).__module__.startswith("scipy.stats."):
        return of_distribution(f.__self__, name)
    for module, names in _NAMES.items():
        if name in names and module in sys.modules and getattr(sys.modules[module], name, None) is f:
            from .. import fft, linalg, scipy
            from .._library.composed import HELPERS
            from .._library.standard import TABLE as OUTSIDE
            part = module.rpartition(".")[2]
            own = vars(getattr(scipy, part, None)) if "scipy" in module else {"fft": fft.TABLE, "linalg": linalg._HERE}.get(part, {})
            if names[name] in own:
                return own[names[name]]
            return HELPERS.get(names[name]) or COMPOSED.get(names[name]) or OUTSIDE.get(names[name]) or OPS.get(names[name])
    return None


def of_distribution(owner: Any, method: str) -> Any:
    """The function that a method of a distribution of scipy.stats is, such as norm.logpdf."""
    from ..scipy import stats
    name = next((n for n in vars(stats) if getattr(sys.modules["scipy.stats"], n, None) is owner), None)
    return getattr(getattr(stats, name), method, None) if name else None


def names_of(here: str) -> set[str]:
    """The names that libraries have for a function of this package."""
    return {there for names in _NAMES.values() for there, name in names.items() if name == here}


def module_of(f: Any) -> str:
    """The library that a function is of; ufuncs do not tell it."""
    module = getattr(f, "__module__", None)
    return module or ("numpy" if type(f).__name__ == "ufunc" else "")
