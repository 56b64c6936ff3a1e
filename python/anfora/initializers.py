# SPDX-License-Identifier: Apache-2.0
"""First values of parameters by the names of jax.nn.initializers: each gives a function of a key, a shape and an element type.

>>> w = glorot_uniform()(key, (784, 10))"""
from __future__ import annotations

import math
from typing import Any, Callable

from . import numpy as anp, random
from ._types import default_dtype, dtype_name


def _sizes(shape: Any, axes: Any) -> int:
    """How many elements these axes have."""
    return math.prod(shape[i] for i in ((axes,) if isinstance(axes, int) else axes))


def _fans(shape: Any, in_axis: Any, out_axis: Any, batch_axis: Any) -> tuple[float, float]:
    """How many numbers go into an output, and how many outputs an input goes to. Axes that are of none of the three are those over
    which a convolution sums."""
    if len(shape) < 2 and in_axis == -2:
        raise ValueError(f"a shape of at least two dims has an in and an out, not {tuple(shape)}; in_axis may name others")
    one, two = _sizes(shape, in_axis), _sizes(shape, out_axis)
    field = math.prod(shape) / (one * two * _sizes(shape, batch_axis)) if math.prod(shape) else 1.0
    return one * field, two * field


def _complex(key: Any, shape: Any, dtype: Any, length: Callable) -> Any:
    """Complex numbers of any angle, whose absolute values are length of numbers from 0 to 1."""
    at, angle = random.split(key)
    r = length(random.uniform(at, shape, "f64"))
    return anp.cast(anp.make_complex(r * anp.cos(a := random.uniform(angle, shape, "f64") * (2 * math.pi)), r * anp.sin(a)), dtype)


def variance_scaling(scale: float, mode: str, distribution: str, in_axis: Any = -2, out_axis: Any = -1, batch_axis: Any = (),
                     dtype: Any = None) -> Callable:
    """Numbers whose variance is scale / n; n is the "fan_in", the "fan_out", their mean "fan_avg" or their geometric mean
    "fan_geo_avg". The distribution is "normal", "truncated_normal" or "uniform". Axes are numbers or lists of them."""
    if mode not in ("fan_in", "fan_out", "fan_avg", "fan_geo_avg") or distribution not in ("normal", "truncated_normal", "uniform"):
        raise ValueError(f"there is no {mode} or no {distribution}")

    def init(key: Any, shape: Any, dtype: Any = dtype) -> Any:
        one, two = _fans(shape, in_axis, out_axis, batch_axis)
        n = {"fan_in": one, "fan_out": two, "fan_avg": (one + two) / 2, "fan_geo_avg": math.sqrt(one * two)}[mode]
        variance, shape, of_complex = scale / (n or 1.0), tuple(shape), dtype is not None and dtype_name(dtype).startswith("c")
        if distribution == "normal":
            return random.normal(key, shape, dtype) * math.sqrt(variance)
        if distribution == "uniform" and of_complex:
            return _complex(key, shape, dtype, lambda u: anp.sqrt(u)) * math.sqrt(2 * variance)
        if distribution == "uniform":
            return random.uniform(key, shape, dtype, -1.0, 1.0) * math.sqrt(3 * variance)
        # the standard deviation of the normal distribution between -2 and 2, or within a circle of 2
        if of_complex:
            return _complex(key, shape, dtype, lambda u: anp.sqrt(-anp.log1p((math.exp(-4.0) - 1.0) * u))) * (math.sqrt(variance) / 0.95311164380491208)
        return random.truncated_normal(key, -2.0, 2.0, shape, dtype) * (math.sqrt(variance) / 0.87962566103423978)
    return init


def glorot_uniform(in_axis: Any = -2, out_axis: Any = -1, batch_axis: Any = (), dtype: Any = None) -> Callable:
    """Glorot's, also called Xavier's."""
    return variance_scaling(1.0, "fan_avg", "uniform", in_axis, out_axis, batch_axis, dtype)


def glorot_normal(in_axis: Any = -2, out_axis: Any = -1, batch_axis: Any = (), dtype: Any = None) -> Callable:
    """Glorot's from the normal distribution."""
    return variance_scaling(1.0, "fan_avg", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


def lecun_uniform(in_axis: Any = -2, out_axis: Any = -1, batch_axis: Any = (), dtype: Any = None) -> Callable:
    """LeCun's."""
    return variance_scaling(1.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


def lecun_normal(in_axis: Any = -2, out_axis: Any = -1, batch_axis: Any = (), dtype: Any = None) -> Callable:
    """LeCun's from the normal distribution."""
    return variance_scaling(1.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


def he_uniform(in_axis: Any = -2, out_axis: Any = -1, batch_axis: Any = (), dtype: Any = None) -> Callable:
    """He's, also called Kaiming's."""
    return variance_scaling(2.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


def he_normal(in_axis: Any = -2, out_axis: Any = -1, batch_axis: Any = (), dtype: Any = None) -> Callable:
    """He's from the normal distribution."""
    return variance_scaling(2.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


xavier_uniform, xavier_normal, kaiming_uniform, kaiming_normal = glorot_uniform, glorot_normal, he_uniform, he_normal


def normal(stddev: float = 1e-2, dtype: Any = None) -> Callable:
    """The normal distribution."""
    return lambda key, shape, dtype=dtype: random.normal(key, tuple(shape), dtype) * stddev


def truncated_normal(stddev: float = 1e-2, dtype: Any = None, lower: float = -2.0, upper: float = 2.0) -> Callable:
    """The normal distribution between two bounds."""
    return lambda key, shape, dtype=dtype: random.truncated_normal(key, lower, upper, tuple(shape), dtype) * stddev


def uniform(scale: float = 1e-2, dtype: Any = None) -> Callable:
    """Evenly from 0 to scale."""
    return lambda key, shape, dtype=dtype: random.uniform(key, tuple(shape), dtype) * scale


def orthogonal(scale: float = 1.0, column_axis: int = -1, dtype: Any = None) -> Callable:
    """A matrix whose rows or columns are orthonormal."""
    def init(key: Any, shape: Any, dtype: Any = dtype) -> Any:
        import numpy
        n = shape[column_axis]
        m = math.prod(shape) // n
        whole = dtype is not None and dtype_name(dtype).startswith("c")
        q, r = numpy.linalg.qr(numpy.asarray(random.normal(key, (max(m, n), min(m, n)), "c128" if whole else "f64")))
        signs = numpy.diagonal(r)
        q = q * (signs / numpy.abs(signs))
        q = (q.T if m < n else q).reshape(*(d for i, d in enumerate(shape) if i != column_axis % len(shape)), n)
        return anp.cast(scale * numpy.moveaxis(q, -1, column_axis), dtype=default_dtype() if dtype is None else dtype)
    return init


def delta_orthogonal(scale: float = 1.0, column_axis: int = -1, dtype: Any = None) -> Callable:
    """A kernel of a convolution over one to three dims that is an orthogonal matrix in the middle and 0 elsewhere."""
    def init(key: Any, shape: Any, dtype: Any = dtype) -> Any:
        import numpy
        if not 3 <= len(shape) <= 5 or shape[-1] < shape[-2]:
            raise ValueError(f"delta_orthogonal takes a kernel of 3 to 5 dims with no fewer outputs than inputs, not {tuple(shape)}")
        matrix = numpy.asarray(orthogonal(scale, column_axis, dtype)(key, shape[-2:]))
        kernel = numpy.zeros(shape, matrix.dtype)
        kernel[tuple((n - 1) // 2 for n in shape[:-2])] = matrix
        return anp.asarray(kernel)
    return init


def constant(value: Any, dtype: Any = None) -> Callable:
    """One value."""
    return lambda key, shape, dtype=dtype: anp.full(tuple(shape), value, dtype=default_dtype() if dtype is None else dtype)


def zeros(key: Any, shape: Any, dtype: Any = None) -> Any:
    """Zeros."""
    return anp.zeros(tuple(shape), dtype=dtype)


def ones(key: Any, shape: Any, dtype: Any = None) -> Any:
    """Ones."""
    return anp.ones(tuple(shape), dtype=dtype)


__all__ = ["constant", "delta_orthogonal", "glorot_normal", "glorot_uniform", "he_normal", "he_uniform", "kaiming_normal", "kaiming_uniform",
           "lecun_normal", "lecun_uniform", "normal", "ones", "orthogonal", "truncated_normal", "uniform", "variance_scaling",
           "xavier_normal", "xavier_uniform", "zeros"]
