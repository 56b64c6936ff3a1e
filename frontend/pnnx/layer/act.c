// SPDX-License-Identifier: Apache-2.0
/* Activations, and other functions of inputs alone. Names of parameters and their defaults are those
 * of PyTorch's modules and functions. */
#include "frontend/pnnx/pnnx.h"

/* Ops of inputs alone, whatever the inputs are called. */
static bool plain(anfi_layer *l) {
  anfi_layer_ignore(l, "inplace");
  return anfi_layer_result(l, l->code, l->op->nin, l->in, 0, NULL);
}

static bool identity(anfi_layer *l) {
  anfi_layer_ignore(l, "inplace p memory_format copy non_blocking");
  if (!anfi_layer_only(l, "training", "False")) return false;
  l->nresult = 1;
  return anfi_layer_input(l, "input", 0, &l->out[0]);
}

/* One real parameter, whose name differs from the attribute's. */
static bool with_real(anfi_layer *l) {
  static const struct {
    anfi_opcode op;
    const char *key, *name;
    double otherwise;
  } row[] = {{ANF_OP_LeakyRelu, "negative_slope", "alpha", 0.01},
             {ANF_OP_Elu, "alpha", "alpha", 1},
             {ANF_OP_Celu, "alpha", "alpha", 1},
             {ANF_OP_HardShrink, "lambd", "threshold", 0.5},
             {ANF_OP_SoftShrink, "lambd", "threshold", 0.5}};
  anfi_operand x;
  double v;
  size_t k = 0;
  while (row[k].op != l->code) k++;
  anfi_layer_ignore(l, "inplace");
  if (!anfi_layer_tensor(l, "input", 0, &x) ||
      !anfi_layer_real(l, row[k].key, row[k].otherwise, &v))
    return false;
  anf_attr a = {row[k].name, anfi_layer_v_real(l, v), NULL};
  return anfi_layer_result(l, l->code, 1, &x, 1, &a);
}

static bool with_two_reals(anfi_layer *l) {
  bool tanh = l->code == ANF_OP_HardTanh;
  anfi_operand x;
  double lo, hi;
  anfi_layer_ignore(l, "inplace");
  if (!anfi_layer_tensor(l, "input", 0, &x) ||
      !anfi_layer_real(l, tanh ? "min_val" : "threshold", tanh ? -1 : 0, &lo) ||
      !anfi_layer_real(l, tanh ? "max_val" : "value", tanh ? 1 : 0, &hi))
    return false;
  anf_attr a[] = {{tanh ? "low" : "threshold", anfi_layer_v_real(l, lo), NULL},
                  {tanh ? "high" : "value", anfi_layer_v_real(l, hi), NULL}};
  return anfi_layer_result(l, l->code, 1, &x, 2, a);
}

static bool gelu(anfi_layer *l) {
  anfi_operand x;
  const char *how = anfi_layer_text(l, "approximate");
  bool tanh = how && strcmp(how, "tanh") == 0;
  if (!tanh && !anfi_layer_only(l, "approximate", "none")) return false;
  if (!anfi_layer_tensor(l, "input", 0, &x)) return false;
  anf_attr a = {"approximate", anfi_layer_v_bool(l, tanh), NULL};
  return anfi_layer_result(l, ANF_OP_Gelu, 1, &x, 1, &a);
}

/* Above the threshold it is the identity. At 20, PyTorch's own, the formula gives the same but for
 * the last digits of a double. */
static bool softplus(anfi_layer *l) {
  anfi_operand x, soft, far, limit;
  double beta, threshold;
  if (!anfi_layer_tensor(l, "input", 0, &x) || !anfi_layer_real(l, "beta", 1, &beta) ||
      !anfi_layer_real(l, "threshold", 20, &threshold))
    return false;
  if (beta == 0) return anfi_layer_error(l, ANF_E1055, "beta must not be 0");
  anf_attr a = {"beta", anfi_layer_v_real(l, beta), NULL};
  if (threshold >= 20) return anfi_layer_result(l, ANF_OP_Softplus, 1, &x, 1, &a);
  limit = anfi_operand_value(l->t->cx, anfi_layer_v_real(l, threshold / beta));
  return anfi_layer_op(l, ANF_OP_Softplus, 1, &x, 1, &a, &soft) &&
         anfi_layer_op2(l, beta > 0 ? ANF_OP_Greater : ANF_OP_Less, &x, &limit, &far) &&
         anfi_layer_result(l, ANF_OP_Where, 3, (const anfi_operand[]){far, x, soft}, 0, NULL);
}

/* One slope, or one a channel, which is dim 1. */
static bool prelu(anfi_layer *l) {
  anfi_operand in[2];
  if (!anfi_layer_tensor(l, "input", 0, &in[0]) ||
      !anfi_layer_weight_or_input(l, "weight", 1, &in[1]) || !anfi_layer_need(l, &in[1], "weight"))
    return false;
  anfi_layer_ignore(l, "num_parameters");
  const anf_type *w = in[1].type;
  if (w->n == 1 && w->dims[0] != 1 && in[0].type->n > 2) {
    int64_t dims[ANF_MAX_RANK];
    for (size_t i = 0; i + 1 < in[0].type->n; i++) dims[i] = i ? 1 : w->dims[0];
    if (!anfi_layer_reshape(l, &in[1], in[0].type->n - 1, dims, &in[1])) return false;
  }
  return anfi_layer_result(l, ANF_OP_Prelu, 2, in, 0, NULL);
}

/* Without dim PyTorch takes 0 for ranks 0, 1 and 3, else 1. */
static bool softmax(anfi_layer *l) {
  anfi_operand x;
  int64_t dim;
  if (!anfi_layer_tensor(l, "input", 0, &x)) return false;
  bool two_d = strcmp(l->op->type, "nn.Softmax2d") == 0;
  int64_t otherwise = x.type->n == 0 || x.type->n == 1 || x.type->n == 3 ? 0 : 1;
  if (two_d) otherwise = -3;
  if (!anfi_layer_int(l, "dim", otherwise, &dim)) return false;
  if (!anfi_layer_only(l, "dtype", "None")) return false;
  bool least = strstr(l->op->type, "oftmin") != NULL;
  if (least && !anfi_layer_op1(l, ANF_OP_Neg, &x, &x)) return false;
  l->nresult = 1;
  return anfi_layer_along(l, l->code, 1, &x, dim, &l->out[0]);
}

/* The first half times the sigmoid of the second. */
static bool glu(anfi_layer *l) {
  anfi_operand x, half[2];
  size_t axis;
  if (!anfi_layer_tensor(l, "input", 0, &x) || !anfi_layer_axis(l, &x, "dim", -1, &axis))
    return false;
  int64_t n = x.type->dims[axis];
  if (n < 0 || n % 2) return anfi_layer_error(l, ANF_E1055, "the dim that is halved must be even");
  return anfi_layer_slice(l, &x, (int64_t)axis, 0, n / 2, &half[0]) &&
         anfi_layer_slice(l, &x, (int64_t)axis, n / 2, n, &half[1]) &&
         anfi_layer_op1(l, ANF_OP_Sigmoid, &half[1], &half[1]) &&
         anfi_layer_result(l, ANF_OP_Mul, 2, half, 0, NULL);
}

/* Outside of training, the slope is the mean of its bounds. */
static bool rrelu(anfi_layer *l) {
  anfi_operand x;
  double lower, upper;
  anfi_layer_ignore(l, "inplace");
  if (!anfi_layer_tensor(l, "input", 0, &x) || !anfi_layer_only(l, "training", "False") ||
      !anfi_layer_real(l, "lower", 1.0 / 8, &lower) ||
      !anfi_layer_real(l, "upper", 1.0 / 3, &upper))
    return false;
  anf_attr a = {"alpha", anfi_layer_v_real(l, (lower + upper) / 2), NULL};
  return anfi_layer_result(l, ANF_OP_LeakyRelu, 1, &x, 1, &a);
}

const anfi_layer_row anfi_layers_act[] = {
    ANFI_LAYER("nn.GLU", glu, Sigmoid),
    ANFI_LAYER("F.glu", glu, Sigmoid),
    ANFI_LAYER("nn.RReLU", rrelu, LeakyRelu),
    ANFI_LAYER("F.rrelu", rrelu, LeakyRelu),
    ANFI_LAYER("nn.Softmin", softmax, Softmax),
    ANFI_LAYER("F.softmin", softmax, Softmax),
    ANFI_LAYER("nn.Dropout3d", identity, Identity),
    ANFI_LAYER("nn.AlphaDropout", identity, Identity),
    ANFI_LAYER("nn.FeatureAlphaDropout", identity, Identity),
    ANFI_LAYER("F.dropout2d", identity, Identity),
    ANFI_LAYER("F.dropout3d", identity, Identity),
    ANFI_LAYER("F.alpha_dropout", identity, Identity),
    ANFI_LAYER("F.feature_alpha_dropout", identity, Identity),
    ANFI_LAYER("Tensor.clone", identity, Identity),
    ANFI_LAYER("torch.positive", identity, Identity),
    ANFI_LAYER("nn.Dropout", identity, Identity),
    ANFI_LAYER("nn.Dropout2d", identity, Identity),
    ANFI_LAYER("F.dropout", identity, Identity),
    ANFI_LAYER("nn.Identity", identity, Identity),
    ANFI_LAYER("Tensor.contiguous", identity, Identity),
    ANFI_LAYER("Tensor.detach", identity, Identity),
    ANFI_LAYER("torch.clone", identity, Identity),
    ANFI_LAYER("nn.LeakyReLU", with_real, LeakyRelu),
    ANFI_LAYER("F.leaky_relu", with_real, LeakyRelu),
    ANFI_LAYER("nn.ELU", with_real, Elu),
    ANFI_LAYER("F.elu", with_real, Elu),
    ANFI_LAYER("nn.CELU", with_real, Celu),
    ANFI_LAYER("F.celu", with_real, Celu),
    ANFI_LAYER("nn.Hardshrink", with_real, HardShrink),
    ANFI_LAYER("F.hardshrink", with_real, HardShrink),
    ANFI_LAYER("nn.Softshrink", with_real, SoftShrink),
    ANFI_LAYER("F.softshrink", with_real, SoftShrink),
    ANFI_LAYER("nn.Hardtanh", with_two_reals, HardTanh),
    ANFI_LAYER("F.hardtanh", with_two_reals, HardTanh),
    ANFI_LAYER("nn.Threshold", with_two_reals, Threshold),
    ANFI_LAYER("F.threshold", with_two_reals, Threshold),
    ANFI_LAYER("nn.GELU", gelu, Gelu),
    ANFI_LAYER("F.gelu", gelu, Gelu),
    ANFI_LAYER("nn.Softplus", softplus, Softplus),
    ANFI_LAYER("F.softplus", softplus, Softplus),
    ANFI_LAYER("nn.PReLU", prelu, Prelu),
    ANFI_LAYER("F.prelu", prelu, Prelu),
    ANFI_LAYER("nn.Softmax", softmax, Softmax),
    ANFI_LAYER("nn.Softmax2d", softmax, Softmax),
    ANFI_LAYER("F.softmax", softmax, Softmax),
    ANFI_LAYER("torch.softmax", softmax, Softmax),
    ANFI_LAYER("nn.LogSoftmax", softmax, LogSoftmax),
    ANFI_LAYER("F.log_softmax", softmax, LogSoftmax),
    ANFI_LAYER("torch.log_softmax", softmax, LogSoftmax),
    ANFI_LAYER("nn.ReLU", plain, Relu),
    ANFI_LAYER("F.relu", plain, Relu),
    ANFI_LAYER("nn.ReLU6", plain, Relu6),
    ANFI_LAYER("F.relu6", plain, Relu6),
    ANFI_LAYER("nn.SiLU", plain, Silu),
    ANFI_LAYER("F.silu", plain, Silu),
    ANFI_LAYER("nn.Sigmoid", plain, Sigmoid),
    ANFI_LAYER("F.sigmoid", plain, Sigmoid),
    ANFI_LAYER("torch.sigmoid", plain, Sigmoid),
    ANFI_LAYER("nn.Hardsigmoid", plain, HardSigmoid),
    ANFI_LAYER("F.hardsigmoid", plain, HardSigmoid),
    ANFI_LAYER("nn.Hardswish", plain, HardSwish),
    ANFI_LAYER("F.hardswish", plain, HardSwish),
    ANFI_LAYER("nn.Tanh", plain, Tanh),
    ANFI_LAYER("F.tanh", plain, Tanh),
    ANFI_LAYER("torch.tanh", plain, Tanh),
    ANFI_LAYER("nn.Mish", plain, Mish),
    ANFI_LAYER("F.mish", plain, Mish),
    ANFI_LAYER("nn.SELU", plain, Selu),
    ANFI_LAYER("F.selu", plain, Selu),
    ANFI_LAYER("nn.Softsign", plain, Softsign),
    ANFI_LAYER("F.softsign", plain, Softsign),
    ANFI_LAYER("nn.LogSigmoid", plain, LogSigmoid),
    ANFI_LAYER("F.logsigmoid", plain, LogSigmoid),
    ANFI_LAYER("Tensor.type_as", plain, CastLike),
    ANFI_LAYER("Tensor.expand_as", plain, BroadcastLike),
    ANFI_LAYER("torch.erfc", plain, Erfc),
    ANFI_LAYER("torch.exp2", plain, Exp2),
    ANFI_LAYER("torch.log2", plain, Log2),
    ANFI_LAYER("torch.isnan", plain, IsNan),
    ANFI_LAYER("torch.isinf", plain, IsInf),
    ANFI_LAYER("torch.lgamma", plain, Lgamma),
    ANFI_LAYER("torch.det", plain, Det),
    ANFI_LAYER("torch.inverse", plain, Inverse),
    {NULL, NULL, ANF_OP_NONE},
};
