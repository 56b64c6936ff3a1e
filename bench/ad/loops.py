#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Objectives and gradients of loops.anf at growing sizes, one thread, the least CPU time of several calls: a line a size with
the quotient of the two, and how the gradient grows against the size before.
loops.py BUILD [NAME...]: BUILD is a folder of ./dev build, such as build/gcc, whose Python package is taken."""
import os
import pathlib
import sys
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = "1"
os.environ["ANFORA_CACHE"] = "off"
sys.path.insert(0, os.path.abspath(sys.argv[1] + "/python"))

import anfora  # noqa: E402
import numpy as np  # noqa: E402

random = np.random.default_rng(0).random
CASES = {
    "differences": [(random(n),) for n in (1000, 4000, 16000)],
    "branch": [(random(n),) for n in (1000, 4000, 16000)],
    "nest": [(random((n, n)),) for n in (32, 64, 128)],
    "fill": [(random(n),) for n in (1000, 4000, 16000)],
    "append": [(random(n),) for n in (4000, 16000)],
    "running": [(random(n),) for n in (4000, 16000)],
    "kmeans": [(random((10, 10)), random((n, 10))) for n in (2500, 10000)],
    "mixture": [(random(50), random((50, 10)), random((50, 10)), random((n, 10))) for n in (250, 1000)],
    "ode": [(random(n), 100) for n in (2500, 10000)],
    "det": [(random(n * n), n) for n in (7, 8, 9)],
}


def milliseconds(function, args):
    function(*args)
    times, start = [], time.process_time()
    while len(times) < 3 or (time.process_time() - start < 0.4 and len(times) < 50):
        before = time.process_time()
        function(*args)
        times.append(time.process_time() - before)
    return 1e3 * min(times)


def main():
    module = anfora.read(pathlib.Path(__file__).with_name("loops.anf"))
    for name, sizes in CASES.items():
        if sys.argv[2:] and name not in sys.argv[2:]:
            continue
        function, last = getattr(module, name), None
        for args in sizes:
            f, g = milliseconds(function, args), milliseconds(anfora.grad(function), args)
            dims = " ".join("x".join(map(str, np.shape(a))) or str(a) for a in args)
            grown = f"  {g / last:.1f} times the last" if last else ""
            print(f"{name:12} {dims:24} {f:9.4f} {g:9.4f} ms  {g / f:.1f}{grown}", flush=True)
            last = g


if __name__ == "__main__":
    main()
