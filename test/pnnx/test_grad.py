#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gradients of models by their inputs and all weights, against finite differences in f64. test_grad.py ANFORA"""
import os
import re
import tempfile
import zipfile

import numpy as np

from model import FIXTURES, Tap, anfora

TAP = Tap()
RNG = np.random.default_rng(11)


def widened(stem):
    """The model in f64: what PyTorch trained in f32 has too few digits for differences."""
    with open(stem + ".pnnx.param", encoding="utf-8") as f:
        text = f.read()
    with open("m.pnnx.param", "w", encoding="utf-8") as f:
        f.write(text.replace(")f32", ")f64"))
    with zipfile.ZipFile(stem + ".pnnx.bin") as z, zipfile.ZipFile("m.pnnx.bin", "w") as out:
        for key in z.namelist():
            out.writestr(zipfile.ZipInfo(key), np.frombuffer(z.read(key), "f4").astype("f8").tobytes())
    weights = {}
    with zipfile.ZipFile("m.pnnx.bin") as z:
        for line in text.splitlines()[2:]:
            for key, dims in re.findall(r" @(\S+)=\(([\d,]+)\)f32", line):
                name = f"{line.split()[1]}.{key}"
                weights[name] = np.frombuffer(z.read(name), "f8").reshape([int(d) for d in dims.split(",")])
    return weights


def program():
    """The model as text, and a loss of it."""
    r = anfora("import", "--weights", "m.pnnx.param", "-o", "m.ir")
    if r.returncode:
        return r.stderr
    with open("m.ir", encoding="utf-8") as f:
        text = f.read()
    parameters = re.search(r"def main\((.*)\) ->", text).group(1)
    names = re.findall(r"(`[^`]+`|\w+): f64\[", parameters)
    with open("loss.ir", "w", encoding="utf-8") as f:
        f.write(text + f"\ndef loss({parameters}) -> f64 {{ return Sum(Sin(main({', '.join(names)}))) }}\n")
    return ""


def loss(arrays):
    words = []
    for i, a in enumerate(arrays):
        np.save(f"a{i}.npy", a)
        words.append(f"@a{i}.npy")
    r = anfora("run", "loss.ir:loss", *words, "-o", "loss.npy")
    return (float(np.load("loss.npy")), "") if r.returncode == 0 else (0.0, r.stderr)


def gradients(arrays):
    words = [f"@a{i}.npy" for i in range(len(arrays))]
    r = anfora("run", "loss.ir:loss", "--grad", "--wrt", ",".join(str(i) for i in range(len(arrays))), *words, "-o", "g.npy")
    if r.returncode:
        return [], r.stderr
    return [np.load(f"g.{i}.npy") for i in range(len(arrays))], ""


def check(stem):
    name = os.path.basename(stem)
    weights = widened(stem)
    arrays, names = [np.load(stem + ".in0.npy").astype("f8"), *weights.values()], ["the input", *weights]
    problem = program() or loss(arrays)[1]
    got, why = gradients(arrays)
    if problem or why:
        return TAP.case(f"gradient of {name}", problem or why)
    for i, g in enumerate(got):
        way = RNG.standard_normal(arrays[i].shape)
        have = float(np.sum(g * way))
        bound = 1e-5 * max(abs(have), np.linalg.norm(g) * 1e-2, 1e-2)
        wants = []
        for step in (1e-5, 1e-7):  # a short one steps over fewer kinks of Relu, a long one loses fewer digits
            h = step / max(1.0, np.linalg.norm(way))
            sides = [loss([a + s * h * way if k == i else a for k, a in enumerate(arrays)])[0] for s in (1, -1)]
            wants.append((sides[0] - sides[1]) / (2 * h))
            if abs(have - wants[-1]) <= bound:
                break
        good = abs(have - wants[-1]) <= bound
        TAP.case(f"gradient of {name} by {names[i]}", "" if good else f"{have} is not {wants}")
    return None


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    os.environ["ANFORA_CACHE"] = os.path.join(folder, "cache")  # a loss is compiled once, not for each difference
    stems = [os.path.join(FIXTURES, n) for n in ("mlp", "enc", "resnet")]
    for s in stems:
        check(s)
    os.chdir("/")
TAP.done()
