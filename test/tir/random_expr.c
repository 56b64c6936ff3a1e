// SPDX-License-Identifier: Apache-2.0
/* Random tensor programs: expressions of one lane. Left out are functions whose last bit is not laid
 * down (exp, sin), which passes and engines may take from elsewhere, and what differs from thread to
 * thread. */
#include "test/tir/random.h"

void rg_boolean(rgen *g, unsigned depth) {
  static const char *const cmp[] = {"==", "!=", "<", "<=", ">", ">="};
  rtype t = rg_number_type(g);
  unsigned k = rg_pick(g, 9), below = depth ? depth - 1 : 0;
  if (k == 0) {
    rg_out(g, "!(");
    rg_boolean(g, below);
    rg_out(g, ")");
  } else if (k == 1 && depth) {
    rg_out(g, "(");
    rg_boolean(g, below);
    rg_out(g, rg_pick(g, 2) ? " && " : " || ");
    rg_boolean(g, below);
    rg_out(g, ")");
  } else if (k == 2 && rg_is_float(t)) {
    rg_out(g, rg_pick(g, 2) ? "isnan(" : "isinf(");
    rg_expr(g, t, below);
    rg_out(g, ")");
  } else {
    rg_out(g, "(");
    rg_expr(g, t, below);
    rg_out(g, " %s ", cmp[rg_pick(g, 6)]);
    rg_expr(g, t, below);
    rg_out(g, ")");
  }
}

static void arithmetic(rgen *g, rtype t, unsigned depth) {
  static const char *const ops[] = {"+", "-", "*", "/", "%"};
  unsigned op = rg_pick(g, 5);
  rg_out(g, "(");
  rg_expr(g, t, depth - 1);
  rg_out(g, " %s ", ops[op]);
  if (op >= 3) // never by 0
    rg_out(g, rg_is_float(t) ? "%u.0%s" : "%u%s", 1 + rg_pick(g, 5), rg_suffix[t]);
  else rg_expr(g, t, depth - 1);
  rg_out(g, ")");
}

static void arguments(rgen *g, rtype t, unsigned n, unsigned depth) {
  for (unsigned i = 0; i < n; i++) {
    if (i) rg_out(g, ", ");
    rg_expr(g, t, depth);
  }
  rg_out(g, ")");
}

static void intrinsic(rgen *g, rtype t, unsigned depth) {
  static const struct {
    const char *name;
    unsigned n;
  } any[] = {{"min", 2}, {"max", 2}, {"abs", 1}, {"fmadd", 3}, {"fnmadd", 3}},
    whole[] = {{"int_and", 2}, {"int_or", 2}, {"int_xor", 2},
               {"int_not", 1}, {"shl", 2},    {"shr", 2}},
    real[] = {{"round", 1}, {"floor", 1},    {"ceil", 1}, {"trunc", 1},
              {"sqrt", 1},  {"copysign", 2}, {"fmod", 2}};
  unsigned k = rg_pick(g, 12);
  if (k < 5) rg_out(g, "%s(", any[k].name), arguments(g, t, any[k].n, depth - 1);
  else if (rg_is_float(t)) {
    k = rg_pick(g, ANFI_LEN(real));
    rg_out(g, "%s(", real[k].name), arguments(g, t, real[k].n, depth - 1);
  } else {
    k = rg_pick(g, ANFI_LEN(whole));
    rg_out(g, "%s(", whole[k].name), arguments(g, t, whole[k].n, depth - 1);
  }
}

static void cast(rgen *g, rtype t, unsigned depth) {
  rtype from = rg_any_type(g);
  while (from == t) from = (rtype)rg_pick(g, R_COUNT);
  if (rg_is_half(from) && !g->half) from = R_f32 == t ? R_s32 : R_f32;
  unsigned k = from != R_bool ? rg_pick(g, 6) : 9;
  if (k == 0) rg_out(g, "saturated_cast<%s>(", rg_type[t]);
  else if (k == 1) rg_out(g, "round_and_cast<%s>(", rg_type[t]);
  else rg_out(g, "%s(", rg_type[t]);
  rg_expr(g, from, depth - 1);
  rg_out(g, ")");
}

/* Another type's bits. From a float it would show which NaN a pass made of a NaN. */
static bool reinterpret(rgen *g, rtype t, unsigned depth) {
  static const rtype from[R_COUNT] = {
      [R_s8] = R_u8,     [R_u8] = R_s8,   [R_s32] = R_u32, [R_u32] = R_s32,  [R_f32] = R_u32,
      [R_s64] = R_index, [R_u64] = R_s64, [R_f64] = R_u64, [R_index] = R_s64};
  if (!from[t]) return false;
  rg_out(g, "reinterpret<%s>(", rg_type[t]);
  rg_expr(g, from[t], depth - 1);
  rg_out(g, ")");
  return true;
}

static bool call(rgen *g, rtype t, unsigned depth) {
  if (t != R_f32 || !g->helpers) return false;
  unsigned k = rg_pick(g, 2 * g->helpers + 1);
  if (k < g->helpers) rg_out(g, "helper%u(", k);
  else if (k < 2 * g->helpers) rg_out(g, "call(&helper%u: f32, ", k - g->helpers);
  else rg_out(g, "deep(");
  rg_expr(g, R_f32, depth - 1);
  rg_out(g, ", ");
  if (k == 2 * g->helpers) rg_out(g, "int_and(");
  rg_expr(g, R_s32, depth - 1);
  if (k == 2 * g->helpers) rg_out(g, ", 3)");
  rg_out(g, ")");
  return true;
}

static void select(rgen *g, rtype t, unsigned depth) {
  rg_out(g, "select(");
  rg_boolean(g, depth - 1);
  rg_out(g, ", ");
  rg_expr(g, t, depth - 1);
  rg_out(g, ", ");
  rg_expr(g, t, depth - 1);
  rg_out(g, ")");
}

static void simple(rgen *g, rtype t) {
  int v = rg_pick(g, 3) ? rg_some_var(g, t, false) : -1;
  if (v >= 0) rg_out(g, "%s", g->var[v].name);
  else rg_constant(g, t);
}

void rg_expr(rgen *g, rtype t, unsigned depth) {
  if (t == R_bool) {
    if (depth && rg_pick(g, 3)) rg_boolean(g, depth);
    else simple(g, t);
    return;
  }
  switch (depth ? rg_pick(g, 14) : 0) {
  case 0:
  case 1:
  case 2: simple(g, t); return;
  case 3:
  case 4: rg_load(g, t, 1); return;
  case 5: intrinsic(g, t, depth); return;
  case 6: select(g, t, depth); return;
  case 7: cast(g, t, depth); return;
  case 8:
    if (call(g, t, depth)) return;
    break;
  case 9:
    if (depth < 2) break;
    rg_from_lanes(g, t, depth - 1);
    return;
    break;
  case 10:
    if (rg_pick(g, 3) == 0 && reinterpret(g, t, depth)) return;
  }
  arithmetic(g, t, depth);
}
