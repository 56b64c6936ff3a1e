#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run.py ANFORA FOLDER [--backend interp,llvm] [--filter WORD] [--list FILE]: StableHLO files whose main checks its own results with
check.expect_eq, expect_almost_eq and expect_close, each run by the command. Prints what failed, why, and a score for each engine;
with --floor FILE status 1 if a score is below the floor in that file."""
import argparse
import collections
import glob
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor


def outcome(anfora, path, backend):
    try:
        r = subprocess.run([anfora, "run", path + ":main", "--backend", backend], capture_output=True, text=True, check=False, timeout=120)
    except subprocess.TimeoutExpired:
        return "no result in 120 s"
    if r.returncode == 0:
        return ""
    errors = re.findall(r"error (E\d+: .*)", r.stderr)
    return errors[0] if errors else f"status {r.returncode}"


def main():
    p = argparse.ArgumentParser()
    p.add_argument("anfora")
    p.add_argument("folder")
    p.add_argument("--backend", default="interp,llvm")
    p.add_argument("--filter", default="")
    p.add_argument("--list")
    p.add_argument("--floor")
    o = p.parse_args()
    paths = sorted(f for f in glob.glob(os.path.join(glob.escape(o.folder), "*.mlir")) if o.filter in f)
    floor = json.load(open(o.floor, encoding="utf-8")) if o.floor else {}
    lines, bad = [], not paths
    for backend in o.backend.split(","):
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            all_of = list(pool.map(lambda f, b=backend: outcome(o.anfora, f, b), paths))
        failed = [(os.path.basename(f), why) for f, why in zip(paths, all_of) if why]
        lines += [f"{backend}\t{name}\t{why}" for name, why in failed]
        for why, n in collections.Counter(re.sub(r"\d+", "N", why) for _, why in failed).most_common(20):
            print(f"  {n:5} {why}")
        good = len(paths) - len(failed)
        bad |= not o.filter and good < floor.get(backend, 0)
        print(f"{backend}: {good} of {len(paths)}, floor {floor.get(backend, 0)}")
    if o.list:
        with open(o.list, "w", encoding="utf-8") as f:
            f.write("\n".join(lines) + "\n")
    sys.exit(1 if bad else 0)


main()
