# SPDX-License-Identifier: Apache-2.0
"""Programs of JAX's users (jax_programs.py) give what JAX gives: jax_values.json has it. A program that runs no more, or gives
another value, fails."""
import json
import os

import jax_programs
import numpy as np

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "jax_values.json"), encoding="utf-8") as file:
    VALUES = json.load(file)


def check(name):
    got = jax_programs.leaves(getattr(jax_programs, name)())
    want = VALUES[name]
    assert len(got) == len(want), f"{len(got)} arrays, not {len(want)}"
    for g, (shape, items) in zip(got, want):
        w = np.array([complex(*x) for x in items] if g.dtype.kind == "c" else items).reshape(shape)
        assert list(g.shape) == shape, (g.shape, shape)
        assert np.allclose(g, w, 2e-3, 2e-4, equal_nan=True), (g, w)


for _name in VALUES:
    globals()[_name.replace("prog_", "test_")] = (lambda name: lambda: check(name))(_name)
assert set(VALUES) == {n for n in vars(jax_programs) if n.startswith("prog_")}, "jax_values.json is of other programs"
