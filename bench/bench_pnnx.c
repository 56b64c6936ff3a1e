// SPDX-License-Identifier: Apache-2.0
/* Models and expressions of PNNX: reading a file of 10^5 operators, expressions of 10^6 nested
 * levels, and an expression of seven operations over three tensors of 64 MiB, beside a loop in C
 * that moves as many bytes and so shows what memory allows. The loop and the model take turns, so
 * that what else the machine does disturbs both. */
#define _POSIX_C_SOURCE 200809L
#include "bench.h"

#include "anfora/jit.h"

/* ---- reading ---- */

enum { OPERATORS = 100000, LEVELS = 1000000 };

/* Four kinds of operators in turn, one of which takes an operand from further back. */
static char *model(size_t *len) {
  char *s = (char *)malloc((size_t)OPERATORS * 128);
  if (!s) exit(2);
  int n =
      sprintf(s, "7767517\n%d %d\npnnx.Input in 0 1 0 #0=(4,8)f32\n", OPERATORS + 2, OPERATORS + 1);
  for (int i = 0; i < OPERATORS; i++) {
    int far = i < 3 ? 0 : i - 3;
    switch (i % 4) {
    case 0: n += sprintf(s + n, "nn.ReLU r%d 1 1 %d %d #%d=(4,8)f32\n", i, i, i + 1, i + 1); break;
    case 1:
      n += sprintf(s + n, "pnnx.Expression e%d 2 1 %d %d %d expr=add(mul(@0,0.5),@1)\n", i, i, far,
                   i + 1);
      break;
    case 2: n += sprintf(s + n, "F.gelu g%d 1 1 %d %d $input=%d\n", i, i, i + 1, i); break;
    default:
      n += sprintf(s + n, "Tensor.reshape s%d 1 1 %d %d shape=(4,8) $input=%d\n", i, i, i + 1, i);
    }
  }
  n += sprintf(s + n, "pnnx.Output out 1 0 %d\n", OPERATORS);
  *len = (size_t)n;
  return s;
}

static void import_once(const char *text, size_t len, double *read, double *build) {
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_pnnx *p = NULL;
  anf_module *m = NULL;
  double start = bench_cpu();
  anf_status st = anf_pnnx_read(cx, text, len, "bench.param", NULL, 0, NULL, NULL, &p);
  *read = bench_cpu() - start;
  if (st == ANF_OK) st = anf_pnnx_module(p, NULL, NULL, &m);
  *build = bench_cpu() - start;
  bench_check(st == ANF_OK, "the model is not read");
  anf_module_free(m);
  anf_pnnx_free(p);
  anf_ctx_free(cx);
}

static void import(void) {
  double read[BENCH_RUNS], build[BENCH_RUNS];
  size_t len;
  char *text = model(&len);
  for (int i = 0; i < BENCH_RUNS; i++) import_once(text, len, &read[i], &build[i]);
  printf("a model of %d operators\n", OPERATORS);
  bench_line("read and check", "s", BENCH_RUNS, read, 0);
  bench_line("import: read and build", "s", BENCH_RUNS, build, 1);
  free(text);
}

/* add(add(... @0 ...,1),1): tokens, tree, reverse Polish form; then the value. */
static double nested(size_t levels, double *eval) {
  char *s = (char *)malloc(levels * 7 + 3);
  if (!s) exit(2);
  for (size_t i = 0; i < levels; i++) memcpy(s + 4 * i, "add(", 4);
  memcpy(s + 4 * levels, "@0", 2);
  for (size_t i = 0; i < levels; i++) memcpy(s + 4 * levels + 2 + 3 * i, ",1)", 3);
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_expr *e = NULL;
  anf_value *in = anf_value_int(cx, 1), *out = NULL;
  double start = bench_cpu();
  anf_status st = anf_expr_parse(cx, s, levels * 7 + 2, 1, NULL, &e);
  double parsed = bench_cpu() - start;
  if (st == ANF_OK) st = anf_expr_eval(e, 1, 1, &in, NULL, &out);
  *eval = bench_cpu() - start - parsed;
  bench_check(st == ANF_OK && anf_value_get_i64(out, 0) == (int64_t)levels + 1,
              "a nested expression has the wrong value");
  anf_value_release(in);
  anf_value_release(out);
  anf_expr_free(e);
  anf_ctx_free(cx);
  free(s);
  return parsed;
}

static void depth(void) {
  double parse[BENCH_RUNS], eval[BENCH_RUNS], growth[BENCH_RUNS];
  for (int i = 0; i < BENCH_RUNS; i++) {
    double small = nested(LEVELS / 10, &eval[i]);
    parse[i] = nested(LEVELS, &eval[i]);
    growth[i] = parse[i] / small;
  }
  printf("an expression of %d nested calls\n", LEVELS);
  bench_line("tokens, tree, reverse Polish", "s", BENCH_RUNS, parse, 1);
  bench_line("growth from a tenth of it", "x", BENCH_RUNS, growth, 25);
  bench_line("value", "s", BENCH_RUNS, eval, 0);
}

/* ---- running ---- */

enum { TURNS = 9 };
static const int64_t dims[] = {4, 64, 256, 256};
enum { ELEMENTS = 4 * 64 * 256 * 256 };
static const double moved = 4.0 * ELEMENTS * sizeof(float); // three tensors in, one out

static const char MODEL[] =
    "7767517\n5 4\n"
    "pnnx.Input x 0 1 x #x=(4,64,256,256)f32\n"
    "pnnx.Input y 0 1 y #y=(4,64,256,256)f32\n"
    "pnnx.Input z 0 1 z #z=(4,64,256,256)f32\n"
    "pnnx.Expression e 3 1 x y z e "
    "expr=mul(add(mul(add(mul(@0,@1),mul(@2,@0)),add(@1,@2)),mul(@0,@2)),@1)\n"
    "pnnx.Output o 1 0 e\n";

static float by_hand(float x, float y, float z) { return ((x * y + z * x) * (y + z) + x * z) * y; }

static void move(const float *restrict x, const float *restrict y, const float *restrict z,
                 float *restrict out) {
  for (size_t i = 0; i < ELEMENTS; i++) out[i] = x[i] + y[i] + z[i];
}

typedef struct work {
  anf_pnnx *p;
  anf_module *m;
  anf_exec *e;
  anf_value *in[3];
  float *out;
} work;

static anf_status prepare(anf_ctx *cx, anf_diag *d, bool parallel, work *w) {
  anf_exec_opts eo = {.size = sizeof eo, .parallel = parallel};
  anf_pnnx_opts o = {.size = sizeof o, .exec = &eo};
  anf_status st =
      anf_pnnx_read(cx, MODEL, sizeof MODEL - 1, "bench.param", NULL, 0, NULL, d, &w->p);
  for (size_t i = 0; i < 3 && st == ANF_OK; i++) st = anf_pnnx_set_input(w->p, i, w->in[i], d);
  if (st == ANF_OK) st = anf_pnnx_build(w->p, &o, d);
  if (st == ANF_OK) st = anf_pnnx_module(w->p, NULL, d, &w->m);
  if (st == ANF_OK) st = anf_compile(anf_module_find(w->m, "main"), &eo, d, &w->e);
  return st;
}

/* The same machine code with memory of ours for the result: what forward adds is making a tensor. */
static double alone(const work *w) {
  anf_generic slot[4] = {{.bits = 0}};
  for (size_t i = 0; i < 3; i++) slot[i].ptr = (void *)(uintptr_t)anf_value_data(w->in[i]);
  slot[3].ptr = w->out;
  double start = bench_now();
  bench_check(anf_jit_call_generic(anf_exec_function(w->e), NULL, slot) == ANF_OK, "a call");
  return bench_now() - start;
}

static double forward(const work *w) {
  double start = bench_now();
  bench_check(anf_pnnx_forward(w->p, NULL) == ANF_OK, "a forward");
  return bench_now() - start;
}

static double loop(const work *w) {
  double start = bench_now();
  move(anf_value_data(w->in[0]), anf_value_data(w->in[1]), anf_value_data(w->in[2]), w->out);
  return bench_now() - start;
}

static void check(const work *w, const float *got, const char *what) {
  const float *x = anf_value_data(w->in[0]), *y = anf_value_data(w->in[1]),
              *z = anf_value_data(w->in[2]);
  size_t bad = 0;
  for (size_t i = 0; i < ELEMENTS; i++) bad += got[i] != by_hand(x[i], y[i], z[i]);
  bench_check(!bad, what);
}

static void measure(anf_ctx *cx, anf_diag *d, bool parallel, work *w) {
  double c[TURNS], f[TURNS], a[TURNS], of_c[TURNS], best_c = 1e9, best_a = 1e9;
  if (prepare(cx, d, parallel, w) != ANF_OK) {
    anf_diag_print(d, stdout, false);
    bench_check(false, "the model is not compiled");
    return;
  }
  forward(w), alone(w), loop(w);
  for (int i = 0; i < TURNS; i++) {
    c[i] = loop(w) * 1e3;
    a[i] = alone(w) * 1e3;
    f[i] = forward(w) * 1e3;
    of_c[i] = c[i] / a[i] * 100;
    best_c = c[i] < best_c ? c[i] : best_c;
    best_a = a[i] < best_a ? a[i] : best_a;
  }
  alone(w);
  check(w, w->out, "the compiled function gives the wrong values");
  check(w, anf_value_data(anf_pnnx_output(w->p, 0)), "forward gives the wrong values");
  printf("seven operations over three tensors of 64 MiB, %s\n",
         parallel ? "all threads" : "one thread");
  bench_line("as many bytes moved in C, 1 thread", "ms", TURNS, c, 0);
  bench_line("the compiled function", "ms", TURNS, a, 0);
  bench_line("forward, which makes a tensor", "ms", TURNS, f, 0);
  bench_line("of what C moves a second", "%", TURNS, of_c, 0);
  printf("  best: C %.1f GB/s, compiled %.1f GB/s, %.0f %%\n", moved / best_c / 1e6,
         moved / best_a / 1e6, best_c / best_a * 100);
  anf_exec_free(w->e);
  anf_module_free(w->m);
  anf_pnnx_free(w->p);
}

static void run(void) {
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_diag *d = anf_diag_new(cx);
  work w = {.out = (float *)malloc((size_t)ELEMENTS * sizeof(float))};
  float *data = (float *)malloc((size_t)ELEMENTS * sizeof(float));
  if (!w.out || !data) exit(2);
  uint32_t state = 1;
  for (size_t k = 0; k < 3; k++) {
    for (size_t i = 0; i < ELEMENTS; i++) {
      state = state * 1664525u + 1013904223u;
      data[i] = (float)(state >> 8) / (float)(1 << 24) - 0.5F;
    }
    w.in[k] = anf_value_tensor(cx, ANF_F32, 4, dims, data);
  }
  for (int parallel = 0; parallel < 2; parallel++) measure(cx, d, parallel, &w);
  for (size_t k = 0; k < 3; k++) anf_value_release(w.in[k]);
  free(data);
  free(w.out);
  anf_diag_free(d);
  anf_ctx_free(cx);
}

int main(void) {
  import();
  depth();
  run();
  return bench_bad;
}
