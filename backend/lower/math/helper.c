// SPDX-License-Identifier: Apache-2.0
/* Functions that lowered ops call, in the text of the Tensor IR. One is added to the module when it
 * is first called, with those that it calls. They compute what ir/ops/elementwise.c and base/random.c
 * compute, step by step. */
#include "backend/lower/math/vecmath.h"

#define PURE " @[is_private, pure] "

static const anfi_helper helpers[] = {
    {"anf_popcount", NULL,
     "func anf_popcount(x: u64): s64" PURE "{\n"
     "  var a: u64 = x - int_and(shr(x, 1u64), 6148914691236517205u64)\n"
     "  var b: u64 = int_and(a, 3689348814741910323u64) + int_and(shr(a, 2u64), "
     "3689348814741910323u64)\n"
     "  var c: u64 = int_and(b + shr(b, 4u64), 1085102592571150095u64)\n"
     "  return s64(shr(c * 72340172838076673u64, 56u64))\n}\n"},
    {"anf_clz", "anf_popcount",
     "func anf_clz(x: u64): s64" PURE "{\n"
     "  var a: u64 = int_or(x, shr(x, 1u64))\n"
     "  var b: u64 = int_or(a, shr(a, 2u64))\n"
     "  var c: u64 = int_or(b, shr(b, 4u64))\n"
     "  var d: u64 = int_or(c, shr(c, 8u64))\n"
     "  var e: u64 = int_or(d, shr(d, 16u64))\n"
     "  var f: u64 = int_or(e, shr(e, 32u64))\n"
     "  return 64s64 - anf_popcount(f)\n}\n"},
    {"anf_ipow", NULL,
     "func anf_ipow(a: u64, b: u64): u64" PURE "{\n"
     "  var r: u64 = 1u64\n  var x: u64 = a\n  var e: u64 = b\n"
     "  while (e != 0u64) {\n"
     "    if (int_and(e, 1u64) != 0u64) {\n      r = r * x\n    }\n"
     "    e = shr(e, 1u64)\n    x = x * x\n  }\n"
     "  return r\n}\n"},
    {"anf_mod", NULL,
     "func anf_mod(a: f64, b: f64): f64" PURE "{\n"
     "  var r: f64 = a % b\n"
     "  var s: f64 = select((b < 0.f64) != (r < 0.f64), r + b, r)\n"
     "  return select(r == 0.f64, copysign(0.f64, b), s)\n}\n"},
    {"anf_floordiv", NULL,
     "func anf_floordiv(a: f64, b: f64): f64" PURE "{\n"
     "  var r: f64 = a % b\n"
     "  var q: f64 = (a - r) / b\n"
     "  if (r != 0.f64 && (b < 0.f64) != (r < 0.f64)) {\n    q = q - 1.f64\n  }\n"
     "  var down: f64 = floor(q)\n"
     "  var near: f64 = select(q - down > 0.5f64, down + 1.f64, down)\n"
     "  var s: f64 = select(q == 0.f64, copysign(0.f64, a / b), near)\n"
     "  return select(b == 0.f64, a / b, s)\n}\n"},
    {"anf_sigmoid", NULL,
     "func anf_sigmoid(a: f64): f64" PURE "{\n"
     "  return 1.f64 / (1.f64 + exp(a * -1.f64))\n}\n"},
    {"anf_digamma", NULL,
     "func anf_digamma(a: f64): f64" PURE "{\n"
     "  if (a == 0.f64) {\n    return copysign(INFINITYf64, -1.f64 * a)\n  }\n"
     "  var x: f64 = a\n  var sum: f64 = 0.f64\n"
     "  if (x < 0.f64) {\n"
     "    var part: f64 = x - floor(x)\n"
     "    if (part == 0.f64) {\n      return NANf64\n    }\n"
     "    sum = -3.14159265358979323846f64 / tan(3.14159265358979323846f64 * part)\n"
     "    x = 1.f64 - x\n  }\n"
     "  while (x < 10.f64) {\n    sum = sum - 1.f64 / x\n    x = x + 1.f64\n  }\n"
     "  var y: f64 = 1.f64 / (x * x)\n"
     "  var p: f64 = 1.f64 / 132.f64 - y * (691.f64 / 32760.f64 - y / 12.f64)\n"
     "  var q: f64 = 1.f64 / 252.f64 - y * (1.f64 / 240.f64 - y * p)\n"
     "  var series: f64 = y * (1.f64 / 12.f64 - y * (1.f64 / 120.f64 - y * q))\n"
     "  return sum + log(x) - 0.5f64 / x - series\n}\n"},
#define ROUND                                                                                      \
  "    a = u64(c0) * 3528531795u64\n    b = u64(c2) * 3449720151u64\n"                             \
  "    c0 = int_xor(int_xor(u32(shr(b, 32u64)), c1), k0)\n    c1 = u32(b)\n"                       \
  "    c2 = int_xor(int_xor(u32(shr(a, 32u64)), c3), k1)\n    c3 = u32(a)\n"                       \
  "    k0 = k0 + 2654435769u32\n    k1 = k1 + 3144134277u32\n"
#define PHILOX                                                                                     \
  "  var c0: u32 = u32(n)\n  var c1: u32 = u32(shr(n, 32u64))\n"                                   \
  "  var c2: u32 = 0u32\n  var c3: u32 = purpose\n"                                                \
  "  var k0: u32 = u32(key)\n  var k1: u32 = u32(shr(key, 32u64))\n"                               \
  "  var a: u64 = 0u64\n  var b: u64 = 0u64\n"                                                     \
  "  for i in (0, 10, 1) {\n" ROUND "  }\n"
    {"anf_random_derive", NULL,
     "func anf_random_derive(key: u64, purpose: u32, n: u64): u64" PURE "{\n" PHILOX
     "  return int_or(shl(u64(c1), 32u64), u64(c0))\n}\n"},
    {"anf_random_u32", NULL,
     "func anf_random_u32(key: u64, at: u64): u32" PURE "{\n"
     "  var purpose: u32 = 0u32\n  var n: u64 = at / 4u64\n  var w: u64 = at % 4u64\n" PHILOX
     "  return select(w < 2u64, select(w == 0u64, c0, c1), select(w == 2u64, c2, c3))\n}\n"},
    {"anf_random_u64", NULL,
     "func anf_random_u64(key: u64, at: u64): u64" PURE "{\n"
     "  var purpose: u32 = 0u32\n  var n: u64 = at / 2u64\n  var w: u64 = at % 2u64\n" PHILOX
     "  var low: u32 = select(w == 0u64, c0, c2)\n  var high: u32 = select(w == 0u64, c1, c3)\n"
     "  return int_or(shl(u64(high), 32u64), u64(low))\n}\n"},
    {"anf_mul_high", NULL,
     "func anf_mul_high(a: u64, b: u64): u64" PURE "{\n"
     "  var al: u64 = u64(u32(a))\n  var ah: u64 = shr(a, 32u64)\n"
     "  var bl: u64 = u64(u32(b))\n  var bh: u64 = shr(b, 32u64)\n"
     "  var low: u64 = al * bl\n  var mid: u64 = ah * bl + shr(low, 32u64)\n"
     "  var mid2: u64 = al * bh + u64(u32(mid))\n"
     "  return ah * bh + shr(mid, 32u64) + shr(mid2, 32u64)\n}\n"},
    {"anf_random_log", NULL,
     "func anf_random_log(x: f64): f64" PURE "{\n"
     "  var bits: u64 = reinterpret<u64>(x)\n"
     "  var e: s64 = s64(shr(bits, 52u64)) - 1022s64\n"
     "  var m: f64 = reinterpret<f64>(int_or(int_and(bits, 4503599627370495u64), "
     "4602678819172646912u64))\n"
     "  if (m < 0.70710678118654757f64) {\n    m = m * 2.f64\n    e = e - 1s64\n  }\n"
     "  var s: f64 = (m - 1.f64) / (m + 1.f64)\n  var z: f64 = s * s\n  var p: f64 = 1.f64 / "
     "21.f64\n"
     "  p = p * z + 1.f64 / 19.f64\n  p = p * z + 1.f64 / 17.f64\n  p = p * z + 1.f64 / 15.f64\n"
     "  p = p * z + 1.f64 / 13.f64\n  p = p * z + 1.f64 / 11.f64\n  p = p * z + 1.f64 / 9.f64\n"
     "  p = p * z + 1.f64 / 7.f64\n  p = p * z + 1.f64 / 5.f64\n  p = p * z + 1.f64 / 3.f64\n"
     "  p = p * z + 1.f64 / 1.f64\n"
     "  var n: f64 = f64(e)\n"
     "  return n * 0.69314718036912382f64 + (2.f64 * s * p + n * 1.9082149292705877e-10f64)\n}\n"},
#define H(c) "  a = a * r + " c "f64\n"
#define G(c) "  b = b * r + " c "f64\n"
    {"anf_ratio_near", NULL,
     "func anf_ratio_near(r: f64): f64" PURE "{\n"
     "  var a: f64 = 2.5090809287301226727e+3f64\n"
     "  var b: f64 = 5.2264952788528545610e+3f64\n" H("3.3430575583588128105e+4")
         H("6.7265770927008700853e+4") H("4.5921953931549871457e+4") H("1.3731693765509461125e+4")
             H("1.9715909503065514427e+3") H("1.3314166789178437745e+2")
                 H("3.3871328727963666080e+0") G("2.8729085735721942674e+4")
                     G("3.9307895800092710610e+4") G("2.1213794301586595867e+4")
                         G("5.3941960214247511077e+3") G("6.8718700749205790830e+2")
                             G("4.2313330701600911252e+1") G("1.0") "  return a / b\n}\n"},
    {"anf_ratio_mid", NULL,
     "func anf_ratio_mid(r: f64): f64" PURE "{\n"
     "  var a: f64 = 7.74545014278341407640e-4f64\n"
     "  var b: f64 = 1.05075007164441684324e-9f64\n" H("2.27238449892691845833e-2") H(
         "2.41780725177450611770e-1") H("1.27045825245236838258e+0") H("3.64784832476320460504e+0")
         H("5.76949722146069140550e+0") H("4.63033784615654529590e+0")
             H("1.42343711074968357734e+0") G("5.47593808499534494600e-4")
                 G("1.51986665636164571966e-2") G("1.48103976427480074590e-1")
                     G("6.89767334985100004550e-1") G("1.67638483018380384940e+0")
                         G("2.05319162663775882187e+0") G("1.0") "  return a / b\n}\n"},
    {"anf_ratio_far", NULL,
     "func anf_ratio_far(r: f64): f64" PURE "{\n"
     "  var a: f64 = 2.01033439929228813265e-7f64\n"
     "  var b: f64 = 2.04426310338993978564e-15f64\n" H("2.71155556874348757815e-5") H(
         "1.24266094738807843860e-3") H("2.65321895265761230930e-2") H("2.96560571828504891230e-1")
         H("1.78482653991729133580e+0") H("5.46378491116411436990e+0")
             H("6.65790464350110377720e+0") G("1.42151175831644588870e-7")
                 G("1.84631831751005468180e-5") G("7.86869131145613259100e-4")
                     G("1.48753612908506148525e-2") G("1.36929880922735805310e-1")
                         G("5.99832206555887937690e-1") G("1.0") "  return a / b\n}\n"},
    {"anf_random_normal", "anf_random_log anf_ratio_near anf_ratio_mid anf_ratio_far",
     "func anf_random_normal(p: f64): f64" PURE "{\n"
     "  var q: f64 = p - 0.5f64\n"
     "  if (abs(q) <= 0.425f64) {\n    return q * anf_ratio_near(0.180625f64 - q * q)\n  }\n"
     "  var tail: f64 = select(q < 0.f64, p, 1.f64 - p)\n"
     "  var r: f64 = sqrt(-1.f64 * anf_random_log(tail))\n"
     "  var x: f64 = 0.f64\n"
     "  if (r <= 5.f64) {\n    x = anf_ratio_mid(r - 1.6f64)\n  } else {\n"
     "    x = anf_ratio_far(r - 5.f64)\n  }\n"
     "  return select(q < 0.f64, -1.f64 * x, x)\n}\n"},
    {"anf_sort", NULL, // merge sort from below, stable; `order` receives the numbers
     "func anf_sort(n: index, key: [u64 * n], order: [index * n], other: [index * n]): void "
     "@[is_private] {\n"
     "  for i in (0UL, n, 1UL) {\n    order[i] = i\n  }\n"
     "  var run: index = 1UL\n"
     "  while (run < n) {\n"
     "    var lo: index = 0UL\n"
     "    while (lo < n) {\n"
     "      var mid: index = min(lo + run, n)\n      var hi: index = min(lo + run * 2UL, n)\n"
     "      var l: index = lo\n      var r: index = mid\n"
     "      for k in (lo, hi, 1UL) {\n"
     "        var right: bool = l >= mid\n"
     "        if (l < mid && r < hi) {\n          right = key[order[r]] < key[order[l]]\n        "
     "}\n"
     "        if (right) {\n          other[k] = order[r]\n          r = r + 1UL\n        } else "
     "{\n"
     "          other[k] = order[l]\n          l = l + 1UL\n        }\n      }\n"
     "      lo = hi\n    }\n"
     "    for i in (0UL, n, 1UL) {\n      order[i] = other[i]\n    }\n"
     "    run = run * 2UL\n  }\n}\n"},
    {"anf_least", NULL, // the numbers of the m least, in order; of equal ones the first
     "func anf_least(n: index, m: index, key: [u64 * n], order: [index * m]): void @[is_private] "
     "{\n"
     "  var bound: u64 = 0u64\n"
     "  for i in (0UL, n, 1UL) {\n"
     "    var k: u64 = key[i]\n    var at: index = min(i, m - 1UL)\n"
     "    if (i < m || k < bound) {\n"
     "      var more: bool = at > 0UL\n"
     "      while (more) {\n"
     "        var o: index = order[at - 1UL]\n        more = k < key[o]\n"
     "        if (more) {\n"
     "          order[at] = o\n          at = at - 1UL\n          more = at > 0UL\n        }\n"
     "      }\n"
     "      order[at] = i\n"
     "      if (i + 1UL >= m) {\n        bound = key[order[m - 1UL]]\n      }\n"
     "    }\n  }\n}\n"},
    {"anf_eliminate", NULL, // with row pivots, b along with a; gives the determinant
     "func anf_eliminate(n: index, w: index, na: index, nb: index, a: [f64 * na], b: [f64 * nb]): "
     "f64 @[is_private] {\n"
     "  var det: f64 = 1.f64\n"
     "  for c in (0UL, n, 1UL) {\n"
     "    var p: index = c\n"
     "    for i in (c + 1UL, n, 1UL) {\n"
     "      if (abs(a[i * n + c]) > abs(a[p * n + c])) {\n        p = i\n      }\n    }\n"
     "    var sign: f64 = 1.f64\n"
     "    if (p != c) {\n"
     "      sign = -1.f64\n"
     "      for k in (0UL, n, 1UL) {\n        var t: f64 = a[p * n + k]\n"
     "        a[p * n + k] = a[c * n + k]\n        a[c * n + k] = t\n      }\n"
     "      for k in (0UL, w, 1UL) {\n        var t: f64 = b[p * w + k]\n"
     "        b[p * w + k] = b[c * w + k]\n        b[c * w + k] = t\n      }\n    }\n"
     "    det = det * (sign * a[c * n + c])\n"
     "    for i in (c + 1UL, n, 1UL) {\n"
     "      var f: f64 = 0.f64\n"
     "      if (a[i * n + c] != 0.f64) {\n        f = a[i * n + c] / a[c * n + c]\n      }\n"
     "      for k in (c, n, 1UL) {\n        a[i * n + k] = a[i * n + k] - f * a[c * n + k]\n      "
     "}\n"
     "      for k in (0UL, w, 1UL) {\n        b[i * w + k] = b[i * w + k] - f * b[c * w + k]\n     "
     " }\n"
     "    }\n  }\n  return det\n}\n"},
    {"anf_substitute", NULL, // b becomes the solution of a triangular system
     "func anf_substitute(n: index, w: index, na: index, nb: index, a: [f64 * na], b: [f64 * nb], "
     "lower: bool, transpose: bool, unit: bool): void @[is_private] {\n"
     "  for s in (0UL, n, 1UL) {\n"
     "    var i: index = select(lower, s, n - 1UL - s)\n"
     "    var from: index = select(lower, 0UL, i + 1UL)\n    var to: index = select(lower, i, n)\n"
     "    for k in (0UL, w, 1UL) {\n"
     "      var x: f64 = b[i * w + k]\n"
     "      for j in (from, to, 1UL) {\n"
     "        x = x - a[select(transpose, j * n + i, i * n + j)] * b[j * w + k]\n      }\n"
     "      if (!unit) {\n        x = x / a[i * n + i]\n      }\n"
     "      b[i * w + k] = x\n    }\n  }\n}\n"},
    {"anf_cholesky", NULL, // false if a pivot is not positive
     "func anf_cholesky(n: index, na: index, a: [f64 * na], l: [f64 * na]): bool @[is_private] {\n"
     "  for i in (0UL, na, 1UL) {\n    l[i] = 0.f64\n  }\n"
     "  for i in (0UL, n, 1UL) {\n"
     "    for j in (0UL, i + 1UL, 1UL) {\n"
     "      var x: f64 = a[i * n + j]\n"
     "      for k in (0UL, j, 1UL) {\n        x = x - l[i * n + k] * l[j * n + k]\n      }\n"
     "      if (i == j) {\n"
     "        if (!(x > 0.f64)) {\n          return false\n        }\n"
     "        l[i * n + j] = sqrt(x)\n      } else {\n"
     "        l[i * n + j] = x / l[j * n + j]\n      }\n    }\n  }\n"
     "  return true\n}\n"},
};

static bool is_named(const anfi_helper *h, const char *name, size_t len) {
  return strlen(h->name) == len && memcmp(h->name, name, len) == 0;
}

static const anfi_helper *find(const char *name, size_t len) {
  for (size_t i = 0; i < ANFI_LEN(helpers); i++)
    if (is_named(&helpers[i], name, len)) return &helpers[i];
  const anfi_helper *const math[] = {anfi_low_math32, anfi_low_math_wide, anfi_low_math64,
                                     anfi_low_math_arc64};
  for (size_t i = 0; i < ANFI_LEN(math); i++)
    for (const anfi_helper *h = math[i]; h->name; h++)
      if (is_named(h, name, len)) return h;
  return NULL;
}

/* The functions are parsed together, for they call each other; those that are there stay. */
static void add(anfi_low *L, const anfi_helper *h) {
  anf_text text = {.cx = L->cx};
  for (const char *s = h->needs; s && *s;) {
    size_t n = strcspn(s, " ");
    anfi_puts(&text, find(s, n)->text);
    s += n + (s[n] == ' ');
  }
  anfi_puts(&text, h->text);
  const char *copy = anfi_sprintf(L->a, "%s", text.text);
  anf_text_free(&text);
  tmod *from = anfi_t_parse(L->cx, copy, strlen(copy), h->name);
  if (!from) return;
  tmod *missing = anfi_t_mod_like(from);
  for (size_t i = 0; i < from->func.n; i++) {
    const anfi_str *name = anfi_intern_z(&L->t->names, from->func.at[i]->name->s);
    if (!anfi_t_mod_find(L->m, name)) anfi_t_mod_add(missing, from->func.at[i]);
  }
  anfi_t_import(L->m, missing);
}

texpr anfi_low_help(anfi_low *L, const char *name, tdtype ret, uint32_t n, const texpr *args) {
  if (!anfi_t_mod_find(L->m, anfi_intern_z(&L->t->names, name))) add(L, find(name, strlen(name)));
  return anfi_t_call(L->t, anfi_intern_z(&L->t->names, name), ret, n, args);
}
