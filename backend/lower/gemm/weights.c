// SPDX-License-Identifier: Apache-2.0
/* A row of floats times a matrix of bytes that is stored by rows of K: a layer that decodes one token.
 *
 *   y = (x @ Cast(w, f32)) * t       each byte of w is read from memory once, and widened in registers
 *
 * Rows of w are read ROWS at a time, each from its start to its end; the sums of a task's columns stay in cache. An element
 * is one sum in ascending order of K, whatever the number of tasks. */
#include "backend/lower/low.h"
#include "backend/lower/gemm/plan.h"

enum { LANES = 64, ROWS = 8, PARALLEL_MACS = 1 << 18 };

typedef struct byte_rows {
  anfi_low *L;
  const anfi_mm *q;
  texpr sums; // of the task, from its first column on
} byte_rows;

static texpr vector_at(const byte_rows *w, texpr tensor, texpr at, uint16_t lanes) {
  at = anfi_low_atom(w->L, at);
  return anfi_low_let(w->L, anfi_t_at(w->L->t, tensor, 1, &at, lanes, 0, NULL), "x");
}

static texpr repeated(const byte_rows *w, texpr x, uint16_t lanes) {
  tdtype d = anfi_t_dt(w->q->elem);
  d.lanes = lanes;
  return lanes == 1 ? x : anfi_t_intrin(w->L->t, TI_broadcast, d, 1, &x, (tattrs){0});
}

/* Adds `n` rows from k on to the sums of columns col to col + lanes. */
static void add_rows(const byte_rows *w, texpr k, uint32_t n, texpr first, texpr col,
                     uint16_t lanes, const texpr *x) {
  anfi_low *L = w->L;
  const anfi_mm *q = w->q;
  tdtype wide = anfi_t_dt(q->elem);
  wide.lanes = lanes;
  texpr here = anfi_low_atom(L, anfi_ix_add(L, first, col)), zero = NULL;
  texpr sum = vector_at(w, w->sums, col, lanes);
  if (q->zero)
    zero = q->zeros == 1 ? repeated(w, anfi_low_load(L, q->zero, anfi_ix(L, 0)), lanes)
                         : vector_at(w, q->zero, here, lanes);
  for (uint32_t i = 0; i < n; i++) {
    texpr row = anfi_ix_mulc(L, anfi_ix_addc(L, k, (int64_t)i), q->ldb);
    texpr b = vector_at(w, q->b, anfi_ix_add(L, q->b0, anfi_ix_add(L, row, here)), lanes);
    b = anfi_low_let(L, anfi_t_cast(L->t, wide, b), "b");
    if (zero) b = anfi_low_let(L, anfi_t_sub(L->t, b, zero), "b");
    texpr in[3] = {repeated(w, x[i], lanes), b, sum};
    sum = anfi_low_let(L, anfi_t_intrin(L->t, TI_fmadd, wide, 3, in, (tattrs){0}), "sum");
  }
  texpr at = anfi_low_atom(L, col);
  anfi_low_set(L, anfi_t_at(L->t, w->sums, 1, &at, lanes, 0, NULL), sum);
}

/* Rows k to k + n, all `cols` columns from `first` on. */
static void some_rows(const byte_rows *w, texpr k, uint32_t n, texpr first, uint64_t cols) {
  anfi_low *L = w->L;
  anfi_loop l;
  texpr x[ROWS];
  uint64_t whole = cols / LANES * LANES;
  for (uint32_t i = 0; i < n; i++) {
    texpr at = anfi_ix_addc(L, anfi_ix_add(L, w->q->a0, k), (int64_t)i);
    x[i] = anfi_low_let(L, anfi_low_load(L, w->q->a, anfi_low_atom(L, at)), "x");
  }
  if (whole) {
    anfi_low_loop_range(L, &l, anfi_ix(L, 0), anfi_ix(L, whole), LANES, "j");
    add_rows(w, k, n, first, l.var, LANES, x);
    anfi_low_loop_end(L, &l);
  }
  if (whole == cols) return;
  anfi_low_loop_range(L, &l, anfi_ix(L, whole), anfi_ix(L, cols), 1, "j");
  add_rows(w, k, n, first, l.var, 1, x);
  anfi_low_loop_end(L, &l);
}

static void some_columns(byte_rows *w, texpr first, uint64_t cols) {
  anfi_low *L = w->L;
  const anfi_mm *q = w->q;
  anfi_loop l;
  uint64_t whole = q->k / ROWS * ROWS;
  anfi_low_open(L);
  w->sums = anfi_low_local(L, q->elem, cols, "sums");
  anfi_low_loop(L, &l, cols, "j");
  anfi_low_put(L, w->sums, l.var, (anfi_elem){anfi_low_const(L, anfi_t_dt(q->elem), 0), NULL},
               false);
  anfi_low_loop_end(L, &l);
  if (whole) {
    anfi_low_loop_range(L, &l, anfi_ix(L, 0), anfi_ix(L, whole), ROWS, "k");
    some_rows(w, l.var, ROWS, first, cols);
    anfi_low_loop_end(L, &l);
  }
  if (q->k > whole) some_rows(w, anfi_ix(L, whole), (uint32_t)(q->k - whole), first, cols);
  anfi_low_loop(L, &l, cols, "j");
  texpr sum = anfi_low_let(L, anfi_low_load(L, w->sums, l.var), "sum");
  anfi_low_gemm_epilogue(L, q, anfi_ix(L, 0), anfi_low_atom(L, anfi_ix_add(L, first, l.var)), sum);
  anfi_low_loop_end(L, &l);
  anfi_low_add(L, anfi_low_close(L));
}

void anfi_low_weights(anfi_low *L, const anfi_mm *q) {
  byte_rows w = {.L = L, .q = q};
  anfi_loop l;
  bool parallel = L->o.parallel && !L->in_parallel && !q->serial && q->n * q->k >= PARALLEL_MACS;
  uint64_t vectors = anfi_mm_up(q->n, LANES), tasks = parallel ? ANFI_LOW_TASKS : 1;
  uint64_t each = anfi_mm_up(vectors, tasks) * LANES;
  tasks = anfi_mm_up(q->n, each);
  anfi_sizes s = {.full = each, .last = q->n - (tasks - 1) * each};
  anfi_low_loop(L, &l, tasks, "task");
  l.parallel = parallel && !l.none;
  texpr first = anfi_low_atom(L, anfi_ix_mulc(L, l.var, each));
  while (anfi_low_each_size(L, &s, l.var, tasks)) some_columns(&w, first, s.size);
  anfi_low_loop_end(L, &l);
}
