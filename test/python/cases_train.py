# SPDX-License-Identifier: Apache-2.0
"""Training: optimisers against NumPy, a network on real digits, curves."""
import os
import subprocess
import sys
import tempfile
import threading
import warnings

import anfora
import anfora.numpy as anp
import numpy as np
from anfora.train import SGD, Adam, AdamW, Clipped, RMSProp, Step, batches, only, progress

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
    assert len(step._made) == 1
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


def model(n, kind=np.float32):
    r = np.random.default_rng(n)
    return {"w": [r.normal(size=(3, n)).astype(kind), r.normal(size=(n, 1)).astype(kind)], "b": (np.array(0.5, kind),)}


def mlp(p, x, y):
    return anp.mean((anp.tanh(x @ p["w"][0]) @ p["w"][1] + p["b"][0] - y) ** 2)


def data_of(rows, kind=np.float32):
    r = np.random.default_rng(rows)
    return r.normal(size=(rows, 3)).astype(kind), r.normal(size=(rows, 1)).astype(kind)


def test_steps_in_place_give_what_new_parameters_would():
    for optimizer in (SGD(0.1, momentum=0.9, nesterov=True), Adam(0.01), RMSProp(0.01)):
        for keep in (True, False):
            step, p = Step(mlp, optimizer, model(5), stop_at_nan=keep), model(5)
            state, f = optimizer.init(p), Step(mlp, optimizer, p).function(2)
            for rows in (8, 8, 4, 8, 4, 4):  # the state goes from the code for one batch to that for another
                p, state, loss = f(p, state, *data_of(rows))
                assert np.isclose(step(*data_of(rows)), float(loss), rtol=1e-5)
            for a, b in zip(anfora.tree_leaves((step.params, step.state)), anfora.tree_leaves((p, state))):
                assert np.allclose(np.asarray(a), np.asarray(b), rtol=1e-5, atol=1e-6)
            assert type(step.params["b"]) is tuple and type(step.params["w"]) is list and step.count == 6
            assert step._live is not None and len(step._made) == 2


def test_parameters_of_a_step_are_copies_and_can_be_set():
    step = Step(mlp, SGD(0.1), model(4))
    first = step.params
    step(*data_of(6))
    before = step.params
    kept = np.asarray(before["w"][0]).copy()
    step(*data_of(6))
    assert np.array_equal(np.asarray(before["w"][0]), kept) and not np.array_equal(np.asarray(step.params["w"][0]), kept)
    step.params = first
    again = Step(mlp, SGD(0.1), model(4))
    assert step(*data_of(6)) == again(*data_of(6))


def test_numbers_as_parameters_and_in_batches():
    step = Step(lambda p, x, k: (p["w"] * x - k) ** 2, SGD(0.1), {"w": 1.0})
    losses = [step(2.0, 3.0) for _ in range(20)]
    assert losses[0] == 1.0 and losses[-1] < 1e-6
    weighed = Step(lambda p, x, k: anp.sum((p * x - k) ** 2), SGD(0.1), np.array([1.0]))
    assert weighed(np.array([2.0]), np.array(3.0)) == 1.0 and weighed(np.array([2.0]), np.array(5.0)) > 1.0


def test_captured_arrays_in_steps():
    c = np.array([1.0, 2.0])
    step = Step(lambda p, x: anp.sum((p * x - c) ** 2), SGD(0.1), np.array([0.0, 0.0]))
    for _ in range(50):
        step(np.array([1.0, 1.0]))
    assert np.allclose(np.asarray(step.params), c, atol=1e-3)


def test_threads_train_models_of_their_own():
    want = {}
    def train(n, out):
        step = Step(mlp, Adam(0.01), model(n))
        for _ in range(100):
            step(*data_of(16))
        out[n] = list(step.losses)
    for n in (3, 7):
        train(n, want)
    got = {}
    threads = [threading.Thread(target=train, args=(n, got)) for n in (3, 7)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert got == want


def test_errors_of_a_step_name_the_line():
    def checked(p, x):
        assert anp.sum(x) > 0, "x must be positive"
        return anp.sum(p * x)
    step = Step(checked, SGD(0.1), np.array([1.0]))
    step(np.array([1.0]))
    try:
        step(np.array([-1.0]))
    except anfora.RunError as e:
        assert "x must be positive" in str(e) and "assert anp.sum(x) > 0" in str(e), str(e)
    else:
        raise AssertionError("it went on")


SHUTDOWN = """
import sys, threading
sys.path.insert(0, {folder!r})
import anfora, anfora.numpy as anp
from anfora.train import SGD, Step
step = Step(lambda p: anp.sum(p ** 2), SGD(0.001), anp.ones((64,)))
step()
f = anfora.jit(lambda x: anp.sum(anp.sin(x)))
def go():
    while True:
        step(); f(anp.ones((1000,)))
if {thread}:
    threading.Thread(target=go, daemon=True).start()
f(anp.ones((1000,)))
{end}
"""


KEPT = """
import sys
sys.path.insert(0, {folder!r})
import anfora, anfora.numpy as anp
from anfora.train import SGD, Step
print(float(anfora.jit(lambda x: anp.sum(anp.sin(x)))(anp.ones((10,)))))
step = Step(lambda p: anp.sum(p ** 2), SGD(0.125), anp.ones((8,)))
print(float(step()), float(step()))
"""


def run_python(form, cache="off", **words):
    folder = os.path.dirname(os.path.dirname(os.path.abspath(anfora.__file__)))
    with tempfile.TemporaryDirectory() as d:
        file = os.path.join(d, "main.py")
        with open(file, "w", encoding="utf-8") as f:
            f.write(form.format(folder=folder, **words))
        return subprocess.run([sys.executable, file], capture_output=True, encoding="utf-8", timeout=120, check=False,
                              env={**os.environ, "ANFORA_CACHE": cache})


def test_the_next_process_finds_what_was_compiled():
    with tempfile.TemporaryDirectory() as d:
        done = [(run_python(KEPT, d), sorted(os.listdir(d))) for _ in range(2)]
    for ran, _ in done:
        assert ran.returncode == 0, ran.stderr
        total, first, second = map(float, ran.stdout.split())
        assert abs(total - 10 * np.sin(1)) < 1e-5 and (first, second) == (8, 4.5), ran.stdout
    assert len(done[0][1]) >= 2 and done[0][1] == done[1][1], done


def test_the_interpreter_ends_while_code_runs():
    done = run_python(SHUTDOWN, end="import time; time.sleep(0.2)", thread=True)
    assert done.returncode == 0 and done.stderr == "", (done.returncode, done.stderr)


def test_a_forked_child_runs_what_was_compiled():
    end = """
import os
pid = os.fork()
if pid == 0:
    ok = abs(float(f(anp.ones((1000,)))) - 841.47) < 0.1
    os._exit(0 if ok and step() > 0 else 1)
assert os.waitpid(pid, 0)[1] == 0
"""
    done = run_python(SHUTDOWN, end=end, thread=False)
    assert done.returncode == 0 and done.stderr == "", (done.returncode, done.stderr)


def fails(kind, f, *words):
    try:
        f()
    except kind as e:
        assert all(w in str(e) for w in words), str(e)
        return
    raise AssertionError("it was taken")


class OnAnotherDevice:
    def __dlpack__(self, **_):
        raise BufferError("the memory is of a GPU")

    def __dlpack_device__(self):
        return 2, 0


def test_wrong_batches_are_errors_and_change_nothing():
    step = Step(mlp, SGD(0.1), model(4))
    x, y = data_of(6)
    step(x, y)
    kept = np.asarray(step.params["w"][0]).copy()
    fails(anfora.CompileError, lambda: step(x[:, :2], y), "MatMul", "anp.tanh(x @ p[\"w\"][0])")
    fails(anfora.CompileError, lambda: step(x, y[:4]), "Sub", "mlp")
    fails(TypeError, lambda: step(x.astype(object), y))
    fails(BufferError, lambda: step(OnAnotherDevice(), y), "GPU")
    fails(TypeError, lambda: step(np.zeros((6, 3), ">f4"), y), "byte order")
    assert np.array_equal(np.asarray(step.params["w"][0]), kept) and step.count == 1
    again = Step(mlp, SGD(0.1), step.params)
    strided = np.zeros((12, 6), np.float32)[::2, ::2]  # of any strides
    strided[:] = x
    assert step(strided, y) == again(x, y)


def test_nan_names_the_operation_and_its_line():
    step = Step(lambda p, x: anp.sum(anp.log(p * x)), SGD(0.1), np.array([1.0, 2.0]))
    fails(FloatingPointError, lambda: step(np.array([-1.0, 1.0])), "Log made the first NaN", "anp.log(p * x)")


def test_checkpoints_that_do_not_fit_are_refused_and_a_full_disk_spoils_none():
    import resource
    import signal
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "model.safetensors")
    step = Step(mlp, SGD(0.1), model(5))
    step(*data_of(6))
    step.save(path)
    with open(path, "rb") as f:
        whole = f.read()
    fails(ValueError, lambda: Step(mlp, SGD(0.1), model(6)).load(path), "has the shape (3, 5), not (3, 6)")
    fails(ValueError, lambda: Step(mlp, Adam(0.1), model(5)).load(path), "is of another tree")
    with open(path + ".cut", "wb") as f:
        f.write(whole[:-8])
    fails(ValueError, lambda: anfora.load(path + ".cut"), "not a safetensors file")
    fails(FileNotFoundError, lambda: anfora.load(path + ".none"), "No such file")
    fails(IsADirectoryError, lambda: anfora.load(folder), "Is a directory")
    anfora.save(path + ".keys", {"k": np.arange(2.0)}, **{"anfora.keys": '["k"]'})
    fails(ValueError, lambda: anfora.load(path + ".keys"), "no array of keys")
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (256, limits[1]))  # a disk that is full after 256 bytes
    try:
        fails(OSError, lambda: step.save(path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    with open(path, "rb") as f:
        assert f.read() == whole
    assert sorted(os.listdir(folder)) == ["model.safetensors" + end for end in ("", ".cut", ".keys")]


def test_a_device_is_written_and_not_replaced():
    fails(OSError, lambda: anfora.save("/dev/full", {"w": np.ones(10000)}), "No space left")
    assert not os.path.isfile("/dev/full")


def test_a_batch_of_texts_is_refused():
    step = Step(mlp, SGD(0.1), model(4))
    fails(TypeError, lambda: step("a", 1), "part 0 of this one is 'a'")
    fails(TypeError, lambda: step(data_of(6)[0], None), "part 1 of this one is None")


def test_freed_arrays_stay_as_long_as_they_are_used():
    import gc
    x, y = data_of(6)
    array = anfora.asarray(x.copy())
    view = np.asarray(array)
    del array
    gc.collect()
    assert np.array_equal(view, x)
    step = Step(mlp, SGD(0.1), model(4))
    first = step(anfora.asarray(x.copy()), anfora.asarray(y.copy()))
    gc.collect()
    assert np.isfinite(first) and np.isfinite(step(x, y))


def quadratic(p, x, y):
    return np.mean((x @ p["w"] - y) ** 2)


def test_changed_settings():
    """What a user changes of an optimiser, and the loss, holds from the next step on."""
    x, y = np.random.default_rng(0).normal(size=(6, 3)), np.arange(6.0)
    begin = {"w": np.ones(3)}

    def after(*rates, kind=SGD):
        step = Step(quadratic, kind(rates[0]), begin)
        for rate in rates:
            step.optimizer.rate = rate
            step(x, y)
        return np.asarray(step.params["w"])
    w = np.ones(3)
    for rate in (0.1, 0.1, 0.02, 0.0, 0.3):
        w = w - rate * 2 * x.T @ (x @ w - y) / 6
    assert np.allclose(after(0.1, 0.1, 0.02, 0.0, 0.3), w)
    assert not np.allclose(after(0.1, 0.1), after(0.1, 0.2))
    step = Step(quadratic, Clipped(SGD(1.0), norm=1e-3), begin)
    step(x, y)
    step.optimizer.norm, step.optimizer.inner.rate = 0.5, 2.0
    before = np.asarray(step.params["w"])
    step(x, y)
    assert np.isclose(np.linalg.norm(np.asarray(step.params["w"]) - before), 1.0)
    step.loss = lambda p, x, y: 0.0 * np.sum(p["w"])
    before = np.asarray(step.params["w"])
    assert step(x, y) == 0.0 and np.array_equal(step.params["w"], before)
    step = Step(quadratic, SGD(0.1), begin)
    step(x, y)
    step.optimizer.momentum = 0.9
    try:
        step(x, y)
        raise AssertionError("the state has no momentum")
    except ValueError as e:
        assert "make a new Step" in str(e)


def test_many_changes_warn():
    x, y, step = np.eye(2), np.ones(2), None
    step = Step(quadratic, SGD(0.1), {"w": np.ones(2)})
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for k in range(12):
            step.optimizer.rate = 0.1 / (k + 1)
            step(x, y)
    assert sum("schedules" in str(w.message) for w in seen) == 1


def test_state_is_one_for_all_sizes():
    """Batches of several sizes have code of their own, and one state: Adam as NumPy computes it, bits of bias correction included."""
    rng = np.random.default_rng(1)
    x, y, w = rng.normal(size=(10, 3)), rng.normal(size=(10, 2)), rng.normal(size=(3, 2))
    step, m, v = Step(quadratic, Adam(0.1), {"w": w}), 0.0, 0.0
    for t, (a, b) in enumerate(((0, 4), (4, 10), (0, 4), (4, 10), (0, 3), (2, 6)), 1):
        step(x[a:b], y[a:b])
        g = 2 * x[a:b].T @ (x[a:b] @ w - y[a:b]) / y[a:b].size
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        w = w - 0.1 * (m / (1 - 0.9 ** t)) / (np.sqrt(v / (1 - 0.999 ** t)) + 1e-8)
        assert np.allclose(step.params["w"], w, rtol=1e-12, atol=1e-12), t
    assert step.count == 6


def test_one_optimiser_of_two_steps():
    """What `only` found for one step's parameters does not change another's."""
    rule = only("w", SGD(0.5), others=None)
    one = Step(lambda p: np.sum(p["w"] ** 2) + np.sum(p["v"] ** 2), rule, {"v": np.ones(2), "w": np.ones(2)})
    two = Step(lambda p: np.sum(p["w"] ** 2) + np.sum(p["v"] ** 2), rule, {"w": np.ones(2), "v": np.ones(2)})
    for _ in range(2):
        one()
        two()
    for step in (one, two):
        assert np.array_equal(step.params["v"], [1, 1]) and np.array_equal(step.params["w"], [0, 0])
