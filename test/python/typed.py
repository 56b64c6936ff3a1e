# SPDX-License-Identifier: Apache-2.0
"""A program of a user with types, for mypy alone: what editors and checkers know of the package."""
from dataclasses import dataclass
from typing import Any

import anfora
import anfora.numpy as anp
from anfora import grad, jit, value_and_grad, vmap
from anfora.train import AdamW, Step, batches, progress


@dataclass
class Layer:
    w: Any
    b: Any


@jit
def dense(p: Layer, x: Any) -> Any:
    return anp.tanh(x @ p.w + p.b)


@jit(fast=True)
def twice(x: Any) -> Any:
    return 2.0 * x


def loss(p: Layer, x: Any, y: Any) -> Any:
    return anp.mean((dense(p, x) - y) ** 2)


def train(params: Layer, x: Any, y: Any) -> list[float]:
    value, gradient = value_and_grad(loss)(params, x, y)
    rows = vmap(grad(loss), in_axes=(None, 0, 0))(params, x, y)
    step = Step(loss, AdamW(1e-3), params)
    for xs, ys in progress(batches((x, y), 32, epochs=2), step):
        step(xs, ys)
    print(anfora.tree_leaves((value, gradient, rows)), step.params, step.losses.svg())
    return list(step.losses)
