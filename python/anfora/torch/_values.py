# SPDX-License-Identifier: Apache-2.0
"""What functions of torch check by the values of tensors before they are traced, which a trace leaves out:

    torch.quantile(x, q)     becomes     torch._assert_async(((q >= 0) & (q <= 1)).all(), ".."); torch.quantile(x, q)"""
from __future__ import annotations

from typing import Any, Callable

import torch


def _fractions(name: str) -> Callable:
    def check(x: Any, q: Any, *more: Any, **words: Any) -> None:
        if isinstance(q, torch.Tensor):
            torch._assert_async(((q >= 0) & (q <= 1)).all(), f"{name}() q values must be in the range [0, 1]")
    return check


def _holds(condition: torch.Tensor, *message: str) -> None:
    """Without a message the assertion would be left out, as nothing reads it."""
    if not message:
        torch._assert_async(condition.bool(), "Expected Tensor with single nonzero value, but got zero")


def _labels(x: Any, target: torch.Tensor, *more: Any, **words: Any) -> None:
    if target.numel():
        inside = (target >= -1) & (target < target.shape[-1])
        torch._assert_async(inside.all(), "multilabel_margin_loss: argument #2 'target' is out of range")


HOLDERS = torch, torch.Tensor, torch.nn.functional, torch._C._nn
CHECKS: dict[str, Callable] = {"multilabel_margin_loss": _labels, "quantile": _fractions("quantile"), "nanquantile": _fractions("nanquantile"), "_assert_async": _holds}


def check_of(func: Any) -> Callable | None:
    """What checks the arguments of a function or a method of torch."""
    name = getattr(func, "__name__", "")
    return CHECKS[name] if name in CHECKS and any(getattr(holder, name, None) is func for holder in HOLDERS) else None


def with_checks(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A graph that Dynamo captured, with these checks in front."""
    changed = False
    for n in list(gm.graph.nodes):
        check = check_of(getattr(torch.Tensor, n.target, None) if n.op == "call_method" else n.target if n.op == "call_function" else None)
        if check is not None:
            with gm.graph.inserting_before(n):
                added = gm.graph.create_node("call_function", check, n.args, n.kwargs)
            added.meta = {k: v for k, v in n.meta.items() if k != "example_value"}
            changed = True
    if changed:
        gm.recompile()
    return gm
