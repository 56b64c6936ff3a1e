# SPDX-License-Identifier: Apache-2.0
"""Sums and such of parts of arrays, by the names of jax.ops: rows whose number is the same are taken together."""
from __future__ import annotations

import math
from typing import Any

from ._library.composed import Composed, into
from ._ops import op

TABLE: dict[str, Composed] = {}
_ops = into(TABLE, lists=True)


@_ops
def segment_sum(data, segment_ids, /, num_segments):
    """The sum of the rows of each number."""
    return op.cast_like(op.zeros((num_segments,) + tuple(data.shape[1:])), data).at[segment_ids].add(data)


@_ops
def segment_prod(data, segment_ids, /, num_segments):
    """Their product."""
    return op.cast_like(op.ones((num_segments,) + tuple(data.shape[1:])), data).at[segment_ids].multiply(data)


@_ops
def segment_max(data, segment_ids, /, num_segments):
    """The largest of them; -inf where there are none."""
    return op.cast_like(op.full((num_segments,) + tuple(data.shape[1:]), -math.inf), data).at[segment_ids].max(data)


@_ops
def segment_min(data, segment_ids, /, num_segments):
    """The smallest of them; inf where there are none."""
    return op.cast_like(op.full((num_segments,) + tuple(data.shape[1:]), math.inf), data).at[segment_ids].min(data)


_HERE: dict[str, Any] = TABLE
globals().update(_HERE)
__all__ = [*_HERE]
