#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random tests that go on where they stopped: assure.py BUILD HOURS. Campaigns take turns, a slice of each at a time;
BUILD/assure/state.json holds the next seed and the counts of each, so that the next run makes other programs. What a
slice finds is in BUILD/assure/, with the command that makes it again."""
import json
import os
import signal
import subprocess
import sys
import time

# Campaign: the program under BUILD/test/random, its arguments for a slice that starts at a seed, and how many
# programs that are. The first seeds are far from those of ./dev test.
FIRST = 10_000_000
PARTS = 997  # of the tables, each once: a prime, so that each slice has something of everything
CAMPAIGNS = {
    "programs": ("random_programs", lambda s: ["--programs", "100", "--seed", str(s)], 100),
    "gradients": ("random_gradients", lambda s: ["--programs", "100", "--seed", str(s)], 100),
    "tensors": ("random_tensors", lambda s: ["--programs", "20", "--seed", str(s)], 20),
    "mistakes": ("random_mistakes", lambda s: ["--programs", "100", "--seed", str(s)], 100),
    "transforms": ("random_transforms", lambda s: ["--programs", "300", "--seed", str(s)], 300),
    "sized": ("random_sized", lambda s: ["--programs", "100", "--seed", str(s)], 100),
    "tables": ("engine_tables", lambda s: ["--part", f"{s % PARTS}/{PARTS}"], 1),
}
WHAT = {"programs": "random programs, each with every pass and engine", "gradients": "random programs with gradients",
        "mistakes": "programs with mistakes, each also written in other ways",
        "tensors": "random Tensor IR programs", "transforms": "random functions under vmap and derivatives",
        "sized": "programs with sizes that depend on data", "tables": f"parts of {PARTS} of the tables derived from the op table"}


def read_state(path):
    state = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            state = json.load(f)
    for name in CAMPAIGNS:
        state.setdefault(name, {"next": FIRST, "done": 0, "seconds": 0.0, "findings": []})
    return state


def write_state(path, state):
    with open(path + ".new", "w", encoding="utf-8") as f:
        json.dump(state, f, indent=1)
    os.replace(path + ".new", path)


def run_slice(build, name, c, folder):
    """Runs one slice and counts it. A slice that an interrupt ends is not counted, and runs again."""
    program, arguments, many = CAMPAIGNS[name]
    command = [os.path.join(build, "test", "random", program), *arguments(c["next"])]
    start = time.monotonic()
    try:
        r = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=1800, check=False)
        output, bad = r.stdout, r.returncode != 0 or b"\nnot ok" in r.stdout or b"1.." not in r.stdout
    except subprocess.TimeoutExpired as e:
        output, bad = (e.stdout or b"") + b"\nno end within 1800 seconds\n", True
    if bad:
        file = os.path.join(folder, f"{name}-{c['next']}.txt")
        with open(file, "wb") as f:
            f.write(" ".join(command).encode() + b"\n" + output)
        c["findings"].append(c["next"])
        print(f"{name}, seed {c['next']}: {file}", flush=True)
    c["next"] += many
    c["done"] += many
    c["seconds"] += time.monotonic() - start


def report(state):
    print("| campaign | what | done | hours | findings |\n|---|---|---|---|---|")
    for name, c in state.items():
        print(f"| {name} | {WHAT[name]} | {c['done']:,} | {c['seconds'] / 3600:.2f} | {len(c['findings'])} |")


def main():
    build, hours = sys.argv[1], float(sys.argv[2])
    folder = os.path.join(build, "assure")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "state.json")
    state = read_state(path)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    until = time.monotonic() + hours * 3600
    try:
        while time.monotonic() < until:
            name = min((n for n in CAMPAIGNS if n != "tables" or state[n]["done"] < PARTS), key=lambda n: state[n]["seconds"])
            run_slice(build, name, state[name], folder)
            write_state(path, state)
    except KeyboardInterrupt:
        print("stopped", flush=True)
    report(state)
    sys.exit(any(c["findings"] for c in state.values()))


main()
