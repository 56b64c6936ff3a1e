// SPDX-License-Identifier: Apache-2.0
/* A row of floats times a matrix of bytes that is stored by rows of K: a layer that decodes one token.
 *
 *   y = (x @ Cast(w, f32)) * t       each byte of w is read from memory once, and widened in registers
 *   y = x @ Cast(UnpackBits(w, axis=0), f32)     of 4 bits: a row of bytes is two rows of w
 *
 * Rows of w are read ROWS at a time, each from its start to its end; the sums of a task's columns stay in cache. Slices of
 * K go to threads, for parts of rows that are shorter than a page are read slowly. An element is one sum in ascending order
 * of K for each slice, which the shape alone decides; slices are added in order. */
#include "backend/lower/low.h"
#include "backend/lower/gemm/plan.h"

enum { LANES = 64, LANES_PACKED = 32, ROWS = 8, PARALLEL_MACS = 1 << 18 };

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

/* Code `nth` of each byte. */
static texpr code_at(const byte_rows *w, texpr bytes, uint32_t nth) {
  anfi_low *L = w->L;
  tdtype word = anfi_t_dt(ANF_TIR_s32);
  word.lanes = bytes->dtype.lanes;
  texpr from = anfi_t_int(L->t, word, (int64_t)(nth * w->q->bits));
  return anfi_low_let(L, anfi_low_code_of(L, bytes, from, w->q->bits), "code");
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
  uint32_t each = 8 / q->bits; // codes of a byte
  texpr bytes = NULL, row0 = anfi_ix_divc(L, k, each);
  for (uint32_t i = 0; i < n; i++) {
    if (i % each == 0) {
      texpr row = anfi_ix_mulc(L, anfi_ix_addc(L, row0, (int64_t)(i / each)), q->ldb);
      bytes = vector_at(w, q->b, anfi_ix_add(L, q->b0, anfi_ix_add(L, row, here)), lanes);
    }
    texpr b = each == 1 ? bytes : code_at(w, bytes, i % each);
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
  uint16_t lanes =
      w->q->bits < 8 ? LANES_PACKED : LANES; // a packed row is two or more of registers
  uint64_t whole = cols / lanes * lanes;
  for (uint32_t i = 0; i < n; i++) {
    texpr at = anfi_ix_addc(L, anfi_ix_add(L, w->q->a0, k), (int64_t)i);
    x[i] = anfi_low_let(L, anfi_low_load(L, w->q->a, anfi_low_atom(L, at)), "x");
  }
  if (whole) {
    anfi_low_loop_range(L, &l, anfi_ix(L, 0), anfi_ix(L, whole), lanes, "j");
    add_rows(w, k, n, first, l.var, lanes, x);
    anfi_low_loop_end(L, &l);
  }
  if (whole == cols) return;
  anfi_low_loop_range(L, &l, anfi_ix(L, whole), anfi_ix(L, cols), 1, "j");
  add_rows(w, k, n, first, l.var, 1, x);
  anfi_low_loop_end(L, &l);
}

/* How the work is shared out: slices of K, and of long rows ranges of columns, whose sums stay in cache. */
typedef struct shares {
  uint64_t ranges, cols; // ranges of columns, columns of one
  uint64_t slices, rows; // slices of K, rows of one
} shares;

static shares shares_of(const anfi_mm *q) {
  enum { WIDE = 16384, LEAST_ROWS = 256 };
  shares s = {.ranges = 1, .cols = q->n, .slices = 1, .rows = q->k};
  if (q->n * q->k < PARALLEL_MACS) return s;
  uint64_t most = q->n / WIDE < ANFI_LOW_TASKS ? q->n / WIDE : ANFI_LOW_TASKS;
  s.cols = anfi_mm_up(anfi_mm_up(q->n, LANES), most ? most : 1) * LANES;
  s.ranges = anfi_mm_up(q->n, s.cols);
  most =
      q->k / LEAST_ROWS < ANFI_LOW_TASKS / s.ranges ? q->k / LEAST_ROWS : ANFI_LOW_TASKS / s.ranges;
  s.rows = anfi_mm_up(anfi_mm_up(q->k, ROWS), most ? most : 1) * ROWS;
  s.slices = anfi_mm_up(q->k, s.rows);
  return s;
}

/* Sums of a task's columns over `rows` steps from k0 on: they are results, or go to `to`, row `at` of the slices' sums. */
static void some_columns(byte_rows *w, texpr k0, uint64_t rows, texpr first, uint64_t cols,
                         texpr to, texpr at) {
  anfi_low *L = w->L;
  const anfi_mm *q = w->q;
  anfi_loop l;
  uint64_t whole = rows / ROWS * ROWS;
  anfi_low_open(L);
  w->sums = anfi_low_local(L, q->elem, cols, "sums");
  anfi_low_loop(L, &l, cols, "j");
  anfi_low_put(L, w->sums, l.var, (anfi_elem){anfi_low_const(L, anfi_t_dt(q->elem), 0), NULL},
               false);
  anfi_low_loop_end(L, &l);
  if (whole) {
    anfi_low_loop_range(L, &l, anfi_ix(L, 0), anfi_ix(L, whole), ROWS, "k");
    some_rows(w, anfi_low_atom(L, anfi_ix_add(L, k0, l.var)), ROWS, first, cols);
    anfi_low_loop_end(L, &l);
  }
  if (rows > whole)
    some_rows(w, anfi_low_atom(L, anfi_ix_addc(L, k0, (int64_t)whole)), (uint32_t)(rows - whole),
              first, cols);
  anfi_low_loop(L, &l, cols, "j");
  texpr sum = anfi_low_let(L, anfi_low_load(L, w->sums, l.var), "sum"),
        col = anfi_low_atom(L, anfi_ix_add(L, first, l.var));
  if (!to) anfi_low_gemm_epilogue(L, q, anfi_ix(L, 0), col, sum);
  else
    anfi_low_put(L, to, anfi_low_atom(L, anfi_ix_add(L, anfi_ix_mulc(L, at, q->n), col)),
                 (anfi_elem){sum, NULL}, false);
  anfi_low_loop_end(L, &l);
  anfi_low_add(L, anfi_low_close(L));
}

/* Results from the sums of slices, added in order. */
static void add_slices(const byte_rows *w, texpr from, uint64_t slices) {
  anfi_low *L = w->L;
  anfi_loop l;
  anfi_low_loop(L, &l, w->q->n, "j");
  texpr sum = anfi_low_let(L, anfi_low_load(L, from, l.var), "sum");
  for (uint64_t i = 1; i < slices; i++) {
    texpr at = anfi_low_atom(L, anfi_ix_addc(L, l.var, (int64_t)(i * w->q->n)));
    sum = anfi_low_let(L, anfi_t_add(L->t, sum, anfi_low_load(L, from, at)), "sum");
  }
  anfi_low_gemm_epilogue(L, w->q, anfi_ix(L, 0), l.var, sum);
  anfi_low_loop_end(L, &l);
}

void anfi_low_weights(anfi_low *L, const anfi_mm *q) {
  byte_rows w = {.L = L, .q = q};
  anfi_loop l;
  shares s = shares_of(q);
  texpr to = NULL;
  anfi_low_open(L); // the sums of slices end with it
  if (s.slices > 1) to = anfi_low_local(L, q->elem, s.slices * q->n, "slices");
  anfi_low_loop(L, &l, s.ranges * s.slices, "task");
  l.parallel = L->o.parallel && !L->in_parallel && !q->serial && !l.none;
  texpr range = anfi_low_atom(L, anfi_ix_modc(L, l.var, s.ranges)),
        slice = anfi_low_atom(L, anfi_ix_divc(L, l.var, s.ranges)),
        first = anfi_low_atom(L, anfi_ix_mulc(L, range, s.cols)),
        k0 = anfi_low_atom(L, anfi_ix_mulc(L, slice, s.rows));
  anfi_sizes cols = {.full = s.cols, .last = q->n - (s.ranges - 1) * s.cols};
  while (anfi_low_each_size(L, &cols, range, s.ranges)) {
    anfi_sizes rows = {.full = s.rows, .last = q->k - (s.slices - 1) * s.rows};
    while (anfi_low_each_size(L, &rows, slice, s.slices))
      some_columns(&w, k0, rows.size, first, cols.size, to, slice);
  }
  anfi_low_loop_end(L, &l);
  if (to) add_slices(&w, to, s.slices);
  anfi_low_add(L, anfi_low_close(L));
}
