// SPDX-License-Identifier: Apache-2.0
/* Random tensor programs: expressions of 2, 4 or 8 lanes, and scalars taken from them. */
#include "test/tir/random.h"

static void type(rgen *g, rtype t, unsigned lanes) {
  if (lanes == 1) rg_out(g, "%s", rg_type[t]);
  else rg_out(g, "%sx%u", rg_type[t], lanes);
}

static void constant(rgen *g, rtype t, unsigned lanes) {
  rg_out(g, "(");
  rg_constant(g, t);
  if (rg_pick(g, 2)) rg_out(g, " x %u)", lanes);
  else {
    for (unsigned i = 1; i < lanes; i++) rg_out(g, ", "), rg_constant(g, t);
    rg_out(g, ")");
  }
}

static void variable(rgen *g, rtype t, unsigned lanes) {
  for (unsigned i = 0, from = g->nvar ? rg_pick(g, g->nvar) : 0; i < g->nvar; i++) {
    const rvar *v = &g->var[(from + i) % g->nvar];
    if (v->type != t || v->lanes != lanes) continue;
    rg_out(g, "%s", v->name);
    return;
  }
  rg_load(g, t, lanes);
}

static void mask(rgen *g, unsigned lanes, unsigned depth) {
  static const char *const cmp[] = {"==", "!=", "<", "<=", ">", ">="};
  rtype t = rg_number_type(g);
  unsigned k = rg_pick(g, 6);
  if (k == 0 && depth) rg_out(g, "!("), mask(g, lanes, depth - 1), rg_out(g, ")");
  else if (k == 1 && depth) {
    rg_out(g, "(");
    mask(g, lanes, depth - 1);
    rg_out(g, rg_pick(g, 2) ? " && " : " || ");
    mask(g, lanes, depth - 1);
    rg_out(g, ")");
  } else if (k == 2 && rg_is_float(t)) {
    rg_out(g, "isnan("), rg_vector(g, t, lanes, depth), rg_out(g, ")");
  } else {
    rg_out(g, "(");
    rg_vector(g, t, lanes, depth);
    rg_out(g, " %s ", cmp[rg_pick(g, 6)]);
    rg_vector(g, t, lanes, depth);
    rg_out(g, ")");
  }
}

static void picks(rgen *g, unsigned lanes, unsigned below) {
  for (unsigned i = 0; i < lanes; i++) rg_out(g, ", %u", rg_pick(g, below));
  rg_out(g, ")");
}

static void lane_numbers(rgen *g, unsigned lanes, unsigned below) {
  for (unsigned i = 0; i < lanes; i++) rg_out(g, "%s%u", i ? ", " : "(", rg_pick(g, below));
  rg_out(g, ")");
}

static void shuffled(rgen *g, rtype t, unsigned lanes, unsigned depth) {
  static const char *const names[] = {"unpack_low", "unpack_high", "shuffle",
                                      "permute",    "permutexvar", "permutex2var",
                                      "insert",     "extract",     "broadcast"};
  unsigned k = rg_pick(g, 9);
  rg_out(g, "%s", names[k]);
  if (k > 1) rg_out(g, "<"), type(g, t, lanes), rg_out(g, ">");
  rg_out(g, "(");
  if (k == 4) lane_numbers(g, lanes, lanes), rg_out(g, ", ");
  rg_vector(g, t, k == 7 ? lanes * 2 : k == 8 ? lanes / 2 : lanes, depth);
  if (k <= 2) rg_out(g, ", "), rg_vector(g, t, lanes, depth);
  if (k <= 1) rg_out(g, ", %u)", lanes >= 4 ? 1 + rg_pick(g, 2) : 1);
  if (k == 2) picks(g, lanes, 2 * lanes);
  if (k == 3) picks(g, lanes, lanes);
  if (k == 5)
    rg_out(g, ", "), lane_numbers(g, lanes, 2 * lanes), rg_out(g, ", "),
        rg_vector(g, t, lanes, depth), rg_out(g, ")");
  if (k == 6) rg_out(g, ", "), rg_expr(g, t, depth), rg_out(g, ", %u)", rg_pick(g, lanes));
  if (k == 7) rg_out(g, ", %u)", rg_pick(g, lanes));
  if (k == 4 || k == 8) rg_out(g, ")");
}

static bool gather(rgen *g, rtype t, unsigned lanes) {
  rtensor *x = rg_addressed(g, t, 0);
  if (!x) return false;
  unsigned n = 1;
  for (unsigned k = 0; k < x->rank; k++) n *= x->dim[k];
  rg_out(g, "gather<");
  type(g, t, lanes);
  rg_out(g, ">(");
  rg_address(g, x);
  rg_out(g, ", ");
  lane_numbers(g, lanes, n);
  rg_out(g, ")");
  return true;
}

static void cast(rgen *g, rtype t, unsigned lanes, unsigned depth) {
  rtype from = rg_number_type(g);
  if (from == t) from = t == R_s32 ? R_f32 : R_s32;
  if (rg_pick(g, 4) == 0) rg_out(g, "saturated_cast<"), type(g, t, lanes), rg_out(g, ">");
  else type(g, t, lanes);
  rg_out(g, "(");
  rg_vector(g, from, lanes, depth);
  rg_out(g, ")");
}

static void lanewise(rgen *g, rtype t, unsigned lanes, unsigned depth) {
  static const char *const names[] = {"min",     "max", "fmadd", "abs",
                                      "int_and", "shl", "floor", "sqrt"};
  unsigned k = rg_pick(g, 6), n = k == 2 ? 3 : k == 3 ? 1 : 2;
  if (k > 3 && rg_is_float(t)) k += 2, n = 1;
  rg_out(g, "%s(", names[k]);
  for (unsigned i = 0; i < n; i++) {
    if (i) rg_out(g, ", ");
    rg_vector(g, t, lanes, depth);
  }
  rg_out(g, ")");
}

static void arithmetic(rgen *g, rtype t, unsigned lanes, unsigned depth) {
  static const char *const ops[] = {"+", "-", "*", "/", "%"};
  unsigned op = rg_pick(g, 7) % 5;
  rg_out(g, "(");
  rg_vector(g, t, lanes, depth);
  rg_out(g, " %s ", ops[op]);
  if (op >= 3)
    rg_out(g, rg_is_float(t) ? "(%u.0%s x %u)" : "(%u%s x %u)", 1 + rg_pick(g, 5), rg_suffix[t],
           lanes);
  else rg_vector(g, t, lanes, depth);
  rg_out(g, ")");
}

void rg_vector(rgen *g, rtype t, unsigned lanes, unsigned depth) {
  if (lanes == 1) {
    rg_expr(g, t, depth);
    return;
  }
  unsigned below = depth ? depth - 1 : 0;
  switch (depth ? rg_pick(g, 12) : rg_pick(g, 3)) {
  case 0: constant(g, t, lanes); return;
  case 1: variable(g, t, lanes); return;
  case 2: rg_load(g, t, lanes); return;
  case 3:
    rg_out(g, "broadcast<"), type(g, t, lanes), rg_out(g, ">(");
    rg_expr(g, t, below);
    rg_out(g, ")");
    return;
  case 4:
    rg_out(g, "select(");
    if (rg_pick(g, 3)) mask(g, lanes, below);
    else rg_boolean(g, below);
    rg_out(g, ", "), rg_vector(g, t, lanes, below);
    rg_out(g, ", "), rg_vector(g, t, lanes, below);
    rg_out(g, ")");
    return;
  case 5: lanewise(g, t, lanes, below); return;
  case 6: cast(g, t, lanes, below); return;
  case 7: shuffled(g, t, lanes, below); return;
  case 8:
    if (gather(g, t, lanes)) return;
  }
  arithmetic(g, t, lanes, below);
}

void rg_from_lanes(rgen *g, rtype t, unsigned depth) {
  static const char *const over[] = {"reduce_add", "reduce_mul", "reduce_max", "reduce_min"};
  unsigned lanes = 2u << rg_pick(g, 2), k = rg_pick(g, 6);
  if (k < 4) rg_out(g, "%s(", over[k]), rg_vector(g, t, lanes, depth), rg_out(g, ")");
  else {
    rg_out(g, "extract<%s>(", rg_type[t]);
    rg_vector(g, t, lanes, depth);
    rg_out(g, ", %u)", rg_pick(g, lanes));
  }
}

void rg_lanes_assign(rgen *g) {
  rtype t = rg_pick(g, 2) ? R_f32 : rg_number_type(g);
  unsigned lanes = 2u << rg_pick(g, 2);
  if (rg_pick(g, 3) == 0) {                // a variable
    rvar *v = rg_new_var(g, R_COUNT, "x"); // not visible in its own value
    if (!v) return;
    unsigned at = g->nvar - 1;
    rg_out(g, "var %s: ", v->name);
    type(g, t, lanes);
    rg_out(g, " = ");
    rg_vector(g, t, lanes, 2);
    rg_out(g, "\n");
    g->var[at].type = t;
    g->var[at].lanes = lanes;
    g->var[at].assignable = true;
    return;
  }
  for (unsigned i = 0; i < g->nvar && rg_pick(g, 2); i++)
    if (g->var[i].lanes > 1 && g->var[i].assignable && g->var[i].par == g->par) {
      rg_out(g, "%s = ", g->var[i].name);
      rg_vector(g, g->var[i].type, g->var[i].lanes, 2);
      rg_out(g, "\n");
      return;
    }
  rtensor *x = rg_some_tensor(g, t, true, lanes);
  if (!x || (rg_must_own(g, x) && x->rank == 1)) {
    rg_assign(g);
    return;
  }
  rg_place(g, x, lanes, 0, rg_must_own(g, x));
  if (rg_pick(g, 4) == 0) {
    g->n--; // the bracket
    rg_out(g, " M= ");
    mask(g, lanes, 1);
    rg_out(g, "]");
  }
  rg_out(g, " = ");
  rg_vector(g, t, lanes, 2);
  rg_out(g, "\n");
}
