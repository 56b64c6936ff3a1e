#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The package as users get it, TAP: a wheel is built by pip, installed into a fresh environment, and runs the tutorial
there, without the build tree. Needs the network, for what builds wheels and for NumPy. wheel.py"""
import glob
import os
import subprocess
import sys
import tempfile
import zipfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from tap import ROOT, Tap, run  # noqa: E402

LIBRARIES = {"libc", "libm", "ld-linux-x86-64", "libffi"}  # LLVM is loaded when something is compiled


def environment(folder):
    """A fresh environment; its Python, and what went wrong."""
    problem = run([sys.executable, "-m", "venv", folder])[1]
    return os.path.join(folder, "bin", "python"), problem


def libraries(wheel, folder):
    """The libraries that the extension in a wheel asks for."""
    with zipfile.ZipFile(wheel) as z:
        core = z.extract("anfora/_core.abi3.so", folder)
    out = subprocess.run(["readelf", "-d", core], capture_output=True, text=True, check=True).stdout
    return {line.split("[")[1].split(".so")[0] for line in out.splitlines() if "(NEEDED)" in line}


def look(tap, wheel, folder):
    """What is in the wheel, and only that."""
    with zipfile.ZipFile(wheel) as z:
        names = z.namelist()
    stray = [n for n in names if not n.startswith("anfora")]
    tap.case("the wheel holds the package alone", "\n".join(stray))
    tap.case("one wheel is for all Pythons from 3.11", "" if "-cp311-abi3-" in wheel else wheel)
    missing = [n for n in ("py.typed", "_core.pyi", "numpy.pyi", "train.py") if f"anfora/{n}" not in names]
    tap.case("types are in it", " ".join(missing))
    tap.case("it asks for known libraries alone", " ".join(libraries(wheel, folder) - LIBRARIES))


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as tree:
        maker, problem = environment(os.path.join(tree, "maker"))
        pip = [maker, "-m", "pip", "--disable-pip-version-check"]
        if problem or run([*pip, "download", "-q", "--no-deps", "-d", tree, "meson-python"])[1]:
            tap.skip("a wheel is built", problem or "no package index is within reach")
            tap.done()
        problem = run([*pip, "wheel", "-q", "--no-deps", "-w", tree, ROOT], cwd=tree, seconds=3000)[1]
        tap.case("a wheel is built", problem)
        if problem:
            tap.done()
        wheel = glob.glob(os.path.join(tree, "anfora-*.whl"))[0]
        look(tap, wheel, tree)
        user, problem = environment(os.path.join(tree, "user"))
        pip = [user, "-m", "pip", "--disable-pip-version-check"]
        tap.case("it is installed", problem or run([*pip, "install", "-q", wheel + "[numpy]"], cwd=tree, seconds=600)[1])
        where, problem = run([user, "-c", "import anfora; print(anfora.__file__)"], cwd=tree)
        tap.case("it is imported", problem or ("" if where.startswith(tree) else where))
        empty = os.path.join(tree, "empty")
        os.mkdir(empty)
        here = os.path.dirname(os.path.abspath(__file__))
        tap.case("the tutorial runs", run([user, os.path.join(here, "run.py"), empty, os.path.join(here, "cases_docs.py")],
                                          cwd=tree, seconds=600)[1])
    tap.done()


if __name__ == "__main__":
    main()
