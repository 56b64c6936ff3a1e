# SPDX-License-Identifier: Apache-2.0
"""The class Tensor of tinygrad over anfora.numpy: each operation is computed at once and remembered, so that gradient() writes the
operations as a function, which Anfora differentiates. A name that Anfora has not raises Absent."""
import functools
import itertools
import linecache
import math
import operator

import anfora
import anfora.nn
import anfora.numpy as anp
import numpy

NAMES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "pow": "power",
         "hardswish": "hard_swish", "hardsigmoid": "hard_sigmoid", "logsigmoid": "log_sigmoid", "swish": "silu", "mod": "mod", "cmod": "fmod",
         "bitwise_not": "bit_not", "cast": "cast", "add": "add", "div": "div"}
SIGNS = {operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.floordiv: "//", operator.mod: "%",
         operator.pow: "**", operator.matmul: "@", operator.eq: "==", operator.ne: "!=", operator.lt: "<", operator.le: "<=", operator.gt: ">",
         operator.ge: ">=", operator.and_: "&", operator.or_: "|", operator.xor: "^", operator.lshift: "<<", operator.rshift: ">>"}


class Absent(Exception):
    """A function that Anfora has not."""


class Dtype:
    """An element type by tinygrad's name."""

    def __init__(self, name):
        self.np = numpy.dtype(name)
        i = numpy.iinfo(name) if self.np.kind in "iu" else None
        self.min, self.max = (i.min, i.max) if i else (-math.inf, math.inf)

    def __eq__(self, other):
        return self.np == numpy_type(other)

    def __hash__(self):
        return hash(self.np)


def numpy_type(x):
    return x.np if isinstance(x, Dtype) else numpy.dtype("float32" if x is float else "int32" if x is int else x)


def array(data, dtype=None):
    """An array of Anfora: numbers of Python are of the default types."""
    a = numpy.asarray(data)
    if dtype is None and not isinstance(data, (numpy.ndarray, numpy.generic)):
        dtype = "float32" if a.dtype.kind == "f" else "int32" if a.dtype.kind == "i" and (a.size == 0 or abs(a).max() < 2 ** 31) else a.dtype
    return anfora.asarray(a if dtype is None else a.astype(numpy_type(dtype)))


def value(x):
    return x.array if isinstance(x, Tensor) else type(x)(map(value, x)) if isinstance(x, (tuple, list)) else x.np.name if isinstance(x, Dtype) else x


def tensors(x):
    """The tensors in an argument."""
    return [x] if isinstance(x, Tensor) else [t for y in x for t in tensors(y)] if isinstance(x, (tuple, list)) else []


def call(f, *args, **kw):
    """f of the arrays, remembered."""
    y = f(*map(value, args), **{k: value(v) for k, v in kw.items()})
    if isinstance(y, (tuple, list)):
        return tuple(Tensor.of(part, (f, args, kw, i)) for i, part in enumerate(y))
    return Tensor.of(y, (f, args, kw, None))


def found(name):
    """The function of this name."""
    name = NAMES.get(name, name)
    for space in (anp, anfora.nn):
        if name in space.__all__:
            return getattr(space, name)
    raise Absent(name)


def renamed(kw):
    return {{"dim": "axis", "keepdim": "keepdims"}.get(k, k): v for k, v in kw.items()}


class Meta(type):
    def __getattr__(cls, name):
        if name.startswith("_"):
            raise AttributeError(name)
        f = found(name)
        return lambda *args, **kw: call(f, *args, **renamed(kw))


class Tensor(metaclass=Meta):
    numbers = itertools.count()
    __array_ufunc__ = None  # numpy leaves operators to this class

    def __init__(self, data, dtype=None, **_kw):
        self.array, self.made, self.number = array(data, dtype), None, next(Tensor.numbers)

    @classmethod
    def of(cls, y, made):
        t = object.__new__(cls)
        t.array, t.made, t.number = y, made, next(Tensor.numbers)
        return t

    def __getattr__(self, name):
        return functools.partial(getattr(Tensor, name), self)

    # ---- what is no operation ----

    shape = property(lambda self: tuple(self.array.shape))
    ndim = property(lambda self: len(self.array.shape))
    dtype = property(lambda self: Dtype(self.numpy().dtype))

    def numpy(self):
        return numpy.array(self.array)

    def item(self):
        return self.numpy().item()

    def realize(self, *_others):
        return self

    contiguous = clone = realize

    def detach(self):
        return Tensor(self.numpy())

    # ---- gradient ----

    def gradient(self, *wanted, backend="interp"):
        return [Tensor(numpy.array(g)) for g in slopes(self, wanted, backend)]

    # ---- operators ----

    def __neg__(self):
        return call(anp.negative, self)

    def __invert__(self):
        return call(anp.bit_not, self)

    def __abs__(self):
        return call(anp.abs, self)

    def __getitem__(self, key):
        return call(operator.getitem, self, key)

    __hash__ = object.__hash__


def operators():
    for f in SIGNS:
        name = f.__name__.strip("_")
        setattr(Tensor, f"__{name}__", lambda a, b, f=f: call(f, a, b))
        if f not in (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge):
            setattr(Tensor, f"__r{name}__", lambda a, b, f=f: call(f, b, a))


operators()


# ---- the function that the operations are ----

class Text:
    """Arguments as text, and what the text names."""

    def __init__(self):
        self.names, self.globals = {}, {"anfora": anfora}

    def constant(self, x):
        name = f"k{len(self.globals)}"
        self.globals[name] = x
        return name

    def of(self, x):
        if isinstance(x, Tensor):
            return self.names.get(x.number) or self.constant(x.array)
        if isinstance(x, (tuple, list)) and tensors(x):
            return f"[{', '.join(map(self.of, x))}]" if isinstance(x, list) else f"({', '.join(map(self.of, x))},)"
        if x is None or isinstance(x, (bool, int, str)) or isinstance(x, float) and math.isfinite(x):
            return f"({x!r})"
        return self.constant(value(x))

    def index(self, key):
        parts = key if isinstance(key, tuple) else (key,)
        return ", ".join(":".join("" if p is None else repr(p) for p in (k.start, k.stop, k.step)) if isinstance(k, slice)
                         else "..." if k is Ellipsis else self.of(k) if not isinstance(k, list) else self.constant(numpy.asarray(k)) for k in parts) or "()"

    def line(self, t):
        f, args, kw, part = t.made
        if f is operator.getitem:
            text = f"{self.of(args[0])}[{self.index(args[1])}]"
        elif f in SIGNS:
            text = f"{self.of(args[0])} {SIGNS[f]} {self.of(args[1])}"
        else:
            text = f"{self.constant(f)}({', '.join([*map(self.of, args), *(f'{k}={self.of(v)}' for k, v in kw.items())])})"
        return text if part is None else f"({text})[{part}]"


def needed(result):
    """The tensors that a result is made of, in their order."""
    seen, open_ = {}, [result]
    while open_:
        t = open_.pop()
        if t.number not in seen:
            seen[t.number] = t
            if t.made:
                open_ += tensors(list(t.made[1])) + tensors(list(t.made[2].values()))
    return [seen[n] for n in sorted(seen)]


def slopes(result, wanted, backend):
    """The derivatives of the sum of a result, by Anfora."""
    text = Text()
    text.names |= {t.number: f"x{i}" for i, t in enumerate(wanted)}
    lines = []
    for t in needed(result):
        if t.made and t.number not in text.names:
            lines.append(f"    v{t.number} = {text.line(t)}")
            text.names[t.number] = f"v{t.number}"
    xs = ", ".join(f"x{i}" for i in range(len(wanted)))
    source = "\n".join([f"def graph({xs}):", *lines, f"    return {text.constant(anp.sum)}({text.of(result)})", f"def derivative({xs}):",
                        f"    return anfora.grad(graph, argnums={tuple(range(len(wanted)))})({xs})", ""])
    place = f"<graph {result.number}>"
    linecache.cache[place] = (len(source), None, source.splitlines(True), place)
    exec(compile(source, place, "exec"), text.globals)  # noqa: S102: it was written above
    try:
        return anfora.jit(text.globals["derivative"], backend=backend)(*(t.array for t in wanted))
    finally:
        del linecache.cache[place]
