// SPDX-License-Identifier: Apache-2.0
/* Random numbers as docs/random.md defines them: element i is a function of the key and i alone.
 *
 *     Normal(key, shape=(2, 3))  ->  f32[2,3]       the same key gives the same numbers, on any thread count */
#include "base/random.h"

#include <math.h>

#include "ir/ops/kernel.h"

/* ---- inference ---- */

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
  return anfi_infer_is(q, anfi_type_tensor(q->cx, d, n, dims));
}

bool anfi_infer_key(anfi_infer *q) {
  if (!anfi_infer_tensors(q)) return false;
  if (!anfi_dtype_is_int((anf_dtype)q->in[0]->dtype))
    return anfi_infer_fail(q, "a seed is an integer");
  return anfi_infer_is(q, anfi_type_with_dtype(q->cx, q->in[0], ANF_KEY));
}

bool anfi_infer_split_key(anfi_infer *q) {
  int64_t n = anfi_attr_int(q->attr[0]);
  if (!want_key(q, 0)) return false;
  if (n < 0) return anfi_infer_fail(q, "the number of keys is negative");
  return anfi_infer_is(q, anfi_type_tensor(q->cx, ANF_KEY, 1, &n));
}

bool anfi_infer_fold_in(anfi_infer *q) {
  if (!want_key(q, 0)) return false;
  if (!anfi_is_scalar(q->in[1]) || !anfi_dtype_is_int((anf_dtype)q->in[1]->dtype))
    return anfi_infer_fail(q, "a key is derived by one integer");
  return anfi_infer_is(q, q->in[0]);
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
  if (!want_key(q, 0) || !anfi_infer_real(q, 1, 2, &d)) return false;
  const anf_type *p = q->in[1];
  if (!anfi_attr_given(q->attr[0])) {
    q->out = anfi_type_with_dtype(q->cx, p, ANF_BOOL);
    return true;
  }
  if (!shaped(q, q->attr[0], ANF_BOOL)) return false;
  bool fits = p->n <= q->out->n;
  for (uint32_t k = 0; fits && k < p->n; k++)
    fits = p->dims[k] == 1 || anfi_infer_agree(p->dims[k], q->out->dims[q->out->n - p->n + k]);
  return fits || anfi_infer_mismatch(q, p, q->out);
}

bool anfi_infer_permutation(anfi_infer *q) {
  int64_t n = anfi_attr_int(q->attr[0]);
  if (!want_key(q, 0)) return false;
  if (n < 0) return anfi_infer_fail(q, "the length is negative");
  return anfi_infer_is(q, anfi_type_tensor(q->cx, ANF_I64, 1, &n));
}

bool anfi_infer_shuffle(anfi_infer *q) { // key x
  size_t axis;
  if (!want_key(q, 0) || !anfi_infer_tensors(q) ||
      !anfi_infer_axis(q, q->attr[0], q->in[1]->n, &axis))
    return false;
  return anfi_infer_is(q, q->in[1]);
}

bool anfi_infer_categorical(anfi_infer *q) { // key logits; attributes axis, shape
  anf_dtype d;
  size_t axis = 0, rank = 0;
  int64_t batch[ANF_MAX_RANK];
  if (!want_key(q, 0) || !anfi_infer_real(q, 1, 2, &d)) return false;
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
  return fits || anfi_infer_mismatch(q, own, q->out);
}

bool anfi_infer_dropout(anfi_infer *q) { // x key
  anf_dtype d;
  double rate = anfi_attr_float(q->attr[0]);
  if (!anfi_infer_real(q, 0, 1, &d) || !want_key(q, 1)) return false;
  if (!(rate >= 0.0 && rate <= 1.0)) return anfi_infer_fail(q, "rate is a probability, 0 to 1");
  return anfi_infer_is(q, anfi_type_with_dtype(q->cx, q->in[0], d));
}

/* ---- evaluation ---- */

static uint64_t key_of(const anf_value *v) { return (uint64_t)anfi_get_i64(v, 0); }

bool anfi_eval_key(anfi_eval *q) {
  for (size_t i = 0; i < q->out->n; i++) anfi_set_i64(q->out, i, anfi_get_i64(q->in[0], i));
  return true;
}

bool anfi_eval_split_key(anfi_eval *q) {
  for (size_t i = 0; i < q->out->n; i++)
    anfi_set_i64(q->out, i, (int64_t)anfi_random_derive(key_of(q->in[0]), ANFI_RANDOM_SPLIT, i));
  return true;
}

bool anfi_eval_fold_in(anfi_eval *q) {
  uint64_t by = (uint64_t)anfi_get_i64(q->in[1], 0);
  anfi_set_i64(q->out, 0, (int64_t)anfi_random_derive(key_of(q->in[0]), ANFI_RANDOM_FOLD, by));
  return true;
}

bool anfi_eval_random_bits(anfi_eval *q) {
  uint64_t key = key_of(q->in[0]);
  size_t bits = anf_dtype_bytes((anf_dtype)q->type->dtype) * 8;
  for (size_t i = 0; i < q->out->n; i++)
    anfi_set_i64(q->out, i,
                 bits == 64 ? (int64_t)anfi_random_u64(key, i)
                            : (int64_t)(anfi_random_u32(key, i) >> (32 - bits)));
  return true;
}

/* A multiple of 2^-p in [0, 1), p being the precision of the type. */
static double unit(anf_dtype d, uint64_t key, size_t i) {
  switch (d) {
  case ANF_F64: return (double)(anfi_random_u64(key, i) >> 11) * 0x1p-53;
  case ANF_F16: return (double)(anfi_random_u32(key, i) >> 21) * 0x1p-11;
  case ANF_BF16: return (double)(anfi_random_u32(key, i) >> 24) * 0x1p-8;
  default: return (double)(anfi_random_u32(key, i) >> 8) * 0x1p-24;
  }
}

/* The greatest number of the type below x, which is finite and above the least. */
static void set_below(anf_value *v, size_t i, double x) {
  anf_dtype d = (anf_dtype)v->type->dtype;
  if (d == ANF_F64) anfi_set_f64(v, i, nextafter(x, -INFINITY));
  else if (d == ANF_F32) anfi_set_f64(v, i, (double)nextafterf((float)x, -INFINITY));
  else {
    uint16_t h = d == ANF_F16 ? anfi_f64_to_f16(x) : anfi_f64_to_bf16(x);
    h = (h & 0x7fff) == 0 ? 0x8001 : (uint16_t)(h & 0x8000 ? h + 1 : h - 1);
    memcpy(v->data + 2 * i, &h, 2);
  }
}

/* x as the type has it. */
static double as(anf_value *scratch, double x) {
  anfi_set_f64(scratch, 0, x);
  return anfi_get_f64(scratch, 0);
}

bool anfi_eval_uniform(anfi_eval *q) { // shape dtype low high
  anf_dtype d = (anf_dtype)q->type->dtype;
  uint64_t key = key_of(q->in[0]);
  if (!q->out->n) return true;
  double low = as(q->out, anfi_attr_float(q->attr[2])),
         high = as(q->out, anfi_attr_float(q->attr[3]));
  for (size_t i = 0; i < q->out->n; i++) {
    double u = unit(d, key, i);
    double x = d == ANF_F64 ? low + u * (high - low)
                            : (double)((float)low + (float)u * ((float)high - (float)low));
    anfi_set_f64(q->out, i, x);
    if (low < high && isfinite(high) && !(anfi_get_f64(q->out, i) < high))
      set_below(q->out, i, high);
  }
  return true;
}

/* Halfway between multiples of 2^-32, or of 2^-52 for f64: never 0 or 1. */
static double inside(anf_dtype d, uint64_t key, size_t i) {
  if (d == ANF_F64) return ((double)(anfi_random_u64(key, i) >> 12) + 0.5) * 0x1p-52;
  return ((double)anfi_random_u32(key, i) + 0.5) * 0x1p-32;
}

bool anfi_eval_normal(anfi_eval *q) { // shape dtype mean std
  uint64_t key = key_of(q->in[0]);
  double mean = anfi_attr_float(q->attr[2]), std = anfi_attr_float(q->attr[3]);
  for (size_t i = 0; i < q->out->n; i++)
    anfi_set_f64(q->out, i,
                 mean + std * anfi_random_normal(inside((anf_dtype)q->type->dtype, key, i)));
  return true;
}

bool anfi_eval_bernoulli(anfi_eval *q) {
  uint64_t key = key_of(q->in[0]);
  anfi_nd it;
  anfi_nd_init(&it, q->type->n, q->type->dims);
  anfi_nd_broadcast(&it, 0, q->in[1]->type);
  for (size_t i = 0; it.more; i++, anfi_nd_next(&it))
    anfi_set_i64(q->out, i,
                 (double)anfi_random_u32(key, i) * 0x1p-32 < anfi_get_f64(q->in[1], it.at[0]));
  return true;
}

bool anfi_eval_dropout(anfi_eval *q) {
  uint64_t key = key_of(q->in[1]);
  double rate = anfi_attr_float(q->attr[0]);
  if (!q->out->n) return true;
  double scale = as(q->out, 1.0 / (1.0 - rate));
  for (size_t i = 0; i < q->out->n; i++) {
    bool keep = (double)anfi_random_u32(key, i) * 0x1p-32 >= rate;
    anfi_set_f64(q->out, i, keep ? anfi_get_f64(q->in[0], i) * scale : 0.0);
  }
  return true;
}

bool anfi_eval_rand_int(anfi_eval *q) {
  uint64_t key = key_of(q->in[0]), low = (uint64_t)anfi_attr_int(q->attr[1]);
  uint64_t range = (uint64_t)anfi_attr_int(q->attr[0]) - low;
  for (size_t i = 0; i < q->out->n; i++)
    anfi_set_i64(q->out, i, (int64_t)(low + anfi_mul_high(anfi_random_u64(key, i), range)));
  return true;
}

static bool before(const void *user, size_t a, size_t b) {
  const uint64_t *k = (const uint64_t *)user;
  return k[a] < k[b];
}

static size_t *permutation(anfi_eval *q, size_t n) {
  uint64_t key = key_of(q->in[0]), *k = ANFI_NEW_N(q->scratch, uint64_t, n + 1);
  for (size_t i = 0; i < n; i++) k[i] = anfi_random_u64(key, i);
  return anfi_stable_order(q->scratch, n, before, k);
}

bool anfi_eval_permutation(anfi_eval *q) {
  const size_t *order = permutation(q, q->out->n);
  for (size_t i = 0; i < q->out->n; i++) anfi_set_i64(q->out, i, (int64_t)order[i]);
  return true;
}

bool anfi_eval_shuffle(anfi_eval *q) {
  size_t outer, n, inner, axis = 0;
  if (!q->out->n) return true;
  anfi_axis_in(anfi_attr_int(q->attr[0]), q->type->n, &axis);
  anfi_split_axis(q->type, axis, &outer, &n, &inner);
  const size_t *order = permutation(q, n);
  size_t row = inner * anf_dtype_bytes((anf_dtype)q->type->dtype);
  for (size_t o = 0; o < outer; o++)
    for (size_t i = 0; i < n; i++)
      memcpy(q->out->data + (o * n + i) * row, q->in[1]->data + (o * n + order[i]) * row, row);
  return true;
}

/* The class whose logit plus a Gumbel variable is greatest; a NaN is greater than all. */
static size_t choose(uint64_t key, uint64_t first, const double *x, const anfi_groups *g) {
  double best = 0.0;
  size_t at = 0;
  for (size_t k = 0; k < g->size; k++) {
    double gumbel = -anfi_random_log(-anfi_random_log(inside(ANF_F32, key, first + k)));
    double s = x[g->at[k]] + gumbel;
    if (k && !(s > best || (s != s && best == best))) continue;
    best = s;
    at = k;
  }
  return at;
}

bool anfi_eval_categorical(anfi_eval *q) {
  const anf_type *t = q->in[1]->type;
  size_t axis = 0, rank = 0;
  int64_t batch[ANF_MAX_RANK];
  anfi_axis_in(anfi_attr_int(q->attr[0]), t->n, &axis);
  const double *x = anfi_load_f64(q->scratch, q->in[1]);
  anfi_groups g = anfi_groups_of(q->scratch, t, UINT32_C(1) << axis);
  for (uint32_t k = 0; k < t->n; k++)
    if (k != axis) batch[rank++] = t->dims[k];
  anfi_nd it;
  anfi_nd_init(&it, q->type->n, q->type->dims);
  anfi_nd_broadcast(&it, 0, anfi_type_tensor(q->cx, ANF_F64, rank, batch));
  for (size_t i = 0; it.more; i++, anfi_nd_next(&it))
    anfi_set_i64(q->out, i,
                 (int64_t)choose(key_of(q->in[0]), (uint64_t)i * g.size, x + g.base[it.at[0]], &g));
  return true;
}
