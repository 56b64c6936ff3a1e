// SPDX-License-Identifier: Apache-2.0
/* Whole programs with products of bytes and of bf16, compiled for kernels with dot products and tiles, against the
 * reference interpreter: bytes exactly, bf16 within one rounding of it and the error of a sum in f32; the right operand
 * given with each call, and fixed; attention of bf16. test_products [EVERY]: one of EVERY cases. */
#include "test/unit/program.h"

#include <math.h>
#include <stdlib.h>

static const char *const kernels[] = {NULL, "avx2", "avx512", "vnni", "bf16", "amx"};

enum { M = 66, N = 50, K = 301, BATCH = 2, BLOCKS = 3301, MOST = 6301 };

static size_t every = 1, seen;
static uint32_t seed = 1;
static uint32_t next(void) { return (seed = seed * 1664525 + 1013904223) >> 16; }

static anf_value *tensor(anf_ctx *cx, anf_dtype d, size_t rank, const int64_t *dims) {
  static uint16_t data[MOST * M];
  for (size_t i = 0; i < ANFI_LEN(data); i++)
    if (d == ANF_BF16) data[i] = anfi_f32_to_bf16((float)(next() % 4096) / 2048 - 1);
    else data[i] = (uint16_t)next();
  return anf_value_tensor(cx, d, rank, dims, data);
}

typedef struct program {
  const char *text;
  bool ta, tb, batch;
  int64_t k; // 0: K
} program;

/* What the kernels give, against `want`. */
static void compare(const anf_value *got, const anf_value *want, const anf_value *size) {
  if (!size) {
    assert_true(anf_value_same(got, want));
    return;
  }
  for (size_t i = 0; i < anf_value_elements(want); i++) {
    double x = anf_value_get_f64(got, i), y = anf_value_get_f64(want, i);
    double room = fabs(y) * 0x1p-7 + anf_value_get_f64(size, i) * (int)MOST * 0x1p-24;
    if (!(fabs(x - y) <= room)) fail_msg("element %zu is %g, not %g", i, x, y);
  }
}

/* What a call gives, with y given or fixed. */
static anf_value *result(world *w, anf_graph *f, const anf_exec_opts *o, anf_value **args,
                         bool fixed) {
  anf_exec *e = NULL;
  anf_value *got = NULL;
  assert_int_equal(anf_compile(f, o, w->d, &e), ANF_OK);
  if (fixed) assert_int_equal(anf_exec_fix(e, 1, args[1], w->d), ANF_OK);
  anf_status st = anf_exec_run(e, 2, args, NULL, w->d, &got);
  if (st != ANF_OK) anf_diag_print(w->d, stderr, false);
  assert_int_equal(st, ANF_OK);
  anf_exec_free(e);
  return got;
}

static void check(world *w, const program *p, anf_dtype a, anf_dtype b) {
  anf_module *m = NULL;
  int64_t k = p->k ? p->k : K, da[] = {BATCH, p->ta ? k : M, p->ta ? M : k},
          db[] = {p->tb ? N : k, p->tb ? k : N};
  anf_value *x = tensor(w->cx, a, p->batch ? 3 : 2, p->batch ? da : da + 1),
            *y = tensor(w->cx, b, 2, db), *args[] = {x, y}, *want = NULL, *size = NULL;
  assert_int_equal(anf_parse(w->cx, p->text, "p.anf", w->d, &m), ANF_OK);
  anf_graph *f = anf_module_find(m, "f"), *g = anf_module_find(m, "size");
  assert_int_equal(anf_run(f, 2, args, NULL, w->d, &want), ANF_OK);
  if (g) assert_int_equal(anf_run(g, 2, args, NULL, w->d, &size), ANF_OK);
  seen++;
  for (size_t i = 0; i < 2 * ANFI_LEN(kernels); i++) {
    if ((seen + i) % every != 0) continue;
    anf_exec_opts o = {.size = sizeof o, .kind = ANF_JIT_LLVM, .fast = g != NULL};
    anf_jit_opts jit = {.size = sizeof jit, .kernels = kernels[i / 2], .contract = g != NULL};
    o.jit = &jit;
    anf_value *got = result(w, f, &o, args, i % 2);
    compare(got, want, size);
    anf_value_release(got);
  }
  anf_value_release(x), anf_value_release(y);
  anf_value_release(want), anf_value_release(size);
  anf_module_free(m);
}

static void bytes(void **state) {
  static const program p[] = {
      {.text = "def f(a, b) { MatMul(Cast(a, i32), Cast(b, i32)) }"},
      {.text = "def f(a, b) { Relu(MatMul(Cast(a, i32), Cast(b, i32), ta=true) + 7) }", .ta = true},
      {.text = "def f(a, b) { MatMul(Cast(a, i32), Cast(b, i32), tb=true) }", .tb = true},
      {.text = "def f(a, b) { c = Cast(a, i32); MatMul(c, Cast(b, i32)) + Sum(c) }", .batch = true},
      {.text = "def f(a, b) { MatMul(Cast(a, i32), Cast(b, i32)) }", .k = BLOCKS},
      {.text = "def f(a, b) { MatMul(Cast(a, i32), Cast(b, i32)) + 1 }", .k = MOST}};
  static const anf_dtype d[][2] = {
      {ANF_U8, ANF_I8}, {ANF_I8, ANF_I8}, {ANF_U8, ANF_U8}, {ANF_I8, ANF_U8}};
  for (size_t i = 0; i < ANFI_LEN(p); i++) check(*state, &p[i], d[i % 4][0], d[i % 4][1]);
}

static void pairs(void **state) {
#define SIZE(attrs) "\ndef size(a, b) { MatMul(Abs(Cast(a, f32)), Abs(Cast(b, f32))" attrs ") }"
#define ROUNDED     "\ndef size(a, b) { 64 * MatMul(Abs(Cast(a, f32)), Abs(Cast(b, f32))) }"
  static const program p[] = {
      {.text = "def f(a, b) { a @ b }" SIZE("")},
      {.text = "def f(a, b) { MatMul(a, b, ta=true) }" SIZE(", ta=true"), .ta = true},
      {.text = "def f(a, b) { MatMul(a, b, tb=true) }" SIZE(", tb=true"), .tb = true},
      {.text = "def f(a, b) { Relu(a @ b) }" SIZE(""), .batch = true},
      {.text = "def f(a, b) { a @ b }" SIZE(""), .k = BLOCKS},
      {.text = "def f(a, b) { MatMul(a, b, ta=true, tb=true) }" SIZE(", ta=true, tb=true"),
       .ta = true,
       .tb = true,
       .k = MOST},
      {.text = "def f(a, b) { Relu(Linear(a, b, Max(b, 1))) }" SIZE(", tb=true"),
       .tb = true,
       .k = BLOCKS},
      // in the kernel's registers, each step rounded; one of two that differ leaves an error of the sum's size
      {.text = "def f(a, b) { Relu(a @ b + Max(b, 0)) }" ROUNDED},
      {.text = "def f(a, b) { Relu(Tanh(a[0:50, 0:50]) + (a[0:50] @ b + Max(b, 0))) }"
               "\ndef size(a, b) { 64 * MatMul(Abs(Cast(a[0:50], f32)), Abs(Cast(b, f32))) }"},
      {.text = "def f(a, b) { Relu(Linear(a, b, Max(b, 1))) }" SIZE(", tb=true"), .tb = true}};
  for (size_t i = 0; i < ANFI_LEN(p); i++) check(*state, &p[i], ANF_BF16, ANF_BF16);
}

/* Of 65 keys, more than a chunk and no pairs; of an odd part of a query; of too few queries; some keys and all of a query masked. */
static void attention(void **state) {
#define ATTEND(q, k, v, more) "def f(a, b) { Attention(" q ", " k ", " v more ") }"
#define ROOM(shape)           "\ndef size(a, b) { Full(8.0, shape=" shape ") }"
  static const program p[] = {
      {.text = ATTEND("a[0:49, 0:20]", "a[0:65, 20:40]", "a[0:65, 100:124]", "") ROOM("(49, 24)")},
      {.text = ATTEND("a[0:65, 0:20]", "a[0:65, 20:40]", "a[0:65, 100:124]",
                      ", causal=true, scale=-2.5") ROOM("(65, 24)")},
      {.text = ATTEND("a[0:17, 0:64]", "Reshape(a[:, 0:300], (300, 66))[:, 0:64]",
                      "Reshape(a[:, 0:300], (300, 66))[:, 50:65]", "") ROOM("(17, 15)")},
      {.text = ATTEND("a[0:33, 0:21]", "a[:, 20:41]", "a[:, 100:109]", "") ROOM("(33, 9)")},
      {.text = ATTEND("a[0:15, 0:64]", "a[:, 20:84]", "a[:, 100:109]", "") ROOM("(15, 9)")},
      {.text = ATTEND("a[0:33, 0:48]", "a[:, 20:68]", "a[:, 100:109]",
                      ", (a[0:33, 0:66] > -0.5) & (a[0:33, 200:201] > 0), causal=true")
           ROOM("(33, 9)")}};
  for (size_t i = 0; i < ANFI_LEN(p); i++) check(*state, &p[i], ANF_BF16, ANF_BF16);
}

int main(int argc, char **argv) {
  if (argc > 1) every = strtoul(argv[1], NULL, 10);
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(bytes, setup, teardown),
                                     cmocka_unit_test_setup_teardown(pairs, setup, teardown),
                                     cmocka_unit_test_setup_teardown(attention, setup, teardown)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
