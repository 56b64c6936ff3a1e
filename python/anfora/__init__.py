# SPDX-License-Identifier: Apache-2.0
"""Anfora compiles Python functions of tensors from their own source, and differentiates them.

>>> import anfora
>>> @anfora.jit
... def f(x, y):
...     return x * y + 1
>>> f(2.0, 3.0)
Array(7.0, f64)
"""
import sys as _sys
import types

try:
    import numpy as _numpy  # noqa: F401: constants, and indices of arrays outside of compiled functions, are NumPy's
except ImportError:
    raise ImportError("anfora needs NumPy, which this Python has not: python3 -m pip install numpy") from None
try:
    from . import _core
except ImportError as problem:
    raise ImportError(f"anfora's extension cannot be loaded: {problem}. `pip install --force-reinstall anfora` brings the libraries "
                      "of a wheel again; those of a package that was built here are libffi8 on Debian and Ubuntu, libffi on Fedora"
                      ) from problem
from . import numpy, random
from ._library import control as _control  # noqa: F401: fills CONTROL
from ._library.composed import CONTROL as _CONTROL
from ._compile.builtins import asarray
from ._core import Array, explain
from ._errors import AnforaError, CompileError, Finding, RunError
from ._function import Closure, Function
from ._jit import Jit, jit
from ._files import load, save
from ._generated import FunctionType, generated
from ._host import op
from ._programs import Module, read
from ._tree import (register_dataclass, register_pytree_node, register_pytree_node_class, tree_all, tree_flatten, tree_flatten_with_path,
                    tree_leaves, tree_leaves_with_path, tree_map, tree_map_with_path, tree_reduce, tree_structure, tree_transpose,
                    tree_unflatten)
from ._nans import debug_nans, set_debug_nans as _set_debug_nans
from ._transform import (ShapeDtypeStruct, checkpoint, checkpoint_policies, custom_jvp, custom_vjp, eval_shape, grad, hessian, hvp,
                         hyper_map, jacfwd, jacrev, jvp, linearize, stop_gradient, value_and_grad, vjp, vmap)
from ._types import DTYPES, DType, TensorType, default_dtype, set_default_dtype

from ._callback import pure_callback
from . import train  # noqa: E402
from .train import Step  # noqa: E402

bool_, i8, i16, i32, i64 = (DTYPES[n] for n in ("bool", "i8", "i16", "i32", "i64"))
u8, u16, u32, u64 = (DTYPES[n] for n in ("u8", "u16", "u32", "u64"))
f16, bf16, f32, f64, c64, c128 = (DTYPES[n] for n in ("f16", "bf16", "f32", "f64", "c64", "c128"))

cond, fori_loop, while_loop, scan = (_CONTROL[n] for n in ("cond", "fori_loop", "while_loop", "scan"))
from . import debug, flatten_util, initializers, lax, nn, ops, optim, quantise, schedules, scipy, sparse, tree_util  # noqa: E402

remat = checkpoint
jacobian = jacrev
for _space in (scipy.special, scipy.linalg, scipy.stats, scipy.integrate, scipy.signal, scipy.ndimage, scipy.fft, scipy.image, scipy.optimize, scipy.sparse, scipy.sparse.linalg):  # modules for `from anfora.scipy.special import logsumexp`
    _sys.modules[_space.__name__] = _space
_sys.modules[__name__ + ".nn.initializers"] = initializers
for _name in ("linalg", "fft"):  # for `from anfora.numpy.linalg import solve`
    _sys.modules[f"{__name__}.numpy.{_name}"] = getattr(numpy, _name)
image = scipy.image


def from_jax(f, arguments=None, **options):
    """A function of JAX as one of Anfora (anfora.jax.from_jax); JAX is needed when this is called."""
    from . import jax
    return jax.from_jax(f, arguments, **options)


class _Config:
    """Settings by JAX's names, for programs that begin with them."""

    def update(self, name: str, value: object) -> None:
        if name == "jax_enable_x64":
            set_default_dtype("f64" if value else "f32")
        elif name == "jax_debug_nans":
            _set_debug_nans(bool(value))
        elif (name, value) not in (("jax_platform_name", "cpu"), ("jax_platforms", "cpu"), ("jax_disable_jit", False)):
            raise ValueError(f"anfora.config has no {name} = {value!r}; what there is: jax_enable_x64, jax_debug_nans, and the platform cpu")


def device_put(x, device=None):
    """The tree with arrays of this package for those of NumPy; there is one device."""
    if device is not None:
        devices(device)
    return tree_map(asarray, x)


def device_get(x):
    """The tree with arrays of NumPy."""
    return tree_map(_numpy.asarray, x)


def block_until_ready(x):
    """The tree: a call is finished when it returns."""
    return x


def devices(platform=None):
    """The devices: one, the processor."""
    if platform not in (None, "cpu"):
        raise RuntimeError(f"there is no device {platform!r}: Anfora runs on the processor")
    return ["cpu"]


def device_count():
    """How many devices there are."""
    return 1


local_devices, local_device_count = devices, device_count
config = _Config()
tree = types.SimpleNamespace(map=tree_map, leaves=tree_leaves, flatten=tree_flatten, unflatten=tree_unflatten,
                             structure=tree_structure, reduce=tree_reduce,
                             all=tree_all, transpose=tree_transpose, map_with_path=tree_map_with_path,
                             leaves_with_path=tree_leaves_with_path, flatten_with_path=tree_flatten_with_path)

__version__ = _core.version
__all__ = [
    "ops", "optim", "quantise", "schedules", "Module", "read", "ShapeDtypeStruct", "checkpoint_policies", "debug_nans", "eval_shape", "hvp", "remat", "AnforaError", "Array", "Closure", "CompileError", "DTYPES", "DType", "Finding", "Function", "FunctionType", "Jit", "RunError", "Step",
    "TensorType", "asarray", "bf16", "bool_", "c128", "c64", "checkpoint", "cond", "config", "custom_jvp", "custom_vjp", "debug", "default_dtype", "explain",
    "f16", "f32", "f64", "flatten_util", "fori_loop", "from_jax", "generated", "grad", "hessian", "hyper_map", "image", "i16", "i32", "i64", "i8", "initializers", "jacfwd",
    "jacrev", "jit", "jvp", "lax", "linearize", "load", "nn", "numpy", "pure_callback", "random", "register_dataclass",
    "register_pytree_node", "register_pytree_node_class", "op", "save", "scan", "scipy", "set_default_dtype", "sparse", "stop_gradient", "train", "tree",
    "tree_all", "tree_flatten", "tree_flatten_with_path", "tree_leaves", "tree_leaves_with_path", "tree_map", "tree_map_with_path", "tree_reduce", "tree_structure", "tree_transpose",
    "block_until_ready", "device_count", "device_get", "device_put", "devices", "jacobian", "local_device_count", "local_devices",
    "tree_unflatten", "tree_util", "u16", "u32", "u64", "u8", "value_and_grad", "vjp", "vmap", "while_loop",
]


_INSTEAD = {"pmap": "vmap on one machine, or anfora.comm for several ranks", "custom_gradient": "custom_vjp", "make_jaxpr": "jit(f).ir(), which shows the graphs",
            "named_call": "leave it out", "io_callback": "anfora.op(type, effect=True)", "experimental": "what is not experimental: anfora.lax, anfora.sparse"}


def __getattr__(name: str) -> object:
    from ._names import absent
    if name in _INSTEAD:
        raise AttributeError(f"anfora has no {name}: use {_INSTEAD[name]}")
    raise AttributeError(absent("anfora", name, __all__) if not name.startswith("_") else f"module 'anfora' has no attribute {name!r}")
