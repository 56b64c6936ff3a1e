// SPDX-License-Identifier: Apache-2.0
/* The reference interpreter: what an operation and a call cost, and that a loop holds no memory. */
#define _POSIX_C_SOURCE 200809L
#include "bench.h"

static const char text[] =
    "def fibonacci(n: i64) -> i64 {\n"
    "  if n < 1 { 0 } else if n == 1 { 1 } else { fibonacci(n - 1) + fibonacci(n - 2) }\n"
    "}\n"
    "def loop(n: i64) -> i64 { s = 0; while n > 0 { s = s + n; n = n - 1 }; s }\n"
    "def sum_to(n: i64) -> i64 { if n == 0 { 0 } else { n + sum_to(n - 1) } }\n"
    "def straight(x: f64) {\n"
    "  for i in 0..100000 { x = x * 0.5; x = x + 1.0; x = x * 0.5; x = x + 1.0; x = x * 0.5;\n"
    "    x = x + 1.0; x = x * 0.5; x = x + 1.0; x = x * 0.5; x = x + 1.0 }\n"
    "  x\n"
    "}\n";

/* Nanoseconds for each of `count` things that a run does. */
static void measure(anf_ctx *cx, anf_module *m, const char *name, int64_t arg, double want,
                    const char *what, double count, double limit) {
  double sample[BENCH_RUNS];
  for (int i = 0; i < BENCH_RUNS; i++) {
    anf_value *x = anf_value_int(cx, arg), *v = NULL;
    double start = bench_now();
    anf_status st = anf_run(anf_module_find(m, name), 1, &x, NULL, NULL, &v);
    sample[i] = (bench_now() - start) * 1e9 / count;
    bench_check(st == ANF_OK && anf_value_get_f64(v, 0) == want, name);
    anf_value_release(v);
    anf_value_release(x);
  }
  bench_line(what, "ns", BENCH_RUNS, sample, limit);
}

typedef struct {
  anf_ctx *cx;
  size_t least, most;
  unsigned polls;
} meter;

static bool look(void *user, const char *what, double done) {
  meter *t = user;
  (void)what, (void)done;
  if (++t->polls < 4) return true; // plans are made in the first steps
  size_t b = anf_ctx_bytes(t->cx);
  if (!t->least || b < t->least) t->least = b;
  if (b > t->most) t->most = b;
  return true;
}

static void measure_growth(anf_ctx *cx, anf_module *m, meter *t) {
  anf_value *x = anf_value_int(cx, 1000000), *v = NULL;
  *t = (meter){.cx = cx};
  bench_check(anf_run(anf_module_find(m, "loop"), 1, &x, NULL, NULL, &v) == ANF_OK, "loop");
  double growth = (double)(t->most - t->least);
  bench_line("loop of 10^6, memory growth", "bytes", 1, &growth, 4096);
  anf_value_release(v);
  anf_value_release(x);
}

int main(void) {
  meter t = {0};
  anf_ctx_opts o = {.size = sizeof o, .progress = look, .progress_user = &t};
  anf_ctx *cx = t.cx = anf_ctx_new(&o);
  anf_module *m = NULL;
  bench_check(anf_parse(cx, text, "bench.anf", NULL, &m) == ANF_OK, "the programs");
  if (!m) return 1;
  measure_growth(cx, m, &t);
  measure(cx, m, "loop", 1000000, 500000500000.0, "loop of 10^6, a turn", 1e6, 1500);
  measure(cx, m, "fibonacci", 20, 6765, "fibonacci(20), a call", 21891, 1500);
  measure(cx, m, "sum_to", 1000000, 500000500000.0, "sum_to(10^6), a call", 1e6, 2000);
  measure(cx, m, "straight", 0, 2.0, "straight code, an operation", 1e6, 250);
  anf_module_free(m);
  anf_ctx_free(cx);
  return bench_bad;
}
