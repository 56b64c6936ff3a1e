# SPDX-License-Identifier: Apache-2.0
"""What the Array API standard (2025.12) has besides functions of arrays: element types, the namespace's facts, and functions
whose results have as many elements as the values say, which are NumPy's outside of compiled functions (counted.py: inside)."""
from __future__ import annotations

from typing import Any

from .. import _core
from .._ops import OPS, _numpy, op
from .._types import BY_NAME, DTYPES, DType, default_dtype, default_float, dtype_name
from .counted import COUNTED

VERSION = "2025.12"
KINDS = {
    "bool": ("bool",), "signed integer": ("i8", "i16", "i32", "i64"), "unsigned integer": ("u8", "u16", "u32", "u64"),
    "real floating": ("f16", "bf16", "f32", "f64"), "complex floating": ("c64", "c128"),
}
KINDS["integral"] = KINDS["signed integer"] + KINDS["unsigned integer"]
KINDS["numeric"] = KINDS["integral"] + KINDS["real floating"] + KINDS["complex floating"]
STANDARD = ("bool", *KINDS["integral"], "f32", "f64", "c64", "c128")  # the element types of the standard, by our names


class Outside:
    """A function that has another form in compiled functions, or none."""

    def __init__(self, f: Any, hint: str) -> None:
        self.f, self.hint = f, hint
        self.__name__, self.__doc__, self.__wrapped__ = f.__name__, f.__doc__, f

    def __call__(self, *args: Any, **kw: Any) -> Any:
        return self.f(*args, **kw)

    def _emit_call(self, w: Any, c: Any) -> str:
        counted = COUNTED.get(self.__name__)
        if counted is not None:
            return counted._emit_call(w, c)
        return w.refuse(c.node, f"{self.__name__}() cannot be called in a compiled function", self.hint)


TABLE: dict[str, Any] = {}


def outside(hint: str) -> Any:
    """A decorator: the function is one of TABLE."""
    def add(f: Any) -> Any:
        TABLE[f.__name__] = Outside(f, hint)
        return TABLE[f.__name__]
    return add


BY_TYPES = "call it outside, and use the element type that it gives"
BY_VALUES = "how many elements it gives depends on values: give size=, the most there can be, or call it outside"


# ---- element types ----

def _own(x: Any) -> str:
    """The name of the element type of an array, or of what stands for one."""
    name = dtype_name(x) or dtype_name(getattr(x, "dtype", None))
    if name is None:
        raise TypeError(f"{x!r} is neither an array nor an element type")
    return name


@outside(BY_TYPES)
def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether an element type is another one, or of a kind such as "integral", "real floating" or "numeric"; of one of several
    if kind is a tuple."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str) and kind in KINDS:
        return _own(dtype) in KINDS[kind]
    if isinstance(kind, str) and dtype_name(kind) is None:
        raise ValueError(f"there is no kind {kind!r} of element types; there are {', '.join(KINDS)}")
    return _own(dtype) == _own(kind)


def promoted(a: str, b: str) -> str:
    """The type of a sum of two arrays."""
    inexact = [t for t in (a, b) if t[0] in "fbc" and t != "bool"]
    if a == b:
        return a
    if len(inexact) == 1:
        return inexact[0]
    if "bf16" in (a, b):
        other = b if a == "bf16" else a
        return {"f16": "f32"}.get(other, other)
    if {a, b} == {"u64", "i64"} or "u64" in (a, b) and "i" in (a[0], b[0]):
        return "i64"
    numpy = _numpy()
    dtypes = [numpy.dtype(BY_NAME[t]) for t in (a, b)]
    return str(dtype_name(numpy.result_type(*dtypes)))


@outside(BY_TYPES)
def result_type(*arrays_and_dtypes: Any) -> DType:
    """The element type that operations of arrays, element types and numbers give. Numbers of Python take the type of what they
    meet, unless theirs is of a higher kind."""
    weak = [x for x in arrays_and_dtypes if type(x) in (bool, int, float, complex)]
    names = [_own(x) for x in arrays_and_dtypes if type(x) not in (bool, int, float, complex)]
    if not arrays_and_dtypes:
        raise TypeError("result_type needs at least one array or element type")
    found = names[0] if names else None
    for name in names[1:]:
        found = promoted(str(found), name)
    kinds = {type(x) for x in weak}
    if complex in kinds and (found is None or found[0] != "c"):
        found = "c64" if found == "f32" or found is None and default_float() == "f32" else "c128"
    elif float in kinds and (found is None or found == "bool" or found[0] in "iu"):
        found = default_float()
    elif int in kinds and found in (None, "bool"):
        found = "i64"
    return DTYPES[found or "bool"]


@outside(BY_TYPES)
def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether all values of one element type are values of another one."""
    a, b = _own(from_), _own(to)
    if "bf16" in (a, b):
        return a == b or (a == "bf16" and b in ("f32", "f64", "c64", "c128")) or (b == "bf16" and a in ("bool", "i8", "u8"))
    return bool(_numpy().can_cast(BY_NAME[a], BY_NAME[b]))


@outside("shapes of arrays are known when code is made; write the shape")
def broadcast_shapes(*shapes: Any) -> tuple:
    """The shape that arrays of several shapes have together."""
    return tuple(_numpy().broadcast_shapes(*shapes))


@outside("arrays go into compiled functions as arguments")
def from_dlpack(x: Any, /, *, device: Any = None, copy: Any = None) -> Any:
    """An array of another library that knows DLPack; without a copy unless `copy` is True."""
    a = _core.asarray(x)
    return _core.frombytes(str(a.dtype), a.shape, a.tobytes()) if copy else a


# ---- results whose sizes depend on values ----

def _array(x: Any) -> Any:
    return _core.asarray(x)


@outside(BY_VALUES)
def nonzero(x: Any, /, *, size: Any = None, fill_value: Any = None) -> tuple:
    """For each dim, the indices of the elements that are not 0. With `size` so many: the first ones, then fill_value (or 0)."""
    if size is not None:
        return COUNTED["nonzero"](x, size=size, fill_value=fill_value)
    return tuple(map(_array, _numpy().nonzero(_numpy().asarray(x))))


@outside(BY_VALUES)
def flatnonzero(x: Any, /, *, size: Any = None, fill_value: Any = None) -> Any:
    """The flat indices of the elements that are not 0."""
    return nonzero(OPS["ravel"](x), size=size, fill_value=fill_value)[0]


@outside(BY_VALUES)
def argwhere(x: Any, /, *, size: Any = None, fill_value: Any = None) -> Any:
    """The indices of the elements that are not 0, a row for each."""
    if size is None and _numpy().ndim(x) == 0:  # indices of no dims
        return _array(_numpy().zeros((int(bool(x)), 0), "int64"))
    return OPS["stack"](nonzero(x, size=size, fill_value=fill_value), axis=1)


@outside(BY_VALUES)
def unique_all(x: Any, /) -> Any:
    """The values that occur, where each is first, which of them each element is, and how often each occurs."""
    return _unique("unique_all", x)


@outside(BY_VALUES)
def unique_counts(x: Any, /) -> Any:
    """The values that occur, and how often."""
    return _unique("unique_counts", x)


@outside(BY_VALUES)
def unique_inverse(x: Any, /) -> Any:
    """The values that occur, and which of them each element is."""
    return _unique("unique_inverse", x)


@outside(BY_VALUES)
def unique_values(x: Any, /) -> Any:
    """The values that occur."""
    return _unique("unique_values", x)


def _unique(name: str, x: Any) -> Any:
    numpy = _numpy()
    many = name == "unique_all"
    found = numpy.unique(numpy.asarray(x), return_index=many, return_inverse=many or name == "unique_inverse",
                         return_counts=many or name == "unique_counts", equal_nan=False)
    if name == "unique_values":
        return _array(found)
    parts = [_array(p) for p in found]
    if name != "unique_counts":
        at = 2 if many else 1
        parts[at] = OPS["reshape"](parts[at], numpy.shape(x))
    return RESULTS[name](*parts)


def _results() -> dict[str, Any]:
    from collections import namedtuple
    return {"unique_all": namedtuple("UniqueAll", "values indices inverse_indices counts"),
            "unique_counts": namedtuple("UniqueCounts", "values counts"),
            "unique_inverse": namedtuple("UniqueInverse", "values inverse_indices")}


RESULTS = _results()


@outside(BY_VALUES)
def unique(x: Any, /, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False, axis: Any = None, *,
           equal_nan: bool = True, size: Any = None, fill_value: Any = None) -> Any:
    """The values that occur, as in NumPy. With `size` so many: the smallest ones, then fill_value (or the smallest)."""
    if size is not None:
        if axis is not None:
            raise ValueError("unique: with size there is no axis")
        return COUNTED["unique"](x, return_index, return_inverse, return_counts, size=size, fill_value=fill_value)
    found = _numpy().unique(_numpy().asarray(x), return_index, return_inverse, return_counts, axis, equal_nan=equal_nan)
    return tuple(map(_array, found)) if isinstance(found, tuple) else _array(found)


@outside(BY_VALUES)
def bincount(x: Any, /, weights: Any = None, minlength: int = 0, *, length: Any = None) -> Any:
    """How often each integer occurs, or the sum of its weights: at least minlength numbers, or just `length`, as in JAX."""
    if length is not None:
        return COUNTED["bincount"](x, weights, length=length)
    numpy = _numpy()
    return _array(numpy.bincount(numpy.asarray(x), None if weights is None else numpy.asarray(weights), minlength))


@outside(BY_VALUES)
def repeat(x: Any, /, repeats: Any, axis: Any = None, *, total_repeat_length: Any = None) -> Any:
    """Each element so many times along an axis, of the flat array if there is none; with total_repeat_length so many, as in JAX."""
    if total_repeat_length is not None or isinstance(repeats, int):
        return COUNTED["repeat"](x, repeats, axis, total_repeat_length)
    numpy = _numpy()
    rows, k = (OPS["ravel"](x), 0) if axis is None else (_array(x), axis)
    return OPS["take"](rows, numpy.repeat(numpy.arange(rows.shape[k]), numpy.asarray(repeats)), axis=k)


# ---- sets, parts by conditions ----

def as_numpy_has_it(f: Any) -> Any:
    """A function of TABLE that is NumPy's of the same name, whose results have as many elements as values say."""
    name = f.__name__

    def call(*args: Any, **kw: Any) -> Any:
        if "size" in kw and name in COUNTED:
            return COUNTED[name](*args, **kw)
        numpy = _numpy()
        found = getattr(numpy, name)(*[numpy.asarray(a) if hasattr(a, "__dlpack__") else a for a in args], **kw)
        return tuple(map(_array, found)) if isinstance(found, tuple) else _array(found)
    call.__name__, call.__doc__ = name, f.__doc__
    return outside(BY_VALUES)(call)


@as_numpy_has_it
def intersect1d() -> None:
    """The values that are in both arrays, in order; with return_indices where they are."""


@as_numpy_has_it
def union1d() -> None:
    """The values that are in one of two arrays, in order. With `size` so many, as in unique."""


@as_numpy_has_it
def setdiff1d() -> None:
    """The values of one array that another one has not, in order."""


@as_numpy_has_it
def setxor1d() -> None:
    """The values that are in one of two arrays and not in both, in order."""


@as_numpy_has_it
def compress() -> None:
    """compress(condition, a, axis=None): the rows along an axis for which a condition is true."""


@as_numpy_has_it
def extract() -> None:
    """extract(condition, a): the elements for which a condition is true."""


@as_numpy_has_it
def trim_zeros() -> None:
    """A vector without the zeros at its ends."""


@as_numpy_has_it
def tril_indices_from() -> None:
    """The indices of the elements of a matrix at and below a diagonal."""


@as_numpy_has_it
def triu_indices_from() -> None:
    """The indices of the elements of a matrix at and above a diagonal."""


@outside(BY_TYPES)
def promote_types(type1: Any, type2: Any) -> DType:
    """The element type of sums of arrays of two types."""
    return DTYPES[promoted(_own(type1), _own(type2))]


@outside(BY_TYPES)
def issubdtype(arg1: Any, arg2: Any) -> bool:
    """Whether an element type is of a kind of NumPy's, such as numpy.floating, or is another one."""
    numpy = _numpy()
    if isinstance(arg2, type) and issubclass(arg2, numpy.generic) and dtype_name(arg2) is None:
        own = _own(arg1)
        return bool(issubclass(numpy.floating, arg2)) if own == "bf16" else bool(numpy.issubdtype(numpy.dtype(BY_NAME[own]), arg2))
    return _own(arg1) == _own(arg2)


@outside(BY_TYPES)
def iscomplexobj(x: Any) -> bool:
    """Whether an array has complex elements."""
    return _own(_array(x))[0] == "c"


@outside(BY_TYPES)
def isrealobj(x: Any) -> bool:
    """Whether an array has no complex elements."""
    return not iscomplexobj(x)


@outside(BY_TYPES)
def isscalar(x: Any) -> bool:
    """Whether something is one number."""
    return bool(_numpy().isscalar(x)) or getattr(x, "ndim", None) == 0


class Grid:
    """mgrid and ogrid: indices as NumPy has them."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getitem__(self, key: Any) -> Any:
        found = getattr(_numpy(), self.name)[key]
        return tuple(map(_array, found)) if isinstance(found, (list, tuple)) else _array(found)


GRIDS = {name: Grid(name) for name in ("mgrid", "ogrid", "r_", "c_")}


# ---- the namespace ----

class Info:
    """What __array_namespace_info__() gives."""

    def capabilities(self) -> dict:
        """What the standard leaves open."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": _core.max_rank}

    def default_device(self) -> str:
        """The device of new arrays."""
        return "cpu"

    def default_dtypes(self, *, device: Any = None) -> dict:
        """The element types of arrays for which none is given."""
        real = default_float()
        return {"real floating": default_dtype(), "complex floating": DTYPES["c64" if real == "f32" else "c128"],
                "integral": DTYPES["i64"], "indexing": DTYPES["i64"]}

    def devices(self) -> tuple:
        """All devices."""
        return ("cpu",)

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict:
        """The element types of a kind, by their names in the standard."""
        kinds = (kind,) if isinstance(kind, str) else kind
        if kinds is not None and any(k not in KINDS for k in kinds):
            raise ValueError(f"there is no kind {kind!r} of element types; there are {', '.join(KINDS)}")
        return {BY_NAME[t]: DTYPES[t] for t in STANDARD if kinds is None or any(t in KINDS[k] for k in kinds)}


def __array_namespace_info__() -> Info:
    """Facts about this namespace, as the Array API standard has them."""
    return Info()


def namespace(_array: Any, api_version: Any = None) -> Any:
    """What x.__array_namespace__() gives."""
    from .. import numpy
    if api_version is not None and (not isinstance(api_version, str) or not "2021.12" <= api_version <= VERSION):
        raise ValueError(f"the Array API standard of {api_version!r} is not known; there is {VERSION}")
    return numpy
