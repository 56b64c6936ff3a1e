// SPDX-License-Identifier: Apache-2.0
/* bf16_eliminator: removes roundings to bf16 or f16 between f32 operations.
 *
 *   var y: bf16 = bf16(x * 2.f)   →     var y: f32 = x * 2.f
 *   return f32(y)                       return y
 *
 * A variable becomes f32 if only such casts write and read it. Results may differ by the roundings left out,
 * never by more; no pipeline that must be exact has this pass. */
#include "backend/tir/tir.h"

static bool from_f32(texpr e) {
  return e && e->kind == TX_cast && anfi_t_is_half(e->dtype) &&
         anfi_t_is_elem(e->in[0]->dtype, ANF_TIR_f32);
}
static bool to_f32(texpr e) {
  return e->kind == TX_cast && anfi_t_is_elem(e->dtype, ANF_TIR_f32) &&
         anfi_t_is_half(e->in[0]->dtype);
}

typedef struct user {
  anfi_map bad; // variables that something else uses
} user;

static bool see_expr(tviewer *v, texpr e) {
  user *u = (user *)v->user;
  if (to_f32(e) && e->in[0]->kind == TX_var) return false;
  if (e->kind == TX_var && anfi_t_is_half(e->dtype) && !v->lvalue)
    *anfi_map_at(&u->bad, anfi_key(e)) = 1;
  return true;
}
static bool see_stmt(tviewer *v, tstmt s) {
  user *u = (user *)v->user;
  bool writes = (s->kind == TS_define && s->e[1]) || s->kind == TS_assign;
  bool constant = writes && s->e[1]->kind == TX_constant;
  if (writes && s->e[0]->kind == TX_var && anfi_t_is_half(s->e[0]->dtype) && !from_f32(s->e[1]) &&
      !constant)
    *anfi_map_at(&u->bad, anfi_key(s->e[0])) = 1;
  return true;
}

static texpr strip(tvisitor *v, texpr e) {
  if (!to_f32(e)) return e;
  return from_f32(e->in[0])                             ? e->in[0]->in[0]
         : anfi_t_is_elem(e->in[0]->dtype, ANF_TIR_f32) ? e->in[0]
                                                        : ((void)v, e);
}

static tstmt enter(tvisitor *v, tstmt s) {
  user *u = (user *)v->user;
  texpr x = s->e[0];
  if (s->kind == TS_define && x->kind == TX_var && anfi_t_is_half(x->dtype) &&
      !anfi_map_find(&u->bad, anfi_key(x)))
    anfi_t_map_var(v, x, anfi_t_var(v->t, anfi_t_with(x->dtype, ANF_TIR_f32), x->u.name->s));
  return s;
}
/* A value that is written to such a variable loses its cast. */
static tstmt value(tvisitor *v, tstmt s) {
  bool writes = (s->kind == TS_define && s->e[1]) || s->kind == TS_assign;
  if (!writes || s->e[0]->kind != TX_var || !anfi_t_is_elem(s->e[0]->dtype, ANF_TIR_f32) ||
      !anfi_t_is_half(s->e[1]->dtype))
    return s;
  texpr e[4] = {s->e[0],
                from_f32(s->e[1]) ? s->e[1]->in[0] : anfi_t_retype(v->t, s->e[1], s->e[0]->dtype)};
  return anfi_t_remake_stmt(v->t, s, e, NULL);
}

tfunc anfi_t_pass_bf16_eliminator(tpass_cx *p, tfunc f) {
  user u;
  anfi_map_init(&u.bad, p->scratch);
  for (uint32_t i = 0; i < f->n; i++) *anfi_map_at(&u.bad, anfi_key(f->param[i])) = 1;
  tviewer see = {.user = &u, .enter_expr = see_expr, .enter_stmt = see_stmt};
  anfi_t_view_stmt(&see, f->body);
  tvisitor v;
  anfi_t_visitor_init(&v, p->t, p->scratch, &u);
  v.expr = strip;
  v.enter = enter;
  v.stmt = value;
  return anfi_t_visit_func(&v, f);
}
