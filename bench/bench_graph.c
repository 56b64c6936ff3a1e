// SPDX-License-Identifier: Apache-2.0
/* Graphs of a million nodes: a chain, which is as deep as it is large, and a random DAG. Building
 * through the C interface, verifying, printing, reading back, and the memory of a node. */
#define _POSIX_C_SOURCE 200809L
#include "bench.h"

enum { N = 1000000 };

typedef enum { BUILD, VERIFY, PRINT, PARSE, WRITE_DAT, READ_DAT, FREE, STEPS } step;
static const char *const step_name[] = {"build",      "verify",    "print .ir", "parse .ir",
                                        "write .dat", "read .dat", "free"};
static const double step_limit[] = {0.5, 0.5, 2, 3, 0, 0, 0}; // seconds

typedef struct {
  double at[STEPS][BENCH_RUNS], bytes[1];
} samples;

static uint64_t random_state;
/* Node i is the sum of the one before and of the parameter (chain) or of any two before it. */
static anf_module *build(anf_ctx *cx, bool chain) {
  anf_module *m = anf_module_new(cx);
  anf_graph *g = anf_graph_new(m, "main");
  anf_node **node = (anf_node **)malloc(sizeof *node * N);
  if (!node) exit(2);
  random_state = 88172645463325252u;
  node[0] = anf_param(g, "x", anf_type_scalar(cx, ANF_F32));
  for (size_t i = 1; i < N; i++) {
    size_t far = i > 1000
                     ? 1000
                     : i; // a DAG of some width: every node is near the end of it when it is made
    anf_node *a = chain ? node[i - 1] : node[i - 1 - bench_below(&random_state, far)];
    anf_node *b = chain ? node[0] : node[bench_below(&random_state, i)];
    node[i] = anf_op(g, "Add", 2, (anf_node *[]){a, b});
  }
  anf_return(g, node[N - 1]);
  free(node);
  return m;
}

static double since(double *t) {
  double now = bench_cpu(), spent = now - *t;
  *t = now;
  return spent;
}

static bool same(anf_text a, anf_text b) {
  return a.len == b.len && memcmp(a.text, b.text, a.len) == 0;
}

static void once(anf_ctx *cx, bool chain, size_t run, samples *s) {
  size_t before = anf_ctx_bytes(cx);
  anf_text ir = {.cx = cx}, ir2 = {.cx = cx}, dat = {.cx = cx};
  anf_module *parsed = NULL, *loaded = NULL;
  double t = bench_cpu();
  anf_module *m = build(cx, chain);
  s->at[BUILD][run] = since(&t);
  s->bytes[0] = (double)(anf_ctx_bytes(cx) - before) / N;
  bench_check(anf_verify(m, NULL) == ANF_OK, "the graph verifies");
  s->at[VERIFY][run] = since(&t);
  bench_check(anf_print_ir(m, &ir) == ANF_OK, "the graph prints");
  s->at[PRINT][run] = since(&t);
  bench_check(anf_parse_n(cx, ir.text, ir.len, "a.ir", NULL, &parsed) == ANF_OK,
              "its print parses");
  s->at[PARSE][run] = since(&t);
  bench_check(anf_write_dat(m, &dat) == ANF_OK, "the graph saves");
  s->at[WRITE_DAT][run] = since(&t);
  bench_check(anf_read_dat(cx, dat.text, dat.len, "a.dat", NULL, &loaded) == ANF_OK,
              "what is saved loads");
  s->at[READ_DAT][run] = since(&t);
  if (parsed)
    bench_check(anf_print_ir(parsed, &ir2) == ANF_OK && same(ir, ir2),
                "the .ir round trip is exact");
  anf_text_free(&ir2);
  if (loaded)
    bench_check(anf_print_ir(loaded, &ir2) == ANF_OK && same(ir, ir2),
                "the .dat round trip is exact");
  anf_module_free(parsed);
  anf_module_free(loaded);
  t = bench_cpu();
  anf_module_free(m);
  s->at[FREE][run] = since(&t);
  anf_text_free(&ir), anf_text_free(&ir2), anf_text_free(&dat);
}

static void measure(bool chain) {
  static samples s;
  for (size_t i = 0; i < BENCH_RUNS; i++) {
    anf_ctx *cx = anf_ctx_new(NULL);
    if (!cx) exit(2);
    once(cx, chain, i, &s);
    anf_ctx_free(cx);
  }
  printf("%s of %d nodes\n", chain ? "chain" : "random DAG", N);
  for (step k = BUILD; k < STEPS; k++)
    bench_line(step_name[k], "s", BENCH_RUNS, s.at[k], step_limit[k]);
  bench_line("memory of a node", "bytes", 1, s.bytes, 160);
}

int main(void) {
  measure(true);
  measure(false);
  return bench_bad;
}
