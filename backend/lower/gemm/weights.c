// SPDX-License-Identifier: Apache-2.0
/* A few rows of floats times a matrix that is stored by rows of K, of floats or of bytes: a layer that decodes a token.
 *
 *   y = (x @ Cast(w, f32)) * t       each byte of w is read from memory once, and widened in registers
 *   y = x @ Cast(UnpackBits(w, axis=0), f32)     of 4 bits: a row of bytes is two rows of w
 *
 * Rows of w are read ROWS at a time, each from its start to its end; the sums of a task's columns stay in cache. Slices of
 * K go to threads, for parts of rows that are shorter than a page are read slowly. What is read of w serves all rows of the
 * left operand. An element is one sum in ascending order of K for each slice, which the shape alone decides; slices are added
 * in order. */
#include "backend/lower/low.h"
#include "backend/lower/gemm/plan.h"

enum {
  LANES = 64,
  LANES_PACKED = 32,
  ROWS = 8,
  LEAST = 64,
  LARGE = 1 << 19,
  PARALLEL_MACS = 1 << 18
};

typedef struct byte_rows {
  anfi_low *L;
  const anfi_mm *q;
  texpr sums; // of the task, from its first column on: [m][cols]
  uint64_t cols;
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

/* Row i of the n from k on, lanes of it; `*bytes`: what was loaded of it last. */
static texpr row_of(const byte_rows *w, texpr row0, uint32_t i, texpr here, uint16_t lanes,
                    texpr *bytes) {
  anfi_low *L = w->L;
  const anfi_mm *q = w->q;
  tdtype wide = anfi_t_dt(q->elem);
  wide.lanes = lanes;
  uint32_t each = q->weights ? 8 / q->bits : 1; // codes of a byte
  if (i % each == 0) {
    texpr row = anfi_ix_mulc(L, anfi_ix_addc(L, row0, (int64_t)(i / each)), q->ldb);
    *bytes = vector_at(w, q->b, anfi_ix_add(L, q->b0, anfi_ix_add(L, row, here)), lanes);
  }
  if (!q->weights) return *bytes;
  texpr b = each == 1 ? *bytes : code_at(w, *bytes, i % each);
  return anfi_low_let(L, anfi_t_cast(L->t, wide, b), "b");
}

/* Adds `n` rows from k on to the sums of columns col to col + lanes; x: [m][n]. */
static void add_rows(const byte_rows *w, texpr k, uint32_t n, texpr first, texpr col,
                     uint16_t lanes, const texpr *x) {
  anfi_low *L = w->L;
  const anfi_mm *q = w->q;
  texpr here = anfi_low_atom(L, anfi_ix_add(L, first, col)), zero = NULL, bytes = NULL;
  texpr row0 = anfi_ix_divc(L, k, q->weights ? 8 / q->bits : 1), sum[ANFI_FEW_ROWS],
        at[ANFI_FEW_ROWS];
  for (uint64_t r = 0; r < q->m; r++) {
    at[r] = anfi_low_atom(L, anfi_ix_addc(L, col, (int64_t)(r * w->cols)));
    sum[r] = vector_at(w, w->sums, at[r], lanes);
  }
  if (q->zero)
    zero = q->zeros == 1 ? repeated(w, anfi_low_load(L, q->zero, anfi_ix(L, 0)), lanes)
                         : vector_at(w, q->zero, here, lanes);
  for (uint32_t i = 0; i < n; i++) {
    texpr b = row_of(w, row0, i, here, lanes, &bytes);
    if (zero) b = anfi_low_let(L, anfi_t_sub(L->t, b, zero), "b");
    for (uint64_t r = 0; r < q->m; r++) {
      texpr in[3] = {repeated(w, x[r * n + i], lanes), b, sum[r]};
      sum[r] = anfi_low_let(L, anfi_t_intrin(L->t, TI_fmadd, b->dtype, 3, in, (tattrs){0}), "sum");
    }
  }
  for (uint64_t r = 0; r < q->m; r++)
    anfi_low_set(L, anfi_t_at(L->t, w->sums, 1, &at[r], lanes, 0, NULL), sum[r]);
}

/* Lanes of a step: fewer where several rows have sums in registers, and where a row of w in memory is several in registers. */
static uint16_t lanes_of(const byte_rows *w) {
  enum { SUMS = 8 }; // vectors
  const anfi_mm *q = w->q;
  uint32_t size = q->elem == ANF_TIR_f64 ? 8 : 4;
  uint16_t lanes = q->weights && q->bits < 8 ? LANES_PACKED : LANES;
  if (q->m > 1)
    while (lanes > 16 && q->m * lanes * size > SUMS * anfi_low_isa(w->L).bytes) lanes /= 2;
  return lanes;
}

/* Rows k to k + n, all columns from `first` on. */
static void some_rows(const byte_rows *w, texpr k, uint32_t n, texpr first) {
  anfi_low *L = w->L;
  const anfi_mm *q = w->q;
  anfi_loop l;
  texpr x[ANFI_FEW_ROWS * ROWS];
  uint16_t lanes = lanes_of(w);
  uint64_t whole = w->cols / lanes * lanes;
  for (uint64_t r = 0; r < q->m; r++)
    for (uint32_t i = 0; i < n; i++) {
      texpr step = anfi_ix_addc(L, k, (int64_t)i);
      texpr at = q->ta ? anfi_ix_addc(L, anfi_ix_mulc(L, step, q->lda), (int64_t)r)
                       : anfi_ix_addc(L, step, (int64_t)(r * q->lda));
      at = anfi_low_atom(L, anfi_ix_add(L, q->a0, at));
      x[r * n + i] = anfi_low_let(L, anfi_low_load(L, q->a, at), "x");
    }
  if (whole) {
    anfi_low_loop_range(L, &l, anfi_ix(L, 0), anfi_ix(L, whole), lanes, "j");
    add_rows(w, k, n, first, l.var, lanes, x);
    anfi_low_loop_end(L, &l);
  }
  if (whole == w->cols) return;
  anfi_low_loop_range(L, &l, anfi_ix(L, whole), anfi_ix(L, w->cols), 1, "j");
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

/* Each sum of a task goes to the results, or to `to`, row `at` of the slices' sums. */
static void store_sums(const byte_rows *w, texpr first, texpr to, texpr at) {
  anfi_low *L = w->L;
  const anfi_mm *q = w->q;
  anfi_loop r, l;
  anfi_low_loop(L, &r, q->m, "i");
  anfi_low_loop(L, &l, w->cols, "j");
  texpr from = anfi_low_atom(L, anfi_ix_add(L, anfi_ix_mulc(L, r.var, w->cols), l.var));
  texpr sum = anfi_low_let(L, anfi_low_load(L, w->sums, from), "sum"),
        col = anfi_low_atom(L, anfi_ix_add(L, first, l.var));
  if (to) {
    texpr row = anfi_ix_add(L, anfi_ix_mulc(L, at, q->m), r.var);
    anfi_low_put(L, to, anfi_low_atom(L, anfi_ix_add(L, anfi_ix_mulc(L, row, q->n), col)),
                 (anfi_elem){sum, NULL}, false);
  } else {
    anfi_low_gemm_epilogue(L, q, r.var, col, sum);
  }
  anfi_low_loop_end(L, &l);
  anfi_low_loop_end(L, &r);
}

/* Sums of a task's columns over `rows` steps from k0 on. */
static void some_columns(byte_rows *w, texpr k0, uint64_t rows, texpr first, uint64_t cols,
                         texpr to, texpr at) {
  anfi_low *L = w->L;
  const anfi_mm *q = w->q;
  anfi_loop l;
  uint64_t whole = rows / ROWS * ROWS;
  anfi_low_open(L);
  w->cols = cols;
  w->sums = anfi_low_local(L, q->elem, q->m * cols, "sums");
  anfi_low_loop(L, &l, q->m * cols, "j");
  anfi_low_put(L, w->sums, l.var, (anfi_elem){anfi_low_const(L, anfi_t_dt(q->elem), 0), NULL},
               false);
  anfi_low_loop_end(L, &l);
  if (whole) {
    anfi_low_loop_range(L, &l, anfi_ix(L, 0), anfi_ix(L, whole), ROWS, "k");
    some_rows(w, anfi_low_atom(L, anfi_ix_add(L, k0, l.var)), ROWS, first);
    anfi_low_loop_end(L, &l);
  }
  if (rows > whole)
    some_rows(w, anfi_low_atom(L, anfi_ix_addc(L, k0, (int64_t)whole)), (uint32_t)(rows - whole),
              first);
  store_sums(w, first, to, at);
  anfi_low_add(L, anfi_low_close(L));
}

/* Results from the sums of slices, added in order. */
static void add_slices(const byte_rows *w, texpr from, uint64_t slices) {
  anfi_low *L = w->L;
  const anfi_mm *q = w->q;
  anfi_loop r, l;
  anfi_low_loop(L, &r, q->m, "i");
  anfi_low_loop(L, &l, q->n, "j");
  texpr first = anfi_low_atom(L, anfi_ix_add(L, anfi_ix_mulc(L, r.var, q->n), l.var));
  texpr sum = anfi_low_let(L, anfi_low_load(L, from, first), "sum");
  for (uint64_t i = 1; i < slices; i++) {
    texpr at = anfi_low_atom(L, anfi_ix_addc(L, first, (int64_t)(i * q->m * q->n)));
    sum = anfi_low_let(L, anfi_t_add(L->t, sum, anfi_low_load(L, from, at)), "sum");
  }
  anfi_low_gemm_epilogue(L, q, r.var, l.var, sum);
  anfi_low_loop_end(L, &l);
  anfi_low_loop_end(L, &r);
}

/* A matrix of floats that does not stay in a core's caches: kernels would read panels of it, a few elements of each row. */
bool anfi_low_is_few_rows(const anfi_mm *q) {
  bool type = (q->elem == ANF_TIR_f32 || q->elem == ANF_TIR_f64) && !q->bytes_a;
  return type && q->m <= ANFI_FEW_ROWS && q->k >= LEAST && q->n >= LEAST && q->n >= LARGE / q->k &&
         !q->tb && !q->const_b && !q->prologue && !q->right;
}

void anfi_low_weights(anfi_low *L, const anfi_mm *q) {
  byte_rows w = {.L = L, .q = q};
  anfi_loop l;
  shares s = shares_of(q);
  texpr to = NULL;
  anfi_low_open(L); // the sums of slices end with it
  if (s.slices > 1) to = anfi_low_local(L, q->elem, s.slices * q->m * q->n, "slices");
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
