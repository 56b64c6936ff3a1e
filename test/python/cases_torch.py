# SPDX-License-Identifier: Apache-2.0
"""anfora.torch beside eager PyTorch. Without PyTorch each case says so and is skipped."""
import contextlib
import importlib.util
import io
import os

os.environ.setdefault("ANFORA_CACHE", "off")
HAS_TORCH = importlib.util.find_spec("torch") is not None
if HAS_TORCH:
    import torch
    from torch import nn
    from anfora import CompileError, RunError
    import anfora.torch as at
    import anfora.torch._backend as backend


class Skip(Exception):
    """A case that cannot run here."""


def need_torch():
    if not HAS_TORCH:
        raise Skip("PyTorch is not installed")
    torch._dynamo.reset()
    torch.manual_seed(0)
    at.fallbacks.clear()


def close(a, b, tol=1e-9):
    assert a.dtype == b.dtype and a.shape == b.shape, (a.dtype, a.shape, b.dtype, b.shape)
    assert torch.allclose(a, b, rtol=tol, atol=tol, equal_nan=True), (a - b).abs().max()


def same_training(make, *xs, tol=1e-9, options=None):
    """Values, gradients, buffers and inference of a module, compiled and eager."""
    eager, other = make().double(), make().double()
    other.load_state_dict(eager.state_dict())
    compiled = torch.compile(other, backend="anfora", options=options)
    results = []
    for f in (eager, compiled):
        torch.manual_seed(1)
        inputs = [x.clone().requires_grad_(x.is_floating_point()) for x in xs]
        y = f(*inputs)
        (y * torch.cos(torch.arange(y.numel(), dtype=y.dtype)).reshape(y.shape)).sum().backward()
        results.append([y, *(x.grad for x in inputs if x.requires_grad)])
    for a, b in zip(*results):
        close(a, b, tol)
    for p, q in zip(eager.parameters(), other.parameters()):
        close(p.grad, q.grad, tol)
    for p, q in zip(eager.buffers(), other.buffers()):
        close(p, q, tol)
    eager.eval(), other.eval()
    with torch.no_grad():
        close(eager(*xs), compiled(*xs), tol)
    assert not at.fallbacks, at.fallbacks


if HAS_TORCH:
    class Middle(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))

        def forward(self, x):
            return (x * self.scale).median(1)[0] + (x * self.scale).median() + (x * self.scale).nanmedian(1)[0]


def test_perceptron():
    need_torch()
    same_training(lambda: nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3), nn.GELU()), torch.randn(4, 5).double())


def test_convolutions_and_batch_norm():
    need_torch()
    same_training(lambda: nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1, stride=2), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.ConvTranspose2d(4, 6, 2, stride=2),
        nn.GroupNorm(2, 6), nn.SiLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(24, 3)), torch.randn(2, 3, 16, 16).double())


def test_attention_with_eagers_dropout():
    need_torch()

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.attention = nn.LayerNorm(16), nn.MultiheadAttention(16, 4, batch_first=True)
            self.mlp = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Dropout(0.25), nn.Linear(32, 16))

        def forward(self, x):
            h = self.norm(x)
            x = x + self.attention(h, h, h, need_weights=False)[0]
            return x + self.mlp(self.norm(x))
    same_training(Block, torch.randn(2, 7, 16).double())


def test_dropout_of_transposed_tensors_is_eagers():
    need_torch()

    class Turned(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(6, 6), nn.Linear(6, 6)

        def forward(self, x):
            return self.last(nn.functional.dropout(self.first(x).transpose(0, 1), 0.3, self.training))
    same_training(Turned, torch.randn(5, 4, 6).double())


def test_embedding_and_loss():
    need_torch()

    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.out = nn.Embedding(11, 6, padding_idx=0), nn.Linear(6, 11)

        def forward(self, ids):
            y = self.out(self.table(ids)[:, :-1])
            return nn.functional.cross_entropy(y.reshape(-1, 11), ids[:, 1:].reshape(-1), ignore_index=3).reshape(1)
    same_training(Words, torch.randint(0, 11, (3, 5)))


def test_views_and_mutation():
    need_torch()

    def f(x, y):
        x.add_(1)
        z = x.t()
        z[0] = y
        return z, x.view(-1)[1:], y
    a, b = torch.randn(3, 3), torch.randn(3, 3)
    y = torch.randn(3)
    b.copy_(a)
    want, got = f(a, y), torch.compile(f, backend="anfora")(b, y)
    close(a, b, 1e-6)
    for v, w in zip(want, got):
        close(v, w, 1e-6)
        assert v.stride() == w.stride()
    want[1].mul_(2), got[1].mul_(2)
    close(a, b, 1e-6)  # the results are parts of the argument


def test_one_program_is_for_all_sizes_of_a_batch():
    need_torch()
    programs = []

    class Seen(backend.AnySize):
        def __init__(self, *args):
            super().__init__(*args)
            programs.append(self)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 8), nn.LayerNorm(8), nn.Softmax(-1)).double().eval()
    heads = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True).double().eval()
    whole = lambda x: x - x.mean(0)
    before, backend.AnySize = backend.AnySize, Seen
    try:
        turned = lambda x: x.flip(1).reshape(len(x) * 2, -1).exp()
        for f, shape, apart in ((model, (1, 8, 8), True), (heads, (5, 8), True), (whole, (3,), False), (turned, (4,), False)):
            compiled, programs[:] = torch.compile(f, backend="anfora", dynamic=True), []
            with torch.no_grad():
                for n in range(9, 17):
                    x = torch.randn(n, *shape, dtype=torch.float64)
                    close(compiled(x), f(x))
            said = programs[0].function.explain()
            made = int(said.split()[0])
            assert len(programs) == 1 and (made == 6 if apart else 3 <= made <= 8), said
            assert apart or made == 8 or f"{8 - made} calls" in said, said
    finally:
        backend.AnySize = before


def test_batches_of_any_size():
    need_torch()
    model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Flatten(), nn.Linear(8, 2))
    compiled = torch.compile(model, backend="anfora", dynamic=True)
    frames = torch._dynamo.utils.counters
    frames.clear()
    for n in (3, 7, 4, 7):
        x = torch.randn(n, 5)
        close(model(x), compiled(x), 1e-6)
        compiled(x).sum().backward()
    assert frames["stats"]["unique_graphs"] == 1


def test_random_numbers_are_eagers():
    need_torch()

    def f(x):
        return x + torch.rand(4), torch.randn_like(x) * x, torch.randint(0, 9, (5,)), torch.bernoulli(x.sigmoid() * 0 + 0.5) * 0
    x = torch.randn(4)
    compiled = torch.compile(f, backend="anfora")
    with contextlib.redirect_stderr(io.StringIO()):
        torch.manual_seed(3)
        want = f(x)
        torch.manual_seed(3)
        got = compiled(x)
    for v, w in zip(want[:3], got[:3]):
        close(v, w, 1e-7)


def test_draws_that_nothing_reads_move_the_generator():
    need_torch()

    def f(x):
        torch.rand(3), torch.empty(5).normal_(), nn.functional.dropout(x, 0.5, True)[0]
        twice = torch.randn(2) * 2  # noqa: F841: is read, but by nothing that is given
        return x * torch.rand(4), x + 1
    compiled = torch.compile(f, backend="anfora")
    for x in (torch.ones(4), torch.ones(4, requires_grad=True)):
        torch.manual_seed(3)
        want, after = f(x), torch.rand(2)
        torch.manual_seed(3)
        got, then = compiled(x), torch.rand(2)
        assert len(got) == 2 and torch.equal(after, then), (after, then)
        for w, g in zip(want, got):
            close(w, g, 1e-7)
        if x.requires_grad:
            sum(y.sum() for y in got).backward()
            close(x.grad, want[0].detach() + 1, 1e-6)


def test_fallbacks_are_counted_and_named():
    need_torch()

    def f(x):
        return torch.linalg.eig(x @ x.t())[0].abs() + 1
    said = io.StringIO()
    x = torch.randn(3, 3).double()
    with contextlib.redirect_stderr(said):
        got = torch.compile(f, backend="anfora")(x)
    close(f(x), got)
    assert "linalg_eig" in said.getvalue() and "cases_torch.py:" in said.getvalue(), said.getvalue()
    assert sum(at.fallbacks.values()) == 1


def test_options():
    need_torch()
    same_training(lambda: nn.Linear(3, 2), torch.randn(2, 3).double(), options={"threads": False})
    try:
        torch.compile(nn.Linear(2, 2), backend="anfora", options={"wrong": 1})(torch.randn(1, 2))
        raise AssertionError("an option that is not known was taken")
    except Exception as e:
        assert "no option wrong" in str(e)


def test_what_pytorch_asserts_is_checked():
    need_torch()
    import torch.nn.functional as F
    f = torch.compile(lambda x, w: F.one_hot(x, 4).double() @ w, backend="anfora")
    x, w = torch.tensor([3, 0, 1]), torch.randn(4, 2).double()
    close(f(x, w), F.one_hot(x, 4).double() @ w)
    y = f(x, w.requires_grad_())
    y.square().sum().backward()
    got, w.grad = w.grad, None
    (F.one_hot(x, 4).double() @ w).square().sum().backward()
    close(got, w.grad)
    assert not at.fallbacks, at.fallbacks
    for wrong in (torch.tensor([4, 0, 0]), torch.tensor([-1, 0, 0])):
        try:
            f(wrong, w)
            raise AssertionError("a class that is none was taken")
        except RuntimeError as e:
            assert "Class values" in str(e), e


def test_weights_by_direction_and_length():
    need_torch()
    weight_norm = nn.utils.parametrizations.weight_norm
    same_training(lambda: nn.Sequential(weight_norm(nn.Linear(3, 4)), nn.Tanh(), weight_norm(nn.Linear(4, 2), dim=1)), torch.randn(5, 3).double())
    same_training(lambda: weight_norm(nn.Conv1d(2, 3, 3)), torch.randn(2, 2, 6).double())
    same_training(lambda: weight_norm(nn.PReLU(3)), torch.randn(2, 3).double())


def test_frozen_weights_are_those_of_the_call():
    need_torch()
    from anfora.torch import _frozen
    made, before = [], _frozen.Frozen._frozen

    def counted(self, weights):
        made.append(len(weights))
        return before(self, weights)
    model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)).double().eval()
    compiled = torch.compile(model, backend="anfora", options={"freeze": True})
    x = torch.randn(2, 2, 6, 6).double()

    def check(codes):
        with torch.no_grad():
            close(model(x), compiled(x))
        assert made == [8] * codes, made  # weights, biases and means of the layers
    _frozen.Frozen._frozen = counted
    try:
        check(1), check(1)
        with torch.no_grad():
            model[0].weight.add_(1)
        check(1), check(2), check(2)
        model[4].weight.data = torch.randn(3, 64).double()
        check(2), check(3)
        model[1].running_mean.mul_(3)
        check(3)
        model.load_state_dict({k: v * 2 for k, v in model.state_dict().items()})
        check(3), check(4)
    finally:
        _frozen.Frozen._frozen = before
    same_training(lambda: nn.Linear(3, 2), torch.randn(2, 3).double(), options={"freeze": True})
    with torch.inference_mode():  # these tensors have no versions, and are no constants
        layer = nn.Linear(3, 2).double()
        compiled, x = torch.compile(layer, backend="anfora", options={"freeze": True}), torch.randn(2, 3).double()
        close(layer(x), compiled(x))
        layer.weight.add_(1)
        close(layer(x), compiled(x))


def test_no_row_is_written_twice():
    need_torch()
    from anfora.torch import _table
    _table.row_of(torch.ops.aten.add.Tensor)
    tables = [_table.ROWS, _table.POINTWISE, _table.COMPARE, _table.PLAIN]
    names = [n for t in tables for n in t]
    assert len(names) == len(set(names)), [n for n in names if names.count(n) > 1]
    for n in names:  # each is an op that there is
        space, name = n.split(".", 1) if n.startswith(("prims.", "anfora.")) else ("aten", n)
        assert hasattr(getattr(torch.ops, space), name.split(".")[0]), n


# ---- whole steps ----

def small_network():
    return nn.Sequential(nn.Conv2d(2, 3, 3, bias=False), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Dropout(0.2), nn.Linear(48, 6),
                         nn.LayerNorm(6), nn.GELU(), nn.Linear(6, 3)).double()


def same_steps(make, steps=3, tol=1e-8, **options):
    """Steps of compile_step beside eager's: losses, parameters, buffers, the optimizer's state."""
    import copy
    torch.manual_seed(0)
    eager, other = small_network(), None
    other = copy.deepcopy(eager)
    a, b = make(eager.parameters()), make(other.parameters())
    step = at.compile_step(other, nn.functional.cross_entropy, b, **options)
    rates = [torch.optim.lr_scheduler.ExponentialLR(o, 0.7) for o in (a, b)]
    for i in range(steps):
        x, y = torch.randn(2, 2, 6, 6).double(), torch.randint(0, 3, (2,))
        torch.manual_seed(i)
        a.zero_grad()
        loss = nn.functional.cross_entropy(eager(x), y)
        loss.backward()
        if "clip" in options:
            options["clip"](list(eager.parameters()))
        a.step()
        torch.manual_seed(i)
        assert abs(step(x, y) - loss.item()) < tol
        b._opt_called = True  # what schedulers look for
        for r in rates:
            r.step()
    assert a.state_dict()["state"].keys() == b.state_dict()["state"].keys()
    for p, q in zip(eager.parameters(), other.parameters()):
        close(p.detach(), q.detach(), tol)
        for k, v in a.state.get(p, {}).items():
            if isinstance(v, torch.Tensor):
                close(v, b.state[q][k], tol)
    for p, q in zip(eager.buffers(), other.buffers()):
        close(p, q, tol)
    assert len(step.codes) == 1
    return other, b, step


def test_steps_with_momentum():
    need_torch()
    same_steps(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-2))


def test_steps_with_dampening():
    """SGD's first buffers are the gradients themselves."""
    need_torch()
    make = lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5)  # noqa: E731
    _, optimizer, step = same_steps(make)
    assert optimizer.param_groups[0]["dampening"] == 0.5 and sum(map(len, step.codes.values())) == 1
    m = nn.Linear(2, 2)
    try:
        at.compile_step(m, torch.sum, make(m.parameters()), stop_at_nan=True)(torch.ones(1, 2))
    except CompileError as e:
        assert "dampening" in str(e), e
    else:
        raise AssertionError("a first step that may be left out is not refused")


def test_steps_with_adamw_and_clipping():
    need_torch()
    model, optimizer, step = same_steps(lambda p: torch.optim.AdamW(p, lr=1e-2, amsgrad=True),
                                        clip=lambda ps: torch.nn.utils.clip_grad_norm_(ps, 0.1, foreach=False))
    state = optimizer.state_dict()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    x, y = torch.randn(2, 2, 6, 6).double(), torch.randint(0, 3, (2,))
    torch.manual_seed(5)
    first = step(x, y)
    model.load_state_dict(before)
    torch.manual_seed(5)
    assert step(x, y) == first  # state that was loaded is what the next step starts from
    assert state["state"][0]["step"] == 5


def test_steps_with_other_optimizers():
    need_torch()
    for make in (lambda p: torch.optim.SGD(p, maximize=True), lambda p: torch.optim.RMSprop(p, momentum=0.5, centered=True), lambda p: torch.optim.Adagrad(p, lr_decay=0.1),
                 lambda p: at.Lion(p, weight_decay=0.1)):
        same_steps(make, steps=2, tol=1e-7)


def beside_eager(make, schedule, accumulate=1, calls=5, **options):
    """A small network under compile_step beside eager, whose scheduler steps with the optimizer; the step and how far they are apart."""
    import copy
    torch.manual_seed(0)
    eager = nn.Sequential(nn.Linear(5, 4), nn.Dropout(0.2), nn.Tanh(), nn.Linear(4, 3)).double()
    other = copy.deepcopy(eager)
    a, b = make(eager.parameters()), make(other.parameters())
    step = at.compile_step(other, nn.functional.cross_entropy, b, accumulate=accumulate, **options)
    schedulers = schedule(a), schedule(b)
    for i in range(calls):
        n = 4 if accumulate == 1 else 4 - i % 2
        x, y = torch.randn(n, 5).double(), torch.randint(0, 3, (n,))
        torch.manual_seed(i)
        loss = nn.functional.cross_entropy(eager(x), y)
        (loss / accumulate).backward()
        torch.manual_seed(i)
        assert abs(step(x, y) - loss.item()) < 1e-12
        if (i + 1) % accumulate == 0:
            if "clip" in options:
                options["clip"](list(eager.parameters()))
            a.step()
            a.zero_grad()
            b._opt_called = True
            for s in schedulers:
                s.step()
    for p, q in zip(eager.parameters(), other.parameters()):
        close(p.detach(), q.detach())
    return step


def test_settings_that_a_scheduler_changes_become_inputs():
    need_torch()
    one = lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=10)
    for make in (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), lambda p: torch.optim.AdamW(p, lr=1e-2)):
        step = beside_eager(make, one)
        assert sum(map(len, step.codes.values())) == 2 and len(step.moving) == 1, (step.codes, step.moving)
    switched = beside_eager(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda i: o.param_groups[0].update(
        momentum=(0.9, 0.8, 0.0, 0.7, 0.0)[i % 5]) or 1.0))
    assert sum(map(len, switched.codes.values())) == 3  # as it was, an input, and none


def test_gradients_of_several_calls():
    need_torch()
    clip = lambda ps: torch.nn.utils.clip_grad_norm_(ps, 0.1, foreach=False)
    constant = lambda o: torch.optim.lr_scheduler.ConstantLR(o)
    step = beside_eager(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), constant, 3, 7, clip=clip)
    assert step.gathered == 1
    for wrong in (0, 1.5):
        try:
            at.compile_step(nn.Linear(1, 1), None, step.optimizer, accumulate=wrong)
            raise AssertionError("accumulate was taken")
        except ValueError as e:
            assert "at least 1" in str(e)
    try:
        at.export_step(step, (torch.randn(4, 5).double(), torch.randint(0, 3, (4,))), ".")
        raise AssertionError("a step of several programs was exported")
    except CompileError as e:
        assert "more than one program" in str(e)
    try:
        step(torch.eye(5).double().to_sparse(), torch.randint(0, 3, (5,)))
        raise AssertionError("a sparse tensor was taken")
    except CompileError as e:
        assert "layout torch.sparse_coo" in str(e)


def test_medians():
    need_torch()
    nan = float("nan")
    x = torch.tensor([[3.0, -1.0, 0.5, 2.0, 7.0, 1.0], [nan, 1.0, 4.0, nan, -2.0, 9.0]]).double()

    def f(x):
        return (x.median(), x.median(1), x.median(0, keepdim=True), x.nanmedian(), x.nanmedian(1), x.nanmedian(0, keepdim=True),
                x[0].to(torch.int64).median(), x[0, 0].median(0))
    got, want = torch.compile(f, backend="anfora")(x), f(x)
    for a, b in zip(torch.utils._pytree.tree_leaves(got), torch.utils._pytree.tree_leaves(want)):
        close(a, b)
    same_training(Middle, x[:1].contiguous())
    assert not at.fallbacks, at.fallbacks


def test_mixed_precision():
    need_torch()
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    step = at.compile_step(model, nn.functional.mse_loss, torch.optim.SGD(model.parameters(), lr=0.05), autocast=torch.bfloat16)
    x = torch.randn(16, 8)
    y = x.sum(1, keepdim=True)
    losses = [step(x, y) for _ in range(30)]
    assert losses[-1] < 0.5 * losses[0] and model[0].weight.dtype is torch.float32
    assert "bf16" in step.source(x, y)


def test_frozen_parameters_stay():
    need_torch()
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1))
    model[0].requires_grad_(False)
    frozen, free = model[0].weight.clone(), model[1].weight.clone()
    step = at.compile_step(model, nn.functional.mse_loss, torch.optim.SGD(model.parameters(), lr=0.1))
    step(torch.randn(5, 3), torch.randn(5, 1))
    assert torch.equal(model[0].weight, frozen) and not torch.equal(model[1].weight, free)


# ---- second order ----

def test_force_matching():
    """Energy to forces to loss to weights: torch.compile cannot differentiate a compiled gradient."""
    need_torch()
    import copy

    class Energy(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 8), nn.Linear(8, 1)

        def energy(self, r):
            return self.b(torch.tanh(self.a(r[:, None] - r[None])).sum(1)).sum()

        def forward(self, r):
            with torch.enable_grad():
                r = r.detach().requires_grad_()
                e = self.energy(r)
                return e, -torch.autograd.grad(e, r, create_graph=True)[0]

    def loss(out, forces):
        return ((out[1] - forces) ** 2).mean() + 0.1 * out[0] ** 2
    eager = Energy().double()
    other = copy.deepcopy(eager)
    a, b = (torch.optim.Adam(m.parameters(), lr=1e-2) for m in (eager, other))
    step = at.compile_step(other, loss, b)
    r, forces = torch.randn(5, 3).double(), torch.randn(5, 3).double()
    for _ in range(3):
        a.zero_grad()
        value = loss(eager(r), forces)
        value.backward()
        a.step()
        assert abs(step(r, forces) - value.item()) < 1e-12
    for p, q in zip(eager.parameters(), other.parameters()):
        close(p.detach(), q.detach())


def test_functions_of_anfora_have_gradients_of_any_order():
    need_torch()
    import anfora.numpy as anp
    x = torch.randn(2, 3).double().requires_grad_()
    w = torch.randn(3, 2).double().requires_grad_()
    i = torch.tensor([0, 1, 0])
    f = at.Function(lambda x, w, i: (anp.tanh(x @ w)[i], anp.sum(x ** 3)))
    y, s = f(x, w, i)
    close(y.detach(), torch.tanh(x @ w)[i].detach())
    assert torch.autograd.gradcheck(lambda x, w: f(x, w, i), (x, w))
    assert torch.autograd.gradgradcheck(lambda x, w: f(x, w, i), (x, w))


def test_steps_for_hosts_in_c():
    """An exported step, run from C, does what it does here."""
    need_torch()
    import ctypes
    import glob
    import shutil
    import subprocess
    import sys
    import tempfile
    build = os.path.dirname(os.path.abspath(sys.argv[1]))
    runtimes = glob.glob(os.path.join(build, "runtime", "libanfora_rt.a")) + glob.glob(os.path.join(build, "runtime", "libanfora_rt.so"))
    include = os.path.join(os.path.dirname(__file__), "../../include")
    if not shutil.which("cc") or not runtimes:
        raise Skip("there is no C compiler, or no runtime library in the build")
    for scaler, state, scale in ((None, "", "0"), (torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2), "= {.scaler_scale = 4}", "s.scaler_scale")):
        model = nn.Linear(3, 1).double()
        start = [p.detach().clone() for p in model.parameters()]
        step = at.compile_step(model, nn.functional.mse_loss, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), scaler=scaler)
        x, y = torch.randn(4, 4, 3).double(), torch.randn(4, 1).double()
        if scaler:
            x[1, 0, 0] = float("inf")  # a step that is left out
        with tempfile.TemporaryDirectory() as folder:
            header, object_ = at.export_step(step, (x[0], y), folder, "line")
            main = os.path.join(folder, "main.c")
            with open(main, "w", encoding="utf-8") as f:
                f.write('#include <string.h>\n#include "line.h"\n'
                        f"static line_state s{state};\n"
                        f"double scale(void) {{ return {scale}; }}\n"
                        "double run(const double *x, const double *y, double *w, double *b) {\n"
                        "  line_out out;\n"
                        "  memcpy(s.p_weight, w, sizeof s.p_weight), memcpy(s.p_bias, b, sizeof s.p_bias);\n"
                        "  if (line_run(0, &s, x, y, 0.1, &out) != ANF_OK) return -1;\n"
                        "  memcpy(w, s.p_weight, sizeof s.p_weight), memcpy(b, s.p_bias, sizeof s.p_bias);\n"
                        "  return out.out;\n}\n")
            library = os.path.join(folder, "line.so")
            subprocess.run(["cc", "-shared", "-fPIC", "-I", include, main, object_, "-o", library, runtimes[0],
                            "-Wl,-rpath," + os.path.dirname(runtimes[0]), "-lm"], check=True)
            compiled = ctypes.CDLL(library)
            compiled.run.restype = compiled.scale.restype = ctypes.c_double
            losses = [compiled.run(*(ctypes.c_void_p(t.data_ptr()) for t in (one, y, *start))) for one in x]
        assert losses == [step(one, y) for one in x]
        for p, q in zip(start, model.parameters()):
            assert torch.equal(p, q) and torch.isfinite(p).all()
        assert compiled.scale() == (scaler.get_scale() if scaler else 0)


def test_heads_that_share_keys():
    need_torch()

    class Grouped(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k = nn.Linear(16, 16), nn.Linear(16, 8)

        def forward(self, x):
            q, k = self.q(x).view(2, 5, 4, 4).transpose(1, 2), self.k(x).view(2, 5, 2, 4).transpose(1, 2)
            return nn.functional.scaled_dot_product_attention(q, k, k, is_causal=True, enable_gqa=True)
    same_training(Grouped, torch.randn(2, 5, 16).double())


def test_rows_take_the_arguments_of_their_ops():
    need_torch()
    import inspect
    from anfora.torch import _table
    _table.row_of(torch.ops.aten.add.Tensor)
    for key, f in _table.ROWS.items():
        space, name = key.split(".", 1) if key.startswith(("prims.", "anfora.")) else ("aten", key)
        name, _, overload = name.partition(".")
        packet = getattr(getattr(torch.ops, space), name)
        for o in [overload] if overload else [o for o in packet.overloads() if not o.endswith("out") and "Dimname" not in o]:
            op = getattr(packet, o)
            given = {"self_" if a.name == "self" else a.name: None for a in op._schema.arguments}
            tensors = [a for a in op._schema.arguments if str(a.type) in ("Tensor", "List[Tensor]")]
            if op._schema.is_mutable or not tensors and "dtype" not in given:  # overloads of TorchScript for numbers and lists
                continue
            try:
                inspect.signature(f).bind(None, **given)
            except TypeError as e:
                raise AssertionError(f"{op}: {e}") from None


def test_steps_where_eager_takes_no_gradient():
    need_torch()
    import copy
    import anfora.torch as at

    class Stops(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.unused = nn.Linear(3, 3), nn.Linear(3, 1), nn.Linear(2, 2)
            self.register_buffer("mean", torch.zeros(3))

        def forward(self, x):
            h = self.a(x)
            with torch.no_grad():
                k = torch.sin(h) * 2
                k += 1
                self.mean.mul_(0.9).add_(h.mean(0), alpha=0.1)
            return self.b(h * h.detach() + k + self.mean)

    for make in (lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.1), lambda p: torch.optim.AdamW(p, lr=0.1)):
        torch.manual_seed(0)
        eager = Stops().double()
        other = copy.deepcopy(eager)
        a, step = make(eager.parameters()), at.compile_step(other, nn.functional.mse_loss, make(other.parameters()))
        for _ in range(3):
            x, y = torch.randn(4, 3).double(), torch.randn(4, 1).double()
            a.zero_grad()
            loss = nn.functional.mse_loss(eager(x), y)
            loss.backward()
            a.step()
            assert abs(step(x, y) - loss.item()) < 1e-12
        for p, q in zip([*eager.parameters(), *eager.buffers()], [*other.parameters(), *other.buffers()]):
            close(p.detach(), q.detach(), 1e-12)


class AtKinks(nn.Module if HAS_TORCH else object):
    """The sum of functions of parameters of their own, with weights that tell elements apart."""

    def __init__(self, cases):
        super().__init__()
        self.functions = [f for f, _ in cases]
        self.values = nn.ParameterList([nn.Parameter(x.clone()) for _, x in cases])

    def forward(self):
        ys = [f(x) for f, x in zip(self.functions, self.values)]
        return sum((y * torch.cos(torch.arange(y.numel(), dtype=y.dtype)).reshape(y.shape)).sum() for y in ys)


def test_steps_choose_as_eager_at_kinks_and_ties():
    need_torch()
    F = nn.functional
    kinks, ties = torch.tensor([-3.0, -1.0, -0.5, 0, 0.5, 1, 2, 3, 6]).double(), torch.tensor([[1.0, 3, 3, 2], [0, 0, 0, 0], [-1, -1, -2, -1]]).double()
    at_kinks = [F.relu, F.relu6, F.hardtanh, F.hardswish, F.hardsigmoid, F.hardshrink, F.softshrink, torch.abs, lambda x: x.clamp(-1, 2),
                lambda x: x.clamp_min(0.5), lambda x: torch.clamp(x * 2, min=x + x), lambda x: torch.clamp(x, max=x.flip(0)),
                lambda x: torch.maximum(x, torch.zeros_like(x)), lambda x: torch.minimum(x * 2, x + x), lambda x: torch.max(x, x.abs()),
                lambda x: torch.fmax(x, torch.zeros_like(x)), lambda x: torch.fmin(x * 2, x + x), lambda x: F.hinge_embedding_loss(x, -torch.ones_like(x))]
    at_ties = [lambda x: x.max(1)[0], lambda x: x.min(0, keepdim=True)[0], lambda x: x.amax(1), lambda x: x.min(), lambda x: x.sort(1)[0], lambda x: x.cummax(1)[0],
               lambda x: F.max_pool1d(x[None], 2), lambda x: x.norm(dim=1), lambda x: x.norm(p=3, dim=1), lambda x: torch.cdist(x, x),
               lambda x: F.normalize(x, dim=1), lambda x: F.multi_margin_loss(x, torch.tensor([1, 2, 0])),
               lambda x: F.embedding(torch.tensor([0, 1, 0, 2]), x, padding_idx=0),
               lambda x: F.embedding(torch.tensor([0, 1, 0]), x, scale_grad_by_freq=True)]
    cases = [(f, kinks) for f in at_kinks] + [(f, ties) for f in at_ties]
    eager, other = AtKinks(cases), AtKinks(cases)
    loss = eager()
    loss.backward()
    step = at.compile_step(other, None, torch.optim.SGD(other.parameters(), lr=1.0), backend="interp")
    assert abs(step() - loss.item()) < 1e-9
    for i, (p, q, (_, x)) in enumerate(zip(eager.values, other.values, cases)):
        assert torch.allclose(p.grad, x - q.detach(), rtol=1e-7, atol=1e-8), (i, p.grad, x - q.detach())


def test_factors_and_transforms():
    need_torch()
    la = torch.linalg

    class Factors(nn.Module):
        def forward(self, a, b):
            s = a @ a.mT + torch.eye(3, dtype=a.dtype)
            q, r = la.qr(a)
            w, v = la.eigh(s)
            p, l, u = la.lu(a)  # noqa: E741
            y = torch.fft.irfft(torch.fft.rfft(b, dim=-2) * 1.5, n=5, dim=-2).sum() + torch.fft.fft2(b).abs().sum()
            return la.svdvals(a).sum() + (q * r).sum() + w[..., 0].sum() + v.abs().sum() + (l * u).sum() + la.slogdet(a)[1].sum() + y + \
                (la.solve(a, b) + la.pinv(a) @ b + la.matrix_exp(a) @ b + torch.cholesky_solve(b, la.cholesky(s))).sum()
    same_training(Factors, torch.randn(2, 3, 3).double(), torch.randn(2, 3, 2).double(), tol=1e-8)
    for f, bad in ((la.inv, torch.ones(2, 2)), (la.cholesky, -torch.eye(2)), (lambda a: la.solve(a, a), torch.zeros(3, 3))):
        compiled = torch.compile(f, backend="anfora")
        close(compiled(torch.eye(2)), f(torch.eye(2)))
        try:
            compiled(bad)
            raise AssertionError("no error of a matrix that has no such factor")
        except la.LinAlgError:
            pass


def test_steps_follow_writes_through_detached_tensors():
    need_torch()
    import copy
    import anfora.torch as at

    class Writes(nn.Linear):
        def forward(self, x):
            y = super().forward(x)
            y.detach().mul_(2)
            return (y * y).sum()

    torch.manual_seed(3)
    model, x = Writes(2, 2).double(), torch.ones(1, 2, dtype=torch.float64)
    eager = copy.deepcopy(model)
    step = at.compile_step(model, None, torch.optim.SGD(model.parameters(), lr=0.1))
    optimizer = torch.optim.SGD(eager.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        loss = eager(x)
        loss.backward()
        optimizer.step()
        assert abs(float(step(x)) - loss.item()) < 1e-9 * max(1, abs(loss.item()))
    for p, q in zip(model.parameters(), eager.parameters(), strict=True):
        assert torch.allclose(p, q, atol=1e-12)


def test_bits_counts_and_places():
    need_torch()
    f64 = torch.float64
    x = torch.tensor([0.0, -0.0, 1.5, -3.0, 1e-310, 5e-324, float("inf"), float("nan"), -2.0 ** 60], dtype=f64)
    y = torch.tensor([1.0, 0.0, 1.0, -4.0, 0.0, -1.0, 0.0, 1.0, float("-inf")], dtype=f64)
    n, m = torch.tensor([12, -18, 0, 7, -2 ** 62]), torch.tensor([18, 12, 0, 0, 2 ** 40])
    holes = torch.tensor([[0.5, float("-inf"), 700.0, 2.0], [float("-inf"), float("-inf"), -1.0, float("inf")]], dtype=f64)
    cases = [(torch.frexp, x), (torch.frexp, x.float()), (torch.nextafter, x, y), (torch.nextafter, x.float(), y.float()), (torch.gcd, n, m), (torch.lcm, n[:4], m[:4]),
             (lambda h: torch.logcumsumexp(h, 1), holes), (lambda h: torch.logcumsumexp(h, 0), holes), (lambda v: torch.histc(v, 4, -4, 2), y[:6]),
             (lambda v: torch.histc(v, 3), y[:6]), (lambda v: torch.nonzero_static(v, size=7, fill_value=-1), m.reshape(1, 5)), (torch.special.i1, y[:8]),
             (lambda v: torch.special.hermite_polynomial_h(v, torch.arange(6.0, dtype=f64)), y[:6])]
    for f, *xs in cases:
        torch._dynamo.reset()
        want, got = f(*xs), torch.compile(f, backend="anfora")(*xs)
        for a, b in zip(*(r if isinstance(r, tuple) else (r,) for r in (want, got))):
            close(a, b)
    assert not at.fallbacks, at.fallbacks


def test_windows_of_different_sizes_and_places_between_pixels():
    need_torch()
    image, places = torch.randn(2, 3, 5, 7).double(), (torch.rand(2, 4, 3, 2).double() - 0.5) * 2.4

    class Looks(nn.Module):
        def __init__(self, **how):
            super().__init__()
            self.how = how

        def forward(self, x, at):
            return nn.functional.grid_sample(x, at, **self.how)
    same_training(lambda: nn.AdaptiveMaxPool2d((3, 4)), image)
    for mode, padding, corners in (("bilinear", "reflection", False), ("bicubic", "border", True), ("nearest", "zeros", False)):
        same_training(lambda: Looks(mode=mode, padding_mode=padding, align_corners=corners), image, places)


def test_quantised_graphs_of_pt2e():
    """The ops that torchao's PT2E writes: static and dynamic scales, by tensor and by channel; none runs in PyTorch."""
    need_torch()
    from torch.ao.quantization.fx import _decomposed  # noqa: F401 - defines the ops
    ops = torch.ops.quantized_decomposed
    codes = torch.randint(-128, 128, (24, 40), dtype=torch.int8)
    scales, zeros = torch.rand(24) * 0.05 + 0.01, torch.zeros(24, dtype=torch.int64)

    def through(x, scale, zero, dtype, low, high):
        how = "tensor" if isinstance(scale, torch.Tensor) else "default"
        q = getattr(ops.quantize_per_tensor, how)(x, scale, zero, low, high, dtype)
        return getattr(ops.dequantize_per_tensor, how)(q, scale, zero, low, high, dtype)

    def static(x):
        w = ops.dequantize_per_channel(codes, scales, zeros, 0, -128, 127, torch.int8)
        y = torch.relu(through(x, 0.03, 120, torch.uint8, 0, 255) @ w.T)
        by_channel = ops.quantize_per_channel(y, scales * 10, zeros, 1, -128, 127, torch.int8)
        return through(y, 0.4, 0, torch.uint8, 0, 255), by_channel

    def dynamic(x):
        scale, zero = ops.choose_qparams(x, -128, 127, 1e-5, torch.int8)
        w = ops.dequantize_per_channel(codes, scales, zeros, 0, -128, 127, torch.int8)
        return through(x, scale, zero, torch.int8, -128, 127) @ w.T, scale, zero

    x = torch.randn(17, 40)
    for f in (static, dynamic):
        for a, b in zip(f(x), torch.compile(f, backend="anfora")(x)):
            close(a, b, 1e-5)
    assert not at.fallbacks, at.fallbacks


def test_lists_that_are_searched_row_by_row():
    """As in the sampling of radiance fields: a list for each row, sorted by a sorter, other sides and types; and a number in a list."""
    need_torch()
    lists, values = torch.rand(2, 3, 5).sort(-1)[0], torch.rand(2, 3, 4)
    mixed, whole = torch.rand(3, 5), torch.tensor([1, 3, 5])
    cases = [(torch.searchsorted, lists, values), (lambda s, v: torch.searchsorted(s, v, side="right", out_int32=True), lists, values),
             (lambda s, v: torch.searchsorted(s, v, sorter=s.argsort(-1)), mixed, values[0]), (lambda s: torch.searchsorted(s[0], 0.5, sorter=s[0].argsort()), mixed),
             (lambda s: torch.bucketize(3, s, right=True), whole), (torch.searchsorted, torch.zeros(2, 0), torch.zeros(2, 3))]
    for f, *xs in cases:
        torch._dynamo.reset()
        close(f(*xs), torch.compile(f, backend="anfora")(*xs))
    assert not at.fallbacks, at.fallbacks


def test_attention_with_functions_of_scores():
    """flex_attention, which eager computes on CPUs without gradients alone: heads that share keys, a mask of blocks, its sums."""
    need_torch()
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    document, slopes = torch.tensor([0] * 3 + [1] * 5), torch.rand(4)
    mask = create_block_mask(lambda b, h, i, j: (i >= j) & (document[i] == document[j]), None, None, 8, 8, device="cpu")

    def f(q, k, v):
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: 3 * torch.tanh(s / 3) + slopes[h] * (j - i), block_mask=mask, enable_gqa=True, return_lse=True)
    q, k, v = torch.randn(1, 4, 8, 2), torch.randn(1, 2, 8, 2), torch.randn(1, 2, 8, 2)
    for a, b in zip(f(q, k, v), torch.compile(f, backend="anfora")(q, k, v)):
        close(a, b, 1e-5)
    assert not at.fallbacks, at.fallbacks


def test_sizes_that_the_program_computes_run_in_pytorch():
    """Numbers of elements, which Dynamo captures when it is told to, as sizes, ends of slices and masks; the parts between are compiled."""
    need_torch()
    layer = nn.Linear(3, 3).double()

    def f(x, n, mask):
        k = n.item()
        torch._check(k >= 0)
        torch._check(k <= x.size(0))
        h = layer(x)
        return h[:k].sum(0) * torch.ones(k, dtype=x.dtype).sum() + h[mask].square().mean()
    x = torch.randn(5, 3, dtype=torch.float64)
    with torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True), contextlib.redirect_stderr(io.StringIO()):
        compiled = torch.compile(f, backend="anfora", fullgraph=True)
        for k in (2, 5):
            want, got = ((g(x, torch.tensor(k), x[:, 0] > -k), layer.weight.grad) for g in (f, compiled))
            close(want[0], got[0])
    assert at.fallbacks["aten.slice.Tensor"] == 1, at.fallbacks
