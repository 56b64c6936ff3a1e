# SPDX-License-Identifier: Apache-2.0
"""Random numbers of distributions have the means and variances that these have."""
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
