# SPDX-License-Identifier: Apache-2.0
"""Convolutions and cosine transforms by the names of jax.scipy.signal and jax.scipy.fft, written as the functions of composed.py are."""
from __future__ import annotations

import math
from typing import Any

from .. import fft
from .._ops import op
from .composed import SOME, into, moveaxis
from .windows import conv_general_dilated

SIGNAL: dict[str, Any] = {}
COSINES: dict[str, Any] = {}
_signal, _cosine = into(SIGNAL, lists=True), into(COSINES, lists=True)


RANKS = (1, 2, 3)
ALL = [tuple(range(n)) for n in SOME]


def part(y, m, n, mode, axis):
    """What is kept along an axis of the full convolution of m and n elements."""
    count = m if mode == "same" else max(m, n) - min(m, n) + 1
    return op.slice(y, (m + n - 1 - count) // 2, (m + n - 1 - count) // 2 + count, 1, axis)


def kept(y, a, b, mode):
    """What mode says of a full convolution."""
    assert mode in ("full", "same", "valid"), "convolve: mode is full, same or valid"
    if mode == "full":
        return y
    for rank in RANKS:
        if op.ndim(y) == rank:
            for d in range(rank):
                if mode == "valid":
                    assert (a.shape[d] - b.shape[d]) * (a.shape[0] - b.shape[0]) >= 0, "convolve: with mode valid one array is no smaller than the other in every dim"
                y = part(y, a.shape[d], b.shape[d], mode, d)
            return y
    raise ValueError("convolve: arrays have one to three dims")


def surrounded(a, b, before):
    """The array with as many zeros behind as the other array has elements but one, and before it too."""
    if op.ndim(a) == 1:
        return op.pad(a, (before * (b.shape[0] - 1), b.shape[0] - 1))
    if op.ndim(a) == 2:
        return op.pad(a, (before * (b.shape[0] - 1), b.shape[0] - 1, before * (b.shape[1] - 1), b.shape[1] - 1))
    return op.pad(a, (before * (b.shape[0] - 1), b.shape[0] - 1, before * (b.shape[1] - 1), b.shape[1] - 1,
                      before * (b.shape[2] - 1), b.shape[2] - 1))


def direct(a, b):
    """The full convolution of real arrays of one to three dims."""
    wide, kernel = surrounded(a, b, 1), op.flip(b)
    for rank in RANKS:
        if op.ndim(a) == rank:
            return conv_general_dilated(wide[None, None], kernel[None, None], (1,) * rank, "VALID")[0, 0]
    raise ValueError("convolve: arrays have one to three dims")


def first(x):
    """An element."""
    return op.sum(op.ravel(x)[:1])


def complex_or_not(a, b):
    """The full convolution, of complex arrays from those of their parts."""
    both = a * first(b)
    for kind in ("complex64", "complex128"):
        if both.dtype == kind:
            re = direct(op.real(a), op.real(b)) - direct(op.imag(a), op.imag(b))
            return op.make_complex(re, direct(op.real(a), op.imag(b)) + direct(op.imag(a), op.real(b)))
    return direct(op.cast_like(a, both), op.cast_like(b, both))


@_signal
def convolve(in1, in2, /, mode="full", method="auto", precision=None):
    """The convolution of arrays of as many dims, one to three: mode "full", "same" as in1, or "valid" where both overlap wholly."""
    assert op.ndim(in1) == op.ndim(in2), "convolve: both arrays have as many dims"
    if method == "fft":
        return fftconvolve(in1, in2, mode)
    return kept(complex_or_not(in1, in2), in1, in2, mode)


@_signal
def convolve2d(in1, in2, /, mode="full", boundary="fill", fillvalue=0, precision=None):
    """The convolution of two matrices."""
    assert boundary == "fill" and fillvalue == 0, "convolve2d: beyond the matrices are zeros"
    assert op.ndim(in1) == 2 and op.ndim(in2) == 2, "convolve2d: of two matrices"
    return convolve(in1, in2, mode)


@_signal
def correlate(in1, in2, /, mode="full", method="auto", precision=None):
    """The correlation: the convolution with in2 in the other direction and conjugated."""
    return convolve(in1, op.conj(op.flip(in2)), mode, method)


@_signal
def correlate2d(in1, in2, /, mode="full", boundary="fill", fillvalue=0, precision=None):
    """The correlation of two matrices."""
    assert boundary == "fill" and fillvalue == 0, "correlate2d: beyond the matrices are zeros"
    assert op.ndim(in1) == 2 and op.ndim(in2) == 2, "correlate2d: of two matrices"
    if mode == "same":
        return op.flip(convolve(op.flip(in1), op.conj(in2), mode))
    return convolve(in1, op.conj(op.flip(in2)), mode)


@_signal
def fftconvolve(in1, in2, /, mode="full", axes=None):
    """The convolution of arrays of as many dims through Fourier transforms."""
    assert axes is None, "fftconvolve: it is along all axes"
    assert op.ndim(in1) == op.ndim(in2), "fftconvolve: both arrays have as many dims"
    a, b = in1 * 1.0, in2 * 1.0
    y, both = fft.ifftn(fft.fftn(surrounded(a, b, 0)) * fft.fftn(surrounded(b, a, 0))), a * first(b)
    for kind in ("complex64", "complex128"):
        if both.dtype == kind:
            return kept(y, in1, in2, mode)
    return kept(op.cast_like(op.real(y), both), in1, in2, mode)


@_signal
def detrend(data, /, axis=-1, type="linear", bp=0, overwrite_data=None):  # noqa: A002
    """The rows along an axis less their mean ("constant") or the line of least squares ("linear")."""
    assert bp == 0, "detrend: there are no break points"
    assert type in ("linear", "constant"), "detrend: type is linear or constant"
    x = moveaxis(data * 1.0, axis, -1)
    x = x - op.mean(x, -1, keepdims=True)
    if type == "linear":
        n = x.shape[-1]
        t = op.cast_like(op.arange(n) - (n - 1) / 2, x)
        x = x - op.sum(x * t, -1, keepdims=True) * (t / max((n * n - 1) * n / 12, 1.0))
    return moveaxis(x, -1, axis)


# ---- cosine transforms ----

def turned(n, by, like):
    """exp(by * pi * i * k / (2 n)) for k from 0 to n."""
    k = op.arange(n) * (by * math.pi / (2 * n))
    return op.make_complex(op.cast_like(op.cos(k), like), op.cast_like(op.sin(k), like))


def fitted(x, n):
    """Rows of n numbers: zeros behind, or fewer."""
    if n is None or x.shape[-1] == n:
        return x
    flat = op.reshape(x, (-1, x.shape[-1]))
    y = op.slice(op.pad(flat, (0, 0, 0, max(n - x.shape[-1], 0))), 0, n, 1, 1)
    return op.reshape(y, tuple(x.shape[:-1]) + (n,))


def ortho_scale(x, first, rest):
    """The rows with their first number times one factor and the others times another."""
    return x * op.cast_like(op.where(op.arange(x.shape[-1]) == 0, first, rest), x)


@_cosine
def dct(x, /, type=2, n=None, axis=-1, norm=None):  # noqa: A002
    """The cosine transform of type 2 along an axis, from the Fourier transform of the even elements and the odd ones backwards (Makhoul
    1980); norm="ortho" makes it orthogonal."""
    assert type == 2, "dct: type is 2"
    assert norm in (None, "backward", "ortho"), "dct: norm is None or ortho"
    rows = fitted(moveaxis(x * 1.0, axis, -1), n)
    count = rows.shape[-1]
    turned_rows = op.concatenate((rows[..., ::2], op.flip(rows[..., 1::2], -1)), -1)
    y = 2.0 * op.real(fft.fft(turned_rows) * turned(count, -1.0, rows))
    y = ortho_scale(y, 0.5 / math.sqrt(count), 1 / math.sqrt(2 * count)) if norm == "ortho" else y
    return moveaxis(y, -1, axis)


@_cosine
def idct(x, /, type=2, n=None, axis=-1, norm=None):  # noqa: A002
    """The inverse of dct."""
    assert type == 2, "idct: type is 2"
    assert norm in (None, "backward", "ortho"), "idct: norm is None or ortho"
    rows = fitted(moveaxis(x * 1.0, axis, -1), n)
    count = rows.shape[-1]
    rows = ortho_scale(rows, 2 * math.sqrt(count), math.sqrt(2 * count)) if norm == "ortho" else rows
    back = op.concatenate((op.zeros_like(rows[..., :1]), op.flip(rows[..., 1:], -1)), -1)
    y = op.real(fft.ifft(op.make_complex(rows, -back) * turned(count, 1.0, rows))) / 2
    i = op.arange(count)
    return moveaxis(op.take(y, op.where(op.mod(i, 2) == 0, op.floor_divide(i, 2), count - 1 - op.floor_divide(i, 2)), -1), -1, axis)


@_cosine
def dctn(x, /, type=2, s=None, axes=None, norm=None):  # noqa: A002
    """The cosine transform along several axes, by default all."""
    if axes is not None:
        for i in range(len(axes)):
            x = dct(x, type, None if s is None else s[i], axes[i], norm)
        return x
    for all_axes in ALL:
        if op.ndim(x) == len(all_axes):
            return dctn(x, type, s, all_axes, norm)
    raise ValueError("dctn: too many dims")


@_cosine
def idctn(x, /, type=2, s=None, axes=None, norm=None):  # noqa: A002
    """The inverse of dctn."""
    if axes is not None:
        for i in range(len(axes)):
            x = idct(x, type, None if s is None else s[i], axes[i], norm)
        return x
    for all_axes in ALL:
        if op.ndim(x) == len(all_axes):
            return idctn(x, type, s, all_axes, norm)
    raise ValueError("idctn: too many dims")
