# SPDX-License-Identifier: Apache-2.0
"""One program for all sizes of a batch: a graph is written for a size that no other number is likely to be, and the numbers that
are this size become the first dim of an input.

    Reshape(a0, shape=(104729, 64))        Reshape(a0, shape=(-1, 64))
    BroadcastTo(a1, shape=(104729, 8))     BroadcastTo(a1, shape=(a0.shape[0], 8))

For each size of a call it is tested that the program is the one that the graph is written as for that size."""
from __future__ import annotations

import re
from typing import Any

import sympy
import torch

from .._errors import CompileError
from ._graph import Sizes, Traced, Unsupported, Writer

SIZE = 104729  # a prime
NUMBER = re.compile(r"(?<![\w.])(\d+)(?![\w.])")
FIRST_OF_RESHAPE = re.compile(r"(?<=shape=\()(\d+)(?=[,)])")


def _has_size(text: str) -> bool:
    return any(int(t) and int(t) % SIZE == 0 for t in NUMBER.findall(text))


def _general(line: str, size: str) -> str | None:
    """The line for any size; `size` is an expression of it. None: it has a number that is no such expression."""
    if "Reshape(" in line:
        def first(m: Any) -> str:
            return "-1" if int(m[1]) and int(m[1]) % SIZE == 0 and not _has_size(line[m.end():]) else m[1]
        line = FIRST_OF_RESHAPE.sub(first, line, count=1)
    line = NUMBER.sub(lambda m: size if int(m[1]) == SIZE else m[1], line)
    return None if _has_size(line) else line


def _at(line: str, n: int) -> str:
    """The line that was written for SIZE as it is for n."""
    return NUMBER.sub(lambda m: str(int(m[1]) // SIZE * n) if int(m[1]) % SIZE == 0 else m[1], line)


def _first_dim(node: Any) -> Any:
    meta = node.meta.get("val")
    symbolic = isinstance(meta, torch.Tensor) and meta.ndim > 0 and isinstance(meta.shape[0], torch.SymInt)
    return meta.shape[0].node.expr if symbolic else None


def batch_of(placeholders: list) -> Any:
    """The symbol that is the first dim of a tensor; None if there is none."""
    return next((s for s in map(_first_dim, placeholders) if isinstance(s, sympy.Symbol)), None)


class AnySize:
    """The program of a graph for all sizes of a symbol, if it has one; `others` are the values of the other symbols."""

    def __init__(self, graph: Any, attributes: Any, symbol: Any, others: dict, name: str, options: dict) -> None:
        self.function: Traced | None = None
        try:
            w = Writer(graph, attributes, Sizes({**others, symbol: sympy.Integer(SIZE)}))
            w.run()
        except (Unsupported, CompileError, ArithmeticError, ValueError):
            return
        size = next((f"a{i}.shape[0]" for i, n in enumerate(w.inputs) if _first_dim(n) == symbol), None)
        lines = [(node, size and _general(text, size)) for node, text in w.lines]
        if size is None or not w.results or any(text is None for _, text in lines):
            return
        self.lines, self.inputs, self.results, self.functions = w.lines, w.inputs, w.results, w.functions
        w.lines = lines  # type: ignore[assignment]
        self.function = Traced(name, w, **options)

    def of(self, w: Writer, n: int) -> Traced | None:
        """The program, if it is what w wrote for the size n."""
        if self.function is None or w.inputs != self.inputs or w.results != self.results or w.functions != self.functions:
            return None
        same = len(w.lines) == len(self.lines) and all(a[0] is b[0] and a[1] == _at(b[1], n) for a, b in zip(w.lines, self.lines))
        return self.function if same else None
