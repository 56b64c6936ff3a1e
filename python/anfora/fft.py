# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms by NumPy's names: anfora.numpy.fft. Each dim is the operation Fft, which is not scaled, and what it takes is cut
or filled, and what it gives is scaled."""
from __future__ import annotations

from typing import Any

from ._library.composed import SOME, Composed, floats, into
from ._compile.known import Known
from ._ops import op

TABLE: dict[str, Composed] = {}
transform, part = into(TABLE, lists=True), into({})


def as_complex(x):
    """Complex numbers of the same width; integers become c128."""
    y = x * 1.0
    return op.make_complex(op.real(y), op.imag(y))


def lengthened(x, n):
    """The last dim cut, or filled with zeros, to length n."""
    more = max(n - x.shape[-1], 0)
    return op.concatenate([x[..., :n], op.broadcast_to(op.zeros_like(x[..., :1]), tuple(x.shape[:-1]) + (more,))], -1)


def scaled(y, n, norm, inverse):
    """By 1, 1 / sqrt(n) or 1 / n, as the norm says."""
    if norm == "ortho":
        return y / op.sqrt(op.cast_like(n, op.real(y)))
    assert norm is None or norm == "backward" or norm == "forward", "fft: norm is backward, ortho or forward"
    if (norm == "forward") != inverse:
        return y / n
    return y


def one_dim(x, n, axis, norm, inverse):
    """A transform along one dim."""
    if n is None:
        return scaled(op.fft(x, axis, inverse), x.shape[axis], norm, inverse)
    moved = op.swapaxes(x, axis, -1) if op.ndim(x) > 1 else x
    y = scaled(op.fft(lengthened(moved, n), -1, inverse), n, norm, inverse)
    return op.swapaxes(y, axis, -1) if op.ndim(x) > 1 else y


@transform
def fft(x, /, n=None, axis=-1, norm=None):
    """The discrete Fourier transform along a dim, which is cut or filled with zeros to length n first."""
    return one_dim(x, n, axis, norm, False)


@transform
def ifft(x, /, n=None, axis=-1, norm=None):
    """Its inverse."""
    return one_dim(x, n, axis, norm, True)


@transform
def rfft(x, /, n=None, axis=-1, norm=None):
    """The transform of real numbers: the half that tells the other."""
    x = x * 1.0
    x = op.real(op.make_complex(x, op.zeros_like(x)))  # complex numbers are refused here
    y = one_dim(x, n, axis, norm, False)
    y = op.swapaxes(y, axis, -1) if op.ndim(x) > 1 else y
    half = y[..., :y.shape[-1] // 2 + 1]
    return op.swapaxes(half, axis, -1) if op.ndim(x) > 1 else half


@transform
def irfft(x, /, n=None, axis=-1, norm=None):
    """The real numbers whose transform begins with x."""
    moved = op.swapaxes(as_complex(x), axis, -1) if op.ndim(x) > 1 else as_complex(x)
    size = 2 * (moved.shape[-1] - 1) if n is None else n
    half = lengthened(moved, size // 2 + 1)
    whole = op.concatenate([half, op.conj(op.flip(half[..., 1:(size + 1) // 2], -1))], -1)
    y = op.real(scaled(op.fft(whole, -1, True), size, norm, True))
    return op.swapaxes(y, axis, -1) if op.ndim(x) > 1 else y


@Known
def inverse_norm(norm: Any) -> Any:
    """The norm of the transform in the other direction."""
    return {"forward": "backward", "ortho": "ortho"}.get(norm, "forward")


@transform
def hfft(x, /, n=None, axis=-1, norm=None):
    """The transform of numbers of which half is given, as the other half is their conjugate: real."""
    return irfft(op.conj(as_complex(x)), n, axis, inverse_norm(norm))


@transform
def ihfft(x, /, n=None, axis=-1, norm=None):
    """Its inverse."""
    return op.conj(rfft(x, n, axis, inverse_norm(norm)))


@Known
def dims_of(rank: int, s: Any, axes: Any) -> tuple | None:
    """[(axis, length or None)] of a transform along several dims; None if there are no such dims."""
    if axes is None:
        axes = range(rank) if s is None else range(rank - len(s), rank)
    axes = tuple(axes)
    if not axes or any(not -rank <= a < rank for a in axes) or (s is not None and len(s) != len(axes)):
        return None
    return tuple(zip((a % rank for a in axes), s if s is not None else (None,) * len(axes)))


@part
def several(x, /, s, axes, norm, inverse):
    """A transform along several dims, the last one first."""
    for rank in SOME:
        if op.ndim(x) == rank:
            dims = dims_of(rank, s, axes)
            if dims is None:
                raise ValueError("fft: there is no such dim, or s and axes have different lengths")
            y = x
            for axis, n in reversed(dims):
                y = one_dim(y, n, axis, norm, inverse)
            return y
    raise ValueError("fft: too many dims")


@transform
def fftn(x, /, s=None, axes=None, norm=None):
    """The transform along several dims, all if none are named."""
    return several(x, s, axes, norm, False)


@transform
def ifftn(x, /, s=None, axes=None, norm=None):
    """Its inverse."""
    return several(x, s, axes, norm, True)


@transform
def fft2(x, /, s=None, axes=(-2, -1), norm=None):
    """The transform along two dims."""
    return several(x, s, axes, norm, False)


@transform
def ifft2(x, /, s=None, axes=(-2, -1), norm=None):
    """Its inverse."""
    return several(x, s, axes, norm, True)


@transform
def rfftn(x, /, s=None, axes=None, norm=None):
    """The transform of real numbers along several dims: of the last of them the half that tells the other."""
    for rank in SOME:
        if op.ndim(x) == rank:
            dims = dims_of(rank, s, axes)
            if dims is None:
                raise ValueError("fft: there is no such dim, or s and axes have different lengths")
            y = rfft(x, dims[-1][1], dims[-1][0], norm)
            for axis, n in reversed(dims[:-1]):
                y = one_dim(y, n, axis, norm, False)
            return y
    raise ValueError("fft: too many dims")


@transform
def irfftn(x, /, s=None, axes=None, norm=None):
    """The real numbers of which it is the transform."""
    for rank in SOME:
        if op.ndim(x) == rank:
            dims = dims_of(rank, s, axes)
            if dims is None:
                raise ValueError("fft: there is no such dim, or s and axes have different lengths")
            y = as_complex(x)
            for axis, n in dims[:-1]:
                y = one_dim(y, n, axis, norm, True)
            return irfft(y, dims[-1][1], dims[-1][0], norm)
    raise ValueError("fft: too many dims")


@transform
def rfft2(x, /, s=None, axes=(-2, -1), norm=None):
    """The transform of real numbers along two dims."""
    return rfftn(x, s, axes, norm)


@transform
def irfft2(x, /, s=None, axes=(-2, -1), norm=None):
    """Its inverse."""
    return irfftn(x, s, axes, norm)


@transform
def fftfreq(n, d: Any = 1.0, dtype=None, device=None):
    """The frequency of each place of a transform."""
    k = op.arange(n, device=device)
    return op.cast(op.where(k < (n + 1) // 2, k, k - n), floats(dtype)) / (n * d)


@transform
def rfftfreq(n, d: Any = 1.0, dtype=None, device=None):
    """The same for transforms of real numbers."""
    return op.cast(op.arange(n // 2 + 1, device=device), floats(dtype)) / (n * d)


@part
def rolled(x, /, axes, back):
    """Each of some dims turned by half of its length."""
    for rank in SOME:
        if op.ndim(x) == rank:
            dims = dims_of(rank, None, (axes,) if isinstance(axes, int) else axes)
            if dims is None:
                raise ValueError("fftshift: there is no such dim")
            y = x
            for axis, _ in dims:
                n = x.shape[axis]
                y = op.roll(y, (n + 1) // 2 if back else n // 2, axis)
            return y
    raise ValueError("fftshift: too many dims")


@transform
def fftshift(x, /, axes=None):
    """The frequency 0 in the middle."""
    return rolled(x, axes, False)


@transform
def ifftshift(x, /, axes=None):
    """The frequency 0 first again."""
    return rolled(x, axes, True)


_HERE: dict[str, Any] = TABLE
globals().update(_HERE)
__all__ = [*_HERE]
