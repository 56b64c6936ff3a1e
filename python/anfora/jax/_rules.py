# SPDX-License-Identifier: Apache-2.0
"""Derivative rules of JAX in lowered programs. What JAX differentiates by a rule of its own becomes a call that names the function
and its rule, which the reader of StableHLO makes a custom_jvp or custom_vjp:

    custom_call @anfora.custom_jvp(x..) {called_computations = [@f, @jvp]}          jvp(x.., t..) -> (y.., ty..)
    custom_call @anfora.custom_vjp(c.., x..) {called_computations = [@f, @fwd, @bwd], anfora.captured = number of c}
                                                                   fwd(c.., x..) -> (y.., r..)    bwd(r.., dy..) -> (dx..)
    custom_call @anfora.checkpoint(x..) {called_computations = [@f], anfora.keep = "arguments"}

Tangents and adjoints are there for arguments and results of inexact types only. The rules are what jax.jvp and jax.vjp make of the
primitive, so that symbolic zeros, arguments that are not differentiated and rules in rules are as JAX has them."""
from __future__ import annotations

import itertools
from typing import Any, Callable

import jax
import numpy as np
from jax import lax
from jax._src import ad_checkpoint, ad_util, core, custom_derivatives
from jax._src.interpreters import mlir
from jax._src.linear_util import WrappedFun
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import hlo
from jax._src.random import random_gamma_p
from jax._src.util import Unhashable
from jax.custom_derivatives import custom_jvp_call_p, custom_vjp_call_p

from . import _callbacks, _values

__all__ = ["lowered"]

MOST = 4  # rules within rules, each of another function than those around it: the next one is refused when it is needed
LARGE, MOST_LARGE = 300, 1  # of functions of more equations than this, so that their programs stay small
DEEP = 1  # rules of rules whose texts are compared to tell functions apart
_CAPTURING = custom_derivatives._handle_consts_in_bwd.args[0]  # what gives captured values no gradient
_number = itertools.count()
_made: dict = {}  # of the program that is being lowered: what a call computes -> names of its functions
_within: list = []  # the names of functions whose rules are being lowered


def _inexact(x: Any) -> bool:
    return jax.numpy.issubdtype(x.dtype, jax.numpy.inexact)


def _picked(xs: Any, like: Any) -> list:
    return [x for x, a in zip(xs, like) if _inexact(a)]


def _spread(given: Any, like: Any) -> list:
    """A tangent for each: those given for inexact ones, else JAX's own zeros of other types."""
    rest = iter(given)
    return [next(rest) if _inexact(a) else np.zeros(a.shape, jax.dtypes.float0) for a in like]


def _bound(primitive: Any, params: dict) -> Callable:
    """The primitive as a function that gives a list."""
    def f(*xs: Any) -> list:
        out = primitive.bind(*xs, **primitive.get_bind_params(params))
        return list(out) if primitive.multiple_results else [out]
    return f


def _jvp_of(f: Callable, avals: list) -> Callable:
    n = len(avals)

    def rule(*given: Any) -> list:
        ys, ts = jax.jvp(f, given[:n], tuple(_spread(given[n:], avals)))
        return [*ys, *_picked(ts, ys)]
    jaxpr = _traced(rule, avals + [a.to_tangent_aval() for a in _picked(avals, avals)])
    return lambda *given: _linearly(jaxpr.jaxpr, jaxpr.consts, given, [i >= n for i in range(len(given))])


def _linearly(jaxpr: Any, consts: Any, given: Any, moved: list) -> list:
    """The program, where functions of tangents (`moved`) are these themselves: a function that its own rule applies to tangents is
    linear, and is transposed like JAX does it."""
    env = dict(zip([*jaxpr.constvars, *jaxpr.invars], zip([*consts, *given], [False] * len(consts) + moved)))

    def of(v: Any) -> tuple:
        return (v.val, False) if isinstance(v, core.Literal) else env[v]
    for e in jaxpr.eqns:
        xs, moves = zip(*map(of, e.invars)) if e.invars else ((), ())
        inner = e.params.get("call_jaxpr", e.params.get("jaxpr")) if e.primitive.name in ("custom_jvp_call", "jit", "pjit") else None
        if inner is not None and any(moves):
            ys = _linearly(inner.jaxpr, inner.consts, xs, list(moves))
        else:
            out = e.primitive.bind(*xs, **e.primitive.get_bind_params(e.params))
            ys = list(out) if e.primitive.multiple_results else [out]
        env.update(zip(e.outvars, ((y, any(moves)) for y in ys)))
    return [of(v)[0] for v in jaxpr.outvars]


def _vjp_of(f: Callable, avals: list, captured: int, outs: list) -> tuple[Callable, Callable]:
    real = [i for i in range(captured, len(avals)) if _inexact(avals[i])]
    kept: list = []

    def forward(*xs: Any) -> list:
        def g(*moved: Any) -> list:
            ys = list(xs)
            for i, x in zip(real, moved):
                ys[i] = x
            return f(*ys)
        ys, back = jax.vjp(g, *(xs[i] for i in real))
        leaves, tree = jax.tree.flatten(back)
        kept[:] = [tree]
        return [*ys, *leaves]

    def backward(*given: Any) -> list:
        n = len(given) - len(_picked(outs, outs))
        back = jax.tree.unflatten(kept[0], given[:n])
        return list(back(_spread(given[n:], outs)))
    return forward, backward


def _traced(f: Callable, avals: Any) -> Any:
    return jax.make_jaxpr(f)(*(jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=getattr(a, "weak_type", False)) for a in avals))


def _programs(params: dict) -> list:
    """The programs among the parameters of an equation."""
    return [x for p in params.values() for x in (p if isinstance(p, (tuple, list)) else [p]) if isinstance(x, (core.Jaxpr, core.ClosedJaxpr))]


def _size(jaxpr: Any) -> int:
    """How many equations a program has, inner programs included."""
    return sum(1 + sum(map(_size, _programs(e.params))) for e in getattr(jaxpr, "jaxpr", jaxpr).eqns)


def _constants(jaxpr: Any) -> list:
    """The values in a program that its text does not show."""
    found = [np.asarray(c).tobytes() for c in getattr(jaxpr, "consts", ())]
    for e in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        found += [np.asarray(v.val).tobytes() for v in e.invars if isinstance(v, core.Literal)]
        found += [x for sub in _programs(e.params) for x in _constants(sub)]
    return found


def _text(jaxpr: Any) -> tuple:
    return str(jaxpr), tuple(str(a) for a in jaxpr.in_avals), tuple(_constants(jaxpr))


def _jvp_rules(f: Callable, avals: list) -> list:
    return [_traced(_jvp_of(f, avals), avals + [a.to_tangent_aval() for a in _picked(avals, avals)])]


def _captured(params: dict) -> int:
    """How many of the first arguments of a call of a custom_vjp have no gradient: values that it captures, and those that a call captured
    before a rule bound it again, which the backward function remembers."""
    before = [given[0] for f, given in getattr(params["bwd"], "transforms", ()) if f is _CAPTURING]
    return params["num_consts"] + sum(map(len, before))


def _vjp_rules(f: Callable, avals: list, captured: int, outs: list) -> list:
    forward, backward = _vjp_of(f, avals, captured, outs)
    first = _traced(forward, avals)
    return [first, _traced(backward, first.out_avals[len(outs):] + [a.to_tangent_aval() for a in _picked(outs, outs)])]


def _hidden(jaxpr: Any, depth: int) -> list:
    """What the text of a program does not show of the rules of its calls: their texts, and so on to a depth. Where rules call
    functions with rules still, these are distinguished by the code of Python that they have."""
    found = []
    for e in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        if e.primitive in (custom_jvp_call_p, custom_vjp_call_p):
            found.append(_rules_of(e, depth - 1) if depth else tuple(_source(v) for v in e.params.values() if isinstance(v, WrappedFun) or callable(v)))
        found += [x for sub in _programs(e.params) for x in _hidden(sub, depth)]
    return found


def _rules_of(e: Any, depth: int) -> tuple:
    avals, outs, f = [v.aval for v in e.invars], [v.aval for v in e.outvars], _bound(e.primitive, e.params)
    try:
        rules = _jvp_rules(f, avals) if e.primitive is custom_jvp_call_p else _vjp_rules(f, avals, _captured(e.params), outs)
    except Exception:  # whatever a rule raises: no derivative comes of it
        return ()
    return tuple((_text(r), tuple(_hidden(r, depth))) for r in rules)


def _source(f: Any) -> tuple:
    """The code of the functions that a user gave as rules, inside of what JAX wraps around them, and the plain values that are kept with
    them. Closures are made anew by each trace, so it is not the functions themselves."""
    found, todo, seen = [], [f], set()
    while todo:
        x = todo.pop()
        if id(x) in seen:
            continue
        seen.add(id(x))
        if isinstance(x, WrappedFun):
            todo += [x.f, *(g for _, given in x.transforms for g in given)]
        elif isinstance(x, (tuple, list)):
            todo += x
        elif isinstance(x, (bool, int, float, str, type(None))):
            found.append((type(x), x))
        elif isinstance(x, Unhashable):
            todo.append(x.val)
        elif hasattr(x, "__code__"):
            found += [] if x.__module__.startswith("jax._src") else [x.__code__]
            todo += [c.cell_contents for c in x.__closure__ or ()]
    return tuple(found)


def _function(context: Any, name: str, jaxpr: Any) -> None:
    f = mlir.lower_jaxpr_to_fun(context, name, jaxpr, [], num_const_args=0, in_avals=jaxpr.in_avals)
    if f.name.value != name:
        raise RuntimeError(f"{name} has the name {f.name.value} in the program")


def _functions(context: Any, what: tuple, jaxprs: Callable, first: Any) -> list[str] | None:
    """The names of the functions of a call: those of an equal one, since rules call the function that they are for. None: there is
    no rule, or there would be no end of them."""
    if len(_within) > (MOST_LARGE if _size(first) > LARGE else MOST):
        return None
    try:
        more = jaxprs()
        key = what, _text(first), tuple((_text(m), tuple(_hidden(m, DEEP))) for m in more)
    except Exception:  # whatever a rule raises; it is needed only where a derivative is taken, which is refused
        return None
    if key not in _made:
        names = _made[key] = [f"rule{next(_number)}_{part}" for part in ("f", "first", "second")[:1 + len(more)]]
        _function(_valued(context), names[0], first)
        _within.append(names[0])
        for name, jaxpr in zip(names[1:], more):
            _function(context, name, jaxpr)
        _within.pop()
    return _made[key]


def _valued(context: Any) -> Any:
    """For functions whose derivatives are not taken."""
    return context.replace(lowering_parameters=PLAIN, lowering_cache={}, cached_primitive_lowerings={})


def _call(ctx: Any, kind: str, names: list[str], args: Any, **attributes: Any) -> list:
    types = [mlir.aval_to_ir_type(ctx.module_context, a) for a in ctx.avals_out]
    call = hlo.CustomCallOp(types, args, call_target_name=ir.StringAttr.get("anfora." + kind),
                            called_computations=ir.ArrayAttr.get([ir.FlatSymbolRefAttr.get(n) for n in names]))
    for name, value in attributes.items():
        call.operation.attributes["anfora." + name] = value
    return list(call.results)


def _lower_jvp(ctx: Any, *args: Any, **params: Any) -> list:
    avals, f = list(ctx.avals_in), _bound(ctx.primitive, params)
    if not _picked(avals, avals):
        return _plainly(ctx, *args, **params)
    names = _functions(ctx.module_context, ("jvp", ctx.primitive.name), lambda: _jvp_rules(f, avals), _traced(f, avals))
    if names:
        return _call(ctx, "custom_jvp", names, args)
    n = PARAMETERS_FIRST.get(ctx.primitive, 0)
    return _vjp_with(lambda _: n)(ctx, *args, **params) if n else _constant(ctx, f, args)


def _vjp_with(captured: Callable) -> Callable:
    """The lowering by a backward rule of what has so many arguments that are not differentiated."""
    def lower(ctx: Any, *args: Any, **params: Any) -> list:
        avals, outs, n = list(ctx.avals_in), list(ctx.avals_out), captured(params)
        f = _bound(ctx.primitive, params)
        if not _picked(avals[n:], avals[n:]):
            return _plainly(ctx, *args, **params)
        names = _functions(ctx.module_context, ("vjp", n), lambda: _vjp_rules(f, avals, n, outs), _traced(f, avals))
        return _call(ctx, "custom_vjp", names, args, captured=_int(n)) if names else _constant(ctx, f, args)
    return lower


def _int(n: int) -> Any:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), n)


def _constant(ctx: Any, f: Callable, args: Any) -> list:
    """A call whose derivative is refused: its arguments are all captured."""
    avals, outs = list(ctx.avals_in), [a.to_tangent_aval() for a in _picked(ctx.avals_out, ctx.avals_out)]
    names = [f"rule{next(_number)}_{part}" for part in ("without_derivative", "first", "second")]
    context = _valued(ctx.module_context)
    for name in names[:2]:
        _function(context, name, _traced(f, avals))
    _function(context, names[2], _traced(lambda *_: [], outs))
    return _call(ctx, "custom_vjp", names, args, captured=_int(len(args)))


def _lower_checkpoint(ctx: Any, *args: Any, **params: Any) -> list:
    if params["differentiated"]:
        return _plainly(ctx, *args, **params)
    body = core.ClosedJaxpr(params["jaxpr"], ())
    keep = {jax.checkpoint_policies.dots_saveable: "products", jax.checkpoint_policies.everything_saveable: "all"}
    name = f"rule{next(_number)}_kept"
    _function(ctx.module_context, name, body)
    return _call(ctx, "checkpoint", [name], args, keep=ir.StringAttr.get(keep.get(params["policy"], "arguments")))


def _lower_reduction(ctx: Any, *args: Any, **params: Any) -> Any:
    """What is reduced by a body, which must be one operation."""
    return _plainly(ctx.replace(module_context=_valued(ctx.module_context)), *args, **params)


def _lower_stop(ctx: Any, x: Any) -> list:
    return _call(ctx, "stop_gradient", [], [x])


def _plainly(ctx: Any, *args: Any, **params: Any) -> Any:
    """As JAX lowers it."""
    entry = mlir._platform_specific_lowerings["cpu"].get(ctx.primitive) or mlir._lowerings[ctx.primitive]
    return getattr(entry, "rule", entry)(ctx, *args, **params)


PARAMETERS_FIRST = {lax.regularized_incomplete_beta_p: 2, lax.zeta_p: 1, lax.polygamma_p: 1}  # arguments without a derivative
VALUES = (*_values.values(_plainly), *_callbacks.lowerings(_plainly))
REDUCING = (lax.reduce_p, lax.reduce_window_p, lax.scatter_max_p, lax.scatter_min_p, lax.scatter_p, lax.scatter_add_p, lax.scatter_mul_p,
            lax.scatter_sub_p, lax.select_and_scatter_p)
RULED = (lax.igamma_p, lax.igammac_p, lax.regularized_incomplete_beta_p, lax.erf_inv_p, lax.zeta_p, lax.polygamma_p, lax.abs_p, lax.max_p,
         lax.min_p, lax.clamp_p, random_gamma_p, *_values.FACTORISATIONS)
PLAIN = mlir.LoweringParameters(override_lowering_rules=VALUES)
PARAMETERS = mlir.LoweringParameters(override_lowering_rules=(
    (custom_jvp_call_p, _lower_jvp), (custom_vjp_call_p, _vjp_with(_captured)),
    (lax.linear_solve_p, _vjp_with(lambda params: 0)), (ad_checkpoint.remat_p, _lower_checkpoint),
    (ad_util.stop_gradient_p, _lower_stop), *((p, _lower_jvp) for p in RULED),
    *((p, _lower_reduction) for p in REDUCING), *VALUES))


def lowered(f: Callable, patterns: list) -> Any:
    """JAX's lowering of f for arguments of these types, with rules."""
    try:
        return jax.jit(f, keep_unused=True).trace(*patterns).lower(_private_parameters=PARAMETERS)
    finally:
        _made.clear()
