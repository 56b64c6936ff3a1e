// SPDX-License-Identifier: Apache-2.0
/* Tuples and records: made, projected, changed and joined.
 *
 *     TupleGet((f32[2], i64), 1)  ->  i64     TupleSlice((a, b, c), 1, None)  ->  (b, c)
 *
 * An argument of unknown type gives a result of unknown type: the op is checked again at run time. The
 * eval hooks check their arguments themselves and need no result type (as in control.c). */
#include "ir/ops/kernel.h"

/* ---- tuples: inference ---- */

static bool want_tuple(const anfi_infer *q, size_t i) {
  return q->in[i]->kind == ANF_TYPE_TUPLE || anfi_infer_fail(q, "the argument must be a tuple");
}

bool anfi_infer_tuple(anfi_infer *q) {
  return anfi_infer_is(q, anfi_type_tuple(q->cx, q->n, q->in));
}

bool anfi_infer_tuple_get(anfi_infer *q) {
  const anf_type *t = q->in[0];
  int64_t i = 0;
  anfi_value_is_int(q->attr[0], &i);
  if (t->kind == ANF_TYPE_ANY) return anfi_infer_any(q);
  if (t->kind != ANF_TYPE_TUPLE)
    return anfi_fail(q->cx, q->loc, ANF_E0504, anfi_type_text(q->cx, t));
  if (i < 0) i += t->n;
  if (i < 0 || i >= (int64_t)t->n)
    return anfi_fail(q->cx, q->loc, ANF_E0505, (long long)i, anfi_type_text(q->cx, t));
  return anfi_infer_is(q, t->items[i]);
}

bool anfi_infer_tuple_len(anfi_infer *q) {
  if (!anfi_is_any(q->in[0]) && !want_tuple(q, 0)) return false;
  return anfi_infer_is(q, anfi_type_scalar(q->cx, ANF_INT));
}

bool anfi_infer_tuple_set(anfi_infer *q) {
  const anf_type *t = q->in[0];
  size_t at = 0;
  if (anfi_is_any(t)) return anfi_infer_any(q);
  if (!want_tuple(q, 0)) return false;
  if (!anfi_axis_in(anfi_attr_int(q->attr[0]), t->n, &at))
    return anfi_fail(q->cx, q->loc, ANF_E0505, (long long)anfi_attr_int(q->attr[0]),
                     anfi_type_text(q->cx, t));
  const anf_type **items = ANFI_NEW_N(anfi_scratch(q->cx), const anf_type *, t->n);
  memcpy(items, t->items, t->n * sizeof(*items));
  items[at] = q->in[1];
  return anfi_infer_is(q, anfi_type_tuple(q->cx, t->n, items));
}

bool anfi_infer_tuple_slice(anfi_infer *q) {
  const anf_type *t = q->in[0];
  int64_t start, step;
  if (anfi_attr_int(q->attr[2]) == 0) return anfi_infer_fail(q, "the step must not be 0");
  if (anfi_is_any(t)) return anfi_infer_any(q);
  if (!want_tuple(q, 0)) return false;
  size_t n = anfi_slice(t->n, q->attr, &start, &step);
  const anf_type **items = ANFI_NEW_N(anfi_scratch(q->cx), const anf_type *, n);
  for (size_t i = 0; i < n; i++) items[i] = t->items[start + (int64_t)i * step];
  return anfi_infer_is(q, anfi_type_tuple(q->cx, n, items));
}

bool anfi_infer_tuple_concat(anfi_infer *q) {
  anfi_arena *a = anfi_scratch(q->cx);
  ANFI_VEC(const anf_type *) all = {0};
  for (size_t i = 0; i < q->n; i++) {
    if (anfi_is_any(q->in[i])) return anfi_infer_any(q);
    if (!want_tuple(q, i)) return false;
    for (uint32_t k = 0; k < q->in[i]->n; k++) anfi_push(a, &all, q->in[i]->items[k]);
  }
  return anfi_infer_is(q, anfi_type_tuple(q->cx, all.n, all.at));
}

/* ---- tuples: evaluation ---- */

static bool is_tuple(const anfi_eval *q, size_t i) {
  return q->in[i]->kind == ANF_VALUE_TUPLE || anfi_eval_want(q, "a tuple");
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
  if (anfi_axis_in(i, q->in[0]->n, at)) return true;
  const char *what = anfi_sprintf(q->scratch, "a tuple of %zu", q->in[0]->n);
  return anfi_fail(q->cx, q->loc, ANF_E0505, (long long)i, what);
}

bool anfi_eval_tuple_get(anfi_eval *q) {
  size_t at = 0;
  if (q->in[0]->kind != ANF_VALUE_TUPLE)
    return anfi_fail(q->cx, q->loc, ANF_E0504,
                     anfi_type_text(q->cx, anf_value_type(q->cx, q->in[0])));
  return item_at(q, &at) && anfi_eval_give(q, q->in[0]->u.item[at]);
}

static void swap_item(anfi_eval *q, size_t at, anf_value *by) {
  anf_value *gone = q->out->u.item[at];
  q->out->u.item[at] = anf_value_retain(by);
  anf_value_release(gone);
}

bool anfi_eval_tuple_set(anfi_eval *q) {
  size_t at = 0;
  if (!is_tuple(q, 0) || !item_at(q, &at)) return false;
  q->out = anfi_value_new_tuple(q->cx, q->in[0]->n);
  fill(q, q->in[0]->u.item);
  swap_item(q, at, q->in[1]);
  return true;
}

bool anfi_eval_tuple_len(anfi_eval *q) {
  if (!is_tuple(q, 0)) return false;
  q->out = anfi_value_new_i64(q->cx, ANF_INT, (int64_t)q->in[0]->n);
  return true;
}

bool anfi_eval_tuple_slice(anfi_eval *q) {
  int64_t start, step;
  if (!is_tuple(q, 0)) return false;
  if (anfi_attr_int(q->attr[2]) == 0) return anfi_eval_want(q, "a step other than 0");
  q->out = anfi_value_new_tuple(q->cx, anfi_slice(q->in[0]->n, q->attr, &start, &step));
  for (size_t i = 0; i < q->out->n; i++)
    q->out->u.item[i] = anf_value_retain(q->in[0]->u.item[start + (int64_t)i * step]);
  return true;
}

bool anfi_eval_tuple_concat(anfi_eval *q) {
  size_t n = 0, at = 0;
  for (size_t i = 0; i < q->n; i++) {
    if (!is_tuple(q, i)) return false;
    n += q->in[i]->n;
  }
  q->out = anfi_value_new_tuple(q->cx, n);
  for (size_t i = 0; i < q->n; i++)
    for (size_t k = 0; k < q->in[i]->n; k++)
      q->out->u.item[at++] = anf_value_retain(q->in[i]->u.item[k]);
  return true;
}

/* ---- records: inference ---- */

bool anfi_record_names(anf_ctx *cx, anfi_loc loc, const anf_value *names, size_t n,
                       const anfi_str **out) {
  anfi_map seen;
  anfi_map_init(&seen, anfi_scratch(cx));
  if (names->kind != ANF_VALUE_TUPLE || names->n != n) return anfi_fail(cx, loc, ANF_E0541, n);
  for (size_t i = 0; i < n; i++) {
    const anf_value *s = names->u.item[i];
    if (s->kind != ANF_VALUE_STRING) return anfi_fail(cx, loc, ANF_E0541, n);
    out[i] = anfi_intern(&cx->strings, s->u.text, s->n);
    if (anfi_map_find(&seen, out[i]->id)) return anfi_fail(cx, loc, ANF_E0542, out[i]->s);
    anfi_map_at(&seen, out[i]->id);
  }
  return true;
}

bool anfi_infer_record(anfi_infer *q) {
  const anfi_str **names = ANFI_NEW_N(anfi_scratch(q->cx), const anfi_str *, q->n);
  if (!anfi_record_names(q->cx, q->loc, q->attr[0], q->n, names)) return false;
  return anfi_infer_is(q, anfi_type_record(q->cx, q->n, names, q->in));
}

static bool same_letters(const char *a, const char *b) {
  while (*a && (*a | 32) == (*b | 32)) a++, b++;
  return !*a && !*b;
}

void anfi_hint_method(anf_ctx *cx, const char *field) {
  for (int i = 1; i < ANF_OP_COUNT; i++)
    if (same_letters(anfi_op[i].name, field)) {
      anfi_hint(cx, "an operation is called with what it works on: %s(x)", anfi_op[i].name);
      return;
    }
}

bool anfi_record_no_field(anf_ctx *cx, anfi_loc loc, const anf_type *t, const anf_value *field) {
  anfi_fail(cx, loc, ANF_E0523, field->u.text, anfi_type_text(cx, t));
  anfi_hint_method(cx, field->u.text);
  return false;
}

bool anfi_record_field(anf_ctx *cx, anfi_loc loc, const anf_type *t, const anf_value *field,
                       uint32_t *at) {
  for (uint32_t i = 0; i < t->n; i++)
    if (t->names[i]->len == field->n && memcmp(t->names[i]->s, field->u.text, field->n) == 0)
      return *at = i, true;
  return anfi_record_no_field(cx, loc, t, field);
}

static bool want_record(const anfi_infer *q) {
  return q->in[0]->kind == ANF_TYPE_RECORD || anfi_infer_fail(q, "the argument must be a record");
}

bool anfi_infer_record_get(anfi_infer *q) {
  uint32_t at = 0;
  if (anfi_is_any(q->in[0])) return anfi_infer_any(q);
  if (!want_record(q) || !anfi_record_field(q->cx, q->loc, q->in[0], q->attr[0], &at)) return false;
  return anfi_infer_is(q, q->in[0]->items[at]);
}

bool anfi_infer_record_set(anfi_infer *q) {
  const anf_type *t = q->in[0];
  uint32_t at = 0;
  if (anfi_is_any(t)) return anfi_infer_any(q);
  if (!want_record(q) || !anfi_record_field(q->cx, q->loc, t, q->attr[0], &at)) return false;
  const anf_type **items = ANFI_NEW_N(anfi_scratch(q->cx), const anf_type *, t->n);
  memcpy(items, t->items, t->n * sizeof(*items));
  items[at] = q->in[1];
  return anfi_infer_is(q, anfi_type_record(q->cx, t->n, t->names, items));
}

/* ---- records: evaluation ---- */

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
  if (q->in[0]->kind != ANF_VALUE_RECORD)
    return anfi_record_no_field(q->cx, q->loc, anfi_value_type(q->cx, q->in[0]), q->attr[0]);
  return anfi_record_field(q->cx, q->loc, q->in[0]->type, q->attr[0], at);
}

bool anfi_eval_record_get(anfi_eval *q) {
  uint32_t at = 0;
  return field_at(q, &at) && anfi_eval_give(q, q->in[0]->u.item[at]);
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
