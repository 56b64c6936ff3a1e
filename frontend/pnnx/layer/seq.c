// SPDX-License-Identifier: Apache-2.0
/* Modules that are programs of many ops: multi-head attention, the head of YOLO. */
#include "frontend/pnnx/pnnx.h"

#include <math.h>

static bool take(const anfi_layer *l, const anfi_operand *x, int64_t i, int64_t axis,
                 anfi_operand *out) {
  anfi_operand at = anfi_operand_number(l->t, i);
  return anfi_layer_take(l, x, &at, axis, out);
}

/* ---- multi-head attention ---- */

typedef struct {
  int64_t embed, heads, kdim, vdim;
  bool bias, batch_first, unbatched;
} mha;

/* Rows of the joint weight, or the weight of its own where key and value differ in width. */
static bool projection(const anfi_layer *l, const mha *m, const anfi_operand *x, int64_t which,
                       anfi_operand *out) {
  static const char *const own[] = {"q_proj_weight", "k_proj_weight", "v_proj_weight"};
  anfi_operand in[3] = {*x};
  int64_t from = which * m->embed;
  if (anfi_layer_has_weight(l, own[which])) {
    if (!anfi_layer_weight(l, own[which], &in[1])) return false;
  } else if (!anfi_layer_weight(l, "in_proj_weight", &in[1]) ||
             !anfi_layer_slice(l, &in[1], 0, from, from + m->embed, &in[1]))
    return false;
  if (m->bias && (!anfi_layer_weight(l, "in_proj_bias", &in[2]) ||
                  !anfi_layer_slice(l, &in[2], 0, from, from + m->embed, &in[2])))
    return false;
  return anfi_layer_op(l, ANF_OP_Linear, m->bias ? 3 : 2, in, 0, NULL, out);
}

/* [batch, length, embed] to [batch, heads, length, width] */
static bool split_heads(const anfi_layer *l, const mha *m, anfi_operand *x) {
  int64_t dims[] = {x->type->dims[0], x->type->dims[1], m->heads, m->embed / m->heads};
  if (dims[0] < 0 && dims[1] < 0)
    return anfi_layer_error(l, ANF_E1053, "batch and length that are not known");
  return anfi_layer_reshape(l, x, 4, dims, x) && anfi_layer_swap(l, x, 1, 2, x);
}

static bool batched(const anfi_layer *l, mha *m, anfi_operand *x) {
  m->unbatched = x->type->n == 2;
  if (m->unbatched) return anfi_layer_along(l, ANF_OP_ExpandDims, 1, x, 0, x);
  if (x->type->n != 3) return anfi_layer_error(l, ANF_E1055, "its inputs must have rank 2 or 3");
  return m->batch_first || anfi_layer_swap(l, x, 0, 1, x);
}

/* A mask of bools says what must not be seen; that of Attention says what may. */
static bool mask(const anfi_layer *l, const mha *m, anfi_operand *x) {
  if (x->kind == ANFI_OPERAND_NONE) return true;
  if (x->type->dtype == ANF_BOOL && !anfi_layer_op1(l, ANF_OP_LogicalNot, x, x)) return false;
  if (x->type->n == 2) return true;
  if (x->type->n != 3) return anfi_layer_error(l, ANF_E1055, "its mask must have rank 2 or 3");
  return anfi_layer_reshape(l, x, 4,
                            (const int64_t[]){-1, m->heads, x->type->dims[1], x->type->dims[2]}, x);
}

/* softmax(q k' scale + mask), which the second result is the mean of over heads */
static bool weights(const anfi_layer *l, const mha *m, anfi_operand *const x,
                    anfi_operand *scores) {
  anfi_operand q = x[0];
  double scale_by = 1 / sqrt((double)(m->embed / m->heads));
  anfi_operand scale = anfi_operand_value(l->t->cx, anfi_layer_v_real(l, scale_by));
  anf_attr tb = {"tb", anfi_layer_v_bool(l, true), NULL};
  if (!anfi_layer_op2(l, ANF_OP_Mul, &q, &scale, &q)) return false;
  if (!anfi_layer_op(l, ANF_OP_MatMul, 2, (const anfi_operand[]){q, x[1]}, 1, &tb, scores))
    return false;
  if (x[3].kind != ANFI_OPERAND_NONE) {
    anfi_operand none = anfi_operand_value(l->t->cx, anfi_layer_v_real(l, -(double)INFINITY));
    if (x[3].type->dtype != ANF_BOOL) {
      if (!anfi_layer_op2(l, ANF_OP_Add, scores, &x[3], scores)) return false;
    } else if (!anfi_layer_op(l, ANF_OP_Where, 3, (const anfi_operand[]){x[3], *scores, none}, 0,
                              NULL, scores))
      return false;
  }
  return anfi_layer_along(l, ANF_OP_Softmax, 1, scores, -1, scores);
}

static bool attend(anfi_layer *l, const mha *m, anfi_operand *x, anfi_operand *out) {
  anfi_operand scores;
  l->nresult = 1;
  if (l->op->nout == 1)
    return anfi_layer_op(l, ANF_OP_Attention, x[3].kind == ANFI_OPERAND_NONE ? 3 : 4, x, 0, NULL,
                         out);
  l->nresult = 2;
  if (!weights(l, m, x, &scores) || !anfi_layer_op2(l, ANF_OP_MatMul, &scores, &x[2], out))
    return false;
  if (!anfi_layer_along(l, ANF_OP_Mean, 1, &scores, 1, &l->out[1])) return false;
  return !m->unbatched || anfi_layer_along(l, ANF_OP_Squeeze, 1, &l->out[1], 0, &l->out[1]);
}

static bool project_out(anfi_layer *l, const mha *m, anfi_operand *x) {
  if (!anfi_layer_swap(l, x, 1, 2, x)) return false;
  int64_t dims[] = {x->type->dims[0], x->type->dims[1], m->embed};
  anfi_operand in[3];
  if (!anfi_layer_reshape(l, x, 3, dims, &in[0]) ||
      !anfi_layer_weight(l, "out_proj.weight", &in[1]))
    return false;
  bool bias = anfi_layer_has_weight(l, "out_proj.bias");
  if (bias && !anfi_layer_weight(l, "out_proj.bias", &in[2])) return false;
  if (!anfi_layer_op(l, ANF_OP_Linear, bias ? 3 : 2, in, 0, NULL, &l->out[0])) return false;
  if (m->unbatched) return anfi_layer_along(l, ANF_OP_Squeeze, 1, &l->out[0], 0, &l->out[0]);
  return m->batch_first || anfi_layer_swap(l, &l->out[0], 0, 1, &l->out[0]);
}

static bool mha_inputs(const anfi_layer *l, anfi_operand *x) {
  bool masked = anfi_layer_given(l, "attn_mask");
  size_t n = l->op->nin - (masked ? 1u : 0u);
  if (!anfi_layer_tensor(l, "query", 0, &x[0])) return false;
  x[1] = x[2] = x[0];
  x[3] = (anfi_operand){.kind = ANFI_OPERAND_NONE};
  if (n >= 2 && !anfi_layer_tensor(l, "key", 1, &x[1])) return false;
  x[2] = x[1];
  if (n >= 3 && !anfi_layer_tensor(l, "value", 2, &x[2])) return false;
  if (n > 3)
    return anfi_layer_error(l, ANF_E1053, "more inputs than query, key, value and attn_mask");
  return !masked || anfi_layer_tensor(l, "attn_mask", 3, &x[3]);
}

static bool attention(anfi_layer *l) {
  mha m;
  anfi_operand x[4], out;
  if (!mha_inputs(l, x) || !anfi_layer_need_int(l, "embed_dim", &m.embed) ||
      !anfi_layer_need_int(l, "num_heads", &m.heads) ||
      !anfi_layer_bool(l, "bias", true, &m.bias) ||
      !anfi_layer_bool(l, "batch_first", false, &m.batch_first) ||
      !anfi_layer_int(l, "kdim", m.embed, &m.kdim) ||
      !anfi_layer_int(l, "vdim", m.embed, &m.vdim) || !anfi_layer_only(l, "add_bias_kv", "False") ||
      !anfi_layer_only(l, "add_zero_attn", "False"))
    return false;
  anfi_layer_ignore(l, "dropout");
  if (m.heads < 1 || m.embed < 1 || m.embed % m.heads)
    return anfi_layer_error(l, ANF_E1055, "embed_dim must be a multiple of num_heads");
  for (int64_t i = 0; i < 3; i++)
    if (!batched(l, &m, &x[i]) || !projection(l, &m, &x[i], i, &x[i]) || !split_heads(l, &m, &x[i]))
      return false;
  return mask(l, &m, &x[3]) && attend(l, &m, x, &out) && project_out(l, &m, &out);
}

/* ---- the head of YOLO v5: a convolution a stage, then boxes and scores of every anchor ---- */

static bool scaled_boxes(const anfi_layer *l, const anfi_operand *y, const anfi_operand *grid,
                         const anfi_operand *anchor, const anfi_operand *stride,
                         anfi_operand *out) {
  anfi_operand part[3], two = anfi_operand_number(l->t, 2);
  int64_t last = y->type->dims[4];
  return anfi_layer_slice(l, y, 4, 0, 2, &part[0]) && anfi_layer_slice(l, y, 4, 2, 4, &part[1]) &&
         anfi_layer_slice(l, y, 4, 4, last, &part[2]) &&
         anfi_layer_op2(l, ANF_OP_Mul, &part[0], &two, &part[0]) &&
         anfi_layer_op2(l, ANF_OP_Add, &part[0], grid, &part[0]) &&
         anfi_layer_op2(l, ANF_OP_Mul, &part[0], stride, &part[0]) &&
         anfi_layer_op2(l, ANF_OP_Mul, &part[1], &two, &part[1]) &&
         anfi_layer_op1(l, ANF_OP_Square, &part[1], &part[1]) &&
         anfi_layer_op2(l, ANF_OP_Mul, &part[1], anchor, &part[1]) &&
         anfi_layer_along(l, ANF_OP_Concat, 3, part, 4, out);
}

/* The traced module calls its constants pnnx_0 .. pnnx_6: grids 6, 3, 1, anchors 4, 2, 0, strides 5. */
static bool stage(const anfi_layer *l, int64_t i, const anfi_operand *strides, anfi_operand *out) {
  static const char *const grids[] = {"pnnx_6", "pnnx_3", "pnnx_1"}, *const anchors[] = {"pnnx_4",
                                                                                         "pnnx_2",
                                                                                         "pnnx_0"};
  anfi_operand conv[3], grid, anchor, stride, y;
  const char *w = anfi_sprintf(l->t->arena, "m.%lld.weight", (long long)i);
  const char *b = anfi_sprintf(l->t->arena, "m.%lld.bias", (long long)i);
  if (!anfi_layer_tensor(l, "", (size_t)i, &conv[0]) || !anfi_layer_weight(l, w, &conv[1]) ||
      !anfi_layer_weight(l, b, &conv[2]) || !anfi_layer_weight(l, grids[i], &grid) ||
      !anfi_layer_weight(l, anchors[i], &anchor) || !take(l, strides, i, 0, &stride))
    return false;
  if (anchor.type->n != 5 || conv[1].type->n != 4 || anchor.type->dims[1] < 1 ||
      conv[1].type->dims[0] % anchor.type->dims[1] ||
      conv[1].type->dims[0] / anchor.type->dims[1] < 5)
    return anfi_layer_error(l, ANF_E1055, "anchors and convolutions do not fit together");
  if (!anfi_layer_op(l, ANF_OP_Conv2D, 3, conv, 0, NULL, &y)) return false;
  int64_t n = anchor.type->dims[1], width = conv[1].type->dims[0] / n;
  const int64_t *d = y.type->dims, boxes[] = {d[0], n, width, d[2], d[3]},
                order[] = {0, 1, 3, 4, 2};
  if (d[2] < 0 || d[3] < 0) return anfi_layer_error(l, ANF_E1053, "sizes that are not known");
  int64_t flat[] = {d[0], n * d[2] * d[3], width};
  return anfi_layer_reshape(l, &y, 5, boxes, &y) && anfi_layer_transpose(l, &y, 5, order, &y) &&
         anfi_layer_op1(l, ANF_OP_Sigmoid, &y, &y) &&
         scaled_boxes(l, &y, &grid, &anchor, &stride, &y) &&
         anfi_layer_reshape(l, &y, 3, flat, out);
}

static bool detect(anfi_layer *l) {
  anfi_operand strides, out[3];
  if (!anfi_layer_weight(l, "pnnx_5", &strides)) return false;
  if (l->op->nin != 3 || strides.type->n != 1 || strides.type->dims[0] != 3)
    return anfi_layer_error(l, ANF_E1053, "other than three stages");
  for (int64_t i = 0; i < 3; i++)
    if (!stage(l, i, &strides, &out[i])) return false;
  l->nresult = 1;
  return anfi_layer_along(l, ANF_OP_Concat, 3, out, 1, &l->out[0]);
}

const anfi_layer_row anfi_layers_seq[] = {
    {"nn.MultiheadAttention", attention, ANF_OP_Attention},
    {"models.yolo.Detect", detect, ANF_OP_NONE},
    {NULL, NULL, ANF_OP_NONE},
};
