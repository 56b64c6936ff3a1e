// SPDX-License-Identifier: Apache-2.0
// What loops.anf computes, and the gradients, by hand: what loops.py compares with. Each function has the arrays in the order of
// the program's parameters and all their sizes, integers last; it returns the objective and, unless g is null, writes the gradient
// by the arrays that loops.py names, one after the other.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef const double *const *arrays;
typedef const int64_t *sizes;

static double *zeros(double *g, int64_t n) {
  return g ? memset(g, 0, (size_t)n * sizeof *g) : NULL;
}

double differences(arrays in, sizes at, double *g) {
  const double *x = in[0];
  double s = 0.0;
  zeros(g, at[0]);
  for (int64_t i = 1; i < at[0]; i++) {
    double d = x[i] - x[i - 1];
    s += d * d;
    if (g) g[i] += 2.0 * d, g[i - 1] -= 2.0 * d;
  }
  return s;
}

double branch(arrays in, sizes at, double *g) {
  const double *x = in[0];
  double s = 0.0;
  zeros(g, at[0]);
  for (int64_t i = 1; i < at[0]; i++)
    if (x[i] > 0.5) {
      double d = x[i] - x[i - 1];
      s += d * d;
      if (g) g[i] += 2.0 * d, g[i - 1] -= 2.0 * d;
    }
  return s;
}

double nest(arrays in, sizes at, double *g) {
  const double *x = in[0];
  int64_t m = at[1];
  double s = 0.0;
  zeros(g, at[0] * m);
  for (int64_t i = m; i < at[0] * m; i++) {
    double d = x[i] - x[i - m];
    s += d * d;
    if (g) g[i] += 2.0 * d, g[i - m] -= 2.0 * d;
  }
  return s;
}

double fill(arrays in, sizes at, double *g) {
  const double *x = in[0];
  double s = 0.0;
  zeros(g, at[0]);
  for (int64_t i = 1; i < at[0]; i++) {
    double z = x[i] * x[i - 1];
    s += z * z;
    if (g) g[i] += 2.0 * z * x[i - 1], g[i - 1] += 2.0 * z * x[i];
  }
  return s;
}

double twice(arrays in, sizes at, double *g) {
  const double *x = in[0];
  double s = 0.0;
  zeros(g, at[0]);
  for (int64_t i = 1; i < at[0] - 2; i++) {
    double w = 0.0;
    for (int64_t j = i; j < i + 3; j++) {
      double d = x[j] - x[j - 1];
      w += d * d * x[j];
      if (!g) continue;
      g[j] += x[i] * (2.0 * d * x[j] + d * d);
      g[j - 1] -= x[i] * 2.0 * d * x[j];
    }
    s += w * x[i];
    if (g) g[i] += w;
  }
  return s;
}

double running(arrays in, sizes at, double *g) {
  const double *x = in[0];
  int64_t n = at[0];
  double *t = malloc((size_t)(n + 1) * sizeof *t), s = 0.0, b = 0.0;
  t[0] = 1.0;
  for (int64_t i = 0; i < n; i++) {
    t[i + 1] = t[i] + x[i] * t[i] * 1e-3;
    s += t[i + 1] * t[i + 1];
  }
  for (int64_t i = n; g && i-- > 0;) {
    b += 2.0 * t[i + 1];
    g[i] = b * t[i] * 1e-3;
    b += b * x[i] * 1e-3;
  }
  free(t);
  return s;
}

double append(arrays in, sizes at, double *g) { return running(in, at, g); }

double kmeans(arrays in, sizes at, double *g) {
  int64_t k = at[0], d = at[1], n = at[2];
  double s = 0.0;
  zeros(g, k * d);
  for (int64_t i = 0; i < n; i++) {
    const double *x = in[1] + i * d;
    double best = 1e300;
    int64_t own = 0;
    for (int64_t l = 0; l < k; l++) {
      double t = 0.0;
      for (int64_t j = 0; j < d; j++) {
        double e = x[j] - in[0][l * d + j];
        t += e * e;
      }
      if (t < best) best = t, own = l;
    }
    s += best;
    for (int64_t j = 0; g && j < d; j++) g[own * d + j] -= 2.0 * (x[j] - in[0][own * d + j]);
  }
  return s;
}

// The adjoint of one point: w has the shares of the components
static void mixture_point(arrays in, int64_t k, int64_t d, const double *x, const double *w,
                          const double *scale, double *g) {
  double *da = g, *dmu = g + k, *dq = dmu + k * d;
  for (int64_t l = 0; l < k; l++) {
    da[l] += w[l];
    for (int64_t j = 0; j < d; j++) {
      double e = (x[j] - in[1][l * d + j]) * scale[l * d + j];
      dmu[l * d + j] += w[l] * e * scale[l * d + j];
      dq[l * d + j] += w[l] * (1.0 - e * e);
    }
  }
}

double mixture(arrays in, sizes at, double *g) {
  int64_t k = at[0], d = at[2], n = at[5];
  double *w = malloc((size_t)k * sizeof *w), *scale = malloc((size_t)(k * d) * sizeof *scale),
         s = 0.0;
  zeros(g, k + 2 * k * d);
  for (int64_t i = 0; i < k * d; i++) scale[i] = exp(in[2][i]);
  for (int64_t i = 0; i < n; i++) {
    const double *x = in[3] + i * d;
    double most = -1e300, sum = 0.0;
    for (int64_t l = 0; l < k; l++) {
      double t = 0.0, u = 0.0;
      for (int64_t j = 0; j < d; j++) {
        double e = (x[j] - in[1][l * d + j]) * scale[l * d + j];
        t += e * e;
        u += in[2][l * d + j];
      }
      w[l] = in[0][l] + u - 0.5 * t;
      most = w[l] > most ? w[l] : most;
    }
    for (int64_t l = 0; l < k; l++) sum += w[l] = exp(w[l] - most);
    s += log(sum) + most;
    for (int64_t l = 0; l < k; l++) w[l] /= sum;
    if (g) mixture_point(in, k, d, x, w, scale, g);
  }
  free(w), free(scale);
  return s;
}

// k = slope(x, y + c * before)
static void slope(int64_t n, const double *x, const double *y, double c, const double *before,
                  double *k) {
  k[0] = x[0];
  for (int64_t i = 1; i < n; i++) k[i] = x[i] * (y[i - 1] + c * before[i - 1]);
}

// The adjoint b of k = slope(x, y + c * before): adds to those of x, y and before
static void slope_back(int64_t n, const double *x, const double *y, double c, const double *before,
                       const double *b, double *dx, double *dy, double *dbefore) {
  dx[0] += b[0];
  for (int64_t i = 1; i < n; i++) {
    dx[i] += b[i] * (y[i - 1] + c * before[i - 1]);
    dy[i - 1] += b[i] * x[i];
    dbefore[i - 1] += c * b[i] * x[i];
  }
}

static void stages(int64_t n, const double *x, const double *y, double h, double *k) {
  slope(n, x, y, 0.0, y, k);
  slope(n, x, y, h / 2.0, k, k + n);
  slope(n, x, y, h / 2.0, k + n, k + 2 * n);
  slope(n, x, y, h, k + 2 * n, k + 3 * n);
}

// A step backwards: the states are stored, the stages computed again
static void ode_back(int64_t n, const double *x, const double *y, double h, double *k, double *b,
                     double *dy, double *g) {
  stages(n, x, y, h, k);
  for (int64_t i = 0; i < n; i++) {
    b[i] = b[3 * n + i] = h / 6.0 * dy[i];
    b[n + i] = b[2 * n + i] = h / 3.0 * dy[i];
  }
  slope_back(n, x, y, h, k + 2 * n, b + 3 * n, g, dy, b + 2 * n);
  slope_back(n, x, y, h / 2.0, k + n, b + 2 * n, g, dy, b + n);
  slope_back(n, x, y, h / 2.0, k, b + n, g, dy, b);
  g[0] += b[0];
  for (int64_t i = 1; i < n; i++) {
    g[i] += b[i] * y[i - 1];
    dy[i - 1] += b[i] * x[i];
  }
}

double ode(arrays in, sizes at, double *g) {
  int64_t n = at[0], steps = at[1];
  double h = 2.0 / (double)steps, *y = calloc((size_t)(n * (steps + 1)), sizeof *y),
         *k = malloc((size_t)n * 4 * sizeof *k);
  for (int64_t s = 0; s < steps; s++) {
    const double *old = y + s * n;
    stages(n, in[0], old, h, k);
    for (int64_t i = 0; i < n; i++)
      y[(s + 1) * n + i] =
          old[i] + h * (k[i] + 2.0 * k[n + i] + 2.0 * k[2 * n + i] + k[3 * n + i]) / 6.0;
  }
  double end = y[steps * n + n - 1];
  if (zeros(g, n)) {
    double *dy = calloc((size_t)n, sizeof *dy), *b = malloc((size_t)n * 4 * sizeof *b);
    dy[n - 1] = 1.0;
    for (int64_t s = steps; s-- > 0;) ode_back(n, in[0], y + s * n, h, k, b, dy, g);
    free(dy), free(b);
  }
  free(y), free(k);
  return end;
}

// Minors: the determinant of the rows from `row` on, of the columns in the mask
static double minor(const double *a, int64_t n, int64_t row, uint64_t columns) {
  if (row == n) return 1.0;
  double s = 0.0, sign = 1.0;
  for (uint64_t left = columns; left; left &= left - 1, sign = -sign)
    s +=
        sign * a[row * n + __builtin_ctzll(left)] * minor(a, n, row + 1, columns & ~(left & -left));
  return s;
}

// The same, with the adjoint b of the result
static double minor_back(const double *a, int64_t n, int64_t row, uint64_t columns, double b,
                         double *g) {
  if (row == n) return 1.0;
  double s = 0.0, sign = 1.0;
  for (uint64_t left = columns; left; left &= left - 1, sign = -sign) {
    int64_t at = row * n + __builtin_ctzll(left);
    double m = minor_back(a, n, row + 1, columns & ~(left & -left), b * sign * a[at], g);
    s += sign * a[at] * m;
    g[at] += b * sign * m;
  }
  return s;
}

double det(arrays in, sizes at, double *g) {
  uint64_t all = (1ull << at[1]) - 1;
  return zeros(g, at[0]) ? minor_back(in[0], at[1], 0, all, 1.0, g) : minor(in[0], at[1], 0, all);
}
