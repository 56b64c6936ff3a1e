# SPDX-License-Identifier: Apache-2.0
"""Operations whose work a function of Python does (anfora.op)."""
import os
import tempfile
import threading

import anfora
import anfora.numpy as anp
import numpy as np
from anfora import grad, jit, op, vmap


@op("fn(f64[N], f64) -> f64[N]", grad=lambda x, a, y, dy: (dy * a / (1 + x * x), np.sum(dy * y) / a))
def arctan(x, a):
    return a * np.arctan(x)


def refused(f, *args):
    try:
        f(*args)
    except (anfora.AnforaError, ValueError, TypeError) as error:
        return str(error)
    raise AssertionError("it was taken")


def close(got, want):
    assert np.allclose(np.asarray(got), want, rtol=1e-12, atol=1e-12), (np.asarray(got), want)


X = np.array([0.5, -2.0, 3.0])


def test_it_is_called_from_python_and_from_programs():
    close(arctan(X, 2.0), 2 * np.arctan(X))
    close(jit(lambda x: anp.sum(arctan(x * 2.0, 3.0)) + 1.0)(X), 3 * np.sum(np.arctan(2 * X)) + 1)
    close(jit(lambda x: arctan(x, 1.0))(X[:2]), np.arctan(X[:2]))
    close(jit(lambda x: arctan(x, 1.0))(np.zeros(0)), np.zeros(0))


def test_derivatives():
    close(grad(lambda x: anp.sum(arctan(x, 3.0)))(X), 3 / (1 + X * X))
    close(grad(lambda a: anp.sum(arctan(X, a)))(2.0), np.sum(np.arctan(X)))
    constant = op("fn(f64) -> f64", grad=0)(lambda x: np.floor(x))
    close(grad(lambda x: x * constant(x))(2.5), 2.0)
    without = op("fn(f64) -> f64", name="without_derivative")(lambda x: x * x)
    assert "without_derivative" in refused(grad(without), 2.0)


def test_in_loops_and_branches():
    @jit
    def f(x, n):
        s = 0.0
        for i in range(n):
            if i % 2 == 0:
                s = s + anp.sum(arctan(x * i, 1.0))
        return s
    close(f(X, 5), sum(np.sum(np.arctan(X * i)) for i in (0, 2, 4)))


def test_kinds_of_parts():
    @op("fn(i32[2, N], bool, i64, f32) -> (f32[N, 2], i64, bool)")
    def mixed(a, b, n, y):
        assert a.dtype == np.int32 and isinstance(b, bool) and not a.flags.writeable
        return a.T.astype(np.float32) * np.float32(y), n + 1, not b
    a, n, b = jit(lambda a: mixed(a, True, 4, anfora.f32(0.5)))(np.arange(6, dtype=np.int32).reshape(2, 3))
    close(a, np.arange(6).reshape(2, 3).T * 0.5)
    assert (int(n), bool(b)) == (5, False) and a.dtype == np.float32
    double = op("fn(c128[N], f16[N]) -> (c128[N], f16[N])")(lambda z, h: (2 * z, h + h))
    z, h = double(np.array([1 + 2j]), np.array([1.5], np.float16))
    assert complex(np.asarray(z)[0]) == 2 + 4j and float(np.asarray(h)[0]) == 3.0


def test_what_it_raises_stops_the_program():
    fails = op("fn(f64) -> f64")(lambda x: 1 // 0)
    text = refused(jit(lambda x: fails(x) + 1.0), 1.0)
    assert "ZeroDivisionError" in text and "E0444" in text, text
    wrong = op("fn(f64[N]) -> f64[N]")(lambda x: x[1:])
    assert "shape (2,)" in refused(wrong, X), refused(wrong, X)
    several = op("fn(f64) -> (f64, f64)")(lambda x: x)
    assert "2 results" in refused(several, 1.0)
    lossy = op("fn(f64) -> i64")(lambda x: 1.5)
    assert "float64" in refused(lossy, 1.0)
    close(arctan(X, 1.0), np.arctan(X))  # and the next one runs


def test_the_end_of_the_process_is_no_error():
    def end(x):
        raise KeyboardInterrupt
    try:
        op("fn(f64) -> f64")(end)(1.0)
    except KeyboardInterrupt:
        return
    raise AssertionError("it was taken for an error")


def test_effects_are_in_order():
    seen = []
    note = op("fn(i64) -> i64", effect=True)(lambda i: seen.append(i) or i)

    @jit
    def f(n):
        for i in range(n):
            note(i)
        return n
    f(3)
    assert seen == [0, 1, 2]


def test_it_calls_compiled_functions():
    inner = jit(lambda x: anp.sum(x * x))
    outer = op("fn(f64[N]) -> f64")(lambda x: float(inner(x)))
    close(jit(lambda x: outer(x) * 2.0)(X), 2 * np.sum(X * X))


def test_programs_call_it_by_name():
    op("fn(f64[N]) -> f64", name="host_norm")(lambda x: np.sqrt(np.sum(x * x)))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "p.anf")
        with open(path, "w", encoding="utf-8") as f:
            f.write("def f(x) { 2.0 * host_norm(x) }\n")
        close(anfora.read(path).f(np.array([3.0, 4.0])), 10.0)
    assert "host_norm" in refused(lambda: op("fn(f64) -> f64", name="host_norm")(lambda x: x))


def test_threads():
    got = []
    f = jit(lambda x: anp.sum(arctan(x, 1.0)))
    f(X)
    workers = [threading.Thread(target=lambda: got.append([float(f(X)) for _ in range(50)])) for _ in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert len(got) == 4
    close(got, np.sum(np.arctan(X)))


def test_batches():
    rows = np.stack([X, 2 * X])
    try:
        got = vmap(lambda x: arctan(x, 1.0))(rows)
    except anfora.AnforaError as error:
        assert "arctan" in str(error)
    else:
        close(got, np.arctan(rows))


def test_types_that_are_none():
    for text in ("f64 -> f64", "fn(f64[N]) f64", "fn(text) -> f64", "fn(bf16[N]) -> f64"):
        refused(op, text)
    assert "dim of the result" in refused(op("fn(f64[N]) -> f64[M]"), lambda x: x)


def sines(x):
    assert isinstance(x, np.ndarray)
    return np.sin(x)


def test_pure_callback():
    f = jit(lambda x: anfora.pure_callback(sines, anfora.ShapeDtypeStruct(x.shape, x.dtype), x) * 2)
    close(f(X), 2 * np.sin(X))
    assert f(np.ones((2, 2), np.float32)).dtype == np.float32  # made anew for other types
    close(vmap(lambda x: anfora.pure_callback(sines, x, x))(np.stack([X, X])), np.sin([X, X]))
    close(anfora.lax.scan(lambda c, x: (c + anfora.pure_callback(sines, x, x), None), 0.0, X)[0], np.sin(X).sum())
    both = lambda x, n: (x * n, x.sum())  # noqa: E731
    got = jit(lambda x: anfora.pure_callback(both, (x, anfora.ShapeDtypeStruct((), np.float64)), x, 3))(X)
    close(got[0], 3 * X)
    close(got[1], X.sum())
    close(anfora.pure_callback(sines, X, X), np.sin(X))

    @anfora.custom_jvp
    def sine(x):
        return anfora.pure_callback(sines, x, x)
    sine.defjvp(lambda p, t: (sine(p[0]), anp.cos(p[0]) * t[0]))
    close(grad(lambda x: anp.sum(sine(x)))(X), np.cos(X))
    assert "has no derivative" in refused(grad(lambda x: anp.sum(anfora.pure_callback(sines, x, x))), X)
    short = lambda x: x[:1]  # noqa: E731
    assert "shape (1,)" in refused(jit(lambda x: anfora.pure_callback(short, x, x)), X)
    assert "shape (1,)" in refused(anfora.pure_callback, short, X, X)
    assert "outside of the compiled one" in refused(jit(lambda x: anfora.pure_callback(lambda v: v, x, x)), X)


def test_types_are_those_of_programs():
    @op("fn( f64 [N , 2], i64 )->(f64[N,2], )")  # the words, blanks and commas of the language
    def twice(x, n):
        return (x * n,)
    close(twice(np.ones((3, 2)), 2)[0], 2 * np.ones((3, 2)))
    for text, words in (("f64", "no type of a function"), ("fn(f64[N) -> f64", "not closed"), ("fn(f63) -> f64", "f63"),
                        ("fn(f64[?]) -> f64", "has a name"), ("fn((f64, f64)) -> f64", "tensors and numbers"),
                        ("fn(f64[-1]) -> f64", "-1"), ("fn(f64) f64", "expected")):
        try:
            op(text)
        except ValueError as e:
            assert text in str(e) and words in str(e), str(e)
        else:
            raise AssertionError(text)
