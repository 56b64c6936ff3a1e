// SPDX-License-Identifier: Apache-2.0
/* brgemm, the batch-reduce matrix product: operands, flags, order of the sum. The backend makes kernels of it; the run
 * time, the interpreter of Tensor IR and the C text run its plain loop (brgemm_loop.h). */
#ifndef ANFI_GEMM_H
#define ANFI_GEMM_H

#include <stdbool.h>
#include <stdint.h>

#include "anfora/tir.h"

enum {
#define ANF_BRGEMM(name, kind) BRGEMM_##name,
#include "base/brgemm.def"
#undef ANF_BRGEMM
  BRGEMM_COUNT
};
typedef enum anfi_brgemm_kind {
  BRGEMM_IS_MATRIX,
  BRGEMM_IS_SIZE,
  BRGEMM_IS_EPILOGUE
} anfi_brgemm_kind;

/* Sizes, types (anf_tir_elem) and flags of a product. The matrices are memory, or addresses of another machine. */
typedef struct anfi_brgemm {
  int64_t num, M, N, K, LDA, LDB, LDC, stride_a, stride_b, len;
  int64_t flags;
  int32_t ta, tb, tc, unused;
} anfi_brgemm;

/* Sizes from values by operand. */
static inline void anfi_brgemm_sizes(anfi_brgemm *g, const int64_t *v) {
#define BRGEMM_SET_SIZE(name) g->name = v[BRGEMM_##name];
#define BRGEMM_SET_MATRIX(name)
#define BRGEMM_SET_EPILOGUE(name)
#define ANF_BRGEMM(name, kind) BRGEMM_SET_##kind(name)
#include "base/brgemm.def"
#undef ANF_BRGEMM
}

#define GEMM_FLAGS(FLAG)                                                                           \
  FLAG(INIT, 0)                                                                                    \
  FLAG(BIAS, 1)                                                                                    \
  FLAG(SCALE, 2)                                                                                   \
  FLAG(RELU, 3)                                                                                    \
  FLAG(TA, 7)                                                                                      \
  FLAG(VNNI, 8)         /* B in VNNI layout: groups of k fill 32 bits */                           \
  FLAG(BIAS_IN, 9)      /* before the sum is rounded to bf16 */                                    \
  FLAG(COLUMN_SUMS, 10) /* 128 times the sums of its columns follow B */                           \
  FLAG(SMALL, 11)       /* no element of the signed factor (B if both are) is outside [-64, 64] */

enum {
#define GEMM_FLAG(name, bit) GEMM_##name = 1 << (bit),
  GEMM_FLAGS(GEMM_FLAG)
#undef GEMM_FLAG
      GEMM_BINARY_AT = 4,           // the operation that takes another tensor, in three bits:
  GEMM_BINARY = 7 << GEMM_BINARY_AT // 1 adds, 2 multiplies, 3 takes the greater, 4 the less
};

/* Of elements of these types (anf_tir_elem): are steps of K summed in pairs, the second first? The sum is in f32; to a
 * result of bf16 the sum is rounded, and each step of the epilogue. */
static inline bool anfi_sums_pairs(int32_t a, int32_t b, int32_t c) {
  return a == ANF_TIR_bf16 && b == a && (c == ANF_TIR_f32 || c == a);
}

/* Steps of K that lie together in a B in VNNI layout: as many as fill 32 bits, in the wider type of A and B. */
static inline uint32_t anfi_vnni_group(int32_t a, int32_t b) {
  switch (a == ANF_TIR_s16 ? a : b) { /* dispatch */
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
