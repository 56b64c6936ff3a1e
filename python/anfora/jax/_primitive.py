# SPDX-License-Identifier: Apache-2.0
"""Functions of Anfora on arrays of JAX: a primitive with rules for forward mode, transposition and batches, so that grad, jvp, vmap,
jit and all that is made of them take it like JAX's own."""
from __future__ import annotations

from typing import Any, Callable

import jax
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from .. import _core
from .._errors import AnforaError
from .._function import Function as Compiled
from .._jit import jit
from .._transform import ShapeDtypeStruct, eval_shape, vmap
from .._library.derived import Fitted, Pullback, Tangent, Weak

NAMES = {"bool": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32",
         "u64": "uint64", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "c64": "complex64", "c128": "complex128"}
TYPES = {name: kind for kind, name in NAMES.items()}
KINDS = {"i": "int", "f": "float", "c": "complex"}  # of numbers that have no element type of their own


class Function:
    """A function of Anfora, or of Python that Anfora compiles, as one of JAX. It takes arrays and numbers and gives an array or a
    tuple of arrays.

    >>> f = anfora.jax.Function(lambda x: anp.sum(anp.cos(x) ** 2))
    >>> jax.jit(jax.vmap(jax.grad(f)))(x)"""

    def __init__(self, f: Callable, **options: Any) -> None:
        self.compiled = f if isinstance(f, Compiled) else jit(f, **options)
        self._made: dict = {}
        self.__name__ = getattr(f, "__name__", "function")

    def __call__(self, *args: Any) -> Any:
        args = tuple(map(jax.numpy.asarray, args))
        weak = {i: KINDS[a.dtype.kind] for i, a in enumerate(args) if a.aval.weak_type and not a.ndim}
        f = self.make(("weak", len(args), tuple(weak.items())), lambda: Function(Weak(self.compiled, len(args), weak))) if weak else self
        f = f.fitted([a.aval for a in args])
        out = _call.bind(*args, f=f)
        return out[0] if f.results([a.aval for a in args])[1] is None else tuple(out)

    def make(self, key: tuple, of: Callable) -> "Function":
        """What is made of it, once."""
        if key not in self._made:
            self._made[key] = of()
        return self._made[key]

    def _types(self, args: Any) -> tuple[list, int | None]:
        """Shapes and element types of the results, and how many are in the tuple that it gives; None: it gives one array."""
        r = eval_shape(self.compiled, *(ShapeDtypeStruct(a.shape, a.dtype.name) for a in args))
        flat = list(r) if isinstance(r, (tuple, list)) else [r]
        if any(not hasattr(x, "shape") for x in flat):
            raise TypeError(f"{self.__name__}() gives nested results; a function of JAX gives arrays")
        return flat, len(flat) if isinstance(r, (tuple, list)) else None

    def results(self, args: Any) -> tuple[list, int | None]:
        """The same with the types that JAX has, which may be narrower."""
        key = "results", tuple((a.shape, a.dtype.name) for a in args)
        if key not in self._made:
            flat, n = self._types(args)
            self._made[key] = [jax.core.ShapedArray(x.shape, jax.dtypes.canonicalize_dtype(jax.numpy.dtype(NAMES[str(x.dtype)]))) for x in flat], n
        return self._made[key]

    def fitted(self, args: Any) -> "Function":
        """The function that gives results of the types that JAX has, for derivatives take adjoints of these."""
        def of() -> "Function":
            (flat, n), made = self._types(args), self.results(args)[0]
            types = tuple(TYPES[t.dtype.name] for t in made)
            return self if [str(x.dtype) for x in flat] == list(types) else Function(Fitted(self.compiled, len(args), n, types))
        return self.make(("fitted", tuple((a.shape, a.dtype.name) for a in args)), of)

    def run(self, *args: Any) -> list:
        args = tuple(map(np.asarray, args))
        avals, n = self.results(args)
        y = self.compiled(*args)
        return [np.asarray(v, dtype=t.dtype).reshape(t.shape) for v, t in zip([y] if n is None else y, avals)]

    def plan(self, avals: Any) -> int | None:
        """The address of the code for arguments of these types, which XLA's programs call; None: they call back into Python."""
        key = "plan", tuple((a.shape, a.dtype.name) for a in avals)
        if key not in self._made:
            self._made[key] = self._plan(avals)
        return self._made[key]

    def _plan(self, avals: Any) -> int | None:
        results = self.results(avals)[0]
        try:
            plan = self.compiled._compile(tuple(np.zeros(a.shape, a.dtype) for a in avals))
        except AnforaError:
            return None  # with the arguments of a call it may compile, or says why not
        found = plan.buffers()
        if found is None or [(jax.numpy.dtype(NAMES[t]), n) for t, n in found[1]] != [(r.dtype, len(r.shape)) for r in results]:
            return None
        _kept.append(plan)
        return found[0]

    def tangent(self, n: int, real: tuple) -> "Function":
        """(n arguments, tangents of those numbered in `real`) to the tangents of the results; linear in the tangents."""
        return self.make(("tangent", n, real), lambda: _Linear(self, n, real))

    def pullback(self, n: int, real: tuple, results: int | None) -> "Function":
        """(n arguments, adjoints of the results) to the adjoints of the arguments numbered in `real`."""
        return self.make(("pullback", n, real, results), lambda: Function(Pullback(self.compiled, n, real, results)))

    def batched(self, axes: tuple) -> "Function":
        return self.make(("batched", axes), lambda: Function(vmap(self.compiled, in_axes=axes)))


class _Linear(Function):
    """The tangents of a function's results: linear in its last arguments."""

    def __init__(self, of: Function, n: int, real: tuple) -> None:
        super().__init__(Tangent(of.compiled, n, real))
        self.of, self.n, self.real = of, n, real


_kept: list = []  # plans that programs of XLA may call as long as the process lives
jax.ffi.register_ffi_target("anfora", _core.ffi_handler(), platform="cpu")
_call = Primitive("anfora")
_call.multiple_results = True


def _arrays(args: Any, f: Function) -> list:
    return [jax.numpy.asarray(y) for y in f.run(*args)]


def _lowered(*args: Any, f: Function) -> Any:
    types = [jax.ShapeDtypeStruct(t.shape, t.dtype) for t in f.results([a.aval for a in args])[0]]
    plan = f.plan([a.aval for a in args])
    if plan is not None:
        return jax.ffi.ffi_call("anfora", types)(*args, plan=np.int64(plan))
    return jax.pure_callback(lambda *xs: f.run(*xs), types, *args, vmap_method="sequential")


def _is_real(x: Any) -> bool:
    return jax.numpy.issubdtype(x.dtype, jax.numpy.inexact)


def _jvp(primals: Any, tangents: Any, f: Function) -> tuple[list, list]:
    real = tuple(i for i, t in enumerate(tangents) if not isinstance(t, ad.Zero) and _is_real(primals[i]))
    out = _call.bind(*primals, f=f)
    if not real:
        return out, [ad.Zero(y.aval.to_tangent_aval()) for y in map(jax.numpy.asarray, out)]
    if not all(map(_is_real, out)):
        raise TypeError(f"{f.__name__}() gives integers or bools besides; JAX differentiates it only if all results are real")
    return out, _call.bind(*primals, *(tangents[i] for i in real), f=f.tangent(len(primals), real))


def _transpose(adjoints: Any, *args: Any, f: Function) -> list:
    if not isinstance(f, _Linear) or any(map(ad.is_undefined_primal, args[:f.n])):
        raise TypeError(f"{f.__name__}() is not linear")
    primals, given = args[:f.n], [ad.instantiate_zeros(a) for a in adjoints]
    results = f.of.results([p.aval for p in map(jax.numpy.asarray, primals)])[1]
    grads = _call.bind(*primals, *given, f=f.of.pullback(f.n, f.real, results))
    return [None] * f.n + [g if ad.is_undefined_primal(a) else None for a, g in zip(args[f.n:], grads)]


def _batch(args: Any, dims: Any, f: Function) -> tuple[list, list]:
    if not isinstance(f, _Linear):
        out = _call.bind(*args, f=f.batched(tuple(d if d is None else int(d) for d in dims)))
        return out, [0] * len(out)
    size = next(a.shape[d] for a, d in zip(args, dims) if d is not None)  # one batch of all, so that it can be transposed
    whole = [jax.numpy.broadcast_to(a, (size, *a.shape)) if d is None else jax.numpy.moveaxis(a, d, 0) for a, d in zip(args, dims)]
    out = _call.bind(*whole, f=f.of.batched((0,) * f.n).tangent(f.n, f.real))
    return out, [0] * len(out)


_call.def_impl(lambda *args, f: _arrays(args, f))
_call.def_abstract_eval(lambda *args, f: f.results(args)[0])
ad.primitive_jvps[_call] = _jvp
ad.primitive_transposes[_call] = _transpose
batching.primitive_batchers[_call] = _batch
mlir.register_lowering(_call, mlir.lower_fun(_lowered, multiple_results=True))
