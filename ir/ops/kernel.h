// SPDX-License-Identifier: Apache-2.0
/* What reference evaluation shares: walks over n-d arrays, whole tensors in one wide type, groups of
 * elements. */
#ifndef ANFI_KERNEL_H
#define ANFI_KERNEL_H

#include "ir/ops/op.h"

/* ---- walks ---- */

/* A walk over dims in row-major order, with the element index of up to ANFI_ND operands:
 *     anfi_nd it;
 *     anfi_nd_init(&it, rank, dims);
 *     anfi_nd_broadcast(&it, 0, type);
 *     for (size_t i = 0; it.more; i++, anfi_nd_next(&it)) use(i, it.at[0], it.index); */
enum { ANFI_ND = 4 };
typedef struct anfi_nd {
  size_t rank;
  bool more; // is there an element at `index`?
  int nop;   // operands, which are given in order
  int64_t dims[ANF_MAX_RANK], index[ANF_MAX_RANK];
  int64_t stride[ANFI_ND][ANF_MAX_RANK]; // of each operand, in elements
  size_t at[ANFI_ND];
} anfi_nd;
void anfi_nd_init(anfi_nd *it, size_t rank, const int64_t *dims);
void anfi_nd_next(anfi_nd *it);
/* Operand k is an array of type t, aligned to the right, dims of 1 repeated. */
void anfi_nd_broadcast(anfi_nd *it, int k, const anf_type *t);
/* Operand k advances by these strides from the element `start`. */
void anfi_nd_strides(anfi_nd *it, int k, size_t start, const int64_t *stride);

/* Row-major strides of a dense array. */
void anfi_dense_strides(size_t rank, const int64_t *dims, int64_t *stride);
/* The strides of the elements of dims a, with strides `old`, as dims b of as many elements, more than 0; false: there are none.
 *   a = (4, 6), old = (18, 1), b = (4, 2, 3)   ->   (18, 3, 1);   b = (24)   ->   false */
bool anfi_reshaped_strides(size_t na, const int64_t *a, const int64_t *old, size_t nb,
                           const int64_t *b, int64_t *stride);
/* The product of dims[from..to). */
size_t anfi_dims_product(const int64_t *dims, size_t from, size_t to);
/* Copies element `from` of a to element `to` of b; both of the same dtype. */
void anfi_copy_element(anf_value *b, size_t to, const anf_value *a, size_t from);
/* The same of n elements that follow each other. */
void anfi_copy_run(anf_value *b, size_t to, const anf_value *a, size_t from, size_t n);
/* Element i of v as a real of type d: rounded once, whatever v's type is. */
double anfi_load_real(anf_dtype d, const anf_value *v, size_t i);

/* Releases v when the running op ends, however it ends. */
void anfi_release_later(anf_value *v);
/* Element i of an index tensor as a position in 0..size; negative ones count from the end. Else
 * E0404. */
bool anfi_index_at(const anfi_eval *q, const anf_value *index, size_t i, int64_t size,
                   int64_t *out);

/* Argument i in the element type of the result; released when the op ends. */
anf_value *anfi_eval_converted(anfi_eval *q, size_t i);
/* Result element i is element start + stride . index(i) of argument 0. Always true. */
bool anfi_eval_gather(anfi_eval *q, size_t start, const int64_t *stride);

/* ---- whole tensors in one wide type; kernels round once when they store ---- */
typedef enum {
  ANFI_WIDE_REAL,   // double
  ANFI_WIDE_INT,    // uint64_t: sums wrap
  ANFI_WIDE_COMPLEX // pairs of double
} anfi_wide;
anfi_wide anfi_wide_of(anf_dtype d);
size_t anfi_wide_bytes(anfi_wide w);
double *anfi_load_f64(anfi_arena *a, const anf_value *v);
uint64_t *anfi_load_u64(anfi_arena *a, const anf_value *v);
double *anfi_load_complex(anfi_arena *a, const anf_value *v);
void *anfi_load(anfi_arena *a, const anf_value *v, anfi_wide w);
bool anfi_store_f64(anf_value *v, const double *from);        // always true
bool anfi_store(anf_value *v, const void *from, anfi_wide w); // likewise
static inline void anfi_add_complex_product(const double *x, const double *y, double *sum) {
  sum[0] += x[0] * y[0] - x[1] * y[1];
  sum[1] += x[0] * y[1] + x[1] * y[0];
}
/* A tensor as [outer, n, inner] around one axis. */
void anfi_split_axis(const anf_type *t, size_t axis, size_t *outer, size_t *n, size_t *inner);

/* ---- groups: elements that differ only along the axes of `mask`, both in row-major order ---- */
typedef struct anfi_groups {
  size_t count, size;
  size_t *base, *at; // element k of group i is at base[i] + at[k]
} anfi_groups;
anfi_groups anfi_groups_of(anfi_arena *a, const anf_type *t, uint32_t mask);
/* The order of 0..n-1 by a stable merge sort (sort.c). */
size_t *anfi_stable_order(anfi_arena *a, size_t n, bool (*before)(const void *user, size_t, size_t),
                          const void *user);

/* ---- fourier.c: complex numbers are pairs ---- */
enum { ANFI_FOURIER_PRIME = 31 }; // larger primes make a transform a convolution
/* exp(-2 pi i k / n) */
void anfi_fourier_root(uint64_t n, uint64_t k, double out[2]);
/* Factors of the length, fours first; 0 for 1, and if a prime is too large. */
size_t anfi_fourier_factors(uint64_t n, uint64_t out[64]);
/* Of the transforms that make one of length n: n, or that of the convolution. */
uint64_t anfi_fourier_length(uint64_t n);
/* exp(-pi i j^2 / n) for j < n; the transform, of that length and divided by it, of what is convolved with. */
double *anfi_fourier_chirp(anfi_arena *a, uint64_t n);
double *anfi_fourier_kernel(anfi_arena *a, uint64_t n, const double *chirp);

bool anfi_eval_scalar(anfi_eval *q); // elementwise.c: the column .scalar
double anfi_digamma(double x);
double anfi_lgamma(double x);

#endif
