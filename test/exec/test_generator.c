// SPDX-License-Identifier: Apache-2.0
/* MetaFuncGraphs of the host: graphs made for the types of arguments, by the C builder and from text, in every engine,
 * with derivatives; how often they are made, and what may be wrong with them. Expected values are sums done by hand. */
#include "anfora/host.h"
#include "test/unit/program.h"
#include "test/exec/text.h"

/* ---- generators ---- */

static int calls; // of size1's

/* size1(x): the sum of absolute values over everything in x; of a tuple by calls of itself. */
static anf_status size1(void *user, anf_ctx *cx, size_t n, const anf_type *const *types,
                        anf_diag *d, anf_graph **out) {
  (void)d;
  ++*(int *)user;
  anf_type_kind k = n == 1 ? anf_type_get_kind(types[0]) : ANF_TYPE_NONE;
  if (k != ANF_TYPE_TENSOR && k != ANF_TYPE_TUPLE) return ANF_INVALID;
  anf_module *m = anf_module_new(cx);
  anf_graph *g = anf_graph_new(m, "size1");
  anf_node *x = anf_param(g, "x", NULL), *sum = anf_float(m, 0);
  if (k == ANF_TYPE_TENSOR) sum = OP(g, "Sum", OP(g, "Abs", x));
  for (size_t i = 0; k == ANF_TYPE_TUPLE && i < anf_type_count(types[0]); i++) {
    anf_node *part = anf_tuple_get(g, x, i), *size = CALL(g, anf_op_node(m, "size1"), part);
    sum = OP(g, "Add", sum, size);
  }
  anf_return(g, sum);
  *out = g;
  return ANF_OK;
}

/* applied(f, x): f once for each dim of x, from text. */
static anf_status applied(void *user, anf_ctx *cx, size_t n, const anf_type *const *types,
                          anf_diag *d, anf_graph **out) {
  (void)user;
  if (n != 2 || anf_type_get_kind(types[0]) != ANF_TYPE_FN || anf_type_count(types[0]) != 1)
    return ANF_UNSUPPORTED;
  static const char *const texts[] = {"def applied(f, x) { x }", "def applied(f, x) { f(x) }",
                                      "def applied(f, x) { def g(y) { f(y) }; f(g(x)) }"};
  size_t rank = anf_type_rank(types[1]);
  anf_module *m = NULL;
  anf_status st = anf_parse(cx, texts[rank > 2 ? 2 : rank], "applied.anf", d, &m);
  if (st == ANF_OK) *out = anf_module_find(m, "applied");
  return st;
}

static anf_graph *stolen; // of another module that the host goes on using

static anf_status wrong(void *user, anf_ctx *cx, size_t n, const anf_type *const *types,
                        anf_diag *d, anf_graph **out) {
  (void)n, (void)types;
  const char *what = (const char *)user;
  if (strcmp(what, "says") == 0) return anf_diag_report(d, ANF_UNSUPPORTED, "only %s on Sundays");
  if (strcmp(what, "nothing") == 0) return ANF_OK;
  if (strcmp(what, "twice") == 0 && stolen) return *out = stolen, ANF_OK;
  const char *text = strcmp(what, "effect") == 0    ? "def g(x) { print(x); x }"
                     : strcmp(what, "arity") == 0   ? "def g(x, y) { x }"
                     : strcmp(what, "endless") == 0 ? "def g(x) { endless((x,)) }"
                                                    : "def g(x) { x }";
  anf_module *m = NULL;
  if (strcmp(what, "empty") == 0) {
    *out = anf_graph_new(anf_module_new(cx), "g");
    anf_param(*out, "x", NULL);
    return ANF_OK;
  }
  anf_status st = anf_parse(cx, text, "g.anf", NULL, &m);
  if (st == ANF_OK) stolen = *out = anf_module_find(m, "g");
  return st;
}

static void give_back(void *user) { *(int *)user = -1; }

static void register_all(anf_ctx *cx) {
  calls = 0;
  anf_meta_op ops[] = {{.name = "size1", .generate = size1, .user = &calls, .release = give_back},
                       {.name = "applied", .generate = applied}};
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
    ops[i].size = sizeof *ops;
    assert_int_equal(anf_meta_register(cx, &ops[i], NULL), ANF_OK);
  }
}

/* ---- running ---- */

enum { INTERPRETED = ANF_JIT_KIND_COUNT, WAYS };

static anf_status run_way(world *w, anf_graph *g, int way, anf_value *arg, anf_value **out) {
  anf_exec *e = NULL;
  anf_exec_opts o = {.size = sizeof o, .kind = (anf_jit_kind)way};
  if (way == INTERPRETED) return anf_run(g, 1, &arg, NULL, w->d, out);
  anf_status st = anf_compile(g, &o, w->d, &e);
  if (st == ANF_OK) st = anf_exec_run(e, 1, &arg, NULL, w->d, out);
  anf_exec_free(e);
  return st;
}

/* f of the program gives this of the argument, however it is run. */
static void everywhere(world *w, const char *text, const char *arg, const char *want) {
  anf_module *m = parsed(w, text);
  anf_value *in = value(w, arg), *like = value(w, want);
  for (int way = 0; way < WAYS; way++) {
    anf_value *v = NULL;
    anf_status st = run_way(w, anf_module_find(m, "f"), way, in, &v);
    if (st != ANF_OK) anf_diag_print(w->d, stderr, false);
    assert_int_equal(st, ANF_OK);
    assert_true(anf_value_same(v, like));
    anf_value_release(v);
  }
  anf_value_release(in), anf_value_release(like);
  anf_module_free(m);
}

static void nowhere(world *w, const char *text, const char *arg, const char *code) {
  anf_module *m = parsed(w, text);
  anf_value *in = value(w, arg);
  for (int way = 0; way < WAYS; way++) {
    anf_value *v = NULL;
    anf_diag_clear(w->d);
    assert_int_not_equal(run_way(w, anf_module_find(m, "f"), way, in, &v), ANF_OK);
    assert_true(anf_diag_count(w->d) > 0);
    assert_string_equal(anf_diag_at(w->d, 0)->code, code);
  }
  anf_value_release(in);
  anf_module_free(m);
}

/* ---- tests ---- */

static void by_types(void **state) {
  world *w = *state;
  register_all(w->cx);
  everywhere(w, "def f(x: f64) { size1(x) + size1((x, [x, 2.0], (3.0,))) }", "-1.5",
             "f64(9.5)"); // 1.5 + (1.5 + 3.5 + 3)
}

static void with_transforms(void **state) {
  world *w = *state;
  register_all(w->cx);
  everywhere(w, "def f(x: f64[2]) { grad(size1)(x) }", "[-2.0, 3.0]", "f64[2]([-1.0, 1.0])");
  everywhere(w, "def f(x: f64[2, 2]) { vmap(size1)(x) }", "[[1.0, -2.0], [3.0, 4.0]]",
             "f64[2]([3.0, 7.0])");
  everywhere(w,
             "def f(x: f64[2]) { (a, b) = grad(fn (x, y) { size1((x, (y, x))) }, wrt=(0, 1))(x, 2 "
             "* x); a + b }",
             "[-2.0, 3.0]", "f64[2]([-3.0, 3.0])");
}

static void as_a_value(void **state) {
  world *w = *state;
  register_all(w->cx);
  everywhere(w, "def f(x: f64) { map(size1, (x, [x, x])) }", "-2", "(f64(2.0), f64(4.0))");
  everywhere(w, "def f(x: f64) { multitype(fn (x: i64) { x }, size1)(x) }", "-2", "f64(2.0)");
  everywhere(w, "def twice(g, x) { g((g(x), x)) }\ndef f(x: f64) { twice(size1, x) }", "-2",
             "f64(4.0)");
  everywhere(w, "def f(x: f64[2]) { if Sum(x) > 0 { size1(x) } else { 0.0 } }", "[1.0, 2.0]",
             "f64(3.0)");
}

static void functions_are_arguments(void **state) {
  world *w = *state;
  register_all(w->cx);
  everywhere(w, "def f(x: f64[1, 2]) { applied(fn (y) { 3 * y + Sum(x) }, x) }", "[[1.0, 2.0]]",
             "f64[1, 2]([[21.0, 30.0]])");
  everywhere(w, "def f(x: f64) { applied(Neg, x) + applied(Neg, [x])[0] }", "3", "f64(0.0)");
  nowhere(w, "def f(x: f64) { applied(Add, x) }", "3", "E1585");
}

static void made_once_for_each_list_of_types(void **state) {
  world *w = *state;
  register_all(w->cx);
  anf_module *m = parsed(w, "def f(x) { size1(x) + size1((x, x)) + size1((x, x)) }");
  anf_graph *f = anf_module_find(m, "f");
  anf_exec *e = NULL;
  assert_int_equal(anf_compile(f, NULL, w->d, &e), ANF_OK);
  static const struct {
    const char *arg;
    int calls; // until then
  } runs[] = {{"f64(2)", 2}, {"f64(3)", 2}, {"f64[2]([1.0, 2.0])", 4}, {"f64(4)", 4}};
  for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
    anf_value *in = value(w, runs[i].arg), *out = NULL;
    assert_int_equal(anf_exec_run(e, 1, &in, NULL, w->d, &out), ANF_OK);
    anf_value_release(out);
    assert_int_equal(anf_run(f, 1, &in, NULL, w->d, &out), ANF_OK);
    anf_value_release(out), anf_value_release(in);
    assert_int_equal(calls, runs[i].calls);
  }
  anf_exec_free(e);
  anf_module_free(m);
}

static void graphs_are_built_with_it(void **state) {
  world *w = *state;
  register_all(w->cx);
  anf_graph *g = anf_graph_new(w->m, "g");
  anf_node *x = anf_param(g, "x", NULL);
  anf_return(g, CALL(g, anf_op_node(w->m, "size1"), x));
  anf_value *in = value(w, "(1.0, [-2.0, 3.0])"), *out = NULL;
  assert_int_equal(anf_run(g, 1, &in, NULL, w->d, &out), ANF_OK);
  assert_float_equal(anf_value_get_f64(out, 0), 6.0, 0);
  anf_value_release(in), anf_value_release(out);
}

static void what_is_wrong(void **state) {
  world *w = *state;
  register_all(w->cx);
  nowhere(w, "def f(x: i64) { size1(\"text\") }", "3", "E1585");
  nowhere(w, "def f(x: i64) { size1(x, x) }", "3", "E1585");
  static const char *const names[] = {"nothing", "effect", "arity", "empty",
                                      "endless", "twice",  "says"};
  static const char *const codes[] = {"E1585", "E1586", "E1586", "E1586",
                                      "E1587", "E1586", "E1600"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    anf_meta_op op = {.size = sizeof op,
                      .name = names[i],
                      .generate = wrong,
                      .user = (void *)(uintptr_t)names[i]};
    assert_int_equal(anf_meta_register(w->cx, &op, w->d), ANF_OK);
    char text[80];
    snprintf(text, sizeof text, "def f(x: i64) { (%s(x), %s((x, x))) }", names[i], names[i]);
    stolen = NULL;
    nowhere(w, text, "3", codes[i]);
  }
}

static void refused(world *w, const anf_meta_op *op, const char *code) {
  anf_diag_clear(w->d);
  assert_int_equal(anf_meta_register(w->cx, op, w->d), ANF_INVALID);
  assert_string_equal(anf_diag_at(w->d, 0)->code, code);
}

static void what_cannot_be_registered(void **state) {
  world *w = *state;
  register_all(w->cx);
  refused(w, &(anf_meta_op){.size = sizeof(anf_meta_op), .name = "size1", .generate = size1},
          "E0231");
  refused(w, &(anf_meta_op){.size = sizeof(anf_meta_op), .name = "MatMul", .generate = size1},
          "E0231");
  refused(w, &(anf_meta_op){.size = sizeof(anf_meta_op), .name = "grad", .generate = size1},
          "E0231");
  refused(w, &(anf_meta_op){.size = sizeof(anf_meta_op), .name = "a b", .generate = size1},
          "E0231");
  refused(w, &(anf_meta_op){.size = sizeof(anf_meta_op), .generate = size1}, "E0231");
  refused(w, &(anf_meta_op){.size = sizeof(anf_meta_op), .name = "fresh"}, "E0231");
}

static void released_with_the_context(void **state) {
  (void)state;
  int user = 0;
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_meta_op op = {
      .size = sizeof op, .name = "size1", .generate = size1, .user = &user, .release = give_back};
  assert_int_equal(anf_meta_register(cx, &op, NULL), ANF_OK);
  anf_ctx_free(cx);
  assert_int_equal(user, -1);
}

/* A program is read in a context without its generator: it says so when it is run. */
static void the_host_must_have_it(void **state) {
  world *w = *state;
  register_all(w->cx);
  anf_module *m = parsed(w, "def f(x: f64) { size1(x) }"), *again = NULL;
  anf_text text = {.cx = w->cx};
  assert_int_equal(anf_write_dat(m, &text), ANF_OK);
  anf_ctx *other = anf_ctx_new(NULL);
  anf_diag *d = anf_diag_new(other);
  assert_int_equal(anf_read_dat(other, text.text, text.len, "f.dat", d, &again), ANF_OK);
  anf_value *x = anf_value_f64(other, 1), *v = NULL;
  assert_int_equal(anf_run(anf_module_find(again, "f"), 1, &x, NULL, d, &v), ANF_INVALID);
  assert_string_equal(anf_diag_at(d, 0)->code, "E0230");
  anf_value_release(x);
  anf_module_free(again);
  anf_diag_free(d);
  anf_ctx_free(other);
  anf_text_free(&text);
  anf_module_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {TEST(by_types),
                                     TEST(with_transforms),
                                     TEST(as_a_value),
                                     TEST(functions_are_arguments),
                                     TEST(made_once_for_each_list_of_types),
                                     TEST(graphs_are_built_with_it),
                                     TEST(what_is_wrong),
                                     TEST(what_cannot_be_registered),
                                     TEST(released_with_the_context),
                                     TEST(the_host_must_have_it)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
