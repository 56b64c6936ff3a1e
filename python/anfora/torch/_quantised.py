# SPDX-License-Identifier: Apache-2.0
"""Ops of quantised graphs (torchao's PT2E, `quantized_decomposed`) in ATen's, as their own definitions compute them:
codes = clamp(round(x * (1 / scale)) + zero), reals = (codes - zero) * scale. Products of such reals become products of bytes."""
from __future__ import annotations

import sys
from typing import Any, Callable

import torch

DEFINED_BY = "torch.ao.quantization.fx._decomposed"


def _codes(x: torch.Tensor, inverse: Any, zero: Any, low: int, high: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.clamp(torch.round(x.to(torch.float32) * inverse) + zero, low, high).to(dtype)


def _one(x: torch.Tensor) -> torch.Tensor:
    """The only element, as a number of f32."""
    return x.reshape(()).to(torch.float32)


def _inverse(scale: torch.Tensor) -> torch.Tensor:
    return (1.0 / scale.to(torch.float64)).to(torch.float32)


def _along(x: torch.Tensor, of: torch.Tensor, axis: int) -> torch.Tensor:
    """A value for each index of one axis."""
    return x.to(torch.float32).reshape([-1 if d == axis % of.dim() else 1 for d in range(of.dim())])


def quantize(x: torch.Tensor, scale: float, zero: int, low: int, high: int, dtype: torch.dtype) -> torch.Tensor:
    return _codes(x, 1.0 / scale, zero, low, high, dtype)


def quantize_tensor(x: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor, low: Any, high: Any, dtype: torch.dtype) -> torch.Tensor:
    return _codes(x, _inverse(scale).reshape(()), _one(zero), low, high, dtype)


def quantize_channels(x: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor, axis: int, low: int, high: int, dtype: torch.dtype) -> torch.Tensor:
    if scales.dtype != torch.float32:
        return NotImplemented
    return _codes(x, _along(1.0 / scales, x, axis), _along(zeros, x, axis), low, high, dtype)


def dequantize(q: torch.Tensor, scale: float, zero: int, low: int, high: int, dtype: torch.dtype, *, out_dtype: torch.dtype | None = None) -> torch.Tensor:
    return (q.to(out_dtype or torch.float32) - zero) * scale


def dequantize_tensor(q: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor, low: Any, high: Any, dtype: torch.dtype, *,
                      out_dtype: torch.dtype | None = None) -> torch.Tensor:
    out = out_dtype or torch.float32
    return (q.to(out) - _one(zero).to(out)) * _one(scale).to(out)


def dequantize_channels(q: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor | None, axis: int, low: int, high: int, dtype: torch.dtype, *,
                        out_dtype: torch.dtype | None = None) -> torch.Tensor:
    if q.dtype not in (torch.int8, torch.uint8, torch.int16):
        return NotImplemented  # codes that f32 has not
    reals = q.to(torch.float32)
    if zeros is not None:
        reals = reals - _along(zeros, q, axis)
    return (reals * _along(scales, q, axis)).to(out_dtype or torch.float32)


def choose(x: torch.Tensor, low: int, high: int, eps: float, dtype: torch.dtype) -> tuple:
    """Scale and zero point for the range of x, which has 0."""
    least, most = torch.clamp(torch.amin(x), max=0.0), torch.clamp(torch.amax(x), min=0.0)
    scale = torch.clamp(((most - least) / float(high - low)).to(torch.float32), min=eps)
    zero = torch.clamp(low - torch.round(least / scale).to(torch.int64), low, high)
    return scale.to(torch.float64).reshape(1), zero.reshape(1)


BY_NAME: dict[str, Callable] = {
    "quantize_per_tensor.default": quantize, "quantize_per_tensor.tensor": quantize_tensor, "quantize_per_tensor.tensor2": quantize_tensor,
    "quantize_per_channel.default": quantize_channels, "dequantize_per_tensor.default": dequantize,
    "dequantize_per_tensor.tensor": dequantize_tensor, "dequantize_per_tensor.tensor2": dequantize_tensor,
    "dequantize_per_channel.default": dequantize_channels, "choose_qparams.tensor": choose,
}


def quantised() -> dict:
    """Decompositions, by op; none before a library has defined the ops."""
    if DEFINED_BY not in sys.modules:
        return {}
    ops = torch.ops.quantized_decomposed
    return {getattr(getattr(ops, op), overload): f for (op, overload), f in ((name.split("."), f) for name, f in BY_NAME.items())}
