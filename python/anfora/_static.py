# SPDX-License-Identifier: Apache-2.0
"""What names from outside mean in a compiled function: constants, functions, operations, captured arrays; and
calls of them."""
from __future__ import annotations

import ast
import functools
import inspect
import math
import types
from typing import Any, Callable

from ._ops import OPS, Op, literal
from ._tree import field_names, tree_map
from ._types import dtype_name

CASTS = {"float": "f64", "int": "i64", "bool": "bool", "complex": "c128"}

# Methods of arrays: the operation that they are
METHODS = {
    "sum", "mean", "max", "min", "prod", "std", "var", "all", "any", "argmax", "argmin", "cumsum", "cumprod", "clip",
    "dot", "round", "conj", "repeat", "squeeze", "swapaxes", "flatten", "ravel", "take",
}


class Call:
    """A call in the source, and what is called if that is known."""

    def __init__(self, node: ast.Call, f: Any, known: bool) -> None:
        self.node, self.f, self.known = node, f, known
        self.args = node.args
        self.kw = {k.arg: k.value for k in node.keywords}


def operation(x: Any) -> Op | None:
    """The operation that a function of anfora.numpy, NumPy, JAX, math or torch is."""
    if isinstance(x, Op):
        return x
    module = getattr(x, "__module__", None) or ("numpy" if type(x).__name__ == "ufunc" else "")
    if type(x).__name__ == "PjitFunction" or module.split(".")[0] in ("numpy", "math", "cmath", "torch", "jax"):
        name = getattr(x, "__name__", "")
        if module == "math":
            name = {"fabs": "abs", "pow": "power"}.get(name, name)
        return OPS.get(name)
    return None


def static_text(w: Any, node: Any, x: Any) -> str:
    """An object from outside, as text of the program."""
    if x is None or isinstance(x, (bool, int, float, complex, str)):
        return _constant(w, node, x)
    if isinstance(x, (tuple, list)) and not hasattr(x, "_fields"):
        return "(" + ", ".join(static_text(w, node, i) for i in x) + (",)" if len(x) == 1 else ")")
    if isinstance(x, dict):
        return w.record([(k, static_text(w, node, v)) for k, v in x.items()])
    if hasattr(x, "_emit"):
        return x._emit(w.b)
    if x is tree_map:
        return "hyper_map"
    if isinstance(x, types.FunctionType):
        from ._source import emit_function
        return emit_function(w.b, x)
    if isinstance(x, functools.partial):
        if x.keywords:
            w.refuse(node, "a partial with keywords cannot be compiled", "write a lambda")
        return f"partial({', '.join(static_text(w, node, a) for a in (x.func, *x.args))})"
    op = operation(x)
    if op:
        return op.op
    name = dtype_name(x)
    if name:
        return name
    return _object(w, node, x)


def _constant(w: Any, node: Any, x: Any) -> str:
    try:
        text = literal(x)
    except TypeError as e:
        w.refuse(node, str(e))
    return f"({text})" if isinstance(x, (int, float)) and text.startswith("-") else text


def _object(w: Any, node: Any, x: Any) -> str:
    names = field_names(type(x))
    if names is not None:
        w.b.classes.append(type(x))
        return w.record([(n, static_text(w, node, getattr(x, n))) for n in names])
    if hasattr(x, "__dlpack__") or hasattr(x, "__array__") or type(x).__name__ == "array":
        return w.b.array(x)
    if callable(x):
        name = f"{getattr(x, '__module__', '')}.{getattr(x, '__qualname__', x)}".lstrip(".")
        w.refuse(node, f"{name} cannot be called in a compiled function",
                 "use operations of anfora.numpy, or functions written in Python")
    return w.refuse(node, f"a {type(x).__name__} cannot be used in a compiled function")


# ---- calls ----

def emit_call(w: Any, c: Call) -> str:
    for a in c.args:
        if isinstance(a, ast.Starred):
            w.refuse(a, "* cannot stand in a call", "write the arguments out, or pass one tuple")
    if None in c.kw:
        w.refuse(c.node, "** cannot stand in a call", "write the arguments out, or pass one dictionary")
    if not c.known:
        return _unknown(w, c)
    f = c.f
    handler = getattr(f, "_emit_call", None)
    if handler:
        return handler(w, c)
    try:
        special = BUILTINS.get(f)
    except TypeError:  # not hashable
        special = None
    if special:
        return special(w, c)
    if isinstance(f, type):
        return _class(w, c)
    op = operation(f)
    if op:
        return emit_op(w, c, op, list(c.args), dict(c.kw))
    name = dtype_name(f)
    if name:
        return f"{name}({w.expr(c.args[0])})"
    inner = getattr(f, "__wrapped__", None) if hasattr(f, "_emit") else f
    if isinstance(inner, types.FunctionType) and f is not tree_map:
        return call_source(w, c, f, inner)
    text = static_text(w, c.node.func, f)
    return f"{text}{w.mark(c.node)}({positional(w, c)})"


def positional(w: Any, c: Call) -> str:
    parts = [w.expr(a) for a in c.args] + [f"{k} = {w.expr(v)}" for k, v in c.kw.items()]
    return ", ".join(parts)


def call_source(w: Any, c: Call, f: Any, inner: types.FunctionType) -> str:
    """A call of a Python function. Arguments that are None or texts are put in: there is a copy for them."""
    parts, statics = [], {}
    try:
        given = inspect.signature(inner).bind(*c.args, **c.kw)
    except TypeError as e:
        w.refuse(c.node, f"{inner.__name__}(): {e}")
    for name, p in inspect.signature(inner).parameters.items():
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            w.refuse(c.node, f"{inner.__name__}() has a variable number of parameters", "take one tuple or dictionary")
        node = given.arguments.get(name)
        known, x = (True, p.default) if node is None else w.static(node)
        if known and (x is None or isinstance(x, str)):
            statics[name] = x
        else:
            parts.append(w.expr(node) if node is not None else static_text(w, c.node, x))
    if statics and not hasattr(f, "_emit_with"):
        from ._source import emit_function
        text = emit_function(w.b, inner, statics)
    else:
        text = f._emit_with(w.b, statics) if statics else static_text(w, c.node.func, f)
    return f"{text}{w.mark(c.node)}({', '.join(parts)})"


def _unknown(w: Any, c: Call) -> str:
    node = c.node.func
    if isinstance(node, ast.Name):
        owner = w.scope.owner(node.id)
        if owner and node.id in owner.defs:
            return f"{w.expr(node)}{w.mark(c.node)}({_bind_nested(w, c, owner, node.id)})"
    if isinstance(node, ast.Attribute):
        return _method(w, c, node)
    return f"{w.expr(node)}{w.mark(c.node)}({positional(w, c)})"


def _bind_nested(w: Any, c: Call, owner: Any, name: str) -> str:
    args = owner.defs[name]
    params = [*args.posonlyargs, *args.args, *args.kwonlyargs]
    if len(c.args) > len(params) - len(args.kwonlyargs):
        w.refuse(c.node, f"{name}() takes {len(params)} arguments, not {len(c.args)}")
    given = {p.arg: a for p, a in zip(params, c.args)}
    for k, v in c.kw.items():
        if k in given or k not in [p.arg for p in params]:
            w.refuse(c.node, f"{name}() has no further argument {k}")
        given[k] = v
    parts = []
    for p in params:
        if p.arg in given:
            parts.append(w.expr(given[p.arg]))
        elif p.arg in owner.defaults.get(name, {}):
            parts.append(owner.defaults[name][p.arg])
        else:
            w.refuse(c.node, f"{name}() lacks the argument {p.arg}")
    return ", ".join(parts)


def _method(w: Any, c: Call, node: ast.Attribute) -> str:
    name = node.attr
    if name in METHODS:
        return emit_op(w, c, OPS[name], [node.value, *c.args], dict(c.kw))
    if name in ("reshape", "transpose"):
        many = len(c.args) > 1
        shape = [ast.copy_location(ast.Tuple(elts=c.args, ctx=ast.Load()), c.node)] if many else c.args
        return emit_op(w, c, OPS[name], [node.value, *shape], dict(c.kw))
    if name == "astype":
        return emit_op(w, c, OPS["cast"], [node.value, *c.args], dict(c.kw))
    if name in ("copy", "item") and not c.args:
        return w.expr(node.value)
    if name == "append":
        w.refuse(c.node, "lists do not grow in compiled functions", "write xs = (*xs, x) as xs + (x,), or fill an array")
    if name in ("get", "items", "keys", "values", "update", "pop", "setdefault"):
        w.refuse(c.node, f"dictionaries have no {name} in compiled functions",
                 "use hyper_map over the leaves, or write the keys out")
    # a field that holds a function
    return f"{w.expr(node)}{w.mark(c.node)}({positional(w, c)})"


def emit_op(w: Any, c: Call, op: Op, args: list, kw: dict) -> str:
    """An operation with its inputs, then its attributes by name."""
    known = {a[0]: a[1] for a in op.attributes}
    if op.inputs and op.inputs[-1][1] == "*" and args and isinstance(args[len(op.inputs) - 1], (ast.List, ast.Tuple)):
        first = len(op.inputs) - 1
        args, rest = [*args[:first], *args[first].elts], args[first + 1:]
        kw.update(zip(known, rest))
    elif not (op.inputs and op.inputs[-1][1] == "*"):
        n = len(op.inputs)
        args, rest = args[:n], args[n:]
        if len(rest) > len(known):
            w.refuse(c.node, f"{op.__name__}() takes at most {n + len(known)} arguments")
        kw.update(zip(known, rest))
        for name, _ in op.inputs[len(args):]:
            if name in kw:
                args.append(kw.pop(name))
    if "dtype" in kw and op.op == "Cast":
        return f"cast({w.expr(args[0])}, {attribute(w, kw['dtype'], 'dtype')})"
    parts = [w.expr(a) for a in args]
    for k, v in kw.items():
        if k not in known:
            w.refuse(v, f"{op.__name__}() has no argument {k}", f"it takes {op.__signature__}")
        parts.append(f"{k}={attribute(w, v, known[k])}")
    return f"{op.op}{w.mark(c.node)}({', '.join(parts)})"


def attribute(w: Any, node: Any, kind: str) -> str:
    known, x = w.static(node)
    if not known:
        return w.expr(node)
    try:
        return w.mark(node) + literal(x, kind)
    except TypeError as e:
        return w.refuse(node, str(e))


# ---- Python's own functions and classes ----

def _class(w: Any, c: Call) -> str:
    f = c.f
    if f in (float, int, bool, complex) or dtype_name(f):
        if len(c.args) != 1:
            w.refuse(c.node, f"{f.__name__}() takes one argument here")
        if f is bool:
            return f"({w.expr(c.args[0])} != 0)"
        return f"{dtype_name(f)}({w.expr(c.args[0])})"
    if f in (tuple, list):
        return w.expr(c.args[0]) if c.args else "()"
    if f is dict and not c.args:
        return w.record([(k, w.expr(v)) for k, v in c.kw.items()])
    if f is slice or f is range:
        w.refuse(c.node, f"{f.__name__}() stands in a for loop or a subscript only")
    names = field_names(f)
    if names is None:
        w.refuse(c.node, f"objects of class {f.__name__} cannot be made in a compiled function",
                 "make it a dataclass or a named tuple")
    given = inspect.signature(f).bind(*c.args, **c.kw)
    w.b.classes.append(f)
    items = []
    for n in names:
        if n in given.arguments:
            items.append((n, w.expr(given.arguments[n])))
        else:
            default = inspect.signature(f).parameters[n].default
            items.append((n, static_text(w, c.node, default)))
    return w.record(items)


def _fold(op: str, alone: str) -> Callable:
    def emit(w: Any, c: Call) -> str:
        if len(c.args) == 1:
            return f"{alone}{w.mark(c.node)}({w.expr(c.args[0])})"
        text = w.expr(c.args[0])
        for a in c.args[1:]:
            text = f"{op}{w.mark(c.node)}({text}, {w.expr(a)})"
        return text
    return emit


def _plain(name: str) -> Callable:
    return lambda w, c: f"{name}{w.mark(c.node)}({w.exprs(c.args)})"


def _print(w: Any, c: Call) -> str:
    parts = []
    for a in c.args:
        for piece in a.values if isinstance(a, ast.JoinedStr) else [a]:
            value = piece.value if isinstance(piece, ast.FormattedValue) else piece
            if isinstance(value, ast.Constant) and isinstance(value.value, str) and piece is not a:
                value = ast.copy_location(ast.Constant(value.value.strip()), value)
                if not value.value:
                    continue
            parts.append(w.expr(value))
    w.b.prints = True
    return f"print{w.mark(c.node)}({', '.join(parts)})"


def _divmod(w: Any, c: Call) -> str:
    a, b = w.expr(c.args[0]), w.expr(c.args[1])
    return f"({a} // {b}, {a} % {b})"


def _power(w: Any, c: Call) -> str:
    return f"({w.expr(c.args[0])} {w.mark(c.node)}** {w.expr(c.args[1])})"


def _only_in_for(w: Any, c: Call) -> str:
    return w.refuse(c.node, f"{c.f.__name__}() stands in a for loop only, in compiled functions")


BUILTINS: dict[Any, Callable] = {
    abs: _plain("Abs"), len: _plain("len"), print: _print, divmod: _divmod, pow: _power, math.pow: _power,
    min: _fold("Minimum", "Min"), max: _fold("Maximum", "Max"), sum: _plain("Sum"), round: _plain("Round"),
    all: _plain("All"), any: _plain("Any"), map: _plain("map"), zip: _only_in_for, enumerate: _only_in_for,
    reversed: _only_in_for,
}
