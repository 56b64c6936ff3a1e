// SPDX-License-Identifier: Apache-2.0
/* tensor2var: scalar replacement of small aggregates: a local tensor becomes variables.
 *
 *   tensor T: [f32 * 2];  T[0] = x;  T[1] = T[0] * 2   →   T_0 = x;  T_1 = T_0 * 2
 *
 * At most 16 elements, each indexed by a constant alone, one element at a time. Any other use of the tensor, an
 * address or lanes, keeps it in memory. */
#include "backend/tir/tir.h"

enum { MOST = 16 };

typedef struct user {
  talias alias;
  anfi_map bad;  // tensors that stay
  anfi_map vars; // tensor → its variables
} user;

static void keep(user *u, texpr t) { *anfi_map_at(&u->bad, anfi_key(t)) = 1; }

static bool element(texpr e, uint64_t *at) {
  int64_t k;
  uint64_t n;
  if (e->nidx != 1 || e->n != 2 || anfi_t_total(e->dtype) != 1 || e->in[0]->nidx != 1 ||
      !anfi_t_const_i64(e->in[1], &k))
    return false;
  *at = (uint64_t)k;
  return k >= 0 && anfi_t_const_elems(e->in[0], &n) && *at < n && n <= MOST;
}

static bool see_expr(tviewer *v, texpr e) {
  user *u = (user *)v->user;
  uint64_t at;
  if (e->kind == TX_tensor) keep(u, e);
  if (e->kind != TX_indexing) return true;
  if (!element(e, &at)) keep(u, e->in[0]);
  for (uint32_t i = 1; i < e->n; i++) anfi_t_view_expr(v, e->in[i]);
  return false;
}
/* Variables do not outlive an iteration at once: a parallel loop may not assign those of outside.
 */
static bool see_stmt(tviewer *v, tstmt s) {
  user *u = (user *)v->user;
  if (s->kind == TS_define && s->e[0]->kind == TX_tensor &&
      (s->e[1] || anfi_t_has_strides(s->e[0])))
    keep(u, s->e[0]);
  return true;
}

typedef struct outside {
  user *u;
  anfi_map inside;
} outside;
static bool in_define(tviewer *v, tstmt s) {
  outside *o = (outside *)v->user;
  if (s->kind == TS_define) *anfi_map_at(&o->inside, anfi_key(s->e[0])) = 1;
  return true;
}
static bool in_use(tviewer *v, texpr e) {
  outside *o = (outside *)v->user;
  if (e->kind == TX_indexing && !anfi_map_find(&o->inside, anfi_key(e->in[0])))
    keep(o->u, e->in[0]);
  return true;
}
static bool see_parallel(tviewer *v, tstmt s) {
  user *u = (user *)v->user;
  if (s->kind != TS_for_loop || !s->sub) return true;
  outside o = {.u = u};
  anfi_map_init(&o.inside, u->alias.scratch);
  tviewer in = {.user = &o, .enter_stmt = in_define, .enter_expr = in_use};
  anfi_t_view_stmt(&in, s->s[0]);
  return false; // loops inside hold their own tensors, or had theirs kept
}

static tstmt define(tvisitor *v, tstmt s) {
  user *u = (user *)v->user;
  uint64_t n;
  if (s->kind != TS_define || s->e[0]->kind != TX_tensor || !anfi_t_is_local(&u->alias, s->e[0]))
    return s;
  if (anfi_map_find(&u->bad, anfi_key(s->e[0])) || !anfi_t_const_elems(s->e[0], &n) || n > MOST)
    return s;
  texpr t = s->e[0], *var = ANFI_NEW_N(v->scratch, texpr, n);
  tdtype d = t->sub ? anfi_t_ptr(ANF_TIR_void) : anfi_t_dt((anf_tir_elem)t->dtype.elem);
  tstmt *out = ANFI_NEW_N(v->scratch, tstmt, n);
  for (uint64_t i = 0; i < n; i++) {
    var[i] = anfi_t_var(v->t, d, anfi_sprintf(v->scratch, "%s_%u", t->u.name->s, (unsigned)i));
    out[i] = anfi_t_define(v->t, TL_local, var[i], NULL);
  }
  *anfi_map_at(&u->vars, anfi_key(t)) = anfi_key(var);
  return anfi_t_splice(v->t, n, out);
}

static texpr use(tvisitor *v, texpr e) {
  user *u = (user *)v->user;
  uint64_t *at = e->kind == TX_indexing ? anfi_map_find(&u->vars, anfi_key(e->in[0])) : NULL, k;
  return at && element(e, &k) ? ((const texpr *)(uintptr_t)*at)[k] : e;
}

tfunc anfi_t_pass_tensor2var(tpass_cx *p, tfunc f) {
  user u;
  anfi_t_alias_init(&u.alias, p->t, p->scratch, f);
  anfi_map_init(&u.bad, p->scratch);
  anfi_map_init(&u.vars, p->scratch);
  tviewer see = {.user = &u, .enter_expr = see_expr, .enter_stmt = see_stmt},
          par = {.user = &u, .enter_stmt = see_parallel};
  anfi_t_view_stmt(&see, f->body);
  anfi_t_view_stmt(&par, f->body);
  tvisitor v;
  anfi_t_visitor_init(&v, p->t, p->scratch, &u);
  v.enter = define; // before the uses
  v.expr = use;
  return anfi_t_visit_func(&v, f);
}
