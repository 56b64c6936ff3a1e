// SPDX-License-Identifier: Apache-2.0
/* f16 and bf16 conversions, round to nearest even, NaN stays NaN.
 *   anfi_f32_to_bf16(1.00390625f)   ->   0x3f80: a tie between 1 and 1.0078125, to the even one
 * From f64 the rounding is done once, by rounding to odd first (Boldo, Melquiond 2008): a detour through a rounded f32
 * would round twice. */
#include "base/base.h"
#include "base/bits.h"

float anfi_bf16_to_f32(uint16_t h) { return anfi_f32_of_bits((uint32_t)h << 16); }

uint16_t anfi_f32_to_bf16(float f) {
  uint32_t u = anfi_bits_of_f32(f);
  if (f != f) return (uint16_t)((u >> 16) | 0x40);
  return (uint16_t)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

float anfi_f16_to_f32(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, exp = (h >> 10) & 31, frac = h & 0x3ffu;
  if (exp == 31) return anfi_f32_of_bits(sign | 0x7f800000u | frac << 13);
  if (exp) return anfi_f32_of_bits(sign | (exp + 112) << 23 | frac << 13);
  float tiny = (float)frac * (1.0f / 16777216.0f); // subnormal: frac * 2^-24, exact
  return sign ? -tiny : tiny;
}

/* f32 rounded to odd: a value between two floats keeps a sticky last bit, so that rounding again to
 * a narrower format is right. */
static float round_to_odd(double d) {
  float f = (float)d;
  if (f != f || (double)f == d) return f;
  uint32_t u = anfi_bits_of_f32(f);
  if (u & 1) return f;
  bool away = d > 0 ? (double)f > d : (double)f < d; // rounded away from zero: step back
  return anfi_f32_of_bits(away ? u - 1 : u + 1);
}

uint16_t anfi_f32_to_f16(float f) {
  uint32_t u = anfi_bits_of_f32(f), sign = (u >> 16) & 0x8000, mag = u & 0x7fffffff;
  if (mag > 0x7f800000) return (uint16_t)(sign | 0x7e00 | ((mag >> 13) & 0x3ff));
  if (mag >= 0x477ff000) return (uint16_t)(sign | 0x7c00); // rounds to infinity
  if (mag < 0x38800000) { // subnormal: add a magic number, take the bits
    float shifted = anfi_f32_of_bits(mag) + 0.5f;
    return (uint16_t)(sign | (anfi_bits_of_f32(shifted) - 0x3f000000u));
  }
  return (uint16_t)(sign | ((mag - 0x38000000u + 0xfff + ((mag >> 13) & 1)) >> 13));
}

uint16_t anfi_f64_to_f16(double d) { return anfi_f32_to_f16(round_to_odd(d)); }
uint16_t anfi_f64_to_bf16(double d) { return anfi_f32_to_bf16(round_to_odd(d)); }
