# SPDX-License-Identifier: Apache-2.0
"""run.py PACKAGE [--floor N] [--backend llvm] [MODULE...]: pythran's own tests, which give a function as text, and arguments. Each function is
called as Python calls it and by anfora.jit, with the same arguments. Counted are functions whose call is the same: result, what is printed, what
the arguments hold afterwards. Each call that differs is listed, and is a failure unless ALLOWED has the function. PYTHRAN_TESTS is the folder
of the tests."""
import copy
import functools
import glob
import importlib
import itertools
import linecache
import os
import re
import sys
import textwrap
import types
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import calls  # noqa: E402: beside this folder

FOLDER = os.environ.get("PYTHRAN_TESTS", "")
MODULES = ["test_" + n for n in """math list slice base operator numpy_broadcasting optimizations conversion complex advanced named_parameters itertools none dict
    exception typing ndarray numpy_func0 numpy_func1 numpy_func2 numpy_func3 numpy_linalg numpy_fft numpy_ufunc_unary copperhead nested_functions
    normalize_methods cases rosetta str""".split()]
ARRAY = "arrays of NumPy that are arguments do not change"
ALLOWED = {f"test_ndarray.numpy_augassign{n}": ARRAY for n in range(6)} | {f"test_numpy_broadcasting.broadcast_update_{n}": ARRAY for n in (
    "array0", "array1", "same_dim0", "same_dim1", "scalar0", "scalar1")} | {"test_typing.valid_augassign": ARRAY, "test_cases.train_eq": ARRAY, "test_cases.train_eq2": ARRAY,
    "test_cases.insertion_sort": "integers among the numbers of a list that is sorted become floats"}
WORDS = ("prelude", "check_exception", "thread_count")  # of run_test, and no functions
_TEXTS = itertools.count()


def module_of(code):
    """The text as a module whose source can be read."""
    m = types.ModuleType(f"pythran_{next(_TEXTS)}")
    m.__file__ = f"<{m.__name__}>"
    linecache.cache[m.__file__] = (len(code), None, code.splitlines(True), m.__file__)
    sys.modules[m.__name__] = m
    exec(compile(code, m.__file__, "exec"), m.__dict__)
    return m


class Tests(unittest.TestCase):
    """What pythran.tests has as TestEnv and TestFromDir."""

    tally = jit = None
    path = ""

    def called(self, code, name, args):
        code = textwrap.dedent(code)
        if re.search("KeyboardInterrupt|SystemExit|GeneratorExit", code):  # which would end the suite
            return
        f, again = (getattr(module_of(code), name) for _ in range(2))
        try:
            copy.deepcopy(args)
        except Exception:  # noqa: BLE001: arguments that have no copies are not compared
            return
        calls.compared(self.tally, f, Tests.jit(again), args, {})

    def run_test(self, code, *params, **interface):
        self.called(code, next(n for n in interface if n not in WORDS), params)

    def run_test_case(self, code, module_name, runas, module_dir=None, **interface):
        """`runas` are statements, the last of which calls the function."""
        for name in interface if runas else ():
            *before, last = runas.split(";")
            names = dict(vars(module_of(textwrap.dedent(code))))
            exec(";".join(before), names)
            if name in last:
                names[name] = lambda *args, name=name: self.called(code, name, args)
                eval(last.strip(), names)

    @classmethod
    def populate(cls, target, stub=None):
        for path in sorted(glob.glob(os.path.join(cls.path, "*.py"))):
            with open(path, encoding="utf-8") as file:
                code = file.read()
            names = re.findall(r"#\s*pythran\s+export\s+(\w+)", code)
            for i, runas in enumerate(re.findall(r"^#\s*runas\s+(.*)$", code, re.M)):
                setattr(target, f"test_{os.path.basename(path)[:-3]}_{i}",
                        functools.partialmethod(cls.run_test_case, code, "", runas, **dict.fromkeys(names)))


def stand_in():
    """The modules of pythran that its tests import."""
    class Anything:
        def __getitem__(self, _):
            return self

        def __call__(self, *_):
            return "none"

        __getattr__ = __getitem__
    one = Anything()

    def named(n):
        if n.startswith("__"):
            raise AttributeError(n)
        return Exception if n.endswith("Error") else one
    for name, has in (("pythran", {}), ("pythran.tests", {"TestEnv": Tests, "TestFromDir": Tests}), ("pythran.config", {"cfg": one}),
                      ("pythran.tables", {"MODULES": {"numpy": {}}}), ("pythran.errors", {}), ("pythran.syntax", {}), ("pythran.typing", {})):
        sys.modules[name] = m = types.ModuleType(name)
        vars(m).update(has)
        m.__getattr__ = named


def load(tally, package):
    sys.path[:0] = [package, FOLDER]
    import anfora
    Tests.tally, Tests.jit = tally, staticmethod(functools.partial(anfora.jit, backend=tally.backend))
    stand_in()

    def run(name):
        tally.module = name
        module = importlib.import_module(name)
        unittest.defaultTestLoader.loadTestsFromModule(module).run(unittest.TestResult())
    return run


if __name__ == "__main__":
    calls.main(__doc__, MODULES, ALLOWED, load)
