// SPDX-License-Identifier: Apache-2.0
/* Visitors: copy on write, with consistent renaming.
 *
 *   replace x by y in  { A[x] = 1; B[0] = 2 }     A[x] = 1 and the block are new, B[0] = 2 is shared
 *
 * A node is rebuilt only if something below it changed. A replaced variable or tensor is replaced at every use,
 * since definitions come first. */
#include "backend/tir/tir.h"

void anfi_t_visitor_init(tvisitor *v, tstore *t, anfi_arena *scratch, void *user) {
  *v = (tvisitor){.t = t, .user = user, .scratch = scratch};
  anfi_map_init(&v->map, scratch);
}
void anfi_t_map_var(tvisitor *v, texpr from, texpr to) {
  *anfi_map_at(&v->map, anfi_key(from)) = anfi_key(to);
}
texpr anfi_t_mapped(const tvisitor *v, texpr from) {
  uint64_t *at = anfi_map_find(&v->map, anfi_key(from));
  return at ? (texpr)(uintptr_t)*at : NULL;
}

static texpr hook(tvisitor *v, texpr e) { return v->expr ? v->expr(v, e) : e; }

enum { FEW = 6 };

texpr anfi_t_visit_expr(tvisitor *v, texpr e) {
  if (e->kind == TX_var || e->kind == TX_tensor) {
    texpr to = anfi_t_mapped(v, e);
    return hook(v, to ? to : e);
  }
  texpr few[FEW], *in = e->n <= FEW ? few : ANFI_NEW_N(v->scratch, texpr, e->n);
  bool changed = false;
  uint32_t lvalue = v->lvalue;
  v->lvalue = 0;
  for (uint32_t i = 0; i < e->n; i++) {
    in[i] = anfi_t_visit_expr(v, e->in[i]);
    changed |= in[i] != e->in[i];
  }
  v->lvalue = lvalue;
  if (e->line) v->t->line = e->line, v->t->col = e->col;
  return hook(v, changed ? anfi_t_remake(v->t, e, in) : e);
}

/* A variable or tensor where it is defined. */
static texpr definition(tvisitor *v, texpr e) {
  texpr to = anfi_t_mapped(v, e);
  if (to) return to;
  if (e->kind == TX_var) {
    if (v->fresh) anfi_t_map_var(v, e, to = anfi_t_var(v->t, e->dtype, e->u.name->s));
    return to ? to : e;
  }
  texpr *in = ANFI_NEW_N(v->scratch, texpr, e->n);
  bool changed = v->fresh;
  for (uint32_t i = 0; i < e->n; i++) {
    in[i] = anfi_t_visit_expr(v, e->in[i]);
    changed |= in[i] != e->in[i];
  }
  if (!changed) return e;
  to = anfi_t_remake(v->t, e, in);
  anfi_t_map_var(v, e, to);
  return to;
}

static texpr maybe(tvisitor *v, texpr e) { return e ? anfi_t_visit_expr(v, e) : NULL; }

static tstmt sequence(tvisitor *v, tstmt s) {
  ANFI_VEC(tstmt) out = {0};
  bool changed = false;
  for (uint32_t i = 0; i < s->n; i++) {
    size_t mark = v->pre.n;
    tstmt r = anfi_t_visit_stmt(v, s->s[i]);
    if (!changed && (r != s->s[i] || v->pre.n != mark)) {
      changed = true;
      for (uint32_t k = 0; k < i; k++) anfi_push(v->scratch, &out, s->s[k]);
    }
    if (!changed) continue;
    for (size_t k = mark; k < v->pre.n; k++) anfi_push(v->scratch, &out, v->pre.at[k]);
    v->pre.n = mark;
    if (r) anfi_push(v->scratch, &out, r);
  }
  if (!changed) return s;
  return s->sub ? anfi_t_splice(v->t, out.n, out.at) : anfi_t_stmts(v->t, out.n, out.at);
}

static void expressions(tvisitor *v, tstmt s, texpr *e) {
  switch ((tskind)s->kind) {
  case TS_define:
    e[1] = maybe(v, s->e[1]);
    e[0] = definition(v, s->e[0]);
    break;
  case TS_assign:
    e[1] = maybe(v, s->e[1]);
    v->lvalue = 1;
    e[0] = anfi_t_visit_expr(v, s->e[0]);
    v->lvalue = 0;
    break;
  case TS_for_loop:
    for (int i = 1; i < 4; i++) e[i] = maybe(v, s->e[i]);
    e[0] = definition(v, s->e[0]);
    break;
  case TS_while_loop:
    v->in_while = true;
    e[0] = maybe(v, s->e[0]);
    v->in_while = false;
    break;
  default: e[0] = maybe(v, s->e[0]);
  }
}

tstmt anfi_t_visit_stmt(tvisitor *v, tstmt s) {
  if (v->enter && !(s = v->enter(v, s))) return NULL;
  tstmt r = s;
  if (s->line) v->t->line = s->line, v->t->col = s->col;
  if (s->kind == TS_stmts) r = sequence(v, s);
  else {
    texpr e[4] = {0};
    tstmt sub[2] = {0};
    expressions(v, s, e);
    bool changed = memcmp(e, s->e, sizeof e) != 0;
    for (uint32_t i = 0; i < s->n; i++) {
      sub[i] = s->s[i] ? anfi_t_visit_stmt(v, s->s[i]) : NULL;
      if (s->s[i] && !sub[i] && i == 0) sub[i] = anfi_t_stmts(v->t, 0, NULL);
      changed |= sub[i] != s->s[i];
    }
    if (changed) r = anfi_t_remake_stmt(v->t, s, e, sub);
  }
  return v->stmt ? v->stmt(v, r) : r;
}

tfunc anfi_t_visit_func(tvisitor *v, tfunc f) {
  texpr *param = ANFI_NEW_N(v->scratch, texpr, f->n);
  bool changed = false;
  for (uint32_t i = 0; i < f->n; i++) {
    param[i] = definition(v, f->param[i]);
    changed |= param[i] != f->param[i];
  }
  tstmt body = f->body ? anfi_t_visit_stmt(v, f->body) : NULL;
  if (f->body && !body) body = anfi_t_stmts(v->t, 0, NULL);
  if (!changed) return anfi_t_with_body(v->t, f, body);
  struct anf_tir_func_node *r = ANFI_NEW(&v->t->arena, struct anf_tir_func_node);
  texpr *p = ANFI_NEW_N(&v->t->arena, texpr, f->n);
  if (f->n) memcpy(p, param, f->n * sizeof *p);
  *r = *f;
  r->param = p;
  r->body = body;
  return r;
}

tstmt anfi_t_copy_stmt(tstore *t, anfi_arena *scratch, tstmt s, texpr from, texpr to) {
  tvisitor v;
  anfi_t_visitor_init(&v, t, scratch, NULL);
  v.fresh = true;
  if (from) anfi_t_map_var(&v, from, to);
  return anfi_t_visit_stmt(&v, s);
}
tstmt anfi_t_subst_stmt(tstore *t, anfi_arena *scratch, tstmt s, texpr from, texpr to) {
  tvisitor v;
  anfi_t_visitor_init(&v, t, scratch, NULL);
  anfi_t_map_var(&v, from, to);
  return anfi_t_visit_stmt(&v, s);
}

/* ---- reading ---- */

void anfi_t_view_expr(tviewer *v, texpr e) {
  bool in = !v->enter_expr || v->enter_expr(v, e);
  if (!in || e->kind == TX_tensor) return;
  uint32_t lvalue = v->lvalue;
  v->lvalue = 0;
  for (uint32_t i = 0; i < e->n; i++) anfi_t_view_expr(v, e->in[i]);
  v->lvalue = lvalue;
}

static void view_target(tviewer *v, tstmt s) {
  texpr x = s->e[0];
  if (s->kind == TS_define && x->kind == TX_tensor) {
    for (uint32_t i = 0; i < x->n; i++) anfi_t_view_expr(v, x->in[i]);
  } else if (s->kind == TS_assign) {
    v->lvalue = 1;
    anfi_t_view_expr(v, x);
    v->lvalue = 0;
  }
}

void anfi_t_view_stmt(tviewer *v, tstmt s) {
  if (v->enter_stmt && !v->enter_stmt(v, s)) return;
  bool target = s->kind == TS_define || s->kind == TS_assign, loop = s->kind == TS_for_loop;
  bool first = !target && !loop && s->e[0];
  if (first) anfi_t_view_expr(v, s->e[0]);
  for (int i = 1; i < 4; i++)
    if (s->e[i]) anfi_t_view_expr(v, s->e[i]);
  if (target) view_target(v, s);
  loop |= s->kind == TS_while_loop;
  v->loop_depth += loop;
  for (uint32_t i = 0; i < s->n; i++)
    if (s->s[i]) anfi_t_view_stmt(v, s->s[i]);
  v->loop_depth -= loop;
  if (v->leave_stmt) v->leave_stmt(v, s);
}

void anfi_t_visit_exprs(tstore *t, anfi_arena *scratch, const tmod *m, tmod *out,
                        texpr (*expr)(tvisitor *v, texpr e), void *user) {
  for (size_t i = 0; i < m->func.n; i++) {
    tvisitor v;
    anfi_t_visitor_init(&v, t, scratch, user);
    v.expr = expr;
    anfi_t_mod_add(out, m->func.at[i]->body ? anfi_t_visit_func(&v, m->func.at[i]) : m->func.at[i]);
  }
}
