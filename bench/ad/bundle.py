#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The sparse Jacobian of bundle adjustment (tools/gradbench/ba.anf) beside bundle.c and CasADi at GradBench's sizes, f64, one thread,
the least CPU time of several calls in ms. Ours and C write rows, columns and values to memory that is there; CasADi, whose C is
compiled as bundle.c is, writes values alone, for cameras and points that are gathered already. Values that differ end in status 1.
bundle.py BUILD: BUILD is a folder of ./dev build; $CC compiles the C; CasADi, a package of pip, may be absent."""
import ctypes
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

try:
    import casadi
except ImportError:
    casadi = None
HERE, BUILD = pathlib.Path(__file__).resolve().parent, pathlib.Path(sys.argv[1]).resolve()
COMPILE = [os.environ.get("CC", "cc"), "-O3", "-march=native", "-shared", "-fPIC"]


def milliseconds(call):
    times = []
    for _ in range(25):
        before = time.process_time()
        call()
        times.append(time.process_time() - before)
    return 1e3 * min(times)


def ours(folder, n, m, p):
    """Compiled ahead: jacobian(cams, points, weights, camera, point, feats, rows, cols, vals)"""
    sizes = {"n, 11": f"{n}, 11", "m, 3": f"{m}, 3", "p, 2": f"{p}, 2", "[p]": f"[{p}]"}
    text = (HERE.parents[1] / "tools/gradbench/ba.anf").read_text()
    head = next(line for line in text.splitlines() if line.startswith("def jacobian("))
    sized = head
    for dims, numbers in sizes.items():
        sized = sized.replace(dims, numbers)
    file, out = f"{folder}/ba.anf", f"{folder}/ba"
    pathlib.Path(file).write_text(text.replace(head, sized))
    subprocess.run([BUILD / "cli/anfora", "build", f"{file}:jacobian", "-o", out], check=True)
    subprocess.run([*COMPILE, f"{out}.o", "-o", f"{out}.so", "-Wl,--whole-archive", BUILD / "runtime/libanfora_rt.a",
                    "-Wl,--no-whole-archive", "-lm", "-lpthread"], check=True)
    return ctypes.CDLL(f"{out}.so").jacobian


def by_hand(folder):
    subprocess.run([*COMPILE, HERE / "bundle.c", "-o", f"{folder}/bundle.so", "-lm"], check=True)
    return ctypes.CDLL(f"{folder}/bundle.so").jacobian


def of_casadi(folder, given, out):
    """A function that writes the values of p observations"""
    cam, x, w, feat = (casadi.SX.sym(name, size) for name, size in (("cam", 11), ("x", 3), ("w", 1), ("feat", 2)))
    r, moved = cam[:3], x - cam[3:6]
    square = casadi.dot(r, r)
    angle = casadi.sqrt(square)
    y = moved * casadi.cos(angle) + casadi.cross(r, moved) * (casadi.sin(angle) / angle) \
        + r * ((1 - casadi.cos(angle)) / square * casadi.dot(r, moved))
    u = y[:2] / y[2]
    s = casadi.dot(u, u)
    error = w * (u * (1 + cam[9] * s + cam[10] * s * s) * cam[6] + cam[7:9] - feat)
    f = casadi.Function("f", [cam, x, w, feat], [casadi.densify(casadi.jacobian(error, casadi.vertcat(cam, x, w)).T)])
    code = casadi.CodeGenerator("bundle_casadi.c")
    code.add(f)
    code.generate(folder + "/")
    subprocess.run([*COMPILE, f"{folder}/bundle_casadi.c", "-o", f"{folder}/casadi.so", "-lm"], check=True)
    buffer, call = casadi.external("f", f"{folder}/casadi.so").map(len(given[2])).buffer()
    for k, a in enumerate(given):
        buffer.set_arg(k, memoryview(a.reshape(-1)))
    buffer.set_res(0, memoryview(out))
    return call, (buffer, f)


def arguments(n, m, p):
    random = np.random.default_rng(0).random
    cam = np.array([-0.76, -1.11, -0.85, 34.6, 39.7, 53.9, 419.2, 5.9, -8.5, 0.088, 0.0027])
    cams, points = cam + 0.1 * random((n, 11)), np.array([7.2, 0.001, 3.0]) + 0.1 * random((m, 3))
    return cams, points, random(p), np.arange(p) % n, np.arange(p) % m, np.array([271.8, 834.2]) + random((p, 2))


def compare(folder, n, m, p):
    given, right = arguments(n, m, p), True
    cams, points, weights, camera, point, feats = given
    results = [[np.empty(3 * p + 1, int), np.empty(31 * p, int), np.empty(31 * p)] for _ in range(2)]
    pointers = [[ctypes.c_void_p(a.ctypes.data) for a in (*given, *r)] for r in results]
    f, g, size = ours(folder, n, m, p), by_hand(folder), (ctypes.c_int64 * 3)(n, m, p)
    line = [f"ours {milliseconds(lambda: f(*pointers[0])):.2f}", f"C {milliseconds(lambda: g(size, *pointers[1])):.2f}"]
    for a, b in zip(*results):
        right = right and np.allclose(a, b, rtol=1e-9, atol=1e-9 * np.max(np.abs(b)))
    if casadi:
        out = np.empty(30 * p)
        gathered = [np.ascontiguousarray(a) for a in (cams[camera], points[point], weights, feats)]
        call, keep = of_casadi(folder, gathered, out)
        line.append(f"CasADi {milliseconds(call):.2f}")
        right = right and np.allclose(out, results[1][2][:30 * p], rtol=1e-9, atol=1e-9 * np.max(np.abs(out)))
        del keep
    print(f"{p} observations: {'  '.join(line)} ms{'' if right else '  WRONG'}", flush=True)
    return right


def main():
    right = True
    for sizes in [(49, 7776, 31843), (372, 47423, 204472)]:
        with tempfile.TemporaryDirectory() as folder:
            right = compare(folder, *sizes) and right
    return not right


if __name__ == "__main__":
    sys.exit(main())
