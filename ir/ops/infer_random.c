// SPDX-License-Identifier: Apache-2.0
/* Result types of random numbers. A key is a scalar; results take their shape from an attribute. */
#include "ir/ops/op.h"

static bool want_key(const anfi_infer *q, size_t i) {
  const anf_type *t = q->in[i];
  if (anfi_is_scalar(t) && t->dtype == ANF_KEY) return true;
  return anfi_fail(q->cx, q->loc, ANF_E0550, i + 1, anfi_op[q->op].name, anfi_type_text(q->cx, t));
}

static bool shaped(anfi_infer *q, const anf_value *shape, anf_dtype d) {
  int64_t dims[ANF_MAX_RANK];
  size_t n = anfi_attr_ints(shape, ANF_MAX_RANK, dims);
  if (n > ANF_MAX_RANK) return anfi_infer_fail(q, "the rank is above 16");
  for (size_t k = 0; k < n; k++)
    if (dims[k] < 0) return anfi_infer_fail(q, "a dim of `shape` is negative");
  q->out = anfi_type_tensor(q->cx, d, n, dims);
  return true;
}

bool anfi_infer_key(anfi_infer *q) {
  if (!anfi_infer_tensors(q)) return false;
  if (!anfi_dtype_is_int((anf_dtype)q->in[0]->dtype))
    return anfi_infer_fail(q, "a seed is an integer");
  q->out = anfi_type_with_dtype(q->cx, q->in[0], ANF_KEY);
  return true;
}

bool anfi_infer_split_key(anfi_infer *q) {
  int64_t n = anfi_attr_int(q->attr[0]);
  if (!want_key(q, 0)) return false;
  if (n < 0) return anfi_infer_fail(q, "the number of keys is negative");
  q->out = anfi_type_tensor(q->cx, ANF_KEY, 1, &n);
  return true;
}

bool anfi_infer_fold_in(anfi_infer *q) {
  if (!want_key(q, 0)) return false;
  if (!anfi_is_scalar(q->in[1]) || !anfi_dtype_is_int((anf_dtype)q->in[1]->dtype))
    return anfi_infer_fail(q, "a key is derived by one integer");
  q->out = q->in[0];
  return true;
}

bool anfi_infer_random_bits(anfi_infer *q) {
  anf_dtype d = anfi_attr_dtype(q->attr[1]);
  if (anfi_dtype_class(d) != ANFI_CLASS_UNSIGNED)
    return anfi_infer_fail(q, "dtype is u8, u16, u32 or u64");
  return want_key(q, 0) && shaped(q, q->attr[0], d);
}

bool anfi_infer_random_real(anfi_infer *q) {
  anf_dtype d = anfi_attr_dtype(q->attr[1]);
  if (!anfi_dtype_is_float(d) || anfi_dtype_is_weak(d))
    return anfi_infer_fail(q, "dtype is f16, bf16, f32 or f64");
  return want_key(q, 0) && shaped(q, q->attr[0], d);
}

/* Does x fit the type without a change? */
static bool holds(anf_dtype d, int64_t x) {
  size_t bits = anf_dtype_bytes(d) * 8;
  if (anfi_dtype_class(d) == ANFI_CLASS_UNSIGNED) return x >= 0 && (bits == 64 || x >> bits == 0);
  return bits == 64 || (x >= -(INT64_C(1) << (bits - 1)) && x < INT64_C(1) << (bits - 1));
}

bool anfi_infer_rand_int(anfi_infer *q) { // high low shape dtype
  anf_dtype d = anfi_attr_dtype(q->attr[3]);
  int64_t high = anfi_attr_int(q->attr[0]), low = anfi_attr_int(q->attr[1]);
  if (!anfi_dtype_is_int(d)) return anfi_infer_fail(q, "dtype is an integer type");
  if (low >= high) return anfi_infer_fail(q, "low must be below high");
  if (!holds(d, low) || !holds(d, high - 1))
    return anfi_infer_fail(q, "low..high does not fit the dtype");
  return want_key(q, 0) && shaped(q, q->attr[2], d);
}

bool anfi_infer_bernoulli(anfi_infer *q) { // key p; the shape is p's, or one that p broadcasts to
  anf_dtype d;
  if (!want_key(q, 0) || !anfi_infer_real_dtype(q, 1, (size_t[]){1}, &d)) return false;
  const anf_type *p = q->in[1];
  if (!anfi_attr_given(q->attr[0])) {
    q->out = anfi_type_with_dtype(q->cx, p, ANF_BOOL);
    return true;
  }
  if (!shaped(q, q->attr[0], ANF_BOOL)) return false;
  bool fits = p->n <= q->out->n;
  for (uint32_t k = 0; fits && k < p->n; k++)
    fits = p->dims[k] == 1 || anfi_infer_agree(p->dims[k], q->out->dims[q->out->n - p->n + k]);
  return fits || anfi_fail(q->cx, q->loc, ANF_E0544, anfi_op[q->op].name, anfi_type_text(q->cx, p),
                           anfi_type_text(q->cx, q->out));
}

bool anfi_infer_permutation(anfi_infer *q) {
  int64_t n = anfi_attr_int(q->attr[0]);
  if (!want_key(q, 0)) return false;
  if (n < 0) return anfi_infer_fail(q, "the length is negative");
  q->out = anfi_type_tensor(q->cx, ANF_I64, 1, &n);
  return true;
}

bool anfi_infer_shuffle(anfi_infer *q) { // key x
  size_t axis;
  if (!want_key(q, 0) || !anfi_infer_tensors(q) ||
      !anfi_infer_axis(q, q->attr[0], q->in[1]->n, &axis))
    return false;
  q->out = q->in[1];
  return true;
}

bool anfi_infer_categorical(anfi_infer *q) { // key logits; attributes axis, shape
  anf_dtype d;
  size_t axis = 0, rank = 0;
  int64_t batch[ANF_MAX_RANK];
  if (!want_key(q, 0) || !anfi_infer_real_dtype(q, 1, (size_t[]){1}, &d)) return false;
  const anf_type *x = q->in[1];
  if (!anfi_infer_axis(q, q->attr[0], x->n, &axis)) return false;
  if (x->dims[axis] == 0) return anfi_infer_fail(q, "there is no class to choose");
  for (uint32_t k = 0; k < x->n; k++)
    if (k != axis) batch[rank++] = x->dims[k];
  q->out = anfi_type_tensor(q->cx, ANF_I64, rank, batch);
  if (!anfi_attr_given(q->attr[1])) return true;
  const anf_type *own = q->out;
  if (!shaped(q, q->attr[1], ANF_I64)) return false;
  bool fits = rank <= q->out->n;
  for (size_t k = 0; fits && k < rank; k++)
    fits = batch[k] == 1 || anfi_infer_agree(batch[k], q->out->dims[q->out->n - rank + k]);
  return fits || anfi_fail(q->cx, q->loc, ANF_E0544, anfi_op[q->op].name,
                           anfi_type_text(q->cx, own), anfi_type_text(q->cx, q->out));
}

bool anfi_infer_dropout(anfi_infer *q) { // x key
  anf_dtype d;
  double rate = anfi_attr_float(q->attr[0]);
  if (!anfi_infer_real_dtype(q, 1, (size_t[]){0}, &d) || !want_key(q, 1)) return false;
  if (!(rate >= 0.0 && rate <= 1.0)) return anfi_infer_fail(q, "rate is a probability, 0 to 1");
  q->out = anfi_type_with_dtype(q->cx, q->in[0], d);
  return true;
}
