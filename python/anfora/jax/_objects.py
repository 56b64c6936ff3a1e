# SPDX-License-Identifier: Apache-2.0
"""Objects of JAX in programs. Typed keys of random numbers, `jax.random.key(0)`, are a record of their data, integers of 32 bits; objects of
classes that are registered with JAX are records of their parts."""
from __future__ import annotations

import dataclasses
import functools
import inspect
from typing import Any, Callable

import jax
import numpy as np
from jax._src.tree_util import _registry

from .._tree import FOREIGN, OTHERS, Node, field_names, register_pytree_node, registered, taken_apart


def is_key(x: Any) -> bool:
    return jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key)


def _made(impl: Any, parts: Any) -> Any:
    """Keys of their data; of a shape of data or a name, that of the keys."""
    data, = parts
    if isinstance(data, str):
        return data
    if isinstance(data, jax.ShapeDtypeStruct):
        return jax.eval_shape(lambda x: jax.random.wrap_key_data(x, impl=impl), data)
    return jax.random.wrap_key_data(np.asarray(data), impl=impl)


def _impl(x: Any) -> str:
    return x.dtype._impl.name


def _data(x: Any) -> Any:
    return jax.eval_shape(jax.random.key_data, x) if is_key(x) else x


def as_data(f: Callable, patterns: list) -> tuple[Callable, list, list]:
    """(f of the data of keys, which gives those, its arguments, what becomes f's results as they are)"""
    results: list = []

    def plain(*args: Any) -> Any:
        out = f(*jax.tree.map(lambda p, x: jax.random.wrap_key_data(x, impl=_impl(p)) if is_key(p) else x, tuple(patterns), args))
        results[:] = [jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype) if hasattr(x, "dtype") and is_key(x) else None, out)]
        return jax.tree.map(lambda x: jax.random.key_data(x) if hasattr(x, "dtype") and is_key(x) else x, out)
    return functools.wraps(f)(plain), jax.tree.map(_data, patterns), results


def kind_of(x: Any) -> tuple:
    """(the class of a key in programs, the name of its data) for what has its type"""
    example = jax.random.wrap_key_data(np.zeros(jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct((), x.dtype)).shape, np.uint32),
                                       impl=_impl(x))
    kind = registered(example)[0]  # type: ignore[index]
    return kind, field_names(kind)[0]  # type: ignore[index]


TREE = Node(lambda x: jax.tree_util.tree_flatten(x, is_leaf=lambda y: y is not x), jax.tree_util.tree_unflatten)


def _is_made_of_fields(kind: Any) -> bool:
    """Whether JAX takes apart each field of a dataclass, and none is a constant."""
    probe, marks = object.__new__(kind), [object() for _ in dataclasses.fields(kind)]
    for field, mark in zip(dataclasses.fields(kind), marks):
        object.__setattr__(probe, field.name, mark)
    try:
        whole = jax.tree.leaves(probe) == marks
    except Exception:  # the class takes its fields apart further, as it can those of an object alone
        whole = True
    return whole and list(inspect.signature(kind.__init__).parameters)[1:] == [f.name for f in dataclasses.fields(kind)]


@functools.cache
def _is_foreign(kind: Any) -> bool:
    """A dataclass of JAX's that is not made of its fields, as most modules of Equinox, or of which some are constants, as the names of
    dims in Flax: JAX knows which."""
    return kind in _registry and dataclasses.is_dataclass(kind) and not _is_made_of_fields(kind)


def _apart(x: Any) -> Node | None:
    """Objects of classes that are registered with JAX, such as modules of Equinox and Flax's FrozenDict."""
    own = isinstance(x, (type, dict, tuple, list)) or field_names(type(x)) is not None or jax.tree_util.all_leaves([x])
    return None if own else TREE


def with_constants(x: Any) -> tuple[type, list] | None:
    """(the class in programs, the parts) of a dataclass some of whose fields JAX does not take apart, as the functions in Flax's TrainState"""
    if isinstance(x, tuple) or len(TREE.flatten(x)[0]) == len(field_names(type(x)) or ()):
        return None
    return taken_apart(TREE, x)


OTHERS.append(_apart)
FOREIGN.append(_is_foreign)
register_pytree_node(type(jax.random.key(0)), lambda k: ((jax.random.key_data(k),), _impl(k)), _made)
