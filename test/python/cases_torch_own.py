# SPDX-License-Identifier: Apache-2.0
"""anfora.torch: steps of models with a torch.autograd.Function, whose gradient is what its own backward() gives, beside eager PyTorch."""
import copy

from cases_torch import HAS_TORCH, close, need_torch
from cases_torch_steps import raises, same_steps

if HAS_TORCH:
    import torch
    from torch import nn
    from torch.nn import functional as F
    from torch.autograd import Function
    from torch.utils.checkpoint import checkpoint
    from anfora import CompileError
    import anfora.torch as at

    class Straight(Function):
        @staticmethod
        def forward(ctx, x):
            return x.sign()

        @staticmethod
        def backward(ctx, g):
            return g.clamp(-0.1, 0.1)

    class Product(Function):
        """x @ w with a gradient of w that is twice what it should be."""
        @staticmethod
        def forward(x, w, scale):
            return x @ w * scale

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, w, ctx.scale = inputs
            ctx.save_for_backward(x, w)

        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            assert ctx.needs_input_grad == (False, True, False)
            return None, 2 * ctx.scale * (x.T @ g), None

    class Greatest(Function):
        """(the greatest of each row, its place, the sum)"""
        @staticmethod
        def forward(ctx, x, n):
            v, i = x.max(1)
            ctx.mark_non_differentiable(i)
            ctx.save_for_backward(i)
            ctx.n, ctx.shape = n, x.shape
            return v, i, x.sum()

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, gv, gi, gs):
            z = gv.new_zeros(ctx.shape)
            z.scatter_(1, ctx.saved_tensors[0][:, None], gv[:, None])
            z[z < 0] = 0
            return z * ctx.n + gs, None

    class Again(Function):
        """Computes its forward pass again to have its gradient."""
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return torch.tanh(x) * 2

        @staticmethod
        def backward(ctx, g):
            x = ctx.saved_tensors[0].detach().requires_grad_()
            with torch.enable_grad():
                y = torch.tanh(x)
            return torch.autograd.grad(y, x, g)

    straight = Straight.apply  # as models have it, since before any trace


def batches():
    torch.manual_seed(3)
    return [(torch.randn(3, 4).double(),) for _ in range(3)]


def test_steps_take_the_backward_of_a_function():
    need_torch()
    weights = torch.linspace(-1, 1, 4).double()
    same_steps(lambda y: (straight(y) * y * weights).sum(), *batches())
    same_steps(lambda y: (Again.apply(y) * weights).sum(), *batches())

    def several(y):
        v, i, s = Greatest.apply(y, 3)
        return (v * (i + 1) * weights[:3]).sum() + s ** 2
    same_steps(several, *batches())


def test_functions_that_set_up_their_context_apart():
    need_torch()

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.w, self.unused = (nn.Parameter(torch.linspace(-1, 1, 8).reshape(4, 2)) for _ in range(2))

        def forward(self, x):
            return Product.apply(x, self.w, 0.5).tanh()
    same_steps(lambda y: y.sum(), *batches(), make=Net)


def test_functions_within_others_and_without_gradients():
    need_torch()

    class Outer(Function):
        @staticmethod
        def forward(ctx, x):
            return Straight.apply(x) * 2 + Straight.forward(ctx, x)

        @staticmethod
        def backward(ctx, g):
            return g * 5

    def loss(y):
        with torch.no_grad():
            q = Straight.apply(y)
        return (Outer.apply(y) * q).sum() + (y * q).mean()
    same_steps(loss, *batches())


def test_a_gradient_that_is_none_is_no_gradient():
    need_torch()

    class Half(Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(w)
            return x * w

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0], None

    class Net(nn.Linear):
        def __init__(self):
            super().__init__(4, 4)
            self.w = nn.Parameter(torch.ones(4))

        def forward(self, x):
            return Half.apply(super().forward(x), self.w)
    m = Net().double()
    step = at.compile_step(m, lambda y: y.square().sum(), torch.optim.Adam(m.parameters(), lr=0.1, weight_decay=0.1))
    step(*batches()[0])
    assert torch.equal(m.w, torch.ones(4).double())  # the optimizer skips it, whose decay would change it
    assert m.bias.grad is None


def test_parts_that_are_computed_again():
    need_torch()

    class Net(nn.Module):
        def __init__(self, reentrant):
            super().__init__()
            self.a, self.b, self.reentrant = nn.Sequential(nn.Linear(4, 5), nn.Dropout(0.3), nn.Tanh()), nn.Linear(5, 4), reentrant

        def forward(self, x):
            return self.b(checkpoint(self.a, x.requires_grad_() if self.reentrant else x, use_reentrant=self.reentrant))
    for reentrant in (True, False):
        same_steps(lambda y: y.square().sum(), *batches(), make=lambda r=reentrant: Net(r))


def test_functions_that_are_refused():
    need_torch()

    class Dirty(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, g):
            return g * 2

    class Many(Straight):
        @staticmethod
        def backward(ctx, g):
            return g, g

    class Shape(Straight):
        @staticmethod
        def backward(ctx, g):
            return g[:, :3]

    class Noisy(Straight):
        @staticmethod
        def backward(ctx, g):
            return g + torch.randn_like(g)

    class Kept(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return ctx.saved_tensors[0].mul_(g)

    held = nn.Linear(4, 4).double()
    held.register_buffer("seen", torch.zeros(3, 4).double())

    class Writes(Straight):
        @staticmethod
        def backward(ctx, g):
            held.seen.copy_(g)
            return g
    for f, word in ((Dirty, "writes its argument"), (Many, "incorrect number of gradients"), (Shape, "invalid gradient"), (Noisy, "random numbers"),
                    (Kept, "in its backward pass"), (Writes, "")):
        step = at.compile_step(held, lambda y, f=f: f.apply(y * 1).sum(), torch.optim.SGD(held.parameters(), lr=0.1))
        raises(CompileError, word, step, *batches()[0])

    def forces(y):
        z = y.detach().requires_grad_()
        g, = torch.autograd.grad(Straight.apply(z).sum(), z, create_graph=True)
        return (g * y).sum()
    step = at.compile_step(held, forces, torch.optim.SGD(held.parameters(), lr=0.1))
    raises(CompileError, "differentiates itself", step, *batches()[0])
    step = at.compile_step(held, lambda y: torch.func.grad(lambda z: Product.apply(z, y, 1.0).sum())(y).sum(), torch.optim.SGD(held.parameters(), lr=0.1))
    raises(CompileError, "differentiates itself", step, *batches()[0])


def test_a_product_that_is_detached_beside_one_that_is_not():
    need_torch()

    class Student(nn.Module):
        def __init__(self):
            super().__init__()
            self.student, self.teacher = nn.Linear(64, 10), nn.Linear(64, 10)

        def forward(self, x):
            with torch.no_grad():
                of = self.teacher(x)
            return F.cosine_similarity(self.student(x), of).sum()
    m = Student().double()
    other, x = copy.deepcopy(m), torch.randn(4, 64).double()
    m(x).backward()
    at.compile_step(other, None, torch.optim.SGD(other.student.parameters(), lr=1.0))(x)
    close(m.student.weight.detach() - m.student.weight.grad, other.student.weight.detach(), 1e-10)
