// SPDX-License-Identifier: Apache-2.0
/* Building blocks of batching rules (batch.h): align, spread and move axes.
 *   x[n] + w, lanes on axis 0 of x, w: f32[3]        ->  x[n, 1] + w
 * INVARIANT: the lanes of a batched node are its axis 0, whatever made it. */
#include "autodiff/batch/batch.h"

/* ---- types ---- */

bool anfi_is_static(const anf_type *t) {
  for (uint32_t k = 0; k < t->n; k++)
    if (t->dims[k] < 0) return false;
  return true;
}

const anf_type *anfi_lane_type(const anfi_batch *b, size_t i) {
  return anfi_ad_type_of(b->ad, b->primal->in[i].def);
}

const anf_type *anfi_batched_type(anf_ctx *cx, const anf_type *lane, int64_t size) {
  int64_t dims[ANF_MAX_RANK + 1];
  dims[0] = size;
  for (uint32_t k = 0; k < lane->n; k++) dims[k + 1] = lane->dims[k];
  return anfi_type_tensor(cx, (anf_dtype)lane->dtype, lane->n + 1u, dims);
}

/* ---- attributes ---- */

anfi_attr_edit anfi_edit_attrs(anfi_ad *ad, anfi_opcode op, const anfi_attrs *from) {
  anfi_attr_edit e = {.ad = ad, .op = op};
  const anfi_schema *s = anfi_op_schema(ad->m->cx, op);
  for (uint32_t k = 0; k < s->nattr && k < ANFI_LEN(e.v); k++) {
    if (!from && !s->attr[k].initial && !s->attr[k].optional) continue;
    e.v[k] = anfi_attr_value(ad->m->cx, op, from, k);
  }
  return e;
}

anf_value *anfi_edit_get(const anfi_attr_edit *e, const char *name) {
  int k = anfi_attr_index(e->ad->m->cx, e->op, name);
  return k < 0 ? NULL : e->v[k];
}

void anfi_edit_set(anfi_attr_edit *e, const char *name, anf_value *v) {
  anfi_hold(e->ad->m, v);
  e->v[anfi_attr_index(e->ad->m->cx, e->op, name)] = v;
}

void anfi_edit_int(anfi_attr_edit *e, const char *name, int64_t x) {
  anfi_edit_set(e, name, anfi_value_new_i64(e->ad->m->cx, ANF_INT, x));
}

void anfi_edit_bool(anfi_attr_edit *e, const char *name, bool x) {
  anfi_edit_set(e, name, anfi_value_new_i64(e->ad->m->cx, ANF_BOOL, x));
}

void anfi_edit_ints(anfi_attr_edit *e, const char *name, size_t n, const int64_t *x) {
  anfi_edit_set(e, name, anfi_value_new_ints(e->ad->m->cx, n, x));
}

const anfi_attrs *anfi_edit_done(anfi_attr_edit *e) {
  const anfi_attrs *out = NULL;
  anfi_attrs_new(e->ad->m, e->op, e->v, anfi_nowhere(), &out);
  return out;
}

/* ---- builders ---- */

anf_node *anfi_b_apply(const anfi_batch *b, anfi_opcode op, const anfi_attrs *attrs, size_t n,
                       anf_node *const *in) {
  for (size_t i = 0; i < n; i++)
    if (!in[i]) return NULL;
  return anfi_ad_apply(b->ad, b->g, op, attrs, n, in);
}

anf_node *anfi_b_1(const anfi_batch *b, anfi_opcode op, anf_node *x) {
  return anfi_b_apply(b, op, NULL, 1, &x);
}

anf_node *anfi_b_2(const anfi_batch *b, anfi_opcode op, anf_node *x, anf_node *y) {
  return anfi_b_apply(b, op, NULL, 2, (anf_node *const[]){x, y});
}

anf_node *anfi_b_3(const anfi_batch *b, anfi_opcode op, anf_node *x, anf_node *y, anf_node *z) {
  return anfi_b_apply(b, op, NULL, 3, (anf_node *const[]){x, y, z});
}

anf_node *anfi_b_axis(const anfi_batch *b, anfi_opcode op, anf_node *x, int64_t axis) {
  anfi_attr_edit e = anfi_edit_attrs(b->ad, op, NULL);
  if (!x) return NULL;
  anfi_edit_int(&e, "axis", axis);
  return anfi_b_apply(b, op, anfi_edit_done(&e), 1, &x);
}

anf_node *anfi_b_ints(const anfi_batch *b, anfi_opcode op, const char *attr, anf_node *x, size_t n,
                      const int64_t *v) {
  anfi_attr_edit e = anfi_edit_attrs(b->ad, op, NULL);
  anfi_edit_ints(&e, attr, n, v);
  return anfi_b_apply(b, op, anfi_edit_done(&e), 1, &x);
}

anf_node *anfi_b_cast(const anfi_batch *b, anf_node *x, anf_dtype d) {
  if (!x || x->type->dtype == d) return x;
  anf_ctx *cx = b->ad->m->cx;
  anfi_attr_edit e = anfi_edit_attrs(b->ad, ANF_OP_Cast, NULL);
  anfi_edit_set(&e, "dtype", anfi_value_new_type(cx, anfi_type_scalar(cx, d)));
  return anfi_b_apply(b, ANF_OP_Cast, anfi_edit_done(&e), 1, &x);
}

anf_node *anfi_b_i64(const anfi_batch *b, int64_t x) {
  return anfi_ad_const(b->ad, anfi_value_new_i64(b->ad->m->cx, ANF_I64, x));
}

anf_node *anfi_b_arange(const anfi_batch *b, int64_t start, int64_t stop, int64_t step) {
  anfi_attr_edit e = anfi_edit_attrs(b->ad, ANF_OP_Arange, NULL);
  anfi_edit_int(&e, "start", start);
  anfi_edit_int(&e, "stop", stop);
  anfi_edit_int(&e, "step", step);
  return anfi_b_apply(b, ANF_OP_Arange, anfi_edit_done(&e), 0, NULL);
}

anf_node *anfi_b_permute(const anfi_batch *b, anf_node *x, const int64_t *axes) {
  return x ? anfi_b_ints(b, ANF_OP_Transpose, "axes", x, x->type->n, axes) : NULL;
}

anf_node *anfi_b_move(const anfi_batch *b, anf_node *x, size_t from, size_t to) {
  int64_t axes[ANF_MAX_RANK];
  size_t n = 0;
  if (!x || from == to) return x;
  for (size_t k = 0; k < x->type->n; k++) {
    if (n == to) axes[n++] = (int64_t)from;
    if (k != from) axes[n++] = (int64_t)k;
  }
  if (n == to) axes[n] = (int64_t)from;
  return anfi_b_permute(b, x, axes);
}

anf_node *anfi_b_reshape(const anfi_batch *b, anf_node *x, size_t rank, const int64_t *dims) {
  int64_t to[ANF_MAX_RANK], rest = 1;
  size_t open = 0;
  if (!x || rank > ANF_MAX_RANK) return NULL;
  for (size_t k = 0; k < rank; k++) {
    to[k] = dims[k] < 0 ? -1 : dims[k];
    open += dims[k] < 0;
    if (dims[k] >= 0) rest *= dims[k];
  }
  if (open > 1 || (open && !rest)) return NULL;
  return anfi_b_ints(b, ANF_OP_Reshape, "shape", x, rank, to);
}

anf_node *anfi_b_again(const anfi_batch *b, anf_node *const *in) {
  return anfi_b_apply(b, (anfi_opcode)b->primal->op, b->primal->u.attrs, b->n, in);
}

/* ---- lanes ---- */

/* Falses of the batch alone, from anything that has it. */
anf_node *anfi_b_lanes(anfi_batch *b) {
  if (b->lanes && b->lanes->graph == b->g) return b->lanes;
  int64_t axes[ANF_MAX_RANK];
  anf_node *x = b->like;
  if (b->size >= 0) {
    anfi_attr_edit e = anfi_edit_attrs(b->ad, ANF_OP_Zeros, NULL);
    anf_ctx *cx = b->ad->m->cx;
    anfi_edit_ints(&e, "shape", 1, &b->size);
    anfi_edit_set(&e, "dtype", anfi_value_new_type(cx, anfi_type_scalar(cx, ANF_BOOL)));
    return b->lanes = anfi_b_apply(b, ANF_OP_Zeros, anfi_edit_done(&e), 0, NULL);
  }
  anfi_attr_edit e = anfi_edit_attrs(b->ad, ANF_OP_ZerosLike, NULL);
  anf_ctx *cx = b->ad->m->cx;
  anfi_edit_set(&e, "dtype", anfi_value_new_type(cx, anfi_type_scalar(cx, ANF_BOOL)));
  x = anfi_b_apply(b, ANF_OP_ZerosLike, anfi_edit_done(&e), 1, &x);
  for (uint32_t k = 1; x && k < x->type->n; k++) axes[k - 1] = k;
  if (x && x->type->n > 1) x = anfi_b_ints(b, ANF_OP_Any, "axis", x, x->type->n - 1, axes);
  return b->lanes = x;
}

anf_node *anfi_b_iota(anfi_batch *b) {
  if (b->size >= 0) return anfi_b_arange(b, 0, b->size, 1);
  anf_node *one = anfi_b_cast(b, anfi_b_1(b, ANF_OP_LogicalNot, anfi_b_lanes(b)), ANF_I64);
  anfi_attr_edit e = anfi_edit_attrs(b->ad, ANF_OP_CumSum, NULL);
  anfi_edit_int(&e, "axis", 0);
  anfi_edit_bool(&e, "exclusive", true);
  return anfi_b_apply(b, ANF_OP_CumSum, anfi_edit_done(&e), 1, &one);
}

anf_node *anfi_b_align(const anfi_batch *b, anf_node *x, size_t to) {
  int64_t axes[ANF_MAX_RANK];
  size_t n = 0;
  if (!x) return NULL;
  for (size_t rank = x->type->n - 1u; rank + n < to; n++) axes[n] = (int64_t)n + 1;
  return n ? anfi_b_ints(b, ANF_OP_ExpandDims, "axis", x, n, axes) : x;
}

anf_node *anfi_b_spread(anfi_batch *b, anf_node *x) {
  if (!x) return NULL;
  const anf_type *t = anfi_ad_type_of(b->ad, x), *to = anfi_batched_type(b->ad->m->cx, t, b->size);
  if (b->size >= 0 && anfi_is_static(t))
    return anfi_b_ints(b, ANF_OP_BroadcastTo, "shape", x, to->n, to->dims);
  anfi_attr_edit e = anfi_edit_attrs(b->ad, ANF_OP_ZerosLike, NULL);
  anf_ctx *cx = b->ad->m->cx;
  anfi_edit_set(&e, "dtype", anfi_value_new_type(cx, anfi_type_scalar(cx, ANF_BOOL)));
  anf_node *shape = anfi_b_apply(b, ANF_OP_ZerosLike, anfi_edit_done(&e), 1, &x);
  shape = anfi_b_2(b, ANF_OP_LogicalOr, anfi_b_align(b, anfi_b_lanes(b), t->n), shape);
  return anfi_b_2(b, ANF_OP_BroadcastLike, x, shape);
}

anf_node *anfi_b_operand(anfi_batch *b, size_t i) {
  return b->batched[i] ? b->in[i] : anfi_b_spread(b, b->in[i]);
}

anf_node *anfi_b_aligned(anfi_batch *b, size_t i, size_t to) {
  return b->batched[i] ? anfi_b_align(b, b->in[i], to) : b->in[i];
}

anf_node *anfi_b_lane_shape(anfi_batch *b, anf_node *x, size_t rank, const int64_t *dims) {
  int64_t to[ANF_MAX_RANK + 1];
  if (rank >= ANF_MAX_RANK) return NULL;
  to[0] = b->size;
  for (size_t k = 0; k < rank; k++) to[k + 1] = dims[k];
  return anfi_b_reshape(b, x, rank + 1, to);
}

anf_node *anfi_b_flat(const anfi_batch *b, anf_node *x) {
  if (!x || x->type->n == 2) return x;
  if (x->type->n == 1) return anfi_b_axis(b, ANF_OP_ExpandDims, x, 1);
  anfi_attr_edit e = anfi_edit_attrs(b->ad, ANF_OP_Flatten, NULL);
  anfi_edit_int(&e, "start", 1);
  return anfi_b_apply(b, ANF_OP_Flatten, anfi_edit_done(&e), 1, &x);
}

/* Keys take no part in Where: picked out of a pair. */
static anf_node *select_key(anfi_batch *b, anf_node *c, anf_node *x, anf_node *y) {
  anf_node *branch[2] = {y, x}, *in[2];
  anfi_attr_edit e = anfi_edit_attrs(b->ad, ANF_OP_Stack, NULL);
  anfi_edit_int(&e, "axis", 1);
  in[0] = anfi_b_apply(b, ANF_OP_Stack, anfi_edit_done(&e), 2, branch);
  c = anfi_b_align(b, anfi_b_cast(b, c, ANF_I64), x->type->n - 1u);
  in[1] = anfi_b_axis(b, ANF_OP_ExpandDims, anfi_b_2(b, ANF_OP_BroadcastLike, c, x), 1);
  e = anfi_edit_attrs(b->ad, ANF_OP_TakeAlongAxis, NULL);
  anfi_edit_int(&e, "axis", 1);
  anf_node *one = anfi_b_apply(b, ANF_OP_TakeAlongAxis, anfi_edit_done(&e), 2, in);
  return one ? anfi_b_axis(b, ANF_OP_Squeeze, one, 1) : NULL;
}

anf_node *anfi_b_select(anfi_batch *b, anf_node *c, anf_node *x, anf_node *y) {
  if (!c || !x || !y) return NULL;
  if (x == y) return x;
  if (x->type->dtype == ANF_KEY) return select_key(b, c, x, y);
  return anfi_b_3(b, ANF_OP_Where, anfi_b_align(b, c, x->type->n - 1u), x, y);
}

/* ---- dispatch ---- */

/* Lanes broadcast against each other from the right, so a lane of lower rank gets dims after the
 * batch; unbatched operands fit unchanged. */
static anf_node *pointwise(anfi_batch *b) {
  size_t rank = 0;
  anf_node **in = ANFI_NEW_N(b->ad->arena, anf_node *, b->n + 1);
  for (size_t i = 0; i < b->n; i++)
    if (anfi_lane_type(b, i)->n > rank) rank = anfi_lane_type(b, i)->n;
  for (size_t i = 0; i < b->n; i++) in[i] = anfi_b_aligned(b, i, rank);
  return anfi_b_again(b, in);
}

/* An operand of which only the shape and the type matter; -1: none. */
static int shape_operand(anfi_opcode op) {
  switch (op) {
  case ANF_OP_ZerosLike:
  case ANF_OP_OnesLike:
  case ANF_OP_FullLike: return 0;
  case ANF_OP_BroadcastLike:
  case ANF_OP_ReshapeLike:
  case ANF_OP_SumTo:
  case ANF_OP_Unreduce:
  case ANF_OP_CastLike: return 1;
  default: return -1;
  }
}

/* Does it tell the shape by its type? */
static bool is_given(anfi_ad *ad, const anf_node *primal, int shape) {
  return shape >= 0 && (primal->op == ANF_OP_CastLike ||
                        anfi_is_static(anfi_ad_type_of(ad, primal->in[shape].def)));
}

bool anfi_batch_flows(anfi_ad *ad, const anf_node *primal, const bool *batched) {
  if (anfi_ad_asks_dims(ad, primal)) return false;
  int shape = shape_operand((anfi_opcode)primal->op);
  for (size_t i = 0; i < primal->nin; i++)
    if (batched[i] && !((int)i == shape && is_given(ad, primal, shape))) return true;
  return false;
}

/* Replaces an operand of which only shape and type are read. */
static anf_node *stand_in(const anfi_batch *b, const anf_type *t) {
  anf_ctx *cx = b->ad->m->cx;
  bool dtype_only = b->primal->op == ANF_OP_CastLike;
  anfi_attr_edit e = anfi_edit_attrs(b->ad, ANF_OP_Zeros, NULL);
  anfi_edit_ints(&e, "shape", dtype_only ? 0 : t->n, t->dims);
  anfi_edit_set(&e, "dtype", anfi_value_new_type(cx, anfi_type_scalar(cx, (anf_dtype)t->dtype)));
  return anfi_b_apply(b, ANF_OP_Zeros, anfi_edit_done(&e), 0, NULL);
}

/* The dims of a lane, of a batched tensor. */
static anf_node *lane_dim(const anfi_batch *b, anf_node *shape, const anf_type *t, size_t k) {
  if (t->dims[k] >= 0)
    return anfi_ad_const(b->ad, anfi_value_new_i64(b->ad->m->cx, ANF_INT, t->dims[k]));
  anfi_attr_edit e = anfi_edit_attrs(b->ad, ANF_OP_TupleGet, NULL);
  anfi_edit_int(&e, "index", (int64_t)k + 1);
  return anfi_b_apply(b, ANF_OP_TupleGet, anfi_edit_done(&e), 1, &shape);
}

static anf_node *lane_size(const anfi_batch *b, anf_node *const *dim, size_t rank) {
  anf_node *n = anfi_ad_const(b->ad, anfi_value_new_i64(b->ad->m->cx, ANF_INT, 1));
  for (size_t k = 0; k < rank; k++) n = anfi_b_2(b, ANF_OP_Mul, n, dim[k]);
  return n;
}

static anf_node *lane_shape(const anfi_batch *b) {
  const anf_type *t = anfi_lane_type(b, 0);
  const char *what = anfi_op_of(b->primal)->name;
  if (b->primal->op == ANF_OP_GetField)
    what = anfi_attr_value(b->ad->m->cx, ANF_OP_GetField, b->primal->u.attrs, 0)->u.text;
  anf_node *dim[ANF_MAX_RANK],
      *shape = anfi_is_static(t) ? NULL : anfi_b_1(b, ANF_OP_Shape, b->in[0]);
  for (size_t k = 0; k < t->n; k++) dim[k] = lane_dim(b, shape, t, k);
  if (*what == 'R' || *what == 'n')
    return anfi_ad_const(b->ad, anfi_value_new_i64(b->ad->m->cx, ANF_INT, t->n));
  if (*what == 'd') return anfi_ad_const(b->ad, anfi_value_new_type(b->ad->m->cx, b->primal->type));
  if (*what == 'L') return dim[0];
  if (strcmp(what + 1, "ize") == 0) return lane_size(b, dim, t->n);
  return anfi_ad_tuple(b->ad, b->g, t->n, dim);
}

static anf_node *by_rule(anfi_batch *b) {
  const anfi_op_info *row = anfi_op_of(b->primal);
  if (row->batch) return row->batch(b);
  return row->scalar || row->lower == ANFI_LOWER_POINTWISE ? pointwise(b) : NULL;
}

anf_node *anfi_batch_op(anfi_batch *b, const anf_node *primal, anf_node *const *in,
                        const bool *batched) {
  size_t n = primal->nin;
  anf_node **operand = ANFI_NEW_N(b->ad->arena, anf_node *, n + 1);
  bool *differs = ANFI_NEW_N(b->ad->arena, bool, n + 1), any = false;
  int shape = shape_operand((anfi_opcode)primal->op);
  b->primal = primal;
  b->n = n;
  b->in = operand;
  b->batched = differs;
  for (size_t i = 0; i < n; i++) {
    bool by_shape = batched[i] && (int)i == shape && is_given(b->ad, primal, shape);
    operand[i] = by_shape ? stand_in(b, anfi_ad_type_of(b->ad, primal->in[i].def)) : in[i];
    differs[i] = batched[i] && !by_shape;
    any |= differs[i];
  }
  if (!any) return anfi_b_again(b, operand);
  if (anfi_ad_asks_dims(b->ad, primal)) return lane_shape(b);
  anf_node *y = by_rule(b);
  return y || anfi_failed(b->ad->m->cx) ? y : anfi_batch_by_lane(b);
}
