#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make.py FOLDER [--filter WORD] [--again]: each network of cases.py with seeded weights, exported by both exporters of torch.onnx and by
pnnx: FOLDER/CASE/script.onnx, dynamo.onnx, m.pnnx.param, inK.npy, outK.npy, and FORM.failed with the reason where an exporter fails.
Run with a Python that has requirements.txt."""
import argparse
import multiprocessing
import os
import sys
import warnings

import numpy as np
import torch

import cases

SECONDS = 300


def forms_of(name, forms):
    """Operators are for how pnnx writes them."""
    return [f for f in forms if f == "pnnx" or not name.startswith("op_")]


def export(form, net, inputs):
    if form == "pnnx":
        import pnnx
        pnnx.export(net, "m.pt", inputs, fp16=False)
    else:
        torch.onnx.export(net, inputs, form + ".onnx", dynamo=form == "dynamo", external_data=False, verbose=False,
                          **({} if form == "dynamo" else {"opset_version": 18, "do_constant_folding": True}))


def one(name, folder, forms):
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1), os.dup2(log, 2)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(7)
    net, inputs = cases.CASES[name]()
    net.eval()
    with torch.no_grad():
        outs = net(*inputs)
    for i, x in enumerate(inputs):
        np.save(f"in{i}.npy", x.numpy())
    for i, y in enumerate(outs if isinstance(outs, (tuple, list)) else (outs,)):
        np.save(f"out{i}.npy", y.numpy())
    for form in forms:
        try:
            with torch.no_grad():
                export(form, net, inputs)
        except BaseException as e:  # whatever an exporter raises
            with open(form + ".failed", "w", encoding="utf-8") as f:
                f.write(f"{type(e).__name__}: {e}"[:2000])
    for extra in ("m.pt", "m.ncnn.param", "m.ncnn.bin", "m_ncnn.py", "m_pnnx.py", "m.pnnx.onnx"):
        if os.path.exists(extra):
            os.remove(extra)
    open("done", "w").close()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("folder")
    p.add_argument("--filter", default="")
    p.add_argument("--again", action="store_true")
    p.add_argument("--forms", default="script,dynamo,pnnx")
    o = p.parse_args()
    for name in cases.CASES:
        folder = os.path.abspath(os.path.join(o.folder, name))
        if o.filter not in name or (os.path.exists(os.path.join(folder, "done")) and not o.again):
            continue
        child = multiprocessing.get_context("fork").Process(target=one, args=(name, folder, forms_of(name, o.forms.split(","))))
        child.start()
        child.join(SECONDS)
        if child.is_alive():
            child.kill()
            child.join()
        print(name, "exported" if os.path.exists(os.path.join(folder, "done")) else f"failed with status {child.exitcode}", flush=True)


sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
main()
