// SPDX-License-Identifier: Apache-2.0
/* Boxes and stacks: the tape of derivatives. ResidualAdd and ResidualZeros are the Add and ZerosLike of adjoints
 * of such residuals, ResidualSelect and ResidualSpread the Where and broadcast of a batch.
 *
 *     ResidualAdd(box(1.0, none), box(2.0, none))  ->  box(3.0, none)
 *
 * Boxes of a recursion nest as deep as it went, so each walk has a worklist of pairs instead of C recursion. */
#include "ir/ops/kernel.h"

bool anfi_infer_box(anfi_infer *q) {
  return anfi_infer_is(q, anfi_type_simple(q->cx, ANF_TYPE_BOX));
}

bool anfi_infer_residual(anfi_infer *q) {
  anf_type_kind k = (anf_type_kind)q->in[0]->kind;
  if (k != ANF_TYPE_BOX && k != ANF_TYPE_STACK && k != ANF_TYPE_ANY && k != ANF_TYPE_NONE)
    return anfi_infer_fail(q, "the argument must be a box or a stack");
  return anfi_infer_is(q, q->in[0]);
}

bool anfi_eval_box(anfi_eval *q) {
  q->out = anfi_value_new_residual(q->cx, ANF_VALUE_BOX, 1);
  q->out->u.item[0] = anf_value_retain(q->in[0]);
  return true;
}

typedef struct {
  anf_value *a, *b, **to; // b: NULL when zeros are made
} pair;
typedef struct {
  anfi_eval *q;
  ANFI_VEC(pair) st;
} walk;

static bool is_residual(const anf_value *v) {
  return v->kind == ANF_VALUE_BOX || v->kind == ANF_VALUE_STACK;
}

static bool is_nest(const anf_value *v) {
  return v->kind == ANF_VALUE_TUPLE || v->kind == ANF_VALUE_RECORD || v->kind == ANF_VALUE_BOX ||
         v->kind == ANF_VALUE_STACK;
}

/* ---- sums and zeros ---- */

static anf_value *zero_box(anf_value *like) {
  if (like->n != 1) return anf_value_retain(like);
  anf_value *v = anfi_value_new_residual(like->cx, ANF_VALUE_BOX, 2);
  v->u.item[0] = anf_value_retain(like->u.item[0]);
  v->u.item[1] = anfi_value_new_none(like->cx);
  return v;
}

static bool is_leaf(const anf_value *v) {
  if (v->kind != ANF_VALUE_TENSOR) return false;
  anf_dtype d = (anf_dtype)v->type->dtype;
  return anfi_dtype_is_float(d) || anfi_dtype_class(d) == ANFI_CLASS_COMPLEX;
}

static anf_value *same_nest(anf_ctx *cx, const anf_value *v) {
  if (v->kind == ANF_VALUE_TUPLE) return anfi_value_new_tuple(cx, v->n);
  if (v->kind == ANF_VALUE_RECORD) return anfi_value_new_record(cx, v->type);
  return anfi_value_new_residual(cx, (anf_value_kind)v->kind, v->n);
}

static anf_value *leaf(walk *w, anf_value *a, anf_value *b) {
  if (!b) return anfi_value_new_tensor(a->cx, a->type);
  anf_value *const in[2] = {a, b};
  anfi_eval e = {.cx = w->q->cx,
                 .scratch = w->q->scratch,
                 .op = ANF_OP_Add,
                 .loc = w->q->loc,
                 .n = 2,
                 .in = in};
  return anfi_eval_op(&e) ? e.out : NULL;
}

/* A box or stack of Undef has no items, and is as good as zero. */
static bool is_zero(const anf_value *v) { return anfi_box_is_zero(v) || (is_residual(v) && !v->n); }

static bool one(walk *w, pair p) {
  bool zero_a = p.b && is_zero(p.a), zero_b = p.b && is_zero(p.b);
  if (zero_a || zero_b) {
    *p.to = anf_value_retain(zero_a && (p.b->n || !p.a->n) ? p.b : p.a);
    return true;
  }
  if (!p.b && p.a->kind == ANF_VALUE_BOX) return *p.to = zero_box(p.a), true;
  if (p.b && (p.a->kind != p.b->kind || (is_nest(p.a) && p.a->n != p.b->n)))
    return anfi_eval_want(w->q, "two of the same structure");
  if (is_nest(p.a)) {
    anf_value *v = *p.to = same_nest(w->q->cx, p.a);
    for (size_t i = 0; i < v->n; i++)
      anfi_push(w->q->scratch, &w->st,
                ((pair){p.a->u.item[i], p.b ? p.b->u.item[i] : NULL, &v->u.item[i]}));
    return true;
  }
  *p.to = is_leaf(p.a) ? leaf(w, p.a, p.b) : anf_value_retain(p.a);
  return *p.to != NULL;
}

static bool run(anfi_eval *q, anf_value *a, anf_value *b) {
  walk w = {.q = q};
  anfi_push(q->scratch, &w.st, ((pair){a, b, &q->out}));
  while (w.st.n)
    if (!one(&w, w.st.at[--w.st.n])) return false;
  return true;
}

bool anfi_eval_residual_add(anfi_eval *q) {
  bool kept = is_residual(q->in[0]) && is_residual(q->in[1]);
  return kept ? run(q, q->in[0], q->in[1]) : anfi_eval_want(q, "boxes or stacks");
}

bool anfi_eval_residual_zeros(anfi_eval *q) {
  return is_residual(q->in[0]) ? run(q, q->in[0], NULL) : anfi_eval_want(q, "a box or stack");
}

bool anfi_eval_unbox(anfi_eval *q) {
  const anf_value *b = q->in[0];
  if (b->kind != ANF_VALUE_BOX || !b->n) return anfi_eval_want(q, "a box that was filled");
  if (anfi_box_is_zero(b)) return run(q, b->u.item[0], NULL);
  q->out = anf_value_retain(b->u.item[0]);
  return true;
}

/* ---- boxes of a batch ---- */

typedef struct {
  anf_value *a, *b, **to; // b: NULL when a is spread; one is NULL if zeros are chosen
} lane_pair;
typedef struct {
  anfi_eval *q;
  bool select;
  const anf_value *lanes; // bools
  ANFI_VEC(lane_pair) st;
} lane_walk;

/* The type of a record follows from those of its items. */
static const anf_type *spread_nest(anf_ctx *cx, const anf_type *t, const anf_type *lanes) {
  const anf_type **items = ANFI_NEW_N(anfi_scratch(cx), const anf_type *, t->n + 1);
  for (uint32_t i = 0; i < t->n; i++)
    if (!(items[i] = anfi_residual_spread_type(cx, t->items[i], lanes))) return NULL;
  return t->kind == ANF_TYPE_TUPLE ? anfi_type_tuple(cx, t->n, items)
                                   : anfi_type_record(cx, t->n, t->names, items);
}

/* A new axis of the last dim of `lanes`, after its other dims. */
const anf_type *anfi_residual_spread_type(anf_ctx *cx, const anf_type *t, const anf_type *lanes) {
  int64_t dims[ANF_MAX_RANK + 1];
  size_t at = lanes->n - 1u;
  if (t->kind == ANF_TYPE_TUPLE || t->kind == ANF_TYPE_RECORD) return spread_nest(cx, t, lanes);
  if (t->kind != ANF_TYPE_TENSOR || t->n < at) return t;
  if (t->n == ANF_MAX_RANK) return NULL;
  for (uint32_t k = 0; k <= t->n; k++)
    dims[k] = k < at ? t->dims[k] : k == at ? lanes->dims[at] : t->dims[k - 1];
  return anfi_type_tensor(cx, (anf_dtype)t->dtype, t->n + 1u, dims);
}

static anf_value *new_nest(lane_walk *w, const anf_value *v, bool spread, size_t n) {
  anf_ctx *cx = w->q->cx;
  if (v->kind == ANF_VALUE_TUPLE) return anfi_value_new_tuple(cx, n);
  if (is_residual(v)) return anfi_value_new_residual(cx, (anf_value_kind)v->kind, n);
  return anfi_value_new_record(cx, spread ? spread_nest(cx, v->type, w->lanes->type) : v->type);
}

static size_t bytes_of(const anf_value *v) {
  return v->n * anf_dtype_bytes((anf_dtype)v->type->dtype);
}

/* Are the first dims of a tensor those of the lanes, but for `less` of the last? */
static bool has_lanes(const lane_walk *w, const anf_value *v, uint32_t less) {
  const anf_type *t = w->lanes->type;
  bool same = v->type->n >= t->n - less;
  for (uint32_t k = 0; same && k + less < t->n; k++) same = v->type->dims[k] == t->dims[k];
  return same;
}

static bool repeated(lane_walk *w, const lane_pair *p) {
  const anf_type *lanes = w->lanes->type;
  if (p->a->type->n == ANF_MAX_RANK || !has_lanes(w, p->a, 1))
    return anfi_eval_want(w->q, "tensors that have the outer lanes");
  size_t n = (size_t)lanes->dims[lanes->n - 1u], outer = n ? w->lanes->n / n : 0;
  anf_value *v = *p->to =
      anfi_value_new_tensor(w->q->cx, anfi_residual_spread_type(w->q->cx, p->a->type, lanes));
  size_t row = outer ? bytes_of(p->a) / outer : 0;
  for (size_t i = 0; row && i < outer * n; i++)
    memcpy(v->data + i * row, p->a->data + i / n * row, row);
  return true;
}

static bool chosen(lane_walk *w, const lane_pair *p) {
  size_t n = w->lanes->n;
  const anf_value *like = p->a ? p->a : p->b;
  bool same = !p->a || !p->b || (p->a->kind == p->b->kind && p->a->type == p->b->type);
  if (!same || !has_lanes(w, like, 0)) return anfi_eval_want(w->q, "two of the same structure");
  *p->to = anfi_value_new_tensor(w->q->cx, like->type);
  size_t row = n ? bytes_of(like) / n : 0;
  for (size_t i = 0; row && i < n; i++) {
    const anf_value *from = anfi_get_i64(w->lanes, i) ? p->a : p->b;
    if (!from) continue;
    memcpy((*p->to)->data + i * row, from->data + i * row, row);
  }
  return true;
}

static anf_value *not_zero(anf_value *v) { return v && anfi_box_is_zero(v) ? NULL : v; }
static bool is_undef(const anf_value *v) { return !v || (is_residual(v) && !v->n); }

/* An item that one side lacks, such as a round of a loop that only the other did, is the other's; but a box of
 * zeros lacks nothing. */
static bool nested(lane_walk *w, const lane_pair *p) {
  anf_value *a = w->select ? not_zero(p->a) : p->a, *b = not_zero(p->b);
  if (w->select && is_undef(a) && is_undef(b))
    return *p->to = anf_value_retain(p->b && (b != p->b || !p->a) ? p->b : p->a), true;
  const anf_value *like = !a || (b && b->n > a->n) ? b : a;
  if (a && b && (a->kind != b->kind || (a->n != b->n && !is_residual(a))))
    return anfi_eval_want(w->q, "two of the same structure");
  anf_value *v = *p->to = new_nest(w, like, !w->select, like->n);
  for (size_t i = 0; i < v->n; i++) {
    bool in_a = a && i < a->n, in_b = b && i < b->n;
    if (a && b && !(in_a && in_b)) v->u.item[i] = anf_value_retain(like->u.item[i]);
    else
      anfi_push(
          w->q->scratch, &w->st,
          ((lane_pair){in_a ? a->u.item[i] : NULL, in_b ? b->u.item[i] : NULL, &v->u.item[i]}));
  }
  return true;
}

static bool walk_lanes(anfi_eval *q, anf_value *a, anf_value *b, const anf_value *lanes) {
  lane_walk w = {.q = q, .select = b != NULL, .lanes = lanes};
  if (!is_residual(a) || (b && !is_residual(b))) return anfi_eval_want(q, "boxes or stacks");
  if (lanes->kind != ANF_VALUE_TENSOR || lanes->type->dtype != ANF_BOOL || !lanes->type->n)
    return anfi_eval_want(q, "a bool for each lane");
  anfi_push(q->scratch, &w.st, ((lane_pair){a, b, &q->out}));
  while (w.st.n) {
    lane_pair p = w.st.at[--w.st.n];
    bool good = true;
    anf_value *like = p.a ? p.a : p.b;
    if (is_nest(like)) good = nested(&w, &p);
    else if (like->kind != ANF_VALUE_TENSOR) *p.to = anf_value_retain(like);
    else good = w.select ? chosen(&w, &p) : repeated(&w, &p);
    if (!good) return false;
  }
  return true;
}

bool anfi_eval_residual_select(anfi_eval *q) { return walk_lanes(q, q->in[0], q->in[1], q->in[2]); }
bool anfi_eval_residual_spread(anfi_eval *q) { return walk_lanes(q, q->in[0], NULL, q->in[1]); }
