// SPDX-License-Identifier: Apache-2.0
/* What compiling costs in a running process: gradients of long straight-line programs of scalars,
 * values and gradients of long chains of tensor ops to their first result, a training step of GPT anew
 * and from the cache on disk. Limits are on processor time, of all threads, which other work on the
 * machine disturbs little; on an idle machine the clock on the wall shows less of what two threads
 * share. Results are compared with those of the reference interpreter. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <unistd.h>

#include "anfora/exec.h"
#include "anfora/step.h"
#include "bench.h"

enum { MOST = 9 };

static anf_ctx *cx;
static anf_diag *d;

/* ---- programs ---- */

static uint64_t seed = 1;
static size_t next_below(size_t n) { // xorshift
  seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
  return (size_t)(seed % n);
}

/* n operations, half of them Sin, Cos and Tanh; the others read a value of the 50 before, and are
 * halved, which keeps values small. */
static void put_scalars(char *p, size_t n) {
  static const char *const fn[] = {"Sin", "Cos", "Tanh"};
  size_t i = 2;
  p += sprintf(p, "def f(x: f64, y: f64) -> f64 {\n  v0 = x\n  v1 = y\n");
  for (size_t ops = 0; ops < n; i++) {
    size_t back = i - 1 - next_below(i < 50 ? i : 50);
    bool one = next_below(3) < 2 || ops + 1 == n; // a third are two operations
    ops += one ? 1 : 2;
    p += one ? sprintf(p, "  v%zu = %s(v%zu)\n", i, fn[next_below(3)], i - 1)
             : sprintf(p, "  v%zu = (v%zu %c v%zu) * 0.5\n", i, i - 1, "+-*"[next_below(3)], back);
  }
  sprintf(p, "  v%zu\n}\ndef main(x: f64, y: f64) { grad(f)(x, y) }\n", i - 1);
}

static void put_tensors(char *p, size_t n) {
  static const char *const form[] = {"v%zu * 0.999", "Tanh(v%zu)", "v%zu + v0", "v%zu * v0"};
  p += sprintf(p, "def f(x: f32[1024]) {\n  v0 = x\n");
  for (size_t i = 0; i < n; i++) {
    p += sprintf(p, "  v%zu = ", i + 1);
    p += sprintf(p, form[i % 4], i);
    *p++ = '\n';
  }
  sprintf(p, "  Sum(v%zu)\n}\ndef main(x: f32[1024]) { value_and_grad(f)(x) }\n", n);
}

static anf_module *program(void (*put)(char *, size_t), size_t n) {
  anf_module *m = NULL;
  char *text = (char *)malloc(64 * n + 1000);
  if (!text) exit(4);
  seed = 1;
  put(text, n);
  if (anf_parse(cx, text, "bench.anf", d, &m) != ANF_OK) anf_diag_print(d, stdout, false);
  free(text);
  if (!m) exit(1);
  return m;
}

/* ---- compiling and the first result ---- */

typedef struct times {
  double cpu, wall; // ms
} times;

static anf_value *result_of(anf_graph *g, size_t n, anf_value *const *args, times *t) {
  anf_exec *e = NULL;
  anf_value *r = NULL;
  double start = bench_now(), used = bench_cpu();
  anf_status st = anf_compile(g, NULL, d, &e);
  if (st == ANF_OK) st = anf_exec_run(e, n, args, NULL, d, &r);
  t->cpu = 1e3 * (bench_cpu() - used);
  t->wall = 1e3 * (bench_now() - start);
  bench_check(st == ANF_OK, "it is compiled and runs");
  if (st != ANF_OK) anf_diag_print(d, stdout, false);
  anf_exec_free(e);
  return r;
}

/* The lowest processor time of `runs`. */
static double measure(const char *what, anf_module *m, size_t n, anf_value *const *args,
                      size_t runs, double limit, anf_value **result) {
  double cpu[MOST], wall[MOST];
  char label[96];
  for (size_t i = 0; i < runs; i++) {
    times t;
    anf_value_release(*result);
    *result = result_of(anf_module_find(m, "main"), n, args, &t);
    cpu[i] = t.cpu, wall[i] = t.wall;
  }
  snprintf(label, sizeof label, "%s, CPU", what);
  bench_line(label, "ms", runs, cpu, limit);
  snprintf(label, sizeof label, "%s, wall", what);
  bench_line(label, "ms", runs, wall, 0);
  return cpu[0];
}

static void scalars(void) {
  static const struct {
    size_t n, runs;
    double limit;
  } size[] = {{1000, 9, 0}, {10000, 9, 250}, {100000, 3, 0}};
  double cpu[3];
  anf_value *args[] = {anf_value_f64(cx, 0.3), anf_value_f64(cx, 0.2)};
  for (size_t i = 0; i < 3; i++) {
    anf_module *m = program(put_scalars, size[i].n);
    anf_value *got = NULL, *want = NULL;
    char label[64];
    snprintf(label, sizeof label, "gradient of %zu scalars", size[i].n);
    cpu[i] = measure(label, m, 2, args, size[i].runs, size[i].limit, &got);
    anf_run(anf_module_find(m, "main"), 2, args, NULL, d, &want);
    bench_check(got && want && anf_value_same(got, want), "the gradient is the interpreter's");
    anf_value_release(got);
    anf_value_release(want);
    anf_module_free(m);
  }
  double growth = cpu[2] / cpu[1];
  bench_line("ten times as many take", "times", 1, &growth, 12.5);
  anf_value_release(args[0]);
  anf_value_release(args[1]);
}

static void tensors(void) {
  static const struct {
    size_t n, runs;
    double limit;
  } size[] = {{10000, 3, 1000}, {100000, 1, 10000}};
  float x[1024];
  int64_t dim = 1024;
  for (size_t i = 0; i < 1024; i++) x[i] = (float)i / 1024;
  anf_value *arg = anf_value_tensor(cx, ANF_F32, 1, &dim, x);
  for (size_t i = 0; i < 2; i++) {
    anf_module *m = program(put_tensors, size[i].n);
    anf_value *got = NULL;
    char label[64];
    snprintf(label, sizeof label, "chain of %zu tensors", size[i].n);
    measure(label, m, 1, &arg, size[i].runs, size[i].limit, &got);
    anf_value_release(got);
    anf_module_free(m);
  }
  anf_value_release(arg);
}

/* ---- GPT ---- */

static times step_of(anf_module *m, const anf_type *const *types, const char *cache) {
  anf_step *s = NULL;
  anf_step_opts o = {.size = sizeof o};
  anf_jit_opts jit = {.size = sizeof jit, .cache_dir = cache};
  o.exec = &(anf_exec_opts){.jit = &jit};
  double start = bench_now(), used = bench_cpu();
  anf_status st = anf_step_new_typed(anf_module_find(m, "step"), 1, 3, types, &o, d, &s);
  times t = {1e3 * (bench_cpu() - used), 1e3 * (bench_now() - start)};
  bench_check(st == ANF_OK, "the step is compiled");
  anf_step_free(s);
  return t;
}

static void steps(const char *what, anf_module *m, const anf_type *const *types, const char *cache,
                  double limit) {
  enum { RUNS = 5 };
  double cpu[RUNS], wall[RUNS];
  char label[64];
  for (int i = 0; i < RUNS; i++) {
    times t = step_of(m, types, cache);
    cpu[i] = t.cpu, wall[i] = t.wall;
  }
  snprintf(label, sizeof label, "%s, CPU", what);
  bench_line(label, "ms", RUNS, cpu, limit);
  snprintf(label, sizeof label, "%s, wall", what);
  bench_line(label, "ms", RUNS, wall, 0);
}

static void gpt(void) {
  anf_module *m = NULL;
  anf_value *state = NULL, *key = anf_value_tensor(cx, ANF_KEY, 0, NULL, NULL);
  const anf_type *types[3];
  char dir[256], line[300];
  const char *in = getenv("TMPDIR");
  snprintf(dir, sizeof dir, "%s/anf_bench_XXXXXX", in && *in ? in : "/tmp");
  bench_check(anf_load(cx, BENCH_DIR "/step/gpt.anf", d, &m) == ANF_OK && mkdtemp(dir), "gpt.anf");
  if (m) anf_run(anf_module_find(m, "init"), 1, &key, NULL, d, &state);
  if (!state) exit(1);
  types[0] = anf_value_type(cx, state);
  for (size_t i = 1; i < 3; i++)
    types[i] = anf_node_type(anf_graph_param(anf_module_find(m, "step"), i));
  anf_value_release(state);
  anf_value_release(key);
  steps("GPT's step", m, types, NULL, 1500);
  step_of(m, types, dir);
  steps("GPT's step, from disk", m, types, dir, 50);
  anf_module_free(m);
  snprintf(line, sizeof line, "rm -r %s", dir);
  bench_check(system(line) == 0, "the cache can be removed");
}

int main(void) {
  times t;
  cx = anf_ctx_new(NULL);
  d = anf_diag_new(cx);
  anf_module *first = program(put_scalars, 10); // loads LLVM
  anf_value *args[] = {anf_value_f64(cx, 0.3), anf_value_f64(cx, 0.2)};
  anf_value_release(result_of(anf_module_find(first, "main"), 2, args, &t));
  anf_value_release(args[0]);
  anf_value_release(args[1]);
  anf_module_free(first);
  scalars();
  tensors();
  gpt();
  anf_diag_free(d);
  anf_ctx_free(cx);
  return bench_bad;
}
