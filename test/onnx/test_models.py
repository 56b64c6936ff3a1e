#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ONNX models give what their cases say, in the interpreter and compiled; what is damaged or unknown is refused.
test_models.py ANFORA EVERY"""
import glob
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from command import execute  # noqa: E402
from tap import ROOT, Tap  # noqa: E402
from wire import field  # noqa: E402
sys.path.insert(0, os.path.join(ROOT, "test", "ops"))
import reference  # noqa: E402

FIXTURES = os.path.join(ROOT, "test", "fixtures", "onnx")
ANFORA = os.path.abspath(sys.argv[1])
EVERY = int(sys.argv[2])  # of so many models one is compiled: LLVM takes most of the time
TAP = Tap()
IN_PARTS = {"nonzero_example", "loop11", "nonmaxsuppression_two_classes", "unique_sorted_with_axis"}  # sizes depend on data: compiled up to there


def files_of(stem, what):
    found = glob.glob(f"{glob.escape(stem)}.{what}[0-9]*.npy")
    return sorted(found, key=lambda p: int(re.search(r"(\d+)\.npy$", p).group(1)))


def differs(got, want):
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype}{got.shape} instead of {want.dtype}{want.shape}"
    return "" if np.allclose(got, want, rtol=1e-3, atol=1e-4, equal_nan=True) else f"{got} instead of {want}"


def gives(path, backend):
    stem = path[: -len(".onnx")]
    name = os.path.basename(stem)
    want = [np.load(f) for f in files_of(stem, "out")]
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "y.npy")
        args = ["@" + f for f in files_of(stem, "in")]
        r = execute([ANFORA, "run", path + ":main", *args, "--backend", backend, "-o", out])
        if r.returncode:
            return TAP.case(f"{name} {backend}", r.stderr)
        if (backend == "llvm" and name in IN_PARTS) != ("W0908" in r.stderr):
            return TAP.case(f"{name} {backend} is compiled in parts or whole", r.stderr or "whole")
        got = [np.load(out)] if len(want) == 1 else [np.load(out[:-4] + f".{i}.npy") for i in range(len(want))]
    return TAP.case(f"{name} {backend}", "; ".join(filter(None, map(differs, got, want))))


# ---- files made here ----

def tensor(name, dims=(2,), kind=1, data=None, more=b""):
    raw = b"\0" * (4 * int(np.prod(dims))) if data is None else data
    return b"".join(field(1, d) for d in dims) + field(2, kind) + field(8, name) + field(9, raw) + more


def external(**entries):
    return b"".join(field(13, field(1, k) + field(2, str(v))) for k, v in entries.items())


def node(op, inputs, output, attrs=b"", domain=""):
    return b"".join(field(1, i) for i in inputs) + field(2, output) + field(4, op) + attrs + field(7, domain)


def integer(name, v):
    return field(5, field(1, name) + field(3, v) + field(20, 2))


def listed(name, values):
    """An attribute that is a list: of words, whole numbers or floats."""
    if isinstance(values[0], str):
        return field(5, field(1, name) + b"".join(field(9, v) for v in values) + field(20, 8))
    if isinstance(values[0], float):
        return field(5, field(1, name) + field(7, np.array(values, "f4").tobytes()) + field(20, 6))
    return field(5, field(1, name) + b"".join(field(8, v) for v in values) + field(20, 7))


def tree(targets=1, **other):
    """The model of a root and its two leaves."""
    attrs = {"nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0], "nodes_values": [0.5, 0.0, 0.0],
             "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0],
             "target_treeids": [0, 0], "target_nodeids": [1, 2], "target_ids": [0, 0], "target_weights": [1.0, 2.0], **other}
    lists = b"".join(listed(k, v) for k, v in attrs.items()) + integer("n_targets", targets)
    return model(graph([node("TreeEnsembleRegressor", ["x"], "y", lists, "ai.onnx.ml")], ins=(value("x", dims=(4, 1)),)),
                 more=field(8, field(1, "ai.onnx.ml") + field(2, 3)))


def subgraph(name, graph):
    return field(5, field(1, name) + field(6, graph) + field(20, 5))


def value(name, kind=1, dims=(2,)):
    shape = b"".join(field(1, field(2, d) if isinstance(d, str) else field(1, d)) for d in dims)
    return field(1, name) + field(2, field(1, field(1, kind) + field(2, shape)))


def graph(nodes, inits=(), ins=(value("x"),), outs=("y",)):
    return (b"".join(field(1, n) for n in nodes) + field(2, "g") + b"".join(field(5, t) for t in inits) + b"".join(field(11, v) for v in ins)
            + b"".join(field(12, field(1, o)) for o in outs))


def model(g, opset=17, more=b""):
    return field(1, 8) + field(7, g) + field(8, field(1, "") + field(2, opset)) + more


def check(data, *, also=()):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "m", "x.onnx")
        os.mkdir(os.path.join(folder, "m"))
        for name, content in also:
            target = os.path.join(folder, name)
            if isinstance(content, str):
                os.symlink(content, target)
            else:
                with open(target, "wb") as f:
                    f.write(content)
        with open(path, "wb") as f:
            f.write(data)
        return execute([ANFORA, "check", path])


def refused(name, data, code, *words, also=()):
    r = check(data, also=also)
    good = r.returncode in (1, 2, 3, 4) and f"error {code}" in r.stderr and all(w in r.stderr for w in words)
    TAP.case(f"refused: {name}", "" if good else f"status {r.returncode}: {r.stderr}")


def ranks_by_data():
    """A branch of two ranks by a value that data decide is interpreted; compiled it is an error that names the node."""
    way = [graph([node(op, ["x"], k)], ins=(), outs=(k,)) for op, k in (("Identity", "a"), ("Flatten", "b"))]
    choice = node("If", ["t"], "y", subgraph("then_branch", way[0]) + subgraph("else_branch", way[1]))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.onnx")
        with open(path, "wb") as f:
            f.write(model(graph([choice], ins=(value("t", 9, ()), value("x")))))
        for backend, want in (("interp", ["[[1.0], [2.0]]"]), ("llvm", ["error E0515", "(f32[2]) and (f32[2, 1])", "called here, in the node y"])):
            r = execute([ANFORA, "run", path, "false", "[1.0, 2.0]", "--backend", backend])
            said = r.stdout + r.stderr
            TAP.case(f"ranks that data decide, {backend}", "" if all(w in said for w in want) else said)


def accepted(name, data, also=()):
    r = check(data, also=also)
    TAP.case(name, "" if r.returncode == 0 else f"status {r.returncode}: {r.stderr}")


RELU = node("Relu", ["x"], "y")
ADD = node("Add", ["x", "w"], "y")


def any_order():
    """Nodes after those that read them, as converters to f16 write them: plainly, and from inside of branches."""
    back = [node("Neg", ["b"], "y"), node("Add", ["a", "x"], "b"), node("Abs", ["x"], "a")]
    ways = [subgraph(k, graph([node(op, ["a"], k)], ins=(), outs=(k,))) for k, op in (("then_branch", "Neg"), ("else_branch", "Exp"))]
    choice = [node("If", ["t"], "y", b"".join(ways)), node("Greater", ["s", "w"], "t"), node("ReduceSum", ["a"], "s", integer("keepdims", 0)), back[2]]
    same = [subgraph(k, graph([node(op, ["x"], "z")], ins=(), outs=("z",))) for k, op in (("then_branch", "Neg"), ("else_branch", "Abs"))]
    later = [node("If", ["t"], "c", b"".join(same)), node("Neg", ["c"], "z"), node("Relu", ["z"], "y")]
    accepted("a name of branches that a later node gives again", model(graph(later, ins=(value("t", 9, ()), value("x")))))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.onnx")
        for name, data, want in (("nodes", graph(back), "[-0.0, -4.0]"), ("branches", graph(choice, [tensor("w", ())]), "[-1.0, -2.0]")):
            with open(path, "wb") as f:
                f.write(model(data))
            r = execute([ANFORA, "run", path, "[-1.0, 2.0]", "--backend", "interp"])
            TAP.case(f"{name} in any order", "" if want in r.stdout else r.stdout + r.stderr)


def by_greatest():
    """Normalizer's norm MAX divides by the greatest number of a row, as ONNX Runtime does, even where that is negative."""
    g = graph([node("Normalizer", ["x"], "y", word("norm", "MAX"), "ai.onnx.ml")], ins=(value("x", dims=(3, 2)),))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.onnx")
        with open(path, "wb") as f:
            f.write(model(g, more=field(8, field(1, "ai.onnx.ml") + field(2, 1))))
        r = execute([ANFORA, "run", path, "[[-4.0, 2.0], [0.0, 0.0], [-1.0, -2.0]]", "--backend", "interp"])
        TAP.case("rows by their greatest number", "" if "[[-2.0, 1.0], [0.0, 0.0], [1.0, 2.0]]" in r.stdout else r.stdout + r.stderr)


def constants():
    """What is an input there is a constant here, so code is made."""
    sizes = np.array([1, 1, 9, 10], dtype="<i8").tobytes()
    cubic = field(5, field(1, "mode") + field(4, "cubic") + field(20, 3))
    stem = os.path.join(FIXTURES, "resize_upsample_sizes_cubic")
    g = graph([node("Resize", ["x", "", "", "sizes"], "y", cubic)], [tensor("sizes", (4,), 7, sizes)], ins=(value("x", 1, (1, 1, 4, 4)),))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.onnx")
        with open(path, "wb") as f:
            f.write(model(g, 19))
        for backend in ("interp", "llvm"):
            out = os.path.join(folder, "y.npy")
            r = execute([ANFORA, "run", path, f"@{stem}.in0.npy", "--backend", backend, "-o", out])
            TAP.case(f"a resize by constants, {backend}", r.stderr if r.returncode else differs(np.load(out), np.load(stem + ".out0.npy")))


def numbers(name, values, kind=7):
    return tensor(name, (len(values),), kind, np.array(values, {7: "<i8", 1: "<f4"}[kind]).tobytes())


def word(name, text):
    return field(5, field(1, name) + field(4, text) + field(20, 3))


def contradictions():
    """Files that ONNX Runtime refuses, too: one part says what another does not."""
    image, flat, weights = value("x", dims=(1, 4, 8, 8)), value("x", dims=(2, 3)), tensor("w", (2, 4, 3, 3))
    kernel = field(5, field(1, "kernel_shape") + field(8, 5) + field(8, 5) + field(20, 7))
    for name, op, inputs, attrs, inits, x, code, words in (
            ("a kernel_shape that the weights have not", "Conv", ["x", "w"], kernel, [weights], image, "E1055", "kernel_shape"),
            ("padding by an unknown word", "Conv", ["x", "w"], word("auto_pad", "SIDEWAYS"), [weights], image, "E1176", "SIDEWAYS"),
            ("a mode of another operator", "Resize", ["x", "", "s"], word("mode", "reflect"), [numbers("s", [1, 1, 2, 2], 1)], image, "E1176", "reflect"),
            ("a scale of nothing", "Resize", ["x", "", "s"], b"", [numbers("s", [1, 1, 0, 2], 1)], image, "E1055", "positive"),
            ("a 0 beyond the input's dims", "Reshape", ["x", "s"], b"", [numbers("s", [2, 3, 0])], flat, "E1055", "a 0 in the shape"),
            ("parts that are not the whole", "Split", ["x", "s"], integer("axis", 1), [numbers("s", [1])], flat, "E1055", "sum"),
            ("pads that take away more than there is", "Pad", ["x", "s"], b"", [numbers("s", [0, -2, 0, -2])], flat, "E1055", "more than there is"),
            ("a product that its summand widens", "Gemm", ["x", "a", "c"], b"", [tensor("a", (3, 4)), tensor("c", (2, 1, 4))], flat, "E1055", "Gemm"),
            ("a scale that widens what it scales", "LayerNormalization", ["x", "s"], b"", [tensor("s", (4, 2, 3))], flat, "E1055", "LayerNormalization"),
            ("padding in two ways", "Conv", ["x", "w"], word("auto_pad", "VALID") + field(5, field(1, "pads") + field(8, 0) * 4 + field(20, 7)), [weights],
             image, "E1055", "auto_pad"),
            ("a constant of two values", "Constant", [], integer("value_int", 1) + listed("value_ints", [1, 2]), [], flat, "E1055", "more than one"),
            ("an axis that is cut twice", "Slice", ["x", "s", "e", "a"], b"", [numbers("s", [0, 1]), numbers("e", [1, 2]), numbers("a", [1, -1])], flat,
             "E1055", "an axis twice"),
            ("an axis that is padded twice", "Pad", ["x", "s", "", "a"], b"", [numbers("s", [0, 1, 1, 1]), numbers("a", [0, -2])], flat, "E1055", "an axis twice"),
            ("an initializer that is no such input", "Relu", ["x"], b"", [tensor("x", (3,))], flat, "E1175", "another type")):
        refused(name, model(graph([node(op, inputs, "y", attrs)], inits, [x])), code, words)


def damaged():
    with open(os.path.join(FIXTURES, "gemm_all_attributes.onnx"), "rb") as f:
        whole = f.read()
    refused("nothing", b"", "E1170")
    refused("no protobuf", b"\xff" * 64, "E1170")
    for part in (1, 2, 3, 5, 7):
        refused(f"the first {part} eighths", whole[: len(whole) * part // 8], "E117")
    refused("operators that are not known, all at once", model(graph([node("Odd", ["x"], "a"), node("Odd", ["a"], "b"), node("Even", ["b"], "y")])),
            "E1174", "Odd", "Even", "2 of the model's nodes")
    refused("one of another domain", model(graph([node("Relu", ["x"], "y", domain="com.example")])), "E1174", "com.example")
    four = field(1, 2) + field(2, 22) + field(8, "w")
    accepted("codes of 4 bits by which codes are made", model(graph([node("Cast", ["x"], "s", integer("to", 1)), node("QuantizeLinear", ["x", "s", "w"], "y")],
             [field(2, 22) + field(8, "w") + field(9, b"\x01")]), 21))
    refused("4-bit integers of another size", model(graph([node("DequantizeLinear", ["w", "x"], "y")], [four + field(9, b"\x21\x43")]), 21), "E1172", "w")
    ring = node("Add", ["x", "b"], "a"), node("Neg", ["a"], "b"), node("Relu", ["b"], "y")
    refused("nodes in a ring", model(graph(ring)), "E1175", "uses what is not there")
    refused("an input that is not there", model(graph([node("Relu", ["z"], "y")])), "E1175", "z")
    refused("an output that is not there", model(graph([RELU], outs=("z",))), "E1175", "z")
    refused("an output that is given twice", model(graph([RELU, node("Neg", ["x"], "y")])), "E1175", "gives a second time y")
    refused("an input as an output", model(graph([node("Relu", ["x"], "x")], outs=("x",))), "E1175", "gives a second time x")
    refused("an initializer that is there twice", model(graph([ADD], [tensor("w", (1,)), tensor("w", (2,))])), "E1175", "has twice the initializer w")
    refused("an input that is there twice", model(graph([RELU], ins=(value("x"), value("x")))), "E1175", "has twice the input x")
    refused("an attribute that is not known", model(graph([node("Relu", ["x"], "y", integer("odd", 1))])), "E1176", "odd")
    refused("too many inputs", model(graph([node("Gelu", ["x", "x", "x"], "y")])), "E1176")
    for name, op, inputs in (("a convolution of f32 by f64", "Conv", ["x", "w"]), ("f32 and f64 that are added", "Add", ["w", "x"]), ("a list with f64 in it", "Concat", ["x", "x", "w"])):
        more = integer("axis", 0) if op == "Concat" else b""
        refused(name, model(graph([node(op, inputs, "y", more)], [tensor("w", (1, 1, 1), 11, b"\0" * 8)], [value("x", dims=(1, 1, 4))])), "E1178", "is f64", "x is f32")
    contradictions()
    TAP.case("a tree", check(tree()).stderr)
    for name, word, other in (("back to its root", "two others", {"nodes_modes": ["BRANCH_LEQ"] * 3, "nodes_truenodeids": [1, 0, 0]}),
                              ("to a node that is not there", "nodes_falsenodeids", {"nodes_falsenodeids": [3, 0, 0]}),
                              ("with two nodes of one number", "nodes_nodeids", {"nodes_nodeids": [0, 1, 1]}), ("of a mode that is not known", "BRANCH_ODD", {"nodes_modes": ["BRANCH_ODD", "LEAF", "LEAF"]}),
                              ("of columns of two lengths", "nodes_values", {"nodes_values": [0.5]}), ("whose numbers are words", "nodes_treeids", {"nodes_treeids": ["a"] * 3}),
                              ("that votes for no target", "target of a weight", {"target_ids": [0, 7]}), ("whose weights are of no node", "not there", {"target_nodeids": [1, 9]})):
        refused("a tree " + name, tree(**other), "E1176", word)
    refused("a tree of more targets than there is memory for", tree(1 << 40), "E1176", "so many targets")
    refused("shapes that do not fit", model(graph([node("Add", ["x", "w"], "y")], [tensor("w", (3,))])), "E0503")
    endless = field(25, field(1, "F") + field(4, "a") + field(5, "b") + field(7, node("F", ["a"], "b", domain="f")) + field(10, "f"))
    refused("a function that calls itself", model(graph([node("F", ["x"], "y", domain="f")]), more=endless), "E1175")
    for version in (0, 9999):
        refused(f"opset {version}", model(graph([RELU]), version), "E1171", str(version), "1 to 28")
    refused("an output of another type than is said", model(graph([RELU], outs=()) + field(12, value("y", 7))), "E1175", "another element type", "y")
    branch = [graph([node("Identity", ["x"], k)], ins=(), outs=()) + field(12, value(k, kind)) for k, kind in (("a", 1), ("b", 7), ("c", 1))]
    more = branch[2] + field(1, node("Neg", ["x"], "d")) + field(12, value("d"))
    for name, other in (("types", branch[1]), ("numbers of results", more)):
        choice = node("If", ["t"], "y", subgraph("then_branch", branch[0]) + subgraph("else_branch", other))
        refused(f"branches of different {name}", model(graph([choice], ins=(value("t", 9, ()), value("x")))), "E1175", "branch")
    refused("a rank of 40", model(graph([RELU], ins=(value("x", dims=(1,) * 40),))), "E0507")
    refused("weights of rank 40", model(graph([ADD], [tensor("w", (1,) * 40)])), "E0507")
    deep = graph([RELU])
    for _ in range(80):
        deep = graph([node("If", ["x"], "y", subgraph("then_branch", deep) + subgraph("else_branch", graph([RELU], ins=())))], ins=())
    refused("subgraphs that nest deeply", model(deep), "E1170")


def tensors():
    labels = listed("classlabels_strings", ["cat", "dog"])
    refused("labels that are words", model(graph([node("LinearClassifier", ["x"], "y", labels, "ai.onnx.ml")]), more=field(8, field(1, "ai.onnx.ml") + field(2, 3))),
            "E1176", "classlabels_strings", "zipmap=False")
    refused("strings", model(graph([ADD], [tensor("w", kind=8)])), "E1171", "w", "strings")
    refused("an input of strings", model(graph([RELU], ins=(value("x", 8),))), "E1171", "x", "strings")
    refused("floats of 8 bits that are added", model(graph([ADD], [tensor("w", kind=17, data=b"\0\0")])), "E1640", "float8e4m3fn", "w")
    refused("half of a tensor", model(graph([ADD], [tensor("w", data=b"\0" * 4)])), "E1172")
    refused("a tensor of 2^40 elements", model(graph([ADD], [tensor("w", (1 << 40,), data=b"\0")])), "E1172")
    refused("a tensor of 2^66 elements", model(graph([ADD], [tensor("w", (1 << 33, 1 << 33), data=b"\0")])), "E1172")
    refused("a negative dim", model(graph([ADD], [tensor("w", (-2,), data=b"")])), "E1172")

    def outside(**entries):
        return model(graph([ADD], [tensor("w", data=b"", more=external(**entries))]))
    good = [("m/w.bin", b"\0" * 16)]
    accepted("external data", outside(location="w.bin", offset=8, length=8), also=good)
    accepted("external data without a length", outside(location="./w.bin"), also=good)
    refused("external data that is cut short", outside(location="w.bin", offset=12, length=8), "E1172", also=good)
    refused("external data of another length", outside(location="w.bin", length=9), "E1172", also=good)
    refused("an offset that is no number", outside(location="w.bin", offset="-1"), "E1172", also=good)
    refused("an offset beyond 64 bits", outside(location="w.bin", offset=1 << 70), "E1172", also=good)
    refused("external data outside of the folder", outside(location="../w.bin"), "E1173", also=[("w.bin", b"\0" * 16)])
    refused("external data by an absolute path", outside(location="/etc/passwd"), "E1173")
    refused("external data through a link", outside(location="w.bin"), "E0301", also=[("w.bin", b"\0" * 16), ("m/w.bin", "../w.bin")])
    refused("external data in a folder that is a link", outside(location="d/w.bin"), "E0301", also=[("w.bin", b"\0" * 16), ("m/d", "..")])
    refused("external data that is not there", outside(location="no.bin"), "E0301")
    refused("external data in a folder", outside(location="."), "E0301")


def narrow():
    """All codes of the floats of 8 and 4 bits, and all floats of 16 bits to them: a code's number by its format's definition, a number's
    code by the nearest of these, ties to the even code."""
    formats = {17: (4, 3, 7, 126, 127), 18: (4, 3, 8, 127, 128), 19: (5, 2, 15, 123, 126), 20: (5, 2, 16, 127, 128), 23: (2, 1, 1, 7, 8)}
    x = np.arange(65536, dtype="<u2").view("<f2")
    with tempfile.TemporaryDirectory() as folder:
        def run(to, of, *more):
            g = graph([node("Cast", ["x"], "y", integer("to", to) + b"".join(more))], ins=(value("x", of[0], of[1].shape),))
            files = [os.path.join(folder, name) for name in ("m.onnx", "x.npy", "y.npy")]
            with open(files[0], "wb") as f:
                f.write(model(g, 23))
            np.save(files[1], of[1])
            r = execute([ANFORA, "run", files[0], "@" + files[1], "--backend", "llvm", "-o", files[2]])
            return (np.load(files[2]), "") if r.returncode == 0 else (None, r.stderr)

        for number, (ebits, mbits, bias, top, unknown) in formats.items():
            sign = 1 << (ebits + mbits)
            code = np.arange(2 * sign)
            e, m = code % sign >> mbits, code & ((1 << mbits) - 1)
            want = np.where(e == 0, m * 2.0 ** (1 - bias - mbits), (2.0 ** -mbits * m + 1) * 2.0 ** (e - bias)) * np.where(code < sign, 1, -1)
            if number in (18, 20):
                want[128] = np.nan
            elif number != 23:
                want[code % sign > top] = np.nan
            if number == 19:
                want[[124, 252]] = [np.inf, -np.inf]
            got, bad = run(1, (number, code.astype("u1")))
            TAP.case(f"numbers of the codes of format {number}", bad or ("" if np.array_equal(got, want.astype("f4"), equal_nan=True) else f"{got} instead of {want}"))
            magnitude, a = want[: top + 1], np.abs(x.astype("f8"))
            finite = np.minimum(np.nan_to_num(a, nan=0, posinf=1e9), 1e9)
            high = np.clip(np.searchsorted(magnitude, finite), 1, top)
            below, above = finite - magnitude[high - 1], magnitude[high] - finite
            near = np.where((below < above) | ((below == above) & (high % 2 == 1)), high - 1, high)
            last = magnitude[top] - magnitude[top - 1]
            over = finite >= magnitude[top] + last / 2 if top % 2 else finite > magnitude[top] + last / 2
            for saturate in (1, 0):
                c = near.copy()
                if not saturate and number != 23:
                    c[over] = {17: 127, 19: 124}.get(number, 128)
                c[np.isnan(x)] = unknown
                signed = np.signbit(x) & (c != 128) & ((c != 0) | (number not in (18, 20))) & ~(np.isnan(x) & (number == 23))
                got, bad = run(number, (10, x), integer("saturate", saturate))
                off = [] if bad else np.flatnonzero(got != c + np.where(signed, sign, 0))
                TAP.case(f"codes of format {number}, saturate {saturate}", bad or "".join(f"{x[i]}: {got[i]}, not {c[i]} " for i in off[:5]))


def draws():
    """Operators that draw: numbers by docs/random.md of the key of their seed, others for each node without a seed and for each turn of a loop."""
    def real(name, v):
        return field(5, field(1, name) + field(2, float(v)) + field(20, 1))
    seed = real("seed", 7.0)
    count = integer("sample_size", 9)
    nodes = [node("RandomNormalLike", ["x"], "a", seed + real("mean", 1.0) + real("scale", 0.5)), node("RandomUniform", [], "b", seed + listed("shape", [3, 4]) + integer("dtype", 11)),
             node("Bernoulli", ["x"], "c", seed), node("Multinomial", ["p"], "d", seed + count), node("RandomNormalLike", ["x"], "e"), node("RandomNormalLike", ["x"], "f"),
             b"".join(field(1, i) for i in ("x", "ratio", "train")) + field(2, "g") + field(2, "h") + field(4, "Dropout") + seed]
    body = graph([node("RandomNormalLike", ["x"], "drawn"), node("Add", ["sum", "drawn"], "next")], ins=(value("turn", 7, ()), value("on", 9, ()), value("sum", 1, (2, 3))), outs=("on", "next", "drawn"))
    nodes.append(b"".join(field(1, i) for i in ("three", "", "x")) + field(2, "i") + field(2, "j") + field(4, "Loop") + subgraph("body", body))
    inits = [tensor("ratio", (), 1, np.float32(0.25).tobytes()), tensor("train", (), 9, b"\1"), tensor("three", (), 7, np.int64(3).tobytes())]
    names = "abcdefghij"
    data = model(graph(nodes, inits, [value("x", 1, (2, 3)), value("p", 1, (2, 5))], names), 18)
    random = np.random.default_rng(3)
    x, p = random.uniform(0.2, 0.8, (2, 3)).astype("f4"), random.standard_normal((2, 5)).astype("f4")
    key, f4 = np.uint64(7), np.float32
    keep = reference.random_bernoulli(key, f4(0.75), (2, 3))
    want = {"a": reference.random_normal(key, (2, 3), f4, 1.0, 0.5), "b": reference.random_uniform(key, (3, 4), np.float64, 0.0, 1.0),
            "c": reference.random_bernoulli(key, x, None).astype("f4"), "d": reference.random_categorical(key, p[:, None], -1, (2, 9)).astype("i4"),
            "g": np.where(keep, x / f4(0.75), 0).astype("f4"), "h": keep}
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, n) for n in ("m.onnx", "x.npy", "p.npy")]
        with open(paths[0], "wb") as f:
            f.write(data)
        np.save(paths[1], x)
        np.save(paths[2], p)
        for backend in ("interp", "llvm"):
            r = execute([ANFORA, "run", paths[0], "@" + paths[1], "@" + paths[2], "--backend", backend, "-o", os.path.join(folder, "y.npy")])
            if r.returncode:
                TAP.case(f"numbers that are drawn, {backend}", r.stderr)
                continue
            got = {n: np.load(os.path.join(folder, f"y.{i}.npy")) for i, n in enumerate(names)}
            bad = [f"{n}: {differs(got[n], w)}" for n, w in want.items() if differs(got[n], w)]
            turns = got["j"]
            apart = [got["e"], got["f"], *turns]
            bad += ["the same numbers twice"] if len({v.tobytes() for v in apart}) != 5 else []
            bad += ["the sum of the turns"] if not np.allclose(x + turns.sum(0), got["i"], atol=1e-5) else []
            TAP.case(f"numbers that are drawn, {backend}", "; ".join(bad))
    scan = graph([node("RandomNormalLike", ["v"], "w")], ins=(value("v"),), outs=("w",))
    refused("numbers that a Scan draws", model(graph([node("Scan", ["x"], "y", subgraph("body", scan) + integer("num_scan_inputs", 1))], ins=(value("x", 1, (3, 2)),))), "E1176", "a Scan")
    refused("a seed that is not finite", model(graph([node("RandomNormalLike", ["x"], "y", real("seed", float("inf")))])), "E1176", "seed")


def no_turn():
    """A loop of no turn gives its state, and nothing stacked: the sizes of what it would stack are those of a first turn."""
    body = graph([node("Neg", ["s"], "next"), node("Concat", ["s", "s"], "wide", integer("axis", 0))], ins=(value("turn", 7, ()), value("on", 9, ()), value("s", 1, (2,))), outs=("on", "next", "wide"))
    loop = b"".join(field(1, i) for i in ("many", "", "x")) + field(2, "y") + field(2, "z") + field(4, "Loop") + subgraph("body", body)
    for turns, sign in ((0, 1), (3, -1)):
        data = model(graph([loop], [tensor("many", (), 7, np.int64(turns).tobytes())], outs=("y", "z")))
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, n) for n in ("m.onnx", "x.npy", "y.npy", "y.0.npy", "y.1.npy")]
            with open(paths[0], "wb") as f:
                f.write(data)
            x = np.array([1, -2], "f4")
            np.save(paths[1], x)
            for backend in ("interp", "llvm"):
                r = execute([ANFORA, "run", paths[0], "@" + paths[1], "--backend", backend, "-o", paths[2]])
                stacked = np.array([np.tile(x * (-1) ** k, 2) for k in range(turns)], "f4").reshape(turns, 4)
                TAP.case(f"a loop of {turns} turns that stacks, {backend}", r.stderr or differs(np.load(paths[3]), x * sign) or differs(np.load(paths[4]), stacked))


PEAK = ("import resource, subprocess, sys; r = subprocess.run(sys.argv[1:]).returncode; "
        "print(r, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10)")


def borrowed(n=4096):
    """Compiled code takes weights from the file, or packs them: they are in memory once. Those that are not aligned are read, and twice
    in memory if they are packed."""
    random = np.random.default_rng(0)

    def peak(folder, k, rows, inside, pad=0, turned=False):
        """Megabytes, and the problem of the result, if any."""
        w, x = random.standard_normal((n, k) if turned else (k, n), dtype="f4"), random.standard_normal((rows, k), dtype="f4")
        where = {"data": w.tobytes()} if inside else {"data": b"", "more": field(14, 1) + external(location="w.bin")}
        product = node("Gemm", ["x", "w"], "y", integer("transB", 1)) if turned else node("MatMul", ["x", "w"], "y")
        g = graph([product], [tensor("p" * pad), tensor("w", w.shape, **where)], [value("x", dims=(rows, k))])
        files = [os.path.join(folder, name) for name in ("m.onnx", "w.bin", "x.npy", "y.npy")]
        for path, data in zip(files, (model(g), b"" if inside else w.tobytes())):
            with open(path, "wb") as f:
                f.write(data)
        np.save(files[2], x)
        r = subprocess.run([sys.executable, "-c", PEAK, ANFORA, "run", files[0] + ":main", "@" + files[2], "--backend", "llvm", "-o", files[3]],
                           capture_output=True, text=True, check=False)
        status, megabytes = (r.stdout.split() or ["?"])[:1] + r.stdout.split()[-1:]
        return int(megabytes), r.stderr if status != "0" else differs(np.load(files[3]), x @ (w.T if turned else w))

    with tempfile.TemporaryDirectory() as folder:
        least, _ = peak(folder, 256, 1, True)
        for name, rows, inside, pad, turned in (("beside the model", 1, False, 0, False), ("in the model", 1, True, 1, False),
                                                ("beside the model, for 40 rows", 40, False, 0, False),
                                                ("beside the model, that are turned", 1, False, 0, True),
                                                ("beside the model, for 40 rows, that are turned", 40, False, 0, True)):
            megabytes, bad = peak(folder, n, rows, inside, pad, turned)
            most = least + (2 if pad else 1.25) * n * n / 2**18 + 16
            TAP.case(f"64 MB of weights {name}", bad or ("" if megabytes < most else f"{megabytes} MB, {least} without them"))


def forms():
    """Forms of operators that people write seldom."""
    far, rows = (np.float32(1000) + np.arange(8, dtype="f4").reshape(2, 4) / 64), np.arange(12, dtype="f8").reshape(3, 4)
    by = (rows - rows.mean(1, keepdims=True)) / np.sqrt(rows.var(1, keepdims=True) + 1e-5)
    whole = field(1, "x") + field(1, "s") + field(1, "b") + field(2, "n") + field(2, "y") + field(4, "LayerNormalization")
    for name, nodes, inits, x, kind, want in (
            ("a condition of several dims", [node("Compress", ["x", "c"], "y", integer("axis", 1))], [tensor("c", (2, 2), 9, b"\1\0\0\1")], far, 1, far[:, [0, 3]]),
            ("numbers far from 0", [node("MeanVarianceNormalization", ["x"], "y", listed("axes", [1]))], [], far, 1,
             (np.arange(4, dtype="f4") - 1.5) / np.sqrt(np.float32(1.25)) + np.zeros((2, 1), "f4")),
            ("a bias of each row", [node("LayerNormalization", ["x", "s", "b"], "y")],
             [tensor("s", (4,), 11, np.ones(4).tobytes()), tensor("b", (3, 4), 11, rows.tobytes())], rows, 11, by + rows),
            ("the mean of doubles", [whole], [tensor("s", (4,), 11, np.ones(4).tobytes()), tensor("b", (4,), 11, np.zeros(4).tobytes())], rows, 11,
             rows.mean(1, keepdims=True).astype("f4"))):
        with tempfile.TemporaryDirectory() as folder:
            files = [os.path.join(folder, n) for n in ("m.onnx", "x.npy", "y.npy")]
            with open(files[0], "wb") as f:
                f.write(model(graph(nodes, inits, ins=(value("x", kind, x.shape),))))
            np.save(files[1], x)
            for backend in ("interp", "llvm"):
                r = execute([ANFORA, "run", files[0], "@" + files[1], "--backend", backend, "-o", files[2]])
                TAP.case(f"{name}, {backend}", r.stderr if r.returncode else differs(np.load(files[2]), want))


def mutated(rounds=300):
    """Files with bytes changed end with a status of the command, never by a signal."""
    random = np.random.default_rng(0)
    bad = ""
    sources = [open(p, "rb").read() for p in sorted(glob.glob(os.path.join(FIXTURES, "*.onnx")))]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.onnx")
        for i in range(rounds):
            data = bytearray(sources[i % len(sources)])
            for at in random.integers(0, len(data), 1 + i % 7):
                data[at] = random.integers(0, 256)
            with open(path, "wb") as f:
                f.write(data)
            r = execute([ANFORA, "check", path], timeout=60)
            if r.returncode not in (0, 1, 2, 3, 4):
                bad = f"round {i}: status {r.returncode}: {r.stderr[-300:]!r}"
    TAP.case(f"{rounds} files with bytes changed", bad)


def main():
    for i, path in enumerate(sorted(glob.glob(os.path.join(FIXTURES, "*.onnx")))):
        gives(path, "interp")
        if i % EVERY == 0:
            gives(path, "llvm")
    any_order()
    by_greatest()
    constants()
    damaged()
    ranks_by_data()
    tensors()
    narrow()
    draws()
    no_turn()
    forms()
    borrowed()
    mutated()
    TAP.done()


main()
