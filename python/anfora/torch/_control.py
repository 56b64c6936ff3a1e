# SPDX-License-Identifier: Apache-2.0
"""Control flow of torch._higher_order_ops, whose operands are graphs: cond, while_loop, scan and map become choices and loops of
the program, graphs that are called become part of it. Each row takes the Writer and the operands, and gives the results."""
from __future__ import annotations

from typing import Any, Callable

import torch

from ._graph import DTYPES, Unsupported, Value


def _tuple(values: list) -> str:
    return "(" + "".join(f"{v}, " for v in values) + ")"


def _tensors(g: Any, values: Any) -> list:
    """The operands as values of the program."""
    for v in values:
        if not isinstance(v, Value):
            raise Unsupported(f"one of its operands is {v}, no tensor")
    return list(values)


def _bound(g: Any, values: list) -> list:
    """New names that stand for these values at first."""
    return [Value(g.name(f"{v}"), v.dtype, v.shape) for v in values]


def _results(g: Any) -> list:
    out = g.spec(g.node.meta["val"])
    return list(out) if isinstance(out, (list, tuple)) else [out]


def _assigned(g: Any, names: list, values: list) -> None:
    """All the names get their new values at once."""
    if len(names) == 1:
        g.raw(f"{names[0]} = {values[0]}")
    elif names:
        g.raw(f"({', '.join(names)}) = ({', '.join(values)})")


def cond(g: Any, chooser: Any, yes: Any, no: Any, operands: Any) -> list:
    out = _results(g)
    if not isinstance(chooser, Value):
        return g.block(yes if chooser else no, operands, out)
    chooser, name = g.reshape(chooser, ()), g.fresh()
    g.raw(f"{name} = if {chooser} {{")
    made = []
    for body, after in ((yes, "} else {"), (no, "}")):
        made.append(g.block(body, operands, out))
        g.raw(_tuple([v for v in made[-1] if v is not None]))
        g.raw(after)
    if [v is None for v in made[0]] != [v is None for v in made[1]]:
        raise Unsupported("one branch gives None where the other gives a tensor")
    places = iter(range(len(out)))
    return [None if v is None else g.let(f"{name}[{next(places)}]", o.dtype, o.shape) for v, o in zip(made[0], out)]


def while_loop(g: Any, test: Any, body: Any, carried: Any, others: Any) -> list:
    names, others = _bound(g, _tensors(g, carried)), tuple(others)
    test_name = g.fresh()
    params = [Value(g.fresh(), v.dtype, v.shape) for v in names]
    g.raw(f"def {test_name}({', '.join(params)}) {{")
    g.raw(g.block(test, (*params, *others), [Value("", torch.bool, ())])[0])
    g.raw("}")
    g.raw(f"while {test_name}({', '.join(names)}) {{")
    _assigned(g, names, g.block(body, (*names, *others), names))
    g.raw("}")
    return names


def scan(g: Any, body: Any, init: Any, xs: Any, others: Any) -> list:
    """A loop over the rows of xs, which writes the rows of its results."""
    xs, out = _tensors(g, xs), _results(g)
    names = _bound(g, _tensors(g, init))
    ys = [Value(g.name(f"Zeros(shape={o.shape}, dtype={DTYPES[o.dtype]})"), o.dtype, o.shape) for o in out[len(names):]]
    index = g.fresh()
    g.raw(f"for {index} in 0..{xs[0].shape[0]} {{")
    rows = [g.let(f"{x}[{index}]", x.dtype, x.shape[1:]) for x in xs]
    made = g.block(body, (*names, *rows, *others), [*names, *(Value("", y.dtype, y.shape[1:]) for y in ys)])
    written = [g.let(f"IndexWrite({y}, {index}, {v}, axis=0)", y.dtype, y.shape) for y, v in zip(ys, made[len(names):])]
    _assigned(g, [*names, *ys], [*made[:len(names)], *written])
    g.raw("}")
    return [*names, *ys]


def map_impl(g: Any, body: Any, xs: Any, others: Any) -> list:
    return scan(g, body, [], xs, others)


def invoke_subgraph(g: Any, body: Any, identifier: Any, *operands: Any) -> list:
    return g.block(body, operands, _results(g))


CONTROL: dict[str, Callable] = {f.__name__: f for f in (cond, while_loop, scan, map_impl, invoke_subgraph)}
