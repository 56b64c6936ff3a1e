# SPDX-License-Identifier: Apache-2.0
"""Functions that are made for the types of their arguments (anfora.generated), and memory over many programs."""
import os
import subprocess
import sys
import tempfile
import threading

import anfora
import anfora.numpy as jnp
import numpy as np
from anfora import grad, jit, value_and_grad, vmap

seen = []


@anfora.generated
def norm1(x):
    seen.append(x)
    if isinstance(x, tuple):
        return lambda x: sum([norm1(p) for p in x])
    if isinstance(x, dict):
        return lambda x: norm1(tuple(x.values()))
    return lambda x: jnp.sum(jnp.abs(x))


@anfora.generated
def applied(f, x):
    """f once for each dim of x."""
    if not isinstance(f, anfora.FunctionType) or f.nparam != 1:
        raise TypeError("the first argument is no function of one")
    rank = len(x.dims)
    if rank == 0:
        return lambda f, x: x
    return (lambda f, x: f(x)) if rank == 1 else lambda f, x: f(f(x))


@anfora.generated
def halves(x):
    return """
def half(x) { x / 2 }
def halves(x) { {low = half(x), scaled = fn (s) { s * half(x) }} }
"""


def refused(f, *args):
    try:
        f(*args)
    except anfora.CompileError as e:
        return str(e)
    raise AssertionError("it is not refused")


def test_types_decide():
    x = np.array([1.0, -2.0], np.float32)
    assert norm1(x) == 3.0
    assert norm1((x, -1.5, {"a": x, "b": (x,)})) == 10.5
    assert any(isinstance(t, dict) and list(t) == ["a", "b"] and t["a"] == anfora.f32[2] for t in seen), seen
    assert norm1(-3) == 3


def test_in_other_functions():
    @jit
    def f(x, y):
        return norm1((x, y)) * 2 + norm1({"k": y})

    x, y = np.array([1.0, -2.0]), np.array([[3.0, -4.0]])
    assert f(x, y) == 27.0
    value, d = value_and_grad(f)(x, y)
    assert value == 27.0 and np.array_equal(d, [2.0, -2.0])
    assert np.array_equal(grad(norm1)(x), [1.0, -1.0])
    assert np.array_equal(vmap(norm1)(np.array([[1.0, -2.0], [3.0, 4.0]])), [3.0, 7.0])
    assert jit(lambda x, y: tuple(map(norm1, (x, y))))(x, y) == (3.0, 7.0)


def test_every_backend():
    for backend in ("llvm", "cjit", "interp"):
        assert jit(lambda x: norm1((x, 2 * x)), backend=backend)(np.array([1.0, -2.0])) == 9.0


def test_takes_functions():
    @jit
    def f(x, k):
        return applied(lambda y: y * k + jnp.sum(x), x)

    assert np.array_equal(f(np.array([1.0, 2.0]), 3.0), [6.0, 9.0])
    assert np.array_equal(f(np.array([[1.0, 2.0]]), 3.0), [[21.0, 30.0]])
    assert f(5.0, 3.0) == 5.0
    assert np.array_equal(applied(lambda y: y + 1, np.array([[1.0]])), [[3.0]])
    assert np.array_equal(applied(jnp.exp, np.array([0.0])), [1.0])
    named = anfora.generated(lambda x, word, none: (lambda x, word, none: x * 2) if (word, none) == ("str", "none") else None)
    assert named(3.0, "a", None) == 6.0
    assert np.array_equal(grad(lambda x: jnp.sum(applied(lambda y: y * y, x)))(np.array([[3.0]])), [[108.0]])


def test_gives_functions_and_records():
    @jit
    def f(x, s):
        r = halves(x)
        return r["low"], r["scaled"](s)

    low, scaled = f(np.array([2.0, 4.0]), 10.0)
    assert np.array_equal(low, [1.0, 2.0]) and np.array_equal(scaled, [10.0, 20.0])
    make = anfora.generated(lambda x: lambda x: lambda y: x + y)
    assert jit(lambda x, y: make(x)(y))(1.0, 2.0) == 3.0


def test_called_once_for_each_list_of_types():
    calls = []

    @anfora.generated
    def once(x):
        calls.append(x)
        return lambda x: x + 1

    f = jit(lambda x: once(once(x)) + once(x))
    for x in (1.0, 2.0, np.float32(3)):
        assert f(x) == 2 * x + 3
    assert [str(c) for c in calls] == ["float", "f32"], calls


def test_refusals():
    text = refused(jit(lambda x: applied(1.0, x)), np.ones(2))
    assert "E1600" in text and "applied raised TypeError: the first argument is no function of one" in text, text
    assert "E1585" in text and "applied" in text, text
    data = np.ones(3)

    def two(x, y):
        return x

    def captures(x):
        return x + data

    def prints(x):
        print(x)
        return x
    for made, words in ((two, "takes 2 arguments, not 1"), (captures, "captures arrays"), (prints, "it has effects"),
                        ("def f(x) { x +", "expected an expression"), ("", "its text has no function"), (7, "an int is not a function")):
        text = refused(anfora.generated(lambda x: made), 1.0)
        assert words in text, text
    endless = anfora.generated(lambda x: lambda x: endless((x,)))
    try:
        endless(1.0)
    except anfora.AnforaError as e:
        assert "E1587" in str(e)
    assert norm1(1.0) == 1.0  # and goes on


def test_programs_within_a_generator():
    """A generator may run programs, compile others and print; other threads wait."""
    @anfora.generated
    def table(x):
        n = int(jit(lambda k: k * 2 + 1)(x.dims[0]))
        return lambda x: x * n

    f, results = jit(table), []
    threads = [threading.Thread(target=lambda k=k: results.append(float(jit(lambda x: x + k)(1.0)))) for k in range(4)]
    for t in threads:
        t.start()
    assert np.array_equal(f(np.ones(3)), [7.0] * 3)
    for t in threads:
        t.join()
    assert sorted(results) == [1.0, 2.0, 3.0, 4.0]


def test_same_name_twice():
    def one(k):
        @anfora.generated
        def shared(x):
            return lambda x: x * k
        return shared

    a, b = one(2), one(3)
    assert jit(lambda x: a(x) + 10 * b(x))(1.0) == 32.0


# ---- objects for C ----

HOST = r"""
#include <stdio.h>
#include "forward.h"

int main(void) {
  float w[16], x[128], y[32];
  for (int i = 0; i < 16; i++) w[i] = (float)i;
  for (int i = 0; i < 128; i++) x[i] = 1;
  for (int64_t n = 1; n <= 16; n++) {
    y[0] = y[2 * n - 1] = -1;
    forward(n, w, x, y);
    printf("%d: %g %g\n", (int)n, y[0], y[2 * n - 1]);
  }
  return 0;
}
"""


def built(folder, name, text):
    """Compiles the host and runs it; gives what it printed."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    runtime = os.path.join(os.path.dirname(os.path.abspath(sys.argv[1])), "runtime", "libanfora_rt.a")
    with open(os.path.join(folder, "host.c"), "w") as f:
        f.write(text)
    subprocess.run(["cc", "host.c", f"{name}.o", "-I", os.path.join(root, "include"), runtime, "-o", "host", "-lm", "-lpthread"], cwd=folder, check=True)
    return subprocess.run(["./host"], cwd=folder, check=True, capture_output=True, text=True).stdout


def test_object_of_several_sizes():
    @jit
    def forward(w: anfora.f32[8, 2], x: anfora.f32["B", 8]):
        return x @ w / x.shape[0]

    with tempfile.TemporaryDirectory() as folder:
        paths = forward.build(os.path.join(folder, "forward"), sizes={"B": [1, 4, 16]})
        assert [os.path.basename(p) for p in paths] == ["forward.h", "forward.o"]
        lines = built(folder, "forward", HOST).splitlines()
        w = np.arange(16, dtype=np.float32).reshape(8, 2)
        for n in range(1, 17):  # the sum of a column of w, divided by the number of rows
            want = f"{n}: {w[:, 0].sum() / n:g} {w[:, 1].sum() / n:g}" if n in (1, 4, 16) else f"{n}: -1 -1"
            assert lines[n - 1] == want, (lines[n - 1], want)
        text = forward.build(os.path.join(folder, "other"), anfora.f32[8, 2], anfora.f32["N", 8], sizes="N=2-3")
        assert "void other(int64_t N, " in open(text[0]).read()


def test_object_of_arguments():
    @jit
    def f(p, x, k):
        return {"y": p["w"] * x + p["b"][0] * k}

    with tempfile.TemporaryDirectory() as folder:
        header, _ = f.build(os.path.join(folder, "f"), {"w": anfora.f64[3], "b": (np.float64(2),)}, np.ones(3), anfora.f64)
        assert "const double *p_w" in open(header).read(), open(header).read()
        step = jit(lambda w, x: (w - 0.1 * x, jnp.sum(w * x)))
        header, _ = step.build(os.path.join(folder, "step"), anfora.f32[4], anfora.f32[4], state=1)
        assert "step_run(" in open(header).read()
        for wrong, words in ((lambda: f.build(os.path.join(folder, "f")), "not all of these declare one"),
                             (lambda: f.build(os.path.join(folder, "f"), 1.0), "takes 3 arguments, not 1"),
                             (lambda: jit(lambda x: x + np.ones(3)).build(os.path.join(folder, "g"), anfora.f64[3]), "")):
            try:
                wrong()
            except (TypeError, ValueError) as e:
                assert words in str(e), e
            else:
                assert not words
        for types, sizes, code in (((anfora.f32["B"],), None, "E"), ((anfora.f32["B"],), {"C": 3}, "E"), ((anfora.f32[2],), {"B": [1]}, "E")):
            assert code in refused(lambda: jit(lambda x: x * 2).build(os.path.join(folder, "g"), *types, sizes=sizes))
