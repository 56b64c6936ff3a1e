// SPDX-License-Identifier: Apache-2.0
/* Batching rules of ops that read and write at indices.
 *   Gather(x, i), x and i batched        GatherNd(x, (lane, i))
 * Where positions differ by lane, the number of the lane becomes one more index, and GatherNd or ScatterNd
 * does all lanes at once. */
#include "autodiff/batch/batch.h"

static anf_node *join(const anfi_batch *b, anfi_opcode op, anf_node *x, anf_node *y, int64_t axis) {
  anfi_attr_edit e = anfi_edit_attrs(b->ad, op, NULL);
  anfi_edit_int(&e, "axis", axis);
  return anfi_b_apply(b, op, anfi_edit_done(&e), 2, (anf_node *const[]){x, y});
}

/* (lane, index) for each index of a batch of index tensors. */
static anf_node *with_lane(anfi_batch *b, anf_node *index) {
  index = anfi_b_cast(b, index, ANF_I64);
  if (!index) return NULL;
  anf_node *lane = anfi_b_align(b, anfi_b_iota(b), index->type->n - 1u);
  return join(b, ANF_OP_Stack, anfi_b_2(b, ANF_OP_BroadcastLike, lane, index), index, -1);
}

/* The same where the last dim holds a position already. */
anf_node *anfi_b_lane_first(anfi_batch *b, anf_node *index) {
  index = anfi_b_cast(b, index, ANF_I64);
  if (!index) return NULL;
  anfi_attr_edit e = anfi_edit_attrs(b->ad, ANF_OP_Zeros, NULL);
  int64_t dims[ANF_MAX_RANK];
  size_t n = index->type->n;
  for (size_t k = 0; k < n; k++) dims[k] = k + 1 < n ? index->type->dims[k] : 1;
  anf_node *lane = anfi_b_align(b, anfi_b_iota(b), n - 1);
  if (anfi_is_static(index->type))
    return join(b, ANF_OP_Concat, anfi_b_ints(b, ANF_OP_BroadcastTo, "shape", lane, n, dims), index,
                -1);
  if (!dims[n - 1] || !index->type->dims[n - 1]) return NULL; // no element has the shape
  e = anfi_edit_attrs(b->ad, ANF_OP_Slice, NULL);
  anfi_edit_int(&e, "axis", -1);
  anfi_edit_int(&e, "stop", 1);
  anf_node *like = anfi_b_apply(b, ANF_OP_Slice, anfi_edit_done(&e), 1, &index);
  return join(b, ANF_OP_Concat, anfi_b_2(b, ANF_OP_BroadcastLike, lane, like), index, -1);
}

/* Groups of axes of a batched tensor: [lanes, first.., second.., rest..] to [lanes, second..,
 * first.., rest..]. */
static anf_node *swap_groups(const anfi_batch *b, anf_node *x, size_t first, size_t second) {
  int64_t axes[ANF_MAX_RANK] = {0};
  size_t n = 1;
  if (!x || !first || !second) return x;
  for (size_t k = 0; k < second; k++) axes[n++] = (int64_t)(1 + first + k);
  for (size_t k = 0; k < first; k++) axes[n++] = (int64_t)(1 + k);
  for (; n < x->type->n; n++) axes[n] = (int64_t)n;
  return anfi_b_permute(b, x, axes);
}

static anf_node *take(const anfi_batch *b, anf_node *x, anf_node *index, int64_t axis) {
  anfi_attr_edit e = anfi_edit_attrs(b->ad, ANF_OP_Take, NULL);
  anfi_edit_int(&e, "axis", axis);
  return anfi_b_apply(b, ANF_OP_Take, anfi_edit_done(&e), 2, (anf_node *const[]){x, index});
}

/* Rows along `axis` of the lanes of x; one of the two is batched. */
anf_node *anfi_b_take(anfi_batch *b, anf_node *x, bool xb, anf_node *index, bool ib, size_t axis) {
  if (!x || !index) return NULL;
  if (!ib) return take(b, x, index, (int64_t)axis + 1);
  if (!xb) return anfi_b_move(b, take(b, x, index, (int64_t)axis), axis, 0);
  size_t dims = index->type->n - 1u;
  anf_node *rows = anfi_b_move(b, x, axis + 1, 1);
  return swap_groups(b, anfi_b_2(b, ANF_OP_GatherNd, rows, with_lane(b, index)), dims, axis);
}

static anf_node *flat_operand(anfi_batch *b, size_t i) {
  return b->batched[i] ? anfi_b_flat(b, b->in[i]) : anfi_b_1(b, ANF_OP_Flatten, b->in[i]);
}

anf_node *anfi_batch_take(anfi_batch *b) {
  size_t axis = 0;
  anfi_attr_edit e = anfi_b_attrs(b);
  const anf_value *v = anfi_edit_get(&e, "axis");
  bool flat = !v || !anfi_attr_given(v);
  if (!flat) anfi_axis_in(anfi_attr_int(v), anfi_lane_type(b, 0)->n, &axis);
  anf_node *x = flat ? flat_operand(b, 0) : b->in[0];
  return anfi_b_take(b, x, b->batched[0], b->in[1], b->batched[1], axis);
}

anf_node *anfi_batch_embedding(anfi_batch *b) {
  return anfi_b_take(b, b->in[0], b->batched[0], b->in[1], b->batched[1], 0);
}

static anf_node *scatter(const anfi_batch *b, anf_node *x, anf_node *index, anf_node *updates,
                         anf_value *mode) {
  anfi_attr_edit e = anfi_edit_attrs(b->ad, ANF_OP_ScatterNd, NULL);
  e.v[anfi_attr_index(b->ad->m->cx, ANF_OP_ScatterNd, "mode")] = mode;
  return anfi_b_apply(b, ANF_OP_ScatterNd, anfi_edit_done(&e), 3,
                      (anf_node *const[]){x, index, updates});
}

/* x, index, updates: all of the batch but perhaps the index. */
static anf_node *write_lanes(anfi_batch *b, anf_node *x, anf_node *updates, size_t axis) {
  anfi_attr_edit e = anfi_b_attrs(b);
  if (!b->batched[1]) {
    anfi_edit_int(&e, "axis", (int64_t)axis + 1);
    anf_node *in[3] = {x, b->in[1], updates};
    return anfi_b_apply(b, ANF_OP_IndexWrite, anfi_edit_done(&e), 3, in);
  }
  size_t dims = anfi_lane_type(b, 1)->n;
  anf_node *rows = anfi_b_move(b, x, axis + 1, 1);
  rows = scatter(b, rows, with_lane(b, b->in[1]), swap_groups(b, updates, axis, dims),
                 anfi_edit_get(&e, "mode"));
  return anfi_b_move(b, rows, 1, axis + 1);
}

anf_node *anfi_batch_index_write(anfi_batch *b) {
  size_t axis = 0;
  anfi_attr_edit e = anfi_b_attrs(b);
  const anf_value *v = anfi_edit_get(&e, "axis");
  anf_node *x = anfi_b_operand(b, 0), *updates = anfi_b_operand(b, 2);
  if (v && anfi_attr_given(v)) {
    anfi_axis_in(anfi_attr_int(v), anfi_lane_type(b, 0)->n, &axis);
    return write_lanes(b, x, updates, axis);
  }
  return anfi_b_2(b, ANF_OP_ReshapeLike, write_lanes(b, anfi_b_flat(b, x), updates, 0), x);
}

anf_node *anfi_batch_gather_nd(anfi_batch *b) {
  if (!b->batched[0]) return anfi_b_2(b, ANF_OP_GatherNd, b->in[0], b->in[1]);
  if (b->batched[1]) return anfi_b_2(b, ANF_OP_GatherNd, b->in[0], anfi_b_lane_first(b, b->in[1]));
  const anf_type *index = anfi_lane_type(b, 1); // the same rows of all lanes: these go after
  size_t depth = (size_t)index->dims[index->n - 1];
  anf_node *y = anfi_b_2(b, ANF_OP_GatherNd, anfi_b_move(b, b->in[0], 0, depth), b->in[1]);
  return anfi_b_move(b, y, index->n - 1u, 0);
}

anf_node *anfi_batch_scatter_nd(anfi_batch *b) {
  anfi_attr_edit e = anfi_b_attrs(b);
  anf_node *index = anfi_b_lane_first(b, anfi_b_operand(b, 1));
  return scatter(b, anfi_b_operand(b, 0), index, anfi_b_operand(b, 2), anfi_edit_get(&e, "mode"));
}

/* ---- slices ---- */

anf_node *anfi_batch_slice_update(anfi_batch *b) {
  anfi_attr_edit e = anfi_b_attrs(b);
  int64_t axis = anfi_attr_int(anfi_edit_get(&e, "axis"));
  anfi_edit_int(&e, "axis", axis >= 0 ? axis + 1 : axis);
  anf_node *in[2] = {anfi_b_operand(b, 0), anfi_b_aligned(b, 1, anfi_lane_type(b, 0)->n)};
  return anfi_b_apply(b, ANF_OP_SliceUpdate, anfi_edit_done(&e), 2, in);
}

/* The number of elements of the lanes of argument 0 along an axis, an i64. */
static anf_node *dim_of(const anfi_batch *b, size_t axis) {
  const anf_type *t = anfi_lane_type(b, 0);
  if (t->dims[axis] >= 0) return anfi_b_i64(b, t->dims[axis]);
  anfi_attr_edit e = anfi_edit_attrs(b->ad, ANF_OP_TupleGet, NULL);
  anfi_edit_int(&e, "index", (int64_t)axis + b->batched[0]);
  anf_node *shape = anfi_b_1(b, ANF_OP_Shape, b->in[0]);
  return anfi_b_cast(b, anfi_b_apply(b, ANF_OP_TupleGet, anfi_edit_done(&e), 1, &shape), ANF_I64);
}

/* A start as the ops take it: from the end if negative, and then so that `size` fit. */
static anf_node *clamped(const anfi_batch *b, anf_node *start, size_t axis, int64_t size) {
  anf_node *dim = dim_of(b, axis), *zero = anfi_b_i64(b, 0);
  if (start && start->type->dtype == ANF_U64) // large ones would turn negative
    start = anfi_b_2(b, ANF_OP_Minimum, start, anfi_b_cast(b, dim, ANF_U64));
  start = anfi_b_cast(b, start, ANF_I64);
  anf_node *from_end = anfi_b_2(b, ANF_OP_Add, start, dim);
  start = anfi_b_3(b, ANF_OP_Where, anfi_b_2(b, ANF_OP_Less, start, zero), from_end, start);
  anf_node *last = anfi_b_2(b, ANF_OP_Sub, dim, anfi_b_i64(b, size));
  return anfi_b_2(b, ANF_OP_Minimum, anfi_b_2(b, ANF_OP_Maximum, start, zero), last);
}

/* The positions start .. start + size - 1, batched or not. */
static anf_node *positions(const anfi_batch *b, anf_node *start, int64_t size) {
  if (start && start->type->n) start = anfi_b_axis(b, ANF_OP_ExpandDims, start, 1);
  return anfi_b_2(b, ANF_OP_Add, start, anfi_b_arange(b, 0, size, 1));
}

static bool starts_differ(const anfi_batch *b, size_t from) {
  for (size_t i = from; i < b->n; i++)
    if (b->batched[i]) return true;
  return false;
}

anf_node *anfi_batch_dynamic_slice(anfi_batch *b) {
  anfi_attr_edit e = anfi_b_attrs(b);
  const anf_type *t = anfi_lane_type(b, 0);
  int64_t sizes[ANF_MAX_RANK + 1];
  anfi_attr_ints(anfi_edit_get(&e, "sizes"), ANF_MAX_RANK, sizes + 1);
  if (!starts_differ(b, 1) && b->size >= 0) {
    anf_node **in = ANFI_NEW_N(b->ad->arena, anf_node *, b->n + 1);
    in[0] = b->in[0];
    in[1] = anfi_b_i64(b, 0);
    memcpy(in + 2, b->in + 1, (b->n - 1) * sizeof *in);
    sizes[0] = b->size;
    anfi_edit_ints(&e, "sizes", t->n + 1u, sizes);
    return anfi_b_apply(b, ANF_OP_DynamicSlice, anfi_edit_done(&e), b->n + 1, in);
  }
  anf_node *x = b->in[0];
  bool batched = b->batched[0];
  for (size_t k = 0; k < t->n; k++) { // one axis after the other
    if (sizes[k + 1] == t->dims[k]) continue;
    bool differs = b->batched[k + 1];
    anf_node *at = positions(b, clamped(b, b->in[k + 1], k, sizes[k + 1]), sizes[k + 1]);
    x = !batched && !differs ? take(b, x, at, (int64_t)k)
                             : anfi_b_take(b, x, batched, at, differs, k);
    batched |= differs;
  }
  return batched ? x : anfi_b_spread(b, x);
}

/* Positions of the update's elements along the first `depth` axes, as indices for ScatterNd. */
static anf_node *grid(anfi_batch *b, const anf_type *u, size_t depth) {
  anf_node *index = NULL, *part[ANF_MAX_RANK];
  int64_t dims[ANF_MAX_RANK + 1];
  if (depth + 2 > ANF_MAX_RANK) return NULL;
  for (size_t k = 0; k < depth; k++) dims[k] = u->dims[k];
  for (size_t k = 0; k < depth; k++) {
    anf_node *at = positions(b, clamped(b, b->in[k + 2], k, u->dims[k]), u->dims[k]);
    int64_t axes[ANF_MAX_RANK];
    size_t n = 0;
    bool differs = b->batched[k + 2];
    for (size_t j = 0; j < depth; j++)
      if (j != k) axes[n++] = (int64_t)(j + differs);
    if (n && at) at = anfi_b_ints(b, ANF_OP_ExpandDims, "axis", at, n, axes);
    if (differs) part[k] = anfi_b_lane_shape(b, at, depth, at ? at->type->dims + 1 : NULL);
    else part[k] = at;
    if (!part[k]) return NULL;
    anfi_attr_edit e = anfi_edit_attrs(b->ad, ANF_OP_Zeros, NULL);
    anfi_edit_ints(&e, "shape", depth, dims);
    anf_ctx *cx = b->ad->m->cx;
    anfi_edit_set(&e, "dtype", anfi_value_new_type(cx, anfi_type_scalar(cx, ANF_I64)));
    anf_node *zeros = anfi_b_apply(b, ANF_OP_Zeros, anfi_edit_done(&e), 0, NULL);
    anf_node *lanes = anfi_b_align(b, anfi_b_cast(b, anfi_b_lanes(b), ANF_I64), depth);
    part[k] = anfi_b_2(b, ANF_OP_Add, part[k], anfi_b_2(b, ANF_OP_Add, lanes, zeros));
  }
  anfi_attr_edit e = anfi_edit_attrs(b->ad, ANF_OP_Stack, NULL);
  anfi_edit_int(&e, "axis", -1);
  index = anfi_b_apply(b, ANF_OP_Stack, anfi_edit_done(&e), depth, part);
  return anfi_b_lane_first(b, index);
}

anf_node *anfi_batch_dynamic_update_slice(anfi_batch *b) {
  const anf_type *t = anfi_lane_type(b, 0), *u = anfi_lane_type(b, 1);
  anf_node *x = anfi_b_operand(b, 0), *update = anfi_b_operand(b, 1);
  size_t depth = t->n;
  if (!starts_differ(b, 2)) {
    anf_node **in = ANFI_NEW_N(b->ad->arena, anf_node *, b->n + 1);
    in[0] = x;
    in[1] = update;
    in[2] = anfi_b_i64(b, 0);
    memcpy(in + 3, b->in + 2, (b->n - 2) * sizeof *in);
    return anfi_b_apply(b, ANF_OP_DynamicUpdateSlice, NULL, b->n + 1, in);
  }
  if (!anfi_is_static(u)) return NULL;
  while (depth && u->dims[depth - 1] == t->dims[depth - 1]) depth--; // whole axes start at 0
  if (!depth) return update;
  anf_value *mode = anfi_value_new_string(b->ad->m->cx, "update", 6);
  anfi_hold(b->ad->m, mode);
  return scatter(b, x, grid(b, u, depth), anfi_b_cast(b, update, (anf_dtype)t->dtype), mode);
}

/* Counts of each lane in a part of its own; one outside a lane's part must stay outside all. */
anf_node *anfi_batch_bincount(anfi_batch *b) {
  anfi_attr_edit e = anfi_b_attrs(b);
  int64_t length = anfi_attr_int(anfi_edit_get(&e, "length"));
  if (b->size < 0) return NULL;
  anf_node *x = anfi_b_cast(b, anfi_b_operand(b, 0), ANF_I64), *in[2];
  anf_node *lane =
      anfi_b_align(b, anfi_b_2(b, ANF_OP_Mul, anfi_b_iota(b), anfi_b_i64(b, length)), 1);
  anf_node *inside =
      anfi_b_2(b, ANF_OP_LogicalAnd, anfi_b_2(b, ANF_OP_GreaterEqual, x, anfi_b_i64(b, 0)),
               anfi_b_2(b, ANF_OP_Less, x, anfi_b_i64(b, length)));
  x = anfi_b_3(b, ANF_OP_Where, inside, anfi_b_2(b, ANF_OP_Add, x, lane), anfi_b_i64(b, -1));
  in[0] = anfi_b_1(b, ANF_OP_Flatten, x);
  bool weighted = b->n > 1 && anfi_is_tensor(anfi_lane_type(b, 1));
  if (weighted) in[1] = anfi_b_1(b, ANF_OP_Flatten, anfi_b_operand(b, 1));
  anfi_edit_int(&e, "length", length * b->size);
  anf_node *y = anfi_b_apply(b, ANF_OP_Bincount, anfi_edit_done(&e), weighted ? 2 : 1, in);
  return anfi_b_lane_shape(b, y, 1, &length);
}

/* A sorted vector that all lanes share: one op looks up the values of all lanes. */
anf_node *anfi_batch_search_sorted(anfi_batch *b) {
  return b->batched[0] ? NULL : anfi_b_again(b, b->in);
}
