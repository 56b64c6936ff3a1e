#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each public header compiles alone as C11 and as C++17: headers.py CC... -- CXX..."""
import os
import sys
import tempfile

from tap import ROOT, Tap, public_headers, run

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"]


def main():
    split = sys.argv.index("--")
    compilers = [(sys.argv[1:split], "c", "-std=c11"), (sys.argv[split + 1:], "cpp", "-std=c++17")]
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        for header in public_headers():
            for compiler, ending, standard in compilers:
                source = os.path.join(folder, "header." + ending)
                with open(source, "w", encoding="utf-8") as f:
                    f.write(f"#include <{header}>\n")
                words = [*compiler, standard, *WARNINGS, "-I", os.path.join(ROOT, "include"),
                         "-fsyntax-only", source]
                tap.case(f"{header} as {standard[5:]}", run(words)[1])
    tap.done()


if __name__ == "__main__":
    main()
