# SPDX-License-Identifier: Apache-2.0
"""Whole programs, read after the cases of edges.py and with its names: state in loops, records, functional steps, models as tutorials write them."""
from edges import *  # noqa: F403


class Counter(nn.Cell):
    """Parameters that are assigned to in branches and loops."""

    def __init__(self):
        super().__init__()
        self.n, self.sum = Parameter(Tensor(0, ms.int32), name="n"), Parameter(f(3), name="sum")

    def construct(self, x):
        k = Tensor(0, ms.int32)
        while k < 4:
            if x.sum() > 0:
                self.n = self.n + 1
                self.sum = self.sum + x * k
            else:
                self.sum = self.sum - 1.0
            x = x - 0.7
            k = k + 1
        return self.sum * self.n


class Cache(nn.Cell):
    """Keys and values of a decoder in parameters, a token a call, three calls."""

    def __init__(self, d=4, n=6):
        super().__init__()
        self.q, self.k, self.v = nn.Dense(d, d), nn.Dense(d, d), nn.Dense(d, d)
        self.keys, self.values = Parameter(ops.zeros((n, d)), name="keys"), Parameter(ops.zeros((n, d)), name="values")
        self.at, self.n, self.d = Parameter(Tensor(0, ms.int32), name="at"), n, d

    def one(self, x):
        hot = ops.one_hot(self.at, self.n, Tensor(1.0), Tensor(0.0)).expand_dims(1)
        self.keys = self.keys * (1 - hot) + hot * self.k(x)
        self.values = self.values * (1 - hot) + hot * self.v(x)
        self.at = self.at + 1
        score = ops.matmul(self.keys, self.q(x).T).squeeze(1) / self.d ** 0.5
        mask = ops.arange(self.n) < self.at
        p = ops.softmax(ops.masked_fill(score, ~mask, -1e9), 0)
        return ops.matmul(p.expand_dims(0), self.values)

    def construct(self, x):
        y = self.one(x)
        y = self.one(y)
        return self.one(y)


class Means(nn.Cell):
    """An average of weights beside the step that trains them."""

    def __init__(self, net):
        super().__init__()
        self.step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.SGD(net.trainable_params(), 0.1))
        self.weights = net.trainable_params()
        self.means = ms.ParameterTuple([Parameter(p.value() + 0, name="mean." + p.name) for p in self.weights])

    def construct(self, x, y):
        loss = self.step(x, y)
        for k in range(len(self.means)):
            ops.assign(self.means[k], self.means[k] * 0.9 + self.weights[k] * 0.1)
        return loss


class Functional(nn.Cell):
    """A step as ms.value_and_grad writes it, with an auxiliary result, gradients clipped by their norm."""

    def __init__(self, net, opt, clip):
        super().__init__()
        self.net, self.opt, self.clip = net, opt, clip
        self.loss = nn.MSELoss()
        self.grad = ms.value_and_grad(self.forward, None, opt.parameters, has_aux=True)

    def forward(self, x, y):
        z = self.net(x)
        return self.loss(z, y), z

    def construct(self, x, y):
        (loss, z), g = self.grad(x, y)
        if self.clip:
            g = ops.clip_by_global_norm(g, 0.5)
        self.opt(g)
        return loss, z


class Tied(nn.Cell):
    """The table of an embedding is the last layer's weight, too."""

    def __init__(self):
        super().__init__()
        self.table = Parameter(f(7, 4), name="table")
        self.norm = nn.LayerNorm((4,))

    def construct(self, ids, t):
        x = self.norm(ops.gather(self.table, ids, 0))
        return ops.cross_entropy(ops.matmul(x, self.table.T), t)


class Clean(nn.Cell):
    def __init__(self, net):
        super().__init__()
        self.net, self.grad = net, ops.GradOperation(get_by_list=True)
        self.weights = ms.ParameterTuple(net.trainable_params())

    def construct(self, *xs):
        return self.grad(self.net, self.weights)(*xs)


class Gate(nn.Cell):
    """Experts that a router weighs; each is seen by all, as in mixtures of experts."""

    def __init__(self):
        super().__init__()
        self.router, self.experts = nn.Dense(4, 3), nn.CellList([nn.SequentialCell(nn.Dense(4, 8), nn.GELU(), nn.Dense(8, 4)) for _ in range(3)])

    def construct(self, x):
        p = ops.softmax(self.router(x), -1)
        top, at = ops.topk(p, 2)
        w = ops.zeros_like(p).scatter(1, at, top)
        y = ops.zeros_like(x)
        for k, e in enumerate(self.experts):
            y = y + w[:, k:k + 1] * e(x)
        return y


class Rope(nn.Cell):
    """A layer as in Llama: rotary places, RMS norm, a gate, grouped heads, a causal mask."""

    def __init__(self, d=8, h=4, g=2, n=5):
        super().__init__()
        self.q, self.k, self.v, self.o = nn.Dense(d, d, has_bias=False), nn.Dense(d, d // h * g, has_bias=False), nn.Dense(d, d // h * g, has_bias=False), nn.Dense(d, d, has_bias=False)
        self.up, self.gate, self.down = nn.Dense(d, 16), nn.Dense(d, 16), nn.Dense(16, d)
        self.w1, self.w2 = Parameter(pos(d), name="w1"), Parameter(pos(d), name="w2")
        c = d // h
        turn = np.outer(np.arange(n), 1 / 100.0 ** (np.arange(0, c, 2) / c))
        self.cos, self.sin = Tensor(np.cos(turn).astype(np.float32)), Tensor(np.sin(turn).astype(np.float32))
        self.h, self.g, self.c = h, g, c

    def norm(self, x, w):
        return x * ops.rsqrt((x * x).mean(-1, True) + 1e-6) * w

    def turned(self, x):
        a, c = x[..., 0::2], x[..., 1::2]
        return ops.stack((a * self.cos - c * self.sin, a * self.sin + c * self.cos), -1).reshape(x.shape)

    def construct(self, x):
        (n, t, d) = x.shape
        y = self.norm(x, self.w1)
        q = self.turned(self.q(y).reshape(n, t, self.h, self.c).transpose(0, 2, 1, 3))
        k = self.turned(self.k(y).reshape(n, t, self.g, self.c).transpose(0, 2, 1, 3)).repeat_interleave(self.h // self.g, 1)
        v = self.v(y).reshape(n, t, self.g, self.c).transpose(0, 2, 1, 3).repeat_interleave(self.h // self.g, 1)
        s = ops.matmul(q, k.swapaxes(-1, -2)) / self.c ** 0.5
        s = ops.masked_fill(s, ops.triu(ops.ones((t, t), ms.bool_), 1), float("-inf"))
        x = x + self.o(ops.matmul(ops.softmax(s, -1), v).transpose(0, 2, 1, 3).reshape(n, t, d))
        y = self.norm(x, self.w2)
        return x + self.down(ops.silu(self.gate(y)) * self.up(y))


class Unrolled(nn.Cell):
    """A recurrent cell of one's own in a loop that the graph keeps, the state a tuple."""

    def __init__(self):
        super().__init__()
        self.w, self.u = Parameter(f(3, 12), name="w"), Parameter(f(3, 12), name="u")

    def construct(self, xs):
        h, c, t = ops.zeros((2, 3)), ops.zeros((2, 3)), Tensor(0, ms.int32)
        while t < 4:
            g = ops.matmul(ops.gather(xs, t, 0), self.w) + ops.matmul(h, self.u)
            i, f, o, n = ops.split(g, 3, 1)
            c = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(n)
            h = ops.sigmoid(o) * ops.tanh(c)
            t = t + 1
        return h, c


class UnrolledLoss(nn.Cell):
    def __init__(self):
        super().__init__()
        self.net = Unrolled()

    def construct(self, xs):
        return self.net(xs)[0].sum()


def beam(x, n):
    """The best path through a table of scores: maxima carried by a loop."""
    best, k = x[0], Tensor(1, ms.int32)
    while k < n:
        s = best.expand_dims(1) + ops.gather(x, k, 0).expand_dims(0)
        best = s.max(0)
        k = k + 1
    return best.max()


def collatz(n):
    k = Tensor(0, ms.int32)
    while n > 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        k = k + 1
    return k


def nested_state(x, n):
    i, y = Tensor(0, ms.int32), x
    while i < n:
        j = Tensor(0, ms.int32)
        while j < i + 1:
            y = y * 0.9 + j
            if y.sum() > 10:
                break
            j = j + 1
        i = i + 1
    return y


def records(x):
    d = {"mean": x.mean(0), "spread": {"low": x.min(0), "high": x.max(0)}}
    d["more"] = [x.sum(), (x * 2,)]
    return d["spread"]["high"] - d["spread"]["low"], d["more"][1][0], d["mean"], len(d)


def record_out(x):
    return {"a": x, "b": x * 2}


def keywords(x, *, scale=2.0, shift=1.0):
    return x * scale + shift


def ackermann_like(n, x):
    if n <= 0:
        return x + 1
    if n % 2 == 0:
        return ackermann_like(n - 1, x * 2)
    return ackermann_like(n - 2, x - 3) + ackermann_like(n - 3, x)


def even(n):
    if n == 0:
        return Tensor(1, ms.int32)
    return odd(n - 1)


def odd(n):
    if n == 0:
        return Tensor(0, ms.int32)
    return even(n - 1)


def compose(f, g):
    def run(x):
        return f(g(x))
    return run


def taylor(x, n):
    term, total, k = ops.ones_like(x), ops.ones_like(x), Tensor(1, ms.float32)
    while k < n:
        term = term * x / k
        total = total + term
        k = k + 1
    return total


case("prog_beam", beam, f(5, 3), Tensor(5, ms.int32))
case("prog_beam_grad", lambda x, n: ms.grad(beam)(x, n), f(5, 3), Tensor(5, ms.int32))
case("prog_collatz", collatz, Tensor(27, ms.int32))
case("prog_nested", nested_state, pos(3), Tensor(4, ms.int32))
case("prog_nested_grad", lambda x, n: ms.grad(lambda a, m: nested_state(a, m).sum())(x, n), pos(3), Tensor(4, ms.int32))
case("prog_records", records, f(4, 3))
case("prog_record_out", record_out, f(3))
case("prog_keywords", lambda x: keywords(x, shift=3.0), f(3))
case("prog_recursion", ackermann_like, Tensor(3, ms.int32), f(2))
case("prog_mutual", even, Tensor(3, ms.int32))
case("prog_compose", lambda x: compose(ops.sin, compose(ops.exp, ops.tanh))(x), f(3))
case("prog_compose_grad", lambda x: ms.grad(lambda a: compose(ops.sin, compose(ops.exp, ops.tanh))(a).sum())(x), f(3))
case("prog_taylor", taylor, f(3), Tensor(8, ms.float32))
case("prog_taylor_grad", lambda x, n: ms.grad(lambda a, m: taylor(a, m).sum())(x, n), f(3), Tensor(8, ms.float32))
case("prog_hessian", lambda x: ms.grad(lambda a: (ms.grad(lambda c: (ops.sin(c) * c * c).sum())(a) ** 2).sum())(x), f(3))
case("prog_vmap_grad", lambda x, y: ms.vmap(ms.grad(lambda a, c: (ops.sin(a) * c).sum()), (0, None))(x, y), f(4, 3), f(3))
case("prog_unrolled", Unrolled(), f(4, 2, 3))
case("prog_unrolled_grad", Clean(UnrolledLoss()), f(4, 2, 3))
case("prog_gate", Gate(), f(5, 4))
case("prog_rope", Rope(), f(2, 5, 8))
case("prog_tied", Tied(), i(6, hi=7), i(6, hi=7))
case("prog_tied_grad", Clean(Tied()), i(6, hi=7), i(6, hi=7))
case("step_counts", Counter(), f(3, lo=0.5))
case("step_decoder", Cache(), f(1, 4))
case("step_means", Means(nn.Dense(3, 2)), f(4, 3), f(4, 2))


def functional(make, clip=False):
    net = nn.SequentialCell(nn.Dense(3, 4), nn.Tanh(), nn.Dense(4, 2))
    return Functional(net, make(net.trainable_params()), clip)


case("step_fun_sgd", functional(lambda p: nn.SGD(p, 0.1)), f(4, 3), f(4, 2))
case("step_fun_clip", functional(lambda p: nn.Adam(p, 0.1), True), f(4, 3), f(4, 2))
case("step_fun_adamw", functional(lambda p: nn.AdamWeightDecay(p, 0.1, weight_decay=0.1)), f(4, 3), f(4, 2))
case("step_fun_amsgrad", functional(lambda p: nn.Adam(p, 0.1, use_amsgrad=True)), f(4, 3), f(4, 2))
case("step_fun_decay", functional(lambda p: nn.Momentum(p, 0.1, 0.9, weight_decay=0.01, loss_scale=4.0)), f(4, 3), f(4, 2))
case("step_fun_rprop", functional(lambda p: nn.Rprop(p, 0.1)), f(4, 3), f(4, 2))
case("step_fun_adadelta", functional(lambda p: nn.Adadelta(p, 0.5)), f(4, 3), f(4, 2))
case("step_fun_asgd", functional(lambda p: nn.ASGD(p, 0.1, t0=0.0)), f(4, 3), f(4, 2))
case("step_fun_warm", functional(lambda p: nn.Adam(p, nn.WarmUpLR(0.1, 5))), f(4, 3), f(4, 2))
case("step_fun_poly", functional(lambda p: nn.SGD(p, nn.PolynomialDecayLR(0.1, 0.01, 5, 2.0), momentum=0.9, nesterov=True, weight_decay=0.1)), f(4, 3), f(4, 2))
layer("gan", nn.SequentialCell(nn.Dense(3, 16), nn.BatchNorm1d(16), nn.LeakyReLU(0.2), nn.Dense(16, 16)), f(4, 3))
layer("resnext", nn.SequentialCell(nn.Conv2d(4, 8, 3, group=2), nn.BatchNorm2d(8), nn.ReLU6(), nn.Conv2d(8, 8, 3, stride=2, group=8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dense(8, 3)), f(2, 4, 8, 8))
layer("siamese", nn.CosineEmbeddingLoss(0.1), f(3, 4), f(3, 4), at(1, -1, 1, t=np.int32))
layer("ctx", nn.SequentialCell(nn.Embedding(9, 4), nn.Flatten(), nn.Dense(12, 9), nn.LogSoftmax(-1)), i(2, 3, hi=9))
layer("bi_gru_valid", nn.GRU(3, 4, bidirectional=True, batch_first=True), f(2, 5, 3), f(2, 2, 4), at(5, 3, t=np.int32))
layer("mha_masked", nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, batch_first=True, norm_first=True), f(2, 3, 8), f(2, 4, 8))
