// SPDX-License-Identifier: Apache-2.0
/* Compiled functions: rows by vectors against the interpreter, loops of large functions that become
 * functions, and that a call in a steady state asks the system for no memory. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "anfora/anfora.h"
#include "anfora/exec.h"

static size_t allocations;
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t m);
void *__real_aligned_alloc(size_t a, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t m);
void *__wrap_aligned_alloc(size_t a, size_t n);
void *__wrap_malloc(size_t n) { return allocations++, __real_malloc(n); }
void *__wrap_calloc(size_t n, size_t m) { return allocations++, __real_calloc(n, m); }
void *__wrap_aligned_alloc(size_t a, size_t n) { return allocations++, __real_aligned_alloc(a, n); }

static anf_exec *compiled(anf_ctx *cx, const char *text, anf_module **m) {
  anf_exec *e = NULL;
  assert_int_equal(anf_parse(cx, text, "test.anf", NULL, m), ANF_OK);
  assert_int_equal(anf_compile(anf_module_find(*m, "f"), NULL, NULL, &e), ANF_OK);
  return e;
}

/* Numbers between -4 and 4 that no order of sums leaves exact. */
static anf_value *data(anf_ctx *cx, int64_t rows, int64_t n) {
  int64_t dims[2] = {rows, n};
  float *x = malloc((size_t)(rows * n) * sizeof *x);
  uint32_t s = 12345;
  assert_non_null(x);
  for (int64_t i = 0; i < rows * n; i++) {
    s = s * 1664525 + 1013904223;
    x[i] = (float)((double)(s >> 8) / (double)(1 << 21) - 4);
  }
  anf_value *v = anf_value_tensor(cx, ANF_F32, 2, dims, x);
  free(x);
  assert_non_null(v);
  return v;
}

static void compare(anf_ctx *cx, const char *op, int64_t n, double tolerance) {
  char text[200];
  anf_module *m = NULL;
  anf_value *x = data(cx, 3, n), *want = NULL, *got = NULL;
  snprintf(text, sizeof text, "def f(x: f32[3, %lld]) { %s }", (long long)n, op);
  anf_exec *e = compiled(cx, text, &m);
  assert_int_equal(anf_run(anf_module_find(m, "f"), 1, &x, NULL, NULL, &want), ANF_OK);
  assert_int_equal(anf_exec_run(e, 1, &x, NULL, NULL, &got), ANF_OK);
  assert_int_equal(anf_value_elements(want), anf_value_elements(got));
  for (size_t i = 0; i < anf_value_elements(want); i++) {
    double a = anf_value_get_f64(want, i), b = anf_value_get_f64(got, i);
    double size = fabs(a) > 1e-3 ? fabs(a) : 1e-3;
    if (!(fabs(a - b) <= tolerance * size)) fail_msg("%s: %.9g for %.9g", text, b, a);
  }
  anf_value_release(want);
  anf_value_release(got);
  anf_value_release(x);
  anf_exec_free(e);
  anf_module_free(m);
}

/* Rows shorter than the least, whole vectors, a rest, one that is too long for an array of its own. */
static void rows(void **state) {
  static const int64_t sizes[] = {63, 64, 79, 1000, 20001};
  static const char *const ops[] = {"Sum(x, axis=1)",
                                    "Mean(Exp(x), axis=1)",
                                    "Max(x, axis=1)",
                                    "Min(x * x, axis=1)",
                                    "Var(x, axis=1)",
                                    "Std(x)",
                                    "LogSumExp(x, axis=1)",
                                    "Softmax(x)",
                                    "LogSoftmax(x + 1)",
                                    "LayerNorm(Tanh(x))",
                                    "RMSNorm(x)",
                                    "L2Normalize(x)",
                                    "Sum(x)",
                                    "Max(x)"};
  anf_ctx *cx = anf_ctx_new(NULL);
  (void)state;
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) compare(cx, ops[i], sizes[k], 3e-6);
  anf_ctx_free(cx);
}

/* The same in f64, whose sums of exponentials go by blocks of 512. */
static void rows_of_f64(void **state) {
  static const int64_t sizes[] = {63, 64, 511, 512, 545, 1025, 20001};
  static const char *const ops[] = {"LogSumExp(cast(x, f64), axis=1)",
                                    "LogSumExp(cast(x, f64) * 30.0)", "Sum(cast(x, f64), axis=1)",
                                    "Max(cast(x, f64), axis=1)"};
  anf_ctx *cx = anf_ctx_new(NULL);
  (void)state;
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) compare(cx, ops[i], sizes[k], 1e-12);
  anf_ctx_free(cx);
}

/* A NaN is the greatest and the least, wherever it is. */
static void rows_with_nan(void **state) {
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_module *m = NULL;
  anf_exec *e = compiled(cx, "def f(x: f32[100]) { (Max(x), Min(x)) }", &m);
  int64_t n = 100;
  (void)state;
  for (int at = 0; at < 100; at += 9) {
    float x[100];
    for (int i = 0; i < 100; i++) x[i] = i == at ? NAN : (float)i;
    anf_value *v = anf_value_tensor(cx, ANF_F32, 1, &n, x), *r = NULL;
    assert_int_equal(anf_exec_run(e, 1, &v, NULL, NULL, &r), ANF_OK);
    assert_true(isnan(anf_value_get_f64(anf_value_at(r, 0), 0)));
    assert_true(isnan(anf_value_get_f64(anf_value_at(r, 1), 0)));
    anf_value_release(v);
    anf_value_release(r);
  }
  anf_exec_free(e);
  anf_module_free(m);
  anf_ctx_free(cx);
}

/* Rows with a mean far from 0, with a first element far from the others, of one value, with infinities and
 * NaN: as in the interpreter; where a row is masked with -inf, Softmax is 0. */
enum { EDGES = 9, EDGE_N = 150 };
static void edge_rows(float x[EDGES][EDGE_N]) {
  for (int i = 0; i < EDGE_N; i++) {
    float v = (float)(i * 37 % 101) / 16;
    x[0][i] = 10000 + v;
    x[1][i] = i ? v : -3e6f;
    x[2][i] = 0.1f;
    x[3][i] = i % 3 ? v : -INFINITY;
    x[4][i] = i == 140 ? INFINITY : v;
    x[5][i] = i == 77 ? NAN : v;
    x[6][i] = -INFINITY;
    x[7][i] = i ? -120 - v : 0;
    x[8][i] = i == 3 ? NAN : -INFINITY;
  }
}

static void rows_at_the_edge(void **state) {
  static const char *const ops[] = {"Softmax(x)", "LayerNorm(x)", "LogSumExp(x, axis=1)",
                                    "LogSoftmax(x)", "Var(x, axis=1)"};
  static float x[EDGES][EDGE_N];
  static const int64_t dims[2] = {EDGES, EDGE_N};
  anf_ctx *cx = anf_ctx_new(NULL);
  (void)state;
  edge_rows(x);
  anf_value *v = anf_value_tensor(cx, ANF_F32, 2, dims, x);
  for (size_t k = 0; k < sizeof ops / sizeof *ops; k++) {
    char text[120];
    anf_module *m = NULL;
    anf_value *want = NULL, *got = NULL;
    snprintf(text, sizeof text, "def f(x: f32[%d, %d]) { %s }", (int)EDGES, (int)EDGE_N, ops[k]);
    anf_exec *e = compiled(cx, text, &m);
    assert_int_equal(anf_run(anf_module_find(m, "f"), 1, &v, NULL, NULL, &want), ANF_OK);
    assert_int_equal(anf_exec_run(e, 1, &v, NULL, NULL, &got), ANF_OK);
    for (size_t i = 0; i < anf_value_elements(want); i++) {
      double a = anf_value_get_f64(want, i), b = anf_value_get_f64(got, i);
      if (isnan(a) && isnan(b)) continue;
      if (!(a == b || fabs(a - b) <= 2e-5 * fabs(a) + 1e-37))
        fail_msg("%s, %zu: %.9g for %.9g", text, i, b, a);
      if (k == 0 && i / EDGE_N == 3 && i % 3 == 0) assert_true(b == 0);
    }
    anf_value_release(want);
    anf_value_release(got);
    anf_exec_free(e);
    anf_module_free(m);
  }
  anf_value_release(v);
  anf_ctx_free(cx);
}

/* Fours that are beyond f32 where the sum is not, infinities, NaN, numbers that cancel, and random ones. */
enum { FOURS = 6, LONGEST = 1000 };
static void rows_of_fours(float *x, int n) {
  uint32_t s = 1;
  for (int r = 0; r < FOURS; r++)
    for (int i = 0; i < n; i++) {
      s = s * 1664525 + 1013904223;
      float v = (float)((double)(s >> 8) / (double)(1 << 20) - 8);
      if (r == 0) v = i / 64 % 2 ? -3e38f : 3e38f;
      if (r == 1 && i % 70 == 3) v = INFINITY;
      if (r == 2 && i % 50 == 3) v = i % 100 == 3 ? INFINITY : -INFINITY;
      if (r == 3 && i == n - 1) v = NAN;
      if (r == 4) v = i < n / 2 ? v * 1e6f : (i == n - 1 ? v : -x[r * n + i - n / 2]);
      x[r * n + i] = v;
    }
}

/* Twice the error of a four, and what rounding adds, of the sum of magnitudes. */
static void within(const float *row, int n, double divisor, double want, double got,
                   const char *text) {
  double magnitudes = 0;
  for (int i = 0; i < n; i++) magnitudes += fabs((double)row[i]);
  double most = ldexp(magnitudes / divisor, -23) + ldexp(fabs(want), -23);
  if (isnan(want) ? !isnan(got) : want != got && !(fabs(want - got) <= most))
    fail_msg("%s: %.9g for %.9g", text, got, want);
}

static void sums_of_fours(anf_ctx *cx, const char *op, bool mean, int n) {
  static float x[FOURS * LONGEST];
  int64_t dims[2] = {FOURS, n};
  char text[120];
  anf_module *m = NULL;
  anf_value *want = NULL, *got = NULL;
  rows_of_fours(x, n);
  snprintf(text, sizeof text, "def f(x: f32[%d, %d]) { %s }", (int)FOURS, n, op);
  anf_exec *e = compiled(cx, text, &m);
  anf_value *v = anf_value_tensor(cx, ANF_F32, 2, dims, x);
  assert_int_equal(anf_run(anf_module_find(m, "f"), 1, &v, NULL, NULL, &want), ANF_OK);
  assert_int_equal(anf_exec_run(e, 1, &v, NULL, NULL, &got), ANF_OK);
  for (int r = 0; r < FOURS; r++)
    within(x + r * n, n, mean ? n : 1, anf_value_get_f64(want, (size_t)r),
           anf_value_get_f64(got, (size_t)r), text);
  anf_value_release(want);
  anf_value_release(got);
  anf_value_release(v);
  anf_exec_free(e);
  anf_module_free(m);
}

static void fours(void **state) {
  static const int sizes[] = {128, 190, LONGEST};
  anf_ctx *cx = anf_ctx_new(NULL);
  (void)state;
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
    sums_of_fours(cx, "Sum(x, axis=1)", false, sizes[k]);
    sums_of_fours(cx, "Sum(-x, axis=1)", false, sizes[k]);
    sums_of_fours(cx, "Mean(x, axis=1)", true, sizes[k]);
  }
  anf_ctx_free(cx);
}

/* y = x; y = y * a; y = y + x; ...: many loops, few of them different. */
static char *chain(size_t n) {
  char *text = malloc(n * 40 + 200), *at = text;
  assert_non_null(text);
  at += sprintf(at, "def g(x) {\n  y = x\n");
  for (size_t i = 0; i < n; i++)
    at += sprintf(at, i % 3 ? "  y = y + x * 0.001\n" : "  y = Tanh(y) * 0.99\n");
  sprintf(at, "  Sum(y)\n}\ndef f(x: f32[3, 64]) { grad(g)(x) }\n");
  return text;
}

static void long_chain(void **state) {
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_module *m = NULL;
  char *text = chain(3000);
  anf_exec *e = compiled(cx, text, &m);
  anf_value *x = data(cx, 3, 64), *want = NULL, *got = NULL;
  (void)state;
  assert_int_equal(anf_exec_run(e, 1, &x, NULL, NULL, &got), ANF_OK);
  assert_int_equal(anf_run(anf_module_find(m, "f"), 1, &x, NULL, NULL, &want), ANF_OK);
  for (size_t i = 0; i < 192; i++) {
    double a = anf_value_get_f64(want, i), b = anf_value_get_f64(got, i);
    assert_true(fabs(a - b) <= 1e-4 * (fabs(a) + 1e-3));
  }
  anf_value_release(want);
  anf_value_release(got);
  anf_value_release(x);
  anf_exec_free(e);
  anf_module_free(m);
  anf_ctx_free(cx);
  free(text);
}

/* From the third call on the stream has all that a call takes. */
static void steady(void **state) {
  enum { ROWS = 300, N = 1000 };
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_module *m = NULL;
  anf_exec *e = compiled(cx,
                         "def g(x) { Sum(Softmax(LayerNorm(Gelu(x))) * x) }\n"
                         "def f(x: f32[300, 1000]) { value_and_grad(g)(x) }",
                         &m);
  float *x = calloc(ROWS * N, sizeof *x), *y = calloc(ROWS * N, sizeof *y);
  size_t before = 0, peak = 0;
  (void)state;
  assert_true(x && y);
  for (int i = 0; i < 6; i++) {
    anf_generic slot[3] = {{.ptr = x}, {.ptr = y}};
    if (i == 2) before = allocations, peak = anf_stream_peak_bytes(anf_stream_of_thread());
    assert_int_equal(anf_jit_call_generic(anf_exec_function(e), anf_stream_of_thread(), slot),
                     ANF_OK);
  }
  assert_int_equal(allocations, before);
  assert_true(peak > 0);
  assert_int_equal(anf_stream_peak_bytes(anf_stream_of_thread()), peak);
  free(x);
  free(y);
  anf_exec_free(e);
  anf_module_free(m);
  anf_ctx_free(cx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows),          cmocka_unit_test(rows_of_f64),
      cmocka_unit_test(rows_with_nan), cmocka_unit_test(rows_at_the_edge),
      cmocka_unit_test(fours),         cmocka_unit_test(long_chain),
      cmocka_unit_test(steady)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
