# SPDX-License-Identifier: Apache-2.0
"""Programs in files: anfora.read gives their functions, which are called, differentiated, trained and saved like others."""
from __future__ import annotations

import os
import re
import tempfile
from typing import Any, Iterator

from . import _core
from ._compile.emit import Builder, safe_name
from ._errors import CompileError, Finding, SourceMap, translated
from ._function import Function
from ._interpreted import BY_VALUES
from ._tree import Shape, quoted
from ._types import DTYPES, TensorType


class _Whole:
    """A program that was read, as the calls of a function of it need it."""

    def __init__(self, core: Any, start: str, prints: bool) -> None:
        self.core, self.start, self.name, self.prints = core, start, start, prints
        self.hosted, self.own_prints = False, ""
        self.statics: Any = None
        self.arrays, self.classes, self.keep, self.explains, self.rolled, self.grows, self.checked, self.hints = (), [], [], False, False, False, False, []
        self.map = SourceMap([], [])
        self.files, self.marks = [], b""

    @property
    def text(self) -> str:
        return self.core.print("ir")

    def error(self, failure: Exception, kind: type = CompileError) -> Any:
        return translated(failure, kind, self.name, self.map)


class ReadFunction(Function):
    """A function of a program that was read. In other programs it stands with all of its own."""

    def __init__(self, module: "Module", name: str, params: list, options: dict) -> None:
        super().__init__(name, len(params), **options)
        self._module, self._start = module, name
        self._params = [n or f"a{i}" for i, (n, _) in enumerate(params)]
        self._types = {i: t for i, (_, text) in enumerate(params) if (t := _tensor_type(text)) is not None}
        self._whole = _Whole(module._core, name, module._prints)  # one for all calls: code of several sizes belongs to it

    def _declared(self) -> dict[int, TensorType]:
        return self._types

    def _bind(self, args: tuple, kw: dict) -> tuple:
        given = dict(zip(self._params, args))
        for name, x in kw.items():
            if name not in self._params or name in given:
                raise TypeError(f"{self.__name__}() has no further argument {name}; it takes {', '.join(self._params)}")
            given[name] = x
        if len(args) > len(self._params) or len(given) < len(self._params):
            raise TypeError(f"{self.__name__}() takes {len(self._params)} arguments, not {len(args) + len(kw)}")
        return tuple(given[n] for n in self._params)

    def _program(self, statics: dict[int, Any], shapes: list[Shape], unrolled: bool = False, prints: str = "") -> Any:
        if statics:
            raise TypeError(f"{self.__name__}() was read from a file and takes arrays and numbers alone")
        return self._whole

    def _compiled(self, program: Any, types_: list[str], statics: dict[int, Any], shapes: list[Shape]) -> tuple[Any, Any]:
        """As of other functions; where numbers of arguments decide sizes, code is made for those of each call, as no file can say static_argnums."""
        try:
            return super()._compiled(program, types_, statics, shapes)
        except CompileError as error:
            if not any(f.code in BY_VALUES for f in error.findings):
                raise
            return program, self._exec(program, None)

    def _emit(self, b: Builder) -> str:
        """A call of it; the whole program that it is of stands in the other one as it is."""
        b.whole(self._module, self._module._core.print("ir"))
        return b.unit(self, self._start, self._written)

    def _written(self, unit: Any) -> str:
        names = ", ".join(self._names())
        return f"def \ue001{unit.number}\ue002({names}) {{\n  {quoted(self._start)}({names})\n}}\n"

    def _names(self) -> list[str]:
        """Of the parameters in texts, where `wrt` finds them."""
        return [safe_name(n) if quoted(n) == n else quoted(n) for n in self._params]

    def _root(self, b: Builder, statics: dict[int, Any], shapes: list[Shape]) -> tuple[str, list[str]]:
        return self._emit(b), self._names()


class Module:
    """The functions of a program: ``module.f`` and ``module["f"]``; it can be gone over. ``module(...)`` calls ``main``, or the
    only function."""

    def __init__(self, core: Any, path: str, options: dict) -> None:
        self._core, self._path = core, path
        found, self._prints = core.functions()
        self._functions = {name: ReadFunction(self, name, params, options) for name, params in found if name.isidentifier()}

    def __getattr__(self, name: str) -> ReadFunction:
        if name.startswith("_") or name not in self._functions:
            raise AttributeError(f"{self._path} has no function {name}; it has {', '.join(self._functions)}")
        return self._functions[name]

    def __getitem__(self, name: str) -> ReadFunction:
        return self._functions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._functions]

    def __call__(self, *args: Any, **kw: Any) -> Any:
        f = self._functions.get("main") or (next(iter(self._functions.values())) if len(self._functions) == 1 else None)
        if f is None:
            raise TypeError(f"{self._path} has no function main; call one of {', '.join(self._functions)}")
        return f(*args, **kw)

    def __repr__(self) -> str:
        return f"<anfora module {self._path}: {', '.join(self._functions)}>"


def _tensor_type(text: str | None) -> TensorType | None:
    """A type of a file, if it is one of arrays."""
    match = re.fullmatch(r"(\w+)(?:\[(.*)\])?", text or "")
    if match is None or match[1] not in DTYPES:
        return None
    dims = [d.strip() for d in match[2].split(",")] if match[2] else []
    return TensorType(DTYPES[match[1]], tuple(int(d) if d.isdigit() else None if d == "?" else d for d in dims))


READ_OPTIONS = {"backend", "fast", "threads", "tune", "max_compiled", "dynamic", "interpret_after"}

# ---- StableHLO ----

BYTECODE = b"ML\xefR"  # the first bytes of MLIR's bytecode


def read_text(text: str) -> Any:
    """The program of a text of StableHLO."""
    handle, path = tempfile.mkstemp(suffix=".mlir")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as f:
            f.write(text)
        return _core.Program.read(path)
    finally:
        os.unlink(path)


def is_bytecode(path: str) -> bool:
    try:
        with open(path, "rb") as f:
            return f.read(len(BYTECODE)) == BYTECODE
    except OSError:
        return False


def stablehlo_of(path: str) -> str:
    """The text of a portable artifact of StableHLO, which its own library makes: jaxlib has it."""
    try:
        from jax._src.interpreters.mlir import make_ir_context
        from jaxlib.mlir.dialects import stablehlo
    except ImportError as e:
        raise CompileError([Finding("E1220", f"this is MLIR bytecode, which jaxlib turns into text, and that cannot be imported: {e}", path,
                                    hint="install jax, or write the text: jax.jit(f).lower(x).as_text()")], "ANF_UNSUPPORTED") from None
    with open(path, "rb") as f, make_ir_context() as context:
        try:
            return str(stablehlo.deserialize_portable_artifact(context, f.read()))
        except Exception as e:  # jaxlib has no class of its own for it
            raise CompileError([Finding("E1220", f"this is no portable artifact of StableHLO: {str(e).strip() or type(e).__name__}", path)],
                               "ANF_INVALID") from None


def read(path: Any, imports: Any = None, **options: Any) -> Module:
    """The functions of a program in a file of any format that ``anfora print`` reads: .anf, .ir, .dat, models such as
    .pnnx.param and .mindir. Each is called, differentiated and used in other compiled functions as those of Python are.
    What the program imports is in its own folder or below it, or in the folder `imports`. Portable bytecode of StableHLO
    (.mlir.bc, ``jax.export``) is read where jaxlib is installed. Options are those of ``jit`` but for static arguments.

    >>> module = anfora.read("examples/fibonacci.anf")
    >>> module.fibonacci(20)
    6765
    """
    path = os.fspath(path)
    if unknown := options.keys() - READ_OPTIONS:
        raise TypeError(f"read() has no option {', '.join(sorted(unknown))}; it has {', '.join(sorted(READ_OPTIONS))}")
    try:
        core = read_text(stablehlo_of(path)) if is_bytecode(path) else _core.Program.read(path, None if imports is None else os.fspath(imports))
    except _core.Failure as failure:
        raise translated(failure, CompileError, "", SourceMap([], [])) from None
    return Module(core, path, options)
