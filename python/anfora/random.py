# SPDX-License-Identifier: Apache-2.0
"""Random numbers from keys, by JAX's names: each key gives the same numbers always, and split makes new keys of one."""
from ._names import missing as _missing
from ._library.random import RANDOM as _RANDOM

globals().update(_RANDOM)
__all__ = [*_RANDOM]
__getattr__ = _missing(__name__, __all__)
