// SPDX-License-Identifier: Apache-2.0
/* Counter-based random numbers (base/random.h): Philox4x32-10 (Salmon et al. 2011).
 *   anfi_random_u32(key, 5)   ->   word 1 of philox({1, 0, 0, purpose}, key), whatever was drawn before
 * Floating-point steps are plain IEEE double operations in the order written, never fused: compiled programs repeat
 * them bit for bit. */
#include "base/random.h"

#include <math.h>

static void philox_round(uint32_t c[4], const uint32_t k[2]) {
  uint64_t a = (uint64_t)0xD2511F53u * c[0], b = (uint64_t)0xCD9E8D57u * c[2];
  uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ k[0], (uint32_t)b,
                      (uint32_t)(a >> 32) ^ c[3] ^ k[1], (uint32_t)a};
  for (int i = 0; i < 4; i++) c[i] = next[i];
}

void anfi_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
  uint32_t k[2] = {key[0], key[1]};
  for (int i = 0; i < 4; i++) out[i] = counter[i];
  for (int round = 0; round < 10; round++) {
    philox_round(out, k);
    k[0] += 0x9E3779B9u; // the golden ratio
    k[1] += 0xBB67AE85u; // sqrt(3) - 1
  }
}

static void block(uint64_t key, uint32_t purpose, uint64_t n, uint32_t out[4]) {
  const uint32_t counter[4] = {(uint32_t)n, (uint32_t)(n >> 32), 0, purpose};
  const uint32_t k[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
  anfi_philox4x32(counter, k, out);
}

static uint64_t pair(uint32_t low, uint32_t high) { return (uint64_t)high << 32 | low; }

uint64_t anfi_random_derive(uint64_t key, uint32_t purpose, uint64_t number) {
  uint32_t w[4];
  block(key, purpose, number, w);
  return pair(w[0], w[1]);
}

uint32_t anfi_random_u32(uint64_t key, uint64_t i) {
  uint32_t w[4];
  block(key, ANFI_RANDOM_BITS, i / 4, w);
  return w[i % 4];
}

uint64_t anfi_random_u64(uint64_t key, uint64_t i) {
  uint32_t w[4];
  block(key, ANFI_RANDOM_BITS, i / 2, w);
  return i % 2 ? pair(w[2], w[3]) : pair(w[0], w[1]);
}

uint64_t anfi_mul_high(uint64_t a, uint64_t b) {
  uint64_t al = (uint32_t)a, ah = a >> 32, bl = (uint32_t)b, bh = b >> 32;
  uint64_t low = al * bl, mid = ah * bl + (low >> 32), mid2 = al * bh + (uint32_t)mid;
  return ah * bh + (mid >> 32) + (mid2 >> 32);
}

/* log x = e log 2 + 2 atanh(s) with x = m 2^e, m in [sqrt(1/2), sqrt(2)), s = (m - 1) / (m + 1):
 * the series in s^2 < 0.0295 is below 2^-57 after eleven terms. */
double anfi_random_log(double x) {
  int e;
  double m = frexp(x, &e);
  if (m < 0.70710678118654757) {
    m *= 2.0;
    e--;
  }
  double s = (m - 1.0) / (m + 1.0), z = s * s, p = 1.0 / 21.0;
  for (int k = 19; k >= 1; k -= 2) p = p * z + 1.0 / (double)k;
  double n = (double)e;
  return n * 0.69314718036912382 + (2.0 * s * p + n * 1.9082149292705877e-10);
}

/* Coefficients of M. J. Wichura, Algorithm AS 241, Applied Statistics 37 (1988), 477-484; constant
 * last. */
static const double near_num[8] = {2.5090809287301226727e+3, 3.3430575583588128105e+4,
                                   6.7265770927008700853e+4, 4.5921953931549871457e+4,
                                   1.3731693765509461125e+4, 1.9715909503065514427e+3,
                                   1.3314166789178437745e+2, 3.3871328727963666080e+0};
static const double near_den[8] = {5.2264952788528545610e+3, 2.8729085735721942674e+4,
                                   3.9307895800092710610e+4, 2.1213794301586595867e+4,
                                   5.3941960214247511077e+3, 6.8718700749205790830e+2,
                                   4.2313330701600911252e+1, 1.0};
static const double mid_num[8] = {7.74545014278341407640e-4, 2.27238449892691845833e-2,
                                  2.41780725177450611770e-1, 1.27045825245236838258e+0,
                                  3.64784832476320460504e+0, 5.76949722146069140550e+0,
                                  4.63033784615654529590e+0, 1.42343711074968357734e+0};
static const double mid_den[8] = {1.05075007164441684324e-9, 5.47593808499534494600e-4,
                                  1.51986665636164571966e-2, 1.48103976427480074590e-1,
                                  6.89767334985100004550e-1, 1.67638483018380384940e+0,
                                  2.05319162663775882187e+0, 1.0};
static const double far_num[8] = {2.01033439929228813265e-7, 2.71155556874348757815e-5,
                                  1.24266094738807843860e-3, 2.65321895265761230930e-2,
                                  2.96560571828504891230e-1, 1.78482653991729133580e+0,
                                  5.46378491116411436990e+0, 6.65790464350110377720e+0};
static const double far_den[8] = {2.04426310338993978564e-15, 1.42151175831644588870e-7,
                                  1.84631831751005468180e-5,  7.86869131145613259100e-4,
                                  1.48753612908506148525e-2,  1.36929880922735805310e-1,
                                  5.99832206555887937690e-1,  1.0};

static double ratio(const double *num, const double *den, double r) {
  double a = num[0], b = den[0];
  for (int k = 1; k < 8; k++) {
    a = a * r + num[k];
    b = b * r + den[k];
  }
  return a / b;
}

double anfi_random_normal(double p) {
  double q = p - 0.5;
  if (fabs(q) <= 0.425) return q * ratio(near_num, near_den, 0.180625 - q * q);
  double r = sqrt(-anfi_random_log(q < 0.0 ? p : 1.0 - p));
  double x = r <= 5.0 ? ratio(mid_num, mid_den, r - 1.6) : ratio(far_num, far_den, r - 5.0);
  return q < 0.0 ? -x : x;
}
