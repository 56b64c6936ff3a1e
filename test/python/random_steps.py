# SPDX-License-Identifier: Apache-2.0
"""Random training steps of PyTorch, by anfora.torch.compile_step and by eager: losses, parameters, buffers and the optimizer's state after
four steps, in f64.

    random_steps.py FOLDER SEED COUNT      layers in a row with functions between them, tied weights, buffers that the forward pass writes,
                                           parameter groups, schedulers, clipping, a loss

Prints the programs that differ, and how many are refused and why; the status says whether any differed."""
import collections
import os
import random
import sys
import warnings

os.environ.setdefault("ANFORA_CACHE", "off")
if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import anfora  # noqa: E402
import anfora.torch as at  # noqa: E402

# rows of features [B, T, C]: what takes C = 4 and gives C = 4
LAYERS = ["nn.Linear(4, 4)", "nn.LayerNorm(4)", "nn.Sequential(nn.Linear(4, 6), nn.GELU(), nn.Linear(6, 4))", "nn.Linear(4, 4, bias=False)", "nn.PReLU()", "Lstm(nn.LSTM(4, 4, batch_first=True))",
          "Lstm(nn.GRU(4, 2, batch_first=True, bidirectional=True))", "Attend(nn.MultiheadAttention(4, 2, bias=False, batch_first=True))", "Channels(nn.Conv1d(4, 4, 3, padding=1))", "Channels(nn.BatchNorm1d(4))",
          "nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True, bias=False)", "Channels(nn.GroupNorm(2, 4))", "Channels(nn.Conv1d(4, 4, 3, padding=2, dilation=2, groups=2))", "Shared(nn.Linear(4, 4))",
          "Mean()", "Norm()", "Gate(nn.Linear(4, 8))", "Mixture(4)", "Position(4)", "nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))", "Twice(nn.Bilinear(4, 4, 4))",
          "Channels(nn.InstanceNorm1d(4, affine=True))", "nn.RMSNorm(4)", "Scan(4)", "Channels(nn.ConvTranspose1d(4, 4, 3, padding=1))", "nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4))", "Frozen(nn.Linear(4, 4))"]
BETWEEN = ["torch.tanh(x)", "F.relu(x)", "x * torch.sigmoid(x)", "F.softmax(x, -1)", "F.softmax(x, 1)", "x + x.mean(1, keepdim=True)", "x.cumsum(1)", "F.normalize(x, dim=-1)", "x - x.detach().mean()", "torch.where(x > 0, x, 0.1 * x)",
           "x.clamp(-1, 1)", "x.flip(1)", "x.roll(1, 1)", "torch.cat([x[:, 1:], x[:, :1]], 1)", "F.pad(x, (0, 0, 1, 0))[:, :-1]", "x.sort(-1)[0]", "x.abs().sqrt()", "x / (1 + x.abs())", "torch.einsum('btc,bsc->bts', x, x) @ x / 8",
           "x.masked_fill(x > 1, 0.5)", "x.transpose(1, 2).reshape(x.shape[0], -1, 4)", "F.dropout(x, 0.0)", "x.add(1).mul_(0.5)", "F.leaky_relu(x, 0.2)", "F.layer_norm(x, (4,))", "x + torch.arange(4)", "x.max(-1, keepdim=True)[0] + x",
           "torch.stack([x, -x]).logsumexp(0)", "x.unfold(1, 1, 1).squeeze(-1)", "x.gather(1, torch.zeros_like(x, dtype=torch.long)) + x", "F.hardswish(x)", "F.elu(x)", "x.float().double()", "torch.nan_to_num(x)", "x ** 2", "F.mish(x)",
           "F.scaled_dot_product_attention(x, x, x, is_causal=True)", "F.avg_pool1d(x.transpose(1, 2), 3, 1, 1).transpose(1, 2)", "F.max_pool1d(x.transpose(1, 2), 3, 1, 1).transpose(1, 2)", "x.clone().index_fill_(2, torch.tensor([0]), 0.5)",
           "F.interpolate(x.transpose(1, 2), scale_factor=2.0, mode='linear').transpose(1, 2)[:, ::2]", "F.glu(torch.cat([x, x], -1))", "torch.outer(x[0, 0], x[0, 0]) + x[..., :1]", "x @ torch.linalg.inv(torch.eye(4).double() * 3 + x[0].T @ x[0])"]
LOSSES = ["F.mse_loss(y, t)", "F.cross_entropy(y.reshape(-1, 4), k.reshape(-1))", "F.smooth_l1_loss(y, t)", "(y - t).abs().mean()", "F.binary_cross_entropy_with_logits(y, (t > 0).double())", "F.huber_loss(y, t, delta=0.5)",
          "F.nll_loss(F.log_softmax(y, -1).reshape(-1, 4), k.reshape(-1), ignore_index=2)", "F.kl_div(F.log_softmax(y, -1), F.softmax(t, -1), reduction='batchmean')", "1 - F.cosine_similarity(y, t, -1).mean()",
          "F.cross_entropy(y.reshape(-1, 4), k.reshape(-1), label_smoothing=0.1)", "y.square().mean() + 0.1 * y.abs().sum()", "F.triplet_margin_loss(y[:, 0], t[:, 0], t[:, -1])", "F.multi_margin_loss(y.reshape(-1, 4), k.reshape(-1))",
          "torch.logsumexp(y, -1).mean()", "F.gaussian_nll_loss(y, t, torch.exp(y.detach()))", "torch.cdist(y, t).mean()", "F.poisson_nll_loss(y, t.abs())", "F.soft_margin_loss(y, t.sign())"]
OPTIMIZERS = ["SGD(p, lr=0.05)", "SGD(p, lr=0.05, momentum=0.9)", "SGD(p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01)", "Adam(p, lr=0.01)", "AdamW(p, lr=0.01)", "Adam(p, lr=0.01, amsgrad=True)", "RMSprop(p, lr=0.01)",
              "RMSprop(p, lr=0.01, momentum=0.5, centered=True)", "Adagrad(p, lr=0.05)", "Adam(p, lr=0.01, maximize=True)", "NAdam(p, lr=0.01)", "RAdam(p, lr=0.01)", "Adamax(p, lr=0.01)",
              "Adadelta(p, lr=1.0)", "ASGD(p, lr=0.01)"]


class Lstm(nn.Module):
    def __init__(self, m): super().__init__(); self.m = m
    def forward(self, x): return self.m(x)[0]


class Attend(Lstm):
    def forward(self, x): return self.m(x, x, x, need_weights=False)[0] + x


class Channels(Lstm):
    def forward(self, x): return self.m(x.transpose(1, 2)).transpose(1, 2)


class Shared(Lstm):
    def forward(self, x): return F.linear(self.m(x), self.m.weight.t())


class Twice(Lstm):
    def forward(self, x): return self.m(x, x)


class Frozen(Lstm):
    def __init__(self, m): super().__init__(m); m.weight.requires_grad_(False)
    def forward(self, x): return self.m(x)


class Mean(nn.Module):
    """A buffer that the forward pass writes."""
    def __init__(self): super().__init__(); self.register_buffer("mean", torch.zeros(4)); self.register_buffer("count", torch.tensor(0))

    def forward(self, x):
        self.mean.mul_(0.9).add_(x.detach().mean((0, 1)), alpha=0.1)
        self.count += 1
        return x - self.mean


class Norm(nn.Module):
    def __init__(self): super().__init__(); self.scale = nn.Parameter(torch.ones(()))
    def forward(self, x): return self.scale * x / x.norm(dim=-1, keepdim=True).clamp(min=1e-3)


class Gate(Lstm):
    def forward(self, x):
        a, b = self.m(x).chunk(2, -1)
        return a * torch.sigmoid(b)


class Mixture(nn.Module):
    def __init__(self, n): super().__init__(); self.gate, self.parts = nn.Linear(n, 3), nn.ModuleList(nn.Linear(n, n) for _ in range(3))

    def forward(self, x):
        weight, which = self.gate(x).softmax(-1).topk(2, -1)
        out = torch.zeros_like(x)
        for i, part in enumerate(self.parts):
            out = out + ((which == i) * weight).sum(-1, keepdim=True) * part(x)
        return out


class Position(nn.Module):
    def __init__(self, n): super().__init__(); self.table = nn.Embedding(8, n)
    def forward(self, x): return x + self.table(torch.arange(x.shape[1]))


class Scan(nn.Module):
    def __init__(self, n): super().__init__(); self.decay = nn.Parameter(torch.rand(n))

    def forward(self, x):
        h, out = torch.zeros_like(x[:, 0]), []
        for k in range(x.shape[1]):
            h = torch.sigmoid(self.decay) * h + x[:, k]
            out.append(h)
        return torch.stack(out, 1)


class Model(nn.Module):
    def __init__(self, layers, between):
        super().__init__()
        self.layers = nn.ModuleList(eval(t) for t in layers)
        self.between = [eval(f"lambda x: {t}") for t in between]

    def forward(self, x):
        for i, (layer, f) in enumerate(zip(self.layers, self.between)):
            x = f(layer(x)) if i % 2 else layer(f(x)) + x
        return x


class Program:
    def __init__(self, seed):
        r = random.Random(seed)
        n = r.randrange(1, 4)
        self.layers, self.between = [r.choice(LAYERS) for _ in range(n)], [r.choice(BETWEEN) for _ in range(n)]
        self.loss, self.optimizer, self.tied = r.choice(LOSSES), r.choice(OPTIMIZERS), r.random() < 0.15
        self.groups, self.clip, self.schedule, self.accumulate = r.random() < 0.3, r.choice([None, None, None, "norm", "value"]), r.random() < 0.3, r.choice([1, 1, 1, 2])
        self.seed, self.stops = seed, r.random() < 0.15

    def __str__(self):
        return f"{self.layers}\n{self.between}\n{self.loss}, {self.optimizer}; " + ", ".join(f"{k}={getattr(self, k)}" for k in ("tied", "groups", "clip", "schedule", "accumulate", "stops"))

    def model(self):
        torch.manual_seed(self.seed)
        m = Model(self.layers, self.between).double()
        linear = [x for x in m.layers if type(x) is nn.Linear]
        if self.tied and len(linear) > 1:
            linear[1].weight = linear[0].weight
        if self.stops and len(m.layers) > 1:
            for p in m.layers[0].parameters():
                p.requires_grad_(False)
        return m

    def trainer(self, m):
        p = [q for q in m.parameters() if q.requires_grad]
        if self.groups and len(p) > 1:
            p = [{"params": p[:1], "lr": 0.02}, {"params": p[1:]}]
        o = eval(f"torch.optim.{self.optimizer}", {"torch": torch, "p": p})
        return o, torch.optim.lr_scheduler.ExponentialLR(o, 0.9) if self.schedule else None

    def batches(self):
        g = torch.Generator().manual_seed(self.seed)
        shape = (2, 5, 4)
        return [(torch.randn(shape, generator=g).double(), torch.randn(shape, generator=g).double(), torch.randint(4, shape[:2], generator=g)) for _ in range(4)]

    def clipped(self, params):
        if self.clip == "norm":
            nn.utils.clip_grad_norm_(params, 0.5, foreach=False)
        elif self.clip == "value":
            nn.utils.clip_grad_value_(params, 0.1, foreach=False)

    def eager(self):
        m = self.model()
        (o, schedule), losses, loss = self.trainer(m), [], eval(f"lambda y, t, k: {self.loss}")
        for i, (x, t, k) in enumerate(self.batches()):
            if i % self.accumulate == 0:
                o.zero_grad()
            value = loss(m(x), t, k)
            (value / self.accumulate).backward()
            if (i + 1) % self.accumulate == 0:
                self.clipped([p for p in m.parameters() if p.grad is not None])
                o.step()
            if schedule:
                schedule.step()
            losses.append(value.item())
        return losses, m, o

    def compiled(self):
        m = self.model()
        (o, schedule), losses, loss = self.trainer(m), [], eval(f"lambda y, t, k: {self.loss}")
        options = {"clip": self.clipped} if self.clip else {}
        step = at.compile_step(m, loss, o, **options, **({"accumulate": self.accumulate} if self.accumulate > 1 else {}))
        for x, t, k in self.batches():
            losses.append(float(step(x, t, k)))
            if schedule:
                schedule.step()
        return losses, m, o


def near(a, b):
    return a.shape == b.shape and a.dtype == b.dtype and torch.allclose(a.double(), b.double(), 1e-7, 1e-9, equal_nan=True)


def states(o):
    return [(f"state {i}.{k}", v if isinstance(v, torch.Tensor) else torch.tensor(float(v))) for i, s in o.state_dict()["state"].items() for k, v in sorted(s.items()) if v is not None]


def compare(want, got):
    """None, or what differs first."""
    if not torch.allclose(torch.tensor(want[0]).double(), torch.tensor(got[0]).double(), 1e-7, 1e-9, equal_nan=True):
        return f"losses {want[0]} became {got[0]}"
    for (name, a), b in zip([*want[1].state_dict().items(), *states(want[2])], [*got[1].state_dict().values(), *(v for _, v in states(got[2]))]):
        if not near(a.detach(), b.detach()):
            return f"{name}: {a} became {b}"
    return None if len(states(want[2])) == len(states(got[2])) else f"states {[n for n, _ in states(want[2])]} became {[n for n, _ in states(got[2])]}"


def difference(program):
    """None, or ("differs" or "refused", how)."""
    try:
        want = program.eager()
    except Exception:
        return None
    if not all(torch.isfinite(torch.tensor(v)) for v in want[0]):
        return None
    try:
        got = program.compiled()
    except (anfora.CompileError, TypeError, RuntimeError, ValueError, NotImplementedError) as e:
        return "refused", f"{type(e).__name__}: {str(e)[:400]}"
    d = compare(want, got)
    return ("differs", d) if d else None


def run(first, count):
    """(programs that differ, as texts; counts of refusals)"""
    warnings.filterwarnings("ignore")
    bad, refused = [], collections.Counter()
    for s in range(first, first + count):
        if found := difference(p := Program(s)):
            refused[found[1].split("\n")[0][:200]] += found[0] == "refused"
            if found[0] == "differs":
                bad.append(f"seed {s}: {found[1]}\n{p}")
                print(bad[-1] if __name__ == "__main__" else "", flush=True)
    return bad, +refused


if __name__ == "__main__":
    wrong, refusals = run(int(sys.argv[2]), int(sys.argv[3]))
    print(f"{sys.argv[3]} programs: {len(wrong)} differ, {sum(refusals.values())} are refused")
    for text, n in refusals.most_common(20):
        print(n, text)
    sys.exit(bool(wrong))
