#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Single ops in anfora, PyTorch and JAX: one thread, CPU time of the process, the least of seven rounds.
peer_ops.py anfora|torch|jax|onnx [WORD..]: those whose names hold a word; onnx is ONNX Runtime, with the ops that are one node.
Where anfora is, PYTHONPATH says."""
import sys
import tempfile
import time

import peer  # noqa: F401  before the peers: one thread

import numpy as np

random = np.random.default_rng(0)


def f(*dims, dtype=np.float32):
    return random.standard_normal(dims).astype(dtype)


def linear(*dims):
    """A symmetric matrix with eigenvalues above 1, f64."""
    a = f(*dims, dtype=np.float64)
    return a @ a.T / len(a) + np.eye(len(a))


IMAGES, SQUARE, HALF = f(16, 64, 28, 28), f(1024, 1024), f(1024, 1024).astype(np.float16)
BYTES, OTHER = (SQUARE * 9).astype(np.uint8), f(1024, 1024)
UNIT = (random.random((1024, 1024)) * 0.9 + 0.05).astype(np.float32)
SORTED, WANTED = np.sort(f(4096)), f(65536)
SPD, ROW, LONG, PLANE, DOUBLE = linear(256, 256), f(1024), f(1 << 20), f(512, 512) + 1j * f(512, 512), f(512, 512, dtype=np.float64)
LARGE = f(1 << 24)
REALS, COMPLEX = f(1 << 20, dtype=np.float64), f(1 << 20, dtype=np.float64) + 1j * f(1 << 20, dtype=np.float64)
# name: arguments a and b, the expression of anfora.numpy (N) and JAX, the one of PyTorch (F: its functions)
CASES = {
    **{name: ((UNIT, OTHER)[:count], f"N.{name}({'a, b'[:3 * count - 2]})", f"torch.{torch}({'a, b'[:3 * count - 2]})")
       for name, count, torch in [("exp2", 1, "exp2"), ("log2", 1, "log2"), ("log10", 1, "log10"), ("arctan", 1, "atan"),
                                  ("arcsin", 1, "asin"), ("sinh", 1, "sinh"), ("arctanh", 1, "atanh"), ("arctan2", 2, "atan2"),
                                  ("hypot", 2, "hypot"), ("fmod", 2, "fmod"), ("mod", 2, "remainder"), ("floor_divide", 2, "floor_divide")]},
    **{f"{name} of 2^20, f64": ((REALS,), f"N.{name}(a)", f"torch.{name}(a)") for name in ("sin", "cos", "exp", "tanh")},
    "log of 2^20, f64": ((np.exp(REALS),), "N.log(a)", "torch.log(a)"),
    "sin of 2^20": ((LONG,), "N.sin(a)", "torch.sin(a)"),
    "sin of 2^20 up to 10^6": ((np.clip(LONG * 3e5, -1e6, 1e6),), "N.sin(a)", "torch.sin(a)"),
    "sin of 2^20 up to 10^6, f64": ((np.clip(REALS * 3e5, -1e6, 1e6),), "N.sin(a)", "torch.sin(a)"),
    "product of 2^20, c64": ((COMPLEX.astype(np.complex64),) * 2, "a * b", "a * b"),
    "product of 2^20, c128": ((COMPLEX, COMPLEX), "a * b", "a * b"),
    "sum of 2^20": ((LONG,), "N.sum(a)", "a.sum()"),
    "sum of 2^20, f16": ((LONG.astype(np.float16),), "N.sum(a)", "a.sum()"),
    **{f"{name} of 2^20, f16": ((HALF,), ours, torch)
       for name, ours, torch in [("greater than 0", "a > 0", "a > 0"), ("maximum with 0", "N.maximum(a, 0)", "a.relu()"),
                                 ("where a > 0", "N.where(a > 0, a, 1)", "torch.where(a > 0, a, 1)"), ("round", "N.round(a)", "a.round()"),
                                 ("exp", "N.exp(a)", "a.exp()"), ("log", "N.log(a)", "a.log()"), ("sqrt", "N.sqrt(a)", "a.sqrt()")]},
    "max of columns, f16": ((HALF,), "N.max(a, axis=0)", "a.amax(0)"),
    "cumulative sum of rows, f16": ((HALF,), "N.cumsum(a, axis=1)", "a.cumsum(1)"),
    **{f"{name} of rows, {d}": ((x,), f"nn.{name}(a)", f"a.{name}(1)") for name in ("softmax", "log_softmax")
       for d, x in (("f32", SQUARE), ("f16", HALF))},
    "softmax of rows, f64": ((SQUARE.astype(np.float64),), "nn.softmax(a)", "a.softmax(1)"),
    "log_softmax of rows, f64": ((SQUARE.astype(np.float64),), "nn.log_softmax(a)", "a.log_softmax(1)"),
    "a * 2 + 1 of 2^24": ((LARGE,), "a * 2 + 1", "a * 2 + 1"),
    "maximum with 0 of 2^24": ((LARGE,), "N.maximum(a, 0)", "a.relu()"),
    "softmax of 16384 rows of 32": ((f(16384, 32),), "nn.softmax(a)", "a.softmax(1)"),
    "softmax of 65536 rows of 10": ((f(65536, 10),), "nn.softmax(a)", "a.softmax(1)"),
    "softmax over 21 channels": ((f(16, 21, 784),), "nn.softmax(a, axis=1)", "a.softmax(1)"),
    "sum of 65536 rows of 16": ((f(65536, 16),), "N.sum(a, axis=1)", "a.sum(1)"),
    "mean of planes of 16 x 2048 x 7": ((f(16, 2048, 7, 7),), "N.mean(a, axis=(2, 3), keepdims=True)", "F.adaptive_avg_pool2d(a, 1)"),
    "mean of planes of 16 x 2048 x 7, f16": ((f(16, 2048, 7, 7, dtype=np.float16),), "N.mean(a, axis=(2, 3), keepdims=True)", "F.adaptive_avg_pool2d(a, 1)"),
    "sum of 2^18, c64": ((COMPLEX[:1 << 18].astype(np.complex64),), "N.sum(a)", "a.sum()"),
    "argmax of rows": ((SQUARE,), "N.argmax(a, axis=1)", "a.argmax(1)"),
    "argmin of rows, i32": (((SQUARE * 9).astype(np.int32),), "N.argmin(a, axis=1)", "a.argmin(1)"),
    "max of rows, f16": ((HALF,), "N.max(a, axis=1)", "a.amax(1)"),
    "sum of rows": ((SQUARE,), "N.sum(a, axis=1)", "a.sum(1)"),
    "sum of rows, f16": ((HALF,), "N.sum(a, axis=1)", "a.sum(1)"),
    "transpose + 1": ((SQUARE,), "N.transpose(a) + 1", "a.T.contiguous() + 1"),
    "a + transpose": ((SQUARE, OTHER), "a + N.transpose(b)", "a + b.T"),
    "transpose, u8": ((BYTES,), "N.transpose(a)", "a.T.contiguous()"),
    "where a > 0, b transposed": ((SQUARE, OTHER), "N.where(a > 0, N.transpose(b), 0)", "torch.where(a > 0, b.T, 0)"),
    "sum of transposed rows": ((SQUARE, OTHER), "N.sum(N.transpose(a) * b, axis=1)", "(a.T * b).sum(1)"),
    "NCHW to NHWC": ((IMAGES,), "N.transpose(a, (0, 2, 3, 1)) * 2", "a.permute(0, 2, 3, 1).contiguous() * 2"),
    "rot90": ((SQUARE,), "N.rot90(a)", "torch.rot90(a)"),
    "roll": ((SQUARE,), "N.roll(a, 3, axis=1)", "a.roll(3, 1)"),
    "tile 4 x 4": ((f(256, 256),), "N.tile(a, (4, 4))", "a.tile(4, 4)"),
    "pad, reflect": ((f(16, 32, 28, 28),), "N.pad(a, ((0, 0), (0, 0), (2, 2), (2, 2)), mode='reflect')",
                     "F.pad(a, (2, 2, 2, 2), mode='reflect')"),
    "diag": ((f(1024),), "N.diag(a)", "a.diag()"),
    "searchsorted": ((SORTED, WANTED), "N.searchsorted(a, b)", "torch.searchsorted(a, b)"),
    "clip to i8": ((SQUARE,), "N.clip(a * 30, -127, 127).astype('int8')", "(a * 30).clamp(-127, 127).to(torch.int8)"),
    "max pool 2": ((IMAGES,), "N.max_pool2d(a, kernel=2)", "F.max_pool2d(a, 2)"),
    "max pool 3, stride 2": ((IMAGES,), "N.max_pool2d(a, kernel=3, stride=2, padding=1)", "F.max_pool2d(a, 3, 2, 1)"),
    "mean pool 3, stride 1": ((IMAGES,), "N.avg_pool2d(a, kernel=3, stride=1, padding=1)", "F.avg_pool2d(a, 3, 1, 1)"),
    **{f"mean pool 3, stride {stride}, {c} x {n} x {n}": ((f(1, c, n, n),), f"N.avg_pool2d(a, kernel=3, stride={stride}, padding=1)", f"F.avg_pool2d(a, 3, {stride}, 1)")
       for c, n, stride in ((192, 35, 1), (768, 17, 1), (256, 56, 2))},
    "max pool 2, f16": ((IMAGES.astype(np.float16),), "N.max_pool2d(a, kernel=2)", "F.max_pool2d(a, 2)"),
    "mean pool 3, stride 1, f16": ((IMAGES.astype(np.float16),), "N.avg_pool2d(a, kernel=3, stride=1, padding=1)", "F.avg_pool2d(a, 3, 1, 1)"),
    "depthwise 3 x 3": ((IMAGES, f(64, 1, 3, 3)), "N.conv2d(a, b, padding=1, groups=64)",
                        "F.conv2d(a, b, padding=1, groups=64)"),
    "depthwise 5 x 5, stride 2": ((IMAGES, f(64, 1, 5, 5)), "N.conv2d(a, b, stride=2, padding=2, groups=64)",
                                  "F.conv2d(a, b, stride=2, padding=2, groups=64)"),
    "sort of rows": ((SQUARE,), "N.sort(a, axis=1)", "a.sort(1)[0]"),
    "argsort of rows": ((SQUARE,), "N.argsort(a, axis=1)", "a.argsort(stable=True, dim=1)"),
    "sort of 2^20": ((LONG,), "N.sort(a)", "a.sort()[0]"),
    "sort of 2^20, i64": (((LONG * 10**6).astype(np.int64),), "N.sort(a)", "a.sort()[0]"),
    "cholesky, f64 256": ((SPD,), "N.linalg.cholesky(a)", "torch.linalg.cholesky(a)"),
    "solve, f64 256": ((SPD, SPD[0].copy()), "N.linalg.solve(a, b)", "torch.linalg.solve(a, b)"),
    "inverse, f64 256": ((SPD,), "N.linalg.inv(a)", "torch.linalg.inv(a)"),
    "eigenvectors, f64 128": ((SPD[:128, :128].copy(),), "N.linalg.eigh(a)[1]", "torch.linalg.eigh(a)[1]"),
    "singular values and vectors, f64 128": ((SPD[:128, :128].copy(),), "N.linalg.svd(a)[2]", "torch.linalg.svd(a)[2]"),
    "rfft of 64 x 4096": ((f(64, 4096),), "N.abs(N.fft.rfft(a))", "torch.fft.rfft(a).abs()"),
    "fft2 of 8 x 256 x 256": ((f(8, 256, 256),), "N.abs(N.fft.fft2(a))", "torch.fft.fft2(a).abs()"),
    "einsum i,ij,j->": ((ROW, SQUARE, ROW), "N.einsum('i,ij,j->', a, b, c)", "torch.einsum('i,ij,j->', a, b, c)"),
    "einsum ij,jk,kl->il of 128": ((f(128, 128),) * 3, "N.einsum('ij,jk,kl->il', a, b, c)", "torch.einsum('ij,jk,kl->il', a, b, c)"),
    "einsum ij,ij->": ((SQUARE, OTHER), "N.einsum('ij,ij->', a, b)", "torch.einsum('ij,ij->', a, b)"),
    "modulus, c64 512": ((PLANE,), "N.abs(a)", "a.abs()"),
    "product 512, f64": ((DOUBLE, DOUBLE), "a @ b", "a @ b"),
    "product 128 x 512 x 512": ((f(128, 512), f(512, 512)), "a @ b", "a @ b"),
    "differences along rows": ((SQUARE,), "N.diff(a, axis=1)", "a.diff(dim=1)"),
}


def least(run):
    """Microseconds of a call, in rounds of some 10 ms."""
    for _ in range(2):
        run()
    start = time.process_time()
    run()
    turns = max(1, min(200, int(0.01 / max(time.process_time() - start, 1e-7))))
    took = []
    for _ in range(7):
        start = time.process_time()
        for _ in range(turns):
            run()
        took.append((time.process_time() - start) / turns)
    return 1e6 * min(took)


def with_anfora():
    import anfora
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:  # functions are read from their source
        file.write("import anfora.nn as nn\nimport anfora.numpy as N\n")
        for k, (args, text, _) in enumerate(CASES.values()):
            file.write(f"def f{k}({', '.join('abc'[:len(args)])}):\n    return {text}\n")
        file.flush()
        space = {}
        exec(compile(open(file.name, encoding="utf-8").read(), file.name, "exec"), space)  # pylint: disable=exec-used
        for k, (name, (args, _, _)) in enumerate(CASES.items()):
            function = anfora.jit(space[f"f{k}"])
            yield name, lambda function=function, args=args: function(*args)


def with_torch():
    import torch
    space = {"torch": torch, "F": torch.nn.functional}
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    for name, (args, _, text) in CASES.items():
        function = eval(f"lambda {', '.join('abc'[:len(args)])}: {text}", space)  # pylint: disable=eval-used
        yield name, lambda function=function, args=tuple(map(torch.from_numpy, args)): function(*args)


class JaxNames:
    """jax.numpy, and pools and convolutions by the names that anfora.numpy has."""

    def __init__(self, jax):
        self.lax, self.np = jax.lax, jax.numpy

    def __getattr__(self, name):
        return getattr(self.np, name)

    def window(self, a, start, op, kernel, stride, padding):
        pad = (padding, padding)
        return self.lax.reduce_window(a, start, op, (1, 1, kernel, kernel), (1, 1, stride, stride), ((0, 0), (0, 0), pad, pad))

    def max_pool2d(self, a, kernel, stride=None, padding=0):
        return self.window(a, -np.inf, self.lax.max, kernel, stride or kernel, padding)

    def avg_pool2d(self, a, kernel, stride=None, padding=0):
        return self.window(a, 0.0, self.lax.add, kernel, stride or kernel, padding) / (kernel * kernel)

    def conv2d(self, a, b, groups, stride=1, padding=0):
        return self.lax.conv_general_dilated(a, b, (stride, stride), ((padding, padding),) * 2, feature_group_count=groups)


def with_jax():
    import jax
    jax.config.update("jax_enable_x64", True)
    for name, (args, text, _) in CASES.items():
        function = jax.jit(eval(f"lambda {', '.join('abc'[:len(args)])}: {text}", {"N": JaxNames(jax), "nn": jax.nn}))  # pylint: disable=eval-used
        given = tuple(map(jax.numpy.asarray, args))
        yield name, lambda function=function, given=given: function(*given).block_until_ready()


POOL = {"kernel_shape": [3, 3], "pads": [1] * 4, "count_include_pad": 1}
# cases that are one node of ONNX; axes of reductions are an operand
NODES = {**{f"{op} of rows, {d}": (name, {"axis": 1}) for op, name in (("softmax", "Softmax"), ("log_softmax", "LogSoftmax")) for d in ("f32", "f16")},
         **{f"softmax of {n}": ("Softmax", {"axis": 1}) for n in ("16384 rows of 32", "65536 rows of 10")},
         "softmax over 21 channels": ("Softmax", {"axis": 1}),
         **{f"{name.lower()} of 2^20, f16": (name, {}) for name in ("Round", "Exp", "Log", "Sqrt")}, "maximum with 0 of 2^20, f16": ("Relu", {}),
         "max of columns, f16": ("ReduceMax", {"axes": [0]}), "max of rows, f16": ("ReduceMax", {"axes": [1]}), "sum of 65536 rows of 16": ("ReduceSum", {"axes": [1]}),
         **{f"mean of planes of 16 x 2048 x 7{d}": ("GlobalAveragePool", {}) for d in ("", ", f16")},
         **{f"mean pool 3, stride {s}, {n}": ("AveragePool", POOL | {"strides": [s, s]}) for s, n in ((1, "192 x 35 x 35"), (1, "768 x 17 x 17"), (2, "256 x 56 x 56"))},
         "mean pool 3, stride 1": ("AveragePool", POOL), "mean pool 3, stride 1, f16": ("AveragePool", POOL),
         **{f"max pool 2{d}": ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]}) for d in ("", ", f16")}}


def with_onnx():
    import onnxruntime
    from onnx import helper, numpy_helper
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    for case, (op, attrs) in NODES.items():
        x = CASES[case][0][0]
        t = helper.np_dtype_to_tensor_dtype(x.dtype)
        axes = [numpy_helper.from_array(np.array(attrs["axes"]), "axes")] if "axes" in attrs else []
        node = helper.make_node(op, ["x"] + ["axes"] * len(axes), ["y"], **{k: v for k, v in attrs.items() if k != "axes"})
        graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", t, x.shape)], [helper.make_tensor_value_info("y", t, None)], axes)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        yield case, lambda session=session, x=x: session.run(None, {"x": x})


def main():
    who, words = sys.argv[1], sys.argv[2:]
    for name, run in {"anfora": with_anfora, "torch": with_torch, "jax": with_jax, "onnx": with_onnx}[who]():
        if not words or any(w in name for w in words):
            print(f"{who}\t{name}\t{least(run):.0f} us", flush=True)


main()
