#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""MLP_1 and MLP_2 of oneDNN's graph compiler, quantised by ONNX Runtime's own tool (QDQ, weights by channel, of 8 and of 7 bits, and dynamic), and
ResNet-18 with random weights (QDQ of u8 and of i8): ONNX Runtime and `anfora run` on the same files, one thread.
peer_quant.py [BATCH..]"""
import os
import resource
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


class Network:
    """The nodes and weights of a network of convolutions, with random weights."""

    def __init__(self, rng):
        self.rng, self.nodes, self.weights = rng, [], []

    def op(self, kind, *inputs, **attrs):
        from onnx import helper
        self.nodes.append(helper.make_node(kind, list(inputs), [f"n{len(self.nodes)}"], **attrs))
        return self.nodes[-1].output[0]

    def weight(self, *shape, size):
        from onnx import numpy_helper
        self.weights.append(numpy_helper.from_array((self.rng.standard_normal(shape) * size).astype(np.float32), f"w{len(self.weights)}"))
        return self.weights[-1].name

    def conv(self, x, ci, co, k, stride):
        w, b = self.weight(co, ci, k, k, size=np.sqrt(2 / (ci * k * k))), self.weight(co, size=0.1)
        return self.op("Conv", x, w, b, kernel_shape=[k, k], pads=[k // 2] * 4, strides=[stride, stride])

    def block(self, x, ci, co, stride):
        y = self.op("Relu", self.conv(x, ci, co, 3, stride))
        y = self.conv(y, co, co, 3, 1)
        return self.op("Relu", self.op("Add", y, x if ci == co else self.conv(x, ci, co, 1, stride)))


def resnet18(path, rng):
    import onnx
    from onnx import TensorProto, helper
    g, ci = Network(rng), 64
    x = g.op("MaxPool", g.op("Relu", g.conv("x", 3, 64, 7, 2)), kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2])
    for stage in range(4):
        for part in range(2):
            x = g.block(x, ci, 64 << stage, 2 if stage and not part else 1)
            ci = 64 << stage
    x = g.op("Flatten", g.op("GlobalAveragePool", x))
    y = g.op("Gemm", x, g.weight(1000, 512, size=0.04), g.weight(1000, size=0.1), transB=1)
    ends = [[helper.make_tensor_value_info(v, TensorProto.FLOAT, d)] for v, d in (("x", [1, 3, 224, 224]), (y, [1, 1000]))]
    graph = helper.make_graph(g.nodes, "resnet18", *ends, g.weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def quantised(path, batches, kinds=("qdq", "qdq_7", "dynamic")):
    from onnxruntime import quantization as q

    class Reader(q.CalibrationDataReader):
        def __init__(self):
            self.left = iter([{"x": b} for b in batches])

        def get_next(self):
            return next(self.left, None)
    to = {kind: path.replace(".onnx", f"_{kind}.onnx") for kind in kinds}
    types = {"qdq": q.QuantType.QUInt8, "qdq_7": q.QuantType.QUInt8, "qdq_i8": q.QuantType.QInt8}
    for kind, file in to.items():
        if kind == "dynamic":
            q.quantize_dynamic(path, file)
        else:
            q.quantize_static(path, file, Reader(), quant_format=q.QuantFormat.QDQ, activation_type=types[kind],
                              weight_type=q.QuantType.QInt8, per_channel=True, reduce_range=kind == "qdq_7")
    return to


def processor_time(path, folder, turns):
    """Of a process that compiles the model and runs it so often: as measure() has it, whatever else the machine does."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run([ANFORA, "run", path, f"x=@{folder}/x.npy", "--backend", "llvm", "--repeat", str(turns), "-o", os.path.join(folder, "y.npy")],
                   capture_output=True, check=True)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def compared(name, path, x, folder):
    import onnxruntime as ort
    o = ort.SessionOptions()
    o.intra_op_num_threads = 1
    s = ort.InferenceSession(path, o)
    want = s.run(None, {"x": x})[0]
    theirs = measure(f"onnxruntime {name}", lambda: s.run(None, {"x": x}), TURNS)
    np.save(os.path.join(folder, "x.npy"), x)
    turns = max(TURNS, int(2e6 / theirs))
    ours = min(1e6 * (processor_time(path, folder, turns) - processor_time(path, folder, 1)) / (turns - 1) for _ in range(2))
    off = np.abs(np.load(os.path.join(folder, "y.npy")) - want).max() / np.abs(want).max()
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
        path = os.path.join(folder, "resnet18.onnx")
        resnet18(path, rng)
        x = [rng.standard_normal((1, 3, 224, 224)).astype(np.float32) for _ in range(4)]
        for kind, file in quantised(path, x, ("qdq", "qdq_7", "qdq_i8")).items():
            compared(f"ResNet-18 {kind}", file, x[0], folder)


if __name__ == "__main__":
    run_all("quantised networks, one thread", with_onnxruntime)
