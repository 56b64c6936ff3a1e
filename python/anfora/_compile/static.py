# SPDX-License-Identifier: Apache-2.0
"""What names from outside mean in a compiled function: constants, functions, operations, captured arrays; and
calls of them."""
from __future__ import annotations

import ast
import cmath
import collections
import functools
import inspect
import math
import os
import types
from typing import Any, Callable

from . import numbers
from .foreign import ARGUMENTS, ROOTS, counterpart, module_of
from .operators import as_value, is_operator, written
from .signature import refusal
from .._ops import COMPOSED, METHODS, OPS, REDUCTIONS, Op, accept, literal
from .._tree import field_names, registered, shape_of, tree_leaves, tree_map
from .._types import default_float, dtype_name

MOST_STRUCTURE = 512  # parts of an argument that code is made for

# Python's own functions and classes, and those of NumPy that are not operations: how a call of them is written.
# builtins.py fills it.
BUILTINS: dict[Any, Callable] = {}
BY_NAME: dict[str, Callable] = {}  # of NumPy and its like

CASTS = {"float": "f64", "int": "i64", "bool": "bool", "complex": "c128"}

class Call:
    """A call in the source, and what is called if that is known."""

    def __init__(self, node: ast.Call, f: Any, known: bool) -> None:
        self.node, self.f, self.known = node, f, known
        self.args = node.args
        self.kw: dict[Any, Any] = {k.arg: k.value for k in node.keywords}  # None: of **kw


def operation(x: Any) -> Op | None:
    """The operation that a function of anfora.numpy, NumPy, JAX, math or torch is."""
    if isinstance(x, Op):
        return x
    found = counterpart(x)
    return found if isinstance(found, Op) else None


def static_text(w: Any, node: Any, x: Any) -> str:
    """An object from outside, as text of the program."""
    if type(x) in numbers.of_numpy() and default_float() == "f64":  # they have types, unlike numbers of Python
        return f"{dtype_name(type(x))}({_constant(w, node, x)})"
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
    if isinstance(x, types.FunctionType) and not is_foreign(x):
        if inspect.isgeneratorfunction(x):
            no_generator(w, node, x)
        if x.__code__.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
            from .._jit import as_function
            return as_function(x)._emit(w.b)
        from .source import emit_function
        return emit_function(w.b, x)
    if isinstance(x, functools.partial):
        if x.keywords:
            from .._jit import as_function
            bound = as_function(x)
            w.b.keep.append(bound)
            return bound._emit(w.b)
        return f"partial({', '.join(static_text(w, node, a) for a in (x.func, *x.args))})"
    if is_operator(x):
        return w.expr(as_value(x, node))
    found = x if isinstance(x, Op) else counterpart(x)
    if found is not None:
        return found.op if isinstance(found, Op) else found._emit(w.b)
    name = dtype_name(x)
    if name:
        return name
    return _object(w, node, x)


def no_generator(w: Any, node: Any, f: Any) -> None:
    w.refuse(node, f"{f.__name__}() yields its items one by one, and is compiled only where a loop, a comprehension or list(...) goes through all of them",
             "return a list of them")


def _constant(w: Any, node: Any, x: Any) -> str:
    try:
        text = literal(x)
    except TypeError as e:
        w.refuse(node, str(e))
    return f"({text})" if isinstance(x, (int, float)) and text.startswith("-") else text


def _object(w: Any, node: Any, x: Any) -> str:
    own = registered(x)
    if own is not None:
        w.b.classes.append(own[0])
        w.b.keep.append(own)
        return w.record([(n, static_text(w, node, p)) for n, p in zip(field_names(own[0]) or (), own[1])])
    names = field_names(type(x))
    if names is not None:
        w.b.classes.append(type(x))
        return w.record([(n, static_text(w, node, getattr(x, n))) for n in names])
    if hasattr(x, "__dlpack__") or hasattr(x, "__array__") or type(x).__name__ == "array":
        return w.b.array(x)
    if isinstance(x, types.MethodType) and isinstance(x.__func__, types.FunctionType):
        from .source import emit_function
        params = list(inspect.signature(x).parameters)
        inner = emit_function(w.b, x.__func__, {next(iter(inspect.signature(x.__func__, follow_wrapped=False).parameters)): x.__self__})
        return f"fn ({', '.join(params)}) {{ {inner}({', '.join(params)}) }}"
    if callable(x):
        return _no_counterpart(w, node, x)
    if type(x).__name__ == "Said":
        w.refuse(node, "a formatted text is no value of a compiled function: it can be printed, or be the message of an error",
                 "return the values, and make the text outside")
    return w.refuse(node, f"a {type(x).__name__} cannot be used in a compiled function")


# ---- calls ----

def emit_call(w: Any, c: Call) -> str:
    if c.known and numbers.is_numpys(w, c.f) and c.args:
        c.args = [numbers.with_typed_items(w, c.args[0]), *c.args[1:]]
    return numbers.result(w, c, _emit_call(w, c))


def _emit_call(w: Any, c: Call) -> str:
    if (None in c.kw or any(isinstance(a, ast.Starred) for a in c.args)) and c.f is not print:
        dims = isinstance(c.node.func, ast.Attribute) and c.node.func.attr == "reshape" and not c.known and not c.kw
        if dims:  # a tuple takes parts of x.shape, however many
            c.args = [ast.copy_location(ast.Tuple(list(c.args), ast.Load()), c.node)]
        else:
            c = _spread(w, c)
    if not c.known:
        return _unknown(w, c)
    f = c.f
    why = refusal(f, c.args, c.kw)
    if why:
        w.refuse(c.node, why)
    if (found := w.dims_reduced(c)) is not None:
        return found
    if is_operator(f) and not c.kw and (meant := written(f, c.args, c.node)) is not None:
        return w.expr(meant)
    handler = getattr(f, "_emit_call", None)
    if handler:
        return handler(w, c)
    if getattr(f, "__name__", "") == "_replace" and hasattr(getattr(f, "__self__", None), "_fields") and isinstance(c.node.func, ast.Attribute):
        return replaced(w, c.node.func.value, w.like_object(c.node.func.value), c.kw)
    try:
        special = BUILTINS.get(f)
    except TypeError:  # not hashable
        special = None
    if special is None and module_of(f).split(".")[0] in ("numpy", "jax"):
        special = BY_NAME.get(getattr(f, "__name__", ""))
    if special:
        return special(w, c)
    if isinstance(f, type):
        return BUILTINS[type](w, c)
    found = f if isinstance(f, Op) else counterpart(f)
    if isinstance(found, types.FunctionType):
        return _call_function(w, _with_function(c, found), found)
    if found is not None and not hasattr(found, "_emit_call") and not isinstance(found, Op):  # of what is known
        return static_text(w, c.node, w.static(c.node)[1])
    if f in (math.log, cmath.log) and len(c.args) == 2:
        return w.expr(numbers.log_of_base(c))
    if found is not None and numbers.takes_numbers(c):
        return numbers.of_numbers(w, c, found, _emit_call)
    if found is not None:
        renamed = ARGUMENTS.get(module_of(f).split(".")[0], {})
        c.kw = {renamed.get(k, k): v for k, v in c.kw.items()}
        return emit_op(w, c, found, list(c.args), dict(c.kw)) if isinstance(found, Op) else found._emit_call(w, c)
    name = dtype_name(f)
    if name:
        return f"{name}({w.expr(c.args[0])})"
    of_ufunc = applied_by(f)
    if of_ufunc is not None:
        return _applied_by(w, c, *of_ufunc)
    known, x = w.static(c.node)
    if known:
        return static_text(w, c.node, x)
    if isinstance(f, functools.partial):
        inner = _with_args(c, [*(ast.copy_location(ast.Constant(a), c.node) for a in f.args), *c.args],
                           {k: ast.copy_location(ast.Constant(v), c.node) for k, v in f.keywords.items()} | c.kw)
        return emit_call(w, _with_function(inner, f.func))
    if type(f).__name__ == "vectorize" and module_of(type(f)).split(".")[0] == "numpy":
        return _call_function(w, c, _vectorized(w, c, f))
    if is_foreign(f):
        return _no_counterpart(w, c.node, f)
    if inspect.isgeneratorfunction(f):
        no_generator(w, c.node, f)
    return _call_function(w, c, f)


REDUCED = {"add": ("sum", "cumsum"), "mul": ("prod", "cumprod"), "maximum": ("max", None), "minimum": ("min", None),
           "logical_and": ("all", None), "logical_or": ("any", None)}


def applied_by(f: Any) -> tuple[Any, str] | None:
    """Of np.add.outer and the like: the function that is applied, and how."""
    owner, how = getattr(f, "__self__", None), getattr(f, "__name__", "")
    found = counterpart(owner) if type(owner).__name__ == "ufunc" else None
    return (found, how) if found is not None and how in ("outer", "reduce", "reduceat", "accumulate") else None


def library_word(w: Any, call: ast.Call) -> str | None:
    """The name of a function of NumPy or its like that a call is of."""
    known, f = w.static(call.func)
    return getattr(f, "__name__", None) if known and (isinstance(f, Op) or counterpart(f) is not None or hasattr(f, "_constant")) else None


def _applied_by(w: Any, c: Call, f: Any, how: str) -> str:
    if how == "outer" and len(c.args) == 2 and not c.kw:
        from .._library.composed import HELPERS
        return HELPERS["each_with_each"]._emit_call(w, _with_args(c, [*c.args, ast.copy_location(ast.Constant(f), c.node)], {}))
    if how == "reduceat" and f.__name__ in REDUCED and 2 <= len(c.args) <= 3 and c.kw.keys() <= {"axis"}:
        from .._library.composed import HELPERS
        axis = {"axis": c.args[2]} if len(c.args) == 3 else c.kw
        return HELPERS["reduced_from"]._emit_call(w, _with_args(c, c.args[:2], {"how": ast.copy_location(ast.Constant(f.__name__), c.node)} | axis))
    name = REDUCED.get(f.__name__, (None, None))[how == "accumulate"]
    if how in ("outer", "reduceat") or name is None or not c.args or len(c.args) > 2 or c.kw.keys() - {"axis", "keepdims"}:
        w.refuse(c.node, f"{f.__name__}.{how} cannot be called like this in a compiled function", "write a loop, or a reduction such as np.sum")
    axis = c.args[1] if len(c.args) == 2 else c.kw.get("axis", ast.copy_location(ast.Constant(0), c.node))
    inner = _with_args(c, c.args[:1], c.kw | {"axis": axis})
    inner.f = OPS.get(name) or COMPOSED[name]
    return emit_call(w, inner)


def _vectorized(w: Any, c: Call, f: Any) -> Any:
    """What numpy.vectorize has made, as a function of ours."""
    from .._library.vectorized import vectorize
    try:
        made = vectorize(f.pyfunc, signature=f.signature, excluded=f.excluded, otypes=f.otypes)
    except (TypeError, ValueError) as e:
        w.refuse(c.node, str(e))
    w.b.keep.append(made)
    return made


def _with_args(c: Call, args: list, kw: dict) -> Call:
    inner = Call(c.node, c.f, True)
    inner.args, inner.kw = args, kw
    return inner


def _with_function(c: Call, f: Any) -> Call:
    inner = _with_args(c, c.args, c.kw)
    inner.f = f
    return inner


def _call_function(w: Any, c: Call, f: Any) -> str:
    if hasattr(f, "_emit_applied"):
        return f._emit_applied(w, c)
    inner = getattr(f, "__wrapped__", None) if hasattr(f, "_emit") else f
    owner = getattr(f, "__self__", None)
    if isinstance(f, types.MethodType) and (isinstance(f.__func__, types.FunctionType) or hasattr(f.__func__, "_emit")):
        c.args = [ast.copy_location(ast.Constant(owner), c.node), *c.args]
        return _call_function(w, c, f.__func__)
    method = inspect.getattr_static(type(f), "__call__", None)
    if not isinstance(inner, types.FunctionType) and isinstance(method, types.FunctionType) and not hasattr(f, "_emit"):
        c.args = [ast.copy_location(ast.Constant(f), c.node), *c.args]
        return call_source(w, c, method, method)
    if isinstance(inner, types.FunctionType) and f is not tree_map:
        return call_source(w, c, f, inner)
    text = static_text(w, c.node.func, f)
    return f"{text}{w.mark(c.node)}({positional(w, c)})"


def is_foreign(f: Any) -> bool:
    """A function of a library whose source is not for compiling."""
    return module_of(f).split(".")[0] in (ROOTS | {"jaxlib", "cmath", "functools", "itertools", "operator", "_operator"})


def _no_counterpart(w: Any, node: Any, f: Any) -> str:
    owner = getattr(f, "__self__", None)
    of = getattr(f, "__module__", None) or getattr(type(owner), "__module__", None) or ""
    name = f"{of}.{getattr(f, '__qualname__', f)}".lstrip(".")
    hint = "use operations of anfora.numpy, or functions written in Python"
    if "random" in name.lower():
        hint = "use anfora.random with a key: random numbers of a compiled function come from its arguments"
    elif of == "time":
        hint = "take the time outside, and give it as an argument"
    elif f is collections.deque:
        hint = "a queue is an array and two numbers: queue[last] = x; last += 1; then x = queue[first]; first += 1"
    elif name == "numpy.vectorize":
        hint = "make it outside of the compiled function, or write vmap(f)(x)"
    return w.refuse(node, f"{name} cannot be called in a compiled function", hint)


def _spread(w: Any, c: Call) -> Call:
    """A call whose *xs and **kw are written out."""
    args: list = []
    kw = {k: v for k, v in c.kw.items() if k is not None}
    for a in c.args:
        if not isinstance(a, ast.Starred):
            args.append(a)
            continue
        n = w.known_length(a.value)
        if not n[0]:
            w.refuse(a, "it is not known how many arguments * gives", "write the arguments out, or pass one tuple")
        args += [_part(a.value, i) for i in range(n[1])]
    for d in [k.value for k in c.node.keywords if k.arg is None]:
        known, x = w.static(d)
        s = w.like(d)
        names: Any = list(x) if known and isinstance(x, dict) else s.names if s is not None and s.kind == "dict" else None
        if names is None:
            w.refuse(d, "it is not known what arguments ** gives", "write the arguments out, or pass one dictionary")
        kw.update({k: _part(d, k) for k in names})
    out = Call(c.node, c.f, c.known)
    out.args, out.kw = args, kw
    return out


def _part(node: Any, key: Any) -> Any:
    return ast.fix_missing_locations(ast.copy_location(ast.Subscript(node, ast.Constant(key), ast.Load()), node))


def positional(w: Any, c: Call) -> str:
    parts = [w.expr(a) for a in c.args] + [f"{k} = {w.expr(v)}" for k, v in c.kw.items()]
    return ", ".join(parts)


def argument_nodes(w: Any, c: Call, inner: types.FunctionType) -> dict[str, Any]:
    """The arguments of a call by the names of the parameters, in order; a default that is not given is None."""
    signature = inspect.signature(inner, follow_wrapped=False)
    try:
        given = signature.bind(*c.args, **c.kw).arguments
    except TypeError as e:
        n, at = len(c.args) + len(c.kw), f"line {inner.__code__.co_firstlineno} of {os.path.basename(inner.__code__.co_filename)}"
        w.refuse(c.node, f"{inner.__name__}{signature}: {e}", f"{w.fn.__name__}() calls it with {n} argument{'s' * (n != 1)}, and it is defined in {at}")
    nodes = {}
    for name, p in signature.parameters.items():
        node = given.get(name)
        if p.kind is p.VAR_POSITIONAL:
            node = ast.Tuple(list(node or ()), ast.Load())
        elif p.kind is p.VAR_KEYWORD:
            node = ast.Dict([ast.Constant(k) for k in node or {}], list((node or {}).values()))
        elif node is None:
            node = ast.Constant(p.default)
        nodes[name] = ast.fix_missing_locations(ast.copy_location(node, c.node)) if not hasattr(node, "lineno") else node
    return nodes


def is_put_in(x: Any) -> bool:
    """What is known and no value of a program: there is a copy of a function that is called with it."""
    if isinstance(x, (tuple, list)):
        return any(map(is_put_in, x))
    if isinstance(x, dict):
        return any(map(is_put_in, x.values()))
    function = isinstance(x, (types.FunctionType, types.BuiltinFunctionType, types.MethodType, functools.partial)) or \
        hasattr(x, "_emit") or operation(x) is not None or dtype_name(x) is not None
    plain = isinstance(x, (bool, int, float, complex)) or function or hasattr(x, "__array__") or hasattr(x, "__dlpack__")
    return x is None or isinstance(x, (str, type, types.ModuleType)) or \
        not (plain or field_names(type(x)) is not None)


def known_of_arguments(w: Any, nodes: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of the arguments of a call: those that are put in, and the structures of others. There is a copy of the function for them."""
    statics, shapes = {}, {}
    for name, node in nodes.items():
        known, x = w.static(node)
        if known and (is_put_in(x) or w.b.counts and type(x) in (int, bool) or _is_settings(x)):
            statics[name] = x
            continue
        s = _like_constant(x) if known else w.like(node)
        if s is not None and s.kind not in ("leaf", "any") and s.size() <= MOST_STRUCTURE:
            shapes[name] = s
    return statics, shapes


def call_source(w: Any, c: Call, f: Any, inner: types.FunctionType, given: tuple[str, ...] = ()) -> str:
    """A call of a Python function. Arguments that are None, texts and such are put in: there is a copy for them."""
    from .effects import effect
    nodes, added = argument_nodes(w, c, inner), effect(f).added
    statics, shapes = known_of_arguments(w, nodes)
    parts = [w.unchanged(c.node, added, name, node) for name, node in nodes.items() if name not in statics]
    various = f is inner and inner.__code__.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    if given or (statics or shapes or various or inspect.isgeneratorfunction(f)) and not hasattr(f, "_emit_with"):
        from .source import emit_function
        text = emit_function(w.b, inner, statics, shapes, given)
    else:
        whole = hasattr(f, "_emit_with") and getattr(f, "_nparam", 0) < 0
        text = f._emit_with(w.b, statics, shapes) if statics or shapes or whole else static_text(w, c.node.func, f)
    return f"{text}{w.mark(c.node)}({', '.join(parts)})"


def _is_settings(x: Any) -> bool:
    """Whether an object with fields has no arrays: numbers and texts that say what is computed, and functions."""
    return field_names(type(x)) is not None and not isinstance(x, tuple) and not any(hasattr(leaf, "shape") for leaf in tree_leaves(x))


def _like_constant(x: Any) -> Any:
    """The structure of a constant that has parts; None: it has none, or none that programs have."""
    if not isinstance(x, (tuple, list, dict)) and field_names(type(x)) is None:
        return None
    try:
        return shape_of(x)
    except TypeError:
        return None


def _unknown(w: Any, c: Call) -> str:
    node = c.node.func
    s = w.like(node)
    method = inspect.getattr_static(s.of, "__call__", None) if s is not None and s.kind == "object" else None
    if isinstance(method, types.FunctionType):
        c.args = [node, *c.args]
        return call_source(w, c, method, method)
    if isinstance(node, ast.Name):
        owner = w.scope.owner(node.id)
        if owner and node.id in owner.defs:
            name = w.written_for(node, c.args, c.kw)
            given = bind_nested(w, c, owner.defs[node.id], owner.defaults.get(node.id, {}), node.id)
            return f"{name or w.looked_at(node)}{w.mark(c.node)}({given})"
    if isinstance(node, ast.Call):
        known, transform = w.static(node.func)
        if known and hasattr(transform, "_emit_twice"):
            return transform._emit_twice(w, c, Call(node, transform, True))
    if isinstance(node, ast.Attribute):
        return _method(w, c, node)
    if isinstance(node, ast.Lambda) and (node.args.vararg or node.args.kwarg):
        return w.called_lambda(node, c)
    return f"{w.expr(node)}{w.mark(c.node)}({positional(w, c)})"


def bind_nested(w: Any, c: Call, args: ast.arguments, defaults: dict[str, str], name: str) -> str:
    """The values in place of the parameters of a function within, in their order."""
    named = [*args.posonlyargs, *args.args]
    added = w.added_within(name)
    given = {p.arg: w.unchanged(c.node, added, p.arg, a) for p, a in zip(named, c.args)}
    rest = [w.expr(a) for a in c.args[len(named):]]
    if rest and not args.vararg:
        w.refuse(c.node, f"{name}() takes {len(named)} arguments, not {len(c.args)}")
    if args.vararg:
        given[args.vararg.arg] = "(" + "".join(r + ", " for r in rest).rstrip(" ") + ")"
    known, more = {p.arg for p in (*named, *args.kwonlyargs)}, []
    for k, v in c.kw.items():
        if k in given or (k not in known and not args.kwarg):
            w.refuse(c.node, f"{name}() has no further argument {k}")
        if k in known:
            given[k] = w.unchanged(c.node, added, k, v)
        else:
            more.append((k, w.expr(v)))
    if args.kwarg:
        given[args.kwarg.arg] = w.record(more)
    parts = []
    for p in w.parameters_of(args):
        if p.arg not in given and p.arg not in defaults:
            w.refuse(c.node, f"{name}() lacks the argument {p.arg}")
        parts.append(given.get(p.arg) or defaults[p.arg])
    return ", ".join(parts)


class Outside:
    """Where constants are written that no source has: it refuses without a place."""

    def __init__(self, b: Any) -> None:
        self.b = b

    def refuse(self, _node: Any, message: str, hint: str = "") -> None:
        from .emit import fail
        fail(None, message, hint)

    def record(self, items: list) -> str:
        from .._tree import quoted
        return "{" + ", ".join(f"{quoted(n)} = {v}" for n, v in items) + "}"


def outside(b: Any, x: Any) -> str:
    """A constant as text."""
    return static_text(Outside(b), None, x)


# x.at[i].set(v) and the like: how the operation combines old and new
AT = {"set": "update", "add": "add", "subtract": "add", "multiply": "mul", "mul": "mul", "min": "min", "max": "max"}
CHANGED = ("divide", "power", "apply")


def _at(w: Any, c: Call, node: ast.Attribute) -> str | None:
    """x.at[i].set(v): the array with other elements there."""
    sub = node.value
    if not (isinstance(sub, ast.Subscript) and isinstance(sub.value, ast.Attribute) and sub.value.attr == "at"):
        return None
    for said in ("indices_are_sorted", "unique_indices"):  # which change nothing
        c.kw.pop(said, None)
    if node.attr == "get" and not c.args and c.kw.keys() & {"mode", "fill_value"}:
        return _got_with_mode(w, c, sub)
    if node.attr == "get" and not c.args and not c.kw:
        return w.expr(ast.copy_location(ast.Subscript(sub.value.value, sub.slice, ast.Load()), c.node))
    if node.attr in AT and "mode" in c.kw and len(c.args) == 1 and len(c.kw) == 1:
        if node.attr == "subtract":
            c.args[0] = ast.copy_location(ast.UnaryOp(ast.USub(), c.args[0]), c.args[0])
        return _with_mode(w, c, sub, AT[node.attr])
    if node.attr not in AT and node.attr not in CHANGED or len(c.args) != 1 or c.kw:
        w.refuse(c.node, f"x.at[i] has no {node.attr} in compiled functions",
                 f"it has get, {', '.join([*AT, *CHANGED])}, with one argument")
    if node.attr == "divide":  # floats, whatever x has
        x = w.expr(sub.value.value)
        return f"({x} / {written_at(w, c.node, sub, w.expr(c.args[0]), 'mul', f'OnesLike({x} / 1)')})"
    if node.attr == "power":  # to the product of the powers, where an index is there several times
        x = w.expr(sub.value.value)
        return f"({x} ** {written_at(w, c.node, sub, w.expr(c.args[0]), 'mul', f'OnesLike({x})')})"
    if node.attr == "apply":  # the elements there, changed and set
        old = ast.copy_location(ast.Subscript(sub.value.value, sub.slice, ast.Load()), c.node)
        return written_at(w, c.node, sub, w.expr(ast.copy_location(ast.Call(c.args[0], [old], []), c.node)), "update", masks=False)
    value = w.expr(c.args[0])
    return written_at(w, c.node, sub, f"Neg(CastLike({value}, {w.expr(sub.value.value)}))" if node.attr == "subtract" else value, AT[node.attr])


def _cut(w: Any, e: ast.Slice, axis: int) -> str | None:
    """The attributes of a slice whose bounds are known; None: they are not."""
    ends = [w.static(b) if b else (True, d) for b, d in ((e.lower, None), (e.upper, None), (e.step, 1))]
    if not all(known for known, _ in ends):
        return None
    start, stop, step = (literal(v) for _, v in ends)
    return f"start={start}, stop={stop}, step={step}, axis={axis}"


# what an element becomes of the old one and what is given
COMBINED = {"update": "{new}", "add": "({old} + {new})", "mul": "({old} * {new})", "min": "Minimum({old}, {new})",
            "max": "Maximum({old}, {new})"}


def _written_slices(w: Any, place: Any, x: str, cuts: list, fitted: Any, mode: str) -> str:
    """A slice along each of the first axes: each is written into the part that those before it cut."""
    inside = [x]
    for cut in cuts:
        inside.append(f"Slice({inside[-1]}, {cut})")
    new = COMBINED[mode].format(old=inside[-1], new=fitted(inside[-1]))
    for part, cut in zip(reversed(inside[:-1]), reversed(cuts)):
        new = f"SliceUpdate{w.mark(place)}({part}, {new}, {cut})"
    return new


def written_at(w: Any, place: Any, sub: Any, value: str, mode: str, base: str | None = None, masks: bool = True) -> str:
    """Elements of an array written: a slice that is known, rows by index, elements where a mask is true, or else each element
    by its number."""
    x, index = base or w.expr(sub.value.value), w.places_in_tuple(sub).slice
    from .source import written_index
    if isinstance(index, ast.Tuple):
        given = [w.static(e) if not isinstance(e, ast.Slice) else (False, None) for e in index.elts]
        index = ast.copy_location(ast.Tuple([written_index(e, k) if known and isinstance(k, slice) else e for e, (known, k) in zip(index.elts, given)], ast.Load()), index)
    elif not isinstance(index, (ast.List, ast.Slice)):
        known, several = w.static(index)
        index = written_index(index, several) if known and isinstance(several, (tuple, slice)) else index

    def fitted(old: str) -> str:
        return f"BroadcastLike(CastLike({value}, {x}), {old})"
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    cuts = [_cut(w, e, axis) for axis, e in enumerate(parts) if isinstance(e, ast.Slice)]
    if len(cuts) == len(parts) and all(cuts):
        return _written_slices(w, place, x, cuts, fitted, mode)
    if any(isinstance(e, ast.Slice) or isinstance(e, ast.Constant) and e.value in (None, Ellipsis) for e in parts):
        which = w.index(index)
        number = f"Reshape(Arange(stop={x}.size), {x}.shape){w.mark(index)}[{which}]"
        return f"IndexWrite{w.mark(place)}({x}, {number}, {fitted(f'{x}[{which}]')}, mode=\"{mode}\")"
    if isinstance(index, ast.Tuple):
        at = _together([(w.expr(e), w.mark(e)) for e in index.elts])
        return f"ScatterNd{w.mark(place)}({x}, {at}, {fitted(f'GatherNd({x}, {at})')}, mode=\"{mode}\")"
    at = w.index(index) if isinstance(index, ast.List) else w.expr(index)
    rows = f"IndexWrite{w.mark(place)}({x}, {at}, {fitted(f'{x}[{at}]')}, axis=0, mode=\"{mode}\")"
    known = w.like(index)
    if not masks or w.static(index)[0] or (known is not None and known.kind not in ("leaf", "any")):
        return rows
    from .._library.composed import HELPERS
    from .source import emit_function
    masked = emit_function(w.b, HELPERS["at_mask"].__wrapped__, {"mode": mode}, {})
    return f"(if {at}.dtype == bool {{ {masked}{w.mark(place)}({x}, {at}, {value}) }} else {{ {rows} }})"


def _together(indices: list[tuple[str, str]]) -> str:
    """Indices of several dims, each with the mark of its place, broadcast as NumPy does, side by side. Masks are refused: of these is no difference."""
    names = [f"i{k}" for k in range(len(indices))]
    zero = " + ".join(f"Sub{mark}({n}, {n})" for n, (_, mark) in zip(names, indices))
    return f"(fn ({', '.join(names)}) {{ z = {zero}; Stack({', '.join(f'{n} + z' for n in names)}, axis=-1) }})({', '.join(i for i, _ in indices)})"


def _of_object(w: Any, c: Call, node: ast.Attribute) -> str | None:
    """A method of an object that is an argument, and _replace of named tuples."""
    s = w.like(node.value)
    if s is None or s.kind not in ("object", "dict"):
        return None
    if s.kind == "object":
        f = inspect.getattr_static(s.of, node.attr, None)
        if isinstance(f, types.FunctionType) and node.attr != "_replace":
            inner = Call(c.node, f, True)
            inner.args, inner.kw = [node.value, *c.args], c.kw
            return call_source(w, inner, f, f)
        if isinstance(f, (staticmethod, classmethod)):
            return emit_call(w, _with_function(c, getattr(s.of, node.attr)))
        if node.attr == "_asdict" and issubclass(s.of, tuple):
            return w.record([(n, w.expr(ast.copy_location(ast.Attribute(node.value, n, ast.Load()), node))) for n in s.names])
        return replaced(w, node.value, s, c.kw) if node.attr == "_replace" else None
    if node.attr == "get" and 1 <= len(c.args) <= 2 and w.static(c.args[0])[0]:
        key = w.static(c.args[0])[1]
        if key in s.names:
            return w.expr(_part(node.value, key))
        return w.expr(c.args[1]) if len(c.args) > 1 else "None"
    return None


def replaced(w: Any, node: Any, s: Any, kw: dict) -> str:
    """An object with other fields."""
    unknown = [k for k in kw if k not in s.names]
    if unknown:
        w.refuse(node, f"{s.of.__name__} has no field {unknown[0]}")
    w.b.classes.append(s.of)
    return w.record([(n, w.expr(kw[n]) if n in kw else w.expr(ast.copy_location(ast.Attribute(node, n, ast.Load()), node)))
                     for n in s.names])


# Methods that change an array or a list, and what to write instead
CHANGES = {
    "fill": "write x = anp.full_like(x, value)", "sort": "write x = anp.sort(x)", "resize": "write x = anp.reshape(x, shape)",
    "put": "write x = x.at[i].set(value)", "itemset": "write x = x.at[i].set(value)", "partition": "write x = anp.sort(x)",
    "reverse": "write xs = xs[::-1]", "insert": "write xs = xs[:i] + [x] + xs[i:]", "remove": "write a comprehension",
    "clear": "write xs = []", "popitem": "make a new dictionary", "setflags": "leave it out", "byteswap": "leave it out",
    "setfield": "write x = x.at[i].set(value)",
}


# Methods of PyTorch's tensors and NumPy's arrays that arrays have not here, and what to write instead
ELSEWHERE = {
    "numpy": "leave it out: what a compiled function gives is an array for NumPy too", "detach": "write anfora.stop_gradient(x)",
    "view": "write x.reshape(shape)", "unsqueeze": "write anp.expand_dims(x, axis)", "permute": "write x.transpose(axes)",
    "expand": "write anp.broadcast_to(x, shape)", "contiguous": "leave it out", "cpu": "leave it out", "cuda": "leave it out",
    "to": "write x.astype(dtype)", "type": "write x.astype(dtype)", "float": "write x.astype(anp.float32)", "long": "write x.astype(anp.int64)",
    "double": "write x.astype(anp.float64)", "half": "write x.astype(anp.float16)", "int": "write x.astype(anp.int32)",
    "backward": "write anfora.grad(loss)(params)", "requires_grad_": "leave it out: grad says what is differentiated", "clone": "leave it out",
    "dim": "write x.ndim", "size": "write x.shape", "numel": "write x.size", "tolist": "return the array, and write x.tolist() outside",
    "add_": "write x = x + y", "sub_": "write x = x - y", "mul_": "write x = x * y", "zero_": "write x = anp.zeros_like(x)",
    "masked_fill": "write anp.where(mask, value, x)", "gather": "write anp.take_along_axis(x, i, axis)", "t": "write x.T",
}


def _got_with_mode(w: Any, c: Call, sub: ast.Subscript) -> str:
    """x.at[i].get(mode=..., fill_value=...): what stands for an index outside."""
    from .._library.composed import HELPERS
    known, mode = w.static(c.kw["mode"]) if "mode" in c.kw else (True, "fill")
    x, index = sub.value.value, sub.slice
    if not known or mode not in (None, "promise_in_bounds", "clip", "wrap", "drop", "fill") or c.kw.keys() - {"mode", "fill_value"}:
        w.refuse(c.node, "get takes mode, one of \"promise_in_bounds\", \"clip\", \"wrap\" and \"fill\", and fill_value")
    if isinstance(index, (ast.Tuple, ast.Slice)):
        w.refuse(c.node, "mode is for one array of indices", "clip each index before")

    def called(name: str, *args: Any) -> ast.Call:
        return ast.fix_missing_locations(ast.copy_location(ast.Call(ast.Constant(HELPERS[name]), list(args), []), c.node))
    if mode in ("fill", "drop"):
        return w.expr(called("filled", x, index, c.kw.get("fill_value", ast.copy_location(ast.Constant(None), c.node))))
    inside = index if mode in (None, "promise_in_bounds") else called({"clip": "index_clipped", "wrap": "index_wrapped"}[mode], index, x)
    return w.expr(ast.copy_location(ast.Subscript(x, inside, ast.Load()), c.node))


def _with_mode(w: Any, c: Call, sub: ast.Subscript, how: str) -> str:
    """x.at[i].set(v, mode=...): what becomes of an index outside, as in JAX."""
    from .._library.composed import HELPERS
    known, mode = w.static(c.kw.pop("mode"))
    x, index = sub.value.value, sub.slice

    def called(name: str, *args: Any) -> ast.Call:
        return ast.fix_missing_locations(ast.copy_location(ast.Call(ast.Constant(HELPERS[name]), list(args), []), c.node))
    if not known or mode not in (None, "promise_in_bounds", "clip", "wrap", "drop", "fill"):
        w.refuse(c.node, "mode is one of \"promise_in_bounds\", \"clip\", \"wrap\", \"drop\" and \"fill\"")
    if mode in (None, "promise_in_bounds"):
        return written_at(w, c.node, sub, w.expr(c.args[0]), how)
    if isinstance(index, (ast.Tuple, ast.Slice)):
        w.refuse(c.node, "mode is for one array of indices", "clip each index before")
    inside = {"clip": "index_clipped", "wrap": "index_wrapped"}.get(mode, "index_or_length")
    other = ast.copy_location(ast.Subscript(sub.value, called(inside, index, x), ast.Load()), sub)
    if mode in ("clip", "wrap"):
        return written_at(w, c.node, other, w.expr(c.args[0]), how, masks=False)
    longer = w.expr(called("one_row_longer", x))  # where indices that are outside write
    return f"{written_at(w, c.node, other, w.expr(c.args[0]), how, longer, masks=False)}[:-1]"


def _of_type(w: Any, c: Call, dtype: Any, value: Any) -> str:
    """x.dtype.type(value). A whole number that the type cannot hold is an error, as it is where it meets an array."""
    known, x = w.static(value)
    if known and type(x) is int:
        zero = ast.Call(ast.Constant(OPS["cast"]), [ast.Constant(0), dtype], [])
        value = ast.fix_missing_locations(ast.copy_location(ast.BinOp(zero, ast.Add(), value), c.node))  # of truth values an integer
    return emit_op(w, c, OPS["cast"], [value, dtype], {})


def _method(w: Any, c: Call, node: ast.Attribute) -> str:
    name = node.attr
    special = _at(w, c, node) or _of_object(w, c, node)
    if special is not None:
        return special
    if name in METHODS and not (name == "sort" and w.unused is c.node):
        if name not in COMPOSED:
            return emit_op(w, c, OPS[name], [node.value, *c.args], dict(c.kw))
        c.args = [node.value, *c.args]
        return COMPOSED[name]._emit_call(w, c)
    if name in ("reshape", "transpose"):
        many = len(c.args) > 1
        shape = [ast.copy_location(ast.Tuple(elts=c.args, ctx=ast.Load()), c.node)] if many else c.args
        return emit_op(w, c, OPS[name], [node.value, *shape], dict(c.kw))
    if name == "type" and isinstance(node.value, ast.Attribute) and node.value.attr == "dtype" and len(c.args) == 1 and not c.kw:
        return _of_type(w, c, node.value, c.args[0])
    if name == "astype":
        return emit_op(w, c, OPS["cast"], [node.value, *c.args], dict(c.kw))
    if name in ("copy", "block_until_ready") and not c.args:
        return w.expr(node.value)
    if name == "item" and not c.args:
        from .._library.composed import HELPERS
        return HELPERS["item"]._emit_call(w, w.applied(c.node, [node.value], {}))
    if name == "view" and len(c.args) == 1 and not c.kw and dtype_name(w.static(c.args[0])[1]):
        return emit_op(w, c, OPS["bitcast"], [node.value, *c.args], {})
    if name == "nonzero":
        from .._library.counted import COUNTED
        return COUNTED["nonzero"]._emit_call(w, w.applied(c.node, [node.value, *c.args], c.kw))
    if name in ELSEWHERE and (w.like(node.value) is None or w.like(node.value).kind in ("leaf", "any")):
        w.refuse(c.node, f"arrays have no method {name} here", ELSEWHERE[name])
    if name in CHANGES:
        w.refuse(c.node, f"values do not change in place, as {name} does", CHANGES[name])
    if name == "append":
        w.refuse(c.node, "append stands alone, and for lists that the function has made", "write xs = xs + [x], or fill an array")
    if name in ("_replace", "_asdict"):
        w.refuse(c.node, "it is not known what fields this has", "make the object anew")
    if name == "pop" and (not c.args or len(c.args) == 1 and type(w.static(c.args[0])[1]) is int) and not c.kw:
        w.refuse(c.node, "pop of a list that is not known to have a certain length here, as in a loop that data end",
                 "a stack or queue is an array and a number: stack = np.zeros(n), top = 0; stack[top] = x; top += 1; then top -= 1; x = stack[top]")
    if name in ("get", "items", "keys", "values", "update", "pop", "setdefault"):
        w.refuse(c.node, f"it is not known what keys this has, for {name}",
                 "use hyper_map over the leaves, or write the keys out")
    # a field that holds a function
    return f"{w.expr(node)}{w.mark(c.node)}({positional(w, c)})"


def rows_of(w: Any, node: Any) -> str | None:
    """The array of the rows of a list that a loop has filled; None: it is another list, or not known what of."""
    from .known import Filled
    s = w.like(node)
    if isinstance(s, Filled):
        return _rows(s.of, s.rows)
    return w.expr(node) if s is not None and s.kind == "stacked" else None


def _rows(item: Any, rows: str) -> str | None:
    """Tuples and lists of numbers are rows of one axis more."""
    if item.kind not in ("tuple", "list", "hinted"):
        return None if item.kind in ("dict", "object", "mapped", "none") or item.kind == "static" and type(item.of) not in (int, float) else rows
    if item.kind == "hinted":
        if item.of[0] not in ("tuple", "list") or not item.of[1] or any(item.of[1]) or len(item.of[1]) > MOST_STRUCTURE:
            return None
        parts: list[str | None] = [f"{rows}[{i}]" for i in range(len(item.of[1]))]
    else:
        parts = [_rows(p, f"{rows}[{i}]") for i, p in enumerate(item.parts)]
    return None if None in parts or not parts else f"Stack({', '.join(parts)}, axis=1)"


def rows_as_one(w: Any, c: Call, op: Op, rows: Any, axis: Any) -> str:
    """stack and concatenate of one argument: the rows of an array, which a list that a loop has filled is too, or the items of a tuple
    whose length is known when the types of arguments are."""
    from .._library.composed import HELPERS
    from .source import emit_function
    known, k = w.static(axis)
    if not known or not (isinstance(k, int) or k is None and op.op == "Concat"):
        w.refuse(c.node, f"the axis of {op.__name__}() must be a constant")
    helper = HELPERS["rows_stacked" if op.op == "Stack" else "rows_joined"].__wrapped__
    array = emit_function(w.b, helper, {"axis": k}, {})
    text = rows_of(w, rows)
    if text is not None:
        return f"{array}{w.mark(c.node)}({text})"
    row = f"ExpandDims(%s, axis={k})" if op.op == "Stack" else "Flatten(%s)" if k is None else "%s"
    t, total, item = (w.fresh() for _ in range(3))
    items = (f"fn ({t}: tuple) {{ {total} = {row % f'{t}[0]'}; for {item} in {t}[1:] {{ "
             f"{total} = Concat({total}, {row % item}, axis={k or 0}) }}; {total} }}")
    return f"multitype({items}, fn ({t}) {{ {array}({t}) }}){w.mark(c.node)}({w.expr(rows)})"


def hyper_mapped(f: str, trees: list[str]) -> str:
    """A function over the leaves of trees; None stays None."""
    names = [f"a{i}__" for i in range(len(trees))]
    whole = ", ".join(names)
    nothing = ", ".join([f"{names[0]}: none", *names[1:]])
    return f"hyper_map(multitype(fn ({nothing}) {{ {names[0]} }}, fn ({whole}) {{ ({f})({whole}) }}), {', '.join(trees)})"


def stacked(w: Any, place: Any, node: Any, axis: Any, op: str = "Stack") -> str:
    """stack and concatenate of a tuple whose length the types of arguments tell."""
    from .builtins import folded, many_rows
    row = "ExpandDims({%s}, axis=" + str(axis) + ")" if op == "Stack" else "{%s}"
    made = folded(w, place, node, row.replace("%s}", "t}[0]"), f"Concat({{s}}, {row % 'e'}, axis={axis})", items=w.expr(node))
    return many_rows(w, node, made) if op == "Stack" and axis in (0, "0") else made


def spread_list(w: Any, node: Any) -> list[str] | None:
    """The texts of the items of a list that is given as one argument, if it is one of arrays."""
    if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
        return w.comprehended(node.generators, [node.elt])
    known, x = w.static(node)
    s = w.like(node)
    if known and not isinstance(x, (tuple, list)) or not known and (s is None or s.kind not in ("tuple", "list")):
        return None
    if isinstance(node, (ast.List, ast.Tuple)) and not any(isinstance(e, ast.Starred) for e in node.elts):
        from .builtins import listed_array
        return [listed_array(w, e) or w.expr(e) for e in node.elts]
    items = w.sequence(node)
    return None if items is None else [w.item_text(node, i) for i in items]


def emit_op(w: Any, c: Call, op: Op, args: list, kw: dict) -> str:
    """An operation with its inputs, then its attributes by name."""
    if op.op == "Linspace":
        ends = dict(zip(("start", "stop", "num", "endpoint", "dtype"), args)) | kw
        if "start" in ends and "stop" in ends and not all(w.static(ends[n])[0] for n in ("start", "stop")):
            from .._library.composed import HELPERS
            return HELPERS["linspace_between"]._emit_call(w, _with_args(c, [ends.pop("start"), ends.pop("stop")], ends))
    if op.op == "Roll" and (by := kw.get("shift", args[1] if len(args) > 1 else None)) is not None and not w.static(by)[0]:
        from .._library.composed import HELPERS
        axis = {k: v for k, v in (*zip(("axis",), args[2:]), *kw.items()) if k != "shift"}
        return HELPERS["roll_by"]._emit_call(w, _with_args(c, [args[0], by], axis))
    known, first = w.static(args[0]) if args else (False, None)
    if known and isinstance(first, str):
        args = [ast.copy_location(ast.Constant(first), args[0]), *args[1:]]
    def value(x: Any) -> Any:
        given, known_ = w.static(x) if isinstance(x, ast.AST) else (True, x)
        return known_ if given else x
    try:
        some = op.parts(args, kw, value)
        args, kw = op.numpys(args, kw, value)
    except TypeError as e:
        w.refuse(c.node, str(e))
    if some is not None:
        inner = Call(c.node, some[0], True)
        inner.args, inner.kw = some[1:]
        return some[0]._emit_call(w, inner)
    for name in op.more:
        if name != "dtype" and name in kw:
            given, x = w.static(kw[name])
            if not given:
                w.refuse(kw[name], f"{name} of {op.__name__}() must be known when the function is compiled")
            try:
                accept(op.__name__, name, x)
            except (TypeError, ValueError) as e:
                w.refuse(kw[name], str(e))
            del kw[name]
    args, kw = op.arranged(args, kw, value)
    known = {a[0]: a[1] for a in op.attributes}
    if op.op in ("Stack", "Concat") and args:
        axis = kw.get("axis", args[1] if len(args) == 2 else ast.Constant(0))
        alone = len(args) == 1 or len(args) == 2 and "axis" not in kw and isinstance(w.static(axis)[1], (int, type(None)))
        if rows_of(w, args[0]) is not None:
            return rows_as_one(w, c, op, args[0], axis)
        if w.is_mapped(args[0]):
            return stacked(w, c.node, args[0], attribute(w, axis, "int"), op.op)
        if alone and spread_list(w, args[0]) is None:
            return rows_as_one(w, c, op, args[0], axis)
    parts = None
    if op.inputs and op.inputs[-1][1] == "*":
        first = len(op.inputs) - 1
        items = spread_list(w, args[first]) if len(args) > first else None
        if items is not None:
            kw.update(zip(known, args[first + 1:]))
            parts = [*(w.expr(a) for a in args[:first]), *items]
    if parts is None and not (op.inputs and op.inputs[-1][1] == "*"):
        n = len(op.inputs)
        args, rest = args[:n], args[n:]
        if len(rest) > len(known):
            w.refuse(c.node, f"{op.__name__}() takes at most {n + len(known)} arguments")
        kw.update(zip(known, rest))
        for name, _ in op.inputs[len(args):]:
            if name in kw:
                args.append(kw.pop(name))
    if "dtype" in op.more or op.floats:
        given, x = w.static(kw["dtype"]) if "dtype" in kw else (True, None)
        if given and x is None:
            kw.pop("dtype", None)
            if op.floats:
                kw["dtype"] = ast.Constant(default_float())
    if op.op == "Full" and args and "dtype" not in kw:  # of a number of Python an array as NumPy makes it
        number = {int: "i64", float: default_float()}.get(type(w.static(args[0])[1]))
        kw |= {"dtype": ast.Constant(number)} if number else {}
    if op.op == "Arange" and "dtype" not in kw and any(type(w.static(a)[1]) is float for a in kw.values()):
        kw["dtype"] = ast.Constant(default_float())
    if "dtype" in kw and op.op == "Cast":
        return f"cast({w.expr(args[0])}, {attribute(w, kw['dtype'], 'dtype')})"
    parts = [input_text(w, op, a) for a in args] if parts is None else parts
    if op.op == "Where" and len(parts) == 3 and not (w.fn.__module__ or "").startswith("anfora."):
        parts[0] = f"cast({parts[0]}, bool)"  # what is not 0 holds
    if op.op == "Concat" and "axis" in kw and w.static(kw["axis"]) == (True, None):
        parts, kw["axis"] = [f"Flatten({p})" for p in parts], ast.Constant(0)
    folded = "{}"
    if "dtype" in kw and "dtype" not in known and op.op in REDUCTIONS:
        dtype = attribute(w, kw.pop("dtype"), "dtype")
        parts[0] = f"cast({parts[0]}, {dtype})"
        folded = f"cast({{}}, {dtype})"  # sums of small integers have 64 bits
    for k, v in kw.items():
        if k not in known:
            w.refuse(v, f"{op.__name__}() has no argument {k}", f"it takes {op.__signature__}")
        parts.append(f"{k}={attribute(w, v, known[k])}")
    return folded.format(f"{op.op}{w.mark(c.node)}({', '.join(parts)})")


def input_text(w: Any, op: Op, node: Any) -> str:
    """An input of an operation: a list is an array there, as in NumPy."""
    from .builtins import listed_array
    whole = op.op in ("Identity", "Print", "TupleConcat") or op.inputs and op.inputs[-1][1] == "*"
    return (None if whole else listed_array(w, node)) or w.expr(node)


def attribute(w: Any, node: Any, kind: str) -> str:
    if not hasattr(node, "lineno"):  # a default
        return literal(node.value, kind)
    known, x = w.static(node)
    if not known:
        return w.expr(node)
    try:
        return w.mark(node) + literal(x, kind)
    except TypeError as e:
        return w.refuse(node, str(e))
