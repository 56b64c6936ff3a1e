#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run.py ANFORA FOLDER [--floor FILE] [--filter WORD] [--engines interp,llvm]: the cases that make.py wrote, run by the command in the interpreter and compiled; of training steps
the parameters after one, of networks with gradients these, what training does to them, and the way through .dat and back. Prints what fails and
why, then the scores; status 1 below the floors."""
import argparse
import collections
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np

BOUND, GRADIENT = 2e-5, 1e-4


def numbers(v):
    if isinstance(v, dict):
        return [y for x in v.values() for y in numbers(x)]
    if isinstance(v, list):
        return [y for x in v for y in numbers(x)]
    return [float(v)]


def files(stem, what):
    return sorted(glob.glob(f"{stem}.{what}[0-9]*.npy"), key=lambda p: int(re.search(r"(\d+)\.npy$", p).group(1)))


def flat(arrays):
    return np.concatenate([np.asarray(a).astype(float).ravel() for a in arrays] or [np.zeros(0)])


def call(anfora, words):
    r = subprocess.run([anfora, "run", *words, "--json"], capture_output=True, text=True, check=False, timeout=120)
    return r.returncode, r.stdout, r.stderr


def differs(got, want, bound):
    got = np.array(got)
    if got.shape != want.shape:
        return f"{got.size} numbers instead of {want.size}"
    both = np.isnan(got) & np.isnan(want) | (got == want)
    far = np.where(both, 0.0, np.abs(np.where(both, 0.0, got - want)) / (1 + np.abs(np.where(both, 0.0, want))))
    worst = np.max(far, initial=0.0)
    return "" if worst <= bound else f"differs by {worst:g}"


def one(anfora, stem, engine):
    step = os.path.exists(stem + ".after.npz")
    want = [np.load(p) for p in files(stem, "out")]
    entry = "step" if step else "main"
    status, out, err = call(anfora, [f"{stem}.mindir:{entry}", *("@" + p for p in files(stem, "in")), "--backend", engine])
    if status:
        said = (out + err).strip().splitlines()
        return next((line for line in said if re.search(r"[EW]\d{4}", line)), said[-1] if said else f"status {status}")[:200]
    if step:
        names = json.loads(call(anfora, [stem + ".mindir:params", "--backend", "interp"])[1])["result"]
        with np.load(stem + ".after.npz") as after:
            want = [after[n] for n in names] + want
    half = any(a.dtype == np.float16 for a in want)
    return differs(numbers(json.loads(out)["result"]), flat(want), 2e-3 if half else BOUND)


def said(r):
    return (r.stdout + r.stderr).strip()[-200:] or f"status {r.returncode}"


def printed(anfora, stem):
    return subprocess.run([anfora, "print", stem + ".mindir"], capture_output=True, text=True, check=False).stdout


def gradients(anfora, stem, engine, folder):
    """Of the sum of the result's elements, each times the cosine of its place."""
    source, inputs = os.path.join(folder, "g.anf"), files(stem, "in")
    xs = ", ".join(f"x{k}" for k in range(len(inputs)))
    n = int(np.load(files(stem, "out")[0]).size)
    net = f"m.net(p, {xs})" + ("[1]" if "def step(" in printed(anfora, stem) else "")  # beside new averages
    with open(source, "w", encoding="utf-8") as f:
        f.write(f'import "{stem}.mindir" as m\n'
                f"def loss(p, {xs}) {{ Sum(Reshape({net}, ({n},)) * Cast(Cos(Arange({n})), dtype=f32)) }}\n"
                f"def slopes({xs}) {{ grad(loss)(m.params(), {xs}) }}\n")
    status, out, err = call(anfora, [source + ":slopes", *("@" + p for p in inputs), "--backend", engine, "--imports", os.path.dirname(stem)])
    if status:
        return (out + err).strip()[-200:]
    got = json.loads(out)["result"]
    with np.load(stem + ".grad.npz") as want:
        missing = set(want) - set(got)
        return f"no {missing}" if missing else differs(numbers([got[n] for n in want]), flat([want[n] for n in want]), GRADIENT)


def trained(anfora, stem, folder):
    """By the command, towards twice its own result, where a row of an input is a row of the result: the loss falls."""
    data, inputs, out = os.path.join(folder, "d.npz"), [np.load(p) for p in files(stem, "in")], np.load(files(stem, "out")[0])
    rows = len(out)
    if any(len(x) != rows for x in inputs):
        return ""
    text = printed(anfora, stem)
    names = re.findall(r"(\w+): ", re.search(r"^def main\((.*)\)", text, re.M).group(1))
    names.append("target" if "y" in names else "y")
    np.savez(data, **{name: np.concatenate([x] * 4) for name, x in zip(names, [*inputs, 2 * out])})
    r = subprocess.run([anfora, "train", stem + ".mindir", "--loss", "mse", "--optimizer", "adam", "--rate", "0.003", "--data", data, "--epochs", "4",
                        "--batch", str(rows)], capture_output=True, text=True, check=False, timeout=240)
    losses = [float(x) for x in re.findall(r"loss (\S+)", r.stdout)]
    return "" if len(losses) == 4 and losses[-1] < losses[0] else said(r)


def goes_back(anfora, stem, engine, folder):
    """Through .dat to .mindir: the same values, and from the second file on the same bytes."""
    source, bytes_ = stem + ".mindir", []
    for k in (1, 2, 3):
        for name in (f"{k}.dat", f"{k}.mindir"):
            r = subprocess.run([anfora, "import", source, "-o", os.path.join(folder, name)], capture_output=True, text=True, check=False)
            if r.returncode:
                return said(r)
            source = os.path.join(folder, name)
        with open(source, "rb") as f:
            bytes_.append(f.read())
    status, out, err = call(anfora, [source + ":main", *("@" + p for p in files(stem, "in")), "--backend", engine])
    if status:
        return (out + err).strip()[-200:]
    problem = differs(numbers(json.loads(out)["result"]), flat([np.load(p) for p in files(stem, "out")]), BOUND)
    return problem or ("" if bytes_[1] == bytes_[2] else "the third file differs from the second")


def network(anfora, stem, engine):
    with tempfile.TemporaryDirectory() as folder:
        found = {"gradients": gradients(anfora, stem, engine, folder), "back": goes_back(anfora, stem, engine, folder)}
        if engine == "llvm":
            found["training"] = trained(anfora, stem, folder)
    return "; ".join(f"{what}: {why}" for what, why in found.items() if why)


def case(anfora, stem, engine):
    return one(anfora, stem, engine) or (network(anfora, stem, engine) if os.path.exists(stem + ".grad.npz") else "")


def main():
    a = argparse.ArgumentParser()
    a.add_argument("anfora")
    a.add_argument("folder")
    a.add_argument("--floor")
    a.add_argument("--filter", default="")
    a.add_argument("--engines", default="interp,llvm")
    o = a.parse_args()
    stems = [p[: -len(".mindir")] for p in sorted(glob.glob(os.path.join(os.path.abspath(o.folder), f"*{o.filter}*.mindir")))]
    good, reasons = collections.Counter(), []
    for engine in o.engines.split(","):
        with ThreadPoolExecutor(2) as pool:
            found = list(pool.map(lambda s: case(o.anfora, s, engine), stems))
        good[engine] = found.count("")
        reasons += [(os.path.basename(s), engine, why) for s, why in zip(stems, found) if why]
    for name, engine, why in reasons:
        print(f"{name} {engine}: {why}")
    print(f"{len(stems)} cases: " + ", ".join(f"{n} {engine}" for engine, n in good.items()))
    if o.floor:
        with open(o.floor, encoding="utf-8") as f:
            floor = json.load(f)
        return any(good[engine] < floor[engine] for engine in floor)
    return 0


if __name__ == "__main__":
    sys.exit(main())
