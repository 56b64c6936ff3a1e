# SPDX-License-Identifier: Apache-2.0
"""Trees as one array, by the name of jax.flatten_util."""
from __future__ import annotations

import functools
import math
from typing import Any, Callable

from . import numpy as anp
from ._compile.builtins import asarray
from ._compile.static import BUILTINS
from ._tree import quoted, tree_leaves, tree_structure, tree_unflatten
from ._types import TensorType

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


def _ravelled(tree: Any) -> str:
    """The text of a function of such a tree that gives what ravel_pytree does."""
    leaves: list[str] = []
    kinds: set[str] = set()
    at = 0

    def rebuilt(t: Any, text: str) -> str:
        nonlocal at
        if isinstance(t, tuple):
            return "(" + "".join(f"{rebuilt(p, f'{text}[{i}]')}, " for i, p in enumerate(t)).rstrip(" ") + ")"
        if isinstance(t, dict):
            return "{" + ", ".join(f"{quoted(k)} = {rebuilt(p, f'{text}.{quoted(k)}')}" for k, p in t.items()) + "}"
        if t == "none":
            return "None"
        if not isinstance(t, TensorType) or None in t.dims:
            raise TypeError("the leaves are arrays of known shapes")
        begin, at = at, at + math.prod(t.dims)
        settled = {"int": "i64", "float": "f64", "complex": "c128"}.get(t.dtype.name)
        kinds.add(settled or t.dtype.name)
        leaves.append(f"Reshape({settled}({text}), (1,))" if settled else f"Reshape({text}, ({math.prod(t.dims)},))")
        return f"Reshape(v[{begin}:{at}], ({''.join(f'{d}, ' for d in t.dims).rstrip(' ')}))"
    tree_text = rebuilt(tree, "x")
    if len(kinds) > 1:
        raise TypeError(f"the leaves have several element types, {', '.join(sorted(kinds))}: cast them before")
    if not leaves:
        raise TypeError("the tree has no leaves")
    flat = leaves[0] if len(leaves) == 1 else f"Concat({', '.join(leaves)}, axis=0)"
    return f"def ravelled(x) {{ ({flat}, fn (v) {{ {tree_text} }}) }}\n"


@functools.cache
def _ravelling() -> Any:
    from ._generated import Generated

    def ravelled(tree: Any) -> str:
        return _ravelled(tree)
    return Generated(ravelled)


def _emit_ravel(w: Any, c: Any) -> str:
    """In a compiled function: by the type of the tree."""
    if len(c.args) != 1 or c.kw:
        w.refuse(c.node, "ravel_pytree takes one tree")
    made = _ravelling()
    w.b.keep.append(made)
    return f"{made._emit(w.b)}{w.mark(c.node)}({w.expr(c.args[0])})"


BUILTINS[ravel_pytree] = _emit_ravel
