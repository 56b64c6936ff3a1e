// SPDX-License-Identifier: Apache-2.0
/* Discrete Fourier transforms along an axis, in double and rounded once.
 *   Fft([1, 0, 0, 0])  =  [1, 1, 1, 1]
 * A length is taken apart by its prime factors, with results in order (Stockham); one with a large prime is a convolution whose length
 * is a power of two (Bluestein): j k = (j^2 + k^2 - (k - j)^2) / 2. The sign is that of the exponent -2 pi i j k / n; the transform
 * of the other sign is that of re and im exchanged. */
#include <math.h>

#include "ir/ops/kernel.h"

bool anfi_infer_fft(anfi_infer *q) { // axis inverse
  size_t axis;
  if (!anfi_infer_tensors(q)) return false;
  anf_dtype d = (anf_dtype)q->in[0]->dtype;
  if (d == ANF_KEY) return anfi_infer_bad_dtype(q, d);
  if (!anfi_infer_axis(q, q->attr[0], q->in[0]->n, &axis)) return false;
  bool narrow = d == ANF_F32 || d == ANF_F16 || d == ANF_BF16 || d == ANF_C64;
  return anfi_infer_is(q, anfi_type_with_dtype(q->cx, q->in[0], narrow ? ANF_C64 : ANF_C128));
}

/* Angles are reduced as integers to an eighth of a turn. */
void anfi_fourier_root(uint64_t n, uint64_t k, double out[2]) {
  k %= n;
  bool below = 2 * k > n; // the axis of real numbers
  if (below) k = n - k;
  uint64_t q = 4 * k; // in parts of a turn, of which there are 4 n
  bool left = q > n;
  if (left) q = 2 * n - q;
  bool steep = 2 * q > n;
  double angle = (double)(steep ? n - q : q) * (acos(-1.0) / 2) / (double)n;
  double c = cos(angle), s = sin(angle);
  out[0] = steep ? s : c;
  out[1] = steep ? c : s;
  if (left) out[0] = -out[0];
  if (!below) out[1] = -out[1];
}

size_t anfi_fourier_factors(uint64_t n, uint64_t out[64]) {
  size_t count = 0;
  while (n % 4 == 0) out[count++] = 4, n /= 4;
  for (uint64_t p = 2; n > 1 && p <= ANFI_FOURIER_PRIME; p++)
    while (n % p == 0) out[count++] = p, n /= p;
  return n > 1 ? 0 : count;
}

uint64_t anfi_fourier_length(uint64_t n) {
  uint64_t size = 1, factor[64];
  if (n <= 1 || anfi_fourier_factors(n, factor)) return n;
  while (size < 2 * n - 1) size *= 2;
  return size;
}

/* Pass: of length n = r m, s side by side, `step` the product of the factors before. */
static void pass(uint64_t n, uint64_t r, uint64_t step, const double *root, const double *x,
                 double *y) {
  uint64_t m = n / (r * step);
  for (uint64_t p = 0; p < m; p++)
    for (uint64_t u = 0; u < r; u++)
      for (uint64_t q = 0; q < step; q++) {
        double sum[2] = {0};
        for (uint64_t t = 0; t < r; t++)
          anfi_add_complex_product(x + 2 * (q + step * (p + t * m)),
                                   root + 2 * ((p * u * step + t * u * (m * step)) % n), sum);
        y[2 * (q + step * (r * p + u))] = sum[0];
        y[2 * (q + step * (r * p + u)) + 1] = sum[1];
      }
}

typedef struct plan { // for lines of length n
  uint64_t n, size;   // size: of the transforms that it is made of
  double *root, *chirp, *kernel, *x, *y;
} plan;

/* The transform of length `size` of p->x, in p->x. */
static void smooth(plan *p) {
  uint64_t factor[64], step = 1;
  size_t count = anfi_fourier_factors(p->size, factor);
  for (size_t i = 0; i < count; step *= factor[i++]) {
    pass(p->size, factor[i], step, p->root, p->x, p->y);
    double *t = p->x;
    p->x = p->y, p->y = t;
  }
}

static void exchange(uint64_t n, double *x) {
  for (uint64_t k = 0; k < n; k++) {
    double t = x[2 * k];
    x[2 * k] = x[2 * k + 1], x[2 * k + 1] = t;
  }
}

double *anfi_fourier_chirp(anfi_arena *a, uint64_t n) {
  double *c = ANFI_NEW_N(a, double, 2 * n);
  for (uint64_t j = 0, square = 0; j < n; square = (square + 2 * j + 1) % (2 * n), j++)
    anfi_fourier_root(2 * n, square, c + 2 * j);
  return c;
}

static void new_plan(anfi_arena *a, plan *p, uint64_t n) {
  *p = (plan){.n = n, .size = anfi_fourier_length(n)};
  p->root = ANFI_NEW_N(a, double, 2 * p->size + 2);
  p->x = ANFI_NEW_N(a, double, 2 * p->size + 2), p->y = ANFI_NEW_N(a, double, 2 * p->size + 2);
  for (uint64_t k = 0; k < p->size; k++) anfi_fourier_root(p->size, k, p->root + 2 * k);
}

static double *new_kernel(anfi_arena *a, plan *p, const double *chirp) {
  double *b = ANFI_NEW_N(a, double, 2 * p->size);
  memset(p->x, 0, 2 * p->size * sizeof *b);
  for (uint64_t j = 0; j < p->n; j++) {
    double re = chirp[2 * j] / (double)p->size, im = -chirp[2 * j + 1] / (double)p->size;
    p->x[2 * j] = re, p->x[2 * j + 1] = im;
    if (j) p->x[2 * (p->size - j)] = re, p->x[2 * (p->size - j) + 1] = im;
  }
  smooth(p);
  memcpy(b, p->x, 2 * p->size * sizeof *b);
  return b;
}

double *anfi_fourier_kernel(anfi_arena *a, uint64_t n, const double *chirp) {
  plan p;
  new_plan(a, &p, n);
  return new_kernel(a, &p, chirp);
}

static void multiply(uint64_t n, const double *by, double *x) {
  for (uint64_t k = 0; k < n; k++) {
    double r[2] = {0};
    anfi_add_complex_product(x + 2 * k, by + 2 * k, r);
    x[2 * k] = r[0], x[2 * k + 1] = r[1];
  }
}

/* The transform of the line in p->x, in p->x. */
static void line(plan *p) {
  if (p->size == p->n) {
    smooth(p);
    return;
  }
  memset(p->x + 2 * p->n, 0, 2 * (p->size - p->n) * sizeof *p->x);
  multiply(p->n, p->chirp, p->x);
  smooth(p);
  multiply(p->size, p->kernel, p->x);
  exchange(p->size, p->x);
  smooth(p);
  exchange(p->size, p->x);
  multiply(p->n, p->chirp, p->x);
}

bool anfi_eval_fft(anfi_eval *q) { // axis inverse
  size_t axis = 0, outer, n, inner;
  plan p;
  bool inverse = anfi_attr_bool(q->attr[1]);
  if (!q->out->n) return true;
  anfi_axis_in(anfi_attr_int(q->attr[0]), q->type->n, &axis);
  anfi_split_axis(q->type, axis, &outer, &n, &inner);
  double *x = anfi_load_complex(q->scratch, q->in[0]);
  new_plan(q->scratch, &p, n);
  if (p.size != n) {
    p.chirp = anfi_fourier_chirp(q->scratch, n);
    p.kernel = new_kernel(q->scratch, &p, p.chirp);
  }
  for (size_t i = 0; i < outer * inner; i++) {
    double *from = x + 2 * (i / inner * n * inner + i % inner);
    for (size_t k = 0; k < n; k++) memcpy(p.x + 2 * k, from + 2 * k * inner, 2 * sizeof *from);
    if (inverse) exchange(n, p.x);
    line(&p);
    if (inverse) exchange(n, p.x);
    for (size_t k = 0; k < n; k++) memcpy(from + 2 * k * inner, p.x + 2 * k, 2 * sizeof *from);
  }
  return anfi_store(q->out, x, ANFI_WIDE_COMPLEX);
}
