#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make.py FOLDER [CASE...]: the cases of SOURCES, exported by MindSpore with inputs and outputs: NAME.mindir, NAME.inK.npy, NAME.outK.npy;
of a training step also NAME.after.npz, its parameters after it, and of zoo_ networks NAME.grad.npz. What MindSpore itself cannot run or export is named in refused.json."""
import ast
import importlib.util
import json
import os
import sys

os.environ.setdefault("GLOG_v", "4")
import mindspore as ms  # noqa: E402
import numpy as np  # noqa: E402
from mindspore import ops  # noqa: E402


SOURCES = ("cases.py", "networks.py", "edges.py", "programs.py", "zoo.py")
OWN = tuple(f"from {name[:-3]} import *" for name in SOURCES)


def expanded(text):
    """Lines after `# each: WORDS`, once a word."""
    out, words = [], []
    for line in text.split("\n"):
        if line.startswith("# each: "):
            words = line[8:].split()
        elif words and line.startswith("# and: "):
            words += line[7:].split()
        elif words:
            out += [line.replace("NAME", w) for w in words]
            words = []
        else:
            out.append(line)
    return "\n".join(out)


class Named(ast.NodeTransformer):
    """Lambdas as functions, written before the statement that they are in; inner ones inside of the outer."""

    def __init__(self):
        self.count, self.made = 0, []

    def visit_Lambda(self, node):
        self.count += 1
        name = f"function_{self.count}"
        outer, self.made = self.made, []
        body = self.visit(node.body)
        inner, self.made = self.made, outer
        self.made.append(ast.FunctionDef(name=name, args=node.args, body=[*inner, ast.Return(body)], decorator_list=[]))
        return ast.Name(name, ast.Load())


def module_of(folder):
    here = os.path.dirname(os.path.abspath(__file__))
    text = ""
    for name in SOURCES:  # one module, in which each goes on with the names and random numbers of those before
        with open(os.path.join(here, name), encoding="utf-8") as f:
            text += "".join(line for line in f if not line.startswith(OWN)) + "\n"
    tree = ast.parse(expanded(text))
    body = []
    for statement in tree.body:
        named = Named()
        named.count = 1000 * len(body)
        statement = named.visit(statement)
        body += [*named.made, statement]
    tree.body = body
    path = os.path.join(folder, "written_cases.py")
    with open(path, "w", encoding="utf-8") as f:
        f.write(ast.unparse(ast.fix_missing_locations(tree)))
    spec = importlib.util.spec_from_file_location("written_cases", path)
    made = importlib.util.module_from_spec(spec)
    sys.modules["written_cases"] = made
    spec.loader.exec_module(made)
    return made


def flat(x):
    return [y for v in x for y in flat(v)] if isinstance(x, (list, tuple)) else [x]


def write(folder, name, cell, inputs):
    stem = os.path.join(folder, name)
    for k, x in enumerate(inputs):
        np.save(f"{stem}.in{k}.npy", x.asnumpy())
    ms.export(cell, *inputs, file_name=stem, file_format="MINDIR")
    for k, y in enumerate(flat(cell(*inputs))):
        np.save(f"{stem}.out{k}.npy", y.asnumpy() if isinstance(y, ms.Tensor) else np.asarray(y))
    if name.startswith("step_"):
        np.savez(f"{stem}.after.npz", **{p.name: p.asnumpy() for p in cell.get_parameters()})


def write_gradients(folder, name, cell, inputs):
    """Of the sum of the result's elements, each times the cosine of its place, by the parameters that training changes."""
    params = cell.trainable_params()

    def weighted(*xs):
        y = cell(*xs)
        return (y * ops.cos(ops.arange(0, y.size).astype(ms.float32)).reshape(y.shape)).sum()

    _, gradients = ms.value_and_grad(weighted, None, params)(*inputs)
    np.savez(os.path.join(folder, name + ".grad.npz"), **{p.name: g.asnumpy() for p, g in zip(params, gradients)})


def main():
    folder, only = sys.argv[1], sys.argv[2:]
    os.makedirs(folder, exist_ok=True)
    cases, refused = module_of(folder).CASES, {}
    for name, (cell, inputs) in cases.items():
        if only and name not in only:
            continue
        try:
            write(folder, name, cell, inputs)
            if name.startswith("zoo_"):
                write_gradients(folder, name, cell, inputs)
        except Exception as e:  # MindSpore's own limits
            refused[name] = " ".join(str(e).split())[:160]
            if os.path.exists(os.path.join(folder, name + ".mindir")):
                os.remove(os.path.join(folder, name + ".mindir"))
    with open(os.path.join(folder, "refused.json"), "w", encoding="utf-8") as f:
        json.dump(refused, f, indent=1)
    print(f"{len(cases) - len(refused)} cases, {len(refused)} that MindSpore does not run")


if __name__ == "__main__":
    ms.set_context(mode=ms.GRAPH_MODE)
    main()
