# SPDX-License-Identifier: Apache-2.0
"""PyTorch programs on Anfora.

    torch.compile(model, backend="anfora")       inference and training, by AOTAutograd
    compile_step(model, loss, optimizer)         a training step as one program
    Function(f)                                  a function of Anfora that autograd differentiates, to any order
"""
from ._autograd import Function
from ._backend import backend, fallbacks
from ._lion import Lion
from ._step import Step, compile_step, export_step

import torch as _torch

if "anfora" not in _torch._dynamo.list_backends(exclude_tags=()):  # where the package is not installed, nothing names it
    _torch._dynamo.register_backend(backend, name="anfora")

__all__ = ["Function", "Lion", "Step", "backend", "compile_step", "export_step", "fallbacks"]
