// SPDX-License-Identifier: Apache-2.0
/* Numbers as their bits, and back. */
#ifndef ANFI_BITS_H
#define ANFI_BITS_H

#include <stdint.h>
#include <string.h>

static inline uint32_t anfi_bits_of_f32(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return u;
}
static inline float anfi_f32_of_bits(uint32_t u) {
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}
static inline uint64_t anfi_bits_of_f64(double d) {
  uint64_t u;
  memcpy(&u, &d, sizeof u);
  return u;
}
static inline double anfi_f64_of_bits(uint64_t u) {
  double d;
  memcpy(&d, &u, sizeof d);
  return d;
}

#endif
