#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does the model of model.py predict this machine? measure.py BUILD_DIR: parts (a step on one rank, the curve of the link) are measured,
steps on 2 and 4 ranks predicted and then measured, in turns. Ranks are threads of one process, 64 rows each of the perceptron
784-512-512-10. An exchange between threads is work of the same cores, so nothing hides it once they are all busy:

    step(R) = max(1, R / cores) * step(1) + AllReduce(R, bytes) of each bucket of gradients

On a machine that other programs use, the clock says little: the processor's time of all ranks is predicted, too,

    work(R) = R * work(1) + that of these
"""
from __future__ import annotations

import os
import statistics
import sys
import time

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
sys.path.insert(0, os.path.join(os.path.abspath(sys.argv[1]), "python"))
import numpy as np  # noqa: E402

import anfora.numpy as anp  # noqa: E402
from anfora import comm  # noqa: E402
from anfora.train import SGD, Step  # noqa: E402

ROWS, TURNS, STEPS, SIZES, BUCKET = 64, 7, 10, [784, 512, 512, 10], 64 << 10


def params() -> list:
    source = np.random.default_rng(7)
    return [((source.normal(size=(a, b)) / np.sqrt(a)).astype("f4"), np.zeros(b, "f4")) for a, b in zip(SIZES, SIZES[1:])]


def loss(p, x, y):
    h = anp.relu(x @ p[0][0] + p[0][1])
    h = anp.relu(h @ p[1][0] + p[1][1])
    return anp.mean(anp.softmax_cross_entropy(h @ p[2][0] + p[2][1], y))


class Ranks:
    """R ranks that step when they are asked to."""

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks

    def turn(self) -> tuple[float, float, dict]:
        """Seconds of a step, the median of a few; of the processor, for all ranks; and what was counted."""
        def work(c):
            source = np.random.default_rng(c.rank)
            x, y = source.normal(size=(ROWS, 784)).astype("f4"), source.integers(0, 10, ROWS).astype("i4")
            step = Step(loss, SGD(0.1), params(), comm=c)
            step(x, y)
            c.all_reduce(np.zeros(1, "f4"))
            before, times, busy = c.counts, [], time.process_time()
            for _ in range(STEPS):
                start = time.perf_counter()
                step(x, y)
                times.append(time.perf_counter() - start)
            c.all_reduce(np.zeros(1, "f4"))
            return statistics.median(times), (time.process_time() - busy) / STEPS, {k: (v - before[k]) / STEPS for k, v in c.counts.items()}
        return comm.launch(self.ranks, work)[0]


def buckets() -> list[int]:
    """Bytes of what is sent as one: gradients of the last layer come first, and a bucket has at least BUCKET."""
    found, n = [], 4
    for a, b in reversed(list(zip(SIZES, SIZES[1:]))):
        for more in (4 * a * b, 4 * b):
            n += more
            if n >= BUCKET:
                found.append(n)
                n = 0
    return found + [n] * (n > 0)


def all_reduces(ranks: int) -> tuple[float, float]:
    """Seconds of AllReduces of those sizes, the median of a few; of the processor, for all ranks."""
    def work(c):
        arrays, times = [np.ones(n // 4, "f4") for n in buckets()], []
        for x in arrays:
            c.all_reduce(x)
        busy = time.process_time()
        for _ in range(STEPS):
            start = time.perf_counter()
            for x in arrays:
                c.all_reduce(x)
            times.append(time.perf_counter() - start)
        return statistics.median(times), (time.process_time() - busy) / STEPS
    return comm.launch(ranks, work)[0]


def processor(r: int, busy: dict, work: dict) -> str:
    t = statistics.median(busy[r])
    predicted = r * statistics.median(busy[1]) + (statistics.median(work[r]) if r > 1 else 0.0)
    return f"of the processor {1e3 * t:.2f} ms, predicted {1e3 * predicted:.2f}, ratio {predicted / t:.2f}"


def main() -> None:
    n = 4 * sum(a * b + b for a, b in zip(SIZES, SIZES[1:]))
    cores = len(os.sched_getaffinity(0))
    found: dict = {r: [] for r in (1, 2, 4)}
    link: dict = {r: [] for r in (2, 4)}
    busy: dict = {r: [] for r in found}
    work: dict = {r: [] for r in link}
    counts: dict = {}
    for _ in range(TURNS):
        for r in found:
            seconds, cpu, counts[r] = Ranks(r).turn()
            found[r].append(seconds)
            busy[r].append(cpu)
            if r > 1:
                seconds, cpu = all_reduces(r)
                link[r].append(seconds)
                work[r].append(cpu)
    median = {r: statistics.median(x) for r, x in found.items()}
    print(f"load {os.getloadavg()[0]:.1f} on {cores} cores; gradients {n} bytes; medians of {TURNS} turns")
    for r, t in median.items():
        low, high = min(found[r]), max(found[r])
        exchange = statistics.median(link[r]) if r > 1 else 0.0
        predicted = max(1, r / cores) * median[1] + exchange
        least = 2 * n * (r - 1) / r
        print(f"  {r} ranks  measured {1e3 * t:7.2f} ms ({1e3 * low:.2f} to {1e3 * high:.2f})  predicted {1e3 * predicted:7.2f} ms  "
              f"ratio {predicted / t:.2f}  {processor(r, busy, work)}  bytes of a rank {counts[r]['bytes']:.0f}, least {least:.0f}")


main()
