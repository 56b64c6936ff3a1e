#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random quantised products and convolutions, compiled, against NumPy: quantised_check.py ANFORA [--count N]. Sums of integers are
exact, so a result is compared bit for bit with the same few roundings in NumPy, and with the product of reals in double
within the bound that optimizer/quantise/quantise.h states."""
import argparse
import os
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from command import execute  # noqa: E402
from tap import Tap  # noqa: E402

CODES = {"i8": np.int8, "u8": np.uint8}
F = np.float32


def dims(x):
    return "[" + ",".join(map(str, np.shape(x))) + "]"


def weights(rng, shape, code):
    """Bytes of the whole range, or within [-64, 64] and often at the ends: those have kernels of their own."""
    info = np.iinfo(CODES[code])
    if code == "u8" or rng.random() < 0.5:
        return rng.integers(info.min, info.max + 1, shape).astype(CODES[code])
    return np.where(rng.random(shape) < 0.2, rng.choice([-64, 64], shape), rng.integers(-64, 65, shape)).astype(np.int8)


class Factor:
    """One operand: codes, a scale and perhaps a zero point that may be one number, or one for each row or column."""

    def __init__(self, rng, name, shape, transposed, left):
        self.name, self.transposed = name, transposed
        self.stored = shape[:-2] + shape[:-3:-1] if transposed else shape
        self.code = rng.choice(list(CODES))
        info = np.iinfo(CODES[self.code])
        self.q = weights(rng, self.stored, self.code)
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
        self.options = ["--fix", "b"] if rng.random() < 0.6 else []

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


def windows(x, w, stride, pad, dilation, groups):
    """The convolution of integers [n, c, h, w] and [o, c / groups, kh, kw], tap by tap."""
    x = np.pad(x, ((0, 0), (0, 0), *pad))
    co, ci, reach = w.shape[0] // groups, w.shape[1], [(k - 1) * d for k, d in zip(w.shape[2:], dilation)]
    out = [(size - r - 1) // s + 1 for size, r, s in zip(x.shape[2:], reach, stride)]
    y = np.zeros((len(x), len(w), *out), np.int64)
    for g in range(groups):
        for tap in np.ndindex(*w.shape[2:]):
            at = [slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, n, s in zip(tap, dilation, out, stride)]
            x_tap, w_tap = x[:, g * ci:(g + 1) * ci, at[0], at[1]], w[g * co:(g + 1) * co, :, tap[0], tap[1]]
            y[:, g * co:(g + 1) * co] += np.einsum("nchw,oc->nohw", x_tap, w_tap)
    return y


class ConvCase:
    """Codes of any type, odd sizes, zero points, scales by channel; weights of the program or given."""

    def __init__(self, rng):
        self.groups, self.constant = int(rng.choice([1, 1, 2])), rng.random() < 0.5
        ci, co = int(rng.integers(1, 12)), 16 * int(rng.integers(1, 5)) if rng.random() < 0.5 else int(rng.integers(16, 72))
        kernel, self.stride, self.dilation = rng.integers(1, 4, 2), rng.integers(1, 4, 2), rng.integers(1, 3, 2)
        self.pad = [tuple(int(v) for v in rng.integers(0, int(rng.choice([3, 3, 6])), 2)) for _ in range(2)]
        size = [int(rng.integers((k - 1) * d + 1, high)) for k, d, high in zip(kernel, self.dilation, (14, int(rng.choice([14, 300]))))]
        self.types = rng.choice(list(CODES)), "u8" if self.constant and rng.random() < 0.3 else "i8"
        shapes = (int(rng.integers(1, 3)), ci * self.groups, *size), (co * self.groups, ci, *kernel)
        self.x, self.w = (weights(rng, s, d) for d, s in zip(self.types, shapes))
        self.options = ["--fix", "w"] if not self.constant and rng.random() < 0.6 else []
        self.zero = int(rng.integers(0, 100)) if rng.random() < 0.5 else 0
        self.zero_w = 128 if self.types[1] == "u8" else int(rng.integers(-9, 9)) if rng.random() < 0.3 and self.groups == 1 else 0
        self.scale = F(rng.uniform(0.01, 0.1))
        self.scales = rng.uniform(0.01, 0.1, (len(self.w), 1, 1, 1) if rng.random() < 0.5 else ()).astype(F)
        self.bias, self.codes = rng.standard_normal(len(self.w)).astype(F), rng.random() < 0.5

    def program(self):
        w = f"Cast({self.w.tolist()}, {self.types[1]})" if self.constant else "w"
        x = f"Dequantize(x, Cast({float(self.scale)!r}, f32)" + (f", Cast({self.zero}, {self.types[0]})" if self.zero else "") + ")"
        w = f"Dequantize({w}, Cast({self.scales.tolist()}, f32)" + (f", Cast({self.zero_w}, {self.types[1]})" if self.zero_w else "") + ")"
        pairs = {"stride": self.stride, "dilation": self.dilation}
        attrs = ", ".join(f"{k}=({v[0]}, {v[1]})" for k, v in pairs.items())
        y = f"Conv2D({x}, {w}, b, padding={tuple(self.pad)}, {attrs}, groups={self.groups})"
        if self.codes:
            y = f"Quantize(Relu({y}), 0.25, Cast(3, u8), dtype=u8)"
        head = f"x: {self.types[0]}{dims(self.x)}, b: f32{dims(self.bias)}" + ("" if self.constant else f", w: i8{dims(self.w)}")
        return f"def f({head}) {{ {y} }}\n", [self.x, self.bias] + ([] if self.constant else [self.w])

    def want(self):
        x, w = self.x.astype(np.int64) - self.zero, self.w.astype(np.int64) - self.zero_w
        how = self.stride, self.pad, self.dilation, self.groups
        bias, scales = self.bias.reshape(-1, 1, 1), self.scale * (self.scales.reshape(-1, 1, 1) if self.scales.ndim else self.scales)
        y = windows(x, w, *how).astype(F) * scales + bias
        if self.codes:
            return np.clip(np.rint(np.maximum(y, F(0)) / F(0.25)) + F(3), 0, 255).astype(np.uint8), None, None
        wide = scales.astype(np.float64)
        return y, windows(x, w, *how) * wide + bias, windows(np.abs(x), np.abs(w), *how) * wide + np.abs(bias)


class DepthCase:
    """One plane of depth with padding around it: planes of results that read padding alone."""
    options = ["--fix", "w"]

    def __init__(self, rng):
        self.x, self.w = rng.integers(0, 256, (1, 16, 1, 5, 5)).astype(np.uint8), rng.integers(-128, 128, (16, 16, 1, 3, 3)).astype(np.int8)

    def program(self):
        return (f"def f(x: u8{dims(self.x)}, w: i8{dims(self.w)}) {{ Conv3D(Cast(x, i32), Cast(w, i32), padding=1) }}\n", [self.x, self.w])

    def want(self):
        y = np.zeros((1, 16, 3, 5, 5), np.int32)
        y[:, :, 1] = windows(self.x[:, :, 0].astype(int), self.w[:, :, 0].astype(int), (1, 1), ((1, 1), (1, 1)), (1, 1), 1)
        return y, y, np.zeros(y.shape)


def unpacked(x, bits, axis):
    """Codes of so many bits, the first of a byte in its lowest, signed if x is."""
    code = np.stack([x.view(np.uint8) >> bits * k & 2**bits - 1 for k in range(8 // bits)], axis + 1).astype(np.int64)
    if x.dtype == np.int8:
        code -= (code >= 2 ** (bits - 1)) * 2**bits
    return code.reshape(*x.shape[:axis], -1, *x.shape[axis + 1:])


class WeightsCase:
    """Rows of floats times weights of bytes or packed codes: stored by rows of K or by columns, arguments or fixed, with scales of
    columns or of groups of steps, zero points or none."""

    def __init__(self, rng):
        self.bits, self.tb, self.code = int(rng.choice([8, 8, 4, 4, 2, 1])), rng.random() < 0.5, rng.choice(list(CODES))
        self.groups, self.fixed = int(rng.integers(2, 9)) if rng.random() < 0.5 else 0, rng.random() < 0.5
        steps, self.n = 8 * int(rng.integers(2, 8)), int(rng.integers(32, 400))
        self.k = steps * self.groups if self.groups else 2 * steps + 64 - 8 * int(rng.integers(2))
        self.rows = (1,) * int(rng.integers(1, 3)) if rng.random() < 0.5 else (int(rng.integers(2, int(rng.choice([6, 70])))),)
        k = (self.groups, steps) if self.groups else (self.k,)
        stored = (*k[:-1], k[-1] * self.bits // 8)
        info = np.iinfo(CODES[self.code])
        each = ((*k[:-1], 1, self.n), (self.n, *k[:-1], 1)) if self.groups else ((self.n,), (self.n, 1))
        each = () if rng.random() < 0.2 else each[self.tb]
        self.axis = len(stored) if self.tb else len(stored) - 1
        self.w = rng.integers(info.min, info.max + 1, (self.n, *stored) if self.tb else (*stored, self.n)).astype(CODES[self.code])
        self.x = rng.standard_normal((*self.rows, self.k)).astype(F)
        self.scale = np.asarray(rng.uniform(0.01, 0.1, each)).astype(F)
        self.zero = rng.integers(max(info.min, -20), 128, each).astype(self.w.dtype) if rng.random() < 0.6 else None
        self.bias = rng.standard_normal(self.n).astype(F) if rng.random() < 0.5 else None

    def program(self):
        given = [("x", "f32", self.x), ("w", self.code, self.w), ("s", "f32", self.scale), ("z", self.code, self.zero), ("b", "f32", self.bias)]
        given = [g for g in given if g[2] is not None]
        w = "w" if self.bits == 8 else f"UnpackBits(w, bits={self.bits}, axis={self.axis})"
        w = f"Dequantize({w}, s{'' if self.zero is None else ', z'})"
        if self.groups:
            w = f"Reshape({w}, {(self.n, self.k) if self.tb else (self.k, self.n)})"
        y = f"MatMul(x, {w}, tb={str(self.tb).lower()})" + ("" if self.bias is None else " + b")
        return f"def f({', '.join(f'{name}: {d}{dims(v)}' for name, d, v in given)}) {{ Relu({y}) }}\n", [v for _, _, v in given]

    def reals(self):
        w = unpacked(self.w, self.bits, self.axis) - (0 if self.zero is None else self.zero.astype(np.int64))
        w = (w * self.scale.astype(np.float64)).reshape((self.n, self.k) if self.tb else (self.k, self.n))
        return w.T if self.tb else w

    def check(self, anfora, folder):
        program, args = self.program()
        x, w = self.x.astype(np.float64), self.reals()
        real, size, more = x @ w, np.abs(x) @ np.abs(w), 0 if self.bias is None else self.bias.astype(np.float64)
        fixed = ["--fix", "w,s,z" if self.zero is not None else "w,s"] if self.fixed else []
        for options in (["--backend", "llvm", *fixed], ["--backend", "llvm", "--threads", "2"], ["--backend", "tir"]):
            got, problem = run(anfora, folder, program, args, *options)
            if got is None:
                return problem + program
            if (np.abs(got - np.maximum(real + more, 0)) > (self.k + 6) * 2.0**-24 * (size + np.abs(more))).any():
                return f"{program}{options} is further from the product of reals than the bound"
        return ""


def run(anfora, folder, program, args, *options):
    path, out, names = os.path.join(folder, "p.anf"), os.path.join(folder, "out.npy"), []
    with open(path, "w", encoding="utf-8") as f:
        f.write(program)
    for i, x in enumerate(args):
        names.append(os.path.join(folder, f"a{i}.npy"))
        np.save(names[-1], x)
    r = execute([anfora, "run", path, *("@" + n for n in names), "-o", out, *options])
    return (np.load(out), "") if r.returncode == 0 else (None, r.stderr[:800])


def check(anfora, folder, case):
    program, args = case.program()
    y, real, size = case.want()
    got, problem = run(anfora, folder, program, args, "--backend", "llvm", *case.options)
    if got is None:
        return problem + program[:600]
    if got.dtype != y.dtype or got.shape != y.shape or not np.array_equal(got, y):
        i = np.unravel_index(np.argmax(got != y), y.shape) if got.shape == y.shape else None
        return f"{program[:200]} .. {program[-300:]}at {i}: {got[i] if i else got.shape!r} for {y[i] if i else y.shape!r}"
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
        for i in range(o.count):
            tap.case(f"quantised convolution {i}", check(o.anfora, folder, ConvCase(rng)))
        tap.case("a quantised convolution with padding in depth", check(o.anfora, folder, DepthCase(rng)))
        for i in range(o.count):
            tap.case(f"rows times weights of a few bits {i}", WeightsCase(rng).check(o.anfora, folder))
    tap.done()


if __name__ == "__main__":
    main()
