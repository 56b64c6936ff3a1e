# SPDX-License-Identifier: Apache-2.0
"""What eager gives no gradient, in the forward pass that compile_step traces: detach(), blocks without gradients, and what is written through them."""
from __future__ import annotations

import contextlib
import functools
from typing import Any, Callable
from unittest import mock

import torch
from torch._decomp.decompositions import one_hot
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import traceback
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils._pytree import tree_leaves

from . import _lanes as lanes
from ._ctc import ctc_loss
from ._decisions import Decisions, model_line, refuse
from ._known import memory_of
from ._own import own_backward
from ._values import check_of, without_decisions


@torch.library.custom_op("anfora::stop_gradient", mutates_args=())
def _stop_gradient(self: torch.Tensor) -> torch.Tensor:
    return self.clone()


@_stop_gradient.register_fake
def _(self: torch.Tensor) -> torch.Tensor:
    return self.clone()


HOOKING = {"register_hook": "registers a hook of a tensor's gradient", "retain_grad": "keeps the gradient of a tensor that is no parameter"}
WANTS = torch.Tensor.requires_grad.__get__  # type: ignore[attr-defined]
DETACHING = {torch.Tensor.detach, torch.Tensor.data.__get__, torch.detach}
FLAGS = {"requires_grad_", "share_memory_", "rename_"}  # change no elements
INDEXED = {"__setitem__", "__iadd__", "__isub__", "__imul__", "__itruediv__", "__ipow__"}


def _is_real(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and (x.is_floating_point() or x.is_complex())


def _same_memory(x: torch.Tensor, y: torch.Tensor) -> bool:
    memory = memory_of(x)
    return x is y or memory is not None and memory == memory_of(y)


def _with_gradient_of(before: torch.Tensor, now: torch.Tensor) -> torch.Tensor:
    """The values of now with the gradient of before, which is what eager has of a tensor that is written while gradients are off."""
    zero = before - torch.ops.anfora.stop_gradient(before)
    return torch.ops.anfora.stop_gradient(now) + torch.where(torch.isfinite(before), zero, torch.zeros_like(before))


class Stops(torch.overrides.TorchFunctionMode):
    """Marks, while a forward pass is traced, the tensors that eager takes no gradient through: those that are detached, and those
    made while gradients are off. A trace alone does not show them, nor the branches on values."""

    def __init__(self, decisions: Decisions) -> None:
        super().__init__()
        self.known: Any = None
        self.views: list = []  # which may not be written
        self.aliases: list = []  # (a tensor that is its own in the trace, the one whose memory it has in eager, may it be written)
        self.wanting: dict = {}  # id of a tensor to the tensor
        self.inputs: list = []  # of the trace
        self.trained: list = []  # those of them that are parameters
        self.used: list = []  # those of these that eager may have saved for its backward pass
        self.decisions = decisions
        self.own = 0  # > 0 in a torch.autograd.Function, whose gradient is its own

    @contextlib.contextmanager
    def inside(self) -> Any:
        """What is traced here has no gradient of its own."""
        self.own += 1
        try:
            yield
        finally:
            self.own -= 1

    def stop(self, x: Any, inputs: list, counted: bool = True) -> Any:
        """x without a gradient; counted: does eager see where what it saved was written through x?"""
        if not _is_real(x):
            return x
        y = torch.ops.anfora.stop_gradient(x)
        if any(x is i or x.untyped_storage()._cdata == i.untyped_storage()._cdata for i in inputs):
            self.aliases.append((y, x, counted or any(_same_memory(x, p) for p in self.trained)))
        return y

    def follow(self, changed: list) -> None:
        """What was written shows in all that is the same memory in eager; a tensor that has a gradient keeps that of before."""
        todo, done = [memory_of(x) for x in changed], {None}
        while todo:
            memory = todo.pop()
            if memory in done:
                continue
            done.add(memory)
            for y, x, writable in self.aliases:
                of, to = memory_of(y), memory_of(x)
                if memory not in (of, to) or {of, to} <= done:
                    continue
                if of == memory and not writable:
                    raise refuse("the `.data` of a tensor is written, which eager may have saved for its backward pass", "write the tensor itself, or a clone()")
                if y.shape != x.shape:
                    raise refuse("a detached tensor that is written is given another shape in place", "write the tensor itself, or a clone()")
                to, now = (x, _with_gradient_of(x, y)) if of == memory else (y, torch.ops.anfora.stop_gradient(x))
                self.check_order([to])
                self.known.run(torch.Tensor.copy_, (to, now), {})
                todo.append(memory_of(to))

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        if func == WANTS:  # the tensors of a trace want none
            return func(*args) or id(args[0]) in self.wanting
        if traceback.has_preserved_node_meta():
            traceback.set_stack_trace(['File "{}", line {}'.format(*at[:2]) for at in (model_line(),) if at])
        out = self.call(func, args, kwargs)
        name = getattr(func, "__name__", "")
        if self.own:
            return out
        if torch.is_grad_enabled() and func not in DETACHING and not name.endswith("_like") and not name.startswith("new_"):
            made = [x for x in tree_leaves(args[:1] if out is None else (out, (kwargs or {}).get("out"))) if _is_real(x)]  # None: of what writes
            of = [x for x in tree_leaves((args, kwargs)) if id(x) in self.wanting]
            if made and of:
                self.want(made)
                if out is not None and func is not torch.embedding:  # whose derivative reads no weights
                    self.used += [p for p in self.trained if any(_same_memory(p, x) for x in of)]
        return out

    def want(self, tensors: list) -> None:
        """Says of tensors that eager takes gradients through them."""
        self.wanting.update((id(x), x) for x in tensors)

    def is_wanting(self, x: Any) -> bool:
        """Whether eager takes gradients through x, or through what has its memory."""
        return any(_same_memory(x, y) for y in self.wanting.values())

    def is_untrained(self, tensors: list, out: Any) -> bool:
        """Whether a call gives views of one of the step's inputs, which holds nothing that has a gradient: they may be written."""
        made = [x for x in tree_leaves(out) if isinstance(x, torch.Tensor)]
        of = next((x for x in self.inputs if tensors and _same_memory(x, tensors[0])), None)
        return of is not None and all(_same_memory(x, of) for x in made) and not self.is_wanting(of)

    def give_memory(self, x: torch.Tensor, value: torch.Tensor) -> None:
        """x.data = value: x is another tensor from now on, in the trace as well; views of what it was stay."""
        trained = any(x is p for p in self.trained)
        if trained and any(value is y and _same_memory(x, of) and (value.shape, value.stride()) == (x.shape, x.stride()) for y, of, _ in self.aliases):
            return  # x.data *= y, which has written it
        if not trained and (not self.known.is_given(x) or self.is_wanting(x)):
            raise refuse("the model gives memory to a tensor (`.data = `) that is no buffer and no parameter", "copy_ into it")
        if value.shape != x.shape or value.dtype != x.dtype or not isinstance(value, FakeTensor) or any(_same_memory(value, y) for y in (*self.inputs, *self.views, *(y for y, *_ in self.aliases))):
            raise refuse("the model gives a tensor (`.data = `) the memory of another of its own, or of another kind", "copy_ into it, or give a clone()")
        self.check_order([x])
        if trained or self.is_wanting(value):
            self.views += [x, value]  # whose memory is one in eager, and may not be written here
            value = _with_gradient_of(x, value) if trained else torch.ops.anfora.stop_gradient(value)
        self.known.give_memory(x, value)

    def check_writes(self, name: str, changed: list) -> None:
        if any(_same_memory(x, v) for x in changed for v in self.views):
            raise refuse(f"{name} writes in place what is the memory of another tensor, too", "write the tensor itself, or a clone()")
        if (self.own or torch.is_grad_enabled()) and any(_same_memory(x, p) for x in changed for p in self.trained):
            raise refuse(f"a leaf Variable that requires grad is being used in an in-place operation: {name} writes a parameter",
                         "write it under torch.no_grad()")
        self.check_order(changed)

    def check_order(self, changed: list) -> None:
        if any(_same_memory(x, p) for x in changed for p in self.used):
            raise refuse("a parameter is written that was read before, and that eager may have saved for its backward pass", "write it first")

    def call(self, func: Any, args: tuple, kwargs: dict | None) -> Any:
        name = getattr(func, "__name__", "")
        if (kwargs or {}).get("generator") is not None:
            raise refuse(f"{name} draws from a generator of the model's own", "leave out `generator`: PyTorch's own is used, by torch.manual_seed")
        if func is torch.Tensor.__bool__:
            try:
                return self.known.run(func, args, {})
            except GuardOnDataDependentSymNode:
                return self.decisions.decide(args[0])
        func = {torch._C._nn.one_hot: one_hot, torch.ctc_loss: ctc_loss}.get(func, func)  # which check classes and lengths
        check = check_of(func)
        if check is not None:
            check(*args, **(kwargs or {}))
        if func == torch.Tensor.data.__set__:
            return self.give_memory(*args)
        run = functools.partial(self.known.run, func)
        tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        versions = [x._version for x in tensors]
        in_place = name in INDEXED or (name.endswith("_") and not name.endswith("__") and name not in FLAGS)
        written = args[0] if in_place and args else (kwargs or {}).get("out")
        before = written.clone() if not self.own and not torch.is_grad_enabled() and _is_real(written) else None
        out = run(args, kwargs or {})
        writes_lists = name.startswith("_foreach_") and name.endswith("_")  # whose versions a trace does not count
        changed = [x for x, version in zip(tensors, versions) if x._version != version or writes_lists]
        self.check_writes(name, changed)
        if self.own:
            return out
        if before is not None:
            written.copy_(_with_gradient_of(before, written))
        elif name == "detach_":
            args[0].copy_(torch.ops.anfora.stop_gradient(args[0]))
        if changed:
            self.follow(changed)
        on = torch.is_grad_enabled() or name in FLAGS or func is torch._C._set_grad_enabled
        if on and func not in DETACHING or in_place or before is not None or self.is_untrained(tensors, out):
            return out
        return torch.utils._pytree.tree_map(lambda x: self.stop(x, tensors, func != torch.Tensor.data.__get__), out)


def _refused(what: str) -> Callable:
    def method(*args: Any) -> Any:
        raise refuse(f"the model {what}", "compute what it is for in the loss, or use torch.compile(model, backend=\"anfora\")")
    return method


@contextlib.contextmanager
def as_eager(stops: Stops) -> Any:
    """Gradients are on, as in eager, and what stops them is marked; a function with its own derivative keeps it."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(own_backward(stops))
        stack.enter_context(without_decisions(stops.known))
        for name, what in HOOKING.items():
            stack.enter_context(mock.patch.object(torch.Tensor, name, _refused(what)))
        for module in (torch.functional, torch.nn.functional, torch._tensor):  # whose functions detach and branch inside
            for name in ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic"):
                if hasattr(module, name):
                    stack.enter_context(mock.patch.object(module, name, lanes.is_lanes))
        stack.enter_context(torch.enable_grad())
        stack.enter_context(stops)
        yield
