# SPDX-License-Identifier: Apache-2.0
"""NumPy's, math's and SciPy's functions by their own names in compiled functions: values and element types are theirs."""
import math

import anfora
import numpy as np
from anfora import jit

X, I, M = np.array([0.3, -1.2, 2.5, 0.7]), np.array([3, 12, 8, 5]), np.arange(12.0).reshape(3, 4)

CALLS = {
    "windows": lambda x, i, m: (np.bartlett(5), np.blackman(5), np.hamming(5), np.hanning(5), np.kaiser(5, 2.0), np.i0(x)),
    "bits": lambda x, i, m: (np.bitwise_count(i), np.bitwise_invert(i), np.bitwise_left_shift(i, 2), np.bitwise_right_shift(i, 1)),
    "parts": lambda x, i, m: (*np.frexp(x), *np.modf(x), np.ldexp(x, i), np.spacing(x), np.unwrap(x * 5)),
    "integers": lambda x, i, m: (np.gcd(i, 6), np.lcm(i, 6), np.lexsort((x, i)), np.choose(i % 2, [x, -x])),
    "polynomials": lambda x, i, m: (np.poly(x), np.polyadd(x, x[1:]), np.polysub(x, x[1:]), np.polymul(x, x), np.polyder(x), np.polyint(x), np.polyfit(x, i * 1.0, 2),
                                    *np.polydiv(x, x[:2])),
    "tests": lambda x, i, m: (np.isneginf(-x / 0.0), np.isposinf(x / 0.0), np.isreal(x), np.iscomplex(x + 1j), np.array_equiv(m, m[0])),
    "made": lambda x, i, m: (np.block([[m, m], [m * 2, m]]), np.insert(x, 1, 5.0), np.delete(x, 1), np.resize(x, (2, 3)), np.diagflat(x), np.copy(x), np.degrees(x), np.radians(x),
                             np.fromfunction(lambda a, b: a + b, (2, 3)), np.histogram_bin_edges(x, 4)),
    "products": lambda x, i, m: (np.matvec(m, x), np.vecmat(x, m.T), np.linalg.tensorsolve(np.eye(4), x), np.linalg.tensorinv(np.eye(4).reshape(4, 2, 2), ind=1))
    if hasattr(np, "matvec") else (np.linalg.tensorsolve(np.eye(4), x),),
    "indices": lambda x, i, m: (m[np.ix_([0, 2], [1, 3])], m[:, :3][np.diag_indices_from(m[:, :3])], np.apply_along_axis(lambda r: r.sum(), 1, m)),
    "side by side": lambda x, i, m: (np.c_[x, x * 2], np.c_[m, m[:, 0]], np.c_[m[None], m[None]], np.r_[x, 3.0, x], np.r_[m, m], m[np.s_[1:, ::2]]),
    "math": lambda x, i, m: (math.gcd(int(i[0]), int(i[1])), math.lcm(int(i[0]), int(i[1])), *math.modf(x[2]), math.ldexp(x[0], 3), math.dist((x[0], x[1]), (1.0, 2.0)),
                             math.isclose(x[0], 0.3 + 1e-8), math.isclose(x[0], 0.3 + 1e-12), math.isclose(x[0], 0.31, abs_tol=0.02)),
}


def same(want, got):
    want = np.asarray(want)
    return want.shape == np.shape(got) and want.dtype == np.asarray(got).dtype and np.allclose(want, got, 1e-9, 1e-12)


def test_names():
    with np.errstate(all="ignore"):
        for name, f in CALLS.items():
            try:
                want = f(X, I, M)
            except AttributeError:  # this NumPy has it not
                continue
            for w, g in zip(want, jit(f)(X, I, M), strict=True):
                assert same(w, g), (name, w, g)


def test_scipy():
    try:
        from scipy import special
    except ImportError:
        return
    p = np.abs(X) / 3

    @jit
    def values(p):
        return (special.beta(p, p), special.betainc(p, p, p), special.entr(p), special.erfinv(p), special.exp1(p), special.gammainc(p, p), special.i1e(p), special.kl_div(p, p + 1),
                special.log_ndtr(p), special.logit(p), special.ndtri(p), special.xlogy(p, p), special.zeta(p + 1, 1.0), special.logsumexp(p))
    assert all(map(same, values.__wrapped__(p), values(p)))


def grid(m):
    s, (h, w) = 0.0, m.shape
    for i, j in np.ndindex(m.shape):
        s += m[i, j] * i + j
    for i, j in np.ndindex(h, w):
        s -= m[i, j] * j
    for i, j in np.ndindex(*m.shape):
        s += i
    return s


def test_ndindex():
    assert jit(grid)(M) == grid(M)
    try:
        jit(lambda m: sum(1 for i, j in np.ndindex(m.shape)))(M[None])
    except (anfora.RunError, anfora.CompileError):
        return
    raise AssertionError("too many dims are no error")
