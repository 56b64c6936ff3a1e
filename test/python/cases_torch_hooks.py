# SPDX-License-Identifier: Apache-2.0
"""anfora.torch: functions that PyTorch calls while it computes gradients and updates, and numbers that a model draws by itself: a
step does what eager does, or is refused."""
import math
import random

from cases_torch import HAS_TORCH, close, need_torch
from cases_torch_state import layers, same_changes
from cases_torch_steps import raises, same_steps

if HAS_TORCH:
    import torch
    from torch import nn
    from torch.nn import functional as F
    from torch.nn.modules import module as modules
    from anfora import CompileError
    import anfora.torch as at


def refused(word, make, prepare, optimizer=lambda ps: torch.optim.SGD(ps, lr=0.1), **options):
    """Is the step of a model that `prepare(model, optimizer)` changes refused?"""
    m = make().double()
    o = optimizer(m.parameters())
    x, y = torch.randn(4, 3).double(), torch.randn(4, 2).double()
    prepare(m, o)
    raises(CompileError, word, at.compile_step(m, F.mse_loss, o, **options), x, y)
    m = make().double()  # and after a step without it
    o = optimizer(m.parameters())
    step = at.compile_step(m, F.mse_loss, o, **options)
    step(x, y)
    prepare(m, o)
    raises(CompileError, word, step, x, y)


def test_hooks_of_parameters_change_gradients():
    need_torch()
    mask = torch.tensor([1.0, 0.0, 1.0]).double()

    def change(m, i):
        if i == 0:
            m.hook = m[0].weight.register_hook(lambda g: g * mask)
            m[2].bias.register_hook(lambda g: g.clamp(-0.1, 0.1))
            m[2].weight.register_hook(lambda g: (g.mul_(0.5), None)[1])  # in place
        elif i == 2:
            m.hook.remove()
    same_changes(layers(nn.Tanh), change, 4)
    clip = lambda ps: ps[0].grad.mul_(mask)  # noqa: E731: a tensor that it captures
    m = layers(nn.Tanh)().double()
    before = m[0].weight.detach().clone()
    at.compile_step(m, F.mse_loss, torch.optim.SGD(m.parameters(), lr=0.1), clip=clip)(torch.randn(4, 3).double(), torch.randn(4, 2).double())
    assert [torch.equal(a, b) for a, b in zip(m[0].weight.T, before.T)] == [False, True, False]
    refused("a hook of a parameter's gradient gives None", layers(nn.Tanh), lambda m, o: m[0].weight.register_hook(lambda g: None))
    refused("gradients are gathered", layers(nn.Tanh), lambda m, o: m[0].weight.register_hook(lambda g: g), accumulate=2)


def test_hooks_that_no_step_would_call_are_refused():
    need_torch()
    make = layers(nn.Tanh)
    refused("module 1 has a hook of its backward pass", make, lambda m, o: m[1].register_full_backward_hook(lambda m, i, g: None))
    refused("module 1 has a hook of its backward pass", make, lambda m, o: m[1].register_full_backward_pre_hook(lambda m, g: None))
    refused("after its gradient was accumulated", make, lambda m, o: m[0].weight.register_post_accumulate_grad_hook(lambda p: None))
    refused("hook of its steps", make, lambda m, o: o.register_step_pre_hook(lambda o, a, k: None))
    refused("hook of its steps", make, lambda m, o: o.register_step_post_hook(lambda o, a, k: None))
    refused("step() of its own", make, lambda m, o: setattr(o, "step", lambda: None))

    def keeps(y):
        y.retain_grad()
        return y.sum()

    def hooked(y):
        if y.requires_grad:  # as in eager
            y.register_hook(lambda g: g * 2)
        return y.sum()
    m = nn.Linear(4, 4).double()
    for f, word in ((keeps, "keeps the gradient"), (hooked, "registers a hook")):
        raises(CompileError, word, at.compile_step(m, f, torch.optim.SGD(m.parameters(), lr=0.1)), torch.ones(2, 4).double())


def test_hooks_of_all_modules():
    need_torch()

    m, n = (layers(nn.Tanh)().double() for _ in range(2))
    n.load_state_dict(m.state_dict())
    o, p = (torch.optim.SGD(of.parameters(), lr=0.1) for of in (m, n))
    step = at.compile_step(n, F.mse_loss, p)
    x, y = torch.randn(4, 3).double(), torch.randn(4, 2).double()
    for i in range(3):
        hook = modules.register_module_forward_hook(lambda m, x, y: y * 0.5 if isinstance(m, nn.Tanh) else None) if i == 1 else None
        o.zero_grad()
        loss = F.mse_loss(m(x), y)
        loss.backward()
        o.step()
        assert math.isclose(step(x, y), loss.item(), rel_tol=1e-10), i
        if hook:
            hook.remove()


def test_models_that_look_whether_gradients_are_wanted():
    need_torch()

    def looked(y):
        z = y.detach()
        w = torch.zeros_like(y)
        return (y * (2.0 if y.requires_grad else 5.0)).sum() + (7.0 if z.requires_grad or w.requires_grad else 0.0)
    x = torch.randn(2, 4).double()
    same_steps(looked, (x,), (x,))


def test_random_numbers_that_are_not_pytorchs_are_refused():
    need_torch()
    import numpy as np
    own, rng, torchs = random.Random(1), np.random.default_rng(0), torch.Generator().manual_seed(1)
    for f in (lambda y: y.sum() * random.random(), lambda y: y.sum() * np.random.rand(), lambda y: y.sum() * own.random(),
              lambda y: y.sum() * rng.normal()):
        m = nn.Linear(4, 4).double()
        raises(CompileError, "draws random numbers of Python", at.compile_step(m, f, torch.optim.SGD(m.parameters(), lr=0.1)), torch.ones(2, 4).double())
    m = nn.Linear(4, 4).double()
    step = at.compile_step(m, lambda y: (y * torch.rand(4, generator=torchs)).sum(), torch.optim.SGD(m.parameters(), lr=0.1))
    raises(CompileError, "generator", step, torch.ones(2, 4).double())


def test_optimizers_draw_eagers_random_numbers():
    need_torch()

    class Langevin(torch.optim.SGD):
        def step(self, closure=None):
            with torch.no_grad():
                for p in self.param_groups[0]["params"]:
                    p.sub_(p.grad * 0.1).add_(torch.randn_like(p), alpha=0.01)
    same_changes(layers(lambda: nn.Dropout(0.5)), lambda m, i: None, optimizer=lambda ps: Langevin(ps, lr=0.1))


def test_optimizers_with_attributes_and_others_inside():
    need_torch()

    class Scaled(torch.optim.SGD):
        def __init__(self, ps, lr):
            super().__init__(ps, lr)
            self.by, self.counts = 2.0, False

        def step(self, closure=None):
            with torch.profiler.record_function("scaled"):
                for p in self.param_groups[0]["params"]:
                    p.grad = p.grad * self.by
            if self.counts:
                self.by += 1
            return super().step(closure)
    found = []

    def make(ps):
        found.append(Scaled(ps, 0.1))
        return found[-1]
    same_changes(layers(nn.Tanh), lambda m, i: [setattr(o, "by", 3.0) for o in found] if i else None, optimizer=make)
    refused("Scaled changes its attribute by", layers(nn.Tanh), lambda m, o: setattr(o, "counts", True), optimizer=lambda ps: Scaled(ps, 0.1))


def test_steps_without_one_loss_are_refused():
    need_torch()
    m = nn.Linear(4, 4).double()
    for f in (lambda y: (y.sum(), y), lambda y: y, lambda y: None, lambda y: 1.0):
        raises(CompileError, "not one real number", at.compile_step(m, f, torch.optim.SGD(m.parameters(), lr=0.1)), torch.ones(2, 4).double())


def test_steps_of_complex_parameters_write_no_more_than_these():
    need_torch()

    class Of(nn.Module):
        def __init__(self):
            super().__init__()
            self.memory = torch.full((16,), 7.0, dtype=torch.complex128)
            self.w = nn.Parameter(self.memory[4:8])
            self.w.data.copy_(torch.tensor([1 + 1j, 2, 3j, 4]))

        def forward(self, x):
            return (self.w * x).abs().square().sum()
    results = []
    for compiled in (False, True):
        m, x = Of(), torch.tensor([1j, 1, 2, 1 - 1j], dtype=torch.complex128)
        o = torch.optim.SGD(m.parameters(), lr=0.1)
        for _ in range(2):
            if compiled:
                at.compile_step(m, None, o)(x)
            else:
                o.zero_grad()
                m(x).backward()
                o.step()
        results.append(m.memory)
    close(*map(torch.view_as_real, results))
    odd = torch.frombuffer(bytearray(80), dtype=torch.complex128, count=4, offset=8)
    m = Of()
    m.w.data = odd
    raises(CompileError, "not aligned", at.compile_step(m, None, torch.optim.SGD(m.parameters(), lr=0.1)), x)
