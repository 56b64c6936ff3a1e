# SPDX-License-Identifier: Apache-2.0
"""run.py PACKAGE [--floor N] [--filter WORD] [--calls] [FILE...]: NumPy's own tests, from its wheel, with the functions that anfora.numpy has
exchanged. A test counts if it calls one of them; it is left out where it gives them what is no value of the package (objects, texts,
dates, subclasses of arrays, memory to write to). Each result becomes an array of NumPy. --calls says of each call that is not as
NumPy's how it differs."""
import argparse
import collections
import importlib
import os
import sys
import types
import warnings

import numpy
import pytest

FILES = ["lib.tests.test_" + n for n in ("histograms", "index_tricks", "nanfunctions", "shape_base", "twodim_base", "type_check", "ufunclike")]
PLAIN = {"array", "asarray", "finfo", "iinfo", "ndarray", "result_type", "can_cast", "isdtype", "promote_types", "empty", "empty_like"}
KINDS = {"b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"}


class Calls:
    """What the tests call: outcomes by function."""
    made, alien, loading, differing = 0, None, True, collections.defaultdict(list)


def is_ours(x):
    """Whether x, an argument, is a value of the package."""
    if isinstance(x, (list, tuple)):
        return all(map(is_ours, x)) if len(x) < 1000 else is_ours(x[0])
    if isinstance(x, (numpy.ndarray, numpy.generic)):
        return type(x) in (numpy.ndarray, x.dtype.type) and x.dtype.kind + str(x.dtype.itemsize) in KINDS and x.dtype.isnative
    if isinstance(x, numpy.dtype):
        return x.kind + str(x.itemsize) in KINDS and x.isnative
    if isinstance(x, type):
        return x in (bool, int, float, complex) or x.__name__ in numpy.sctypeDict and is_ours(numpy.dtype(x))
    if isinstance(x, str):
        try:
            return is_ours(numpy.dtype(x))
        except TypeError:
            return True  # the name of something else
    return x is None or isinstance(x, (bool, int, float, complex, slice, range)) or callable(x)


def written(x):
    """An argument as the package has it: "i8", which has 8 bits there, as the type itself."""
    return {"i8": numpy.int64, "<i8": numpy.int64, "u8": numpy.uint64, "<u8": numpy.uint64}.get(x, x) if type(x) is str else x


def plain(x):
    """A result with arrays of NumPy, which tests may change, and its scalars."""
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*map(plain, x))
    if isinstance(x, (tuple, list)):
        return type(x)(map(plain, x))
    return numpy.array(x)[()] if hasattr(x, "__dlpack__") else x


def same(a, b):
    if isinstance(a, (tuple, list)):
        return isinstance(b, (tuple, list)) and len(a) == len(b) and all(map(same, a, b))
    a, b = numpy.asarray(a), numpy.asarray(b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return numpy.allclose(a, b, rtol=1e-3 if a.dtype == "f2" else 1e-5 if a.dtype in ("f4", "c8") else 1e-9, atol=1e-12, equal_nan=True)


class Exchanged:
    """A function of anfora.numpy in place of NumPy's. Attributes, as in add.reduce, are NumPy's own."""

    def __init__(self, theirs, ours, compare):
        self._theirs, self._ours, self._compare = theirs, ours, compare
        self.__name__, self.__doc__, self.__wrapped__ = theirs.__name__, theirs.__doc__, theirs

    def __getattr__(self, name):
        return getattr(self._theirs, name)

    def __eq__(self, other):
        return self._theirs is getattr(other, "_theirs", other)

    def __hash__(self):
        return hash(self._theirs)

    def __call__(self, *args, **kw):
        if Calls.loading or not all(map(is_ours, (*args, *kw.values()))) or kw.get("out") is not None or {"casting", "subok", "like", "order", "signature"} & kw.keys():
            Calls.alien = self.__name__
            return self._theirs(*args, **kw)
        args, kw = tuple(map(written, args)), {n: written(x) for n, x in kw.items()}
        Calls.made += 1
        if not self._compare:
            return plain(self._ours(*args, **kw))
        return self._compared(args, kw)

    def _compared(self, args, kw):
        want = raised = got = failed = None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                want = self._theirs(*args, **kw)
        except Exception as e:
            raised = e
        try:
            got = plain(self._ours(*args, **kw))
        except Exception as e:
            failed = e
        what = ("raises" if failed else "accepted") if raised else "refused" if failed else "same" if same(want, got) else "wrong"
        if what not in ("same", "raises"):
            more = str(failed).split("\n")[0][:160] if failed else f"{want!r:.150} got {got!r:.150}"
            Calls.differing[what, self.__name__].append(f"{args!r:.160} {kw!r:.60} {more}".replace("\n", ""))
        if failed:
            raise failed
        return got


class Module(types.ModuleType):
    """A module of NumPy with functions exchanged."""

    def __init__(self, theirs, changed):
        super().__init__(theirs.__name__)
        self.__dict__.update(_theirs=theirs, **changed)

    def __getattr__(self, name):
        return getattr(self._theirs, name)


def exchanged(theirs, ours, compare):
    names = [n for n in dir(ours) if n not in PLAIN and callable(getattr(ours, n)) and not isinstance(getattr(theirs, n, type), type) and callable(getattr(theirs, n))]
    return {n: Exchanged(getattr(theirs, n), getattr(ours, n), compare) for n in names}


def load(compare, files):
    """Loads the modules of tests with the functions exchanged."""
    import anfora.numpy
    parts = {n: exchanged(getattr(numpy, n), getattr(anfora.numpy, n), compare) for n in ("linalg", "fft")}
    modules = {f"numpy.{n}": Module(getattr(numpy, n), parts[n]) for n in parts}
    whole = Module(numpy, exchanged(numpy, anfora.numpy, compare) | {n: modules[f"numpy.{n}"] for n in parts})
    by_function = {id(f._theirs): f for table in (vars(whole), *parts.values()) for f in table.values() if isinstance(f, Exchanged)}
    real = {n: sys.modules[n] for n in (*modules, "numpy")}
    for name in files:
        path = f"numpy.{name}"
        importlib.import_module(path)  # what it imports is made with NumPy itself
        del sys.modules[path]
        sys.modules.update(modules | {"numpy": whole})
        try:
            module = importlib.import_module(path)
        finally:
            sys.modules.update(real)
        for n, f in list(vars(module).items()):
            if id(f) in by_function:
                setattr(module, n, by_function[id(f)])
    Calls.loading = False


class Counting:
    def __init__(self):
        self.counts = collections.Counter()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item):
        Calls.made, Calls.alien = 0, None
        return (yield)

    def pytest_runtest_logreport(self, report):
        if report.when != "call" or report.skipped:
            return
        what = "others" if not Calls.made else "passed" if report.passed else "left out" if Calls.alien else "failed"
        self.counts[what] += 1
        if what == "failed":
            why = str(getattr(report.longrepr, "reprcrash", None) and report.longrepr.reprcrash.message or report.longrepr)
            print(f"\nfailed: {report.nodeid.split('tests/')[-1]:60} {' '.join(why.split())[:190]}", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("package")
    p.add_argument("--floor", type=int, default=0)
    p.add_argument("--filter", default="")
    p.add_argument("files", nargs="*", default=FILES)
    p.add_argument("--calls", action="store_true")
    o = p.parse_intermixed_args()
    sys.path.insert(0, os.path.abspath(o.package))
    import anfora._ops
    anfora._ops.FEW = 10 ** 6  # interpreted, which needs no code for each of their shapes
    load(o.calls, o.files)
    counting = Counting()
    files = [os.path.join(os.path.dirname(numpy.__file__), *n.split(".")) + ".py" for n in o.files]
    pytest.main(["-q", "--tb=short", "--show-capture=no", "-r", "N", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", os.path.dirname(os.path.dirname(numpy.__file__)), "--noconftest",
                 "--import-mode=importlib",
                 "-W", "ignore", "--continue-on-collection-errors", "-k", f"not slow and ({o.filter})" if o.filter else "", *files], plugins=[counting])
    for (what, name), lines in sorted(Calls.differing.items()):
        print(f"{what}: {name}, {len(lines)} calls", *dict.fromkeys(lines[:6]), sep="\n    ")
    c = counting.counts
    print(f"{c['passed']} pass, {c['failed']} do not; left out are {c['left out']} with other values and {c['others']} that call nothing here; the floor is {o.floor}")
    sys.exit(not o.filter and c["passed"] < o.floor)


main()
