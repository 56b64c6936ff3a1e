#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Convolutions with a bias and Relu, ours and ONNX Runtime's, one thread, in turn in one process: conv.py BUILD_DIR [NAME..]
Medians in milliseconds of processor time, and the largest difference of the results, of the greatest number. It needs onnx and onnxruntime."""
import os
import statistics
import sys
import tempfile
import time

BUILD = os.path.abspath(sys.argv[1])
sys.path.insert(0, os.path.join(BUILD, "python"))
import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import anfora  # noqa: E402

TURNS = 15
# images, input and output channels, window, stride, size, dilation, groups if there are any
SHAPES = {
    "3x224 7x7/2": (1, 3, 64, 7, 2, 224, 1),
    "64x56 3x3": (1, 64, 64, 3, 1, 56, 1),
    "128x28 3x3": (1, 128, 128, 3, 1, 28, 1),
    "256x14 3x3": (1, 256, 256, 3, 1, 14, 1),
    "512x7 3x3": (1, 512, 512, 3, 1, 7, 1),
    "128x28 3x3/2": (1, 128, 256, 3, 2, 28, 1),
    "256x14 3x3/2": (1, 256, 512, 3, 2, 14, 1),
    "64x56 1x1": (1, 64, 256, 1, 1, 56, 1),
    "1024x14 1x1": (1, 1024, 256, 1, 1, 14, 1),
    "2048x7 1x1": (1, 2048, 512, 1, 1, 7, 1),
    "256x28 3x3 dilation 2": (1, 256, 256, 3, 1, 28, 2),
    "512x28 3x3 dilation 12": (1, 512, 256, 3, 1, 28, 12),
    "8 x 512x7 3x3": (8, 512, 512, 3, 1, 7, 1),
    "72x56 5x5/2 depthwise": (1, 72, 72, 5, 2, 56, 1, 72),
    "120x28 5x5 depthwise": (1, 120, 120, 5, 1, 28, 1, 120),
    "240x28 3x3/2 depthwise": (1, 240, 240, 3, 2, 28, 1, 240),
    "672x14 5x5 depthwise": (1, 672, 672, 5, 1, 14, 1, 672),
    "672x14 5x5/2 depthwise": (1, 672, 672, 5, 2, 14, 1, 672),
    "960x7 5x5 depthwise": (1, 960, 960, 5, 1, 7, 1, 960),
    "960x7 3x3 depthwise": (1, 960, 960, 3, 1, 7, 1, 960),
}


def model(path, shape):
    n, ci, co, k, stride, size, dilation, groups = (*shape, 1)[:8]
    source, pad = np.random.default_rng(0), k // 2 * dilation
    out = (size + 2 * pad - (k - 1) * dilation - 1) // stride + 1
    w = (source.standard_normal((co, ci // groups, k, k)) / np.sqrt(ci // groups * k * k)).astype("f4")
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[pad] * 4, strides=[stride] * 2, dilations=[dilation] * 2, group=groups), helper.make_node("Relu", ["c"], ["y"])]
    weights = [numpy_helper.from_array(w, "w"), numpy_helper.from_array(source.standard_normal(co).astype("f4"), "b")]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in (("x", [n, ci, size, size]), ("y", [n, co, out, out]))]
    graph = helper.make_graph(nodes, "main", ends[:1], ends[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return source.standard_normal((n, ci, size, size)).astype("f4")


def clock(run):
    start = time.process_time()
    run()
    return (time.process_time() - start) * 1e3


def compare(name, folder):
    path = os.path.join(folder, "conv.onnx")
    x = model(path, SHAPES[name])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session, ours = onnxruntime.InferenceSession(path, options), anfora.read(path)
    ways = [lambda: ours.main(x), lambda: session.run(None, {"x": x})[0]]
    got, want = (np.asarray(way()) for way in ways)
    error = np.abs(got - want).max() / np.abs(want).max()
    if not error < 1e-5:
        sys.exit(f"{name}: wrong by {error:.1e} of the greatest number")
    times = [[clock(way) for way in ways] for _ in range(TURNS)]
    here, there = (statistics.median(t) for t in zip(*times))
    print(f"{name:24}  ours {here:8.3f} ms  ONNX Runtime {there:8.3f} ms  ratio {here / there:5.2f}  differs by {error:.0e}")


with tempfile.TemporaryDirectory() as here:
    for each in sys.argv[2:] or SHAPES:
        compare(each, here)
