# SPDX-License-Identifier: Apache-2.0
"""What NumPy's functions give of numbers of Python: np.sqrt(2.0) and np.stack([0.5, 1.0]) are float64, and so is their product with
a float32 array, whereas 2.0 alone takes the array's type (NEP 50). So with anfora.numpy, whose functions give the same when Python
calls them. Functions of jax.numpy keep JAX's rule: these numbers stay weak."""
from __future__ import annotations

import ast
import sys
import types
from typing import Any, Callable

from .foreign import module_of
from .._types import DTYPES, default_float

_ARGUMENTS = {"where": slice(1, None), "select": slice(1, None), "full": slice(1, 2), "clip": slice(0, 1), "repeat": slice(0, 1), "broadcast_to": slice(0, 1),
              "expand_dims": slice(0, 1), "full_like": slice(0, 0)}  # those whose types the result takes; of others all
_NUMBERS = (bool, int, float, complex)
_OF_FLOATS = set("""acos acosh asin asinh atan atan2 atanh cbrt copysign cos cosh erf erfc exp exp2 expm1 fabs fmod gamma hypot lgamma log log10 log1p
    log2 nextafter remainder sin sinh sqrt tan tanh degrees radians""".split())  # of math


def is_numpys(w: Any, f: Any) -> bool:
    """A function of NumPy, or of anfora.numpy in a user's function: the package's own keep the types of their arrays."""
    module = module_of(f)
    return module.split(".")[0] == "numpy" or _is_ours(module, f) and module_of(w.fn).split(".")[0] != "anfora"


def _is_ours(module: str, f: Any) -> bool:
    """A function of anfora.numpy, an operation or composed of such."""
    return module == "anfora.numpy" or module.startswith("anfora._library.") and getattr(sys.modules.get("anfora.numpy"), f.__name__, None) is f


def of_numpy() -> tuple[type, ...]:
    """NumPy's classes of numbers that are Python's, too."""
    numpy = sys.modules.get("numpy")
    return (numpy.float64, numpy.complex128) if numpy else ()


def is_number(w: Any, node: Any, seen: frozenset = frozenset()) -> bool:
    """Whether an expression is a number of Python, or a list of such: its form tells."""
    known, x = w.static(node)
    if known:
        return _of_numbers(x)
    if isinstance(node, ast.Name):
        return is_weak(w.like(node)) or w.is_bound_to(node, lambda v, names: is_number(w, v, names), seen)
    if isinstance(node, (ast.List, ast.Tuple)):
        return bool(node.elts) and all(is_number(w, e, seen) for e in node.elts)
    if isinstance(node, (ast.ListComp, ast.GeneratorExp)):  # of other items names are of another scope
        return isinstance(node.elt, ast.Call) and gives_number(w, node.elt)
    if isinstance(node, ast.BinOp):
        return is_number(w, node.left, seen) and is_number(w, node.right, seen)
    if isinstance(node, ast.IfExp):
        return is_number(w, node.body, seen) and is_number(w, node.orelse, seen)
    if isinstance(node, ast.UnaryOp):
        return is_number(w, node.operand, seen)
    if isinstance(node, ast.Subscript):
        return w.gives_dims(node.value)
    if isinstance(node, ast.Call):
        return gives_number(w, node)
    return isinstance(node, ast.Attribute) and node.attr in ("ndim", "size") or w.gives_dims(node)


def gives_number(w: Any, node: ast.Call) -> bool:
    """Whether a call gives a number of Python: of such a class, of a function of math, round(x), x.item()."""
    known, f = w.static(node.func)
    if not known:
        return isinstance(node.func, ast.Attribute) and node.func.attr == "item" and not node.args
    return f in (len, float, int, bool) or f is round and len(node.args) == 1 or isinstance(f, types.BuiltinFunctionType) and module_of(f) == "math"


def is_truth_of_numbers(w: Any, node: Any) -> bool:
    """Whether an expression is True or False of Python, which is 1 or 0 beside a number: a comparison of arrays is an array."""
    if isinstance(node, ast.Compare):
        return all(is_number(w, s) for s in (node.left, *node.comparators))
    return type(w.static(node)[1]) is bool or isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


def factor(w: Any, node: Any, other: Any) -> str:
    """A side of an arithmetic operation: a truth value beside a number of Python is an integer."""
    text = w.expr(node)
    return f"Cast({text}, dtype=int)" if is_truth_of_numbers(w, node) and is_number(w, other) and not is_truth_of_numbers(w, other) else text


def is_inverse(w: Any, node: ast.BinOp) -> bool:
    """Whether a power is of a number of Python by a known negative integer."""
    known, x = w.static(node.right)
    return known and type(x) is int and x < 0 and is_number(w, node.left)


def takes_numbers(c: Any) -> bool:
    """Whether a call is of a function of math or cmath that takes numbers of Python and gives one, of their class."""
    return not c.kw and (module_of(c.f) == "math" and c.f.__name__ in _OF_FLOATS or module_of(c.f) == "cmath")


def of_class(kind: type, node: Any) -> ast.Call:
    """float(x), whatever the name float is bound to."""
    return ast.fix_missing_locations(ast.copy_location(ast.Call(ast.Constant(kind), [node], []), node))


def as_float(node: Any) -> ast.Call:
    return of_class(float, node)


def of_numbers(w: Any, c: Any, found: Any, emit: Callable) -> str:
    """An operation in place of a function of math or cmath: of doubles, as they compute. A float that it gives has no type."""
    kind = complex if module_of(c.f) == "cmath" else float
    args = [of_class(kind, a) for a in c.args]
    text = emit(w, type(c)(ast.copy_location(ast.Call(c.node.func, args, []), c.node), found, True))
    return text if kind is complex and c.f.__name__ != "phase" else f"Cast{w.mark(c.node)}({text}, dtype=float)"


def log_of_base(c: Any) -> ast.BinOp:
    """math.log(x, b), which Python too computes by two logarithms."""
    of_x, of_base = (ast.Call(ast.Constant(c.f), [a], []) for a in c.args)
    return ast.fix_missing_locations(ast.copy_location(ast.BinOp(of_x, ast.Div(), of_base), c.node))


def is_weak(s: Any) -> bool:
    """Whether an argument is a number of Python, or a list of such."""
    if s is not None and s.kind in ("list", "tuple"):
        return bool(s.parts) and all(map(is_weak, s.parts))
    return s is not None and s.kind == "leaf" and s.of[0] in ("int", "float", "complex") and not s.of[1]


def _of_numbers(x: Any) -> bool:
    return bool(x) and all(map(_of_numbers, x)) if type(x) in (list, tuple) else type(x) in _NUMBERS


def typed(w: Any, text: str) -> str:
    """Numbers of Python as an array: it has the element type for which none is given, and does not take that of an array that it meets.
    Where set_default_dtype gave another, they stay weak."""
    if default_float() != "f64":
        return text
    t = w.fresh()
    return f"(fn ({t}) {{ CastLike({t}, {t} + false) }})({text})"


def result(w: Any, c: Any, text: str) -> str:
    """What a function gives; of NumPy's functions of numbers alone a typed array."""
    name = getattr(c.f, "__name__", "")
    if not is_numpys(w, c.f) or isinstance(c.f, type) or "dtype" in c.kw or not c.args or name == "real":  # which gives the number itself
        return text
    of = c.args[_ARGUMENTS.get(name, slice(None))]
    if default_float() != "f64" or not of or not all(is_number(w, a) for a in of):
        return text
    t, each = w.fresh(), f"fn (t__) {{ {typed(w, 't__')} }}"
    return f"multitype(fn ({t}: tuple) {{ hyper_map({each}, {t}) }}, {each})({text})"


def with_typed_items(w: Any, node: Any) -> Any:
    """The list with a type for each number beside arrays: np.array([x[0], 0.5]) is float64 where x is float32."""
    if not isinstance(node, (ast.List, ast.Tuple)) or is_number(w, node):
        return node
    items = [ast.copy_location(_typed_item(w, e), e) for e in node.elts]
    return ast.copy_location(type(node)(items, ast.Load()), node)


def _typed_item(w: Any, node: Any) -> Any:
    known, x = w.static(node)
    if known and type(x) is float:
        return ast.Call(ast.copy_location(ast.Constant(DTYPES[default_float()]), node), [node], [])
    return with_typed_items(w, node)
