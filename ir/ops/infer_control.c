// SPDX-License-Identifier: Apache-2.0
/* Result types of ops on functions, tuples and records. An argument of unknown type gives a result
 * of unknown type: these ops are checked again when the program runs. */
#include "ir/ops/op.h"

static bool is_any(const anf_type *t) { return t->kind == ANF_TYPE_ANY; }

bool anfi_infer_same(anfi_infer *q) {
  q->out = q->in[0];
  return true;
}

bool anfi_infer_none(anfi_infer *q) {
  q->out = anfi_type_simple(q->cx, ANF_TYPE_NONE);
  return true;
}

bool anfi_infer_assert(anfi_infer *q) {
  if (!is_any(q->in[0]) && !anfi_is_scalar(q->in[0]))
    return anfi_infer_fail(q, "the condition must be a bool");
  return anfi_infer_none(q);
}

static bool all_same(anfi_infer *q, size_t n, const anf_type *const *t) {
  bool same = n > 0;
  for (size_t i = 1; i < n; i++) same &= t[i] == t[0];
  q->out = same ? t[0] : anfi_type_simple(q->cx, ANF_TYPE_ANY);
  return true;
}

bool anfi_infer_switch_layer(anfi_infer *q) {
  const anf_type *i = q->in[0];
  if (!is_any(i) && !(anfi_is_scalar(i) && anfi_dtype_is_int((anf_dtype)i->dtype)))
    return anfi_infer_fail(q, "the index must be an integer");
  if (q->n == 2 && q->in[1]->kind == ANF_TYPE_TUPLE)
    return all_same(q, q->in[1]->n, q->in[1]->items);
  if (q->n == 2 && is_any(q->in[1])) return anfi_infer_any(q);
  return all_same(q, q->n - 1, q->in + 1);
}

/* ---- tuples ---- */

static bool want_tuple(const anfi_infer *q, size_t i) {
  return q->in[i]->kind == ANF_TYPE_TUPLE || anfi_infer_fail(q, "the argument must be a tuple");
}

bool anfi_infer_tuple_len(anfi_infer *q) {
  if (!is_any(q->in[0]) && !want_tuple(q, 0)) return false;
  q->out = anfi_type_scalar(q->cx, ANF_INT);
  return true;
}

bool anfi_infer_tuple_set(anfi_infer *q) {
  const anf_type *t = q->in[0];
  size_t at = 0;
  if (is_any(t)) return anfi_infer_any(q);
  if (!want_tuple(q, 0)) return false;
  if (!anfi_axis_in(anfi_attr_int(q->attr[0]), t->n, &at))
    return anfi_infer_fail(q, "the index is outside the tuple");
  const anf_type **items = ANFI_NEW_N(anfi_scratch(q->cx), const anf_type *, t->n);
  memcpy(items, t->items, t->n * sizeof(*items));
  items[at] = q->in[1];
  q->out = anfi_type_tuple(q->cx, t->n, items);
  return true;
}

/* Python's rule: bounds outside the tuple are moved to its ends. */
static int64_t clip(int64_t i, int64_t n, int64_t low, int64_t high) {
  if (i < 0) i += n;
  return i < low ? low : i > high ? high : i;
}

size_t anfi_slice_ints(size_t len, const int64_t *from, const int64_t *to, int64_t step,
                       int64_t *start) {
  int64_t n = (int64_t)len;
  if (step == INT64_MIN) step = -INT64_MAX;
  int64_t low = step < 0 ? -1 : 0, high = step < 0 ? n - 1 : n;
  *start = from ? clip(*from, n, low, high) : step < 0 ? high : 0;
  int64_t stop = to ? clip(*to, n, low, high) : step < 0 ? -1 : n;
  if (step > 0) return *start < stop ? (size_t)((stop - *start - 1) / step) + 1 : 0;
  return *start > stop ? (size_t)((*start - stop - 1) / -step) + 1 : 0;
}

size_t anfi_slice(size_t len, anf_value *const *attr, int64_t *start, int64_t *step) {
  int64_t from = anfi_attr_given(attr[0]) ? anfi_attr_int(attr[0]) : 0;
  int64_t to = anfi_attr_given(attr[1]) ? anfi_attr_int(attr[1]) : 0;
  *step = anfi_attr_int(attr[2]);
  if (*step == INT64_MIN) *step = -INT64_MAX;
  return anfi_slice_ints(len, anfi_attr_given(attr[0]) ? &from : NULL,
                         anfi_attr_given(attr[1]) ? &to : NULL, *step, start);
}

bool anfi_infer_tuple_slice(anfi_infer *q) {
  const anf_type *t = q->in[0];
  int64_t start, step;
  if (anfi_attr_int(q->attr[2]) == 0) return anfi_infer_fail(q, "the step must not be 0");
  if (is_any(t)) return anfi_infer_any(q);
  if (!want_tuple(q, 0)) return false;
  size_t n = anfi_slice(t->n, q->attr, &start, &step);
  const anf_type **items = ANFI_NEW_N(anfi_scratch(q->cx), const anf_type *, n);
  for (size_t i = 0; i < n; i++) items[i] = t->items[start + (int64_t)i * step];
  q->out = anfi_type_tuple(q->cx, n, items);
  return true;
}

bool anfi_infer_tuple_concat(anfi_infer *q) {
  anfi_arena *a = anfi_scratch(q->cx);
  ANFI_VEC(const anf_type *) all = {0};
  for (size_t i = 0; i < q->n; i++) {
    if (is_any(q->in[i])) return anfi_infer_any(q);
    if (!want_tuple(q, i)) return false;
    for (uint32_t k = 0; k < q->in[i]->n; k++) anfi_push(a, &all, q->in[i]->items[k]);
  }
  q->out = anfi_type_tuple(q->cx, all.n, all.at);
  return true;
}

/* ---- records ---- */

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
  q->out = anfi_type_record(q->cx, q->n, names, q->in);
  return true;
}

bool anfi_record_field(anf_ctx *cx, anfi_loc loc, const anf_type *t, const anf_value *field,
                       uint32_t *at) {
  for (uint32_t i = 0; i < t->n; i++)
    if (t->names[i]->len == field->n && memcmp(t->names[i]->s, field->u.text, field->n) == 0)
      return *at = i, true;
  anfi_fail(cx, loc, ANF_E0543, field->u.text);
  anf_text o = {cx, NULL, 0, 0};
  for (uint32_t i = 0; i < t->n; i++) anfi_putf(&o, "%s%s", i ? ", " : "", t->names[i]->s);
  if (o.text) anfi_hint(cx, "it has %s", o.text);
  anf_text_free(&o);
  return false;
}

static bool want_record(const anfi_infer *q) {
  return q->in[0]->kind == ANF_TYPE_RECORD || anfi_infer_fail(q, "the argument must be a record");
}

bool anfi_infer_record_get(anfi_infer *q) {
  uint32_t at = 0;
  if (is_any(q->in[0])) return anfi_infer_any(q);
  if (!want_record(q) || !anfi_record_field(q->cx, q->loc, q->in[0], q->attr[0], &at)) return false;
  q->out = q->in[0]->items[at];
  return true;
}

bool anfi_infer_record_set(anfi_infer *q) {
  const anf_type *t = q->in[0];
  uint32_t at = 0;
  if (is_any(t)) return anfi_infer_any(q);
  if (!want_record(q) || !anfi_record_field(q->cx, q->loc, t, q->attr[0], &at)) return false;
  const anf_type **items = ANFI_NEW_N(anfi_scratch(q->cx), const anf_type *, t->n);
  memcpy(items, t->items, t->n * sizeof(*items));
  items[at] = q->in[1];
  q->out = anfi_type_record(q->cx, t->n, t->names, items);
  return true;
}

bool anfi_infer_undef(anfi_infer *q) {
  if (q->attr[0]->kind != ANF_VALUE_TYPE)
    return anfi_infer_fail(q, "the attribute 'of' must be a type");
  q->out = q->attr[0]->type;
  return true;
}

bool anfi_infer_box(anfi_infer *q) {
  q->out = anfi_type_simple(q->cx, ANF_TYPE_BOX);
  return true;
}
