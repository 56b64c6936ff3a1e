# SPDX-License-Identifier: Apache-2.0
"""Scaled losses of mixed precision (torch.amp.GradScaler) within a step: gradients are those of loss * scale, the update is that of
gradients / scale, an infinite or NaN gradient leaves parameters and the optimizer's state as they were, and the scale follows, as
scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update() do. Both numbers stay the scaler's own tensors."""
from __future__ import annotations

from typing import Any

import torch

from ._decisions import refuse

KINDS = torch.amp.GradScaler, torch.cpu.amp.GradScaler, torch.cuda.amp.GradScaler
NAMES = ["scaler_scale", "scaler_growth_tracker"]


def enabled(scaler: Any) -> Any:
    """The scaler, None if it does nothing."""
    if scaler is None:
        return None
    if type(scaler) not in KINDS:
        raise TypeError(f"scaler is a torch.amp.GradScaler, not {type(scaler).__name__}")
    return scaler if scaler.is_enabled() else None


def fixed(scaler: Any) -> tuple:
    """Its settings, which are constants of a program."""
    return () if scaler is None else (scaler.get_growth_factor(), scaler.get_backoff_factor(), scaler.get_growth_interval())


def tensors(scaler: Any) -> list[torch.Tensor]:
    """The scale and how many steps were taken since it changed."""
    if scaler is None:
        return []
    if scaler._scale is None:
        scaler._lazy_init_scale_growth_tracker(torch.device("cpu"))
    return [scaler._scale, scaler._growth_tracker]


class Scaled:
    """The numbers of a scaler in the trace of an update."""

    def __init__(self, of: tuple, given: list) -> None:
        self.of, self.given = of, given

    def unscale(self, params: list) -> None:
        """Divides the gradients by the scale, and remembers if one was not finite."""
        grads = [p.grad for p in params if p.grad is not None]
        if any(g.dtype is torch.float16 for g in grads):
            raise refuse("a GradScaler divides no gradients in f16", "keep the parameters in f32, and compute in f16 by autocast")
        self.skipped = torch.stack([torch.isfinite(g).all() for g in grads]).all().logical_not() if grads else torch.tensor(False)
        inverse = self.given[0].double().reciprocal().float()
        for p in params:
            if p.grad is not None:
                p.grad = p.grad * inverse.to(p.grad.dtype)

    def choose(self, before: dict, after: dict) -> dict:
        """What the optimizer keeps, or what it was if the step is skipped."""
        if before.keys() != after.keys():
            raise refuse("the first step makes the optimizer's state, which a GradScaler may skip", "take one eager step before")
        return {k: torch.where(self.skipped, before[k], x) for k, x in after.items()}

    def next(self) -> list[torch.Tensor]:
        """The scale and the count for the next step."""
        (scale, count), (growth, backoff, interval) = self.given, self.of
        count, wide = count + 1, scale.double()
        grown = (wide * growth).float()
        grows = (count == interval).logical_and(torch.isfinite(grown))
        raised = torch.where(grows, grown, scale)
        return [torch.where(self.skipped, (wide * backoff).float(), raised),
                torch.where(self.skipped.logical_or(count == interval), torch.zeros_like(count), count)]
