# SPDX-License-Identifier: Apache-2.0
"""Calibration finds the ranges that its methods promise, and a network of bytes with them keeps its answers."""
import anfora
import anfora.numpy as anp
import numpy as np
from anfora import quantise
from anfora._calibration import _divergence
from anfora.quantise import Calibrator, calibrate

RNG = np.random.default_rng(3)
BATCHES = [RNG.standard_normal((50, 40)) * k for k in (0.5, 1.0, 3.0)]
ALL = np.concatenate([b.ravel() for b in BATCHES])


def test_minmax():
    scale, zero = calibrate(BATCHES)
    assert scale == np.float32(np.abs(ALL).max() / 127) and zero == 0
    scale, zero = calibrate(BATCHES, dtype="u8")
    assert abs(scale - (ALL.max() - ALL.min()) / 255) < 1e-6 and zero == np.rint(-ALL.min() / scale)
    scale, zero = calibrate([np.abs(b) + 1 for b in BATCHES], dtype="u8")
    assert zero == 0  # 0 is in every range
    scale, _ = calibrate([b.reshape(50, 4, 10) for b in BATCHES], axis=1)
    assert scale.shape == (1, 4, 1) and scale[0, 2, 0] == np.float32(np.abs(np.concatenate(BATCHES)[:, 20:30]).max() / 127)
    assert calibrate([np.zeros(3)]) == (1, 0) and calibrate([np.zeros(3)], method="entropy") == (1, 0)


def test_percentile():
    width = 2 * 16 * np.abs(BATCHES[0]).max() / 4096  # of a bin, after the range was doubled
    for percentile in (99.9, 99.0, 90.0):
        out = (100 - percentile) / 100
        c = Calibrator("percentile", percentile=percentile)
        for b in BATCHES:
            c.add(b)
        t = c.range()[1]
        assert np.mean(np.abs(ALL) > t) <= out < np.mean(np.abs(ALL) > t - width)
        c = Calibrator("percentile", "u8", percentile=percentile)
        for b in BATCHES:
            c.add(b)
        lo, hi = c.range()
        assert np.mean(ALL < lo) <= out < np.mean(ALL < lo + width) and np.mean(ALL > hi) <= out < np.mean(ALL > hi - width)
    assert calibrate(BATCHES, "percentile", percentile=100)[0] == calibrate(BATCHES)[0]


def test_entropy():
    """A few far values do not decide; the divergence of each threshold by sums one after the other."""
    x = np.concatenate([RNG.standard_normal(20000), [40.0, -55.0]])
    c = Calibrator("entropy").add(x)
    lo, hi = c.range()
    assert 2.5 < hi < 20 and lo == -hi
    p, best, at = c._folded(), np.inf, 0
    for n in (128, 256, 300, 512, 1024, 2048):
        q, total = np.zeros(n), 0.0
        for s in range(128):
            k = [i for i in range(n) if i * 128 // n == s]
            on = [i for i in k if p[i] > 0]
            for i in on:
                q[i] = sum(p[j] for j in k) / len(on)
        a = p[:n].copy()
        a[-1] += p[n:].sum()
        for i in range(n):
            if a[i] > 0:
                total += np.inf if q[i] == 0 else a[i] / a.sum() * np.log(a[i] / a.sum() * q.sum() / q[i])
        got = _divergence(p, n, 128)
        assert got == total or abs(total - got) < 1e-9
        if total < best:
            best, at = total, n
    assert _divergence(p, round(float(hi) / c.reach * 2048), 128) <= best and at > 0


def test_messages():
    for options, word in (({"method": "best"}, "minmax, percentile, entropy"), ({"dtype": "f32"}, "i8, u8"), ({"dtype": "u8", "symmetric": True}, "signed"),
                          ({"method": "entropy", "axis": 0}, "axis"), ({"percentile": 20}, "percentile")):
        try:
            Calibrator(**options)
            raise AssertionError(options)
        except ValueError as e:
            assert word in str(e), e
    for f in (lambda: Calibrator().add([np.nan]), lambda: Calibrator().result()):
        try:
            f()
            raise AssertionError("refused")
        except ValueError:
            pass


def test_network():
    """Two layers of bytes with calibrated scales: near the floats they stand for."""
    w = [RNG.standard_normal((16, 32)) / 4, RNG.standard_normal((32, 8)) / 6]
    x = RNG.standard_normal((64, 16)).astype("f4")
    h = np.maximum(x @ w[0], 0)
    (q0, t0, _), (q1, t1, _) = (quantise.quantise(v, axis=1) for v in w)
    sx, zx = calibrate([x], dtype="u8")
    sh, zh = calibrate([h], "percentile", dtype="u8")

    @anfora.jit
    def net(x):
        a = anp.dequantize(anp.quantize(x, sx, zx, dtype=anfora.u8), sx, zx)
        b = anp.maximum(a @ anp.dequantize(q0, t0), 0)
        b = anp.dequantize(anp.quantize(b, sh, zh, dtype=anfora.u8), sh, zh)
        return b @ anp.dequantize(q1, t1)

    got, want = np.asarray(net(x)), h @ w[1]
    assert np.abs(got - want).max() < 0.03 * np.abs(want).max(), np.abs(got - want).max()


def test_packed_weights():
    """One row and several times codes of 4 and 2 bits: near the floats, and the product of what unpack gives."""
    w = RNG.standard_normal((256, 96)).astype("f4")
    for bits in (4, 2):
        packed, scale, zero = quantise.pack(w, bits=bits, group=32)
        assert packed.dtype == np.uint8 and packed.nbytes == w.size * bits // 8 and scale.shape == zero.shape == (8, 1, 96)
        plain = np.asarray(quantise.unpack(packed, scale, zero, bits=bits))
        steps = np.repeat(scale[:, 0], 32, axis=0)  # half of one for the code, half of one for the zero point
        assert plain.shape == w.shape and (np.abs(plain - w) <= 1.001 * steps).all()

        @anfora.jit
        def layer(x, packed=packed, scale=scale, zero=zero, bits=bits):
            return x @ quantise.unpack(packed, scale, zero, bits=bits)
        for rows in (1, 7):
            x = RNG.standard_normal((rows, 256)).astype("f4")
            assert np.abs(np.asarray(layer(x)) - x @ plain).max() < 1e-3
    packed, scale, zero = quantise.pack(np.zeros((32, 3)))
    assert not np.asarray(quantise.unpack(packed, scale, zero)).any()
    for wrong in ({"bits": 3}, {"group": 33}, {"group": 1}, {"group": 0}):
        try:
            quantise.pack(w, **wrong)
            raise AssertionError(f"{wrong} was taken")
        except ValueError:
            pass
