# SPDX-License-Identifier: Apache-2.0
"""Compiled functions as object files with headers, for hosts without Python."""
from __future__ import annotations

import os
from typing import Any

from . import _core
from ._compile.known import ANY
from ._tree import Shape, shape_of
from ._types import DType, TensorType


def _shape_of(x: Any) -> Shape:
    """Of an argument like this one, or of this type."""
    if isinstance(x, TensorType):
        return Shape("leaf", of=(x.dtype.name, tuple("?" if d in (None, Ellipsis) else d for d in x.dims)))
    if isinstance(x, DType):
        return Shape("leaf", of=(x.name, ()))
    if type(x) in (tuple, list):
        return Shape(type(x).__name__, [_shape_of(p) for p in x])
    if type(x) is dict:
        return Shape("dict", [_shape_of(p) for p in x.values()], tuple(x))
    return shape_of(x)


def _known(s: Shape) -> Shape:
    """Without the tensors that have dims of several sizes."""
    if s.kind == "leaf":
        return s if all(isinstance(d, int) for d in s.of[1]) else ANY
    return Shape(s.kind, [_known(p) for p in s.parts], s.names, s.of)


def _sizes_text(sizes: Any) -> str | None:
    if sizes is None or isinstance(sizes, str):
        return sizes
    return " ".join(f"{name}={','.join(str(int(n)) for n in ([each] if isinstance(each, int) else each))}" for name, each in sizes.items())


def build(f: Any, path: Any, args: tuple, sizes: Any, state: int | None) -> list[str]:
    """Function.build."""
    folder, name = os.path.split(os.fspath(path))
    if not args:
        declared = f._declared()
        if len(declared) < f._nparam:
            raise TypeError(f"{f.__name__}() is built for arguments, or types, of its {f._nparam} parameters: not all of these declare one")
        args = tuple(declared[i] for i in range(f._nparam))
    f = f._of(len(args))
    if len(args) != f._nparam:
        raise TypeError(f"{f.__name__}() takes {f._nparam} arguments, not {len(args)}")
    shapes = [Shape("static", of=x) if i in f._static else _shape_of(x) for i, x in enumerate(args)]
    statics = {i: args[i] for i, s in enumerate(shapes) if s.kind in ("static", "none")}
    program = f._program(statics, list(map(_known, shapes)), prints="alone")
    f._fit(shapes, statics)
    if program.arrays:
        raise ValueError(f"{f.__name__}() captures arrays, which an object has not: give them as arguments")
    types_ = [s.text() for i, s in enumerate(shapes) if i not in statics]
    try:
        made = _core.build_object(program.text, program.name, program.start, types_, -1 if state is None else state, name, _sizes_text(sizes))
    except _core.Failure as failure:
        if f._needs_no_checks(program, error := program.error(failure)):
            return build(f, path, args, sizes, state)
        raise error from None
    paths = [os.path.join(folder, name + ending) for ending in (".h", ".o")]
    for where, data in zip(paths, (made[0].encode(), made[1])):
        with open(where, "wb") as file:
            file.write(data)
    return paths
