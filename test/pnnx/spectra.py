# SPDX-License-Identifier: Apache-2.0
"""Cases of test_layers.py: Fourier transforms against NumPy, losses of alignments against all paths, bags of embeddings."""
import itertools

import numpy as np

ONE = {"fft": True, "ifft": True, "rfft": False, "ihfft": False, "irfft": True, "hfft": True}  # does it take complex numbers?
MORE = {"fft": True, "ifft": True, "rfft": False, "irfft": True}


def joined(kind, words, z, want):
    """A transform of complex numbers, whose parts are two inputs; parts of the result are two outputs where it is complex."""
    before = ["torch.complex z 2 1 x0 x1 z", f"{kind} f 1 1 z f {words}"]
    whole = [want.real.astype("f4"), want.imag.astype("f4")] if np.iscomplexobj(want) else want.astype("f4")
    return [np.ascontiguousarray(z.real), np.ascontiguousarray(z.imag)], whole, before


def split(check, name, kind, words, x, want):
    """The case, with its complex inputs and outputs in parts."""
    inputs, whole, before = joined(kind, words, x, want) if np.iscomplexobj(x) else ([x], None, [f"{kind} f 1 1 x0 f {words}"])
    if np.iscomplexobj(want):
        check(name, "torch.view_as_real", inputs, np.stack([want.real, want.imag], -1).astype("f4"), before=before, takes=["f"])
    else:
        check(name, "torch.positive", inputs, want.astype("f4"), before=before, takes=["f"])


def transforms(check, rand):
    for n in (1, 2, 6, 35, 37, 96, 120):
        x = rand(3, n)
        for kind, is_complex in ONE.items():
            z = (x + 1j * rand(3, n)).astype("c8") if is_complex else x
            if kind in ("irfft", "hfft") and n == 1:
                continue
            split(check, f"torch.fft.{kind} of {n}", f"torch.fft.{kind}", "n=None dim=-1 norm=None", z, getattr(np.fft, kind)(z))
    x, y = rand(4, 5, 6), rand(2, 4, 5, 6)
    for kind, is_complex in ONE.items():
        for norm in ("backward", "ortho", "forward"):
            z = (x + 1j * x[::-1]).astype("c8") if is_complex else x
            split(check, f"torch.fft.{kind}, norm {norm}", f"torch.fft.{kind}", f"n=7 dim=1 norm={norm}", z, getattr(np.fft, kind)(z, 7, 1, norm))
    for kind, is_complex in MORE.items():
        z = (y + 1j * y[::-1]).astype("c8") if is_complex else y
        split(check, f"torch.fft.{kind}2", f"torch.fft.{kind}2", "s=None dim=(-2,-1) norm=None", z, getattr(np.fft, kind + "2")(z))
        split(check, f"torch.fft.{kind}2 of sizes", f"torch.fft.{kind}2", "s=(6,4) dim=(1,2) norm=ortho", z, getattr(np.fft, kind + "2")(z, (6, 4), (1, 2), "ortho"))
        split(check, f"torch.fft.{kind}n", f"torch.fft.{kind}n", "s=None dim=None norm=None", z, getattr(np.fft, kind + "n")(z, axes=(0, 1, 2, 3)))
    for kind in [*ONE, *(k + n for k in MORE for n in "2n")]:  # as pnnx had it before
        z = (x + 1j * x[::-1]).astype("c8") if ONE[kind.rstrip("2n")] else x
        split(check, f"torch.fft_{kind}", f"torch.fft_{kind}", "norm=ortho", z, getattr(np.fft, kind)(z, norm="ortho"))
    whole = np.arange(12, dtype="i8").reshape(3, 4)
    split(check, "torch.fft.fft of integers", "torch.fft.fft", "n=None dim=-1 norm=None", whole, np.fft.fft(whole))


def windowed_spectrum(x, n, hop, window, onesided):
    w = np.zeros(n)
    w[(n - len(window)) // 2:][:len(window)] = window
    frames = np.stack([x[..., i:i + n] for i in range(0, x.shape[-1] - n + 1, hop)], -2) * w
    return np.moveaxis((np.fft.rfft if onesided else np.fft.fft)(frames), -1, -2)


def frames(check, rand):
    x, w, short = rand(2, 50), np.hanning(12).astype("f4"), np.hanning(10).astype("f4")
    common = "n_fft=12 hop_length=5 normalized=False pad_mode=reflect return_complex=True"
    split(check, "torch.stft", "torch.stft", f"center=False {common} onesided=True win_length=None window=None", x, windowed_spectrum(x, 12, 5, np.ones(12), True))
    split(check, "torch.stft of a short frame without window", "torch.stft", f"center=False {common} onesided=True win_length=8", x, windowed_spectrum(x, 12, 5, np.ones(8), True))
    for name, window in (("", w), (", short window", short)):
        padded = np.pad(x, ((0, 0), (6, 6)), mode="reflect")
        want = windowed_spectrum(padded, 12, 5, window, False)
        check("torch.stft in the middle" + name, "torch.view_as_real", [x, window], np.stack([want.real, want.imag], -1).astype("f4"),
              before=[f"torch.stft f 2 1 x0 x1 f center=True {common} onesided=False win_length={len(window)} $input=x0 $window=x1"], takes=["f"])
    want = windowed_spectrum(x, 12, 5, np.ones(12), True) / 12 ** 0.5
    check("torch.stft, normalized, as real numbers", "torch.stft center=False n_fft=12 hop_length=5 normalized=True onesided=True pad_mode=reflect return_complex=False win_length=12",
          [x], np.stack([want.real, want.imag], -1).astype("f4"))
    for name, n, hop, more, length in (("", 12, 3, "length=None", 48), (", of a length", 12, 3, "length=40", 40), (", default step", 16, 4, "length=60 hop_length=None", 60)):
        window = np.hanning(n + 2)[1:-1].astype("f4")
        y = rand(2, 48) if n == 12 else rand(2, 64)
        steps = "" if "hop" in more else f"hop_length={hop} "
        forth = f"torch.stft f 2 1 x0 x1 f center=True n_fft={n} hop_length={hop} normalized=True onesided=True pad_mode=reflect return_complex=True win_length={n} $input=x0 $window=x1"
        check("torch.istft" + name, "torch.positive", [y, window], y[:, :length],
              before=[forth, f"torch.istft b 2 1 f x1 b n_fft={n} {steps}center=True normalized=True onesided=True return_complex=False win_length=None {more} $input=f $window=x1"], takes=["b"])


def paths(log_p, labels, blank):
    """-log of the sum over all paths that become the labels when doubles and blanks go."""
    total = 0
    for path in itertools.product(range(log_p.shape[1]), repeat=len(log_p)):
        kept = [c for i, c in enumerate(path) if (i == 0 or path[i - 1] != c) and c != blank]
        if kept == list(labels):
            total += np.exp(sum(log_p[i, c] for i, c in enumerate(path)))
    return -np.log(total)


def alignments(check, rand):
    x = rand(5, 3, 3)
    log_p = (x - np.log(np.exp(x).sum(-1, keepdims=True))).astype("f4")
    rows = np.array([[1, 2], [2, 2], [1, 0]])
    inputs, lengths = np.array([5, 4, 3]), np.array([2, 2, 0])
    want = np.array([paths(log_p[:inputs[i], i].astype("f8"), rows[i][:lengths[i]], 0) for i in range(3)])
    line = "F.ctc_loss blank=0 zero_infinity=False reduction="
    check("F.ctc_loss", line + "none", [log_p, rows, inputs, lengths], want.astype("f4"))
    check("F.ctc_loss, mean", line + "mean", [log_p, rows, inputs, lengths], np.float32(np.mean(want / np.maximum(lengths, 1))))
    flat = np.array([1, 2, 2, 2])
    check("F.ctc_loss of joined targets", line + "sum", [log_p, flat, inputs, lengths], np.float32(want.sum()))
    check("F.ctc_loss of one sample", line + "sum", [log_p[:, 0], rows[0], inputs[:1], lengths[:1]], want[0].astype("f4"))
    other = np.array([[0, 1], [1, 1], [0, 0]])
    want = np.array([paths(log_p[:, i].astype("f8"), other[i], 2) for i in range(3)])
    full = np.array([5, 5, 5])
    check("F.ctc_loss, another blank", "F.ctc_loss blank=2 reduction=none", [log_p, other, full, np.array([2, 2, 2])], want.astype("f4"))
    check("F.ctc_loss that no path has", "F.ctc_loss blank=0 reduction=none zero_infinity=True", [log_p[:1], rows, np.array([1, 1, 1]), np.array([2, 2, 2])], np.zeros(3, "f4"))
    more = [f"pnnx.Expression {name} 0 1 {name} expr={value}" for name, value in (("b", 0), ("r", 2), ("z", "False"))]
    want = sum(paths(log_p[:inputs[i], i].astype("f8"), rows[i][:lengths[i]], 0) for i in range(3))
    check("aten::ctc_loss", "aten::ctc_loss", [log_p, rows, inputs, lengths], np.float32(want), before=more, takes=["x0", "x1", "x2", "x3", "b", "r", "z"])


def bags(check, rand):
    w, at, own = rand(5, 3), np.array([0, 2, 1, 1, 4, 3]), rand(6)
    offsets = np.array([0, 2, 2, 5])
    parts = [slice(0, 2), slice(2, 2), slice(2, 5), slice(5, 6)]
    first = np.zeros(3)
    wants = {0: [w[at[p]].sum(0) for p in parts], 1: [w[at[p]].mean(0) if len(at[p]) else first for p in parts],
             2: [w[at[p]].max(0) if len(at[p]) else first for p in parts], 3: [(w[at[p]] * own[p, None]).sum(0) for p in parts],
             4: [w[at[p]][at[p] != 1].mean(0) if len(at[p][at[p] != 1]) else first for p in parts]}
    for case, want in wants.items():
        values = {"s": "False", "m": 0 if case == 3 else 1 if case == 4 else case, "q": "False", "p": "None", "l": "False", "i": 1 if case == 4 else -1}
        before = [f"pnnx.Expression {k} 0 1 {k} expr={v}" for k, v in values.items() if not (k == "p" and case == 3)]
        takes = ["x0", "x1", "x2", "s", "m", "q", "x3" if case == 3 else "p", "l", "i"]
        before.append(f"aten::embedding_bag e 9 4 {' '.join(takes)} y a b c")
        check(f"aten::embedding_bag {case}", "torch.positive", [w, at, offsets] + ([own] if case == 3 else []), np.array(want).astype("f4"), before=before, takes=["y"])


def groups(check, rand):
    """Rows of each group by the matrix of the group; the second group has none."""
    x, w, ends = rand(7, 4), rand(3, 4, 5), np.array([2, 2, 7], "i4")
    want = np.stack([row @ w[np.searchsorted(ends, i, "right")] for i, row in enumerate(x)])
    before = ["pnnx.Expression n 0 1 n expr=None", "aten::_grouped_mm e 5 1 x0 x1 x2 n n y"]
    check("aten::_grouped_mm", "torch.positive", [x, w, ends], want, before=before, takes=["y"])


def cases(check, rand):
    for part in (transforms, frames, alignments, bags, groups):
        part(check, rand)
