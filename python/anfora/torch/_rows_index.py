# SPDX-License-Identifier: Apache-2.0
"""Rows: reading and replacing parts that tensors of indices name."""
from __future__ import annotations

import math
from typing import Any

import torch

from ._graph import DTYPES, Dims, Unsupported, Value, number
from ._table import row

MODES = {None: "update", "add": "add", "sum": "add", "multiply": "mul", "prod": "mul", "amax": "max", "amin": "min"}


# ---- lists of indices ----

def _indices(x: Value, indices: list) -> list:
    """One for each dim of x, None: all of it."""
    for i in indices:
        if i is not None and i.dtype in (torch.bool, torch.uint8):
            raise Unsupported("a mask takes parts of it, whose number is not known")
    return list(indices) + [None] * (x.ndim - len(indices))


@row("index.Tensor", "_unsafe_index.Tensor")
def index(g: Any, self_: Value, indices: list) -> Any:
    at = _indices(self_, indices)
    used = [i for i in at if i is not None]
    if not used:
        return self_
    if not self_.numel and g.out.numel:
        raise Unsupported("it indexes a tensor without elements")
    at = [":" if i is None else g.cast(i, torch.int64) for i in at]
    while at[-1] == ":":
        at.pop()
    return f"{self_}[{', '.join(at)}]"


def put_over(g: Any, x: Value, values: Value, write: str, read: str) -> Value:
    """x with values over some of its elements, as `write` says; `read` reads where it writes. Of several values of one place the last stays, and in
    eager each has the slope of the place."""
    text = write.format(x=x, v=values)
    if g.derived and (x.dtype.is_floating_point or x.dtype.is_complex):
        put, none = write.format(x="x", v="v"), write.format(x="dy", v=f"Zeros(shape={values.shape}, dtype={DTYPES[x.dtype]})")
        text = f"custom_vjp(fn (x, v) {{ {put} }}, fn (x, v) {{ ({put}, ()) }}, fn (r, dy) {{ ({none}, {read.format(x='dy')}) }})({x}, {values})"
    return g.let(text, x.dtype, x.shape)


@row("index_put", "_unsafe_index_put", "_index_put_impl")
def index_put(g: Any, self_: Value, indices: list, values: Value, accumulate: bool, unsafe: bool = False) -> Any:
    values = g.cast(values, self_.dtype)
    if len(indices) == 1 and indices[0] is not None and indices[0].dtype is torch.bool and values.numel == 1:
        mask = g.reshape(indices[0], indices[0].shape + (1,) * (self_.ndim - indices[0].ndim))
        value = g.reshape(values, ())
        return f"Where({mask}, {f'{self_} + {value}' if accumulate else value}, {self_})"
    at = _indices(self_, indices)
    dims = [k for k, i in enumerate(at) if i is not None]
    if not dims:
        new = g.broadcast(values, self_.shape)
        return f"{self_} + {new}" if accumulate else new
    rest = [k for k in range(self_.ndim) if k not in dims]
    shape = torch.broadcast_shapes(*(at[k].shape for k in dims))
    adjacent = dims == list(range(dims[0], dims[-1] + 1))
    first = dims[0] if adjacent else 0  # where the dims of the indices are in the part that is replaced
    part = [self_.shape[k] for k in rest]
    part[first:first] = shape
    values = g.transpose(g.broadcast(values, part), [*range(first, first + len(shape)), *range(first), *range(first + len(shape), len(part))])
    columns = [g.broadcast(g.cast(at[k], torch.int64), shape) for k in dims]
    where = g.let(f"Stack({', '.join(columns)}, axis={len(shape)})", torch.int64, (*shape, len(dims)))
    x = g.transpose(self_, dims + rest)
    r = g.let(f'ScatterNd({x}, {where}, {values}, mode="add")', x.dtype, x.shape) if accumulate else \
        put_over(g, x, values, f"ScatterNd({{x}}, {where}, {{v}})", f"GatherNd({{x}}, {where})")
    return g.transpose(r, [(dims + rest).index(k) for k in range(self_.ndim)])


@row("take")
def take(g: Any, self_: Value, index: Value) -> Any:
    return f"Take(Reshape({self_}, shape=(-1,)), {g.cast(index, torch.int64)}, axis=0)"


@row("put")
def put(g: Any, self_: Value, index: Value, source: Value, accumulate: bool) -> Any:
    x, i = g.reshape(self_, (self_.numel,)), g.reshape(g.cast(index, torch.int64), (index.numel,))
    values = g.reshape(g.cast(source, x.dtype), (index.numel,))
    return g.let(f'IndexWrite({x}, {i}, {values}, axis=0, mode="add")', x.dtype, x.shape) if accumulate else \
        put_over(g, x, values, f"IndexWrite({{x}}, {i}, {{v}}, axis=0)", f"Take({{x}}, {i}, axis=0)")


@row("masked_scatter")
def masked_scatter(g: Any, self_: Value, mask: Value, source: Value) -> Any:
    """Where the mask holds, the elements of the source in order: element k of it goes where k true ones came before."""
    if not self_.numel:
        return g.broadcast(self_, g.out.shape)
    self_, mask = g.broadcast(self_, g.out.shape), g.broadcast(mask, g.out.shape)
    many = g.let(f"Sum(Cast({mask}, dtype=i64)) <= i64({source.numel})", torch.bool, ())
    g.check(many, "masked_scatter: Number of elements of source < number of ones in mask")
    if not source.numel:
        return self_
    before = f"CumSum(Cast(Reshape({mask}, shape=(-1,)), dtype=i64), axis=0) - 1"
    at = g.let(f"Reshape(Clip({before}, i64(0), i64({source.numel - 1})), shape={self_.shape})", torch.int64, self_.shape)
    taken = f"Take(Reshape({g.cast(source, self_.dtype)}, shape=(-1,)), {at}, axis=0)"
    return f"Where({mask}, {taken}, {self_})"


# ---- along one axis ----

def from_start(g: Any, index: Value) -> Value:
    """Indices that PyTorch takes from the start alone: as unsigned numbers, of which a negative one is outside of every dim."""
    return g.cast(index, torch.uint64)


def _line(g: Any, x: Any) -> Any:
    return g.reshape(x, (1,)) if isinstance(x, Value) and not x.ndim else x


@row("index_select")
def index_select(g: Any, self_: Value, dim: int, index: Value) -> Any:
    x, i = _line(g, self_), _line(g, from_start(g, index))
    dim %= x.ndim
    return g.let(f"Take({x}, {i}, axis={dim})", x.dtype, [i.numel if k == dim else d for k, d in enumerate(x.shape)])


def cross_entropy(g: Any, x: Value, dim: int, label: Value) -> Any:
    """The logarithm of softmax at one place of each line, whose derivative needs none of those at others."""
    line = label.shape[:dim] + label.shape[dim + 1:]
    y = g.let(f"Neg(SoftmaxCrossEntropy({x}, {g.reshape(label, line)}, axis={dim}))", x.dtype, line)
    return g.cast(g.reshape(y, label.shape), g.out.dtype)


@row("gather")
def gather(g: Any, self_: Value, dim: int, index: Value, sparse_grad: bool) -> Any:
    if not g.out.numel:  # of any shape
        return f"Zeros(shape={g.out.shape}, dtype={DTYPES[self_.dtype]})"
    x, i = _line(g, self_), _line(g, from_start(g, index))
    dim %= x.ndim
    of = g.node.args[0]
    if g.derived and of.target is torch.ops.aten._log_softmax.default and len(of.users) == 1 and of.args[1] % x.ndim == dim and \
            i.shape == (*x.shape[:dim], 1, *x.shape[dim + 1:]):
        return cross_entropy(g, g.env[of.args[0]], dim, i)
    for k in range(x.ndim):
        if k != dim and i.shape[k] != x.shape[k]:
            x = g.slice(x, k, 0, i.shape[k])
    return g.let(f"TakeAlongAxis({x}, {i}, axis={dim})", x.dtype, i.shape)


def _written(g: Any, x: Value, dim: int, index: Value, values: Any, mode: str) -> Value:
    """x with values written along an axis, in the corner that the index covers."""
    x, index, values = _line(g, x), _line(g, from_start(g, index)), _line(g, g.cast(values, x.dtype))
    if not index.numel:
        return x
    dim %= x.ndim
    part, corner = x, [k for k in range(x.ndim) if k != dim and index.shape[k] != x.shape[k]]
    for k in corner:
        part = g.slice(part, k, 0, index.shape[k])
    for k in range(values.ndim):
        values = g.slice(values, k, 0, index.shape[k]) if values.shape[k] > index.shape[k] else values
    values = g.broadcast(values, index.shape)
    new = g.let(f'WriteAlongAxis({part}, {index}, {values}, axis={dim}, mode="{mode}")', x.dtype, part.shape) if mode != "update" else \
        put_over(g, part, values, f"WriteAlongAxis({{x}}, {index}, {{v}}, axis={dim})", f"TakeAlongAxis({{x}}, {index}, axis={dim})")
    return _put_corner(g, x, new, corner)


def _put_corner(g: Any, x: Value, new: Value, corner: list) -> Value:
    if not corner:
        return new
    k = corner[0]
    part = g.slice(x, k, 0, new.shape[k])
    inner = _put_corner(g, part, new, corner[1:])
    return g.let(f"SliceUpdate({x}, {inner}, start=0, stop={new.shape[k]}, axis={k})", x.dtype, x.shape)


@row("scatter.src", "scatter.value", "scatter.reduce", "scatter.value_reduce")
def scatter(g: Any, self_: Value, dim: int, index: Value, src: Any = None, value: Any = None, reduce: Any = None) -> Any:
    return _written(g, self_, dim, index, value if src is None else src, MODES[reduce])


@row("scatter_add")
def scatter_add(g: Any, self_: Value, dim: int, index: Value, src: Value) -> Any:
    return _written(g, self_, dim, index, src, "add")


def _started(g: Any, x: Value, dim: int, index: Value, reduce: str, put: Any) -> Value:
    """x with the neutral element where the index points, for reductions that leave it out."""
    low, high = (-math.inf, math.inf) if x.dtype.is_floating_point else (torch.iinfo(x.dtype).min, torch.iinfo(x.dtype).max)
    neutral = {"sum": 0, "mean": 0, "prod": 1, "amax": low, "amin": high}[reduce]
    return put(g, x, dim, index, neutral, "update")


def _reduced(g: Any, x: Value, dim: int, index: Value, src: Value, reduce: str, include_self: bool, put: Any) -> Any:
    if x.dtype is torch.bool:
        raise Unsupported("it reduces truth values")
    start = x if include_self else _started(g, x, dim, index, reduce, put)
    if reduce != "mean":
        return put(g, start, dim, index, src, MODES[reduce])
    total = put(g, start, dim, index, src, "add")
    ones = g.let(f"Full({number(1 if include_self else 0, x.dtype)}, shape={x.shape})", x.dtype, x.shape)
    count = put(g, ones, dim, index, 1, "add")
    count = g.let(f"Maximum({count}, {number(1, x.dtype)})", x.dtype, count.shape)
    return f"{total} / {count}" if x.dtype.is_floating_point else f"FloorDiv({total}, {count})"


@row("scatter_reduce.two")
def scatter_reduce(g: Any, self_: Value, dim: int, index: Value, src: Value, reduce: str, include_self: bool) -> Any:
    return _reduced(g, self_, dim, index, src, reduce, include_self, _written)


def _rows(g: Any, x: Value, dim: int, index: Value, values: Any, mode: str, signed: bool = False) -> Value:
    """x with whole rows written along an axis; signed indices count from the end, too."""
    x = _line(g, x)
    dim %= x.ndim
    index = _line(g, g.cast(index, torch.int64) if signed else from_start(g, index))
    values = g.broadcast(_line(g, g.cast(values, x.dtype)), [index.numel if k == dim else d for k, d in enumerate(x.shape)])
    if mode == "update":
        return put_over(g, x, values, f"IndexWrite({{x}}, {index}, {{v}}, axis={dim})", f"Take({{x}}, {index}, axis={dim})")
    return g.let(f'IndexWrite({x}, {index}, {values}, axis={dim}, mode="{mode}")', x.dtype, x.shape)


@row("index_add")
def index_add(g: Any, self_: Value, dim: int, index: Value, source: Value, alpha: Any) -> Any:
    source = g.cast(source, self_.dtype)
    if alpha != 1:
        source = g.let(f"{source} * {number(alpha, self_.dtype)}", self_.dtype, source.shape)
    return _rows(g, self_, dim, index, source, "add")


@row("index_copy")
def index_copy(g: Any, self_: Value, dim: int, index: Value, source: Value) -> Any:
    return _rows(g, self_, dim, index, source, "update")


@row("index_fill.int_Scalar", "index_fill.int_Tensor")
def index_fill(g: Any, self_: Value, dim: int, index: Value, value: Any) -> Any:
    return _rows(g, self_, dim, index, value, "update", signed=True)


@row("index_reduce")
def index_reduce(g: Any, self_: Value, dim: int, index: Value, source: Value, reduce: str, include_self: bool) -> Any:
    return _reduced(g, self_, dim, index, source, reduce, include_self, _rows)
