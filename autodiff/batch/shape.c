// SPDX-License-Identifier: Apache-2.0
/* Batching rules of ops that name axes or shapes: attributes shift by the batch's axis 0.
 *   Transpose(x, (1, 0))                 ->  Transpose(x', (0, 2, 1)) */
#include "autodiff/batch/batch.h"

/* An axis counted from the end stays where it is. */
static int64_t shifted(int64_t axis) { return axis >= 0 ? axis + 1 : axis; }

static bool given(const anf_value *v) { return v && anfi_attr_given(v); }

static void shift(anfi_attr_edit *e, const char *name) {
  const anf_value *v = anfi_edit_get(e, name);
  int64_t at[ANF_MAX_RANK], one;
  if (!given(v)) return;
  if (anfi_value_is_int(v, &one)) {
    anfi_edit_int(e, name, shifted(one));
    return;
  }
  size_t n = anfi_attr_ints(v, ANF_MAX_RANK, at);
  for (size_t k = 0; k < n; k++) at[k] = shifted(at[k]);
  anfi_edit_ints(e, name, n, at);
}

/* Every operand with its lanes in front. */
static anf_node **all_batched(anfi_batch *b) {
  anf_node **in = ANFI_NEW_N(b->ad->arena, anf_node *, b->n + 1);
  for (size_t i = 0; i < b->n; i++)
    in[i] = anfi_is_tensor(anfi_lane_type(b, i)) ? anfi_b_operand(b, i) : b->in[i];
  return in;
}

static anf_node *with_attrs(const anfi_batch *b, anfi_attr_edit *e, anf_node *const *in) {
  return anfi_b_apply(b, e->op, anfi_edit_done(e), b->n, in);
}

static void all_axes(anfi_attr_edit *e, size_t rank) {
  int64_t at[ANF_MAX_RANK];
  for (size_t k = 0; k < rank; k++) at[k] = (int64_t)k + 1;
  anfi_edit_ints(e, "axis", rank, at);
}

anf_node *anfi_batch_axes(anfi_batch *b) {
  anfi_attr_edit e = anfi_b_attrs(b);
  anf_node **in = all_batched(b);
  if (!anfi_edit_get(&e, "axis")) return with_attrs(b, &e, in);
  if (given(anfi_edit_get(&e, "axis"))) shift(&e, "axis");
  else
    all_axes(&e,
             b->primal->op == ANF_OP_Unreduce ? anfi_lane_type(b, 1)->n : anfi_lane_type(b, 0)->n);
  return with_attrs(b, &e, in);
}

/* Without an axis these take the elements in row-major order. */
anf_node *anfi_batch_axis(anfi_batch *b) {
  anfi_attr_edit e = anfi_b_attrs(b);
  anf_node **in = all_batched(b);
  if (given(anfi_edit_get(&e, "axis"))) {
    shift(&e, "axis");
    return with_attrs(b, &e, in);
  }
  const anf_value *keep = anfi_edit_get(&e, "keepdims");
  bool ones = keep && anfi_attr_bool(keep);
  in[0] = anfi_b_flat(b, in[0]);
  anfi_edit_int(&e, "axis", 1);
  if (keep) anfi_edit_bool(&e, "keepdims", false);
  anf_node *y = with_attrs(b, &e, in);
  return ones ? anfi_b_align(b, y, anfi_lane_type(b, 0)->n) : y;
}

anf_node *anfi_batch_roll(anfi_batch *b) {
  anfi_attr_edit e = anfi_b_attrs(b);
  if (given(anfi_edit_get(&e, "axis"))) {
    shift(&e, "axis");
    return with_attrs(b, &e, b->in);
  }
  anf_node *x = anfi_b_flat(b, b->in[0]);
  anfi_edit_int(&e, "axis", 1);
  return anfi_b_2(b, ANF_OP_ReshapeLike, with_attrs(b, &e, &x), b->in[0]);
}

anf_node *anfi_batch_transpose(anfi_batch *b) {
  const anf_type *t = anfi_lane_type(b, 0);
  size_t perm[ANF_MAX_RANK];
  int64_t axes[ANF_MAX_RANK + 1] = {0};
  anfi_attr_edit e = anfi_b_attrs(b);
  anfi_permutation(anfi_edit_get(&e, "axes"), t->n, perm);
  for (size_t k = 0; k < t->n; k++) axes[k + 1] = (int64_t)perm[k] + 1;
  return anfi_b_permute(b, b->in[0], axes);
}

anf_node *anfi_batch_swap_axes(anfi_batch *b) {
  anfi_attr_edit e = anfi_b_attrs(b);
  shift(&e, "axis1");
  shift(&e, "axis2");
  return with_attrs(b, &e, b->in);
}

/* x.T; ops that read only the shape never get here. */
anf_node *anfi_batch_get_field(anfi_batch *b) {
  size_t n = anfi_lane_type(b, 0)->n;
  int64_t axes[ANF_MAX_RANK + 1] = {0};
  for (size_t k = 0; k < n; k++) axes[k + 1] = (int64_t)(n - k);
  return anfi_b_permute(b, b->in[0], axes);
}

anf_node *anfi_batch_flatten(anfi_batch *b) {
  anfi_attr_edit e = anfi_b_attrs(b);
  if (!anfi_lane_type(b, 0)->n) return anfi_b_flat(b, b->in[0]);
  shift(&e, "start");
  shift(&e, "end");
  return with_attrs(b, &e, b->in);
}

anf_node *anfi_batch_squeeze(anfi_batch *b) {
  anfi_attr_edit e = anfi_b_attrs(b);
  const anf_type *t = anfi_lane_type(b, 0);
  int64_t at[ANF_MAX_RANK];
  size_t n = 0;
  for (size_t k = 0; k < t->n; k++)
    if (t->dims[k] == 1) at[n++] = (int64_t)k + 1;
  if (given(anfi_edit_get(&e, "axis"))) shift(&e, "axis");
  else anfi_edit_ints(&e, "axis", n, at);
  return with_attrs(b, &e, b->in);
}

/* ---- shapes ---- */

/* Lanes in a shape of which `t` is the type: by number, or like something of that shape. */
static anf_node *in_shape(anfi_batch *b, anf_node *x, const anf_type *t) {
  return anfi_b_lane_shape(b, x, t->n, t->dims);
}

anf_node *anfi_batch_reshape(anfi_batch *b) { return in_shape(b, b->in[0], b->primal->type); }

anf_node *anfi_batch_reshape_like(anfi_batch *b) {
  anf_node *y = in_shape(b, anfi_b_operand(b, 0), b->primal->type);
  if (y || anfi_failed(b->ad->m->cx)) return y;
  return anfi_b_2(b, ANF_OP_ReshapeLike, anfi_b_operand(b, 0), anfi_b_operand(b, 1));
}

/* x, which may be batched, in the shape of the result, whose dims are static but perhaps for the
 * number of lanes. */
static anf_node *broadcast_to(anfi_batch *b, anf_node *x, bool batched, const anf_type *lane) {
  const anf_type *t = anfi_batched_type(b->ad->m->cx, lane, b->size);
  if (batched) x = anfi_b_align(b, x, lane->n);
  if (b->size >= 0) return anfi_b_ints(b, ANF_OP_BroadcastTo, "shape", x, t->n, t->dims);
  anfi_attr_edit e = anfi_edit_attrs(b->ad, ANF_OP_Zeros, NULL);
  anf_ctx *cx = b->ad->m->cx;
  anfi_edit_ints(&e, "shape", lane->n, lane->dims);
  anfi_edit_set(&e, "dtype", anfi_value_new_type(cx, anfi_type_scalar(cx, ANF_BOOL)));
  anf_node *shape = anfi_b_apply(b, ANF_OP_Zeros, anfi_edit_done(&e), 0, NULL);
  shape = anfi_b_2(b, ANF_OP_LogicalOr, anfi_b_align(b, anfi_b_lanes(b), lane->n), shape);
  return anfi_b_2(b, ANF_OP_BroadcastLike, x, shape);
}

anf_node *anfi_batch_broadcast_to(anfi_batch *b) {
  return broadcast_to(b, b->in[0], true, b->primal->type);
}

anf_node *anfi_batch_broadcast_like(anfi_batch *b) {
  const anf_type *t = b->primal->type;
  if (anfi_is_static(t)) return broadcast_to(b, b->in[0], b->batched[0], t);
  return anfi_b_2(b, ANF_OP_BroadcastLike, anfi_b_aligned(b, 0, t->n), anfi_b_operand(b, 1));
}

anf_node *anfi_batch_full(anfi_batch *b) {
  const anf_type *t = b->primal->type;
  return broadcast_to(b, anfi_b_cast(b, b->in[0], (anf_dtype)t->dtype), true, t);
}

/* x lends its shape, value is a scalar. */
anf_node *anfi_batch_full_like(anfi_batch *b) {
  const anf_type *t = b->primal->type;
  anf_node *v = anfi_b_cast(b, b->in[1], (anf_dtype)t->dtype);
  if (anfi_is_static(t)) return broadcast_to(b, v, b->batched[1], t);
  return anfi_b_2(b, ANF_OP_BroadcastLike, b->batched[1] ? anfi_b_align(b, v, t->n) : v,
                  anfi_b_operand(b, 0));
}

/* Zeros and ones of lanes whose shape is not known. */
anf_node *anfi_batch_like(anfi_batch *b) { return anfi_b_again(b, b->in); }

/* The lanes of `like` get dims of 1 in front, so that x is summed over them; then these go. */
anf_node *anfi_batch_sum_to(anfi_batch *b) {
  size_t rank = anfi_lane_type(b, 0)->n;
  anf_node *like = anfi_b_operand(b, 1);
  anf_node *y = anfi_b_2(b, ANF_OP_SumTo, anfi_b_operand(b, 0), anfi_b_align(b, like, rank));
  y = anfi_b_cast(b, y, (anf_dtype)b->primal->type->dtype); // built as Sum, which widens integers
  return anfi_b_2(b, ANF_OP_ReshapeLike, y, like);
}

/* ---- elements repeated or added ---- */

anf_node *anfi_batch_pad(anfi_batch *b) {
  int64_t w[2 * ANF_MAX_RANK + 2] = {0, 0};
  anfi_attr_edit e = anfi_b_attrs(b);
  size_t n = anfi_attr_ints(anfi_edit_get(&e, "pad_width"), 2 * ANF_MAX_RANK, w + 2);
  anfi_edit_ints(&e, "pad_width", n + 2, w);
  return with_attrs(b, &e, b->in);
}

anf_node *anfi_batch_tile(anfi_batch *b) {
  int64_t given_reps[ANF_MAX_RANK], reps[ANF_MAX_RANK + 1];
  anfi_attr_edit e = anfi_b_attrs(b);
  size_t n = anfi_attr_ints(anfi_edit_get(&e, "reps"), ANF_MAX_RANK, given_reps);
  size_t rank = anfi_lane_type(b, 0)->n, to = n > rank ? n : rank;
  if (to >= ANF_MAX_RANK) return NULL;
  for (size_t k = 0; k <= to; k++) reps[k] = k + n > to ? given_reps[k + n - to - 1] : 1;
  anfi_edit_ints(&e, "reps", to + 1, reps);
  anf_node *x = anfi_b_align(b, b->in[0], to);
  return with_attrs(b, &e, &x);
}

/* Diagonal k of matrices [lanes, m, n]: every n + 1st element of the flat ones. */
static anf_node *diagonal(anfi_batch *b, int64_t k, int64_t m, int64_t n) {
  int64_t first = k >= 0 ? k : -k * n;
  int64_t count = k >= 0 ? (n - k < m ? n - k : m) : (m + k < n ? m + k : n);
  if (count <= 0) first = count = 0;
  anfi_attr_edit e = anfi_edit_attrs(b->ad, ANF_OP_Slice, NULL);
  anfi_edit_int(&e, "axis", 1);
  anfi_edit_int(&e, "start", first);
  anfi_edit_int(&e, "stop", count ? first + (count - 1) * (n + 1) + 1 : 0);
  anfi_edit_int(&e, "step", n + 1);
  anf_node *x = anfi_b_flat(b, b->in[0]);
  return anfi_b_apply(b, ANF_OP_Slice, anfi_edit_done(&e), 1, &x);
}

/* Vectors on diagonal k: chosen by an identity matrix, so that NaN stays where it is. */
anf_node *anfi_batch_diag(anfi_batch *b) {
  const anf_type *t = anfi_lane_type(b, 0);
  anf_ctx *cx = b->ad->m->cx;
  anfi_attr_edit e = anfi_b_attrs(b);
  int64_t k = anfi_attr_int(anfi_edit_get(&e, "k"));
  if (!anfi_is_static(t)) return NULL;
  if (t->n == 2) return diagonal(b, k, t->dims[0], t->dims[1]);
  int64_t wide = k < 0 ? -k : k, width[4] = {0, 0, 0, wide}, size = t->dims[0] + wide;
  anf_node *x = wide ? anfi_b_ints(b, ANF_OP_Pad, "pad_width", b->in[0], 4, width) : b->in[0];
  x = anfi_b_axis(b, ANF_OP_ExpandDims, x, k >= 0 ? 2 : 1);
  e = anfi_edit_attrs(b->ad, ANF_OP_Eye, NULL);
  anfi_edit_int(&e, "n", size);
  anfi_edit_int(&e, "k", k);
  anfi_edit_set(&e, "dtype", anfi_value_new_type(cx, anfi_type_scalar(cx, ANF_BOOL)));
  anf_node *eye = anfi_b_apply(b, ANF_OP_Eye, anfi_edit_done(&e), 0, NULL);
  anf_node *zero = anfi_ad_const(b->ad, anfi_value_new_i64(cx, (anf_dtype)t->dtype, 0));
  return anfi_b_3(b, ANF_OP_Where, eye, x, zero);
}

/* What works on the last two dims takes any dims before them. */
anf_node *anfi_batch_matrices(anfi_batch *b) { return anfi_b_again(b, b->in); }

/* ---- effects ---- */

/* An assertion holds if it holds for all lanes; Print prints the batch. */
anf_node *anfi_batch_effect(anfi_batch *b) {
  anf_node *in[2];
  if (b->primal->op == ANF_OP_Print) return anfi_b_again(b, b->in);
  in[0] = b->batched[0] ? anfi_b_1(b, ANF_OP_All, b->in[0]) : b->in[0];
  if (b->n > 1) in[1] = b->in[1];
  return anfi_b_again(b, in);
}
