// SPDX-License-Identifier: Apache-2.0
/* Products of dequantised tensors as products of integers.
 *   Dequantize(q, s) @ Dequantize(w, t)      ->  Cast(q @ w, f32) * (s * t)
 *   Linear(FakeQuantize(x, s), .., bias)     ->  Cast(Quantize(x, s) @ .., f32) * (s * t) + bias
 *   (q - z) @ w                              ->  q @ w - z * Sum(w, axis=0)
 * Integers are i32, so that kernels multiply bytes; a sum that might overflow stays one of floats.
 * Scales and zero points must not vary along the summed axis: [M, 1] or [1, N], or one number. */
#include <math.h>

#include "optimizer/quantise/quantise.h"

/* ---- quantized_graph_reschedule ---- */

typedef struct factor { // an operand of the product
  anf_node *code, *scale, *zero;
  bool transposed; // the operand is stored with the last two axes exchanged
  size_t sum;      // the summed axis
} factor;

static bool is_product(const anf_node *n) {
  return n->op == ANF_OP_MatMul || n->op == ANF_OP_Linear;
}

/* Has it one value for all steps of the sum? */
static bool is_uniform(const anf_node *v, const anf_type *code, size_t axis) {
  if (!v) return true;
  if (!anfi_q_is_tensor(v) || v->type->n > code->n) return false;
  size_t ahead = code->n - v->type->n;
  return axis < ahead || v->type->dims[axis - ahead] == 1;
}

anf_node *anfi_q_code_of(quantiser *q, anf_node *n) {
  if (anfi_is_op(n, ANF_OP_Dequantize)) return n->in[0].def;
  if (!anfi_is_op(n, ANF_OP_FakeQuantize) || n->uses->next) return NULL;
  anf_node *in[3] = {n->in[0].def, n->in[1].def, anfi_q_input(n, 2)};
  return anfi_q_apply(q, ANF_OP_Quantize, n->u.attrs, in[2] ? 3 : 2, in);
}

bool anfi_q_is_no_offset(const anf_node *zero) {
  if (zero->kind == ANFI_VALUE) {
    for (size_t i = 0; i < zero->u.value->n; i++)
      if (anfi_get_i64(zero->u.value, i) != 0) return false;
    return true;
  }
  return anfi_is_op(zero, ANF_OP_TupleGet) && anfi_is_op(zero->in[0].def, ANF_OP_DynamicQuantize) &&
         anfi_dtype_class((anf_dtype)zero->type->dtype) == ANFI_CLASS_SIGNED;
}

static bool factor_of(quantiser *q, anf_node *n, bool transposed, bool left, factor *f) {
  if (!anfi_q_is_tensor(n) || n->type->n < 2 || n->nin < 2)
    return anfi_q_refuse(q, "one operand is not dequantised");
  *f = (factor){.code = anfi_q_code_of(q, n), .transposed = transposed};
  if (!f->code)
    return anfi_q_refuse(q, anfi_is_op(n, ANF_OP_FakeQuantize)
                                ? "a FakeQuantize has other readers, too"
                                : "one operand is not dequantised");
  if (!anfi_q_is_tensor(f->code) || !anfi_q_is_byte((anf_dtype)f->code->type->dtype))
    return anfi_q_refuse(q, "codes are no bytes");
  if (!anfi_same_dims(f->code->type, n->type)) return anfi_q_refuse(q, "codes are broadcast");
  f->scale = n->in[1].def, f->zero = anfi_q_input(n, 2);
  if (f->zero && anfi_q_is_no_offset(f->zero)) f->zero = NULL;
  f->sum = n->type->n - (left == transposed ? 2 : 1);
  if (f->zero && f->zero->type->dtype != f->code->type->dtype)
    return anfi_q_refuse(q, "a zero point has another type than its codes");
  return (is_uniform(f->scale, f->code->type, f->sum) &&
          is_uniform(f->zero, f->code->type, f->sum)) ||
         anfi_q_refuse(q, "a scale or zero point varies along the summed axis");
}

static double largest(const factor *f) {
  return f->zero || f->code->type->dtype == ANF_U8 ? 255 : 128;
}

static bool fits(quantiser *q, const factor *a, const factor *b) {
  int64_t k = a->code->type->dims[a->sum];
  if (k < 0) return anfi_q_refuse(q, "the number of terms of a sum is not known");
  return (double)k * largest(a) * largest(b) < 0x1p31 ||
         anfi_q_refuse(q, "sums of so many terms may leave i32");
}

/* A scale or zero point as it stands in the product: of the operand that is not stored transposed. */
static anf_node *in_product(quantiser *q, const factor *f, anf_node *v) {
  if (anfi_q_count(v) == 1 && v->type->n) {
    anf_value *none = anfi_value_new_ints(q->r.m->cx, 0, NULL);
    return anfi_q_apply(q, ANF_OP_Reshape, anfi_attrs_one(q->r.m, ANF_OP_Reshape, none), 1, &v);
  }
  if (!f->transposed || !v->type->n) return v;
  if (v->type->n == 1) { // along the last axis, which becomes the one before
    anf_value *last = anfi_value_new_i64(q->r.m->cx, ANF_INT, -1);
    return anfi_q_apply(q, ANF_OP_ExpandDims, anfi_attrs_one(q->r.m, ANF_OP_ExpandDims, last), 1,
                        &v);
  }
  return anfi_q_swap(q, v);
}

/* The codes less their zero point, in i32. */
static anf_node *centred(quantiser *q, const factor *f) {
  anf_node *x = anfi_q_cast(q, f->code, ANF_I32);
  return f->zero ? anfi_q_apply2(q, ANF_OP_Sub, x, anfi_q_cast(q, f->zero, ANF_I32)) : x;
}

anf_node *anfi_q_scaled(quantiser *q, anf_node *y, anf_node *s, anf_node *t, anf_dtype d) {
  if (!y || !s || !t) return NULL;
  bool sound = anfi_q_is_sound(s) && anfi_q_is_sound(t);
  s = anfi_q_cast(q, s, d), t = anfi_q_cast(q, t, d);
  anf_node *both = sound ? anfi_q_apply2(q, ANF_OP_Mul, s, t) : NULL;
  if (both) return anfi_q_apply2(q, ANF_OP_Mul, y, both);
  return anfi_q_apply2(q, ANF_OP_Mul, anfi_q_apply2(q, ANF_OP_Mul, y, s), t);
}

/* Packed weights that are stored transposed are transposed once: a row's product reads them by rows. Others stay. */
static bool store_by_rows(quantiser *q, factor *f) {
  if (!anfi_q_is_fixed(f->code))
    return anfi_q_refuse(q, "packed codes that are no constant are stored transposed");
  f->code = anfi_q_swap(q, f->code);
  if (f->scale->type->n) f->scale = in_product(q, f, f->scale);
  if (f->zero && f->zero->type->n) f->zero = in_product(q, f, f->zero);
  f->transposed = false, f->sum = 0;
  return f->code != NULL;
}

/* One row of floats, or a few, times weights of bytes: memory bound, so bytes are read, and scales follow the product.
 *   x @ Dequantize(w, t, z)   ->   (x @ (Cast(w, f32) - z)) * t */
static anf_node *reschedule_weights(quantiser *q, anf_node *n, bool linear) {
  enum { LEAST = 64 }; // columns, and terms of a sum
  factor b;
  anf_node *x = n->in[0].def, *w = n->in[1].def;
  uint32_t rank = n->type->n;
  size_t columns = rank > 1 ? (size_t)n->type->dims[rank - 1] : 0,
         rows = rank > 1 ? (size_t)n->type->dims[rank - 2] : 0;
  if (n->type->dtype != ANF_F32 || !columns || !rows || rows > ANFI_FEW_ROWS ||
      anfi_q_count(n) != rows * columns)
    return NULL;
  if (!anfi_is_op(w, ANF_OP_Dequantize) || !anfi_q_is_tensor(w) || w->type->n != 2 ||
      columns < LEAST || anfi_q_count(w) / columns < LEAST || !anfi_q_is_tensor(x) ||
      x->type->dtype != ANF_F32)
    return NULL;
  if (!factor_of(q, w, linear || anfi_q_flag(n, 1), false, &b)) return NULL;
  bool packed = anfi_is_op(b.code, ANF_OP_UnpackBits);
  if (b.transposed && (packed || (rows > 1 && anfi_q_is_fixed(b.code))) && !store_by_rows(q, &b))
    return NULL;
  if (b.transposed && rows > 1) return NULL; // dot products are of one row
  anf_node *codes = anfi_q_cast(q, b.code, ANF_F32);
  if (b.zero) codes = anfi_q_apply2(q, ANF_OP_Sub, codes, anfi_q_cast(q, b.zero, ANF_F32));
  bool transposed = !linear && anfi_q_flag(n, 0);
  anf_node *y = codes ? anfi_rewrite_matmul(&q->r, n, x, transposed, codes, b.transposed) : NULL;
  anf_node *t = in_product(q, &b, anfi_q_cast(q, b.scale, ANF_F32));
  y = anfi_q_apply2(q, ANF_OP_Mul, y, t);
  anf_node *bias = linear ? anfi_q_input(n, 2) : NULL;
  return bias ? anfi_q_apply2(q, ANF_OP_Add, y, bias) : y;
}

static bool is_dequantised(const anf_node *n) {
  return anfi_is_op(n, ANF_OP_Dequantize) || anfi_is_op(n, ANF_OP_FakeQuantize);
}

/* Its scores and their softmax are one loop, of floats. */
static void note_attention(quantiser *q, const anf_node *n) {
  for (uint32_t i = 0; i < n->nin && i < 3; i++)
    if (is_dequantised(n->in[i].def))
      anfi_q_refuse(q, "of bytes are its products alone, where MatMul and Softmax are written out");
}

static anf_node *reschedule(quantiser *q, anf_node *n) {
  factor a, b;
  if (anfi_q_is_conv(n)) return anfi_q_reschedule_conv(q, n);
  if (n->op == ANF_OP_Attention) note_attention(q, n);
  if (!is_product(n) || !anfi_q_is_tensor(n)) return NULL;
  bool linear = n->op == ANF_OP_Linear;
  if (!factor_of(q, n->in[0].def, !linear && anfi_q_flag(n, 0), true, &a) ||
      !factor_of(q, n->in[1].def, linear || anfi_q_flag(n, 1), false, &b) || !fits(q, &a, &b)) {
    const char *why = q->why;
    anf_node *y = reschedule_weights(q, n, linear);
    q->why = NULL;
    if (!y) y = anfi_q_reschedule_groups(q, n);
    if (is_dequantised(n->in[0].def) || is_dequantised(n->in[1].def)) q->why = why;
    return y;
  }
  anf_dtype d = anfi_quantise_dtype((anf_dtype)n->type->dtype);
  anf_node *x = centred(q, &a), *w = centred(q, &b);
  anf_node *sum = x && w ? anfi_rewrite_matmul(&q->r, n, x, a.transposed, w, b.transposed) : NULL;
  anf_node *y = anfi_q_cast(q, sum, d);
  anf_node *s = in_product(q, &a, a.scale), *t = in_product(q, &b, b.scale);
  y = anfi_q_scaled(q, y, s, t, d);
  anf_node *bias = linear ? anfi_q_input(n, 2) : NULL;
  if (bias) y = anfi_q_apply2(q, ANF_OP_Add, y, anfi_q_cast(q, bias, d));
  return anfi_q_cast(q, y, (anf_dtype)n->type->dtype);
}

bool anfi_opt_quantized_graph_reschedule(anfi_pass *p) {
  return anfi_quantise_each(p, anfi_q_is_quantised, reschedule);
}

/* ---- quantize_op_compensation ---- */

bool anfi_q_is_byte_cast(const anf_node *n) {
  return anfi_is_op(n, ANF_OP_Cast) && anfi_q_is_tensor(n) && n->type->dtype == ANF_I32 &&
         anfi_q_is_tensor(n->in[0].def) && anfi_q_is_byte((anf_dtype)n->in[0].def->type->dtype);
}

/* An i32 operand: widened bytes, or those less a zero point that is the same all along the sum. */
static bool offset_factor(anf_node *n, bool transposed, bool left, factor *f) {
  *f = (factor){.code = n, .transposed = transposed};
  if (anfi_is_op(n, ANF_OP_Sub) && anfi_q_is_byte_cast(n->in[0].def)) {
    f->code = n->in[0].def, f->zero = n->in[1].def;
    if (!anfi_q_is_tensor(f->zero) || !anfi_same_dims(f->code->type, n->type) ||
        !anfi_dtype_is_int((anf_dtype)f->zero->type->dtype))
      return false;
  }
  if (!anfi_q_is_byte_cast(f->code) || f->code->type->n < 2) return false;
  f->sum = f->code->type->n - (left == transposed ? 2 : 1);
  return is_uniform(f->zero, f->code->type, f->sum);
}

/* Sums of the codes along the summed axis, which stays as a dim of 1: as they stand in the product. */
static anf_node *code_sums(quantiser *q, const factor *f) {
  anf_node *sum = anfi_q_sum(q, f->code->in[0].def, (int64_t)f->sum, true);
  sum = anfi_q_cast(q, sum, ANF_I32);
  return f->transposed ? anfi_q_swap(q, sum) : sum;
}

/* (A - a)(B - b) = A B - a (colsums(B) - k b) - rowsums(A) b, all modulo 2^32. */
static anf_node *compensate(quantiser *q, anf_node *n) {
  factor a, b;
  if (anfi_q_is_conv(n)) return anfi_q_compensate_conv(q, n);
  if (n->op != ANF_OP_MatMul || !anfi_q_is_tensor(n) || n->type->dtype != ANF_I32) return NULL;
  if (!offset_factor(n->in[0].def, anfi_q_flag(n, 0), true, &a) ||
      !offset_factor(n->in[1].def, anfi_q_flag(n, 1), false, &b) || (!a.zero && !b.zero))
    return NULL;
  int64_t k = a.code->type->dims[a.sum];
  if (k < 0) return NULL;
  anf_node *y = anfi_rewrite_matmul(&q->r, n, a.code, a.transposed, b.code, b.transposed);
  anf_node *za = a.zero ? in_product(q, &a, anfi_q_cast(q, a.zero, ANF_I32)) : NULL;
  anf_node *zb = b.zero ? in_product(q, &b, anfi_q_cast(q, b.zero, ANF_I32)) : NULL;
  if (a.zero) {
    anf_node *sums = code_sums(q, &b);
    if (zb) {
      anf_node *all = anfi_q_apply2(q, ANF_OP_Mul, zb, anfi_q_number(q, ANF_I32, (double)k));
      sums = anfi_q_apply2(q, ANF_OP_Sub, sums, all);
    }
    y = anfi_q_apply2(q, ANF_OP_Sub, y, anfi_q_apply2(q, ANF_OP_Mul, sums, za));
  }
  if (b.zero)
    y = anfi_q_apply2(q, ANF_OP_Sub, y, anfi_q_apply2(q, ANF_OP_Mul, code_sums(q, &a), zb));
  return y;
}

static bool is_whole_product(const anf_node *n) {
  return (n->op == ANF_OP_MatMul || anfi_q_is_conv(n)) && anfi_q_is_tensor(n) &&
         n->type->dtype == ANF_I32;
}

bool anfi_opt_quantize_op_compensation(anfi_pass *p) {
  return anfi_quantise_each(p, is_whole_product, compensate);
}
