// SPDX-License-Identifier: Apache-2.0
/* Split-K: products with few elements and long sums.
 *
 *   [16, 65536] @ [65536, 16]   8 tasks sum 8192 steps each into a matrix of their own; the 8 are added in order
 *
 * Threads share K instead of the elements. The shape alone decides on the slices, not the machine or the number of
 * threads, so that every run sums in the same order (stream-K and CUTLASS choose by the machine). */
#include "backend/lower/low.h"
#include "backend/lower/gemm/plan.h"

/* Each square of results and each slice may be a task. A small product is done before other threads are awake. */
uint64_t anfi_mm_split_k(uint64_t m, uint64_t n, uint64_t k) {
  enum { SIDE = 64, LEAST_STEPS = 1024, DEPTH = 64, LEAST_WORK = 1 << 20, READ = 4 };
  uint64_t squares = anfi_mm_up(m, SIDE) * anfi_mm_up(n, SIDE);
  if (k < 2 * LEAST_STEPS || !squares || 2 * squares > ANFI_LOW_TASKS) return k;
  if (m * n < LEAST_WORK / k && READ * (m + n) < LEAST_WORK / k) return k;
  uint64_t most = k / LEAST_STEPS, want = ANFI_LOW_TASKS / squares;
  return anfi_mm_up(anfi_mm_up(k, want < most ? want : most), DEPTH) *
         DEPTH; // whole words, and tiles
}

static texpr sum_of(anfi_low *L, const anfi_mm *q, texpr sums, texpr nth) {
  uint64_t slices = anfi_mm_up(q->k, anfi_mm_split_k(q->m, q->n, q->k));
  texpr v = anfi_low_load(L, sums, nth);
  for (uint64_t s = 1; s < slices; s++) {
    texpr at = anfi_low_atom(L, anfi_ix_addc(L, nth, (int64_t)(s * q->m * q->n)));
    v = anfi_t_add(L->t, v, anfi_low_load(L, sums, at));
  }
  return anfi_low_atom(L, v);
}

void anfi_low_add_split_k(anfi_low *L, const anfi_mm *q, texpr sums) {
  anfi_loop i, j;
  anfi_low_loop(L, &i, q->m, "i");
  anfi_low_loop(L, &j, q->n, "j");
  texpr nth = anfi_low_atom(L, anfi_ix_add(L, anfi_ix_mulc(L, i.var, q->n), j.var));
  anfi_low_gemm_epilogue(L, q, i.var, j.var, sum_of(L, q, sums, nth));
  anfi_low_loop_end(L, &j);
  anfi_low_loop_end(L, &i);
}
