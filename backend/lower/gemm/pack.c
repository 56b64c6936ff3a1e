// SPDX-License-Identifier: Apache-2.0
/* Packing: blocks of A and B copied in the order in which kernels read them.
 *
 *   B[K, N]                     panels of nr = 4 columns
 *   a b c d | e f g h           a b c d, i j k l, ..; then e f g h, m n o p, ..
 *   i j k l | m n o p           each panel is contiguous: one page, no conflict misses
 *
 * (Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication; BLIS.) With dot products k_group
 * steps of a column lie together (the VNNI layout), and the last group is filled with zeros. A is copied by rows,
 * or transposed where it is stored K by M. Narrow floats are widened on the way where kernels do not read them. */
#include "backend/lower/gemm/block.h"

/* Elements after rows and panels: a stride that is no power of two maps them to different sets of a cache. */
enum { LINE = 16 };

static void copy_element(gemm *p, anf_tir_elem e, texpr to, texpr i, texpr from, texpr k) {
  texpr x = anfi_low_load(p->L, from, atom(p, k));
  x = anfi_t_cast(p->L->t, anfi_t_dt(e), x);
  anfi_low_put(p->L, to, atom(p, i), (anfi_elem){x, NULL}, false);
}

/* ---- A ---- */

static texpr offset_in_a(gemm *p, texpr row, texpr k0) {
  const anfi_mm *q = p->q;
  return add(p, q->a0, q->ta ? add(p, mulc(p, k0, q->lda), row) : add(p, mulc(p, row, q->lda), k0));
}

void anfi_gemm_transpose_rows(gemm *p, const gemm_matrix *to, texpr row, texpr down, uint64_t m,
                              texpr k0, uint64_t kb) {
  const anfi_mm *q = p->q;
  texpr from = atom(p, offset_in_a(p, row, k0)), at = atom(p, mulc(p, down, to->ld));
  anfi_transposed x = {p->type.a, q->a, to->tensor, from, at, kb, m, q->lda, to->ld, 0};
  anfi_low_transpose(p->L, &x);
}

static void transpose_task(gemm *p, const gemm_task *t, const gemm_matrix *to, texpr k0,
                           uint64_t kb) {
  anfi_loop i;
  if (p->row_tasks == 1) {
    anfi_gemm_transpose_rows(p, to, ix(p, 0), ix(p, 0), p->q->m, k0, kb);
    return;
  }
  anfi_low_loop_range(p->L, &i, t->block, t->last_block, 1, "m");
  texpr row = atom(p, mulc(p, i.var, p->b.mb)), down = minus(p, row, t->row);
  anfi_sizes m = {.full = p->b.mb, .last = last_rows(p)};
  while (anfi_low_each_size(p->L, &m, i.var, p->blocks))
    anfi_gemm_transpose_rows(p, to, row, down, m.size, k0, kb);
  anfi_low_loop_end(p->L, &i);
}

void anfi_gemm_copy_rows(gemm *p, const gemm_matrix *to, texpr row, uint64_t m, texpr k0,
                         uint64_t kb) {
  anfi_low *L = p->L;
  anfi_loop i, j;
  texpr from = atom(p, offset_in_a(p, row, k0));
  anfi_low_loop(L, &i, m, "i");
  anfi_low_loop(L, &j, kb, "j");
  copy_element(p, p->type.a, to->tensor, add(p, mulc(p, i.var, to->ld), j.var), p->q->a,
               add(p, from, add(p, mulc(p, i.var, p->q->lda), j.var)));
  anfi_low_loop_end(L, &j);
  anfi_low_loop_end(L, &i);
}

gemm_matrix anfi_gemm_pack_a(gemm *p, const gemm_task *t, texpr k0, uint64_t kb) {
  const anfi_mm *q = p->q;
  anfi_low *L = p->L;
  texpr from = q->prologue ? NULL : atom(p, offset_in_a(p, t->row, k0)), rows;
  if (!p->b.pack_a) return (gemm_matrix){q->a, from, q->lda};
  bool by_k = is_by_k(p), by_block = is_by_block(p);
  uint64_t most = by_block ? p->b.mb : p->task_blocks * p->b.mb, ld = (by_k ? most : kb) + LINE;
  anfi_loop i, j;
  gemm_matrix r = {anfi_low_local(L, p->type.a, (by_k ? kb : most) * ld, "rows"), ix(p, 0), ld};
  if (by_block) return r;
  if (p->a == A_TRANSPOSED) {
    transpose_task(p, t, &r, k0, kb);
    return r;
  }
  rows = p->row_tasks == 1 ? ix(p, q->m) : minus(p, t->last_row, t->row);
  if (q->prologue) {
    anfi_gemm_compute_a(p, &r, t->row, rows, k0, kb);
    return r;
  }
  anfi_low_loop_range(L, &i, ix(p, 0), by_k ? ix(p, kb) : rows, 1, "i");
  anfi_low_loop_range(L, &j, ix(p, 0), by_k ? rows : ix(p, kb), 1, "j");
  copy_element(p, p->type.a, r.tensor, add(p, mulc(p, i.var, ld), j.var), q->a,
               add(p, from, add(p, mulc(p, i.var, q->lda), j.var)));
  anfi_low_loop_end(L, &j);
  anfi_low_loop_end(L, &i);
  return r;
}

/* ---- B ---- */

uint64_t anfi_gemm_panel_size(const gemm *p, uint64_t k) {
  return anfi_mm_up(k, p->k_group) * p->k_group * p->b.nr + LINE;
}

static texpr offset_in_b(gemm *p, const gemm_group *s, texpr col) {
  const anfi_mm *q = p->q;
  return add(p, q->b0,
             q->tb ? add(p, mulc(p, col, q->ldb), s->k0) : add(p, mulc(p, s->k0, q->ldb), col));
}

/* Lanes of a and b in turn: two vectors. */
static void interleave(gemm *p, texpr a, texpr b, texpr out[2]) {
  tstore *t = p->L->t;
  texpr in[3] = {a, b, anfi_t_s32(t, 1)};
  for (int high = 0; high < 2; high++) {
    tintrin op = high ? TI_unpack_high : TI_unpack_low;
    out[high] = anfi_low_let(p->L, anfi_t_intrin(t, op, a->dtype, 3, in, (tattrs){0}), "v");
  }
}

enum { COLUMNS = 16 }; // that are interleaved at once

/* A whole group of k of COLUMNS columns, whose first element is `from`. */
static void pack_columns(gemm *p, const gemm_group *s, texpr to, texpr from) {
  anfi_low *L = p->L;
  texpr x[4] = {NULL}, half[2][2], v[4];
  uint32_t group = p->k_group;
  for (uint32_t u = 0; u < group; u++) {
    texpr at = atom(p, anfi_ix_addc(L, from, (int64_t)(u * p->q->ldb)));
    x[u] = anfi_low_let(L, anfi_t_at(L->t, p->q->b, 1, &at, COLUMNS, 0, NULL), "v");
  }
  if (group == 4) { // steps 0 and 2, 1 and 3, then those two
    interleave(p, x[0], x[2], half[0]);
    interleave(p, x[1], x[3], half[1]);
    interleave(p, half[0][0], half[1][0], v);
    interleave(p, half[0][1], half[1][1], v + 2);
  } else interleave(p, x[0], x[1], v);
  for (uint32_t u = 0; u < group; u++) {
    texpr at = atom(p, anfi_ix_addc(L, to, (int64_t)u * COLUMNS));
    anfi_low_set(L, anfi_t_at(L->t, s->packed, 1, &at, COLUMNS, 0, NULL), v[u]);
  }
}

/* Group `k` of the steps of K, for `n` columns of a panel; `steps` of it exist, zeros fill it. */
static void pack_k_group(gemm *p, const gemm_group *s, texpr to, texpr from, texpr k, uint64_t n,
                         uint64_t steps) {
  anfi_low *L = p->L;
  anfi_loop j;
  texpr row = atom(p, mulc(p, k, p->b.nr * p->k_group)), step = atom(p, mulc(p, k, p->k_group));
  if (p->k_group > 1 && steps == p->k_group && n % COLUMNS == 0) {
    texpr first = atom(p, add(p, from, mulc(p, step, p->q->ldb)));
    anfi_low_loop_range(L, &j, ix(p, 0), ix(p, n), COLUMNS, "j");
    pack_columns(p, s, add(p, to, add(p, row, mulc(p, j.var, p->k_group))), add(p, first, j.var));
    anfi_low_loop_end(L, &j);
    return;
  }
  anfi_low_loop(L, &j, n, "j");
  for (uint64_t u = 0; u < p->k_group; u++) {
    texpr at = add(p, to, add(p, row, anfi_ix_addc(L, mulc(p, j.var, p->k_group), (int64_t)u)));
    texpr b = mulc(p, anfi_ix_addc(L, step, (int64_t)u), p->q->ldb);
    if (u < steps)
      copy_element(p, p->type.b, s->packed, at, p->q->b, add(p, from, add(p, b, j.var)));
    else {
      anfi_elem zero = {anfi_low_const(L, anfi_t_dt(p->type.b), 0), NULL};
      anfi_low_put(L, s->packed, atom(p, at), zero, false);
    }
  }
  anfi_low_loop_end(L, &j);
}

static void pack_k_group_of_all(gemm *p, const gemm_group *s, texpr from, texpr k, uint64_t steps) {
  anfi_loop i;
  anfi_low_loop_range(p->L, &i, ix(p, 0), s->count, 1, "p");
  texpr to = atom(p, mulc(p, i.var, anfi_gemm_panel_size(p, s->k))),
        at = atom(p, add(p, from, mulc(p, i.var, p->b.nr)));
  pack_k_group(p, s, to, at, k, p->b.nr, steps);
  anfi_low_loop_end(p->L, &i);
}

/* B as it is, not transposed: K is the outer loop, so that each row, far from the next, is read through once. */
static void pack_by_rows(gemm *p, const gemm_group *s) {
  anfi_loop k;
  texpr from = atom(p, offset_in_b(p, s, column(p, s, ix(p, 0))));
  uint64_t full = s->k / p->k_group, left = s->k % p->k_group;
  anfi_low_loop(p->L, &k, full, "k");
  pack_k_group_of_all(p, s, from, k.var, p->k_group);
  anfi_low_loop_end(p->L, &k);
  if (left) pack_k_group_of_all(p, s, from, ix(p, full), left);
}

/* `n` columns of a transposed B. */
static void transpose_panel(gemm *p, const gemm_group *s, texpr to, texpr from, uint64_t n) {
  const anfi_mm *q = p->q;
  anfi_loop k, j;
  if (!p->widened) {
    anfi_transposed t = {p->type.b, q->b, s->packed, from, to, n, s->k, q->ldb, p->b.nr, 0};
    anfi_low_transpose(p->L, &t);
    return;
  }
  anfi_low_loop(p->L, &j, n, "i");
  anfi_low_loop(p->L, &k, s->k, "j");
  copy_element(p, p->type.b, s->packed, add(p, to, add(p, mulc(p, k.var, p->b.nr), j.var)), q->b,
               add(p, from, add(p, mulc(p, j.var, q->ldb), k.var)));
  anfi_low_loop_end(p->L, &k);
  anfi_low_loop_end(p->L, &j);
}

static void pack_panel(gemm *p, const gemm_group *s, texpr nth, texpr col, uint64_t n) {
  anfi_loop k;
  texpr from = atom(p, offset_in_b(p, s, col)),
        to = atom(p, mulc(p, nth, anfi_gemm_panel_size(p, s->k)));
  uint64_t full = s->k / p->k_group, left = s->k % p->k_group;
  if (p->q->tb) {
    transpose_panel(p, s, to, from, n);
    return;
  }
  anfi_low_loop(p->L, &k, full, "i");
  pack_k_group(p, s, to, from, k.var, n, p->k_group);
  anfi_low_loop_end(p->L, &k);
  if (left) pack_k_group(p, s, to, from, ix(p, full), n, left);
}

void anfi_gemm_pack_group(gemm *p, gemm_group *s) {
  anfi_loop i;
  if (!p->b.pack_b || p->prepacked) return;
  uint64_t n = p->group + (p->tail > 0);
  s->packed = anfi_low_local(p->L, p->type.b, n * anfi_gemm_panel_size(p, s->k), "panels");
  if (p->q->right) {
    anfi_gemm_compute_b(p, s);
    return;
  }
  if (p->panels && !p->q->tb) pack_by_rows(p, s);
  else if (p->panels) {
    anfi_low_loop_range(p->L, &i, ix(p, 0), s->count, 1, "p");
    pack_panel(p, s, i.var, column(p, s, i.var), p->b.nr);
    anfi_low_loop_end(p->L, &i);
  }
  if (!p->tail) return;
  begin_tail(p);
  pack_panel(p, s, ix(p, p->group), ix(p, p->panels * p->b.nr), p->tail);
  end_tail(p, s);
}

gemm_matrix anfi_gemm_panel(gemm *p, const gemm_group *s, texpr nth, texpr col, uint64_t n) {
  if (s->packed)
    return (gemm_matrix){s->packed, mulc(p, nth, anfi_gemm_panel_size(p, s->k)), p->b.nr};
  if (!p->prepacked) return (gemm_matrix){p->q->b, offset_in_b(p, s, col), p->q->ldb};
  texpr before = s->k0; // steps of the blocks before
  if (p->column_sums) before = add(p, before, mulc(p, s->block_of_k, p->k_group));
  texpr at = add(p, mulc(p, before, p->q->n), mulc(p, col, anfi_gemm_prepacked_steps(p, s->k)));
  return (gemm_matrix){p->prepacked, at, n};
}
