# SPDX-License-Identifier: Apache-2.0
"""Gradients of gradients of compiled graphs. AOTAutograd compiles a graph and its backward pass, which cannot be differentiated;
here the backward pass is traced when it is called with create_graph=True, compiled as a graph of its own, and so on."""
from __future__ import annotations

from typing import Any, Callable

import torch
from torch.fx.experimental.proxy_tensor import make_fx

Compile = Callable[[torch.fx.GraphModule, list], Callable]


def _is_real(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.requires_grad


class Orders:
    """A graph that is compiled with its backward pass, and compiled anew for the derivative of that."""

    def __init__(self, gm: Any, compiled: Callable, compile_graph: Compile) -> None:
        self.gm, self.compiled, self.compile_graph = gm, compiled, compile_graph
        self.pullbacks: dict = {}

    def __call__(self, *args: Any) -> Any:
        if not torch.is_grad_enabled() or not any(map(_is_real, args)):
            return self.compiled(*args)
        return _Ordered.apply(self, *args)

    def pullback(self, args: list, grads: list) -> "Orders":
        """(tensors among the arguments, those among the adjoints) to the adjoints of the arguments that want one."""
        kinds = tuple((x.dtype, tuple(x.shape), x.requires_grad) if isinstance(x, torch.Tensor) else x for x in (*args, *grads))
        if kinds not in self.pullbacks:
            tensors = [x for x in (*args, *grads) if isinstance(x, torch.Tensor)]
            self.pullbacks[kinds] = self._differentiated(args, grads, tensors)
        return self.pullbacks[kinds]

    def _differentiated(self, args: list, grads: list, tensors: list) -> "Orders":
        def f(*given: torch.Tensor) -> list:
            rest = iter(given)
            xs = [next(rest) if isinstance(x, torch.Tensor) else x for x in args]
            ys = [next(rest) if isinstance(g, torch.Tensor) else None for g in grads]
            xs = [x.detach().requires_grad_() if _is_real(a) else x for x, a in zip(xs, args)]
            with torch.enable_grad():
                out = [(o, y) for o, y in zip(self.gm(*xs), ys) if _is_real(o) and y is not None]
                wrt = [x for x in xs if _is_real(x)]
                return [torch.zeros_like(x) if g is None else g for x, g in zip(wrt, torch.autograd.grad(
                    [o for o, _ in out], wrt, [y for _, y in out], create_graph=True, allow_unused=True))]
        gm = make_fx(f, tracing_mode="fake", _allow_non_fake_inputs=True)(*(x.detach() for x in tensors))
        for n in gm.graph.nodes:
            if isinstance(n.target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in n.target.tags:
                raise RuntimeError(f"anfora: no gradient of a gradient of a graph that draws random numbers ({n.target}): they would be "
                                   "drawn again; draw them outside of the compiled function")
            if isinstance(n.target, torch._ops.OpOverload) and n.target._schema.is_mutable and n.args[0].op == "placeholder":
                raise RuntimeError(f"anfora: no gradient of a gradient of a graph that writes one of its inputs ({n.target})")
        return Orders(gm, self.compile_graph(gm, tensors), self.compile_graph)


class _Ordered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, of: Orders, *args: Any) -> Any:
        with torch.enable_grad():
            inner = [x.detach().requires_grad_() if _is_real(x) else x for x in args]
            results = list(of.compiled(*inner))
        ctx.of, ctx.inner, ctx.results = of, inner, results
        ctx.plain = [None if isinstance(x, torch.Tensor) else x for x in args]
        ctx.save_for_backward(*(x for x in args if isinstance(x, torch.Tensor)))
        ctx.set_materialize_grads(False)
        out = tuple(x.detach() if isinstance(x, torch.Tensor) else x for x in results)
        ctx.mark_non_differentiable(*(o for o, x in zip(out, results) if isinstance(x, torch.Tensor) and not x.requires_grad))
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        tensors = iter(ctx.saved_tensors)
        args = [next(tensors) if p is None else p for p in ctx.plain]
        if not any(g is not None for g in grads):
            return (None, *[None] * len(args))
        if torch.is_grad_enabled():
            found = ctx.of.pullback(args, grads)(*(x for x in (*args, *grads) if isinstance(x, torch.Tensor)))
        else:
            out = [(o, g) for o, g in zip(ctx.results, grads) if _is_real(o) and g is not None]
            found = torch.autograd.grad([o for o, _ in out], [x for x in ctx.inner if _is_real(x)], [g for _, g in out],
                                        retain_graph=True, allow_unused=True)
        rest = iter(found)
        return (None, *(next(rest) if _is_real(x) else None for x in ctx.inner))
