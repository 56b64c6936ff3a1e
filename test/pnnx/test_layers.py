#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Layers by themselves, against NumPy; every type that is registered has a case here, or is in a model whose
outputs test_runtime.c compares with PyTorch's. test_layers.py ANFORA LIST_TYPES"""
import glob
import math
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

import elementary
import spectra
from model import FIXTURES, ROOT, Tap, differ, run, told, write

TAP = Tap()
RNG = np.random.default_rng(7)
KNOWN = subprocess.run([sys.argv[2]], capture_output=True, text=True, check=True).stdout.split()
# What KuiperInfer registers, and the operator types of 22 modules that pnnx wrote.
KUIPER = """nn.Conv2d nn.ConvTranspose2d nn.BatchNorm2d nn.Linear nn.ReLU nn.ReLU6 nn.SiLU nn.Sigmoid nn.Hardsigmoid nn.Hardswish
nn.Softmax F.softmax nn.MaxPool2d nn.AdaptiveAvgPool2d F.adaptive_avg_pool2d nn.Upsample F.upsample torch.cat torch.flatten Tensor.view
models.yolo.Detect pnnx.Expression"""
WHEEL = """pnnx.Input pnnx.Output pnnx.Attribute pnnx.Expression prim::TupleConstruct nn.Conv2d nn.ConvTranspose2d nn.Linear nn.Embedding nn.LSTM
nn.MultiheadAttention F.scaled_dot_product_attention torch.matmul nn.LayerNorm nn.RMSNorm nn.GroupNorm nn.ReLU F.relu nn.ReLU6 nn.SiLU F.silu
nn.GELU F.gelu nn.Hardswish nn.Hardsigmoid nn.PReLU F.leaky_relu F.sigmoid F.tanh nn.Softmax F.softmax torch.clamp nn.MaxPool2d nn.AvgPool2d
nn.AdaptiveAvgPool2d nn.Upsample F.upsample_nearest F.pad Tensor.reshape Tensor.permute torch.transpose torch.flatten torch.cat torch.stack
torch.chunk torch.tensor_split torch.unbind Tensor.slice Tensor.select Tensor.index torch.roll Tensor.new_zeros torch.gt torch.mean torch.sum
torch.view_as_real"""
SEEN = {"pnnx.Input", "pnnx.Output"}


def rand(*shape):
    return RNG.standard_normal(shape).astype("f4")


def check(name, operator, inputs, want, weights=None, outputs=("out",), before=(), takes=None):
    """operator is the line without its operands: "nn.ReLU a=1 b=2". It takes the model's inputs, or what `takes` says,
    which the lines `before` give."""
    weights = weights or {}
    kind, *rest = operator.split()
    SEEN.update([kind] + [line.split()[0] for line in before])
    takes = takes or [f"x{i}" for i in range(len(inputs))]
    names = " ".join([*takes, *outputs])
    line = f"{kind} op {len(takes)} {len(outputs)} {names} {' '.join(rest)} {told(weights, 'op')}".rstrip()
    write("m", inputs, [*before, line], weights, outputs)
    got = run("m.pnnx.param", inputs)
    wants = want if isinstance(want, (list, tuple)) else [want]
    if isinstance(got, str):
        return TAP.case(name, got)
    problems = [differ(g, w) for g, w in zip(got, wants)] + ([] if len(got) == len(wants) else ["wrong number of outputs"])
    return TAP.case(name, "\n".join(p for p in problems if p))


def sigmoid(x):
    return (1 / (1 + np.exp(-x.astype("f8")))).astype("f4")


def windows(x, k, s, p, fill):
    """[n, c, h, w] to [n, c, oh, ow, kh, kw]"""
    x = np.pad(x, ((0, 0), (0, 0), (p[0], p[0]), (p[1], p[1])), constant_values=fill)
    v = np.lib.stride_tricks.sliding_window_view(x, k, axis=(2, 3))
    return v[:, :, :: s[0], :: s[1]]


def conv2d(x, w, b, s=(1, 1), p=(0, 0), groups=1):
    parts = []
    for g in range(groups):
        c, o = x.shape[1] // groups, w.shape[0] // groups
        v = windows(x[:, g * c:(g + 1) * c].astype("f8"), w.shape[2:], s, p, 0)
        parts.append(np.einsum("nchwij,ocij->nohw", v, w[g * o:(g + 1) * o].astype("f8")))
    return (np.concatenate(parts, 1) + b[:, None, None]).astype("f4")


def conv_transpose2d(x, w, b, s, p, op):
    n, c, h, wd = x.shape
    kh, kw = w.shape[2:]
    y = np.zeros((n, w.shape[1], (h - 1) * s[0] + kh + op[0], (wd - 1) * s[1] + kw + op[1]))
    for i in range(h):
        for j in range(wd):
            y[:, :, i * s[0]:i * s[0] + kh, j * s[1]:j * s[1] + kw] += np.einsum("nc,coij->noij", x[:, :, i, j], w)
    y = y[:, :, p[0]:y.shape[2] - p[0], p[1]:y.shape[3] - p[1]]
    return (y + b[:, None, None]).astype("f4")


def activations():
    x = rand(2, 3, 4) * 4
    y = x.astype("f8")
    for name, want in [
        ("nn.ReLU", np.maximum(x, 0)), ("nn.ReLU6", np.clip(x, 0, 6)), ("F.relu6", np.clip(x, 0, 6)), ("nn.SiLU", y * sigmoid(x)),
        ("nn.Sigmoid", sigmoid(x)), ("F.sigmoid", sigmoid(x)), ("nn.Hardsigmoid", np.clip(y + 3, 0, 6) / 6),
        ("nn.Hardswish", y * np.clip(y + 3, 0, 6) / 6), ("nn.Tanh", np.tanh(y)), ("nn.LeakyReLU negative_slope=0.2", np.where(y > 0, y, 0.2 * y)),
        ("nn.ELU alpha=1.5", np.where(y > 0, y, 1.5 * np.expm1(y))), ("nn.Hardtanh min_val=-0.5 max_val=2", np.clip(y, -0.5, 2)),
        ("F.hardshrink lambd=0.7", np.where(np.abs(y) > 0.7, y, 0)), ("nn.Softplus beta=2 threshold=20", np.log1p(np.exp(2 * y)) / 2),
        ("nn.Threshold threshold=0.1 value=20", np.where(y > 0.1, y, 20)), ("F.mish", y * np.tanh(np.log1p(np.exp(y)))),
        ("F.gelu approximate=tanh", 0.5 * y * (1 + np.tanh(np.sqrt(2 / np.pi) * (y + 0.044715 * y**3)))), ("nn.Dropout p=0.5", x),
        ("nn.Identity", x), ("torch.clamp min=-1", np.maximum(y, -1)), ("torch.clamp max=0.5", np.minimum(y, 0.5)),
        ("F.softmax dim=1", np.exp(y) / np.exp(y).sum(1, keepdims=True)), ("nn.LogSoftmax dim=-1", y - np.log(np.exp(y).sum(-1, keepdims=True))),
    ]:
        check(name, name, [x], np.asarray(want).astype("f4"))
    check("nn.PReLU, a slope a channel", "nn.PReLU num_parameters=3", [x], np.where(x > 0, x, x * np.array([[[0.1], [0.2], [0.3]]], "f4")),
          {"op.weight": np.array([0.1, 0.2, 0.3], "f4")})
    i = np.array([[-3, 2], [5, 0]])
    check("clamp of integers by reals", "torch.clamp min=-1.5 max=2.5", [i], np.clip(i.astype("f4"), -1.5, 2.5))


def windowed():
    x, b = rand(2, 4, 7, 6), rand(6)
    w = rand(6, 4, 3, 2)
    for kind in ("nn.Conv2d in_channels=4 out_channels=6 kernel_size=(3,2) bias=True padding_mode=zeros",):
        check(kind, kind + " stride=(2,1) padding=(1,0) dilation=(1,1) groups=1", [x], conv2d(x, w, b, (2, 1), (1, 0)), {"op.bias": b, "op.weight": w})
    g = rand(6, 2, 3, 3)
    check("nn.Conv2d with groups", "nn.Conv2d groups=2 padding=(1,1)", [x], conv2d(x, g, b, p=(1, 1), groups=2), {"op.bias": b, "op.weight": g})
    check("nn.Conv2d, padding=same", "nn.Conv2d padding=same", [x], conv2d(x, rep := rand(6, 4, 3, 3), b, p=(1, 1)), {"op.bias": b, "op.weight": rep})
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), mode="reflect")
    check("nn.Conv2d, padding_mode=reflect", "nn.Conv2d padding=(1,1) padding_mode=reflect", [x], conv2d(padded, rep, b), {"op.bias": b, "op.weight": rep})
    check("nn.Conv2d without batch", "nn.Conv2d", [x[0]], conv2d(x[:1], rep, b)[0], {"op.bias": b, "op.weight": rep})
    t = rand(4, 5, 3, 3)
    check("nn.ConvTranspose2d", "nn.ConvTranspose2d in_channels=4 out_channels=5 stride=(2,2) padding=(1,1) output_padding=(1,0)", [x],
          conv_transpose2d(x, t, b[:5], (2, 2), (1, 1), (1, 0)), {"op.bias": b[:5], "op.weight": t})
    v = windows(x, (3, 3), (2, 2), (1, 1), -np.inf)
    check("nn.MaxPool2d", "nn.MaxPool2d kernel_size=(3,3) stride=(2,2) padding=(1,1) dilation=(1,1) ceil_mode=False return_indices=False", [x], v.max((4, 5)))
    v = windows(x.astype("f8"), (2, 2), (2, 2), (0, 0), 0)
    check("nn.AvgPool2d", "nn.AvgPool2d kernel_size=2 count_include_pad=True divisor_override=None", [x], v.mean((4, 5)).astype("f4"))
    mean = x.astype("f8").mean((2, 3), keepdims=True).astype("f4")
    check("nn.AdaptiveAvgPool2d", "nn.AdaptiveAvgPool2d output_size=(1,1)", [x], mean)
    check("F.adaptive_avg_pool2d keeps None", "F.adaptive_avg_pool2d output_size=(None,1)", [x], x.astype("f8").mean(3, keepdims=True).astype("f4"))
    near = x.repeat(2, 2).repeat(2, 3)
    check("nn.Upsample, nearest", "nn.Upsample mode=nearest scale_factor=(2.0,2.0) size=None", [x], near)
    check("F.upsample by size", "F.upsample mode=nearest size=(14,12)", [x], near)
    ramp = np.arange(4, dtype="f4").reshape(1, 1, 1, 4)
    check("F.interpolate, bilinear", "F.interpolate mode=bilinear size=(1,8) align_corners=False", [ramp],
          np.clip((np.arange(8) + 0.5) / 2 - 0.5, 0, 3).astype("f4").reshape(1, 1, 1, 8))
    check("nn.UpsamplingBilinear2d", "nn.UpsamplingBilinear2d size=(1,7)", [ramp], np.linspace(0, 3, 7, dtype="f4").reshape(1, 1, 1, 7))
    check("F.pad", "F.pad pad=(1,2,0,1) mode=constant value=0.5", [x], np.pad(x, ((0, 0), (0, 0), (0, 1), (1, 2)), constant_values=0.5))
    check("F.pad, replicate", "F.pad pad=(1,2) mode=replicate", [x], np.pad(x, ((0, 0), (0, 0), (0, 0), (1, 2)), mode="edge"))


def norms():
    x = rand(2, 6, 5, 4)
    y = x.astype("f8")
    m, v, w, b = rand(6), np.abs(rand(6)) + 0.5, rand(6), rand(6)
    c = (slice(None), None, None)
    bn = {"op.running_mean": m, "op.running_var": v, "op.weight": w, "op.bias": b}
    check("nn.BatchNorm2d", "nn.BatchNorm2d num_features=6 eps=1.000000e-3 affine=True", [x], ((y - m[c]) / np.sqrt(v[c] + 1e-3) * w[c] + b[c]).astype("f4"), bn)
    bare = {k: a for k, a in bn.items() if "running" in k}
    check("nn.BatchNorm2d without scale", "nn.BatchNorm2d num_features=6 affine=False", [x], ((y - m[c]) / np.sqrt(v[c] + 1e-5)).astype("f4"), bare)
    g = y.reshape(2, 3, -1)
    n = ((g - g.mean(-1, keepdims=True)) / np.sqrt(g.var(-1, keepdims=True) + 1e-5)).reshape(y.shape)
    check("nn.GroupNorm", "nn.GroupNorm num_groups=3 num_channels=6 eps=1.000000e-5 affine=True", [x], (n * w[c] + b[c]).astype("f4"), {"op.weight": w, "op.bias": b})
    rms = y / np.sqrt((y**2).mean(-1, keepdims=True) + 1e-6)
    check("nn.RMSNorm", "nn.RMSNorm normalized_shape=(4) eps=1.000000e-6", [x], (rms * w[:4]).astype("f4"), {"op.weight": w[:4]})
    check("F.normalize", "F.normalize dim=1", [x], (y / np.sqrt((y**2).sum(1, keepdims=True))).astype("f4"))
    lw, lb = rand(3, 4), rand(3)
    check("nn.Linear", "nn.Linear in_features=4 out_features=3 bias=True", [x], (y @ lw.T.astype("f8") + lb).astype("f4"), {"op.weight": lw, "op.bias": lb})
    ids = np.array([[1, 3], [0, 2]])
    check("nn.Embedding", "nn.Embedding num_embeddings=6 embedding_dim=3 sparse=False", [ids], (e := rand(6, 3))[ids], {"op.weight": e})


def shapes():
    x = rand(2, 3, 8)
    i = np.arange(24).reshape(2, 3, 4)
    check("torch.cat promotes", "torch.cat dim=-1", [i, rand(2, 3, 1) * 0], np.concatenate([i, np.zeros((2, 3, 1))], -1).astype("f4"))
    check("torch.stack", "torch.stack dim=1", [x, x + 1], np.stack([x, x + 1], 1))
    check("torch.flatten", "torch.flatten start_dim=1 end_dim=-1", [x], x.reshape(2, -1))
    check("Tensor.view", "Tensor.view shape=(2,-1)", [x], x.reshape(2, -1))
    check("torch.chunk", "torch.chunk chunks=3 dim=2", [x], [x[..., :3], x[..., 3:6], x[..., 6:]], outputs=("a", "b", "c"))
    check("torch.tensor_split", "torch.tensor_split sections=3 dim=2", [x], [x[..., :3], x[..., 3:6], x[..., 6:]], outputs=("a", "b", "c"))
    check("torch.split by size", "torch.split split_size_or_sections=5 dim=-1", [x], [x[..., :5], x[..., 5:]], outputs=("a", "b"))
    check("torch.split by sizes", "torch.split split_size_or_sections=(1,7) dim=-1", [x], [x[..., :1], x[..., 1:]], outputs=("a", "b"))
    check("torch.unbind", "torch.unbind dim=1", [x], [x[:, 0], x[:, 1], x[:, 2]], outputs=("a", "b", "c"))
    check("Tensor.slice", "Tensor.slice dim=2 start=1 end=-1 step=2", [x], x[..., 1:-1:2])
    check("Tensor.select", "Tensor.select dim=1 index=-1", [x], x[:, -1])
    check("Tensor.index by lists", "Tensor.index expr=[None,[0,2]]", [x], x[:, [0, 2]])
    check("Tensor.index by two lists", "Tensor.index expr=[[0,1],[2,0]]", [x], x[[0, 1], [2, 0]])
    check("Tensor.index by a mask", "Tensor.index expr=[None,[True,False,True]]", [x], x[:, [True, False, True]])
    check("torch.roll", "torch.roll shifts=(1,-2) dims=(0,2)", [x], np.roll(x, (1, -2), (0, 2)))
    check("torch.squeeze", "torch.squeeze dim=1", [x[:, :1]], x[:, 0])
    check("torch.squeeze leaves other sizes", "torch.squeeze dim=1", [x], x)
    check("torch.unsqueeze", "torch.unsqueeze dim=-1", [x], x[..., None])
    check("torch.flip", "torch.flip dims=(0,2)", [x], np.flip(x, (0, 2)))
    check("Tensor.expand", "Tensor.expand sizes=(4,-1,-1,8)", [x], np.broadcast_to(x, (4, 2, 3, 8)))
    check("Tensor.repeat", "Tensor.repeat sizes=(2,1,3)", [x], np.tile(x, (2, 1, 3)))
    check("Tensor.new_zeros", "Tensor.new_zeros size=(2,2) dtype=torch.long", [x], np.zeros((2, 2), "i8"))
    check("Tensor.to", "Tensor.to dtype=torch.long copy=False", [x * 3], np.trunc(x * 3).astype("i8"))
    check("torch.mean over all", "torch.mean dtype=None", [x], x.astype("f8").mean().astype("f4"))
    check("torch.sum of integers", "torch.sum dim=(0,2) keepdim=True", [i], i.sum((0, 2), keepdims=True))
    check("torch.max with indices", "torch.max dim=2 keepdim=False", [x], [x.max(2), x.argmax(2)], outputs=("v", "at"))
    check("torch.gt by a number", "torch.gt other=0.25", [x], x > 0.25)
    check("torch.where", "torch.where", [x > 0, x, x * 2], np.where(x > 0, x, x * 2))
    check("torch.add with alpha", "torch.add $input=x0 $other=x1 alpha=3", [x, x * 2], x + 3 * (x * 2))
    check("torch.div, truncating", "torch.div $input=x0 $other=x1 rounding_mode=trunc", [x, x[:, ::-1].copy()], np.trunc(x / x[:, ::-1]))
    z = (rand(2, 3) + 1j * rand(2, 3)).astype("c8")
    check("torch.view_as_real", "torch.view_as_real", [z], np.stack([z.real, z.imag], -1))
    check("torch.view_as_complex", "torch.view_as_complex", [np.stack([z.real, z.imag], -1)], z)


def promotion():
    """What PyTorch makes of types: numbers and tensors without dims count less than tensors."""
    i, f, h = np.arange(-3, 3), rand(6), rand(6).astype("f8")
    for text, inputs, want in [
        ("div(@0,2)", [i], (i / 2).astype("f4")), ("mul(@0,2.5)", [i], (i * 2.5).astype("f4")), ("add(@0,1)", [i.astype("i4")], (i + 1).astype("i4")),
        ("add(@0,@1)", [i, f], (i + f).astype("f4")), ("mul(@0,@1)", [f, h], f * h), ("sqrt(@0)", [np.abs(i)], np.sqrt(np.abs(i)).astype("f4")), ("and(@0,@1)", [i > 0, i > 1], (i > 0) & (i > 1)),
        ("mul(@0,True)", [f], f), ("add(@0,2)", [i > 0], (i > 0) + np.int64(2)), ("pow(@0,2)", [i], i**2), ("floor_divide(@0,2)", [i], i // 2),
        ("remainder(@0,-2)", [i], np.mod(i, -2)), ("fmod(@0,2)", [i], np.fmod(i, 2)), ("max(@0,0.5)", [i], np.maximum(i, 0.5).astype("f4")),
        ("torch.float(@0)", [i], i.astype("f4")), ("mul(@0,2.0+1.0j)", [f], (f * (2 + 1j)).astype("c8")), ("round(@0)", [np.array([0.5, 1.5, -2.5], "f4")], np.array([0, 2, -2], "f4")),
        ("add(mul(@0,@1),@2)", [f, f, np.float32([[1], [2]])], f * f + np.float32([[1], [2]])),
    ]:
        check(f"{text} of {[str(x.dtype) + str(x.shape) for x in inputs]}", f"pnnx.Expression expr={text}", inputs, want)


    scalar = ["torch.sum s 1 1 x1 s"]
    check("f32 times an f64 without dims", "pnnx.Expression expr=mul(@0,@1)", [f, np.array([2.5])], f * np.float32(2.5), before=scalar, takes=["x0", "s"])
    check("i64 times an f64 without dims", "pnnx.Expression expr=mul(@0,@1)", [i, np.array([2.5])], i * 2.5, before=scalar, takes=["x0", "s"])


def lstm(x, w, hidden, layers, both):
    """x is [time, batch, features]; gates i f g o"""
    hs, cs = [], []
    for layer in range(layers):
        outs = []
        for way in ["", "_reverse"][: 2 if both else 1]:
            k = f"_l{layer}{way}"
            h = c = np.zeros((x.shape[1], hidden))
            seq = [None] * len(x)
            for t in range(len(x))[:: -1 if way else 1]:
                a = x[t] @ w["op.weight_ih" + k].T + w["op.bias_ih" + k] + h @ w["op.weight_hh" + k].T + w["op.bias_hh" + k]
                i, f, g, o = np.split(a, 4, -1)
                c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
                h = np.tanh(c) / (1 + np.exp(-o))
                seq[t] = h
            outs.append(np.stack(seq))
            hs.append(h)
            cs.append(c)
        x = np.concatenate(outs, -1)
    return [a.astype("f4") for a in (x, np.stack(hs), np.stack(cs))]


def attention(x, m, heads, mask):
    """Self-attention over [length, batch, width] by the weights of a module."""
    n, batch, e = x.shape
    p = [x.astype("f8") @ m["op.in_proj_weight"][e * i:e * i + e].T + m["op.in_proj_bias"][e * i:e * i + e] for i in range(3)]
    q, k, v = [a.reshape(n, batch, heads, e // heads).transpose(1, 2, 0, 3) for a in p]
    s = np.where(mask, -np.inf, q @ k.swapaxes(2, 3) / np.sqrt(e // heads))
    s = np.exp(s - s.max(-1, keepdims=True))
    y = (s / s.sum(-1, keepdims=True)) @ v
    return (y.transpose(2, 0, 1, 3).reshape(n, batch, e) @ m["op.out_proj.weight"].T + m["op.out_proj.bias"]).astype("f4")


def normed(x, w, b):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * w + b


def encoder_layer():
    """As torch has it in inference: constants and weights are inputs by position."""
    x, e = rand(2, 5, 8), 8
    m = {"op.in_proj_weight": rand(24, 8), "op.in_proj_bias": rand(24), "op.out_proj.weight": rand(8, 8), "op.out_proj.bias": rand(8)}
    n1, n2, f1, f2 = (rand(e), rand(e)), (rand(e), rand(e)), (rand(16, e), rand(16)), (rand(e, 16), rand(e))
    y = x + attention(x.swapaxes(0, 1), m, 2, np.zeros((5, 5), bool)).swapaxes(0, 1)
    y = normed(y.astype("f8"), *n1)
    y = normed(y + np.maximum(y @ f1[0].T + f1[1], 0) @ f2[0].T + f2[1], *n2).astype("f4")
    known = {"width": 8, "heads": 2, "gelu": False, "first": False, "eps": 1e-5, "none": None}
    takes = "x0 width heads x1 x2 x3 x4 gelu first eps x5 x6 x7 x8 x9 x10 x11 x12 none none".split()
    check("nn.TransformerEncoderLayer in inference", "aten::_transformer_encoder_layer_fwd", [x, *m.values(), *n1, *n2, *f1, *f2], y,
          before=[f"pnnx.Expression e_{k} 0 1 {k} expr={v}" for k, v in known.items()], takes=takes)


def tied():
    """A weight that two modules share: an attribute, and an input of the second beside its copy."""
    w, x = rand(5, 3), rand(2, 3)
    check("nn.Linear with a tied weight", "nn.Linear in_features=3 out_features=5 bias=False", [x], x @ w.T, {"op.weight": w, "token.data": w},
          before=["pnnx.Attribute token 0 1 t @data=(5,3)f32"], takes=["t", "x0"])


def sequences():
    w = {}
    for layer in range(2):
        for way in ("", "_reverse"):
            k = f"_l{layer}{way}"
            w["op.weight_ih" + k], w["op.weight_hh" + k] = rand(16, 3 if layer == 0 else 8), rand(16, 4)
            w["op.bias_ih" + k], w["op.bias_hh" + k] = rand(16), rand(16)
    x = rand(5, 2, 3)
    line = "nn.LSTM input_size=3 hidden_size=4 num_layers=2 bias=True batch_first=False bidirectional=True proj_size=0"
    check("nn.LSTM, two layers both ways", line, [x], lstm(x.astype("f8"), w, 4, 2, True), w, outputs=("y", "h", "c"))
    one = {k: a for k, a in w.items() if k.endswith("_l0")}
    want = lstm(x.astype("f8"), one, 4, 1, False)[0].swapaxes(0, 1)
    check("nn.LSTM, batch first", "nn.LSTM input_size=3 hidden_size=4 num_layers=1 batch_first=True bidirectional=False", [x.swapaxes(0, 1).copy()], want, one)
    check("nn.LSTM whose c nobody uses", "nn.LSTM input_size=3 hidden_size=4", [x], lstm(x.astype("f8"), one, 4, 1, False)[:2], one, outputs=("y", "h"))
    q, kv, e, heads = rand(5, 2, 8), rand(6, 2, 8), 8, 2
    m = {"op.in_proj_weight": rand(24, 8), "op.in_proj_bias": rand(24), "op.out_proj.weight": rand(8, 8), "op.out_proj.bias": rand(8)}
    mask = np.triu(np.ones((5, 6), bool), 3)
    p = [a.astype("f8") @ m["op.in_proj_weight"][8 * i:8 * i + 8].T + m["op.in_proj_bias"][8 * i:8 * i + 8] for i, a in enumerate((q, kv, kv))]
    split = [a.reshape(len(a), 2, heads, e // heads).transpose(1, 2, 0, 3) for a in p]
    s = split[0] @ split[1].swapaxes(2, 3) / np.sqrt(e // heads)
    s = np.where(mask, -np.inf, s)
    s = np.exp(s - s.max(-1, keepdims=True))
    s /= s.sum(-1, keepdims=True)
    y = (s @ split[2]).transpose(2, 0, 1, 3).reshape(5, 2, e) @ m["op.out_proj.weight"].T + m["op.out_proj.bias"]
    line = f"nn.MultiheadAttention embed_dim={e} num_heads={heads} bias=True batch_first=False add_bias_kv=False add_zero_attn=False $attn_mask=x3"
    check("nn.MultiheadAttention with a mask", line, [q, kv, kv, mask], y.astype("f4"), m)
    check("nn.MultiheadAttention with its weights", line, [q, kv, kv, mask], [y.astype("f4"), s.mean(1).astype("f4")], m, outputs=("y", "w"))
    with_names = line.replace("$attn_mask=x3", "$input=x0 $attn_mask=x1")
    at_itself = [q, np.triu(np.ones((5, 5), bool), 3)]
    line = line.replace("$attn_mask=x3", "$attn_mask=x1")
    check("nn.MultiheadAttention whose query is called input", with_names, at_itself, attention(q, m, heads, at_itself[1]), m)
    check("nn.MultiheadAttention of one input", line, at_itself, attention(q, m, heads, at_itself[1]), m)
    encoder_layer()
    tied()
    a = [rand(2, 3, 4, 8) for _ in range(3)]
    s = a[0].astype("f8") @ a[1].swapaxes(2, 3) / np.sqrt(8) + np.triu(np.full((4, 4), -np.inf), 1)
    s = np.exp(s - s.max(-1, keepdims=True))
    check("F.scaled_dot_product_attention, causal", "F.scaled_dot_product_attention attn_mask=None dropout_p=0.0 is_causal=True $query=x0 $key=x1 $value=x2", a,
          (s / s.sum(-1, keepdims=True) @ a[2]).astype("f4"))


def yolo():
    xs, w, want = [rand(2, 4, 4, 4), rand(2, 6, 2, 2), rand(2, 8, 1, 1)], {"op.pnnx_5": np.array([8, 16, 32], "f4")}, []
    for i, (x, grid, anchor) in enumerate(zip(xs, (6, 3, 1), (4, 2, 0))):
        n, (b, c, h, v) = 3, x.shape
        w[f"op.m.{i}.weight"], w[f"op.m.{i}.bias"] = rand(n * 7, c, 1, 1), rand(n * 7)
        w[f"op.pnnx_{grid}"], w[f"op.pnnx_{anchor}"] = rand(1, n, h, v, 2), np.abs(rand(1, n, h, v, 2))
        y = conv2d(x, w[f"op.m.{i}.weight"], w[f"op.m.{i}.bias"]).reshape(b, n, 7, h, v).transpose(0, 1, 3, 4, 2)
        y = sigmoid(y)
        y[..., :2] = (y[..., :2] * 2 + w[f"op.pnnx_{grid}"]) * w["op.pnnx_5"][i]
        y[..., 2:4] = (y[..., 2:4] * 2) ** 2 * w[f"op.pnnx_{anchor}"]
        want.append(y.reshape(b, -1, 7))
    check("models.yolo.Detect", "models.yolo.Detect", xs, np.concatenate(want, 1), w)


def dynamic():
    """Shapes that the file leaves open, and lists that operators compute."""
    x = rand(2, 4, 6, 8)
    lines = ["pnnx.Input in0 0 1 x0 #x0=(?,4,?,%w)f32", "pnnx.Expression s 1 1 x0 s expr=[size(@0,0),mul(size(@0,1),size(@0,2)),-1]",
             "Tensor.reshape r 2 1 x0 s r $input=x0 $shape=s", "pnnx.Expression t 1 1 x0 t expr=size(@0,0),size(@0,3)",
             "Tensor.new_zeros z 2 1 x0 t z $input=x0 $size=t dtype=None", "pnnx.Output o 2 0 r z"]
    with open("m.pnnx.param", "w", encoding="utf-8") as f:
        f.write("7767517\n6 5\n" + "\n".join(lines) + "\n")
    got = run("m.pnnx.param", [x])
    TAP.case("open shapes", got if isinstance(got, str) else differ(got[0], x.reshape(2, 24, 8)) or differ(got[1], np.zeros((2, 8), "f4")))
    got = run("m.pnnx.param", [x], "--debug")
    TAP.case("open shapes, built for the input", got if isinstance(got, str) else differ(got[0], x.reshape(2, 24, 8)))
    lines = ["pnnx.Input in0 0 1 x0 #x0=(1,?,?)f32", "pnnx.Expression s 1 1 x0 s expr=[0,sub(8,size(@0,2)),1,0]", "F.pad p 2 1 x0 s p mode=constant value=0.5 $input=x0 $pad=s",
             "pnnx.Output o 1 0 p"]
    with open("m.pnnx.param", "w", encoding="utf-8") as f:
        f.write("7767517\n4 3\n" + "\n".join(lines) + "\n")
    a = rand(1, 3, 5)
    got = run("m.pnnx.param", [a])
    TAP.case("F.pad by sizes", got if isinstance(got, str) else differ(got[0], np.pad(a, ((0, 0), (1, 0), (0, 3)), constant_values=0.5)))
    lines = ["pnnx.Input in0 0 1 x0 #x0=(2,3)f32", "pnnx.Input in1 0 1 x1 #x1=(3)i64", "prim::ListConstruct l 1 1 x1 l",
             "Tensor.index i 2 1 x0 l i", "pnnx.Output o 1 0 i"]
    with open("m.pnnx.param", "w", encoding="utf-8") as f:
        f.write("7767517\n5 4\n" + "\n".join(lines) + "\n")
    a, at = rand(2, 3), np.array([1, 0, 1])
    got = run("m.pnnx.param", [a, at])
    TAP.case("Tensor.index by a tensor", got if isinstance(got, str) else differ(got[0], a[at]))


def pooled(x, k, s, dims, how):
    """Pools without padding over the last `dims` axes."""
    v = np.lib.stride_tricks.sliding_window_view(x, (k,) * dims, axis=tuple(range(-dims, 0)))
    v = v[(..., *[slice(None, None, s)] * dims, *[slice(None)] * dims)]
    return how(v, tuple(range(-dims, 0)))


def conv_nd(x, w, b):
    """Any number of spatial dims, no padding."""
    dims = x.ndim - 2
    v = np.lib.stride_tricks.sliding_window_view(x.astype("f8"), w.shape[2:], axis=tuple(range(2, x.ndim)))
    return (np.moveaxis(np.tensordot(v, w.astype("f8"), ([1, *range(-dims, 0)], [1, *range(2, w.ndim)])), -1, 1)
            + b.reshape(-1, *[1] * dims)).astype("f4")


def conv_transpose_nd(x, w, b):
    size = [i + k - 1 for i, k in zip(x.shape[2:], w.shape[2:])]
    y = np.zeros((x.shape[0], w.shape[1], *size))
    for at in np.ndindex(*x.shape[2:]):
        y[(slice(None), slice(None), *[slice(i, i + k) for i, k in zip(at, w.shape[2:])])] += np.tensordot(x[(..., *at)].astype("f8"), w, 1)
    return (y + b.reshape(-1, *[1] * (x.ndim - 2))).astype("f4")


def any_rank():
    """What comes in one, two and three dims, as module and as function."""
    for dims in (1, 2, 3):
        x, w, t, b = rand(2, 3, *[5] * dims), rand(4, 3, *[2] * dims), rand(3, 4, *[2] * dims), rand(4)
        for name, weight, want in ((f"conv{dims}d", w, conv_nd(x, w, b)), (f"conv_transpose{dims}d", t, conv_transpose_nd(x, t, b))):
            module = "nn." + {"conv": "Conv", "conv_transpose": "ConvTranspose"}[name[:-2]] + f"{dims}d"
            check(module, module + " stride=1", [x], want, {"op.bias": b, "op.weight": weight})
            check("F." + name, f"F.{name} $input=x0 $weight=x1 $bias=x2", [x, weight, b], want)
        most = pooled(x, 2, 2, dims, np.max)
        mean = pooled(x.astype("f8"), 3, 1, dims, np.mean).astype("f4")
        whole = x.astype("f8").mean(tuple(range(2, x.ndim)), keepdims=True).astype("f4")
        for kind, function, rest, want in ((f"MaxPool{dims}d", f"max_pool{dims}d", "kernel_size=2", most), (f"AvgPool{dims}d", f"avg_pool{dims}d", "kernel_size=3 stride=1", mean),
                                           (f"AdaptiveAvgPool{dims}d", f"adaptive_avg_pool{dims}d", "output_size=1", whole)):
            check("nn." + kind, f"nn.{kind} {rest}", [x], want)
            check("F." + function, f"F.{function} {rest}", [x], want)
        m, v = rand(3), np.abs(rand(3)) + 0.5
        shape = (-1, *[1] * dims)
        want = ((x.astype("f8") - m.reshape(shape)) / np.sqrt(v.reshape(shape) + 1e-5)).astype("f4")
        check(f"nn.BatchNorm{dims}d", f"nn.BatchNorm{dims}d num_features=3 affine=False", [x], want, {"op.running_mean": m, "op.running_var": v})
    check("F.batch_norm", "F.batch_norm training=False $input=x0 $running_mean=x1 $running_var=x2", [x, m, v], want)


def functions():
    """Functions that take as inputs what modules keep as weights."""
    x, lw, lb = rand(2, 6, 4), rand(3, 4), rand(3)
    y = x.astype("f8")
    check("F.linear", "F.linear $input=x0 $weight=x1 $bias=x2", [x, lw, lb], (y @ lw.T + lb).astype("f4"))
    ids = np.array([[1, 3], [0, 2]])
    check("F.embedding", "F.embedding $input=x0 $weight=x1", [ids, e := rand(6, 3)], e[ids])
    w, b = rand(4), rand(4)
    n = (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + 1e-5)
    check("F.layer_norm", "F.layer_norm normalized_shape=(4) $input=x0 $weight=x1 $bias=x2", [x, w, b], (n * w + b).astype("f4"))
    rms = y / np.sqrt((y**2).mean(-1, keepdims=True) + 1e-6)
    check("F.rms_norm", "F.rms_norm normalized_shape=(4) eps=1.000000e-6 $input=x0 $weight=x1", [x, w], (rms * w).astype("f4"))
    g = y.reshape(2, 3, -1)
    n = ((g - g.mean(-1, keepdims=True)) / np.sqrt(g.var(-1, keepdims=True) + 1e-5)).reshape(y.shape)
    check("F.group_norm", "F.group_norm num_groups=3", [x], n.astype("f4"))
    z = rand(2, 3, 4, 5)
    n = (z - z.astype("f8").mean((2, 3), keepdims=True)) / np.sqrt(z.astype("f8").var((2, 3), keepdims=True) + 1e-5)
    check("nn.InstanceNorm2d", "nn.InstanceNorm2d num_features=3 affine=False track_running_stats=False", [z], n.astype("f4"))
    check("F.prelu", "F.prelu $input=x0 $weight=x1", [x, s := np.array([0.25], "f4")], np.where(x > 0, x, x * s))
    for kind, a, c in (("torch.mm", rand(3, 4), rand(4, 5)), ("torch.bmm", rand(2, 3, 4), rand(2, 4, 5)), ("torch.matmul", rand(2, 3, 4), rand(4))):
        check(kind, kind, [a, c], (a.astype("f8") @ c).astype("f4"))
    check("torch.einsum", "torch.einsum equation=bij,kj->bik", [x, lw], np.einsum("bij,kj->bik", y, lw).astype("f4"))
    near = z.repeat(2, 2).repeat(2, 3)
    check("F.upsample_nearest", "F.upsample_nearest scale_factor=2", [z], near)
    check("nn.UpsamplingNearest2d", "nn.UpsamplingNearest2d scale_factor=2.0", [z], near)
    ramp = np.arange(4, dtype="f4").reshape(1, 1, 1, 4)
    check("F.upsample_bilinear", "F.upsample_bilinear size=(1,7)", [ramp], np.linspace(0, 3, 7, dtype="f4").reshape(1, 1, 1, 7))


def twins():
    """The further names of activations: function of a module, module of a function."""
    x = rand(2, 3, 4) * 4
    y = x.astype("f8")
    selu = 1.0507009873554805 * np.where(y > 0, y, 1.6732632423543772 * np.expm1(y))
    soft = np.log1p(np.exp(y))
    e = np.exp(y - y.max(1, keepdims=True))
    e /= e.sum(1, keepdims=True)
    for names, rest, want in [
        ("nn.CELU F.celu", "alpha=1.5", np.maximum(y, 0) + np.minimum(0, 1.5 * np.expm1(y / 1.5))), ("nn.ELU F.elu", "alpha=0.5", np.where(y > 0, y, 0.5 * np.expm1(y))),
        ("nn.SELU F.selu", "", selu), ("nn.Mish F.mish", "inplace=True", y * np.tanh(soft)), ("nn.Softsign F.softsign", "", y / (1 + np.abs(y))),
        ("nn.LogSigmoid F.logsigmoid", "", -np.log1p(np.exp(-y))), ("nn.Hardshrink F.hardshrink", "lambd=0.7", np.where(np.abs(y) > 0.7, y, 0)),
        ("nn.Softshrink F.softshrink", "lambd=0.7", np.sign(y) * np.maximum(np.abs(y) - 0.7, 0)), ("nn.Hardsigmoid F.hardsigmoid", "", np.clip(y + 3, 0, 6) / 6),
        ("nn.Hardswish F.hardswish", "", y * np.clip(y + 3, 0, 6) / 6), ("nn.Hardtanh F.hardtanh", "min_val=-2 max_val=3", np.clip(y, -2, 3)),
        ("nn.LeakyReLU F.leaky_relu", "negative_slope=0.2", np.where(y > 0, y, 0.2 * y)), ("nn.Threshold F.threshold", "threshold=0.1 value=20", np.where(y > 0.1, y, 20)),
        ("nn.Softplus F.softplus", "beta=1 threshold=20", soft), ("nn.Softplus F.softplus", "beta=2 threshold=1", np.where(2 * y > 1, y, np.log1p(np.exp(2 * y)) / 2)),
        ("nn.Softmax F.softmax torch.softmax", "dim=1", e), ("nn.LogSoftmax F.log_softmax torch.log_softmax", "dim=1", np.log(e)),
        ("nn.Sigmoid F.sigmoid torch.sigmoid", "", 1 / (1 + np.exp(-y))), ("nn.Tanh F.tanh torch.tanh", "", np.tanh(y)), ("nn.ReLU F.relu", "", np.maximum(y, 0)),
        ("nn.ReLU6 F.relu6", "", np.clip(y, 0, 6)), ("nn.SiLU F.silu", "", y / (1 + np.exp(-y))), ("nn.GELU F.gelu", "approximate=tanh", 0.5 * y * (1 + np.tanh(np.sqrt(2 / np.pi) * (y + 0.044715 * y**3)))),
        ("nn.Dropout nn.Dropout2d", "p=0.5 inplace=False", y), ("F.dropout", "p=0.5 training=False", y), ("nn.Identity torch.clone Tensor.detach Tensor.contiguous", "", y),
    ]:
        for name in names.split():
            check(f"{name} {rest}", f"{name} {rest}", [x], want.astype("f4"))
    z = rand(2, 3, 4, 5)
    e = np.exp(z.astype("f8"))
    check("nn.Softmax2d", "nn.Softmax2d", [z], (e / e.sum(1, keepdims=True)).astype("f4"))


def arithmetic():
    """Operators of expressions that stand for themselves, comparisons, reductions."""
    x, y = np.abs(rand(3, 4)) + 0.5, rand(3, 4)
    i, j = RNG.integers(-9, 9, (3, 4)), RNG.integers(1, 5, (3, 4))
    for name, function in [("abs", np.abs), ("exp", np.exp), ("log", np.log), ("sqrt", np.sqrt), ("rsqrt", lambda a: 1 / np.sqrt(a)), ("square", np.square), ("neg", np.negative),
                           ("sign", np.sign), ("sin", np.sin), ("cos", np.cos), ("floor", np.floor), ("ceil", np.ceil), ("round", np.round)]:
        check("torch." + name, "torch." + name, [x], function(x.astype("f8")).astype("f4"))
    for name, function in [("acosh", np.arccosh), ("asinh", np.arcsinh), ("atan", np.arctan), ("cosh", np.cosh), ("expm1", np.expm1), ("log10", np.log10), ("log1p", np.log1p),
                           ("reciprocal", np.reciprocal), ("sinh", np.sinh), ("tan", np.tan), ("trunc", np.trunc)]:
        check("torch." + name, "torch." + name, [x + 1], function((x + 1).astype("f8")).astype("f4"))
    for name, function in [("acos", np.arccos), ("asin", np.arcsin), ("atanh", np.arctanh)]:
        check("torch." + name, "torch." + name, [y / 9], function((y / 9).astype("f8")).astype("f4"))
    check("torch.erf", "torch.erf", [x], np.vectorize(math.erf)(x.astype("f8")).astype("f4"))
    for name, a, b, want in [("add", x, y, x + y), ("sub", x, y, x - y), ("mul", x, y, x * y), ("div", x, y, x / y), ("pow", x, y, x**y), ("maximum", x, y, np.maximum(x, y)), ("minimum", x, y, np.minimum(x, y)),
                             ("floor_divide", i, j, i // j), ("remainder", i, -j, np.mod(i, -j)), ("fmod", i, -j, np.fmod(i, -j)), ("atan2", x, y, np.arctan2(x, y)), ("logaddexp", x, y, np.logaddexp(x, y)),
                             ("gt", i, j, i > j), ("ge", i, j, i >= j), ("lt", i, j, i < j), ("le", i, j, i <= j), ("eq", i, j, i == j), ("ne", i, j, i != j),
                             ("logical_and", i > 0, j > 2, (i > 0) & (j > 2)), ("logical_or", i > 0, j > 2, (i > 0) | (j > 2)), ("logical_xor", i > 0, j > 2, (i > 0) ^ (j > 2))]:
        check(f"torch.{name} of two", f"torch.{name}", [a, b], want)
    check("torch.sub with alpha", "torch.sub $input=x0 $other=x1 alpha=2", [x, y], x - 2 * y)
    check("torch.logical_not", "torch.logical_not", [i > 0], i <= 0)
    check("torch.bitwise_not", "torch.bitwise_not", [i], ~i)
    for name, want in [("prod", x.astype("f8").prod(1)), ("amax", x.max(1)), ("amin", x.min(1)), ("logsumexp", np.log(np.exp(x.astype("f8")).sum(1))), ("mean", x.astype("f8").mean(1)), ("sum", x.astype("f8").sum(1))]:
        check(f"torch.{name} along a dim", f"torch.{name} dim=1 keepdim=False", [x], want.astype("f4"))
    check("torch.argmax", "torch.argmax dim=1 keepdim=False", [x], x.argmax(1))
    check("torch.argmin over all", "torch.argmin", [x], np.asarray(x.argmin()))
    check("torch.min with indices", "torch.min dim=0 keepdim=True", [x], [x.min(0, keepdims=True), x.argmin(0)[None]], outputs=("v", "at"))
    check("torch.cumsum", "torch.cumsum dim=1", [x], x.astype("f8").cumsum(1).astype("f4"))
    check("torch.cumprod", "torch.cumprod dim=0", [x], x.astype("f8").cumprod(0).astype("f4"))
    check("torch.tril", "torch.tril diagonal=1", [x], np.tril(x, 1))
    check("torch.triu", "torch.triu diagonal=-1", [x], np.triu(x, -1))
    at = RNG.integers(0, 4, (3, 2))
    check("torch.gather", "torch.gather dim=1 $input=x0 $index=x1", [x, at], np.take_along_axis(x, at, 1))
    check("torch.index_select", "torch.index_select dim=1 $input=x0 $index=x1", [x, at[:, 0].copy()], x[:, at[:, 0]])
    check("Tensor.type_as", "Tensor.type_as", [i, x], i.astype("f4"))
    check("Tensor.expand_as", "Tensor.expand_as", [x[:1], y], np.broadcast_to(x[:1], y.shape))
    square = rand(2, 3, 3) + 3 * np.eye(3, dtype="f4")
    check("torch.det", "torch.det", [square], np.linalg.det(square.astype("f8")).astype("f4"))
    check("torch.inverse", "torch.inverse", [square], np.linalg.inv(square.astype("f8")).astype("f4"))
    check("torch.permute", "torch.permute dims=(1,0)", [x], x.T.copy())
    check("torch.reshape", "torch.reshape shape=(2,-1)", [x], x.reshape(2, -1))
    check("nn.Flatten", "nn.Flatten start_dim=0", [x], x.ravel())
    check("Tensor.new_ones", "Tensor.new_ones size=(2,3) dtype=None", [i], np.ones((2, 3), "i8"))
    for name, want in (("zeros", np.zeros((2, 3), "f4")), ("ones", np.ones((2, 3), "f4"))):
        check(f"torch.{name}", f"torch.{name} size=(2,3) dtype=torch.float", [], want)
        check(f"torch.{name}_like", f"torch.{name}_like dtype=torch.double", [x], (want[0, 0] + np.zeros(x.shape)).astype("f8"))
    check("prim::TupleUnpack", "prim::TupleUnpack", [x, y], [x, y], outputs=("a", "b"), before=["prim::TupleConstruct t 2 1 x0 x1 t"], takes=["t"])
    check("prim::ListUnpack", "prim::ListUnpack", [x, y], [x, y], outputs=("a", "b"), before=["prim::ListConstruct t 2 1 x0 x1 t"], takes=["t"])


def made():
    """Ranges, fills, order: what pnnx folds away, or writes in models of other shapes."""
    x, i = rand(3, 4), np.array([[0, 2, 1, 0], [1, 0, 2, 2]])
    for name in ("F.alpha_dropout", "F.dropout2d", "F.dropout3d", "F.feature_alpha_dropout"):
        check(name, f"{name} p=0.5 training=False", [x], x)
    for name in ("nn.AlphaDropout", "nn.FeatureAlphaDropout", "nn.Dropout3d", "torch.positive"):
        check(name, name, [x], x)
    for name, want in (("arange end=4 dtype=None", np.arange(4)), ("arange start=2 end=9 step=3 dtype=None", np.arange(2, 9, 3)), ("arange end=2.5 dtype=None", np.arange(3, dtype="f4")),
                       ("arange start=1 end=3 dtype=torch.half", np.array([1, 2], "f2")), ("linspace start=-1 end=1 steps=5 dtype=None", np.linspace(-1, 1, 5, dtype="f4")),
                       ("eye n=2 m=3 dtype=None", np.eye(2, 3, dtype="f4")), ("full size=(2,3) fill_value=2.5 dtype=None", np.full((2, 3), 2.5, "f4")),
                       ("full size=(2) fill_value=7 dtype=None", np.full(2, 7)), ("empty size=(2,2) dtype=torch.long", np.zeros((2, 2), "i8"))):
        check("torch." + name, "torch." + name, [], want)
    n = ["pnnx.Expression n 1 1 x0 n expr=size(@0,1)"]
    check("torch.arange of a size", "torch.arange dtype=None $end=n", [x], np.arange(4), before=n, takes=["n"])
    check("torch.full_like", "torch.full_like fill_value=2.5 dtype=None", [x], np.full_like(x, 2.5))
    check("torch.full_like in another type", "torch.full_like fill_value=3 dtype=torch.long", [x], np.full(x.shape, 3))
    check("torch.empty_like", "torch.empty_like dtype=None", [x], 0 * x)
    check("Tensor.new_empty", "Tensor.new_empty size=(2) dtype=None", [i], np.zeros(2, "i8"))
    check("Tensor.new_full", "Tensor.new_full size=(2,2) fill_value=1.5 dtype=None", [x], np.full((2, 2), 1.5, "f4"))
    check("torch.argsort", "torch.argsort dim=1 descending=True", [x], np.argsort(-x, 1))
    check("torch.sort", "torch.sort dim=0", [x], [np.sort(x, 0), np.argsort(x, 0)], outputs=("v", "at"))
    check("torch.searchsorted", "torch.searchsorted right=True $sorted_sequence=x0 $input=x1", [np.sort(x[0]), x], np.searchsorted(np.sort(x[0]), x, "right"))
    erfs = np.array([0, 0.25, -2, 1e-4], "f4")
    check("aten::repeat_interleave with its size", "aten::repeat_interleave", [x], np.repeat(x, 2, 1),
          before=[f"pnnx.Expression {n} 0 1 {n} expr={v}" for n, v in (("r", 2), ("d", 1), ("s", 2 * x.shape[1]))], takes=["x0", "r", "d", "s"])
    for kind in ("aten::erfinv", "aten::special_erfinv"):
        check(kind, kind, [np.array([*map(math.erf, erfs), 1, -1], "f4")], np.array([*erfs, np.inf, -np.inf], "f4"))
    wide = np.array([0, -0.5, 7, 19, 22, -80], "f4")
    for kind in ("aten::i0", "aten::special_i0"):
        check(kind, kind, [wide], np.i0(wide.astype("f8")).astype("f4"))
    far = np.array([[-900, 900, 900], [0, -np.inf, 1000]], "f4")
    for d in (0, 1):
        check(f"aten::logcumsumexp along {d}", "aten::logcumsumexp", [far], np.logaddexp.accumulate(far.astype("f8"), d).astype("f4"),
              before=[f"pnnx.Expression d 0 1 d expr={d}"], takes=["x0", "d"])
    check("aten::meshgrid", "prim::ListUnpack", [x[0], x[1, :3]], np.meshgrid(x[0], x[1, :3], indexing="ij"), outputs=("a", "b"),
          before=["pnnx.Expression e 2 1 x0 x1 e expr=[@0,@1]", "aten::meshgrid g 1 1 e l"], takes=["l"])
    check("aten::meshgrid, named indexing", "prim::ListUnpack", [x[0], x[1, :3]], np.meshgrid(x[0], x[1, :3]), outputs=("a", "b"),
          before=["pnnx.Expression e 2 1 x0 x1 e expr=[@0,@1]", "pnnx.Expression i 0 1 i expr=xy", "aten::meshgrid g 2 1 e i l"], takes=["l"])
    check("torch.meshgrid", "prim::ListUnpack", [x[0], x[1, :3]], np.meshgrid(x[0], x[1, :3]), outputs=("a", "b"),
          before=["pnnx.Expression e 2 1 x0 x1 e expr=[@0,@1]", "torch.meshgrid g 1 1 e l indexing=xy"], takes=["l"])
    check("aten::unsafe_chunk", "prim::ListUnpack", [x], [x[:, :2], x[:, 2:]], outputs=("a", "b"),
          before=["pnnx.Expression n 0 1 n expr=2", "pnnx.Expression d 0 1 d expr=1", "aten::unsafe_chunk c 3 1 x0 n d l"], takes=["l"])
    for name, want in (("isnan", np.isnan), ("isinf", np.isinf)):
        odd = np.array([1, np.nan, np.inf, -np.inf], "f4")
        check("torch." + name, "torch." + name, [odd], want(odd))
        check("aten::" + name, "aten::" + name, [odd], want(odd))
    check("torch.any", "torch.any dim=1 keepdim=True", [x > 1], (x > 1).any(1, keepdims=True))
    check("torch.all", "torch.all", [x > -9], np.array(True))
    check("torch.tril", "torch.tril diagonal=-1", [x], np.tril(x, -1))
    check("torch.triu", "torch.triu diagonal=1", [x], np.triu(x, 1))
    for kind in ("torch.scatter", "aten::scatter_reduce"):
        want, at = x.copy(), np.array([[0, 2], [1, 0]])
        for r, c in np.ndindex(2, 2):
            want[r, at[r, c]] = x[r, c] * 2 if kind == "torch.scatter" else max(want[r, at[r, c]], x[r, c] * 2)
        if kind == "torch.scatter":
            check("torch.scatter of a smaller index", "torch.scatter dim=1 $input=x0 $index=x1 $src=x2", [x, at, x * 2], want)
        else:
            more = ["pnnx.Expression d 0 1 d expr=1", "pnnx.Expression r 0 1 r expr=None", "pnnx.Expression t 0 1 t expr=True"]
            check("torch.scatter_reduce", "torch.scatter_reduce dim=1 reduce=amax include_self=True $input=x0 $index=x1 $src=x2", [x, at, x * 2], want)
            plain = x.copy()
            for r, c in np.ndindex(2, 2):
                plain[r, at[r, c]] = x[r, c] * 2
            check("aten::scatter_reduce without a reduction", "aten::scatter_reduce", [x, at, x * 2], plain, before=more, takes=["x0", "d", "x1", "x2", "r", "t"])
    z = rand(2, 3, 4, 5, 3)
    for dims, y in ((1, z[0, 0]), (2, z[0]), (3, z)):
        around = [(0, 0)] * (y.ndim - dims) + [(2, 1)] * dims
        both = "(" + ",".join(["2,1"] * dims) + ")"
        check(f"nn.CircularPad{dims}d", f"nn.CircularPad{dims}d padding={both}", [y], np.pad(y, around, mode="wrap"))
        check(f"nn.ZeroPad{dims}d", f"nn.ZeroPad{dims}d padding={both}", [y], np.pad(y, around))
        check(f"nn.ReflectionPad{dims}d", f"nn.ReflectionPad{dims}d padding={both}", [y], np.pad(y, around, mode="reflect"))
        check(f"nn.ConstantPad{dims}d, one width", f"nn.ConstantPad{dims}d padding=1 value=0.5", [y], np.pad(y, [(0, 0)] * (y.ndim - dims) + [(1, 1)] * dims, constant_values=0.5))
    check("nn.Unflatten", "nn.Unflatten dim=1 sizes=(2,-1)", [x], x.reshape(3, 2, 2))
    check("torch.unflatten", "torch.unflatten dim=-1 sizes=(2,2)", [x], x.reshape(3, 2, 2))


def linear_algebra():
    a, b = rand(3, 3) + 3 * np.eye(3, dtype="f4"), rand(3, 2)
    spd, low = a @ a.T, np.tril(a)
    for kind, inputs, want in (("det", [a], np.linalg.det(a)), ("inverse", [a], np.linalg.inv(a))):
        check("aten::" + kind, "aten::" + kind, inputs, want.astype("f4"))
    no, yes = ["pnnx.Expression u 0 1 u expr=False"], ["pnnx.Expression u 0 1 u expr=True"]
    check("aten::linalg_cholesky", "aten::linalg_cholesky", [spd], np.linalg.cholesky(spd), before=no, takes=["x0", "u"])
    check("aten::linalg_solve", "aten::linalg_solve", [a, b], np.linalg.solve(a, b), before=yes, takes=["x0", "x1", "u"])
    check("torch.linalg.solve_triangular", "torch.linalg.solve_triangular upper=False $input=x0 $B=x1", [low, b], np.linalg.solve(low, b))
    check("torch.where of two numbers", "torch.where input=1.0 other=2 $condition=x0", [a > 0], np.where(a > 0, 1, 2).astype("f4"))
    check("torch.where of two integers", "torch.where input=1 other=2 $condition=x0", [a > 0], np.where(a > 0, 1, 2))


def op_names():
    """Every name of pnnx in ir/ops/op.def is a type that is read, or an operator of expressions."""
    with open(os.path.join(ROOT, "ir", "ops", "op.def"), encoding="utf-8") as f:
        names = {w for words in re.findall(r"\.pnnx = \"([^\"]*)\"", f.read()) for w in words.split()}
    with open(os.path.join(ROOT, "frontend", "pnnx", "expr", "expression.def"), encoding="utf-8") as f:
        names -= set(re.findall(r"^EXPR_OP\(\"([^\"]*)\"", f.read(), re.M))
    for name in sorted(names):
        TAP.case(f"read: {name} of op.def", "" if name in KNOWN else "it is not registered")


def coverage():
    """Every type that is registered was met, also those of KuiperInfer and of the files that pnnx writes."""
    for path in glob.glob(os.path.join(FIXTURES, "**", "*.param"), recursive=True):
        with open(path, encoding="utf-8") as f:
            SEEN.update(line.split()[0] for line in f.readlines()[2:] if line.strip())
    with open(os.path.join(ROOT, "frontend", "pnnx", "aten.def"), encoding="utf-8") as f:  # a layer is met by its other name
        SEEN.update(kind for name, kind in re.findall(r'^ATEN_OP\("([^"]*)", *\d, "([^"]*)"', f.read(), re.M) if name in SEEN)
    for kind in KNOWN:
        TAP.case(f"covered: {kind}", "" if kind in SEEN else "no case, and no model that has it")
    for kind in SEEN - set(KNOWN):
        TAP.case(f"registered: {kind}", "a case has it, and it is not registered")
    with open(os.path.join(ROOT, "docs", "pnnx.md"), encoding="utf-8") as f:
        rows = dict(re.findall(r"^\| (structure|nn\.|F\.|torch\.|Tensor\.|aten::|other) \| (.*) \|$", f.read(), re.M))
    told = {w if prefix in ("structure", "other") else prefix + w for prefix, words in rows.items() for w in words.split()}
    TAP.case("docs/pnnx.md lists the types", "" if told == set(KNOWN) else str(told ^ set(KNOWN)))
    wanted = set(KUIPER.split()) | set(WHEEL.split())
    for kind in sorted(wanted):
        TAP.case(f"wanted: {kind}", "" if kind in KNOWN else "it is not registered")


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    for part in (activations, windowed, norms, shapes, promotion, sequences, yolo, dynamic, any_rank, functions, twins, arithmetic, made, linear_algebra):
        part()
    spectra.cases(check, rand)
    elementary.cases(check, rand)
    op_names()
    coverage()
    os.chdir("/")
TAP.done()
