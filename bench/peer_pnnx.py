# SPDX-License-Identifier: Apache-2.0
"""The expression of bench_pnnx.c, seven operations over three tensors of 64 MiB, by PyTorch eager, torch.compile and
ONNX Runtime, one thread and all; results are compared with NumPy's."""
import os
import statistics
import time

import numpy as np
import onnxruntime
import torch
from onnx import TensorProto, helper

TURNS = 9
SHAPE = (4, 64, 256, 256)
MOVED = 4 * 4 * np.prod(SHAPE)


def f(x, y, z):
    return ((x * y + z * x) * (y + z) + x * z) * y


def line(what, work):
    """The result may be made anew by each call, as forward makes it in bench_pnnx.c."""
    work()
    samples = []
    for _ in range(TURNS):
        start = time.perf_counter()
        work()
        samples.append((time.perf_counter() - start) * 1e3)
    print(f"  {what:<28} {statistics.median(samples):10.4g} ms      ({min(samples):.4g} to {max(samples):.4g})  best {MOVED / min(samples) / 1e6:.1f} GB/s",
          flush=True)


def model():
    names = [("Mul", "x", "y", "a"), ("Mul", "z", "x", "b"), ("Add", "a", "b", "c"), ("Add", "y", "z", "d"), ("Mul", "c", "d", "e"), ("Add", "e", "b", "g"), ("Mul", "g", "y", "o")]
    nodes = [helper.make_node(op, [l, r], [o]) for op, l, r, o in names]
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, SHAPE) for n in "xyz"]
    graph = helper.make_graph(nodes, "main", inputs, [helper.make_tensor_value_info("o", TensorProto.FLOAT, SHAPE)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def main():
    rng = np.random.default_rng(1)
    arrays = [rng.random(SHAPE, dtype=np.float32) - np.float32(0.5) for _ in range(3)]
    tensors = [torch.from_numpy(a) for a in arrays]
    want = f(*arrays)
    compiled = torch.compile(f)
    for threads in sorted({1, os.cpu_count()}):
        torch.set_num_threads(threads)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(model(), options, providers=["CPUExecutionProvider"])
        feed = dict(zip("xyz", arrays))
        for what, work in ((f"torch {torch.__version__} eager", lambda: f(*tensors)), ("torch.compile", lambda: compiled(*tensors)),
                           (f"onnxruntime {onnxruntime.__version__}", lambda: session.run(None, feed)[0])):
            assert np.allclose(np.asarray(work()), want, 1e-5, 1e-6), what
        print(f"seven operations over three tensors of 64 MiB, {threads} thread{'s' if threads > 1 else ''}")
        with torch.no_grad():
            line(f"torch {torch.__version__} eager", lambda: f(*tensors))
            line("torch.compile", lambda: compiled(*tensors))
        line(f"onnxruntime {onnxruntime.__version__}", lambda: session.run(None, feed)[0])


main()
