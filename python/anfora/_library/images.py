# SPDX-License-Identifier: Apache-2.0
"""Images in other sizes, and arrays between their elements, by the names of jax.image and jax.scipy.ndimage. Written as the functions
of composed.py are. A new size is a product with a matrix of weights along each axis; the weights are functions of the distance
between the centres of old and new elements (Keys 1981 for the cubic one)."""
from __future__ import annotations

import enum
import math
from typing import Any, Sequence

from .._compile.known import Known
from .._ops import op
from .composed import into, moveaxis

IMAGES: dict[str, Any] = {}
NDIMAGE: dict[str, Any] = {}
_image, _between = into(IMAGES), into(NDIMAGE)


class ResizeMethod(enum.Enum):
    """How an element is made of those around it, by JAX's names."""

    NEAREST, LINEAR, LANCZOS3, LANCZOS5, CUBIC, CUBIC_PYTORCH, AREA = range(7)

    @staticmethod
    def from_string(s: str) -> "ResizeMethod":
        return ResizeMethod[method_name(s).upper().replace("-", "_")]


SAME = {"bilinear": "linear", "trilinear": "linear", "triangle": "linear", "bicubic": "cubic", "tricubic": "cubic", "bicubic-pytorch": "cubic-pytorch"}


@Known
def method_name(method: Any) -> str:
    """One name of each method."""
    name = method.name.lower().replace("_", "-") if isinstance(method, enum.Enum) else method
    name = SAME.get(name, name)
    if name not in ("nearest", "linear", "lanczos3", "lanczos5", "cubic", "cubic-pytorch", "area"):
        raise ValueError(f"there is no method {method!r}: nearest, linear, cubic, cubic-pytorch, lanczos3, lanczos5 or area")
    return name


def lanczos(x, radius):
    """Lanczos' window of sinc."""
    near = x > 1e-3
    y = radius * op.sin(math.pi * x) * op.sin(math.pi * x / radius)
    return op.where(x > radius, 0.0, op.where(near, y / op.where(near, math.pi ** 2 * x * x, 1.0), 1.0))


def cubic(x, a):
    """The cubic curve of the parameter a."""
    inside = ((a + 2) * x - (a + 3)) * x * x + 1
    outside = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return op.where(x >= 2, 0.0, op.where(x >= 1, outside, inside))


def curve(x, method):
    """The weight of elements at a distance."""
    if method == "linear":
        return op.maximum(0.0, 1 - x)
    if method == "cubic":
        return cubic(x, -0.5)
    if method == "cubic-pytorch":
        return cubic(x, -0.75)
    return lanczos(x, 3.0 if method == "lanczos3" else 5.0)


def shares(weights):
    """Weights that sum to 1, or 0 where there are none."""
    whole = op.sum(weights, 0, keepdims=True)
    some = op.abs(whole) > 1000 * 2.0 ** -23
    return op.where(some, weights / op.where(some, whole, 1.0), 0.0)


def weights_of(m, n, scale, translation, method, antialias):
    """The matrix that makes n elements of m: the element at x of the old ones is at scale * x + translation of the new ones."""
    by = 1.0 / scale
    at = (op.arange(n) + 0.5) * by - translation * by - 0.5
    if method == "area":
        low, cell = op.arange(n) * by - translation * by, op.arange(m)[:, None] * 1.0
        weights = op.maximum(0.0, op.minimum((low + by)[None, :], cell + 1) - op.maximum(low[None, :], cell))
    elif method == "cubic-pytorch" and not antialias:  # the elements at the ends stand for those beyond
        k = op.clip(op.floor(at)[:, None] + op.arange(4)[None, :] - 1, -2, m + 1)
        part = curve(op.abs(at[:, None] - k), method)
        same = op.clip(k, 0, m - 1)[None, :, :] == op.arange(m)[:, None, None]
        return shares(op.sum(op.where(same, part[None, :, :], 0.0), -1))
    else:
        wide = op.maximum(by * 1.0, 1.0) if antialias else 1.0
        weights = curve(op.abs(at[None, :] - op.arange(m)[:, None]) / wide, "cubic" if method == "cubic-pytorch" else method)
    return op.where((at >= -0.5) & (at <= m - 0.5), shares(weights), 0.0)


@_image
def resize(image, /, shape, method, antialias=True, precision=None):
    """The image with other sizes: method "nearest", "linear", "cubic", "cubic-pytorch", "lanczos3", "lanczos5" or "area". With
    antialias each element of a smaller image is made of all those that it stands for."""
    name = method_name(method)
    assert len(shape) == op.ndim(image), "resize: the shape has a size for each dim of the image"
    y = image if name == "nearest" else image * 1.0
    for d in range(len(shape)):
        m = image.shape[d]
        if name == "nearest":
            y = op.take(y, op.cast(op.floor(op.cast((op.arange(shape[d]) + 0.5) * m / shape[d], "f32")), "i64"), d)
        elif m != shape[d]:
            w = weights_of(m, shape[d], shape[d] / m, 0.0, name, antialias)
            y = moveaxis(moveaxis(y, d, -1) @ op.cast_like(w, y), -1, d)
    return y


@_image
def scale_and_translate(image, /, shape, spatial_dims, scale: Any, translation: Any, method, antialias=True, precision=None):
    """The image in a frame of this shape, its coordinates x along spatial_dims at x * scale + translation."""
    name = method_name(method)
    assert name != "nearest", "scale_and_translate: nearest is a method of resize alone"
    y = image * 1.0
    for i, d in enumerate(spatial_dims):
        w = weights_of(image.shape[d], shape[d], scale[i] * 1.0, translation[i] * 1.0, name, antialias)
        y = moveaxis(moveaxis(y, d, -1) @ op.cast_like(w, y), -1, d)
    return y


# ---- between elements ----

def away_from_zero(x):
    """The nearest whole number; of two the one further from 0."""
    return op.where(x < 0, -op.floor(0.5 - x), op.floor(x + 0.5))


def placed(index, size, mode):
    """The index that stands for one outside."""
    if mode == "nearest":
        return op.clip(index, 0, size - 1)
    if mode == "wrap":
        return op.mod(index, size)
    if mode == "mirror":
        return op.abs(op.mod(index + (size - 1), max(2 * (size - 1), 1)) - (size - 1))
    if mode == "reflect":
        return op.floor_divide(op.abs(op.mod(2 * index + 1 + 2 * size, 4 * size) - 2 * size) - 1, 2)
    return op.clip(index, 0, size - 1)


@_between
def map_coordinates(input, coordinates: Sequence, /, order, mode="constant", cval: Any = 0.0):  # noqa: A002
    """The elements of an array at coordinates, an array of them for each dim: of order 0 the nearest, of order 1 between neighbours.
    mode says what is outside: "constant" the value cval, "nearest", "wrap", "mirror" or "reflect" elements."""
    assert order == 0 or order == 1, "map_coordinates: order is 0 or 1"
    assert mode in ("constant", "nearest", "wrap", "mirror", "reflect"), "map_coordinates: mode is constant, nearest, wrap, mirror or reflect"
    n = op.ndim(input)
    assert len(coordinates) == n, "map_coordinates: there is an array of coordinates for each dim"
    flat, y = op.ravel(input), 0.0
    for corner in range(2 ** n if order == 1 else 1):
        place, weight, inside = 0, 1.0, True
        for d in range(n):
            x, size = coordinates[d], input.shape[d]
            if order == 0:
                index = op.cast(away_from_zero(x * 1.0), "i64")
            else:
                low = op.floor(x * 1.0)
                upper = corner // 2 ** d % 2
                index = op.cast(low, "i64") + upper
                weight = weight * (x - low if upper == 1 else 1 - (x - low))
            place = place * size + placed(index, size, mode)
            inside = inside & (index >= 0) & (index < size)
        found = op.take(flat, place, 0)
        y = y + weight * (op.where(inside, found, op.cast_like(cval, flat)) if mode == "constant" else found)
    for kind in ("f16", "bf16", "f32", "f64", "c64", "c128"):
        if input.dtype == kind:
            return op.cast_like(y, input)
    return op.cast_like(away_from_zero(y), input)
