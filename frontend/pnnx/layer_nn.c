// SPDX-License-Identifier: Apache-2.0
/* Layers with weights, pools and activations. Names of parameters and their defaults are those of
 * PyTorch's modules and functions. */
#include "frontend/pnnx/pnnx.h"

static bool contradicts(const anfi_layer *l, const char *key) {
  return anfi_layer_error(l, ANF_E1055,
                          anfi_sprintf(anfi_scratch(l->t->cx),
                                       "the parameter %s contradicts the shape of a weight", key));
}

/* A parameter that repeats what a weight's shape says. */
static bool agrees(const anfi_layer *l, const char *key, int64_t size) {
  int64_t v;
  return anfi_layer_int(l, key, size, &v) && (v == size || contradicts(l, key));
}

static bool tensor_input(const anfi_layer *l, const char *key, size_t place, anfi_operand *out) {
  if (!anfi_layer_input(l, key, place, out)) return false;
  if (out->kind == ANFI_OPERAND_TENSOR && out->type && anfi_is_tensor(out->type)) return true;
  return anfi_layer_error(l, ANF_E1055, "the type of its input is not known, or is no tensor");
}

/* A weight of a module, or an input of a function; absent if it is not given. */
static bool weight_or_input(const anfi_layer *l, const char *key, size_t place, anfi_operand *out) {
  *out = (anfi_operand){.kind = ANFI_OPERAND_NONE};
  if (anfi_layer_has_weight(l, key)) return anfi_layer_weight(l, key, out);
  size_t unnamed = 0;
  for (uint32_t i = 0; i < l->op->nin; i++)
    if (l->op->in_name[i] && strcmp(l->op->in_name[i], key) == 0) return *out = l->in[i], true;
    else unnamed += !l->op->in_name[i];
  anfi_layer_ignore(l, key);
  return place >= unnamed || anfi_layer_input(l, key, place, out);
}

static bool need(const anfi_layer *l, const anfi_operand *x, const char *key) {
  if (x->kind == ANFI_OPERAND_TENSOR && x->type) return true;
  return anfi_fail(l->t->cx, l->t->loc, ANF_E1051, l->op->type, "weight", key);
}

static bool result(anfi_layer *l, anfi_opcode op, size_t n, const anfi_operand *in, size_t nattr,
                   const anf_attr *attrs) {
  l->nresult = 1;
  return anfi_layer_op(l, op, n, in, nattr, attrs, &l->out[0]);
}

/* How many operands are there, when those at the end may be absent. */
static size_t present(const anfi_operand *in, size_t n) {
  while (n && in[n - 1].kind == ANFI_OPERAND_NONE) n--;
  return n;
}

/* ---- windows ---- */

typedef struct {
  anf_attr at[8];
  size_t n;
} attrs;

static void add(attrs *a, const char *name, anf_value *v) {
  a->at[a->n++] = (anf_attr){name, v, NULL};
}

/* One integer, or one for each spatial dim. */
static bool add_ints(const anfi_layer *l, attrs *a, const char *key, const char *name) {
  int64_t v[ANF_MAX_RANK];
  size_t n;
  if (!anfi_layer_given(l, key)) return true;
  if (!anfi_layer_ints(l, key, &n, v)) return false;
  add(a, name, n == 1 ? anfi_layer_v_int(l, v[0]) : anfi_layer_v_ints(l, n, v));
  return true;
}

static bool is_word(const anfi_layer *l, const char *key) {
  const anfi_parameter *p = anfi_pnnx_param(l->op, key);
  return p && !p->list && p->n && p->item[0].kind == ANFI_ITEM_STRING;
}

static bool padding(const anfi_layer *l, attrs *a) {
  if (!is_word(l, "padding")) return add_ints(l, a, "padding", "padding");
  const char *w = anfi_layer_text(l, "padding");
  if (strcmp(w, "same") != 0 && strcmp(w, "valid") != 0)
    return anfi_layer_only(l, "padding", "same");
  add(a, "padding", anfi_layer_v_text(l, w));
  return true;
}

/* padding_mode other than zeros: the input is padded first. */
static bool pad_first(const anfi_layer *l, const char *mode, size_t spatial, anfi_operand *x) {
  static const char *const ours[][2] = {
      {"reflect", "reflect"}, {"replicate", "edge"}, {"circular", "wrap"}};
  int64_t p[ANF_MAX_RANK], width[2 * ANF_MAX_RANK] = {0};
  size_t n, k = 0;
  while (k < ANFI_LEN(ours) && strcmp(ours[k][0], mode) != 0) k++;
  if (k == ANFI_LEN(ours) || is_word(l, "padding"))
    return anfi_layer_only(l, "padding_mode", "zeros");
  if (!anfi_layer_ints(l, "padding", &n, p)) return false;
  for (size_t i = 0; i < 2 * spatial; i++) width[4 + i] = p[n == 1 ? 0 : i / 2];
  anf_attr a[] = {{"pad_width", anfi_layer_v_ints(l, 4 + 2 * spatial, width), NULL},
                  {"mode", anfi_layer_v_text(l, ours[k][1]), NULL}};
  return anfi_layer_op(l, ANF_OP_Pad, 1, x, 2, a, x);
}

static bool convolution_shapes(const anfi_layer *l, const anfi_operand *w, int64_t groups,
                               bool transposed) {
  int64_t k[ANF_MAX_RANK];
  size_t n = 0;
  const anf_type *t = w->type;
  if (t->n < 3) return anfi_layer_error(l, ANF_E1055, "the weight has too few dims");
  if (groups < 1) return anfi_layer_error(l, ANF_E1055, "groups must be positive");
  if (!agrees(l, transposed ? "in_channels" : "out_channels", t->dims[0])) return false;
  if (!agrees(l, transposed ? "out_channels" : "in_channels", t->dims[1] * groups)) return false;
  if (!anfi_layer_given(l, "kernel_size")) return true;
  if (!anfi_layer_ints(l, "kernel_size", &n, k)) return false;
  for (size_t i = 0; i < t->n - 2; i++)
    if (t->dims[i + 2] != k[n == 1 ? 0 : i < n ? i : 0]) return contradicts(l, "kernel_size");
  return true;
}

/* An input without a batch dim gets one for the time of the operation. */
static bool add_batch(const anfi_layer *l, size_t rank, anfi_operand *x, bool *added) {
  *added = x->type->n + 1 == rank;
  if (!*added) return true;
  anf_attr a = {"axis", anfi_layer_v_int(l, 0), NULL};
  return anfi_layer_op(l, ANF_OP_ExpandDims, 1, x, 1, &a, x);
}

static bool drop_batch(const anfi_layer *l, bool added) {
  anf_attr a = {"axis", anfi_layer_v_int(l, 0), NULL};
  return !added || anfi_layer_op(l, ANF_OP_Squeeze, 1, &l->out[0], 1, &a, &l->out[0]);
}

static bool convolution(anfi_layer *l) {
  anfi_operand in[3];
  attrs a = {.n = 0};
  int64_t groups;
  bool transposed = l->code >= ANF_OP_ConvTranspose1D && l->code <= ANF_OP_ConvTranspose3D, added;
  if (!tensor_input(l, "input", 0, &in[0]) || !weight_or_input(l, "weight", 1, &in[1]) ||
      !need(l, &in[1], "weight") || !weight_or_input(l, "bias", 2, &in[2]) ||
      !anfi_layer_int(l, "groups", 1, &groups) ||
      !convolution_shapes(l, &in[1], groups, transposed))
    return false;
  const char *mode = anfi_layer_text(l, "padding_mode");
  anfi_layer_ignore(l, "bias");
  if (!add_batch(l, in[1].type->n, &in[0], &added)) return false;
  if (mode && strcmp(mode, "zeros") != 0) {
    if (!pad_first(l, mode, in[1].type->n - 2, &in[0])) return false;
  } else if (!padding(l, &a)) return false;
  if (!add_ints(l, &a, "stride", "stride") || !add_ints(l, &a, "dilation", "dilation"))
    return false;
  if (transposed && !add_ints(l, &a, "output_padding", "output_padding")) return false;
  if (transposed && !anfi_layer_only(l, "output_size", "None")) return false;
  add(&a, "groups", anfi_layer_v_int(l, groups));
  return result(l, l->code, present(in, 3), in, a.n, a.at) && drop_batch(l, added);
}

static bool pool(anfi_layer *l) {
  anfi_operand x;
  attrs a = {.n = 0};
  bool ceil_mode, include, added;
  bool mean = l->code >= ANF_OP_AvgPool1D && l->code <= ANF_OP_AvgPool3D;
  size_t spatial = (size_t)(l->code - (mean ? ANF_OP_AvgPool1D : ANF_OP_MaxPool1D)) + 1;
  if (!tensor_input(l, "input", 0, &x) || !add_batch(l, spatial + 2, &x, &added) ||
      !add_ints(l, &a, "kernel_size", "kernel") || !add_ints(l, &a, "stride", "stride") ||
      !add_ints(l, &a, "padding", "padding") || !anfi_layer_bool(l, "ceil_mode", false, &ceil_mode))
    return false;
  add(&a, "ceil_mode", anfi_layer_v_bool(l, ceil_mode));
  if (mean) {
    if (!anfi_layer_bool(l, "count_include_pad", true, &include)) return false;
    if (!anfi_layer_only(l, "divisor_override", "None")) return false;
    add(&a, "count_include_pad", anfi_layer_v_bool(l, include));
  } else if (!add_ints(l, &a, "dilation", "dilation") ||
             !anfi_layer_only(l, "return_indices", "False"))
    return false;
  return result(l, l->code, 1, &x, a.n, a.at) && drop_batch(l, added);
}

/* None in output_size keeps the input's size. */
static bool adaptive_pool(anfi_layer *l) {
  anfi_operand x, size;
  int64_t v[3];
  bool added;
  size_t spatial = (size_t)(l->code - ANF_OP_AdaptiveAvgPool1D) + 1;
  if (!tensor_input(l, "input", 0, &x) || !add_batch(l, spatial + 2, &x, &added) ||
      !anfi_layer_arg(l, "output_size", &size))
    return false;
  if (x.type->n != spatial + 2)
    return anfi_layer_error(l, ANF_E1055, "its input has the wrong rank");
  for (size_t i = 0; i < spatial; i++) {
    const anfi_operand *o = size.kind != ANFI_OPERAND_LIST ? &size
                            : i < size.n                   ? &size.item[i]
                                                           : &size;
    if (o->kind == ANFI_OPERAND_NONE) v[i] = x.type->dims[i + 2];
    else if (!anfi_operand_int(o, &v[i])) v[i] = -1;
    if (v[i] < 0)
      return anfi_layer_error(l, ANF_E1055,
                              "output_size must be known integers, or None of a known dim");
  }
  anf_attr a = {"shape", anfi_layer_v_ints(l, spatial, v), NULL};
  return result(l, l->code, 1, &x, 1, &a) && drop_batch(l, added);
}

/* ---- linear, embedding, norms ---- */

static bool linear(anfi_layer *l) {
  anfi_operand in[3];
  if (!tensor_input(l, "input", 0, &in[0]) || !weight_or_input(l, "weight", 1, &in[1]) ||
      !need(l, &in[1], "weight") || !weight_or_input(l, "bias", 2, &in[2]))
    return false;
  anfi_layer_ignore(l, "bias");
  if (in[1].type->n != 2) return anfi_layer_error(l, ANF_E1055, "its weight must have two dims");
  if (!agrees(l, "in_features", in[1].type->dims[1]) ||
      !agrees(l, "out_features", in[1].type->dims[0]))
    return false;
  return result(l, ANF_OP_Linear, present(in, 3), in, 0, NULL);
}

static bool embedding(anfi_layer *l) {
  anfi_operand in[2];
  if (!tensor_input(l, "input", 0, &in[1]) || !weight_or_input(l, "weight", 1, &in[0]) ||
      !need(l, &in[0], "weight") || !anfi_layer_only(l, "max_norm", "None"))
    return false;
  anfi_layer_ignore(l, "sparse padding_idx scale_grad_by_freq norm_type");
  if (!agrees(l, "num_embeddings", in[0].type->dims[0]) ||
      !agrees(l, "embedding_dim", in[0].type->dims[1]))
    return false;
  return result(l, ANF_OP_Embedding, 2, in, 0, NULL);
}

static bool eps(const anfi_layer *l, double otherwise, attrs *a) {
  double v;
  if (!anfi_layer_real(l, "eps", otherwise, &v)) return false;
  add(a, "eps", anfi_layer_v_real(l, v));
  return true;
}

/* RMSNorm without eps takes the smallest step of its type. */
static bool layer_norm(anfi_layer *l) {
  anfi_operand in[3];
  attrs a = {.n = 0};
  int64_t shape[ANF_MAX_RANK], axes[ANF_MAX_RANK];
  size_t n;
  bool rms = l->code == ANF_OP_RMSNorm;
  if (!tensor_input(l, "input", 0, &in[0]) || !weight_or_input(l, "weight", 1, &in[1]) ||
      !weight_or_input(l, "bias", 2, &in[2]) || !anfi_layer_ints(l, "normalized_shape", &n, shape))
    return false;
  anfi_layer_ignore(l, "elementwise_affine bias");
  for (size_t i = 0; i < n; i++) axes[i] = (int64_t)i - (int64_t)n;
  add(&a, "axis", anfi_layer_v_ints(l, n, axes));
  if (!eps(l, rms ? 1.1920928955078125e-07 : 1e-5, &a)) return false;
  return result(l, l->code, present(in, rms ? 2 : 3), in, a.n, a.at);
}

static bool group_norm(anfi_layer *l) {
  anfi_operand in[3];
  attrs a = {.n = 0};
  int64_t groups = 0;
  bool instance = l->code == ANF_OP_InstanceNorm;
  if (!tensor_input(l, "input", 0, &in[0]) || !weight_or_input(l, "weight", 1, &in[1]) ||
      !weight_or_input(l, "bias", 2, &in[2]) || !eps(l, 1e-5, &a))
    return false;
  if (instance && !anfi_layer_only(l, "track_running_stats", "False")) return false;
  const char *key = anfi_layer_given(l, "num_groups") ? "num_groups" : "groups";
  if (!instance && !anfi_layer_need_int(l, key, &groups)) return false;
  if (!instance) add(&a, "groups", anfi_layer_v_int(l, groups));
  anfi_layer_ignore(l, "num_channels num_features affine momentum");
  return result(l, l->code, present(in, 3), in, a.n, a.at);
}

static bool batch_norm(anfi_layer *l) {
  anfi_operand in[5];
  attrs a = {.n = 0};
  if (!tensor_input(l, "input", 0, &in[0]) || !weight_or_input(l, "running_mean", 1, &in[3]) ||
      !weight_or_input(l, "running_var", 2, &in[4]) || !weight_or_input(l, "weight", 3, &in[1]) ||
      !weight_or_input(l, "bias", 4, &in[2]) || !need(l, &in[3], "running_mean") ||
      !need(l, &in[4], "running_var") || !eps(l, 1e-5, &a) ||
      !anfi_layer_only(l, "training", "False"))
    return false;
  anfi_layer_ignore(l, "affine momentum track_running_stats");
  if (!agrees(l, "num_features", in[3].type->dims[0])) return false;
  for (size_t i = 1; i < 3; i++)
    if (in[i].kind == ANFI_OPERAND_NONE &&
        !anfi_layer_op1(l, i == 1 ? ANF_OP_OnesLike : ANF_OP_ZerosLike, &in[3], &in[i]))
      return false;
  return result(l, ANF_OP_BatchNorm, 5, in, a.n, a.at);
}

/* ---- activations ---- */

/* Ops of inputs alone, whatever the inputs are called. */
static bool plain(anfi_layer *l) {
  anfi_layer_ignore(l, "inplace");
  return result(l, l->code, l->op->nin, l->in, 0, NULL);
}

static bool identity(anfi_layer *l) {
  anfi_layer_ignore(l, "inplace p training memory_format copy non_blocking");
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
  if (!tensor_input(l, "input", 0, &x) || !anfi_layer_real(l, row[k].key, row[k].otherwise, &v))
    return false;
  anf_attr a = {row[k].name, anfi_layer_v_real(l, v), NULL};
  return result(l, l->code, 1, &x, 1, &a);
}

static bool with_two_reals(anfi_layer *l) {
  bool tanh = l->code == ANF_OP_HardTanh;
  anfi_operand x;
  double lo, hi;
  anfi_layer_ignore(l, "inplace");
  if (!tensor_input(l, "input", 0, &x) ||
      !anfi_layer_real(l, tanh ? "min_val" : "threshold", tanh ? -1 : 0, &lo) ||
      !anfi_layer_real(l, tanh ? "max_val" : "value", tanh ? 1 : 0, &hi))
    return false;
  anf_attr a[] = {{tanh ? "low" : "threshold", anfi_layer_v_real(l, lo), NULL},
                  {tanh ? "high" : "value", anfi_layer_v_real(l, hi), NULL}};
  return result(l, l->code, 1, &x, 2, a);
}

static bool gelu(anfi_layer *l) {
  anfi_operand x;
  const char *how = anfi_layer_text(l, "approximate");
  bool tanh = how && strcmp(how, "tanh") == 0;
  if (!tanh && !anfi_layer_only(l, "approximate", "none")) return false;
  if (!tensor_input(l, "input", 0, &x)) return false;
  anf_attr a = {"approximate", anfi_layer_v_bool(l, tanh), NULL};
  return result(l, ANF_OP_Gelu, 1, &x, 1, &a);
}

static bool softplus(anfi_layer *l) {
  anfi_operand x;
  double beta, threshold;
  if (!tensor_input(l, "input", 0, &x) || !anfi_layer_real(l, "beta", 1, &beta) ||
      !anfi_layer_real(l, "threshold", 20, &threshold))
    return false;
  anf_attr a = {"beta", anfi_layer_v_real(l, beta), NULL};
  return result(l, ANF_OP_Softplus, 1, &x, 1, &a);
}

/* One slope, or one a channel, which is dim 1. */
static bool prelu(anfi_layer *l) {
  anfi_operand in[2];
  if (!tensor_input(l, "input", 0, &in[0]) || !weight_or_input(l, "weight", 1, &in[1]) ||
      !need(l, &in[1], "weight"))
    return false;
  anfi_layer_ignore(l, "num_parameters");
  const anf_type *w = in[1].type;
  if (w->n == 1 && w->dims[0] != 1 && in[0].type->n > 2) {
    int64_t dims[ANF_MAX_RANK];
    for (size_t i = 0; i + 1 < in[0].type->n; i++) dims[i] = i ? 1 : w->dims[0];
    if (!anfi_layer_reshape(l, &in[1], in[0].type->n - 1, dims, &in[1])) return false;
  }
  return result(l, ANF_OP_Prelu, 2, in, 0, NULL);
}

/* Without dim PyTorch takes 0 for ranks 0, 1 and 3, else 1. */
static bool softmax(anfi_layer *l) {
  anfi_operand x;
  int64_t dim;
  if (!tensor_input(l, "input", 0, &x)) return false;
  bool two_d = strcmp(l->op->type, "nn.Softmax2d") == 0;
  int64_t otherwise = x.type->n == 0 || x.type->n == 1 || x.type->n == 3 ? 0 : 1;
  if (two_d) otherwise = -3;
  if (!anfi_layer_int(l, "dim", otherwise, &dim)) return false;
  if (!anfi_layer_only(l, "dtype", "None")) return false;
  anf_attr a = {"axis", anfi_layer_v_int(l, dim), NULL};
  return result(l, l->code, 1, &x, 1, &a);
}

static bool matmul(anfi_layer *l) {
  anfi_operand in[2];
  const char *second = strcmp(l->op->type, "torch.matmul") == 0 ? "other" : "mat2";
  if (!tensor_input(l, "input", 0, &in[0]) || !tensor_input(l, second, 1, &in[1])) return false;
  return result(l, ANF_OP_MatMul, 2, in, 0, NULL);
}

static bool attention(anfi_layer *l) {
  anfi_operand in[4];
  attrs a = {.n = 0};
  bool causal;
  double drop, scale;
  if (!tensor_input(l, "query", 0, &in[0]) || !tensor_input(l, "key", 1, &in[1]) ||
      !tensor_input(l, "value", 2, &in[2]) || !weight_or_input(l, "attn_mask", 3, &in[3]) ||
      !anfi_layer_bool(l, "is_causal", false, &causal) ||
      !anfi_layer_real(l, "dropout_p", 0, &drop))
    return false;
  if (drop != 0) return anfi_layer_error(l, ANF_E1053, "dropout");
  if (!anfi_layer_only(l, "enable_gqa", "False")) return false;
  add(&a, "causal", anfi_layer_v_bool(l, causal));
  if (anfi_layer_given(l, "scale")) {
    if (!anfi_layer_real(l, "scale", 1, &scale)) return false;
    add(&a, "scale", anfi_layer_v_real(l, scale));
  }
  return result(l, ANF_OP_Attention, present(in, 4), in, a.n, a.at);
}

static bool normalize(anfi_layer *l) {
  anfi_operand x;
  int64_t dim;
  double p, e;
  if (!tensor_input(l, "input", 0, &x) || !anfi_layer_int(l, "dim", 1, &dim) ||
      !anfi_layer_real(l, "p", 2, &p) || !anfi_layer_real(l, "eps", 1e-12, &e))
    return false;
  if (p != 2) return anfi_layer_error(l, ANF_E1053, "p other than 2");
  anf_attr a[] = {{"axis", anfi_layer_v_int(l, dim), NULL}, {"eps", anfi_layer_v_real(l, e), NULL}};
  return result(l, ANF_OP_L2Normalize, 1, &x, 2, a);
}

#define ROW(type, make, op)                                                                        \
  { type, make, ANF_OP_##op }
const anfi_layer_row anfi_layers_nn[] = {
    ROW("nn.Conv1d", convolution, Conv1D),
    ROW("F.conv1d", convolution, Conv1D),
    ROW("nn.Conv2d", convolution, Conv2D),
    ROW("F.conv2d", convolution, Conv2D),
    ROW("nn.Conv3d", convolution, Conv3D),
    ROW("F.conv3d", convolution, Conv3D),
    ROW("nn.ConvTranspose1d", convolution, ConvTranspose1D),
    ROW("F.conv_transpose1d", convolution, ConvTranspose1D),
    ROW("nn.ConvTranspose2d", convolution, ConvTranspose2D),
    ROW("F.conv_transpose2d", convolution, ConvTranspose2D),
    ROW("nn.ConvTranspose3d", convolution, ConvTranspose3D),
    ROW("F.conv_transpose3d", convolution, ConvTranspose3D),
    ROW("nn.MaxPool1d", pool, MaxPool1D),
    ROW("F.max_pool1d", pool, MaxPool1D),
    ROW("nn.MaxPool2d", pool, MaxPool2D),
    ROW("F.max_pool2d", pool, MaxPool2D),
    ROW("nn.MaxPool3d", pool, MaxPool3D),
    ROW("F.max_pool3d", pool, MaxPool3D),
    ROW("nn.AvgPool1d", pool, AvgPool1D),
    ROW("F.avg_pool1d", pool, AvgPool1D),
    ROW("nn.AvgPool2d", pool, AvgPool2D),
    ROW("F.avg_pool2d", pool, AvgPool2D),
    ROW("nn.AvgPool3d", pool, AvgPool3D),
    ROW("F.avg_pool3d", pool, AvgPool3D),
    ROW("nn.AdaptiveAvgPool1d", adaptive_pool, AdaptiveAvgPool1D),
    ROW("F.adaptive_avg_pool1d", adaptive_pool, AdaptiveAvgPool1D),
    ROW("nn.AdaptiveAvgPool2d", adaptive_pool, AdaptiveAvgPool2D),
    ROW("F.adaptive_avg_pool2d", adaptive_pool, AdaptiveAvgPool2D),
    ROW("nn.AdaptiveAvgPool3d", adaptive_pool, AdaptiveAvgPool3D),
    ROW("F.adaptive_avg_pool3d", adaptive_pool, AdaptiveAvgPool3D),
    ROW("nn.Linear", linear, Linear),
    ROW("F.linear", linear, Linear),
    ROW("nn.Embedding", embedding, Embedding),
    ROW("F.embedding", embedding, Embedding),
    ROW("nn.LayerNorm", layer_norm, LayerNorm),
    ROW("F.layer_norm", layer_norm, LayerNorm),
    ROW("nn.RMSNorm", layer_norm, RMSNorm),
    ROW("F.rms_norm", layer_norm, RMSNorm),
    ROW("nn.GroupNorm", group_norm, GroupNorm),
    ROW("F.group_norm", group_norm, GroupNorm),
    ROW("nn.InstanceNorm2d", group_norm, InstanceNorm),
    ROW("nn.BatchNorm1d", batch_norm, BatchNorm),
    ROW("nn.BatchNorm2d", batch_norm, BatchNorm),
    ROW("nn.BatchNorm3d", batch_norm, BatchNorm),
    ROW("F.batch_norm", batch_norm, BatchNorm),
    ROW("nn.Dropout", identity, Identity),
    ROW("nn.Dropout2d", identity, Identity),
    ROW("F.dropout", identity, Identity),
    ROW("nn.Identity", identity, Identity),
    ROW("Tensor.contiguous", identity, Identity),
    ROW("Tensor.detach", identity, Identity),
    ROW("torch.clone", identity, Identity),
    ROW("nn.LeakyReLU", with_real, LeakyRelu),
    ROW("F.leaky_relu", with_real, LeakyRelu),
    ROW("nn.ELU", with_real, Elu),
    ROW("F.elu", with_real, Elu),
    ROW("nn.CELU", with_real, Celu),
    ROW("F.celu", with_real, Celu),
    ROW("nn.Hardshrink", with_real, HardShrink),
    ROW("F.hardshrink", with_real, HardShrink),
    ROW("nn.Softshrink", with_real, SoftShrink),
    ROW("F.softshrink", with_real, SoftShrink),
    ROW("nn.Hardtanh", with_two_reals, HardTanh),
    ROW("F.hardtanh", with_two_reals, HardTanh),
    ROW("nn.Threshold", with_two_reals, Threshold),
    ROW("F.threshold", with_two_reals, Threshold),
    ROW("nn.GELU", gelu, Gelu),
    ROW("F.gelu", gelu, Gelu),
    ROW("nn.Softplus", softplus, Softplus),
    ROW("F.softplus", softplus, Softplus),
    ROW("nn.PReLU", prelu, Prelu),
    ROW("F.prelu", prelu, Prelu),
    ROW("nn.Softmax", softmax, Softmax),
    ROW("nn.Softmax2d", softmax, Softmax),
    ROW("F.softmax", softmax, Softmax),
    ROW("torch.softmax", softmax, Softmax),
    ROW("nn.LogSoftmax", softmax, LogSoftmax),
    ROW("F.log_softmax", softmax, LogSoftmax),
    ROW("torch.log_softmax", softmax, LogSoftmax),
    ROW("torch.matmul", matmul, MatMul),
    ROW("torch.mm", matmul, MatMul),
    ROW("torch.bmm", matmul, MatMul),
    ROW("F.scaled_dot_product_attention", attention, Attention),
    ROW("F.normalize", normalize, L2Normalize),
    ROW("nn.ReLU", plain, Relu),
    ROW("F.relu", plain, Relu),
    ROW("nn.ReLU6", plain, Relu6),
    ROW("F.relu6", plain, Relu6),
    ROW("nn.SiLU", plain, Silu),
    ROW("F.silu", plain, Silu),
    ROW("nn.Sigmoid", plain, Sigmoid),
    ROW("F.sigmoid", plain, Sigmoid),
    ROW("torch.sigmoid", plain, Sigmoid),
    ROW("nn.Hardsigmoid", plain, HardSigmoid),
    ROW("F.hardsigmoid", plain, HardSigmoid),
    ROW("nn.Hardswish", plain, HardSwish),
    ROW("F.hardswish", plain, HardSwish),
    ROW("nn.Tanh", plain, Tanh),
    ROW("F.tanh", plain, Tanh),
    ROW("torch.tanh", plain, Tanh),
    ROW("nn.Mish", plain, Mish),
    ROW("F.mish", plain, Mish),
    ROW("nn.SELU", plain, Selu),
    ROW("F.selu", plain, Selu),
    ROW("nn.Softsign", plain, Softsign),
    ROW("F.softsign", plain, Softsign),
    ROW("nn.LogSigmoid", plain, LogSigmoid),
    ROW("F.logsigmoid", plain, LogSigmoid),
    {NULL, NULL, ANF_OP_NONE},
};
