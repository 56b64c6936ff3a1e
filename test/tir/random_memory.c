// SPDX-License-Identifier: Apache-2.0
/* Random tensor programs: statements that make tensors and views, and that reach memory otherwise
 * than by one index: calls, tiles, kernels, structures. */
#include "test/tir/random.h"

static rtensor *add(rgen *g, rtensor t) {
  return g->nt < 30 ? g->t[g->nt] = t, &g->t[g->nt++] : NULL;
}

void rg_tensor(rgen *g) {
  if (g->nt >= 30) {
    rg_define(g);
    return;
  }
  rtensor t = {.type = rg_number_type(g), .rank = 1 + rg_pick(g, 3), .par = g->par, .own = 0};
  unsigned id = rg_id(g), named = rg_pick(g, 6) == 0 ? rg_pick(g, t.rank) : 9;
  snprintf(t.name, sizeof t.name, "T%u", id);
  for (unsigned k = 0; k < t.rank; k++) t.dim[k] = 2 + rg_pick(g, 7);
  if (named < t.rank) rg_out(g, "var d%u: s32 = %u\n", id, t.dim[named]), rg_line(g);
  rg_out(g, "tensor %s: [%s", t.name, rg_type[t.type]);
  for (unsigned k = 0; k < t.rank; k++)
    if (k == named) rg_out(g, " * d%u", id);
    else rg_out(g, " * %u", t.dim[k]);
  rg_out(g, "] = {");
  unsigned n = t.rank == 1 && named > t.rank && rg_pick(g, 2) ? t.dim[0] : 1;
  for (unsigned k = 0; k < n; k++)
    rg_out(g, "%s%u%s", k ? ", " : "", rg_pick(g, 3),
           rg_is_float(t.type) ? rg_pick(g, 2) ? ".0f" : ".5f" : "");
  rg_out(g, "}\n");
  if (named < t.rank && rg_pick(g, 2)) // the tensor keeps its dims
    rg_line(g), rg_out(g, "d%u = 1\n", id);
  add(g, t);
}

/* A tensor that a loop fills slice by slice, each read where it was written. */
void rg_temporary(rgen *g) {
  rtype t = rg_number_type(g);
  unsigned id = rg_id(g), n = 2 + rg_pick(g, 6), work = g->work, nv = g->nvar, par = g->par;
  bool parallel = rg_pick(g, 3) == 0;
  rvar *sum = g->work * n < 3000 ? rg_new_var(g, R_COUNT, "r") : NULL,
       *i = sum ? rg_new_var(g, R_index, "i") : NULL;
  if (!i) {
    g->nvar = nv;
    rg_define(g);
    return;
  }
  rg_out(g, "tensor R%u: [%s * %u * 4]\n", id, rg_type[t], n), rg_line(g);
  if (parallel) rg_out(g, "tensor %s: [%s * %u] = {0}\n", sum->name, rg_type[t], n);
  else
    rg_out(g, "var %s: %s = 0%s\n", sum->name, rg_type[t],
           rg_is_float(t) ? t == R_f32 ? ".f" : rg_suffix[t] : rg_suffix[t]);
  rg_line(g);
  rg_out(g, "for %s in (0UL, %uUL, 1UL)%s {\n", i->name, n, parallel ? " parallel" : "");
  i->bound = n;
  g->indent++, g->work *= n, g->par += parallel;
  i->par = g->par;
  unsigned nt = g->nt;
  int counter = g->counter;
  if (parallel) g->nt = 0, g->counter = (int)(i - g->var); // its values come from variables alone
  rg_line(g), rg_out(g, "R%u[%s, 0 @ 4] = ", id, i->name), rg_vector(g, t, 4, 2), rg_out(g, "\n");
  rg_line(g), rg_out(g, "R%u[%s, %u] = ", id, i->name, rg_pick(g, 4)), rg_expr(g, t, 2),
      rg_out(g, "\n");
  rg_line(g);
  if (parallel) rg_out(g, "%s[%s] = ", sum->name, i->name);
  else rg_out(g, "%s = ", sum->name);
  rg_out(g, "(R%u[%s, 1UL] + reduce_add(R%u[%s, 0UL @ 4]))\n", id, i->name, id, i->name);
  g->nt = nt, g->counter = counter;
  g->indent--, g->work = work, g->par = par;
  rg_line(g), rg_out(g, "}\n");
  g->nvar = nv + 1;
  if (!parallel) g->var[nv].type = t, g->var[nv].assignable = true;
  else {
    rtensor s = {.type = t, .rank = 1, .dim = {n}, .par = g->par};
    memcpy(s.name, g->var[nv].name, sizeof s.name);
    add(g, s);
    g->nvar = nv;
  }
}

/* A tensor that constants alone index. */
void rg_small_tensor(rgen *g) {
  rtype t = rg_number_type(g);
  unsigned id = rg_id(g), n = 1 + rg_pick(g, 3);
  rg_out(g, "tensor S%u: [%s * %u]\n", id, rg_type[t], n);
  for (unsigned k = 0; k < n; k++)
    rg_line(g), rg_out(g, "S%u[%uUL] = ", id, k), rg_expr(g, t, 2), rg_out(g, "\n");
  rvar *v = rg_new_var(g, R_COUNT, "v");
  if (!v) return;
  unsigned at = g->nvar - 1;
  rg_line(g), rg_out(g, "S%u[0UL] = (S%u[%uUL] + ", id, id, rg_pick(g, n)), rg_expr(g, t, 1),
      rg_out(g, ")\n");
  rg_line(g), rg_out(g, "var %s: %s = S%u[%uUL]\n", v->name, rg_type[t], id, rg_pick(g, n));
  g->var[at].type = t;
}

/* A tensor of one dim of at least 4 that may be written here as a whole. */
static rtensor *some_row(rgen *g) {
  for (unsigned i = 0, from = rg_pick(g, g->nt); i < g->nt; i++) {
    rtensor *x = &g->t[(from + i) % g->nt];
    if (x->type == R_f32 && x->rank == 1 && x->dim[0] >= 4 && !x->strided && !rg_must_own(g, x))
      return x;
  }
  return NULL;
}

/* Calls that write memory: of a function that gives a value, of one for each i at once. */
void rg_effect(rgen *g) {
  rtensor *x = some_row(g);
  if (!x) {
    rg_assign(g);
    return;
  }
  unsigned n = 1 + rg_pick(g, 4), id = rg_id(g);
  if (rg_pick(g, 5) == 0) rg_out(g, "prefetch(&%s[1UL]) @[locality=%u]\n", x->name, rg_pick(g, 4));
  else if (rg_pick(g, 2))
    rg_out(g, "var e%u: f32 = poke(%s, ", id, x->name), rg_expr(g, R_f32, 2), rg_out(g, ")\n");
  else
    rg_out(g, "spread(%s, ", x->name), rg_expr(g, R_f32, 2),
        rg_out(g, ")@parallel([0UL, %uUL, 1UL], [0, 2, 1])\n", n);
}

/* A call in each turn of a loop, whose input lives around it and whose output does not. */
static void in_turns(rgen *g, const char *in, unsigned id) {
  rvar *sum = rg_new_var(g, R_f32, "r");
  if (!sum) return;
  sum->assignable = true;
  rg_line(g), rg_out(g, "var %s: f32 = 0.f\n", sum->name);
  rg_line(g), rg_out(g, "for k%u in (0UL, %uUL, 1UL) {\n", id, 1 + rg_pick(g, 3)), g->indent++;
  rg_line(g), rg_out(g, "tensor Q%u: [f32 * 4]\n", id);
  rg_line(g), rg_out(g, "opposite(%s, Q%u)\n", in, id);
  rg_line(g), rg_out(g, "%s = (%s + Q%u[%uUL])\n", sum->name, sum->name, id, rg_pick(g, 4));
  g->indent--, rg_line(g), rg_out(g, "}\n");
  if (!g->par) rg_line(g), rg_out(g, "x = (x + %s)\n", sum->name); // else threads would race
}

/* A call whose input may die in it, so that its output may take the place. */
void rg_in_place(rgen *g) {
  if (g->nt >= 29) {
    rg_define(g);
    return;
  }
  rtensor a = {.type = R_f32, .rank = 1, .dim = {4}, .par = g->par}, b = a;
  unsigned id = rg_id(g);
  snprintf(a.name, sizeof a.name, "P%u", id);
  snprintf(b.name, sizeof b.name, "Q%u", id);
  rg_out(g, "tensor %s: [f32 * 4]\n", a.name), rg_line(g);
  rg_out(g, "%s[0UL @ 4] = ", a.name), rg_vector(g, R_f32, 4, 2), rg_out(g, "\n");
  if (rg_pick(g, 3) == 0) {
    in_turns(g, a.name, id);
  } else {
    rg_line(g), rg_out(g, "tensor %s: [f32 * 4]\n", b.name);
    rg_line(g), rg_out(g, "opposite(%s, %s)\n", a.name, b.name);
    add(g, b);
  }
  if (rg_pick(g, 3) == 0) add(g, a);
}

/* ---- views ---- */

static bool viewable(const rgen *g, const rtensor *x) {
  return x && x->rank >= 2 && !x->strided && !rg_must_own(g, x) && g->nt < 30;
}

/* Rows from a tensor of 3 dims, a window, the transpose, a column, or the last dim. */
void rg_view(rgen *g) {
  rtensor *x = rg_some_tensor(g, rg_number_type(g), true, 1);
  if (!viewable(g, x)) {
    rg_assign(g);
    return;
  }
  rtensor t = {.type = x->type, .rank = 2, .par = g->par, .own = 0};
  snprintf(t.name, sizeof t.name, "V%u", rg_id(g));
  const unsigned *d = x->dim + x->rank - 2;
  unsigned kind = rg_pick(g, 6), cut = 1 + rg_pick(g, d[1]);
  rg_out(g, "tensor %s: [%s", t.name, rg_type[t.type]);
  t.dim[0] = d[0], t.dim[1] = d[1];
  t.strided = kind < 3;
  if (kind == 0) rg_out(g, " * %u * %u : %u * 1", d[0], t.dim[1] = cut, d[1]);
  else if (kind == 1) rg_out(g, " * %u * %u : 1 * %u", t.dim[0] = d[1], t.dim[1] = d[0], d[1]);
  else if (kind == 2) t.rank = 1, rg_out(g, " * %u : %u", d[0], d[1]);
  else if (kind == 3) rg_out(g, " * %u * %u", d[0], d[1]);
  else t.rank = 1, rg_out(g, " * %u", t.dim[0] = d[1]);
  rg_out(g, "] = &%s[", x->name);
  if (x->rank == 3) rg_index(g, x->dim[0], 1), rg_out(g, ", ");
  if (kind < 4) rg_out(g, "0UL, ");
  else rg_index(g, d[0], 1), rg_out(g, ", ");
  if (kind == 0) rg_index(g, d[1], cut);
  else if (kind == 2) rg_index(g, d[1], 1);
  else rg_out(g, "0UL");
  rg_out(g, "]\n");
  add(g, t);
}

/* ---- tiles, kernels, structures ---- */

static rtensor *some_matrix(rgen *g, bool write, const rtensor *other) {
  for (unsigned i = 0, from = rg_pick(g, g->nt); i < g->nt; i++) {
    rtensor *x = &g->t[(from + i) % g->nt];
    if (x->type != R_f32 || x->rank < 2 || x->strided || rg_must_own(g, x) || x == other) continue;
    if (write && x->name[0] == 'V') continue; // of what else?
    return x;
  }
  return NULL;
}

void rg_tile(rgen *g) {
  rtensor *z = some_matrix(g, true, NULL), *x = some_matrix(g, false, NULL),
          *y = some_matrix(g, false, NULL);
  if (!z) {
    rg_assign(g);
    return;
  }
  rg_place(g, z, 2, 2, false);
  rg_out(g, " = (");
  rg_place(g, x, 2, 2, false);
  rg_out(g, rg_pick(g, 2) ? " + " : " * ");
  if (rg_pick(g, 2)) rg_place(g, y, 2, 2, false);
  else rg_out(g, "(1.5f x 2 x 2)");
  rg_out(g, ")\n");
}

static void corner(rgen *g, const rtensor *t) {
  rg_out(g, "&%s[", t->name);
  for (unsigned k = 0; k < t->rank; k++) {
    if (k) rg_out(g, ", ");
    rg_index(g, t->dim[k], k + 2 >= t->rank ? 2 : 1);
  }
  rg_out(g, "]");
}

/* 2 by 2 by 2; no view may be about that shows one operand as another */
void rg_kernel(rgen *g) {
  static const char *const post[] = {"init", "init=0", "init, post_relu", "init, trans_a"};
  rtensor *z = some_matrix(g, true, NULL), *x = some_matrix(g, false, z),
          *y = some_matrix(g, false, z);
  bool views = false;
  for (unsigned k = 0; k < g->nt; k++) views |= g->t[k].name[0] == 'V';
  if (!z || !x || !y || views) {
    rg_assign(g);
    return;
  }
  bool list = rg_pick(g, 3) == 0;
  unsigned id = rg_id(g);
  if (list) {
    rg_out(g, "tensor K%u: [void* * 1]\n", id), rg_line(g);
    rg_out(g, "tensor L%u: [void* * 1]\n", id), rg_line(g);
    rg_out(g, "K%u[0UL] = void*(", id), corner(g, x), rg_out(g, ")\n"), rg_line(g);
    rg_out(g, "L%u[0UL] = void*(", id), corner(g, y), rg_out(g, ")\n"), rg_line(g);
    rg_out(g, "list_brgemm(&K%u[0UL], &L%u[0UL], ", id, id);
  } else {
    rg_out(g, "brgemm("), corner(g, x), rg_out(g, ", "), corner(g, y), rg_out(g, ", ");
  }
  corner(g, z);
  rg_out(g, ", 1s64, 2s64, 2s64, 2s64, %us64, %us64, %us64, 0s64, 0s64%s) @[%s]\n",
         x->dim[x->rank - 1], y->dim[y->rank - 1], z->dim[z->rank - 1], list ? ", 1s64" : "",
         post[rg_pick(g, 4)]);
}

void rg_struct_write(rgen *g) {
  rtype t = rg_number_type(g);
  rtensor *x = rg_addressed(g, t, 0);
  if (!x) {
    rg_assign(g);
    return;
  }
  rg_out(g, "write_struct("), rg_address(g, x), rg_out(g, ", "), rg_expr(g, t, 2),
      rg_out(g, ", 0UL)\n");
}
