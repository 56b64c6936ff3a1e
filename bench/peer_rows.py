#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The functions of rows/rows.anf in JAX and PyTorch, eager and compiled: one thread, CPU time of the process.
peer_rows.py [NAME..]"""
import sys

from peer import measure, run_all

import numpy as np

ROWS, N, TURNS = 512, 1024, 60
random = np.random.default_rng(1)
X, DY = (random.uniform(-2, 2, (ROWS, N)).astype(np.float32) for _ in range(2))
G, B = (random.uniform(-2, 2, N).astype(np.float32) for _ in range(2))
LABEL = (np.arange(ROWS) * 7919 % N).astype(np.int32)
NAMES = sys.argv[1:] or ["exp", "tanh", "gelu_tanh", "gelu_erf", "layer_norm", "softmax", "cross_entropy", "chain"]


def with_jax():
    import jax
    import jax.numpy as jnp
    x, dy, g, b, label = map(jnp.asarray, (X, DY, G, B, LABEL))

    def norm(x):
        m = x.mean(-1, keepdims=True)
        return (x - m) * jax.lax.rsqrt(((x - m) ** 2).mean(-1, keepdims=True) + 1e-5) * g + b

    def loss(x):
        return -jnp.take_along_axis(jax.nn.log_softmax(x), label[:, None], -1).mean()
    f = {"exp": jnp.exp, "tanh": jnp.tanh, "gelu_tanh": jax.nn.gelu, "layer_norm": norm, "softmax": jax.nn.softmax,
         "gelu_erf": lambda x: jax.nn.gelu(x, approximate=False), "cross_entropy": loss,
         "chain": lambda x: jax.nn.softmax(norm(jax.nn.gelu(x)))}
    for name in NAMES:
        def both(x, dy, f=f[name]):
            y, back = jax.vjp(f, x)
            return y, back(jnp.ones((), y.dtype) if name == "cross_entropy" else dy)
        forward, backward = jax.jit(f[name]), jax.jit(both)
        measure(f"jax {name}", lambda: forward(x).block_until_ready(), TURNS)
        if name not in ("exp", "tanh"):
            measure(f"jax {name}_grad", lambda: jax.block_until_ready(backward(x, dy)), TURNS)


def with_torch():
    import torch
    import torch.nn.functional as F
    torch.set_num_threads(1)
    x, dy, g, b, label = map(torch.from_numpy, (X, DY, G, B, LABEL.astype(np.int64)))
    f = {"exp": torch.exp, "tanh": torch.tanh, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "gelu_erf": F.gelu,
         "layer_norm": lambda x: F.layer_norm(x, (N,), g, b), "softmax": lambda x: F.softmax(x, -1),
         "cross_entropy": lambda x: F.cross_entropy(x, label),
         "chain": lambda x: F.softmax(F.layer_norm(F.gelu(x, approximate="tanh"), (N,), g, b), -1)}
    for who, made in (("torch eager", lambda f: f), ("torch.compile", torch.compile)):
        for name in NAMES:
            fn, leaf = made(f[name]), x.clone().requires_grad_(True)

            def forward():
                with torch.no_grad():
                    fn(x)

            def backward():
                leaf.grad = None
                y = fn(leaf)
                y.backward(None if name == "cross_entropy" else dy)
            measure(f"{who} {name}", forward, TURNS)
            if name not in ("exp", "tanh"):
                measure(f"{who} {name}_grad", backward, TURNS)


run_all("512 x 1024 f32, one thread, CPU time", with_jax, with_torch)
