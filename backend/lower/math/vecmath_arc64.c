// SPDX-License-Identifier: Apache-2.0
/* More mathematics of f64 as straight code, of that in vecmath64.c: arcs, hyperbolic functions and their inverses,
 * logarithms and powers of other bases. Errors: test/exec/test_math64.c. */
#include "backend/lower/math/vecmath.h"

// clang-format off
/* x = 2^n m; u = log m, which is 0 of powers of two */
#define LOG_OF_PART \
  "  var tiny: bool = x < 2.2250738585072014e-308f64\n" \
  "  var y: f64 = select(tiny, x * 18014398509481984.0f64, x)\n" PARTS \
  "  var n: f64 = j - select(tiny, 54.0f64, 0.0f64)\n" \
  "  var u: f64 = anf_log64(m)\n" \
  "  var edge: f64 = select(x == 0.0f64, -1.0f64 * f64(INFINITY), select(x > 0.0f64, x, NANf64))\n" \
  "  var usual: bool = x > 0.0f64 && x < f64(INFINITY)\n"
const anfi_helper anfi_low_math_arc64[] = {
    {"anf_log2_64", "anf_log64",
     "func anf_log2_64(x: f64): f64" INLINE "{\n" LOG_OF_PART
     "  var l: f64 = fmadd(u, 1.4426950408889634f64, fmadd(u, 2.0355273740931033e-17f64, n))\n"
     "  return select(usual, l, edge)\n"
     "}\n"},
    // n log10(2) in two parts, of which the products with the first are exact
    {"anf_log10_64", "anf_log64",
     "func anf_log10_64(x: f64): f64" INLINE "{\n" LOG_OF_PART
     "  var l: f64 = fmadd(u, 0.4342944819032518f64, n * 3.694239077158931e-13f64)\n"
     "  return select(usual, fmadd(n, 0.30102999566361177f64, l), edge)\n"
     "}\n"},
    {"anf_exp2_64", "anf_exp64",
     "func anf_exp2_64(x: f64): f64" INLINE "{\n"
     "  var b: f64 = select(x < -1080.0f64, -1080.0f64, x)\n"
     "  var c: f64 = select(b > 1030.0f64, 1030.0f64, b)\n"
     "  var z: f64 = c + 6755399441057790.0f64\n"
     "  var n: f64 = z - 6755399441057790.0f64\n"
     "  var e: f64 = anf_exp64((c - n) * 0.6931471805599453f64)\n"
     "  var k: u64 = reinterpret<u64>(z)\n"
     "  var a: u64 = shr(k, 1u64)\n"
     "  return e * reinterpret<f64>(shl(a, 52u64)) * reinterpret<f64>(shl(k - a, 52u64))\n"
     "}\n"},
    {"anf_sinh64", "anf_exp64 anf_expm164",
     "func anf_sinh64(x: f64): f64" INLINE "{\n"
     "  var a: f64 = abs(x)\n"
     "  var t: f64 = anf_expm164(a)\n"
     "  var h: f64 = anf_exp64(a * 0.5f64)\n"
     "  var y: f64 = select(a < 700.0f64, (t + t / (t + 1.0f64)) * 0.5f64, h * 0.5f64 * h)\n"
     "  return copysign(y, x)\n"
     "}\n"},
    {"anf_cosh64", "anf_exp64",
     "func anf_cosh64(x: f64): f64" INLINE "{\n"
     "  var a: f64 = abs(x)\n"
     "  var e: f64 = anf_exp64(a)\n"
     "  var h: f64 = anf_exp64(a * 0.5f64)\n"
     "  return select(a < 700.0f64, fmadd(e, 0.5f64, 0.5f64 / e), h * 0.5f64 * h)\n"
     "}\n"},
    // where squares would be infinite, 2 a and 2 x take the place of the sums
    {"anf_asinh64", "anf_log64 anf_log1p64",
     "func anf_asinh64(x: f64): f64" INLINE "{\n"
     "  var a: f64 = abs(x)\n"
     "  var w: f64 = a * a\n"
     "  var l: f64 = anf_log1p64(a + w / (sqrt(w + 1.0f64) + 1.0f64))\n"
     "  var far: f64 = anf_log64(a) + 0.6931471805599453f64\n"
     "  return copysign(select(a < 268435456.0f64, l, far), x)\n"
     "}\n"},
    {"anf_acosh64", "anf_log64 anf_log1p64",
     "func anf_acosh64(x: f64): f64" INLINE "{\n"
     "  var t: f64 = x - 1.0f64\n"
     "  var l: f64 = anf_log1p64(t + sqrt(fmadd(t, t, t + t)))\n"
     "  var far: f64 = anf_log64(x) + 0.6931471805599453f64\n"
     "  return select(x < 1.0f64, NANf64, select(x < 268435456.0f64, l, far))\n"
     "}\n"},
    {"anf_atanh64", "anf_log64 anf_log1p64",
     "func anf_atanh64(x: f64): f64" INLINE "{\n"
     "  var a: f64 = abs(x)\n"
     "  return copysign(anf_log1p64((a + a) / (1.0f64 - a)) * 0.5f64, x)\n"
     "}\n"},
    // the angle of (b, a), neither of which is negative
    {"anf_angle64", NULL,
     "func anf_angle64(a: f64, b: f64): f64" INLINE "{\n"
     "  var swap: bool = a > b\n"
     "  var l: f64 = select(swap, b, a)\n"
     "  var h: f64 = select(swap, a, b)\n"
     "  var large: bool = h > 1e300f64\n"
     "  var by: f64 = select(large, 0.00048828125f64, 1.0f64)\n"
     "  var both: bool = a == f64(INFINITY) && b == f64(INFINITY)\n"
     "  var lo: f64 = select(both, 1.0f64, l * by)\n"
     "  var hi: f64 = select(both, 1.0f64, h * by)\n"
     "  var far: bool = lo > hi * 0.41421356237309503f64\n"
     "  var t: f64 = select(hi == 0.0f64, lo, select(far, lo - hi, lo) / select(far, lo + hi, hi))\n"
     "  var w: f64 = t * t\n"
     "  var p10: f64 = fmadd(0.01628575685522102f64, w, -0.03457056198142774f64)\n"
     "  var p9: f64 = fmadd(p10, w, 0.045515932206265486f64)\n"
     "  var p8: f64 = fmadd(p9, w, -0.05230454270650244f64)\n"
     "  var p7: f64 = fmadd(p8, w, 0.05878928997834775f64)\n"
     "  var p6: f64 = fmadd(p7, w, -0.06666424885738255f64)\n"
     "  var p5: f64 = fmadd(p6, w, 0.07692296375032143f64)\n"
     "  var p4: f64 = fmadd(p5, w, -0.09090908753500877f64)\n"
     "  var p3: f64 = fmadd(p4, w, 0.11111111105155447f64)\n"
     "  var p2: f64 = fmadd(p3, w, -0.14285714285659828f64)\n"
     "  var p1: f64 = fmadd(p2, w, 0.19999999999999804f64)\n"
     "  var p0: f64 = fmadd(p1, w, -0.3333333333333333f64)\n"
     "  var s: f64 = fmadd(p0 * w, t, select(far, 3.061616997868383e-17f64, 0.0f64))\n"
     "  var r: f64 = s + t + select(far, 0.7853981633974483f64, 0.0f64)\n"
     "  return select(swap, 1.5707963267948966f64 - (r - 6.123233995736766e-17f64), r)\n"
     "}\n"},
    {"anf_atan64", "anf_angle64",
     "func anf_atan64(x: f64): f64" INLINE "{\n"
     "  return copysign(anf_angle64(abs(x), 1.0f64), x)\n"
     "}\n"},
    {"anf_atan2_64", "anf_angle64",
     "func anf_atan2_64(x: f64, b: f64): f64" INLINE "{\n"
     "  var r: f64 = anf_angle64(abs(x), abs(b))\n"
     "  var back: f64 = 3.141592653589793f64 - (r - 1.2246467991473532e-16f64)\n"
     "  return copysign(select(copysign(1.0f64, b) < 0.0f64, back, r), x)\n"
     "}\n"},
    {"anf_asin64", "anf_angle64",
     "func anf_asin64(x: f64): f64" INLINE "{\n"
     "  var a: f64 = abs(x)\n"
     "  return copysign(anf_angle64(a, sqrt((1.0f64 - a) * (1.0f64 + a))), x)\n"
     "}\n"},
    {"anf_acos64", "anf_angle64",
     "func anf_acos64(x: f64): f64" INLINE "{\n"
     "  var a: f64 = abs(x)\n"
     "  var r: f64 = anf_angle64(sqrt((1.0f64 - a) * (1.0f64 + a)), a)\n"
     "  var back: f64 = 3.141592653589793f64 - (r - 1.2246467991473532e-16f64)\n"
     "  return select(x < 0.0f64, back, r)\n"
     "}\n"},
    {"anf_hypot64", NULL,
     "func anf_hypot64(x: f64, b: f64): f64" INLINE "{\n"
     "  var a: f64 = abs(x)\n"
     "  var c: f64 = abs(b)\n"
     "  var most: f64 = select(a > c, a, c)\n"
     "  var up: f64 = select(most < 1e-150f64, 4.149515568880993e+180f64, 1.0f64)\n"
     "  var by: f64 = select(most > 1e150f64, 2.4099198651028841e-181f64, up)\n"
     "  var y: f64 = sqrt(fmadd(a * by, a * by, c * by * (c * by))) / by\n"
     "  return select(a == f64(INFINITY) || c == f64(INFINITY), f64(INFINITY), y)\n"
     "}\n"},
    {NULL, NULL, NULL}};
// clang-format on
