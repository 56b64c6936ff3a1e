#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Batching rules against lanes computed one by one, on the cases of op.def's .sample column: vmap_check.py OP_SERVER

Each case is batched in every operand alone and in all, for 3, 1 and 0 lanes, with lanes whose number is not
known, with dims that are not known, and twice, one axis outside the other. The result must be the stack of what
the op gives lane by lane: equal, or as near as ULPS says where a rule is made of other ops."""
import os
import re
import subprocess
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from numpy_check import (Tensor, arguments, attr_text, parse_case, read_value, table, text_of,  # noqa: E402
                         ulp_distance, values)
from tap import Tap  # noqa: E402

# (units in the last place, absolute error in units of the result's largest element's precision)
ULPS = {"BatchNorm": 64, "LayerNorm": 64, "RMSNorm": 64, "GroupNorm": 64, "InstanceNorm": 64, "Linear": 64,
        "Conv1D": 64, "Conv2D": 64, "Conv3D": 64, "ConvTranspose1D": 64, "ConvTranspose2D": 64,
        "ConvTranspose3D": 64, "Dropout": 4, "MatMul": 4, "Einsum": 4, "Attention": 64}
EPS = {"f16": 2.0**-10, "bf16": 2.0**-7, "f32": 2.0**-23, "f64": 2.0**-52, "c64": 2.0**-23, "c128": 2.0**-52}


def redrawn(arg, spec, rng):
    """Other values of the same type and shape."""
    if arg is None:
        return None
    if isinstance(arg, tuple):
        return tuple(redrawn(a, s, rng) for a, s in zip(arg, spec))
    return values(rng, arg.dtype, arg.array.shape, spec)


def flat(op, args):
    out = []
    for k, a in enumerate(args):
        last = k == len(args) - 1
        out += list(a) if isinstance(a, tuple) and op["in"].endswith("*") and last else [a]
    return out


def stack(tensors, lead):
    a = np.stack([t.array for t in tensors]) if tensors else np.zeros((0,))
    t = Tensor.__new__(Tensor)
    t.dtype, t.array = tensors[0].dtype, a.reshape(lead + tensors[0].array.shape)
    return t


def empty_like(t):
    e = Tensor.__new__(Tensor)
    e.dtype, e.array = t.dtype, np.zeros((0,) + t.array.shape, t.array.dtype)
    return e


def variants(n, brief):
    """(flags, lanes, mode) to try for n operands."""
    alone = [[i == k for i in range(n)] for k in range(n)] if n > 1 else []
    every = [True] * n
    for flags in [every] + alone:
        yield flags, 3, "c"
        if brief and flags is not every:
            continue
        yield flags, 2, "s"
        yield flags, 2, "d"
    yield every, 1, "c"
    yield every, 0, "c"
    yield every, 6, "cn"
    for flags in [] if brief else alone:
        yield flags, 6, "cn"


class Case:
    def __init__(self, op, name, attrs, sets, flags, lanes, mode):
        self.name, self.lanes, self.mode = name, lanes, mode
        self.decides_rank = op["name"] == "Squeeze" and "axis" not in attrs
        given = "".join(f" {k}={attr_text(v)}" for k, v in attrs.items())
        head = f"{op['name']}{given} | "
        lead = (2, 3) if "n" in mode else (lanes,)
        batched = [[s[i] for s in sets[:max(lanes, 1)]] for i in range(len(flags))]
        args = []
        for i, f in enumerate(flags):
            one = sets[0][i]
            args.append(one if not f else stack(batched[i], lead) if lanes else empty_like(one))
        bits = "".join("1" if f else "0" for f in flags)
        self.line = f"{head}{bits}{mode} " + " ".join(text_of(a) for a in args)
        self.single = [head + " ".join(text_of(s[i] if flags[i] else sets[0][i]) for i in range(len(flags)))
                       for s in sets[:max(lanes, 1)]]
        self.what = f"{name} [{bits} {lanes}{mode}]"


def cases_of(op, rng):
    for text in op["sample"].split(";"):
        specs, attrs = parse_case(text.strip())
        for attempt in range(8):
            args = arguments(specs, rng, attempt)
            if args is None:
                break
            if attempt in (3, 5) and op["scalar"] == "1":
                continue
            sets = [flat(op, args)] + [flat(op, [redrawn(a, s, rng) for a, s in zip(args, specs)]) for _ in range(5)]
            n = len(sets[0])
            if any(isinstance(a, tuple) for a in sets[0]) or n == 0:
                continue
            for flags, lanes, mode in variants(n, op["scalar"] == "1"):
                flags = [f and a is not None for f, a in zip(flags, sets[0])]
                if any(flags):
                    yield Case(op, text.strip(), attrs, sets, flags, lanes, mode)


def differ(got, want, ulps):
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
        if ulps:
            finite = np.abs(w[np.isfinite(w)])
            room = ulps * EPS[got.dtype] * max(1.0, float(finite.max(initial=0)))
            bad &= ~(np.abs(a.astype(np.float64) - w) <= room)
    if not np.any(bad):
        return ""
    i = tuple(x[0] for x in np.nonzero(np.atleast_1d(bad)))
    return f"at {i}: {np.atleast_1d(a)[i]!r} for {np.atleast_1d(w)[i]!r} ({int(np.sum(bad))} differ)"


def compare(got, lanes, case, ulps):
    """`lanes`: what each gives."""
    if isinstance(lanes[0], tuple):
        parts = [[x[k] for x in lanes] for k in range(len(lanes[0]))]
        return "; ".join(filter(None, (compare(g, p, case, ulps) for g, p in zip(got, parts))))
    if lanes[0] is None or got is None:
        return ""
    lead = (2, 3) if "n" in case.mode else (case.lanes,)
    axes = got.array.ndim - lanes[0].array.ndim  # fewer than lead: the same for all lanes of the others
    if case.lanes == 0:
        return "" if got.array.shape == lead[:axes] + lanes[0].array.shape else f"shape {got.array.shape}"
    if any(x.array.shape != lanes[0].array.shape for x in lanes):
        return ""  # a slice that starts where the lane says has no batch
    wide = Tensor.__new__(Tensor)
    wide.dtype, wide.array = got.dtype, np.broadcast_to(got.array, lead[:len(lead) - axes] + got.array.shape)
    return differ(wide, stack(lanes, lead), ulps)


def ask(server, lines, *words):
    r = subprocess.run([server, *words], input="\n".join(lines) + "\n", capture_output=True, text=True, check=False)
    return r.stdout.splitlines(), r


def check(op, case, answer, single):
    if any(s.startswith("error") for s in single) or ("d" in case.mode and case.decides_rank):
        return ""
    if answer.startswith("error"):
        unknown = "d" in case.mode and re.match(r"error E05\d\d", answer)  # dims that decide types
        unknown = unknown or case.lanes == 0 and "E0404" in answer  # no lane that could tell the shape
        ragged = len({re.search(r"\[.*?\]", s)[0] for s in single if "[" in s}) > 1
        return "" if unknown or ragged else answer[:200]
    return compare(read_value(answer.split()), [read_value(s.split()) for s in single], case,
                   ULPS.get(op["name"], 0))


def main():
    server = sys.argv[1]
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else None
    tap, rng = Tap(), np.random.default_rng(11)
    todo = []
    for op in table(server):
        if op["sample"] and (not only or re.fullmatch(only, op["name"])):
            todo.append((op, list(cases_of(op, rng))))
    lines = [c.line for _, cs in todo for c in cs]
    single = [s for _, cs in todo for c in cs for s in c.single]
    got, died = ask(server, lines, "--vmap")
    want, _ = ask(server, single)
    if len(got) < len(lines):
        tap.case("the server answers", f"stopped at {lines[len(got)][:300]}: {died.stderr[-300:]}")
    at = lane = 0
    for op, cs in todo:
        problems = []
        for c in cs[:max(0, len(got) - at)]:
            p = check(op, c, got[at], want[lane:lane + len(c.single)])
            at, lane = at + 1, lane + len(c.single)
            if p:
                problems.append(f"{c.what}: {p}")
        tap.case(op["name"], "\n".join(problems[:5]) + (f"\n{len(problems)} of {len(cs)}" if problems else ""))
    tap.done()


if __name__ == "__main__":
    main()
