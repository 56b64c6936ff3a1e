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

/* The interpreter made the box, of which compiled code has no record. */
static void a_closure_over_a_box_is_refused(void **state) {
  world *w = *state;
  anf_module *m = NULL;
  anf_exec *call = NULL;
  anf_graph *make = parsed(w,
                           "def f(x: f64) { b = (Box((x,)), 2.0)\n"
                           "fn (y: f64) { Unbox(b[0], of=type((f64,)))[0] * y + b[1] } }",
                           &m);
  anf_value *f = run(w, make, 1, (anf_value *[]){anf_value_f64(w->cx, 3)});
  assert_int_equal(anf_compile_value(w->cx, f, NULL, w->d, &call), ANF_OK);
  exec_fails(w, call, 1, (anf_value *[]){anf_value_f64(w->cx, 5)}, "E0950");
  anf_value_release(f);
  anf_exec_free(call);
  anf_module_free(m);
}

/* Built by functions of C, and called as a value: neither may reach beyond the arguments. */
static void an_op_of_too_many_arguments_is_refused(void **state) {
  world *w = *state;
  anf_module *m = anf_module_new(w->cx);
  anf_graph *g = anf_graph_new(m, "f");
  anf_node *x = anf_param(g, "x", NULL), *add = anf_op_node(m, "Add");
  anf_node *call = anf_call(g, add, 3, (anf_node *[]){x, x, x});
  anf_node_set_loc(call, "host.c", 7, 1);
  anf_graph_set_loc(g, "host.c", 6, 1);
  anf_return(g, call);
  assert_int_equal(anf_module_status(m), ANF_OK);
  anf_exec *e = NULL;
  assert_int_equal(anf_compile(g, NULL, w->d, &e), ANF_OK);
  exec_fails(w, e, 1, (anf_value *[]){num(w, 2)}, "E0202");
  assert_int_equal(anf_diag_at(w->d, 0)->line, 7);
  anf_exec_free(e);
  assert_int_equal(
      anf_compile_value(w->cx, (anf_value *)(uintptr_t)anf_node_value(add), NULL, w->d, &e),
      ANF_OK);
  exec_fails(w, e, 3, (anf_value *[]){num(w, 2), num(w, 2), num(w, 2)}, "E0202");
  exec_fails(w, e, 0, NULL, "E0202");
  anf_exec_free(e);
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

/* The function that the host gets has an attribute that was made with code that is gone. */
static void a_pullback_outlives_what_made_it(void **state) {
  world *w = *state;
  anf_module *m = NULL;
  anf_exec *call = NULL, *e = compiled(w,
                                       "def h(a) { (a * a * a, a + 1) }\n"
                                       "def f(x: f64) { vjp(h, x, has_aux=true)[1] }",
                                       &m);
  anf_value *back = run_exec(w, e, 1, (anf_value *[]){anf_value_f64(w->cx, 2)});
  anf_value *same = run(w, anf_module_find(m, "f"), 1, (anf_value *[]){anf_value_f64(w->cx, 2)});
  anf_exec_free(e);
  assert_true(anf_value_same(back, same));
  assert_int_equal(anf_compile_value(w->cx, back, NULL, w->d, &call), ANF_OK);
  anf_value_release(back);
  anf_value_release(same);
  gives(w->cx, run_exec(w, call, 1, (anf_value *[]){anf_value_f64(w->cx, 0.5)}), "(6.0,)",
        "(f64,)");
  anf_exec_free(call);
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

static anf_value *rows(world *w, int64_t n) {
  float data[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  int64_t dims[2] = {n, 2};
  return anf_value_tensor(w->cx, ANF_F32, 2, dims, data);
}

static void explained(const anf_exec *e, world *w, const char *part, bool there) {
  anf_text t = {.cx = w->cx};
  assert_int_equal(anf_exec_explain(e, &t), ANF_OK);
  assert_int_equal(t.text && strstr(t.text, part), there);
  anf_text_free(&t);
}

static void a_symbolic_size_is_compiled_for_each_size(void **state) {
  world *w = *state;
  anf_module *m = NULL;
  anf_exec *e = compiled(w, "def f(x: f32[B, 2], y: f32[B, 2]) { Sum(x * y) }", &m);
  assert_int_equal(anf_exec_compilations(e), 0);
  gives(w->cx, run_exec(w, e, 2, (anf_value *[]){rows(w, 1), rows(w, 1)}), "5.0", "f32");
  gives(w->cx, run_exec(w, e, 2, (anf_value *[]){rows(w, 3), rows(w, 3)}), "91.0", "f32");
  gives(w->cx, run_exec(w, e, 2, (anf_value *[]){rows(w, 1), rows(w, 1)}), "5.0", "f32");
  assert_int_equal(anf_exec_compilations(e), 2);
  explained(e, w, "1. (f32[1, 2], f32[1, 2]) in ", true);
  explained(e, w, "ms: the first call\n", true);
  explained(e, w, "ms: x is f32[3, 2] and was f32[1, 2], y is f32[3, 2] and was f32[1, 2]\n", true);
  exec_fails(w, e, 2, (anf_value *[]){rows(w, 1), rows(w, 3)}, "E0511"); // B is one number
  anf_exec_free(e);
  anf_module_free(m);
}

static void what_was_dropped_is_compiled_again(void **state) {
  world *w = *state;
  anf_module *m = NULL;
  anf_exec *e = NULL;
  anf_graph *g = parsed(w, "def f(x: f32[B, 2]) { Sum(x) }", &m);
  anf_exec_opts o = {.size = sizeof o, .max_compiled = 1};
  assert_int_equal(anf_compile(g, &o, w->d, &e), ANF_OK);
  gives(w->cx, run_exec(w, e, 1, (anf_value *[]){rows(w, 1)}), "3.0", "f32");
  gives(w->cx, run_exec(w, e, 1, (anf_value *[]){rows(w, 2)}), "10.0", "f32");
  gives(w->cx, run_exec(w, e, 1, (anf_value *[]){rows(w, 1)}), "3.0", "f32");
  assert_int_equal(anf_exec_compilations(e), 3);
  anf_exec_free(e);
  anf_module_free(m);
}

static void values_are_part_of_a_program_where_sizes_depend_on_them(void **state) {
  world *w = *state;
  anf_module *m = NULL;
  anf_exec *e = compiled(w, "def f(x: f32[3, 2], a: i64, y: f32) { x[a:, 1] * y }", &m);
  for (int64_t i = 0; i < 3; i++) {
    anf_value *args[] = {rows(w, 3), anf_value_i64(w->cx, i % 2 + 1), anf_value_f32(w->cx, 2)};
    gives(w->cx, run_exec(w, e, 3, args), i % 2 ? "[12.0]" : "[8.0, 12.0]",
          i % 2 ? "f32[1]" : "f32[2]");
  }
  assert_int_equal(anf_exec_compilations(e), 2);
  explained(e, w, "2. (f32[3, 2], 2, f32) in ", true);
  explained(e, w, "ms: a is 2 and was 1\n", true);
  explained(e, w, "code is made for each value", true);
  anf_exec_free(e);
  anf_module_free(m);
}

static void values_that_no_size_depends_on_are_not(void **state) {
  world *w = *state;
  anf_module *m = NULL;
  anf_exec *e = compiled(w, "def f(x: f32[3, 2], n: i64, a: i64) { Sum(x[a:, 1]) * f32(n) }", &m);
  for (int64_t n = 0; n < 5; n++) {
    anf_value *args[] = {rows(w, 3), anf_value_i64(w->cx, n), anf_value_i64(w->cx, 2)};
    static const char *const want[] = {"0.0", "6.0", "12.0", "18.0", "24.0"};
    gives(w->cx, run_exec(w, e, 3, args), want[n], "f32");
  }
  assert_int_equal(anf_exec_compilations(e), 1);
  explained(e, w, "1. (f32[3, 2], i64, 2) in ", true);
  explained(e, w, "code is made for each value of a.\n", true);
  anf_exec_free(e);
  anf_module_free(m);
}

static void a_size_that_only_running_tells_is_refused(void **state) {
  world *w = *state;
  anf_module *m = NULL;
  anf_exec *e = compiled(w, "def f(x) { print(1); Sum(x[Cast(Sum(x), i64):]) }", &m);
  anf_value *args[] = {rows(w, 3)};
  exec_fails(w, e, 1, args, "E0953");
  explained(e, w, "value", false);
  anf_exec_free(e);
  anf_module_free(m);
}

static void strings_and_types_are_chosen(void **state) {
  world *w = *state;
  anf_module *m = NULL;
  anf_exec *e = compiled(
      w, "def f(n: i64, s: str, x) { (if n > 0 { \"more\" } else { s }, x.dtype, n) }", &m);
  for (int64_t n = 0; n < 2; n++)
    gives(w->cx,
          run_exec(w, e, 3,
                   (anf_value *[]){anf_value_i64(w->cx, n), anf_value_string(w->cx, "less", 4),
                                   rows(w, 1)}),
          n ? "(\"more\", f32, 1)" : "(\"less\", f32, 0)", "(str, type, i64)");
  assert_int_equal(anf_exec_compilations(e), 1);
  anf_exec_free(e);
  anf_module_free(m);
}

/* n statements that mix numbers of several types, branches on values, and traps; then a gradient. */
static void put_long_program(anf_text *t, int n) {
  static const char *const steps[] = {
      "  x = x * 0.75 + Sin(y)\n",      "  k = (k * 3 + 1) % 1000\n",
      "  y = Where(x > y, x - y, y)\n", "  c = k > 500\n",
      "  x = Where(c, x, x + 1)\n",     "  y = y + Cast(k, dtype=f64) * 0.001\n",
      "  k = k + 7 // (1 + k % 5)\n",   "  z = Cast(x, dtype=f32) + z * 0.5\n"};
  anfi_puts(t, "def g(x: f64, y: f64, k: i64) {\n  c = false\n  z = Cast(x, dtype=f32)\n");
  for (int i = 0; i < n; i++) anfi_puts(t, steps[(i * 5 + i / 11) % 8]);
  anfi_puts(t, "  (x, y, k, c, z)\n}\n");
}

/* Straight-line code that is cut into parts gives what it gives whole: the interpreter's bits. */
static void a_long_program_is_cut(void **state) {
  static const struct {
    int n;
    const char *f;
  } ways[] = {{1500, "g(x, y, k)"},
              {1500, "grad(fn (x, y) { r = g(x, y, k); r[0] * r[1] + r[4] }, wrt=(0, 1))(x, y)"},
              /* so long that it is not optimised, beside a loop that is */
              {9000, "r = g(x, y, k); s = r[0]; for i in 0..3 { s = s * 0.9 + x }; (s, r)"},
              /* in a loop: optimised */
              {9000, "for i in 0..2 { r = g(x, y, k); x = r[0] * 0.5 }; x"}};
  world *w = *state;
  for (size_t way = 0; way < ANFI_LEN(ways); way++) {
    anf_module *m = NULL;
    anf_text t = {.cx = w->cx}, a = {.cx = w->cx}, b = {.cx = w->cx};
    put_long_program(&t, ways[way].n);
    anfi_putf(&t, "def f(x: f64, y: f64, k: i64) { %s }", ways[way].f);
    anf_value *args[] = {anf_value_f64(w->cx, 0.3), anf_value_f64(w->cx, 1.7),
                         anf_value_i64(w->cx, 12)},
              *plain = NULL;
    anf_exec *e = compiled(w, t.text, &m);
    assert_int_equal(anf_run(anf_module_find(m, "f"), 3, args, NULL, w->d, &plain), ANF_OK);
    anf_value *fast = run_exec(w, e, 3, args);
    anf_value_print(w->cx, plain, 0, &a);
    anf_value_print(w->cx, fast, 0, &b);
    assert_string_equal(a.text, b.text);
    anf_value_release(plain);
    anf_value_release(fast);
    anf_text_free(&a);
    anf_text_free(&b);
    anf_text_free(&t);
    anf_exec_free(e);
    anf_module_free(m);
  }
}

static anf_value *matrix(world *w, int64_t rows, int64_t cols) {
  float data[64 * 800];
  for (int64_t i = 0; i < rows * cols; i++) data[i] = (float)(i * 7919 % 1013) / 256 - 2;
  return anf_value_tensor(w->cx, ANF_F32, 2, (int64_t[]){rows, cols}, data);
}

/* Weights that never change lie in the code, in the order of kernels: the same sums. */
static void a_fixed_argument_is_in_the_code(void **state) {
  world *w = *state;
  anf_module *m = NULL;
  static const char *const programs[] = {
      "def f(x, w, s) { x @ w * s }", "def f(x, w, s) { MatMul(x, w, tb=true) * s }",
      "def f(x, w, s) { Cast(Cast(x, bf16) @ Cast(w, bf16), f32) * s }",
      "def f(x, w, s) { Cast(MatMul(Cast(x, f16), Cast(w, f16), tb=true), f32) * s }"};
  for (int i = 0; i < 4; i++) {
    anf_exec *e = compiled(w, programs[i], &m);
    anf_value *x = matrix(w, 64, 800), *weights = i % 2 ? matrix(w, 45, 800) : matrix(w, 800, 45);
    anf_value *args[] = {x, weights, NULL}, *plain, *fixed;
    for (int64_t s = 1; s < 3; s++) {
      for (int k = 0; k < 2; k++) anf_value_retain(args[k]);
      args[2] = anf_value_f32(w->cx, (float)s);
      plain = run_exec(w, e, 3, args);
      assert_int_equal(anf_exec_fix(e, 1, weights, w->d), ANF_OK);
      anf_value_retain(x);
      fixed = run_exec(w, e, 3, (anf_value *[]){x, NULL, anf_value_f32(w->cx, (float)s)});
      assert_true(anf_value_same(plain, fixed));
      assert_int_equal(anf_exec_fix(e, 1, NULL, w->d), ANF_OK);
      anf_value_release(plain);
      anf_value_release(fixed);
    }
    anf_value_release(x);
    assert_int_equal(anf_exec_fix(e, 1, weights, w->d), ANF_OK);
    anf_value_release(weights); // the compiled function holds it
    assert_int_not_equal(anf_exec_fix(e, 3, NULL, w->d), ANF_OK);
    anf_exec_free(e);
    anf_module_free(m);
  }
}

static void note_floor(void *user, anf_ctx *cx, const char *stage, anf_module *m, const char *tir) {
  (void)cx, (void)m;
  if (strcmp(stage, "lowered") == 0) *(bool *)user = strstr(tir, "floor") != NULL;
}

/* Of a weight that is fixed: Floor(w), of 140800 bytes, is computed once if there is room for it. */
static void constants_are_computed_up_to_a_limit(void **state) {
  world *w = *state;
  anf_module *m = NULL;
  anf_graph *g = parsed(w, "def f(x, w) { x + Floor(w) }", &m);
  anf_value *weights = matrix(w, 44, 800), *x = matrix(w, 44, 800), *result[2];
  for (int i = 0; i < 2; i++) {
    bool in_call = false;
    anf_exec *e = NULL;
    anf_exec_opts o = {.size = sizeof o,
                       .stage = note_floor,
                       .stage_user = &in_call,
                       .fold_bytes = i ? 140799 : 140800};
    assert_int_equal(anf_compile(g, &o, w->d, &e), ANF_OK);
    assert_int_equal(anf_exec_fix(e, 1, weights, w->d), ANF_OK);
    anf_value_retain(x);
    result[i] = run_exec(w, e, 2, (anf_value *[]){x, NULL});
    assert_int_equal(in_call, i);
    anf_exec_free(e);
  }
  assert_true(anf_value_same(result[0], result[1]));
  for (int i = 0; i < 2; i++) anf_value_release(result[i]);
  anf_value_release(x);
  anf_value_release(weights);
  anf_module_free(m);
}

/* Each allocation of a run fails in turn: of values in values, some are made by then. */
static void memory_ends_in_a_nested_result(void **state) {
  world *w = *state;
  anf_module *m = NULL;
  anf_exec *e =
      compiled(w, "def f(x) { ((x + 1.0, (x, {a = x * 2.0, b = (x, \"s\", (None, x))})), x) }", &m);
  anf_value *x = num(w, 2), *v = NULL;
  assert_int_equal(anf_exec_run(e, 1, &x, NULL, w->d, &v), ANF_OK);
  anf_value_release(v);
  uint64_t k = 0;
  do {
    w->heap.refused = false;
    w->heap.countdown = ++k;
    anf_status st = anf_exec_run(e, 1, &x, NULL, w->d, &v);
    assert_int_equal(st, w->heap.refused ? ANF_NOMEM : ANF_OK);
    if (st == ANF_OK) anf_value_release(v);
  } while (w->heap.refused);
  w->heap.countdown = 0;
  assert_true(k > 8); // one for each value at least
  anf_value_release(x);
  anf_exec_free(e);
  anf_module_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(memory_ends_in_a_nested_result),
      TEST(a_signature_is_compiled_once),
      TEST(a_returned_closure_is_called),
      TEST(a_closure_over_a_box_is_refused),
      TEST(a_closure_is_an_argument),
      TEST(an_op_of_too_many_arguments_is_refused),
      TEST(a_closure_of_another_module_is_refused),
      TEST(a_pullback_outlives_what_made_it),
      TEST(a_pullback_is_called_by_the_host),
      TEST(a_trap_is_a_status),
      TEST(a_symbolic_size_is_compiled_for_each_size),
      TEST(what_was_dropped_is_compiled_again),
      TEST(values_are_part_of_a_program_where_sizes_depend_on_them),
      TEST(values_that_no_size_depends_on_are_not),
      TEST(a_size_that_only_running_tells_is_refused),
      TEST(strings_and_types_are_chosen),
      TEST(a_long_program_is_cut),
      TEST(a_fixed_argument_is_in_the_code),
      TEST(constants_are_computed_up_to_a_limit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
