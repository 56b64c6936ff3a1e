#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run.py PYTHON NPBENCH [--filter WORD] [--floor FILE]: each NumPy kernel of NPBench at its size S, as it stands and under
anfora.jit, and the derivative of the sum of its results along a random direction against a difference. What is changed: an
array argument that a kernel changes is copied first and returned, and integers are static arguments. A line a kernel; with --floor status 1 if
fewer pass."""
import argparse
import ast
import glob
import importlib.util
import json
import os
import subprocess
import sys
import tempfile


def module_of(path):
    sys.path.insert(0, os.path.dirname(path))
    spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stored(kernel):
    """The arguments that a kernel changes in place."""
    targets = [t for n in ast.walk(kernel) if isinstance(n, (ast.Assign, ast.AugAssign)) for t in getattr(n, "targets", None) or [n.target]]
    names = {t.value.id for t in targets if isinstance(t, ast.Subscript) and isinstance(t.value, ast.Name)}
    return names | {t.target.id for t in ast.walk(kernel) if isinstance(t, ast.AugAssign) and isinstance(t.target, ast.Name)}


def changed(path, bench, args, several, folder):
    """The kernel's file with copies of the arguments that it changes, which it returns: the kernel, and its results and their sum as
    functions of the arrays alone."""
    import numpy as np
    with open(path, encoding="utf-8") as f:
        tree = ast.parse(f.read())
    kernel = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == bench["func_name"])
    names = [a.arg for a in kernel.args.args]
    arrays = [n for n, a in zip(names, args) if isinstance(a, np.ndarray)]
    outputs = [n for n in arrays if n in bench["output_args"] or n in stored(kernel)]
    kernel.body[:0] = [ast.parse(f"{name} = {name}.copy()").body[0] for name in outputs]
    gives = any(isinstance(n, ast.Return) and n.value for n in ast.walk(kernel))
    if outputs and not gives:
        kernel.body.append(ast.parse(f"return ({''.join(o + ', ' for o in outputs)})").body[0])
    call = f"{kernel.name}({', '.join(n if n in arrays else repr(a.item() if isinstance(a, np.generic) else a) for n, a in zip(names, args))})"
    parts = several if gives else len(outputs)
    sums = " + ".join(f"np.sum(np.real(r[{i}]))" for i in range(parts)) or "np.sum(np.real(r))"
    arrays = ", ".join(arrays)
    tree.body += ast.parse(f"def results({arrays}):\n    return {call}\ndef total({arrays}):\n    r = {call}\n    return {sums}").body
    path = os.path.join(folder, os.path.basename(path))
    with open(path, "w", encoding="utf-8") as f:
        f.write(ast.unparse(ast.fix_missing_locations(tree)) + "\n")
    module = module_of(path)
    return getattr(module, kernel.name), module, [names.index(o) for o in outputs], gives


def inputs(bench, folder):
    """The arguments by name, as NPBench makes them."""
    import numpy as np
    np.random.seed(42)
    values = dict(bench["parameters"]["S"])
    if bench.get("init"):
        init = bench["init"]
        f = getattr(module_of(os.path.join(folder, bench["module_name"] + ".py")), init["func_name"])
        made = f(*[values[a] for a in init["input_args"]])
        values.update(zip(init["output_args"], made if len(init["output_args"]) > 1 else [made]))
    return [values[a] for a in bench["input_args"]]


def flat(result):
    import numpy as np
    if isinstance(result, (tuple, list)):
        return [x for r in result for x in flat(r)]
    return [np.asarray(result)]


def slope(module, args):
    """The derivative along a direction, and the sum of the differences of the results (the difference of their sums loses what the
    sums round), extrapolated, of the step that suits best: factorisations and chaotic systems want small ones."""
    import anfora
    import numpy as np
    arrays = [a for a in args if isinstance(a, np.ndarray)]
    at = next(i for i, a in enumerate(arrays) if a.dtype == np.float64)
    direction = np.random.default_rng(0).standard_normal(arrays[at].shape)
    g = np.asarray(anfora.grad(module.total, wrt=at)(*arrays))
    slope, scale = float(np.sum(g * direction)), max(1.0, float(np.abs(arrays[at]).max()))

    def moved(s):
        return flat(module.results(*[a + s * direction if i == at else a for i, a in enumerate(arrays)]))

    def central(step):
        return sum(float(np.sum(np.real(a) - np.real(b))) for a, b in zip(moved(step), moved(-step), strict=True)) / (2 * step)

    def difference(step):
        try:
            return (4 * central(step / 2) - central(step)) / 3
        except np.linalg.LinAlgError:  # a matrix that far away has no factors
            return np.nan
    return slope, min((difference(scale * s) for s in (1e-6, 1e-8, 1e-9, 1e-10)), key=lambda d: abs(d - slope) if d == d else np.inf)


def measure(info, root):
    """One kernel, in a process of its own: prints 'value' and 'gradient' as far as they hold, else why not."""
    import anfora
    import numpy as np
    with open(info, encoding="utf-8") as f:
        bench = json.load(f)["benchmark"]
    folder = os.path.join(root, "npbench", "benchmarks", bench["relative_path"])
    source = os.path.join(folder, bench["module_name"] + "_numpy.py")
    args = inputs(bench, folder)
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    got = getattr(module_of(source), bench["func_name"])(*copies)
    with tempfile.TemporaryDirectory() as made:
        f, module, outputs, gives = changed(source, bench, args, len(got) if isinstance(got, tuple) else 0, made)
        want = flat(got) if gives else [copies[i] for i in outputs]
        static = tuple(i for i, a in enumerate(args) if isinstance(a, (int, np.integer)) and not isinstance(a, bool))
        out = flat(anfora.jit(f, static_argnums=static)(*args))
        for w, o in zip(want, out, strict=True):
            single = w.dtype in (np.float32, np.complex64)
            close = w.shape == o.shape and np.allclose(o, w, rtol=1e-5 if single else 1e-9, atol=1e-6 if single else 1e-10, equal_nan=True)
            # chaotic and single results, as NPBench compares them: by the norm of the difference
            if not close and (w.shape != o.shape or not (single or "norm_error" in bench) or np.linalg.norm(o - w) > 1e-5 * np.linalg.norm(w)):
                print("WRONG VALUE", w.dtype, o.dtype, w.shape, o.shape)
                return
        print("value")
        if not any(isinstance(a, np.ndarray) and a.dtype == np.float64 for a in args) or not any(np.issubdtype(w.dtype, np.inexact) for w in want):
            print("no gradient")
            return
        d, w = slope(module, args)
        print("gradient" if abs(d - w) <= 1e-4 * max(abs(w), abs(d), 1e-3) else f"gradient {d:.6g} and not {w:.6g}")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("python")
    p.add_argument("root")
    p.add_argument("--filter", default="")
    p.add_argument("--floor")
    p.add_argument("--one")
    o = p.parse_args()
    sys.path.insert(0, o.python)
    if o.one:
        measure(o.one, o.root)
        return
    values = gradients = 0
    infos = sorted(f for f in glob.glob(os.path.join(glob.escape(o.root), "bench_info", "*.json")) if o.filter in f)
    for info in infos:
        try:
            r = subprocess.run([sys.executable, __file__, o.python, o.root, "--one", info], capture_output=True, text=True, timeout=300, check=False)
            said = r.stdout.split("\n")
            why = (r.stderr.strip().split("\n") or [""])
            why = next((x for x in why if "Error" in x or "error" in x), "")
        except subprocess.TimeoutExpired:
            said, why = [], "no result in 300 s"
        values += "value" in said
        gradients += "gradient" in said
        print(f"{os.path.basename(info)[:-5]:24} {' '.join(x for x in said if x)} {why[:150]}", flush=True)
    print(f"{values} of {len(infos)} values, {gradients} gradients")
    floor = json.load(open(o.floor, encoding="utf-8")) if o.floor else {}
    sys.exit(not o.filter and (values < floor.get("values", 0) or gradients < floor.get("gradients", 0)))


if __name__ == "__main__":
    main()
