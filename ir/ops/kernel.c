// SPDX-License-Identifier: Apache-2.0
/* What reference kernels share (ir/ops/kernel.h). */
#define _DEFAULT_SOURCE // lgamma_r
#include "ir/ops/kernel.h"

#include <math.h>

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

void anfi_copy_element(anf_value *b, size_t to, const anf_value *a, size_t from) {
  size_t w = anf_dtype_bytes((anf_dtype)a->type->dtype);
  unsigned char *p = b->u.data + to * w;
  const unsigned char *q = a->u.data + from * w;
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

static void release(void *v) { anf_value_release((anf_value *)v); }

void anfi_release_later(anf_value *v) { anfi_defer(v->cx, ANFI_ALWAYS, release, v); }

bool anfi_index_at(const anfi_eval *q, const anf_value *index, size_t i, int64_t size,
                   int64_t *out) {
  int64_t at = anfi_get_i64(index, i);
  bool huge = index->type->dtype == ANF_U64 && at < 0;
  if (huge || at < -size || at >= size)
    return anfi_fail(q->cx, q->loc, ANF_E0404, anfi_op[q->op].name, (long long)at, (long long)size);
  *out = at < 0 ? at + size : at;
  return true;
}
