# SPDX-License-Identifier: Apache-2.0
"""debug_nans: where a compiled function gives NaN, the interpreter runs it once more and stops at the operation that made the first."""
from __future__ import annotations

from typing import Any

import numpy

from ._errors import RunError
from ._types import AFFECTED

_setting = {"on": False}


class NanError(RunError, FloatingPointError):
    """A compiled function gave NaN, and debug_nans is on."""


def on() -> bool:
    return _setting["on"]


def set_debug_nans(value: bool) -> None:
    """Functions that were compiled are compiled anew."""
    if bool(value) != _setting["on"]:
        _setting["on"] = bool(value)
        for f in list(AFFECTED):
            f.clear_cache()


class debug_nans:  # noqa: N801: JAX's name
    """``with debug_nans(True): ...``: compiled functions whose results hold NaN raise a FloatingPointError at the operation that made
    the first. Where arguments hold NaN already, that is no error. Calls take longer; each change of the setting makes new code.
    ``config.update("jax_debug_nans", True)`` sets it for good."""

    def __init__(self, value: bool = True) -> None:
        self._value = value

    def __enter__(self) -> None:
        self._before = on()
        set_debug_nans(self._value)

    def __exit__(self, *_: Any) -> None:
        set_debug_nans(self._before)


def has_nan(raw: Any) -> bool:
    """Whether a result, as compiled code gives it, holds NaN."""
    if isinstance(raw, (tuple, list)):
        return any(map(has_nan, raw))
    if isinstance(raw, dict):
        return any(map(has_nan, raw.values()))
    if not isinstance(raw, (float, complex)) and not hasattr(raw, "dtype"):
        return False
    if str(getattr(raw, "dtype", "")) in ("bf16", "bfloat16"):
        raw = raw.astype("f32")
    x = numpy.asarray(raw)
    return x.dtype.kind in "fc" and bool(numpy.isnan(x).any())
