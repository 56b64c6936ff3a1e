// SPDX-License-Identifier: Apache-2.0
/* Derivatives where formulas divide 0 by 0 or multiply 0 by infinity, by hand: what must stay 0
 * stays 0. What has no derivative says so. What is short by hand is short here. */
#include "test/unit/program.h"

#include <math.h>

#include "autodiff/derive/derive.h"

static anf_status vjp_in_frame(world *w, anfi_opcode op, size_t n, const double *x, double dy,
                               size_t wrt, bool forward, size_t *made, double *out) {
  ANFI_ENTRY(w->cx, w->d);
  anfi_ad *ad = anfi_ad_new(w->m);
  anf_graph *g = anfi_graph_new(w->m, anfi_intern_z(&w->m->strings, "edge"));
  const anf_type *t = anfi_type_scalar(w->cx, ANF_F64);
  anf_node *in[3], *got[3] = {NULL}, *dys[3] = {NULL};
  bool want[3] = {false};
  anf_value *args[4];
  for (size_t i = 0; i < n; i++) {
    in[i] = anfi_param(g, anfi_op_schema(w->cx, op)->name, t);
    args[i] = anfi_value_new_f64(w->cx, ANF_F64, x[i]);
  }
  args[n] = anfi_value_new_f64(w->cx, ANF_F64, dy);
  anf_node *d = anfi_param(g, anfi_op_schema(w->cx, op)->name, t);
  anf_node *y = anfi_apply(g, op, NULL, n, in);
  y->type = t;
  size_t before = w->m->nodes.n;
  want[wrt] = true;
  dys[wrt] = d;
  bool good = forward ? anfi_jvp_op(ad, g, y, in, y, dys, got)
                      : anfi_vjp_op(ad, g, y, in, y, 1, &d, want, got);
  *made = w->m->nodes.n - before;
  anf_node *result = got[forward ? 0 : wrt];
  if (good && result) {
    anfi_set_result(g, result);
    anf_value *v = NULL;
    if (anf_run(g, n + 1, args, NULL, w->d, &v) == ANF_OK) *out = anfi_get_f64(v, 0);
    anf_value_release(v);
  } else *out = 0;
  for (size_t i = 0; i <= n; i++) anf_value_release(args[i]);
  return anfi_leave(w->cx);
}

static double derivative(world *w, anfi_opcode op, size_t n, const double *x, double dy, size_t wrt,
                         bool forward) {
  double out = 12345;
  size_t made;
  assert_int_equal(vjp_in_frame(w, op, n, x, dy, wrt, forward, &made, &out), ANF_OK);
  return out;
}

#define INF INFINITY
static const struct {
  anfi_opcode op;
  size_t n;
  double x[2], dy;
  size_t wrt;
  double want;
} edges[] = {
    // a branch that was not taken sends 0: it must not come back as NaN
    {ANF_OP_Log, 1, {0}, 0, 0, 0},
    {ANF_OP_Log, 1, {0}, 2, 0, INF},
    {ANF_OP_Log2, 1, {0}, 0, 0, 0},
    {ANF_OP_Log10, 1, {0}, 0, 0, 0},
    {ANF_OP_Log1p, 1, {-1}, 0, 0, 0},
    {ANF_OP_Sqrt, 1, {0}, 0, 0, 0},
    {ANF_OP_Sqrt, 1, {0}, 1, 0, INF},
    {ANF_OP_Rsqrt, 1, {0}, 0, 0, 0},
    {ANF_OP_Cbrt, 1, {0}, 0, 0, 0},
    {ANF_OP_Reciprocal, 1, {0}, 0, 0, 0},
    {ANF_OP_Reciprocal, 1, {0}, 1, 0, -INF},
    {ANF_OP_Div, 2, {1, 0}, 0, 0, 0},
    {ANF_OP_Div, 2, {1, 0}, 0, 1, 0},
    {ANF_OP_Div, 2, {0, 0}, 0, 0, 0},
    {ANF_OP_Div, 2, {0, 0}, 0, 1, 0},
    {ANF_OP_Div, 2, {1, 0}, 1, 0, INF},
    {ANF_OP_Div, 2, {1, 0}, 1, 1, -INF},
    {ANF_OP_Asin, 1, {1}, 0, 0, 0},
    {ANF_OP_Acos, 1, {-1}, 0, 0, 0},
    {ANF_OP_Acosh, 1, {1}, 0, 0, 0},
    {ANF_OP_Atanh, 1, {1}, 0, 0, 0},
    // powers: 0^0, 0^2 and 0^0.5 in both arguments
    {ANF_OP_Power, 2, {0, 0}, 1, 0, 0},
    {ANF_OP_Power, 2, {0, 0}, 1, 1, 0},
    {ANF_OP_Power, 2, {0, 2}, 1, 0, 0},
    {ANF_OP_Power, 2, {0, 2}, 1, 1, 0},
    {ANF_OP_Power, 2, {0, 1}, 1, 0, 1},
    {ANF_OP_Power, 2, {0, 0.5}, 0, 0, 0},
    {ANF_OP_Power, 2, {0, -1}, 0, 1, 0},
    {ANF_OP_Power, 2, {-2, 3}, 1, 0, 12},
    // lengths and angles of nothing have no direction
    {ANF_OP_Hypot, 2, {0, 0}, 1, 0, 0},
    {ANF_OP_Hypot, 2, {0, 0}, 1, 1, 0},
    {ANF_OP_Hypot, 2, {3, 4}, 1, 0, 0.6},
    {ANF_OP_Atan2, 2, {0, 0}, 1, 0, 0},
    {ANF_OP_Atan2, 2, {0, 0}, 1, 1, 0},
    {ANF_OP_Abs, 1, {0}, 1, 0, 0},
    {ANF_OP_Std, 1, {3}, 1, 0, 0},
    {ANF_OP_Std, 1, {3}, 0, 0, 0},
    {ANF_OP_LogSumExp, 1, {-INF}, 1, 0, 0},
    {ANF_OP_Max, 1, {3}, 2, 0, 2},
    {ANF_OP_SafeDiv, 2, {0, 0}, 0, 0, 0},
    {ANF_OP_SafeMul, 2, {0, INF}, 0, 0, 0},
};

static void test_edges(void **state) {
  world *w = *state;
  for (size_t i = 0; i < ANFI_LEN(edges); i++)
    for (int forward = 0; forward < 2; forward++) {
      double got = derivative(w, edges[i].op, edges[i].n, edges[i].x, edges[i].dy, edges[i].wrt,
                              forward != 0);
      if (got != edges[i].want && fabs(got - edges[i].want) > 1e-15)
        fail_msg("%s(%g, %g) to argument %zu with %g (%s): %g, expected %g",
                 anfi_op[edges[i].op].name, edges[i].x[0], edges[i].x[1], edges[i].wrt, edges[i].dy,
                 forward ? "forward" : "reverse", got, edges[i].want);
    }
}

/* ---- what has none ---- */

static void test_missing(void **state) {
  world *w = *state;
  double out;
  size_t made;
  assert_int_equal(vjp_in_frame(w, ANF_OP_Switch, 1, (double[]){1}, 1, 0, false, &made, &out),
                   ANF_UNSUPPORTED);
  assert_string_equal(anf_diag_at(w->d, 0)->code, "E0722");
  says(w, 0, "Switch");
}

static anf_status refuse(world *w) {
  ANFI_ENTRY(w->cx, w->d);
  anf_graph *g = anfi_graph_new(w->m, anfi_intern_z(&w->m->strings, "f"));
  anf_node *x = anfi_param(g, anfi_intern_z(&w->m->strings, "x"), anfi_type_scalar(w->cx, ANF_F64));
  anfi_derive_refuse(anfi_ad_new(w->m), anfi_apply1(g, ANF_OP_Round, x), 0, ANFI_DERIVATIVE_NONE);
  return anfi_leave(w->cx);
}

static void test_refused(void **state) {
  world *w = *state;
  assert_int_equal(refuse(w), ANF_INVALID);
  assert_string_equal(anf_diag_at(w->d, 0)->code, "E0721");
  says(w, 0, "Round has no derivative for its argument 'x'");
}

static void test_rows(void **state) {
  world *w = *state;
  assert_int_equal(anfi_derivative_of(w->cx, ANF_OP_Mul, 1), ANFI_DERIVATIVE);
  assert_int_equal(anfi_derivative_of(w->cx, ANF_OP_Floor, 0), ANFI_DERIVATIVE_ZERO);
  assert_int_equal(anfi_derivative_of(w->cx, ANF_OP_Where, 0), ANFI_DERIVATIVE_ZERO);
  assert_int_equal(anfi_derivative_of(w->cx, ANF_OP_Where, 2), ANFI_DERIVATIVE);
  assert_int_equal(anfi_derivative_of(w->cx, ANF_OP_Concat, 7), ANFI_DERIVATIVE);
  assert_int_equal(anfi_derivative_of(w->cx, ANF_OP_DynamicSlice, 3), ANFI_DERIVATIVE_ZERO);
  assert_int_equal(anfi_derivative_of(w->cx, ANF_OP_IndexWrite, 1), ANFI_DERIVATIVE_ZERO);
  assert_int_equal(anfi_derivative_of(w->cx, ANF_OP_Loop, 0), ANFI_DERIVATIVE_GRAPH);
  for (int op = 0; op < ANF_OP_COUNT; op++) // a row without derivative is a gap
    if (anfi_derivative_of(w->cx, (anfi_opcode)op, 0) == ANFI_DERIVATIVE_MISSING)
      fail_msg("%s has no derivative", anfi_op[op].name);
}

/* ---- short ---- */

static size_t nodes_made(world *w, anfi_opcode op, size_t n) {
  double out;
  size_t made;
  assert_int_equal(vjp_in_frame(w, op, n, (double[]){0.5, 0.25}, 1, 0, false, &made, &out), ANF_OK);
  return made;
}

static void test_short(void **state) {
  world *w = *state;
  assert_int_equal(nodes_made(w, ANF_OP_Exp, 1), 1);     // dy * y
  assert_int_equal(nodes_made(w, ANF_OP_Mul, 2), 1);     // dy * b
  assert_int_equal(nodes_made(w, ANF_OP_Add, 2), 0);     // dy
  assert_int_equal(nodes_made(w, ANF_OP_Sum, 1), 0);     // of a scalar
  assert_int_equal(nodes_made(w, ANF_OP_Log, 1), 1);     // dy / x
  assert_int_equal(nodes_made(w, ANF_OP_Div, 2), 1);     // dy / b
  assert_int_equal(nodes_made(w, ANF_OP_Sigmoid, 1), 4); // the 1; dy * (y * (1 - y))
}

/* x^3 with dy = 1: 3 and x squared, multiplied. */
static anf_status cube(world *w, size_t *ops) {
  ANFI_ENTRY(w->cx, w->d);
  anfi_ad *ad = anfi_ad_new(w->m);
  anf_graph *g = anfi_graph_new(w->m, anfi_intern_z(&w->m->strings, "cube"));
  const anf_type *t = anfi_type_scalar(w->cx, ANF_F32);
  anf_node *in[2] = {anfi_param(g, anfi_intern_z(&w->m->strings, "x"), t),
                     anfi_ad_number(ad, ANF_F32, 3)};
  anf_node *y = anfi_apply(g, ANF_OP_Power, NULL, 2, in), *dy = anfi_ad_number(ad, ANF_F32, 1),
           *out[2];
  y->type = t;
  size_t before = w->m->nodes.n;
  anfi_vjp_op(ad, g, y, in, y, 1, &dy, (bool[]){true, false}, out);
  *ops = 0;
  for (size_t i = before; i < w->m->nodes.n; i++) *ops += w->m->nodes.at[i]->kind == ANFI_APPLY;
  assert_true(anfi_is_op(out[0], ANF_OP_Mul));
  return anfi_leave(w->cx);
}

static void test_cube(void **state) {
  size_t ops = 0;
  assert_int_equal(cube(*state, &ops), ANF_OK);
  assert_int_equal(ops, 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {TEST(test_edges), TEST(test_missing), TEST(test_refused),
                                     TEST(test_rows),  TEST(test_short),   TEST(test_cube)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
