// SPDX-License-Identifier: Apache-2.0
/* Whole tensors as arrays of one wide type: double for reals, uint64_t for integers and bools (so
 * that sums wrap), double complex. Kernels compute in these and round once when they store. */
#include "ir/ops/op.h"

double *anfi_load_f64(anfi_arena *a, const anf_value *v) {
  double *to = ANFI_NEW_N(a, double, v->n + 1);
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

void anfi_store_f64(anf_value *v, const double *from) {
  for (size_t i = 0; i < v->n; i++) anfi_set_f64(v, i, from[i]);
}

void anfi_store(anf_value *v, const void *from, anfi_wide w) {
  if (w == ANFI_WIDE_INT) {
    for (size_t i = 0; i < v->n; i++) anfi_set_i64(v, i, (int64_t)((const uint64_t *)from)[i]);
  } else {
    size_t n = w == ANFI_WIDE_COMPLEX ? 2 * v->n : v->n;
    for (size_t i = 0; i < n; i++) anfi_set_f64(v, i, ((const double *)from)[i]);
  }
}

anfi_wide anfi_wide_of(anf_dtype d) {
  switch (anfi_dtype_class(d)) {
  case ANFI_CLASS_COMPLEX: return ANFI_WIDE_COMPLEX;
  case ANFI_CLASS_FLOAT: return ANFI_WIDE_REAL;
  default: return ANFI_WIDE_INT;
  }
}

void anfi_split_axis(const anf_type *t, size_t axis, size_t *outer, size_t *n, size_t *inner) {
  *outer = *inner = 1;
  for (size_t k = 0; k < t->n; k++)
    if (k < axis) *outer *= (size_t)t->dims[k];
    else if (k > axis) *inner *= (size_t)t->dims[k];
  *n = (size_t)t->dims[axis];
}
