# SPDX-License-Identifier: Apache-2.0
"""What compiled functions have in common: their programs, the plans of their calls, and what shows them."""
from __future__ import annotations

import os
import re
import sys
import types
from typing import Any, Callable, Collection

from . import _core, _nans
from ._compile.effects import forget_effects
from ._compile.emit import Builder, Program, fail
from ._errors import AnforaError, CompileError, Finding, Place, RunError, warn
from ._compile.explain import with_values
from ._ops import operate
from ._compile.kinds import joined_hints
from ._interpreted import masks_of, plan_of_interpreted, sized_by_mask
from ._compile.owned import WHICH_PART
from ._tree import Fixed, Maker, ManyKinds, Shape, children, field_names, plain_value, shape_of, type_text
from ._types import AFFECTED, TensorType, number_types

_core.set_hooks(children, lambda text: sys.stdout.write(text), operate)


MOST_MASKS = 16
SIZE = re.compile(r"(?<=[\[ ])\d+(?=[,\]])")  # of a type's text
INTERPRET_AFTER = 3  # sizes that have code before a further one is interpreted
ANY_SIZE_AFTER = {None: 3, True: 2, False: 0}  # jit(dynamic=..): of a batch's sizes, with which any size is run
MANY_CHANGES = 10
CHANGING = ("E0953", "E0511", "E0515", "E0450")  # what a loop carries changes its type
BY_VALUE = ("E0520", "E0724")  # a size that values decide
IN_BRANCH = "E0515"  # a list that one way changes is an array there
AS_TUPLE = ("E0505", "E0512", "E0520")  # a tuple grows more often than there may be types, or its items are taken by an index that is not known


def with_arrays(program: Program, types_: list[str]) -> list[str]:
    """The types of arguments, and those of the arrays that the program refers to."""
    return types_ + [type_text((str(a.dtype), a.shape)) for a in map(_core.asarray, program.arrays)]


class Function(_core.Callable):
    """A function that is compiled when it is called with arguments of a new kind: types, shapes, structure.

    Attributes: ``compiled`` says for how many kinds there is code; ``ir()``, ``tir(*args)``, ``llvm(*args)``,
    ``asm(*args)`` and ``c(*args)`` show what the function became; in notebooks it is drawn."""

    def __init__(self, name: str, nparam: int, *, backend: str = "llvm", fast: bool = False, threads: bool = False,
                 tune: bool = False, static: tuple = (), max_compiled: int = 64, dynamic: bool | None = None,
                 interpret_after: int | None = None) -> None:
        if interpret_after is None:
            interpret_after = 0 if dynamic is False else INTERPRET_AFTER
        if interpret_after < 0:
            raise ValueError(f"interpret_after is a number of sizes, not {interpret_after}")
        self.__name__ = self.__qualname__ = name
        self._options = (backend, fast, threads, tune)
        self._most, self._dynamic = max_compiled, dynamic
        self._interpret_after = interpret_after
        self._sized: dict[tuple, set] = {}  # with `interpret_after`: of each program and kind of arguments but for sizes, those that have code
        self._codes: dict[Program, Any] = {}  # of each program: whose code that for other types shares
        self._nparam, self._static = nparam, frozenset(static)
        self._checks = True  # is what nothing reads typed?
        self._variants: dict[tuple, Function] = {}  # by the places of integers that are constants of the code, though nobody said so, and of lists that it changes
        self._constants = False  # are captured arrays constants of the code?
        self._programs: dict = {}
        self._watched: dict = {}  # what names from outside are in the code
        self._changes = 0
        AFFECTED.add(self)
        self._setup(_core, nparam, max_compiled, self._static)

    def _inherited(self) -> dict[str, Any]:
        """The options that what is made of the function has, too: its gradient runs on the same engine."""
        return dict(zip(("backend", "fast", "threads", "tune"), self._options)) | {"max_compiled": self._most, "interpret_after": self._interpret_after}

    # ---- what the kinds of functions differ in ----

    def _optioned(self, options: dict[str, Any]) -> "Function":
        """The function, compiled with other options."""
        warn(f"jit({self.__name__}, {', '.join(options)}) changes nothing, as {self.__name__} is compiled already: "
             "give the options where it is written")
        return self

    def _emit(self, b: Builder) -> str:
        """The function as text that stands in a program."""
        raise NotImplementedError

    def _emit_like(self, b: Builder, shapes: list[Shape]) -> str:
        """The same for arguments of these structures; None and texts among them are given all the same."""
        return self._emit(b)

    def _of(self, n: int) -> "Function":
        """The function as one of n arguments, if it takes any number of them."""
        return self

    def _root(self, b: Builder, statics: dict[int, Any], shapes: list[Shape]) -> tuple[str, list[str]]:
        """The unit to call, and the names of its parameters."""
        raise NotImplementedError

    def _declared(self) -> dict[int, TensorType]:
        return {}

    def _bind(self, args: tuple, kw: dict) -> tuple:
        if kw:
            raise TypeError(f"{self.__name__}() takes no arguments by name")
        raise TypeError(f"{self.__name__}() takes {self._nparam} arguments, not {len(args)}")

    # ---- compiling ----

    def _program(self, statics: dict[int, Any], shapes: list[Shape], unrolled: bool = False, picks: frozenset = frozenset(), prints: str = "",
                 rows: bool = False) -> Program:
        """The function as a program; `rows`: lists that loops make longer, or whose index is not known, are arrays; `picks`: the places of x[mask] that have as many elements as the mask says; `prints`: how it has to
        print, if not by Python. What is refused as something is not known is tried again with copies of functions for the integers that they are
        called with: sizes and counts are known in these."""
        try:
            return self._written(statics, shapes, unrolled, unrolled, picks, prints, rows)
        except CompileError as error:
            if unrolled:
                raise
            by_index = not rows and any(f.message == WHICH_PART for f in error.findings)
            for counts, as_rows in ((True, rows), *([(False, True)] if by_index else [])):
                try:
                    return self._written(statics, shapes, False, counts, picks, prints, as_rows)
                except CompileError:
                    continue
            raise error from None

    def _written(self, statics: dict[int, Any], shapes: list[Shape], unrolled: bool, counts: bool, picks: frozenset, prints: str,
                 rows: bool = False) -> Program:
        key = (self._checks, unrolled, counts, picks, prints, rows, tuple((i, type(x), x) if i in self._static else (i, id(x)) for i, x in sorted(statics.items())),
               tuple((s.key(), s.numbers()) for s in shapes if s.kind != "static"))
        typed = key + (tuple(str(p.of) for s in shapes for p in s.walk() if p.kind == "leaf"),)
        if typed in self._programs:
            return self._programs[typed]
        if key not in self._programs:
            b = Builder()
            b.unrolls, b.counts, b.picks, b.own_prints, b.rows, b.checks = unrolled, counts, picks, prints, rows, self._checks
            root, params = self._root(b, statics, shapes)
            program = b.program(root, params, f"<{self.__name__}>")
            program.statics = statics, shapes  # keeps what the key is of
            if b.typed:
                key = typed
            self._programs[key] = program
            if program.watched and not self._constants:
                self._watched |= program.watched
                self._watch(tuple(self._watched.values()))
        return self._programs[key]

    def _changed(self, name: Any) -> None:
        """What the extension calls before a call where names from outside are others than in the code."""
        self._programs.clear()
        self._watched = {}
        forget_effects()
        self._changes += 1
        if self._changes == MANY_CHANGES:
            warn(f"{self.__name__}() is compiled anew at each call, as {name!r} from outside has changed {MANY_CHANGES} times: "
                 "make it an argument")

    def _program_for(self, args: tuple, prints: str = "") -> Program:
        shapes, statics = self._shapes(args)
        return self._program(statics, shapes, prints=prints)

    def _shapes(self, args: tuple) -> tuple[list[Shape], dict[int, Any]]:
        shapes, statics = [], {}
        for i, x in enumerate(args):
            s = Shape("static", of=x) if i in self._static else shape_of(x)
            if isinstance(x, Fixed):
                s.of = x = x.value
            if s.kind in ("list", "tuple") and _all_functions(s):
                x = type(x)(x)  # a list may be changed
                s = Shape("static", of=x)
            if (s.kind == "static" and not isinstance(s.of, _core.Fn)) or s.kind == "none":
                statics[i] = x
            shapes.append(s)
        return shapes, statics

    def _needs_no_checks(self, program: Program, error: CompileError) -> bool:
        """Whether an error may be of a size that only a value which nothing reads needs: from then on these are not typed."""
        if not self._checks or not program.checked or not any(f.code in BY_VALUE or sized_by_mask(f) for f in error.findings):
            return False
        self._checks = False
        return True

    def _fit(self, shapes: list[Shape], statics: dict) -> list[str | None]:
        """Arguments against what the parameters declare; gives what numbers are cast to."""
        casts: list[str | None] = []
        dims: dict[str, int] = {}
        declared = self._declared()
        for i, s in enumerate(shapes):
            if i in statics:
                if i in declared and s.kind == "static" and i not in self._static:
                    self._fit_one(i, s, declared[i], dims)
                continue
            leaves = [x for x in s.walk() if x.kind == "leaf"]
            want = declared.get(i)
            cast = self._fit_one(i, s, want, dims) if want else None
            casts += [cast] * len(leaves)
        return casts

    def _fit_one(self, i: int, s: Shape, want: TensorType, dims: dict) -> str | None:
        def wrong(why: str) -> None:
            have = s.text() if s.kind != "static" else type(s.of).__name__
            raise TypeError(f"argument {i + 1} of {self.__name__}() is {have}, but {want} is declared: {why}")
        if s.kind != "leaf":
            wrong("it is no tensor")
        name, shape = s.of
        weak = name in ("int", "float", "complex", "bool") and not shape
        fits = name == want.dtype.name or (weak and (name == "int" or want.dtype.name[0] in "fbc"))
        if not fits:
            wrong("the element types differ; cast it before")
        if len(shape) != len(want.dims):
            wrong(f"it has {len(shape)} dims, not {len(want.dims)}")
        for have, d in zip(shape, want.dims):
            if isinstance(d, str):
                if dims.setdefault(d, have) != have:
                    wrong(f"{d} is {dims[d]} elsewhere")
            elif d not in (None, Ellipsis) and d != have:
                wrong("the dims differ")
        cast = want.dtype.name if weak and name != want.dtype.name else None
        if cast:
            s.of = (cast, ())
        return cast

    def _compile(self, args: tuple) -> Any:
        """What the extension calls for a new kind of arguments: gives the plan of such calls."""
        try:
            return self._plan(args)
        except AnforaError as e:
            if isinstance(e, CompileError) and (plan := self._plan_by_value({f.code for f in e.findings}, args)) is not None:
                return plan
            if isinstance(e, CompileError) and (plan := plan_of_interpreted(self, e)) is not None:
                return plan
            if any(f.code == "E0442" for f in e.findings):  # a check of shapes, which are known
                e = with_values(self, e, args)
            raise e.with_traceback(None) from None  # what it says is about the user's lines, not about ours

    def _plan_by_value(self, codes: Collection[str], args: tuple) -> Any:
        """The plan of calls whose integers are constants of the code; None: that would not mend what these codes say."""
        return None

    @staticmethod
    def _say(program: Program, e: Any) -> None:
        """What compiling warned of, as Python's warnings."""
        for code, message in e.said:
            warn(f"{program.start}: {code}: {message}")

    def _plan(self, args: tuple, whole: bool = False) -> Any:
        """`whole`: None if a part of it would be interpreted."""
        shapes, statics = self._shapes(args)
        program = self._program(statics, shapes)
        casts = self._fit(shapes, statics)
        all_shapes = shapes
        refs = (shapes, program)  # what signatures know by address: keys, classes, static things
        shapes = [s for i, s in enumerate(shapes) if i not in statics]
        extra = tuple(_core.asarray(a) for a in program.arrays)
        if program.prints or _nans.on() or any(x.kind == "static" for s in shapes for x in s.walk()):
            return self._slow_plan(program, shapes, statics, casts, extra, refs, None)
        types_ = [s.text() for s in shapes] + [type_text((str(a.dtype), a.shape)) for a in extra]
        if self._is_seldom(program, types_):
            return self._seldom_plan(program, shapes, statics, casts, extra, refs, types_)
        program, e = self._compiled(program, [s.text() for s in shapes], statics, all_shapes)
        if e.said and whole:
            return None
        if e.said and (plan := self._plan_by_value([code for code, _ in e.said], args)) is not None:
            return plan
        self._say(program, e)
        extra, refs = tuple(_core.asarray(a) for a in program.arrays), (*refs, program)  # another program has other arrays
        if e.result is None or program.prints:
            return self._slow_plan(program, shapes, statics, casts, extra, refs, e)
        maker = self._maker(e.result, shapes, program)
        kinds = {t[0] for t in maker.leaves}
        if "type" in kinds:
            raise CompileError([Finding("", f"{self.__name__}() gives an element type, which is no value of compiled code",
                                        hint="return an array of that type, or take its dtype outside")], "ANF_UNSUPPORTED")
        if "str" in kinds:
            return self._slow_plan(program, shapes, statics, casts, extra, refs, e)
        numbers = number_types()
        leaves = [(numbers.get(t[0], t[0]), t[1], t[0] == "float") for t in maker.leaves]
        return _core.Plan(e, casts, leaves, maker.code, maker.objects, () if self._constants else extra, refs, None)

    def _compiled(self, program: Program, types_: list[str], statics: dict, shapes: list) -> tuple[Program, Any]:
        """The code for arguments of these types, and the program that it is of: if shapes or types change from round to round of a loop over a constant
        range, the one whose loops are written out; if a list cannot be a tuple, the one in which it is an array; if the size of x[mask] is needed, the one that counts it; if it prints in a batch, the one
        that does so without Python."""
        try:
            return program, self._exec(program, with_arrays(program, types_))
        except CompileError as error:
            if printed_in_batch(program, error):
                return self._compiled(self._program(statics, shapes, prints="batch"), types_, statics, shapes)
            if self._needs_no_checks(program, error):
                return self._compiled(self._program(statics, shapes, prints=program.own_prints), types_, statics, shapes)
            if any(map(sized_by_mask, error.findings)):
                return self._counting(error, statics, shapes, types_, program.own_prints)
            found = {f.code for f in error.findings}
            rows = [True] * (program.grows and bool(found & set(AS_TUPLE)))
            rows = rows or [False] * (program.rolled and bool(found & set(CHANGING))) + [True] * (program.grows and IN_BRANCH in found)
            for as_rows in rows:
                try:
                    other = self._program(statics, shapes, not as_rows, prints=program.own_prints, rows=as_rows)
                    return other, self._exec(other, with_arrays(other, types_))
                except CompileError:
                    continue
            raise error from None

    def _counting(self, error: CompileError, statics: dict, shapes: list, types_: list[str], prints: str) -> tuple[Program, Any]:
        """The program in which each x[mask] whose size is needed counts it, and its code: what follows is interpreted."""
        first, picks = error, frozenset()
        while True:
            found = masks_of(error) - picks
            if not found or len(picks) == MOST_MASKS:
                raise first from None
            picks |= found
            try:
                program = self._program(statics, shapes, False, picks, prints)
                return program, self._exec(program, with_arrays(program, types_))
            except CompileError as next_:
                error = next_

    def _is_seldom(self, program: Program, types_: list[str]) -> bool:
        """Whether so many sizes have code that calls of this one go to where it is decided, call by call, if they are interpreted."""
        if not self._interpret_after:
            return False
        sizes, kind = (program, *types_), (program, *(SIZE.sub("?", t) for t in types_))
        have_code = self._sized.setdefault(kind, set())
        if sizes not in have_code and program in self._codes and len(have_code) >= self._interpret_after:
            return True
        have_code.add(sizes)
        return False

    def _seldom_plan(self, program: Program, shapes: list, statics: dict, casts: list, extra: tuple, refs: tuple, types_: list[str]) -> Any:
        """Of a size that may be interpreted until that has been as much work as code: as soon as it is not, it has a plan as others."""
        e = self._exec(program, None)

        def run(args: tuple) -> Any:
            before = e.interpreted
            result = self._run(program, e, args, statics, casts, shapes, extra)
            if e.interpreted == before:  # its code is made, or that of pieces of a batch
                self._sized[program, *(SIZE.sub("?", t) for t in types_)].add((program, *types_))
                self._forget_plan(run)
            return result
        return _core.Plan(None, [], [], [], [], extra, refs, run)

    def _exec(self, program: Program, types_: list[str] | None) -> Any:
        """The code for these types; None: for those of each call, which is made, or not, when it is run."""
        fixed = self._fixed_arguments(program, len(types_)) if types_ is not None else []  # those of the code that is shared
        try:
            code = program.core.compile(program.start, types_, *self._options, fixed,
                                        ANY_SIZE_AFTER[self._dynamic], self._dynamic is True, self._codes.get(program), self._interpret_after)
        except _core.Failure as failure:
            self._codes.pop(program, None)
            raise program.error(failure) from None
        if types_ is not None and code.result is None:
            self._codes.pop(program, None)
        else:
            self._codes.setdefault(program, code)
        return code

    def clear_cache(self) -> None:
        """Forgets all code; it is made anew when it is needed."""
        super().clear_cache()
        for f in self._variants.values():
            f.clear_cache()
        self._codes.clear()
        self._sized.clear()

    def explain(self) -> str:
        """For which arguments code was made, and why each time; and whether one code is for batches of any size."""
        said = [code.explain() for f in (self, *self._variants.values()) for code in f._codes.values()]
        return f"{sum(n for n, _ in said)} compilations\n" + "".join(text for _, text in said)

    def _fixed_arguments(self, program: Program, n: int) -> list[tuple[int, Any]]:
        """Of the n parameters of the program: the last are captured arrays."""
        first = n - len(program.arrays)
        return [(first + i, x) for i, x in enumerate(program.arrays)] if self._constants else []

    def _result_types(self, args: tuple, make: Callable) -> Any:
        """make(shape, element type) of each array of the result, in its structure."""
        args = self._bind(args, {}) if len(args) != self._nparam else args
        shapes, statics = self._shapes(args)
        program = self._program(statics, shapes)
        self._fit(shapes, statics)
        all_shapes, shapes = shapes, [s for i, s in enumerate(shapes) if i not in statics]
        program, e = self._compiled(program, [s.text() for s in shapes], statics, all_shapes)
        self._say(program, e)
        if e.result is None:
            raise TypeError(f"{self.__name__}() gives a function, or an array whose size depends on data: that has no shape")
        maker = self._maker(e.result, shapes, program)

        def of(t: Any) -> Any:
            if t[0] in ("tuple", "record"):
                return tuple(map(of, t[-1]))
            return None if t[0] == "none" else make(t[1], number_types().get(t[0], t[0]))
        return maker.restructure(of(e.result))

    def _place(self) -> Place | None:
        """Where the function is defined."""
        code = getattr(self.__wrapped__, "__code__", None) if hasattr(self, "__wrapped__") else None
        return Place(code.co_filename, code.co_firstlineno, 1, 10**6) if code is not None else None

    def _maker(self, result: Any, shapes: list[Shape], program: Program) -> Maker:
        maker = Maker(shapes, program.classes)
        try:
            maker.add(result, joined_hints(program.hints))
        except ManyKinds as e:
            fail(e.either.place or self._place(), f"{self.__name__}() returns {e.either}", "return the same of both: list() and tuple() make one of the other")
        return maker

    # ---- calls that need the context: programs that print, functions among arguments and results ----

    def _slow_plan(self, program: Program, shapes: list, statics: dict, casts: list, extra: tuple, refs: tuple,
                   e: Any) -> Any:
        state: dict = {"exec": e}

        def slow(args: tuple) -> Any:
            if state["exec"] is None:
                state["exec"] = self._exec_for(program, args, statics, shapes, extra)
            return self._run(program, state["exec"], args, statics, casts, shapes, extra)
        return _core.Plan(None, [], [], [], [], extra, refs, slow)

    def _exec_for(self, program: Program, args: tuple, statics: dict, shapes: list, extra: tuple) -> Any:
        if any(x.kind == "static" for s in shapes for x in s.walk()):
            try:
                fixed = self._fixed_arguments(program, len(shapes) + len(extra))
                return program.core.compile(program.start, None, *self._options, fixed)
            except _core.Failure as failure:
                raise program.error(failure) from None
        e = self._exec(program, [s.text() for s in shapes] + [type_text((str(a.dtype), a.shape)) for a in extra])
        self._say(program, e)
        return e

    @staticmethod
    def _values(args: tuple, statics: dict, casts: list, shapes: list) -> list:
        """The arguments as the core takes them."""
        values: list = []
        k = 0
        for i, x in enumerate(args):
            if i not in statics:
                values.append(plain_value(x, casts[k] if k < len(casts) else None))
                k += sum(1 for s in shapes[len(values) - 1].walk() if s.kind == "leaf")
        return values

    def _run(self, program: Program, e: Any, args: tuple, statics: dict, casts: list, shapes: list, extra: tuple, interpreted: bool = False) -> Any:
        try:
            values = self._values(args, statics, casts, shapes)
            raw, result = (e.interpret if interpreted else e.run)(*values, *extra)
            if _nans.on() and _nans.has_nan(raw):
                self._stop_at_nan(program, e, (*values, *extra))
        except _core.Failure as failure:
            raise with_values(self, program.error(failure, RunError), args) from None
        if result is None:
            return _closures(raw)
        return self._maker(result, shapes, program).restructure(raw)

    @staticmethod
    def _stop_at_nan(program: Program, e: Any, values: tuple) -> None:
        """An error at the operation that made the first NaN, if none of the arguments holds one."""
        try:
            e.check_nan(*values)
        except _core.Failure as failure:
            error = program.error(failure, _nans.NanError)
            for f in error.findings:
                f.message = f.message.replace("assertion failed: ", "")
            raise _nans.NanError(error.findings, error.status) from None

    def _run_once(self, program: Program, args: tuple, statics: dict, casts: list, shapes: list) -> None:
        """Interprets a program that is not kept, up to where it stops, as an AnforaError says. Types are not found before: a check that
        they fail is one of the program's."""
        extra = tuple(_core.asarray(a) for a in program.arrays)
        try:
            e = program.core.compile(program.start, None, "interp", *self._options[1:], self._fixed_arguments(program, len(shapes) + len(extra)))
            e.interpret(*self._values(args, statics, casts, shapes), *extra)
        except _core.Failure as failure:
            raise program.error(failure, RunError) from None

    def _failed(self, e: Any, args: tuple) -> Any:
        """The code stopped: once more, in the way that can say why."""
        shapes, statics = self._shapes(args)
        program = self._program(statics, shapes)
        casts = self._fit(shapes, statics)
        shapes = [s for i, s in enumerate(shapes) if i not in statics]
        return self._run(program, e, args, statics, casts, shapes, tuple(_core.asarray(a) for a in program.arrays))

    def _stepper(self, args: tuple, nstate: int, keep: bool, comm: Any = None, shard: int = 0,
                 split: str | None = None, params: int = 0) -> Any:
        """The function as a training step: the first `nstate` arguments are its state, and the first results the new
        one, which is put where the old one was. `keep`: a step that gives no number changes nothing. Gives it and
        its program; None if there can be no such step: numbers without element types, or a state whose type changes."""
        shapes, statics = self._shapes(args)
        program = self._program(statics, shapes)
        weak = any(s.kind == "static" or s.kind == "leaf" and s.of[0] in ("int", "float", "complex") for x in shapes for s in x.walk())
        backend, fast, threads, tune = self._options
        if statics or weak or program.prints or backend == "interp":
            return None
        captured = tuple(_core.asarray(a) for a in program.arrays)
        types_ = [s.text() for s in shapes] + [type_text((str(a.dtype), a.shape)) for a in captured]
        try:
            made = _core.Stepper(program.text, program.name, program.marks, program.files, program.start, types_, nstate,
                                 backend, fast, tune, os.cpu_count() if threads else 1, keep, captured, args[nstate:], comm, shard,
                                 split, params)
        except _core.Failure as failure:
            error = program.error(failure)
            if self._needs_no_checks(program, error):
                return self._stepper(args, nstate, keep, comm, shard, split, params)
            if any(f.code in ("E1110", "E1111") for f in error.findings) or printed_in_batch(program, error):
                return None
            raise error from None
        return made, program

    # ---- constants ----

    def fix(self, *args: Any, **kw: Any) -> "Function":
        """The function of the other arguments: these, as functools.partial takes them, are constants of its code, and so are
        arrays that the function captures. What depends on them alone is computed when the code is made, and weights are
        packed for the kernels of products. Arguments have the values of now, captured arrays those of when code is made.

        >>> infer = model.fix(params)
        >>> y = infer(x)"""
        from ._fix import FixedFunction
        return FixedFunction(self, self._chosen(args, kw))

    def _chosen(self, args: tuple, kw: dict) -> dict[int, Any]:
        """These arguments by position."""
        if self._nparam < 0:
            raise TypeError(f"{self.__name__}() takes any number of arguments: fix one that takes a known number")
        if kw or len(args) > self._nparam:
            self._bind(args, kw)
        return dict(enumerate(args))

    # ---- looking at it ----

    def ir(self, *args: Any) -> str:
        """The graphs of the function as text; arguments matter only if some are functions."""
        return self._program_for(args).core.print("ir")

    def dot(self, *args: Any) -> str:
        """The graphs as a drawing for graphviz."""
        return self._program_for(args).core.print("dot")

    def html(self, *args: Any) -> str:
        """The graphs as one page to look around in."""
        return self._program_for(args).core.print("html")

    def dat(self, *args: Any) -> str:
        """The graphs in the exact form, which `anfora` reads back."""
        return self._program_for(args, "alone").core.print("dat")

    def save(self, path: Any, *args: Any) -> None:
        """Writes the program of the function: as text (.anf, .ir) or exactly (.dat), where the arguments matter only if some
        are functions; or as a model (.onnx, .mindir) for arguments like these. ``anfora`` and ``anfora.read`` read it."""
        ending = os.path.splitext(os.fspath(path))[1]
        form = {".anf": "ir", ".ir": "ir", ".dat": "dat"}.get(ending)
        if form is None and ending not in (".onnx", ".mindir"):
            raise ValueError(f"{os.fspath(path)}: the name of a program ends in .anf, .ir, .dat, .onnx or .mindir")
        data = self._model(ending[1:], args) if form is None else self._program_for(args, "alone").core.print(form).encode()
        if self._program_for(args).arrays:
            raise ValueError(f"{self.__name__}() captures arrays, which a program has not: give them as arguments")
        with open(path, "wb") as file:
            file.write(data)

    def build(self, path: Any, *args: Any, sizes: Any = None, state: int | None = None) -> list[str]:
        """Writes PATH.o and PATH.h, for C and C++ without Python and the compiler: the function for arguments like these, which may
        be types (``f32["B", 8]``); without arguments, for the declared types. Gives the paths. Where types name dims, ``sizes``
        says their sizes, as a dictionary of numbers or as text: the object has code for each combination, at most 64, and the C
        function takes the sizes first. ``state``: it is a training step whose first so many arguments are its state, updated in place.

        >>> forward.build("out/forward", {"w": f32[8, 2]}, f32["B", 8], sizes={"B": [1, 8, 16]})"""
        from ._build import build
        return build(self, path, args, sizes, state)

    def _model(self, form: str, args: tuple) -> bytes:
        shapes, statics = self._shapes(args)
        program = self._program(statics, shapes, prints="alone")
        self._fit(shapes, statics)
        types_ = [s.text() for i, s in enumerate(shapes) if i not in statics]
        types_ += [type_text((str(a.dtype), a.shape)) for a in map(_core.asarray, program.arrays)]
        try:
            return program.core.model(program.start, types_, form)
        except _core.Failure as failure:
            if self._needs_no_checks(program, error := program.error(failure)):
                return self._model(form, args)
            raise error from None

    def source(self, *args: Any) -> str:
        """The program that the function was written as, in Anfora's language."""
        return self._program_for(args).text

    def lowered(self, form: str, *args: Any) -> str:
        """What the function becomes for these arguments: "tir", "llvm", "asm" or "c"."""
        shapes, statics = self._shapes(args)
        program = self._program(statics, shapes, prints="alone" if form == "c" else "")
        self._fit(shapes, statics)
        types_ = [s.text() for i, s in enumerate(shapes) if i not in statics]
        types_ += [type_text((str(a.dtype), a.shape)) for a in map(_core.asarray, program.arrays)]
        backend, *others = self._options

        def of(program: Program) -> str:
            try:
                return program.core.lowered(program.start, types_, "cjit" if form == "c" else backend, *others, form)
            except _core.Failure as failure:
                raise program.error(failure) from None
        try:
            return of(program)
        except CompileError as error:
            if self._needs_no_checks(program, error):
                return self.lowered(form, *args)
            if not printed_in_batch(program, error):
                raise
        return of(self._program(statics, shapes, prints="batch"))

    def tir(self, *args: Any) -> str:
        """The loops that the function becomes for these arguments."""
        return self.lowered("tir", *args)

    def llvm(self, *args: Any) -> str:
        """The function as LLVM IR, for these arguments."""
        return self.lowered("llvm", *args)

    def asm(self, *args: Any) -> str:
        """The function as assembly, for these arguments."""
        return self.lowered("asm", *args)

    def c(self, *args: Any) -> str:
        """The function as C, for these arguments."""
        return self.lowered("c", *args)

    def svg(self, *args: Any) -> str:
        """The graphs as a picture; graphviz draws it."""
        from ._view import svg
        return svg(self.dot(*args))

    def _repr_svg_(self) -> str | None:
        from ._view import svg
        try:
            return svg(self.dot())
        except (OSError, AnforaError):
            return None

    def __repr__(self) -> str:
        return f"<anfora function {self.__name__}>"

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        fields = getattr(instance, "__dict__", None)
        if field_names(type(instance)) is not None or fields is None or not hasattr(self, "__wrapped__"):
            return types.MethodType(self, instance)
        name = f"_anfora_{self.__name__}"  # code in which the object is constant, kept with it
        if name not in fields:
            from ._jit import Bound
            fields[name] = Bound(types.MethodType(self.__wrapped__, instance))
        return fields[name]


def printed_in_batch(program: Program, error: CompileError) -> bool:
    """Whether vmap refused what Python prints for one of the lanes."""
    return program.hosted and any(f.code == "E0536" for f in error.findings)


class Closure:
    """A function that a compiled function returned, with what it captured."""

    def __init__(self, fn: Any) -> None:
        self._fn = fn

    def __call__(self, *args: Any) -> Any:
        try:
            return _closures(self._fn.run(*map(plain_value, args)))
        except _core.Failure as failure:
            from ._errors import translated
            raise translated(failure, RunError, "", None) from None


def _closures(raw: Any) -> Any:
    if isinstance(raw, _core.Fn):
        return Closure(raw)
    return tuple(map(_closures, raw)) if isinstance(raw, tuple) else raw


def _all_functions(s: Shape) -> bool:
    """Is the list one of things that are static, such as the branches of lax.switch?"""
    return bool(s.parts) and all(x.kind == "static" and not isinstance(x.of, _core.Fn) for x in s.parts)
