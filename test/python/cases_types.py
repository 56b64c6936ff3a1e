# SPDX-License-Identifier: Apache-2.0
"""Type hints: the package and a user's program pass mypy, if it is there; what a star import gives."""
import math
import os
import shutil
import subprocess
import types

import anfora
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))


class Skip(Exception):
    pass


def mypy(*words):
    if not shutil.which("mypy"):
        raise Skip("mypy is not here")
    folder = os.path.dirname(os.path.dirname(anfora.__file__))
    r = subprocess.run(["mypy", "--cache-dir", os.devnull, *words], capture_output=True, text=True, cwd=folder, check=False,
                       env={**os.environ, "MYPYPATH": folder})
    assert r.returncode == 0, r.stdout + r.stderr


def test_the_package():
    mypy("-p", "anfora")


def test_a_program():
    mypy("--strict", "--follow-imports=silent", os.path.join(HERE, "typed.py"))


def test_all():
    public = {n for n, x in vars(anfora).items() if not n.startswith("_") and not isinstance(x, types.ModuleType)}
    modules = {"debug", "flatten_util", "initializers", "lax", "nn", "numpy", "ops", "optim", "quantise", "random", "schedules", "scipy", "sparse", "train", "tree_util"}
    assert public | modules == set(anfora.__all__), (public | modules) ^ set(anfora.__all__)


def test_arrays_of_numbers_do_not_take_a_type():
    """np.array of numbers of Python is f64, also beside f32."""
    half, xs = np.array([1.0, 0.5, -2.0], np.float32), [1.27, 1.63, 2.7]
    for f in (lambda l: np.array(l) * half, lambda l: np.array(l[:2] + [-2.8]) * half, lambda l: np.asarray([v * 2 for v in l]) * half, lambda l: np.array([l[0]] * 3) * 1.0 * half):
        got, want = np.asarray(anfora.jit(f)(xs)), f(xs)
        assert got.dtype == want.dtype and np.allclose(got, want, 1e-12, 0)
    for x in (True, 3, 2.5, 1j, np.array([True]), np.array([3], np.uint8), np.array([-0.0], np.float32), np.array([1j], np.complex64)):
        for f in (lambda x: np.array(x), lambda x: np.array([x, x])):
            got, want = np.asarray(anfora.jit(f)(x)), f(x)
            assert got.dtype == want.dtype and np.array_equal(got, want) and np.array_equal(np.signbit(got.real), np.signbit(want.real)), x


def test_numpys_functions_of_numbers_have_types():
    """NumPy's functions of numbers of Python give f64, also beside f32, as NumPy 2 does; those of jax.numpy's manner and numbers given directly do not."""
    half = np.array([1.0, 0.5], np.float32)
    scale = np.float64(0.5)  # of NumPy, and no number of Python
    for f in (lambda x: np.sqrt(2.0) * x, lambda x: np.stack([0.5, 1.0]) * x, lambda x: x / np.sqrt(x.shape[0]), lambda x: np.where(x > 0, 0.5, 1.0) * x,
              lambda x: np.divmod(5.0, 2.0)[0] * x, lambda x: np.stack([x[0], 1.0]), lambda x: np.array([x[0], 1.0]), lambda x: np.repeat(0.5, 2) * x, lambda x: scale * x,
              lambda x: np.sum(0.5) * x, lambda x: np.mean([x[0], 0.5])):
        assert anfora.jit(f)(half).dtype == "f64", f.__code__.co_firstlineno
    for f in (lambda x: np.maximum(x, 0.5), lambda x: np.where(x > 0, x, 0.5), lambda x: np.clip(x, 0.0, 1.0), lambda x: np.full_like(x, 0.5) * x, lambda x: np.real(0.5) * x,
              lambda x: np.array([0.5, 1.0], np.float32) * x, lambda x: np.cumsum(x) * 0.5, lambda x: np.array([x[0], x[1]])):
        assert anfora.jit(f)(half).dtype == "f32"
    with_f32 = anfora.jit(lambda x: np.sqrt(2.0) * np.stack([x[0], 1.0]))
    anfora.set_default_dtype("f32")
    try:
        assert with_f32(half).dtype == "f32"
    finally:
        anfora.set_default_dtype("f64")


def test_numbers_as_arguments():
    """What NumPy's functions give of a number that is an argument is f64, as of one that is written, and so in anfora.numpy, compiled or not."""
    half = np.array([1.0, 0.5], np.float32)
    for f in (lambda k, x: np.exp(k) * x, lambda k, x: np.full(2, k / 2) * x, lambda k, x: np.sum([k, 0.5]) * x, lambda k, x: anfora.numpy.sqrt(2.0) * x, lambda k, x: anfora.numpy.exp(-k) * x):
        assert anfora.jit(f)(2, half).dtype == anfora.jit(f)(2.0, half).dtype == "f64", f.__code__.co_firstlineno
    eager = anfora.asarray(half)
    assert (anfora.numpy.sqrt(2.0) * eager).dtype == "f64"
    for f in (lambda k, x: np.maximum(k, x), lambda k, x: k * 2.0 * x, lambda k, x: np.exp(x * k), lambda k, x: anfora.nn.gelu(x) * k):
        assert anfora.jit(f)(2.0, half).dtype == "f32", f.__code__.co_firstlineno


def sizes(x):
    return np.size(x) + np.size(x, 0) * np.size(x, axis=-1) + np.size([1, 2, 3])


def reversed_order(x):
    n = len(x)
    order = list(range(n))
    order[0] = n - 1
    return x[order[0]] * len(order) + sum(x[i] for i in list(range(x.shape[0] - 1)))


def test_functions_composed_of_operations_follow_the_same_rule():
    half = np.array([1.0, 0.5], np.float32)
    anp = anfora.numpy
    for f in (lambda x: anp.round(2.5) * x, lambda x: anp.dot(2.0, 3.0) * x, lambda x: anp.polyval([1.0, 2.0], 0.5) * x):
        assert anfora.jit(f)(half).dtype == f(anfora.asarray(half)).dtype == "f64", f.__code__.co_firstlineno
    for f in (lambda x: anp.round(x * 2.0), lambda x: anp.clip(x, 0, 300) * 2.0, lambda x: anfora.nn.gelu(x)):
        assert anfora.jit(f)(half).dtype == f(anfora.asarray(half)).dtype == "f32", f.__code__.co_firstlineno
    for f in (lambda x: np.sign(-3) * x, lambda x: np.exp2(-1) * x, lambda x: np.arcsinh(-1.0) * x, sizes, reversed_order):
        assert np.allclose(anfora.jit(f)(half), f(half)), f.__code__.co_firstlineno


def test_functions_of_numpy_give_typed_arrays_of_lists():
    def f(l, n, x):
        return ([v.dtype == np.int64 for v in (np.array(l), np.sum(l), np.max(l), np.abs(n), np.cumsum(l), np.sort(l), np.where(n > 0, n, 0), np.dot(l, l), np.concatenate([l, l]))],
                [v.dtype == np.float64 for v in (np.mean(l), np.sqrt(n), np.exp(x), np.array([x, 1.0]), np.maximum(x, 1.0))], np.mean(l) * np.ones(2, np.float32))
    whole, floats, product = anfora.jit(f)([1, 2, 3], 4, 2.5)
    assert all(whole) and all(floats) and product.dtype == "f64"


def test_classes_of_arguments():
    """Which class an argument is of is asked anew for each kind of number."""
    def kind(x):
        return 1 if isinstance(x, int) else 2

    f = anfora.jit(kind)
    assert [int(f(x)) for x in (1, 2.5, 7)] == [1, 2, 1]
    is_array = anfora.jit(lambda x: isinstance(x, np.ndarray))
    assert [bool(is_array(x)) for x in (1, np.ones(2), 1.5)] == [False, True, False]
    twice = anfora.jit(lambda k: k + k)
    assert twice(2) == 4 and np.all(np.asarray(twice(np.array([True]))) == [True])
    try:
        assert twice(True) == 2
    except anfora.AnforaError as e:
        assert "int(a) + int(b)" in str(e)


def test_numbers_of_python_that_are_computed_have_no_type():
    """float(s), int(s), s.item(), round(s) and what math gives take the type of the array that they meet, and are computed in doubles."""
    half, xs, n = np.array([1.0, 0.5, -2.0], np.float32), np.array([1.25, 2.5, 3.1]), np.array([3, 4], np.int32)
    for f in (lambda y, x, n: y * float(np.sum(x)), lambda y, x, n: y * int(np.sum(x)), lambda y, x, n: y * x[0].item(), lambda y, x, n: y * n[0].item(),
              lambda y, x, n: y * round(float(x[0])), lambda y, x, n: y * math.floor(x[0]), lambda y, x, n: y * math.sqrt(x[0]), lambda y, x, n: y * math.pow(x[0], 2),
              lambda y, x, n: y * math.log(x[1], x[2]), lambda y, x, n: y * math.hypot(x[0], x[1]), lambda y, x, n: y * sum([float(v) for v in x])):
        got = np.asarray(anfora.jit(f)(half, xs, n))
        assert got.dtype == np.float32 and np.array_equal(got, np.asarray(f(half, xs, n), np.float32)), f.__code__.co_firstlineno
    assert anfora.jit(lambda y, x, n: n * int(x[0]))(half, xs, n).dtype == "i32"
    assert anfora.jit(lambda y, x, n: math.exp(y[1]))(half, xs, n) == math.exp(0.5)
    assert anfora.jit(lambda y, x, n: y * np.sqrt(math.exp(x[0])))(half, xs, n).dtype == "f64"  # of NumPy, as above
    slope = anfora.grad(lambda x: np.sum(half * math.exp(x[0]) * float(x[1])))(xs)
    assert np.allclose(slope, [-0.5 * math.exp(1.25) * 2.5, -0.5 * math.exp(1.25), 0])

    def total(x):
        s = 0.0
        for v in x:
            s += float(v)
        return half * s
    assert anfora.jit(total)(xs).dtype == "f32"
    try:
        anfora.jit(lambda x: x * int(np.sum(x)))(np.array([200, 100], np.uint8))
    except anfora.RunError as e:
        assert "E0561" in str(e)  # 300 is no u8


def test_truth_values_beside_numbers_are_integers():
    """True * 2.5 is a float of Python, which takes the type of the array that it meets; a comparison of arrays is an array of truth values."""
    half = np.array([1.5, 0.5, -2.0], np.float32)
    for f in (lambda y: float(y[0]) * True * y, lambda y: (float(y[0]) > 0) * 2.0 * y, lambda y: 0.5 * (int(y[0]) > 1) * y, lambda y: (1 + (len(y) > 1)) * y):
        got = np.asarray(anfora.jit(f)(half))
        assert got.dtype == np.float32 and np.array_equal(got, np.asarray(f(half), np.float32))
    assert anfora.jit(lambda y: (y > 0) * 2.0)(half).dtype == "f64"
    assert anfora.jit(lambda y: np.sum([float(v) for v in y]) * y)(half).dtype == "f64"


def test_f64_is_rounded_once_to_halves():
    """At every midpoint of two neighbours, and a bit to either side of it, where rounding by way of f32 goes wrong."""
    for name, last, shift in (("float16", 0x7c00, 0), ("bfloat16", 0x7f80, 16)):
        bits = np.arange(last, dtype=np.uint32)
        value = (bits << shift).view(np.float32) if shift else bits.astype(np.uint16).view(np.float16)
        value = np.append(value.astype(np.float64), 65536.0 if name == "float16" else 2.0 ** 128)  # the step after the greatest
        middle = (value[:-1] + value[1:]) / 2
        given = np.concatenate([np.nextafter(middle, 0), middle, np.nextafter(middle, np.inf), [np.inf, 0.0, 1e-300, 1e300]])
        want = np.concatenate([bits, bits + (bits & 1), bits + 1, [last, 0, 0, last]]).astype(np.uint16)
        for sign in (1.0, -1.0):
            got = np.frombuffer(anfora.jit(lambda x: x.astype(name))(given * sign).tobytes(), np.uint16)
            wrong = np.flatnonzero(got != (want | (0x8000 if sign < 0 else 0)))
            assert not len(wrong), (name, given[wrong[0]] * sign, hex(got[wrong[0]]), hex(want[wrong[0]]))
    assert np.isnan(np.asarray(anfora.jit(lambda x: x.astype("float16"))(np.full(40, np.nan)))).all()
