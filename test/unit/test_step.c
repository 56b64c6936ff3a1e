// SPDX-License-Identifier: Apache-2.0
/* Training steps: numbers worked out by hand, arrays of hosts in every form, what is refused. */
#define _POSIX_C_SOURCE 200809L // nanosleep
#include "test/unit/program.h"
#include "step/step.h"
#include "runtime/rt.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

/* w -= 0.5 * d/dw of mean((w * x - y)^2) / 2, and the step's number goes up. */
static const char LINE[] = "def loss(w, x, y) { Mean((w * x - y) ** 2) / 2.0 }\n"
                           "def step(s: {w: f32[4], t: i32}, x: f32[4], y: f32[4]) {\n"
                           "  (l, dw) = value_and_grad(loss)(s.w, x, y)\n"
                           "  ({w = s.w - 0.5 * dw, t = s.t + i32(1)}, {loss = l, first = dw[0]})\n"
                           "}\n";

typedef struct line {
  anf_module *m;
  anf_step *s;
  float x[4], y[4];
} line;

static const int64_t four[] = {4};
static anf_array f32x4(float *p) {
  return (anf_array){.dtype = ANF_F32, .rank = 1, .dims = four, .data = p};
}

static anf_step_opts interp(void) {
  static const anf_exec_opts how = {.kind = ANF_JIT_INTERP};
  return (anf_step_opts){.size = sizeof(anf_step_opts), .exec = &how};
}

static void open_line(world *w, line *l, const anf_step_opts *o) {
  *l = (line){.x = {1, 2, 0, -1}, .y = {1, 1, 1, 1}};
  assert_int_equal(anf_parse(w->cx, LINE, "line.anf", w->d, &l->m), ANF_OK);
  anf_status st = anf_step_new(anf_module_find(l->m, "step"), 1, 0, NULL, o, w->d, &l->s);
  if (st != ANF_OK) anf_diag_print(w->d, stderr, false);
  assert_int_equal(st, ANF_OK);
  anf_array x = f32x4(l->x), y = f32x4(l->y);
  assert_int_equal(anf_step_bind(l->s, ANF_INPUT, 0, &x, w->d), ANF_OK);
  assert_int_equal(anf_step_bind(l->s, ANF_INPUT, 1, &y, w->d), ANF_OK);
}

static void close_line(line *l) {
  anf_step_free(l->s);
  anf_module_free(l->m);
}

/* dw = (w x - y) x / 4; from w = 0: -x y / 4, so w = x y / 8. */
static void check_first(const anf_step *s) {
  static const float want[] = {0.125F, 0.25F, 0.0F, -0.125F};
  anf_array a;
  assert_int_equal(anf_step_leaf(s, ANF_STATE, 0, &a), ANF_OK);
  assert_memory_equal(a.data, want, sizeof want);
  assert_true(anf_step_number(s, "loss") == 0.5);
  assert_true(anf_step_number(s, "first") == -0.25);
  assert_int_equal(anf_step_count(s), 1);
}

static void run_kind(world *w, anf_jit_kind kind) {
  line l;
  anf_step_opts o = {.size = sizeof o, .exec = &(anf_exec_opts){.kind = kind}};
  open_line(w, &l, &o);
  assert_int_equal(anf_step_leaf_count(l.s, ANF_STATE), 2);
  assert_true(l.s->leaf[ANF_STATE][0].given); // updated in place
  assert_string_equal(anf_step_leaf_name(l.s, ANF_STATE, 0), "s.w");
  assert_string_equal(anf_step_leaf_name(l.s, ANF_STATE, 1), "s.t");
  assert_string_equal(anf_step_leaf_name(l.s, ANF_INPUT, 1), "y");
  assert_int_equal(anf_step_leaf_find(l.s, ANF_OUTPUT, "first"), 1);
  assert_int_equal(anf_step_leaf_find(l.s, ANF_OUTPUT, "none"), 2);
  assert_null(anf_step_leaf_name(l.s, ANF_OUTPUT, 2));
  assert_int_equal(anf_step_run(l.s, w->d), ANF_OK);
  check_first(l.s);
  for (int i = 0; i < 200; i++) assert_int_equal(anf_step_run(l.s, w->d), ANF_OK);
  assert_true(fabs(anf_step_number(l.s, "loss") - 0.125) < 1e-6); // x = 0 cannot be fitted
  anf_value *v = NULL;
  assert_int_equal(anf_step_get(l.s, 0, w->d, &v), ANF_OK);
  assert_int_equal(anf_value_get_i64(anf_value_at(v, 1), 0), 201);
  assert_true(fabs(anf_value_get_f64(anf_value_at(v, 0), 1) - 0.5) < 1e-6);
  anf_value_release(v);
  close_line(&l);
}

static void test_interp(void **state) { run_kind(*state, ANF_JIT_INTERP); }
static void test_llvm(void **state) { run_kind(*state, ANF_JIT_LLVM); }

/* The host's memory, dense, backwards and by columns. */
static void test_bind(void **state) {
  world *w = *state;
  line l;
  anf_step_opts o = interp();
  open_line(w, &l, &o);
  float mine[4] = {0}, back[4] = {-1, 0, 2, 1}, wide[12] = {0};
  int64_t minus[] = {-1}, three[] = {3};
  anf_array state_ = f32x4(mine), x = f32x4(&back[3]), y = f32x4(wide);
  x.strides = minus;
  y.strides = three;
  for (int i = 0; i < 4; i++) wide[3 * i] = 1;
  assert_int_equal(anf_step_bind(l.s, ANF_STATE, 0, &state_, w->d), ANF_OK);
  assert_int_equal(anf_step_bind(l.s, ANF_INPUT, 0, &x, w->d), ANF_OK);
  assert_int_equal(anf_step_bind(l.s, ANF_INPUT, 1, &y, w->d), ANF_OK);
  assert_int_equal(anf_step_run(l.s, w->d), ANF_OK);
  check_first(l.s);
  assert_true(mine[1] == 0.25F); // in place
  float far[12] = {0};
  anf_array strided = f32x4(far);
  strided.strides = three;
  assert_int_equal(anf_step_bind(l.s, ANF_STATE, 0, &strided, w->d), ANF_OK);
  assert_int_equal(anf_step_run(l.s, w->d), ANF_OK);
  assert_true(far[3] == 0.25F && far[9] == -0.125F && far[1] == 0.0F);
  anf_array none = {0};
  assert_int_equal(anf_step_bind(l.s, ANF_STATE, 0, &none, w->d), ANF_OK);
  assert_int_equal(anf_step_run(l.s, w->d), ANF_OK);
  assert_true(far[3] == 0.25F);
  float out[4];
  anf_array to = f32x4(out);
  assert_int_equal(anf_step_read(l.s, ANF_STATE, 0, &to, w->d), ANF_OK);
  assert_true(out[1] > 0.25F);
  memset(out, 0, sizeof out);
  assert_int_equal(anf_step_write(l.s, ANF_STATE, 0, &to, w->d), ANF_OK);
  assert_int_equal(anf_step_run(l.s, w->d), ANF_OK);
  assert_true(anf_step_number(l.s, "loss") == 0.5);
  close_line(&l);
}

/* ---- what is refused ---- */

static const char *first_code(world *w) { return anf_diag_at(w->d, 0)->code; }
static void refused(world *w, anf_status st, const char *code) {
  assert_int_not_equal(st, ANF_OK);
  assert_true(anf_diag_count(w->d) > 0);
  assert_string_equal(first_code(w), code);
  anf_diag_clear(w->d);
}

/* A run writes no more than the state's complex numbers. */
static void test_complex(void **state) {
  world *w = *state;
  line l;
  anf_step_opts o = interp();
  double mine[] = {1, 2, 3, 4, 7, 7, 7, 7};
  anf_array a = {.dtype = ANF_C128, .rank = 1, .dims = (int64_t[]){2}, .data = mine};
  assert_int_equal(anf_parse(w->cx, "def f(w: c128[2]) { (w + w, 1.0) }", "c", w->d, &l.m), ANF_OK);
  assert_int_equal(anf_step_new(anf_module_find(l.m, "f"), 1, 0, NULL, &o, w->d, &l.s), ANF_OK);
  assert_int_equal(anf_step_bind(l.s, ANF_STATE, 0, &a, w->d), ANF_OK);
  assert_int_equal(anf_step_run(l.s, w->d), ANF_OK);
  assert_true(mine[0] == 2 && mine[3] == 8 && mine[4] == 7 && mine[7] == 7);
  close_line(&l);
}

/* What is written is nothing else's memory: a run is refused until it is apart. Inputs may share theirs. */
static void test_bind_apart(void **state) {
  world *w = *state;
  line l;
  anf_step_opts o = interp();
  open_line(w, &l, &o);
  float shared[8] = {0}, columns[12] = {0};
  int64_t three[] = {3};
  anf_array state_ = f32x4(shared), x = f32x4(shared + 2), column = f32x4(columns),
            next = f32x4(columns + 1);
  column.strides = next.strides = three;
  assert_int_equal(anf_step_bind(l.s, ANF_STATE, 0, &state_, w->d), ANF_OK);
  assert_int_equal(anf_step_bind(l.s, ANF_INPUT, 0, &x, w->d), ANF_OK);
  refused(w, anf_step_run(l.s, w->d), "E0564");
  refused(w, anf_step_submit(l.s, w->d), "E0564");
  x = f32x4(shared + 4);
  assert_int_equal(anf_step_bind(l.s, ANF_INPUT, 0, &x, w->d), ANF_OK);
  assert_int_equal(anf_step_bind(l.s, ANF_INPUT, 1, &x, w->d), ANF_OK);
  assert_int_equal(anf_step_run(l.s, w->d), ANF_OK);
  assert_int_equal(anf_step_bind(l.s, ANF_STATE, 0, &column, w->d), ANF_OK);
  assert_int_equal(anf_step_bind(l.s, ANF_INPUT, 0, &next, w->d), ANF_OK);
  assert_int_equal(anf_step_run(l.s, w->d), ANF_OK);
  assert_int_equal(anf_step_bind(l.s, ANF_INPUT, 0, &column, w->d), ANF_OK);
  refused(w, anf_step_run(l.s, w->d), "E0564");
  close_line(&l);
}

static void test_arrays(void **state) {
  world *w = *state;
  line l;
  anf_step_opts o = interp();
  open_line(w, &l, &o);
  float data[8] = {0};
  static const int64_t five[] = {5}, huge[] = {INT64_MAX}, zero[] = {0};
  anf_array a = f32x4(data);
  a.dtype = ANF_F64;
  refused(w, anf_step_bind(l.s, ANF_INPUT, 0, &a, w->d), "E1112");
  a = f32x4(data), a.dims = five;
  refused(w, anf_step_bind(l.s, ANF_INPUT, 0, &a, w->d), "E1112");
  a = f32x4(NULL);
  refused(w, anf_step_bind(l.s, ANF_INPUT, 0, &a, w->d), "E1113");
  a = f32x4((float *)(void *)((char *)data + 1));
  refused(w, anf_step_bind(l.s, ANF_STATE, 0, &a, w->d), "E1113");
  a = f32x4(data), a.strides = zero; // all elements are one: to be read alone
  assert_int_equal(anf_step_bind(l.s, ANF_INPUT, 0, &a, w->d), ANF_OK);
  refused(w, anf_step_bind(l.s, ANF_STATE, 0, &a, w->d), "E1113");
  a.strides = huge;
  refused(w, anf_step_bind(l.s, ANF_INPUT, 0, &a, w->d), "E1113");
  a = f32x4(data);
  refused(w, anf_step_bind(l.s, ANF_INPUT, 2, &a, w->d), "E1114");
  refused(w, anf_step_read(l.s, ANF_OUTPUT, 7, &a, w->d), "E1114");
  refused(w, anf_step_wait(l.s, w->d), "E1115");
  close_line(&l);
}

static anf_status make(world *w, const char *text, size_t nstate) {
  anf_module *m = NULL;
  anf_step *s = NULL;
  anf_step_opts o = interp();
  assert_int_equal(anf_parse(w->cx, text, "step.anf", w->d, &m), ANF_OK);
  anf_status st = anf_step_new(anf_module_find(m, "step"), nstate, 0, NULL, &o, w->d, &s);
  anf_step_free(s);
  anf_module_free(m);
  return st;
}

static void test_functions(void **state) {
  world *w = *state;
  refused(w, make(w, "def step(w: f32[2]) { Sum(w) }", 1), "E1110");
  refused(w, make(w, "def step(w: f32[2]) { (w, 1) }", 2), "E1119");
  refused(w, make(w, "def step(w: f32[2]) { (cast(w, f64), 1) }", 1), "E1111");
  refused(w, make(w, "def step(w) { (w, 1) }", 1), "E1120");
  assert_int_equal(make(w, "def step(w: f32[2]) { (w, 1) }", 1), ANF_OK);
  assert_int_equal(make(w, "def step(w: f32[2]) { (w,) }", 1), ANF_OK);
  assert_int_equal(make(w, "def step(w: f32[2]) { Sum(w) }", 0), ANF_OK);
}

/* States that change places cannot be updated where they are. */
static void test_swap(void **state) {
  world *w = *state;
  anf_module *m = NULL;
  anf_step *s = NULL;
  anf_step_opts o = interp();
  const char *text = "def step(a: f32[2], b: f32[2], c: f32, d: f32) { (b, a + b, d, c + d) }";
  assert_int_equal(anf_parse(w->cx, text, "swap.anf", w->d, &m), ANF_OK);
  anf_value *arg[4];
  float one[] = {1, 10};
  int64_t two[] = {2};
  for (int i = 0; i < 2; i++) arg[i] = anf_value_tensor(w->cx, ANF_F32, 1, two, one);
  for (int i = 2; i < 4; i++) arg[i] = anf_value_f32(w->cx, 1.0F);
  assert_int_equal(anf_step_new(anf_module_find(m, "step"), 4, 4, arg, &o, w->d, &s), ANF_OK);
  for (int i = 0; i < 4; i++) anf_value_release(arg[i]);
  for (int i = 0; i < 5; i++) assert_int_equal(anf_step_run(s, w->d), ANF_OK);
  static const double want[] = {8, 13, 8, 13}; // Fibonacci's numbers
  for (size_t i = 0; i < 4; i++) {
    anf_array a;
    assert_int_equal(anf_step_leaf(s, ANF_STATE, i, &a), ANF_OK);
    assert_true((double)((const float *)a.data)[0] == want[i]);
    if (i < 2) assert_true((double)((const float *)a.data)[1] == 10.0 * want[i]);
  }
  anf_step_free(s);
  anf_module_free(m);
}

static void test_exchange(void **state) {
  world *w = *state;
  anf_module *m = NULL;
  anf_step *s = NULL;
  anf_step_opts o = interp();
  float a[2] = {1, 2}, b[2] = {3, 4};
  int64_t two[] = {2};
  anf_array x = {.dtype = ANF_F32, .rank = 1, .dims = two, .data = a}, y = x;
  y.data = b;
  const char *text = "def step(a: f32[2], b: f32[2]) { (b, a) }";
  assert_int_equal(anf_parse(w->cx, text, "exchange.anf", w->d, &m), ANF_OK);
  assert_int_equal(anf_step_new(anf_module_find(m, "step"), 2, 0, NULL, &o, w->d, &s), ANF_OK);
  assert_false(s->leaf[ANF_STATE][0].given && s->leaf[ANF_STATE][1].given);
  assert_int_equal(anf_step_bind(s, ANF_STATE, 0, &x, w->d), ANF_OK);
  assert_int_equal(anf_step_bind(s, ANF_STATE, 1, &y, w->d), ANF_OK);
  for (int i = 0; i < 3; i++) assert_int_equal(anf_step_run(s, w->d), ANF_OK);
  assert_true(a[0] == 3.0F && a[1] == 4.0F && b[0] == 1.0F && b[1] == 2.0F);
  anf_step_free(s);
  anf_module_free(m);
}

/* Words, whose embedding is read first and whose gradient comes last: all is updated in place, for what
 * may stop the program comes before; and a word that there is none of leaves all as it was. */
static const char WORDS[] = "import nn, optim\n"
                            "def loss(p, x) { nn.cross_entropy(nn.dense(p.b, Tanh(nn.dense(p.a, "
                            "nn.embedding(p.e, x)))), x) }\n"
                            "def init(key: key) {\n"
                            "  p = {e = nn.embedding_init(key, 5, 3), a = nn.dense_init(key, 3, "
                            "4), b = nn.dense_init(key, 4, 5)}\n"
                            "  {p = p, opt = optim.adam_init(p)}\n"
                            "}\n"
                            "def step(s, x: i32[6]) {\n"
                            "  (l, g) = value_and_grad(loss)(s.p, x)\n"
                            "  (p, opt) = optim.adam(s.p, g, s.opt, 0.05)\n"
                            "  ({p = p, opt = opt}, {loss = l})\n"
                            "}\n";

/* The step of WORDS, all of whose state comes from a key */
static anf_step *make_words(anf_ctx *cx, anf_diag *d, const anf_step_opts *o, anf_module **m) {
  static const int64_t six[] = {6};
  static const int32_t x[6] = {0, 1, 2, 3, 4, 0};
  anf_step *s = NULL;
  anf_value *arg[2] = {NULL, anf_value_tensor(cx, ANF_I32, 1, six, x)},
            *key = anf_value_tensor(cx, ANF_KEY, 0, NULL, NULL);
  anf_status st = anf_parse(cx, WORDS, "words.anf", d, m);
  if (st == ANF_OK) st = anf_run(anf_module_find(*m, "init"), 1, &key, NULL, d, &arg[0]);
  if (st == ANF_OK) st = anf_step_new(anf_module_find(*m, "step"), 1, 2, arg, o, d, &s);
  for (int i = 0; i < 2; i++) anf_value_release(arg[i]);
  anf_value_release(key);
  return s;
}

static void test_in_place(void **state) {
  world *w = *state;
  anf_module *m = NULL;
  anf_step_opts o = interp();
  static const int64_t six[] = {6};
  int32_t x[6] = {0, 1, 2, 3, 4, 5};
  anf_value *before = NULL, *after = NULL;
  anf_step *s = make_words(w->cx, w->d, &o, &m);
  assert_non_null(s);
  for (size_t i = 0; i < s->nleaf[ANF_STATE]; i++)
    assert_true(s->leaf[ANF_STATE][i].given || s->leaf[ANF_STATE][i].scalar);
  for (int i = 0; i < 60; i++) assert_int_equal(anf_step_run(s, w->d), ANF_OK);
  assert_true(anf_step_number(s, "loss") < 0.2);
  assert_int_equal(anf_step_get(s, 0, w->d, &before), ANF_OK);
  anf_array bad = {.dtype = ANF_I32, .rank = 1, .dims = six, .data = x};
  assert_int_equal(anf_step_bind(s, ANF_INPUT, 0, &bad, w->d), ANF_OK);
  refused(w, anf_step_run(s, w->d), "E0404");
  assert_int_equal(anf_step_get(s, 0, w->d, &after), ANF_OK);
  assert_true(anf_value_same(before, after));
  anf_value_release(before);
  anf_value_release(after);
  anf_step_free(s);
  anf_module_free(m);
}

/* Updates that follow their products block by block, all of them in place: of a network of odd sizes, whose gradients
 * are aᵀ b; of a product that reads what is updated, which comes before; of a tied weight; with an average. */
static const char FOLLOWED[] =
    "import optim\n"
    "def start(n, m) { 0.1 * Sin(Reshape(Arange(0.0, n * m, 1.0, dtype=f32), (n, m))) }\n"
    "def net(p, x) { Relu(Relu(x @ p.a + p.b) @ p.c) @ Transpose(p.c) }\n"
    "def loss(p, x) { Mean((net(p, x) - 0.5) ** 2) }\n"
    "def init(key: key) {\n"
    "  p = {a = start(37, 61), b = Zeros(61, dtype=f32), c = start(61, 45)}\n"
    "  {p = p, m = hyper_map(fn (w) { 0.0 * w }, p), v = hyper_map(fn (w) { 0.0 * w }, p), s = "
    "start(67, 67), r = start(67, 67)}\n"
    "}\n"
    "def step(s, x: f32[19, 37]) {\n"
    "  (l, g) = value_and_grad(loss)(s.p, x)\n"
    "  m = hyper_map(fn (m, g) { 0.9 * m + g }, s.m, g)\n"
    "  p = hyper_map(fn (w, m, g) { w - 0.1 * (m + g) }, s.p, m, g)\n"
    "  ({p = p, m = m, v = s.v, s = 0.5 * s.s + Transpose(s.r) @ s.s, r = 0.9 * s.r - 0.1 * s.r @ "
    "s.r}, "
    "{loss = l})\n"
    "}\n"
    "def sgd(s, x: f32[19, 37]) {\n"
    "  (l, g) = value_and_grad(loss)(s.p, x)\n"
    "  ({p = optim.sgd(s.p, g, 0.1), m = s.m, v = s.v, s = s.s - 0.1 * s.r @ s.r, r = s.r}, {loss "
    "= l})\n"
    "}\n"
    "def adam(s, x: f32[19, 37]) {\n"
    "  (l, g) = value_and_grad(loss)(s.p, x)\n"
    "  m = hyper_map(fn (a, d) { 0.9 * a + 0.1 * d }, s.m, g)\n"
    "  v = hyper_map(fn (a, d) { 0.99 * a + 0.01 * d * d }, s.v, g)\n"
    "  p = hyper_map(fn (w, a, b) { w - 0.01 * w - 0.1 * (a / (Sqrt(b) + 0.1)) }, s.p, m, v)\n"
    "  ({p = p, m = m, v = v, s = s.s, r = s.r}, {loss = l})\n"
    "}\n";

static bool is_near(const anf_value *a, const anf_value *b) {
  bool tensor = anf_value_get_kind(a) == ANF_VALUE_TENSOR;
  for (size_t i = 0; !tensor && i < anf_value_count(a); i++)
    if (!is_near(anf_value_at(a, i), anf_value_at(b, i))) return false;
  for (size_t i = 0; tensor && i < anf_value_elements(a); i++)
    if (!(fabs(anf_value_get_f64(a, i) - anf_value_get_f64(b, i)) < 2e-5)) return false;
  return true;
}

static void run_followed(world *w, const char *name, anf_step_opts o) {
  enum { STEPS = 4 };
  static const int64_t dims[] = {19, 37};
  static float x[19 * 37];
  anf_module *m = NULL;
  anf_value *arg[2] = {NULL}, *now = NULL, *key = anf_value_tensor(w->cx, ANF_KEY, 0, NULL, NULL);
  for (int i = 0; i < 19 * 37; i++) x[i] = (float)sin(0.7 * i);
  arg[1] = anf_value_tensor(w->cx, ANF_F32, 2, dims, x);
  assert_int_equal(anf_parse(w->cx, FOLLOWED, "followed.anf", w->d, &m), ANF_OK);
  assert_int_equal(anf_run(anf_module_find(m, "init"), 1, &key, NULL, w->d, &arg[0]), ANF_OK);
  anf_step *s = NULL;
  anf_status st = anf_step_new(anf_module_find(m, name), 1, 2, arg, &o, w->d, &s);
  if (st != ANF_OK) anf_diag_print(w->d, stderr, false);
  assert_int_equal(st, ANF_OK);
  for (size_t i = 0; i < s->nleaf[ANF_STATE]; i++) assert_true(s->leaf[ANF_STATE][i].given);
  for (int i = 0; i < STEPS; i++) {
    anf_value *pair = NULL;
    assert_int_equal(anf_run(anf_module_find(m, name), 2, arg, NULL, w->d, &pair), ANF_OK);
    anf_value_release(arg[0]);
    arg[0] = anf_value_retain(anf_value_at(pair, 0));
    anf_value_release(pair);
    assert_int_equal(anf_step_run(s, w->d), ANF_OK);
    assert_int_equal(anf_step_get(s, 0, w->d, &now), ANF_OK);
    assert_true(is_near(arg[0], now));
    anf_value_release(now);
  }
  for (int i = 0; i < 2; i++) anf_value_release(arg[i]);
  anf_value_release(key);
  anf_step_free(s);
  anf_module_free(m);
}

static void test_followed(void **state) {
  world *w = *state;
  anf_step_opts o = {.size = sizeof o}, two = {.size = sizeof o, .threads = 2};
  run_followed(w, "sgd", o);
  run_followed(w, "step", o);
  run_followed(w, "step", two);
  run_followed(w, "adam", o);
  run_followed(w, "adam", two);
  run_followed(w, "sgd", interp());
  run_followed(w, "step", interp());
  run_followed(w, "adam", interp());
}

/* ---- NaN ---- */

static void run_nan(world *w, anf_nan_check check) {
  static const char text[] = "def step(w: f32[2], x: f32[2]) {\n"
                             "  y = x - 1.0\n"
                             "  z = Log(y)\n"
                             "  (w + 1.0, {loss = Sum(z * w)})\n"
                             "}\n";
  anf_module *m = NULL;
  anf_step *s = NULL;
  anf_step_opts o = interp();
  o.nan = check;
  assert_int_equal(anf_parse(w->cx, text, "nan.anf", w->d, &m), ANF_OK);
  assert_int_equal(anf_step_new(anf_module_find(m, "step"), 1, 0, NULL, &o, w->d, &s), ANF_OK);
  float x[2] = {3, 2};
  int64_t two[] = {2};
  anf_array a = {.dtype = ANF_F32, .rank = 1, .dims = two, .data = x}, st;
  assert_int_equal(anf_step_bind(s, ANF_INPUT, 0, &a, w->d), ANF_OK);
  assert_int_equal(anf_step_run(s, w->d), ANF_OK);
  x[1] = 0.5F;
  anf_status ran = anf_step_run(s, w->d);
  assert_int_equal(anf_step_leaf(s, ANF_STATE, 0, &st), ANF_OK);
  float now = *(float *)st.data;
  if (check == ANF_NAN_IGNORE) {
    assert_int_equal(ran, ANF_OK);
    assert_true(isnan(anf_step_number(s, "loss")));
  } else {
    assert_int_equal(ran, ANF_INVALID);
    assert_string_equal(first_code(w), "E1117");
    assert_true(now == (check == ANF_NAN_FIND ? 1.0F : 2.0F)); // found: the state from before
  }
  if (check == ANF_NAN_FIND) {
    const anf_diag_item *note = anf_diag_at(w->d, 1);
    assert_non_null(note);
    assert_non_null(strstr(note->message, "Log"));
    assert_int_equal(note->line, 3);
  }
  anf_diag_clear(w->d);
  anf_step_free(s);
  anf_module_free(m);
}

/* Stopping at NaN costs no copy of the state. Finding it does, for the new state is looked at before it is
 * written, as outputs made of it are. */
static void nan_kept(world *w, anf_jit_kind kind) {
  static const char text[] = "def step(w: f32[2], x: f32[2]) {\n"
                             "  v = w + x * 1e38\n"
                             "  (v, ({k = 3, sum = Sum(x)}, v * 10.0))\n"
                             "}\n";
  anf_module *m = NULL;
  anf_step *s = NULL;
  anf_step_opts o = {.size = sizeof o, .exec = &(anf_exec_opts){.kind = kind}, .nan = ANF_NAN_STOP};
  s = make_words(w->cx, w->d, &o, &m);
  for (size_t i = 0; i < s->nleaf[ANF_STATE]; i++)
    assert_true(s->leaf[ANF_STATE][i].given || s->leaf[ANF_STATE][i].scalar);
  anf_step_free(s);
  anf_module_free(m);
  o.nan = ANF_NAN_FIND;
  assert_int_equal(anf_parse(w->cx, text, "nan.anf", w->d, &m), ANF_OK);
  assert_int_equal(anf_step_new(anf_module_find(m, "step"), 1, 0, NULL, &o, w->d, &s), ANF_OK);
  float x[2] = {0.25F, 0.125F};
  int64_t two[] = {2};
  anf_array a = {.dtype = ANF_F32, .rank = 1, .dims = two, .data = x}, st;
  assert_int_equal(anf_step_bind(s, ANF_INPUT, 0, &a, w->d), ANF_OK);
  assert_int_equal(anf_step_run(s, w->d), ANF_OK);
  x[0] = 1.0F;
  anf_status ran = anf_step_run(s, w->d);
  assert_non_null(strstr(anf_diag_at(w->d, 0)->message, "'1' of step 2 holds an infinity"));
  refused(w, ran, "E1117");
  assert_int_equal(anf_step_leaf(s, ANF_STATE, 0, &st), ANF_OK);
  assert_true(((float *)st.data)[0] == 0.25e38F && ((float *)st.data)[1] == 0.125e38F);
  assert_int_equal(anf_step_count(s), 1);
  anf_step_free(s);
  anf_module_free(m);
}

static void test_nan(void **state) {
  nan_kept(*state, ANF_JIT_INTERP);
  nan_kept(*state, ANF_JIT_LLVM);
  run_nan(*state, ANF_NAN_IGNORE);
  run_nan(*state, ANF_NAN_STOP);
  run_nan(*state, ANF_NAN_FIND);
}

/* ---- threads, cancelling, progress, printing ---- */

static bool stop_at_three(void *user, const anf_step *s, uint64_t count, double ms) {
  (void)s;
  *(uint64_t *)user = count;
  return ms >= 0.0 && count < 3;
}

static void test_async(void **state) {
  world *w = *state;
  line l;
  uint64_t seen = 0;
  anf_step_opts o = interp();
  o.progress = stop_at_three;
  o.user = &seen;
  open_line(w, &l, &o);
  assert_int_equal(anf_step_submit(l.s, w->d), ANF_OK);
  refused(w, anf_step_run(l.s, w->d), "E1115");
  assert_int_equal(anf_step_wait(l.s, w->d), ANF_OK);
  assert_false(anf_step_busy(l.s));
  check_first(l.s);
  anf_step_cancel(l.s);
  assert_int_equal(anf_step_submit(l.s, w->d), ANF_OK);
  anf_status st = anf_step_wait(l.s, w->d);
  assert_int_equal(st, ANF_CANCELLED);
  refused(w, st, "E1116");
  assert_int_equal(anf_step_count(l.s), 1);
  assert_int_equal(anf_step_run(l.s, w->d), ANF_OK);
  refused(w, anf_step_run(l.s, w->d), "E1116"); // the third: progress says no
  assert_int_equal(seen, 3);
  anf_step_submit(l.s, w->d); // freed under way: that waits
  close_line(&l);
}

/* Doubles its state, n more times than it ever could. */
static const char ENDLESS[] = "def step(w: f32[3], n: i64) {\n"
                              "  i = 0; v = w\n"
                              "  while i < n { v = v + w * 0.0 + 1.0; i = i + 1 }\n"
                              "  (v, {first = v[0]})\n"
                              "}\n";

typedef struct stopping {
  anf_step *s;
  anf_ctx *cx; // cancelled instead of the step
} stopping;

static void *stop_soon(void *p) {
  const stopping *k = (const stopping *)p;
  nanosleep(&(struct timespec){0, 20000000}, NULL);
  if (k->cx) anf_ctx_cancel(k->cx);
  else anf_step_cancel(k->s);
  return NULL;
}

static void runs_once(world *w, anf_step *s, float want) {
  anf_array a;
  int64_t few = 5, many = INT64_MAX;
  assert_int_equal(anf_step_leaf(s, ANF_INPUT, 0, &a), ANF_OK);
  memcpy(a.data, &few, sizeof few);
  assert_int_equal(anf_step_run(s, w->d), ANF_OK);
  memcpy(a.data, &many, sizeof many);
  assert_int_equal(anf_step_leaf(s, ANF_STATE, 0, &a), ANF_OK);
  for (int i = 0; i < 3; i++) assert_true(((const float *)a.data)[i] == want);
}

static void stop_run(world *w, anf_step *s, bool submitted, bool context, const char *code) {
  stopping k = {s, context ? w->cx : NULL};
  pthread_t t;
  assert_int_equal(pthread_create(&t, NULL, stop_soon, &k), 0);
  anf_status st = submitted ? anf_step_submit(s, w->d) : anf_step_run(s, w->d);
  if (submitted) st = anf_step_wait(s, w->d);
  assert_int_equal(pthread_join(t, NULL), 0);
  assert_int_equal(st, ANF_CANCELLED);
  refused(w, st, code);
}

/* A run that would never end is stopped; its state is as it was, and the next run goes on from there. */
static void test_stop_kind(world *w, anf_jit_kind kind) {
  anf_module *m = NULL;
  anf_step *s = NULL;
  anf_step_opts o = {
      .size = sizeof o, .exec = &(anf_exec_opts){.kind = kind}, .stops = true, .max_ms = 30000};
  assert_int_equal(anf_parse(w->cx, ENDLESS, "endless.anf", w->d, &m), ANF_OK);
  assert_int_equal(anf_step_new(anf_module_find(m, "step"), 1, 0, NULL, &o, w->d, &s), ANF_OK);
  runs_once(w, s, 5.0F);
  stop_run(w, s, false, false, "E1116");
  runs_once(w, s, 10.0F);
  stop_run(w, s, true, false, "E1116");
  stop_run(w, s, false, true, "E0004");
  stop_run(w, s, true, true, "E0004");
  runs_once(w, s, 15.0F);
  assert_int_equal(anf_step_count(s), 3);
  anf_step_free(s);
  s = NULL;
  o.max_ms = 20;
  assert_int_equal(anf_step_new(anf_module_find(m, "step"), 1, 0, NULL, &o, w->d, &s), ANF_OK);
  runs_once(w, s, 5.0F);
  refused(w, anf_step_run(s, w->d), "E0422");
  runs_once(w, s, 10.0F);
  anf_step_free(s);
  s = NULL;
  o.max_ms = 0, o.max_steps = 100;
  assert_int_equal(anf_step_new(anf_module_find(m, "step"), 1, 0, NULL, &o, w->d, &s), ANF_OK);
  runs_once(w, s, 5.0F);
  refused(w, anf_step_run(s, w->d), "E0415");
  runs_once(w, s, 10.0F);
  anf_step_free(s);
  anf_module_free(m);
}

/* A state that is updated in place: however often runs are stopped, it is that of the runs that were finished. */
static const char IN_PLACE[] = "def step(w: f32[400000], x: f32[400000]) {\n"
                               "  s = Sum(Sin(Exp(x)))\n"
                               "  (w + 1.0 + 0.0 * s, {loss = s})\n"
                               "}\n";

static bool all_are(const anf_step *s, float want) {
  anf_array a;
  assert_int_equal(anf_step_leaf(s, ANF_STATE, 0, &a), ANF_OK);
  for (int i = 0; i < 400000; i++)
    if (((const float *)a.data)[i] != want) return false;
  return true;
}

static void stop_in_place(world *w, uint32_t threads) {
  anf_module *m = NULL;
  anf_step *s = NULL;
  anf_step_opts o = {.size = sizeof o, .threads = threads, .stops = true};
  assert_int_equal(anf_parse(w->cx, IN_PLACE, "in_place.anf", w->d, &m), ANF_OK);
  assert_int_equal(anf_step_new(anf_module_find(m, "step"), 1, 0, NULL, &o, w->d, &s), ANF_OK);
  assert_true(s->leaf[ANF_STATE][0].given || threads > 1);
  for (int i = 0; i < 60; i++) {
    uint64_t before = anf_step_count(s);
    assert_int_equal(anf_step_submit(s, w->d), ANF_OK);
    nanosleep(&(struct timespec){0, i * 20000}, NULL);
    anf_step_cancel(s);
    anf_status st = anf_step_wait(s, w->d);
    assert_true(st == ANF_OK || st == ANF_CANCELLED);
    assert_int_equal(anf_step_count(s), before + (st == ANF_OK));
    assert_true(all_are(s, (float)anf_step_count(s)));
    while (st == ANF_OK) st = anf_step_run(s, w->d); // the request comes too late for that run
    anf_diag_clear(w->d);
  }
  anf_step_free(s);
  anf_module_free(m);
}

static void test_stop(void **state) {
  stop_in_place(*state, 1);
  stop_in_place(*state, 2);
  test_stop_kind(*state, ANF_JIT_INTERP);
  test_stop_kind(*state, ANF_JIT_LLVM);
}

static void take_print(void *user, const char *text, size_t len) {
  world *w = user;
  strncat(w->printed, text, len);
}

static void test_print(void **state) {
  world *w = *state;
  anf_module *m = NULL;
  anf_step *s = NULL;
  anf_step_opts o = interp();
  o.print = take_print;
  o.user = w;
  const char *text = "def step(w: f32[2], t: i64) { print(\"w\", w, (t, w)); (w + 1.0, t + 1) }";
  assert_int_equal(anf_parse(w->cx, text, "print.anf", w->d, &m), ANF_OK);
  assert_int_equal(anf_step_new(anf_module_find(m, "step"), 2, 0, NULL, &o, w->d, &s), ANF_OK);
  assert_int_equal(anf_step_submit(s, w->d), ANF_OK);
  assert_int_equal(anf_step_wait(s, w->d), ANF_OK);
  assert_int_equal(anf_step_run(s, w->d), ANF_OK);
  assert_string_equal(w->printed, "w [0.0, 0.0] (0, [0.0, 0.0])\nw [1.0, 1.0] (1, [1.0, 1.0])\n");
  anf_step_free(s);
  anf_module_free(m);
}

/* An index outside: the message is the interpreter's, the state is as it was. */
static void test_trap(void **state) {
  world *w = *state;
  anf_module *m = NULL;
  anf_step *s = NULL;
  anf_step_opts o = interp();
  const char *text = "def step(w: f32[2], i: i64[3]) { v = w[i]; (w + 1.0, {loss = Sum(v)}) }";
  assert_int_equal(anf_parse(w->cx, text, "trap.anf", w->d, &m), ANF_OK);
  assert_int_equal(anf_step_new(anf_module_find(m, "step"), 1, 0, NULL, &o, w->d, &s), ANF_OK);
  int64_t i[3] = {0, 1, 5}, three[] = {3};
  anf_array a = {.dtype = ANF_I64, .rank = 1, .dims = three, .data = i}, st;
  assert_int_equal(anf_step_bind(s, ANF_INPUT, 0, &a, w->d), ANF_OK);
  refused(w, anf_step_run(s, w->d), "E0404");
  assert_int_equal(anf_step_leaf(s, ANF_STATE, 0, &st), ANF_OK);
  assert_true(*(float *)st.data == 0.0F);
  i[2] = -1;
  assert_int_equal(anf_step_run(s, w->d), ANF_OK);
  anf_step_free(s);
  anf_module_free(m);
}

/* ---- DLPack: the structures as the standard has them ---- */

typedef struct managed {
  void *data;
  int32_t device, device_id, ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t offset;
  void *ctx;
  void (*deleter)(struct managed *);
} managed;

static void count_free(managed *m) { ++*(int *)m->ctx; }

static void test_dlpack(void **state) {
  world *w = *state;
  line l;
  anf_step_opts o = interp();
  open_line(w, &l, &o);
  int freed = 0;
  float x[5] = {9, 1, 2, 0, -1};
  int64_t shape[] = {4};
  managed t = {
      .data = x, .device = 1, .ndim = 1, .code = 2, .bits = 32, .lanes = 1, .shape = shape};
  t.offset = 4;
  t.ctx = &freed;
  t.deleter = count_free;
  managed bad = t;
  bad.device = 2;
  refused(w, anf_step_bind_dlpack(l.s, ANF_INPUT, 0, &bad, false, w->d), "E1118");
  bad = t, bad.lanes = 4;
  refused(w, anf_step_bind_dlpack(l.s, ANF_INPUT, 0, &bad, false, w->d), "E1118");
  bad = t, bad.code = 9;
  refused(w, anf_step_bind_dlpack(l.s, ANF_INPUT, 0, &bad, false, w->d), "E1118");
  bad = t, bad.data = NULL; // freed
  refused(w, anf_step_bind_dlpack(l.s, ANF_INPUT, 0, &bad, false, w->d), "E1118");
  bad = t, bad.bits = 64;
  refused(w, anf_step_bind_dlpack(l.s, ANF_INPUT, 0, &bad, false, w->d), "E1112");
  assert_int_equal(anf_step_bind_dlpack(l.s, ANF_INPUT, 0, &t, false, w->d), ANF_OK);
  assert_int_equal(anf_step_run(l.s, w->d), ANF_OK);
  check_first(l.s);
  assert_int_equal(freed, 0);
  managed *lent = anf_step_lend_dlpack(l.s, ANF_STATE, 0);
  assert_non_null(lent);
  assert_int_equal(lent->ndim, 1);
  assert_int_equal(lent->shape[0], 4);
  assert_true(((float *)lent->data)[1] == 0.25F);
  lent->deleter(lent);
  close_line(&l);
  assert_int_equal(freed, 1);
}

/* A step that tests the state of one that trains. */
static void test_share(void **state) {
  world *w = *state;
  line l;
  anf_step_opts o = interp();
  open_line(w, &l, &o);
  anf_module *m = NULL;
  anf_step *s = NULL;
  const char *text = "def step(s: {w: f32[4], t: i32}) { (Sum(s.w), s.t) }";
  assert_int_equal(anf_parse(w->cx, text, "test.anf", w->d, &m), ANF_OK);
  assert_int_equal(anf_step_new(anf_module_find(m, "step"), 0, 0, NULL, &o, w->d, &s), ANF_OK);
  assert_int_equal(anf_step_share(l.s, s, w->d), ANF_OK);
  assert_int_equal(anf_step_run(l.s, w->d), ANF_OK);
  assert_int_equal(anf_step_run(s, w->d), ANF_OK);
  assert_true(anf_step_number(s, "0") == 0.25);
  assert_true(anf_step_number(s, "1") == 1.0);
  anf_step_free(s);
  anf_module_free(m);
  close_line(&l);
}

/* ---- many steps, many threads ---- */

static size_t memory(const char *what) { // KB
  char row[128];
  size_t kb = 0;
  FILE *f = fopen("/proc/self/status", "r");
  while (f && fgets(row, sizeof row, f))
    if (strncmp(row, what, strlen(what)) == 0) kb = strtoul(row + strlen(what), NULL, 10);
  if (f) fclose(f);
  return kb;
}
static size_t resident(void) { return memory("VmRSS:"); }

/* 10^5 steps, and steps made and freed, leave no memory behind. */
static void test_flat(void **state) {
  world *w = *state;
  anf_module *m = NULL;
  anf_step *s = make_words(w->cx, w->d, NULL, &m);
  assert_non_null(s);
  for (int i = 0; i < 1000; i++) assert_int_equal(anf_step_run(s, w->d), ANF_OK);
  size_t bytes = anf_ctx_bytes(w->cx), peak = anf_stream_peak_bytes(s->stream), kb = resident();
  for (int i = 0; i < 100000; i++) assert_int_equal(anf_step_run(s, NULL), ANF_OK);
  assert_int_equal(anf_ctx_bytes(w->cx), bytes);
  assert_int_equal(anf_stream_peak_bytes(s->stream), peak);
  assert_true(resident() <= kb + kb / 100 + 64);
  anf_step_free(s);
  anf_module_free(m);
  anf_step_opts o = interp();
  for (int i = 0; i < 12; i++) {
    anf_step_free(make_words(w->cx, w->d, &o, &m));
    anf_module_free(m);
    if (i == 3) bytes = anf_ctx_bytes(w->cx);
  }
  assert_true(anf_ctx_bytes(w->cx) <= bytes + bytes / 100);
}

#ifndef RT_WATCHED // sanitizers keep what was freed
/* False: the system lets nobody do that. */
static bool forget_peak(void) {
  FILE *f = fopen("/proc/self/clear_refs", "w");
  bool written = f && fputs("5", f) >= 0;
  return f && fclose(f) == 0 && written;
}

/* What calls need is there once, also in the second one, which takes it in one piece. */
static void test_peak(void **state) {
  enum { SMALL = 1000, LARGE = 20 << 20 };
  (void)state;
  anf_stream *s = anf_stream_new(NULL);
  size_t before = resident();
  for (int i = 0; i < 3 && forget_peak(); i++) {
    char *a = (char *)anf_rt_alloc(s, SMALL), *b = (char *)anf_rt_alloc(s, LARGE);
    memset(a, 1, SMALL);
    memset(b, 1, LARGE);
    assert_true(memory("VmHWM:") < before + (LARGE >> 10) * 5 / 4);
    anf_rt_free(s, b);
    anf_rt_free(s, a);
  }
  anf_stream_free(s);
}
#endif

typedef struct learner {
  anf_jit_kind kind;
  double loss;
} learner;

static void *learn(void *p) {
  learner *l = p;
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_diag *d = anf_diag_new(cx);
  anf_module *m = NULL;
  anf_step_opts o = {.size = sizeof o, .exec = &(anf_exec_opts){.kind = l->kind}, .threads = 2};
  anf_step *s = make_words(cx, d, &o, &m);
  for (int i = 0; s && i < 50; i++)
    if (anf_step_submit(s, d) == ANF_OK && anf_step_wait(s, d) == ANF_OK)
      l->loss = anf_step_number(s, "loss");
  anf_step_free(s);
  anf_module_free(m);
  anf_diag_free(d);
  anf_ctx_free(cx);
  return NULL;
}

/* Models of distinct contexts are trained at once, each on threads of its own: the numbers are the same. */
static void test_threads(void **state) {
  (void)state;
  learner l[4] = {{.kind = ANF_JIT_LLVM},
                  {.kind = ANF_JIT_LLVM},
                  {.kind = ANF_JIT_INTERP},
                  {.kind = ANF_JIT_INTERP}};
  pthread_t t[4];
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&t[i], NULL, learn, &l[i]), 0);
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_join(t[i], NULL), 0);
  assert_true(l[0].loss > 0 && l[0].loss < 0.3);
  for (int i = 1; i < 4; i++) assert_true(l[i].loss == l[0].loss);
}

/* ---- models of MindSpore: a file that is known by its content ---- */

static void write_file(const char *name, const char *data, size_t n) {
  FILE *f = fopen(name, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(data, 1, n, f), n);
  assert_int_equal(fclose(f), 0);
}

/* As .mindir, in a file of this name. */
static void write_model(world *w, const char *text, const char *file) {
  const anf_type *t[3] = {NULL};
  anf_module *m = NULL;
  anf_text out = {w->cx, NULL, 0, 0};
  assert_int_equal(anf_parse(w->cx, text, "model.anf", w->d, &m), ANF_OK);
  anf_graph *net = anf_module_find(m, "net");
  static const char *const types[] = {"{w: f32[4]}", "f32[4]", "f32[4]"};
  size_t n = anf_graph_param_count(net);
  for (size_t i = 0; i < n; i++)
    assert_int_equal(anf_parse_type(w->cx, types[i], w->d, &t[i]), ANF_OK);
  assert_int_equal(anf_write_mindir(net, n, t, w->d, &out), ANF_OK);
  write_file(file, out.text, out.len);
  anf_text_free(&out);
  anf_module_free(m);
}

/* Runs a step of a model on the line's data from its own parameters: dw = (w x - y) x / 4, from w = 1. */
static void check_model_step(world *w, const anf_module *m, const anf_step_opts *o) {
  static const float want[] = {1, 0.75F, 1, 0.75F};
  line l = {.x = {1, 2, 0, -1}, .y = {1, 1, 1, 1}};
  anf_value *start = NULL;
  anf_array x = f32x4(l.x), y = f32x4(l.y), a;
  anf_step *s = NULL;
  assert_int_equal(anf_run(anf_module_find(m, "params"), 0, NULL, NULL, w->d, &start), ANF_OK);
  anf_status st = anf_step_new(anf_module_find(m, "net"), 1, 0, NULL, o, w->d, &s);
  if (st != ANF_OK) anf_diag_print(w->d, stderr, false);
  assert_int_equal(st, ANF_OK);
  assert_int_equal(anf_step_set(s, 0, start, w->d), ANF_OK);
  assert_int_equal(anf_step_bind(s, ANF_INPUT, 0, &x, w->d), ANF_OK);
  assert_int_equal(anf_step_bind(s, ANF_INPUT, 1, &y, w->d), ANF_OK);
  assert_int_equal(anf_step_run(s, w->d), ANF_OK);
  assert_int_equal(anf_step_leaf(s, ANF_STATE, 0, &a), ANF_OK);
  assert_memory_equal(a.data, want, sizeof want);
  assert_int_equal(anf_step_leaf(s, ANF_OUTPUT, 0, &a), ANF_OK);
  assert_true(*(const float *)a.data == 0.75F);
  anf_step_free(s);
  anf_value_release(start);
}

/* A model that assigns to its parameter is a step: net(params, x, y) gives (params, loss). */
static void test_mindir_steps(void **state) {
  world *w = (world *)*state;
  static const char text[] = "def loss(w, x, y) { Mean((w * x - y) ** 2) / 2.0 }\n"
                             "def params() { {w = f32[4]([1, 1, 1, 1])} }\n"
                             "def net(p: {w: f32[4]}, x: f32[4], y: f32[4]) {\n"
                             "  (l, dw) = value_and_grad(loss)(p.w, x, y)\n"
                             "  ({w = p.w - 0.5 * dw}, l)\n"
                             "}\n";
  anf_module *m = NULL;
  anf_step_opts o = interp();
  write_model(w, text, "step_of_mindspore");
  assert_int_equal(anf_load(w->cx, "step_of_mindspore", w->d, &m), ANF_OK);
  check_model_step(w, m, &o);
  check_model_step(w, m, NULL);
  anf_module_free(m);
  assert_int_equal(remove("step_of_mindspore"), 0);
}

/* A model without a step is a module of a program that has one. */
static void test_mindir_trains(void **state) {
  world *w = (world *)*state;
  static const char net[] = "def params() { {w = f32[4]([1, 1, 1, 1])} }\n"
                            "def net(p: {w: f32[4]}, x: f32[4]) { p.w * x }\n";
  static const char text[] =
      "import \"net_of_mindspore.mindir\" as model\n"
      "def params() { model.params() }\n"
      "def net(s: {w: f32[4]}, x: f32[4], y: f32[4]) {\n"
      "  (l, g) = value_and_grad(fn (p) { Mean((model.net(p, x) - y) ** 2) / 2.0 })(s)\n"
      "  ({w = s.w - 0.5 * g.w}, l)\n"
      "}\n";
  anf_module *m = NULL;
  anf_step_opts o = interp();
  write_model(w, net, "net_of_mindspore.mindir");
  write_file("train_mindspore.anf", text, sizeof text - 1);
  anf_status read = anf_load(w->cx, "train_mindspore.anf", w->d, &m);
  if (read != ANF_OK) anf_diag_print(w->d, stderr, false);
  assert_int_equal(read, ANF_OK);
  check_model_step(w, m, &o);
  check_model_step(w, m, NULL);
  anf_module_free(m);
  assert_int_equal(remove("net_of_mindspore.mindir"), 0);
  assert_int_equal(remove("train_mindspore.anf"), 0);
}

int main(void) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_interp, setup, teardown),
      cmocka_unit_test_setup_teardown(test_llvm, setup, teardown),
      cmocka_unit_test_setup_teardown(test_mindir_steps, setup, teardown),
      cmocka_unit_test_setup_teardown(test_mindir_trains, setup, teardown),
      cmocka_unit_test_setup_teardown(test_bind_apart, setup, teardown),
      cmocka_unit_test_setup_teardown(test_bind, setup, teardown),
      cmocka_unit_test_setup_teardown(test_complex, setup, teardown),
      cmocka_unit_test_setup_teardown(test_arrays, setup, teardown),
      cmocka_unit_test_setup_teardown(test_functions, setup, teardown),
      cmocka_unit_test_setup_teardown(test_swap, setup, teardown),
      cmocka_unit_test_setup_teardown(test_exchange, setup, teardown),
      cmocka_unit_test_setup_teardown(test_in_place, setup, teardown),
      cmocka_unit_test_setup_teardown(test_followed, setup, teardown),
      cmocka_unit_test_setup_teardown(test_nan, setup, teardown),
      cmocka_unit_test_setup_teardown(test_async, setup, teardown),
      cmocka_unit_test_setup_teardown(test_stop, setup, teardown),
      cmocka_unit_test_setup_teardown(test_print, setup, teardown),
      cmocka_unit_test_setup_teardown(test_trap, setup, teardown),
      cmocka_unit_test_setup_teardown(test_dlpack, setup, teardown),
      cmocka_unit_test_setup_teardown(test_share, setup, teardown),
      cmocka_unit_test_setup_teardown(test_flat, setup, teardown),
#ifndef RT_WATCHED
      cmocka_unit_test_setup_teardown(test_peak, setup, teardown),
#endif
      cmocka_unit_test(test_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
