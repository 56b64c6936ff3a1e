# SPDX-License-Identifier: Apache-2.0
"""Which arrays of a function may change by `x[i] = v`.

In the program the name is bound to a new array, x = x.at[i].set(v). In Python the memory changes, and so does all that shares it.
The two agree if nothing else refers to the memory:

    x = np.zeros(3)       x is made here: all bindings of x are calls, sums or copies that make an array
    x[0] = 1              allowed
    return x[1:] * 2      a part of x, of which a product makes another array

    y = x[1:]             refused where x changes: y has x's memory
    t = x[0]              a number, which a copy is; refused if x has more dims, by an assertion about its type
    x, z = z, x           both made here: allowed, as each is one array before and after

A store is refused too if x is an argument or comes from outside, which the caller would see change. The analysis is of names and
not of paths: an escape anywhere after the array is made counts, in a branch and before the store too."""
from __future__ import annotations

import ast
from typing import Any, Callable

from .._errors import CompileError

LIBRARIES = {"numpy", "anfora", "jax", "math", "scipy", "builtins"}
# Functions whose result has memory of its own
FRESH = set("""
abs absolute acos acosh add all allclose amax amin angle any append apply_along_axis arange arccos arccosh arcsin arcsinh arctan arctan2 arctanh
argmax argmin argpartition argsort argwhere around array array_equal array_equiv asin asinh astype atan atan2 atanh average bartlett beta betainc
betaln bincount bitwise_and bitwise_count bitwise_invert bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor blackman block
boxcox boxcox1p cbrt ceil celu cho_factor cho_solve cholesky choose clip column_stack compress concat concatenate cond conj conjugate convolve copy
copysign corrcoef correlate cos cosh count_nonzero cov cross cumprod cumsum cumulative_prod cumulative_sum deg2rad degrees delete det diagflat diff
digamma digitize divide dot dstack ediff1d eig eigh eigvals eigvalsh elu empty empty_like entr equal erf erfc erfinv exp exp1 exp2 expi expit expm
expm1 extract eye fabs fft fft2 fftn fftshift fill_diagonal fix flatnonzero float float_power floor floor_divide fmax fmin fmod full full_like gamma
gammainc gammaincc gammaln gcd gelu geomspace gradient greater greater_equal hamming hanning heaviside histogram histogram2d histogram_bin_edges
hstack hypot i0 i0e i1 i1e identity ifft ifft2 ifftn ifftshift indices inner insert int interp intersect1d inv invert irfft irfft2 irfftn isclose
iscomplex isfinite isin isinf isnan isneginf isposinf isreal kaiser kl_div kron lcm ldexp left_shift len less less_equal lexsort lgamma linspace log
log10 log1p log2 log_ndtr log_softmax logaddexp logaddexp2 logical_and logical_not logical_or logical_xor logit logspace logsumexp lstsq lu_factor
matmul matrix_norm matrix_power matrix_rank matvec max maximum mean median min minimum mod multi_dot multiply nan_to_num nanargmax nanargmin
nancumprod nancumsum nanmax nanmean nanmedian nanmin nanpercentile nanprod nanquantile nanstd nansum nanvar ndarray ndim ndtr ndtri negative nextafter
norm not_equal one_hot ones ones_like outer packbits pad partition percentile pinv place poch poly polyadd polyder polyfit polyint polymul polysub
polyval positive pow power print prod ptp put put_along_axis putmask qr quantile rad2deg radians range ravel_multi_index reciprocal rel_entr relu
relu6 remainder repeat resize rfft rfft2 rfftn right_shift rint roll roots round round_ searchsorted select selu setdiff1d setxor1d sigmoid sign
signbit silu sin sinc sinh size slogdet softmax softplus solve solve_triangular sort spacing sqrt square stack std subtract sum svd svdvals take
take_along_axis tan tanh tensordot tensorinv tensorsolve tile trace trapezoid trapz tri tril triu true_divide trunc union1d unique unpackbits unwrap
vander var vdot vecdot vecmat vector_norm vstack where xlog1py xlogy zeros zeros_like zeta
""".split())
FRESH_METHODS = set("""
all any argmax argmin argsort astype clip copy cumprod cumsum dot item max mean min nonzero prod repeat round std sum tolist trace var
""".split())
VIEWS = set("""
asarray reshape transpose permute_dims matrix_transpose ravel squeeze swapaxes moveaxis expand_dims broadcast_to flip fliplr flipud
rot90 diagonal real imag atleast_1d atleast_2d atleast_3d asanyarray ascontiguousarray
""".split())
NUMBERS_OF = {"len", "float", "int", "bool", "complex", "abs", "round", "sum", "any", "all", "range", "isinstance", "print", "divmod", "pow", "type", "str", "repr", "hash", "ord", "chr"}
NO_VIEW_FIELDS = {"shape", "ndim", "dtype", "size", "at", "itemsize", "nbytes"}
CONTAINERS = (ast.Tuple, ast.List, ast.Dict, ast.Set, ast.Starred)

def given_by(node: Any) -> Any:
    """Of a call of a function that gives changed arguments back (effects.py): that function."""
    f = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Constant) else None
    return f if type(f).__name__ == "Giving" else None


Refusal = tuple[Any, str, str]  # node, message, hint


def whole_position(node: Any) -> tuple:
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


def library_name(f: Any) -> str | None:
    """The name of a function of a library, which tells what it gives."""
    if type(f).__name__ == "ufunc":
        return f.__name__
    if type(f).__name__ == "Giving":  # the user's
        return None
    root = str(getattr(f, "__module__", None) or type(f).__module__).split(".")[0]
    return getattr(f, "__name__", None) if root in LIBRARIES else None


def is_path(node: Any) -> bool:
    """Whether an expression is a name, or a field of one and so on, or what is put in for such."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, (ast.Name, ast.Constant))


def is_whole(index: Any) -> bool:
    """Whether an index may name one element: no part of it is a slice, None or an ellipsis."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return not any(isinstance(p, (ast.Slice, ast.Starred, ast.List)) or isinstance(p, ast.Constant) and p.value in (None, Ellipsis)
                   for p in parts)


def changed_names(node: Any) -> list[str]:
    """The arrays that a node changes: x of x[i] = v, and those that a call gives back."""
    if isinstance(node, ast.Subscript):
        return [node.value.id] if isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name) else []
    if isinstance(node, ast.Assign) and given_by(node.value) is not None:
        return [t.id for t in node.targets[0].elts[1:]]
    return []


def given_back(node: Any) -> list:
    """Of a statement that binds what a call gives back: the names that are bound so, and those that it is given."""
    if not isinstance(node, ast.Assign) or given_by(node.value) is None:
        return []
    targets = node.targets[0].elts[1:]  # type: ignore[attr-defined]
    names = {t.id for t in targets}
    return [*targets, *(a for a in (*node.value.args, *(k.value for k in node.value.keywords)) if isinstance(a, ast.Name) and a.id in names)]  # type: ignore[attr-defined]


class Stores:
    """The stores by subscript of one function."""

    def __init__(self, function: ast.FunctionDef, called: Callable[[Any], tuple[bool, Any]], given: tuple[str, ...] = ()) -> None:
        self.function, self.resolve = function, called
        self.given = given  # arguments that the function may change: it gives them back
        self.parents: dict[int, Any] = {}
        self.elements: set[tuple] = set()  # positions of subscripts that must give one element
        self.judged: set[tuple] = set()    # of the name that is judged
        self.names: dict[str, list] = {}   # nodes by the name that they are
        self.inner: dict[int, Any] = {}    # nodes of functions within, and which
        self.visit(function)
        self.stored = {name for n in self.nodes for name in changed_names(n)}
        from .aliases import Aliases
        self.refused: dict[str, Refusal | None] = {}
        self.seen: Any = None
        self.moved: set[str] = set()
        self.arrays_moved()
        self.seen = Aliases(function, self)  # changes that other names see
        for name in sorted(self.stored):
            self.judged = set()
            self.refused[name] = self.judge(name)
            if self.refused[name] is None:
                self.elements |= self.judged
        self.elements |= {whole_position(n.value) for n in self.nodes if isinstance(n, ast.Assign) and self.is_seen_element(n)}
        if self.elements:
            self.seen = Aliases(function, self, self.elements)

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

    def called(self, f: Any) -> tuple[bool, Any]:
        """What is called, if it is known; what a comprehension calls by a name of its own is not."""
        if not is_path(f):
            return False, None
        try:
            return self.resolve(f)
        except CompileError:
            return False, None

    def library(self, call: ast.Call) -> str | None:
        known, f = self.called(call.func)
        return library_name(f) if known else None

    def makes_new(self, call: ast.Call) -> bool:
        """Whether a function of a library surely gives memory of its own. Arrays of JAX and Anfora never change."""
        f, name = self.called(call.func)[1], self.library(call)
        root = str(getattr(f, "__module__", None) or type(f).__module__).split(".")[0]
        if root in ("jax", "anfora"):
            return not name.startswith("tree_")
        if type(f).__name__ == "ufunc" or root == "math":
            return not any(k.arg == "out" for k in call.keywords)
        return root != "builtins" and self.is_fresh(call) or name in NUMBERS_OF

    # ---- where an array is made ----

    def is_fresh(self, value: Any) -> bool:
        if isinstance(value, ast.IfExp):
            return self.is_fresh(value.body) and self.is_fresh(value.orelse)
        if isinstance(value, ast.Call):
            if any(k.arg in ("copy", "out", None) for k in value.keywords):
                return False
            f = value.func
            if self.library(value) in FRESH - {"max", "min"} or self.is_new(value):
                return True
            if self.is_view(value):  # of what has no name
                return self.is_fresh(value.args[0] if self.library(value) in VIEWS else f.value)
            if not isinstance(f, ast.Attribute):
                return False
            at = f.value.value if isinstance(f.value, ast.Subscript) else None
            return f.attr in FRESH_METHODS or isinstance(at, ast.Attribute) and at.attr == "at" and f.attr != "get"
        if isinstance(value, ast.Subscript) or isinstance(value, ast.Attribute) and value.attr in ("T", "mT", "real", "imag"):
            return isinstance(value.value, (ast.Call, ast.Attribute, ast.Subscript)) and self.is_fresh(value.value)
        if isinstance(value, ast.BinOp):
            return not any(isinstance(e, (*CONTAINERS, ast.ListComp)) for e in (value.left, value.right))
        return isinstance(value, (ast.UnaryOp, ast.Compare)) or \
            isinstance(value, ast.Constant) and isinstance(value.value, (bool, int, float, complex))

    def is_new(self, call: ast.Call) -> bool:
        """Whether a function of the program gives memory of its own."""
        from .effects import effect
        known, f = self.called(call.func)
        return known and effect(f).fresh

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
        """How many statements of the function's body have passed when the array that is changed, or that another name takes, has been made."""
        first = next((i for i, s in enumerate(self.function.body) for n in ast.walk(s) if name in changed_names(n) or
                      isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store) and self.taken_from(n)), 0)
        made = [i for i, s in enumerate(self.function.body[:first]) if isinstance(s, ast.Assign) and
                any(self.binds_fresh(n) for n in ast.walk(s) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store))]
        return made[-1] + 1 if made else 0

    def judge(self, name: str) -> Refusal | None:
        start = self.start(name)
        after = {id(n) for s in self.function.body[start:] for n in ast.walk(s)}
        a = self.function.args
        everyone = [*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg))]
        own = [n for n in self.names[name] if isinstance(n.ctx, ast.Store) and id(n) not in self.inner]
        kept = own and any(id(n) in after and not self.is_change(n) for n in own)
        if not start and name in {p.arg for p in everyone} and (name not in self.given or kept):
            return None, f"{name} is an argument, which the caller would see change", f"write {name} = {name}.copy() before, and return {name}"
        if not own and not start and name not in self.given:
            return None, f"{name} comes from outside of the function, where it would change", f"write it as {name} = {name}.copy() under a name of the function"
        for n in own:
            if id(n) in after and not self.is_change(n) and not self.binds_own(n):
                if isinstance(self.parents[id(n)], ast.Tuple) and (other := self.taken_from(n)) is not None and not other.endswith("__"):
                    return n, f"{name} changes in place by {name}[...] = ..., and here becomes {other}, which is not the function's own", \
                        f"write {other} = {other}.copy() before"
                if isinstance(getattr(self.parents[id(n)], "value", None), (ast.Dict, ast.DictComp)):
                    return n, f"values decide which keys {name} gets", "use an array with an element for each key that there may be, or keys that are known when the function is compiled"
                return n, f"{name} changes in place by {name}[...] = ..., and may share its memory with what it is bound to here", \
                    f"bind {name} to a copy, x.copy()"
        return next((r for n in self.names[name] if id(n) in after and isinstance(n.ctx, ast.Load) for r in [self.escape(n)] if r), None)

    def is_change(self, name: ast.Name) -> bool:
        """Whether a binding is a change of the array that the name had: x += v, and what a call has changed and gives back."""
        parent = self.parents[id(name)]
        return isinstance(parent, ast.AugAssign) or isinstance(parent, ast.Tuple) and parent.elts[0] is not name and \
            given_by(getattr(self.parents[id(parent)], "value", None)) is not None

    def binds_fresh(self, name: ast.Name) -> bool:
        parent = self.parents[id(name)]
        of = self.parents[id(parent)] if isinstance(parent, ast.Tuple) else None
        giving = given_by(getattr(of, "value", None))
        if giving is not None:
            return parent.elts[0] is not name or giving.fresh
        value = self.bound_to(name)
        return value is not None and self.is_fresh(value)

    def arrays_moved(self) -> None:
        """Finds `moved`: names whose arrays the function has made, under these names or others that they take them from: u, v = v, u or last = next.
        Which of them a store changes, aliases.py finds."""
        a = self.function.args
        params = {p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg)))}
        bound = {}
        for name, nodes in self.names.items():
            start = self.start(name)
            if any(id(n) in self.inner for n in nodes) or name in params and not start:
                continue
            before = {id(n) for s in self.function.body[:start] for n in ast.walk(s)} if start else ()
            bound[name] = [n for n in nodes if isinstance(n.ctx, ast.Store) and (id(n) not in before or self.binds_fresh(n))]
        own = {name for name, nodes in bound.items() if nodes}
        while True:
            self.moved = own  # what is stored into one of them is copied
            less = {name for name in own if all(self.is_change(n) or self.binds_fresh(n) or self.taken_from(n) in own for n in bound[name]) and
                    (name in self.stored or not any(self.escape(n) for n in self.names[name] if isinstance(n.ctx, ast.Load)))}
            if less == own:
                return
            own = less

    def taken_from(self, name: ast.Name) -> str | None:
        value = self.bound_to(name)
        return value.id if isinstance(value, ast.Name) else None

    def binds_own(self, name: ast.Name) -> bool:
        return self.binds_fresh(name) or self.taken_from(name) in self.moved or self.binds_own_view(name)

    def binds_own_view(self, name: ast.Name) -> bool:
        """x = x.reshape(n, -1).T: nothing else refers to the memory, or another use of x is refused."""
        value = self.bound_to(name)
        while self.is_view(value) or isinstance(value, ast.Attribute) and value.attr in ("T", "mT"):
            value = (value.args[0] if self.library(value) in VIEWS else value.func.value) if isinstance(value, ast.Call) else value.value
        return isinstance(value, ast.Name) and value.id == name.id and value is not self.bound_to(name)

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
            if self.ends(parent, node, sure) or sure and element is None and self.is_name(parent, node):
                return None
            if isinstance(parent, ast.Subscript) and parent.value is node and isinstance(parent.ctx, ast.Load):
                element = parent if is_whole(parent.slice) and sure else element
            elif isinstance(parent, ast.Attribute) or self.is_view(parent):
                pass
            elif isinstance(parent, (ast.Call, ast.keyword, *CONTAINERS)) or isinstance(parent, (ast.ListComp, ast.GeneratorExp)) and parent.elt is node:
                sure = False
            elif not (isinstance(parent, ast.IfExp) and node is not parent.test or isinstance(parent, ast.BoolOp)):
                break
            node = parent
        if element is None:
            return shared
        if not (isinstance(parent, ast.Assign) and self.is_name(parent, node)) or not self.unseen({t.id for t in parent.targets}):
            self.judged.add(whole_position(element))
        return None

    def unseen(self, names: set[str]) -> bool:
        """Whether parts of an array, by their names, are not read after the array has changed. Else they must be numbers."""
        return self.seen is None or not names & set().union(*self.seen.found.values())

    def is_seen_element(self, node: ast.Assign) -> bool:
        """Whether a call that changes arguments may give an element of one, which changes before the result is read."""
        from .effects import effect
        giving = given_by(node.value)
        names = {n.id for n in ast.walk(node.targets[0].elts[0]) if isinstance(n, ast.Name)} if giving is not None else set()  # type: ignore[attr-defined]
        return giving is not None and effect(giving.fn).one and not self.unseen(names)

    def is_name(self, parent: Any, node: Any) -> bool:
        """Whether an array gets another name, whose uses after a change are found (aliases.py)."""
        of = self.parents.get(id(parent))
        if isinstance(parent, ast.Tuple) and isinstance(of, ast.Assign) and of.value is parent:  # a, b = x, y
            target = of.targets[0]
            return len(of.targets) == 1 and isinstance(target, ast.Tuple) and len(target.elts) == len(parent.elts) and \
                all(isinstance(e, ast.Name) for e in target.elts)
        return isinstance(parent, ast.Assign) and parent.value is node and all(isinstance(t, ast.Name) for t in parent.targets)

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
        if isinstance(parent, ast.keyword) and isinstance(call := self.parents.get(id(parent)), ast.Call):
            return self.takes(call, node)
        if isinstance(parent, ast.Call):
            return self.takes(parent, node)
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

    def takes(self, call: ast.Call, node: Any) -> bool:
        """Whether a call that is given an array does not give its memory."""
        giving = given_by(call)
        if giving is None:
            name, given = self.library(call), len(call.args)
            several = name == "einsum" and given > 2  # of one operand it may give a part
            itself = given > 1 and name in ("diff", "matrix_power")  # diff(x, 0) and matrix_power(x, 1) are x
            words = {k.arg for k in call.keywords} & ({"copy", "out", None} | ({"n"} if name in ("diff", "matrix_power") else set()))
            return (name in FRESH or several or self.is_new(call)) and not itself and not words
        targets = {t.id for t in self.parents[id(call)].targets[0].elts[1:]}
        changed = isinstance(node, ast.Name) and node.id in targets
        times = sum(isinstance(n, ast.Name) and n.id in targets for a in (*call.args, *call.keywords) for n in ast.walk(a))
        return changed and times == len(targets) or not changed and giving.fresh

    def shares(self, value: Any) -> bool:
        """Whether a value may have the memory of an array that changes. x[i] must be a number then."""
        if isinstance(value, ast.Subscript) and isinstance(value.value, ast.Name) and is_whole(value.slice) and self.refused.get(value.value.id, 0) is None:
            self.elements.add(whole_position(value))
            return False
        return not self.is_fresh(value) and any(isinstance(n, ast.Name) and self.refused.get(n.id, 0) is None for n in ast.walk(value))

    def is_store(self, target: Any) -> bool:
        """A part of an array of the function, into which what is stored is copied."""
        return isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name) and \
            self.all_fresh(target.value.id)

    def adds_to_number(self, name: str) -> bool:
        """Whether `name += x` adds, and does not make a list longer."""
        return self.all_fresh(name)

    def all_fresh(self, name: str) -> bool:
        stores = [n for n in self.names.get(name, []) if isinstance(n.ctx, ast.Store) and not self.is_change(n)]
        return bool(stores or name in self.given and name in self.stored) and all(self.binds_own(n) for n in stores)
