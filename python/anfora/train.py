# SPDX-License-Identifier: Apache-2.0
"""Training: optimisers, a step that does everything in one call of compiled code, batches, progress, loss curves.

>>> step = Step(loss, Adam(1e-3), params)
>>> for x, y in progress(batches((images, labels), 128, epochs=5), step):
...     step(x, y)
>>> step.losses  # a curve, drawn in notebooks
"""
from __future__ import annotations

import random
import sys
import time
from typing import Any, Callable, Iterable, Iterator, Sized

from . import _core
from ._emit import Builder
from ._errors import RunError
from ._files import load, read, save
from ._function import Function, Jit, as_function
from ._transform import hyper_map
from ._tree import Shape, tree_leaves, tree_map
from . import numpy as anp


NOT_A_NUMBER = ("E1117",)  # a step whose outputs hold NaN or infinity


class Optimizer:
    """What makes new parameters of old ones and gradients. ``init(params)`` gives the state, ``update(params, state,
    gradients)`` new parameters and state; update is compiled into the step, so it is written as compiled functions
    are. ``rate`` is a number, or a function of the number of the step."""

    def __init__(self, rate: Any = 0.01) -> None:
        self.rate = rate

    def init(self, params: Any) -> Any:
        return {"count": anp.zeros(()), "slots": ()}

    def rule(self) -> Callable:
        """update(params, state, gradients) as a function that can be compiled."""
        raise NotImplementedError

    def _rate_at(self) -> Callable:
        rate = self.rate
        return rate if callable(rate) else lambda count: rate

    @staticmethod
    def _zeros(params: Any) -> Any:
        return tree_map(lambda p: anp.zeros_like(p), params)


class SGD(Optimizer):
    """Gradient descent, with momentum if one is given, Nesterov's if asked for, and decay of the weights."""

    def __init__(self, rate: Any = 0.01, momentum: float = 0.0, nesterov: bool = False, decay: float = 0.0) -> None:
        super().__init__(rate)
        self.momentum, self.nesterov, self.decay = momentum, nesterov, decay

    def init(self, params: Any) -> Any:
        return {"count": anp.zeros(()), "slots": (self._zeros(params),) if self.momentum else ()}

    def rule(self) -> Callable:
        rate_at, momentum, decay, nesterov = self._rate_at(), self.momentum, self.decay, self.nesterov

        def plain(params, state, grads):
            rate = rate_at(state["count"])
            new = hyper_map(lambda p, g: p - rate * (g + decay * p), params, grads)
            return new, {"count": state["count"] + 1, "slots": state["slots"]}

        def heavy(params, state, grads):
            rate = rate_at(state["count"])
            v = hyper_map(lambda v, g, p: momentum * v + g + decay * p, state["slots"][0], grads, params)
            if nesterov:
                new = hyper_map(lambda p, v, g: p - rate * (momentum * v + g + decay * p), params, v, grads)
            else:
                new = hyper_map(lambda p, v: p - rate * v, params, v)
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
        return {"count": anp.zeros(()), "slots": (self._zeros(params), self._zeros(params))}

    def rule(self) -> Callable:
        rate_at, b1, b2, eps, decay = self._rate_at(), self.b1, self.b2, self.eps, self.decay

        def update(params, state, grads):
            t = state["count"] + 1
            rate = rate_at(state["count"])
            m = hyper_map(lambda m, g: b1 * m + (1 - b1) * g, state["slots"][0], grads)
            v = hyper_map(lambda v, g: b2 * v + (1 - b2) * g * g, state["slots"][1], grads)
            by_m, by_v = 1 / (1 - b1 ** t), 1 / (1 - b2 ** t)
            new = hyper_map(lambda p, m, v: p - rate * (m * by_m / (anp.sqrt(v * by_v) + eps) + decay * p), params, m, v)
            return new, {"count": t, "slots": (m, v)}
        return update


def AdamW(rate: Any = 1e-3, decay: float = 0.01, **options: Any) -> Adam:  # noqa: N802: named as everywhere
    """Adam with decay of the weights."""
    return Adam(rate, decay=decay, **options)


class RMSProp(Optimizer):
    """RMSProp."""

    def __init__(self, rate: Any = 1e-3, decay: float = 0.9, eps: float = 1e-8) -> None:
        super().__init__(rate)
        self.decay, self.eps = decay, eps

    def init(self, params: Any) -> Any:
        return {"count": anp.zeros(()), "slots": (self._zeros(params),)}

    def rule(self) -> Callable:
        rate_at, decay, eps = self._rate_at(), self.decay, self.eps

        def update(params, state, grads):
            rate = rate_at(state["count"])
            v = hyper_map(lambda v, g: decay * v + (1 - decay) * g * g, state["slots"][0], grads)
            new = hyper_map(lambda p, g, v: p - rate * g / (anp.sqrt(v) + eps), params, grads, v)
            return new, {"count": state["count"] + 1, "slots": (v,)}
        return update


class _StepFunction(Function):
    """(params, state, batch...) to (params, state, loss): one program."""

    def __init__(self, loss: Function, rule: Callable, nbatch: int, **options: Any) -> None:
        super().__init__(f"step_{loss.__name__}".replace("<lambda>", "lambda"), 2 + nbatch, **options)
        self._loss, self._rule, self._nbatch = loss, Jit(rule), nbatch

    def _names(self) -> list[str]:
        return ["params", "state", *(f"batch{i}" for i in range(self._nbatch))]

    def _root(self, b: Builder, statics: dict[int, Any], shapes: list[Shape]) -> tuple[str, list[str]]:
        def write(unit: Any) -> str:
            unit.wish = self.__name__
            batch = ", ".join(["params", *self._names()[2:]])
            return (f"def \ue001{unit.number}\ue002({', '.join(self._names())}) {{\n"
                    f"  (value, gradients) = value_and_grad({self._loss._emit_like(b, [shapes[0], *shapes[2:]])})({batch})\n"
                    f"  (new, next) = {self._rule._emit(b)}(params, state, gradients)\n"
                    f"  (new, next, value)\n}}\n")
        return b.unit(self, self.__name__, write), self._names()


class Curve:
    """The losses of a training, in order. Notebooks draw it; ``save("loss.svg")`` writes the drawing."""

    def __init__(self) -> None:
        self.values: list[float] = []

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, i: Any) -> Any:
        return self.values[i]

    def __iter__(self) -> Iterator[float]:
        return iter(self.values)

    def __repr__(self) -> str:
        return f"<losses of {len(self)} steps, the last {self.values[-1]:.6g}>" if self.values else "<no losses yet>"

    def svg(self, width: int = 640, height: int = 320) -> str:
        """The curve as a drawing."""
        values = [v for v in self.values if v == v and abs(v) != float("inf")] or [0.0]
        low, high = min(values), max(values)
        span = (high - low) or 1.0
        left, top, w, h = 60, 10, width - 75, height - 40
        points = " ".join(f"{left + w * i / max(1, len(values) - 1):.1f},{top + h * (high - v) / span:.1f}"
                          for i, v in enumerate(values))
        texts = "".join(f'<text x="{left - 6}" y="{top + h * k / 4 + 4:.0f}" text-anchor="end">{high - span * k / 4:.4g}</text>'
                        f'<path d="M{left} {top + h * k / 4:.1f}h{w}" stroke="#ddd"/>' for k in range(5))
        return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
                f'font-size="11">{texts}<text x="{left + w / 2:.0f}" y="{height - 8}" text-anchor="middle">'
                f'{len(values)} steps</text><polyline points="{points}" fill="none" stroke="#1f77b4" '
                f'stroke-width="1.5"/></svg>')

    def _repr_svg_(self) -> str:
        return self.svg()

    def save(self, path: str) -> None:
        """Writes the drawing: .svg, and other kinds if matplotlib is there."""
        if path.endswith(".svg"):
            with open(path, "w", encoding="utf-8") as f:
                f.write(self.svg())
            return
        self.plot().figure.savefig(path)

    def plot(self) -> Any:
        """The curve as axes of matplotlib."""
        from matplotlib import pyplot  # type: ignore[import-not-found, unused-ignore]
        axes = pyplot.figure().gca()
        axes.plot(self.values)
        axes.set_xlabel("step")
        axes.set_ylabel("loss")
        return axes


class Step:
    """One training step, compiled whole: loss, gradients, new parameters. ``step(x, y)`` takes one step and gives the
    loss; ``params``, ``state``, ``count`` and ``losses`` are what became of it.

    Parameters and the optimiser's state are updated where they are; ``params`` gives copies. ``stop_at_nan``: a loss
    that is no number is an error, and changes nothing.

    >>> step = Step(loss, SGD(0.1), params)  # loss(params, x, y) gives a number
    """

    def __init__(self, loss: Callable, optimizer: Optimizer, params: Any, *, stop_at_nan: bool = True, **options: Any) -> None:
        self.loss, self.optimizer = as_function(loss), optimizer
        self._trees = params, optimizer.init(params)
        self.count, self.losses, self.stop_at_nan = 0, Curve(), stop_at_nan
        self._options = options
        self._functions: dict[int, Function] = {}
        self._live: Any = None  # the compiled step that has the state, and its program
        self._made: list = []            # those for all kinds of batches so far
        self._newer = False              # it has taken steps since the trees were read

    # ---- the state ----

    def _read(self) -> tuple:
        if self._newer:
            leaves = iter(self._live[0].read())
            self._trees = tuple(tree_map(lambda _: next(leaves), t) for t in self._trees)
            self._newer = False
        return self._trees

    @property
    def params(self) -> Any:
        """The parameters as they are now."""
        return self._read()[0]

    @params.setter
    def params(self, params: Any) -> None:
        self._trees, self._live, self._made = (params, self._read()[1]), None, []

    @property
    def state(self) -> Any:
        """The optimiser's state as it is now."""
        return self._read()[1]

    @state.setter
    def state(self, state: Any) -> None:
        self._trees, self._live, self._made = (self._read()[0], state), None, []

    # ---- checkpoints ----

    def save(self, path: Any) -> None:
        """Writes parameters, the optimiser's state and the count of steps: a safetensors file, whole or not at all."""
        save(path, {"params": self.params, "state": self.state}, count=str(self.count))

    def load(self, path: Any) -> None:
        """Goes on from a file that ``save`` wrote; what follows has the bits of a training without a stop."""
        tree = load(path, {"params": self.params, "state": self.state})
        self._trees, self._live, self._made, self._newer = (tree["params"], tree["state"]), None, [], False
        self.count = int(read(path)[1].get("count", "0"))

    # ---- steps ----

    def function(self, nbatch: int) -> Function:
        """The compiled step: (params, state, batch...) to (params, state, loss)."""
        if nbatch not in self._functions:
            self._functions[nbatch] = _StepFunction(self.loss, self.optimizer.rule(), nbatch, **self._options)
        return self._functions[nbatch]

    def __call__(self, *batch: Any) -> float:
        value = NotImplemented if self._live is None else self._run(self._live, batch)
        if value is NotImplemented:
            value = self._otherwise(batch)
        self.count += 1
        self.losses.values.append(value)
        return value

    def _run(self, live: Any, batch: tuple) -> Any:
        try:
            value = live[0].run(*batch)
        except _core.Failure as failure:
            error = live[1].error(failure, RunError)
            if any(f.code in NOT_A_NUMBER for f in error.findings):
                self._stop(str(error))
            raise error from None
        self._newer = self._newer or value is not NotImplemented
        return value

    def _stop(self, why: str) -> None:
        raise FloatingPointError(f"the loss of step {self.count + 1} is no number; the parameters are those before it\n{why}") from None

    def _otherwise(self, batch: tuple) -> float:
        """A batch of another kind: a compiled step for it, with the state as it is now."""
        for i, x in enumerate(batch):
            if x is None or isinstance(x, (str, bytes)):
                raise TypeError(f"a batch is arrays, numbers and trees of them, and part {i} of this one is {x!r:.40}")
        trees = self._read()
        leaves = [_core.asarray(x) for t in trees for x in tree_leaves(t)] if self._made else []
        for live in self._made:
            live[0].write(leaves)
            self._live = live
            value = self._run(live, batch)
            if value is not NotImplemented:
                return value
        live = self.function(len(batch))._stepper((*trees, *batch), 2, self.stop_at_nan)
        if live is None:
            self._live = None
            return self._functional(batch)
        live[0].write([_core.asarray(x) for t in trees for x in tree_leaves(t)])
        self._live = live
        self._made.append(live)
        return self._run(live, batch)

    def _functional(self, batch: tuple) -> float:
        """A step that makes new parameters."""
        params, state, value = self.function(len(batch))(*self._trees, *batch)
        value = float(value)
        if self.stop_at_nan and not abs(value) < float("inf"):
            self._stop(f"it is {value}")
        self._trees = params, state
        return value


def batches(arrays: tuple, size: int, epochs: int = 1, seed: int | None = 0) -> Iterator[tuple]:
    """Parts of arrays of NumPy, ``size`` rows each, in random order (``seed`` None: in theirs). Rows that are left at
    the end of an epoch are left out, so that all parts have one shape."""
    n = len(arrays[0])
    order = list(range(n))
    source = random.Random(seed)
    for _ in range(epochs):
        if seed is not None:
            source.shuffle(order)
        for at in range(0, n - size + 1, size):
            yield tuple(a[order[at:at + size]] for a in arrays)


def progress(steps: Iterable, step: Step | None = None, total: int | None = None, out: Any = None) -> Iterator:
    """Goes over ``steps`` and shows how far it is, the loss and steps a second, on a terminal."""
    out = out or sys.stderr
    total = total if total is not None else len(steps) if isinstance(steps, Sized) else None
    start = shown = time.perf_counter()
    done = 0
    for x in steps:
        yield x
        done += 1
        now = time.perf_counter()
        if out.isatty() and (now - shown > 0.1 or done == total):
            shown = now
            out.write("\r" + _line(done, total, now - start, step) + "\x1b[K")
            out.flush()
    if out.isatty() and done:
        out.write("\r" + _line(done, total, time.perf_counter() - start, step) + "\x1b[K\n")


def _line(done: int, total: int | None, seconds: float, step: Step | None) -> str:
    bar = ""
    if total:
        full = 30 * done // total
        bar = f"[{'=' * full}{' ' * (30 - full)}] "
    loss = f"  loss {step.losses[-1]:.4f}" if step and len(step.losses) else ""
    return f"{bar}{done}{f'/{total}' if total else ''}{loss}  {done / max(seconds, 1e-9):.0f} steps/s"


def count_parameters(params: Any) -> int:
    """How many numbers a tree of parameters has."""
    return sum(getattr(p, "size", 1) for p in tree_leaves(params))
