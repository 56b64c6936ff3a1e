// SPDX-License-Identifier: Apache-2.0
/* Functions of elements and of rows, and a chain of them, forward and with gradients: rows/rows.anf on
 * 512 x 1024 floats, one thread. Each answer is checked against the interpreter's on the same data. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>

#include "anfora/exec.h"
#include "bench.h"

enum { ROWS = 512, N = 1024, TURNS = 60, INPUTS = 4 };

static const char *const names[] = {
    "exp",      "tanh",          "gelu_tanh",     "gelu_tanh_grad",
    "gelu_erf", "gelu_erf_grad", "layer_norm",    "layer_norm_grad",
    "softmax",  "softmax_grad",  "cross_entropy", "cross_entropy_grad",
    "chain",    "chain_grad"};

static anf_value *reals(anf_ctx *cx, size_t rank, const int64_t *dims, unsigned seed) {
  size_t n = rank == 2 ? ROWS * N : N;
  float *x = malloc(n * sizeof *x);
  if (!x) exit(2);
  for (size_t i = 0; i < n; i++) {
    seed = seed * 1664525u + 1013904223u;
    x[i] = (float)(seed >> 8) * 0x1p-22f - 2;
  }
  anf_value *v = anf_value_tensor(cx, ANF_F32, rank, dims, x);
  free(x);
  return v;
}

static anf_value *labels(anf_ctx *cx) {
  static int32_t l[ROWS];
  static const int64_t rows = ROWS;
  for (int i = 0; i < ROWS; i++) l[i] = (i * 7919) % N;
  return anf_value_tensor(cx, ANF_I32, 1, &rows, l);
}

/* One for each parameter: a matrix, a row, labels. */
static size_t arguments(anf_ctx *cx, anf_graph *g, anf_value **arg) {
  static const int64_t dims[2] = {ROWS, N};
  size_t n = anf_graph_param_count(g);
  for (size_t i = 0; i < n; i++) {
    const anf_type *t = anf_node_type(anf_graph_param(g, i));
    size_t rank = anf_type_rank(t);
    bool label = anf_type_dtype(t) == ANF_I32;
    arg[i] = label ? labels(cx) : reals(cx, rank, dims + (2 - rank), (unsigned)i + 1);
  }
  return n;
}

/* ---- answers ---- */

static void compare(const anf_value *a, const anf_value *b, const char *who) {
  double far = 0, size = 0;
  for (size_t i = 0; i < anf_value_elements(a); i++) {
    double x = anf_value_get_f64(a, i), y = anf_value_get_f64(b, i);
    far = fmax(far, fabs(x - y)), size = fmax(size, fabs(x));
  }
  bench_check(far <= 1e-5 * size, who);
}

static void compare_all(const anf_value *a, const anf_value *b, const char *who) {
  if (anf_value_get_kind(a) != ANF_VALUE_TUPLE) {
    compare(a, b, who);
    return;
  }
  for (size_t i = 0; i < anf_value_count(a); i++)
    compare_all(anf_value_at(a, i), anf_value_at(b, i), who);
}

/* ---- time ---- */

/* A scalar of the result is returned in a slot of its own, tensors go to the room given. */
static void measure(anf_exec *e, size_t n, anf_value **arg, const char *who) {
  static float out[2][ROWS * N];
  anf_generic slot[INPUTS + 3];
  double took[TURNS];
  for (int k = -3; k < TURNS; k++) {
    for (size_t i = 0; i < n; i++) slot[i].ptr = (void *)(uintptr_t)anf_value_data(arg[i]);
    slot[n].ptr = out[0], slot[n + 1].ptr = out[1];
    double start = bench_cpu();
    anf_jit_call_generic(anf_exec_function(e), anf_stream_of_thread(), slot);
    if (k >= 0) took[k] = 1e6 * (bench_cpu() - start);
  }
  bench_line(who, "us", TURNS, took, 0);
}

static void one(anf_ctx *cx, anf_diag *d, anf_module *m, const char *name) {
  anf_graph *g = anf_module_find(m, name);
  anf_value *arg[INPUTS], *want = NULL, *got = NULL;
  anf_exec *e = NULL;
  size_t n = arguments(cx, g, arg);
  anf_status st = anf_compile(g, NULL, d, &e);
  if (st == ANF_OK) st = anf_exec_run(e, n, arg, NULL, d, &got);
  if (st == ANF_OK) st = anf_run(g, n, arg, NULL, d, &want);
  bench_check(st == ANF_OK, name);
  if (st == ANF_OK) {
    compare_all(want, got, name);
    measure(e, n, arg, name);
  } else anf_diag_print(d, stderr, false);
  anf_value_release(want);
  anf_value_release(got);
  for (size_t i = 0; i < n; i++) anf_value_release(arg[i]);
  anf_exec_free(e);
}

/* bench_rows [NAME]: one alone. */
int main(int argc, char **argv) {
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_diag *d = anf_diag_new(cx);
  anf_module *m = NULL;
  bench_check(anf_load(cx, BENCH_DIR "/rows/rows.anf", d, &m) == ANF_OK, "rows.anf");
  printf("512 x 1024 f32, one thread, CPU time\n");
  for (size_t i = 0; m && i < sizeof names / sizeof *names; i++)
    if (argc < 2 || strcmp(argv[1], names[i]) == 0) one(cx, d, m, names[i]);
  anf_module_free(m);
  anf_diag_free(d);
  anf_ctx_free(cx);
  return bench_bad;
}
