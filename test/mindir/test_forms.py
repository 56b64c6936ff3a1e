#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Forms of .mindir that MindSpore 2.10 does not write any more, or that a file may have beside what is read: primitives in nodes, attributes by
ref_attr_name, parameters in files of variables; each field that is reported or refused, by its name.
test_forms.py ANFORA"""
import json
import os
import re
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from made import TENSOR, constant, graph_of, model, node, tensor  # noqa: E402
from command import execute  # noqa: E402
from tap import ROOT, Tap  # noqa: E402
from wire import field, varint  # noqa: E402

ANFORA = os.path.abspath(sys.argv[1])
TAP = Tap()
FLOAT, INT64, STRING, BOOL = 1, 7, 8, 9  # AttributeType and DataType


def double(number, v):
    return varint(number << 3 | 1) + np.float64(v).tobytes()


def old(name, form, kind=0, more=b""):
    """An attribute of MindSpore 1."""
    return field(1, name) + field(15, form) + more + (field(16, kind) if kind else b"")


def old_node(name, op, inputs, *attrs):
    """A node whose primitive is in itself."""
    return field(1, b"".join(field(1, i) for i in inputs) + field(2, name) + field(4, op) + b"".join(field(5, a) for a in attrs))


def old_constant(name, *attr):
    return field(1, field(2, name) + field(4, "Constant") + field(5, old("value", *attr)))


def shape(*dims, kind=FLOAT, name="t0"):
    return b"".join(field(1, d) for d in dims) + field(2, kind) + field(7, name)


def old_model(nodes, params=(), functions=(), out="y", **inputs):
    """Without a version, a table of primitives or an order of bytes, as of MindSpore 1.0; or as of 1.x."""
    graphs = field(7, graph_of("g", nodes, params, out, **(inputs or {"x": TENSOR}))) + b"".join(field(8, f) for f in functions)
    return field(1, "0.1.0") + field(2, "MindSpore") + field(5, "1.1.0") + graphs


def run(data, *inputs, engine="interp", file="x.mindir", beside=(), entry="main"):
    """The result, or what was said."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, file)
        for part, content in [(file, data), *beside]:
            os.makedirs(os.path.dirname(os.path.join(folder, part)), exist_ok=True)
            with open(os.path.join(folder, part), "wb") as f:
                f.write(content)
        r = execute([ANFORA, "run", f"{path}:{entry}", *inputs, "--backend", engine, "--json"])
    return (json.loads(r.stdout)["result"] if not r.returncode else None), r.stdout + r.stderr


def gives(name, data, want, *inputs, **of):
    for engine in ("interp", "llvm"):
        got, said = run(data, *inputs, engine=engine, **of)
        good = got is not None and np.allclose(np.array(got, float), np.array(want, float), rtol=1e-6)
        TAP.case(f"{name} {engine}", "" if good else f"{got} for {want}: {said[-400:]}")


def ints(*v):
    return b"".join(field(10, x) for x in v)


def old_forms():
    x = "[3, -4]"
    gives("a primitive in a node", old_model([old_node("y", "Abs", ["x"])]), [3, 4], x)
    gives("a primitive with a signature", old_model([old_node("y", "S-Prim-Add", ["x", "x"])]), [6, -8], x)
    gives("the type of a result", old_model([old_node("y", "Abs", ["x"], old("shape", "shape:t0", more=field(12, shape(2))))]), [3, 4], x)
    _, said = run(old_model([old_node("y", "Abs", ["x"], old("shape", "shape:t0", more=field(12, shape(3))))]), x)
    TAP.case("another type is refused", "" if "E1168" in said else said)
    both = old("shape", "shape:Tuple[a,b,]", more=field(12, shape(2, name="a")) + field(12, shape(2, name="b")))
    gives("a tuple and its type", old_model([old_node("n", "Neg", ["x"]), old_node("y", "MakeTuple", ["x", "n"], both)]), [[3, -4], [-3, 4]], x)
    table = np.arange(6, dtype=np.float32).reshape(2, 3)
    product = [old_node("y", "MatMul", ["g:w", "x"], old("transpose_a", "scalar:value0", BOOL, field(3, 1)), old("transpose_b", "scalar:value0", BOOL, field(3, 0)))]
    w = tensor("g:w", (2, 3), data=table.tobytes())
    gives("attributes that are numbers", old_model(product, [w], x=field(2, field(1, 2) + field(1, 1) + field(2, FLOAT))), table.T @ [[3], [-4]], "[[3], [-4]]")
    whole = field(2, field(1, 1) + field(1, 1) + field(1, 3) + field(1, 3) + field(2, FLOAT))
    pool = [old_node("y", "MaxPool", ["x"], old("kernel_size", "scalar:Tuple[value1,value2,value3,value4,]", INT64, ints(1, 1, 2, 2)),
                     old("strides", "scalar:Tuple[value1,value2,value3,value4,]", INT64, ints(1, 1, 1, 1)),
                     old("pad_mode", "scalar:value0", STRING, field(5, "VALID")), old("data_format", "scalar:value0", STRING, field(5, "NCHW")),
                     old("input_names", "scalar:List[value1,]", STRING, field(11, "x")))]
    gives("attributes that are tuples and texts", old_model(pool, x=whole), [[[[5, 6], [8, 9]]]], "[[[[1, 2, 3], [4, 5, 6], [7, 8, 9]]]]")
    packed = old_node("y", "MaxPool", ["x"], *(old(n, "scalar:Tuple[value1,value2,value3,value4,]", INT64, field(10, bytes(v)))
                                              for n, v in (("kernel_size", (1, 1, 2, 2)), ("strides", (1, 1, 1, 1)))),
                      old("pad_mode", "scalar:value0", STRING, field(5, "valid")))
    gives("packed numbers", old_model([packed], x=whole), [[[[5, 6], [8, 9]]]], "[[[[1, 2, 3], [4, 5, 6], [7, 8, 9]]]]")
    one = np.float32(2.5).tobytes()
    gives("a constant tensor", old_model([old_constant("c", "tensor:value0", 0, field(12, shape() + field(9, one))), old_node("y", "Mul", ["x", "c"])]), [7.5, -10], x)
    gives("a constant number", old_model([old_constant("c", "scalar:value0", FLOAT, field(2, 0.5)), old_node("y", "Mul", ["x", "c"])]), [1.5, -2], x)
    gives("a constant of 64 bits", old_model([old_constant("c", "scalar:value0", 11, double(4, 0.5)), old_node("y", "Mul", ["x", "c"])]), [1.5, -2], x)
    gives("a constant type", old_model([old_constant("c", "type:value0", 0, field(12, field(2, INT64))), old_node("y", "Cast", ["x", "c"])]), [3, -4], x)
    gives("a type as an attribute", old_model([old_node("y", "Cast", ["x"], old("dtype", "type:value0", 0, field(12, field(2, INT64))))]), [3, -4], x)
    gives("a constant tuple", old_model([old_constant("c", "scalar:Tuple[value1,value2,]", INT64, ints(2, 1)), old_node("y", "Reshape", ["x", "c"])]), [[3], [-4]], x)
    items = old_constant("c", "scalar:Tuple[Tuple[value1,],Tuple[value2,],]", INT64, ints(1, 0))
    gives("a constant tuple of tuples", old_model([items, old_constant("k", "scalar:value0", INT64, field(3, 1)), old_node("y", "TupleGetItem", ["c", "k"])]), [0], x)
    gives("a constant by another name", old_model([field(1, field(2, "c") + field(4, "Constant") + field(5, old("v", "scalar:value0", FLOAT, field(2, 2.0)))),
                                                   old_node("y", "Mul", ["x", "c"])]), [6, -8], x)
    state = [old_constant("u", "Monad:UMonad"), old_node("a", "Assign", ["g:w", "x", "u"]), old_node("s", "UpdateState", ["u", "a"]), old_node("l", "Load", ["g:w", "s"]),
             old_node("y", "Mul", ["l", "x"])]
    for version in (0, 1, 2):
        data = old_model(state, [tensor("g:w")]) + (field(10, 1) + field(13, version) if version else b"")
        gives(f"assignments, version {version}", data, [9, 16], x)
    called = graph_of("f", [old_node("fy", "Abs", ["fx"])], (), "fy", fx=TENSOR)
    gives("a function", old_model([field(1, field(1, "x") + field(2, "y") + field(4, "REF::f"))], functions=[called]), [3, 4], x)
    pair = field(5, old("", "shape:Tuple[a,b,]", more=field(12, shape(2, name="a")) + field(12, shape(2, name="b"))))
    take = [old_constant("k", "scalar:value0", INT64, field(3, 1)), old_node("y", "TupleGetItem", ["x", "k"])]
    gives("an input that is a tuple", old_model(take, x=pair), [5, 6], "([1, 2], [5, 6])")
    both = graph_of("g", [old_node("y", "Abs", ["x"]), old_node("z", "Neg", ["x"])], (), "y", x=TENSOR) + field(6, field(1, "z"))
    gives("several results", field(1, "0.1.0") + field(7, both), [[3, 4], [-3, 4]], x)
    for name, form in (("an unknown form", "picture:value0"), ("an open bracket", "scalar:Tuple[value1,"), ("a number that is not there", "scalar:Tuple[value3,]"),
                       ("a number that is none", "scalar:Tuple[valueX,]"), ("brackets nested too deeply", "scalar:" + "Tuple[" * 100)):
        _, said = run(old_model([old_constant("c", form, INT64, ints(1, 2)), old_node("y", "Reshape", ["x", "c"])]), x)
        TAP.case(name, "" if "E1592" in said and "ref_attr_name" in said else said)


def variables():
    """NAME_graph.mindir with its parameters in NAME_variables."""
    net = old_model([old_node("a", "Mul", ["x", "g:w"]), old_node("y", "Add", ["a", "g:b"])])
    parts = [field(3, tensor(f"g:{n}", data=np.array(v, np.float32).tobytes())) for n, v in (("w", [2, 3]), ("b", [10, 20]))]
    files = [("net_variables/data_0", parts[0]), ("net_variables/data_1", parts[1])]
    gives("parameters in two files", net, [12, 26], "[1, 2]", file="net_graph.mindir", beside=files)
    gives("parameters in one file", net, [12, 26], "[1, 2]", file="net_graph.mindir", beside=[("net_variables/data_0", b"".join(parts))])
    _, said = run(net, "[1, 2]", file="net_graph.mindir", beside=files[:1])
    TAP.case("a file of variables that is gone", "" if "E1165" in said and "g:b" in said else said)
    _, said = run(net, "[1, 2]", file="net_graph.mindir", beside=[files[0], (files[1][0], parts[1][:-3])])
    TAP.case("a file of variables cut short", "" if "E1160" in said else said)
    _, said = run(net, "[1, 2]", file="net.mindir", beside=files)
    TAP.case("another name has no variables", "" if "E1165" in said else said)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
        path = os.path.join(folder, "net_graph.mindir")
        with open(path, "wb") as f:
            f.write(net)
        with open(os.path.join(other, "data_0"), "wb") as f:
            f.write(b"".join(parts))
        os.symlink(other, os.path.join(folder, "net_variables"))
        r = execute([ANFORA, "check", path])
    TAP.case("variables by a link", "" if r.returncode and "error E" in r.stderr else r.stderr or "they were read")


PLAIN = [node("y", "Abs:1", "x")]


def fields_by_name():
    """Each row of field.def that is not read: passed over in silence, reported, or refused, as the row says; and numbers without a row."""
    with open(os.path.join(ROOT, "frontend", "mindir", "field.def"), encoding="utf-8") as f:
        rows = re.findall(r"^MINDIR_FIELD\((\w+), +(\d+), (\w+), +(\w+), +(\w+)\)", f.read(), re.M)
    used = {m: {int(n) for k, n, *_ in rows if k == m} for m, *_ in rows}
    rows += [(m, str(n), str(n), "BYTES", "REPORTED") for m in used for n in (max(used[m]) + 1, 99, 1000)]

    def content(number, encoding):
        return field(number, 1) if encoding == "VARINT" else field(number, b"")

    def within(message, more):
        """A model that has `more` in such a message, and whether the message occurs at all."""
        if message == "ModelProto":
            return model(PLAIN, {"Abs:1": b""}, more=more)
        if message == "GraphProto":
            return model([*PLAIN, more], {"Abs:1": b""})
        if message == "NodeProto":
            return model([node("y", "Abs:1", "x", stated=more)], {"Abs:1": b""})
        if message == "PrimitiveProto":
            return model(PLAIN, {"Abs:1": more})
        if message == "ValueInfoProto":
            return model([*PLAIN, field(5, field(1, "z") + TENSOR + more)], {"Abs:1": b""})
        if message == "AttributeProto":
            return model([*PLAIN, constant("c", 7, field(3, 1) + more)], {"Abs:1": b""})
        if message == "SeqInfoProto":
            return model([*PLAIN, constant("c", 20, field(18, more))], {"Abs:1": b""})
        if message == "TensorProto":
            return model(PLAIN, {"Abs:1": b""}, [tensor("g:w", more=more)])
        return None

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.mindir")
        for message, number, name, encoding, fate in rows:
            data = within(message, content(int(number), encoding)) if fate != "READ" else None
            if data is None:
                continue
            with open(path, "wb") as f:
                f.write(data)
            r = execute([ANFORA, "check", path])
            want = {"IDLE": (0, ""), "REPORTED": (0, "warning W0102"), "REFUSED": (3, "error E1592")}[fate]
            good = bool(r.returncode) == bool(want[0]) and (f"the field {name} of {message} " in r.stderr and want[1] in r.stderr if want[1] else not r.stderr)
            TAP.case(f"{fate} {name} of {message}", "" if good else f"status {r.returncode}: {r.stderr}")
        with open(path, "wb") as f:
            f.write(model([node(n, "Abs:1", "x", stated=field(77, n)) for n in "abcy"], {"Abs:1": b""}))
        r = execute([ANFORA, "check", path])
        TAP.case("a field that four nodes have is reported once", "" if r.stderr.count("W0102") == 1 and "77 of NodeProto" in r.stderr and "4 times" in r.stderr else r.stderr)
        with open(path, "wb") as f:
            f.write(model([*PLAIN, field(2, 1)], {"Abs:1": b""}))
        r = execute([ANFORA, "check", path])
        TAP.case("a name that is a number", "" if "E1160" in r.stderr else r.stderr or "it was read")
        quantised = tensor("g:w", more=field(17, field(1, "linear")))
        with open(path, "wb") as f:
            f.write(model(PLAIN, {"Abs:1": b""}, [quantised]))
        r = execute([ANFORA, "check", path])
        TAP.case("quantisation parameters of floats are reported", "" if not r.returncode and "W0102" in r.stderr and "quant_params" in r.stderr else r.stderr)


def refusals():
    """Encrypted files as MindSpore writes them, newer versions, and more kinds of unknown primitives than errors are kept."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.mindir")

        def check(data):
            with open(path, "wb") as f:
                f.write(data)
            return execute([ANFORA, "check", path])
        noise = np.random.default_rng(1).integers(0, 256, 3000, np.uint8).tobytes()
        for first in (0xD8, 0xD9, 0xDA):
            r = check(bytes([first, 0x5E, 0x3A, 0x7F]) + noise)
            TAP.case(f"encrypted, {first:x}", "" if r.returncode and "E1593" in r.stderr else r.stderr)
        plain = model(PLAIN, {"Abs:1": b""})
        for version, good in ((0, True), (1, True), (2, True), (3, True), (4, False), (-1, False)):
            r = check(plain + field(13, version))
            TAP.case(f"version {version}", "" if (not r.stderr if good else "E1161" in r.stderr and "version" in r.stderr) else r.stderr or "it was read")
        names = [f"Odd{k}" for k in range(100)]
        nodes = [node(f"n{k}", f"{name}:1", "x") for k, name in enumerate(names)]
        more = [node("m0", "Odd0:1", "x"), node("m1", "Odd0:2", "x")]
        r = check(model([*nodes, *more, *PLAIN], {**{f"{n}:1": b"" for n in names}, "Odd0:2": b"", "Abs:1": b""}))
        missing = [n for k, n in enumerate(names) if not re.search(rf"primitive {n} is not[^\n]*\n[^\n]*node n{k}, |{n} in the node n{k}\b", r.stderr)]
        TAP.case("100 kinds of unknown primitives, each with a node", f"{missing}: {r.stderr[-300:]}" if missing or "and in 2 more" not in r.stderr else "")


def element_types():
    """Types of results as MindSpore 2.10 has them: complex numbers by both of their numbers, integers whose sum wraps, real functions of integers."""
    def of(kind, *dims):
        return field(2, b"".join(field(1, d) for d in dims) + field(2, kind))

    def stated(kind, *dims):
        return field(5, field(1, "shape") + field(12, b"".join(field(1, d) for d in dims) + field(2, kind)) + field(16, 19))

    def one(op, kind, result, dims=(), inputs=("x",), nodes=()):
        return field(7, graph_of("g", [*nodes, node("y", op + ":1", *inputs, stated=stated(result, *dims))], x=of(kind, 3))) + field(12, field(1, op + ":1") + field(2, op)) + field(10, 1)
    for number, kind in ((48, 14), (51, 14), (49, 15), (52, 15)):
        nodes = [constant("t", 7, field(3, number))]
        gives(f"a cast to the type {number}", one("Cast", FLOAT, kind, (3,), ("x", "t"), nodes), [[1, 0], [2, 0], [-3, 0]], "[1, 2, -3]")
    _, said = run(one("Cast", FLOAT, FLOAT, (3,), ("x", "t"), [constant("t", 7, field(3, 48))]), "[1, 2, 3]")
    TAP.case("a type of 8 bits that the file states otherwise", "" if "E1168" in said else said)
    for kind, x, want in ((3, "[127, 127, 127]", 41), (3, "[-7, 0, 0]", -2), (2, "[255, 0, 0]", 85), (6, "[-1, 0, 0]", 0), (7, "[5, 0, 0]", 1), (13, "[9, 9, 8]", 8)):
        gives(f"the mean of {x} of kind {kind}", one("ReduceMean", kind, kind), want, x)
    for op, want in (("SumExt", 6), ("ProdExt", 6)):
        for kind, result in ((2, 7), (4, 4), (12, 12)):
            gives(f"{op} of kind {kind}", one(op, kind, result), want, "[1, 2, 3]")
    gives("a root of integers", one("Sqrt", 6, FLOAT, (3,)), [1, 2, 3], "[1, 4, 9]")
    _, said = run(one("Sqrt", 11, FLOAT, (3,)), "[1, 4, 9]")
    TAP.case("a root of f64 is not f32", "" if "E1168" in said else said)


def trains_with_averages():
    """A model with running averages, which it assigns to, and a loss: it falls, with an optimiser that would take from the averages, too."""
    stem = os.path.join(ROOT, "test", "fixtures", "mindir", "zoo_generator")
    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "d.npz")
        np.savez(data, z=np.tile(np.load(stem + ".in0.npy"), (4, 1)), y=np.tile(2 * np.load(stem + ".out0.npy"), (4, 1, 1, 1)))
        for optimizer in ("adamw", "sgd"):
            r = execute([ANFORA, "train", stem + ".mindir", "--loss", "mse", "--optimizer", optimizer, "--rate", "0.003", "--data", data, "--epochs", "4", "--batch", "3"])
            losses = [float(x) for x in re.findall(r"loss (\S+)", r.stdout)]
            TAP.case(f"averages and a loss, {optimizer}", "" if len(losses) == 4 and losses[-1] < losses[0] else r.stdout + r.stderr)


def references(n=200):
    """A parameter through many Depends and tuples is still that parameter: what is assigned to it, and what the model gives."""
    ops = {f"{op}:1": b"" for op in ("Assign", "UpdateState", "Load", "Depend", "MakeTuple", "TupleGetItem")}
    u, w, zero = constant("u", 23), tensor("g:w"), constant("k", 7, field(3, 0))
    chain = [node("d0", "Depend:1", "g:w", "u"), *(node(f"d{i + 1}", "Depend:1", f"d{i}", "x") for i in range(n))]
    tuples = [node("t0", "MakeTuple:1", "g:w"), *(node(f"t{i + 1}", "MakeTuple:1", f"t{i}") for i in range(30))]
    items = [node("i0", "Depend:1", "t1", "u"), node("i1", "TupleGetItem:1", "i0", "k"), node("i2", "TupleGetItem:1", "i1", "k")]

    def assign(to):
        return [node("a", "Assign:1", to, "x", "u"), node("s", "UpdateState:1", "u", "a")]
    read = node("y", "Load:1", "g:w", "s")
    deep = [3, 4]
    for _ in range(31):
        deep = [deep]
    for name, nodes, out, want in (("given through Depends", [u, *chain, *assign("g:w")], f"d{n}", [3, 4]),
                                   ("assigned through Depends", [u, *chain, *assign(f"d{n}"), read], "y", [3, 4]),
                                   ("given in tuples", [u, *tuples, *assign("g:w")], "t30", deep),
                                   ("given as an item of a tuple", [u, zero, *tuples[:2], *items, *assign("g:w")], "i2", [3, 4]),
                                   ("assigned as an item of a tuple", [u, zero, *tuples[:2], *items, *assign("i2"), read], "y", [3, 4])):
        gives(f"a parameter {name}", model(nodes, ops, [w], out), want, "[3, 4]")


def main():
    old_forms()
    references()
    trains_with_averages()
    element_types()
    variables()
    fields_by_name()
    refusals()
    TAP.done()


main()
