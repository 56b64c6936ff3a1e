#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Layers by themselves, against NumPy: what KuiperInfer registers, and what no model of the fixtures has.
test_layers.py ANFORA"""
import os
import tempfile

import numpy as np

from model import Tap, differ, run, told, write

TAP = Tap()
RNG = np.random.default_rng(7)


def rand(*shape):
    return RNG.standard_normal(shape).astype("f4")


def check(name, operator, inputs, want, weights=None, outputs=("out",), before=(), takes=None):
    """operator is the line without its operands: "nn.ReLU a=1 b=2". It takes the model's inputs, or what `takes` says,
    which the lines `before` give."""
    weights = weights or {}
    kind, *rest = operator.split()
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
    lines = ["pnnx.Input in0 0 1 x0 #x0=(2,3)f32", "pnnx.Input in1 0 1 x1 #x1=(3)i64", "prim::ListConstruct l 1 1 x1 l",
             "Tensor.index i 2 1 x0 l i", "pnnx.Output o 1 0 i"]
    with open("m.pnnx.param", "w", encoding="utf-8") as f:
        f.write("7767517\n5 4\n" + "\n".join(lines) + "\n")
    a, at = rand(2, 3), np.array([1, 0, 1])
    got = run("m.pnnx.param", [a, at])
    TAP.case("Tensor.index by a tensor", got if isinstance(got, str) else differ(got[0], a[at]))


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    for part in (activations, windowed, norms, shapes, promotion, sequences, yolo, dynamic):
        part()
    os.chdir("/")
TAP.done()
