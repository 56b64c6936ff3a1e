// SPDX-License-Identifier: Apache-2.0
#include "test/jit/wild.h"
#include "test/tir/values.h"

#include <math.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>

uint64_t wild_lane(tdtype d, uint64_t *s, bool edges) {
  static const double reals[] = {0,
                                 -0.0,
                                 1,
                                 -1,
                                 0.5,
                                 2.5,
                                 -2.5,
                                 3.5,
                                 1e-40,
                                 65504,
                                 65520,
                                 3.4e38,
                                 1e300,
                                 1e-300,
                                 127.5,
                                 128,
                                 -128.5,
                                 255.5,
                                 2147483647.0,
                                 2147483648.0,
                                 -2147483649.0,
                                 4294967296.0,
                                 9.2233720368547758e18,
                                 1.8446744073709552e19,
                                 1e20};
  uint64_t r = next_random(s), k = next_random(s);
  unsigned bits = (unsigned)anfi_t_bytes(d) * 8;
  if (anfi_t_class(d) == TC_BOOL) return r & 1;
  if (anfi_t_is_float(d)) {
    if (edges && k % 8 == 0) return anfi_t_lane_of_f64(d, (double)(r & 1 ? INFINITY : -INFINITY));
    if (edges && k % 8 == 1) return anfi_t_lane_of_f64(d, (double)NAN);
    if (edges && k % 8 < 5) return anfi_t_lane_of_f64(d, reals[r % ANFI_LEN(reals)]);
    return anfi_t_lane_of_f64(d, ((double)(r >> 40) / 16777216.0 - 0.5) * 8);
  }
  if (!edges) return anfi_t_lane_of_i64(d, (int64_t)(r % 8));
  if (k % 4 == 0) return r >> (64 - bits);
  if (k % 4 == 1) return UINT64_C(1) << (bits - 1);             // the least
  if (k % 4 == 2) return (UINT64_C(1) << (bits - 1)) - (r & 1); // the greatest
  return anfi_t_lane_of_i64(d, (int64_t)(r % 7) - 3);
}

typedef struct text {
  char *s;
  size_t n, cap;
  unsigned made;
} text;

static void out(text *t, const char *fmt, ...) {
  char buf[4096];
  va_list ap;
  va_start(ap, fmt);
  int len = vsnprintf(buf, sizeof buf, fmt, ap);
  va_end(ap);
  size_t n = len > 0 ? (size_t)len : 0;
  if (t->n + n + 1 > t->cap) t->s = (char *)realloc(t->s, t->cap = t->cap * 2 + n + 4096);
  memcpy(t->s + t->n, buf, n + 1);
  t->n += n;
}

static const char *const numbers[] = {"s8",  "s16",   "s32", "s64",  "u8",  "u16", "u32",
                                      "u64", "index", "f16", "bf16", "f32", "f64"};
static bool is_float(const char *t) { return t[0] == 'f' || t[0] == 'b'; }

/* What `form` says of elements a, b, c of type `from`: alone, and of 8 lanes at once. */
static void elementwise(text *t, const char *name, const char *to, const char *from,
                        const char *form) {
  char scalar[200], lanes[200], *dst[] = {scalar, lanes};
  for (int v = 0; v < 2; v++) {
    char *p = dst[v];
    for (const char *f = form; *f; f++) {
      if (*f == '$') p += sprintf(p, "%c[%s]", *++f, v ? "0UL @ 8" : "i");
      else if (*f == '~') p += sprintf(p, "%s%s", to, v ? "x8" : "");
      else *p++ = *f;
    }
    *p = 0;
  }
  out(t, "func %s_%s_%s_%u(a: [%s * 8], b: [%s * 8], c: [%s * 8], r: [%s * 16]): void {\n", name,
      to, from, t->made++, from, from, from, to);
  out(t, "  for i in (0UL, 8UL, 1UL) {\n    r[i] = %s\n  }\n  r[8UL @ 8] = %s\n}\n", scalar, lanes);
}

static void arithmetic(text *t) {
  static const char *const ops[] = {"$a + $b", "$a - $b", "$a * $b", "$a / $b", "$a % $b"};
  static const char *const tests[] = {"$a == $b", "$a != $b", "$a < $b",
                                      "$a <= $b", "$a > $b",  "$a >= $b"};
  for (size_t k = 0; k < ANFI_LEN(numbers); k++) {
    const char *d = numbers[k];
    for (size_t i = 0; i < ANFI_LEN(ops); i++) elementwise(t, "bin", d, d, ops[i]);
    for (size_t i = 0; i < ANFI_LEN(tests); i++) elementwise(t, "cmp", "bool", d, tests[i]);
    elementwise(t, "select", d, d, "select(($a < $b), $b, $c)");
  }
  for (size_t i = 0; i < 3; i++) elementwise(t, "bin", "bool", "bool", ops[i]);
  elementwise(t, "logic", "bool", "bool", "(($a && $b) || !($c))");
  elementwise(t, "bits", "bool", "bool", "int_xor(int_and($a, $b), int_not($c))");
}

static void casts(text *t) {
  for (size_t k = 0; k < ANFI_LEN(numbers); k++)
    for (size_t i = 0; i < ANFI_LEN(numbers); i++) {
      if (i == k) continue;
      elementwise(t, "cast", numbers[k], numbers[i], "~($a)");
      if (is_float(numbers[k])) continue; // these two are casts then
      if ((i + k) % 2 || is_float(numbers[i]))
        elementwise(t, "sat", numbers[k], numbers[i], "saturated_cast<~>($a)");
      if ((i + k) % 4 == 0)
        elementwise(t, "round", numbers[k], numbers[i], "round_and_cast<~>($a)");
    }
  for (size_t k = 0; k < ANFI_LEN(numbers); k++) {
    elementwise(t, "cast", "bool", numbers[k], "~($a)");
    elementwise(t, "cast", numbers[k], "bool", "~($a)");
    elementwise(t, "sat", "bool", numbers[k], "saturated_cast<~>($a)");
    elementwise(t, "cast", "generic", numbers[k], "~($a)");
    elementwise(t, "cast", numbers[k], "generic", "~($a)");
  }
  static const char *const same[][2] = {{"f32", "s32"},  {"u32", "f32"}, {"f64", "u64"},
                                        {"s64", "f64"},  {"f16", "u16"}, {"s16", "bf16"},
                                        {"bf16", "f16"}, {"s8", "u8"}};
  for (size_t k = 0; k < ANFI_LEN(same); k++)
    elementwise(t, "reinterpret", same[k][0], same[k][1], "reinterpret<~>($a)");
}

static void intrinsics(text *t) {
  static const char *const args[] = {"", "($a)", "($a, $b)", "($a, $b, $c)"};
  for (int i = 0; i < TI_COUNT; i++) {
    const tintrin_info *in = &anfi_t_intrins[i];
    bool bits = i >= TI_int_and && i <= TI_shr;
    char form[64];
    if (!anfi_t_lanewise((tintrin)i)) continue;
    snprintf(form, sizeof form, "%s%s", in->name, args[in->lo]);
    for (size_t k = 0; k < ANFI_LEN(numbers); k++) {
      bool real = is_float(numbers[k]);
      if (in->purity != TP_PURE && ((size_t)i + k) % 2 && !real) continue;
      if (bits ? real : !real && in->purity != TP_PURE && k % 5) continue;
      elementwise(t, in->name, in->typing == TT_BOOLS ? "bool" : numbers[k], numbers[k], form);
    }
  }
}

static void across_lanes(text *t) {
  static const char *const some[] = {"s32", "u8", "f32", "bf16", "s64"};
  for (size_t k = 0; k < ANFI_LEN(some); k++) {
    const char *d = some[k];
    out(t, "func lanes_%s(a: [%s * 8], b: [%s * 8], p: [u32 * 8], r: [%s * 128]): void {\n", d, d,
        d, d);
    out(t, "  r[0UL] = reduce_add(a[0UL @ 8])\n  r[1UL] = reduce_mul(a[0UL @ 8])\n"
           "  r[2UL] = reduce_max(a[0UL @ 8])\n  r[3UL] = reduce_min(a[0UL @ 8])\n");
    out(t, "  r[8UL @ 8] = unpack_low(a[0UL @ 8], b[0UL @ 8], 1)\n"
           "  r[16UL @ 8] = unpack_high(a[0UL @ 8], b[0UL @ 8], 2)\n");
    out(t, "  r[24UL @ 8] = shuffle<%sx8>(a[0UL @ 8], b[0UL @ 8], 3, 9, 15, 0, 7, 8, 1, 1)\n", d);
    out(t, "  r[32UL @ 4] = permute<%sx4>(a[0UL @ 8], 7, 0, 3, 3)\n", d);
    out(t, "  r[40UL @ 8] = permutexvar<%sx8>(p[0UL @ 8], a[0UL @ 8])\n", d);
    out(t, "  r[48UL @ 8] = permutex2var<%sx8>(a[0UL @ 8], p[0UL @ 8], b[0UL @ 8])\n", d);
    out(t, "  r[56UL @ 8] = insert<%sx8>(a[0UL @ 8], b[0UL @ 4], 2)\n", d);
    out(t, "  r[64UL @ 8] = insert<%sx8>(a[0UL @ 8], b[0UL], 7)\n", d);
    out(t, "  r[72UL @ 4] = extract<%sx4>(a[0UL @ 8], 4)\n  r[76UL] = extract<%s>(a[0UL @ 8], 6)\n",
        d, d);
    out(t, "  r[80UL @ 8] = broadcast<%sx8>(a[1UL])\n  r[88UL @ 8] = broadcast<%sx8>(a[2UL @ 4])\n",
        d, d);
    out(t, "  r[96UL @ 8] = gather<%sx8>(&a[0UL], int_and(p[0UL @ 8], (7u32 x 8)))\n", d);
    out(t,
        "  r[104UL @ 8 M= (a[0UL @ 8] < b[0UL @ 8])] = a[0UL @ 8 M= (p[0UL @ 8] < (9u32 x 8))]\n");
    out(t, "  r[112UL @ 4] = read_struct<%sx4>(&a[0UL], %zu)\n", d, (size_t)1 << (k % 3));
    out(t, "  evaluate{write_struct(&r[120UL], b[0UL @ 4], 1)}\n}\n");
    out(t,
        "func tile_%s(a: [%s * 6 * 10], r: [%s * 8 * 12]): void {\n"
        "  r[1UL, 2UL @ 4x3] = (a[2UL, 5UL @ 4x3] + a[0UL, 0UL @ 4x3])\n}\n",
        d, d, d);
  }
}

/* Loops at the ends of the types, closures, order of effects, brgemm. */
static const char special[] =
    "public tensor G: [s32 * 4] = {1, 2, 3, 4}\n"
    "func bump(i: s32): s32 @[is_private] {\n  G[i] = (G[i] + 1)\n  return (G[i] * 10)\n}\n"
    "func order(r: [s32 * 8]): void {\n"
    "  G[0] = 5\n"
    "  r[0] = (G[0] + (bump(0) + G[0]))\n"
    "  r[1] = ((bump(1) * 3) - bump(1))\n"
    "  var t: bool = ((G[2] > 100) && (bump(2) > 0))\n"
    "  r[2] = G[2]\n"
    "  if ((G[2] > 0) || (bump(2) > 0)) {\n    r[3] = G[2]\n  }\n"
    "  var n: s32 = 0\n"
    "  while ((bump(3) < 90) && (n < 20)) {\n    n = (n + 1)\n  }\n"
    "  r[4] = n\n  r[(bump(0) % 8)] = bump(0)\n"
    "  G[0] = 1\n  G[1] = 2\n  G[2] = 3\n  G[3] = 4\n}\n"
    "func loops(r: [s64 * 8], s: s32): void {\n"
    "  var n: s64 = 0s64\n"
    "  for i in (2147483640, 2147483647, 3) {\n    n = (n + s64(i))\n  }\n  r[0] = n\n"
    "  for i in (250u8, 255u8, 2u8) {\n    n = (n + s64(i))\n  }\n  r[1] = n\n"
    "  for i in (-128s8, 127s8, 5s8) {\n    n = (n + s64(i))\n  }\n  r[2] = n\n"
    "  var e: s32 = 10\n  for i in (0, e, (s + 1)) {\n    e = 3\n    n = (n + s64(i))\n  }\n"
    "  r[3] = n\n"
    "  for i in (5, -5, 1) {\n    n = 0s64\n  }\n  r[4] = n\n"
    "  for i in (-9223372036854775807s64, 9223372036854775807s64, 4611686018427387904s64) {\n"
    "    n = (n + i)\n  }\n  r[5] = n\n}\n"
    "func twice(x: f32): f32 @[is_private] {\n  return (x * 2.f)\n}\n"
    "func half(x: f32): f32 @[is_private] {\n  return (x / 2.f)\n}\n"
    "func pick(x: f32, n: s32): f32 {\n"
    "  var p: void* = &twice\n  if (n > 3) {\n    p = &half\n  }\n"
    "  return (call(p: f32, x) + call(p: f32, 3.f))\n}\n"
    "func count(n: s64, acc: s64): s64 {\n  if (n < 1s64) {\n    return acc\n  }\n"
    "  return count((n - 1s64), (acc + n))\n}\n"
    "func deep(n: s32): s64 {\n  return count((s64(n) + 300000s64), 0s64)\n}\n"
    "func dims(n: s32, a: [f32 * 4 * 4], r: [f32 * 64]): void {\n"
    "  var m: index = (index(n) + 1UL)\n"
    "  tensor T: [f32 * 4UL * m] = {1.5f}\n"
    "  tensor V: [f32 * 2 * 2 : 8 * 2] = &a[0, 1]\n"
    "  T[2UL, (m - 1UL)] = V[1, 1]\n"
    "  for i in (0UL, 4UL, 1UL) {\n    r[i] = T[i, 0UL]\n  }\n"
    "  r[8] = T[2UL, index(n)]\n}\n"
    "func gemm(a: [f32 * 2 * 3 * 4], b: [f32 * 2 * 4 * 5], bias: [f32 * 5], c: [f32 * 3 * 5]): "
    "void {\n"
    "  evaluate{brgemm(&a[0, 0, 0], &b[0, 0, 0], &c[0, 0], 2, 3, 5, 4, 4, 5, 5, 12, 20, &bias[0])"
    " @[init=1, post_bias, post_relu]}\n}\n"
    "func wide(a: [s32 * 8]): s32 {\n"
    "  tensor B: [s32 * 5000] = {7}\n  B[4999] = a[0]\n  return (B[4999] + B[0])\n}\n"
    "func quotient(a: s32, b: s32, c: s32): s32 {\n  return select((b > 3), a, (a / (b - c)))\n}\n";

char *wild_operations(void) {
  text t = {.s = NULL};
  arithmetic(&t);
  casts(&t);
  intrinsics(&t);
  across_lanes(&t);
  out(&t, "%s", "");
  for (const char *s = special; *s;) { // longer than the buffer of out
    size_t n = strlen(s) < 2000 ? strlen(s) : 2000;
    out(&t, "%.*s", (int)n, s);
    s += n;
  }
  return t.s;
}

/* Copies the text of a module with the names of its functions and globals made its own. */
static void rename_into(text *t, const char *s, uint64_t seed) {
  static const char *const names[] = {"helper0", "helper1",  "f0", "poke", "spread",
                                      "deep",    "opposite", "G0", "G1"};
  while (*s) {
    size_t n = 0, k = 0;
    while (isalnum((unsigned char)s[n]) || s[n] == '_') n++;
    while (k < ANFI_LEN(names) && (strlen(names[k]) != n || strncmp(s, names[k], n) != 0)) k++;
    if (k < ANFI_LEN(names)) out(t, "m%llu_", (unsigned long long)seed);
    if (!n) n = 1;
    out(t, "%.*s", (int)n, s);
    s += n;
  }
}

char *wild_random(uint64_t first, unsigned n) {
  text t = {.s = NULL};
  for (uint64_t s = first; s < first + n; s++) {
    char *m = random_module(s, 6 + (unsigned)(s % 25), s % 8 == 7);
    rename_into(&t, m, s);
    free(m);
  }
  return t.s;
}
