# SPDX-License-Identifier: Apache-2.0
"""anfora.torch: what models check by values, and gradients that functions of torch.nn stop by themselves, beside eager PyTorch."""
import copy
import math
import os
import re

from cases_torch import HAS_TORCH, close, need_torch

if HAS_TORCH:
    import torch
    from torch import nn
    from torch.nn import functional as F
    from anfora import CompileError, RunError
    import anfora.torch as at


def same_steps(f, *batches, make=None, tol=1e-10):
    """Losses and parameters of steps whose loss is f(module(x), *rest), compiled and eager."""
    eager = (make or (lambda: nn.Linear(4, 4)))().double()
    other = copy.deepcopy(eager)
    o = torch.optim.SGD(eager.parameters(), lr=0.1)
    step = at.compile_step(other, f, torch.optim.SGD(other.parameters(), lr=0.1))
    for x, *rest in batches:
        torch.manual_seed(1)
        o.zero_grad()
        loss = f(eager(*x) if isinstance(x, tuple) else eager(x), *rest)
        loss.backward()
        o.step()
        torch.manual_seed(1)
        assert math.isclose(step(x, *rest), loss.item(), rel_tol=tol), loss
    for p, q in zip(eager.parameters(), other.parameters()):
        close(p.detach(), q.detach(), tol)
    return step


def raises(kind, word, f, *args):
    try:
        f(*args)
    except kind as e:
        assert word in str(e), e
    else:
        raise AssertionError(f"nothing was raised ({word})")


def test_functions_of_torch_nn_stop_gradients_inside():
    need_torch()
    x = torch.randn(3, 4).double()
    weight = torch.arange(4).double()
    same_steps(lambda y: (F.gumbel_softmax(y, hard=True) * weight).sum(), (x,), (x,))
    same_steps(lambda y, t: F.gaussian_nll_loss(y, t, y.detach() ** 2), (x, x * 2), (x, x))
    same_steps(lambda y, t: F.gaussian_nll_loss(t, t + 1, y ** 2), (x, x * 2), (x, x))


def test_tensors_that_are_written_while_gradients_are_off_keep_theirs():
    need_torch()

    def clamped(y):
        z = y * 2
        with torch.no_grad():
            z.clamp_(min=0.1)
            z[0] = 3.0
        return (z ** 2).sum()
    x = torch.randn(3, 4).double()
    same_steps(clamped, (x,), (x,))

    def through(y):
        d, e = y.detach(), y.detach()[0]
        d.clamp_(min=0)
        e += 1
        y.mul_(2)
        return (y * d).sum() + (y[0] * e).sum()
    same_steps(through, (x,), (x,))


def masked(layer):
    layer.weight.data *= torch.ones(4, 4).tril()
    layer.weight.data.clamp_(max=0.4)


def normed(layer):
    with torch.no_grad():
        layer.weight.div_(layer.weight.norm())


def test_parameters_that_the_model_writes_before_it_reads_them():
    need_torch()

    class Written(nn.Linear):
        def forward(self, x):
            self.change(self)
            return super().forward(x)

    def written(change):
        m = Written(4, 4)
        m.change = change
        return m
    x = torch.randn(3, 4).double()
    for change in (masked, normed, lambda m: setattr(m.weight, "data", m.weight.data.clamp(-0.3, 0.3))):
        same_steps(lambda y: y.square().sum(), (x,), (x,), make=lambda change=change: written(change))
    same_steps(lambda y: y.square().sum(), (torch.tensor([0, 3, 0]),), (torch.tensor([1, 2, 3]),), make=lambda: nn.Embedding(5, 4, max_norm=0.7))

    class Refused(nn.Linear):
        def forward(self, x):
            return self.f(super().forward(x))
    for word, f in (("a leaf Variable", lambda m, y: m.weight.mul_(2)), ("read before", lambda m, y: y @ m.weight.data.mul_(2)),
                    (".data", lambda m, y: y.exp().data.mul_(2))):
        m = Refused(4, 4).double()
        m.f = lambda y, f=f, m=m: f(m, y)
        raises(CompileError, word, at.compile_step(m, torch.sum, torch.optim.SGD(m.parameters(), lr=0.1)), x)


def test_refusals_name_the_line_of_the_model():
    need_torch()
    m = nn.Linear(4, 4)
    for word, loss in (("draws random numbers by values", lambda y: F.rrelu(y, training=True).sum()), ("`.data` of a tensor", lambda y: y.data.add_(1).sum()),
                       ("generator", lambda y: (y * torch.rand(4, generator=torch.Generator())).sum())):
        try:
            at.compile_step(m, loss, torch.optim.SGD(m.parameters(), lr=0.1))(torch.ones(2, 4))
        except CompileError as e:
            f = e.findings[0]
            assert (f.file, f.line) == (__file__, loss.__code__.co_firstlineno), e
            assert word in str(e), e
        else:
            raise AssertionError(word)
    layers = nn.Sequential(m, nn.RReLU())
    raises(CompileError, os.path.join("modules", "activation.py"), at.compile_step(layers, torch.sum, torch.optim.SGD(m.parameters(), lr=0.1)), torch.ones(2, 4))


def test_functions_of_torch_nn_that_decide_by_values():
    need_torch()

    class Attending(nn.Module):  # whose decoder looks whether its mask is a causal one
        def __init__(self):
            super().__init__()
            self.d = nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 8, 0.0, batch_first=True), 1)

        def forward(self, x):
            return self.d(x, x, tgt_mask=nn.Transformer.generate_square_subsequent_mask(x.shape[1]).to(x))
    same_steps(lambda y: y.square().sum(), *[(torch.randn(2, 3, 4).double(),)] * 2, make=lambda: nn.Sequential(Attending(), nn.Linear(4, 4)), tol=1e-9)
    same_steps(lambda y: (y * torch.arange(4)).tanh().sum(), *[(torch.randn(3, 4).double(),) for _ in range(3)],
               make=lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, momentum=None)))
    same_steps(lambda y: (y * torch.bernoulli(torch.sigmoid(y.detach()))).sum(), (torch.randn(3, 4).double(),), (torch.randn(3, 4).double(),))


def test_packed_sequences():
    need_torch()
    pack, pad = nn.utils.rnn.pack_padded_sequence, nn.utils.rnn.pad_packed_sequence

    class Net(nn.Module):
        def __init__(self, kind, **options):
            super().__init__()
            self.r, self.options = getattr(nn, kind)(4, 3, batch_first=True, **options), options

        def forward(self, x, lengths):
            packed, state = self.r(pack(x, lengths, batch_first=True, enforce_sorted=False))
            first = state[0] if isinstance(state, tuple) else state
            y, n = pad(packed, batch_first=True, total_length=5, padding_value=0.5)
            return y.sum((1, 2)) * n + (first * first).sum((0, 2)) + (state[1].sum((0, 2)) if isinstance(state, tuple) else 0)
    for kind, options in (("LSTM", {"bidirectional": True, "num_layers": 2, "proj_size": 2}), ("GRU", {"bidirectional": True}), ("RNN", {"bias": False})):
        torch.manual_seed(2)
        batches = [((torch.randn(3, 4, 4).double(), torch.tensor(n)),) for n in ([2, 4, 3], [4, 1, 1])]
        m = Net(kind, **options).double()
        step = same_steps(lambda y: y.square().sum(), *batches, make=lambda m=m: m)
    (x, n), = batches[0]
    raises(RunError, "at least 1", step, (x, n - 2))
    same_steps(lambda y: y.square().sum(), ((x, n),), ((x, n.clamp(max=3)),), ((x, n.clamp(max=2)),), ((x, n),), make=lambda: m)  # cut to the longest
    m = nn.LSTM(4, 3, batch_first=True).double()
    for loss, word in ((lambda y, n: pack(y[0], n, True, False).data.sum(), "`data` of packed sequences"),
                       (lambda y, n: torch.relu(pack(y[0], n, True, False)[0]).sum(), "`data` of packed sequences")):
        raises(CompileError, word, at.compile_step(m, loss, torch.optim.SGD(m.parameters(), lr=0.1)), x, n)


def test_models_that_check_values():
    need_torch()
    x, t = torch.randn(3, 4).double(), torch.rand(3, 4).double()

    def likelihood(y, t):
        if torch.any(t < 0):
            raise ValueError("targets are negative")
        d = torch.distributions.Normal(y, F.softplus(y))
        return -d.log_prob(t).mean() + torch.distributions.Categorical(logits=y).entropy().mean()
    step = same_steps(likelihood, (x, t), (x, t + 1))
    before = [p.clone() for p in step.params]
    raises(RunError, "ValueError: targets are negative", step, x, -t)
    raises(RunError, "ValueError: Expected", step, x * math.nan, t)
    for p, q in zip(before, step.params):
        assert torch.equal(p, q)

    def chosen(y):
        return y.sum() if (y > 0).any() else (y ** 2).sum()
    m = nn.Linear(4, 4).double()
    raises(CompileError, "the model decides by the value of a tensor", at.compile_step(m, chosen, torch.optim.SGD(m.parameters(), lr=0.1)), x)
    raises(CompileError, "depends on data", at.compile_step(m, lambda y: y[y > 0].std(), torch.optim.SGD(m.parameters(), lr=0.1)), x)


def test_steps_raise_where_eager_raises():
    need_torch()
    y = torch.randn(2, 4).double()
    singular = torch.zeros(2, 2).double()

    class Of(nn.Module):
        def __init__(self, f):
            super().__init__()
            self.f, self.w = f, nn.Parameter(torch.ones((), dtype=torch.float64))

        def forward(self, i):
            return (self.f(i) * self.w).sum()
    for f, good, bad, word in (
            (lambda i: F.one_hot(i, 4) * y, torch.tensor([1, 3]), torch.tensor([1, 4]), "one_hot: Class values must be smaller"),
            (lambda i: F.one_hot(i, 4) * y, torch.tensor([1, 3]), torch.tensor([1, -1]), "one_hot: Class values must be non-negative"),
            (lambda i: F.cross_entropy(y, i), torch.tensor([1, -100]), torch.tensor([1, -1]), "label -1"),
            (lambda i: F.embedding(i, y), torch.tensor([1, 0]), torch.tensor([1, 2]), "index 2"),
            (lambda a: torch.linalg.cholesky(a), singular + torch.eye(2), singular, "linalg.cholesky: The factorization"),
            (lambda a: torch.linalg.inv(a), singular + torch.eye(2), singular, "linalg.inv: The inversion"),
            (lambda a: torch.linalg.solve(a, a), singular + torch.eye(2), singular, "linalg.solve: The solver failed")):
        m = Of(f)
        step = at.compile_step(m, None, torch.optim.SGD(m.parameters(), lr=0.0))
        assert math.isclose(step(good), m(good).item(), rel_tol=1e-12)
        raises(RunError, word, step, bad)


def test_indices_count_from_the_start_where_eagers_do():
    need_torch()
    x, v = torch.randn(2, 4), torch.ones(2, 2)
    for f in (lambda i: F.embedding(i, x), lambda i: x.gather(1, i[:, None]), lambda i: x.index_select(1, i), lambda i: x.scatter(1, i[:, None], 1.0),
              lambda i: x.scatter_add(1, i[:, None], v), lambda i: x.scatter_reduce(1, i[:, None], v, "mean", include_self=False),
              lambda i: x.index_add(1, i, v), lambda i: x.index_copy(1, i, v), lambda i: x.index_reduce(1, i, v, "amax"), lambda i: F.nll_loss(x, i),
              lambda i: F.embedding_bag(i[None], x, mode="sum")):
        torch._dynamo.reset()
        compiled = torch.compile(f, backend="anfora")
        good = torch.tensor([1, 0])
        close(f(good), compiled(good), 1e-6)
        raises(RunError, "index -1", compiled, torch.tensor([1, -1]))
    for f in (lambda i: x.take(i), lambda i: x[:, i], lambda i: x.index_fill(1, i, 1.0), lambda i: x.put(i, torch.ones(2))):
        torch._dynamo.reset()
        close(f(torch.tensor([1, -1])), torch.compile(f, backend="anfora")(torch.tensor([1, -1])), 1e-6)


def test_gradients_of_gradients_of_fused_activations():
    need_torch()
    m = nn.Sequential(nn.Linear(3, 6), nn.SiLU(), nn.Linear(6, 6), nn.GELU(), nn.Linear(6, 1)).double()
    results = []
    for f in (m, torch.compile(m, backend="anfora", options={"create_graph": True})):
        m.zero_grad()
        x = torch.ones(2, 3, dtype=torch.float64, requires_grad=True)
        g, = torch.autograd.grad(f(x).sum(), x, create_graph=True)
        (g.norm(dim=1) - 1).pow(2).mean().backward()
        results.append([p.grad.clone() for p in m.parameters() if p.grad is not None])
    for a, b in zip(*results):
        close(a, b)


def lines_of(step, *batch):
    return step.source(*batch).split("\ndef update")[0]


def test_steps_keep_no_more_than_they_need():
    """What programs have for a matrix that transposed batches share, for the loss of labels and for what dropout draws."""
    need_torch()
    x, label = torch.randn(3, 2, 4).double(), torch.tensor([1, 3])

    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.left = nn.Linear(4, 5), nn.Parameter(torch.randn(6, 3))

        def forward(self, x):
            return torch.matmul(self.left, F.dropout(self.inner(x.transpose(0, 1)), 0.25).transpose(0, 1).reshape(2, 3, 5))
    step = same_steps(lambda y: (y ** 2).sum(), (x,), (x,), make=Shared)
    text = lines_of(step, x)
    (_, shared), (left, _) = re.findall(r"(\w+) @ (\w+)", text)
    assert f" {shared} = Transpose(" in text and left.startswith("a"), text  # the matrices themselves, which are not repeated
    drawn = [t for t in next(iter(step.codes.values()))[0].types if t.startswith("bool")]
    assert len(drawn) == 1, drawn
    step = same_steps(F.cross_entropy, (x[0], label), (x[1], label))
    assert "SoftmaxCrossEntropy" in lines_of(step, x[0], label) and "TakeAlongAxis" not in lines_of(step, x[0], label)


def test_attention_is_trained_without_sums_of_exponentials():
    need_torch()
    for masked in (False, True):
        torch._dynamo.reset()
        q, k, v = (torch.randn(1, 2, n, 8, dtype=torch.float64, requires_grad=True) for n in (5, 6, 6))
        mask = torch.rand(5, 6) > 0.3 if masked else None
        f = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=mask).sin().sum()  # noqa: E731
        compiled = torch.compile(f, backend="anfora")
        for a, b in zip(torch.autograd.grad(compiled(q, k, v), (q, k, v)), torch.autograd.grad(f(q, k, v), (q, k, v))):
            close(a, b)
    assert not at.fallbacks, at.fallbacks


def test_values_of_one_place_have_its_slope():
    need_torch()
    x, i = torch.randn(3, 4).double(), torch.tensor([[0, 0, 2, 1], [1, 1, 1, 1], [3, 0, 0, 2]])

    def put(y):
        z = torch.zeros(4, 4).double()
        z[torch.tensor([1, 1, 2])] = y
        return z
    for f in (lambda y: torch.zeros(3, 5).double().scatter(1, i, y), lambda y: y.put(i, y), put, lambda y: y.index_copy(0, torch.tensor([2, 0, 2]), y * 3),
              lambda y: F.max_unpool1d(*F.max_pool1d(y, 2, 1, return_indices=True), 2, 1)):
        same_steps(lambda y, f=f: (f(y) * torch.arange(f(y).numel()).reshape(f(y).shape)).tanh().sum(), (x,), (x,))


def test_random_steps():
    need_torch()
    import random_steps
    bad, refused = random_steps.run(20, 6)
    assert not bad, "\n".join(bad[:2])
    assert sum(refused.values()) < 3, refused


def test_a_state_that_begins_after_gathered_gradients_is_of_the_rate_of_then():
    need_torch()
    x, models = torch.randn(3, 4).double(), [nn.Linear(4, 4).double() for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    rates = [torch.optim.ASGD(m.parameters(), lr=0.1) for m in models]
    step = at.compile_step(models[1], lambda y: y.square().mean(), rates[1], accumulate=2)
    for i in range(4):
        (models[0](x).square().mean() / 2).backward()
        step(x)
        if i % 2:
            rates[0].step()
            rates[0].zero_grad()
        for o in rates:  # a scheduler that is asked after each batch
            o.param_groups[0]["lr"] *= 0.5
    for p, q in zip(models[0].parameters(), models[1].parameters()):
        close(p.detach(), q.detach(), 1e-12)


def test_embeddings_with_gradients_by_how_often_a_row_is_there():
    need_torch()

    class Words(nn.Embedding):
        def forward(self, i):
            return super().forward(i).square()
    i, j = torch.tensor([[0, 1, 1, 5], [5, 5, 2, 1]]), torch.tensor([[3, 3, 3, 3], [0, 1, 2, 3]])
    for words in ({}, {"padding_idx": 1}):
        same_steps(torch.sum, (i,), (j,), make=lambda: Words(6, 3, scale_grad_by_freq=True, **words))  # noqa: B023
