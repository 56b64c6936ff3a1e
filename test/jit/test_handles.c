// SPDX-License-Identifier: Apache-2.0
/* Compiled graphs as hosts use them: closures that a call returned are handles, called by the host,
 * given to other functions and released; C functions of natural signature; calls of compiled Tensor IR
 * with values. Results by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "anfora/anfora.h"
#include "anfora/tir.h"

static const char text[] =
    "def line(a: f64, b: i64) { fn (x) { x * a + b } }\n"
    "def twice(f, x) { f(f(x)) }\n"
    "def choose(c: bool, a: f64) { if c { fn (x) { x + a } } else { fn (x) { x * a } } }\n"
    "def pair(a: i64) { (line(2.0, a), a) }\n"
    "def slope(a: f64) { grad(fn (y) { y * y * a }) }\n"
    "def poly(x: f64, n: i64) -> f64 { if n == 0 { 1.0 } else { x * poly(x, n - 1) } }\n";

typedef struct world {
  anf_ctx *cx;
  anf_diag *d;
  anf_module *m;
  anf_exec_opts o;
} world;

static world begin(anf_jit_kind k) {
  world w = {.cx = anf_ctx_new(NULL), .o = {.size = sizeof w.o, .kind = k}};
  w.d = anf_diag_new(w.cx);
  assert_int_equal(anf_parse(w.cx, text, "test.anf", w.d, &w.m), ANF_OK);
  return w;
}
static void end(world *w) {
  anf_module_free(w->m);
  anf_diag_free(w->d);
  anf_ctx_free(w->cx);
}

static anf_status run(world *w, const char *name, size_t n, anf_value **args, anf_value **out) {
  anf_exec *e = NULL;
  *out = NULL;
  anf_status st = anf_compile(anf_module_find(w->m, name), &w->o, w->d, &e);
  if (st == ANF_OK) st = anf_exec_run(e, n, args, NULL, w->d, out);
  anf_exec_free(e); // the result does not need it
  for (size_t i = 0; i < n; i++) anf_value_release(args[i]);
  return st;
}
static anf_value *good(world *w, const char *name, size_t n, anf_value **args) {
  anf_value *v = NULL;
  anf_status st = run(w, name, n, args, &v);
  if (st != ANF_OK) anf_diag_print(w->d, stderr, false);
  assert_int_equal(st, ANF_OK);
  return v;
}
static double number(const anf_value *v) { return anf_value_get_f64(v, 0); }

/* The host calls the handle, compiled. */
static double call(world *w, anf_value *f, double x) {
  anf_exec *e = NULL;
  anf_value *arg = anf_value_f64(w->cx, x), *r = NULL;
  assert_int_equal(anf_value_get_kind(f), ANF_VALUE_FN);
  assert_int_equal(anf_compile_value(w->cx, f, &w->o, w->d, &e), ANF_OK);
  anf_status st = anf_exec_run(e, 1, &arg, NULL, w->d, &r);
  if (st != ANF_OK) anf_diag_print(w->d, stderr, false);
  assert_int_equal(st, ANF_OK);
  double y = number(r);
  anf_value_release(arg);
  anf_value_release(r);
  anf_exec_free(e);
  return y;
}

static const anf_jit_kind kinds[] = {ANF_JIT_LLVM, ANF_JIT_CJIT, ANF_JIT_INTERP};
enum { KINDS = 3 };

static void returned_closures(void **state) {
  (void)state;
  for (int k = 0; k < KINDS; k++) {
    world w = begin(kinds[k]);
    anf_value *f =
        good(&w, "line", 2, (anf_value *[]){anf_value_f64(w.cx, 3), anf_value_i64(w.cx, 4)});
    assert_true(call(&w, f, 10) == 34);
    assert_true(call(&w, f, -1) == 1);
    anf_value *r =
        good(&w, "twice", 2, (anf_value *[]){anf_value_retain(f), anf_value_f64(w.cx, 1)});
    assert_true(number(r) == 25); // 3 * (3 * 1 + 4) + 4
    anf_value_release(r);
    anf_value_release(f);
    for (int c = 0; c < 2; c++) {
      f = good(&w, "choose", 2, (anf_value *[]){anf_value_bool(w.cx, c), anf_value_f64(w.cx, 5)});
      assert_true(call(&w, f, 2) == (c ? 7 : 10));
      anf_value_release(f);
    }
    f = good(&w, "slope", 1, (anf_value *[]){anf_value_f64(w.cx, 3)}); // of 3 y^2
    assert_true(call(&w, f, 2) == 12);
    anf_value_release(f);
    r = good(&w, "pair", 1, (anf_value *[]){anf_value_i64(w.cx, 9)});
    assert_true(call(&w, anf_value_at(r, 0), 1) == 11);
    anf_value_release(r);
    end(&w);
  }
}

static void refused(void **state) {
  (void)state;
  world w = begin(ANF_JIT_LLVM);
  anf_value *r = NULL;
  anf_module *other = NULL;
  assert_int_equal(
      anf_parse(w.cx, "def line(a: f64) { fn (x) { x - a } }", "other.anf", w.d, &other), ANF_OK);
  anf_exec *e = NULL;
  anf_value *one = anf_value_f64(w.cx, 1), *f = NULL;
  assert_int_equal(anf_compile(anf_module_find(other, "line"), &w.o, w.d, &e), ANF_OK);
  assert_int_equal(anf_exec_run(e, 1, &one, NULL, w.d, &f), ANF_OK);
  anf_exec_free(e);
  assert_int_equal(run(&w, "twice", 2, (anf_value *[]){f, one}, &r), ANF_UNSUPPORTED);
  assert_string_equal(anf_diag_at(w.d, 0)->code, "E0955");
  anf_module_free(other);
  end(&w);
}

static void natural_pointer(void **state) {
  (void)state;
  for (int k = 0; k < 2; k++) {
    world w = begin(kinds[k]);
    anf_exec *e = NULL;
    assert_int_equal(anf_compile(anf_module_find(w.m, "poly"), &w.o, w.d, &e), ANF_OK);
    double (*poly)(double, int64_t) = NULL;
    void *p = anf_exec_pointer(e);
    assert_non_null(p);
    memcpy(&poly, &p, sizeof poly);
    assert_true(poly(2, 10) == 1024 && poly(-3, 3) == -27);
    anf_exec_free(e);
    end(&w);
  }
}

/* ---- Tensor IR with values ---- */

static const char scale_text[] = "func scale(A: [f32 * 3], k: f32, B: [f32 * 3]): s64 {\n"
                                 "  for i in (0UL, 3UL, 1UL) {\n"
                                 "    B[i] = (A[i] * k)\n"
                                 "  }\n"
                                 "  return (7s64 / s64(k))\n"
                                 "}\n";

static void tir_values(void **state) {
  (void)state;
  for (int k = 0; k < KINDS; k++) {
    world w = begin(kinds[k]);
    anf_tir_module *t = NULL;
    anf_jit_engine *e = NULL;
    anf_jit_function *f = NULL;
    assert_int_equal(anf_tir_parse(w.cx, scale_text, strlen(scale_text), "t.tir", w.d, &t), ANF_OK);
    assert_int_equal(anf_jit_engine_new(w.cx, kinds[k], NULL, w.d, &e), ANF_OK);
    assert_int_equal(anf_jit_get_entry_func(e, t, w.d, &f), ANF_OK);
    const float a[3] = {1, 2, -4}, zero[3] = {0, 0, 0};
    int64_t dim = 3;
    anf_value *in[3] = {anf_value_tensor(w.cx, ANF_F32, 1, &dim, a), anf_value_f32(w.cx, 2),
                        anf_value_tensor(w.cx, ANF_F32, 1, &dim, zero)},
              *r = NULL, *outs[3] = {NULL};
    assert_int_equal(anf_jit_call_values(f, t, NULL, 3, in, w.d, &r, outs), ANF_OK);
    int64_t got;
    memcpy(&got, anf_value_data(r), sizeof got);
    assert_int_equal(got, 3);
    const float *b = (const float *)anf_value_data(outs[2]);
    assert_true(b[0] == 2 && b[1] == 4 && b[2] == -8);
    assert_true(((const float *)anf_value_data(in[2]))[0] == 0); // arguments stay as they are
    anf_value_release(r);
    for (int i = 0; i < 3; i++) anf_value_release(outs[i]);
    anf_value_release(in[1]);
    in[1] = anf_value_f32(w.cx, 0.5f); // 7 / 0
    assert_int_equal(anf_jit_call_values(f, t, NULL, 3, in, w.d, &r, outs), ANF_INVALID);
    assert_string_equal(anf_diag_at(w.d, 0)->code, "E0858");
    assert_null(r);
    anf_diag_clear(w.d);
    assert_int_equal(anf_jit_call_values(f, t, NULL, 2, in, w.d, &r, outs), ANF_INVALID);
    for (int i = 0; i < 3; i++) anf_value_release(in[i]);
    anf_jit_function_free(f);
    anf_jit_engine_free(e);
    anf_tir_module_free(t);
    end(&w);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(returned_closures), cmocka_unit_test(refused),
                                     cmocka_unit_test(natural_pointer),
                                     cmocka_unit_test(tir_values)};
  return cmocka_run_group_tests_name("handles", tests, NULL, NULL);
}
