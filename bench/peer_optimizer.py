# SPDX-License-Identifier: Apache-2.0
"""The straight-line program of bench_optimizer.c traced and lowered by JAX's jit, the same nodes from the
same random numbers; times of the processor, as there. At 10^4 nodes: JAX needs seconds there."""
import statistics
import time

import jax
import jax.numpy as jnp

RUNS, WINDOW, NODES = 3, 50, 10000
OPS = [jnp.add, jnp.multiply, jnp.subtract, jnp.maximum, jax.lax.tanh, jax.lax.sin, jax.lax.logistic, jax.lax.tanh]


def plan(n):
    """By node: its op, and how far back its second argument is."""
    state, out = 88172645463325252, []

    def next_below(k):
        nonlocal state
        state ^= (state << 13) & (2**64 - 1)
        state ^= state >> 7
        state ^= (state << 17) & (2**64 - 1)
        return state % k

    for i in range(1, n + 1):
        op = next_below(8)
        out.append((op, 1 + next_below(min(i, WINDOW))))
    return out


def program(nodes):
    def main(x):
        node = [x]
        for i, (op, back) in enumerate(nodes, 1):
            node.append(OPS[op](node[i - 1], node[i - back]) if op < 4 else OPS[op](node[i - 1]))
        return node[-1]

    return main


def measure():
    nodes, x = plan(NODES), jax.ShapeDtypeStruct((4,), jnp.float32)
    traced, lowered = [], []
    for _ in range(RUNS):
        start = time.process_time()
        trace = jax.jit(program(nodes)).trace(x)
        middle = time.process_time()
        trace.lower()
        traced.append(middle - start)
        lowered.append(time.process_time() - middle)
    print(f"jax {jax.__version__}, straight-line program of {NODES} nodes")
    for what, s in (("trace", traced), ("lower", lowered), ("trace and lower", [a + b for a, b in zip(traced, lowered)])):
        low, high = min(s) / NODES * 1e9, max(s) / NODES * 1e9
        print(f"  {what:<28} {statistics.median(s) / NODES * 1e9:10.4g} ns/node ({low:.4g} to {high:.4g})")


measure()
