// SPDX-License-Identifier: Apache-2.0
/* Data parallel steps on threads: losses and states of 1, 2 and 4 ranks against one process with the whole batch; the same
 * bits on all ranks and in every run; what is refused; a link that fails at any message leaves the state as it was; exchanges
 * run while gradients are computed, and a trace shows it. */
#define _POSIX_C_SOURCE 200809L // getpid, unlink
#include "test/unit/folder.h"
#include "test/unit/ranks.h"

#include <unistd.h>

#include "comm/comm.h"

#include <math.h>

enum { ROWS = 12, IN = 6, HIDDEN = 5, STEPS = 6 };

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

/* Two moments of each parameter; one of them is read by the clipping, too, and c's is a row of tensors that is read whole. */
static const char adam[] =
    "def loss(w: {a: f64[6, 5], b: f64[5], c: f64[5, 1]}, x: f64[N, 6], y: f64[N]) {\n"
    "  h = Tanh(x @ w.a + w.b)\n"
    "  Mean(Square(Reshape(h @ w.c, shape=(N,)) - y))\n"
    "}\n"
    "def moved(w, m, v, t) { w - 0.05 * (m / (1.0 - 0.9 ** t)) / (Sqrt(v / (1.0 - 0.99 ** t)) + "
    "0.01) }\n"
    "def first(m, g) { 0.9 * m + 0.1 * g }\n"
    "def second(v, g) { 0.99 * v + 0.01 * Square(g) }\n"
    "def step(w: {a: f64[6, 5], b: f64[5], c: f64[5, 1]}, s: {t: f64, m: {a: f64[6, 5], b: f64[5], "
    "c: f64[5, 1]}, v: {a: f64[6, "
    "5], b: f64[5], c: f64[5, 1]}}, x: f64[N, 6], y: f64[N]) {\n"
    "  (l, d) = value_and_grad(loss)(w, x, y)\n"
    "  r = Minimum(1.0, 0.5 / Sqrt(Sum(Square(d.a)) + Abs(Sum(s.m.c))))\n"
    "  t = s.t + 1.0\n"
    "  m = {a = first(s.m.a, r * d.a), b = first(s.m.b, r * d.b), c = first(s.m.c, r * d.c)}\n"
    "  v = {a = second(s.v.a, r * d.a), b = second(s.v.b, r * d.b), c = second(s.v.c, r * d.c)}\n"
    "  ({a = moved(w.a, m.a, v.a, t), b = moved(w.b, m.b, v.b, t), c = moved(w.c, m.c, v.c, t)}, "
    "{t = t, m = m, v = v},\n"
    "   {loss = l, norm = Sum(Square(v.b))})\n"
    "}\n";

/* A mean over the rows of all ranks, however many each has. */
static const char weighed[] =
    "def loss(w: {a: f64[6, 5], b: f64[5], c: f64[5, 1]}, x: f64[N, 6], y: f64[N]) {\n"
    "  h = Tanh(x @ w.a + w.b)\n"
    "  s = Sum(Square(Reshape(h @ w.c, shape=(N,)) - y))\n"
    "  AllReduce(s) / AllReduce(Sum(0.0 * y + 1.0))\n"
    "}\n"
    "def step(w: {a: f64[6, 5], b: f64[5], c: f64[5, 1]}, x: f64[N, 6], y: f64[N]) {\n"
    "  (l, d) = value_and_grad(loss)(w, x, y)\n"
    "  ({a = w.a - 0.1 * d.a, b = w.b - 0.1 * d.b, c = w.c - 0.1 * d.c}, {loss = l})\n"
    "}\n";

typedef struct plan {
  const char *text;
  size_t nstate;
  bool alone; // without a communicator: the whole batch
  int engine;
  uint64_t shard;
  anf_shard_params params;
  anf_nan_check nan;
  int from, to;            // steps; 0, 0: all
  const char *load, *save; // checkpoints before and after them
  int32_t more;            // rows of rank 0 that rank 1 lacks
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

/* Sharded or not: as a whole. Second moments are not below 0. */
static anf_status set_state(anf_step *s) {
  anf_status st = ANF_OK;
  for (size_t i = 0; st == ANF_OK && i < anf_step_leaf_count(s, ANF_STATE); i++) {
    anf_array a;
    st = anf_step_whole(s, i, &a);
    size_t n = elements(&a);
    double *x = (double *)malloc((n + 1) * sizeof *x);
    for (size_t k = 0; k < n; k++) x[k] = 0.5 * number_at(100 * i + k);
    bool squares = strncmp(anf_step_leaf_name(s, ANF_STATE, i), "s.v", 3) == 0;
    for (size_t k = 0; k < n && squares; k++) x[k] = fabs(x[k]);
    a.data = x;
    if (st == ANF_OK) st = anf_step_write(s, ANF_STATE, i, &a, NULL);
    free(x);
  }
  return st;
}

/* out: the loss of each step, then the state as a whole. */
static anf_status keep_results(rank *r, anf_step *s, const double *losses) {
  anf_status st = ANF_OK;
  r->out = malloc(sizeof(double) * 400);
  memcpy(r->out, losses, STEPS * sizeof *losses);
  r->nout = STEPS;
  for (size_t i = 0; st == ANF_OK && i < anf_step_leaf_count(s, ANF_STATE); i++) {
    anf_array a;
    st = anf_step_whole(s, i, &a);
    a.data = r->out + r->nout;
    if (st == ANF_OK) st = anf_step_read(s, ANF_STATE, i, &a, NULL);
    r->nout += elements(&a);
  }
  return st;
}

static void train(rank *r) {
  const plan *p = (const plan *)r->user;
  static const anf_jit_kind kind[ENGINES] = {
      [BY_TIR] = ANF_JIT_INTERP, [BY_LLVM] = ANF_JIT_LLVM, [BY_CJIT] = ANF_JIT_CJIT};
  int32_t rows = p->alone ? ROWS : ROWS / r->ranks, first = p->alone ? 0 : rows * r->me;
  if (!r->me) rows += p->more;
  if (r->me == 1) rows -= p->more, first += p->more;
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
  anf_step_opts o = {.size = sizeof o,
                     .exec = &how,
                     .comm = p->alone ? NULL : r->comm,
                     .nan = p->nan,
                     .shard = p->shard,
                     .params = p->params};
  anf_status st = anf_parse(cx, text, "spread.anf", d, &m);
  if (st == ANF_OK) st = anf_step_new(anf_module_find(m, "step"), p->nstate, 0, NULL, &o, d, &s);
  if (st == ANF_OK) st = set_state(s);
  if (st == ANF_OK) st = anf_step_bind(s, ANF_INPUT, 0, &ax, d);
  if (st == ANF_OK) st = anf_step_bind(s, ANF_INPUT, 1, &ay, d);
  if (st == ANF_OK && p->load) st = anf_step_load(s, p->load, d);
  for (int k = p->from; st == ANF_OK && k < (p->to ? p->to : STEPS); k++) {
    for (size_t i = 0; i < (size_t)rows * IN; i++)
      x[i] = number_at(1000 * (size_t)k + (size_t)first * IN + i);
    for (size_t i = 0; i < (size_t)rows; i++)
      y[i] = number_at(7000 + 10 * (size_t)k + (size_t)first + i);
    st = anf_step_run(s, d);
    losses[k] = anf_step_number(s, "loss");
  }
  if (st == ANF_OK && p->save && (p->shard || !r->me)) st = anf_step_save(s, p->save, d);
  if (st == ANF_OK) st = keep_results(r, s, losses);
  report(r, st, d);
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
  run_ranks(1, NULL, train,
            &(plan){.text = text, .nstate = nstate, .alone = true, .engine = engine}, whole);
  all_fine(1, whole);
  assert_true(whole[0].out[STEPS - 1] != whole[0].out[0]);
  for (int32_t n = 1; n <= 4; n *= 2) {
    run_ranks(n, NULL, train, &(plan){.text = text, .nstate = nstate, .engine = engine}, r);
    run_ranks(n, NULL, train, &(plan){.text = text, .nstate = nstate, .engine = engine}, again);
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

/* ---- sharded state ---- */

static void test_sharded(void **state) {
  (void)state;
  static const uint64_t least[] = {1, 41, 1000};
  for (int32_t n = 1; n <= 4; n++)
    for (size_t k = 0; k < 3; k++) {
      int engine = n == 4 && !k ? BY_CJIT : n == 2 ? BY_LLVM : BY_TIR;
      rank whole[MAX_RANKS], r[MAX_RANKS];
      if (ROWS % n) continue;
      run_ranks(n, NULL, train, &(plan){adam, 2, .engine = engine}, whole);
      run_ranks(n, NULL, train,
                &(plan){adam, 2, .engine = engine, .shard = least[k],
                        .nan = k ? ANF_NAN_STOP : ANF_NAN_FIND},
                r);
      all_fine(n, whole);
      all_fine(n, r);
      for (int32_t i = 0; i < n; i++) same(&r[i], &whole[0], 0);
      free_outs(n, whole);
      free_outs(n, r);
    }
}

/* Parameters in parts, gathered once or again: any kind of program keeps its bits. */
static void test_sharded_parameters(void **state) {
  (void)state;
  static const struct {
    const char *text;
    size_t nstate;
  } program[] = {{sgd, 1}, {clipped, 2}, {adam, 2}};
  for (int32_t n = 1; n <= 4; n++)
    for (size_t k = 0; k < 6 && ROWS % n == 0; k++) {
      int engine = n == 4 && !k ? BY_CJIT : n == 2 ? BY_LLVM : BY_TIR;
      rank whole[MAX_RANKS], r[MAX_RANKS];
      plan p = {program[k % 3].text, program[k % 3].nstate, .engine = engine};
      run_ranks(n, NULL, train, &p, whole);
      p.shard = n == 3 ? 41 : 1;
      p.params = k < 3 ? ANF_PARAMS_AGAIN : ANF_PARAMS_ONCE;
      p.nan = k % 2 ? ANF_NAN_STOP : ANF_NAN_FIND;
      run_ranks(n, NULL, train, &p, r);
      all_fine(n, whole);
      all_fine(n, r);
      for (int32_t i = 0; i < n; i++) same(&r[i], &whole[0], 0);
      free_outs(n, whole);
      free_outs(n, r);
    }
}

/* A NaN in the part of one rank stops all of them, before they change anything. */
static void step_from_nan(rank *r) {
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_diag *d = anf_diag_new(cx);
  anf_module *m = NULL;
  anf_step *s = NULL;
  char *text = program_for(adam, 2);
  double bad[30] = {[17] = NAN};
  int64_t dims[2] = {6, 5};
  anf_array a = {.dtype = ANF_F64, .rank = 2, .dims = dims, .data = bad};
  anf_step_opts o = {.size = sizeof o, .comm = r->comm, .shard = 1, .nan = ANF_NAN_FIND};
  anf_status st = anf_parse(cx, text, "nan.anf", d, &m);
  if (st == ANF_OK) st = anf_step_new(anf_module_find(m, "step"), 2, 0, NULL, &o, d, &s);
  size_t i = st == ANF_OK ? anf_step_leaf_find(s, ANF_STATE, "s.m.a") : 0;
  if (st == ANF_OK) st = anf_step_write(s, ANF_STATE, i, &a, d);
  if (st == ANF_OK) st = anf_step_run(s, d);
  report(r, st, d);
  a.data = r->out = malloc(sizeof bad);
  if (s) anf_step_read(s, ANF_STATE, i, &a, NULL);
  if (r->out[16] != 0 || !isnan(r->out[17])) snprintf(r->code, sizeof r->code, "changed");
  anf_step_free(s);
  anf_module_free(m);
  free(text);
  anf_diag_free(d);
  anf_ctx_free(cx);
}

static void test_nan_in_a_part(void **state) {
  (void)state;
  rank r[4];
  run_ranks(4, NULL, step_from_nan, NULL, r);
  for (int i = 0; i < 4; i++) assert_string_equal(r[i].code, "E1125");
  free_outs(4, r);
}

static size_t read_file(const char *path, char *out, size_t most) {
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  size_t n = fread(out, 1, most, f);
  fclose(f);
  return n;
}

/* The file of 4 ranks, sharded or not, parameters or not, is one; any number of ranks goes on from it. */
static void test_checkpoints(void **state) {
  (void)state;
  static char file[3][8192];
  char folder[TEST_PATH], path[3][TEST_PATH + 16];
  rank r[MAX_RANKS], whole[MAX_RANKS];
  size_t n[3];
  assert_true(test_folder(folder));
  for (int i = 0; i < 3; i++) {
    snprintf(path[i], sizeof path[i], "%s/%d.safetensors", folder, i);
    plan p = {adam, 2, .engine = BY_LLVM, .shard = i > 0, .to = 3, .save = path[i]};
    p.params = i == 2 ? ANF_PARAMS_AGAIN : ANF_PARAMS_WHOLE;
    run_ranks(4, NULL, train, &p, r);
    all_fine(4, r);
    free_outs(4, r);
    n[i] = read_file(path[i], file[i], sizeof file[i]);
  }
  assert_in_range(n[0], 1000, sizeof file[0] - 1);
  for (int i = 1; i < 3; i++) assert_true(n[0] == n[i] && memcmp(file[0], file[i], n[0]) == 0);
  for (int32_t ranks = 1; ranks <= 4; ranks++) {
    run_ranks(ranks, NULL, train, &(plan){adam, 2, .engine = BY_TIR, .from = 3, .load = path[0]},
              whole);
    run_ranks(ranks, NULL, train,
              &(plan){adam, 2, .engine = BY_TIR, .shard = 1, .from = 3, .load = path[1],
                      .params = (anf_shard_params)(ranks % 3)},
              r);
    all_fine(ranks, whole);
    all_fine(ranks, r);
    for (int32_t i = 0; i < ranks; i++) same(&r[i], &whole[0], 0);
    free_outs(ranks, whole);
    free_outs(ranks, r);
  }
  for (int i = 0; i < 3; i++) unlink(path[i]);
  rmdir(folder);
}

/* Rank 0 cannot write: all ranks say so, each in its way. */
static void test_checkpoint_fails(void **state) {
  (void)state;
  rank r[3];
  run_ranks(3, NULL, train,
            &(plan){adam, 2, .engine = BY_TIR, .shard = 1, .to = 1, .save = "/nowhere/at/all"}, r);
  assert_string_equal(r[0].code, "E0301");
  for (int i = 1; i < 3; i++) assert_string_equal(r[i].code, "E1228");
  free_outs(3, r);
}

/* Which leaves are parts, and of how many elements; on 4 ranks. */
static void look_at_parts(rank *r) {
  static const char *const part[] = {"s.m.a", "s.m.b", "s.v.a", "s.v.b", "s.v.c"};
  static const int64_t want[] = {8, 2, 8, 2, 2};
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_diag *d = anf_diag_new(cx);
  anf_module *m = NULL;
  anf_step *s = NULL;
  char *text = program_for(adam, 2);
  anf_step_opts o = {.size = sizeof o, .comm = r->comm, .shard = 1};
  anf_status st = anf_parse(cx, text, "parts.anf", d, &m);
  if (st == ANF_OK) st = anf_step_new(anf_module_find(m, "step"), 2, 0, NULL, &o, d, &s);
  size_t found = 0;
  for (size_t i = 0; st == ANF_OK && i < anf_step_leaf_count(s, ANF_STATE); i++) {
    anf_array a, all;
    anf_step_leaf(s, ANF_STATE, i, &a);
    anf_step_whole(s, i, &all);
    if (elements(&a) == elements(&all)) continue;
    bool good = found < 5 && a.rank == 1 && a.dims[0] == want[found] &&
                strcmp(part[found], anf_step_leaf_name(s, ANF_STATE, i)) == 0;
    if (!good) st = ANF_LIMIT;
    found++;
  }
  if (st == ANF_OK && found != 5) st = ANF_IO;
  report(r, st, d);
  anf_step_free(s);
  anf_module_free(m);
  free(text);
  anf_diag_free(d);
  anf_ctx_free(cx);
}

static void test_parts(void **state) {
  (void)state;
  rank r[4];
  run_ranks(4, NULL, look_at_parts, NULL, r);
  all_fine(4, r);
}

static double sum_of_state(const anf_step *s) {
  double sum = 0, weight = 1;
  for (size_t i = 0; i < anf_step_leaf_count(s, ANF_STATE); i++) {
    anf_array a;
    anf_step_leaf(s, ANF_STATE, i, &a);
    size_t n = 1;
    for (size_t k = 0; k < a.rank; k++) n *= (size_t)a.dims[k];
    for (size_t k = 0; k < n; k++) sum += (weight *= -1.01) * ((const double *)a.data)[k];
  }
  return sum;
}

/* Means over ranks of other numbers of rows are means of nothing in particular: refused, and the state is as it was. A program that
 * sums over ranks weighs them itself. */
static void test_rows(void **state) {
  (void)state;
  rank r[MAX_RANKS], whole[1];
  for (uint64_t shard = 0; shard < 2; shard++)
    for (int32_t n = 2; n <= 4; n += 2) {
      run_ranks(n, NULL, train, &(plan){sgd, 1, .engine = BY_TIR, .shard = shard, .more = 1}, r);
      for (int i = 0; i < n; i++) {
        assert_string_equal(r[i].code, "E1623");
        assert_true(strstr(r[i].message, "the rows of rank 1 ") != NULL);
      }
      free_outs(n, r);
    }
  run_ranks(1, NULL, train, &(plan){sgd, 1, .alone = true, .engine = BY_TIR}, whole);
  run_ranks(2, NULL, train, &(plan){weighed, 1, .engine = BY_TIR, .more = 2}, r);
  all_fine(2, r);
  for (int i = 0; i < 2; i++) same(&r[i], &whole[0], 1e-12);
  free_outs(2, r);
  free_outs(1, whole);
}

/* Batches of other sizes one after the other, alike on all ranks: two steps on one communicator in turn. Then rank 1 has fewer rows. */
static void step_in_turn(rank *r) {
  static const int32_t rows[] = {2, 3};
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_diag *d = anf_diag_new(cx);
  anf_module *m[2] = {NULL};
  anf_step *s[2] = {NULL};
  anf_step_opts o = {.size = sizeof o, .comm = r->comm};
  anf_exec_opts how = {.size = sizeof how, .kind = ANF_JIT_INTERP};
  anf_status st = ANF_OK;
  o.exec = &how;
  for (int i = 0; st == ANF_OK && i < 2; i++) {
    char *text = program_for(sgd, rows[i]);
    st = anf_parse(cx, text, "turn.anf", d, &m[i]);
    if (st == ANF_OK) st = anf_step_new(anf_module_find(m[i], "step"), 1, 0, NULL, &o, d, &s[i]);
    free(text);
  }
  for (int k = 0; st == ANF_OK && k < 6; k++) st = anf_step_run(s[k / 2 % 2], d);
  report(r, st, d);
  anf_comm_counts n = {.size = sizeof n};
  anf_comm_count(r->comm, &n);
  r->out = malloc(2 * sizeof *r->out);
  r->out[0] = (double)n.operations;
  double before = s[0] ? sum_of_state(s[0]) : 0;
  anf_diag_clear(d);
  if (st == ANF_OK) report(r, anf_step_run(s[r->me == 1], d), d);
  r->out[1] = (double)(s[0] && before == sum_of_state(s[0]));
  for (int i = 0; i < 2; i++) anf_step_free(s[i]), anf_module_free(m[i]);
  anf_diag_free(d);
  anf_ctx_free(cx);
}

static void test_rows_in_turn(void **state) {
  (void)state;
  rank r[2];
  anf_comm_opts o = {.size = sizeof o, .timeout_ms = 4000};
  run_ranks(2, &o, step_in_turn, NULL, r);
  for (int i = 0; i < 2; i++) {
    assert_true(r[i].out[0] ==
                6 * 4 + 3); // a loss and three gradients a step; rows where the step changes
    assert_true(r[i].status == ANF_INVALID && r[i].out[1] == 1);
  }
  free_outs(2, r);
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

/* ---- a link that fails at one message ---- */

typedef struct breaking {
  anf_comm_link link;
  int left; // messages until it fails
} breaking;

static void *start_or_break(void *user, bool send, int32_t peer, int32_t tag, void *at,
                            uint64_t bytes) {
  breaking *b = (breaking *)user;
  return b->left-- > 0 ? b->link.start(b->link.user, send, peer, tag, at, bytes) : NULL;
}
static anf_comm_why pass_wait(void *user, void *request, uint64_t ms, int32_t *who) {
  breaking *b = (breaking *)user;
  return b->link.wait(b->link.user, request, ms, who);
}
static void pass_cancel(void *user, void *request) {
  breaking *b = (breaking *)user;
  b->link.cancel(b->link.user, request);
}
static void pass_abort(void *user, int32_t blame) {
  breaking *b = (breaking *)user;
  b->link.abort(b->link.user, blame);
}
static void pass_free(void *user) {
  breaking *b = (breaking *)user;
  b->link.free(b->link.user);
}

typedef struct fault {
  int at; // the message of rank 0 that fails
  uint64_t shard;
  breaking b;
} fault;

/* out: whether the step was done, and the state before and after. */
static void step_with_fault(rank *r) {
  fault *f = (fault *)(uintptr_t)r->user;
  if (!r->me) { // nothing has been started yet
    f->b = (breaking){r->comm->link, f->at};
    anf_comm_link *l = &r->comm->link;
    *l = (anf_comm_link){.size = l->size,
                         .user = &f->b,
                         .rank = l->rank,
                         .ranks = l->ranks,
                         .start = start_or_break,
                         .wait = pass_wait,
                         .cancel = pass_cancel,
                         .abort = pass_abort,
                         .free = pass_free};
  }
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_diag *d = anf_diag_new(cx);
  anf_module *m = NULL;
  anf_step *s = NULL;
  char *text = program_for(f->shard ? adam : sgd, 2);
  anf_exec_opts how = {.size = sizeof how, .kind = ANF_JIT_INTERP};
  anf_step_opts o = {.size = sizeof o, .exec = &how, .comm = r->comm, .shard = f->shard};
  anf_status st = anf_parse(cx, text, "fault.anf", d, &m);
  if (st == ANF_OK)
    st = anf_step_new(anf_module_find(m, "step"), f->shard ? 2 : 1, 0, NULL, &o, d, &s);
  if (st == ANF_OK) st = set_state(s);
  report(r, st, d);
  if (st == ANF_OK) {
    r->out = malloc(3 * sizeof *r->out);
    r->out[1] = sum_of_state(s);
    r->out[0] = anf_step_run(s, d) == ANF_OK;
    r->out[2] = sum_of_state(s);
    if (f->shard) {
      anf_diag_clear(d);
      report(r, anf_step_run(s, d), d);
    }
  }
  anf_step_free(s);
  anf_module_free(m);
  free(text);
  anf_diag_free(d);
  anf_ctx_free(cx);
}

/* Inputs are zeros: the gradients by `b` and `c` are not. */
static void test_faults(void **state) {
  (void)state;
  bool done = false;
  int at = 0;
  for (; !done && at < 100; at++) {
    rank r[2];
    fault f = {.at = at};
    anf_comm_opts o = {.size = sizeof o, .timeout_ms = 20000, .bucket_bytes = 1};
    run_ranks(2, &o, step_with_fault, &f, r);
    all_fine(2, r);
    for (int i = 0; i < 2; i++)
      if ((r[i].out[0] != 0) != (r[i].out[1] != r[i].out[2]))
        fail_msg("message %d fails: rank %d is done: %g, its state %.17g, then %.17g", at, i,
                 r[i].out[0], r[i].out[1], r[i].out[2]);
    done = r[0].out[0] != 0 && r[1].out[0] != 0;
    free_outs(2, r);
  }
  assert_true(done);
  assert_in_range(at, 8, 99); // four operations of two messages at least
}

/* Parts of a sharded state may be of different steps then: nothing goes on from them. */
static void test_torn(void **state) {
  (void)state;
  for (int at = 1; at < 40; at += 6) {
    rank r[2];
    fault f = {.at = at, .shard = 1};
    anf_comm_opts o = {.size = sizeof o, .timeout_ms = 20000, .bucket_bytes = 1};
    run_ranks(2, &o, step_with_fault, &f, r);
    for (int i = 0; i < 2; i++)
      if (r[i].out[0] == 0) assert_string_equal(r[i].code, "E1227");
    assert_true(at > 1 || r[0].out[0] == 0);
    free_outs(2, r);
  }
}

/* ---- exchanges beside the backward sweep ---- */

static const char deep[] =
    "def loss(w: (f64[160, 160], f64[160, 160], f64[160, 160]), x: f64[96, 160]) {\n"
    "  Mean(Square(Tanh(Tanh(x @ w[0]) @ w[1]) @ w[2] - 1.0))\n"
    "}\n"
    "def norm(g) {\n"
    "  def scaled(s) { hyper_map(fn (d) { d * s }, g) }\n"
    "  (y, pull) = vjp(scaled, 1.0)\n"
    "  Sqrt(pull(g)[0])\n"
    "}\n"
    "def step(w: (f64[160, 160], f64[160, 160], f64[160, 160]), x: f64[96, 160]) {\n"
    "  (l, d) = value_and_grad(loss)(w, x)\n"
    "  c = 0.1 / Maximum(norm(d), 1.0)\n"
    "  ((w[0] - c * d[0], w[1] - c * d[1], w[2] - c * d[2]), {loss = l})\n"
    "}\n";

enum { RUNS = 3 };

/* Of the Tensor IR: four exchanges are started, each gradient as soon as it is there, before one is waited for. The norm, a
 * derivative of what all ranks have, is not exchanged. */
static void look_at_code(void *user, anf_ctx *cx, const char *stage, anf_module *m,
                         const char *tir) {
  rank *r = (rank *)user;
  (void)cx, (void)m;
  if (strcmp(stage, "lowered") != 0) return;
  const char *wait = strstr(tir, "evaluate{anf_rt_comm_wait("), *last = NULL, *p = tir;
  size_t starts = 0, apart = 0;
  for (; (p = strstr(p, "= anf_rt_comm_start(")); p++, starts++) {
    apart += last && p - last > 500; // the next product is between them
    last = p;
  }
  r->status = starts == 4 && apart == 2 && wait > last ? ANF_OK : ANF_LIMIT;
}

static size_t count_of(const char *text, const char *word) {
  size_t n = 0;
  for (; (text = strstr(text, word)); text++) n++;
  return n;
}

static void trace_steps(rank *r) {
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_diag *d = anf_diag_new(cx);
  anf_module *m = NULL;
  anf_step *s = NULL;
  anf_trace *trace = anf_trace_new(cx, 0);
  anf_text text = {.cx = cx};
  r->status = ANF_INTERNAL;
  anf_exec_opts how = {.size = sizeof how, .stage = look_at_code, .stage_user = r};
  anf_step_opts o = {.size = sizeof o, .exec = &how, .comm = r->comm, .trace = trace};
  anf_status st = anf_parse(cx, deep, "deep.anf", d, &m);
  if (st == ANF_OK) st = anf_step_new(anf_module_find(m, "step"), 1, 0, NULL, &o, d, &s);
  if (st == ANF_OK) st = set_state(s);
  for (int k = 0; st == ANF_OK && k < RUNS; k++) st = anf_step_run(s, d);
  if (st == ANF_OK) st = anf_trace_print(trace, &text);
  if (st != ANF_OK) report(r, st, d);
  r->out = malloc(sizeof *r->out);
  r->out[0] = st == ANF_OK ? (double)count_of(text.text, "\"cat\":\"exchange\"") : -1;
  anf_comm_counts n = {.size = sizeof n};
  anf_comm_count(r->comm, &n);
  if (r->out[0] != (double)n.buckets || !strstr(text.text, "\"args\":{\"bytes\":")) r->out[0] = -1;
  anf_text_free(&text);
  anf_step_free(s);
  anf_trace_free(trace);
  anf_module_free(m);
  anf_diag_free(d);
  anf_ctx_free(cx);
}

/* When the other thread is scheduled is not in its hands, so the code is looked at; the trace has all exchanges. */
static void test_overlap(void **state) {
  (void)state;
  rank r[2];
  run_ranks(2, NULL, trace_steps, NULL, r);
  all_fine(2, r);
  for (int i = 0; i < 2; i++) assert_true(r[i].out[0] > 0);
  free_outs(2, r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sgd),         cmocka_unit_test(test_clipped),
      cmocka_unit_test(test_sharded),     cmocka_unit_test(test_sharded_parameters),
      cmocka_unit_test(test_parts),       cmocka_unit_test(test_nan_in_a_part),
      cmocka_unit_test(test_checkpoints), cmocka_unit_test(test_checkpoint_fails),
      cmocka_unit_test(test_rows),        cmocka_unit_test(test_rows_in_turn),
      cmocka_unit_test(test_refused),     cmocka_unit_test(test_faults),
      cmocka_unit_test(test_torn),        cmocka_unit_test(test_overlap)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
