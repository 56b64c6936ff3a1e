// SPDX-License-Identifier: Apache-2.0
/* Boxes and stacks of a batch: what lanes keep, chosen by lane, or made the same for all. Both walk
 * whatever is inside with a list of what is still to be done, as deep as a recursion went. */
#include "ir/ops/op.h"

typedef struct {
  anf_value *a, *b, **to; // b: NULL when a is spread; one is NULL if zeros are chosen
} pair;
typedef struct {
  anfi_eval *q;
  bool select;
  const anf_value *lanes; // bools
  ANFI_VEC(pair) st;
} walk;

static bool fail_kind(const anfi_eval *q, const char *want) {
  return anfi_fail(q->cx, q->loc, ANF_E0440, anfi_op[q->op].name, want);
}

static bool is_kept(const anf_value *v) {
  return v->kind == ANF_VALUE_BOX || v->kind == ANF_VALUE_STACK;
}

static bool is_nest(const anf_value *v) {
  return is_kept(v) || v->kind == ANF_VALUE_TUPLE || v->kind == ANF_VALUE_RECORD;
}

/* The type of a record follows from those of its items. */
static const anf_type *spread_nest(anf_ctx *cx, const anf_type *t, const anf_type *lanes) {
  const anf_type **items = ANFI_NEW_N(anfi_scratch(cx), const anf_type *, t->n + 1);
  for (uint32_t i = 0; i < t->n; i++)
    if (!(items[i] = anfi_kept_spread_type(cx, t->items[i], lanes))) return NULL;
  return t->kind == ANF_TYPE_TUPLE ? anfi_type_tuple(cx, t->n, items)
                                   : anfi_type_record(cx, t->n, t->names, items);
}

/* A new axis of the last dim of `lanes`, behind those that its other dims are. */
const anf_type *anfi_kept_spread_type(anf_ctx *cx, const anf_type *t, const anf_type *lanes) {
  int64_t dims[ANF_MAX_RANK + 1];
  size_t at = lanes->n - 1u;
  if (t->kind == ANF_TYPE_TUPLE || t->kind == ANF_TYPE_RECORD) return spread_nest(cx, t, lanes);
  if (t->kind != ANF_TYPE_TENSOR || t->n < at) return t;
  if (t->n == ANF_MAX_RANK) return NULL;
  for (uint32_t k = 0; k <= t->n; k++)
    dims[k] = k < at ? t->dims[k] : k == at ? lanes->dims[at] : t->dims[k - 1];
  return anfi_type_tensor(cx, (anf_dtype)t->dtype, t->n + 1u, dims);
}

static anf_value *new_nest(walk *w, const anf_value *v, bool spread, size_t n) {
  anf_ctx *cx = w->q->cx;
  if (v->kind == ANF_VALUE_TUPLE) return anfi_value_new_tuple(cx, n);
  if (is_kept(v)) return anfi_value_new_kept(cx, (anf_value_kind)v->kind, n);
  return anfi_value_new_record(cx, spread ? spread_nest(cx, v->type, w->lanes->type) : v->type);
}

static size_t bytes_of(const anf_value *v) {
  return v->n * anf_dtype_bytes((anf_dtype)v->type->dtype);
}

/* Are the first dims of a tensor those of the lanes, but for `less` of the last? */
static bool has_lanes(const walk *w, const anf_value *v, uint32_t less) {
  const anf_type *t = w->lanes->type;
  bool same = v->type->n >= t->n - less;
  for (uint32_t k = 0; same && k + less < t->n; k++) same = v->type->dims[k] == t->dims[k];
  return same;
}

static bool repeated(walk *w, const pair *p) {
  const anf_type *lanes = w->lanes->type;
  if (p->a->type->n == ANF_MAX_RANK || !has_lanes(w, p->a, 1))
    return fail_kind(w->q, "tensors that have the outer lanes");
  size_t n = (size_t)lanes->dims[lanes->n - 1u], outer = n ? w->lanes->n / n : 0;
  anf_value *v = *p->to =
      anfi_value_new_tensor(w->q->cx, anfi_kept_spread_type(w->q->cx, p->a->type, lanes));
  size_t row = outer ? bytes_of(p->a) / outer : 0;
  for (size_t i = 0; row && i < outer * n; i++)
    memcpy(v->u.data + i * row, p->a->u.data + i / n * row, row);
  return true;
}

static bool chosen(walk *w, const pair *p) {
  size_t n = w->lanes->n;
  const anf_value *like = p->a ? p->a : p->b;
  bool same = !p->a || !p->b || (p->a->kind == p->b->kind && p->a->type == p->b->type);
  if (!same || !has_lanes(w, like, 0)) return fail_kind(w->q, "two of the same structure");
  *p->to = anfi_value_new_tensor(w->q->cx, like->type);
  size_t row = n ? bytes_of(like) / n : 0;
  for (size_t i = 0; row && i < n; i++) {
    const anf_value *from = anfi_get_i64(w->lanes, i) ? p->a : p->b;
    if (!from) continue;
    memcpy((*p->to)->u.data + i * row, from->u.data + i * row, row);
  }
  return true;
}

static anf_value *not_zero(anf_value *v) { return v && anfi_box_is_zero(v) ? NULL : v; }
static bool is_undef(const anf_value *v) { return !v || (is_kept(v) && !v->n); }

/* What one side lacks, such as rounds of a loop that only the other did, is the other's; but a box of
 * zeros lacks nothing. */
static bool nested(walk *w, const pair *p) {
  anf_value *a = w->select ? not_zero(p->a) : p->a, *b = not_zero(p->b);
  if (w->select && is_undef(a) && is_undef(b))
    return *p->to = anf_value_retain(p->b && (b != p->b || !p->a) ? p->b : p->a), true;
  const anf_value *like = !a || (b && b->n > a->n) ? b : a;
  if (a && b && (a->kind != b->kind || (a->n != b->n && !is_kept(a))))
    return fail_kind(w->q, "two of the same structure");
  anf_value *v = *p->to = new_nest(w, like, !w->select, like->n);
  for (size_t i = 0; i < v->n; i++) {
    bool in_a = a && i < a->n, in_b = b && i < b->n;
    if (a && b && !(in_a && in_b)) v->u.item[i] = anf_value_retain(like->u.item[i]);
    else
      anfi_push(w->q->scratch, &w->st,
                ((pair){in_a ? a->u.item[i] : NULL, in_b ? b->u.item[i] : NULL, &v->u.item[i]}));
  }
  return true;
}

static bool run(anfi_eval *q, anf_value *a, anf_value *b, const anf_value *lanes) {
  walk w = {.q = q, .select = b != NULL, .lanes = lanes};
  if (!is_kept(a) || (b && !is_kept(b))) return fail_kind(q, "boxes or stacks");
  if (lanes->kind != ANF_VALUE_TENSOR || lanes->type->dtype != ANF_BOOL || !lanes->type->n)
    return fail_kind(q, "a bool for each lane");
  anfi_push(q->scratch, &w.st, ((pair){a, b, &q->out}));
  while (w.st.n) {
    pair p = w.st.at[--w.st.n];
    bool good = true;
    anf_value *like = p.a ? p.a : p.b;
    if (is_nest(like)) good = nested(&w, &p);
    else if (like->kind != ANF_VALUE_TENSOR) *p.to = anf_value_retain(like);
    else good = w.select ? chosen(&w, &p) : repeated(&w, &p);
    if (!good) return false;
  }
  return true;
}

bool anfi_eval_kept_select(anfi_eval *q) { return run(q, q->in[0], q->in[1], q->in[2]); }
bool anfi_eval_kept_spread(anfi_eval *q) { return run(q, q->in[0], NULL, q->in[1]); }
