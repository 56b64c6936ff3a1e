// SPDX-License-Identifier: Apache-2.0
/* Convolutions and pools. Names of parameters and their defaults are those of PyTorch's modules and
 * functions. */
#include "frontend/pnnx/pnnx.h"

/* One integer, or one for each spatial dim. */
static bool add_ints(const anfi_layer *l, anfi_layer_attrs *a, const char *key, const char *name) {
  int64_t v[ANF_MAX_RANK];
  size_t n;
  if (!anfi_layer_given(l, key)) return true;
  if (!anfi_layer_ints(l, key, &n, v)) return false;
  anfi_layer_attr(a, name, n == 1 ? anfi_layer_v_int(l, v[0]) : anfi_layer_v_ints(l, n, v));
  return true;
}

static bool is_word(const anfi_layer *l, const char *key) {
  const anfi_parameter *p = anfi_pnnx_param(l->op, key);
  return p && !p->list && p->n && p->item[0].kind == ANFI_ITEM_STRING;
}

static bool padding(const anfi_layer *l, anfi_layer_attrs *a) {
  if (!is_word(l, "padding")) return add_ints(l, a, "padding", "padding");
  const char *w = anfi_layer_text(l, "padding");
  if (strcmp(w, "same") != 0 && strcmp(w, "valid") != 0)
    return anfi_layer_only(l, "padding", "same");
  anfi_layer_attr(a, "padding", anfi_layer_v_text(l, w));
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
  if (!anfi_layer_agrees(l, transposed ? "in_channels" : "out_channels", t->dims[0])) return false;
  if (!anfi_layer_agrees(l, transposed ? "out_channels" : "in_channels", t->dims[1] * groups))
    return false;
  if (!anfi_layer_given(l, "kernel_size")) return true;
  if (!anfi_layer_ints(l, "kernel_size", &n, k)) return false;
  for (size_t i = 0; i < t->n - 2; i++)
    if (t->dims[i + 2] != k[n == 1 ? 0 : i < n ? i : 0])
      return anfi_layer_contradicts(l, "kernel_size");
  return true;
}

/* An input without a batch dim gets one for the time of the operation. */
static bool add_batch(const anfi_layer *l, size_t rank, anfi_operand *x, bool *added) {
  *added = x->type->n + 1 == rank;
  if (!*added) return true;
  return anfi_layer_along(l, ANF_OP_ExpandDims, 1, x, 0, x);
}

static bool drop_batches(const anfi_layer *l, bool added) {
  for (size_t i = 0; added && i < l->nresult; i++)
    if (!anfi_layer_along(l, ANF_OP_Squeeze, 1, &l->out[i], 0, &l->out[i])) return false;
  return true;
}

static bool convolution(anfi_layer *l) {
  anfi_operand in[3];
  anfi_layer_attrs a = {.n = 0};
  int64_t groups;
  bool transposed = l->code >= ANF_OP_ConvTranspose1D && l->code <= ANF_OP_ConvTranspose3D, added;
  if (!anfi_layer_tensor(l, "input", 0, &in[0]) ||
      !anfi_layer_weight_or_input(l, "weight", 1, &in[1]) ||
      !anfi_layer_need(l, &in[1], "weight") || !anfi_layer_weight_or_input(l, "bias", 2, &in[2]) ||
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
  anfi_layer_attr(&a, "groups", anfi_layer_v_int(l, groups));
  return anfi_layer_result(l, l->code, anfi_layer_present(in, 3), in, a.n, a.at) &&
         drop_batches(l, added);
}

/* The spatial dims of x by one integer each; one integer stands for all. False if absent. */
static bool spatial_ints(const anfi_layer *l, const char *key, size_t spatial, int64_t otherwise,
                         int64_t *v) {
  size_t n = 1;
  v[0] = otherwise;
  if (anfi_layer_given(l, key) && !anfi_layer_ints(l, key, &n, v)) return false;
  for (size_t i = n; i < spatial; i++) v[i] = v[n - 1];
  return n == 1 || n == spatial ||
         anfi_layer_error(l, ANF_E1055, "a parameter has another number of dims than the input");
}

/* What ceil_mode lets the last window reach beyond the padded input, as padding on the right. */
static int64_t ceil_excess(int64_t size, int64_t kernel, int64_t stride, int64_t pad) {
  int64_t room = size + 2 * pad - kernel, n = (room + stride - 1) / stride + 1;
  if ((n - 1) * stride >= size + pad) n--; // the last window must start in the input
  int64_t excess = (n - 1) * stride - room;
  return excess > 0 ? excess : 0;
}

/* Windows that all lie in the padded input have all kernel's elements: their mean times
 * size / divisor is the sum / divisor. */
static bool divided_pool(anfi_layer *l, anfi_operand *x, size_t spatial, bool ceil_mode,
                         int64_t divisor) {
  int64_t k[ANF_MAX_RANK], stride[ANF_MAX_RANK], pad[ANF_MAX_RANK], width[2 * ANF_MAX_RANK] = {0};
  double size = 1;
  bool strided = anfi_layer_given(l, "stride");
  if (!divisor) return anfi_layer_error(l, ANF_E1055, "divisor_override must not be 0");
  if (!spatial_ints(l, "kernel_size", spatial, 1, k) ||
      !spatial_ints(l, "stride", spatial, 1, stride) ||
      !spatial_ints(l, "padding", spatial, 0, pad))
    return false;
  for (size_t i = 0; i < spatial; i++) {
    if (!strided) stride[i] = k[i];
    if (k[i] < 1 || stride[i] < 1 || x->type->dims[i + 2] < 0)
      return anfi_layer_error(l, ANF_E1053, "divisor_override and a size that is not known");
    size *= (double)k[i];
    width[4 + 2 * i] = pad[i];
    width[5 + 2 * i] =
        pad[i] + (ceil_mode ? ceil_excess(x->type->dims[i + 2], k[i], stride[i], pad[i]) : 0);
  }
  anf_attr padding = {"pad_width", anfi_layer_v_ints(l, 4 + 2 * spatial, width), NULL};
  anf_attr a[] = {{"kernel", anfi_layer_v_ints(l, spatial, k), NULL},
                  {"stride", anfi_layer_v_ints(l, spatial, stride), NULL}};
  anfi_operand by = anfi_layer_number(l, size / (double)divisor);
  return anfi_layer_op(l, ANF_OP_Pad, 1, x, 1, &padding, x) &&
         anfi_layer_result(l, l->code, 1, x, 2, a) &&
         anfi_layer_op2(l, ANF_OP_Mul, &l->out[0], &by, &l->out[0]);
}

/* Where in its plane the greatest element of each window is: a max pool of x that gives positions. */
static bool pool_indices(anfi_layer *l, const anfi_operand *x, const anfi_layer_attrs *a) {
  size_t rank = x->type->n, n = 1;
  int64_t dims[ANF_MAX_RANK];
  for (size_t i = 0; i < rank; i++) {
    dims[i] = i < 2 ? 1 : x->type->dims[i];
    if (dims[i] < 0) return anfi_layer_error(l, ANF_E1053, "indices in a size that is not known");
    if (__builtin_mul_overflow(n, (size_t)dims[i], &n) || n > (size_t)1 << 31)
      return anfi_layer_error(l, ANF_E1055, "its input is too large");
  }
  double *at = ANFI_NEW_N(l->t->arena, double, n + 1);
  for (size_t i = 0; i < n; i++) at[i] = (double)i;
  anfi_operand in[] = {*x, anfi_layer_constant(l, ANF_F64, rank, dims, at)};
  l->nresult = 2;
  return anfi_layer_op2(l, ANF_OP_BroadcastLike, &in[1], x, &in[1]) &&
         anfi_layer_op(l, ANF_OP_MaxPoolPick, 2, in, a->n, a->at, &l->out[1]) &&
         anfi_torch_cast(l->t, &l->out[1], ANF_I64, &l->out[1]);
}

static bool mean_pool(anfi_layer *l) {
  anfi_operand x;
  anfi_layer_attrs a = {.n = 0};
  bool ceil_mode, include, added;
  int64_t divisor;
  size_t spatial = (size_t)(l->code - ANF_OP_AvgPool1D) + 1;
  if (!anfi_layer_tensor(l, "input", 0, &x) || !add_batch(l, spatial + 2, &x, &added) ||
      !anfi_layer_bool(l, "ceil_mode", false, &ceil_mode) ||
      !anfi_layer_bool(l, "count_include_pad", true, &include))
    return false;
  if (anfi_layer_given(l, "divisor_override"))
    return anfi_layer_need_int(l, "divisor_override", &divisor) &&
           divided_pool(l, &x, spatial, ceil_mode, divisor) && drop_batches(l, added);
  if (!add_ints(l, &a, "kernel_size", "kernel") || !add_ints(l, &a, "stride", "stride") ||
      !add_ints(l, &a, "padding", "padding"))
    return false;
  anfi_layer_attr(&a, "ceil_mode", anfi_layer_v_bool(l, ceil_mode));
  anfi_layer_attr(&a, "count_include_pad", anfi_layer_v_bool(l, include));
  return anfi_layer_result(l, l->code, 1, &x, a.n, a.at) && drop_batches(l, added);
}

static bool max_pool(anfi_layer *l) {
  anfi_operand x;
  anfi_layer_attrs a = {.n = 0};
  bool ceil_mode, indices, added;
  size_t spatial = (size_t)(l->code - ANF_OP_MaxPool1D) + 1;
  if (!anfi_layer_tensor(l, "input", 0, &x) || !add_batch(l, spatial + 2, &x, &added) ||
      !add_ints(l, &a, "kernel_size", "kernel") || !add_ints(l, &a, "stride", "stride") ||
      !add_ints(l, &a, "padding", "padding") || !add_ints(l, &a, "dilation", "dilation") ||
      !anfi_layer_bool(l, "ceil_mode", false, &ceil_mode) ||
      !anfi_layer_bool(l, "return_indices", false, &indices))
    return false;
  anfi_layer_attr(&a, "ceil_mode", anfi_layer_v_bool(l, ceil_mode));
  if (!anfi_layer_result(l, l->code, 1, &x, a.n, a.at)) return false;
  if (indices && l->op->nout == 2 && !pool_indices(l, &x, &a)) return false;
  return drop_batches(l, added);
}

/* The mean of powers, times the window's size, to the power 1 / p. */
static bool power_pool(anfi_layer *l) {
  anfi_operand x, y, by, root;
  anfi_layer_attrs a = {.n = 0};
  bool ceil_mode, added;
  double p, size = 1;
  int64_t k[ANF_MAX_RANK];
  size_t spatial = (size_t)(l->code - ANF_OP_AvgPool1D) + 1;
  if (!anfi_layer_tensor(l, "input", 0, &x) || !add_batch(l, spatial + 2, &x, &added) ||
      !spatial_ints(l, "kernel_size", spatial, 1, k) || !anfi_layer_real(l, "norm_type", 2, &p) ||
      !anfi_layer_bool(l, "ceil_mode", false, &ceil_mode))
    return false;
  if (p == 0) return anfi_layer_error(l, ANF_E1055, "norm_type must not be 0");
  for (size_t i = 0; i < spatial; i++) size *= (double)k[i];
  anfi_layer_attr(&a, "kernel", anfi_layer_v_ints(l, spatial, k));
  if (!add_ints(l, &a, "stride", "stride")) return false;
  anfi_layer_attr(&a, "ceil_mode", anfi_layer_v_bool(l, ceil_mode));
  by = anfi_layer_number(l, p), root = anfi_layer_number(l, 1 / p);
  anfi_operand times = anfi_layer_number(l, size);
  l->nresult = 1;
  return anfi_layer_op2(l, ANF_OP_Power, &x, &by, &x) &&
         anfi_layer_op(l, l->code, 1, &x, a.n, a.at, &y) &&
         anfi_layer_op1(l, ANF_OP_Relu, &y, &y) && anfi_layer_op2(l, ANF_OP_Mul, &y, &times, &y) &&
         anfi_layer_op2(l, ANF_OP_Power, &y, &root, &l->out[0]) && drop_batches(l, added);
}

/* None in output_size keeps the input's size; pnnx writes it as 0. */
static bool adaptive_sizes(const anfi_layer *l, const anfi_operand *x, size_t spatial, int64_t *v) {
  anfi_operand size;
  if (!anfi_layer_arg(l, "output_size", &size)) return false;
  if (x->type->n != spatial + 2)
    return anfi_layer_error(l, ANF_E1055, "its input has the wrong rank");
  for (size_t i = 0; i < spatial; i++) {
    const anfi_operand *o = size.kind != ANFI_OPERAND_LIST ? &size
                            : i < size.n                   ? &size.item[i]
                                                           : &size;
    if (o->kind == ANFI_OPERAND_NONE) v[i] = 0;
    else if (!anfi_operand_int(o, &v[i])) v[i] = -1;
    if (v[i] == 0) v[i] = x->type->dims[i + 2];
    if (v[i] < 0)
      return anfi_layer_error(l, ANF_E1055,
                              "output_size must be known integers, or None of a known dim");
  }
  return true;
}

static bool adaptive_mean_pool(anfi_layer *l) {
  anfi_operand x;
  int64_t v[3];
  bool added;
  size_t spatial = (size_t)(l->code - ANF_OP_AdaptiveAvgPool1D) + 1;
  if (!anfi_layer_tensor(l, "input", 0, &x) || !add_batch(l, spatial + 2, &x, &added) ||
      !adaptive_sizes(l, &x, spatial, v))
    return false;
  anf_attr a = {"shape", anfi_layer_v_ints(l, spatial, v), NULL};
  return anfi_layer_result(l, l->code, 1, &x, 1, &a) && drop_batches(l, added);
}

/* Along one axis: windows of different lengths are filled up with their last element. */
static bool adaptive_max_along(const anfi_layer *l, anfi_operand *x, size_t axis, int64_t n) {
  int64_t size = x->type->dims[axis], longest = 1;
  if (size < 1 || n > 1 << 20)
    return anfi_layer_error(l, ANF_E1053, "an input whose size is 0 or not known");
  if (size == n) return true;
  for (int64_t i = 0; i < n; i++) {
    int64_t len = ((i + 1) * size + n - 1) / n - i * size / n;
    if (len > longest) longest = len;
  }
  int64_t dims[] = {n, longest};
  double *at = ANFI_NEW_N(l->t->arena, double, (size_t)(n * longest) + 1);
  for (int64_t i = 0; i < n; i++)
    for (int64_t k = 0; k < longest; k++) {
      int64_t from = i * size / n, last = ((i + 1) * size + n - 1) / n - 1;
      at[i * longest + k] = (double)(from + k < last ? from + k : last);
    }
  anfi_operand where = anfi_layer_constant(l, ANF_I64, 2, dims, at);
  return anfi_layer_take(l, x, &where, (int64_t)axis, x) &&
         anfi_layer_along(l, ANF_OP_Max, 1, x, (int64_t)axis + 1, x);
}

/* Sizes that divide the input's are plain windows. */
static bool adaptive_max_pool(anfi_layer *l) {
  anfi_operand x;
  int64_t v[3], k[3];
  bool added, indices, even = true;
  size_t spatial = (size_t)(l->code - ANF_OP_MaxPool1D) + 1;
  if (!anfi_layer_tensor(l, "input", 0, &x) || !add_batch(l, spatial + 2, &x, &added) ||
      !adaptive_sizes(l, &x, spatial, v) || !anfi_layer_bool(l, "return_indices", false, &indices))
    return false;
  indices = indices && l->op->nout == 2;
  for (size_t i = 0; i < spatial; i++) {
    even = even && v[i] && x.type->dims[i + 2] > 0 && x.type->dims[i + 2] % v[i] == 0;
    k[i] = even ? x.type->dims[i + 2] / v[i] : 0;
  }
  anfi_layer_attrs a = {{{"kernel", anfi_layer_v_ints(l, spatial, k), NULL}}, 1};
  if (even)
    return anfi_layer_result(l, l->code, 1, &x, a.n, a.at) &&
           (!indices || pool_indices(l, &x, &a)) && drop_batches(l, added);
  if (indices) return anfi_layer_error(l, ANF_E1053, "indices of windows of different lengths");
  for (size_t i = 0; i < spatial; i++)
    if (!adaptive_max_along(l, &x, i + 2, v[i])) return false;
  l->nresult = 1;
  l->out[0] = x;
  return drop_batches(l, added);
}

const anfi_layer_row anfi_layers_window[] = {
    ANFI_LAYER("nn.Conv1d", convolution, Conv1D),
    ANFI_LAYER("F.conv1d", convolution, Conv1D),
    ANFI_LAYER("nn.Conv2d", convolution, Conv2D),
    ANFI_LAYER("F.conv2d", convolution, Conv2D),
    ANFI_LAYER("nn.Conv3d", convolution, Conv3D),
    ANFI_LAYER("F.conv3d", convolution, Conv3D),
    ANFI_LAYER("nn.ConvTranspose1d", convolution, ConvTranspose1D),
    ANFI_LAYER("F.conv_transpose1d", convolution, ConvTranspose1D),
    ANFI_LAYER("nn.ConvTranspose2d", convolution, ConvTranspose2D),
    ANFI_LAYER("F.conv_transpose2d", convolution, ConvTranspose2D),
    ANFI_LAYER("nn.ConvTranspose3d", convolution, ConvTranspose3D),
    ANFI_LAYER("F.conv_transpose3d", convolution, ConvTranspose3D),
    ANFI_LAYER("nn.MaxPool1d", max_pool, MaxPool1D),
    ANFI_LAYER("F.max_pool1d", max_pool, MaxPool1D),
    ANFI_LAYER("nn.MaxPool2d", max_pool, MaxPool2D),
    ANFI_LAYER("F.max_pool2d", max_pool, MaxPool2D),
    ANFI_LAYER("nn.MaxPool3d", max_pool, MaxPool3D),
    ANFI_LAYER("F.max_pool3d", max_pool, MaxPool3D),
    ANFI_LAYER("nn.AvgPool1d", mean_pool, AvgPool1D),
    ANFI_LAYER("F.avg_pool1d", mean_pool, AvgPool1D),
    ANFI_LAYER("nn.AvgPool2d", mean_pool, AvgPool2D),
    ANFI_LAYER("F.avg_pool2d", mean_pool, AvgPool2D),
    ANFI_LAYER("nn.AvgPool3d", mean_pool, AvgPool3D),
    ANFI_LAYER("F.avg_pool3d", mean_pool, AvgPool3D),
    ANFI_LAYER("nn.AdaptiveAvgPool1d", adaptive_mean_pool, AdaptiveAvgPool1D),
    ANFI_LAYER("F.adaptive_avg_pool1d", adaptive_mean_pool, AdaptiveAvgPool1D),
    ANFI_LAYER("nn.AdaptiveAvgPool2d", adaptive_mean_pool, AdaptiveAvgPool2D),
    ANFI_LAYER("F.adaptive_avg_pool2d", adaptive_mean_pool, AdaptiveAvgPool2D),
    ANFI_LAYER("nn.AdaptiveAvgPool3d", adaptive_mean_pool, AdaptiveAvgPool3D),
    ANFI_LAYER("F.adaptive_avg_pool3d", adaptive_mean_pool, AdaptiveAvgPool3D),
    ANFI_LAYER("nn.AdaptiveMaxPool1d", adaptive_max_pool, MaxPool1D),
    ANFI_LAYER("F.adaptive_max_pool1d", adaptive_max_pool, MaxPool1D),
    ANFI_LAYER("nn.AdaptiveMaxPool2d", adaptive_max_pool, MaxPool2D),
    ANFI_LAYER("F.adaptive_max_pool2d", adaptive_max_pool, MaxPool2D),
    ANFI_LAYER("nn.AdaptiveMaxPool3d", adaptive_max_pool, MaxPool3D),
    ANFI_LAYER("F.adaptive_max_pool3d", adaptive_max_pool, MaxPool3D),
    ANFI_LAYER("nn.LPPool1d", power_pool, AvgPool1D),
    ANFI_LAYER("F.lp_pool1d", power_pool, AvgPool1D),
    ANFI_LAYER("nn.LPPool2d", power_pool, AvgPool2D),
    ANFI_LAYER("F.lp_pool2d", power_pool, AvgPool2D),
    {NULL, NULL, ANF_OP_NONE},
};
