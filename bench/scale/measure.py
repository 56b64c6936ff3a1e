#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does the model of model.py predict this machine? measure.py BUILD_DIR: parts are measured, steps on 2 and 4 ranks predicted and then
measured, in turns. Ranks are threads of one process, 64 rows each of the perceptron 784-512-512-10. The machine has some cores, and
ranks beyond them share these; an exchange between threads is work of the same cores, so nothing hides it once they are all busy:

    step(R) = max(1, R / cores) * side(min(R, cores)) + AllReduce(R, bytes) of each bucket of gradients

side(C) is a step of each of C ranks at once that exchange nothing but a number at its end: it has what cores take from one another, of
memory and caches, and that the slowest is waited for. Alone it updates a parameter where its gradient is computed; to be averaged, gradients
are written and read again, which is done here by a pass of its own. The processor's time of all ranks is predicted, too:

    work(R) = max(1, R / cores) * that of side(min(R, cores)) + that of the AllReduces
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

ROWS, TURNS, STEPS, SIZES, BUCKET = 64, 15, 10, [784, 512, 512, 10], 64 << 10


def params() -> list:
    source = np.random.default_rng(7)
    return [((source.normal(size=(a, b)) / np.sqrt(a)).astype("f4"), np.zeros(b, "f4")) for a, b in zip(SIZES, SIZES[1:])]


def loss(p, x, y):
    h = anp.relu(x @ p[0][0] + p[0][1])
    h = anp.relu(h @ p[1][0] + p[1][1])
    return anp.mean(anp.softmax_cross_entropy(h @ p[2][0] + p[2][1], y))


def batch(rank: int) -> tuple:
    source = np.random.default_rng(rank)
    return source.normal(size=(ROWS, 784)).astype("f4"), source.integers(0, 10, ROWS).astype("i4")


class Ranks:
    """R ranks that step when they are asked to, and average their gradients, or do not."""

    def __init__(self, ranks: int, together: bool = True) -> None:
        self.ranks, self.together = ranks, together

    def turn(self) -> tuple[float, float, dict]:
        """Seconds of a step, the median of a few; of the processor, for all ranks; and what was counted."""
        def work(c):
            x, y = batch(c.rank)
            step = Step(loss, SGD(0.1), params(), comm=c if self.together else None)
            one, g = np.zeros(1, "f4"), [np.zeros(n // 4, "f4") for n in buckets()]
            w = [np.ones_like(a) for a in g]
            step(x, y)
            c.all_reduce(one)
            before, times, busy = c.counts, [], time.process_time()
            for _ in range(STEPS):
                start = time.perf_counter()
                step(x, y)
                if not self.together:
                    for a, b in zip(w, g) if self.ranks > 1 else ():
                        a -= b
                    c.all_reduce(one)
                times.append(time.perf_counter() - start)
            c.all_reduce(one)
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
    """Seconds of AllReduces of those sizes, of memory that a step has driven out of the caches, the median of a few; of the processor, for
    all ranks."""
    def work(c):
        arrays, one, found, step = [np.ones(n // 4, "f4") for n in buckets()], np.zeros(1, "f4"), [], Step(loss, SGD(0.1), params())
        for _ in range(STEPS + 1):
            step(*batch(c.rank))
            c.all_reduce(one)
            start, busy = time.perf_counter(), time.process_time()
            for x in arrays:
                c.all_reduce(x)
            found.append((time.perf_counter() - start, time.process_time() - busy))
        return [statistics.median(x) for x in zip(*found[1:])]
    return comm.launch(ranks, work)[0]


def main() -> None:
    n = 4 * sum(a * b + b for a, b in zip(SIZES, SIZES[1:]))
    cores = len(os.sched_getaffinity(0))
    ranks, sides = (1, 2, 4), sorted({min(r, cores) for r in (1, 2, 4)})
    step: dict = {r: [] for r in ranks}  # pairs: by the clock, of the processor
    side: dict = {r: [] for r in sides}
    link: dict = {r: [] for r in ranks}
    counts: dict = {}
    for _ in range(TURNS):
        for r in ranks:
            *pair, counts[r] = Ranks(r).turn()
            step[r].append(pair)
            link[r].append(all_reduces(r) if r > 1 else (0.0, 0.0))
        for r in sides:
            side[r].append(Ranks(r, together=False).turn()[:2])
    print(f"load {os.getloadavg()[0]:.1f} on {cores} cores; gradients {n} bytes; medians of {TURNS} turns")
    for r in ranks:
        text = ""
        for k, what in enumerate(("by the clock", "of the processor")):
            found, beside, exchange = (statistics.median(x[k] for x in part) for part in (step[r], side[min(r, cores)], link[r]))
            predicted = max(1, r / cores) * beside + exchange
            text += f"  {what} {1e3 * found:.2f} ms, predicted {1e3 * predicted:.2f}, ratio {predicted / found:.2f}"
        print(f"  {r} ranks{text}  bytes of a rank {counts[r]['bytes']:.0f}, least {2 * n * (r - 1) / r:.0f}")


main()
