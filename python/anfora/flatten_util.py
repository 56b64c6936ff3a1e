# SPDX-License-Identifier: Apache-2.0
"""Trees as one array, by the name of jax.flatten_util."""
from __future__ import annotations

import math
from typing import Any, Callable

from . import numpy as anp
from ._compile.builtins import asarray
from ._tree import tree_leaves, tree_structure, tree_unflatten

__all__ = ["ravel_pytree"]


def ravel_pytree(tree: Any) -> tuple[Any, Callable]:
    """(the elements of all leaves as one array, the function that makes such a tree of one). That function may be used in compiled
    functions."""
    leaves = [asarray(x) for x in tree_leaves(tree)]
    if len({str(x.dtype) for x in leaves}) > 1:
        raise TypeError(f"the leaves have several element types, {', '.join(sorted({str(x.dtype) for x in leaves}))}: cast them before")
    structure, cuts, at = tree_structure(tree), [], 0
    for x in leaves:
        cuts.append((at, at + math.prod(x.shape), x.shape))
        at += math.prod(x.shape)

    def unravel(flat):
        return tree_unflatten(structure, [anp.reshape(flat[begin:end], shape) for begin, end, shape in cuts])
    vars(unravel)["_anfora_like"] = structure
    return anp.concatenate([anp.ravel(x) for x in leaves]) if leaves else anp.zeros(0), unravel
