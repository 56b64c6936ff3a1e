# SPDX-License-Identifier: Apache-2.0
"""Edges of operations, read after the cases of networks.py and with its names: infinities, NaN, ties, halves, empty dims, labels to ignore, negative indices."""
from networks import *  # noqa: F403

INF, NAN = float("inf"), float("nan")


def at(*numbers, t=np.float32):
    return Tensor(np.array(numbers, t))


# ---- numbers at which a formula breaks; kernels of MindSpore for CPUs lose NaN, so few cases have it ----
ODD = at(INF, -INF, 0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 1.0, -1.0, 3.0, -3.0, 6.0, -6.0, 20.5, -20.5, 89.0, -89.0, 1e-8, -1e-8, 1e30, -1e30, 0.3, -0.7)
FEW = at(INF, -INF, 0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 3.5, -3.5, 1e30, -1e30, 7.0)
ROW, COLUMN = FEW.reshape(1, 14), FEW.reshape(14, 1)
FINITE = at(0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 3.5, -3.5, 7.0, 0.3)
# each: neg abs sin cos tan atan sinh tanh asinh exp expm1 erf erfc sigmoid relu relu6 elu selu celu hardswish hardsigmoid hardshrink
# and: softshrink softsign gelu silu leaky_relu softplus floor ceil round trunc sign square isnan isfinite isinf
# and: ones_like zeros_like frac hardtanh reciprocal exp2 sinc tanhshrink cosh sqrt rsqrt log log2 log10 log1p asin acos atanh acosh erfinv nan_to_num
case("odd_NAME", lambda a: ops.NAME(a), ODD)
# each: sin tanh exp erf sigmoid relu elu gelu silu softplus floor round sqrt log
case("odd16_NAME", lambda a: ops.NAME(a.astype(ms.float16)), f(9))
# each: add sub mul div maximum minimum atan2 fmod equal not_equal less less_equal greater greater_equal true_divide hypot xdivy pow
case("odd2_NAME", lambda a, c: ops.NAME(a, c), ROW, COLUMN)
# each: floor_div floor_mod remainder
case("odd2_NAME", lambda a, c: ops.NAME(a, c), FINITE, FINITE.reshape(10, 1))
# each: add sub mul div maximum minimum floor_div floor_mod true_divide fmod remainder
case("ints_NAME", lambda a, c: ops.NAME(a, c), i(1, 12, lo=-9, hi=9), at(-4, -3, -1, 1, 2, 5, t=np.int32).reshape(6, 1))
case("ints_pow", lambda a: (ops.pow(a, 3), a ** 2), i(9, lo=-9, hi=9))
case("ints_wrap", lambda a: (a * a, a + a, -a), at(2**31 - 1, -(2**31), 70000, t=np.int32))
case("ints_u8", lambda a: (a + a, a * a, a - Tensor(9, ms.uint8)), at(0, 3, 200, 255, t=np.uint8))
case("ints_i8", lambda a: (a + a, a * a, -a, ops.abs(a)), at(0, 3, -128, 127, t=np.int8))
case("ints_shift", lambda a: (ops.bitwise_left_shift(a, 2), ops.bitwise_right_shift(a, 1)), at(0, 3, -128, 127, t=np.int32))
case("cast_trunc", lambda a: (a.astype(ms.int32), a.astype(ms.int64), a.astype(ms.bool_), a.astype(ms.float16)), at(0.0, -0.0, 0.9, -0.9, 2.5, -2.5, 70000.0, 1e-9))
case("cast_half", lambda a: (a.astype(ms.float16).astype(ms.float32), a.astype(ms.bfloat16).astype(ms.float32)), at(1.0005, 65504.0, 65520.0, 1e-8, 6e-8, 0.1))
# ---- ties and NaN in reductions and orders ----
TIES = Tensor(np.array([[1, 3, 3, 2, 3], [0, 0, -1, -1, 0], [5, 5, 5, 5, 5]], np.float32))
HOLES = Tensor(np.array([[1, NAN, 3, 2, 3], [-INF, 0, INF, -1, 0], [NAN, NAN, NAN, NAN, NAN]], np.float32))
case("ties_argmax", lambda a: (ops.argmax(a, 1), ops.argmin(a, 1)), TIES)
case("ties_max", lambda a: (ops.max(a, 1), ops.min(a, 1)), TIES)
case("ties_topk", lambda a: ops.topk(a, 3), TIES)
case("ties_sort", lambda a: (ops.sort(a, 1), ops.sort(a, 0, True)), TIES)
case("ties_cummax", lambda a: (ops.cummax(a, 1), ops.cummin(a, 1)), TIES)
case("ties_median", lambda a: ops.median(a, 1), TIES)
case("ties_d_max", lambda a: ms.grad(lambda v: ops.max(v, 1)[0].sum() + v.max() + ops.amax(v, 0).sum())(a), TIES)
case("ties_d_abs", lambda a: ms.grad(lambda v: (ops.abs(v) + ops.relu(v) + ops.relu6(v) + ops.sign(v)).sum())(a), TIES)
case("ties_d_maximum", lambda a: ms.grad(lambda v: ops.maximum(v, 2 * v - 3).sum())(a), TIES)
case("ties_d_pool", lambda a: ms.grad(lambda v: ops.max_pool2d(v, 2, 1).sum())(a), TIES.reshape(1, 1, 3, 5))
case("holes_sum", lambda a: (a.sum(1), a.mean(1), ops.prod(a, 1), ops.nansum(a, 1)), HOLES)
case("holes_logsumexp", lambda a: ops.logsumexp(a, 1), Tensor(np.array([[1, -INF], [-INF, -INF], [90, 91]], np.float32)))
case("holes_where", lambda a: (ops.where(ops.isnan(a), ops.zeros_like(a), a), ops.nan_to_num(a)), HOLES)
case("big_softmax", lambda a: (ops.softmax(a, 0), ops.log_softmax(a, 0), ops.logsumexp(a, 0)), at(1000.0, 1001.0, -1000.0))
case("big_losses", lambda a: (ops.binary_cross_entropy_with_logits(a, ops.ones_like(a), ops.ones_like(a), ops.ones_like(a), "none")), at(100.0, -100.0, 0.0))
case("edge_bce", lambda a, t: ops.binary_cross_entropy(a, t, None, "none"), at(0.0, 1.0, 0.0, 1.0, 0.5), at(0.0, 1.0, 1.0, 0.0, 0.3))
case("edge_bce_grad", lambda a, t: ms.grad(lambda v: ops.binary_cross_entropy(v, t))(a), at(0.01, 0.99, 0.5), at(0.0, 1.0, 0.3))
case("edge_kl", lambda a, t: ops.kl_div(a, t, "none"), f(4), at(0.0, 1.0, 0.5, 0.2))
case("edge_kl_batch", lambda a, t: ops.kl_div(a, t, "batchmean"), f(4, 2), unit(4, 2).abs())
# ---- labels to ignore, weights of classes ----
LOGITS, LABELS = f(5, 4), at(1, -100, 3, 0, -100, t=np.int32)
case("ignore_ce", lambda x, t: ops.cross_entropy(x, t), LOGITS, LABELS)
case("ignore_ce_none", lambda x, t: ops.cross_entropy(x, t, reduction="none"), LOGITS, LABELS)
case("ignore_ce_two", lambda x, t: ops.cross_entropy(x, t, ignore_index=2), LOGITS, at(2, 1, 2, 0, 3, t=np.int32))
case("ignore_ce_weight", lambda x, t, w: ops.cross_entropy(x, t, w, ignore_index=2), LOGITS, at(2, 1, 2, 0, 3, t=np.int32), pos(4))
case("ignore_ce_smooth", lambda x, t, w: ops.cross_entropy(x, t, w, label_smoothing=0.1), LOGITS, at(2, 1, 2, 0, 3, t=np.int32), pos(4))
case("ignore_ce_grad", lambda x, t: ms.grad(lambda v: ops.cross_entropy(v, t))(x), LOGITS, LABELS)
case("ignore_ce_dims", lambda x, t: ops.cross_entropy(x, t), f(2, 4, 3, 3), i(2, 3, 3, hi=4))
case("ignore_nll", lambda x, t, w: ops.nll_loss(x, t, w, ignore_index=1, reduction="sum"), LOGITS, at(2, 1, 1, 0, 3, t=np.int32), pos(4))
case("ignore_nll_none", lambda x, t, w: ops.nll_loss(x, t, w, ignore_index=1, reduction="none"), LOGITS, at(2, 1, 1, 0, 3, t=np.int32), pos(4))
case("ignore_soft", lambda x, t: ops.cross_entropy(x, t), LOGITS, pos(5, 4))
case("ignore_all", lambda x, t: ops.cross_entropy(x, t, reduction="sum"), LOGITS, at(-100, -100, -100, -100, -100, t=np.int32))
# ---- indices ----
case("at_negative", lambda x, k: (ops.gather(x, k, 0), x[k]), f(5, 3), at(-1, 0, -5, t=np.int32))
case("at_gather_d", lambda x, k: ops.gather_d(x, 1, k), f(2, 4), at(-1, 0, t=np.int32).reshape(2, 1))
case("at_twice", lambda x, k, u: ops.tensor_scatter_add(x, k, u), f(4, 2), at(1, 1, 3, t=np.int32).reshape(3, 1), f(3, 2))
case("at_twice_elements", lambda x, k, u: ops.tensor_scatter_elements(x, k, u, 0, "add"), f(4, 2), i(3, 2, hi=2), f(3, 2))
case("at_mixed", lambda x: (x[1], x[-1], x[..., 0], x[:, None, 1], x[::2], x[1:, -2:], x[None]), f(4, 3, 5))
case("at_lists", lambda x: (x[[0, 2]], x[[0, 1], [2, 0]], x[:, [1, 0]]), f(4, 3, 5))
case("at_back", lambda x: (x[::-1], x[2::-1], x[:, ::-2]), f(4, 5))
case("at_true", lambda x: (x[True], x[x.shape[0] - 1]), f(4, 5))


def writes(x, y):
    x[0] = 1.0
    x[-1, 1:] = y
    x[1:3, -2:] = 7.0
    x[::2, 0] = -1.0
    return x


def writes_more(x, k, y):
    x[k] = y
    x[..., 0] += 2.0
    x[x > 1.5] = 0.0
    return x


case("at_writes", writes, f(4, 5), f(4))
case("at_writes_more", writes_more, f(4, 5), at(0, 2, t=np.int32), f(2, 5))
case("at_segment_ints", lambda x, k: (ops.unsorted_segment_max(x, k, 4), ops.unsorted_segment_min(x, k, 4), ops.unsorted_segment_sum(x, k, 4)), i(5, lo=-9, hi=9), at(0, 2, 2, 0, 1, t=np.int32))
case("at_segment_drop", lambda x, k: ops.unsorted_segment_sum(x, k, 3), f(5, 2), at(0, -1, 2, 0, -1, t=np.int32))
case("at_one_hot", lambda k: ops.one_hot(k, 4, Tensor(1.0), Tensor(0.0)), at(0, -1, 3, 5, t=np.int32))
case("at_fill", lambda x, k: ops.index_fill(x, 0, k, 3.0), f(4, 2), at(1, 1, t=np.int32))


class IndexAdds(nn.Cell):
    def __init__(self):
        super().__init__()
        self.held = Parameter(f(4, 2), name="held")

    def construct(self, k, s):
        return ops.index_add(self.held, k, s, 0) * 2


case("step_index_add", IndexAdds(), at(1, 1, t=np.int32), f(2, 2))
case("at_nd", lambda x, k: ops.gather_nd(x, k), f(4, 3), at(0, 2, 3, 1, t=np.int32).reshape(2, 2))
case("at_take_mode", lambda x, k: x.take(k, axis=0, mode="clip"), f(4, 3), at(7, -9, 2, t=np.int32))
case("at_where_scalar", lambda x: (ops.where(x > 0, 1.0, x), ops.where(x > 0, x, 0)), f(4))
case("at_select_dim", lambda x, k: ops.index_select(x, -1, k), f(2, 3), at(2, 0, t=np.int32))
case("at_flip", lambda x: (ops.flip(x, (0, 1)), ops.swapaxes(x, 0, -1)), f(2, 3, 4))
# ---- empty and single ----
case("empty_sum", lambda x: (x[:, 2:2].sum(), ops.cat((x[:, :0], x), 1)), f(3, 4))
case("single_var", lambda x: (ops.var(x), ops.std(x, 0, 0)), f(3, 1))
case("scalar_tensor", lambda x: (x + 1, x * x, ops.exp(x), x.reshape(1), ops.stack((x, x))), Tensor(1.5, ms.float32))
# ---- windows ----
case("win_avg_pad", lambda x: (ops.avg_pool2d(x, 3, 2, 1), ops.avg_pool2d(x, 3, 2, 1, count_include_pad=False)), f(1, 2, 7, 7))
case("win_avg_ceil", lambda x: ops.avg_pool2d(x, 3, 2, 0, ceil_mode=True), f(1, 2, 8, 8))
case("win_avg_div", lambda x: ops.avg_pool2d(x, 2, 2, divisor_override=3), f(1, 2, 8, 8))
case("win_avg3", lambda x: ops.avg_pool3d(x, 2, 2, 1, ceil_mode=True), f(1, 2, 5, 5, 5))
case("win_max3", lambda x: ops.max_pool3d(x, 3, 2, 1), f(1, 2, 6, 6, 6))
case("win_max3_ceil", lambda x: ops.max_pool3d(x, 2, 2, ceil_mode=True), f(1, 2, 5, 5, 5))
case("win_max1_same", nn.MaxPool1d(3, 2, "same"), f(1, 2, 8))
case("win_same_even", nn.Conv2d(2, 3, 4, 3, "same", has_bias=True), f(1, 2, 9, 8))
case("win_pads", nn.Conv2d(2, 3, (3, 2), (2, 1), "pad", (1, 0, 2, 1), dilation=(1, 2)), f(1, 2, 9, 8))
case("win_depth", nn.Conv2d(4, 8, 3, group=4, pad_mode="valid"), f(1, 4, 6, 6))
case("win_conv3_same", nn.Conv3d(2, 3, (2, 3, 4), (1, 2, 1), "same"), f(1, 2, 5, 6, 7))
case("win_conv_t_out", nn.Conv2dTranspose(2, 3, 3, stride=2, pad_mode="pad", padding=1, output_padding=1), f(1, 2, 4, 4))
case("win_conv_t_same", nn.Conv2dTranspose(2, 3, 4, stride=3, pad_mode="same"), f(1, 2, 4, 5))
case("win_conv3_t", nn.Conv3dTranspose(2, 3, 3, stride=2, pad_mode="same"), f(1, 2, 3, 3, 3))
case("win_conv1_pad", nn.Conv1d(2, 3, 4, 2, "pad", 2, 2), f(1, 2, 12))
case("win_lp", lambda x: ops.lp_pool1d(x, 3, 2), pos(1, 2, 8))
case("win_fold", lambda x: ops.fold(x, Tensor([6, 6], ms.int32), (2, 2), 1, 0, 2), f(1, 2, 4, 9))
case("win_unfold", lambda x: ops.unfold(x, 3, 1, 1, 2), f(1, 2, 6, 6))
case("win_resize_bicubic", lambda x: ops.interpolate(x, (7, 5), mode="bicubic", align_corners=False), f(1, 2, 4, 4))
case("win_resize_bicubic_corners", lambda x: ops.interpolate(x, (7, 5), mode="bicubic", align_corners=True), f(1, 2, 4, 4))
case("win_resize_corners_nearest", lambda x: P.ResizeNearestNeighbor((7, 5), True)(x), f(1, 2, 4, 3))
case("win_resize_linear_half", lambda x: ops.interpolate(x, 7, mode="linear", align_corners=False), f(1, 2, 4))
case("win_resize_area", lambda x: ops.interpolate(x, (2, 2), mode="area"), f(1, 2, 4, 4))
case("win_resize_linear", lambda x: ops.interpolate(x, 7, mode="linear", align_corners=True), f(1, 2, 4))
case("win_resize_exact", lambda x: ops.interpolate(x, (7, 5), mode="nearest-exact"), f(1, 2, 4, 4))
case("win_resize_down", lambda x: (ops.interpolate(x, (3, 2), mode="nearest"), ops.interpolate(x, (3, 2), mode="bilinear")), f(1, 2, 7, 5))
case("win_resize_scale", lambda x: ops.interpolate(x, scale_factor=1.7, mode="nearest", recompute_scale_factor=True), f(1, 2, 7, 5))
case("win_upsample", nn.Upsample(scale_factor=2.0, mode="nearest", recompute_scale_factor=True), f(1, 2, 3, 3))
case("win_grid", lambda x, g: (ops.grid_sample(x, g, "nearest", "zeros", True), ops.grid_sample(x, g, "bilinear", "border", False), ops.grid_sample(x, g, "bilinear", "reflection", True)), f(1, 2, 4, 4), f(1, 3, 3, 2))
case("win_affine", lambda t: ops.affine_grid(t, (1, 2, 3, 4), True), f(1, 2, 3))
case("pad_circular", lambda x: ops.pad(x, (1, 2), "circular"), f(1, 2, 5))
case("pad_negative", lambda x: ops.pad(x, (-1, 2, 1, -1)), f(1, 2, 5))
case("pad_reflect3", lambda x: ops.pad(x, (1, 2, 1, 0), "reflect"), f(1, 2, 5, 4))
case("norm_ln_axes", nn.LayerNorm((3, 4), begin_norm_axis=1, begin_params_axis=1, epsilon=0.01), f(2, 3, 4))
case("norm_ln_part", nn.LayerNorm((4,), begin_norm_axis=-1, begin_params_axis=-1), f(2, 3, 4))
case("norm_gn_eps", nn.GroupNorm(2, 4, eps=0.1), f(2, 4, 3, 3))
case("norm_bn_eps", nn.BatchNorm2d(3, eps=0.1, affine=False), f(2, 3, 2, 2))
case("norm_l2_eps", lambda x: ops.L2Normalize(axis=1, epsilon=0.5)(x), at(0.1, 0.2, 0.0, 0.0, 3.0, 4.0).reshape(3, 2))
# ---- linear algebra and complex numbers ----
POSITIVE = Tensor((lambda a: a @ a.T + 3 * np.eye(4))(np.random.default_rng(3).standard_normal((4, 4))).astype(np.float32))
case("lin_solve", lambda a, c: ops.matrix_solve(a, c), POSITIVE, f(4, 2))
case("lin_triangle", lambda a: (ops.tril(a, -1), ops.triu(a, 1)), f(4, 3))
case("lin_inverse_many", lambda a: ops.inverse(a), ops.stack((POSITIVE, POSITIVE * 2)))
case("lin_cholesky_upper", lambda a: ops.cholesky(a, True), POSITIVE)
case("lin_cholesky_inverse", lambda a: ops.cholesky_inverse(a), POSITIVE)
case("lin_det_big", lambda a: ops.slogdet(a), POSITIVE * 1e12)
case("complex_ops", lambda x, y: (ops.real(ops.conj(ops.Complex()(x, y))), ops.imag(ops.Complex()(x, y) * ops.Complex()(y, x)), ops.angle(ops.Complex()(x, y))), f(3), f(3))
case("f64", lambda a: (ops.exp(a), ops.matmul(a, a.T), a.sum(), ops.softmax(a, 1)), Tensor(np.random.default_rng(4).standard_normal((3, 3))))
case("f16", lambda a: (a * a + 1, ops.matmul(a, a.T), a.sum(1), ops.softmax(a, 1)), Tensor(np.random.default_rng(4).standard_normal((3, 3)).astype(np.float16)))
case("i64", lambda a: (a * a + 1, a // 3, a % 3, a.sum(), a.max(), ops.cumsum(a, 0)), i(3, 3, lo=-9, hi=9, t=np.int64))
case("mean_ints", lambda a: (a.astype(ms.float32).mean(), a.sum(0), ops.prod(a, 1)), i(3, 3, lo=-4, hi=5))
case("bools", lambda a, c: (a & c, a | ~c, a ^ c, a.any(), a.all(), a.sum(), a.astype(ms.float32).mean()), b(3, 4), b(3, 4))
case("edge_nll", lambda x, t, w: (P.NLLLoss("sum", ignore_index=1)(x, t, w), P.NLLLoss("mean")(x, t, w)), LOGITS, at(2, 1, 1, 0, 3, t=np.int32), pos(4))
case("edge_nll_grad", lambda x, t, w: ms.grad(lambda v: P.NLLLoss("mean", ignore_index=1)(v, t, w)[0])(x), LOGITS, at(2, 1, 1, 0, 3, t=np.int32), pos(4))
case("lin_solve_adjoint", lambda a, c: P.MatrixSolve(True)(a, c), f(4, 4), f(4, 2))
case("lin_triangular", lambda a, c: (P.MatrixTriangularSolve(True, False)(a, c), P.MatrixTriangularSolve(False, True)(a, c)), POSITIVE, f(4, 2))
case("lin_det_small", lambda a: (ops.slogdet(a), ops.det(a * 1e3)), POSITIVE * 1e-12)
case("floors", lambda a, c: (ops.floor_div(a, c), ops.floor_mod(a, c), P.Mod()(a, c)), at(1, 2, 3, 0.3, -1, 6, -5.5), at(0.1, 0.1, 0.1, 0.1, 0.1, 0.6, 0.11))
case("win_max3_where", lambda x: ops.max_pool3d(x, 2, 2, return_indices=True), f(1, 2, 4, 4, 4))
case("win_fold_gaps", lambda x: ops.fold(x, Tensor([7, 6], ms.int32), (2, 3), (2, 1), (1, 1), (2, 2)), f(1, 12, 12))
case("win_affine_half", lambda t: ops.affine_grid(t, (2, 2, 3, 4), False), f(2, 2, 3))
