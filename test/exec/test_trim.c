// SPDX-License-Identifier: Apache-2.0
/* anf_ctx_trim: a context that compiles programs of ever new shapes, names and symbols stays as large as it is, and what
 * is in use goes on working. The first argument is the number of programs. */
#include "anfora/host.h"
#include "anfora/pnnx.h"
#include "anfora/step.h"
#include "test/unit/program.h"

static int programs = 1000;

static anf_graph *parsed(anf_ctx *cx, const char *text, const char *file, anf_module **m) {
  anf_status st = anf_parse(cx, text, file, NULL, m);
  if (st != ANF_OK) anf_diag_print(anf_ctx_diag(cx), stderr, false);
  assert_int_equal(st, ANF_OK);
  return anf_module_find(*m, "f");
}

static anf_value *ones(anf_ctx *cx, size_t rank, const int64_t *dims) {
  double x[4096];
  size_t n = 1;
  for (size_t i = 0; i < rank; i++) n *= (size_t)dims[i];
  assert_true(n <= 4096);
  for (size_t i = 0; i < n; i++) x[i] = 1;
  return anf_value_tensor(cx, ANF_F64, rank, dims, x);
}

/* A program that no other one shares a shape, a field, a symbol or a file's name with. */
static void run_one(anf_ctx *cx, anf_jit_engine *engine, int i) {
  char text[240], file[32];
  int64_t dims[4] = {1 + i % 17, 1 + i / 17 % 19, 1 + i / 323 % 5, 1};
  snprintf(file, sizeof file, "request-%d.anf", i);
  snprintf(text, sizeof text,
           "def f(x) { r = {a%d = x, b%d = (x, x + %d.0)}; Sum(r.b%d[0]) + %d.0 }\n"
           "def g(x: f64[N%d]) { x }\n",
           i, i, i, i, i, i);
  anf_module *m = NULL;
  anf_graph *g = parsed(cx, text, file, &m);
  anf_value *x = ones(cx, 4, dims), *y = NULL;
  anf_exec *e = NULL;
  anf_exec_opts o = {.size = sizeof o, .engine = engine};
  bool compiled = i % 50 == 0;
  anf_status st = compiled ? anf_compile(g, &o, NULL, &e) : anf_run(g, 1, &x, NULL, NULL, &y);
  if (st == ANF_OK && compiled) st = anf_exec_run(e, 1, &x, NULL, NULL, &y);
  if (st != ANF_OK) anf_diag_print(anf_ctx_diag(cx), stderr, false);
  assert_int_equal(st, ANF_OK);
  double sum = (double)(dims[0] * dims[1] * dims[2]);
  assert_true(anf_value_get_f64(y, 0) == sum + i);
  anf_exec_free(e);
  anf_value_release(x);
  anf_value_release(y);
  anf_module_free(m);
}

enum { EVERY = 100 };

static void stays_as_large(void **state) {
  (void)state;
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_jit_engine *engine = NULL;
  anf_jit_opts o = {.size = sizeof o, .level = ANF_JIT_O0};
  assert_int_equal(anf_jit_engine_new(cx, ANF_JIT_LLVM, &o, NULL, &engine), ANF_OK);
  size_t middle = 0, freed = 0;
  for (int i = 0; i < programs; i++) {
    run_one(cx, engine, i);
    if (i % EVERY == EVERY - 1) freed = anf_ctx_trim(cx);
    if (i == programs / 2 - 1) middle = anf_ctx_bytes(cx);
  }
  printf("# %zu bytes at the end, %zu in the middle; the last trim freed %zu\n", anf_ctx_bytes(cx),
         middle, freed);
  assert_true(freed > EVERY * 100);
  assert_true(anf_ctx_bytes(cx) <= middle + middle / 1000);
  anf_jit_engine_free(engine);
  anf_ctx_free(cx);
}

/* One compiled function that is called with ever new shapes. */
static void one_function_of_all_shapes(void **state) {
  (void)state;
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_module *m = NULL;
  anf_exec *e = NULL;
  anf_exec_opts o = {.size = sizeof o, .kind = ANF_JIT_INTERP, .max_compiled = 4};
  anf_graph *g = parsed(cx, "def f(x, y) { {a = Sum(x), b = y} }", "f.anf", &m);
  assert_int_equal(anf_compile(g, &o, NULL, &e), ANF_OK);
  size_t bytes = 0;
  for (int i = 0; i < 1200; i++) {
    int64_t dims[3] = {1 + i % 10, 1 + i / 10 % 10, 1 + i / 100};
    anf_value *in[2] = {ones(cx, 3, dims), ones(cx, 2, dims)}, *y = NULL;
    assert_int_equal(anf_exec_run(e, 2, in, NULL, NULL, &y), ANF_OK);
    assert_true(anf_value_get_f64(anf_value_field(y, "a"), 0) ==
                (double)(dims[0] * dims[1] * dims[2]));
    for (int k = 0; k < 2; k++) anf_value_release(in[k]);
    anf_value_release(y);
    if (i % EVERY == EVERY - 1) anf_ctx_trim(cx);
    if (i == 799) bytes = anf_ctx_bytes(cx);
  }
  printf("# %zu bytes at the end, %zu before\n", anf_ctx_bytes(cx), bytes);
  assert_true(anf_ctx_bytes(cx) <= bytes + bytes / 50);
  anf_text why = {.cx = cx};
  assert_int_equal(anf_exec_explain(e, &why), ANF_OK);
  assert_true(why.len < 40000 && strstr(why.text, "\n1200. (f64[10, 10, 12], f64[10, 10])"));
  assert_true(strtol(why.text, NULL, 10) > 600); // begins with a line
  anf_text_free(&why);
  anf_exec_free(e);
  anf_module_free(m);
  anf_ctx_free(cx);
}

/* ---- what is in use ---- */

static anf_status twice(void *user, anf_ctx *cx, size_t n, const anf_type *const *types,
                        anf_diag *d, anf_graph **out) {
  anf_module *m = NULL;
  (void)n, (void)types;
  ++*(int *)user;
  anf_status st = anf_parse(cx, "def twice(x) { x + x }", "twice.anf", d, &m);
  if (st == ANF_OK) *out = anf_module_find(m, "twice");
  return st;
}

static double number(anf_value *v) {
  double x = anf_value_get_f64(v, 0);
  anf_value_release(v);
  return x;
}

static anf_value *run_with(anf_exec *e, anf_value *x) {
  anf_value *y = NULL;
  assert_int_equal(anf_exec_run(e, 1, &x, NULL, NULL, &y), ANF_OK);
  return y;
}

/* Others' programs come and go in between, in the memory of what was freed. */
static void trim_hard(anf_ctx *cx, anf_jit_engine *engine) {
  for (int i = 0; i < 3; i++) {
    for (int k = 0; k < 20; k++) run_one(cx, engine, 1 + 20 * i + k);
    anf_ctx_trim(cx);
  }
}

static void modules_and_code_stay(void **state) {
  (void)state;
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_module *m = NULL;
  anf_exec *e = NULL;
  const char *text = "def f(x: f64[Rows, 3]) { r = {seldom = x, often = Sum(x)}; (r, r.often) }\n";
  anf_graph *g = parsed(cx, text, "a name.anf", &m);
  int64_t dims[2] = {5, 3};
  anf_value *x = ones(cx, 2, dims), *y = NULL;
  assert_int_equal(anf_compile(g, NULL, NULL, &e), ANF_OK);
  anf_value *first = run_with(e, x);
  trim_hard(cx, NULL);
  y = run_with(e, x);
  assert_int_equal(anf_exec_compilations(e), 1);
  assert_ptr_equal(anf_value_type(cx, y), anf_value_type(cx, first));
  assert_true(anf_value_get_f64(anf_value_field(anf_value_at(y, 0), "often"), 0) == 15);
  anf_text out = {.cx = cx};
  assert_int_equal(anf_print_ir(m, &out), ANF_OK);
  assert_non_null(strstr(out.text, "x: f64[Rows, 3]"));
  const anf_node *p = anf_graph_param(g, 0);
  assert_string_equal(anf_dim_name(cx, anf_type_dim(anf_node_type(p), 0)), "Rows");
  assert_string_equal(anf_type_field(anf_value_type(cx, anf_value_at(first, 0)), 0), "seldom");
  anf_text_free(&out);
  anf_value_release(first);
  anf_value_release(y);
  anf_value_release(x);
  anf_exec_free(e);
  anf_module_free(m);
  anf_ctx_free(cx);
}

static void steps_stay(void **state) {
  (void)state;
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_module *m = NULL;
  anf_step *s = NULL;
  const char *text = "def f(p: {weight: f64[3]}, x: f64[4, 3]) {\n"
                     "  def loss(p) { Mean(x @ p.weight) }\n"
                     "  (l, d) = value_and_grad(loss)(p)\n"
                     "  ({weight = p.weight - d.weight}, {loss = l, rows = x @ p.weight})\n}\n";
  anf_graph *g = parsed(cx, text, "step.anf", &m);
  assert_int_equal(anf_step_new(g, 1, 0, NULL, NULL, NULL, &s), ANF_OK);
  for (int i = 0; i < 3; i++) {
    trim_hard(cx, NULL);
    assert_int_equal(anf_step_run(s, NULL), ANF_OK);
    assert_true(anf_step_number(s, "loss") == 0);
  }
  anf_step_free(s);
  anf_module_free(m);
  anf_ctx_free(cx);
}

/* The graphs that a generator made are made anew, except those that a program has. */
static void generators_forget(void **state) {
  (void)state;
  int calls = 0;
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_meta_op op = {.size = sizeof op, .name = "twice", .generate = twice, .user = &calls};
  assert_int_equal(anf_meta_register(cx, &op, NULL), ANF_OK);
  anf_module *m = NULL;
  anf_exec *e = NULL;
  anf_graph *g = parsed(cx, "def f(x) { Sum(twice(x)) }", "t.anf", &m);
  assert_int_equal(anf_compile(g, NULL, NULL, &e), ANF_OK);
  size_t bytes = 0;
  for (int i = 0; i < 8; i++) {
    int64_t dims[1] = {i % 4 + 1};
    anf_value *x = ones(cx, 1, dims);
    assert_true(number(run_with(e, x)) == 2.0 * (double)dims[0]);
    anf_value_release(x);
    if (i == 3) assert_int_equal(calls, 4);
    if (i == 3) bytes = anf_ctx_bytes(cx);
    if (i == 3) assert_true(anf_ctx_trim(cx) > 0);
    if (i == 3) assert_true(anf_ctx_bytes(cx) < bytes);
  }
  assert_int_equal(calls, 4); // the code is there
  anf_exec_free(e);
  anf_module_free(m);
  anf_ctx_trim(cx);
  m = NULL;
  g = parsed(cx, "def f(x) { Sum(twice(x)) }", "t.anf", &m);
  int64_t dims[1] = {2};
  anf_value *x = ones(cx, 1, dims), *y = NULL;
  for (int i = 0; i < 2; i++) {
    assert_int_equal(anf_run(g, 1, &x, NULL, NULL, &y), ANF_OK);
    assert_true(number(y) == 4);
    assert_true(calls >= 5);
    anf_ctx_trim(cx);
  }
  anf_value_release(x);
  anf_module_free(m);
  anf_ctx_free(cx);
}

/* A symbol's number and a name are used again for others, and types with them differ. A trim may leave what a stale word of
 * memory refers to, so a few numbers take turns. */
static void names_are_used_again(void **state) {
  (void)state;
  anf_ctx *cx = anf_ctx_new(NULL);
  int64_t kept[1] = {anf_dim_symbol(cx, "Kept")};
  const anf_type *t = anf_type_tensor(cx, ANF_F32, 1, kept);
  anf_module *m = anf_module_new(cx);
  anf_graph *g = anf_graph_new(m, "f");
  anf_return(g, anf_param(g, "x", t));
  for (int i = 0; i < 50; i++) {
    char name[16];
    snprintf(name, sizeof name, "S%d", i);
    int64_t dim[1] = {anf_dim_symbol(cx, name)};
    assert_string_equal(anf_dim_name(cx, dim[0]), name);
    assert_true(anf_type_tensor(cx, ANF_F32, 1, dim) != t);
    assert_true(anf_type_tensor(cx, ANF_F32, 1, kept) == t);
    assert_string_equal(anf_dim_name(cx, kept[0]), "Kept");
    anf_ctx_trim(cx);
    assert_true(dim[0] >= kept[0] - 4);
  }
  anf_module_free(m);
  anf_ctx_free(cx);
}

static bool trims(void *user, const char *what, double done) {
  (void)what, (void)done;
  return anf_ctx_trim(*(anf_ctx **)user) == 0;
}

static void not_within_a_call(void **state) {
  (void)state;
  anf_ctx *cx = NULL;
  anf_ctx_opts o = {.size = sizeof o, .progress = trims, .progress_user = &cx};
  cx = anf_ctx_new(&o);
  run_one(cx, NULL, 50);
  run_one(cx, NULL, 51);
  assert_int_equal(anf_ctx_trim(NULL), 0);
  anf_ctx_free(cx);
}

/* Whichever allocation of a trim fails, the context is whole, and the next one frees all the same. */
static void memory_ends(void **state) {
  (void)state;
  for (long at = 0; at < 200; at++) {
    fault_heap heap = {0};
    anf_ctx_opts o = {.size = sizeof o, .allocator = {fault_alloc, &heap}};
    anf_ctx *cx = anf_ctx_new(&o);
    for (int i = 1; i < 20; i++) run_one(cx, NULL, i);
    anf_module *m = NULL;
    anf_graph *g = parsed(cx, "def f(x: f64[Rows]) { {often = Sum(x)} }", "m.anf", &m);
    heap.countdown = (uint64_t)at + 1;
    anf_ctx_trim(cx);
    heap.countdown = 0;
    anf_ctx_trim(cx);
    for (int i = 1; i < 20; i++) run_one(cx, NULL, i);
    int64_t dims[1] = {3};
    anf_value *x = ones(cx, 1, dims), *y = NULL;
    assert_int_equal(anf_run(g, 1, &x, NULL, NULL, &y), ANF_OK);
    assert_true(anf_value_get_f64(anf_value_field(y, "often"), 0) == 3);
    anf_value_release(x);
    anf_value_release(y);
    anf_module_free(m);
    anf_ctx_free(cx);
    assert_int_equal(heap.bytes, 0);
    if (!heap.refused) return;
  }
  fail();
}

int main(int argc, char **argv) {
  if (argc > 1) programs = atoi(argv[1]);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(stays_as_large),        cmocka_unit_test(one_function_of_all_shapes),
      cmocka_unit_test(modules_and_code_stay), cmocka_unit_test(steps_stay),
      cmocka_unit_test(generators_forget),     cmocka_unit_test(names_are_used_again),
      cmocka_unit_test(not_within_a_call),     cmocka_unit_test(memory_ends),
  };
  cmocka_set_message_output(CM_OUTPUT_TAP);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
