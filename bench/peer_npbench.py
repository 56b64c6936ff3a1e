#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""peer_npbench.py PACKAGE NPBENCH [KERNEL..] [--size S] [--jax PYTHON] [--numba PYTHON]: the kernels of NPBench under
anfora.jit and their gradients, with the changes that test/suites/npbench makes, beside NPBench's own programs for JAX and numba:
processor time in ms, the least of several calls, on one core, each in a process of its own; values and gradients that differ
from JAX's are listed. Gradients are of the sum of the real results by all float arrays. Copies of what numba changes are timed."""
import argparse
import ast
import glob
import json
import os
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "test", "suites", "npbench"))


def least(call, seconds=1.0):
    call()
    best, n, end = float("inf"), 0, time.perf_counter() + seconds
    while n < 3 or (time.perf_counter() < end and n < 300):
        t = time.process_time()
        call()
        best, n = min(best, time.process_time() - t), n + 1
    return best * 1e3


def of_anfora(run, bench, name, args, arrays, floats, package):
    import numpy as np
    sys.path.insert(0, package)
    import anfora
    got = getattr(run.module_of(name + "_numpy.py"), bench["func_name"])(*[a.copy() if i in arrays else a for i, a in enumerate(args)])
    with tempfile.TemporaryDirectory() as folder:
        module = run.changed(name + "_numpy.py", bench, args, len(got) if isinstance(got, tuple) else 0, folder)[1]
        value, slope = anfora.jit(module.results), anfora.jit(anfora.grad(module.total, wrt=tuple(floats)))
        at = [np.asarray(args[i]) for i in arrays]
        yield "value", lambda: value(*at)
        yield "gradient", lambda: slope(*at)


def of_jax(run, bench, name, args, arrays, floats, package):
    import jax
    import jax.numpy as jnp
    import numpy as np
    jax.config.update("jax_enable_x64", True)
    f = getattr(run.module_of(name + "_jax.py"), bench["func_name"])

    def results(*at):
        full = [x.item() if isinstance(x, np.generic) else x for x in args]
        for i, x in zip(arrays, at):
            full[i] = x
        return f(*full)

    def total(*at):
        return sum(jnp.sum(jnp.real(x)) for x in jax.tree_util.tree_leaves(results(*at)))
    value, slope = jax.jit(results), jax.jit(jax.grad(total, argnums=tuple(floats)))
    at = [jnp.asarray(args[i]) for i in arrays]
    yield "value", lambda: jax.block_until_ready(value(*at))
    yield "gradient", lambda: jax.block_until_ready(slope(*at))


def of_numba(run, bench, name, args, arrays, floats, package):
    path = name + "_numba_n.py"
    f = getattr(run.module_of(path), bench["func_name"])
    with open(path, encoding="utf-8") as source:
        kernel = next(n for n in ast.parse(source.read()).body if isinstance(n, ast.FunctionDef) and n.name == bench["func_name"])
    changed = run.stored(kernel) | set(bench["output_args"])
    copied = {i for i, a in enumerate(kernel.args.args) if a.arg in changed and i in arrays}
    yield "value", lambda: f(*[a.copy() if i in copied else a for i, a in enumerate(args)])


def one(who, info, size, root, out, package):
    """One kernel by one of them: prints the times, and saves the results."""
    import numpy as np
    import run
    with open(info, encoding="utf-8") as f:
        bench = json.load(f)["benchmark"]
    bench["parameters"]["S"] = bench["parameters"][size]
    folder = os.path.join(root, "npbench", "benchmarks", bench["relative_path"])
    args = run.inputs(bench, folder)
    arrays = [i for i, a in enumerate(args) if isinstance(a, np.ndarray)]
    floats = [k for k, i in enumerate(arrays) if args[i].dtype in (np.float64, np.float32)]
    calls = {"anfora": of_anfora, "jax": of_jax, "numba": of_numba}[who]
    times, results = {}, {}
    for kind, call in calls(run, bench, os.path.join(folder, bench["module_name"]), args, arrays, floats, package):
        if kind == "gradient" and not floats:
            continue
        try:
            if who != "numba":
                results.update({f"{kind} {i}": x for i, x in enumerate(run.flat(call()))})
            times[kind] = least(call)
        except Exception as e:  # what one of them does not take
            times[kind + " refused"] = str(e).strip().split("\n")[0][:120]
    np.savez(out, **results)
    print("times " + json.dumps(times))


def differences(folder):
    import numpy as np
    a, b = (np.load(os.path.join(folder, who + ".npz")) for who in ("anfora", "jax"))
    for k in sorted(set(a.files) & set(b.files)):
        norm = np.linalg.norm(b[k].ravel())
        if a[k].size != b[k].size or not np.linalg.norm(a[k].ravel() - b[k].ravel()) <= 1e-7 * max(norm, 1e-12):
            yield k


def main():
    p = argparse.ArgumentParser()
    p.add_argument("package")
    p.add_argument("root")
    p.add_argument("kernels", nargs="*")
    p.add_argument("--size", default="S")
    p.add_argument("--jax", default=sys.executable)
    p.add_argument("--numba", default=sys.executable)
    p.add_argument("--one", nargs=3)
    o = p.parse_args()
    if o.one:
        one(o.one[0], o.one[1], o.size, o.root, o.one[2], o.package)
        return
    pythons = {"anfora": sys.executable, "jax": o.jax, "numba": o.numba}
    print(f"{'kernel':26}" + "".join(f"{w:>11}" for w in ("anfora", "jax", "numba", "gradient", "jax")))
    for info in sorted(glob.glob(os.path.join(glob.escape(o.root), "bench_info", "*.json"))):
        kernel, times, notes = os.path.basename(info)[:-5], {}, []
        if o.kernels and kernel not in o.kernels:
            continue
        with tempfile.TemporaryDirectory() as folder:
            for who, python in pythons.items():
                command = ["taskset", "-c", "0", python, __file__, o.package, o.root, "--size", o.size, "--one", who, info, os.path.join(folder, who + ".npz")]
                try:
                    r = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
                except subprocess.TimeoutExpired:
                    notes.append(f"{who}: no result in 200 s")
                    continue
                said = next((x[6:] for x in r.stdout.split("\n") if x.startswith("times ")), None)
                times[who] = json.loads(said) if said else {}
                notes += [f"{who} {k}: {v}" for k, v in times[who].items() if isinstance(v, str)] + ([] if said else [f"{who}: status {r.returncode}"])
            if times.get("anfora") and times.get("jax"):
                notes += [f"differs: {k}" for k in differences(folder)]
        shown = [times.get(w, {}).get(k) for w, k in (("anfora", "value"), ("jax", "value"), ("numba", "value"), ("anfora", "gradient"), ("jax", "gradient"))]
        print(f"{kernel:26}" + "".join(f"{x:11.3f}" if x is not None else f"{'-':>11}" for x in shown), "; ".join(notes)[:200], flush=True)


if __name__ == "__main__":
    main()
