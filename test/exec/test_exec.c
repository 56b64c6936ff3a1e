// SPDX-License-Identifier: Apache-2.0
/* Compiled functions from a host: one compilation for each signature, functions as arguments and as
 * results, what stops a run, and what cannot be handed over. */
#include "test/unit/program.h"

static anf_graph *parsed(world *w, const char *text, anf_module **m) {
  anf_status st = anf_parse(w->cx, text, "t.anf", w->d, m);
  if (st != ANF_OK) anf_diag_print(w->d, stderr, false);
  assert_int_equal(st, ANF_OK);
  return anf_module_find(*m, "f");
}

static anf_exec *compiled(world *w, const char *text, anf_module **m) {
  anf_exec *e = NULL;
  assert_int_equal(anf_compile(parsed(w, text, m), NULL, w->d, &e), ANF_OK);
  return e;
}

static anf_value *run_exec(world *w, anf_exec *e, size_t n, anf_value **args) {
  anf_value *v = NULL;
  anf_status st = anf_exec_run(e, n, args, NULL, w->d, &v);
  if (st != ANF_OK) anf_diag_print(w->d, stderr, false);
  assert_int_equal(st, ANF_OK);
  for (size_t i = 0; i < n; i++) anf_value_release(args[i]);
  return v;
}

static void exec_fails(world *w, anf_exec *e, size_t n, anf_value **args, const char *code) {
  anf_value *v = NULL;
  anf_diag_clear(w->d);
  assert_int_not_equal(anf_exec_run(e, n, args, NULL, w->d, &v), ANF_OK);
  assert_null(v);
  assert_true(anf_diag_count(w->d) > 0);
  assert_string_equal(anf_diag_at(w->d, 0)->code, code);
  for (size_t i = 0; i < n; i++) anf_value_release(args[i]);
}

static void a_signature_is_compiled_once(void **state) {
  world *w = *state;
  anf_module *m = NULL;
  anf_exec *e = compiled(w, "def f(x, y) { x * y + 1 }", &m);
  for (int64_t i = 0; i < 3; i++)
    gives(w->cx, run_exec(w, e, 2, (anf_value *[]){anf_value_i64(w->cx, i), num(w, 2)}),
          i == 0   ? "1"
          : i == 1 ? "3"
                   : "5",
          "i64");
  assert_int_equal(anf_exec_compilations(e), 1);
  anf_value *floats[] = {anf_value_f64(w->cx, 0.25), anf_value_f64(w->cx, 2)};
  gives(w->cx, run_exec(w, e, 2, floats), "1.5", "f64");
  assert_int_equal(anf_exec_compilations(e), 2);
  anf_exec_free(e);
  anf_module_free(m);
}

static void a_returned_closure_is_called(void **state) {
  world *w = *state;
  anf_module *m = NULL;
  anf_exec *make = compiled(w, "def f(a: i64) { fn (b: i64) { a * b } }", &m), *call = NULL;
  anf_value *closure = run_exec(w, make, 1, (anf_value *[]){anf_value_i64(w->cx, 6)});
  assert_int_equal(anf_value_get_kind(closure), ANF_VALUE_FN);
  assert_int_equal(anf_compile_value(w->cx, closure, NULL, w->d, &call), ANF_OK);
  anf_value_release(closure); // the compiled function holds what it needs
  gives(w->cx, run_exec(w, call, 1, (anf_value *[]){anf_value_i64(w->cx, 7)}), "42", "i64");
  anf_exec_free(call);
  anf_exec_free(make);
  anf_module_free(m);
}

static void a_closure_is_an_argument(void **state) {
  world *w = *state;
  anf_module *m = NULL;
  anf_exec *e = compiled(w,
                         "def make(a: i64) { fn (b: i64) { a - b } }\n"
                         "def f(g, x: i64) { g(g(x)) }",
                         &m);
  anf_value *g = run(w, anf_module_find(m, "make"), 1, (anf_value *[]){anf_value_i64(w->cx, 10)});
  gives(w->cx, run_exec(w, e, 2, (anf_value *[]){g, anf_value_i64(w->cx, 4)}), "4", "i64");
  anf_exec_free(e);
  anf_module_free(m);
}

static void a_closure_of_another_module_is_refused(void **state) {
  world *w = *state;
  anf_module *m = NULL, *other = NULL;
  anf_exec *e = compiled(w, "def f(g, x: i64) { g(x) }", &m);
  anf_graph *h = parsed(w, "def f(a: i64) { fn (b: i64) { a - b } }", &other);
  anf_value *g = run(w, h, 1, (anf_value *[]){anf_value_i64(w->cx, 10)});
  exec_fails(w, e, 2, (anf_value *[]){g, anf_value_i64(w->cx, 4)}, "E0955");
  anf_exec_free(e);
  anf_module_free(other);
  anf_module_free(m);
}

static void a_pullback_is_called_by_the_host(void **state) {
  world *w = *state;
  anf_module *m = NULL;
  anf_exec *e = compiled(w, "def f(x: f64) { vjp(fn (a) { a * a * a }, x)[1] }", &m), *call = NULL;
  anf_value *back = run_exec(w, e, 1, (anf_value *[]){anf_value_f64(w->cx, 2)});
  anf_value *same = run(w, anf_module_find(m, "f"), 1, (anf_value *[]){anf_value_f64(w->cx, 2)});
  assert_true(anf_value_same(back, same));
  assert_int_equal(anf_compile_value(w->cx, back, NULL, w->d, &call), ANF_OK);
  anf_value_release(back);
  anf_value_release(same);
  gives(w->cx, run_exec(w, call, 1, (anf_value *[]){anf_value_f64(w->cx, 0.5)}), "(6.0,)",
        "(f64,)");
  anf_exec_free(call);
  anf_exec_free(e);
  anf_module_free(m);
}

static void a_trap_is_a_status(void **state) {
  world *w = *state;
  anf_module *m = NULL;
  anf_exec *e = compiled(w, "def f(x: i64) { 7 // x }", &m);
  exec_fails(w, e, 1, (anf_value *[]){anf_value_i64(w->cx, 0)}, "E0401");
  assert_int_equal(anf_diag_at(w->d, 0)->line, 1);
  gives(w->cx, run_exec(w, e, 1, (anf_value *[]){anf_value_i64(w->cx, 2)}), "3", "i64");
  anf_exec_free(e);
  anf_module_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_signature_is_compiled_once),     TEST(a_returned_closure_is_called),
      TEST(a_closure_is_an_argument),         TEST(a_closure_of_another_module_is_refused),
      TEST(a_pullback_is_called_by_the_host), TEST(a_trap_is_a_status),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
