# SPDX-License-Identifier: Apache-2.0
"""run.py PACKAGE FILE [--floor N] [--filter WORD] [--backend interp] [--slow]: tinygrad's test_ops.py, whose tests compare an operation
and its derivative with torch's, with Tensor of tensor.py in place of tinygrad's. Each comparison counts by itself."""
import argparse
import collections
import contextlib
import importlib.util
import os
import signal
import sys
import types
import unittest
import warnings


class Late(BaseException):
    """A test took too long."""


def late(*_):
    raise Late


class Outcome:
    """How the comparisons ended."""
    counts, lines, test, backend = collections.Counter(), [], "", "interp"

    @classmethod
    def add(cls, what, why=""):
        cls.counts[what] += 1
        if what != "passed":
            print(f"{what}: {cls.test} {' '.join(str(why).split())[:260]}", flush=True)


def differs(got, want, atol, rtol):
    """(what, why) two arrays are not the same, or None."""
    import numpy
    if got.shape != want.shape:
        return "shape", f"{got.shape}, not {want.shape}"
    if got.dtype != want.dtype:
        return "type", f"{got.dtype}, not {want.dtype}"
    try:
        if want.dtype.kind == "f":
            numpy.testing.assert_allclose(got, want, atol=atol, rtol=rtol)
        else:
            numpy.testing.assert_equal(got, want)
    except AssertionError as e:
        return "wrong", e
    return None


def compare(o, prepare):
    """helper_test_op of this suite."""
    from tensor import Absent

    def called():
        f = sys._getframe(2)
        while not f.f_code.co_name.startswith("test"):
            f = f.f_back
        return f"line {f.f_lineno}"

    def compared(shapes, theirs, ours=None, atol=1e-6, rtol=1e-3, grad_atol=1e-4, grad_rtol=1e-3, forward_only=False, vals=None, low=-2, high=2):
        import torch
        ours = ours or theirs
        ts, xs = prepare(low, high, shapes, vals, forward_only)
        want, where = theirs(*ts), called()
        slopes = [] if forward_only or not ts else torch.autograd.grad(theirs(*ts).sum(), ts)
        try:
            y = ours(*xs)
            found = differs(y.numpy(), want.detach().numpy(), atol, rtol)
            if not found and slopes:
                for i, (g, w) in enumerate(zip(y.gradient(*xs, backend=o.backend), slopes)):
                    found = found or differs(g.numpy(), w.detach().numpy(), grad_atol, grad_rtol)
                    found = found and (found[0], f"gradient {i}: {found[1]}" if "gradient" not in str(found[1]) else found[1])
        except Absent as e:
            found = "absent", e
        except NotImplementedError as e:
            found = "absent", e
        except Exception as e:  # noqa: BLE001: whatever it is, it is a refusal
            found = "refused", f"{type(e).__name__}: {e}"
        Outcome.add(*(found and (found[0], f"{where}: {found[1]}") or ("passed",)))
    return compared


def refused(prepare):
    """helper_test_exception of this suite: any error is one."""
    from tensor import Absent

    def compared(_self, shapes, theirs, ours=None, expected=None, forward_only=False, exact=False, vals=None, low=-1.5, high=1.5):
        ts, xs = prepare(low, high, shapes, vals, forward_only)
        try:
            theirs(*ts)
        except expected:
            pass
        try:
            (ours or theirs)(*xs)
        except Absent as e:
            Outcome.add("absent", e)
        except Exception:  # noqa: BLE001: errors have other words and types here
            Outcome.add("passed")
        else:
            Outcome.add("accepted", f"shapes {shapes}, line {sys._getframe(1).f_lineno}")
    return compared


@contextlib.contextmanager
def any_error(_self, _expected, _words=None):
    """assertRaises of this suite."""
    from tensor import Absent
    try:
        yield
    except Absent:
        raise
    except Exception:  # noqa: BLE001: errors have other words and types here
        return
    raise AssertionError("it is accepted")


def modules(o):
    """What test_ops.py imports of tinygrad."""
    from tensor import Dtype, Tensor, numpy_type
    import names  # noqa: F401: fills Tensor
    kinds = {"int": "int32", "half": "float16", "float": "float32", "default_float": "float32", "default_int": "int32", "double": "float64", "long": "int64"}
    kinds |= {n: n for n in "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split()}
    dtypes = types.SimpleNamespace(**{n: Dtype(t) for n, t in kinds.items()})

    class Devices(dict):
        DEFAULT = "CPU"
    renderer = types.SimpleNamespace(supported_dtypes=lambda: list(vars(dtypes).values()))
    device = Devices(CPU=types.SimpleNamespace(renderer=renderer))
    given = {"SKIP_SLOW_TEST": not o.slow}
    parts = {"tinygrad": {"Tensor": Tensor, "Device": device, "dtypes": dtypes}, "tinygrad.tensor": {"_to_np_dtype": numpy_type},
             "tinygrad.helpers": {"getenv": lambda name, default=0: given.get(name, default), "DEBUG": 0, "IMAGE": 0, "Context": lambda **_kw: contextlib.nullcontext(),
                                  "DEV": types.SimpleNamespace(interface="", renderer="")},
             "tinygrad.renderer": {}, "tinygrad.renderer.nir": {"NIRRenderer": type("NIRRenderer", (), {})}}
    for name, contents in parts.items():
        m = types.ModuleType(name)
        vars(m).update(contents)
        m.__path__ = []
        sys.modules[name] = m


def load(o):
    modules(o)
    spec = importlib.util.spec_from_file_location("test_ops", o.file)
    m = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(m)
    m.helper_test_op = compare(o, m.prepare_test_op)
    m.TestOps.helper_test_exception = refused(m.prepare_test_op)
    m.TestOps.assertRaises = m.TestOps.assertRaisesRegex = any_error
    return m


def tests_of(suite):
    for t in suite:
        if isinstance(t, unittest.TestSuite):
            yield from tests_of(t)
        else:
            yield t


class Result(unittest.TestResult):
    """What a test does beside its comparisons."""

    def addError(self, _test, err):
        from tensor import Absent
        e = err[1]
        Outcome.add("late" if isinstance(e, Late) else "absent" if isinstance(e, Absent) else "accepted" if str(e) == "it is accepted" else "wrong" if isinstance(e, AssertionError) else "refused", f"beside: {type(e).__name__}: {e}")
    addFailure = addError

    def addSubTest(self, test, _subtest, err):
        if err:
            self.addError(test, err)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("package")
    p.add_argument("file")
    p.add_argument("--floor", type=int, default=0)
    p.add_argument("--filter", default="")
    p.add_argument("--backend", default="interp")
    p.add_argument("--slow", action="store_true")
    p.add_argument("--every", type=int, default=1)
    p.add_argument("--seconds", type=int, default=10, help="of CPU, for a test")
    o = p.parse_args()
    warnings.simplefilter("ignore")
    sys.path[:0] = [os.path.abspath(o.package), os.path.dirname(os.path.abspath(__file__))]
    import anfora._ops
    anfora.set_default_dtype("f32")
    anfora._ops.FEW = 10 ** 7  # interpreted, which needs no code for each of their shapes
    module = load(o)
    signal.signal(signal.SIGPROF, late)
    chosen = [t for t in tests_of(unittest.defaultTestLoader.loadTestsFromModule(module)) if o.filter in t.id()]
    for t in chosen[::o.every]:
        Outcome.test = t.id().split(".")[-1]
        signal.setitimer(signal.ITIMER_PROF, o.seconds)
        try:
            t.run(Result())
        except Late:
            Outcome.add("late")
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    passed = Outcome.counts.pop("passed", 0)
    print(f"{passed} comparisons pass, {sum(Outcome.counts.values())} do not ({', '.join(f'{n} {c}' for n, c in sorted(Outcome.counts.items()))}); the floor is {o.floor}")
    sys.exit(not o.filter and passed < o.floor)


main()
