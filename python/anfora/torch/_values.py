# SPDX-License-Identifier: Apache-2.0
"""What functions of torch check by the values of tensors before they are traced, which a trace leaves out:

    torch.quantile(x, q)     becomes     torch._assert_async(((q >= 0) & (q <= 1)).all(), ".."); torch.quantile(x, q)

and functions of torch.nn that decide by values what they compute, in a form that does not."""
from __future__ import annotations

import contextlib
from typing import Any, Callable
from unittest import mock

import torch
import torch.nn.functional as F
from torch._higher_order_ops.flex_attention import flex_attention, sdpa_dense
from torch.nn.modules import batchnorm, rnn, transformer
from torch.nn.utils.rnn import PackedSequence

from ._decisions import refuse


def _fractions(name: str) -> Callable:
    def check(x: Any, q: Any, *more: Any, **words: Any) -> None:
        if isinstance(q, torch.Tensor):
            torch._assert_async(((q >= 0) & (q <= 1)).all(), f"{name}() q values must be in the range [0, 1]")
    return check


def _holds(condition: torch.Tensor, *message: str) -> None:
    """Without a message the assertion would be left out, as nothing reads it."""
    if not message:
        torch._assert_async(condition.bool(), "Expected Tensor with single nonzero value, but got zero")


def _labels(x: Any, target: torch.Tensor, *more: Any, **words: Any) -> None:
    if target.numel():
        inside = (target >= -1) & (target < target.shape[-1])
        torch._assert_async(inside.all(), "multilabel_margin_loss: argument #2 'target' is out of range")


HOLDERS = torch, torch.Tensor, torch.nn.functional, torch._C._nn
CHECKS: dict[str, Callable] = {"multilabel_margin_loss": _labels, "quantile": _fractions("quantile"), "nanquantile": _fractions("nanquantile"), "_assert_async": _holds}


def check_of(func: Any) -> Callable | None:
    """What checks the arguments of a function or a method of torch."""
    name = getattr(func, "__name__", "")
    return CHECKS[name] if name in CHECKS and any(getattr(holder, name, None) is func for holder in HOLDERS) else None


def with_checks(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A graph that Dynamo captured, with these checks in front, and attention with functions of scores as products and a softmax."""
    changed = False
    for n in list(gm.graph.nodes):
        if n.target is flex_attention:
            n.target, changed = sdpa_dense, True
        check = check_of(getattr(torch.Tensor, n.target, None) if n.op == "call_method" else n.target if n.op == "call_function" else None)
        if check is not None:
            with gm.graph.inserting_before(n):
                added = gm.graph.create_node("call_function", check, n.args, n.kwargs)
            added.meta = {k: v for k, v in n.meta.items() if k != "example_value"}
            changed = True
    if changed:
        gm.recompile()
    return gm


# ---- functions of torch.nn that decide by a value what they compute ----

def _is_causal(mask: Any, is_causal: bool | None = None, size: int | None = None) -> bool:
    """Of a mask that is there nothing else is said: it is applied as it is, which gives the same."""
    return is_causal is True


_normed = batchnorm._BatchNorm.forward


def _normalised(self: Any, input: torch.Tensor) -> torch.Tensor:
    """momentum=None is the mean of all batches: a momentum of one over their number, which is a tensor."""
    if self.momentum is not None or not self.training or not self.track_running_stats or self.running_mean is None:
        return _normed(self, input)
    self._check_input_dim(input)
    self.num_batches_tracked.add_(1)
    out = F.batch_norm(input, None, None, self.weight, self.bias, True, 0.0, self.eps)
    with torch.no_grad():
        others = [d for d in range(input.dim()) if d != 1]
        for running, now in ((self.running_mean, input.mean(others)), (self.running_var, input.var(others))):
            share = 1.0 / self.num_batches_tracked.to(running.dtype)
            running.copy_(running * (1 - share) + now.to(running.dtype) * share)
    return out


class _Padded:
    """What a packed batch holds here: steps, sequences, features, where a sequence has ended as well. Its `data` in eager has as many rows as
    there are elements, which a trace cannot know."""

    def __init__(self, x: torch.Tensor) -> None:
        self._x = x

    def __getattr__(self, name: str) -> Any:
        raise self._refused()

    @classmethod
    def __torch_function__(cls, *args: Any, **kwargs: Any) -> Any:
        raise cls._refused()

    @staticmethod
    def _refused() -> Exception:
        return refuse("the model computes with `data` of packed sequences, whose size depends on data",
                      "give them to nn.RNN, nn.GRU, nn.LSTM and pad_packed_sequence alone, or use torch.compile(model, backend=\"anfora\")")


class _Packing:
    """torch._VF for torch.nn.utils.rnn: sequences stay padded, batch_sizes tells where they are."""

    def __init__(self, known: Any) -> None:
        self._known = known

    def __getattr__(self, name: str) -> Any:
        return getattr(torch._VF, name)

    @staticmethod
    def _pack_padded_sequence(x: torch.Tensor, lengths: torch.Tensor, batch_first: bool) -> tuple:
        x = x.transpose(0, 1) if batch_first else x
        torch._assert_async((lengths[1:] <= lengths[:-1]).all(), "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True")
        torch._assert_async(((lengths > 0) & (lengths <= x.shape[0])).all(), "lengths of sequences must be at least 1 and at most that of the batch")
        return _Padded(x), (lengths > torch.arange(x.shape[0])[:, None]).sum(1)

    def _pad_packed_sequence(self, data: _Padded, sizes: torch.Tensor, batch_first: bool, value: float, total: int) -> tuple:
        x = data._x
        if self._known.read(sizes, _is_whole, True) is False:  # eager's is as long as the longest sequence
            x = x[:self._known.read(sizes, _longest)]
            sizes = sizes[:x.shape[0]]
        steps, n = x.shape[:2]
        torch._assert_async(sizes[-1] > 0, "pad_packed_sequence: all sequences are shorter than the batch, which a step does not cut")
        here = torch.arange(n) < sizes[:, None]
        x = torch.where(here.reshape(steps, n, *[1] * (x.dim() - 2)), x, value)
        x = torch.cat([x, x.new_full((total - steps, *x.shape[1:]), value)]) if total > steps else x
        return x.transpose(0, 1) if batch_first else x, here.sum(0)


def _is_whole(sizes: torch.Tensor) -> bool:
    return bool(sizes[-1] > 0)


def _longest(sizes: torch.Tensor) -> int:
    return int((sizes > 0).sum())


def _gru(of: torch.Tensor, h: torch.Tensor, c: Any, w: torch.Tensor, b: Any, project: Any) -> tuple:
    (r, z, n), (hr, hz, hn) = of.chunk(3, 1), F.linear(h, w, b).chunk(3, 1)
    z, n = torch.sigmoid(z + hz), torch.tanh(n + torch.sigmoid(r + hr) * hn)
    return n + z * (h - n), c


def _lstm(of: torch.Tensor, h: torch.Tensor, c: Any, w: torch.Tensor, b: Any, project: Any) -> tuple:
    i, f, g, o = (of + F.linear(h, w, b)).chunk(4, 1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    h = torch.sigmoid(o) * torch.tanh(c)
    return (h if project is None else F.linear(h, project)), c


def _rnn(act: Callable) -> Callable:
    return lambda of, h, c, w, b, project: (act(of + F.linear(h, w, b)), c)


CELLS = {"LSTM": _lstm, "GRU": _gru, "RNN_TANH": _rnn(torch.tanh), "RNN_RELU": _rnn(torch.relu)}


def _recurrent(forward: Callable) -> Callable:
    """nn.RNN, nn.GRU or nn.LSTM, which also takes packed sequences that stay padded: a state stays where its sequence has ended."""
    def run(self: Any, input: Any, hx: Any = None) -> Any:
        if not isinstance(input, PackedSequence):
            return forward(self, input, hx)
        if self.dropout and self.training and self.num_layers > 1:
            raise refuse("the model drops elements of packed sequences, which are as many as their lengths tell", "leave out dropout= and use nn.Dropout")
        data, sizes, order, back = input
        x, ways, lstm = data._x, 1 + self.bidirectional, self.mode == "LSTM"
        here = (torch.arange(x.shape[1]) < sizes[:, None]).unsqueeze(2)
        given = (hx if lstm else (hx, None)) if hx is not None else (None, None)
        given = [g if g is None or order is None else g.index_select(1, order) for g in given]
        made: tuple = ([], [])
        for layer in range(self.num_layers):
            sides = []
            for way in range(ways):
                def of(name: str) -> Any:
                    return getattr(self, f"{name}_l{layer}{'_reverse' * way}", None)  # noqa: B023
                h, c = (x.new_zeros(x.shape[1], n) if g is None else g[layer * ways + way]
                        for g, n in zip(given, (self.proj_size or self.hidden_size, self.hidden_size)))
                each, rows = F.linear(x, of("weight_ih"), of("bias_ih")), [x] * x.shape[0]
                for t in range(x.shape[0])[::-1 if way else 1]:
                    next_h, next_c = CELLS[self.mode](each[t], h, c, of("weight_hh"), of("bias_hh"), of("weight_hr"))
                    h, c = torch.where(here[t], next_h, h), torch.where(here[t], next_c, c) if lstm else c
                    rows[t] = torch.where(here[t], next_h, 0.0)
                sides.append(torch.stack(rows))
                for states, v in zip(made, (h, c)):
                    states.append(v)
            x = torch.cat(sides, 2)
        state = [torch.stack(v) for v in made[:1 + lstm]]
        state = [v if back is None else v.index_select(1, back) for v in state]
        return PackedSequence(_Padded(x), sizes, order, back), tuple(state) if lstm else state[0]
    return run


@contextlib.contextmanager
def without_decisions(known: Any) -> Any:
    """While a forward pass is traced, functions of torch.nn that would decide by a value do not."""
    with contextlib.ExitStack() as stack:
        for holder, name, by in ((transformer, "_detect_is_causal_mask", _is_causal), (batchnorm._BatchNorm, "forward", _normalised),
                                 (torch.nn.utils.rnn, "_VF", _Packing(known)), *((c, "forward", _recurrent(c.forward)) for c in (rnn.RNN, rnn.GRU, rnn.LSTM))):
            stack.enter_context(mock.patch.object(holder, name, by))
        yield
