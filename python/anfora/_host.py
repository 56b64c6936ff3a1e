# SPDX-License-Identifier: Apache-2.0
"""Operations whose work a function of Python does, called by programs as any other (anfora/host.h)."""
from __future__ import annotations

import ctypes
import inspect
import re
from typing import Any, Callable

from . import _core
from ._compile.emit import Builder
from ._compile.static import argument_nodes
from ._errors import CompileError, SourceMap, raised, translated
from ._jit import TextFunction
from ._tree import Shape
from ._types import BY_NUMPY_NAME

_C = {"bool": ctypes.c_bool, "i8": ctypes.c_int8, "i16": ctypes.c_int16, "i32": ctypes.c_int32, "i64": ctypes.c_int64,
      "u8": ctypes.c_uint8, "u16": ctypes.c_uint16, "u32": ctypes.c_uint32, "u64": ctypes.c_uint64, "f32": ctypes.c_float,
      "f64": ctypes.c_double}
_NUMPY = {d.name: name for name, d in BY_NUMPY_NAME.items() if name != "bfloat16"} | {"bool": "bool"}
_REAL = ("f16", "f32", "f64")
_EFFECT, _STATUS = 1, 2  # ANF_HOST_EFFECT, ANF_HOST_STATUS


class _Part:
    """A tensor among the arguments or results, as the type says it: "f64[N, 3]"."""

    def __init__(self, kind: str, dims: tuple) -> None:
        if kind not in _NUMPY:
            raise ValueError(f"elements of {kind} are none of NumPy's: element types are {', '.join(_NUMPY)}")
        self.kind, self.dims = kind, dims
        self.text = f"{kind}[{', '.join(map(str, dims))}]" if dims else kind
        self.by_value = not self.dims and self.kind in _C

    def array(self, address: Any, sizes: dict[str, int], write: bool = False) -> Any:
        import numpy as np
        shape = tuple(sizes[d] if isinstance(d, str) else d for d in self.dims)
        dtype = np.dtype(_NUMPY[self.kind])
        n = dtype.itemsize
        for d in shape:
            n *= d
        memory = (ctypes.c_char * n).from_address(address) if n else b""
        a = np.frombuffer(memory, dtype).reshape(shape) if n else np.empty(shape, dtype)
        a.flags.writeable = write and n > 0
        return a


class _Type:
    def __init__(self, text: str) -> None:
        try:
            args, results, self.several = _core.op_type(text)
            self.args, self.results = [_Part(*p) for p in args], [_Part(*p) for p in results]
        except (ValueError, _core.Failure) as error:
            why = error if isinstance(error, ValueError) else translated(error, CompileError, text, SourceMap([], []))
            raise ValueError(f"{text!r} is no type of an operation, such as \"fn(f64[N], f64) -> f64[N]\": {why}") from None
        names = [d for p in self.args + self.results for d in p.dims if isinstance(d, str)]
        self.sizes = list(dict.fromkeys(names))

    def __str__(self) -> str:
        results = ", ".join(p.text for p in self.results)
        return f"fn({', '.join(p.text for p in self.args)}) -> {f'({results})' if self.several else results}"

    def of_derivative(self) -> "_Type":
        """Arguments, results, an adjoint of each real result; an adjoint of each real argument."""
        given = self.args + self.results + [p for p in self.results if p.kind in _REAL]
        wanted = [p.text for p in self.args if p.kind in _REAL]
        if not wanted:
            raise ValueError(f"{self} has no real argument that a derivative could be for")
        one = len(wanted) == 1
        return _Type(f"fn({', '.join(p.text for p in given)}) -> {wanted[0] if one else '(' + ', '.join(wanted) + ')'}")


def _callback(f: Callable, t: _Type) -> Any:
    """A C function: sizes of named dims, arguments, addresses of the results; gives 0, or 1 if f raises."""
    taken = [ctypes.c_int64] * len(t.sizes) + [_C[p.kind] if p.by_value else ctypes.c_void_p for p in t.args]

    def call(*given: Any) -> int:
        try:
            n, m = len(t.sizes), len(t.args)
            sizes = dict(zip(t.sizes, given))
            args = [x if p.by_value else p.array(x, sizes) for p, x in zip(t.args, given[n:])]
            got = f(*args)
            if not t.several:
                got = (got,)
            if not isinstance(got, (tuple, list)) or len(got) != len(t.results):
                raise TypeError(f"it gives {len(t.results)} results, as its type says")
            for p, x, to in zip(t.results, got, given[n + m:]):
                _put(p.array(to, sizes, write=True), x, p)
            return 0
        except BaseException as error:  # C is below on the stack
            raised.error = error
            return 1
    return ctypes.CFUNCTYPE(ctypes.c_int, *taken, *[ctypes.c_void_p] * len(t.results))(call)


def _put(to: Any, x: Any, p: _Part) -> None:
    import numpy as np
    x = np.asarray(x)
    if x.shape != to.shape:
        raise ValueError(f"it gave an array of shape {x.shape} for {p.text}, which is {to.shape} here")
    if not np.can_cast(x.dtype, to.dtype, "same_kind"):
        raise TypeError(f"it gave elements of type {x.dtype} for {p.text}")
    if to.size:
        np.copyto(to, x, casting="same_kind")


class HostOp(TextFunction):
    """An operation that a function of Python does."""

    names: dict[str, int] = {}  # of operations that there are: how many wanted each

    def __init__(self, f: Callable, t: _Type, grad: Any, effect: bool, name: str | None, **options: Any) -> None:
        plain = name or re.sub(r"\W", "_", f.__name__, flags=re.ASCII).strip("_") or "op"
        self._op = self._register(f, t, name or _free(plain), grad, effect)
        names = ", ".join(f"a{i}" for i in range(len(t.args)))
        super().__init__(plain, len(t.args), f"def {plain}_({names}) {{ {self._op}({names}) }}\n", **options)
        self.type, self.__wrapped__, self.__doc__ = str(t), f, f.__doc__

    def _register(self, f: Callable, t: _Type, name: str, grad: Any, effect: bool) -> str:
        vjp = None if grad is None else "0" if not callable(grad) else _free(f"{name}_vjp")
        call = _callback(f, t)
        _callbacks.append(call)  # programs may call it as long as the process lives
        takes = " ".join([*t.sizes, *map(str, range(len(t.args))), *[f"out{i}" for i in range(len(t.results))]])
        try:
            _core.add_op(name, str(t), ctypes.cast(call, ctypes.c_void_p).value, takes, vjp, _STATUS | (_EFFECT if effect else 0))
        except _core.Failure as failure:
            raise translated(failure, CompileError, name, SourceMap([], [])) from None
        if callable(grad):
            self._register(grad, t.of_derivative(), vjp, None, False)
        return name

    def _emit(self, b: Builder) -> str:
        b.locals.add(self._op)  # nothing else is called so
        b.calls_host = True
        return self._op

    def _emit_call(self, w: Any, c: Any) -> str:
        params = inspect.signature(self.__wrapped__, follow_wrapped=False).parameters.values()
        various = any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in params)
        nodes = c.args if various and not c.kw else argument_nodes(w, c, self.__wrapped__).values()
        return f"{self._emit(w.b)}{w.mark(c.node)}({', '.join(map(w.expr, nodes))})"

    def _root(self, b: Builder, statics: dict[int, Any], shapes: list[Shape]) -> tuple[str, list[str]]:
        self._emit(b)
        return super()._emit(b), [f"a{i}" for i in range(self._nparam)]


_callbacks: list = []


def _free(wish: str) -> str:
    count = HostOp.names[wish] = HostOp.names.get(wish, 0) + 1
    return wish if count == 1 else f"{wish}_{count}"


def op(type: str, *, grad: Any = None, effect: bool = False, name: str | None = None, **options: Any) -> Any:
    """Decorates a function of Python that compiled programs call: an operation of the host.

    ``type`` says what it takes and gives, ``"fn(f64[N, M], i64) -> (f64[N], f64)"``: named dims are any size, equal ones the same. The function
    gets numbers and NumPy arrays that it must not change, and gives arrays or numbers of the shapes that the type says. ``grad``: a function of
    the arguments, the results and an adjoint of each real result that gives an adjoint of each real argument; 0: the derivative is zero.
    ``effect``: each call matters, in its order; else calls may be dropped, shared and moved. ``name``: what programs in Anfora's language call
    it by. What it raises stops the program (E0444).

    >>> @anfora.op("fn(f64[N]) -> f64[N]", grad=lambda x, y, dy: dy / (1 + x * x))
    ... def arctan(x):
    ...     return np.arctan(x)
    """
    t = _Type(type)
    return lambda f: HostOp(f, t, grad, effect, name, **options)
