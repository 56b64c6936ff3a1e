#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each public header compiles alone as C11, C23, C++17 and C++20: headers.py CC... -- CXX..."""
import os
import sys
import tempfile

from tap import ROOT, Tap, public_headers, run

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"]

BUILDER = """#include <anfora/tir.h>
#include <stdbool.h>
void build(anf_tb *b, unsigned char byte, unsigned long long size, char c);
void build(anf_tb *b, unsigned char byte, unsigned long long size, char c) {
  ANF_FUNC(b, bool, "f", ANF_ARG("n", index), ANF_ARG("p", bool), ANF_ARG_TENSOR("A", bool, ANF_DIM(0), 3)) {
    anf_tir_expr n = ANF_PARAM(b, 0), p = ANF_PARAM(b, 1), A = ANF_PARAM(b, 2);
    ANF_VAR(b, flag, bool);
    ANF_VAR_INIT(b, first, u8, byte);
    ANF_VAR_INIT(b, x, f32, 1.5f);
    ANF_TENSOR(b, T, f32, 2, 3);
    ANF_TENSOR_OF(b, D, s16, n, size);
    ANF_SET(b, flag, true);
    ANF_FOR(b, i, 0UL, n) {
      ANF_IF(b, ANF_LT(b, first, c)) { ANF_SET(b, ANF_AT(b, T, i, 0UL), ANF_ADD(b, x, 2)); }
      ANF_ELSE(b) { ANF_SET(b, ANF_AT(b, D, i, 0UL), (short)3); }
    }
    ANF_PFOR(b, j, 0, 3) { ANF_SET(b, ANF_AT(b, A, 0, j), ANF_EQ(b, p, flag)); }
    ANF_WHILE(b, ANF_GT(b, x, 1.0)) { ANF_SET(b, x, 0.5); }
    ANF_RETURN(b, ANF_CALL(b, bool, "f", n, flag, A));
  }
}
"""


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
        for compiler, ending, standard in compilers:
            source = os.path.join(folder, "builder." + ending)
            with open(source, "w", encoding="utf-8") as f:
                f.write(BUILDER)
            words = [*compiler, standard, *WARNINGS, "-I", os.path.join(ROOT, "include"), "-fsyntax-only", source]
            tap.case(f"the builder's macros as {standard[5:]}", run(words)[1])
    tap.done()


if __name__ == "__main__":
    main()
