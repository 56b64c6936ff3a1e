// SPDX-License-Identifier: Apache-2.0
/* More mathematics of f32 as straight code: what is rarer than vecmath.c's is computed in double, to some 2^-33,
 * and rounded once; so one logarithm, one power and one angle serve many functions. */
#include "backend/lower/math/vecmath.h"

// clang-format off
/* l = log2 d, for finite d > 0 */
#define LOG2 \
  "  var i: u64 = reinterpret<u64>(d) - 4604544271217802189u64 + 4607182418800017408u64\n" \
  "  var k: u64 = shr(i, 52u64)\n" \
  "  var e: f64 = reinterpret<f64>(int_or(k, 4841369599423283200u64)) - 4503599627371519.0f64\n" \
  "  var m: f64 = reinterpret<f64>(reinterpret<u64>(d) - shl(k, 52u64) + 4607182418800017408u64)\n" \
  "  var s: f64 = (m - 1.0f64) / (m + 1.0f64)\n" \
  "  var w: f64 = s * s\n" \
  "  var p3: f64 = fmadd(0.3407489324460896f64, w, 0.4116717483427331f64)\n" \
  "  var p2: f64 = fmadd(p3, w, 0.5770836002907062f64)\n" \
  "  var p1: f64 = fmadd(p2, w, 0.9617966732664567f64)\n" \
  "  var p0: f64 = fmadd(p1, w, 2.885390081790138f64)\n" \
  "  var l: f64 = fmadd(p0, s, e)\n"
/* The same of any x; times `by`, as f32 */
#define LOG_OF(name, by) \
  "func " name "(x: f32): f32" INLINE "{\n" \
  "  var d: f64 = f64(x)\n" LOG2 \
  "  var edge: f32 = select(x == 0.f, -1.f * INFINITY, select(x > 0.f, x, NAN))\n" \
  "  return select(x > 0.f && x < INFINITY, f32(l * " by "), edge)\n" \
  "}\n"
/* v = 2^t, for |t| < 1000 */
#define EXP2 \
  "  var z: f64 = t + 6755399441055744.0f64\n" \
  "  var r: f64 = t - (z - 6755399441055744.0f64)\n" \
  "  var q5: f64 = fmadd(0.000153458118270184f64, r, 0.001339993121811437f64)\n" \
  "  var q4: f64 = fmadd(q5, r, 0.009618488957778615f64)\n" \
  "  var q3: f64 = fmadd(q4, r, 0.05550328776968827f64)\n" \
  "  var q2: f64 = fmadd(q3, r, 0.24022646890627924f64)\n" \
  "  var q1: f64 = fmadd(q2, r, 0.6931472057372658f64)\n" \
  "  var q0: f64 = fmadd(q1, r, 1.000000000554168f64)\n" \
  "  var v: f64 = reinterpret<f64>(reinterpret<u64>(q0) + shl(reinterpret<u64>(z), 52u64))\n"
/* v = e^|x| where that is no more than twice what f32 holds */
#define EXP_ABS \
  "  var a: f64 = abs(f64(x))\n" \
  "  var c: f64 = select(a > 90.0f64, 90.0f64, a)\n" \
  "  var t: f64 = c * 1.4426950408889634f64\n" EXP2
/* r = |x| modulo y = |b|: each step leaves of the quotient what a double does not hold, and its remainder is exact */
#define STEP "  r = fnmadd(trunc(r / y), y, r)\n"
#define REMAINDER \
  "  var y: f64 = abs(f64(b))\n" \
  "  var r: f64 = abs(f64(x))\n" STEP STEP STEP STEP STEP STEP \
  "  r = select(r < 0.0f64, r + y, r)\n" \
  "  r = select(y == f64(INFINITY) && abs(x) < INFINITY, abs(f64(x)), r)\n" \
  "  r = copysign(r, f64(x))\n"
const anfi_helper anfi_low_math_wide[] = {
    {"anf_log2_32", NULL, LOG_OF("anf_log2_32", "1.0f64")},
    {"anf_log10_32", NULL, LOG_OF("anf_log10_32", "0.30102999566398120f64")},
    {"anf_exp2_32", NULL,
     "func anf_exp2_32(x: f32): f32" INLINE "{\n"
     "  var b: f64 = select(x < -160.f, -160.0f64, f64(x))\n"
     "  var t: f64 = select(b > 140.0f64, 140.0f64, b)\n" EXP2
     "  return select(x == x, f32(v), x)\n"
     "}\n"},
    // 2^(y log2 |x|), of which f32 takes what fits
    {"anf_pow32", NULL,
     "func anf_pow32(x: f32, y: f32): f32" INLINE "{\n"
     "  var a: f32 = abs(x)\n"
     "  var d: f64 = f64(a)\n" LOG2
     "  var edge: f64 = select(a == 0.f, -1.0f64 * f64(INFINITY), select(a < INFINITY, l, d))\n"
     "  var b: f64 = f64(y) * edge\n"
     "  var c: f64 = select(b < -160.0f64, -160.0f64, b)\n"
     "  var t: f64 = select(c > 140.0f64, 140.0f64, c)\n" EXP2
     "  var g: f32 = select(t == t, f32(v), f32(t))\n"
     "  var f: f32 = select(y == 0.f || a == 1.f && y == y, 1.f, g)\n"
     "  var whole: bool = round(y) == y\n"
     "  var odd: bool = whole && round(y * 0.5f) != y * 0.5f\n"
     "  var o: f32 = select(x < 0.f && a < INFINITY && !whole, NAN, select(odd, copysign(f, x), f))\n"
     "  return select(x == 1.f || y == 0.f, 1.f, o)\n"
     "}\n"},
    {"anf_sinh32", NULL,
     "func anf_sinh32(x: f32): f32" INLINE "{\n" EXP_ABS
     "  var w: f64 = a * a\n"
     "  var n2: f64 = fmadd(2.7557319223985893e-06f64, w, 0.0001984126984126984f64)\n"
     "  var n1: f64 = fmadd(n2, w, 0.008333333333333333f64)\n"
     "  var n0: f64 = fmadd(n1, w, 0.16666666666666666f64)\n"
     "  var near: f64 = fmadd(n0 * w, a, a)\n"
     "  return select(x == x, copysign(f32(select(a < 0.5f64, near, (v - 1.0f64 / v) * 0.5f64)), x), x)\n"
     "}\n"},
    {"anf_cosh32", NULL,
     "func anf_cosh32(x: f32): f32" INLINE "{\n" EXP_ABS
     "  return select(x == x, f32((v + 1.0f64 / v) * 0.5f64), x)\n"
     "}\n"},
    {"anf_asinh32", NULL,
     "func anf_asinh32(x: f32): f32" INLINE "{\n"
     "  var a: f64 = abs(f64(x))\n"
     "  var o: f64 = a * a\n"
     "  var d: f64 = a + sqrt(o + 1.0f64)\n" LOG2
     "  var near: f64 = fmadd(fmadd(0.075f64, o, -0.16666666666666666f64) * o, a, a)\n"
     "  var y: f32 = f32(select(a < 0.015625f64, near, l * 0.6931471805599453f64))\n"
     "  return select(abs(x) < INFINITY, copysign(y, x), x)\n"
     "}\n"},
    {"anf_acosh32", NULL,
     "func anf_acosh32(x: f32): f32" INLINE "{\n"
     "  var a: f64 = f64(x)\n"
     "  var d: f64 = a + sqrt((a - 1.0f64) * (a + 1.0f64))\n" LOG2
     "  return select(x >= 1.f, select(x < INFINITY, f32(l * 0.6931471805599453f64), x), NAN)\n"
     "}\n"},
    {"anf_atanh32", NULL,
     "func anf_atanh32(x: f32): f32" INLINE "{\n"
     "  var a: f64 = abs(f64(x))\n"
     "  var o: f64 = a * a\n"
     "  var d: f64 = (1.0f64 + a) / (1.0f64 - a)\n" LOG2
     "  var n0: f64 = fmadd(fmadd(0.2f64, o, 0.3333333333333333f64) * o, a, a)\n"
     "  var y: f32 = f32(select(a < 0.015625f64, n0, l * 0.34657359027997264f64))\n"
     "  var edge: f32 = select(a == 1.0f64, INFINITY, NAN)\n"
     "  return copysign(select(a < 1.0f64, y, edge), x)\n"
     "}\n"},
    {"anf_cbrt32", NULL,
     "func anf_cbrt32(x: f32): f32" INLINE "{\n"
     "  var d: f64 = abs(f64(x))\n" LOG2
     "  var t: f64 = select(d > 0.0f64 && d < f64(INFINITY), l * 0.3333333333333333f64, 0.0f64)\n" EXP2
     "  return select(d > 0.0f64 && d < f64(INFINITY), copysign(f32(v), x), x)\n"
     "}\n"},
    // the angle of (b, a), neither of which is negative
    {"anf_angle", NULL,
     "func anf_angle(a: f64, b: f64): f64" INLINE "{\n"
     "  var swap: bool = a > b\n"
     "  var l: f64 = select(swap, b, a)\n"
     "  var h: f64 = select(swap, a, b)\n"
     "  var both: bool = a == f64(INFINITY) && b == f64(INFINITY)\n"
     "  var lo: f64 = select(both, 1.0f64, l)\n"
     "  var hi: f64 = select(both, 1.0f64, h)\n"
     "  var far: bool = lo > hi * 0.41421356237309503f64\n"
     "  var t: f64 = select(hi == 0.0f64, lo, select(far, lo - hi, lo) / select(far, lo + hi, hi))\n"
     "  var w: f64 = t * t\n"
     "  var p5: f64 = fmadd(-0.040532545455015855f64, w, 0.07140495090256573f64)\n"
     "  var p4: f64 = fmadd(p5, w, -0.09029983168894645f64)\n"
     "  var p3: f64 = fmadd(p4, w, 0.11107584265304837f64)\n"
     "  var p2: f64 = fmadd(p3, w, -0.1428561610546733f64)\n"
     "  var p1: f64 = fmadd(p2, w, 0.19999998970329716f64)\n"
     "  var p0: f64 = fmadd(p1, w, -0.333333333315675f64)\n"
     "  var r: f64 = fmadd(p0 * w, t, t) + select(far, 0.7853981633974483f64, 0.0f64)\n"
     "  return select(swap, 1.5707963267948966f64 - r, r)\n"
     "}\n"},
    {"anf_atan32", "anf_angle",
     "func anf_atan32(x: f32): f32" INLINE "{\n"
     "  return copysign(f32(anf_angle(abs(f64(x)), 1.0f64)), x)\n"
     "}\n"},
    {"anf_atan2_32", "anf_angle",
     "func anf_atan2_32(x: f32, b: f32): f32" INLINE "{\n"
     "  var r: f64 = anf_angle(abs(f64(x)), abs(f64(b)))\n"
     "  return copysign(f32(select(copysign(1.f, b) < 0.f, 3.141592653589793f64 - r, r)), x)\n"
     "}\n"},
    {"anf_asin32", "anf_angle",
     "func anf_asin32(x: f32): f32" INLINE "{\n"
     "  var a: f64 = abs(f64(x))\n"
     "  return copysign(f32(anf_angle(a, sqrt((1.0f64 - a) * (1.0f64 + a)))), x)\n"
     "}\n"},
    {"anf_acos32", "anf_angle",
     "func anf_acos32(x: f32): f32" INLINE "{\n"
     "  var a: f64 = abs(f64(x))\n"
     "  var r: f64 = anf_angle(sqrt((1.0f64 - a) * (1.0f64 + a)), a)\n"
     "  return f32(select(x < 0.f, 3.141592653589793f64 - r, r))\n"
     "}\n"},
    {"anf_hypot32", NULL,
     "func anf_hypot32(x: f32, b: f32): f32" INLINE "{\n"
     "  var a: f64 = f64(x)\n"
     "  var c: f64 = f64(b)\n"
     "  var any: bool = abs(x) == INFINITY || abs(b) == INFINITY\n"
     "  return select(any, INFINITY, f32(sqrt(fmadd(a, a, c * c))))\n"
     "}\n"},
    {"anf_rem32", NULL,
     "func anf_rem32(x: f32, b: f32): f32" INLINE "{\n" REMAINDER
     "  return f32(r)\n"
     "}\n"},
    {"anf_mod32", NULL,
     "func anf_mod32(x: f32, b: f32): f32" INLINE "{\n" REMAINDER
     "  var s: f64 = select((b < 0.f) != (r < 0.0f64), r + f64(b), r)\n"
     "  return f32(select(r == 0.0f64, copysign(0.0f64, f64(b)), s))\n"
     "}\n"},
    {"anf_floordiv32", NULL,
     "func anf_floordiv32(x: f32, b: f32): f32" INLINE "{\n" REMAINDER
     "  var p: f64 = f64(x) / f64(b)\n"
     "  var d: f64 = (f64(x) - r) / f64(b)\n"
     "  var q: f64 = select(r != 0.0f64 && (b < 0.f) != (r < 0.0f64), d - 1.0f64, d)\n"
     "  var down: f64 = floor(q)\n"
     "  var near: f64 = select(q - down > 0.5f64, down + 1.0f64, down)\n"
     "  return f32(select(b == 0.f, p, select(q == 0.0f64, copysign(0.0f64, p), near)))\n"
     "}\n"},
    {NULL, NULL, NULL}};
// clang-format on
