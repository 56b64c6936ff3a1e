#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""quantised.py FOLDER: models of quantised operators as fixtures, NAME.onnx, NAME.inK.npy, NAME.outK.npy, with the results of ONNX
Runtime: each operator by itself, and networks that onnxruntime.quantization quantised. Run with a Python that has both."""
import os
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

KIND = {"float32": TensorProto.FLOAT, "uint8": TensorProto.UINT8, "int8": TensorProto.INT8, "int32": TensorProto.INT32, "int64": TensorProto.INT64, "float64": TensorProto.DOUBLE, "bool": TensorProto.BOOL}
OURS, FEATURES = "com.microsoft", "ai.onnx.ml"


class Model:
    """Nodes with random constants. Every output is one of the model."""

    def __init__(self, seed):
        self.rng, self.nodes, self.inits, self.ins, self.outs = np.random.default_rng(seed), [], [], {}, []

    def const(self, x):
        self.inits.append(numpy_helper.from_array(np.asarray(x), f"c{len(self.inits)}"))
        return self.inits[-1].name

    def codes(self, dtype, *shape):
        info = np.iinfo(dtype)
        return self.rng.integers(info.min, info.max + 1, shape).astype(dtype)

    def real(self, *shape, low=0.01, high=0.05):
        return self.const(self.rng.uniform(low, high, shape).astype("f4"))

    def scalar(self, v, dtype="f4"):
        return self.const(np.array(v, dtype))

    def input(self, x):
        name = f"x{len(self.ins)}"
        self.ins[name] = x
        return name

    def op(self, kind, inputs, domain="", shown=True, outputs=1, **attrs):
        names = [f"y{len(self.nodes)}" + (f"_{k}" if k else "") for k in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, domain=domain, **attrs))
        self.outs += names if shown else []
        return names[0]

    def model(self, name, opset):
        ins = [helper.make_tensor_value_info(n, KIND[str(x.dtype)], x.shape) for n, x in self.ins.items()]
        outs = [onnx.ValueInfoProto(name=n) for n in self.outs]
        sets = [helper.make_opsetid("", opset), helper.make_opsetid(OURS, 1), helper.make_opsetid(FEATURES, 3)]
        return helper.make_model(helper.make_graph(self.nodes, name, ins, outs, self.inits), opset_imports=sets, ir_version=8 if opset < 21 else 10)

    def write(self, folder, name, opset=17):
        write(folder, name, self.model(name, opset).SerializeToString(), self.ins)


def write(folder, name, data, ins):
    """The model, and what ONNX Runtime gives, which is free to fuse nothing; on several threads it takes scales of each row of a batch."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    stem = os.path.join(folder, name)
    with open(stem + ".onnx", "wb") as f:
        f.write(data)
    for k, y in enumerate(ort.InferenceSession(data, options, providers=["CPUExecutionProvider"]).run(None, ins)):
        np.save(f"{stem}.out{k}.npy", y)
    for k, x in enumerate(ins.values()):
        np.save(f"{stem}.in{k}.npy", x)


def pointwise(folder):
    m = Model(1)
    for dtype, zero in (("u1", 119), ("i1", -7)):
        a, b = m.input(m.codes(dtype, 2, 3, 5, 7)), m.input(m.codes(dtype, 3, 1, 7))
        z, y = m.scalar(zero, dtype), m.scalar(zero + 5, dtype)
        for kind in ("QLinearAdd", "QLinearMul"):
            m.op(kind, [a, m.scalar(0.021), z, b, m.scalar(0.034), y, m.scalar(0.04), z], OURS)
        for kind, attrs in (("QLinearSigmoid", {}), ("QLinearLeakyRelu", {"alpha": 0.3})):
            m.op(kind, [a, m.scalar(0.021), z, m.scalar(0.009), y], OURS, **attrs)
        m.op("QLinearSoftmax", [a, m.scalar(0.011), z, m.scalar(1 / 256), m.scalar(0 if dtype == "u1" else -128, dtype)], OURS, axis=-1, opset=13)
        m.op("QLinearConcat", [m.scalar(0.03), z, a, m.scalar(0.021), z, a, m.scalar(0.05), y], OURS, axis=2)
        m.op("QLinearGlobalAveragePool", [a, m.scalar(0.021), z, m.scalar(0.009), y], OURS, channels_last=0)
        m.op("QLinearGlobalAveragePool", [a, m.scalar(0.021), z, m.scalar(0.009), y], OURS, channels_last=1)
        m.op("QLinearAveragePool", [a, m.scalar(0.021), z, m.scalar(0.011), y], OURS, kernel_shape=[3, 2], pads=[1, 0, 1, 1], strides=[2, 1])
        m.op("QLinearWhere", [m.const(m.rng.random((5, 7)) < 0.5), a, m.scalar(0.021), z, b, m.scalar(0.034), y, m.scalar(0.03), z], OURS)
    m.write(folder, "qlinear_pointwise")


def convolutions(folder):
    m = Model(2)
    for dtype, wtype, groups in (("u1", "i1", 1), ("u1", "u1", 1), ("i1", "i1", 1), ("u1", "i1", 2)):
        x, zero = m.input(m.codes(dtype, 2, 6, 9, 11)), m.scalar(5, dtype)
        w, each = m.const(m.codes(wtype, 10, 6 // groups, 3, 2)), m.real(10, low=0.002, high=0.005)
        none = m.const(np.full(10, 128 if wtype == "u1" else 0, wtype))
        bias = m.const(m.rng.integers(-9000, 9000, 10).astype("i4"))
        attrs = {"strides": [2, 1], "pads": [1, 1, 0, 1], "dilations": [1, 2], "group": groups}
        m.op("QLinearConv", [x, m.scalar(0.03), zero, w, each, none, m.scalar(0.07), m.scalar(9, dtype), bias], **attrs)
        m.op("QLinearConv", [x, m.scalar(0.03), zero, w, m.scalar(0.003), m.scalar(3, wtype), m.scalar(0.09), zero], group=groups)
        if dtype == "u1":
            m.op("ConvInteger", [x, w, zero, m.scalar(3, wtype)], **attrs)
            m.op("ConvInteger", [x, w], group=groups)
    m.write(folder, "qlinear_conv")


def products(folder):
    m = Model(3)
    for dtype, wtype in (("u1", "i1"), ("u1", "u1"), ("i1", "i1")):
        a, f = m.input(m.codes(dtype, 5, 37)), m.input(m.rng.standard_normal((3, 37)).astype("f4"))
        w, turned = m.const(m.codes(wtype, 37, 19)), m.const(m.codes(wtype, 19, 37))
        each, zero, middle = m.real(19, low=0.002, high=0.005), m.scalar(7, dtype), m.const(m.rng.integers(0, 20, 19).astype(wtype))
        bias = m.const(m.rng.standard_normal(19).astype("f4"))
        m.op("MatMulInteger", [a, w, zero, middle])
        m.op("MatMulInteger", [a, w])
        m.op("QLinearMatMul", [a, m.scalar(0.03), zero, w, each, middle, m.scalar(0.11), m.scalar(4, dtype)])
        m.op("QLinearMatMul", [a, m.scalar(0.03), zero, w, m.scalar(0.004), m.scalar(3, wtype), m.scalar(0.15), zero])
        for transposed, b in ((0, w), (1, turned)):
            c = m.const(m.rng.integers(-9000, 9000, 19).astype("i4"))
            m.op("QGemm", [a, m.scalar(0.03), zero, b, each, middle, c, m.scalar(0.11), m.scalar(4, dtype)], OURS, transB=transposed)
            m.op("QGemm", [a, m.scalar(0.03), zero, b, m.scalar(0.004), m.scalar(3, wtype), c], OURS, transB=transposed, alpha=0.5)
        m.op("MatMulIntegerToFloat", [a, w, m.scalar(0.03), each, zero, middle, bias], OURS)
        m.op("MatMulIntegerToFloat", [a, w, m.scalar(0.03), m.scalar(0.004)], OURS)
        if dtype == "u1":
            m.op("DynamicQuantizeMatMul", [f, w, each, middle, bias], OURS)
            m.op("DynamicQuantizeMatMul", [f, w, m.scalar(0.004)], OURS)
    m.write(folder, "qlinear_products")


def packed(folder):
    """MatMulNBits: odd sizes, a last block that is not whole, one row and several, f16, zero points of codes and of floats."""
    m = Model(5)
    for rows, k, n, bits, block in ((1, 70, 65, 4, 16), (1, 64, 130, 4, 32), (3, 70, 65, 4, 16), (1, 96, 66, 8, 32), (2, 40, 17, 2, 16)):
        x, groups = m.input(m.rng.standard_normal((rows, k)).astype("f4")), -(-k // block)
        b, each = m.const(m.codes("u1", n, groups, block * bits // 8)), m.real(n * groups)
        z, real = m.const(m.codes("u1", n * -(-groups * bits // 8))), m.const(m.rng.uniform(0, 9, n * groups).astype("f4"))
        attrs = {"K": k, "N": n, "bits": bits, "block_size": block}
        m.op("MatMulNBits", [x, b, each, z], OURS, **attrs)
        m.op("MatMulNBits", [x, b, each, "", "", m.const(m.rng.standard_normal(n).astype("f4"))], OURS, **attrs)
        if bits == 4:
            m.op("MatMulNBits", [x, b, each, real], OURS, **attrs)
    m.write(folder, "matmul_nbits")


def blocks(folder):
    """Weights of 4 bits with a scale for each block of a column, times one row and several."""
    m = Model(6)
    row, rows = (m.input(m.rng.standard_normal((k, 64)).astype("f4")) for k in (1, 3))
    for kind, low in ((TensorProto.INT4, -8), (TensorProto.UINT4, 0)):
        def four(*shape):
            codes = m.rng.integers(low, low + 16, shape)
            m.inits.append(helper.make_tensor(f"c{len(m.inits)}", kind, shape, codes.ravel().tolist()))
            return m.inits[-1].name

        for axis, zero in ((0, True), (0, False), (1, True)):
            shape = [64, 80]
            shape[axis] //= 16
            w = m.op("DequantizeLinear", [four(64, 80), m.real(*shape)] + ([four(*shape)] if zero else []), axis=axis, block_size=16)
            m.op("MatMul", [row, w])
            m.op("MatMul", [rows, w])
    m.write(folder, "dequantize_blocks", 21)


def recurrent(folder):
    """DynamicQuantizeLSTM; codes are small, as ONNX Runtime saturates sums of two products at 16 bits on some machines."""
    m = Model(7)
    n, x = 3, m.input(m.rng.standard_normal((4, 2, 5)).astype("f4"))
    for dtype, each, ways in (("i1", (), 1), ("i1", (4 * n,), 2), ("u1", (), 2)):
        low = 0 if dtype == "u1" else -60
        w, r = (m.const(m.rng.integers(low, 60, (ways, k, 4 * n)).astype(dtype)) for k in (5, n))
        scales, zeros = [m.real(ways, *each) for _ in range(2)], [m.const(np.full((ways, *each), low + 60 * (dtype == "i1"), dtype)) for _ in range(2)]
        bias = m.const(m.rng.standard_normal((ways, 8 * n)).astype("f4"))
        m.op("DynamicQuantizeLSTM", [x, w, r, bias, "", "", "", "", scales[0], zeros[0], scales[1], zeros[1]], OURS, outputs=3, hidden_size=n,
             direction="bidirectional" if ways == 2 else "forward")
    m.write(folder, "qlinear_lstm")


# ---- networks ----

def network(name, rng):
    def weight(k, *shape, size):
        return numpy_helper.from_array((rng.standard_normal(shape) * size).astype("f4"), k)

    if name == "mlp":
        inits = [weight("w", 37, 33, size=0.2), weight("b", 33, size=1), weight("v", 33, 10, size=0.2), weight("c", 10, size=1)]
        nodes = [("MatMul", ["x", "w"], "m", {}), ("Add", ["m", "b"], "a", {}), ("LeakyRelu", ["a"], "r", {}), ("Gemm", ["r", "v", "c"], "y", {})]
        return inits, nodes, (5, 37)
    inits = [weight("w", 8, 3, 3, 3, size=0.3), weight("b", 8, size=1), weight("d", 8, 1, 3, 3, size=0.3), weight("v", 8, 8, 1, 1, size=0.3),
             weight("k", 8, 10, size=0.4), weight("c", 10, size=1)]
    nodes = [("Conv", ["x", "w", "b"], "c1", {"pads": [1] * 4}), ("Relu", ["c1"], "r", {}),
             ("MaxPool", ["r"], "p", {"kernel_shape": [2, 2], "strides": [2, 2]}), ("Conv", ["p", "d"], "c2", {"pads": [1] * 4, "group": 8}),
             ("Conv", ["p", "v"], "c3", {}), ("Add", ["c2", "c3"], "a", {}), ("Sigmoid", ["a"], "s", {}), ("Mul", ["a", "s"], "m", {}),
             ("GlobalAveragePool", ["m"], "g", {}), ("Flatten", ["g"], "f", {}), ("Gemm", ["f", "k", "c"], "y", {})]
    return inits, nodes, (2, 3, 9, 11)


class Samples(CalibrationDataReader):
    def __init__(self, shape):
        rng = np.random.default_rng(1)
        self.rows = iter([{"x": rng.standard_normal(shape).astype("f4")} for _ in range(4)])

    def get_next(self):
        return next(self.rows, None)


TYPES = {"u8s8": (QuantType.QUInt8, QuantType.QInt8), "s8s8": (QuantType.QInt8, QuantType.QInt8), "u8u8": (QuantType.QUInt8, QuantType.QUInt8)}


def networks(folder, each=(("u8s8", True), ("u8u8", False))):
    for name in ("mlp", "cnn"):
        rng = np.random.default_rng(4)
        inits, nodes, shape = network(name, rng)
        ends = [[helper.make_tensor_value_info(k, TensorProto.FLOAT, d)] for k, d in (("x", shape), ("y", (shape[0], 10)))]
        graph = helper.make_graph([helper.make_node(o, i, [y], **a) for o, i, y, a in nodes], name, *ends, inits)
        ins = {"x": rng.standard_normal(shape).astype("f4")}
        with tempfile.TemporaryDirectory() as tmp:
            plain, out = os.path.join(tmp, "plain.onnx"), os.path.join(tmp, "out.onnx")
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), plain)

            def keep(kind):
                with open(out, "rb") as f:
                    write(folder, f"quantised_{name}_{kind}", f.read(), ins)

            for types, channel in each:
                x, w = TYPES[types]
                for fmt in QuantFormat:
                    quantize_static(plain, out, Samples(shape), fmt, per_channel=channel, activation_type=x, weight_type=w)
                    keep(f"{fmt.name.lower()}_{types}")
                quantize_dynamic(plain, out, per_channel=channel, weight_type=w)
                keep(f"dynamic_{types}")


def main():
    ort.set_default_logger_severity(3)
    for make in (pointwise, convolutions, products, packed, blocks, recurrent, networks):
        make(sys.argv[1])


if __name__ == "__main__":
    main()
