# SPDX-License-Identifier: Apache-2.0
"""Rows: element types, shapes, reductions, running results, order."""
from __future__ import annotations

import math
from typing import Any

import torch

from ._graph import DTYPES, Dims, Expr, LOW, Unsupported, Value, number
from ._rows_index import index_put
from ._table import row


# ---- sizes ----

@row("sym_size.int")
def sym_size(g: Any, self_: Value, dim: int) -> int:
    return self_.shape[dim]


@row("sym_numel")
def sym_numel(g: Any, self_: Value) -> int:
    return self_.numel


@row("_new_zeros_with_same_feature_meta")
def zeros_of(g: Any, **_: Any) -> str:
    return f"Zeros(shape={g.out.shape}, dtype={DTYPES[g.out.dtype]})"


# ---- element types ----

@row("abs")
def absolute(g: Any, self_: Value) -> Any:
    return Expr(f"Abs({self_})", g.out.dtype, g.out.shape)


@row("signbit", "prims.signbit")
def signbit(g: Any, self_: Value) -> Any:
    t = self_.dtype
    return f"Copysign({number(1, t)}, {self_}) < {number(0, t)}" if t.is_floating_point else \
        f"Zeros(shape={g.out.shape}, dtype=bool)" if t is torch.bool else f"{self_} < {number(0, t)}"


@row("sgn", "sign", "prims.sign")
def sgn(g: Any, self_: Value) -> Any:
    if self_.dtype is torch.bool:
        return self_
    if not self_.dtype.is_complex:
        return f"Sign({g.cast(self_, g.out.dtype)})"
    zero, size = number(0, self_.dtype), f"MakeComplex(Abs({self_}), ZerosLike(Abs({self_})))"
    return f"Where({self_} == {zero}, {self_}, {self_} / {size})"


@row("hardsigmoid_backward")
def hardsigmoid_backward(g: Any, grad_output: Value, self_: Value) -> Any:
    sixth = 0.16666667163372040 if g.out.dtype is torch.float64 else 1 / 6  # PyTorch's sixth has the digits of a float
    t = g.out.dtype
    inside = f"LogicalAnd({self_} > {number(-3, t)}, {self_} < {number(3, t)})"
    return f"Where({inside}, {grad_output} * {number(sixth, t)}, {number(0, t)})"


@row("prims.convert_element_type")
def convert(g: Any, a: Value, dtype: Any) -> Any:
    return g.cast(a, dtype)


@row("angle")
def angle(g: Any, self_: Value) -> Any:
    if self_.dtype.is_complex:
        return f"Atan2(Imag({self_}), Real({self_}))"
    x = g.cast(self_, g.out.dtype)
    return f"Where({x} != {x}, {x}, Where({x} < 0, {number(math.pi, x.dtype)}, {number(0, x.dtype)}))"


@row("real")
def real(g: Any, self_: Value) -> Any:
    return f"Real({self_})"


@row("imag")
def imag(g: Any, self_: Value) -> Any:
    return f"Imag({self_})"


@row("complex")
def complex_(g: Any, real: Value, imag: Value) -> Any:
    return g.broadcast(g.let(f"MakeComplex({real}, {imag})", g.out.dtype, g.out.shape), g.out.shape)


@row("view_as_real")
def view_as_real(g: Any, self_: Value) -> Any:
    return f"Stack(Real({self_}), Imag({self_}), axis=-1)"


@row("view_as_complex")
def view_as_complex(g: Any, self_: Value) -> Any:
    parts = [g.reshape(g.slice(self_, self_.ndim - 1, i, i + 1), self_.shape[:-1]) for i in (0, 1)]
    return f"MakeComplex({parts[0]}, {parts[1]})"


@row("frac")
def frac(g: Any, self_: Value) -> Any:
    return f"{self_} - Trunc({self_})"


@row("div.Tensor_mode", "div.Scalar_mode")
def div_mode(g: Any, self_: Any, other: Any, rounding_mode: str | None) -> Any:
    a, b = g.cast(self_, g.out.dtype), g.cast(other, g.out.dtype)
    if rounding_mode is None:
        return f"{a} / {b}"
    if rounding_mode == "floor":
        return f"FloorDiv({a}, {b})"
    return f"Trunc({a} / {b})" if g.out.dtype.is_floating_point else f"FloorDiv({a} - Fmod({a}, {b}), {b})"


@row("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def where(g: Any, condition: Value, self_: Any, other: Any) -> Any:
    a, b = g.cast(self_, g.out.dtype), g.cast(other, g.out.dtype)
    return g.broadcast(g.let(f"Where({g.cast(condition, torch.bool)}, {a}, {b})", g.out.dtype, g.out.shape), g.out.shape)


@row("masked_fill")
def masked_fill(g: Any, self_: Value, mask: Value, value: Any) -> Any:
    return f"Where({mask}, {g.cast(value, g.out.dtype)}, {self_})"


@row("lerp.Scalar", "lerp.Tensor")
def lerp(g: Any, self_: Value, end: Value, weight: Any) -> Any:
    t = torch.float32 if g.out.dtype in LOW else g.out.dtype  # narrow types are rounded once
    x, y, w = (g.cast(v, t) for v in (self_, end, weight))
    small = f"Abs({w}) < {number(0.5, t)}" if not t.is_complex else "true"
    return Expr(f"Where({small}, {x} + {w} * ({y} - {x}), {y} - ({y} - {x}) * ({number(1, t)} - {w}))", t, g.out.shape)


@row("gelu")
def gelu(g: Any, self_: Value, approximate: str) -> Any:
    return f"Gelu({self_}, approximate={'true' if approximate == 'tanh' else 'false'})"


@row("polygamma")
def polygamma(g: Any, n: int, self_: Value) -> Any:
    if n > 20:
        raise Unsupported(f"its order {n} is above 20")
    x = g.cast(self_, g.out.dtype)
    return f"Polygamma({x}, n={n})" if n else f"Digamma({x})"


# ---- made of nothing ----

@row("full", "full_like", "new_full")
def full(g: Any, fill_value: Any, size: Any = None, self_: Any = None, **options: Any) -> Any:
    return f"Full({g.cast(fill_value, g.out.dtype)}, shape={g.out.shape})"


@row("scalar_tensor")
def scalar_tensor(g: Any, s: Any, **options: Any) -> Any:
    return g.reshape(g.cast(s, g.out.dtype), ())


@row("arange", "arange.start", "arange.start_step", "prims.iota")
def arange(g: Any, start: Any = 0, step: Any = 1, end: Any = None, length: Any = None, **options: Any) -> Any:
    n = g.out.shape[0]
    if start == 0 and step == 1:
        return f"Arange(0, {n}, dtype={DTYPES[g.out.dtype]})"
    wide = torch.int64 if isinstance(start, int) and isinstance(step, int) else torch.float64
    return g.cast(g.let(f"{number(start, wide)} + Arange(0, {n}, dtype={DTYPES[wide]}) * {number(step, wide)}", wide, (n,)), g.out.dtype)


@row("copy")
def copy(g: Any, self_: Value, src: Value, non_blocking: bool) -> Any:
    return g.broadcast(g.cast(src, self_.dtype), self_.shape)


# ---- shapes ----

@row("view.dtype")
def view_dtype(g: Any, self_: Value, dtype: Any) -> Any:
    if self_.dtype != g.out.dtype:
        raise Unsupported("it reads the bits of one element type as another")
    return self_


@row("permute")
def permute(g: Any, self_: Value, dims: list) -> Any:
    return g.transpose(self_, dims)


@row("t", "numpy_T", "mT", "adjoint")
def t(g: Any, self_: Value) -> Any:
    return g.transpose(self_, range(self_.ndim)[::-1])


@row("transpose.int")
def transpose(g: Any, self_: Value, dim0: int, dim1: int) -> Any:
    axes = list(range(self_.ndim))
    if axes:
        axes[dim0], axes[dim1] = axes[dim1], axes[dim0]
    return g.transpose(self_, axes)


@row("cat")
def cat(g: Any, tensors: list, dim: int) -> Any:
    parts = [g.cast(x, g.out.dtype) for x in tensors if x.shape != (0,) or g.out.ndim == 1]
    return parts[0] if len(parts) == 1 else f"Concat({', '.join(parts)}, axis={dim})"


@row("stack")
def stack(g: Any, tensors: list, dim: int) -> Any:
    return f"Stack({', '.join(g.cast(x, g.out.dtype) for x in tensors)}, axis={dim % g.out.ndim})"


@row("slice.Tensor", "slice")
def slice_(g: Any, self_: Value, dim: int, start: Any, end: Any, step: int) -> Any:
    return g.slice(self_, dim % self_.ndim, start, end, step)


@row("select.int")
def select(g: Any, self_: Value, dim: int, index: int) -> Any:
    dim %= self_.ndim
    if isinstance(index, Value):  # a number that the program computes
        at = g.reshape(g.cast(index, torch.int64), (1,))
        return g.let(f"Take({self_}, {at}, axis={dim})", self_.dtype, (*self_.shape[:dim], 1, *self_.shape[dim + 1:]))
    index %= self_.shape[dim]
    return g.slice(self_, dim, index, index + 1)


@row("slice_scatter")
def slice_scatter(g: Any, self_: Value, src: Value, dim: int, start: Any, end: Any, step: int) -> Any:
    rounds = range(*slice(start, end, step).indices(self_.shape[dim]))
    src = g.cast(src, self_.dtype)
    if not rounds:
        return self_
    return f"SliceUpdate({self_}, {src}, start={rounds.start}, stop={rounds.stop}, step={step}, axis={dim % self_.ndim})"


@row("select_scatter")
def select_scatter(g: Any, self_: Value, src: Value, dim: int, index: int) -> Any:
    dim %= self_.ndim
    if isinstance(index, Value):
        return index_put(g, self_, [*[None] * dim, g.reshape(index, ())], src, False)
    index %= self_.shape[dim]
    part = g.reshape(g.cast(src, self_.dtype), [1 if i == dim else d for i, d in enumerate(self_.shape)])
    return f"SliceUpdate({self_}, {part}, start={index}, stop={index + 1}, axis={dim})"


def cut(g: Any, x: Value, dim: int, sizes: list) -> list:
    at, parts = 0, []
    for n in sizes:
        parts.append(g.slice(x, dim, at, at + n))
        at += n
    return parts


@row("split_with_sizes", "split.Tensor", "unbind", "split_with_sizes_copy", "unbind_copy")
def split(g: Any, self_: Value, dim: int = 0, split_sizes: Any = None, split_size: Any = None) -> Any:
    dim %= self_.ndim
    return cut(g, self_, dim, [o.shape[dim] if o.ndim == self_.ndim else 1 for o in g.out])


@row("flip")
def flip(g: Any, self_: Value, dims: list) -> Any:
    return f"Flip({self_}, axis={Dims(d % self_.ndim for d in dims)})" if self_.ndim and dims else self_


@row("roll")
def roll(g: Any, self_: Value, shifts: list, dims: list) -> Any:
    if not self_.numel or not self_.ndim:
        return self_
    if not dims:
        return f"Reshape(Roll(Reshape({self_}, shape=(-1,)), {shifts[0]}, axis=0), shape={self_.shape})"
    x: str = self_
    for s, d in zip(shifts, dims):
        x = f"Roll({x}, {s}, axis={d % self_.ndim})"
    return x


@row("repeat")
def repeat(g: Any, self_: Value, repeats: list) -> Any:
    if not g.out.numel:
        return f"Zeros(shape={g.out.shape}, dtype={DTYPES[g.out.dtype]})"
    x = g.reshape(self_, (1,) * (len(repeats) - self_.ndim) + self_.shape)
    return f"Tile({x}, reps={Dims(repeats)})" if repeats else x


@row("constant_pad_nd")
def constant_pad(g: Any, self_: Value, pad: list, value: Any) -> Any:
    widths = [(pad[2 * k], pad[2 * k + 1]) for k in range(len(pad) // 2)][::-1]
    widths = [(0, 0)] * (self_.ndim - len(widths)) + widths
    x = self_
    for i, (a, b) in enumerate(widths):
        if a < 0 or b < 0:
            x = g.slice(x, i, max(0, -a), x.shape[i] - max(0, -b))
    ends = Dims(max(0, n) for ends in widths for n in ends)
    return f"Pad({x}, pad_width={ends}, value={number(value, x.dtype)})" if x.ndim else x


@row("as_strided")
def as_strided(g: Any, self_: Value, size: list, stride: list, storage_offset: int | None) -> Any:
    meta = g.node.args[0].meta["val"]
    if not meta.is_contiguous() or meta.storage_offset():
        raise Unsupported("its tensor is not row-major from the start of its memory")
    if g.reads_memory_of(g.node.args[0]):
        raise Unsupported("its tensor is part of another's memory")
    index = g.positions(g.out.shape, stride, storage_offset or 0)
    return f"Take(Reshape({self_}, shape=(-1,)), {index}, axis=0)"


@row("unfold")
def unfold(g: Any, self_: Value, dimension: int, size: int, step: int) -> Any:
    x = self_ if self_.ndim else g.reshape(self_, (1,))
    dim = dimension % x.ndim
    n = (x.shape[dim] - size) // step + 1
    taken = g.let(f"Take({x}, {g.positions((n, size), (step, 1), 0)}, axis={dim})", x.dtype,
                  x.shape[:dim] + (n, size) + x.shape[dim + 1:])
    return g.transpose(taken, [i for i in range(taken.ndim) if i != dim + 1] + [dim + 1])


@row("diagonal")
def diagonal(g: Any, self_: Value, offset: int, dim1: int, dim2: int) -> Any:
    a, b = dim1 % self_.ndim, dim2 % self_.ndim
    x = g.transpose(self_, [i for i in range(self_.ndim) if i not in (a, b)] + [a, b])
    rows, cols, n = x.shape[-2], x.shape[-1], g.out.shape[-1]
    flat = g.reshape(x, x.shape[:-2] + (rows * cols,))
    start = offset if offset >= 0 else -offset * cols
    return f"Take({flat}, {g.positions((n,), (cols + 1,), start)}, axis={flat.ndim - 1})"


@row("diagonal_scatter")
def diagonal_scatter(g: Any, self_: Value, src: Value, offset: int, dim1: int, dim2: int) -> Any:
    a, b = dim1 % self_.ndim, dim2 % self_.ndim
    axes = [i for i in range(self_.ndim) if i not in (a, b)] + [a, b]
    x = g.transpose(self_, axes)
    rows, cols = x.shape[-2:]
    n, start = src.shape[-1], offset if offset >= 0 else -offset * cols
    if not n:
        return self_
    at = g.positions((n,), (cols + 1,), start)
    flat = g.reshape(x, (*x.shape[:-2], rows * cols))
    new = g.let(f"IndexWrite({flat}, {at}, {g.cast(src, x.dtype)}, axis={flat.ndim - 1})", x.dtype, flat.shape)
    return g.transpose(g.reshape(new, x.shape), [axes.index(i) for i in range(self_.ndim)])


@row("as_strided_scatter")
def as_strided_scatter(g: Any, self_: Value, src: Value, size: list, stride: list, storage_offset: int | None) -> Any:
    if not g.node.args[0].meta["val"].is_contiguous():
        raise Unsupported("its tensor is not row-major")
    at = g.reshape(g.positions(size, stride, storage_offset or 0), (src.numel,))
    new = f'IndexWrite({g.reshape(self_, (self_.numel,))}, {at}, {g.reshape(g.cast(src, self_.dtype), (src.numel,))}, axis=0)'
    return g.reshape(g.let(new, self_.dtype, (self_.numel,)), self_.shape)


# ---- reductions ----

def axes_of(x: Value, dim: Any) -> str:
    """The attribute axis for ATen's dim: None, an integer or a list, of which an empty one means all."""
    if dim is None or isinstance(dim, (list, tuple)) and not len(dim):
        return "None"
    return str(Dims(sorted({d % x.ndim for d in (dim if isinstance(dim, (list, tuple)) else [dim])})))


def reduced(g: Any, op: str, x: Value, dim: Any, more: str = "") -> str:
    if not x.ndim:
        x, dim = g.reshape(x, (1,)), 0
    axis = str(int(dim) % x.ndim) if op.startswith("Arg") and dim is not None else axes_of(x, dim)
    keep = g.out[0].ndim if isinstance(g.out, list) else g.out.ndim
    return f"{op}({x}, axis={axis}, keepdims={'true' if keep == x.ndim and dim is not None else 'false'}{more})"


def reduction(op: str, cast: bool, typed: bool = False) -> Any:
    def write(g: Any, self_: Value, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
        x = g.cast(self_, g.out.dtype) if cast else self_
        r = Expr(reduced(g, op, x, dim), g.out.dtype, g.out.shape)
        if typed:  # sums of integers have 64 bits, truths of u8 are u8 in PyTorch
            r = Expr(f"Cast({r}, dtype={DTYPES[g.out.dtype]})", g.out.dtype, g.out.shape)
        return g.reshape(g.let(f"Reshape({r}, shape={g.out.shape})", g.out.dtype, g.out.shape), g.out.shape) if keepdim else r
    return write


for _name, _op, _cast in (("sum", "Sum", True), ("sum.dim_IntList", "Sum", True), ("mean", "Mean", True), ("prod", "Prod", True),
                          ("prod.dim_int", "Prod", True), ("amax", "Max", True), ("amin", "Min", True), ("max.default", "Max", True),
                          ("min.default", "Min", True), ("any", "Any", False), ("all", "All", False),
                          ("argmax", "ArgMax", False), ("argmin", "ArgMin", False)):
    row(_name)(reduction(_op, _cast, _op in ("Sum", "Prod", "Any", "All")))


def centred(g: Any, x: Value, dim: Any, correction: Any) -> tuple[Value, Value, float]:
    """x as one that can be reduced, its mean, and what the sum of squares is divided by."""
    if not x.ndim:
        x, dim = g.reshape(x, (1,)), None
    axes = range(x.ndim) if not isinstance(dim, int) and not dim else [d % x.ndim for d in ([dim] if isinstance(dim, int) else dim)]
    n = math.prod(x.shape[a] for a in axes)
    shape = [1 if a in axes else d for a, d in enumerate(x.shape)]
    return x, g.let(f"Mean({x}, axis={Dims(axes)}, keepdims=true)", x.dtype, shape), max(0.0, n - (1 if correction is None else correction))


def variance(g: Any, x: Value, dim: Any, correction: Any, out: Value) -> tuple[Value, Value]:
    x, mean, n = centred(g, x, dim, correction)
    axes = Dims(a for a in range(x.ndim) if mean.shape[a] == 1)
    squares = f"Square({x} - {mean})"
    if x.dtype.is_complex:
        squares = f"Square(Real({x} - {mean})) + Square(Imag({x} - {mean}))"
    total = g.let(f"Reshape(Sum({squares}, axis={axes}), shape={out.shape})", out.dtype, out.shape)
    return g.let(f"{total} / {number(n, out.dtype)}", out.dtype, out.shape), g.reshape(mean, out.shape)


@row("var.correction")
def var(g: Any, self_: Value, dim: Any, correction: Any, keepdim: bool) -> Any:
    return variance(g, self_, dim, correction, g.out)[0]


@row("std.correction")
def std(g: Any, self_: Value, dim: Any, correction: Any, keepdim: bool) -> Any:
    return f"Sqrt({variance(g, self_, dim, correction, g.out)[0]})"


@row("var_mean.correction")
def var_mean(g: Any, self_: Value, dim: Any, correction: Any, keepdim: bool) -> Any:
    return variance(g, self_, dim, correction, g.out[0])


# ---- running results and order ----

def along(x: Value, dim: int) -> int:
    return dim % x.ndim


@row("cumsum", "cumprod")
def cumsum(g: Any, self_: Value, dim: int, dtype: Any) -> Any:
    op = "CumSum" if "cumsum" in str(g.node.target) else "CumProd"
    x = g.cast(self_, g.out.dtype)
    return f"Cast({op}({x}, axis={along(x, dim)}), dtype={DTYPES[x.dtype]})" if x.ndim else x


@row("cummax", "cummin")
def cummax(g: Any, self_: Value, dim: int) -> Any:
    op, cmp = ("CumMax", ">=") if "cummax" in str(g.node.target) else ("CumMin", "<=")
    if not self_.ndim:
        return [self_, "i64(0)"]
    d = along(self_, dim)
    best = g.let(f"{op}({self_}, axis={d})", self_.dtype, self_.shape)
    at = g.reshape(g.let(f"Arange(0, {self_.shape[d]}, dtype=i64)", torch.int64, (self_.shape[d],)),
                   [n if i == d else 1 for i, n in enumerate(self_.shape)])
    return [best, f"CumMax(Where(LogicalOr({self_} {cmp} {best}, {self_} != {self_}), {at}, i64(0)), axis={d})"]


def order(g: Any, x: Value, dim: int, descending: bool) -> Value:
    """The numbers of the elements in stable order; NaN counts as the greatest."""
    if not descending:
        return g.let(f"ArgSort({x}, axis={dim})", torch.int64, x.shape)
    key = x if x.dtype is not torch.bool else g.cast(x, torch.uint8)
    back = g.let(f"Flip(ArgSort(Flip({key}, axis={dim}), axis={dim}), axis={dim})", torch.int64, x.shape)
    return g.let(f"{x.shape[dim] - 1} - {back}", torch.int64, x.shape)


def ordered(g: Any, x: Value, dim: int, descending: bool, k: int | None = None) -> list:
    if not x.ndim:
        return [x, Value("i64(0)", torch.int64, ())]
    d = along(x, dim)
    at = order(g, x, d, descending)
    if k is not None:
        at = g.slice(at, d, 0, k)
    return [g.let(f"TakeAlongAxis({x}, {at}, axis={d})", x.dtype, at.shape), at]


@row("sort.default", "sort.stable")
def sort(g: Any, self_: Value, dim: int, descending: bool, stable: Any = None) -> Any:
    return ordered(g, self_, dim, descending)


@row("argsort.default", "argsort.stable")
def argsort(g: Any, self_: Value, dim: int, descending: bool, stable: Any = None) -> Any:
    return ordered(g, self_, dim, descending)[1]


@row("topk")
def topk(g: Any, self_: Value, k: int, dim: int, largest: bool, sorted: bool) -> Any:
    return ordered(g, self_, dim, largest, k)


@row("kthvalue")
def kthvalue(g: Any, self_: Value, k: int, dim: int, keepdim: bool) -> Any:
    values = ordered(g, self_, dim, False)
    if not self_.ndim:
        return values
    return [g.reshape(g.slice(v, along(self_, dim), k - 1, k), o.shape) for v, o in zip(values, g.out)]


@row("searchsorted.Tensor", "searchsorted.Scalar")
def searchsorted(g: Any, sorted_sequence: Value, self_: Any, out_int32: bool, right: bool, side: Any, sorter: Any) -> Any:
    if not isinstance(self_, Value):
        self_ = g.cast(self_, torch.float64 if isinstance(self_, float) else torch.int64)
    lists, dtype = sorted_sequence, torch.promote_types(sorted_sequence.dtype, self_.dtype)
    if not self_.numel or not lists.numel:
        return f"Zeros(shape={g.out.shape}, dtype={DTYPES[g.out.dtype]})"
    if sorter is not None:
        lists = g.let(f"TakeAlongAxis({lists}, {sorter}, axis={max(0, lists.ndim - 1)})", lists.dtype, lists.shape)
    lists, values = g.cast(lists, dtype), g.cast(self_, dtype)
    search = f'SearchSorted({{}}, {{}}, side="{"right" if right or side == "right" else "left"}")'
    if lists.ndim > 1:
        lists, values = (g.reshape(x, (x.numel // x.shape[-1], x.shape[-1])) for x in (lists, values))
        search = f"vmap(fn (s, v) {{{{ {search.format('s', 'v')} }}}})({{}}, {{}})"
    return g.cast(g.let(search.format(lists, values), torch.int64, values.shape), g.out.dtype)


@row("bucketize.Tensor", "bucketize.Scalar")
def bucketize(g: Any, self_: Any, boundaries: Value, out_int32: bool, right: bool) -> Any:
    return searchsorted(g, boundaries, self_, out_int32, right, None, None)
