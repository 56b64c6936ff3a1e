# SPDX-License-Identifier: Apache-2.0
"""Functions of SciPy in compiled functions: its own values. Skipped where SciPy is not there."""
import anfora
import numpy as np
from anfora import grad, jit

rng = np.random.default_rng(0)
A = rng.random((4, 4))
S = A @ A.T + np.eye(4)
B = rng.random(4)


class Skip(Exception):
    pass


def scipy_parts():
    import importlib
    import importlib.util
    if importlib.util.find_spec("scipy") is None:
        raise Skip("SciPy is not here")
    return [importlib.import_module(f"scipy.{n}") for n in ("linalg", "stats", "signal", "fft", "integrate")]


def leaves(x):
    return [y for part in x for y in leaves(part)] if isinstance(x, (tuple, list)) else [np.asarray(x)]


def same(f, *args):
    want, got = leaves(f(*args)), leaves(jit(f)(*args))
    assert len(want) == len(got)
    for w, g in zip(want, got):
        assert w.shape == g.shape and np.allclose(w, g, atol=1e-9), (w, g)


def test_matrices():
    linalg = scipy_parts()[0]
    same(lambda a, s, b: (linalg.cholesky(s), linalg.cholesky(s, lower=True), linalg.cho_solve(linalg.cho_factor(s), b)), A, S, B)
    same(lambda a, s, b: (linalg.solve(a, b), linalg.solve(s, b, assume_a="pos"), linalg.solve_triangular(a, b), linalg.solve_triangular(a, b, lower=True)), A, S, B)
    same(lambda a, s, b: (linalg.inv(a), linalg.det(a), linalg.expm(a), linalg.lu(a), linalg.lu_solve(linalg.lu_factor(a), b), linalg.polar(a)), A, S, B)
    same(lambda a, s, b: (linalg.eigh(s)[0], linalg.eigh(s, eigvals_only=True), linalg.svd(a)[1], np.abs(linalg.qr(a)[1])), A, S, B)
    same(lambda a, s, b: (linalg.block_diag(a, s), linalg.toeplitz(b), linalg.circulant(b), linalg.hankel(b), linalg.companion(b), linalg.fiedler(b), linalg.hilbert(3)), A, S, B)


def test_distributions():
    stats = scipy_parts()[1]
    same(lambda b: (stats.norm.pdf(b), stats.norm.cdf(b, 1.0, 2.0), stats.norm.logpdf(b, scale=3.0), stats.norm.ppf(b), stats.norm.sf(b)), B)
    same(lambda b: (stats.gamma.logpdf(b, 2.0), stats.beta.pdf(b, 2.0, 3.0), stats.expon.cdf(b), stats.t.logpdf(b, 4.0), stats.chi2.logpdf(b, 3)), B)
    same(lambda b: (stats.poisson.pmf(np.array([1, 2]), 2.5), stats.binom.pmf(np.array([1, 2]), 5, 0.3), stats.uniform.pdf(b), stats.cauchy.cdf(b)), B)
    same(lambda b: (stats.multivariate_normal.logpdf(b, b * 0, S), stats.multivariate_normal.pdf(b, b * 0, S)), B)
    assert np.allclose(grad(lambda b: np.sum(stats.norm.logpdf(b)))(B), -B)
    try:
        jit(lambda b: b + stats.norm.rvs(size=4))(B)
    except anfora.CompileError as e:
        assert "rvs cannot be called" in str(e), e
    else:
        raise AssertionError("random numbers of SciPy were not refused")


def test_signals():
    _, _, signal, fft, integrate = scipy_parts()
    same(lambda a, b: (signal.convolve(b, b), signal.correlate(b, b, "same"), signal.fftconvolve(a, a), signal.detrend(b), signal.convolve2d(a, a, "valid")), A, B)
    same(lambda a, b: (fft.dct(b), fft.idct(b, norm="ortho"), fft.dctn(a), integrate.trapezoid(b, dx=0.1)), A, B)
