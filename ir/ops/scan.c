// SPDX-License-Identifier: Apache-2.0
/* Linear recurrences along an axis, and the derivatives of the digamma function. Reals are computed
 * in double and rounded once. */
#include "ir/ops/kernel.h"

#include <math.h>

/* ---- y_i = b_i + a_i y_before ---- */

bool anfi_infer_linear_scan(anfi_infer *q) { // a b; attributes axis reverse
  anf_dtype d;
  size_t axis;
  if (!anfi_infer_promoted(q, &d)) return false;
  if (d == ANF_BOOL)
    return anfi_fail(q->cx, q->loc, ANF_E0506, anfi_op[q->op].name, anf_dtype_name(d));
  const anf_type *a = q->in[0];
  if (!anfi_infer_axis(q, q->attr[0], a->n, &axis) || !anfi_infer_shape_is(q, 1, a->n, a->dims))
    return false;
  return anfi_infer_result(q, d, a->n, a->dims);
}

static void step_complex(double *y, const double *a, const double *b, const double *before) {
  double re = before ? a[0] * before[0] - a[1] * before[1] : 0,
         im = before ? a[0] * before[1] + a[1] * before[0] : 0;
  y[0] = b[0] + re;
  y[1] = b[1] + im;
}

bool anfi_eval_linear_scan(anfi_eval *q) {
  size_t outer, n, inner, axis = 0;
  anfi_wide w = anfi_wide_of((anf_dtype)q->type->dtype);
  if (!q->out->n) return true;
  anf_value *in[2] = {anfi_value_cast(q->in[0], (anf_dtype)q->type->dtype), NULL};
  anfi_release_later(in[0]);
  in[1] = anfi_value_cast(q->in[1], (anf_dtype)q->type->dtype);
  anfi_release_later(in[1]);
  void *a = anfi_load(q->scratch, in[0], w), *b = anfi_load(q->scratch, in[1], w);
  anfi_axis_in(anfi_attr_int(q->attr[0]), q->type->n, &axis);
  anfi_split_axis(q->type, axis, &outer, &n, &inner);
  bool back = anfi_attr_bool(q->attr[1]);
  for (size_t o = 0; o < outer; o++)
    for (size_t j = 0; j < inner; j++)
      for (size_t i = 0, before = 0; i < n; i++) { // b becomes y
        size_t at = (o * n + (back ? n - 1 - i : i)) * inner + j;
        double *f = (double *)b;
        uint64_t *u = (uint64_t *)b;
        if (w == ANFI_WIDE_COMPLEX)
          step_complex(f + 2 * at, (double *)a + 2 * at, f + 2 * at, i ? f + 2 * before : NULL);
        else if (i && w == ANFI_WIDE_INT) u[at] += ((uint64_t *)a)[at] * u[before];
        else if (i) f[at] += ((double *)a)[at] * f[before];
        before = at;
      }
  anfi_store(q->out, b, w);
  return true;
}

/* ---- polygamma ---- */

bool anfi_infer_polygamma(anfi_infer *q) {
  if (!anfi_infer_divide(q)) return false;
  int64_t n = anfi_attr_int(q->attr[0]);
  if (anfi_dtype_class((anf_dtype)q->out->dtype) != ANFI_CLASS_FLOAT)
    return anfi_fail(q->cx, q->loc, ANF_E0506, anfi_op[q->op].name,
                     anf_dtype_name((anf_dtype)q->out->dtype));
  return (n >= 1 && n <= 20) || anfi_infer_fail(q, "n must be from 1 to 20");
}

bool anfi_eval_polygamma(anfi_eval *q) {
  int n = (int)anfi_attr_int(q->attr[0]);
  double *x = anfi_load_f64(q->scratch, q->in[0]);
  for (size_t i = 0; i < q->out->n; i++) x[i] = anfi_polygamma(n, x[i]);
  anfi_store_f64(q->out, x);
  return true;
}
