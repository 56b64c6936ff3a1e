# SPDX-License-Identifier: Apache-2.0
"""Numbers that shapes tell, such as T of T, d = x.shape. A function within that reads one asks the array again, whose type tells the
number wherever the function is called; the value of a variable is no constant there."""
from __future__ import annotations

import ast
import collections
import copy
from typing import Any

import numpy as np

from .known import Part

_WHOLE = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)


class Dims(Part):
    """The part of the writer for numbers that shapes tell."""

    def note_dims(self, target: Any, value: Any) -> None:
        """After target = value: which names are numbers that shapes tell."""
        if self.scope is None or not hasattr(self.scope.node, "body"):
            return
        pairs = [(target, value)]
        if isinstance(target, ast.Tuple) and self.is_shape(value):
            pairs = [(t, ast.copy_location(ast.Subscript(value, ast.copy_location(ast.Constant(i), value), ast.Load()), value)) for i, t in enumerate(target.elts)]
        elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            pairs = list(zip(target.elts, value.elts))
        for t, v in pairs:
            if isinstance(t, ast.Name) and not isinstance(v, ast.Constant) and self.bound_as_often(t.id, 1) and (found := self.from_shapes(v)) is not None:
                self.scope.dims[t.id] = found

    def is_named_shape(self, node: ast.Name) -> bool:
        """A variable of the function that is bound once, to a shape."""
        if not self.scope or not hasattr(self.scope.node, "body") or isinstance(self.scope.node, ast.Lambda) or not self.is_stable(node):
            return False
        of = self.scope.node
        if id(of) not in self.parts_named:
            named: dict[str, list] = {}
            for n in ast.walk(of):
                if isinstance(n, ast.Assign) and len(n.targets) == 1 and isinstance(n.targets[0], ast.Name) and isinstance(n.value, (ast.Attribute, ast.Subscript)):
                    named.setdefault(n.targets[0].id, []).append(n.value)
            self.parts_named[id(of)] = of, named
        return any(map(self.gives_dims, self.parts_named[id(of)][1].get(node.id, ())))

    def dims_reduced(self, c: Any) -> str | None:
        """prod, sum, max or min of a shape or a part of one: a number that the shape tells. None: it is of something else."""
        of = {"prod": ("1", "{s} * {e}"), "sum": ("0", "{s} + {e}"), "max": ("{t}[0]", "Maximum({s}, {e})"), "min": ("{t}[0]", "Minimum({s}, {e})")}
        name = getattr(c.f, "__name__", "").removeprefix("a")  # NumPy's max is amax
        if name not in of or len(c.args) != 1 or c.kw or not self.gives_dims(c.args[0]):
            return None
        names = dict(zip("tse", (self.fresh() for _ in range(3))))
        text = "fn ({t}) {{ {s} = " + of[name][0] + "; for {e} in {t} {{ {s} = " + of[name][1] + " }}; {s} }}"
        return f"({text.format(**names)}){self.mark(c.node)}({self.expr(c.args[0])})"

    def dims_as_array(self, node: Any) -> str:
        """A shape where a function takes an array: a vector of integers."""
        t, s, e = (self.fresh() for _ in range(3))
        row = "Reshape(i64({}), (1,))"
        return f"(fn ({t}) {{ {s} = {row.format(f'{t}[0]')}; for {e} in {t}[1:] {{ {s} = Concat({s}, {row.format(e)}) }}; {s} }})({self.expr(node)})"

    def bound_as_often(self, name: str, times: int) -> bool:
        """Whether a name of the function is bound by so many statements of it, parameters by one more."""
        of = self.scope.node
        if id(of) not in self.stores_of:
            names = (n.id for n in ast.walk(of) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load))
            self.stores_of[id(of)] = of, collections.Counter(names)
        stores = self.stores_of[id(of)][1][name]
        return stores + (name in {a.arg for a in self.parameters_of(of.args)}) == times

    def is_shape(self, node: Any) -> bool:
        return isinstance(node, ast.Attribute) and node.attr == "shape" and self.is_stable(node.value)

    def is_stable(self, node: Any) -> bool:
        """A variable of the function that is bound once."""
        return isinstance(node, ast.Name) and node.id in self.scope.names and self.is_local(node.id) and self.bound_as_often(node.id, 1)

    def from_shapes(self, node: Any) -> Any:
        """An expression of shapes and constants for one that they tell; None: it is another one."""
        if isinstance(node, ast.Constant):
            return node if type(node.value) is int else None
        if isinstance(node, ast.Name):
            return self.scope.dims.get(node.id)
        if isinstance(node, ast.Attribute):
            return node if node.attr in ("ndim", "size") and self.is_stable(node.value) else None
        if isinstance(node, ast.Subscript):
            known, k = self.static(node.slice)
            return node if self.is_shape(node.value) and known and type(k) is int else None
        if isinstance(node, ast.Call):
            return node if self.static(node.func) == (True, len) and len(node.args) == 1 and self.is_stable(node.args[0]) else None
        sides = [self.from_shapes(node.left), self.from_shapes(node.right)] if isinstance(node, ast.BinOp) and isinstance(node.op, _WHOLE) else [None]
        if any(s is None for s in sides):
            return None
        made = copy.copy(node)
        made.left, made.right = sides
        return made

    def told_by_shapes(self, node: Any) -> bool:
        """Whether an expression is made of ranks, sizes and constants, wherever the arrays come from."""
        known, x = self.static(node)
        if known:
            return type(x) is int
        if isinstance(node, ast.Name):
            owner = self.scope.owner(node.id) if self.scope else None
            return owner is not None and node.id in owner.dims
        if isinstance(node, ast.Attribute):
            return node.attr in ("ndim", "size")
        if isinstance(node, ast.Subscript):
            return isinstance(node.value, ast.Attribute) and node.value.attr == "shape" and self.static(node.slice)[0]
        if isinstance(node, ast.Call):
            return len(node.args) == 1 and not node.keywords and self.static(node.func)[1] in (len, np.ndim)
        return isinstance(node, ast.BinOp) and isinstance(node.op, _WHOLE) and self.told_by_shapes(node.left) and self.told_by_shapes(node.right)

    def counted_by_shapes(self, node: Any) -> list | None:
        """Start, stop and step of a range whose ends ranks tell; None: it is another thing, or of ends that sizes tell or that are known, which is large."""
        if not isinstance(node, ast.Call) or self.static(node.func) != (True, range) or not 1 <= len(node.args) <= 3 or node.keywords or \
                not all(map(self.told_by_shapes, node.args)) or all(self.static(a)[0] for a in node.args) or any(isinstance(n, ast.Attribute) and n.attr == "size" or isinstance(n, ast.Subscript) or
                isinstance(n, ast.Call) and n is not node and not self.is_shape(n.args[0]) for n in ast.walk(node)):
            return None
        zero, one = (ast.copy_location(ast.Constant(k), node) for k in (0, 1))
        return [zero, node.args[0], one] if len(node.args) == 1 else [*node.args, one][:3]

    def dims_text(self, node: ast.Name) -> str | None:
        """What a function within writes for the name of such a number of a function around it."""
        owner = self.scope.owner(node.id) if self.scope else None
        found = owner.dims.get(node.id) if owner is not None and owner is not self.scope else None
        if found is None or any(isinstance(n, ast.Name) and n.id != "len" and self.scope.owner(n.id) is not owner for n in ast.walk(found)):
            return None
        return f"({self.expr(found)})"
