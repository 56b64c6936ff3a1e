# SPDX-License-Identifier: Apache-2.0
"""Functions by the names of jax.numpy and jax.scipy, with JAX's values: part of jax_programs.py."""
import sys

import numpy as np

if "--write" in sys.argv:
    import jax
    import jax.numpy as jnp
    import jax.scipy as jsp
    import jax.scipy.linalg
    import jax.scipy.special
    import jax.scipy.stats
else:
    import anfora as jax
    import anfora.numpy as jnp
    import anfora.scipy as jsp

r = np.random.default_rng(0)
x, y, v, w, s = (r.normal(size=n).astype("f4") for n in ((3, 4), (3, 4), 6, 3, (4, 4)))
t, z = r.normal(size=(2, 3, 4)).astype("f4"), (r.normal(size=(3, 3)) + 1j * r.normal(size=(3, 3))).astype("c8")
u, pos = r.uniform(.05, .95, size=(3, 4)).astype("f4"), r.gamma(2., size=(3, 4)).astype("f4")
spd = s @ s.T + 4 * np.eye(4, dtype="f4")
i, k, n = np.array([12, 18, -7, 0], "i4"), np.array([8, -27, 0, 5], "i4"), np.array([0, 1, 2, 3, 7], "i4")
D = jsp.stats
def prog_names_of_numpy():
    return [
        jnp.rot90(t, 1, (1, 2)), jnp.rot90(t, -1, (0, 2)), jnp.rot90(x, 2), jnp.rot90(x, 3, axes=(1, 0)),
        jnp.gcd(i, k), jnp.lcm(i, k),
        jnp.gcd(12, 18),
        jnp.bitwise_count(i), jnp.iscomplex(z), jnp.isreal(z), jnp.isreal(x),
        jnp.choose(np.array([0, 2, 1, 0]), [i, k, i * 2], mode='clip'),
        jnp.choose(np.array([[0, 5, -1, 1]]), [i, k, i * 2], mode='wrap'),
        jnp.copy(x), jnp.dsplit(t, 2), jnp.diagflat(v, 1), jnp.ix_(np.arange(2), np.arange(3)),
        jnp.block([[x, y], [y, x]]), jnp.block([v, w]),
        jnp.block([[np.eye(2), np.zeros((2, 1))], [np.ones((1, 2)), np.ones((1, 1))]]), jnp.block([[v], [v]]),
        jnp.delete(v, 2), jnp.delete(x, -1, 1),
        jnp.insert(v, 2, 5.0), jnp.insert(x, 1, 7.0, axis=1), jnp.insert(x, -1, np.arange(4.0), axis=0),
        jnp.put(x, np.array([0, 5]), np.array([1.0, 2.0]), inplace=False),
        jnp.put(x, np.array([0, 50]), np.array([1.0, 2.0]), mode='clip', inplace=False),
        jnp.put_along_axis(x, np.array([[0], [1], [2]]), 9.0, 1, inplace=False),
        jnp.fill_diagonal(s, 3.0, inplace=False), jnp.fill_diagonal(x, np.array([1.0, 2.0, 3.0]), inplace=False),
        jnp.diag_indices_from(s), jnp.fromfunction(lambda a, b: a + 2 * b, (2, 3)),
        jnp.apply_along_axis(lambda q: q.sum(), 1, x), jnp.apply_along_axis(lambda q: q[:2] * 2, 0, t),
        jnp.apply_along_axis(jnp.sort, -1, t),
        jnp.lexsort((i, k)), jnp.lexsort([np.array([1, 1, 2, 0]), np.array([3, 3, 1, 1])]),
        jnp.sort(jnp.partition(v, 3)),
        jnp.repeat(v, np.array([1, 0, 2, 0, 3, 1]), total_repeat_length=9),
        jnp.repeat(v, np.array([1, 0, 2, 0, 3, 1]), total_repeat_length=4), jnp.repeat(x, 2, axis=1),
        jnp.repeat(x, np.array([1, 2, 0]), axis=0, total_repeat_length=3), jnp.repeat(x, 3),
        jnp.repeat(v, 2, total_repeat_length=5),
        jnp.histogram(v, bins=np.array([-1.0, 0.0, 0.5, 2.0])), jnp.histogram(v),
        jnp.histogram(x, 5, range=(0, 1), density=True), jnp.histogram(v, bins=4, weights=v * v),
        jnp.histogram(v, np.array([-1, 0, 2])),
        jnp.histogram_bin_edges(v, 5), jnp.histogram2d(v, v * v, bins=3),
        jnp.histogram2d(v, v * v, bins=(3, 4), density=True),
        jnp.kaiser(7, 5.0), jnp.i0(v),
        jnp.poly(v), jnp.polydiv(np.array([1.0, 2, 3, 4]), np.array([1.0, 2]))[0], jnp.polyfit(np.arange(6.0), v, 2),
        jnp.polyfit(np.arange(6.0), v, 3, w=v * v + 1),
        jax.grad(lambda y: jnp.sum(jnp.polyfit(np.arange(6.0), y, 2) ** 2))(v),
    ]
def prog_names_of_special():
    return [
        jsp.special.xlogy(np.array([0.0, 1.0, 2.0]), np.array([0.0, 2.0, 3.0])),
        jsp.special.xlog1py(np.array([0.0, 1.0]), np.array([-1.0, 2.0])),
        jsp.special.entr(np.array([-1.0, 0.0, 0.5, 2.0])), jsp.special.rel_entr(pos, u), jsp.special.kl_div(pos, u),
        jsp.special.rel_entr(np.array([0.0, 0.0, 1.0, -1.0]), np.array([1.0, 0.0, 0.0, 1.0])),
        jsp.special.boxcox(pos, 0.5), jsp.special.boxcox(pos, 0.0), jsp.special.boxcox1p(pos, 0.3),
        jsp.special.ndtr(v * 3), jsp.special.ndtri(u),
        jsp.special.log_ndtr(np.array([-100.0, -40, -12, -10, -9, -3, 0, 1, 2, 6, 20])),
        jax.grad(lambda x: jnp.sum(jsp.special.erfinv(x)))(np.array([-0.9, -0.2, 0.0, 0.4, 0.8])),
        jsp.special.erfinv(np.array([0.1, 0.9, -0.99], 'f4')),
        jax.grad(lambda x: jnp.sum(jsp.special.ndtri(x)))(u),
        jax.grad(lambda x: jnp.sum(jsp.special.log_ndtr(x)))(np.array([-30.0, -5.0, 0.0, 3.0])),
        jsp.special.gammasgn(np.array([-2.5, -1.5, -0.5, 0.0, -0.0, 3.0])), jsp.special.factorial(np.array([0, 1, 5, 10])),
        jsp.special.poch(pos, 1.5), jsp.special.beta(pos, u), jsp.special.betaln(pos, u),
        jsp.special.multigammaln(pos + 3, 3),
        jsp.special.gammainc(pos, pos.T.reshape(3, 4)), jsp.special.gammaincc(pos, 5 * u),
        jsp.special.gammainc(np.array([100.0, 0.01, 1000.0, 3.0, 2.0]), np.array([110.0, 0.3, 900.0, 0.0, np.inf])),
        jsp.special.gammaincc(np.array([100.0, 0.01, 1000.0, 3.0, 2.0]), np.array([110.0, 0.3, 900.0, 0.0, np.inf])),
        jax.grad(lambda x: jnp.sum(jsp.special.gammainc(pos, x)))(5 * u),
        jax.grad(lambda a: jnp.sum(jsp.special.gammaincc(a, 5 * u)))(pos),
        jsp.special.betainc(pos, pos + 1, u), jsp.special.betainc(20.0, 30.0, u),
        jsp.special.betainc(0.5, 0.5, np.array([0.0, 0.2, 1.0])),
        jax.grad(lambda x: jnp.sum(jsp.special.betainc(pos, 2.0, x)))(u),
        jsp.special.exp1(np.array([1e-05, 0.5, 1.0, 2.0, 30.0])),
        jsp.special.expi(np.array([-3.0, -0.5, 0.1, 2.0, 10.0, 50.0])), jsp.special.expn(3, pos),
        jsp.special.i0(v * 5), jsp.special.i1(v * 20), jsp.special.i0e(np.array([0.0, 0.1, -3, 19.9, 20.1, 500.0])),
        jsp.special.i1e(np.array([0.0, 0.1, -3, 19.9, 20.1, 500.0])), jax.grad(lambda x: jnp.sum(jsp.special.i0(x)))(v * 9),
        jsp.special.i0e(np.array([0.3, 40.0], 'f4')),
        jsp.special.zeta(np.array([1.5, 2.0, 3.0, 10.0, 25.0]), np.array([1.0, 0.5, 2.3, 0.1, 7.0])),
        jsp.special.zeta(4.0, 1.0), jsp.special.polygamma(2, pos),
        jsp.special.logsumexp(x, axis=1, b=y * y), jsp.special.softmax(x, axis=0), jsp.special.expit(x),
        jsp.special.gamma(pos), jsp.special.logit(u),
        jsp.special.erfcx(np.array([-1.0, 0.0, 3.0, 12.0])),
    ]
def prog_names_of_linalg():
    return [
        jsp.linalg.solve(spd, x.T), jsp.linalg.solve(spd, v[:4], assume_a='pos'),
        jsp.linalg.solve(spd, v[:4], assume_a='sym', lower=True),
        jsp.linalg.solve_triangular(s, v[:4], lower=True), jsp.linalg.solve_triangular(s, x.T, trans=1),
        jsp.linalg.solve_triangular(s, x.T, trans='T', lower=True, unit_diagonal=True),
        jsp.linalg.cho_solve(jsp.linalg.cho_factor(spd), v[:4]),
        jsp.linalg.cho_solve(jsp.linalg.cho_factor(spd, lower=True), x.T), jsp.linalg.cholesky(spd),
        jsp.linalg.cholesky(spd, lower=True),
        jsp.linalg.lu(s), jsp.linalg.lu(x), jsp.linalg.lu(x.T, permute_l=True), jsp.linalg.lu_factor(s),
        jsp.linalg.lu_solve(jsp.linalg.lu_factor(s), v[:4]), jsp.linalg.lu_solve(jsp.linalg.lu_factor(s), x.T, trans=1),
        jax.grad(lambda s: jnp.sum(jsp.linalg.lu_solve(jsp.linalg.lu_factor(s), v[:4])))(s),
        jsp.linalg.svd(x, compute_uv=False), jsp.linalg.eigh(spd, eigvals_only=True), jnp.abs(jsp.linalg.eigh(spd)[1]),
        jnp.abs(jnp.array(jsp.linalg.qr(x, mode='economic')[1])), jnp.abs(jsp.linalg.qr(x.T)[1]),
        jsp.linalg.polar(s), jsp.linalg.expm(s),
        jsp.linalg.block_diag(x, s, w), jsp.linalg.block_diag(np.eye(2)), jsp.linalg.toeplitz(w), jsp.linalg.toeplitz(w, v),
        jsp.linalg.hankel(w), jsp.linalg.hankel(w, v), jsp.linalg.circulant(v), jsp.linalg.companion(v),
        jsp.linalg.convolution_matrix(w, 4), jsp.linalg.convolution_matrix(w, 4, mode='same'),
        jsp.linalg.convolution_matrix(w, 4, 'valid'), jsp.linalg.convolution_matrix(v, 3, mode='same'),
        jsp.linalg.hilbert(4), jsp.linalg.hadamard(8), jsp.linalg.pascal(5), jsp.linalg.pascal(4, 'lower'),
        jsp.linalg.pascal(4, kind='upper'), jsp.linalg.dft(5), jsp.linalg.dft(4, scale='n'), jsp.linalg.dft(4, scale='sqrtn'),
        jnp.linalg.tensorsolve(t.reshape(2, 3, 4)[:, :, :].reshape(6, 4)[:4].reshape(2, 2, 4), v[:4].reshape(2, 2)),
        jnp.linalg.tensorinv(np.random.default_rng(3).normal(size=(2, 3, 6)).astype('f4'), ind=2),
        jnp.linalg.tensorsolve(np.random.default_rng(3).normal(size=(2, 3, 6)), x[:2, :3]),
        jsp.linalg.det(s), jsp.linalg.inv(s),
    ]
def prog_names_of_stats():
    return [
        D.norm.logpdf(x, 0.5, 2.0), D.norm.pdf(x), D.norm.cdf(x, scale=2.0), D.norm.logcdf(x * 5), D.norm.sf(x),
        D.norm.logsf(x), D.norm.ppf(u), D.norm.isf(u, 1.0, 2.0),
        D.uniform.logpdf(x, -1.0, 2.0), D.uniform.pdf(x), D.uniform.cdf(x), D.uniform.ppf(u, 1.0, 2.0),
        D.expon.logpdf(x), D.expon.pdf(pos, 0.1, 2.0), D.expon.cdf(x), D.expon.sf(x),
        D.laplace.logpdf(x, 0.1, 2.0), D.laplace.cdf(x), D.logistic.logpdf(x, 0.2, 1.5), D.logistic.cdf(x), D.logistic.sf(x),
        D.logistic.ppf(u),
        D.cauchy.logpdf(x, 0.1, 2.0), D.cauchy.cdf(x), D.cauchy.sf(x), D.cauchy.ppf(u), D.gumbel_r.logpdf(x),
        D.gumbel_r.cdf(x), D.gumbel_l.logpdf(x, 0.3, 2.0), D.gumbel_l.cdf(x),
        D.gamma.logpdf(pos, 2.0), D.gamma.logpdf(x, 2.5, scale=2.0), D.gamma.cdf(pos, 3.0), D.gamma.sf(pos, 3.0, 0.1, 2.0),
        D.chi2.logpdf(pos, 3.0), D.chi2.cdf(pos, 3.0), D.chi2.sf(pos, 4.0), D.chi2.logpdf(pos, 2),
        D.beta.logpdf(u, 2.0, 3.0), D.beta.pdf(u, 0.5, 1.5), D.beta.cdf(u, 2.0, 3.0), D.beta.sf(u, 2.0, 3.0),
        D.t.logpdf(x, 3.0), D.t.pdf(x, 2.0, 0.1, 2.0), D.pareto.logpdf(pos, 2.0), D.gennorm.logpdf(x, 1.5),
        D.gennorm.cdf(x, 1.5),
        D.truncnorm.logpdf(x, -1.0, 1.0), D.truncnorm.pdf(x, 0.5, 2.0, 0.1, 0.7), D.truncnorm.logcdf(x, -1.0, 1.5),
        D.truncnorm.cdf(x, -0.5, 2.0), D.vonmises.logpdf(x, 2.0), D.wrapcauchy.logpdf(pos, 0.3),
        D.bernoulli.logpmf(n, 0.3), D.bernoulli.pmf(n, 0.3), D.bernoulli.cdf(n - 1, 0.3), D.bernoulli.ppf(u, 0.3),
        D.binom.logpmf(n, 5, 0.4), D.binom.pmf(n, 7, 0.4), D.nbinom.logpmf(n, 3.0, 0.4), D.geom.logpmf(n, 0.3),
        D.geom.pmf(n, 0.3), D.poisson.logpmf(n, 2.5), D.poisson.pmf(n, 2.5), D.poisson.cdf(n, 2.5),
        D.betabinom.logpmf(n, 7, 2.0, 3.0), D.multinomial.logpmf(np.array([1, 2, 3]), 6, np.array([0.2, 0.3, 0.5])),
        D.multinomial.pmf(np.array([1, 2, 3]), 6, np.array([0.2, 0.3, 0.5])),
        D.dirichlet.logpdf(np.array([0.2, 0.3, 0.5]), np.array([1.0, 2.0, 3.0])),
        D.dirichlet.logpdf(np.array([0.2, 0.3]), np.array([1.0, 2.0, 3.0])), D.multivariate_normal.logpdf(s, v[:4], spd),
        D.multivariate_normal.pdf(s[0], v[:4], spd), D.multivariate_normal.logpdf(v, 0.5, 2.0),
        jax.grad(lambda a: jnp.sum(D.gamma.logpdf(pos, a)))(2.0), jax.grad(lambda a: jnp.sum(D.beta.logpdf(u, a, 2.0)))(2.0),
        jax.grad(lambda m: jnp.sum(D.multivariate_normal.logpdf(s, m, spd)))(v[:4]),
        D.sem(x), D.sem(x, axis=1), D.rankdata(np.array([3, 1, 2, 1, 3])), D.rankdata(x, axis=1),
        D.rankdata(np.array([3, 1, 2, 1, 3]), method='dense'), D.rankdata(np.array([3, 1, 2, 1, 3]), 'min'),
        D.rankdata(np.array([3, 1, 2, 1, 3]), 'max'), D.rankdata(np.array([3, 1, 2, 1, 3]), 'ordinal'),
    ]
