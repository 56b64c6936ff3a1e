# SPDX-License-Identifier: Apache-2.0
"""Rows: special functions, the bits of floats, running sums of exponentials, counts of elements; many by the library's functions."""
from __future__ import annotations

import math
from typing import Any

import torch

from .._library.special import SPECIAL
from . import _special
from ._graph import DTYPES, Dims, Expr, LOW, Unsupported, Value, number
from ._rows_shape import along, div_mode
from ._table import ROWS, row


# ---- functions of each element ----

def called(f: Any, **constants: Any) -> Any:
    """A row that calls a function of numbers, which PyTorch computes in f32 for narrower types."""
    def write(g: Any, **args: Any) -> Any:
        t = torch.float32 if g.out.dtype in LOW else g.out.dtype
        values = [g.broadcast(g.cast(v, t), g.out.shape) for v in args.values()]
        return g.let(f"{g.function(f, **constants)}({', '.join(values)})", t, g.out.shape)
    return write


LIBRARY = {  # ATen's name to that of scipy.special
    "prims.erf_inv": "erfinv", "prims.ndtri": "ndtri", "prims.igamma": "gammainc", "prims.igammac": "gammaincc", "prims.zeta": "zeta", "prims.bessel_i0": "i0",
    "prims.bessel_i0e": "i0e", "prims.bessel_i1": "i1", "prims.bessel_i1e": "i1e", "special_modified_bessel_i0": "i0",
    "special_modified_bessel_i1": "i1",
}
ROWS.update({name: called(SPECIAL[f]) for name, f in LIBRARY.items()})
CHEBYSHEV = {f"special_{'shifted_' * shifted}chebyshev_polynomial_{letter}": called(_special.chebyshev, kind=k, shifted=shifted)
             for k, letter in enumerate("tuvw") for shifted in (False, True)}
ROWS.update(CHEBYSHEV)
ROWS["special_laguerre_polynomial_l"] = called(_special.polynomial, first=(-1.0, 1.0), step=(-1.0, 0.0, 1.0, 2.0, 0.0, 1.0, True))
ROWS["special_legendre_polynomial_p"] = called(_special.polynomial, first=(1.0, 0.0), step=(1.0, 2.0, 0.0, 0.0, 0.0, 1.0, True))


@row("special_hermite_polynomial_h", "special_hermite_polynomial_he")
def hermite(g: Any, x: Any, n: Any) -> Any:
    by = 1.0 if "_he." in str(g.node.target) else 2.0
    most = 512.0 if g.out.dtype is torch.float64 else 128.0
    return called(_special.hermite, first=(by, 0.0), step=(by, 0.0, 0.0, 0.0, 0.0, by, False), most=most)(g, x=x, n=n)


@row("prims.gcd")
def gcd(g: Any, **args: Value) -> Any:
    return called(_special.divisor)(g, **args)


@row("prims.div")
def div(g: Any, self_: Any, other: Any) -> Any:
    """Of integers towards zero."""
    return div_mode(g, self_, other, None if g.out.dtype.is_floating_point or g.out.dtype.is_complex else "trunc")


@row("pow", "prims.pow")
def power(g: Any, self_: Any, exponent: Any = None, other: Any = None) -> Any:
    """Of integers 0 where the exponent is negative, but for 1 and -1."""
    exponent = other if exponent is None else exponent
    low = g.out.dtype in LOW and any(not isinstance(v, Value) and v not in (0, 1) for v in (self_, exponent))
    t = torch.float32 if low else g.out.dtype
    x, n = g.cast(self_, t), g.cast(exponent, t)
    y = f"Power({x}, {n})"
    if isinstance(exponent, Value) and not t.is_floating_point and not t.is_complex and t.is_signed:
        zero, one, minus = (number(v, t) for v in (0, 1, -1))
        of_minus = f"Where(BitAnd({n}, {one}) == {one}, {minus}, {one})"
        y = f"Where({n} < {zero}, Where({x} == {one}, {one}, Where({x} == {minus}, {of_minus}, {zero})), Power({x}, Maximum({n}, {zero})))"
    return g.broadcast(g.let(y, t, torch.broadcast_shapes(x.shape, n.shape)), g.out.shape)


# ---- the bits of floats ----

BITS = {torch.float64: (torch.int64, 52, 2047), torch.float32: (torch.int32, 23, 255)}  # as integers, of the fraction, those of the exponent


@row("prims.frexp")
def frexp(g: Any, self_: Value) -> Any:
    """x = mantissa 2^exponent with the mantissa in [0.5, 1)."""
    x = g.cast(self_, torch.float32) if self_.dtype in LOW else self_
    t, shape = x.dtype, x.shape
    of, width, mask = BITS[t]
    small = g.let(f"Abs({x}) < {number(torch.finfo(t).smallest_normal, t)}", torch.bool, shape)
    bits = g.let(f"Bitcast(Where({small}, {x} * {number(2.0 ** (width + 2), t)}, {x}), dtype={DTYPES[of]})", of, shape)
    plain = g.let(f"LogicalOr({x} == {number(0, t)}, LogicalNot(IsFinite({x})))", torch.bool, shape)
    middle = mask >> 1
    fraction = f"BitOr(BitAnd({bits}, {number(~(mask << width), of)}), {number((middle - 1) << width, of)})"
    mantissa = f"Where({plain}, {x}, Bitcast({fraction}, dtype={DTYPES[t]}))"
    power = f"Cast(BitAnd(ShiftRight({bits}, {number(width, of)}), {number(mask, of)}), dtype=i32)"
    exponent = f"Where({plain}, i32(0), {power} - i32({middle - 1}) - Where({small}, i32({width + 2}), i32(0)))"
    return [g.cast(g.let(mantissa, t, shape), self_.dtype), g.let(exponent, torch.int32, shape)]


@row("prims.nextafter")
def nextafter(g: Any, self_: Value, other: Value) -> Any:
    t, shape = g.out.dtype, g.out.shape
    if t not in BITS:
        raise Unsupported(f"its elements are {t}")
    of = BITS[t][0]
    a, b = (g.broadcast(g.cast(v, t), shape) for v in (self_, other))
    grows = f"({a} < {b}) == ({a} > {number(0, t)})"
    bits = f"Bitcast({a}, dtype={DTYPES[of]}) + Where({grows}, {number(1, of)}, {number(-1, of)})"
    least = f"Copysign({number(math.ulp(0.0) if t is torch.float64 else 2.0 ** -149, t)}, {b})"
    away = f"Where({a} == {number(0, t)}, {least}, Bitcast({bits}, dtype={DTYPES[t]}))"
    return g.let(f"Where(LogicalOr({a} != {a}, {b} != {b}), {a} + {b}, Where({a} == {b}, {b}, {away}))", t, shape)


# ---- along an axis ----

@row("logcumsumexp")
def logcumsumexp(g: Any, self_: Value, dim: int) -> Any:
    """Sums relative to the greatest element so far: a linear recurrence, whose factors are how it grows."""
    x, t = self_, self_.dtype
    if t.is_complex:
        raise Unsupported("its elements are complex")
    if not x.ndim or not x.numel:
        return x
    d, low = along(x, dim), number(-math.inf, t)
    best = g.let(f"StopGradient(CumMax({x}, axis={d}))", t, x.shape)
    base = g.let(f"Where(IsFinite({best}), {best}, {number(0, t)})", t, x.shape)
    before = g.let(f"Roll({best}, shift=1, axis={d})", t, x.shape)
    factor = f"Where({before} == {low}, {number(0, t)}, Exp(Roll({base}, shift=1, axis={d}) - {base}))"
    return f"{base} + Log(LinearScan({factor}, Exp({x} - {base}), axis={d}))"


# ---- which elements ----

def ranks(g: Any, mask: Value) -> Value:
    """How many true elements come before each, of a list."""
    return g.let(f"CumSum(Cast({mask}, dtype=i64), axis=0) - Cast({mask}, dtype=i64)", torch.int64, mask.shape)


@row("masked_scatter_backward")
def masked_scatter_backward(g: Any, grad_output: Value, mask: Value, sizes: list) -> Any:
    """What came from the source, in order: element k to place k."""
    n, t = g.out.numel, g.out.dtype
    if not n or not grad_output.numel:
        return Expr(f"Zeros(shape={g.out.shape}, dtype={DTYPES[t]})", t, g.out.shape)
    shape = torch.broadcast_shapes(grad_output.shape, mask.shape)
    count = math.prod(shape)
    m, dy = (g.reshape(g.broadcast(v, shape), (count,)) for v in (mask, grad_output))
    at = g.let(f"Minimum({ranks(g, m)}, i64({n - 1}))", torch.int64, (count,))
    each = f"Where({m}, {dy}, {number(0, t)})"
    return g.reshape(g.let(f'IndexWrite(Zeros(shape=({n},), dtype={DTYPES[t]}), {at}, {each}, axis=0, mode="add")', t, (n,)), g.out.shape)


@row("nonzero_static")
def nonzero_static(g: Any, self_: Value, size: int, fill_value: int) -> Any:
    if not self_.numel or not self_.ndim or not g.out.numel:
        return f"Full(i64({fill_value}), shape={g.out.shape})"
    n = self_.numel
    flat = g.reshape(g.cast(self_, torch.bool), (n,))
    at = g.let(f"Where({flat}, Minimum({ranks(g, flat)}, i64({size})), i64({size}))", torch.int64, (n,))  # the last place is dropped
    columns = []
    for k, count in enumerate(self_.shape):
        line = Dims(count if i == k else 1 for i in range(self_.ndim))
        where = f"Reshape(BroadcastTo(Reshape(Arange(0, {count}, dtype=i64), shape={line}), shape={self_.shape}), shape=({n},))"
        whole = g.let(f"IndexWrite(Full(i64({fill_value}), shape=({size + 1},)), {at}, {where}, axis=0)", torch.int64, (size + 1,))
        columns.append(g.slice(whole, 0, 0, size))
    return f"Stack({', '.join(columns)}, axis=1)"


@row("histc")
def histc(g: Any, self_: Value, bins: int, min: Any, max: Any) -> Any:
    t, n = self_.dtype, self_.numel
    if not t.is_floating_point or isinstance(min, Value) or isinstance(max, Value) or not n:
        raise Unsupported("it counts no floats")
    x = g.reshape(self_, (n,))
    low, high = (g.let(number(v, t), t, ()) for v in (min, max))
    if min == max:
        low, high = (g.let(f"{op}({x}, axis=0)", t, ()) for op in ("Min", "Max"))
        g.check_all(f"LogicalAnd(IsFinite({low}), IsFinite({high}))", "torch.histc: the range of the elements is not finite")
        same = g.let(f"Cast({low} == {high}, dtype={DTYPES[t]})", t, ())
        low, high = g.let(f"{low} - {same}", t, ()), g.let(f"{high} + {same}", t, ())
    inside = g.let(f"LogicalAnd({x} >= {low}, {x} <= {high})", torch.bool, (n,))
    place = g.let(f"Where({inside}, ({x} - {low}) * {number(bins, t)} / ({high} - {low}), {number(0, t)})", t, (n,))
    at = g.let(f"Minimum(Cast({place}, dtype=i64), i64({bins - 1}))", torch.int64, (n,))
    return f'IndexWrite(Zeros(shape=({bins},), dtype={DTYPES[t]}), {at}, Cast({inside}, dtype={DTYPES[t]}), axis=0, mode="add")'
