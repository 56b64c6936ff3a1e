// SPDX-License-Identifier: Apache-2.0
/* One blocked product while it is lowered: shared by gemm.c (loops), pack.c (packing) and epilogue.c. */
#ifndef ANFI_LOWER_BLOCK_H
#define ANFI_LOWER_BLOCK_H

#include "backend/lower/low.h"
#include "backend/lower/gemm/plan.h"

/* How kernels find A. */
typedef enum gemm_a {
  A_BY_ROWS,             // as stored, or copied in the same order
  A_BY_K,                // stored K by M, and read so (attribute trans_a)
  A_TRANSPOSED,          // stored K by M: the task's rows are transposed for each block of K,
  A_TRANSPOSED_BY_BLOCK, // or each cache block of rows right before its only use
  A_WIDENED_BY_BLOCK,    // the same of bytes that kernels read as s16
  A_COMPUTED_BY_BLOCK,   // the same of what a prologue computes, by rows,
  A_COMPUTED_BY_K        // or K by M
} gemm_a;

/* Where kernels write sums. */
typedef enum gemm_sums {
  SUMS_IN_C,    // they are the result
  SUMS_IN_TILE, // one panel of a block of rows, which the epilogue reads while it is in cache
  SUMS_IN_FULL  // a matrix as large as C, or one for each slice of split-K
} gemm_sums;

typedef struct gemm {
  anfi_low *L;
  const anfi_mm *q;
  anfi_blocks b;
  anfi_mm_types type; // of what kernels read and write
  bool parallel;
  /* columns: full panels, columns left; panels of a group, groups; groups of a task, tasks across columns */
  uint64_t panels, tail, group, groups, team, teams;
  /* rows: cache blocks of all rows, of a task; tasks down the rows */
  uint64_t blocks, task_blocks, row_tasks;
  /* K: slices of split-K, steps of one (the last may have fewer) */
  uint64_t slices, slice;
  /* A */
  gemm_a a;
  /* B: steps of K that lie together in a panel (VNNI layout), 1 for none; whether 128 times the column sums
   * follow a pre-packed panel of signed bytes; the pre-packed panels, or NULL */
  uint32_t k_group;
  bool column_sums;
  texpr prepacked;
  /* sums: wide if of another type than C, which is rounded once */
  gemm_sums sums;
  bool wide, widened; // widened: A and B are of another type than kernels read
  texpr to, to0;
  uint64_t to_ld;
} gemm;

/* A matrix as kernels read it: from `at` on, with this leading dimension. */
typedef struct gemm_matrix {
  texpr tensor, at;
  uint64_t ld;
} gemm_matrix;

/* One task of the parallel loop: its slice of K, its groups of panels, its blocks of rows. */
typedef struct gemm_task {
  texpr slice, group, last_group, block, last_block, row, last_row;
} gemm_task;

/* A group of panels for one block of K. Panels are counted from 0; the tail comes last, after the panels of
 * the largest group. */
typedef struct gemm_group {
  texpr group, first,
      count;            // its number, its first panel, panels (a constant if all groups are alike)
  texpr k0, block_of_k; // where its block of K starts, the number of that block
  uint64_t k;           // steps of the block
  texpr packed;         // NULL: kernels read B as stored
} gemm_group;

static inline texpr ix(const gemm *p, uint64_t v) { return anfi_ix(p->L, v); }
static inline texpr add(const gemm *p, texpr a, texpr b) { return anfi_ix_add(p->L, a, b); }
static inline texpr mulc(const gemm *p, texpr a, uint64_t c) { return anfi_ix_mulc(p->L, a, c); }
static inline texpr atom(const gemm *p, texpr e) { return anfi_low_atom(p->L, e); }
static inline texpr minus(const gemm *p, texpr a, texpr b) {
  return atom(p, anfi_t_sub(p->L->t, a, b));
}
/* Rows of the last cache block. */
static inline uint64_t last_rows(const gemm *p) { return p->q->m - (p->blocks - 1) * p->b.mb; }

static inline texpr column(const gemm *p, const gemm_group *s, texpr nth) {
  return atom(p, mulc(p, add(p, s->first, nth), p->b.nr));
}
/* Do kernels read A stored K by M? */
static inline bool is_by_k(const gemm *p) { return p->a == A_BY_K || p->a == A_COMPUTED_BY_K; }
/* Is it copied for each cache block of rows, right before its only use? */
static inline bool is_by_block(const gemm *p) {
  return p->a >= A_TRANSPOSED_BY_BLOCK && p->a <= A_COMPUTED_BY_K;
}
/* The tail belongs to the last group. */
static inline void begin_tail(gemm *p) {
  if (p->groups > 1) anfi_low_if(p->L);
}
static inline void end_tail(gemm *p, const gemm_group *s) {
  if (p->groups > 1)
    anfi_low_if_end(p->L, anfi_t_bin(p->L->t, TX_cmp_eq, s->group, ix(p, p->groups - 1)));
}

/* pack.c */
/* The task's rows of A for one block of K, packed if the plan says so. */
gemm_matrix anfi_gemm_pack_a(gemm *p, const gemm_task *t, texpr k0, uint64_t kb);
/* `m` rows of a transposed A as rows `down` and on of the packed copy. */
void anfi_gemm_transpose_rows(gemm *p, const gemm_matrix *to, texpr row, texpr down, uint64_t m,
                              texpr k0, uint64_t kb);
/* `m` rows from `row` on as the first rows of the packed copy. */
void anfi_gemm_copy_rows(gemm *p, const gemm_matrix *to, texpr row, uint64_t m, texpr k0,
                         uint64_t kb);
void anfi_gemm_pack_group(gemm *p, gemm_group *s);
/* Elements of a packed panel of k steps. */
uint64_t anfi_gemm_panel_size(const gemm *p, uint64_t k);
/* Panel `nth` of the group, of `n` columns from `col` on, as kernels read it. */
gemm_matrix anfi_gemm_panel(gemm *p, const gemm_group *s, texpr nth, texpr col, uint64_t n);

/* prepack.c: a constant B as packed panels; their element type; how many elements they have */
texpr anfi_gemm_prepack(gemm *p);
anf_tir_elem anfi_gemm_prepacked_type(const gemm *p);
uint64_t anfi_gemm_prepacked_size(const gemm *p);
/* Elements of a pre-packed panel for each of its columns, in a block of K so long. */
uint64_t anfi_gemm_prepacked_steps(const gemm *p, uint64_t k);
/* Packs a B that stays the same in a loop before the loop, if that helps; finds it again, or NULL. */
void anfi_gemm_prepack_invariant(gemm *p);
texpr anfi_gemm_prepacked_invariant(const gemm *p);

/* prologue.c: rows [row, row + m) and steps [k0, k0 + kb) of A, computed into the packed copy */
void anfi_gemm_compute_a(gemm *p, const gemm_matrix *to, texpr row, texpr m, texpr k0, uint64_t kb);
/* ..and the panels of a group of B */
void anfi_gemm_compute_b(gemm *p, const gemm_group *s);

/* epilogue.c: C from the transposed result of swapped operands */
void anfi_gemm_store_transposed(anfi_low *L, const anfi_mm *q, texpr columns);
/* The epilogue of m by n sums that kernels wrote to p->to, from row and col of C on. */
void anfi_gemm_run_epilogue(gemm *p, texpr row, texpr col, uint64_t m, uint64_t n);

#endif
