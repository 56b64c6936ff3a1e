// SPDX-License-Identifier: Apache-2.0
/* Sliding windows of convolutions and pools: read from attributes in one place, for inference and
 * evaluation alike. */
#ifndef ANFI_WINDOW_H
#define ANFI_WINDOW_H

#include "ir/ops/kernel.h"

/* Spatial dims are at the end of these arrays; those that are missing have size and stride 1. */
typedef struct anfi_window {
  size_t rank;
  int64_t in[3], out[3], kernel[3], stride[3], dilation[3], before[3], after[3];
} anfi_window;

/* x: [n, groups * ci, in...], w: [groups * co, ci, kernel...], y: [n, groups * co, out...] */
typedef struct anfi_conv {
  int64_t n, groups, ci, co;
  anfi_window win;
} anfi_conv;

/* The ops of convolutions forward; not their gradients, nor transposed ones. */
static inline bool anfi_is_conv(anfi_opcode op) {
  return op == ANF_OP_Conv1D || op == ANF_OP_Conv2D || op == ANF_OP_Conv3D;
}

/* The types of an evaluation, for the plans of windows. */
anfi_infer anfi_as_infer(const anfi_eval *q);

/* conv.c: attributes in the order stride padding dilation; in[] and kernel[] are set. Dims
 * that are not known give dims that are not known. */
bool anfi_window_plan(const anfi_infer *q, anfi_window *w, const anf_value *stride,
                      const anf_value *padding, const anf_value *dilation, bool ceil_mode);
bool anfi_conv_plan(const anfi_infer *q, anfi_conv *c);

/* pool.c: which elements of the input a result index reads, along one spatial dim:
 * lo, lo + step, ... below hi; a mean divides by the product of the counts. */
typedef struct anfi_span {
  int64_t lo, hi, count;
} anfi_span;
typedef struct anfi_pool {
  size_t rank;
  bool spans; // are they wanted?
  int64_t in[3], out[3], step[3];
  anfi_span *span[3]; // by result index
  /* Of sliding windows, others have no taps: tap t of result i is at first + i * stride + t * step. */
  int64_t first[3], stride[3], taps[3];
} anfi_pool;
bool anfi_pool_plan(const anfi_infer *q, size_t rank, const int64_t *in, bool spans, anfi_pool *p);
/* x is [batch, channels, 1 to 3 spatial dims], as many as the op is named for. */
bool anfi_infer_spatial(const anfi_infer *q, size_t *rank);

#endif
