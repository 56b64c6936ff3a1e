// SPDX-License-Identifier: Apache-2.0
/* The interpreter: how values meet declared types, and what wrong programs and wrong calls get. */
#include "test/unit/program.h"

/* ---- attributes given by nodes ---- */

static void test_attribute_from_node(void **state) {
  world *w = *state;
  anf_module *m = w->m;
  anf_graph *g = anf_graph_new(m, "g");
  anf_node *t = anf_param(g, "t", NULL), *i = anf_param(g, "i", NULL);
  anf_return(g, anf_op_attrs(g, "TupleGet", 1, &t, 1, &(anf_attr){"index", NULL, i}));
  assert_int_equal(
      take_i64(run(w, g, 2, (anf_value *[]){pair(w->cx, num(w, 5), num(w, 6)), num(w, 1)})), 6);
  run_fails(w, g, 2, (anf_value *[]){pair(w->cx, num(w, 5), num(w, 6)), anf_value_none(w->cx)},
            ANF_INVALID, "E0205");
}

/* ---- types at the boundary and inside ---- */

static void test_arguments_are_converted(void **state) {
  world *w = *state;
  anf_ctx *cx = w->cx;
  static const struct {
    anf_dtype from, to;
    double x;
    bool good;
  } cases[] = {
      {ANF_INT, ANF_I8, 127, true},
      {ANF_INT, ANF_I8, 128, false},
      {ANF_INT, ANF_U8, -1, false},
      {ANF_INT, ANF_F32, 16777217, true},
      {ANF_INT, ANF_BOOL, 1, false},
      {ANF_FLOAT, ANF_F16, 0.1, true},
      {ANF_FLOAT, ANF_I32, 1.0, false},
      {ANF_I64, ANF_I32, 5, true},
      {ANF_I64, ANF_I32, 2147483648.0, false},
      {ANF_I64, ANF_U64, -5, false},
      {ANF_U8, ANF_I8, 200, false},
      {ANF_I64, ANF_F32, 16777216, true},
      {ANF_I64, ANF_F32, 16777217, false},
      {ANF_I32, ANF_F16, 65504, true},
      {ANF_I32, ANF_F16, 65536, false},
      {ANF_F32, ANF_F64, 0.5, true},
      {ANF_F64, ANF_F32, 0.5, false},
      {ANF_F16, ANF_BF16, 1, false},
      {ANF_BOOL, ANF_I32, 1, false},
      {ANF_F32, ANF_C64, 2, true},
      {ANF_F64, ANF_C64, 2, false},
      {ANF_I32, ANF_C64, 3, true},
      {ANF_INT, ANF_C128, 3, true},
      {ANF_F32, ANF_I32, 1, false},
      {ANF_I8, ANF_BF16, -128, true},
      {ANF_I16, ANF_BF16, 257, false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    anf_graph *g = typed_identity(w->m, scalar(cx, cases[i].to));
    anf_value *v = NULL, *from = anf_value_tensor(cx, cases[i].from, 0, NULL, NULL);
    anfi_set_f64(from, 0, cases[i].x);
    anf_status st = run_opts(w, NULL, g, 1, &from, &v);
    if ((st == ANF_OK) != cases[i].good)
      fail_msg("case %zu: %s to %s", i, anf_dtype_name(cases[i].from), anf_dtype_name(cases[i].to));
    if (v) {
      assert_int_equal(anf_value_dtype(v), cases[i].to);
      if (cases[i].to != ANF_F16 && cases[i].x != 16777217)
        assert_true(anf_value_get_f64(v, 0) == cases[i].x);
    }
    anf_value_release(v);
  }
}

static void test_huge_unsigned(void **state) {
  world *w = *state;
  uint64_t huge = UINT64_MAX;
  anf_value *v = anf_value_tensor(w->cx, ANF_U64, 0, NULL, &huge);
  run_fails(w, typed_identity(w->m, scalar(w->cx, ANF_I64)), 1,
            (anf_value *[]){anf_value_retain(v)}, ANF_INVALID, "E0561");
  says(w, 0, "outside");
  run_fails(w, typed_identity(w->m, scalar(w->cx, ANF_F64)), 1, (anf_value *[]){v}, ANF_INVALID,
            "E0561");
}

static void test_nested_arguments(void **state) {
  world *w = *state;
  anf_ctx *cx = w->cx;
  const anf_type *f32 = scalar(cx, ANF_F32), *any = anf_type_simple(cx, ANF_TYPE_ANY);
  const anf_type *rec =
      anf_type_record(cx, 2, (const char *[]){"w", "b"}, (const anf_type *[]){f32, any});
  anf_graph *g =
      typed_identity(w->m, anf_type_tuple(cx, 2, (const anf_type *[]){rec, scalar(cx, ANF_I32)}));
  anf_value *f[] = {num(w, 3), anf_value_none(cx)};
  anf_value *r = anf_value_record(cx, 2, (const char *[]){"w", "b"}, f);
  anf_value *v = run(w, g, 1, (anf_value *[]){pair(cx, anf_value_retain(r), anf_value_i64(cx, 4))});
  gives(cx, v, "({w = 3.0, b = None}, 4)", "({w: f32, b: none}, i32)");
  run_fails(w, g, 1, (anf_value *[]){pair(cx, r, anf_value_f64(cx, 4.0))}, ANF_INVALID, "E0511");
  says(w, 0, "must be i32, and is f64");
  assert_int_equal(anf_diag_at(w->d, 0)->line, 1);
  run_fails(w, g, 1, (anf_value *[]){num(w, 1)}, ANF_INVALID, "E0511");
  anf_value_release(f[0]);
  anf_value_release(f[1]);
}

static void test_symbolic_dims(void **state) {
  world *w = *state;
  anf_ctx *cx = w->cx;
  int64_t b = anf_dim_symbol(cx, "B");
  const anf_type *t = anf_type_tensor(cx, ANF_F32, 1, &b);
  anf_graph *g = anf_graph_new(w->m, "g");
  anf_node *x = anf_param(g, "x", t), *y = anf_param(g, "y", t);
  anf_node *k = anf_param(g, "k", NULL);
  anf_return(g, anf_op(g, "SwitchLayer", 3, NODES(k, x, y)));
  anf_graph_set_result_type(g, t);
  anf_value *two = anf_value_tensor(cx, ANF_F32, 1, (int64_t[]){2}, NULL),
            *three = anf_value_tensor(cx, ANF_F32, 1, (int64_t[]){3}, NULL);
  anf_value_release(
      run(w, g, 3, (anf_value *[]){anf_value_retain(two), anf_value_retain(two), num(w, 0)}));
  run_fails(w, g, 3, (anf_value *[]){anf_value_retain(two), anf_value_retain(three), num(w, 0)},
            ANF_INVALID, "E0511");
  says(w, 0, "argument 2 of 'g'");
  says(w, 0, "must be f32[B] where B is 2, and is f32[3]");
  anf_graph *h = anf_graph_new(w->m, "h"); // the result's B is the argument's
  anf_param(h, "x", t);
  anf_node *other = anf_param(h, "y", NULL);
  anf_return(h, other);
  anf_graph_set_result_type(h, t);
  anf_value_release(run(w, h, 2, (anf_value *[]){anf_value_retain(two), anf_value_retain(two)}));
  run_fails(w, h, 2, (anf_value *[]){two, three}, ANF_INVALID, "E0516");
}

static void test_types_inside(void **state) {
  world *w = *state;
  anf_ctx *cx = w->cx;
  anf_graph *f = typed_identity(w->m, scalar(cx, ANF_F32)), *g = anf_graph_new(w->m, "g");
  anf_node *x = anf_param(g, "x", NULL), *call = CALL(g, anf_graph_node(f), x);
  anf_node_set_loc(call, "t.anf", 7, 3);
  anf_return(g, anf_tuple(g, 1, NODES(call)));
  gives(cx, run(w, g, 1, (anf_value *[]){num(w, 2)}), "(2.0,)", "(f32,)");
  run_fails(w, g, 1, (anf_value *[]){anf_value_i64(cx, 2)}, ANF_INVALID,
            "E0511"); // inside, no conversion of typed
  assert_int_equal(anf_diag_at(w->d, 0)->line, 7);
  assert_int_equal(anf_diag_at(w->d, 1)->line, 1);
  anf_graph *r = anf_graph_new(w->m, "r");
  anf_return(r, anf_int(w->m, 3));
  anf_graph_set_result_type(r, scalar(cx, ANF_F64));
  gives(cx, run(w, r, 0, NULL), "3.0", "f64");
  anf_graph_set_result_type(r, scalar(cx, ANF_BOOL));
  run_fails(w, r, 0, NULL, ANF_INVALID, "E0516");
  says(w, 0, "'r' is declared to give bool, and gives int");
}

/* A last step keeps what its caller owes: outer -> f32, which ends in inner -> any of weak 1. */
static void test_result_type_through_last_steps(void **state) {
  world *w = *state;
  anf_ctx *cx = w->cx;
  anf_graph *outer = anf_graph_new(w->m, "outer"), *mid = anf_graph_new(w->m, "mid"),
            *inner = anf_graph_new(w->m, "inner");
  anf_return(inner, anf_int(w->m, 1));
  anf_return(mid, CALL0(mid, anf_graph_node(inner)));
  anf_return(outer, CALL0(outer, anf_graph_node(mid)));
  anf_graph_set_result_type(outer, scalar(cx, ANF_F32));
  gives(cx, run(w, outer, 0, NULL), "1.0", "f32");
  anf_graph_set_result_type(inner, scalar(cx, ANF_I32)); // now it is not weak any more
  run_fails(w, outer, 0, NULL, ANF_INVALID, "E0516");
  says(w, 0, "'outer' is declared to give");
}

static void test_any_and_functions(void **state) {
  world *w = *state;
  anf_ctx *cx = w->cx;
  const anf_type *i64 = scalar(cx, ANF_I64), *any = anf_type_simple(cx, ANF_TYPE_ANY);
  anf_graph *g = typed_identity(w->m, anf_type_fn(cx, 1, &i64, any));
  anf_value *f = run(w, func_outer(w->m), 2, (anf_value *[]){num(w, 1), num(w, 2)});
  anf_value_release(run(w, g, 1, (anf_value *[]){f}));
  run_fails(w, g, 1, (anf_value *[]){num(w, 1)}, ANF_INVALID, "E0511");
  static const anf_type_kind kinds[] = {ANF_TYPE_NONE, ANF_TYPE_STRING, ANF_TYPE_TYPE};
  for (int i = 0; i < 3; i++) {
    anf_graph *h = typed_identity(w->m, anf_type_simple(cx, kinds[i]));
    anf_value *v[] = {anf_value_none(cx), anf_value_string(cx, "s", 1), anf_value_of_type(cx, i64)};
    for (int k = 0; k < 3; k++)
      if (k == i) anf_value_release(run(w, h, 1, &v[k]));
      else run_fails(w, h, 1, &v[k], ANF_INVALID, "E0511");
  }
}

/* ---- errors ---- */

static void test_wrong_calls(void **state) {
  world *w = *state;
  anf_module *m = w->m;
  anf_graph *two = anf_graph_new(m, "two"), *g = anf_graph_new(m, "g"), *h = anf_graph_new(m, "h");
  anf_node *a = anf_param(two, "a", NULL), *b = anf_param(two, "b", NULL);
  anf_return(two, OP(two, "Add", a, b));
  anf_node *x = anf_param(g, "x", NULL), *call = CALL(g, anf_graph_node(two), x);
  anf_node_set_loc(call, "t.anf", 9, 5);
  anf_return(g, call);
  run_fails(w, g, 1, (anf_value *[]){num(w, 1)}, ANF_INVALID, "E0510");
  says(w, 0, "'two' takes 2 arguments, and is called with 1");
  assert_int_equal(anf_diag_at(w->d, 0)->line, 9);
  says(w, 1, "two is defined here");
  run_fails(w, g, 0, NULL, ANF_INVALID, "E0510");
  anf_node *y = anf_param(h, "y", NULL);
  anf_return(h, CALL(h, y, y));
  run_fails(w, h, 1, (anf_value *[]){num(w, 1)}, ANF_INVALID, "E0514");
  says(w, 0, "only a function can be called, and this is int");
  run_fails(w, h, 1, (anf_value *[]){pair(w->cx, num(w, 1), num(w, 1))}, ANF_INVALID, "E0514");
  says(w, 0, "a tuple of 2 items");
  anf_graph *p = anf_graph_new(m, "p");
  anf_return(p, CALL0(p, anf_switch(p, anf_param(p, "c", NULL), anf_op_node(m, "Add"),
                                    anf_op_node(m, "Sub"))));
  run_fails(w, p, 1, (anf_value *[]){anf_value_bool(w->cx, true)}, ANF_INVALID, "E0202");
}

static void test_not_from_outside(void **state) {
  world *w = *state;
  func_outer(w->m);
  run_fails(w, anf_module_find(w->m, "func_inner"), 1, (anf_value *[]){num(w, 1)}, ANF_INVALID,
            "E0414");
  says(w, 0, "func_inner captures a");
}

static void test_incomplete(void **state) {
  world *w = *state;
  anf_graph *g = anf_graph_new(w->m, "g");
  run_fails(w, g, 0, NULL, ANF_INVALID, "E0420");
  says(w, 0, "no result");
  anf_node *x = anf_param(g, "x", NULL), *a = OP(g, "Add", x, x), *b = OP(g, "Add", a, x);
  anf_return(g, b);
  assert_int_equal(anf_node_set_input(a, 1, b), ANF_OK); // a cycle
  run_fails(w, g, 1, (anf_value *[]){num(w, 1)}, ANF_INVALID, "E0420");
  anf_graph *outer = func_outer(w->m), *inner = anf_module_find(w->m, "func_inner");
  anf_value *f = run(w, outer, 2, (anf_value *[]){num(w, 1), num(w, 2)}), *v = NULL,
            *arg = num(w, 3);
  anf_return(inner, OP(inner, "Add", anf_graph_param(outer, 0),
                       anf_graph_param(inner, 0))); // b is not captured any more
  assert_int_equal(anf_run_value(w->cx, f, 1, &arg, NULL, w->d, &v), ANF_INVALID);
  anf_value_release(f);
  anf_value_release(arg);
}

static void test_module_in_error(void **state) {
  world *w = *state;
  anf_graph *g = anf_graph_new(w->m, "g");
  anf_return(g, anf_int(w->m, 1));
  OP(g, "NoSuchOp", anf_int(w->m, 1));
  anf_value *v = NULL;
  assert_int_equal(anf_run(g, 0, NULL, NULL, w->d, &v), ANF_INVALID);
  assert_string_equal(anf_diag_at(w->d, 0)->code, "E0201");
}

static void test_other_context(void **state) {
  world *w = *state;
  anf_ctx *other = anf_ctx_new(NULL);
  anf_graph *g = typed_identity(w->m, NULL);
  run_fails(w, g, 1, (anf_value *[]){anf_value_i64(other, 1)}, ANF_INVALID, "E0421");
  anf_ctx_free(other);
  run_fails(w, g, 1, (anf_value *[]){NULL}, ANF_INVALID, "E0002");
  anf_value *v = NULL;
  assert_int_equal(anf_run(NULL, 0, NULL, NULL, w->d, &v), ANF_INVALID);
  assert_int_equal(anf_run_value(w->cx, NULL, 0, NULL, NULL, w->d, &v), ANF_INVALID);
}

/* Parts of another module are refused when a graph is built, for a run would look them up in vain;
 * a function of one may come as an argument. */
static void test_other_module(void **state) {
  world *w = *state;
  anf_module *other = anf_module_new(w->cx);
  anf_graph *f = typed_identity(other, NULL), *g = anf_graph_new(w->m, "g");
  anf_node *x = anf_param(g, "x", NULL);
  anf_return(g, CALL(g, x, anf_int(w->m, 7)));
  anf_value *fn = anf_value_retain((anf_value *)(uintptr_t)anf_node_value(anf_graph_node(f)));
  assert_int_equal(take_i64(run(w, g, 1, (anf_value *[]){fn})), 7);
  for (int i = 0; i < 7; i++) {
    anf_module *m = anf_module_new(w->cx);
    anf_graph *h = anf_graph_new(m, "h");
    anf_node *one = anf_int(m, 1), *sum = OP(h, "Add", one, one);
    anf_return(h, sum);
    if (i == 0) assert_null(CALL(h, anf_graph_node(f), one));
    if (i == 1) assert_null(OP(h, "Neg", anf_graph_param(f, 0)));
    if (i == 2) assert_null(anf_partial(h, one, 1, NODES(x)));
    if (i == 3) assert_int_equal(anf_return(h, x), ANF_INVALID);
    if (i == 4) assert_int_equal(anf_node_set_input(sum, 1, x), ANF_INVALID);
    if (i == 5) assert_int_equal(anf_node_replace(sum, x), ANF_INVALID);
    if (i == 6) assert_null(anf_constant(m, fn));
    assert_int_equal(anf_module_status(m), ANF_INVALID);
    assert_string_equal(anf_diag_at(anf_module_diag(m), 0)->code, "E0207");
    anf_module_free(m);
  }
  anf_module_free(other);
}

static void test_kernel_error_has_callers(void **state) {
  world *w = *state;
  anf_graph *g = anf_graph_new(w->m, "g"), *f = anf_graph_new(w->m, "f");
  anf_node *x = anf_param(f, "x", NULL), *bad = OP(f, "Add", x, anf_tuple(f, 0, NULL));
  anf_node_set_loc(bad, "k.anf", 3, 3);
  anf_return(f, bad);
  anf_node *call = CALL(g, anf_graph_node(f), anf_int(w->m, 1));
  anf_node_set_loc(call, "k.anf", 8, 1);
  anf_return(g, anf_tuple(g, 1, NODES(call)));
  run_fails(w, g, 0, NULL, ANF_INVALID, "E0502");
  assert_int_equal(anf_diag_at(w->d, 0)->line, 3);
  says(w, 1, "called from g");
  assert_int_equal(anf_diag_at(w->d, 1)->line, 8);
}

int main(int argc, char **argv) {
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  const struct CMUnitTest tests[] = {
      TEST(test_attribute_from_node),
      TEST(test_arguments_are_converted),
      TEST(test_huge_unsigned),
      TEST(test_nested_arguments),
      TEST(test_symbolic_dims),
      TEST(test_types_inside),
      TEST(test_result_type_through_last_steps),
      TEST(test_any_and_functions),
      TEST(test_wrong_calls),
      TEST(test_not_from_outside),
      TEST(test_incomplete),
      TEST(test_module_in_error),
      TEST(test_other_context),
      TEST(test_other_module),
      TEST(test_kernel_error_has_callers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
