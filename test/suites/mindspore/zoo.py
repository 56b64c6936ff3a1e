# SPDX-License-Identifier: Apache-2.0
"""Networks in the manner of MindSpore's model zoo, read after the cases of programs.py: make.py saves the gradients of their parameters, too, and
run.py trains them."""
from programs import *  # noqa: F403


def zoo(name, net, *inputs):
    case("zoo_" + name, net, *inputs)


class LeNet5(nn.Cell):
    def __init__(self, classes=10, channels=1, include_top=True):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 6, 5, pad_mode="same", has_bias=True)
        self.conv2 = nn.Conv2d(6, 16, 5, pad_mode="valid", has_bias=True)
        self.pool = nn.AvgPool2d(kernel_size=2, stride=2)
        self.include_top = include_top
        if include_top:
            self.flatten = nn.Flatten()
            self.fc1 = nn.Dense(16, 24)
            self.fc2 = nn.Dense(24, classes)

    def construct(self, x):
        x = self.pool(ops.tanh(self.conv1(x)))
        x = self.pool(ops.tanh(self.conv2(x)))
        if not self.include_top:
            return x
        return self.fc2(ops.tanh(self.fc1(self.flatten(x))))


class ResidualBlock(nn.Cell):
    """A bottleneck with a projection; batch normalisation with its running averages, as in inference."""

    def __init__(self, channels, out, stride=1):
        super().__init__()
        mid = out // 4
        self.conv1, self.bn1 = nn.Conv2d(channels, mid, 1), nn.BatchNorm2d(mid, eps=1e-4, momentum=0.9)
        self.conv2, self.bn2 = nn.Conv2d(mid, mid, 3, stride=stride, pad_mode="pad", padding=1), nn.BatchNorm2d(mid)
        self.conv3, self.bn3 = nn.Conv2d(mid, out, 1), nn.BatchNorm2d(out, gamma_init=0.5)
        self.down = None
        if stride != 1 or channels != out:
            self.down = nn.SequentialCell([nn.Conv2d(channels, out, 1, stride=stride), nn.BatchNorm2d(out)])
        self.relu, self.add = nn.ReLU(), ops.Add()

    def construct(self, x):
        identity = x
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        if self.down is not None:
            identity = self.down(x)
        return self.relu(self.add(y, identity))


class ResNet(nn.Cell):
    def __init__(self, classes=4):
        super().__init__()
        self.stem, self.pool = nn.Conv2d(3, 8, 3, stride=2, weight_init="HeUniform"), nn.MaxPool2d(3, 2, pad_mode="same")
        self.layers = nn.SequentialCell([ResidualBlock(8, 16), ResidualBlock(16, 16), ResidualBlock(16, 16, 2)])
        self.mean, self.head = ops.ReduceMean(keep_dims=True), nn.Dense(16, classes)

    def construct(self, x):
        x = self.layers(self.pool(ops.relu(self.stem(x))))
        return self.head(ops.flatten(self.mean(x, (2, 3))))


class Sentiment(nn.Cell):
    """Two layers of LSTM in both directions, with their states given."""

    def __init__(self, words=13, d=5, h=4):
        super().__init__()
        self.embedding = nn.Embedding(words, d, padding_idx=0)
        self.encoder = nn.LSTM(d, h, num_layers=2, has_bias=True, bidirectional=True, dropout=0.0)
        self.decoder = nn.Dense(4 * h, 2)
        self.zero = Tensor(np.zeros((4, 3, h), np.float32))

    def construct(self, ids):
        x = self.embedding(ids).transpose(1, 0, 2)
        y, (last, _) = self.encoder(x, (self.zero, self.zero))
        return self.decoder(ops.concat((y[0], last[-1] + y[-1][:, :4], y[-1][:, 4:]), 1))


class Encoder(nn.Cell):
    """A transformer encoder from its parts: heads by reshape and transpose, a mask, sinusoidal places."""

    def __init__(self, d=8, heads=2, layers=2):
        super().__init__()
        self.heads, self.d = heads, d
        at = np.arange(5)[:, None] / 100 ** (np.arange(d)[None] // 2 * 2 / d)
        self.places = Tensor(np.where(np.arange(d) % 2, np.cos(at), np.sin(at)).astype(np.float32))
        self.qkv = nn.CellList([nn.Dense(d, 3 * d) for _ in range(layers)])
        self.proj = nn.CellList([nn.Dense(d, d) for _ in range(layers)])
        self.mlp = nn.CellList([nn.SequentialCell(nn.Dense(d, 2 * d), nn.GELU(approximate=False), nn.Dense(2 * d, d)) for _ in range(layers)])
        self.norm1 = nn.CellList([nn.LayerNorm((d,)) for _ in range(layers)])
        self.norm2 = nn.CellList([nn.LayerNorm((d,), epsilon=1e-6) for _ in range(layers)])
        self.softmax, self.batch_matmul = nn.Softmax(axis=-1), ops.BatchMatMul(transpose_b=True)

    def attend(self, x, mask, k):
        b, n, _ = x.shape
        q, key, v = ops.split(self.qkv[k](x), self.d, axis=-1)
        q, key, v = [t.reshape(b, n, self.heads, -1).transpose(0, 2, 1, 3) for t in (q, key, v)]
        score = self.batch_matmul(q, key) / ops.sqrt(ops.scalar_to_tensor(self.d / self.heads)) + (1.0 - mask) * -10000.0
        return self.proj[k](ops.matmul(self.softmax(score), v).transpose(0, 2, 1, 3).reshape(b, n, -1))

    def construct(self, x, mask):
        x = x + self.places
        mask = mask.expand_dims(1).expand_dims(1)
        for k in range(len(self.qkv)):
            x = x + self.attend(self.norm1[k](x), mask, k)
            x = x + self.mlp[k](self.norm2[k](x))
        return x.mean(axis=1)


class Forecast(nn.Cell):
    """A GRU written out, in a loop over time that the graph keeps."""

    def __init__(self, d=3, h=4):
        super().__init__()
        self.gates, self.new = nn.Dense(d + h, 2 * h), nn.Dense(d + h, h)
        self.out, self.h = nn.Dense(h, 2, activation="sigmoid"), h

    def construct(self, xs):
        h = ops.zeros((xs.shape[1], self.h), ms.float32)
        t = Tensor(0, ms.int32)
        while t < xs.shape[0]:
            x = ops.gather(xs, t, 0)
            r, z = ops.chunk(ops.sigmoid(self.gates(ops.cat((x, h), 1))), 2, 1)
            n = ops.tanh(self.new(ops.cat((x, r * h), 1)))
            h = (1 - z) * n + z * h
            t = t + 1
        return self.out(h)


class Mixer(nn.Cell):
    def __init__(self, patches=4, d=6, layers=2):
        super().__init__()
        self.patch = nn.Conv2d(3, d, 4, stride=4, pad_mode="valid", has_bias=True)
        self.tokens = nn.CellList([self.mlp(patches, 8) for _ in range(layers)])
        self.channels = nn.CellList([self.mlp(d, 10) for _ in range(layers)])
        self.norms = nn.CellList([nn.LayerNorm([d]) for _ in range(2 * layers + 1)])
        self.head = nn.Dense(d, 3, has_bias=False)

    def mlp(self, n, hidden):
        return nn.SequentialCell([nn.Dense(n, hidden), nn.GELU(), nn.Dropout(p=0.1), nn.Dense(hidden, n)])

    def construct(self, x):
        x = self.patch(x)
        b, c, h, w = x.shape
        x = ops.transpose(ops.reshape(x, (b, c, h * w)), (0, 2, 1))
        k = 0
        for token, channel in zip(self.tokens, self.channels):
            x = x + token(self.norms[k](x).swapaxes(1, 2)).swapaxes(1, 2)
            x = x + channel(self.norms[k + 1](x))
            k = k + 2
        return self.head(ops.mean(self.norms[k](x), 1))


class Unet2(nn.Cell):
    """Two levels down and up, with bilinear sizes, padding and group normalisation."""

    def __init__(self):
        super().__init__()
        self.c1, self.c2, self.c3 = self.block(3, 4), self.block(4, 8), self.block(8, 8)
        self.u2, self.u1, self.out = self.block(16, 4), self.block(8, 4), nn.Conv2d(4, 1, 1, has_bias=True)
        self.pool, self.up = nn.MaxPool2d(2, 2), nn.Conv2dTranspose(8, 8, 2, 2, pad_mode="valid")

    def block(self, a, b):
        return nn.SequentialCell(nn.Conv2d(a, b, 3, has_bias=True), nn.GroupNorm(2, b), nn.LeakyReLU(0.1))

    def construct(self, x):
        a = self.c1(x)
        b = self.c2(self.pool(a))
        c = self.c3(self.pool(b))
        y = self.u2(ops.cat([b, self.up(c)], axis=1))
        y = ops.interpolate(y, size=(8, 8), mode="bilinear", align_corners=True)
        return ops.sigmoid(self.out(self.u1(ops.cat([a, y], axis=1))))


class ConvVae(nn.Cell):
    def __init__(self, latent=3):
        super().__init__()
        self.enc = nn.SequentialCell(nn.Conv2d(1, 4, 4, 2, "pad", 1), nn.ReLU(), nn.Conv2d(4, 8, 4, 2, "pad", 1), nn.ReLU(), nn.Flatten())
        self.mu, self.logvar, self.fc = nn.Dense(32, latent), nn.Dense(32, latent), nn.Dense(latent, 32)
        self.dec = nn.SequentialCell(nn.Conv2dTranspose(8, 4, 4, 2, "pad", 1), nn.ReLU(), nn.Conv2dTranspose(4, 1, 4, 2, "pad", 1), nn.Sigmoid())

    def encode(self, x):
        h = self.enc(x)
        return {"mu": self.mu(h), "logvar": ops.clamp(self.logvar(h), -3.0, 3.0)}

    def construct(self, x, noise):
        z = self.encode(x)
        std = ops.exp(z["logvar"] * 0.5)
        y = self.dec(self.fc(z["mu"] + std * noise).reshape((-1, 8, 2, 2)))
        kl = -0.5 * ops.reduce_sum(1 + z["logvar"] - ops.square(z["mu"]) - ops.exp(z["logvar"]), 1)
        return ops.binary_cross_entropy(y, x, reduction="none").sum((1, 2, 3)) + kl


class Generator(nn.Cell):
    """Of DCGAN: transposed convolutions with batch normalisation, in training."""

    def __init__(self, z=4, g=4):
        super().__init__()
        self.net = nn.SequentialCell()
        self.net.append(nn.Conv2dTranspose(z, g * 2, 4, 1, "valid"))
        self.net.append(nn.BatchNorm2d(g * 2, use_batch_statistics=True))
        self.net.append(nn.ReLU())
        self.net.append(nn.Conv2dTranspose(g * 2, g, 4, 2, "pad", 1))
        self.net.append(nn.BatchNorm2d(g, use_batch_statistics=True))
        self.net.append(nn.ReLU())
        self.net.append(nn.Conv2dTranspose(g, 1, 3, 2, "same"))
        self.net.append(nn.Tanh())

    def construct(self, z):
        return self.net(z.view(z.shape[0], -1, 1, 1))


class GraphConv(nn.Cell):
    """Messages along edges that are summed by their targets; attention over neighbours by segments."""

    def __init__(self, nodes=6, d=4, out=3):
        super().__init__()
        self.n, self.w1, self.w2 = nodes, nn.Dense(d, 5, has_bias=False), nn.Dense(5, out)
        self.a, self.leaky = nn.Dense(10, 1), nn.LeakyReLU(0.2)

    def spread(self, x, src, dst):
        return ops.tensor_scatter_elements(ops.zeros((self.n, x.shape[1]), x.dtype), dst.expand_dims(1).broadcast_to(x.shape), x, 0, "add")

    def construct(self, x, src, dst):
        h = self.w1(x)
        pair = ops.concat((ops.gather(h, src, 0), ops.gather(h, dst, 0)), axis=1)
        e = ops.exp(self.leaky(self.a(pair)))
        total = ops.unsorted_segment_sum(e, dst, self.n) + 1e-9
        h = ops.elu(self.spread(h[src] * e / total[dst], src, dst) + h)
        return ops.log_softmax(self.w2(h), axis=-1)


class Adaptive(nn.Cell):
    """Pondering: a block runs until a sum passes a bound that data decide; another one is chosen by it."""

    def __init__(self, d=4):
        super().__init__()
        self.step, self.halt, self.left, self.right = nn.Dense(d, d), nn.Dense(d, 1), nn.Dense(d, 2), nn.Dense(d, 2)

    def construct(self, x):
        total, n, h = ops.zeros((), ms.float32), Tensor(0, ms.int32), x
        while total < 1.5 and n < 6:
            h = ops.tanh(self.step(h)) + x * 0.1
            p = ops.sigmoid(self.halt(h)).mean()
            if p > 0.7:
                h = h * 0.5
            total = total + p
            n = n + 1
        if h.sum() > 0:
            y = self.left(h)
        elif n > 2:
            y = self.right(h) * n
        else:
            y = self.left(h) + self.right(h)
        return y * total


def powers(n):
    def inner(x):
        y = x
        for _ in range(n - 1):
            y = y * x
        return y
    return inner


def composed(*fs):
    def inner(x):
        for fn in fs:
            x = fn(x)
        return x
    return inner


class Nested(nn.Cell):
    """Cells in cells and functions that functions give; dicts and lists on the way."""

    def __init__(self, d=4):
        super().__init__()
        self.towers = nn.CellList([nn.SequentialCell(nn.Dense(d, d), nn.CellList([nn.Tanh(), nn.Dense(d, d)])[k]) for k in range(2)])
        self.scale, self.mix = Parameter(f(d), name="scale"), ops.HyperMap()

    def gate(self, name, bias):
        def apply(x, c=0.5):
            s = {"soft": ops.sigmoid(x * self.scale + bias), "hard": ops.clamp(x * c, -1.0, 1.0)}
            return s[name]
        return apply

    def construct(self, x, y):
        parts = [self.towers[0](x), self.towers[1](y)]
        parts.append(composed(powers(3), self.gate("soft", y), self.gate("hard", 0.0))(parts[0]))
        named = {"sum": parts[0] + parts[1], "all": parts[1:]}
        a, (b, c) = named["sum"], named["all"]
        mixed = self.mix(lambda u, v: u * v, (a, [b]), (b, [c]))
        return ops.stack((mixed[0], mixed[1][0], c), 1).sum(1)


zoo("lenet5", LeNet5(), f(2, 1, 12, 12))
zoo("resnet", ResNet().set_train(False), f(2, 3, 16, 16))
zoo("lstm", Sentiment(), i(3, 5, hi=13))
zoo("encoder", Encoder(), f(2, 5, 8), Tensor(np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.float32)))
zoo("gru", Forecast(), f(4, 2, 3))
zoo("mixer", Mixer().set_train(False), f(2, 3, 8, 8))
zoo("unet", Unet2(), f(2, 3, 8, 8))
zoo("vae", ConvVae(), f(2, 1, 8, 8, lo=0, hi=1), f(2, 3))
zoo("generator", Generator(), f(3, 4))
zoo("graph", GraphConv(), f(6, 4), Tensor(np.array([0, 1, 2, 3, 4, 5, 0, 2], np.int32)), Tensor(np.array([1, 2, 0, 4, 3, 5, 3, 5], np.int32)))
zoo("adaptive", Adaptive(), f(2, 4))
zoo("nested", Nested(), f(3, 4), f(3, 4))
