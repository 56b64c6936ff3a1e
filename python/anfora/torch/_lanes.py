# SPDX-License-Identifier: Apache-2.0
"""Parts of tensors that a mask takes whose number of true elements no trace knows, as it follows from parameters:

    h[h < 0] *= 0.1           becomes     h = where(h < 0, h * 0.1, h)
    loss[loss > 0].mean()     becomes     where(loss > 0, loss, 0).sum() / (loss > 0).sum()

Such a part is all of the tensor, a lane for each element of the mask. A lane that is not taken has the values of the first that is, without their
gradient, so that what is computed of it is as finite as what eager computes. What treats lanes apart treats all of them; what combines
them leaves out those that are not taken; the rest is refused."""
from __future__ import annotations

import inspect
import math
import traceback
from typing import Any, Callable

import torch
import torch.nn.functional as F
from torch.overrides import handle_torch_function

from ._decisions import by_data


class Lanes:
    """x[mask]: `whole` has a row for each element of the mask, which is flat. `viewed`: another may be the same memory in eager."""

    def __init__(self, whole: torch.Tensor, mask: torch.Tensor, viewed: bool = False) -> None:
        self.whole, self.mask, self.viewed = whole, mask, viewed

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        raise _refused(getattr(func, "__name__", str(func)))

    def __getattr__(self, name: str) -> Any:
        if name in ("dtype", "device", "layout"):
            return getattr(self.whole, name)
        if name in ("ndim", "dim"):
            return self.whole.ndim if name == "ndim" else self.whole.dim
        method = getattr(torch.Tensor, name, None)
        if name in ("shape", "T", "mT") or not callable(method):
            raise _uncounted(name)
        return lambda *args, **kwargs: handle_torch_function(method, (self,), self, *args, **kwargs)


def _operator(name: str) -> Callable:
    method = getattr(torch.Tensor, name)
    return lambda self, *args: handle_torch_function(method, (self,), self, *args)


for _name in ("add radd iadd sub rsub isub mul rmul imul truediv rtruediv itruediv floordiv mod pow rpow ipow neg pos abs invert and or xor matmul "
              "lt le gt ge eq ne getitem setitem len bool int float index").split():
    setattr(Lanes, f"__{_name}__", _operator(f"__{_name}__"))
Lanes.__hash__ = object.__hash__  # type: ignore[assignment,method-assign]
Lanes.__iter__ = _operator("__iter__")  # type: ignore[attr-defined]
torch.utils._pytree.register_pytree_node(Lanes, lambda x: ([x.whole, x.mask], x.viewed), lambda parts, viewed: Lanes(*parts, viewed))


def _uncounted(name: str) -> Exception:
    return by_data(traceback.extract_stack(), f"{name} tells how many elements a mask takes, which depends on data")


def is_lanes(*given: Any) -> bool:
    return any(isinstance(x, Lanes) or isinstance(x, (tuple, list)) and is_lanes(*x) for x in given)


# ---- making them, and putting them back ----

def _on(mask: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The flat mask beside rows of x."""
    return mask.reshape(-1, *[1] * (x.dim() - 1))


def _filled(rows: torch.Tensor, mask: torch.Tensor) -> Lanes:
    first = rows.index_select(0, mask.to(torch.int64).argmax().reshape(1))
    first = torch.ops.anfora.stop_gradient(first) if first.is_floating_point() or first.is_complex() else first
    return Lanes(torch.where(_on(mask, rows), rows, first), mask)


def taken(x: torch.Tensor, mask: torch.Tensor) -> Lanes:
    """x[mask]"""
    return _filled(_by_lanes(x, mask), truths(mask).reshape(-1))


def _by_lanes(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    if x.shape[:mask.dim()] != mask.shape:
        raise IndexError(f"The shape of the mask {list(mask.shape)} does not match the shape of the indexed tensor {list(x.shape)}")
    return x.reshape(mask.numel(), *x.shape[mask.dim():])


def places(mask: torch.Tensor) -> Lanes:
    """mask.nonzero()"""
    flat = torch.arange(mask.numel())
    columns = [flat // math.prod(mask.shape[d + 1:]) % n for d, n in enumerate(mask.shape)]
    return _filled(torch.stack(columns, 1), truths(mask).reshape(-1))


def truths(mask: torch.Tensor) -> torch.Tensor:
    return mask if mask.dtype is torch.bool else mask != 0


def split(at: Lanes) -> tuple:
    """The columns of places."""
    return tuple(Lanes(at.whole[:, d], at.mask) for d in range(at.whole.shape[1]))


def _indices(index: tuple) -> tuple | None:
    """An index that begins with lanes, and a mask of all: the places of each lane."""
    if not is_lanes(index[0]) or any(isinstance(p, torch.Tensor) for p in index):
        return None
    last = max(i for i, p in enumerate(index) if isinstance(p, Lanes))
    if not all(isinstance(p, (Lanes, int)) for p in index[:last]):
        return None
    return tuple(p.whole if isinstance(p, Lanes) else p for p in index), _mask(list(index))


def read(x: Any, index: tuple) -> Lanes:
    """x[index], where some of the index are lanes or one mask."""
    if isinstance(x, Lanes):
        if index and isinstance(index[0], slice) and index[0] == slice(None) and not any(isinstance(p, (torch.Tensor, Lanes)) for p in index):
            return _view(x, Lanes(x.whole[index], x.mask))
        raise _refused("an index")
    if len(index) == 1 and isinstance(index[0], torch.Tensor):
        return taken(x, index[0])
    found = _indices(_placed(index))
    if found is None:
        raise _refused("an index whose first dim is none of the mask's")
    return Lanes(x[found[0]], found[1])


def write(x: Any, index: tuple, value: Any) -> None:
    """x[index] = value, likewise."""
    if isinstance(x, Lanes):
        raise _refused("an assignment to parts")
    if len(index) == 1 and isinstance(index[0], torch.Tensor):
        mask = truths(index[0])
        rows, flat = _by_lanes(x, mask), mask.reshape(-1)
        new = value.whole if isinstance(value, Lanes) else _beside(value, rows)
        _mask([Lanes(rows, flat), value])
        x.copy_(torch.where(_on(flat, rows), new.to(x.dtype), rows).reshape(x.shape))
        return
    found = _indices(_placed(index))
    if found is None or not all(isinstance(p, Lanes) for p in index):
        raise _refused("an assignment to an index whose first dims are none of the mask's")
    at, mask = found
    new = value.whole if isinstance(value, Lanes) else _beside(value, x[at])
    _mask([Lanes(new, mask), value])
    more = torch.cat([x, torch.zeros_like(x[:1])])  # lanes that are not taken write to a row of their own
    more[(torch.where(mask, at[0], x.shape[0]), *at[1:])] = new.to(x.dtype)
    x.copy_(more[:-1])


def _placed(index: tuple) -> tuple:
    """The index with places for a mask at its beginning."""
    first = index[0]
    if isinstance(first, torch.Tensor) and first.dtype is torch.bool:
        return (*split(places(first)), *index[1:])
    return index


def _beside(x: Any, rows: torch.Tensor) -> torch.Tensor:
    """A value that is the same for each lane."""
    x = torch.as_tensor(x)
    if x.dim() > rows.dim() or x.dim() == rows.dim() and x.shape[0] != 1:
        raise _refused("a tensor that has a dim for the elements taken")
    return x


def _refused(what: str) -> Exception:
    return by_data(traceback.extract_stack(), f"{what} meets elements that a mask takes, whose number depends on data")


# ---- computing with them ----

def _parts(x: Any) -> list:
    return [p for y in x for p in _parts(y)] if isinstance(x, (list, tuple)) else [x]


def _mask(args: list) -> torch.Tensor:
    """The mask of all lanes among these; the program checks that several are equal."""
    masks = [p.mask for p in _parts(args) if isinstance(p, Lanes)]
    for m in masks[1:]:
        if m is not masks[0]:
            if m.shape != masks[0].shape:
                raise _refused("another mask")
            torch._assert_async((m == masks[0]).all(), "elements of two masks meet that are not equal")
    return masks[0]


def _whole(x: Any) -> Any:
    return type(x)(map(_whole, x)) if type(x) in (list, tuple) else x.whole if isinstance(x, Lanes) else x


def _of_lanes(out: Any, mask: torch.Tensor) -> Any:
    """Results of a function of whole lanes."""
    if isinstance(out, (tuple, list)):
        fields = [_of_lanes(x, mask) for x in out]
        return type(out)(fields) if not hasattr(out, "_fields") else tuple(fields)
    return Lanes(out, mask)


def _apart(func: Any, args: tuple, kwargs: dict) -> Any:
    """A function that treats lanes apart."""
    mask = _mask([args, list(kwargs.values())])
    return _of_lanes(func(*_whole(args), **{k: _whole(v) for k, v in kwargs.items()}), mask)


def _elementwise(func: Any, args: tuple, kwargs: dict) -> Any:
    given = _parts([args, list(kwargs.values())])
    most = max((x.whole for x in given if isinstance(x, Lanes)), key=torch.Tensor.dim)
    for x in given:
        if isinstance(x, Lanes) and x.whole.dim() != most.dim():
            raise _refused("an operation of tensors with other numbers of dims")
        if isinstance(x, torch.Tensor):
            _beside(x, most)
    return _apart(func, args, kwargs)


def _view(x: Lanes, y: Lanes) -> Lanes:
    x.viewed = y.viewed = True
    return y


def _in_place(func: Any, name: str, args: tuple, kwargs: dict) -> Any:
    x = args[0]
    if not isinstance(x, Lanes):
        raise _refused(f"{name} of a tensor")
    if x.viewed:
        raise _refused(f"{name}, which may write another tensor too,")
    if not torch.is_grad_enabled() and x.whole.is_floating_point():
        raise _refused(f"{name} while gradients are off")
    x.whole = _elementwise(func, (Lanes(x.whole.clone(), x.mask), *args[1:]), kwargs).whole
    return x


def count(x: Lanes) -> torch.Tensor:
    return x.mask.sum()


def _combined(name: str, x: Lanes, dims: list, keep: bool, dtype: Any) -> torch.Tensor:
    """A reduction over dims, of which the first is that of the lanes."""
    if name in ("any", "all"):
        v = torch.where(_on(x.mask, x.whole), truths(x.whole), name == "all")
        v = v if name == "any" else ~v
        v = v.to(torch.int64).sum(dims, keepdim=keep) != 0
        return v if name == "any" else ~v
    if name in ("sum", "mean"):
        whole = x.whole if dtype is None else x.whole.to(dtype)
        total = torch.where(_on(x.mask, whole), whole, torch.zeros((), dtype=whole.dtype)).sum(dims, keepdim=keep)
        if name == "sum":
            return total
        others = math.prod(whole.shape[d] for d in dims if d)
        return total / (count(x) * others).to(total.dtype)
    torch._assert_async(count(x) > 0, f"{name}(): a mask takes no element")
    low = name in ("max", "amax")
    limit = torch.finfo if x.whole.is_floating_point() else torch.iinfo
    bound = (-math.inf if low else math.inf) if limit is torch.finfo else (limit(x.dtype).min if low else limit(x.dtype).max)
    v = torch.where(_on(x.mask, x.whole), x.whole, torch.full((), bound, dtype=x.dtype))
    return (torch.amax if low else torch.amin)(v, dims, keepdim=keep)


def _reduced(func: Any, name: str, args: tuple, kwargs: dict) -> Any:
    """Functions of a dim; those of all dims, or the first, leave lanes out."""
    x, at = args[0], DIM[name]
    if not isinstance(x, Lanes) or any(isinstance(p, torch.Tensor) for p in _parts([args, list(kwargs.values())])):
        raise _refused(name)
    dim = kwargs.get("dim", args[at] if len(args) > at else None)
    n = x.whole.dim() + (name == "unsqueeze")
    given = dim if isinstance(dim, (list, tuple)) else [dim]
    dims = list(range(n)) if dim is None or not given else [d % n for d in given]
    if 0 not in dims:
        return _apart(func, args, kwargs)
    if name not in COMBINED or name in ("max", "min") and dim is not None or len(args) > at + 2:
        raise _refused(name)
    keep = kwargs.get("keepdim", args[at + 1] if len(args) > at + 1 else False)
    return _combined(name, x, dims, keep, kwargs.get("dtype"))


def _loss(func: Any, name: str, args: tuple, kwargs: dict) -> Any:
    """A loss of each lane, and their sum or mean."""
    words = inspect.signature(getattr(F, name)).bind(*args, **kwargs)
    words.apply_defaults()
    by = dict(words.arguments)
    how = by.pop("reduction")
    if by.pop("size_average", None) is not None or by.pop("reduce", None) is not None or how not in ("none", "mean", "sum"):
        raise _refused(f"{name} with reduction {how}")
    classes = name in ("cross_entropy", "nll_loss")
    if not is_lanes(by["input"]) or classes and (by["input"].whole.dim() < 2 or not is_lanes(by["target"])):
        raise _refused(name)
    if classes and by["weight"] is not None and how == "mean":
        raise _refused(f"the mean of {name} with weights of classes")
    each = (_apart if classes else _elementwise)(lambda **given: func(**given, reduction="none"), (), by)
    if how == "none":
        return each
    if how == "mean" and classes and not by["target"].whole.is_floating_point():
        ignored = by["target"].whole == by["ignore_index"]
        taken_of = (_on(each.mask, ignored) & ~ignored).sum()
        return _combined("sum", each, list(range(each.whole.dim())), False, None) / taken_of
    return _combined(how, each, list(range(each.whole.dim())), False, None)


def _index_add(func: Any, args: tuple, kwargs: dict) -> Any:
    if len(args) != 4 or kwargs:
        raise _refused("index_add")
    x, dim, at, source = args
    if isinstance(x, Lanes) or dim % x.dim() or not isinstance(at, Lanes) or not isinstance(source, Lanes):
        raise _refused("index_add")
    rows = source.whole
    return func(x, dim, at.whole, torch.where(_on(_mask([at, source]), rows), rows, torch.zeros((), dtype=rows.dtype)))


def _rows(func: Any, name: str, args: tuple, kwargs: dict) -> Any:
    """Functions of the last dims of lanes and of tensors that all share."""
    if len(args) < 2:
        raise _refused(name)
    x = args[0]
    last = len(args[1]) if name == "layer_norm" else 0 if name in ("embedding", "one_hot") else 1
    if not isinstance(x, Lanes) or is_lanes(*args[1:], *kwargs.values()) or x.whole.dim() <= last:
        raise _refused(name)
    if name in ("matmul", "mm") and args[1].dim() > 2:
        raise _refused(name)
    return _apart(func, args, kwargs)


def _drops(p: float = 0.5, training: bool = True, inplace: bool = False) -> bool:
    return training and p > 0


def computed(func: Any, args: tuple, kwargs: dict) -> Any:
    """A function of torch of arguments some of which are lanes."""
    called = getattr(func, "__name__", "")
    name = called.strip("_")
    if called in COUNTED:
        raise _uncounted(called)
    if name == "index_add":
        return _index_add(func, args, kwargs)
    if (called.endswith("_") and not called.startswith("__")) or called in ("__iadd__", "__isub__", "__imul__", "__itruediv__", "__ipow__"):
        plain = name if not called.startswith("__") else name[1:]
        if plain not in ELEMENTWISE:
            raise _refused(called)
        return _in_place(func, called, args, kwargs)
    if name == "index_select" and len(args) == 3 and isinstance(args[0], torch.Tensor) and args[1] % args[0].dim() == 0 and isinstance(args[2], Lanes):
        return Lanes(func(args[0], args[1], args[2].whole), args[2].mask)
    if name == "dropout" and not _drops(*args[1:], **kwargs):
        return _view(args[0], Lanes(args[0].whole, args[0].mask))
    if name in LOSSES:
        return _loss(func, name, args, kwargs)
    if name not in DIM and name not in ROWS and name not in ELEMENTWISE:
        raise _refused(called)
    out = _reduced(func, name, args, kwargs) if name in DIM else _rows(func, name, args, kwargs) if name in ROWS else _elementwise(func, args, kwargs)
    return _view(args[0], out) if name in VIEWS else out


LOSSES = set("mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits cross_entropy nll_loss".split())
COMBINED = set("sum mean amax amin max min any all".split())
DIM = {"norm": 2, "normalize": 2, "cosine_similarity": 2, "gather": 1, **dict.fromkeys(
    "sum mean amax amin max min any all softmax log_softmax logsumexp prod cumsum argmax argmin unsqueeze squeeze".split(), 1)}
ROWS = set("linear matmul mm layer_norm embedding one_hot".split())
ELEMENTWISE = set(
    "add radd sub rsub subtract mul rmul multiply div truediv rtruediv rdiv true_divide floordiv floor_divide mod remainder fmod pow rpow neg pos abs "
    "exp exp2 expm1 log log1p log2 log10 sqrt rsqrt square reciprocal sign sin cos tan asin acos atan atan2 sinh cosh tanh sigmoid logit erf erfc "
    "relu relu6 leaky_relu gelu silu mish elu selu celu softplus softsign hardtanh hardswish hardsigmoid logsigmoid tanhshrink "
    "clamp clip clamp_min clamp_max maximum minimum where lerp addcmul addcdiv nan_to_num xlogy floor ceil round trunc "
    "lt le gt ge eq ne less greater and or xor invert logical_and logical_or logical_xor logical_not isnan isinf isfinite masked_fill "
    "float double half bfloat16 long int bool to type detach clone contiguous".split())
VIEWS = set("unsqueeze squeeze float double half bfloat16 long int bool to type detach contiguous".split())
COUNTED = {"__len__", "__iter__", "__bool__", "__int__", "__float__", "__index__", "size", "numel", "nelement", "item", "tolist"}
