# SPDX-License-Identifier: Apache-2.0
"""Branches on values of tensors in what compile_step traces, which has no values:

    if torch.any(var < 0):
        raise ValueError("var has negative entries")     becomes     assert(not any(var < 0), "ValueError: var has negative entries")

The trace takes a side and goes on. That the other side raises is tried in a trace of its own, and is what the program asserts. Where
neither side raises, what is computed depends on the data, which is refused."""
from __future__ import annotations

import os
import sys
import traceback
from typing import Any, Callable

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, UnsupportedOperatorException
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from .._errors import CompileError, Finding

MOST = 256  # branches of one trace: a loop that ends by a value would never end
OPEN = (GuardOnDataDependentSymNode, DataDependentOutputException, DynamicOutputShapeException, UnsupportedOperatorException)
CALL = "_call_model"  # calls the model in a trace
HERE = os.path.dirname(torch.__file__), os.path.dirname(os.path.dirname(__file__))


def model_line() -> tuple:
    """The file, the line and the column in a model, or in its loss, where its trace is, or in a layer of PyTorch's if the model has none of
    its own; () outside of a trace."""
    frame, found, layer = sys._getframe(1), (), ()
    while frame is not None:
        code = frame.f_code
        if code.co_name == CALL and code.co_filename.startswith(HERE):
            return found or layer
        place = code.co_filename, frame.f_lineno, 1
        if not code.co_filename.startswith(HERE):
            found = found or place
        elif code.co_name == "forward":
            layer = layer or place
        frame = frame.f_back  # type: ignore[assignment]
    return ()


def refuse(message: str, hint: str = "") -> CompileError:
    return CompileError([Finding("", message, *model_line(), hint=hint)], "ANF_UNSUPPORTED")


def by_data(of: Any, what: str) -> CompileError:
    """The error for what depends on data, with the line of the model."""
    frames = of if isinstance(of, list) else traceback.extract_tb(of.__traceback__)
    own = [f for f in frames if not f.filename.startswith(HERE)]
    where = (own[-1].filename, own[-1].lineno, 1) if own else ()
    return CompileError([Finding("", what, *where, hint="what a step computes may not depend on values of tensors: use torch.where, masks or "
                                 "fixed sizes, or torch.compile(model, backend=\"anfora\"), which leaves such parts to PyTorch")], "ANF_UNSUPPORTED")


class _Reached(Exception):
    """A trace that was to raise has come to the next branch."""


def _stack() -> tuple:
    """Where the program is: the same place again takes the same branch."""
    at, frame = [], sys._getframe(2)
    while frame is not None:
        at.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back  # type: ignore[assignment]
    return tuple(at)


class Decisions:
    """The sides that one trace takes: those given, then True; `ends` if it is to end at the first that is not given."""

    def __init__(self, given: list, messages: dict, ends: bool = False) -> None:
        self.given, self.messages, self.ends = given, messages, ends
        self.taken: list = []  # (side, place)
        self.frames: list = []

    def decide(self, x: torch.Tensor) -> bool:
        place, k = _stack(), len(self.taken)
        if k == len(self.given) and self.ends:
            raise _Reached
        if k == MOST:
            raise by_data(traceback.extract_stack(), f"the model decides more than {MOST} times by values of tensors")
        side = self.given[k] if k < len(self.given) else not self.messages.get((place, True))
        self.taken.append((side, place))
        self.frames.append(traceback.extract_stack())
        message = self.messages.get((place, not side))
        if message:
            torch.ops.aten._assert_async.msg(x.reshape(()).bool() if side else x.reshape(()).logical_not(), message)
        return side


def _said(e: Exception) -> str:
    lines = str(e).strip().splitlines()
    return f"{type(e).__name__}: {lines[0] if lines else ''}"


def settled(trace: Callable[[Decisions], Any]) -> Any:
    """The result of a trace whose branches on values only check them."""
    messages: dict = {}  # (place, side) to what is raised there
    given: list = []
    while True:
        run = Decisions(given, messages)
        try:
            result = trace(run)
        except (CompileError, *OPEN) as e:
            raise e if isinstance(e, CompileError) else by_data(e, _open(e)) from None
        except Exception as e:
            if not run.taken or (run.taken[-1][1], not run.taken[-1][0]) in messages:
                raise
            messages[run.taken[-1][1], run.taken[-1][0]] = _said(e)
            given = [side for side, _ in run.taken[:-1]] + [not run.taken[-1][0]]
            continue
        unknown = [k for k, (side, place) in enumerate(run.taken) if (place, not side) not in messages]
        if not unknown:
            return result
        given = [side for side, _ in run.taken]
        for k in unknown:
            key = run.taken[k][1], not given[k]
            if key not in messages:
                messages[key] = _raised(trace, [*given[:k], not given[k]], run.frames[k])


def _raised(trace: Callable[[Decisions], Any], given: list, frames: list) -> str:
    """What a trace raises after these sides."""
    try:
        trace(Decisions(given, {}, ends=True))
    except CompileError:
        raise
    except (_Reached, *OPEN):
        pass
    except Exception as e:
        return _said(e)
    raise by_data(frames, "the model decides by the value of a tensor what it computes")


def _open(e: Exception) -> str:
    if isinstance(e, DynamicOutputShapeException):
        return f"{e.func} gives a result whose size depends on data"
    if isinstance(e, (DataDependentOutputException, UnsupportedOperatorException)):
        return f"{e.func} gives a number that depends on data"
    return "the model reads a number from a tensor and decides by it"
