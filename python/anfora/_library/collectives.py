# SPDX-License-Identifier: Apache-2.0
"""What is over the lanes of a vmap with an axis_name, by the names of jax.lax.

>>> anfora.vmap(lambda x: x / lax.psum(x, "i"), axis_name="i")(xs)

The name may be a tuple of names of several vmaps. Every lane must come to the call: inside a branch that lanes choose, or a loop
that they end at different times, it is refused."""
from __future__ import annotations

from typing import Any

from .._ops import Op, op
from .._tree import tree_map
from .composed import Composed, into, moveaxis

COLLECTIVES: dict[str, Composed] = {}
_lanes, _part = into(COLLECTIVES), into({})
_AXIS = [("axis", "str", None)]
_sum = Op("lane_sum", ("LaneSum", "lanes", [("x", "")], _AXIS, "The sum over the lanes of a vmap."))
_max = Op("lane_max", ("LaneMax", "lanes", [("x", "")], _AXIS, "The greatest over the lanes of a vmap."))
_min = Op("lane_min", ("LaneMin", "lanes", [("x", "")], _AXIS, "The least over the lanes of a vmap."))
_gather = Op("lane_gather", ("LaneGather", "lanes", [("x", "")], _AXIS, "All lanes of a vmap."))
_index = Op("lane_index", ("LaneIndex", "lanes", [], _AXIS, "The number of the lane in its vmap."))


@_part
def summed(x, /, name):
    """The sum over the lanes; truth values are counted."""
    for kind in ("bool",):
        if x.dtype == kind:
            return _sum(op.cast(x, "int64"), name)
    return _sum(x, name)


@_lanes
def psum(x, /, axis_name, axis_index_groups=None):
    """The sum over all lanes, of an array or of each array of a tree. psum(1, "i") is the number of lanes."""
    if axis_index_groups is not None:
        raise ValueError("psum: axis_index_groups is not supported")
    for name in axis_name if isinstance(axis_name, (tuple, list)) else (axis_name,):
        x = tree_map(lambda a: summed(a, name), x)  # noqa: B023: called at once
    return x


@_lanes
def pmean(x, /, axis_name, axis_index_groups=None):
    """The mean over all lanes."""
    n = psum(1, axis_name, axis_index_groups)
    return tree_map(lambda a: a / n, psum(x, axis_name, axis_index_groups))


@_lanes
def pmax(x, /, axis_name, axis_index_groups=None):
    """The greatest of all lanes, by element."""
    if axis_index_groups is not None:
        raise ValueError("pmax: axis_index_groups is not supported")
    for name in axis_name if isinstance(axis_name, (tuple, list)) else (axis_name,):
        x = tree_map(lambda a: _max(a, name), x)  # noqa: B023: called at once
    return x


@_lanes
def pmin(x, /, axis_name, axis_index_groups=None):
    """The least of all lanes, by element."""
    if axis_index_groups is not None:
        raise ValueError("pmin: axis_index_groups is not supported")
    for name in axis_name if isinstance(axis_name, (tuple, list)) else (axis_name,):
        x = tree_map(lambda a: _min(a, name), x)  # noqa: B023: called at once
    return x


@_lanes
def axis_index(axis_name):
    """The number of the lane, from 0."""
    return _index(axis_name)


@_lanes
def axis_size(axis_name):
    """The number of lanes."""
    return psum(1, axis_name)


@_lanes
def all_gather(x, /, axis_name, axis_index_groups=None, axis=0, tiled=False):
    """The x of all lanes along a new dim, or, tiled, along an old one."""
    if axis_index_groups is not None:
        raise ValueError("all_gather: axis_index_groups is not supported")
    if tiled:
        raise ValueError("all_gather: tiled is not supported; reshape what it gives")
    return tree_map(lambda a: moveaxis(_gather(a, axis_name), 0, axis), x)


@_lanes
def ppermute(x, /, axis_name, perm):
    """What another lane has: of each pair (from, to) in perm the lane `to` gets the x of `from`; lanes that get none have zeros."""
    i = _index(axis_name)
    source = i * 0 - 1
    for a, b in perm:
        source = op.where(i == b, a, source)
    return tree_map(lambda a: op.where(source >= 0, _gather(a, axis_name)[op.maximum(source, 0)], op.zeros_like(a)), x)


__all__: list[Any] = ["COLLECTIVES"]
