# SPDX-License-Identifier: Apache-2.0
"""anfora.torch: steps whose sizes and decisions follow from values that are known before they run (masks, counts, lengths), numbers that are
drawn by probabilities, and optimizers that decide by their state, beside eager PyTorch."""
import copy
from unittest import mock

from cases_torch import HAS_TORCH, close, need_torch
from cases_torch_state import same_changes
from cases_torch_steps import raises, same_steps

if HAS_TORCH:
    import torch
    from torch import nn
    from torch.nn import functional as F
    from anfora import CompileError, RunError
    import anfora.torch as at


def programs(step):
    return sum(map(len, step.codes.values()))


def rows(n=6):
    return torch.randn(n, 4).double()


def test_masks_of_arguments_take_parts():
    need_torch()
    labels = [torch.tensor([1, 2, -100, 3, 0, -100]), torch.tensor([1, -100, 2, -100, 0, 3]), torch.tensor([1, 0, 2, 0, 0, 3])]

    def put(y, t):
        z = torch.zeros_like(y)
        z[t > 0] = y[t > 0] * 2
        return z.square().sum()
    for f in (lambda y, t: F.mse_loss(y[t != -100], F.one_hot(t[t != -100], 4).double()),
              lambda y, t: y.masked_select((t != -100)[:, None]).square().mean(),
              lambda y, t: y[t.ne(-100).nonzero().squeeze(1)].square().mean() + y[torch.where(t > 0)[0], 1].sum(), put,
              lambda y, t: (y[:, (t > 0)[:4]] if t.min() < 0 else y).square().mean()):
        step = same_steps(f, *((rows(), t) for t in labels))
        assert programs(step) <= 3
    m = nn.Linear(4, 4).double()
    raises(CompileError, "depends on data", at.compile_step(m, lambda y, t: (t.add_(1), y[t > 0].std())[1], torch.optim.SGD(m.parameters(), lr=0.1)),
           rows(), labels[0].clone())


def test_elements_of_tensors_are_indices():
    need_torch()

    def put(y, t):
        z = y * 2
        z[t[0]], z[:, t[1]], z[t[2], t[3]] = y[t[2]] * y[:, t[1]][:4], 3 * y[:, t[3]], y[0, 0]
        return z.square().sum()
    t = [torch.tensor(k) for k in ([1, 2, 3, 0], [-1, -2, 4, 3])]
    for f in (lambda y, t: (y[:, t[1]] * y[:, t[1]].reshape(6)).sum() + y[t[2], t[3]].reshape(1).sum(),
              lambda y, t: torch.logsumexp((y[:, t[0]].unsqueeze(1) + y[:, t[1]]).square(), 0).sum(), put):
        same_steps(f, *((rows(), k) for k in t))
    m = nn.Linear(4, 4).double()
    for f in (lambda y, t: y[:, t[0]].sum(), lambda y, t: (y * 1).index_fill_(1, t[1], 0).sum() + y[t[2]].sum()):
        raises(RunError, "index", at.compile_step(m, f, torch.optim.SGD(m.parameters(), lr=0.1)), rows(), torch.tensor([4, 0, -7]))


def test_steps_of_many_counts_share_a_program():
    need_torch()
    many = torch.arange(6)
    with mock.patch.object(at._step, "FEW", 2):
        step = same_steps(lambda y, m: y[m].square().mean(), *((rows(), many < k) for k in range(1, 6)))
        assert programs(step) == 3
        m = nn.Linear(4, 4).double()
        step = at.compile_step(m, lambda y, k: y[:int(k)].sum(), torch.optim.SGD(m.parameters(), lr=0.1))
        for k in range(2):
            step(rows(), many[k])
        raises(CompileError, "2 different ones", step, rows(), many[2])


def test_sizes_that_arguments_tell():
    need_torch()
    n = torch.tensor
    for f, given in ((lambda y, k: sum(p.square().mean() for p in torch.split(y, k.tolist())), ([2, 4], [1, 2, 3], [2, 4])),
                     (lambda y, k: y.repeat_interleave(k, 0).square().mean(), ([2, 4, 0, 0, 1, 1], [1, 2, 3, 0, 1, 1])),
                     (lambda y, k: (y * torch.bincount(k)[:, None]).square().mean(), ([2, 4, 0, 0, 1, 5], [1, 2, 5, 0, 1, 1])),
                     (lambda y, k: sum(p.square().mean() for p in torch.tensor_split(y, k)), ([2, 4], [1, 3])),
                     (lambda y, k: (y[:, 0] * (torch.arange(k.max()) < k[:, None]).sum(1)).sum() + y[:k[0]].sum(), ([2, 4, 1, 1, 1, 1], [1, 3, 1, 1, 1, 2])),
                     (lambda y, k: y.sum() if (k == 2).any() else y.square().sum(), ([2, 4], [1, 3]))):
        step = same_steps(f, *((rows(), n(k)) for k in given))
    raises(CompileError, "certain values", at.export_step, step, (rows(), n([2, 4])), "/nowhere")


def test_tensors_that_the_model_captured_are_those_of_each_step():
    need_torch()
    mask, flag, count, weight = torch.tensor([True, False, True, True]), torch.tensor(True), torch.tensor([1]), torch.ones(2).double()

    def change(m, i):
        nonlocal weight
        mask[0], mask[1] = i % 2 == 0, i == 1
        flag.fill_(i == 0)
        count.fill_(i)
        weight = torch.ones(2).double() * (1 + i // 2)

    class Held(nn.Linear):
        def __init__(self):
            super().__init__(3, 2)
            self.scales = [torch.ones(2).double()]
            self.register_buffer("kept", torch.tensor([True, True, False, False]))
            self.mask = None

        def forward(self, x):
            if self.mask is None:
                self.mask = torch.tril(torch.ones(4, 4, dtype=torch.float64))
            return self.mask @ super().forward(x) * self.scales[0] * self.kept[:, None]

    def replaced(m, i):
        change(m, i)
        m.scales = [m.scales[0] * 3]
        m.kept[i] = ~m.kept[i]
    for f in (lambda y, t: y[mask].square().mean(), lambda y, t: y.square().mean() if flag else y.sum(),
              lambda y, t: y[:int(count[0]) + 1].square().mean() + y[:count.tolist()[0]].sum(), lambda y, t: (y * weight).square().mean()):
        def start(f=f):
            change(None, 0)
            return nn.Linear(3, 2)
        same_changes(start, lambda m, i: None, 1, loss=f)
        eager = nn.Linear(3, 2).double()
        other = copy.deepcopy(eager)
        step = at.compile_step(other, f, torch.optim.SGD(other.parameters(), lr=0.0))
        for i in range(4):
            change(None, i)
            x = torch.randn(4, 3).double()
            close(torch.tensor(step(x, x)), f(eager(x), x).detach().float(), 1e-5)
    same_changes(Held, replaced, 4)


def test_draws_by_probabilities_are_eagers():
    need_torch()
    for n, replacement in ((1, True), (1, False), (3, False), (5, True)):
        torch._dynamo.reset()
        p = torch.rand(7, 20).double()
        compiled = torch.compile(lambda p, n=n, r=replacement: torch.multinomial(p, n, r), backend="anfora")
        for given in (p, p.float(), p[0]):
            torch.manual_seed(3)
            want = torch.multinomial(given, n, replacement)
            torch.manual_seed(3)
            assert torch.equal(compiled(given), want), (n, replacement)
    assert not at.fallbacks, at.fallbacks

    def policy(y, reward):
        d = torch.distributions.Categorical(logits=y)
        return -(d.log_prob(d.sample()) * reward).sum()
    same_steps(policy, *((rows(), torch.randn(6).double()) for _ in range(3)))


def test_normal_numbers_of_given_means_are_eagers():
    need_torch()
    x, by = torch.randn(5, 8), torch.rand(8, 1) + 0.5

    def f(x, by):
        return torch.normal(x.t(), by), torch.normal(by, x.t().abs().double()), torch.normal(x, 2.0), torch.normal(x[0]), torch.normal(1.5, by), torch.rand(2)
    torch.manual_seed(3)
    want = f(x, by)
    torch._dynamo.reset()
    at.fallbacks.clear()
    compiled = torch.compile(f, backend="anfora")
    torch.manual_seed(3)
    for w, g in zip(want, compiled(x, by)):
        assert w.dtype == g.dtype and w.stride() == g.stride()
        close(w, g, 1e-7)
    assert not at.fallbacks, at.fallbacks
    raises(RuntimeError, "std >= 0.0", compiled, x, -by)

    def policy(y, reward):
        d = torch.distributions.Normal(y, 0.5)
        return -(d.log_prob(d.sample()) * reward[:, None]).sum()
    same_steps(policy, *((rows(), torch.randn(6).double()) for _ in range(2)))


def test_optimizers_that_decide_by_their_state():
    need_torch()
    o = torch.optim
    net = lambda: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))  # noqa: E731
    for of in (lambda ps: o.RAdam(ps, lr=0.02), lambda ps: o.RAdam(ps, lr=0.02, weight_decay=0.1, decoupled_weight_decay=True, betas=(0.9, 0.9)),
               lambda ps: o.ASGD(ps, lr=0.1, t0=4), lambda ps: o.Adafactor(ps, lr=0.05)):
        same_changes(net, lambda m, i: None, 8, optimizer=of)
    m = nn.Linear(2, 1)
    raises(CompileError, "more than once", at.compile_step(m, F.mse_loss, o.LBFGS(m.parameters())), torch.ones(3, 2), torch.ones(3, 1))


def test_state_begins_with_the_first_gradient():
    need_torch()

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.both = nn.Linear(3, 2), nn.Linear(3, 2), False

        def forward(self, x):
            return self.a(x) + self.b(x) if self.both else self.a(x)

    def change(m, i):
        m.both = i == 1
    for of in (lambda ps: torch.optim.Adam(ps, lr=0.01), lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9)):
        same_changes(Two, change, 4, optimizer=of)


def test_layers_of_floats_that_onednn_would_run():
    need_torch()
    torch.manual_seed(0)
    net = nn.LSTM(4, 3, batch_first=True)
    other = copy.deepcopy(net)
    o, p = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (net, other))
    step = at.compile_step(other, lambda y: y[0].square().sum(), p)
    for _ in range(2):
        x = torch.randn(2, 5, 4)
        o.zero_grad()
        loss = net(x)[0].square().sum()
        loss.backward()
        o.step()
        assert abs(step(x) - loss.item()) < 1e-5
    for a, b in zip(net.parameters(), other.parameters()):
        close(a.detach(), b.detach(), 1e-5)


def test_configurations_are_looked_at_in_each_call():
    """Numbers and tensors in objects that a model or a loss reads, such as argparse's; what they do not read may change."""
    need_torch()

    class Settings:
        def __init__(self):
            self.scale, self.weights, self.inner, self.calls = 2.0, torch.ones(4).double(), None, 0
            self.inner = self

    class Net(nn.Module):
        def __init__(self, of):
            super().__init__()
            self.of, self.linear = of, nn.Linear(4, 4).double()

        def forward(self, x):
            return self.linear(x) * self.of.scale * self.of.inner.weights
    settings, outside = Settings(), Settings()
    model = Net(settings)
    eager = copy.deepcopy(model)

    def loss(y):
        return (y * outside.scale).square().mean()
    step = at.compile_step(model, loss, torch.optim.SGD(model.parameters(), lr=0.01))
    optimizer = torch.optim.SGD(eager.parameters(), lr=0.01)
    for i in range(8):
        x = rows()
        for of in (settings, eager.of):
            of.calls += 1
            of.scale = 2.0 if i < 2 else 3.0
            if i == 4:
                of.weights = torch.arange(4.0).double()
            if i == 5:
                of.weights.add_(1)
        outside.calls, outside.scale = i, 1.0 if i < 6 else 0.5
        optimizer.zero_grad()
        want = loss(eager(x))
        want.backward()
        optimizer.step()
        assert abs(step(x) - float(want.detach())) < 1e-12
    close(model.linear.weight, eager.linear.weight)
    assert programs(step) == 4, programs(step)


def test_distances_of_no_points_have_gradients_of_the_arguments_shapes():
    need_torch()
    import anfora.torch  # noqa: F401 - the backend
    import torch
    for first, second in (((0, 3, 5), (4, 5)), ((3, 5), (0, 4, 5)), ((2, 3, 5), (4, 5))):
        a, b = (torch.arange(float(torch.Size(s).numel())).sin().reshape(s).requires_grad_() for s in (first, second))
        want = torch.autograd.grad(torch.cdist(a, b).sum(), (a, b))
        got = torch.autograd.grad(torch.compile(torch.cdist, backend="anfora")(a, b).sum(), (a, b))
        for x, y in zip(got, want):
            assert x.shape == y.shape and torch.allclose(x, y, atol=1e-5), (x, y)
