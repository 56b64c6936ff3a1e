// SPDX-License-Identifier: Apache-2.0
/* Derivatives from C: the options of anf_grad, transforms as ops that a builder applies, orders, what
 * is refused, depth, linear work, tail calls without optimisation, threads side by side. Values are worked out by hand. */
#include "test/unit/fault.h"
#include "test/unit/program.h"

#include <pthread.h>

static const char TEXT[] =
    "def f(x: f64, y: f64, n: i64) { s = x * x * y; while n > 0 { s = s * y; n = n - 1 }; s }\n"
    "def aux(x: f64) { (x * x, {twice = 2.0 * x, n = 7}) }\n"
    "def both(x: f64, y: f64) { x * x * y }\n"
    "def sums(w: f64[3]) { Sum(w * w) }\n"
    "def extra(x: f64) { (x * x, {twice = 2.0 * x}) }\n"
    "def squares(w: f64[3]) { w * w }\n"
    "def pair(x: f64) { (x, x) }\n";

static anf_module *parsed(world *w) {
  anf_module *m = NULL;
  assert_int_equal(anf_parse(w->cx, TEXT, "grad.anf", w->d, &m), ANF_OK);
  return m;
}

/* The gradient of `name` gives `value` for x, y and n, as many of them as it takes. */
static void check(world *w, const char *name, anf_grad_opts o, const char *value,
                  const char *type) {
  anf_module *m = parsed(w);
  anf_graph *g = NULL;
  anf_value *args[] = {anf_value_f64(w->cx, 3.0), anf_value_f64(w->cx, 2.0),
                       anf_value_i64(w->cx, 2)},
            *v = NULL;
  o.size = sizeof o;
  assert_int_equal(anf_grad(anf_module_find(m, name), &o, w->d, &g), ANF_OK);
  anf_status st = anf_run(g, anf_graph_param_count(g), args, NULL, w->d, &v);
  if (st != ANF_OK) anf_diag_print(w->d, stderr, false);
  assert_int_equal(st, ANF_OK);
  gives(w->cx, v, value, type);
  for (int i = 0; i < 3; i++) anf_value_release(args[i]);
  anf_module_free(m);
}

/* f = x^2 y^3 at (3, 2): 72, by x 48, by y 108. */
static void options(void **state) {
  world *w = *state;
  check(w, "f", (anf_grad_opts){.wrt = NULL}, "48.0", "f64");
  check(w, "f", (anf_grad_opts){.wrt = "1"}, "108.0", "f64");
  check(w, "f", (anf_grad_opts){.wrt = "y, x"}, "(108.0, 48.0)", "(f64, f64)");
  check(w, "f", (anf_grad_opts){.wrt = "x", .value = true}, "(72.0, 48.0)", "(f64, f64)");
  check(w, "f", (anf_grad_opts){.wrt = "x n", .allow_int = true}, "(48.0, 0)", "(f64, i64)");
  check(w, "aux", (anf_grad_opts){.has_aux = true}, "(6.0, {twice = 6.0, n = 7})",
        "(f64, {twice: f64, n: int})");
  check(w, "both", (anf_grad_opts){.all = true}, "(12.0, 9.0)", "(f64, f64)");
  check(w, "both", (anf_grad_opts){.all = true, .wrt = "y,"}, "((12.0, 9.0), 9.0)",
        "((f64, f64), f64)");
}

/* A transform of `name`, run by the interpreter and compiled to be interpreted as Tensor IR: both give `value`. */
static void transformed(world *w, anf_module *m, anf_graph *g, size_t n, anf_value **args,
                        const char *value, const char *type) {
  anf_value *v[2] = {NULL, NULL};
  anf_exec *e = NULL;
  anf_exec_opts o = {.size = sizeof o, .kind = ANF_JIT_INTERP};
  anf_status st = anf_run(g, n, args, NULL, w->d, &v[0]);
  if (st == ANF_OK) st = anf_compile(g, &o, w->d, &e);
  if (st == ANF_OK) st = anf_exec_run(e, n, args, NULL, w->d, &v[1]);
  if (st != ANF_OK) anf_diag_print(w->d, stderr, false);
  assert_int_equal(st, ANF_OK);
  for (int i = 0; i < 2; i++) gives(w->cx, v[i], value, type);
  for (size_t i = 0; i < n; i++) anf_value_release(args[i]);
  anf_exec_free(e);
  anf_module_free(m);
}

static anf_value *vector(world *w, double a, double b, double c) {
  return anf_value_tensor(w->cx, ANF_F64, 1, (int64_t[]){3}, (double[]){a, b, c});
}

/* x * x * y at (3, 2) is 18; by x 12, by y 9. */
static void forward_and_reverse(void **state) {
  world *w = *state;
  anf_graph *g = NULL;
  anf_module *m = parsed(w);
  assert_int_equal(anf_jvp(anf_module_find(m, "both"), NULL, w->d, &g), ANF_OK);
  assert_string_equal(anf_node_name(anf_graph_param(g, 3)), "dy");
  anf_value *in[] = {anf_value_f64(w->cx, 3), anf_value_f64(w->cx, 2), anf_value_f64(w->cx, 1),
                     anf_value_f64(w->cx, 10)};
  transformed(w, m, g, 4, in, "(18.0, 102.0)", "(f64, f64)");
  m = parsed(w);
  assert_int_equal(anf_vjp(anf_module_find(m, "both"), NULL, w->d, &g), ANF_OK);
  anf_value *back[] = {anf_value_f64(w->cx, 3), anf_value_f64(w->cx, 2), anf_value_f64(w->cx, 2)};
  transformed(w, m, g, 3, back, "(18.0, (24.0, 18.0))", "(f64, (f64, f64))");
  m = parsed(w);
  anf_jvp_opts o = {.size = sizeof o, .has_aux = true};
  assert_int_equal(anf_vjp(anf_module_find(m, "extra"), &o, w->d, &g), ANF_OK);
  anf_value *aux[] = {anf_value_f64(w->cx, 3), anf_value_f64(w->cx, 1)};
  transformed(w, m, g, 2, aux, "(9.0, (6.0,), {twice = 6.0})", "(f64, (f64,), {twice: f64})");
}

static void batch(void **state) {
  world *w = *state;
  anf_graph *g = NULL;
  anf_module *m = parsed(w);
  anf_vmap_opts o = {.size = sizeof o, .in_axes = (int64_t[]){0, ANF_UNBATCHED}};
  assert_int_equal(anf_vmap(anf_module_find(m, "both"), &o, w->d, &g), ANF_OK);
  anf_value *in[] = {vector(w, 1, 2, 3), anf_value_f64(w->cx, 2)};
  transformed(w, m, g, 2, in, "[2.0, 8.0, 18.0]", "f64[3]");
  m = parsed(w);
  assert_int_equal(anf_vmap(anf_module_find(m, "both"), NULL, w->d, &g), ANF_OK);
  anf_value *both[] = {vector(w, 1, 2, 3), vector(w, 1, 0, 2)};
  transformed(w, m, g, 2, both, "[1.0, 0.0, 18.0]", "f64[3]");
}

static void whole_derivatives(void **state) {
  world *w = *state;
  for (int mode = 0; mode < 2; mode++) {
    anf_graph *g = NULL;
    anf_module *m = parsed(w);
    anf_jacobian_opts o = {.size = sizeof o, .forward = mode == 1};
    assert_int_equal(anf_jacobian(anf_module_find(m, "squares"), &o, w->d, &g), ANF_OK);
    anf_value *in[] = {vector(w, 1, 2, 3)};
    transformed(w, m, g, 1, in, "[[2.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 6.0]]", "f64[3, 3]");
  }
  anf_graph *g = NULL;
  anf_module *m = parsed(w);
  assert_int_equal(anf_hessian(anf_module_find(m, "sums"), NULL, w->d, &g), ANF_OK);
  anf_value *in[] = {vector(w, 1, 2, 3)};
  transformed(w, m, g, 1, in, "[[2.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 2.0]]", "f64[3, 3]");
}

/* Options of a newer header: bytes that this library does not know. */
static void unknown_options(void **state) {
  world *w = *state;
  anf_module *m = parsed(w);
  anf_graph *g = NULL, *f = anf_module_find(m, "both");
  struct {
    anf_grad_opts known;
    char news[16];
  } o = {.known = {.size = sizeof o}};
  assert_int_equal(anf_grad(f, &o.known, w->d, &g), ANF_OK);
  o.news[3] = 1;
  assert_int_equal(anf_grad(f, &o.known, w->d, &g), ANF_INVALID);
  assert_string_equal(anf_diag_at(w->d, 0)->code, "E0008");
  o.known.size = SIZE_MAX;
  assert_int_equal(anf_grad(f, &o.known, w->d, &g), ANF_INVALID);
  assert_string_equal(anf_diag_at(w->d, 1)->code, "E0007");
  o.known.size = 0; // as it was first
  assert_int_equal(anf_grad(f, &o.known, w->d, &g), ANF_OK);
  anf_module_free(m);
}

static void sens(void **state) {
  world *w = *state;
  anf_module *m = parsed(w);
  anf_grad_opts o = {.size = sizeof o, .sens = true};
  anf_graph *g = NULL;
  assert_int_equal(anf_grad(anf_module_find(m, "both"), &o, w->d, &g), ANF_OK);
  assert_int_equal(anf_graph_param_count(g), 3);
  anf_value *args[] = {anf_value_f64(w->cx, 3.0), anf_value_f64(w->cx, 2.0),
                       anf_value_f64(w->cx, 10.0)},
            *v = NULL;
  assert_int_equal(anf_run(g, 3, args, NULL, w->d, &v), ANF_OK);
  gives(w->cx, v, "120.0", "f64");
  for (int i = 0; i < 3; i++) anf_value_release(args[i]);
  anf_module_free(m);
}

/* anf_grad of what anf_grad gave; optimised, no transform is left and the value is the same. */
static void orders(void **state) {
  world *w = *state;
  anf_module *m = parsed(w);
  anf_graph *g = anf_module_find(m, "f");
  for (int i = 0; i < 2; i++) assert_int_equal(anf_grad(g, NULL, w->d, &g), ANF_OK);
  assert_int_equal(anf_optimise(m, "standard", NULL, w->d), ANF_OK);
  anf_value *args[] = {anf_value_f64(w->cx, 3.0), anf_value_f64(w->cx, 2.0),
                       anf_value_i64(w->cx, 2)},
            *v = NULL;
  assert_int_equal(anf_run(anf_module_find(m, "grad_grad_f"), 3, args, NULL, w->d, &v), ANF_OK);
  gives(w->cx, v, "16.0", "f64");
  for (int i = 0; i < 3; i++) anf_value_release(args[i]);
  anf_module_free(m);
}

static void refuses(world *w, const char *name, anf_grad_opts o, anf_status st, const char *code) {
  anf_module *m = parsed(w);
  anf_graph *g = NULL;
  anf_value *args[] = {anf_value_f64(w->cx, 3.0), anf_value_f64(w->cx, 2.0),
                       anf_value_i64(w->cx, 2)},
            *v = NULL;
  o.size = sizeof o;
  anf_diag_clear(w->d);
  anf_status got = anf_grad(anf_module_find(m, name), &o, w->d, &g);
  if (got == ANF_OK) got = anf_run(g, anf_graph_param_count(g), args, NULL, w->d, &v);
  assert_int_equal(got, st);
  assert_null(v);
  assert_string_equal(anf_diag_at(w->d, 0)->code, code);
  for (int i = 0; i < 3; i++) anf_value_release(args[i]);
  anf_module_free(m);
}

static void refusals(void **state) {
  world *w = *state;
  refuses(w, "f", (anf_grad_opts){.wrt = "n"}, ANF_INVALID, "E0531");
  refuses(w, "f", (anf_grad_opts){.wrt = "z"}, ANF_INVALID, "E0532");
  refuses(w, "f", (anf_grad_opts){.wrt = "5"}, ANF_INVALID, "E0532");
  anf_module *m = parsed(w); // at once, not when it is run
  anf_graph *g = NULL;
  anf_grad_opts o = {.size = sizeof o, .wrt = "x, z"};
  assert_int_equal(anf_grad(anf_module_find(m, "f"), &o, w->d, &g), ANF_INVALID);
  assert_null(g);
  anf_module_free(m);
  refuses(w, "f", (anf_grad_opts){.has_aux = true}, ANF_INVALID, "E0534");
  refuses(w, "pair", (anf_grad_opts){.wrt = NULL}, ANF_INVALID, "E0530");
  refuses(w, "f", (anf_grad_opts){.all = true, .value = true}, ANF_INVALID, "E0002");
  assert_int_equal(anf_grad(NULL, NULL, NULL, NULL), ANF_INVALID);
}

static anf_node *item(world *w, anf_graph *g, anf_node *t, int64_t i) {
  anf_value *v = num(w, i);
  anf_node *n = anf_op_attrs(g, "TupleGet", 1, &t, 1, &(anf_attr){"index", v, NULL});
  anf_value_release(v);
  return n;
}

/* g(x) = vjp(cube, x)[1] called with 1 and with what that gave: 12 and 144. */
static void handle(void **state) {
  world *w = *state;
  anf_graph *cube = anf_graph_new(w->m, "cube"), *g = anf_graph_new(w->m, "g");
  anf_node *a = anf_param(cube, "a", scalar(w->cx, ANF_F64)),
           *x = anf_param(g, "x", scalar(w->cx, ANF_F64));
  anf_return(cube, OP(cube, "Mul", OP(cube, "Mul", a, a), a));
  anf_value *unit = anf_value_f64(w->cx, 1.0);
  anf_node *pull = item(w, g, OP(g, "Vjp", anf_graph_node(cube), x), 1),
           *first = item(w, g, CALL(g, pull, anf_constant(w->m, unit)), 0);
  anf_value_release(unit);
  anf_return(g, OP(g, "MakeTuple", first, CALL(g, pull, first)));
  anf_value *v = run(w, g, 1, (anf_value *[]){anf_value_f64(w->cx, 2.0)});
  gives(w->cx, v, "(12.0, (144.0,))", "(f64, (f64,))");
}

/* Functions that a run gave, run: pullbacks, pushforwards, gradients, and closures that come to one. */
static const char HANDLES[] =
    "def cube(a: f64) { a * a * a }\n"
    "def pull(x: f64) { vjp(cube, x)[1] }\n"
    "def push(x: f64) { linearize(fn (a) { a * a * x }, x)[1] }\n"
    "def slope(x: f64) { g = grad(fn (a) { a * a * x }); g }\n"
    "def later(x: f64) { fn (y: f64) { grad(fn (a) { a * a * x })(y) } }\n"
    "def pulls(x: f64) { (vjp(cube, x)[1], fn (d: f64) { vjp(cube, d)[1] }) }\n"
    "def plain(x: f64) { fn (y: f64) { x - y } }\n";

static void runs_to(world *w, anf_value *f, const char *value, const char *type) {
  anf_value *arg = anf_value_f64(w->cx, 2.0), *v = NULL;
  for (int i = 0; i < 2; i++) { // as often as you like
    assert_int_equal(anf_run_value(w->cx, f, 1, &arg, NULL, w->d, &v), ANF_OK);
    gives(w->cx, v, value, type);
  }
  anf_value_release(arg);
}

/* The function that `name` gives for 3.0, at 2.0. */
static void handle_of(world *w, anf_module *m, const char *name, const char *value,
                      const char *type) {
  anf_value *arg = anf_value_f64(w->cx, 3.0), *f = NULL;
  assert_int_equal(anf_run(anf_module_find(m, name), 1, &arg, NULL, w->d, &f), ANF_OK);
  runs_to(w, f, value, type);
  anf_value_release(f);
  anf_value_release(arg);
}

static void handles(void **state) {
  world *w = *state;
  anf_module *m = NULL;
  assert_int_equal(anf_parse(w->cx, HANDLES, "handles.anf", w->d, &m), ANF_OK);
  handle_of(w, m, "pull", "(54.0,)", "(f64,)");
  handle_of(w, m, "push", "36.0", "f64");
  handle_of(w, m, "slope", "12.0", "f64");
  handle_of(w, m, "later", "12.0", "f64");
  handle_of(w, m, "plain", "1.0", "f64");
  anf_value *arg = anf_value_f64(w->cx, 3.0), *both = NULL, *inner = NULL;
  assert_int_equal(anf_run(anf_module_find(m, "pulls"), 1, &arg, NULL, w->d, &both), ANF_OK);
  assert_int_equal(anf_run_value(w->cx, both->u.item[1], 1, &arg, NULL, w->d, &inner), ANF_OK);
  runs_to(w, inner, "(54.0,)", "(f64,)"); // a function that a function gave
  runs_to(w, both->u.item[0], "(54.0,)", "(f64,)");
  anf_value_release(inner);
  anf_value_release(both);
  anf_value_release(arg);
  anf_module_free(m);
}

/* A transform is a function value of the host, too: it is given, given back, and its call makes a function. */
static const char TRANSFORMS[] = "def cube(a: f64) { a * a * a }\n"
                                 "def transform() { grad }\n"
                                 "def function() { cube }\n"
                                 "def ap(t, f, x) { t(f)(x) }\n";

static anf_value *given(world *w, const anf_module *m, const char *name) {
  anf_value *f = NULL;
  assert_int_equal(anf_run(anf_module_find(m, name), 0, NULL, NULL, w->d, &f), ANF_OK);
  return f;
}

static void transforms_as_values(void **state) {
  world *w = *state;
  anf_module *m = NULL;
  assert_int_equal(anf_parse(w->cx, TRANSFORMS, "transforms.anf", w->d, &m), ANF_OK);
  anf_value *in[3] = {given(w, m, "transform"), given(w, m, "function"), anf_value_f64(w->cx, 2.0)},
            *slope = NULL, *v = NULL;
  assert_int_equal(anf_run_value(w->cx, in[0], 1, &in[1], NULL, w->d, &slope), ANF_OK);
  runs_to(w, slope, "12.0", "f64");
  assert_int_equal(anf_run(anf_module_find(m, "ap"), 3, in, NULL, w->d, &v), ANF_OK);
  gives(w->cx, v, "12.0", "f64");
  for (int k = 0; k < 2; k++) { // compiled, by both interpreters and by machine code
    static const anf_jit_kind kind[] = {ANF_JIT_INTERP, ANF_JIT_LLVM};
    anf_jit_engine *e = NULL;
    anf_exec *x = NULL;
    assert_int_equal(anf_jit_engine_new(w->cx, kind[k], NULL, w->d, &e), ANF_OK);
    anf_exec_opts o = {.size = sizeof o, .engine = e};
    assert_int_equal(anf_compile(anf_module_find(m, "ap"), &o, w->d, &x), ANF_OK);
    assert_int_equal(anf_exec_run(x, 3, in, NULL, w->d, &v), ANF_OK);
    gives(w->cx, v, "12.0", "f64");
    anf_exec_free(x);
    anf_jit_engine_free(e);
  }
  assert_int_equal(anf_run_value(w->cx, in[0], 1, &in[2], NULL, w->d, &v),
                   ANF_INVALID); // of a number
  anf_value_release(slope);
  for (int i = 0; i < 3; i++) anf_value_release(in[i]);
  anf_module_free(m);
}

/* ---- loops of which little is kept ---- */

static const char LOOPS[] =
    "def loop(x: f64, n: i64) { s = x; while n > 0 { s = s + 0.1 * Sin(s * x) * (2.0 - s * s); n = "
    "n - 1 }; s }\n"
    "def all(x: f64, n: i64) { grad(loop)(x, n) }\n"
    "def blocks(x: f64, n: i64) { grad(checkpoint(loop, keep=\"all\", rounds=100))(x, n) }\n"
    "def memory(x: f64, n: i64) { grad(checkpoint(loop, keep=\"all\", memory=4096))(x, n) }\n"
    "def tree(x: f64, n: i64) { grad(checkpoint(loop, keep=\"all\", rounds=100, tree=true))(x, n) "
    "}\n";

typedef struct cost {
  double value;
  uint64_t steps; // the least limit that suffices, to 1 in 50
  size_t peak;    // bytes
} cost;

static anf_status run_loop(world *w, anf_module *m, const char *name, int64_t n, uint64_t steps,
                           double *value) {
  anf_value *args[] = {anf_value_f64(w->cx, 0.3), anf_value_i64(w->cx, n)}, *v = NULL;
  anf_run_opts o = {.size = sizeof o, .max_steps = steps};
  anf_status st = anf_run(anf_module_find(m, name), 2, args, &o, w->d, &v);
  if (v) *value = anf_value_get_f64(v, 0);
  anf_value_release(v);
  anf_value_release(args[0]);
  anf_value_release(args[1]);
  return st;
}

static cost cost_of(world *w, const char *name, int64_t n) {
  cost c = {.steps = 64};
  anf_module *m = NULL;
  assert_int_equal(anf_parse(w->cx, LOOPS, "loops.anf", w->d, &m), ANF_OK);
  w->heap.peak = w->heap.bytes;
  assert_int_equal(run_loop(w, m, name, n, 0, &c.value), ANF_OK);
  c.peak = w->heap.peak - w->heap.bytes;
  uint64_t few = 0; // steps that do not suffice
  for (; run_loop(w, m, name, n, c.steps, &c.value) == ANF_LIMIT; anf_diag_clear(w->d)) {
    few = c.steps;
    c.steps *= 2;
  }
  while (c.steps - few > 1 + few / 50) {
    uint64_t half = few + (c.steps - few) / 2;
    bool enough = run_loop(w, m, name, n, half, &c.value) == ANF_OK;
    anf_diag_clear(w->d);
    *(enough ? &c.steps : &few) = half;
  }
  anf_module_free(m);
  return c;
}

/* The same bits; a block or some states at a time instead of 10^4 rounds; and what is computed again
 * is one run of the loop for blocks, and for a tree half a run for each of 7 halvings besides. */
static void checkpoints(void **state) {
  enum { ROUNDS = 10000 };
  world *w = *state;
  cost once = cost_of(w, "loop", ROUNDS), all = cost_of(w, "all", ROUNDS),
       tree = cost_of(w, "tree", ROUNDS);
  static const char *const names[] = {"blocks", "memory"};
  for (int i = 0; i < 2; i++) {
    cost c = cost_of(w, names[i], ROUNDS);
    assert_true(c.value == all.value);
    assert_true(4 * c.peak < all.peak);
    assert_true(c.steps > all.steps && c.steps < all.steps + 2 * once.steps);
  }
  assert_true(tree.value == all.value);
  assert_true(4 * tree.peak < all.peak);
  assert_true(tree.steps > all.steps + 3 * once.steps && tree.steps < all.steps + 6 * once.steps);
}

/* A loop whose rounds keep a megabyte is given a budget: beside the loop that keeps all there is one
 * that does not. One of 10 numbers is not. */
static size_t loops_of_gradient(world *w, int numbers) {
  char text[300];
  snprintf(text, sizeof text,
           "def f(x: f64[%d], n: i64) { while n > 0 { x = Sin(x) * x; n = n - 1 }; Sum(x) }\n",
           numbers);
  anf_module *m = NULL;
  anf_graph *g = NULL;
  assert_int_equal(anf_parse(w->cx, text, "large.anf", w->d, &m), ANF_OK);
  assert_int_equal(anf_grad(anf_module_find(m, "f"), NULL, w->d, &g), ANF_OK);
  assert_int_equal(anf_optimise(m, "standard", NULL, w->d), ANF_OK);
  size_t loops = 0;
  for (size_t i = 0; i < m->nodes.n; i++)
    loops += m->nodes.at[i] && anfi_is_op(m->nodes.at[i], ANF_OP_Loop);
  anf_module_free(m);
  return loops;
}

static void budget_of_large_loops(void **state) {
  world *w = *state;
  size_t small = loops_of_gradient(w, 10), large = loops_of_gradient(w, 1 << 17);
  assert_int_equal(small, 3); // f, ▶ and ◀
  assert_true(large > small);
}

/* 10^5 sums of x: no recursion over the depth of a graph. */
static void depth(void **state) {
  enum { DEPTH = 100000 };
  world *w = *state;
  anf_graph *f = anf_graph_new(w->m, "f"), *g = NULL;
  anf_node *x = anf_param(f, "x", scalar(w->cx, ANF_F64)), *y = x;
  for (int i = 0; i < DEPTH; i++) y = OP(f, "Add", y, x);
  anf_return(f, y);
  assert_int_equal(anf_grad(f, NULL, w->d, &g), ANF_OK);
  anf_value *v = run(w, g, 1, (anf_value *[]){anf_value_f64(w->cx, 2.0)});
  gives(w->cx, v, "100001.0", "f64");
}

/* ---- work that grows as programs do: nodes that are made, and memory that is used, on the way ---- */

typedef enum { STRAIGHT, CALLS_OF_ONE, LONG_ARMS, LONG_ROUND, MANY_GRADIENTS, SHAPES } shape;

static anf_node *long_chain(anf_graph *g, anf_node *x, size_t n) {
  anf_node *y = x;
  for (size_t i = 0; i < n; i++) y = i % 3 ? OP(g, "Sin", y) : OP(g, "Mul", y, x);
  return y;
}

static anf_graph *chain_of(anf_module *m, const anf_type *t, const char *name, size_t n) {
  anf_graph *g = anf_graph_new(m, name);
  anf_return(g, long_chain(g, anf_param(g, "x", t), n));
  return g;
}

/* (k, s) -> s after k rounds of a long chain */
static anf_graph *rounds_of(anf_module *m, anf_ctx *cx, size_t n) {
  const anf_type *t = scalar(cx, ANF_F64), *i = scalar(cx, ANF_I64);
  anf_graph *loop = anf_graph_new(m, "loop"), *on = anf_graph_new(m, "on"),
            *end = anf_graph_new(m, "end");
  anf_node *k = anf_param(loop, "k", i), *s = anf_param(loop, "s", t);
  anf_value *one = anf_value_i64(cx, 1);
  anf_node *unit = anf_constant(m, one), *more = OP(loop, "Less", unit, k);
  anf_value_release(one);
  anf_return(on, CALL(on, anf_graph_node(loop), OP(on, "Sub", k, unit), long_chain(on, s, n)));
  anf_return(end, s);
  anf_return(loop, CALL0(loop, OP(loop, "Switch", more, anf_graph_node(on), anf_graph_node(end))));
  return loop;
}

/* x + the gradients of n functions at x */
static anf_node *gradients_of(anf_module *m, anf_graph *g, anf_node *x, size_t n) {
  anf_node *y = x;
  for (size_t i = 0; i < n; i++) {
    anf_graph *d = NULL;
    assert_int_equal(anf_grad(chain_of(m, scalar(m->cx, ANF_F64), "f", 2 + i % 5), NULL, NULL, &d),
                     ANF_OK);
    y = OP(g, "Add", y, CALL(g, anf_graph_node(d), x));
  }
  return y;
}

static anf_graph *program_of(anf_module *m, anf_ctx *cx, shape kind, size_t n) {
  const anf_type *t = scalar(cx, ANF_F64);
  anf_graph *g = anf_graph_new(m, "main");
  anf_value *rounds = anf_value_i64(cx, 3);
  anf_node *x = anf_param(g, "x", t), *y = x;
  if (kind == STRAIGHT) y = long_chain(g, x, n);
  if (kind == CALLS_OF_ONE) {
    anf_node *f = anf_graph_node(chain_of(m, t, "f", 30)); // too long to be inlined often
    for (size_t i = 0; i < n; i++) y = CALL(g, f, y);
  }
  if (kind == LONG_ARMS)
    y = CALL(g,
             OP(g, "Switch", OP(g, "Less", x, OP(g, "Sin", x)),
                anf_graph_node(chain_of(m, t, "a", n)), anf_graph_node(chain_of(m, t, "b", n + 5))),
             x);
  if (kind == LONG_ROUND)
    y = CALL(g, anf_graph_node(rounds_of(m, cx, n)), anf_constant(m, rounds), x);
  if (kind == MANY_GRADIENTS) y = gradients_of(m, g, x, n);
  anf_value_release(rounds);
  anf_return(g, y);
  return g;
}

typedef struct {
  size_t nodes, bytes;
} work;

static work work_of(world *w, shape kind, int order, size_t n) {
  anf_module *m = anf_module_new(w->cx);
  anf_graph *g = program_of(m, w->cx, kind, n);
  for (int i = 0; i < order; i++) assert_int_equal(anf_grad(g, NULL, w->d, &g), ANF_OK);
  w->heap.peak = w->heap.bytes;
  size_t before = w->heap.bytes;
  anf_status st = anf_optimise(m, "standard", NULL, w->d);
  if (st != ANF_OK) anf_diag_print(w->d, stderr, false);
  assert_int_equal(st, ANF_OK);
  work k = {m->nodes.n, w->heap.peak - before};
  anf_module_free(m);
  return k;
}

/* Four times the program: four times the nodes, and hardly more memory (arrays that double take more
 * at times; what is quadratic takes sixteen times). */
static void work_is_linear(void **state) {
  static const size_t size[SHAPES] = {1000, 100, 600, 600, 750};
  world *w = *state;
  for (shape kind = STRAIGHT; kind < SHAPES; kind++)
    for (int order = kind != MANY_GRADIENTS; order <= 2 * (kind != MANY_GRADIENTS); order++) {
      work few = work_of(w, kind, order, size[kind]),
           many = work_of(w, kind, order, 4 * size[kind]);
      if (10 * many.nodes > 41 * few.nodes || many.bytes > 7 * few.bytes)
        fail_msg("shape %d, order %d: %zu nodes, then %zu; %zu bytes, then %zu", kind, order,
                 few.nodes, many.nodes, few.bytes, many.bytes);
    }
}

/* ---- a tail call of what a branch chose, compiled without any optimisation of the machine's: both
 * ways are loops of the graph already, so 10^6 calls need no stack; d x^n = n x^(n - 1) ---- */

enum { CALLS = 1000000, STACK = 512 << 10 };
static const char TAIL[] =
    "def to(x: f64, n: i64, s: f64) {\n"
    "  if n == 0 { s } else if n % 2 == 0 { to(x, n - 1, s * x) } else { to(x, n - 1, x * s) } }\n"
    "def power(x: f64, n: i64) { to(x, n, 1.0) }\n";

typedef struct {
  anf_exec *e;
  anf_value *args[2], *result;
  anf_status status;
} tail_call;

static void *on_small_stack(void *user) {
  tail_call *t = (tail_call *)user;
  t->status = anf_exec_run(t->e, 2, t->args, NULL, NULL, &t->result);
  return NULL;
}

static void tail_calls_through_branches(void **state) {
  world *w = *state;
  anf_module *m = NULL;
  anf_graph *g = NULL;
  tail_call t = {.args = {anf_value_f64(w->cx, 1.0), anf_value_i64(w->cx, CALLS)}};
  anf_exec_opts o = {.size = sizeof o, .kind = ANF_JIT_LLVM};
  o.jit = &(anf_jit_opts){.size = sizeof *o.jit, .level = ANF_JIT_O0};
  assert_int_equal(anf_parse(w->cx, TAIL, "tail.anf", w->d, &m), ANF_OK);
  assert_int_equal(anf_grad(anf_module_find(m, "power"), NULL, w->d, &g), ANF_OK);
  assert_int_equal(anf_compile(g, &o, w->d, &t.e), ANF_OK);
  assert_int_equal(anf_exec_prepare_for(t.e, 2, t.args, w->d), ANF_OK);
  pthread_attr_t small;
  pthread_t thread;
  pthread_attr_init(&small);
  assert_int_equal(pthread_attr_setstacksize(&small, STACK), 0);
  assert_int_equal(pthread_create(&thread, &small, on_small_stack, &t), 0);
  pthread_join(thread, NULL);
  pthread_attr_destroy(&small);
  assert_int_equal(t.status, ANF_OK);
  gives(w->cx, t.result, "1000000.0", "f64");
  for (int i = 0; i < 2; i++) anf_value_release(t.args[i]);
  anf_exec_free(t.e);
  anf_module_free(m);
}

/* ---- threads ---- */

static anf_status whole(anf_ctx *cx, double *result) {
  anf_module *m = NULL;
  anf_graph *g = NULL;
  anf_value *x = anf_value_f64(cx, 3.0), *y = anf_value_f64(cx, 2.0), *n = anf_value_i64(cx, 2),
            *v = NULL, *args[] = {x, y, n};
  anf_status st = x && y && n ? anf_parse(cx, TEXT, "grad.anf", NULL, &m) : ANF_NOMEM;
  if (st == ANF_OK) st = anf_grad(anf_module_find(m, "f"), NULL, NULL, &g);
  if (st == ANF_OK) st = anf_run(g, 3, args, NULL, NULL, &v);
  if (st == ANF_OK) *result = anf_value_get_f64(v, 0);
  anf_value_release(v);
  for (int i = 0; i < 3; i++) anf_value_release(args[i]);
  anf_module_free(m);
  return st;
}

static void *one_thread(void *user) {
  double *result = (double *)user;
  for (int i = 0; i < 20; i++) {
    anf_ctx *cx = anf_ctx_new(NULL);
    *result = 0;
    if (!cx || whole(cx, result) != ANF_OK) *result = -1;
    anf_ctx_free(cx);
  }
  return NULL;
}

static void threads(void **state) {
  enum { THREADS = 4 };
  pthread_t t[THREADS];
  double result[THREADS];
  (void)state;
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&t[i], NULL, one_thread, &result[i]), 0);
  for (int i = 0; i < THREADS; i++) {
    pthread_join(t[i], NULL);
    assert_true(result[i] == 48.0);
  }
}

/* Memory that ends anywhere in the parser, the transform or the run is ANF_NOMEM and no more. */
static anf_status whole_work(anf_ctx *cx, void *user) { return whole(cx, (double *)user); }

static void faults(void **state) {
  double result = 0;
  (void)state;
  assert_true(fault_loop(whole_work, &result) > 0);
  assert_true(result == 48.0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(options, setup, teardown),
      cmocka_unit_test_setup_teardown(forward_and_reverse, setup, teardown),
      cmocka_unit_test_setup_teardown(batch, setup, teardown),
      cmocka_unit_test_setup_teardown(whole_derivatives, setup, teardown),
      cmocka_unit_test_setup_teardown(unknown_options, setup, teardown),
      cmocka_unit_test_setup_teardown(sens, setup, teardown),
      cmocka_unit_test_setup_teardown(orders, setup, teardown),
      cmocka_unit_test_setup_teardown(refusals, setup, teardown),
      cmocka_unit_test_setup_teardown(handle, setup, teardown),
      cmocka_unit_test_setup_teardown(handles, setup, teardown),
      cmocka_unit_test_setup_teardown(transforms_as_values, setup, teardown),
      cmocka_unit_test_setup_teardown(checkpoints, setup, teardown),
      cmocka_unit_test_setup_teardown(budget_of_large_loops, setup, teardown),
      cmocka_unit_test_setup_teardown(depth, setup, teardown),
      cmocka_unit_test_setup_teardown(work_is_linear, setup, teardown),
      cmocka_unit_test_setup_teardown(tail_calls_through_branches, setup, teardown),
      cmocka_unit_test(threads),
      cmocka_unit_test(faults),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
