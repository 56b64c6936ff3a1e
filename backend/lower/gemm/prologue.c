// SPDX-License-Identifier: Apache-2.0
/* Prologues: an operand that is computed while the product packs it, so it is never in memory as a whole.
 *
 *   y = Gelu(x + 1.0) @ w             for each cache block of rows: Gelu of them into a small array; brgemm of that
 *   y = Relu(Transpose(x)) @ w        the array is K by M, as x is: nothing is transposed, kernels read A so
 *   Reshape(Transpose(h), ..) @ w     K is cut where a head ends, so that the innermost loop copies neighbours
 *   x @ Dequantize(w, s)              panels of w are of floats, those of a group in cache, w of bytes
 *
 * Which operands: fuse/prologue.c. The values are those that a tensor in between would have, so no bit changes. */
#include "backend/lower/gemm/block.h"

/* The steps of a block of K as digits, outermost first: dims of what is read are loops, not divisions. */
typedef struct steps {
  uint32_t n;
  uint64_t extent[ANFI_PT_MAX];
  texpr first; // of the outermost digit
  uint64_t count;
} steps;

/* Digits that a block of kb steps covers whole, but for the outermost one; or one digit. */
static steps steps_of(gemm *p, texpr k0, uint64_t kb) {
  const anfi_prologue *g = p->q->prologue;
  steps s = {.n = 1, .extent = {g->steps}, .first = k0, .count = kb};
  uint64_t extent[ANFI_PT_MAX], inner = 1, all = 1;
  if (g->transposed || p->q->ta) return s;
  uint32_t n = anfi_view_digits(p->L, g->v, 1, &g->steps, extent), from = n;
  while (from > 0 && all < g->steps) all *= extent[--from];
  if (all != g->steps || n - from < 2) return s;
  for (uint32_t k = from + 1; k < n; k++) inner *= extent[k];
  if (kb % inner || (kb < g->steps && (p->b.kb % inner || p->slice % inner))) return s;
  s.n = n - from;
  memcpy(s.extent, extent + from, s.n * sizeof *extent);
  s.first = atom(p, anfi_ix_divc(p->L, k0, inner));
  s.count = kb / inner;
  return s;
}

/* Element (row, step) into place `at` of the copy. */
static void put_element(gemm *p, const gemm_matrix *to, texpr at, texpr row, const anfi_pt *step) {
  const anfi_prologue *g = p->q->prologue;
  anfi_low *L = p->L;
  anfi_pt pt = g->batch;
  if (!g->transposed) anfi_pt_push(&pt, row, g->rows);
  for (uint32_t k = 0; k < step->n; k++) anfi_pt_push(&pt, step->at[k], step->extent[k]);
  if (g->transposed) anfi_pt_push(&pt, row, g->rows);
  texpr x = anfi_t_cast(L->t, anfi_t_dt(p->type.a), anfi_view_at(L, g->v, &pt).re);
  anfi_low_put(L, to->tensor, atom(p, at), (anfi_elem){anfi_low_atom(L, x), NULL}, false);
}

static void by_rows(gemm *p, const gemm_matrix *to, texpr row, texpr m, texpr k0, uint64_t kb) {
  steps s = steps_of(p, k0, kb);
  anfi_loop i, l[ANFI_PT_MAX];
  anfi_pt step = {0};
  anfi_low_loop_range(p->L, &i, ix(p, 0), m, 1, "i");
  texpr at = ix(p, 0);
  for (uint32_t k = 0; k < s.n; k++) {
    anfi_low_loop(p->L, &l[k], k ? s.extent[k] : s.count, "j");
    at = add(p, mulc(p, at, s.extent[k]), l[k].var);
    anfi_pt_push(&step, k ? l[k].var : add(p, s.first, l[k].var), s.extent[k]);
  }
  put_element(p, to, add(p, mulc(p, i.var, to->ld), at), atom(p, add(p, row, i.var)), &step);
  for (uint32_t k = s.n; k-- > 0;) anfi_low_loop_end(p->L, &l[k]);
  anfi_low_loop_end(p->L, &i);
}

static void by_steps(gemm *p, const gemm_matrix *to, texpr row, texpr m, texpr k0, uint64_t kb) {
  anfi_loop i, j;
  anfi_low_loop(p->L, &j, kb, "j");
  anfi_low_loop_range(p->L, &i, ix(p, 0), m, 1, "i");
  anfi_pt step = {0};
  anfi_pt_push(&step, atom(p, add(p, k0, j.var)), p->q->prologue->steps);
  put_element(p, to, add(p, mulc(p, j.var, to->ld), i.var), atom(p, add(p, row, i.var)), &step);
  anfi_low_loop_end(p->L, &i);
  anfi_low_loop_end(p->L, &j);
}

void anfi_gemm_compute_a(gemm *p, const gemm_matrix *to, texpr row, texpr m, texpr k0,
                         uint64_t kb) {
  if (p->q->ta) by_steps(p, to, row, m, k0, kb);
  else by_rows(p, to, row, m, k0, kb);
}

/* ---- B ---- */

/* Step k of `n` columns from `col` on into `row`: one long loop, which becomes one of vectors. */
static void compute_step(gemm *p, const gemm_group *s, texpr row, texpr k, texpr col, texpr n) {
  const anfi_prologue *g = p->q->right;
  anfi_low *L = p->L;
  anfi_loop j;
  anfi_pt at = {0};
  anfi_pt_push(&at, atom(p, add(p, s->k0, k)), g->rows);
  anfi_low_loop_range(L, &j, ix(p, 0), n, 1, "j");
  anfi_pt_push(&at, atom(p, add(p, col, j.var)), g->steps);
  texpr x = anfi_low_atom(L, anfi_view_at(L, g->v, &at).re);
  anfi_low_put(L, row, j.var, (anfi_elem){x, NULL}, false);
  anfi_low_loop_end(L, &j);
}

/* `n` numbers of a row from `from` on are step k of panel `nth`. */
static void put_step(gemm *p, const gemm_group *s, texpr row, texpr from, texpr k, texpr nth,
                     uint64_t n) {
  anfi_loop j;
  texpr to = add(p, mulc(p, nth, anfi_gemm_panel_size(p, s->k)), mulc(p, k, p->b.nr));
  anfi_low_loop(p->L, &j, n, "j");
  texpr x = anfi_low_let(p->L, anfi_low_load(p->L, row, atom(p, add(p, from, j.var))), "x");
  anfi_low_put(p->L, s->packed, atom(p, add(p, to, j.var)), (anfi_elem){x, NULL}, false);
  anfi_low_loop_end(p->L, &j);
}

static void compute_panels(gemm *p, const gemm_group *s, texpr row) {
  anfi_loop k, i;
  anfi_low_loop(p->L, &k, s->k, "k");
  texpr n = atom(p, mulc(p, s->count, p->b.nr));
  compute_step(p, s, row, k.var, column(p, s, ix(p, 0)), n);
  anfi_low_loop_range(p->L, &i, ix(p, 0), s->count, 1, "p");
  put_step(p, s, row, atom(p, mulc(p, i.var, p->b.nr)), k.var, i.var, p->b.nr);
  anfi_low_loop_end(p->L, &i);
  anfi_low_loop_end(p->L, &k);
}

void anfi_gemm_compute_b(gemm *p, const gemm_group *s) {
  anfi_loop k;
  anfi_low_open(p->L); // the row ends with it
  texpr row = anfi_low_local(p->L, p->type.b, (p->group + 1) * p->b.nr, "row");
  if (p->panels) compute_panels(p, s, row);
  if (p->tail) {
    begin_tail(p);
    anfi_low_loop(p->L, &k, s->k, "k");
    compute_step(p, s, row, k.var, ix(p, p->panels * p->b.nr), ix(p, p->tail));
    put_step(p, s, row, ix(p, 0), k.var, ix(p, p->group), p->tail);
    anfi_low_loop_end(p->L, &k);
    end_tail(p, s);
  }
  anfi_low_add(p->L, anfi_low_close(p->L));
}
