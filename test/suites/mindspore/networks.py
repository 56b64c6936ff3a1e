# SPDX-License-Identifier: Apache-2.0
"""More cases, read after those of cases.py and with its names."""
from cases import *  # noqa: F403


# ---- functions, tuples, records ----
class Experts(nn.Cell):
    """A cell picked by a number that is computed: SwitchLayer."""

    def __init__(self):
        super().__init__()
        self.experts = nn.CellList([nn.Dense(3, 3), nn.ReLU(), nn.Tanh()])

    def construct(self, k, x):
        return self.experts[k](x) * 2


class ExpertsGrad(nn.Cell):
    def __init__(self):
        super().__init__()
        self.net = Experts()

    def construct(self, k, x):
        return ms.grad(self.net, 1)(k, x)


for k in range(3):
    case(f"fn_experts{k}", Experts(), Tensor(k, ms.int32), f(2, 3))
case("fn_experts_negative", Experts(), Tensor(-2, ms.int32), f(2, 3))
case("fn_experts_grad", ExpertsGrad(), Tensor(2, ms.int32), f(2, 3))


def scaled_by(x, a, c=2.0):
    return x * a + c


def pairs(x, t):
    (a, c), d = t
    return a * x + c, (d, x * len(t)), {"k": a, "l": [c, d]}["l"][1]


def fold(x, n):
    t = (x, x * 0)
    k = Tensor(0, ms.int32)
    while k < n:
        t = (t[0] * 0.5, t[1] + t[0])
        k = k + 1
    return t


def while_cond(x):
    while x.sum() < 50:
        x = x * 1.5 + 0.1
    return x


def two_exits(x, n):
    k = Tensor(0, ms.int32)
    while k < n:
        k = k + 1
        if k == 2:
            continue
        if x.sum() > 6:
            return x * 10
        x = x + k
    return x


def for_tensor(x):
    y = x[0] * 0
    for row in x:
        if row.sum() > 0:
            y = y + row
        else:
            y = y - row
    return y


def elif_chain(x):
    s = x.mean()
    if s > 2:
        return x
    elif s > 1:
        y = x * 2
    elif s > 0:
        y = x * 3
        if x[0] > 0:
            y = y + 1
    else:
        y = -x
    return y


def and_or(x, y):
    if x.sum() > 0 and y.sum() > 0:
        return x
    if x.sum() > 0 or not y.sum() > 0:
        return x + y
    return y


class Hyper(nn.Cell):
    def __init__(self):
        super().__init__()
        self.each = ops.HyperMap()

    def construct(self, x, y):
        return self.each(ops.add, (x, y), (y, x)), ops.Map()(ops.mul, (x, y), (x, y))


def newton(x):
    y = x
    k = Tensor(0, ms.int32)
    while ops.abs(y * y - x).max() > 1e-4 and k < 20:
        y = 0.5 * (y + x / y)
        k = k + 1
    return y


def power(x, n):
    if n <= 0:
        return ops.ones_like(x)
    return x * power(x, n - 1)


def shown(x):
    if x.sum() > 0:
        ops.print_("positive", x)
    return x * 2


case("fn_partial", lambda x, a: ops.Partial()(scaled_by, x)(a), f(3), f(3))
case("fn_nested_tuples", lambda x, a: pairs(x, ((a, a + 1), x)), f(3), f(3))
case("fn_hyper", Hyper(), f(3), f(3))
many("cf_", (f(3), N), fold=fold, two_exits=two_exits)
many("cf_", (pos(3),), while_cond=while_cond, newton=newton, elif_chain=elif_chain, print=shown)
case("cf_for_rows", for_tensor, f(4, 3))
case("cf_and_or", and_or, f(3), f(3))
case("cf_fold_grad", lambda x, n: ms.grad(lambda a, m: fold(a, m)[1].sum())(x, n), f(3), N)
case("cf_newton_grad", lambda x: ms.grad(lambda a: newton(a).sum())(x), pos(3))
case("cf_power_grad", lambda x, n: ms.grad(lambda a, m: power(a, m).sum())(x, n), f(3), Tensor(3, ms.int32))
case("cf_elif_grad", lambda x: ms.grad(lambda a: elif_chain(a).sum())(x), pos(3))
case("cf_value_and_grad", lambda x, y: ms.value_and_grad(lambda a, c: (a * ops.sin(c)).sum(), (0, 1))(x, y), f(3), f(3))
case("fn_dict", lambda x: {"a": x, "b": x * 2}["b"] + 1, f(3))
case("fn_list", lambda x: [x, x + 1, x * 2][1:], f(3))
case("fn_zip", lambda x, y: [a * c for a, c in zip((x, y), (y, x))], f(3), f(3))
case("fn_dtypes", lambda x: (x.astype(ms.float16) * 2, (x > 0).astype(ms.int8), x.astype(ms.int64) // 2, x.astype(ms.uint8)), pos(3))
case("fn_bf16", lambda x: (x.astype(ms.bfloat16) * 2).astype(ms.float32), f(3))
case("fn_f64", lambda x: ops.exp(x.astype(ms.float64)), f(3))
case("fn_c64", lambda x, y: ops.real(ops.Complex()(x, y) * ops.Complex()(y, x)), f(3), f(3))
case("fn_stop", lambda x: ms.grad(lambda a: (ops.stop_gradient(a * a) * a).sum())(x), f(3))


class Bprop(nn.Cell):
    def construct(self, x):
        return x * x

    def bprop(self, x, out, dout):
        return (dout * 100 * x,)


class BpropNet(nn.Cell):
    def __init__(self):
        super().__init__()
        self.f = Bprop()

    def construct(self, x):
        return ms.grad(self.f)(x)


case("fn_bprop", BpropNet(), f(3))


# ---- networks as tutorials have them ----
class Lenet(nn.Cell):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, pad_mode="valid"), nn.Conv2d(6, 16, 5, pad_mode="valid")
        self.fc1, self.fc2, self.fc3 = nn.Dense(256, 120), nn.Dense(120, 84), nn.Dense(84, 10)
        self.relu, self.pool, self.flatten = nn.ReLU(), nn.MaxPool2d(2, 2), nn.Flatten()

    def construct(self, x):
        x = self.pool(self.relu(self.conv1(x)))
        x = self.flatten(self.pool(self.relu(self.conv2(x))))
        return self.fc3(self.relu(self.fc2(self.relu(self.fc1(x)))))


class Trains(nn.Cell):
    def __init__(self, net, make=lambda p: nn.Momentum(p, 0.05, 0.9), loss=None):
        super().__init__()
        net.set_train()
        loss = loss or nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
        self.step = nn.TrainOneStepCell(nn.WithLossCell(net, loss), make(net.trainable_params()))
        self.step.set_train()

    def construct(self, x, y):
        return self.step(x, y)


class Sequence(nn.Cell):
    def __init__(self, rnn, last):
        super().__init__()
        self.table, self.rnn, self.head, self.last = nn.Embedding(11, 4), rnn, nn.Dense(6, 5), last

    def construct(self, ids):
        y, _ = self.rnn(self.table(ids))
        return self.head(y[:, -1] if self.last else y.mean(1))


class Bert(nn.Cell):
    def __init__(self, d=8):
        super().__init__()
        self.words, self.kinds, self.place = nn.Embedding(11, d), nn.Embedding(2, d), Parameter(f(6, d), name="place")
        self.norm = nn.LayerNorm((d,), epsilon=1e-12)
        self.layer = nn.TransformerEncoder(nn.TransformerEncoderLayer(d, 2, 16, dropout=0.0, activation="gelu", batch_first=True), 2)
        self.pooler, self.head = nn.Dense(d, d, activation="tanh"), nn.Dense(d, 5)

    def construct(self, ids):
        x = self.norm(self.words(ids) + self.kinds(ops.zeros_like(ids)) + self.place)
        return self.head(self.pooler(self.layer(x)[:, 0]))


class Attention(nn.Cell):
    """Additive attention with a mask; a decoder's loop over tokens."""

    def __init__(self):
        super().__init__()
        self.cell, self.score = nn.GRUCell(4, 4), nn.Dense(4, 1)

    def construct(self, xs, h):
        outs = []
        for t in range(xs.shape[1]):
            a = ops.softmax(self.score(ops.tanh(xs + h.expand_dims(1))).squeeze(-1), 1)
            h = self.cell((xs * a.expand_dims(-1)).sum(1) + xs[:, t], h)
            outs.append(h)
        return ops.stack(outs, 1)


class Vae(nn.Cell):
    def __init__(self):
        super().__init__()
        self.up, self.mean, self.log, self.down = nn.Dense(6, 5), nn.Dense(5, 2), nn.Dense(5, 2), nn.Dense(2, 6)

    def construct(self, x, noise):
        h = ops.relu(self.up(x))
        m, s = self.mean(h), self.log(h)
        y = ops.sigmoid(self.down(m + noise * ops.exp(0.5 * s)))
        return ops.binary_cross_entropy(y, x, ops.ones_like(x)) - 0.5 * (1 + s - m * m - ops.exp(s)).mean()


class Unet(nn.Cell):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 4, 3, has_bias=True), nn.Conv2d(4, 8, 3, stride=2)
        self.up, self.out = nn.Conv2dTranspose(8, 4, 2, stride=2), nn.Conv2d(8, 2, 1)

    def construct(self, x):
        s = ops.relu(self.a(x))
        return self.out(ops.cat((s, self.up(ops.leaky_relu(self.b(s)))), 1))


class Squeeze(nn.Cell):
    def __init__(self):
        super().__init__()
        self.conv, self.bn, self.pool = nn.Conv2d(3, 8, 3, group=1, dilation=2), nn.BatchNorm2d(8), ops.ReduceMean(keep_dims=True)
        self.f1, self.f2, self.head = nn.Conv2d(8, 2, 1, has_bias=True), nn.Conv2d(2, 8, 1, has_bias=True), nn.Dense(8, 5)

    def construct(self, x):
        y = ops.hardswish(self.bn(self.conv(x)))
        y = y * ops.hardsigmoid(self.f2(ops.relu(self.f1(self.pool(y, (2, 3))))))
        return self.head(y.mean((2, 3)))


IDS, FIVE = i(3, 6, hi=11), i(3, hi=5)
layer("lenet", Lenet(), f(2, 1, 28, 28))
layer("bert", Bert(), IDS)
layer("seq_lstm", Sequence(nn.LSTM(4, 3, bidirectional=True, batch_first=True), False), IDS)
layer("seq_gru", Sequence(nn.GRU(4, 6, num_layers=2, batch_first=True), True), IDS)
layer("attention", Attention(), f(2, 4, 4), f(2, 4))
layer("unet", Unet(), IMG)
layer("squeeze", Squeeze(), IMG)
layer("vae", Vae(), f(3, 6, lo=0, hi=1), f(3, 2))
case("step_lenet", Trains(Lenet()), f(2, 1, 28, 28), i(2, hi=10))
case("step_bert", Trains(Bert(), lambda p: nn.AdamWeightDecay(p, 0.01)), IDS, FIVE)
case("step_lstm", Trains(Sequence(nn.LSTM(4, 6, batch_first=True), True), lambda p: nn.Adam(p, 0.01)), IDS, FIVE)
case("step_gru", Trains(Sequence(nn.GRU(4, 6, batch_first=True), True), lambda p: nn.RMSProp(p, 0.01)), IDS, FIVE)
case("step_squeeze", Trains(Squeeze()), IMG, i(2, hi=5))
case("step_unet", Trains(Unet(), loss=nn.MSELoss()), IMG, f(2, 2, 8, 8))
case("step_conv1d", Trains(nn.SequentialCell(nn.Conv1d(3, 4, 3), nn.BatchNorm1d(4), nn.ReLU(), nn.MaxPool1d(2, 2), nn.Flatten(), nn.Dense(16, 5))), f(2, 3, 9), i(2, hi=5))
case("step_schedule", Trains(nn.Dense(4, 5), lambda p: nn.Momentum(p, nn.cosine_decay_lr(0.01, 0.1, 10, 5, 2), 0.9)), f(3, 4), FIVE)
case("step_exponential", Trains(nn.Dense(4, 5), lambda p: nn.Adam(p, nn.ExponentialDecayLR(0.1, 0.9, 4))), f(3, 4), FIVE)
case("step_groups", Trains(nn.Dense(4, 5), lambda p: nn.Momentum([{"params": p[:1], "lr": 0.1}, {"params": p[1:], "weight_decay": 0.01}], 0.05, 0.9)), f(3, 4), FIVE)
case("step_clip", Trains(nn.Dense(4, 5), lambda p: nn.SGD(p, 0.1)), f(3, 4), FIVE)


# ---- places of a pool's elements ----
case("place_pool", lambda x: ops.max_pool2d(x, 3, 2, 1, return_indices=True), IMG)
case("place_pool_ceil", lambda x: ops.max_pool2d(x, 3, 2, ceil_mode=True, return_indices=True), IMG)
case("place_pool_op", lambda x: P.MaxPoolWithArgmaxV2(2, 2)(x), IMG)
case("place_adaptive", lambda x: ops.adaptive_max_pool2d(x, (2, 3), return_indices=True), IMG)
case("place_adaptive_odd", lambda x: ops.adaptive_max_pool2d(x, (5, 3), return_indices=True), IMG)
case("place_unpool", lambda x: ops.max_unpool2d(*ops.max_pool2d(x, 2, 2, return_indices=True), 2, 2), IMG)
case("hist", lambda x: ops.histc(x, 5, -1.0, 1.0), f(20))
case("d_abs_max", lambda x: ms.grad(lambda a: ops.max(ops.abs(a), 1)[0].sum() + a.max())(x), X)
case("place_old", lambda x: P.MaxPoolWithArgmax(2, 2)(x), IMG)
case("place_old_same", lambda x: P.MaxPoolWithArgmax(3, 2, "same")(x), IMG)
