#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models that MindSpore 2.10 exported give what it gave, in the interpreter and compiled, and written and read again;
what is damaged is refused.
test_models.py ANFORA EVERY"""
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from made import MONAD, TENSOR, constant, graph_of, model, node, tensor  # noqa: E402
from command import execute  # noqa: E402
from tap import ROOT, Tap  # noqa: E402
from wire import field, varint  # noqa: E402

FIXTURES = os.path.join(ROOT, "test", "fixtures", "mindir")
ANFORA = os.path.abspath(sys.argv[1])
EVERY = int(sys.argv[2])  # of so many models one is compiled: LLVM takes most of the time
TAP = Tap()


def numbers(v):
    """All numbers of a result, in order; nothing for None and words."""
    if isinstance(v, dict):
        return [y for x in v.values() for y in numbers(x)]
    if isinstance(v, list):
        return [y for x in v for y in numbers(x)]
    return [] if v is None or v == "word" else [float(v)]


def flat(files):
    return np.concatenate([np.load(f).astype(float).ravel() for f in files])


def files_of(stem, what):
    found = glob.glob(f"{stem}.{what}[0-9]*.npy")
    return sorted(found, key=lambda p: int(re.search(r"(\d+)\.npy$", p).group(1)))


def run(target, inputs, *options):
    """The numbers of the result, or what was said instead."""
    r = execute([ANFORA, "run", target, *("@" + i for i in inputs), "--json", *options])
    if r.returncode:
        return None, r.stdout + r.stderr
    out = json.loads(r.stdout)
    return np.array(numbers(out.get("result", out))), ""


def differs(got, want, bound=1e-5):
    if got.shape != want.shape:
        return f"{got.size} numbers instead of {want.size}"
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    got, want = np.where(same, 0.0, got), np.where(same, 0.0, want)
    far = np.max(np.abs(got - want) / (1 + np.abs(want)), initial=0.0)
    return "" if far <= bound else f"differs by {far:g}"


def gives(path, *options):
    stem = path[: -len(".mindir")]
    got, problem = run(path + ":main", files_of(stem, "in"), *options)
    TAP.case(f"{os.path.basename(stem)} {' '.join(options)}", problem or differs(got, flat(files_of(stem, "out"))))


def steps(stem, *options):
    """A training step gives the parameters after it, then the loss."""
    got, problem = run(stem + ".mindir:step", files_of(stem, "in"), *options)
    if not problem:
        r = execute([ANFORA, "run", stem + ".mindir:params", "--json"])
        names = list(json.loads(r.stdout)["result"])
        if os.path.exists(stem + ".after.npz"):
            with np.load(stem + ".after.npz") as after:
                want = np.concatenate([after[n].astype(float).ravel() for n in names] + [flat(files_of(stem, "out"))])
        else:
            want = flat([f"{stem}.after.{n}.npy" for n in names] + files_of(stem, "out"))
        problem = differs(got, want)
    TAP.case(f"{os.path.basename(stem)} steps {' '.join(options)}", problem)


def refused(name, data, code):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.mindir")
        with open(path, "wb") as f:
            f.write(data)
        r = execute([ANFORA, "check", path])
    good = r.returncode in (1, 2, 3, 4) and f"error {code}" in r.stderr
    TAP.case(f"refused: {name}", "" if good else f"status {r.returncode}: {r.stderr}")


def nested(depth):
    a = field(3, 1) + field(16, 7)
    for _ in range(depth):
        a = field(17, a) + field(16, 20)
    return a


U = constant("u", 23)
W, V = tensor("g:w"), tensor("g:v")
ASSIGNS = {"Assign:1": b"", "UpdateState:1": b"", "Partial:1": b"", "Switch:1": b"", "Abs:1": b"", "Load:1": b"", "Depend:1": b""}


def plain(*params, more=b""):
    return model([node("y", "Abs:1", "x")], {"Abs:1": b""}, params, more=more)


def weight(*dims, **of):
    return plain(tensor("g:w", dims=dims or (2,), **of))


def elsewhere(name, offset=0, length=8):
    return weight(data=b"", more=field(12, field(1, name) + field(2, offset) + field(3, length)))


def assigning(target, *nodes, **inputs):
    """A function f that assigns, and a model that calls it as `nodes` say."""
    body = [node("fa", "Assign:1", target, "fx", "fu"), node("fs", "UpdateState:1", "fu", "fa"), node("fy", "Depend:1", "fx", "fs")]
    return model([U, *nodes], ASSIGNS, [W, V], functions=[graph_of("f", body, (), "fy", **inputs)])


def kinds():
    """Each kind of damage: what it is, the file, the code of the refusal."""
    with open(os.path.join(FIXTURES, "mlp.mindir"), "rb") as f:
        whole = f.read()
    yield from ((f"the first {part} eighths", whole[: len(whole) * part // 8], "E1160") for part in (1, 2, 3, 5, 7))
    yield "nothing", b"", "E1160"
    yield "no protobuf", b"\xff" * 64, "E1160"
    yield "encrypted", bytes(np.random.default_rng(1).integers(0, 256, len(whole), np.uint8)), "E1160"
    yield "a number of more than 64 bits", b"\x08" + b"\xff" * 11, "E1160"
    yield "a length beyond the end", plain() + b"\x3a\xff\xff\xff\xff\x0f", "E1160"
    yield "a group, which proto3 lacks", plain() + b"\x3b\x00", "E1160"
    yield "no graph", field(1, "1.1") + field(13, 3), "E1160"
    yield "attributes nested too deeply", model([constant("y", 7, nested(100))], {}), "E1160"
    yield "big-endian", plain().replace(field(10, 1), field(10, 0)), "E1161"
    yield "compressed weights", weight(more=field(16, 3)), "E1161"
    yield "integers with quantisation parameters", weight(kind=3, data=b"\0\1", more=field(17, field(1, "linear"))), "E1166"
    yield "a map parameter", field(7, graph_of("g", [node("y", "Abs:1", "x")], (), "y", x=TENSOR) + field(10, field(1, "m"))), "E1166"
    yield "an element type", weight(kind=77), "E1161"
    yield "a constant of a kind", model([constant("y", 99)], {}), "E1161"
    yield "half of a tensor", weight(data=b"\0" * 4), "E1162"
    yield "more than a tensor", weight(data=b"\0" * 12), "E1162"
    yield "fewer numbers than a tensor", plain(field(1, 2) + field(2, 1) + field(7, "g:w") + field(3, np.float32(1).tobytes())), "E1162"
    yield "a tensor of 2^40 elements", weight(1 << 40, data=b"\0"), "E1162"
    yield "a tensor of 2^80 elements", weight(1 << 40, 1 << 40, data=b"\0"), "E1162"
    yield "a parameter without a size", weight(-1, data=b"\0" * 8), "E1162"
    yield "a rank of 40", weight(*[1] * 40, data=b"\0" * 4), "E0507"
    yield "weights outside of the folder", elsewhere("../w"), "E1163"
    yield "weights by a whole path", elsewhere("/etc/hostname"), "E1163"
    yield "weights by a name with a zero", elsewhere("w\0x"), "E1163"
    yield "weights in no file", elsewhere("w"), "E0301"
    yield "weights of another length", elsewhere("x.mindir", 0, 4), "E1162"
    yield "weights after the end", elsewhere("x.mindir", 1 << 40), "E1162"
    yield "too many inputs", model([node("y", "Abs:1", "x", "x", "x")], {"Abs:1": b""}), "E1164"
    yield "an input that is not there", model([node("y", "Abs:1", "z")], {"Abs:1": b""}), "E1165"
    yield "an input that comes later", model([node("y", "Abs:1", "z"), node("z", "Abs:1", "x")], {"Abs:1": b""}), "E1165"
    yield "a result that is not there", model([node("y", "Abs:1", "x")], {"Abs:1": b""}, out="z"), "E1165"
    yield "two nodes of one name", model([node("y", "Abs:1", "x"), node("y", "Abs:1", "x")], {"Abs:1": b""}), "E1561"
    yield "a node with the name of an input", model([node("x", "Abs:1", "x")], {"Abs:1": b""}, out="x"), "E1561"
    yield "a call of nothing", model([node("y", "nothing", "x")], {}), "E1165"
    yield "a call of a constant", model([constant("c", 7, field(3, 1)), node("y", "c", "x")], {}), "E1165"
    one = [graph_of("f", [node("fy", "Abs:1", "fx")], (), "fy", fx=TENSOR)]
    yield "a call with an input too many", model([node("y", "f", "x", "x")], {"Abs:1": b""}, functions=one), "E1590"
    yield "a call without its input", model([node("y", "f")], {"Abs:1": b""}, functions=one), "E1590"
    for op in ("UpdateState", "Depend"):
        yield f"{op} without inputs", model([node("y", op + ":1")], {op + ":1": b""}), "E1591"
    bodies = {"f": node("fy", "k", "fx"), "h": node("hy", "Add:1", "hx", "fx"), "k": node("ky", "Add:1", "kx", "hx")}
    cycle = [graph_of(f, [body], (), f + "y", **{f + "x": TENSOR}) for f, body in bodies.items()]
    calls = [node("a", "f", "x"), node("y", "h", "a")]
    yield "functions that would have to enclose each other", model(calls, {"Add:1": b""}, functions=cycle), "E0214"
    yield "an assignment without inputs", model([node("y", "Assign:1")], {"Assign:1": b""}), "E1165"
    yield "a constant without a value", model([field(1, field(2, "y") + field(4, "Constant"))], {}), "E1165"
    yield "a primitive that is not known", model([node("y", "Odd:1", "x")], {"Odd:1": b""}), "E1166"
    triple = field(5, field(1, "shape") + field(6, field(1, 3) + field(2, 1)) + field(16, 19))
    yield "a type that is not the operator's", model([node("y", "Abs:1", "x", stated=triple)], {"Abs:1": b""}), "E1168"
    odd = field(3, field(1, "curve") + field(3, 1) + field(16, 7))
    yield "an attribute that is not known", model([node("y", "Abs:1", "x")], {"Abs:1": odd}), "E1169"
    num = field(3, field(1, "num") + field(3, 1) + field(16, 7))
    yield "another primitive's attribute", model([node("y", "Abs:1", "x")], {"Abs:1": num}), "E1169"
    channels_last = field(3, field(1, "format") + field(5, "NHWC") + field(16, 8))
    yield "channels last", model([node("y", "Conv2D:1", "x", "x")], {"Conv2D:1": channels_last}), "E1151"
    yield "a shape that the model computes", model([node("y", "Reshape:1", "x", "x")], {"Reshape:1": b""}), "E1150"
    lost = [U, node("a", "Assign:1", "g:w", "x", "u"), node("y", "Abs:1", "x")]
    yield "an assignment that nothing orders", model(lost, ASSIGNS, [W]), "E1151"
    yield "an assignment outside of the state", model([node("y", "Assign:1", "x", "x", "x")], ASSIGNS), "E1165"
    twice = [U, node("a", "Assign:1", "g:w", "x", "u"), node("b", "Assign:1", "g:w", "x", "u"), node("s", "UpdateState:1", "u", "a", "b")]
    yield "two assignments from one state", model([*twice, node("y", "Abs:1", "x")], ASSIGNS, [W]), "E1185"
    calls = node("a", "f", "g:w", "x", "u"), node("b", "f", "g:w", "x", "u"), node("y", "Abs:1", "x")
    yield "two calls from one state", assigning("fw", *calls, fw=TENSOR, fx=TENSOR, fu=MONAD), "E1185"
    mixed = node("a", "f", "g:w", "x", "u"), node("s", "UpdateState:1", "u", "a"), node("y", "f", "g:v", "x", "s")
    yield "a function that assigns to two parameters", assigning("fw", *mixed, fw=TENSOR, fx=TENSOR, fu=MONAD), "E1165"
    yield "an assignment to a value", assigning("fx", node("y", "f", "x", "u"), fx=TENSOR, fu=MONAD), "E1165"
    states = (node("a", "f", "g:w", "x", "u"), node("s", "UpdateState:1", "u", "a"), node("p", "Partial:1", "f", "g:w", "x", "u"),
              node("q", "Partial:1", "f", "g:w", "x", "s"), constant("c", 9, field(3, 1)), node("k", "Switch:1", "c", "p", "q"), node("y", "k"))
    yield "a choice between states", assigning("fw", *states, fw=TENSOR, fx=TENSOR, fu=MONAD), "E1186"
    changed = [node("a", "InplaceReLU:1", "x"), node("b", "Abs:1", "x"), node("y", "Abs:1", "a")]
    yield "a value after it was changed", model(changed, {"InplaceReLU:1": b"", "Abs:1": b""}), "E1165"
    same = [graph_of("f", [node("fy", "Abs:1", "fx")], (), "fy", fx=TENSOR)] * 2
    yield "two functions of one name", model([node("y", "f", "x")], {"Abs:1": b""}, functions=same), "E1561"
    main_again = [graph_of("g", [node("fy", "Abs:1", "fx")], (), "fy", fx=TENSOR)]
    yield "a function with the model's name", model([node("y", "Abs:1", "x")], {"Abs:1": b""}, functions=main_again), "E1561"
    with open(os.path.join(ROOT, "fuzz", "corpus", "mindir", "turns.mindir"), "rb") as f:
        yield "a window of millions of places", f.read(), "E1151"
    pairs = [node(f"t{i + 1}", "MakeTuple:1", f"t{i}", f"t{i}") for i in range(100)]
    yield "tuples of tuples", model([node("t0", "Abs:2", "x"), *pairs], {"MakeTuple:1": b"", "Abs:2": b""}, out="t100"), "E1151"


def damaged():
    found = list(kinds())
    for name, data, code in found:
        refused(name, data, code)
    TAP.case(f"{len(found)} kinds of damage", "" if len({n for n, _, _ in found}) == len(found) >= 33 else "fewer")


def beside():
    """Weights in a file of the folder: read where they are; cut short, or by a link, refused."""
    def of(length):
        info = field(12, field(1, "w.bin") + field(2, 4) + field(3, length))
        return model([node("y", "Add:1", "x", "g:w")], {"Add:1": b""}, [tensor("g:w", data=b"", more=info)])
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
        path, data = os.path.join(folder, "x.mindir"), os.path.join(folder, "w.bin")
        with open(path, "wb") as f:
            f.write(of(8))

        def run_it():
            return execute([ANFORA, "run", path + ":main", "[1, 2]"])
        with open(data, "wb") as f:
            f.write(np.array([9, 10, 20], np.float32).tobytes())
        r = run_it()
        TAP.case("weights in a file of their own", "" if r.stdout == "[11.0, 22.0]\n" else r.stdout + r.stderr)
        with open(data, "wb") as f:
            f.write(b"\0" * 8)
        r = run_it()
        TAP.case("a file of weights cut short", "" if "E1162" in r.stderr else r.stdout + r.stderr)
        os.rename(data, os.path.join(other, "w.bin"))
        os.symlink(os.path.join(other, "w.bin"), data)
        r = run_it()
        TAP.case("a file of weights by a link", "" if r.returncode and not r.stdout else r.stdout + r.stderr)


def weights_apart(folder, size, inside, pad=0):
    """A model with so many bytes of zeros as a weight: in itself, or in a file beside it. Both have holes instead of zeros."""
    nodes, ends = graph_of("g", [node("y", "Abs:1", "x")], x=TENSOR), field(12, field(1, "Abs:1") + field(2, "Abs")) + field(10, 1) + field(13, 3)
    w = field(1, size // 4) + field(2, 1) + field(7, "g:w")
    path = os.path.join(folder, "x.mindir")
    with open(path, "wb") as f:
        if not inside:
            w += field(12, field(1, "w.bin") + field(2, 64) + field(3, size))
            f.write(field(7, nodes + field(3, w)) + ends)
        else:
            w += field(8, "-" * pad) + varint(9 << 3 | 2) + varint(size)
            graph = nodes + varint(3 << 3 | 2) + varint(len(w) + size) + w
            start = varint(7 << 3 | 2) + varint(len(graph) + size) + graph
            f.write(start)
            f.truncate(len(start) + size)
            f.seek(len(start) + size)
            f.write(ends)
    if not inside:
        with open(os.path.join(folder, "w.bin"), "wb") as f:
            f.truncate(64 + size)
    return path, len(start) % 16 if inside else 0


def chain(path, n):
    """n nodes, each of the one before."""
    table = ["Abs:0", "Neg:1", "Tanh:2"]
    shape = field(5, field(1, "shape") + field(6, field(1, 2) + field(2, 1)) + field(16, 19))
    body = b"".join(node(f"g:CNode_{i}", table[i % 3], f"g:CNode_{i - 1}" if i else "x", stated=shape) for i in range(n))
    ends = b"".join(field(12, field(1, p) + field(2, p[:-2])) for p in table)
    with open(path, "wb") as f:
        f.write(field(7, graph_of("g", [body], out=f"g:CNode_{n - 1}", x=TENSOR)) + ends + field(10, 1))


TIME = ("import resource, subprocess, sys; r = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode; "
        "u = resource.getrusage(resource.RUSAGE_CHILDREN); print(r, u.ru_utime + u.ru_stime)")


def linear(n=10000):
    """Four times the nodes take about four times as long; the best of three, of processor time."""
    with tempfile.TemporaryDirectory() as folder:
        def seconds(nodes):
            path, times = os.path.join(folder, "x.mindir"), []
            chain(path, nodes)
            for _ in range(3):
                r = subprocess.run([sys.executable, "-c", TIME, ANFORA, "check", path], capture_output=True, text=True, check=False)
                status, t = r.stdout.split()
                times.append(float(t) if status == "0" else np.inf)
            return min(times)
        few, many = seconds(n), seconds(4 * n)
        TAP.case(f"{4 * n} nodes", "" if many < 8 * few + 0.05 else f"{n} in {few:.3f} s, {4 * n} in {many:.3f} s")


PEAK = ("import resource, subprocess, sys; r = subprocess.run(sys.argv[1:]).returncode; "
        "print(r, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")


def mapped():
    """Weights of a large file stay there: beside the model, and in it if they begin at a multiple of their size; else they are in memory once."""
    def peak(path):
        r = subprocess.run([sys.executable, "-c", PEAK, ANFORA, "run", path + ":main", "[1, -2]"], capture_output=True, text=True, check=False)
        said, (status, kilobytes) = r.stdout.splitlines()[0], r.stdout.split()[-2:]
        return int(kilobytes) >> 10 if (said, status) == ("[1.0, 2.0]", "0") else 1 << 20
    with tempfile.TemporaryDirectory() as folder:
        path, _ = weights_apart(folder, 1 << 30, False)
        got = peak(path)
        TAP.case("1 GB beside the model", "" if got < 200 else f"{got} MB")
        for pad in range(16):
            path, off = weights_apart(folder, 1 << 30, True, pad)
            if not off:
                break
        got = peak(path)
        TAP.case("1 GB in the model", "" if got < 200 else f"{got} MB")
        path, off = weights_apart(folder, 64 << 20, True, pad + 1)
        got = peak(path)
        TAP.case("64 MB that are not aligned", "" if off and got < 200 else f"{got} MB")


def mutated(rounds=300, together=30):
    """Files with bytes changed end with a status of the command, never by a signal. Many at a time; of some that end so, each alone."""
    random = np.random.default_rng(0)
    bad = ""
    sources = [open(os.path.join(FIXTURES, n + ".mindir"), "rb").read() for n in ("fib", "multi", "train_step", "while_grad")]

    def ends(paths):
        r = execute([ANFORA, "check", *paths], timeout=300)
        return "" if r.returncode in (0, 1, 2, 3, 4) else f"{os.path.basename(paths[0])}: status {r.returncode}: {r.stderr[-300:]!r}"
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, f"{i}.mindir") for i in range(rounds)]
        for i, path in enumerate(paths):
            data = bytearray(sources[i % len(sources)])
            for at in random.integers(0, len(data), 1 + i % 7):
                data[at] = random.integers(0, 256)
            with open(path, "wb") as f:
                f.write(data)
        for i in range(0, rounds, together):
            some = paths[i:i + together]
            if not bad and ends(some):
                bad = next(filter(None, (ends([path]) for path in some)), ends(some))
    TAP.case(f"{rounds} files with bytes changed", bad)


def by_content():
    """Under another name, and from standard input, a file is known by its first bytes; a model of MindSpore goes through each command."""
    source, x = os.path.join(FIXTURES, "mlp.mindir"), os.path.join(FIXTURES, "mlp.in0.npy")
    want = flat(files_of(source[:-7], "out"))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.bin")
        with open(source, "rb") as f, open(path, "wb") as to:
            to.write(f.read())
        got, problem = run(path + ":main", [x])
        TAP.case("a file of another name", problem or differs(got, want))
        with open(source, "rb") as f:
            r = subprocess.run([ANFORA, "run", "-:main", "@" + x, "--json"], stdin=f, capture_output=True, text=True, check=False)
        TAP.case("standard input", r.stderr or differs(np.array(numbers(json.loads(r.stdout)["result"])), want))
        for words, says in ((["check", source], "ok, "), (["print", source], "def net("), (["view", source, "-o", "v.html"], "")):
            r = execute([ANFORA, *words], cwd=folder)
            TAP.case(f"anfora {words[0]}", "" if not r.returncode and says in r.stdout else r.stdout + r.stderr)
        page = open(os.path.join(folder, "v.html"), encoding="utf-8").read()
        TAP.case("the page has its graphs", "" if "fc1.weight" in page and "MatMul" in page else page[:300])
        for ending in ("ir", "dat", "mindir"):
            path, problem = written(folder, source, "out." + ending)
            got, problem = (None, problem) if problem else run(path + ":main", [x])
            TAP.case(f"anfora import to .{ending}", problem or differs(got, want))


def no_reference():
    """Primitives that MindSpore exports and does not run on a CPU, against NumPy."""
    equation = field(3, field(1, "equation") + field(5, "ij,kj->ik") + field(16, 8))
    table = {"Einsum:1": equation, "MakeTuple:1": b"", "ExpandDims:1": b"", "Mul:1": b""}
    nodes = [constant("zero", 7, field(3, 0)), node("r", "ExpandDims:1", "x", "zero"), node("m", "Mul:1", "r", "g:w"),
             node("t", "MakeTuple:1", "m", "g:w"), node("y", "Einsum:1", "t")]
    w = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.mindir")
        with open(path, "wb") as f:
            f.write(model(nodes, table, [tensor("g:w", w.shape, data=w.tobytes())]))
        np.save(os.path.join(folder, "x.npy"), np.array([7, 8], np.float32))
        for engine in ("interp", "llvm"):
            got, problem = run(path + ":main", [os.path.join(folder, "x.npy")], "--backend", engine)
            TAP.case(f"Einsum {engine}", problem or differs(got, (w * [7, 8] @ w.T).ravel()))


def named_at_once():
    """All primitives that are not known, each with the first node that has it, and a map parameter by its name."""
    more = field(10, field(1, "table")) + field(10, field(1, "second"))
    graph = field(7, graph_of("g", [node("a", "Odd:1", "x"), node("b", "Even:1", "a"), node("y", "Odd:1", "b")], x=TENSOR) + more)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.mindir")
        with open(path, "wb") as f:
            f.write(graph + b"".join(field(12, field(1, p + ":1") + field(2, p)) for p in ("Odd", "Even")))
        said = execute([ANFORA, "check", path]).stderr
    missing = [w for w in ("primitive Odd", "node a, Odd:1", "primitive Even", "node b, Even:1", "MapParameter of table", "MapParameter of second") if w not in said]
    TAP.case("all that is not supported is named", f"{missing}: {said}" if missing else "")


def any_arity():
    """Each primitive with 0 to 4 inputs: tensors, or a function and tuples; it is read, or refused with a code."""
    with open(os.path.join(ROOT, "ir", "ops", "op.def"), encoding="utf-8") as f:
        names = [n for column in re.findall(r'\.mindir = "([^"]*)"', f.read()) for n in column.split()]
    with open(os.path.join(ROOT, "frontend", "mindir", "mindir.anf"), encoding="utf-8") as f:
        names += re.findall(r"^def ([A-Z]\w*?)_?\(", f.read(), re.M)
    names = sorted(set(names))
    one = [graph_of("f", [node("fy", "Abs:1", "fx")], (), "fy", fx=TENSOR)]
    start, prims = [node("t", "MakeTuple:1", "x", "x")], {"MakeTuple:1": b"", "Abs:1": b""}
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for name in names:
            for k, inputs in enumerate([(), ("x",), ("t",), ("f",), ("x", "x"), ("t", "t"), ("f", "t"), ("x",) * 3, ("f", "t", "t"), ("x",) * 4]):
                paths.append(os.path.join(folder, f"{name}.{k}.mindir"))
                with open(paths[-1], "wb") as f:
                    f.write(model([*start, node("y", name + ":1", *inputs)], {**prims, name + ":1": b""}, functions=one))
        r = execute([ANFORA, "check", *paths])
    bare = [line for line in r.stderr.splitlines() if "error" in line and not re.search("error E[0-9]{4}", line)]
    read = len(paths) - len({line.split(":")[0] for line in r.stderr.splitlines() if "error E" in line})
    good = r.returncode in range(5) and not bare and 0 < read < len(paths)
    TAP.case(f"{len(names)} primitives with 0 to 4 inputs", "" if good else f"status {r.returncode}, {read} read: {bare or r.stderr[-500:]}")


# ---- the writer ----

PROGRAMS = {
    "loop": ("def main(x: f32[2], n: i64) { s = 0.0; i = 0; while i < n { s = s + Sum(Tanh(x * i)); i = i + 1 }; s }", "[1, 2] 4"),
    "gradient of a loop": ("def f(x: f64, n: i64) { y = x; for i in 0..n { y = Sin(y) * x }; y }\n"
                           "def main(x: f64, n: i64) { grad(f)(x, n) }", "0.7 5"),
    "gradient of a recursion": ("def p(x: f64, n: i64) { if n == 0 { 1.0 } else { x * p(x, n - 1) } }\n"
                                "def main(x: f64, n: i64) { value_and_grad(p)(x, n) }", "1.5 4"),
    "closures": ("def add(a) { fn (b) { a + b } }\ndef twice(f) { fn (x) { f(f(x)) } }\n"
                 "def main(x: i32, c: bool) { g = if c { twice(add(x)) } else { add(x * 2) }; g(10) }", "4 true"),
    "branches of functions that branches share": (
        "def side(x: f64[4], c) { if c { y = Sin(x) * 3.0; if Sum(y) > 2.0 { Sum(y) } else { Sum(y * y) } } else { Sum(Cos(x)) } }\n"
        "def main(x: f64[4], n: f64) { k = if n > 0.5 { side(x, n > 1.0) + 1.0 } else { side(x * 2.0, n > 0.0) }; k * side(x + 1.0, n < 0.0) }",
        "[1, 2, 3, 4] 0.3"),
    "effects": ("def show(i) { print(\"turn\", i); i * i }\n"
                "def main(n: i64) { s = 0; for i in 0..n { s = s + show(i) }; assert(s == 5, \"0 + 1 + 4\"); print(\"end\", s); s }", "3"),
    "records": ("def main(x: f32) { r = {a = x, b = (1, {c = 2.5})}; (r, r.b[1].c * x) }", "2"),
    "a record as a constant": ("def main() { {a = 1, b = (2.5, \"text\", None, true)} }", ""),
    "element types": ("def main(x: i8, y: u16, z: bf16[2], c: c64) { (x + 1, y * 2, Cast(z, dtype=f64), c * c, 0.1, i8(7)) }", "3 4 [1.5, 2] 1"),
    "complex numbers without a type": ("def main(x: f32) { w = complex(0.5, 2.0); v = MakeComplex(1.5, 2.0) * w; "
                                       "(w * x, Real(v * x), Abs(w + x), Imag(if x > 1.0 { w } else { v })) }", "1.5"),
    "an index that the program computes": ("def main(x: f32[5], i: i64) { (x[i], x[i:i + 2], Take(x, i)) }", "[1, 2, 3, 4, 5] 2"),
    "attention": ("def main(q: f32[2, 4, 3], k: f32[2, 4, 3]) { Softmax(q @ SwapAxes(k, axis1=-1, axis2=-2)) @ k }",
                  "@{q} @{k}"),
}


def written(folder, source, name):
    """What `import` writes, its text of errors."""
    path = os.path.join(folder, name)
    r = execute([ANFORA, "import", source, "-o", path])
    return path, r.stderr if r.returncode else ""


def settles(folder, source):
    """Written three times, each from the one before; the problem, or nothing."""
    for k in (1, 2, 3):
        source, problem = written(folder, source, f"{k}.mindir")
        if problem:
            return problem
    second, third = (open(os.path.join(folder, f"{k}.mindir"), "rb").read() for k in (2, 3))
    return "" if second == third else "the third file differs from the second"


def goes_back(path):
    """Written, read, written and read: MindSpore's values, and from then on the same bytes."""
    stem = path[: -len(".mindir")]
    with tempfile.TemporaryDirectory() as folder:
        problem = settles(folder, path)
        if not problem:
            got, problem = run(os.path.join(folder, "2.mindir") + ":main", files_of(stem, "in"), "--backend", "interp")
            problem = problem or differs(got, flat(files_of(stem, "out")))
    TAP.case(f"{os.path.basename(stem)} written and read again", problem)


def writes_programs():
    with tempfile.TemporaryDirectory() as folder:
        names = {}
        for n in "qk":
            names[n] = os.path.join(folder, n + ".npy")
            np.save(names[n], np.random.default_rng(len(names)).standard_normal((2, 4, 3)).astype(np.float32))
        for name, (text, args) in PROGRAMS.items():
            source = os.path.join(folder, "x.anf")
            with open(source, "w") as f:
                f.write(text + "\n")
            path, problem = written(folder, source, "x.mindir")
            words = re.findall(r"\[.*?\]|\S+", args.format(**names))
            runs = [execute([ANFORA, "run", p, *words, "--backend", "interp"])
                    for p in (source, path)]
            if not problem and (runs[0].returncode or runs[0].stdout != runs[1].stdout):
                problem = f"{runs[0].stdout}{runs[0].stderr} is read back as {runs[1].stdout}{runs[1].stderr}"
            problem = problem or settles(folder, source)
            TAP.case(f"a program with {name}", problem)


def writes_beside():
    """Weights in a file of their own: the same model, of 64-byte aligned tensors, from inside, outside and back."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.mindir")
        r = execute([ANFORA, "import", os.path.join(FIXTURES, "lenet.mindir"), "-o", path, "--beside"])
        weights = os.path.join(folder, "x.weights")
        TAP.case("weights written beside", r.stderr or ("" if os.path.getsize(path) < 20000 < os.path.getsize(weights) else "they are in the model"))
        inputs, want = files_of(os.path.join(FIXTURES, "lenet"), "in"), flat(files_of(os.path.join(FIXTURES, "lenet"), "out"))
        for engine in ("interp", "llvm"):
            got, problem = run(path + ":main", inputs, "--backend", engine)
            TAP.case(f"weights beside, {engine}", problem or differs(got, want))
        again, problem = written(folder, path, "y.mindir")
        first, problem = written(folder, os.path.join(FIXTURES, "lenet.mindir"), "z.mindir") if not problem else ("", problem)
        TAP.case("weights beside and back inside", problem or ("" if open(again, "rb").read() == open(first, "rb").read() else "another file"))
        r = execute([ANFORA, "import", path, "-o", os.path.join(folder, "x.onnx"), "--beside"])
        TAP.case("--beside of another format", "" if r.returncode == 2 else r.stderr)
        os.remove(weights)
        r = execute([ANFORA, "check", path])
        TAP.case("weights beside that are gone", "" if "E0301" in r.stderr else r.stderr)


def no_form():
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "x.anf")
        with open(source, "w") as f:
            f.write("def main(k: key) { Uniform(k, shape=(2,)) }\n")
        path, problem = written(folder, source, "x.mindir")
        TAP.case("a key has no form there", "" if "E1167" in problem and not os.path.exists(path) else problem or "it was written")


def trains():
    """As a module of a program, by a loss, and as a step of its own."""
    with tempfile.TemporaryDirectory() as folder:
        source, data = os.path.join(folder, "x.anf"), os.path.join(folder, "d.npz")
        with open(source, "w") as f:
            f.write(f'import "{FIXTURES}/mlp.mindir" as model\n'
                    "def main(x) { model.net(model.params(), x) }\n"
                    "def bias(x) { grad(fn (p) { Sum(model.net(p, x)) })(model.params()).`fc2.bias` }\n")
        inputs = files_of(os.path.join(FIXTURES, "mlp"), "in")
        for engine in ("interp", "llvm"):
            got, problem = run(source + ":main", inputs, "--backend", engine, "--imports", FIXTURES)
            TAP.case(f"imported by a program {engine}", problem or differs(got, flat(files_of(os.path.join(FIXTURES, "mlp"), "out"))))
            got, problem = run(source + ":bias", inputs, "--backend", engine, "--imports", FIXTURES)
            TAP.case(f"its gradient {engine}", problem or differs(got, np.full(4, 5.0)))
        x = np.load(inputs[0])
        np.savez(data, x=np.tile(x, (8, 1)), y=np.tile(np.ones((5, 4), np.float32), (8, 1)))

        def train(*words):
            r = execute([ANFORA, "train", *words, "--data", data, "--epochs", "20"])
            return [float(x) for x in re.findall(r"loss (\S+)", r.stdout)], r.stderr
        losses, said = train(os.path.join(FIXTURES, "mlp.mindir"), "--loss", "mse", "--optimizer", "sgd", "--rate", "0.1")
        TAP.case("trained by a loss", "" if len(losses) == 20 and losses[-1] < losses[0] / 4 else f"{losses} {said}")
        for option, names in (("--optimizer", "sgd momentum nesterov rmsprop adam adamw"), ("--loss", "cross_entropy binary_cross_entropy mse mae")):
            for name in names.split():
                words = ["--loss", "mse", option, name] if option == "--optimizer" else [option, name]
                losses, said = train(os.path.join(FIXTURES, "mlp.mindir"), *words, "--rate", "0.01")
                TAP.case(f"trained with {option} {name}", "" if len(losses) == 20 and losses[-1] < losses[0] else f"{losses} {said}")
        losses, said = train(os.path.join(FIXTURES, "mlp.mindir"))
        TAP.case("without a loss it is no program", "" if "E0020" in said else said)
        step = os.path.join(FIXTURES, "train_step")
        np.savez(data, **{f"inputs{k}": np.load(p) for k, p in enumerate(files_of(step, "in"))})
        losses, said = train(step + ".mindir")
        first = float(np.load(step + ".out0.npy"))
        good = len(losses) == 20 and abs(losses[0] - first) < 1e-4 and losses[-1] < losses[0]
        TAP.case("a step of its own", "" if good else f"{losses} {first} {said}")


def main():
    models = sorted(glob.glob(os.path.join(FIXTURES, "*.mindir")))
    for i, path in enumerate(models):
        gives(path, "--backend", "interp")
        if i % EVERY == 0:
            gives(path, "--backend", "llvm")
    for path in models:
        if re.match("(train_)?step", os.path.basename(path)):
            steps(path[: -len(".mindir")], "--backend", "interp")
            steps(path[: -len(".mindir")], "--backend", "llvm")
    for path in models:
        goes_back(path)
    trains()
    writes_programs()
    writes_beside()
    no_form()
    by_content()
    no_reference()
    named_at_once()
    any_arity()
    damaged()
    beside()
    mapped()
    linear()
    mutated()
    TAP.done()


main()
