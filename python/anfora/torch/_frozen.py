# SPDX-License-Identifier: Apache-2.0
"""The option ``freeze``: weights of a graph of inference as constants of its code, so that they are packed for kernels once and
what depends on them alone is computed when code is made. Each call compares the tensors' memory and versions with those of
then; what wrote them since without telling PyTorch (``p.data``, NumPy's views) is not seen, which is why it is an option."""
from __future__ import annotations

from typing import Any, Callable

import torch

from .. import _core
from .._compile.emit import Builder
from .._compile.static import outside
from .._function import Function
from ._graph import Traced


def static_inputs() -> list[int]:
    """Which inputs of the graph that is being compiled are parameters and buffers."""
    context = torch._guards.TracingContext.try_get()
    known = context.fw_metadata.static_input_indices if context is not None and context.fw_metadata is not None else None
    return list(known or ())


class Constant(Function):
    """The function of a graph without the inputs that `values`, by position, has."""

    def __init__(self, of: Traced, values: dict, options: dict) -> None:
        super().__init__(of.__name__, len(of.writer.inputs) - len(values), **options)
        self._constants = True  # captured arrays are constants of the code
        self._of, self._given = of, values

    def _root(self, b: Builder, statics: dict, shapes: list) -> tuple[str, list[str]]:
        whole, names = self._of._root(b, statics, shapes)
        free = [n for i, n in enumerate(names) if i not in self._given]

        def write(u: Any) -> str:
            given = [outside(b, self._given[i]) if i in self._given else n for i, n in enumerate(names)]
            return f"def \ue001{u.number}\ue002({', '.join(free)}) {{\n  {whole}({', '.join(given)})\n}}\n"
        return b.unit(self, self.__name__, write), free


class Frozen:
    """Runs a graph with its weights as constants while they are what they were. The first call with other weights runs the
    code that takes them as arguments, the second with the same ones makes new code.

    `at`: where the weights are among the inputs; `lent`: a tensor as the code takes it."""

    def __init__(self, plain: Traced, at: list[int], lent: Callable, options: dict) -> None:
        self.plain, self.at, self.lent, self.options = plain, at, lent, options
        self.others = [i for i in range(len(plain.writer.inputs)) if i not in set(at)]
        self.state: Any = None  # of the call before
        self.storages: list = []  # kept, such that no other memory has their address
        self.function: Function | None = None

    def __call__(self, given: list) -> Any:
        weights = [given[i] for i in self.at]
        try:
            state = [(x.data_ptr(), x._version) for x in weights]
        except RuntimeError:  # tensors of inference mode have no version
            return self.plain(*map(self.lent, given))
        if state != self.state or self.function is None:
            again = self.state is None or state == self.state
            self.state, self.storages = state, [x.untyped_storage() for x in weights]
            self.function = self._frozen(weights) if again else None
        return self.function(*[self.lent(given[i]) for i in self.others]) if self.function else self.plain(*map(self.lent, given))

    def _frozen(self, weights: list) -> Function:
        return Constant(self.plain, {i: _core.owned(self.lent(x)) for i, x in zip(self.at, weights)}, self.options)
