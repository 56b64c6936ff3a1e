# SPDX-License-Identifier: Apache-2.0
"""Arguments of functions made of operations that can be constants of their code."""
from __future__ import annotations

from typing import Any

from .._compile.known import is_array
from .._tree import tree_leaves


def frozen(x: Any) -> Any:
    """A list as a tuple, which can be a constant."""
    return tuple(map(frozen, x)) if type(x) in (list, tuple) else x


def plain_constant(x: Any) -> Any:
    """A whole number of NumPy, or few in a vector, as Python's, which can be constants."""
    if str(getattr(x, "dtype", "")).startswith(("int", "uint")) and hasattr(x, "tolist") and x.ndim < 2 and x.size <= 64:
        return x.tolist()
    return x


def numbers_in(x: Any) -> bool:
    """Whether the leaves of a tree, of which there are some, are numbers."""
    if isinstance(x, (tuple, list, dict)):
        return len(x) > 0 and all(map(numbers_in, x.values() if isinstance(x, dict) else x))
    return x is None or isinstance(x, (int, float, complex))


def has_arrays(x: Any) -> bool:
    """Whether a tree from outside has arrays, which are no constants of the code."""
    return isinstance(x, (tuple, list, dict)) and any(map(is_array, tree_leaves(x)))
