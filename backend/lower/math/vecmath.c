// SPDX-License-Identifier: Apache-2.0
/* Mathematics of f32 as straight code, which compilers make vector code of: arguments are reduced,
 * then come polynomials, fitted for least relative error (Lawson's iteration on Chebyshev nodes).
 * Errors are at most 2 ulp over all arguments (docs/lowering.md; test/exec/test_math.c). */
#include "backend/lower/math/vecmath.h"

// clang-format off
/* x in quarter turns: in double by parts of 2/pi of 29 bits each, whose products with x are exact, and of
 * which whole turns are dropped; so k and r are right for all x. Then the sine and cosine of r. */
#define PART(i, c)                                                                                 \
  "  var t" i ": f64 = f64(x) * " c "\n  var u" i ": f64 = fnmadd(round(t" i                       \
  " * 0.25f64), 4.0f64, t" i ")\n"
#define TURN                                                                                       \
  PART("0", "0.636619770899415f64")                                                                \
  PART("1", "1.4681663246252086e-09f64")                                                           \
  PART("2", "2.2760100671971816e-18f64")                                                           \
  PART("3", "5.8812147387730434e-27f64")                                                           \
  PART("4", "1.0346868700836215e-35f64")                                                           \
  PART("5", "3.783256351091319e-45f64")                                                            \
  PART("6", "3.720474878517739e-53f64")                                                            \
  "  var z: f64 = u0 + u1 + u2 + u3 + u4 + u5 + u6 + 6755399441055744.0f64\n"                      \
  "  var n: f64 = z - 6755399441055744.0f64\n"                                                     \
  "  var k: s32 = s32(reinterpret<s64>(z))\n"                                                      \
  "  var g: f64 = u0 - n + u1 + u2 + u3 + u4 + u5 + u6\n"                                          \
  "  var r: f32 = f32(g * 1.5707963267948966f64)\n"                                                \
  "  var w: f32 = r * r\n"                                                                         \
  "  var s1: f32 = fmadd(-0.00019516977f, w, 0.00833217613f)\n"                                    \
  "  var s0: f32 = fmadd(s1, w, -0.166666552f)\n"                                                  \
  "  var sn: f32 = fmadd(w * r, s0, r)\n"                                                          \
  "  var c1: f32 = fmadd(2.44380917e-05f, w, -0.00138873642f)\n"                                   \
  "  var c0: f32 = fmadd(c1, w, 0.0416666456f)\n"                                                  \
  "  var cs: f32 = fmadd(w * w, c0, fmadd(w, -0.5f, 1.f))\n"
/* For |r| < 0.35: e = e^r, p = e^r - 1 */
#define NEAR                                                                                       \
  "  var w: f32 = r * r\n"                                                                         \
  "  var q1: f32 = fmadd(0.00138146f, r, 0.00836871564f)\n"                                        \
  "  var q0: f32 = fmadd(0.041668389f, r, 0.166665211f)\n"                                         \
  "  var q: f32 = fmadd(fmadd(q1, w, q0), r, 0.49999994f)\n"
#define EXP NEAR "  var e: f32 = fmadd(fmadd(q, r, 1.f), r, 1.f)\n"
#define EXPM1 NEAR "  var p: f32 = fmadd(q, w, r)\n"
const anfi_helper anfi_low_math32[] = {
    // 2^n e^r in two halves of n, whose exponents stand in the low bits of z: 12583166 is 1.5 2^23 + 254
    {"anf_exp32", NULL,
     "func anf_exp32(x: f32): f32" INLINE "{\n"
     "  var b: f32 = select(x < -104.f, -104.f, x)\n"
     "  var c: f32 = select(b > 89.f, 89.f, b)\n"
     "  var z: f32 = fmadd(c, 1.44269502f, 12583166.f)\n"
     "  var n: f32 = z - 12583166.f\n"
     "  var h: f32 = fmadd(n, -0.693147182f, c)\n"
     "  var r: f32 = fmadd(n, 1.90465421e-09f, h)\n" EXP
     "  var k: s32 = reinterpret<s32>(z)\n"
     "  var a: s32 = shr(k, 1)\n"
     "  return e * reinterpret<f32>(shl(a, 23)) * reinterpret<f32>(shl(k - a, 23))\n"
     "}\n"},
    // of x <= 0: less than the least normal number is 0, for 2^n is
    {"anf_exp32_fall", NULL,
     "func anf_exp32_fall(x: f32): f32" INLINE "{\n"
     "  var c: f32 = select(x < -88.f, -88.f, x)\n"
     "  var z: f32 = fmadd(c, 1.44269502f, 12583039.f)\n"
     "  var n: f32 = z - 12583039.f\n"
     "  var h: f32 = fmadd(n, -0.693147182f, c)\n"
     "  var r: f32 = fmadd(n, 1.90465421e-09f, h)\n" EXP
     "  return e * reinterpret<f32>(shl(reinterpret<s32>(z), 23))\n"
     "}\n"},
    {"anf_log32", NULL,
     "func anf_log32(x: f32): f32" INLINE "{\n"
     "  var tiny: bool = x < 1.17549435e-38f\n"
     "  var y: f32 = select(tiny, x * 8388608.f, x)\n"
     "  var i: s32 = reinterpret<s32>(y)\n"
     "  var k: s32 = shr(i - 1060439283, 23)\n"
     "  var r: f32 = reinterpret<f32>(i - shl(k, 23)) - 1.f\n"
     "  var n: f32 = f32(k) - select(tiny, 23.f, 0.f)\n"
     "  var q6: f32 = fmadd(-0.0763442963f, r, 0.127615497f)\n"
     "  var q5: f32 = fmadd(q6, r, -0.131601945f)\n"
     "  var q4: f32 = fmadd(q5, r, 0.142017618f)\n"
     "  var q3: f32 = fmadd(q4, r, -0.166233569f)\n"
     "  var q2: f32 = fmadd(q3, r, 0.200012267f)\n"
     "  var q1: f32 = fmadd(q2, r, -0.250008225f)\n"
     "  var q0: f32 = fmadd(q1, r, 0.333333313f)\n"
     "  var w: f32 = r * r\n"
     "  var s: f32 = fmadd(w * r, q0, n * -1.90465421e-09f)\n"
     "  var u: f32 = fmadd(w, -0.5f, s) + r\n"
     "  var v: f32 = fmadd(n, 0.693147182f, u)\n"
     "  var edge: f32 = select(x == 0.f, -1.f * INFINITY, NAN)\n"
     "  return select(x > 0.f, select(x < INFINITY, v, x), edge)\n"
     "}\n"},
    {"anf_log1p32", "anf_log32",
     "func anf_log1p32(x: f32): f32" INLINE "{\n"
     "  var u: f32 = 1.f + x\n"
     "  var l: f32 = anf_log32(u)\n"
     "  var c: f32 = (x - (u - 1.f)) / u\n"
     "  return select(x == 0.f, x, select(u > 0.f && u < INFINITY, l + c, l))\n"
     "}\n"},
    // d / (d + 1), where d = (e^2|x| - 1) / 2; near 0 as d - d^2 / (d + 1), of which d has the last word
    {"anf_tanh32", NULL,
     "func anf_tanh32(x: f32): f32" INLINE "{\n"
     "  var b: f32 = abs(x)\n"
     "  var c: f32 = select(b > 9.1f, 9.1f, b)\n"
     "  var z: f32 = fmadd(c, 2.88539004f, 12583039.f)\n"
     "  var n: f32 = z - 12583039.f\n"
     "  var r: f32 = fmadd(n, -0.346573591f, c)\n"
     "  var w: f32 = r * r\n"
     "  var q2: f32 = fmadd(0.0127450693f, r, 0.0446112268f)\n"
     "  var q1: f32 = fmadd(0.133332372f, r, 0.33333084f)\n"
     "  var q0: f32 = fmadd(0.666666687f, r, 1.f)\n"
     "  var q: f32 = fmadd(fmadd(q2, w, q1), w, q0)\n"
     "  var s: f32 = reinterpret<f32>(shl(reinterpret<s32>(z), 23))\n"
     "  var d: f32 = fmadd(s, fmadd(w, q, r), fmadd(s, 0.5f, -0.5f))\n"
     "  var t: f32 = d / (d + 1.f)\n"
     "  return copysign(select(d < 0.34f, fnmadd(d, t, d), t), x)\n"
     "}\n"},
    {"anf_expm132", NULL,
     "func anf_expm132(x: f32): f32" INLINE "{\n"
     "  var b: f32 = select(x < -18.f, -18.f, x)\n"
     "  var c: f32 = select(b > 89.f, 89.f, b)\n"
     "  var z: f32 = fmadd(c, 1.44269502f, 12583038.f)\n"
     "  var n: f32 = z - 12583038.f\n"
     "  var h: f32 = fmadd(n, -0.693147182f, c)\n"
     "  var r: f32 = fmadd(n, 1.90465421e-09f, h)\n"
     "  var w: f32 = r * r\n"
     "  var q2: f32 = fmadd(0.000199141708f, r, 0.00139410084f)\n"
     "  var q1: f32 = fmadd(0.00833327323f, r, 0.041666355f)\n"
     "  var q0: f32 = fmadd(0.166666672f, r, 0.5f)\n"
     "  var q: f32 = fmadd(fmadd(q2, w, q1), w, q0)\n"
     "  var s: f32 = reinterpret<f32>(shl(reinterpret<s32>(z), 23))\n"
     "  var d: f32 = fmadd(s, fmadd(w, q, r), s - 0.5f)\n"
     "  return select(x == 0.f, x, d + d)\n"
     "}\n"},
    {"anf_sin32", NULL,
     "func anf_sin32(x: f32): f32" INLINE "{\n" TURN
     "  var v: f32 = select(int_and(k, 1) == 0, sn, cs)\n"
     "  var y: f32 = reinterpret<f32>(int_xor(reinterpret<s32>(v), shl(int_and(k, 2), 30)))\n"
     "  return select(x == 0.f, x, y)\n"
     "}\n"},
    {"anf_cos32", NULL,
     "func anf_cos32(x: f32): f32" INLINE "{\n" TURN
     "  var v: f32 = select(int_and(k, 1) == 0, cs, sn)\n"
     "  return reinterpret<f32>(int_xor(reinterpret<s32>(v), shl(int_and(k + 1, 2), 30)))\n"
     "}\n"},
    {"anf_tan32", NULL,
     "func anf_tan32(x: f32): f32" INLINE "{\n" TURN
     "  var even: bool = int_and(k, 1) == 0\n"
     "  var y: f32 = select(even, sn, cs * -1.f) / select(even, cs, sn)\n"
     "  return select(x == 0.f, x, y)\n"
     "}\n"},
    // 1 / (1 + 2^n e^-g) in halves; half of 2^n is 0 or infinite at the ends, where g < 0
    {"anf_sigmoid32", NULL,
     "func anf_sigmoid32(x: f32): f32" INLINE "{\n"
     "  var b: f32 = select(x < -88.722839f, -89.5f, x)\n"
     "  var c: f32 = select(b > 87.f, 87.f, b)\n"
     "  var z: f32 = fmadd(c, -1.44269502f, 12583038.f)\n"
     "  var n: f32 = z - 12583038.f\n"
     "  var h: f32 = fmadd(n, 0.693147182f, c)\n"
     "  var g: f32 = fmadd(n, -1.90465421e-09f, h)\n"
     "  var w: f32 = g * g\n"
     "  var q1: f32 = fmadd(0.00138146f, g, -0.00836871564f)\n"
     "  var q0: f32 = fmadd(0.041668389f, g, -0.166665211f)\n"
     "  var q: f32 = fmadd(fmadd(q1, w, q0), g, 0.49999994f)\n"
     "  var p: f32 = fmadd(q, w, g * -1.f)\n"
     "  var s: f32 = reinterpret<f32>(shl(reinterpret<s32>(z), 23))\n"
     "  return 0.5f / (fmadd(s, p, 0.5f) + s)\n"
     "}\n"},
    {"anf_erf32", NULL,
     "func anf_erf32(x: f32): f32" INLINE "{\n"
     "  var a: f32 = abs(x)\n"
     "  var v: f32 = x * x\n"
     "  var a5: f32 = fmadd(8.21542344e-05f, v, -0.00081059651f)\n"
     "  var a4: f32 = fmadd(a5, v, 0.00519779697f)\n"
     "  var a3: f32 = fmadd(a4, v, -0.0268581044f)\n"
     "  var a2: f32 = fmadd(a3, v, 0.112836726f)\n"
     "  var a1: f32 = fmadd(a2, v, -0.376126319f)\n"
     "  var a0: f32 = fmadd(a1, v, 0.128379166f)\n"
     "  var near: f32 = fmadd(x, a0, x)\n"
     "  var t: f32 = select(a > 4.f, 4.f, a)\n"
     "  var p4: f32 = fmadd(-0.000214154759f, t, 0.00321645848f)\n"
     "  var p3: f32 = fmadd(p4, t, -0.0228951462f)\n"
     "  var p2: f32 = fmadd(p3, t, 0.105270535f)\n"
     "  var p1: f32 = fmadd(p2, t, 0.635711253f)\n"
     "  var c: f32 = fmadd(p1, t, 1.12851655f) * t * -1.f\n"
     "  var z: f32 = fmadd(c, 1.44269502f, 12583039.f)\n"
     "  var n: f32 = z - 12583039.f\n"
     "  var r: f32 = fmadd(n, -0.693147182f, c)\n" EXPM1
     "  var s: f32 = reinterpret<f32>(shl(reinterpret<s32>(z), 23))\n"
     "  var far: f32 = copysign(fnmadd(s, p, 1.f - s), x)\n"
     "  return select(a < 0.92f, near, far)\n"
     "}\n"},
    // e^-(x^2) times a quotient of polynomials; 2^64 too large on the way, so that it may be subnormal
    {"anf_erfc32", NULL,
     "func anf_erfc32(x: f32): f32" INLINE "{\n"
     "  var b: f32 = abs(x)\n"
     "  var a: f32 = select(b > 11.f, 11.f, b)\n"
     "  var c: f32 = a * a\n"
     "  var l: f32 = fmadd(a, a, c * -1.f)\n"
     "  var z: f32 = fmadd(c, -1.44269502f, 12583103.f)\n"
     "  var n: f32 = z - 12583103.f\n"
     "  var h: f32 = fmadd(n, -0.693147182f, c * -1.f)\n"
     "  var r: f32 = h + fmadd(n, 1.90465421e-09f, l * -1.f)\n" EXPM1
     "  var s: f32 = reinterpret<f32>(shl(reinterpret<s32>(z), 23))\n"
     "  var u3: f32 = fmadd(0.03279813024f, a, 0.2292265364f)\n"
     "  var u2: f32 = fmadd(u3, a, 0.7316204238f)\n"
     "  var u1: f32 = fmadd(u2, a, 1.2384260338f)\n"
     "  var u0: f32 = fmadd(u1, a, 1.f)\n"
     "  var v4: f32 = fmadd(0.05813247349f, a, 0.4063198572f)\n"
     "  var v3: f32 = fmadd(v4, a, 1.3253989773f)\n"
     "  var v2: f32 = fmadd(v3, a, 2.4022654133f)\n"
     "  var v1: f32 = fmadd(v2, a, 2.3668057795f)\n"
     "  var v0: f32 = fmadd(v1, a, 1.f)\n"
     "  var f: f32 = u0 / v0 * s\n"
     "  var y: f32 = fmadd(f, p, f) * 5.421010862e-20f\n"
     "  return select(x < 0.f, 2.f - y, y)\n"
     "}\n"},
    {NULL, NULL, NULL}};

// clang-format on

typedef struct math_name {
  tintrin f;
  const char *f32, *f64;
} math_name;
static const math_name names[] = {
    {TI_exp, "anf_exp32", "anf_exp64"},       {TI_expm1, "anf_expm132", "anf_expm164"},
    {TI_log, "anf_log32", "anf_log64"},       {TI_log1p, "anf_log1p32", "anf_log1p64"},
    {TI_tanh, "anf_tanh32", "anf_tanh64"},    {TI_pow, "anf_pow32", "anf_pow64"},
    {TI_sin, "anf_sin32", "anf_sin64"},       {TI_cos, "anf_cos32", "anf_cos64"},
    {TI_tan, "anf_tan32", "anf_tan64"},       {TI_erf, "anf_erf32", "anf_erf64"},
    {TI_erfc, "anf_erfc32", "anf_erfc64"},    {TI_exp2, "anf_exp2_32", "anf_exp2_64"},
    {TI_log2, "anf_log2_32", "anf_log2_64"},  {TI_log10, "anf_log10_32", "anf_log10_64"},
    {TI_sinh, "anf_sinh32", "anf_sinh64"},    {TI_cosh, "anf_cosh32", "anf_cosh64"},
    {TI_asinh, "anf_asinh32", "anf_asinh64"}, {TI_acosh, "anf_acosh32", "anf_acosh64"},
    {TI_atanh, "anf_atanh32", "anf_atanh64"}, {TI_cbrt, "anf_cbrt32", NULL},
    {TI_atan, "anf_atan32", "anf_atan64"},    {TI_atan2, "anf_atan2_32", "anf_atan2_64"},
    {TI_asin, "anf_asin32", "anf_asin64"},    {TI_acos, "anf_acos32", "anf_acos64"},
    {TI_hypot, "anf_hypot32", "anf_hypot64"},
};

const char *anfi_low_math_name(tintrin f, tdtype t) {
  for (size_t i = 0; i < ANFI_LEN(names); i++)
    if (names[i].f == f) return t.elem == ANF_TIR_f64 ? names[i].f64 : names[i].f32;
  return NULL;
}
