// SPDX-License-Identifier: Apache-2.0
/* Flags of a brgemm: of the backend, which makes kernels, of the C text (backend/c/gemm.c, by number), and of
 * the run time, whose loops are what kernels mean. */
#ifndef ANFI_GEMM_H
#define ANFI_GEMM_H

enum {
  GEMM_INIT = 1,
  GEMM_BIAS = 2,
  GEMM_SCALE = 4,
  GEMM_RELU = 8,
  GEMM_BINARY = 7 << 4, // 1 adds, 2 multiplies, 3 takes the greater, 4 the less
  GEMM_TA = 1 << 7,
  GEMM_WORDS = 1 << 8,
  GEMM_BIAS_IN = 1 << 9, // before the sum is rounded to bf16
  GEMM_SUMS = 1 << 10    // 128 times the sums of its columns follow B's words
};

#endif
