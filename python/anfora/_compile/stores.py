# SPDX-License-Identifier: Apache-2.0
"""Which arrays of a function may change by `x[i] = v`.

In the program the name is bound to a new array, x = x.at[i].set(v). In Python the memory changes, and so does all that shares it.
The two agree if nothing else refers to the memory:

    x = np.zeros(3)       x is made here: all bindings of x are calls, sums or copies that make an array
    x[0] = 1              allowed
    return x[1:] * 2      a part of x, of which a product makes another array

    y = x[1:]             refused where x changes: y has x's memory
    t = x[0]              a number, which a copy is; refused if x has more dims, by an assertion about its type

A store is refused too if x is an argument or comes from outside, which the caller would see change. The analysis is of names and
not of paths: an escape anywhere after the array is made counts, in a branch and before the store too."""
from __future__ import annotations

import ast
from typing import Any, Callable

LIBRARIES = {"numpy", "anfora", "jax", "math", "scipy", "builtins"}
# Functions whose result has memory of its own
FRESH = set("""
abs absolute add all allclose amax amin angle any arange arccos arccosh arcsin arcsinh arctan arctan2 arctanh argmax argmin argsort
array average ceil cholesky clip concatenate conjugate convolve copy copysign corrcoef correlate cos cosh count_nonzero cov cross cumprod cumsum
deg2rad degrees det diff digitize divide dot empty empty_like equal exp exp2 expm1 eye fabs fft float float32 float64 floor floor_divide
fmax fmin fmod full full_like geomspace greater greater_equal histogram hypot identity ifft inner int interp inv irfft isclose isfinite isinf
isnan kron len less less_equal linspace log log10 log1p log2 logaddexp logical_and logical_not logical_or logical_xor logspace matmul
matrix_power max maximum mean median min minimum mod multiply nanmax nanmean nanmin nansum negative norm not_equal ones ones_like outer
percentile pinv pow power print prod quantile range reciprocal relu remainder repeat rfft rint roll round searchsorted sigmoid sign sin sinh
softmax solve sort sqrt square stack std subtract sum tan tanh tensordot tile trace trapezoid tri tril triu true_divide trunc var vdot
vstack hstack where zeros zeros_like
""".split())
FRESH_METHODS = set("""
all any argmax argmin argsort astype clip copy cumprod cumsum dot item max mean min nonzero prod repeat round std sum tolist trace var
""".split())
VIEWS = set("""
asarray reshape transpose permute_dims matrix_transpose ravel squeeze swapaxes moveaxis expand_dims broadcast_to flip fliplr flipud
rot90 diagonal real imag
""".split())
NO_VIEW_FIELDS = {"shape", "ndim", "dtype", "size", "at", "itemsize", "nbytes"}
CONTAINERS = (ast.Tuple, ast.List, ast.Dict, ast.Set, ast.Starred)

Refusal = tuple[Any, str, str]  # node, message, hint


def whole_position(node: Any) -> tuple:
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


def library_name(f: Any) -> str | None:
    """The name of a function of a library, which tells what it gives."""
    if type(f).__name__ == "ufunc":
        return f.__name__
    root = str(getattr(f, "__module__", None) or type(f).__module__).split(".")[0]
    return getattr(f, "__name__", None) if root in LIBRARIES else None


def is_whole(index: Any) -> bool:
    """Whether an index may name one element: no part of it is a slice, None or an ellipsis."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return not any(isinstance(p, (ast.Slice, ast.Starred, ast.List)) or isinstance(p, ast.Constant) and p.value in (None, Ellipsis)
                   for p in parts)


class Stores:
    """The stores by subscript of one function."""

    def __init__(self, function: ast.FunctionDef, called: Callable[[Any], tuple[bool, Any]]) -> None:
        self.function, self.called = function, called
        self.parents: dict[int, Any] = {}
        self.elements: set[tuple] = set()  # positions of subscripts that must give one element
        self.judged: set[tuple] = set()    # of the name that is judged
        self.names: dict[str, list] = {}   # nodes by the name that they are
        self.inner: dict[int, Any] = {}    # nodes of functions within, and which
        self.visit(function)
        self.stored = {n.value.id for n in self.nodes if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store) and isinstance(n.value, ast.Name)}
        self.refused: dict[str, Refusal | None] = {}
        for name in sorted(self.stored):
            self.judged = set()
            self.refused[name] = self.judge(name)
            if self.refused[name] is None:
                self.elements |= self.judged

    def visit(self, function: ast.FunctionDef) -> None:
        self.nodes: list = []
        waiting: list[tuple[Any, Any]] = [(s, None) for s in reversed(function.body)]
        while waiting:
            node, inner = waiting.pop()
            self.nodes.append(node)
            if isinstance(node, ast.Name):
                self.names.setdefault(node.id, []).append(node)
            if inner is not None:
                self.inner[id(node)] = inner
            if isinstance(node, (ast.FunctionDef, ast.Lambda, ast.GeneratorExp)) and not self.consumed(node):
                inner = node
            children = list(ast.iter_child_nodes(node))
            for c in children:
                self.parents[id(c)] = node
            waiting += [(c, inner) for c in reversed(children)]

    def consumed(self, node: Any) -> bool:
        """Whether a generator is gone through where it is written: it is the one argument of sum and the like."""
        call = self.parents.get(id(node))
        return isinstance(node, ast.GeneratorExp) and isinstance(call, ast.Call) and call.args == [node] and \
            self.library(call) in ("sum", "max", "min", "all", "any", "list", "tuple")

    def library(self, call: ast.Call) -> str | None:
        known, f = self.called(call.func)
        return library_name(f) if known else None

    # ---- where an array is made ----

    def is_fresh(self, value: Any) -> bool:
        if isinstance(value, ast.IfExp):
            return self.is_fresh(value.body) and self.is_fresh(value.orelse)
        if isinstance(value, ast.Call):
            if any(k.arg in ("copy", "out", None) for k in value.keywords):
                return False
            f = value.func
            if self.library(value) in FRESH - {"max", "min"}:
                return True
            if not isinstance(f, ast.Attribute):
                return False
            at = f.value.value if isinstance(f.value, ast.Subscript) else None
            return f.attr in FRESH_METHODS or isinstance(at, ast.Attribute) and at.attr == "at" and f.attr != "get"
        if isinstance(value, ast.BinOp):
            return not any(isinstance(e, (*CONTAINERS, ast.ListComp)) for e in (value.left, value.right))
        return isinstance(value, (ast.UnaryOp, ast.Compare)) or \
            isinstance(value, ast.Constant) and isinstance(value.value, (bool, int, float, complex))

    def bound_to(self, name: ast.Name) -> Any:
        """The expression whose value a stored name gets; None: it is not known."""
        node, parent = name, self.parents[id(name)]
        if isinstance(parent, ast.AnnAssign):
            return parent.value
        if isinstance(parent, ast.Tuple):
            node, of = parent, self.parents[id(parent)]
            if isinstance(of, ast.Assign) and len(of.targets) == 1 and isinstance(of.value, ast.Tuple) and \
                    len(of.value.elts) == len(parent.elts):
                return of.value.elts[[e is name for e in parent.elts].index(True)]
            return None
        return parent.value if isinstance(parent, ast.Assign) and parent.targets == [node] else None

    def start(self, name: str) -> int:
        """How many statements of the function's body have passed when the array that is changed has been made."""
        first = next(i for i, s in enumerate(self.function.body) for n in ast.walk(s)
                     if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store) and isinstance(n.value, ast.Name) and n.value.id == name)
        made = [i for i, s in enumerate(self.function.body[:first]) if isinstance(s, ast.Assign) and
                any(self.binds_fresh(n) for n in ast.walk(s) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store))]
        return made[-1] + 1 if made else 0

    def judge(self, name: str) -> Refusal | None:
        start = self.start(name)
        after = {id(n) for s in self.function.body[start:] for n in ast.walk(s)}
        a = self.function.args
        everyone = [*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg))]
        own = [n for n in self.names[name] if isinstance(n.ctx, ast.Store) and id(n) not in self.inner]
        if not start and name in {p.arg for p in everyone}:
            return None, f"{name} is an argument, which the caller would see change", f"write {name} = {name}.copy() before, and return {name}"
        if not own and not start:
            return None, f"{name} comes from outside of the function, where it would change", f"write it as {name} = {name}.copy() under a name of the function"
        for n in own:
            if id(n) in after and not isinstance(self.parents[id(n)], ast.AugAssign) and not self.binds_fresh(n):
                return n, f"{name} changes in place by {name}[...] = ..., and may share its memory with what it is bound to here", \
                    f"bind {name} to a copy, x.copy()"
        return next((r for n in self.names[name] if id(n) in after and isinstance(n.ctx, ast.Load) for r in [self.escape(n)] if r), None)

    def binds_fresh(self, name: ast.Name) -> bool:
        value = self.bound_to(name)
        return value is not None and self.is_fresh(value)

    # ---- where its memory goes ----

    def escape(self, name: ast.Name) -> Refusal | None:
        """Follows an array from a use of its name up to what takes it; None: nothing refers to its memory after."""
        shared = name, f"{name.id} changes in place by {name.id}[...] = ..., and would have another name here", f"write {name.id}.copy()"
        if id(name) in self.inner:
            return name, f"{name.id} changes in place by {name.id}[...] = ..., which a function within would see when it is called", \
                "make the function take it as an argument"
        node: Any = name
        element, sure = None, True  # the subscript that gives one element; what we have is an array and no list of arrays
        while True:
            parent = self.parents.get(id(node))
            if self.ends(parent, node, sure):
                return None
            if isinstance(parent, ast.Subscript) and parent.value is node and isinstance(parent.ctx, ast.Load):
                element = parent if is_whole(parent.slice) and sure else element
            elif isinstance(parent, ast.Attribute) or self.is_view(parent):
                pass
            elif isinstance(parent, (ast.Call, ast.keyword, *CONTAINERS)) or isinstance(parent, (ast.ListComp, ast.GeneratorExp)) and parent.elt is node:
                sure = False
            elif not (isinstance(parent, ast.IfExp) and node is not parent.test or isinstance(parent, (ast.BoolOp, ast.NamedExpr))):
                break
            node = parent
        if element is None:
            return shared
        self.judged.add(whole_position(element))
        return None

    def is_view(self, parent: Any) -> bool:
        """Whether a call gives the same memory as an array, and not a list of arrays."""
        return isinstance(parent, ast.Call) and (self.library(parent) in VIEWS or
                                                 isinstance(parent.func, ast.Attribute) and parent.func.attr in VIEWS)

    def ends(self, parent: Any, node: Any, sure: bool) -> bool:
        """Whether what takes an array makes another of it, or nothing."""
        if isinstance(parent, ast.Subscript):
            return parent.slice is node or not isinstance(parent.ctx, ast.Load)
        if isinstance(parent, ast.Tuple) and isinstance(up := self.parents.get(id(parent)), ast.Subscript) and up.slice is parent:
            return True
        if isinstance(parent, ast.Attribute):
            call = self.parents.get(id(parent))
            method = isinstance(call, ast.Call) and call.func is parent
            return parent.attr in NO_VIEW_FIELDS or sure and method and parent.attr in FRESH_METHODS and \
                not any(k.arg in ("copy", "out", None) for k in call.keywords)
        if isinstance(parent, ast.Call):
            return self.library(parent) in FRESH and not any(k.arg in ("copy", "out", None) for k in parent.keywords)
        if isinstance(parent, ast.BinOp):
            return sure or not isinstance(parent.op, (ast.Add, ast.Mult))
        if isinstance(parent, ast.Assign):
            return sure and all(self.is_store(t) for t in parent.targets)
        if isinstance(parent, ast.AugAssign):
            return sure and (self.is_store(parent.target) or isinstance(parent.target, ast.Name) and self.adds_to_number(parent.target.id))
        if isinstance(parent, (ast.IfExp, ast.If, ast.While)):
            return parent.test is node
        return sure and isinstance(parent, ast.Expr) or \
            isinstance(parent, (ast.UnaryOp, ast.Compare, ast.Slice, ast.Return, ast.Assert, ast.FormattedValue))

    def shares(self, value: Any) -> bool:
        """Whether a value may have the memory of an array that changes."""
        return not self.is_fresh(value) and any(isinstance(n, ast.Name) and self.refused.get(n.id, 0) is None for n in ast.walk(value))

    def is_store(self, target: Any) -> bool:
        """A part of an array of the function, into which what is stored is copied."""
        return isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name) and \
            any(isinstance(n.ctx, ast.Store) for n in self.names[target.value.id]) and self.all_fresh(target.value.id)

    def adds_to_number(self, name: str) -> bool:
        """Whether `name += x` adds, and does not make a list longer."""
        return self.all_fresh(name)

    def all_fresh(self, name: str) -> bool:
        stores = [n for n in self.names.get(name, []) if isinstance(n.ctx, ast.Store) and not isinstance(self.parents[id(n)], ast.AugAssign)]
        return bool(stores) and all(self.binds_fresh(n) for n in stores)
