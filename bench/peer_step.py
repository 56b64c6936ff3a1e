#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The steps of bench_step.c in JAX and, if it is installed, PyTorch: one thread, the same data.
peer_step.py [mlp|cnn|rnn|gpt]"""
import sys
import time

import peer  # noqa: F401: one thread

import numpy as np


def raw(tag, n):
    with np.errstate(over="ignore"):
        z = (np.arange(n, dtype=np.uint64) + (np.uint64(tag) << np.uint64(40)) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def uniform(tag, shape, scale):
    u = (raw(tag, int(np.prod(shape))) >> np.uint64(40)).astype(np.float64) / 16777216.0
    return ((2.0 * u - 1.0) * scale).astype(np.float32).reshape(shape)


def words(tag, shape, mod):
    return ((raw(tag, int(np.prod(shape))) >> np.uint64(20)) % np.uint64(mod)).astype(np.int32).reshape(shape)


def zeros(*shape):
    return np.zeros(shape, np.float32)


def layers():
    """The parameters of GPT's four layers: parts of one tensor each."""
    parts = {"qkvw": (5, (768, 256)), "attw": (7, (256, 256)), "fcw": (11, (1024, 256)), "prw": (13, (256, 1024))}
    whole = {k: uniform(tag, (4, *shape), 0.034641) for k, (tag, shape) in parts.items()}
    ones = np.ones(256, np.float32)
    return [{**{k: v[i] for k, v in whole.items()}, "qkvb": zeros(768), "attb": zeros(256), "fcb": zeros(1024),
             "prb": zeros(256), "ln1w": ones, "ln1b": zeros(256), "ln2w": ones, "ln2b": zeros(256)} for i in range(4)]


WORK = {  # parameters, batch number j, learning rate of SGD (none: AdamW), steps, the step whose loss is told
    "mlp": (lambda: {"w1": uniform(1, (784, 512), 1 / 28.), "b1": zeros(512), "w2": uniform(3, (512, 512), 1 / 22.6),
                     "b2": zeros(512), "w3": uniform(5, (512, 10), 1 / 22.6), "b3": zeros(10)},
            lambda j: (uniform(100 + j, (128, 784), 1.0), words(200 + j, (128,), 10)), 0.1, 50, 10),
    "cnn": (lambda: {"k1": uniform(1, (32, 3, 3, 3), 0.19), "c1": zeros(32), "k2": uniform(3, (64, 32, 3, 3), 0.059),
                     "c2": zeros(64), "w": uniform(5, (16384, 10), 1 / 128.), "b": zeros(10)},
            lambda j: (uniform(100 + j, (64, 3, 32, 32), 1.0), words(200 + j, (64,), 10)), 0.01, 10, 10),
    "rnn": (lambda: {"w": uniform(1, (128, 128), 0.1), "u": uniform(2, (128, 128), 0.1), "b": zeros(128)},
            lambda j: (uniform(100 + j, (200, 16, 128), 1.0), uniform(200 + j, (16, 128), 1.0)), 0.1, 100, 100),
    "gpt": (lambda: {"wte": uniform(1, (4096, 256), 0.034641), "wpe": uniform(2, (128, 256), 0.034641), "h": layers(),
                     "lnfw": np.ones(256, np.float32), "lnfb": zeros(256)},
            lambda j: (words(100 + j, (4, 128), 4096), words(200 + j, (4, 128), 4096)), None, 20, 10),
}


def measure(name, step, steps, tell):
    wall, cpu = [], []
    for i in range(steps):
        a, b = time.perf_counter(), time.process_time()
        loss = step(i)
        wall.append(1e3 * (time.perf_counter() - a))
        cpu.append(1e3 * (time.process_time() - b))
        if i + 1 == tell:
            told = loss
    first = wall[0]
    wall, cpu = sorted(wall[3:]), sorted(cpu[3:])
    print(f"  {name:12} first {first:8.1f} ms  step {wall[len(wall) // 2]:.3g} ms ({wall[0]:.3g} to {wall[-1]:.3g})  "
          f"CPU {cpu[len(cpu) // 2]:.3g} ms ({cpu[0]:.3g})  loss@{tell} {told:.7f}", flush=True)


# ---- JAX ----

def jax_losses():
    import jax
    import jax.numpy as jnp
    from jax import lax

    def cross_entropy(logits, y):
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[..., None], -1).mean()

    def mlp(p, x, y):
        h = jax.nn.relu(x @ p["w1"] + p["b1"])
        return cross_entropy(jax.nn.relu(h @ p["w2"] + p["b2"]) @ p["w3"] + p["b3"], y)

    def conv(x, k, b):
        return lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW")) + b[:, None, None]

    def cnn(p, x, y):
        h = jax.nn.relu(conv(jax.nn.relu(conv(x, p["k1"], p["c1"])), p["k2"], p["c2"]))
        h = lax.reduce_window(h, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
        return cross_entropy(h.reshape(h.shape[0], -1) @ p["w"] + p["b"], y)

    def rnn(p, x, y):
        h = lax.scan(lambda h, t: (jnp.tanh(t @ p["w"] + h @ p["u"] + p["b"]), None), jnp.zeros_like(y), x)[0]
        return ((h - y) ** 2).mean()

    def norm(x, w, b):
        m = x.mean(-1, keepdims=True)
        return (x - m) * lax.rsqrt(((x - m) ** 2).mean(-1, keepdims=True) + 1e-5) * w + b

    def block(p, h):
        b, t, c = h.shape
        q, k, v = jnp.transpose((norm(h, p["ln1w"], p["ln1b"]) @ p["qkvw"].T + p["qkvb"]).reshape(b, t, 3, 4, c // 4), (2, 0, 3, 1, 4))
        s = jnp.where(jnp.tril(jnp.ones((t, t), bool)), q @ jnp.swapaxes(k, -1, -2) / np.sqrt(c // 4), -1e30)
        h = h + jnp.swapaxes(jax.nn.softmax(s) @ v, 1, 2).reshape(b, t, c) @ p["attw"].T + p["attb"]
        a = jax.nn.gelu(norm(h, p["ln2w"], p["ln2b"]) @ p["fcw"].T + p["fcb"], approximate=True)
        return h + a @ p["prw"].T + p["prb"]

    def gpt(p, x, y):
        h = p["wte"][x] + p["wpe"]
        for layer in p["h"]:
            h = block(layer, h)
        return cross_entropy(norm(h, p["lnfw"], p["lnfb"]) @ p["wte"].T, y)
    return {"mlp": mlp, "cnn": cnn, "rnn": rnn, "gpt": gpt}


def with_jax(name):
    import jax
    import jax.numpy as jnp
    loss, tree = jax_losses()[name], jax.tree.map
    params, batch, lr, steps, tell = WORK[name]

    def sgd(p, s, x, y):
        value, g = jax.value_and_grad(loss)(p, x, y)
        return tree(lambda w, d: w - lr * d, p, g), s, value

    def adamw(p, s, x, y):
        value, g = jax.value_and_grad(loss)(p, x, y)
        m, v, t = s
        t = t + 1.
        m, v = tree(lambda a, d: .9 * a + .1 * d, m, g), tree(lambda a, d: .999 * a + .001 * d * d, v, g)
        c, e = 1 - .9 ** t, 1 - .999 ** t
        p = tree(lambda w, a, b: w - 3e-4 * (a / c / (jnp.sqrt(b / e) + 1e-8) + .01 * w), p, m, v)
        return p, (m, v, t), value
    p = tree(jnp.asarray, params())
    empty = () if lr else (tree(jnp.zeros_like, p), tree(jnp.zeros_like, p), jnp.float32(0))
    update = jax.jit(sgd if lr else adamw, donate_argnums=(0, 1))
    state, data = [p, empty], [tuple(map(jnp.asarray, batch(j))) for j in range(4)]

    def step(i):
        state[0], state[1], value = update(*state, *data[i % 4])
        return float(value)
    measure("jax", step, steps, tell)


# ---- PyTorch ----

def torch_losses():
    import torch
    import torch.nn.functional as F

    def mlp(p, x, y):
        h = F.relu(x @ p["w1"] + p["b1"])
        return F.cross_entropy(F.relu(h @ p["w2"] + p["b2"]) @ p["w3"] + p["b3"], y)

    def cnn(p, x, y):
        h = F.relu(F.conv2d(F.relu(F.conv2d(x, p["k1"], p["c1"], padding=1)), p["k2"], p["c2"], padding=1))
        return F.cross_entropy(F.max_pool2d(h, 2).flatten(1) @ p["w"] + p["b"], y)

    def rnn(p, x, y):
        h = torch.zeros_like(y)
        for t in x:
            h = torch.tanh(t @ p["w"] + h @ p["u"] + p["b"])
        return ((h - y) ** 2).mean()

    def block(p, h):
        b, t, c = h.shape
        a = F.linear(F.layer_norm(h, (c,), p["ln1w"], p["ln1b"]), p["qkvw"], p["qkvb"])
        q, k, v = a.reshape(b, t, 3, 4, c // 4).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, c)
        h = h + F.linear(y, p["attw"], p["attb"])
        a = F.linear(F.layer_norm(h, (c,), p["ln2w"], p["ln2b"]), p["fcw"], p["fcb"])
        return h + F.linear(F.gelu(a, approximate="tanh"), p["prw"], p["prb"])

    def gpt(p, x, y):
        h = F.embedding(x, p["wte"]) + p["wpe"]
        for layer in p["h"]:
            h = block(layer, h)
        logits = F.linear(F.layer_norm(h, (256,), p["lnfw"], p["lnfb"]), p["wte"])
        return F.cross_entropy(logits.flatten(0, 1), y.flatten())
    return {"mlp": mlp, "cnn": cnn, "rnn": rnn, "gpt": gpt}


def with_torch(name):
    import torch
    from torch.utils import _pytree
    torch.set_num_threads(1)
    params, batch, lr, steps, tell = WORK[name]
    p = _pytree.tree_map(lambda v: torch.from_numpy(v.copy()).requires_grad_(True), params())
    leaves = _pytree.tree_leaves(p)
    optimizer = torch.optim.SGD(leaves, lr=lr, fused=True) if lr else \
        torch.optim.AdamW(leaves, lr=3e-4, weight_decay=0.01, fused=True)
    data = [tuple(torch.from_numpy(a if a.dtype == np.float32 else a.astype(np.int64)) for a in batch(j)) for j in range(4)]
    loss = torch_losses()[name]

    def step(i):
        value = loss(p, *data[i % 4])
        value.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return value.item()
    measure("torch eager", step, steps, tell)


def main():
    for name in sys.argv[1:] or WORK:
        print(f" {name}, one thread")
        for run in (with_jax, with_torch):
            try:
                run(name)
            except ImportError as error:
                print(f"  {run.__name__[5:]}: {error}")


main()
