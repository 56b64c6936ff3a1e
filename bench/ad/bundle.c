// SPDX-License-Identifier: Apache-2.0
/* The Jacobian of bundle adjustment by hand, as tools/gradbench/ba.anf has it: rows of observations in CSR. */
#include <math.h>
#include <stdint.h>

static double dot(const double *a, const double *b) {
  return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static void cross(const double *a, const double *b, double *y) {
  y[0] = a[1] * b[2] - a[2] * b[1];
  y[1] = a[2] * b[0] - a[0] * b[2];
  y[2] = a[0] * b[1] - a[1] * b[0];
}

/* Adjoints of the rotation r and of the point X that it turns, of g, that of the result */
static void turn_back(const double *r, const double *X, const double *y, double c, double s,
                      double t, const double *g, double *dr, double *dX) {
  double square = dot(r, r), d = dot(r, X), along = dot(r, g), Xg[3], gr[3];
  double more = -s * dot(X, g) + (c - s) / square * dot(y, g) + (s - 2.0 * t) / square * d * along;
  cross(X, g, Xg);
  cross(g, r, gr);
  for (int k = 0; k < 3; k++) {
    dr[k] = s * Xg[k] + t * d * g[k] + t * along * X[k] + r[k] * more;
    dX[k] = c * g[k] + s * gr[k] + t * along * r[k];
  }
}

/* Two rows of cam (11), x (3) and the weight */
static void observation(const double *cam, const double *x, double w, const double *feat,
                        double *row) {
  double X[3], y[3], Y[3], f = cam[6];
  for (int k = 0; k < 3; k++) X[k] = x[k] - cam[3 + k];
  double square = dot(cam, cam), a = sqrt(square), c = cos(a), s = sin(a) / a;
  double t = (1.0 - c) / square, d = dot(cam, X);
  cross(cam, X, y);
  for (int k = 0; k < 3; k++) Y[k] = X[k] * c + y[k] * s + cam[k] * t * d;
  double u[2] = {Y[0] / Y[2], Y[1] / Y[2]}, q = u[0] * u[0] + u[1] * u[1];
  double l = 1.0 + cam[9] * q + cam[10] * q * q, slope = 2.0 * (cam[9] + 2.0 * cam[10] * q);
  for (int e = 0; e < 2; e++, row += 15) {
    double du = w * f * (u[e] * slope * u[0] + (e == 0 ? l : 0.0));
    double dv = w * f * (u[e] * slope * u[1] + (e == 1 ? l : 0.0)), dX[3];
    double g[3] = {du / Y[2], dv / Y[2], -(du * u[0] + dv * u[1]) / Y[2]};
    turn_back(cam, X, y, c, s, t, g, row, dX);
    for (int k = 0; k < 3; k++) row[3 + k] = -dX[k], row[11 + k] = dX[k];
    row[6] = w * u[e] * l;
    row[7] = e == 0 ? w : 0.0;
    row[8] = e == 1 ? w : 0.0;
    row[9] = w * f * u[e] * q;
    row[10] = w * f * u[e] * q * q;
    row[14] = u[e] * l * f + cam[7 + e] - feat[e];
  }
}

static void places(int64_t cam, int64_t x, int64_t w, int64_t *col) {
  for (int64_t k = 0; k < 30; k++)
    col[k] = k % 15 < 11 ? cam + k % 15 : k % 15 < 14 ? x + k % 15 - 11 : w;
}

void jacobian(const int64_t *size, const double *cams, const double *points, const double *weights,
              const int64_t *camera, const int64_t *point, const double *feats, int64_t *rows,
              int64_t *cols, double *vals) {
  int64_t n = size[0], m = size[1], p = size[2];
  for (int64_t i = 0; i < p; i++) {
    observation(cams + 11 * camera[i], points + 3 * point[i], weights[i], feats + 2 * i,
                vals + 30 * i);
    places(11 * camera[i], 11 * n + 3 * point[i], 11 * n + 3 * m + i, cols + 30 * i);
    vals[30 * p + i] = -2.0 * weights[i];
    cols[30 * p + i] = 11 * n + 3 * m + i;
    rows[2 * i] = 30 * i;
    rows[2 * i + 1] = 30 * i + 15;
    rows[2 * p + i] = 30 * p + i;
  }
  rows[3 * p] = 31 * p;
}
