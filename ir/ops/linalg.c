// SPDX-License-Identifier: Apache-2.0
/* Small linear algebra on the last two dims, in double and rounded once: elimination with row pivots, Cholesky,
 * triangular systems.
 *   Solve([[2, 0], [0, 4]], [2, 4])  =  [1, 1]
 * A singular matrix gives inf and NaN as the divisions by 0 do; one that is not positive definite has NaN for its
 * Cholesky factor. */
#include <math.h>

#include "ir/ops/kernel.h"

/* ---- result types ---- */

static bool square(const anfi_infer *q, size_t i) {
  const anf_type *t = q->in[i];
  if (t->n >= 2 && anfi_infer_agree(t->dims[t->n - 1], t->dims[t->n - 2])) return true;
  return anfi_infer_fail(q, "the last two dims must be a square matrix");
}

bool anfi_infer_square(anfi_infer *q) {
  anf_dtype d;
  if (!anfi_infer_real(q, 0, 1, &d) || !square(q, 0)) return false;
  return anfi_infer_is(q, anfi_type_with_dtype(q->cx, q->in[0], d));
}

bool anfi_infer_det(anfi_infer *q) {
  anf_dtype d;
  if (!anfi_infer_real(q, 0, 1, &d) || !square(q, 0)) return false;
  return anfi_infer_is(q, anfi_type_tensor(q->cx, d, q->in[0]->n - 2, q->in[0]->dims));
}

bool anfi_infer_solve(anfi_infer *q) { // a b
  anf_dtype d;
  if (!anfi_infer_real(q, 0, 2, &d) || !square(q, 0)) return false;
  const anf_type *a = q->in[0], *b = q->in[1];
  bool fits = b->n == a->n;
  for (uint32_t k = 0; fits && k + 1 < a->n; k++) fits = anfi_infer_agree(a->dims[k], b->dims[k]);
  if (!fits) return anfi_infer_mismatch(q, a, b);
  return anfi_infer_is(q, anfi_type_with_dtype(q->cx, b, d));
}

static const anf_type *matrix_like(const anfi_infer *q, anf_dtype d, int64_t rows,
                                   int64_t columns) {
  int64_t dims[ANF_MAX_RANK];
  uint32_t n = q->in[0]->n;
  for (uint32_t k = 0; k + 2 < n; k++) dims[k] = q->in[0]->dims[k];
  dims[n - 2] = rows, dims[n - 1] = columns;
  return anfi_type_tensor(q->cx, d, n, dims);
}

static const anf_type *vector_like(const anfi_infer *q, anf_dtype d, int64_t size) {
  int64_t dims[ANF_MAX_RANK];
  uint32_t n = q->in[0]->n;
  for (uint32_t k = 0; k + 2 < n; k++) dims[k] = q->in[0]->dims[k];
  dims[n - 2] = size;
  return anfi_type_tensor(q->cx, d, n - 1, dims);
}

bool anfi_infer_eigh(anfi_infer *q) {
  anf_dtype d;
  if (!anfi_infer_real(q, 0, 1, &d) || !square(q, 0)) return false;
  const anf_type *a = q->in[0];
  int64_t n = a->dims[a->n - 1] >= 0 ? a->dims[a->n - 1] : a->dims[a->n - 2];
  const anf_type *items[2] = {vector_like(q, d, n), matrix_like(q, d, n, n)};
  return anfi_infer_is(q, anfi_type_tuple(q->cx, 2, items));
}

static bool matrix(const anfi_infer *q, int64_t *m, int64_t *n, int64_t *k) {
  const anf_type *a = q->in[0];
  *m = *n = *k = 0;
  if (a->n < 2) return anfi_infer_fail(q, "the last two dims must be a matrix");
  *m = a->dims[a->n - 2], *n = a->dims[a->n - 1], *k = *m < *n ? *m : *n; // unknown if one is
  return true;
}

bool anfi_infer_svd(anfi_infer *q) {
  anf_dtype d;
  int64_t m, n, k;
  if (!anfi_infer_real(q, 0, 1, &d) || !matrix(q, &m, &n, &k)) return false;
  const anf_type *items[3] = {matrix_like(q, d, m, k), vector_like(q, d, k),
                              matrix_like(q, d, k, n)};
  return anfi_infer_is(q, anfi_type_tuple(q->cx, 3, items));
}

bool anfi_infer_lu(anfi_infer *q) {
  anf_dtype d;
  int64_t m, n, k;
  if (!anfi_infer_real(q, 0, 1, &d) || !matrix(q, &m, &n, &k)) return false;
  const anf_type *items[3] = {matrix_like(q, d, m, n), vector_like(q, ANF_I32, k),
                              vector_like(q, ANF_I32, m)};
  return anfi_infer_is(q, anfi_type_tuple(q->cx, 3, items));
}

bool anfi_infer_householder(anfi_infer *q) {
  anf_dtype d;
  int64_t m, n, k;
  if (!anfi_infer_real(q, 0, 1, &d) || !matrix(q, &m, &n, &k)) return false;
  const anf_type *items[2] = {matrix_like(q, d, m, n), vector_like(q, d, k)};
  return anfi_infer_is(q, anfi_type_tuple(q->cx, 2, items));
}

/* ---- elimination ---- */

static void swap_rows(double *x, size_t width, size_t i, size_t j) {
  for (size_t k = 0; i != j && k < width; k++) {
    double t = x[i * width + k];
    x[i * width + k] = x[j * width + k];
    x[j * width + k] = t;
  }
}

static size_t pivot_of(const double *a, size_t n, size_t col) {
  size_t best = col;
  for (size_t i = col + 1; i < n; i++)
    if (fabs(a[i * n + col]) > fabs(a[best * n + col])) best = i;
  return best;
}

/* Brings a to upper triangular form, b along with it; gives the determinant. */
static double eliminate(double *a, size_t n, double *b, size_t width) {
  double det = 1.0;
  for (size_t c = 0; c < n; c++) {
    size_t p = pivot_of(a, n, c);
    swap_rows(a, n, p, c);
    swap_rows(b, width, p, c);
    det *= p == c ? a[c * n + c] : -a[c * n + c];
    for (size_t i = c + 1; i < n; i++) {
      double f = a[i * n + c] == 0.0 ? 0.0 : a[i * n + c] / a[c * n + c];
      for (size_t k = c; k < n; k++) a[i * n + k] -= f * a[c * n + k];
      for (size_t k = 0; k < width; k++) b[i * width + k] -= f * b[c * width + k];
    }
  }
  return det;
}

/* Element (i, j) of a, or of its transpose. */
static double at(const double *a, size_t n, size_t i, size_t j, bool transpose) {
  return transpose ? a[j * n + i] : a[i * n + j];
}

/* b becomes the solution x of a x = b, where only a triangle of a is read. */
static void substitute(const double *a, size_t n, double *b, size_t width, bool lower,
                       bool transpose, bool unit) {
  for (size_t s = 0; s < n; s++) {
    size_t i = lower ? s : n - 1 - s;
    for (size_t k = 0; k < width; k++) {
      double x = b[i * width + k];
      for (size_t j = lower ? 0 : i + 1; j < (lower ? i : n); j++)
        x -= at(a, n, i, j, transpose) * b[j * width + k];
      b[i * width + k] = unit ? x : x / at(a, n, i, i, transpose);
    }
  }
}

static size_t order_of(const anf_type *t) { return (size_t)t->dims[t->n - 1]; }

bool anfi_eval_det(anfi_eval *q) {
  size_t n = order_of(q->in[0]->type);
  double *a = anfi_load_f64(q->scratch, q->in[0]);
  for (size_t i = 0; i < q->out->n; i++)
    anfi_set_f64(q->out, i, eliminate(a + i * n * n, n, NULL, 0));
  return true;
}

static bool solve(anfi_eval *q, double *b, size_t width) {
  size_t n = order_of(q->in[0]->type);
  double *a = anfi_load_f64(q->scratch, q->in[0]);
  for (size_t i = 0; q->out->n && i < q->in[0]->n / (n * n); i++) {
    eliminate(a + i * n * n, n, b + i * n * width, width);
    substitute(a + i * n * n, n, b + i * n * width, width, false, false, false);
  }
  return anfi_store_f64(q->out, b);
}

bool anfi_eval_inverse(anfi_eval *q) {
  size_t n = order_of(q->type);
  double *b = ANFI_NEW_N(q->scratch, double, q->out->n + 1);
  for (size_t i = 0; i < q->out->n; i++) b[i] = i / n % n == i % n ? 1.0 : 0.0;
  return solve(q, b, n);
}

bool anfi_eval_solve(anfi_eval *q) {
  return solve(q, anfi_load_f64(q->scratch, q->in[1]), order_of(q->type));
}

bool anfi_eval_triangular_solve(anfi_eval *q) { // lower transpose unit
  bool lower = anfi_attr_bool(q->attr[0]), transpose = anfi_attr_bool(q->attr[1]),
       unit = anfi_attr_bool(q->attr[2]);
  size_t n = order_of(q->in[0]->type), width = order_of(q->type);
  const double *a = anfi_load_f64(q->scratch, q->in[0]);
  double *b = anfi_load_f64(q->scratch, q->in[1]);
  for (size_t i = 0; q->out->n && i < q->in[0]->n / (n * n); i++)
    substitute(a + i * n * n, n, b + i * n * width, width, lower != transpose, transpose, unit);
  return anfi_store_f64(q->out, b);
}

/* The lower factor of the symmetric matrix whose lower half a holds; false if a pivot is not
 * positive. */
static bool factor(const double *a, double *l, size_t n) {
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j <= i; j++) {
      double x = a[i * n + j];
      for (size_t k = 0; k < j; k++) x -= l[i * n + k] * l[j * n + k];
      if (i == j && !(x > 0.0)) return false;
      l[i * n + j] = i == j ? sqrt(x) : x / l[j * n + j];
    }
  return true;
}

bool anfi_eval_cholesky(anfi_eval *q) {
  size_t n = order_of(q->type);
  const double *a = anfi_load_f64(q->scratch, q->in[0]);
  double *l = ANFI_NEW_N(q->scratch, double, q->out->n + 1);
  for (size_t i = 0; q->out->n && i < q->out->n / (n * n); i++)
    if (!factor(a + i * n * n, l + i * n * n, n))
      for (size_t k = 0; k < n * n; k++) l[i * n * n + k] = NAN;
  return anfi_store_f64(q->out, l);
}

/* ---- decompositions (base/eigen.c, base/factor.c) ---- */

static double *result(anfi_eval *q, size_t i) {
  q->out->u.item[i] = anfi_value_new_tensor(q->cx, q->type->items[i]);
  return ANFI_NEW_N(q->scratch, double, q->out->u.item[i]->n + 1);
}

bool anfi_eval_eigh(anfi_eval *q) {
  size_t n = order_of(q->in[0]->type);
  const double *a = anfi_load_f64(q->scratch, q->in[0]);
  q->out = anfi_value_new_tuple(q->cx, 2);
  double *w = result(q, 0), *v = result(q, 1),
         *work = ANFI_NEW_N(q->scratch, double, anfi_eigh_work(n));
  for (size_t i = 0; n && i < q->in[0]->n / (n * n); i++)
    anfi_eigh(n, a + i * n * n, w + i * n, v + i * n * n, work);
  return anfi_store_f64(q->out->u.item[0], w) && anfi_store_f64(q->out->u.item[1], v);
}

bool anfi_eval_svd(anfi_eval *q) {
  const anf_type *t = q->in[0]->type;
  size_t n = order_of(t), m = (size_t)t->dims[t->n - 2], k = m < n ? m : n;
  const double *a = anfi_load_f64(q->scratch, q->in[0]);
  q->out = anfi_value_new_tuple(q->cx, 3);
  double *u = result(q, 0), *s = result(q, 1), *vt = result(q, 2),
         *work = ANFI_NEW_N(q->scratch, double, anfi_svd_work(m, n));
  for (size_t i = 0; k && i < q->in[0]->n / (m * n); i++)
    anfi_svd(m, n, a + i * m * n, u + i * m * k, s + i * k, vt + i * k * n, work);
  return anfi_store_f64(q->out->u.item[0], u) && anfi_store_f64(q->out->u.item[1], s) &&
         anfi_store_f64(q->out->u.item[2], vt);
}

static size_t matrices_of(const anf_type *t) {
  size_t n = 1;
  for (uint32_t k = 0; k + 2 < t->n; k++) n *= (size_t)t->dims[k];
  return n;
}

bool anfi_eval_lu(anfi_eval *q) {
  const anf_type *t = q->in[0]->type;
  size_t n = order_of(t), m = (size_t)t->dims[t->n - 2], k = m < n ? m : n;
  const double *a = anfi_load_f64(q->scratch, q->in[0]);
  q->out = anfi_value_new_tuple(q->cx, 3);
  double *lu = result(q, 0), *pivots = result(q, 1), *rows = result(q, 2);
  for (size_t i = 0; i < matrices_of(t); i++)
    anfi_lu(m, n, a + i * m * n, lu + i * m * n, pivots + i * k, rows + i * m);
  return anfi_store_f64(q->out->u.item[0], lu) && anfi_store_f64(q->out->u.item[1], pivots) &&
         anfi_store_f64(q->out->u.item[2], rows);
}

bool anfi_eval_householder(anfi_eval *q) {
  const anf_type *t = q->in[0]->type;
  size_t n = order_of(t), m = (size_t)t->dims[t->n - 2], k = m < n ? m : n;
  const double *a = anfi_load_f64(q->scratch, q->in[0]);
  q->out = anfi_value_new_tuple(q->cx, 2);
  double *h = result(q, 0), *tau = result(q, 1), *work = ANFI_NEW_N(q->scratch, double, n + 1);
  for (size_t i = 0; i < matrices_of(t); i++)
    anfi_householder(m, n, a + i * m * n, h + i * m * n, tau + i * k, work);
  return anfi_store_f64(q->out->u.item[0], h) && anfi_store_f64(q->out->u.item[1], tau);
}
