// SPDX-License-Identifier: Apache-2.0
/* Makes dims of tensors valid wherever they are read.
 *
 *   var n = 4; tensor A: [f32 * n]; n = 5     →     var n = 4; var d = n; tensor A: [f32 * d]; n = 5
 *
 * A tensor has the dims that held at its definition. A pass that writes a dim elsewhere, into an index or another
 * function, must not meet a variable assigned since, or memory written since. */
#include "backend/tir/tir.h"

typedef struct settle {
  talias alias;
  tstore *t;
  bool any;
} settle;

static bool fixed(const settle *u, texpr e) {
  if (e->kind == TX_constant) return true;
  if (e->kind == TX_var) return !anfi_t_assigned(&u->alias, e);
  if (e->kind == TX_tensor || !anfi_t_pure(e)) return false;
  for (uint32_t i = 0; i < e->n; i++)
    if (!fixed(u, e->in[i])) return false;
  return true;
}

static bool all_fixed(const settle *u, texpr tensor) {
  for (uint32_t i = 0; i < tensor->n; i++)
    if (!fixed(u, tensor->in[i])) return false;
  return true;
}

static bool see(tviewer *v, tstmt s) {
  settle *u = (settle *)v->user;
  u->any |= s->kind == TS_define && s->e[0]->kind == TX_tensor && !all_fixed(u, s->e[0]);
  return true;
}

/* What changes is kept in variables of the tensor's own. */
static tstmt define(tvisitor *v, tstmt s) {
  settle *u = (settle *)v->user;
  texpr x = s->e[0];
  if (s->kind != TS_define || x->kind != TX_tensor || all_fixed(u, x)) return s;
  ANFI_VEC(tstmt) out = {0};
  texpr *in = ANFI_NEW_N(v->scratch, texpr, x->n);
  for (uint32_t i = 0; i < x->n; i++) {
    in[i] = anfi_t_visit_expr(v, x->in[i]);
    if (fixed(u, x->in[i])) continue;
    texpr kept =
        anfi_t_var(v->t, x->in[i]->dtype, anfi_sprintf(v->scratch, "%s_dim", x->u.name->s));
    anfi_push(v->scratch, &out, anfi_t_define(v->t, TL_local, kept, in[i]));
    in[i] = kept;
  }
  texpr now = anfi_t_remake(v->t, x, in);
  anfi_t_map_var(v, x, now);
  tstmt d = anfi_t_define(v->t, TL_local, now, s->e[1]);
  anfi_push(v->scratch, &out,
            anfi_t_with_comment(v->t, anfi_t_with_attrs(v->t, d, s->attrs), s->comment));
  return anfi_t_splice(v->t, out.n, out.at);
}

/* A parameter that dims of parameters name and the body assigns: the body gets a variable instead. */
static void keep_params(tvisitor *v, texpr e, anfi_map *seen, texpr *old, texpr *now, uint32_t *n) {
  const settle *u = (const settle *)v->user;
  for (uint32_t i = 0; i < e->n; i++) keep_params(v, e->in[i], seen, old, now, n);
  if (e->kind != TX_var || !anfi_t_assigned(&u->alias, e) || anfi_map_find(seen, anfi_key(e)))
    return;
  *anfi_map_at(seen, anfi_key(e)) = 1;
  old[*n] = e;
  now[*n] = anfi_t_var(v->t, e->dtype, e->u.name->s);
  ++*n;
}

tfunc anfi_t_settle_dims(tstore *t, anfi_arena *scratch, tfunc f) {
  settle u = {.t = t};
  anfi_map seen;
  uint32_t n = 0;
  bool varies = false;
  if (!f->body) return f;
  for (uint32_t i = 0; i < f->n; i++)
    for (uint32_t k = 0; f->param[i]->kind == TX_tensor && k < f->param[i]->n; k++)
      varies |= f->param[i]->in[k]->kind != TX_constant;
  anfi_t_alias_init(&u.alias, t, scratch, f);
  tviewer view = {.user = &u, .enter_stmt = see};
  anfi_t_view_stmt(&view, f->body);
  if (!u.any && !varies) return f;
  tvisitor v;
  anfi_t_visitor_init(&v, t, scratch, &u);
  v.enter = define;
  anfi_map_init(&seen, scratch);
  texpr *old = ANFI_NEW_N(scratch, texpr, f->n), *now = ANFI_NEW_N(scratch, texpr, f->n);
  for (uint32_t i = 0; i < f->n; i++)
    if (f->param[i]->kind == TX_tensor) keep_params(&v, f->param[i], &seen, old, now, &n);
  if (!u.any && !n) return f;
  ANFI_VEC(tstmt) out = {0};
  for (uint32_t i = 0; i < n; i++) {
    anfi_t_map_var(&v, old[i], now[i]);
    anfi_push(scratch, &out, anfi_t_define(t, TL_local, now[i], old[i]));
  }
  tstmt body = anfi_t_visit_stmt(&v, f->body);
  anfi_push(scratch, &out, anfi_t_splice(t, body->n, body->s));
  return anfi_t_with_body(t, f, anfi_t_stmts(t, out.n, out.at));
}
