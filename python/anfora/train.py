# SPDX-License-Identifier: Apache-2.0
"""Training: optimisers, a step that does everything in one call of compiled code, batches, progress, loss curves.

>>> step = Step(loss, Adam(1e-3), params)
>>> for x, y in progress(batches((images, labels), 128, epochs=5), step):
...     step(x, y)
>>> step.losses  # a curve, drawn in notebooks
"""
from __future__ import annotations

import json
import os
import queue
import random
import sys
import threading
import time
from typing import Any, Callable, Iterable, Iterator, Sized

from . import _core
from ._compile.emit import Builder
from ._errors import RunError, warn
from ._files import KEYS, load, read, save
from ._function import Function
from ._jit import Jit, as_function
from ._tree import Shape, tree_leaves, tree_map, tree_paths, tree_structure
from .comm import Comm, CommError
from .optim import (Accumulated, AdaBelief, Adadelta, Adagrad, Adam, Adamax, AdamW, AMSGrad, Clipped, Lamb, Lion, NAdam, Optimizer,  # noqa: F401
                    RAdam, RMSProp, SGD, only)
from . import schedules# noqa: F401


__all__ = ["Accumulated", "AdaBelief", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "AMSGrad", "Clipped", "Curve", "Lamb", "Lion", "NAdam",
           "Optimizer", "RAdam", "RMSProp", "SGD", "Step", "batches", "fit", "load", "only", "prefetch", "progress", "save", "schedules"]
TREES = ("params", "state", "extra")  # names in a file
SHARD_LEAST = 4096  # bytes of a tensor that shard=True cuts: less is not worth a message
SHARD_PARAMS = {False: 0, True: 1, "again": 1, "once": 2}  # anf_shard_params
ALIKE = ("E1623",)  # that all ranks find in one step, which changes nothing: they can go on
MANY_CHANGES = 10  # of an optimiser, after which a warning tells what would be faster
NOT_A_NUMBER = ("E1117",)  # a step whose outputs hold NaN or infinity


def settings_of(optimizer: Any) -> list:
    """The numbers and functions of an optimiser and of those within it, in order."""
    found = [type(optimizer)]
    for name, x in vars(optimizer).items():
        if name not in optimizer.by_params:
            found += [name, *(settings_of(x) if isinstance(x, Optimizer) else [x])]
    return found


def alike(one: list, two: list) -> bool:
    """Whether settings are the same numbers and objects."""
    return len(one) == len(two) and all(a is b or type(a) is type(b) and isinstance(a, (int, float, str, tuple)) and a == b
                                        for a, b in zip(one, two))


class _StepFunction(Function):
    """(params, state, extra.., batch..) to (params, state, extra.., loss, aux..): one program."""

    def __init__(self, loss: Function, rule: Callable, nbatch: int, extra: bool = False, aux: bool = False, **options: Any) -> None:
        super().__init__(f"step_{loss.__name__}".replace("<lambda>", "lambda"), 2 + extra + nbatch, **options)
        self._loss, self._rule, self._nbatch, self._extra, self._aux = loss, Jit(rule), nbatch, extra, aux

    def _names(self) -> list[str]:
        return ["params", "state", *["extra"] * self._extra, *(f"batch{i}" for i in range(self._nbatch))]

    def _root(self, b: Builder, statics: dict[int, Any], shapes: list[Shape]) -> tuple[str, list[str]]:
        def write(unit: Any) -> str:
            unit.wish = self.__name__
            batch = ", ".join(["params", *self._names()[2:]])
            more = [n for n, has in (("more", self._extra), ("aux", self._aux)) if has]
            given = f"(value, {more[0] if len(more) == 1 else '(more, aux)'})" if more else "value"
            gives = ", ".join(["new", "next", *["more"] * self._extra, "value", *["aux"] * self._aux])
            return (f"def \ue001{unit.number}\ue002({', '.join(self._names())}) {{\n"
                    f"  ({given}, gradients) = value_and_grad({self._loss._emit_like(b, [shapes[0], *shapes[2:]])}"
                    f"{', has_aux=true' if more else ''})({batch})\n"
                    f"  (new, next) = {self._rule._emit_like(b, [shapes[0], shapes[1], shapes[0]])}(params, state, gradients)\n"
                    f"  ({gives})\n}}\n")
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

    ``extra``: a tree that the loss changes and that is not differentiated by, such as the means of a batch norm: the loss is
    ``loss(params, extra, ...)`` and gives ``(value, extra)``; ``step.extra`` is what became of it. ``has_aux``: the loss gives
    ``(value, aux)``, with both ``(value, (extra, aux))``, and so does a step: ``value, aux = step(x, y)``.

    ``comm``: this rank of several that train one model, each with rows of its own of every batch (docs/distributed.md): all start
    from the state of rank 0, and step by the mean of their gradients, so each gives as many rows. A rank that fails is a CommError for the others, which change
    nothing in that step; with ``snapshot_every`` steps they ``recover``. ``shard``: each rank holds and updates a part of the
    optimiser's state, of tensors of at least so many bytes (True: 4096); the values stay the same, bit for bit. What reads the state
    (``params``, ``state``, ``save``, a snapshot) then gathers it, so all ranks do it alike. ``shard_params``: of the parameters, too.
    They are gathered for each layer that reads them, one ahead, and dropped after it: ``"again"`` (True) in the backward sweep,
    or ``"once"`` a step.

    ``split``: the ranks of ``comm`` are one model together, and are all given the same batch. Each holds a part of the parameters that
    are named, along an axis: ``{"w1": "column", "w2": "row", "qkv": 2}``. Names are paths, or their ends; ``column`` is the last axis,
    ``row`` the first, ``whole`` none. What follows from these parameters is held in parts, too; ``exchanges()`` tells.

    >>> step = Step(loss, SGD(0.1), params)  # loss(params, x, y) gives a number
    """

    def __init__(self, loss: Callable, optimizer: Optimizer, params: Any, *, stop_at_nan: bool = True, extra: Any = None,
                 has_aux: bool = False, comm: Comm | None = None, snapshot_every: int = 0, shard: bool | int = False,
                 shard_params: bool | str = False, split: dict[str, str | int] | None = None, **options: Any) -> None:
        if isinstance(optimizer, type) or not hasattr(optimizer, "rule"):
            what = f"the class {optimizer.__name__}: write {optimizer.__name__}(rate)" if isinstance(optimizer, type) else f"{optimizer!r:.40}"
            raise TypeError(f"Step(loss, optimizer, params) takes an optimiser of anfora.optim, such as Adam(1e-3), not {what}")
        self.loss, self.optimizer, self.has_aux = as_function(loss), optimizer, has_aux
        self._trees: tuple = (params, optimizer.init(params)) + (() if extra is None else (extra,))
        self.count, self.losses, self.stop_at_nan = 0, Curve(), stop_at_nan
        self._options = options
        self._functions: dict[int, Function] = {}
        self._rule = optimizer.rule()
        self._settings, self._changes = self._settings_now(), 0  # what the functions were made for, and how often that changed
        self._live: Any = None  # the compiled step that has the state, and its program
        self._made: list = []            # those for all kinds of batches so far
        self._newer = False              # it has taken steps since the trees were read
        self.comm, self.snapshot_every = comm, snapshot_every
        self._shard = SHARD_LEAST if shard is True else int(shard)
        if self._shard < 0 or (self._shard and comm is None):
            raise ValueError("shard is for the ranks of a comm: True, or the bytes of a tensor from which on it is sharded")
        if shard_params not in SHARD_PARAMS or (shard_params and comm is None):
            raise ValueError('shard_params is for the ranks of a comm: True, "again" or "once"')
        self._shard_params = SHARD_PARAMS[shard_params]
        if split is not None and (comm is None or self._shard or shard_params):
            raise ValueError("split is for the ranks of a comm, and without shard")
        self._split = None if split is None else ", ".join(f"{name}={axis}" for name, axis in split.items())
        self._parts = bool(self._shard or shard_params or split)  # all ranks gather the state together
        named = self._named()
        self._keys = [name for name, x in zip(tree_paths(named), tree_leaves(named)) if getattr(x, "dtype", None) == "key"]
        self._snapshots: list[tuple[int, tuple]] = []
        if comm is not None:
            self._join(comm)

    # ---- the state ----

    def _read(self) -> tuple:
        self._trees, self._newer = self._gathered(), False
        return self._trees

    def _gathered(self, keep: bool = True) -> tuple:
        """The state as it is now. A sharded one all ranks gather: where it is not kept, one leaf at a time is whole."""
        if not self._newer:
            return self._trees
        try:
            leaves = iter(self._live[0].read(keep))
        except _core.Failure as failure:
            raise self._failed(self._live[1].error(failure, RunError)) from None
        return tuple(tree_map(lambda _: next(leaves), t) for t in self._trees)

    @property
    def params(self) -> Any:
        """The parameters as they are now."""
        return self._read()[0]

    @params.setter
    def params(self, params: Any) -> None:
        self._trees, self._live, self._made = (params, *self._read()[1:]), None, []

    @property
    def extra(self) -> Any:
        """What the loss has changed besides; None if there is nothing."""
        return self._read()[2] if len(self._trees) > 2 else None

    @property
    def state(self) -> Any:
        """The optimiser's state as it is now."""
        return self._read()[1]

    @state.setter
    def state(self, state: Any) -> None:
        self._trees, self._live, self._made = (self._read()[0], state, *self._read()[2:]), None, []

    # ---- ranks ----

    def _join(self, comm: Any) -> None:
        if not isinstance(comm, Comm):
            raise TypeError(f"comm is what anfora.comm makes, not {comm!r:.40}")
        if self.has_aux:
            raise ValueError("a step with has_aux runs on one rank: what it gives besides the loss would differ")
        self._trees = tuple(tree_map(lambda x: comm.broadcast(x) if hasattr(x, "dtype") else x, t) for t in self._trees)
        if self.snapshot_every or not self._parts:
            self._snapshot()

    def _snapshot(self) -> None:
        self._snapshots = [*self._snapshots[-1:], (self.count, self._read())]

    def recover(self) -> int:
        """After a CommError: goes on with the ranks that are left, from the last snapshot that all of them have. All of them
        call this within the time limit. Gives the number of steps done, as ``count``."""
        if not self._snapshots or self.comm is None or not self.comm.reinit():
            raise RuntimeError("there are no ranks to go on with: begin again from a checkpoint")
        newest = _core.frombytes("i64", (1,), self._snapshots[-1][0].to_bytes(8, sys.byteorder))
        at = min(int(n) for n in tree_leaves([x[0] for x in self.comm.all_gather(newest)]))
        self.count, trees = next(s for s in self._snapshots if s[0] == at)
        self._trees, self._live, self._made, self._newer = trees, None, [], False
        self._snapshots = [(self.count, trees)]
        del self.losses.values[at:]
        return at

    def _failed(self, error: RunError) -> Exception:
        """An error of a run, as one of the ranks if it is. What stops this rank alone stops the others, too."""
        failure = self.comm._core.failure() if self.comm else None
        if failure:
            return CommError(*failure)
        if self.comm:
            self.comm.abort()
        return error

    def exchanges(self) -> str:
        """Text, a line each: the state of which this rank holds a part, and what a step exchanges with the other ranks, with the place in
        the program. After the first step."""
        return self._live[0].exchanges() if self._live and self.comm else ""

    # ---- checkpoints ----

    def save(self, path: Any, parts: bool = False) -> None:
        """Writes parameters, the optimiser's state and the count of steps: a safetensors file, whole or not at all. ``parts``: each
        rank writes what it holds of a sharded state, beside ``path``, which names the parts; any number of ranks loads them."""
        self._save(path, parts, count=str(self.count))

    def _save(self, path: Any, parts: bool = False, **more: str) -> None:
        """Of several ranks the first one writes: all have the same state, or gather it."""
        if parts and self._parts and self._live:
            self._save_parts(os.fspath(path), more)
            return
        first = self.comm is None or self.comm.rank == 0
        trees = self._gathered(first) if self._parts or first else ()
        if first:
            save(path, dict(zip(TREES, trees)), **more)

    def _save_parts(self, path: str, more: dict[str, str]) -> None:
        more |= {KEYS: json.dumps(self._keys)} if self._keys else {}
        try:
            self._live[0].save_parts(path, tuple(text for pair in more.items() for text in pair))
        except _core.Failure as failure:
            error = self._live[1].error(failure, RunError)
            assert self.comm is not None
            raise self._failed(error) if self.comm._core.failure() else OSError(str(error)) from None

    def _named(self) -> dict[str, Any]:
        return dict(zip(TREES, self._read()))

    def load(self, path: Any) -> None:
        """Goes on from a file that ``save`` wrote; what follows has the bits of a training without a stop."""
        tree = load(path, self._named())
        self._trees, self._live, self._made, self._newer = tuple(tree.values()), None, [], False
        self.count = int(read(path)[1].get("count", "0"))

    # ---- steps ----

    def function(self, nbatch: int) -> Function:
        """The compiled step: (params, state, batch...) to (params, state, loss)."""
        if nbatch not in self._functions:
            self._functions[nbatch] = _StepFunction(self.loss, self._rule, nbatch, len(self._trees) > 2, self.has_aux,
                                                    **self._options)
        return self._functions[nbatch]

    def _settings_now(self) -> list:
        """What a compiled step has in its code, and a user may have changed since."""
        return [self.loss, self.stop_at_nan, self.has_aux, *settings_of(self.optimizer)]

    def _made_anew(self) -> None:
        """After a change of the optimiser's numbers, of the loss or of an option: steps are made for what these are now."""
        if self.comm is not None:
            raise ValueError("the loss, the optimiser and its numbers stay as they are in a step on several ranks: give a schedule as the rate")
        trees = self._read()
        if tree_structure(self.optimizer.init(trees[0])) != tree_structure(trees[1]):
            raise ValueError("with what was changed the optimiser keeps other arrays than it has: make a new Step of step.params")
        self.loss, self._rule, self._functions = as_function(self.loss), self.optimizer.rule(), {}
        self._settings = self._settings_now()
        self._trees, self._live, self._made = trees, None, []
        self._changes += 1
        if self._changes == MANY_CHANGES:
            warn(f"the optimiser of a step has changed {MANY_CHANGES} times, and each change makes new code: give a function of the "
                 "number of the step as its rate (anfora.schedules)")

    def __call__(self, *batch: Any) -> Any:
        if not alike(self._settings_now(), self._settings):
            self._made_anew()
        if self._made and self.comm is None and self.function(len(batch))._outside_changed():
            self._trees, self._live, self._made = self._read(), None, []
        value = NotImplemented if self._live is None else self._run(self._live, batch)
        if value is NotImplemented:
            value = self._otherwise(batch)
        self.count += 1
        if self.snapshot_every and self.comm and self.count % self.snapshot_every == 0:
            self._snapshot()
        self.losses.values.append(value[0] if self.has_aux else value)
        return value

    def _drop(self) -> None:
        """The state is that of the compiled step alone."""
        self._newer, self._trees = True, tuple(tree_map(lambda _: 0, t) for t in self._trees)

    def _run(self, live: Any, batch: tuple) -> Any:
        if not self._newer and not self._parts:
            self._drop()
        try:
            value = live[0].run(*batch)
        except _core.Failure as failure:
            error = live[1].error(failure, RunError)
            if any(f.code in NOT_A_NUMBER for f in error.findings):
                self._stop(str(error))
            raise (error if any(f.code in ALIKE for f in error.findings) else self._failed(error)) from None
        if value is not NotImplemented and not self._newer:
            self._drop()  # the arrays would be whole
        return value

    def _stop(self, why: str) -> None:
        raise FloatingPointError(f"the loss of step {self.count + 1} is no number; the parameters are those before it\n{why}") from None

    def _otherwise(self, batch: tuple) -> Any:
        """A batch of another kind: a compiled step for it, with the state as it is now."""
        for i, x in enumerate(batch):
            if x is None or isinstance(x, (str, bytes)):
                raise TypeError(f"a batch is arrays, numbers and trees of them, and part {i} of this one is {x!r:.40}")
        tried = self._live
        for live in self._made:
            if live is tried:
                continue
            self._hand_over(live)
            value = self._run(live, batch)
            if value is not NotImplemented:
                return value
        trees = self._read()
        live = None if self.has_aux else self.function(len(batch))._stepper((*trees, *batch), len(trees), self.stop_at_nan,
                                                                                           self.comm and self.comm._core, self._shard,
                                                                                           self._split, self._shard_params)
        del trees
        if live is None and self.comm:
            raise TypeError("a step on several ranks needs parameters with element types that it keeps, and a compiler")
        if live is None:
            self._live = None
            return self._functional(batch)
        self._hand_over(live)
        self._made.append(live)
        return self._run(live, batch)

    def _hand_over(self, live: Any) -> None:
        """Gives the state as it is now to a compiled step."""
        live[0].write([_core.asarray(x) for t in self._read() for x in tree_leaves(t)])
        self._live = live

    def _functional(self, batch: tuple) -> Any:
        """A step that makes new parameters."""
        results = self.function(len(batch))(*self._trees, *batch)
        value = float(results[len(self._trees)])
        if self.stop_at_nan and not abs(value) < float("inf"):
            self._stop(f"it is {value}")
        self._trees = tuple(results[:len(self._trees)])
        return (value, results[-1]) if self.has_aux else value


def batches(arrays: tuple, size: int, epochs: int = 1, seed: int | None = 0, comm: Comm | None = None) -> Iterator[tuple]:
    """Parts of arrays of NumPy, ``size`` rows each, in random order (``seed`` None: in theirs). Rows that are left at
    the end of an epoch are left out, so that all parts have one shape. ``comm``: of each part this rank's share of the rows."""
    rank, ranks = (comm.rank, comm.ranks) if comm else (0, 1)
    if not isinstance(arrays, (tuple, list)):
        raise TypeError("batches() takes arrays of as many rows as a tuple, (x, y); of one array alone (x,)")
    rows = [len(a) for a in arrays]
    if len(set(rows)) > 1:
        raise ValueError(f"batches() takes arrays of as many rows, and these have {' and '.join(map(str, rows))}")
    if not 1 <= size <= rows[0]:
        raise ValueError(f"a batch has 1 to {rows[0]} rows, as many as there are, not {size}")
    if size % ranks:
        raise ValueError(f"{size} rows cannot be shared by {ranks} ranks")
    mine = size // ranks
    n = len(arrays[0])
    order = list(range(n))
    source = random.Random(seed)
    for _ in range(epochs):
        if seed is not None:
            source.shuffle(order)
        for at in range(0, n - size + 1, size):
            at += rank * mine
            yield tuple(a[order[at:at + mine]] for a in arrays)


def prefetch(items: Iterable, ahead: int = 2) -> Iterator:
    """The same items, made on a thread of their own, so many ahead. An error while they are made is raised where they are taken."""
    ready: queue.Queue = queue.Queue(max(1, ahead))
    left = threading.Event()

    def put(x: tuple) -> bool:
        while not left.is_set():
            try:
                ready.put(x, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def make() -> None:
        try:
            for x in items:
                if not put((x, None)):
                    return
            put((None, StopIteration()))
        except BaseException as e:  # noqa: BLE001: it is raised on the other thread
            put((None, e))
    threading.Thread(target=make, daemon=True).start()
    try:
        while True:
            x, e = ready.get()
            if isinstance(e, StopIteration):
                return
            if e is not None:
                raise e
            yield x
    finally:
        left.set()


def fit(step: Step, data: Callable[[int], Iterable[tuple]], epochs: int, *, validate: Callable[[Any], Any] | None = None,
        patience: int | None = None, save_to: Any = None, every: int = 1) -> list[float]:
    """Trains for so many epochs; ``data(epoch)`` gives the batches of one. ``validate(params)`` gives a number after each epoch, of
    which less is better; without an improvement for ``patience`` epochs the training ends, with the best parameters. ``save_to``: a
    checkpoint every so many epochs, from which a training that was stopped goes on. Gives the numbers of the epochs."""
    found: list[float] = []
    first = _resumed(step, save_to, found)
    best, kept = min(found, default=float("inf")), None
    for epoch in range(first, epochs):
        before = len(step.losses)
        for batch in data(epoch):
            step(*batch)
        losses = step.losses[before:]
        found.append(float(validate(step.params)) if validate else sum(losses) / max(1, len(losses)))
        if found[-1] < best:
            best, kept = found[-1], (step.params, step.state)
        if save_to is not None and ((epoch + 1) % every == 0 or epoch + 1 == epochs):
            step._save(save_to, count=str(step.count), epochs=",".join(map(repr, found)))
        if patience is not None and len(found) - 1 - found.index(min(found)) >= patience:
            if kept is not None:
                step.params, step.state = kept
            break
    return found


def _resumed(step: Step, path: Any, found: list[float]) -> int:
    """The first epoch that is left, of a training that has a checkpoint."""
    if path is None or not os.path.exists(path):
        return 0
    step.load(path)
    found += [float(x) for x in read(path)[1].get("epochs", "").split(",") if x]
    return len(found)


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
