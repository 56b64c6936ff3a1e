# SPDX-License-Identifier: Apache-2.0
"""How calls of Python's own functions and classes are written, and of NumPy's functions that are no operations."""
from __future__ import annotations

import ast
import collections
import dataclasses
import functools
import inspect
import itertools
import math
import types
from typing import Any, Callable

from .. import _core
from .iterables import is_made
from .known import Item, levels
from .comprehensions import items_of_any
from .._errors import CompileError
from .._ops import COMPOSED, OPS, accept, literal
from .holders import unmade
from .numbers import as_float, typed
from .ordered import in_halves, sorts
from .static import BUILTINS, BY_NAME, Call, _like_constant, _no_counterpart, attribute, call_source, hyper_mapped, is_foreign, operation, replaced, rows_of, stacked, static_text
from .windows import call as library_call
from .._tree import REGISTERED, _parts as parts_of_tree, field_names, registered, tree_leaves, tree_map, tree_reduce, tree_unflatten
from .._types import default_float, dtype_name


def _class(w: Any, c: Call) -> str:
    f = c.f
    if f is type:
        w.no_class(c.node)
    if f in (float, int, bool, complex) or dtype_name(f):
        if f is complex and len(c.args) == 2 and not c.kw:
            return f"MakeComplex{w.mark(c.node)}(Cast({w.scalar(c.args[0])}, dtype=float), Cast({w.scalar(c.args[1])}, dtype=float))"
        if len(c.args) != 1 or c.kw:
            given = [w.static(a) for a in c.args]
            if f is int and len(given) == 2 and all(known for known, _ in given):  # int("ff", 16)
                return static_text(w, c.node, int(*(x for _, x in given)))
            w.refuse(c.node, f"{f.__name__}() takes one argument here")
        known, x = w.static(c.args[0])
        if known and isinstance(x, str) and f in (float, int):
            try:
                return static_text(w, c.node, f(x))
            except ValueError as error:
                return w.raising(c.node, error, f"{f(0)}")
        if f is bool:
            return static_text(w, c.node, bool(x)) if known and isinstance(x, (str, tuple, list, dict, type(None))) else f"Reshape{w.mark(c.node)}({w.truth_text(c.args[0])}, ())"
        if f in (float, int, complex):
            known, x = w.static(c.node)
            if known:
                return static_text(w, c.node, x)
            return f"Cast{w.mark(c.node)}({w.scalar(c.args[0])}, dtype={f.__name__})"  # weak: x / float(s) has the type of x
        return f"{dtype_name(f)}({w.expr(c.args[0])})"
    if f in (tuple, list):
        items = w.sequence(c.args[0]) if c.args else []
        if items is not None:
            return w.item_text(c.node, Item(parts=items))
        if (ends := w.counted_by_shapes(c.args[0])) is not None:
            return w.expr(library_call(c.node, "counted", ends))
        s = w.like(c.args[0])
        if s is not None and s.kind not in ("leaf", "any") or w.is_iterator(c.args[0]) or w.gives_dims(c.args[0]):
            return w.expr(c.args[0])
        why = static_text(w, c.node, f"TypeError: it is not known what {f.__name__}() is made of here: an object or a dictionary; write its parts")
        return f"multitype(fn (t__: record) {{ {w.mark(c.node)}assert(false, {why}); () }}, fn (t__) {{ {items_of_any('t__')} }}){w.mark(c.node)}({w.expr(c.args[0])})"
    if f is dict and len(c.args) == 1 and isinstance(c.args[0], ast.Call) and w.static(c.args[0].func) == (True, zip):
        return w.record([(k, t) for k, t in named_items(w, c.args[0])] + [(k, w.expr(v)) for k, v in c.kw.items()])
    if f is dict and len(c.args) <= 1:
        first = w.spread(c.args[0]) if c.args else {}
        return w.record(list((first | {k: w.expr(v) for k, v in c.kw.items()}).items()))
    if f is str and w.static(c.node)[0]:
        return static_text(w, c.node, w.static(c.node)[1])
    if f is functools.partial and c.args:
        return _partial(w, c)
    if f.__name__ == "ndarray" and c.kw.keys() <= {"shape", "dtype", "order"} and len(c.args) <= 2:  # memory that is filled later
        c.f, c.kw = COMPOSED["empty"], {k: v for k, v in c.kw.items() if k != "order"}
        return COMPOSED["empty"]._emit_call(w, c)
    if is_made(f):
        w.refuse(c.node, f"it is not known which items {f.__name__}() gives",
                 "write lists and ranges that are known when the function is compiled, loops within loops, or np.cumsum and the like of arrays")
    if f is slice or f is range:
        w.refuse(c.node, f"{f.__name__}() stands in a for loop or a subscript only",
                 "write a:b in the subscript, and x[..., i] for an index behind any number of dims" if f is slice else "")
    if f in REGISTERED:
        kind, parts = _registered(w, c.node, f)
        w.b.classes.append(kind)
        return w.record([(n, w.expr(p.node) if isinstance(p, StandIn) else static_text(w, c.node, p))
                         for n, p in zip(field_names(kind) or (), parts)])
    names = field_names(f)
    if names is None:
        if f in (collections.defaultdict, collections.Counter):
            w.refuse(c.node, f"a {f.__name__} that is used for more than its items, whose keys are known when the function is compiled, cannot be compiled",
                     "use it by d[k], d[k] += x, d[k].append(x), k in d, len(d), or make a dictionary with its keys")
        if is_foreign(f) or f is collections.deque:
            return _no_counterpart(w, c.node, f)
        if f in (set, frozenset):
            w.refuse(c.node, "a set that is not known when the function is compiled cannot be compiled",
                     "write x in xs for x in set(xs), np.unique(x) of an array for sorted(set(x)), or a loop over the items")
        how = unmade(f)
        if isinstance(how, str):
            return w.refuse(c.node, f"objects of class {f.__name__} cannot be made in a compiled function: {how}",
                            "make it a dataclass or a named tuple")
        c.args = [ast.copy_location(ast.Constant(how), c.node), *c.args]
        return call_source(w, c, how.init, how.init)
    w.b.classes.append(f)
    return w.record([(n, static_text(w, c.node, x.value) if isinstance(x, ast.Constant) else w.expr(x)) for n, x in fields_given(w, c.node, f).items()])


def fields_given(w: Any, node: ast.Call, f: type) -> dict[str, Any]:
    """The fields of the object of a dataclass or named tuple that a call makes, as expressions."""
    names = field_names(f) or ()
    own = getattr(f, "__post_init__", None) or (f.__init__ if not _is_made(f.__init__) else None)
    if own or f.__new__ is not object.__new__ and not _is_made(f.__new__):
        w.refuse(node, f"{f.__name__} has a {'__post_init__' if hasattr(f, '__post_init__') else '__init__ or __new__'} of its own, which compiled functions do not run",
                 "compute the fields before, and give all of them")
    try:
        given = inspect.signature(f).bind(*node.args, **{str(k.arg): k.value for k in node.keywords}).arguments
    except TypeError as e:
        w.refuse(node, f"TypeError: {f.__name__}(): {e}")
    defaults = {x.name: x.default if x.default_factory is dataclasses.MISSING else x.default_factory() for x in dataclasses.fields(f)} \
        if dataclasses.is_dataclass(f) else f._field_defaults  # type: ignore[attr-defined]
    found = {}
    for n in names:
        found[n] = given[n] if n in given else ast.copy_location(ast.Constant(defaults[n]), node)
        if found[n] is dataclasses.MISSING:
            w.refuse(node, f"{f.__name__} has a field {n} without a value")
    return found


def _is_made(method: Any) -> bool:
    """A method that dataclass or namedtuple has made, or that of object."""
    code = getattr(method, "__code__", None)
    return code is None or code.co_filename.startswith("<")


def named_items(w: Any, node: ast.Call) -> list[tuple[Any, str]]:
    """The keys and the texts of dict(zip(keys, values)); the values may be the rows of an array."""
    keys = w.sequence(node.args[0]) if len(node.args) == 2 else None
    names = [k.entry.value for k in keys or [] if hasattr(k.entry, "value")]
    if keys is None or len(names) < len(keys):
        w.refuse(node, "it is not known what keys the dictionary has", "write the dictionary out")
    values = w.sequence(node.args[1])
    if values is not None:
        return [(n, w.item_text(node, v)) for n, v in dict(zip(names, values)).items()]
    return [(n, f"({w.expr(node.args[1])}){w.mark(node)}[{i}]") for i, n in enumerate(names)]


def _partial(w: Any, c: Call) -> str:
    """partial(f, x, k=y): a lambda of the parameters that are left, if it is known which these are."""
    node, given = c.args[0], c.args[1:]
    known, f = w.static(node)
    if known and c.kw and operation(f) is not None:  # whose inputs have names of their own
        return _lambda_of(w, c, [f"a{i}_{w.fresh()}" for i in range(max(0, _inputs(f) - len(given)))])
    free = left_parameters(w, node, f if known else None)
    if free is None or len(given) > len(free):
        if c.kw or known and hasattr(f, "_emit_call"):
            rest = f"rest_{w.fresh()}"
            inner = ast.Call(node, [*given, ast.Starred(ast.Name(rest, ast.Load()), ast.Load())], [ast.keyword(k, v) for k, v in c.kw.items()])
            args = ast.arguments(posonlyargs=[], args=[], vararg=ast.arg(rest), kwonlyargs=[], kw_defaults=[], defaults=[])
            return w.expr(ast.fix_missing_locations(ast.copy_location(ast.Lambda(args, inner), c.node)))
        return f"partial{w.mark(c.node)}({w.exprs(c.args)})"
    names = [n for n in free[len(given):] if n not in c.kw]
    inner: Any = ast.Call(node, [*given, *(ast.Name(n, ast.Load()) for n in free[len(given):] if n not in c.kw and not c.kw)],
                          [ast.keyword(k, v) for k, v in c.kw.items()] + [ast.keyword(n, ast.Name(n, ast.Load())) for n in names if c.kw])
    taken = {n.id for a in (*given, *c.kw.values(), node) for n in ast.walk(a) if isinstance(n, ast.Name)} & set(names)
    if taken:  # a name of the caller that is a parameter's too
        own = {n: f"{n}_{w.fresh()}" for n in names}
        names = list(own.values())
        inner = ast.Call(node, [*given, *(ast.Name(own[n], ast.Load()) for n in free[len(given):] if n in own and not c.kw)],
                         [ast.keyword(k, v) for k, v in c.kw.items()] + [ast.keyword(n, ast.Name(o, ast.Load())) for n, o in own.items() if c.kw])
    args = ast.arguments(posonlyargs=[], args=[ast.arg(n) for n in names], kwonlyargs=[], kw_defaults=[], defaults=[])
    whole = ast.copy_location(ast.Lambda(args, inner), c.node)
    for n in ast.walk(whole):
        if not hasattr(n, "lineno"):
            ast.copy_location(n, c.node)
    return w.expr(whole)


def _lambda_of(w: Any, c: Call, names: list[str]) -> str:
    inner = ast.Call(c.args[0], [*c.args[1:], *(ast.Name(n, ast.Load()) for n in names)], [ast.keyword(k, v) for k, v in c.kw.items()])
    args = ast.arguments(posonlyargs=[], args=[ast.arg(n) for n in names], kwonlyargs=[], kw_defaults=[], defaults=[])
    return w.expr(ast.fix_missing_locations(ast.copy_location(ast.Lambda(args, inner), c.node)))


def _inputs(f: Any) -> int:
    """How many arrays an operation takes: one list of them, if it takes any number."""
    marks = [mark for _, mark in operation(f).inputs]
    return 1 if "*" in marks else sum(m != "?" for m in marks)


def left_parameters(w: Any, node: Any, f: Any) -> list[str] | None:
    """The names of a function's parameters without defaults, and of those before them; None: it is not known."""
    if isinstance(f, (types.FunctionType, functools.partial)) or hasattr(f, "__wrapped__"):
        params = list(inspect.signature(getattr(f, "__wrapped__", f), follow_wrapped=False).parameters.values())
        if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in params) or hasattr(f, "_emit_call") and any(p.default is not p.empty for p in params):
            return None
        return [p.name for p in params if p.default is p.empty]
    if operation(f) is not None:
        return [f"a{i}" for i in range(_inputs(f))]
    owner = w.scope.owner(node.id) if isinstance(node, ast.Name) and w.scope else None
    if owner is None or node.id not in owner.defs:
        return None
    args = owner.defs[node.id]
    if args.vararg or args.kwarg:
        return None
    return [a.arg for a in w.parameters_of(args) if a.arg not in owner.defaults.get(node.id, {})]


class StandIn:
    """What is not known, where an object is made."""

    def __init__(self, node: Any) -> None:
        self.node = node


def _registered(w: Any, node: ast.Call, f: type) -> tuple[type, list]:
    """An object of a class that a user has registered: (the class in programs, the parts). Its __init__ runs, with a stand-in for
    each argument that is not known: the parts of the object are these, or constants."""
    def given(x: Any) -> Any:
        known, value = w.static(x)
        return value if known else StandIn(x)
    try:
        return registered(f(*map(given, node.args), **{str(k.arg): given(k.value) for k in node.keywords})) or (f, [])
    except (TypeError, AttributeError) as e:
        return w.refuse(node, f"{f.__name__}(): {e}", "__init__ of a class in compiled functions binds its arguments and does nothing else with them")


def class_made(w: Any, node: ast.Call, f: type) -> type | None:
    """The class of the object that a call makes, as programs have it; None if it makes no object with fields."""
    return _registered(w, node, f)[0] if f in REGISTERED else f if field_names(f) is not None else None


def items_of(w: Any, node: Any) -> list[str] | None:
    """The texts of the parts of a tuple or of a generator, if it is known which these are."""
    if isinstance(node, (ast.GeneratorExp, ast.ListComp)):
        return w.comprehended(node.generators, [node.elt])
    known, _ = w.static(node)
    items = w.sequence(node) if known or isinstance(node, (ast.Call, ast.Tuple, ast.List)) or w.like(node) is not None else None
    return None if items is None else [w.item_text(node, i) for i in items]


def folded(w: Any, place: Any, node: Any, first: str, step: str, rest: str = "[1:]", items: str | None = None) -> str:
    """The items of a tuple whose length the types of arguments tell, taken together: {t} stands for the tuple, {s} for what
    there is of them, {e} for the next. Many of them are rows of an array."""
    made = items or many_rows(w, node, w.expr(node))
    names = dict(zip("tse", (w.fresh() for _ in range(3))))
    text = "{{ {s} = " + first + "; %sfor {e} in {t}%s {{ {s} = " + step + " }}; {s} }}"
    every = f"fn ({names['t']}: tuple) {(text % ('', rest)).format(**names)}"
    once = "" if rest else "{e} = {t}[0]; {s} = " + step + "; "  # the first item gives the sum its type
    each = f"fn ({names['t']}) {(text % (once, '[1:]')).format(**names)}"
    return f"multitype({every}, {each}){w.mark(place)}({made})"


def many_rows(w: Any, node: Any, few: str) -> str:
    return w.rows_of_many(node, few) if isinstance(node, (ast.ListComp, ast.GeneratorExp)) else few


def _fold(op: str, alone: str) -> Callable:
    """min and max: of two or more, or of the parts of one."""
    def emit(w: Any, c: Call) -> str:
        key, default = w.key_and_default(c)
        if len(c.args) == 1 and key is None and (chosen := chosen_item(w, c, default)) is not None:
            return chosen
        if key is not None or default is not None:
            items = w.sequence(c.args[0]) if len(c.args) == 1 else w.sequence(ast.copy_location(ast.Tuple(c.args, ast.Load()), c.node))
            if items is None and key is None:
                w.refuse(c.node, f"{c.f.__name__}(default=) is of items that are known when the function is compiled")
            if not items and items is not None and default is not None:
                return w.expr(default)
            if key is not None:
                return w.chosen_by_key(c, key, items)
        if (best := w.best_of(c)) is not None:
            return best
        texts = items_of(w, c.args[0]) if len(c.args) == 1 else [w.scalar(a) for a in c.args]
        if texts is None and w.is_mapped(c.args[0]):
            return folded(w, c.node, c.args[0], "Reshape({t}[0], ())", op + "({s}, Reshape({e}, ()))")
        if texts is None:  # of an array: its elements, if it is a vector
            return f"Reshape{w.mark(c.node)}({alone}({w.expr(c.args[0])}, axis=0), ())"
        if not texts:
            w.refuse(c.node, f"{c.f.__name__}() of nothing")
        return in_halves(lambda a, b: f"{op}{w.mark(c.node)}({a}, {b})", texts)
    return emit


def chosen_item(w: Any, c: Call, default: Any) -> str | None:
    """min and max of a comprehension with if, where it is not known how many items there are; None: it is known, or another thing."""
    node = c.args[0]
    if not isinstance(node, (ast.GeneratorExp, ast.ListComp)) or not any(g.ifs for g in node.generators) or not _never_fails(node.elt) or \
            w.sequence(node) is not None:
        return None
    items = each_of(node, node.elt, ast.ListComp)
    tests = each_of(node, ast.Call(ast.Constant(bool), [all_tests(node)], []), ast.ListComp)
    chosen, values = (w.expr(ast.fix_missing_locations(ast.copy_location(ast.Call(ast.Constant(array), [x], []), node))) for x in (tests, items))
    t, v, name, mark = w.fresh(), w.fresh(), c.f.__name__, w.mark(c.node)
    rows, none = (static_text(w, c.node, f"ValueError: {why}") for why in ("rows have no order", f"{name}() iterable argument is empty"))
    least = f"Reshape({name.capitalize()}(Where({t}, {v}, {v}[ArgMax(Cast({t}, dtype=int), axis=0)]), axis=0), ())"
    end = f"{mark}assert(Any({t}), {none}); {least}" if default is None else f"Where(Any({t}), {least}, {w.scalar(default)})"
    return f"(fn ({t}, {v}) {{ {mark}assert(len({v}.shape) == 1, {rows}); {end} }}){mark}({chosen}, {values})"


def _joined(word: str, alone: str) -> Callable:
    """any and all."""
    def emit(w: Any, c: Call) -> str:
        texts = items_of(w, c.args[0]) if len(c.args) == 1 else None
        if texts is None and len(c.args) == 1 and w.is_mapped(c.args[0]):
            return folded(w, c.node, c.args[0], "true" if word == "and" else "false", "({s} " + word + " (Reshape({e}, ()) != 0))", "")
        if texts is None:
            return f"Reshape{w.mark(c.node)}({alone}({w.exprs(c.args)}, axis=0), ())"
        texts = [f"(Reshape({t}, ()) != 0)" for t in texts]
        return "(" + f" {word} ".join(texts) + ")" if texts else "true" if word == "and" else "false"
    return emit


def _filtered(of_all: Callable, left_out: Any, truth: bool = False) -> Callable:
    """any, all, sum and prod of a comprehension with if: items that are left out change nothing, where it is not known how many there are."""
    def emit(w: Any, c: Call) -> str:
        node = c.args[0] if c.args else None
        if not isinstance(node, (ast.GeneratorExp, ast.ListComp)) or not any(g.ifs for g in node.generators):
            return of_all(w, c)
        item = ast.Call(ast.Constant(bool), [node.elt], []) if truth else node.elt
        every = with_first(c, each_of(node, ast.IfExp(all_tests(node), item, ast.Constant(left_out))))
        return _tried(w, lambda: of_all(w, c), lambda: of_all(w, every))
    return emit


def _tried(w: Any, first: Callable[[], str], then: Callable[[], str]) -> str:
    """What the first gives, or the other one where that is refused."""
    before, scope = len(w.before), w.scope
    try:
        return first()
    except CompileError:
        del w.before[before:]
        w.scope = scope
    return then()


_NO_ERRORS = (ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Add, ast.Sub, ast.Mult, ast.USub, ast.expr_context)


def _never_fails(node: Any) -> bool:
    """Whether an item may be computed, or not, where Python would do otherwise."""
    return all(isinstance(n, _NO_ERRORS) for n in ast.walk(node))


def all_tests(node: Any) -> Any:
    """The tests of a comprehension as one."""
    tests = [t for g in node.generators for t in g.ifs]
    return tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests)


def each_of(node: Any, item: Any, kind: Any = None) -> Any:
    """The comprehension without its tests, with other items."""
    every = [ast.comprehension(g.target, g.iter, [], g.is_async) for g in node.generators]
    return ast.fix_missing_locations(ast.copy_location((kind or type(node))(item, every), node))


def with_first(c: Call, node: Any) -> Call:
    """The call with another first argument."""
    inner = Call(c.node, c.f, True)
    inner.args, inner.kw = [node, *c.args[1:]], c.kw
    return inner


def _sum_of_all(w: Any, c: Call) -> str:
    texts = items_of(w, c.args[0]) if c.args else None
    start = [w.expr(a) for a in (*c.args[1:2], *(v for k, v in c.kw.items() if k == "start"))]
    if texts is None and w.is_mapped(c.args[0]):
        return folded(w, c.node, c.args[0], start[0] if start else "0", "{s} + {e}", "")
    if texts is None:  # of an array: its rows
        of, t, e, total = w.expr(c.args[0]), w.fresh(), w.fresh(), w.fresh()
        text = f"Sum{w.mark(c.node)}({of}, axis=0)"
        if isinstance(c.args[0], ast.Call):  # what a function yields may be a tuple
            rows = f"{total} = 0; for {e} in {t} {{ {total} = {total} + {e} }}; {total}"
            text = f"multitype(fn ({t}: tuple) {{ {rows} }}, fn ({t}) {{ Sum{w.mark(c.node)}({t}, axis=0) }}){w.mark(c.node)}({of})"
        return f"({start[0]} + {text})" if start else text
    return "(" + f" {w.mark(c.node)}+ ".join([*(start or ["0"]), *texts]) + ")"  # from 0 on: truth values are counted


def _product(w: Any, c: Call) -> str:
    """math.prod"""
    texts = items_of(w, c.args[0]) if len(c.args) == 1 else None
    start = w.expr(c.kw["start"]) if "start" in c.kw else "1"
    if len(c.args) != 1 or set(c.kw) - {"start"}:
        w.refuse(c.node, "prod() takes items here, and start")
    if texts is None and w.is_mapped(c.args[0]):
        return folded(w, c.node, c.args[0], _literally(start), "{s} * {e}", "")
    if texts is None:
        return f"({start} * Reshape(Prod{w.mark(c.node)}({w.expr(c.args[0])}, axis=0), ()))"
    return "(" + f" {w.mark(c.node)}* ".join([start, *texts]) + ")"


def _leaves(w: Any, c: Call) -> str:
    if len(c.args) != 1:
        w.refuse(c.node, "the leaves of one tree are taken")
    items = w.leaves(c.args[0])
    return w.leaves_by_type(c.node, c.args[0]) if items is None else w.item_text(c.node, Item(parts=items))


def _tree_map(w: Any, c: Call) -> str:
    if c.kw or len(c.args) < 2:
        w.refuse(c.node, "tree_map takes a function and trees")
    return w.mark(c.node) + hyper_mapped(w.expr(c.args[0]), [w.expr(a) for a in c.args[1:]])


def _tree_unflatten(w: Any, c: Call) -> str:
    known, structure = w.static(c.args[0]) if len(c.args) == 2 else (False, None)
    if not known:
        w.refuse(c.node, "it is not known what the tree is made of", "take the structure of an argument, and a list with a part for each leaf")
    items, n, t = items_of(w, c.args[1]), len(tree_leaves(structure)), w.fresh()
    if items is not None and len(items) != n:
        w.refuse(c.node, f"ValueError: the tree has {n} leaves, not {len(items)}")
    if items is None:
        why = static_text(w, c.node, f"ValueError: the tree has {n} leaves")
        text = _unflattened(w, structure, [f"{t}[{i}]" for i in range(n)])
        return f"(fn ({t}) {{ {w.mark(c.node)}assert(len({t}) == {n}, {why}); {text} }}){w.mark(c.node)}({w.expr(c.args[1])})"
    return _unflattened(w, structure, items)


def _unflattened(w: Any, structure: Any, items: list[str]) -> str:
    left = iter(items)

    def text(tree: Any) -> str:
        parts = parts_of_tree(tree)
        if parts is None:
            return "None" if tree is None else next(left)
        texts = [text(p) for p in parts[0]]
        names = field_names(type(tree)) or (tuple(tree) if isinstance(tree, dict) else None)
        if names is None:
            return "(" + "".join(t + ", " for t in texts).rstrip(" ") + ")"
        if not isinstance(tree, dict):
            w.b.classes.append(type(tree))
        return w.record(list(zip(names, texts)))
    return text(structure)


def _tree_reduce(w: Any, c: Call) -> str:
    """tree_reduce(f, tree, start): reduce over the leaves."""
    items = w.leaves(c.args[1]) if len(c.args) in (2, 3) and not c.kw else None
    if items is None:
        w.refuse(c.node, "it is not known what the tree is made of", "reduce the leaves of an argument, of gradients by it, or of tree_map of it")
    return reduced(w, c, [w.item_text(c.node, i) for i in items])


def _reduce(w: Any, c: Call) -> str:
    """functools.reduce over known parts."""
    if len(c.args) not in (2, 3) or c.kw:
        return w.refuse(c.node, "reduce takes a function, items, and where it starts")
    texts = items_of(w, c.args[1])
    if texts is None:
        step = _literally(f"({w.expr(c.args[0])}){w.mark(c.node)}") + "({s}, {e})"
        if len(c.args) == 2:
            return folded(w, c.node, c.args[1], "{t}[0]", step)
        return folded(w, c.node, c.args[1], _literally(w.expr(c.args[2])), step, "")
    return reduced(w, c, texts)


def _literally(text: str) -> str:
    """The text as a part of a pattern of `folded`."""
    return text.replace("{", "{{").replace("}", "}}")


def reduced(w: Any, c: Call, texts: list[str]) -> str:
    f = w.expr(c.args[0])
    texts = [w.expr(c.args[2]), *texts] if len(c.args) == 3 else texts
    if not texts:
        w.refuse(c.node, "TypeError: reduce() of no items and no start")
    return functools.reduce(lambda a, b: f"({f}){w.mark(c.node)}({a}, {b})", texts)


def _sorted(w: Any, c: Call) -> str:
    items = w.sequence_call(c.node, sorted) if len(c.args) == 1 else None
    if items is not None:
        return w.item_text(c.node, Item(parts=items))
    known, back = w.static(c.kw.pop("reverse")) if "reverse" in c.kw else (True, False)
    key, default = w.key_and_default(c)
    if len(c.args) != 1 or not known or default is not None:
        w.refuse(c.node, "sorted takes items here, a key, and reverse that is known when the function is compiled")
    items = w.sequence(c.args[0])
    if sorts(items, key):
        return w.ordered_items(c, items, key, back)
    if key is not None or items is None and w.is_iterator(c.args[0]) in ("zip", "enumerate"):
        w.refuse(c.node, f"it is not known how many items are sorted {'by a key' if key is not None else 'as tuples'}", "sort by a key with xs[np.argsort(keys)]")
    s = w.like(c.args[0])
    if s is not None and (s.kind == "dict" or any(x.kind == "static" and not isinstance(x.of, (int, float)) or x.kind in ("tuple", "list", "dict", "object") for x in s.parts)):
        w.refuse(c.node, "it is not known how these items are sorted", "sort numbers, or constants")
    t, r = w.fresh(), w.fresh()
    row = f"Sort({t}, axis=0)" + ("[::-1]" if back else "")
    why = static_text(w, c.node, "CompileError: it is not known how these lists are sorted" if w.is_mapped(c.args[0]) or levels(s) > 1 else "ValueError: rows have no order; write np.sort(x)")
    return (f"(fn ({t}) {{ {w.mark(c.node)}assert(len({t}.shape) == 1, {why}); {r} = {row}; Unstack({r}) }}){w.mark(c.node)}({_as_array(w, c.args[0])})")


def _as_array(w: Any, node: Any) -> str:
    """What is a list or an array, as an array."""
    if w.is_iterator(node) and not isinstance(node, ast.GeneratorExp):
        return f"Stack({w.listed(node)})"
    return _stacked(w, node)


def _map(w: Any, c: Call) -> str:
    all_of: list[Any] = [w.sequence(a) for a in c.args[1:]]
    if c.kw or not all_of or any(x is None for x in all_of):
        before, over = w.mapped_zip(ast.copy_location(ast.Call(c.node.func, c.args[1:], []), c.node))
        text = f"map{w.mark(c.node)}({w.expr(c.args[0])}, {', '.join(over)})"
        return f"(fn () {{ {before}{text} }})()" if before else text
    f = w.expr(c.args[0])
    texts = [f"({f})({', '.join(w.item_text(c.node, i) for i in t)})" for t in zip(*all_of)]
    return "(" + "".join(t + ", " for t in texts).rstrip(" ") + ")"


def _whole(op: str) -> Callable:
    """floor, ceil, trunc and round of math: they give integers."""
    return lambda w, c: f"Cast({op}{w.mark(c.node)}({w.exprs(c.args)} + 0), dtype=int)"  # of truth values, too


def _round(w: Any, c: Call) -> str:
    if len(c.args) == 1 and not c.kw:
        return f"Cast(Round{w.mark(c.node)}({w.expr(c.args[0])}), dtype=int)"
    known, n = w.static(c.args[1]) if len(c.args) == 2 else (False, None)
    if not known or not isinstance(n, int):
        return w.refuse(c.node, "how many digits round keeps must be a constant")
    from .._library.composed import HELPERS
    x = w.fresh()
    w.scope.names.add(x)
    name = ast.copy_location(ast.Name(x, ast.Load()), c.node)
    text = HELPERS["round_to"]._emit_call(w, Call(ast.copy_location(ast.Call(c.node.func, [name, c.args[1]], []), c.node), c.f, True))
    return f"multitype(fn ({x}: int) {{ {x if n >= 0 else f'Cast({text}, dtype=int)'} }}, fn ({x}) {{ {text} }}){w.mark(c.node)}({w.expr(c.args[0])})"


def _instance(w: Any, c: Call) -> str:
    known, x = w.static(c.node)
    if not known:
        w.refuse(c.node, "it is not known what this is: numbers and arrays have no classes in compiled functions",
                 "pass a choice as an argument that is static")
    return "true" if x else "false"


def _array(w: Any, c: Call) -> str:
    """numpy.array of numbers, arrays, and lists of these."""
    kw = dict(c.kw)
    dtype = kw.pop("dtype", c.args[1] if len(c.args) > 1 else None)
    for name in ("copy", "device"):
        if name in kw:
            given, value = w.static(kw.pop(name))
            if not given or name == "device" and value not in (None, "cpu"):
                w.refuse(c.node, f"{name} of {c.f.__name__}() must be known when the function is compiled; the only device is \"cpu\"")
    given, x = w.static(dtype) if dtype is not None else (False, None)
    dtype = None if given and x is None else dtype
    if kw or not c.args or len(c.args) > 2:
        w.refuse(c.node, "array takes what it is made of, and dtype")
    known, x = w.static(c.args[0])
    text = None
    if (counted := _range(w, c.args[0])) is not None:
        c.args[0], known = counted, False
    if known and not hasattr(x, "__array__") and dtype is None:
        x = _asarray(w, c, x)
    if known and hasattr(x, "__array__"):
        text = static_text(w, c.node, x)
    if text is None and w.gives_dims(c.args[0]):
        text = w.dims_as_array(c.args[0])
    if text is None:
        text = typed(w, _stacked(w, c.args[0])) if dtype is None else _stacked(w, c.args[0])
    return text if dtype is None else _of_dtype(w, text, dtype)


def _of_dtype(w: Any, text: str, node: Any) -> str:
    """Numbers of Python that integers cannot hold are an error, as in NumPy 2; those of an array are converted."""
    dtype = attribute(w, node, "dtype")
    known, x = w.static(node)
    name = literal(x, "dtype") if known else ""
    return f"CastLike({text}, {name}(0))" if name[:1] in ("i", "u") else f"cast({text}, {dtype})"


def _holds(made: Any, numbers: Any) -> bool:
    from .._ops import _numpy
    if made.dtype == "bf16":  # a float, and NumPy may have no such type
        return True
    a, b = _numpy().asarray(made), _numpy().asarray(numbers)
    return a.dtype.kind not in "iu" or b.dtype.kind not in "iu" or bool((a == b).all())


class _Maker:
    """numpy.array and numpy.asarray."""

    def __init__(self, name: str, copies: bool) -> None:
        self.__name__, self.copies = name, copies
        self.__doc__ = "An array of numbers, arrays, and lists of these."

    def __call__(self, x: Any, /, dtype: Any = None, *, device: Any = None, copy: Any = None) -> Any:
        accept(self.__name__, "device", device)
        lends = hasattr(x, "__dlpack__")
        if copy is False and not lends:
            raise ValueError(f"{self.__name__}: an array made of a {type(x).__name__} is a copy")
        if not lends:
            from .._ops import _numpy
            made = _numpy().asarray(x)
            if made.dtype == object:
                raise TypeError(f"an object of type {type(x).__name__} is not an array")
            x = of_default_type(x, made)
        a = _core.asarray(x)
        if dtype is not None and a.dtype != dtype:
            made = OPS["cast"](a, dtype=dtype)
            if not lends and not _holds(made, a):
                raise OverflowError(f"{self.__name__}: a number is outside {made.dtype}")
            return made
        copied = lends and (self.copies if copy is None else copy)
        return _core.frombytes(str(a.dtype), a.shape, a.tobytes()) if copied else a

    def _emit_call(self, w: Any, c: Call) -> str:
        return _array(w, c)

    def _emit(self, _b: Any) -> str:
        return "Identity"


array, asarray = _Maker("array", True), _Maker("asarray", False)


def _asarray(w: Any, c: Call, x: Any) -> Any:
    import numpy
    try:
        a = numpy.asarray(x)
    except ValueError as e:
        w.refuse(c.node, str(e))
    if a.dtype == object:
        w.refuse(c.node, "the items of an array are numbers of one type")
    a = of_default_type(x, a)
    w.b.keep.append(a)
    return a


def of_default_type(x: Any, made: Any) -> Any:
    """What NumPy made of numbers of Python, in the element type of floats for which none is given."""
    narrow = {"float64": "float32", "complex128": "complex64"}.get(str(made.dtype))
    return made.astype(narrow) if narrow and default_float() == "f32" and _of_python(x) else made


def _of_python(x: Any) -> bool:
    return all(map(_of_python, x)) if isinstance(x, (list, tuple)) else type(x) in (bool, int, float, complex)


def _stacked(w: Any, node: Any) -> str:
    if isinstance(node, (ast.List, ast.Tuple)) and any(isinstance(e, ast.Starred) for e in node.elts):
        return _spread(w, node)
    if isinstance(node, (ast.List, ast.Tuple)) and node.elts:
        return f"Stack{w.mark(node)}({', '.join(_stacked(w, e) for e in node.elts)})"
    rows = rows_of(w, node)
    if rows is not None:
        return rows
    if isinstance(node, ast.ListComp) and isinstance(node.elt, (ast.List, ast.Tuple, ast.ListComp)):
        elt = ast.Call(ast.Constant(array), [node.elt], [])
        node = ast.copy_location(ast.ListComp(ast.fix_missing_locations(ast.copy_location(elt, node.elt)), node.generators), node)
    if w.is_mapped(node):
        return stacked(w, node, _arrays_of(w, node), 0)
    texts = items_of(w, node) if isinstance(node, ast.ListComp) or isinstance(node, ast.Name) and w.like(node) is not None and \
        w.like(node).kind in ("tuple", "list") else None
    if texts:
        parts = getattr(w.like(node), "parts", ())
        rows = [_row(w, t, s) for t, s in zip(texts, parts)] if len(parts) == len(texts) else texts
        return f"Stack{w.mark(node)}({', '.join(rows)})"
    return w.expr(node) if _is_one(w, node) else f"{_made_array(w)}{w.mark(node)}({w.expr(node)})"


def _row(w: Any, text: str, s: Any) -> str:
    """An item of a list that is to be an array: of a tuple or list an array, too."""
    s = _like_constant(s.of) or s if s.kind == "static" else s
    if s.kind not in ("tuple", "list") or not s.parts:
        return text
    t = w.fresh()
    return f"(fn ({t}) {{ Stack({', '.join(_row(w, f'{t}[{i}]', p) for i, p in enumerate(s.parts))}) }})({text})"


def _arrays_of(w: Any, node: Any) -> Any:
    """A list of which only the types tell how many items it has; items that are tuples or lists are made arrays."""
    of = getattr(w.like(node), "of", None)
    if not isinstance(node, ast.Name) or getattr(of, "kind", "") not in ("tuple", "list"):
        return node
    item = ast.Name(w.fresh(), ast.Store())
    elt = ast.Call(ast.Constant(array), [ast.Name(item.id, ast.Load())], [])
    return ast.fix_missing_locations(ast.copy_location(ast.ListComp(elt, [ast.comprehension(item, node, [], 0)]), node))


def _spread(w: Any, node: Any) -> str:
    """np.array([*xs, y, z]): the items of xs and of [y, z], joined."""
    runs: list[str] = []
    for starred, items in itertools.groupby(node.elts, lambda e: isinstance(e, ast.Starred)):
        parts: list = [e.value for e in items] if starred else [ast.copy_location(ast.List(list(items), ast.Load()), node)]
        runs += [typed(w, _stacked(w, part)) for part in parts]
    return f"Concat{w.mark(node)}({', '.join(runs)}, axis=0)"


def _is_one(w: Any, node: Any) -> bool:
    """Whether an expression is no tuple: its form tells, or what is known of it."""
    s = w.like(node)
    return w.static(node)[0] or (s.kind not in ("tuple", "list", "mapped", "any") if s is not None else not isinstance(node, (ast.Call, ast.Name)))


def _made_array(w: Any) -> str:
    """A function that gives an array of a tuple of numbers, arrays and tuples of these; what is no tuple stays as it is."""
    text = ""
    for _ in range(2):
        t, total, item = w.fresh(), w.fresh(), w.fresh()
        row = f"ExpandDims(({text})(%s), axis=0)" if text else "ExpandDims(%s, axis=0)"
        rows = f"{total} = {row % f'{t}[0]'}; for {item} in {t}[1:] {{ {total} = Concat({total}, {row % item}, axis=0) }}; {total}"
        text = f"multitype(fn ({t}: tuple) {{ {rows} }}, fn ({t}) {{ {t} }})"
    return f"({text})"


def _range(w: Any, node: Any) -> ast.Call | None:
    """range(n), where an array is taken, as np.arange(n)."""
    if not isinstance(node, ast.Call) or node.keywords or w.static(node.func) != (True, range):
        return None
    return ast.fix_missing_locations(ast.copy_location(ast.Call(ast.Constant(OPS["arange"]), node.args, []), node))


def listed_array(w: Any, node: Any) -> str | None:
    """A list or tuple of numbers, or of arrays, where a function of NumPy takes an array; None: it is another thing."""
    known, x = w.static(node)
    if (counted := _range(w, node)) is not None:
        return w.expr(counted)
    s = w.like(node)
    if known:
        if not isinstance(x, (list, tuple)) or not x or hasattr(x, "_fields") or not _of_numbers(x):
            return None
        return static_text(w, node, _asarray(w, Call(ast.copy_location(ast.Call(node, [], []), node), None, True), x))
    if w.gives_dims(node):
        return w.dims_as_array(node)
    if s is not None and s.kind in ("list", "tuple") and s.parts or s is not None and s.kind == "mapped":
        return None if any(p.kind in ("none", "dict", "object") or p.kind == "static" and not _of_numbers([p.of]) for p in s.parts) else _nested(w, node, s)
    return None


def _nested(w: Any, node: Any, s: Any) -> str:
    """Lists of lists are stacked from within."""
    if isinstance(node, (ast.List, ast.Tuple, ast.ListComp, ast.GeneratorExp)) or s.kind == "mapped":
        return _stacked(w, node)
    t = w.fresh()

    def of(text: str, s: Any) -> str:
        return f"Stack({', '.join(of(f'{text}[{i}]', p) for i, p in enumerate(s.parts))})" if s.kind in ("list", "tuple") and s.parts else text
    return f"(fn ({t}) {{ {of(t, s)} }})({w.expr(node)})"


def _of_numbers(x: Any) -> bool:
    return all(_of_numbers(i) if isinstance(i, (list, tuple)) else isinstance(i, (bool, int, float, complex)) or hasattr(i, "__array__") for i in x)


def _plain(name: str) -> Callable:
    return lambda w, c: f"{name}{w.mark(c.node)}({w.exprs(c.args)})"


def _len(w: Any, c: Call) -> str:
    """The length; of a comprehension with if, of which it is not known how long it is, how many items pass."""
    node = c.args[0] if len(c.args) == 1 else None
    if not isinstance(node, ast.ListComp) or not any(g.ifs for g in node.generators) or not _never_fails(node.elt):
        return _length(w, c)
    ones = with_first(c, each_of(node, ast.IfExp(all_tests(node), ast.Constant(1), ast.Constant(0)), ast.GeneratorExp))
    return _tried(w, lambda: _length(w, c), lambda: _sum_of_all(w, ones))


def _length(w: Any, c: Call) -> str:
    w.not_iterator(c.args[0], "has no len()")
    own = w.own_operator(c.node, c.args[0], "__len__", [])
    if own is not None:
        return own
    if len(c.args) == 1 and (filled := w.length_filled(c.args[0])) is not None:
        return filled
    known, n = w.known_length(c.args[0]) if len(c.args) == 1 else (False, 0)
    if not known and len(c.args) == 1 and isinstance(c.args[0], ast.Call) and w.static(c.args[0].func) == (True, range):
        ends = c.args[0].args
        step_known, step = w.static(ends[2]) if len(ends) == 3 else (True, 1)
        if c.args[0].keywords or not step_known or type(step) is not int or step == 0:
            w.refuse(c.node, "the step of a range must be known when the function is compiled")
        count = f"{w.expr(ends[len(ends) > 1])}{f' - {w.expr(ends[0])}' if len(ends) > 1 else ''}"
        if step != 1:
            count = f"({count} + {step - 1 if step > 0 else step + 1}) // {step}"
        return f"Maximum{w.mark(c.node)}({count}, 0)"
    return str(n) if known else f"len{w.mark(c.node)}({', '.join(w.looked_at(a) for a in c.args)})"


def _print(w: Any, c: Call) -> str:
    return w.print_text(c)


def _divmod(w: Any, c: Call) -> str:
    a, b = w.expr(c.args[0]), w.expr(c.args[1])
    return f"({a} // {b}, {a} % {b})"


def _power(w: Any, c: Call) -> str:
    kw = dict(c.kw) if c.f is pow else {}
    c.args = [*c.args, *(kw.pop(n) for n in ("base", "exp", "mod")[len(c.args):] if n in kw)]
    if c.f is pow and len(c.args) == 3 and not kw:
        return w.expr(library_call(c.node, "pow", c.args))
    if len(c.args) != 2 or kw or c.f is not pow and c.kw:
        w.refuse(c.node, f"{c.f.__name__}() takes a base and an exponent here{', and a modulus' if c.f is pow else ''}")
    base, exponent = map(as_float, c.args) if c.f is math.pow else c.args
    return f"({w.expr(base)} {w.mark(c.node)}** {w.expr(exponent)})"


def _iterator(w: Any, c: Call) -> str:
    """zip, enumerate and reversed as values: the tuple of their items."""
    items = w.sequence(c.node)
    return w.listed(c.node) if items is None else w.item_text(c.node, Item(parts=items))


def _replace(w: Any, c: Call) -> str:
    s = w.like_object(c.args[0]) if len(c.args) == 1 else None
    if s is None or s.kind != "object":
        w.refuse(c.node, "it is not known what fields this has", "make the object anew")
    return replaced(w, c.args[0], s, c.kw)


BUILTINS.update({
    type: _class,
    abs: _plain("Abs"), len: _len, print: _print, divmod: _divmod, pow: _power, math.pow: _power,
    min: _fold("Minimum", "Min"), max: _fold("Maximum", "Max"), sum: _filtered(_sum_of_all, 0), round: _round, math.floor: _whole("Floor"),
    math.ceil: _whole("Ceil"), math.trunc: _whole("Trunc"), functools.reduce: _reduce, sorted: _sorted, isinstance: _instance, issubclass: _instance,
    all: _filtered(_joined("and", "All"), True, True), any: _filtered(_joined("or", "Any"), False, True), math.prod: _filtered(_product, 1), map: _map, zip: _iterator, enumerate: _iterator,
    reversed: _iterator, dataclasses.replace: _replace, tree_leaves: _leaves,
    tree_map: _tree_map, tree_reduce: _tree_reduce, tree_unflatten: _tree_unflatten,
})
BY_NAME.update({"array": _array, "asarray": _array, "asanyarray": _array})
