// SPDX-License-Identifier: Apache-2.0
/* Kernels that make tensors from a shape or a range, and conversions. Results start as zeros. */
#include "ir/ops/kernel.h"

bool anfi_eval_cast(anfi_eval *q) {
  q->out = anfi_value_cast(q->in[0], (anf_dtype)q->type->dtype);
  return true;
}

static void set_one(anf_value *v, size_t i) {
  bool pairs = anfi_dtype_class((anf_dtype)v->type->dtype) == ANFI_CLASS_COMPLEX;
  anfi_set_f64(v, pairs ? 2 * i : i, 1);
}

/* Zeros and ones, with a shape of their own or that of an argument. */
bool anfi_eval_fill(anfi_eval *q) {
  bool ones = q->op == ANF_OP_Ones || q->op == ANF_OP_OnesLike;
  for (size_t i = 0; ones && i < q->out->n; i++) set_one(q->out, i);
  return true;
}

static bool fill_with(anfi_eval *q, anf_value *x) {
  anf_value *v = anfi_value_cast(x, (anf_dtype)q->type->dtype);
  anfi_release_later(v);
  for (size_t i = 0; i < q->out->n; i++) anfi_copy_element(q->out, i, v, 0);
  return true;
}

bool anfi_eval_full(anfi_eval *q) { return fill_with(q, q->in[0]); }
bool anfi_eval_full_like(anfi_eval *q) { return fill_with(q, q->in[1]); }

bool anfi_eval_eye(anfi_eval *q) {
  int64_t n = q->type->dims[0], m = q->type->dims[1], k = anfi_attr_int(q->attr[2]);
  for (int64_t i = 0; i < n && m > 0; i++)
    if (k >= -i && k < m - i) set_one(q->out, (size_t)(i * m + i + k));
  return true;
}

/* Element i is start + i * step, in 64-bit integers or in double. */
bool anfi_eval_arange(anfi_eval *q) {
  bool ints = true, pairs = anfi_dtype_class((anf_dtype)q->type->dtype) == ANFI_CLASS_COMPLEX;
  for (size_t k = 0; k < 3; k++)
    ints &= anfi_dtype_class((anf_dtype)q->attr[k]->type->dtype) < ANFI_CLASS_FLOAT;
  double start = anfi_attr_float(q->attr[0]), step = anfi_attr_float(q->attr[2]);
  uint64_t first = (uint64_t)anfi_attr_int(q->attr[0]), by = (uint64_t)anfi_attr_int(q->attr[2]);
  for (size_t i = 0; i < q->out->n; i++) {
    size_t to = pairs ? 2 * i : i;
    if (ints) anfi_set_i64(q->out, to, (int64_t)(first + i * by));
    else anfi_set_f64(q->out, to, start + (double)i * step);
  }
  return true;
}

bool anfi_eval_linspace(anfi_eval *q) {
  double start = anfi_attr_float(q->attr[0]), stop = anfi_attr_float(q->attr[1]);
  bool endpoint = anfi_attr_bool(q->attr[3]),
       pairs = anfi_dtype_class((anf_dtype)q->type->dtype) == ANFI_CLASS_COMPLEX;
  size_t n = q->out->n, parts = endpoint && n > 1 ? n - 1 : n;
  double step = (stop - start) / (double)parts;
  for (size_t i = 0; i < n; i++) {
    double x = endpoint && n > 1 && i + 1 == n ? stop : start + (double)i * step;
    anfi_set_f64(q->out, pairs ? 2 * i : i, x);
  }
  return true;
}
