// SPDX-License-Identifier: Apache-2.0
/* Batching rules of ops that take a key.
 *   Uniform(key, (3,)), one key        ->  the same node: all lanes have the same numbers
 *   keys[lane]                         ->  one draw after the other (lanes.c) */
#include "autodiff/batch/batch.h"

/* The 32 random bits below p * 2^32, as the op itself compares them. */
anf_node *anfi_batch_bernoulli(anfi_batch *b) { // key p
  const anf_type *t = b->primal->type;
  anf_ctx *cx = b->ad->m->cx;
  if (b->batched[0] || !anfi_is_static(t)) return NULL;
  anfi_attr_edit e = anfi_edit_attrs(b->ad, ANF_OP_RandomBits, NULL);
  anfi_edit_ints(&e, "shape", t->n, t->dims);
  anfi_edit_set(&e, "dtype", anfi_value_new_type(cx, anfi_type_scalar(cx, ANF_U32)));
  anf_node *bits = anfi_b_apply(b, ANF_OP_RandomBits, anfi_edit_done(&e), 1, &b->in[0]);
  anf_node *u = anfi_b_2(b, ANF_OP_Mul, anfi_b_cast(b, bits, ANF_F64),
                         anfi_ad_number(b->ad, ANF_F64, 0x1p-32));
  anf_node *p = anfi_b_align(b, anfi_b_cast(b, b->in[1], ANF_F64), t->n);
  return anfi_b_2(b, ANF_OP_Less, u, p);
}

/* The mask of a key is its result on a lane of ones: 0, or the scale. */
anf_node *anfi_batch_dropout(anfi_batch *b) { // x key
  const anf_type *t = b->primal->type;
  anf_ctx *cx = b->ad->m->cx;
  if (b->batched[1] || !anfi_is_static(t)) return NULL;
  anfi_attr_edit e = anfi_edit_attrs(b->ad, ANF_OP_Ones, NULL);
  anfi_edit_ints(&e, "shape", t->n, t->dims);
  anfi_edit_set(&e, "dtype", anfi_value_new_type(cx, anfi_type_scalar(cx, (anf_dtype)t->dtype)));
  anf_node *in[2] = {anfi_b_apply(b, ANF_OP_Ones, anfi_edit_done(&e), 0, NULL), b->in[1]};
  anf_node *scale = anfi_b_again(b, in);
  anf_node *zero = anfi_ad_number(b->ad, (anf_dtype)t->dtype, 0);
  anf_node *keep = anfi_b_2(b, ANF_OP_NotEqual, scale, zero);
  return anfi_b_3(b, ANF_OP_Where, keep, anfi_b_2(b, ANF_OP_Mul, b->in[0], scale), zero);
}

anf_node *anfi_batch_shuffle(anfi_batch *b) { // key x
  anfi_attr_edit e = anfi_b_attrs(b);
  int64_t axis = anfi_attr_int(anfi_edit_get(&e, "axis"));
  if (b->batched[0]) return NULL;
  anfi_edit_int(&e, "axis", axis >= 0 ? axis + 1 : axis);
  return anfi_b_apply(b, ANF_OP_Shuffle, anfi_edit_done(&e), 2, b->in);
}
