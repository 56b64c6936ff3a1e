# SPDX-License-Identifier: Apache-2.0
"""Calibration by NumPy alone: see anfora.quantise."""
import numpy as _np

_BINS = 4096
METHODS = ("minmax", "percentile", "entropy")
_INFO = {"i8": _np.iinfo(_np.int8), "u8": _np.iinfo(_np.uint8), "i16": _np.iinfo(_np.int16), "u16": _np.iinfo(_np.uint16)}


class Calibrator:
    """Collects values batch by batch: `add` each, then `result()` is (scale, zero).

    dtype: i8, u8, i16 or u16. symmetric: the zero point is 0 (u8 and u16: no); default: of signed types. axis: one scale for
    each index along this axis, as [C, 1, 1] for axis 0 of three; with "minmax" alone. percentile: how much of the values is
    inside, in percent."""

    def __init__(self, method="minmax", dtype="i8", symmetric=None, axis=None, percentile=99.99):
        dtype = str(getattr(dtype, "name", dtype))
        if method not in METHODS:
            raise ValueError(f"method is one of {', '.join(METHODS)}, not {method!r}")
        if dtype not in _INFO:
            raise ValueError(f"dtype is one of {', '.join(_INFO)}, not {dtype!r}")
        if axis is not None and method != "minmax":
            raise ValueError(f"axis goes with the method minmax, not with {method}")
        if not 50 < percentile <= 100:
            raise ValueError(f"percentile must be above 50 and at most 100, not {percentile!r}")
        self.method, self.info, self.axis, self.percentile = method, _INFO[dtype], axis, percentile
        self.symmetric = self.info.min < 0 if symmetric is None else symmetric
        if self.symmetric and self.info.min == 0:
            raise ValueError(f"{dtype} is not symmetric around 0; take a signed type, or symmetric=False")
        self.lo = self.hi = None
        self.reach, self.counts = 0.0, _np.zeros(_BINS)

    def add(self, x):
        x = _np.asarray(x, _np.float64)
        if x.size == 0:
            return self
        if not _np.isfinite(x).all():
            raise ValueError("values to calibrate by must be finite")
        axes = None if self.axis is None else tuple(k for k in range(x.ndim) if k != self.axis % x.ndim)
        lo, hi = x.min(axes, keepdims=axes is not None), x.max(axes, keepdims=axes is not None)
        self.lo = lo if self.lo is None else _np.minimum(self.lo, lo)
        self.hi = hi if self.hi is None else _np.maximum(self.hi, hi)
        if self.method != "minmax":
            self._count(x)
        return self

    def _count(self, x):
        """Adds to a histogram of [-reach, reach]; where it is too narrow, pairs of bins become one."""
        most = float(_np.abs(x).max())
        if self.reach == 0:
            self.reach = most
        while most > self.reach > 0:
            inner, self.counts = self.counts.reshape(-1, 2).sum(1), _np.zeros(_BINS)
            self.counts[_BINS // 4:_BINS * 3 // 4] = inner
            self.reach *= 2
        if self.reach > 0:
            self.counts += _np.histogram(x, _BINS, (-self.reach, self.reach))[0]

    def range(self):
        """The least and the greatest value that keep their place; others are clipped."""
        if self.lo is None:
            raise ValueError("nothing was added: a range needs values")
        if self.method == "minmax" or self.reach == 0:
            return self.lo, self.hi
        if self.method == "entropy":
            t = self._least_divergence()
            return _np.maximum(self.lo, -t), _np.minimum(self.hi, t)
        edges = _np.linspace(-self.reach, self.reach, _BINS + 1)
        share = _np.cumsum(self.counts) / self.counts.sum()
        out = (100 - self.percentile) / 100
        if self.symmetric:
            folded = _np.cumsum(self._folded()) / self.counts.sum()
            t = edges[_BINS // 2 + 1:][_np.searchsorted(folded, 1 - out)]
            return _np.maximum(self.lo, -t), _np.minimum(self.hi, t)
        lo, hi = edges[_np.searchsorted(share, out, "right")], edges[1:][_np.searchsorted(share, 1 - out)]
        return _np.maximum(self.lo, lo), _np.minimum(self.hi, hi)

    def _folded(self):
        """The histogram of magnitudes."""
        half = _BINS // 2
        return self.counts[half:] + self.counts[:half][::-1]

    def _least_divergence(self):
        """The threshold whose histogram in as many steps as the type has diverges least (Kullback and Leibler)."""
        p = self._folded()
        steps = min(128, self.info.max + 1)
        best, at = _np.inf, len(p)
        for n in range(steps, len(p) + 1, 4):
            d = _divergence(p, n, steps)
            if d < best:
                best, at = d, n
        return self.reach * at / len(p)

    def result(self):
        """(scale, zero): f32 and integers of the type, numbers, or tensors of the rank of what was added."""
        lo, hi = (_np.asarray(v, _np.float64) for v in self.range())
        low, high = float(self.info.min), float(self.info.max)
        if self.symmetric:
            span = _np.maximum(-lo, hi) / high
            zero = _np.zeros_like(span)
        else:
            lo, hi = _np.minimum(lo, 0), _np.maximum(hi, 0)
            span = (hi - lo) / (high - low)
            zero = None
        scale = _np.where(span > 0, span, 1).astype(_np.float32)
        if zero is None:
            zero = _np.clip(_np.rint(low - lo / scale), low, high)
        return scale[()], zero.astype(self.info.dtype)[()]


def _divergence(p, n, steps):
    """Of the first n bins, in which the rest is clipped, from the same in so many steps."""
    inside = p[:n].copy()
    clipped = inside.copy()
    clipped[-1] += p[n:].sum()
    group = _np.arange(n) * steps // n
    some = inside > 0
    total = _np.bincount(group, inside, steps)
    many = _np.bincount(group, some.astype(_np.float64), steps)
    q = _np.where(some, (total / _np.maximum(many, 1))[group], 0)
    if q.sum() == 0:
        return _np.inf
    a, b = clipped / clipped.sum(), q / q.sum()
    if (b[a > 0] == 0).any():  # the last bin has clipped values alone
        return _np.inf
    on = a > 0
    return float((a[on] * _np.log(a[on] / b[on])).sum())


def calibrate(batches, method="minmax", **options):
    """(scale, zero) for these batches of values; options are those of Calibrator."""
    c = Calibrator(method, **options)
    for x in batches:
        c.add(x)
    return c.result()


def quantise(x, **options):
    """(q, scale, zero) of a tensor such as a weight, by its own range; axis=1 gives each column a scale."""
    c = Calibrator(**options).add(x)
    scale, zero = c.result()
    q = _np.clip(_np.rint(_np.asarray(x, _np.float32) / scale) + zero, c.info.min, c.info.max)
    return q.astype(c.info.dtype), scale, zero
