# SPDX-License-Identifier: Apache-2.0
"""torch.compile(model, backend="anfora"): graphs of ATen ops that AOTAutograd made, forward and backward, as compiled
functions. What no row has runs in eager PyTorch, between compiled parts; `fallbacks` counts it."""
from __future__ import annotations

import collections
import functools
import operator
import sys
from typing import Any, Callable, Optional

import sympy
import torch
from torch._decomp import decomposition_table
from torch._dynamo.backends.common import aot_autograd
from torch.fx.passes.split_module import split_module

from .. import _core
from ._apart import APART
from ._draws import keep_draws
from ._frozen import Frozen, static_inputs
from ._graph import AGAIN, Sizes, TRUTHS, Traced, Writer, attribute, describe, drawing
from ._orders import Orders
from ._quantised import quantised
from ._sizes import AnySize, batch_of
from ._table import RANDOM, has_row
from ._values import with_checks
from ._views import Shared, share

aten = torch.ops.aten
fallbacks: collections.Counter = collections.Counter()  # op to how many nodes of compiled graphs PyTorch runs


# ---- which ops are taken apart ----

def decompositions() -> dict:
    return {**_decompositions(), **quantised()}


@functools.cache
def _decompositions() -> dict:
    """PyTorch's own, but for ops that have a row, random ones (whose numbers are eager's), and what they make worse."""
    kept = {"aten::bernoulli", "aten::uniform", "aten::normal", "aten::exponential", "aten::rand",
            "aten::randn", "aten::randint", "aten::rand_like", "aten::randn_like"}
    theirs = {op: f for op, f in decomposition_table.items()
              if isinstance(op, torch._ops.OpOverload) and not op._schema.is_mutable and op not in RANDOM and op._schema.name not in kept and not has_row(op)}
    return {**theirs, **APART, aten.native_dropout.default: dropout}


def dropout(input: torch.Tensor, p: float, train: bool | None) -> tuple:
    """Dropout that draws the numbers which eager's draws."""
    if train is False or p == 0:
        return input.clone(), torch.ones_like(input, dtype=torch.bool)
    noise = aten.bernoulli.p(torch.empty_like(input), 1 - p)
    return input * (noise / (1 - p) if p < 1 else noise), noise != 0


# ---- one graph ----

class Compiled:
    """A graph of ATen ops that is compiled when it is called: one program for all sizes of a batch, where there is one, else one
    for the sizes of each call."""

    def __init__(self, gm: torch.fx.GraphModule, name: str, options: dict, frozen: Any = ()) -> None:
        self.gm, self.name, self.options = gm, name, options
        self.frozen = set(frozen)  # placeholders that are weights, constants of the code
        self.placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
        self.symbolic = any(_is_symbolic(n.meta.get("val")) for n in self.placeholders)
        self.codes: dict = {}
        self.any_size: dict = {}  # by the sizes that are not the batch's
        self.single = not isinstance(next(n for n in gm.graph.nodes if n.op == "output").args[0], (list, tuple))
        self._boxed_call = False

    def code(self, args: Any) -> "Code":
        values = _values(self.placeholders, args) if self.symbolic else {}
        key = tuple(sorted((str(k), v) for k, v in values.items()))
        if key not in self.codes:
            self.codes[key] = Code(self, Sizes(values), args)
        return self.codes[key]

    def program(self, w: Writer, values: dict) -> Any:
        """What runs the graph with the values of its inputs."""
        at = [i for i, n in enumerate(w.inputs) if n in self.frozen]
        if at:
            return Frozen(Traced(self.name, w, **self.options), at, lent, self.options)
        function = self.any_batch(w, values) or Traced(self.name, w, **self.options)
        return lambda given: function(*map(lent, given))

    def any_batch(self, w: Writer, values: dict) -> Traced | None:
        batch = batch_of(self.placeholders) if self.options["dynamic"] is not False else None
        if batch in values and values[batch].is_Integer:
            others = {s: n for s, n in values.items() if s != batch}
            key = tuple(sorted((str(s), n) for s, n in others.items()))
            if key not in self.any_size:
                self.any_size[key] = AnySize(self.gm.graph, self.gm, batch, others, self.name, self.options)
            return self.any_size[key].of(w, int(values[batch]))
        return None

    def __call__(self, *args: Any) -> Any:
        return (self.codes.get(()) if not self.symbolic and self.codes else self.code(args)).run(args)  # type: ignore[union-attr]


def _values(placeholders: list, args: Any) -> dict:
    """The values of the symbols, from the arguments."""
    values: dict = {}
    for n, x in zip(placeholders, args):
        meta = n.meta.get("val")
        if not _is_symbolic(meta):
            continue
        pairs = zip(meta.shape, x.shape) if isinstance(meta, torch.Tensor) else [(meta, x)]
        for symbol, value in pairs:
            if isinstance(symbol, (torch.SymInt, torch.SymFloat)) and isinstance(symbol.node.expr, sympy.Symbol):
                values[symbol.node.expr] = sympy.sympify(value)
            elif isinstance(symbol, torch.SymBool) and isinstance(symbol.node.expr, sympy.Eq):  # a number that is 1 or not
                values.update({s: sympy.Integer(value) for s in symbol.node.expr.free_symbols})
    return values


def _is_symbolic(meta: Any) -> bool:
    if isinstance(meta, torch.Tensor):
        return any(isinstance(d, torch.SymInt) for d in meta.shape)
    return isinstance(meta, (torch.SymInt, torch.SymFloat, torch.SymBool))


class Code:
    """A graph for one set of sizes: where its inputs come from, the program, what its results become."""

    def __init__(self, of: Compiled, sizes: Sizes, args: Any) -> None:
        self.of = of
        w = Writer(of.gm.graph, of.gm, sizes)
        w.run()
        if not w.results and w.lines:  # of checks alone
            w.results.append("Zeros(shape=(1,), dtype=bool)")
        position = {n: i for i, n in enumerate(of.placeholders)}
        self.sources = [self._source(n, position, sizes) for n in w.inputs]
        place = {n: i for i, n in enumerate(w.inputs)}
        self.checked = w.checked
        self.plan = [("given", place[o[1]]) if o[0] == "node" else o for o in w.outputs]
        self.function = of.program(w, sizes.values) if w.results else None

    def _source(self, node: Any, position: dict, sizes: Sizes) -> Any:
        if node.op == "placeholder":
            return position[node]
        if node.op == "get_attr":
            x = attribute(node, self.of.gm)
            return lambda args: x
        draw = _drawn(node, sizes)
        return _with_state(draw, position[node.args[0]]) if node.target is AGAIN else lambda args: draw()

    def run(self, args: Any) -> Any:
        given = [args[s] if type(s) is int else s(args) for s in self.sources]
        made = self.function(given) if self.function else ()
        for i, shape, more, words in self.checked:
            aten._linalg_check_errors(_core.give(made[i], torch.Tensor).reshape(shape), *more, **words)
        out, tensors = [], {}
        for kind, *more in self.plan:
            if kind == "made":
                if more[0] not in tensors:
                    tensors[more[0]] = _tensor(made[more[0]], more[1], more[2])
                out.append(tensors[more[0]])
            elif kind == "number":
                out.append(_core.give(made[more[0]], torch.Tensor).item())
            else:
                out.append(given[more[0]] if kind == "given" else more[0])
        return out[0] if self.of.single else out


def _tensor(made: Any, shape: Any, order: Any) -> torch.Tensor:
    """A result as a tensor that is no view: views that a torch.autograd.Function gives cannot be written in place."""
    x = _core.give(made, torch.Tensor)
    if shape == ():
        return x.squeeze_(0)
    return x if order is None else x.as_strided_([x.shape[i] for i in order], [x.stride(i) for i in order])


def lent(x: torch.Tensor) -> Any:
    """A tensor's memory, which a call may read."""
    if x.is_conj() or x.is_neg():
        x = x.resolve_conj().resolve_neg()
    return _core.lend(x if x.is_contiguous() else x.contiguous())


EMPTY = {aten.empty.memory_format, aten.empty_like.default, aten.empty_permuted.default, aten.empty_strided.default, aten.new_empty.default}


def _drawn(node: Any, sizes: Sizes) -> Callable[[], torch.Tensor]:
    """A random op, run by PyTorch: its tensors are read for their shapes and types alone."""
    def argument(a: Any) -> Any:
        if isinstance(a, torch.fx.Node):
            meta = a.meta["val"]
            if not isinstance(meta, torch.Tensor):
                return sizes(meta)
            return torch.empty_strided(sizes.dims(meta), [sizes(k) for k in meta.stride()], dtype=meta.dtype)  # numbers fill memory in order
        return [argument(x) for x in a] if isinstance(a, (list, tuple)) else sizes(a)
    op, given = drawing(node)
    args, kwargs = argument(list(given)), {k: argument(v) for k, v in node.kwargs.items()}
    kwargs.pop("pin_memory", None)
    if op is aten.bernoulli.p and getattr(given[0], "target", None) in EMPTY:
        return lambda: torch.empty_like(args[0]).bernoulli_(*args[1:]).bool()  # in place, which fills memory in its order; aten.bernoulli gives row-major results
    return (lambda: op(*args, **kwargs).bool()) if op in TRUTHS else lambda: op(*args, **kwargs)


def _with_state(draw: Callable, at: int) -> Callable:
    """Draws what the generator drew in the state that an argument tells, and leaves it as it is."""
    def again(args: Any) -> torch.Tensor:
        now = torch.get_rng_state()
        torch.set_rng_state(args[at])
        try:
            return draw()
        finally:
            torch.set_rng_state(now)
    return again


# ---- graphs with ops that no row has ----

def refused_nodes(gm: torch.fx.GraphModule) -> dict:
    """The nodes that cannot be compiled, and why: tried with the sizes that were seen when the graph was traced."""
    hints = {}
    for n in gm.graph.nodes:
        for s in _sizes_in(n.meta.get("val")):
            for symbol in s.node.expr.free_symbols:
                hint = s.node.shape_env.backed_var_to_val.get(symbol) if hasattr(s.node.shape_env, "backed_var_to_val") \
                    else s.node.shape_env.var_to_val.get(symbol)
                hints[symbol] = sympy.Integer(3) if hint is None else hint
    w = Writer(gm.graph, gm, Sizes(hints))
    return w.run_all()


def _complete(gm: torch.fx.GraphModule) -> None:
    """Numbers that are drawn again for a forward pass that is computed again: PyTorch's partitioner does not say what they are. The pass
    that draws them first keeps the generator's state by a node of its own."""
    saving = torch.ops.higher_order.run_and_save_rng_state
    for n in list(gm.graph.nodes):
        if n.target not in (saving, AGAIN):
            continue
        if "val" not in n.meta:
            op, *args = torch.utils._pytree.tree_map(lambda a: a.meta["val"] if isinstance(a, torch.fx.Node) else a, n.args[0 if n.target is saving else 1:])
            with next(a.fake_mode for a in args if isinstance(a, torch.Tensor)):
                val = op(*args, **n.kwargs)
                n.meta["val"] = (torch.empty(0, dtype=torch.uint8), val) if n.target is saving else val
        if n.target is saving and n.args[0] in RANDOM:
            with gm.graph.inserting_before(n):
                made = gm.graph.call_function(torch.get_rng_state), gm.graph.call_function(n.args[0], n.args[1:], n.kwargs)
            for part, val in zip(made, n.meta["val"]):
                part.meta = {**n.meta, "val": val}
            for user in list(n.users):
                user.replace_all_uses_with(made[user.args[1]])
                gm.graph.erase_node(user)
            gm.graph.erase_node(n)
    gm.recompile()


def _sizes_in(meta: Any) -> list:
    if isinstance(meta, torch.Tensor):
        return [d for d in meta.shape if isinstance(d, torch.SymInt)]
    if isinstance(meta, (list, tuple)):
        return [s for m in meta for s in _sizes_in(m)]
    return [meta] if isinstance(meta, (torch.SymInt, torch.SymFloat)) else []


def _say(name: str, refused: dict) -> None:
    lines = collections.Counter(f"  {describe(n)}: {why}" for n, why in refused.items())
    sys.stderr.write(f"anfora: PyTorch runs {len(refused)} nodes of {name}:\n" +
                     "".join(f"{line}{f' ({k} times)' if k > 1 else ''}\n" for line, k in lines.items()))


def compile_graph(gm: torch.fx.GraphModule, name: str, options: dict, frozen: Any = ()) -> Callable:
    """A graph of ATen ops as a function of its placeholders; those at the positions `frozen` are constants of the code."""
    _complete(gm)
    views = share(gm.graph)
    run = _compiled(gm, name, options, frozen)
    inputs = list(gm.graph.find_nodes(op="placeholder"))
    return Shared(run, views, lambda args: Sizes(_values(inputs, args))) if views else run


def _compiled(gm: torch.fx.GraphModule, name: str, options: dict, frozen: Any) -> Callable:
    refused = refused_nodes(gm)
    if not refused:
        inputs = list(gm.graph.find_nodes(op="placeholder"))
        return Compiled(gm, name, options, [inputs[i] for i in frozen])
    fallbacks.update(str(n.target) for n in refused)
    _say(name, refused)
    split = _split(gm, refused)
    for child, part in list(split.named_children()):
        if not any(n.meta.get("refused") for n in part.graph.nodes):
            setattr(split, child, _Part(Compiled(part, f"{name}_{child}", options)))
    return split.forward


def _split(gm: torch.fx.GraphModule, refused: dict) -> torch.fx.GraphModule:
    """The graph in parts, in its own order, so that random numbers are drawn in it: each part is compiled, or refused."""
    number, part, last = 0, {}, None
    for n in gm.graph.nodes:
        if n in refused:
            n.meta["refused"] = True
        if n.op in ("call_function", "get_attr"):
            kind = n in refused
            if n.target is operator.getitem and n.args[0] in part:
                part[n] = part[n.args[0]]
                continue
            number += last is not None and kind != last
            part[n], last = number, kind
    return split_module(gm, gm, lambda n: part.get(n, number), keep_original_order=True)


class _Part(torch.nn.Module):
    def __init__(self, part: Compiled) -> None:
        super().__init__()
        self.part = part

    def forward(self, *args: Any) -> Any:
        return self.part(*args)


# ---- a forward and a backward pass ----

# PyTorch's partitioner, after attention's derivative is made one that reads no sums of exponentials: the forward pass need not give them, so
# that it is computed a block of queries at a time, without a matrix of weights.
flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
flash_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default
Three = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


@torch.library.custom_op("anfora::attention_backward", mutates_args=())
def attention_backward(grad: torch.Tensor, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, out: torch.Tensor, is_causal: bool,
                       attn_mask: Optional[torch.Tensor], scale: Optional[float]) -> Three:
    """What PyTorch runs where the row refuses it."""
    sums = flash(query, key, value, 0.0, is_causal, attn_mask=attn_mask, scale=scale)[1]
    return flash_backward(grad, query, key, value, out, sums, 0.0, is_causal, attn_mask=attn_mask, scale=scale)


@attention_backward.register_fake
def _(grad: torch.Tensor, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, out: torch.Tensor, is_causal: bool,
      attn_mask: Optional[torch.Tensor], scale: Optional[float]) -> Three:
    return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)


def _without_sums(graph: torch.fx.Graph) -> None:
    for n in graph.find_nodes(op="call_function", target=flash_backward):
        grad, query, key, value, out, _, dropout, is_causal = n.args
        if dropout:
            continue
        with graph.inserting_before(n):
            new = graph.call_function(torch.ops.anfora.attention_backward.default, (
                grad, query, key, value, out, is_causal, n.kwargs.get("attn_mask"), n.kwargs.get("scale")))
        new.meta = dict(n.meta)
        n.replace_all_uses_with(new)
        graph.erase_node(n)
    graph.eliminate_dead_code()


def _without_statistics(graph: torch.fx.Graph) -> None:
    """Batch norm in a checkpoint: what is computed again for the backward pass does not read the running statistics, which the forward pass has
    written by then."""
    functional, alone = aten._native_batch_norm_legit_functional.default, aten._native_batch_norm_legit.no_stats
    for n in graph.find_nodes(op="call_function", target=functional):
        input, weight, bias, _, _, training, *more = n.args
        if not training or "recompute" not in n.meta:
            continue
        with graph.inserting_before(n):
            again = graph.call_function(alone, (input, weight, bias, True, *more))
        again.meta = {**n.meta, "val": n.meta["val"][:3]}
        del n.meta["recompute"]
        for item in list(n.users):
            if item.args[1] < 3:
                item.replace_input_with(n, again)
            else:
                item.meta.pop("recompute", None)


def partition(joint: torch.fx.GraphModule, inputs: Any, **options: Any) -> Any:
    from functorch.compile import min_cut_rematerialization_partition
    if joint.graph.find_nodes(op="call_function", target=flash_backward):
        _without_sums(joint.graph)
    _without_statistics(joint.graph)
    joint.recompile()
    return min_cut_rematerialization_partition(joint, inputs, **options)


# ---- the backend ----

def _options(options: dict | None) -> dict:
    known = {"fast": False, "tune": False, "backend": "llvm", "threads": torch.get_num_threads() > 1, "dynamic": None}
    wrong = set(options or {}) - set(known)
    if wrong:
        raise TypeError(f"backend anfora has no option {', '.join(sorted(wrong))}; it has {', '.join(known)}, create_graph, freeze")
    return {**known, **(options or {})}


def _gives_memory(gm: torch.fx.GraphModule) -> bool:
    """Whether a graph gives a tensor another's memory (`p.data = x`): PyTorch then wants such a write, and all others, in the graph."""
    return any(n.target in ("set_", torch.Tensor.set_, aten.shallow_copy_data_, aten.shallow_copy_data_.default) for n in gm.graph.nodes)


def backend(gm: torch.fx.GraphModule, example_inputs: list, *, options: dict | None = None, **more: Any) -> Callable:
    """What torch.compile calls with a graph that it captured."""
    from functorch.compile import make_boxed_func
    chosen = _options({k: v for k, v in (options or {}).items() if k not in ("create_graph", "freeze")})
    orders, freeze = (bool((options or {}).get(k, False)) for k in ("create_graph", "freeze"))

    def compiler(kind: str) -> Callable:
        return lambda gm, args: make_boxed_func(compile_graph(gm, kind, chosen, static_inputs() if freeze and kind == "inference" else ()))
    gm = with_checks(gm)
    more_results = keep_draws(gm)
    compiled = aot_autograd(fw_compiler=compiler("forward"), bw_compiler=compiler("backward"), inference_compiler=compiler("inference"),
                            decompositions=decompositions(), partition_fn=partition,
                            keep_inference_input_mutations=_gives_memory(gm))
    run = compiled(gm, example_inputs)
    run = Orders(gm, run, compiled) if orders else run
    return (lambda *args: run(*args)[:-more_results]) if more_results else run
