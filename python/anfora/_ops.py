# SPDX-License-Identifier: Apache-2.0
"""Operations as Python functions: in compiled functions they are themselves, outside each call compiles one."""
from __future__ import annotations

import dataclasses
import difflib
import functools
import inspect
import math
import types
from typing import Any

from . import _core
from ._table import TABLE
from ._tree import quoted
from ._types import ELEMENT_TYPES, DType, default_float, dtype_name

# NumPy's other names, and names without a row of their own
ALIASES = {
    "subtract": "sub", "multiply": "mul", "divide": "div", "true_divide": "div", "floor_divide": "floor_div",
    "negative": "neg", "remainder": "mod", "absolute": "abs", "pow": "power", "matmul": "mat_mul",
    "fix": "trunc", "argsort": "arg_sort", "cumsum": "cum_sum", "cumprod": "cum_prod",
    "amax": "max", "amin": "min", "bitwise_and": "bit_and", "bitwise_or": "bit_or", "bitwise_xor": "bit_xor",
    "bitwise_not": "bit_not", "invert": "bit_not", "ravel": "flatten", "concat": "concatenate", "inv": "inverse",
    "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan", "atan2": "arctan2",
    "atanh": "arctanh", "conjugate": "conj", "logsumexp": "log_sum_exp", "permute_dims": "transpose",
    "bitwise_invert": "bit_not", "bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift",
    "erf": "erf", "astype": "cast", "randint": "rand_int", "reshape": "reshape", "logical_not": "logical_not",
}


# Arguments of the Array API standard, and of NumPy, that are no attributes. Only what they are by default may be asked for: arrays are
# in the memory of the CPU and new ones do not change, and sorting is stable.
MORE = {"Sort": "stable kind", "ArgSort": "stable kind", "Cast": "copy device", "Reshape": "copy order", "Flatten": "order", "Concat": "dtype", "Stack": "dtype"}
MORE |= dict.fromkeys(("Zeros", "Ones", "Full", "ZerosLike", "OnesLike", "FullLike", "Eye", "Linspace", "Arange"), "device")
# What reductions take after the array, in NumPy's order. A truth value in the third place is keepdims, or reverse.
_FOLDS = dict.fromkeys(("Sum", "Prod"), "axis dtype out keepdims initial where") | {"Mean": "axis dtype out keepdims where"}
_FOLDS |= dict.fromkeys(("Max", "Min"), "axis out keepdims initial where") | dict.fromkeys(("All", "Any"), "axis out keepdims where")
_FOLDS |= dict.fromkeys(("ArgMax", "ArgMin"), "axis out keepdims") | dict.fromkeys(("CumSum", "CumProd"), "axis dtype out")
REDUCTIONS = {name: words.split() for name, words in _FOLDS.items()}
MORE |= {name: " ".join(w for w in words if w in ("dtype", "out", "initial", "where")) for name, words in REDUCTIONS.items()}
WRITTEN: dict[str, Any] = {  # signatures with another order than inputs before attributes
    "Arange": lambda start, /, stop=None, step=1, *, dtype=None, device=None: None,
    "Full": lambda shape, fill_value, dtype=None, *, device=None: None,
}
NUMPYS_EYE = {"N": "n", "M": "m"}
MORE_DEFAULTS = {"stable": True, "copy": True, "order": "C"}


def accept(function: str, name: str, value: Any) -> None:
    """Checks an argument of MORE."""
    if name == "device" and value not in (None, "cpu"):
        raise ValueError(f"{function}: arrays are in the memory of the CPU; device is \"cpu\", not {value!r}")
    if name == "out" and value is not None:
        raise TypeError(f"{function}() makes a new array: out cannot be given")
    if name == "order" and value not in (None, "C", "K", "A"):
        raise ValueError(f"{function}: order is \"C\" or \"F\", not {value!r}")
    if name == "kind" and value not in (None, "stable", "quicksort", "mergesort", "heapsort"):
        raise ValueError(f"{function}: kind is \"stable\", \"quicksort\", \"mergesort\" or \"heapsort\", not {value!r}")
    if name == "copy" and value not in (None, True, False):
        raise TypeError(f"{function}: copy is True, False or None, not {value!r}")


class Op:
    """One operation. ``inputs`` and ``attributes`` are those of ``anfora ops NAME``."""

    def __init__(self, name: str, row: tuple) -> None:
        self.__name__ = name
        self.op, self.family, self.inputs, self.attributes, self.__doc__ = row
        self.__qualname__, self.__module__ = name, "anfora.numpy"
        self._compiled: dict = {}
        self.floats = any(kind == "dtype" and default == "f32" for _, kind, default in self.attributes)  # of the default type
        self.more = MORE.get(self.op, "").split()
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
            out.append(inspect.Parameter(name, p, default=None if name == "dtype" and self.floats else value))
        if self.op in WRITTEN:
            return inspect.signature(WRITTEN[self.op])
        if self.op in REDUCTIONS:
            words = REDUCTIONS[self.op] + [a[0] for a in self.attributes if a[0] not in REDUCTIONS[self.op]]
            return inspect.Signature(out[:1] + [inspect.Parameter(n, kind if n in REDUCTIONS[self.op] else inspect.Parameter.KEYWORD_ONLY,
                                                                  default=False if n in ("keepdims", "reverse", "exclusive") else None) for n in words])
        out += [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=MORE_DEFAULTS.get(n)) for n in self.more]
        return inspect.Signature(out)

    def parts(self, args: list, kw: dict, known: Any = lambda x: getattr(x, "value", x)) -> Any:
        """Of a reduction of some elements, where= or initial= of NumPy: (the function that it is, its arguments); else None."""
        if self.op == "Where" and len(args) == 1 and kw.keys() <= {"size", "fill_value"}:  # the indices of what is true
            from ._library.standard import TABLE as OUTSIDE
            return OUTSIDE["nonzero"], args, kw
        args, kw = self.with_order(args, kw, known)
        if "order" in self.more and known(kw.get("order")) == "F":
            from ._library.composed import HELPERS
            return HELPERS[f"{self.op.lower()}_by_columns"], args, {k: v for k, v in kw.items() if k != "order"}
        if self.op in ("Concat", "Stack") and "dtype" in kw and len(args) in (1, 2):
            from ._library.composed import HELPERS
            return HELPERS[f"{self.op.lower()}_as"], args, kw
        words = REDUCTIONS.get(self.op, ())
        if "where" not in words or len(args) < 4 and not ("where" in kw or "initial" in kw):
            return None
        args, kw = self.numpys(args, dict(kw), known)
        if all(n not in kw or known(kw[n]) is None or known(kw[n]) is True for n in ("where", "initial")):
            return None
        from ._library.composed import HELPERS
        if known(kw.pop("out", None)) is not None:
            raise TypeError(f"{self.__name__}() makes a new array: out cannot be given")
        return HELPERS[f"{self.op.lower()}_of_some"], args, kw

    def with_order(self, args: list, kw: dict, known: Any) -> tuple[list, dict]:
        """NumPy's order is the argument after the others: ravel(x, "F"), reshape(x, shape, "F")."""
        if "order" in self.more and "order" not in kw and len(args) > len(self.inputs) and isinstance(known(args[-1]), str):
            return args[:-1], {**kw, "order": args[-1]}
        return args, kw

    def numpys(self, args: list, kw: dict, known: Any) -> tuple[list, dict]:
        """Arguments in NumPy's order by name."""
        if self.op == "Eye":
            kw = {NUMPYS_EYE.get(k, k): v for k, v in kw.items()}
        if "indices_or_sections" in kw and any(a[0] == "sections" for a in self.attributes):
            kw = {"sections" if k == "indices_or_sections" else k: v for k, v in kw.items()}
        words = REDUCTIONS.get(self.op, ())
        if words and len(args) > 2 and not isinstance(known(args[2]), bool):
            if len(args) > 1 + len(words):
                raise TypeError(f"{self.__name__}() takes at most {1 + len(words)} arguments: {self.__signature__}")
            return args[:2], dict(zip(words[1:], args[2:])) | kw
        return args, kw

    def arranged(self, args: list, kw: dict, known: Any = lambda x: getattr(x, "value", x)) -> tuple[list, dict]:
        """Arguments that NumPy has in another order: arange(stop), full(shape, value), einsum(equation, ...), sum(x, axis, dtype)."""
        args, kw = self.with_order(*self.numpys(args, dict(kw), known), known)
        for name in self.more:
            if name != "dtype" and name in kw:
                accept(self.__name__, name, getattr(kw[name], "value", kw[name]))
                del kw[name]
        if self.op == "Einsum" and args and isinstance(getattr(args[0], "value", args[0]), str):
            return args[1:], {"equation": args[0], **kw}
        if self.op == "Arange":
            given = dict(zip(("start", "stop", "step", "dtype"), args)) | kw
            if "start" in given and getattr(given.get("stop"), "value", given.get("stop")) is None:
                given["stop"] = given.pop("start")
            return [], given
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
            if self.op == "Einsum" and len(args) > 1:
                return [self.of_list(x) for x in args], kw
            alone = len(args) == 1 or len(args) == 2 and (args[1] is None or isinstance(args[1], int))
            if self.op in ("Concat", "Stack") and not alone and is_array(args[fixed]):
                raise TypeError(f"{self.__name__}() takes its arrays as one tuple or list: {self.__name__}((a, b), axis=0)")
            if self.op in ("Concat", "Stack") and alone and is_array(args[fixed]):
                args[fixed] = list(args[fixed])  # its rows, as in NumPy
            if len(args) > fixed and self.spreads(args[fixed]):
                args, rest = args[:fixed] + list(self.items(args[fixed])), args[fixed + 1:]
                kw.update(zip((a[0] for a in self.attributes), rest))
            args = [self.of_list(x) for x in args]
            if self.op == "Concat" and kw.get("axis", 0) is None:
                return [OPS["ravel"](a) for a in args], {"axis": 0}
            return args, kw
        if kw.get("dtype") is None and "dtype" in self.more:
            kw.pop("dtype", None)
        names = [n for n, _ in self.inputs]
        most = len(names) + len(self.attributes)
        if len(args) > most:
            raise TypeError(f"{self.__name__}() takes {most} argument{'s' * (most != 1)}, not {len(args)}: {self.__signature__}")
        given = args[:len(names)]
        kw.update(zip((a[0] for a in self.attributes), args[len(names):]))
        for name in names[len(given):]:
            if name in kw:
                given.append(kw.pop(name))
        while given and given[-1] is None:
            given.pop()
        given = [self.of_list(x) for x in given]
        if self.floats and kw.get("dtype") is None:
            kw["dtype"] = default_float()
        if (self.op == "Full" and isinstance(given[0], float) or self.op == "Arange" and float in map(type, kw.values())) and kw.get("dtype") is None:
            kw["dtype"] = default_float()
        return given, kw

    of_list = staticmethod(lambda x: array_of(x) if isinstance(x, (list, tuple)) else x)
    spreads = staticmethod(lambda x: isinstance(x, (list, tuple)))
    items = staticmethod(lambda x: x)

    def __call__(self, *args: Any, **kw: Any) -> Any:
        some = self.parts(list(args), kw)
        if some is not None:
            return some[0](*some[1], **some[2])
        if self.op in REDUCTIONS and "dtype" in self.more:
            args, kw = self.numpys(list(args), dict(kw), lambda x: x)
            dtype = kw.pop("dtype", None)
            if dtype is not None:  # sums of small integers have 64 bits
                x, *args = args or (kw.pop(self.inputs[0][0]),)
                return OPS["cast"](self(OPS["cast"](x, dtype=dtype), *args, **kw), dtype=dtype)
        inputs, attrs = self.split(list(args), kw)
        known = {a[0]: a[1] for a in self.attributes}
        if self.op == "Where" and len(inputs) == 3:
            inputs[0] = _numpy().asarray(inputs[0]).astype(bool, copy=False)  # what is not 0 holds
        for name in attrs:
            if name not in known:
                raise TypeError(f"{self.__name__}() has no argument {name}; it takes {self.__signature__}")
        text = ", ".join(f"{k}={literal(_plain_integers(v), known[k])}" for k, v in attrs.items())
        key = (len(inputs), text, few(inputs, attrs))
        if key not in self._compiled:
            from ._jit import TextFunction
            names = [f"a{i}" for i in range(len(inputs))]
            call = ", ".join([*names, text] if text else names)
            self._compiled[key] = TextFunction(self.__name__, len(inputs),
                                               f"def {self.__name__}_({', '.join(names)}) {{ {self.op}({call}) }}\n",
                                               backend="interp" if key[2] else "llvm")
        result = self._compiled[key](*inputs)
        return list(result) if self.op == "Split" else result  # NumPy's is a list

    def __repr__(self) -> str:
        return f"<anfora operation {self.op}>"


def array_of(x: Any) -> Any:
    """A list or tuple of numbers or arrays as NumPy takes it where it takes an array; one of other things as it is."""
    try:
        a = _numpy().asarray(x)
    except (TypeError, ValueError):
        return x
    if a.dtype.kind not in "biufc":
        return x
    return _core.asarray(OPS["cast"](a, dtype=default_float()) if a.dtype == float and a.size == 0 else a)


def is_array(x: Any) -> bool:
    """Whether x is an array with rows, of the package or of NumPy."""
    return isinstance(x, (_core.Array, _numpy().ndarray)) and x.ndim > 0


FEW = 64
MAKES = {"shape", "n", "num", "sizes", "depth", "length"}  # attributes that tell how many elements an operation makes


def few(args: Any, attrs: Any = ()) -> bool:
    """Whether a call outside of compiled functions has so few elements that the interpreter, which needs no code to be made, gives
    its result earlier. Only sizes decide, so a call gives the same bits each time."""
    count = 0
    for x in args:
        if isinstance(x, (list, tuple)):
            if not few(x):
                return False
            count += len(x)
        else:
            count += getattr(x, "size", 1) if not isinstance(x, (str, type)) else 0
    for name in MAKES.intersection(attrs):
        dims = attrs[name] if isinstance(attrs[name], (list, tuple)) else (attrs[name],)
        count += math.prod(d for d in dims if isinstance(d, int))
    return isinstance(count, int) and count <= FEW


def _default(text: str) -> Any:
    if text in ("None", "true", "false"):
        return {"None": None, "true": True, "false": False}[text]
    if text in ("inf", "-inf"):
        return float(text)
    if text[0] in "-.0123456789":
        return float(text) if any(c in text for c in ".e") else int(text)
    return () if text == "()" else text


def _plain_integers(x: Any) -> Any:
    """An array of few integers as the tuple or number that an attribute takes."""
    whole = str(getattr(x, "dtype", "")).lstrip("u").startswith(("int", "i")) and hasattr(x, "tolist")
    if not whole or x.ndim > 1 or x.size > 64:
        return x
    return tuple(x.tolist()) if x.ndim else x.tolist()


def literal(x: Any, kind: str = "any") -> str:
    """A Python constant as the language writes it; TypeError if it is none."""
    if kind == "dtype" or isinstance(x, (DType, type)) or type(x).__name__.startswith("dtype"):
        name = None if x is None else dtype_name(x)
        if isinstance(x, str) and x in ("i8", "u8"):
            raise TypeError(f"{x!r} has 8 bytes in NumPy and 8 bits here; write {'u' * (x == 'u8')}int8 or {'u' * (x == 'u8')}int64")
        if x is not None and name is None:
            hint = "; several sizes are a tuple: zeros((2, 3))" if type(x) is int else ""
            near = difflib.get_close_matches(x, ["float32", "float64", "float16", "bfloat16", "int32", "int64", "bool", "complex64"], 1) if isinstance(x, str) else []
            raise TypeError(f"{x!r} is not an element type" + (f"; there is {near[0]}" if near else hint))
        return name or "None"
    if x is None or isinstance(x, bool):
        return {None: "None", True: "true", False: "false"}[x]
    if isinstance(x, str):
        return text_literal(x)
    if isinstance(x, int):
        if not -2**63 <= x < 2**64:
            raise TypeError(f"{x if abs(x) < 10**40 else 'this integer'} does not fit into 64 bits; write it with a point, as in 2.0**64")
        if x == -2**63:  # the language has no negative literals, and 2**63 is too large for one
            return "(-9223372036854775807 - 1)"
        return str(x) if x < 2**63 else f"u64({x})"
    if isinstance(x, float):
        return repr(float(x))
    if isinstance(x, complex):
        return f"complex({float(x.real)!r}, {float(x.imag)!r})"
    if isinstance(x, (list, tuple)):
        return "(" + ", ".join(map(literal, x)) + ("," if len(x) == 1 else "") + ")"
    fields = x if isinstance(x, dict) else vars(x) if dataclasses.is_dataclass(x) else None
    if fields is not None and all(isinstance(k, str) for k in fields):
        return "{" + ", ".join(f"{quoted(k)} = {literal(v)}" for k, v in fields.items()) + "}"
    if hasattr(x, "__index__") and getattr(x, "shape", ()) == () and "int" in str(getattr(x, "dtype", "int")).replace("i64", "int").replace("i32", "int"):
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
COMPOSED: dict[str, Any] = {}  # functions that are made of operations; _library/composed.py fills it

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


def _numpys(a: Any, dtype: Any) -> Any:
    """An array of NumPy, where the buffer protocol has no such type: bf16 is that of ml_dtypes, and keys are their bits."""
    numpy = _numpy()
    if a.dtype == "bf16":
        try:
            from ml_dtypes import bfloat16
        except ImportError:
            raise TypeError('NumPy has no bf16 without the package ml_dtypes; x.astype("f32") is an array of a type that it has') from None
        made = numpy.frombuffer(a.tobytes(), bfloat16).reshape(a.shape)
    else:
        made = numpy.frombuffer(a.tobytes(), "u8").reshape(a.shape) if a.dtype == "key" else numpy.asarray(memoryview(a))
    return made if dtype is None else made.astype(dtype)


def _item(a: Any, key: Any) -> Any:
    plain = {"key": "u64", "bf16": "u16"}.get(a.dtype)
    if plain:  # which NumPy does not have
        picked = _item(_core.frombytes(plain, a.shape, a.tobytes()), key)
        return _core.frombytes(str(a.dtype), picked.shape, picked.tobytes())
    return _core.asarray(_numpy().asarray(a)[_key(key)])


def _key(key: Any) -> Any:
    """An index for NumPy, which would take an array of one element for an integer."""
    if isinstance(key, tuple):
        return tuple(map(_key, key))
    return _numpy().asarray(key) if isinstance(key, _core.Array) else key


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
    if name == "to_device":
        return lambda device, /, *, stream=None: accept("to_device", "device", device) or a
    from ._compile.static import ELSEWHERE
    hint = {"numpy": "write numpy.asarray(x)", "detach": "leave it out", "tolist": "write x.tolist()"}.get(name) or ELSEWHERE.get(name)
    near = difflib.get_close_matches(name, [*METHODS, "shape", "dtype", "ndim", "reshape", "transpose", "astype", "tolist", "item"], 1)
    raise AttributeError(f"arrays have no {name}" + (f": {hint}" if hint else f"; they have {near[0]}" if near else ""))


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
        return _At(self._array, (_key(key),))

    def __call__(self, *args: Any) -> None:
        raise TypeError("the index of x.at stands in brackets: x.at[i].set(value)")

    def _inside(self, mode: Any) -> Any:
        """The index for a mode of JAX, and which of its parts are inside; None: those of NumPy, whose index outside is an error."""
        if mode is None or mode == "promise_in_bounds":
            return None
        if mode not in ("clip", "wrap", "drop", "fill"):
            raise ValueError(f'mode is one of "promise_in_bounds", "clip", "wrap", "drop" and "fill", not {mode!r}')
        numpy = _numpy()
        i, n = numpy.asarray(self._key[0]), self._array.shape[0] if self._array.ndim else 0
        if isinstance(self._key[0], (tuple, slice)) or i.dtype.kind not in "iu":
            raise TypeError("mode is for an integer or one array of integers: clip each index before")
        if mode == "wrap":
            return i % n, numpy.ones(i.shape, bool)
        if mode == "clip":
            return numpy.clip(numpy.where((i < 0) & (i >= -n), i + n, i), 0, n - 1), numpy.ones(i.shape, bool)
        return numpy.where((i < -n) | (i >= n), 0, i), (i >= -n) & (i < n)

    def _changed(self, how: str | None, value: Any, mode: Any = None) -> Any:
        numpy = _numpy()
        out = numpy.array(self._array)
        key, place = self._key[0], self._inside(mode)
        if place is not None:
            key, inside = place
            value = numpy.broadcast_to(numpy.asarray(value), key.shape + out.shape[1:])[inside]
            key = key[inside]
        if how is None:
            out[key] = value
        else:
            getattr(numpy, how).at(out, key, value)
        return _core.asarray(out)

    def get(self, *, mode: Any = None, fill_value: Any = None, indices_are_sorted: bool = False, unique_indices: bool = False) -> Any:
        """The elements there. mode="fill": of an index outside `fill_value`, by default NaN."""
        place = self._inside(mode)
        if place is None:
            return self._array[self._key[0]]
        numpy = _numpy()
        a = numpy.asarray(self._array)
        if fill_value is None and a.dtype.kind not in "fc":
            raise ValueError('get(mode="fill") of integers needs fill_value')
        fill_value = numpy.nan if fill_value is None else fill_value
        found, inside = a[place[0]], place[1].reshape(place[1].shape + (1,) * (a.ndim - 1))
        return _core.asarray(numpy.where(inside, found, numpy.asarray(fill_value).astype(a.dtype)))

    def set(self, value: Any, *, mode: Any = None, indices_are_sorted: bool = False, unique_indices: bool = False) -> Any:
        """The array with other elements there."""
        return self._changed(None, value, mode)

    def add(self, value: Any, *, mode: Any = None, indices_are_sorted: bool = False, unique_indices: bool = False) -> Any:
        """The array with something added there."""
        return self._changed("add", value, mode)

    def multiply(self, value: Any, *, mode: Any = None, indices_are_sorted: bool = False, unique_indices: bool = False) -> Any:
        """The array with elements there multiplied."""
        return self._changed("multiply", value, mode)

    mul = multiply

    def subtract(self, value: Any, **options: Any) -> Any:
        """The array with something taken away there."""
        return self._changed("subtract", value, options.get("mode"))

    def divide(self, value: Any, **options: Any) -> Any:
        """The array with elements there divided: floats."""
        ones = _At(OPS["ones_like"](self._array / 1), self._key)
        return self._array / ones.multiply(value, **options)

    def power(self, value: Any, **options: Any) -> Any:
        """The array with elements there raised to a power, or to several if the index has them several times."""
        return OPS["power"](self._array, _At(OPS["ones_like"](self._array), self._key).multiply(value, **options))

    def apply(self, f: Any) -> Any:
        """The array with f of the elements there, once for each, however often the index has it."""
        return self.set(f(self.get()))

    def min(self, value: Any, *, mode: Any = None, indices_are_sorted: bool = False, unique_indices: bool = False) -> Any:
        """The array with elements there no larger than these."""
        return self._changed("minimum", value, mode)

    def max(self, value: Any, *, mode: Any = None, indices_are_sorted: bool = False, unique_indices: bool = False) -> Any:
        """The array with elements there no smaller than these."""
        return self._changed("maximum", value, mode)


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


def _namespace(a: Any, version: Any) -> Any:
    from ._library.standard import namespace
    return namespace(a, version)


_SPECIAL = {"getitem": _item, "numpys": _numpys, "namespace": _namespace, "dtype": _element_type, "shown": _shown, "attribute": _attribute, "reduce": _reduced, "and": _bits("and"), "or": _bits("or"),
            "xor": _bits("xor"), "invert": _bits("not")}
