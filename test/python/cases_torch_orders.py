# SPDX-License-Identifier: Apache-2.0
"""anfora.torch: control flow, ops that are taken apart, gradients of gradients, beside eager PyTorch; skipped without PyTorch."""
import contextlib
import copy
import io

from cases_torch import HAS_TORCH, close, need_torch

if HAS_TORCH:
    import torch
    from torch import nn
    import anfora.torch as at


def compiled(f, **options):
    return torch.compile(f, backend="anfora", fullgraph=True, options=options)


def same(f, *xs, fallbacks=0, **options):
    """Values and gradients of a function of f64, compiled and eager."""
    results = []
    for g in (f, compiled(f, **options)):
        inputs = [x.clone().requires_grad_(x.is_floating_point()) for x in xs]
        out = g(*inputs)
        out = out if isinstance(out, (tuple, list)) else (out,)
        total = sum((y * torch.cos(torch.arange(y.numel(), dtype=y.dtype)).reshape(y.shape)).sum() for y in out if y.is_floating_point())
        wrt = [x for x in inputs if x.requires_grad]
        results.append([*out, *(torch.autograd.grad(total, wrt) if wrt else ())])
    for a, b in zip(*results):
        close(a.detach(), b.detach())
    assert sum(at.fallbacks.values()) == fallbacks, at.fallbacks


def test_choices():
    need_torch()

    def f(x):
        return torch.cond(x.sum() > 0, lambda x: (x.sin(), x * 2), lambda x: (x.cos(), x + 1), (x,))
    x = torch.rand(5).double()
    same(f, x)
    same(f, -x)


def test_loops():
    need_torch()
    from torch._higher_order_ops.scan import scan
    from torch._higher_order_ops.while_loop import while_loop

    def doubled(x):
        return while_loop(lambda i, y: (i < 6) & (y.abs().max() < 100), lambda i, y: (i + 1, y * y + x), (torch.tensor(0), x + 0))
    x = torch.tensor([0.5, 2.0]).double()
    for a, b in zip(doubled(x), compiled(doubled)(x)):
        close(a, b)

    def running(x, w):
        return scan(lambda c, row: (c * 0.9 + row @ w, c.sin()), torch.zeros(3, dtype=torch.float64), x)

    def rows(x, w):
        return torch._higher_order_ops.map(lambda row, w: row.sin() @ w, x, w)
    for a, b in zip(running(torch.ones(4, 3).double(), torch.eye(3).double()), compiled(running)(torch.ones(4, 3).double(), torch.eye(3).double())):
        close(a, b)
    same(rows, torch.randn(4, 3).double(), torch.randn(3, 3).double())
    assert not at.fallbacks, at.fallbacks


def test_control_flow_that_no_row_has_runs_in_pytorch():
    need_torch()
    q = torch.randn(1, 2, 8, 4)

    def g(x):
        return torch.cond(x.sum() > 0, lambda x: x + torch.rand_like(x) * 0, lambda x: -x, (x,)) * 2
    with contextlib.redirect_stderr(io.StringIO()) as said:
        close(g(q), compiled(g)(q), 1e-6)
    assert "draws random numbers" in said.getvalue(), said.getvalue()


def test_sizes_that_depend_on_data_run_in_pytorch():
    need_torch()
    x = torch.randn(20).double()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True), contextlib.redirect_stderr(io.StringIO()):
        def f(x):
            return (x[x > 0] * 2).exp().sum() + torch.nonzero(x > 1).sum()
        close(f(x), compiled(f)(x))
        close(f(-x), compiled(f)(-x))
    assert at.fallbacks["aten.nonzero.default"]


def test_checkpoints_that_drop():
    need_torch()
    from torch.utils.checkpoint import checkpoint
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 4), nn.Dropout(0.2)).double()
    x, grads = torch.randn(3, 4).double(), []
    at.fallbacks.clear()
    for f in (lambda x: checkpoint(net, x, use_reentrant=False), compiled(lambda x: checkpoint(net, x, use_reentrant=False))):
        net.zero_grad()
        torch.manual_seed(1)
        f(x).sum().backward()
        grads.append([*(p.grad.clone() for p in net.parameters()), torch.rand(2).double()])
    for a, b in zip(*grads):
        close(a, b)
    assert not at.fallbacks


def test_checkpoints_of_batch_norm():
    """The running statistics move once, as in all backends of PyTorch; eager's second pass moves them again."""
    need_torch()
    from torch.utils.checkpoint import checkpoint
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh()).double()
    x, found, before = torch.randn(5, 4).double(), [], {k: v.clone() for k, v in net.state_dict().items()}
    for f in (net, compiled(lambda x: checkpoint(net, x, use_reentrant=False))):
        net.load_state_dict(before)
        net.zero_grad()
        f(x).square().sum().backward()
        found.append([*(p.grad.clone() for p in net.parameters()), *(b.clone() for b in net.buffers())])
    for a, b in zip(*found):
        close(a, b)


def test_ops_that_are_taken_apart():
    need_torch()
    from torch.nn import functional
    x = torch.randn(5, 3).double()
    x[1] = x[0]  # rows of no distance
    for p in (0, 1, 2, 3, float("inf")):
        same(lambda x, p=p: torch.pdist(x, p), x)
    same(lambda x: torch.pdist(x).sum() + x.sum(), x[:1])
    indices, offsets = torch.randint(0, 7, (9,)), torch.tensor([0, 4, 4, 6])
    for words in ({"mode": "sum"}, {"mode": "mean"}, {"mode": "sum", "padding_idx": 2}, {"mode": "max"}, {"mode": "max", "padding_idx": 2}):
        same(lambda w, i, o, words=words: functional.embedding_bag(i, w, o, **words), torch.randn(7, 3).double(), indices, offsets)
    w, bags = torch.randn(7, 3).double().round(), torch.compile(lambda w, i, o: functional.embedding_bag(i, w, o, mode="max"), backend="anfora")
    w[2, 1], indices = float("nan"), torch.tensor([2, 3, 1, 3, 2, 4, 4, 0, 0])  # it stays if it is the first one of a bag, and else is left out
    close(functional.embedding_bag(indices, w, offsets, mode="max"), bags(w, indices, offsets), 0)
    w[2, 1] = 0
    same(lambda w, i, o: functional.embedding_bag(i, w, o, mode="max"), w, indices, offsets)
    same(lambda w, i, o, s: functional.embedding_bag(i, w, o, mode="sum", per_sample_weights=s),
         torch.randn(7, 3).double(), indices, offsets, torch.rand(9).double())


def test_encoders_without_gradients():
    need_torch()
    mask = torch.triu(torch.ones(5, 5, dtype=torch.bool), 1)
    for first in (False, True):
        net = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=first), 2, enable_nested_tensor=False).double().eval()
        with torch.no_grad():
            x = torch.randn(3, 5, 8).double()
            close(net(x), compiled(net)(x))
            padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2, [False, True] * 2 + [True]])
            close(net(x, src_key_padding_mask=padding), compiled(net)(x, src_key_padding_mask=padding))
            assert not at.fallbacks, at.fallbacks
            with contextlib.redirect_stderr(io.StringIO()):  # it looks whether the mask is a causal one
                close(net(x, mask), compiled(net)(x, mask))
            assert "aten._transformer_encoder_layer_fwd.default" not in at.fallbacks, at.fallbacks
            at.fallbacks.clear()


def test_batches_of_any_size_with_sizes_in_the_backward_pass():
    need_torch()
    make = nn.Sequential(nn.Conv2d(2, 4, 3, 2, 1), nn.ReLU(), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)).double()
    other = copy.deepcopy(make)
    f = torch.compile(other, backend="anfora", dynamic=True)
    for n in (3, 2):
        x = torch.randn(n, 2, 12, 12).double()
        make(x).square().sum().backward(), f(x).square().sum().backward()
    for p, q in zip(make.parameters(), other.parameters()):
        close(p.grad, q.grad)
    assert not at.fallbacks, at.fallbacks


def energy_model():
    class Energy(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))

        def forward(self, x):
            return self.net(torch.pdist(x)[:, None]).sum()
    return Energy().double()


def test_gradients_of_gradients():
    need_torch()
    eager = energy_model()
    other = copy.deepcopy(eager)
    x, want, found = torch.randn(4, 3).double(), torch.randn(4, 3).double(), []
    for net, energy in ((eager, eager), (other, torch.compile(other, backend="anfora", options={"create_graph": True}))):
        y = x.clone().requires_grad_()
        e = energy(y)
        force, = torch.autograd.grad(e, y, create_graph=True)
        curvature = torch.autograd.grad(force[0, 0], y, create_graph=True)[0]
        ((force - want).square().mean() + e + curvature.square().sum()).backward()
        found.append([e.detach(), force.detach(), y.grad, *(p.grad for p in net.parameters())])
    for a, b in zip(*found):
        close(a, b)
    assert not at.fallbacks, at.fallbacks


def test_backward_passes_that_are_differentiated():
    """What a first derivative has taken apart keeps its name where a gradient is traced."""
    need_torch()
    nearest, exact = (lambda x, m=m: nn.functional.interpolate(x, (4, 5), mode=m) ** 2 for m in ("nearest", "nearest-exact"))
    x = torch.randn(1, 2, 3, 7).double().requires_grad_()
    before = sum(at.fallbacks.values())
    soft, hard = (lambda x, f=f: f(x, 0.2) ** 3 for f in (nn.functional.softshrink, nn.functional.hardshrink))
    for f in soft, hard, nearest, exact:
        results = []
        for g in f, torch.compile(f, backend="anfora", options={"create_graph": True}):
            slope, = torch.autograd.grad(g(x).sum(), x, create_graph=True)
            results.append(torch.autograd.grad((slope * torch.cos(x.detach())).sum(), x)[0])
        close(*results)
    assert sum(at.fallbacks.values()) == before, at.fallbacks


def test_gradients_of_gradients_are_not_of_other_numbers():
    need_torch()
    f = torch.compile(lambda x: torch.nn.functional.dropout(x * x).sum(), backend="anfora", options={"create_graph": True})
    x = torch.randn(4).double().requires_grad_()
    g, = torch.autograd.grad(f(x), x, retain_graph=True)
    assert torch.equal(g != 0, g.abs() > 1e-12)
    try:
        torch.autograd.grad(f(x), x, create_graph=True)
    except RuntimeError as e:
        assert "random numbers" in str(e), e
    else:
        raise AssertionError("numbers were drawn again")


def test_graphs_that_are_called():
    need_torch()
    layer = nn.Linear(3, 3).double()
    inner = torch.compiler.nested_compile_region(lambda x: torch.tanh(layer(x)))
    same(lambda x: inner(inner(x)), torch.randn(2, 3).double())


def test_optimizers():
    """`step` of PyTorch's own optimizers, which multiply and add without rounding between."""
    need_torch()
    kinds = [(torch.optim.SGD, {"momentum": 0.9}), (torch.optim.Adam, {}), (torch.optim.AdamW, {"foreach": False}), (torch.optim.RMSprop, {})]
    for kind, words in kinds:
        found = []
        for backend in ("eager", "anfora"):  # PyTorch itself counts steps in f32 where it compiles, and in f64 where not
            torch._dynamo.reset()
            torch.manual_seed(0)
            net = nn.Linear(4, 3).double()
            optimizer = kind(net.parameters(), lr=0.01, **words)
            step = torch.compile(optimizer.step, backend=backend)
            x = torch.randn(5, 4).double()
            for _ in range(3):
                optimizer.zero_grad()
                net(x).square().mean().backward()
                step()
            found.append([p.detach().clone() for p in net.parameters()])
        for a, b in zip(*found):
            close(a, b)
    assert not at.fallbacks, at.fallbacks
