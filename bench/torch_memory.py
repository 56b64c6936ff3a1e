#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory of models of test/suites/torchmodels at real sizes, in f32: Anfora beside eager PyTorch, each in a process of its own.

    torch_memory.py BUILD_DIR [--only NAME,..] [--kinds inference,training,step] [--ways eager,anfora,..]

MiB above what the process has once everything is imported and the model and its inputs are there: the peak of all calls, with
compiling, and the peak of the third call (Linux resets the mark, /proc/self/clear_refs). training is torch.compile with SGD and
momentum of PyTorch, step is anfora.torch.compile_step. PyTorch, torchvision, timm and transformers must be there."""
import argparse
import gc
import json
import os
import subprocess
import sys
import warnings

p = argparse.ArgumentParser()
p.add_argument("build")
p.add_argument("--only", default="resnet18,unet,gpt2,vit")
p.add_argument("--kinds", default="inference,training,step")
p.add_argument("--ways", default="eager,anfora")
p.add_argument("--one", nargs=3, help=argparse.SUPPRESS)  # model, kind, way
A = p.parse_args()


def memory(name):
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith(name)) / 1024


def sized(name):
    """The model at a size whose memory is worth measuring."""
    import torch
    import models
    if name == "resnet18":
        import torchvision
        return models.image(torchvision.models.resnet18(weights=None, num_classes=10), 160, batch=16)
    if name == "unet":
        return models.dense(models.UNet((16, 32, 64)), 256)
    if name == "gpt2":
        model = models._of("GPT2LMHeadModel", "GPT2Config", vocab_size=5000, n_embd=256, n_layer=4, n_head=8, n_positions=256, use_cache=False)
        return models.Case(model, ({"input_ids": torch.randint(0, 5000, (8, 256))}, torch.randint(0, 5000, (8, 256))), models.classes)
    if name == "vit":
        import torchvision
        return models.image(torchvision.models.VisionTransformer(128, 8, 4, 8, 256, 512, num_classes=10), 128, batch=8)
    return models.MODELS[name]()


def one(name, kind, way):
    os.environ.setdefault("ANFORA_CACHE", "off")
    warnings.simplefilter("ignore")
    sys.path[:0] = [os.path.join(A.build, "python"), os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "suites", "torchmodels")]
    import torch
    import torchvision  # noqa: F401
    import torch._dynamo
    import anfora.torch
    from run import arguments
    torch.compile(torch.nn.Linear(2, 2), backend="anfora" if way == "anfora" else "eager")(torch.ones(1, 2)).sum().backward()
    torch.manual_seed(3)
    case = sized(name)
    model = case.model.train(kind != "inference")
    args, kw = arguments(case.inputs[0])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    compiled = model if way == "eager" else torch.compile(model, backend=way)
    whole = anfora.torch.compile_step(model, case.loss, optimizer) if kind == "step" and way == "anfora" else None

    def call():
        if kind == "inference":
            with torch.no_grad():
                compiled(*args, **kw)
            return
        if whole is not None:
            whole(*case.inputs)
            return
        case.loss(compiled(*args, **kw), *case.inputs[1:]).backward()
        optimizer.step()
        optimizer.zero_grad()
    gc.collect()
    base = memory("VmRSS")
    call(), call()
    first = memory("VmHWM")
    with open("/proc/self/clear_refs", "w") as f:
        f.write("5")
    call()
    print(json.dumps([first - base, memory("VmHWM") - base]))


def main():
    for name in A.only.split(","):
        for kind in A.kinds.split(","):
            row = []
            for way in A.ways.split(","):
                r = subprocess.run([sys.executable, __file__, A.build, "--one", name, kind, way], capture_output=True, text=True)
                if r.returncode:
                    print(r.stderr[-600:])
                    return 1
                first, third = json.loads(r.stdout.splitlines()[-1])
                row.append(f"{way} {first:7.0f} MiB in all, {third:7.0f} a call")
            print(f"  {name:10} {kind:10} " + "   ".join(row), flush=True)
    return 0


if A.one:
    one(*A.one)
else:
    sys.exit(main())
