// SPDX-License-Identifier: Apache-2.0
/* What one turn of a loop costs, for parallel_workload_dispatcher: about the scalar operations that it does.
 *   out[i] = x[i] + exp(y[i])     2 + 2 + 2 for the accesses, 1 for the sum, 20 for exp: 27
 * Loops inside count as often as they turn, products by their multiplications; indices are free. */
#include "backend/lower/low.h"

enum {
  ACCESS = 2,
  SIMPLE = 1,
  DIVISION = 4,
  FUNCTION = 20,
  CALL = 24,
  UNKNOWN_CALL = 1 << 20,
  UNKNOWN_TURNS = 16,
  DEPTH = 64
};

typedef struct cost {
  double units, times[DEPTH]; // of the loops that are open
  uint32_t depth;
} cost;

static double multiplications(texpr product) {
  static const uint32_t sizes[] = {BRGEMM_num, BRGEMM_M, BRGEMM_N, BRGEMM_K};
  double n = 1;
  for (size_t i = 0; i < ANFI_LEN(sizes); i++) {
    int64_t v;
    texpr x = anfi_t_brgemm_in(product, sizes[i]);
    n *= x && anfi_t_const_i64(x, &v) && v > 0 ? (double)v : (double)UNKNOWN_TURNS;
  }
  return n;
}

static double units_of(texpr e) {
  if (anfi_t_is_brgemm(e)) return multiplications(e);
  switch (e->kind) {
  case TX_constant:
  case TX_var:
  case TX_tensor:
  case TX_tensorptr:
  case TX_func_addr: return 0;
  case TX_indexing: return ACCESS;
  case TX_div:
  case TX_mod: return DIVISION;
  case TX_call: return e->dtype.elem == ANF_TIR_void ? UNKNOWN_CALL : CALL;
  case TX_intrin_call: {
    tpurity p = anfi_t_intrins[e->sub].purity;
    return p == TP_MATH1 || p == TP_MATH2 ? FUNCTION : SIMPLE;
  }
  default: return SIMPLE;
  }
}

static bool see_expr(tviewer *v, texpr e) {
  cost *c = (cost *)v->user;
  c->units += units_of(e) * (e->dtype.lanes ? e->dtype.lanes : 1) * c->times[c->depth];
  return e->kind != TX_indexing && e->kind != TX_tensorptr && !anfi_t_is_brgemm(e);
}

static bool see_stmt(tviewer *v, tstmt s) {
  cost *c = (cost *)v->user;
  int64_t from, to, step;
  if (s->kind != TS_for_loop && s->kind != TS_while_loop) return true;
  bool known = s->kind == TS_for_loop && anfi_t_loop_bounds(s, &from, &to, &step);
  double turns = known ? (double)anfi_t_trip(from, to, step) : (double)UNKNOWN_TURNS;
  if (c->depth + 1 < DEPTH) c->times[c->depth + 1] = c->times[c->depth] * turns;
  if (c->depth + 1 < DEPTH) c->depth++;
  return true;
}
static void leave_stmt(tviewer *v, tstmt s) {
  cost *c = (cost *)v->user;
  if ((s->kind == TS_for_loop || s->kind == TS_while_loop) && c->depth) c->depth--;
}

int64_t anfi_low_cost(tstmt turn) {
  cost c = {.times = {1}};
  tviewer v = {
      .user = &c, .enter_expr = see_expr, .enter_stmt = see_stmt, .leave_stmt = leave_stmt};
  anfi_t_view_stmt(&v, turn);
  return c.units < 1e15 ? (int64_t)c.units + 1 : INT64_C(1000000000000000);
}
