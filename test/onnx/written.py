# SPDX-License-Identifier: Apache-2.0
"""The programs of test/fixtures/onnx/written.anf with arguments, for test_written.py and the suite."""
import json
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from command import execute  # noqa: E402
from tap import ROOT  # noqa: E402

PROGRAM = os.path.join(ROOT, "test", "fixtures", "onnx", "written.anf")


def real(*shape):
    n = int(np.prod(shape))
    return np.sin(np.arange(n, dtype=np.float32) * 0.7 + n).reshape(shape)


def i64(x):
    return np.array(x, np.int64)


CASES = {
    "parts": [[real(4, 5)]],
    "dynamic": [[real(4, 5), i64(2)], [real(4, 5), i64(-1)]],
    "subscripts": [[real(4, 5, 6), i64([[0, 3], [-1, 1]]), np.array(2, np.int32)]],
    "record": [[real(4, 5)]],
    "sizes": [[real(2, 5)], [real(7, 5)]],
    "choice": [[real(3), np.array(True)], [real(3), np.array(False)], [-np.abs(real(3)), np.array(False)]],
    "rounds": [[real(4), i64(0)], [real(4), i64(1)], [real(4) + 9, i64(7)]],
    "cell": [[real(4, 3), real(5, 4)]],
    "cell_gradient": [[real(4, 3), real(5, 4)]],
    "nested": [[real(3), i64(0)], [real(3), i64(4)]],
    "nested_gradient": [[real(3), i64(1)], [real(3), i64(4)]],
    "chosen_gradient": [[real(3), np.array(True)], [real(3), np.array(False)]],
    "shared": [[real(2, 3), real(3, 3), real(3)]],
    "closure": [[np.float32(1.5), np.array(True)], [np.float32(1.5), np.array(False)]],
    "convolved": [[real(2, 4, 9, 8), real(6, 2, 3, 3)]],
    "conv_gradient": [[real(2, 4, 9, 8), real(6, 2, 3, 3)]],
    "mixed": [[np.array([3, -5, 7], np.int32), np.array([0.5, 1.5, -2], np.float16), real(3).astype(np.float64)]],
    "net": [[real(4, 3)]],
    "step": [[real(4, 3), i64([0, 1, 1, 0])]],
}
FIRST_IS_PARAMS = ("net", "step")


def command(anfora, *words):
    return execute([anfora, *words])


def save(folder, args):
    paths = []
    for i, x in enumerate(args):
        paths.append(os.path.join(folder, f"in{i}.npy"))
        np.save(paths[-1], x)
    return ["@" + p for p in paths]


def numbers(v):
    """All numbers of a result, in order."""
    if isinstance(v, dict):
        return [y for x in v.values() for y in numbers(x)]
    if isinstance(v, list):
        return [y for x in v for y in numbers(x)]
    return [float(v)]


def result(anfora, folder, target, args, *options):
    """The numbers that a program gives, or what was said instead."""
    r = command(anfora, "run", target, *save(folder, args), "--json", *options)
    if r.returncode:
        return None, r.stderr
    out = json.loads(r.stdout)
    return np.array(numbers(out.get("result", out))), ""


def original(anfora, folder, name, args):
    """Of the program itself; nets take what params() gives."""
    return result(anfora, folder, f"{PROGRAM}:{name}{'_of' if name in FIRST_IS_PARAMS else ''}", args)


def write(anfora, source, path):
    r = command(anfora, "import", source, "-o", path)
    return r.stdout + r.stderr


def differs(got, want):
    if got.shape != want.shape:
        return f"{got.size} numbers instead of {want.size}"
    good = np.isclose(got, want, rtol=2e-5, atol=2e-5, equal_nan=True)
    return "" if good.all() else f"{got} instead of {want}"
