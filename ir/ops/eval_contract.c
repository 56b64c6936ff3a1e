// SPDX-License-Identifier: Apache-2.0
/* Matrix products and Einsum. Reals are multiplied and summed in double, in ascending order of the
 * summed index, and rounded once to the result's type; integers wrap; bools are or-ed. */
#include "ir/ops/op.h"

/* One term of a row of the result. */
static void add_row_real(size_t n, double x, const double *restrict b, double *restrict c) {
  for (size_t j = 0; j < n; j++) c[j] += x * b[j];
}

/* c[m, n] += a[m, k] b[k, n], dense. */
static void gemm_real(size_t m, size_t n, size_t k, const double *a, const double *b, double *c) {
  for (size_t i = 0; i < m; i++, c += n)
    for (size_t p = 0; p < k; p++) add_row_real(n, a[i * k + p], b + p * n, c);
}

static void add_row_int(size_t n, uint64_t x, const uint64_t *restrict b, uint64_t *restrict c) {
  for (size_t j = 0; j < n; j++) c[j] += x * b[j];
}

static void gemm_int(size_t m, size_t n, size_t k, const uint64_t *a, const uint64_t *b,
                     uint64_t *c) {
  for (size_t i = 0; i < m; i++, c += n)
    for (size_t p = 0; p < k; p++) add_row_int(n, a[i * k + p], b + p * n, c);
}

static void mul_complex(const double *x, const double *y, double *sum) {
  sum[0] += x[0] * y[0] - x[1] * y[1];
  sum[1] += x[0] * y[1] + x[1] * y[0];
}

static void gemm_complex(size_t m, size_t n, size_t k, const double *a, const double *b,
                         double *c) {
  for (size_t i = 0; i < m; i++)
    for (size_t p = 0; p < k; p++)
      for (size_t j = 0; j < n; j++)
        mul_complex(a + 2 * (i * k + p), b + 2 * (p * n + j), c + 2 * (i * n + j));
}

static void gemm(anfi_wide w, size_t m, size_t n, size_t k, const void *a, const void *b, void *c) {
  switch (w) {
  case ANFI_WIDE_INT:
    gemm_int(m, n, k, (const uint64_t *)a, (const uint64_t *)b, (uint64_t *)c);
    break;
  case ANFI_WIDE_COMPLEX:
    gemm_complex(m, n, k, (const double *)a, (const double *)b, (double *)c);
    break;
  default: gemm_real(m, n, k, (const double *)a, (const double *)b, (double *)c); break;
  }
}

static size_t wide_bytes(anfi_wide w) { return w == ANFI_WIDE_COMPLEX ? 16 : 8; }

/* All matrices [rows, cols] of `from`, transposed. */
static void *transposed(anfi_arena *a, const void *from, size_t total, size_t rows, size_t cols,
                        size_t bytes) {
  char *to = (char *)anfi_alloc(a, total * bytes + 1);
  const char *s = (const char *)from;
  for (size_t at = 0, per = rows * cols; per && at < total; at += per)
    for (size_t i = 0; i < rows; i++)
      for (size_t j = 0; j < cols; j++)
        memcpy(to + (at + j * rows + i) * bytes, s + (at + i * cols + j) * bytes, bytes);
  return to;
}

/* An operand of MatMul as matrices. */
typedef struct {
  const anf_type *t;
  size_t rows, cols, nbatch; // after transposition
  const char *data;
} matrices;

static matrices matrices_of(anfi_eval *q, size_t i, bool transpose, anfi_wide w) {
  matrices m = {.t = q->in[i]->type};
  size_t r = m.t->n;
  m.rows = r > 1 ? (size_t)m.t->dims[r - 2] : i == 0 ? 1 : (size_t)m.t->dims[0];
  m.cols = r > 1 ? (size_t)m.t->dims[r - 1] : i == 0 ? (size_t)m.t->dims[0] : 1;
  m.nbatch = r > 2 ? r - 2 : 0;
  m.data = (const char *)anfi_load(q->scratch, q->in[i], w);
  if (!transpose) return m;
  m.data = (const char *)transposed(q->scratch, m.data, q->in[i]->n, m.rows, m.cols, wide_bytes(w));
  size_t rows = m.rows;
  m.rows = m.cols;
  m.cols = rows;
  return m;
}

/* Which matrix of m belongs to result batch number b of shape dims[n]. */
static size_t batch_at(const matrices *m, size_t b, size_t n, const int64_t *dims) {
  size_t at = 0, step = 1;
  for (size_t k = n; k-- > 0;) {
    size_t i = b % (size_t)dims[k];
    b /= (size_t)dims[k];
    if (k + m->nbatch < n) continue;
    size_t d = (size_t)m->t->dims[k + m->nbatch - n];
    at += (d == 1 ? 0 : i) * step;
    step *= d;
  }
  return at;
}

bool anfi_eval_matmul(anfi_eval *q) {
  anfi_wide w = anfi_wide_of((anf_dtype)q->type->dtype);
  matrices a = matrices_of(q, 0, anfi_attr_bool(q->attr[0]), w);
  matrices b = matrices_of(q, 1, anfi_attr_bool(q->attr[1]), w);
  size_t bytes = wide_bytes(w), per = a.rows * b.cols,
         nbatch = a.nbatch > b.nbatch ? a.nbatch : b.nbatch;
  char *c = ANFI_NEW_N(q->scratch, char, q->out->n *bytes + 1);
  for (size_t i = 0; per && i < q->out->n / per; i++)
    gemm(w, a.rows, b.cols, a.cols,
         a.data + batch_at(&a, i, nbatch, q->type->dims) * a.rows * a.cols * bytes,
         b.data + batch_at(&b, i, nbatch, q->type->dims) * b.rows * b.cols * bytes,
         c + i * per * bytes);
  anfi_store(q->out, c, w);
  return true;
}

/* The bias starts the sum. */
static void start_with(void *c, const void *bias, size_t rows, size_t row_bytes) {
  for (size_t i = 0; i < rows; i++) memcpy((char *)c + i * row_bytes, bias, row_bytes);
}

bool anfi_eval_linear(anfi_eval *q) {
  anfi_wide w = anfi_wide_of((anf_dtype)q->type->dtype);
  const anf_value *bias = anfi_eval_given(q, 2);
  size_t out = (size_t)q->in[1]->type->dims[0], in = (size_t)q->in[1]->type->dims[1];
  size_t rows = out ? q->out->n / out : 0, bytes = wide_bytes(w);
  const void *x = anfi_load(q->scratch, q->in[0], w);
  const void *wt =
      transposed(q->scratch, anfi_load(q->scratch, q->in[1], w), q->in[1]->n, out, in, bytes);
  char *c = ANFI_NEW_N(q->scratch, char, q->out->n *bytes + 1);
  if (bias) start_with(c, anfi_load(q->scratch, bias, w), rows, out * bytes);
  gemm(w, rows, out, in, x, wt, c);
  anfi_store(q->out, c, w);
  return true;
}

/* ---- einsum: for each index of the result, the sum over the other labels of the products ---- */

typedef struct {
  const anfi_einsum *plan;
  size_t n;
  void **data;                        // operands
  size_t (*step)[ANFI_EINSUM_LABELS]; // elements that a label's index moves operand i by
  size_t index[ANFI_EINSUM_LABELS];
} summing;

static void set_steps(summing *s, size_t i, const anf_type *t) {
  size_t step = 1;
  for (size_t k = t->n; k-- > 0;) {
    size_t d = (size_t)t->dims[k];
    if (d != 1) s->step[i][s->plan->label[i].at[k]] += step; // twice on one label: the diagonal
    step *= d;
  }
}

static size_t offset(const summing *s, size_t i) {
  size_t at = 0;
  for (uint32_t l = 0; l < s->plan->nlabel; l++) at += s->index[l] * s->step[i][l];
  return at;
}

static void add_term(const summing *s, anfi_wide w, void *sum) {
  if (w == ANFI_WIDE_INT) {
    uint64_t p = 1;
    for (size_t i = 0; i < s->n; i++) p *= ((const uint64_t *)s->data[i])[offset(s, i)];
    *(uint64_t *)sum += p;
  } else if (w == ANFI_WIDE_REAL) {
    double p = ((const double *)s->data[0])[offset(s, 0)];
    for (size_t i = 1; i < s->n; i++) p *= ((const double *)s->data[i])[offset(s, i)];
    *(double *)sum += p;
  } else {
    double p[2] = {1.0, 0.0};
    for (size_t i = 0; i < s->n; i++) {
      double next[2] = {0.0, 0.0};
      mul_complex(p, (const double *)s->data[i] + 2 * offset(s, i), next);
      memcpy(p, next, sizeof p);
    }
    ((double *)sum)[0] += p[0];
    ((double *)sum)[1] += p[1];
  }
}

/* The next index of labels [from, to), the last fastest; false after the last one. */
static bool advance(summing *s, uint32_t from, uint32_t to) {
  for (uint32_t l = to; l-- > from;) {
    if (++s->index[l] < (size_t)s->plan->dim[l]) return true;
    s->index[l] = 0;
  }
  return false;
}

bool anfi_eval_einsum(anfi_eval *q) {
  anfi_wide w = anfi_wide_of((anf_dtype)q->type->dtype);
  anfi_einsum plan;
  const anf_type **types = ANFI_NEW_N(q->scratch, const anf_type *, q->n);
  for (size_t i = 0; i < q->n; i++) types[i] = q->in[i]->type;
  if (!anfi_einsum_plan(q->cx, q->loc, q->attr[0], q->n, types, &plan)) return false;
  summing s = {.plan = &plan, .n = q->n, .data = ANFI_NEW_N(q->scratch, void *, q->n)};
  s.step = (size_t(*)[ANFI_EINSUM_LABELS])anfi_zalloc(q->scratch,
                                                      anfi_size_mul(q->cx, q->n, sizeof *s.step));
  for (size_t i = 0; i < q->n; i++) {
    s.data[i] = anfi_load(q->scratch, q->in[i], w);
    set_steps(&s, i, types[i]);
  }
  size_t terms = 1;
  for (uint32_t l = plan.nout; l < plan.nlabel; l++) terms *= plan.dim[l] > 0;
  char *c = ANFI_NEW_N(q->scratch, char, q->out->n *wide_bytes(w) + 1);
  for (size_t o = 0; terms && o < q->out->n; o++, advance(&s, 0, plan.nout)) do
      add_term(&s, w, c + o * wide_bytes(w));
    while (advance(&s, plan.nout, plan.nlabel));
  anfi_store(q->out, c, w);
  return true;
}
