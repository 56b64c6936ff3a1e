# SPDX-License-Identifier: Apache-2.0
"""PyTorch programs on Anfora.

    torch.compile(model, backend="anfora")       inference and training, by AOTAutograd
"""
from ._backend import backend, fallbacks

import torch as _torch

if "anfora" not in _torch._dynamo.list_backends(exclude_tags=()):  # where the package is not installed, nothing names it
    _torch._dynamo.register_backend(backend, name="anfora")

__all__ = ["backend", "fallbacks"]
