#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Ops through the writer and the reader of a format against the reference kernels, on the cases of op.def's .sample
column: the same value, or for ops that are written as others one that is near.
written_check.py SERVER mindir|onnx MOST [OP]: MOST cases of each op, 0 for all"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from lower_check import ask, lines_of  # noqa: E402
from numpy_check import read_value, table  # noqa: E402
from tap import Tap  # noqa: E402

NEAR = {"f64": 1e-9, "c128": 1e-9, "f32": 2e-5, "c64": 2e-5, "f16": 2e-2, "bf16": 2e-1}


def differ(got, want):
    if isinstance(want, tuple):
        got = got if isinstance(got, tuple) else (got,)  # ONNX has no tuple of one
        return "; ".join(filter(None, (differ(g, w) for g, w in zip(got, want))))
    if want is None:
        return "" if got is None else "a value for None"
    a, w = got.array, want.array
    if settled(got.dtype) != settled(want.dtype) or a.shape != w.shape:
        return f"{got.dtype}{a.shape} for {want.dtype}{w.shape}"
    bound = NEAR.get(got.dtype, 0)
    with np.errstate(all="ignore"):
        good = np.isclose(a, w, rtol=bound, atol=bound, equal_nan=True) if bound else a == w
    return "" if np.all(good) else f"{a} for {w}"


def some(cases, most):
    cases = list(cases)
    return cases[::max(1, -(-len(cases) // most))] if most else cases


def settled(dtype):
    """ONNX has no numbers without an element type."""
    return {"int": "i64", "float": "f64"}.get(dtype, dtype)


def compare(got, want):
    if want.startswith("error"):
        return "" if got.startswith("error") else f"{want[:60]}; read back gives {got[:60]}"
    if got.startswith(("error E1167", "error E1177")):
        return ""  # said to have no form there
    return got[:300] if got.startswith("error") else differ(read_value(got.split()), read_value(want.split()))


def main():
    server, form, tap = sys.argv[1], sys.argv[2], Tap()
    most = int(sys.argv[3])
    only = sys.argv[4] if len(sys.argv) > 4 else None
    rng = np.random.default_rng(int(os.environ.get("SEED", "7")))
    todo = [(op["name"], line, case) for op in table(server) if op["sample"] and (not only or only == op["name"])
            for line, case in some(lines_of(op, rng), most)]
    lines = [line for _, line, _ in todo]
    want, _ = ask(server, lines)
    got, r = ask(server, lines, "--" + form)
    if len(got) != len(lines):
        tap.case("the server answers", f"status {r.returncode} at {lines[len(got)][:300]}\n{r.stderr[-2000:]}")
        tap.done()
    found, refused = {}, 0
    for (name, line, case), g, w in zip(todo, got, want):
        problem = compare(g, w)
        refused += g.startswith(("error E1167", "error E1177"))
        found.setdefault(name, [])
        if problem:
            found[name].append(f"{case}: {problem}\n  {line[:300]}")
    for name, problems in found.items():
        tap.case(f"{name}", "\n".join(problems[:3]))
    print(f"# {refused} of {len(lines)} cases have no form in .{form}")
    tap.done()


if __name__ == "__main__":
    main()
