#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fused.py FOLDER: models of operators that are several at once as fixtures, NAME.onnx, NAME.inK.npy, NAME.outK.npy, with the results of
ONNX Runtime: those that its optimiser writes, recurrent layers as converters from Keras write them, and windows. Run with a Python that has both."""
import sys

import numpy as np

from quantised import FEATURES, OURS, Model


class Small(Model):
    def floats(self, *shape):
        return self.const(self.rng.standard_normal(shape).astype("f4"))

    def given(self, *shape):
        return self.input(self.rng.standard_normal(shape).astype("f4"))

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


if __name__ == "__main__":
    for make in (transformer, convolutions, recurrent, windows, grouped, trees):
        make(sys.argv[1])
