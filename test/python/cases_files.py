# SPDX-License-Identifier: Apache-2.0
"""Programs in files: read, called, differentiated, trained, saved."""
import os
import tempfile
import warnings

import anfora
import anfora.numpy as anp
import numpy as np
from anfora import grad, jit, vmap
from anfora.train import SGD, Adam, Step

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def written(text, name="program.anf"):
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def test_functions_of_a_program():
    m = anfora.read(os.path.join(ROOT, "examples", "derivatives.anf"))
    assert m.rabbits(10, 1.5) == 55.0 and "fibonacci" in list(m) and "cube" in dir(m)
    assert grad(m.fibonacci, wrt="x")(10, 1.5) == 55.0  # through the recursion
    assert m["cube"](2.0) == 8.0 and m.cube(x=2.0) == 8.0
    x = np.array([1.0, 2.0])
    assert np.allclose(jit(lambda x: vmap(m.cube)(x) + grad(m.cube)(2.0))(x), x ** 3 + 12)
    assert anfora.read(os.path.join(ROOT, "examples", "fibonacci.anf"))(20) == 6765
    for f, words in ((lambda: m.nothing, "has no function nothing"), (lambda: m.cube(1.0, 2.0), "takes 1 arguments"),
                     (lambda: m.cube(np.ones(2)), "declared"), (lambda: m(1.0), "no function main"),
                     (lambda: anfora.read("nothing.anf"), "nothing.anf"), (lambda: anfora.read(os.path.join(ROOT, "README.md")), "known format")):
        try:
            f()
        except (AttributeError, TypeError, anfora.CompileError) as e:
            assert words in str(e), e
        else:
            raise AssertionError(words)


def test_a_model():
    m = anfora.read(os.path.join(ROOT, "test", "fixtures", "pnnx", "enc.pnnx.param"))
    x = np.random.default_rng(0).normal(size=(2, 6, 32)).astype("f4")
    y = np.asarray(m(x))
    assert y.shape == (2, 6, 32) and y.std() > 0.1
    g, e = np.asarray(grad(lambda x: anp.sum(m.main(x) ** 2))(x)), 1e-2
    d = np.zeros_like(x)
    d[1, 2, 3] = e
    slope = (np.sum(np.asarray(m(x + d)) ** 2) - np.sum(np.asarray(m(x - d)) ** 2)) / (2 * e)
    assert abs(slope - g[1, 2, 3]) < 1e-2 * (1 + abs(slope)), (slope, g[1, 2, 3])


def test_training_a_program():
    m = anfora.read(written("def loss(p, x: f32[4], y: f32[4]) { d = p.w * x + p.b - y; Mean(d * d) }\n"))
    x = np.arange(4, dtype="f4")
    step = Step(m.loss, SGD(0.1), {"w": np.float32(0), "b": np.float32(0)})
    for _ in range(200):
        step(x, 2 * x + 1)
    assert abs(float(step.params["w"]) - 2) < 0.05 and step.losses[-1] < 1e-2


def test_sizes_that_an_array_gives():
    """A program of a file has no static_argnums: code is made for the numbers of each call that decide sizes."""
    m = anfora.read(written("def zeros(n: i64[2]) { Zeros((n[0], n[1]), dtype=f64) }\ndef bad(n: i64[2]) { Zeros((n[0], n[5]), dtype=f64) }\n"))
    for shape in ((2, 3), (0, 1), (2, 3), (4, 4), (5, 1), (6, 2)):
        assert np.asarray(m.zeros(np.array(shape))).tolist() == np.zeros(shape).tolist()
    try:
        m.bad(np.array([1, 2]))
    except anfora.AnforaError as e:
        assert "[E0404]" in str(e), e
    else:
        raise AssertionError("an index outside")


def test_saved_functions():
    captured = np.ones(2)

    @jit
    def f(x, y):
        return anp.sin(x) * y
    folder = tempfile.mkdtemp()
    for ending in (".anf", ".ir", ".dat"):
        path = os.path.join(folder, "f" + ending)
        f.save(path)
        back = anfora.read(path)
        assert back.f(1.0, 2.0) == f(1.0, 2.0) and back(1.0, y=3.0) == f(1.0, 3.0)
    for save, words in ((lambda: f.save("f.txt"), "ends in"), (lambda: jit(lambda x: x + captured).save(path), "captures")):
        try:
            save()
        except ValueError as e:
            assert words in str(e)
        else:
            raise AssertionError(words)


def test_saved_models():
    @jit
    def f(x, w):
        return anp.tanh(x @ w), anp.sum(w)
    x, w = np.linspace(-1, 1, 6, dtype="f4").reshape(2, 3), np.ones((3, 4), "f4")
    folder = tempfile.mkdtemp()
    for ending in (".onnx", ".mindir"):
        path = os.path.join(folder, "f" + ending)
        f.save(path, x, w)
        y, total = anfora.read(path)(x, w)
        assert np.allclose(np.asarray(y), np.tanh(x @ w)) and total == 12, ending
    slope = jit(anfora.grad(lambda w, x: anp.sum(anp.tanh(x @ w) ** 2)))
    slope.save(os.path.join(folder, "slope.onnx"), w, x)
    back = anfora.read(os.path.join(folder, "slope.onnx"))
    assert np.allclose(np.asarray(back(w, x)), np.asarray(slope(w, x)), atol=1e-6)
    try:
        f.save(os.path.join(folder, "none.onnx"))
    except (TypeError, anfora.AnforaError):
        assert not os.path.exists(os.path.join(folder, "none.onnx"))
    else:
        raise AssertionError("a model without arguments")


def test_mindspore_model():
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fixtures", "mindir")
    model, x = anfora.read(os.path.join(folder, "mlp.mindir")), np.load(os.path.join(folder, "mlp.in0.npy"))
    assert np.allclose(np.asarray(model.main(x)), np.load(os.path.join(folder, "mlp.out0.npy")), atol=1e-6)
    start = model.params()
    slopes = anfora.grad(lambda p, x: anp.sum(model.net(p, x)))(start, x)
    assert {k: v.shape for k, v in slopes.items()} == {k: v.shape for k, v in start.items()}
    assert np.allclose(np.asarray(slopes["fc2.bias"]), len(x))
    step = Step(lambda p, x, y: anp.mean((model.net(p, x) - y) ** 2), Adam(1e-2), start)
    y = np.ones((5, 4), "f4")
    losses = [float(step(x, y)) for _ in range(50)]
    assert losses[-1] < losses[0] / 10


def test_field_that_is_told_of():
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fixtures", "mindir")
    with open(os.path.join(folder, "mlp.mindir"), "rb") as f:
        data = f.read() + bytes([99 << 3 & 0x7F | 0x80 | 2, 99 >> 4, 0])  # field 99, of no bytes
    path = os.path.join(tempfile.mkdtemp(), "x.mindir")
    with open(path, "wb") as f:
        f.write(data)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        anfora.read(path)
    assert [str(w.message) for w in told if "W0102" in str(w.message) and "99 of ModelProto" in str(w.message)], told


def test_two_programs():
    one, two = (anfora.read(written(f"def {n}(x: f64) {{ helper(x) * 2.0 }}\ndef helper(x: f64) {{ x + {k}.0 }}\n"))
                for n, k in (("one", 1), ("two", 2)))
    assert one.one(1.0) == 4.0 and two.two(1.0) == 6.0
    try:
        jit(lambda x: one.one(x) + two.two(x))(1.0)
    except anfora.CompileError as e:
        assert "helper" in str(e)
    else:
        raise AssertionError("two functions of one name")


def test_prints():
    m = anfora.read(written("def shown(x: f64) { print(x); x + 1.0 }\n"))
    assert m.shown(2.0) == 3.0


def test_names_between_backticks():
    m = anfora.read(written("def `if`(`in`: f64, `a b`: f64) { `in` * `a b` }\n"))
    f = m["if"]
    assert f(2.0, 3.0) == 6.0 and f(**{"in": 2.0, "a b": 3.0}) == 6.0
    assert jit(lambda x: f(x, x) + 1.0)(3.0) == 10.0 and grad(f, wrt="in")(2.0, 3.0) == 3.0
