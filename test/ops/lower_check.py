#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Ops as the compiler lowers them against the reference kernels, on the cases of op.def's .sample column.

Both are asked the same lines (op_server with and without --lowered). Equal bit for bit, NaN against any NaN,
unless ULPS says otherwise; an error must be an error on both sides. What the compiler does not have is counted
and must be in UNSUPPORTED."""
import os
import re
import subprocess
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from numpy_check import attr_text, cases, read_value, table, text_of, ulp_distance  # noqa: E402
from tap import Tap  # noqa: E402

# functions of f32 over elements are the compiler's own (docs/lowering.md)
ULPS = {"Exp": 2, "Log": 2, "Log1p": 2, "Tanh": 2, "Erf": 2, "Erfc": 6, "Gelu": 8, "LogSigmoid": 4, "Mish": 6,
        "Sigmoid": 3, "Silu": 4, "Sin": 2, "Cos": 2, "Tan": 4, "Expm1": 2,
        "Elu": 2, "Selu": 3, "Celu": 3, "Softplus": 4, "SigmoidCrossEntropy": 256}
# sizes of slices that are computed; what the lowering of graphs does itself
UNSUPPORTED = {name: {"f32", "i8"} for name in ("Len", "Rank", "Shape", "Size", "GetField")}
UNSUPPORTED |= {"GetItem": {"f32 i64"}}


def lines_of(op, rng):
    for case, args, attrs in cases(op, rng):
        flat = []
        for k, a in enumerate(args):
            flat += list(a) if isinstance(a, tuple) and op["in"].endswith("*") and k == len(args) - 1 else [a]
        given = "".join(f" {k}={attr_text(v)}" for k, v in attrs.items())
        yield f"{op['name']}{given} | " + " ".join(text_of(a) for a in flat), case


def differ(got, want, ulps):
    if isinstance(want, tuple):
        return "; ".join(filter(None, (differ(g, w, ulps) for g, w in zip(got, want))))
    if want is None:
        return ""
    a, w = got.array, want.array
    if got.dtype != want.dtype or a.shape != w.shape:
        return f"{got.dtype}{a.shape} for {want.dtype}{w.shape}"
    if a.dtype.kind == "c":
        a, w = (np.ascontiguousarray(np.atleast_1d(x)).view(np.float32 if x.dtype == np.complex64 else np.float64)
                for x in (a, w))
    if a.dtype.kind != "f":
        bad = a != w
    else:
        bad = ulp_distance(a, w) > ulps * (65536 if got.dtype == "bf16" else 1)
        bad |= (a == 0) & (w == 0) & (np.signbit(a) != np.signbit(w)) & (ulps == 0)
    if not np.any(bad):
        return ""
    i = tuple(x[0] for x in np.nonzero(np.atleast_1d(bad)))
    return f"at {i}: {np.atleast_1d(a)[i]!r} for {np.atleast_1d(w)[i]!r} ({int(np.sum(bad))} differ)"


def ask(server, lines, *words):
    r = subprocess.run([server, *words], input="\n".join(lines) + "\n", capture_output=True, text=True, check=False)
    return r.stdout.splitlines(), r


def compare(op, case, got, want):
    """(problem, unsupported?)"""
    if any(code in got for code in ("E0950", "E0953", "E0970")):
        return "", True
    if want.startswith("error"):
        return ("" if got.startswith("error") else f"{want[:60]}; compiled gives {got[:60]}"), False
    if got.startswith("error"):
        return got[:300], False
    return differ(read_value(got.split()), read_value(want.split()), ULPS.get(op["name"], 0)), False


def types_of(case):
    return " ".join(re.findall(r"\b(?:c64|c128|key|[iu]\d+|b?f\d+|bool)\b", case))


def main():
    server = sys.argv[1]
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else None
    tap, rng = Tap(), np.random.default_rng(int(os.environ.get("SEED", "7")))
    todo = []
    for op in table(server):
        if (only and not re.fullmatch(only, op["name"])) or not op["sample"]:
            continue
        todo += [(op, line, case) for line, case in lines_of(op, rng)]
    lines = [line for _, line, _ in todo]
    want, _ = ask(server, lines)
    got, r = ask(server, lines, "--lowered")
    if len(got) != len(lines):
        tap.case("the server answers", f"status {r.returncode} at {lines[len(got)][:300]}\n{r.stderr[-2000:]}")
        tap.done()
    found, lacks, count = {}, {}, {}
    for (op, line, case), g, w in zip(todo, got, want):
        problem, unsupported = compare(op, case, g, w)
        count[op["name"]] = count.get(op["name"], 0) + 1
        found.setdefault(op["name"], [])
        if problem:
            found[op["name"]].append(f"{case}: {problem}" + (f"\n  {line}" if len(line) < 300 else ""))
        if unsupported:
            lacks.setdefault(op["name"], set()).add(types_of(case))
    for name, problems in found.items():
        surprise = lacks.get(name, set()) - UNSUPPORTED.get(name, set())
        if surprise:
            problems.append(f"not compiled: {sorted(surprise)}")
        tap.case(f"{name}: {count[name]} cases", "\n".join(problems[:4]))
    print(f"# {sum(len(v) for v in lacks.values())} kinds of cases in {len(lacks)} ops are not compiled")
    tap.done()


main()
