# SPDX-License-Identifier: Apache-2.0
"""compile_step: forward, our own backward and the optimizer's update as one program, on the model's own memory.

The forward pass and the optimizer's step() are each traced to ATen (make_fx), without gradients; Anfora differentiates the
first. What the optimizer computes from its numbers (step_t.item(), beta ** step) is traced too, so any optimizer of
torch.optim whose step has no branch on such a number compiles, and its state_dict stays its own."""
from __future__ import annotations

import collections
import contextlib
import inspect
import os
import re
from typing import Any, Callable

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.fx import traceback
from torch.utils._pytree import tree_leaves

from .. import _core
from .._compile.emit import Builder
from .._errors import CompileError, RunError
from .._tree import type_text
from ._backend import _drawn, _options, decompositions, lent
from ._decisions import OPEN, Decisions, by_data, refuse, settled
from ._graph import DTYPES, Sizes, Writer, attribute
from ._known import Known, captured, hold, memory_of
from . import _scaling as scaling
from ._own import backward_passes, reached_by
from ._settings import Attributes, Branches, Watched, global_hooks, numbers, numbers_of_traces, others, own, put, python_draws
from ._stops import Stops, as_eager

STATIC = Sizes({})
FEW = 8  # programs that change attributes of the model


# ---- tracing ----

HOW = {"tracing_mode": "fake", "_allow_non_fake_inputs": True}


@contextlib.contextmanager
def _without_onednn() -> Any:
    """An LSTM of floats without gradients would be one op of oneDNN."""
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)


def _with_negative(add: Any) -> Callable:
    """x - a * y for a number a that is an input, on whose value PyTorch's `sub` decides in a trace."""
    return lambda x, y, alpha=1: add(x, y, alpha=-alpha) if isinstance(alpha, torch.SymFloat) else NotImplemented


SUBTRACTED = {torch.ops.aten.sub.Tensor: _with_negative(torch.ops.aten.add.Tensor), torch.ops.aten.sub_.Tensor: _with_negative(torch.ops.aten.add_.Tensor)}


def _recorded(f: Callable, args: tuple, context: Any = torch.no_grad) -> Any:
    """The graph of a function of tensors as it is: it may call autograd, and write tensors in place."""
    def first(*given: Any) -> Any:
        with context():
            return f(*given)
    with torch.no_grad(), _without_onednn():
        gm = make_fx(first, SUBTRACTED, **HOW)(*args)
    for n in reversed(gm.graph.nodes):  # what measures times
        if getattr(n.target, "namespace", "") == "profiler" and not n.users:
            gm.graph.erase_node(n)
    gm.recompile()
    return gm


def _lift_constants(gm: Any) -> None:
    """Lets what is made of tensors that the model captured be written in place, as what is made of its inputs may be."""
    captured = set()
    for n in list(gm.graph.nodes):
        target = n.target if isinstance(n.target, torch._ops.OpOverload) else None
        for a, x in zip(target._schema.arguments, n.args) if target is not None else ():
            if a.alias_info is not None and x in captured and a.alias_info.is_write:
                raise refuse(f"{target} writes a tensor in place that is neither an input nor a buffer of the model", "make it a buffer")
        if n.op == "get_attr" and isinstance(attribute(n, gm), torch.Tensor):
            with gm.graph.inserting_after(n):
                lifted = gm.graph.call_function(torch.ops.aten.lift_fresh.default, (n,))
            n.replace_all_uses_with(lifted, lambda user: user is not lifted)
            captured.update((n, lifted))
        elif target is not None and target.is_view and n.args[0] in captured:
            captured.add(n)
    gm.recompile()


def _is_apart(n: Any) -> bool:
    """Whether a node makes a tensor of its own, of which there is no view: what is written to it changes no other tensor of the graph."""
    def is_view(m: Any) -> bool:
        return m.op != "call_function" or getattr(m.target, "is_view", True)
    return not is_view(n) and not any(is_view(u) for u in n.users if u.op != "output")


def _pure(gm: Any, args: tuple, settle: Callable = lambda tensors: None) -> Any:
    """The graph without mutation: what is written in place is what it returns. `settle` says of the last argument's tensors what
    they are taken for."""
    _lift_constants(gm)
    with torch.no_grad():
        run = torch.fx.Interpreter(gm).run if traceback.has_preserved_node_meta() else gm.forward
        pure = torch.func.functionalize(run, remove="mutations")
        gm = make_fx(lambda *given: (settle(given[-1]), pure(*given))[1], decompositions(), **HOW)(*args)
    for n in reversed(gm.graph.nodes):
        if n.target is torch.ops.aten.copy_.default:
            written = n.args[0]
            while written.target is torch.ops.aten.copy_.default:  # an input that is written again
                written = written.args[0]
            if written.op != "placeholder" and not _is_apart(written):
                raise refuse(f"{n} is written in place where a value is needed")
            n.replace_all_uses_with(n.args[1])
            gm.graph.erase_node(n)
    gm.graph.eliminate_dead_code()
    return gm


def _call_model(model: Any, loss: Callable | None, state: dict, batch: tuple) -> torch.Tensor:
    if loss is None:
        return torch.func.functional_call(model, state, batch)
    x = batch[0]
    args, kw = ((), x) if isinstance(x, dict) else (x, {}) if isinstance(x, (tuple, list)) else ((x,), {})
    return loss(torch.func.functional_call(model, state, tuple(args), kw), *batch[1:])


# ---- the optimizer ----

def start_state(optimizer: torch.optim.Optimizer) -> list:
    """Makes the optimizer's state as its first step does, and takes no step; gives the parameters that had none."""
    begun = []
    for group in optimizer.param_groups:
        missing = [p for p in group["params"] if p.requires_grad and not optimizer.state[p]]
        if not missing:
            continue
        begun += missing
        grads = [p.grad for p in group["params"]]
        for p in group["params"]:
            p.grad = torch.zeros_like(p) if p.requires_grad else None
        init = getattr(optimizer, "_init_group", None)
        if init is not None:
            with torch.no_grad():
                init(group, *([] for _ in list(inspect.signature(init).parameters)[1:]))
        for p, grad in zip(group["params"], grads):
            p.grad = grad
        if group.get("momentum") and "dampening" in group:  # SGD makes its buffers of the first gradient
            if group["dampening"]:
                raise refuse("the first step of SGD with dampening differs from all others, and it is exported, may be left out, or is that of "
                             "some parameters alone", "take one eager step before")
            for p in missing:
                optimizer.state[p]["momentum_buffer"] = torch.zeros_like(p)
    return begun


def _reached(forward: "_Part", n: int) -> list[bool]:
    """Which of the first n inputs the loss depends on: the optimizer skips the others, which have no gradient in eager."""
    loss = next(iter(forward.writer.graph.find_nodes(op="output"))).args[0][0]
    loss = loss[0] if isinstance(loss, (list, tuple)) else loss
    seen, todo = set(), [loss]
    while todo:
        node = todo.pop()
        if node not in seen:
            seen.add(node)
            todo += reached_by(node)
    return [p in seen for p in forward.placeholders[:n]]


def _hooks_of(p: torch.Tensor) -> tuple:
    """The functions that change the gradient of a parameter before the optimizer sees it."""
    return tuple((p._backward_hooks or {}).values())


def _refuse_hooks(model: torch.nn.Module, optimizer: Any, params: list, sums: bool) -> None:
    """Functions that eager calls while it computes gradients or updates, and that no trace shows."""
    from torch.nn.modules import module
    from torch.optim import optimizer as optimizers
    where = ""
    if any(not isinstance(k, torch.Tensor) for k in optimizer.state):
        raise refuse(f"{type(optimizer).__name__} keeps state that is of no parameter", "keep it in the state of each parameter")
    for name, m in model.named_modules():
        if m._backward_hooks or m._backward_pre_hooks:
            where = f"the module {name or type(m).__name__} has a hook of its backward pass"
    if module._global_backward_hooks or module._global_backward_pre_hooks:
        where = "all modules have a hook of their backward pass"
    if any(getattr(p, "_post_accumulate_grad_hooks", None) for p in params):
        where = "a parameter has a hook that is called after its gradient was accumulated"
    if sums and any(p._backward_hooks for p in params):
        where = "a parameter has a hook of its gradient, and gradients are gathered"
    of = optimizer, optimizers
    if any(getattr(of[k], name, None) for k, name in ((0, "_optimizer_step_pre_hooks"), (0, "_optimizer_step_post_hooks"),
                                                      (1, "_global_optimizer_pre_hooks"), (1, "_global_optimizer_post_hooks"))):
        where = "the optimizer has a hook of its steps"
    step = vars(optimizer).get("step")
    if step is not None and not hasattr(step, "_wrapped_by_lr_sched"):
        where = "the optimizer has a step() of its own, not of its class"
    if where:
        raise refuse(where, "no step would call it: put what it does into the loss, `clip` or the class of the optimizer")


def _update(optimizer: Any, groups: list, clip: Callable | None, reached: list[bool], branches: Branches, hooks: list, tensors: bool,
            scaler: tuple) -> Callable:
    """The optimizer's step as a function of (parameters, gradients, states, rates, settings, numbers of the scaler); with `tensors` what it
    decides by numbers of its state (RAdam, ASGD) is chosen by tensors."""
    def update(params: list, grads: list, states: list, rates: list, settings: list, scales: list) -> tuple:
        o = object.__new__(type(optimizer))
        vars(o).update(vars(optimizer))
        o.state = collections.defaultdict(dict)
        o.param_groups, at, values = [], 0, branches.settle(settings)
        for i, (group, count, rate) in enumerate(zip(optimizer.param_groups, groups, rates)):
            o.param_groups.append({**put(group, i, values), "params": params[at:at + count], "lr": rate, "foreach": False,
                                   **({"fused": False} if "fused" in group else {}), **({"capturable": True} if tensors else {})})
            at += count
        for p, g, s, has, changes in zip(params, grads, states, reached, hooks):
            for change in changes if has else ():
                before, version = g, g._version
                g = change(g)
                g = before if g is None and before._version != version else g  # written in place
                if not isinstance(g, torch.Tensor):
                    raise refuse(f"a hook of a parameter's gradient gives {g!r}", "it is traced once: let it give the gradient to go on with")
            p.grad = g if has else None
            o.state[p] = {k: v.double() if tensors and not v.dim() else v for k, v in s.items()}  # eager's numbers are doubles
        scaled = scaling.Scaled(scaler, scales) if scales else None
        if scaled:
            scaled.unscale(params)
            first = [{"": p.clone(), **{k: v.clone() for k, v in s.items()}} for p, s in zip(params, states)]
        if clip is not None:
            clip(params)
        held, settings = own(o), [dict(g) for g in o.param_groups]
        versions = [rate._version for rate in rates]
        with numbers_of_traces(type(o)):
            inspect.unwrap(type(optimizer).step)(o)
        for p, s in zip(params, states) if tensors else ():
            for k, v in o.state[p].items():
                o.state[p][k] = s[k].copy_(v) if k in s and v is not s[k] else v
        _refuse_moved(o, settings, [rate._version == v for rate, v in zip(rates, versions)])
        changed = [name for (name, v), (_, before) in zip(own(o), held) if v != before] or [name for name, _ in own(o)[len(held):]]
        if changed:
            raise refuse(f"{type(o).__name__} changes its attribute {changed[0]} in each step", "keep it in `state`, as a tensor of one number")
        kept = [_kept(o, o.state[p]) for p in params]
        if not scaled:
            return params, kept, []
        chosen = [scaled.choose(before, {"": p, **s}) for before, p, s in zip(first, params, kept)]
        return [s.pop("") for s in chosen], chosen, scaled.next()
    return update


def _refuse_moved(optimizer: Any, settings: list, kept: list) -> None:
    """A setting that the step itself changes, `group["k"] += 1`, would be the same in all steps; so would a rate that is not kept."""
    for group, before, rate in zip(optimizer.param_groups, settings, kept):
        moved = [k for k, v in group.items() if k not in before or v is not before[k] and (isinstance(v, torch.Tensor) or v != before[k])]
        for k in moved or ([] if rate else ["lr"]):
            raise refuse(f"{type(optimizer).__name__} changes its setting {k} in each step", "change it between steps, or keep it in `state`, as a tensor of one number")


def _kept(optimizer: Any, state: dict) -> dict:
    """What an optimizer keeps of a parameter, which are tensors: numbers of Python would be those of the trace in all steps."""
    for name, x in state.items():
        if x is not None and not isinstance(x, torch.Tensor):
            raise refuse(f"{type(optimizer).__name__} keeps {name} in its state, which is no tensor", "keep it as a tensor of one number")
    return {name: x for name, x in sorted(state.items()) if x is not None}


# ---- the program ----

class _Writes(Exception):
    """The model writes parameters that are not trained: their names."""

    def __init__(self, names: list) -> None:
        self.names = names


class _Part:
    """A traced graph as a function of the program."""

    def __init__(self, gm: Any, given: int = 0) -> None:
        self.writer = Writer(gm.graph, gm, STATIC, keep_order=False)
        self.writer.passes = backward_passes(gm.graph)
        self.writer.run()
        self.placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
        self.drawn = [n for n in self.writer.inputs if n.op == "call_function"]
        self.constants = [n for n in self.writer.inputs if n.op == "get_attr"]

    def results(self) -> list[str]:
        """The values of the outputs, those that are inputs as well."""
        names = {n: f"a{i}" for i, n in enumerate(self.writer.inputs)}
        shapes = []
        for kind, *more in self.writer.outputs:
            if kind == "value":
                raise refuse("a result of the traced step is no tensor")
            shapes.append(names[more[0]] if kind == "node" else self.writer.results[more[0]] if more[1] else
                          f"Reshape({self.writer.results[more[0]]}, shape=())")
        return shapes

    def text(self, b: Builder, name: str, result: str) -> str:
        """The function, whose result is an expression of the outputs."""
        text = self.writer.write(b, name)
        return text[:text.rstrip("}\n").rindex("\n") + 1] + f"  {result}\n}}\n"


def _order(t: torch.Tensor) -> tuple | None:
    """The axes from the outermost in memory to the innermost, where that is not their own order (channels last)."""
    return None if t.is_contiguous() else tuple(sorted(range(t.dim()), key=lambda i: (-t.stride(i), -t.shape[i])))


def _extent(t: torch.Tensor) -> tuple[int, int]:
    """The addresses of a tensor's first byte and after its last."""
    elements = sum((n - 1) * stride for n, stride in zip(t.shape, t.stride())) + 1 if t.numel() else 0
    return t.data_ptr(), t.data_ptr() + elements * t.element_size()


def _tensors(batch: Any) -> list:
    return [x for x in tree_leaves(batch) if isinstance(x, torch.Tensor)]


def _many(names: list[str]) -> str:
    return "(" + "".join(n + ", " for n in names) + ")"


class _Code:
    """The compiled step for batches of one kind. `earlier` says which parameters the losses depended on whose gradients are in the
    sums; `last` is False for a program that adds to the sums and leaves the parameters alone."""

    def __init__(self, step: "Step", batch: tuple, settings: dict, earlier: tuple, last: bool, begun: list, counts: bool) -> None:
        self.step, self.counts, o = step, counts, step.options
        self.last, self.branches, self.summed = last, Branches(settings), step.accumulate > 1
        params = step.params
        flat, self.spec = torch.utils._pytree.tree_flatten(batch)
        self.static = [None if isinstance(x, torch.Tensor) else x for x in flat]
        try:
            forward = self._forward(flat, False)
        except CompileError as first:  # of what needs a value, which may be known
            try:
                with traceback.preserve_node_meta():  # so that an error names the line of the model
                    forward = self._forward(flat, True)
            except CompileError as second:
                raise (second if self.reads or self.took or not any(f.line for f in first.findings) else first) from None
        self.reached = tuple(a or b for a, b in zip(_reached(forward, len(params)), earlier or [False] * len(params)))
        for p, r in zip(params, self.reached):  # eager begins no state where there is no gradient
            if last and not r and any(p is b for b in begun):
                step.optimizer.state[p] = {}
        states = [step.optimizer.state[p] for p in params]
        self.keys = [sorted(_kept(step.optimizer, s)) for s in states]
        self.begun: list = []  # (parameter, key) of states that this step makes
        update = self._optimizer(states, list(self.reached)) if last else None
        self.orders = [_order(t) for t in self._state(batch)]
        b = Builder()
        root = b.unit(self, "step", lambda u: self._text(b, u, forward, update))
        self.program = b.program(root, self.names, "<torch step>")
        parts = [forward, update] if update else [forward]
        self.draws = [_drawn(n, STATIC) for part in parts for n in part.drawn]
        self.constants = [attribute(n, part.writer.attributes) for part in parts for n in part.constants]
        memory = {t.untyped_storage()._cdata for t in (*self.constants, *(t for of, *_ in self.reads for t in captured(of)))}
        self.captured = {place: t for place, t in step.watched.tensors().items() if t.untyped_storage()._cdata in memory}
        with torch.random.fork_rng(devices=[]):  # the numbers of the first step are drawn when it runs
            self.inputs = self._inputs(batch)
        types = [type_text((DTYPES[t.dtype], tuple(t.shape))) for t in (*self.state(batch), *self.inputs)]
        try:
            self.stepper = _core.Stepper(
                self.program.text, self.program.name, self.program.marks, self.program.files, self.program.start, types,
                len(self.orders), o["backend"], o["fast"], o["tune"], torch.get_num_threads() if o["threads"] else 1,
                step.stop_at_nan, (), tuple(map(lent, self.inputs)))
        except _core.Failure as failure:
            raise self.program.error(failure) from None
        self.types = types
        self.bound: list = []

    # ---- what it computes with ----

    def state(self, batch: tuple) -> list:
        """The tensors that the step updates where they are, each with its axes as they are in memory."""
        return [t if order is None else t.permute(order) for t, order in zip(self._state(batch), self.orders)]

    def _state(self, batch: tuple) -> list:
        of, tensors = self.step.optimizer.state, _tensors(batch)
        more = [*self.step.sums, *(tensors[i] for i in self.writes)]
        if not self.last:
            return [*self.step.buffers.values(), *more]
        return [*self.step.params, *self.step.buffers.values(),
                *(of[p][k] for p, keys in zip(self.step.params, self.keys) for k in keys), *scaling.tensors(self.step.scaler), *more]

    def _inputs(self, batch: tuple) -> list:
        now = numbers(self.step.optimizer)
        rates = [torch.tensor(float(g["lr"]), dtype=torch.float64) for g in self.step.optimizer.param_groups]
        settings = [torch.tensor(now[place], dtype=torch.float64) for place in self.branches.values]
        before, after = ([], [*rates, *settings]) if self.last else ([*self.step.params, *scaling.tensors(self.step.scaler)[:1]], [])
        read = [x for i, x in enumerate(_tensors(batch)) if i not in self.writes]
        return [*before, *self.step.frozen.values(), *read, *(d() for d in self.draws), *self.constants, *after]

    # ---- tracing ----

    def _forward(self, flat: list, reading: bool) -> _Part:
        step = self.step
        self.reads, self.took, self.rewrites = [], False, []  # type: ignore[var-annotated]
        tensors = [x for x in flat if isinstance(x, torch.Tensor)]

        def f(params: list, buffers: list, frozen: list, given: list) -> tuple:
            nonlocal replaced
            rest = iter(given)
            batch = torch.utils._pytree.tree_unflatten([next(rest) if s is None else s for s in self.static], self.spec)
            state = dict(zip((*step.names, *step.buffers, *step.frozen), (*params, *buffers, *frozen)))
            versions, held = [x._version for x in (*params, *frozen, *given)], Attributes(step.model)
            try:
                with torch.autocast("cpu", dtype=step.autocast, enabled=step.autocast is not None):
                    value = _call_model(step.model, step.loss, state, batch)
            finally:
                self.written, replaced = held.undo(refuse, known)
            changed = [x._version != v or memory_of(x) in known.written for x, v in zip((*params, *frozen, *given), versions)]
            self.rewrites = [i for i, c in enumerate(changed[:len(params)]) if c]
            if self.rewrites and step.accumulate > 1:
                raise refuse(f"the model writes its parameter {step.names[self.rewrites[0]]} in place, and gradients are gathered",
                             "write it outside of the step, or make it a buffer")
            written = [n for n, c in zip(step.frozen, changed[len(params):]) if c]
            if written:
                raise _Writes(written)
            self.writes = [i for i, c in enumerate(changed[len(params) + len(frozen):]) if c]
            if not isinstance(value, torch.Tensor) or value.dim() or not value.is_floating_point():
                what = f"{list(value.shape)} of {value.dtype}" if isinstance(value, torch.Tensor) else f"a {type(value).__name__}"
                raise refuse(f"the loss is {what}, not one real number", "loss(model(x), ..) gives a tensor without dims")
            return [value], [*(state[n] for n in step.buffers), *(given[i] for i in self.writes),
                             *(params[i] for i in self.rewrites)]
        replaced: list = []
        known: Any = None
        args = [p.detach() for p in step.params], list(step.buffers.values()), list(step.frozen.values()), tensors

        def traced(decisions: Decisions) -> Any:
            nonlocal known

            def first(params: list, *given: list) -> tuple:
                nonlocal known
                stops.inputs = [*params, *(x for of in given for x in of)]
                known = stops.known = Known([x for of in given for x in of], [x for of in args[1:] for x in of], reading, self.counts)
                stops.trained = params
                stops.want(params)
                with as_eager(stops):
                    return f(params, *given)
            stops = Stops(decisions)
            try:
                out = _recorded(first, args)
            finally:
                self.took = known.took
            self.reads = known.reads
            return out
        before = python_draws(step.watched)
        gm = settled(traced)
        try:
            pure = _pure(gm, args)
        except (RuntimeError, *OPEN) as e:  # of sizes that the trace left open
            if not isinstance(e, OPEN) and "SymInt" not in str(e):
                raise
            raise by_data(e, "the size of a tensor depends on data") from None
        if python_draws(step.watched) != before:
            raise refuse("the model draws random numbers of Python or NumPy, which would be those of the trace in all steps",
                         "draw them by torch, or outside, and give them to the step as an argument")
        part = _Part(pure)
        constants = [attribute(n, part.writer.attributes) for n in part.constants]
        for name, x in replaced:
            if any(x is c for c in constants):
                raise refuse(f"the model reads the tensor of its attribute {name} and puts another in its place", "make it a buffer")
        return part

    def _optimizer(self, states: list, reached: list[bool]) -> _Part:
        step = self.step
        rates = [torch.tensor(float(g["lr"]), dtype=torch.float64) for g in step.optimizer.param_groups]
        params = [p.detach() for p in step.params]
        args = (params, [torch.zeros_like(p) for p in params], [{k: s[k] for k in keys} for s, keys in zip(states, self.keys)], rates,
                [torch.tensor(v, dtype=torch.float64) for v in self.branches.values.values()], scaling.tensors(step.scaler))

        def traced(tensors: bool) -> Any:
            update = _update(step.optimizer, step.counts, step.clip, reached, self.branches, [_hooks_of(p) for p in step.params], tensors,
                             scaling.fixed(step.scaler))

            def noted(*given: list) -> tuple:
                nonlocal made
                out = update(*given)
                made = torch.utils._pytree.tree_flatten(out)[1]
                return out
            return _pure(_recorded(noted, args), args, self.branches.settle)
        made: Any = None
        if inspect.signature(inspect.unwrap(type(step.optimizer).step)).parameters["closure"].default is inspect.Parameter.empty:
            raise refuse(f"{type(step.optimizer).__name__} computes the loss more than once in a step", "use torch.compile(model, backend=\"anfora\")")
        try:
            try:
                gm = traced(False)
            except GuardOnDataDependentSymNode:
                if not all("capturable" in g for g in step.optimizer.param_groups):
                    raise
                self.branches.traces.clear()
                gm = traced(True)
        except GuardOnDataDependentSymNode:
            raise refuse(f"{type(step.optimizer).__name__} decides by a number of its state what to do",
                         "those of torch.optim but LBFGS and SparseAdam do not, and Lion") from None
        self._begin(states, torch.utils._pytree.tree_unflatten([n.meta["val"] for n in gm.graph.output_node().args[0]], made)[1])
        return _Part(gm)

    def _begin(self, states: list, made: list) -> None:
        """Memory for what the optimizer's first step adds to its state."""
        for i, (state, after) in enumerate(zip(states, made)):
            for k in after.keys() - state.keys():
                state[k] = torch.empty_strided(after[k].shape, after[k].stride(), dtype=after[k].dtype).zero_()
                self.begun.append((i, k))
            self.keys[i] = sorted(after)

    def holds(self, batch: tuple) -> bool:
        """Is what the trace has read of its arguments, and are the tensors that it captured, those of this call? Have the
        arguments that it writes the same order in memory?"""
        tensors, kept = _tensors(batch), self.step.optimizer.state
        if self.last and not all(k in kept.get(p, ()) for p, keys in zip(self.step.params, self.keys) for k in keys):
            return False
        if any(_order(tensors[i]) != order for i, order in zip(reversed(self.writes), reversed(self.orders))):
            return False
        if self.captured and any(self.step.watched.tensors().get(place) is not t for place, t in self.captured.items()):
            return False
        return not self.reads or hold(self.reads, self._given(batch))

    def _given(self, batch: tuple) -> list:
        return [*self.step.buffers.values(), *self.step.frozen.values(), *_tensors(batch)]

    # ---- the text ----

    def _state_names(self) -> tuple[list, list, list]:
        """Names of the state in the program, and so in C: those of the module, in plain letters."""
        taken: set = set()

        def plain(*parts: str) -> str:
            name = "_".join(re.sub(r"\W", "_", x) for x in parts)
            while name in taken:
                name += "_"
            taken.add(name)
            return name
        step = self.step
        return ([plain("p", n) for n in step.names], [plain("b", n) for n in step.buffers],
                [plain("s", n, k) for n, keys in zip(step.names, self.keys) for k in keys])

    def _text(self, b: Builder, u: Any, forward: _Part, update: _Part | None) -> str:
        np, nb, ns = len(self.step.params), len(self.step.buffers), sum(map(len, self.keys))
        p, bufs, s = self._state_names()
        places = [(i, k) for i, keys in enumerate(self.keys) for k in keys]
        before = [name for name, place in zip(s, places) if place not in self.begun]
        rates = [f"rate{i}" for i in range(len(self.step.optimizer.param_groups))] + [f"setting{i}" for i in range(len(self.branches.values))]
        sums = [f"sum{i}" for i in range(np)] if self.summed else []
        given = [f"x{i}" for i in range(len(forward.placeholders) - np - nb)]  # frozen parameters, then the batch
        written = [given[len(self.step.frozen) + i] for i in self.writes]
        read = [x for x in given if x not in written]
        all_drawn, all_constants = ([n for part in (forward, update) if part for n in getattr(part, of)] for of in ("drawn", "constants"))
        drawn = [f"drawn{i}" for i in range(len(all_drawn))]
        constants = [f"constant{i}" for i in range(len(all_constants))]
        scales = scaling.NAMES if self.step.scaler else []
        value, *new = forward.results()

        def args(part: _Part, names: list[str]) -> str:
            known = {**dict(zip(part.placeholders, names)), **dict(zip(all_drawn, drawn)), **dict(zip(all_constants, constants))}
            return ", ".join(known[n] for n in part.writer.inputs)
        inner = b.unit(forward, "forward", lambda v: forward.text(b, f"\ue001{v.number}\ue002", f"({value}, {_many(new)})"))
        loss = f"fn ({', '.join(p)}) {{ {inner}({args(forward, [*p, *bufs, *given])}) }}"
        apart = self.summed or bool(scales)
        if apart:  # a part of the mean of all, times the scale, and the loss itself
            part = f"l / {float(self.step.accumulate)!r}" if self.summed else "l"
            loss = (f"fn ({', '.join(p)}) {{\n    (l, new) = {inner}({args(forward, [*p, *bufs, *given])})\n"
                    f"    ({' * '.join([part, *scales[:1]])}, (new, l))\n  }}")
        grads = [f"{sums[i]} + g[{i}]" if sums else f"g[{i}]" for i in range(np)]
        head = (f"  (({'_, (aux, value)' if apart else 'value, aux'}), g) = value_and_grad({loss}, wrt={_many([str(i) for i in range(np)])}, "
                f"has_aux=true)({', '.join(p)})\n")
        new, after = [f"aux[{i}]" for i in range(nb)], [f"aux[{nb + i}]" for i in range(len(written))]
        if update is None:
            self.names = [*bufs, *sums, *written, *p, *scales[:1], *read, *drawn, *constants]
            head, results = self._in_order(head, [*new, *grads, *after, "value"])
            return f"def \ue001{u.number}\ue002({', '.join(self.names)}) {{\n{head}  {_many(results)}\n}}\n"
        now = {p[i]: f"aux[{nb + len(written) + k}]" for k, i in enumerate(self.rewrites)}  # parameters that the model writes, too
        outer = b.unit(update, "update", lambda v: update.text(b, f"\ue001{v.number}\ue002", _many(update.results())))
        self.names = [*p, *bufs, *s, *scales, *sums, *written, *read, *drawn, *constants, *rates]
        head, results = self._in_order(head, [*(f"u[{i}]" for i in range(np)), *new, *(f"u[{np + i}]" for i in range(ns + len(scales))), *sums, *after, "value"])
        return (f"def \ue001{u.number}\ue002({', '.join(self.names)}) {{\n{head}"
                f"  u = {outer}({args(update, [*(now.get(n, n) for n in p), *grads, *before, *rates, *scales])})\n"
                f"  {_many(results)}\n}}\n")

    def _in_order(self, head: str, results: list[str]) -> tuple[str, list[str]]:
        """The first lines and the results, with the axes of the state as the model has them within and as memory has them outside."""
        for i, order in enumerate(self.orders):
            if order is not None:
                head = f"  {self.names[i]} = Transpose({self.names[i]}, axes={tuple(map(order.index, range(len(order))))})\n{head}"
                results[i] = f"Transpose({results[i]}, axes={order})"
        return head, results

    # ---- running ----

    def _refuse_shared(self, batch: tuple, state: list) -> None:
        """The program takes each tensor as one by itself, so what it writes may not be seen by another."""
        tensors = _tensors(batch)
        for i in self.writes:
            start, end = _extent(tensors[i])
            others = [*tensors[:i], *tensors[i + 1:], *state[:len(state) - len(self.writes)], *self.step.frozen.values(), *self.constants]
            if tensors[i].is_conj() or tensors[i].is_neg():  # whose memory holds other values
                raise refuse("the step writes an argument that is a conjugate or negative view", "call resolve_conj().resolve_neg() on it")
            if any(a < end and start < b for a, b in map(_extent, others)):
                raise refuse("the step writes an argument whose memory is that of another argument, of the model or of a tensor that the loss reads", "give it a clone()")

    def run(self, batch: tuple) -> Any:
        state = self.state(batch)
        self._refuse_shared(batch, state)
        where = [(t.data_ptr(), t.is_contiguous()) for t in state]
        if where != self.bound:
            if not all(dense for _, dense in where):
                raise refuse("a parameter, a buffer, a state or an argument that is written is not dense", "call contiguous() on it")
            if any(at % t.element_size() for (at, _), t in zip(where, state)):  # would be lent as a copy
                raise refuse("a parameter, a buffer, a state or an argument that is written is not aligned to its elements", "clone() it")
        try:
            if where != self.bound:
                self.stepper.bind([_core.lend(t) for t in state])
                self.bound = where
            value = self.stepper.run(*map(lent, self._inputs(batch)))
        except _core.Failure as failure:
            of = self.step.optimizer.state
            for i, k in self.begun:
                of[self.step.params[i]].pop(k, None)
                if not of[self.step.params[i]]:
                    del of[self.step.params[i]]
            raise self.program.error(failure, RunError) from None
        torch.autograd.graph.increment_version([t for t in state if not t.is_inference()])  # autograd, and code with frozen weights, look at it
        for module, name, v in self.written:
            setattr(module, name, v)
        return value


class Step:
    """One training step, compiled whole: ``step(x, y)`` gives the loss; the model's parameters and buffers and the
    optimizer's state change where they are."""

    def __init__(self, model: torch.nn.Module, loss: Callable | None, optimizer: torch.optim.Optimizer, *,
                 clip: Callable | None = None, autocast: torch.dtype | None = None, stop_at_nan: bool = False, accumulate: int = 1,
                 scaler: Any = None, **options: Any) -> None:
        if type(accumulate) is not int or accumulate < 1:
            raise ValueError(f"accumulate is how many calls make one update, at least 1, not {accumulate!r}")
        self.model, self.loss, self.optimizer, self.clip, self.autocast = model, loss, optimizer, clip, autocast
        self.stop_at_nan, self.scaler, self.options = stop_at_nan, scaling.enabled(scaler), _options(options)
        self.codes: dict = {}
        self.watched = Watched(model, [loss, clip])
        self.accumulate, self.gathered, self.earlier = accumulate, 0, ()
        self.sums: list = []  # of gathered gradients
        self.last: dict = {}  # of a kind of batches: the settings of its last step
        self.moving: set = set()  # settings that changed, which are inputs
        self.rewritten: set = set()  # programs after which the model has other attributes
        self.names: list = []
        self.kept: set = set()  # names of parameters that the model writes: buffers as long as they are not trained
        self._look()

    def _look(self) -> None:
        """Takes the parameters, those that are trained and those that are not, and the buffers as they are now."""
        trained = self.names
        all_of = list(self.model.named_parameters())
        names = {id(p): n for n, p in all_of}
        groups = [[p for p in g["params"] if p.requires_grad] for g in self.optimizer.param_groups]
        self.counts, self.params = [len(g) for g in groups], [p for g in groups for p in g]
        strange = [i for i, p in enumerate(self.params) if id(p) not in names]
        if strange:
            raise ValueError(f"parameter {strange[0]} of the optimizer is not one of the model")
        self.names = [names[id(p)] for p in self.params]
        mine = set(self.names)
        rest = {n: p.detach() for n, p in all_of if n not in mine}
        self.frozen = {n: p for n, p in rest.items() if n not in self.kept}
        self.buffers = {**dict(self.model.named_buffers()), **{n: p for n, p in rest.items() if n in self.kept}}
        if trained != self.names and self.gathered:
            self.names = trained
            raise refuse("which parameters are trained changed while gradients are gathered", "change it after an update")
        if trained != self.names and self.accumulate > 1:
            self.sums = [torch.zeros_like(p, requires_grad=False) for p in self.params]

    def _key(self, batch: tuple) -> tuple:
        flat, spec = torch.utils._pytree.tree_flatten(batch)
        for x in flat:
            if isinstance(x, torch.Tensor) and x.layout is not torch.strided:
                raise refuse(f"an argument of the step is a tensor of layout {x.layout}", "give it as to_dense()")
        kinds = tuple((x.dtype, tuple(x.shape)) if isinstance(x, torch.Tensor) else x for x in flat)
        last = self.gathered + 1 == self.accumulate
        _refuse_hooks(self.model, self.optimizer, self.params, self.accumulate > 1)
        hooks = tuple(map(_hooks_of, self.params))
        for f in (f for of in hooks for f in of):
            self.watched.add(f)
        of_model = self.watched.now(), tuple(self.names), tuple(self.frozen), hooks, global_hooks(), \
            tuple(None if t.is_contiguous() else t.stride() for t in (*self.params, *self.buffers.values()))
        return kinds, str(spec), *of_model, last, *((others(self.optimizer), own(self.optimizer), self.earlier, scaling.fixed(self.scaler)) if last else ())

    def _settings(self, key: tuple) -> tuple[tuple, dict]:
        """(the settings that a program is made for, those that are its inputs)"""
        now = numbers(self.optimizer)
        before = self.last.setdefault(key, now)
        self.moving |= {place for place, v in now.items() if before.get(place) != v}
        return tuple((k, v) for k, v in now.items() if k not in self.moving), {k: v for k, v in now.items() if k in self.moving}

    def code(self, batch: tuple) -> _Code:
        """The program for batches of this kind, compiled if there is none yet."""
        self._look()
        key = self._key(batch)
        fixed, moving = self._settings(key) if self.gathered + 1 == self.accumulate else ((), {})
        codes = self.codes.setdefault((key, fixed), [])
        for code in codes:
            if code.branches.values.keys() == moving.keys() and code.branches.hold(moving) and code.holds(batch):
                return code
        few = sum(bool(code.reads) for code in codes) < FEW
        begun = start_state(self.optimizer) if self.gathered + 1 == self.accumulate else []
        held = [(self.optimizer.state[p], dict(self.optimizer.state[p])) for p in self.params]
        again = False
        try:
            code = self._made(batch, moving, begun, few)
            if code.begun:
                return code  # of one step alone
            codes.append(code)
        except BaseException as e:
            for state, before in held:
                for k in state.keys() - before.keys():
                    del state[k]
            if not isinstance(e, _Writes):
                raise
            self.kept.update(e.names)
            again = True
        finally:
            if not codes:
                del self.codes[key, fixed]
            for p in self.params:  # as eager's optimizer has none where it keeps nothing
                if p in self.optimizer.state and not self.optimizer.state[p]:
                    del self.optimizer.state[p]
        return self.code(batch) if again else codes[-1]

    def _made(self, batch: tuple, moving: dict, begun: list, few: bool) -> _Code:
        """A new program; if there are many already, one that is for any number of true elements in masks."""
        try:
            code = _Code(self, batch, moving, self.earlier, self.gathered + 1 == self.accumulate, begun, few)
        except CompileError:
            if few:
                raise
            code = None
        if not few and (code is None or code.reads):
            raise refuse(f"what the step computes depends on values of its arguments, of which {FEW} different ones have a program each",
                         "use torch.where or weights instead of masks that take parts, or torch.compile(model, backend=\"anfora\")")
        return code

    @contextlib.contextmanager
    def _first_of_sgd(self) -> Any:
        """SGD's first buffers are its gradients, whatever the dampening: what a step without dampening makes of buffers of zeros. A step
        that may leave out its update is refused instead."""
        kept = self.optimizer.state
        first = [(i, g) for i, g in enumerate(self.optimizer.param_groups) if g.get("dampening") and g.get("momentum") and
                 not any(kept.get(p) for p in g["params"])]
        if not first or self.gathered + 1 < self.accumulate or self.stop_at_nan or self.scaler is not None:
            yield
            return
        dampening = [g["dampening"] for _, g in first]
        for i, g in first:
            g["dampening"] = 0.0
            self.moving.add((i, "dampening", None))  # one program for all steps
        try:
            yield
        except BaseException:
            for _, g in first:
                for p in g["params"]:
                    kept.pop(p, None)
            raise
        finally:
            for d, (_, g) in zip(dampening, first):
                g["dampening"] = d

    def __call__(self, *batch: Any) -> float:
        with self._first_of_sgd():
            code = self.code(batch)
            if code.written:
                self.rewritten.add(code)
                if len(self.rewritten) > FEW:
                    raise refuse(f"the model changes its attribute {code.written[0][1]} in each step, each of which would be a program",
                                 "make it a buffer, a tensor of one number")
            value = code.run(batch)
        if self.accumulate > 1:
            self.gathered, self.earlier = (0, ()) if code.last else (self.gathered + 1, code.reached)
            for t in self.sums if code.last else ():
                t.zero_()
        return value

    def source(self, *batch: Any) -> str:
        """The program in Anfora's language."""
        return self.code(batch).program.text


def export_step(step: Step, batch: tuple, folder: str, name: str = "step") -> list[str]:
    """Writes the step for batches of this kind as NAME.o and NAME.h, for a host in C or C++ without Python: see the header's
    NAME_run and NAME_state. The state's members are called p_ (parameters), b_ (buffers) and s_ (the optimizer's state)
    with the module's names; inputs are the batch, then what is drawn at random, then the learning
    rates and the settings that have changed between steps. Gives the paths."""
    if step.accumulate > 1:
        raise refuse("a step that gathers gradients over several calls is more than one program", "export one with accumulate=1")
    code = step.code(batch)
    if not all(checked for *_, checked in code.reads):
        raise refuse("the step is for certain values of its arguments, which a host in C does not look at", "compute with masks and weights")
    if code.begun:
        raise refuse("the first step makes the optimizer's state, which a host in C only gives", "take one step before")
    if code.writes:
        raise refuse("the step writes an argument in place, which a host in C only gives", "write a clone()")
    if any(code.orders):
        raise refuse("a parameter, a buffer or a state is not row-major", "call contiguous() on it")
    p = code.program
    try:
        header, object_ = _core.build_object(p.text, p.name, p.start, code.types, len(code.orders), name)
    except _core.Failure as failure:
        raise p.error(failure) from None
    paths = [os.path.join(folder, name + ending) for ending in (".h", ".o")]
    for path, data in zip(paths, (header.encode(), object_)):
        with open(path, "wb") as f:
            f.write(data)
    return paths


def compile_step(model: torch.nn.Module, loss: Callable | None, optimizer: torch.optim.Optimizer, **options: Any) -> Step:
    """A training step as one program: ``loss(model(x), *rest)``, its gradient, the optimizer's update.

    ``step(x, *rest)`` takes a step and gives the loss. A tuple or a dictionary x is the model's arguments; without a loss
    the model itself gives it. Learning rates are read at each step, so schedulers work. ``clip``: what to do to the list
    of parameters, which have their gradients, before the update, such as
    ``lambda params: torch.nn.utils.clip_grad_norm_(params, 1.0, foreach=False)``; ``autocast``: the element type of mixed
    precision; ``scaler``: the torch.amp.GradScaler of the loss; ``stop_at_nan``: a loss that is no number is an error and
    changes nothing; ``accumulate``: so many calls make one update, by the mean of their gradients."""
    return Step(model, loss, optimizer, **options)
