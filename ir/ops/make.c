// SPDX-License-Identifier: Apache-2.0
/* Tensors from a shape or a range, and conversions.
 *
 *     Arange(0, 6, 2)  ->  i64[3]     Full(1.5, (2, 3))  ->  float[2,3]     Cast(i32[3], f32)  ->  f32[3] */
#include <math.h>

#include "ir/ops/kernel.h"

/* ---- inference ---- */

static bool number_dtype(const anfi_infer *q, anf_dtype d) {
  return d != ANF_KEY || anfi_infer_bad_dtype(q, ANF_KEY);
}

/* Are its bits a number's, all patterns valid? */
static bool is_plain(anf_dtype d) {
  anfi_class c = anfi_dtype_class(d);
  return !anfi_dtype_is_weak(d) &&
         (c == ANFI_CLASS_SIGNED || c == ANFI_CLASS_UNSIGNED || c == ANFI_CLASS_FLOAT);
}

bool anfi_infer_cast(anfi_infer *q) {
  anf_dtype d = anfi_attr_dtype(q->attr[0]);
  if (!anfi_infer_tensors(q)) return false;
  if (q->in[0]->dtype != d && (!number_dtype(q, d) || !number_dtype(q, (anf_dtype)q->in[0]->dtype)))
    return false;
  return anfi_infer_is(q, anfi_type_with_dtype(q->cx, q->in[0], d));
}

bool anfi_infer_bitcast(anfi_infer *q) {
  anf_dtype d = anfi_attr_dtype(q->attr[0]);
  if (!anfi_infer_tensors(q)) return false;
  anf_dtype from = (anf_dtype)q->in[0]->dtype;
  if (from == d) return anfi_infer_is(q, q->in[0]);
  if (!is_plain(d)) return anfi_infer_bad_dtype(q, d);
  if (!is_plain(from)) return anfi_infer_bad_dtype(q, from);
  if (anf_dtype_bytes(from) != anf_dtype_bytes(d))
    return anfi_infer_fail(q, "the element types must have the same width");
  return anfi_infer_is(q, anfi_type_with_dtype(q->cx, q->in[0], d));
}

bool anfi_infer_cast_like(anfi_infer *q) {
  if (!anfi_infer_tensors(q)) return false;
  anf_dtype d = (anf_dtype)q->in[1]->dtype;
  if (q->in[0]->dtype != d && (!number_dtype(q, d) || !number_dtype(q, (anf_dtype)q->in[0]->dtype)))
    return false;
  anfi_infer_meet(q, 0, 1, d);
  return anfi_infer_is(q, anfi_type_with_dtype(q->cx, q->in[0], d));
}

/* Zeros, Ones: attributes shape dtype. */
bool anfi_infer_fill(anfi_infer *q) {
  size_t rank;
  int64_t dims[ANF_MAX_RANK];
  anf_dtype d = anfi_attr_dtype(q->attr[1]);
  return number_dtype(q, d) && anfi_infer_shape_attr(q, q->attr[0], &rank, dims) &&
         anfi_infer_result(q, d, rank, dims);
}

bool anfi_infer_full(anfi_infer *q) {
  size_t rank;
  int64_t dims[ANF_MAX_RANK];
  if (!anfi_infer_tensors(q) || !anfi_infer_shape_attr(q, q->attr[0], &rank, dims)) return false;
  if (!anfi_is_scalar(q->in[0])) return anfi_infer_fail(q, "the value must be a scalar");
  anf_dtype own = (anf_dtype)q->in[0]->dtype,
            d = anfi_attr_given(q->attr[1]) ? anfi_attr_dtype(q->attr[1]) : own;
  if (d != own && (!number_dtype(q, d) || !number_dtype(q, own))) return false;
  anfi_infer_meet(q, 0, 1, d);
  return anfi_infer_result(q, d, rank, dims);
}

/* ZerosLike, OnesLike. */
bool anfi_infer_like(anfi_infer *q) {
  if (!anfi_infer_tensors(q)) return false;
  anf_dtype d =
      anfi_attr_given(q->attr[0]) ? anfi_attr_dtype(q->attr[0]) : (anf_dtype)q->in[0]->dtype;
  if (!number_dtype(q, d)) return false;
  return anfi_infer_is(q, anfi_type_with_dtype(q->cx, q->in[0], d));
}

bool anfi_infer_full_like(anfi_infer *q) {
  if (!anfi_infer_tensors(q)) return false;
  if (!anfi_is_scalar(q->in[1])) return anfi_infer_fail(q, "the value must be a scalar");
  anf_dtype d = (anf_dtype)q->in[0]->dtype;
  if (d != (anf_dtype)q->in[1]->dtype &&
      (!number_dtype(q, d) || !number_dtype(q, (anf_dtype)q->in[1]->dtype)))
    return false;
  anfi_infer_meet(q, 1, 2, d);
  return anfi_infer_is(q, q->in[0]);
}

bool anfi_infer_eye(anfi_infer *q) {
  int64_t n = anfi_attr_int(q->attr[0]),
          m = anfi_attr_given(q->attr[1]) ? anfi_attr_int(q->attr[1]) : n;
  if (n < 0 || m < 0) return anfi_infer_fail(q, "a dim must not be negative");
  anf_dtype d = anfi_attr_dtype(q->attr[3]);
  return number_dtype(q, d) && anfi_infer_result(q, d, 2, (int64_t[]){n, m});
}

/* How many numbers lie in start, start + step, ... before stop; -1 if that is no sensible number.
 */
static int64_t count_ints(int64_t start, int64_t stop, int64_t step) {
  uint64_t span = step > 0 ? (uint64_t)stop - (uint64_t)start : (uint64_t)start - (uint64_t)stop;
  if (step > 0 ? start >= stop : start <= stop) return 0;
  uint64_t by = step > 0 ? (uint64_t)step : 0 - (uint64_t)step, n = (span - 1) / by + 1;
  return n <= ANFI_MAX_BYTES ? (int64_t)n : -1;
}

static int64_t count_reals(double start, double stop, double step) {
  double n = ceil((stop - start) / step);
  if (n <= 0) return 0;
  return n <= (double)ANFI_MAX_BYTES ? (int64_t)n : -1; // NaN too
}

/* Attributes start stop step dtype: numbers; all integers give i64, else f64. */
bool anfi_infer_arange(anfi_infer *q) {
  bool ints = true;
  for (size_t k = 0; k < 3; k++) {
    if (!anfi_infer_number_attr(q, q->attr[k])) return false;
    anfi_class c = anfi_dtype_class((anf_dtype)q->attr[k]->type->dtype);
    if (c == ANFI_CLASS_COMPLEX) return anfi_infer_fail(q, "an attribute must be a real number");
    ints &= c < ANFI_CLASS_FLOAT;
  }
  if (anfi_attr_float(q->attr[2]) == 0) return anfi_infer_fail(q, "the step must not be 0");
  int64_t n = ints ? count_ints(anfi_attr_int(q->attr[0]), anfi_attr_int(q->attr[1]),
                                anfi_attr_int(q->attr[2]))
                   : count_reals(anfi_attr_float(q->attr[0]), anfi_attr_float(q->attr[1]),
                                 anfi_attr_float(q->attr[2]));
  if (n < 0) return anfi_infer_fail(q, "the range has too many elements, or no end");
  anf_dtype d = anfi_attr_given(q->attr[3]) ? anfi_attr_dtype(q->attr[3])
                : ints                      ? ANF_I64
                                            : ANF_F64;
  return number_dtype(q, d) && anfi_infer_result(q, d, 1, &n);
}

bool anfi_infer_linspace(anfi_infer *q) {
  int64_t n = anfi_attr_int(q->attr[2]);
  anf_dtype d = anfi_attr_dtype(q->attr[4]);
  if (n < 0) return anfi_infer_fail(q, "num must not be negative");
  return number_dtype(q, d) && anfi_infer_result(q, d, 1, &n);
}

/* ---- evaluation: results start as zeros ---- */

bool anfi_eval_cast(anfi_eval *q) {
  q->out = anfi_value_cast(q->in[0], (anf_dtype)q->type->dtype);
  return true;
}

bool anfi_eval_bitcast(anfi_eval *q) {
  anf_value *x = q->in[0];
  q->out = anfi_value_new_tensor(q->cx, q->type);
  size_t bytes = x->n * anf_dtype_bytes((anf_dtype)x->type->dtype);
  if (bytes) memcpy(q->out->data, x->data, bytes);
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
