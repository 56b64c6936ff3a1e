#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Ops as the compiler lowers them against the reference kernels, on the cases of op.def's .sample column.

Both are asked the same lines (op_server with and without --lowered). Equal bit for bit, NaN against any NaN,
unless ULPS or SUMS says otherwise; an error must be an error on both sides. What the compiler does not have is counted
and must be in UNSUPPORTED."""
import os
import re
import subprocess
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from numpy_check import attr_text, cases, read_value, table, text_of, ulp_distance  # noqa: E402
from tap import Tap  # noqa: E402

# functions of floats over elements are the compiler's own (docs/lowering.md)
ULPS = {"Exp": 2, "Log": 2, "Log1p": 2, "Tanh": 2, "Erf": 2, "Erfc": 6, "Gelu": 8, "LogSigmoid": 4, "Mish": 6,
        "Sigmoid": 3, "Silu": 4, "Sin": 2, "Cos": 2, "Tan": 4, "Expm1": 2, "Power": 2,
        "Exp2": 2, "Log2": 2, "Log10": 2, "Sinh": 3, "Cosh": 3, "Asinh": 3, "Acosh": 3, "Atanh": 3, "Cbrt": 1, "Atan": 2, "Atan2": 2,
        "Asin": 3, "Acos": 3, "Hypot": 2,
        "Elu": 2, "Selu": 3, "Celu": 3, "Softplus": 4, "SigmoidCrossEntropy": 256}
# vector code computes in f32 what is computed in double elsewhere: 16 units in the last place of the greatest element, 1 of f16 and bf16
SUMS = ("Conv2D", "Softmax", "LogSoftmax", "LogSumExp", "LayerNorm", "RMSNorm", "GroupNorm", "InstanceNorm", "BatchNorm")
ORDERS = ("Fft",)  # the same of all sizes: sums are made in another order
# sizes of slices that are computed; what the lowering of graphs does itself
UNSUPPORTED = {name: {"f32", "i8"} for name in ("Len", "Rank", "Shape", "Size", "GetField")}
UNSUPPORTED |= {"GetItem": {"f32 i64"}}
# made simple ops of by the pass quantize_inline; test/kernel/quantised_check.py has compiled programs
INLINED = ("Quantize", "Dequantize", "FakeQuantize", "DynamicQuantize")
# sizes at which there is vector code of its own: whole vectors and what is left of them
WINDOWS = ("f32[2,3,9,28]", "f32[1,2,5,17]", "f32[1,2,7,7].", "f64[1,2,6,20].", "f32[1,1,3,61]", "f32[2,1,4,5].", "f16[1,2,5,19]", "bf16[1,2,6,17]", "f16[1,3,9,28].",
           "i32[1,2,5,19]", "f32[1,2,1,33]", "f32[1,2,33,2]")
POOLS = ("kernel=2", "kernel=3 stride=2 padding=1", "kernel=3 stride=1 padding=1", "kernel=(2,5) stride=1 padding=(1,2)",
         "kernel=(1,3) stride=(2,2) padding=(0,1) ceil_mode=true", "kernel=(1,2) stride=3")
LONG = "; ".join(f"{d}[3,{n}]{s} axis=1" for d, s in (("f32", ""), ("f32", "."), ("f64", "."), ("f16", "."), ("bf16", ""),
                                                   ("i8", ""), ("i32", "(0..5)"), ("u8", ""), ("i64", "(0..9)"), ("bool", ""))
                 for n in (64, 77, 160, 1025)) + "; f32[2,3,70]; f32[2,70,3] axis=1; f32[5,66,2] axis=0"


def convolutions(x):
    """Depthwise, and from one and two channels."""
    d, dims, end = re.fullmatch(r"(\w+)\[([\d,]+)\](.*)", x).groups()
    c = int(dims.split(",")[1])
    for w, attrs in (((c, 1, 3, 3), f"padding=1 groups={c}"), ((2 * c, 1, 1, 5), f"stride=(1,2) padding=(0,2) groups={c}"),
                     ((3, c, 1, 3), "padding=(0,3)"), ((c, 1, 1, 3), f"dilation=(1,2) padding=(0,2) groups={c}"),
                     ((c, 1, 2, 3), f"stride=2 padding=((1,0),(2,1)) groups={c}")):
        yield f"{d}[{dims}]{end} {d}[{','.join(map(str, w))}]{end} {attrs}"
        if not end:  # infinite elements, finite weights
            yield f"{d}[{dims}] {d}[{','.join(map(str, w))}]. {attrs}"
        yield f"{d}[{dims}]{end} {d}[{','.join(map(str, w))}]{end} {d}[{w[0]}]{end} {attrs}"


def shaped(dims, attrs="", more="", types=("f32", "f16", "bf16")):
    """Finite elements of each type; in `more` @ is the type."""
    return "; ".join(" ".join(f"{d}[{n}]. {more.replace('@', d)} {attrs}".split()) for n in dims.split() for d in types)


# rows shorter than two vectors, of whole vectors and with a rest, and some longer ones
SHORT = "; ".join(f"{d}[3,{n}]{s} axis=1" for d in ("f32", "f16", "bf16") for s in ("", ".") for n in (8, 11, 16, 31, 49, 63)) \
    + "; f32[2,3,5,7] axis=(2,3); f16[2,9,3,10]. axis=(1,3)"
FOURS = "; ".join(f"{d}[2,{n}]{s} axis=1" for d in ("f32", "f16", "bf16") for s in ("", ".") for n in (128, 195)) + "; bf16[2,3,150]. axis=(0,2); f16[700].; c64[2,3,77] axis=(0,2); c64[100]"
SHORT_PLACES = "; ".join(f"{d}[3,{n}]{s} axis=1" for d, s in (("f32", ""), ("f64", ""), ("f16", ""), ("bf16", ""), ("i8", "(0..5)"), ("i64", "(0..9)"), ("u8", "(0..3)"))
                         for n in (8, 13, 16, 50))
HALVES = "; ".join(f"{d}[75]" for d in ("f16", "bf16"))
PAIRS = "; ".join(f"{d}[75] {d}[75]" for d in ("f16", "bf16"))
EDGES = "f32[6,12]; f16[6,12]; f32[4,70]; bf16[4,70]; f32[2,9,11] axis=1"
NORMS = "9,10 5,33 3,64 2,77 70,16"
# of enough products for vectors, and small enough that each row is read once
PLANES = ("f32[1,24,7,7]", "f32[2,20,5,14].", "f64[1,24,9,7].")
# many small products: of groups, of images
SMALL = "; ".join(f"{d}[{x}]{e} {d}[{w}]. {a}" for d in ("f32", "f64") for e in ("", ".") for x, w, a in (
    ("1,40,3,3", "40,8,3,3", "padding=1 groups=5"), ("16,4,2,2", "4,4,3,3", "padding=1"), ("9,12,3,2", "8,6,3,1", "padding=(1,0) stride=(2,1) groups=2")))
WIDE = {"Conv2D": "; ".join([c for x in WINDOWS[:6] + PLANES for c in convolutions(x)] + [SMALL]),
        "MaxPool2D": "; ".join([f"{x} {a}" for x in WINDOWS for a in POOLS] +
                               ["f32[2,3,9,28] kernel=(9,28)", "f32[1,2,5,17]. kernel=(7,19) padding=1", "i32[1,2,5,19] kernel=(5,19)", "f16[1,2,5,19]. kernel=(5,19)"]),
        "AvgPool2D": "; ".join(f"{x} {a} {e}" for x in WINDOWS for a in POOLS
                               for e in ("", "count_include_pad=false")),
        "MaxPool1D": "f32[1,2,4] kernel=2 stride=1 dilation=9 padding=9; f32[2,3,50] kernel=3 stride=2 dilation=2 padding=1; f32[2,3,50] kernel=3 stride=1 dilation=3 padding=1",
        "MaxPool3D": "f32[1,2,5,6,21] kernel=3 stride=2 padding=1", "AvgPool3D": "f32[1,2,5,6,21]. kernel=3 stride=1 padding=1",
        "Transpose": "; ".join(f"{d}[{s}]" for d in ("f32", "f64", "bf16", "u8", "i16", "bool", "c64")
                               for s in ("64,70", "100,33,2", "9,500", "2,49,48"))
                     + "; f32[2,40,60] axes=(0,2,1); f32[3,9,10,40] axes=(0,3,1,2); i32[3,40,9,10] axes=(0,2,3,1)",
        "SwapAxes": "f32[70,5,40] axis1=0 axis2=2; f64[3,70,65] axis1=-1 axis2=1",
        "Fft": "c128[3,1024].; f32[20,96].; c64[11,34]. inverse=true; f64[2,5,12]. axis=0; c128[300,6,2]. axis=1; f64[2,6000].; c64[2,4999].; f32[3,2,40]. axis=1 inverse=true; c128[1,8192]. inverse=true; f32[9,1,22].; f64[1,350].",
        "TopK": "f32[3,200] k=9; i8[4,70] k=64 largest=false; f64[5,40,3] k=40 axis=1; u8[2,300] k=65; u8[2,300] k=17",
        "ArgMax": LONG + "; " + SHORT_PLACES, "ArgMin": LONG + "; " + SHORT_PLACES, "Max": LONG + "; " + SHORT, "Min": LONG + "; " + SHORT,
        **{name: SHORT for name in ("Prod", "Var", "Std")}, "Mean": SHORT + "; " + FOURS, "Sum": "; ".join((SHORT, FOURS, "c64[3,40] axis=1")),
        **{name: HALVES for name in ("Round", "Floor", "Ceil", "Trunc", "Relu", "Abs", "Sqrt", "IsNan", "Sign")},
        **{name: PAIRS for name in ("Maximum", "Minimum", "Greater", "LessEqual", "Equal", "NotEqual")},
        "Where": "bool[75] f16[75] f16[75]; bool[75] bf16[75] bf16[75]",
        "Cast": "f64[90] dtype=f16; f64[90] dtype=bf16; f64[90](-70000..70000) dtype=f16; i64[90] dtype=bf16; i32[90] dtype=f16; bool[90] dtype=f16",
        "GlobalAvgPool": "f32[2,3,7,7]; f16[2,3,7,7]; bf16[1,5,5,5]; f64[1,3,7,7]",
        "CumSum": shaped("3,70", "axis=1", types=("f16", "bf16")) + "; f16[2,33]. axis=1 reverse=true; bf16[40]. axis=0 exclusive=true",
        "Softmax": shaped(NORMS) + "; " + EDGES + "; " + shaped("2,5,21", "axis=1"), "LogSoftmax": shaped(NORMS) + "; " + EDGES, "LogSumExp": shaped(NORMS, "axis=1"),
        "LayerNorm": shaped("3,70", "", "@[70]. @[70].") + "; " + shaped("5,20", "", "@[20]. @[20]."),
        "RMSNorm": shaped("3,70", "", "@[70].") + "; " + shaped("5,20", "", "@[20]."),
        "GroupNorm": shaped("2,6,5,7", "groups=2", "@[6]. @[6]."), "InstanceNorm": shaped("2,3,9,9", "", "@[3]. @[3]."),
        "BatchNorm": shaped("2,3,9,5", "", "@[3]. @[3]. @[3]. @[3](0..4)", types=("f16", "bf16"))}


def lines_of(op, rng):
    op = op | {"sample": "; ".join(filter(None, (op["sample"], WIDE.get(op["name"]))))}
    for case, args, attrs in cases(op, rng):
        flat = []
        for k, a in enumerate(args):
            flat += list(a) if isinstance(a, tuple) and op["in"].endswith("*") and k == len(args) - 1 else [a]
        given = "".join(f" {k}={attr_text(v)}" for k, v in attrs.items())
        yield f"{op['name']}{given} | " + " ".join(text_of(a) for a in flat), case


def differ(got, want, ulps, summed="", nans=False):
    """`nans`: one may be NaN where the other is a number."""
    if isinstance(want, tuple):
        return "; ".join(filter(None, (differ(g, w, ulps, summed, nans) for g, w in zip(got, want))))
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
        if summed:
            unit = 2.0 ** -8 if got.dtype == "bf16" else float(np.finfo(w.dtype).eps)
            most = np.max(np.abs(w), initial=0, where=np.isfinite(w))
            bad &= (np.abs(a - w) > (1 if got.dtype in ("f16", "bf16") else 16) * unit * most) | (np.isnan(a) != np.isnan(w)) & (not nans)
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
    other = op["name"] in ORDERS or op["name"] in SUMS and case in WIDE[op["name"]].split("; ")
    summed = op["name"] if other or case in FOURS.split("; ") and op["name"] in ("Sum", "Mean") else ""
    padding = op["name"] == "Conv2D" and not case.split()[1].endswith(".")  # padding by infinite weights
    return differ(read_value(got.split()), read_value(want.split()), ULPS.get(op["name"], 0), summed, padding), False


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
        if surprise and name not in INLINED:
            problems.append(f"not compiled: {sorted(surprise)}")
        tap.case(f"{name}: {count[name]} cases", "\n".join(problems[:4]))
    print(f"# {sum(len(v) for v in lacks.values())} kinds of cases in {len(lacks)} ops are not compiled")
    tap.done()


if __name__ == "__main__":
    main()
