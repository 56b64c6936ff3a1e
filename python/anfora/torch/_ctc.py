# SPDX-License-Identifier: Apache-2.0
"""torch.ctc_loss in what compile_step traces (Graves et al. 2006): the forward variables of all sequences of a batch, a loop over the steps.

The labels of a sequence, a blank before, between and after them, are its states. alpha[s] is the logarithm of the weight of all paths that
are in state s after a step; a path stays, goes on by one, or by two where that leaves out a blank between different labels. Anfora
differentiates the loop. PyTorch's derivative has a term more, exp(log_probs), which the derivative of log_softmax takes away again."""
from __future__ import annotations

import math
from typing import Any

import torch

from .._ops import op
from .._transform import stop_gradient
from ._graph import Value
from ._table import row

NEVER = -math.inf


@torch.library.custom_op("anfora::ctc_alpha", mutates_args=())
def _alpha(start: torch.Tensor, rows: torch.Tensor, lengths: torch.Tensor, skips: torch.Tensor) -> torch.Tensor:
    """The forward variables after the last of `lengths` steps. start: those after the first; rows: the logarithms of the probabilities of
    each state in the other steps; skips: the states that a path may come to by two."""
    alpha = start
    for t, r in enumerate(rows):
        wide = torch.nn.functional.pad(alpha, (2, 0), value=NEVER)
        came = torch.stack([alpha, wide[:, 1:-1], torch.where(skips, wide[:, :-2], NEVER)]).logsumexp(0)
        alpha = torch.where((t + 1 < lengths)[:, None], came + r, alpha)
    return alpha.clone()


_alpha.register_fake(lambda start, rows, lengths, skips: torch.empty_like(start))


def alpha_of(start, rows, lengths, skips):
    """The same as a function of the library."""
    alpha, wall = start, op.full_like(start[:, :2], NEVER)
    for t in range(rows.shape[0]):
        wide = op.concatenate([wall, alpha], 1)
        one, two = wide[:, 1:-1], op.where(skips, wide[:, :-2], op.full_like(start, NEVER))
        greatest = op.maximum(op.maximum(alpha, one), two)
        m = stop_gradient(op.where(op.isinf(greatest), op.zeros_like(greatest), greatest))
        sum_ = op.exp(alpha - m) + op.exp(one - m) + op.exp(two - m)
        came = op.where(sum_ == 0, op.full_like(m, NEVER), m + op.log(op.where(sum_ == 0, op.ones_like(sum_), sum_)))
        alpha = op.where((t + 1 < lengths)[:, None], came + rows[t], alpha)
    return (alpha,)


@row("anfora.ctc_alpha")
def _row(g: Any, start: Value, rows: Value, lengths: Value, skips: Value) -> Any:
    return g.let(f"{g.function(alpha_of)}({start}, {rows}, {lengths}, {skips})[0]", start.dtype, start.shape)


def _labels(targets: torch.Tensor, lengths: torch.Tensor, most: int) -> torch.Tensor:
    """The labels of each sequence, of which those of a flat list follow one another; `most` are enough."""
    if targets.dim() == 2:
        return targets[:, :most]
    at = (lengths.cumsum(0) - lengths)[:, None] + torch.arange(min(most, targets.numel()))
    return targets[at.clamp(max=targets.numel() - 1)] if targets.numel() else targets.new_zeros(len(lengths), 0)


def _either(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The logarithm of the sum of two weights, either of which may be 0."""
    greatest = torch.ops.anfora.stop_gradient(torch.maximum(a, b))
    m = torch.where(torch.isinf(greatest), 0.0, greatest)
    total = torch.exp(a - m) + torch.exp(b - m)
    return torch.where(total == 0, NEVER, m + torch.log(torch.where(total == 0, 1.0, total)))


def ctc_loss(log_probs: torch.Tensor, targets: torch.Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0, reduction: int = 1,
             zero_infinity: bool = False) -> torch.Tensor:
    """torch.ctc_loss without sizes that depend on lengths."""
    single = log_probs.dim() == 2
    if single:
        log_probs = log_probs[:, None]
        targets = targets[None] if targets.dim() == 1 else targets
    steps, n, _ = log_probs.shape
    given, many = (torch.as_tensor(x).reshape(-1).to(torch.int64) for x in (input_lengths, target_lengths))
    most = min(steps, targets.shape[-1])
    torch._assert_async((given <= steps).all(), f"Expected input_lengths to have value at most {steps}")
    enough = (many <= targets.shape[1]).all() if targets.dim() == 2 else many.sum() <= targets.numel()
    torch._assert_async(enough & (many >= 0).all(), "Expected target_lengths to have values of at most as many as there are targets")
    labels = _labels(targets.to(torch.int64), many, most)
    most = labels.shape[1]
    labels = torch.where(torch.arange(most) < many[:, None], labels, blank)  # the others do not count
    states = torch.full((n, 2 * most + 1), blank, dtype=torch.int64)
    states = torch.stack([states[:, 1::2], labels], 2).reshape(n, 2 * most)
    states = torch.cat([states, states.new_full((n, 1), blank)], 1)
    skips = torch.cat([states.new_zeros(n, 2).bool(), states[:, 2:] != states[:, :-2]], 1) & (states != blank)
    rows = log_probs.gather(2, states.expand(steps, n, 2 * most + 1))
    first = torch.arange(2 * most + 1) < 1 + (many > 0).to(torch.int64)[:, None]
    alpha = torch.ops.anfora.ctc_alpha(torch.where(first, rows[0], NEVER), rows[1:], given, skips)
    end = (2 * many).clamp(max=2 * most)[:, None]
    last, before = alpha.gather(1, end)[:, 0], alpha.gather(1, (end - 1).clamp(min=0))[:, 0]
    weight = torch.where(many > most, NEVER, _either(last, torch.where(many > 0, before, NEVER)))
    weight = torch.where(given > 0, weight, torch.where(many == 0, 0.0, NEVER).to(weight.dtype))
    here = torch.arange(steps)[:, None] < given
    more = torch.where(here, log_probs.exp().sum(2), 0.0).sum(0)
    never, zero = torch.isinf(weight), more - torch.ops.anfora.stop_gradient(more)
    if zero_infinity:
        losses = torch.where(never, 0.0, zero - weight)
    else:  # where no path spells the labels, eager has no derivative: here it is infinite, that of the root of 0
        losses = torch.where(never, torch.sqrt(torch.where(never, zero, 1.0)), zero) - weight
    if reduction == 1:
        return (losses / many.clamp(min=1)).mean()
    return losses.sum() if reduction == 2 else losses[0] if single else losses
