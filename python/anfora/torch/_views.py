# SPDX-License-Identifier: Apache-2.0
"""Outputs of a graph that share memory with others or with an argument, as eager's do: a write to one is seen in the others.

    v = sin(x); return v, view(v, [6])        the program gives v, of which the second output is made by view

The graph gives what the outputs are views of, and PyTorch makes the views of it."""
from __future__ import annotations

import operator
from typing import Any, Callable

import torch
from torch.utils._pytree import tree_map

aten = torch.ops.aten
VIEWS = {aten.alias.default, aten.detach.default, aten.diagonal.default, aten.expand.default, aten.permute.default, aten.select.int,
         aten.slice.Tensor, aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.t.default, aten.transpose.int, aten.unfold.default,
         aten.unsqueeze.default, aten.view.default, aten.split.Tensor, aten.split_with_sizes.default, aten.unbind.int}
LISTS = {aten.split.Tensor, aten.split_with_sizes.default, aten.unbind.int}


def _chain(node: Any) -> list:
    """What a node is a view of, and the nodes that make the view, the last first."""
    chain = [node]
    while True:
        n = chain[-1]
        item = n.target is operator.getitem and getattr(n.args[0], "target", None) in LISTS
        if n.op != "call_function" or not (item or n.target in VIEWS) or not _is_known((n.args[1:], n.kwargs)):
            return chain
        chain.append(n.args[0])


def _is_known(args: Any) -> bool:
    """Have the arguments no numbers that the graph computes?"""
    found: list = []
    tree_map(lambda a: found.append(a) if isinstance(a, torch.fx.Node) and isinstance(a.meta.get("val"), torch.Tensor) else None, args)
    return not found


def share(graph: torch.fx.Graph) -> dict[int, list]:
    """Lets the graph give what outputs are views of, if it is an argument or there are several of them; gives the nodes of the views
    by the outputs' positions."""
    output = next(n for n in graph.nodes if n.op == "output")
    if not isinstance(output.args[0], (list, tuple)):
        return {}
    chains = [_chain(n) if isinstance(n, torch.fx.Node) else [None] for n in output.args[0]]
    users: dict = {}
    for c in chains:
        users.setdefault(c[-1], set()).add(c[0])
    shared = {i: c for i, c in enumerate(chains)
              if len(c) > 1 and (c[-1].op == "placeholder" or c[-1].op == "call_function" and len(users[c[-1]]) > 1)}
    if shared:
        output.args = ([shared[i][-1] if i in shared else n for i, n in enumerate(output.args[0])],)
    return {i: c[-2::-1] for i, c in shared.items()}


def _view(x: Any, node: Any, sizes: Callable) -> Any:
    args, words = tree_map(lambda a: sizes(a.meta["val"] if isinstance(a, torch.fx.Node) else a), (list(node.args[1:]), node.kwargs))
    # a row-major result has the view that the graph's, with other strides, had not
    return x.reshape(*args) if node.target is aten.view.default else node.target(x, *args, **words)


class Shared:
    """A compiled graph whose outputs share memory; `sizes` gives the values of symbols for the arguments."""

    def __init__(self, run: Callable, views: dict[int, list], sizes: Callable) -> None:
        self.run, self.views, self.sizes = run, views, sizes

    def __call__(self, *args: Any) -> list:
        out, sizes = list(self.run(*args)), self.sizes(args)
        for i, chain in self.views.items():
            for node in chain:
                out[i] = _view(out[i], node, sizes)
        return out
