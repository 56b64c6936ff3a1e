// SPDX-License-Identifier: Apache-2.0
/* Expressions through the C interface: tokens and trees as they are, a batch on the stack, the same
 * expression as a graph, its derivative, a graph of many levels. */
#include "test/unit/program.h"

#include <math.h>

static anf_expr *parse(world *w, const char *text, size_t ninput) {
  anf_expr *e = NULL;
  anf_status st = anf_expr_parse(w->cx, text, strlen(text), ninput, w->d, &e);
  if (st != ANF_OK) anf_diag_print(w->d, stderr, false);
  assert_int_equal(st, ANF_OK);
  return e;
}

static void tokens_and_tree(void **state) {
  world *w = *state;
  anf_expr *e = parse(w, "add( @0,\n [1.5, -inf,None,2j])", ANF_EXPR_ANY_INPUTS);
  static const anf_expr_token_kind kinds[] = {
      ANF_EXPR_OPERATOR,     ANF_EXPR_LEFT_BRACKET, ANF_EXPR_INPUT_NUMBER, ANF_EXPR_COMMA,
      ANF_EXPR_LEFT_SQUARE,  ANF_EXPR_REAL,         ANF_EXPR_COMMA,        ANF_EXPR_REAL,
      ANF_EXPR_COMMA,        ANF_EXPR_WORD,         ANF_EXPR_COMMA,        ANF_EXPR_COMPLEX,
      ANF_EXPR_RIGHT_SQUARE, ANF_EXPR_RIGHT_BRACKET};
  size_t n = sizeof kinds / sizeof *kinds;
  assert_int_equal(anf_expr_token_count(e), n);
  for (size_t i = 0; i < n; i++) assert_int_equal(anf_expr_token_at(e, i).kind, kinds[i]);
  assert_int_equal(anf_expr_token_at(e, 2).start, 5);
  assert_int_equal(anf_expr_token_at(e, 2).end, 7);
  assert_int_equal(anf_expr_input_count(e), 1);
  assert_int_equal(anf_expr_node_count(e), 7);
  const anf_expr_node *root = anf_expr_node_at(e, 0), *list = anf_expr_node_at(e, 2);
  assert_string_equal(root->op, "add");
  assert_int_equal(root->children, 2);
  assert_int_equal(anf_expr_node_at(e, root->first)->next, 2);
  assert_int_equal(list->children, 4);
  assert_true(isinf(anf_expr_node_at(e, 4)->re));
  assert_true(anf_expr_node_at(e, 6)->im == 2);
  assert_int_equal(anf_expr_node_at(e, 6)->next, ANF_EXPR_NO_NODE);
  assert_null(anf_expr_node_at(e, 7));
  static const size_t rpn[] = {1, 3, 4, 5, 6, 2, 0};
  for (size_t i = 0; i < 7; i++) assert_int_equal(anf_expr_rpn_at(e, i), rpn[i]);
  anf_expr_free(e);
}

static void operators(void **state) {
  (void)state;
  const char *last = "";
  size_t n = 0, least, most;
  for (const char *s; (s = anf_expr_operator(n, &least, &most)); n++) {
    assert_true(strcmp(last, s) < 0); // a binary search finds them
    assert_true(least >= 1 && least <= most && most <= 3);
    last = s;
  }
  assert_true(n > 60);
}

/* KuiperInfer's test of the layer: a batch of images, each of one value. */
static void batch_on_the_stack(void **state) {
  world *w = *state;
  enum { BATCH = 3, N = 3 * 22 * 24 };
  static const int64_t dims[] = {3, 22, 24};
  static float data[N];
  anf_value *in[3 * BATCH], *out[BATCH];
  for (size_t i = 0; i < 3; i++)
    for (size_t b = 0; b < BATCH; b++) {
      for (size_t k = 0; k < N; k++) data[k] = (float)(i + 2 + 10 * b);
      in[i * BATCH + b] = anf_value_tensor(w->cx, ANF_F32, 3, dims, data);
    }
  anf_expr *e = parse(w, "mul(@2,add(@0,@1))", 3);
  assert_int_equal(anf_expr_eval(e, 3, BATCH, in, w->d, out), ANF_OK);
  for (size_t b = 0; b < BATCH; b++) {
    double want = (double)((4 + 10 * b) * (5 + 20 * b));
    assert_int_equal(anf_value_elements(out[b]), N);
    for (size_t k = 0; k < N; k++) assert_true(anf_value_get_f64(out[b], k) == want);
    anf_value_release(out[b]);
  }
  for (size_t i = 0; i < 3 * BATCH; i++) anf_value_release(in[i]);
  anf_expr_free(e);
}

/* ---- as a graph ---- */

static anf_graph *graph(world *w, const anf_expr *e, size_t n, anf_value *const *in) {
  const anf_type *types[3];
  anf_graph *g = NULL;
  for (size_t i = 0; i < n; i++) types[i] = anf_value_type(w->cx, in[i]);
  anf_status st = anf_expr_graph(e, w->m, "f", n, types, w->d, &g);
  if (st != ANF_OK) anf_diag_print(w->d, stderr, false);
  assert_int_equal(st, ANF_OK);
  assert_int_equal(anf_verify(w->m, w->d), ANF_OK);
  return g;
}

static void printed(world *w, const anf_value *v, anf_text *t) {
  t->cx = w->cx;
  assert_int_equal(anf_value_print(w->cx, v, 0, t), ANF_OK);
  assert_int_equal(anf_type_print(w->cx, anf_value_type(w->cx, (anf_value *)(uintptr_t)v), t),
                   ANF_OK);
}

static void same(world *w, const char *text, const anf_value *a, const anf_value *b) {
  anf_text s = {0}, t = {0};
  printed(w, a, &s);
  printed(w, b, &t);
  if (strcmp(s.text, t.text) != 0) fail_msg("%s: %s is not %s", text, s.text, t.text);
  anf_text_free(&s);
  anf_text_free(&t);
}

/* Evaluated, interpreted and compiled: one value and one type. */
static void graph_equals_value(void **state) {
  static const char *const texts[] = {"sqrt(div(add(mul(@0,2),@1),12))",
                                      "add(mul(@0,@1),@2)",
                                      "div(@2,2)",
                                      "mul(@2,2.5)",
                                      "floor_divide(@2,2)",
                                      "remainder(@2,-3)",
                                      "fmod(@2,3)",
                                      "max(@0,0.5)",
                                      "pow(@2,2)",
                                      "torch.float(@2)",
                                      "and(@2,6)",
                                      "lshift(@2,3)",
                                      "logaddexp(@0,@1)",
                                      "atan2(@0,@1)",
                                      "round(@0)",
                                      "sub(@0,@1,3)",
                                      "rsub(@0,@1)",
                                      "neg(@2)",
                                      "torch.bool(@2)",
                                      "sign(@0)",
                                      "add(size(@0,0),size(@0,-1))",
                                      "add(@0,size(@0,1))",
                                      "reciprocal(@0)",
                                      "minimum(@0,@1)"};
  world *w = *state;
  int64_t dims[] = {2, 3}, one[] = {3};
  anf_value *in[] = {
      anf_value_tensor(w->cx, ANF_F32, 2, dims, (float[]){1.5F, 0.25F, 3, 0.5F, 2.5F, 7}),
      anf_value_tensor(w->cx, ANF_F32, 1, one, (float[]){2, 0.5F, 1}),
      anf_value_tensor(w->cx, ANF_I64, 2, dims, (int64_t[]){-7, 7, 3, -2, 0, 12})};
  anf_exec_opts o = {.size = sizeof o, .kind = ANF_JIT_INTERP};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    anf_expr *e = parse(w, texts[i], 3);
    anf_value *value = NULL, *run = NULL, *compiled = NULL;
    anf_exec *x = NULL;
    assert_int_equal(anf_expr_eval(e, 3, 1, in, w->d, &value), ANF_OK);
    anf_graph *g = graph(w, e, 3, in);
    assert_int_equal(anf_run(g, 3, in, NULL, w->d, &run), ANF_OK);
    same(w, texts[i], run, value);
    anf_status st = anf_compile(g, &o, w->d, &x);
    if (st == ANF_OK) st = anf_exec_run(x, 3, in, NULL, w->d, &compiled);
    if (st != ANF_OK) anf_diag_print(w->d, stderr, false);
    assert_int_equal(st, ANF_OK);
    same(w, texts[i], compiled, value);
    anf_value_release(value);
    anf_value_release(run);
    anf_value_release(compiled);
    anf_exec_free(x);
    anf_expr_free(e);
  }
  for (size_t i = 0; i < 3; i++) anf_value_release(in[i]);
}

/* f = sqrt((2x + y) / 12): df/dx = 1 / (12 f), df/dy = 1 / (24 f) */
static void derivative(void **state) {
  world *w = *state;
  anf_value *in[] = {anf_value_f64(w->cx, 3), anf_value_f64(w->cx, 42)}, *out = NULL;
  anf_expr *e = parse(w, "sqrt(div(add(mul(@0,2),@1),12))", 2);
  anf_graph *f = graph(w, e, 2, in), *df = NULL;
  anf_grad_opts o = {.size = sizeof o, .all = true};
  anf_status st = anf_grad(f, &o, w->d, &df);
  if (st != ANF_OK) anf_diag_print(w->d, stderr, false);
  assert_int_equal(st, ANF_OK);
  assert_int_equal(anf_run(df, 2, in, NULL, w->d, &out), ANF_OK);
  assert_true(fabs(anf_value_get_f64(anf_value_at(out, 0), 0) - 1.0 / 24) < 1e-15);
  assert_true(fabs(anf_value_get_f64(anf_value_at(out, 1), 0) - 1.0 / 48) < 1e-15);
  anf_value_release(out);
  anf_value_release(in[0]);
  anf_value_release(in[1]);
  anf_expr_free(e);
}

/* add(add(...@0...,1),1) */
static void deep_graph(void **state) {
  enum { LEVELS = 200000 };
  world *w = *state;
  char *s = malloc((size_t)LEVELS * 7 + 3);
  for (size_t i = 0; i < LEVELS; i++) {
    memcpy(s + 4 * i, "add(", 4);
    memcpy(s + 4 * LEVELS + 2 + 3 * i, ",1)", 3);
  }
  memcpy(s + 4 * LEVELS, "@0", 2);
  s[LEVELS * 7 + 2] = 0;
  anf_expr *e = parse(w, s, 1);
  anf_value *in = anf_value_i64(w->cx, 5), *out = NULL;
  anf_graph *g = graph(w, e, 1, &in);
  assert_int_equal(anf_run(g, 1, &in, NULL, w->d, &out), ANF_OK);
  assert_int_equal(anf_value_get_i64(out, 0), LEVELS + 5);
  anf_value_release(in);
  anf_value_release(out);
  anf_expr_free(e);
  free(s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(tokens_and_tree, setup, teardown),
      cmocka_unit_test(operators),
      cmocka_unit_test_setup_teardown(batch_on_the_stack, setup, teardown),
      cmocka_unit_test_setup_teardown(graph_equals_value, setup, teardown),
      cmocka_unit_test_setup_teardown(derivative, setup, teardown),
      cmocka_unit_test_setup_teardown(deep_graph, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
