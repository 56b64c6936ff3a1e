# SPDX-License-Identifier: Apache-2.0
"""Sparse Jacobians and Hessians, compared with dense ones; colourings, by their definition."""
import anfora
import anfora.numpy as anp
import numpy as np
from anfora import sparse


def same(a, b, tol=1e-12):
    a, b = np.asarray(a), np.asarray(b)
    assert a.shape == b.shape and np.allclose(a, b, rtol=tol, atol=tol), (a, b)


def refused(kind, word, call):
    try:
        call()
    except kind as e:
        assert word in str(e), e
    else:
        raise AssertionError(f"no {kind.__name__}")


def banded(x):
    return x[2:] * x[:-2] + anp.sin(x[1:-1])


def chain(x):
    return anp.sum((x[1:] - x[:-1] ** 2) ** 2 * 100.0 + (1.0 - x[:-1]) ** 2)


def arrow(x):
    return anp.sum(anp.exp(0.1 * x[0] * x)) + anp.sum(x ** 4)


def lanes_of(call):
    """How many directions the call computes."""
    count, apply = [0], sparse._Linear.__call__
    def counted(self, seeds):
        count[0] += len(seeds)
        return apply(self, seeds)
    sparse._Linear.__call__ = counted
    try:
        call()
    finally:
        sparse._Linear.__call__ = apply
    return count[0]


def test_banded():
    x = np.random.default_rng(0).normal(size=40)
    j = sparse.jacobian(banded)
    same(j(x).todense(), anfora.jacrev(banded)(x))
    assert j.directions == 3, j.directions
    assert j(x).pattern.nnz == 3 * 38


def test_directions_do_not_grow():
    counts = {}
    for n in (64, 1024):
        x = np.random.default_rng(0).normal(size=n)
        j = sparse.jacobian(banded)
        counts[n] = lanes_of(lambda: j(x)), lanes_of(lambda: j(x))
    assert counts[64][1] == counts[1024][1] == 4, counts  # three, and one that checks
    assert counts[1024][0] <= 2 * counts[64][0] and counts[1024][0] < 100, counts  # probing: by the logarithm


def test_hessians():
    x = np.linspace(-1, 1, 24)
    for f, most in ((chain, 3), (arrow, 2)):
        h = sparse.hessian(f)
        m = h(x)
        same(m.todense(), anfora.hessian(f)(x), 1e-10)
        same(m.todense(), m.todense().T, 0)
        assert h.directions <= most, h.directions


def maker(seed):
    """A function of an array, of one of several forms, whose entries are where random numbers say; and how many arguments."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(6, 30)), int(rng.integers(5, 40))
    p, q, r = (rng.integers(0, n, m) for _ in range(3))
    w = np.round(rng.normal(size=m), 2)
    a = np.where(rng.random((m, n)) < 0.1, np.round(rng.normal(size=(m, n)), 2), 0.0)
    def gathered(x):
        return x[p] * anp.sin(x[q]) + w * x[r]
    def looped(x):
        z = anp.zeros(m)
        for i in range(m):
            if x[p[i]] > 0.0:
                z = z.at[i].set(x[q[i]] * x[r[i]])
            else:
                z = z.at[i].set(w[i] * anp.tanh(x[p[i]]))
        return z
    def product(x):
        return anp.exp(0.1 * (a @ x)) + w * x[q]
    def nested(x):
        y = x[p] * w
        return anp.where(y > 0.2, y * y, anp.sin(y)).reshape(-1)[::-1]
    def running(x):
        return anp.concatenate([anp.cumsum(x[:4]), anp.max(x[:6].reshape(2, 3), axis=0), x[p] ** 2])
    return (gathered, looped, product, nested, running)[seed % 5], rng.normal(size=n)


def test_random_jacobians():
    for seed in range(10):
        f, x = maker(seed)
        dense = np.asarray(anfora.jacfwd(f)(x))
        for mode in (None, "forward", "reverse"):
            m = sparse.jacobian(f, mode=mode)(x)
            same(m.todense(), dense)
            assert not m.todense()[~m.pattern.todense()].any()
        same(sparse.pattern(f, x).todense(), dense != 0)


def test_random_hessians():
    for seed in range(10):
        f, x = maker(seed)
        def total(x, f=f):
            return anp.sum(f(x) ** 2)
        same(sparse.hessian(total)(x).todense(), anfora.hessian(total)(x), 1e-10)


def test_another_argument():
    def residuals(cameras, points, w):  # as in bundle adjustment: each observation has one camera and one point
        return anp.sin(cameras[seen_by]) @ anp.array([1.0, 0.5]) * points[seen] * w
    rng = np.random.default_rng(1)
    seen_by, seen = rng.integers(0, 4, 50), rng.integers(0, 20, 50)
    cameras, points = rng.normal(size=(4, 2)), rng.normal(size=20)
    j = sparse.jacobian(residuals)
    same(j(cameras, points, 2.0).todense(), np.asarray(anfora.jacrev(residuals)(cameras, points, 2.0)).reshape(50, 8))
    assert j.directions == 2
    k = sparse.jacobian(residuals, wrt=1)
    same(k(cameras, points, 2.0).todense(), np.diag(np.ones(20))[seen] * np.asarray(residuals_slope(cameras, seen_by))[:, None] * 2.0)
    assert k.directions == 1


def residuals_slope(cameras, seen_by):
    return np.sin(cameras[seen_by]) @ np.array([1.0, 0.5])


def test_entries_that_come_later():
    def f(x):
        return anp.where(x > 0.0, x * x[::-1], x)
    x, y = -np.ones(6), np.arange(1.0, 7.0)
    j = sparse.jacobian(f)
    same(j(x).todense(), np.eye(6))
    same(j(y).todense(), anfora.jacrev(f)(y))  # the pattern of x lacks the other diagonal
    same(j(x).todense(), np.eye(6))            # and now has more entries than x needs
    assert j(x).pattern.nnz == 12


def test_given_patterns():
    x = np.arange(1.0, 9.0)
    dense = np.asarray(anfora.jacrev(banded)(x))
    for given in (dense != 0, sparse.pattern(banded, x), (*np.nonzero(dense), dense.shape), np.ones((6, 8))):
        same(sparse.jacobian(banded, pattern=given)(x).todense(), dense)
    for mode in ("forward", "reverse"):
        for i, j in zip(*np.nonzero(dense)):  # without any one of its entries
            less = dense.copy()
            less[i, j] = 0
            refused(ValueError, "entries that the pattern does not have", lambda: sparse.jacobian(banded, pattern=less, mode=mode)(x))
    less = np.eye(8) + np.eye(8, k=1)
    less[3, 4] = 0
    refused(ValueError, "entries that the pattern does not have", lambda: sparse.hessian(chain, pattern=less)(x / 8))


def test_refusals():
    x = np.arange(1.0, 9.0)
    refused(ValueError, "of shape (6, 7)", lambda: sparse.jacobian(banded, pattern=np.ones((6, 7)))(x))
    refused(ValueError, "outside", lambda: sparse.Pattern([0, 6], [0, 0], (6, 8)))
    refused(ValueError, "as many rows", lambda: sparse.Pattern([0, 1], [0], (6, 8)))
    refused(TypeError, "3 dims", lambda: sparse.Pattern.of(np.ones((2, 2, 2))))
    refused(TypeError, "not of int64", lambda: sparse.jacobian(banded)(np.arange(8)))
    refused(TypeError, "one array", lambda: sparse.jacobian(lambda x: (x, x))(x))
    refused(ValueError, "mode is", lambda: sparse.jacobian(banded, mode="both"))


def test_forms():
    x = np.arange(1.0, 9.0)
    m = sparse.jacobian(banded)(x)
    indptr, indices, data = m.csr()
    for i, row in enumerate(m.todense()):
        same(indices[indptr[i]:indptr[i + 1]], np.nonzero(row)[0], 0)
        same(data[indptr[i]:indptr[i + 1]], row[row != 0], 0)
    try:
        import scipy.sparse
    except ImportError:
        return
    s = m.toscipy()
    assert isinstance(s, scipy.sparse.csr_matrix)
    same(s.toarray(), m.todense(), 0)
    same(sparse.jacobian(banded, pattern=s)(x).todense(), m.todense(), 0)


def test_singles_and_edges():
    x = np.linspace(0.1, 1, 12).astype("f4")
    m = sparse.jacobian(banded)(x)
    assert m.data.dtype == np.float32
    same(m.todense(), anfora.jacrev(banded)(x), 1e-6)
    same(sparse.jacobian(lambda x: x[:0])(x).todense(), np.zeros((0, 12)))
    same(sparse.jacobian(lambda x: 0.0 * anp.round(x))(x).todense(), np.zeros((12, 12)))
    same(sparse.jacobian(lambda x: anp.sum(x * x))(x).todense(), 2 * x[None], 1e-6)
    same(sparse.jacobian(lambda x: x * anp.ones(5))(3.0).todense(), np.ones((5, 1)))


def test_colours():
    rng = np.random.default_rng(2)
    for n in (1, 2, 7, 15):
        for density in (0.1, 0.3):
            a = rng.random((n + 3, n)) < density
            c = sparse.colours(sparse.Pattern.of(a))
            assert ((c < 0) == ~a.any(0)).all()
            assert all(len(set(c[row])) == row.sum() for row in a)
            s = rng.random((n, n)) < density
            s = s | s.T
            np.fill_diagonal(s, False)
            c = sparse.star_colours(sparse.Pattern.of(s))
            near = [np.nonzero(row)[0] for row in s]
            for v in range(n):
                for w in near[v]:
                    assert c[v] != c[w]
                    for x in near[w]:
                        for y in near[x]:
                            assert x == v or y in (v, w) or len({c[v], c[w], c[x], c[y]}) > 2
