#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""packages.txt has what each build needs: packages.py BUILD_DIR.
The headers that a build read, and the programs and modules that configuring found, belong to packages that are installed
for it. And what is optional may lack: without Python's headers the rest is configured."""
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile

from tap import ROOT, Tap, read, run

LATER = ("test/", "fuzz/", "bench/", "comm/mpi/")  # what `./dev run` does not build, or needs nothing more for
WITHOUT_HEADERS = """
import sysconfig
paths = sysconfig.get_paths
def without(*args, **words):
    return {k: "/nowhere" if "include" in k else v for k, v in paths(*args, **words).items()}
sysconfig.get_paths = without
variables = sysconfig.get_config_vars
def elsewhere(*args):
    v = variables(*args)
    return v if args else {**{k: v[k] for k in v if k != "LIBPC"}, "INCLUDEPY": "/nowhere"}
sysconfig.get_config_vars = elsewhere
"""


def rows():
    return [line.split(None, 3) for line in read(os.path.join(ROOT, "packages.txt")).splitlines()
            if line and not line.startswith("#")]


@functools.lru_cache(None)
def closure(*needs):
    """The packages of these needs and all that they depend on, as far as installed."""
    out = subprocess.run(["dpkg-query", "-W", "-f", "${Package}\t${Provides}\t${Pre-Depends}, ${Depends}\n"],
                         capture_output=True, text=True, check=True).stdout
    def bare(names):
        return [re.sub(r"[ (:].*", "", n.strip()) for n in re.split("[,|]", names) if n.strip()]

    depends, provided = {}, {}
    for line in out.splitlines():
        name, provides, wants = line.split("\t")
        depends[name] = bare(wants)
        for p in bare(provides):
            provided.setdefault(p, []).append(name)
    todo, have = [name for name, _, need, _ in rows() if need in needs], set()
    while todo:
        name = todo.pop()
        if name in have:
            continue
        have.add(name)
        todo += depends.get(name, []) + provided.get(name, [])
    return have


def owners(paths):
    """Which package each file belongs to; those of no package are left out."""
    real = {p: os.path.realpath(p) for p in paths}
    out = subprocess.run(["dpkg", "-S", *{*real.values(), *real}], capture_output=True, text=True, check=False).stdout
    of = {}
    for line in out.splitlines():
        names, _, path = line.rpartition(": ")
        of[path] = [n.split(":")[0] for n in names.split(", ")]
    return {p: of.get(p) or of.get(real[p]) for p in paths if of.get(p) or of.get(real[p])}


def headers(build):
    """Headers of the system that each target of the build read: of `./dev run`'s targets, and of the Python package's."""
    out, problem = run(["ninja", "-C", build, "-t", "deps"])
    found, where = {"run": set(), "python": set()}, None
    for line in out.splitlines():
        if line and not line.startswith(" "):
            target = line.split(":")[0]
            where = None if target.startswith(LATER) else "python" if target.startswith("python/") else "run"
        elif where and line.strip().startswith("/usr/"):
            found[where].add(line.strip())
    return found, problem


def not_covered(paths, *needs):
    have = closure(*needs)
    return "\n".join(f"{path} is of {', '.join(names)}, which packages.txt lacks for {' and '.join(needs)}"
                     for path, names in sorted(owners(paths).items()) if not have.intersection(names))


def named(kind):
    """What the build files outside of the tests look for with this function of meson."""
    found = set()
    for folder, _, names in os.walk(ROOT):
        inside = os.path.relpath(folder, ROOT) + "/"
        if "meson.build" in names and not inside.startswith((*LATER, "build/", ".")) or inside == "./":
            found.update(re.findall(kind + r"\('([^']+)'", read(os.path.join(folder, "meson.build"))))
    return found


def module_file(name):
    out, problem = run(["pkg-config", "--variable=pcfiledir", name])
    return None if problem else os.path.join(out.strip(), name + ".pc")


def setup_without_python(tap):
    """The rest of the project is configured where Python has no headers."""
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "sitecustomize.py"), "w", encoding="utf-8") as f:
            f.write(WITHOUT_HEADERS)
        python = os.path.join(folder, "python3")
        with open(python, "w", encoding="utf-8") as f:
            f.write(f'#!/bin/sh\nPYTHONPATH={folder} exec /usr/bin/python3 "$@"\n')
        os.chmod(python, 0o755)
        native = os.path.join(folder, "native.ini")
        with open(native, "w", encoding="utf-8") as f:
            f.write(f"[binaries]\npython = '{python}'\n")
        modules = os.path.join(folder, "pc")  # what pkg-config knows, but for Python's
        os.mkdir(modules)
        for d in run(["pkg-config", "--variable", "pc_path", "pkg-config"])[0].strip().split(":"):
            for name in os.listdir(d) if os.path.isdir(d) else []:
                if not name.startswith("python") and not os.path.exists(os.path.join(modules, name)):
                    os.symlink(os.path.join(d, name), os.path.join(modules, name))
        words = ["meson", "setup", "--native-file", native, "-Dtests=false", os.path.join(folder, "b"), ROOT]
        problem = run(words, env={"PKG_CONFIG_LIBDIR": modules}, seconds=600)[1]
        tap.case("it is configured without Python's headers", problem)
        targets = "" if problem else run(["ninja", "-C", os.path.join(folder, "b"), "-t", "targets", "all"], seconds=300)[0]
        tap.case("and has the command and no Python package", problem or
                 ("" if "cli/anfora:" in targets and "_core" not in targets else "the targets are others:\n" + targets[-2000:]))
        bad = run([*words[:-2], "-Dpython=enabled", os.path.join(folder, "c"), ROOT], 1, env={"PKG_CONFIG_LIBDIR": modules}, seconds=600)
        tap.case("a Python package that is asked for needs them",
                 bad[1] or ("" if "Python.h" in bad[0] else bad[0][-2000:]))


def main():
    build, tap = sys.argv[1], Tap()
    for row in rows():
        good = len(row) == 4 and row[2] in ("run", "python", "test", "late", "peers")
        tap.case(f"packages.txt says of {row[0]} what it is for", "" if good else " ".join(row))
    if not shutil.which("dpkg-query") or not owners([shutil.which("cc") or "/usr/bin/gcc"]):
        tap.skip("packages of what is built", "no dpkg")
    else:
        found, problem = headers(build)
        for need in ("run", "python"):
            tap.case(f"headers of {need} are of packages that it installs", problem or
                     not_covered(found[need], "run", need) or ("" if found[need] or need == "python" else "none was found"))
        modules = [module_file(name) for name in named("dependency") if name not in ("threads", "dl")]
        programs = [shutil.which(name) for name in named("find_program")]
        tap.case("modules and programs that run looks for, too",
                 not_covered([p for p in modules + programs if p], "run") or
                 ("" if modules and programs else "none was found"))
        tap.case("a header of no need is found out", "" if not_covered(["/usr/include/cmocka.h"], "run") else "it is not")
    setup_without_python(tap)
    tap.done()


if __name__ == "__main__":
    main()
