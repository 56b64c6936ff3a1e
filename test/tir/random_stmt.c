// SPDX-License-Identifier: Apache-2.0
/* Random tensor programs: variables, control flow, functions, modules. */
#include "test/tir/random.h"

void rg_define(rgen *g) {
  rtype t = rg_any_type(g);
  rvar *v = rg_new_var(g, R_COUNT, "v"); // not visible in its own value
  if (!v) return;
  unsigned at = g->nvar - 1;
  bool late = rg_pick(g, 5) == 0;
  rg_out(g, "var %s: %s", v->name, rg_type[t]);
  if (late) rg_out(g, "\n"), rg_line(g), rg_out(g, "%s", g->var[at].name);
  rg_out(g, " = ");
  rg_expr(g, t, 3);
  rg_out(g, "\n");
  g->var[at].type = t;
  g->var[at].assignable = true;
}

void rg_assign(rgen *g) {
  rtype t = rg_any_type(g);
  int v = rg_pick(g, 2) ? rg_some_var(g, t, true) : -1;
  rtensor *x = v < 0 ? rg_some_tensor(g, t, true, 1) : NULL;
  if (v >= 0) rg_out(g, "%s = ", g->var[v].name);
  else if (x) rg_place(g, x, 1, 0, rg_must_own(g, x)), rg_out(g, " = ");
  else {
    rg_define(g);
    return;
  }
  rg_expr(g, t, 4);
  rg_out(g, "\n");
}

static void open_scope(rgen *g, unsigned most) {
  unsigned nv = g->nvar, nt = g->nt;
  rg_out(g, "{\n");
  g->indent++;
  rg_body(g, most);
  g->indent--;
  rg_line(g);
  rg_out(g, "}");
  g->nvar = nv;
  g->nt = nt;
}

static void branch(rgen *g) {
  rg_out(g, "if (");
  rg_boolean(g, 2);
  rg_out(g, ") ");
  if (!g->par && rg_pick(g, 10) == 0) {
    rg_out(g, "{\n");
    g->indent++;
    rg_line(g);
    rg_out(g, "return ");
    rg_expr(g, R_f32, 2);
    rg_out(g, "\n");
    g->indent--;
    rg_line(g);
    rg_out(g, "}\n");
    return;
  }
  open_scope(g, 3);
  if (rg_pick(g, 2)) rg_out(g, " else "), open_scope(g, 3);
  rg_out(g, "\n");
}

static void branch_on_counter(rgen *g) {
  for (unsigned i = g->nvar; i-- > 0;) {
    if (!g->var[i].bound) continue;
    rg_out(g, "if (%s %s %u%s) ", g->var[i].name,
           rg_pick(g, 2) ? "<" : ">=", rg_pick(g, g->var[i].bound + 2), rg_suffix[g->var[i].type]);
    open_scope(g, 2);
    if (rg_pick(g, 2)) rg_out(g, " else "), open_scope(g, 2);
    rg_out(g, "\n");
    return;
  }
  branch(g);
}

/* Which tensors the iterations of a parallel loop may write: own slices of some. What a parallel loop
 * around writes by slices is left alone within. */
static void share_out(rgen *g, unsigned n) {
  bool views = false;
  for (unsigned k = 0; k < g->nt; k++) views |= g->t[k].name[0] == 'V';
  for (unsigned k = 0; k < g->nt; k++) { // a view is its tensor under another name
    rtensor *t = &g->t[k];
    bool around = g->par > 1 && t->par < g->par - 1;
    if (around) t->own = t->own == -1 ? -1 : -2;
    else t->own = !views && t->own >= 0 && t->dim[0] >= n && rg_pick(g, 2) ? 0 : -1;
  }
}

/* The bounds of a loop whose counter stays below n; `n` may depend on a counter around it. */
static void bounds(rgen *g, rtype t, unsigned n, bool parallel) {
  const char *s = rg_suffix[t];
  const rvar *outer = g->nvar > 1 ? &g->var[rg_pick(g, g->nvar - 1)] : NULL;
  bool near = !parallel && outer && outer->bound && outer->bound <= n && outer->type == t;
  unsigned kind = rg_pick(g, 8);
  if (kind == 0 && near) rg_out(g, "(0%s, (%s + 1%s), 1%s)", s, outer->name, s, s);
  else if (kind == 1 && near) rg_out(g, "(%s, %u%s, 1%s)", outer->name, n, s, s);
  else if (kind == 2) rg_out(g, "(%u%s, %u%s, 1%s)", rg_pick(g, 3), s, n, s, s);
  else if (kind == 3 && t == R_index) rg_out(g, "(0UL, (k %% %uUL), 1UL)", n + 1);
  else rg_out(g, "(0%s, %u%s, %u%s)", s, n, s, parallel || rg_pick(g, 4) ? 1 : 2, s);
}

static void loop_attrs(rgen *g, bool parallel) {
  unsigned k = rg_pick(g, 10);
  if (parallel) rg_out(g, " parallel");
  if (parallel && k == 9) rg_out(g, " (%u)", 1 + rg_pick(g, 4));
  if (parallel && k == 0) rg_out(g, " @[workload=%u]", 1 + rg_pick(g, 60000));
  else if (parallel && k == 1) rg_out(g, " @[no_parallel]");
  else if (!parallel && k < 2) rg_out(g, " @[unroll_loop=%u]", rg_pick(g, 4));
  else if (k < 4) rg_out(g, " @[merge_loop]");
}

static void dynamic_row(rgen *g, const char *i) { // D has mm rows, i is below mm
  rg_line(g);
  rg_out(g, "D[%s, %u] = (D[%s, %u] + ", i, rg_pick(g, 3), i, rg_pick(g, 3));
  rg_expr(g, R_f32, 2);
  rg_out(g, ")\n");
}

static void loop(rgen *g, bool parallel) {
  unsigned nv = g->nvar, n = 1 + rg_pick(g, 8), work = g->work, par = g->par;
  bool dynamic = g->dynamic && rg_pick(g, 12) == 0 && !g->par;
  rtype t = rg_pick(g, 2) || dynamic ? R_index : R_s32;
  if (dynamic) n = 7; // mm is no more
  rvar *v = g->work * n <= 3000 ? rg_new_var(g, t, "i") : NULL;
  if (!v) {
    rg_assign(g);
    return;
  }
  unsigned at = g->nvar - 1;
  int counter = g->counter;
  rtensor saved[32];
  memcpy(saved, g->t, sizeof saved);
  rg_out(g, "for %s in ", v->name);
  if (dynamic) rg_out(g, "(0UL, mm, 1UL)");
  else bounds(g, t, n, parallel);
  loop_attrs(g, parallel);
  if (parallel) {
    g->par++;
    g->counter = (int)at;
    share_out(g, n);
  }
  g->var[at].bound = n;
  g->var[at].par = g->par;
  g->work *= n;
  rg_out(g, " {\n");
  g->indent++;
  unsigned nt = g->nt;
  if (dynamic) dynamic_row(g, g->var[at].name);
  rg_body(g, 4);
  g->indent--;
  rg_line(g);
  rg_out(g, "}\n");
  g->nt = nt;
  g->work = work;
  g->par = par;
  g->counter = counter;
  for (unsigned k = 0; k < g->nt; k++) g->t[k].own = saved[k].own;
  g->nvar = nv;
}

static void element(rgen *g, const rtensor *t, const char *i) {
  rg_out(g, "%s[%s", t->name, i);
  for (unsigned k = 1; k < t->rank; k++) rg_out(g, ", %u", rg_pick(g, t->dim[k]));
  rg_out(g, "]");
}

/* x[i] = variables, and maybe what `from` has at i */
static void slice(rgen *g, const rtensor *x, const rtensor *from, const char *i, bool parallel) {
  unsigned nt = g->nt;
  rg_out(g, " {\n");
  g->indent++;
  rg_line(g);
  element(g, x, i);
  rg_out(g, " = (");
  if (from) element(g, from, i);
  else rg_constant(g, x->type);
  rg_out(g, " + ");
  g->nt = 0, g->par += parallel;
  rg_expr(g, x->type, 2);
  g->nt = nt, g->par -= parallel;
  rg_out(g, ")\n");
  g->indent--;
  rg_line(g);
  rg_out(g, "}\n");
}

/* Two loops next to each other that may become one. */
static void neighbours(rgen *g) {
  rtype t = rg_pick(g, 2) ? R_f32 : rg_number_type(g);
  bool parallel = rg_pick(g, 2), views = false;
  const rtensor *x = rg_addressed(g, t, 0), *y = rg_addressed(g, t, 0);
  for (unsigned k = 0; k < g->nt; k++) views |= g->t[k].name[0] == 'V';
  if (!x || (parallel && views)) {
    rg_assign(g);
    return;
  }
  unsigned least = x->dim[0] < y->dim[0] ? x->dim[0] : y->dim[0], n = 1 + rg_pick(g, least),
           other = rg_pick(g, 3) ? n : 1 + rg_pick(g, least);
  const char *how =
      parallel ? rg_pick(g, 2) ? " parallel" : " parallel @[merge_loop]" : " @[merge_loop]";
  rg_out(g, "for i in (0UL, %uUL, 1UL)%s", n, how);
  slice(g, x, NULL, "i", parallel);
  rg_line(g);
  rg_out(g, "for j in (0UL, %uUL, 1UL)%s", other, how);
  slice(g, y, rg_pick(g, 2) ? x : NULL, "j", parallel);
}

static void while_loop(rgen *g) {
  unsigned nv = g->nvar, n = 1 + rg_pick(g, 4), work = g->work;
  rvar *v = rg_new_var(g, R_COUNT, "w"); // nobody else touches it
  if (!v) return;
  rg_out(g, "var %s: s32 = 0\n", v->name);
  rg_line(g);
  if (rg_pick(g, 3)) rg_out(g, "while (%s < %u) {\n", v->name, n);
  else rg_out(g, "while ((%s < %u) && ", v->name, n), rg_boolean(g, 1), rg_out(g, ") {\n");
  g->indent++;
  g->work *= n;
  rg_line(g);
  rg_out(g, "%s = (%s + 1)\n", g->var[nv].name, g->var[nv].name);
  unsigned nt = g->nt, inner = g->nvar;
  if (g->work < 3000) rg_body(g, 3);
  g->nt = nt;
  g->nvar = inner;
  g->indent--;
  rg_line(g);
  rg_out(g, "}\n");
  g->work = work;
  g->nvar = nv;
}

static void seldom(rgen *g) {
  switch (rg_pick(g, 10)) {
  case 0:
  case 1: rg_temporary(g); break;
  case 2: rg_small_tensor(g); break;
  case 3: rg_in_place(g); break;
  case 4: rg_kernel(g); break;
  case 5: rg_tile(g); break;
  case 6: rg_struct_write(g); break;
  case 7: open_scope(g, 3), rg_out(g, "\n"); break;
  case 8: neighbours(g); break;
  default: rg_lanes_assign(g);
  }
}

void rg_body(rgen *g, unsigned most) {
  for (unsigned n = 1 + rg_pick(g, most); n-- > 0 && g->budget;) {
    g->budget--;
    rg_line(g);
    switch (rg_pick(g, 18)) {
    case 0:
    case 1: rg_define(g); break;
    case 2: rg_tensor(g); break;
    case 3: rg_view(g); break;
    case 4: branch(g); break;
    case 5: branch_on_counter(g); break;
    case 6:
    case 7: loop(g, false); break;
    case 8: loop(g, g->par == 0 || rg_pick(g, 3) == 0); break;
    case 9: while_loop(g); break;
    case 10: rg_lanes_assign(g); break;
    case 11: rg_effect(g); break;
    case 12:
    case 13: seldom(g); break;
    default: rg_assign(g);
    }
  }
}

/* ---- functions and the module ---- */

static void given(rgen *g, const char *name, rtype t, bool assignable) {
  rvar *v = rg_new_var(g, t, "");
  snprintf(v->name, sizeof v->name, "%s", name);
  v->assignable = assignable;
}

static void function(rgen *g, unsigned size) {
  g->nvar = g->nt = 0;
  g->budget = size;
  rg_out(g, "func f0(n: s32, x: f32, k: index, m: index, D8: [f32 * 8 * 3]");
  given(g, "n", R_s32, true);
  given(g, "x", R_f32, true);
  given(g, "k", R_index, true);
  given(g, "m", R_index, true);
  g->dynamic = true;
  for (unsigned i = 0; i < 3; i++) {
    rtensor t = {.type = i == 0 ? R_f32 : rg_number_type(g), .rank = 1 + rg_pick(g, 3), .own = 0};
    snprintf(t.name, sizeof t.name, "A%u", i);
    rg_out(g, ", %s: [%s", t.name, rg_type[t.type]);
    for (unsigned d = 0; d < t.rank; d++) rg_out(g, " * %u", t.dim[d] = 4 + rg_pick(g, 5));
    rg_out(g, "]");
    g->t[g->nt++] = t;
  }
  g->t[g->nt++] = (rtensor){.name = "G0", .type = R_f32, .rank = 1, .dim = {8}};
  g->t[g->nt++] = (rtensor){.name = "G1", .type = R_s32, .rank = 2, .dim = {4, 3}};
  rg_out(g, "): f32 @[scalar_part=1] {\n  var mm: index = (m %% 8UL)\n  tensor D: [f32 * mm * 3] = "
            "&D8[0UL, 0UL]\n");
  g->indent = 1;
  while (g->budget) rg_body(g, 8);
  rg_line(g);
  rg_out(g, "return ");
  rg_expr(g, R_f32, 3);
  rg_out(g, "\n}\n");
}

static void helper(rgen *g, unsigned k) {
  g->nvar = g->nt = 0;
  rg_out(g, "func helper%u(a: f32, b: s32): f32 @[inline_level=%u, is_private%s] {\n", k, k ? 2 : 0,
         rg_pick(g, 2) ? ", pure" : "");
  given(g, "a", R_f32, false);
  given(g, "b", R_s32, false);
  rg_out(g, "  var r: f32 = ");
  rg_expr(g, R_f32, 2);
  rg_out(g, "\n  if (b > 2) {\n    r = (r + ");
  rg_expr(g, R_f32, 2);
  rg_out(g, ")\n  }\n  return r\n}\n");
}

static void deep(rgen *g) { // calls itself
  g->nvar = g->nt = 0;
  given(g, "a", R_f32, false);
  given(g, "b", R_s32, false);
  rg_out(g,
         "func deep(a: f32, b: s32): f32 @[inline_level=%u, is_private] {\n  if (b > 0) {\n"
         "    return (deep((a * 0.5f), (b - 1)) + ",
         rg_pick(g, 3));
  rg_expr(g, R_f32, 2);
  rg_out(g, ")\n  }\n  return a\n}\n");
}

char *random_module(uint64_t seed, unsigned size, bool half) {
  rgen g = {.s = seed, .half = half, .work = 1, .counter = -1};
  rg_out(&g,
         "private tensor G0: [f32 * 8] = {1.f, 2.f, 3.f, 4.f, 5.f, 6.f, 7.f, 8.f}\n"
         "public tensor G1: [s32 * 4 * 3] = {2}\n"
         "func poke(B: [f32 * 4], x: f32): f32 @[is_private%s] {\n  B[1UL] = (x + G0[2UL])\n"
         "  return B[2UL]\n}\n",
         rg_pick(&g, 2) ? ", inline_level=2" : "");
  rg_out(&g, "func spread(i: index, j: s32, B: [f32 * 4], x: f32): void @[is_private] {\n"
             "  if (j == 1) {\n    B[i] = (x * f32(i))\n  }\n}\n"
             "func opposite(P: [f32 * 4], Q: [f32 * 4]): void @[inplace_hint=256, is_private] {\n"
             "  for i in (0UL, 4UL, 1UL) {\n    Q[i] = (0.f - P[i])\n  }\n}\n");
  for (unsigned k = 0; k < 2; k++) helper(&g, k);
  deep(&g);
  g.helpers = 2;
  function(&g, size);
  return g.text;
}
