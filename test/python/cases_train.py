# SPDX-License-Identifier: Apache-2.0
"""Training: optimisers against NumPy, a network on real digits, curves."""
import os

import anfora
import anfora.numpy as anp
import numpy as np
from anfora.train import SGD, Adam, AdamW, RMSProp, Step, batches, progress

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def loss(p, x, y):
    return anp.mean((x @ p["w"] + p["b"] - y) ** 2)


def gradient(w, b, x, y):
    r = x @ w + b - y
    return 2 * x.T @ r / len(y), 2 * np.mean(r)


def compare(optimizer, update, steps=5):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(8, 3)), rng.normal(size=8)
    step = Step(loss, optimizer, {"w": np.ones(3), "b": np.array(0.5)})
    w, b, slots = np.ones(3), 0.5, [{}, {}]
    for t in range(1, steps + 1):
        step(x, y)
        gw, gb = gradient(w, b, x, y)
        w, b = update(w, gw, t, slots[0]), update(b, gb, t, slots[1])
    assert np.allclose(np.asarray(step.params["w"]), w, rtol=1e-6), (np.asarray(step.params["w"]), w)
    assert np.isclose(float(step.params["b"]), b, rtol=1e-6)
    assert step.count == steps == len(step.losses)


def test_sgd():
    compare(SGD(0.1), lambda p, g, t, s: p - 0.1 * g)
    compare(SGD(0.1, decay=0.5), lambda p, g, t, s: p - 0.1 * (g + 0.5 * p))


def test_momentum():
    def heavy(p, g, t, s):
        s["v"] = 0.9 * s.get("v", 0) + g
        return p - 0.1 * s["v"]
    def nesterov(p, g, t, s):
        s["v"] = 0.9 * s.get("v", 0) + g
        return p - 0.1 * (0.9 * s["v"] + g)
    compare(SGD(0.1, momentum=0.9), heavy)
    compare(SGD(0.1, momentum=0.9, nesterov=True), nesterov)


def test_adam():
    def adam(decay):
        def update(p, g, t, s):
            s["m"] = 0.9 * s.get("m", 0) + 0.1 * g
            s["v"] = 0.999 * s.get("v", 0) + 0.001 * g * g
            step = s["m"] / (1 - 0.9 ** t) / (np.sqrt(s["v"] / (1 - 0.999 ** t)) + 1e-8)
            return p - 0.01 * (step + decay * p)
        return update
    compare(Adam(0.01), adam(0.0))
    compare(AdamW(0.01, decay=0.1), adam(0.1))


def test_rmsprop():
    def update(p, g, t, s):
        s["v"] = 0.9 * s.get("v", 0) + 0.1 * g * g
        return p - 0.01 * g / (np.sqrt(s["v"]) + 1e-8)
    compare(RMSProp(0.01), update)


def test_schedule():
    compare(SGD(lambda count: 0.1 / (1 + count)), lambda p, g, t, s: p - 0.1 / t * g)


def test_digits():
    data = np.load(os.path.join(ROOT, "examples", "data", "digits.npz"))
    x, y = (data["x"].reshape(-1, 64) / 16).astype(np.float32), data["y"].astype(np.int32)
    rng = np.random.default_rng(0)
    layer = lambda m, n: ((rng.normal(size=(m, n)) * (2 / m) ** 0.5).astype(np.float32), np.zeros(n, np.float32))
    def model(p, x):
        hidden = anp.relu(x @ p[0][0] + p[0][1])
        return hidden @ p[1][0] + p[1][1]
    def error(p, x, y):
        return anp.mean(anp.softmax_cross_entropy(model(p, x), y))
    step = Step(error, Adam(3e-3), [layer(64, 48), layer(48, 10)])
    for xs, ys in progress(batches((x, y), 64, epochs=30), step):
        step(xs, ys)
    held = (data["x_test"].reshape(-1, 64) / 16).astype(np.float32)
    right = np.mean(np.argmax(np.asarray(anfora.jit(model)(step.params, held)), 1) == data["y_test"])
    assert right >= 0.96, right
    assert isinstance(step.params, list) and isinstance(step.params[0], tuple)
    assert step.params[0][0].dtype == "f32"
    assert step.function(2).compiled == 1
    assert "<polyline" in step.losses._repr_svg_()


def test_nan_stops():
    step = Step(lambda p, x: anp.sum(anp.log(p * x)), SGD(0.1), np.array([1.0, 2.0]))
    step(np.array([1.0, 1.0]))
    kept = np.asarray(step.params).copy()
    try:
        step(np.array([-1.0, 1.0]))
    except FloatingPointError as e:
        assert "step 2" in str(e)
    else:
        raise AssertionError("it went on")
    assert np.array_equal(np.asarray(step.params), kept)
