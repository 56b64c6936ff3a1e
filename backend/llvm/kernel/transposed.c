// SPDX-License-Identifier: Apache-2.0
/* Products of few columns by vectors of 16 rows.
 *
 *   [128, 512] @ [512, 10]      columns would fill 10 of 16 lanes; rows fill all
 *
 * A square of A is transposed in registers, and each value of B multiplies one of its columns; the sums are transposed
 * at the end. Each sum is the same, in ascending order of K. */
#include "backend/llvm/kernel/gen.h"

typedef LLVMValueRef V;

enum { SIDE = 16, HALF = SIDE / 2, QUARTER = 4 };

bool anfi_gemm_is_transposed(const anfi_isa *isa, const anfi_gemm *g) {
  bool f32 = g->a == ANF_TIR_f32 && g->b == ANF_TIR_f32 && g->c == ANF_TIR_f32;
  return f32 && !g->list && !(g->flags & GEMM_TA) && g->known[GEMM_K] && g->known[GEMM_NUM] &&
         g->size[GEMM_NUM] == 1 &&
         anfi_tile_is_transposed(isa, isa->bytes / 4, (uint64_t)g->m, (uint64_t)g->n);
}

static V shuffle(const kgen *k, V a, V b, const uint8_t *at) {
  V i[SIDE];
  for (uint32_t l = 0; l < SIDE; l++) i[l] = anfi_ll_i32(k->g, at[l]);
  return ll.BuildShuffleVector(k->g->b, a, b, ll.ConstVector(i, SIDE), "");
}

/* Rows become columns: pairs and quads within each quarter of a vector, then quarters. */
static void transpose(const kgen *k, V *v) {
  static const uint8_t pair[2][SIDE] = {
      {0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29},
      {2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31}};
  static const uint8_t quad[2][SIDE] = {
      {0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29},
      {2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31}};
  static const uint8_t far[2][SIDE] = {
      {0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27},
      {4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31}};
  V t[SIDE], q[SIDE];
  for (uint32_t i = 0; i < SIDE; i++) t[i] = shuffle(k, v[i & ~1u], v[i | 1], pair[i & 1]);
  for (uint32_t i = 0; i < SIDE; i++) { // q[4 r + c]: column c of each quarter, of four rows
    uint32_t four = i & ~3u, c = i & 3;
    q[i] = shuffle(k, t[four + c / 2], t[four + 2 + c / 2], quad[c & 1]);
  }
  for (uint32_t c = 0; c < QUARTER; c++)
    for (uint32_t odd = 0; odd < 2; odd++) {
      V low = shuffle(k, q[c], q[QUARTER + c], far[odd]),
        high = shuffle(k, q[HALF + c], q[HALF + QUARTER + c], far[odd]);
      v[odd * QUARTER + c] = shuffle(k, low, high, far[0]);
      v[HALF + odd * QUARTER + c] = shuffle(k, low, high, far[1]);
    }
}

/* `count` rows from `at` on, `n` elements of each; others are zeros. */
static void load_square(const kgen *k, V *v, V at, V row, uint32_t count, uint32_t n) {
  for (uint32_t i = 0; i < SIDE; i++)
    v[i] = i < count ? anfi_kg_load(k, k->g->f32, move(k, at, mul(k, row, i)), k->bytes_a, n)
                     : ll.ConstNull(k->vec);
  transpose(k, v);
}

/* `n` steps of K. */
static void steps(const kgen *k, V *acc, V a, V b, uint32_t rows, uint32_t n) {
  V column[SIDE], ldb = mul(k, k->size[GEMM_LDB], k->bytes_b);
  load_square(k, column, a, mul(k, k->size[GEMM_LDA], k->bytes_a), rows, n);
  for (uint32_t u = 0; u < n; u++)
    for (uint32_t j = 0; j < k->k->n; j++) {
      V at = move(k, move(k, b, mul(k, ldb, u)), ci(k, j * k->bytes_b)),
        x = ll.BuildLoad2(k->g->b, k->g->f32, at, "");
      ll.SetAlignment(x, k->bytes_b);
      acc[j] = anfi_kg_fma(k, k->vec, column[u], splat(k, x), acc[j]);
    }
}

static void sum_k(const kgen *k, V *acc, V a, V b, uint32_t rows) {
  carried c = {.n = 0};
  kloop l;
  int64_t n = k->k->size[GEMM_K];
  carry(&c, &a), carry(&c, &b);
  for (uint32_t j = 0; j < k->k->n; j++) carry(&c, &acc[j]);
  if (n / SIDE) {
    anfi_kg_begin(k, &l, ci(k, n / SIDE), &c);
    steps(k, acc, a, b, rows, SIDE);
    a = move(k, a, ci(k, (int64_t)SIDE * k->bytes_a));
    b = move(k, b, mul(k, k->size[GEMM_LDB], (int64_t)SIDE * k->bytes_b));
    anfi_kg_end(k, &l);
  }
  if (n % SIDE) steps(k, acc, a, b, rows, (uint32_t)(n % SIDE));
}

/* `rows` rows from m on. */
static void block(const kgen *k, V m, uint32_t rows) {
  V acc[SIDE], ldc = mul(k, k->size[GEMM_LDC], k->bytes_c), off = mul2(k, m, ldc);
  uint32_t n = (uint32_t)k->k->n;
  for (uint32_t i = 0; i < SIDE; i++) acc[i] = ll.ConstNull(k->vec);
  if (!(k->k->flags & GEMM_INIT)) load_square(k, acc, move(k, k->c, off), ldc, rows, n);
  sum_k(k, acc, move(k, k->a, mul(k, mul2(k, m, k->size[GEMM_LDA]), k->bytes_a)), k->b, rows);
  for (uint32_t i = n; i < SIDE; i++) acc[i] = ll.ConstNull(k->vec);
  transpose(k, acc);
  for (uint32_t i = 0; i < rows; i++) {
    V at = sum2(k, off, mul(k, ldc, i));
    V x = anfi_kg_epilogue(k, acc[i], &(kplace){at, ci(k, 0), 0, n});
    anfi_kg_store(k, x, move(k, k->c, at), k->bytes_c, n);
  }
}

void anfi_kg_transposed(const kgen *k) { anfi_kg_blocks(k, k->k->m, SIDE, block); }
