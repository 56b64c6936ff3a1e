#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Ops through the writer and the reader of a format against the reference kernels, on the cases of op.def's .sample
column: the same value, or for ops that are written as others one that is near.
written_check.py SERVER mindir|onnx|stablehlo MOST [OP]: MOST cases of each op, 0 for all"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from lower_check import ask, lines_of  # noqa: E402
from numpy_check import read_value, table  # noqa: E402
from tap import Tap  # noqa: E402

REFUSED = ("error E1167", "error E1177", "error E1330")  # said to have no form there
NEAR = {"f64": 1e-9, "c128": 1e-9, "f32": 2e-5, "c64": 2e-5, "f16": 2e-2, "bf16": 2e-1}

# All of these cases are taken: an infinity or NaN stays in its windows
SPECIAL = {"AvgPool2D": "f32[1,2,5,7] kernel=3 stride=2 padding=1 ceil_mode=true", "AdaptiveAvgPool1D": "f64[2,3,9] shape=4",
           "AdaptiveAvgPool2D": "f32[2,3,7,9] shape=(3,4); f16[1,2,4,6] shape=(2,5)", "AdaptiveAvgPool3D": "f32[1,2,4,5,6] shape=(2,3,4)",
           "AvgPoolGrad": "f32[1,2,3,4] kernel=3 stride=2 padding=1 shape=(1,2,5,7)",
           "AdaptiveAvgPoolGrad": "f32[2,3,3,2] shape=(2,3,7,5); bf16[1,2,4] shape=(1,2,9)"}


def differ(got, want, whole=False):
    """`whole`: a difference is a part of the greatest element, as sums with a large bias cancel."""
    if isinstance(want, tuple):
        got = got if isinstance(got, tuple) else (got,)  # ONNX has no tuple of one
        return "; ".join(filter(None, (differ(g, w, whole) for g, w in zip(got, want))))
    if want is None:
        return "" if got is None else "a value for None"
    a, w = got.array, want.array
    if settled(got.dtype) != settled(want.dtype) or a.shape != w.shape:
        return f"{got.dtype}{a.shape} for {want.dtype}{w.shape}"
    bound = NEAR.get(got.dtype, 0)
    with np.errstate(all="ignore"):
        most = np.max(np.abs(w[np.isfinite(w)]), initial=1.0) if whole else 1.0
        good = np.isclose(a, w, rtol=bound, atol=bound * most, equal_nan=True) if bound else a == w
    return "" if np.all(good) else f"{a} for {w}"


def some(cases, most):
    cases = list(cases)
    return cases[::max(1, -(-len(cases) // most))] if most else cases


def special(op, rng):
    return list(lines_of(op | {"sample": SPECIAL[op["name"]]}, rng)) if op["name"] in SPECIAL else []


def settled(dtype):
    """ONNX and StableHLO have no numbers without an element type."""
    return {"int": "i64", "float": "f64", "complex": "c128"}.get(dtype, dtype)


def compare(op, got, want):
    if want.startswith("error"):
        return "" if got.startswith("error") else f"{want[:60]}; read back gives {got[:60]}"
    if got.startswith(REFUSED):
        return ""
    if got.startswith("error"):
        return got[:300]
    got, want = read_value(got.split()), read_value(want.split())
    if op == "Cholesky":  # where there is no factor, formats do not say what is above the diagonal
        got.array, want.array = np.tril(got.array), np.tril(want.array)
    if op == "HardSwish":  # of -inf MindSpore makes 0
        got.array = np.where(np.isnan(want.array), np.nan, got.array).astype(got.array.dtype)
    return differ(got, want, op in ("Conv2D", "Fft"))


def main():
    server, form, tap = sys.argv[1], sys.argv[2], Tap()
    most = int(sys.argv[3])
    only = sys.argv[4] if len(sys.argv) > 4 else None
    rng = np.random.default_rng(int(os.environ.get("SEED", "7")))
    todo = [(op["name"], line, case) for op in table(server) if op["sample"] and (not only or only == op["name"])
            for line, case in some(lines_of(op, rng), most) + special(op, rng)]
    lines = [line for _, line, _ in todo]
    want, _ = ask(server, lines)
    got, r = ask(server, lines, "--" + form)
    if len(got) != len(lines):
        tap.case("the server answers", f"status {r.returncode} at {lines[len(got)][:300]}\n{r.stderr[-2000:]}")
        tap.done()
    found, refused = {}, 0
    for (name, line, case), g, w in zip(todo, got, want):
        problem = compare(name, g, w)
        refused += g.startswith(REFUSED)
        found.setdefault(name, [])
        if problem:
            found[name].append(f"{case}: {problem}\n  {line[:300]}")
    for name, problems in found.items():
        tap.case(f"{name}", "\n".join(problems[:3]))
    print(f"# {refused} of {len(lines)} cases have no form in .{form}")
    tap.done()


if __name__ == "__main__":
    main()
