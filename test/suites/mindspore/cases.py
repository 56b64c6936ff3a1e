# SPDX-License-Identifier: Apache-2.0
"""Operations, networks, gradients and training steps of MindSpore: case(NAME, function or cell, inputs..). MindSpore reads the source of
what it compiles, and takes one function a line: make.py writes each lambda here as a function of its own, and a line after
`# each: WORDS` once for each word, in place of NAME."""
import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, mint, nn, ops
from mindspore.ops import operations as P

RNG = np.random.default_rng(1)
CASES = {}


def f(*shape, lo=-2.0, hi=2.0):
    return Tensor(RNG.uniform(lo, hi, shape).astype(np.float32))


def pos(*shape):
    return f(*shape, lo=0.1, hi=3.0)


def unit(*shape):
    return f(*shape, lo=-0.95, hi=0.95)


def i(*shape, lo=0, hi=4, t=np.int32):
    return Tensor(RNG.integers(lo, hi, shape).astype(t))


def b(*shape):
    return Tensor(RNG.integers(0, 2, shape).astype(bool))


class Op(nn.Cell):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def construct(self, *xs):
        return self.fn(*xs)


def case(name, what, *inputs):
    assert name not in CASES, name
    CASES[name] = (what if isinstance(what, nn.Cell) else Op(what), inputs)


def many(prefix, inputs, **functions):
    for name, fn in functions.items():
        case(prefix + name, fn, *inputs)


# ---- elementwise ----
X, Y = f(3, 5), f(3, 5)
for name in ("abs neg sin cos tan atan sinh tanh asinh exp expm1 erf erfc sigmoid relu relu6 elu selu celu hardswish hardsigmoid hardshrink "
             "softshrink mish softsign gelu silu leaky_relu softplus logsigmoid floor ceil round trunc sign square rint isnan isfinite isinf "
             "ones_like zeros_like frac hardtanh reciprocal exp2 sinc tanhshrink cosh").split():
    fn = getattr(ops, name, None) or getattr(mint, name, None)
    if fn:
        case("un_" + name, fn, X)
for name in "sqrt rsqrt log log2 log10 log1p lgamma digamma".split():
    case("pos_" + name, getattr(ops, name), pos(3, 5))
for name in "asin acos atanh erfinv".split():
    case("unit_" + name, getattr(ops, name), unit(3, 5))
case("un_acosh", ops.acosh, f(3, 5, lo=1.1, hi=4.0))
for name in ("add sub mul div maximum minimum atan2 fmod remainder equal not_equal less less_equal greater greater_equal squared_difference "
             "floor_div floor_mod true_divide trunc_div trunc_mod hypot logaddexp logaddexp2 xdivy").split():
    fn = getattr(ops, name, None)
    if fn:
        case("bin_" + name, fn, X, Y)
case("bin_pow", ops.pow, pos(3, 5), f(3, 5))
case("bin_xlogy", ops.xlogy, X, pos(3, 5))
case("bin_div_no_nan", lambda a, c: P.DivNoNan()(a, c), X, Tensor(np.array([[0, 1, 2, 0, 3]] * 3, np.float32)))
case("bin_broadcast", lambda a, c: a + c * 2 - 1, f(3, 1, 5), f(4, 1))
for name in "bitwise_and bitwise_or bitwise_xor".split():
    case("bit_" + name, getattr(ops, name), i(3, 4, hi=100), i(3, 4, hi=100))
for name in "logical_and logical_or logical_xor".split():
    case("bool_" + name, getattr(ops, name), b(3, 4), b(3, 4))
case("bool_not", ops.logical_not, b(3, 4))
case("int_arith", lambda a, c: (a + c, a * c, a - c, a // c, a % c), i(3, 4, lo=-9, hi=9), i(3, 4, lo=1, hi=5))
case("scalars", lambda a: (a + 1, a * 2.5, 1 - a, 3 / a, a ** 2, a > 0.5, -a, a // 2, a % 3), pos(2, 3))
case("clip", lambda a: ops.clamp(a, -0.5, 0.7), X)
case("clip_tensor", lambda a, lo, hi: ops.clamp(a, lo, hi), X, f(3, 5, lo=-1, hi=0), f(3, 5, lo=0, hi=1))
case("where", ops.where, b(3, 5), X, Y)
case("select", ops.select, b(3, 5), X, Y)
case("masked_fill", lambda x, m: ops.masked_fill(x, m, -1e9), X, b(3, 5))
case("lerp", lambda a, c: ops.lerp(a, c, 0.3), X, Y)
case("addcmul", lambda a, c, d: ops.addcmul(a, c, d, 0.5), X, Y, f(3, 5))
case("addcdiv", lambda a, c, d: ops.addcdiv(a, c, d, 0.5), X, Y, pos(3, 5))
case("cast", lambda a: (a.astype(ms.int32), a.astype(ms.float16), a.astype(ms.float64), a.astype(ms.bool_)), X)
case("threshold", lambda a: ops.threshold(a, 0.3, 7.0), X)
case("nan_to_num", lambda a: ops.nan_to_num(a, 1.0, 2.0, 3.0), Tensor(np.array([np.nan, np.inf, -np.inf, 1], np.float32)))
case("heaviside", ops.heaviside, X, Y)
case("deg2rad", lambda a: (ops.deg2rad(a), ops.rad2deg(a)), X)
case("isclose", lambda a, c: ops.isclose(a, c), X, X)
case("prelu", ops.prelu, f(2, 3, 4, 4), f(3))
case("glu", lambda a: ops.glu(a), f(3, 6))
case("cummax", lambda a: ops.cummax(a, 1), X)
case("cummin", lambda a: ops.cummin(a, 1), X)
# ---- reductions ----
Z = f(2, 3, 4)
# each: mean prod amax amin std var logsumexp
case("red_NAME", lambda a: ops.NAME(a, 1), Z)
# each: mean prod amax amin logsumexp
case("red_keep_NAME", lambda a: ops.NAME(a, 1, True), Z)
case("red_sum", lambda a: (a.sum(), a.sum(1), a.sum((0, 2), keepdims=True)), Z)
case("red_mean_all", lambda a: (a.mean(), a.mean((0, 1)), a.mean(-1, True)), Z)
case("red_max", lambda a: (a.max(), a.max(axis=1), a.min(axis=(0, 1)), a.min()), Z)
case("red_any", lambda a: (a.any(), a.all(), a.any(1), a.all(0)), b(3, 4))
case("red_argmax", lambda a: (ops.argmax(a, 1), ops.argmin(a, 1), a.argmax(), a.argmin(axis=2)), Z)
case("red_max_with", lambda a: ops.max(a, 1), Z)
case("red_min_with", lambda a: ops.min(a, 1), Z)
case("red_norm", lambda a: (ops.norm(a), ops.norm(a, ord=1, dim=1), ops.norm(a, dim=(1, 2))), Z)
case("red_cumsum", lambda a: (ops.cumsum(a, 1), a.cumsum(0)), Z)
case("red_cumprod", lambda a: ops.cumprod(a, 1), Z)
case("red_cumsum_op", lambda a: P.CumSum(True, True)(a, 1), Z)
case("red_topk", lambda a: ops.topk(a, 2), Z)
case("red_sort", lambda a: ops.sort(a), Z)
case("red_sort_desc", lambda a: ops.sort(a, 1, True), Z)
case("red_argsort", lambda a: ops.argsort(a, 1), Z)
case("red_count_nonzero", lambda a: ops.count_nonzero(a, (0, 1)), Z)
case("red_median", lambda a: ops.median(a, 1), f(3, 5))
case("red_nansum", lambda a: ops.nansum(a, 1), Tensor(np.array([[1, np.nan], [3, 4]], np.float32)))
case("red_logcumsumexp", lambda a: ops.logcumsumexp(a, 1), Z)
case("red_trace", ops.trace, f(4, 4))
case("red_ptp", lambda a: a.max() - a.min(), Z)
# ---- products ----
case("matmul", ops.matmul, f(3, 4), f(4, 5))
case("matmul_batch", ops.matmul, f(2, 3, 4), f(4, 5))
case("matmul_vec", ops.matmul, f(3, 4), f(4))
case("matmul_op", lambda a, c: P.MatMul(True, True)(a, c), f(4, 3), f(5, 4))
case("bmm", ops.bmm, f(2, 3, 4), f(2, 4, 5))
case("bmm_op", lambda a, c: P.BatchMatMul(False, True)(a, c), f(2, 3, 4), f(2, 5, 4))
case("mm", ops.mm, f(3, 4), f(4, 5))
case("mv", ops.mv, f(3, 4), f(4))
case("tensor_dot", lambda a, c: ops.tensor_dot(a, c, 1), f(3, 4), f(4, 5))
case("outer", ops.outer, f(3), f(4))
case("inner", ops.inner, f(3, 4), f(2, 4))
case("addmm", lambda a, c, d: ops.addmm(a, c, d, beta=0.5, alpha=2.0), f(3, 5), f(3, 4), f(4, 5))
case("addmv", lambda a, c, d: ops.addmv(a, c, d), f(3), f(3, 4), f(4))
case("baddbmm", lambda a, c, d: ops.baddbmm(a, c, d), f(2, 3, 5), f(2, 3, 4), f(2, 4, 5))
case("addbmm", lambda a, c, d: ops.addbmm(a, c, d), f(3, 5), f(2, 3, 4), f(2, 4, 5))
case("addr", lambda a, c, d: ops.addr(a, c, d), f(3, 4), f(3), f(4))
case("einsum", lambda a, c: ops.einsum("bij,bjk->bik", a, c), f(2, 3, 4), f(2, 4, 5))
case("cdist", ops.cdist, f(3, 4), f(5, 4))
case("cross", lambda a, c: ops.cross(a, c, dim=1), f(4, 3), f(4, 3))
case("kron", ops.kron, f(2, 3), f(2, 2))
case("matrix_power", lambda a: ops.matrix_power(a, 3), f(3, 3))
case("diag", ops.diag, f(4))
case("diagonal", lambda a: ops.diagonal(a), f(3, 4))
case("diag_embed", lambda a: ops.diag_embed(a), f(2, 3))
case("vander", lambda a: ops.vander(a, 3), f(4))
case("mint_linear", mint.nn.functional.linear, f(3, 4), f(5, 4), f(5))
# ---- shapes ----
case("reshape", lambda a: (a.reshape(6, 4), a.view(-1), ops.reshape(a, (2, -1))), Z)
case("transpose", lambda a: (a.transpose(2, 0, 1), a.swapaxes(0, 1), ops.permute(a, (1, 2, 0))), Z)
case("t", lambda a: a.T, f(3, 4))
case("expand", lambda a: (ops.expand_dims(a, 1), ops.unsqueeze(a, -1), ops.squeeze(ops.expand_dims(a, 0), 0)), f(3, 4))
case("concat", lambda a, c: (ops.cat((a, c), 0), ops.concat((a, c), 1)), X, Y)
case("stack", lambda a, c: (ops.stack((a, c)), ops.stack((a, c), -1)), X, Y)
case("split", lambda a: ops.split(a, 2, 1), f(3, 5))
case("split_sizes", lambda a: ops.split(a, [2, 3], 1), f(3, 5))
case("split_op", lambda a: P.Split(1, 3)(a), f(3, 6))
case("chunk", lambda a: ops.chunk(a, 3, 1), f(3, 6))
case("tensor_split", lambda a: ops.tensor_split(a, 3, 1), f(3, 7))
case("unbind", lambda a: ops.unbind(a, 1), f(3, 4))
case("unstack", lambda a: P.Unstack(1)(a), f(3, 4))
case("tile", lambda a: ops.tile(a, (2, 3)), f(2, 3))
case("repeat_interleave", lambda a: ops.repeat_interleave(a, 2, 1), f(2, 3))
case("broadcast_to", lambda a: ops.broadcast_to(a, (4, 3, 5)), f(3, 1))
case("expand_as", lambda a, c: a.expand_as(c), f(3, 1), f(3, 5))
case("flatten", lambda a: (ops.flatten(a), ops.flatten(a, start_dim=1, end_dim=2)), f(2, 3, 4))
case("flip", lambda a: ops.flip(a, (0, 2)), Z)
case("fliplr", lambda a: (ops.fliplr(a), ops.flipud(a)), f(3, 4))
case("roll", lambda a: ops.roll(a, (1, -2), (0, 1)), f(3, 5))
case("rot90", lambda a: ops.rot90(a, 1, (0, 1)), f(3, 4))
case("tril", lambda a: (ops.tril(a), ops.triu(a, 1)), f(4, 4))
case("narrow", lambda a: ops.narrow(a, 1, 1, 2), f(3, 5))
case("slice", lambda a: ops.slice(a, (1, 0), (2, 3)), f(3, 5))
case("strided", lambda a: (a[1:3], a[:, ::2], a[0], a[..., -1], a[-1, 1:], a[:, None], a[1, 2]), f(3, 5))
case("strided_neg", lambda a: a[::-1], f(4, 5))
case("pad", lambda a: ops.pad(a, (1, 2, 0, 1)), f(3, 4))
case("pad_value", lambda a: ops.pad(a, (1, 2), value=5.0), f(3, 4))
case("pad_reflect", lambda a: ops.pad(a, (1, 2), mode="reflect"), f(2, 3, 4))
case("pad_replicate", lambda a: ops.pad(a, (1, 2), mode="replicate"), f(2, 3, 4))
case("pad_op", lambda a: P.Pad(((1, 0), (2, 1)))(a), f(3, 4))
case("mirror_pad", lambda a: nn.Pad(((1, 1), (2, 2)), mode="SYMMETRIC")(a), f(3, 4))
case("meshgrid", lambda a, c: ops.meshgrid(a, c), f(3), f(4))
case("movedim", lambda a: ops.movedim(a, 0, 2), Z)
case("unfold_tensor", lambda a: ops.unfold(a, kernel_size=2), f(1, 2, 4, 4))
case("pixel_shuffle", lambda a: ops.pixel_shuffle(a, 2), f(1, 4, 3, 3))
case("pixel_unshuffle", lambda a: ops.pixel_unshuffle(a, 2), f(1, 1, 4, 4))
case("space_to_depth", lambda a: P.SpaceToDepth(2)(a), f(1, 2, 4, 4))
case("depth_to_space", lambda a: P.DepthToSpace(2)(a), f(1, 8, 2, 2))
case("channel_shuffle", lambda a: ops.channel_shuffle(a, 2), f(1, 4, 3, 3))
case("shape_use", lambda a: a.reshape(a.shape[0], -1) * a.shape[1] + a.ndim + a.size, Z)
case("atleast", lambda a: (ops.atleast_2d(a), ops.atleast_3d(a)), f(3))
case("block_diag", lambda a, c: ops.block_diag(a, c), f(2, 2), f(1, 3))
case("hstack", lambda a, c: (ops.hstack((a, c)), ops.vstack((a, c))), X, Y)
# ---- indices ----
T = f(6, 4)
case("gather", lambda t, k: ops.gather(t, k, 0), T, i(5, hi=6))
case("gather_axis", lambda t, k: ops.gather(t, k, 1), T, i(2, 3, hi=4))
case("gather_batch", lambda t, k: ops.gather(t, k, 1, 1), f(2, 5, 3), i(2, 4, hi=5))
case("gather_d", lambda t, k: ops.gather_d(t, 1, k), T, i(6, 2, hi=4))
case("gather_elements", lambda t, k: ops.gather_elements(t, 0, k), T, i(2, 4, hi=6, t=np.int64))
case("gather_nd", ops.gather_nd, T, i(3, 2, hi=4))
case("index_select", lambda t, k: ops.index_select(t, 0, k), T, i(3, hi=6))
case("take", lambda t, k: t.take(k, 1), T, i(3, hi=4))
case("embedding", lambda k, t: ops.gather(t, k, 0) * 2, i(2, 3, hi=6), T)
case("one_hot", lambda k: ops.one_hot(k, 5, Tensor(1.0, ms.float32), Tensor(0.0, ms.float32)), i(4, hi=5))
case("one_hot_ext", lambda k: mint.nn.functional.one_hot(k, 5), i(4, hi=5, t=np.int64))
case("scatter_nd", lambda k, u: ops.scatter_nd(k, u, (6, 4)), i(3, 1, hi=6), f(3, 4))
case("tensor_scatter", lambda t, k, u: (ops.tensor_scatter_add(t, k, u), ops.tensor_scatter_sub(t, k, u)), T, i(3, 1, hi=6), f(3, 4))
case("tensor_scatter_mm", lambda t, k, u: (ops.tensor_scatter_max(t, k, u), ops.tensor_scatter_min(t, k, u), ops.tensor_scatter_mul(t, k, u)), T, i(3, 1, hi=6), f(3, 4))
case("tensor_scatter_elements", lambda t, k, u: ops.tensor_scatter_elements(t, k, u, 1), T, Tensor(np.array([[0, 1], [1, 2], [3, 0], [2, 1], [0, 3], [1, 0]], np.int32)), f(6, 2))
case("scatter", lambda t, k, u: ops.scatter(t, 1, k, u), T, Tensor(np.array([[0, 1], [1, 2], [3, 0], [2, 1], [0, 3], [1, 0]], np.int64)), f(6, 2))
case("index_fill", lambda t, k: ops.index_fill(t, 0, k, 9.0), T, i(2, hi=6))
case("setitem", lambda t: setrow(t), T)
case("unsorted_segment_sum", lambda t, k: ops.unsorted_segment_sum(t, k, 4), T, i(6, hi=4))
case("unsorted_segment_mm", lambda t, k: (ops.unsorted_segment_max(t, k, 2), ops.unsorted_segment_min(t, k, 2)), T, Tensor(np.array([0, 1, 0, 1, 1, 0], np.int32)))
case("searchsorted", lambda s, v: ops.searchsorted(s, v), Tensor(np.sort(RNG.normal(size=8)).astype(np.float32)), f(5))
case("bucketize", lambda v: ops.bucketize(v, [-1.0, 0.0, 1.0]), f(5))
case("bincount", lambda k: ops.histc(k.astype(ms.float32), 4, 0.0, 4.0), i(10, hi=4))
case("arange", lambda a: a + ops.arange(0, 5, 1), f(5))
case("range_op", lambda a: a + ops.range(Tensor(0, ms.int32), Tensor(5, ms.int32), Tensor(1, ms.int32)), f(5))
case("linspace", lambda a: a + ops.linspace(0.0, 1.0, 5), f(5))
case("full", lambda a: (a + ops.full((3, 5), 2.0), ops.zeros((2, 2), ms.float32) + ops.ones((2, 2), ms.float32), ops.full_like(a, 3.0)), X)
case("eye", lambda a: a @ ops.eye(5, 5, ms.float32), X)
case("fill_diag", lambda a: ops.fill(ms.float32, (2, 3), 4.0) + a, f(2, 3))
case("reverse_sequence", lambda a: ops.reverse_sequence(a, Tensor(np.array([2, 3, 1], np.int32)), 1, 0), f(3, 4))
case("sequence_mask", lambda k: ops.sequence_mask(k, 5), i(4, hi=5))
# ---- networks' functions ----
# each: softmax log_softmax
case("nn_NAME", lambda a: (ops.NAME(a, -1), ops.NAME(a, 0)), X)
case("nn_softmin", lambda a: ops.softmin(a), X)
IMG, K = f(2, 3, 8, 8), f(4, 3, 3, 3)
case("conv2d", lambda x, w: ops.conv2d(x, w), IMG, K)
case("conv2d_same", lambda x, w: ops.conv2d(x, w, stride=2, pad_mode="same"), IMG, K)
case("conv2d_pad", lambda x, w, c: ops.conv2d(x, w, c, stride=(2, 1), pad_mode="pad", padding=(1, 2), dilation=2), IMG, K, f(4))
case("conv2d_groups", lambda x, w: ops.conv2d(x, w, pad_mode="same", groups=3), IMG, f(6, 1, 3, 3))
case("mint_conv2d", lambda x, w, c: mint.nn.functional.conv2d(x, w, c, 1, 1), IMG, K, f(4))
case("conv1d", lambda x, w: ops.conv1d(x, w), f(2, 3, 9), f(4, 3, 3))
case("conv3d", lambda x, w: ops.conv3d(x, w), f(1, 2, 5, 5, 5), f(3, 2, 3, 3, 3))
case("max_pool2d", lambda x: ops.max_pool2d(x, 2, 2), IMG)
case("avg_pool2d", lambda x: ops.avg_pool2d(x, 2, 2), IMG)
case("avg_pool1d", lambda x: ops.avg_pool1d(x, 2, 2), f(2, 3, 8))
case("adaptive_avg", lambda x: ops.adaptive_avg_pool2d(x, (2, 3)), IMG)
case("adaptive_avg1", lambda x: ops.adaptive_avg_pool1d(x, 2), f(2, 3, 8))
case("adaptive_max", lambda x: ops.adaptive_max_pool2d(x, (2, 2)), IMG)
case("lp_pool", lambda x: ops.lp_pool2d(x, 2.0, 2, 2), pos(2, 3, 8, 8))
case("interpolate_nearest", lambda x: ops.interpolate(x, size=(16, 16), mode="nearest"), IMG)
case("interpolate_bilinear", lambda x: ops.interpolate(x, size=(12, 12), mode="bilinear"), IMG)
case("interpolate_corners", lambda x: ops.interpolate(x, size=(12, 12), mode="bilinear", align_corners=True), IMG)
case("grid_sample", lambda x, g: ops.grid_sample(x, g), IMG, unit(2, 4, 4, 2))
case("layer_norm", lambda x, g, c: mint.nn.functional.layer_norm(x, (4,), g, c), Z, f(4), f(4))
case("group_norm", lambda x, g, c: ops.group_norm(x, 2, g, c), f(2, 4, 3, 3), f(4), f(4))
case("batch_norm", lambda x, m, v, g, c: ops.batch_norm(x, m, v, g, c), IMG, f(3), pos(3), f(3), f(3))
case("rms_norm", lambda x, g: ops.rms_norm(x, g)[0], Z, f(4))
case("lrn", lambda x: ops.lrn(x), IMG)
case("l2norm", lambda x: P.L2Normalize(1)(x), X)
case("dropout_eval", lambda x: ops.dropout(x, p=0.5, training=False), X)
case("cosine_similarity", lambda a, c: ops.cosine_similarity(a, c, dim=1), X, Y)
LAB = i(3, hi=5)
case("cross_entropy", lambda x, y: ops.cross_entropy(x, y), X, LAB)
case("cross_entropy_smooth", lambda x, y: ops.cross_entropy(x, y, label_smoothing=0.1), X, LAB)
case("cross_entropy_none", lambda x, y: ops.cross_entropy(x, y, reduction="none"), X, LAB)
case("nll_loss", lambda x, y: ops.nll_loss(ops.log_softmax(x), y), X, LAB)
for name in "mse_loss l1_loss smooth_l1_loss huber_loss kl_div soft_margin_loss".split():
    fn = getattr(ops, name)
    case("loss_" + name, fn, X, Y if name != "soft_margin_loss" else ops.sign(Y))
case("loss_bce", lambda x, y: ops.binary_cross_entropy(ops.sigmoid(x), y), X, f(3, 5, lo=0, hi=1))
case("loss_bce_logits", lambda x, y: ops.binary_cross_entropy_with_logits(x, y, ops.ones_like(x), ops.ones_like(x)), X, f(3, 5, lo=0, hi=1))
case("loss_hinge", lambda x, y: ops.hinge_embedding_loss(x, y), X, ops.sign(Y))
case("loss_margin", lambda a, c, y: ops.margin_ranking_loss(a, c, y), f(5), f(5), ops.sign(f(5)))
case("loss_triplet", lambda a, c, d: ops.triplet_margin_loss(a, c, d), X, Y, f(3, 5))
case("loss_gaussian", lambda x, y, v: ops.gaussian_nll_loss(x, y, v), X, Y, pos(3, 5))
case("loss_cosine", lambda a, c, y: ops.cosine_embedding_loss(a, c, y), X, Y, ops.sign(f(3)))
case("loss_sparse", lambda x, y: nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")(x, y), X, LAB)
# ---- linear algebra ----
SPD = Tensor((lambda m: m @ m.T + 4 * np.eye(4))(RNG.normal(size=(4, 4))).astype(np.float32))
case("la_cholesky", lambda a: ops.cholesky(a), SPD)
case("la_inverse", lambda a: ops.inverse(a), SPD)
case("la_det", lambda a: ops.det(a), SPD)
case("la_slogdet", lambda a: ops.slogdet(a), SPD)


@ms.jit
def setrow(t):
    t = t * 1
    t[1] = 5.0
    t[2, 1:3] = 7.0
    return t


# ---- control flow, functions ----
def loop(x, n):
    k = Tensor(0, ms.int32)
    while k < n:
        x = ops.tanh(x) * 1.1
        k = k + 1
    return x


def branches(x):
    if x.sum() > 0:
        y = x * 2
    elif x.sum() > -5:
        y = x - 1
    else:
        y = ops.exp(x)
    return y + 1


def nested(x, n):
    k = Tensor(0, ms.int32)
    while k < n:
        j = Tensor(0, ms.int32)
        while j < k:
            if x.sum() > 3:
                x = x * 0.5
            else:
                x = x + 0.7
            j = j + 1
        k = k + 1
    return x


def for_range(x):
    for k in range(4):
        x = x * k + 1
    return x


def early(x):
    if x.sum() > 0:
        return x * 3
    return x - 3


def breaks(x, n):
    k = Tensor(0, ms.int32)
    while k < n:
        x = x + 1
        if x.sum() > 20:
            break
        k = k + 1
    return x, k


N = Tensor(5, ms.int32)
many("cf_", (f(2, 3), N), loop=loop, nested=nested, breaks=breaks)
many("cf_", (f(2, 3),), branches=branches, for_range=for_range, early=early)
case("cf_cond", lambda x: ops.relu(x) if x.mean() > 0 else ops.sin(x), f(3))
case("cf_listcomp", lambda x: ops.stack([x * k for k in range(3)]), f(3))
case("cf_while_grad", lambda x, n: ms.grad(lambda a, m: loop(a, m).sum())(x, n), f(2, 3), N)
case("cf_if_grad", lambda x: ms.grad(lambda a: branches(a).sum())(x), f(2, 3))
case("cf_nested_grad", lambda x, n: ms.grad(lambda a, m: nested(a, m).sum())(x, n), f(2, 3), N)
case("cf_second", lambda x: ms.grad(ms.grad(lambda a: ops.sin(a) * a * a))(x), f(1)[0])


def rec(x, n):
    if n <= 0:
        return x
    return rec(x * 1.5 + 1, n - 1)


case("cf_recursion", rec, f(2, 3), N)


class Closure(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w = Parameter(f(3))

    def construct(self, x, flag):
        a = x * self.w

        def g(y):
            return y + a

        def h(y):
            return y * a

        r = g(x) if flag > 0 else h(x)
        return r


case("cf_closure", Closure(), f(3), Tensor(1, ms.int32))

# ---- layers and networks ----
def layer(name, cell, *inputs):
    cell.set_train(False)
    case("layer_" + name, cell, *inputs)


layer("dense", nn.Dense(4, 5, activation="relu"), f(3, 4))
layer("conv", nn.Conv2d(3, 4, 3, pad_mode="same", has_bias=True), IMG)
layer("conv1d", nn.Conv1d(3, 4, 3, has_bias=True), f(2, 3, 9))
layer("conv3d", nn.Conv3d(2, 3, 3), f(1, 2, 5, 5, 5))
layer("conv_t", nn.Conv2dTranspose(3, 4, 3, stride=2, pad_mode="same", has_bias=True), IMG)
layer("conv1d_t", nn.Conv1dTranspose(3, 4, 3), f(2, 3, 9))
layer("bn1d", nn.BatchNorm1d(4), f(3, 4))
layer("bn2d", nn.BatchNorm2d(3), IMG)
layer("ln", nn.LayerNorm((4,)), f(3, 4))
layer("gn", nn.GroupNorm(2, 4), f(2, 4, 3, 3))
layer("in2d", nn.InstanceNorm2d(3), IMG)
layer("embedding", nn.Embedding(10, 4), i(2, 3, hi=10))
layer("lstm", nn.LSTM(3, 4, batch_first=True), f(2, 5, 3))
layer("lstm2", nn.LSTM(3, 4, num_layers=2, bidirectional=True, batch_first=True), f(2, 5, 3))
layer("gru", nn.GRU(3, 4, batch_first=True), f(2, 5, 3))
layer("rnn", nn.RNN(3, 4, batch_first=True), f(2, 5, 3))
layer("gru_cell", nn.GRUCell(3, 4), f(2, 3), f(2, 4))
layer("mha", nn.MultiheadAttention(8, 2, batch_first=True), f(2, 5, 8), f(2, 5, 8), f(2, 5, 8))
layer("encoder", nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), f(2, 5, 8))
layer("decoder", nn.TransformerDecoderLayer(8, 2, 16, batch_first=True), f(2, 5, 8), f(2, 4, 8))
layer("bilinear", nn.BiDense(3, 4, 5), f(2, 3), f(2, 4))
layer("prelu", nn.PReLU(3), IMG)
layer("pool", nn.SequentialCell(nn.MaxPool2d(3, 2, pad_mode="same"), nn.AvgPool2d(2, 2), nn.AdaptiveAvgPool2d(1)), IMG)
layer("dropout", nn.SequentialCell(nn.Dense(4, 5), nn.Dropout(p=0.5)), f(3, 4))
layer("upsample", nn.Upsample(size=(16, 16), mode="nearest"), IMG)
layer("flatten", nn.SequentialCell(nn.Flatten(), nn.Dense(192, 5)), IMG)
layer("mint_linear", mint.nn.Linear(4, 5), f(3, 4))
layer("mint_ln", mint.nn.LayerNorm(4), f(3, 4))


class Residual(nn.Cell):
    def __init__(self, n, stride=1):
        super().__init__()
        self.a = nn.SequentialCell(nn.Conv2d(n, n * stride, 3, stride), nn.BatchNorm2d(n * stride), nn.ReLU())
        self.b = nn.SequentialCell(nn.Conv2d(n * stride, n * stride, 3), nn.BatchNorm2d(n * stride))
        self.down = nn.Conv2d(n, n * stride, 1, stride) if stride > 1 else None

    def construct(self, x):
        y = self.b(self.a(x))
        return ops.relu(y + (self.down(x) if self.down is not None else x))


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.body = nn.SequentialCell(nn.Conv2d(3, 4, 3), Residual(4), Residual(4, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Dense(8, 5)

    def construct(self, x):
        return self.head(self.body(x))


layer("resnet", Net(), IMG)
layer("mobile", nn.SequentialCell(nn.Conv2d(3, 3, 3, group=3), nn.BatchNorm2d(3), nn.HSwish(), nn.Conv2d(3, 6, 1), nn.ReLU6()), IMG)


class Gpt(nn.Cell):
    def __init__(self, vocab=11, d=8, n=2):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, d), Parameter(f(6, d))
        self.q, self.k, self.v, self.o = (nn.Dense(d, d) for _ in range(4))
        self.up, self.down = nn.Dense(d, 4 * d), nn.Dense(4 * d, d)
        self.n1, self.n2 = nn.LayerNorm((d,)), nn.LayerNorm((d,))
        self.heads, self.d = n, d
        self.mask = Tensor(np.triu(np.full((6, 6), -1e9, np.float32), 1))

    def split(self, x):
        return x.reshape(x.shape[0], x.shape[1], self.heads, -1).transpose(0, 2, 1, 3)

    def construct(self, ids):
        x = self.tok(ids) + self.pos
        h = self.n1(x)
        q, k, v = self.split(self.q(h)), self.split(self.k(h)), self.split(self.v(h))
        a = ops.softmax(ops.matmul(q, k.swapaxes(-1, -2)) / (self.d // self.heads) ** 0.5 + self.mask, -1)
        x = x + self.o(ops.matmul(a, v).transpose(0, 2, 1, 3).reshape(x.shape))
        x = x + self.down(ops.gelu(self.up(self.n2(x))))
        return ops.matmul(x, self.tok.embedding_table.T)


layer("gpt", Gpt(), i(2, 6, hi=11))

# ---- gradients and training steps ----
class Grad(nn.Cell):
    def __init__(self, net, loss):
        super().__init__()
        self.net = net

        def total(*xs):
            return loss(net(*xs[:-1]), xs[-1])

        self.weights = ms.ParameterTuple(net.trainable_params())
        self.grad = ops.GradOperation(get_all=True, get_by_list=True)
        self.total = Op(total)

    def construct(self, *xs):
        return self.grad(self.total, self.weights)(*xs)


def gradient(name, net, loss, *inputs):
    net.set_train(True)
    case("grad_" + name, Grad(net, loss), *inputs)


gradient("mlp", nn.SequentialCell(nn.Dense(4, 8, activation="tanh"), nn.Dense(8, 5)), lambda y, t: ops.mse_loss(y, t), f(3, 4), f(3, 5))
gradient("lenet", nn.SequentialCell(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2, 2), nn.Flatten(), nn.Dense(64, 5)), lambda y, t: ops.cross_entropy(y, t), IMG, i(2, hi=5))
gradient("bn", nn.SequentialCell(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Sigmoid(), nn.AvgPool2d(2, 2)), lambda y, t: (y * t).sum(), IMG, f(2, 4, 4, 4))
gradient("gpt", Gpt(), lambda y, t: ops.cross_entropy(y.reshape(-1, 11), t.reshape(-1)), i(2, 6, hi=11), i(2, 6, hi=11))
gradient("lstm", nn.LSTM(3, 4, batch_first=True), lambda y, t: (y[0] * t).sum(), f(2, 5, 3), f(2, 5, 4))
# each: sin cos tan exp tanh sigmoid relu relu6 elu gelu silu softplus mish hardswish hardsigmoid erf abs square reciprocal leaky_relu log_softmax
# and: softmax atan asinh sinh cosh logsigmoid selu softsign expm1 celu hardshrink softshrink hardtanh
case("d_NAME", lambda x: ms.grad(lambda a: (ops.NAME(a) * ops.NAME(a)).sum())(x), X)
# each: log sqrt rsqrt log1p log2 log10 lgamma
case("d_NAME", lambda x: ms.grad(lambda a: (ops.NAME(a) * ops.NAME(a)).sum())(x), pos(3, 5))
# each: asin acos atanh
case("d_NAME", lambda x: ms.grad(lambda a: (ops.NAME(a) * ops.NAME(a)).sum())(x), unit(3, 5))
# each: add sub mul div maximum minimum atan2 squared_difference hypot
case("d2_NAME", lambda x, y: ms.grad(lambda a, c: (ops.NAME(a, c) * ops.NAME(a, c)).sum(), (0, 1))(x, y), X, Y)
# each: mean prod amax amin std var logsumexp cumsum cumprod
case("dred_NAME", lambda x: ms.grad(lambda a: (ops.NAME(a, 1) * ops.NAME(a, 1)).sum())(x), X)
case("d_max", lambda x: ms.grad(lambda a: (ops.max(a, 1)[0] * a.min(axis=1)).sum())(x), X)
case("d_prod", lambda x: ms.grad(lambda a: (ops.prod(a, 1) + a.std() + a.var()).sum())(x), X)
case("d_cumsum", lambda x: ms.grad(lambda a: (ops.cumsum(a, 1) * a).sum())(x), X)
case("d_sort", lambda x: ms.grad(lambda a: (ops.sort(a, 1)[0] * ops.topk(a, 5)[0]).sum())(x), X)
case("d_gather", lambda x, k: ms.grad(lambda a: (ops.gather(a, k, 0) ** 2).sum())(x), T, i(5, hi=6))
case("d_scatter", lambda x, k, u: ms.grad(lambda a: (ops.tensor_scatter_add(a, k, u) ** 2).sum())(x), T, i(3, 1, hi=6), f(3, 4))
case("d_slice", lambda x: ms.grad(lambda a: (a[1:, ::2] ** 2).sum() + (a[0, 1] * a[2, 3]))(x), X)
case("d_concat", lambda x: ms.grad(lambda a: (ops.cat((a, a * 2), 1) ** 2).sum() + ops.stack((a, a)).sum())(x), X)
case("d_pad", lambda x: ms.grad(lambda a: (ops.pad(a, (1, 2)) ** 2).sum())(x), X)
case("d_tile", lambda x: ms.grad(lambda a: (ops.tile(a, (2, 2)) ** 2).sum() + (ops.broadcast_to(a, (2, 3, 5)) ** 3).sum())(x), X)
case("d_pool", lambda x: ms.grad(lambda a: (ops.avg_pool2d(a, 2, 2) * ops.max_pool2d(a, 2, 2)).sum())(x), IMG)
case("d_where", lambda x, m: ms.grad(lambda a: (ops.where(m, a, a * a)).sum())(x), X, b(3, 5))
case("d_matmul", lambda a, c: ms.grad(lambda x, y: (ops.matmul(x, y) ** 2).sum(), (0, 1))(a, c), f(2, 3, 4), f(4, 5))
case("d_norm", lambda x: ms.grad(lambda a: ops.norm(a))(x), X)
case("d_resize", lambda x: ms.grad(lambda a: (ops.interpolate(a, size=(12, 12), mode="bilinear") ** 2).sum())(x), IMG)
case("jvp", lambda x, v: ms.jvp(lambda a: ops.sin(a) * a, x, v), X, Y)
case("vmap", lambda x, y: ms.vmap(lambda a, c: (a * c).sum())(x, y), X, Y)


class Step(nn.Cell):
    """A training step: gives the loss; parameters change."""

    def __init__(self, make):
        super().__init__()
        self.net = nn.SequentialCell(nn.Dense(4, 8, activation="tanh"), nn.Dense(8, 5))
        self.step = nn.TrainOneStepCell(nn.WithLossCell(self.net, nn.MSELoss()), make(self.net.trainable_params()))
        self.step.set_train()

    def construct(self, x, y):
        return self.step(x, y)


OPTIMIZERS = {  # not Momentum with use_nesterov: the kernel for CPUs ignores it
    "sgd": lambda p: nn.SGD(p, 0.1), "sgd_momentum": lambda p: nn.SGD(p, 0.1, 0.9, weight_decay=0.01), "momentum": lambda p: nn.Momentum(p, 0.1, 0.9),
    "adam": lambda p: nn.Adam(p, 0.01), "adam_decay": lambda p: nn.AdamWeightDecay(p, 0.01),
    "adam_wd": lambda p: nn.Adam(p, 0.01, weight_decay=0.01), "rmsprop": lambda p: nn.RMSProp(p, 0.01), "rmsprop_centered": lambda p: nn.RMSProp(p, 0.01, centered=True),
    "adagrad": lambda p: nn.Adagrad(p, learning_rate=0.1), "adadelta": lambda p: nn.Adadelta(p), "adamax": lambda p: nn.AdaMax(p), "ftrl": lambda p: nn.FTRL(p),
    "lamb": lambda p: nn.Lamb(p, 0.01), "lars": lambda p: nn.LARS(nn.Momentum(p, 0.1, 0.9)), "asgd": lambda p: nn.ASGD(p), "rprop": lambda p: nn.Rprop(p),
    "proximal": lambda p: nn.ProximalAdagrad(p), "lazy_adam": lambda p: nn.LazyAdam(p),
}
for name, make in OPTIMIZERS.items():
    try:
        case("step_" + name, Step(make), f(3, 4), f(3, 5))
    except Exception as e:  # the optimizer itself refuses
        print(f"{name}: {e}".splitlines()[0], file=sys.stderr)


class StepNorm(nn.Cell):
    """With batch norm, whose averages a step changes."""

    def __init__(self):
        super().__init__()
        net = nn.SequentialCell(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dense(256, 5))
        self.step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.Momentum(net.trainable_params(), 0.1, 0.9))
        self.step.set_train()

    def construct(self, x, y):
        return self.step(x, y)


case("step_norm", StepNorm(), IMG, f(2, 5))


# ---- parameters that branches, loops and functions assign to ----
class Stateful(nn.Cell):
    """`construct` is given as a function of the cell; parameters w (3), k (a count) and m (2, 3)."""

    def __init__(self):
        super().__init__()
        self.w, self.m = Parameter(f(3), name="w"), Parameter(f(2, 3), name="m")
        self.k = Parameter(Tensor(0, ms.int32), name="k")


class AssignIf(Stateful):
    def construct(self, x):
        if x.sum() > 0:
            self.w = self.w + x
        else:
            self.w = self.w * 2
        return self.w * x


class AssignOneBranch(Stateful):
    def construct(self, x):
        y = self.w * x
        if x.sum() < 100:
            ops.assign(self.m, self.m + y)
            ops.assign_add(self.k, Tensor(1, ms.int32))
        return y + self.m


class AssignNeither(Stateful):
    def construct(self, x):
        if x.sum() > 100:
            ops.assign(self.w, x)
        return self.w + x


class AssignLoop(Stateful):
    def construct(self, x, n):
        i = Tensor(0, ms.int32)
        while i < n:
            ops.assign_add(self.k, Tensor(2, ms.int32))
            self.w = self.w * 0.5 + x
            i = i + 1
        return self.w + self.k


class AssignNested(Stateful):
    def construct(self, x, n):
        i = Tensor(0, ms.int32)
        while i < n:
            if self.w.sum() > 1:
                self.w = self.w * 0.5
            else:
                self.w = self.w + x
                self.k = self.k + 1
            i = i + 1
        return self.w * self.k


class AssignBreak(Stateful):
    def construct(self, x, n):
        i = Tensor(0, ms.int32)
        while i < n:
            self.w = self.w + x
            if self.w.sum() > 4:
                self.k = i
                break
            i = i + 1
        return self.w


class AssignReturn(Stateful):
    def construct(self, x):
        self.k = self.k + 1
        if x.sum() > 0:
            self.w = self.w - x
            return self.w
        self.w = self.w + x
        return self.w * self.k


class Inner(nn.Cell):
    def __init__(self):
        super().__init__()
        self.total = Parameter(f(3), name="total")

    def construct(self, x):
        self.total = self.total + x
        return self.total * 2


class AssignCell(nn.Cell):
    def __init__(self):
        super().__init__()
        self.a, self.b = Inner(), Inner()
        self.b.total = Parameter(f(3), name="other")

    def construct(self, x):
        y = self.a(x)
        if x.sum() > 0:
            y = self.b(y) + self.a(x)
        return y


class AssignBefore(Stateful):
    """Read before, between and after."""

    def construct(self, x):
        a = self.w * 1
        self.w = x
        b = self.w * 1
        if x.sum() > 0:
            self.w = b + a
        return a, b, self.w * 1


class AssignFor(Stateful):
    def construct(self, x):
        for i in range(3):
            self.w = self.w * x + i
        return self.w


class Ema(nn.Cell):
    def __init__(self):
        super().__init__()
        self.mean, self.seen = Parameter(f(3), name="mean"), Parameter(Tensor(0.0, ms.float32), name="seen")

    def construct(self, x):
        if self.seen == 0:
            self.mean = x.mean(0)
        else:
            self.mean = self.mean * 0.9 + x.mean(0) * 0.1
        self.seen = self.seen + 1
        return x - self.mean


POSITIVE = Tensor(np.array([1, 2, 0.5], np.float32))
for name, cell in {"if": AssignIf, "one_branch": AssignOneBranch, "neither": AssignNeither, "return": AssignReturn, "cell": AssignCell,
                   "before": AssignBefore, "for": AssignFor}.items():
    case("step_assign_" + name, cell(), POSITIVE)
    case("step_assign_" + name + "_else", cell(), Tensor(-POSITIVE.asnumpy()))
for name, cell in {"loop": AssignLoop, "nested": AssignNested, "break": AssignBreak}.items():
    case("step_assign_" + name, cell(), POSITIVE, N)
case("step_ema", Ema(), f(4, 3))


class Scaled(nn.Cell):
    """Loss scaling: the update happens only if all gradients are finite."""

    def __init__(self, scale):
        super().__init__()
        self.net = nn.Dense(3, 2)
        self.opt = nn.Momentum(self.net.trainable_params(), 0.1, 0.9)
        self.scale, self.good = Parameter(Tensor(scale, ms.float32), name="scale"), Parameter(Tensor(0, ms.int32), name="good")
        self.grads = ms.value_and_grad(self.loss, None, self.opt.parameters)

    def loss(self, x, y):
        return ((self.net(x) - y) ** 2).mean() * self.scale

    def construct(self, x, y):
        loss, grads = self.grads(x, y)
        finite = ops.isfinite(grads[0]).all() and ops.isfinite(grads[1]).all()
        if finite:
            self.opt((grads[0] / self.scale, grads[1] / self.scale))
            self.good = self.good + 1
        else:
            self.scale = self.scale / 2
        return loss / self.scale


case("step_scaled", Scaled(128.0), f(4, 3), f(4, 2))
case("step_scaled_overflow", Scaled(3e38), f(4, 3), f(4, 2))


class Accumulates(nn.Cell):
    """Gradients of two steps are one update."""

    def __init__(self):
        super().__init__()
        self.net = nn.Dense(3, 2)
        self.opt = nn.SGD(self.net.trainable_params(), 0.1)
        self.sum = self.opt.parameters.clone(prefix="sum", init="zeros")
        self.k = Parameter(Tensor(1, ms.int32), name="k")
        self.grads = ms.value_and_grad(self.loss, None, self.opt.parameters)

    def loss(self, x, y):
        return ((self.net(x) - y) ** 2).mean()

    def construct(self, x, y):
        loss, grads = self.grads(x, y)
        ops.assign_add(self.sum[0], grads[0])
        ops.assign_add(self.sum[1], grads[1])
        self.k = self.k + 1
        if self.k % 2 == 0:
            self.opt((self.sum[0] * 1, self.sum[1] * 1))
            ops.assign(self.sum[0], ops.zeros_like(self.sum[0]))
            ops.assign(self.sum[1], ops.zeros_like(self.sum[1]))
        return loss


case("step_accumulates", Accumulates(), f(4, 3), f(4, 2))
