#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models that MindSpore 2.10 exported give what it gave, in the interpreter and compiled, and written and read again;
what is damaged is refused.
test_models.py ANFORA"""
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import ROOT, Tap  # noqa: E402
from wire import field  # noqa: E402

FIXTURES = os.path.join(ROOT, "test", "fixtures", "mindir")
ANFORA = os.path.abspath(sys.argv[1])
TAP = Tap()


def numbers(v):
    """All numbers of a result, in order."""
    if isinstance(v, dict):
        return [y for x in v.values() for y in numbers(x)]
    if isinstance(v, list):
        return [y for x in v for y in numbers(x)]
    return [float(v)]


def flat(files):
    return np.concatenate([np.load(f).astype(float).ravel() for f in files])


def files_of(stem, what):
    found = glob.glob(f"{stem}.{what}[0-9]*.npy")
    return sorted(found, key=lambda p: int(re.search(r"(\d+)\.npy$", p).group(1)))


def run(target, inputs, *options):
    """The numbers of the result, or what was said instead."""
    r = subprocess.run([ANFORA, "run", target, *("@" + i for i in inputs), "--json", *options],
                       capture_output=True, text=True, check=False)
    if r.returncode:
        return None, r.stdout + r.stderr
    out = json.loads(r.stdout)
    return np.array(numbers(out.get("result", out))), ""


def differs(got, want, bound=1e-5):
    if got.shape != want.shape:
        return f"{got.size} numbers instead of {want.size}"
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
        r = subprocess.run([ANFORA, "run", stem + ".mindir:params", "--json"], capture_output=True, text=True, check=False)
        names = list(json.loads(r.stdout)["result"])
        if os.path.exists(stem + ".after.npz"):
            with np.load(stem + ".after.npz") as after:
                want = np.concatenate([after[n].astype(float).ravel() for n in names] + [flat(files_of(stem, "out"))])
        else:
            want = flat([f"{stem}.after.{n}.npy" for n in names] + files_of(stem, "out"))
        problem = differs(got, want)
    TAP.case(f"{os.path.basename(stem)} steps {' '.join(options)}", problem)


# ---- files made here: protobuf, field by field ----

def tensor(name, dims=(2,), kind=1, data=None, more=b""):
    raw = b"\0" * (4 * int(np.prod(dims))) if data is None else data
    return b"".join(field(1, d) for d in dims) + field(2, kind) + field(7, name) + field(9, raw) + more


def node(name, op, *inputs, stated=b""):
    return field(1, b"".join(field(1, i) for i in inputs) + field(2, name) + field(4, "REF::" + op) + stated)


def model(nodes, prims, params=(), out="y"):
    info = field(1, "x") + field(2, field(1, 2) + field(2, 1))
    graph = b"".join(nodes) + field(2, "g") + b"".join(field(3, p) for p in params) + field(5, info) + field(6, field(1, out))
    table = b"".join(field(12, field(1, p) + field(2, p.split(":")[0]) + more) for p, more in prims.items())
    return field(1, "1.1") + field(7, graph) + table + field(10, 1) + field(13, 3)


def refused(name, data, code):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.mindir")
        with open(path, "wb") as f:
            f.write(data)
        r = subprocess.run([ANFORA, "check", path], capture_output=True, text=True, check=False)
    good = r.returncode in (1, 2, 3) and f"error {code}" in r.stderr
    TAP.case(f"refused: {name}", "" if good else f"status {r.returncode}: {r.stderr}")


def damaged():
    with open(os.path.join(FIXTURES, "mlp.mindir"), "rb") as f:
        whole = f.read()
    refused("nothing", b"", "E1160")
    refused("no protobuf", b"\xff" * 64, "E1160")
    for part in (1, 2, 3, 5, 7):
        refused(f"the first {part} eighths", whole[: len(whole) * part // 8], "E1160")
    string_list = field(3, field(1, "format") + field(5, "NHWC") + field(16, 8))
    refused("a primitive that is not known", model([node("y", "Odd:1", "x")], {"Odd:1": b""}), "E1166")
    refused("an input that is not there", model([node("y", "Abs:1", "z")], {"Abs:1": b""}), "E1165")
    refused("a shape that the model computes", model([node("y", "Reshape:1", "x", "x")], {"Reshape:1": b""}), "E1150")
    refused("channels last", model([node("y", "Conv2D:1", "x", "x")], {"Conv2D:1": string_list}), "E1151")
    refused("too many inputs", model([node("y", "Abs:1", "x", "x", "x")], {"Abs:1": b""}), "E1164")
    odd = field(3, field(1, "curve") + field(3, 1) + field(16, 7))
    refused("an attribute that is not known", model([node("y", "Abs:1", "x")], {"Abs:1": odd}), "E1169")
    triple = field(5, field(1, "shape") + field(6, field(1, 3) + field(2, 1)) + field(16, 19))
    refused("a type that is not the operator's", model([node("y", "Abs:1", "x", stated=triple)], {"Abs:1": b""}), "E1168")
    monad = field(1, field(2, "u") + field(4, "Constant") + field(5, field(1, "value") + field(16, 23)))
    lost = [monad, node("a", "Assign:1", "g:w", "x", "u"), node("y", "Abs:1", "x")]
    refused("an assignment that nothing orders", model(lost, {"Assign:1": b"", "Abs:1": b""}, [tensor("g:w")]), "E1151")
    one = field(1, field(2, "c") + field(4, "Constant") + field(5, field(1, "value") + field(3, 1) + field(16, 7)))
    refused("a call of a constant", model([one, node("y", "c", "x")], {}), "E1165")
    refused("an assignment without inputs", model([node("y", "Assign:1")], {"Assign:1": b""}), "E1165")
    refused("an assignment outside of the state", model([node("y", "Assign:1", "x", "x", "x")], {"Assign:1": b""}), "E1151")
    pairs = [node(f"t{i + 1}", "MakeTuple:1", f"t{i}", f"t{i}") for i in range(100)]
    refused("tuples of tuples", model([node("t0", "Abs:2", "x"), *pairs], {"MakeTuple:1": b"", "Abs:2": b""}, out="t100"), "E1151")
    plain = [node("y", "Abs:1", "x")], {"Abs:1": b""}
    refused("an element type", model(*plain, [tensor("g:w", kind=77)]), "E1161")
    refused("half of a tensor", model(*plain, [tensor("g:w", data=b"\0" * 4)]), "E1162")
    refused("a tensor of 2^40 elements", model(*plain, [tensor("g:w", dims=(1 << 40,), data=b"\0")]), "E1162")
    elsewhere = field(12, field(1, "../w") + field(3, 8))
    refused("weights outside of the folder", model(*plain, [tensor("g:w", data=b"", more=elsewhere)]), "E1163")


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
            return subprocess.run([ANFORA, "run", path + ":main", "[1, 2]"], capture_output=True, text=True, check=False)
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


def mutated(rounds=300):
    """Files with bytes changed end with a status of the command, never by a signal."""
    random = np.random.default_rng(0)
    bad = ""
    sources = [open(os.path.join(FIXTURES, n + ".mindir"), "rb").read() for n in ("fib", "multi", "train_step", "while_grad")]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.mindir")
        for i in range(rounds):
            data = bytearray(sources[i % len(sources)])
            for at in random.integers(0, len(data), 1 + i % 7):
                data[at] = random.integers(0, 256)
            with open(path, "wb") as f:
                f.write(data)
            r = subprocess.run([ANFORA, "check", path], capture_output=True, check=False, timeout=60)
            if r.returncode not in (0, 1, 2, 3, 4):
                bad = f"round {i}: status {r.returncode}: {r.stderr[-300:]!r}"
    TAP.case(f"{rounds} files with bytes changed", bad)


# ---- the writer ----

PROGRAMS = {
    "loop": ("def main(x: f32[2], n: i64) { s = 0.0; i = 0; while i < n { s = s + Sum(Tanh(x * i)); i = i + 1 }; s }", "[1, 2] 4"),
    "gradient of a loop": ("def f(x: f64, n: i64) { y = x; for i in 0..n { y = Sin(y) * x }; y }\n"
                           "def main(x: f64, n: i64) { grad(f)(x, n) }", "0.7 5"),
    "gradient of a recursion": ("def p(x: f64, n: i64) { if n == 0 { 1.0 } else { x * p(x, n - 1) } }\n"
                                "def main(x: f64, n: i64) { value_and_grad(p)(x, n) }", "1.5 4"),
    "closures": ("def add(a) { fn (b) { a + b } }\ndef twice(f) { fn (x) { f(f(x)) } }\n"
                 "def main(x: i32, c: bool) { g = if c { twice(add(x)) } else { add(x * 2) }; g(10) }", "4 true"),
    "effects": ("def show(i) { print(\"turn\", i); i * i }\n"
                "def main(n: i64) { s = 0; for i in 0..n { s = s + show(i) }; assert(s == 5, \"0 + 1 + 4\"); print(\"end\", s); s }", "3"),
    "records": ("def main(x: f32) { r = {a = x, b = (1, {c = 2.5})}; (r, r.b[1].c * x) }", "2"),
    "a record as a constant": ("def main() { {a = 1, b = (2.5, \"text\", None, true)} }", ""),
    "element types": ("def main(x: i8, y: u16, z: bf16[2], c: c64) { (x + 1, y * 2, Cast(z, dtype=f64), c * c, 0.1, i8(7)) }", "3 4 [1.5, 2] 1"),
    "an index that the program computes": ("def main(x: f32[5], i: i64) { (x[i], x[i:i + 2], Take(x, i)) }", "[1, 2, 3, 4, 5] 2"),
    "attention": ("def main(q: f32[2, 4, 3], k: f32[2, 4, 3]) { Softmax(q @ SwapAxes(k, axis1=-1, axis2=-2)) @ k }",
                  "@{q} @{k}"),
}


def written(folder, source, name):
    """What `import` writes, its text of errors."""
    path = os.path.join(folder, name)
    r = subprocess.run([ANFORA, "import", source, "-o", path], capture_output=True, text=True, check=False)
    return path, r.stderr if r.returncode else ""


def goes_back(path):
    """Written, read, written and read: MindSpore's values, and from then on the same bytes."""
    stem = path[: -len(".mindir")]
    with tempfile.TemporaryDirectory() as folder:
        problem, source = "", path
        for k in (1, 2, 3):
            if not problem:
                source, problem = written(folder, source, f"{k}.mindir")
        if not problem:
            got, problem = run(os.path.join(folder, "2.mindir") + ":main", files_of(stem, "in"), "--backend", "interp")
            problem = problem or differs(got, flat(files_of(stem, "out")))
        if not problem:
            second, third = (open(os.path.join(folder, f"{k}.mindir"), "rb").read() for k in (2, 3))
            problem = "" if second == third else "the third file differs from the second"
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
            runs = [subprocess.run([ANFORA, "run", p, *words, "--backend", "interp"], capture_output=True, text=True, check=False)
                    for p in (source, path)]
            if not problem and (runs[0].returncode or runs[0].stdout != runs[1].stdout):
                problem = f"{runs[0].stdout}{runs[0].stderr} is read back as {runs[1].stdout}{runs[1].stderr}"
            TAP.case(f"a program with {name}", problem)


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
            got, problem = run(source + ":main", inputs, "--backend", engine)
            TAP.case(f"imported by a program {engine}", problem or differs(got, flat(files_of(os.path.join(FIXTURES, "mlp"), "out"))))
            got, problem = run(source + ":bias", inputs, "--backend", engine)
            TAP.case(f"its gradient {engine}", problem or differs(got, np.full(4, 5.0)))
        x = np.load(inputs[0])
        np.savez(data, x=np.tile(x, (8, 1)), y=np.tile(np.ones((5, 4), np.float32), (8, 1)))

        def train(*words):
            r = subprocess.run([ANFORA, "train", *words, "--data", data, "--epochs", "20"], capture_output=True, text=True, check=False)
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
    for path in models:
        gives(path, "--backend", "interp")
        gives(path, "--backend", "llvm")
    for name in ("train_step", "step_rprop", "step_norm"):
        steps(os.path.join(FIXTURES, name), "--backend", "interp")
        steps(os.path.join(FIXTURES, name), "--backend", "llvm")
    for path in models:
        goes_back(path)
    trains()
    writes_programs()
    no_form()
    damaged()
    beside()
    mutated()
    TAP.done()


main()
