# SPDX-License-Identifier: Apache-2.0
"""Element types and types of tensors, as annotations and as functions that cast."""
from __future__ import annotations

import weakref
from typing import Any

_NUMPY = {
    "bool": "bool", "bool_": "bool", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64", "float16": "f16", "bfloat16": "bf16",
    "float32": "f32", "float64": "f64", "complex64": "c64", "complex128": "c128", "float": "f64", "int": "i64",
    "complex": "c128",
}
# NumPy's short names, without those of its kinds that mean other things here: "i8" has 8 bytes there and 8 bits here
_SHORT = {"?": "bool", "b1": "bool", "i1": "i8", "i2": "i16", "i4": "i32", "u1": "u8", "u2": "u16", "u4": "u32", "f2": "f16",
          "f4": "f32", "f8": "f64", "c8": "c64", "c16": "c128", "half": "f16", "single": "f32", "double": "f64", "intp": "i64",
          "csingle": "c64", "cdouble": "c128", "f": "f32", "d": "f64", "e": "f16", "F": "c64", "D": "c128"}
_NAMES = ("bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64", "c64", "c128")


class TensorType:
    """The type of an argument: ``f32[3, "B"]`` has 3 rows of the same length B wherever B stands."""

    def __init__(self, dtype: "DType", dims: tuple) -> None:
        self.dtype, self.dims = dtype, dims

    def __repr__(self) -> str:
        dims = ", ".join("?" if d is None or d is Ellipsis else str(d) for d in self.dims)
        return f"{self.dtype.name}[{dims}]" if self.dims else self.dtype.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorType) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))


class DType:
    """An element type: an annotation by itself (a scalar), of a tensor as ``f32[2, 3]``, and a cast: ``f32(x)``."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getitem__(self, dims: Any) -> TensorType:
        return TensorType(self, dims if isinstance(dims, tuple) else (dims,))

    def __call__(self, x: Any) -> Any:
        from . import numpy
        return numpy.cast(x, dtype=self)

    def __repr__(self) -> str:
        return f"anfora.{self.name}"

    def __eq__(self, other: object) -> bool:
        return self.name == str(other) if isinstance(other, ElementType) else isinstance(other, DType) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


DTYPES = {name: DType(name) for name in _NAMES}
BY_NUMPY_NAME = {numpy: DTYPES[name] for numpy, name in _NUMPY.items() if numpy not in ("bool", "int", "float", "complex")}


class ElementType:
    """What ``x.dtype`` is: equal to all that stands for the type in NumPy, torch or here, its name too; numpy.dtype takes it."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (ElementType, str)):
            return self._text == str(other) or _NUMPY.get(str(other)) == self._text
        return other is not None and dtype_name(other) == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    @property
    def name(self) -> str:
        """NumPy's name of the type."""
        return BY_NAME.get(self._text, self._text)

    @property
    def itemsize(self) -> int:
        """The bytes of an element."""
        return {"bool": 1, "bf16": 2, "key": 8}.get(self._text) or int(self._text[1:]) // 8

    @property
    def dtype(self) -> Any:
        """As NumPy has it."""
        import numpy
        return numpy.dtype(self.name)


BY_NAME = {ours: theirs for theirs, ours in _NUMPY.items() if theirs not in ("bool_", "int", "float", "complex")}
ELEMENT_TYPES = {name: ElementType(name) for name in (*_NAMES, "key")}


_defaults = {"float": "f64"}
AFFECTED: Any = weakref.WeakSet()  # functions whose code depends on the default


def default_float() -> str:
    """The element type of floats for which none is given."""
    return _defaults["float"]


def number_types() -> dict[str, str]:
    """The element types that numbers without one have once they are arrays."""
    return {"int": "i64", "float": default_float(), "complex": "c64" if default_float() == "f32" else "c128"}


def default_dtype() -> DType:
    """The element type of floats for which none is given: of zeros, ones, eye, linspace, arange of floats, random numbers and numbers of Python that
    become arrays. NumPy's, f64, unless set_default_dtype set another."""
    return DTYPES[default_float()]


def set_default_dtype(dtype: Any) -> None:
    """Sets the element type of floats for which none is given: f32, as in PyTorch and JAX, or f64, as in NumPy, which it is at first.
    Functions that were compiled are compiled anew."""
    name = dtype_name(dtype)
    if name not in ("f32", "f64"):
        raise ValueError(f"the default type is f32 or f64, not {dtype!r}")
    if name != _defaults["float"]:
        _defaults["float"] = name
        for f in list(AFFECTED):
            f._programs.clear()
            f.clear_cache()


def dtype_name(x: Any) -> str | None:
    """The language's name of what stands for an element type in NumPy, torch, JAX, Python or here; else None."""
    if isinstance(x, DType):
        return x.name
    if isinstance(x, ElementType):
        return str(x)
    if isinstance(x, str):
        return x if x in DTYPES else _NUMPY.get(x) or _SHORT.get(x.lstrip("<="))
    if isinstance(x, type) or type(x).__name__.startswith(("dtype", "_ScalarMeta", "Float", "Int", "UInt", "Complex", "Bool")):
        name = str(getattr(x, "name", None) or getattr(x, "__name__", ""))
        if x in (bool, int, float, complex) or getattr(x, "__module__", "numpy").startswith(("numpy", "jax", "ml_")):
            return _NUMPY.get(name)
        return _NUMPY.get(str(x).removeprefix("torch."))
    return None


class Limits:
    """What finfo and iinfo tell of an element type, as numbers of Python."""

    def __init__(self, dtype: str, facts: dict[str, Any]) -> None:
        self.dtype = ELEMENT_TYPES[dtype]
        vars(self).update(facts)

    def __repr__(self) -> str:
        return f"Limits({', '.join(f'{k}={v}' for k, v in vars(self).items())})"


_FLOATS = {"f16": (16, 10, 5), "bf16": (16, 7, 8), "f32": (32, 23, 8), "f64": (64, 52, 11)}  # bits, of the fraction, of the exponent


def _name_of(x: Any) -> str:
    """The name of an element type, or of that of an array."""
    return dtype_name(x) or dtype_name(getattr(x, "dtype", None)) or str(x)


def finfo(dtype: Any, /) -> Limits:
    """The limits of floating-point numbers: eps, max, min, tiny, smallest_normal, bits."""
    name = _name_of(dtype)
    name = {"c64": "f32", "c128": "f64"}.get(name, name)
    if name not in _FLOATS:
        raise ValueError(f"finfo: {dtype} is no type of floating-point numbers")
    bits, fraction, exponent = _FLOATS[name]
    top = 2 ** (exponent - 1)
    largest, tiny = (2.0 - 2.0 ** -fraction) * 2.0 ** (top - 1), 2.0 ** (2 - top)
    return Limits(name, {"bits": bits, "eps": 2.0 ** -fraction, "max": largest, "min": -largest, "tiny": tiny, "smallest_normal": tiny,
                         "epsneg": 2.0 ** -(fraction + 1), "resolution": 10.0 ** -int(fraction * 0.30103)})


def iinfo(dtype: Any, /) -> Limits:
    """The limits of integers: max, min, bits."""
    name = _name_of(dtype)
    if name not in ELEMENT_TYPES or name[0] not in "iu":
        raise ValueError(f"iinfo: {dtype} is no type of integers")
    bits = int(name[1:])
    least = -2 ** (bits - 1) if name[0] == "i" else 0
    return Limits(name, {"bits": bits, "max": 2 ** (bits - 1) - 1 if least else 2 ** bits - 1, "min": least})


def declared(x: Any) -> TensorType | None:
    """The type that an annotation declares; None for annotations of other kinds."""
    if isinstance(x, TensorType):
        return x
    return TensorType(x, ()) if isinstance(x, DType) else None
