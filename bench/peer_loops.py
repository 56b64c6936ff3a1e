#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Loops whose rounds make their state anew, in anfora and JAX: one thread, CPU time of a call, the least of several.
peer_loops.py COMMAND: what the command `anfora` at this path takes; peer_loops.py jax."""
import os
import resource
import subprocess
import sys
import tempfile
import time

import peer  # noqa: F401  before the peers: one thread

import numpy as np

random = np.random.default_rng(0)


def f(*dims):
    return random.random(dims).astype(np.float32)


# name: arguments, calls, the program of anfora, rounds and a round of JAX (N: numpy, L: lax)
CASES = {
    "relaxation, 1024 x 1024": (
        (f(1024, 1024), f(1024, 1024)), 8,
        "def main(x, b) { for i in 0..100 { x = 0.25 * (Roll(x, 1, axis=0) + Roll(x, -1, axis=0) + b) }; x }",
        100, lambda N, L, i, s: (0.25 * (N.roll(s[0], 1, 0) + N.roll(s[0], -1, 0) + s[1]), s[1])),
    "choice and sum, 100000": (
        (f(100000),), 60,
        "def main(x) { for i in 0..300 { x = Where(x > 0.5, x * 0.5, x + 0.1) + Sum(x) * 0.000001 }; x }",
        300, lambda N, L, i, s: (N.where(s[0] > 0.5, s[0] * 0.5, s[0] + 0.1) + N.sum(s[0]) * 0.000001,)),
    "wave (u, v) = (v, a v - b u), 10000": (
        (f(10000), f(10000)), 300,
        "def main(u, v) { for i in 0..1000 { (u, v) = (v, 1.9 * v - 0.95 * u) }; v }",
        1000, lambda N, L, i, s: (s[1], 1.9 * s[1] - 0.95 * s[0])),
    "one element written a round, 10000": (
        (f(10000),), 6000,
        "def main(a) { for i in 0..9000 { a = DynamicUpdateSlice(a, Reshape(a[i] * 0.5 + 1.0, (1,)), i + 1) }; a }",
        9000, lambda N, L, i, s: (L.dynamic_update_slice(s[0], N.reshape(s[0][i] * 0.5 + 1.0, (1,)), (i + 1,)),)),
}


def cpu_of(words):
    """Seconds of processor time of a process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, check=True, capture_output=True, env={**os.environ, "ANFORA_CACHE": "off"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def with_anfora(command):
    """Calls by many runs of a process less those of one run."""
    for name, (args, calls, program, _, _) in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "loop.anf")
            with open(path, "w", encoding="utf-8") as file:
                file.write(program)
            words = [command, "run", path]
            for k, x in enumerate(args):
                np.save(os.path.join(folder, f"{k}.npy"), x)
                words.append("@" + os.path.join(folder, f"{k}.npy"))
            words += ["--backend", "llvm", "--repeat"]
            yield name, [1e6 * (cpu_of(words + [str(calls + 1)]) - cpu_of(words + ["1"])) / calls for _ in range(3)]


def with_jax():
    import jax
    for name, (args, _, _, rounds, step) in CASES.items():
        turn = lambda i, s, step=step: step(jax.numpy, jax.lax, i, s)
        function = jax.jit(lambda *s, rounds=rounds, turn=turn: jax.lax.fori_loop(0, rounds, turn, s))
        given = tuple(map(jax.numpy.asarray, args))
        jax.block_until_ready(function(*given))
        times = []
        for _ in range(7):
            start = time.process_time()
            jax.block_until_ready(function(*given))
            times.append(1e6 * (time.process_time() - start))
        yield name, times


def main():
    who = sys.argv[1]
    for name, times in with_jax() if who == "jax" else with_anfora(who):
        print(f"{who}\t{name}\t{min(times):.0f} us", flush=True)


main()
