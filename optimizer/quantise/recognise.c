// SPDX-License-Identifier: Apache-2.0
/* Brings quantised numbers to one form, next to the products that read them:
 *   (Cast(q, f32) - 3) * 0.1 @ w                    ->  Dequantize(q, 0.1, 3) @ w
 *   Reshape(Dequantize(q, s), (8, 4)) @ w           ->  Dequantize(Reshape(q, (8, 4)), s) @ w */
#include "optimizer/quantise/quantise.h"

/* ---- analysis_quantized ---- */

static bool is_widened_byte(const anf_node *n) {
  return anfi_is_op(n, ANF_OP_Cast) && anfi_q_is_tensor(n) && anfi_q_is_tensor(n->in[0].def) &&
         anfi_q_is_byte((anf_dtype)n->in[0].def->type->dtype) &&
         (n->type->dtype == ANF_F32 || n->type->dtype == ANF_F64);
}

/* Does a product read it, as it is or moved? */
static bool meets_product(const anf_node *n) {
  for (const anfi_use *u = n->uses; u; u = u->next) {
    const anf_node *x = u->user;
    for (int k = 0; k < 4 && x->kind == ANFI_APPLY && x->nin && x->uses && !x->uses->next &&
                    (anfi_op_of(x)->lower == ANFI_LOWER_INDEX_MAP);
         k++)
      x = x->uses->user;
    if (anfi_is_op(x, ANF_OP_MatMul) || anfi_is_op(x, ANF_OP_Linear) || anfi_q_is_conv(x))
      return true;
  }
  return false;
}

/* The zero point that is subtracted from bytes of type d, as integers of that type; NULL: it is none. */
static anf_node *zero_of(quantiser *q, anf_node *z, anf_dtype d) {
  double lo, hi;
  if (is_widened_byte(z) && z->in[0].def->type->dtype == d) return z->in[0].def;
  if (z->kind != ANFI_VALUE || !anfi_q_is_tensor(z)) return NULL;
  anfi_quantise_range(d, true, &lo, &hi);
  for (size_t i = 0; i < z->u.value->n; i++) {
    double x = anfi_get_f64(z->u.value, i);
    if (!(x >= lo && x <= hi && x == (double)(int64_t)x)) return NULL;
  }
  return anfi_rewrite_const(&q->r, anfi_value_cast(z->u.value, d));
}

static anf_node *dequantised(quantiser *q, const anf_node *n, anf_node *code, anf_node *scale) {
  anf_node *zero = NULL;
  anf_dtype d = (anf_dtype)n->type->dtype;
  bool sound = anfi_q_is_sound(scale);
  if (anfi_is_op(code, ANF_OP_Sub) && is_widened_byte(code->in[0].def)) {
    zero = zero_of(q, code->in[1].def, (anf_dtype)code->in[0].def->in[0].def->type->dtype);
    if (!zero) return NULL;
    code = code->in[0].def;
  }
  if (!is_widened_byte(code)) return NULL;
  if (!sound && !q->r.pass->fast) {
    anfi_q_refuse(
        q, "its scale may be infinite or NaN; Dequantize says that it is not, so does --fast");
    return NULL;
  }
  if (!anfi_q_is_tensor(scale) || !anfi_dtype_is_float((anf_dtype)scale->type->dtype)) return NULL;
  if (sound) scale = anfi_rewrite_const(&q->r, anfi_value_cast(scale->u.value, d));
  anf_node *in[3] = {code->in[0].def, scale, zero};
  return anfi_q_apply(q, ANF_OP_Dequantize, NULL, zero ? 3 : 2, in);
}

static anf_node *recognise(quantiser *q, anf_node *n) {
  if (n->op != ANF_OP_Mul || n->nin != 2 || !anfi_q_is_tensor(n) || !n->type->n) return NULL;
  if (!meets_product(n)) return NULL;
  anf_node *x = dequantised(q, n, n->in[0].def, n->in[1].def);
  return x ? x : dequantised(q, n, n->in[1].def, n->in[0].def);
}

bool anfi_opt_analysis_quantized(anfi_pass *p) {
  return anfi_quantise_each(p, is_widened_byte, recognise);
}

/* ---- quantized_info_propagation ---- */

/* Ops that move the elements of their first input and change none. */
static bool is_move(const anf_node *n) {
  switch (n->op) {
  case ANF_OP_Reshape:
  case ANF_OP_ReshapeLike:
  case ANF_OP_Flatten:
  case ANF_OP_ExpandDims:
  case ANF_OP_Squeeze:
  case ANF_OP_Transpose:
  case ANF_OP_SwapAxes:
  case ANF_OP_Slice:
  case ANF_OP_GetItem:
  case ANF_OP_TakeAlongAxis:
  case ANF_OP_Take:
  case ANF_OP_Embedding:
  case ANF_OP_Identity: return true;
  default: return false;
  }
}

static bool is_one(const anf_node *n) { return !n || (anfi_q_is_tensor(n) && n->type->n == 0); }

/* The same move of another tensor. */
static anf_node *moved(quantiser *q, const anf_node *n, anf_node *x) {
  anf_node **in = ANFI_NEW_N(q->r.arena, anf_node *, n->nin);
  for (uint32_t i = 0; i < n->nin; i++) in[i] = i ? n->in[i].def : x;
  return anfi_q_apply(q, (anfi_opcode)n->op, n->u.attrs, n->nin, in);
}

/* A scalar goes with any move, a tensor of the same rank with a permutation. */
static anf_node *moved_scale(quantiser *q, const anf_node *n, anf_node *scale, uint32_t rank) {
  if (is_one(scale)) return scale;
  return (anfi_op_of(n)->flags & ANFI_PERMUTES) && scale->type->n == rank ? moved(q, n, scale)
                                                                          : NULL;
}

static anf_node *propagate(quantiser *q, anf_node *n) {
  anf_node *d = n->nin ? n->in[0].def : NULL, *zero = NULL;
  if (!is_move(n) || !anfi_is_op(d, ANF_OP_Dequantize)) return NULL;
  anf_node *code = d->in[0].def;
  if (!anfi_q_is_tensor(code) || anfi_type_with_dtype(q->r.m->cx, code->type, ANF_F32) !=
                                     anfi_type_with_dtype(q->r.m->cx, d->type, ANF_F32))
    return NULL; // the scale makes more elements of it
  anf_node *scale = moved_scale(q, n, d->in[1].def, code->type->n);
  if (anfi_q_input(d, 2) && !(zero = moved_scale(q, n, d->in[2].def, code->type->n))) return NULL;
  anf_node *in[3] = {scale ? moved(q, n, code) : NULL, scale, zero};
  return anfi_q_apply(q, ANF_OP_Dequantize, NULL, zero ? 3 : 2, in);
}

bool anfi_opt_quantized_info_propagation(anfi_pass *p) {
  return anfi_quantise_each(p, anfi_q_is_quantised, propagate);
}
