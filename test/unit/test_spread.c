// SPDX-License-Identifier: Apache-2.0
/* Data parallel steps on threads: losses and states of 1, 2 and 4 ranks against one process with the whole batch; the same
 * bits on all ranks and in every run; what is refused; a rank that is lost leaves the state of the others as it was. */
#include "test/unit/ranks.h"

#include <math.h>

enum { ROWS = 8, IN = 6, HIDDEN = 5, STEPS = 6 };

static const char sgd[] =
    "def loss(w: {a: f64[6, 5], b: f64[5], c: f64[5, 1]}, x: f64[N, 6], y: f64[N]) {\n"
    "  h = Tanh(x @ w.a + w.b)\n"
    "  Mean(Square(Reshape(h @ w.c, shape=(N,)) - y))\n"
    "}\n"
    "def step(w: {a: f64[6, 5], b: f64[5], c: f64[5, 1]}, x: f64[N, 6], y: f64[N]) {\n"
    "  (l, d) = value_and_grad(loss)(w, x, y)\n"
    "  ({a = w.a - 0.1 * d.a, b = w.b - 0.1 * d.b, c = w.c - 0.1 * d.c}, {loss = l})\n"
    "}\n";

/* Clipping by the global norm, a scaled loss, momentum. */
static const char clipped[] =
    "def loss(w: (f64[6, 5], f64[5, 1]), x: f64[N, 6], y: f64[N]) {\n"
    "  1024.0 * Mean(Square(Reshape(Tanh(x @ w[0]) @ w[1], shape=(N,)) - y))\n"
    "}\n"
    "def step(w: (f64[6, 5], f64[5, 1]), m: (f64[6, 5], f64[5, 1]), x: f64[N, 6], y: f64[N]) {\n"
    "  (l, d) = value_and_grad(loss)(w, x, y)\n"
    "  norm = Sqrt(Sum(Square(d[0] / 1024.0)) + Sum(Square(d[1] / 1024.0)))\n"
    "  s = Minimum(1.0, 0.5 / norm) / 1024.0\n"
    "  m0 = 0.9 * m[0] + s * d[0]\n"
    "  m1 = 0.9 * m[1] + s * d[1]\n"
    "  ((w[0] - 0.1 * m0, w[1] - 0.1 * m1), (m0, m1), {loss = l / 1024.0})\n"
    "}\n";

typedef struct plan {
  const char *text;
  size_t nstate;
  bool alone; // without a communicator: the whole batch
  int engine;
} plan;

static double number_at(size_t i) { return sin((double)(i * i % 97) + 0.5 * (double)i); }

/* The program for this many rows. */
static char *program_for(const char *text, int32_t rows) {
  size_t n = strlen(text);
  char *out = malloc(n * 2 + 1), *p = out, number[16];
  snprintf(number, sizeof number, "%d", (int)rows);
  for (; *text; text++) {
    bool alone = *text == 'N' && (text[1] == ',' || text[1] == ']');
    if (alone) p += sprintf(p, "%s", number);
    else *p++ = *text;
  }
  *p = 0;
  return out;
}

static anf_status set_state(anf_step *s) {
  anf_status st = ANF_OK;
  for (size_t i = 0; st == ANF_OK && i < anf_step_leaf_count(s, ANF_STATE); i++) {
    anf_array a;
    st = anf_step_leaf(s, ANF_STATE, i, &a);
    size_t n = 1;
    for (size_t k = 0; k < a.rank; k++) n *= (size_t)a.dims[k];
    for (size_t k = 0; k < n; k++) ((double *)a.data)[k] = 0.5 * number_at(100 * i + k);
  }
  return st;
}

/* out: the loss of each step, then the state. */
static void keep_results(rank *r, anf_step *s, const double *losses) {
  r->out = malloc(sizeof(double) * 200);
  memcpy(r->out, losses, STEPS * sizeof *losses);
  r->nout = STEPS;
  for (size_t i = 0; i < anf_step_leaf_count(s, ANF_STATE); i++) {
    anf_array a;
    anf_step_leaf(s, ANF_STATE, i, &a);
    size_t n = 1;
    for (size_t k = 0; k < a.rank; k++) n *= (size_t)a.dims[k];
    memcpy(r->out + r->nout, a.data, n * sizeof(double));
    r->nout += n;
  }
}

static void train(rank *r) {
  const plan *p = (const plan *)r->user;
  static const anf_jit_kind kind[ENGINES] = {
      [BY_TIR] = ANF_JIT_INTERP, [BY_LLVM] = ANF_JIT_LLVM, [BY_CJIT] = ANF_JIT_CJIT};
  int32_t rows = p->alone ? ROWS : ROWS / r->ranks, first = p->alone ? 0 : rows * r->me;
  double x[ROWS * IN], y[ROWS], losses[STEPS] = {0};
  int64_t dims[2] = {rows, IN};
  anf_array ax = {.dtype = ANF_F64, .rank = 2, .dims = dims, .data = x},
            ay = {.dtype = ANF_F64, .rank = 1, .dims = dims, .data = y};
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_diag *d = anf_diag_new(cx);
  anf_module *m = NULL;
  anf_step *s = NULL;
  char *text = program_for(p->text, rows);
  anf_exec_opts how = {.size = sizeof how, .kind = kind[p->engine]};
  anf_step_opts o = {.size = sizeof o, .exec = &how, .comm = p->alone ? NULL : r->comm};
  anf_status st = anf_parse(cx, text, "spread.anf", d, &m);
  if (st == ANF_OK) st = anf_step_new(anf_module_find(m, "step"), p->nstate, 0, NULL, &o, d, &s);
  if (st == ANF_OK) st = set_state(s);
  if (st == ANF_OK) st = anf_step_bind(s, ANF_INPUT, 0, &ax, d);
  if (st == ANF_OK) st = anf_step_bind(s, ANF_INPUT, 1, &ay, d);
  for (int k = 0; st == ANF_OK && k < STEPS; k++) {
    for (size_t i = 0; i < (size_t)rows * IN; i++)
      x[i] = number_at(1000 * (size_t)k + (size_t)first * IN + i);
    for (size_t i = 0; i < (size_t)rows; i++)
      y[i] = number_at(7000 + 10 * (size_t)k + (size_t)first + i);
    st = anf_step_run(s, d);
    losses[k] = anf_step_number(s, "loss");
  }
  report(r, st, d);
  if (st == ANF_OK) keep_results(r, s, losses);
  anf_step_free(s);
  anf_module_free(m);
  free(text);
  anf_diag_free(d);
  anf_ctx_free(cx);
}

static void same(const rank *a, const rank *b, double tolerance) {
  assert_int_equal(a->nout, b->nout);
  for (size_t i = 0; i < a->nout; i++)
    if (!(fabs(a->out[i] - b->out[i]) <= tolerance * (1 + fabs(b->out[i]))))
      fail_msg("number %zu: %.17g, not %.17g", i, a->out[i], b->out[i]);
}

static void check(const char *text, size_t nstate, int engine) {
  rank whole[1], r[MAX_RANKS], again[MAX_RANKS];
  run_ranks(1, NULL, train, &(plan){text, nstate, true, engine}, whole);
  all_fine(1, whole);
  assert_true(whole[0].out[STEPS - 1] != whole[0].out[0]);
  for (int32_t n = 1; n <= 4; n *= 2) {
    run_ranks(n, NULL, train, &(plan){text, nstate, false, engine}, r);
    run_ranks(n, NULL, train, &(plan){text, nstate, false, engine}, again);
    all_fine(n, r);
    all_fine(n, again);
    same(&r[0], &whole[0], n == 1 ? 0 : 1e-12);
    for (int32_t i = 0; i < n; i++) same(&r[i], &r[0], 0), same(&again[i], &r[i], 0);
    free_outs(n, r);
    free_outs(n, again);
  }
  free_outs(1, whole);
}

static void test_sgd(void **state) {
  (void)state;
  check(sgd, 1, BY_LLVM);
  check(sgd, 1, BY_TIR);
}
static void test_clipped(void **state) {
  (void)state;
  check(clipped, 2, BY_LLVM);
}

/* State that would differ between ranks. */
static void refuse(rank *r) {
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_diag *d = anf_diag_new(cx);
  anf_module *m = NULL;
  anf_step *s = NULL;
  anf_step_opts o = {.size = sizeof o, .comm = r->comm};
  anf_status st = anf_parse(cx, (const char *)r->user, "spread.anf", d, &m);
  if (st == ANF_OK) st = anf_step_new(anf_module_find(m, "step"), 1, 0, NULL, &o, d, &s);
  report(r, st, d);
  anf_step_free(s);
  anf_module_free(m);
  anf_diag_free(d);
  anf_ctx_free(cx);
}

static void test_refused(void **state) {
  (void)state;
  static const char *const bad[] = {
      "def step(mean: f64[3], x: f64[2, 3]) { (0.9 * mean + 0.1 * Mean(x, axis=0), {loss = "
      "Sum(x)}) }",
      "def step(w: f64[3], x: f64[2, 3]) { (w + CommRank(), {loss = Sum(x)}) }"};
  static const char good[] = "def step(mean: f64[3], x: f64[2, 3]) { (0.9 * mean + 0.1 * "
                             "AllReduce(Mean(x, axis=0), mean=true), {loss = Sum(x)}) }";
  rank r[2];
  for (size_t i = 0; i < 2; i++) {
    run_ranks(2, NULL, refuse, bad[i], r);
    assert_string_equal(r[0].code, "E1210");
    assert_true(strstr(r[1].message, i ? "'w'" : "'mean'") != NULL);
  }
  run_ranks(2, NULL, refuse, good, r);
  all_fine(2, r);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_sgd), cmocka_unit_test(test_clipped),
                                     cmocka_unit_test(test_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
