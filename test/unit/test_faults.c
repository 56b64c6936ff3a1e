// SPDX-License-Identifier: Apache-2.0
/* The fault loop over the public interface: whatever allocation fails, every entry says ANF_NOMEM,
 * the context stays fit for the same work, and nothing leaks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "anfora/anfora.h"

#include "fault.h"

/* Every construct of the language, small. */
static const char program[] =
    "def fibonacci(n: i64) -> i64 {\n"
    "  if n < 1 { 0 } else if n == 1 { 1 } else { fibonacci(n - 1) + fibonacci(n - 2) }\n"
    "}\n"
    "def outer(a, b) { fn (c) { a + b + c } }\n"
    "def closures() { f = outer(1, 2); (f(1), f(2)) }\n"
    "def power(x: f32, n: i64) { acc = 1.0; while n > 0 { acc = acc * x; n = n - 1 }; acc }\n"
    "def tensors(x: f64[2, 3]) { Sum(Relu(x) * 2.0 + f32[3]([1.0, 2.0, 3.0]), axis=1) }\n"
    "def strings() { (\"a text\", None, (1, (2.5, true))) }\n";

/* Nine errors of several kinds, in one text. */
static const char broken[] = "def f(x { x + }\n"
                             "def g(y) { undefined_name + Nop(1) }\n"
                             "def g(y) { Add(1) @ \"text }\n"
                             "def h() { 1 +* 2; MatMul(1, 2, axis=3) }\n";

/* The work must be able to tell a refused allocation from a bug: an unexpected status is kept. */
static anf_status expect(anf_status got, anf_status want) {
  return got == want ? ANF_OK : got == ANF_OK ? ANF_INTERNAL : got;
}

static anf_status with_module(anf_ctx *cx,
                              anf_status (*then)(anf_ctx *, anf_module *, anf_diag *)) {
  anf_diag *d = anf_diag_new(cx);
  if (!d) return ANF_NOMEM;
  anf_module *m = NULL;
  anf_status st = anf_parse(cx, program, "faults.anf", d, &m);
  if (st == ANF_OK) st = then(cx, m, d);
  anf_module_free(m);
  anf_diag_free(d);
  return st;
}

static anf_status parse_broken(anf_ctx *cx, void *user) {
  (void)user;
  anf_diag *d = anf_diag_new(cx);
  if (!d) return ANF_NOMEM;
  anf_module *m = NULL;
  anf_status st = anf_parse(cx, broken, "broken.anf", d, &m);
  anf_module_free(m);
  if (st == ANF_INVALID && anf_diag_count(d) < 3)
    st = ANF_NOMEM; // an error could not be written down
  anf_diag_free(d);
  return expect(st, ANF_INVALID);
}

static anf_status just_parsed(anf_ctx *cx, anf_module *m, anf_diag *d) {
  (void)cx;
  return anf_verify(m, d);
}
static anf_status parse(anf_ctx *cx, void *user) {
  (void)user;
  return with_module(cx, just_parsed);
}

static anf_status written(anf_ctx *cx, anf_module *m, anf_diag *d) {
  anf_text ir = {.cx = cx}, dat = {.cx = cx};
  anf_module *again = NULL, *loaded = NULL;
  anf_status st = anf_print_ir(m, &ir);
  if (st == ANF_OK) st = anf_parse_n(cx, ir.text, ir.len, "again.ir", d, &again);
  if (st == ANF_OK) st = anf_write_dat(m, &dat);
  if (st == ANF_OK) st = anf_read_dat(cx, dat.text, dat.len, "again.dat", d, &loaded);
  anf_module_free(loaded);
  anf_module_free(again);
  anf_text_free(&dat);
  anf_text_free(&ir);
  return st;
}
static anf_status round_trip(anf_ctx *cx, void *user) {
  (void)user;
  return with_module(cx, written);
}

static anf_status drawn(anf_ctx *cx, anf_module *m, anf_diag *d) {
  (void)d;
  anf_text dot = {.cx = cx}, html = {.cx = cx};
  anf_status st = anf_write_dot(m, NULL, &dot);
  if (st == ANF_OK) st = anf_write_html(m, NULL, &html);
  anf_text_free(&html);
  anf_text_free(&dot);
  return st;
}
static anf_status draw(anf_ctx *cx, void *user) {
  (void)user;
  return with_module(cx, drawn);
}

static anf_status changed(anf_ctx *cx, anf_module *m, anf_diag *d) {
  (void)cx;
  anf_analysis *a = NULL;
  anf_status st = anf_analyse(m, d, &a);
  anf_analysis_free(a);
  if (st != ANF_OK) return st;
  if (!anf_graph_clone(anf_module_find(m, "fibonacci"))) return ANF_NOMEM;
  if (!anf_graph_clone(anf_module_find(m, "closures"))) return ANF_NOMEM;
  anf_module_sweep(m);
  return anf_module_status(m) == ANF_OK ? anf_verify(m, d) : anf_module_status(m);
}
static anf_status change(anf_ctx *cx, void *user) {
  (void)user;
  return with_module(cx, changed);
}

/* Runs one function on arguments given as text. */
static anf_status call(anf_ctx *cx, anf_module *m, anf_diag *d, const char *name, const char *a,
                       const char *b) {
  anf_value *arg[2] = {NULL, NULL}, *result = NULL;
  anf_text out = {.cx = cx};
  size_t n = a ? b ? 2 : 1 : 0;
  anf_status st = n > 0 ? anf_parse_value(cx, a, d, &arg[0]) : ANF_OK;
  if (st == ANF_OK && n > 1) st = anf_parse_value(cx, b, d, &arg[1]);
  if (st == ANF_OK) st = anf_run(anf_module_find(m, name), n, arg, NULL, d, &result);
  if (st == ANF_OK) st = anf_value_print(cx, result, 0, &out);
  anf_text_free(&out);
  anf_value_release(result);
  anf_value_release(arg[0]);
  anf_value_release(arg[1]);
  return st;
}

static anf_status called(anf_ctx *cx, anf_module *m, anf_diag *d) {
  anf_status st = call(cx, m, d, "fibonacci", "5", NULL);
  if (st == ANF_OK) st = call(cx, m, d, "closures", NULL, NULL);
  if (st == ANF_OK) st = call(cx, m, d, "power", "1.5", "3");
  if (st == ANF_OK) st = call(cx, m, d, "tensors", "[[1.0, 2.0, -3.0], [4.0, 5.0, 6.0]]", NULL);
  if (st == ANF_OK) st = call(cx, m, d, "strings", NULL, NULL);
  if (st == ANF_OK) st = expect(call(cx, m, d, "fibonacci", "\"text\"", NULL), ANF_INVALID);
  return st;
}
static anf_status run(anf_ctx *cx, void *user) {
  (void)user;
  return with_module(cx, called);
}

/* Fibonacci, node by node, without a check a line: the status at the end says it all. */
static anf_status build(anf_ctx *cx, void *user) {
  (void)user;
  anf_module *m = anf_module_new(cx);
  if (!m) return ANF_NOMEM;
  anf_graph *fib = anf_graph_new(m, "fib"), *yes = anf_graph_new(m, "yes"),
            *no = anf_graph_new(m, "no");
  anf_node *n = anf_param(fib, "n", anf_type_scalar(cx, ANF_I64)), *f = anf_graph_node(fib);
  anf_return(yes, n);
  anf_node *a =
      anf_call(no, f, 1, (anf_node *[]){anf_op(no, "Sub", 2, (anf_node *[]){n, anf_int(m, 1)})});
  anf_node *b =
      anf_call(no, f, 1, (anf_node *[]){anf_op(no, "Sub", 2, (anf_node *[]){n, anf_int(m, 2)})});
  anf_return(no, anf_op(no, "Add", 2, (anf_node *[]){a, b}));
  anf_node *small = anf_op(fib, "Less", 2, (anf_node *[]){n, anf_int(m, 2)});
  anf_return(
      fib, anf_call(fib, anf_switch(fib, small, anf_graph_node(yes), anf_graph_node(no)), 0, NULL));
  anf_status st = anf_module_status(m);
  if (st == ANF_OK) st = anf_verify(m, NULL);
  anf_module_free(m);
  return st;
}

static anf_status values(anf_ctx *cx, void *user) {
  (void)user;
  int64_t dims[] = {2, 2};
  const float data[] = {1, 2, 3, 4};
  const char *names[] = {"w", "b"};
  anf_value *t = anf_value_tensor(cx, ANF_F32, 2, dims, data), *s = anf_value_string(cx, "text", 4);
  anf_value *parts[] = {t, s};
  anf_value *pair = t && s ? anf_value_tuple(cx, 2, parts) : NULL;
  anf_value *record = pair ? anf_value_record(cx, 2, names, parts) : NULL;
  anf_value *shape = record ? anf_value_shape(cx, 2, dims) : NULL;
  int64_t symbol = shape ? anf_dim_symbol(cx, "B") : 0;
  const anf_type *type = symbol ? anf_type_tensor(cx, ANF_BF16, 2, (int64_t[]){symbol, 3}) : NULL;
  anf_value *type_value = type ? anf_value_of_type(cx, type) : NULL;
  anf_text out = {.cx = cx};
  anf_status st = type_value ? anf_value_print(cx, record, 0, &out) : ANF_NOMEM;
  if (st == ANF_OK) st = anf_type_print(cx, type, &out);
  anf_text_free(&out);
  anf_value *all[] = {t, s, pair, record, shape, type_value};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) anf_value_release(all[i]);
  return st;
}

static anf_status load_missing(anf_ctx *cx, void *user) {
  (void)user;
  anf_diag *d = anf_diag_new(cx);
  if (!d) return ANF_NOMEM;
  anf_module *m = NULL;
  anf_status st = anf_load(cx, "no/such/file.anf", d, &m);
  if (st == ANF_IO && anf_diag_count(d) == 0) st = ANF_NOMEM;
  anf_diag_free(d);
  return expect(st, ANF_IO);
}

/* Two elements in the other byte order; written to where nothing stays. */
static anf_status npy(anf_ctx *cx, void *user) {
  static const char file[] =
      "\x93NUMPY\x01\x00\x3c\x00"
      "{'descr': '>i2', 'fortran_order': False, 'shape': (2,), }   \x01\x02\x03\x04";
  (void)user;
  anf_value *v = NULL;
  anf_status st = anf_read_npy(cx, file, sizeof file - 1, "a.npy", NULL, &v);
  if (st == ANF_OK && anf_value_get_i64(v, 1) != 0x304) st = ANF_INTERNAL;
  if (st == ANF_OK) st = anf_save_npy(cx, v, "/dev/null", NULL);
  anf_value_release(v);
  return st;
}

#define FAULT_TEST(work)                                                                           \
  static void test_##work(void **state) {                                                          \
    (void)state;                                                                                   \
    assert_true(fault_loop(work, NULL) > 0);                                                       \
  }
FAULT_TEST(parse)
FAULT_TEST(parse_broken)
FAULT_TEST(round_trip)
FAULT_TEST(draw)
FAULT_TEST(change)
FAULT_TEST(run)
FAULT_TEST(build)
FAULT_TEST(values)
FAULT_TEST(load_missing)
FAULT_TEST(npy)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_parse),        cmocka_unit_test(test_parse_broken),
      cmocka_unit_test(test_round_trip),   cmocka_unit_test(test_draw),
      cmocka_unit_test(test_change),       cmocka_unit_test(test_run),
      cmocka_unit_test(test_build),        cmocka_unit_test(test_values),
      cmocka_unit_test(test_load_missing), cmocka_unit_test(test_npy),
  };
  return cmocka_run_group_tests_name("faults", tests, NULL, NULL);
}
