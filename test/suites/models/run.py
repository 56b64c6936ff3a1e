#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run.py ANFORA FOLDER [--backend llvm,interp] [--filter WORD] [--forms script,dynamo,pnnx] [--floor FILE] [--table FILE]: the networks
that make.py wrote, each form run by the command: torch's outputs to 1e-4 of their greatest number, whole numbers exactly. Prints what
fails and why, and a score for each form; status 1 below a floor."""
import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

FILES = {"script": "script.onnx", "dynamo": "dynamo.onnx", "pnnx": "m.pnnx.param"}


def arrays(folder, stem):
    n = 0
    while os.path.exists(os.path.join(folder, f"{stem}{n}.npy")):
        n += 1
    return [os.path.join(folder, f"{stem}{i}.npy") for i in range(n)]


def differs(got, want):
    if got.shape != want.shape:
        return f"shape {got.shape} instead of {want.shape}"
    if got.dtype != want.dtype:
        return f"{got.dtype} instead of {want.dtype}"
    if want.dtype.kind not in "fc":
        return "" if np.array_equal(got, want) else "other numbers"
    if not np.array_equal(np.isfinite(got), np.isfinite(want)):
        return "not finite elsewhere"
    off = np.max(np.abs(got - want), initial=0) / max(np.max(np.abs(want), initial=0), 1e-3)
    return "" if off <= 1e-4 else f"differs by {off:.2g} of the greatest"


def one(anfora, folder, form, backend, seconds):
    """(why it fails or nothing, seconds)"""
    model = os.path.join(folder, FILES[form])
    if not os.path.exists(os.path.join(folder, "done")):
        return "the network was not exported", 0
    if not os.path.exists(model):
        return "not exported", 0
    with tempfile.TemporaryDirectory() as tmp:
        out, t = os.path.join(tmp, "out.npy"), time.time()
        try:
            r = subprocess.run([anfora, "run", model + ":main", *("@" + p for p in arrays(folder, "in")), "--backend", backend, "-o", out],
                               capture_output=True, text=True, check=False, timeout=seconds)
        except subprocess.TimeoutExpired:
            return f"more than {seconds} seconds", seconds
        t = time.time() - t
        if r.returncode:
            lines = [line for line in r.stderr.splitlines() if "error" in line or "note" in line] or r.stderr.splitlines()[-1:]
            return (f"CRASH {r.returncode} " if r.returncode < 0 or r.returncode > 4 else "") + "; ".join(lines)[:600], t
        want = arrays(folder, "out")
        got = [out] if os.path.exists(out) else arrays(tmp, "out.")
        if len(got) != len(want):
            return f"{len(got)} results instead of {len(want)}", t
        for g, w in zip(got, want):
            why = differs(np.load(g), np.load(w))
            if why:
                return why, t
    return "", t


def main():
    p = argparse.ArgumentParser()
    p.add_argument("anfora")
    p.add_argument("folder")
    p.add_argument("--backend", default="llvm")
    p.add_argument("--filter", default="")
    p.add_argument("--forms", default="script,dynamo,pnnx")
    p.add_argument("--seconds", type=int, default=120)
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--floor")
    o = p.parse_args()
    names = sorted(n for n in os.listdir(o.folder) if o.filter in n and os.path.isdir(os.path.join(o.folder, n)))
    floor = json.load(open(o.floor, encoding="utf-8")) if o.floor else {}
    below = False
    for backend in o.backend.split(","):
        for form in o.forms.split(","):
            with ThreadPoolExecutor(o.jobs) as pool:
                results = list(pool.map(lambda n: one(o.anfora, os.path.join(o.folder, n), form, backend, o.seconds), names))
            exported = [r for r in results if r[0] != "not exported"]
            good = sum(not why for why, _ in results)
            for name, (why, t) in zip(names, results):
                print(f"{backend} {form} {name} ({t:.1f} s): {why or 'ok'}")
            print(f"{backend} {form}: {good} of {len(exported)} networks")
            least = floor.get(backend, {}).get(form, 0)
            if good < least:
                below = True
                print(f"{backend} {form}: {good} is below the floor of {least}")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print(f"most memory of a run: {peak // 1024} MB")
    sys.exit(below)


main()
