#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models that pnnx wrote give what PyTorch gave, and are written back byte by byte. A folder in ANFORA_PNNX_MODELS
holds further ones. test_models.py ANFORA"""
import glob
import os
import tempfile

import numpy as np

from model import FIXTURES, Tap, anfora, differ, run

TAP = Tap()


def lost():
    """Outputs that pnnx lost."""
    with open(os.path.join(FIXTURES, "lost.txt"), encoding="utf-8") as f:
        words = [line.split() for line in f if not line.startswith("#")]
    return {(model, int(output)) for model, output in words}


LOST = lost()


def arrays(stem, what):
    """Beside the model, or in one file."""
    n = 0
    if os.path.exists(stem + ".npz"):
        with np.load(stem + ".npz") as z:
            return [z[f"{what}{i}"] for i in range(len([k for k in z.files if k.startswith(what)]))]
    while os.path.exists(f"{stem}.{what}{n}.npy"):
        n += 1
    return [np.load(f"{stem}.{what}{i}.npy") for i in range(n)]


def gives(param, *options, bound=1e-5):
    stem = param[: -len(".pnnx.param")]
    name = os.path.basename(stem)
    got, want = run(param, arrays(stem, "in"), *options), arrays(stem, "out")
    case = " ".join([name, *options])
    if isinstance(got, str):
        return TAP.skip(case, "the compiler lacks an op") if "E0970" in got else TAP.case(case, got)
    problems = [f"{len(got)} outputs, not {len(want)}"] if len(got) != len(want) else []
    problems += [f"output {k}: {differ(g, w, bound)}" for k, (g, w) in enumerate(zip(got, want)) if (name, k) not in LOST and differ(g, w, bound)]
    return TAP.case(case, "\n".join(problems))


def same(a, b):
    with open(a, "rb") as f, open(b, "rb") as g:
        return f.read() == g.read()


def comes_back(param):
    name = os.path.basename(param)[: -len(".pnnx.param")]
    r = anfora("import", param, "-o", "back.param")
    good = r.returncode == 0 and same(param, "back.param") and same(param[: -len("param")] + "bin", "back.bin")
    TAP.case(f"{name} is written back byte by byte", "" if good else r.stderr + "the files differ")


def imports(param):
    """As .dat it gives the same as the model itself."""
    stem = param[: -len(".pnnx.param")]
    r = anfora("import", param, "-o", "m.dat")
    direct, saved = run(param, arrays(stem, "in")), run("m.dat", arrays(stem, "in"))
    good = r.returncode == 0 and not isinstance(direct, str) and not isinstance(saved, str) and len(direct) == len(saved)
    good = good and all(a.tobytes() == b.tobytes() for a, b in zip(direct, saved))
    TAP.case(f"{os.path.basename(stem)} imported", "" if good else f"{r.stderr}\n{direct}\n{saved}")


def debug(param, *options):
    stem = param[: -len(".pnnx.param")]
    words = [f"@{stem}.in{i}.npy" for i in range(len(arrays(stem, "in")))]
    r = anfora("run", param, *words, "--debug", "-o", "debug.npy", *options)
    lines = r.stderr.splitlines()
    good = r.returncode == 0 and len(lines) == 8 and "nn.LayerNorm" in lines[5] and "mean" in lines[5]
    TAP.case(" ".join(["--debug tells what each operator gave", *options]), "" if good else r.stderr)


def view(param):
    r = anfora("view", param, "-o", "v.dot")
    dot = ""
    if os.path.exists("v.dot"):
        with open("v.dot", encoding="utf-8") as f:
            dot = f.read()
    TAP.case("a model is drawn", "" if r.returncode == 0 and "Softmax" in dot and "MatMul" in dot else r.stderr + dot)


def wide():
    """One operator of 40000 inputs, each with its key and its shape: time is linear in the line, too."""
    n = 40000
    text = ["pnnx.Input i 0 1 x #x=(1)f32"] + [f"nn.ReLU r{i} 1 1 x y{i}" for i in range(n)]
    names = [f"y{i}" for i in range(n)]
    text += [f"torch.cat c {n} 1 {' '.join(names)} z dim=0 {' '.join(f'#{s}=(1)f32' for s in names)}", "pnnx.Output o 1 0 z"]
    with open("wide.param", "w", encoding="utf-8") as f:
        f.write(f"7767517\n{len(text)} {n + 2}\n" + "\n".join(text) + "\n")
    r = anfora("import", "wide.param", "-o", "wide.dat")
    TAP.case("an operator of 40000 inputs", "" if r.returncode == 0 else r.stderr[:300])


def main():
    models = sorted(glob.glob(os.path.join(FIXTURES, "*.pnnx.param")))
    models += sorted(glob.glob(os.path.join(os.environ.get("ANFORA_PNNX_MODELS", "/nowhere"), "*.pnnx.param")))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for param in models:
            gives(param)
            comes_back(param)
            imports(param)
        for param in sorted(glob.glob(os.path.join(FIXTURES, "ops", "*.param"))):  # in single precision bicubic weights differ
            gives(param, bound=3e-5)
            comes_back(param)
            gives(param, "--backend", "llvm", bound=3e-5)
        for backend in ("tir", "llvm", "cjit"):  # test_runtime.c has all models
            gives(os.path.join(FIXTURES, "share.pnnx.param"), "--backend", backend)
            debug(os.path.join(FIXTURES, "mlp.pnnx.param"), "--backend", backend)
        view(os.path.join(FIXTURES, "enc.pnnx.param"))
        wide()
        debug(os.path.join(FIXTURES, "mlp.pnnx.param"))
        os.chdir("/")
    TAP.done()


main()
