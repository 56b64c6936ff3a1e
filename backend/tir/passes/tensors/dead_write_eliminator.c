// SPDX-License-Identifier: Apache-2.0
/* dead_write_eliminator: dead stores: writes to local tensors and variables that nothing reads, then their definitions, and
 * writes that are overwritten before anything reads them.
 *
 *   tensor T;  T[i] = A[i];  x = g(A)   →   evaluate{g(A)}
 *   B[i] = x;  y = 2;  B[i] = y         →   y = 2;  B[i] = y
 *
 * Calls within a dropped value stay if they may have effects. keep_write on a store protects it. */
#include "backend/tir/tir.h"

enum { ROUNDS = 4, NEAR = 16 }; // statements between a write and the one that overwrites it

typedef struct user {
  talias alias;
  anfi_map read; // variables and roots
} user;

static void mark(user *u, texpr x) {
  if (x) *anfi_map_at(&u->read, anfi_key(x)) = 1;
}
static bool see_expr(tviewer *v, texpr e) {
  user *u = (user *)v->user;
  if (e->kind == TX_var && !v->lvalue) mark(u, e);
  if (e->kind == TX_tensor) mark(u, anfi_t_root(&u->alias, e));
  if (e->kind != TX_indexing) return true;
  if (!v->lvalue) mark(u, anfi_t_root(&u->alias, e->in[0]));
  uint32_t keep = v->lvalue;
  v->lvalue = 0;
  for (uint32_t i = 1; i < e->n; i++) anfi_t_view_expr(v, e->in[i]);
  v->lvalue = keep;
  return false;
}
static bool see_stmt(tviewer *v, tstmt s) {
  user *u = (user *)v->user;
  if (s->kind == TS_define && s->e[0]->kind == TX_tensor && s->e[1] &&
      s->e[1]->kind != TX_constant) // viewed: keep it
    mark(u, s->e[1]->kind == TX_tensorptr ? anfi_t_root(&u->alias, s->e[1]->in[0]) : NULL);
  if (anfi_t_attr(s->attrs, TA_keep_write, NULL) && s->e[0])
    mark(u, s->e[0]->kind == TX_indexing ? anfi_t_root(&u->alias, s->e[0]->in[0]) : s->e[0]);
  return true;
}

static bool is_dead(const user *u, texpr x) {
  texpr root = x->kind == TX_var ? x : anfi_t_root(&u->alias, x);
  if (!root || (root->kind == TX_tensor && !anfi_t_is_local(&u->alias, root))) return false;
  return !anfi_map_find(&u->read, anfi_key(root));
}

static bool droppable(const tmod *m, texpr e) {
  if (e->kind == TX_call && anfi_t_pure_call(m, e) != PURE_TOTAL) return false;
  if (e->kind == TX_intrin_call && anfi_t_intrins[e->sub].purity == TP_EFFECT) return false;
  for (uint32_t i = 0; e->kind != TX_tensor && i < e->n; i++)
    if (!droppable(m, e->in[i])) return false;
  return true;
}

/* The statement without its write: its value, if that has an effect; else NULL. */
static tstmt without(tvisitor *v, tstmt s) {
  const user *u = (const user *)v->user;
  if (!s->e[1] || s->e[1]->kind == TX_ssa_phi || droppable(u->alias.m, s->e[1])) return NULL;
  return anfi_t_eval(v->t, s->e[1]);
}

static tstmt drop(tvisitor *v, tstmt s) {
  user *u = (user *)v->user;
  if (s->kind != TS_define && s->kind != TS_assign) return s;
  texpr x = s->e[0]->kind == TX_indexing ? s->e[0]->in[0] : s->e[0];
  if (x->kind != TX_var && x->kind != TX_tensor) return s;
  bool view =
      x->kind == TX_tensor && s->kind == TS_define && s->e[1] && s->e[1]->kind != TX_constant;
  if (view || !is_dead(u, x)) return s;
  if (s->kind == TS_assign && s->e[0]->kind == TX_indexing && !anfi_t_no_effect(s->e[0])) return s;
  return without(v, s);
}

/* ---- overwritten ---- */

static bool masked(texpr place) { return place->kind == TX_indexing && anfi_t_mask(place); }

static bool is_write(tstmt s) {
  return s->kind == TS_assign && !anfi_t_attr(s->attrs, TA_keep_write, NULL) && !masked(s->e[0]);
}

static bool same_place(texpr a, texpr b) {
  return a == b || (a->kind == TX_indexing && anfi_t_identical(a, b));
}

/* Is it the same place whatever memory is written: indices of variables and constants? */
static bool is_settled(texpr place) {
  for (uint32_t i = 1; place->kind == TX_indexing && i < place->n; i++)
    if (!anfi_t_pure(place->in[i])) return false;
  return true;
}

/* Does the statement write a variable of the place's indices? */
static bool moves(const talias *a, const teffects *e, texpr place) {
  for (uint32_t i = 1; place->kind == TX_indexing && i < place->n; i++)
    if (anfi_t_writes_part(e, a, place->in[i], true)) return true;
  return false;
}

/* Does the statement overwrite the place before it reads any of its root? *`on`: nothing of it matters to the place. */
static bool overwrites(user *u, anfi_arena *a, tstmt s, texpr place, texpr root, bool *on) {
  teffects e;
  anfi_t_effects_init(&e, a);
  bool here = s->kind == TS_assign && same_place(s->e[0], place) && !masked(s->e[0]);
  if (here) anfi_t_effects_expr(&e, &u->alias, s->e[1]);
  else anfi_t_effects_stmt(&e, &u->alias, s);
  *on = !here && !e.returns && !e.effect && !anfi_t_reads(&e, &u->alias, root) &&
        !moves(&u->alias, &e, place);
  return here && !e.returns && !e.effect && !anfi_t_reads(&e, &u->alias, root);
}

static bool is_overwritten(user *u, anfi_arena *a, tstmt seq, uint32_t i) {
  tstmt s = seq->s[i];
  if (!is_write(s) || !is_settled(s->e[0])) return false;
  texpr place = s->e[0],
        root = place->kind == TX_var ? place : anfi_t_root(&u->alias, place->in[0]);
  bool on = root != NULL;
  for (uint32_t k = i + 1; on && k < seq->n && k <= i + NEAR; k++)
    if (overwrites(u, a, seq->s[k], place, root, &on)) return true;
  return false;
}

static tstmt after(tvisitor *v, tstmt s) {
  user *u = (user *)v->user;
  ANFI_VEC(tstmt) out = {0};
  if (s->kind != TS_stmts) return drop(v, s);
  bool any = false;
  for (uint32_t i = 0; i < s->n; i++) {
    bool dead = is_overwritten(u, v->scratch, s, i);
    tstmt r = dead ? without(v, s->s[i]) : s->s[i];
    any |= dead;
    if (r) anfi_push(v->scratch, &out, r);
  }
  if (!any) return s;
  return s->sub ? anfi_t_splice(v->t, out.n, out.at) : anfi_t_stmts(v->t, out.n, out.at);
}

tfunc anfi_t_pass_dead_write_eliminator(tpass_cx *p, tfunc f) {
  for (int round = 0; round < ROUNDS; round++) {
    user u;
    anfi_t_alias_init(&u.alias, p->t, p->scratch, f);
    u.alias.m = p->m;
    anfi_map_init(&u.read, p->scratch);
    for (uint32_t i = 0; i < f->n; i++) mark(&u, f->param[i]);
    tviewer see = {.user = &u, .enter_expr = see_expr, .enter_stmt = see_stmt};
    anfi_t_view_stmt(&see, f->body);
    tvisitor v;
    anfi_t_visitor_init(&v, p->t, p->scratch, &u);
    v.stmt = after;
    tfunc r = anfi_t_visit_func(&v, f);
    if (r == f) break;
    f = r;
  }
  return f;
}
