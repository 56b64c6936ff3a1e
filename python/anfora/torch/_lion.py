# SPDX-License-Identifier: Apache-2.0
"""Lion, which torch.optim does not have."""
from __future__ import annotations

from typing import Any

import torch


class Lion(torch.optim.Optimizer):
    """Lion (Chen et al. 2023): the sign of an interpolated momentum, with decay of the weights apart from the gradient."""

    def __init__(self, params: Any, lr: float = 1e-4, betas: tuple = (0.9, 0.99), weight_decay: float = 0.0) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    def _init_group(self, group: dict) -> None:
        for p in group["params"]:
            if p.grad is not None and not self.state[p]:
                self.state[p]["exp_avg"] = torch.zeros_like(p)

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        loss = None if closure is None else closure()
        for group in self.param_groups:
            self._init_group(group)
            (b1, b2), lr = group["betas"], group["lr"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                m = self.state[p]["exp_avg"]
                p.mul_(1 - lr * group["weight_decay"])
                p.sub_(lr * torch.sign(m * b1 + p.grad * (1 - b1)))
                m.mul_(b2).add_(p.grad, alpha=1 - b2)
        return loss
