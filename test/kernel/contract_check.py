#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Products and convolutions that are large enough for kernels, compiled, against NumPy in double; also both
gradients of convolutions. contract_check.py ANFORA [EVERY]: one of EVERY cases. The bound is that of a sum of as many terms in the type, each rounded once."""
import itertools
import os
import re
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from command import execute  # noqa: E402
from tap import Tap  # noqa: E402

UNIT = {"f32": 2.0**-24, "f64": 2.0**-50, "f16": 2.0**-11}
TYPE = {"f32": np.float32, "f64": np.float64, "f16": np.float16}


class Runner:
    def __init__(self, anfora, folder, every):
        self.anfora, self.folder, self.tap, self.every, self.seen = anfora, folder, Tap(), every, 0
        self.rng = np.random.default_rng(5)

    def is_next(self):
        """Is the next case one of those that run?"""
        self.seen += 1
        return self.seen % self.every == 0

    def data(self, shape, dtype="f32"):
        return self.rng.standard_normal(shape).astype(TYPE[dtype])

    def run(self, program, args, *options):
        path = os.path.join(self.folder, "p.anf")
        with open(path, "w", encoding="utf-8") as f:
            f.write(program)
        names = []
        for i, a in enumerate(args):
            names.append(os.path.join(self.folder, f"a{i}.npy"))
            np.save(names[-1], a)
        out = os.path.join(self.folder, "out.npy")
        r = execute([self.anfora, "run", path, *("@" + n for n in names), "--backend", "llvm", "-o", out, *options])
        return (np.load(out), "") if r.returncode == 0 else (None, r.stderr[:600])

    def case(self, name, program, args, want, size, terms, dtype, *options):
        if not self.is_next():
            return
        got, problem = self.run(program, args, *options)
        if got is not None and got.shape != want.shape:
            problem = f"{got.shape} for {want.shape}"
        elif got is not None:
            off = np.abs(got - want) - size * (terms + 8) * UNIT[dtype]
            i = np.unravel_index(np.argmax(off), off.shape)
            problem = f"at {i}: {got[i]!r} for {want[i]!r}" if off[i] > 0 or np.isnan(off).any() else ""
        self.tap.case(name, problem)


def text(shape):
    return ", ".join(str(n) for n in shape)


def products(r):
    cases = [((37, 70), (70, 45), 0, 0), ((70, 37), (70, 45), 1, 0), ((37, 70), (45, 70), 0, 1),
             ((70, 37), (45, 70), 1, 1), ((3, 33, 40), (40, 50), 0, 0), ((2, 1, 33, 40), (3, 40, 50), 0, 0),
             ((5, 40, 33), (5, 40, 20), 1, 0), ((1, 700), (700, 300), 0, 0), ((300, 700), (700,), 0, 0),
             ((700,), (700, 300), 0, 0), ((300, 600), (600, 301), 0, 0), ((600, 300), (301, 600), 1, 1),
             ((130, 1024), (1024, 65), 0, 0), ((1024, 66), (1024, 30), 1, 0), ((128, 512), (512, 10), 0, 0),
             ((200, 300), (300, 1045), 0, 0), ((130, 1024), (1024, 1045), 0, 0), ((700, 300), (605, 300), 0, 1),
             ((900, 203), (900, 150), 1, 0), ((130, 700), (130, 1301), 1, 0), ((520, 90), (700, 90), 0, 1),
             ((512, 300), (512, 10), 1, 0),
             ((9, 400), (300, 400), 0, 1), ((400, 9), (300, 400), 1, 1), ((1, 400), (300, 400), 0, 1),
             ((17, 9003), (9003, 18), 0, 0), ((2051, 70), (33, 2051), 1, 1), ((70, 5000), (90, 5000), 0, 1),  # cut in slices of K
             ((9, 30001), (30001,), 0, 0), ((1, 4096), (4096, 64), 0, 0), ((2, 5, 4100), (2, 4100, 70), 0, 0),
             ((67, 100), (100,), 0, 0), ((3, 64), (64, 1), 0, 0), ((3, 7, 130), (1, 130), 0, 1), ((259, 1024), (1024,), 0, 0)]
    for (a_shape, b_shape, ta, tb), dtype in itertools.product(cases, ("f32", "f64")):
        if dtype == "f64" and 600 < max(a_shape) < 9000:
            continue
        a, b = r.data(a_shape, dtype), r.data(b_shape, dtype)
        x, y = (np.swapaxes(v, -1, -2) if t else v for v, t in ((a, ta), (b, tb)))
        x, y = x.astype(np.float64), y.astype(np.float64)
        attrs = f", ta={'true' if ta else 'false'}, tb={'true' if tb else 'false'}"
        r.case(f"{a_shape}{'T' * ta} @ {b_shape}{'T' * tb} {dtype}",
               f"def f(a: {dtype}[{text(a_shape)}], b: {dtype}[{text(b_shape)}]) {{ MatMul(a, b{attrs}) }}",
               [a, b], x @ y, np.abs(x) @ np.abs(y), x.shape[-1], dtype)
    for a_shape, b_shape, ta, tb in (((33, 65), (65, 17), 0, 0), ((65, 33), (17, 65), 1, 1), ((2, 9, 40), (40, 30), 0, 0)):
        a, b = (r.data(shape) + 1j * r.data(shape) for shape in (a_shape, b_shape))
        x, y = (np.swapaxes(v, -1, -2) if t else v for v, t in ((a, ta), (b, tb)))
        r.case(f"complex {a_shape}{'T' * ta} @ {b_shape}{'T' * tb}",
               f"def f(a: c64[{text(a_shape)}], b: c64[{text(b_shape)}]) {{ MatMul(a, b, ta={bool(ta)}, tb={bool(tb)}) }}".replace("True", "true").replace("False", "false"),
               [v.astype(np.complex64) for v in (a, b)], x.astype(np.complex128) @ y, 2 * np.abs(x) @ np.abs(y), 2 * x.shape[-1], "f32")
    for equation in ("bik,bjk->bij", "ik,kj->ji", "bqhd,bkhd->bhqk", "abc,cbd->da", "ijk,kji->", "ab,cd->adbc", "bi,bi->b"):
        terms, out = equation.split("->")
        sizes = {label: 5 + 2 * (ord(label) % 7) for label in terms if label != ","}
        a, b = (r.data(tuple(sizes[label] for label in term)) for term in terms.split(","))
        x, y = a.astype(np.float64), b.astype(np.float64)
        inner = np.prod([n for label, n in sizes.items() if label not in out])
        r.case(f"Einsum {equation}",
               f'def f(a: f32[{text(a.shape)}], b: f32[{text(b.shape)}]) {{ Einsum(a, b, equation="{equation}") }}', [a, b],
               np.einsum(equation, x, y), np.einsum(equation, np.abs(x), np.abs(y)), int(inner), "f32")
    for m in (33, 7):
        x, w, b = r.data((m, 65)), r.data((40, 65)), r.data((40,))
        X, W, B = (v.astype(np.float64) for v in (x, w, b))
        r.case(f"Linear of {m} rows", f"def f(x: f32[{m}, 65], w: f32[40, 65], b: f32[40]) {{ Linear(x, w, b) }}", [x, w, b],
               X @ W.T + B, np.abs(X) @ np.abs(W.T) + np.abs(B), 66, "f32")
    w, b = r.data((520, 1033)), r.data((1033,))  # large enough that a few rows read it as one stream
    for m, ta, more in ((1, False, ()), (3, False, ("--threads", "2")), (4, True, ())):
        x = r.data((m, 520))
        X, W, B = (v.astype(np.float64) for v in (x, w, b))
        sig, a = (f"x: f32[520, {m}]", x.T.copy()) if ta else (f"x: f32[{m}, 520]", x)
        r.case(f"{m} rows times a large matrix", f"def f({sig}, w: f32[520, 1033], b: f32[1033]) {{ Relu(MatMul(x, w, ta={str(ta).lower()}) + b) }}",
               [a, w, b], np.maximum(X @ W + B, 0), np.abs(X) @ np.abs(W) + np.abs(B), 521, "f32", *more)


def sums_of_loops(r):
    """s += x y: the sum is updated in place, by the kernel that makes the product where it can."""
    for turns, m, n, k, how in ((7, 70, 130, 20, "ta=true"), (3, 70, 130, 900, "ta=true"), (5, 64, 48, 64, "ta=false"),
                                (4, 9, 200, 300, "tb=true"), (3, 6, 5, 4, "ta=true")):
        a_shape = (turns, k, m) if how == "ta=true" else (turns, m, k)
        b_shape = (turns, n, k) if how == "tb=true" else (turns, k, n)
        a, b, s = r.data(a_shape), r.data(b_shape), r.data((m, n))
        x, y = a.astype(np.float64), b.astype(np.float64)
        x = np.swapaxes(x, 1, 2) if how == "ta=true" else x
        y = np.swapaxes(y, 1, 2) if how == "tb=true" else y
        for name, then, value in (("s + x", "", 0), ("s - x + y", " + MatMul(a[t], b[t], %s)" % how, 1)):
            sign = "-" if value else "+"
            body = f"s = s {sign} MatMul(a[t], b[t], {how}){then}"
            sig = f"a: f32[{text(a_shape)}], b: f32[{text(b_shape)}], s: f32[{m}, {n}]"
            want = s.astype(np.float64) + (0 if value else 1) * np.einsum("tmk,tkn->mn", x, y)
            size = np.abs(s).astype(np.float64) + 2 * np.einsum("tmk,tkn->mn", np.abs(x), np.abs(y))
            r.case(f"loop of {turns}: {name}, {m} by {n} by {k}, {how}",
                   f"def f({sig}) {{ for t in 0..{turns} {{ {body} }}; s }}", [a, b, s], want, size, k + turns, "f32")


def windows(shape, kernel, stride, padding, dilation):
    """(tap, slice of each dim of the padded input) for every tap; the sizes of the result."""
    out = [(n + 2 * padding - dilation * (k - 1) - 1) // stride + 1 for n, k in zip(shape, kernel)]
    for tap in itertools.product(*(range(k) for k in kernel)):
        yield tap, tuple(slice(t * dilation, t * dilation + stride * (o - 1) + 1, stride) for t, o in zip(tap, out)), out


def conv(x, w, stride, padding, dilation, groups):
    """The result, and pairs (x part, w part) are summed tap by tap, in double."""
    rank = x.ndim - 2
    xp = np.pad(x, [(0, 0), (0, 0)] + [(padding, padding)] * rank)
    y = None
    ci, co = w.shape[1], w.shape[0] // groups
    for tap, at, out in windows(x.shape[2:], w.shape[2:], stride, padding, dilation):
        part = xp[(slice(None), slice(None)) + at]
        if y is None:
            y = np.zeros((x.shape[0], w.shape[0], *out))
        for g in range(groups):
            y[:, g * co:(g + 1) * co] += np.einsum("nc...,oc->no...", part[:, g * ci:(g + 1) * ci],
                                                   w[(slice(g * co, (g + 1) * co), slice(None)) + tap])
    return y


def conv_gradients(x, w, dy, stride, padding, dilation, groups):
    rank = x.ndim - 2
    xp = np.pad(x, [(0, 0), (0, 0)] + [(padding, padding)] * rank)
    dx, dw = np.zeros_like(xp), np.zeros_like(w)
    ci, co = w.shape[1], w.shape[0] // groups
    for tap, at, _ in windows(x.shape[2:], w.shape[2:], stride, padding, dilation):
        for g in range(groups):
            cin, cout = slice(g * ci, (g + 1) * ci), slice(g * co, (g + 1) * co)
            dx[(slice(None), cin) + at] += np.einsum("no...,oc->nc...", dy[:, cout], w[(cout, slice(None)) + tap])
            part = xp[(slice(None), cin) + at].reshape(len(x), ci, -1)
            dw[(cout, slice(None)) + tap] = np.einsum("nop,ncp->oc", dy[:, cout].reshape(len(x), co, -1), part)
    inner = tuple(slice(padding, padding + n) for n in x.shape[2:])
    return dx[(slice(None), slice(None)) + inner], dw


def convolutions(r):
    cases = [(2, 1, 8, 12, (9, 11), (3, 3), 1, 1, 1), (1, 1, 16, 17, (12, 10), (3, 3), 2, 1, 1),
             (1, 1, 5, 9, (14, 15), (3, 2), 1, 2, 2), (1, 2, 8, 6, (8, 9), (3, 3), 1, 0, 1),
             (2, 1, 32, 24, (7, 7), (1, 1), 1, 0, 1), (1, 1, 16, 8, (9, 8), (1, 1), 2, 0, 1),
             (1, 8, 1, 1, (10, 10), (3, 3), 1, 1, 1), (3, 1, 6, 10, (40,), (5,), 3, 2, 1),
             (1, 1, 4, 8, (5, 6, 7), (2, 3, 3), 1, 1, 1), (1, 1, 3, 16, (21, 23), (7, 7), 2, 3, 1),
             (1, 1, 16, 68, (15, 20), (3, 3), 1, 1, 1), (1, 1, 16, 24, (13, 30), (3, 3), 1, 1, 1), (1, 1, 16, 24, (13, 30), (1, 1), 1, 0, 1),
             (1, 1, 64, 64, (7, 7), (3, 3), 1, 1, 1), (1, 1, 4, 8, (5, 6, 7), (1, 1, 1), 1, 0, 1), (2, 1, 8, 16, (9, 40), (3, 3), 2, 1, 1),
             (1, 1, 3, 24, (34, 51), (16, 16), 16, 0, 1), (2, 2, 8, 16, (8, 9), (2, 2), 2, 0, 1), (1, 1, 5, 12, (4, 6, 9), (2, 2, 2), 2, 0, 1),
             (1, 1, 6, 9, (13, 13), (3, 3), 3, 0, 2), (11, 1, 9, 8, (14, 14), (3, 3), 1, 1, 1), (13, 2, 8, 16, (9, 9), (1, 1), 1, 0, 1),
             (2, 3, 1, 1, (19, 57), (3, 3), 1, 1, 1), (1, 4, 1, 1, (21, 23), (7, 7), 1, 3, 1), (1, 3, 1, 2, (17, 20), (5, 5), 2, 2, 1),
             (2, 2, 2, 3, (9, 33), (3, 3), 1, 2, 2), (2, 50, 1, 1, (40,), (5,), 1, 2, 1), (1, 2, 1, 1, (4, 9, 16), (3, 3, 3), 1, 1, 1),
             (1, 9, 1, 1, (6, 7), (3, 3), 1, 4, 1),
             (1, 1, 8, 64, (6, 9), (3, 3), 1, 5, 1), (1, 1, 16, 32, (7, 20), (3, 3), 1, 12, 12),  # rows of results, taps that read padding alone
             (1, 1, 3, 40, (21, 23), (7, 7), 2, 3, 1), (1, 1, 32, 72, (20, 21), (3, 3), 1, 9, 9), (2, 2, 40, 32, (5, 5), (3, 3), 1, 1, 1), (3, 70, 1, 1, (30, 70), (3, 3), 1, 1, 1),
             (3, 2, 48, 16, (30, 30), (3, 3), 2, 1, 1), (2, 1, 8, 16, (4, 5, 6), (3, 3, 3), 1, 1, 1),  # by w: two images at once, and one; in rows of planes
             (2, 1, 37, 64, (6, 5), (2, 2), 1, 0, 1), (2, 1, 64, 48, (5, 4), (3, 3), 1, 1, 1),  # panels, taps that fill no square
             (2, 1, 16, 32, (4, 5, 6), (3, 3, 3), 1, 2, 2), (3, 1, 70, 32, (24,), (5,), 1, 8, 4), (2, 2, 16, 32, (9, 8), (2, 4), 1, 2, 2),  # by ranges of columns
             (2, 1, 16, 32, (6, 7), (3, 5), 1, 4, 2), (2, 2, 150, 32, (13, 15), (1, 1), 1, 0, 1),  # no tap of all columns; small planes where they lie
             (6, 1, 70, 40, (1, 1), (1, 1), 1, 0, 1), (1, 1, 70, 120, (1, 1), (1, 1), 1, 0, 1), (5, 1, 90, 32, (1,), (1,), 3, 1, 1)]  # images of one element; of padding
    for n, groups, ci, co, size, kernel, stride, padding, dilation in cases:
        x, w = r.data((n, groups * ci, *size)), r.data((groups * co, ci, *kernel))
        X, W = x.astype(np.float64), w.astype(np.float64)
        how = (stride, padding, dilation, groups)
        y, bound = conv(X, W, *how), conv(np.abs(X), np.abs(W), *how)
        dy = r.data(y.shape)
        attrs = f"stride={stride}, padding={padding}, dilation={dilation}, groups={groups}"
        op, name = f"Conv{len(size)}D", f"{n}x{groups}x{ci}->{co} {size} by {kernel} {how}"
        sig = f"x: f32[{text(x.shape)}], w: f32[{text(w.shape)}]"
        for more in ((), ("--fix", "w"), ("--threads", "2")):
            r.case(f"{op} {name} {' '.join(more)}", f"def f({sig}) {{ {op}(x, w, {attrs}) }}", [x, w], y, bound, w[0].size, "f32", *more)
        loss = f"def f({sig}, c: f32[{text(y.shape)}]) {{ Sum({op}(x, w, {attrs}) * c) }}"
        dx, dw = conv_gradients(X, W, dy.astype(np.float64), *how)
        bx, bw = conv_gradients(np.abs(X), np.abs(W), np.abs(dy).astype(np.float64), *how)
        for more in ((), ("--fix", "w")):
            r.case(f"{op} {name} by x {' '.join(more)}", loss, [x, w, dy], dx, bx, w[:, 0].size, "f32", "--grad", "--wrt", "x", *more)
        r.case(f"{op} {name} by w", loss, [x, w, dy], dw, bw, y[:, 0].size, "f32", "--grad", "--wrt", "w")


def infinite_edges(r):
    """What is outside takes no part: no infinity at an edge meets it, in the result and in both gradients."""
    for size, kernel, stride, padding in (((9, 21), 3, 1, 1), ((9, 21), 5, 2, 2), ((6, 8), 7, 1, 3), ((5, 70), 3, 1, 2)):
        x, w = r.data((1, 9, *size)), r.data((9, 1, kernel, kernel))
        attrs = f"stride={stride}, padding={padding}, groups=9"
        shape = conv(x, w, stride, padding, 1, 9).shape
        dy = r.data(shape)
        for a in (x, dy):
            a[:, :, 0, 0], a[:, :, -1, -1], a[:, :, 1, -1] = np.inf, -np.inf, np.nan
        sig = f"x: f32[1, 9, {text(size)}], w: f32[{text(w.shape)}]"
        loss = f"def f({sig}, c: f32[{text(shape)}]) {{ Sum(Conv2D(x, w, {attrs}) * c) }}"
        for program, args, more in ((f"def f({sig}) {{ Conv2D(x, w, {attrs}) }}", [x, w], ()), (loss, [x, w, dy], ("--grad", "--wrt", "x")),
                                    (loss, [x, w, dy], ("--grad", "--wrt", "w"))):
            if not r.is_next():
                continue
            got, problem = r.run(program, args, *more)
            want, other = r.run(program, args, *more, "--backend", "interp")
            if not problem and not other and not np.allclose(got, want, 1e-4, 1e-4, equal_nan=True):
                problem = f"{got}\nfor\n{want}"
            r.tap.case(f"infinities at the edges of {size} by {kernel}, {attrs} {' '.join(more)}", problem or other)


def empty_inputs(r):
    """Padding alone is read."""
    x, w = r.data((1, 300, 9, 0)), r.data((300, 1, 3, 3))
    sig, y = "x: f32[1, 300, 9, 0], w: f32[300, 1, 3, 3]", "Conv2D(x, w, padding=4, groups=300)"
    r.case("a convolution of no elements", f"def f({sig}) {{ {y} }}", [x, w], np.zeros((1, 300, 15, 6)), np.zeros(1), 9, "f32")
    r.case("its gradient by w", f"def f({sig}) {{ Sum({y}) }}", [x, w], np.zeros(w.shape), np.zeros(1), 9, "f32", "--grad", "--wrt", "w")


def with_bias(r):
    for stride, padding in ((1, 1), (2, 0), (3, 1)):
        how = (stride, padding, 1, 1)
        x, w, b = r.data((2, 12, 10, 9)), r.data((16, 12, 3, 3)), r.data((16,))
        X, W, B = (v.astype(np.float64) for v in (x, w, b))
        B = B.reshape(1, -1, 1, 1)
        for more in ((), ("--fix", "w,b")):
            r.case(f"Conv2D with a bias {how} {' '.join(more)}",
                   f"def f(x: f32[2, 12, 10, 9], w: f32[16, 12, 3, 3], b: f32[16]) {{ Conv2D(x, w, b, stride={stride}, padding={padding}) }}",
                   [x, w, b], conv(X, W, *how) + B, conv(np.abs(X), np.abs(W), *how) + np.abs(B), 109, "f32", *more)
        w, W = np.swapaxes(w, 0, 1).copy(), np.swapaxes(W, 0, 1)  # [in, out, 3, 3]
        y = np.zeros((2, 16, *((n - 1) * stride + 3 - 2 * padding for n in (10, 9))))
        r.case(f"ConvTranspose2D with a bias {how}",
               f"def f(x: f32[2, 12, 10, 9], w: f32[12, 16, 3, 3], b: f32[16]) {{ ConvTranspose2D(x, w, b, stride={stride}, padding={padding}) }}",
               [x, w, b], conv_gradients(y, W, X, *how)[0] + B, conv_gradients(y, np.abs(W), np.abs(X), *how)[0] + np.abs(B),
               109, "f32")


def followed_convolutions(r):
    """Bias, BatchNorm, residual and activation after a convolution: against NumPy, and against the same with the convolution as a result of
    its own, whose bytes must be equal. Rows of sums that are dense and that are not, channels in parts, groups, patches, one dim and three."""
    cases = [(2, 1, 8, 12, (9, 11), (3, 3), 1, 1), (1, 1, 16, 128, (14, 14), (3, 3), 2, 1), (1, 1, 32, 192, (14, 14), (1, 1), 1, 0),
             (2, 2, 8, 6, (8, 9), (3, 3), 1, 0), (1, 1, 3, 24, (34, 51), (16, 16), 16, 0), (3, 1, 6, 10, (40,), (5,), 3, 2),
             (1, 1, 4, 8, (5, 6, 7), (2, 3, 3), 1, 1), (1, 1, 8, 9, (6, 140), (3, 3), 1, 1), (1, 8, 1, 1, (10, 12), (3, 3), 1, 1), (2, 3, 1, 2, (9, 34), (5, 5), 2, 2),
             (1, 2, 1, 1, (3, 6, 9), (3, 3, 3), 1, 1), (2, 1, 32, 32, (7, 8), (3, 3), 1, 1), (6, 1, 70, 40, (1, 1), (1, 1), 1, 0), (1, 1, 70, 120, (1, 1), (1, 1), 1, 0)]
    for n, groups, ci, co, size, kernel, stride, padding in cases:
        all_ = groups * co
        x, w, b = r.data((n, groups * ci, *size)), r.data((all_, ci, *kernel)), r.data((all_,))
        s, t, m, v = r.data((all_,)), r.data((all_,)), r.data((all_,)), np.abs(r.data((all_,)))
        X, W, B, S, T, M, V = (a.astype(np.float64) for a in (x, w, b, s, t, m, v))
        column = (1, -1) + (1,) * len(size)
        how = (stride, padding, 1, groups)
        y = conv(X, W, *how) + B.reshape(column)
        factor = (S / np.sqrt(V + 1e-5)).reshape(column)
        bound = (conv(np.abs(X), np.abs(W), *how) + np.abs(B.reshape(column)) + np.abs(M.reshape(column))) * np.abs(factor) + 3
        h = r.data(y.shape)
        want = np.maximum((y - M.reshape(column)) * factor + T.reshape(column) + h, 0)
        op = f"Conv{len(size)}D"
        sig = ", ".join(f"{k}: f32[{text(a.shape)}]" for k, a in zip("xwbhstmv", (x, w, b, h, s, t, m, v)))
        attrs = f"stride={stride}, padding={padding}, groups={groups}"
        args, after = [x, w, b, h, s, t, m, v], "Relu(BatchNorm(c, s, t, m, v) + h)"
        joined = f"def f({sig}) {{ c = {op}(x, w, b, {attrs}); {after} }}"
        apart = f"def f({sig}) {{ c = {op}(x, w, b, {attrs}); Concat({after}, c, axis=0) }}"
        for more in ((), ("--fix", "w,b,s,t,m,v"), ("--threads", "2")):
            name = f"{op} {n}x{groups}x{ci}->{co} {size} by {kernel} {how} {' '.join(more)}, followed"
            r.case(name, joined, args, want, bound, w[0].size + 8, "f32", *more)
            if not r.is_next():
                continue
            one, problem = r.run(joined, args, *more)
            two, other = r.run(apart, args, *more)
            if not problem and not other and one.tobytes() != two[:n].tobytes():
                problem = "another value than the convolution written by itself gives"
            r.tap.case(f"{name}, bit for bit", problem or other)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def followed(r):
    """What comes after a product is done while a block of it is at hand, in registers or behind. Two sizes: K in one
    block, and in more; the columns fill no panel. The bound counts the product's terms: each function's slope is
    at most 1.13 where it is not bounded itself."""
    cases = [("Relu(x @ w + b)", lambda p, b, y: np.maximum(p + b, 0)),
             ("Relu(x @ w)", lambda p, b, y: np.maximum(p, 0)),
             ("y + x @ w", lambda p, b, y: p + y),
             ("Relu(b + x @ w + y)", lambda p, b, y: np.maximum(p + b + y, 0)),
             ("Relu((x @ w + y) + b)", lambda p, b, y: np.maximum(p + b + y, 0)),
             ("Tanh(x @ w + b)", lambda p, b, y: np.tanh(p + b)),
             ("Sigmoid(x @ w + b)", lambda p, b, y: 1 / (1 + np.exp(-(p + b)))),
             ("0.5 * (x @ w) + y", lambda p, b, y: 0.5 * p + y),
             ("(x @ w + b) * Sigmoid(x @ w + b)", lambda p, b, y: (p + b) / (1 + np.exp(-(p + b)))),
             ("Softmax(x @ w + b)", lambda p, b, y: softmax(p + b)),
             ("h = x @ w + y; h + Softmax(Tanh(h))", lambda p, b, y: p + y + softmax(np.tanh(p + y))),
             ("Abs(Reshape(x @ w, shape=(N, M)))", lambda p, b, y: np.abs(p).reshape(p.shape[::-1]))]
    for (m, k, n), threads in (((70, 90, 50), "1"), ((65, 1700, 37), "1"), ((200, 130, 333), "2")):
        x, w, b, y = r.data((m, k)), r.data((k, n)), r.data((n,)), r.data((m, n))
        X, W, B, Y = (v.astype(np.float64) for v in (x, w, b, y))
        size = 1.13 * (np.abs(X) @ np.abs(W) + np.abs(B) + np.abs(Y))
        for what, f in cases:
            want = f(X @ W, B, Y)
            sig = f"x: f32[{m}, {k}], w: f32[{k}, {n}], b: f32[{n}], y: f32[{m}, {n}]"
            body = what.replace("(N, M)", f"({n}, {m})")
            r.case(f"{what} of {m}x{k}x{n}, {threads} threads", f"def f({sig}) {{ {body} }}", [x, w, b, y], want,
                   size.reshape(want.shape), k, "f32", "--threads", threads)
    x, w, y = r.data((3, 40, 50)), r.data((3, 50, 33)), r.data((33,))
    X, W, Y = (v.astype(np.float64) for v in (x, w, y))
    r.case("Tanh of a batch of products", "def f(x: f32[3, 40, 50], w: f32[3, 50, 33], y: f32[33]) { Tanh(x @ w + y) }",
           [x, w, y], np.tanh(X @ W + Y), np.abs(X) @ np.abs(W) + np.abs(Y), 51, "f32")
    x, w, b = r.data((20, 300)), r.data((90, 300)), r.data((90,))
    X, W, B = (v.astype(np.float64) for v in (x, w, b))
    r.case("Relu of Linear", "def f(x: f32[20, 300], w: f32[90, 300], b: f32[90]) { Relu(Linear(x, w, b)) }", [x, w, b],
           np.maximum(X @ W.T + B, 0), np.abs(X) @ np.abs(W.T) + np.abs(B), 301, "f32")
    round_bf16 = 2.0**16  # of f32's unit: 2^-8
    r.case("Linear of bf16 with a bias", "def f(x: f32[20, 300], w: f32[90, 300], b: f32[90]) {"
           " Cast(Linear(Cast(x, dtype=bf16), Cast(w, dtype=bf16), Cast(b, dtype=bf16)), dtype=f32) }", [x, w, b],
           X @ W.T + B, (np.abs(X) @ np.abs(W.T) + np.abs(B)) * round_bf16 / 300, 300, "f32")


def strided(r):
    """Operands that are slices and permutations of tensors in memory, which kernels read in their place."""
    x, w, h = r.data((70, 260)), r.data((64, 384)), r.data((3, 60, 4, 40))
    X, W, H = (v.astype(np.float64) for v in (x, w, h))
    t = H.transpose(0, 2, 1, 3)
    cases = [
        ("columns of x", "x[:, 32:96] @ w", X[:, 32:96], W),
        ("every other row of x", "x[3:69:2, 100:164] @ w", X[3:69:2, 100:164], W),
        ("every other column is copied", "x[:, 0:128:2] @ w", X[:, 0:128:2], W),
        ("columns of w", "x[:, 0:64] @ w[:, 128:256]", X[:, :64], W[:, 128:256]),
        ("rows of w, transposed", "MatMul(x[:, 7:60], w[3:56, 5:], ta=false, tb=false)", X[:, 7:60], W[3:56, 5:]),
        ("a transposed slice", "Transpose(w[:, 10:80]) @ x[6:, 200:]", W[:, 10:80].T, X[6:, 200:]),
        ("both transposed", "MatMul(x[:, 0:33], w[:, 9:79], ta=true, tb=true)", X[:, :33].T, W[:, 9:79].T),
        ("a flipped slice is copied", "x[:, 95:31:-1] @ w", X[:, 95:31:-1], W),
        ("Linear by a slice", "Linear(x[:, 0:50], w[:, 50:100])", X[:, :50], W[:, 50:100].T),
        ("heads", "Transpose(h, axes=(0, 2, 1, 3)) @ Transpose(h, axes=(0, 2, 3, 1))", t, t.transpose(0, 1, 3, 2)),
        ("heads by SwapAxes of a slice", "SwapAxes(h[:, :, 1:3, :], axis1=1, axis2=2) @ SwapAxes(h, axis1=1, axis2=2)[0:1, 2, 0:40, :]",
         t[:, 1:3], t[0:1, 2, :40]),
        ("heads of flat rows", "SwapAxes(Reshape(h, (3, 240, 40))[:, 5:205], axis1=1, axis2=2) @ Reshape(h, (720, 40))[20:220]",
         H.reshape(3, 240, 40)[:, 5:205].transpose(0, 2, 1), H.reshape(720, 40)[20:220]),
        ("one matrix for all heads", "Transpose(h, axes=(0, 2, 1, 3)) @ w[0:40]", t, W[:40]),
    ]
    for name, text_, a, b in cases:
        r.case(f"strided: {name}", f"def f(x: f32[70, 260], w: f32[64, 384], h: f32[3, 60, 4, 40]) {{ {text_} }}", [x, w, h], a @ b,
               np.abs(a) @ np.abs(b), a.shape[-1], "f32")
    r.case("strided: a view that products and others read", "def f(x: f32[70, 260], w: f32[64, 384], h: f32[3, 60, 4, 40]) "
           "{ v = x[:, 32:96]; Relu(v @ w) + (v @ w[:, 0:384]) + Sum(Exp(v)) }", [x, w, h],
           np.maximum(X[:, 32:96] @ W, 0) + X[:, 32:96] @ W + np.exp(X[:, 32:96]).sum(), np.abs(X[:, 32:96]) @ np.abs(W) + 1e4, 64, "f32")
    r.case("strided: gradients", "def g(x, w) { Sum(Square(x[:, 32:96] @ w[:, 8:72])) }\n"
           "def f(x: f32[70, 260], w: f32[64, 384], h: f32[3, 60, 4, 40]) { grad(g, wrt=1)(x, w) }", [x, w, h],
           np.pad(2 * X[:, 32:96].T @ (X[:, 32:96] @ W[:, 8:72]), ((0, 0), (8, 312))),
           np.pad(np.abs(X[:, 32:96]).T @ (np.abs(X[:, 32:96]) @ np.abs(W[:, 8:72])), ((0, 0), (8, 312))) * 2 + 1, 200, "f32")


def attend(q, k, v, may, added, scale):
    """In double, of f64 arrays."""
    s = q @ np.swapaxes(k, -1, -2) * scale + added
    s = np.where(may, s, -np.inf)
    top = s.max(-1, keepdims=True)
    e = np.exp(s - np.where(np.isinf(top), 0, top))
    total = e.sum(-1, keepdims=True)
    return (e / np.where(total == 0, 1, total)) @ v


def attention(r):
    """By blocks of queries: against NumPy. Keys in whole chunks and not, more and fewer than queries, masks, heads that share keys, one query. Of f16
    sums are f32, so the result is off by its rounding."""
    cases = [((2, 3), 40, 70, 16, 24, "", False), ((5,), 33, 64, 9, 8, "", True), ((2, 2), 70, 130, 16, 16, "", True), ((3,), 100, 40, 12, 20, "", True),
             ((2, 3), 40, 90, 16, 16, "bool", False), ((2, 3), 40, 90, 16, 16, "f", True), ((), 8, 600, 8, 8, "", False),
             ((2, 3), 1, 600, 64, 64, "", False), ((3,), 1, 1030, 32, 40, "f", False), ((2, 2), 5, 700, 16, 8, "bool", False), ((2, 2), 3, 1000, 16, 24, "", True)]
    for (batch, l, s, d, dv, mask, causal), dtype in itertools.product(cases, ("f32", "f64", "f16")):
        q, k, v = r.data((*batch, l, d), dtype), r.data((*batch[:-1], *(1,) * len(batch[-1:]), s, d), dtype), r.data((*batch, s, dv), dtype)
        may, added, more, sig = np.ones((l, s), bool), np.zeros(()), [], ""
        if mask == "bool":
            may = r.rng.random((*batch, l, s)) < 0.6
            may[..., l // 2, :] = False
            more, sig = [may], f", m: bool[{text(may.shape)}]"
        elif mask:
            added = r.data((l, s), dtype)
            more, sig = [added], f", m: {dtype}[{l}, {s}]"
        if causal:
            may = may & np.tri(l, s, dtype=bool)
        want = attend(*(a.astype(np.float64) for a in (q, k, v)), may, added.astype(np.float64), 0.3)
        args = "q, k, v, m" if more else "q, k, v"
        sig = ", ".join(f"{n}: {dtype}[{text(a.shape)}]" for n, a in zip("qkv", (q, k, v))) + sig
        program = f"def f({sig}) {{ Attention({args}, causal={'true' if causal else 'false'}, scale=0.3) }}"
        for options in ((), ("--threads", "2")):
            r.case(f"Attention {batch} {l}x{s}, {d} and {dv}, {dtype} {mask} {causal} {' '.join(options)}", program, [q, k, v, *more], want,
                   np.full(want.shape, np.abs(v).max() * 4), -7 if dtype == "f16" else s + d, dtype, *options)


def values_that_are_not_finite(r):
    """A weight of 0 adds nothing: what is masked may be anything."""
    q, k, v = r.data((3, 40, 16)), r.data((3, 70, 16)), r.data((3, 70, 8))
    v[1, 60:] = np.nan
    v[2, 69, 3] = np.inf
    program = "def f(q: f32[3, 40, 16], k: f32[3, 70, 16], v: f32[3, 70, 8]) { Attention(q, k, v, causal=true) }"
    if r.is_next():
        got, problem = r.run(program, [q, k, v])
        want, other = r.run(program, [q, k, v], "--backend", "interp")
        if not problem and not other and not np.allclose(got, want, 1e-5, 1e-5, equal_nan=True):
            problem = f"{got}\nfor\n{want}"
        r.tap.case("Attention to values of which some that are masked are not finite", problem or other)
    q, k, v = r.data((2, 3, 64), "f16"), r.data((2, 70, 64), "f16"), r.data((2, 70, 24), "f16")
    v[0, 3:66], k[1, 69] = np.nan, np.inf
    program = "def f(q: f16[2, 3, 64], k: f16[2, 70, 64], v: f16[2, 70, 24]) { Attention(q, k, v, causal=true) }"
    if r.is_next():
        got, problem = r.run(program, [q, k, v])
        want, other = r.run(program, [q, k, v], "--backend", "interp")
        if not problem and not other and not (np.isfinite(want).any() and np.allclose(got, want, 1e-2, 1e-2, equal_nan=True)):
            problem = f"{got}\nfor\n{want}"
        r.tap.case("Attention of few queries of f16 to values and keys that are not finite", problem or other)


# Slices of one product and its bias that are heads; what reads them
FUSED = {
    "slices, then heads": [f"Transpose(Reshape(Slice(y, start={i * 96}, stop={i * 96 + 96}, axis=2), (2, 37, 6, 16)), (0, 2, 1, 3))" for i in range(3)],
    "heads, then slices": [f"Squeeze(Slice(Transpose(Reshape(y, (2, 37, 3, 6, 16)), (2, 0, 3, 1, 4)), start={i}, stop={i + 1}, axis=0), (0,))" for i in range(3)],
}


def heads_of_one_product(r):
    """They are read where they are: the product is the one array that is not of a block of queries."""
    x, w, b = r.data((2, 37, 32)), r.data((32, 288)) * np.float32(0.2), r.data((288,))
    y = x.astype("f8") @ w.astype("f8") + b
    q, k, v = y.reshape(2, 37, 3, 6, 16).transpose(2, 0, 3, 1, 4)
    want = attend(q, k, v, np.ones((37, 37), bool), 0, 0.25)
    for name, heads in FUSED.items():
        for way in ("Attention({}, {}, {})", "Softmax({} @ Transpose({}, (0, 1, 3, 2)) * 0.25) @ {}"):
            program = f"def f(x: f32[2, 37, 32], w: f32[32, 288], b: f32[288]) {{\n  y = x @ w + b\n  {way.format(*heads)}\n}}\n"
            r.case(f"Heads of one product: {name}, {way[:9]}", program, [x, w, b], want, np.full(want.shape, np.abs(v).max() * 4), 37 + 16 + 32, "f32")
            if way[0] == "A" and r.is_next():
                path = os.path.join(r.folder, "p.anf")
                with open(path, "w", encoding="utf-8") as f:
                    f.write(program)
                tir = execute([r.anfora, "print", "--as", "tir", path + ":f"])
                arrays = re.findall(r"tensor (t(?:_\d+)?):", tir.stdout)
                r.tap.case(f"Heads of one product: {name}: no copies", "" if len(arrays) == 1 else f"{arrays} {tir.stderr}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        r = Runner(sys.argv[1], folder, int(sys.argv[2]) if len(sys.argv) > 2 else 1)
        products(r)
        sums_of_loops(r)
        convolutions(r)
        infinite_edges(r)
        empty_inputs(r)
        with_bias(r)
        followed_convolutions(r)
        followed(r)
        strided(r)
        attention(r)
        values_that_are_not_finite(r)
        heads_of_one_product(r)
        r.tap.done()


main()
