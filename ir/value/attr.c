// SPDX-License-Identifier: Apache-2.0
/* What hooks read from attributes and from arguments that may be absent.
 *   Sum(x, axis=-1), x: f32[2,3]     anfi_infer_axis gives axis 1; axis=2 is E0540
 * The schema has checked the attributes' types, so reading cannot fail; only ranges are left to check. */
#include "ir/ops/op.h"

bool anfi_attr_given(const anf_value *v) { return v && v->kind != ANF_VALUE_NONE; }

int64_t anfi_attr_int(const anf_value *v) { return anfi_get_i64(v, 0); }

bool anfi_attr_bool(const anf_value *v) { return anfi_get_i64(v, 0) != 0; }

double anfi_attr_float(const anf_value *v) { return anfi_get_f64(v, 0); }

anf_dtype anfi_attr_dtype(const anf_value *v) { return (anf_dtype)v->type->dtype; }

bool anfi_attr_is(const anf_value *v, const char *s) {
  return v && v->kind == ANF_VALUE_STRING && v->n == strlen(s) && memcmp(v->u.text, s, v->n) == 0;
}

size_t anfi_attr_ints(const anf_value *v, size_t max, int64_t *out) {
  if (v->kind != ANF_VALUE_TUPLE) return *out = anfi_get_i64(v, 0), 1;
  for (size_t i = 0; i < v->n && i < max; i++) out[i] = anfi_get_i64(v->u.item[i], 0);
  return v->n;
}

bool anfi_infer_given(const anfi_infer *q, size_t i) {
  return i < q->n && q->in[i]->kind != ANF_TYPE_NONE;
}

anf_value *anfi_eval_given(const anfi_eval *q, size_t i) {
  return i < q->n && q->in[i]->kind != ANF_VALUE_NONE ? q->in[i] : NULL;
}

bool anfi_axis_in(int64_t axis, size_t rank, size_t *out) {
  int64_t r = (int64_t)rank;
  if (axis < -r || axis >= r) return false;
  *out = (size_t)(axis < 0 ? axis + r : axis);
  return true;
}

bool anfi_infer_axis(const anfi_infer *q, const anf_value *v, size_t rank, size_t *out) {
  int64_t axis = anfi_attr_int(v);
  if (anfi_axis_in(axis, rank, out)) return true;
  anfi_infer_bad_axis(q, axis, rank);
  if (q->op == ANF_OP_Take && !rank) anfi_hint(q->cx, "there are more indices than dims");
  return false;
}

bool anfi_infer_axes(const anfi_infer *q, const anf_value *v, size_t rank, uint32_t *mask) {
  int64_t axes[ANF_MAX_RANK];
  size_t n = anfi_attr_ints(v, ANF_MAX_RANK, axes), at = 0;
  if (n > ANF_MAX_RANK) return anfi_infer_fail(q, "too many axes");
  *mask = 0;
  for (size_t i = 0; i < n; i++) {
    if (!anfi_axis_in(axes[i], rank, &at))
      return anfi_fail(q->cx, q->loc, ANF_E0540, (long long)axes[i], anfi_op[q->op].name, rank);
    if (*mask >> at & 1) return anfi_infer_fail(q, "an axis is given twice");
    *mask |= UINT32_C(1) << at;
  }
  return true;
}

/* A text that lives as long as the frame. */
static anf_text *frame_text(anf_ctx *cx) {
  anf_text *o = ANFI_NEW(anfi_scratch(cx), anf_text);
  o->cx = cx;
  anfi_defer(cx, ANFI_ALWAYS, anfi_free_text, o);
  return o;
}

const char *anfi_type_text(anf_ctx *cx, const anf_type *t) {
  anf_text *o = frame_text(cx);
  anfi_put_type(o, cx, t);
  return o->text;
}

const char *anfi_value_text(anf_ctx *cx, const anf_value *v) {
  anf_text *o = frame_text(cx);
  anfi_put_value(o, v, 20);
  return o->text;
}
