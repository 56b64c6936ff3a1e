// SPDX-License-Identifier: Apache-2.0
/* The C interface as a host meets it: what it says of misuse. (test/misuse calls every function wrongly.) */
#include "test/unit/program.h"

#include <math.h>

#include "anfora/tir.h"

static const char PROGRAM[] =
    "def fibonacci(n: i64) { if n < 2 { n } else { fibonacci(n - 1) + fibonacci(n - 2) } }\n";

static anf_module *program(world *w) {
  anf_module *m = NULL;
  assert_int_equal(anf_parse(w->cx, PROGRAM, "api.anf", w->d, &m), ANF_OK);
  return m;
}

static void expect(const anf_diag *d, const char *code, const char *message, const char *hint) {
  assert_true(anf_diag_count(d) > 0);
  const anf_diag_item *it = anf_diag_at(d, anf_diag_count(d) - 1);
  assert_string_equal(it->code, code);
  assert_string_equal(it->message, message);
  assert_string_equal(it->hint, hint);
}

/* A function that is not there: the look-up says so, and so does who gets its NULL. */
static void mistyped_name(void **state) {
  world *w = *state;
  anf_module *m = program(w);
  anf_exec *e = NULL;
  anf_graph *g = anf_module_find(m, "fibonaci");
  assert_null(g);
  expect(anf_ctx_diag(w->cx), "E0006", "there is no function named 'fibonaci'",
         "did you mean 'fibonacci'?");
  assert_int_equal(anf_compile(g, NULL, w->d, &e), ANF_INVALID);
  expect(w->d, "E0002", "anf_compile: 'g' must not be NULL",
         "there is no function named 'fibonaci'; did you mean 'fibonacci'?");
  assert_null(anf_op(anf_module_graph(m, 0), "Mull", 0, NULL));
  expect(anf_module_diag(m), "E0201", "there is no op 'Mull'", "did you mean 'Mul'?");
  anf_module_free(m);
}

/* Functions without a list of their own say in the context's why they gave NULL; the next such call begins it anew. */
static void own_findings(void **state) {
  world *w = *state;
  anf_type_print(w->cx, anf_type_scalar(w->cx, ANF_F32), NULL);
  expect(anf_ctx_diag(w->cx), "E0002", "anf_type_print: 'out' must not be NULL", "");
  anf_tir_module *m = anf_tir_module_new(w->cx);
  assert_null(anf_tir_make_not(m, NULL));
  expect(anf_ctx_diag(w->cx), "E0005",
         "anf_tir_make_not: an argument is NULL, out of range or of a wrong kind", "");
  assert_int_equal(anf_diag_count(anf_ctx_diag(w->cx)), 1);
  anf_tir_module_free(m);
}

/* A node that is NULL without a failure before it is the first failure of its module. */
static void missing_node(void **state) {
  world *w = *state;
  anf_graph *g = anf_graph_new(w->m, "f");
  assert_null(OP(g, "Neg", anf_graph_param(g, 0)));
  assert_int_equal(anf_module_status(w->m), ANF_INVALID);
  expect(anf_module_diag(w->m), "E0002", "anf_op: 'args[0]' must not be NULL", "");
}

/* What is no tensor has no elements, and no element type. */
static void wrong_kind(void **state) {
  world *w = *state;
  anf_value *v = anf_value_string(w->cx, "abc", 3), *x = anf_value_f64(w->cx, 2);
  assert_int_equal(anf_value_dtype(v), ANF_DTYPE_COUNT);
  assert_true(isnan(anf_value_get_f64(v, 0)) && isnan(anf_value_get_f64(x, 1)));
  assert_null(anf_value_data(v));
  anf_value_release(v);
  anf_value_release(x);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(mistyped_name, setup, teardown),
      cmocka_unit_test_setup_teardown(own_findings, setup, teardown),
      cmocka_unit_test_setup_teardown(missing_node, setup, teardown),
      cmocka_unit_test_setup_teardown(wrong_kind, setup, teardown),
  };
  return cmocka_run_group_tests_name("api", tests, NULL, NULL);
}
