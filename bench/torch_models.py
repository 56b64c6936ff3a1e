#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models of test/suites/torchmodels in f32 by Anfora, beside eager PyTorch and inductor in the same process.

    torch_models.py BUILD_DIR [--only NAME,..] [--kinds inference,step] [--threads 1,2] [--rounds N] [--inductor-cache DIR] [--freeze]

It prints the time of the first call, which compiles, the median time of a call by each in turn (the ways take turns, so that other
work of the machine meets all of them), and how much faster Anfora is than the better of the two others. A result that is not eager's to 1e-3
is an error. With a cache of inductor's that a run before has filled the times of its first calls say nothing, and a run is short.
PyTorch, torchvision, timm and transformers must be there, and a C++ compiler for inductor."""
import argparse
import copy
import math
import os
import sys
import tempfile
import time
import warnings

p = argparse.ArgumentParser()
p.add_argument("build")
p.add_argument("--only", default="resnet18,mobilenet_v3_small,vit,unet,deit_tiny_patch16_224,bert,gpt2,llama,t5")
p.add_argument("--kinds", default="inference,step")
p.add_argument("--threads", default="1,2")
p.add_argument("--rounds", type=int, default=15)
p.add_argument("--inductor-cache")
p.add_argument("--freeze", action="store_true", help="weights are constants of inference by Anfora")
p.add_argument("--no-inductor", action="store_true", help="beside eager alone")
A = p.parse_args()
os.environ.setdefault("ANFORA_CACHE", "off")
CACHE = tempfile.TemporaryDirectory()
os.environ["TORCHINDUCTOR_CACHE_DIR"] = A.inductor_cache or CACHE.name
warnings.simplefilter("ignore")
sys.path[:0] = [os.path.join(A.build, "python"), os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "suites", "torchmodels")]
import torch  # noqa: E402

import anfora.torch  # noqa: E402
from models import MODELS, Case  # noqa: E402
from run import arguments  # noqa: E402


def inference(case: Case, how: str):
    model = case.model.eval()
    made = model if how == "eager" else torch.compile(model, backend=how, options={"freeze": True} if A.freeze and how == "anfora" else None)
    args, kw = arguments(case.inputs[0])

    def call():
        with torch.no_grad():
            return first_tensor(made(*args, **kw))
    return call


def first_tensor(out):
    out = dict(out) if hasattr(out, "keys") else out
    return next(x for x in torch.utils._pytree.tree_leaves(out) if isinstance(x, torch.Tensor)).sum()


def step(case: Case, how: str):
    model = case.model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, fused=how != "anfora")
    if how == "anfora":
        whole = anfora.torch.compile_step(model, case.loss, optimizer)
        return lambda: whole(*case.inputs)
    args, kw = arguments(case.inputs[0])
    made = model if how == "eager" else torch.compile(model, backend=how)

    def call():
        value = case.loss(made(*args, **kw), *case.inputs[1:])
        value.backward()
        optimizer.step()
        optimizer.zero_grad()
        return value.detach()
    return call


def made(name: str, kind: str, hows: list) -> dict:
    """The call of each way, its first result and the seconds that it took."""
    torch.manual_seed(3)
    case, calls = MODELS[name](), {}
    for how in hows:
        torch._dynamo.reset()
        torch.manual_seed(5)
        call = globals()[kind](case._replace(model=copy.deepcopy(case.model)), how)
        start = time.perf_counter()
        calls[how] = call, float(call()), time.perf_counter() - start
    return calls


def compare(name: str, kind: str, threads: int) -> tuple:
    """(how much faster than the better of the others, how long inductor's first call takes by ours, is it right?)"""
    torch.set_num_threads(threads)
    calls = made(name, kind, ["eager", "anfora", *["inductor"] * (not A.no_inductor)])
    took = {how: [] for how in calls}
    for _ in range(A.rounds):
        for how, (call, *_) in calls.items():
            start = time.perf_counter()
            call()
            took[how].append(1e3 * (time.perf_counter() - start))
    ms = {how: sorted(t)[len(t) // 2] for how, t in took.items()}
    want, got = calls["eager"][1], calls["anfora"][1]
    right = abs(got - want) <= 1e-3 * max(1.0, abs(want))
    gain = min(v for how, v in ms.items() if how != "anfora") / ms["anfora"]
    first = {how: f"{c[2]:.1f}" for how, c in calls.items()}
    ratio = calls["eager" if A.no_inductor else "inductor"][2] / calls["anfora"][2]
    print(f"  {name:24} {kind:9} " + "  ".join(f"{how} {ms[how]:8.3f} ms (first {first[how]} s)" for how in calls) +
          f"  {gain:5.2f}x  {'' if A.no_inductor else f'compiles {ratio:.1f}x faster'}{'' if right else f'  WRONG: {got} is not {want}'}", flush=True)
    return gain, ratio, right


def main() -> int:
    good = True
    for how in ("anfora", *["inductor"] * (not A.no_inductor)):  # what the first use of each loads is not counted
        torch.compile(torch.nn.Linear(2, 2), backend=how)(torch.ones(1, 2)).sum().backward()
    for threads in map(int, A.threads.split(",")):
        print(f" {threads} thread{'s' * (threads > 1)}")
        rows = [compare(name, kind, threads) for name in A.only.split(",") for kind in A.kinds.split(",")]
        mean = [math.exp(sum(map(math.log, column)) / len(rows)) for column in list(zip(*rows))[:2]]
        print(f"  geometric mean: {mean[0]:.2f}x the better of the others, the least {min(r[0] for r in rows):.2f}x" +
              ("" if A.no_inductor else f"; first calls {mean[1]:.1f}x faster than inductor's"))
        good = good and all(r[2] for r in rows)
    return not good


sys.exit(main())
