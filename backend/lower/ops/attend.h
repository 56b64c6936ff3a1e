// SPDX-License-Identifier: Apache-2.0
/* Attention while it is lowered: shared by attend.c (row by row) and attend_blocks.c (by kernels). */
#ifndef ANFI_LOWER_ATTEND_H
#define ANFI_LOWER_ATTEND_H

#include <math.h>

#include "backend/lower/low.h"

/* Where an operand's elements are: the last dim is contiguous, rows are `ld` apart. */
typedef struct attend_memory {
  texpr tensor;
  int64_t base, stride[ANF_MAX_RANK];
  uint64_t ld;
} attend_memory;

typedef struct attend {
  /* the op */
  anfi_low *L;
  const anfi_low_op *q;
  const anfi_view *query, *key, *value, *mask;
  attend_memory queries, keys, values;
  uint64_t l, s, d, dv;
  bool causal;
  double scale;
  /* the current batch: copies, a row for each key, in f32 if that is wider than the elements; or NULL */
  texpr wide_key, wide_value;
  texpr turned_value; // if there is a dot product for it: values in their type, a row for each part
  /* the current query */
  texpr at[ANF_MAX_RANK]; // of the batch, and the query
  texpr columns;          // keys: part p of key j is at p s + j
  texpr score;            // array
  texpr end;              // the keys that the query may see are those before
} attend;

/* Element (row, col) of the matrix of x that belongs to the current batch; where row `row` of such a matrix starts in memory. */
texpr anfi_attend_element(const attend *a, const anfi_view *x, texpr row, texpr col, tdtype as);
texpr anfi_attend_place(const attend *a, const anfi_view *x, const attend_memory *m, texpr row);
/* The score x of query i and key j with the mask of attention, in the type of x. */
texpr anfi_attend_masked(const attend *a, texpr x, texpr i, texpr j, tdtype as);
/* Where the result of query i starts. */
texpr anfi_attend_result(const attend *a, texpr i);

/* attend_blocks.c: queries of a block of the node, if kernels are worth it, or 0; it has types. */
uint64_t anfi_attend_rows_of(const anf_node *n);
/* The same while it is lowered. */
uint64_t anfi_attend_rows(const attend *a);
/* Copies keys and values of the current batch, if blocks of so many rows need that. */
void anfi_attend_copy(attend *a, uint64_t rows);
/* n rows from `first` on. Where a value is not finite, its products with weights of 0 are NaN: then the rows are. */
void anfi_attend_block(const attend *a, texpr to, texpr first, uint64_t n);
/* Is something in these rows of the result not finite? */
texpr anfi_attend_broken(const attend *a, texpr to, texpr first, uint64_t n);

#endif
