# SPDX-License-Identifier: Apache-2.0
"""run.py PACKAGE [--floor N] [--backend interp] [MODULE...]: numba's own tests, from its wheel, with njit and jit exchanged. Each call that a test
makes of a function it compiles is made as Python makes it and by anfora.jit, with the same arguments; the test goes on with Python's result.
Counted are functions of which a call is the same: result, what is printed, what the arguments hold afterwards. Each call that differs is
listed, and a value that is another, or none where Python raises, is a failure unless ALLOWED has the function."""
import argparse
import contextlib
import copy
import functools
import importlib
import inspect
import io
import signal
import sys
import types
import unittest
import warnings

import numba
import numpy

MODULES = ["test_" + n for n in """closure comprehension dataflow ssa looplifting lists tuples range iteration slices indexing fancy_indexing
    conditions_as_predicates chained_assign array_methods array_reductions array_manipulation usecases unpack_sequence recursion mathlib
    builtins nested_calls return_values mixed_tuple_unroller storeslice maxmin globals locals""".split()]
CALLS, SECONDS = 12, 15  # of a function; for a call
QUANTILES = "quantiles of infinities are infinite, where NumPy subtracts them"
ALLOWED = {  # what docs/python.md says of numbers
    "test_comprehension.list24": "whole numbers and floats of one list are floats", "test_mixed_tuple_unroller.foo": "the same of branches",
    "test_array_methods.np_where_3": "f32 beside i32 is f32", "test_globals.global_npy_int_tuple": "u64 beside i8 is i64",
    "test_builtins.max_usecase3": "the greatest of numbers and NaN is NaN", "test_builtins.min_usecase3": "so is the least"}
ALLOWED |= {f"test_array_reductions.array_{n}_global": QUANTILES for n in ("quantile", "nanquantile", "percentile", "nanpercentile")}


class Late(BaseException):
    pass


def ring(*_):
    raise Late


class Tally:
    """Outcomes by function."""

    def __init__(self, backend):
        self.backend, self.module, self.same, self.wrong, self.refused = backend, "", set(), [], set()

    def note(self, what, f, text):
        name = f"{self.module}.{f.__name__}"
        if what == "same":
            self.same.add((name, f.__code__.co_firstlineno))
        elif what == "refused":
            self.refused.add((name, f.__code__.co_firstlineno))
        elif name not in ALLOWED:
            self.wrong.append(name)
            print(f"{what}: {name} {text:.300}".replace("\n", " "), file=sys.__stdout__, flush=True)


def plain(x):
    """Arrays and numbers as their kind, shape and items."""
    if hasattr(x, "__dlpack__") or isinstance(x, (numpy.generic, bool, int, float, complex)):
        x = numpy.asarray(x)
        kind = x.dtype.kind if x.ndim == 0 else x.dtype.str
        return "array", {"u": "i"}.get(kind, kind), x.shape, x.tolist()
    if isinstance(x, (list, tuple)):
        return type(x), *map(plain, x)
    return {k: plain(v) for k, v in x.items()} if isinstance(x, dict) else x


def same(a, b):
    if isinstance(a, (list, tuple)):
        return isinstance(b, (list, tuple)) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (float, complex)) and isinstance(b, (float, complex)):
        return a == b or a != a and b != b or abs(a - b) <= 1e-5 * max(1, abs(a))
    try:
        return bool(a == b)
    except ValueError:
        return False


def outcome(f, args, kw):
    """(whether it gives a value, the value or exception, what it prints)"""
    out = io.StringIO()
    signal.alarm(SECONDS)
    try:
        with contextlib.redirect_stdout(out):
            value = f(*args, **kw)
        return True, value, out.getvalue()
    except (Late, Exception) as e:
        return False, e, ""
    finally:
        signal.alarm(0)


def compared(tally, f, compiled, args, kw):
    """What Python's call gives; the other is compared with it."""
    ours = copy.deepcopy((args, kw))
    given, want, said = outcome(f, args, kw)
    if inspect.isgenerator(want) or callable(want):
        return given, want
    gives, got, says = outcome(compiled, *ours)
    if not gives:
        tally.note("refused" if given else "same", f, "")
    elif not given:
        tally.note("accepted", f, f"{args!r:.100} gives {got!r:.100}, Python raises {want!r:.100}")
    elif not same(plain(want), plain(got)) or said != says:
        tally.note("wrong", f, f"{args!r:.100} gives {want!r:.100} {said!r:.40} in Python, compiled {got!r:.100} {says!r:.40}")
    else:
        changed = not same(plain(args), plain(ours[0]))
        tally.note("argument" if changed else "same", f, f"{args!r:.120} became {ours[0]!r:.120}")
    return given, want


def exchanged(tally, anfora, f):
    """A function in place of what numba's decorator makes of f."""
    if not isinstance(f, types.FunctionType):
        return f
    compiled = anfora.jit(f, backend=tally.backend)
    count = [0]

    @functools.wraps(f)
    def call(*args, **kw):
        count[0] += 1
        try:
            copy.deepcopy((args, kw))
        except Exception:  # noqa: BLE001: arguments that have no copies are not compared
            return f(*args, **kw)
        if count[0] > CALLS:
            return f(*args, **kw)
        given, value = compared(tally, f, compiled, args, kw)
        if not given:
            raise value if isinstance(value, Exception) else TimeoutError
        return value
    call.py_func, call.signatures, call.overloads = f, [], {}
    call.compile = call.disable_compile = lambda *_: None
    return call


def load(tally, package):
    sys.path.insert(0, package)
    import anfora

    def decorator(*args, **_):
        make = functools.partial(exchanged, tally, anfora)
        return make(args[0]) if args and isinstance(args[0], types.FunctionType) else make
    theirs = numba.njit, numba.jit
    numba.njit = numba.jit = decorator
    return theirs, decorator


def tests_in(suite):
    for t in suite:
        if isinstance(t, unittest.TestSuite):
            yield from tests_in(t)
        else:
            yield t


def run(tally, name, theirs, decorator):
    tally.module = name
    module = importlib.import_module(f"numba.tests.{name}")
    for n, x in list(vars(module).items()):
        if any(x is f for f in theirs):
            setattr(module, n, decorator)
    for t in tests_in(unittest.defaultTestLoader.loadTestsFromModule(module)):
        if "parallel" not in str(t) and "ubprocess" not in str(t):
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                t.run(unittest.TestResult())


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("package")
    p.add_argument("modules", nargs="*")
    p.add_argument("--floor", type=int, default=0)
    p.add_argument("--backend", default="interp")
    a = p.parse_args()
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, ring)
    tally = Tally(a.backend)
    theirs, decorator = load(tally, a.package)
    for name in a.modules or MODULES:
        run(tally, name, theirs, decorator)
        print(f"{name}: {len(tally.same)} functions have a call that is the same so far, {len(tally.refused - tally.same)} are refused alone", flush=True)
    print(f"{len(tally.same)} the same, {len(tally.refused - tally.same)} refused, {len(tally.wrong)} wrong")
    sys.exit(len(tally.same) < a.floor or bool(tally.wrong))


if __name__ == "__main__":
    main()
