#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Steps as programs meet them: small calls from Python, and fresh processes: the time to the end of the first step, with
code made anew and from the cache on disk, and the memory of steps. python_step.py BUILD_DIR"""
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

BUILD = os.path.abspath(sys.argv[1])
sys.path.insert(0, os.path.join(BUILD, "python"))
import numpy as np  # noqa: E402

import anfora  # noqa: E402
import anfora.numpy as anp  # noqa: E402
from anfora.train import SGD, Step  # noqa: E402

bad = False


def tell(what, unit, value, limit=None, more=""):
    global bad
    broken = limit is not None and value > limit
    bad = bad or broken
    print(f"  {what:44} {value:10.4g} {unit:3}{more}{f'  limit {limit:g}' if limit else ''}{'  BROKEN' if broken else ''}", flush=True)


def calls(what, f, limit, n=20000):
    """Microseconds of processor time a call: the median of nine, and the lowest."""
    f()
    samples = []
    for _ in range(9):
        start = time.process_time()
        for _ in range(n):
            f()
        samples.append(1e6 * (time.process_time() - start) / n)
    samples.sort()
    tell(what, "µs", samples[4], limit, f" ({samples[0]:.4g})")


def small():
    line, x = anfora.jit(lambda x: 2.0 * x + 1.0), np.ones(16, np.float32)
    assert np.array_equal(np.asarray(line(x)), np.full(16, 3.0))
    calls("2 x + 1 on 16 floats, from Python", lambda: line(x), 1.5)
    calls("the same in NumPy", lambda: 2.0 * x + 1.0, None)
    for megabytes in (8, 57, 120, 300):
        large = np.ones(megabytes * 250_000, np.float32)
        calls(f"2 x + 1 on {megabytes} MB, from Python", lambda: line(large), None, 3)

    def loss(p, x, y):
        return anp.mean(anp.softmax_cross_entropy(anp.relu(x @ p["w"] + p["b"]) @ p["v"], y))
    draw = np.random.default_rng(1).uniform
    p = {"w": draw(-1, 1, (2, 4)).astype("f4"), "b": np.zeros(4, "f4"), "v": draw(-1, 1, (4, 2)).astype("f4")}
    xs, ys = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], "f4"), np.array([0, 1, 1, 0], "i4")
    step = Step(loss, SGD(0.1), p)
    first = step(xs, ys)
    calls("a step of a 2x4 network, from Python", lambda: step(xs, ys), 10)
    assert step(xs, ys) < first


def process(name, steps, cache=None):
    """(wall, CPU) seconds of a process that takes so many steps, and what it says of itself."""
    env = {k: v for k, v in os.environ.items() if k != "ANFORA_BENCH_CACHE"} | ({"ANFORA_BENCH_CACHE": cache} if cache else {})
    start, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    r = subprocess.run([os.path.join(BUILD, "bench", "bench_step"), name, str(steps)], env=env, capture_output=True, text=True, check=True)
    wall, now = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime, json.loads(r.stdout)


def starts(name):
    with tempfile.TemporaryDirectory() as cache:
        for what, folder in (("code made anew", None), (None, cache), ("code from disk", cache)):
            runs = sorted((process(name, 1, folder) for _ in range(3 if what else 1)), key=lambda r: r[1])
            if what:
                wall, cpu, told = runs[len(runs) // 2]
                tell(f"{name}, start to first step, CPU, {what}", "ms", 1e3 * cpu, more=f" (wall {1e3 * wall:.0f}, compile {told['compile_ms']:.0f})")
        _, _, told = process(name, 5, cache)
        tell(f"{name}, memory of steps beyond what was there", "MB", told["peak_mb"] - told["before_mb"], 104 if name == "gpt" else None)


small()
for workload in ("mlp", "gpt"):
    starts(workload)
sys.exit(bad)
