#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The package as users get it, TAP: `./dev wheel` builds a wheel, which is installed by pip into a fresh environment and
runs the tutorial there, without the build tree; then again in a root that has Python, NumPy and the C library alone. Needs the
network, for what builds wheels and for NumPy. wheel.py"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from tap import ROOT, Tap, run  # noqa: E402

C_LIBRARY = {"libc", "libm", "ld-linux-x86-64"}
USE = """
import anfora
import numpy as np
f = anfora.jit(lambda x: anfora.numpy.sin(x) @ x.T)
x = np.arange(6.0).reshape(2, 3)
assert np.allclose(np.asarray(f(x)), np.sin(x) @ x.T)
assert "define" in f.llvm(x)
assert anfora.grad(lambda x: x ** 3)(2.0) == 12
"""
PROGRAM = "def main(x: f64) -> f64 { x * 2.0 }\n"


def environment(folder):
    """A fresh environment; its Python, and what went wrong."""
    problem = run([sys.executable, "-m", "venv", folder])[1]
    return os.path.join(folder, "bin", "python"), problem


def needed(file):
    """The libraries that a program or a library asks for."""
    out = subprocess.run(["readelf", "-d", file], capture_output=True, text=True, check=True).stdout
    return {re.sub(r"-[0-9a-f]{8}$", "", line.split("[")[1].split(".so")[0]) for line in out.splitlines() if "(NEEDED)" in line}


def look(tap, wheel, folder):
    """What is in the wheel, and only that."""
    with zipfile.ZipFile(wheel) as z:
        names = z.namelist()
        z.extractall(folder)
    tap.case("the wheel holds the package alone", "\n".join(n for n in names if not n.startswith("anfora")))
    tap.case("one wheel is for all Pythons from 3.11 and many systems",
             "" if re.search(r"-cp311-abi3-manylinux_2_\d+_", wheel) else wheel)
    missing = [n for n in ("py.typed", "_core.pyi", "numpy.pyi", "train.py", "licences/LLVM.txt") if f"anfora/{n}" not in names]
    tap.case("types and licences are in it", " ".join(missing))
    own = {os.path.basename(n).split("-")[0].split(".so")[0] for n in names if n.startswith("anfora.libs/")}
    wants = set().union(*(needed(os.path.join(folder, n)) for n in names if re.search(r"\.so|_command$", n)))
    tap.case("it asks for the C library alone", " ".join(wants - C_LIBRARY - own))
    tap.case("it takes less than 30 MB", "" if os.path.getsize(wheel) < 30 << 20 else f"{os.path.getsize(wheel)} bytes")


def shared_libraries(files):
    """What the loader brings in for these files."""
    found = set()
    for file in files:
        out = subprocess.run(["ldd", file], capture_output=True, text=True, check=False).stdout
        found |= set(re.findall(r"(/\S+) \(0x", out))
    return found


def bare_root(folder, user):
    """A root with Python and what is installed for `user`; where Python is in it."""
    info = subprocess.run([user, "-c", "import sys, sysconfig; print(sys.base_prefix, sysconfig.get_path('stdlib'), "
                           "sysconfig.get_path('purelib'), sys._base_executable, sep='\\n')"], capture_output=True, text=True, check=True)
    _, library, packages, executable = info.stdout.splitlines()
    executable = os.path.realpath(executable)
    skipped = shutil.ignore_patterns("test", "idlelib", "ensurepip", "site-packages", "dist-packages", "__pycache__", "config-*")
    shutil.copytree(library, folder + library, ignore=skipped)
    wanted = [n for n in os.listdir(packages) if n.startswith(("anfora", "numpy"))]
    for name in wanted:
        shutil.copytree(os.path.join(packages, name), os.path.join(folder, "packages", name))
    loaded = [executable, *glob.glob(library + "/lib-dynload/*.so"), *glob.glob(packages + "/numpy/**/*.so", recursive=True)]
    for file in {executable, *shared_libraries(loaded)}:
        if "site-packages" not in file and "numpy.libs" not in file:
            os.makedirs(os.path.dirname(folder + file), exist_ok=True)
            shutil.copy(file, folder + file)
    os.makedirs(folder + "/tmp")
    return executable


def complaint(words, env):
    return subprocess.run(words, capture_output=True, text=True, env={**os.environ, **env}, check=False).stderr


def in_bare_root(tap, folder, user):
    executable = bare_root(folder, user)
    enter = ["chroot"] if os.geteuid() == 0 else ["unshare", "-r", "chroot"]
    python = [*enter, folder, executable]
    # LD_ORIGIN_PATH: the loader asks /proc where a program lies, and this root has none
    nothing = {"LD_ORIGIN_PATH": "/packages/anfora", "PYTHONPATH": "/packages", "HOME": "/tmp", "ANFORA_CACHE": "off", "LD_LIBRARY_PATH": "", "PATH": os.environ["PATH"]}
    if run([*python, "-c", "import sys"], env=nothing)[1]:
        tap.skip("a bare root", "no root directory can be entered here")
        return
    tap.case("a bare root: functions are compiled by the LLVM of the wheel", run([*python, "-c", USE], env=nothing)[1])
    for name in ("docs/python.md", "test/python/cases_docs.py"):
        os.makedirs(os.path.join(folder, "project", os.path.dirname(name)))
        shutil.copy(os.path.join(ROOT, name), os.path.join(folder, "project", name))
    page = "import sys; sys.path.append('/project/test/python'); import cases_docs; cases_docs.test_tutorial()"
    tap.case("a bare root: the tutorial runs", run([*python, "-c", page], env=nothing, seconds=600)[1])
    with open(folder + "/tmp/p.anf", "w", encoding="utf-8") as file:
        file.write(PROGRAM)
    out, problem = run([*python, "-m", "anfora", "run", "/tmp/p.anf", "21.0", "--backend", "llvm"], env=nothing)
    tap.case("a bare root: the command", problem or ("" if "42" in out else out))
    for library in glob.glob(folder + "/packages/anfora/lib/*"):
        os.remove(library)
    shown = complaint([*python, "-c", USE], nothing)
    tap.case("without LLVM, the package of the system is named", "" if "CompileError" in shown and "libllvm19" in shown else shown)
    for library in glob.glob(folder + "/packages/anfora.libs/libffi*"):
        os.remove(library)
    shown = complaint([*python, "-c", USE], nothing)
    tap.case("without a library of the wheel, what to do", "" if "ImportError" in shown and "pip install" in shown else shown)


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as tree:
        user, problem = environment(os.path.join(tree, "user"))
        pip = [user, "-m", "pip", "--disable-pip-version-check"]
        if problem or run([*pip, "download", "-q", "--no-deps", "-d", tree, "meson-python"])[1]:
            tap.skip("a wheel is built", problem or "no package index is within reach")
            tap.done()
        problem = run([os.path.join(ROOT, "dev"), "wheel", tree], seconds=3000)[1]
        tap.case("a wheel is built", problem)
        if problem:
            tap.done()
        wheel = glob.glob(os.path.join(tree, "anfora-*.whl"))[0]
        look(tap, wheel, os.path.join(tree, "open"))
        tap.case("it is installed, and NumPy with it", run([*pip, "install", "-q", wheel], cwd=tree, seconds=600)[1])
        where, problem = run([user, "-c", "import anfora, numpy; print(anfora.__file__)"], cwd=tree)
        tap.case("it is imported", problem or ("" if where.startswith(tree) else where))
        command = os.path.join(os.path.dirname(user), "anfora")
        version, problem = run([command, "--version"], cwd=tree)
        again, worse = run([user, "-m", "anfora", "--version"], cwd=tree)
        tap.case("the command comes with it", problem or worse or ("" if version == again and "anfora" in version else version))
        empty = os.path.join(tree, "empty")
        os.mkdir(empty)
        here = os.path.dirname(os.path.abspath(__file__))
        tap.case("the tutorial runs", run([user, os.path.join(here, "run.py"), empty, os.path.join(here, "cases_docs.py")],
                                          cwd=tree, seconds=600)[1])
        in_bare_root(tap, os.path.join(tree, "root"), user)
    tap.done()


if __name__ == "__main__":
    main()
