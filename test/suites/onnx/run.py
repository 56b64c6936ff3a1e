#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run.py ANFORA FOLDER [--backend interp,llvm] [--filter WORD]: the cases that make.py wrote, each run by the command
and compared by dtype, shape and the case's own tolerances. Prints what fails and why as cases end, a line for each hundred, and a score
for each engine; with --floor FILE status 1 if a score is below the floor in that file. --resume FILE keeps what has ended: a run that
was stopped goes on from there, and FILE must go when the command or the cases change."""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed

import numpy as np


def literal(x):
    if x.dtype == bool:
        return str(x.tolist()).lower()
    return str(x.tolist()).replace("None", "nan")


SHORT = {"float32": "f32", "float64": "f64", "float16": "f16", "int64": "i64", "int32": "i32", "int8": "i8", "uint8": "u8", "bool": "bool"}


def argument(d, folder, inside=False):
    """A value as an argument of the command; inside of a sequence without files."""
    if d["kind"] == "none":
        return "None"
    if d["kind"] == "sequence":
        items = [argument(i, folder, True) for i in d["items"]]
        return "(" + ", ".join(items) + ("," if len(items) == 1 else "") + ")"
    if d["kind"] != "tensor":
        raise ValueError("a " + d["kind"])
    path = os.path.join(folder, d["file"])
    if not os.path.exists(path):
        raise ValueError("a tensor of " + d["dtype"])
    if d["dtype"] == "bfloat16":
        x = np.load(path)
        return f"bf16{list(x.shape)}({literal(x)})" if x.ndim else f"bf16({literal(x)})"
    if inside:
        x = np.load(path)
        short = SHORT[d["dtype"]]
        return f"{short}{list(x.shape)}({literal(x)})" if x.ndim else f"{short}({literal(x)})"
    return "@" + path


def leaves(ds):
    return [y for d in ds for y in (leaves(d["items"]) if d["kind"] == "sequence" else [d])]


def same(got, d, info, folder):
    """Why a result is not the expected one, or nothing."""
    want = np.load(os.path.join(folder, d["file"]))
    if d["dtype"] != "bfloat16" and got.dtype != want.dtype:
        return f"{got.dtype} instead of {want.dtype}"
    if got.shape != want.shape:
        return f"shape {got.shape} instead of {want.shape}"
    a, b = got.astype(complex if want.dtype.kind == "c" else float), want.astype(complex if want.dtype.kind == "c" else float)
    if want.dtype.kind in "biu" and d["dtype"] not in ("int8", "uint8"):
        return "" if np.array_equal(got, want) else "other values"
    good = np.isclose(a, b, rtol=info["rtol"], atol=info["atol"], equal_nan=True)
    return "" if good.all() else f"differs by {np.max(np.abs(a - b)[~good], initial=0):g}"


def json_result(r, outs, info, folder):
    """bf16 has no form in .npy, nor tuples inside of tuples: the numbers of the JSON."""
    result = json.loads(r.stdout)["result"]
    pairs = []
    for x, d in zip([result] if len(outs) == 1 else result, outs):
        if d["kind"] == "sequence" and len(x) != len(d["items"]):
            return f"{len(x)} items instead of {len(d['items'])}"
        pairs += zip(x, d["items"]) if d["kind"] == "sequence" else [(x, d)]
    for x, d in pairs:
        want = np.load(os.path.join(folder, d["file"]))
        why = same(np.array(x, dtype=float).astype(want.dtype).reshape(want.shape), d, info, folder)
        if why:
            return why
    return ""


def one(anfora, folder, backend):
    with open(os.path.join(folder, "case.json"), encoding="utf-8") as f:
        info = json.load(f)
    try:
        args = [argument(d, folder) for d in info["in"]]
    except ValueError as e:
        return info["four"], f"the input is {e}"
    outs = leaves(info["out"])
    with tempfile.TemporaryDirectory() as tmp:
        out = os.path.join(tmp, "out.npy")
        nested = len(info["out"]) > 1 and any(d["kind"] == "sequence" for d in info["out"])
        text = nested or any(d.get("dtype") == "bfloat16" for d in outs)
        try:
            r = subprocess.run([anfora, "run", os.path.join(folder, "model.onnx:main"), *args, "--backend", backend, *(["--json"] if text else ["-o", out])],
                               capture_output=True, text=True, check=False, timeout=120)
        except subprocess.TimeoutExpired:
            return info["four"], "runs for more than two minutes"
        if r.returncode:
            first = [line for line in r.stderr.splitlines() if "error" in line] or r.stderr.splitlines()[-1:]
            first = first or [r.stdout[:200] or f"status {r.returncode}"]  # errors are part of --json
            return info["four"], ("CRASH " if r.returncode < 0 or r.returncode > 4 else "") + "; ".join(first)[:300]
        if text:
            return info["four"], json_result(r, info["out"], info, folder)
        files = [out] if os.path.exists(out) else [os.path.join(tmp, f"out.{i}.npy") for i in range(len(outs))]
        if len(files) != len(outs):
            return info["four"], "another number of results"
        for path, d in zip(files, outs):
            if not os.path.exists(path):
                return info["four"], f"no result {os.path.basename(path)}: {os.listdir(tmp)} {r.stdout[:100]}"
            why = same(np.load(path), d, info, folder) if d["kind"] == "tensor" else "a result that is " + d["kind"]
            if why:
                return info["four"], why
    return info["four"], ""


def ended(resume):
    """What an earlier run wrote: (backend, case) -> (of four dtypes, why it fails)."""
    if not resume or not os.path.exists(resume):
        return {}
    with open(resume, encoding="utf-8") as f:
        rows = [json.loads(line) for line in f if line.endswith("\n")]  # the last line may have been cut
    return {(backend, name): (four, why) for backend, name, four, why in rows}


def results_of(o, names, backend):
    """(of four dtypes, why it fails or nothing) of each case, in the order in which they end."""
    known = ended(o.resume)
    results = [known[backend, n] for n in names if (backend, n) in known]
    for n in names:
        if known.get((backend, n), (0, ""))[1]:
            print(f"{backend} {n}: {known[backend, n][1]}")
    with ThreadPoolExecutor(o.jobs) as pool, open(o.resume or os.devnull, "a", encoding="utf-8") as done:
        runs = {pool.submit(one, o.anfora, os.path.join(o.folder, n), backend): n for n in names if (backend, n) not in known}
        for run in as_completed(runs):
            four, why = run.result()
            results.append((four, why))
            done.write(json.dumps([backend, runs[run], four, why]) + "\n")
            done.flush()
            if why:
                print(f"{backend} {runs[run]}: {why}", flush=True)
            if len(results) % 100 == 0:
                print(f"{backend}: {len(results)} of {len(names)} cases, {sum(not w for _, w in results)} good", flush=True)
    return results


def main():
    p = argparse.ArgumentParser()
    p.add_argument("anfora")
    p.add_argument("folder")
    p.add_argument("--backend", default="interp,llvm")
    p.add_argument("--filter", default="")
    p.add_argument("--floor")
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--resume")
    o = p.parse_args()
    names = sorted(n for n in os.listdir(o.folder) if o.filter in n and os.path.exists(os.path.join(o.folder, n, "case.json")))
    floor = json.load(open(o.floor, encoding="utf-8")) if o.floor else {}
    below = False
    for backend in o.backend.split(","):
        results = results_of(o, names, backend)
        four = [why for is_four, why in results if is_four]
        score = {"four": sum(not w for w in four), "all": sum(not w for _, w in results)}
        print(f"{backend}: {score['four']} of {len(four)} cases of four dtypes, {score['all']} of {len(results)} of all")
        for key, least in floor.get(backend, {}).items():
            if score[key] < least:
                below = True
                print(f"{backend}: {score[key]} is below the floor of {least} ({key})")
    sys.exit(below)


main()
