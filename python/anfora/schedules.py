# SPDX-License-Identifier: Apache-2.0
"""Rates that change from step to step: functions of the number of the step, which optimisers take as their rate.

>>> Adam(warmup_cosine(1e-3, warmup=100, steps=1000))"""
from __future__ import annotations

import math
from typing import Callable, Sequence

from . import numpy as anp


def _positive(steps: float, of: str) -> None:
    if steps <= 0:
        raise ValueError(f"{of}() takes a number of steps greater than 0, not {steps}")


def constant(rate: float) -> Callable:
    """Always the same."""
    return lambda count: rate


def linear(start: float, end: float, steps: int, begin: int = 0) -> Callable:
    """From start to end in so many steps, from step `begin` on."""
    _positive(steps, "linear")
    return lambda count: start + (end - start) * anp.clip((count - begin) / steps, 0.0, 1.0)


def polynomial(start: float, end: float, power: float, steps: int) -> Callable:
    """From start to end along a power."""
    _positive(steps, "polynomial")
    return lambda count: end + (start - end) * (1 - anp.clip(count / steps, 0.0, 1.0)) ** power


def exponential(start: float, decay: float, steps: int, staircase: bool = False) -> Callable:
    """Times decay every so many steps; `staircase`: at once, not little by little."""
    _positive(steps, "exponential")
    if staircase:
        return lambda count: start * decay ** anp.floor(count / steps)
    return lambda count: start * decay ** (count / steps)


def cosine(start: float, steps: int, alpha: float = 0.0, exponent: float = 1.0) -> Callable:
    """From start to the part alpha of it along half a cosine."""
    _positive(steps, "cosine")
    def at(count):
        wave = 0.5 * (1 + anp.cos(math.pi * anp.clip(count / steps, 0.0, 1.0)))
        return start * ((1 - alpha) * wave ** exponent + alpha)
    return at


def warmup_cosine(peak: float, warmup: int, steps: int, start: float = 0.0, end: float = 0.0) -> Callable:
    """Linearly from start to the peak, then along half a cosine to the end; `steps` are all of them."""
    up, down = linear(start, peak, max(1, warmup)), cosine(peak, max(1, steps - warmup), end / peak)
    return lambda count: anp.where(count < warmup, up(count), down(count - warmup))


def piecewise(start: float, factors: Sequence[tuple[int, float]]) -> Callable:
    """Times a factor from a step on: piecewise(0.1, [(100, 0.5), (200, 0.1)])."""
    pairs = tuple(tuple(p) for p in factors)

    def at(count):
        rate = anp.cast_like(start, count)
        for step, factor in pairs:
            rate = anp.where(count >= step, rate * factor, rate)
        return rate
    return at


def one_cycle(peak: float, steps: int, up: float = 0.3, first: float = 25.0, last: float = 1e4) -> Callable:
    """Up from peak / first in the part `up` of the steps, then down to peak / first / last, along half cosines."""
    turn = up * steps
    low, end = peak / first, peak / first / last

    def at(count):
        rise = low + (peak - low) * 0.5 * (1 - anp.cos(math.pi * anp.clip(count / turn, 0.0, 1.0)))
        fall = end + (peak - end) * 0.5 * (1 + anp.cos(math.pi * anp.clip((count - turn) / (steps - turn), 0.0, 1.0)))
        return anp.where(count < turn, rise, fall)
    return at


def joined(schedules: Sequence[Callable], boundaries: Sequence[int]) -> Callable:
    """One schedule after another: the next one counts from its boundary on."""
    parts, ends = tuple(schedules), tuple(boundaries)

    def at(count):
        rate = parts[0](count)
        for schedule, end in zip(parts[1:], ends):
            rate = anp.where(count < end, rate, schedule(count - end))
        return rate
    return at


__all__ = ["constant", "cosine", "exponential", "joined", "linear", "one_cycle", "piecewise", "polynomial", "warmup_cosine"]
