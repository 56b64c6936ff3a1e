// SPDX-License-Identifier: Apache-2.0
/* Printing and saving. Modules are built with the C interface; their text is written here by hand.
 * What is printed must read back to what prints the same, what is saved to what saves the same, bit
 * for bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "anfora/anfora.h"
#include "frontend/dat/dat.h"
#include "base/mark.h"
#include "test/unit/fault.h"
#include "test/unit/context.h"

#include <math.h>
#include <string.h>

#define NODES(...) ((anf_node *[]){__VA_ARGS__})
#define OP(g, name, ...)                                                                           \
  anf_op((g), (name), sizeof NODES(__VA_ARGS__) / sizeof(anf_node *), NODES(__VA_ARGS__))
#define CALL(g, f, ...)                                                                            \
  anf_call((g), (f), sizeof NODES(__VA_ARGS__) / sizeof(anf_node *), NODES(__VA_ARGS__))
#define CALL0(g, f) anf_call((g), (f), 0, NULL)

static anf_node *named(anf_node *n, const char *name) {
  anf_node_set_name(n, name);
  return n;
}

static anf_node *held(anf_module *m, anf_value *v) {
  anf_node *n = anf_constant(m, v);
  anf_value_release(v);
  return n;
}

/* ---- the functions of the introduction to MindIR ---- */

static anf_module *build_test_f(anf_ctx *c) {
  anf_module *m = anf_module_new(c);
  anf_graph *func = anf_graph_new(m, "func"), *test_f = anf_graph_new(m, "test_f");
  anf_node *p = anf_param(func, "x", NULL), *q = anf_param(func, "y", NULL);
  anf_return(func, OP(func, "Div", p, q));
  anf_node *x = anf_param(test_f, "x", NULL), *y = anf_param(test_f, "y", NULL);
  anf_node *a = named(OP(test_f, "Sub", x, anf_int(m, 1)), "a");
  anf_node *b = named(OP(test_f, "Add", a, y), "b");
  anf_node *r = CALL(test_f, anf_graph_node(func), a, b);
  anf_return(test_f, named(OP(test_f, "Mul", b, r), "c"));
  return m;
}

static const char test_f_text[] = "def func(x, y) {\n"
                                  "  %1 = Div(x, y)\n"
                                  "  return %1\n"
                                  "}\n"
                                  "def test_f(x, y) {\n"
                                  "  a = Sub(x, 1)\n"
                                  "  b = Add(a, y)\n"
                                  "  %1 = func(a, b)\n"
                                  "  c = Mul(b, %1)\n"
                                  "  return c\n"
                                  "}\n";

static anf_module *build_hof(anf_ctx *c) {
  anf_module *m = anf_module_new(c);
  const anf_type *f32 = anf_type_scalar(c, ANF_F32);
  anf_graph *hof = anf_graph_new(m, "hof"), *f = anf_graph_new(m, "f"), *g = anf_graph_new(m, "g");
  anf_return(f, OP(f, "Add", anf_param(f, "x", NULL), anf_int(m, 3)));
  anf_node *function = anf_param(g, "function", NULL), *y = anf_param(g, "x", NULL);
  anf_node *one = CALL(g, function, y), *two = CALL(g, function, y);
  anf_return(g, OP(g, "Mul", one, two));
  anf_node *x = anf_param(hof, "x", f32);
  anf_return(hof, named(CALL(hof, anf_graph_node(g), anf_graph_node(f), x), "res"));
  anf_graph_set_result_type(hof, f32);
  return m;
}

static const char hof_text[] = "def hof(x: f32) -> f32 {\n"
                               "  res = g(f, x)\n"
                               "  return res\n"
                               "}\n"
                               "def f(x) {\n"
                               "  %1 = Add(x, 3)\n"
                               "  return %1\n"
                               "}\n"
                               "def g(function, x) {\n"
                               "  %1 = function(x)\n"
                               "  %2 = function(x)\n"
                               "  %3 = Mul(%1, %2)\n"
                               "  return %3\n"
                               "}\n";

static anf_module *build_fibonacci(anf_ctx *c) {
  anf_module *m = anf_module_new(c);
  const anf_type *i64 = anf_type_scalar(c, ANF_I64);
  anf_graph *fib = anf_graph_new(m, "fibonacci"), *yes = anf_graph_new(m, "✓fibonacci");
  anf_graph *no = anf_graph_new(m, "✗fibonacci"), *noyes = anf_graph_new(m, "✓✗fibonacci");
  anf_graph *nono = anf_graph_new(m, "✗✗fibonacci");
  anf_node *n = anf_param(fib, "n", i64), *self = anf_graph_node(fib);
  anf_return(yes, anf_int(m, 0));
  anf_return(noyes, anf_int(m, 1));
  anf_node *a = CALL(nono, self, OP(nono, "Sub", n, anf_int(m, 1)));
  anf_node *b = CALL(nono, self, OP(nono, "Sub", n, anf_int(m, 2)));
  anf_return(nono, OP(nono, "Add", a, b));
  anf_node *is1 = OP(no, "Equal", n, anf_int(m, 1));
  anf_return(no, CALL0(no, anf_switch(no, is1, anf_graph_node(noyes), anf_graph_node(nono))));
  anf_node *small = OP(fib, "Less", n, anf_int(m, 1));
  anf_node *pick = anf_switch(fib, small, anf_graph_node(yes), anf_graph_node(no));
  anf_node *r = CALL0(fib, pick);
  anf_node_set_type(small, anf_type_scalar(c, ANF_BOOL));
  anf_node_set_type(pick, anf_type_fn(c, 0, NULL, i64));
  anf_node_set_type(r, i64);
  anf_return(fib, r);
  return m;
}

static const char fibonacci_text[] = "def fibonacci(n: i64) -> i64 {\n"
                                     "  %1: bool = Less(n, 1)\n"
                                     "  %2: fn() -> i64 = Switch(%1, ✓fibonacci, ✗fibonacci)\n"
                                     "  %3: i64 = %2()\n"
                                     "  return %3\n"
                                     "}\n"
                                     "def ✓fibonacci() {\n"
                                     "  return 0\n"
                                     "}\n"
                                     "def ✗fibonacci() parent fibonacci {\n"
                                     "  %1 = Equal(fibonacci.n, 1)\n"
                                     "  %2 = Switch(%1, ✓✗fibonacci, ✗✗fibonacci)\n"
                                     "  %3 = %2()\n"
                                     "  return %3\n"
                                     "}\n"
                                     "def ✓✗fibonacci() {\n"
                                     "  return 1\n"
                                     "}\n"
                                     "def ✗✗fibonacci() parent fibonacci {\n"
                                     "  %1 = Sub(fibonacci.n, 1)\n"
                                     "  %2 = fibonacci(%1)\n"
                                     "  %3 = Sub(fibonacci.n, 2)\n"
                                     "  %4 = fibonacci(%3)\n"
                                     "  %5 = Add(%2, %4)\n"
                                     "  return %5\n"
                                     "}\n";

/* The inner function is made before its owner, whose text must come first. */
static anf_module *build_closure(anf_ctx *c) {
  anf_module *m = anf_module_new(c);
  anf_graph *inner = anf_graph_new(m, "func_inner"), *outer = anf_graph_new(m, "func_outer");
  anf_graph *top = anf_graph_new(m, "ms_closure");
  anf_node *a = anf_param(outer, "a", NULL), *b = anf_param(outer, "b", NULL);
  anf_node *ab = OP(inner, "Add", a, b);
  anf_return(inner, OP(inner, "Add", ab, anf_param(inner, "c", NULL)));
  anf_return(outer, anf_graph_node(inner));
  anf_node *k = named(CALL(top, anf_graph_node(outer), anf_int(m, 1), anf_int(m, 2)), "closure");
  anf_node *out1 = named(CALL(top, k, anf_int(m, 1)), "out1");
  anf_node *out2 = named(CALL(top, k, anf_int(m, 2)), "out2");
  anf_return(top, anf_tuple(top, 2, NODES(out1, out2)));
  return m;
}

static const char closure_text[] = "def func_outer(a, b) {\n"
                                   "  return func_inner\n"
                                   "}\n"
                                   "def func_inner(c) parent func_outer {\n"
                                   "  %1 = Add(func_outer.a, func_outer.b)\n"
                                   "  %2 = Add(%1, c)\n"
                                   "  return %2\n"
                                   "}\n"
                                   "def ms_closure() {\n"
                                   "  closure = func_outer(1, 2)\n"
                                   "  out1 = closure(1)\n"
                                   "  out2 = closure(2)\n"
                                   "  %1 = MakeTuple(out1, out2)\n"
                                   "  return %1\n"
                                   "}\n";

/* ---- names, order, attributes, effects ---- */

/* Names that clash, that are words of the language, that are no names; and the reserved forms. */
static anf_module *build_names(anf_ctx *c) {
  anf_module *m = anf_module_new(c);
  anf_graph *g = anf_graph_new(m, "x"), *h = anf_graph_new(m, "x"), *op = anf_graph_new(m, "Add");
  anf_graph *odd = anf_graph_new(m, "a.b `c`"), *none = anf_graph_new(m, "");
  anf_node *p = anf_param(g, "x", NULL), *q = anf_param(g, "x_1", NULL),
           *r = anf_param(g, "if", NULL);
  anf_node *s = anf_param(g, "%1", NULL), *t = anf_param(g, NULL, NULL),
           *u = anf_param(g, "key", NULL);
  anf_node *v = named(anf_tuple(g, 6, NODES(p, q, r, s, t, u)), "y");
  anf_node *w = named(anf_tuple(g, 1, NODES(v)), "y");
  anf_return(g, anf_tuple(g, 2, NODES(w, anf_graph_node(odd))));
  anf_return(h, p);
  anf_return(op, OP(op, "Add", anf_param(op, "f32", NULL), v));
  anf_return(odd, anf_graph_node(none));
  anf_return(none, anf_int(m, 0));
  return m;
}

static const char names_text[] = "def x(x_2, x_1_1, `if`, _1, %1, key) {\n"
                                 "  y = MakeTuple(x_2, x_1_1, `if`, _1, %1, key)\n"
                                 "  y_1 = MakeTuple(y)\n"
                                 "  %2 = MakeTuple(y_1, `a.b \\`c\\``)\n"
                                 "  return %2\n"
                                 "}\n"
                                 "def x_1() parent x {\n"
                                 "  return x.x_2\n"
                                 "}\n"
                                 "def Add_1(`f32`) parent x {\n"
                                 "  %1 = Add(`f32`, x.y)\n"
                                 "  return %1\n"
                                 "}\n"
                                 "def `a.b \\`c\\``() {\n"
                                 "  return g\n"
                                 "}\n"
                                 "def g() {\n"
                                 "  return 0\n"
                                 "}\n";

/* A node that was made after those that use it; a captured one, a dead one, effects out of order.
 */
static anf_module *build_order(anf_ctx *c) {
  anf_module *m = anf_module_new(c);
  anf_graph *g = anf_graph_new(m, "main"), *k = anf_graph_new(m, "k");
  anf_node *x = anf_param(g, "x", NULL);
  anf_node *first = OP(g, "Neg", x), *dead = named(OP(g, "Exp", first), "dead");
  (void)dead;
  anf_node *use = CALL0(g, anf_graph_node(k));
  anf_node *later = named(OP(g, "Neg", x), "later");
  anf_return(k, OP(k, "Add", later, x));
  anf_node_set_input(first, 1, later);
  anf_node *one = CALL0(g, anf_graph_node(k)), *two = CALL0(g, anf_graph_node(k));
  (void)one;
  anf_effect(g, two);
  anf_effect(g, use);
  anf_return(g, x);
  return m;
}

static const char order_text[] = "def main(x) {\n"
                                 "  later = Neg(x)\n"
                                 "  %1 = Neg(later)\n"
                                 "  dead = Exp(%1)\n"
                                 "  effect %2 = k()\n"
                                 "  effect %3 = k()\n"
                                 "  %4 = k()\n"
                                 "  return x\n"
                                 "}\n"
                                 "def k() parent main {\n"
                                 "  %1 = Add(main.later, main.x)\n"
                                 "  return %1\n"
                                 "}\n";

/* ---- constants ---- */

static anf_value *tensor(anf_ctx *c, anf_dtype t, size_t rank, const int64_t *dims,
                         const void *data) {
  return anf_value_tensor(c, t, rank, dims, data);
}
#define DIMS(...) ((int64_t[]){__VA_ARGS__})

static anf_value *record(anf_ctx *c) {
  anf_value *items[] = {anf_value_int(c, 1), tensor(c, ANF_F32, 0, NULL, &(float){0.5f})};
  anf_value *v = anf_value_record(c, 2, (const char *[]){"w", "else"}, items);
  anf_value_release(items[0]);
  anf_value_release(items[1]);
  return v;
}

static anf_value *pair(anf_ctx *c) {
  anf_value *one = anf_value_int(c, 1), *unit = anf_value_tuple(c, 0, NULL), *single, *v;
  single = anf_value_tuple(c, 1, (anf_value *[]){unit});
  v = anf_value_tuple(c, 2, (anf_value *[]){one, single});
  anf_value_release(one), anf_value_release(unit), anf_value_release(single);
  return v;
}

static anf_value *type_value(anf_ctx *c, int which) {
  const anf_type *f32 = anf_type_scalar(c, ANF_F32);
  const anf_type *mat =
      anf_type_tensor(c, ANF_F32, 3, DIMS(2, anf_dim_symbol(c, "B"), ANF_DIM_UNKNOWN));
  const anf_type *rec = anf_type_record(c, 1, (const char *[]){"w"}, (const anf_type *[]){mat});
  const anf_type *fn =
      anf_type_fn(c, 2, (const anf_type *[]){rec, f32}, anf_type_simple(c, ANF_TYPE_NONE));
  const anf_type *all[] = {f32,
                           mat,
                           fn,
                           anf_type_scalar(c, ANF_KEY),
                           anf_type_pattern(c, ANF_PATTERN_RANKS, ANF_BF16),
                           anf_type_pattern(c, ANF_PATTERN_NUMBER, ANF_BF16)};
  assert_int_equal(anf_type_get_pattern(all[5]), ANF_PATTERN_NUMBER);
  assert_null(anf_type_pattern(c, (anf_pattern)99, ANF_F32));
  return anf_value_of_type(c, all[which]);
}

typedef struct {
  anf_value *value;
  const char *exact, *shown; // shown: NULL if it is the same
} constant;

/* Decimal forms by NumPy: repr of the scalar type, with a dot. */
static size_t constants(anf_ctx *c, constant *k) {
  static const float f[] = {1.0f, 0.1f, 3e-30f, -0.0f, NAN, -INFINITY};
  static const uint8_t b[] = {1, 0};
  static const int8_t i8[] = {1, 2, 3, 4, 5, 6, 7, -128};
  static const uint64_t u64 = UINT64_MAX, keys[] = {0x1234, 1};
  static const uint16_t half = 0x2e66, halves[] = {0x7bff, 0x0001, 0xfc00},
                        brain[] = {0x3dcd, 0x4049};
  static const float z[] = {1.0f, -2.5f, 0.0f, 1e20f};
  const constant all[] = {
      {anf_value_int(c, 3), "3", NULL},
      {anf_value_int(c, INT64_MIN), "-9223372036854775808", NULL},
      {anf_value_float(c, 0.1), "0.1", NULL},
      {anf_value_float(c, 1e22), "1e+22", NULL},
      {anf_value_float(c, -3), "-3.0", NULL},
      {anf_value_float(c, (double)NAN), "nan", NULL},
      {anf_value_float(c, -HUGE_VAL), "-inf", NULL},
      {anf_value_bool(c, true), "true", NULL},
      {anf_value_i64(c, 3), "i64(3)", "3"},
      {anf_value_f32(c, 16777216), "f32(16777216.0)", "16777216.0"},
      {anf_value_f64(c, 0.3), "f64(0.3)", "0.3"},
      {tensor(c, ANF_U64, 0, NULL, &u64), "u64(18446744073709551615)", "18446744073709551615"},
      {tensor(c, ANF_F16, 0, NULL, &half), "f16(0.1)", "0.1"},
      {tensor(c, ANF_F16, 1, DIMS(3), halves), "f16[3]([65500.0, 6e-08, -inf])",
       "[65500.0, 6e-08, -inf]"},
      {tensor(c, ANF_BF16, 1, DIMS(2), brain), "bf16[2]([0.1, 3.14])", "[0.1, 3.14]"},
      {tensor(c, ANF_C64, 0, NULL, z), "c64(1.0, -2.5)", NULL},
      {tensor(c, ANF_C64, 2, DIMS(1, 2), z), "c64[1, 2]([[(1.0, -2.5), (0.0, 1e+20)]])",
       "[[(1.0, -2.5), (0.0, 1e+20)]]"},
      {tensor(c, ANF_KEY, 0, NULL, keys), "key(0x0000000000001234)", NULL},
      {tensor(c, ANF_KEY, 1, DIMS(2), keys), "key[2]([0x0000000000001234, 0x0000000000000001])",
       "[0x0000000000001234, 0x0000000000000001]"},
      {tensor(c, ANF_BOOL, 1, DIMS(2), b), "bool[2]([true, false])", "[true, false]"},
      {tensor(c, ANF_INT, 1, DIMS(1), &u64), "int[1]([-1])", "[-1]"},
      {tensor(c, ANF_F32, 2, DIMS(2, 3), f), "f32[2, 3]([[1.0, 0.1, 3e-30], [-0.0, nan, -inf]])",
       "[[1.0, 0.1, 3e-30], [-0.0, nan, -inf]]"},
      {tensor(c, ANF_I8, 3, DIMS(2, 2, 2), i8),
       "i8[2, 2, 2]([[[1, 2], [3, 4]], [[5, 6], [7, -128]]])",
       "[[[1, 2], [3, 4]], [[5, 6], [7, -128]]]"},
      {tensor(c, ANF_F32, 2, DIMS(0, 3), NULL), "f32[0, 3]([])", "[]"},
      {tensor(c, ANF_F32, 2, DIMS(1000000, 0), NULL), "f32[1000000, 0]([])", "[]"},
      {anf_value_string(c, "a\"\\\n\t\r\0é✓\x1f\x7f\xff`", 16),
       "\"a\\\"\\\\\\n\\t\\r\\x00é✓\\x1f\\x7f\\xff`\"", NULL},
      {anf_value_string(c, "", 0), "\"\"", NULL},
      {anf_value_none(c), "None", NULL},
      {pair(c), "(1, ((),))", NULL},
      {record(c), "{w = 1, `else` = f32(0.5)}", "{w = 1, `else` = 0.5}"},
      {anf_value_record(c, 0, NULL, NULL), "{}", NULL},
      {anf_value_shape(c, 2, DIMS(2, 3)), "(2, 3)", NULL},
      {type_value(c, 4), "type(bf16[...])", NULL},
      {type_value(c, 5), "type(number)", NULL},
      {type_value(c, 0), "f32", NULL},
      {type_value(c, 1), "f32[2, B, ?]", NULL},
      {type_value(c, 2), "type(fn({w: f32[2, B, ?]}, f32) -> none)", NULL},
      {type_value(c, 3), "type(key)", NULL},
  };
  memcpy(k, all, sizeof all);
  return sizeof all / sizeof all[0];
}
enum { MAX_CONSTANTS = 64 };

static anf_module *build_constants(anf_ctx *c) {
  anf_module *m = anf_module_new(c);
  anf_graph *g = anf_graph_new(m, "constants");
  constant k[MAX_CONSTANTS];
  anf_node *in[MAX_CONSTANTS];
  size_t n = constants(c, k);
  for (size_t i = 0; i < n; i++) in[i] = held(m, k[i].value);
  anf_return(g, anf_tuple(g, n, in));
  return m;
}

static void test_constants(void **state) {
  (void)state;
  constant k[MAX_CONSTANTS];
  size_t n = constants(cx, k);
  anf_module *m = anf_module_new(cx);
  for (size_t i = 0; i < n; i++) {
    anf_graph *g = anf_graph_new(m, "g");
    anf_return(g, anf_constant(m, k[i].value));
    anf_text o = {.cx = cx};
    assert_int_equal(anf_value_print(cx, k[i].value, 0, &o), ANF_OK);
    assert_string_equal(o.text, k[i].shown ? k[i].shown : k[i].exact);
    anf_text_free(&o);
    assert_int_equal(anf_print_ir(m, &o), ANF_OK);
    char want[400];
    snprintf(want, sizeof want, "def g() {\n  return %s\n}\n", k[i].exact);
    assert_string_equal(o.text, want);
    anf_text_free(&o);
    anf_return(g, anf_int(m, 0)); // so that the graph can go
    assert_int_equal(anf_graph_remove(g), ANF_OK);
    anf_value_release(k[i].value);
  }
  anf_module_free(m);
}

static void test_shortened(void **state) {
  (void)state;
  static const int32_t x[] = {1, 2, 3, 4, 5, 6};
  anf_value *v = tensor(cx, ANF_I32, 2, DIMS(3, 2), x);
  anf_text o = {.cx = cx};
  assert_int_equal(anf_value_print(cx, v, 3, &o), ANF_OK);
  assert_string_equal(o.text, "[[1, 2], [3, …]]");
  anf_text_free(&o);
  anf_value_release(v);
}

/* ---- attributes ---- */

static anf_module *build_attrs(anf_ctx *c) {
  anf_module *m = anf_module_new(c);
  anf_graph *g = anf_graph_new(m, "main");
  anf_node *x = anf_param(g, "x", NULL), *i = anf_param(g, "i", NULL);
  if (!i) return m;
  anf_value *two = anf_value_int(c, 2), *axes = anf_value_shape(c, 2, DIMS(0, 1)),
            *yes = anf_value_bool(c, true);
  anf_node *get = anf_op_attrs(g, "TupleGet", 1, &x, 1, &(anf_attr){"index", two, NULL});
  anf_node *at = anf_op_attrs(g, "TupleGet", 1, &x, 1, &(anf_attr){"index", NULL, i});
  anf_node *all = OP(g, "Sum", get);
  anf_attr some[] = {{"keepdims", yes, NULL}, {"axis", axes, NULL}};
  anf_node *part = anf_op_attrs(g, "Sum", 1, &at, 2, some);
  anf_node *fn = anf_op_node(m, "Sum");
  anf_return(g, anf_tuple(g, 3, NODES(all, part, fn)));
  if (!two || !axes || !yes) anf_module_free(m), m = NULL;
  anf_value_release(two), anf_value_release(axes), anf_value_release(yes);
  return m;
}

static const char attrs_text[] = "def main(x, i) {\n"
                                 "  %1 = TupleGet(x, index=2)\n"
                                 "  %2 = TupleGet(x, index=i)\n"
                                 "  %3 = Sum(%1)\n"
                                 "  %4 = Sum(%2, axis=(0, 1), keepdims=true)\n"
                                 "  %5 = MakeTuple(%3, %4, Sum)\n"
                                 "  return %5\n"
                                 "}\n";

/* A removed graph and node, places, scopes, origins, private graphs, a primitive with attributes.
 */
static anf_module *build_marks(anf_ctx *c) {
  anf_module *m = anf_module_new(c);
  anf_graph *gone = anf_graph_new(m, "gone"), *g = anf_graph_new(m, "main"),
            *h = anf_graph_new(m, "branch");
  anf_return(gone, OP(gone, "Neg", anf_param(gone, "x", NULL)));
  anf_node *x = anf_param(g, "x", anf_type_tensor(c, ANF_F32, 2, DIMS(anf_dim_symbol(c, "B"), 4)));
  anf_node *y = OP(g, "Exp", x), *z = OP(g, "Neg", y), *unused = OP(g, "Exp", z);
  (void)unused;
  anf_node_set_loc(y, "net \"1\".anf", 12, 9);
  anf_node_set_scope(y, "encoder/layer0");
  z->debug = anfi_debug_derive(m, y->debug, "gradient of");
  h->flags |= ANFI_GRAPH_PRIVATE;
  anf_return(h, OP(h, "Neg", anf_param(h, "x", NULL)));
  anf_return(g, anf_tuple(g, 2, NODES(z, anf_graph_node(h))));
  anf_graph_remove(gone);
  anf_module_sweep(m);
  return m;
}

static const char marks_text[] = "def main(x: f32[B, 4]) {\n"
                                 "  %1 = Exp(x)\n"
                                 "  %2 = Neg(%1)\n"
                                 "  %3 = MakeTuple(%2, branch)\n"
                                 "  return %3\n"
                                 "}\n"
                                 "def branch(x) private {\n"
                                 "  %1 = Neg(x)\n"
                                 "  return %1\n"
                                 "}\n";

typedef struct {
  const char *name;
  anf_module *(*build)(anf_ctx *);
  const char *text; // or NULL
} sample;
static const sample samples[] = {
    {"test_f", build_test_f, test_f_text},
    {"hof", build_hof, hof_text},
    {"fibonacci", build_fibonacci, fibonacci_text},
    {"closure", build_closure, closure_text},
    {"names", build_names, names_text},
    {"order", build_order, order_text},
    {"constants", build_constants, NULL},
    {"attrs", build_attrs, attrs_text},
    {"marks", build_marks, marks_text},
    {"empty", anf_module_new, ""},
};
enum { NSAMPLE = sizeof samples / sizeof samples[0] };

static void expect_ok(anf_status st, const char *what) {
  if (st == ANF_OK) return;
  anf_diag_print(d, stderr, false);
  fail_msg("%s: %s", what, anf_status_name(st));
}

static void test_print(void **state) {
  (void)state;
  for (size_t i = 0; i < NSAMPLE; i++) {
    anf_module *m = samples[i].build(cx);
    anf_text o = {.cx = cx};
    expect_ok(anf_module_status(m), samples[i].name);
    expect_ok(anf_verify(m, d), samples[i].name);
    expect_ok(anf_print_ir(m, &o), samples[i].name);
    if (samples[i].text) assert_string_equal(o.text ? o.text : "", samples[i].text);
    anf_text_free(&o);
    anf_module_free(m);
  }
}

/* print(parse(print(m))) == print(m), and the second module is good. */
static void test_text_round_trip(void **state) {
  (void)state;
  for (size_t i = 0; i < NSAMPLE; i++) {
    anf_module *m = samples[i].build(cx), *back = NULL;
    anf_text o = {.cx = cx}, p = {.cx = cx};
    expect_ok(anf_print_ir(m, &o), samples[i].name);
    expect_ok(anf_parse_n(cx, o.text ? o.text : "", o.len, samples[i].name, d, &back),
              samples[i].name);
    expect_ok(anf_verify(back, d), samples[i].name);
    expect_ok(anf_print_ir(back, &p), samples[i].name);
    assert_string_equal(p.text ? p.text : "", o.text ? o.text : "");
    anf_text_free(&o), anf_text_free(&p);
    anf_module_free(m), anf_module_free(back);
  }
}

/* ---- .dat ---- */

static void expect_same_node(const anf_node *a, const anf_node *b) {
  if (a && a->graph && a->graph->removed) a = NULL; // left behind
  assert_int_equal(a == NULL, b == NULL);
  if (!a) return;
  assert_int_equal(a->kind, b->kind);
  assert_int_equal(a->op, b->op);
  assert_int_equal(a->nin, b->nin);
  assert_int_equal(a->flags, b->flags);
  assert_ptr_equal(a->type, b->type);
  for (uint32_t k = 0; k < a->nin; k++) assert_int_equal(a->in[k].def->id, b->in[k].def->id);
  assert_string_equal(anf_node_name(a), anf_node_name(b));
  assert_string_equal(anf_node_scope(a), anf_node_scope(b));
  assert_string_equal(anf_node_file(a), anf_node_file(b));
  assert_int_equal(anf_node_line(a), anf_node_line(b));
  assert_int_equal(anf_node_col(a), anf_node_col(b));
}

static void expect_same_module(const anf_module *a, const anf_module *b) {
  assert_int_equal(a->nodes.n, b->nodes.n);
  assert_int_equal(a->graphs.n, b->graphs.n);
  assert_int_equal(a->debugs.n, b->debugs.n);
  for (size_t i = 0; i < a->nodes.n; i++) expect_same_node(a->nodes.at[i], b->nodes.at[i]);
  for (size_t i = 0; i < a->graphs.n; i++) {
    const anf_graph *g = a->graphs.at[i], *h = b->graphs.at[i];
    assert_int_equal(g == NULL, h == NULL);
    if (!g) continue;
    assert_string_equal(g->name->s, h->name->s);
    assert_int_equal(g->flags, h->flags);
    assert_int_equal(g->result->id, h->result->id);
    assert_int_equal(g->self ? g->self->id + 1 : 0, h->self ? h->self->id + 1 : 0);
  }
}

static void test_dat_round_trip(void **state) {
  (void)state;
  for (size_t i = 0; i < NSAMPLE; i++) {
    anf_module *m = samples[i].build(cx), *back = NULL;
    anf_text o = {.cx = cx}, p = {.cx = cx}, ir = {.cx = cx}, ir2 = {.cx = cx};
    expect_ok(anf_write_dat(m, &o), samples[i].name);
    expect_ok(anf_read_dat(cx, o.text, o.len, "a.dat", d, &back), samples[i].name);
    expect_same_module(m, back);
    expect_ok(anf_write_dat(back, &p), samples[i].name);
    assert_int_equal(o.len, p.len);
    assert_memory_equal(o.text, p.text, o.len);
    expect_ok(anf_print_ir(m, &ir), samples[i].name);
    expect_ok(anf_print_ir(back, &ir2), samples[i].name);
    assert_string_equal(ir.text ? ir.text : "", ir2.text ? ir2.text : "");
    anf_text_free(&o), anf_text_free(&p), anf_text_free(&ir), anf_text_free(&ir2);
    anf_module_free(m), anf_module_free(back);
  }
}

/* What text loses and .dat keeps: the bits of a NaN. */
static void test_dat_nan(void **state) {
  (void)state;
  uint32_t bits = 0xffc12345;
  anf_module *m = anf_module_new(cx), *back = NULL;
  anf_graph *g = anf_graph_new(m, "g");
  anf_return(g, held(m, tensor(cx, ANF_F32, 0, NULL, &bits)));
  anf_text o = {.cx = cx};
  expect_ok(anf_write_dat(m, &o), "nan");
  expect_ok(anf_read_dat(cx, o.text, o.len, "a.dat", d, &back), "nan");
  assert_memory_equal(anf_value_data(anf_node_value(anf_graph_result(anf_module_graph(back, 0)))),
                      &bits, 4);
  anf_text_free(&o);
  anf_module_free(m), anf_module_free(back);
}

static const char *code_of(anf_status st) {
  return st == ANF_OK ? "OK" : anf_diag_count(d) ? anf_diag_at(d, 0)->code : "none";
}

/* Reads what must be refused; gives the code. */
static const char *refused(const char *text, size_t len) {
  anf_module *m = NULL;
  anf_diag_clear(d);
  anf_status st = anf_read_dat(cx, text, len, "bad.dat", d, &m);
  if (st == ANF_OK || m) fail_msg("damage was not seen");
  return code_of(st);
}

/* Every truncation and every flipped bit of a small file is refused. */
static void test_dat_damage(void **state) {
  (void)state;
  anf_module *m = build_marks(cx);
  anf_text o = {.cx = cx};
  expect_ok(anf_write_dat(m, &o), "marks");
  for (size_t n = 0; n < o.len; n++) {
    const char *code = refused(o.text, n), *want = n < 11 ? "E0310" : n == 11 ? "E0314" : "E0312";
    if (strcmp(code, want) != 0) fail_msg("%zu bytes give %s", n, code);
  }
  size_t sums = 0;
  for (size_t i = 0; i < 8 * o.len; i++) {
    o.text[i / 8] = (char)(o.text[i / 8] ^ 1 << i % 8);
    sums += strcmp(refused(o.text, o.len), "E0313") == 0;
    o.text[i / 8] = (char)(o.text[i / 8] ^ 1 << i % 8);
  }
  assert_true(sums > 8 * (o.len - 60)); // all but those in the first and last line
  anf_text_free(&o);
  anf_module_free(m);
}

/* The text with `from` replaced by `to` and the right checksum. */
static anf_text patched(const char *text, const char *from, const char *to) {
  anf_text o = {.cx = cx};
  const char *at = strstr(text, from), *end = strstr(text, ANFI_DAT_CHECKSUM);
  if (!at || !end) fail_msg("no '%s' in the text", from);
  size_t n = strlen(text) + strlen(to) + 1;
  o.text = (char *)anfi_raw(cx, NULL, 0, n);
  o.cap = n;
  o.len = (size_t)snprintf(o.text, n, "%.*s%s%.*s", (int)(at - text), text, to,
                           (int)(end - at - (ptrdiff_t)strlen(from)), at + strlen(from));
  o.len += (size_t)snprintf(o.text + o.len, n - o.len, ANFI_DAT_CHECKSUM "%016llx\n",
                            (unsigned long long)anfi_hash(o.text, o.len, 0));
  return o;
}

typedef struct {
  const char *from, *to, *code;
} lie;

static void expect_lies(anf_module *(*build)(anf_ctx *), size_t n, const lie *lies) {
  anf_module *m = build(cx);
  anf_text o = {.cx = cx};
  expect_ok(anf_write_dat(m, &o), "a good module");
  for (size_t i = 0; i < n; i++) {
    anf_text bad = patched(o.text, lies[i].from, lies[i].to);
    const char *code = refused(bad.text, bad.len);
    if (strcmp(code, lies[i].code) != 0)
      fail_msg("'%s' for '%s' gives %s: %s", lies[i].to, lies[i].from, code,
               anf_diag_at(d, 0)->message);
    if (!anf_diag_at(d, 0)->line) fail_msg("'%s' for '%s' has no place", lies[i].to, lies[i].from);
    anf_text_free(&bad);
  }
  anf_text_free(&o);
  anf_module_free(m);
}

/* Lines that lie, under a checksum that does not. */
static void test_dat_lies(void **state) {
  (void)state;
  static const lie marks[] = {
      {"anfora-dat 1", "anfora-dat 2", "E0311"},
      {"anfora-dat 1", "anfora-dat x", "E0314"},
      {"strings ", "string ", "E0314"},
      {"\"main\"", "\"main", "E0314"},
      {"\"main\"", "\"\\qain\"", "E0314"},
      {"\"main\"", "\"m\\x61in\"", "E0317"},
      {"\"main\"", "\"gone\"", "E0317"},
      {"types 1", "types 99999", "E0316"},
      {"types 1", "types 99999999999999999999", "E0314"},
      {"types 1", "types 01", "E0314"},
      {"tensor f32 2 $7 4", "tensor f99 2 $7 4", "E0314"},
      {"tensor f32 2 $7 4", "tensor f32 17 $7 4", "E0314"},
      {"tensor f32 2 $7 4", "tensor f32 2 $7 9223372036854775807", "E0314"},
      {"tensor f32 2 $7 4", "tensor f32 2 $99 4", "E0315"},
      {"tensor f32 2 $7 4", "tensor f32 2 $0 4", "E0317"},
      {"tensor f32 2 $7 4", "tuple 1 0", "E0315"},
      {"tensor f32 2 $7 4", "tuple 1 -", "E0314"},
      {"tensor f32 2 $7 4", "record 2 $7 0 $7 0", "E0314"},
      {"tensor f32 2 $7 4", "matrix f32 2 $7 4", "E0314"},
      {"places 7\n0 0 - - - 0 -\n", "places 7\n1 0 - - - 0 -\n", "E0317"},
      {"12 9 4 - 5 4 6", "12 9 4 - 5 5 6", "E0315"},
      {"12 9 4 - 5 4 6", "12 9 4 - 5 4 0", "E0317"},
      {"12 9 4 - 5 4 6", "12 4294967296 4 - 5 4 6", "E0314"},
      {"2 - 0 1 1\nconst", "2 - 0 4294967296 1\nconst", "E0314"},
      {"2 - 0 1 1\nconst", "2 - 0 1 2\nconst", "E0317"},
      {"graph 2 0 0", "graph 0 0 0", "E0315"},
      {"graph 2 0 0", "graph 2 0 1", "E0314"},
      {"graph 2 0 0", "op Nonsense - 0 0", "E0201"},
      {"graph 2 0 0", "op Neg - 0 0", "E0317"},
      {"graph 2 0 0", "tensor 0 -", "E0317"},
      {"graph 2 0 0", "tuple 1 0", "E0315"},
      {"graph 2 0 0", "lambda", "E0314"},
      {"a 1 Exp - - ", "a 1 Nonsense - - ", "E0201"},
      {"a 1 Exp - - ", "a 1 Exp 0 - ", "E0317"},
      {"a 1 Exp - - ", "a 0 Exp - - ", "E0315"},
      {"a 1 Exp - - ", "z 1 Exp - - ", "E0314"},
      {"a 1 Exp - - 4 1 2", "a 1 Exp - - 4 1 0", "E0317"},
      {"a 1 Exp - - 4 1 2", "a 1 Exp - - 4 1 10", "E0315"},
      {"a 1 Exp - - 4 1 2", "a 1 Exp - - 4 2 2 2", "E0202"},
      {"a 1 Exp - - 4 1 2", "a 1 Exp - - 4 1 4", "E0215"},
      {"V 0 - 0", "O 0 - 0", "E0317"},
      {"p 1 0 ", "p 1 1 ", "E0315"},
      {"p 2 0 - 6\n", "p 1 0 - 6\n", "E0317"},
      {"results 3\n-\n9", "results 3\n-\n10", "E0315"},
      {"results 3\n-\n9", "results 3\n-\n9 2", "E0317"},
      {"results 3\n-\n9", "results 3\n9\n9", "E0317"},
      {"results 3\n", "results 2\n", "E0317"},
      {"captures", "capture", "E0317"},
      {"captures 3\n-\n-\n-\n", "captures 3\n-\n-\n1\n", "E0317"},
  };
  static const lie attrs[] = {
      {"tensor 0 0000000000000002", "tensor 0 000000000000000g", "E0314"},
      {"tensor 0 0000000000000002", "tensor 0 00000002", "E0314"},
      {"tensor 0 0000000000000002", "string \"two\"", "E0205"},
      {"attrs TupleGet index 0", "attrs TupleGet index 1", "E0315"},
      {"attrs TupleGet index 0", "attrs TupleGet inwards 0", "E0314"},
      {"attrs TupleGet index 0", "attrs TupleGet", "E0317"},
      {"attrs TupleGet index 0", "attrs Neg", "E0317"},
      {"attrs TupleGet index 0", "attrs TupleGet index @", "E0202"},
  };
  expect_lies(build_marks, sizeof marks / sizeof marks[0], marks);
  expect_lies(build_attrs, sizeof attrs / sizeof attrs[0], attrs);
  anf_module *m = build_marks(cx);
  anf_text o = {.cx = cx};
  expect_ok(anf_write_dat(m, &o), "marks");
  anf_text bad = patched(o.text, "a 1 Exp - - ", "a 1 Exp 0 - ");
  (void)refused(bad.text, bad.len);
  assert_true(anf_diag_at(d, 0)->line > 10); // the place is that of the line
  anf_text_free(&bad);
  anf_text_free(&o);
  anf_module_free(m);
}

/* t0 = (), t1 = (t0, t0), t2 = (t1, t1), ...: some bytes a line, and 2^40 parts. */
static void test_dat_shared_parts(void **state) {
  (void)state;
  anf_text o = {.cx = cx};
  o.cap = 1 << 16;
  o.text = (char *)anfi_raw(cx, NULL, 0, o.cap);
  o.len =
      (size_t)snprintf(o.text, o.cap,
                       ANFI_DAT_MAGIC "1\nstrings 0\ntexts 0\ntypes 0\nplaces 1\n0 0 - - - 0 -\n"
                                      "graphs 0\nconstants 41\nnone\n");
  for (int i = 0; i < 40; i++)
    o.len += (size_t)snprintf(o.text + o.len, o.cap - o.len, "tuple 2 %d %d\n", i, i);
  o.len +=
      (size_t)snprintf(o.text + o.len, o.cap - o.len, "nodes 1\nv 40 - 0\nresults 0\ncaptures 0\n");
  o.len += (size_t)snprintf(o.text + o.len, o.cap - o.len, ANFI_DAT_CHECKSUM "%016llx\n",
                            (unsigned long long)anfi_hash(o.text, o.len, 0));
  assert_string_equal(refused(o.text, o.len), "E0317");
  anf_text_free(&o);
}

static void test_dat_foreign(void **state) {
  (void)state;
  anf_module *m = anf_module_new(cx), *other = build_test_f(cx);
  anf_graph *g = anf_graph_new(m, "g");
  anfi_frame f;
  anfi_enter(cx, NULL, &f); // past the check of anf_constant
  anf_value *foreign = anf_graph_node(anf_module_graph(other, 0))->u.value;
  anfi_set_result(g, anfi_value(m, anf_value_retain(foreign)));
  anfi_leave(cx);
  anf_text o = {.cx = cx};
  anfi_enter(cx, d, &f); // so that the list is the one that the writer's frame inherits
  assert_int_equal(anf_write_dat(m, &o), ANF_INVALID);
  anfi_leave(cx);
  assert_string_equal(anf_diag_at(d, 0)->code, "E0318");
  anf_text_free(&o);
  anf_module_free(m), anf_module_free(other);
}

/* ---- every allocation may fail ---- */

static anf_status print_and_save(anf_ctx *c, void *user) {
  const sample *s = (const sample *)user;
  anf_module *m = s->build(c), *back = NULL;
  anf_text o = {.cx = c}, p = {.cx = c};
  anf_status st = m ? anf_module_status(m) : ANF_NOMEM;
  if (st == ANF_OK) st = anf_verify(m, NULL);
  if (st == ANF_OK) st = anf_print_ir(m, &o);
  if (st == ANF_OK) st = anf_write_dat(m, &p);
  if (st == ANF_OK) st = anf_read_dat(c, p.text, p.len, "a.dat", NULL, &back);
  anf_text_free(&o), anf_text_free(&p);
  anf_module_free(m), anf_module_free(back);
  return st;
}

/* The k-th allocation after the context is there fails, for every k until none is left to fail. */
static void expect_faults(const sample *s) {
  fault_heap h = {0};
  anf_ctx_opts o = {.size = sizeof o, .allocator = {fault_alloc, &h}};
  anf_ctx *c = anf_ctx_new(&o);
  bool more = true;
  for (uint64_t k = 1; more; k += 1 + k * k / 2 / FAULT_ALLOCATIONS) {
    h.countdown = k;
    h.refused = false;
    anf_status st = print_and_save(c, (void *)(uintptr_t)s);
    more = h.refused;
    if (st != (more ? ANF_NOMEM : ANF_OK))
      fail_msg("%s, allocation %d: %s", s->name, (int)k, anf_status_name(st));
  }
  assert_int_equal(anf_ctx_bytes(c), h.bytes);
  anf_ctx_free(c);
  assert_int_equal(h.bytes, 0);
}

static void test_faults(void **state) {
  (void)state;
  expect_faults(&samples[2]);
  expect_faults(&samples[7]); // not "marks": it works inside the library without a frame
}

/* The marks as docs/language.md writes them, so that a word cannot slip to its neighbour. */
static void test_marks(void **state) {
  (void)state;
  static const char *const pair[][2] = {
      {"✓f", "then_"},  {"✗f", "else_"}, {"↵f", "header_"}, {"↻f", "body_"},
      {"↓f", "after_"}, {"▶f", "fwd_"},  {"◀f", "bwd_"},    {"◁f", "adj_"},
      {"∂f", "jvp_"},   {"⇉f", "vmap_"}, {"✓✗f", "then_"},
  };
  size_t len;
  for (size_t i = 0; i < sizeof pair / sizeof *pair; i++) {
    const char *word = anfi_mark_word(pair[i][0], &len);
    assert_non_null(word);
    assert_string_equal(word, pair[i][1]);
    assert_int_equal(len, 3);
  }
  assert_null(anfi_mark_word("f✓", &len));
  assert_null(anfi_mark_word("", &len));
  assert_null(anfi_mark_word("\xe2\x9c", &len)); // the start of one
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_print, setup, teardown),
      cmocka_unit_test_setup_teardown(test_constants, setup, teardown),
      cmocka_unit_test_setup_teardown(test_shortened, setup, teardown),
      cmocka_unit_test_setup_teardown(test_text_round_trip, setup, teardown),
      cmocka_unit_test_setup_teardown(test_dat_round_trip, setup, teardown),
      cmocka_unit_test_setup_teardown(test_dat_nan, setup, teardown),
      cmocka_unit_test_setup_teardown(test_dat_damage, setup, teardown),
      cmocka_unit_test_setup_teardown(test_dat_lies, setup, teardown),
      cmocka_unit_test_setup_teardown(test_dat_shared_parts, setup, teardown),
      cmocka_unit_test_setup_teardown(test_dat_foreign, setup, teardown),
      cmocka_unit_test(test_marks),
      cmocka_unit_test_setup_teardown(test_faults, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
