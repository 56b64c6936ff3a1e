# SPDX-License-Identifier: Apache-2.0
"""torch.autograd.Function in what compile_step traces: the gradient is what the function's own backward() gives, as in eager.

    class Straight(torch.autograd.Function):                y = sign(x)
        forward(ctx, x): return x.sign()         becomes    z = custom_vjp(fn (x) { y }, fn (x) { (y, ()) }, fn (_, dy) { dy })(x)
        backward(ctx, dy): return dy

forward() and backward() are traced one after the other, between two ops that say where the second begins and what is its result. The
Writer makes a function of what is between them."""
from __future__ import annotations

import contextlib
import re
from typing import Any, Callable
from unittest import mock

import torch
from torch.autograd.function import FunctionCtx, FunctionMeta, _SingleLevelFunction
from torch.utils.checkpoint import CheckpointFunction

from ._decisions import refuse
from ._graph import Unsupported, Value
from ._table import RANDOM, row

WANTS = torch.Tensor.requires_grad.__get__  # type: ignore[attr-defined]
STORAGE = torch.Tensor.untyped_storage


# ---- the two ops ----

@torch.library.custom_op("anfora::adjoints", mutates_args=(), schema="(Tensor[] ys) -> Tensor[]")
def _adjoints(ys: list) -> list:
    """Stands for the adjoints of these tensors; what follows is a backward pass."""
    return [torch.zeros_like(y) for y in ys]


@torch.library.custom_op("anfora::with_backward", mutates_args=(), schema="(Tensor[] ys, Tensor[] xs, Tensor[] dxs, Tensor[] dys) -> Tensor[]")
def _with_backward(ys: list, xs: list, dxs: list, dys: list) -> list:
    """The values ys, functions of xs whose adjoints are dxs where those of ys are dys."""
    return [y.clone() for y in ys]


_adjoints.register_fake(lambda ys: [torch.empty_like(y) for y in ys])
_with_backward.register_fake(lambda ys, xs, dxs, dys: [torch.empty_like(y) for y in ys])


# ---- the trace ----

class _Context(FunctionCtx):
    """What forward() and backward() get as ctx."""
    to_save: tuple = ()
    dirty_tensors: tuple = ()
    non_differentiable: tuple = ()
    materialize_grads = True
    output_grad_dtypes = None

    def __init__(self, needs: tuple) -> None:
        self.needs_input_grad = needs

    @property
    def saved_tensors(self) -> tuple:
        return tuple(self.to_save)

    def set_materialize_grads(self, value: bool) -> None:
        self.materialize_grads = value


def _is_real(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and (x.is_floating_point() or x.is_complex())


def _same_memory(x: torch.Tensor, others: list) -> bool:
    return any(STORAGE(x)._cdata == STORAGE(o)._cdata for o in others)


class _Versions:
    """Tensors that a pass may read and not write."""

    def __init__(self, tensors: Any) -> None:
        self.tensors = [(x, x._version) for x in tensors if isinstance(x, torch.Tensor)]

    def check(self, name: str, what: str) -> None:
        if any(x._version != v for x, v in self.tensors):
            raise refuse(f"{name} writes {what} in place", "write a clone() of it")


def _fitted(dx: Any, x: torch.Tensor, name: str) -> torch.Tensor:
    """A gradient in the shape and the element type of its argument, as autograd makes it."""
    if not isinstance(dx, torch.Tensor):
        raise refuse(f"the backward pass of {name} gives {dx!r} as a gradient")
    if dx.shape != x.shape:
        try:
            dx = dx.sum_to_size(x.shape)
        except RuntimeError:
            raise refuse(f"{name} returned an invalid gradient: it has the shape {list(dx.shape)}, its argument {list(x.shape)}") from None
    if dx.is_complex() and not x.is_complex():
        dx = dx.real
    return dx.to(x.dtype)


def _gradients(cls: Any, ctx: _Context, args: tuple, adjoints: list) -> list:
    """(the arguments that get a gradient, their gradients)"""
    name = cls.__name__
    backward = cls.backward if cls.backward is not torch.autograd.Function.backward else cls.vjp
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        grads = backward(ctx, *adjoints)
        grads = grads if isinstance(grads, tuple) else (grads,)
        if len(grads) < len(args) or any(g is not None for g in grads[len(args):]):
            raise refuse(f"{name} returned an incorrect number of gradients (expected {len(args)}, got {len(grads)})")
        wrong = [i for i, (a, g) in enumerate(zip(args, grads)) if g is not None and not isinstance(a, torch.Tensor)]
        if wrong:
            raise refuse(f"{name} returned a gradient different from None at position {wrong[0] + 1}, but the corresponding forward input was not a Variable")
        return [(a, _fitted(g, a, name)) for a, g, needs in zip(args, grads, ctx.needs_input_grad) if needs and g is not None]


def _apply(cls: Any, stops: Any, grad: bool, args: tuple, forward: Callable, setup: Callable | None) -> Any:
    """What cls.apply(*args) gives; forward and setup are its forward() and, if it has one, setup_context()."""
    name = cls.__name__
    with torch._C.DisableTorchFunction():
        if any(isinstance(a, torch.Tensor) and WANTS(a) for a in args) or torch._C._are_functorch_transforms_active():
            raise refuse(f"{name} is a torch.autograd.Function in what the model differentiates itself",
                         "write it in operators of PyTorch, with detach() where no gradient is to pass")
    needs = tuple(_is_real(a) and bool(a.requires_grad) for a in args)
    ctx = _Context(needs)
    given = [a for a in args if isinstance(a, torch.Tensor)]
    with stops.inside():
        unwritten = _Versions(given)
        out = forward(ctx, *args) if setup is None else forward(*args)
        if setup is not None:
            setup(ctx, args, out)
        unwritten.check(name, "its argument")
    if ctx.dirty_tensors:
        raise refuse(f"{name} writes its argument in place", "let it give a new tensor")
    made = list(out) if isinstance(out, (tuple, list)) else [out]
    real = [i for i, y in enumerate(made) if _is_real(y)]
    taken = [i for i in real if not any(made[i] is y for y in ctx.non_differentiable)] if grad and any(needs) else []
    pairs: list = []
    if taken:
        if not ctx.materialize_grads and len(taken) > 1:
            raise refuse(f"{name} has several results and takes None as the gradient of one", "leave out set_materialize_grads(False)")
        if ctx.output_grad_dtypes is not None:
            raise refuse(f"{name} sets the element types of its gradients")
        ys = [made[i] for i in taken]
        unwritten = _Versions([*given, *made, *ctx.to_save])
        with stops.inside(), mock.patch.object(torch.autograd, "backward", _no_backward(name)):
            dys = dict(zip(taken, torch.ops.anfora.adjoints(ys)))
            others = (torch.zeros_like(y) if isinstance(y, torch.Tensor) and ctx.materialize_grads else None for y in made)
            pairs = _gradients(cls, ctx, args, [dys.get(i, other) for i, other in enumerate(others)])
        unwritten.check(name, "in its backward pass what the forward pass has made or saved")
    if pairs:
        xs, dxs = map(list, zip(*pairs))
        with stops.inside():
            results = torch.ops.anfora.with_backward(ys, xs, dxs, list(dys.values()))
        for i, z in zip(taken, results):
            if _same_memory(made[i], given):
                stops.views.append(z)
            made[i] = z
        stops.want([made[i] for i in taken])
    for i in real:
        if not pairs or i not in taken:
            made[i] = stops.stop(made[i], given)
    return type(out)(made) if isinstance(out, (tuple, list)) else made[0]


def _no_backward(name: str) -> Callable:
    def backward(*args: Any, **kwargs: Any) -> Any:
        raise refuse(f"{name} calls backward(), which adds to .grad", "compute gradients by torch.autograd.grad and return them")
    return backward


def _inline(run: Callable, preserve: bool, *args: Any) -> Any:
    """A part that is computed again for its gradient: the gradient is that of the part."""
    with torch.enable_grad():
        return run(*args)


@contextlib.contextmanager
def own_backward(stops: Any) -> Any:
    """While a forward pass is traced, Function.apply gives tensors whose gradient its own backward() computes. PyTorch's apply, which a
    model may hold since before, asks the class for its forward(), which is where it is met."""
    calls: list = []  # the class that is applied, and whether gradients are on
    done: list = []  # the class whose setup_context() was called with its forward()

    def attribute(cls: Any, name: str) -> Any:
        value = type.__getattribute__(cls, name)
        if name == "_backward_cls":
            calls[:] = [cls, torch.is_grad_enabled()]
        elif name == "setup_context" and done == [cls]:
            done.clear()
            return lambda *given: None
        if name != "forward" or not calls or calls[0] is not cls:
            return value
        grad = calls.pop()
        calls.clear()
        if cls is CheckpointFunction:
            return lambda ctx, *args: _inline(*args)
        if cls.__module__.startswith(("torch.utils.checkpoint", "anfora.")):
            return _library(cls, value)
        setup = type.__getattribute__(cls, "setup_context")
        if setup is _SingleLevelFunction.__dict__["setup_context"].__func__:
            return lambda ctx, *args: _apply(cls, stops, grad, args, value, None)

        def forward(*args: Any) -> Any:
            out = _apply(cls, stops, grad, args, value, setup)
            done[:] = [cls]
            return out
        return forward

    def of_transforms(cls: Any, *args: Any, **kwargs: Any) -> Any:
        return _apply(cls, stops, True, args, cls.forward, None)
    with mock.patch.object(FunctionMeta, "__getattribute__", attribute), \
            mock.patch.object(torch.autograd.function, "custom_function_call", of_transforms):
        yield


def _library(cls: Any, forward: Callable) -> Callable:
    """Functions of PyTorch that are no part of what is computed, and Anfora's, which need values."""
    if cls.__module__.startswith("torch."):
        return forward

    def refused(*args: Any) -> Any:
        raise refuse("the model calls an anfora.torch.Function, which needs the values of its arguments", "write it in operators of PyTorch")
    return refused


# ---- the program ----

def backward_passes(graph: Any) -> dict:
    """The nodes that are part of a backward pass, and those that end one, with the lines of the pass: [] for now."""
    place = {n: i for i, n in enumerate(graph.nodes)}
    lines: dict = {}
    for end in graph.find_nodes(op="call_function", target=torch.ops.anfora.with_backward.default):
        begin = end.args[3][0].args[0]
        nodes = [n for n in graph.nodes if place[begin] < place[n] < place[end]]
        todo = [n for n in nodes if any(not place[begin] < place[u] <= place[end] for u in n.users)]  # used outside, too
        outside: set = set()
        while todo:
            n = todo.pop()
            if n not in outside:
                outside.add(n)
                todo += [m for m in n.all_input_nodes if m in place and place[begin] <= place[m] < place[end]]
        if begin in outside:
            raise refuse("the backward pass of a torch.autograd.Function writes what is read outside of it")
        of: list = []
        lines.update((n, of) for n in (*nodes, end) if n not in outside)
        if any(n.target in RANDOM for n in nodes):
            raise refuse("the backward pass of a torch.autograd.Function draws random numbers", "draw them in its forward pass")
    return lines


def reached_by(node: Any) -> list:
    """The nodes whose gradient the node's makes."""
    if node.target is torch.ops.anfora.stop_gradient.default:
        return []
    return list(node.args[1]) if node.target is torch.ops.anfora.with_backward.default else node.all_input_nodes


@row("anfora.adjoints")
def adjoints(g: Any, ys: list) -> Any:
    return [Value(g.fresh(), y.dtype, y.shape) for y in ys]


NAME = re.compile(r"\b[an]\d+\b")


@row("anfora.with_backward")
def with_backward(g: Any, ys: list, xs: list, dxs: list, dys: list) -> Any:
    if not g.derived:
        raise Unsupported("it has a backward pass of its own")
    lines, params = g.passes[g.node], [g.fresh() for _ in xs]
    made = {str(d) for d in dys}.union(*(NAME.findall(text.split(" = ")[0]) for _, text in lines))
    saved: dict = {}  # what the pass reads of the forward pass, and what it is called

    def constant(match: Any) -> str:
        name = match[0]
        if name not in made and name not in saved:
            saved[name] = g.name(f"StopGradient({name})")
        return saved.get(name, name)
    body = [(node, NAME.sub(constant, text)) for node, text in lines]
    grads = [NAME.sub(constant, d) for d in dxs]
    values = f"({''.join(g.name(f'StopGradient({y})') + ', ' for y in ys)})"
    result, residuals, adjoint = (g.fresh() for _ in range(3))
    given = ", ".join(params)
    g.raw(f"{result} = custom_vjp(fn ({given}) {{ {values} }}, fn ({given}) {{ ({values}, ()) }}, fn ({residuals}, {adjoint}) {{")
    for i, d in enumerate(dys):
        g.raw(f"{d} = {adjoint}[{i}]")
    g.lines += body
    g.raw(f"({''.join(d + ', ' for d in grads)})")
    g.raw(f"}})({', '.join(xs)})")
    return [Value(g.name(f"{result}[{i}]"), y.dtype, y.shape) for i, y in enumerate(ys)]

