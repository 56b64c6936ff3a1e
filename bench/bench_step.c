// SPDX-License-Identifier: Apache-2.0
/* Training steps: a network 784-512-512-10 on batches of 128, a tiny one, and a call of nearly nothing.
 * Data is a counter hash, the same in peer_step.py; the losses are compared with those of f64
 * arithmetic. */
#define _POSIX_C_SOURCE 200809L
#include "bench.h"

#include <math.h>

static const char MLP[] = "def loss(p, x, y) {\n"
                          "  h = Relu(x @ p.w1 + p.b1)\n"
                          "  h = Relu(h @ p.w2 + p.b2)\n"
                          "  Mean(SoftmaxCrossEntropy(h @ p.w3 + p.b3, y))\n"
                          "}\n"
                          "def step(p: {w1: f32[784, 512], b1: f32[512], w2: f32[512, 512], b2: "
                          "f32[512], w3: f32[512, 10],\n"
                          "         b3: f32[10]}, x: f32[128, 784], y: i32[128]) {\n"
                          "  (l, g) = value_and_grad(loss)(p, x, y)\n"
                          "  (hyper_map(fn (w, d) { w - 0.1 * d }, p, g), {loss = l})\n"
                          "}\n";
static const char TINY[] =
    "def loss(p, x, y) { Mean(SoftmaxCrossEntropy(Relu(x @ p.w + p.b) @ p.v, y)) }\n"
    "def step(p: {w: f32[2, 4], b: f32[4], v: f32[4, 2]}, x: f32[4, 2], y: i32[4]) {\n"
    "  (l, g) = value_and_grad(loss)(p, x, y)\n"
    "  (hyper_map(fn (w, d) { w - 0.1 * d }, p, g), {loss = l})\n"
    "}\n";
static const char LINE[] = "def step(x: f32[16]) { 2.0 * x + 1.0 }\n";

/* splitmix64 of a counter */
static uint64_t raw(uint64_t tag, uint64_t i) {
  uint64_t z = (i + (tag << 40) + 1) * UINT64_C(0x9E3779B97F4A7C15);
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
  return z ^ (z >> 31);
}
static void uniform(float *p, uint64_t tag, size_t n, double s) {
  for (size_t i = 0; i < n; i++)
    p[i] = (float)((2.0 * ((double)(raw(tag, i) >> 40) / 16777216.0) - 1.0) * s);
}

enum { BATCHES = 4, ROWS = 128, PIXELS = 784 };
static float images[BATCHES][ROWS * PIXELS];
static int32_t labels[BATCHES][ROWS];

static anf_step *make(anf_ctx *cx, anf_diag *d, const char *text, size_t nstate, bool fast,
                      uint32_t threads, anf_module **m) {
  anf_step *s = NULL;
  anf_step_opts o = {.size = sizeof o, .exec = {.fast = fast}, .threads = threads};
  anf_status st = anf_parse(cx, text, "step.anf", d, m);
  if (st == ANF_OK) st = anf_step_new(anf_module_find(*m, "step"), nstate, 0, NULL, &o, d, &s);
  if (st != ANF_OK) anf_diag_print(d, stderr, false);
  bench_check(st == ANF_OK, "the step is compiled");
  return s;
}

static void fill(anf_step *s, const char *path, uint64_t tag, double scale) {
  anf_array a;
  size_t n = 1;
  anf_step_leaf(s, ANF_STATE, anf_step_leaf_find(s, ANF_STATE, path), &a);
  for (size_t i = 0; i < a.rank; i++) n *= (size_t)a.dims[i];
  uniform((float *)a.data, tag, n, scale);
}

static void bind(anf_step *s, size_t i, anf_dtype t, size_t rank, const int64_t *dims, void *data) {
  anf_array a = {.dtype = t, .rank = rank, .dims = dims, .data = data};
  bench_check(anf_step_bind(s, ANF_INPUT, i, &a, NULL) == ANF_OK, "an array is bound");
}

static void one(anf_step *s, int i) {
  static const int64_t dims[] = {ROWS, PIXELS};
  bind(s, 0, ANF_F32, 2, dims, images[i % BATCHES]);
  bind(s, 1, ANF_I32, 1, dims, labels[i % BATCHES]);
  bench_check(anf_step_run(s, NULL) == ANF_OK, "a step runs");
}

static void mlp(anf_ctx *cx, anf_diag *d, bool fast, uint32_t threads) {
  static const struct {
    int step;
    double loss;
  } want[] = {{9, 2.2820687}, {19, 2.2444172}, {49, 2.1754666}};
  anf_module *m = NULL;
  char name[64];
  anf_step *s = make(cx, d, MLP, 1, fast, threads, &m);
  if (!s) return;
  fill(s, "p.w1", 1, 1 / 28.0);
  fill(s, "p.w2", 3, 1 / 22.6);
  fill(s, "p.w3", 5, 1 / 22.6);
  double wall[60], cpu[60], off = 0.0, ms = anf_step_compile_ms(s);
  for (int i = 0; i <= 50; i++) {
    double a = bench_now(), b = bench_cpu();
    one(s, i);
    wall[i] = 1e3 * (bench_now() - a);
    cpu[i] = 1e3 * (bench_cpu() - b);
    for (size_t k = 0; k < 3; k++)
      if (want[k].step == i) off = fmax(off, fabs(anf_step_number(s, "loss") - want[k].loss));
  }
  bench_check(off < 2e-4, "losses are those of f64");
  printf(" %s, %u thread%s\n", fast ? "fast" : "exact", (unsigned)threads, threads == 1 ? "" : "s");
  snprintf(name, sizeof name, "compile");
  bench_line(name, "ms", 1, &ms, 0);
  bench_line("a step, wall clock", "ms", 45, wall + 5, 0);
  bench_line("a step, CPU time", "ms", 45, cpu + 5, 0);
  bench_line("largest error of the loss", "", 1, &off, 0);
  anf_step_free(s);
  anf_module_free(m);
}

/* Nanoseconds of each of many runs. */
static void many(anf_step *s, const char *what, int n, double limit) {
  double sample[BENCH_RUNS];
  for (int r = 0; r < BENCH_RUNS; r++) {
    double start = bench_cpu();
    for (int i = 0; i < n; i++) anf_step_run(s, NULL);
    sample[r] = 1e9 * (bench_cpu() - start) / n;
  }
  bench_line(what, "ns", BENCH_RUNS, sample, limit);
}

static void tiny(anf_ctx *cx, anf_diag *d) {
  static float x[8] = {0, 0, 0, 1, 1, 0, 1, 1};
  static int32_t y[4] = {0, 1, 1, 0};
  static const int64_t dims[] = {4, 2};
  anf_module *m = NULL;
  anf_step *s = make(cx, d, TINY, 1, false, 1, &m);
  if (!s) return;
  fill(s, "p.w", 1, 1.0);
  fill(s, "p.v", 2, 1.0);
  bind(s, 0, ANF_F32, 2, dims, x);
  bind(s, 1, ANF_I32, 1, dims, y);
  many(s, "a step of a 2x4 network", 20000, 2000);
  bench_check(anf_step_number(s, "loss") < 0.6, "the tiny network learns");
  anf_step_free(s);
  anf_module_free(m);
}

static void line(anf_ctx *cx, anf_diag *d) {
  static float x[16] = {3};
  static const int64_t dims[] = {16};
  anf_module *m = NULL;
  anf_array out;
  anf_step *s = make(cx, d, LINE, 0, false, 1, &m);
  if (!s) return;
  bind(s, 0, ANF_F32, 1, dims, x);
  many(s, "2 x + 1 on 16 floats", 1000000, 50);
  anf_step_leaf(s, ANF_OUTPUT, 0, &out);
  bench_check(((float *)out.data)[0] == 7.0F, "2 x + 1");
  anf_step_free(s);
  anf_module_free(m);
}

/* Making and freeing steps, and running one, leave no memory behind. */
static void flat(anf_ctx *cx, anf_diag *d) {
  size_t before = 0;
  for (int i = 0; i < 40; i++) {
    anf_module *m = NULL;
    anf_step *s = make(cx, d, LINE, 0, false, 1, &m);
    for (int k = 0; s && k < 2500; k++) anf_step_run(s, NULL);
    anf_step_free(s);
    anf_module_free(m);
    if (i == 9) before = anf_ctx_bytes(cx);
  }
  double growth = 100.0 * ((double)anf_ctx_bytes(cx) / (double)before - 1.0);
  bench_line("growth over 30 steps made", "%", 1, &growth, 1.0);
}

int main(void) {
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_diag *d = anf_diag_new(cx);
  for (uint64_t j = 0; j < BATCHES; j++) {
    uniform(images[j], 100 + j, ROWS * PIXELS, 1.0);
    for (size_t i = 0; i < ROWS; i++) labels[j][i] = (int32_t)((raw(200 + j, i) >> 20) % 10);
  }
  puts("784-512-512-10, batch 128, SGD");
  mlp(cx, d, false, 1);
  mlp(cx, d, true, 1);
  mlp(cx, d, true, 2);
  puts("small steps");
  tiny(cx, d);
  line(cx, d);
  flat(cx, d);
  anf_diag_free(d);
  anf_ctx_free(cx);
  return bench_bad;
}
