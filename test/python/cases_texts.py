# SPDX-License-Identifier: Apache-2.0
"""What print writes, and the messages and classes of errors: as Python and NumPy have them. Each function runs compiled and as it stands,
and must write and give the same."""
import contextlib
import dataclasses
import io
import math
import os
import pickle
import subprocess
import sys
import tempfile
import typing

import anfora
import numpy as np
from anfora import jit
from cases_meaning import V, alike, plain, refused


def written(f, args):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        got = f(*args)
    return out.getvalue(), plain(got)


def same_text(f, *args):
    (want, value), (text, got) = written(f, args), written(jit(f), args)
    assert text == want, f"{text!r} is not {want!r}"
    alike(value, got)


class Point(typing.NamedTuple):
    a: float
    b: int


@dataclasses.dataclass
class Size:
    a: float
    b: int


def test_formats():
    def f(x, n):
        print(f"{x[0]:.4f}|{n:5d}|{x[1]:8.3f}!")
        print(f"{n}{n} {n}% {n!r:>5} {n=} {{{n}}}")
        print(f"{x[0]:{n}.{2}f}|{n:+d}|{n:,}|{n:b}|{x[0]:e}|{x[0]:g}|{x[0]:.1%}")
        print("a {} b {:.2f}".format(n, x[0]), "%5.2f %d %s %%" % (x[0], n, "abc"), "%s" % n)
        print("n: " + str(n) + ", " + repr(n), str(n).rjust(6), str(n).zfill(4))
        print(f"Total {np.sum(x ** 2):.6f}, ok: {n > 3}, {x.shape[0]} rows, {x.shape}, {x.dtype}")
        for i in range(2):
            print(f"{i}: {x[i]:6.2f} {'yes' if x[i] > 1.5 else 'no'}")
        return n
    same_text(f, V, 4)


def test_values():
    def f(x, n):
        print("x:", x, "n:", n, sep=" | ")
        print("a", "b", end="")
        print()
        print(x > 1, n > 2, not n, x[0] > 2, x.astype(np.float32) / 3, np.float32(x[0]) / np.float32(3), x[0] * 1j)
        print(np.outer(x, x), np.zeros((0, 3)), np.arange(2000.0))
        print([1, 2.5, n], (n,), {"a": n, "b": [x]}, None, 1e100, -0.0, "q\"", [n * i for i in range(3)])
        print(Point(1.5, n), Size(2.5, n), sorted([n, 1]))
        print(*x, sep=", ")
        print("=" * n)
        return x
    same_text(f, V, 4)


def test_empty_dictionaries():
    def f(d):
        e = {}
        print(e, {}, dict(), [e], {"a": e}, f"{e}", d, [], ())
        return e
    same_text(f, {})
    same_text(f, {"b": {}})


def test_joined():
    def f(x, g):
        print(", ".join(f"{v:.1f}" for v in x), " ".join(map(str, x)))
        print("\n".join("".join("#" if c else "." for c in row) for row in g))
        row = " ".join(f"{v:5.2f}" for v in x)
        print(row + "|", row.upper())
        return x
    same_text(f, V, np.arange(6).reshape(2, 3) % 2)


def test_order():
    def f(n):
        def inner(k):
            print("inner", k)
            return k + 1
        print("first")
        while n < 3:
            print(n, end=" ")
            n = inner(n)
        print("last" if n > 2 else "never")
        return n
    same_text(f, 0)


def test_prints_are_no_values():
    refused(lambda n: f"n is {n}", 1.0, say="formatted text")
    refused(lambda n: print(map(abs, [n])), 1, say="map")
    refused(lambda n: print(n, file=3, colour=1), 1, say="colour")

    @jit
    def f(x):
        print(f"{x:.2f}")
        return x * x
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert anfora.grad(f)(3.0) == 6.0
    assert out.getvalue() == "3.00\n"


class OwnError(Exception):
    pass


def test_errors_are_of_pythons_classes():
    def f(x, n):
        text = f"{n} is {x[0]:.2f}"
        if n == 0:
            raise ValueError(text)
        if n == 1:
            raise OwnError("it is %d" % n)
        if n == 3:
            raise NotImplementedError
        assert n != 2, f"{n:5d}!"
        return x[n] + 7 // (n - 4)
    for n, kind, words in ((0, ValueError, "0 is 1.00"), (1, OwnError, "it is 1"), (2, AssertionError, "    2!"), (3, NotImplementedError, ""),
                           (5, IndexError, ""), (4, (ZeroDivisionError, IndexError), "")):
        try:
            jit(f)(V, n)
        except kind as e:
            assert isinstance(e, anfora.RunError) and words in str(e), e
            assert words in str(pickle.loads(pickle.dumps(e)))
        else:
            raise AssertionError(f"no {kind}")


def test_operations_of_the_host_are_called():
    """Whatever their parameters are, they are no source to compile."""
    @anfora.op("fn(f64, i64) -> f64")
    def added(*args):
        return sum(map(float, args)) + float(isinstance(args[1], int))
    assert jit(lambda x, n: added(x, n))(1.5, 2) == added.__wrapped__(1.5, 2)


def test_whole_numbers_of_a_function_that_prints():
    @jit
    def f(x):
        print("a")
        made = []
        for _ in x:
            made.append(-5)
        return made, 1
    with contextlib.redirect_stdout(io.StringIO()):
        made = np.asarray(f(V)[0])
    assert made.dtype == np.int64 and made.tolist() == [-5, -5, -5]


@jit
def shown(x, n):
    print("loss", x, n)
    print(f"x is {x} and", "n " + str(n), None, 3)
    print("{} of {y}".format(n, y=x))
    anfora.debug.print("x {} n {n}", x, n=n)
    return x * 2


LINES = "loss {0} {1}\nx is {0} and n {1} None 3\n{1} of {0}\nx {0} n {1}\n"


@jit
def formatted(x):
    print(f"{x:.2f}", x + 1, sep=";")
    return x * 2


def test_prints_in_a_batch():
    """One line has all items, whatever the format of one is; outside of the batch Python formats."""
    x = np.arange(3.0)
    text, got = written(anfora.vmap(shown, (0, None)), (x, 2))
    assert text == LINES.format("[0.0, 1.0, 2.0]", 2) and got.tolist() == [0.0, 2.0, 4.0], text

    def around(x):
        return x.sum(), anfora.vmap(formatted)(x)
    text, got = written(jit(around), (x,))
    assert text == "[0.0, 1.0, 2.0] [1.0, 2.0, 3.0]\n" and got[0] == 3.0 and got[1].tolist() == [0.0, 2.0, 4.0], text
    assert written(jit(lambda x: (formatted(x), anfora.vmap(lambda a: a * 2)(np.ones(2)))), (1.0,))[0] == "1.00;2.0\n"
    text, got = written(anfora.grad(lambda x: np.sum(anfora.vmap(formatted)(x))), (x,))
    assert text.startswith("[0.0, 1.0, 2.0]") and got.tolist() == [2.0, 2.0, 2.0]
    assert "define" in jit(around).llvm(x)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert anfora.eval_shape(around, x)[1].shape == (3,)
    assert out.getvalue() == ""


def test_programs_that_print_without_python():
    with tempfile.TemporaryDirectory() as folder:
        for end in ("anf", "ir", "dat", "mindir"):
            path = os.path.join(folder, "shown." + end)
            shown.save(path, 1.5, 2)
            code = f"import anfora\nm = anfora.read({path!r})\n(m.shown if 'shown' in list(m) else m)(1.5, 2)"
            env = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(anfora.__file__))}
            ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)
            assert (ran.stdout, ran.stderr) == (LINES.format(1.5, 2), ""), ran
            line = formatted.__wrapped__.__code__.co_firstlineno + 2
            refused_where(line, lambda: formatted.save(path, 1.5))
        assert len(shown.build(os.path.join(folder, "shown"), 1.5, 2)) == 2
        refused_where(line, lambda: formatted.build(os.path.join(folder, "formatted"), 1.5))
    assert "anf_rt_print" in shown.c(1.5, 2)


def refused_where(line, f):
    """It is refused for what the line prints."""
    try:
        f()
    except anfora.CompileError as e:
        assert "only Python makes" in str(e) and f"cases_texts.py:{line}:" in str(e), e
    else:
        raise AssertionError("it was not refused")


def test_texts_that_only_python_makes():
    for f in (lambda x: print(x, end=""), lambda x: print(f"{x:.1f}"), lambda x: print("%d" % x), lambda x: print("{:>9}".format(x)), lambda x: print(f"{x!r}"),
              lambda x: print("x".rjust(3) + str(x), str(x).upper()), lambda x: print(" ".join(str(i) for i in [x, x]))):
        try:
            jit(f).dat(1.0)
        except anfora.CompileError as e:
            assert "only Python makes" in str(e), e
        else:
            raise AssertionError("it was not refused")
        jit(f).ir(1.0)
        with contextlib.redirect_stdout(io.StringIO()):
            anfora.vmap(lambda x, f=f: (f(x), x)[1])(np.ones(2))


def state(n):
    k, state = 0, "start"
    while k < n:
        if state == "start":
            k, state = k + 1, "on"
        else:
            k, state = k + 2, "start"
    return k, n


def left(n):
    found = "no"
    while True:
        if n == 3:
            found = "yes"
            break
        n -= 1
    return 1 if found == "no" else 2


def function(n):
    f = math.sin
    for _ in range(n):
        f = math.cos
    return f(1.0)


def reused(n):
    label, total = "", 0
    for i in range(n):
        label = f"round {i}"
        print(label)
        total += i
    label = "end"
    print(label)
    return total


def grown(n):
    digits = ""
    while n > 0:
        digits = str(n % 2) + digits
        n //= 2
    return digits


def changed(n):
    r = "b"
    while n > 0:
        r = "a"
        n -= 1
    return 1 if r == "b" else 2


def test_texts_and_functions_that_loops_bind_anew():
    for n in (0, 3, 4):
        for f in (state, function, reused, changed, left):
            same_text(f, n + 3 if f is left else n)
    refused(grown, 5, say="digits is a text that a loop makes of values")
