// SPDX-License-Identifier: Apache-2.0
/* Models through the C interface: every model of the fixtures against PyTorch's outputs, by every
 * engine, on one thread and on many; open shapes, several outputs, operators of a host, what is
 * refused, what happens when memory runs out. test_runtime FIXTURES */
#include "test/unit/program.h"

#include <dirent.h>
#include <math.h>

static const char *fixtures;

/* ---- models that pnnx wrote ---- */

typedef struct way {
  const char *name;
  bool interpret, parallel;
  anf_jit_kind kind;
} way;

static bool lost(const char *model, size_t output) {
  char path[1024], line[256], name[64];
  size_t at;
  bool found = false;
  snprintf(path, sizeof path, "%s/lost.txt", fixtures);
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  while (!found && fgets(line, sizeof line, f))
    found = sscanf(line, "%63s %zu", name, &at) == 2 && strcmp(name, model) == 0 && at == output;
  fclose(f);
  return found;
}

static anf_value *array(world *w, const char *model, const char *what, size_t i) {
  char path[1024];
  anf_value *v = NULL;
  snprintf(path, sizeof path, "%s/%s.%s%zu.npy", fixtures, model, what, i);
  FILE *f = fopen(path, "r");
  if (!f) return NULL;
  fclose(f);
  assert_int_equal(anf_load_npy(w->cx, path, w->d, &v), ANF_OK);
  return v;
}

static double at(const anf_value *v, size_t i, bool imaginary) {
  anf_dtype d = anf_value_dtype(v);
  if (d == ANF_C64) return (double)((const float *)anf_value_data(v))[2 * i + imaginary];
  if (d == ANF_C128) return ((const double *)anf_value_data(v))[2 * i + imaginary];
  return imaginary ? 0 : anf_value_get_f64(v, i);
}

/* Sums that cancel leave little of what the others have, so the bound is of an element, or of a
 * tenth of the greatest. */
static size_t different(const anf_value *got, const anf_value *want) {
  size_t n = anf_value_elements(want), bad = 0;
  bool complex = anf_value_dtype(want) == ANF_C64 || anf_value_dtype(want) == ANF_C128;
  double scale = 0;
  for (size_t i = 0; i < n; i++)
    if (isfinite(at(want, i, false))) scale = fmax(scale, fabs(at(want, i, false)));
  for (size_t i = 0; i < n; i++)
    for (int part = 0; part <= complex; part++) {
      double x = at(got, i, part), y = at(want, i, part);
      bool same = x == y || (isnan(x) && isnan(y));
      bad += !same && !(fabs(x - y) <= 1e-5 * fmax(fabs(y), 0.1 * scale));
    }
  return bad;
}

static void check_output(world *w, const anf_pnnx *p, const char *model, const char *by, size_t i) {
  anf_value *want = array(w, model, "out", i);
  const anf_value *got = anf_pnnx_output(p, i);
  if (!want) fail_msg("%s has no output %zu", model, i);
  if (!lost(model, i) &&
      anf_value_type(w->cx, want) != anf_value_type(w->cx, (anf_value *)(uintptr_t)got))
    fail_msg("%s by %s: the type of output %zu differs", model, by, i);
  size_t bad = lost(model, i) ? 0 : different(got, want);
  if (bad) fail_msg("%s by %s: %zu elements of output %zu differ", model, by, bad, i);
  anf_value_release(want);
}

static void good(world *w, anf_status st, const char *what) {
  if (st != ANF_OK) anf_diag_print(w->d, stderr, false);
  if (st != ANF_OK) fail_msg("%s: status %d", what, (int)st);
  anf_diag_clear(w->d);
}

static void check_model(world *w, const char *model, const way *by) {
  char path[1024];
  anf_pnnx *p = NULL;
  anf_exec_opts eo = {.size = sizeof eo, .kind = by->kind, .parallel = by->parallel};
  anf_pnnx_opts o = {.size = sizeof o, .exec = &eo, .interpret = by->interpret};
  snprintf(path, sizeof path, "%s/%s.pnnx.param", fixtures, model);
  good(w, anf_pnnx_load(w->cx, path, NULL, NULL, w->d, &p), path);
  for (size_t i = 0; i < anf_pnnx_input_count(p); i++) {
    anf_value *v = array(w, model, "in", i);
    good(w, anf_pnnx_set_input(p, i, v, w->d), path);
    anf_value_release(v);
  }
  good(w, anf_pnnx_build(p, &o, w->d), path);
  good(w, anf_pnnx_forward(p, w->d), path);
  size_t n = anf_pnnx_output_count(p);
  anf_value *more = array(w, model, "out", n);
  if (more) fail_msg("%s gives only %zu outputs", model, n);
  for (size_t i = 0; i < n; i++) check_output(w, p, model, by->name, i);
  anf_pnnx_free(p);
}

static void all_models(world *w, const way *by) {
  DIR *d = opendir(fixtures);
  size_t n = 0;
  assert_non_null(d);
  for (struct dirent *e = readdir(d); e; e = readdir(d)) {
    char name[256];
    snprintf(name, sizeof name, "%s", e->d_name);
    char *end = strstr(name, ".pnnx.param");
    if (!end || end[11]) continue;
    *end = 0;
    check_model(w, name, by);
    n++;
  }
  closedir(d);
  assert_true(n >= 15);
}

static void by_interpreter(void **state) {
  all_models(*state, &(way){.name = "the interpreter", .interpret = true});
}
static void by_llvm(void **state) {
  all_models(*state, &(way){.name = "llvm", .kind = ANF_JIT_LLVM});
}
static void by_llvm_parallel(void **state) {
  all_models(*state, &(way){.name = "llvm on all threads", .kind = ANF_JIT_LLVM, .parallel = true});
}
static void by_cjit(void **state) {
  all_models(*state, &(way){.name = "cjit", .kind = ANF_JIT_CJIT, .parallel = true});
}

/* ---- small models ---- */

static const way quick = {.name = "tir", .kind = ANF_JIT_INTERP};

static anf_pnnx *model(world *w, const char *text, const anf_pnnx_registry *r) {
  anf_pnnx *p = NULL;
  good(w, anf_pnnx_read(w->cx, text, strlen(text), "m.param", NULL, 0, r, w->d, &p), text);
  return p;
}

static void set(world *w, anf_pnnx *p, size_t i, size_t rank, const int64_t *dims, float *data) {
  anf_value *v = anf_value_tensor(w->cx, ANF_F32, rank, dims, data);
  good(w, anf_pnnx_set_input(p, i, v, w->d), "set_input");
  anf_value_release(v);
}

static void output_is(world *w, const anf_pnnx *p, size_t i, const char *value, const char *type) {
  anf_value *v = anf_value_retain((anf_value *)(uintptr_t)anf_pnnx_output(p, i));
  assert_non_null(v);
  gives(w->cx, v, value, type);
}

static const char PAIR[] = "7767517\n6 6\n"
                           "pnnx.Input a 0 1 a #a=(?,2)f32\n"
                           "pnnx.Input b 0 1 b #b=(?,2)f32\n"
                           "pnnx.Expression e 2 1 a b e expr=add(@0,mul(@1,2))\n"
                           "torch.sum s 1 1 e s\n"
                           "torch.chunk c 1 2 e c d chunks=2 dim=1\n"
                           "pnnx.Output o 4 0 e s c d\n";

static void one_shape(world *w, anf_pnnx *p, int64_t rows) {
  float a[] = {1, 2, 3, 4, 5, 6}, b[] = {10, 20, 30, 40, 50, 60};
  set(w, p, 0, 2, (int64_t[]){rows, 2}, a);
  set(w, p, 1, 2, (int64_t[]){rows, 2}, b);
  good(w, anf_pnnx_forward(p, w->d), "forward");
  assert_int_equal(anf_pnnx_output_count(p), 4);
  assert_null(anf_pnnx_output(p, 4));
}

/* Shapes change from run to run; each output has its own rank. */
static void open_shapes(void **state) {
  world *w = *state;
  anf_exec_opts eo = {.size = sizeof eo, .kind = quick.kind};
  anf_pnnx_opts o = {.size = sizeof o, .exec = &eo};
  anf_pnnx *p = model(w, PAIR, NULL);
  for (int interpret = 0; interpret < 2; interpret++) {
    o.interpret = interpret;
    good(w, anf_pnnx_build(p, &o, w->d), "build of open shapes");
    for (int turn = 0; turn < 2; turn++) {
      one_shape(w, p, 1);
      output_is(w, p, 0, "[[21.0, 42.0]]", "f32[1, 2]");
      output_is(w, p, 1, "63.0", "f32");
      one_shape(w, p, 2);
      output_is(w, p, 1, "210.0", "f32");
      output_is(w, p, 2, "[[21.0], [63.0]]", "f32[2, 1]");
      output_is(w, p, 3, "[[42.0], [84.0]]", "f32[2, 1]");
    }
    for (int64_t rows = 3; rows > 0; rows--) one_shape(w, p, rows);
  }
  anf_pnnx_free(p);
}

/* More shapes than are kept. */
static void many_shapes(void **state) {
  world *w = *state;
  anf_pnnx_opts o = {.size = sizeof o, .interpret = true};
  anf_pnnx *p = model(w, PAIR, NULL);
  float zeros[100] = {0};
  good(w, anf_pnnx_build(p, &o, w->d), "build");
  for (int turn = 0; turn < 2; turn++)
    for (int64_t rows = 1; rows < 20; rows++) {
      set(w, p, 0, 2, (int64_t[]){rows, 2}, zeros);
      set(w, p, 1, 2, (int64_t[]){rows, 2}, zeros);
      good(w, anf_pnnx_forward(p, w->d), "forward");
      assert_int_equal(anf_value_dim(anf_pnnx_output(p, 0), 0), rows);
    }
  anf_pnnx_free(p);
}

static void refused(world *w, anf_status st, const char *code) {
  assert_int_equal(st, ANF_INVALID);
  assert_string_equal(anf_diag_at(w->d, 0)->code, code);
  anf_diag_clear(w->d);
}

static void misuse(void **state) {
  world *w = *state;
  anf_pnnx *p = model(w, PAIR, NULL);
  anf_pnnx_opts o = {.size = sizeof o, .interpret = true};
  assert_int_equal(anf_pnnx_output_count(p), 0);
  assert_null(anf_pnnx_output(p, 0));
  assert_null(anf_pnnx_input_name(p, 2));
  assert_null(anf_pnnx_op_at(p, 6));
  assert_null(anf_pnnx_weight_name(p, 0));
  assert_null(anf_pnnx_weight(p, 0));
  refused(w, anf_pnnx_forward(p, w->d), "E1058");
  anf_value *v = anf_value_i64(w->cx, 3);
  refused(w, anf_pnnx_set_input(p, 2, v, w->d), "E1057");
  refused(w, anf_pnnx_set_input(p, 0, v, w->d), "E1059");
  anf_value_release(v);
  v = anf_value_tuple(w->cx, 0, NULL);
  refused(w, anf_pnnx_set_input(p, 0, v, w->d), "E1059");
  anf_value_release(v);
  good(w, anf_pnnx_build(p, &o, w->d), "build");
  one_shape(w, p, 1);
  set(w, p, 1, 2, (int64_t[]){3, 2}, (float[6]){0}); // does not fit the other input
  assert_int_equal(anf_pnnx_forward(p, w->d), ANF_OK);
  set(w, p, 1, 2, (int64_t[]){2, 2}, (float[4]){0});
  set(w, p, 0, 2, (int64_t[]){3, 2}, (float[6]){0});
  assert_int_equal(anf_pnnx_forward(p, w->d), ANF_INVALID);
  assert_int_equal(anf_pnnx_output_count(p), 0); // none of the run before
  anf_diag_clear(w->d);
  one_shape(w, p, 2);
  anf_pnnx_free(p);
}

/* Long enough for many threads, and no multiple of the ranges that loops are cut into. */
static void long_tensors(void **state) {
  enum { N = 100003 };
  world *w = *state;
  static float data[N];
  for (size_t i = 0; i < N; i++) data[i] = (float)(i % 1000);
  anf_exec_opts eo = {.size = sizeof eo, .kind = ANF_JIT_LLVM, .parallel = true};
  anf_pnnx_opts o = {.size = sizeof o, .exec = &eo};
  anf_pnnx *p = model(w,
                      "7767517\n3 2\npnnx.Input x 0 1 0 #0=(?)f32\n"
                      "pnnx.Expression e 1 1 0 1 expr=add(mul(@0,2.0),1)\npnnx.Output y 1 0 1\n",
                      NULL);
  set(w, p, 0, 1, (int64_t[]){N}, data);
  good(w, anf_pnnx_build(p, &o, w->d), "build");
  good(w, anf_pnnx_forward(p, w->d), "forward");
  for (size_t i = 0; i < N; i++)
    assert_true(anf_value_get_f64(anf_pnnx_output(p, 0), i) == 2.0 * (double)(i % 1000) + 1);
  anf_pnnx_free(p);
}

static void count_operands(void *user, const char *operand, const anf_pnnx_op *op,
                           const anf_value *v) {
  char *said = user;
  assert_int_equal(anf_value_get_kind(v), ANF_VALUE_TENSOR);
  snprintf(said + strlen(said), 200 - strlen(said), "%s:%s ", operand, anf_pnnx_op_type(op));
}

static void debugging(void **state) {
  world *w = *state;
  char said[200] = "";
  anf_exec_opts eo = {.size = sizeof eo, .kind = quick.kind};
  anf_pnnx_opts o = {.size = sizeof o, .exec = &eo, .debug = count_operands, .user = said};
  anf_pnnx *p = model(w, PAIR, NULL);
  good(w, anf_pnnx_build(p, &o, w->d), "build");
  one_shape(w, p, 2);
  assert_string_equal(said, "a:pnnx.Input b:pnnx.Input e:pnnx.Expression s:torch.sum "
                            "c:torch.chunk d:torch.chunk ");
  output_is(w, p, 1, "210.0", "f32");
  anf_pnnx_free(p);
}

/* ---- operators of a host ---- */

/* x * scale + shift, where `scale` is a parameter and `shift` a list of one */
static anf_status make_affine(void *user, const anf_pnnx_op *op, anf_graph *g, size_t nin,
                              anf_node *const *in, size_t nout, anf_node **out) {
  double scale, shift;
  int *calls = user;
  (*calls)++;
  if (nin != 1 || nout != 1) return anf_pnnx_fail(op, "it has one input and one output");
  if (anf_pnnx_op_reals(op, "scale", 1, &scale) != 1)
    return anf_pnnx_fail(op, "the parameter scale is a number");
  if (anf_pnnx_op_reals(op, "shift", 1, &shift) == 0) shift = 0;
  anf_module *m = anf_graph_module(g);
  anf_node *by[] = {in[0], anf_float(m, scale)};
  anf_node *sum[] = {anf_op(g, "Mul", 2, by), anf_float(m, shift)};
  out[0] = anf_op(g, "Add", 2, sum);
  return ANF_OK;
}

static anf_status make_nothing(void *user, const anf_pnnx_op *op, anf_graph *g, size_t nin,
                               anf_node *const *in, size_t nout, anf_node **out) {
  (void)user, (void)op, (void)g, (void)nin, (void)in, (void)nout;
  out[0] = NULL;
  return ANF_OK;
}

static anf_status make_wrong(void *user, const anf_pnnx_op *op, anf_graph *g, size_t nin,
                             anf_node *const *in, size_t nout, anf_node **out) {
  (void)user, (void)op, (void)nin, (void)nout;
  out[0] = anf_op(g, "NoSuchOp", 1, in);
  return ANF_OK;
}

static const char AFFINE[] = "7767517\n4 3\n"
                             "pnnx.Input a 0 1 a #a=(2)f32\n"
                             "my.Affine f 1 1 a f scale=3 shift=(0.5)\n"
                             "nn.ReLU r 1 1 f r\n"
                             "pnnx.Output o 1 0 r\n";

static void own_operators(void **state) {
  world *w = *state;
  int calls = 0;
  anf_pnnx_registry *r = anf_pnnx_registry_new(w->cx);
  assert_int_equal(anf_pnnx_register(r, "my.Affine", make_nothing, NULL), ANF_OK);
  assert_int_equal(anf_pnnx_register(r, "my.Affine", make_affine, &calls), ANF_OK); // replaces it
  assert_int_equal(anf_pnnx_register(r, NULL, make_affine, NULL), ANF_INVALID);
  assert_int_equal(anf_pnnx_register(r, "my.Affine", NULL, NULL), ANF_INVALID);
  anf_pnnx *p = model(w, AFFINE, r);
  anf_exec_opts eo = {.size = sizeof eo, .kind = quick.kind};
  anf_pnnx_opts o = {.size = sizeof o, .exec = &eo};
  good(w, anf_pnnx_build(p, &o, w->d), "build");
  set(w, p, 0, 1, (int64_t[]){2}, (float[]){2, -1});
  good(w, anf_pnnx_forward(p, w->d), "forward");
  output_is(w, p, 0, "[6.5, 0.0]", "f32[2]");
  assert_int_equal(calls, 1);
  anf_pnnx_free(p);
  anf_pnnx_registry_free(r);
}

static void failing_operator(world *w, anf_pnnx_creator make, const char *text, const char *code,
                             const char *why) {
  anf_pnnx_registry *r = anf_pnnx_registry_new(w->cx);
  anf_module *m = NULL;
  int calls = 0;
  assert_int_equal(anf_pnnx_register(r, "my.Affine", make, &calls), ANF_OK);
  anf_pnnx *p = model(w, text, r);
  assert_int_not_equal(anf_pnnx_module(p, NULL, w->d, &m), ANF_OK);
  assert_null(m);
  assert_string_equal(anf_diag_at(w->d, 0)->code, code);
  assert_int_equal(anf_diag_at(w->d, 0)->line, 4);
  says(w, 0, why);
  anf_diag_clear(w->d);
  anf_pnnx_free(p);
  anf_pnnx_registry_free(r);
}

static void failing_operators(void **state) {
  world *w = *state;
  failing_operator(w, make_nothing, AFFINE, "E1055", "no result");
  failing_operator(w, make_wrong, AFFINE, "E1055", "NoSuchOp");
  failing_operator(w, make_affine,
                   "7767517\n3 2\npnnx.Input a 0 1 a #a=(2)f32\nmy.Affine f 1 1 a f scale=big\n"
                   "pnnx.Output o 1 0 f\n",
                   "E1055", "scale is a number");
}

/* ---- when memory runs out ---- */

static anf_status load_and_run(anf_ctx *cx, void *user) {
  anf_pnnx *p = NULL;
  anf_pnnx_opts o = {.size = sizeof o, .interpret = user == NULL};
  anf_exec_opts eo = {.size = sizeof eo, .kind = ANF_JIT_INTERP};
  o.exec = &eo;
  float data[] = {1, 2};
  anf_value *v = NULL;
  anf_status st = anf_pnnx_read(cx, PAIR, sizeof PAIR - 1, "m.param", NULL, 0, NULL, NULL, &p);
  if (st == ANF_OK)
    st = (v = anf_value_tensor(cx, ANF_F32, 2, (int64_t[]){1, 2}, data)) ? ANF_OK : ANF_NOMEM;
  for (size_t i = 0; i < 2 && st == ANF_OK; i++) st = anf_pnnx_set_input(p, i, v, NULL);
  if (st == ANF_OK) st = anf_pnnx_build(p, &o, NULL);
  if (st == ANF_OK) st = anf_pnnx_forward(p, NULL);
  anf_value_release(v);
  anf_pnnx_free(p);
  return st;
}

static anf_status expression(anf_ctx *cx, void *user) {
  const char *text = user;
  anf_expr *e = NULL;
  anf_value *out = NULL, *in = anf_value_f32(cx, 2);
  anf_status st = in ? anf_expr_parse(cx, text, strlen(text), 1, NULL, &e) : ANF_NOMEM;
  if (st == ANF_OK) st = anf_expr_eval(e, 1, 1, &in, NULL, &out);
  anf_value_release(in);
  anf_value_release(out);
  anf_expr_free(e);
  return st;
}

static void out_of_memory(void **state) {
  (void)state;
  fault_loop(load_and_run, NULL);
  fault_loop(expression, (void *)(uintptr_t) "logaddexp(mul(@0,2),add(@0,,3))");
  fault_loop(expression, (void *)(uintptr_t) "[add(@0,1),[1,None,2.5]]");
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(by_interpreter, setup, teardown),
      cmocka_unit_test_setup_teardown(by_llvm, setup, teardown),
      cmocka_unit_test_setup_teardown(by_llvm_parallel, setup, teardown),
      cmocka_unit_test_setup_teardown(by_cjit, setup, teardown),
      cmocka_unit_test_setup_teardown(open_shapes, setup, teardown),
      cmocka_unit_test_setup_teardown(many_shapes, setup, teardown),
      cmocka_unit_test_setup_teardown(long_tensors, setup, teardown),
      cmocka_unit_test_setup_teardown(misuse, setup, teardown),
      cmocka_unit_test_setup_teardown(debugging, setup, teardown),
      cmocka_unit_test_setup_teardown(own_operators, setup, teardown),
      cmocka_unit_test_setup_teardown(failing_operators, setup, teardown),
      cmocka_unit_test(out_of_memory),
  };
  fixtures = argc > 1 ? argv[1] : "test/fixtures/pnnx";
  return cmocka_run_group_tests(tests, NULL, NULL);
}
