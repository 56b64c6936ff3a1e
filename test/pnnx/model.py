# SPDX-License-Identifier: Apache-2.0
"""What the tests of PNNX share: running the command, comparing arrays, writing small models."""
import os
import sys
import zipfile

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from command import execute  # noqa: E402
from tap import ROOT, Tap  # noqa: E402, F401

ANFORA = os.path.abspath(sys.argv[1])
FIXTURES = os.path.join(ROOT, "test", "fixtures", "pnnx")
NAMES = {"float32": "f32", "float64": "f64", "int64": "i64", "int32": "i32", "bool": "bool", "complex64": "c64"}


def anfora(*words):
    return execute([ANFORA, *words], timeout=120)


def shape_of(a):
    return f"({','.join(map(str, a.shape))}){NAMES[str(a.dtype)]}"


def write(name, inputs, lines, weights=None, outputs=("out",)):
    """A model of these inputs and operators; weights are {"operator.key": array}, told in the lines."""
    text = [f"pnnx.Input in{i} 0 1 x{i}" + (f" #x{i}={shape_of(x)}" if x.ndim else "") for i, x in enumerate(inputs)]
    text += list(lines)
    text += [f"pnnx.Output o {len(outputs)} 0 {' '.join(outputs)}"]
    operands = sum(int(line.split()[3]) for line in text)
    with open(name + ".pnnx.param", "w", encoding="utf-8") as f:
        f.write(f"7767517\n{len(text)} {operands}\n" + "\n".join(text) + "\n")
    with zipfile.ZipFile(name + ".pnnx.bin", "w") as z:  # 32-bit records, which pnnx wrote once
        for key, a in (weights or {}).items():
            z.writestr(zipfile.ZipInfo(key), np.ascontiguousarray(a).tobytes())


def told(weights, operator):
    """The part of a line that tells an operator's weights."""
    return " ".join(f"@{k[len(operator) + 1:]}={shape_of(a)}" for k, a in weights.items() if k.startswith(operator + "."))


def run(name, inputs, *options):
    """Outputs of a model, or what was said instead."""
    words = []
    for i, x in enumerate(inputs):
        np.save(f"in{i}.npy", x)
        words.append(f"@in{i}.npy")
    for f in os.listdir("."):
        if f.startswith("result"):
            os.remove(f)
    r = anfora("run", name, *words, "-o", "result.npy", *options)
    if r.returncode:
        return r.stdout + r.stderr
    if os.path.exists("result.npy"):
        return [np.load("result.npy")]
    return [np.load(f"result.{i}.npy") for i in range(len([f for f in os.listdir(".") if f.startswith("result.")]))]


def differ(got, want, bound=1e-5, types=True):
    """Why an array is not what it should be, or "". Sums that cancel leave little of what the others have, so the
    bound is of an element, or of a tenth of the greatest."""
    want = np.asarray(want)
    if got.shape != want.shape or (types and got.dtype != want.dtype):
        return f"{got.dtype}{got.shape} is not {want.dtype}{want.shape}"
    if want.dtype.kind not in "fc":
        return "" if np.array_equal(got, want) else f"{got}\nis not\n{want}"
    with np.errstate(all="ignore"):
        scale = np.max(np.abs(want[np.isfinite(want)]), initial=1e-30)
        same = (got == want) | (np.isnan(got) & np.isnan(want))
        error = np.abs(got.astype("c16") - want.astype("c16"))
        bad = ~same & ~(error <= bound * np.maximum(np.abs(want), scale * 0.1))
    return f"{bad.sum()} of {bad.size} elements differ: {got[bad][:3]} is not {want[bad][:3]}" if bad.any() else ""
