// SPDX-License-Identifier: Apache-2.0
/* func_inliner: inlines functions that are marked inline_level=2.
 *
 *   A[0] = sq(x)      →     var sq;  { var x_1 = x;  sq = x_1 * x_1 };  A[0] = sq
 *
 * The call must be all of an evaluated, assigned, defining or returned value; a pure function is inlined inside
 * an expression too. A call behind && or || stays, since it might not run; so does one that reads memory which
 * the same expression writes. The callee returns at its end alone. Rounds inline what bodies call; recursion
 * stays. */
#include "backend/tir/tir.h"

enum { ROUNDS = 6 };

typedef struct user {
  tpass_cx *p;
  const tmod *m;
  anfi_map ok; // function name → 1 yes, 2 no
  tfunc in;
  uint64_t room; // statements that may still be added
  bool fired;
  anfi_map lazy; // calls behind && and || of scalars
  bool effect;   // the expressions of the current statement do more than compute
} user;

typedef struct probe {
  uint32_t returns;
  tfunc f;
  bool calls_self;
} probe;
static bool see_stmt(tviewer *v, tstmt s) {
  return ((probe *)v->user)->returns += s->kind == TS_returns, true;
}
static bool see_expr(tviewer *v, texpr e) {
  probe *p = (probe *)v->user;
  p->calls_self |= (e->kind == TX_call || e->kind == TX_func_addr) && e->u.name == p->f->name;
  return true;
}

static bool can_inline(user *u, tfunc f) {
  uint64_t *known = anfi_map_at(&u->ok, anfi_key(f->name));
  if (*known) return *known == 1;
  probe pr = {.f = f};
  tviewer v = {.user = &pr, .enter_stmt = see_stmt, .enter_expr = see_expr};
  anfi_t_view_stmt(&v, f->body);
  tstmt last = f->body->n ? f->body->s[f->body->n - 1] : NULL;
  bool at_end = last && last->kind == TS_returns;
  bool good =
      !pr.calls_self && pr.returns == (at_end ? 1u : 0u) && (at_end || anfi_t_is_void(f->ret));
  *known = good ? 1 : 2;
  return good;
}

static tfunc target(user *u, texpr e, tattrs site) {
  int64_t level = -1;
  uint32_t npar;
  if (!anfi_t_isa(e, TX_call) || !e->u.name || e->u.name == u->in->name) return NULL;
  tfunc f = anfi_t_mod_find(u->m, e->u.name);
  anfi_t_triples(e, &npar);
  if (!f || !f->body || npar || f->n != e->nidx) return NULL;
  if (!anfi_t_attr(site, TA_inline_level, &level)) anfi_t_attr(f->attrs, TA_inline_level, &level);
  if (level != 2 || !can_inline(u, f) || f->body->size > u->room) return NULL;
  return f;
}

/* A tensor parameter is the argument itself if that is a tensor of the same dims, else a view. */
static bool same_tensor(texpr param, texpr arg) {
  if (arg->kind != TX_tensor || arg->nidx != param->nidx || arg->n != param->n ||
      !anfi_t_same(arg->dtype, param->dtype))
    return false;
  for (uint32_t i = 0; i < arg->n; i++) {
    int64_t x, y;
    if (!anfi_t_const_i64(arg->in[i], &x) || !anfi_t_const_i64(param->in[i], &y) || x != y)
      return false;
  }
  return true;
}

/* { parameters; body; result = value } */
static tstmt expand(tvisitor *v, tfunc f, texpr call, texpr result) {
  user *u = (user *)v->user;
  tvisitor c;
  ANFI_VEC(tstmt) out = {0};
  anfi_t_visitor_init(&c, v->t, v->scratch, NULL);
  c.fresh = true;
  for (uint32_t i = 0; i < f->n; i++) {
    texpr p = f->param[i], arg = call->in[i];
    if (p->kind == TX_tensor && same_tensor(p, arg)) {
      anfi_t_map_var(&c, p, arg);
      continue;
    }
    tstmt d = anfi_t_visit_stmt(&c, anfi_t_define(v->t, TL_local, p, NULL));
    anfi_push(v->scratch, &out, anfi_t_define(v->t, TL_local, d->e[0], arg));
  }
  tstmt body = anfi_t_visit_stmt(&c, f->body);
  u->room -= body->size < u->room ? body->size : u->room;
  u->fired = true;
  for (uint32_t i = 0; i < body->n; i++) {
    tstmt s = body->s[i];
    if (s->kind == TS_returns)
      s = result && s->e[0] ? anfi_t_assign(v->t, result, s->e[0])
          : s->e[0]         ? anfi_t_eval(v->t, s->e[0])
                            : NULL;
    if (s) anfi_push(v->scratch, &out, s);
  }
  return anfi_t_stmts(v->t, out.n, out.at);
}

static tstmt at_stmt(tvisitor *v, tstmt s) {
  user *u = (user *)v->user;
  texpr value = s->kind == TS_define || s->kind == TS_assign      ? s->e[1]
                : s->kind == TS_evaluate || s->kind == TS_returns ? s->e[0]
                                                                  : NULL;
  tfunc f = value ? target(u, value, s->attrs) : NULL;
  if (!f) return s;
  if (s->kind == TS_evaluate) return expand(v, f, value, NULL);
  texpr tmp = s->kind == TS_define && s->e[0]->kind == TX_var
                  ? s->e[0]
                  : anfi_t_var(v->t, f->ret, f->name->s);
  tstmt out[] = {anfi_t_define(v->t, TL_local, tmp, NULL), expand(v, f, value, tmp), NULL};
  if (tmp == s->e[0]) return anfi_t_splice(v->t, 2, out);
  texpr e[4] = {s->e[0], tmp};
  if (s->kind == TS_returns) e[0] = tmp, e[1] = NULL;
  out[2] = anfi_t_remake_stmt(v->t, s, e, s->s);
  return anfi_t_splice(v->t, 3, out);
}

static bool see_lazy(tviewer *v, texpr e) {
  if (e->kind == TX_call) *anfi_map_at(&((user *)v->user)->lazy, anfi_key(e)) = 1;
  return true;
}
static bool see_effect(tviewer *v, texpr e) {
  user *u = (user *)v->user;
  if (anfi_t_group(e) == TG_LOGIC && anfi_t_total(e->dtype) == 1) {
    tviewer behind = {.user = u, .enter_expr = see_lazy};
    anfi_t_view_expr(&behind, e->in[1]);
  }
  if (e->kind == TX_intrin_call) u->effect |= anfi_t_intrins[e->sub].purity == TP_EFFECT;
  if (e->kind != TX_call) return true;
  tfunc f = e->u.name ? anfi_t_mod_find(u->m, e->u.name) : NULL;
  u->effect |= !f || !anfi_t_attr(f->attrs, TA_pure, NULL);
  return true;
}
static tstmt enter(tvisitor *v, tstmt s) {
  user *u = (user *)v->user;
  tviewer see = {.user = u, .enter_expr = see_effect};
  if (s->kind == TS_stmts) return s;
  u->effect = false;
  for (int i = 0; i < 4; i++)
    if (s->e[i]) anfi_t_view_expr(&see, s->e[i]);
  return s;
}

static bool in_place(const user *u, texpr call) { // may its arguments be computed earlier?
  if (anfi_map_find(&u->lazy, anfi_key(call))) return false;
  for (uint32_t i = 0; u->effect && i < call->n; i++)
    if (!anfi_t_pure(call->in[i])) return false;
  return true;
}

static texpr at_expr(tvisitor *v, texpr e) {
  user *u = (user *)v->user;
  if (e->kind != TX_call || v->in_while || !in_place(u, e)) return e;
  tfunc f = target(u, e, (tattrs){0});
  if (!f || !anfi_t_attr(f->attrs, TA_pure, NULL) || anfi_t_is_void(f->ret)) return e;
  texpr tmp = anfi_t_var(v->t, f->ret, f->name->s);
  anfi_push(v->scratch, &v->pre, anfi_t_define(v->t, TL_local, tmp, NULL));
  anfi_push(v->scratch, &v->pre, expand(v, f, e, tmp));
  return tmp;
}

static const tmod *round_of(tpass_cx *p, const tmod *m, user *u) {
  tmod *o = anfi_t_mod_like(m);
  u->m = m;
  anfi_map_init(&u->ok, p->scratch);
  for (size_t i = 0; i < m->func.n; i++) {
    tvisitor v;
    u->in = m->func.at[i];
    anfi_t_visitor_init(&v, p->t, p->scratch, u);
    anfi_map_init(&u->lazy, p->scratch);
    v.enter = enter;
    v.stmt = at_stmt;
    v.expr = at_expr;
    anfi_t_mod_add(o, u->in->body ? anfi_t_visit_func(&v, u->in) : u->in);
  }
  return o;
}

const tmod *anfi_t_pass_func_inliner(tpass_cx *p, const tmod *m) {
  user u = {.p = p, .room = 1 << 16};
  const tmod *now = m;
  for (size_t i = 0; i < m->func.n; i++)
    u.room += m->func.at[i]->body ? 4 * (uint64_t)m->func.at[i]->body->size : 0;
  for (int k = 0; k < ROUNDS; k++) {
    u.fired = false;
    const tmod *r = round_of(p, now, &u);
    if (now != m) anfi_t_mod_drop((tmod *)(uintptr_t)now);
    now = r;
    if (!u.fired) break;
  }
  return now;
}
