// SPDX-License-Identifier: Apache-2.0
/* Random programs over tensors, of ops that fuse with one another: pointwise ones, index maps, reductions,
 * rows, products, layers with weights of their own. A seed and a size give the same text for ever. */
#ifndef TEST_TENSOR_PROGRAM_H
#define TEST_TENSOR_PROGRAM_H

#include "anfora/anfora.h"

enum { TENSOR_RANK = 4, TENSOR_PARAMS = 10 };

typedef struct {
  int rank;
  int64_t dim[TENSOR_RANK];
} tensor_shape;

typedef struct {
  tensor_shape shape;
  double scale; // of its elements
} tensor_param;

typedef struct {
  char *text; // with `main`, which the caller frees
  anf_dtype dtype;
  bool may_fail; // it has empty tensors, of which some ops make nothing
  int params;
  tensor_param param[TENSOR_PARAMS];
} tensor_program;

int64_t tensor_elements(const tensor_shape *s);

/* `main` gives some of the names, or is the gradient of a function of them. */
tensor_program generate_tensors(uint64_t seed, size_t size);

#endif
