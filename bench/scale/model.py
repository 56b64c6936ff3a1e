# SPDX-License-Identifier: Apache-2.0
"""A model of the time of a training step on many ranks, from parts: compute by layer, links with latency and bandwidth, and a queue of
exchanges beside the backward sweep.

    ready(k) = forward + (k + 1) / layers * backward        the gradient of layer k, the last layer first
    done(k)  = max(ready(k), done(k - 1)) + exchange(k)     one exchange after the other
    step     = max(forward + backward, done(last)) + what cannot be hidden

Exchanges of n bytes on R ranks (Thakur et al. 2005; Patarasuk and Yuan 2009; Sanders et al. 2009 for the tree), a latency, b time of a byte:
    ring       2 (R - 1) a + 2 n (R - 1) / R b
    tree       2 log2(R) a + 2 n b                          two trees, each of half of the bytes, in pieces
    direct     2 (a + (R - 1) o) + 2 n (R - 1) / R b        Anfora's: all-to-all of parts, sum, all-gather; o: to post a message
    two-level  reduce-scatter in the node, a ring over nodes of each part, all-gather in the node
"""
from __future__ import annotations

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Link:
    latency: float  # seconds
    byte: float  # seconds
    post: float = 0.0  # seconds to post a message


@dataclass(frozen=True)
class Machine:
    """Nodes of `per_node` ranks. A node has one link to the others, which its ranks share."""
    flops: float  # of a rank, a second
    per_node: int
    inside: Link
    outside: Link

    def nodes(self, ranks: int) -> int:
        return max(1, math.ceil(ranks / self.per_node))


@dataclass(frozen=True)
class Model:
    """A transformer (12 width^2 parameters a layer), and rows of `tokens` tokens."""
    layers: int
    width: int
    tokens: int
    element: int = 2  # bytes of a gradient and of an activation
    state: int = 12  # bytes an element of the optimizer's state and the master copy take

    def parameters(self) -> int:
        return 12 * self.layers * self.width ** 2

    def flops(self, rows: float) -> float:
        """Of a step: 6 a parameter and token, and attention."""
        return rows * self.tokens * (6 * self.parameters() + 12 * self.layers * self.width * self.tokens)


def ring(n: float, ranks: int, m: Machine) -> float:
    """One ring through all ranks: hops inside nodes are fast ones."""
    if ranks == 1:
        return 0.0
    nodes = m.nodes(ranks)
    slow = nodes if nodes > 1 else 0
    link = m.outside if slow else m.inside
    hops = slow / ranks * m.outside.latency + (1 - slow / ranks) * m.inside.latency
    return 2 * (ranks - 1) * hops + 2 * n * (ranks - 1) / ranks * link.byte


def tree(n: float, ranks: int, m: Machine) -> float:
    if ranks == 1:
        return 0.0
    nodes = m.nodes(ranks)
    within = math.log2(min(ranks, m.per_node))
    link = m.outside if nodes > 1 else m.inside
    return 2 * (within * m.inside.latency + math.log2(nodes) * m.outside.latency) + 2 * n * link.byte


def direct(n: float, ranks: int, m: Machine) -> float:
    if ranks == 1:
        return 0.0
    link = m.outside if m.nodes(ranks) > 1 else m.inside
    shared = m.per_node if m.nodes(ranks) > 1 else 1  # ranks of a node that send beside one another
    return 2 * (link.latency + (ranks - 1) * link.post) + 2 * n * (ranks - 1) / ranks * link.byte * shared


def two_level(n: float, ranks: int, m: Machine) -> float:
    nodes, here = m.nodes(ranks), min(ranks, m.per_node)
    alone = replace(m, per_node=1)  # a ring over nodes: all parts share the node's link, so it carries n bytes
    return ring(n, here, replace(m, per_node=here)) + ring(n, nodes, alone)


WAYS = {"ring": ring, "tree": tree, "direct": direct, "two-level": two_level}


def overlapped(compute: float, layers: int, exchange: float, after: float = 0.0) -> float:
    """A step whose gradients are exchanged layer by layer; a third of the compute is the forward sweep."""
    forward, backward, done = compute / 3, 2 * compute / 3, 0.0
    for k in range(layers):
        done = max(forward + (k + 1) / layers * backward, done) + exchange
    return max(compute, done) + after


def hidden(compute: float, layers: int, exchange: float) -> float:
    """The share of the exchanges that the backward sweep hides."""
    total = layers * exchange
    return 1.0 if total == 0 else 1 - (overlapped(compute, layers, exchange) - compute) / total


def data_parallel(g: Model, m: Machine, ranks: int, rows: float, way: str = "two-level") -> float:
    n = g.parameters() * g.element / g.layers
    return overlapped(g.flops(rows / ranks) / m.flops, g.layers, WAYS[way](n, ranks, m))


def zero1(g: Model, m: Machine, ranks: int, rows: float, way: str = "two-level") -> float:
    """Half of an all-reduce for gradients; the other half gathers parameters after the update."""
    half = WAYS[way](g.parameters() * g.element / g.layers, ranks, m) / 2
    return overlapped(g.flops(rows / ranks) / m.flops, g.layers, half, after=g.layers * half)


def fsdp(g: Model, m: Machine, ranks: int, rows: float, way: str = "two-level") -> float:
    """Parameters by layer: gathered one layer ahead in both sweeps, gradients scattered."""
    compute = g.flops(rows / ranks) / m.flops
    half = WAYS[way](g.parameters() * g.element / g.layers, ranks, m) / 2
    ahead, back = compute / 3 / g.layers, 2 * compute / 3 / g.layers
    return half + g.layers * max(ahead, half) + g.layers * max(back, 2 * half) + half


def tensor_parallel(g: Model, m: Machine, ranks: int, rows: float, way: str = "two-level") -> float:
    """Products cut over the ranks of a node, with 4 all-reduces of activations a layer; data parallel over nodes."""
    cut = min(ranks, m.per_node)
    groups = ranks / cut
    activations = rows / groups * g.tokens * g.width * g.element
    compute = g.flops(rows / groups) / cut / m.flops
    inner = 4 * g.layers * ring(activations, cut, replace(m, per_node=cut))
    n = g.parameters() * g.element / g.layers / cut
    return overlapped(compute + inner, g.layers, WAYS[way](n * cut, m.nodes(ranks), replace(m, per_node=1)))


def pipeline(g: Model, m: Machine, ranks: int, rows: float, stages: int = 8, parts: int = 32, way: str = "two-level") -> float:
    """Layers over stages, the batch in parts (1F1B); data parallel over the pipelines."""
    cut = min(stages, ranks)
    groups = ranks / cut
    parts = max(1, min(parts, int(rows / groups)))
    compute = g.flops(rows / groups) / cut / m.flops
    link = m.outside if ranks > m.per_node else m.inside
    message = 2 * (link.latency + rows / groups / parts * g.tokens * g.width * g.element * link.byte)
    n = g.parameters() * g.element / cut
    filled = (compute / parts + message) * (parts + cut - 1)
    return filled + WAYS[way](n, max(1, round(groups)), m)


METHODS = {"data": data_parallel, "ZeRO-1": zero1, "FSDP": fsdp, "tensor": tensor_parallel, "pipeline": pipeline}


def memory(g: Model, ranks: int, method: str, per_node: int = 8, stages: int = 8) -> float:
    """Bytes of parameters, gradients and state on a rank."""
    p = g.parameters()
    both, state = 2 * g.element * p, g.state * p
    return {"data": both + state, "ZeRO-1": both + state / ranks, "FSDP": (both + state) / ranks,
            "tensor": (both + state) / min(ranks, per_node), "pipeline": (both + state) / min(ranks, stages)}[method]


# A cluster and a model to draw, assumed and not measured: 8 ranks a node at 200 TFLOP/s, 300 GB/s and 2 us in a node, 50 GB/s and 5 us
# between nodes; 24 layers of width 2048, rows of 2048 tokens.
CLUSTER = Machine(flops=200e12, per_node=8, inside=Link(2e-6, 1 / 300e9, 0.5e-6), outside=Link(5e-6, 1 / 50e9, 1e-6))
TRANSFORMER = Model(layers=24, width=2048, tokens=2048)
RANKS = [2 ** k for k in range(14)] + [10000]
