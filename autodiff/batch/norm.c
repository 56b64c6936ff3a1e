// SPDX-License-Identifier: Apache-2.0
/* Batching rules of normalisations.
 *   vmap(LayerNorm(x)), x: f32[8, 4]   ->   LayerNorm of [lanes, 8, 4]: one more leading dim
 * Statistics belong to a lane: lanes go along, or become more examples or channels. Hard case: a scale or bias that
 * differs by lane is applied after. */
#include "autodiff/batch/batch.h"

static bool has(const anfi_batch *b, size_t i) {
  return i < b->n && anfi_is_tensor(anfi_lane_type(b, i));
}

static anf_node *absent(const anfi_batch *b) {
  return anfi_ad_const(b->ad, anfi_value_new_none(b->ad->m->cx));
}

/* Argument i, whose dims are those of x along the axes of the mask, in line with x. */
static anf_node *along(anfi_batch *b, size_t i, uint32_t mask) {
  int64_t axes[ANF_MAX_RANK];
  size_t n = 0, rank = anfi_lane_type(b, 0)->n;
  for (size_t k = 0; k < rank; k++)
    if (!(mask >> k & 1)) axes[n++] = (int64_t)k + b->batched[i];
  return n ? anfi_b_ints(b, ANF_OP_ExpandDims, "axis", b->in[i], n, axes) : b->in[i];
}

/* Arguments 1 and 2, scale and bias, as far as they go in; the rest is applied to the result. */
typedef struct {
  anf_node *in[3];
  bool scale_after, bias_after;
} affine;

static affine affine_of(const anfi_batch *b) {
  affine f = {.in = {b->in[0], absent(b), absent(b)}};
  f.scale_after = has(b, 1) && b->batched[1];
  f.bias_after = has(b, 2) && (b->batched[2] || f.scale_after);
  if (has(b, 1) && !f.scale_after) f.in[1] = b->in[1];
  if (has(b, 2) && !f.bias_after) f.in[2] = b->in[2];
  return f;
}

static anf_node *apply_affine(anfi_batch *b, const affine *f, anf_node *y, uint32_t mask) {
  if (f->scale_after) y = anfi_b_2(b, ANF_OP_Mul, y, along(b, 1, mask));
  if (f->bias_after) y = anfi_b_2(b, ANF_OP_Add, y, along(b, 2, mask));
  return anfi_b_cast(b, y, (anf_dtype)b->primal->type->dtype);
}

anf_node *anfi_batch_layer_norm(anfi_batch *b) { // x scale? bias?
  anfi_attr_edit e = anfi_b_attrs(b);
  int64_t at[ANF_MAX_RANK];
  affine f = affine_of(b);
  uint32_t mask = anfi_reduced_axes(anfi_edit_get(&e, "axis"), anfi_lane_type(b, 0)->n);
  size_t n = anfi_attr_ints(anfi_edit_get(&e, "axis"), ANF_MAX_RANK, at);
  for (size_t k = 0; b->batched[0] && k < n; k++) at[k] += at[k] >= 0;
  anfi_edit_ints(&e, "axis", n, at);
  anf_node *y = anfi_b_apply(b, e.op, anfi_edit_done(&e), b->n, f.in);
  return apply_affine(b, &f, y, mask);
}

/* Groups of channels of one example each: lanes are more examples. */
anf_node *anfi_batch_group_norm(anfi_batch *b) { // x scale? bias?
  affine f = affine_of(b);
  const anf_type *t = b->primal->type;
  if (b->batched[0]) {
    anfi_attr_edit e = anfi_edit_attrs(b->ad, ANF_OP_Flatten, NULL);
    anfi_edit_int(&e, "end", 1);
    f.in[0] = anfi_b_apply(b, ANF_OP_Flatten, anfi_edit_done(&e), 1, &b->in[0]);
  }
  anf_node *y = anfi_b_again(b, f.in);
  if (b->batched[0]) y = anfi_b_lane_shape(b, y, t->n, t->dims);
  return apply_affine(b, &f, y, 2);
}

/* Statistics are given, so this is elementwise. */
anf_node *anfi_batch_batch_norm(anfi_batch *b) { // x scale bias mean var
  anfi_attr_edit e = anfi_b_attrs(b);
  size_t axis = 0;
  const anf_type *t = b->primal->type;
  anfi_axis_in(anfi_attr_int(anfi_edit_get(&e, "axis")), t->n, &axis);
  uint32_t mask = UINT32_C(1) << axis;
  bool same = true;
  for (size_t i = 1; i < 5; i++) same &= !b->batched[i];
  if (same) {
    anfi_edit_int(&e, "axis", (int64_t)axis + 1);
    return anfi_b_apply(b, e.op, anfi_edit_done(&e), 5, b->in);
  }
  anf_node *eps = anfi_ad_number(b->ad, ANF_FLOAT, anfi_attr_float(anfi_edit_get(&e, "eps")));
  anf_node *y = anfi_b_2(b, ANF_OP_Sub, anfi_b_aligned(b, 0, t->n), along(b, 3, mask));
  anf_node *var = anfi_b_2(b, ANF_OP_Add, along(b, 4, mask), eps);
  y = anfi_b_2(b, ANF_OP_Div, y, anfi_b_1(b, ANF_OP_Sqrt, var));
  y = anfi_b_2(b, ANF_OP_Mul, y, along(b, 1, mask));
  y = anfi_b_2(b, ANF_OP_Add, y, along(b, 2, mask));
  return anfi_b_cast(b, y, (anf_dtype)t->dtype);
}

/* Statistics are of all examples of a lane: lanes are more channels. */
anf_node *anfi_batch_batch_norm_train(anfi_batch *b) { // x scale bias -> (y, mean, var)
  anfi_attr_edit e = anfi_b_attrs(b);
  const anf_type *t = b->primal->type->items[0];
  size_t axis = 0;
  int64_t dims[ANF_MAX_RANK + 1] = {0};
  anf_node *in[3], *out[3];
  anfi_axis_in(anfi_attr_int(anfi_edit_get(&e, "axis")), t->n, &axis);
  anfi_attr_edit fl = anfi_edit_attrs(b->ad, ANF_OP_Flatten, NULL);
  anfi_edit_int(&fl, "start", (int64_t)axis);
  anfi_edit_int(&fl, "end", (int64_t)axis + 1);
  anf_node *x = anfi_b_move(b, anfi_b_operand(b, 0), 0, axis);
  in[0] = anfi_b_apply(b, ANF_OP_Flatten, anfi_edit_done(&fl), 1, &x);
  for (size_t i = 1; i < 3; i++) in[i] = anfi_b_1(b, ANF_OP_Flatten, anfi_b_operand(b, i));
  anfi_edit_int(&e, "axis", (int64_t)axis);
  anf_node *all = anfi_b_apply(b, e.op, anfi_edit_done(&e), 3, in);
  if (!all) return NULL;
  for (size_t k = 0; k <= t->n; k++)
    dims[k] = k < axis ? t->dims[k] : k == axis ? b->size : t->dims[k - 1];
  anf_node *y = anfi_b_reshape(b, anfi_ad_get(b->ad, b->g, all, 0), t->n + 1u, dims);
  out[0] = anfi_b_move(b, y, axis, 0);
  for (size_t i = 1; i < 3; i++)
    out[i] = anfi_b_lane_shape(b, anfi_ad_get(b->ad, b->g, all, i), 1, &t->dims[axis]);
  return out[0] && out[1] && out[2] ? anfi_ad_tuple(b->ad, b->g, 3, out) : NULL;
}
