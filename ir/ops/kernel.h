// SPDX-License-Identifier: Apache-2.0
/* What reference kernels share: walking n-d arrays, reading attributes, converting elements. */
#ifndef ANFI_KERNEL_H
#define ANFI_KERNEL_H

#include "ir/ops/op.h"

/* kernel.c: an odometer over dims in row-major order, with the element index of up to ANFI_ND
 * operands. anfi_nd it; anfi_nd_init(&it, rank, dims); anfi_nd_broadcast(&it, 0, type); for (size_t
 * i = 0; it.more; i++, anfi_nd_next(&it)) use(i, it.at[0], it.index); */
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
/* The product of dims[from..to). */
size_t anfi_dims_product(const int64_t *dims, size_t from, size_t to);
/* Copies element `from` of a to element `to` of b; both of the same dtype. */
void anfi_copy_element(anf_value *b, size_t to, const anf_value *a, size_t from);
/* Element i of v as a real of type d: rounded once, whatever v's type is. */
double anfi_load_real(anf_dtype d, const anf_value *v, size_t i);

/* Releases v when the running op ends, however it ends. */
void anfi_release_later(anf_value *v);
/* Element i of an index tensor as a position in 0..size; negative ones count from the end. Else
 * E0404. */
bool anfi_index_at(const anfi_eval *q, const anf_value *index, size_t i, int64_t size,
                   int64_t *out);

/* eval_scalar.c */
bool anfi_eval_scalar(anfi_eval *q);
double anfi_digamma(double x);
double anfi_lgamma(double x); // kernel.c

#endif
