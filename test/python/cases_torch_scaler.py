# SPDX-License-Identifier: Apache-2.0
"""anfora.torch: steps with a torch.amp.GradScaler, beside eager's with another one: skipped steps, scales, state_dicts, gathered gradients, half types."""
import copy

from cases_torch import HAS_TORCH, close, need_torch
from cases_torch_steps import raises

if HAS_TORCH:
    import torch
    from torch import nn
    from anfora import CompileError
    import anfora.torch as at


def clip(ps):
    torch.nn.utils.clip_grad_norm_(ps, 0.5, foreach=False)


def both(make, batches, scaling, tol=1e-10, dtype=None, accumulate=1, clip=None, state=None):
    """The same steps, eager and compiled: models, scalers and optimizers at their ends."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8, bias=False), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 2))
    model = model.float() if dtype else model.double()
    other = copy.deepcopy(model)
    o, p = make(model.parameters()), make(other.parameters())
    s, t = (torch.amp.GradScaler("cpu", **scaling) for _ in "st")
    for x in (s, t) if state else ():
        x.load_state_dict(state)
    step = at.compile_step(other, nn.functional.mse_loss, p, scaler=t, autocast=dtype, accumulate=accumulate, clip=clip)
    scales = []
    for i, (x, y) in enumerate(batches):
        with torch.autocast("cpu", dtype=dtype or torch.bfloat16, enabled=dtype is not None):
            loss = nn.functional.mse_loss(model(x), y)
        s.scale(loss / accumulate).backward()
        if (i + 1) % accumulate == 0:
            if clip:
                s.unscale_(o)
                clip(list(model.parameters()))
            s.step(o)
            s.update()
            o.zero_grad()
        close(torch.tensor(step(x, y), dtype=torch.float64), loss.detach().double(), tol)
        assert s.state_dict() == t.state_dict(), (s.state_dict(), t.state_dict())
        scales.append(s.get_scale())
        for a, b in zip((*model.parameters(), *model.buffers()), (*other.parameters(), *other.buffers())):
            close(a.detach(), b.detach(), tol)
    for a, b in zip(model.parameters(), other.parameters()):
        assert o.state[a].keys() <= p.state[b].keys(), (o.state[a], p.state[b])
        for k, v in o.state[a].items():
            close(torch.as_tensor(v), torch.as_tensor(p.state[b][k]), tol)
    return scales, step, t


def batches(bad, n=6, dtype=None):
    """Of those in `bad` gradients are not finite."""
    torch.manual_seed(3)
    made = [(torch.randn(5, 4, dtype=dtype), torch.randn(5, 2, dtype=dtype)) for _ in range(n)]
    return [(x, y * (torch.inf if dtype is torch.float64 else 1e38) if i in bad else y) for i, (x, y) in enumerate(made)]


def test_skipped_steps_and_scales():
    need_torch()
    make = [lambda ps: torch.optim.AdamW(ps, lr=0.01), lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9, nesterov=True)]
    scales, *_ = both(make[0], batches({2, 4}, 8, torch.float64), {"init_scale": 12.0, "growth_interval": 2, "growth_factor": 3.0, "backoff_factor": 0.3})
    assert len(set(scales)) > 3, scales
    both(make[1], batches({0, 3}, 5, torch.float64), {"growth_interval": 1}, clip=clip)
    both(make[1], batches({1}, 3, torch.float64), {}, state={
        "scale": 3.0, "growth_factor": 2.5, "backoff_factor": 0.25, "growth_interval": 2, "_growth_tracker": 1})


def test_gathered_gradients_are_scaled():
    need_torch()
    scales, *_ = both(lambda ps: torch.optim.Adam(ps, lr=0.01), batches({3}, 8, torch.float64), {"growth_interval": 1}, accumulate=2)
    assert scales[1] > scales[3] < scales[5], scales


def test_half_types_by_autocast():
    need_torch()
    for dtype, tol in (torch.bfloat16, 2e-2), (torch.float16, 2e-3):
        both(lambda ps: torch.optim.SGD(ps, lr=0.01), batches({1}), {"init_scale": 2.0 ** 10, "growth_interval": 2}, tol, dtype)


def test_settings_and_kinds_of_scalers():
    need_torch()
    _, step, t = both(lambda ps: torch.optim.SGD(ps, lr=0.1), batches((), 2, torch.float64), {"growth_interval": 1})
    x, y = batches((), 1, torch.float64)[0]
    for change in (lambda: t.set_growth_factor(4.0), lambda: t.update(8.0), lambda: t.load_state_dict({**t.state_dict(), "scale": 2.0, "growth_interval": 5})):
        change()
        scale, grows = t.get_scale(), t.get_growth_interval() == 1
        step(x, y)
        assert t.get_scale() == scale * (4 if grows else 1)
    model = nn.Linear(4, 2)
    o = torch.optim.SGD(model.parameters(), lr=0.1)
    raises(TypeError, "GradScaler", lambda: at.compile_step(model, nn.functional.mse_loss, o, scaler=1.0))
    off = torch.amp.GradScaler("cpu", enabled=False)
    at.compile_step(model, nn.functional.mse_loss, o, scaler=off)(torch.ones(3, 4), torch.ones(3, 2))
    model = model.half()
    step = at.compile_step(model, nn.functional.mse_loss, torch.optim.SGD(model.parameters(), lr=0.1), scaler=torch.amp.GradScaler("cpu"))
    raises(CompileError, "f16", step, torch.ones(3, 4).half(), torch.ones(3, 2).half())
