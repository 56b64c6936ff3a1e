// SPDX-License-Identifier: Apache-2.0
/* C functions of the host in programs: interpreted and on every engine, with derivatives, effects and
 * what may be wrong with them. Expected values are those of C and of calculus done by hand. */
#include "anfora/host.h"
#include "test/unit/program.h"
#include "test/exec/text.h"

#include <math.h>

/* ---- what the host has ---- */

static double wave(double x) { return sin(3 * x); }
static double wave_back(double x, double y, double dy) { return (void)y, 3 * cos(3 * x) * dy; }

/* Gradients of dy * 3 cos(3 x) */
static double wave_twice(double x, double y, double dy, double r, double dr, double *to_y,
                         double *to_dy) {
  (void)y, (void)r;
  *to_y = 0;
  *to_dy = 3 * cos(3 * x) * dr;
  return -9 * sin(3 * x) * dy * dr;
}

static void scaled(int32_t n, float a, const float *x, float *out) {
  for (int32_t i = 0; i < n; i++) out[i] = a * x[i];
}
static float scaled_back(int64_t n, float a, const float *x, const float *dy, float *dx) {
  float da = 0;
  for (int64_t i = 0; i < n; i++) {
    da += x[i] * dy[i];
    dx[i] = a * dy[i];
  }
  return da;
}

static int8_t mixed(bool up, int8_t a, uint16_t b, const double *m, int64_t rows, int64_t cols,
                    double *rest) {
  *rest = m[(rows - 1) * cols + cols - 1] + b;
  return (int8_t)(up ? a + 1 : a - 1);
}

static int64_t count;
static int64_t tick(int64_t by) { return count += by; }
static void remember(int64_t x) { count = 10 * count + x; }

static int checked_root(double x, double *root) {
  *root = sqrt(x);
  return x < 0 ? 7 : 0;
}

/* Eighty arguments, more than a call passes in registers or an engine has in a fixed array. */
#define EIGHT(a)                                                                                   \
  int64_t a##0, int64_t a##1, int64_t a##2, int64_t a##3, int64_t a##4, int64_t a##5,              \
      int64_t a##6, int64_t a##7
#define SUM(a, k)                                                                                  \
  ((k)*a##0 + ((k) + 1) * a##1 + ((k) + 2) * a##2 + ((k) + 3) * a##3 + ((k) + 4) * a##4 +          \
   ((k) + 5) * a##5 + ((k) + 6) * a##6 + ((k) + 7) * a##7)
static int64_t many(EIGHT(a), EIGHT(b), EIGHT(c), EIGHT(d), EIGHT(e), EIGHT(f), EIGHT(g), EIGHT(h),
                    EIGHT(i), EIGHT(j)) {
  return SUM(a, 1) + SUM(b, 9) + SUM(c, 17) + SUM(d, 25) + SUM(e, 33) + SUM(f, 41) + SUM(g, 49) +
         SUM(h, 57) + SUM(i, 65) + SUM(j, 73);
}

/* {x, y}, (by, k) -> {sum: x + the sum of y, moved: (y + by, k + 1)} */
static double shift(int64_t n, double x, const double *y, double by, int64_t k, double *moved,
                    int64_t *next) {
  double sum = x;
  for (int64_t i = 0; i < n; i++) {
    sum += y[i];
    moved[i] = y[i] + by;
  }
  *next = k + 1;
  return sum;
}
static double shift_back(int64_t n, double dsum, const double *dmoved, double *dy, double *dby) {
  *dby = 0;
  for (int64_t i = 0; i < n; i++) {
    dy[i] = dsum + dmoved[i];
    *dby += dmoved[i];
  }
  return dsum;
}
static double norm2(double re, double im) { return re * re + im * im; }

#define AS_C(f) (void (*)(void))(f)

static const anf_host_op host_ops[] = {
    {.name = "wave", .type = "fn(f64) -> f64", .function = AS_C(wave), .vjp = "wave_back"},
    {.name = "wave_back",
     .type = "fn(f64, f64, f64) -> f64",
     .function = AS_C(wave_back),
     .vjp = "wave_twice"},
    {.name = "wave_twice",
     .type = "fn(f64, f64, f64, f64, f64) -> (f64, f64, f64)",
     .function = AS_C(wave_twice)},
    {.name = "scaled",
     .type = "fn(f32, f32[N]) -> f32[N]",
     .function = AS_C(scaled),
     .takes = "N:i32 0 1 out",
     .vjp = "scaled_back"},
    {.name = "scaled_back",
     .type = "fn(f32, f32[N], f32[N], f32[N]) -> (f32, f32[N])",
     .function = AS_C(scaled_back),
     .takes = "N 0 1 3 out"},
    {.name = "mixed",
     .type = "fn(bool, i8, u16, f64[R, C]) -> (i8, f64)",
     .function = AS_C(mixed),
     .takes = "0 1 2 3 R C out1",
     .vjp = "0"},
    {.name = "tick", .type = "fn(i64) -> i64", .function = AS_C(tick), .flags = ANF_HOST_EFFECT},
    {.name = "remember",
     .type = "fn(i64) -> ()",
     .function = AS_C(remember),
     .flags = ANF_HOST_EFFECT},
    {.name = "shift",
     .type = "fn({x: f64, y: f64[N]}, (f64, i64)) -> {sum: f64, moved: (f64[N], i64)}",
     .function = AS_C(shift),
     .takes = "N 0 1 2 3 out1 out2",
     .vjp = "shift_back"},
    {.name = "shift_back",
     .type = "fn(f64, f64[N], f64, i64, f64, f64[N], i64, f64, f64[N]) -> (f64, f64[N], f64)",
     .function = AS_C(shift_back),
     .takes = "N 7 8 out1 out2"},
    {.name = "norm2", .type = "fn((f64, f64)) -> f64", .function = AS_C(norm2)},
    {.name = "Root",
     .type = "fn(f64) -> f64",
     .function = AS_C(checked_root),
     .flags = ANF_HOST_STATUS},
};

static void register_all(anf_ctx *cx) {
  for (size_t i = 0; i < sizeof host_ops / sizeof *host_ops; i++) {
    anf_host_op op = host_ops[i];
    op.size = sizeof op;
    assert_int_equal(anf_op_register(cx, &op, NULL), ANF_OK);
  }
}

/* ---- running ---- */

enum { INTERPRETED = ANF_JIT_KIND_COUNT, WAYS };

static anf_status run_way(world *w, anf_graph *g, int way, size_t n, anf_value **args,
                          anf_value **out) {
  anf_exec *e = NULL;
  anf_exec_opts o = {.size = sizeof o, .kind = (anf_jit_kind)way};
  count = 0;
  if (way == INTERPRETED) return anf_run(g, n, args, NULL, w->d, out);
  anf_status st = anf_compile(g, &o, w->d, &e);
  if (st == ANF_OK) st = anf_exec_run(e, n, args, NULL, w->d, out);
  anf_exec_free(e);
  return st;
}

/* f of the program gives this, however it is run. Takes the arguments. */
static void everywhere(world *w, const char *text, size_t n, anf_value **args, const char *value,
                       const char *type) {
  anf_module *m = parsed(w, text);
  for (int way = 0; way < WAYS; way++) {
    anf_value *v = NULL;
    anf_status st = run_way(w, anf_module_find(m, "f"), way, n, args, &v);
    if (st != ANF_OK) anf_diag_print(w->d, stderr, false);
    assert_int_equal(st, ANF_OK);
    gives(w->cx, v, value, type);
  }
  for (size_t i = 0; i < n; i++) anf_value_release(args[i]);
  anf_module_free(m);
}

static void nowhere(world *w, const char *text, size_t n, anf_value **args, const char *code) {
  anf_module *m = parsed(w, text);
  for (int way = 0; way < WAYS; way++) {
    anf_value *v = NULL;
    anf_diag_clear(w->d);
    assert_int_not_equal(run_way(w, anf_module_find(m, "f"), way, n, args, &v), ANF_OK);
    assert_true(anf_diag_count(w->d) > 0);
    assert_string_equal(anf_diag_at(w->d, 0)->code, code);
  }
  for (size_t i = 0; i < n; i++) anf_value_release(args[i]);
  anf_module_free(m);
}

/* A number as values are printed. */
static void shown(world *w, double x, char *to, size_t room) {
  anf_text t = {.cx = w->cx};
  anf_value *v = anf_value_f64(w->cx, x);
  assert_int_equal(anf_value_print(w->cx, v, 0, &t), ANF_OK);
  snprintf(to, room, "%s", t.text);
  anf_text_free(&t);
  anf_value_release(v);
}

#define ARGS(...)                                                                                  \
  sizeof((anf_value *[]){__VA_ARGS__}) / sizeof(anf_value *), (anf_value *[]) { __VA_ARGS__ }

/* ---- tests ---- */

static void scalars(void **state) {
  world *w = *state;
  char text[40];
  register_all(w->cx);
  shown(w, wave(0.5) + 1, text, sizeof text);
  everywhere(w, "def f(x: f64) { wave(x) + 1 }", ARGS(value(w, "0.5")), text, "f64");
  everywhere(w, "def f(x: f64) { wave(0) }", ARGS(value(w, "0.5")), "0.0", "f64");
  everywhere(
      w,
      "def f(x: i64) { mixed(x > 1, Cast(x, dtype=i8), Cast(7, dtype=u16), [[1.0, 2], [3, 4]]) }",
      ARGS(value(w, "2")), "(3, 11.0)", "(i8, f64)");
  everywhere(w, "def twice(g, x) { g(g(x)) }\ndef f(x: f64) { twice(Root, x) }",
             ARGS(value(w, "16")), "2.0", "f64");
}

static void tensors(void **state) {
  world *w = *state;
  register_all(w->cx);
  everywhere(w, "def f(x: f64[3]) { scaled(2, Cast(x, dtype=f32)) + 1 }",
             ARGS(value(w, "[1.0, 2.0, 3.0]")), "[3.0, 5.0, 7.0]", "f32[3]");
  everywhere(w, "def f(x: f64[2, 3]) { vmap(fn (r) { scaled(2, r) })(Cast(x, dtype=f32)) }",
             ARGS(value(w, "[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]")),
             "[[2.0, 4.0, 6.0], [8.0, 10.0, 12.0]]", "f32[2, 3]");
}

static void derivatives(void **state) {
  world *w = *state;
  char text[40];
  register_all(w->cx);
  shown(w, 2 * wave(0.5) * 3 * cos(1.5), text, sizeof text);
  everywhere(w, "def f(x: f64) { grad(fn (x) { wave(x) * wave(x) })(x) }", ARGS(value(w, "0.5")),
             text, "f64");
  shown(w, 3 * cos(1.5) * 2, text, sizeof text);
  everywhere(w, "def f(x: f64) { jvp(wave, (x,), (2.0,))[1] }", ARGS(value(w, "0.5")), text, "f64");
  shown(w, -9 * wave(0.5), text, sizeof text);
  everywhere(w, "def f(x: f64) { grad(grad(wave))(x) }", ARGS(value(w, "0.5")), text, "f64");
  everywhere(w,
             "def loss(a, x) { Sum(scaled(a, x) * scaled(a, x)) }\n"
             "def f(x: f64[2]) { grad(loss, wrt=(0, 1))(Cast(3, dtype=f32), Cast(x, dtype=f32)) }",
             ARGS(value(w, "[1.0, 2.0]")), "(30.0, [18.0, 36.0])", "(f32, f32[2])");
  everywhere(w,
             "def g(x: f64) { x * mixed(x > 1, Cast(1, dtype=i8), Cast(2, dtype=u16), [[x]])[1] }\n"
             "def f(x: f64) { grad(g)(x) }",
             ARGS(value(w, "3.0")), "5.0", "f64");
  nowhere(w, "def f(x: f64) { grad(Root)(x) }", ARGS(value(w, "4.0")), "E0723");
}

/* Calls are as many as the program makes, in its order, also those whose result nobody needs. */
static void effects(void **state) {
  world *w = *state;
  register_all(w->cx);
  everywhere(w, "def f(x: i64) { tick(x); tick(x); tick(1) }", ARGS(value(w, "5")), "11", "i64");
  everywhere(w,
             "def f(n: i64) { i = 0; while i < n { if i % 2 == 0 { remember(i) } else { tick(1) }; "
             "i = i + 1 }; "
             "tick(0) }",
             ARGS(value(w, "5")), "134", "i64"); // 0, 1, 12, 13, 134
  nowhere(w, "def f(x: i64[3]) { vmap(tick)(x) }", ARGS(value(w, "[1, 2, 3]")), "E0536");
}

static void a_status_stops_the_program(void **state) {
  world *w = *state;
  register_all(w->cx);
  nowhere(w, "def f(x: f64) {\n  1 + Root(x)\n}", ARGS(value(w, "-4.0")), "E0444");
  assert_int_equal(anf_diag_at(w->d, 0)->line, 2);
  says(w, 0, "status 7");
}

static void wrong_arguments(void **state) {
  world *w = *state;
  register_all(w->cx);
  nowhere(w, "def f(x: f64[2]) { wave(x) }", ARGS(value(w, "[1.0, 2.0]")), "E0511");
  nowhere(w, "def f(x: i64) { wave(x) }", ARGS(value(w, "1")), "E0511");
  nowhere(w, "def f(x: f64) { wave(x, x) }", ARGS(value(w, "1.0")), "E0510");
  nowhere(w,
          "def f(x: f64[2]) { scaled_back(1, Cast(x, dtype=f32), Zeros((2,), dtype=f32), "
          "Zeros((3,), dtype=f32)) }",
          ARGS(value(w, "[1.0, 2.0]")), "E0511");
}

/* A program that is read where the host has not registered what it calls. */
static void the_host_must_have_it(void **state) {
  world *w = *state;
  nowhere(w, "def f(x: f64) { Host(x, name=\"wave\") }", ARGS(value(w, "1.0")), "E0230");
}

static void a_printed_program_is_read_again(void **state) {
  world *w = *state;
  anf_text t = {.cx = w->cx};
  register_all(w->cx);
  anf_module *m = parsed(w, "def f(x: f64) { twice = fn (g) { g(g(x)) }; twice(Root) }");
  assert_int_equal(anf_print_ir(m, &t), ANF_OK);
  everywhere(w, t.text, ARGS(value(w, "81.0")), "3.0", "f64");
  anf_text_free(&t);
  anf_module_free(m);
}

static void graphs_are_built_with_it(void **state) {
  world *w = *state;
  register_all(w->cx);
  anf_graph *g = anf_graph_new(w->m, "f");
  anf_node *x = anf_param(g, "x", scalar(w->cx, ANF_F64));
  anf_return(g, CALL(g, anf_op_node(w->m, "Root"), x));
  gives(w->cx, run(w, g, 1, (anf_value *[]){anf_value_f64(w->cx, 25)}), "5.0", "f64");
}

static void refused(world *w, anf_host_op op, const char *why) {
  op.size = sizeof op;
  anf_diag_clear(w->d);
  if (anf_op_register(w->cx, &op, w->d) != ANF_INVALID) fail_msg("%s is registered", op.name);
  assert_string_equal(anf_diag_at(w->d, 0)->code, "E0231");
  says(w, 0, why);
}

static void what_cannot_be_registered(void **state) {
  world *w = *state;
  void (*f)(void) = AS_C(wave);
  register_all(w->cx);
  refused(w, (anf_host_op){.name = "wave", .type = "fn(f64) -> f64", .function = f},
          "of that name");
  refused(w, (anf_host_op){.name = "Sin", .type = "fn(f64) -> f64", .function = f}, "of that name");
  refused(w, (anf_host_op){.name = "grad", .type = "fn(f64) -> f64", .function = f},
          "has a meaning");
  refused(w, (anf_host_op){.name = "a b", .type = "fn(f64) -> f64", .function = f}, "its name");
  refused(w, (anf_host_op){.name = "while", .type = "fn(f64) -> f64", .function = f}, "its name");
  refused(w, (anf_host_op){.type = "fn(f64) -> f64", .function = f}, "its name");
  refused(w, (anf_host_op){.name = "g", .type = "fn(f64) -> f64"}, "no function");
  refused(w, (anf_host_op){.name = "g", .type = "f64", .function = f}, "not that of a function");
  refused(
      w,
      (anf_host_op){
          .name = "g", .type = "fn((f64, f64)) -> f64", .function = f, .flags = ANF_HOST_EFFECT},
      "effects");
  refused(w, (anf_host_op){.name = "g", .type = "fn({a: str}) -> f64", .function = f},
          "an argument");
  refused(w, (anf_host_op){.name = "g", .type = "fn(str) -> f64", .function = f}, "an argument");
  refused(w, (anf_host_op){.name = "g", .type = "fn(f64) -> str", .function = f}, "the result");
  refused(w, (anf_host_op){.name = "g", .type = "fn(f64) -> f64[N]", .function = f},
          "a dim of the result");
  refused(w, (anf_host_op){.name = "g", .type = "fn(f64) -> f64", .function = f, .takes = "1"},
          "what it takes");
  refused(w,
          (anf_host_op){.name = "g", .type = "fn(f64[N]) -> f64", .function = f, .takes = "N:f32"},
          "what it takes");
  refused(w,
          (anf_host_op){.name = "g", .type = "fn(f64) -> (f64, f64)", .function = f, .takes = "0"},
          "no place");
  refused(w,
          (anf_host_op){
              .name = "g", .type = "fn(f64) -> f64[2]", .function = f, .takes = "0 out0 out0"},
          "twice");
  anf_host_op bad = {.size = sizeof bad, .name = "g", .type = "fn(", .function = f};
  assert_int_not_equal(anf_op_register(w->cx, &bad, NULL), ANF_OK);
}

/* One engine, two contexts, one name, two functions. */
static void an_engine_knows_one_function_of_a_name(void **state) {
  world *w = *state;
  anf_jit_engine *engine = NULL;
  anf_exec *e = NULL;
  register_all(w->cx);
  assert_int_equal(anf_jit_engine_new(w->cx, ANF_JIT_INTERP, NULL, w->d, &engine), ANF_OK);
  assert_int_equal(anf_jit_engine_define(engine, "wave", AS_C(wave_back)), ANF_OK);
  anf_module *m = parsed(w, "def f(x: f64) { wave(x) }");
  anf_exec_opts o = {.size = sizeof o, .engine = engine};
  assert_int_equal(anf_compile(anf_module_find(m, "f"), &o, w->d, &e), ANF_INVALID);
  assert_string_equal(anf_diag_at(w->d, 0)->code, "E0906");
  anf_exec_free(e);
  anf_jit_engine_free(engine);
  anf_module_free(m);
}

/* Records and tuples are taken apart and put together around the op of the leaves. */
static void records(void **state) {
  world *w = *state;
  register_all(w->cx);
  everywhere(w, "def f(x: f64[2]) { shift({x = 10.0, y = x}, (0.5, 7)) }",
             ARGS(value(w, "[1.0, 2.0]")), "{sum = 13.0, moved = ([1.5, 2.5], 8)}",
             "{sum: f64, moved: (f64[2], i64)}");
  everywhere(w, "def f(x: f64) { norm2((x, 3)) }", ARGS(value(w, "4.0")), "25.0", "f64");
  everywhere(w, "def apply(g, p) { g(p) }\ndef f(x: f64) { apply(norm2, (x, x)) }",
             ARGS(value(w, "2.0")), "8.0", "f64");
  everywhere(w,
             "def loss(p, by) { r = shift(p, by); 2 * r.sum + Sum(r.moved[0] * [3.0, 5.0]) }\n"
             "def f(x: f64[2]) { grad(loss, wrt=(0, 1), allow_int=true)({x = x[0], y = x}, (x[1], "
             "Cast(7, dtype=i64))) }",
             ARGS(value(w, "[1.0, 2.0]")), "({x = 2.0, y = [5.0, 7.0]}, (8.0, 0))",
             "({x: f64, y: f64[2]}, (f64, i64))");
  nowhere(w, "def f(x: f64) { norm2({re = x, im = x}) }", ARGS(value(w, "2.0")), "E1585");
  nowhere(w, "def f(x: f64) { norm2((x, x, x)) }", ARGS(value(w, "2.0")), "E1585");
  nowhere(w, "def f(x: f64) { norm2((x, [x])) }", ARGS(value(w, "2.0")), "E0511");
}

static void many_arguments(void **state) {
  world *w = *state;
  enum { ARGS = 80 };
  char type_text[600] = "fn(", call[2000] = "def f(n: i64) { many(";
  int64_t want = 0;
  for (int i = 0; i < ARGS; i++) {
    size_t n = strlen(call);
    strcat(type_text, i ? ", i64" : "i64");
    snprintf(call + n, sizeof call - n, "%sn * %d", i ? ", " : "", i % 7);
    want += (i + 1) * (3 * (i % 7));
  }
  strcat(type_text, ") -> i64");
  strcat(call, ") + many(");
  for (int i = 0; i < ARGS; i++) strcat(call, i ? ", 0" : "0");
  strcat(call, ") }");
  anf_host_op op = {.size = sizeof op, .name = "many", .type = type_text, .function = AS_C(many)};
  assert_int_equal(anf_op_register(w->cx, &op, w->d), ANF_OK);
  char value[32];
  snprintf(value, sizeof value, "%lld", (long long)want);
  anf_value *n = anf_value_i64(w->cx, 3);
  everywhere(w, call, 1, &n, value, "i64");
}

int main(void) {
  const struct CMUnitTest tests[] = {TEST(scalars),
                                     TEST(many_arguments),
                                     TEST(tensors),
                                     TEST(records),
                                     TEST(derivatives),
                                     TEST(effects),
                                     TEST(a_status_stops_the_program),
                                     TEST(wrong_arguments),
                                     TEST(the_host_must_have_it),
                                     TEST(a_printed_program_is_read_again),
                                     TEST(graphs_are_built_with_it),
                                     TEST(what_cannot_be_registered),
                                     TEST(an_engine_knows_one_function_of_a_name)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
