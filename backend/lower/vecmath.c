// SPDX-License-Identifier: Apache-2.0
/* Mathematics of f32 as straight code, which compilers make vector code of: arguments are reduced,
 * then come polynomials, fitted for least relative error (Lawson's iteration on Chebyshev nodes).
 * Errors are at most 2 ulp over all arguments (docs/lowering.md; test/exec/test_math.c). */
#include "backend/lower/low.h"

// clang-format off
#define INLINE " @[inline_level=2, is_private, pure] "
const anfi_helper anfi_low_math[] = {
    {"anf_exp32", NULL,
     "func anf_exp32(x: f32): f32" INLINE "{\n"
     "  var c: f32 = select(x < -104.f, -104.f, select(x > 89.f, 89.f, x))\n"
     "  var z: f32 = fmadd(c, 1.44269502f, 12582912.f)\n"
     "  var n: f32 = z - 12582912.f\n"
     "  var h: f32 = fmadd(n, -0.693147182f, c)\n"
     "  var r: f32 = fmadd(n, 1.90465421e-09f, h)\n"
     "  var q3: f32 = fmadd(0.00138146f, r, 0.00836871564f)\n"
     "  var q2: f32 = fmadd(q3, r, 0.041668389f)\n"
     "  var q1: f32 = fmadd(q2, r, 0.166665211f)\n"
     "  var q0: f32 = fmadd(q1, r, 0.49999994f)\n"
     "  var e: f32 = fmadd(r * r, q0, r) + 1.f\n"
     "  var k: s32 = reinterpret<s32>(z) - 1262485504\n"
     "  var a: s32 = shr(k, 1)\n"
     "  var s: f32 = reinterpret<f32>(shl(a + 127, 23))\n"
     "  return e * s * reinterpret<f32>(shl(k - a + 127, 23))\n"
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
    {"anf_tanh32", "anf_exp32",
     "func anf_tanh32(x: f32): f32" INLINE "{\n"
     "  var a: f32 = abs(x)\n"
     "  var w: f32 = x * x\n"
     "  var q3: f32 = fmadd(-0.00590586057f, w, 0.0208053775f)\n"
     "  var q2: f32 = fmadd(q3, w, -0.0537866801f)\n"
     "  var q1: f32 = fmadd(q2, w, 0.133319587f)\n"
     "  var q0: f32 = fmadd(q1, w, -0.333332986f)\n"
     "  var near: f32 = fmadd(x * w, q0, x)\n"
     "  var e: f32 = anf_exp32(a + a)\n"
     "  var far: f32 = copysign(1.f - 2.f / (e + 1.f), x)\n"
     "  return select(a < 0.6f, near, far)\n"
     "}\n"},
    {"anf_erf32", "anf_exp32",
     "func anf_erf32(x: f32): f32" INLINE "{\n"
     "  var a: f32 = abs(x)\n"
     "  var w: f32 = x * x\n"
     "  var q5: f32 = fmadd(8.21542344e-05f, w, -0.00081059651f)\n"
     "  var q4: f32 = fmadd(q5, w, 0.00519779697f)\n"
     "  var q3: f32 = fmadd(q4, w, -0.0268581044f)\n"
     "  var q2: f32 = fmadd(q3, w, 0.112836726f)\n"
     "  var q1: f32 = fmadd(q2, w, -0.376126319f)\n"
     "  var q0: f32 = fmadd(q1, w, 0.128379166f)\n"
     "  var near: f32 = fmadd(x, q0, x)\n"
     "  var t: f32 = select(a > 4.f, 4.f, a)\n"
     "  var p4: f32 = fmadd(-0.000214154759f, t, 0.00321645848f)\n"
     "  var p3: f32 = fmadd(p4, t, -0.0228951462f)\n"
     "  var p2: f32 = fmadd(p3, t, 0.105270535f)\n"
     "  var p1: f32 = fmadd(p2, t, 0.635711253f)\n"
     "  var p0: f32 = fmadd(p1, t, 1.12851655f)\n"
     "  var e: f32 = anf_exp32(p0 * t * -1.f)\n"
     "  var far: f32 = copysign(1.f - e, x)\n"
     "  return select(a < 0.92f, near, far)\n"
     "}\n"},
    {"anf_erfc32", "anf_exp32",
     "func anf_erfc32(x: f32): f32" INLINE "{\n"
     "  var b: f32 = abs(x)\n"
     "  var a: f32 = select(b > 11.f, 11.f, b)\n"
     "  var d: f32 = fmadd(2.f, a, 1.f)\n"
     "  var i: f32 = 1.f / ((a + 3.f) * d)\n"
     "  var t: f32 = (a - 3.f) * d * i\n"
     "  var p9: f32 = fmadd(-0.000268129195f, t, -0.000777586247f)\n"
     "  var p8: f32 = fmadd(p9, t, 0.00200181128f)\n"
     "  var p7: f32 = fmadd(p8, t, 0.0025673788f)\n"
     "  var p6: f32 = fmadd(p7, t, -0.0237975288f)\n"
     "  var p5: f32 = fmadd(p6, t, 0.0682957694f)\n"
     "  var p4: f32 = fmadd(p5, t, -0.119270973f)\n"
     "  var p3: f32 = fmadd(p4, t, 0.12964642f)\n"
     "  var p2: f32 = fmadd(p3, t, -0.047562398f)\n"
     "  var p1: f32 = fmadd(p2, t, -0.135621145f)\n"
     "  var p0: f32 = fmadd(p1, t, 1.25300801f)\n"
     "  var h: f32 = a * a\n"
     "  var l: f32 = fmadd(a, a, h * -1.f)\n"
     "  var e: f32 = anf_exp32(h * -1.f)\n"
     "  var r: f32 = fnmadd(e, l, e) * (p0 * (a + 3.f) * i)\n"
     "  var w: f32 = x * x\n"
     "  var q5: f32 = fmadd(8.21542344e-05f, w, -0.00081059651f)\n"
     "  var q4: f32 = fmadd(q5, w, 0.00519779697f)\n"
     "  var q3: f32 = fmadd(q4, w, -0.0268581044f)\n"
     "  var q2: f32 = fmadd(q3, w, 0.112836726f)\n"
     "  var q1: f32 = fmadd(q2, w, -0.376126319f)\n"
     "  var q0: f32 = fmadd(q1, w, 0.128379166f)\n"
     "  var near: f32 = 1.f - fmadd(x, q0, x)\n"
     "  return select(b < 0.6f, near, select(x < 0.f, 2.f - r, r))\n"
     "}\n"},
    {NULL, NULL, NULL}};

// clang-format on

const char *anfi_low_math_name(tintrin f) {
  switch (f) {
  case TI_exp: return "anf_exp32";
  case TI_log: return "anf_log32";
  case TI_log1p: return "anf_log1p32";
  case TI_tanh: return "anf_tanh32";
  case TI_erf: return "anf_erf32";
  case TI_erfc: return "anf_erfc32";
  default: return NULL;
  }
}
