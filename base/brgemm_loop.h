// SPDX-License-Identifier: Apache-2.0
/* The meaning of brgemm, which kernels are measured against:
 *
 *   C[M, N] (+)= sum over a batch of A[M, K] B[K, N], then scale, bias, another tensor, Relu
 *
 * Not a header of declarations but the body of a function. The run time and the interpreter of Tensor IR include
 * it, and the C text is this text. Before it `g` points to sizes and flags (anfi_brgemm), and these are defined:
 *   FIND_BLOCKS(h)            A and B of entry h of the batch
 *   LOAD_A(x, i), LOAD_B, LOAD_C, LOAD_BIAS, LOAD_SCALE, LOAD_RHS    x = element i, as a double
 *   STORE_C(i, x)
 *   SUMS_F32                  are products added in f32?
 *   PAIRS                     is the second of two steps of K added first, as VDPBF16PS does?
 *   VNNI_GROUP                steps of K that lie together in a B in VNNI layout
 *   ROUND(x)                  as kernels hold a value between two steps of the epilogue
 * ORDER: an element is one sum, in ascending order of the batch and of K, one rounding for each product. */
const int64_t group = g->flags & GEMM_VNNI ? VNNI_GROUP : 1;
for (int64_t i = 0; i < g->M; i++) {
  for (int64_t j = 0; j < g->N; j++) {
    double sum = 0, x = 0, y = 0;
    if (!(g->flags & GEMM_INIT)) LOAD_C(sum, i * g->LDC + j);
    for (int64_t h = 0; h < g->num * g->len; h++) {
      FIND_BLOCKS(h);
      for (int64_t nth = 0; nth < g->K; nth++) {
        const int64_t k = PAIRS && (nth | 1) < g->K ? nth ^ 1 : nth;
        LOAD_A(x, g->flags & GEMM_TA ? k * g->LDA + i : i * g->LDA + k);
        LOAD_B(y, k / group * group * g->LDB + j * group + k % group);
        sum = SUMS_F32 ? (double)fmaf((float)x, (float)y, (float)sum) : fma(x, y, sum);
      }
    }
    if (g->flags & GEMM_BIAS_IN) {
      LOAD_BIAS(y, j);
      sum = (double)(float)(sum + y);
    }
    sum = ROUND(sum);
    if (g->flags & GEMM_SCALE) {
      LOAD_SCALE(y, j);
      sum = ROUND(sum * y);
    }
    if ((g->flags & (GEMM_BIAS | GEMM_BIAS_IN)) == GEMM_BIAS) {
      LOAD_BIAS(y, j);
      sum = ROUND(sum + y);
    }
    if (g->flags & GEMM_BINARY) {
      const int64_t op = (g->flags & GEMM_BINARY) >> GEMM_BINARY_AT;
      LOAD_RHS(y, i * g->LDC + j);
      sum = ROUND(op == 1 ? sum + y : op == 2 ? sum * y : op == 3 ? fmax(sum, y) : fmin(sum, y));
    }
    if (g->flags & GEMM_RELU && sum < 0) sum = 0;
    STORE_C(i * g->LDC + j, sum);
  }
}
