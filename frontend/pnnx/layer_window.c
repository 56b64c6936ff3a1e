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

static bool drop_batch(const anfi_layer *l, bool added) {
  return !added || anfi_layer_along(l, ANF_OP_Squeeze, 1, &l->out[0], 0, &l->out[0]);
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
         drop_batch(l, added);
}

static bool pool(anfi_layer *l) {
  anfi_operand x;
  anfi_layer_attrs a = {.n = 0};
  bool ceil_mode, include, added;
  bool mean = l->code >= ANF_OP_AvgPool1D && l->code <= ANF_OP_AvgPool3D;
  size_t spatial = (size_t)(l->code - (mean ? ANF_OP_AvgPool1D : ANF_OP_MaxPool1D)) + 1;
  if (!anfi_layer_tensor(l, "input", 0, &x) || !add_batch(l, spatial + 2, &x, &added) ||
      !add_ints(l, &a, "kernel_size", "kernel") || !add_ints(l, &a, "stride", "stride") ||
      !add_ints(l, &a, "padding", "padding") || !anfi_layer_bool(l, "ceil_mode", false, &ceil_mode))
    return false;
  anfi_layer_attr(&a, "ceil_mode", anfi_layer_v_bool(l, ceil_mode));
  if (mean) {
    if (!anfi_layer_bool(l, "count_include_pad", true, &include)) return false;
    if (!anfi_layer_only(l, "divisor_override", "None")) return false;
    anfi_layer_attr(&a, "count_include_pad", anfi_layer_v_bool(l, include));
  } else if (!add_ints(l, &a, "dilation", "dilation") ||
             !anfi_layer_only(l, "return_indices", "False"))
    return false;
  return anfi_layer_result(l, l->code, 1, &x, a.n, a.at) && drop_batch(l, added);
}

/* None in output_size keeps the input's size. */
static bool adaptive_pool(anfi_layer *l) {
  anfi_operand x, size;
  int64_t v[3];
  bool added;
  size_t spatial = (size_t)(l->code - ANF_OP_AdaptiveAvgPool1D) + 1;
  if (!anfi_layer_tensor(l, "input", 0, &x) || !add_batch(l, spatial + 2, &x, &added) ||
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
  return anfi_layer_result(l, l->code, 1, &x, 1, &a) && drop_batch(l, added);
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
    ANFI_LAYER("nn.MaxPool1d", pool, MaxPool1D),
    ANFI_LAYER("F.max_pool1d", pool, MaxPool1D),
    ANFI_LAYER("nn.MaxPool2d", pool, MaxPool2D),
    ANFI_LAYER("F.max_pool2d", pool, MaxPool2D),
    ANFI_LAYER("nn.MaxPool3d", pool, MaxPool3D),
    ANFI_LAYER("F.max_pool3d", pool, MaxPool3D),
    ANFI_LAYER("nn.AvgPool1d", pool, AvgPool1D),
    ANFI_LAYER("F.avg_pool1d", pool, AvgPool1D),
    ANFI_LAYER("nn.AvgPool2d", pool, AvgPool2D),
    ANFI_LAYER("F.avg_pool2d", pool, AvgPool2D),
    ANFI_LAYER("nn.AvgPool3d", pool, AvgPool3D),
    ANFI_LAYER("F.avg_pool3d", pool, AvgPool3D),
    ANFI_LAYER("nn.AdaptiveAvgPool1d", adaptive_pool, AdaptiveAvgPool1D),
    ANFI_LAYER("F.adaptive_avg_pool1d", adaptive_pool, AdaptiveAvgPool1D),
    ANFI_LAYER("nn.AdaptiveAvgPool2d", adaptive_pool, AdaptiveAvgPool2D),
    ANFI_LAYER("F.adaptive_avg_pool2d", adaptive_pool, AdaptiveAvgPool2D),
    ANFI_LAYER("nn.AdaptiveAvgPool3d", adaptive_pool, AdaptiveAvgPool3D),
    ANFI_LAYER("F.adaptive_avg_pool3d", adaptive_pool, AdaptiveAvgPool3D),
    {NULL, NULL, ANF_OP_NONE},
};
