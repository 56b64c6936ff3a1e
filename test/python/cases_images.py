# SPDX-License-Identifier: Apache-2.0
"""Images in other sizes, arrays between their elements, convolutions, cosine transforms and matrices of batches: beside their
definitions in NumPy."""
import math

import anfora
import anfora.numpy as anp
import numpy as np
from anfora import image, lax, scipy

RNG = np.random.default_rng(3)


def near(x, y, tolerance=1e-12):
    x, y = np.asarray(x), np.asarray(y)
    assert x.shape == y.shape, (x.shape, y.shape)
    assert abs(x - y).max(initial=0) <= tolerance * max(1, abs(y).max(initial=0)), abs(x - y).max()


def test_sizes_of_images():
    x = RNG.normal(size=(4, 6))
    near(image.resize(x, (8, 6), "nearest"), np.repeat(x, 2, 0))
    near(image.resize(x, (2, 3), method="area"), x.reshape(2, 2, 3, 2).mean((1, 3)))
    row = np.array([[0.0, 4.0]])
    near(image.resize(row, (1, 4), "linear"), [[0, 1, 3, 4]])
    near(image.resize(np.array([[0.0, 4, 8, 8]]), (1, 2), "linear"), [[(0 * 3 + 4 * 3 + 8) / 7, (4 + 8 * 3 + 8 * 3) / 7]])
    near(image.resize(np.array([[0.0, 4, 8, 8]]), (1, 2), "linear", antialias=False), [[2, 8]])
    for method in ("cubic", "cubic-pytorch", "lanczos3", "lanczos5"):
        near(image.resize(np.ones((3, 4)), (5, 2), method), np.ones((5, 2)))
    near(image.resize(np.array([[0.0, 0, 8, 0, 0, 0]]), (1, 12), "cubic")[0, 4], 8 * ((-0.5 * -0.75 ** 0) * 0 + (1.5 * 0.25 - 2.5) * 0.25 ** 2 + 1), 1e-12)
    f = anfora.jit(lambda x: image.resize(x, (x.shape[0] * 2, x.shape[1]), image.ResizeMethod.NEAREST))
    near(f(x), np.repeat(x, 2, 0))
    g = anfora.grad(lambda x: anp.sum(image.resize(x, (8, 3), "bilinear") ** 2))(x)
    d = RNG.normal(size=x.shape)
    by = (np.sum(np.asarray(image.resize(x + 1e-5 * d, (8, 3), "bilinear")) ** 2) - np.sum(np.asarray(image.resize(x - 1e-5 * d, (8, 3), "bilinear")) ** 2)) / 2e-5
    near(np.sum(np.asarray(g) * d), by, 1e-8)


def test_between_elements():
    x = np.arange(12.0).reshape(3, 4)
    near(scipy.ndimage.map_coordinates(x, [np.array([0.5, 1, 2.5]), np.array([0.5, 3, 0])], order=1, cval=-1.0), [2.5, 7, 0.5 * 8 - 0.5])
    near(scipy.ndimage.map_coordinates(x, [np.array([0.6, 5]), np.array([-2.0, 1])], order=0, mode="nearest"), [4, 9])
    for mode, places in (("wrap", [2, 3, 0, 1, 2, 3, 0]), ("mirror", [2, 1, 0, 1, 2, 3, 2]), ("reflect", [1, 0, 0, 1, 2, 3, 3])):
        near(scipy.ndimage.map_coordinates(np.arange(4), [np.arange(-2.0, 5)], order=1, mode=mode), places)


def test_convolutions():
    a, b = RNG.normal(size=(5, 4)), RNG.normal(size=(2, 3))
    full = np.zeros((6, 6))
    for i, j in np.ndindex(2, 3):
        full[i:i + 5, j:j + 4] += b[i, j] * a
    near(scipy.signal.convolve(a, b), full)
    near(scipy.signal.fftconvolve(a, b), full, 1e-12)
    near(scipy.signal.convolve2d(a, b, mode="valid"), full[1:5, 2:4])
    near(scipy.signal.convolve(a, b, mode="same"), full[0:5, 1:5])
    near(scipy.signal.correlate(a[0], b[0]), np.correlate(a[0], b[0], "full"))
    z = a[0] + 1j * a[1]
    near(scipy.signal.convolve(z, b[1]), np.convolve(z, b[1]))
    near(scipy.signal.detrend(3.0 + 2 * np.arange(6.0)), np.zeros(6), 1e-13)


def test_cosine_transforms():
    x = RNG.normal(size=(3, 5))
    k, n = np.arange(5)[:, None], np.arange(5)[None, :]
    matrix = 2 * np.cos(math.pi * k * (2 * n + 1) / 10)
    near(scipy.fft.dct(x), x @ matrix.T)
    near(scipy.fft.idct(scipy.fft.dct(x)), x)
    q = np.asarray(scipy.fft.dctn(np.eye(4), norm="ortho", axes=(0,)))
    near(q @ q.T, np.eye(4))
    near(scipy.fft.idctn(scipy.fft.dctn(x, norm="ortho"), norm="ortho"), x)


def test_matrices_of_batches():
    a = RNG.normal(size=(3, 4, 4))
    P, L, U = scipy.linalg.lu(a)
    near(P @ L @ U, a, 1e-12)
    for side in ("right", "left"):
        u, p = (np.asarray(v) for v in scipy.linalg.polar(a, side=side))
        near(u @ p if side == "right" else p @ u, a, 1e-10)
    near(scipy.linalg.toeplitz(np.array([[1.0, 2], [3, 4]]))[1], [[3, 4], [4, 3]])
    near(scipy.linalg.toeplitz(np.array([1.0, 2]), np.array([[9.0, 5, 6], [9, 7, 8]])), [[[1, 5, 6], [2, 1, 5]], [[1, 7, 8], [2, 1, 7]]])

    h = np.asarray(scipy.linalg.helmert(5, full=True))
    near(h @ h.T, np.eye(5))
    assert scipy.linalg.leslie(np.array([1.0, 2, 3]), np.array([0.5, 0.25])).tolist() == [[1, 2, 3], [0.5, 0, 0], [0, 0.25, 0]]
    assert anp.linalg.vecdot(np.array([1, 2], np.int32), np.array([3, 4], np.int32)).dtype == np.int32


def test_implicit_derivatives_of_linear_solves():
    """By what matvec captures: those of the solution, also where solve reads a triangle or stops gradients."""
    def solution(a, b):
        factors = scipy.linalg.cho_factor(lax.stop_gradient(a))
        return lax.custom_linear_solve(lambda x: a @ x, b, lambda _, y: scipy.linalg.cho_solve(factors, y), symmetric=True)

    a, b = np.array([[4.0, 1], [1, 3]]), np.array([1.0, 2])
    x, back = np.linalg.solve(a, b), np.linalg.solve(a, np.ones(2))
    near(solution(a, b), x)
    ga, gb = anfora.grad(lambda a, b: anp.sum(solution(a, b)), argnums=(0, 1))(a, b)
    near(ga, -np.outer(back, x))
    near(gb, back)


def test_defaults_are_left_by_transforms_within_vmap():
    def loss(w, x, scale=2.0, n=3):
        return anp.sum((w * x) ** n) * scale

    w, xs = np.ones(3), np.arange(6.0).reshape(2, 3)
    want = 6 * xs ** 2
    near(anfora.vmap(anfora.grad(loss, argnums=1), in_axes=(None, 0))(w, xs), want)
    near(anfora.jit(lambda w, xs: anfora.vmap(anfora.grad(loss, argnums=1), in_axes=(None, 0))(w, xs))(w, xs), want)
    pairs = anfora.vmap(anfora.vmap(anp.dot, in_axes=(0, None)), in_axes=(None, 0))
    near(pairs(xs, xs), xs @ xs.T)


def test_repeated_indices():
    i, v = np.array([1, 1, 2]), np.array([2.0, 3, 2])

    def f(x, v):
        return x.at[i].power(v), x.at[i].subtract(v), x.at[0].subtract(v[0])
    for g in (f, anfora.jit(f)):
        one, two, three = g(anp.array([2.0, 2, 3]), v)
        assert one.tolist() == [2, 64, 9] and two.tolist() == [2, -3, 1] and three.tolist() == [0, 2, 3]


def test_first_values_of_lists_of_axes():
    from anfora import initializers, random
    key = random.key(0)
    w = initializers.variance_scaling(1.0, "fan_geo_avg", "normal", in_axis=(0, 1), out_axis=-1)(key, (20, 30, 50))
    near(np.var(np.asarray(w)), 1 / math.sqrt(600 * 50), 0.02)
    w = np.asarray(initializers.variance_scaling(1.0, "fan_in", "truncated_normal", dtype="c128")(key, (100, 90)))
    near(np.mean(abs(w) ** 2) * 100, 1, 0.05)
    assert abs(w).max() <= 2 / 10 / 0.953
    kernel = np.asarray(initializers.delta_orthogonal()(key, (3, 3, 2, 4)))
    near(kernel[1, 1] @ kernel[1, 1].T, np.eye(2))
    assert np.count_nonzero(kernel) == np.count_nonzero(kernel[1, 1])


def test_softmax_of_some():
    x, some = RNG.normal(size=(2, 3)), np.array([[True, False, True], [True, True, True]])
    e = np.exp(x) * some
    near(anfora.nn.softmax(x, where=some), e / e.sum(-1, keepdims=True))
    y = np.asarray(anfora.jit(lambda x: anfora.nn.log_softmax(x, where=some))(x))
    near(y[1], x[1] - np.log(np.exp(x[1]).sum()))
    assert y[0, 1] == -np.inf
    assert scipy.special.logsumexp(np.array([-1000.0, -2]), b=np.array([1.0, 0])) == -1000
    assert np.isnan(scipy.special.xlogy(0.0, np.nan)) and scipy.special.xlogy(0.0, 0.0) == 0
