# SPDX-License-Identifier: Apache-2.0
"""Type hints: the package and a user's program pass mypy, if it is there; what a star import gives."""
import os
import shutil
import subprocess
import types

import anfora

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
