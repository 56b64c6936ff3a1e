# SPDX-License-Identifier: Apache-2.0
"""Values that are known before a step runs, in what compile_step traces: those that follow from its arguments, from buffers and from constants.

    loss[labels != -100].mean()     becomes     loss[places(labels != -100, 7)].mean(), a program for batches with 7 such labels

A trace has no values. Where it cannot go on without one, of a size or a decision, this computes it by PyTorch from the arguments of the first
step; the program is for steps in which it is the same, which is looked up in each call. What follows from parameters is not known."""
from __future__ import annotations

from typing import Any, Callable

import torch
from torch._decomp.decompositions import one_hot
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.proxy_tensor import get_proxy_mode, get_proxy_slot, set_proxy_slot
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from . import _lanes as lanes
from ._graph import Dims, Value
from ._table import row

STORAGE = torch.Tensor.untyped_storage
NUMBERS = {getattr(torch.Tensor, n) for n in ("__bool__", "__int__", "__index__", "__float__", "__complex__", "item", "tolist")}
NEEDED = ("tensor_split", "arange", "__getitem__", "__setitem__")  # functions that read numbers of tensors that the model captured
NONE = object()
RANDOM = ("rand", "normal", "bernoulli", "dropout", "multinomial", "exponential", "poisson", "empty")  # in names of functions


@torch.library.custom_op("anfora::places", mutates_args=())
def _places(mask: torch.Tensor, n: int) -> torch.Tensor:
    """The indices of the n true elements of a mask, a row each."""
    return mask.nonzero()


_places.register_fake(lambda mask, n: mask.new_empty((n, mask.dim()), dtype=torch.int64))


@row("anfora.places")
def places(g: Any, mask: Value, n: int) -> Any:
    """Element i of the mask is written at the number of true ones before it; those that are false after all others."""
    flat = g.reshape(g.cast(mask, torch.bool), (mask.numel,))
    g.check(g.let(f"Sum(Cast({flat}, dtype=i64)) == i64({n})", torch.bool, ()), f"a mask has not the {n} true elements that the program is for")
    if not n:
        return f"Zeros(shape={g.out.shape}, dtype=i64)"
    at = g.let(f"Where({flat}, CumSum(Cast({flat}, dtype=i64), axis=0) - 1, i64({n}))", torch.int64, flat.shape)
    order = g.let(f"IndexWrite(Zeros(shape=({n + 1},), dtype=i64), {at}, Arange(0, {mask.numel}, dtype=i64), axis=0)", torch.int64, (n + 1,))
    rest = g.slice(order, 0, 0, n)
    columns: list = []
    for d in reversed(mask.shape):
        columns.insert(0, g.let(f"Mod({rest}, i64({d}))", torch.int64, (n,)))
        rest = g.let(f"FloorDiv({rest}, i64({d}))", torch.int64, (n,))
    return g.let(f"Stack({', '.join(columns)}, axis=1)", torch.int64, Dims((n, mask.ndim)))


class _Call:
    """A function of torch and what it was called with: tensors by how they are known."""

    def __init__(self, func: Any, leaves: list, spec: Any) -> None:
        self.func, self.leaves, self.spec = func, leaves, spec


class _Result:
    """A result of a call, by its number among the tensors and numbers that it gave."""

    def __init__(self, call: _Call, number: int) -> None:
        self.call, self.number = call, number


class _Given:
    """A tensor of the step's inputs, by its place."""

    def __init__(self, place: int) -> None:
        self.place = place


def memory_of(x: torch.Tensor) -> Any:
    """What tells the memory of a tensor; None for those of torch.func and others that have none."""
    try:
        return STORAGE(x)._cdata
    except (RuntimeError, NotImplementedError):
        return None


def _value(of: Any, given: list, how: Callable = lambda x: x) -> Any:
    """how(the value of what is known), for these inputs of the step."""
    made: dict = {}

    def get(x: Any) -> Any:
        return given[x.place] if isinstance(x, _Given) else made[x.call][x.number] if isinstance(x, _Result) else x
    todo = [of]
    with _disable_current_modes(), torch.no_grad(), torch.random.fork_rng(devices=[]):
        while todo:
            x = todo[-1]
            call = x.call if isinstance(x, _Result) else None
            missing = [y for y in call.leaves if isinstance(y, _Result) and y.call not in made] if call is not None and call not in made else []
            if missing:
                todo += missing
                continue
            todo.pop()
            if call is not None and call not in made:
                args, kwargs = tree_unflatten([get(y) for y in call.leaves], call.spec)
                made[call] = tree_leaves(call.func(*args, **kwargs))
        return how(get(of))


class Known:
    """What is known in one trace, and what the trace has read of it."""

    def __init__(self, given: list, now: list, asked: bool, counts: bool) -> None:
        """given: the inputs in the trace, now: their values; asked: may all that needs a value read it? counts: may it count true elements?"""
        self.asked, self.counts = asked, counts
        self.of: dict = {id(x): (x, _Given(i)) for i, x in enumerate(given)}
        self.now, self.written = now, set()  # type: ignore[var-annotated]
        self.took = False  # parts whose number of elements is not known
        self.reads: list = []  # (what was read, how, its value, does the program check it)

    def how(self, x: Any) -> Any:
        """How a tensor is known; a number of the trace that is not is NONE."""
        if not isinstance(x, torch.Tensor):
            return NONE if isinstance(x, (torch.SymInt, torch.SymFloat, torch.SymBool)) else x
        memory = memory_of(x)
        if memory is None or memory in self.written:
            return NONE
        return self.of[id(x)][1] if id(x) in self.of else NONE if isinstance(x, FakeTensor) else x

    def is_given(self, x: torch.Tensor) -> bool:
        """Whether a tensor of the trace is one of its inputs that is not trained."""
        return isinstance(self.of.get(id(x), (None, None))[1], _Given)

    def give_memory(self, x: torch.Tensor, value: torch.Tensor) -> None:
        """x is value from now on: what is said of its memory, and the node that it is in the trace."""
        tracer = get_proxy_mode().tracer
        proxy = get_proxy_slot(value, tracer)
        x.data = value
        set_proxy_slot(x, tracer, proxy)
        self.written.add(memory_of(value))

    def saw(self, func: Any, leaves: list, spec: Any, versions: list, out: Any) -> None:
        """A call of the trace, after it was made."""
        changed = [x for x, v in zip(leaves, versions) if v is not None and x._version != v]
        self.written.update(map(memory_of, changed))
        results = [(i, y) for i, y in enumerate(tree_leaves(out)) if isinstance(y, torch.Tensor)]
        if changed or not results or any(word in getattr(func, "__name__", "") for word in RANDOM):
            return
        known = [self.how(x) for x in leaves]
        if any(k is NONE for k in known):
            return
        call = _Call(func, known, spec)
        self.of.update((id(y), (y, _Result(call, i))) for i, y in results if id(y) not in self.of)

    def read(self, x: Any, how: Callable, checked: bool = False) -> Any:
        """how(x) where x is known, which the program is for from now on; else NONE. checked: does the program raise where it is another?"""
        of = self.how(x)
        if of is NONE or not isinstance(x, torch.Tensor):
            return NONE
        try:
            value = _value(of, self.now, how)
        except (RuntimeError, ValueError, TypeError, NotImplementedError):
            return NONE
        self.reads.append((of, how, value, checked))
        return value

    def constant(self, x: torch.Tensor) -> Any:
        """The value of a tensor that is the same in all steps."""
        of = self.how(x)
        return NONE if of is NONE or any(isinstance(y, _Given) for y in _sources(of)) else _value(of, self.now)

    def run(self, func: Any, args: tuple, kwargs: dict) -> Any:
        """func(*args, **kwargs), by a value where it needs one."""
        leaves, spec = tree_flatten((args, kwargs))
        versions = [x._version if isinstance(x, torch.Tensor) else None for x in leaves]
        out = self.instead(func, args, kwargs)
        out = func(*args, **kwargs) if out is NONE else out
        self.saw(func, leaves, spec, versions, out)
        return out

    def instead(self, func: Any, args: tuple, kwargs: dict) -> Any:
        """What a call gives that needs a value, where it is known, else NONE."""
        if lanes.is_lanes(*args, *kwargs.values()):
            return LANES.get(getattr(func, "__name__", ""), lanes.computed)(func, args, kwargs)
        if func in NUMBERS:
            return self.read(args[0], func) if self.asked or not isinstance(args[0], FakeTensor) else NONE
        name = getattr(func, "__name__", "")
        of = INSTEAD.get(name) if self.asked or name in NEEDED else None
        return NONE if of is None else of(self, func, args, kwargs)

    # ---- masks ----

    def places(self, mask: torch.Tensor) -> Any:
        n = self.read(mask, _count, True) if self.counts else NONE
        return NONE if n is NONE else torch.ops.anfora.places(mask if mask.dtype is torch.bool else mask != 0, n)

    def takes_parts(self, *index: Any) -> bool:
        """Is one of these a mask, whose count is not known?"""
        found = self.asked and any(_is_mask(p) and isinstance(p, FakeTensor) for p in index)
        self.took = self.took or found
        return found

    def index(self, index: Any) -> Any:
        """An index with lists of places for masks and numbers for the ends of slices, NONE if it has none of these."""
        parts = index if isinstance(index, tuple) else (index,)
        if not any(_is_mask(p) and (self.asked or not isinstance(p, FakeTensor)) or isinstance(p, slice) and any(map(_is_tensor, _ends(p))) for p in parts):
            return NONE
        out: list = []
        for p in parts:
            if isinstance(p, slice):
                ends = [self.numbers(e) for e in _ends(p)]
                if any(e is NONE for e in ends):
                    return NONE
                p = slice(*ends)
            if not _is_mask(p):
                out.append(p)
                continue
            at = self.places(p)
            if at is NONE:
                return NONE
            out += [at[:, d] for d in range(p.dim())]
        return tuple(out)

    def numbers(self, x: Any) -> Any:
        return self.read(x, torch.Tensor.tolist) if isinstance(x, torch.Tensor) else x


def _count(mask: torch.Tensor) -> int:
    return int(torch.count_nonzero(mask))


def _greatest(x: torch.Tensor) -> int:
    return int(x.max()) if x.numel() else -1


def _sum(x: torch.Tensor) -> int:
    return int(x.sum())


def _is_tensor(x: Any) -> bool:
    return isinstance(x, torch.Tensor)


def _ends(s: slice) -> tuple:
    return s.start, s.stop, s.step


def _is_mask(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.dtype in (torch.bool, torch.uint8) and x.dim() > 0


def _sources(of: Any) -> list:
    """What it follows from."""
    seen: set = set()
    todo, found = [of], []
    while todo:
        x = todo.pop()
        if not isinstance(x, _Result):
            found.append(x)
        elif x.call not in seen:
            seen.add(x.call)
            todo += x.call.leaves
    return found


def captured(of: Any) -> list:
    """The tensors among the constants that it follows from."""
    return [x for x in _sources(of) if isinstance(x, torch.Tensor)]


# ---- functions whose sizes follow from values ----

def _tuple(index: Any) -> tuple:
    return index if isinstance(index, tuple) else (index,)


def _getitem(k: Known, func: Any, args: tuple, kwargs: dict) -> Any:
    at = k.index(args[1])
    if at is NONE and k.takes_parts(*_tuple(args[1])):
        return lanes.read(args[0], _tuple(args[1]))
    return NONE if at is NONE else args[0][at]


def _setitem(k: Known, func: Any, args: tuple, kwargs: dict) -> Any:
    if not isinstance(args[2], torch.Tensor) or args[2].numel() == 1:
        return NONE  # needs no count
    at = k.index(args[1])
    if at is NONE and k.takes_parts(*_tuple(args[1])):
        return lanes.write(args[0], _tuple(args[1]), args[2])
    if at is NONE:
        return NONE
    args[0][at] = args[2]
    return None


def _masked_select(k: Known, func: Any, args: tuple, kwargs: dict) -> Any:
    x, mask = args[0], args[1] if len(args) > 1 else kwargs["mask"]
    shape = torch.broadcast_shapes(x.shape, mask.shape)
    if mask.shape != shape:
        whole = mask.expand(shape)
        k.saw(torch.Tensor.expand, *tree_flatten(((mask, shape), {})), [None] * (1 + len(shape)), whole)
        mask = whole
    at = k.places(mask)
    if at is NONE and k.takes_parts(mask):
        return lanes.taken(x.expand(shape), mask)
    return NONE if at is NONE else x.expand(shape)[tuple(at[:, d] for d in range(len(shape)))]


def _nonzero(k: Known, func: Any, args: tuple, kwargs: dict) -> Any:
    at = k.places(args[0]) if args[0].dim() else NONE
    as_tuple = kwargs.get("as_tuple", args[1] if len(args) > 1 else False)
    if at is NONE and args[0].dim() and k.takes_parts(lanes.truths(args[0])):
        at = lanes.places(args[0])
        return lanes.split(at) if as_tuple else at
    return at if at is NONE or not as_tuple else tuple(at[:, d] for d in range(args[0].dim()))


def _where(k: Known, func: Any, args: tuple, kwargs: dict) -> Any:
    return _nonzero(k, func, args, {"as_tuple": True}) if len(args) == 1 and not kwargs else NONE


def _one_hot(k: Known, func: Any, args: tuple, kwargs: dict) -> Any:
    if (args[1] if len(args) > 1 else kwargs.get("num_classes", -1)) != -1:
        return NONE
    n = k.read(args[0], _greatest)
    return NONE if n is NONE else one_hot(args[0], n + 1)


def _bincount(k: Known, func: Any, args: tuple, kwargs: dict) -> Any:
    x, weights, least = (*args, *[None] * (3 - len(args)))[:3]
    weights, least = kwargs.get("weights", weights), kwargs.get("minlength", least or 0)
    n = k.read(x, _greatest)
    if n is NONE:
        return NONE
    each = torch.ones_like(x, dtype=torch.int64) if weights is None else weights
    return each.new_zeros(max(n + 1, least)).index_add(0, x, each)


def _repeat_interleave(k: Known, func: Any, args: tuple, kwargs: dict) -> Any:
    repeats = kwargs.get("repeats", args[1] if len(args) > 1 else None)
    dim = kwargs.get("dim", args[2] if len(args) > 2 else None)
    n = k.read(repeats, _sum) if isinstance(repeats, torch.Tensor) and repeats.dim() and repeats.numel() > 1 else NONE
    if n is NONE:
        return NONE
    at = torch.searchsorted(repeats.cumsum(0), torch.arange(n), right=True)
    return args[0].flatten().index_select(0, at) if dim is None else args[0].index_select(dim, at)


def _tensor_split(k: Known, func: Any, args: tuple, kwargs: dict) -> Any:
    at = kwargs.get("tensor_indices_or_sections", args[1] if len(args) > 1 else None)
    at = k.numbers(at) if isinstance(at, torch.Tensor) else NONE
    return NONE if at is NONE else torch.tensor_split(args[0], at, kwargs.get("dim", args[2] if len(args) > 2 else 0))


def _sized(k: Known, func: Any, args: tuple, kwargs: dict) -> Any:
    """arange(n) and its like, with numbers for tensors."""
    if not any(isinstance(a, torch.Tensor) for a in args):
        return NONE
    args = tuple(map(k.numbers, args))
    return NONE if any(a is NONE for a in args) else func(*args, **kwargs)


INSTEAD: dict[str, Callable] = {
    "__getitem__": _getitem, "__setitem__": _setitem, "masked_select": _masked_select, "nonzero": _nonzero, "argwhere": _nonzero, "where": _where,
    "one_hot": _one_hot, "bincount": _bincount, "repeat_interleave": _repeat_interleave, "tensor_split": _tensor_split, "arange": _sized,
}


LANES: dict[str, Callable] = {  # of arguments that are lanes
    "__getitem__": lambda func, args, kwargs: lanes.read(args[0], _tuple(args[1])),
    "__setitem__": lambda func, args, kwargs: lanes.write(args[0], _tuple(args[1]), args[2]),
}


def hold(reads: list, given: list) -> bool:
    """Are the values that a trace has read those of these inputs?"""
    for of, how, value, _ in reads:
        try:
            now = _value(of, given, how)
        except (RuntimeError, ValueError, TypeError):
            return False
        if type(now) is not type(value) or repr(now) != repr(value):
            return False
    return True
