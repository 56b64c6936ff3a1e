# SPDX-License-Identifier: Apache-2.0
"""Gradients that `anfora grad` prints: each is read again, checked, and gives the value of the gradient that it was printed of, at
the sizes of its arguments."""
import glob
import os
import re
import subprocess
import tempfile

import anfora
import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COMMAND = os.environ.get("ANFORA", os.path.join(os.path.dirname(os.path.dirname(anfora.__file__)), "..", "cli", "anfora"))
SIZE = {"size": 9}  # det: the square of its n; other dims are 6
NUMBER = {"s": 5, "n": 3, "steps": 5}


def functions(path):
    """(name, [(parameter, type)]) of each function at the top whose parameters all have types."""
    with open(path, encoding="utf-8") as f:
        heads = re.findall(r"^def (\w+)\(([^{]*?)\)[^()\n]*\{", f.read(), re.M)
    for name, params in heads:
        typed = [tuple(part.strip() for part in p.split(":")) for p in re.findall(r"\w+\s*:\s*\w+(?:\[[^]]*\])?|\w+", params)]
        if typed and all(len(p) == 2 for p in typed):
            yield name, typed


def argument(name, text, random):
    kind, dims = re.fullmatch(r"(\w+)(?:\[(.*)\])?", text).groups()
    shape = [int(d) if d.strip().isdigit() else SIZE.get(d.strip(), 6) for d in dims.split(",")] if dims else []
    if kind[0] == "f":
        return (random.random(shape) + 0.1).astype(kind.replace("f64", "f8").replace("f32", "f4"))
    return np.full(shape, NUMBER.get(name, 1), dtype={"i32": "i4"}.get(kind, "i8")) if shape else NUMBER.get(name, 2)


def printed(path, name, folder):
    """The module that `anfora grad` prints, or None: the function has no gradient."""
    out = os.path.join(folder, name + ".ir")
    r = subprocess.run([COMMAND, "grad", f"{path}:{name}", "-o", out], capture_output=True, text=True, check=False)
    if r.returncode:
        assert r.returncode in (1, 3), (path, name, r.stderr)
        return None
    subprocess.run([COMMAND, "check", out], check=True, capture_output=True)
    return anfora.read(out)


def compare(path, least):
    """Compares the functions of a file; there are at least so many that have a gradient."""
    module, count = anfora.read(path), 0
    with tempfile.TemporaryDirectory() as folder:
        for name, typed in functions(path):
            again = printed(path, name, folder)
            if again is None:
                continue
            random = np.random.default_rng(len(name))
            args = [argument(*p, random) for p in typed]
            want, got = anfora.grad(getattr(module, name))(*args), getattr(again, "grad_" + name)(*args)
            want, got = anfora.tree_leaves(want), anfora.tree_leaves(got)
            assert len(want) == len(got), name
            for a, b in zip(want, got, strict=True):
                np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-6 if a.dtype == np.float32 else 1e-14, err_msg=name)
            count += 1
    assert count >= least, count


def test_loops():
    compare(os.path.join(ROOT, "bench/ad/loops.anf"), 11)


def test_examples():
    for path in sorted(glob.glob(os.path.join(ROOT, "examples/*.anf"))):
        compare(path, 0)
    compare(os.path.join(ROOT, "examples/derivatives.anf"), 2)


def test_gradbench():
    for path in sorted(glob.glob(os.path.join(ROOT, "tools/gradbench/*.anf"))):
        compare(path, 4 if path.endswith("particle.anf") else 0)  # derivatives of derivatives
