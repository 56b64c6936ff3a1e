#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attention, of few queries to many keys as in decoding with a cache among others, ours and PyTorch's scaled_dot_product_attention, and a few rows
times 4096 x 4096 weights, one thread, in turn in one process: decode.py BUILD_DIR [NAME..]
Medians in microseconds, the bytes of keys and values, or of weights, by the time, the same of a sum that reads as many bytes, and
the largest difference of the results; PyTorch's products are of floats. It needs torch, and ml_dtypes for bf16."""
import os
import statistics
import sys
import tempfile
import time

BUILD = os.path.abspath(sys.argv[1])
sys.path.insert(0, os.path.join(BUILD, "python"))
import numpy as np  # noqa: E402
import torch  # noqa: E402

import anfora  # noqa: E402

TURNS = 41
# heads, queries, keys, parts of a query, element type; "in place": heads are the last dim but one, and are transposed
SHAPES = {
    "12 x 1 to 1024, f32": (12, 1, 1024, 64, "f4"),
    "12 x 1 to 8192, f32": (12, 1, 8192, 64, "f4"),
    "12 x 4 to 1024, f32": (12, 4, 1024, 64, "f4"),
    "12 x 1 to 1024, f16": (12, 1, 1024, 64, "f2"),
    "12 x 384 to 384, f32": (12, 384, 384, 64, "f4"),
    "12 x 384 to 384, f16": (12, 384, 384, 64, "f2"),
    "64 x 384 to 384, f32": (64, 384, 384, 64, "f4"),
    "64 x 384 to 384, bf16": (64, 384, 384, 64, "bf16"),
    "64 x 384 to 384, f32, causal": (64, 384, 384, 64, "f4"),
    "64 x 384 to 384, bf16, causal": (64, 384, 384, 64, "bf16"),
    "64 x 384 to 384, f32, in place": (64, 384, 384, 64, "f4"),
    "64 x 384 to 384, bf16, in place": (64, 384, 384, 64, "bf16"),
    "16 x 1 to 2048, f32, in place": (16, 1, 2048, 128, "f4"),
    "16 x 1 to 2048, bf16": (16, 1, 2048, 128, "bf16"),
    "16 x 4 to 2048, bf16": (16, 4, 2048, 128, "bf16"),
    "16 x 1 to 2048, f16": (16, 1, 2048, 128, "f2"),
    "16 x 1 to 8192, bf16": (16, 1, 8192, 128, "bf16"),
}


def clock(run):
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) * 1e6


def compare(name, folder):
    heads, queries, keys, parts, dtype = SHAPES[name]
    source, transposed, causal = np.random.default_rng(0), "in place" in name, "causal" in name
    if half := dtype == "bf16":
        import ml_dtypes
        dtype = ml_dtypes.bfloat16
    q, k, v = (source.standard_normal((n, heads, parts) if transposed else (heads, n, parts)).astype(dtype) for n in (queries, keys, keys))
    path = os.path.join(folder, "attention.anf")
    with open(path, "w", encoding="utf-8") as f:
        args = ", ".join(f"Transpose({x}, (1, 0, 2))" if transposed else x for x in "qkv")
        f.write(f"def main(q, k, v) {{ Attention({args}, causal={str(causal).lower()}) }}\n")
    ours = anfora.read(path).main
    t = [torch.from_numpy(x.astype("f4")).bfloat16() if half else torch.from_numpy(x) for x in (q, k, v)]
    t = [(x.transpose(0, 1) if transposed else x)[None] for x in t]
    read = np.ones(2 * k.nbytes // 4, "f4")
    ways = [lambda: np.asarray(ours(q, k, v)), lambda: torch.nn.functional.scaled_dot_product_attention(*t, is_causal=causal), lambda: read.sum()]
    error = np.abs(ways[0]().astype("f4") - ways[1]()[0].float().numpy()).max()
    if not error < (1e-5 if dtype == "f4" else 4e-2 if half else 1e-2):
        sys.exit(f"{name}: wrong by {error:.1e}")
    times = [[clock(way) for way in ways] for _ in range(TURNS)]
    here, there, bound = (statistics.median(x) for x in zip(*times))
    speed = [2 * k.nbytes / x / 1e3 for x in (here, there, bound)]
    print(f"{name:24}  ours {here:9.1f} us {speed[0]:5.1f} GB/s  PyTorch {there:9.1f} us {speed[1]:5.1f}  ratio {here / there:5.2f}  a sum {speed[2]:5.1f}  differs by {error:.0e}")


# the weights' type, how often the program's have to be there to be 4096 x 4096, and the product
WEIGHTS = {
    "f32": ("f32", 1, "x @ w"),
    "f32, transposed": ("f32", 1, "x @ Transpose(w)"),
    "i8": ("i8", 1, "x @ Dequantize(w, 0.01)"),
    "4 bits": ("i8", 2, "x @ Dequantize(UnpackBits(w, axis=0), 0.01)"),
    "4 bits, groups": ("i8", 2, "x @ Reshape(Dequantize(UnpackBits(Reshape(w, (128, 16, 4096)), axis=1), Full(0.01, shape=(128, 1, 4096))), (4096, 4096))"),
}


def multiply(name, folder):
    rows, kind = name.split(" x ")
    source, (dtype, packed, product) = np.random.default_rng(0), WEIGHTS[kind]
    x = source.standard_normal((int(rows), 4096)).astype("f4")
    w = source.integers(-128, 128, (4096 // packed, 4096)).astype({"f32": "f4", "i8": "i1"}[dtype])
    path = os.path.join(folder, "product.anf")
    with open(path, "w", encoding="utf-8") as f:
        f.write(f"def main(x: f32[{rows}, 4096], w: {dtype}[{4096 // packed}, 4096]) {{ {product} }}\ndef sum(w: f32[{w.nbytes // 4}]) {{ Sum(w) }}\n")
    program = anfora.read(path)
    codes = w if packed == 1 else np.stack([w << 4 >> 4, w >> 4], axis=1).reshape(4096, 4096)
    floats = torch.from_numpy(codes.astype("f4") * np.float32(1 if dtype == "f32" else 0.01))
    floats, read = floats.T if "Transpose" in product else floats, np.ones(w.nbytes // 4, "f4")
    ways = [lambda: np.asarray(program.main(x, w)), lambda: (torch.from_numpy(x) @ floats).numpy(), lambda: program.sum(read)]
    got, want = (way() for way in ways[:2])
    error = np.abs(got - want).max() / np.abs(want).max()
    if not error < 1e-5:
        sys.exit(f"{name}: wrong by {error:.1e} of the greatest number")
    here, there, bound = (statistics.median(t) for t in zip(*([clock(way) for way in ways] for _ in range(TURNS))))
    print(f"{name:24}  ours {here:9.1f} us {w.nbytes / here / 1e3:5.1f} GB/s  PyTorch, floats {there:9.1f} us  ratio {here / there:5.2f}  a sum {w.nbytes / bound / 1e3:5.1f}  differs by {error:.0e}")


torch.set_num_threads(1)
PRODUCTS = [f"{rows} x {kind}" for kind in WEIGHTS for rows in (1, 2, 4)]
with tempfile.TemporaryDirectory() as here:
    for each in sys.argv[2:] or [*SHAPES, *PRODUCTS]:
        (compare if each in SHAPES else multiply)(each, here)
