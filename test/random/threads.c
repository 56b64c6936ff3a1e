// SPDX-License-Identifier: Apache-2.0
/* threads [--programs N] [--seed S] [--show SEED]
 * Random programs on tensors that are large enough for loops on threads: the code gives the same bits on 1, 2 and 3
 * threads, and again, so no result depends on which thread did what. Half of them are gradients. LLVM makes the code with or
 * without optimisation, or the C compiler does.
 *
 *     def f(x, w) { y = Softmax(x @ w) + Sin(x); y = y - Mean(y, axis=0, keepdims=true); y }
 *     def main(x: f64[130, 257], w: f64[257, 257]) { grad(fn (x) { Sum(f(x, f32(w))) })(f32(x)) } */
#include "anfora/anfora.h"
#include "anfora/jit.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 130, COLUMNS = 257, TEXT = 4096, THREADS = 3, ENGINES = 3 };

typedef struct {
  uint64_t state;
  char text[TEXT];
  size_t n;
} writer;

static size_t draw(writer *w, size_t below) {
  w->state = w->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (size_t)((w->state >> 33) % below);
}

/* The pattern with X for an expression that is made in its place. */
static void expr(writer *w, int depth) {
  static const char *const leaves[] = {"x", "y", "y", "(x * 0.5)"};
  static const char *const forms[] = {"Sin(X)",
                                      "Tanh(X)",
                                      "Sigmoid(X)",
                                      "(X + X)",
                                      "(X * X)",
                                      "(X - X)",
                                      "Maximum(X, X)",
                                      "Where(X > 0, X, X)",
                                      "Softmax(X)",
                                      "Softmax(X, axis=0)",
                                      "CumSum(X, axis=0)",
                                      "CumSum(X, axis=1)",
                                      "Sort(X, axis=1)",
                                      "(X @ w)",
                                      "(X @ w.T)",
                                      "(X @ (X.T @ X) * 0.001)",
                                      "(X - Mean(X, axis=1, keepdims=true))",
                                      "(X - Mean(X, axis=0, keepdims=true))",
                                      "(X - Max(X, axis=0, keepdims=true))",
                                      "(X * Sum(X, axis=1, keepdims=true) * 0.01)",
                                      "(X + Mean(X))",
                                      "X[::-1]",
                                      "X[:, ::-1]",
                                      "Concat(X[64:], X[:64])",
                                      "Concat(X[:, 100:], X[:, :100], axis=1)",
                                      "Take(X, idx, axis=0)",
                                      "Reshape(X, (257, 130)).T",
                                      "(X / (1.0 + Abs(X)))"};
  if (depth <= 0) {
    w->n += (size_t)snprintf(w->text + w->n, TEXT - w->n, "%s", leaves[draw(w, 4)]);
    return;
  }
  for (const char *s = forms[draw(w, sizeof forms / sizeof *forms)]; *s && w->n + 64 < TEXT; s++)
    if (*s == 'X') expr(w, draw(w, 3) ? depth - 2 : depth - 1);
    else w->text[w->n++] = *s;
  w->text[w->n] = 0;
}

static void put(writer *w, const char *s) {
  w->n += (size_t)snprintf(w->text + w->n, TEXT - w->n, "%s", s);
}

static void program(writer *w, uint64_t seed) {
  static const char *const types[] = {"f32", "f32", "f64", "bf16"};
  *w = (writer){.state = seed * UINT64_C(0xd1342543de82ef95) + 1};
  const char *t = types[draw(w, 4)];
  bool gradient = draw(w, 2), loop = draw(w, 4) == 0;
  put(w, "def f(x, w, idx) { y = x; ");
  if (loop) put(w, "for i in 0..3 { ");
  for (size_t i = 0, n = 1 + draw(w, 3); i < n; i++) put(w, "y = "), expr(w, 3), put(w, "; ");
  put(w, loop ? "}; y }\n" : "y }\n");
  char head[300];
  snprintf(head, sizeof head,
           "def main(x: f64[%d, %d], w: f64[%d, %d], idx: i64[%d]) { a = %s(x); b = %s(w); ", ROWS,
           COLUMNS, COLUMNS, COLUMNS, ROWS, t, t);
  put(w, head);
  put(w, gradient ? "value_and_grad(fn (x, w) { Sum(f(x, w, idx)) }, wrt=(0, 1))(a, b) }\n"
                  : "y = f(a, b, idx); (y, Sum(y), Sum(y * y, axis=0)) }\n");
}

/* ---- the test ---- */

typedef struct {
  anf_ctx *cx;
  anf_diag *d;
  anf_value *arg[3]; // x, w, idx
  anf_jit_engine *engine[ENGINES];
  size_t ran, refused;
} bench;

static anf_value *numbers(bench *b, size_t rows, size_t columns, double size) {
  int64_t dims[2] = {(int64_t)rows, (int64_t)columns};
  double *x = (double *)malloc(rows * columns * sizeof *x);
  if (!x) abort();
  for (size_t i = 0; i < rows * columns; i++)
    x[i] = size * sin(1.7 * (double)i + 0.3 * (double)(i % 11));
  anf_value *v = anf_value_tensor(b->cx, ANF_F64, 2, dims, x);
  free(x);
  return v;
}

static void make_arguments(bench *b) {
  int64_t idx[ROWS], n = ROWS;
  for (int64_t i = 0; i < ROWS; i++) idx[i] = i * 37 % ROWS;
  b->arg[0] = numbers(b, ROWS, COLUMNS, 1.0);
  b->arg[1] = numbers(b, COLUMNS, COLUMNS, 0.05);
  b->arg[2] = anf_value_tensor(b->cx, ANF_I64, 1, &n, idx);
}

static bool run_on(bench *b, anf_exec *x, uint32_t threads, anf_value **out) {
  anf_stream *s = anf_stream_of_thread();
  *out = NULL;
  if (!s) return false;
  anf_stream_set_threads(s, threads);
  anf_status st = anf_exec_run(x, 3, b->arg, NULL, b->d, out);
  anf_stream_set_threads(s, 1);
  return st == ANF_OK;
}

static bool same_on_threads(bench *b, anf_exec *x) {
  anf_value *one, *other;
  bool good = run_on(b, x, 1, &one);
  for (uint32_t threads = 1; good && threads <= THREADS; threads++) {
    good = run_on(b, x, threads, &other) && anf_value_same(one, other);
    if (!good) printf("# %u threads give something else\n", threads);
    anf_value_release(other);
  }
  anf_value_release(one);
  return good;
}

static bool try_program(bench *b, uint64_t seed) {
  static writer w;
  anf_module *m = NULL;
  anf_exec *x = NULL;
  size_t e = seed % 8 == 1 ? 2 : seed % 4 == 3; // the C compiler takes longer
  anf_exec_opts o = {.size = sizeof o, .parallel = true, .engine = b->engine[e]};
  program(&w, seed);
  anf_diag_clear(b->d);
  anf_status st = anf_parse(b->cx, w.text, "main.anf", b->d, &m);
  anf_graph *g = st == ANF_OK ? anf_module_find(m, "main") : NULL;
  if (st == ANF_OK) st = anf_compile(g, &o, b->d, &x);
  bool good = st == ANF_OK ? same_on_threads(b, x) : st == ANF_UNSUPPORTED || st == ANF_LIMIT;
  b->ran += st == ANF_OK;
  b->refused += st != ANF_OK;
  if (!good) {
    printf("# seed %llu\n# %s", (unsigned long long)seed, w.text);
    anf_diag_print(b->d, stderr, false);
  }
  anf_exec_free(x);
  anf_module_free(m);
  return good;
}

static bool make_engines(bench *b) {
  static const struct {
    anf_jit_kind kind;
    anf_jit_level level;
  } kinds[ENGINES] = {
      {ANF_JIT_LLVM, ANF_JIT_O2}, {ANF_JIT_LLVM, ANF_JIT_O0}, {ANF_JIT_CJIT, ANF_JIT_O2}};
  for (size_t i = 0; i < ENGINES; i++) {
    anf_jit_opts o = {.size = sizeof o, .level = kinds[i].level};
    if (anf_jit_engine_new(b->cx, kinds[i].kind, &o, b->d, &b->engine[i]) != ANF_OK) return false;
  }
  return true;
}

int main(int argc, char **argv) {
  bench b = {0};
  uint64_t seed = 1, programs = 16;
  static writer w;
  for (int i = 1; i + 1 < argc; i += 2) {
    uint64_t v = strtoull(argv[i + 1], NULL, 10);
    if (strcmp(argv[i], "--programs") == 0) programs = v;
    else if (strcmp(argv[i], "--seed") == 0) seed = v;
    else if (strcmp(argv[i], "--show") == 0) {
      program(&w, v);
      fputs(w.text, stdout);
      return 0;
    }
  }
  setvbuf(stdout, NULL, _IOLBF, 0);
  b.cx = anf_ctx_new(NULL);
  b.d = anf_diag_new(b.cx);
  make_arguments(&b);
  if (!make_engines(&b)) return anf_diag_print(b.d, stderr, false), 2;
  printf("1..1\n");
  size_t failed = 0;
  for (uint64_t i = 0; i < programs; i++) failed += !try_program(&b, seed + i);
  bool most = b.ran * 2 > programs;
  printf(
      "%s 1 - of %llu programs on 1, 2 and 3 threads %zu run, %zu are not compiled, %zu differ\n",
      failed || !most ? "not ok" : "ok", (unsigned long long)programs, b.ran, b.refused, failed);
  for (size_t i = 0; i < 3; i++) anf_value_release(b.arg[i]);
  for (size_t i = 0; i < ENGINES; i++) anf_jit_engine_free(b.engine[i]);
  anf_diag_free(b.d);
  anf_ctx_free(b.cx);
  return failed > 0 || !most;
}
