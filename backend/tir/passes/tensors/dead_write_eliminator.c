// SPDX-License-Identifier: Apache-2.0
/* dead_write_eliminator: dead stores: writes to local tensors and variables that nothing reads, then their definitions.
 *
 *   tensor T;  T[i] = A[i];  x = g(A)   →   evaluate{g(A)}
 *
 * Calls within a dropped value stay: they may have effects. keep_write on a store protects it. */
#include "backend/tir/tir.h"

enum { ROUNDS = 4 };

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

static tstmt drop(tvisitor *v, tstmt s) {
  user *u = (user *)v->user;
  if (s->kind != TS_define && s->kind != TS_assign) return s;
  texpr x = s->e[0]->kind == TX_indexing ? s->e[0]->in[0] : s->e[0];
  if (x->kind != TX_var && x->kind != TX_tensor) return s;
  bool view =
      x->kind == TX_tensor && s->kind == TS_define && s->e[1] && s->e[1]->kind != TX_constant;
  if (view || !is_dead(u, x)) return s;
  if (s->kind == TS_assign && s->e[0]->kind == TX_indexing && !anfi_t_no_effect(s->e[0])) return s;
  if (!s->e[1] || s->e[1]->kind == TX_ssa_phi || anfi_t_no_effect(s->e[1])) return NULL;
  return anfi_t_eval(v->t, s->e[1]);
}

tfunc anfi_t_pass_dead_write_eliminator(tpass_cx *p, tfunc f) {
  for (int round = 0; round < ROUNDS; round++) {
    user u;
    anfi_t_alias_init(&u.alias, p->t, p->scratch, f);
    anfi_map_init(&u.read, p->scratch);
    for (uint32_t i = 0; i < f->n; i++) mark(&u, f->param[i]);
    tviewer see = {.user = &u, .enter_expr = see_expr, .enter_stmt = see_stmt};
    anfi_t_view_stmt(&see, f->body);
    tvisitor v;
    anfi_t_visitor_init(&v, p->t, p->scratch, &u);
    v.stmt = drop;
    tfunc r = anfi_t_visit_func(&v, f);
    if (r == f) break;
    f = r;
  }
  return f;
}
