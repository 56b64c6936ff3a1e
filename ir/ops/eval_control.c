// SPDX-License-Identifier: Apache-2.0
/* Functions, tuples and records as values: chosen, bound, built and taken apart. Nothing is called
 * here. The hooks check what they are given themselves and need no result type, so that a driver
 * may leave out inference, which walks whole nested values. */
#include "ir/ops/op.h"

static bool fail_kind(const anfi_eval *q, const char *want) {
  return anfi_fail(q->cx, q->loc, ANF_E0440, anfi_op[q->op].name, want);
}

static bool give(anfi_eval *q, anf_value *v) {
  q->out = anf_value_retain(v);
  return true;
}

bool anfi_eval_identity(anfi_eval *q) { return give(q, q->in[0]); }

static bool is_true(const anfi_eval *q, bool *out) {
  const anf_value *v = q->in[0];
  if (v->kind != ANF_VALUE_TENSOR || v->type->n ||
      anfi_dtype_class((anf_dtype)v->type->dtype) > ANFI_CLASS_FLOAT)
    return fail_kind(q, "a bool as its condition");
  *out = anfi_get_f64(v, 0) != 0.0;
  return true;
}

bool anfi_eval_switch(anfi_eval *q) {
  bool yes = false;
  return is_true(q, &yes) && give(q, q->in[yes ? 1 : 2]);
}

bool anfi_eval_switch_layer(anfi_eval *q) {
  int64_t i;
  size_t at = 0;
  bool packed = q->n == 2 && q->in[1]->kind == ANF_VALUE_TUPLE;
  size_t n = packed ? q->in[1]->n : q->n - 1;
  if (!anfi_value_is_int(q->in[0], &i)) return fail_kind(q, "an integer as its index");
  if (!anfi_axis_in(i, n, &at)) return anfi_fail(q->cx, q->loc, ANF_E0441, (long long)i, n);
  return give(q, packed ? q->in[1]->u.item[at] : q->in[1 + at]);
}

bool anfi_eval_partial(anfi_eval *q) {
  anf_value *f = q->in[0];
  if (f->kind != ANF_VALUE_FN) return fail_kind(q, "a function");
  const anfi_fn *old = anfi_value_fn(f);
  size_t more = q->n - 1, had = (size_t)old->ncapture + old->nbound;
  if (more == 0) return give(q, f);
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
    if (m && m->kind != ANF_VALUE_STRING) return fail_kind(q, "a string as its message");
    return anfi_fail(q->cx, q->loc, ANF_E0442, m && m->n ? m->u.text : "the condition is false");
  }
  q->out = anfi_value_new_none(q->cx);
  return true;
}

/* ---- tuples ---- */

static bool want_tuple(const anfi_eval *q, size_t i) {
  return q->in[i]->kind == ANF_VALUE_TUPLE || fail_kind(q, "a tuple");
}

static void fill(anfi_eval *q, anf_value *const *items) {
  for (size_t i = 0; i < q->out->n; i++) q->out->u.item[i] = anf_value_retain(items[i]);
}

bool anfi_eval_tuple(anfi_eval *q) {
  q->out = anfi_value_new_tuple(q->cx, q->n);
  fill(q, q->in);
  return true;
}

static bool item_at(const anfi_eval *q, size_t *at) {
  int64_t i = anfi_attr_int(q->attr[0]);
  if (!want_tuple(q, 0)) return false;
  if (anfi_axis_in(i, q->in[0]->n, at)) return true;
  const char *what = anfi_sprintf(q->scratch, "a tuple of %zu", q->in[0]->n);
  return anfi_fail(q->cx, q->loc, ANF_E0505, (long long)i, what);
}

bool anfi_eval_tuple_get(anfi_eval *q) {
  size_t at = 0;
  return item_at(q, &at) && give(q, q->in[0]->u.item[at]);
}

static void swap_item(anfi_eval *q, size_t at, anf_value *by) {
  anf_value *gone = q->out->u.item[at];
  q->out->u.item[at] = anf_value_retain(by);
  anf_value_release(gone);
}

bool anfi_eval_tuple_set(anfi_eval *q) {
  size_t at = 0;
  if (!item_at(q, &at)) return false;
  q->out = anfi_value_new_tuple(q->cx, q->in[0]->n);
  fill(q, q->in[0]->u.item);
  swap_item(q, at, q->in[1]);
  return true;
}

bool anfi_eval_tuple_len(anfi_eval *q) {
  if (!want_tuple(q, 0)) return false;
  q->out = anfi_value_new_i64(q->cx, ANF_INT, (int64_t)q->in[0]->n);
  return true;
}

bool anfi_eval_tuple_slice(anfi_eval *q) {
  int64_t start, step;
  if (!want_tuple(q, 0)) return false;
  if (anfi_attr_int(q->attr[2]) == 0) return fail_kind(q, "a step other than 0");
  q->out = anfi_value_new_tuple(q->cx, anfi_slice(q->in[0]->n, q->attr, &start, &step));
  for (size_t i = 0; i < q->out->n; i++)
    q->out->u.item[i] = anf_value_retain(q->in[0]->u.item[start + (int64_t)i * step]);
  return true;
}

bool anfi_eval_tuple_concat(anfi_eval *q) {
  size_t n = 0, at = 0;
  for (size_t i = 0; i < q->n; i++) {
    if (!want_tuple(q, i)) return false;
    n += q->in[i]->n;
  }
  q->out = anfi_value_new_tuple(q->cx, n);
  for (size_t i = 0; i < q->n; i++)
    for (size_t k = 0; k < q->in[i]->n; k++)
      q->out->u.item[at++] = anf_value_retain(q->in[i]->u.item[k]);
  return true;
}

/* ---- records ---- */

/* The type of a value, which also names its record's fields. */
static const anf_type *type_of(const anfi_eval *q, const anf_value *v) {
  const anf_type *t = anf_value_type(q->cx, v);
  if (!t) anfi_throw_nomem(q->cx);
  return t;
}

bool anfi_eval_record(anfi_eval *q) {
  const anfi_str **names = ANFI_NEW_N(q->scratch, const anfi_str *, q->n);
  const anf_type **types = ANFI_NEW_N(q->scratch, const anf_type *, q->n);
  if (!anfi_record_names(q->cx, q->loc, q->attr[0], q->n, names)) return false;
  for (size_t i = 0; i < q->n; i++) types[i] = type_of(q, q->in[i]);
  q->out = anfi_value_new_record(q->cx, anfi_type_record(q->cx, q->n, names, types));
  fill(q, q->in);
  return true;
}

static bool field_at(const anfi_eval *q, uint32_t *at) {
  if (q->in[0]->kind != ANF_VALUE_RECORD) return fail_kind(q, "a record");
  return anfi_record_field(q->cx, q->loc, q->in[0]->type, q->attr[0], at);
}

bool anfi_eval_record_get(anfi_eval *q) {
  uint32_t at = 0;
  return field_at(q, &at) && give(q, q->in[0]->u.item[at]);
}

bool anfi_eval_record_set(anfi_eval *q) {
  uint32_t at = 0;
  if (!field_at(q, &at)) return false;
  const anf_type *t = q->in[0]->type;
  const anf_type **types = ANFI_NEW_N(q->scratch, const anf_type *, t->n);
  memcpy(types, t->items, t->n * sizeof(*types));
  types[at] = type_of(q, q->in[1]);
  q->out = anfi_value_new_record(q->cx, anfi_type_record(q->cx, t->n, t->names, types));
  fill(q, q->in[0]->u.item);
  swap_item(q, at, q->in[1]);
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
    return anfi_value_new_kept(cx, t->kind == ANF_TYPE_BOX ? ANF_VALUE_BOX : ANF_VALUE_STACK, 0);
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
