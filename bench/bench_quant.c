// SPDX-License-Identifier: Apache-2.0
/* Layers of quantised numbers (quant.anf) with the passes of the pipeline `quantised`, whose products are of integers,
 * and without, whose products are of floats: one thread. Answers are compared with the interpreter's. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>

#include "anfora/exec.h"
#include "bench.h"

enum { TURNS = 40, INPUTS = 4, LARGEST = 1024 * 1024 };

static anf_value *random_value(anf_ctx *cx, const anf_type *t, unsigned seed) {
  static float real[LARGEST];
  static int8_t code[LARGEST];
  size_t rank = anf_type_rank(t), n = 1;
  int64_t dims[2];
  bool codes = anf_type_dtype(t) == ANF_I8;
  for (size_t i = 0; i < rank; i++) n *= (size_t)(dims[i] = anf_type_dim(t, i));
  for (size_t i = 0; i < n; i++) {
    seed = seed * 1664525u + 1013904223u;
    code[i] = (int8_t)(seed >> 24);
    real[i] = (float)(seed >> 8) * (rank == 2 ? 0x1p-22f : 0x1p-32f) - (rank == 2 ? 2 : 0);
  }
  return anf_value_tensor(cx, codes ? ANF_I8 : ANF_F32, rank, dims,
                          codes ? (void *)code : (void *)real);
}

/* Sums in another order may round to the next code, which is 0.05 away; the steps of `dynamic` are its own. */
static void compare(const anf_value *a, const anf_value *b, const char *who) {
  double far = 0, sum = 0, size = 0;
  size_t n = anf_value_elements(a);
  for (size_t i = 0; i < n; i++) {
    double x = anf_value_get_f64(a, i), off = fabs(x - anf_value_get_f64(b, i));
    far = fmax(far, off), sum += off, size = fmax(size, fabs(x));
  }
  bench_check(far <= 0.0501 + 1e-5 * size && sum <= 1e-4 * (double)n * (1 + size), who);
}

static void measure(anf_exec *e, size_t n, anf_value **arg, const char *who) {
  static float out[LARGEST];
  anf_generic slot[INPUTS + 1];
  double took[TURNS];
  for (int k = -3; k < TURNS; k++) {
    for (size_t i = 0; i < n; i++) slot[i].ptr = (void *)(uintptr_t)anf_value_data(arg[i]);
    slot[n].ptr = out;
    double start = bench_cpu();
    anf_jit_call_generic(anf_exec_function(e), anf_stream_of_thread(), slot);
    if (k >= 0) took[k] = 1e6 * (bench_cpu() - start);
  }
  bench_line(who, "us", TURNS, took, 0);
}

static void one(anf_ctx *cx, anf_diag *d, anf_module *m, const char *name, const char *pipeline) {
  char who[64];
  anf_graph *g = anf_module_find(m, name);
  anf_value *arg[INPUTS], *want = NULL, *got = NULL;
  anf_exec *e = NULL;
  anf_exec_opts o = {.size = sizeof o, .pipeline = pipeline};
  size_t n = anf_graph_param_count(g);
  snprintf(who, sizeof who, "%s%s", name, pipeline ? ", products of floats" : "");
  for (size_t i = 0; i < n; i++)
    arg[i] = random_value(cx, anf_node_type(anf_graph_param(g, i)), (unsigned)i + 1);
  anf_status st = anf_compile(g, &o, d, &e);
  if (st == ANF_OK) st = anf_exec_run(e, n, arg, NULL, d, &got);
  if (st == ANF_OK) st = anf_run(g, n, arg, NULL, d, &want);
  bench_check(st == ANF_OK, who);
  if (st == ANF_OK) {
    compare(want, got, who);
    measure(e, n, arg, who);
  } else anf_diag_print(d, stderr, false);
  anf_value_release(want);
  anf_value_release(got);
  for (size_t i = 0; i < n; i++) anf_value_release(arg[i]);
  anf_exec_free(e);
}

int main(void) {
  static const char *const names[] = {"small", "square", "dynamic", "row"};
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_diag *d = anf_diag_new(cx);
  anf_module *m = NULL;
  bench_check(anf_load(cx, BENCH_DIR "/quant.anf", d, &m) == ANF_OK, "quant.anf");
  printf("quantised layers of 128 rows, one thread, CPU time\n");
  for (size_t i = 0; m && i < sizeof names / sizeof *names; i++) {
    one(cx, d, m, names[i], NULL);
    one(cx, d, m, names[i], "first_order clean quantize_inline clean");
  }
  anf_module_free(m);
  anf_diag_free(d);
  anf_ctx_free(cx);
  return bench_bad;
}
