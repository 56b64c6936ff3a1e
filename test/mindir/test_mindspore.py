#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Anfora writes as .mindir runs in MindSpore 2.10: programs with closures, recursion, loops and gradients give what the interpreter
gives, models of MindSpore what they gave before they were read and written.
test_mindspore.py ANFORA; ANFORA_MINDSPORE names a Python that has MindSpore."""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from command import execute  # noqa: E402
from tap import ROOT, Tap  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
FIXTURES = os.path.join(ROOT, "test", "fixtures", "mindir")
ANFORA = os.path.abspath(sys.argv[1])
TAP = Tap()
X = np.array([[3, 1, 2, 5], [5, 9, 7, 0]], np.float32)

# MindSpore never ends fibonacci of 4 or more, nor the gradient of a loop that it exported itself.
PROGRAMS = {
    "test_f": ("examples/test_f.anf:test_f", [np.float64(3), np.float64(4)]),
    "hof": ("examples/hof.anf:hof", [np.float32(2)]),
    "fibonacci": ("examples/fibonacci.anf:fibonacci", [np.int64(3)]),
    "closure": ("examples/closure.anf:ms_closure", []),
    "loop": ("def main(x: f32[2], n: i64) { y = x; i = 0; while i < n { y = y * 0.5 + Tanh(x); i = i + 1 }; y }", [np.array([1, 2], np.float32), np.int64(4)]),
    "power": ("def main(x: f64, n: i64) { if n == 0 { 1.0 } else { x * main(x, n - 1) } }", [np.float64(1.5), np.int64(3)]),
    "chosen": ("def main(x: f32, c: bool) { g = if c { fn (y) { y * x } } else { fn (y) { y - x } }; g(10.0) }", [np.float32(4), np.bool_(True)]),
    "gradient": ("def f(x) { Sum(Sin(x) * x) }\ndef main(x: f32[2, 4]) { grad(f)(x) }", [X]),
    "sorted": ("def main(x: f32[2, 4]) { (TopK(x, k=2), TopK(x, k=1, axis=0), Sort(x), Sort(x, axis=0, descending=true), ArgSort(x), ArgMax(x, axis=1)) }", [X]),
    "written": ("def main(x: f32[2, 4], k: i64[2, 2]) { (WriteAlongAxis(x, k, x[:, :2], axis=1), WriteAlongAxis(x, k, x[:, 1:3], axis=1, mode=\"add\"),\n"
                "  ScatterNd(x, ExpandDims(k[:, 0], axis=1), x * 2), ScatterNd(x, ExpandDims(k[:, 0], axis=1), x, mode=\"add\")) }",
                [X, np.array([[1, 0], [0, 3]])]),
    "cumulated": ("def main(x: f32[2, 4]) { (CumSum(x, axis=1), CumSum(x, axis=0, reverse=true), CumSum(x, axis=1, exclusive=true), CumProd(x, axis=1),\n"
                  "  Flip(x, axis=1), Tile(x, reps=(1, 2)), Any(x > 8, axis=1), All(x > 0, axis=1)) }", [X]),
    "slopes": ("def main(x: f32[2, 4], a: f32[4]) { (Prelu(x - 3, a), Prelu(Reshape(x, (1, 2, 4)) - 3, a)) }", [X, np.array([0.1, 0.2, 0.3, 0.4], np.float32)]),
}
MODELS = "mlp mlp_grad mlp_loss lenet if_grad ifnet whilenet recpow bf16 block multi".split()


def python():
    """A Python that has MindSpore, or None."""
    for p in (os.environ.get("ANFORA_MINDSPORE"), os.path.join(ROOT, "build", "suites", "mindspore", "bin", "python")):
        if p and os.path.exists(p) and not subprocess.run([p, "-c", "import mindspore"], capture_output=True, check=False).returncode:
            return p
    return None


def call(*words):
    r = execute([ANFORA, *words])
    return r.stdout, r.stderr if r.returncode else ""


def numbers(v):
    if isinstance(v, dict):
        v = list(v.values())
    return [y for x in v for y in numbers(x)] if isinstance(v, list) else [float(v)]


def program(folder, name, text, inputs):
    """Writes NAME.mindir and its inputs; what the interpreter gives, or what went wrong."""
    source = os.path.join(ROOT, text)
    if not text.startswith("examples/"):
        source = os.path.join(folder, name + ".anf")
        with open(source, "w", encoding="utf-8") as f:
            f.write(text + "\n")
        source += ":main"
    files = []
    for k, x in enumerate(inputs):
        files.append(os.path.join(folder, f"{name}.in{k}.npy"))
        np.save(files[-1], x)
    problem = call("import", source, "-o", os.path.join(folder, name + ".mindir"))[1]
    out, err = call("run", source, *("@" + p for p in files), "--backend", "interp", "--json")
    return np.array(numbers(json.loads(out)["result"])) if not err else None, problem or err


def saved(stem, what):
    return [np.load(p) for p in sorted(glob.glob(f"{stem}.{what}[0-9]*.npy"), key=lambda p: int(re.search(r"(\d+)\.npy$", p).group(1)))]


def flat(arrays):
    return np.concatenate([np.asarray(a).astype(float).ravel() for a in arrays] or [np.zeros(0)])


def model(folder, name, *options, to=None):
    """A model of MindSpore read and written."""
    stem = os.path.join(FIXTURES, name)
    for k, x in enumerate(saved(stem, "in")):
        np.save(os.path.join(folder, f"{to or name}.in{k}.npy"), x)
    return flat(saved(stem, "out")), call("import", stem + ".mindir", "-o", os.path.join(folder, f"{to or name}.mindir"), *options)[1]


def shown(runs, folder, names):
    """What netron's page reads of the files, and of MindSpore's own: graphs, nodes and weights."""
    r = subprocess.run([runs, "-c", "import netron; print(netron.__path__[0])"], capture_output=True, text=True, check=False)
    node = shutil.which("node")
    if r.returncode or not node:
        TAP.skip("netron shows the written files", "there is no netron" if r.returncode else "there is no node, which runs netron's page")
        return
    files = [os.path.join(folder, name + ".mindir") for name in names]
    own = [os.path.join(FIXTURES, name + ".mindir") for name in ("mlp", "block")]
    r = subprocess.run([node, os.path.join(HERE, "show_netron.mjs"), r.stdout.strip(), *files, *own], capture_output=True, text=True, check=False)
    said = dict(line.split(".mindir: ", 1) for line in r.stdout.splitlines() if ".mindir: " in line)
    for path in files:
        what = said.get(path[:-7], r.stderr[-500:])
        TAP.case(f"netron shows {os.path.basename(path)}", "" if what.startswith("mindir, MindIR v2") else what)
    for path in own:
        name = os.path.basename(path)
        weights = [re.search(r"(\d+) weights", said.get(p[:-7], "") + ", - weights") for p in (path, os.path.join(folder, name))]
        same = all(weights) and weights[0].group(1) == weights[1].group(1) != "0"
        TAP.case(f"netron finds the weights of {name}", "" if same else str(said))


def main():
    runs = python()
    if not runs:
        TAP.skip("exports run in MindSpore", "there is no MindSpore: ./dev suites mindspore installs it, or ANFORA_MINDSPORE names a Python that has it")
        TAP.done()
    with tempfile.TemporaryDirectory() as folder:
        want = {name: program(folder, name, *p) for name, p in PROGRAMS.items()}
        want.update({name: model(folder, name) for name in MODELS})
        want["lenet_beside"] = model(folder, "lenet", "--beside", to="lenet_beside")
        r = subprocess.run([runs, os.path.join(HERE, "run_mindspore.py"), folder, *want], capture_output=True, text=True, check=False, timeout=600)
        said = dict(line.split(": ", 1) for line in r.stdout.splitlines() if ": " in line)
        for name, (numbers_, problem) in want.items():
            problem = problem or (said.get(name, r.stderr[-500:] or "MindSpore ended") if said.get(name) != "ok" else "")
            if not problem:
                got = flat(saved(os.path.join(folder, name), "got"))
                if got.shape != numbers_.shape or not np.allclose(got, numbers_, rtol=1e-5, atol=1e-5):
                    problem = f"{got} for {numbers_}"
            TAP.case(f"{name} runs in MindSpore", problem)
        shown(runs, folder, list(want))
    TAP.done()


main()
