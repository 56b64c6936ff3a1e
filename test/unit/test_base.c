// SPDX-License-Identifier: Apache-2.0
/* base/: arenas, containers, conversions, number text, diagnostics, frames, files. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/os/map.h"

#include <float.h>
#include <math.h>

#include "fault.h"
#include "folder.h"

static anf_ctx *cx;

static int setup(void **state) {
  (void)state;
  cx = anf_ctx_new(NULL);
  return cx ? 0 : -1;
}

static int teardown(void **state) {
  (void)state;
  anf_ctx_free(cx);
  return 0;
}

/* A fixed sequence of numbers: splitmix64. */
static uint64_t random_state;
static uint64_t next_random(void) {
  uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

/* ---- memory ---- */

/* Blocks of all sizes keep what is written to them, are aligned, and are given back. */
static anf_status arena_blocks(anf_ctx *c, void *user) {
  enum { N = 300 };
  (void)user;
  ANFI_ENTRY(c, NULL);
  anfi_arena *a = anfi_scratch(c);
  static unsigned char *at[N];
  static size_t size[N];
  random_state = 1;
  for (size_t i = 0; i < N; i++) {
    size[i] = (size_t)(next_random() % (i % 10 == 0 ? 20000 : 200));
    at[i] = (unsigned char *)anfi_alloc(a, size[i]);
    memset(at[i], (int)(i & 255), size[i]);
    assert_int_equal((uintptr_t)at[i] % 16, 0);
  }
  for (size_t i = 0; i < N; i++)
    for (size_t j = 0; j < size[i]; j++) assert_int_equal(at[i][j], i & 255);
  return anfi_leave(c);
}

static void test_arena(void **state) {
  (void)state;
  size_t before = anf_ctx_bytes(cx);
  assert_int_equal(arena_blocks(cx, NULL), ANF_OK);
  assert_int_equal(anf_ctx_bytes(cx), before);
}

static void test_arena_faults(void **state) {
  (void)state;
  assert_true(fault_loop(arena_blocks, NULL) > 0);
}

/* Growing interleaved vectors, so that blocks are extended in place, moved, and become large. */
static anf_status vectors(anf_ctx *c, void *user) {
  enum { V = 7, N = 3000 };
  (void)user;
  ANFI_ENTRY(c, NULL);
  anfi_arena *a = anfi_scratch(c);
  typedef ANFI_VEC(uint64_t) vec;
  vec *v = ANFI_NEW_N(a, vec, V);
  for (uint64_t i = 0; i < N; i++) {
    for (uint64_t k = 0; k < V; k++)
      if (i % (k + 1) == 0) anfi_push(a, &v[k], i * V + k);
  }
  for (uint64_t k = 0; k < V; k++) {
    assert_int_equal(v[k].n, (N + k) / (k + 1));
    for (uint64_t j = 0; j < v[k].n; j++) assert_int_equal(v[k].at[j], j * (k + 1) * V + k);
  }
  return anfi_leave(c);
}

static void test_vectors(void **state) {
  (void)state;
  assert_true(fault_loop(vectors, NULL) > 0);
}

/* A size whose product or round-up overflows is out of memory, not a small block. */
static anf_status huge(anf_ctx *c, size_t n, size_t elem) {
  ANFI_ENTRY(c, NULL);
  anfi_arena *a = anfi_scratch(c);
  anfi_alloc(a, anfi_size_mul(c, n, elem));
  return anfi_leave(c);
}

static void test_size_overflow(void **state) {
  (void)state;
  anf_ctx_opts o = {.size = sizeof o, .max_bytes = 1 << 20};
  anf_ctx *small = anf_ctx_new(&o);
  assert_non_null(small);
  assert_int_equal(huge(small, SIZE_MAX / 2, 3), ANF_NOMEM);
  assert_int_equal(huge(small, SIZE_MAX / 8, 4), ANF_LIMIT);
  assert_int_equal(huge(small, 2 << 20, 1), ANF_LIMIT);
  assert_string_equal(anf_diag_at(anf_ctx_diag(small), 0)->code, "E0871");
  assert_non_null(strstr(anf_diag_at(anf_ctx_diag(small), 0)->message, "1048576"));
  assert_int_equal(huge(small, 1000, 4), ANF_OK);
  anf_ctx_free(small);
}

/* ---- containers ---- */

static anf_status strings(anf_ctx *c, void *user) {
  enum { N = 500 };
  (void)user;
  ANFI_ENTRY(c, NULL);
  anfi_arena *a = anfi_scratch(c);
  anfi_strtab t;
  anfi_strtab_init(&t, a);
  assert_null(anfi_interned(&t, "x", 1));
  const anfi_str **first = ANFI_NEW_N(a, const anfi_str *, N);
  for (uint32_t i = 0; i < N; i++) first[i] = anfi_intern_z(&t, anfi_sprintf(a, "name%u", i));
  for (uint32_t i = 0; i < N; i++) {
    const char *name = anfi_sprintf(a, "name%u", i);
    assert_ptr_equal(anfi_intern_z(&t, name), first[i]);
    assert_ptr_equal(anfi_interned(&t, name, strlen(name)), first[i]);
    assert_int_equal(first[i]->id, i);
    assert_ptr_equal(t.all.at[i], first[i]);
    assert_string_equal(first[i]->s, name);
  }
  assert_null(anfi_interned(&t, "name", 4));
  const anfi_str *with_nul = anfi_intern(&t, "a\0b", 3);
  assert_int_equal(with_nul->len, 3);
  assert_ptr_not_equal(with_nul, anfi_intern(&t, "a", 1));
  assert_int_equal(anfi_intern(&t, "", 0)->len, 0);
  return anfi_leave(c);
}

static void test_strings(void **state) {
  (void)state;
  assert_true(fault_loop(strings, NULL) > 0);
}

static anf_status map_works(anf_ctx *c, void *user) {
  enum { N = 2000 };
  (void)user;
  ANFI_ENTRY(c, NULL);
  anfi_map m;
  anfi_map_init(&m, anfi_scratch(c));
  assert_null(anfi_map_find(&m, 0));
  random_state = 2;
  for (uint64_t i = 0; i < N; i++) *anfi_map_at(&m, i % 2 ? next_random() : i << 32) += i;
  assert_int_equal(m.n, N);
  random_state = 2;
  for (uint64_t i = 0; i < N; i++) {
    uint64_t *v = anfi_map_find(&m, i % 2 ? next_random() : i << 32);
    assert_non_null(v);
    assert_int_equal(*v, i);
  }
  assert_null(anfi_map_find(&m, 12345));
  assert_int_equal(*anfi_map_at(&m, 12345), 0);
  *anfi_map_at(&m, UINT64_MAX) = 7;
  assert_int_equal(*anfi_map_find(&m, UINT64_MAX), 7);
  return anfi_leave(c);
}

static void test_map(void **state) {
  (void)state;
  assert_true(fault_loop(map_works, NULL) > 0);
}

/* ---- f16 and bf16: an independent reference by values, not by bit tricks ---- */

/* The value of a format with `e` exponent and `f` fraction bits, by its definition. */
static double decode(uint32_t bits, int e, int f) {
  uint32_t sign = bits >> (e + f), exp = (bits >> f) & ((1u << e) - 1),
           frac = bits & ((1u << f) - 1);
  int bias = (1 << (e - 1)) - 1;
  double v;
  if (exp == (1u << e) - 1) v = frac ? (double)NAN : (double)INFINITY;
  else if (exp == 0) v = ldexp((double)frac, 1 - bias - f);
  else v = ldexp((double)(frac | 1u << f), (int)exp - bias - f);
  return sign ? -v : v;
}

/* The nearest of all values of the format, ties to the even pattern: by bisection over the
 * patterns, whose order is that of their values. */
static uint16_t nearest(double d, int e, int f) {
  uint16_t sign = signbit(d) ? 0x8000 : 0;
  uint32_t lo = 0, hi = ((1u << e) - 1) << f;         // infinity
  double x = fabs(d), top = ldexp(1.0, 1 << (e - 1)); // what infinity would be if it were finite
  if (isinf(d)) return (uint16_t)(sign | hi);
  while (hi - lo > 1) {
    uint32_t mid = (lo + hi) / 2;
    if (decode(mid, e, f) <= x) lo = mid;
    else hi = mid;
  }
  double below = decode(lo, e, f), above = isinf(decode(hi, e, f)) ? top : decode(hi, e, f);
  double down = x - below, up = above - x; // exact, or far from a tie
  bool take_up = up < down || (up == down && (hi & 1) == 0);
  return (uint16_t)(sign | (take_up ? hi : lo));
}

static float float_bits(uint32_t u) {
  float f;
  memcpy(&f, &u, 4);
  return f;
}

static double double_bits(uint64_t u) {
  double d;
  memcpy(&d, &u, 8);
  return d;
}

static void check_half(double d, bool is_float) {
  if (isnan(d)) {
    assert_true(isnan(anfi_f16_to_f32(anfi_f64_to_f16(d))));
    assert_true(isnan(anfi_bf16_to_f32(anfi_f64_to_bf16(d))));
    if (!is_float) return;
    assert_true(isnan(anfi_f16_to_f32(anfi_f32_to_f16((float)d))));
    assert_true(isnan(anfi_bf16_to_f32(anfi_f32_to_bf16((float)d))));
    return;
  }
  uint16_t h = nearest(d, 5, 10), b = nearest(d, 8, 7);
  if (anfi_f64_to_f16(d) != h || anfi_f64_to_bf16(d) != b) print_message("# at %a\n", d);
  assert_int_equal(anfi_f64_to_f16(d), h);
  assert_int_equal(anfi_f64_to_bf16(d), b);
  if (!is_float) return;
  assert_int_equal(anfi_f32_to_f16((float)d), h);
  assert_int_equal(anfi_f32_to_bf16((float)d), b);
}

static void test_half_decode(void **state) {
  (void)state;
  for (uint32_t u = 0; u < 65536; u++) {
    double h = decode(u, 5, 10), b = decode(u, 8, 7);
    float gh = anfi_f16_to_f32((uint16_t)u), gb = anfi_bf16_to_f32((uint16_t)u);
    assert_int_equal(isnan(h), isnan(gh));
    assert_int_equal(isnan(b), isnan(gb));
    if (!isnan(h)) assert_true((double)gh == h && !signbit(gh) == !signbit(h));
    if (!isnan(b)) assert_true((double)gb == b && !signbit(gb) == !signbit(b));
  }
}

/* Every f16 and bf16 value, its neighbours among f32 and f64, and the ties between values. */
static void test_half_encode_near(void **state) {
  (void)state;
  for (uint32_t u = 0; u < 65536; u++) {
    double v[2] = {decode(u, 5, 10), decode(u, 8, 7)};
    double w[2] = {decode((u + 1) & 0xffff, 5, 10), decode((u + 1) & 0xffff, 8, 7)};
    for (int k = 0; k < 2; k++) {
      if (!isfinite(v[k])) continue;
      check_half(v[k], true);
      check_half(nextafter(v[k], INFINITY), false);
      check_half(nextafter(v[k], -INFINITY), false);
      if (!isfinite(w[k]) || u == 0x7fff) continue;
      double tie = v[k] / 2 + w[k] / 2;
      check_half(tie, (double)(float)tie == tie);
      check_half((double)nextafterf((float)tie, INFINITY), true);
      check_half((double)nextafterf((float)tie, -INFINITY), true);
      check_half(nextafter(tie, INFINITY), false);
      check_half(nextafter(tie, -INFINITY), false);
    }
  }
}

static void test_half_encode_random(void **state) {
  (void)state;
  random_state = 3;
  for (int i = 0; i < 200000; i++) {
    uint64_t r = next_random();
    check_half((double)float_bits((uint32_t)r), true);
    check_half(double_bits(r), false);
    // the exponents of f16 and around, where random f64 bits rarely fall
    check_half(ldexp((double)(int64_t)r, (int)(next_random() % 60) - 92), false);
  }
  check_half((double)INFINITY, true);
  check_half(-(double)INFINITY, true);
  check_half((double)NAN, true);
  check_half(65519.999, false);
  check_half(65520.0, true);
  check_half(DBL_MAX, false);
  check_half((double)FLT_MAX, true);
  check_half(DBL_TRUE_MIN, false);
}

/* ---- numbers as text ---- */

static anf_status put_numbers(anf_text *t, double d, float f, int64_t i, uint64_t u) {
  ANFI_ENTRY(t->cx, NULL);
  anfi_put_f64(t, d);
  anfi_putc(t, ' ');
  anfi_put_f32(t, f);
  anfi_putc(t, ' ');
  anfi_put_i64(t, i);
  anfi_putc(t, ' ');
  anfi_put_u64(t, u);
  return anfi_leave(t->cx);
}

static void check_numbers(double d, float f, int64_t i, uint64_t u) {
  anf_text t = {.cx = cx};
  assert_int_equal(put_numbers(&t, d, f, i, u), ANF_OK);
  char *p = t.text;
  double d2 = strtod(p, &p);
  float f2 = strtof(p, &p);
  assert_true(isnan(d) ? isnan(d2) : d2 == d && !signbit(d2) == !signbit(d));
  assert_true(isnan(f) ? isnan(f2) : f2 == f && !signbit(f2) == !signbit(f));
  assert_int_equal(strtoll(p, &p, 10), i);
  assert_int_equal(strtoull(p, &p, 10), u);
  assert_int_equal(*p, 0);
  anf_text_free(&t);
}

static void test_number_round_trip(void **state) {
  (void)state;
  random_state = 4;
  for (int i = 0; i < 100000; i++) {
    uint64_t r = next_random();
    check_numbers(double_bits(r), float_bits((uint32_t)(r >> 13)), (int64_t)r, r);
  }
  check_numbers(0.0, 0.0f, 0, 0);
  check_numbers(-0.0, -0.0f, INT64_MIN, UINT64_MAX);
  check_numbers(DBL_MAX, FLT_MAX, INT64_MAX, 1);
  check_numbers(DBL_TRUE_MIN, FLT_TRUE_MIN, -1, 10);
  check_numbers((double)INFINITY, -INFINITY, 9, 9);
  check_numbers((double)NAN, NAN, 0, 0);
}

static void expect_f64(double d, const char *text) {
  anf_text t = {.cx = cx};
  assert_int_equal(put_numbers(&t, d, 0, 0, 0), ANF_OK);
  *strchr(t.text, ' ') = 0;
  assert_string_equal(t.text, text);
  anf_text_free(&t);
}

static void expect_f32(float f, const char *text) {
  anf_text t = {.cx = cx};
  assert_int_equal(put_numbers(&t, 0, f, 0, 0), ANF_OK);
  char *p = strchr(t.text, ' ') + 1;
  *strchr(p, ' ') = 0;
  assert_string_equal(p, text);
  anf_text_free(&t);
}

static void test_number_text(void **state) {
  (void)state;
  expect_f64(0.1, "0.1");
  expect_f64(1.0, "1.0");
  expect_f64(-0.0, "-0.0");
  expect_f64(1e300, "1e+300");
  expect_f64(1.0 / 3, "0.3333333333333333");
  expect_f64(5e-324, "5e-324"); // the shortest, not the first fifteen digits
  expect_f64(123456789.0, "123456789.0");
  expect_f64(-(double)INFINITY, "-inf");
  expect_f32(0.1f, "0.1");
  expect_f32(16777216.0f, "16777216.0");
  expect_f32(1e-45f, "1e-45");
  expect_f32(3.4028235e38f, "3.4028235e+38");
}

static anf_status text_grows(anf_ctx *c, void *user) {
  (void)user;
  anf_text t = {.cx = c};
  ANFI_ENTRY_ELSE(c, NULL, (anf_text_free(&t), ANF_NOMEM));
  for (int i = 0; i < 2000; i++)
    anfi_putf(&t, "%d,%s", i, i % 100 ? "" : "a longer piece of text\n");
  assert_int_equal(strlen(t.text), t.len);
  anf_text_free(&t);
  return anfi_leave(c);
}

static void test_text_grows(void **state) {
  (void)state;
  assert_int_equal(text_grows(cx, NULL), ANF_OK);
}

/* ---- UTF-8: all code points, and everything that is none ---- */

static size_t encode(uint32_t c, unsigned char *s) {
  if (c < 0x80) return s[0] = (unsigned char)c, 1;
  if (c < 0x800)
    return s[0] = (unsigned char)(0xc0 | c >> 6), s[1] = (unsigned char)(0x80 | (c & 63)), 2;
  if (c < 0x10000) {
    s[0] = (unsigned char)(0xe0 | c >> 12);
    s[1] = (unsigned char)(0x80 | (c >> 6 & 63));
    s[2] = (unsigned char)(0x80 | (c & 63));
    return 3;
  }
  s[0] = (unsigned char)(0xf0 | c >> 18);
  s[1] = (unsigned char)(0x80 | (c >> 12 & 63));
  s[2] = (unsigned char)(0x80 | (c >> 6 & 63));
  s[3] = (unsigned char)(0x80 | (c & 63));
  return 4;
}

static void test_utf8_valid(void **state) {
  (void)state;
  for (uint32_t c = 0; c < 0x110000; c++) {
    unsigned char s[4];
    size_t n = encode(c, s), got = anfi_utf8_len((const char *)s, n);
    bool surrogate = c >= 0xd800 && c < 0xe000;
    assert_int_equal(got, surrogate ? 0 : n);
    if (n > 1) assert_int_equal(anfi_utf8_len((const char *)s, n - 1), 0);
  }
}

static void test_utf8_invalid(void **state) {
  (void)state;
  static const char *const bad[] = {"\x80",
                                    "\xbf",
                                    "\xc0\x80",
                                    "\xc1\xbf",
                                    "\xe0\x80\x80",
                                    "\xe0\x9f\xbf",
                                    "\xed\xa0\x80",
                                    "\xf0\x80\x80\x80",
                                    "\xf0\x8f\xbf\xbf",
                                    "\xf4\x90\x80\x80",
                                    "\xf5\x80\x80\x80",
                                    "\xff",
                                    "\xc3\x28",
                                    "\xe2\x28\xa1",
                                    "\xe2\x82\x28",
                                    "\xf0\x28\x8c\xbc"};
  for (size_t i = 0; i < ANFI_LEN(bad); i++)
    assert_int_equal(anfi_utf8_len(bad[i], strlen(bad[i])), 0);
  assert_int_equal(anfi_utf8_len("", 0), 0);
}

/* ---- frames and diagnostics ---- */

static int cleanups;
static void count_cleanup(void *arg) { cleanups = cleanups * 10 + *(int *)arg; }

static anf_status with_cleanups(bool fail) {
  static int one = 1, two = 2;
  ANFI_ENTRY(cx, NULL);
  anfi_defer(cx, ANFI_ALWAYS, count_cleanup, &one);
  anfi_defer(cx, ANFI_ON_FAIL, count_cleanup, &two);
  if (fail) anfi_throw_nomem(cx);
  return anfi_leave(cx);
}

static void test_cleanups(void **state) {
  (void)state;
  cleanups = 0;
  assert_int_equal(with_cleanups(false), ANF_OK);
  assert_int_equal(cleanups, 1);
  cleanups = 0;
  assert_int_equal(with_cleanups(true), ANF_NOMEM);
  assert_int_equal(cleanups, 21); // last first
}

static anf_status record_errors(anf_ctx *c, anf_diag *d, int n) {
  ANFI_ENTRY(c, d);
  for (int i = 0; i < n; i++) {
    anfi_fail(c, (anfi_loc){"file.anf", (uint32_t)i + 1, 3}, ANF_E0002, "argument");
    assert_int_equal(anfi_more_errors(c), i + 1 < 20);
    anfi_note(c, anfi_nowhere(), "note %d", i);
    anfi_hint(c, "hint %d", i);
  }
  return anfi_leave(c);
}

static void test_diag_limit(void **state) {
  (void)state;
  anf_diag *d = anf_diag_new(cx);
  assert_int_equal(record_errors(cx, d, 1000), ANF_INVALID);
  size_t errors = 0, n = anf_diag_count(d);
  for (size_t i = 0; i < n; i++) errors += anf_diag_at(d, i)->severity == ANF_ERROR;
  assert_int_equal(errors, 20);
  assert_int_equal(n, 41); // 20 errors with a note each, and the word that there were more
  const anf_diag_item *last = anf_diag_at(d, n - 1);
  assert_string_equal(last->code, "E0003");
  assert_string_equal(last->message, "more than 20 errors; the rest is not shown");
  assert_null(anf_diag_at(d, n));
  anf_diag_clear(d);
  assert_int_equal(anf_diag_count(d), 0);
  assert_int_equal(record_errors(cx, d, 1), ANF_INVALID);
  assert_int_equal(anf_diag_count(d), 2);
  assert_string_equal(anf_diag_at(d, 1)->hint, "hint 0");
  anf_diag_free(d);
}

static anf_status diag_work(anf_ctx *c, void *user) {
  (void)user;
  anf_diag *d = anf_diag_new(c);
  if (!d) return ANF_NOMEM;
  anf_status st = record_errors(c, d, 30);
  bool short_of_memory = st == ANF_NOMEM || anf_diag_count(d) != 41;
  for (size_t i = 0; i < anf_diag_count(d); i++) short_of_memory |= !anf_diag_at(d, i)->hint;
  anf_diag_free(d);
  return st == ANF_INVALID && !short_of_memory ? ANF_OK : ANF_NOMEM;
}

static void test_diag_faults(void **state) {
  (void)state;
  assert_true(fault_loop(diag_work, NULL) > 0);
}

static anf_status fail_in_source(anf_diag *d, const char *text, uint32_t line, uint32_t col) {
  ANFI_ENTRY(cx, d);
  anfi_source_add(cx, "a.anf", text, strlen(text));
  anfi_fail(cx, (anfi_loc){"a.anf", line, col}, ANF_E0002, "x");
  anfi_hint(cx, "give one");
  anfi_source_remove(cx, "a.anf");
  return anfi_leave(cx);
}

static void expect_print(const char *text, uint32_t line, uint32_t col, const char *expected) {
  anf_diag *d = anf_diag_new(cx);
  fail_in_source(d, text, line, col);
  char *out = NULL;
  size_t n = 0;
  FILE *f = open_memstream(&out, &n);
  anf_diag_print(d, f, false);
  fclose(f);
  assert_string_equal(out, expected);
  free(out);
  anf_diag_free(d);
}

static void test_diag_print(void **state) {
  (void)state;
  expect_print(
      "one\ntwo three\nfour", 2, 5,
      "a.anf:2:5: error E0002: x must not be NULL\n  two three\n      ^\n  hint: give one\n");
  expect_print(
      "\tif ✓x", 1, 6, // columns count characters, tabs stay
      "a.anf:1:6: error E0002: x must not be NULL\n  \tif ✓x\n  \t    ^\n  hint: give one\n");
  expect_print("x", 9, 1, "a.anf:9:1: error E0002: x must not be NULL\n  hint: give one\n");
}

static void test_explain(void **state) {
  (void)state;
  assert_non_null(anf_explain("E0001"));
  assert_null(anf_explain("E9999"));
  assert_null(anf_explain(""));
}

static bool stop_at_half(void *user, const char *what, double done) {
  (void)what;
  ++*(int *)user;
  return done < 0.5;
}

static anf_status long_work(anf_ctx *c, anf_diag *d) {
  ANFI_ENTRY(c, d);
  for (int i = 0; i <= 100; i++)
    if (!anfi_go_on(c, "counting", i / 100.0)) break;
  return anfi_leave(c);
}

static void test_cancel(void **state) {
  (void)state;
  int calls = 0;
  anf_ctx_opts o = {.size = sizeof o, .progress = stop_at_half, .progress_user = &calls};
  anf_ctx *c = anf_ctx_new(&o);
  anf_diag *d = anf_diag_new(c);
  assert_int_equal(long_work(c, d), ANF_CANCELLED);
  assert_int_equal(calls, 51);
  assert_string_equal(anf_diag_at(d, 0)->code, "E0004");
  assert_string_equal(anf_diag_at(d, 0)->message, "cancelled while counting");
  anf_diag_free(d);
  anf_ctx_free(c);
  anf_ctx_cancel(cx);
  assert_int_equal(long_work(cx, NULL), ANF_CANCELLED);
  assert_int_equal(long_work(cx, NULL), ANF_OK); // a cancelled call does not cancel the next
}

static const char *candidate(void *user, size_t i) { return ((const char **)user)[i]; }

static void test_nearest(void **state) {
  (void)state;
  const char *names[] = {"MatMul", "", "Mean", "Multiply", "Sum", NULL};
  assert_null(anfi_nearest("q", candidate, names)); // an empty name is no suggestion
  assert_string_equal(anfi_nearest("Matmul", candidate, names), "MatMul");
  assert_string_equal(anfi_nearest("Maen", candidate, names), "Mean");
  assert_string_equal(anfi_nearest("Multipyl", candidate, names), "Multiply");
  assert_null(anfi_nearest("Reshape", candidate, names));
  assert_null(
      anfi_nearest("a name that is longer than any that could be near to it", candidate, names));
}

/* ---- files ---- */

static anf_status read_back(anf_ctx *c, anf_diag *d, const char *path, const char *want, size_t n) {
  ANFI_ENTRY(c, d);
  char *text;
  size_t len;
  if (!anfi_os_read(c, anfi_scratch(c), path, &text, &len)) return anfi_leave(c);
  assert_int_equal(len, n);
  assert_memory_equal(text, want, n);
  assert_int_equal(text[n], 0);
  return anfi_leave(c);
}

static anf_status write_out(anf_ctx *c, anf_diag *d, const char *path, const char *text, size_t n) {
  ANFI_ENTRY(c, d);
  anfi_os_write(c, path, text, n);
  return anfi_leave(c);
}

static void test_files(void **state) {
  (void)state;
  char dir[TEST_PATH], path[TEST_PATH + 32];
  assert_true(test_folder(dir));
  snprintf(path, sizeof path, "%s/file", dir);
  assert_int_equal(write_out(cx, NULL, path, "a\0b", 3), ANF_OK);
  assert_int_equal(read_back(cx, NULL, path, "a\0b", 3), ANF_OK);
  assert_int_equal(write_out(cx, NULL, path, "", 0), ANF_OK);
  assert_int_equal(read_back(cx, NULL, path, "", 0), ANF_OK);
  unlink(path);
  anf_diag *d = anf_diag_new(cx);
  assert_int_equal(read_back(cx, d, path, "", 0), ANF_IO);
  assert_int_equal(read_back(cx, d, dir, "", 0), ANF_IO);
  snprintf(path, sizeof path, "%s/no/file", dir);
  assert_int_equal(write_out(cx, d, path, "", 0), ANF_IO);
  assert_int_equal(anf_diag_count(d), 3);
  for (size_t i = 0; i < 3; i++) assert_string_equal(anf_diag_at(d, i)->code, "E0301");
  assert_int_equal(write_out(cx, NULL, "/dev/null", "text", 4), ANF_OK);
  anf_diag_free(d);
  assert_int_equal(rmdir(dir), 0);
}

/* ---- blocks ---- */

static anfi_os_block *bytes_of(size_t n, unsigned char last) {
  anfi_os_block *b = anfi_os_block_new(n);
  assert_non_null(b);
  memset(anfi_os_block_data(b), 7, n);
  anfi_os_block_data(b)[n - 1] = last; // beyond the samples that are hashed
  return b;
}

static void test_equal_blocks(void **state) {
  (void)state;
  enum { N = 300000 };
  anfi_os_block *a = bytes_of(N, 1), *b = bytes_of(N, 1), *c = bytes_of(N, 2);
  anfi_os_block *first = anfi_os_block_one(a), *second = anfi_os_block_one(b);
  anfi_os_block *other = anfi_os_block_one(c), *again = anfi_os_block_one(a);
  assert_ptr_equal(first, a);
  assert_ptr_equal(second, a);
  assert_ptr_equal(again, a);
  assert_ptr_equal(other, c);
  anfi_os_block *all[] = {a, b, c, first, other, again};
  for (size_t i = 0; i < ANFI_LEN(all); i++) anfi_os_block_release(all[i]);
  assert_int_equal(anfi_os_block_data(second)[N - 1], 1); // it is the last owner
  anfi_os_block_release(second);
  anfi_os_block *late = bytes_of(N, 1), *one = anfi_os_block_one(late);
  assert_ptr_equal(one, late);
  anfi_os_block_release(late);
  anfi_os_block_release(one);
}

/* ---- loaded objects ---- */

enum { TABLE_WORDS = 1 << 14, WORDS_OF_64K = 1 << 13 };
static const uint64_t long_table[TABLE_WORDS]
    __attribute__((aligned(1 << 16))) = {[0] = 3, [TABLE_WORDS - 1] = 5};

/* Is the page of the address mapped? -1: the system does not say. It reads no constants: a page of them brings its neighbours. */
static int is_mapped(int map, const volatile uint64_t *at, size_t page) {
  uint64_t bits = 0;
  ssize_t got = pread(map, &bits, sizeof bits, (off_t)((uintptr_t)at / page * sizeof bits));
  return got == sizeof bits ? (int)(bits >> 63) : -1;
}

/* Pages of constants leave memory and come back as they were; one that was written to stays. */
static void test_leave_library(void **state) {
  (void)state;
  const volatile uint64_t *table = long_table; // volatile: it is read from memory
  volatile uint64_t *changed = (volatile uint64_t *)(uintptr_t)&table[WORDS_OF_64K];
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  assert_int_equal(table[0] + table[TABLE_WORDS - 1], 8);
  assert_int_equal(mprotect((void *)(uintptr_t)changed, page, PROT_READ | PROT_WRITE), 0);
  *changed = 7;
  assert_int_equal(mprotect((void *)(uintptr_t)changed, page, PROT_READ), 0);
  int map = open("/proc/self/pagemap", O_RDONLY), before = is_mapped(map, table, page);
  anfi_os_leave_library((uintptr_t)table);
  int after = is_mapped(map, table, page), kept = is_mapped(map, changed, page);
  if (map >= 0) close(map);
  if (before == 1) assert_int_equal(after, 0);
  if (before == 1) assert_int_equal(kept, 1);
  assert_int_equal(table[WORDS_OF_64K], 7);
  assert_int_equal(table[0] + table[TABLE_WORDS - 1], 8);
}

/* ---- the context ---- */

static anf_status nothing(anf_ctx *c, void *user) {
  (void)c, (void)user;
  return ANF_OK;
}

static void test_ctx_faults(void **state) {
  (void)state;
  assert_true(fault_loop_of(nothing, NULL, true) > 1);
}

static void test_ctx_opts(void **state) {
  (void)state;
  anf_ctx_opts o = {.size = sizeof o, .max_bytes = 16};
  assert_null(anf_ctx_new(&o)); // not even itself fits
  o = (anf_ctx_opts){.size = offsetof(anf_ctx_opts, max_bytes), .max_bytes = 16};
  anf_ctx *c = anf_ctx_new(&o); // a caller of an older version, whose structure ended there
  assert_non_null(c);
  anf_ctx_free(c);
  anf_ctx_free(NULL);
  assert_string_equal(anf_status_name(ANF_NOMEM), "ANF_NOMEM");
  assert_string_equal(anf_status_name((anf_status)99), "ANF_?");
  assert_string_equal(anf_version(), ANF_VERSION);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
      TEST(test_arena),
      TEST(test_arena_faults),
      TEST(test_vectors),
      TEST(test_size_overflow),
      TEST(test_strings),
      TEST(test_map),
      TEST(test_half_decode),
      TEST(test_half_encode_near),
      TEST(test_half_encode_random),
      TEST(test_number_round_trip),
      TEST(test_number_text),
      TEST(test_text_grows),
      TEST(test_utf8_valid),
      TEST(test_utf8_invalid),
      TEST(test_cleanups),
      TEST(test_diag_limit),
      TEST(test_diag_faults),
      TEST(test_diag_print),
      TEST(test_explain),
      TEST(test_cancel),
      TEST(test_nearest),
      TEST(test_files),
      TEST(test_equal_blocks),
      TEST(test_leave_library),
      TEST(test_ctx_faults),
      TEST(test_ctx_opts),
  };
  return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
