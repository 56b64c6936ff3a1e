# SPDX-License-Identifier: Apache-2.0
"""tinygrad's methods whose arguments Anfora has in another form."""
import math

import anfora.numpy as anp
import numpy
from tensor import Absent, Dtype, Tensor, array, call, numpy_type


def method(f):
    setattr(Tensor, f.__name__.strip("_"), f)
    return f


def many(xs):
    return tuple(xs[0]) if len(xs) == 1 and isinstance(xs[0], (tuple, list)) else tuple(xs)


def static(f):
    setattr(Tensor, f.__name__.strip("_"), staticmethod(f))
    return f


# ---- reductions ----

def reduction(name, cast=None):
    f = getattr(anp, name)

    def reduced(self, axis=None, keepdim=False, dtype=None, dim=None):
        axis = dim if axis is None else axis
        kw = {"axis": tuple(axis) if isinstance(axis, list) else axis, "keepdims": keepdim} | ({} if dtype is None else {"dtype": Dtype(numpy_type(dtype))})
        y = call(f, self, **kw)
        return y if cast is None else call(anp.cast, y, cast)
    setattr(Tensor, name, reduced)


for _name in ("sum", "prod", "mean", "max", "min", "any", "all"):
    reduction(_name)
reduction("argmax", "i32")
reduction("argmin", "i32")


def spread(name):
    f = getattr(anp, name)

    def of(self, axis=None, keepdim=False, correction=1):
        return call(f, self, axis=tuple(axis) if isinstance(axis, list) else axis, keepdims=keepdim, correction=correction)
    setattr(Tensor, name, of)


spread("var")
spread("std")


@method
def std_mean(self, axis=None, keepdim=False, correction=1):
    return self.std(axis, keepdim, correction), self.mean(axis, keepdim)


def along(name, ours, default=-1):
    f = getattr(anp, ours)

    def of(self, axis=default, dtype=None, dim=None):
        y = call(f, self, axis=axis if dim is None else dim)
        return y if dtype is None else y.cast(dtype)
    setattr(Tensor, name, of)


along("softmax", "softmax")
along("log_softmax", "log_softmax")
along("cumsum", "cumsum", 0)
along("cumprod", "cumprod", 0)


@method
def softmin(self, axis=-1):
    return (-self).softmax(axis)


@method
def logsumexp(self, axis=None, keepdim=False):
    return call(anp.logsumexp, self, axis=axis, keepdims=keepdim)


class Indices:
    """The second result, which is not there."""

    def __getattr__(self, name):
        raise Absent("indices of cum_max")


@method
def cummax(self, axis=0):
    return call(anp.cum_max, self, axis=axis), Indices()


@method
def cummin(self, axis=0):
    return call(anp.cum_min, self, axis=axis), Indices()


@method
def sort(self, dim=-1, descending=False):
    return call(anp.sort, self, axis=dim, descending=descending), self.argsort(dim, descending)


@method
def argsort(self, dim=-1, descending=False):
    return call(anp.cast, call(anp.argsort, self, axis=dim, descending=descending), "i32")


@method
def topk(self, k, dim=-1, largest=True, sorted_=True):
    values, at = call(anp.top_k, self, k, axis=dim, largest=largest)
    return values, call(anp.cast, at, "i32")


# ---- shapes ----

@method
def reshape(self, *shape):
    return call(anp.reshape, self, tuple(n if s is None else s for s, n in zip(many(shape), (*self.shape, *[None] * 9))))


Tensor.view = reshape


@method
def permute(self, *axes):
    return call(anp.transpose, self, many(axes))


@method
def transpose(self, dim0=1, dim1=0):
    return call(anp.swapaxes, self, dim0, dim1)


Tensor.T = property(lambda self: call(anp.transpose, self))


@method
def expand(self, *shape):
    shape = many(shape)
    ours = (1,) * (len(shape) - self.ndim) + self.shape
    return call(anp.broadcast_to, self, tuple(b if s == -1 else s for s, b in zip(shape, ours)))


@method
def repeat(self, *times):
    return call(anp.tile, self, many(times))


@method
def repeat_interleave(self, repeats, dim=None):
    return call(anp.repeat, self, repeats, axis=dim)


@method
def flip(self, *axes):
    return call(anp.flip, self, many(axes))


@method
def unsqueeze(self, dim):
    return call(anp.expand_dims, self, dim)


@method
def squeeze(self, dim=None):
    if dim is None:
        return call(anp.squeeze, self)
    if not -max(self.ndim, 1) <= dim < max(self.ndim, 1):
        raise IndexError(dim)
    return call(anp.squeeze, self, dim) if self.ndim and self.shape[dim] == 1 else self


@method
def flatten(self, start_dim=0, end_dim=-1):
    return call(anp.flatten, self, start_dim, end_dim)


@method
def unflatten(self, dim, sizes):
    dim %= self.ndim
    return self.reshape(*self.shape[:dim], *sizes, *self.shape[dim + 1:])


@method
def cat(self, *others, dim=0):
    return call(anp.concatenate, [self, *others], axis=dim)


@static
def stack(*xs, dim=0):
    return call(anp.stack, list(many(xs)), axis=dim)


@method
def split(self, sizes, dim=0):
    n = self.shape[dim]
    sizes = [min(sizes, n - i) for i in range(0, max(n, 1), sizes)] if isinstance(sizes, int) else sizes
    out, at = [], 0
    for s in sizes:
        out.append(self[(slice(None),) * (dim % self.ndim) + (slice(at, at + s),)])
        at += s
    return tuple(out)


@method
def chunk(self, chunks, dim=0):
    return list(self.split(math.ceil(self.shape[dim] / chunks), dim))


@method
def meshgrid(self, *others, indexing="ij"):
    return call(anp.meshgrid, *(t.reshape(-1) for t in (self, *others)), indexing=indexing)


@method
def pad(self, padding, mode="constant", value=0.0):
    if isinstance(padding[0] if padding else None, int):
        if len(padding) % 2:
            raise ValueError("an odd number of sizes")
        padding = [(0, 0)] * (self.ndim - len(padding) // 2) + [(padding[i], padding[i + 1]) for i in range(len(padding) - 2, -1, -2)]
    padding = tuple((0, 0) if p is None else tuple(p) for p in padding)
    if len(padding) != self.ndim:
        raise ValueError("a pair of sizes for each dim")
    if mode == "circular" and any(a < 0 or b < 0 for a, b in padding):  # taken away before, elsewhere after
        x = self[tuple(slice(max(0, -a), n - max(0, -b)) for (a, b), n in zip(padding, self.shape))]
        return pad(x, tuple((max(0, a), max(0, b)) for a, b in padding), mode)
    widths = tuple((max(0, a), max(0, b)) for a, b in padding)
    kw = {"constant_values": value} if mode == "constant" else {}
    y = call(anp.pad, self, widths, {"replicate": "edge", "circular": "wrap"}.get(mode, mode), **kw)
    inner = tuple(slice(max(0, -a), n - max(0, -b)) for (a, b), n in zip(padding, y.shape))
    return y[inner] if any(a < 0 or b < 0 for a, b in padding) else y


@method
def roll(self, shifts, dims=None):
    return call(anp.roll, self, shifts, dims)


@method
def tril(self, diagonal=0):
    return call(anp.tril, self, diagonal)


@method
def triu(self, diagonal=0):
    return call(anp.triu, self, diagonal)


@method
def diagonal(self, offset=0, dim1=0, dim2=1):
    return call(anp.diagonal, self, offset, dim1, dim2)


@method
def gather(self, dim, index):
    if any(i > n for k, (i, n) in enumerate(zip(index.shape, self.shape)) if k != dim % self.ndim):
        raise RuntimeError("an index that is larger")
    part = self[tuple(slice(None) if k == dim % self.ndim else slice(0, n) for k, n in enumerate(index.shape))]
    return call(anp.take_along_axis, part, index, dim)


# ---- element by element ----

@method
def where(self, a, b):
    return call(anp.where, self, a, b)


@method
def masked_fill(self, mask, value):
    return call(anp.where, mask, value, self)


@method
def clip(self, min_=None, max_=None, **kw):
    return call(anp.clip, self, kw.get("min", min_), kw.get("max", max_))


Tensor.clamp = clip


@method
def hardtanh(self, min_val=-1, max_val=1):
    return self.clip(min_val, max_val)


@method
def gelu(self, approximate="tanh"):
    return call(anp.gelu, self, approximate == "tanh")


@method
def quick_gelu(self):
    return self * (self * 1.702).sigmoid()


@method
def leaky_relu(self, neg_slope=0.01):
    return call(anp.leaky_relu, self, neg_slope)


@method
def div(self, other, rounding_mode=None):
    if rounding_mode not in (None, "trunc", "floor"):
        raise RuntimeError(rounding_mode)
    y = self // other if rounding_mode == "floor" else self / other
    return call(anp.trunc, y) if rounding_mode == "trunc" else y


@method
def lerp(self, end, weight):
    return self + (end - self) * weight


@method
def isclose(self, other, rtol=1e-5, atol=1e-8, equal_nan=False):
    return call(anp.isclose, self, other, rtol, atol, equal_nan)


@method
def cast(self, dtype):
    return call(anp.cast, self, Dtype(numpy_type(dtype)))


for _name, _type in (("float", "float32"), ("half", "float16"), ("int", "int32"), ("bool", "bool"), ("double", "float64"), ("long", "int64")):
    setattr(Tensor, _name, lambda self, t=_type: self.cast(t))


@method
def one_hot(self, num_classes):
    return call(anp.one_hot, self, num_classes, dtype="i32")


# ---- products, windows ----

@method
def matmul(self, other):
    return call(anp.matmul, self, other)


Tensor.dot = matmul


@static
def einsum(formula, *xs):
    return call(anp.einsum, *many(xs), equation=formula.replace(" ", ""))


@method
def conv2d(self, weight, bias=None, groups=1, stride=1, dilation=1, padding=0):
    if self.ndim != 4 or isinstance(padding, (tuple, list)) and len(padding) != 2:
        raise Absent("convolutions of other dims, or with other paddings")
    return call(anp.conv2d, self, weight, bias, stride=stride, padding=padding, dilation=dilation, groups=groups)


@method
def conv_transpose2d(self, weight, bias=None, groups=1, stride=1, dilation=1, padding=0, output_padding=0):
    if self.ndim != 4:
        raise Absent("convolutions of other dims")
    return call(anp.conv_transpose2d, self, weight, bias, stride=stride, padding=padding, dilation=dilation, groups=groups, output_padding=output_padding)


@method
def max_pool2d(self, kernel_size=(2, 2), stride=None, dilation=1, padding=0, ceil_mode=False, return_indices=False):
    if self.ndim != 4 or return_indices or isinstance(padding, (tuple, list)) and len(padding) != 2:
        raise Absent("pooling of other dims, with indices, or with other paddings")
    return call(anp.max_pool2d, self, kernel_size, stride=stride, padding=padding, ceil_mode=ceil_mode, dilation=dilation)


@method
def avg_pool2d(self, kernel_size=(2, 2), stride=None, dilation=1, padding=0, ceil_mode=False, count_include_pad=True):
    if self.ndim != 4 or dilation != 1 or isinstance(padding, (tuple, list)) and len(padding) != 2:
        raise Absent("pooling of other dims, dilated, or with other paddings")
    return call(anp.avg_pool2d, self, kernel_size, stride=stride, padding=padding, ceil_mode=ceil_mode, count_include_pad=count_include_pad)


@method
def scaled_dot_product_attention(self, key, value, attn_mask=None, dropout_p=0.0, is_causal=False):
    return call(anp.attention, self, key, value, attn_mask, causal=is_causal)


# ---- new tensors ----

def filled(name, number):
    def make(*shape, dtype="float32"):
        return call(anp.full, many(shape), number, dtype=Dtype(numpy_type(dtype)))
    setattr(Tensor, name, staticmethod(make))
    setattr(Tensor, f"{name}_like", lambda self, **_kw: call(anp.full_like, self, number))


filled("zeros", 0)
filled("empty", 0)
filled("ones", 1)


@static
def full(shape, fill_value, dtype=None):
    return call(anp.full, tuple(shape), fill_value, dtype=Dtype(dtype and numpy_type(dtype) or numpy.asarray(array(fill_value)).dtype))


@method
def full_like(self, fill_value):
    return call(anp.full_like, self, fill_value)


@static
def eye(n, m=None, dtype="float32"):
    return call(anp.eye, n, m, dtype=Dtype(numpy_type(dtype)))


@static
def arange(start, stop=None, step=1, dtype=None):
    kind = dtype and numpy_type(dtype) or ("float32" if any(isinstance(x, float) for x in (start, stop, step)) else "int32")
    return call(anp.arange, start, stop, step, dtype=Dtype(kind))


@static
def linspace(start, stop, steps, dtype="float32"):
    return call(anp.linspace, start, stop, steps, dtype=Dtype(numpy_type(dtype)))


@static
def randn(*shape):
    return Tensor(numpy.random.randn(*many(shape)).astype(numpy.float32))
