// SPDX-License-Identifier: Apache-2.0
/* LU with row pivots and QR by reflections of a[m, n], in double, as LAPACK's getrf and geqrf give them; the interpreter and compiled
 * code call the same functions.
 *   LU of [[1, 2], [4, 4]]   ->   [[4, 4], [1/4, 1]],  pivots 1, 1,  rows 1, 0
 *   QR of [[3], [4]]         ->   [[-5], [1/2]],  tau 8/5:  (I - tau v v') a = [-5, 0] with v = [1, 1/2] */
#include "base/base.h"

#include <math.h>

static void swap(double *x, double *y) {
  double t = *x;
  *x = *y;
  *y = t;
}

static size_t pivot_of(size_t m, size_t n, const double *a, size_t column) {
  size_t best = column;
  for (size_t i = column + 1; i < m; i++)
    if (fabs(a[i * n + column]) > fabs(a[best * n + column])) best = i;
  return best;
}

/* y -= f x */
static void take_row(size_t n, double f, const double *x, double *y) {
  for (size_t k = 0; k < n; k++) y[k] -= f * x[k];
}

/* A column without pivot is zero below the diagonal, and stays so. */
void anfi_lu(size_t m, size_t n, const double *a, double *lu, double *pivots, double *rows) {
  size_t k = m < n ? m : n;
  for (size_t i = 0; i < m * n; i++) lu[i] = a[i];
  for (size_t i = 0; i < m; i++) rows[i] = (double)i;
  for (size_t c = 0; c < k; c++) {
    size_t p = pivot_of(m, n, lu, c);
    const double *top = lu + c * n;
    pivots[c] = (double)p;
    for (size_t j = 0; p != c && j < n; j++) swap(lu + c * n + j, lu + p * n + j);
    swap(rows + c, rows + p);
    for (size_t i = c + 1; i < m; i++) {
      double *row = lu + i * n, f = row[c] == 0.0 ? 0.0 : row[c] / top[c];
      row[c] = f;
      if (f != 0.0) take_row(n - c - 1, f, top + c + 1, row + c + 1);
    }
  }
}

/* Makes of the column x, whose elements are n apart, the value that its reflection leaves and the vector below it, whose first
 * element is 1; gives tau, 0 if x is zero below its first element. */
static double reflector(size_t m, size_t n, double *x) {
  double most = 0.0, square = 0.0, below = 0.0;
  for (size_t i = 0; i < m; i++) {
    double size = fabs(x[i * n]);
    if (!(size <= most)) most = size; // or NaN
    if (i > 0 && size != 0.0) below = 1.0;
  }
  if (below == 0.0) return 0.0;
  for (size_t i = 0; i < m; i++) square += (x[i * n] / most) * (x[i * n] / most);
  double first = x[0] / most, size = first < 0.0 ? sqrt(square) : -sqrt(square);
  for (size_t i = 1; i < m; i++) x[i * n] = x[i * n] / most / (first - size);
  x[0] = size * most;
  return (size - first) / size;
}

void anfi_householder(size_t m, size_t n, const double *a, double *h, double *tau, double *work) {
  size_t k = m < n ? m : n;
  for (size_t i = 0; i < m * n; i++) h[i] = a[i];
  for (size_t c = 0; c < k; c++) {
    size_t rest = n - c - 1;
    double *top = h + c * n + c + 1;
    tau[c] = reflector(m - c, n, h + c * n + c);
    if (tau[c] == 0.0) continue;
    for (size_t j = 0; j < rest; j++) work[j] = top[j]; // work = v' a of the columns after c
    for (size_t i = c + 1; i < m; i++) take_row(rest, -h[i * n + c], h + i * n + c + 1, work);
    take_row(rest, tau[c], work, top);
    for (size_t i = c + 1; i < m; i++)
      take_row(rest, tau[c] * h[i * n + c], work, h + i * n + c + 1);
  }
}
