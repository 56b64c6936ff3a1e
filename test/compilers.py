#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compilers that are newer than Debian 12's own warn of nothing in the sources of this build: compilers.py BUILD_DIR [EVERY].
Each that is installed reads every C file, or one of EVERY, with the flags of the build; ./dev test installs one (packages.txt). gcc 12 stands in
for its successors: it reads C23, what gcc 14 refuses by itself is an error, and with enums of one byte a function that is declared
with an int and defined with an enum has two types, as -Wenum-int-mismatch of gcc 13 says."""
import json
import os
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from tap import ROOT, Tap

NEWER = [f"clang-{n}" for n in range(18, 23)] + [f"gcc-{n}" for n in range(13, 17)]
OF_GCC_14 = ["-std=c2x", "-fshort-enums"] + ["-Werror=" + w for w in (
    "implicit-function-declaration", "implicit-int", "int-conversion", "incompatible-pointer-types", "return-type")]
DROPPED, WITH_VALUE = {"-c", "-MD", "-pipe", "-fdiagnostics-color=always"}, {"-o", "-MF", "-MQ"}


def commands(build):
    """File: its folder and flags."""
    found = {}
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as f:
        for entry in json.load(f):
            words, flags = iter(shlex.split(entry["command"])), []
            for word in words:
                if word in WITH_VALUE:
                    next(words)
                elif word.startswith("-") and word not in DROPPED:
                    flags.append(word)
                    if word in ("-isystem", "-include"):
                        flags.append(next(words))
            path = os.path.normpath(os.path.join(entry["directory"], entry["file"]))
            if path.endswith(".c"):
                found[path] = (entry["directory"], flags)
    return found


def reads(compiler, more, path, folder, flags):
    words = [compiler, *flags, "-Werror", "-fsyntax-only", *more, path]
    r = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    return f"{os.path.relpath(path, ROOT)}\n{r.stderr[:2000]}" if r.returncode else ""


def main():
    tap, found = Tap(), commands(sys.argv[1])
    tap.case("the build has sources", "" if len(found) > 400 else str(len(found)))
    new = [(name, []) for name in NEWER if shutil.which(name)]
    if not any(name.startswith("clang") for name, _ in new):
        tap.skip("a newer clang", "none is installed")
    if not any(name.startswith("gcc") for name, _ in new):
        new.append(("gcc", OF_GCC_14))
    chosen = sorted(found)[::int(sys.argv[2]) if len(sys.argv) > 2 else 1]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for compiler, more in new:
            bad = [b for b in pool.map(lambda p: reads(compiler, more, p, *found[p]), chosen) if b]
            tap.case(" ".join([compiler, *more[:2]]), "\n".join(bad[:10]))
    tap.done()


if __name__ == "__main__":
    main()
