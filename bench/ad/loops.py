#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Objectives and gradients of loops.anf at growing sizes beside hand.c, one thread, the least CPU time of several calls: a line a
size with the objective, the gradient, the gradient by hand, their quotient, and how the gradient grows against the size before.
Values are compared with those of hand.c; any that differs ends in status 1.
loops.py BUILD [NAME...]: BUILD is a folder of ./dev build, such as build/gcc, whose Python package is taken; $CC compiles hand.c."""
import ctypes
import os
import pathlib
import subprocess
import sys
import tempfile
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
    "twice": [(random(n),) for n in (1000, 4000, 16000)],
    "kmeans": [(random((10, 10)), random((n, 10))) for n in (2500, 10000)],
    "mixture": [(random(50), random((50, 10)), random((50, 10)), random((n, 10))) for n in (250, 1000)],
    "ode": [(random(n), 100) for n in (2500, 10000)],
    "det": [(random(n * n), n) for n in (7, 8, 9)],
}
WRT = {"mixture": (0, 1, 2)}  # what the gradient is by, if not the first argument


class Hand:
    """The functions of hand.c."""

    def __init__(self, folder):
        source = pathlib.Path(__file__).with_name("hand.c")
        command = [os.environ.get("CC", "cc"), "-O3", "-march=native", "-shared", "-fPIC", source, "-o", folder + "/hand.so", "-lm"]
        subprocess.run(command, check=True)
        self._library = ctypes.CDLL(folder + "/hand.so")

    def gradient(self, name, args):
        """A function that gives (objective, gradient)."""
        arrays = [a for a in args if np.ndim(a)]
        sizes = [n for a in arrays for n in a.shape] + [a for a in args if not np.ndim(a)]
        out = np.empty(sum(args[w].size for w in WRT.get(name, (0,))))
        f = self._library[name]
        f.restype = ctypes.c_double
        c_arrays = (ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays])
        c_sizes = (ctypes.c_int64 * len(sizes))(*sizes)
        return lambda: (f(c_arrays, c_sizes, ctypes.c_void_p(out.ctypes.data)), out)


def far(got, want):
    """How far apart, as a share of the largest."""
    return np.max(np.abs(got - want)) / max(np.max(np.abs(want)), 1e-300)


def milliseconds(function, args):
    function(*args)
    times, start = [], time.process_time()
    while len(times) < 3 or (time.process_time() - start < 0.4 and len(times) < 50):
        before = time.process_time()
        function(*args)
        times.append(time.process_time() - before)
    return 1e3 * min(times)


def measure(hand, name, function, args, last):
    """Prints a line; (ms of the gradient, do the values agree?)."""
    gradient, by_hand = anfora.grad(function, wrt=WRT.get(name, 0)), hand.gradient(name, args)
    value, want = by_hand()
    got = gradient(*args)
    got = np.concatenate([np.ravel(g) for g in got]) if name in WRT else np.ravel(got)
    difference = max(far(got, want), far(np.asarray(function(*args)), np.asarray(value)))
    f, g, h = milliseconds(function, args), milliseconds(gradient, args), milliseconds(by_hand, ())
    dims = " ".join("x".join(map(str, np.shape(a))) or str(a) for a in args)
    grown = f"  {g / last:.1f} times the last" if last else ""
    wrong = f"  WRONG: differs by {difference:.1e}" if difference > 1e-9 else ""
    print(f"{name:12} {dims:24} {f:9.4f} {g:9.4f} {h:9.4f} ms  {g / h:5.2f}{grown}{wrong}", flush=True)
    return g, not wrong


def main():
    module = anfora.read(pathlib.Path(__file__).with_name("loops.anf"))
    right = True
    with tempfile.TemporaryDirectory() as folder:
        hand = Hand(folder)
        for name, sizes in CASES.items():
            if sys.argv[2:] and name not in sys.argv[2:]:
                continue
            last = None
            for args in sizes:
                last, ok = measure(hand, name, getattr(module, name), args, last)
                right = right and ok
    return not right


if __name__ == "__main__":
    sys.exit(main())
