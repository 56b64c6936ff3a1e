// SPDX-License-Identifier: Apache-2.0
/* The meaning of operations, one lane at a time: the interpreter and the constant folder share it, and code
 * generators are tested against it.
 *
 *   2147483647 + 1 (s32)  =  -2147483648        integers wrap
 *   -7 / 2                =  -3                 division truncates
 *   u8(300.f)             =  255, s32(NaN) = 0  float to integer saturates
 *
 * f16 and bf16 compute in f32 and round once. */
#include "backend/tir/tir.h"

#include "base/bits.h"

#include <math.h>

static uint64_t low(tdtype d, uint64_t v) {
  size_t bytes = anfi_t_bytes(d);
  return bytes >= 8 ? v : v & ((UINT64_C(1) << bytes * 8) - 1);
}

uint64_t anfi_t_lane_of_i64(tdtype d, int64_t v) {
  switch (anfi_t_class(d)) {
  case TC_BOOL: return v != 0;
  case TC_FLOAT:
    return d.elem == ANF_TIR_f32 ? anfi_bits_of_f32((float)v) : anfi_t_lane_of_f64(d, (double)v);
  default: return low(d, (uint64_t)v);
  }
}

/* Truncates into [lo, hi]; the bounds are exact in double or one past the greatest. */
static int64_t to_signed(double v, unsigned bits) {
  double edge = ldexp(1.0, (int)bits - 1);
  if (isnan(v)) return 0;
  if (v >= edge) return (int64_t)((UINT64_C(1) << (bits - 1)) - 1);
  if (v < -edge) return (int64_t)(0 - (UINT64_C(1) << (bits - 1)));
  return (int64_t)v;
}
static uint64_t to_unsigned(double v, unsigned bits) {
  if (!(v > 0)) return 0;
  if (v >= ldexp(1.0, (int)bits)) return UINT64_MAX >> (64 - bits);
  return (uint64_t)v;
}

uint64_t anfi_t_lane_of_f64(tdtype d, double v) {
  unsigned bits = (unsigned)anfi_t_bytes(d) * 8;
  switch (anfi_t_class(d)) {
  case TC_BOOL: return v != 0;
  case TC_SINT: return low(d, (uint64_t)to_signed(v, bits));
  case TC_UINT: return to_unsigned(v, bits);
  case TC_FLOAT:
    if (d.elem == ANF_TIR_f32) return anfi_bits_of_f32((float)v);
    if (d.elem == ANF_TIR_f16) return anfi_f64_to_f16(v);
    if (d.elem == ANF_TIR_bf16) return anfi_f64_to_bf16(v);
    return anfi_bits_of_f64(v);
  default: return anfi_bits_of_f64(v);
  }
}

int64_t anfi_t_lane_i64(tdtype d, uint64_t bits) {
  if (anfi_t_class(d) == TC_FLOAT) return to_signed(anfi_t_lane_f64(d, bits), 64);
  if (anfi_t_class(d) != TC_SINT) return (int64_t)bits;
  unsigned shift = 64 - (unsigned)anfi_t_bytes(d) * 8;
  return (int64_t)(bits << shift) >> shift;
}

double anfi_t_lane_f64(tdtype d, uint64_t bits) {
  if (d.ptr) return (double)bits;
  switch (d.elem) {
  case ANF_TIR_f16: return (double)anfi_f16_to_f32((uint16_t)bits);
  case ANF_TIR_bf16: return (double)anfi_bf16_to_f32((uint16_t)bits);
  case ANF_TIR_f32: return (double)anfi_f32_of_bits((uint32_t)bits);
  case ANF_TIR_f64: return anfi_f64_of_bits(bits);
  default: break;
  }
  return anfi_t_class(d) == TC_SINT ? (double)anfi_t_lane_i64(d, bits) : (double)bits;
}

/* Integer to float rounds once: through double it would round twice for f32. */
static uint64_t int_to_float(tdtype to, tdtype from, uint64_t bits) {
  bool neg = anfi_t_class(from) == TC_SINT && anfi_t_lane_i64(from, bits) < 0;
  if (to.elem == ANF_TIR_f32)
    return anfi_bits_of_f32(
        neg || anfi_t_class(from) == TC_SINT ? (float)anfi_t_lane_i64(from, bits) : (float)bits);
  return anfi_t_lane_of_f64(to, anfi_t_lane_f64(from, bits));
}

uint64_t anfi_t_lane_cast(tdtype to, tdtype from, uint64_t bits) {
  tclass tc = anfi_t_class(to), fc = anfi_t_class(from);
  if (to.elem == from.elem && to.ptr == from.ptr) return bits;
  if (tc == TC_GENERIC || fc == TC_GENERIC || to.ptr || from.ptr)
    return low(to, bits); // the bits as they are
  if (fc == TC_FLOAT) {
    double v = anfi_t_lane_f64(from, bits);
    return tc == TC_BOOL ? v != 0 : anfi_t_lane_of_f64(to, v);
  }
  if (tc == TC_FLOAT) return int_to_float(to, from, bits);
  if (tc == TC_BOOL) return bits != 0;
  return low(to, (uint64_t)anfi_t_lane_i64(from, bits));
}

static bool float_bin(tkind k, double a, double b, double *r, uint64_t *truth) {
  switch (k) {
  case TX_add: *r = a + b; return true;
  case TX_sub: *r = a - b; return true;
  case TX_mul: *r = a * b; return true;
  case TX_div: *r = a / b; return true;
  case TX_mod: *r = fmod(a, b); return true;
  case TX_cmp_eq: *truth = a == b; return false;
  case TX_cmp_ne: *truth = a != b; return false;
  case TX_cmp_lt: *truth = a < b; return false;
  case TX_cmp_le: *truth = a <= b; return false;
  case TX_cmp_gt: *truth = a > b; return false;
  case TX_cmp_ge: *truth = a >= b; return false;
  default: *truth = 0; return false;
  }
}

/* Double suffices for f32: rounding the double result of one + - * / again is the same as rounding
 * once. */
static uint64_t real_bin(tkind k, tdtype d, uint64_t a, uint64_t b) {
  double r;
  uint64_t truth;
  double x = anfi_t_lane_f64(d, a), y = anfi_t_lane_f64(d, b);
  if (!float_bin(k, x, y, &r, &truth)) return truth;
  if (anfi_t_is_half(d)) r = (double)(float)r;
  return anfi_t_lane_of_f64(d, r);
}

static bool int_div(tkind k, bool is_signed, uint64_t a, uint64_t b, uint64_t *r) {
  if (!b) return false;
  if (!is_signed) *r = k == TX_div ? a / b : a % b;
  else if ((int64_t)b == -1) *r = k == TX_div ? 0 - a : 0; // the least number has no opposite
  else *r = (uint64_t)(k == TX_div ? (int64_t)a / (int64_t)b : (int64_t)a % (int64_t)b);
  return true;
}

bool anfi_t_lane_bin(tkind k, tdtype d, uint64_t a, uint64_t b, uint64_t *r) {
  if (anfi_t_is_float(d)) return *r = real_bin(k, d, a, b), true;
  bool s = anfi_t_class(d) == TC_SINT;
  if (s) a = (uint64_t)anfi_t_lane_i64(d, a), b = (uint64_t)anfi_t_lane_i64(d, b);
  bool lt = s ? (int64_t)a < (int64_t)b : a < b;
  switch (k) {
  case TX_add: *r = low(d, a + b); break;
  case TX_sub: *r = low(d, a - b); break;
  case TX_mul: *r = low(d, a * b); break;
  case TX_div:
  case TX_mod:
    if (!int_div(k, s, a, b, r)) return false;
    *r = low(d, *r);
    break;
  case TX_cmp_eq: *r = a == b; break;
  case TX_cmp_ne: *r = a != b; break;
  case TX_cmp_lt: *r = lt; break;
  case TX_cmp_le: *r = lt || a == b; break;
  case TX_cmp_gt: *r = !lt && a != b; break;
  case TX_cmp_ge: *r = !lt; break;
  case TX_logic_and: *r = a && b; break;
  case TX_logic_or: *r = a || b; break;
  default: *r = 0;
  }
  if (anfi_t_class(d) == TC_BOOL) *r = *r != 0;
  return true;
}

bool anfi_t_lanewise(tintrin i) {
  const tintrin_info *in = &anfi_t_intrins[i];
  return in->purity <= TP_MATH2 && (in->typing == TT_SAME || in->typing == TT_BOOLS);
}

static uint64_t min_max(tintrin i, tdtype d, uint64_t a, uint64_t b) {
  uint64_t less = 0;
  if (anfi_t_is_float(d)) { // NaN wins, as numpy.minimum has it
    if (isnan(anfi_t_lane_f64(d, a))) return a;
    if (isnan(anfi_t_lane_f64(d, b))) return b;
  }
  anfi_t_lane_bin(TX_cmp_lt, d, a, b, &less);
  return (i == TI_min) == (less != 0) ? a : b;
}

static double fma_in(tdtype d, double a, double b, double c) {
  return d.elem == ANF_TIR_f64 ? fma(a, b, c) : (double)fmaf((float)a, (float)b, (float)c);
}

static uint64_t real_intrin(tintrin i, tdtype d, uint64_t a, uint64_t b, uint64_t c) {
  double x = anfi_t_lane_f64(d, a), y = anfi_t_lane_f64(d, b), z = anfi_t_lane_f64(d, c);
  switch (i) {
  case TI_abs: return anfi_t_lane_of_f64(d, fabs(x));
  case TI_rsqrt: return anfi_t_lane_of_f64(d, 1 / sqrt(x));
  case TI_isnan: return (uint64_t)(isnan(x) != 0);
  case TI_isinf: return (uint64_t)(isinf(x) != 0);
  case TI_fmadd: return anfi_t_lane_of_f64(d, fma_in(d, x, y, z));
  case TI_fnmadd: return anfi_t_lane_of_f64(d, fma_in(d, -x, y, z));
  default: return anfi_t_lane_of_f64(d, anfi_t_math(i, x, y));
  }
}

static uint64_t int_fma(tintrin i, tdtype d, uint64_t a, uint64_t b, uint64_t c) {
  uint64_t p, r;
  anfi_t_lane_bin(TX_mul, d, a, b, &p);
  if (i == TI_fmadd) anfi_t_lane_bin(TX_add, d, c, p, &r);
  else anfi_t_lane_bin(TX_sub, d, c, p, &r);
  return r;
}

uint64_t anfi_t_lane_intrin(tintrin i, tdtype d, uint64_t a, uint64_t b, uint64_t c) {
  if (i == TI_min || i == TI_max) return min_max(i, d, a, b);
  if (anfi_t_is_float(d)) return real_intrin(i, d, a, b, c);
  unsigned bits = (unsigned)anfi_t_bytes(d) * 8;
  switch (i) {
  case TI_abs: return anfi_t_lane_i64(d, a) < 0 && anfi_t_class(d) == TC_SINT ? low(d, 0 - a) : a;
  case TI_fmadd:
  case TI_fnmadd: return int_fma(i, d, a, b, c);
  case TI_int_and: return a & b;
  case TI_int_or: return a | b;
  case TI_int_xor: return a ^ b;
  case TI_int_not: return anfi_t_class(d) == TC_BOOL ? (uint64_t)!a : low(d, ~a);
  case TI_shl: return low(d, a << (b & (bits - 1)));
  case TI_shr:
    return low(d, (uint64_t)(anfi_t_class(d) == TC_SINT ? anfi_t_lane_i64(d, a) >> (b & (bits - 1))
                                                        : (int64_t)(a >> (b & (bits - 1)))));
  case TI_isnan:
  case TI_isinf: return 0;
  default: // rounding of an integer is itself; other math goes through double
    if (i == TI_round || i == TI_floor || i == TI_ceil || i == TI_trunc) return a;
    return anfi_t_lane_of_f64(
        d, i == TI_rsqrt ? 1 / sqrt(anfi_t_lane_f64(d, a))
                         : anfi_t_math(i, anfi_t_lane_f64(d, a), anfi_t_lane_f64(d, b)));
  }
}

/* Integers clamp exactly: a double has too few bits for 64. */
static uint64_t clamp(tdtype to, tdtype from, uint64_t bits) {
  unsigned n = (unsigned)anfi_t_bytes(to) * 8;
  bool neg = anfi_t_class(from) == TC_SINT && anfi_t_lane_i64(from, bits) < 0;
  if (anfi_t_class(to) == TC_BOOL) return bits != 0;
  if (anfi_t_class(to) == TC_UINT)
    return neg ? 0 : bits > UINT64_MAX >> (64 - n) ? UINT64_MAX >> (64 - n) : bits;
  int64_t hi = (int64_t)((UINT64_C(1) << (n - 1)) - 1);
  if (neg)
    return low(to, (uint64_t)(anfi_t_lane_i64(from, bits) < -hi - 1 ? -hi - 1
                                                                    : anfi_t_lane_i64(from, bits)));
  return bits > (uint64_t)hi ? (uint64_t)hi : bits;
}

uint64_t anfi_t_lane_convert(tintrin i, tdtype to, tdtype from, uint64_t bits) {
  if (i == TI_reinterpret) return low(to, bits);
  if (anfi_t_is_float(to)) return anfi_t_lane_cast(to, from, bits);
  if (anfi_t_is_float(from)) return anfi_t_lane_of_f64(to, rint(anfi_t_lane_f64(from, bits)));
  return i == TI_saturated_cast ? clamp(to, from, bits) : anfi_t_lane_cast(to, from, bits);
}
