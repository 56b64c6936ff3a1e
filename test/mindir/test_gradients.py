#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gradients of all models of test/fixtures/mindir against finite differences. Each model is written as text and its floats become f64, so that
a difference is exact to 1e-7. All floats of inputs and parameters move along one direction, x + t cos(3 x + 1); the program gives the sum of
squares of all results as f(t), and its derivative at 0, through the whole model, is held against (f(h) - f(-h)) / 2h. The model as it is, in
f32, must give the same derivative as far as f32 can.
test_gradients.py ANFORA [EVERY | NAME..]: one of EVERY models, or those of these names"""
import glob
import json
import os
import re
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from command import execute  # noqa: E402
from tap import ROOT, Tap  # noqa: E402

FIXTURES = os.path.join(ROOT, "test", "fixtures", "mindir")
ANFORA = os.path.abspath(sys.argv[1])
TAP = Tap()
WITHOUT = {"fib", "at_segment_ints", "ints_fmod", "search_rows",  # no floats
           "edge_bce", "odd_erfinv", "step_fun_amsgrad"}  # at the edge of a domain: logarithms and roots of 0, erfinv of 1
# parameters that are compared with a number, just where they are: SGD has a first step and may have momentum, Rprop compares signs
FLAGS = re.compile(r"^stat\.|\.prev\.|^momentum$")
STEPS = (1e-5, 1e-6, 1e-7)
OVERFLOWS = {"step_scaled_overflow"}  # as it is to, in f32


def call(*words):
    r = execute([ANFORA, *words])
    if r.returncode:
        raise RuntimeError((r.stdout + r.stderr)[:600])
    return r.stdout


def items(text):
    """The parts of "(a, b)" or "{n = a, m = b}"."""
    out, depth, at = [], 0, 1
    for k, c in enumerate(text):
        depth += (c in "([{") - (c in ")]}")
        if (c == "," and depth == 1) or (k == len(text) - 1 and depth == 0):
            out.append(text[at:k].strip())
            at = k + 1
    return [x for x in out if x]


def squares(text, name):
    """The sum of squares of all floats of a result that prints so."""
    if text[0] == "(":
        return [y for k, x in enumerate(items(text)) for y in squares(x, f"{name}[{k}]")]
    if text[0] == "{":
        pairs = [x.split(" = ", 1) for x in items(text)]
        return [y for n, x in pairs for y in squares(x, f"{name}.`{n.strip('`')}`")]
    return [f"Sum({name} * {name})"] if re.search(r"\.\d|e-|inf|nan", text) else []


def moved(x, t):
    return f"{x} + {t} * Cos({x} * 3 + 1)"


def program(module, stem, real):
    """f(t) of the model in `module`, whose floats are `real`; its derivative g(t); what f is at 0 and near."""
    params = json.loads(call("run", module + ":params", "--json"))["result"] if "\ndef params" in open(module, encoding="utf-8").read() else {}
    lines, args = [], []
    moves = {n: re.search(r"\.\d|e-", json.dumps(v)) and not FLAGS.search(n) for n, v in params.items()}
    fields = [f"`{n}` = " + (moved(f"p.`{n}`", "t") if moves[n] else f"p.`{n}`") for n in params]
    if params:
        lines.append("p = m.params()")
        lines.append(f"q = {{{', '.join(fields)}}}")
        args.append("q")
    paths = sorted(glob.glob(stem + ".in[0-9]*.npy"), key=lambda p: int(re.search(r"(\d+)\.npy$", p).group(1)))
    types = re.search(r"^def net\((.*)\)", open(module, encoding="utf-8").read(), re.M).group(1)
    types = [t for t in re.findall(r": ((?:f|bf|i|u)\d+|bool)(?:\[|,|$)", re.sub(r"\{.*?\}", "record", types))]
    for k, path in enumerate(paths):
        x = np.load(path)
        text = f"{types[k]}{list(x.shape) if x.ndim else ''}({str(x.tolist()).lower()})"
        lines.append(f"x{k} = {text}")
        args.append(moved(f"x{k}", "t") if types[k] == real else f"x{k}")
    head = f'import "{os.path.basename(module)}" as m\n'
    body = "\n  ".join([*lines, f"r = m.net({', '.join(args)})"])
    shape = os.path.join(os.path.dirname(module), "shape.anf")
    with open(shape, "w", encoding="utf-8") as f:
        f.write(f"{head}def shape(t: {real}) {{\n  {body}\n  r\n}}\n")
    found = squares(call("run", shape + ":shape", "0", "--backend", "interp").strip(), "r")
    return f"{head}def f(t: {real}) {{\n  {body}\n  {' + '.join(found)}\n}}\ndef g(t: {real}) {{ grad(f)(t) }}\n" \
        f"def near() {{ ({', '.join(f'f({real}({t!r}))' for t in (0.0, *(s * h for h in STEPS for s in (1, -1))))}) }}\n"


def one(name, folder):
    stem = os.path.join(FIXTURES, name)
    texts = {}
    for real in ("f32", "f64"):
        module, source = os.path.join(folder, f"{real}.ir"), os.path.join(folder, f"{real}.anf")
        if real == "f32":
            call("import", stem + ".mindir", "-o", module)
            with open(module, encoding="utf-8") as f:
                text = f.read()
        else:
            with open(module, "w", encoding="utf-8") as f:
                f.write(re.sub(r"\b(bf16|f16|f32)\b", "f64", text))
        with open(source, "w", encoding="utf-8") as f:
            f.write(program(module, stem, real))
        texts[real] = source

    def at(real, what, *args):
        return json.loads(call("run", f"{texts[real]}:{what}", *args, "--json"))["result"]
    # a step may cross a kink, as of one of many maxima: the smaller ones do so more rarely, and round more
    near = [float(x) for x in at("f64", "near", "--backend", "interp")]
    differences = [(right - left) / (2 * h) for h, right, left in zip(STEPS, near[1::2], near[2::2])]
    size = 1 + abs(near[0])
    rough = 1e-2 if "f16" in text else 1e-4
    for real, engine, bound in (("f64", "interp", 1e-7), ("f64", "llvm", 1e-7), ("f32", "interp", rough), ("f32", "llvm", rough)):
        if real == "f32" and name in OVERFLOWS:
            continue
        got = float(at(real, "g", "0.0", "--backend", engine))
        want = min(differences, key=lambda d: abs(d - got))
        far = abs(got - want) / (size + abs(want))
        TAP.case(f"{name} {real} {engine}", "" if far <= bound else f"the derivative is {got!r}, the difference {want!r}: {far:g}")


def main():
    names, every = sys.argv[2:], 1
    if len(names) == 1 and names[0].isdigit():
        names, every = [], int(names[0])
    names = names or sorted(os.path.basename(p)[:-7] for p in glob.glob(os.path.join(FIXTURES, "*.mindir")))[::every]
    for name in names:
        if name in WITHOUT:
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                one(name, folder)
            except RuntimeError as e:
                TAP.case(name, str(e))
    TAP.done()


main()
