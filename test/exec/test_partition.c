// SPDX-License-Identifier: Apache-2.0
/* A function whose sizes depend on data runs in two parts: the first is compiled for each shape, the result is the interpreter's. */
#include "anfora/exec.h"
#include "test/unit/program.h"

static const char text[] =
    "def f(x: f64[N, M]) { y = Sum(x * x, axis=1); k = Cast(Max(y), "
    "dtype=i64); (Zeros((k,)) + y[0], y) }\n"
    "def checked(x: f64[N, M]) { y = Sum(x * x, axis=1); assert(y[0] < 1000, \"early\"); "
    "k = Cast(Max(y), dtype=i64); z = Zeros((k,)); assert(z.size < 100, \"late\"); (z + y[0], y) "
    "}\n"
    "def sliced(x: f64[N, M]) { y = Sum(x * x, axis=1); x[Cast(y[0], dtype=i64):] }\n";

typedef struct fixture {
  anf_ctx *cx;
  anf_diag *d;
  anf_module *m;
  anf_graph *f;
  anf_exec *e;
} fixture;

static void start_with(fixture *t, const char *name) {
  t->cx = anf_ctx_new(NULL);
  t->d = anf_diag_new(t->cx);
  assert_int_equal(anf_parse(t->cx, text, "parts.anf", t->d, &t->m), ANF_OK);
  t->f = anf_module_find(t->m, name);
  assert_int_equal(anf_compile(t->f, NULL, t->d, &t->e), ANF_OK);
}

static void start(fixture *t) { start_with(t, "f"); }

static void finish(fixture *t) {
  anf_exec_free(t->e);
  anf_module_free(t->m);
  anf_diag_free(t->d);
  anf_ctx_free(t->cx);
}

static size_t warnings(const anf_diag *d) {
  size_t n = 0;
  for (size_t i = 0; i < anf_diag_count(d); i++) n += strcmp(anf_diag_at(d, i)->code, "W0908") == 0;
  return n;
}

static anf_value *matrix(fixture *t, int64_t rows, double x) {
  double a[64];
  for (int64_t i = 0; i < 2 * rows; i++) a[i] = x + (double)i;
  return anf_value_tensor(t->cx, ANF_F64, 2, (int64_t[]){rows, 2}, a);
}

static void as_interpreted(fixture *t, int64_t rows, double x) {
  anf_value *in = matrix(t, rows, x), *got = NULL, *want = NULL;
  assert_int_equal(anf_exec_run(t->e, 1, &in, NULL, t->d, &got), ANF_OK);
  assert_int_equal(anf_run(t->f, 1, &in, NULL, t->d, &want), ANF_OK);
  assert_true(anf_value_same(got, want));
  anf_value_release(got), anf_value_release(want), anf_value_release(in);
}

static void runs_in_two_parts(void **state) {
  (void)state;
  fixture t;
  start(&t);
  as_interpreted(&t, 3, 0);
  as_interpreted(&t, 3, -4); // another size of the result, the same code
  assert_int_equal(anf_exec_compilations(t.e), 1);
  as_interpreted(&t, 8, 0.5);
  assert_int_equal(anf_exec_compilations(t.e), 2);
  assert_int_equal(warnings(t.d), 1);
  assert_null(anf_exec_function(t.e));
  assert_int_equal(anf_type_count(anf_exec_result_type(t.e)), 2);
  anf_text out = {0};
  assert_int_equal(anf_exec_explain(t.e, &out), ANF_OK);
  assert_non_null(strstr(out.text, "Sizes depend on data"));
  anf_text_free(&out);
  finish(&t);
}

/* A check is in the part that computes what it looks at. */
static void slices_by_data(void **state) {
  (void)state;
  fixture t;
  start_with(&t, "sliced");
  as_interpreted(&t, 8, 0); // from row 1
  as_interpreted(&t, 8, 1); // from row 5
  assert_int_equal(anf_exec_compilations(t.e), 1);
  assert_int_equal(warnings(t.d), 1);
  finish(&t);
}

static void checks_in_both_parts(void **state) {
  (void)state;
  fixture t;
  start_with(&t, "checked");
  as_interpreted(&t, 3, 0);
  assert_int_equal(warnings(t.d), 1);
  static const struct {
    double x;
    const char *said;
  } fails[] = {{40, "early"}, {9, "late"}};
  for (int i = 0; i < 2; i++) {
    anf_value *in = matrix(&t, 3, fails[i].x), *got = NULL;
    assert_int_equal(anf_exec_run(t.e, 1, &in, NULL, t.d, &got),
                     anf_run(t.f, 1, &in, NULL, t.d, &got));
    const anf_diag_item *last = anf_diag_at(t.d, anf_diag_count(t.d) - 2);
    assert_non_null(strstr(last->message, fails[i].said));
    anf_value_release(in);
  }
  finish(&t);
}

/* The size that a value decides is part of the code; other values are data. */
static void compiles_the_rest_for_sizes_that_come_again(void **state) {
  (void)state;
  fixture t;
  start(&t);
  for (int i = 0; i < 2; i++) as_interpreted(&t, 3, 0);
  assert_int_equal(anf_exec_compilations(t.e), 1);
  as_interpreted(&t, 3, 0);
  assert_int_equal(anf_exec_compilations(t.e), 2);
  as_interpreted(&t, 3, 0.01); // as many elements, other numbers
  assert_int_equal(anf_exec_compilations(t.e), 2);
  for (int i = 1; i < 9; i++) as_interpreted(&t, 3, i); // sizes that come once
  assert_int_equal(anf_exec_compilations(t.e), 2);
  as_interpreted(&t, 3, 0);
  as_interpreted(&t, 3, 8);
  as_interpreted(&t, 3, 8);
  assert_int_equal(anf_exec_compilations(t.e), 3);
  anf_text out = {0};
  assert_int_equal(anf_exec_explain(t.e, &out), ANF_OK);
  assert_non_null(strstr(out.text, "so far 2 of 9"));
  anf_text_free(&out);
  finish(&t);
}

static void fixed_argument(void **state) {
  (void)state;
  fixture t;
  start(&t);
  anf_value *in = matrix(&t, 3, 1), *none = NULL, *got = NULL, *want = NULL;
  assert_int_equal(anf_exec_fix(t.e, 0, in, t.d), ANF_OK);
  assert_int_equal(anf_exec_run(t.e, 1, &none, NULL, t.d, &got), ANF_OK);
  assert_int_equal(anf_run(t.f, 1, &in, NULL, t.d, &want), ANF_OK);
  assert_true(anf_value_same(got, want));
  anf_value_release(got), anf_value_release(want), anf_value_release(in);
  finish(&t);
}

static void refuses_buffers_and_counts_arguments(void **state) {
  (void)state;
  fixture t;
  start(&t);
  anf_value *in = matrix(&t, 3, 1), *got = NULL;
  double room[16];
  anf_array out[2] = {{.dtype = ANF_F64, .rank = 1, .data = room},
                      {.dtype = ANF_F64, .rank = 1, .data = room}};
  assert_int_equal(anf_exec_run_into(t.e, 1, &in, 2, out, NULL, t.d), ANF_UNSUPPORTED);
  assert_string_equal(anf_diag_at(t.d, anf_diag_count(t.d) - 1)->code, "E0956");
  assert_int_equal(anf_exec_run(t.e, 0, NULL, NULL, t.d, &got), ANF_INVALID);
  assert_string_equal(anf_diag_at(t.d, anf_diag_count(t.d) - 1)->code, "E0510");
  anf_value_release(in);
  finish(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(runs_in_two_parts),
      cmocka_unit_test(slices_by_data),
      cmocka_unit_test(checks_in_both_parts),
      cmocka_unit_test(compiles_the_rest_for_sizes_that_come_again),
      cmocka_unit_test(fixed_argument),
      cmocka_unit_test(refuses_buffers_and_counts_arguments),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
