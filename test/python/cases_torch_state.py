# SPDX-License-Identifier: Apache-2.0
"""anfora.torch: steps of models that change between steps: which parameters are trained, attributes, hooks, variables of the loss,
beside eager PyTorch."""
import math

from cases_torch import HAS_TORCH, close, need_torch
from cases_torch_steps import raises

if HAS_TORCH:
    import torch
    from torch import nn
    from torch.nn import functional as F
    from anfora import CompileError, RunError
    import anfora.torch as at


def same_changes(make, change, steps=3, loss=None, optimizer=None):
    """Losses, state and the optimizer's state of steps between which change(model, i) is called, compiled and eager."""
    def begin():
        torch.manual_seed(0)
        m = make().double()
        return m, (optimizer or (lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9)))(m.parameters())
    loss = loss or F.mse_loss
    torch.manual_seed(3)
    x, y = torch.randn(steps, 4, 3).double(), torch.randn(steps, 4, 2).double()
    (eager, o), (other, p) = begin(), begin()
    step = at.compile_step(other, loss, p)
    for i in range(steps):
        torch.manual_seed(i)
        o.zero_grad()
        value = loss(eager(x[i]), y[i])
        value.backward()
        o.step()
        torch.manual_seed(i)
        assert math.isclose(step(x[i], y[i]), value.item(), rel_tol=1e-10), (i, value)
        change(eager, i)
        change(other, i)
    for (n, a), b in zip(eager.state_dict().items(), other.state_dict().values()):
        close(a.double(), b.double(), 1e-10)
    for a, b in zip(o.state_dict()["state"].values(), p.state_dict()["state"].values()):
        assert a.keys() == b.keys()
        for k in a:
            if a[k] is not None:
                close(a[k].double(), b[k].double(), 1e-10)
    return step


def layers(middle):
    return lambda: nn.Sequential(nn.Linear(3, 4), middle(), nn.Linear(4, 2))


def test_steps_see_which_parameters_are_trained():
    need_torch()

    def change(m, i):
        m[0].requires_grad_(i == 1)
        m[2].weight.requires_grad_(i != 1)
        m[2].bias.data = m[2].bias.data + i
    for of in (None, lambda ps: torch.optim.Adam(ps, lr=0.01)):
        same_changes(layers(nn.Tanh), change, 4, optimizer=of)


def test_steps_see_attributes():
    need_torch()
    same_changes(layers(lambda: nn.Dropout(0.2)), lambda m, i: setattr(m[1], "p", 0.7))
    same_changes(layers(lambda: nn.BatchNorm1d(4)), lambda m, i: setattr(m[1], "momentum", 0.5))
    same_changes(layers(lambda: nn.BatchNorm1d(4)), lambda m, i: m[1].eval() if i == 0 else m[1].train())
    same_changes(layers(nn.Tanh), lambda m, i: m[1].register_forward_hook(lambda m, x, y: y * 2) if i == 0 else None)
    scale = {"by": 1.0}
    rate = 1.0

    def change(m, i):
        nonlocal rate
        rate, scale["by"] = 0.5 + i, 2.0 * i
    same_changes(layers(nn.Tanh), change, loss=lambda y, t: F.mse_loss(y, t) * rate + y.abs().sum() * scale["by"])


class Counted(nn.Module if HAS_TORCH else object):
    def __init__(self):
        super().__init__()
        self.linear, self.steps, self.begun = nn.Linear(3, 2), 0, False

    def forward(self, x):
        self.steps += 1
        if not self.begun:
            self.begun, self.first = True, x
            return self.linear(x) * 3
        return self.linear(x) / self.steps


class Twice(nn.Module if HAS_TORCH else object):
    def __init__(self):
        super().__init__()
        self.norm, self.linear = nn.BatchNorm1d(3), nn.Linear(3, 2)

    def forward(self, x):
        return self.linear(self.norm(x) * self.norm(x * x))


class Kept(nn.Module if HAS_TORCH else object):
    def __init__(self, first):
        super().__init__()
        self.linear, self.last = nn.Linear(3, 2).double(), first

    def forward(self, x):
        y = self.linear(x)
        self.last = (y if self.last is None else y + self.last).detach()
        return y.sum() + self.last.sum()


def test_models_that_change_themselves():
    need_torch()
    step = same_changes(Counted, lambda m, i: None)
    assert step.model.steps == 3 and step.model.begun
    x = torch.ones(4, 3).double(), torch.ones(4, 2).double()
    raises(CompileError, "changes its attribute steps", lambda: [step(*x) for _ in range(9)])
    same_changes(Twice, lambda m, i: None)
    for first, word in ((None, "attribute last, which was None"), (torch.zeros(4, 2).double(), "reads the tensor of its attribute last")):
        m = Kept(first)
        raises(CompileError, word, at.compile_step(m, None, torch.optim.SGD(m.parameters(), lr=0.1)), x[0])
        assert m.last is first


def test_steps_of_models_whose_memory_is_not_row_major():
    need_torch()

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.c, self.b, self.o = nn.Conv2d(1, 3, 2), nn.BatchNorm2d(3), nn.Linear(3, 2)
            self.w = nn.Parameter(torch.randn(4, 3).T)

        def forward(self, x):  # [4, 3]
            return self.o(torch.relu(self.b(self.c((x @ self.w)[:, None, None].expand(-1, -1, 2, -1)))).mean((2, 3)))

    def change(m, i):
        if i == 1:
            m.to(memory_format=torch.channels_last)
    same_changes(Net, change)
    step = same_changes(lambda: Net().to(memory_format=torch.channels_last), lambda m, i: None)
    assert step.model.c.weight.is_contiguous(memory_format=torch.channels_last)
    raises(CompileError, "not row-major", at.export_step, step, (torch.randn(4, 3).double(), torch.randn(4, 2).double()), "/nowhere")


def test_steps_write_arguments_as_eager_does():
    need_torch()
    class Scaled(nn.Linear):
        def forward(self, x):
            return super().forward(x.mul_(2))

    def adds(y, t):
        t.add_(1)
        return (y * t).sum()

    def places(y, t):
        t[1:] = y.detach()[1:] * 2
        return (y * t).mean()
    for make, loss, accumulate in ((nn.Linear, adds, 1), (nn.Linear, places, 2), (Scaled, F.mse_loss, 1)):
        models = [make(3, 3).double() for _ in range(2)]
        models[1].load_state_dict(models[0].state_dict())
        optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in models]
        step = at.compile_step(models[1], loss, optimizers[1], accumulate=accumulate)
        x, t = torch.randn(3, 3).double(), torch.randn(3, 3).double()
        for turned in (False, True):  # a transposed argument is written where it is, by a program of its own
            eager, ours = ([(a.clone().t() if turned else a.clone()) for a in (x, t)] for _ in range(2))
            for _ in range(accumulate):
                value = loss(models[0](eager[0]), eager[1])
                (value / accumulate).backward()
                assert math.isclose(step(*ours), value.item(), rel_tol=1e-10)
            optimizers[0].step()
            optimizers[0].zero_grad()
            for a, b in zip((*eager, *models[0].parameters()), (*ours, *models[1].parameters())):
                close(a.detach(), b.detach(), 1e-10)


def test_arguments_that_a_step_cannot_write_are_refused():
    need_torch()
    def adds(y, t):
        t.add_(1)
        return (y * t).sum()
    model = nn.Linear(3, 3)
    step = at.compile_step(model, adds, torch.optim.SGD(model.parameters(), lr=0.1))
    x, wide = torch.randn(3, 3), torch.randn(3, 6)
    step(x, wide[:, :3].contiguous())
    step(x.clone(), x)
    raises(CompileError, "memory is that of another argument", step, x, x)
    raises(CompileError, "memory is that of another argument", step, x, model.weight.detach())
    bias = torch.ones(3, 3)
    captures = at.compile_step(model, lambda y, t: (y * t.add_(1) + bias).sum(), torch.optim.SGD(model.parameters(), lr=0.1))
    captures(x, x.clone())
    raises(CompileError, "a tensor that the loss reads", captures, x, bias)
    raises(CompileError, "not dense", step, x, wide[:, ::2])
    raises(CompileError, "negative view", step, x, torch._neg_view(x.clone()))
    raises(CompileError, "writes an argument in place", at.export_step, step, (x, x.clone()), "/nowhere")

    class Grows(nn.Linear):
        def forward(self, x):
            with torch.no_grad():
                self.weight.add_(1)
            return super().forward(x)
    grows = Grows(3, 3)
    raises(CompileError, "writes its parameter weight", at.compile_step(grows, F.mse_loss, torch.optim.SGD(grows.parameters(), lr=0.1), accumulate=2), x, x.clone())


if HAS_TORCH:
    class Followed(nn.Module):
        """Weights that follow the trained ones, in the ways that models write them."""

        def __init__(self, how):
            super().__init__()
            self.trained, self.slow, self.how = nn.Linear(3, 2), nn.Linear(3, 2).requires_grad_(False), how
            self.register_buffer("sum", torch.zeros(2))

        def forward(self, x):
            with torch.no_grad():
                for fast, slow in zip(self.trained.parameters(), self.slow.parameters()):
                    self.how(fast, slow)
                before = self.sum.detach()
                self.sum.data = before * 0.9 + self.slow(x).mean(0)
                self.sum.data.mul_(0.5)
                self.sum.detach()[:1].add_(1)
            return self.trained(x) * (self.slow(x) + self.sum - before)

    def gives(fast, slow):
        slow.data = slow.data * 0.9 + fast.data * 0.1

    def in_place(fast, slow):
        slow.data.mul_(0.9).add_(fast.data, alpha=0.1)


def test_models_write_parameters():
    need_torch()
    for how in (gives, in_place, lambda fast, slow: slow.lerp_(fast, 0.1), lambda fast, slow: slow.copy_(slow + fast),
                lambda fast, slow: setattr(fast, "data", slow.data * 2), lambda fast, slow: fast.data[0].mul_(2),
                lambda fast, slow: torch.mul(fast.data, 2, out=fast.data)):
        same_changes(lambda how=how: Followed(how), lambda m, i: None)
    for word, how in (("memory of another", lambda fast, slow: setattr(slow, "data", fast.data)),
                      ("memory of another", lambda fast, slow: setattr(slow, "data", fast.data[:1])),
                      ("_foreach_mul", lambda fast, slow: torch._foreach_mul_([fast.data], 2)),
                      ("another shape", lambda fast, slow: fast.detach().unsqueeze_(0).mul_(2))):
        m = Followed(how)
        raises(CompileError, word, at.compile_step(m, F.mse_loss, torch.optim.SGD(m.parameters(), lr=0.1)), torch.ones(4, 3), torch.ones(4, 2))


def test_steps_of_models_with_statistics_of_instances():
    need_torch()
    same_changes(lambda: nn.Sequential(nn.Unflatten(1, (1, 3)), nn.InstanceNorm1d(1, affine=True, track_running_stats=True), nn.Flatten(), nn.Linear(3, 2)),
                 lambda m, i: m.train(i != 1), 4)


def test_steps_count_as_writes():
    need_torch()
    model = nn.Linear(3, 3)
    step = at.compile_step(model, F.mse_loss, torch.optim.SGD(model.parameters(), lr=0.5))
    frozen = torch.compile(model, backend="anfora", options={"freeze": True})
    x = torch.randn(2, 3)
    for _ in range(3):
        with torch.no_grad():
            close(frozen(x), model(x), 1e-6)
        step(x, x + 1)
    value = (model(x).relu() @ model.weight).sum()
    step(x, x + 1)
    raises(RuntimeError, "modified by an inplace operation", value.backward)


def test_optimizers_that_make_their_state_in_their_first_step():
    """Outside of PyTorch nearly all do; with another value than 0, a state in another order of memory, and rates that are factors of in-place ops."""
    need_torch()

    class Own(torch.optim.Optimizer):
        def __init__(self, params, lr=0.1, number=False):
            super().__init__(params, dict(lr=lr, number=number))

        @torch.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    state = self.state[p]
                    if not state:
                        state["slow"], state["count"] = p.clone().contiguous(), torch.zeros(())
                        if group["number"]:
                            state["turns"] = 0
                    state["count"] += 1
                    p.sub_(p.grad, alpha=group["lr"])
                    state["slow"].lerp_(p, 0.5)
                    p.add_(state["slow"] - p, alpha=0.1 / state["count"].item())

    def change(m, i):
        m[0].requires_grad_(i == 1)
    step = same_changes(layers(nn.Tanh), lambda m, i: None, 4, optimizer=Own)
    assert sum(map(len, step.codes.values())) == 1
    same_changes(layers(nn.Tanh), change, 4, optimizer=Own)
    same_changes(lambda: nn.Sequential(nn.Unflatten(1, (1, 1, 3)), nn.Conv2d(1, 2, (1, 2)), nn.Flatten(), nn.Linear(4, 2)).to(memory_format=torch.channels_last),
                 lambda m, i: None, 3, optimizer=Own)

    model = layers(nn.Tanh)().double()
    x, y = torch.randn(4, 3).double(), torch.randn(4, 2).double()
    optimizer = Own(model.parameters(), number=True)
    raises(CompileError, "keeps turns in its state", lambda: at.compile_step(model, F.mse_loss, optimizer)(x, y))
    assert not optimizer.state
    optimizer = Own(model.parameters())
    step = at.compile_step(model, F.mse_loss, optimizer, stop_at_nan=True)
    raises(RunError, "", lambda: step(x * math.nan, y))
    assert not optimizer.state
    step(x, y)
    assert optimizer.state[model[0].weight]["count"] == 1


def test_optimizers_whose_steps_change_more_than_their_state_are_refused():
    """A trace has the numbers of one step."""
    need_torch()

    class Own(torch.optim.Optimizer):
        def __init__(self, params, change):
            super().__init__(params, dict(lr=0.1, k=1))
            self.change = change

        @torch.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                self.change(group)
                for p in group["params"]:
                    p.add_(p.grad, alpha=-group["lr"] / group["k"])
    model, x, y = nn.Linear(3, 2), torch.randn(4, 3), torch.randn(4, 2)
    for change, name in ((lambda g: g.update(k=g["k"] + 1), "setting k"), (lambda g: g.update(lr=g["lr"] * 0.5), "setting lr"), (lambda g: g["lr"].mul_(0.5), "setting lr"),
                         (lambda g: g.setdefault("turns", 3), "setting turns")):
        raises(CompileError, f"changes its {name} in each step", lambda: at.compile_step(model, F.mse_loss, Own(model.parameters(), change))(x, y))
    optimizer = Own(model.parameters(), len)
    optimizer.state["all"]["count"] = torch.zeros(())
    raises(CompileError, "of no parameter", lambda: at.compile_step(model, F.mse_loss, optimizer)(x, y))
