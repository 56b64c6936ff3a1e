// SPDX-License-Identifier: Apache-2.0
/* Cases of the op table's `.sample` column as C values, for the check of derivatives. */
#ifndef ANF_TEST_SAMPLE_H
#define ANF_TEST_SAMPLE_H

#include "ir/ops/op.h"

enum { MAX_ARGS = 16, MAX_ATTRS = 16, MAX_TEXT = 240 };

typedef struct sample_arg {
  bool absent, free; // given as None; without dims: shapes that broadcast are chosen
  anf_dtype dtype;
  size_t rank;
  int64_t dims[8];
  bool limited;
  double lo, hi;
} sample_arg;

typedef struct sample {
  anfi_opcode op;
  size_t n, nfree;
  sample_arg arg[MAX_ARGS];
  anf_value *attr[MAX_ATTRS]; // by schema index; NULL: the default. Released with the frame
  char text[MAX_TEXT];
} sample;

/* Reads the next case at *s, which is moved on; false at the end. */
bool sample_next(anf_ctx *cx, anfi_opcode op, const char **s, sample *out);
/* Sets the dims of the free arguments; false when there is no such choice. */
bool sample_shapes(sample *c, size_t choice);
/* Deterministic numbers, 0..1. */
double sample_random(uint64_t *state);

#endif
