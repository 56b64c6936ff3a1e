# SPDX-License-Identifier: Apache-2.0
"""Numbers of an optimizer's groups that a program takes as inputs: those that changed between steps, as schedulers change momentum.
Where the optimizer branches on one (`if momentum != 0`), the trace takes the branch of its value then, and the program serves all values
that take the same one."""
from __future__ import annotations

import contextlib
import functools
import inspect
import random
import sys
import types
from typing import Any, Callable
from unittest import mock

import sympy
import torch

Place = tuple  # (number of the group, name, place in a tuple or None)

FIXED = ("params", "lr", "initial_lr", "max_lr", "min_lr", "max_momentum", "base_momentum", "swa_lr")  # of schedulers, or inputs anyway


def numbers(optimizer: Any) -> dict:
    """The real numbers among the settings, by place."""
    found = {}
    for i, group in enumerate(optimizer.param_groups):
        for name, value in group.items():
            if name not in FIXED:
                for k, v in enumerate(value) if isinstance(value, (tuple, list)) else [(None, value)]:
                    if type(v) is float:
                        found[i, name, k] = v
    return found


def others(optimizer: Any) -> tuple:
    """The settings that are no real numbers."""
    plain = lambda v: tuple(type(x) if type(x) is float else x for x in v) if isinstance(v, (tuple, list)) else type(v) if type(v) is float else v  # noqa: E731
    return tuple((name, plain(v)) for g in optimizer.param_groups for name, v in g.items() if name not in FIXED)


@functools.cache
def _of_every_optimizer() -> frozenset:
    return frozenset(vars(torch.optim.SGD([torch.zeros(1)], lr=1.0))) | {"step", "_opt_called", "_step_count"}  # the last are of schedulers


def own(optimizer: Any) -> tuple:
    """The attributes that the class of an optimizer adds."""
    return tuple((k, plain(v)) for k, v in vars(optimizer).items() if k not in _of_every_optimizer())


def put(group: dict, number: int, values: dict) -> dict:
    """The group with these values at their places."""
    group = dict(group)
    for (i, name, k), v in values.items():
        if i == number:
            group[name] = v if k is None else tuple(v if j == k else x for j, x in enumerate(group[name]))
    return group


@contextlib.contextmanager
def numbers_of_traces(optimizer: type) -> Any:
    """While an optimizer's step is traced: the lesser and the greater of numbers that a trace does not know (Adafactor), and tensors in place
    of numbers (capturable) on processors as well."""
    names = inspect.unwrap(optimizer.step).__globals__  # type: ignore[attr-defined]
    devices = "_get_capturable_supported_devices"

    def chosen(of: Callable, tensors: Callable) -> Callable:
        def choose(*xs: Any, **words: Any) -> Any:
            if not any(isinstance(x, torch.SymFloat) for x in xs):
                return of(*xs, **words)
            return functools.reduce(tensors, (torch.scalar_tensor(x, dtype=torch.float64) for x in xs)).item()
        return choose
    changed = {"max": chosen(max, torch.maximum), "min": chosen(min, torch.minimum)}
    with mock.patch.dict(names, {**changed, **({devices: lambda *args, **kwargs: ["cpu"]} if devices in names else {})}):
        yield


class Branches:
    """What a trace takes the inputs for where it has to decide, and what it decided."""

    def __init__(self, values: dict) -> None:
        self.values = values
        self.traces: list = []  # (ShapeEnv, its symbols in the order of the values)

    def settle(self, tensors: list) -> dict:
        """The numbers in these tensors of a trace, by place."""
        made, symbols = {}, []
        for place, t in zip(self.values, tensors):
            made[place] = number = t.item()
            env, symbol = number.node.shape_env, number.node.expr
            env.backed_var_to_val[symbol] = sympy.Float(self.values[place])
            symbols.append(symbol)
            if len(symbols) == 1:
                self.traces.append((env, symbols))
        return made

    def hold(self, values: dict) -> bool:
        """Are the decisions the same for these values?"""
        for env, symbols in self.traces:
            at = dict(zip(symbols, map(sympy.Float, values.values())))
            for guard in env.guards:
                if guard.expr.free_symbols <= at.keys() and not guard.expr.subs(at):
                    return False
        return True


# ---- what a model holds besides tensors ----

PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype)
DEEP = 8  # lists within lists; one may hold itself
HOOKS = ("_forward_hooks", "_forward_pre_hooks")
INNER = frozenset(vars(torch.nn.Module())) - {"training", *HOOKS}  # of every module


def _is_object(v: Any) -> bool:
    """Whether it is what a user's class, argparse or a dataclass made, such as a configuration."""
    return isinstance(getattr(v, "__dict__", None), dict) and not isinstance(v, (type, torch.Tensor, torch.nn.Module, types.ModuleType)) \
        and not inspect.isroutine(v) and type(v).__module__.split(".")[0] not in ("torch", "numpy", "anfora")


class _Plain:
    """Values that a trace takes as they are, in a form that can be compared; others, and what is deeper, by their type, functions by
    themselves. Of objects these attributes."""

    def __init__(self, read: set) -> None:
        self.read, self.made = read, {}  # type: ignore[var-annotated]

    def __call__(self, v: Any, deep: int = DEEP) -> Any:
        kind = type(v)
        if kind in PLAIN:
            return kind, v
        if kind in (list, tuple) and deep:
            return kind, *(self(x, deep - 1) for x in v)
        if isinstance(v, dict) and deep:
            return kind, *((k, self(x, deep - 1)) for k, x in v.items())
        if deep and _is_object(v):
            return self._object(v, deep)
        return v if inspect.isroutine(v) else kind

    def _object(self, v: Any, deep: int) -> Any:
        """Once for all that hold it; one that holds itself by its type."""
        if id(v) not in self.made:
            self.made[id(v)] = type(v)
            self.made[id(v)] = type(v), *((k, self(x, deep - 1)) for k, x in vars(v).items() if k in self.read)
        return self.made[id(v)]


def plain(v: Any) -> Any:
    """The same of one value, objects by their type."""
    return _Plain(set())(v)


def _names_of(code: Any) -> set:
    return set(code.co_names).union(*(_names_of(c) for c in code.co_consts if inspect.iscode(c)))


class Watched:
    """What a trace of a model, its loss and what clips its gradients takes as constants: attributes of modules, and the variables that
    these functions name."""

    def __init__(self, model: torch.nn.Module, functions: list) -> None:
        self.model, self.objects, self.variables, self.cells = model, [], [], []
        self.seen: set = set()
        self.read: set = set()  # names that their code has, of variables and attributes
        for f in (*functions, *(type(m).forward for m in model.modules() if not type(m).__module__.startswith("torch.nn."))):
            self.add(f)

    def add(self, f: Any) -> None:
        if f in self.seen:
            return
        self.seen.add(f)
        if isinstance(f, torch.nn.Module):
            self.objects += f.modules()
        elif isinstance(f, functools.partial):
            self.add(f.func)
        elif inspect.ismethod(f):
            self.objects += [] if isinstance(f.__self__, (type, torch.nn.Module)) else [f.__self__]
            self.add(f.__func__)
        elif inspect.isfunction(f) and not f.__module__.startswith("torch."):
            names = _names_of(f.__code__)
            self.read |= names
            self.variables += [(f.__globals__, n) for n in sorted(names) if n in f.__globals__]
            self.cells += f.__closure__ or ()

    def now(self) -> tuple:
        """All of it, as part of the key of a program."""
        found: list = []
        known = _Plain(self.read)
        for m in (*self.model.modules(), *self.objects):
            held = getattr(m, "__dict__", {})
            found.append(type(m))
            found += [(k, tuple(v) if k in HOOKS else known(v)) for k, v in held.items() if k not in INNER]
        for names, n in self.variables:
            found.append(known(names.get(n)))
        for cell in self.cells:
            try:
                found.append(known(cell.cell_contents))
            except ValueError:  # nothing is in it yet
                found.append(None)
        return tuple(found)

    def tensors(self) -> dict:
        """The tensors among it, by place."""
        found: dict = {}
        for i, m in enumerate((*self.model.modules(), *self.objects)):
            for k, v in getattr(m, "__dict__", {}).items():
                if k not in INNER:
                    self._tensors_in(v, (i, k), found)
        for names, n in self.variables:
            self._tensors_in(names.get(n), (n,), found)
        for i, cell in enumerate(self.cells):
            with contextlib.suppress(ValueError):
                self._tensors_in(cell.cell_contents, (i,), found)
        return found

    def _tensors_in(self, v: Any, place: tuple, found: dict) -> None:
        if isinstance(v, torch.Tensor):
            found[place] = v
            return
        if len(place) == DEEP:
            return
        if isinstance(v, (list, tuple)):
            inner: Any = enumerate(v)
        elif isinstance(v, dict):
            inner = v.items()
        else:
            inner = [(k, x) for k, x in vars(v).items() if k in self.read] if _is_object(v) else ()
        for k, x in inner:
            self._tensors_in(x, (*place, k), found)


def global_hooks() -> tuple:
    """Functions that are called around the forward pass of every module."""
    from torch.nn.modules import module
    return *module._global_forward_hooks.values(), *module._global_forward_pre_hooks.values()


def python_draws(watched: Watched) -> list:
    """The states of the generators of random numbers that are not PyTorch's: a trace that draws from one changes it."""
    held = [names.get(n) for names, n in watched.variables]
    held += [c.cell_contents for c in watched.cells if c != types.CellType()]
    held += [v for m in (*watched.model.modules(), *watched.objects) for v in getattr(m, "__dict__", {}).values()]
    states: list = [random.getstate()]
    states += [g.getstate() for g in held if isinstance(g, random.Random)]
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        generators = [numpy.random.mtrand._rand, *(g for g in held if isinstance(g, (numpy.random.Generator, numpy.random.RandomState)))]
        states += [repr(getattr(g, "bit_generator", None) and g.bit_generator.state or g.get_state()) for g in generators]
    return states


class Attributes:
    """The attributes of a model's modules, which a trace may write: it is undone, and a step does it again."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.held = [(n, m, {k: v for k, v in vars(m).items() if k not in INNER and k not in HOOKS}) for n, m in model.named_modules()]

    def undo(self, refuse: Callable, known: Any) -> tuple[list, list]:
        """(what was written that is no tensor, or one that is the same in all steps: [(module, name, value)], the tensors whose places others took)"""
        written: list = []
        replaced: list = []
        missing: list = []
        for path, m, before in self.held:
            now = {k: v for k, v in vars(m).items() if k not in INNER and k not in HOOKS}
            for k, v in now.items():
                old = before.get(k, self)
                if v is old or plain(v) == plain(old) and not isinstance(v, torch.Tensor):
                    continue
                if old is self:
                    del vars(m)[k]
                else:
                    vars(m)[k] = old
                name = f"{path}.{k}".lstrip(".")
                if not any(isinstance(x, torch.Tensor) for x in torch.utils._pytree.tree_leaves(v)):
                    written.append((m, k, v))
                elif old is None:
                    known_value = known.constant(v) if isinstance(v, torch.Tensor) and known.asked else v
                    (written.append((m, k, known_value)) if isinstance(known_value, torch.Tensor) and known_value is not v else missing.append(name))
                else:
                    replaced += [(name, x) for x in torch.utils._pytree.tree_leaves(old) if isinstance(x, torch.Tensor)]
        if missing:
            raise refuse(f"the model keeps a tensor in its attribute {missing[0]}, which was None", "make it a buffer")
        return written, replaced
