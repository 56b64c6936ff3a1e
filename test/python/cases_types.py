# SPDX-License-Identifier: Apache-2.0
"""Type hints: the package and a user's program pass mypy, if it is there; what a star import gives."""
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
