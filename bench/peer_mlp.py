#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The networks of bench_mlp.c in JAX and PyTorch, eager and compiled: inference, one thread, CPU time of the process."""
from peer import measure, run_all

import numpy as np

TURNS = 40
NETS = {"MLP_1": (13, 512, 256, 128), "MLP_2": (479, 1024, 1024, 512, 256, 1)}
random = np.random.default_rng(1)


def weights(size):
    for n, m in zip(size, size[1:]):
        yield (random.uniform(-1, 1, (n, m)) * 2 / n**0.5).astype(np.float32), random.uniform(-1, 1, m).astype(np.float32)


def with_jax():
    import jax
    import jax.numpy as jnp
    for name, size in NETS.items():
        for dtype in (jnp.float32, jnp.bfloat16):
            layers = [(jnp.asarray(w, dtype), jnp.asarray(b, dtype)) for w, b in weights(size)]

            def net(x, layers=layers):
                for w, b in layers[:-1]:
                    x = jax.nn.relu(x @ w + b)
                return x @ layers[-1][0] + layers[-1][1]
            f = jax.jit(net)
            for batch in (32, 128, 512):
                x = jnp.asarray(random.uniform(-1, 1, (batch, size[0])), dtype)
                measure(f"jax {name} {dtype.__name__} batch {batch}", lambda: f(x).block_until_ready(), TURNS)


def with_torch():
    import torch
    torch.set_num_threads(1)
    for who, made in (("torch eager", lambda f: f), ("torch.compile", torch.compile)):
        for name, size in NETS.items():
            for dtype in (torch.float32, torch.bfloat16):
                layers = []
                for w, b in weights(size):
                    layer = torch.nn.Linear(*w.shape)
                    layer.weight.data, layer.bias.data = torch.from_numpy(w.T.copy()), torch.from_numpy(b)
                    layers += [layer, torch.nn.ReLU()]
                net = made(torch.nn.Sequential(*layers[:-1]).to(dtype).eval())
                for batch in (32, 128, 512):
                    x = torch.from_numpy(random.uniform(-1, 1, (batch, size[0])).astype(np.float32)).to(dtype)
                    with torch.inference_mode():
                        measure(f"{who} {name} {str(dtype)[6:]} batch {batch}", lambda: net(x), TURNS)


run_all("inference, one thread, CPU time", with_jax, with_torch)
