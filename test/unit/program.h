// SPDX-License-Identifier: Apache-2.0
/* What tests of programs share: a context whose memory is counted, a module that graphs are built
 * in, runs that must succeed or fail with a code. Graphs are built with the C API, so that the text
 * language is not needed to test them. */
#ifndef ANF_TEST_PROGRAM_H
#define ANF_TEST_PROGRAM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "anfora/anfora.h"
#include "ir/ir.h"
#include "test/unit/fault.h"

#include <string.h>

#define NODES(...) ((anf_node *[]){__VA_ARGS__})
#define OP(g, name, ...)                                                                           \
  anf_op((g), (name), sizeof NODES(__VA_ARGS__) / sizeof(anf_node *), NODES(__VA_ARGS__))
#define CALL(g, f, ...)                                                                            \
  anf_call((g), (f), sizeof NODES(__VA_ARGS__) / sizeof(anf_node *), NODES(__VA_ARGS__))
#define CALL0(g, f) anf_call((g), (f), 0, NULL)

typedef struct world {
  anf_ctx *cx;
  anf_module *m;
  anf_diag *d;
  fault_heap heap; // fails nothing, counts bytes
  char printed[400];
} world;

static inline int setup(void **state) {
  world *w = calloc(1, sizeof *w);
  anf_ctx_opts o = {.size = sizeof o, .allocator = {fault_alloc, &w->heap}};
  w->cx = anf_ctx_new(&o);
  w->m = anf_module_new(w->cx);
  w->d = anf_diag_new(w->cx);
  *state = w;
  return w->d ? 0 : 1;
}

static inline int teardown(void **state) {
  world *w = *state;
  anf_diag_free(w->d);
  anf_module_free(w->m);
  anf_ctx_free(w->cx);
  bool clean = w->heap.bytes == 0;
  free(w);
  return clean ? 0 : 1;
}

static inline const anf_type *scalar(anf_ctx *cx, anf_dtype d) { return anf_type_scalar(cx, d); }

/* Runs g of the world's module on the arguments, which it takes. */
static inline anf_status run_opts(world *w, const anf_run_opts *o, anf_graph *g, size_t n,
                                  anf_value **args, anf_value **out) {
  assert_int_equal(anf_module_status(w->m), ANF_OK);
  anf_status st = anf_run(g, n, args, o, w->d, out);
  for (size_t i = 0; i < n; i++) anf_value_release(args[i]);
  return st;
}

static inline anf_value *run(world *w, anf_graph *g, size_t n, anf_value **args) {
  anf_value *v = NULL;
  anf_status st = run_opts(w, NULL, g, n, args, &v);
  if (st != ANF_OK) anf_diag_print(w->d, stderr, false);
  assert_int_equal(st, ANF_OK);
  return v;
}

static inline int64_t take_i64(anf_value *v) {
  assert_int_equal(anf_value_get_kind(v), ANF_VALUE_TENSOR);
  int64_t x = anf_value_get_i64(v, 0);
  anf_value_release(v);
  return x;
}

static inline int64_t run1(world *w, anf_graph *g, int64_t x) {
  return take_i64(run(w, g, 1, (anf_value *[]){anf_value_i64(w->cx, x)}));
}

/* The run fails with this code, first, and gives no value. */
static inline void run_fails(world *w, anf_graph *g, size_t n, anf_value **args, anf_status st,
                             const char *code) {
  anf_value *v = NULL;
  anf_diag_clear(w->d);
  assert_int_equal(run_opts(w, NULL, g, n, args, &v), st);
  assert_null(v);
  assert_true(anf_diag_count(w->d) > 0);
  assert_string_equal(anf_diag_at(w->d, 0)->code, code);
}

static inline const char *message(world *w, size_t i) {
  return i < anf_diag_count(w->d) ? anf_diag_at(w->d, i)->message : "";
}
static inline void says(world *w, size_t i, const char *part) {
  if (!strstr(message(w, i), part)) fail_msg("'%s' is not in '%s'", part, message(w, i));
}

static inline anf_value *pair(anf_ctx *cx, anf_value *a, anf_value *b) {
  anf_value *v = anf_value_tuple(cx, 2, (anf_value *[]){a, b});
  anf_value_release(a);
  anf_value_release(b);
  return v;
}

/* Value and type, as they are printed; takes the value. */
static inline void gives(anf_ctx *cx, anf_value *v, const char *value, const char *type) {
  anf_text t = {cx, NULL, 0, 0};
  assert_int_equal(anf_value_print(cx, v, 0, &t), ANF_OK);
  assert_string_equal(t.text, value);
  t.len = 0;
  assert_int_equal(anf_type_print(cx, anf_value_type(cx, v), &t), ANF_OK);
  assert_string_equal(t.text, type);
  anf_text_free(&t);
  anf_value_release(v);
}

static inline anf_value *num(world *w, int64_t x) { return anf_value_int(w->cx, x); }
/* func_outer(a, b) = fn (c) a + b + c */
static inline anf_graph *func_outer(anf_module *m) {
  anf_graph *outer = anf_graph_new(m, "func_outer"), *inner = anf_graph_new(m, "func_inner");
  anf_node *a = anf_param(outer, "a", NULL), *b = anf_param(outer, "b", NULL),
           *c = anf_param(inner, "c", NULL);
  anf_return(inner, OP(inner, "Add", OP(inner, "Add", a, b), c));
  anf_return(outer, anf_graph_node(inner));
  return outer;
}

static inline anf_graph *typed_identity(anf_module *m, const anf_type *t) {
  anf_graph *g = anf_graph_new(m, "id");
  anf_node *x = anf_param(g, "x", t);
  anf_node_set_loc(x, "t.anf", 1, 8);
  anf_return(g, x);
  return g;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
