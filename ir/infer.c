// SPDX-License-Identifier: Apache-2.0
/* Result types: the driver, elementwise families, and ops on tuples and functions. */
#include "ir/op.h"

bool anfi_infer_op(anfi_infer *q) {
  q->out = NULL;
  return anfi_op[q->op].infer(q) && q->out;
}

bool anfi_infer_fail(const anfi_infer *q, const char *why) {
  return anfi_fail(q->cx, q->loc, ANF_E0501, anfi_op[q->op].name, why);
}

static const char *show(const anfi_infer *q, const anf_type *t) {
  anf_text o = {q->cx, NULL, 0, 0};
  anfi_put_type(&o, q->cx, t);
  char *s = anfi_strndup(anfi_scratch(q->cx), o.text, o.len);
  anf_text_free(&o);
  return s;
}

bool anfi_infer_tensors(anfi_infer *q) {
  for (size_t i = 0; i < q->n; i++)
    if (!anfi_is_tensor(q->in[i]))
      return anfi_fail(q->cx, q->loc, ANF_E0502, i + 1, anfi_op[q->op].name, show(q, q->in[i]));
  return true;
}

bool anfi_infer_dim(int64_t a, int64_t b, int64_t *out) {
  if (a == b || b == 1) *out = a;
  else if (a == 1) *out = b;
  else if (a >= 0 && b >= 0) return false;
  else *out = a >= 0 ? a : b >= 0 ? b : ANF_DIM_UNKNOWN; // checked when the program runs
  return true;
}

bool anfi_infer_broadcast(anfi_infer *q, anf_dtype d) {
  int64_t dims[ANF_MAX_RANK];
  size_t rank = 0;
  for (size_t i = 0; i < q->n; i++)
    if (q->in[i]->n > rank) rank = q->in[i]->n;
  for (size_t k = 0; k < rank; k++) dims[k] = 1;
  for (size_t i = 0; i < q->n; i++)
    for (size_t k = 0; k < q->in[i]->n; k++) {
      int64_t *to = &dims[rank - q->in[i]->n + k];
      if (!anfi_infer_dim(*to, q->in[i]->dims[k], to))
        return anfi_fail(q->cx, q->loc, ANF_E0503, anfi_op[q->op].name, show(q, q->in[0]), show(q, q->in[i]));
    }
  q->out = anfi_type_tensor(q->cx, d, rank, dims);
  return true;
}

bool anfi_infer_promoted(anfi_infer *q, anf_dtype *d) {
  if (!anfi_infer_tensors(q)) return false;
  *d = (anf_dtype)q->in[0]->dtype;
  for (size_t i = 1; i < q->n; i++)
    if (!anfi_dtype_promote(*d, (anf_dtype)q->in[i]->dtype, d))
      return anfi_infer_fail(q, "random keys take no part in arithmetic");
  return true;
}

bool anfi_infer_arith(anfi_infer *q) {
  anf_dtype d;
  return anfi_infer_promoted(q, &d) && anfi_infer_broadcast(q, d);
}

static anf_dtype to_real(anf_dtype d) {
  return anfi_dtype_class(d) >= ANFI_CLASS_FLOAT ? d : d == ANF_INT ? ANF_FLOAT : ANF_F64;
}

bool anfi_infer_divide(anfi_infer *q) {
  anf_dtype d;
  return anfi_infer_promoted(q, &d) && anfi_infer_broadcast(q, to_real(d));
}

bool anfi_infer_compare(anfi_infer *q) {
  anf_dtype d;
  return anfi_infer_promoted(q, &d) && anfi_infer_broadcast(q, ANF_BOOL);
}

bool anfi_infer_any(anfi_infer *q) {
  q->out = anfi_type_simple(q->cx, ANF_TYPE_ANY);
  return true;
}

bool anfi_infer_switch(anfi_infer *q) {
  if (!anfi_is_scalar(q->in[0])) return anfi_infer_fail(q, "the condition must be a bool");
  q->out = q->in[1] == q->in[2] ? q->in[1] : anfi_type_simple(q->cx, ANF_TYPE_ANY);
  return true;
}

bool anfi_infer_tuple(anfi_infer *q) {
  q->out = anfi_type_tuple(q->cx, q->n, q->in);
  return true;
}

bool anfi_infer_tuple_get(anfi_infer *q) {
  const anf_type *t = q->in[0];
  int64_t i = 0;
  anfi_value_is_int(q->attr[0], &i);
  if (t->kind == ANF_TYPE_ANY) return anfi_infer_any(q);
  if (t->kind != ANF_TYPE_TUPLE) return anfi_fail(q->cx, q->loc, ANF_E0504, show(q, t));
  if (i < 0) i += t->n;
  if (i < 0 || i >= (int64_t)t->n) return anfi_fail(q->cx, q->loc, ANF_E0505, (long long)i, show(q, t));
  q->out = t->items[i];
  return true;
}
