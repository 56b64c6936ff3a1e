# SPDX-License-Identifier: Apache-2.0
"""Callbacks of JAX in lowered programs: operations of the host (_host.py), called by their names, custom_call @NAME. They have no
derivative, in JAX neither. pure_callback may be dropped and shared, with which Equinox's error_if raises; io_callback and jax.debug's
count each time. Those that are ordered by tokens are left to JAX's lowering, which is refused with its place."""
from __future__ import annotations

from typing import Any, Callable

import jax
import numpy as np
from jax._src.callback import io_callback_p, pure_callback_p
from jax._src.debugging import debug_callback_p, debug_print_p, ordered_debug_effect
from jax._src.interpreters import mlir
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import hlo

from .._host import HostOp, _Type
from ._primitive import NAMES

_TEXT = {numpy: ours for ours, numpy in NAMES.items()}
_made: dict = {}  # (function, types) -> its operation


def _text(aval: Any) -> str:
    return _TEXT[aval.dtype.name] + (f"[{', '.join(map(str, aval.shape))}]" if aval.shape else "")


def _operation(call: Callable, key: Any, effect: bool, given: tuple, made: tuple) -> HostOp:
    """`call` gives a list of arrays; an operation gives something, which of no arrays is a bool that nothing reads."""
    def jax_callback(*args: Any) -> Any:
        results = call(*(np.asarray(x, a.dtype) for x, a in zip(args, given)))
        return tuple(results) if len(made) > 1 else results[0] if made else True
    key = key, len(given), *((a.shape, a.dtype) for a in (*given, *made))
    if key not in _made:
        gives = ", ".join(map(_text, made)) or "bool"
        t = _Type(f"fn({', '.join(map(_text, given))}) -> {f'({gives})' if len(made) > 1 else gives}")
        _made[key] = HostOp(jax_callback, t, None, effect, None)
    return _made[key]


def _debug(primitive: Any, params: dict) -> Callable:
    def call(*args: Any) -> list:
        with jax.enable_x64(True):  # so that it sees doubles as they are
            return list(primitive.impl(*args, **params))
    return call


def lowerings(plainly: Callable) -> tuple:
    """Rules for JAX's lowering; `plainly` is JAX's own."""
    def lower(ctx: Any, *args: Any, **params: Any) -> Any:
        callback, given, made = params.get("callback"), tuple(ctx.avals_in), tuple(ctx.avals_out)
        debugs = ctx.primitive in (debug_callback_p, debug_print_p)
        if params.get("ordered") or params.get("effect") is ordered_debug_effect:
            return plainly(ctx, *args, **params)
        call, key = (_debug(ctx.primitive, params), tuple(params.items())) if debugs else (callback, callback)
        try:
            op = _operation(call, (ctx.primitive, key), ctx.primitive is not pure_callback_p, given, made)
        except (KeyError, TypeError, ValueError):  # a type that arrays of NumPy have not, a parameter that cannot be hashed
            return plainly(ctx, *args, **params)
        types = [mlir.aval_to_ir_type(ctx.module_context, a) for a in made]
        return list(hlo.CustomCallOp(types, args, call_target_name=ir.StringAttr.get(op._op), has_side_effect=ir.BoolAttr.get(not made)).results)
    return tuple((p, lower) for p in (pure_callback_p, io_callback_p, debug_callback_p, debug_print_p))
