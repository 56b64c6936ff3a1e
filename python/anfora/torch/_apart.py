# SPDX-License-Identifier: Apache-2.0
"""Ops that PyTorch has no decomposition of, written in its other ops. NotImplemented: as if there were none."""
from __future__ import annotations

from typing import Any, Callable

import torch
import torch.nn.functional as F
from torch._decomp.decompositions import _compute_upsample_nearest_indices

from ._graph import LOW
from ._sampling import sample, sample_backward

aten = torch.ops.aten


# ---- distances ----

def pairs(x: torch.Tensor, p: float = 2.0) -> torch.Tensor:
    """The p-norm of the difference of each two rows, the first one's index first."""
    if x.numel() == 0 or x.shape[0] == 1:
        return torch.zeros(x.shape[0] * (x.shape[0] - 1) // 2, dtype=x.dtype, device=x.device)
    i, j = torch.triu_indices(x.shape[0], x.shape[0], 1, device=x.device)
    return torch.linalg.vector_norm(x[i] - x[j], p, dim=-1)


def pairs_backward(grad: torch.Tensor, x: torch.Tensor, p: float, distances: torch.Tensor) -> torch.Tensor:
    if x.numel() == 0 or x.shape[0] == 1:
        return torch.zeros_like(x)
    i, j = torch.triu_indices(x.shape[0], x.shape[0], 1, device=x.device)
    d, apart = x[i] - x[j], (distances != 0)[:, None]
    if p == 0:
        slope = torch.zeros_like(d)
    elif p == float("inf"):
        slope = torch.where(d.abs() == distances[:, None], d.sign(), 0.0)
    else:  # |d| ** (p - 1) / distance ** (p - 1)
        slope = d.sign() * (d.abs() / torch.where(apart, distances[:, None], 1.0)) ** (p - 1)
    each = grad[:, None] * torch.where(apart, slope, 0.0)
    return torch.zeros_like(x).index_add(0, i, each).index_add(0, j, -each)


# ---- rows of embeddings ----

def renormed(weight: torch.Tensor, indices: torch.Tensor, max_norm: float, norm_type: float) -> torch.Tensor:
    """Rows that are read and longer than max_norm, made as long."""
    norms = torch.linalg.vector_norm(weight, norm_type, dim=1)
    read = torch.zeros_like(norms, dtype=torch.bool).index_fill(0, indices.reshape(-1), True)
    return torch.where((read & (norms > max_norm))[:, None], weight * (max_norm / (norms + 1e-7))[:, None], weight)


# ---- bags of rows ----

SUM, MEAN, MAX = range(3)


def _bags(indices: torch.Tensor, offsets: torch.Tensor, weights: torch.Tensor | None, padding: int, of: torch.dtype, last: bool) -> tuple:
    """(how many bags, the bag of each index, its weight, the counted indices of each bag)"""
    bags = offsets.shape[0] - last
    ends = (offsets >= 0) & (offsets <= indices.shape[0])
    sound = ends.all() & (offsets[0] == 0) & (offsets[1:] >= offsets[:-1]).all()  # eager reads what is not there if they decrease
    aten._assert_async.msg(sound, "embedding_bag: offsets has to begin with 0, not to decrease, and to be between 0 and the number of indices")
    place = torch.arange(indices.shape[0], device=indices.device)
    bag = torch.searchsorted(offsets[:bags].to(torch.int64), place, right=True) - 1
    counted = indices != padding
    scale = counted.to(of) if weights is None else torch.where(counted, weights, 0.0)
    size = torch.zeros(bags, dtype=torch.int64, device=indices.device).index_add(0, bag, counted.to(torch.int64))
    return bags, bag, scale, size


def bag(weight: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor, by_frequency: bool = False, mode: int = 0, sparse: bool = False,
        weights: torch.Tensor | None = None, last: bool = False, padding: int = -1) -> Any:
    if mode not in (SUM, MEAN, MAX) or sparse or by_frequency or offsets.shape[0] == last or mode == MAX and indices.shape[0] == 0:
        return NotImplemented
    n, of, scale, size = _bags(indices, offsets, weights, padding, weight.dtype, last)
    if mode == MAX:
        filled, rows = _greatest(weight, indices, of, indices != padding, n)
        return torch.where(filled, weight.gather(0, rows), 0.0), of, size, torch.where(filled, rows, -1)
    sums = torch.zeros(n, weight.shape[1], dtype=weight.dtype, device=weight.device).index_add(0, of, weight.index_select(0, indices) * scale[:, None])
    out = sums / size.clamp(min=1)[:, None].to(weight.dtype) if mode == MEAN else sums
    return out, of, size, torch.zeros_like(size)


def _greatest(weight: torch.Tensor, indices: torch.Tensor, of: torch.Tensor, counted: torch.Tensor, bags: int) -> tuple:
    """(whether a bag has rows, the row of its first greatest element) of each bag and column: NaN if it is the first one, others are left out."""
    n, rows, at = indices.shape[0], weight.index_select(0, indices), torch.arange(indices.shape[0], device=indices.device)
    begin = torch.full((bags,), n, device=indices.device).index_reduce(0, of, torch.where(counted, at, n), "amin").index_select(0, of)
    low = torch.where(counted[:, None] & ((rows == rows) | (at == begin)[:, None]), rows, float("-inf"))
    top = low.new_full((bags, weight.shape[1]), float("-inf")).index_reduce(0, of, low, "amax").index_select(0, of)
    here = counted[:, None] & ((low == top) | (low != low))
    place = torch.where(here, at[:, None], n)
    first = torch.full((bags, weight.shape[1]), n, device=indices.device).index_reduce(0, of, place, "amin")
    return first < n, indices.index_select(0, first.clamp(max=n - 1).reshape(-1)).reshape(first.shape)


def bag_backward(grad: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor, of: torch.Tensor, size: torch.Tensor, maxima: torch.Tensor, rows: int,
                 by_frequency: bool, mode: int, sparse: bool, weights: torch.Tensor | None, padding: int = -1) -> Any:
    if mode not in (SUM, MEAN, MAX) or sparse or by_frequency:
        return NotImplemented
    if mode == MAX:
        return grad.new_zeros(rows, grad.shape[1]).scatter_add(0, maxima.clamp(min=0), torch.where(maxima >= 0, grad, 0.0))
    each = grad / size.clamp(min=1)[:, None].to(grad.dtype) if mode == MEAN else grad
    counted = indices != padding
    scale = counted.to(grad.dtype) if weights is None else torch.where(counted, weights, 0.0)
    return torch.zeros(rows, grad.shape[1], dtype=grad.dtype, device=grad.device).index_add(0, indices, each[of] * scale[:, None])


def bag_weights_backward(grad: torch.Tensor, weight: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor, of: torch.Tensor, mode: int,
                         padding: int = -1) -> torch.Tensor:
    return torch.where(indices != padding, (grad[of] * weight[indices]).sum(-1), 0.0)


# ---- what torch.nn runs without gradients ----

def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, size: int, heads: int, weight: torch.Tensor, bias: torch.Tensor,
              out_weight: torch.Tensor, out_bias: torch.Tensor, mask: torch.Tensor | None = None, need_weights: bool = True,
              average: bool = True, mask_type: int | None = None) -> Any:
    if q is not k or k is not v or need_weights or q.is_nested:
        return NotImplemented
    b, n, _ = q.shape
    q, k, v = (x.reshape(b, n, heads, size // heads).transpose(1, 2) for x in F.linear(q, weight, bias).chunk(3, -1))
    if mask is not None:  # it tells what is left out, of keys if its type is 1
        mask = (mask[:, None, None, :] if mask_type == 1 else mask).to(torch.bool).logical_not()
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return F.linear(y.transpose(1, 2).reshape(b, n, size), out_weight, out_bias), None


def encoder_layer(x: torch.Tensor, size: int, heads: int, qkv_weight: Any, qkv_bias: Any, out_weight: Any, out_bias: Any, gelu: bool,
                  norm_first: bool, eps: float, norm1: Any, norm1_bias: Any, norm2: Any, norm2_bias: Any, w1: Any, b1: Any, w2: Any, b2: Any,
                  mask: Any = None, mask_type: int | None = None) -> Any:
    def attend(x: Any) -> Any:
        return attention(x, x, x, size, heads, qkv_weight, qkv_bias, out_weight, out_bias, mask, False, True, mask_type)[0]

    def feed(x: Any) -> Any:
        y = F.linear(x, w1, b1)
        return F.linear(F.gelu(y) if gelu else F.relu(y), w2, b2)

    def norm(x: Any, weight: Any, bias: Any) -> Any:
        return F.layer_norm(x, (size,), weight, bias, eps)
    if x.is_nested:
        return NotImplemented
    if norm_first:
        x = x + attend(norm(x, norm1, norm1_bias))
        return x + feed(norm(x, norm2, norm2_bias))
    x = norm(x + attend(x), norm1, norm1_bias)
    return norm(x + feed(x), norm2, norm2_bias)


# ---- elements in the middle ----

def median(x: torch.Tensor) -> torch.Tensor:
    return median_of(x.reshape(-1), 0)[0] if x.numel() else NotImplemented


def median_of(x: torch.Tensor, dim: int, keep: bool = False) -> Any:
    """The lower one of two in the middle; the first element that is no number, if there is one."""
    if x.dim() == 0 or x.shape[dim] == 0:
        return (x.clone(), torch.zeros_like(x, dtype=torch.int64)) if x.dim() == 0 else NotImplemented
    value, place = torch.kthvalue(x, (x.shape[dim] + 1) // 2, dim, keep)
    if not x.is_floating_point():
        return value, place
    wrong = torch.isnan(x)
    some = wrong.any(dim, keep)
    return torch.where(some, float("nan"), value), torch.where(some, wrong.to(torch.int32).argmax(dim, keep), place)


def nanmedian(x: torch.Tensor) -> torch.Tensor:
    return nanmedian_of(x.reshape(-1), 0)[0] if x.numel() else NotImplemented


def nanmedian_of(x: torch.Tensor, dim: int, keep: bool = False) -> Any:
    """Of the elements that are numbers."""
    if x.dim() == 0 or not x.is_floating_point() or x.shape[dim] == 0:
        return median_of(x, dim, keep)
    value, place = torch.sort(x, stable=True, dim=dim)
    middle = (torch.isnan(x).logical_not().sum(dim, True) - 1).clamp(min=0) // 2
    value, place = value.gather(dim, middle), place.gather(dim, middle)
    return (value, place) if keep else (value.squeeze(dim), place.squeeze(dim))


# ---- numbers 0 and 1 of given probabilities ----

def zero_or_one(p: torch.Tensor) -> torch.Tensor:
    """What eager draws: 1 where a number between 0 and 1 is less than the probability."""
    aten._assert_async.msg(((p >= 0) & (p <= 1)).all(), "bernoulli: probabilities have to be between 0 and 1")
    of = torch.float64 if p.dtype is torch.float64 else torch.float32
    return (torch.rand(p.shape, dtype=of, device=p.device) < p).to(p.dtype)


# ---- normal numbers of given means and deviations ----

def normal(mean: Any, std: Any = 1.0, *, generator: Any = None) -> Any:
    """What eager draws: numbers of the standard distribution, row by row."""
    tensors = [x for x in (mean, std) if isinstance(x, torch.Tensor)]
    of = tensors[0].dtype
    if generator is not None or any(not x.is_floating_point() or x.dtype in LOW for x in tensors) or isinstance(std, float) and not std >= 0:
        return NotImplemented
    if isinstance(std, torch.Tensor):
        aten._assert_async.msg((std >= 0).all(), "normal expects all elements of std >= 0.0")
    noise = torch.randn(torch.broadcast_shapes(*(x.shape for x in tensors)), dtype=of, device=tensors[0].device)
    return ((noise * std).to(of) + mean).to(of)


# ---- places of given probabilities ----

def drawn_places(p: torch.Tensor, n: int, replacement: bool = False, generator: Any = None) -> Any:
    """What eager draws: one place, or several different ones, where probabilities over numbers of an exponential distribution are greatest;
    several with replacement where the sums of probabilities pass numbers between 0 and 1."""
    if generator is not None or not p.is_floating_point() or p.dtype in LOW or p.dim() not in (1, 2) or not p.numel() or n < 1 or \
            n > p.shape[-1] and not replacement:
        return NotImplemented
    sound = (torch.isfinite(p) & (p >= 0)).all()
    aten._assert_async.msg(sound, "multinomial: probability tensor contains either `inf`, `nan` or element < 0")
    some = (p > 0).sum(-1)
    aten._assert_async.msg((some >= (1 if replacement else n)).all(),
                           "multinomial: invalid distribution (sum of probabilities <= 0)" if replacement or n == 1 else
                           "multinomial: invalid multinomial distribution (with replacement=False, not enough non-negative category to sample)")
    if n == 1 or not replacement:
        q = p / aten.exponential.default(torch.empty_like(p))
        return q.argmax(-1, keepdim=True) if n == 1 else q.topk(n, -1)[1]
    sums = p.cumsum(-1)
    sums = sums / sums[..., -1:]
    sums = torch.cat([sums[..., :-1], torch.ones_like(sums[..., -1:])], -1)
    at = torch.rand((*p.shape[:-1], n), dtype=torch.float64, device=p.device)
    return (sums[..., None, :].to(torch.float64) < at[..., None]).sum(-1)


# ---- weights by direction and length ----

def weight_norm_backward(grad: torch.Tensor, v: torch.Tensor, g: torch.Tensor, norms: torch.Tensor, dim: int) -> tuple:
    """Of w = v * g / norms, where norms are those of v along all axes but one."""
    others = [i for i in range(v.dim()) if i != dim % v.dim()]
    norms = norms.to(v.dtype)
    along = (grad * v).sum(others, True) / norms if others else grad * v / norms
    return g / norms * (grad - v * (along / norms)), along.to(g.dtype)


# ---- backward passes that appear by their names where a gradient is differentiated ----

def shrink_backward(grad: torch.Tensor, self: torch.Tensor, lambd: float) -> torch.Tensor:
    return torch.where((self >= -lambd) & (self <= lambd), torch.zeros_like(grad), grad)


def nearest_backward(exact: bool) -> Callable:
    """Of upsample_nearest: each element of the input has the sum of the adjoints of those that were read from it."""
    def backward(grad: torch.Tensor, output_size: Any, input_size: Any, *scales: float | None) -> torch.Tensor:
        n = len(output_size)
        places = _compute_upsample_nearest_indices(grad.new_empty(input_size), output_size, (*scales, *[None] * (n - len(scales))), exact=exact)
        for axis, at in zip(range(2, 2 + n), places):
            shape = [*grad.shape[:axis], input_size[axis], *grad.shape[axis + 1:]]
            grad = grad.new_zeros(shape).index_add(axis, at.reshape(-1), grad)
        return grad
    return backward


APART: dict[Any, Callable] = {
    aten.softshrink_backward.default: shrink_backward, aten.hardshrink_backward.default: shrink_backward,
    **{getattr(aten, f"{name}{n}d_backward").default: nearest_backward("exact" in name)
       for name in ("upsample_nearest", "_upsample_nearest_exact") for n in (1, 2, 3)},
    aten.embedding_renorm.default: renormed,
    aten.bernoulli.default: zero_or_one, aten.multinomial.default: drawn_places,
    **dict.fromkeys((aten.normal.Tensor_Tensor, aten.normal.Tensor_float, aten.normal.float_Tensor), normal),
    aten._weight_norm_interface_backward.default: weight_norm_backward,
    aten.median.default: median, aten.median.dim: median_of, aten.nanmedian.default: nanmedian, aten.nanmedian.dim: nanmedian_of,
    aten._pdist_forward.default: pairs, aten._pdist_backward.default: pairs_backward,
    aten._embedding_bag.default: bag, aten._embedding_bag_forward_only.default: bag, aten._embedding_bag_backward.default: bag_backward,
    aten._embedding_bag_per_sample_weights_backward.default: bag_weights_backward,
    aten.grid_sampler_2d.default: sample, aten.grid_sampler_3d.default: sample, aten.grid_sampler_2d_backward.default: sample_backward,
    aten.grid_sampler_3d_backward.default: sample_backward,
    aten._native_multi_head_attention.default: attention, aten._transformer_encoder_layer_fwd.default: encoder_layer,
}
