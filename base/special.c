// SPDX-License-Identifier: Apache-2.0
/* Functions that the interpreter computes and compiled code calls, so that both give the same bits: those that C has
 * of complex numbers, and the derivatives of the digamma function.
 *   anfi_polygamma(1, 1)   ->   pi^2 / 6
 * The recurrence psi_n(x) = psi_n(x + 1) - (-1)^n n! / x^(n+1) leads to large x, where the asymptotic series is exact. */
#include "base/base.h"

#include <complex.h>
#ifndef CMPLX // glibc keeps it from clang
#define CMPLX(re, im)                                                                              \
  ((union {                                                                                        \
     double part[2];                                                                               \
     double complex z;                                                                             \
   }){{(re), (im)}}                                                                                \
       .z)
#endif
#include <math.h>

/* C's power is exp(y log(x)): no number at 0, and no whole power is exact. Here x to the 0 is 1, 0 to a positive power 0, and whole powers
 * up to 16 are products. */
static double complex power(double complex x, double complex y) {
  double n = creal(y);
  if (cimag(y) != 0 || fabs(n) > 16 || n != trunc(n)) return cpow(x, y);
  double complex r = 1;
  for (int k = (int)fabs(n); k > 0; k--) r *= x;
  return n < 0 ? 1 / r : r;
}

void anfi_complex(anfi_complex_fn f, const double a[2], const double b[2], double out[2]) {
  double complex x = CMPLX(a[0], a[1]), y = CMPLX(b[0], b[1]), r = 0;
  switch (f) {
#define ANFI_COMPLEX(name, call)                                                                   \
  case ANFI_COMPLEX_##name: r = call; break;
    ANFI_COMPLEX_FUNCTIONS
#undef ANFI_COMPLEX
  }
  if (f == ANFI_COMPLEX_pow) r = power(x, y);
  out[0] = creal(r), out[1] = cimag(r);
}

/* ---- polygamma ---- */

/* Upwards by the recurrence, then the asymptotic series. */
static double positive(int n, double x) {
  static const double bernoulli[] = {1.0 / 6,       -1.0 / 30,      1.0 / 42, -1.0 / 30,
                                     5.0 / 66,      -691.0 / 2730,  7.0 / 6,  -3617.0 / 510,
                                     43867.0 / 798, -174611.0 / 330};
  double sum = 0, scale = tgamma(n); // (n - 1)!
  double far = 16 + n;
  for (; x < far; x += 1) sum += scale * n * pow(x, -n - 1);
  double power = pow(x, -n), tail = scale * power + scale * n * power / (2 * x);
  double factor = scale * n; // (n + 2k - 1)! / (2k)! after the division
  for (size_t k = 1; k <= ANFI_LEN(bernoulli); k++) {
    double two = 2.0 * (double)k;
    factor *= k == 1 ? (n + 1) / 2.0 : (n + two - 2) * (n + two - 1) / (two * (two - 1));
    tail += bernoulli[k - 1] * factor * pow(x, -n - two);
  }
  return n % 2 ? sum + tail : -(sum + tail);
}

static const double PI = 3.14159265358979323846;

/* The n-th derivative of pi cot(pi x), from cot' = -(1 + cot^2): a polynomial in the cotangent. */
static double cotangent(int n, double x) {
  double p[24] = {0, 1}, c = 1 / tan(PI * fmod(x, 1)), pi = PI, value = 0;
  for (int k = 0; k < n; k++) {
    double d[24] = {0};
    for (int i = 1; i <= k + 1; i++) {
      d[i - 1] -= i * p[i];
      d[i + 1] -= i * p[i];
    }
    memcpy(p, d, sizeof p);
    pi *= PI;
  }
  for (int i = n + 1; i >= 0; i--) value = value * c + p[i];
  return pi * value;
}

/* Below 0 by reflection: (-1)^n psi_n(1 - x) - psi_n(x) = d^n/dx^n pi cot(pi x). */
double anfi_polygamma(int n, double x) {
  if (isnan(x) || x == -INFINITY) return NAN;
  if (x == INFINITY) return n % 2 ? 0.0 : -0.0;
  if (x <= 0 && x == floor(x)) return n % 2 ? INFINITY : NAN;
  if (x > 0) return positive(n, x);
  double mirrored = positive(n, 1 - x);
  return (n % 2 ? -mirrored : mirrored) - cotangent(n, x);
}
