# SPDX-License-Identifier: Apache-2.0
"""jax.pure_callback in lowered programs: an operation of the host (_host.py), called by its name, custom_call @NAME. It has no
derivative, in JAX neither. Equinox's error_if, which raises in one, is such a call in a choice."""
from __future__ import annotations

from typing import Any, Callable

import numpy as np
from jax._src.callback import pure_callback_p
from jax._src.interpreters import mlir
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import hlo

from .._host import HostOp, _Type
from ._primitive import NAMES

_TEXT = {numpy: ours for ours, numpy in NAMES.items()}
_made: dict = {}  # (function, types) -> its operation


def _text(aval: Any) -> str:
    return _TEXT[aval.dtype.name] + (f"[{', '.join(map(str, aval.shape))}]" if aval.shape else "")


def _operation(callback: Callable, given: tuple, made: tuple) -> HostOp:
    def of_arrays(*args: Any) -> Any:
        results = callback(*(np.asarray(x, a.dtype) for x, a in zip(args, given)))
        return results[0] if len(made) == 1 else tuple(results)
    key = callback, len(given), *((a.shape, a.dtype) for a in (*given, *made))
    if key not in _made:
        gives = ", ".join(map(_text, made))
        of_arrays.__name__ = "jax_callback"
        _made[key] = HostOp(of_arrays, _Type(f"fn({', '.join(map(_text, given))}) -> {gives if len(made) == 1 else f'({gives})'}"), None, False, None)
    return _made[key]


def lowering(plainly: Callable) -> tuple:
    """The rule for JAX's lowering; `plainly` is JAX's own, whose call is refused with its place."""
    def lower(ctx: Any, *args: Any, **params: Any) -> Any:
        try:
            made = _operation(params["callback"], tuple(ctx.avals_in), tuple(ctx.avals_out))
        except (KeyError, ValueError):  # a type that arrays of NumPy have not
            return plainly(ctx, *args, **params)
        types = [mlir.aval_to_ir_type(ctx.module_context, a) for a in ctx.avals_out]
        return list(hlo.CustomCallOp(types, args, call_target_name=ir.StringAttr.get(made._op)).results)
    return pure_callback_p, lower
