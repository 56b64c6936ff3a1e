// SPDX-License-Identifier: Apache-2.0
/* Epilogues: pointwise work applied to a product's sums before they are stored.
 *
 *   t = x @ w; y = Relu(t + b)      two passes over memory
 *   y = brgemm(x, w, b, relu)       the kernel adds b and takes the maximum in registers
 *
 * Bias, another tensor and a last Relu run in the kernel's registers (attributes of brgemm). Any other chain
 * (Gelu, Tanh, a product by a mask) is `store_element` of the product: it runs on each panel of a block of
 * rows while the sums are in cache. Hard cases: sums of another type than C are rounded once, after the bias;
 * split-K and swapped operands have no sums in order of C until all is added, so their epilogue runs at the end.
 * (CUTLASS and oneDNN have the same two places: fused post-operations, and a visitor on the accumulators.) */
#include "backend/lower/gemm/block.h"

static texpr in_c(anfi_low *L, const anfi_mm *q, texpr i, texpr j) {
  texpr at = anfi_ix_add(L, q->c0, anfi_ix_add(L, anfi_ix_mulc(L, i, q->ldc), j));
  return anfi_low_atom(L, at);
}

/* The element of row i and column j, rounded: to the fused consumers, or to C. */
static void store_element(anfi_low *L, const anfi_mm *q, texpr i, texpr j, texpr value) {
  if (q->store_element) q->store_element(L, q, anfi_low_atom(L, i), anfi_low_atom(L, j), value);
  else anfi_low_put(L, q->c, in_c(L, q, i, j), (anfi_elem){value, NULL}, false);
}

static texpr add_bias(anfi_low *L, const anfi_mm *q, texpr sum, texpr j) {
  return anfi_t_add(L->t, sum, anfi_t_cast(L->t, sum->dtype, anfi_low_load(L, q->bias, j)));
}

void anfi_low_gemm_epilogue(anfi_low *L, const anfi_mm *q, texpr i, texpr j, texpr v) {
  if (q->bias) v = add_bias(L, q, v, j);
  v = anfi_t_cast(L->t, anfi_t_dt(q->elem), v);
  if (q->rhs) v = anfi_t_add(L->t, v, anfi_low_load(L, q->rhs, in_c(L, q, i, j)));
  if (q->relu) v = anfi_low_max(L, anfi_low_atom(L, v), anfi_low_const(L, v->dtype, 0), true);
  store_element(L, q, i, j, v);
}

void anfi_gemm_run_epilogue(gemm *p, texpr row, texpr col, uint64_t m, uint64_t n) {
  anfi_loop i, j;
  anfi_low *L = p->L;
  bool tile = p->sums == SUMS_IN_TILE;
  anfi_low_loop(L, &i, m, "i");
  anfi_low_loop(L, &j, n, "j");
  texpr from_row = tile ? i.var : add(p, row, i.var), from_col = tile ? j.var : add(p, col, j.var);
  texpr x = anfi_low_load(L, p->to, atom(p, add(p, mulc(p, from_row, p->to_ld), from_col)));
  texpr to_col = atom(p, add(p, col, j.var));
  if (p->wide && p->q->bias) x = add_bias(L, p->q, x, to_col);
  store_element(L, p->q, add(p, row, i.var), to_col, anfi_t_cast(L->t, anfi_t_dt(p->q->elem), x));
  anfi_low_loop_end(L, &j);
  anfi_low_loop_end(L, &i);
}

/* `m` rows of C from `first` on, whose sums lie by columns: transposed, then the epilogue. */
static void store_rows(anfi_low *L, const anfi_mm *q, texpr columns, texpr first, uint64_t m) {
  anfi_loop i, j;
  texpr rows = anfi_low_local(L, q->elem, m * q->n, "rows");
  anfi_transposed t = {q->elem, columns, rows, first, anfi_ix(L, 0), q->n, m, q->m, q->n, 0};
  anfi_low_transpose(L, &t);
  anfi_low_loop(L, &i, m, "i");
  anfi_low_loop(L, &j, q->n, "j");
  texpr at = anfi_ix_add(L, anfi_ix_mulc(L, i.var, q->n), j.var),
        row = anfi_low_atom(L, anfi_ix_add(L, first, i.var));
  anfi_low_gemm_epilogue(L, q, row, j.var, anfi_low_load(L, rows, anfi_low_atom(L, at)));
  anfi_low_loop_end(L, &j);
  anfi_low_loop_end(L, &i);
}

void anfi_gemm_store_transposed(anfi_low *L, const anfi_mm *q, texpr columns) {
  enum { ROWS = 16, PARALLEL_ELEMENTS = 1 << 15 };
  anfi_loop l;
  if (!q->bias && !q->rhs && !q->relu && !q->store_element) {
    anfi_transposed t = {q->elem, columns, q->c, anfi_ix(L, 0), q->c0, q->n, q->m, q->m, q->ldc, 0};
    anfi_low_transpose(L, &t);
    return;
  }
  uint64_t full = q->m / ROWS, tail = q->m % ROWS;
  if (full) {
    anfi_low_loop(L, &l, full, "m");
    l.parallel = L->o.parallel && !L->in_parallel && !q->serial && !l.none &&
                 q->m * q->n >= PARALLEL_ELEMENTS;
    store_rows(L, q, columns, anfi_low_atom(L, anfi_ix_mulc(L, l.var, ROWS)), ROWS);
    anfi_low_loop_end(L, &l);
  }
  if (tail) store_rows(L, q, columns, anfi_ix(L, full * ROWS), tail);
}
