#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The scalar loop of bench_scalar.c in JAX: forward, its gradient by the parameter h, and that of the gradient, 10^6 turns in
double, one thread, processor time of a turn. JAX has no recursion, and differentiates loops of a known number of turns alone.
MindSpore, if it is installed, runs the forward loop; its gradient of a loop of this length does not end, nor does fibonacci."""
from peer import measure, run_all

TURNS, N, X, H = 9, 1_000_000, 0.1, 1e-5


def logistic_by_hand(n=N):
    x = X
    for _ in range(n):
        x = x + H * x * (1.0 - x)
    return x


def a_turn(what, run):
    measure(f"{what} (10^6 turns)", run, TURNS)


def with_jax():
    import jax
    jax.config.update("jax_enable_x64", True)

    def logistic(x, h):
        return jax.lax.fori_loop(0, N, lambda _, x: x + h * x * (1.0 - x), x)
    forward, slope = jax.jit(logistic), jax.jit(jax.grad(logistic, argnums=1))
    second = jax.jit(jax.grad(jax.grad(logistic, argnums=1), argnums=1))
    assert abs(float(forward(X, H)) - logistic_by_hand()) < 1e-9
    a_turn("jax logistic", lambda: forward(X, H).block_until_ready())
    a_turn("jax logistic_grad", lambda: slope(X, H).block_until_ready())
    a_turn("jax logistic_grad2", lambda: second(X, H).block_until_ready())


def with_mindspore():
    import mindspore as ms

    @ms.jit
    def logistic(x, h, n):
        i = ms.Tensor(0, ms.int64)
        while i < n:
            x = x + h * x * (1.0 - x)
            i = i + 1
        return x
    few = N // 100
    x, h, n = ms.Tensor(X, ms.float64), ms.Tensor(H, ms.float64), ms.Tensor(few, ms.int64)
    assert abs(float(logistic(x, h, n)) - logistic_by_hand(few)) < 1e-9
    measure(f"mindspore logistic ({few} turns)", lambda: logistic(x, h, n).asnumpy(), TURNS)


run_all("scalar loop, one thread, CPU time", with_jax, with_mindspore)
