// SPDX-License-Identifier: Apache-2.0
/* A matrix times a vector, where rows of the matrix are contiguous along the sum. Weights of bytes are widened in registers.
 *
 *   w[512, 256] @ x[256]        four dot products of rows at once, so that x is loaded once for four rows
 *
 * Element k goes to partial sum k mod 32 on every machine, as in rows.c; the elements after the last multiple of 32
 * are summed in order and added at the end. Long sums of few rows are split (split_k.c). Rows of a large matrix of floats go
 * one by one: it then is read from memory as one stream. */
#include "backend/lower/low.h"
#include "backend/lower/gemm/plan.h"

enum { LANES = 32, ROWS = 4, LEAST = 64, LARGE = 1 << 19, PARALLEL_MACS = 1 << 18, TASK_ROWS = 64 };

/* Which operand is the matrix, and what of it is done at once. */
typedef struct dots {
  /* the product */
  anfi_low *L;
  const anfi_mm *q;
  bool left; // the matrix is a, else b
  /* one task of it */
  texpr matrix, matrix0, vector, vector0;
  uint64_t rows, ld;
  uint32_t step; // rows at once
} dots;

static bool along_a(const anfi_mm *q) { return q->n == 1 && !q->ta && (q->tb || q->ldb == 1); }
static bool along_b(const anfi_mm *q) { return q->m == 1 && q->tb && (!q->ta || q->lda == 1); }

bool anfi_low_is_matvec(const anfi_mm *q) {
  if (q->weights || anfi_low_is_few_rows(q)) return true;
  bool type = (q->elem == ANF_TIR_f32 || q->elem == ANF_TIR_f64) && !q->bytes_a;
  return type && q->k >= LEAST && (along_a(q) || along_b(q));
}

static texpr wide_load(const dots *d, texpr tensor, texpr at, uint16_t lanes) {
  return anfi_low_let(d->L, anfi_t_at(d->L->t, tensor, 1, &at, lanes, 0, NULL), "x");
}

/* Elements of the matrix. Bytes are widened, less the zero point of their row. */
static texpr wide_elements(const dots *d, texpr at, texpr row, uint16_t lanes) {
  anfi_low *L = d->L;
  texpr x = wide_load(d, d->matrix, at, lanes), z = d->q->zero;
  tdtype wide = anfi_t_dt(d->q->elem);
  if (!d->q->weights) return x;
  wide.lanes = lanes;
  x = anfi_low_let(L, anfi_t_cast(L->t, wide, x), "x");
  if (!z) return x;
  z = anfi_low_let(L, anfi_low_load(L, z, d->q->zeros == 1 ? anfi_ix(L, 0) : row), "z");
  if (lanes > 1) z = anfi_t_intrin(L->t, TI_broadcast, wide, 1, &z, (tattrs){0});
  return anfi_low_let(L, anfi_t_sub(L->t, x, z), "x");
}

static texpr fused(anfi_low *L, texpr a, texpr b, texpr c) {
  return anfi_t_intrin(L->t, TI_fmadd, c->dtype, 3, (texpr[]){a, b, c}, (tattrs){0});
}

/* Adds to sums of `n` rows from `row` on what steps of so many lanes have, from k to the end. */
static void add_steps(const dots *d, texpr row, uint32_t n, uint64_t from, uint64_t end,
                      uint16_t lanes, const texpr *sum) {
  anfi_low *L = d->L;
  anfi_loop l;
  if (from == end) return;
  anfi_low_loop_range(L, &l, anfi_ix(L, from), anfi_ix(L, end), lanes, "k");
  texpr x = wide_load(d, d->vector, anfi_low_atom(L, anfi_ix_add(L, d->vector0, l.var)), lanes);
  for (uint32_t i = 0; i < n; i++) {
    texpr own = anfi_low_atom(L, anfi_ix_addc(L, row, (int64_t)i)),
          nth = anfi_ix_mulc(L, own, d->ld);
    texpr at = anfi_low_atom(L, anfi_ix_add(L, d->matrix0, anfi_ix_add(L, nth, l.var)));
    anfi_low_set(L, sum[i], fused(L, wide_elements(d, at, own, lanes), x, sum[i]));
  }
  anfi_low_loop_end(L, &l);
}

static void some_rows(const dots *d, texpr row, uint32_t n) {
  anfi_low *L = d->L;
  tdtype one = anfi_t_dt(d->q->elem), wide = one;
  texpr acc[ROWS] = {NULL}, rest[ROWS] = {NULL}, zero = anfi_low_const(L, one, 0);
  wide.lanes = LANES;
  for (uint32_t i = 0; i < n; i++) {
    texpr zeros = anfi_t_intrin(L->t, TI_broadcast, wide, 1, &zero, (tattrs){0});
    acc[i] = anfi_low_var(L, wide, "acc", zeros);
    rest[i] = anfi_low_var(L, one, "rest", zero);
  }
  uint64_t whole = d->q->k / LANES * LANES;
  add_steps(d, row, n, 0, whole, LANES, acc);
  add_steps(d, row, n, whole, d->q->k, 1, rest);
  for (uint32_t i = 0; i < n; i++) {
    texpr v = acc[i], at = anfi_low_atom(L, anfi_ix_addc(L, row, (int64_t)i)), none = anfi_ix(L, 0);
    for (uint32_t h = LANES / 2; h >= 1; h /= 2)
      v = anfi_low_let(L, anfi_t_add(L->t, anfi_low_half(L, v, 0), anfi_low_half(L, v, h)), "h");
    v = anfi_low_let(L, anfi_t_add(L->t, v, rest[i]), "h");
    anfi_low_gemm_epilogue(L, d->q, d->left ? at : none, d->left ? none : at, v);
  }
}

/* Rows `from` to `end` of which both are constants times the same, some at once and then one by one. */
static void all_rows(const dots *d, texpr first, uint64_t n) {
  anfi_low *L = d->L;
  anfi_loop l;
  uint64_t whole = n / d->step * d->step;
  if (whole) {
    anfi_low_loop_range(L, &l, anfi_ix(L, 0), anfi_ix(L, whole), d->step, "i");
    some_rows(d, anfi_low_atom(L, anfi_ix_add(L, first, l.var)), d->step);
    anfi_low_loop_end(L, &l);
  }
  if (n > whole)
    some_rows(d, anfi_low_atom(L, anfi_ix_addc(L, first, (int64_t)whole)), (uint32_t)(n - whole));
}

static dots dots_of(anfi_low *L, const anfi_mm *q) {
  bool left = along_a(q), large = !q->weights && q->m * q->n >= LARGE / q->k;
  return (dots){L,
                q,
                left,
                left ? q->a : q->b,
                left ? q->a0 : q->b0,
                left ? q->b : q->a,
                left ? q->b0 : q->a0,
                left ? q->m : q->n,
                left ? q->lda : q->ldb,
                large ? 1 : ROWS};
}

static uint64_t slice_of(const anfi_mm *q) { return anfi_mm_split_k(q->m, q->n, q->k); }

/* k steps of K; their sums are those of slice `nth`. */
static void one_slice(anfi_low *L, const anfi_mm *q, texpr sums, texpr nth, uint64_t k) {
  anfi_mm x = *q;
  texpr from = anfi_ix_mulc(L, nth, slice_of(q));
  x.a0 = anfi_low_atom(L, anfi_ix_add(L, q->a0, from));
  x.b0 = anfi_low_atom(L, anfi_ix_add(L, q->b0, from));
  x.k = k;
  x.bias = x.rhs = NULL, x.store_element = NULL, x.relu = false;
  x.c = sums, x.ldc = q->n;
  x.c0 = anfi_low_atom(L, anfi_ix_mulc(L, nth, q->m * q->n));
  dots d = dots_of(L, &x);
  all_rows(&d, anfi_ix(L, 0), d.rows);
}

static void by_slices(anfi_low *L, const anfi_mm *q, bool parallel) {
  uint64_t slice = slice_of(q), n = anfi_mm_up(q->k, slice);
  anfi_loop l;
  anfi_low_open(L); // the sums end with it
  texpr sums = anfi_low_local(L, q->elem, n * q->m * q->n, "sums");
  anfi_low_loop(L, &l, n, "task");
  l.parallel = parallel;
  anfi_sizes k = {.full = slice, .last = q->k - (n - 1) * slice};
  while (anfi_low_each_size(L, &k, l.var, n)) one_slice(L, q, sums, l.var, k.size);
  anfi_low_loop_end(L, &l);
  anfi_low_add_split_k(L, q, sums);
  anfi_low_add(L, anfi_low_close(L));
}

void anfi_low_matvec(anfi_low *L, const anfi_mm *q) {
  if ((q->weights && !q->tb) || anfi_low_is_few_rows(q)) {
    anfi_low_weights(L, q);
    return;
  }
  dots d = dots_of(L, q);
  bool parallel = L->o.parallel && !L->in_parallel && !q->serial && d.rows * q->k >= PARALLEL_MACS,
       many = d.rows >= 2 * TASK_ROWS;
  if (slice_of(q) < q->k) {
    by_slices(L, q, parallel);
    return;
  }
  uint64_t tasks = parallel && many ? d.rows / TASK_ROWS : 0;
  anfi_loop l;
  if (tasks) {
    anfi_low_loop(L, &l, tasks, "task");
    l.parallel = !l.none;
    all_rows(&d, anfi_low_atom(L, anfi_ix_mulc(L, l.var, TASK_ROWS)), TASK_ROWS);
    anfi_low_loop_end(L, &l);
  }
  if (d.rows > tasks * TASK_ROWS)
    all_rows(&d, anfi_ix(L, tasks * TASK_ROWS), d.rows - tasks * TASK_ROWS);
}
