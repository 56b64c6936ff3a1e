// SPDX-License-Identifier: Apache-2.0
/* Result types of ops that make tensors from a shape or a range, and of conversions. */
#include "ir/ops/op.h"

#include <math.h>

static bool number_dtype(const anfi_infer *q, anf_dtype d) {
  return d != ANF_KEY || anfi_fail(q->cx, q->loc, ANF_E0506, anfi_op[q->op].name, "key");
}

bool anfi_infer_cast(anfi_infer *q) {
  anf_dtype d = anfi_attr_dtype(q->attr[0]);
  if (!anfi_infer_tensors(q)) return false;
  if (q->in[0]->dtype != d && (!number_dtype(q, d) || !number_dtype(q, (anf_dtype)q->in[0]->dtype)))
    return false;
  q->out = anfi_type_with_dtype(q->cx, q->in[0], d);
  return true;
}

bool anfi_infer_cast_like(anfi_infer *q) {
  if (!anfi_infer_tensors(q)) return false;
  anf_dtype d = (anf_dtype)q->in[1]->dtype;
  if (q->in[0]->dtype != d && (!number_dtype(q, d) || !number_dtype(q, (anf_dtype)q->in[0]->dtype)))
    return false;
  q->out = anfi_type_with_dtype(q->cx, q->in[0], d);
  return true;
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
  return anfi_infer_result(q, d, rank, dims);
}

/* ZerosLike, OnesLike. */
bool anfi_infer_like(anfi_infer *q) {
  if (!anfi_infer_tensors(q)) return false;
  anf_dtype d =
      anfi_attr_given(q->attr[0]) ? anfi_attr_dtype(q->attr[0]) : (anf_dtype)q->in[0]->dtype;
  if (!number_dtype(q, d)) return false;
  q->out = anfi_type_with_dtype(q->cx, q->in[0], d);
  return true;
}

bool anfi_infer_full_like(anfi_infer *q) {
  if (!anfi_infer_tensors(q)) return false;
  if (!anfi_is_scalar(q->in[1])) return anfi_infer_fail(q, "the value must be a scalar");
  anf_dtype d = (anf_dtype)q->in[0]->dtype;
  if (d != (anf_dtype)q->in[1]->dtype &&
      (!number_dtype(q, d) || !number_dtype(q, (anf_dtype)q->in[1]->dtype)))
    return false;
  q->out = q->in[0];
  return true;
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
