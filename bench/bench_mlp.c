// SPDX-License-Identifier: Apache-2.0
/* Inference of two multilayer perceptrons, f32 and bf16, one thread: layers of a product, a bias and a
 * Relu (none after the last), with weights that never change. Answers are checked against the
 * interpreter's at the smallest batch. bench_mlp [NAME]: one alone. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>

#include "anfora/exec.h"
#include "bench.h"

enum { TURNS = 40, LAYERS = 5, MOST = 512, LEAST = 32 };

typedef struct net {
  const char *name;
  size_t n; // layers
  int64_t size[LAYERS + 1];
} net;
static const net nets[] = {{"MLP_1", 3, {13, 512, 256, 128}},
                           {"MLP_2", 5, {479, 1024, 1024, 512, 256, 1}}};

/* f(x, w0, b0, w1, b1 ..) */
static void program(const net *k, char *text, size_t size) {
  size_t at = (size_t)snprintf(text, size, "def f(x");
  for (size_t i = 0; i < k->n; i++)
    at += (size_t)snprintf(text + at, size - at, ", w%zu, b%zu", i, i);
  at += (size_t)snprintf(text + at, size - at, ") {\n");
  for (size_t i = 0; i < k->n; i++)
    at += (size_t)snprintf(
        text + at, size - at,
        i + 1 < k->n ? "  x = Relu(x @ w%zu + b%zu)\n" : "  x @ w%zu + b%zu\n}\n", i, i);
}

/* Numbers that bf16 has, too. */
static anf_value *data(anf_ctx *cx, anf_dtype d, size_t rank, const int64_t *dims, double scale) {
  size_t n = (size_t)(dims[0] * (rank > 1 ? dims[1] : 1));
  unsigned seed = (unsigned)n;
  float *x = malloc(n * sizeof *x);
  uint16_t *half = malloc(n * sizeof *half);
  if (!x || !half) exit(2);
  for (size_t i = 0; i < n; i++) {
    uint32_t word;
    seed = seed * 1664525u + 1013904223u;
    x[i] = (float)(scale * (double)((int)(seed >> 25) - 64) / 64);
    memcpy(&word, &x[i], sizeof word);
    word &= 0xffff0000u;
    memcpy(&x[i], &word, sizeof word);
    half[i] = (uint16_t)(word >> 16);
  }
  anf_value *v = anf_value_tensor(cx, d, rank, dims, d == ANF_F32 ? (void *)x : (void *)half);
  free(x);
  free(half);
  return v;
}

static void compare(const anf_value *a, const anf_value *b, double tolerance, const char *who) {
  double far = 0, size = 0;
  for (size_t i = 0; i < anf_value_elements(a); i++) {
    far = fmax(far, fabs(anf_value_get_f64(a, i) - anf_value_get_f64(b, i)));
    size = fmax(size, fabs(anf_value_get_f64(a, i)));
  }
  bench_check(far <= tolerance * size, who);
}

static void measure(anf_exec *e, const anf_value *x, const char *who) {
  static float out[MOST * MOST];
  anf_generic slot[2] = {{.ptr = (void *)(uintptr_t)anf_value_data(x)}, {.ptr = out}};
  double took[TURNS];
  for (int k = -3; k < TURNS; k++) {
    double start = bench_cpu();
    anf_jit_call_generic(anf_exec_function(e), anf_stream_of_thread(), slot);
    if (k >= 0) took[k] = 1e6 * (bench_cpu() - start);
  }
  bench_line(who, "us", TURNS, took, 0);
}

static void batches(anf_ctx *cx, anf_diag *d, anf_graph *g, const net *k, anf_dtype type,
                    anf_value **arg) {
  anf_exec *e = NULL;
  bench_check(anf_compile(g, NULL, d, &e) == ANF_OK, k->name);
  for (size_t i = 1; e && i <= 2 * k->n; i++) anf_exec_fix(e, i, arg[i], d);
  for (int64_t batch = LEAST; e && batch <= MOST; batch *= 4) {
    char who[60];
    anf_value *want = NULL, *got = NULL;
    arg[0] = data(cx, type, 2, (int64_t[]){batch, k->size[0]}, 1);
    snprintf(who, sizeof who, "%s %s batch %d", k->name, type == ANF_F32 ? "f32" : "bf16",
             (int)batch);
    bool good = anf_exec_run(e, 2 * k->n + 1, arg, NULL, d, &got) == ANF_OK &&
                (batch > LEAST || anf_run(g, 2 * k->n + 1, arg, NULL, d, &want) == ANF_OK);
    bench_check(good, who);
    if (good && want) compare(want, got, type == ANF_F32 ? 1e-4 : 0.05, who);
    if (good) measure(e, arg[0], who);
    anf_value_release(want);
    anf_value_release(got);
    anf_value_release(arg[0]);
  }
  anf_exec_free(e);
}

static void one(anf_ctx *cx, anf_diag *d, const net *k, anf_dtype type) {
  char text[1000];
  anf_value *arg[2 * LAYERS + 1];
  anf_module *m = NULL;
  program(k, text, sizeof text);
  bench_check(anf_parse(cx, text, "mlp.anf", d, &m) == ANF_OK, "the program");
  for (size_t i = 0; i < k->n; i++) {
    arg[2 * i + 1] = data(cx, type, 2, k->size + i, 2 / sqrt((double)k->size[i]));
    arg[2 * i + 2] = data(cx, type, 1, k->size + i + 1, 1);
  }
  if (m) batches(cx, d, anf_module_find(m, "f"), k, type, arg);
  for (size_t i = 1; i <= 2 * k->n; i++) anf_value_release(arg[i]);
  anf_module_free(m);
}

int main(int argc, char **argv) {
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_diag *d = anf_diag_new(cx);
  printf("inference, weights fixed, one thread, CPU time\n");
  for (size_t i = 0; i < sizeof nets / sizeof *nets; i++)
    for (int half = 0; half < 2; half++)
      if (argc < 2 || strcmp(argv[1], nets[i].name) == 0)
        one(cx, d, &nets[i], half ? ANF_BF16 : ANF_F32);
  if (bench_bad) anf_diag_print(d, stderr, false);
  anf_diag_free(d);
  anf_ctx_free(cx);
  return bench_bad;
}
