# SPDX-License-Identifier: Apache-2.0
"""The networks of the suite: CASES has, by name, a function that gives (module, inputs). Weights come from the seed that make.py sets;
sizes are small, for the forms of graphs are what is looked at."""
import torch
import torchvision
from torch import nn
from torchvision import models as tv

import operators

CASES = {}


def case(f):
    CASES[f.__name__] = f
    return f


def image(size=64, batch=1, channels=3):
    return (torch.randn(batch, channels, size, size),)


def ids(n=12, vocabulary=99, batch=2):
    return torch.randint(0, vocabulary, (batch, n))


# ---- torchvision ----

def vision(name, size=64, **more):
    CASES["tv_" + name] = lambda: (getattr(tv, name)(weights=None, **more), image(size))


for name in ("resnet18", "mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0", "squeezenet1_1", "shufflenet_v2_x0_5", "densenet121",
             "mnasnet0_5", "regnet_y_400mf", "regnet_x_400mf"):
    vision(name)
vision("googlenet", 96, aux_logits=False, init_weights=False)
vision("inception_v3", 96, aux_logits=False, init_weights=False)


@case
def tv_alexnet():
    return tv.alexnet(weights=None, num_classes=10), image(96)


@case
def tv_vit():
    return tv.VisionTransformer(image_size=64, patch_size=16, num_layers=3, num_heads=4, hidden_dim=64, mlp_dim=128), image()


@case
def tv_swin():
    return tv.SwinTransformer(patch_size=[4, 4], embed_dim=24, depths=[2, 2], num_heads=[2, 4], window_size=[4, 4]), image()


@case
def tv_swin_v2():
    from torchvision.models.swin_transformer import PatchMergingV2, SwinTransformerBlockV2
    return tv.SwinTransformer(patch_size=[4, 4], embed_dim=24, depths=[2, 2], num_heads=[2, 4], window_size=[4, 4],
                              block=SwinTransformerBlockV2, downsample_layer=PatchMergingV2), image()


@case
def tv_convnext():
    from torchvision.models.convnext import CNBlockConfig
    return tv.ConvNeXt([CNBlockConfig(24, 48, 2), CNBlockConfig(48, None, 2)]), image()


@case
def tv_maxvit():
    return tv.MaxVit(input_size=(64, 64), stem_channels=16, partition_size=4, block_channels=[16, 32], block_layers=[1, 1], head_dim=8,
                     stochastic_depth_prob=0.0), image()


class Out(nn.Module):
    """A segmentation network's tensor, not its dictionary."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net(x)["out"]


@case
def tv_fcn():
    return Out(tv.segmentation.fcn_resnet50(weights=None, weights_backbone=None, num_classes=5)), image()


@case
def tv_deeplab():
    return Out(tv.segmentation.deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=5)), image()


@case
def tv_lraspp():
    return Out(tv.segmentation.lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=5)), image()


@case
def tv_r3d():
    return tv.video.VideoResNet(tv.video.resnet.BasicBlock, [tv.video.resnet.Conv3DSimple] * 4, [1, 1, 1, 1],
                                tv.video.resnet.BasicStem, num_classes=10), (torch.randn(1, 3, 4, 32, 32),)


class Boxes(nn.Module):
    """What detection adds to a network: boxes by regression, the best of each class, features of regions."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)

    def forward(self, x, boxes, scores):
        keep = torchvision.ops.nms(boxes, scores, 0.5)
        rois = torch.cat([torch.zeros(boxes.shape[0], 1), boxes], 1)
        return keep, torchvision.ops.roi_align(self.conv(x), rois, (3, 3), 0.5, 2)


@case
def tv_boxes():
    at = torch.rand(20, 2) * 20
    return Boxes(), (*image(32), torch.cat([at, at + 2 + torch.rand(20, 2) * 12], 1), torch.rand(20))


@case
def tv_rpn():
    from torchvision.models.detection.rpn import RPNHead
    net = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU())

    class Rpn(nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.head = net, RPNHead(16, 3)

        def forward(self, x):
            logits, boxes = self.head([self.net(x)])
            return logits[0], boxes[0]
    return Rpn(), image(32)


# ---- layers of torch.nn ----

@case
def nn_encoder():
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2, enable_nested_tensor=False), (torch.randn(2, 7, 16),)


@case
def nn_encoder_gelu_first():
    layer = nn.TransformerEncoderLayer(16, 2, 32, activation="gelu", norm_first=True)
    return nn.TransformerEncoder(layer, 2, nn.LayerNorm(16), enable_nested_tensor=False), (torch.randn(7, 2, 16),)


@case
def nn_decoder():
    return nn.TransformerDecoder(nn.TransformerDecoderLayer(16, 4, 32), 2), (torch.randn(5, 2, 16), torch.randn(7, 2, 16))


@case
def nn_transformer():
    return nn.Transformer(16, 2, 1, 1, 32, batch_first=True), (torch.randn(2, 6, 16), torch.randn(2, 4, 16))


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)

    def forward(self, x, mask):
        y, w = self.attention(x, x, x, attn_mask=mask)
        return y, w


@case
def nn_attention_mask():
    return Masked(), (torch.randn(2, 5, 16), torch.triu(torch.full((5, 5), float("-inf")), 1))


class Last(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        y, h = self.net(x)
        return (y, *h) if isinstance(h, tuple) else (y, h)


@case
def nn_lstm():
    return Last(nn.LSTM(8, 12)), (torch.randn(5, 2, 8),)


@case
def nn_lstm_two_ways():
    return Last(nn.LSTM(8, 12, 2, batch_first=True, bidirectional=True)), (torch.randn(2, 5, 8),)


@case
def nn_lstm_projected():
    return Last(nn.LSTM(8, 12, proj_size=6)), (torch.randn(5, 2, 8),)


@case
def nn_gru():
    return Last(nn.GRU(8, 12, 2, bidirectional=True)), (torch.randn(5, 2, 8),)


@case
def nn_gru_plain():
    return Last(nn.GRU(8, 12, bias=False, batch_first=True)), (torch.randn(2, 5, 8),)


@case
def nn_rnn_relu():
    return Last(nn.RNN(8, 12, 2, nonlinearity="relu")), (torch.randn(5, 2, 8),)


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(8, 8)

    def forward(self, x):
        h = c = torch.zeros(x.shape[1], 8)
        out = []
        for t in range(x.shape[0]):
            h, c = self.cell(x[t], (h, c))
            out.append(h)
        return torch.stack(out)


@case
def nn_lstm_cell():
    return Cell(), (torch.randn(4, 2, 8),)


# ---- networks of tutorials ----

class UNet(nn.Module):
    def __init__(self, up):
        super().__init__()
        self.a, self.b, self.c = self.block(3, 8), self.block(8, 16), self.block(16 + 8 if up else 16, 8)
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True) if up else nn.ConvTranspose2d(16, 8, 2, 2)
        self.out = nn.Conv2d(8, 2, 1)

    @staticmethod
    def block(i, o):
        return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(), nn.Conv2d(o, o, 3, padding=1), nn.ReLU())

    def forward(self, x):
        a = self.a(x)
        b = self.b(nn.functional.max_pool2d(a, 2))
        return self.out(self.c(torch.cat([self.up(b), a], 1)))


@case
def own_unet():
    return UNet(False), image(32)


@case
def own_unet_bilinear():
    return UNet(True), image(32)


class Mixer(nn.Module):
    def __init__(self, n=16, d=24):
        super().__init__()
        self.patch = nn.Conv2d(3, d, 8, 8)
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.tokens = nn.Sequential(nn.Linear(n, 32), nn.GELU(), nn.Linear(32, n))
        self.channels = nn.Sequential(nn.Linear(d, 32), nn.GELU(), nn.Linear(32, d))
        self.head = nn.Linear(d, 10)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        x = x + self.channels(self.norm2(x))
        return self.head(x.mean(1))


@case
def own_mixer():
    return Mixer(), image(32)


class Gpt(nn.Module):
    def __init__(self, d=32, heads=4):
        super().__init__()
        self.token, self.place = nn.Embedding(99, d), nn.Embedding(32, d)
        self.norm, self.qkv, self.out = nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.GELU(approximate="tanh"), nn.Linear(4 * d, d))
        self.heads, self.head = heads, nn.Linear(d, 99, bias=False)
        self.head.weight = self.token.weight

    def forward(self, i):
        b, n = i.shape
        x = self.token(i) + self.place(torch.arange(n))
        q, k, v = self.qkv(self.norm(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, n, -1))
        return self.head(x + self.mlp(x))


@case
def own_gpt():
    return Gpt(), (ids(),)


class Masking(nn.Module):
    """A causal mask by masked_fill, as most tutorials have it."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16)
        self.register_buffer("mask", torch.tril(torch.ones(8, 8)))

    def forward(self, x):
        w = self.q(x) @ self.k(x).transpose(-2, -1) * 16 ** -0.5
        w = w.masked_fill(self.mask[:x.shape[1], :x.shape[1]] == 0, float("-inf"))
        return w.softmax(-1) @ self.v(x)


@case
def own_masked_fill():
    return Masking(), (torch.randn(2, 6, 16),)


class WaveNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv1d(8, 16, 2, dilation=2 ** i, padding=2 ** i) for i in range(4))
        self.first, self.skip = nn.Conv1d(1, 8, 1), nn.Conv1d(8, 4, 1)

    def forward(self, x):
        x, s = self.first(x), 0
        for c in self.convs:
            a, b = c(x)[..., :x.shape[-1]].chunk(2, 1)
            y = torch.tanh(a) * torch.sigmoid(b)
            x, s = x + y, s + self.skip(y)
        return s


@case
def own_wavenet():
    return WaveNet(), (torch.randn(2, 1, 40),)


@case
def own_super_resolution():
    return nn.Sequential(nn.Conv2d(1, 16, 5, padding=2), nn.Tanh(), nn.Conv2d(16, 9, 3, padding=1), nn.PixelShuffle(3)), image(16, channels=1)


@case
def own_dcgan():
    return nn.Sequential(nn.ConvTranspose2d(16, 24, 4, bias=False), nn.BatchNorm2d(24), nn.ReLU(), nn.ConvTranspose2d(24, 12, 4, 2, 1, bias=False),
                         nn.BatchNorm2d(12), nn.LeakyReLU(0.2), nn.ConvTranspose2d(12, 3, 3, 2, 1, 1), nn.Tanh()), (torch.randn(2, 16, 1, 1),)


@case
def own_norms():
    return nn.Sequential(nn.Conv2d(3, 12, 3), nn.GroupNorm(3, 12), nn.SiLU(), nn.Conv2d(12, 12, 3, groups=4), nn.InstanceNorm2d(12, affine=True), nn.Mish(),
                         nn.AdaptiveAvgPool2d((3, 5)), nn.PReLU(12), nn.Flatten(), nn.Linear(180, 7), nn.Hardswish(), nn.Softmax(-1)), image(20)


class Vae(nn.Module):
    def __init__(self):
        super().__init__()
        self.into, self.mean, self.spread, self.back = nn.Linear(20, 16), nn.Linear(16, 4), nn.Linear(16, 4), nn.Linear(4, 20)

    def forward(self, x, noise):
        h = torch.relu(self.into(x))
        m, s = self.mean(h), self.spread(h)
        return torch.sigmoid(self.back(m + noise * torch.exp(0.5 * s))), -0.5 * (1 + s - m ** 2 - s.exp()).sum(-1).mean()


@case
def own_vae():
    return Vae(), (torch.randn(3, 20), torch.randn(3, 4))


class Capsules(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(6, 4, 8, 5) * 0.3)

    def forward(self, x):
        u = torch.einsum("bic,iocd->biod", x, self.w)
        b = torch.zeros(u.shape[:3])
        for _ in range(3):
            s = torch.einsum("bio,biod->bod", b.softmax(2), u)
            n = (s ** 2).sum(-1, keepdim=True)
            v = n / (1 + n) * s / torch.sqrt(n + 1e-8)
            b = b + torch.einsum("biod,bod->bio", u, v)
        return v.norm(dim=-1)


@case
def own_capsules():
    return Capsules(), (torch.randn(2, 6, 8),)


class Graph(nn.Module):
    """Two layers of graph convolution over edges: gather, scatter."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x, edges):
        for layer in (self.a, self.b):
            y = layer(x)
            x = torch.relu(torch.zeros_like(y).index_add(0, edges[1], y[edges[0]]))
        return x.log_softmax(-1)


@case
def own_graph():
    return Graph(), (torch.randn(7, 6), torch.randint(0, 7, (2, 15)))


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag, self.head = nn.EmbeddingBag(50, 8, mode="mean"), nn.Linear(8, 4)

    def forward(self, i):
        return self.head(self.bag(i))


@case
def own_embedding_bag():
    return Bag(), (ids(6, 50, 3),)


class Rotary(nn.Module):
    def __init__(self, n=6, d=8):
        super().__init__()
        t = torch.outer(torch.arange(n).float(), 10000 ** (-torch.arange(0, d, 2) / d))
        self.register_buffer("cos", t.cos())
        self.register_buffer("sin", t.sin())
        self.norm = nn.RMSNorm(d)

    def forward(self, x):
        a, b = self.norm(x)[..., ::2], x[..., 1::2]
        return torch.stack([a * self.cos - b * self.sin, a * self.sin + b * self.cos], -1).flatten(-2)


@case
def own_rotary():
    return Rotary(), (torch.randn(2, 3, 6, 8),)


class Mixture(nn.Module):
    """Experts weighed by the two best gates."""

    def __init__(self):
        super().__init__()
        self.gate, self.w = nn.Linear(8, 4), nn.Parameter(torch.randn(4, 8, 8))

    def forward(self, x):
        v, i = self.gate(x).topk(2, -1)
        w = torch.zeros(x.shape[0], 4).scatter(1, i, v.softmax(-1))
        return torch.einsum("be,bed->bd", w, torch.einsum("bc,ecd->bed", x, self.w))


@case
def own_mixture():
    return Mixture(), (torch.randn(5, 8),)


# ---- timm ----

def of_timm(name, size=64, **more):
    def make():
        import timm
        return timm.create_model(name, pretrained=False, **more), image(size)
    CASES["timm_" + name] = make


for name in ("resnet10t", "mobileone_s0", "repvgg_a0", "ghostnet_050", "tinynet_e", "edgenext_xx_small", "mobilevit_xxs", "mobilevitv2_050",
             "poolformerv2_s12", "fastvit_t8", "skresnet18", "lcnet_050", "dla46x_c", "res2net50d"):
    of_timm(name)
for name in ("vit_tiny_patch16_224", "gmlp_s16_224", "resmlp_12_224", "xcit_nano_12_p16_224", "gcvit_xxtiny", "pit_ti_224", "coat_lite_tiny"):
    of_timm(name, 64 if name != "gcvit_xxtiny" else 224, **({} if name in ("xcit_nano_12_p16_224", "gcvit_xxtiny") else {"img_size": 64}))
of_timm("levit_128s", 224)
of_timm("efficientformerv2_s0", 224)
of_timm("halonet26t", 128)


# ---- transformers ----

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 99}


class Hidden(nn.Module):
    """The first of what a model gives, which has no cache."""

    def __init__(self, net, **more):
        super().__init__()
        self.net, self.more = net, more

    def forward(self, *x):
        return self.net(*x, **self.more, return_dict=False)[0]


def of_transformers(name, config, inputs=None, use_cache=None, **sizes):
    def make():
        import transformers as t
        c = getattr(t, config)(**sizes)
        c._attn_implementation = "sdpa" if name not in ("T5EncoderModel", "DebertaV2Model") else "eager"
        return Hidden(getattr(t, name)(c), **({} if use_cache is None else {"use_cache": use_cache})), inputs() if inputs else (ids(),)
    CASES["hf_" + name] = make


of_transformers("BertModel", "BertConfig", **SMALL)
of_transformers("RobertaModel", "RobertaConfig", **SMALL)
of_transformers("ElectraModel", "ElectraConfig", embedding_size=16, **SMALL)
of_transformers("AlbertModel", "AlbertConfig", embedding_size=16, **SMALL)
of_transformers("DistilBertModel", "DistilBertConfig", dim=32, n_layers=2, n_heads=4, hidden_dim=64, vocab_size=99)
of_transformers("GPT2Model", "GPT2Config", n_embd=32, n_layer=2, n_head=4, vocab_size=99, n_positions=32, use_cache=False)
of_transformers("LlamaModel", "LlamaConfig", num_key_value_heads=2, use_cache=False, **SMALL)
of_transformers("Qwen2Model", "Qwen2Config", num_key_value_heads=2, use_cache=False, **SMALL)
of_transformers("T5EncoderModel", "T5Config", d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, vocab_size=99)
of_transformers("ViTModel", "ViTConfig", lambda: image(32), image_size=32, patch_size=8, **{k: v for k, v in SMALL.items() if k != "vocab_size"})
of_transformers("Wav2Vec2Model", "Wav2Vec2Config", lambda: (torch.randn(1, 2000),), conv_dim=(16, 16, 16), conv_kernel=(10, 3, 3), conv_stride=(5, 2, 2),
                num_feat_extract_layers=3, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4, **SMALL)


# ---- single operators: how pnnx writes them ----

class Apply(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, *x):
        return self.f(*x)


def op(name, f, *shapes, positive=False):
    """A shape is a tensor of normal numbers, or of positive ones; a tensor is itself."""
    def make():
        inputs = tuple(s if torch.is_tensor(s) else torch.rand(s) + 0.1 if positive else torch.randn(s) for s in shapes)
        return Apply(f), inputs
    CASES["op_" + name] = make


F = nn.functional
WHOLE = torch.tensor([[2, 0, 1, 1], [0, 0, 3, 1], [4, 2, 2, 0]])
MASK = torch.tensor([[True, False, True, True], [False, False, True, False], [True, True, False, False]])
op("masked_fill", lambda x, m: x.masked_fill(m, -1.0), (3, 4), MASK)
op("einsum", lambda a, b: torch.einsum("bij,bjk->bik", a, b), (2, 3, 4), (2, 4, 5))
op("einsum_three", lambda a, b, c: torch.einsum("i,ij,j->", a, b, c), (3,), (3, 4), (4,))
op("cat_empty", lambda x: torch.cat([x, torch.zeros(0, 4)]), (3, 4))
op("unfold", lambda x: x.unfold(1, 3, 2), (2, 9))
op("cdist", lambda a, b: torch.cdist(a, b), (5, 3), (4, 3))
op("cdist_one", lambda a, b: torch.cdist(a, b, p=1.0), (2, 5, 3), (2, 4, 3))
op("diagonal", lambda x: torch.diagonal(x, 1), (4, 5))
op("diagonal_dims", lambda x: torch.diagonal(x, 0, 1, 2), (2, 4, 4))
op("take_along_dim", lambda x, i: torch.take_along_dim(x, i, 1), (3, 5), WHOLE)
op("take", torch.take, (3, 5), WHOLE)
op("tensordot", lambda a, b: torch.tensordot(a, b, dims=([1], [0])), (3, 4), (4, 5))
op("var_mean", lambda x: torch.var_mean(x, dim=1), (3, 5))
op("std_mean", lambda x: torch.std_mean(x, dim=(0, 1), keepdim=True), (3, 5))
op("xlogy", torch.xlogy, (3, 4), (3, 4), positive=True)
op("digamma", torch.digamma, (3, 4), positive=True)
op("erfinv", lambda x: torch.erfinv(x / 4), (3, 4), positive=True)
op("special", lambda x: torch.special.expit(x) + torch.special.entr(x) + torch.special.log1p(x), (3, 4), positive=True)
op("i0", torch.i0, (3, 4))
op("logit", lambda x: torch.logit(x / 2), (3, 4), positive=True)
op("sinc", torch.sinc, (3, 4))
op("median", lambda x: torch.median(x, dim=1), (3, 5))
op("logcumsumexp", lambda x: torch.logcumsumexp(x, 1), (3, 5))
op("logcumsumexp_far", lambda x: torch.logcumsumexp(x * 1000, 0), (7, 5))
op("i0_far", lambda x: torch.i0(x * 20), (3, 40))
op("erfinv_far", lambda x: torch.erfinv(torch.erf(x)), (3, 40))
op("cummax", lambda x: torch.cummax(x, 1), (3, 5))
op("cumprod", lambda x: torch.cumprod(x, 1), (3, 5))
op("index_fill", lambda x: x.index_fill(1, torch.tensor([0, 2]), 3.0), (3, 4))
op("index_copy", lambda x, y: x.index_copy(0, torch.tensor([2, 0]), y), (3, 4), (2, 4))
op("bucketize", lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])), (3, 4))
op("kron", torch.kron, (2, 3), (3, 2))
op("cross", lambda a, b: torch.linalg.cross(a, b), (4, 3), (4, 3))
op("vander", lambda x: torch.vander(x, 4), (3,))
op("renorm", lambda x: F.normalize(x, dim=1), (3, 4))
op("roll", lambda x: torch.roll(x, (1, -2), (0, 1)), (3, 4))
op("rot90", lambda x: torch.rot90(x, 1, (0, 1)), (3, 4))
op("flip", lambda x: torch.flip(x, (0, 1)), (3, 4))
op("repeat_interleave", lambda x: torch.repeat_interleave(x, 2, 1), (3, 4))
op("movedim", lambda x: torch.movedim(x, 0, 2), (2, 3, 4))
op("meshgrid", lambda a, b: torch.meshgrid(a, b, indexing="ij"), (3,), (4,))
op("meshgrid_plain", torch.meshgrid, (3,), (4,))
op("unsafe_chunk", lambda x: torch.unsafe_chunk(x, 3, 1), (2, 7))
op("mse", lambda a, b: F.mse_loss(a, b), (3, 4), (3, 4))
op("huber", lambda a, b: F.huber_loss(a, b, delta=0.5), (3, 4), (3, 4))
op("kl", lambda a, b: F.kl_div(a.log_softmax(1), b.softmax(1), reduction="batchmean"), (3, 4), (3, 4))
op("cosine_embedding", lambda a, b: F.cosine_similarity(a, b), (3, 4), (3, 4))
op("cross_entropy", lambda a: F.cross_entropy(a, torch.tensor([0, 3, 1]), label_smoothing=0.1), (3, 4))
op("bce", lambda a, b: F.binary_cross_entropy_with_logits(a, b), (3, 4), (3, 4))
op("triplet", lambda a, b, c: F.triplet_margin_loss(a, b, c), (3, 4), (3, 4), (3, 4))
op("ctc", lambda x: F.ctc_loss(x.log_softmax(2), torch.tensor([[1, 2], [2, 2]]), torch.tensor([6, 6]), torch.tensor([2, 2])), (6, 2, 4))
op("embedding_bag", lambda w: F.embedding_bag(torch.tensor([[0, 2], [1, 1]]), w, mode="sum"), (4, 3))
op("as_strided", lambda x: torch.as_strided(x, (2, 3), (1, 2)), (10,))
op("stft", lambda x: torch.view_as_real(torch.stft(x, 8, 4, window=torch.hann_window(8), return_complex=True)), (2, 32))
op("rfft", lambda x: torch.view_as_real(torch.fft.rfft(x)), (2, 8))
op("polar", lambda a, b: torch.view_as_real(torch.polar(a, b)), (3, 4), (3, 4), positive=True)
op("numel", lambda x: x / x.numel(), (3, 4))
op("fold", lambda x: F.fold(x, (4, 5), (2, 2)), (1, 12, 12))
op("pixel_unshuffle", lambda x: F.pixel_unshuffle(x, 2), (1, 2, 4, 6))
op("grid_sample", lambda x, g: F.grid_sample(x, g.clamp(-1, 1), align_corners=False), (1, 2, 5, 5), (1, 3, 3, 2))
op("nanmean", lambda x: torch.nanmean(x, 1), (3, 4))
op("logaddexp2", torch.logaddexp2, (3, 4), (3, 4))
op("lerp", lambda a, b: torch.lerp(a, b, 0.3), (3, 4), (3, 4))
op("baddbmm", lambda a, b, c: torch.baddbmm(a, b, c, beta=0.5, alpha=2.0), (2, 3, 5), (2, 3, 4), (2, 4, 5))
op("tril_mask", lambda x: x.masked_fill(torch.ones(4, 4).triu(1).bool(), float("-inf")).softmax(-1), (2, 4, 4))
op("where_scalar", lambda x: torch.where(x > 0, x, 0.1 * x), (3, 4))
op("softmax_dtype", lambda x: F.softmax(x, -1, dtype=torch.float64), (3, 4))
op("gather", lambda x, i: torch.gather(x, 1, i), (3, 5), WHOLE)
op("scatter_add", lambda x, i: torch.zeros(3, 5).scatter_add(1, i, x), (3, 4), WHOLE)
op("index_put", lambda x, v: x.index_put((torch.tensor([0, 2]),), v), (3, 4), (2, 4))
op("slice_assign", lambda x: torch.cat([x[:, :1] * 0, x[:, 1:]], 1), (3, 4))
op("amp_clamp", lambda x: x.clamp(min=-0.5, max=0.5).sign() * x.abs().pow(1.5), (3, 4))
op("addmv", lambda a, b, c: torch.addmv(a, b, c), (3,), (3, 4), (4,))
op("norm_p", lambda x: torch.linalg.vector_norm(x, 3, dim=1), (3, 4))
op("count_nonzero", lambda x: torch.count_nonzero(x > 0, dim=1), (3, 4))
op("unbind_stack", lambda x: torch.stack(torch.unbind(x, 1)[::-1], 1), (3, 4))
op("hstack", lambda a, b: torch.hstack([a, b]), (3, 4), (3, 2))
op("tile", lambda x: torch.tile(x, (2, 3)), (3, 4))
op("mish_softshrink", lambda x: F.mish(x) + F.softshrink(x) + F.hardtanh(x), (3, 4))
operators.add(op)
