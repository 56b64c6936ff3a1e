#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The steps of bench_step.c in JAX and, if it is installed, PyTorch: one thread, the same data."""
import os
import time

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NPROC", "PJRT_NPROC"):
    os.environ[name] = "1"
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"
import numpy as np  # noqa: E402


def raw(tag, n):
    with np.errstate(over="ignore"):
        z = (np.arange(n, dtype=np.uint64) + (np.uint64(tag) << np.uint64(40)) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def uniform(tag, shape, scale):
    u = (raw(tag, int(np.prod(shape))) >> np.uint64(40)).astype(np.float64) / 16777216.0
    return ((2.0 * u - 1.0) * scale).astype(np.float32).reshape(shape)


PARAMS = {"w1": uniform(1, (784, 512), 1 / 28.), "b1": np.zeros(512, np.float32), "w2": uniform(3, (512, 512), 1 / 22.6),
          "b2": np.zeros(512, np.float32), "w3": uniform(5, (512, 10), 1 / 22.6), "b3": np.zeros(10, np.float32)}
DATA = [(uniform(100 + j, (128, 784), 1.0), ((raw(200 + j, 128) >> np.uint64(20)) % np.uint64(10)).astype(np.int32))
        for j in range(4)]


def measure(name, step):
    wall, cpu, first = [], [], None
    for i in range(51):
        a, b = time.perf_counter(), time.process_time()
        loss = step(i)
        wall.append(1e3 * (time.perf_counter() - a))
        cpu.append(1e3 * (time.process_time() - b))
        first = wall[0]
        if i == 9:
            at10 = loss
    wall, cpu = sorted(wall[5:]), sorted(cpu[5:])
    print(f"  {name:12} first {first:8.1f} ms  step {wall[len(wall) // 2]:.3g} ms ({wall[0]:.3g} to {wall[-1]:.3g})  "
          f"CPU {cpu[len(cpu) // 2]:.3g} ms ({cpu[0]:.3g})  loss@10 {at10:.7f}")


def with_jax():
    import jax
    import jax.numpy as jnp

    def loss(p, x, y):
        h = jax.nn.relu(x @ p["w1"] + p["b1"])
        h = jax.nn.relu(h @ p["w2"] + p["b2"])
        logits = jax.nn.log_softmax(h @ p["w3"] + p["b3"])
        return -jnp.take_along_axis(logits, y[:, None], 1).mean()

    @jax.jit
    def update(p, x, y):
        value, g = jax.value_and_grad(loss)(p, x, y)
        return jax.tree.map(lambda w, d: w - 0.1 * d, p, g), value
    state = [jax.tree.map(jnp.asarray, PARAMS)]
    data = [tuple(map(jnp.asarray, b)) for b in DATA]

    def step(i):
        state[0], value = update(state[0], *data[i % 4])
        return float(value)
    measure("jax", step)


def with_torch():
    import torch
    import torch.nn.functional as F
    torch.set_num_threads(1)
    p = {k: torch.from_numpy(v.copy()).requires_grad_(True) for k, v in PARAMS.items()}
    data = [(torch.from_numpy(x), torch.from_numpy(y.astype(np.int64))) for x, y in DATA]
    sgd = torch.optim.SGD(p.values(), lr=0.1, fused=True)

    def step(i):
        x, y = data[i % 4]
        h = F.relu(x @ p["w1"] + p["b1"])
        h = F.relu(h @ p["w2"] + p["b2"])
        value = F.cross_entropy(h @ p["w3"] + p["b3"], y)
        value.backward()
        sgd.step()
        sgd.zero_grad(set_to_none=True)
        return value.item()
    measure("torch eager", step)


def main():
    print("784-512-512-10, batch 128, SGD, one thread")
    for run in (with_jax, with_torch):
        try:
            run()
        except ImportError as error:
            print(f"  {run.__name__[5:]}: {error}")


main()
