# SPDX-License-Identifier: Apache-2.0
"""Optimisers and schedules give what optax gives (optax_values.json, from optax 0.2.8: parameters after the steps that are said;
RAdam's are those of its formula in double, of which optax's single precision loses four digits), and training goes on as people train."""
import json
import os
import tempfile
import time

import anfora
import anfora.numpy as anp
import numpy as np
from anfora import jit, schedules
from anfora.optim import (AMSGrad, Accumulated, AdaBelief, Adadelta, Adagrad, Adam, Adamax, AdamW, Clipped, Lamb, Lion, NAdam, RAdam,
                          SGD, only)
from anfora.scipy.optimize import minimize
from anfora.train import Step, fit, prefetch

PARAMS = {"w": np.array([[1, -2], [0.5, 3]], "f4"), "b": np.array([0.1, -0.2], "f4")}
X = np.array([[1, 2], [3, -1], [0.5, 0.5]], "f4")
Y = np.array([[1, 0], [0, 1], [1, 1]], "f4")
MADE = {
    "Adagrad": lambda: Adagrad(0.1), "Adadelta": lambda: Adadelta(1.0), "Adamax": lambda: Adamax(0.1), "NAdam": lambda: NAdam(0.1),
    "RAdam": lambda: RAdam(0.1), "Lion": lambda: Lion(0.01), "Lamb": lambda: Lamb(0.1, weight_decay=0.01),
    "AdaBelief": lambda: AdaBelief(0.1), "AMSGrad": lambda: AMSGrad(0.1), "Adam": lambda: Adam(0.1), "AdamW": lambda: AdamW(0.1, 0.01),
    "SGD": lambda: SGD(0.1, 0.9, True), "Clipped": lambda: Clipped(SGD(0.5), norm=0.1),
    "Accumulated": lambda: Accumulated(Adam(0.1), 3), "warmup": lambda: SGD(schedules.warmup_cosine(0.5, 3, 9, 0.01, 0.05)),
    "exponential": lambda: SGD(schedules.exponential(0.5, 0.7, 2)), "piecewise": lambda: SGD(schedules.piecewise(0.5, [(2, 0.5), (4, 0.1)])),
    "joined": lambda: SGD(schedules.joined([schedules.linear(0.1, 0.5, 3), schedules.constant(0.2)], [3])),
    "only": lambda: only("b", SGD(0.5), others=Adam(0.1)), "frozen": lambda: only(lambda name: name == "b", SGD(0.5)),
}
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "optax_values.json"), encoding="utf-8") as file:
    VALUES = json.load(file)


def loss(p, x, y):
    return anp.mean((anp.tanh(x @ p["w"]) + p["b"] - y) ** 2)


def test_optimisers():
    assert set(VALUES) == set(MADE)
    for name, (steps, w, b) in VALUES.items():
        step = Step(loss, MADE[name](), PARAMS)
        for _ in range(steps):
            step(X, Y)
        got = np.concatenate([np.ravel(step.params["w"]), np.ravel(step.params["b"])])
        assert np.allclose(got, w + b, atol=1e-4), (name, got, w + b)


def test_schedules():
    for at, want in ((0, 0.04), (3, 1.0), (10, 1e-4 * 0.04)):
        assert abs(float(schedules.one_cycle(1.0, 10)(np.float32(at))) - want) < 1e-6
    assert abs(float(schedules.polynomial(1.0, 0.5, 2.0, 4)(np.float32(2))) - 0.625) < 1e-6
    assert abs(float(schedules.exponential(1.0, 0.5, 2, staircase=True)(np.float32(3))) - 0.5) < 1e-6


def test_extra_and_aux():
    """A running mean that is not differentiated by, and values beside the loss."""
    def both(p, mean, x, y):
        new = {"mean": 0.5 * mean["mean"] + 0.5 * anp.mean(x, 0)}
        error = x @ p["w"] - y
        return anp.mean(error ** 2), (new, {"most": anp.max(anp.abs(error))})
    step = Step(both, SGD(0.0), {"w": PARAMS["w"]}, extra={"mean": np.zeros(2, "f4")}, has_aux=True)
    for k in range(1, 4):
        value, aux = step(X, Y)
        assert np.allclose(step.extra["mean"], (1 - 0.5 ** k) * X.mean(0)) and np.allclose(aux["most"], np.abs(X @ PARAMS["w"] - Y).max())
        assert np.isclose(value, np.mean((X @ PARAMS["w"] - Y) ** 2)) and step.losses[-1] == value
    only_extra = Step(lambda p, mean, x: (anp.sum(p * x), mean + 1), SGD(0.1), np.ones(2, "f4"), extra=np.zeros(2, "f4"))
    assert only_extra(X[0]) == 3.0 and only_extra(X[0]) < 3.0 and np.allclose(only_extra.extra, 2)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "step.safetensors")
        only_extra.save(path)
        again = Step(lambda p, mean, x: (anp.sum(p * x), mean + 1), SGD(0.1), np.ones(2, "f4"), extra=np.zeros(2, "f4"))
        again.load(path)
        assert again.count == 2 and np.allclose(again.extra, 2) and again(X[0]) == only_extra(X[0])
    assert Step(lambda p, x: (anp.sum(p * x), x), SGD(0.1), np.ones(2, "f4"), has_aux=True)(X[0])[0] == 3.0


def test_parameters_that_are_none():
    step = Step(lambda p, x: anp.sum((x * p["w"]) ** 2), Adam(0.1), {"w": np.ones(2, "f4"), "b": None})
    step(X[0])
    assert step.params["b"] is None and np.all(np.asarray(step.params["w"]) < 1)


def test_prefetch():
    def slow():
        for i in range(5):
            time.sleep(0.01)
            yield i
        raise KeyError("end")
    found = []
    try:
        for i in prefetch(slow()):
            found.append(i)
    except KeyError:
        found.append("end")
    assert found == [0, 1, 2, 3, 4, "end"] and list(prefetch(range(100), 3)) == list(range(100))
    assert next(iter(prefetch(iter(int, 1)))) == 0  # a loop that is left


def test_fit():
    def made():
        return Step(lambda p, x, y: anp.mean((x @ p - y) ** 2), SGD(0.05), np.zeros(2, "f4"))
    x = np.random.default_rng(0).normal(size=(32, 2)).astype("f4")
    y = x @ np.array([1, 2], "f4")

    def data(_epoch):
        return [(x[:16], y[:16]), (x[16:], y[16:])]
    step = made()
    found = fit(step, data, 30, validate=lambda p: np.mean((x @ np.asarray(p) - y) ** 2))
    assert len(found) == 30 and found[-1] < 0.1 * found[0]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "fit.safetensors")
        first = fit(made(), data, 10, save_to=path, every=4)
        again = made()
        assert fit(again, data, 14, save_to=path)[:10] == first and again.count == 28
    worse = iter([3.0, 1.0, 2.0, 2.0, 0.5])
    step = made()
    assert fit(step, data, 9, validate=lambda _: next(worse), patience=2) == [3.0, 1.0, 2.0, 2.0]
    two = made()
    fit(two, data, 2)
    assert np.allclose(step.params, two.params)  # the best ones


def test_minimize():
    def rosenbrock(x, a=100.0):
        return anp.sum(a * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)
    for start in (np.array([-1.2, 1.0]), np.zeros(8)):
        found = minimize(rosenbrock, start, method="BFGS")
        assert found.success and found.status == 0 and np.allclose(found.x, 1, atol=1e-5) and found.nit < 60 and found.nfev < 120
    hessian = np.array([[3.0, 1.0], [1.0, 2.0]])
    found = minimize(lambda x, b: x @ hessian @ x / 2 - b @ x, np.zeros(2), (np.array([1.0, 2.0]),), tol=1e-9)
    assert np.allclose(found.x, np.linalg.solve(hessian, [1, 2])) and np.allclose(found.hess_inv, np.linalg.inv(hessian), atol=1e-3)
    falls = minimize(lambda x: -x[0], np.ones(1), options={"maxiter": 3})
    assert not falls.success and falls.status == 1 and falls.nit == 3
    for words, call in (("has the method 'BFGS'", lambda: minimize(rosenbrock, np.zeros(2), method="CG")),
                        ("one dim", lambda: minimize(rosenbrock, np.zeros((2, 2)))), ("no option 'gtl'", lambda: minimize(rosenbrock, np.zeros(2), options={"gtl": 1})),
                        ("call it outside", lambda: jit(lambda x: minimize(rosenbrock, x).x)(np.zeros(2)))):
        try:
            call()
        except (ValueError, anfora.CompileError) as e:
            assert words in str(e), e
        else:
            raise AssertionError(words)
