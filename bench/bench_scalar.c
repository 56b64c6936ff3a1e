// SPDX-License-Identifier: Apache-2.0
/* Scalar programs, compiled: recursion, loops, gradients, calls, beside the same in C (twin_scalar.c)
 * by gcc -O2 and clang -O2. Each is measured in turn with its twins, several times; figures are the
 * medians of ratios of the fastest of neighbouring runs. */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <math.h>
#include <unistd.h>

#include "anfora/exec.h"
#include "anfora/rt.h"
#include "bench.h"

static const char text[] =
    "def fibonacci(n: i64) -> i64 {\n"
    "  if n < 1 { 0 } else if n == 1 { 1 } else { fibonacci(n - 1) + fibonacci(n - 2) }\n"
    "}\n"
    "def ackermann(m: i64, n: i64) -> i64 {\n"
    "  if m == 0 { n + 1 } else if n == 0 { ackermann(m - 1, 1) }\n"
    "  else { ackermann(m - 1, ackermann(m, n - 1)) }\n"
    "}\n"
    "def female(n: i64) -> i64 { if n == 0 { 1 } else { n - male(female(n - 1)) } }\n"
    "def male(n: i64) -> i64 { if n == 0 { 0 } else { n - female(male(n - 1)) } }\n"
    "def logistic(x: f64, h: f64, n: i64) -> f64 {\n"
    "  i = 0; while i < n { x = x + h * x * (1.0 - x); i = i + 1 }; x\n"
    "}\n"
    "def logistic_grad(x: f64, h: f64, n: i64) { grad(logistic, wrt=1)(x, h, n) }\n"
    "def logistic_grad2(x: f64, h: f64, n: i64) { grad(logistic_grad, wrt=1)(x, h, n) }\n"
    "def tree(x: f64, n: i64) -> f64 {\n"
    "  if n == 0 { x * x } else { tree(x * 0.5, n - 1) + tree(x * 1.5, n - 1) }\n"
    "}\n"
    "def tree_grad(x: f64, n: i64) { grad(tree)(x, n) }\n"
    "def dispatch(x: f64, n: i64) -> f64 {\n"
    "  a = 0.75; f = fn (x) { x + a }; g = fn (x) { x * a }\n"
    "  i = 0; while i < n { x = switch((i * 7 // 3) % 2, (f, g))(x); i = i + 1 }; x\n"
    "}\n"
    "def plus(a: f64, b: f64) -> f64 { a + b }\n";

typedef union place {
  void *p;
  int64_t (*i1)(int64_t);
  int64_t (*i2)(int64_t, int64_t);
  double (*loop)(double, double, int64_t);
  double (*rec)(double, int64_t);
  double (*plus)(double, double);
} place;

typedef struct args {
  double x, h;
  int64_t m, n;
} args;

static double as_i1(place f, const args *a) { return (double)f.i1(a->n); }
static double as_i2(place f, const args *a) { return (double)f.i2(a->m, a->n); }
static double as_loop(place f, const args *a) { return f.loop(a->x, a->h, a->n); }
static double as_rec(place f, const args *a) { return f.rec(a->x, a->n); }
static double as_plus(place f, const args *a) {
  double s = a->x;
  for (int64_t i = 0; i < a->n; i++) s = f.plus(s, a->h);
  return s;
}

/* ---- the twins ---- */

static void *twin[2]; // gcc, clang
static const char *const compiler[2] = {"gcc", "clang"};

static void compile_twins(void) {
  for (int i = 0; i < 2; i++) {
    char file[256], line[1024];
    const char *in = getenv("TMPDIR");
    snprintf(file, sizeof file, "%s/anf_twin_%d_%d.so", in && *in ? in : "/tmp", (int)getpid(), i);
    snprintf(line, sizeof line, "%s -O2 -fPIC -shared -o %s %s 2>/dev/null", compiler[i], file,
             BENCH_DIR "/twin_scalar.c");
    if (system(line) == 0) twin[i] = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    unlink(file);
    if (!twin[i]) printf("  (no %s)\n", compiler[i]);
  }
}

/* ---- ours ---- */

static anf_ctx *cx;
static anf_module *m;

static anf_exec *compiled(const char *name) {
  anf_diag *d = anf_diag_new(cx);
  anf_exec *e = NULL;
  anf_graph *g = anf_module_find(m, name);
  if (!g || anf_compile(g, NULL, d, &e) != ANF_OK) anf_diag_print(d, stdout, false);
  anf_diag_free(d);
  bench_check(e != NULL, name);
  return e;
}

static place pointer(const anf_exec *e) { return (place){.p = e ? anf_exec_pointer(e) : NULL}; }

/* ---- measuring ---- */

enum { SIDES = 3, ROUNDS = 9 };

static double timed(double (*call)(place, const args *), place f, const args *a, double *value) {
  double best = INFINITY;
  for (int k = 0; k < 3; k++) {
    double start = bench_cpu();
    *value = call(f, a);
    double t = bench_cpu() - start;
    if (t < best) best = t;
  }
  return best;
}

/* Times of ours and of the twins; `per` things are done in a run. */
static void compare(const char *name, const char *twin_name, double (*call)(place, const args *),
                    args a, double per, double limit) {
  anf_exec *e = compiled(name);
  place f[SIDES] = {pointer(e)};
  double ns[SIDES][ROUNDS], ratio[ROUNDS], value[SIDES] = {0};
  for (int i = 0; i < 2; i++)
    if (twin[i]) f[i + 1].p = dlsym(twin[i], twin_name);
  for (int r = 0; r < ROUNDS && f[0].p; r++) {
    for (int s = 0; s < SIDES; s++)
      ns[s][r] = f[s].p ? timed(call, f[s], &a, &value[s]) * 1e9 / per : 0;
    double best = f[2].p ? ns[2][r] : ns[1][r];
    ratio[r] = best > 0 ? ns[0][r] / best : 0;
  }
  anf_exec_free(e);
  if (!f[0].p) return;
  for (int s = 1; s < SIDES; s++)
    bench_check(!f[s].p || fabs(value[s] - value[0]) <= 1e-9 * fabs(value[0]), name);
  char label[64];
  for (int s = 0; s < SIDES; s++) {
    snprintf(label, sizeof label, "%s, %s", name, s ? compiler[s - 1] : "ours");
    if (f[s].p) bench_line(label, "ns", ROUNDS, ns[s], 0);
  }
  snprintf(label, sizeof label, "%s, ratio", name);
  bench_line(label, f[2].p ? "x clang" : "x gcc", ROUNDS, ratio, limit);
}

/* Ours against ours: a derivative against what it is one of. */
static void against(const char *name, const char *base, double (*call)(place, const args *), args a,
                    double per, double limit) {
  anf_exec *e = compiled(name), *b = compiled(base);
  place f = pointer(e), g = pointer(b);
  double ns[ROUNDS], ratio[ROUNDS], value;
  for (int r = 0; r < ROUNDS && f.p && g.p; r++) {
    ns[r] = timed(call, f, &a, &value) * 1e9 / per;
    ratio[r] = ns[r] / (timed(call, g, &a, &value) * 1e9 / per);
  }
  anf_exec_free(e);
  anf_exec_free(b);
  char label[64];
  bench_line(name, "ns", ROUNDS, ns, 0);
  snprintf(label, sizeof label, "%s / %s", name, base);
  bench_line(label, "x", ROUNDS, ratio, limit);
}

static void generic(void) {
  enum { CALLS = 1000000 };
  anf_exec *e = compiled("plus");
  double ns[ROUNDS];
  anf_generic slot[3] = {{.bits = 0}};
  anf_stream *s = anf_stream_of_thread();
  for (int r = 0; r < ROUNDS && e; r++) {
    double start = bench_cpu();
    for (int i = 0; i < CALLS; i++) {
      slot[0].f64 = i, slot[1].f64 = 1;
      anf_jit_call_generic(anf_exec_function(e), s, slot);
    }
    ns[r] = (bench_cpu() - start) * 1e9 / CALLS;
    bench_check(slot[2].f64 == CALLS, "call_generic");
  }
  anf_exec_free(e);
  bench_line("call_generic", "ns", ROUNDS, ns, 20);
}

static void cold(void) {
  double ms[ROUNDS];
  for (int r = 0; r < ROUNDS; r++) {
    double start = bench_cpu();
    anf_exec *e = compiled("fibonacci");
    ms[r] = (bench_cpu() - start) * 1e3;
    anf_exec_free(e);
  }
  bench_line("compile fibonacci", "ms", ROUNDS, ms, 15);
}

int main(void) {
  cx = anf_ctx_new(NULL);
  bench_check(anf_parse(cx, text, "bench.anf", NULL, &m) == ANF_OK, "the programs");
  if (!m) return 1;
  compile_twins();
  compare("fibonacci", "fibonacci", as_i1, (args){.n = 27}, 832040, 1.1);
  compare("fibonacci", "fibonacci", as_i1, (args){.n = 32}, 7049155, 1.1);
  compare("ackermann", "ackermann", as_i2, (args){.m = 3, .n = 7}, 693964, 1.1);
  compare("female", "female", as_i1, (args){.n = 110}, 1e6, 1.1);
  compare("logistic", "logistic", as_loop, (args){.x = 0.1, .h = 1e-5, .n = 1000000}, 1e6, 1.05);
  compare("logistic_grad", "logistic_grad", as_loop, (args){.x = 0.1, .h = 1e-5, .n = 1000000}, 1e6,
          1.1);
  against("logistic_grad2", "logistic_grad", as_loop, (args){.x = 0.1, .h = 1e-5, .n = 1000000},
          1e6, 1.9);
  compare("tree", "tree", as_rec, (args){.x = 1, .n = 18}, 524287, 1.1);
  against("tree_grad", "tree", as_rec, (args){.x = 1, .n = 18}, 524287, 2.2);
  compare("dispatch", "dispatch", as_rec, (args){.x = 1, .n = 1000000}, 1e6, 0);
  compare("plus", "plus", as_plus, (args){.x = 0, .h = 1, .n = 1000000}, 1e6, 1.1);
  generic();
  cold();
  anf_module_free(m);
  anf_ctx_free(cx);
  return bench_bad;
}
