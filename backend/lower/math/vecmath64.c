// SPDX-License-Identifier: Apache-2.0
/* Mathematics of f64 as straight code, as vecmath.c has it of f32. What is cut off a sum is kept where results would
 * be more than 2 ulp off. There are no shifts with a sign and no conversions of integers, which AVX2 has none of:
 * numbers meet the bits of 2^52 or 1.5 2^52 instead. Errors: docs/lowering.md; test/exec/test_math64.c. */
#include "backend/lower/math/vecmath.h"

// clang-format off
/* p = e^r - 1 for |r| < 0.35, to 2^-55 of e^r or of r */
#define EXPM1 \
  "  var w: f64 = r * r\n" \
  "  var qe3: f64 = fmadd(2.762639144795377e-07f64, w, 2.480150431764206e-05f64)\n" \
  "  var qe2: f64 = fmadd(qe3, w, 0.0013888888932442572f64)\n" \
  "  var qe1: f64 = fmadd(qe2, w, 0.04166666666657361f64)\n" \
  "  var qe: f64 = fmadd(qe1, w, 0.5000000000000006f64)\n" \
  "  var qo3: f64 = fmadd(2.5113175006120763e-08f64, w, 2.755723221679747e-06f64)\n" \
  "  var qo2: f64 = fmadd(qo3, w, 0.00019841269898055946f64)\n" \
  "  var qo1: f64 = fmadd(qo2, w, 0.008333333333316964f64)\n" \
  "  var qo: f64 = fmadd(qo1, w, 0.16666666666666682f64)\n" \
  "  var q: f64 = fmadd(qo, r, qe)\n" \
  "  var p: f64 = fmadd(q, w, r)\n"
#define SCALE \
  "  var s: f64 = reinterpret<f64>(shl(reinterpret<u64>(z), 52u64))\n"
/* |x| in quarter turns. |x| = u 2^e, u whole; its product with 2/pi matters from 2 down, so of the bits of 2/pi, behind
 * 54 zeros, the 192 at the exponent's place are chosen and multiplied by u in limbs of 32 bits, modulo 2^192. So k and
 * r + lo are right for all x. Then the sine is sn = r + sx, the cosine cs = cw + cx. */
#define TURN \
  "  var a: f64 = abs(x)\n" \
  "  var bits: u64 = reinterpret<u64>(a)\n" \
  "  var large: bool = bits >= 4607182418800017408u64\n" \
  "  var at: u64 = select(large, shr(bits, 52u64) - 1023u64, 0u64)\n" \
  "  var u: u64 = shl(int_or(int_and(bits, 4503599627370495u64), 4503599627370496u64), select(large, 1u64, 0u64))\n" \
  "  var w0: u64 = anf_bits064(at)\n" \
  "  var w1: u64 = anf_bits164(at)\n" \
  "  var w2: u64 = anf_bits264(at)\n" \
  "  var w3: u64 = anf_bits364(at)\n" \
  "  var left: u64 = int_and(at, 63u64)\n" \
  "  var right: u64 = 63u64 - left\n" \
  "  var v0: u64 = int_or(shl(w0, left), shr(shr(w1, 1u64), right))\n" \
  "  var v1: u64 = int_or(shl(w1, left), shr(shr(w2, 1u64), right))\n" \
  "  var v2: u64 = int_or(shl(w2, left), shr(shr(w3, 1u64), right))\n" \
  "  var ul: u64 = anf_low64(u)\n" \
  "  var uh: u64 = shr(u, 32u64)\n" \
  "  var l5: u64 = shr(v0, 32u64)\n" \
  "  var l4: u64 = anf_low64(v0)\n" \
  "  var l3: u64 = shr(v1, 32u64)\n" \
  "  var l2: u64 = anf_low64(v1)\n" \
  "  var l1: u64 = shr(v2, 32u64)\n" \
  "  var l0: u64 = anf_low64(v2)\n" \
  "  var t1: u64 = uh * l0\n" \
  "  var c1: u64 = ul * l1 + anf_low64(t1)\n" \
  "  var y1: u64 = shr(c1, 32u64) + shr(t1, 32u64)\n" \
  "  var t2: u64 = uh * l1 + y1\n" \
  "  var c2: u64 = ul * l2 + anf_low64(t2)\n" \
  "  var y2: u64 = shr(c2, 32u64) + shr(t2, 32u64)\n" \
  "  var t3: u64 = uh * l2 + y2\n" \
  "  var c3: u64 = ul * l3 + anf_low64(t3)\n" \
  "  var y3: u64 = shr(c3, 32u64) + shr(t3, 32u64)\n" \
  "  var t4: u64 = uh * l3 + y3\n" \
  "  var c4: u64 = ul * l4 + anf_low64(t4)\n" \
  "  var y4: u64 = shr(c4, 32u64) + shr(t4, 32u64)\n" \
  "  var t5: u64 = uh * l4 + y4\n" \
  "  var c5: u64 = ul * l5 + anf_low64(t5)\n" \
  "  var top: u64 = int_or(shl(c5, 32u64), anf_low64(c4)) + 2305843009213693952u64\n" \
  "  var k: u64 = select(bits >= 4602678819172646912u64, shr(top, 62u64), 0u64)\n" \
  "  var dh: f64 = fmadd(anf_whole64(int_and(shr(top, 32u64), 1073741823u64)), 4294967296.0f64, " \
  "-2.305843009213694e+18f64)\n" \
  "  var dl: f64 = anf_whole64(top)\n" \
  "  var ds: f64 = dh + dl\n" \
  "  var e: f64 = fmadd(anf_whole64(c2), 5.421010862427522e-20f64, anf_whole64(c3) * 2.3283064365386963e-10f64)\n" \
  "  var rl: f64 = dl - (ds - dh) + e\n" \
  "  var rh: f64 = ds + rl\n" \
  "  var rm: f64 = rl - (rh - ds)\n" \
  "  var ph: f64 = rh * 3.4061215800865545e-19f64\n" \
  "  var pm: f64 = fmadd(rh, 3.4061215800865545e-19f64, ph * -1.0f64)\n" \
  "  var pl: f64 = pm + fmadd(rh, 1.3277647201629795e-35f64, rm * 3.4061215800865545e-19f64)\n" \
  "  var near: bool = a < 0.5f64\n" \
  "  var r: f64 = select(near, a, ph)\n" \
  "  var lo: f64 = select(near, 0.0f64, pl)\n" \
  "  var w: f64 = r * r\n" \
  "  var sx: f64 = anf_sx64(r, lo, w)\n" \
  "  var sn: f64 = r + sx\n" \
  "  var cw: f64 = fnmadd(w, 0.5f64, 1.0f64)\n" \
  "  var cx: f64 = anf_cx64(r, lo, w, cw)\n" \
  "  var cs: f64 = cw + cx\n"
#define TURN_NEEDS \
  "anf_low64 anf_whole64 anf_word64 anf_bits064 anf_bits164 anf_bits264 anf_bits364 anf_sx64 anf_cx64"

const anfi_helper anfi_low_math64[] = {
    // the lower half, and as a number
    {"anf_low64", NULL,
     "func anf_low64(x: u64): u64" INLINE "{\n"
     "  return int_and(x, 4294967295u64)\n"
     "}\n"},
    {"anf_whole64", NULL,
     "func anf_whole64(x: u64): f64" INLINE "{\n"
     "  return reinterpret<f64>(int_or(int_and(x, 4294967295u64), 4841369599423283200u64)) - 4503599627370496.0f64\n"
     "}\n"},
    // of 64 bits, out of 16, by what is above the lowest six bits of at
    {"anf_word64", NULL,
     "func anf_word64(at: u64, c0: u64, c1: u64, c2: u64, c3: u64, c4: u64, c5: u64, c6: u64, c7: u64, c8: u64, "
     "c9: u64, c10: u64, c11: u64, c12: u64, c13: u64, c14: u64, c15: u64): u64" INLINE "{\n"
     "  var b0: bool = int_and(at, 512u64) != 0u64\n"
     "  var w0_0: u64 = select(b0, c8, c0)\n"
     "  var w0_1: u64 = select(b0, c9, c1)\n"
     "  var w0_2: u64 = select(b0, c10, c2)\n"
     "  var w0_3: u64 = select(b0, c11, c3)\n"
     "  var w0_4: u64 = select(b0, c12, c4)\n"
     "  var w0_5: u64 = select(b0, c13, c5)\n"
     "  var w0_6: u64 = select(b0, c14, c6)\n"
     "  var w0_7: u64 = select(b0, c15, c7)\n"
     "  var b1: bool = int_and(at, 256u64) != 0u64\n"
     "  var w1_0: u64 = select(b1, w0_4, w0_0)\n"
     "  var w1_1: u64 = select(b1, w0_5, w0_1)\n"
     "  var w1_2: u64 = select(b1, w0_6, w0_2)\n"
     "  var w1_3: u64 = select(b1, w0_7, w0_3)\n"
     "  var b2: bool = int_and(at, 128u64) != 0u64\n"
     "  var w2_0: u64 = select(b2, w1_2, w1_0)\n"
     "  var w2_1: u64 = select(b2, w1_3, w1_1)\n"
     "  var b3: bool = int_and(at, 64u64) != 0u64\n"
     "  return select(b3, w2_1, w2_0)\n"
     "}\n"},
    // 64 bits of 2/pi, and what follows them
    {"anf_bits064", NULL,
     "func anf_bits064(at: u64): u64" INLINE "{\n"
     "  return anf_word64(at, 325u64, 17511926765934236664u64, 5669930683074314678u64, 14207504942714881020u64, "
     "11729440225775764334u64, 5250199378502991884u64, 10546819083178097148u64, 4311696787721059793u64, "
     "318605885801302483u64, 4098360773183308403u64, 2570555959721322809u64, 630248293968934463u64, "
     "17379390670152671198u64, 6783290426449870554u64, 7853607389861473950u64, 10123754673175550698u64)\n"
     "}\n"},
    {"anf_bits164", NULL,
     "func anf_bits164(at: u64): u64" INLINE "{\n"
     "  return anf_word64(at, 17511926765934236664u64, 5669930683074314678u64, 14207504942714881020u64, "
     "11729440225775764334u64, 5250199378502991884u64, 10546819083178097148u64, 4311696787721059793u64, "
     "318605885801302483u64, 4098360773183308403u64, 2570555959721322809u64, 630248293968934463u64, "
     "17379390670152671198u64, 6783290426449870554u64, 7853607389861473950u64, 10123754673175550698u64, "
     "5725640658272843386u64)\n"
     "}\n"},
    {"anf_bits264", NULL,
     "func anf_bits264(at: u64): u64" INLINE "{\n"
     "  return anf_word64(at, 5669930683074314678u64, 14207504942714881020u64, 11729440225775764334u64, "
     "5250199378502991884u64, 10546819083178097148u64, 4311696787721059793u64, 318605885801302483u64, "
     "4098360773183308403u64, 2570555959721322809u64, 630248293968934463u64, 17379390670152671198u64, "
     "6783290426449870554u64, 7853607389861473950u64, 10123754673175550698u64, 5725640658272843386u64, "
     "1041438810801820887u64)\n"
     "}\n"},
    {"anf_bits364", NULL,
     "func anf_bits364(at: u64): u64" INLINE "{\n"
     "  return anf_word64(at, 14207504942714881020u64, 11729440225775764334u64, 5250199378502991884u64, "
     "10546819083178097148u64, 4311696787721059793u64, 318605885801302483u64, 4098360773183308403u64, "
     "2570555959721322809u64, 630248293968934463u64, 17379390670152671198u64, 6783290426449870554u64, "
     "7853607389861473950u64, 10123754673175550698u64, 5725640658272843386u64, 1041438810801820887u64, "
     "17780037877052870828u64)\n"
     "}\n"},
    // sin(r + lo) - r, cos(r + lo) - cw, where w = r^2, cw = 1 - w / 2
    {"anf_sx64", NULL,
     "func anf_sx64(r: f64, lo: f64, w: f64): f64" INLINE "{\n"
     "  var s4: f64 = fmadd(1.589691571429649e-10f64, w, -2.5050760324278606e-08f64)\n"
     "  var s3: f64 = fmadd(s4, w, 2.755731370716199e-06f64)\n"
     "  var s2: f64 = fmadd(s3, w, -0.00019841269829856274f64)\n"
     "  var s1: f64 = fmadd(s2, w, 0.008333333333322484f64)\n"
     "  var so: f64 = fmadd(s1, w, -0.16666666666666632f64)\n"
     "  return fmadd(w * r, so, fnmadd(w * 0.5f64, lo, lo))\n"
     "}\n"},
    {"anf_cx64", NULL,
     "func anf_cx64(r: f64, lo: f64, w: f64, cw: f64): f64" INLINE "{\n"
     "  var o4: f64 = fmadd(-1.1359978223313965e-11f64, w, 2.087572997338764e-09f64)\n"
     "  var o3: f64 = fmadd(o4, w, -2.7557314404774523e-07f64)\n"
     "  var o2: f64 = fmadd(o3, w, 2.480158728967931e-05f64)\n"
     "  var o1: f64 = fmadd(o2, w, -0.0013888888888874478f64)\n"
     "  var co: f64 = fmadd(o1, w, 0.0416666666666666f64)\n"
     "  return 1.0f64 - cw - w * 0.5f64 + fmadd(w * w, co, r * lo * -1.0f64)\n"
     "}\n"},
    // 2^n e^r in two halves of n, whose exponents stand in the low bits of z: 6755399441057790 is 1.5 2^52 + 2046
    {"anf_exp64", NULL,
     "func anf_exp64(x: f64): f64" INLINE "{\n"
     "  var b: f64 = select(x < -746.0f64, -746.0f64, x)\n"
     "  var c: f64 = select(b > 710.0f64, 710.0f64, b)\n"
     "  var z: f64 = fmadd(c, 1.4426950408889634f64, 6755399441057790.0f64)\n"
     "  var n: f64 = z - 6755399441057790.0f64\n"
     "  var h: f64 = fmadd(n, -0.6931471805599453f64, c)\n"
     "  var r: f64 = fmadd(n, -2.3190468138462996e-17f64, h)\n" EXPM1
     "  var k: u64 = reinterpret<u64>(z)\n"
     "  var a: u64 = shr(k, 1u64)\n"
     "  return (p + 1.0f64) * reinterpret<f64>(shl(a, 52u64)) * reinterpret<f64>(shl(k - a, 52u64))\n"
     "}\n"},
    // log(1 + f) = f - (h - s (h + R(s^2))), where s = f / (2 + f), h = f^2 / 2; of subnormals 2^54 times as large
    {"anf_log64", NULL,
     "func anf_log64(x: f64): f64" INLINE "{\n"
     "  var tiny: bool = x < 2.2250738585072014e-308f64\n"
     "  var y: f64 = select(tiny, x * 18014398509481984.0f64, x)\n" PARTS
     "  var n: f64 = j - select(tiny, 54.0f64, 0.0f64)\n"
     "  var f: f64 = m - 1.0f64\n"
     "  var s: f64 = f / (f + 2.0f64)\n"
     "  var w: f64 = s * s\n"
     "  var q5: f64 = fmadd(0.14796842803282328f64, w, 0.1531396174903735f64)\n"
     "  var q4: f64 = fmadd(q5, w, 0.1818356782438302f64)\n"
     "  var q3: f64 = fmadd(q4, w, 0.22222198503780177f64)\n"
     "  var q2: f64 = fmadd(q3, w, 0.2857142874311432f64)\n"
     "  var q1: f64 = fmadd(q2, w, 0.39999999999410896f64)\n"
     "  var q: f64 = fmadd(q1, w, 0.6666666666666735f64)\n"
     "  var h: f64 = f * f * 0.5f64\n"
     "  var u: f64 = fmadd(s, fmadd(q, w, h), n * 5.497923018708371e-14f64)\n"
     "  var v: f64 = fmadd(n, 0.6931471805598903f64, f - (h - u))\n"
     "  var edge: f64 = select(x == 0.0f64, -1.0f64 * INFINITYf64, NANf64)\n"
     "  return select(x > 0.0f64, select(x < INFINITYf64, v, x), edge)\n"
     "}\n"},
    {"anf_log1p64", "anf_log64",
     "func anf_log1p64(x: f64): f64" INLINE "{\n"
     "  var u: f64 = 1.0f64 + x\n"
     "  var l: f64 = anf_log64(u)\n"
     "  var v: f64 = u - 1.0f64\n"
     "  var c: f64 = (x - v) / u\n"
     "  return select(abs(x) < 1.0e-17f64, x, select(u > 0.0f64 && u < INFINITYf64, l + c, l))\n"
     "}\n"},
    // d / (d + 1), where d = (e^2|x| - 1) / 2; near 0 as d - d^2 / (d + 1), with l, which d and ln 2 have
    // lost, as it counts there
    {"anf_tanh64", NULL,
     "func anf_tanh64(x: f64): f64" INLINE "{\n"
     "  var a: f64 = abs(x)\n"
     "  var b: f64 = a + a\n"
     "  var c: f64 = select(b > 38.5f64, 38.5f64, b)\n"
     "  var z: f64 = fmadd(c, 1.4426950408889634f64, 6755399441056766.0f64)\n"
     "  var n: f64 = z - 6755399441056766.0f64\n"
     "  var r: f64 = fmadd(n, -0.6931471805599453f64, c)\n" EXPM1 SCALE
     "  var o: f64 = s - 0.5f64\n"
     "  var d: f64 = fmadd(s, p, o)\n"
     "  var l: f64 = fmadd(n, -1.1085043770185312e-17f64, fmadd(s, p, o - d) * 0.62f64)\n"
     "  var t: f64 = d / (d + 1.0f64)\n"
     "  var y: f64 = select(d < 0.34f64, d + fnmadd(d, t, l), t)\n"
     "  return copysign(y, x)\n"
     "}\n"},
    // l is what p has lost, which counts where d is small
    {"anf_expm164", NULL,
     "func anf_expm164(x: f64): f64" INLINE "{\n"
     "  var b: f64 = select(x < -38.0f64, -38.0f64, x)\n"
     "  var c: f64 = select(b > 710.0f64, 710.0f64, b)\n"
     "  var z: f64 = fmadd(c, 1.4426950408889634f64, 6755399441056766.0f64)\n"
     "  var n: f64 = z - 6755399441056766.0f64\n"
     "  var h: f64 = fmadd(n, -0.6931471805599453f64, c)\n"
     "  var r: f64 = fmadd(n, -2.3190468138462996e-17f64, h)\n" EXPM1 SCALE
     "  var l: f64 = fmadd(n, -2.3190468138462996e-17f64, h - r) + fmadd(q, w, r - p)\n"
     "  var d: f64 = fmadd(s, l, fmadd(s, p, s - 0.5f64))\n"
     "  return select(abs(x) < 1.0e-17f64, x, d + d)\n"
     "}\n"},
    {"anf_sin64", TURN_NEEDS,
     "func anf_sin64(x: f64): f64" INLINE "{\n" TURN
     "  var v: f64 = select(int_and(k, 1u64) == 0u64, sn, cs)\n"
     "  var y: f64 = reinterpret<f64>(int_xor(reinterpret<u64>(v), shl(int_and(k, 2u64), 62u64)))\n"
     "  return select(a < INFINITYf64, select(x < 0.0f64, y * -1.0f64, select(x == 0.0f64, x, y)), NANf64)\n"
     "}\n"},
    {"anf_cos64", TURN_NEEDS,
     "func anf_cos64(x: f64): f64" INLINE "{\n" TURN
     "  var v: f64 = select(int_and(k, 1u64) == 0u64, cs, sn)\n"
     "  var y: f64 = reinterpret<f64>(int_xor(reinterpret<u64>(v), shl(int_and(k + 1u64, 2u64), 62u64)))\n"
     "  return select(a < INFINITYf64, y, NANf64)\n"
     "}\n"},
    // the quotient of sums of two numbers
    {"anf_tan64", TURN_NEEDS,
     "func anf_tan64(x: f64): f64" INLINE "{\n" TURN
     "  var even: bool = int_and(k, 1u64) == 0u64\n"
     "  var snl: f64 = sx - (sn - r)\n"
     "  var csl: f64 = cx - (cs - cw)\n"
     "  var p: f64 = select(even, sn, cs * -1.0f64)\n"
     "  var p1: f64 = select(even, snl, csl * -1.0f64)\n"
     "  var q: f64 = select(even, cs, sn)\n"
     "  var q1: f64 = select(even, csl, snl)\n"
     "  var i: f64 = 1.0f64 / q\n"
     "  var y0: f64 = p * i\n"
     "  var y: f64 = fmadd(fnmadd(y0, q, p) + fnmadd(y0, q1, p1), i, y0)\n"
     "  return select(a < INFINITYf64, select(x < 0.0f64, y * -1.0f64, select(x == 0.0f64, x, y)), NANf64)\n"
     "}\n"},
    // 2^(e log2 |x|), the logarithm and the product as sums of two numbers; the error is that of 2^r
    {"anf_pow64", NULL,
     "func anf_pow64(x: f64, e: f64): f64" INLINE "{\n"
     "  var a: f64 = abs(x)\n"
     "  var tiny: bool = a < 2.2250738585072014e-308f64\n"
     "  var y: f64 = select(tiny, a * 18014398509481984.0f64, a)\n" PARTS
     "  var n: f64 = j - select(tiny, 54.0f64, 0.0f64)\n"
     "  var f: f64 = m - 1.0f64\n"
     "  var d: f64 = m + 1.0f64\n"
     "  var g: f64 = 1.0f64 / d\n"
     "  var s: f64 = f * g\n"
     "  var sl: f64 = fnmadd(s, f - (d - 2.0f64), fnmadd(s, d, f)) * g\n"
     "  var w: f64 = s * s\n"
     "  var wl: f64 = fmadd(s, s, w * -1.0f64) + 2.0f64 * s * sl\n"
     "  var q6: f64 = fmadd(0.17281052733692148f64, w, 0.16845230221071691f64)\n"
     "  var q5: f64 = fmadd(q6, w, 0.19240128591145217f64)\n"
     "  var q4: f64 = fmadd(q5, w, 0.2219522711980967f64)\n"
     "  var q3: f64 = fmadd(q4, w, 0.26230819864787686f64)\n"
     "  var q2: f64 = fmadd(q3, w, 0.3205988979128411f64)\n"
     "  var q1: f64 = fmadd(q2, w, 0.4121985831113456f64)\n"
     "  var q: f64 = fmadd(q1, w, 0.5770780163555851f64)\n"
     "  var t: f64 = w * 0.9617966939259756f64\n"
     "  var tm: f64 = fmadd(w, 0.9617966939259756f64, t * -1.0f64)\n"
     "  var tl: f64 = tm + fmadd(w, 5.0577616648125907e-17f64, wl * 0.9617966939259756f64)\n"
     "  var tq: f64 = fmadd(w * w, q, t)\n"
     "  var tr: f64 = fmadd(w * w, q, t - tq)\n"
     "  var o: f64 = tq + 2.8853900817779268f64\n"
     "  var ol: f64 = tq - (o - 2.8853900817779268f64) + (tr + tl + 4.0710547481862066e-17f64)\n"
     "  var l: f64 = s * o\n"
     "  var ll: f64 = fmadd(s, o, l * -1.0f64) + fmadd(s, ol, sl * o)\n"
     "  var v: f64 = n + l\n"
     "  var vl: f64 = l - (v - n) + ll\n"
     "  var e1: f64 = select(e < -1.0e+20f64, -1.0e+20f64, e)\n"
     "  var e2: f64 = select(e1 > 1.0e+20f64, 1.0e+20f64, e1)\n"
     "  var p: f64 = e2 * v\n"
     "  var pl: f64 = fmadd(e2, v, p * -1.0f64) + e2 * vl\n"
     "  var b: f64 = select(p < -1080.0f64, -1080.0f64, p)\n"
     "  var c: f64 = select(b > 1030.0f64, 1030.0f64, b)\n"
     "  var z: f64 = c + 6755399441057790.0f64\n"
     "  var r: f64 = c - (z - 6755399441057790.0f64) + select(c == p, pl, 0.0f64)\n"
     "  var rr: f64 = r * r\n"
     "  var he4: f64 = fmadd(4.4646622841580067e-10f64, rr, 1.017799197492622e-07f64)\n"
     "  var he3: f64 = fmadd(he4, rr, 1.5252734020304234e-05f64)\n"
     "  var he2: f64 = fmadd(he3, rr, 0.001333355814618254f64)\n"
     "  var he1: f64 = fmadd(he2, rr, 0.05550410866482287f64)\n"
     "  var he: f64 = fmadd(he1, rr, 0.6931471805599453f64)\n"
     "  var ho3: f64 = fmadd(7.073739185340679e-09f64, rr, 1.321543561092475e-06f64)\n"
     "  var ho2: f64 = fmadd(ho3, rr, 0.00015403530456238143f64)\n"
     "  var ho1: f64 = fmadd(ho2, rr, 0.009618129107595082f64)\n"
     "  var ho: f64 = fmadd(ho1, rr, 0.24022650695910128f64)\n"
     "  var h: f64 = fmadd(ho, r, he)\n"
     "  var k2: u64 = reinterpret<u64>(z)\n"
     "  var k1: u64 = shr(k2, 1u64)\n"
     "  var y2: f64 = fmadd(h, r, 1.0f64) * reinterpret<f64>(shl(k1, 52u64)) * reinterpret<f64>(shl(k2 - k1, 52u64))\n"
     "  var edge: bool = a == 0.0f64 || a == INFINITYf64\n"
     "  var ends: f64 = select((a == 0.0f64) != (e < 0.0f64), 0.0f64, INFINITYf64)\n"
     "  var y3: f64 = select(edge, ends, select(a == a, y2, a))\n"
     "  var y4: f64 = select(e == e, y3, e)\n"
     "  var y5: f64 = select(e == 0.0f64 || a == 1.0f64 && e == e, 1.0f64, y4)\n"
     "  var whole: bool = round(e) == e\n"
     "  var odd: bool = whole && round(e * 0.5f64) != e * 0.5f64\n"
     "  var y6: f64 = select(x < 0.0f64 && a < INFINITYf64 && !whole, NANf64, select(odd, copysign(y5, x), y5))\n"
     "  return select(x == 1.0f64 || e == 0.0f64, 1.0f64, y6)\n"
     "}\n"},
    // 1 / (1 + 2^n e^r) in halves; 0 where Exp(-x) is infinite
    {"anf_sigmoid64", NULL,
     "func anf_sigmoid64(x: f64): f64" INLINE "{\n"
     "  var b: f64 = select(x < -709.782712893384f64, -709.782712893384f64, x)\n"
     "  var c: f64 = select(b > 708.0f64, 708.0f64, b)\n"
     "  var z: f64 = fmadd(c, -1.4426950408889634f64, 6755399441056766.0f64)\n"
     "  var n: f64 = z - 6755399441056766.0f64\n"
     "  var h: f64 = fmadd(n, -0.6931471805599453f64, c * -1.0f64)\n"
     "  var r: f64 = fmadd(n, -2.3190468138462996e-17f64, h)\n" EXPM1 SCALE
     "  var o: f64 = s + 0.5f64\n"
     "  var y: f64 = 0.5f64 / (fmadd(s, p, 0.5f64 - (o - s)) + o)\n"
     "  return select(x < -709.782712893384f64, 0.0f64, y)\n"
     "}\n"},
    {"anf_erf_near64", NULL,
     "func anf_erf_near64(x: f64): f64" INLINE "{\n"
     "  var v: f64 = x * x\n"
     "  var o10: f64 = fmadd(-1.1128815296640385e-09f64, v, 1.5234658090375392e-08f64)\n"
     "  var o9: f64 = fmadd(o10, v, -1.6505962078041086e-07f64)\n"
     "  var o8: f64 = fmadd(o9, v, 1.648046392771342e-06f64)\n"
     "  var o7: f64 = fmadd(o8, v, -1.4927016054161838e-05f64)\n"
     "  var o6: f64 = fmadd(o7, v, 0.00012055395870999865f64)\n"
     "  var o5: f64 = fmadd(o6, v, -0.00085483288444678f64)\n"
     "  var o4: f64 = fmadd(o5, v, 0.005223977657821462f64)\n"
     "  var o3: f64 = fmadd(o4, v, -0.026866170648445927f64)\n"
     "  var o2: f64 = fmadd(o3, v, 0.11283791670972326f64)\n"
     "  var o1: f64 = fmadd(o2, v, -0.376126389031841f64)\n"
     "  var o: f64 = fmadd(o1, v, 0.1283791670955126f64)\n"
     "  return fmadd(x, o, x)\n"
     "}\n"},
    // of x > 0: e^-(x^2) / (x + K) times a polynomial of (x - K) / (x + K), with what the quotients and squares lost;
    // 2^128 too large on the way, so that it may be subnormal
    {"anf_erfc_far64", NULL,
     "func anf_erfc_far64(x: f64): f64" INLINE "{\n"
     "  var a: f64 = select(x > 27.5f64, 27.5f64, x)\n"
     "  var d: f64 = a + 3.078125f64\n"
     "  var i: f64 = 1.0f64 / d\n"
     "  var ri: f64 = fnmadd(d, i, 1.0f64) - (a - (d - 3.078125f64)) * i\n"
     "  var t0: f64 = (a - 3.078125f64) * i\n"
     "  var t: f64 = fmadd(t0, ri, t0)\n"
     "  var tt: f64 = t * t\n"
     "  var ge8: f64 = fmadd(-3.793302673610024e-10f64, tt, -7.981457469600172e-09f64)\n"
     "  var ge7: f64 = fmadd(ge8, tt, 8.844666102373349e-08f64)\n"
     "  var ge6: f64 = fmadd(ge7, tt, -5.799853525083531e-07f64)\n"
     "  var ge5: f64 = fmadd(ge6, tt, 3.4508840711699896e-06f64)\n"
     "  var ge4: f64 = fmadd(ge5, tt, -2.1381926948896117e-05f64)\n"
     "  var ge3: f64 = fmadd(ge4, tt, 0.00014193332924472337f64)\n"
     "  var ge2: f64 = fmadd(ge3, tt, -0.0008967247927834865f64)\n"
     "  var ge1: f64 = fmadd(ge2, tt, 0.0014559214228972322f64)\n"
     "  var ge: f64 = fmadd(ge1, tt, 0.13566612346281376f64)\n"
     "  var go7: f64 = fmadd(-4.693074207140502e-09f64, tt, 2.998965478314336e-08f64)\n"
     "  var go6: f64 = fmadd(go7, tt, -1.0715993829014052e-07f64)\n"
     "  var go5: f64 = fmadd(go6, tt, 2.9027247058589717e-07f64)\n"
     "  var go4: f64 = fmadd(go5, tt, -9.163129748364576e-07f64)\n"
     "  var go3: f64 = fmadd(go4, tt, 9.802994450680637e-06f64)\n"
     "  var go2: f64 = fmadd(go3, tt, -0.0001798760486116029f64)\n"
     "  var go1: f64 = fmadd(go2, tt, 0.002992945414209468f64)\n"
     "  var go: f64 = fmadd(go1, tt, -0.035418269303938724f64)\n"
     "  var g4: f64 = fmadd(go, t, ge)\n"
     "  var g3: f64 = fmadd(g4, t, -0.33114534193411005f64)\n"
     "  var g2: f64 = fmadd(g3, t, 0.6083993762186701f64)\n"
     "  var g1: f64 = fmadd(g2, t, -0.8932262614540846f64)\n"
     "  var g: f64 = fmadd(g1, t, 1.0764090930655679f64)\n"
     "  var c: f64 = a * a\n"
     "  var l: f64 = fmadd(a, a, c * -1.0f64)\n"
     "  var z: f64 = fmadd(c, -1.4426950408889634f64, 6755399441056895.0f64)\n"
     "  var n: f64 = z - 6755399441056895.0f64\n"
     "  var h: f64 = fmadd(n, -0.6931471805599453f64, c * -1.0f64)\n"
     "  var r: f64 = h + fmadd(n, -2.3190468138462996e-17f64, l * -1.0f64)\n" EXPM1 SCALE
     "  var f: f64 = g * i\n"
     "  var gl: f64 = fmadd(g1, t, 1.0764090930655679f64 - g)\n"
     "  var fl: f64 = fmadd(g, i, f * -1.0f64) + fmadd(f, ri, gl * i)\n"
     "  return (f + fmadd(f, p, fmadd(fl, p, fl))) * s * 2.938735877055719e-39f64\n"
     "}\n"},
    {"anf_erfc64", "anf_erf_near64 anf_erfc_far64",
     "func anf_erfc64(x: f64): f64" INLINE "{\n"
     "  var a: f64 = abs(x)\n"
     "  var y: f64 = select(a < 0.45f64, 1.0f64 - anf_erf_near64(a), anf_erfc_far64(a))\n"
     "  return select(x < 0.0f64, 2.0f64 - y, y)\n"
     "}\n"},
    {"anf_erf64", "anf_erf_near64 anf_erfc_far64",
     "func anf_erf64(x: f64): f64" INLINE "{\n"
     "  var a: f64 = abs(x)\n"
     "  return copysign(select(a < 0.9f64, anf_erf_near64(a), 1.0f64 - anf_erfc_far64(a)), x)\n"
     "}\n"},
    {NULL, NULL, NULL}};

// clang-format on
