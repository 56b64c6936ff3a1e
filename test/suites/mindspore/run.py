#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run.py ANFORA FOLDER [--floor FILE] [--filter WORD] [--engines interp,llvm]: the cases that make.py wrote, run by the command in the interpreter and compiled; of training steps
the parameters after one. Prints what fails and why, then the scores; status 1 below the floors."""
import argparse
import collections
import glob
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np

BOUND = 2e-5


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


def main():
    a = argparse.ArgumentParser()
    a.add_argument("anfora")
    a.add_argument("folder")
    a.add_argument("--floor")
    a.add_argument("--filter", default="")
    a.add_argument("--engines", default="interp,llvm")
    o = a.parse_args()
    stems = [p[: -len(".mindir")] for p in sorted(glob.glob(os.path.join(o.folder, f"*{o.filter}*.mindir")))]
    good, reasons = collections.Counter(), []
    for engine in o.engines.split(","):
        with ThreadPoolExecutor(2) as pool:
            found = list(pool.map(lambda s: one(o.anfora, s, engine), stems))
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
