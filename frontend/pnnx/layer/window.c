// SPDX-License-Identifier: Apache-2.0
/* Convolutions. Names of parameters and their defaults are those of PyTorch's modules and
 * functions. */
#include "frontend/pnnx/pnnx.h"

static bool is_word(const anfi_layer *l, const char *key) {
  const anfi_parameter *p = anfi_pnnx_param(l->op, key);
  return p && !p->list && p->n && p->item[0].kind == ANFI_ITEM_STRING;
}

static bool padding(const anfi_layer *l, anfi_layer_attrs *a) {
  if (!is_word(l, "padding")) return anfi_layer_add_ints(l, a, "padding", "padding");
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
  if (!anfi_layer_add_batch(l, in[1].type->n, &in[0], &added)) return false;
  if (mode && strcmp(mode, "zeros") != 0) {
    if (!pad_first(l, mode, in[1].type->n - 2, &in[0])) return false;
  } else if (!padding(l, &a)) return false;
  if (!anfi_layer_add_ints(l, &a, "stride", "stride") ||
      !anfi_layer_add_ints(l, &a, "dilation", "dilation"))
    return false;
  if (transposed && !anfi_layer_add_ints(l, &a, "output_padding", "output_padding")) return false;
  if (transposed && !anfi_layer_only(l, "output_size", "None")) return false;
  anfi_layer_attr(&a, "groups", anfi_layer_v_int(l, groups));
  return anfi_layer_result(l, l->code, anfi_layer_present(in, 3), in, a.n, a.at) &&
         anfi_layer_drop_batches(l, added);
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
    {NULL, NULL, ANF_OP_NONE},
};
