// SPDX-License-Identifier: Apache-2.0
/* Gradients of straight-line programs of 10^4, 10^5 and 10^6 nodes: what J takes, what the passes
 * take that simplify its result, and how large the gradient is. The gradient is compared with a
 * difference quotient of the program. Of second order, 10^4 and 10^5. What a node costs must hardly
 * grow. */
#define _POSIX_C_SOURCE 200809L
#include "bench.h"

#include <sys/resource.h>

enum { SIZES = 3, WINDOW = 50 };
static const double LIMIT_NS = 150, LIMIT_SIZE = 3, LIMIT_GROWTH = 2;

static uint64_t random_state;
/* Each node uses the one before, so none is dead, and a binary one another of the last 50. Sin and
 * Tanh keep values small and the gradient alive. */
static anf_module *straight(anf_ctx *cx, size_t n) {
  static const char *const op[] = {"Add", "Mul", "Sub", "Add", "Tanh", "Sin", "Cos", "Sin"};
  anf_module *m = anf_module_new(cx);
  anf_graph *g = anf_graph_new(m, "main");
  anf_node **node = (anf_node **)malloc(sizeof *node * (n + 1));
  if (!node) exit(2);
  random_state = 88172645463325252u;
  node[0] = anf_param(g, "x", anf_type_scalar(cx, ANF_F64));
  for (size_t i = 1; i <= n; i++) {
    size_t k = bench_below(&random_state, 8),
           back = 1 + bench_below(&random_state, i < WINDOW ? i : WINDOW);
    node[i] = anf_op(g, op[k], k < 4 ? 2 : 1, (anf_node *[]){node[i - 1], node[i - back]});
  }
  anf_return(g, node[n]);
  free(node);
  return m;
}

static double number(anf_ctx *cx, anf_module *m, const char *name, double x) {
  anf_value *arg = anf_value_f64(cx, x), *v = NULL;
  bench_check(anf_run(anf_module_find(m, name), 1, &arg, NULL, NULL, &v) == ANF_OK, name);
  double y = v ? anf_value_get_f64(v, 0) : 0;
  anf_value_release(v);
  anf_value_release(arg);
  return y;
}

/* Seconds that the system computed for this process, which is mostly clearing fresh memory. */
static double system_seconds(void) {
  struct rusage r;
  getrusage(RUSAGE_SELF, &r);
  return (double)r.ru_stime.tv_sec + 1e-6 * (double)r.ru_stime.tv_usec;
}

/* CPU seconds by pass, summed over a pipeline from the first `expand` on. */
typedef struct {
  double expand, rest, system; // system: part of both
  double at, system_at;        // when the pass began
  bool on;                     // J has begun
} split;

static void note_pass(void *user, anf_module *m, const char *pass, double ms, uint64_t rewrites) {
  split *s = (split *)user;
  double now = bench_cpu(), system = system_seconds();
  (void)m, (void)rewrites, (void)ms;
  bool expand = strcmp(pass, "expand") == 0;
  s->on |= expand;
  if (s->on) {
    *(expand ? &s->expand : &s->rest) += now - s->at;
    s->system += system - s->system_at;
  }
  s->at = now;
  s->system_at = system;
}

static size_t nodes_of(anf_module *m, const char *name) {
  anf_analysis *a = NULL;
  if (anf_analyse(m, NULL, &a) != ANF_OK) return 0;
  size_t n = anf_order_count(a, anf_module_find(m, name));
  anf_analysis_free(a);
  return n;
}

/* The gradient of order `order` as a graph of the module; the name is kept by the module. */
static const char *gradient(anf_module *m, int order) {
  anf_graph *g = anf_module_find(m, "main");
  for (int i = 0; i < order; i++) bench_check(anf_grad(g, NULL, NULL, &g) == ANF_OK, "a gradient");
  return order == 1 ? "grad_main" : "grad_grad_main";
}

typedef struct {
  split time;
  double size; // nodes of the gradient to those of the program
} sample;

static sample once(size_t n, int order, bool check) {
  anf_ctx *cx = anf_ctx_new(NULL);
  if (!cx) exit(2);
  anf_module *m = straight(cx, n);
  const char *name = gradient(m, order);
  sample s = {.size = 0};
  anf_opt_opts o = {.size = sizeof o, .after = note_pass, .user = &s.time};
  s.time.at = bench_cpu();
  s.time.system_at = system_seconds();
  bench_check(anf_optimise(m, "first_order clean (expand clean)*", &o, NULL) == ANF_OK, "J");
  s.size = (double)nodes_of(m, name) / (double)n;
  if (check) {
    const char *of = order == 1 && n <= 100 ? "main" : NULL; // longer ones are chaotic
    double h = 1e-6, g = number(cx, m, name, 0.3);
    double up = of ? number(cx, m, of, 0.3 + h) : 0, down = of ? number(cx, m, of, 0.3 - h) : 0;
    double want = (up - down) / (2 * h), scale = want < 0 ? 1 - want : 1 + want;
    bench_check(!of || (g - want < 1e-4 * scale && want - g < 1e-4 * scale), "the slope");
    bench_check(g - g == 0, "a finite gradient");
  }
  anf_module_free(m);
  anf_ctx_free(cx);
  return s;
}

static double measure(size_t n, int order, double limit) {
  double expand[BENCH_RUNS], rest[BENCH_RUNS], all[BENCH_RUNS], system[BENCH_RUNS],
      size = 0, scale = 1e9 / (double)n;
  printf("gradient of order %d, straight-line program of %zu nodes\n", order, n);
  for (int i = 0; i < BENCH_RUNS; i++) {
    sample s = once(n, order, i == 0 && n <= 10000);
    expand[i] = s.time.expand * scale;
    rest[i] = s.time.rest * scale;
    all[i] = expand[i] + rest[i];
    system[i] = s.time.system * scale;
    size = s.size;
  }
  bench_line("J", "ns/node", BENCH_RUNS, expand, 0);
  bench_line("simplify", "ns/node", BENCH_RUNS, rest, 0);
  bench_line("both", "ns/node", BENCH_RUNS, all, limit);
  bench_line("of it the system's", "ns/node", BENCH_RUNS, system, 0);
  bench_line("size of the gradient", "x", 1, &size, order == 1 ? LIMIT_SIZE : 0);
  return all[BENCH_RUNS / 2];
}

int main(void) {
  static const size_t size[SIZES] = {10000, 100000, 1000000};
  double ns[SIZES];
  once(100, 1, true);
  for (size_t i = 0; i < SIZES; i++) ns[i] = measure(size[i], 1, i == 2 ? LIMIT_NS : 0);
  double growth = ns[2] / ns[0];
  bench_line("growth a node, 10^6 to 10^4", "x", 1, &growth, LIMIT_GROWTH);
  for (size_t i = 0; i < 2; i++) ns[i] = measure(size[i], 2, 0);
  growth = ns[1] / ns[0];
  bench_line("growth a node, 10^5 to 10^4", "x", 1, &growth, LIMIT_GROWTH);
  return bench_bad;
}
