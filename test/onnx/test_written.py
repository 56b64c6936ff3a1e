#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs written as .onnx and read again give the same, in the interpreter and compiled; written once more they are the
same bytes; what has no form is refused.
test_written.py ANFORA"""
import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import written  # noqa: E402
from tap import Tap  # noqa: E402

ANFORA = os.path.abspath(sys.argv[1])
TAP = Tap()
STACKED = {"cell_gradient", "nested_gradient"}  # rounds that stack values, read again: docs/conformance.md
PEELED = {"nested"}  # the first round of an inner loop, whose condition is known then, goes before it each time
REFUSED = {
    "a recursion": "def f(n: i64) { if n < 2 { n } else { f(n - 1) + f(n - 2) } }",
    "an effect": "def f(x: f32) { Print(x); x }",
    "random numbers": "def f(s: i64) { Uniform(Key(s), shape=(2,)) }",
    "a factorisation": "def f(x: f32[2, 2]) { Cholesky(x) }",
    "complex numbers": "def f(x: c64[2]) { Abs(x) }",
}


def read_back(folder, path, name):
    for i, args in enumerate(written.CASES[name]):
        want, problem = written.original(ANFORA, folder, name, args)
        TAP.case(f"{name} {i} itself", problem)
        for backend in ("interp", "llvm"):
            if problem or (backend == "llvm" and name in STACKED):
                continue
            got, why = written.result(ANFORA, folder, path + ":main", args, "--backend", backend)
            TAP.case(f"{name} {i} read again, {backend}", why or written.differs(got, want))


def refused(folder, what, text):
    source = os.path.join(folder, "x.anf")
    with open(source, "w", encoding="utf-8") as f:
        f.write(text)
    said = written.write(ANFORA, source + ":f", os.path.join(folder, "x.onnx"))
    TAP.case(f"refused: {what}", "" if "error E1177" in said else said or "written")


def main():
    with tempfile.TemporaryDirectory() as folder:
        for name in written.CASES:
            paths = [os.path.join(folder, f"{k}.onnx") for k in range(3)]
            said = written.write(ANFORA, f"{written.PROGRAM}:{name}", paths[0])
            TAP.case(f"{name} is written", said)
            if said:
                continue
            read_back(folder, paths[0], name)
            if name in STACKED | PEELED:
                continue
            said = written.write(ANFORA, paths[0] + ":main", paths[1]) or written.write(ANFORA, paths[1] + ":main", paths[2])
            with open(paths[1], "rb") as a, open(paths[2], "rb") as b:
                TAP.case(f"{name} written once more", said or ("" if a.read() == b.read() else "other bytes"))
        for what, text in REFUSED.items():
            refused(folder, what, text)
    TAP.done()


if __name__ == "__main__":
    main()
