#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random quantised products, compiled, against NumPy: quantised_check.py ANFORA [--count N]. Sums of integers are
exact, so a result is compared bit for bit with the same few roundings in NumPy, and with the product of reals in double
within the bound that optimizer/quantise/quantise.h states."""
import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from tap import Tap  # noqa: E402

CODES = {"i8": np.int8, "u8": np.uint8}
F = np.float32


def dims(x):
    return "[" + ",".join(map(str, np.shape(x))) + "]"


class Factor:
    """One operand: codes, a scale and perhaps a zero point that may be one number, or one for each row or column."""

    def __init__(self, rng, name, shape, transposed, left):
        self.name, self.transposed = name, transposed
        self.stored = shape[:-2] + shape[:-3:-1] if transposed else shape
        self.code = rng.choice(list(CODES))
        info = np.iinfo(CODES[self.code])
        self.q = rng.integers(info.min, info.max + 1, self.stored).astype(CODES[self.code])
        axis = -1 if left == transposed else -2  # the axis that stays
        each = [1] * len(shape)
        each[axis] = self.stored[axis]
        self.each = tuple(each) if rng.random() < 0.5 else ()
        self.constant = rng.random() < 0.5 and not self.each
        self.scale = np.asarray(rng.uniform(0.01, 0.1, self.each)).astype(F)
        self.zero = rng.integers(max(info.min, -20), 21, self.each).astype(CODES[self.code]) if rng.random() < 0.5 else None

    def params(self):
        p = [(self.name, self.code, self.q)]
        if not self.constant:
            p.append((self.name + "s", "f32", self.scale))
            if self.zero is not None:
                p.append((self.name + "z", self.code, self.zero))
        return p

    def number(self):
        return f"Cast({float(self.scale)!r}, f32)"

    def offset(self):
        return f"Cast({int(self.zero)}, {self.code})" if self.constant else self.name + "z"

    def text(self, by_hand):
        scale = self.number() if self.constant else self.name + "s"
        if by_hand and self.constant:
            x = f"Cast({self.name}, f32)"
            return f"({x if self.zero is None else f'({x} - Cast({self.offset()}, f32))'} * {scale})"
        zero = "" if self.zero is None else f", {self.offset()}"
        return f"Dequantize({self.name}, {scale}{zero})"

    def whole(self):
        z = 0 if self.zero is None else self.zero.astype(np.int64)
        x = self.q.astype(np.int64) - z
        return np.swapaxes(x, -1, -2) if self.transposed else x

    def factor(self):
        s = self.scale
        return np.swapaxes(s, -1, -2) if self.transposed and s.ndim > 1 else s


class Case:
    def __init__(self, rng):
        m, n, k = (int(rng.integers(1, high)) for high in (70, 90, 300))
        batch = tuple(int(b) for b in rng.integers(1, 4, int(rng.integers(0, 2))))
        self.linear = rng.random() < 0.25
        ta, tb = (rng.random() < 0.3 and not self.linear), rng.random() < 0.4 or self.linear
        self.a = Factor(rng, "a", batch + (m, k), ta, True)
        self.b = Factor(rng, "b", (k, n), tb, False)
        self.bias = rng.standard_normal(n).astype(F) if rng.random() < 0.5 else None
        self.out = rng.choice(["i8", "u8", ""])
        self.by_hand = rng.random() < 0.5

    def program(self):
        params = self.a.params() + self.b.params() + ([("c", "f32", self.bias)] if self.bias is not None else [])
        x, w = self.a.text(self.by_hand), self.b.text(self.by_hand)
        if self.linear:
            y = f"Linear({x}, {w}{', c' if self.bias is not None else ''})"
        else:
            y = f"MatMul({x}, {w}, ta={str(self.a.transposed).lower()}, tb={str(self.b.transposed).lower()})"
            y += " + c" if self.bias is not None else ""
        if self.out:
            y = f"Quantize(Relu({y}), 0.25, Cast(3, {self.out}), dtype={self.out})"
        head = ", ".join(f"{name}: {dtype}{dims(x)}" for name, dtype, x in params)
        return f"def f({head}) {{ {y} }}\n", [x for _, _, x in params]

    def want(self):
        """The result by integers, and by reals in double with the size of its terms."""
        x, w, s, t = self.a.whole(), self.b.whole(), self.a.factor(), self.b.factor()
        sums = (x @ w).astype(F)
        y = sums * (s * t) if self.a.constant and self.b.constant else sums * s * t
        real = (x * s.astype(np.float64)) @ (w * t.astype(np.float64))
        size = np.abs(x * s.astype(np.float64)) @ np.abs(w * t.astype(np.float64))
        if self.bias is not None:
            y, real, size = y + self.bias, real + self.bias, size + np.abs(self.bias)
        if not self.out:
            return y, real, size
        info = np.iinfo(CODES[self.out])
        q = np.clip(np.rint(np.maximum(y, F(0)) / F(0.25)) + F(3), info.min, info.max)
        return q.astype(CODES[self.out]), None, None


def run(anfora, folder, program, args, *options):
    path, out, names = os.path.join(folder, "p.anf"), os.path.join(folder, "out.npy"), []
    with open(path, "w", encoding="utf-8") as f:
        f.write(program)
    for i, x in enumerate(args):
        names.append(os.path.join(folder, f"a{i}.npy"))
        np.save(names[-1], x)
    r = subprocess.run([anfora, "run", path, *("@" + n for n in names), "-o", out, *options], capture_output=True, text=True, check=False)
    return (np.load(out), "") if r.returncode == 0 else (None, r.stderr[:800])


def check(anfora, folder, case):
    program, args = case.program()
    y, real, size = case.want()
    got, problem = run(anfora, folder, program, args, "--backend", "llvm")
    if got is None:
        return problem + program
    if got.dtype != y.dtype or got.shape != y.shape or not np.array_equal(got, y):
        i = np.unravel_index(np.argmax(got != y), y.shape) if got.shape == y.shape else None
        return f"{program}at {i}: {got[i] if i else got.shape!r} for {y[i] if i else y.shape!r}"
    plain, problem = run(anfora, folder, program, args, "--backend", "interp")
    if plain is None:
        return problem + program
    if real is None:  # a sum between two codes may go to either
        off = np.abs(plain.astype(int) - y.astype(int))
        return "" if off.max(initial=0) <= 1 and off.mean() < 0.01 else f"{program}the interpreter is {off.max()} off"
    for who, v in (("compiled", got), ("the interpreter", plain)):
        if (np.abs(v - real) > 6 * 2.0**-24 * size).any():
            return f"{program}{who} is further from the product of reals than the bound"
    return ""


def main():
    p = argparse.ArgumentParser()
    p.add_argument("anfora")
    p.add_argument("--count", type=int, default=12)
    p.add_argument("--seed", type=int, default=1)
    o = p.parse_args()
    tap, rng = Tap(), np.random.default_rng(o.seed)
    with tempfile.TemporaryDirectory() as folder:
        for i in range(o.count):
            tap.case(f"quantised product {i}", check(o.anfora, folder, Case(rng)))
    tap.done()


if __name__ == "__main__":
    main()
