#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The programs of examples/c compile without a warning, run, and print what their first comment says:
examples_c.py ANFORA LIB RUNTIME -- CC FLAGS..."""
import os
import re
import sys
import tempfile

from tap import ROOT, Tap, read, run

FOLDER = os.path.join(ROOT, "examples", "c")


def problem_of(name, tools, compiler, folder):
    anfora, library, runtime = tools
    path, program = os.path.join(FOLDER, name), os.path.join(folder, "program")
    text = read(path)
    wanted = re.search(r"^ \* prints: (.*?) \*/", text, re.M)
    built = re.search(r"^ \* builds: (\S+)(.*)$", text, re.M)
    if not wanted:
        return "its first comment does not say what it prints"
    words, links = [], [library, "-lffi", "-lz"]
    if built:
        bad = run([anfora, "build", os.path.join(ROOT, built[1]), *built[2].split()], cwd=folder)[1]
        if bad:
            return bad
        words, links = ["-I", folder], [os.path.join(folder, built[1].split(":")[1] + ".o"), runtime]
    bad = run([*compiler, "-std=c11", "-g", "-Wall", "-Wextra", "-Werror", "-I", os.path.join(ROOT, "include"), *words,
               "-o", program, path, *links, "-lm", "-lpthread"])[1]
    if bad:
        return bad
    out, bad = run([program], cwd=folder)
    return bad or ("" if out == wanted[1] + "\n" else f"it prints\n{out}and not\n{wanted[1]}")


def main():
    split = sys.argv.index("--")
    tools, compiler = [os.path.abspath(p) for p in sys.argv[1:split]], sys.argv[split + 1:]
    tap = Tap()
    for name in sorted(os.listdir(FOLDER)):
        if name.endswith(".c"):
            with tempfile.TemporaryDirectory() as folder:
                tap.case(f"examples/c/{name}", problem_of(name, tools, compiler, folder))
    tap.done()


if __name__ == "__main__":
    main()
