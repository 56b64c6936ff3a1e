# SPDX-License-Identifier: Apache-2.0
"""Operations as Python functions: in compiled functions they are themselves, outside each call compiles one."""
from __future__ import annotations

import dataclasses
import functools
import inspect
import types
from typing import Any

from . import _core
from ._table import TABLE
from ._tree import quoted
from ._types import ELEMENT_TYPES, DType, dtype_name

# NumPy's other names, and names without a row of their own
ALIASES = {
    "subtract": "sub", "multiply": "mul", "divide": "div", "true_divide": "div", "floor_divide": "floor_div",
    "negative": "neg", "remainder": "mod", "absolute": "abs", "fabs": "abs", "pow": "power", "matmul": "mat_mul",
    "fix": "trunc", "argsort": "arg_sort", "cumsum": "cum_sum", "cumprod": "cum_prod",
    "amax": "max", "amin": "min", "bitwise_and": "bit_and", "bitwise_or": "bit_or", "bitwise_xor": "bit_xor",
    "bitwise_not": "bit_not", "invert": "bit_not", "ravel": "flatten", "concat": "concatenate", "inv": "inverse",
    "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan", "atan2": "arctan2",
    "atanh": "arctanh", "conjugate": "conj", "logsumexp": "log_sum_exp", "permute_dims": "transpose",
    "erf": "erf", "astype": "cast", "randint": "rand_int", "reshape": "reshape", "logical_not": "logical_not",
}


class Op:
    """One operation. ``inputs`` and ``attributes`` are those of ``anfora ops NAME``."""

    def __init__(self, name: str, row: tuple) -> None:
        self.__name__ = name
        self.op, self.family, self.inputs, self.attributes, self.__doc__ = row
        self.__qualname__, self.__module__ = name, "anfora.numpy"
        self._compiled: dict = {}
        self.__signature__ = self._signature()

    def _signature(self) -> inspect.Signature:
        kind, keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD, False
        out = []
        for name, mark in self.inputs:
            if mark == "*":
                out.append(inspect.Parameter(name, inspect.Parameter.VAR_POSITIONAL))
                keyword = True
            elif mark == "?":
                out.append(inspect.Parameter(name, kind, default=None))
            else:
                out.append(inspect.Parameter(name, kind))
        optional = any(mark == "?" for _, mark in self.inputs)
        for name, _, default in self.attributes:
            p = inspect.Parameter.KEYWORD_ONLY if keyword else kind
            value = inspect.Parameter.empty if default is None else _default(default)
            if value is inspect.Parameter.empty and (optional or any(q.default is not q.empty for q in out)):
                p, keyword = inspect.Parameter.KEYWORD_ONLY, True
            out.append(inspect.Parameter(name, p, default=value))
        return inspect.Signature(out)

    def arranged(self, args: list, kw: dict) -> tuple[list, dict]:
        """Arguments that NumPy has in another order: arange(stop), full(shape, value), einsum(equation, ...)."""
        kw = dict(kw)
        if self.op == "Einsum" and args and isinstance(getattr(args[0], "value", args[0]), str):
            return args[1:], {"equation": args[0], **kw}
        if self.op == "Arange" and len(args) == 1 and "stop" not in kw:
            return [], {"stop": args[0], **kw}
        if self.op == "Full":
            given = dict(zip(("shape", "fill_value", "dtype"), args)) | kw
            value = given.pop("fill_value", None)
            return ([] if value is None else [value]), given
        return args, kw

    def split(self, args: list, kw: dict) -> tuple[list, dict]:
        """Arguments of a call as (inputs, attributes by name). A list given for *xs is spread."""
        args, kw = self.arranged(args, kw)
        if self.inputs and self.inputs[-1][1] == "*":
            fixed = len(self.inputs) - 1
            if len(args) > fixed and self.spreads(args[fixed]):
                args, rest = args[:fixed] + list(self.items(args[fixed])), args[fixed + 1:]
                kw.update(zip((a[0] for a in self.attributes), rest))
            return args, kw
        if "dtype" in kw and self.family == "reduction" and args:
            args = [OPS["cast"](args[0], dtype=kw.pop("dtype")), *args[1:]]
        names = [n for n, _ in self.inputs]
        given = args[:len(names)]
        kw.update(zip((a[0] for a in self.attributes), args[len(names):]))
        for name in names[len(given):]:
            if name in kw:
                given.append(kw.pop(name))
        while given and given[-1] is None:
            given.pop()
        return given, kw

    spreads = staticmethod(lambda x: isinstance(x, (list, tuple)))
    items = staticmethod(lambda x: x)

    def __call__(self, *args: Any, **kw: Any) -> Any:
        inputs, attrs = self.split(list(args), kw)
        known = {a[0]: a[1] for a in self.attributes}
        for name in attrs:
            if name not in known:
                raise TypeError(f"{self.__name__}() has no argument {name}; it takes {self.__signature__}")
        text = ", ".join(f"{k}={literal(v, known[k])}" for k, v in attrs.items())
        key = (len(inputs), text)
        if key not in self._compiled:
            from ._function import TextFunction
            names = [f"a{i}" for i in range(len(inputs))]
            call = ", ".join([*names, text] if text else names)
            self._compiled[key] = TextFunction(self.__name__, len(inputs),
                                               f"def {self.__name__}_({', '.join(names)}) {{ {self.op}({call}) }}\n")
        return self._compiled[key](*inputs)

    def __repr__(self) -> str:
        return f"<anfora operation {self.op}>"


def _default(text: str) -> Any:
    if text in ("None", "true", "false"):
        return {"None": None, "true": True, "false": False}[text]
    if text in ("inf", "-inf"):
        return float(text)
    if text[0] in "-.0123456789":
        return float(text) if any(c in text for c in ".e") else int(text)
    return () if text == "()" else text


def literal(x: Any, kind: str = "any") -> str:
    """A Python constant as the language writes it; TypeError if it is none."""
    if kind == "dtype" or isinstance(x, (DType, type)) or type(x).__name__.startswith("dtype"):
        name = None if x is None else dtype_name(x)
        if isinstance(x, str) and x in ("i8", "u8"):
            raise TypeError(f"{x!r} has 8 bytes in NumPy and 8 bits here; write {'u' * (x == 'u8')}int8 or {'u' * (x == 'u8')}int64")
        if x is not None and name is None:
            raise TypeError(f"{x!r} is not an element type")
        return name or "None"
    if x is None or isinstance(x, bool):
        return {None: "None", True: "true", False: "false"}[x]
    if isinstance(x, str):
        return text_literal(x)
    if isinstance(x, int):
        if not -2**63 <= x < 2**64:
            raise TypeError(f"{x if abs(x) < 10**40 else 'this integer'} does not fit into 64 bits; write it with a point, as in 2.0**64")
        return str(x) if x < 2**63 else f"u64({x})"
    if isinstance(x, float):
        return repr(x)
    if isinstance(x, complex):
        return f"c128({x.real!r}, {x.imag!r})"
    if isinstance(x, (list, tuple)):
        return "(" + ", ".join(map(literal, x)) + ("," if len(x) == 1 else "") + ")"
    fields = x if isinstance(x, dict) else vars(x) if dataclasses.is_dataclass(x) else None
    if fields is not None and all(isinstance(k, str) for k in fields):
        return "{" + ", ".join(f"{quoted(k)} = {literal(v)}" for k, v in fields.items()) + "}"
    if hasattr(x, "__index__") and not hasattr(x, "shape"):
        return str(x.__index__())
    raise TypeError(f"{x!r} is not a constant")


def text_literal(s: str) -> str:
    """A text between quotes."""
    out = []
    for ch in s:
        out.append({'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(ch) or
                   (f"\\x{ord(ch):02x}" if ord(ch) < 32 or ord(ch) == 127 else ch))
    return '"' + "".join(out) + '"'


OPS: dict[str, Op] = {name: Op(name, row) for name, row in TABLE.items()}
OPS.update({alias: OPS[name] for alias, name in ALIASES.items() if name in OPS})


op = types.SimpleNamespace(**OPS)  # for functions that are made of operations
COMPOSED: dict[str, Any] = {}  # functions that are made of operations; _composed.py fills it

# Methods of arrays: the operation or function that they are
METHODS = {
    "sum", "mean", "max", "min", "prod", "std", "var", "all", "any", "argmax", "argmin", "cumsum", "cumprod", "clip",
    "dot", "round", "conj", "conjugate", "argsort", "sort", "diagonal", "trace", "repeat", "ptp",
    "squeeze", "swapaxes", "flatten", "ravel", "take", "searchsorted",
}


def operate(name: str, *args: Any) -> Any:
    """What the extension calls for ``a + b`` and the like of arrays, and for their attributes."""
    special = _SPECIAL.get(name)
    if special:
        return special(*args)
    fit = all(isinstance(x, (int, float, complex)) or hasattr(x, "__dlpack__") or hasattr(x, "__array__") for x in args)
    return OPS[name](*args) if fit else NotImplemented


def _numpy() -> Any:
    try:
        import numpy
    except ImportError:
        raise TypeError("arrays are indexed by NumPy, which is not there; use tolist()") from None
    return numpy


def _item(a: Any, key: Any) -> Any:
    plain = {"key": "u64", "bf16": "u16"}.get(a.dtype)
    if plain:  # which NumPy does not have
        picked = _item(_core.frombytes(plain, a.shape, a.tobytes()), key)
        return _core.frombytes(str(a.dtype), picked.shape, picked.tobytes())
    return _core.asarray(_numpy().asarray(a)[key])


def _bits(name: str) -> Any:
    """&, | and ^: of truth values words, of integers bits."""
    def operate_bits(*args: Any) -> Any:
        truth = all(isinstance(x, bool) or str(getattr(x, "dtype", "")) == "bool" for x in args)
        return OPS[f"{'logical' if truth else 'bit'}_{name}"](*args)
    return operate_bits


def _attribute(a: Any, name: str) -> Any:
    """x.T, x.at, and methods: what is no attribute of its own."""
    if name == "T":
        return OPS["transpose"](a)
    if name in ("real", "imag"):
        return OPS[name](a)
    if name == "at":
        return _At(a)
    if name == "mT":
        return OPS["swapaxes"](a, -1, -2)
    if name == "device":
        return "cpu"
    if name in METHODS:
        return _method(COMPOSED.get(name) or OPS[name], a)
    if name in ("reshape", "transpose"):
        return lambda *dims, **kw: OPS[name](a, *(dims if len(dims) < 2 else (dims,)), **kw)
    if name == "astype":
        return lambda dtype: OPS["cast"](a, dtype=dtype)
    if name in ("copy", "block_until_ready"):
        return lambda: a  # it does not change, and is there
    raise AttributeError(f"arrays have no {name}")


def _method(f: Any, a: Any) -> Any:
    """A method of an array. NumPy's functions call it with dtype and out, which are None."""
    def call(*args: Any, out: Any = None, **kw: Any) -> Any:
        if out is not None:
            raise TypeError(f"{f.__name__}() makes a new array: out cannot be given")
        return f(a, *args, **{k: v for k, v in kw.items() if k != "dtype" or v is not None})
    call.__name__ = f.__name__
    return call


class _At:
    """x.at[i].set(v) and the like."""

    def __init__(self, array: Any, key: Any = None) -> None:
        self._array, self._key = array, key

    def __getitem__(self, key: Any) -> "_At":
        return _At(self._array, (key,))

    def _changed(self, how: str | None, value: Any) -> Any:
        numpy = _numpy()
        out = numpy.array(self._array)
        if how is None:
            out[self._key[0]] = value
        else:
            getattr(numpy, how).at(out, self._key[0], value)
        return _core.asarray(out)

    def get(self) -> Any:
        """The elements there."""
        return self._array[self._key[0]]

    def set(self, value: Any) -> Any:
        """The array with other elements there."""
        return self._changed(None, value)

    def add(self, value: Any) -> Any:
        """The array with something added there."""
        return self._changed("add", value)

    def multiply(self, value: Any) -> Any:
        """The array with elements there multiplied."""
        return self._changed("multiply", value)

    mul = multiply

    def divide(self, value: Any) -> Any:
        """The array with elements there divided: floats."""
        ones = _At(OPS["ones_like"](self._array / 1), self._key)
        return self._array / ones.multiply(value)

    def power(self, value: Any) -> Any:
        """The array with elements there raised to a power."""
        return self.set(OPS["power"](self.get(), value))

    def apply(self, f: Any) -> Any:
        """The array with f of the elements there."""
        return self.set(f(self.get()))

    def min(self, value: Any) -> Any:
        """The array with elements there no larger than these."""
        return self._changed("minimum", value)

    def max(self, value: Any) -> Any:
        """The array with elements there no smaller than these."""
        return self._changed("maximum", value)


def _reduced(a: Any) -> Any:
    """For pickle and copy."""
    return _core.frombytes, (str(a.dtype), a.shape, a.tobytes())


def _element_type(a: Any, name: str) -> Any:
    """x.dtype"""
    return ELEMENT_TYPES[name]


def _shown(a: Any) -> str:
    """How a large array is printed: as NumPy does, with its beginning and end."""
    name = {"bf16": "f32"}.get(str(a.dtype), str(a.dtype))
    try:
        text = _numpy().array2string(_numpy().asarray(a if name == a.dtype else OPS["cast"](a, dtype=name)), separator=", ", prefix="Array(", threshold=64)
    except (TypeError, BufferError, ValueError):
        return f"<Array of {a.dtype}, shape {a.shape}>"
    return f"Array({text}, {a.dtype}, shape={a.shape})"


_SPECIAL = {"getitem": _item, "dtype": _element_type, "shown": _shown, "attribute": _attribute, "reduce": _reduced, "and": _bits("and"), "or": _bits("or"),
            "xor": _bits("xor"), "invert": _bits("not")}
