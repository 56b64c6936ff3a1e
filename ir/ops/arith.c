// SPDX-License-Identifier: Apache-2.0
/* Elementwise ops: result types. Evaluation is the column .scalar of the row (elementwise.c), but for
 * Polygamma.
 *
 *     i32[3] + f32[2,1]  ->  f32[2,3]      promoted dtype, broadcast shape
 *     i32[3] / i32[3]    ->  f64[3]        division of integers is real
 *     i32[3] < f32[]     ->  bool[3] */
#include "ir/ops/kernel.h"

static anf_dtype to_real(anf_dtype d) {
  return anfi_dtype_class(d) >= ANFI_CLASS_FLOAT ? d : d == ANF_INT ? ANF_FLOAT : ANF_F64;
}

bool anfi_infer_arith(anfi_infer *q) {
  anf_dtype d;
  return anfi_infer_promoted(q, &d) && anfi_infer_broadcast(q, d);
}

bool anfi_infer_divide(anfi_infer *q) {
  anf_dtype d;
  return anfi_infer_promoted(q, &d) && anfi_infer_broadcast(q, to_real(d));
}

bool anfi_infer_number(anfi_infer *q) {
  anf_dtype d;
  if (!anfi_infer_promoted(q, &d)) return false;
  if (d == ANF_BOOL) return anfi_infer_bad_dtype(q, d);
  return anfi_infer_broadcast(q, d);
}

bool anfi_infer_abs(anfi_infer *q) {
  anf_dtype d;
  if (!anfi_infer_promoted(q, &d)) return false;
  return anfi_infer_broadcast(q, anfi_dtype_part(d));
}

bool anfi_infer_make_complex(anfi_infer *q) {
  anf_dtype d;
  if (!anfi_infer_promoted(q, &d)) return false;
  if (anfi_dtype_class(d) == ANFI_CLASS_COMPLEX)
    return anfi_infer_fail(q, "the parts must be real");
  return anfi_infer_broadcast(q, anfi_dtype_of_parts(d));
}

bool anfi_infer_where(anfi_infer *q) {
  anf_dtype d;
  if (!anfi_infer_tensors(q)) return false;
  if (q->in[0]->dtype != ANF_BOOL) return anfi_infer_fail(q, "the condition must be a bool");
  if (!anfi_dtype_promote((anf_dtype)q->in[1]->dtype, (anf_dtype)q->in[2]->dtype, &d))
    return anfi_infer_fail(q, "random keys take no part in arithmetic");
  anfi_infer_meet(q, 1, 3, d);
  return anfi_infer_broadcast(q, d);
}

/* == and != take None, strings, types and tuples of them, too: other kinds differ. */
static bool compares_values(const anfi_infer *q) {
  bool equality = q->op == ANF_OP_Equal || q->op == ANF_OP_NotEqual;
  if (!equality || q->n != 2) return false;
  if (q->in[0]->kind == ANF_TYPE_NONE || q->in[1]->kind == ANF_TYPE_NONE) return true;
  return q->in[0]->kind == q->in[1]->kind &&
         (anfi_is_name(q->in[0]) || q->in[0]->kind == ANF_TYPE_TUPLE);
}

bool anfi_infer_compare(anfi_infer *q) {
  anf_dtype d;
  if (compares_values(q)) return q->out = anfi_type_scalar(q->cx, ANF_BOOL), true;
  return anfi_infer_promoted(q, &d) && anfi_infer_broadcast(q, ANF_BOOL);
}

/* ---- Polygamma ---- */

bool anfi_infer_polygamma(anfi_infer *q) {
  if (!anfi_infer_divide(q)) return false;
  int64_t n = anfi_attr_int(q->attr[0]);
  if (anfi_dtype_class((anf_dtype)q->out->dtype) != ANFI_CLASS_FLOAT)
    return anfi_infer_bad_dtype(q, (anf_dtype)q->out->dtype);
  return (n >= 1 && n <= 20) || anfi_infer_fail(q, "n must be from 1 to 20");
}

bool anfi_eval_polygamma(anfi_eval *q) {
  int n = (int)anfi_attr_int(q->attr[0]);
  double *x = anfi_load_f64(q->scratch, q->in[0]);
  for (size_t i = 0; i < q->out->n; i++) x[i] = anfi_polygamma(n, x[i]);
  return anfi_store_f64(q->out, x);
}
