#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""MLP_1 and MLP_2 of oneDNN's graph compiler, quantised by ONNX Runtime's own tool (QDQ, weights by channel, and dynamic):
ONNX Runtime and `anfora run` on the same files, one thread. peer_quant.py [BATCH..]"""
import os
import re
import subprocess
import sys
import tempfile

from peer import measure, run_all

import numpy as np

ANFORA = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "build", "release", "cli", "anfora")
MODELS = {"MLP_1": (13, 512, 256, 128), "MLP_2": (479, 1024, 1024, 512, 256, 1)}
BATCHES = [int(b) for b in sys.argv[1:]] or [32, 128, 512]
TURNS = 60


def model_of(path, dims, batch, rng):
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    nodes, weights, x = [], [], "x"
    for i, (k, n) in enumerate(zip(dims, dims[1:])):
        weights += [numpy_helper.from_array((rng.standard_normal((k, n)) / np.sqrt(k)).astype(np.float32), f"w{i}"),
                    numpy_helper.from_array(rng.standard_normal(n).astype(np.float32) / 10, f"b{i}")]
        nodes += [helper.make_node("MatMul", [x, f"w{i}"], [f"m{i}"]), helper.make_node("Add", [f"m{i}", f"b{i}"], [f"a{i}"])]
        x = f"a{i}"
        if i < len(dims) - 2:
            nodes.append(helper.make_node("Relu", [x], [f"r{i}"]))
            x = f"r{i}"
    end = [helper.make_tensor_value_info(v, TensorProto.FLOAT, [batch, d]) for v, d in (("x", dims[0]), (x, dims[-1]))]
    graph = helper.make_graph(nodes, "mlp", end[:1], end[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def quantised(path, batches):
    from onnxruntime import quantization as q

    class Reader(q.CalibrationDataReader):
        def __init__(self):
            self.left = iter([{"x": b} for b in batches])

        def get_next(self):
            return next(self.left, None)
    to = {kind: path.replace(".onnx", f"_{kind}.onnx") for kind in ("qdq", "dynamic")}
    q.quantize_static(path, to["qdq"], Reader(), quant_format=q.QuantFormat.QDQ, activation_type=q.QuantType.QUInt8,
                      weight_type=q.QuantType.QInt8, per_channel=True)
    q.quantize_dynamic(path, to["dynamic"])
    return to


def compared(name, path, x, folder):
    import onnxruntime as ort
    o = ort.SessionOptions()
    o.intra_op_num_threads = 1
    s = ort.InferenceSession(path, o)
    want = s.run(None, {"x": x})[0]
    theirs = measure(f"onnxruntime {name}", lambda: s.run(None, {"x": x}), TURNS)
    np.save(os.path.join(folder, "x.npy"), x)
    out = os.path.join(folder, "y.npy")
    r = subprocess.run([ANFORA, "run", path, f"x=@{folder}/x.npy", "--backend", "llvm", "--repeat", str(TURNS), "--time", "-o", out],
                       capture_output=True, text=True, check=True)
    ours = 1e3 * float(re.search(r"run ([\d.]+) ms", r.stderr)[1])
    off = np.abs(np.load(out) - want).max() / np.abs(want).max()
    print(f"  anfora {name:30} {ours:8.4g} us      {theirs / ours:.2f} times as fast; off by {off:.1g}", flush=True)


def with_onnxruntime():
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        for name, dims in MODELS.items():
            for batch in BATCHES:
                path = os.path.join(folder, f"{name}.onnx")
                model_of(path, dims, batch, rng)
                x = [rng.standard_normal((batch, dims[0])).astype(np.float32) for _ in range(4)]
                for kind, file in quantised(path, x).items():
                    compared(f"{name} {kind} {batch}", file, x[0], folder)


run_all("quantised networks, one thread", with_onnxruntime)
