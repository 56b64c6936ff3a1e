#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fused.py FOLDER: models of operators that are several at once as fixtures, NAME.onnx, NAME.inK.npy, NAME.outK.npy, with the results of
ONNX Runtime: those that its optimiser writes, recurrent layers as converters from Keras write them, and windows. Run with a Python that has both."""
import os
import sys

import numpy as np
from onnx import TensorProto, helper

from quantised import FEATURES, OURS, Model


class Small(Model):
    def floats(self, *shape):
        return self.const(self.rng.standard_normal(shape).astype("f4"))

    def given(self, *shape):
        return self.input(self.rng.standard_normal(shape).astype("f4"))

    def raw(self, t):
        t.name = f"c{len(self.inits)}"
        self.inits.append(t)
        return t.name

    def whole(self, values, dtype="i4"):
        return self.const(np.array(values, dtype))


def transformer(folder):
    m = Small(11)
    ids = m.input(m.rng.integers(0, 9, (2, 4)).astype("i4"))
    norm = [m.floats(8), m.floats(8)]
    tables = [m.floats(9, 8), m.floats(6, 8)]
    x = m.op("EmbedLayerNormalization", [ids, m.whole([[0, 1, 1, 0]] * 2), *tables, m.floats(2, 8), *norm], OURS, outputs=2)
    m.op("EmbedLayerNormalization", [ids, "", *tables, "", *norm, m.whole([[1, 1, 0, 0], [1, 1, 1, 0]])], OURS, outputs=3, epsilon=1e-5)
    weights = [m.floats(8, 24), m.floats(24)]
    for mask in ("", m.whole([2, 3]), m.whole([[1, 1, 0, 0], [1, 0, 1, 1]]), m.whole([[[1, 1, 0, 1]] * 4] * 2)):
        m.op("Attention", [x, *weights, mask], OURS, num_heads=2)
    m.op("Attention", [x, *weights, "", m.floats(2, 2, 2, 3, 4)], OURS, outputs=2, num_heads=2, unidirectional=1)
    m.op("Attention", [x, m.floats(8, 20), m.floats(20), "", "", m.floats(1, 2, 4, 4)], OURS, num_heads=2, qkv_hidden_sizes=[8, 8, 4])
    keys = [m.floats(2, 5, 8), m.floats(2, 5, 8)]
    m.op("MultiHeadAttention", [x, *keys, m.floats(24), m.whole([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]])], OURS, num_heads=2, scale=0.3)
    m.op("MultiHeadAttention", [x, *keys, "", m.whole([3, 5])], OURS, num_heads=2)
    m.op("MultiHeadAttention", [x, x, x, "", "", m.floats(2, 2, 4, 7), m.floats(2, 2, 3, 4), m.floats(2, 2, 3, 4)], OURS, outputs=3,
         num_heads=2, unidirectional=1)
    m.op("MultiHeadAttention", [x, m.floats(2, 2, 5, 4), m.floats(2, 2, 5, 4)], OURS, num_heads=2)
    cache = [m.floats(7, 2), m.floats(7, 2)]
    m.op("RotaryEmbedding", [x, m.whole([[0, 1, 2, 6], [3, 4, 1, 0]], "i8"), *cache], OURS, num_heads=2)
    m.op("RotaryEmbedding", [x, m.whole([2], "i8"), *cache], OURS, interleaved=1)
    skip = m.given(2, 4, 8)
    m.op("SkipLayerNormalization", [x, skip, *norm], OURS)
    m.op("SkipSimplifiedLayerNormalization", [x, skip, norm[0], norm[1]], OURS, epsilon=1e-6)
    m.op("SimplifiedLayerNormalization", [x, norm[0]], axis=-1, epsilon=1e-5)
    for kind, more in (("Gelu", []), ("QuickGelu", []), ("FastGelu", []), ("FastGelu", norm[:1]), ("BiasGelu", norm[:1])):
        m.op(kind, [x, *more], OURS)
    m.op("FusedMatMul", [x, skip], OURS, transB=1, alpha=0.5)
    m.write(folder, "fused_transformer")


def convolutions(folder):
    m = Small(12)
    x, w, b = m.given(1, 2, 5, 5), m.floats(3, 2, 3, 3), m.floats(3)
    for kind, params in (("Relu", []), ("Clip", [0.0, 1.5]), ("HardSigmoid", [0.2, 0.5]), ("LeakyRelu", [0.2]), ("Tanh", [])):
        m.op("FusedConv", [x, w, b], OURS, activation=kind, pads=[1] * 4, **({"activation_params": params} if params else {}))
    m.op("FusedConv", [x, w, "", m.floats(1, 3, 3, 3)], OURS, activation="Relu")
    m.op("FusedGemm", [m.given(3, 4), m.floats(4, 5), m.floats(5)], OURS, activation="LeakyRelu", activation_alpha=0.2)
    m.write(folder, "fused_conv")


def recurrent(folder):
    """Activations by name, clipped, with peepholes."""
    m = Small(13)
    x, n = m.given(4, 2, 3), 3
    for kind, gates, names in (("LSTM", 4, ["Sigmoid", "Tanh", "Softsign"]), ("GRU", 3, ["HardSigmoid", "Tanh"]), ("RNN", 1, ["Relu"])):
        for ways in (1, 2):
            ins = [x, m.floats(ways, gates * n, 3), m.floats(ways, gates * n, n), m.floats(ways, 2 * gates * n), "", m.floats(ways, 2, n)]
            ins += [m.floats(ways, 2, n), m.floats(ways, 3 * n)] if kind == "LSTM" else []
            attrs = {"hidden_size": n, "direction": "bidirectional" if ways == 2 else "reverse"}
            m.op(kind, ins, outputs=3 if kind == "LSTM" else 2, activations=names * ways, clip=0.5, **attrs)
    m.write(folder, "recurrent_named", 14)


def windows(folder):
    """Places of greatest elements counted from the first dim on, over three dims; a scale whose product is whole in f32 alone."""
    m = Small(14)
    m.op("MaxPool", [m.given(2, 2, 4, 5, 3)], outputs=2, kernel_shape=[2, 2, 2], pads=[1, 0, 0, 0, 1, 0], storage_order=1)
    m.op("Resize", [m.given(1, 2, 3, 2), "", m.whole([1, 1, 5 / 3, 3], "f4")], mode="linear")
    m.write(folder, "pool_columns_first", 13)


def grouped(folder):
    """Decoders whose keys serve groups of queries: a prompt, one that is shorter by batch, and rows behind a cache that grows or is long enough."""
    m = Small(15)
    tables, heads = [m.floats(9, 8), m.floats(9, 8)], {"num_heads": 4, "kv_num_heads": 2}
    row, rows = [m.given(2, 1, 64), m.given(2, 1, 32), m.given(2, 1, 32)], [m.given(1, 3, 64), m.given(1, 3, 32), m.given(1, 3, 32)]
    past, full = [m.floats(2, 2, 4, 16), m.floats(2, 2, 4, 16)], [m.floats(1, 2, 7, 16), m.floats(1, 2, 7, 16)]
    m.op("GroupQueryAttention", [m.given(1, 3, 128), "", "", "", "", m.whole([2]), m.whole([3])], OURS, outputs=3, **heads)
    for more, attrs in (([], {"scale": 0.3}), (["", "", "", "", m.floats(4)], {"softcap": 2.0}), (["", "", "", m.floats(2, 4, 1, 5)], {"local_window_size": 2}),
                        ([*tables, m.whole([[3], [4]], "i8")], {"do_rotary": 1, "smooth_softmax": 1})):
        m.op("GroupQueryAttention", [*row, *past, m.whole([2, 4]), m.whole(5), *more], OURS, outputs=3, **heads, **attrs)
    m.op("GroupQueryAttention", [*rows, *full, m.whole([4]), m.whole(5), *tables], OURS, outputs=3, do_rotary=1, rotary_interleaved=1, **heads)
    m.write(folder, "grouped_queries")


def tree(number, modes=("BRANCH_LEQ",), missing=0):
    """Two levels; the second of the leaves lies deeper."""
    kinds = [modes[0], "LEAF", modes[-1], "LEAF", "LEAF"]
    return {"treeids": [number] * 5, "nodeids": [0, 1, 2, 3, 4], "featureids": [0, 0, 1 + number, 0, 0], "values": [0.25, 0.0, -0.5, 0.0, 0.0],
            "modes": kinds, "truenodeids": [1, 0, 3, 0, 0], "falsenodeids": [2, 0, 4, 0, 0], "missing_value_tracks_true": [missing] * 5}


def trees(folder):
    """Trees that vote, with every comparison, missing numbers, aggregate and form of two classes; support vectors and tables of keys."""
    m = Small(16)
    data = m.rng.standard_normal((6, 4)).astype("f4")
    data[2, 0], data[3, 1], data[4, 0] = np.nan, np.nan, 0.25
    x, wide = m.input(data), m.input(m.rng.standard_normal((5, 4)))
    two = [tree(0, ("BRANCH_LEQ", "BRANCH_GT")), tree(1, ("BRANCH_LT", "BRANCH_GTE"), 1), tree(2, ("BRANCH_EQ", "BRANCH_NEQ"))]
    plain = [tree(0), tree(1)]

    def votes(kind, several, ids, weights, **attrs):
        nodes = {f"nodes_{k}": sum((t[k] for t in several), []) for k in several[0]}
        leaves = [(t, n) for t in range(len(several)) for n in (1, 3, 4) for _ in ids]
        places = {f"{kind}_treeids": [t for t, _ in leaves], f"{kind}_nodeids": [n for _, n in leaves]}
        return {**nodes, **places, f"{kind}_ids": ids * (len(leaves) // len(ids)), f"{kind}_weights": [float(w) for w in weights(len(leaves))], **attrs}

    for each in ("SUM", "AVERAGE", "MIN", "MAX"):
        m.op("TreeEnsembleRegressor", [x], FEATURES, n_targets=2, aggregate_function=each, base_values=[0.5, -1.0],
             **votes("target", two, [0, 1], m.rng.standard_normal))
    m.op("TreeEnsembleRegressor", [wide], FEATURES, n_targets=1, **votes("target", plain, [0], m.rng.standard_normal))
    for labels, ids, kind in (([3, 7, 5], [0, 1, 2], "SOFTMAX"), ([3, 7, 5], [2, 0], "SOFTMAX_ZERO"), ([4, 2], [0], "LOGISTIC"), ([4, 2], [0], "NONE")):
        for weights in (m.rng.standard_normal, m.rng.random):
            m.op("TreeEnsembleClassifier", [x], FEATURES, outputs=2, classlabels_int64s=labels, post_transform=kind, **votes("class", plain, ids, weights))
    rows = m.given(3, 4)
    for kind in ("LINEAR", "POLY", "RBF", "SIGMOID"):
        m.op("SVMRegressor", [rows], FEATURES, kernel_type=kind, kernel_params=[0.5, 1.0, 2.0], n_supports=3, rho=[0.25], one_class=int(kind == "POLY"),
             coefficients=[0.5, -1.0, 0.75], support_vectors=[float(v) for v in m.rng.standard_normal(12)])
    codes = m.input(np.array([[3, 1], [2, 9]], "i8"))
    m.op("OneHotEncoder", [codes], FEATURES, cats_int64s=[1, 2, 3])
    m.op("LabelEncoder", [codes], FEATURES, keys_int64s=[1, 2, 3], values_floats=[0.5, 1.5, 2.5], default_float=-2.0)
    m.op("LabelEncoder", [x], FEATURES, keys_floats=[1.0, 0.25], values_int64s=[8, 9])
    m.op("FeatureVectorizer", [m.given(3, 2), m.given(3, 1)], FEATURES, inputdimensions=[2, 1])
    m.write(folder, "ml_trees")


def classifiers(folder):
    """Support vectors that vote for classes, with probabilities and without, and rows of coefficients alone."""
    m = Small(21)
    x = m.given(12, 3)

    def add(n, kind, vectors=True, probabilities=False, post="NONE", positive=False):
        def real(k):
            return [round(float(v), 3) for v in m.rng.standard_normal(k)]
        counts, pairs = [int(v) for v in m.rng.integers(2, 5, n)], n * (n - 1) // 2
        labels = [int(v) for v in m.rng.permutation(9)[:n]]
        attrs = {"classlabels_ints": labels, "kernel_type": kind, "post_transform": post, "kernel_params": [0.3, 0.5, 2.0], "rho": [v / 4 for v in real(pairs)]}
        if vectors:
            attrs |= {"vectors_per_class": counts, "support_vectors": real(3 * sum(counts)), "coefficients": real((n - 1) * sum(counts))}
        else:
            attrs["coefficients"] = [abs(v) if positive else v for v in real(3 * n)]
        if probabilities:
            attrs |= {"prob_a": [-abs(v) - 0.2 for v in real(pairs)], "prob_b": real(pairs)}
        m.op("SVMClassifier", [x], FEATURES, outputs=2, **attrs)

    add(2, "RBF")
    add(2, "RBF", probabilities=True)
    add(4, "POLY", probabilities=True, post="SOFTMAX")
    add(3, "SIGMOID")
    add(3, "LINEAR", post="LOGISTIC")
    add(3, "LINEAR", vectors=False)
    add(2, "LINEAR", vectors=False, positive=True)
    add(2, "LINEAR", vectors=False)
    m.write(folder, "ml_classifiers")


def others(folder):
    """Operators of ONNX Runtime that are ONNX's under another domain, distances, gates, and experts of which a row has few or many."""
    m = Small(17)
    x, square = m.given(2, 3, 8), m.floats(2, 3, 3)
    m.op("Trilu", [square, m.const(np.array(1))], OURS, upper=0)
    m.op("Inverse", [square], OURS)
    m.op("GatherND", [x, m.whole([[0, 2], [1, 0]], "i8")], OURS)
    m.op("ExpandDims", [x, m.whole(-2)], OURS)
    m.op("Range", [m.whole(2.0, "f4"), m.whole(5.0, "f4")], OURS)
    m.op("Pad", [x, m.whole([0, 1, 0, 0, 0, 2], "i8"), m.whole([0.5], "f4")], OURS, mode="constant")
    m.op("GridSample", [m.given(1, 2, 4, 5), m.const(m.rng.uniform(-1.2, 1.2, (1, 3, 2, 2)).astype("f4"))], OURS, mode="bilinear", padding_mode="border")
    m.op("TransposeMatMul", [x, m.floats(2, 8, 3)], OURS, transA=1, transB=1, alpha=0.5)
    for metric in ("euclidean", "sqeuclidean"):
        m.op("CDist", [m.floats(4, 3), m.floats(5, 3)], OURS, metric=metric)
    m.op("UnfoldTensor", [x], OURS, size=3, step=2, dim=1)
    m.op("UnfoldTensor", [x], OURS, size=3, step=2)
    m.op("ScaledSiLU", [x], OURS, alpha=0.5)
    m.op("GatedAdd", [x, m.floats(2, 3, 8), m.floats(2, 3, 1)], OURS)
    for kind, n in (("silu", 8), ("sigmoid", 4)):
        m.op("GatedRMSNorm", [x, m.floats(n), m.floats(2, 3, 8)], OURS, activation=kind)
    m.op("BranchwiseRMSNorm", [x, m.floats(8)], OURS, num_branches=2)
    m.op("BranchwiseRMSNorm", [x, m.floats(3, 8)], OURS, epsilon=0.1)
    m.op("LinearAttentionGate", [x, m.floats(8), m.floats(8), x], OURS, outputs=2)
    m.op("CausalConvWithState", [x, m.floats(3, 1, 4), m.floats(3)], OURS, outputs=2, activation="silu")
    m.op("LinearAttention", [x, m.floats(2, 3, 8), m.floats(2, 3, 8), "", m.floats(2, 3, 2)], OURS, outputs=2, q_num_heads=2, kv_num_heads=2, update_rule="gated")
    for experts, top, kind, more in ((3, 2, "relu", {}), (3, 1, "gelu", {}), (13, 2, "silu", {"normalize_routing_weights": 1}),
                                     (13, 1, "swiglu", {"swiglu_fusion": 1, "activation_alpha": 1.7, "activation_beta": 1.0, "swiglu_limit": 0.8})):
        width = 10 if kind == "swiglu" else 5
        ins = [x, m.floats(6, experts), m.floats(experts, width, 8), m.floats(experts, width), m.floats(experts, 8, 5), m.floats(experts, 8)]
        m.op("MoE", ins, OURS, k=top, activation_type=kind, **more)
    m.write(folder, "fused_others")


def coded(folder):
    """Tables of codes by blocks, attention and embeddings of codes, and products of codes of 4 bits."""
    m = Small(18)
    at, byte = m.whole([[2, -1], [0, 6]], "i8"), lambda *shape: m.const(m.codes("u1", *shape))
    for bits in (4, 8):
        ins = [byte(7, 32 * bits // 8), at, m.real(7, 2)]
        m.op("GatherBlockQuantized", ins, OURS, bits=bits, block_size=16, gather_axis=0, quantize_axis=1)
        m.op("GatherBlockQuantized", [*ins, byte(7, 1 if bits == 4 else 2)], OURS, bits=bits, block_size=16, gather_axis=0, quantize_axis=1)
    for kind in (0, 1):
        m.op("MatMulBnb4", [m.given(2, 32), byte(24 * 16), m.real(24 * 2)], OURS, K=32, N=24, block_size=16, quant_type=kind)
    m.op("MatMulInteger16", [m.const(m.codes("i2", 2, 3)), m.const(m.codes("i2", 3, 4))], OURS)
    x, w = m.input(m.codes("u1", 2, 4, 8)), m.const(m.codes("i1", 8, 24) // 2)  # whose sums of two products fit 16 bits
    scales = [m.scalar(0.02), m.scalar(0.01)]
    m.op("QAttention", [x, w, m.floats(24), *scales, m.whole([3, 4]), m.scalar(120, "u1"), m.scalar(2, "i1")], OURS, num_heads=2)
    m.op("QAttention", [x, w, m.floats(24), *scales, "", m.scalar(120, "u1"), m.scalar(2, "i1"), m.floats(2, 2, 2, 3, 4)], OURS, outputs=2, num_heads=2, unidirectional=1)
    ids, row = m.input(m.rng.integers(0, 9, (2, 4)).astype("i4")), m.whole([[0, 1, 1, 0]] * 2)
    tables = [byte(9, 8), byte(6, 8), byte(2, 8), byte(8), byte(8)]
    scales, zeros = [m.scalar(0.01 * k) for k in range(1, 6)], [m.scalar(100 + k, "u1") for k in range(5)]
    m.op("QEmbedLayerNormalization", [ids, row, *tables, m.whole([[1, 1, 0, 0], [1, 1, 1, 0]]), *scales, *zeros], OURS, outputs=2)
    m.op("NhwcMaxPool", [m.input(m.codes("u1", 1, 5, 4, 3))], OURS, kernel_shape=[2, 2], strides=[2, 1], pads=[0, 1, 1, 0])
    m.write(folder, "fused_codes")


def without_kernel(folder):
    """Operators for which ONNX Runtime has no kernel of a CPU: what it gives for ONNX's operators that say the same."""
    ours, same = Small(19), Small(19)
    for m in (ours, same):  # the same names and numbers in both
        x, skip, gamma, beta, weights = m.given(2, 3, 4, 8), m.floats(2, 3, 4, 8), m.floats(8), m.floats(8), [m.floats(5, 8, 2, 2), m.floats(5)]
        emb, states, matrix = m.floats(2, 4, 8), [m.floats(2, 3, 4, 8) for _ in range(4)], m.floats(8, 6)
        zero, half, end, last, one = (m.whole([k], "i8") for k in (0, 4, 8, -1, 1))
        table, length = m.floats(8, 3), m.whole([40], "i8")

    def plain(kind, ins, **attrs):
        return same.op(kind, ins, shown=False, **attrs)

    def show(names, kind, ins, **attrs):
        ours.op(kind, ins, OURS, outputs=len(names), **attrs)
        for name in names:
            same.op("Identity", [name])

    def halves(y):
        return [plain("Slice", [y, *cut, last]) for cut in ((zero, half), (half, end))]

    wide = plain("Add", [x, beta])
    left, right = halves(wide)
    show([plain("Add", [wide, skip])], "BiasAdd", [x, beta, skip])
    show([plain("Mul", [left, plain("Gelu", [right])])], "BiasSplitGelu", [x, beta])
    show([plain("Softmax", [plain("Add", [x, skip])], axis=-1)], "BiasSoftmax", [x, skip], axis=3, is_inner_broadcast=1)
    first = plain("Transpose", [x], perm=[0, 3, 1, 2])
    norm = plain("Transpose", [plain("GroupNormalization", [first, gamma, beta], num_groups=2, epsilon=0.01)], perm=[0, 2, 3, 1])
    attrs = {"groups": 2, "epsilon": 0.01}
    show([plain("Mul", [norm, plain("Sigmoid", [norm])])], "GroupNorm", [x, gamma, beta], activation=1, channels_last=1, **attrs)
    show([norm], "GroupNorm", [x, gamma, beta], activation=0, **attrs)
    gate, up = halves(x)
    show([plain("Mul", [plain("Mul", [gate, plain("Sigmoid", [gate])]), up])], "SwiGLU", [x])
    cos, sin = (plain("Unsqueeze", [plain(f, [emb]), one]) for f in ("Cos", "Sin"))
    turned = [plain("Add", [plain("Mul", [states[k], cos]), plain("Mul", [states[k + 1], sin])]) for k in (0, 2)]
    show(turned, "GemmaRotaryEmbedding", [emb, *states])
    show([plain("Transpose", [plain("Conv", [first, *weights])], perm=[0, 2, 3, 1])], "NhwcConv", [x, *weights])
    show([plain("Gelu", [plain("MatMul", [x, matrix])], approximate="tanh")], "GemmFastGelu", [x, matrix])
    buckets = [[bucket(i - j) for j in range(40)] for i in range(40)]
    rows = plain("Transpose", [plain("Gather", [table, same.whole(buckets, "i8")])], perm=[2, 0, 1])
    show([plain("Unsqueeze", [rows, zero])], "RelativePositionBias", [table, length, length], max_distance=20, is_bidirectional=1)
    same.write(folder, "fused_without_kernel", 21)
    with open(os.path.join(folder, "fused_without_kernel.onnx"), "wb") as f:
        f.write(ours.model("fused_without_kernel", 21).SerializeToString())


def bucket(back):
    """T5's, of eight in both directions up to 20 steps."""
    far = abs(back)
    return (4 if back < 0 else 0) + (far if far < 2 else min(2 + int(np.log(np.float32(far / 2)) / np.log(np.float32(20 / 2)) * 2), 3))


def four_bits(folder):
    """Rows of tables whose codes have four bits, by blocks along either axis."""
    m = Small(20)
    at = m.input(np.array([[2, -1], [0, 6]], "i8"))
    for kind, low in ((TensorProto.INT4, -8), (TensorProto.UINT4, 0)):
        for shape, block, each, axis in (((7, 40), (7, 3), (7, 3), 1), ((32, 8), (2, 8), (2, 8), 0)):
            code = [m.raw(helper.make_tensor("", kind, s, m.rng.integers(low, low + 16, s).ravel().tolist())) for s in (shape, each)]
            m.op("GatherBlockQuantized", [code[0], at, m.real(*block)], OURS, block_size=16, gather_axis=1 - axis, quantize_axis=axis)
            m.op("GatherBlockQuantized", [code[0], at, m.real(*block), code[1]], OURS, block_size=16, gather_axis=1 - axis, quantize_axis=axis)
    m.write(folder, "fused_four_bits", 21)


if __name__ == "__main__":
    for make in (transformer, convolutions, recurrent, windows, grouped, trees, classifiers, others, coded, without_kernel, four_bits):
        make(sys.argv[1])
