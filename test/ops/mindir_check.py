#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Ops through the writer and the reader of .mindir against the reference kernels, on the cases of op.def's .sample
column: the same value, or for ops that are written as others one that is near."""
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
        return "; ".join(filter(None, (differ(g, w) for g, w in zip(got, want))))
    if want is None:
        return "" if got is None else "a value for None"
    a, w = got.array, want.array
    if got.dtype != want.dtype or a.shape != w.shape:
        return f"{got.dtype}{a.shape} for {want.dtype}{w.shape}"
    bound = NEAR.get(got.dtype, 0)
    with np.errstate(all="ignore"):
        good = np.isclose(a, w, rtol=bound, atol=bound, equal_nan=True) if bound else a == w
    return "" if np.all(good) else f"{a} for {w}"


def compare(got, want):
    if want.startswith("error"):
        return "" if got.startswith("error") else f"{want[:60]}; read back gives {got[:60]}"
    if got.startswith("error E1167"):
        return ""  # said to have no form there
    return got[:300] if got.startswith("error") else differ(read_value(got.split()), read_value(want.split()))


def main():
    server, tap = sys.argv[1], Tap()
    only = sys.argv[2] if len(sys.argv) > 2 else None
    rng = np.random.default_rng(int(os.environ.get("SEED", "7")))
    todo = [(op["name"], line, case) for op in table(server) if op["sample"] and (not only or only == op["name"])
            for line, case in lines_of(op, rng)]
    lines = [line for _, line, _ in todo]
    want, _ = ask(server, lines)
    got, r = ask(server, lines, "--mindir")
    if len(got) != len(lines):
        tap.case("the server answers", f"status {r.returncode} at {lines[len(got)][:300]}\n{r.stderr[-2000:]}")
        tap.done()
    found, refused = {}, 0
    for (name, line, case), g, w in zip(todo, got, want):
        problem = compare(g, w)
        refused += g.startswith("error E1167")
        found.setdefault(name, [])
        if problem:
            found[name].append(f"{case}: {problem}\n  {line[:300]}")
    for name, problems in found.items():
        tap.case(f"{name}", "\n".join(problems[:3]))
    print(f"# {refused} of {len(lines)} cases have no form in .mindir")
    tap.done()


if __name__ == "__main__":
    main()
