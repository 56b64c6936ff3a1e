# SPDX-License-Identifier: Apache-2.0
"""anfora.torch: values that eager PyTorch refuses are refused, by compiled functions and by steps; those beside them are eager's."""
import contextlib
import io
import math

from cases_torch import HAS_TORCH, close, need_torch
from cases_torch_steps import raises, same_steps

if HAS_TORCH:
    import torch
    from torch import nn, tensor as t
    from torch.nn import functional as F
    import anfora.torch as at


def refused(cases):
    """Each case: a function, an argument that eager takes, ones that it refuses with a word of our message."""
    class Of(nn.Module):
        def __init__(self, f):
            super().__init__()
            self.f, self.w = f, nn.Parameter(torch.ones((), dtype=torch.float64))

        def forward(self, x):
            return (self.f(x).double() * self.w).sum()
    for f, good, *bad in cases:
        torch._dynamo.reset()
        compiled, m = torch.compile(f, backend="anfora"), Of(f)
        step = at.compile_step(m, None, torch.optim.SGD(m.parameters(), lr=0.0))
        close(f(good), compiled(good), 1e-6)
        close(m(good).detach(), torch.tensor(step(good)).double(), 1e-6)
        for x, word in bad:
            raises(Exception, "", f, x)
            raises(RuntimeError, word, compiled, x)
            raises(RuntimeError, word, step, x)
    assert not at.fallbacks, at.fallbacks


def test_places_and_labels():
    need_torch()
    x, source = torch.arange(8.).double().reshape(2, 4), t([1., 2.]).double()
    refused((
        (lambda i: F.max_unpool2d(x[None, None, :, :1], i, (2, 2)), t([[[[0], [3]]]]), (t([[[[0], [-1]]]]), "index -1"), (t([[[[0], [8]]]]), "index 8")),
        (lambda i: F.max_unpool1d(x[None, None, 0, :2], i, 2), t([[[0, 3]]]), (t([[[0, -1]]]), "index -1")),
        (lambda i: F.multilabel_margin_loss(x, i), t([[0, 3, -1, 0], [1, -1, 0, 0]]), (t([[0, 3, -1, 7], [1, -1, 0, 0]]), "'target' is out of range")),
        (lambda o: F.embedding_bag(t([0, 1, 1]), x, o, mode="sum"), t([0, 2]), (t([0, 4]), "offsets")),
        (lambda m: x.masked_scatter(m, source), x > 5, (x > 4, "Number of elements of source"))))


def test_probabilities_and_ranges():
    need_torch()
    x, y = torch.arange(4.).double(), t([0., 1., 1., 0.]).double()
    p = t([0., .3, .5, 1.]).double()
    refused((
        (lambda v: F.binary_cross_entropy(v, y), p, (p * 2, "input should be between 0 and 1"), (p * math.nan, "input should be")),
        (lambda v: F.binary_cross_entropy(p, v, reduction="none"), y, (y - 1, "target should be between 0 and 1")),
        (lambda q: torch.quantile(x, q), p, (t([.5, math.nan]).double(), "q values"), (p - 1, "q values")),
        (lambda q: x.nanquantile(q), p, (p * 2, "q values")),
        (lambda v: torch.histc(v, 4), x, (x / 0, "range of the elements")),
        (lambda v: (torch._assert_async((v > 0).all()), v + 1)[1], x + 1, (x, "nonzero value"))))


def test_matrices():
    need_torch()
    a = t([[2., 1.], [1., 3.]]).double()
    bad, pivots = t([[1., math.nan], [1., 2.]]).double(), t([1, 2], dtype=torch.int32)
    refused((
        (lambda m: torch.linalg.svdvals(m), a.clone(), (bad, "linalg.svd: The algorithm failed")),
        (lambda m: torch.linalg.pinv(m), a.clone(), (bad, "linalg.svd: The algorithm failed")),
        (lambda m: torch.cholesky_inverse(m), a.clone(), (a * 0, "cholesky_inverse")),
        (lambda p: torch.linalg.lu_solve(a, p, a), pivots, (pivots - 1, "pivots"), (pivots + 1, "pivots")),
        (lambda p: torch.lu_unpack(a, p)[0], pivots, (pivots - 1, "pivots"))))
    info = torch.compile(lambda m: torch.linalg.cholesky_ex(m)[1], backend="anfora")
    for m in (a, -a, t([[1., 2.], [2., 1.]]).double(), bad.T, torch.stack([a, -a, a * t([[1, 3.], [3, 1]])])):
        assert torch.equal(info(m), torch.linalg.cholesky_ex(m)[1]), m


def test_triangular_factors():
    """Those of LAPACK, of singular and of batched matrices too, and their gradients."""
    need_torch()

    class Of(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(t([[[1., 4, 2], [3, -1, 5], [2, 2, 7]], [[9., 1, 0], [1, 8, 2], [4, 4, 1]]]).double())

        def forward(self):
            p, l, u = torch.linalg.lu(self.w)
            return (p @ l.sin()).sum() + (u * u).sum() + torch.linalg.lu_factor(self.w)[0].cos().sum() + torch.linalg.slogdet(self.w)[1].sum()
    m, other = Of(), Of()
    m().backward()
    at.compile_step(other, None, torch.optim.SGD(other.parameters(), lr=1.0))()
    close(m.w.detach() - m.w.grad, other.w.detach(), 1e-9)
    for x in (m.w.detach(), torch.ones(3, 3), torch.zeros(2, 4, 3), torch.arange(30.).reshape(2, 3, 5).sin()):
        torch._dynamo.reset()
        for want, got in zip(torch.linalg.lu_factor_ex(x), torch.compile(torch.linalg.lu_factor_ex, backend="anfora")(x)):
            assert want.dtype == got.dtype
            close(want, got, 1e-5)


def test_integers_to_negative_powers():
    need_torch()
    x = t([-1, 1, 0, 3, -1])
    f = torch.compile(lambda n: (x ** n, 2 ** n), backend="anfora")
    for n in (t([1, 2, 3, 4, 5]), t([-1, -2, -3, -4, -2])):
        assert all(torch.equal(a, b) for a, b in zip(f(n)[1:], (2 ** n,)))
        assert torch.equal(f(n)[0][[0, 1, 3, 4]], (x ** n)[[0, 1, 3, 4]])


def test_graphs_of_checks_alone():
    need_torch()
    f = torch.compile(lambda v: torch._assert_async((v > 0).all()), backend="anfora")
    f(torch.ones(2))
    raises(RuntimeError, "nonzero value", f, -torch.ones(2))


def test_losses_of_probabilities_have_eagers_slope():
    need_torch()
    y, target = t([0., 0., 1., 1., .3]).double(), t([0., 1., 0., 1., 1.]).double()

    class Of(nn.Module):
        def __init__(self):
            super().__init__()
            self.w, self.target = nn.Parameter(y.clone()), nn.Parameter(target.clone())

        def forward(self, weight):
            return F.binary_cross_entropy(self.w, self.target, weight, reduction="sum")
    m, other, weight = Of(), Of(), torch.arange(1., 6.).double()
    m(weight).backward()
    loss = at.compile_step(other, None, torch.optim.SGD(other.parameters(), lr=1.0))(weight)
    assert math.isclose(loss, m(weight).item(), rel_tol=1e-6)
    close(y - other.w.detach(), m.w.grad, 1e-6)
    close((target - other.target.detach())[-1], m.target.grad[-1], 1e-6)  # eager's is infinite where a probability is 0 or 1


def test_logarithms_of_weights_that_are_zero():
    """Slopes of xlogy where x is 0 are eager's, and narrow types are rounded where eager rounds them."""
    need_torch()

    class Of(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(t([0., 0., 1., 2., 0.]))

        def forward(self, y):
            return torch.xlogy(self.w, y).sum() + torch.special.xlog1py(self.w, y).sum() + torch.xlogy(self.w, 3.0).sum()
    weights, y = [], t([2., 0., 3., .5, -1.])
    for step_of in (at.compile_step, None):
        m = Of()
        o = torch.optim.SGD(m.parameters(), lr=1.0)
        if step_of:
            step_of(m, None, o)(y)
        else:
            m(y).backward()
            o.step()
        weights.append(m.w.detach())
    close(weights[1], weights[0], 1e-6)
    torch._dynamo.reset()
    losses = torch.compile(lambda a, b: (F.kl_div(a, b, reduction="sum"), torch.special.xlog1py(b, b)), backend="anfora")
    a, b = torch.linspace(-3, 0, 40).double(), torch.linspace(.01, .99, 40)
    for dtype in (torch.bfloat16, torch.float16):
        for want, got in zip((F.kl_div(a, b.to(dtype), reduction="sum"), torch.special.xlog1py(b.to(dtype), b.to(dtype))), losses(a, b.to(dtype))):
            assert want.dtype == got.dtype
            close(want.double(), got.double(), 1e-9)


def test_narrow_types_are_rounded_once():
    """addcmul, addcdiv and lerp, of which optimizers are made, are computed in f32 as in eager."""
    need_torch()

    def f(a, b, c):
        return torch.addcmul(a, b, c), torch.addcmul(a, b, c, value=3.14), torch.addcdiv(a, b, c), torch.lerp(a, b, 0.3), torch.lerp(a, b, c)
    compiled = torch.compile(f, backend="anfora")
    torch.manual_seed(0)
    for dtype in (torch.bfloat16, torch.float16):
        xs = [torch.randn(640).to(dtype) for _ in range(3)]
        for want, got in zip(f(*xs), compiled(*xs)):
            wrong = (want != got).double().mean()  # a sum may be contracted
            assert want.dtype == got.dtype and wrong < 0.02, wrong


def test_steps_write_what_they_make_of_captured_tensors():
    need_torch()
    x, count = torch.arange(8.).double().reshape(2, 4), torch.zeros(1)

    class Of(nn.Module):
        def __init__(self, f):
            super().__init__()
            self.f, self.w = f, nn.Parameter(torch.ones((), dtype=torch.float64))

        def forward(self, i):
            return (self.f(i) * self.w).sum()

    def counted(i):
        count.add_(1)
        return x * i
    for f in (lambda i: (x * 2).sum(0).masked_fill_(i > 0, 0.0), lambda i: F.cross_entropy(x, i[:2], label_smoothing=0.1), lambda i: x[0][i[1]]):
        m, i = Of(f), t([0, 1, 0, 1])
        assert math.isclose(at.compile_step(m, None, torch.optim.SGD(m.parameters(), lr=0.0))(i), m(i).item(), rel_tol=1e-6)
    m = Of(counted)
    raises(Exception, "neither an input nor a buffer", at.compile_step(m, None, torch.optim.SGD(m.parameters(), lr=0.0)), t(2))


def test_places_that_are_no_numbers():
    need_torch()
    x = torch.arange(1., 41.).double().reshape(1, 2, 4, 5)
    grid = t([[.1, -.2], [math.nan, .3], [.3, math.nan], [math.inf, .1], [1e9, 0.]]).double().reshape(1, 1, -1, 2)
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            torch._dynamo.reset()
            f = lambda x, g: F.grid_sample(x, g, mode=mode, padding_mode=padding, align_corners=False)  # noqa: B023, E731
            given, same = [[v.clone().requires_grad_() for v in (x, grid)] for _ in range(2)]
            y, z = f(*given), torch.compile(f, backend="anfora")(*same)
            assert torch.allclose(y, z, equal_nan=True), (mode, padding, y, z)
            if mode != "bilinear":  # where eager's own backward pass reads what is not there
                y.sum().backward()
                z.sum().backward()
                for a, b in zip(given, same):
                    assert torch.allclose(a.grad, b.grad, equal_nan=True), (mode, padding, a.grad, b.grad)
    bags = torch.compile(lambda o: F.embedding_bag(t([0, 1, 1]), x[0, 0, :2], o, mode="sum"), backend="anfora")
    close(F.embedding_bag(t([0, 1, 1]), x[0, 0, :2], t([0, 0, 2]), mode="sum"), bags(t([0, 0, 2])), 1e-9)
    raises(RuntimeError, "not to decrease", bags, t([0, 2, 1]))


def test_ctc_of_labels_with_lengths():
    need_torch()

    def labels(y):
        return F.log_softmax(y.reshape(6, 2, 4), -1)
    x, many, few = torch.randn(12, 4).double(), t([6, 4]), t([3, 1])
    padded = t([[1, 1, 2], [3, -1, -1]])
    def losses(y, a, b):
        flat = F.ctc_loss(y.reshape(6, 2, 4), t([1, 2, 1, 3]), a, b, reduction="sum")  # whose derivative is PyTorch's, though these are no logarithms
        return flat + F.ctc_loss(labels(y)[:, 0], padded[0], (4,), (3,))
    same_steps(losses, (x, many, few), (x + 1, t([5, 6]), few))
    step = same_steps(lambda y, a, b: F.ctc_loss(labels(y), padded, a, b, zero_infinity=True), *((x, t(n), t([3, 0])) for n in ([6, 4], [2, 0], [4, 1])))
    raises(RuntimeError, "input_lengths", step, x, t([7, 1]), few)
    raises(RuntimeError, "target_lengths", step, x, many, t([4, 1]))
    m = nn.Linear(4, 4).double()
    never = at.compile_step(m, lambda y: F.ctc_loss(labels(y), padded, (2, 6), (3, 1)), torch.optim.SGD(m.parameters(), lr=0.1))
    assert never(x) == math.inf and m.weight.isnan().all()  # as eager's, without a path that spells the labels


def test_numbers_that_a_type_does_not_hold():
    need_torch()
    u, i = t([0, 1, 200], dtype=torch.uint8), t([-128, -1, 5, 127], dtype=torch.int8)
    for f in (lambda x: x.clamp(-1, 1), lambda x: x.clamp(min=-1), lambda x: x.clamp(3, 300), lambda x: F.hardtanh(x, -1, 300), lambda x: x.clamp_(-1, 2), lambda x: x.clamp(-200, 200), lambda x: x.sign()):
        for x in (u, i):
            torch._dynamo.reset()
            close(f(x.clone()), torch.compile(f, backend="anfora")(x.clone()), 0)
    b = t([True, False])
    assert torch.equal(torch.compile(lambda x: x.sign(), backend="anfora")(b), b)
    for f in (lambda x: x.all(), lambda x: torch.any(x, 0, keepdim=True)):
        torch._dynamo.reset()
        close(f(u), torch.compile(f, backend="anfora")(u), 0)
    with contextlib.redirect_stderr(io.StringIO()) as said:  # as PyTorch refuses them, not another number
        for f in (lambda x: x.masked_fill(x > 1, 300), lambda x: torch.where(x > 1, x, 300), lambda x: torch.full_like(x, 300), lambda x: F.threshold(x, 1, 300), lambda x: F.pad(x, (1, 1), value=300)):
            torch._dynamo.reset()
            raises(RuntimeError, "without overflow", torch.compile(f, backend="anfora"), u)
    assert said.getvalue().count("300 is no u8") + said.getvalue().count("300.0 is no u8") == 5, said.getvalue()


def test_types_that_eager_refuses():
    need_torch()
    f, d, i = torch.ones(3, 3), torch.ones(3, 3).double(), torch.ones(3, 3, dtype=torch.int64)
    with contextlib.redirect_stderr(io.StringIO()):
        for g, *xs in ((lambda x, y: x @ y, d, f), (lambda x, y: F.linear(x, y, y[0]), i, f), (lambda x, y: F.conv1d(x[None], y[None]), f, d),
                       (lambda x, y: x.index_add(0, torch.tensor([0]), y[:1]), f, d), (lambda x, y: x.index_put((torch.tensor([0]),), y[0]), f, i),
                       (lambda x, y: F.layer_norm(x, (3,), y[0]), d, f), (lambda x, y: F.batch_norm(x, y[0], y[1]), f, d),
                       (lambda x, y: x.softmax(0) + y, i, f), (lambda x, y: x.index_select(0, y[0]), f, f), (lambda x, y: torch.lerp(x, x, 0.5) + y, i, f)):
            torch._dynamo.reset()
            for run in (g, torch.compile(g, backend="anfora")):
                try:
                    run(*xs)
                    raise AssertionError(f"nothing was raised for {g.__code__.co_firstlineno}")
                except RuntimeError:
                    pass
    half = torch.randn(2, 3).bfloat16()
    close(F.layer_norm(half, (3,), f[0], f[1]), torch.compile(lambda x, w: F.layer_norm(x, (3,), w[0], w[1]), backend="anfora")(half, f), 2e-2)


def test_outputs_share_memory():
    need_torch()
    x, table = torch.randn(4, 6).double(), {}

    def f(x):
        y = x.sin()
        a, b = y.chunk(2, 1)
        return y, y.view(-1), a.t(), b[1:], x[0], y.sum(0), y.reshape(2, -1, 6).unbind(1)[1]
    for dynamic in (False, True):
        torch._dynamo.reset()
        table = {e: torch.compile(f, backend="anfora", dynamic=dynamic) if e else f for e in (False, True)}
        given = [x.clone(), x.clone()]
        want, got = (table[e](given[e]) for e in (False, True))
        for k in (0, 1, 3, 4, 6):
            for out in (want, got):
                out[k].mul_(k + 2)
            for v, w in zip((*want, given[0]), (*got, given[1])):
                close(v, w, 1e-12)


def test_outputs_of_no_dims_are_written():
    need_torch()

    def f(x):
        y = (x * x).sum(0)
        torch._dynamo.graph_break()
        y.add_(1)
        return y, x.t() * 2
    x, z = (torch.randn(3).double().requires_grad_() for _ in range(2))
    z.data.copy_(x.data)
    for y, g in ((f(x), x), (torch.compile(f, backend="anfora")(z), z)):
        (y[0] * y[1]).sum().backward()
    close(x.grad, z.grad, 1e-12)


def test_random_programs():
    need_torch()
    import random_torch
    bad = random_torch.run(1, 16)
    assert not bad, "\n".join(bad[:2])
