# SPDX-License-Identifier: Apache-2.0
"""Padding between elements, windows and convolutions by the names of jax.lax, written as the functions of composed.py are."""
from __future__ import annotations

from collections import namedtuple
from typing import Any

from .._compile.known import Known
from .._ops import Op, op
from .._tree import tree_leaves, tree_map
from .composed import SOME, ByValue, into, moveaxis

WINDOWS: dict[str, Any] = {}
_windowed, _part = into(WINDOWS), into({})
ConvDimensionNumbers = namedtuple("ConvDimensionNumbers", "lhs_spec rhs_spec out_spec")


# ---- padding ----

@_part
def put_between(x, /, n, axis):
    """Zeros, n of them, between neighbours along an axis."""
    rows = moveaxis(x, axis, 0)
    apart = op.stack([rows] + [op.zeros_like(rows) for _ in range(n)], 1)
    size = rows.shape[0] * (n + 1)
    return moveaxis(op.slice(op.reshape(apart, (size,) + tuple(rows.shape[1:])), 0, max(size - n, 0), 1, 0), 0, axis)


@_part
def spread_out(x, /, config):
    """The array with zeros before, after and between its elements; less of it where a number is negative."""
    for i in range(len(config)):
        if config[i][2] > 0:
            x = put_between(x, config[i][2], i)
    x = op.pad(x, around(config))
    for i in range(len(config)):
        if config[i][0] < 0 or config[i][1] < 0:
            n = x.shape[i]
            assert n + min(config[i][0], 0) + min(config[i][1], 0) >= 0, "pad: padding takes away more than there is"
            x = op.slice(x, min(max(-config[i][0], 0), n), max(n + min(config[i][1], 0), 0), 1, i)
    return x


@_part
def lengthened(x, low, high, /, axis):
    """The array with zeros before and after along an axis, as many as the shape tells; less of it where a number is negative."""
    rows = moveaxis(x, axis, 0)
    n = rows.shape[0]
    flat = op.pad(op.reshape(rows, (n, -1)), (max(low, 0), max(high, 0), 0, 0))
    y = op.reshape(flat, (n + max(low, 0) + max(high, 0),) + tuple(rows.shape[1:]))
    return moveaxis(op.slice(y, max(-low, 0), y.shape[0] - max(-high, 0), 1, 0), 0, axis)


@Known
def around(config: Any) -> tuple:
    """What is added at the ends, flat."""
    return tuple(max(n, 0) for low, high, _ in config for n in (low, high))


@Known
def changes(config: Any) -> bool:
    """Whether padding is not nothing."""
    return any(tuple(c) != (0, 0, 0) for c in config)


@_windowed
def pad(operand, padding_value, /, padding_config):
    """The array with a value before, after and between its elements: (low, high, interior) for each axis; negative ones take away."""
    if not changes(padding_config):
        return operand
    there = spread_out(op.ones_like(operand, dtype="bool"), padding_config)
    return op.where(there, spread_out(operand, padding_config), op.cast_like(padding_value, operand))


# ---- windows ----

def same_pads(n, k, s):
    """(before, after) so that there are n / s windows, rounded up."""
    total = max((-(-n // s) - 1) * s + k - n, 0)
    return total // 2, total - total // 2


@_part
def reduced_along(x, f, /, k, s, by, axis):
    """The elements of each window along an axis put together."""
    count = (x.shape[axis] - (k - 1) * by - 1) // s + 1
    y = op.slice(x, 0, (count - 1) * s + 1, s, axis)
    for i in range(1, k):
        y = f(y, op.slice(x, i * by, i * by + (count - 1) * s + 1, s, axis))
    return y


@_windowed
def reduce_window(operand, init_value, computation, /, window_dimensions, window_strides=None, padding="VALID", base_dilation=None,
                  window_dilation=None):
    """computation of init_value and of the elements of each window: a function of two arrays that is associative and commutative, such
    as lax.add and lax.max, of which init_value is the neutral element: it stands beside the array too."""
    return computation(in_windows(operand, init_value, computation, window_dimensions, window_strides, padding, base_dilation,
                                  window_dilation), op.cast_like(init_value, operand))


@_part
def windows_of_op(operand, init_value, /, computation, window_dimensions, window_strides=None, padding="VALID", base_dilation=None,
                  window_dilation=None):
    """reduce_window of an operation whose neutral element is known: init_value may be another number."""
    beside = init_value if neutral(computation) is None else neutral(computation)
    return computation(in_windows(operand, beside, computation, window_dimensions, window_strides, padding, base_dilation,
                                  window_dilation), op.cast_like(init_value, operand))


WINDOWS["reduce_window"] = ByValue("reduce_window", windows_of_op, reduce_window, 2, "computation", Op)


@_part
def in_windows(operand, beside, computation, /, window_dimensions, window_strides, padding, base_dilation, window_dilation):
    """The elements of each window put together, one axis after the other; `beside` stands beside the array."""
    y = operand
    first = op.cast_like(beside, operand)
    if base_dilation is not None:
        there = spread_out(op.ones_like(operand, dtype="bool"), between(base_dilation))
        y = op.where(there, spread_out(operand, between(base_dilation)), first)
    for i in range(len(window_dimensions)):
        k, s, by = window_dimensions[i], at(window_strides, i), at(window_dilation, i)
        if wide(padding, i, k, s):
            low, high = same_pads(y.shape[i], (k - 1) * by + 1, s) if of_kind(padding, "SAME") else padding[i]
            there = lengthened(op.ones_like(y, dtype="bool"), low, high, i)
            y = op.where(there, lengthened(y, low, high, i), first)
        if k > 1 or s > 1:
            y = reduced_along(y, computation, k, s, by, i)
    return y


@Known
def neutral(f: Any) -> Any:
    """What an operation leaves as it is: 0 of sums, 1 of products."""
    return {"Add": 0, "Mul": 1}.get(f.op)


@Known
def between(dilation: Any) -> tuple:
    """Padding between elements alone."""
    return tuple((0, 0, d - 1) for d in dilation)


@Known
def at(numbers: Any, i: int) -> int:
    """One of several numbers, 1 if there are none."""
    return 1 if numbers is None else numbers[i]


@Known
def of_kind(padding: Any, word: str) -> bool:
    """Whether padding is given by this word."""
    if isinstance(padding, str) and padding.upper() not in ("SAME", "VALID"):
        raise ValueError(f"padding is \"SAME\", \"VALID\" or pairs of numbers, not {padding!r}")
    return isinstance(padding, str) and padding.upper() == word


@Known
def wide(padding: Any, i: int, k: int, s: int) -> bool:
    """Whether there may be padding along an axis."""
    if isinstance(padding, str):
        return padding.upper() == "SAME" and (k > 1 or s > 1)
    return tuple(padding[i]) != (0, 0)


@_windowed
def reduce(operands, init_values, computation, /, dimensions):
    """The elements along dims put together by a function of two arrays, or of two trees of them, beginning with init_values."""
    rows = tree_map(lambda x: leading(x, dimensions), operands)
    state = tree_map(lambda first, x: op.broadcast_like(op.cast_like(first, x), x[0]), init_values, rows)
    for i in range(length_of(rows)):
        state = computation(state, tree_map(lambda x: x[i], rows))  # noqa: B023: called at once
    return state


@Known
def ordered(rank: int, dims: Any) -> tuple | None:
    """The axes with some of them first."""
    if any(not -rank <= d < rank for d in dims):
        return None
    first = tuple(d % rank for d in dims)
    return first + tuple(i for i in range(rank) if i not in first)


@_part
def leading(x, /, dims):
    """Some axes as the first one."""
    for rank in SOME:
        order = ordered(rank, dims)
        if x.ndim == rank:
            if order is None:
                raise ValueError("reduce: there is no such dim")
            t = op.transpose(x, order)
            return op.reshape(t, (-1,) + tuple(t.shape[len(dims):]))
    raise ValueError("reduce: too many dims, or none")


def length_of(rows):
    """How many rows the arrays of a tree have."""
    return tree_leaves(rows)[0].shape[0]


# ---- convolutions ----

@Known
def default_layout(numbers: Any, n: int) -> Any:
    """dimension_numbers of conv_transpose, which by default has channels last."""
    space = ("", "H", "HW", "HWD")[n]
    return (f"N{space}C", f"{space}IO", f"N{space}C") if numbers is None else numbers


@Known
def layouts(numbers: Any, n: int) -> tuple:
    """(axes of x in the order N, C, space), the same of the weights (O, I, space), and of the result the other way round."""
    if numbers is None:
        numbers = (tuple(range(n + 2)),) * 3
    if isinstance(numbers[0], str):
        x, w, y = numbers
        specs = [tuple(s.index(c) for c in pair) + tuple(sorted((i for i, c in enumerate(s) if c not in pair), key=lambda i: w.index(s[i])))
                 for s, pair in ((x, "NC"), (w, "OI"), (y, "NC"))]
    else:
        specs = [tuple(s) for s in numbers]
    back = tuple(specs[2].index(i) for i in range(n + 2))
    return specs[0], specs[1], back


@Known
def conv_dimension_numbers(lhs_shape: Any, rhs_shape: Any, dimension_numbers: Any) -> ConvDimensionNumbers:
    """The places of batch, channels and space as numbers."""
    x, w, back = layouts(dimension_numbers, len(lhs_shape) - 2)
    return ConvDimensionNumbers(x, w, tuple(back.index(i) for i in range(len(back))))


@Known
def padded(padding: Any) -> Any:
    """Padding as the operations take it."""
    return padding.lower() if isinstance(padding, str) else tuple(tuple(p) for p in padding)


@Known
def before_conv(padding: Any, lhs_dilation: Any, n: int) -> tuple | None:
    """What an array is padded with before a convolution that has none; None: the operation pads."""
    dilation = (1,) * n if lhs_dilation is None else tuple(lhs_dilation)
    if isinstance(padding, str):
        if dilation != (1,) * n:
            raise ValueError("conv_general_dilated: with lhs_dilation padding is pairs of numbers; conv_transpose knows \"SAME\" and \"VALID\"")
        return None
    if dilation == (1,) * n and all(x >= 0 for p in padding for x in p):
        return None
    return ((0, 0, 0), (0, 0, 0)) + tuple((low, high, d - 1) for (low, high), d in zip(padding, dilation))


@_windowed
def conv_general_dilated(lhs, rhs, /, window_strides, padding, lhs_dilation=None, rhs_dilation=None, dimension_numbers=None,
                         feature_group_count=1, batch_group_count=1, precision=None, preferred_element_type=None):
    """A convolution of one to three dims; dimension_numbers are texts such as ("NHWC", "HWIO", "NHWC")."""
    n = len(window_strides)
    assert batch_group_count == 1, "conv_general_dilated: batch_group_count is 1"
    assert n in (1, 2, 3), "conv_general_dilated: there are one to three dims of space"
    order = layouts(dimension_numbers, n)
    a, b = op.transpose(wider(lhs, preferred_element_type), order[0]), op.transpose(wider(rhs, preferred_element_type), order[1])
    by = (1,) * n if rhs_dilation is None else tuple(rhs_dilation)
    config = before_conv(padding, lhs_dilation, n)
    border = padded(padding)
    if config is not None:
        a = spread_out(a, config)
        border = 0
    if n == 1:
        y = op.conv1d(a, b, stride=tuple(window_strides), padding=border, dilation=by, groups=feature_group_count)
    elif n == 2:
        y = op.conv2d(a, b, stride=tuple(window_strides), padding=border, dilation=by, groups=feature_group_count)
    else:
        y = op.conv3d(a, b, stride=tuple(window_strides), padding=border, dilation=by, groups=feature_group_count)
    return op.transpose(y, order[2])


@_part
def wider(x, /, dtype):
    """The array in the element type of the sums."""
    return x if dtype is None else op.cast(x, dtype)


@_windowed
def conv(lhs, rhs, /, window_strides, padding, precision=None, preferred_element_type=None):
    """A convolution of x [n, c, ...] with w [o, c, ...]."""
    return conv_general_dilated(lhs, rhs, window_strides, padding, preferred_element_type=preferred_element_type)


@_windowed
def conv_with_general_padding(lhs, rhs, /, window_strides, padding, lhs_dilation=None, rhs_dilation=None, precision=None,
                              preferred_element_type=None):
    """A convolution with padding and dilation."""
    return conv_general_dilated(lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation, preferred_element_type=preferred_element_type)


def pads_of_same(k, s):
    """The padding of the convolution that conv_transpose is, so that the result is s times as long."""
    low = k - 1 if s > k - 1 else (k + s - 1) // 2
    return low, k + s - 2 - low


@_windowed
def conv_transpose(lhs, rhs, /, strides, padding, rhs_dilation=None, dimension_numbers=None, transpose_kernel=False, precision=None,
                   preferred_element_type=None):
    """The gradient of a convolution by its input, a convolution of the array with zeros between its elements; channels are last by
    default. transpose_kernel: of weights as that convolution has them."""
    n = len(strides)
    numbers = default_layout(dimension_numbers, n)
    order = layouts(numbers, n)
    a, b = op.transpose(wider(lhs, preferred_element_type), order[0]), op.transpose(wider(rhs, preferred_element_type), order[1])
    if transpose_kernel:
        b = op.flip(op.swapaxes(b, 0, 1), tuple(range(2, n + 2)))
    for i in range(n):
        k, s = (b.shape[i + 2] - 1) * at(rhs_dilation, i) + 1, strides[i]
        if of_kind(padding, "SAME"):
            low, high = pads_of_same(k, s)
        elif of_kind(padding, "VALID"):
            low, high = k - 1, s - 1 + max(k - s, 0)
        else:
            low, high = padding[i]
        a = put_between(a, s - 1, i + 2) if s > 1 else a
        a = lengthened(a, low, high, i + 2)
    return op.transpose(conv_general_dilated(a, b, (1,) * n, ((0, 0),) * n, None, rhs_dilation, None), order[2])



# ---- shapes, before there are arrays ----

@Known
def padtype_to_pads(in_shape: Any, window_shape: Any, window_strides: Any, padding: Any) -> list:
    """The (low, high) of each dim that "SAME", "SAME_LOWER" or "VALID" stands for."""
    kind = padding.upper() if isinstance(padding, str) else padding.name
    if kind == "VALID":
        return [(0, 0)] * len(in_shape)
    if kind not in ("SAME", "SAME_LOWER"):
        raise ValueError(f"padding is \"SAME\", \"SAME_LOWER\" or \"VALID\", not {padding!r}")
    sizes = [max((-(-n // s) - 1) * s + k - n, 0) for n, k, s in zip(in_shape, window_shape, window_strides)]
    pairs = [(size // 2, size - size // 2) for size in sizes]
    return pairs if kind == "SAME" else [(high, low) for low, high in pairs]


@Known
def reduce_window_shape_tuple(operand_shape: Any, window_dimensions: Any, window_strides: Any, padding: Any, base_dilation: Any = None,
                              window_dilation: Any = None) -> tuple:
    """The shape that reduce_window gives; padding is pairs of numbers."""
    n = len(operand_shape)
    base, by = base_dilation or (1,) * n, window_dilation or (1,) * n
    whole = [(size - 1) * b + 1 + low + high for size, b, (low, high) in zip(operand_shape, base, padding)]
    wide_ = [(k - 1) * d + 1 for k, d in zip(window_dimensions, by)]
    return tuple(max((size - k) // s + 1, 0) for size, k, s in zip(whole, wide_, window_strides))


def _conv_shapes(lhs_shape: Any, rhs_shape: Any, numbers: Any) -> tuple:
    """(the shape with batch and channels first, that of the kernel with outputs and inputs first, the order of the result)"""
    x, w, back = layouts(numbers, len(lhs_shape) - 2)
    return [lhs_shape[i] for i in x], [rhs_shape[i] for i in w], back


@Known
def conv_general_shape_tuple(lhs_shape: Any, rhs_shape: Any, window_strides: Any, padding: Any, dimension_numbers: Any) -> tuple:
    """The shape that conv_general_dilated gives."""
    x, w, back = _conv_shapes(lhs_shape, rhs_shape, dimension_numbers)
    pads = padtype_to_pads(x[2:], w[2:], window_strides, padding) if isinstance(padding, str) else padding
    made = [x[0], w[0], *reduce_window_shape_tuple(x[2:], w[2:], window_strides, pads)]
    return tuple(made[i] for i in back)


@Known
def conv_shape_tuple(lhs_shape: Any, rhs_shape: Any, strides: Any, pads: Any, batch_group_count: int = 1) -> tuple:
    """The shape that conv gives."""
    made = conv_general_shape_tuple(lhs_shape, rhs_shape, strides, pads, None)
    return (made[0] // batch_group_count, *made[1:])


@Known
def conv_transpose_shape_tuple(lhs_shape: Any, rhs_shape: Any, window_strides: Any, padding: Any, dimension_numbers: Any) -> tuple:
    """The shape that conv_transpose gives."""
    x, w, back = _conv_shapes(lhs_shape, rhs_shape, dimension_numbers)
    if isinstance(padding, str):
        of = {"SAME": lambda k, s: k + s - 2, "VALID": lambda k, s: k + s - 2 + max(k - s, 0)}[padding.upper()]
        sums = [of(k, s) for k, s in zip(w[2:], window_strides)]
    else:
        sums = [low + high for low, high in padding]
    made = [x[0], w[0], *((n - 1) * s - k + 2 + p for n, k, s, p in zip(x[2:], w[2:], window_strides, sums))]
    return tuple(made[i] for i in back)


SHAPES = {f.__name__: f for f in (conv_general_shape_tuple, conv_shape_tuple, conv_transpose_shape_tuple, padtype_to_pads, reduce_window_shape_tuple)}
