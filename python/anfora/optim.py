# SPDX-License-Identifier: Apache-2.0
"""Optimisers: what makes new parameters of old ones and gradients, compiled into the training step. Their formulas and
defaults are optax's; where PyTorch has another name for an argument, that is taken too.

>>> step = Step(loss, Clipped(AdamW(schedules.warmup_cosine(3e-4, 100, 1000)), norm=1.0), params)"""
from __future__ import annotations

import functools
import inspect
from typing import Any, Callable

from . import _core, numpy as anp
from ._tree import shape_of, tree_leaves, tree_map, tree_paths, tree_structure, tree_unflatten


def _renamed(taken: Any, kw: dict) -> dict:
    """Arguments by the names of optax and PyTorch as those of ours: learning_rate and lr, betas."""
    kw = dict(kw)
    for name in ("learning_rate", "lr"):
        if name in kw and "rate" in taken and "rate" not in kw:
            kw["rate"] = kw.pop(name)
    if "betas" in kw and "b1" in taken:
        kw["b1"], kw["b2"] = kw.pop("betas")
    return kw


def _by_names(init: Callable) -> Callable:
    """An __init__ that takes the names of optax and PyTorch too, and says which there are."""
    taken = [n for n in inspect.signature(init).parameters if n != "self"]

    @functools.wraps(init)
    def begin(self: Any, *args: Any, **kw: Any) -> None:
        kw = _renamed(taken, kw)
        kind = type(self).__name__
        for name in kw:
            if name not in taken:
                raise TypeError(f"{kind}() has no argument {name}; it takes {', '.join(taken)}")
        rate = args[0] if args else kw.get("rate", 0.0)
        if taken[0] == "rate" and (isinstance(rate, (dict, list, tuple, str)) or rate is None):
            raise TypeError(f"the first argument of {kind}() is the rate, a number or a schedule; parameters are given to the step: "
                            f"Step(loss, {kind}(0.01), params)")
        init(self, *args, **kw)
    return begin


class Optimizer:
    """What makes new parameters of old ones and gradients. ``init(params)`` gives the state, ``update(params, state,
    gradients)`` new parameters and state; update is compiled into the step, so it is written as compiled functions
    are. ``rate`` is a number, or a function of the number of the step."""

    by_params: tuple = ()  # attributes that init sets

    def __init__(self, rate: Any = 0.01) -> None:
        self.rate = rate

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        begin = vars(cls).get("__init__")
        if cls.__module__ == __name__ and begin and not any(p.kind is p.VAR_KEYWORD for p in inspect.signature(begin).parameters.values()):
            setattr(cls, "__init__", _by_names(vars(cls)["__init__"]))

    def init(self, params: Any) -> Any:
        return {"count": anp.zeros((), dtype="f32"), "slots": ()}

    def rule(self) -> Callable:
        """update(params, state, gradients) as a function that can be compiled."""
        raise NotImplementedError

    def _rate_at(self) -> Callable:
        rate = self.rate
        return rate if callable(rate) else lambda count: rate

    @staticmethod
    def _zeros(params: Any) -> Any:
        return tree_map(_zero, params)


def _left(b, t):
    """1 - b ** t in double: in single precision the difference has lost half of its digits in the first steps."""
    return 1.0 - b ** anp.cast(t, dtype="f64")


def _unbiased(x, b, t):
    """A mean of t numbers that began with zero, by what their weights add up to."""
    return x / anp.cast_like(_left(b, t), x)


def _zero(p: Any) -> Any:
    """Zeros like p, in memory that nothing has written to yet."""
    s = shape_of(p)
    if s.kind != "leaf" or s.of[0] not in ("f32", "f64"):
        return anp.zeros_like(p)
    import numpy as np
    return _core.asarray(np.zeros(s.of[1], s.of[0].replace("f", "float")))


class SGD(Optimizer):
    """Gradient descent, with momentum if one is given, Nesterov's if asked for, and decay of the weights."""

    def __init__(self, rate: Any = 0.01, momentum: float = 0.0, nesterov: bool = False, decay: float = 0.0,
                 weight_decay: float | None = None) -> None:
        super().__init__(rate)
        decay = decay if weight_decay is None else weight_decay
        self.momentum, self.nesterov, self.decay = momentum, nesterov, decay

    def init(self, params: Any) -> Any:
        return {"count": anp.zeros((), dtype="f32"), "slots": (self._zeros(params),) if self.momentum else ()}

    def rule(self) -> Callable:
        rate_at, momentum, decay, nesterov = self._rate_at(), self.momentum, self.decay, self.nesterov

        def plain(params, state, grads):
            rate = rate_at(state["count"])
            new = tree_map(lambda p, g: p - rate * (g + decay * p), params, grads)
            return new, {"count": state["count"] + 1, "slots": state["slots"]}

        def heavy(params, state, grads):
            rate = rate_at(state["count"])
            v = tree_map(lambda v, g, p: momentum * v + g + decay * p, state["slots"][0], grads, params)
            if nesterov:
                new = tree_map(lambda p, v, g: p - rate * (momentum * v + g + decay * p), params, v, grads)
            else:
                new = tree_map(lambda p, v: p - rate * v, params, v)
            return new, {"count": state["count"] + 1, "slots": (v,)}
        return heavy if momentum else plain


class Adam(Optimizer):
    """Adam; with ``decay`` AdamW, whose decay of the weights is apart from the gradient."""

    def __init__(self, rate: Any = 1e-3, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8, decay: float = 0.0,
                 weight_decay: float | None = None) -> None:
        super().__init__(rate)
        decay = decay if weight_decay is None else weight_decay
        self.b1, self.b2, self.eps, self.decay = b1, b2, eps, decay

    def init(self, params: Any) -> Any:
        return {"count": anp.zeros((), dtype="f32"), "slots": (self._zeros(params), self._zeros(params))}

    def rule(self) -> Callable:
        rate_at, b1, b2, eps, decay = self._rate_at(), self.b1, self.b2, self.eps, self.decay

        def update(params, state, grads):
            t = state["count"] + 1
            rate = rate_at(state["count"])
            m = tree_map(lambda m, g: b1 * m + (1 - b1) * g, state["slots"][0], grads)
            v = tree_map(lambda v, g: b2 * v + (1 - b2) * g * g, state["slots"][1], grads)
            by_m, by_v = 1 / _left(b1, t), 1 / _left(b2, t)
            new = tree_map(lambda p, m, v: p - rate * (m * anp.cast_like(by_m, m) / (anp.sqrt(v * anp.cast_like(by_v, v)) + eps) + decay * p), params, m, v)
            return new, {"count": t, "slots": (m, v)}
        return update


def AdamW(rate: Any = 1e-3, decay: float = 0.01, **options: Any) -> Adam:  # noqa: N802: named as everywhere
    """Adam with decay of the weights."""
    options = {"rate": rate} | _renamed(("rate", "b1", "b2"), options)
    return Adam(decay=decay, **options)


class RMSProp(Optimizer):
    """RMSProp, with eps beside the root, as in PyTorch."""

    def __init__(self, rate: Any = 1e-3, decay: float = 0.9, eps: float = 1e-8) -> None:
        super().__init__(rate)
        self.decay, self.eps = decay, eps

    def init(self, params: Any) -> Any:
        return {"count": anp.zeros((), dtype="f32"), "slots": (self._zeros(params),)}

    def rule(self) -> Callable:
        rate_at, decay, eps = self._rate_at(), self.decay, self.eps

        def update(params, state, grads):
            rate = rate_at(state["count"])
            v = tree_map(lambda v, g: decay * v + (1 - decay) * g * g, state["slots"][0], grads)
            new = tree_map(lambda p, g, v: p - rate * g / (anp.sqrt(v) + eps), params, grads, v)
            return new, {"count": state["count"] + 1, "slots": (v,)}
        return update


class _Moments(Optimizer):
    """Optimisers that keep trees of numbers beside the parameters: `slots` of them, which start at `start`."""

    slots, start = 2, 0.0

    def __init__(self, rate: Any, **options: Any) -> None:
        super().__init__(rate)
        vars(self).update(options)

    def init(self, params: Any) -> Any:
        return {"count": anp.zeros((), dtype="f32"), "slots": tuple(tree_map(lambda p: anp.full_like(p, self.start), params) for _ in range(self.slots))}


class Adagrad(_Moments):
    """Adagrad."""

    slots = 1

    def __init__(self, rate: Any = 1e-2, initial_accumulator_value: float = 0.1, eps: float = 1e-7) -> None:
        super().__init__(rate, start=initial_accumulator_value, eps=eps)

    def rule(self) -> Callable:
        rate_at, eps = self._rate_at(), self.eps

        def update(params, state, grads):
            rate = rate_at(state["count"])
            s = tree_map(lambda s, g: s + g * g, state["slots"][0], grads)
            new = tree_map(lambda p, g, s: anp.cast_like(p - rate * anp.where(s > 0, g * anp.rsqrt(s + eps), 0.0), p), params, grads, s)
            return new, {"count": state["count"] + 1, "slots": (s,)}
        return update


class Adadelta(_Moments):
    """Adadelta."""

    def __init__(self, rate: Any = 1.0, rho: float = 0.9, eps: float = 1e-6) -> None:
        super().__init__(rate, rho=rho, eps=eps)

    def rule(self) -> Callable:
        rate_at, rho, eps = self._rate_at(), self.rho, self.eps

        def update(params, state, grads):
            rate = rate_at(state["count"])
            s = tree_map(lambda s, g: rho * s + (1 - rho) * g * g, state["slots"][0], grads)
            by = tree_map(lambda g, s, d: anp.sqrt(d + eps) / anp.sqrt(s + eps) * g, grads, s, state["slots"][1])
            d = tree_map(lambda d, u: rho * d + (1 - rho) * u * u, state["slots"][1], by)
            return tree_map(lambda p, u: anp.cast_like(p - rate * u, p), params, by), {"count": state["count"] + 1, "slots": (s, d)}
        return update


class _Adaptive(_Moments):
    """Adam and its like: two moments, and a direction of these."""

    def __init__(self, rate: Any = 1e-3, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8, weight_decay: float = 0.0) -> None:
        super().__init__(rate, b1=b1, b2=b2, eps=eps, weight_decay=weight_decay)

    def second(self) -> Callable:
        """The second moment of (what it was, the gradient, the first moment)."""
        b2 = self.b2
        return lambda v, g, m: b2 * v + (1 - b2) * g * g

    def direction(self) -> Callable:
        """The step of (first moment, second moment, gradient, parameter, number of the step)."""
        raise NotImplementedError

    def rule(self) -> Callable:
        rate_at, b1, decay, second, direction = self._rate_at(), self.b1, self.weight_decay, self.second(), self.direction()

        def update(params, state, grads):
            t, rate = state["count"] + 1, rate_at(state["count"])
            m = tree_map(lambda m, g: b1 * m + (1 - b1) * g, state["slots"][0], grads)
            v = tree_map(second, state["slots"][1], grads, m)
            new = tree_map(lambda p, m, v, g: anp.cast_like(p - rate * (direction(m, v, g, p, t) + decay * p), p), params, m, v, grads)
            return new, {"count": t, "slots": (m, v)}
        return update


class Adamax(_Adaptive):
    """Adam by the largest gradient."""

    def second(self) -> Callable:
        b2, eps = self.b2, self.eps
        return lambda v, g, m: anp.maximum(anp.abs(g) + eps, b2 * v)

    def direction(self) -> Callable:
        b1 = self.b1
        return lambda m, v, g, p, t: _unbiased(m, b1, t) / v


class NAdam(_Adaptive):
    """Adam with Nesterov's momentum."""

    def direction(self) -> Callable:
        b1, b2, eps = self.b1, self.b2, self.eps
        return lambda m, v, g, p, t: (_unbiased(b1 * m, b1, t + 1) + _unbiased((1 - b1) * g, b1, t)) / (anp.sqrt(_unbiased(v, b2, t)) + eps)


class RAdam(_Adaptive):
    """Adam whose first steps have no second moment, until its variance is small."""

    def direction(self) -> Callable:
        b1, b2, eps = self.b1, self.b2, self.eps
        most = 2 / (1 - b2) - 1

        def step(m, v, g, p, t):
            mean, left = _unbiased(m, b1, t), _left(b2, t)
            ro = most - 2 * t * (1 - left) / left
            safe = anp.maximum(ro, 5.0)
            r = anp.cast_like(anp.sqrt((safe - 4) * (safe - 2) * most / ((most - 4) * (most - 2) * safe)), m)
            return anp.where(ro >= 5.0, r * mean / (anp.sqrt(v / anp.cast_like(left, v)) + eps), mean)
        return step


class AdaBelief(_Adaptive):
    """Adam by how far gradients are from what was expected."""

    def __init__(self, rate: Any = 1e-3, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-16, eps_root: float = 1e-16,
                 weight_decay: float = 0.0) -> None:
        super().__init__(rate, b1, b2, eps, weight_decay)
        self.eps_root = eps_root

    def second(self) -> Callable:
        b2, root = self.b2, self.eps_root
        return lambda v, g, m: b2 * v + (1 - b2) * (g - m) ** 2 + root

    def direction(self) -> Callable:
        b1, b2, eps = self.b1, self.b2, self.eps
        return lambda m, v, g, p, t: _unbiased(m, b1, t) / (anp.sqrt(_unbiased(v, b2, t)) + eps)


class Lamb(_Adaptive):
    """Adam whose steps are in proportion to the parameters' norms."""

    def __init__(self, rate: Any = 1e-3, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-6, weight_decay: float = 0.0) -> None:
        super().__init__(rate, b1, b2, eps, 0.0)
        self.inside = weight_decay

    def direction(self) -> Callable:
        b1, b2, eps, decay = self.b1, self.b2, self.eps, self.inside

        def step(m, v, g, p, t):
            u = _unbiased(m, b1, t) / (anp.sqrt(_unbiased(v, b2, t)) + eps) + decay * p
            have, size = anp.sqrt(anp.sum(p * p)), anp.sqrt(anp.sum(u * u))
            whole = anp.logical_and(have > 0, size > 0)
            return u * anp.where(whole, have / anp.where(whole, size, 1.0), 1.0)
        return step


class AMSGrad(_Moments):
    """Adam by the largest second moment so far."""

    slots = 3

    def __init__(self, rate: Any = 1e-3, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> None:
        super().__init__(rate, b1=b1, b2=b2, eps=eps)

    def rule(self) -> Callable:
        rate_at, b1, b2, eps = self._rate_at(), self.b1, self.b2, self.eps

        def update(params, state, grads):
            t, rate = state["count"] + 1, rate_at(state["count"])
            m = tree_map(lambda m, g: b1 * m + (1 - b1) * g, state["slots"][0], grads)
            v = tree_map(lambda v, g: b2 * v + (1 - b2) * g * g, state["slots"][1], grads)
            most = tree_map(lambda w, v: anp.cast_like(anp.maximum(w, _unbiased(v, b2, t)), w), state["slots"][2], v)
            new = tree_map(lambda p, m, w: anp.cast_like(p - rate * _unbiased(m, b1, t) / (anp.sqrt(w) + eps), p), params, m, most)
            return new, {"count": t, "slots": (m, v, most)}
        return update


class Lion(_Moments):
    """Lion: the sign of a momentum."""

    slots = 1

    def __init__(self, rate: Any = 1e-4, b1: float = 0.9, b2: float = 0.99, weight_decay: float = 1e-3) -> None:
        super().__init__(rate, b1=b1, b2=b2, weight_decay=weight_decay)

    def rule(self) -> Callable:
        rate_at, b1, b2, decay = self._rate_at(), self.b1, self.b2, self.weight_decay

        def update(params, state, grads):
            rate, m = rate_at(state["count"]), state["slots"][0]
            new = tree_map(lambda p, m, g: anp.cast_like(p - rate * (anp.sign(b1 * m + (1 - b1) * g) + decay * p), p), params, m, grads)
            m = tree_map(lambda m, g: b2 * m + (1 - b2) * g, m, grads)
            return new, {"count": state["count"] + 1, "slots": (m,)}
        return update


# ---- around others ----

class Clipped(Optimizer):
    """Another optimiser, with gradients that are no larger: ``norm`` is the most that all of them together have, ``value`` the most
    of each number."""

    def __init__(self, inner: Optimizer, norm: float | None = None, value: float | None = None) -> None:
        super().__init__(inner.rate)
        self.inner, self.norm, self.value = inner, norm, value

    def init(self, params: Any) -> Any:
        return self.inner.init(params)

    def rule(self) -> Callable:
        inner, norm, value = self.inner.rule(), self.norm, self.value

        def update(params, state, grads):
            if value is not None:
                grads = tree_map(lambda g: anp.clip(g, -value, value), grads)
            if norm is not None:
                size = anp.sqrt(sum([anp.sum(g * g) for g in tree_leaves(grads)]))
                by = anp.where(size < norm, 1.0, norm / anp.where(size < norm, 1.0, size))
                grads = tree_map(lambda g: anp.cast_like(g * by, g), grads)
            return inner(params, state, grads)
        return update


class Accumulated(Optimizer):
    """Another optimiser, which takes a step once every so many batches, by the mean of their gradients."""

    def __init__(self, inner: Optimizer, batches: int) -> None:
        super().__init__(inner.rate)
        self.inner, self.batches = inner, batches

    def init(self, params: Any) -> Any:
        return {"batch": anp.zeros((), dtype="i32"), "sum": self._zeros(params), "inner": self.inner.init(params)}

    def rule(self) -> Callable:
        inner, n = self.inner.rule(), self.batches

        def update(params, state, grads):
            total = tree_map(lambda s, g: s + g, state["sum"], grads)
            k = state["batch"] + 1
            if k < n:
                return params, {"batch": k, "sum": total, "inner": state["inner"]}
            new, after = inner(params, state["inner"], tree_map(lambda s: s / n, total))
            return new, {"batch": k - n, "sum": tree_map(lambda s: anp.zeros_like(s), total), "inner": after}
        return update


class only(Optimizer):  # noqa: N801: reads as a word: only("embedding", SGD(0.1), others=Adam())
    """An optimiser for the parameters whose name has a word, another one, or none, for the others. A name is what
    ``step.save`` writes, such as ``layers.0.bias``; the word may also be a function of the name."""

    by_params = ("chosen",)

    def __init__(self, which: Any, inner: Optimizer, others: Optimizer | None = None) -> None:
        super().__init__(inner.rate)
        self.which, self.inner, self.others = which, inner, others
        self.chosen: tuple = ()

    def init(self, params: Any) -> Any:
        holds = self.which if callable(self.which) else lambda name: self.which in name
        self.chosen = tuple(bool(holds(name)) for name in tree_paths(params))
        if not any(self.chosen):
            raise ValueError(f"no parameter is meant by {self.which!r}; there are {', '.join(tree_paths(params))}")
        parts = ([x for x, c in zip(tree_leaves(params), self.chosen) if c == of] for of in (True, False))
        return [o.init(p) if o is not None else {} for o, p in zip((self.inner, self.others), parts)]

    def rule(self) -> Callable:
        inner, others, chosen = self.inner.rule(), self.others.rule() if self.others else None, self.chosen
        here = tuple(i for i, c in enumerate(chosen) if c)
        there = tuple(i for i, c in enumerate(chosen) if not c)
        at = tuple((here if c else there).index(i) for i, c in enumerate(chosen))

        def update(params, state, grads):
            p, g = tree_leaves(params), tree_leaves(grads)
            new, first = inner([p[i] for i in here], state[0], [g[i] for i in here])
            if others is None:
                rest, second = [p[i] for i in there], state[1]
            else:
                rest, second = others([p[i] for i in there], state[1], [g[i] for i in there])
            leaves = [new[at[i]] if chosen[i] else rest[at[i]] for i in range(len(chosen))]
            return tree_unflatten(tree_structure(params), leaves), [first, second]
        return update
