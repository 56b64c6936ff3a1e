// SPDX-License-Identifier: Apache-2.0
/* Helpers of reference evaluation (ir/ops/kernel.h).
 *   x[2,3] + y[3]     a walk over 2 * 3 indices with an offset for each operand: x's strides are 3 and 1, y's 0 and 1
 * So one loop serves ops that broadcast, permute and take parts. */
#define _DEFAULT_SOURCE // lgamma_r
#include "ir/ops/kernel.h"

#include <math.h>

/* ---- walks over n-d arrays ---- */

void anfi_nd_init(anfi_nd *it, size_t rank, const int64_t *dims) {
  it->rank = rank;
  it->more = true;
  it->nop = 0;
  for (size_t k = 0; k < rank; k++) {
    it->dims[k] = dims[k];
    it->index[k] = 0;
    if (dims[k] <= 0) it->more = false;
  }
}

void anfi_nd_next(anfi_nd *it) {
  for (size_t k = it->rank; k-- > 0;) {
    if (++it->index[k] < it->dims[k]) {
      for (int j = 0; j < it->nop; j++) it->at[j] += (size_t)it->stride[j][k];
      return;
    }
    for (int j = 0; j < it->nop; j++) it->at[j] -= (size_t)(it->stride[j][k] * (it->dims[k] - 1));
    it->index[k] = 0;
  }
  it->more = false;
}

void anfi_dense_strides(size_t rank, const int64_t *dims, int64_t *stride) {
  int64_t s = 1;
  for (size_t k = rank; k-- > 0;) {
    stride[k] = s;
    s *= dims[k];
  }
}

/* Dims of a that are one run of elements, `step` apart, are dims of b with the same product. */
bool anfi_reshaped_strides(size_t na, const int64_t *a, const int64_t *old, size_t nb,
                           const int64_t *b, int64_t *stride) {
  int64_t run = 1, got = 1, step = na ? old[na - 1] : 1;
  size_t j = nb;
  for (size_t k = na; k-- > 0;) {
    run *= a[k];
    if (k && (a[k - 1] == 1 || old[k - 1] == run * step)) continue;
    for (; j > 0 && (got < run || b[j - 1] == 1); got *= b[--j]) stride[j - 1] = got * step;
    if (got != run) return false;
    if (k) step = old[k - 1], run = got = 1;
  }
  for (; j > 0 && b[j - 1] == 1; j--) stride[j - 1] = 1;
  return j == 0;
}

void anfi_nd_strides(anfi_nd *it, int k, size_t start, const int64_t *stride) {
  it->nop = k + 1;
  it->at[k] = start;
  for (size_t j = 0; j < it->rank; j++) it->stride[k][j] = stride[j];
}

void anfi_nd_broadcast(anfi_nd *it, int k, const anf_type *t) {
  int64_t dense[ANF_MAX_RANK], stride[ANF_MAX_RANK] = {0};
  anfi_dense_strides(t->n, t->dims, dense);
  for (size_t j = 0; j < t->n; j++) stride[it->rank - t->n + j] = t->dims[j] == 1 ? 0 : dense[j];
  anfi_nd_strides(it, k, 0, stride);
}

size_t anfi_dims_product(const int64_t *dims, size_t from, size_t to) {
  size_t n = 1;
  for (size_t k = from; k < to; k++) n *= (size_t)dims[k];
  return n;
}

/* n elements of w bytes one after the other, from each step-th. */
static void copy_line(unsigned char *to, const unsigned char *from, size_t n, int64_t step,
                      size_t w) {
  int64_t by = step * (int64_t)w;
  switch (w) { // a constant size is a move
  case 1:
    for (size_t i = 0; i < n; i++, from += by) to[i] = *from;
    break;
  case 4:
    for (size_t i = 0; i < n; i++, from += by) memcpy(to + 4 * i, from, 4);
    break;
  case 8:
    for (size_t i = 0; i < n; i++, from += by) memcpy(to + 8 * i, from, 8);
    break;
  default:
    for (size_t i = 0; i < n; i++, from += by) memcpy(to + w * i, from, w);
  }
}

bool anfi_eval_gather(anfi_eval *q, size_t start, const int64_t *stride) {
  size_t rank = q->type->n, w = anf_dtype_bytes((anf_dtype)q->type->dtype);
  size_t n = rank ? (size_t)q->type->dims[rank - 1] : 1;
  unsigned char *to = q->out->data;
  anfi_nd it;
  if (!q->out->n) return true;
  anfi_nd_init(&it, rank ? rank - 1 : 0, q->type->dims);
  anfi_nd_strides(&it, 0, start, stride);
  for (; it.more; anfi_nd_next(&it), to += n * w)
    copy_line(to, q->in[0]->data + it.at[0] * w, n, rank ? stride[rank - 1] : 0, w);
  return true;
}

/* ---- elements ---- */

void anfi_copy_run(anf_value *b, size_t to, const anf_value *a, size_t from, size_t n) {
  size_t w = anf_dtype_bytes((anf_dtype)a->type->dtype);
  if (n) memcpy(b->data + to * w, a->data + from * w, n * w);
}

void anfi_copy_element(anf_value *b, size_t to, const anf_value *a, size_t from) {
  size_t w = anf_dtype_bytes((anf_dtype)a->type->dtype);
  unsigned char *p = b->data + to * w;
  const unsigned char *q = a->data + from * w;
  switch (w) { // a constant size is a move
  case 1: *p = *q; break;
  case 2: memcpy(p, q, 2); break;
  case 4: memcpy(p, q, 4); break;
  case 8: memcpy(p, q, 8); break;
  default: memcpy(p, q, w); break;
  }
}

double anfi_load_real(anf_dtype d, const anf_value *v, size_t i) {
  if ((anf_dtype)v->type->dtype == d) return anfi_get_f64(v, i);
  switch (d) {
  case ANF_F16: return (double)anfi_f16_to_f32(anfi_f64_to_f16(anfi_get_odd(v, i)));
  case ANF_BF16: return (double)anfi_bf16_to_f32(anfi_f64_to_bf16(anfi_get_odd(v, i)));
  case ANF_F32: return (double)(float)anfi_get_odd(v, i);
  default: return anfi_get_f64(v, i);
  }
}

double anfi_lgamma(double x) { // lgamma proper writes a global
  int sign;
  return lgamma_r(x, &sign);
}

void anfi_release_later(anf_value *v) { anfi_defer(v->cx, ANFI_ALWAYS, anfi_release, v); }

bool anfi_index_at(const anfi_eval *q, const anf_value *index, size_t i, int64_t size,
                   int64_t *out) {
  int64_t at = anfi_get_i64(index, i);
  bool huge = index->type->dtype == ANF_U64 && at < 0;
  if (huge || at < -size || at >= size)
    return anfi_fail(q->cx, q->loc, ANF_E0404, anfi_op[q->op].name, (long long)at, (long long)size);
  *out = at < 0 ? at + size : at;
  return true;
}

anf_value *anfi_eval_converted(anfi_eval *q, size_t i) {
  if (q->in[i]->type->dtype == q->type->dtype) return q->in[i];
  anf_value *v = anfi_value_cast(q->in[i], (anf_dtype)q->type->dtype);
  anfi_release_later(v);
  return v;
}

/* ---- whole tensors in one wide type: double, uint64_t (sums wrap), pairs of double ---- */

double *anfi_load_f64(anfi_arena *a, const anf_value *v) {
  double *to = ANFI_NEW_N(a, double, v->n + 1);
  if (v->type->dtype == ANF_F32)
    for (size_t i = 0; i < v->n; i++) to[i] = (double)((const float *)(const void *)v->data)[i];
  else
    for (size_t i = 0; i < v->n; i++) to[i] = anfi_get_f64(v, i);
  return to;
}

uint64_t *anfi_load_u64(anfi_arena *a, const anf_value *v) {
  uint64_t *to = ANFI_NEW_N(a, uint64_t, v->n + 1);
  for (size_t i = 0; i < v->n; i++) to[i] = (uint64_t)anfi_get_i64(v, i);
  return to;
}

/* Pairs of re, im; a real tensor has im 0. */
double *anfi_load_complex(anfi_arena *a, const anf_value *v) {
  bool pairs = anfi_dtype_class((anf_dtype)v->type->dtype) == ANFI_CLASS_COMPLEX;
  double *to = ANFI_NEW_N(a, double, 2 * v->n + 2);
  for (size_t i = 0; i < v->n; i++) {
    to[2 * i] = anfi_get_f64(v, pairs ? 2 * i : i);
    to[2 * i + 1] = pairs ? anfi_get_f64(v, 2 * i + 1) : 0.0;
  }
  return to;
}

void *anfi_load(anfi_arena *a, const anf_value *v, anfi_wide w) {
  switch (w) {
  case ANFI_WIDE_INT: return anfi_load_u64(a, v);
  case ANFI_WIDE_COMPLEX: return anfi_load_complex(a, v);
  default: return anfi_load_f64(a, v);
  }
}

bool anfi_store_f64(anf_value *v, const double *from) {
  for (size_t i = 0; i < v->n; i++) anfi_set_f64(v, i, from[i]);
  return true;
}

bool anfi_store(anf_value *v, const void *from, anfi_wide w) {
  if (w == ANFI_WIDE_INT) {
    for (size_t i = 0; i < v->n; i++) anfi_set_i64(v, i, (int64_t)((const uint64_t *)from)[i]);
  } else {
    size_t n = w == ANFI_WIDE_COMPLEX ? 2 * v->n : v->n;
    for (size_t i = 0; i < n; i++) anfi_set_f64(v, i, ((const double *)from)[i]);
  }
  return true;
}

anfi_wide anfi_wide_of(anf_dtype d) {
  switch (anfi_dtype_class(d)) {
  case ANFI_CLASS_COMPLEX: return ANFI_WIDE_COMPLEX;
  case ANFI_CLASS_FLOAT: return ANFI_WIDE_REAL;
  default: return ANFI_WIDE_INT;
  }
}

size_t anfi_wide_bytes(anfi_wide w) { return w == ANFI_WIDE_COMPLEX ? 16 : 8; }

void anfi_split_axis(const anf_type *t, size_t axis, size_t *outer, size_t *n, size_t *inner) {
  *outer = *inner = 1;
  for (size_t k = 0; k < t->n; k++)
    if (k < axis) *outer *= (size_t)t->dims[k];
    else if (k > axis) *inner *= (size_t)t->dims[k];
  *n = (size_t)t->dims[axis];
}

/* ---- groups: elements that differ only along chosen axes ---- */

static size_t product(const anf_type *t, uint32_t mask, bool in_mask) {
  size_t n = 1;
  for (uint32_t k = 0; k < t->n; k++)
    if ((mask >> k & 1) == in_mask) n *= (size_t)t->dims[k];
  return n;
}

/* Offsets of all indices along the axes chosen, in row-major order. */
static size_t *offsets(anfi_arena *a, const anf_type *t, uint32_t mask, bool in_mask, size_t n) {
  size_t *at = ANFI_NEW_N(a, size_t, n + 1), repeat = n, step = 1;
  for (uint32_t k = 0; k < t->n; k++) step *= (size_t)t->dims[k];
  for (uint32_t k = 0; k < t->n && n; k++) {
    size_t d = (size_t)t->dims[k];
    if (!d) return at;
    step /= d;
    if ((mask >> k & 1) != in_mask) continue;
    repeat /= d;
    for (size_t i = 0; i < n; i++) at[i] += i / repeat % d * step;
  }
  return at;
}

anfi_groups anfi_groups_of(anfi_arena *a, const anf_type *t, uint32_t mask) {
  anfi_groups g = {.count = product(t, mask, false), .size = product(t, mask, true)};
  if (g.count && g.size) {
    g.base = offsets(a, t, mask, false, g.count);
    g.at = offsets(a, t, mask, true, g.size);
  } else {
    g.base = g.at = ANFI_NEW_N(a, size_t, g.count + 1);
  }
  return g;
}

uint32_t anfi_axes_mask(const anf_value *axes, size_t rank) {
  int64_t at[ANF_MAX_RANK];
  size_t n = anfi_attr_ints(axes, ANF_MAX_RANK, at), axis = 0;
  uint32_t mask = 0;
  for (size_t i = 0; i < n; i++)
    if (anfi_axis_in(at[i], rank, &axis)) mask |= UINT32_C(1) << axis;
  return mask;
}
