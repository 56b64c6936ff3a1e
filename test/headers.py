#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each public header compiles alone as C11, C23, C++17 and C++20: headers.py CC... -- CXX..."""
import os
import sys
import tempfile

from tap import ROOT, Tap, public_headers, run

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"]


def main():
    split = sys.argv.index("--")
    cc, cxx = sys.argv[1:split], sys.argv[split + 1:]
    compilers = [(cc, "c", "-std=c11"), (cc, "c", "-std=c2x"), (cxx, "cpp", "-std=c++17"), (cxx, "cpp", "-std=c++20")]
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
        source = os.path.join(folder, "init.cpp")
        with open(source, "w", encoding="utf-8") as f:
            f.write("#include <anfora/anfora.h>\nbool f() { anf_exec_opts o = ANF_INIT(anf_exec_opts); return o.size && !o.engine; }\n")
        words = [*next(c for c, ending, _ in compilers if ending == "cpp"), "-std=c++17", *WARNINGS, "-I", os.path.join(ROOT, "include"), "-fsyntax-only", source]
        tap.case("ANF_INIT as c++17", run(words)[1])
    tap.done()


if __name__ == "__main__":
    main()
