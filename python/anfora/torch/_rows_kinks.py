# SPDX-License-Identifier: Apache-2.0
"""Rows of functions with kinks and ties, where PyTorch's derivative is a choice: a half to each of two that are equal, all to the first
of several, none at a bound. Where Anfora differentiates the program (`g.derived`), they are written such that its derivative is that."""
from __future__ import annotations

import math
from typing import Any

import torch

from ._graph import DTYPES, Dims, LOW, Unsupported, Value, number
from ._rows_index import from_start
from ._rows_shape import reduced
from ._table import row


# ---- the greater of two ----

def greater(g: Any, op: str, a: Value, b: Value) -> str:
    """Maximum or Minimum; the slope at ties is a half each, as that of a reduction is shared."""
    if not g.derived or not g.out.dtype.is_floating_point:
        return f"{op}({a}, {b})"
    a, b = g.broadcast(a, g.out.shape), g.broadcast(b, g.out.shape)
    return f"{op.removesuffix('imum')}(Stack({a}, {b}, axis=0), axis=0)"


def extreme_of(g: Any) -> str:
    return "Maximum" if "max" in str(g.node.target) else "Minimum"


@row("maximum", "minimum", "prims.maximum", "prims.minimum")
def maximum(g: Any, self_: Any, other: Any) -> Any:
    return greater(g, extreme_of(g), g.cast(self_, g.out.dtype), g.cast(other, g.out.dtype))


@row("fmax", "fmin", "prims.fmax", "prims.fmin")
def fmax(g: Any, self_: Any, other: Any) -> Any:
    """The other where one is NaN."""
    a, b = g.cast(self_, g.out.dtype), g.cast(other, g.out.dtype)
    return f"Where({a} != {a}, {b}, Where({b} != {b}, {a}, {greater(g, extreme_of(g), a, b)}))"


# ---- bounds ----

def _within(bound: Any, last: int, dtype: torch.dtype) -> Any:
    """A bound of integers; None: all are on its side, since even the last is."""
    if bound is None or isinstance(bound, Value):
        return bound
    if bound < last if last <= 0 else bound > last:
        return None
    if not torch.iinfo(dtype).min <= bound <= torch.iinfo(dtype).max:
        raise Unsupported(f"{bound} is no {DTYPES[dtype]}")
    return bound


@row("clamp", "clip", "hardtanh")
def clamp(g: Any, self_: Value, min: Any = None, max: Any = None, min_val: Any = None, max_val: Any = None) -> Any:
    low, high = min_val if min is None else min, max_val if max is None else max
    x = g.cast(self_, g.out.dtype)
    if not x.dtype.is_floating_point:
        low, high = _within(low, torch.iinfo(x.dtype).min, x.dtype), _within(high, torch.iinfo(x.dtype).max, x.dtype)
    if not isinstance(low, Value) and not isinstance(high, Value) and None not in (low, high) and low > high:
        low = high
    for op, sign, bound in (("Maximum", "<=", low), ("Minimum", ">=", high)):
        if bound is None:
            continue
        limit = g.cast(bound, x.dtype)
        if isinstance(bound, Value) or bound != bound:
            text = greater(g, op, x, limit)
        else:  # no slope at a bound that is a number
            text = f"Where({x} {sign} {limit}, {limit}, {x})" if g.derived else f"{op}({x}, {limit})"
        x = g.let(text, x.dtype, g.out.shape)
    return x


@row("clamp_min", "clamp_max")
def clamp_one(g: Any, self_: Value, min: Any = None, max: Any = None) -> Any:
    return clamp(g, self_, min, max)


@row("hardswish")
def hardswish(g: Any, self_: Value) -> Any:
    x, t = g.cast(self_, g.out.dtype), g.out.dtype
    if not g.derived:
        return f"HardSwish({x})"
    return f"Where({x} <= {number(-3, t)}, {number(0, t)}, Where({x} >= {number(3, t)}, {x}, HardSwish({x})))"


@row("xlogy", "special_xlog1py")
def xlogy(g: Any, self_: Any, other: Any) -> Any:
    """x log(y), 0 where x is 0, with eager's slopes there: log(y) by x where that is a number, else 0. Eager rounds the logarithm of
    narrow types, too."""
    t, log1p = g.out.dtype, "log1p" in str(g.node.target)
    x, y = g.cast(self_, t), g.cast(other, t)
    none = f"({x} == {number(0, t)}) & (({y} <= {number(-1 if log1p else 0, t)}) | ({y} == {number(math.inf, t)}))"
    log = g.let(f"Where({none}, {number(0, t)}, {'Log1p' if log1p else 'Log'}({y}))", t, g.out.shape)
    return f"{x} * {log}"


# ---- the loss of a probability ----

@row("binary_cross_entropy")
def binary_cross_entropy(g: Any, self_: Value, target: Value, weight: Any, reduction: int) -> Any:
    """Logarithms are at least -100. The slope, (x - y) / max(x (1 - x), 1e-12), is not that of these bounds."""
    t = torch.float32 if self_.dtype in LOW else self_.dtype
    x, y = g.cast(self_, t), g.cast(target, t)
    zero, one, least = number(0, t), number(1, t), number(-100, t)
    for v, name in ((x, "input"), (y, "target")):
        g.check_all(f"LogicalAnd({v} >= {zero}, {v} <= {one})", f"all elements of {name} should be between 0 and 1")
    loss = g.let(f"({y} - {one}) * Maximum(Log1p(-{x}), {least}) - {y} * Maximum(Log({x}), {least})", t, x.shape)
    if g.derived:
        slope = f"({x} - {y}) / Maximum({x} * ({one} - {x}), {number(1e-12, t)})"
        by_target = f"Maximum(Log1p(-{x}), {least}) - Maximum(Log({x}), {least})"
        loss = g.let(f"StopGradient({loss}) + StopGradient({slope}) * ({x} - StopGradient({x})) + "
                     f"StopGradient({by_target}) * ({y} - StopGradient({y}))", t, x.shape)
    if weight is not None:
        loss = g.let(f"{loss} * {g.cast(weight, t)}", t, x.shape)
    return loss if reduction == 0 else g.let(f"{'Mean' if reduction == 1 else 'Sum'}({loss})", t, ())


# ---- the greatest along an axis ----

@row("max.dim", "min.dim")
def max_dim(g: Any, self_: Value, dim: int, keepdim: bool) -> Any:
    op = "Max" if "max" in str(g.node.target) else "Min"
    y, at = g.out
    place = g.let(f"Reshape({reduced(g, 'Arg' + op, self_, dim)}, shape={at.shape})", at.dtype, at.shape)
    if not g.derived or not self_.ndim:
        return [g.let(f"Reshape({reduced(g, op, self_, dim)}, shape={y.shape})", y.dtype, y.shape), place]
    axis = dim % self_.ndim
    line = [1 if i == axis else d for i, d in enumerate(self_.shape)]
    taken = g.let(f"TakeAlongAxis({self_}, {g.reshape(place, line)}, axis={axis})", y.dtype, line)  # all of the slope to that one
    return [g.reshape(taken, y.shape), place]


# ---- distances, whose slope is 0 at 0 ----

def rooted(g: Any, total: str, p: float, t: Any, shape: Any) -> str:
    """total ^ (1 / p)"""
    x = g.let(total, t, shape)
    root = "Sqrt({})" if p == 2 else f"Power({{}}, {number(1 / p, t)})"
    if not g.derived:
        return root.format(x)
    zero, one = number(0, t), number(1, t)
    return f"Where({x} == {zero}, {zero}, {root.format(f'Where({x} == {zero}, {one}, {x})')})"


@row("linalg_vector_norm")
def vector_norm(g: Any, self_: Value, ord: float, dim: Any, keepdim: bool, dtype: Any) -> Any:
    t = g.out.dtype
    x = self_ if self_.dtype.is_complex else g.cast(self_, t)
    if not x.ndim:
        x, dim = g.reshape(x, (1,)), None
    dims = Dims(range(x.ndim) if dim is None or dim == [] else sorted(d % x.ndim for d in ([dim] if isinstance(dim, int) else dim)))
    size = g.cast(g.let(f"Abs({x})", t if not x.dtype.is_complex else g.out.dtype, x.shape), t)
    if not x.numel:
        raise Unsupported("it has no elements")
    if math.isinf(ord):
        return f"Reshape({'Max' if ord > 0 else 'Min'}({size}, axis={dims}), shape={g.out.shape})"
    if ord == 0:
        return f"Reshape(Sum(Cast({size} != {number(0, t)}, dtype={DTYPES[t]}), axis={dims}), shape={g.out.shape})"
    if ord == 1:
        return f"Reshape(Sum({size}, axis={dims}), shape={g.out.shape})"
    power = f"Square({size})" if ord == 2 else f"Power({size}, {number(ord, t)})"
    return rooted(g, f"Reshape(Sum({power}, axis={dims}), shape={g.out.shape})", ord, t, g.out.shape)


@row("_cdist_forward", "_euclidean_dist")
def cdist(g: Any, x1: Value, x2: Value, p: float = 2.0, compute_mode: Any = None) -> Any:
    a, b = g.reshape(x1, (*x1.shape[:-1], 1, x1.shape[-1])), g.reshape(x2, (*x2.shape[:-2], 1, *x2.shape[-2:]))
    d, last, t = f"Abs({a} - {b})", g.out.ndim, g.out.dtype
    if p == 0:
        return f"Sum(Cast({d} != 0, dtype={DTYPES[t]}), axis={last})"
    if math.isinf(p):
        return f"Max({d}, axis={last})"
    if p == 1:
        return f"Sum({d}, axis={last})"
    power = f"Square({d})" if p == 2 else f"Power({d}, {number(p, t)})"
    return rooted(g, f"Sum({power}, axis={last})", p, t, g.out.shape)


@row("_cdist_backward")
def cdist_backward(g: Any, grad_output: Value, x1: Value, x2: Value, p: float, cdist: Value) -> Any:
    if p not in (1, 2):
        raise Unsupported(f"its norm has the order {p}")
    if 0 in grad_output.shape:  # PyTorch's has the shape of x1 then, not that of the batch
        return f"Full({number(0, g.out.dtype)}, shape={g.out.shape})"
    a, b = g.reshape(x1, (*x1.shape[:-1], 1, x1.shape[-1])), g.reshape(x2, (*x2.shape[:-2], 1, *x2.shape[-2:]))
    dy, d = (g.reshape(v, (*v.shape, 1)) for v in (grad_output, cdist))
    slope = f"Sign({a} - {b})" if p == 1 else f"SafeDiv({a} - {b}, {d})"
    return f"Sum({dy} * {slope}, axis={g.out.ndim - 1})"


# ---- rows that are not trained ----

def over_counts(g: Any, rows: Value, indices: Value, n: int) -> Value:
    """The rows; their gradient is divided by how often each is there."""
    at = g.reshape(g.let(from_start(g, indices), indices.dtype, indices.shape), (indices.numel, 1))
    ones = f"BroadcastTo(i64(1), shape={Dims((indices.numel,))})"
    counts = g.let(f'ScatterNd(Zeros(shape={Dims((n,))}, dtype=i64), {at}, {ones}, mode="add")', torch.int64, (n,))
    shape = Dims((*indices.shape, 1))
    each = g.cast(g.let(f"Take({counts}, {g.reshape(at, shape)}, axis=0)", torch.int64, shape), rows.dtype)
    x, residuals, dy = (g.fresh() for _ in range(3))
    return g.let(f"custom_vjp(fn ({x}) {{ {x} }}, fn ({x}) {{ ({x}, ()) }}, fn ({residuals}, {dy}) {{ ({dy} / {each},) }})({rows})", rows.dtype, rows.shape)


@row("embedding")
def embedding(g: Any, weight: Value, indices: Value, padding_idx: int, scale_grad_by_freq: bool, sparse: bool) -> Any:
    taken = g.let(f"Take({weight}, {from_start(g, indices)}, axis=0)", g.out.dtype, g.out.shape)
    if not g.derived:
        return taken
    if scale_grad_by_freq:
        taken = over_counts(g, taken, indices, weight.shape[0])
    if padding_idx < 0:
        return taken
    here = g.reshape(indices, (*indices.shape, 1))
    return f"Where({here} == {number(padding_idx, indices.dtype)}, StopGradient({taken}), {taken})"
