# SPDX-License-Identifier: Apache-2.0
"""Decompositions of matrices: what they promise (orthogonal factors whose product is the matrix), NumPy's values where these are
unique, and derivatives by differences."""
import os
import tempfile

import anfora
import anfora.numpy as anp
import numpy as np

RNG = np.random.default_rng(0)
L = anp.linalg


def arrays(*xs):
    return [np.asarray(x) for x in xs]


def near(x, y, tolerance=1e-12):
    x, y = arrays(x, y)
    assert x.shape == y.shape, (x.shape, y.shape)
    assert abs(x - y).max(initial=0) <= tolerance * max(1, abs(y).max(initial=0)), abs(x - y).max()


def orthonormal(q, tolerance=1e-13):
    near(np.swapaxes(q, -1, -2) @ q, np.broadcast_to(np.eye(q.shape[-1]), q.shape[:-2] + (q.shape[-1],) * 2), tolerance)


def symmetric(*shape):
    a = RNG.normal(size=shape)
    return a + np.swapaxes(a, -1, -2)


def slope(f, x, h=1e-6):
    """The gradient by differences."""
    g = np.zeros_like(x)
    for i in np.ndindex(*x.shape):
        d = np.zeros_like(x)
        d[i] = h
        g[i] = (f(x + d) - f(x - d)) / (2 * h)
    return g


def test_eigh():
    for a in (symmetric(1, 1), symmetric(5, 5), symmetric(2, 3, 4, 4), np.diag([3.0, 1, 2]), np.ones((3, 3)), np.zeros((2, 2))):
        w, v = arrays(*L.eigh(a))
        near(w, np.linalg.eigvalsh(a))
        near(a @ v, v * w[..., None, :])
        orthonormal(v)
    a = symmetric(40, 40)
    near(L.eigvalsh(a), np.linalg.eigvalsh(a))
    a = RNG.normal(size=(3, 3))  # the lower triangle counts
    near(L.eigvalsh(a), np.linalg.eigvalsh(a))
    assert L.eigvalsh(a.astype("f4")).dtype == np.float32
    near(L.eigvalsh(np.array([[2, 1], [1, 2]])), [1.0, 3.0])


def test_one_bad_matrix_spoils_no_other():
    a = symmetric(3, 4, 4)
    good = np.linalg.eigvalsh(a)
    a[1, 2, 2] = np.nan
    w = np.asarray(L.eigvalsh(a))
    near(w[[0, 2]], good[[0, 2]])
    assert np.isnan(w[1]).all()
    s = np.asarray(L.svdvals(a))
    near(s[[0, 2]], np.sort(abs(good[[0, 2]]), -1)[:, ::-1])


def test_qr_as_numpy_has_it():
    for shape, mode in (((5, 3), "reduced"), ((3, 5), "reduced"), ((4, 4), "reduced"), ((5, 3), "complete"), ((2, 3, 2), "reduced")):
        a = RNG.normal(size=shape)
        q, r = arrays(*L.qr(a, mode))
        orthonormal(q)
        near(q @ r, a)
        near(np.tril(r, -1), np.zeros_like(r))
        whole = [np.linalg.qr(x, mode) for x in a.reshape((-1,) + shape[-2:])]
        near(q.reshape((-1,) + q.shape[-2:]), np.stack([q for q, _ in whole]))
    near(arrays(*L.qr(np.ones((3, 0)), "complete"))[0], np.eye(3))
    near(L.qr(np.ones((3, 2)), "r"), np.linalg.qr(np.ones((3, 2)), "r"))


def test_svd():
    for a in (RNG.normal(size=(4, 4)), RNG.normal(size=(5, 3)), RNG.normal(size=(2, 3, 6)), np.ones((4, 3)), np.zeros((3, 2))):
        m, n = a.shape[-2:]
        k = min(m, n)
        for full in (True, False):
            u, s, v = arrays(*L.svd(a, full_matrices=full))
            near(s, np.linalg.svd(a)[1])
            near((u[..., :k] * s[..., None, :]) @ v[..., :k, :], a)
            orthonormal(u)
            orthonormal(np.swapaxes(v, -1, -2))
            assert u.shape[-2:] == ((m, m) if full else (m, k)) and v.shape[-2:] == ((n, n) if full else (k, n))
    a = np.diag([1.0, 1e-10, 1e-20])  # small ones to their own rounding
    near(L.svd(a, compute_uv=False) / np.diag(a), np.ones(3))
    a = RNG.normal(size=(20, 30)).astype("f4")
    near(L.svdvals(a), np.linalg.svd(a)[1], 1e-5)


def test_what_is_made_of_singular_values():
    for shape in ((4, 3), (2, 3)):
        a = RNG.normal(size=shape)
        near(L.pinv(a), np.linalg.pinv(a))
    near(L.pinv(np.ones((3, 2))), np.linalg.pinv(np.ones((3, 2))))
    assert [int(L.matrix_rank(a)) for a in (np.ones((4, 3)), np.zeros((4, 3)), np.eye(4, 3))] == [1, 0, 3]
    a, b = RNG.normal(size=(6, 3)), RNG.normal(size=(6, 2))
    for right in (b, b[:, 0]):
        for ours, theirs in zip(L.lstsq(a, right), np.linalg.lstsq(a, right, rcond=None)):
            near(ours, theirs)


def test_expm():
    for a in (RNG.normal(size=(4, 4)), 20 * symmetric(3, 3), np.zeros((2, 2)), np.array([[0.0, 1], [0, 0]])):
        w, v = np.linalg.eig(a + 0j)
        expected = np.array([[1.0, 1], [0, 1]]) if a[0, -1] == 1 else np.real(v * np.exp(w) @ np.linalg.inv(v))
        near(L.expm(a), expected, 1e-11)
    a = RNG.normal(size=(3, 3))
    near(anfora.grad(lambda a: anp.trace(L.expm(a)))(a), np.asarray(L.expm(a)).T, 1e-10)


def test_derivatives():
    a, c, d = symmetric(3, 3), RNG.normal(size=3), RNG.normal(size=(3, 3))
    g = anfora.grad(lambda a: anp.sum(L.eigh(a)[0] * c) + anp.sum(L.eigh(a)[1] ** 2 * d))(a)
    near(g, slope(lambda a: np.sum(np.linalg.eigvalsh((a + a.T) / 2) * c) + np.sum(np.linalg.eigh((a + a.T) / 2)[1] ** 2 * d), a), 1e-7)
    for m, n in ((3, 3), (4, 3), (2, 4)):
        a, k = RNG.normal(size=(m, n)), min(m, n)
        cu, cs, cv, both = RNG.normal(size=(m, k)), RNG.normal(size=k), RNG.normal(size=(k, n)), RNG.normal(size=(m, n))

        def ours(a):
            u, s, v = L.svd(a, full_matrices=False)
            return anp.sum(u ** 2 * cu) + anp.sum(s * cs) + anp.sum(v ** 2 * cv) + anp.sum((u @ v) * both)

        def theirs(a):
            u, s, v = np.linalg.svd(a, full_matrices=False)
            return np.sum(u ** 2 * cu) + np.sum(s * cs) + np.sum(v ** 2 * cv) + np.sum((u @ v) * both)

        near(anfora.grad(ours)(a), slope(theirs, a), 1e-7)
        inverse = RNG.normal(size=(n, m))
        near(anfora.grad(lambda a: anp.sum(L.pinv(a) * inverse))(a), slope(lambda a: np.sum(np.linalg.pinv(a) * inverse), a), 1e-7)
        _, forward = anfora.jvp(lambda a: anp.sum(L.pinv(a) * inverse), (a,), (both,))
        near(forward, np.sum(slope(lambda a: np.sum(np.linalg.pinv(a) * inverse), a) * both), 1e-7)
        q, r = arrays(*L.qr(a))
        cq, cr = RNG.normal(size=q.shape), RNG.normal(size=r.shape)

        def factors(a):
            q, r = L.qr(a)
            return anp.sum(q * cq) + anp.sum(r * cr)

        near(anfora.grad(factors)(a), slope(lambda a: (lambda q, r: np.sum(q * cq) + np.sum(r * cr))(*np.linalg.qr(a)), a), 1e-6)
    # a column that is zero below its diagonal, where the signs of Q and R jump: what does not depend on them is smooth
    for a in (np.eye(3), RNG.normal(size=(3, 3)) * [[1, 1, 1], [0, 1, 1], [0, 1, 1]], np.triu(RNG.normal(size=(4, 3)))):
        cq, cr = RNG.normal(size=a.shape), RNG.normal(size=(3, 3))

        def unsigned(a):
            q, r = L.qr(a)
            return anp.sum(q * q * cq) + anp.sum(r * r * cr)

        near(anfora.grad(unsigned)(a), slope(lambda a: (lambda q, r: np.sum(q * q * cq) + np.sum(r * r * cr))(*np.linalg.qr(a)), a), 1e-6)
    # a square Q of a high matrix: its further columns are those of the reflections, which jump at such a column. R does not
    for a in (RNG.normal(size=(4, 2)), RNG.normal(size=(5, 4)), np.concatenate([np.eye(2) * 1.5, 1e-7 * RNG.normal(size=(2, 2))])):
        m, n = a.shape
        cq, cr = RNG.normal(size=(m, m)), RNG.normal(size=(m, n))

        def squared(a):
            q, r = L.qr(a, "complete")
            return anp.sum(q * cq) + anp.sum(r * cr)

        near(anfora.grad(squared)(a), slope(lambda a: (lambda q, r: np.sum(q * cq) + np.sum(r * cr))(*np.linalg.qr(a, "complete")), a, 1e-9), 1e-4)
        near(anfora.jacfwd(squared)(a), anfora.grad(squared)(a), 1e-8)
        if m == 5:
            step = 1e-6 * RNG.normal(size=a.shape)
            second = np.tensordot(np.asarray(anfora.jacfwd(anfora.grad(squared))(a)), step, 2)
            near(second, (np.asarray(anfora.grad(squared)(a + step)) - np.asarray(anfora.grad(squared)(a - step))) / 2, 1e-7)
        a[1:, 0] = 0
        assert np.isnan(anfora.grad(squared)(a)).all()
        near(anfora.grad(lambda a: anp.sum(L.qr(a, "complete")[1] * cr))(a), anfora.grad(lambda a: anp.sum(L.qr(a)[1] * cr[:n]))(a))
    # equal values: the derivative of their sum is finite
    near(anfora.grad(lambda a: anp.sum(L.svdvals(a)))(np.eye(3)), np.eye(3))
    near(anfora.grad(lambda a: anp.sum(L.eigvalsh(a)))(np.eye(2)), np.eye(2))


def test_numpys_own_names_in_compiled_functions():
    @anfora.jit
    def distance(a, b):
        return np.linalg.svd(a, full_matrices=False)[1] - np.linalg.eigh(b)[0], np.linalg.pinv(a) @ b, np.linalg.qr(b)[1]

    a, b = RNG.normal(size=(3, 3)), symmetric(3, 3)
    ours = distance(a, b)
    near(ours[0], np.linalg.svd(a)[1] - np.linalg.eigh(b)[0])
    near(ours[1], np.linalg.pinv(a) @ b, 1e-10)
    near(ours[2], np.linalg.qr(b)[1])
    near(anfora.vmap(L.eigvalsh)(np.stack([b, b + 1])), np.linalg.eigvalsh(np.stack([b, b + 1])))


def test_full_singular_vectors():
    """Their first columns have the derivatives of the others; what depends on the rest has NaN, never a silent zero."""
    a, c = RNG.normal(size=(4, 2)), RNG.normal(size=(4, 2))
    parts = [anfora.grad(lambda a, full=full: anp.sum(L.svd(a, full_matrices=full)[0][:, :2] ** 2 * c))(a) for full in (True, False)]
    near(parts[0], parts[1], 1e-10)
    assert np.all(np.isnan(np.asarray(anfora.grad(lambda a: anp.sum(L.svd(a)[0][:, 2:] ** 2 * c))(a))))


def test_sizes_and_scales():
    """Residuals and orthogonality, where squares overflow and vanish, too."""
    for scale in (1.0, 1e-200, 1e200):
        for n in (0, 1, 2, 3, 17, 64):
            a = symmetric(n, n)
            w, v = arrays(*L.eigh(a * scale))
            near(w / scale, np.linalg.eigvalsh(a))
            near(a @ v, v * (w / scale))
            orthonormal(v)
        for a in (RNG.normal(size=(5, 17)), RNG.normal(size=(17, 5)), RNG.normal(size=(9, 2)) @ RNG.normal(size=(2, 7))):
            u, s, v = arrays(*L.svd(a * scale, full_matrices=False))
            near(s / scale, np.linalg.svd(a)[1])
            near((u * (s / scale)) @ v, a)
            orthonormal(u)
            orthonormal(v.T)
    for bad in (np.nan, np.inf):
        a = symmetric(3, 3)
        a[2, 1] = bad
        assert all(np.isnan(x).all() for x in arrays(*L.eigh(a), *L.svd(a[:, :2], full_matrices=False)))


def test_written_for_formats_without_them():
    """As loops of rotations, with the order and the signs of the ops."""
    @anfora.jit
    def both(a, b):
        w, v = np.linalg.eigh(a)
        u, s, vt = np.linalg.svd(b, full_matrices=False)
        return w, v, u, s, vt

    a = np.stack([symmetric(5, 5), symmetric(5, 5), np.fliplr(np.eye(5)) * 1e200])
    b = np.stack([RNG.normal(size=(4, 3)), np.ones((4, 3)) * 1e-200])
    a[1, 1, 1] = np.nan
    with tempfile.TemporaryDirectory() as folder:
        for ending in (".onnx", ".mindir"):
            path = os.path.join(folder, "both" + ending)
            both.save(path, a, b)
            w, v, u, s, vt = arrays(*anfora.read(path)(a, b))
            for x, y in zip((w, v[0], u[0], s, vt[0]), (lambda w, v, u, s, vt: (w, v[0], u[0], s, vt[0]))(*arrays(*both(a, b)))):
                assert x.shape == y.shape and np.allclose(x / np.nanmax(abs(y)), y / np.nanmax(abs(y)), rtol=0, atol=1e-11, equal_nan=True), (ending, x, y)
            assert np.isnan(v[1]).all()
            near(a[2] / 1e200 @ v[2], v[2] * (w[2] / 1e200))
            for q in (v[2], u, np.swapaxes(vt, -1, -2)):
                orthonormal(q)
            near((u * s[:, None] * np.array([1, 1e200])[:, None, None]) @ vt, b * np.array([1, 1e200])[:, None, None])


def test_factors_of_many_columns():
    """A loop over columns of which a block of rows asks for the type of what follows it."""
    a = np.random.default_rng(3).normal(size=(64, 60))
    q, r = anfora.jit(lambda a: anp.linalg.qr(a))(a)
    np.testing.assert_allclose(np.asarray(q) @ np.asarray(r), a, atol=1e-12)
    np.testing.assert_allclose(np.abs(np.asarray(r)), np.abs(np.linalg.qr(a)[1]), atol=1e-12)
