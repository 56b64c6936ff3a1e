# SPDX-License-Identifier: Apache-2.0
"""Post-training calibration: scale and zero point for the values that a tensor takes.

>>> import numpy as np
>>> from anfora import quantise
>>> quantise.calibrate([np.array([-1.0, 0.5, 2.0])], dtype="i8")
(0.015748031, 0)

`anfora.numpy.quantize(x, scale, zero, dtype=...)` and `dequantize(q, scale, zero)` take both as they are. Three methods choose
the range: "minmax", all values; "percentile", all but the outermost (Krishnamoorthi, arXiv:1806.08342); "entropy", the one
whose quantised histogram diverges least from that of the values (Migacz, GTC 2017).
"""
import numpy as _np

from . import numpy as _anp
from ._calibration import Calibrator, calibrate, quantise

__all__ = ["Calibrator", "calibrate", "pack", "quantise", "unpack"]


def pack(w, bits=4, group=32):
    """(bytes, scale, zero) of a weight [K, N] in codes of 4 or 2 bits, of which each group of `group` rows has a scale and a zero point
    for each column: what a model that decodes token by token reads. `unpack` gives the weight."""
    w = _np.asarray(w, _np.float32)
    if bits not in (2, 4):
        raise ValueError(f"bits is 2 or 4, not {bits!r}; quantise() makes codes of 8")
    if w.ndim != 2 or group < 1 or w.shape[0] % group or group * bits % 8:
        raise ValueError(f"a weight of rows in groups of {group!r}, whose codes fill bytes, not of shape {w.shape}")
    if not _np.isfinite(w).all():
        raise ValueError("values to calibrate by must be finite")
    w = w.reshape(-1, group, w.shape[1])
    lo, hi = _np.minimum(w.min(1, keepdims=True), 0), _np.maximum(w.max(1, keepdims=True), 0)
    span, most = hi - lo, 2**bits - 1
    scale = _np.where(span > 0, span / most, 1).astype(_np.float32)
    zero = _np.clip(_np.rint(-lo / scale), 0, most)
    codes = _np.clip(_np.rint(w / scale) + zero, 0, most).astype(_np.uint8)
    packed = _np.zeros((w.shape[0], group * bits // 8, w.shape[2]), _np.uint8)
    for i in range(8 // bits):
        packed |= codes[:, i::8 // bits] << _np.uint8(bits * i)
    return packed, scale, zero.astype(_np.uint8)


def unpack(packed, scale, zero, bits=4):
    """The weight [K, N] of what `pack` gave: `x @ unpack(..)` of a compiled function reads the packed codes."""
    w = _anp.dequantize(_anp.unpack_bits(packed, bits=bits, axis=1), scale, zero)
    return _anp.reshape(w, (w.shape[0] * w.shape[1], w.shape[2]))
