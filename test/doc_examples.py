#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What README.md and docs/ show is true: doc_examples.py ANFORA LIB -- CC FLAGS...

    ```c     a complete program: compiles without a warning, runs, ends with status 0, and prints what
             a ```text block right after it says, if there is one
    ```anf   a program that `anfora check` accepts
    ```sh    each `$ anfora ...` or `$ ./dev anfora ...` is run in a folder that has what the project's root has
             and must print what follows it (`...` alone on a line stands for any lines)
A block with a word after its language, such as ```sh skip, is not looked at."""
import glob
import os
import re
import shlex
import subprocess
import sys
import tempfile

from tap import ROOT, Tap, read, run

ANFORA, LIBRARY = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
COMPILER = sys.argv[sys.argv.index("--") + 1:]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$(?:\n\n?^```text\n(.*?)^```$)?", re.S | re.M)


def matches(got, expected):
    pattern = re.escape(expected.strip("\n")).replace(re.escape("..."), r"[^\n]*(?:\n[^\n]*)*?")
    return re.fullmatch(pattern, got.strip("\n")) is not None


def differs(what, got, expected):
    return "" if matches(got, expected) else f"{what}\nexpected:\n{expected}\ngot:\n{got}"


def check_c(code, expected, folder):
    source, program = os.path.join(folder, "doc.c"), os.path.join(folder, "doc")
    with open(source, "w", encoding="utf-8") as f:
        f.write(code)
    problem = run([*COMPILER, "-std=c11", "-Wall", "-Wextra", "-Werror", "-I", os.path.join(ROOT, "include"),
                   "-o", program, source, LIBRARY, "-lffi", "-lz", "-lm"])[1]
    if problem:
        return problem
    out, problem = run([program], cwd=folder)
    return problem or (differs("the program", out, expected) if expected is not None else "")


def check_anf(code, _expected, folder):
    path = os.path.join(folder, "doc.anf")
    with open(path, "w", encoding="utf-8") as f:
        f.write(code)
    return run([ANFORA, "check", path])[1]


def like_root(folder):
    """A folder with links to what the root has, and an `out` of its own: what examples write is not left in the tree."""
    for name in os.listdir(ROOT):
        if name != "out" and not name.startswith("."):
            os.symlink(os.path.join(ROOT, name), os.path.join(folder, name))
    os.mkdir(os.path.join(folder, "out"))


def check_sh(code, _expected, folder):
    """Commands other than anfora's own are not run."""
    problems = []
    for part in re.split(r"^\$ ", code, flags=re.M)[1:]:
        command, _, expected = part.partition("\n")
        words = shlex.split(command)
        words = words[1:] if words[0] == "./dev" else words
        if words[0] != "anfora":
            continue
        r = subprocess.run([ANFORA, *words[1:]], cwd=folder, capture_output=True, encoding="utf-8", timeout=60,
                           check=False)
        problems.append(differs(command, r.stdout + r.stderr, expected))
    return "\n".join(p for p in problems if p)


CHECKS = {"c": check_c, "anf": check_anf, "sh": check_sh}


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        like_root(folder)
        for path in [os.path.join(ROOT, "README.md"), *sorted(glob.glob(os.path.join(ROOT, "docs", "*.md")))]:
            text = read(path)
            for block in BLOCK.finditer(text):
                language, code, expected = block.groups()
                if language in CHECKS:
                    line = text.count("\n", 0, block.start()) + 1
                    tap.case(f"{os.path.relpath(path, ROOT)}:{line} ({language})",
                             CHECKS[language](code, expected, folder))
    tap.done()


if __name__ == "__main__":
    main()
