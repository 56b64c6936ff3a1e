// SPDX-License-Identifier: Apache-2.0
/* MatMul and Linear.
 *
 *     [.., m, k] x [.., k, n]  ->  [.., m, n]       leading dims broadcast; a vector has no m or no n
 *
 * Reals are multiplied and summed in double, in ascending order of k, and rounded once to the result's
 * type; integers wrap; bools are or-ed. */
#include "ir/ops/kernel.h"

/* ---- inference ---- */

bool anfi_infer_matmul(anfi_infer *q) {
  anf_dtype d;
  if (!anfi_infer_promoted(q, &d)) return false;
  const anf_type *a = q->in[0], *b = q->in[1];
  bool ta = anfi_attr_bool(q->attr[0]), tb = anfi_attr_bool(q->attr[1]);
  if (!a->n || !b->n) return anfi_infer_fail(q, "a scalar has no matrix product; use *");
  if ((ta && a->n < 2) || (tb && b->n < 2))
    return anfi_infer_fail(q, "a vector cannot be transposed");
  int64_t ka = a->dims[ta ? a->n - 2 : a->n - 1],
          kb = b->dims[b->n < 2 || tb ? b->n - 1 : b->n - 2];
  if (!anfi_infer_agree(ka, kb)) return anfi_infer_mismatch(q, a, b);
  size_t na = a->n > 2 ? a->n - 2 : 0, nb = b->n > 2 ? b->n - 2 : 0, n = na > nb ? na : nb;
  int64_t dims[ANF_MAX_RANK];
  for (size_t i = 0; i < n; i++) {
    int64_t x = i + na >= n ? a->dims[i + na - n] : 1, y = i + nb >= n ? b->dims[i + nb - n] : 1;
    if (!anfi_infer_dim(x, y, &dims[i])) return anfi_infer_mismatch(q, a, b);
  }
  if (a->n > 1) dims[n++] = a->dims[ta ? a->n - 1 : a->n - 2];
  if (b->n > 1) dims[n++] = b->dims[tb ? b->n - 2 : b->n - 1];
  return anfi_infer_is(q, anfi_type_tensor(q->cx, d, n, dims));
}

bool anfi_infer_linear(anfi_infer *q) {
  const anf_type *x = q->in[0], *w = q->in[1];
  if (!anfi_is_tensor(x) || !anfi_is_tensor(w)) return anfi_infer_tensors(q);
  bool biased = anfi_infer_given(q, 2);
  anf_dtype d = (anf_dtype)x->dtype;
  for (size_t i = 1; i < (biased ? 3u : 2u); i++) {
    if (!anfi_is_tensor(q->in[i])) return anfi_infer_tensors(q);
    if (!anfi_dtype_promote(d, (anf_dtype)q->in[i]->dtype, &d))
      return anfi_infer_fail(q, "random keys take no part in arithmetic");
  }
  anfi_infer_meet(q, 0, biased ? 3 : 2, d);
  if (x->n < 1 || w->n != 2)
    return anfi_infer_fail(q, "x must be of rank 1 or more and w a matrix [out, in]");
  if (!anfi_infer_agree(x->dims[x->n - 1], w->dims[1])) return anfi_infer_mismatch(q, x, w);
  if (biased && (q->in[2]->n != 1 || !anfi_infer_agree(q->in[2]->dims[0], w->dims[0])))
    return anfi_infer_mismatch(q, w, q->in[2]);
  int64_t dims[ANF_MAX_RANK];
  memcpy(dims, x->dims, (x->n - 1) * sizeof *dims);
  dims[x->n - 1] = w->dims[0];
  return anfi_infer_is(q, anfi_type_tensor(q->cx, d, x->n, dims));
}

/* ---- evaluation ---- */

/* One term of a row of the result. */
static void add_row_real(size_t n, double x, const double *restrict b, double *restrict c) {
  for (size_t j = 0; j < n; j++) c[j] += x * b[j];
}

/* c[m, n] += a[m, k] b[k, n], dense. */
static void gemm_real(size_t m, size_t n, size_t k, const double *a, const double *b, double *c) {
  for (size_t i = 0; i < m; i++, c += n)
    for (size_t p = 0; p < k; p++) add_row_real(n, a[i * k + p], b + p * n, c);
}

/* The same of floats where they lie: a weight is read, not copied. */
static void add_row_float(size_t n, double x, const float *restrict b, double *restrict c) {
  for (size_t j = 0; j < n; j++) c[j] += x * (double)b[j];
}

static void gemm_float(size_t m, size_t n, size_t k, const double *a, const float *b, double *c) {
  for (size_t i = 0; i < m; i++, c += n)
    for (size_t p = 0; p < k; p++) add_row_float(n, a[i * k + p], b + p * n, c);
}

/* The same of b[n, k], for few rows of a: MANY sums beside each other, the terms of each in the same order. */
enum { MANY = 8, FEW_ROWS = 4 };

static void add_columns_float(size_t many, size_t k, const double *a, const float *b, double *c) {
  for (size_t j = 0; j < many; j++)
    for (size_t p = 0; p < k; p++) c[j] += a[p] * (double)b[j * k + p];
}

static void add_many_columns_float(size_t k, const double *a, const float *b, double *c) {
  double sum[MANY];
  memcpy(sum, c, sizeof sum);
  for (size_t p = 0; p < k; p++)
    for (size_t j = 0; j < MANY; j++) sum[j] += a[p] * (double)b[j * k + p];
  memcpy(c, sum, sizeof sum);
}

static void gemm_float_transposed(size_t m, size_t n, size_t k, const double *a, const float *b,
                                  double *c) {
  for (size_t i = 0; i < m; i++, a += k, c += n) {
    size_t j = 0;
    for (; j + MANY <= n; j += MANY) add_many_columns_float(k, a, b + j * k, c + j);
    add_columns_float(n - j, k, a, b + j * k, c + j);
  }
}

static void add_row_int(size_t n, uint64_t x, const uint64_t *restrict b, uint64_t *restrict c) {
  for (size_t j = 0; j < n; j++) c[j] += x * b[j];
}

static void gemm_int(size_t m, size_t n, size_t k, const uint64_t *a, const uint64_t *b,
                     uint64_t *c) {
  for (size_t i = 0; i < m; i++, c += n)
    for (size_t p = 0; p < k; p++) add_row_int(n, a[i * k + p], b + p * n, c);
}

static void gemm_complex(size_t m, size_t n, size_t k, const double *a, const double *b,
                         double *c) {
  for (size_t i = 0; i < m; i++)
    for (size_t p = 0; p < k; p++)
      for (size_t j = 0; j < n; j++)
        anfi_add_complex_product(a + 2 * (i * k + p), b + 2 * (p * n + j), c + 2 * (i * n + j));
}

/* How the right factor lies: as the others do, or as floats that were not copied. */
typedef enum { WIDE, FLOATS, FLOATS_TRANSPOSED } form;

static void gemm(anfi_wide w, form f, size_t m, size_t n, size_t k, const void *a, const void *b,
                 void *c) {
  if (f == FLOATS) {
    gemm_float(m, n, k, (const double *)a, (const float *)b, (double *)c);
    return;
  }
  if (f == FLOATS_TRANSPOSED) {
    gemm_float_transposed(m, n, k, (const double *)a, (const float *)b, (double *)c);
    return;
  }
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
  form form;
  size_t bytes; // of an element
} matrices;

/* `left`: rows of the left factor, of the right one. */
static form form_of(const anf_value *right, bool transpose, anfi_wide w, size_t left) {
  if (w != ANFI_WIDE_REAL || right->type->dtype != ANF_F32) return WIDE;
  return !transpose ? FLOATS : left <= FEW_ROWS ? FLOATS_TRANSPOSED : WIDE;
}

static matrices matrices_of(anfi_eval *q, size_t i, bool transpose, anfi_wide w, size_t left) {
  matrices m = {.t = q->in[i]->type, .bytes = anfi_wide_bytes(w)};
  size_t r = m.t->n;
  m.rows = r > 1 ? (size_t)m.t->dims[r - 2] : i == 0 ? 1 : (size_t)m.t->dims[0];
  m.cols = r > 1 ? (size_t)m.t->dims[r - 1] : i == 0 ? (size_t)m.t->dims[0] : 1;
  m.nbatch = r > 2 ? r - 2 : 0;
  if (i) m.form = form_of(q->in[i], transpose, w, left);
  if (m.form) m.bytes = sizeof(float), m.data = (const char *)q->in[i]->data;
  else m.data = (const char *)anfi_load(q->scratch, q->in[i], w);
  if (!transpose) return m;
  if (!m.form) m.data = transposed(q->scratch, m.data, q->in[i]->n, m.rows, m.cols, m.bytes);
  size_t rows = m.rows;
  m.rows = m.cols;
  m.cols = rows;
  return m;
}

/* The matrix of m for result batch number b of shape dims[n]. */
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
  matrices a = matrices_of(q, 0, anfi_attr_bool(q->attr[0]), w, 0);
  matrices b = matrices_of(q, 1, anfi_attr_bool(q->attr[1]), w, a.rows);
  size_t per = a.rows * b.cols, nbatch = a.nbatch > b.nbatch ? a.nbatch : b.nbatch;
  char *c = ANFI_NEW_N(q->scratch, char, q->out->n *a.bytes + 1);
  for (size_t i = 0; per && i < q->out->n / per; i++)
    gemm(w, b.form, a.rows, b.cols, a.cols,
         a.data + batch_at(&a, i, nbatch, q->type->dims) * a.rows * a.cols * a.bytes,
         b.data + batch_at(&b, i, nbatch, q->type->dims) * b.rows * b.cols * b.bytes,
         c + i * per * a.bytes);
  return anfi_store(q->out, c, w);
}

/* The bias starts the sum. */
static void start_with(void *c, const void *bias, size_t rows, size_t row_bytes) {
  for (size_t i = 0; i < rows; i++) memcpy((char *)c + i * row_bytes, bias, row_bytes);
}

bool anfi_eval_linear(anfi_eval *q) {
  anfi_wide w = anfi_wide_of((anf_dtype)q->type->dtype);
  const anf_value *bias = anfi_eval_given(q, 2);
  size_t out = (size_t)q->in[1]->type->dims[0], in = (size_t)q->in[1]->type->dims[1];
  size_t rows = out ? q->out->n / out : 0, bytes = anfi_wide_bytes(w);
  const void *x = anfi_load(q->scratch, q->in[0], w);
  form f = form_of(q->in[1], true, w, rows);
  const void *wt = q->in[1]->data;
  if (!f)
    wt = transposed(q->scratch, anfi_load(q->scratch, q->in[1], w), q->in[1]->n, out, in, bytes);
  char *c = ANFI_NEW_N(q->scratch, char, q->out->n *bytes + 1);
  if (bias) start_with(c, anfi_load(q->scratch, bias, w), rows, out * bytes);
  gemm(w, f, rows, out, in, x, wt, c);
  return anfi_store(q->out, c, w);
}
