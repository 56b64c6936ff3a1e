# SPDX-License-Identifier: Apache-2.0
"""run.py PACKAGE [--floor N] [--backend interp] [MODULE...]: numba's own tests, from its wheel, with njit and jit exchanged. Each call that a test
makes of a function it compiles is made as Python makes it and by anfora.jit, with the same arguments; the test goes on with Python's result.
Counted are functions of which a call is the same: result, what is printed, what the arguments hold afterwards. Each call that differs is
listed, and a value that is another, or none where Python raises, is a failure unless ALLOWED has the function."""
import contextlib
import copy
import functools
import importlib
import io
import os
import sys
import types
import unittest

import numba

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import calls  # noqa: E402: beside this folder

MODULES = ["test_" + n for n in """closure comprehension dataflow ssa looplifting lists tuples range iteration slices indexing fancy_indexing
    conditions_as_predicates chained_assign array_methods array_reductions array_manipulation usecases unpack_sequence recursion mathlib
    builtins nested_calls return_values mixed_tuple_unroller storeslice maxmin globals locals""".split()]
CALLS = 12  # of a function
QUANTILES = "quantiles of infinities are infinite, where NumPy subtracts them"
ALLOWED = {  # what docs/python.md says of numbers
    "test_comprehension.list24": "whole numbers and floats of one list are floats", "test_mixed_tuple_unroller.foo": "the same of branches",
    "test_array_methods.np_where_3": "f32 beside i32 is f32", "test_globals.global_npy_int_tuple": "u64 beside i8 is i64",
    "test_builtins.max_usecase3": "the greatest of numbers and NaN is NaN", "test_builtins.min_usecase3": "so is the least"}
ALLOWED |= {f"test_array_reductions.array_{n}_global": QUANTILES for n in ("quantile", "nanquantile", "percentile", "nanpercentile")}


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
        given, value = calls.compared(tally, f, compiled, args, kw)
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
    return functools.partial(run, tally, theirs, decorator)


def tests_in(suite):
    for t in suite:
        if isinstance(t, unittest.TestSuite):
            yield from tests_in(t)
        else:
            yield t


def run(tally, theirs, decorator, name):
    tally.module = name
    module = importlib.import_module(f"numba.tests.{name}")
    for n, x in list(vars(module).items()):
        if any(x is f for f in theirs):
            setattr(module, n, decorator)
    for t in tests_in(unittest.defaultTestLoader.loadTestsFromModule(module)):
        if "parallel" not in str(t) and "ubprocess" not in str(t):
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                t.run(unittest.TestResult())


if __name__ == "__main__":
    calls.main(__doc__, MODULES, ALLOWED, load)
