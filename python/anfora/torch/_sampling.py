# SPDX-License-Identifier: Apache-2.0
"""grid_sample of images and volumes, and its derivatives, in PyTorch's other ops: along each axis a coordinate reads a few elements, each
with a weight and the slope of that."""
from __future__ import annotations

import itertools
import math
from typing import Any

import torch

LINEAR, NEAREST, CUBIC = 0, 1, 2
ZEROS, BORDER, REFLECTION = 0, 1, 2
A = -0.75  # of the cubic that PyTorch takes


def placed(c: torch.Tensor, size: int, padding: int, corners: bool) -> tuple:
    """(coordinates where there are elements, the slope of that); those that are no number are the first element, unless all is zero outside"""
    slope = torch.ones_like(c)
    if padding == ZEROS:
        return c, slope
    if padding == REFLECTION:
        low, span = (0.0, size - 1.0) if corners else (-0.5, float(size))
        if span == 0:
            return torch.zeros_like(c), torch.zeros_like(c)
        far = (c - low).abs()
        turns, rest = torch.floor(far / span), torch.fmod(far, span)
        even = turns % 2 == 0
        slope = torch.where(even, 1.0, -1.0) * torch.where(c < low, -1.0, 1.0)
        c = torch.where(even, rest + low, span - rest + low)
    c = torch.where(torch.isnan(c), 0.0, c)
    return c.clamp(0, size - 1), torch.where((c > 0) & (c < size - 1), slope, 0.0).to(c.dtype)


def cubic(d: torch.Tensor) -> tuple:
    """The weight of an element at a distance, which is signed, and its slope."""
    a = d.abs()
    near, far = ((A + 2) * a - (A + 3)) * a * a + 1, A * (((a - 5) * a + 8) * a - 4)
    near_slope, far_slope = (3 * (A + 2) * a - 2 * (A + 3)) * a, A * ((3 * a - 10) * a + 8)
    return torch.where(a <= 1, near, far), d.sign() * torch.where(a <= 1, near_slope, far_slope)


def taps(u: torch.Tensor, size: int, mode: int, padding: int, corners: bool) -> tuple:
    """For places from -1 to 1 along an axis: [(the element, its weight, the slope of that)], and the slope of the coordinate."""
    scale = (size - 1) / 2 if corners else size / 2
    c = (u + 1) * scale if corners else ((u + 1) * size - 1) / 2
    slope = torch.full_like(c, scale)
    if mode != CUBIC:
        c, turned = placed(c, size, padding, corners)
        slope = slope * turned
    low = torch.floor(c)
    one = torch.ones_like(c)
    if mode == NEAREST:
        made = [(torch.round(c), one, torch.zeros_like(c))]
    elif mode == LINEAR:
        made = [(low, low + 1 - c, -one), (low + 1, c - low, one)]
    else:
        made = [(placed(low + k, size, padding, corners)[0], *cubic(c - low - k)) for k in range(-1, 3)]
    out = []
    for at, weight, rise in made:
        there = (at >= 0) & (at < size)
        weight, rise = (torch.where(there | torch.isnan(w), w, 0.0) for w in (weight, rise))  # no number for a place that is none
        out.append((torch.where(there, at, 0.0).to(torch.int64), weight, rise))
    return out, slope


def read(x: torch.Tensor, grid: torch.Tensor, mode: int, padding: int, corners: bool) -> tuple:
    """[(which elements of each channel, [their weights by axis], [the slopes])], and the slopes of the coordinates by axis"""
    sizes, n = x.shape[2:], x.shape[0]
    axes = [taps(grid[..., len(sizes) - 1 - k].reshape(n, -1), s, mode, padding, corners) for k, s in enumerate(sizes)]
    out = []
    for chosen in itertools.product(*(a[0] for a in axes)):
        at = chosen[0][0]
        for size, (i, _, _) in zip(sizes[1:], chosen[1:]):
            at = at * size + i
        out.append((at[:, None].expand(n, x.shape[1], at.shape[1]), [w for _, w, _ in chosen], [s for _, _, s in chosen]))
    return out, [a[1] for a in axes]


def sample(x: torch.Tensor, grid: torch.Tensor, mode: int, padding: int, corners: bool) -> Any:
    if not x.numel() or not grid.numel():
        return NotImplemented
    flat = x.flatten(2)
    y = sum(flat.gather(2, at) * math.prod(weights)[:, None] for at, weights, _ in read(x, grid, mode, padding, corners)[0])
    return y.reshape(*x.shape[:2], *grid.shape[1:-1])  # type: ignore[union-attr]


def sample_backward(grad: torch.Tensor, x: torch.Tensor, grid: torch.Tensor, mode: int, padding: int, corners: bool, wanted: list) -> Any:
    if not x.numel() or not grid.numel():
        return NotImplemented
    flat, dy = x.flatten(2), grad.flatten(2)
    dx, rises = torch.zeros_like(flat), [torch.zeros_like(grid[..., 0].flatten(1)) for _ in x.shape[2:]]
    elements, slopes = read(x, grid, mode, padding, corners)
    for at, weights, their in elements:
        weight = math.prod(weights)
        if padding == ZEROS:
            weight = torch.where(torch.isnan(weight), 0.0, weight)
        dx = dx.scatter_add(2, at, dy * weight[:, None]) if wanted[0] else dx
        along = (dy * flat.gather(2, at)).sum(1) if wanted[1] and mode != NEAREST else None
        for k in range(len(rises) if along is not None else 0):
            rises[k] = rises[k] + along * math.prod([s if i == k else w for i, (w, s) in enumerate(zip(weights, their))])
    dgrid = torch.stack([r * s for r, s in zip(rises, slopes)][::-1], -1).reshape(grid.shape)
    return (dx.reshape(x.shape) if wanted[0] else None), (dgrid if wanted[1] else None)
