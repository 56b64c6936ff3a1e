// SPDX-License-Identifier: Apache-2.0
/* The standard pipeline on straight-line programs of 10^4, 10^5 and 10^6 nodes, pass by pass, and
 * on programs of many small functions. What is optimised is run before and after, and must give the
 * same bits. Times are of the processor: it is the work of one thread. Goals are printed; only a
 * wrong result ends in status 1. */
#define _POSIX_C_SOURCE 200809L
#include "bench.h"
#include "optimizer/infer/infer.h"

enum { MAX_PASSES = 32, WINDOW = 50, SIZES = 3 };

/* What passes took, summed over their runs in one pipeline. */
typedef struct {
  const char *name;
  double ms[BENCH_RUNS];
} pass_time;

typedef struct {
  pass_time pass[MAX_PASSES];
  size_t n, run;
  double last; // the processor's time when the pass before ended
} times;

static void note_pass(void *user, anf_module *m, const char *pass, double ms, uint64_t rewrites) {
  times *t = user;
  (void)m, (void)ms, (void)rewrites;
  double now = bench_cpu();
  size_t i = 0;
  while (i < t->n && strcmp(t->pass[i].name, pass) != 0) i++;
  if (i == MAX_PASSES) return;
  if (i == t->n) t->pass[t->n++].name = pass;
  t->pass[i].ms[t->run] += (now - t->last) * 1e3;
  t->last = now;
}

static uint64_t random_state;
/* Each node uses the one before, so none is dead, and a binary one another of the last 50. */
static anf_module *straight(anf_ctx *cx, size_t n) {
  static const char *const op[] = {"Add",  "Mul", "Sub",     "Maximum",
                                   "Tanh", "Sin", "Sigmoid", "Tanh"};
  anf_module *m = anf_module_new(cx);
  anf_graph *g = anf_graph_new(m, "main");
  anf_node **node = (anf_node **)malloc(sizeof *node * (n + 1));
  if (!node) exit(2);
  random_state = 88172645463325252u;
  node[0] = anf_param(g, "x", anf_type_tensor(cx, ANF_F32, 1, (int64_t[]){4}));
  for (size_t i = 1; i <= n; i++) {
    size_t k = bench_below(&random_state, 8),
           back = 1 + bench_below(&random_state, i < WINDOW ? i : WINDOW);
    node[i] = anf_op(g, op[k], k < 4 ? 2 : 1, (anf_node *[]){node[i - 1], node[i - back]});
  }
  anf_return(g, node[n]);
  free(node);
  return m;
}

static anf_value *run(anf_module *m, anf_value *x) {
  anf_value *v = NULL;
  bench_check(anf_run(anf_module_find(m, "main"), 1, &x, NULL, NULL, &v) == ANF_OK, "a run");
  return v;
}

/* Seconds of the whole pipeline. */
static double optimise_once(size_t n, times *t, bool check) {
  anf_ctx *cx = anf_ctx_new(NULL);
  if (!cx) exit(2);
  anf_module *m = straight(cx, n);
  anf_opt_opts o = {.size = sizeof o, .after = note_pass, .user = t};
  const float at[4] = {0.5f, -1.25f, 2.0f, 0.001f};
  anf_value *x = anf_value_tensor(cx, ANF_F32, 1, (int64_t[]){4}, at);
  anf_value *before = check ? run(m, x) : NULL;
  double start = t->last = bench_cpu();
  bench_check(anf_optimise(m, "standard", &o, NULL) == ANF_OK, "the standard pipeline");
  double spent = bench_cpu() - start;
  if (check) {
    anf_value *after = run(m, x);
    bench_check(before && after && anf_value_same(before, after), "same bits after optimising");
    bench_check(after && anf_value_get_f64(after, 0) - anf_value_get_f64(after, 0) == 0,
                "a finite result");
    anf_value_release(after);
  }
  anf_value_release(before);
  anf_value_release(x);
  anf_module_free(m);
  anf_ctx_free(cx);
  return spent;
}

static anf_status infer_in_frame(anf_module *m, double *spent) {
  ANFI_ENTRY(m->cx, NULL);
  anf_graph *g = anf_module_find(m, "main");
  const anf_type *type = g->params.at[0]->type;
  double start = bench_cpu();
  anfi_inference *q = anfi_infer_new(m);
  anfi_infer_entry(q, g, 1, &type);
  bool inferred = anfi_infer_run(q);
  *spent = bench_cpu() - start;
  bench_check(inferred, "inference");
  return anfi_leave(m->cx);
}

/* Seconds of inference alone, which is a part of the pass `specialise`. */
static double infer_once(size_t n) {
  double spent = 0;
  anf_ctx *cx = anf_ctx_new(NULL);
  if (!cx) exit(2);
  anf_module *m = straight(cx, n);
  bench_check(anf_optimise(m, "lift", NULL, NULL) == ANF_OK, "lift");
  bench_check(infer_in_frame(m, &spent) == ANF_OK, "inference");
  anf_module_free(m);
  anf_ctx_free(cx);
  return spent;
}

static void show(const char *what, double *sample, size_t n, double scale, double limit) {
  for (size_t i = 0; i < BENCH_RUNS; i++) sample[i] *= scale / (double)n;
  qsort(sample, BENCH_RUNS, sizeof *sample, bench_order);
  printf("  %-28s %10.4g ns/node (%.4g to %.4g)", what, sample[BENCH_RUNS / 2], sample[0],
         sample[BENCH_RUNS - 1]);
  if (limit > 0) printf("  goal %g%s", limit, sample[BENCH_RUNS / 2] <= limit ? "" : "  missed");
  putchar('\n');
}

static double measure(size_t n) {
  static times t;
  double whole[BENCH_RUNS], inference[BENCH_RUNS];
  memset(&t, 0, sizeof t);
  for (t.run = 0; t.run < BENCH_RUNS; t.run++) {
    whole[t.run] = optimise_once(n, &t, t.run == 0);
    inference[t.run] = infer_once(n);
  }
  printf("standard pipeline, straight-line program of %zu nodes\n", n);
  for (size_t i = 0; i < t.n; i++) show(t.pass[i].name, t.pass[i].ms, n, 1e6, 0);
  show("inference, of specialise", inference, n, 1e9, 300);
  show("all", whole, n, 1e9, 2000);
  return whole[BENCH_RUNS / 2] * (double)n;
}

/* ---- many small functions ---- */

static void put(anf_text *o, const char *form, size_t a, size_t b) {
  char line[256];
  size_t len = (size_t)snprintf(line, sizeof line, form, a, b, b);
  char *more = realloc(o->text, o->len + len + 1);
  if (!more) exit(2);
  o->text = more;
  memcpy(o->text + o->len, line, len + 1);
  o->len += len;
}

static char *chain(size_t n) { // f0 is called by f1, ... by main
  anf_text o = {0};
  put(&o, "def g0(x) { x + 1 }\n", 0, 0);
  for (size_t i = 1; i < n; i++) put(&o, "def g%zu(x) { g%zu(x) + 1 }\n", i, i - 1);
  put(&o, "def main(x: i64) { g%zu(x) }\n", n - 1, 0);
  return o.text;
}

static char *sharing(size_t n) { // each calls the next twice: 2^n calls of n functions
  anf_text o = {0};
  put(&o, "def f0(x) { x + 1 }\n", 0, 0);
  for (size_t i = 1; i <= n; i++) put(&o, "def f%zu(x) { f%zu(x) + f%zu(x + 1) }\n", i, i - 1);
  put(&o, "def main(x: i64) { f%zu(x) }\n", n, 0);
  return o.text;
}

static size_t graphs(const anf_module *m) {
  size_t n = 0;
  for (size_t i = 0; i < anf_module_graph_count(m); i++) n += anf_module_graph(m, i) != NULL;
  return n;
}

static anf_module *parsed(anf_ctx *cx, const char *text) {
  anf_module *m = NULL;
  bench_check(anf_parse(cx, text, "bench.anf", NULL, &m) == ANF_OK, "a program");
  if (!m) exit(1);
  return m;
}

/* Specs after `first_order`, at most `most`; then the whole pipeline's time and its result. */
static void functions(const char *what, const char *text, int64_t arg, double want, size_t most) {
  anf_ctx *cx = anf_ctx_new(NULL);
  if (!cx) exit(2);
  anf_module *m = parsed(cx, text);
  bench_check(anf_optimise(m, "first_order", NULL, NULL) == ANF_OK, what);
  size_t specs = graphs(m);
  bench_check(specs <= most, "no more specs than that");
  anf_module_free(m);
  m = parsed(cx, text);
  double start = bench_cpu();
  bench_check(anf_optimise(m, "standard", NULL, NULL) == ANF_OK, what);
  double spent = bench_cpu() - start;
  anf_value *x = anf_value_int(cx, arg), *v = run(m, x);
  bench_check(v && anf_value_get_f64(v, 0) == want, what);
  printf("  %-28s %6zu specs (at most %zu), standard in %.3g ms\n", what, specs, most, spent * 1e3);
  anf_value_release(v);
  anf_value_release(x);
  anf_module_free(m);
  anf_ctx_free(cx);
}

static const char fibonacci[] =
    "def main(n: i64) -> i64 { if n < 2 { n } else { main(n - 1) + main(n - 2) } }\n";
static const char mutual[] = "def even(n) { if n == 0 { 1 } else { odd(n - 1) } }\n"
                             "def odd(n) { if n == 0 { 0 } else { even(n - 1) } }\n"
                             "def main(n: i64) { even(n) }\n";

int main(void) {
  static const size_t size[SIZES] = {10000, 100000, 1000000};
  double ns[SIZES];
  for (size_t i = 0; i < SIZES; i++) ns[i] = measure(size[i]);
  for (size_t i = 1; i < SIZES; i++)
    printf("  growth t(%zu) / t(%zu)  %26.3g  (n log n: %.3g)\n", size[i], size[i - 1],
           ns[i] / ns[i - 1], i == 1 ? 12.5 : 12.0);
  printf("programs of small functions\n");
  functions("fibonacci(27)", fibonacci, 27, 196418, 10);
  functions("even and odd", mutual, 100001, 0, 12);
  char *text = chain(5000);
  functions("chain of 5000 calls", text, 0, 5000, 5001);
  free(text);
  text = sharing(12);
  functions("2^12 calls of 13 functions", text, 0, 28672, 14);
  free(text);
  return bench_bad;
}
