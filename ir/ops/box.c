// SPDX-License-Identifier: Apache-2.0
/* Boxes and stacks: what derivatives keep. Sums and zeros of them go through whatever is inside, with
 * a list of pairs still to be done instead of recursion: the boxes of a recursion nest as deep as it
 * went. */
#include "ir/ops/op.h"

static bool fail_kind(const anfi_eval *q, const char *want) {
  return anfi_fail(q->cx, q->loc, ANF_E0440, anfi_op[q->op].name, want);
}

bool anfi_eval_box(anfi_eval *q) {
  q->out = anfi_value_new_kept(q->cx, ANF_VALUE_BOX, 1);
  q->out->u.item[0] = anf_value_retain(q->in[0]);
  return true;
}

/* ---- walks over two values at once ---- */

typedef struct {
  anf_value *a, *b, **to; // b: NULL when zeros are made
} pair;
typedef struct {
  anfi_eval *q;
  ANFI_VEC(pair) st;
} walk;

static bool is_nest(const anf_value *v) {
  return v->kind == ANF_VALUE_TUPLE || v->kind == ANF_VALUE_RECORD || v->kind == ANF_VALUE_BOX ||
         v->kind == ANF_VALUE_STACK;
}

static bool is_kept(const anf_value *v) {
  return v->kind == ANF_VALUE_BOX || v->kind == ANF_VALUE_STACK;
}

static anf_value *zero_box(anf_value *like) {
  if (like->n != 1) return anf_value_retain(like);
  anf_value *v = anfi_value_new_kept(like->cx, ANF_VALUE_BOX, 2);
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
  return anfi_value_new_kept(cx, (anf_value_kind)v->kind, v->n);
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
static bool is_zero(const anf_value *v) { return anfi_box_is_zero(v) || (is_kept(v) && !v->n); }

static bool one(walk *w, pair p) {
  bool zero_a = p.b && is_zero(p.a), zero_b = p.b && is_zero(p.b);
  if (zero_a || zero_b) {
    *p.to = anf_value_retain(zero_a && (p.b->n || !p.a->n) ? p.b : p.a);
    return true;
  }
  if (!p.b && p.a->kind == ANF_VALUE_BOX) return *p.to = zero_box(p.a), true;
  if (p.b && (p.a->kind != p.b->kind || (is_nest(p.a) && p.a->n != p.b->n)))
    return fail_kind(w->q, "two of the same structure");
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

bool anfi_eval_kept_add(anfi_eval *q) {
  bool kept = is_kept(q->in[0]) && is_kept(q->in[1]);
  return kept ? run(q, q->in[0], q->in[1]) : fail_kind(q, "boxes or stacks");
}

bool anfi_eval_kept_zeros(anfi_eval *q) {
  return is_kept(q->in[0]) ? run(q, q->in[0], NULL) : fail_kind(q, "a box or stack");
}

bool anfi_eval_unbox(anfi_eval *q) {
  const anf_value *b = q->in[0];
  if (b->kind != ANF_VALUE_BOX || !b->n) return fail_kind(q, "a box that was filled");
  if (anfi_box_is_zero(b)) return run(q, b->u.item[0], NULL);
  q->out = anf_value_retain(b->u.item[0]);
  return true;
}
