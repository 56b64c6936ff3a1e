#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fused.py FOLDER: models of operators that are several at once as fixtures, NAME.onnx, NAME.inK.npy, NAME.outK.npy, with the results of
ONNX Runtime: those that its optimiser writes, recurrent layers as converters from Keras write them, and windows. Run with a Python that has both."""
import sys

import numpy as np

from quantised import OURS, Model


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


if __name__ == "__main__":
    for make in (transformer, convolutions, recurrent, windows, grouped):
        make(sys.argv[1])
