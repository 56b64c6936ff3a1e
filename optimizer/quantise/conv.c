// SPDX-License-Identifier: Apache-2.0
/* Convolutions of dequantised tensors as convolutions of integers.
 *   Conv2D(Dequantize(q, s, z), Dequantize(w, t), b)  ->  Cast(Conv2D(q - z, w), f32) * (s * t) + b
 *   Conv2D(q - z, w, padding=1)                       ->  Conv2D(Pad(q, z), w) - z * Sum(w)
 * s is one number, t one or one for each channel of the result: then all terms of a sum have the same scale. Weights of u8
 * are made signed, for the dot products of kernels: w - 128 with a zero point less by 128. */
#include "ir/ops/kernel.h"
#include "ir/ops/nn/window.h"
#include "optimizer/quantise/quantise.h"

bool anfi_q_is_conv(const anf_node *n) {
  return n->kind == ANFI_APPLY && anfi_is_conv((anfi_opcode)n->op);
}

/* How the convolution walks; false where a dim is not known. */
static bool plan_of(quantiser *q, const anf_node *n, anfi_conv *c) {
  anf_ctx *cx = q->r.m->cx;
  uint32_t nattr = anfi_op_schema(cx, (anfi_opcode)n->op)->nattr;
  anf_value **attr = ANFI_NEW_N(q->r.arena, anf_value *, nattr + 1);
  const anf_type **in = ANFI_NEW_N(q->r.arena, const anf_type *, n->nin + 1);
  for (uint32_t i = 0; i < n->nin; i++) in[i] = n->in[i].def->type;
  for (uint32_t i = 0; i < nattr; i++)
    if (!(attr[i] = anfi_attr_value(cx, (anfi_opcode)n->op, n->u.attrs, i))) return false;
  anfi_infer t = {.cx = cx,
                  .op = (anfi_opcode)n->op,
                  .loc = anfi_nowhere(),
                  .n = n->nin,
                  .in = in,
                  .attr = attr};
  return anfi_q_count(n) && anfi_q_count(n->in[0].def) && anfi_conv_plan(&t, c);
}

static anf_node *reshaped(quantiser *q, anf_node *x, uint32_t rank, const int64_t *dims) {
  anf_ctx *cx = q->r.m->cx;
  if (!x) return NULL;
  if (x->kind == ANFI_VALUE) { // stays a constant, for those who ask what it holds
    const anf_type *t = anfi_type_tensor(cx, (anf_dtype)x->type->dtype, rank, dims);
    anf_value *v = anfi_value_new_tensor(cx, t);
    memcpy(v->data, x->u.value->data, v->n * anf_dtype_bytes((anf_dtype)t->dtype));
    return anfi_rewrite_const(&q->r, v);
  }
  const anfi_attrs *shape =
      anfi_attrs_one(q->r.m, ANF_OP_Reshape, anfi_value_new_ints(cx, rank, dims));
  return anfi_q_apply(q, ANF_OP_Reshape, shape, 1, &x);
}

/* One number, or one for each channel: a scalar, or [channels, 1, ..] as the result's dims have it. NULL: neither. */
static anf_node *by_channel(quantiser *q, anf_node *v, const anf_node *y) {
  int64_t dims[ANF_MAX_RANK], co = y->type->dims[1];
  if (!v || !anfi_q_is_tensor(v)) return NULL;
  size_t n = anfi_q_count(v);
  if (n == 1) return v->type->n ? reshaped(q, v, 0, NULL) : v;
  if (n != (size_t)co) return NULL;
  for (uint32_t i = 0; i + 1 < y->type->n; i++) dims[i] = i ? 1 : co;
  return reshaped(q, v, y->type->n - 1, dims);
}

/* Does it broadcast to the weights with a number for each channel of the result, or with one? */
static bool is_of_weights(const anf_node *v, const anf_type *w) {
  if (!v || anfi_q_count(v) == 1) return true;
  return anfi_q_is_tensor(v) && v->type->n == w->n && v->type->dims[0] == w->dims[0] &&
         anfi_q_count(v) == (size_t)w->dims[0];
}

/* ---- quantized_graph_reschedule ---- */

/* Weights as i8, and their zero point, or NULL. */
static bool signed_weights(quantiser *q, anf_node **w, anf_node **zero) {
  enum { HALF = 128 };
  if ((*w)->type->dtype == ANF_I8) return true;
  if ((*w)->kind != ANFI_VALUE) return false;
  const anf_value *codes = (*w)->u.value;
  anf_value *v =
      anfi_value_new_tensor(q->r.m->cx, anfi_type_with_dtype(q->r.m->cx, codes->type, ANF_I8));
  for (size_t i = 0; i < codes->n; i++) anfi_set_i64(v, i, anfi_get_i64(codes, i) - HALF);
  *w = anfi_rewrite_const(&q->r, v);
  if (*zero && (*zero)->kind == ANFI_VALUE) {
    bool none = true;
    for (size_t i = 0; i < (*zero)->u.value->n; i++)
      none &= anfi_get_i64((*zero)->u.value, i) == HALF;
    if (none) *zero = NULL;
    if (none) return *w != NULL;
  }
  *zero = *zero ? anfi_q_apply2(q, ANF_OP_Sub, anfi_q_cast(q, *zero, ANF_I32),
                                anfi_q_number(q, ANF_I32, HALF))
                : anfi_q_number(q, ANF_I32, -HALF);
  return *zero != NULL;
}

/* The operands of a convolution whose sums can be of integers. */
typedef struct conv_factors {
  anf_node *x, *w, *scale_x, *scale_w, *zero_x, *zero_w;
} conv_factors;

static bool one_factor(quantiser *q, anf_node *n, anf_node **code, anf_node **scale,
                       anf_node **zero) {
  if (!anfi_q_is_tensor(n) || n->nin < 2 || n->kind != ANFI_APPLY)
    return anfi_q_refuse(q, "one operand is not dequantised");
  *code = anfi_q_code_of(q, n);
  if (!*code)
    return anfi_q_refuse(q, anfi_is_op(n, ANF_OP_FakeQuantize)
                                ? "a FakeQuantize has other readers, too"
                                : "one operand is not dequantised");
  if (!anfi_q_is_tensor(*code) || !anfi_q_is_byte((anf_dtype)(*code)->type->dtype))
    return anfi_q_refuse(q, "codes are no bytes");
  if (!anfi_same_dims((*code)->type, n->type)) return anfi_q_refuse(q, "codes are broadcast");
  *scale = n->in[1].def, *zero = anfi_q_input(n, 2);
  if (*zero && anfi_q_is_no_offset(*zero)) *zero = NULL;
  return (anfi_q_is_tensor(*scale) && (!*zero || (*zero)->type->dtype == (*code)->type->dtype)) ||
         anfi_q_refuse(q, "a zero point has another type than its codes");
}

static bool factors_of(quantiser *q, anf_node *n, const anfi_conv *c, conv_factors *f) {
  enum { FEW_CHANNELS = 16 }; // depthwise and the like: sums of floats are as fast
  if (!one_factor(q, n->in[1].def, &f->w, &f->scale_w, &f->zero_w)) return false;
  if (c->ci * c->co < FEW_CHANNELS)
    return anfi_q_refuse(q, "it has few channels a group, for which sums of floats are as fast");
  if (!one_factor(q, n->in[0].def, &f->x, &f->scale_x, &f->zero_x)) return false;
  double steps = (double)c->ci;
  for (size_t d = 0; d < 3; d++) steps *= (double)c->win.kernel[d];
  if (steps * 256 * 256 >= 0x1p31) return anfi_q_refuse(q, "sums of so many terms may leave i32");
  if (anfi_q_count(f->scale_x) != 1 || (f->zero_x && anfi_q_count(f->zero_x) != 1) ||
      !is_of_weights(f->scale_w, f->w->type) || !is_of_weights(f->zero_w, f->w->type))
    return anfi_q_refuse(q, "a scale or zero point varies within a sum");
  if (!signed_weights(q, &f->w, &f->zero_w))
    return anfi_q_refuse(q, "weights of u8 are not constant");
  return c->groups == 1 || !f->zero_w || anfi_q_refuse(q, "weights of groups have a zero point");
}

/* A constant stays one, for the padding of quantize_op_compensation. */
static anf_node *as_i32(quantiser *q, anf_node *zero) {
  if (!zero || zero->kind != ANFI_VALUE) return anfi_q_cast(q, zero, ANF_I32);
  return anfi_rewrite_const(&q->r, anfi_value_cast(zero->u.value, ANF_I32));
}

static anf_node *less_zero(quantiser *q, anf_node *code, anf_node *zero) {
  anf_node *x = anfi_q_cast(q, code, ANF_I32);
  return zero ? anfi_q_apply2(q, ANF_OP_Sub, x, as_i32(q, zero)) : x;
}

anf_node *anfi_q_reschedule_conv(quantiser *q, anf_node *n) {
  anfi_conv c;
  conv_factors f;
  if (!anfi_q_is_conv(n) || !anfi_q_is_tensor(n) || !plan_of(q, n, &c)) return NULL;
  if (!factors_of(q, n, &c, &f)) {
    if (!anfi_is_op(n->in[0].def, ANF_OP_Dequantize) &&
        !anfi_is_op(n->in[1].def, ANF_OP_Dequantize))
      q->why = NULL;
    return NULL;
  }
  anf_dtype d = anfi_quantise_dtype((anf_dtype)n->type->dtype);
  anf_node *in[2] = {less_zero(q, f.x, f.zero_x), less_zero(q, f.w, f.zero_w)};
  anf_node *y = anfi_q_cast(q, anfi_q_apply(q, (anfi_opcode)n->op, n->u.attrs, 2, in), d);
  y = anfi_q_scaled(q, y, by_channel(q, f.scale_x, n), by_channel(q, f.scale_w, n), d);
  if (anfi_q_input(n, 2))
    y = anfi_q_apply2(q, ANF_OP_Add, y, by_channel(q, anfi_q_cast(q, n->in[2].def, d), n));
  return anfi_q_cast(q, y, (anf_dtype)n->type->dtype);
}

/* ---- quantize_op_compensation ---- */

/* Widened bytes, or those less a zero point. */
static bool is_offset(anf_node *n, anf_node **code, anf_node **zero) {
  *code = n, *zero = NULL;
  if (anfi_is_op(n, ANF_OP_Sub)) *code = n->in[0].def, *zero = n->in[1].def;
  return anfi_q_is_byte_cast(*code) &&
         (!*zero ||
          (anfi_q_is_tensor(*zero) && anfi_dtype_is_int((anf_dtype)(*zero)->type->dtype)));
}

/* x with its zero point around it, instead of the padding of the convolution. The zero point must be a constant. */
static anf_node *padded(quantiser *q, anf_node *x, const anf_node *zero, const anfi_conv *c) {
  anf_ctx *cx = q->r.m->cx;
  int64_t width[2 * ANF_MAX_RANK] = {0}, rank = x->type->n;
  bool none = true;
  for (int64_t i = 2; i < rank; i++) {
    size_t d = (size_t)(3 - (rank - 2) + i - 2);
    width[2 * i] = c->win.before[d], width[2 * i + 1] = c->win.after[d];
    none &= !c->win.before[d] && !c->win.after[d];
  }
  if (none) return x;
  if (zero->kind != ANFI_VALUE) return NULL;
  anf_value *at[3];
  const anfi_attrs *attrs = NULL;
  anfi_release_later(at[0] = anfi_value_new_ints(cx, (size_t)rank * 2, width));
  anfi_release_later(at[1] = anfi_value_new_string(cx, "constant", strlen("constant")));
  anfi_release_later(at[2] = anfi_value_new_i64(cx, ANF_INT, anfi_get_i64(zero->u.value, 0)));
  anfi_attrs_new(q->r.m, ANF_OP_Pad, at, anfi_nowhere(), &attrs);
  return anfi_q_apply(q, ANF_OP_Pad, attrs, 1, &x);
}

/* The convolution of these, without padding. */
static anf_node *unpadded(quantiser *q, const anf_node *n, anf_node *x, anf_node *w) {
  enum { PADDING = 1 };
  anf_ctx *cx = q->r.m->cx;
  uint32_t nattr = anfi_op_schema(cx, (anfi_opcode)n->op)->nattr;
  anf_value **at = ANFI_NEW_N(q->r.arena, anf_value *, nattr + 1);
  const anfi_attrs *attrs = NULL;
  anf_node *in[2] = {x, w};
  anf_value *none = anfi_value_new_i64(cx, ANF_INT, 0);
  anfi_release_later(none);
  for (uint32_t i = 0; i < nattr; i++)
    at[i] = i == PADDING ? none : anfi_attr_value(cx, (anfi_opcode)n->op, n->u.attrs, i);
  anfi_attrs_new(q->r.m, (anfi_opcode)n->op, at, anfi_nowhere(), &attrs);
  return anfi_q_apply(q, (anfi_opcode)n->op, attrs, 2, in);
}

/* Weights 1 for one channel of the result. */
static anf_node *ones_like_channel(quantiser *q, const anf_type *w) {
  anf_ctx *cx = q->r.m->cx;
  int64_t dims[ANF_MAX_RANK];
  for (uint32_t i = 0; i < w->n; i++) dims[i] = i ? w->dims[i] : 1;
  anf_value *v = anfi_value_new_tensor(cx, anfi_type_tensor(cx, ANF_I8, w->n, dims));
  for (size_t i = 0; i < v->n; i++) anfi_set_i64(v, i, 1);
  return anfi_q_cast(q, anfi_rewrite_const(&q->r, v), ANF_I32);
}

/* Sums of the weights of each channel of the result. */
static anf_node *channel_sums(quantiser *q, anf_node *w) {
  anf_ctx *cx = q->r.m->cx;
  int64_t axes[ANF_MAX_RANK];
  const anfi_attrs *attrs = NULL;
  for (uint32_t i = 1; i < w->type->n; i++) axes[i - 1] = i;
  anf_value *at[2];
  anfi_release_later(at[0] = anfi_value_new_ints(cx, w->type->n - 1, axes));
  anfi_release_later(at[1] = anfi_value_new_i64(cx, ANF_BOOL, 0));
  anfi_attrs_new(q->r.m, ANF_OP_Sum, at, anfi_nowhere(), &attrs);
  return anfi_q_cast(q, anfi_q_apply(q, ANF_OP_Sum, attrs, 1, &w), ANF_I32);
}

/* The operands of a convolution of i32: codes less zero points, of the weights as signed bytes. */
typedef struct conv_offsets {
  anf_node *x, *w, *a, *b; // x - a, w - b; NULL: no zero point
} conv_offsets;

static bool offsets_of(quantiser *q, const anf_node *n, const anfi_conv *c, conv_offsets *f) {
  if (!is_offset(n->in[0].def, &f->x, &f->a) || !is_offset(n->in[1].def, &f->w, &f->b))
    return false;
  anf_node *codes = f->w->in[0].def;
  f->a = as_i32(q, f->a), f->b = as_i32(q, f->b);
  bool is_unsigned = codes->type->dtype == ANF_U8 && codes->kind == ANFI_VALUE && c->groups == 1;
  if (!is_of_weights(f->b, f->w->type) || (f->a && anfi_q_count(f->a) != 1)) return false;
  if (is_unsigned && signed_weights(q, &codes, &f->b)) f->w = anfi_q_cast(q, codes, ANF_I32);
  return (f->a || f->b || is_unsigned) && (c->groups == 1 || !f->b);
}

/* a (Sum(w) - k b), for each channel of the result of n. */
static anf_node *offset_of_x(quantiser *q, const anf_node *n, const conv_offsets *f,
                             const anfi_conv *c) {
  anf_node *sums = by_channel(q, channel_sums(q, f->w->in[0].def), n);
  if (f->b) {
    double k = (double)(c->ci * c->win.kernel[0] * c->win.kernel[1] * c->win.kernel[2]);
    anf_node *each = anfi_q_number(q, ANF_I32, k);
    anf_node *all = anfi_q_apply2(q, ANF_OP_Mul, by_channel(q, f->b, n), each);
    sums = anfi_q_apply2(q, ANF_OP_Sub, sums, all);
  }
  return anfi_q_apply2(q, ANF_OP_Mul, sums, by_channel(q, f->a, n));
}

/* (x - a) * (w - b), by `*` the convolution of k steps = x * w - a (Sum(w) - k b) - b (x * 1), modulo 2^32. */
anf_node *anfi_q_compensate_conv(quantiser *q, anf_node *n) {
  anfi_conv c;
  conv_offsets f;
  if (!anfi_q_is_conv(n) || !anfi_q_is_tensor(n) || n->type->dtype != ANF_I32 || n->nin < 2 ||
      !plan_of(q, n, &c) || !offsets_of(q, n, &c, &f))
    return NULL;
  anf_node *x = f.x, *ones = f.b ? ones_like_channel(q, f.w->type) : NULL;
  if (f.a) x = anfi_q_cast(q, padded(q, f.x->in[0].def, f.a, &c), ANF_I32);
  if (!x) return NULL;
  anf_node *in[2] = {x, f.w}, *in_ones[2] = {x, ones};
  anf_node *y =
      f.a ? unpadded(q, n, x, f.w) : anfi_q_apply(q, (anfi_opcode)n->op, n->u.attrs, 2, in);
  if (f.a) y = anfi_q_apply2(q, ANF_OP_Sub, y, offset_of_x(q, n, &f, &c));
  if (!f.b) return y;
  anf_node *sums =
      f.a ? unpadded(q, n, x, ones) : anfi_q_apply(q, (anfi_opcode)n->op, n->u.attrs, 2, in_ones);
  anf_node *offset = anfi_q_apply2(q, ANF_OP_Mul, sums, by_channel(q, f.b, n));
  return anfi_q_apply2(q, ANF_OP_Sub, y, offset);
}
