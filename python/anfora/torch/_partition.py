# SPDX-License-Identifier: Apache-2.0
"""The graph of a forward and a backward pass in two: PyTorch's partitioner, after attention's derivative is made one that reads no sums
of exponentials: the forward pass need not give them, so that it is computed a block of queries at a time, without a matrix of weights."""
from __future__ import annotations

from typing import Any, Optional

import torch

flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
flash_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default
Three = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


@torch.library.custom_op("anfora::attention_backward", mutates_args=())
def attention_backward(grad: torch.Tensor, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, out: torch.Tensor, is_causal: bool,
                       attn_mask: Optional[torch.Tensor], scale: Optional[float]) -> Three:
    """What PyTorch runs where the row refuses it."""
    sums = flash(query, key, value, 0.0, is_causal, attn_mask=attn_mask, scale=scale)[1]
    return flash_backward(grad, query, key, value, out, sums, 0.0, is_causal, attn_mask=attn_mask, scale=scale)


@attention_backward.register_fake
def _(grad: torch.Tensor, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, out: torch.Tensor, is_causal: bool,
      attn_mask: Optional[torch.Tensor], scale: Optional[float]) -> Three:
    return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)


def _without_sums(graph: torch.fx.Graph) -> None:
    for n in graph.find_nodes(op="call_function", target=flash_backward):
        grad, query, key, value, out, _, dropout, is_causal = n.args
        if dropout:
            continue
        with graph.inserting_before(n):
            new = graph.call_function(torch.ops.anfora.attention_backward.default, (
                grad, query, key, value, out, is_causal, n.kwargs.get("attn_mask"), n.kwargs.get("scale")))
        new.meta = dict(n.meta)
        n.replace_all_uses_with(new)
        graph.erase_node(n)
    graph.eliminate_dead_code()


def partition(joint: torch.fx.GraphModule, inputs: Any, **options: Any) -> Any:
    from functorch.compile import min_cut_rematerialization_partition
    if joint.graph.find_nodes(op="call_function", target=flash_backward):
        _without_sums(joint.graph)
        joint.recompile()
    return min_cut_rematerialization_partition(joint, inputs, **options)
