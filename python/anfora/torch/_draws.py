# SPDX-License-Identifier: Apache-2.0
"""Random numbers that nothing reads. Eager draws them, which moves the generator; AOTAutograd drops their nodes as dead code:

    torch.rand(3); return x * 2     becomes     return x * 2, torch.rand(3)     and the caller cuts the second result off"""
from __future__ import annotations

import operator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only


class _Seen(TorchDispatchMode):
    """Whether an op runs that draws from the generator."""
    draws = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.draws |= torch.Tag.nondeterministic_seeded in func.tags
        return func(*args, **(kwargs or {}))


def _first(value: Any) -> tuple | None:
    """The path to the first tensor of a result."""
    if isinstance(value, torch.Tensor):
        return ()
    for i, v in enumerate(value) if isinstance(value, (list, tuple)) else ():
        path = _first(v)
        if path is not None:
            return (i, *path)
    return None


def _draws(n: torch.fx.Node, path: tuple) -> bool:
    """Runs a node of Dynamo's graph with copies of its operands, which have no elements."""
    value = n.meta["example_value"]
    for i in path:
        value = value[i]
    mode = getattr(value, "fake_mode", None)
    if mode is None:
        return False
    operands = tree_map_only(torch.fx.Node, lambda a: a.meta.get("example_value"), (n.args, n.kwargs))
    with torch.no_grad(), mode, _Seen() as seen:
        args, kwargs = tree_map_only(torch.Tensor, lambda x: x.detach().clone(), operands)
        try:
            (getattr(args[0], n.target) if n.op == "call_method" else n.target)(*args[n.op == "call_method":], **kwargs)
        except Exception:  # noqa: BLE001: whatever runs the graph reports it
            return False
    return seen.draws


def keep_draws(gm: torch.fx.GraphModule) -> int:
    """Makes draws that no result reads results, behind the others. How many there are."""
    output = next(n for n in gm.graph.nodes if n.op == "output")
    read = {output}
    for n in reversed(gm.graph.nodes):
        if n in read:
            read.update(n.all_input_nodes)
    kept = []
    for n in list(gm.graph.nodes):
        path = _first(n.meta.get("example_value")) if n not in read and n.op in ("call_function", "call_method") else None
        if path is None or isinstance(n.target, torch._ops.HigherOrderOperator) or not _draws(n, path):
            continue
        with gm.graph.inserting_before(output):
            for place in path:
                n = gm.graph.call_function(operator.getitem, (n, place))
            kept.append(gm.graph.call_method("clone", (gm.graph.call_method("detach", (n,)),)))
    if kept:
        output.args = ((*output.args[0], *kept),)
        gm.recompile()
    return len(kept)
