# SPDX-License-Identifier: Apache-2.0
"""First values of parameters by the names of jax.nn.initializers: each gives a function of a key, a shape and an element type.

>>> w = glorot_uniform()(key, (784, 10))"""
from __future__ import annotations

import math
from typing import Any, Callable

from . import numpy as anp, random
from ._types import default_dtype


def _fans(shape: Any, in_axis: int, out_axis: int) -> tuple[float, float]:
    """How many numbers go into an output, and how many outputs an input goes to."""
    if len(shape) < 2:
        raise ValueError(f"a shape of at least two dims has an in and an out, not {tuple(shape)}")
    field = math.prod(shape) / (shape[in_axis] * shape[out_axis])
    return shape[in_axis] * field, shape[out_axis] * field


def variance_scaling(scale: float, mode: str, distribution: str, in_axis: int = -2, out_axis: int = -1, dtype: Any = None) -> Callable:
    """Numbers whose variance is scale / n; n is the "fan_in", the "fan_out" or their mean, "fan_avg". The distribution is
    "normal", "truncated_normal" or "uniform"."""
    if mode not in ("fan_in", "fan_out", "fan_avg") or distribution not in ("normal", "truncated_normal", "uniform"):
        raise ValueError(f"there is no {mode} or no {distribution}")

    def init(key: Any, shape: Any, dtype: Any = dtype) -> Any:
        fan_in, fan_out = _fans(shape, in_axis, out_axis)
        variance = scale / max(1.0, {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[mode])
        if distribution == "normal":
            return random.normal(key, tuple(shape), dtype) * math.sqrt(variance)
        if distribution == "uniform":
            return random.uniform(key, tuple(shape), dtype, -1.0, 1.0) * math.sqrt(3 * variance)
        # the standard deviation of the normal distribution between -2 and 2
        return random.truncated_normal(key, -2.0, 2.0, tuple(shape), dtype) * (math.sqrt(variance) / 0.87962566103423978)
    return init


def glorot_uniform(**options: Any) -> Callable:
    """Glorot's, also called Xavier's."""
    return variance_scaling(1.0, "fan_avg", "uniform", **options)


def glorot_normal(**options: Any) -> Callable:
    """Glorot's from the normal distribution."""
    return variance_scaling(1.0, "fan_avg", "truncated_normal", **options)


def lecun_uniform(**options: Any) -> Callable:
    """LeCun's."""
    return variance_scaling(1.0, "fan_in", "uniform", **options)


def lecun_normal(**options: Any) -> Callable:
    """LeCun's from the normal distribution."""
    return variance_scaling(1.0, "fan_in", "truncated_normal", **options)


def he_uniform(**options: Any) -> Callable:
    """He's, also called Kaiming's."""
    return variance_scaling(2.0, "fan_in", "uniform", **options)


def he_normal(**options: Any) -> Callable:
    """He's from the normal distribution."""
    return variance_scaling(2.0, "fan_in", "truncated_normal", **options)


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
        a = numpy.asarray(random.normal(key, (max(m, n), min(m, n)), "f64"))
        q, r = numpy.linalg.qr(a)
        q = q * numpy.sign(numpy.diagonal(r))
        q = (q.T if m < n else q).reshape(*(d for i, d in enumerate(shape) if i != column_axis % len(shape)), n)
        return anp.cast(scale * numpy.moveaxis(q, -1, column_axis), dtype=default_dtype() if dtype is None else dtype)
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


__all__ = ["constant", "glorot_normal", "glorot_uniform", "he_normal", "he_uniform", "kaiming_normal", "kaiming_uniform",
           "lecun_normal", "lecun_uniform", "normal", "ones", "orthogonal", "truncated_normal", "uniform", "variance_scaling",
           "xavier_normal", "xavier_uniform", "zeros"]
