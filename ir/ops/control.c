// SPDX-License-Identifier: Apache-2.0
/* Choice, partial application and assertions. Nothing is called here.
 *
 *     Switch(true, f, g)  ->  f       Partial(f, x)  ->  the closure of f with its first argument bound
 *
 * An argument of unknown type gives a result of unknown type. The eval hooks check their arguments
 * themselves and need no result type: the interpreter skips inference, which walks whole nested values. */
#include "ir/ops/kernel.h"

/* ---- inference ---- */

static bool fail_condition(anf_ctx *cx, anfi_loc loc, const anf_type *is) {
  return anfi_fail(cx, loc, ANF_E0521, anfi_type_text(cx, is), "");
}

bool anfi_infer_switch(anfi_infer *q) {
  if (!anfi_is_any(q->in[0]) && !anfi_is_scalar(q->in[0]))
    return fail_condition(q->cx, q->loc, q->in[0]);
  q->out = q->in[1] == q->in[2] ? q->in[1] : anfi_type_simple(q->cx, ANF_TYPE_ANY);
  return true;
}

static bool all_same(anfi_infer *q, size_t n, const anf_type *const *t) {
  bool same = n > 0;
  for (size_t i = 1; i < n; i++) same &= t[i] == t[0];
  q->out = same ? t[0] : anfi_type_simple(q->cx, ANF_TYPE_ANY);
  return true;
}

bool anfi_infer_switch_layer(anfi_infer *q) {
  const anf_type *i = q->in[0];
  if (!anfi_is_any(i) && !(anfi_is_scalar(i) && anfi_dtype_is_int((anf_dtype)i->dtype)))
    return anfi_infer_fail(q, "the index must be an integer");
  if (q->n == 2 && q->in[1]->kind == ANF_TYPE_TUPLE)
    return all_same(q, q->in[1]->n, q->in[1]->items);
  if (q->n == 2 && anfi_is_any(q->in[1])) return anfi_infer_any(q);
  return all_same(q, q->n - 1, q->in + 1);
}

bool anfi_infer_assert(anfi_infer *q) {
  if (!anfi_is_any(q->in[0]) && (!anfi_is_scalar(q->in[0]) ||
                                 anfi_dtype_class((anf_dtype)q->in[0]->dtype) > ANFI_CLASS_FLOAT))
    return fail_condition(q->cx, q->loc, q->in[0]);
  return anfi_infer_none(q);
}

bool anfi_infer_undef(anfi_infer *q) {
  if (q->attr[0]->kind != ANF_VALUE_TYPE)
    return anfi_fail(q->cx, q->loc, ANF_E0205, "of", "Undef", "type");
  return anfi_infer_is(q, q->attr[0]->type);
}

/* ---- evaluation ---- */

static bool is_true(const anfi_eval *q, bool *out) {
  const anf_value *v = q->in[0];
  if (v->kind != ANF_VALUE_TENSOR || v->type->n ||
      anfi_dtype_class((anf_dtype)v->type->dtype) > ANFI_CLASS_FLOAT)
    return fail_condition(q->cx, q->loc, anfi_value_type(q->cx, v));
  *out = anfi_get_f64(v, 0) != 0.0;
  return true;
}

bool anfi_eval_identity(anfi_eval *q) { return anfi_eval_give(q, q->in[0]); }

bool anfi_eval_data(anfi_eval *q) {
  const anf_type *t = anfi_value_type(q->cx, q->in[0]);
  if (t->functions)
    return anfi_fail(q->cx, q->loc, ANF_E0525, anfi_op[q->op].name, anfi_type_text(q->cx, t));
  return anfi_eval_give(q, q->in[0]);
}

bool anfi_eval_switch(anfi_eval *q) {
  bool yes = false;
  return is_true(q, &yes) && anfi_eval_give(q, q->in[yes ? 1 : 2]);
}

bool anfi_eval_switch_layer(anfi_eval *q) {
  int64_t i;
  size_t at = 0;
  bool packed = q->n == 2 && q->in[1]->kind == ANF_VALUE_TUPLE;
  size_t n = packed ? q->in[1]->n : q->n - 1;
  if (!anfi_value_is_int(q->in[0], &i)) return anfi_eval_want(q, "an integer as its index");
  if (!anfi_axis_in(i, n, &at)) return anfi_fail(q->cx, q->loc, ANF_E0441, (long long)i, n);
  return anfi_eval_give(q, packed ? q->in[1]->u.item[at] : q->in[1 + at]);
}

bool anfi_eval_partial(anfi_eval *q) {
  anf_value *f = q->in[0];
  if (f->kind != ANF_VALUE_FN) return anfi_eval_want(q, "a function");
  const anfi_fn *old = anfi_value_fn(f);
  size_t more = q->n - 1, had = (size_t)old->ncapture + old->nbound;
  if (more == 0) return anfi_eval_give(q, f);
  q->out = anfi_value_new_fn(q->cx, old->graph, old->op, old->attrs, old->ncapture,
                             old->nbound + (uint32_t)more);
  anfi_fn *fn = anfi_value_fn(q->out);
  for (size_t i = 0; i < had; i++) fn->at[i] = anf_value_retain(old->at[i]);
  for (size_t i = 0; i < more; i++) fn->at[had + i] = anf_value_retain(q->in[1 + i]);
  return true;
}

bool anfi_eval_assert(anfi_eval *q) {
  bool yes = false;
  if (!is_true(q, &yes)) return false;
  if (!yes) {
    const anf_value *m = anfi_eval_given(q, 1);
    if (m && m->kind == ANF_VALUE_TYPE) // inference asserts that numbers are in range
      return anfi_fail(q->cx, q->loc, ANF_E0561, anf_dtype_name((anf_dtype)m->type->dtype));
    if (m && m->kind != ANF_VALUE_STRING) return anfi_eval_want(q, "a string as its message");
    return anfi_fail(q->cx, q->loc, ANF_E0442, m && m->n ? m->u.text : "the condition is false");
  }
  q->out = anfi_value_new_none(q->cx);
  return true;
}

/* Zeros of a type: dims that are not known are 0. What is deeper than anything that is compiled, or
 * no data, is None. */
static anf_value *zeros(anf_ctx *cx, const anf_type *t, int depth) {
  int64_t dims[ANF_MAX_RANK];
  bool nest = t->kind == ANF_TYPE_TUPLE || t->kind == ANF_TYPE_RECORD;
  if (t->kind == ANF_TYPE_TENSOR) {
    for (uint32_t i = 0; i < t->n; i++) dims[i] = t->dims[i] < 0 ? 0 : t->dims[i];
    return anfi_value_new_tensor(cx, anfi_type_tensor(cx, (anf_dtype)t->dtype, t->n, dims));
  }
  if (t->kind == ANF_TYPE_BOX || t->kind == ANF_TYPE_STACK)
    return anfi_value_new_residual(cx, t->kind == ANF_TYPE_BOX ? ANF_VALUE_BOX : ANF_VALUE_STACK,
                                   0);
  if (!nest || depth > 600) return anfi_value_new_none(cx);
  anf_value *v =
      t->kind == ANF_TYPE_TUPLE ? anfi_value_new_tuple(cx, t->n) : anfi_value_new_record(cx, t);
  anfi_value_guard(v);
  for (uint32_t i = 0; i < t->n; i++) v->u.item[i] = zeros(cx, t->items[i], depth + 1);
  anfi_value_unguard(v);
  return v;
}

bool anfi_eval_undef(anfi_eval *q) {
  if (q->attr[0]->kind != ANF_VALUE_TYPE)
    return anfi_fail(q->cx, q->loc, ANF_E0205, "of", "Undef", "type");
  if (!q->out) q->out = zeros(q->cx, q->attr[0]->type, 0);
  return true;
}
