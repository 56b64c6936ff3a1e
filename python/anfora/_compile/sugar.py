# SPDX-License-Identifier: Apache-2.0
"""What Python has other words for, written in these before anything is compiled:

    for i, j in product(range(n), xs): ...      for i in range(n):
                                                    for j in xs: ...
    for i, j in combinations(range(n), 2): ...   the same, of range(n) and range(i + 1, n)
    pairwise(x)                                 zip(x, x[1:])
    list(range(len(x)))                         [i for i in range(len(x))]
    list(range(3))                              [0, 1, 2]
    reversed(range(a, b))                       range(b - 1, a - 1, -1)
    x in {1, 2}                                 x in (1, 2)
    v = x[mask]                                 m = x[mask].mean()
    m = v.mean()
    global g, which is only read                -
    try: a                                      a
    finally: x = b                              x = b
    while (x := a) < b: c                       x = a
                                                while x < b:
                                                    c
                                                    x = a
    while True:                                 a
        a                                       while not c:
        if c: s; break                              b
        b                                           a
                                                s
"""
from __future__ import annotations

import ast
import builtins
import copy
import itertools
from typing import Any, Callable

from . import ranges
from .appends import with_one_append
from .masks import without_chosen
from .match import has_named
from .names import around, bound_names, own_breaks, own_jumps, read_names
from .nonlocals import without_nonlocals
from .peeled import Peeled, has_unbound
from .tries import without_try

MOST_WRITTEN = 64  # items of list(range(n)) that are written out
_COMPREHENSIONS = (ast.ListComp, ast.GeneratorExp, ast.DictComp, ast.SetComp)


class _Sugar(ast.NodeTransformer):
    def __init__(self, function: Any, called: Callable[[Any], tuple[bool, Any]]) -> None:
        self.resolve, self.function = called, function
        self.bound = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)} | \
            {n.arg for n in ast.walk(function) if isinstance(n, ast.arg)}
        self.changed, self.count = False, 0

    def is_call(self, node: Any, f: Any) -> bool:
        if not isinstance(node, ast.Call) or any(isinstance(a, ast.Starred) for a in node.args):
            return False
        start = node.func
        while isinstance(start, ast.Attribute):
            start = start.value
        return isinstance(start, ast.Name) and start.id not in self.bound and self.resolve(node.func) == (True, f)

    def called(self, f: Any) -> tuple[bool, Any]:
        """What a name or attribute from outside is."""
        start = f
        while isinstance(start, ast.Attribute):
            start = start.value
        return self.resolve(f) if isinstance(start, ast.Name) and start.id not in self.bound else (False, None)

    def made(self, new: Any, node: Any) -> Any:
        self.changed = True
        for n in ast.walk(new):
            if not hasattr(n, "lineno") and "lineno" in n._attributes:
                ast.copy_location(n, node)
        return ast.copy_location(new, node) if "lineno" in new._attributes else new

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        if self.is_call(node, itertools.pairwise) and len(node.args) == 1 and isinstance(node.args[0], ast.Name) and not node.keywords and "zip" not in self.bound:
            rest = ast.Subscript(copy.deepcopy(node.args[0]), ast.Slice(ast.Constant(1), None, None), ast.Load())
            return self.made(ast.Call(ast.Name("zip", ast.Load()), [node.args[0], rest], []), node)
        if (found := ranges.reduced(self, node)) is not None:
            return self.made(found, node)
        if self.is_from_keys(node):
            return self.made(self.of_keys(*node.args), node)
        if self.is_call(node, builtins.list) and len(node.args) == 1 and not node.keywords and self.is_call(node.args[0], builtins.range) and \
                (any(map(self.is_size, node.args[0].args)) or ranges.ends(self, node.args[0]) is not None):
            return self.made(self.listed(node.args[0]), node)
        if self.is_call(node, builtins.list) and len(node.args) == 1 and not node.keywords and (items := self.written_range(node.args[0])):
            return self.made(ast.List([ast.Constant(i) for i in items], ast.Load()), node)
        if not self.is_call(node, builtins.reversed) or len(node.args) != 1 or node.keywords or not self.is_call(node.args[0], builtins.range):
            return node
        of: Any = node.args[0]
        if of.keywords or not 1 <= len(of.args) <= 2:
            return node
        start, stop = (ast.Constant(0), of.args[0]) if len(of.args) == 1 else of.args
        back = [ast.BinOp(stop, ast.Sub(), ast.Constant(1)), ast.BinOp(start, ast.Sub(), ast.Constant(1)), ast.Constant(-1)]
        if len(of.args) == 1:
            back[1] = ast.Constant(-1)
        return self.made(ast.Call(of.func, back, []), node)

    def is_from_keys(self, node: ast.Call) -> bool:
        """dict.fromkeys(keys) or dict.fromkeys(keys, v) with a name or constant."""
        return isinstance(node.func, ast.Attribute) and node.func.attr == "fromkeys" and self.is_call(ast.Call(node.func.value, node.args, []), dict) and \
            not node.keywords and (len(node.args) == 1 or len(node.args) == 2 and isinstance(node.args[1], (ast.Constant, ast.Name)))

    def is_size(self, node: Any, through: bool = True) -> bool:
        """len(x), x.shape[0] - 1 and such, or a name of it: known when types are, not before."""
        if self.resolve(node)[0]:
            return False
        values = [s.value for s in ast.walk(self.function) if isinstance(s, ast.Assign) and through and any(
            isinstance(t, ast.Name) and isinstance(node, ast.Name) and t.id == node.id for t in s.targets)]
        return any(isinstance(n, (ast.Call, ast.Attribute, ast.Subscript)) for n in ast.walk(node)) or any(self.is_size(v, False) for v in values)

    def listed(self, of: Any) -> ast.ListComp:
        """[i for i in range(n)]"""
        self.count += 1
        i = f"item{self.count}__"
        return ast.ListComp(ast.Name(i, ast.Load()), [ast.comprehension(ast.Name(i, ast.Store()), of, [], 0)])

    def of_keys(self, keys: Any, value: Any = ast.Constant(None)) -> ast.DictComp:
        """{k: v for k in keys}, where v is the same object for each key."""
        self.count += 1
        k = f"key{self.count}__"
        return ast.DictComp(ast.Name(k, ast.Load()), copy.deepcopy(value), [ast.comprehension(ast.Name(k, ast.Store()), keys, [], 0)])

    def factors(self, target: Any, node: Any) -> list | None:
        """Of for i, j in product(xs, ys): [(i, xs), (j, ys)]; ndindex(n, m) is product(range(n), range(m))."""
        if (counted := self.grid(target, node)) is not None:
            return counted
        if not self.is_call(node, itertools.product) or not isinstance(target, (ast.Tuple, ast.List)) or any(isinstance(e, ast.Starred) for e in target.elts):
            return None
        repeat = 1
        for k in node.keywords:
            if k.arg != "repeat" or not isinstance(k.value, ast.Constant) or not isinstance(k.value.value, int):
                return None
            repeat = k.value.value
        over = node.args * repeat
        if len(over) != len(target.elts) or not over or bound_names([target]) & read_names(ast.Tuple(node.args, ast.Load())):
            return None
        return [(t, copy.deepcopy(o)) for t, o in zip(target.elts, over)]

    def grid(self, target: Any, node: Any) -> list | None:
        """Of for i, j in np.ndindex(n, m), ndindex(x.shape) or ndindex(*x.shape): [(i, range(n)), (j, range(m))]."""
        if not isinstance(node, ast.Call) or node.keywords or not isinstance(target, ast.Tuple) or not node.args:
            return None
        known, f = self.resolve(node.func) if isinstance(node.func, ast.Attribute) else (False, None)
        if not known or getattr(f, "__name__", "") != "ndindex" or getattr(f, "__module__", "").split(".")[0] != "numpy" or "range" in self.bound:
            return None
        first, n = node.args[0].value if isinstance(node.args[0], ast.Starred) else node.args[0], len(target.elts)
        if any(isinstance(a, ast.Starred) for a in node.args[1:]) or bound_names([target]) & read_names(ast.Tuple([first, *node.args[1:]], ast.Load())):
            return None
        if isinstance(first, ast.Attribute) and first.attr == "shape" and len(node.args) == 1:
            from .._library.composed import HELPERS
            checked = ast.Call(ast.Constant(HELPERS["dims_exactly"]), [copy.deepcopy(first), ast.Constant(n)], [])
            sizes: list[Any] = [ast.Subscript(copy.deepcopy(first) if k else checked, ast.Constant(k), ast.Load()) for k in range(n)]
        elif len(node.args) == n and first is node.args[0]:
            sizes = [copy.deepcopy(a) for a in node.args]
        else:
            return None
        return [(t, self.made(ast.Call(ast.Name("range", ast.Load()), [size], []), node)) for t, size in zip(target.elts, sizes)]

    def chosen(self, target: Any, node: Any) -> list | None:
        """Of for i, j in combinations(range(n), 2): [(i, range(n)), (j, range(i + 1, n))]."""
        if not self.is_call(node, itertools.combinations) or len(node.args) != 2 or node.keywords or not isinstance(target, (ast.Tuple, ast.List)):
            return None
        of, r = node.args
        names = [e.id for e in target.elts if isinstance(e, ast.Name)]
        if not self.is_call(of, builtins.range) or len(of.args) != 1 or of.keywords or isinstance(of.args[0], ast.Constant) or \
                not isinstance(r, ast.Constant) or r.value != len(target.elts) or len(set(names)) != r.value or set(names) & read_names(of):
            return None
        starts: list[Any] = [ast.Constant(0), *(ast.BinOp(ast.Name(n, ast.Load()), ast.Add(), ast.Constant(1)) for n in names)]
        return [(t, self.made(ast.Call(copy.deepcopy(of.func), [start, copy.deepcopy(of.args[0])], []), of)) for t, start in zip(target.elts, starts)]

    def read_outside(self, names: set[str], loop: ast.For) -> bool:
        inside = {id(n) for n in ast.walk(loop)}
        return any(isinstance(n, ast.Name) and n.id in names and isinstance(n.ctx, ast.Load) and id(n) not in inside for n in ast.walk(self.function))

    def written_range(self, node: Any) -> range | None:
        """A range of a few numbers that stand there: list(range(3)) is [0, 1, 2]."""
        if not self.is_call(node, builtins.range) or node.keywords or not 1 <= len(node.args) <= 3 or \
                not all(isinstance(a, ast.Constant) and type(a.value) is int for a in node.args) or len(node.args) == 3 and node.args[2].value == 0:
            return None
        found = range(*(a.value for a in node.args))
        return found if len(found) <= MOST_WRITTEN else None

    def visit_For(self, node: ast.For) -> Any:
        self.enumerated(node)
        self.generic_visit(node)
        if own_breaks(node.body) and (counted := self.counted_with_end(node)) is not None:
            return counted
        pairs = self.factors(node.target, node.iter)
        if pairs is None and not self.read_outside(bound_names([node.target]), node):  # the outer one ends at n - 1
            pairs = self.chosen(node.target, node.iter)
        if pairs is None or node.orelse or own_breaks(node.body) or bound_names(node.body) & (read_names(node.iter) | bound_names([node.target])):
            return node
        body = node.body
        for target, over in reversed(pairs):
            body = [self.made(ast.For(target, over, body, []), node)]
        return body[0]

    def comprehension(self, node: Any) -> Any:
        self.generic_visit(node)
        made: list = []
        for g in node.generators:
            pairs = None if g.is_async else self.factors(g.target, g.iter)
            if pairs is None:
                made.append(g)
            else:
                made += [ast.comprehension(t, o, g.ifs if i == len(pairs) - 1 else [], 0) for i, (t, o) in enumerate(pairs)]
                self.changed = True
        node.generators = made
        return node

    def enumerated(self, node: ast.For) -> None:
        """for (i, j), v in np.ndenumerate(a) as for i, j in np.ndindex(a.shape), which begins with v = a[i, j]."""
        t, over = node.target, node.iter
        if not isinstance(over, ast.Call) or len(over.args) != 1 or over.keywords or not isinstance(over.args[0], ast.Name) or not isinstance(t, ast.Tuple) or len(t.elts) != 2:
            return
        known, f = self.called(over.func)
        if not known or getattr(f, "__name__", "") != "ndenumerate" or not isinstance(t.elts[0], ast.Tuple) or not all(isinstance(e, ast.Name) for e in t.elts[0].elts):
            return
        import numpy
        array, at = over.args[0], ast.Tuple([ast.Name(e.id, ast.Load()) for e in t.elts[0].elts], ast.Load())
        node.target, node.iter = t.elts[0], self.made(ast.Call(ast.Attribute(ast.Constant(numpy), "ndindex", ast.Load()), [ast.Attribute(array, "shape", ast.Load())], []), over)
        node.body.insert(0, self.made(ast.Assign([t.elts[1]], ast.Subscript(copy.deepcopy(array), at, ast.Load())), node))

    def visit_Assign(self, node: ast.Assign) -> Any:
        self.generic_visit(node)
        return self.part_of_part(node, node.targets[0]) if len(node.targets) == 1 else node

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        self.generic_visit(node)
        return self.part_of_part(node, node.target)

    def part_of_part(self, node: Any, target: Any) -> Any:
        """x[1:-1, 1:][m] = v, of which the first part is one of x's memory, as part = x[1:-1, 1:].copy(); part[m] = v; x[1:-1, 1:] = part."""
        if not isinstance(target, ast.Subscript) or not isinstance(target.value, ast.Subscript) or not isinstance(target.value.value, ast.Name):
            return node
        of, first = target.value.value, target.value.slice
        several = isinstance(first, ast.Tuple) and any(isinstance(e, ast.Slice) for e in first.elts)
        masked = isinstance(first, ast.Slice) and isinstance(target.slice, (ast.Compare, ast.Tuple))  # no list takes such an index
        plain = all(isinstance(n, (ast.Slice, ast.Constant, ast.Name, ast.BinOp, ast.UnaryOp, ast.Tuple, ast.operator, ast.unaryop, ast.expr_context)) for n in ast.walk(first))
        names = [e for e in first.elts if isinstance(e, ast.Name)] if isinstance(first, ast.Tuple) else []
        if not (several or masked) or not plain or names or any(isinstance(n, ast.Call) and not self.called(n.func)[0] for n in ast.walk(node.value)):
            return node
        self.count += 1
        part = f"part{self.count}__"
        copied = ast.Call(ast.Attribute(copy.deepcopy(target.value), "copy", ast.Load()), [], [])
        copied.func.value.ctx = ast.Load()
        before = self.made(ast.Assign([ast.Name(part, ast.Store())], copied), node)
        target.value = self.made(ast.Name(part, ast.Load()), target.value)
        back = ast.Assign([ast.Subscript(ast.Name(of.id, ast.Load()), copy.deepcopy(first), ast.Store())], ast.Name(part, ast.Load()))
        return [before, node, self.made(back, node)]

    def visit_While(self, node: ast.While) -> Any:
        """while True: a; if c: s; break; b, where a binds names that are read after it, is a; while not c: b; a; and then s."""
        self.generic_visit(node)
        node, plain = self.named_first(node), node
        parts = self.with_one_end(node, plain) if isinstance(node.test, ast.Constant) and node.test.value else None
        if parts is None:
            return plain
        first, end, rest, last = parts
        test = self.made(ast.UnaryOp(ast.Not(), end), end)
        loop = self.made(ast.While(test, [*rest, *copy.deepcopy(first)] or [ast.Pass()], []), node)
        return [*first, loop, *last]

    @staticmethod
    def named_first(node: ast.While) -> ast.While:
        """while (x := a) < b: c is while True: x = a; if not x < b: break; c."""
        if node.orelse or sum(isinstance(n, ast.NamedExpr) for n in ast.walk(node.test)) != 1:
            return node
        test = copy.deepcopy(node.test)
        above, field, n = None, "", test
        while not isinstance(n, ast.NamedExpr):  # what is evaluated first
            field = {ast.Compare: "left", ast.BinOp: "left", ast.UnaryOp: "operand"}.get(type(n), "")
            if not field:
                return node
            above, n = n, getattr(n, field)
        name = ast.copy_location(ast.Name(n.target.id, ast.Load()), n)
        if above is None:
            test = name
        else:
            setattr(above, field, name)
        bind = ast.copy_location(ast.Assign([n.target], n.value), n)
        leave = ast.copy_location(ast.If(ast.copy_location(ast.UnaryOp(ast.Not(), test), test), [ast.copy_location(ast.Break(), test)], []), test)
        return ast.copy_location(ast.While(ast.copy_location(ast.Constant(True), test), [bind, leave, *node.body], []), node)

    def visit_Try(self, node: ast.Try) -> Any:
        """try: a; finally: x = b, where nothing leaves a: an error ends the function, and with it what x is."""
        self.generic_visit(node)
        if (made := without_try(node, self.called)) is not None:
            self.changed = True
            return [ast.fix_missing_locations(x) for x in made]
        body, result = list(node.body), []
        if isinstance(body[-1], ast.Return) and body[-1].value is not None:
            self.count += 1
            name = f"result_{self.count}__"
            result = [self.made(ast.Return(ast.Name(name, ast.Load())), body[-1])]
            body[-1] = self.made(ast.Assign([ast.Name(name, ast.Store())], body[-1].value), body[-1])
        if node.handlers or node.orelse or not all(map(self.binds_names, node.finalbody)) or own_jumps(body) or \
                any(isinstance(n, ast.Return) for s in body for n in ast.walk(s)):
            return node
        self.changed = True
        return [*body, *node.finalbody, *result]

    def binds_names(self, s: Any) -> bool:
        if isinstance(s, ast.If):
            return all(map(self.binds_names, [*s.body, *s.orelse]))
        targets = s.targets if isinstance(s, ast.Assign) else [s.target] if isinstance(s, (ast.AugAssign, ast.AnnAssign)) else []
        return isinstance(s, ast.Pass) or bool(targets) and all(isinstance(t, ast.Name) for t in targets)

    def with_one_end(self, node: Any, written: Any = None) -> tuple | None:
        """Of a loop a; if c: s; break; b where a binds names that are read after the loop and not bound before: (a, c, b, s).
        `written`: the loop as it stands in the function."""
        ends = [i for i, s in enumerate(node.body) if isinstance(s, ast.If) and not s.orelse and isinstance(s.body[-1], ast.Break)]
        if not ends or node.orelse or not isinstance(getattr(self.function, "body", None), list):
            return None
        end: Any = node.body[ends[0]]
        first, rest, last = node.body[:ends[0]], node.body[ends[0] + 1:], end.body[:-1]
        if own_jumps([*first, *rest, *last]) or any(isinstance(n, (ast.FunctionDef, ast.Lambda, ast.Return)) for s in node.body for n in ast.walk(s)):
            return None
        before, after = around(self.function.body, written or node)
        return (first, end.test, rest, last) if (bound_names(first) - before) & after else None

    def counted_with_end(self, node: ast.For) -> Any:
        """The same of a loop over a range of constants that is not empty: the counter and the end are variables."""
        args = node.iter.args if self.is_call(node.iter, builtins.range) and not node.iter.keywords else []
        values = [a.value if isinstance(a, ast.Constant) and type(a.value) is int else None for a in args]
        if not args or None in values or not isinstance(node.target, ast.Name) or (len(values) == 3 and values[2] == 0) or not range(*values):
            return None
        if (parts := self.with_one_end(node)) is None or node.target.id in bound_names(node.body):
            return None
        first, end, rest, last = parts
        over, i = range(*values), node.target.id
        self.count += 1
        go, ended = f"go_{self.count}__", f"ended_{self.count}__"
        self.bound |= {go, ended}
        text = (f"{i} = {over[0]}\n_first\n{ended} = bool(_end)\n{go} = not {ended}\nwhile {go}:\n    _rest\n    if {i} == {over[-1]}:\n        {go} = False\n"
                f"    else:\n        {i} = {i} + {over.step}\n        _first\n        {ended} = bool(_end)\n        {go} = not {ended}\n" + (f"if {ended}:\n    _last\n" if last else ""))
        made = _Filled({"_first": first, "_rest": rest, "_last": last}, end).visit(_template(text))
        return [self.made(s, node) for s in made.body]

    visit_ListComp = visit_GeneratorExp = visit_DictComp = visit_SetComp = comprehension

    def visit_Compare(self, node: ast.Compare) -> Any:
        self.generic_visit(node)
        if (found := ranges.contained(self, node)) is not None:
            return self.made(found, node)
        for i, (op, right) in enumerate(zip(node.ops, node.comparators)):
            if isinstance(op, (ast.In, ast.NotIn)) and isinstance(right, ast.Set):
                node.comparators[i] = self.made(ast.Tuple(right.elts, ast.Load()), right)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        self.generic_visit(node)
        found = ranges.part(self, node)
        return node if found is None else self.made(found, node)

    def visit_Global(self, node: ast.Global) -> Any:
        return node if self.bound & set(node.names) else self.made(ast.Pass(), node)


class _Filled(ast.NodeTransformer):
    """Statements and a test in the places of names."""

    def __init__(self, blocks: dict[str, list], end: Any) -> None:
        self.blocks, self.end = blocks, end

    def visit_Expr(self, node: ast.Expr) -> Any:
        if isinstance(node.value, ast.Name) and node.value.id in self.blocks:
            return copy.deepcopy(self.blocks[node.value.id])
        return node

    def visit_Name(self, node: ast.Name) -> Any:
        return copy.deepcopy(self.end) if node.id == "_end" else node


def _template(text: str) -> ast.Module:
    """Statements that stand nowhere yet."""
    made = ast.parse(text)
    for n in ast.walk(made):
        for name in ("lineno", "col_offset", "end_lineno", "end_col_offset"):
            n.__dict__.pop(name, None)
    return made


def _has_sugar(n: Any) -> bool:
    if isinstance(n, ast.Call):
        name = n.func.attr if isinstance(n.func, ast.Attribute) else getattr(n.func, "id", "")
        return name in ("combinations", "fromkeys", "list", "ndenumerate", "ndindex", "pairwise", "product", "range", "reversed")
    if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store):
        return isinstance(n.value, ast.Subscript)
    return isinstance(n, (ast.Global, ast.Set, ast.Try)) or isinstance(n, ast.While) and (isinstance(n.test, ast.Constant) or has_named(n.test)) or \
        isinstance(n, ast.For) and own_breaks(n.body)


def plainer(function: Any, called: Callable[[Any], tuple[bool, Any]]) -> Any:
    """The function in plainer words; itself if it has none of the others."""
    function = with_one_append(without_chosen(without_nonlocals(function)))
    if any(map(_has_sugar, ast.walk(function))):
        whole = copy.deepcopy(function)
        sugar = _Sugar(whole, called)
        made = sugar.visit(whole)
        function = made if sugar.changed else function
    return _with_first_rounds(function, called) if has_unbound(function) else function


def _with_first_rounds(function: Any, called: Callable[[Any], tuple[bool, Any]]) -> Any:
    """The function with the first rounds of loops apart, where a name is None before them."""
    whole = copy.deepcopy(function)
    peeled = Peeled(_Sugar(whole, called).is_call)
    whole.body = peeled.block(whole.body, set()) if isinstance(whole, ast.FunctionDef) else whole.body
    return whole if peeled.changed else function
