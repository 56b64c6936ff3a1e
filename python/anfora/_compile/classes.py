# SPDX-License-Identifier: Apache-2.0
"""Classes of values, as far as they are known: isinstance(x, T), type(x) is T, type(x) == T, type(x) in (T, U), issubclass(type(x), T)."""
from __future__ import annotations

import ast
from typing import Any, NoReturn

from .foreign import ROOTS, module_of
from .known import Part, Said, field_names, is_array, is_structure, of_no_numbers


def is_array_class(kind: type) -> bool:
    """Whether a class is that of all arrays of a library."""
    return kind.__name__ in ("ndarray", "Array", "Tensor") and module_of(kind).split(".")[0] in ROOTS | {"anfora", "jaxlib"}


def _of_leaf(of: Any, kinds: tuple) -> bool | None:
    """isinstance of an argument that is a number of Python, or of an array, which is one of any library; None: it may be of several classes, for
    batches change those of arrays."""
    own = {"int": int, "float": float, "complex": complex}.get(of[0])
    if all(map(is_array_class, kinds)):
        return own is None
    if any(map(is_array_class, kinds)) and own is None:
        return True
    return any(issubclass(own, k) for k in kinds) if own is not None and not of[1] else None


class Classes(Part):
    """The part of the writer for classes."""

    def type_of(self, node: Any) -> Any:
        """Of type(x): x; None: it is another expression."""
        if not isinstance(node, ast.Call) or len(node.args) != 1 or node.keywords or not isinstance(node.func, (ast.Name, ast.Attribute)):
            return None
        known, f = self.static(node.func)
        return node.args[0] if known and f is type else None

    def exact_class(self, node: Any) -> type | None:
        """type(x), if it is known: not that of arrays, which any library may have, nor that of what is computed."""
        known, x = self.static(node)
        if known:
            return str if isinstance(x, Said) else None if is_array(x) else type(x)
        s = self.like(node)
        if is_structure(s):
            kind = {"tuple": tuple, "list": list, "dict": s.of or dict}.get(s.kind, s.of)
            return kind.__mro__[1] if "_anfora_make" in vars(kind) else kind
        if s is not None and s.kind == "static":
            return type(s.of)
        return {"int": int, "float": float, "complex": complex}.get(s.of[0]) if s is not None and s.kind == "leaf" and not s.of[1] else None

    def is_of_class(self, node: Any, kind: type) -> bool | None:
        """Whether type(x) is a class; None: it is not known."""
        exact, s = self.exact_class(node), self.like(node)
        if exact is not None or s is None or s.kind != "leaf":
            return None if exact is None else exact is kind
        name, dims = s.of  # of an argument: an array, of whatever library, or a scalar of NumPy, a truth value or a complex number
        if is_array_class(kind):
            return True if dims else None
        own = {"bool": bool, "complex": complex}.get(name) if not dims else None
        return False if kind is not own and (kind in (bool, int, float, complex, str, tuple, list, dict, type(None)) or of_no_numbers(kind)) else None

    def same_class(self, op: Any, left: Any, right: Any) -> bool | None:
        """type(x) is T, type(x) == T and type(x) in (T, U); None: it is another comparison, or not known."""
        of, other = self.type_of(left), right
        if of is None and not isinstance(op, (ast.In, ast.NotIn)):
            of, other = self.type_of(right), left
        if of is None or not isinstance(op, (ast.Is, ast.Eq, ast.In, ast.IsNot, ast.NotEq, ast.NotIn)):
            return None
        known, kinds = self.static(other)
        kinds = kinds if isinstance(op, (ast.In, ast.NotIn)) else [kinds]
        if not known or not isinstance(kinds, (tuple, list, set, frozenset)) or not all(isinstance(k, type) for k in kinds):
            return None
        found = [self.is_of_class(of, k) for k in kinds]
        same = True if True in found else None if None in found else False
        return None if same is None else same == isinstance(op, (ast.Is, ast.Eq, ast.In))

    def no_class(self, node: Any) -> NoReturn:
        self.refuse(node, "it is not known what class this has: arrays and numbers that are computed have none in compiled functions",
                    "compare x.dtype or x.ndim, or pass the choice as an argument that is static")

    def known_instance(self, node: ast.Call) -> tuple[bool, Any]:
        """isinstance of what has a known structure. Of numbers and arrays it is not known: batches change them."""
        known, x = self.static(node.args[0])
        also, kinds = self.static(node.args[1])
        kinds = kinds if isinstance(kinds, tuple) else (kinds,)
        s = self.like(node.args[0])
        if not also or not all(isinstance(k, type) for k in kinds):
            return False, None
        if known:
            return True, isinstance(x, kinds)
        if is_structure(s):
            kind = s.of if s.kind == "object" else {"tuple": tuple, "list": list, "dict": dict}[s.kind]
            return True, issubclass(kind, kinds)
        if s is not None and s.kind == "static":
            return True, isinstance(s.of, kinds)
        if s is not None and s.kind == "leaf" and (found := _of_leaf(s.of, kinds)) is not None:
            return True, found
        if s is not None and s.kind == "leaf" and all(k in (tuple, list, dict, str) or field_names(k) or of_no_numbers(k) for k in kinds):
            return True, False
        return False, None
