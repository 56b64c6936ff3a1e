# SPDX-License-Identifier: Apache-2.0
"""Random numbers of distributions have the means and variances that these have."""
import math

import anfora
import numpy as np
from anfora import random


def test_distributions_have_their_means_and_variances():
    count, key = 4000, random.key(5)
    rows = [("poisson", (4.0,), 4.0, 4.0), ("poisson", (0.5,), 0.5, 0.5), ("poisson", (50.0,), 50.0, 50.0),
            ("binomial", (10.0, 0.3), 3.0, 2.1), ("binomial", (10.0, 0.7), 7.0, 2.1), ("geometric", (0.3,), 1 / 0.3, 0.7 / 0.09),
            ("pareto", (8.0,), 8 / 7, 8 / 294), ("rayleigh", (2.0,), 2.5066283, 1.7168147), ("weibull_min", (2.0, 1.0), 2.0, 4.0),
            ("lognormal", (0.5,), 1.1331485, 0.3646959), ("triangular", (0.0, 0.3, 1.0), 0.4333333, 0.0438889),
            ("chisquare", (3.0,), 3.0, 6.0), ("t", (10.0,), 0.0, 1.25)]
    for name, args, mean, variance in rows:
        x = np.asarray(getattr(random, name)(key, *map(np.float64, args), (count,)), float)
        assert x.shape == (count,), name
        assert abs(x.mean() - mean) < 5 * np.sqrt(variance / count), (name, args, x.mean(), mean)
        assert abs(x.var() / variance - 1) < 0.3, (name, args, x.var(), variance)
    assert np.asarray(random.binomial(key, 5.0, 1.0, (3,))).tolist() == [5, 5, 5]
    assert np.asarray(random.binomial(key, 5.0, 0.0, (3,))).tolist() == [0, 0, 0]
    assert np.asarray(random.poisson(key, 0.0, (2,))).tolist() == [0, 0]


def test_bounds_of_random_numbers_come_from_shapes_and_arguments():
    rows = np.asarray(anfora.jit(lambda k, x: random.randint(k, (200,), 0, x.shape[0]))(random.key(0), np.ones(3)))
    assert set(rows.tolist()) == {0, 1, 2}
    x = np.asarray(anfora.jit(lambda k, low, high: random.uniform(k, (200,), minval=low, maxval=high))(random.key(0), 2.0, 5.0))
    assert x.min() >= 2 and x.max() < 5 and x.max() > 4


def test_rejection_under_transforms():
    keys = random.split(random.key(1), 200)
    for draw, mean in ((lambda k: random.gamma(k, 2.0), 2.0), (lambda k: random.poisson(k, 3.0), 3.0)):
        rows = np.asarray(anfora.vmap(draw)(keys), float)
        assert rows.shape == (200,) and abs(rows.mean() - mean) < 0.6
    slope = np.asarray(anfora.grad(lambda a: anfora.numpy.sum(random.gamma(random.key(2), a, (50,))))(3.0))
    step = [np.asarray(random.gamma(random.key(2), 3.0 + h, (50,))).sum() for h in (1e-6, -1e-6)]
    assert np.allclose(slope, (step[0] - step[1]) / 2e-6, rtol=1e-4)
    assert np.isnan(np.asarray(random.gamma(random.key(2), np.array([-1.0, np.nan])))).all()


def test_parameters_of_no_distribution_end():
    key, odd = random.key(3), np.array([np.nan, np.inf, -np.inf, -1.0])
    assert np.asarray(random.poisson(key, odd)).tolist() == [-1] * 4
    assert np.isnan(np.asarray(random.binomial(key, odd, 0.5))).all() and np.isnan(np.asarray(random.binomial(key, 5.0, odd))).all()
    assert np.asarray(random.gamma(key, np.inf)) == np.inf and np.isnan(np.asarray(random.gamma(key, -np.inf)))


def test_parameters_that_are_none():
    """Of parameters that a distribution has not there is NaN, or -1 of whole numbers; of large ones a number, and soon."""
    key, nan = random.key(3), math.nan

    def absent(x, where):
        assert np.isnan(np.asarray(x)).tolist() == where, x
    absent(random.pareto(key, np.array([-1.0, nan, 2.0])), [True, True, False])
    absent(random.rayleigh(key, np.array([-1.0, nan, 2.0])), [True, True, False])
    absent(random.weibull_min(key, np.array([1.0, -1.0, 1.0]), np.array([-1.0, 1.0, 2.0])), [True, True, False])
    absent(random.lognormal(key, np.array([-1.0, nan, 2.0])), [True, True, False])
    absent(random.loggamma(key, np.array([-1.0, nan, 2.0])), [True, True, False])
    absent(random.wald(key, np.array([-1.0, 0.0, 2.0])), [True, True, False])
    absent(random.triangular(key, 0.0, np.array([-1.0, 3.0, 1.0]), 2.0), [True, True, False])
    absent(random.truncated_normal(key, np.array([2.0, nan, -1.0]), 1.0, (3,)), [True, True, False])
    assert np.asarray(random.geometric(key, np.array([nan, -1.0, 2.0, 1.0]))).tolist() == [-1, -1, -1, 1]
    large = np.asarray(random.binomial(key, np.array([1e9, 1e18, 1e300, 1e300]), np.array([0.5, 0.25, 0.4, 0.0])))
    assert np.allclose(large, [5e8, 2.5e17, 4e299, 0.0], rtol=1e-3), large
    assert (np.asarray(random.wald(key, np.array([1e300, 1e17]))) > 0).all()


def test_binomial_of_many_trials():
    for n, p in ((40, 0.3), (40, 0.7), (30, 0.33), (1e6, 0.1)):
        x = np.asarray(random.binomial(random.key(1), n, p, (2000,)))
        spread = math.sqrt(n * p * (1 - p))
        assert abs(x.mean() - n * p) < 4 * spread / math.sqrt(2000) and abs(x.var() / spread ** 2 - 1) < 0.15, (n, p)
        assert (x == np.floor(x)).all() and x.min() >= 0 and x.max() <= n


def test_points_in_balls_and_matrices_that_turn():
    x = np.asarray(random.ball(random.key(0), 3, 2, (2000,)))
    r = np.linalg.norm(x, axis=-1)
    assert r.max() <= 1 and abs((r < 0.5 ** (1 / 3)).mean() - 0.5) < 0.05
    q = np.asarray(random.orthogonal(random.key(1), 4, (2,)))
    assert np.allclose(q @ q.swapaxes(-1, -2), np.eye(4))
    wide = np.asarray(random.orthogonal(random.key(1), 2, m=3))
    assert wide.shape == (2, 3) and np.allclose(wide @ wide.T, np.eye(2))
    x = np.asarray(random.generalized_normal(random.key(2), 2.0, (4000,)))
    assert abs(x.var() - 0.5) < 0.06 and abs(x.mean()) < 0.06
    x = np.asarray(random.double_sided_maxwell(random.key(2), 1.0, 2.0, (4000,)))
    assert abs(((x - 1) ** 2).mean() / 4 - 3) < 0.3
