// SPDX-License-Identifier: Apache-2.0
/* Training steps: a network of dense layers, a convolutional and a recurrent one, a small GPT, a tiny
 * network, and a call of nearly nothing. The programs are step/NAME.anf. Data is a counter hash, the same
 * in peer_step.py; losses are compared with those of f64 arithmetic. */
#define _POSIX_C_SOURCE 200809L
#include "bench.h"

#include <math.h>

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
/* Elements from..from + n of the tensor with this tag */
static void uniform(float *p, uint64_t tag, size_t from, size_t n, double s) {
  for (size_t i = 0; i < n; i++)
    p[i] = (float)((2.0 * ((double)(raw(tag, from + i) >> 40) / 16777216.0) - 1.0) * s);
}
static void words(int32_t *p, uint64_t tag, size_t n, uint64_t mod) {
  for (size_t i = 0; i < n; i++) p[i] = (int32_t)((raw(tag, i) >> 20) % mod);
}

/* ---- workloads ---- */

typedef struct weight { // random; all others are as init or zero says
  const char *path;
  uint64_t tag;
  double scale;
} weight;

typedef struct workload {
  const char *name;
  weight weight[8];
  uint64_t words; // labels and, if there are no others, inputs are below this; 0: inputs are reals
  int steps;
  double flops; // of a step: products alone
  struct {
    int step;
    double loss;
  } want[4];  // of f64 arithmetic; loss 0: no more
  double far; // that a loss may be from it
} workload;

/* Losses: shared traces of PyTorch in double; of the convolutions and the recurrent cell in single. */
static const workload workloads[] = {
    {"mlp",
     {{"p.w1", 1, 1 / 28.0}, {"p.w2", 3, 1 / 22.6}, {"p.w3", 5, 1 / 22.6}},
     10,
     50,
     0.411e9,
     {{10, 2.2820687}, {20, 2.2444172}, {50, 2.1754666}},
     2e-5},
    {"cnn",
     {{"p.k1", 1, 0.19}, {"p.k2", 3, 0.059}, {"p.w", 5, 1 / 128.0}},
     10,
     10,
     7.5e9,
     {{10, 2.2943149}},
     2e-6},
    {"rnn", {{"p.w", 1, 0.1}, {"p.u", 2, 0.1}}, 0, 100, 0.63e9, {{100, 0.3370868}}, 2e-6},
    {"gpt",
     {{"s.p.wte", 1, 0.034641},
      {"s.p.wpe", 2, 0.034641},
      {"s.p.h.#.qkvw", 5, 0.034641},
      {"s.p.h.#.attw", 7, 0.034641},
      {"s.p.h.#.fcw", 11, 0.034641},
      {"s.p.h.#.prw", 13, 0.034641}},
     4096,
     20,
     13.7e9,
     {{1, 8.34360833}, {10, 7.54539377}},
     2e-6},
};

static size_t count_of(const anf_array *a) {
  size_t n = 1;
  for (size_t i = 0; i < a->rank; i++) n *= (size_t)a->dims[i];
  return n;
}

static bool fill(anf_step *s, const char *path, uint64_t tag, size_t part, double scale) {
  anf_array a;
  if (anf_step_leaf(s, ANF_STATE, anf_step_leaf_find(s, ANF_STATE, path), &a) != ANF_OK)
    return false;
  size_t n = count_of(&a);
  uniform((float *)a.data, tag, part * n, n, scale);
  return true;
}

/* A path with # stands for layers 0, 1, ..., parts of one tensor. */
static void fill_all(anf_step *s, const workload *w) {
  char path[64];
  for (const weight *x = w->weight; x->path; x++) {
    const char *mark = strchr(x->path, '#');
    bool good = true;
    for (size_t k = 0; good && k < (mark ? 4 : 1); k++) {
      if (mark)
        snprintf(path, sizeof path, "%.*s%zu%s", (int)(mark - x->path), x->path, k, mark + 1);
      good = fill(s, mark ? path : x->path, x->tag, k, x->scale);
    }
    bench_check(good, x->path);
  }
}

enum { BATCHES = 4 };
typedef struct batch {
  anf_array a[2];
} batch;

static void make_batches(anf_step *s, const workload *w, batch *b) {
  for (uint64_t j = 0; j < BATCHES; j++)
    for (size_t i = 0; i < 2; i++) {
      anf_array *a = &b[j].a[i];
      anf_step_leaf(s, ANF_INPUT, i, a);
      size_t n = count_of(a);
      a->data = malloc(n * 4);
      if (!a->data) exit(4);
      if (a->dtype == ANF_F32) uniform((float *)a->data, 100 + 100 * i + j, 0, n, 1.0);
      else words((int32_t *)a->data, 100 + 100 * i + j, n, w->words);
    }
}
static void free_batches(batch *b) {
  for (size_t j = 0; j < BATCHES; j++)
    for (size_t i = 0; i < 2; i++) free(b[j].a[i].data);
}

/* MB of a row of /proc/self/status. */
static double status_mb(const char *row) {
  char text[128];
  double kb = 0;
  FILE *f = fopen("/proc/self/status", "r");
  while (f && fgets(text, sizeof text, f))
    if (strncmp(text, row, strlen(row)) == 0) kb = strtod(text + strlen(row), NULL);
  if (f) fclose(f);
  return kb / 1024;
}

/* ---- steps ---- */

static anf_step *make(anf_ctx *cx, anf_diag *d, anf_module *m, size_t nstate, bool fast,
                      uint32_t threads) {
  anf_step *s = NULL;
  anf_graph *init = anf_module_find(m, "init"), *step = anf_module_find(m, "step");
  const char *cache = getenv("ANFORA_BENCH_CACHE"); // a folder of start_step.py
  anf_jit_opts jit = {.size = sizeof jit, .cache_dir = cache};
  anf_exec_opts how = {.size = sizeof how, .fast = fast, .jit = &jit};
  anf_step_opts o = {.size = sizeof o, .exec = &how, .threads = threads};
  anf_value *state = NULL, *key = anf_value_tensor(cx, ANF_KEY, 0, NULL, NULL);
  const anf_type *types[3];
  anf_status st = ANF_OK;
  if (init) st = anf_run(init, 1, &key, NULL, d, &state);
  if (state) {
    types[0] = anf_value_type(cx, state);
    for (size_t i = 1; i < 3; i++) types[i] = anf_node_type(anf_graph_param(step, i));
    st = anf_step_new_typed(step, nstate, 3, types, &o, d, &s);
    if (st == ANF_OK) st = anf_step_set(s, 0, state, d);
  } else if (st == ANF_OK) st = anf_step_new(step, nstate, 0, NULL, &o, d, &s);
  anf_value_release(state);
  anf_value_release(key);
  if (st != ANF_OK) anf_diag_print(d, stderr, false);
  bench_check(st == ANF_OK, "the step is compiled");
  return s;
}

static void one(anf_step *s, const batch *b) {
  for (size_t i = 0; i < 2; i++)
    bench_check(anf_step_bind(s, ANF_INPUT, i, &b->a[i], NULL) == ANF_OK, "an array is bound");
  bench_check(anf_step_run(s, NULL) == ANF_OK, "a step runs");
}

static double distance(const workload *w, int step, double loss) {
  for (size_t k = 0; k < 4 && w->want[k].loss > 0; k++)
    if (w->want[k].step == step) return fabs(loss - w->want[k].loss);
  return 0;
}

static void measure(anf_step *s, const workload *w) {
  enum { MOST = 100, WARM = 3 };
  batch b[BATCHES];
  double wall[MOST], cpu[MOST], off = 0.0, ms = anf_step_compile_ms(s);
  make_batches(s, w, b);
  for (int i = 0; i < w->steps; i++) {
    double start = bench_now(), used = bench_cpu();
    one(s, &b[i % BATCHES]);
    wall[i] = 1e3 * (bench_now() - start);
    cpu[i] = 1e3 * (bench_cpu() - used);
    off = fmax(off, distance(w, i + 1, anf_step_number(s, "loss")));
  }
  size_t n = (size_t)(w->steps - WARM);
  bench_check(off < w->far, "losses are those of the reference");
  bench_line("compile", "ms", 1, &ms, 0);
  bench_line("a step, wall clock", "ms", n, wall + WARM, 0);
  bench_line("a step, CPU time", "ms", n, cpu + WARM, 0);
  double rate = w->flops / cpu[WARM] / 1e6; // sorted by now
  bench_line("products, of the best CPU time", "GFLOP/s", 1, &rate, 0);
  bench_line("largest error of the loss", "", 1, &off, 0);
  free_batches(b);
}

static void run(anf_ctx *cx, anf_diag *d, const workload *w, bool fast, uint32_t threads) {
  anf_module *m = NULL;
  char path[512];
  snprintf(path, sizeof path, "%s/step/%s.anf", BENCH_DIR, w->name);
  anf_status st = anf_load(cx, path, d, &m);
  bench_check(st == ANF_OK, path);
  anf_step *s = m ? make(cx, d, m, 1, fast, threads) : NULL;
  printf(" %s, %s, %u thread%s\n", w->name, fast ? "fast" : "exact", (unsigned)threads,
         threads == 1 ? "" : "s");
  if (s) {
    fill_all(s, w);
    measure(s, w);
  }
  anf_step_free(s);
  anf_module_free(m);
}

/* ---- small steps ---- */

static anf_step *make_text(anf_ctx *cx, anf_diag *d, const char *text, size_t nstate,
                           anf_module **m) {
  bench_check(anf_parse(cx, text, "step.anf", d, m) == ANF_OK, "the program is read");
  return *m ? make(cx, d, *m, nstate, false, 1) : NULL;
}

static void bind(anf_step *s, size_t i, anf_dtype t, size_t rank, const int64_t *dims, void *data) {
  anf_array a = {.dtype = t, .rank = rank, .dims = dims, .data = data};
  bench_check(anf_step_bind(s, ANF_INPUT, i, &a, NULL) == ANF_OK, "an array is bound");
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
  anf_step *s = make_text(cx, d, TINY, 1, &m);
  if (!s) return;
  fill(s, "p.w", 1, 0, 1.0);
  fill(s, "p.v", 2, 0, 1.0);
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
  anf_step *s = make_text(cx, d, LINE, 0, &m);
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
    anf_step *s = make_text(cx, d, LINE, 0, &m);
    for (int k = 0; s && k < 2500; k++) anf_step_run(s, NULL);
    anf_step_free(s);
    anf_module_free(m);
    if (i == 9) before = anf_ctx_bytes(cx);
  }
  double growth = 100.0 * ((double)anf_ctx_bytes(cx) / (double)before - 1.0);
  bench_line("growth over 30 steps made", "%", 1, &growth, 1.0);
}

/* A few steps of one workload in a fresh process: what it holds before them, and at most, in MB.
 * The whole process is timed from outside (start_step.py). */
static void first(anf_ctx *cx, anf_diag *d, const workload *w, int steps) {
  char path[512];
  anf_module *m = NULL;
  batch b[BATCHES];
  snprintf(path, sizeof path, "%s/step/%s.anf", BENCH_DIR, w->name);
  bench_check(anf_load(cx, path, d, &m) == ANF_OK, path);
  anf_step *s = m ? make(cx, d, m, 1, false, 1) : NULL;
  if (!s) return;
  fill_all(s, w);
  make_batches(s, w, b);
  double before = status_mb("VmRSS:"), compile = anf_step_compile_ms(s);
  for (int i = 0; i < steps; i++) one(s, &b[i % BATCHES]);
  printf("{\"compile_ms\": %.1f, \"before_mb\": %.1f, \"peak_mb\": %.1f, \"loss\": %.7f}\n",
         compile, before, status_mb("VmHWM:"), anf_step_number(s, "loss"));
  free_batches(b);
  anf_step_free(s);
  anf_module_free(m);
}

static const workload *find(const char *name) {
  for (size_t i = 0; i < sizeof workloads / sizeof *workloads; i++)
    if (strcmp(name, workloads[i].name) == 0) return &workloads[i];
  return NULL;
}

/* bench_step [NAME]: one workload alone; bench_step NAME STEPS: so many steps, and what they hold. */
int main(int argc, char **argv) {
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_diag *d = anf_diag_new(cx);
  if (argc > 2 && find(argv[1])) {
    first(cx, d, find(argv[1]), atoi(argv[2]));
    return bench_bad;
  }
  for (size_t i = 0; i < sizeof workloads / sizeof *workloads; i++) {
    const workload *w = &workloads[i];
    if (argc > 1 && strcmp(argv[1], w->name) != 0) continue;
    run(cx, d, w, false, 1);
    run(cx, d, w, true, 1);
    run(cx, d, w, true, 2);
  }
  if (argc < 2) {
    puts(" small steps");
    tiny(cx, d);
    line(cx, d);
    flat(cx, d);
  }
  anf_diag_free(d);
  anf_ctx_free(cx);
  return bench_bad;
}
