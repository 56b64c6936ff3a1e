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
  assert_int_equal(anf_exec_run(e, 0, NULL, NULL, w->d, NULL),
                   ANF_INVALID); // not that name's fault
  assert_string_equal(anf_diag_at(w->d, anf_diag_count(w->d) - 1)->hint, "");
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

static void knows_why(world *w, anf_status st) {
  assert_int_equal(st, ANF_INVALID);
  const anf_diag_item *it = anf_diag_at(w->d, 0);
  assert_non_null(it);
  assert_string_equal(it->code, "E0201");
  assert_string_equal(it->message, "there is no op 'Mull'");
  assert_string_equal(it->hint, "did you mean 'Mul'?");
  anf_diag_clear(w->d);
}

/* Whoever is given a module that was not built to the end says what went wrong while it was built. */
static void unbuilt_module(void **state) {
  world *w = *state;
  const anf_type *t = anf_type_scalar(w->cx, ANF_F64);
  anf_graph *g = anf_graph_new(w->m, "f"), *other = NULL;
  anf_node *x = anf_param(g, "x", t);
  anf_return(g, OP(g, "Mull", x, x));
  anf_exec *e = NULL;
  anf_value *one = anf_value_f64(w->cx, 1), *v = NULL;
  anf_text out[ANF_BUILD_FORM_COUNT] = {{.cx = w->cx}};
  knows_why(w, anf_verify(w->m, w->d));
  knows_why(w, anf_compile(g, NULL, w->d, &e));
  knows_why(w, anf_run(g, 1, &one, NULL, w->d, &v));
  knows_why(w, anf_optimise(w->m, "standard", NULL, w->d));
  knows_why(w, anf_specialise(w->m, g, 1, &t, w->d, &other));
  knows_why(w, anf_grad(g, NULL, w->d, &other));
  knows_why(w, anf_jvp(g, NULL, w->d, &other));
  knows_why(w, anf_vmap(g, NULL, w->d, &other));
  knows_why(w, anf_build_graph(g, 1, &t, 1u << ANF_BUILD_HEADER, NULL, w->d, out));
  anf_step *s = NULL;
  knows_why(w, anf_step_new(g, 1, 1, &one, NULL, w->d, &s));
  assert_true(!e && !v && !other && !s);
  anf_value_release(one);
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

/* sum of 0 .. n - 1, {sum, parity}: a loop, a choice and a record without a line of text. */
static void composed(void **state) {
  world *w = *state;
  anf_module *m = w->m;
  anf_graph *g = anf_graph_new(m, "f"), *cond = anf_graph_new(m, "cond"),
            *body = anf_graph_new(m, "body");
  anf_graph *even = anf_graph_new(m, "even"), *odd = anf_graph_new(m, "odd");
  anf_node *n = anf_param(g, "n", anf_type_scalar(w->cx, ANF_I64)), *i[2], *s[2];
  for (int k = 0; k < 2; k++)
    i[k] = anf_param(k ? body : cond, "i", NULL), s[k] = anf_param(k ? body : cond, "s", NULL);
  anf_return(cond, ANF_APPLY(cond, "Less", i[0], n));
  anf_return(body, anf_tuple(body, ANF_NODES(ANF_APPLY(body, "Add", i[1], anf_int(m, 1)),
                                             ANF_APPLY(body, "Add", s[1], i[1]))));
  anf_node *zero = anf_constant(m, anf_value_i64(w->cx, 0));
  anf_value_release((anf_value *)(uintptr_t)anf_node_value(zero)); // the node has one of its own
  anf_node *sum = anf_tuple_get(g, anf_while(g, ANF_NODES(zero, zero), cond, body), 1);
  anf_return(even, anf_int(m, 0));
  anf_return(odd, anf_int(m, 1));
  anf_node *is_odd = ANF_APPLY(g, "Equal", ANF_APPLY(g, "Mod", sum, anf_int(m, 2)), anf_int(m, 1));
  const char *names[] = {"sum", "parity"};
  anf_node *both = anf_record(g, 2, names, (anf_node *[]){sum, anf_if(g, is_odd, odd, even)});
  anf_return(g,
             anf_record(g, 2, names,
                        (anf_node *[]){anf_field(g, both, "sum"), anf_field(g, both, "parity")}));
  assert_int_equal(anf_module_status(m), ANF_OK);
  assert_int_equal(anf_verify(m, w->d), ANF_OK);
  anf_value *ten = anf_value_i64(w->cx, 10), *v = NULL;
  assert_int_equal(anf_run(g, 1, &ten, NULL, w->d, &v), ANF_OK);
  assert_int_equal(anf_value_get_i64(anf_value_field(v, "sum"), 0), 45);
  assert_int_equal(anf_value_get_i64(anf_value_field(v, "parity"), 0), 1);
  assert_null(anf_value_field(v, "sun"));
  expect(anf_ctx_diag(w->cx), "E0006", "there is no field named 'sun'", "did you mean 'sum'?");
  anf_value_release(v);
  anf_value_release(ten);
}

static void scalars(void **state) {
  world *w = *state;
  anf_ctx *cx = w->cx;
  anf_value *v[] = {anf_value_i8(cx, -8),    anf_value_i16(cx, -16),   anf_value_i32(cx, -32),
                    anf_value_u8(cx, 8),     anf_value_u16(cx, 16),    anf_value_u32(cx, 32),
                    anf_value_u64(cx, 64),   anf_value_f16(cx, 1.5),   anf_value_bf16(cx, 0.5),
                    anf_value_c64(cx, 1, 2), anf_value_c128(cx, 3, 4), anf_value_key(cx, 5)};
  static const anf_dtype types[] = {ANF_I8,  ANF_I16, ANF_I32,  ANF_U8,  ANF_U16,  ANF_U32,
                                    ANF_U64, ANF_F16, ANF_BF16, ANF_C64, ANF_C128, ANF_KEY};
  static const double reals[] = {-8, -16, -32, 8, 16, 32, 64, 1.5, 0.5, 1, 3, 5};
  for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
    assert_int_equal(anf_value_dtype(v[i]), types[i]);
    assert_true(anf_value_get_f64(v[i], 0) == reals[i]);
    anf_value_release(v[i]);
  }
}

static void ops(void **state) {
  world *w = *state;
  size_t n = anf_op_count();
  assert_non_null(anf_op_name(n - 1));
  assert_null(anf_op_name(n));
  anf_op_info info = ANF_INIT(anf_op_info);
  assert_true(anf_op_describe(w->cx, "MatMul", &info));
  assert_string_equal(info.name, "MatMul");
  assert_true(info.differentiable && info.doc[0] && info.inputs[0]);
  assert_false(anf_op_describe(w->cx, "MatMull", &info));
  expect(anf_ctx_diag(w->cx), "E0006", "there is no op named 'MatMull'", "did you mean 'MatMul'?");
}

/* A record of a number and a tensor, written where the host wants it; and what does not fit. */
static void into_buffers(void **state) {
  world *w = *state;
  anf_module *m = NULL;
  anf_exec *e = NULL;
  anf_exec_opts o = {.kind = ANF_JIT_INTERP};
  const char *text = "def f(x: f64[3]) { (Sum(x), {twice = 2.0 * x, n = 7}) }";
  assert_int_equal(anf_parse(w->cx, text, "into.anf", w->d, &m), ANF_OK);
  assert_int_equal(anf_compile(anf_module_find(m, "f"), &o, w->d, &e), ANF_OK);
  int64_t three = 3, n = 0;
  double sum = 0, twice[3] = {0};
  anf_value *x = anf_value_tensor(w->cx, ANF_F64, 1, &three, (double[]){1, 2, 4});
  anf_array out[] = {{.dtype = ANF_F64, .data = &sum},
                     {.dtype = ANF_F64, .rank = 1, .dims = &three, .data = twice},
                     {.dtype = ANF_I64, .data = &n}};
  assert_int_equal(anf_exec_run_into(e, 1, &x, 3, out, NULL, w->d), ANF_OK);
  assert_true(sum == 7 && twice[0] == 2 && twice[1] == 4 && twice[2] == 8 && n == 7);
  assert_int_equal(anf_exec_run_into(e, 1, &x, 2, out, NULL, w->d), ANF_INVALID);
  expect(w->d, "E0423", "buffer 2 does not fit the result: there is not one for each leaf", "");
  out[1].data = (char *)twice + 1;
  assert_int_equal(anf_exec_run_into(e, 1, &x, 3, out, NULL, w->d), ANF_INVALID);
  expect(w->d, "E0423", "buffer 1 does not fit the result: it is not aligned", "");
  out[1].dtype = ANF_F32;
  assert_int_equal(anf_exec_run_into(e, 1, &x, 3, out, NULL, w->d), ANF_INVALID);
  expect(w->d, "E0423", "buffer 1 does not fit the result: it has another element type", "");
  out[1] = (anf_array){
      .dtype = ANF_F64, .rank = 1, .dims = &three, .data = (void *)(uintptr_t)anf_value_data(x)};
  assert_int_equal(anf_exec_run_into(e, 1, &x, 3, out, NULL, w->d), ANF_INVALID);
  expect(w->d, "E0423", "buffer 1 does not fit the result: it shares memory with an argument", "");
  out[1].data = twice;
  out[0].data = &twice[2];
  assert_int_equal(anf_exec_run_into(e, 1, &x, 3, out, NULL, w->d), ANF_INVALID);
  expect(w->d, "E0423", "buffer 0 does not fit the result: it shares memory with another", "");
  anf_value_release(x);
  anf_exec_free(e);
  anf_module_free(m);
}

static void versions(void **state) {
  char text[40];
  (void)state;
  snprintf(text, sizeof text, "%d.%d.%d", ANF_VERSION_MAJOR, ANF_VERSION_MINOR, ANF_VERSION_PATCH);
  assert_string_equal(text, anf_version());
  assert_int_equal(anf_abi_version(), ANF_ABI_VERSION);
  assert_non_null(strstr(anf_build_info(), text));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(mistyped_name, setup, teardown),
      cmocka_unit_test_setup_teardown(own_findings, setup, teardown),
      cmocka_unit_test_setup_teardown(missing_node, setup, teardown),
      cmocka_unit_test_setup_teardown(unbuilt_module, setup, teardown),
      cmocka_unit_test_setup_teardown(wrong_kind, setup, teardown),
      cmocka_unit_test_setup_teardown(composed, setup, teardown),
      cmocka_unit_test_setup_teardown(scalars, setup, teardown),
      cmocka_unit_test_setup_teardown(ops, setup, teardown),
      cmocka_unit_test_setup_teardown(into_buffers, setup, teardown),
      cmocka_unit_test(versions),
  };
  return cmocka_run_group_tests_name("api", tests, NULL, NULL);
}
