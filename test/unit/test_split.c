// SPDX-License-Identifier: Apache-2.0
/* Tensor parallel steps on threads, against the step of one rank: an MLP as Megatron splits it, with its exchanges counted; each op
 * that has a rule for parts, along each axis, with its derivative; state that is read, written and saved whole; refusals. */
#define _POSIX_C_SOURCE 200809L // getpid, unlink
#include "test/unit/ranks.h"
#include "test/unit/folder.h"

#include <math.h>
#include <unistd.h>

enum { STEPS = 3, ROOM = 1000 };

typedef struct plan {
  const char *text, *split; // NULL: one rank alone
  size_t nstate;
  int engine;
  anf_nan_check nan;
  uint64_t shard;
  const char *load, *save;
  const char *exchanges; // that rank 0 expects
  bool uneven;           // rank 1 has another input
} plan;

static double number_at(size_t i) { return sin((double)(i * i % 97) + 0.5 * (double)i); }

/* All leaves are f64. */
static anf_status set(anf_step *s, anf_role r, size_t from) {
  anf_status st = ANF_OK;
  for (size_t i = 0; st == ANF_OK && i < anf_step_leaf_count(s, r); i++) {
    anf_array a;
    double x[ROOM];
    st = r == ANF_STATE ? anf_step_whole(s, i, &a) : anf_step_leaf(s, r, i, &a);
    for (size_t k = 0; k < elements(&a); k++) x[k] = 0.5 * number_at(from + 100 * i + k);
    a.data = x;
    if (st == ANF_OK) st = anf_step_write(s, r, i, &a, NULL);
  }
  return st;
}

/* out: the losses, then the state as a whole. */
static anf_status keep_results(rank *r, anf_step *s, const double *losses) {
  anf_status st = ANF_OK;
  r->out = (double *)malloc(sizeof(double) * ROOM);
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

static anf_status expect_exchanges(anf_ctx *cx, const anf_step *s, const char *want, rank *r) {
  anf_text t = {.cx = cx};
  anf_status st = anf_step_exchanges(s, &t);
  if (st == ANF_OK && strcmp(t.text ? t.text : "", want) != 0) {
    printf("# it exchanges\n%s", t.text ? t.text : "nothing");
    snprintf(r->message, sizeof r->message, "other exchanges");
    st = ANF_INTERNAL;
  }
  anf_text_free(&t);
  return st;
}

static void train(rank *r) {
  const plan *p = (const plan *)r->user;
  static const anf_jit_kind kind[ENGINES] = {
      [BY_TIR] = ANF_JIT_INTERP, [BY_LLVM] = ANF_JIT_LLVM, [BY_CJIT] = ANF_JIT_CJIT};
  double losses[STEPS] = {0};
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_diag *d = anf_diag_new(cx);
  anf_module *m = NULL;
  anf_step *s = NULL;
  anf_exec_opts how = {.size = sizeof how, .kind = kind[p->engine]};
  anf_step_opts o = {.size = sizeof o,
                     .exec = &how,
                     .comm = p->split ? r->comm : NULL,
                     .split = p->split,
                     .shard = p->shard,
                     .nan = p->nan};
  anf_status st = anf_parse(cx, p->text, "split.anf", d, &m);
  if (st == ANF_OK) st = anf_step_new(anf_module_find(m, "step"), p->nstate, 0, NULL, &o, d, &s);
  if (st == ANF_OK) st = set(s, ANF_STATE, 0);
  if (st == ANF_OK && p->load) st = anf_step_load(s, p->load, d);
  for (size_t k = 0; st == ANF_OK && k < STEPS; k++) {
    st = set(s, ANF_INPUT, 1000 + 50 * k + (p->uneven && r->me == 1 && k == 1));
    if (st == ANF_OK) st = anf_step_run(s, d);
    if (st == ANF_OK) losses[k] = anf_step_number(s, "loss");
  }
  if (st == ANF_OK && p->save) st = anf_step_save(s, p->save, d);
  if (st == ANF_OK) st = keep_results(r, s, losses);
  report(r, st, d);
  if (st == ANF_OK && p->exchanges && !r->me) r->status = expect_exchanges(cx, s, p->exchanges, r);
  anf_step_free(s);
  anf_module_free(m);
  anf_diag_free(d);
  anf_ctx_free(cx);
}

static void same(const rank *a, const rank *b, double tolerance, const char *what) {
  assert_int_equal(a->nout, b->nout);
  for (size_t i = 0; i < a->nout; i++)
    if (!(fabs(a->out[i] - b->out[i]) <= tolerance * (1 + fabs(b->out[i]))))
      fail_msg("%s: number %zu: %.17g, not %.17g", what, i, a->out[i], b->out[i]);
}

/* Splits give the results of one rank within `tolerance`, and the same bits on all ranks. */
static void check(const plan *p, int32_t n, double tolerance) {
  rank alone[1], r[MAX_RANKS];
  plan one = *p;
  one.split = one.exchanges = NULL;
  run_ranks(1, NULL, train, &one, alone);
  all_fine(1, alone);
  run_ranks(n, NULL, train, p, r);
  all_fine(n, r);
  same(&r[0], &alone[0], tolerance, p->text);
  for (int32_t i = 1; i < n; i++) same(&r[i], &r[0], 0, p->text);
  free_outs(1, alone);
  free_outs(n, r);
}

/* ---- Megatron ---- */

/* A layer, then two that are split: column, row. Momentum, and the clipping by a norm over all. */
static const char mlp[] =
    "def loss(p: {a: f64[6, 8], up: f64[8, 16], b: f64[16], down: f64[16, 8], c: f64[8]}, x: "
    "f64[4, 6], y: f64[4, 8]) {\n"
    "  h = Tanh(x @ p.a)\n"
    "  Mean(Square(h + Tanh(h @ p.up + p.b) @ p.down + p.c - y))\n"
    "}\n"
    "def step(p: {a: f64[6, 8], up: f64[8, 16], b: f64[16], down: f64[16, 8], c: f64[8]},\n"
    "         m: {a: f64[6, 8], up: f64[8, 16], b: f64[16], down: f64[16, 8], c: f64[8]}, x: "
    "f64[4, 6], y: f64[4, 8]) {\n"
    "  (l, d) = value_and_grad(loss)(p, x, y)\n"
    "  m = {a = 0.9 * m.a + d.a, up = 0.9 * m.up + d.up, b = 0.9 * m.b + d.b, down = 0.9 * m.down "
    "+ d.down, c = d.c}\n"
    "  ({a = p.a - 0.1 * m.a, up = p.up - 0.1 * m.up, b = p.b - 0.1 * m.b, down = p.down - 0.1 * "
    "m.down, c = p.c - 0.1 * m.c},\n"
    "   m, {loss = l})\n"
    "}\n";

static const char mlp_exchanges[] =
    "p.up: f64[8, 16], of which each rank holds f64[8, 8] along axis 1\n"
    "p.b: f64[16], of which each rank holds f64[8] along axis 0\n"
    "p.down: f64[16, 8], of which each rank holds f64[8, 8] along axis 0\n"
    "m.up: f64[8, 16], of which each rank holds f64[8, 8] along axis 1\n"
    "m.b: f64[16], of which each rank holds f64[8] along axis 0\n"
    "m.down: f64[16, 8], of which each rank holds f64[8, 8] along axis 0\n"
    "AllReduce of f64[4, 8] at split.anf:3:40\n"
    "AllReduce of f64[4, 8] at split.anf:3:26\n";

/* One exchange forward, at the second product, and one backward, at the first. */
static void test_mlp(void **state) {
  (void)state;
  check(&(plan){mlp, "up=column, p.down=row", 2, BY_LLVM, .exchanges = mlp_exchanges}, 2, 1e-13);
  check(&(plan){mlp, "p.up=column", 2, BY_TIR, .exchanges = mlp_exchanges}, 2, 1e-13);
  check(&(plan){mlp, "up=1 down=-2", 2, BY_CJIT, .nan = ANF_NAN_FIND}, 4, 1e-13);
  check(&(plan){mlp, "a=row c=column", 2, BY_TIR, .nan = ANF_NAN_IGNORE}, 2, 1e-13);
  check(&(plan){mlp, "p.*=whole, m.up=column", 2, BY_TIR, .nan = ANF_NAN_STOP}, 2, 1e-13);
}

/* Columns alone change no sum over ranks: the bits are those of one rank. */
static void test_bits(void **state) {
  static const char columns[] =
      "def loss(w: f64[6, 8], x: f64[4, 6]) { Sum(Square(Tanh(x @ w))) }\n"
      "def step(w: f64[6, 8], x: f64[4, 6]) {\n"
      "  l = loss(w, x)\n"
      "  (w - 0.1 * grad(loss, wrt=0)(w, x), {loss = Sum(w * 0.0)})\n"
      "}\n";
  (void)state;
  for (int32_t n = 2; n <= 4; n *= 2)
    check(&(plan){columns, "w=column", 1, BY_LLVM, .nan = ANF_NAN_IGNORE}, n, 0);
}

/* Attention by heads: the projection is one product for q, k and v, as in GPT. */
static void test_attention(void **state) {
  static const char block[] =
      "def heads(p: {qkv: f64[8, 3, 4, 2], b: f64[3, 4, 2], o: f64[8, 8]}, x: f64[2, 3, 8]) {\n"
      "  y = Reshape(x, (6, 8)) @ Reshape(p.qkv, (8, 24)) + Reshape(p.b, (24,))\n"
      "  a = Transpose(Reshape(y, (2, 3, 3, 4, 2)), axes=(2, 0, 3, 1, 4))\n"
      "  t = Attention(a[0], a[1], a[2], causal=true)\n"
      "  x + Reshape(Reshape(Transpose(t, axes=(0, 2, 1, 3)), (6, 8)) @ p.o, (2, 3, 8))\n"
      "}\n"
      "def loss(p: {qkv: f64[8, 3, 4, 2], b: f64[3, 4, 2], o: f64[8, 8]}, e: f64[8], x: f64[2, 3, "
      "8]) {\n"
      "  Mean(Square(heads(p, x * e)))\n"
      "}\n"
      "def step(p: {qkv: f64[8, 3, 4, 2], b: f64[3, 4, 2], o: f64[8, 8]}, e: f64[8], x: f64[2, 3, "
      "8]) {\n"
      "  (l, (d, g)) = value_and_grad(loss, wrt=(0, 1))(p, e, x)\n"
      "  ({qkv = p.qkv - 0.1 * d.qkv, b = p.b - 0.1 * d.b, o = p.o - 0.1 * d.o}, e - 0.1 * g, "
      "{loss = l})\n"
      "}\n";
  static const char exchanges[] =
      "p.qkv: f64[8, 3, 4, 2], of which each rank holds f64[8, 3, 2, 2] along axis 2\n"
      "p.b: f64[3, 4, 2], of which each rank holds f64[3, 2, 2] along axis 1\n"
      "p.o: f64[8, 8], of which each rank holds f64[4, 8] along axis 0\n"
      "AllReduce of f64[2, 3, 8] at split.anf:5:64\n"
      "AllReduce of f64[2, 3, 8] at split.anf:2:26\n";
  (void)state;
  check(&(plan){block, "qkv=2", 2, BY_LLVM, .exchanges = exchanges}, 2, 1e-13);
  check(&(plan){block, "qkv=2, o=row", 2, BY_TIR, .nan = ANF_NAN_IGNORE}, 4, 1e-13);
  check(&(plan){block, "qkv=0", 2, BY_TIR, .nan = ANF_NAN_IGNORE}, 4, 1e-13);
}

/* ---- ops ---- */

/* Whatever the axis, forward and backward: parts where there is a rule, exchanges where there is none. */
static void test_ops(void **state) {
  static const char *const forms[] = {"w * x",
                                      "x[0, 0] - w",
                                      "Where(w > 0.0, w, x)",
                                      "w / (2.0 + Square(x[0]))",
                                      "w + w[0]",
                                      "Cast(Cast(w, dtype=f32), dtype=f64)",
                                      "Transpose(w, axes=(2, 0, 1))",
                                      "Transpose(w) * x",
                                      "Reshape(w, (16, 4))",
                                      "Reshape(w, (2, 2, 2, 8))",
                                      "Sin(Reshape(w, (64,)))",
                                      "Reshape(ExpandDims(w, axis=1), (8, 8)) @ Reshape(x, (8, 8))",
                                      "Sum(w, axis=1) @ x[0]",
                                      "Sum(w, axis=(0, 2), keepdims=true) * w",
                                      "Mean(w * x, axis=1, keepdims=true) - w",
                                      "Max(w, axis=2) + Min(w, axis=0)",
                                      "Prod(w, axis=1)",
                                      "Var(w, axis=2)",
                                      "LogSumExp(w, axis=1)",
                                      "Softmax(w, axis=1)",
                                      "LogSoftmax(w * x)",
                                      "w[1] * x[2]",
                                      "w[:, 1:3] * x[:, 1:3]",
                                      "w[-1, 1]",
                                      "Concat(w, x, axis=1)",
                                      "Stack(w, w * x, axis=1)",
                                      "BroadcastTo(w, (2, 4, 4, 4)) * x",
                                      "w @ x",
                                      "x @ w",
                                      "w @ w",
                                      "MatMul(w, x, ta=true)",
                                      "MatMul(x, w, tb=true)",
                                      "x[0] @ w",
                                      "w @ x[1]",
                                      "(w[0] @ x[0]) @ w[1]",
                                      "Embedding(w, ArgMax(x, axis=0))",
                                      "Tril(w) + Triu(x * w)",
                                      "CumSum(w, axis=0)",
                                      "LayerNorm(w)",
                                      "ZerosLike(w) + w",
                                      "Sqrt(Sum(Square(w)) + 1.0) * w"};
  (void)state;
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
    for (int axis = 0; axis < 3; axis++) {
      char text[600], split[16];
      snprintf(split, sizeof split, "w=%d", axis);
      snprintf(text, sizeof text,
               "def loss(w: f64[4, 4, 4], x: f64[4, 4, 4]) { Sum(Square(%s)) }\n"
               "def step(w: f64[4, 4, 4], x: f64[4, 4, 4]) {\n"
               "  (l, d) = value_and_grad(loss)(w, x)\n"
               "  (w - 0.01 * d, {loss = l})\n"
               "}\n",
               forms[i]);
      check(&(plan){text, split, 1, BY_TIR, .nan = ANF_NAN_IGNORE}, axis == 1 ? 4 : 2, 1e-12);
    }
}

/* ---- the state as a whole ---- */

/* A checkpoint is that of one rank: any number of ranks goes on from it, split or not. */
static void test_checkpoints(void **state) {
  char folder[TEST_PATH], path[TEST_PATH + 32];
  rank r[4], whole[1], other[4];
  (void)state;
  assert_true(test_folder(folder));
  snprintf(path, sizeof path, "%s/c.safetensors", folder);
  run_ranks(2, NULL, train, &(plan){mlp, "up=column, down=row", 2, BY_TIR, .save = path}, r);
  all_fine(2, r);
  run_ranks(1, NULL, train, &(plan){mlp, NULL, 2, BY_TIR, .load = path}, whole);
  all_fine(1, whole);
  run_ranks(4, NULL, train, &(plan){mlp, "a=column, up=row", 2, BY_TIR, .load = path}, other);
  all_fine(4, other);
  same(&other[0], &whole[0], 1e-13, "from a checkpoint");
  assert_true(whole[0].out[STEPS - 1] != r[0].out[STEPS - 1]);
  free_outs(2, r);
  free_outs(1, whole);
  free_outs(4, other);
  unlink(path);
  rmdir(folder);
}

/* ---- refusals ---- */

static void test_refused(void **state) {
  static const char none[] =
      "def step(w: f64[4], x: f64[4]) { (w + AllReduce(x), {loss = Sum(x)}) }";
  static const char made[] = "def f(w, x) { ({a = w.a, b = x}, Sum(x)) }\n"
                             "def step(w: {a: f64[4], b: f64[4]}, x: f64[4]) {\n"
                             "  s = Switch(Sum(x) > 0.0, w, {a = x, b = w.b})\n"
                             "  (s, {loss = Sum(x)})\n"
                             "}\n";
  static const struct {
    const char *text, *split, *code, *says;
    uint64_t shard;
  } bad[] = {
      {mlp, "upp=column", "E1620", "'upp'", 0},
      {mlp, "q.up=column", "E1620", "'q.up'", 0},
      {mlp, "p.a=row", "E1621", "'p.a' cannot be split: the axis is not as many equal parts", 0},
      {mlp, "p.c=row, p.b=1", "E1621", "it has no such axis", 0},
      {made, "w.a=row", "E1621", "as an item of its result", 0},
      {mlp, "up", "E1622", "\"up\"", 0},
      {mlp, "up=columns", "E1622", "\"up=columns\"", 0},
      {mlp, " , ", "E1622", "\"\"", 0},
      {none, "w=row", "E1624", "AllReduce", 0},
      {mlp, "up=column", "E1625", "not both", 1}};
  (void)state;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    rank r[4];
    plan p = {.text = bad[i].text,
              .split = bad[i].split,
              .nstate = bad[i].text == mlp ? 2 : 1,
              .engine = BY_TIR,
              .shard = bad[i].shard};
    run_ranks(4, NULL, train, &p, r);
    assert_string_equal(r[0].code, bad[i].code);
    if (!strstr(r[3].message, bad[i].says)) fail_msg("%s", r[3].message);
  }
}

/* Ranks that were given other batches all hear of it before the state changes. */
static void test_uneven(void **state) {
  rank r[4];
  (void)state;
  run_ranks(4, NULL, train, &(plan){mlp, "up=column", 2, BY_TIR, .uneven = true}, r);
  for (int i = 0; i < 4; i++) {
    assert_string_equal(r[i].code, "E1623");
    assert_true(strstr(r[i].message, "rank 1 ") != NULL);
  }
}

int main(void) {
  cmocka_set_message_output(CM_OUTPUT_TAP);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_mlp),         cmocka_unit_test(test_bits),
      cmocka_unit_test(test_attention),   cmocka_unit_test(test_ops),
      cmocka_unit_test(test_checkpoints), cmocka_unit_test(test_refused),
      cmocka_unit_test(test_uneven)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
