# SPDX-License-Identifier: Apache-2.0
"""Functions of Anfora on tensors of PyTorch, with gradients of any order."""
from __future__ import annotations

from typing import Any, Callable

import torch

from .. import _core
from .._library.derived import Pullback
from .._jit import jit
from .._function import Function as Compiled
from ._backend import lent


def _tensor(x: Any, like: torch.Tensor | None = None) -> Any:
    """A result as a tensor; numbers have the element type that Python's have in Anfora."""
    if isinstance(x, _core.Array):
        return _core.give(x, torch.Tensor)
    if isinstance(x, (tuple, list)):
        return tuple(map(_tensor, x))
    return torch.tensor(x, dtype=torch.float64 if isinstance(x, float) else None)


def _is_real(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and (x.is_floating_point() or x.is_complex())


class Function:
    """A function of Anfora as one of PyTorch: tensors in and out, their memory lent, not copied. autograd differentiates it
    by Anfora's derivatives, which are functions of this kind again, so gradients of gradients work.

    >>> energy = anfora.torch.Function(lambda x: anp.sum(anp.cos(x) ** 2))
    >>> force, = torch.autograd.grad(energy(x), x, create_graph=True)"""

    def __init__(self, f: Callable, **options: Any) -> None:
        self.of, self.options = f, options
        self.compiled = f if isinstance(f, Compiled) else jit(f, **options)
        self._pullbacks: dict = {}
        self.__name__ = getattr(f, "__name__", "function")

    def pullback(self, n: int, real: tuple, results: int | None) -> "Function":
        """(n arguments, adjoints of the results) to the adjoints of the arguments numbered in `real`."""
        key = n, real, results
        if key not in self._pullbacks:
            self._pullbacks[key] = Function(Pullback(self.compiled, *key))
        return self._pullbacks[key]

    def __call__(self, *args: Any) -> Any:
        return _Applied.apply(self, *args)

    def run(self, args: tuple) -> Any:
        with torch.no_grad():
            return _tensor(self.compiled(*(lent(a) if isinstance(a, torch.Tensor) else a for a in args)))


class _Applied(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, f: Function, *args: Any) -> Any:
        ctx.f, ctx.plain = f, [None if isinstance(a, torch.Tensor) else a for a in args]
        ctx.save_for_backward(*(a for a in args if isinstance(a, torch.Tensor)))
        result = f.run(args)
        ctx.results = len(result) if isinstance(result, tuple) else None
        return result

    @staticmethod
    def backward(ctx: Any, *adjoints: Any) -> Any:
        tensors = iter(ctx.saved_tensors)
        args = [next(tensors) if p is None else p for p in ctx.plain]
        real = tuple(i for i, a in enumerate(args) if _is_real(a))
        if not real:
            return (None, *[None] * len(args))
        grads = ctx.f.pullback(len(args), real, ctx.results)(*args, *adjoints)
        by = dict(zip(real, grads if isinstance(grads, tuple) else (grads,)))
        return (None, *(by.get(i) for i in range(len(args))))
