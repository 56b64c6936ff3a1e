# SPDX-License-Identifier: Apache-2.0
"""The work of bench_grad.c done by JAX: tracing the gradient of a straight-line program and lowering it
(jax.jit(jax.grad(f)).lower), without compiling. Sizes that its recursion stands. Processor time, as in bench_grad.c."""
import statistics
import sys
import time

import jax
import jax.numpy as jnp

RUNS, WINDOW = 3, 50
OPS = [lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a - b, lambda a, b: a + b,
       jnp.tanh, jnp.sin, jnp.cos, jnp.sin]


def straight(n):
    """The program of bench_grad.c: the same random choices."""
    state, mask = 88172645463325252, (1 << 64) - 1

    def below(k):
        nonlocal state
        state ^= (state << 13) & mask
        state ^= state >> 7
        state ^= (state << 17) & mask
        return state % k

    steps = []
    for i in range(1, n + 1):
        k = below(8)
        steps.append((k, i - 1, i - 1 - below(min(i, WINDOW))))

    def f(x):
        v = [x]
        for k, a, b in steps:
            v.append(OPS[k](v[a], v[b]) if k < 4 else OPS[k](v[a]))
        return v[-1]

    return f


def measure(n, order):
    samples = []
    for _ in range(RUNS):
        g = straight(n)
        for _ in range(order):
            g = jax.grad(g)
        start = time.process_time()
        jax.jit(g).lower(0.3)
        samples.append((time.process_time() - start) / n * 1e9)
    print(f"  {'trace and lower':<28} {statistics.median(samples):10.4g} ns/node "
          f"({min(samples):.4g} to {max(samples):.4g})", flush=True)


jax.config.update("jax_enable_x64", True)
sys.setrecursionlimit(1000000)
for order, sizes in ((1, (1000, 10000)), (2, (1000,))):
    for n in sizes:
        print(f"jax {jax.__version__}, gradient of order {order}, straight-line program of {n} nodes")
        measure(n, order)
