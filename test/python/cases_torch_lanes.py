# SPDX-License-Identifier: Apache-2.0
"""anfora.torch: steps in which masks that follow from parameters take parts of tensors, beside eager PyTorch."""
from cases_torch import HAS_TORCH, need_torch
from cases_torch_known import programs, rows
from cases_torch_steps import raises, same_steps

if HAS_TORCH:
    import torch
    from torch import nn
    from torch.nn import functional as F
    from anfora import CompileError
    import anfora.torch as at


def many(f, *rest, make=None):
    """The same program for all batches, whose masks have other counts."""
    step = same_steps(f, *((rows(), *rest) for _ in range(2)), make=make)
    assert programs(step) == 1


def test_parts_are_written_back():
    need_torch()

    def scaled(y):
        h = y * 1
        h[h < 0] *= 0.1
        return h.square().sum()

    def of_rows(y):
        h = y * 1
        m = h[:, 0] > 0
        h[m] = torch.sqrt(h[m].abs().sum(-1, keepdim=True)) * h[m] + torch.arange(4.0)
        h[h > 2] = 2.0
        h[h < -1] = h[h < -1] - 1
        return h.square().sum()

    def logarithm(y):
        h = torch.zeros_like(y)
        h[y > 0] = torch.log(y[y > 0])
        h[y <= 0] = y.masked_select(y <= 0).neg().sqrt_()
        return h.square().sum()
    for f in (scaled, of_rows, logarithm):
        many(f)


def test_losses_of_what_a_mask_takes():
    need_torch()
    t, label = torch.randn(6, 4).double(), torch.tensor([0, 1, 2, 3, 1, -100])

    def hard(y):
        each = (y - t).square()
        return each[each > each.mean()].mean() + each[each > 0.5].sum() + each[each[:, 0] > 0.1].mean(0).sum() + y[y > 0].max() - y[y < 0].amin()

    def confident(y, label):
        p, guess = y.detach().softmax(-1).max(-1)
        m = p > 0.4
        z = nn.functional.layer_norm(y[m], (4,)).relu()
        return F.cross_entropy(y[m], guess[m]) + F.cross_entropy(y[m], label[m], reduction="sum") + F.nll_loss(z.log_softmax(1), label[m]) \
            + F.mse_loss(y[m], t[m]) + F.binary_cross_entropy_with_logits(y[m], t[m].sigmoid()) + F.smooth_l1_loss(y[m], t[m], reduction="sum")
    many(hard)
    many(confident, label)
    many(lambda y: y[y > 9].sum() + y.sum() + (~(y[y > 0] > 0.2)).any() + (y[y > 9] > 0).all())  # no element


class Experts(nn.Module if HAS_TORCH else object):
    """A mixture of experts that computes each row by those which its gate has chosen."""

    def __init__(self, by_index):
        super().__init__()
        self.gate, self.by_index = nn.Linear(4, 3), by_index
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(4, 5), nn.GELU(), nn.Dropout(0.0), nn.Linear(5, 4)) for _ in range(3))

    def forward(self, x):
        weight, chosen = self.gate(x).softmax(-1).topk(2, -1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            row, k = torch.where(chosen == i)
            if self.by_index:
                out[row] += weight[row, k, None] * expert(x[row])
            else:
                out.index_add_(0, row, expert(x[row]) * weight[row, k, None])
        return out


def test_experts_compute_the_rows_that_a_gate_gives_them():
    need_torch()
    for by_index in (False, True):
        many(lambda y: y.square().sum(), make=lambda by_index=by_index: Experts(by_index))
    many(lambda y: y[(y[:, 0] > 0).nonzero().squeeze(1)].square().mean())


def test_gradients_stop_where_eagers_do():
    need_torch()

    def f(y):
        with torch.no_grad():
            scale = y[y > 0].mean()
        return (y[y < 0].detach() * y[y < 0]).sum() * scale
    many(f)


def test_what_lanes_cannot_tell_is_refused():
    need_torch()
    m = nn.Linear(4, 4).double()
    for word, f in (("len__ tells how many", lambda y: y[y > 0].sum() / len(y[y > 0])), ("shape tells how many", lambda y: y[y > 0].sum() / y[y > 0].shape[0]),
                    ("median", lambda y: y[y > 0].median()), ("std", lambda y: y[y > 0].std()), ("linear", lambda y: F.linear(y[y > 0], y[0])),
                    ("cat", lambda y: torch.cat([y[y > 0], y[y < 0]]).sum()), ("dropout", lambda y: F.dropout(y[y > 0], 0.5).sum()),
                    ("write another", lambda y: (y[y > 0].detach().mul_(2) * y[y > 0]).sum()), ("while gradients are off", lambda y: torch.no_grad()(y[y > 0].mul_)(2).sum()),
                    ("cosine_similarity", lambda y: F.cosine_similarity(y[y[:, 0] > 0], y[:1], 1).sum()), ("has a dim for", lambda y: (y[y[:, 0] > 0] * y).sum()), ("another mask", lambda y: (y[y > 0] * y[0][y[0] > 0]).sum())):
        raises(CompileError, word, at.compile_step(m, f, torch.optim.SGD(m.parameters(), lr=0.1)), rows())
    raises(IndexError, "does not match", at.compile_step(m, lambda y: y[(y > 0).reshape(4, 6)].sum(), torch.optim.SGD(m.parameters(), lr=0.1)), rows())
