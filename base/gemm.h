// SPDX-License-Identifier: Apache-2.0
/* What a brgemm is to the backend, which makes kernels, to the C text (backend/c/gemm.c), and to the run
 * time, whose loops are what kernels mean: flags, and the order in which steps of K lie and are summed. */
#ifndef ANFI_GEMM_H
#define ANFI_GEMM_H

#include <stdbool.h>
#include <stdint.h>

#include "anfora/tir.h"

#define GEMM_FLAGS(FLAG)                                                                           \
  FLAG(INIT, 0)                                                                                    \
  FLAG(BIAS, 1)                                                                                    \
  FLAG(SCALE, 2)                                                                                   \
  FLAG(RELU, 3)                                                                                    \
  FLAG(TA, 7)                                                                                      \
  FLAG(VNNI, 8)                                                                                    \
  FLAG(BIAS_IN, 9)      /* before the sum is rounded to bf16 */                                    \
  FLAG(COLUMN_SUMS, 10) /* 128 times the sums of its columns follow B's words */

enum {
#define GEMM_FLAG(name, bit) GEMM_##name = 1 << (bit),
  GEMM_FLAGS(GEMM_FLAG)
#undef GEMM_FLAG
      GEMM_BINARY_AT = 4,           // the operation that takes another tensor, in three bits:
  GEMM_BINARY = 7 << GEMM_BINARY_AT // 1 adds, 2 multiplies, 3 takes the greater, 4 the less
};

/* Of elements of these types (anf_tir_elem): are steps of K taken in pairs, the second first? They are summed
 * in f32; to a result of bf16 the sum is rounded, and what follows it once a step. */
static inline bool anfi_sums_pairs(int32_t a, int32_t b, int32_t c) {
  return a == ANF_TIR_bf16 && b == a && (c == ANF_TIR_f32 || c == a);
}

/* Steps of K in a word of 32 bits of B. */
static inline uint32_t anfi_vnni_group(int32_t b) {
  switch (b) { /* dispatch */
  case ANF_TIR_bool:
  case ANF_TIR_u8:
  case ANF_TIR_s8: return 4;
  case ANF_TIR_s16:
  case ANF_TIR_u16:
  case ANF_TIR_f16:
  case ANF_TIR_bf16: return 2;
  default: return 1;
  }
}

#endif
