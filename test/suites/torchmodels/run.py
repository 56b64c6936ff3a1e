#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models of torchvision, timm and transformers, compiled by Anfora and compared with eager PyTorch:

    run.py PACKAGE [--only WORD] [--floor N] [--kinds inference,training,step] [--types f64,f32]

inference: what the model gives in evaluation. training: loss, gradients and buffers of one step of the model in training mode, by
torch.compile. step: parameters and buffers after one step of anfora.torch.compile_step. Each tensor's error is the greatest
difference from eager's as a part of the greatest element: 1e-9 in f64 (1e-6 if the model computes parts of itself in f32), 1e-4 in
f32, or off from eager's f64 by twice as much as eager's f32 is, if that is less than 1e-2: gradients in which much cancels have few
digits. A model passes if all of these hold and no node runs in PyTorch."""
import argparse
import contextlib
import copy
import io
import os
import sys
import time
import warnings

LIMIT = {"f64": 1e-9, "rounded": 1e-6, "f32": 1e-4}  # rounded: the model computes parts in f32 whatever its parameters are


def arguments(inputs):
    return ((), inputs) if isinstance(inputs, dict) else (inputs, {})


def dtype_of(model):
    return next(p.dtype for p in model.parameters() if p.is_floating_point())


class Runner:
    def __init__(self, package):
        sys.path.insert(0, package)
        import torch
        import anfora.torch as backend
        self.torch, self.backend = torch, backend

    @contextlib.contextmanager
    def watched(self):
        """Does what runs here make tensors of f32, or take eager's derivative of hardsigmoid, whose 1 / 6 is rounded to f32? The list of
        such ops says so."""
        from torch.utils._python_dispatch import TorchDispatchMode
        torch, found = self.torch, []

        class Watch(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                out = func(*args, **(kwargs or {}))
                tensors = [x for x in torch.utils._pytree.tree_leaves(out) if isinstance(x, torch.Tensor)]
                if func is torch.ops.aten.hardsigmoid_backward.default or any(x.dtype is torch.float32 for x in tensors):
                    found.append(func)
                return out
        with Watch():
            yield found

    def converted(self, tree, dtype):
        move = lambda x: x.to(dtype) if isinstance(x, self.torch.Tensor) and x.is_floating_point() else x  # noqa: E731
        return self.torch.utils._pytree.tree_map(move, tree)

    # ---- what is compared: lists of (name, tensor) ----

    def inference(self, case, model, compiled):
        args, kw = arguments(case.inputs[0])
        with self.torch.no_grad():
            out = (self.compiled(model) if compiled else model)(*args, **kw)
        out = [x for x in self.torch.utils._pytree.tree_leaves(dict(out) if hasattr(out, "keys") else out) if isinstance(x, self.torch.Tensor)]
        return [(f"result {i}", x) for i, x in enumerate(out)]

    def training(self, case, model, compiled):
        args, kw = arguments(case.inputs[0])
        value = case.loss((self.compiled(model) if compiled else model)(*args, **kw), *case.inputs[1:])
        value.backward()
        return [("loss", value), *((f"gradient of {n}", p.grad) for n, p in model.named_parameters()), *model.named_buffers()]

    def step(self, case, model, compiled):
        optimizer = self.torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9, weight_decay=1e-2)
        if compiled:
            value = self.torch.tensor(self.backend.compile_step(model, case.loss, optimizer)(*case.inputs), dtype=dtype_of(model))
        else:
            args, kw = arguments(case.inputs[0])
            value = case.loss(model(*args, **kw), *case.inputs[1:])
            value.backward()
            optimizer.step()
        return [("loss", value), *model.named_parameters(), *model.named_buffers()]

    def compiled(self, model):
        return self.torch.compile(model, backend="anfora")

    # ---- one model ----

    def error(self, got, want):
        """(the greatest error, where)"""
        worst = (0.0, "")
        if len(got) != len(want):
            return float("inf"), f"{len(got)} tensors, not {len(want)}"
        for (name, x), (_, y) in zip(got, want):
            if x is None or y is None:  # autograd has no gradient where a compiled graph has zeros
                if (y if x is None else x) is not None and (y if x is None else x).abs().max() != 0:
                    return float("inf"), f"{name} is absent"
                continue
            if x.shape != y.shape or x.dtype != y.dtype:
                return float("inf"), f"{name} is {x.dtype}{list(x.shape)}, not {y.dtype}{list(y.shape)}"
            if not x.numel():
                continue
            x, y = x.detach().double(), y.detach().double()
            off = (x - y).abs().max().item() / max(y.abs().max().item(), 1e-3)
            if not off <= worst[0]:
                worst = off, name
        return worst

    def rounding(self, make, kind, results):
        """The error of f32 without tensors that are as near as eager's to what it gives in f64."""
        case = self.made(make, self.torch.float64)
        case.model.train(kind != "inference")
        self.torch.manual_seed(5)
        compared = []
        for got, want, exact in zip(*results, getattr(self, kind)(case, case.model, False)):
            if None in (got[1], want[1], exact[1]) or not want[1].is_floating_point():
                compared.append((got, want))
                continue
            ours, own = (self.error([(x[0], x[1].double())], [exact])[0] for x in (got, want))
            if not (own < 1e-2 and ours <= 2 * own):
                compared.append((got, want))
        return self.error([g for g, _ in compared], [w for _, w in compared])

    def made(self, make, dtype):
        """The case, whose weights and inputs are numbers of f32."""
        self.torch.manual_seed(3)
        case = make()
        return case._replace(model=case.model.to(dtype), inputs=self.converted(case.inputs, dtype))

    def run(self, make, kind, dtype):
        """(error, where, seconds of the compiled run, does the model round to f32?)"""
        torch = self.torch
        case = self.made(make, dtype)
        case.model.train(kind != "inference")
        twin, taken = copy.deepcopy(case.model), 0.0
        results, rounds = [], []
        for model, compiled in ((case.model, False), (twin, True)):
            torch.manual_seed(5)
            torch._dynamo.reset()
            start = time.time()
            with contextlib.nullcontext(rounds) if compiled else self.watched() as rounds:
                results.append(getattr(self, kind)(case, model, compiled))
            taken = time.time() - start
        off = self.error(results[1], results[0])
        if dtype is torch.float32 and LIMIT["f32"] < off[0] < float("inf"):
            off = self.rounding(make, kind, results[::-1])
        return (*off, taken, bool(rounds))

    def model(self, make, kinds, types):
        """The reasons why it fails."""
        bad, line = [], []
        for dtype in types:
            for kind in kinds:
                said, before = io.StringIO(), sum(self.backend.fallbacks.values())
                try:
                    with contextlib.redirect_stderr(said):
                        off, where, taken, rounds = self.run(make, kind, {"f64": self.torch.float64, "f32": self.torch.float32}[dtype])
                except Exception as e:  # noqa: BLE001: whatever a model raises is its result
                    bad.append(f"{kind} {dtype}: {type(e).__name__}: {' '.join(str(e).split())[:300]}")
                    continue
                line.append(f"{kind} {dtype} {off:.1e} {taken:.1f}s")
                if not off <= LIMIT["rounded" if rounds and dtype == "f64" else dtype]:
                    bad.append(f"{kind} {dtype}: {where} differs by {off:.3g}")
                if sum(self.backend.fallbacks.values()) != before:
                    bad.append(f"{kind} {dtype}: " + "; ".join(x.strip() for x in said.getvalue().splitlines() if x[:2] == "  ")[:300])
        return bad, ", ".join(line)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("package")
    p.add_argument("--only", default="")
    p.add_argument("--floor", type=int, default=0)
    p.add_argument("--kinds", default="inference,training,step")
    p.add_argument("--types", default="f64,f32")
    a = p.parse_args()
    os.environ.setdefault("ANFORA_CACHE", "off")
    warnings.simplefilter("ignore")
    try:
        import timm  # noqa: F401
        import torchvision  # noqa: F401
        import transformers  # noqa: F401
    except ImportError as e:
        print(f"skipped: {e}")
        return 0
    from models import MODELS
    import more  # noqa: F401: it fills MODELS
    r, passed, run = Runner(a.package), 0, 0
    names = a.only.split(",")
    for name, make in MODELS.items():
        if a.only and name not in names:
            continue
        bad, line = r.model(make, a.kinds.split(","), a.types.split(","))
        run, passed = run + 1, passed + (not bad)
        print(f"{'not ok' if bad else 'ok'} {name}: {line}" + "".join(f"\n    {x}" for x in bad), flush=True)
    print(f"{passed} passed, {run - passed} failed")
    if passed < a.floor:
        print(f"below the floor of {a.floor}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
