// SPDX-License-Identifier: Apache-2.0
/* function_splitter: outlines long lists of calls, so that code generators need linear time.
 *
 *   97 calls of g in f      →      f calls f_part1 (64 calls) and f_part2 (33 calls); neither is inlined
 *
 * A run holds calls by name whose arguments are variables, tensors and constants, and views of tensors. A part
 * defines each view again right before the call that uses it: a pointer that is live through hundreds of calls
 * would make register allocation quadratic. */
#include "backend/tir/tir.h"

enum { LONG = 96, PART = 64, MAX_PARAMS = 200 };

typedef struct user {
  tpass_cx *p;
  tmod *out;
  tfunc f;
  anfi_map globals;
  anfi_map view; // tensor → its definition, as a place in another
  uint32_t made;
} user;

typedef struct part {
  ANFI_VEC(tstmt) stmt;
  uint32_t calls;
} part;

static bool is_view(tstmt s) {
  return s->kind == TS_define && s->e[0]->kind == TX_tensor && s->e[1] &&
         s->e[1]->kind == TX_tensorptr && s->e[1]->n == 2 && s->e[1]->in[1]->kind == TX_constant &&
         !anfi_t_has_strides(s->e[0]);
}

static bool is_call(tstmt s) {
  uint64_t n;
  texpr e = s->e[0];
  if (s->kind != TS_evaluate || e->kind != TX_call || !e->u.name || e->n != e->nidx) return false;
  for (uint32_t i = 0; i < e->n; i++) {
    texpr x = e->in[i];
    bool tensor = x->kind == TX_tensor && anfi_t_const_elems(x, &n) && !anfi_t_has_strides(x);
    if (!tensor && x->kind != TX_var && x->kind != TX_constant) return false;
  }
  return anfi_t_rt_of(e->u.name->s) < 0;
}

/* ---- a part ---- */

typedef struct using {
  user *u;
  anfi_map params, seen; // seen: in the current call
  ANFI_VEC(texpr) param;
  ANFI_VEC(tstmt)
  body; // calls; before each the definitions of its views, a view after the one that it points into
}
using;

static tstmt view_of(const user *u, texpr x) {
  uint64_t *at = anfi_map_find(&u->view, anfi_key(x));
  return at ? (tstmt)(uintptr_t)*at : NULL;
}

static void add_param(using *w, texpr x) {
  uint64_t *at = anfi_map_at(&w->params, anfi_key(x));
  if (!*at) anfi_push(w->u->p->scratch, &w->param, x);
  *at = 1;
}

/* A view may be of a view: what it is a place in comes first. */
static void use(using *w, texpr x) {
  ANFI_VEC(tstmt) chain = {0};
  anfi_arena *a = w->u->p->scratch;
  for (;;) {
    if ((x->kind != TX_var && x->kind != TX_tensor) || anfi_map_find(&w->seen, anfi_key(x)) ||
        anfi_map_find(&w->u->globals, anfi_key(x)))
      break;
    *anfi_map_at(&w->seen, anfi_key(x)) = 1;
    tstmt v = view_of(w->u, x);
    if (!v) {
      add_param(w, x);
      break;
    }
    anfi_push(a, &chain, v);
    x = v->e[1]->in[0];
  }
  while (chain.n) anfi_push(a, &w->body, chain.at[--chain.n]);
}

static texpr param_like(tstore *t, texpr x) {
  if (x->kind == TX_var) return anfi_t_var(t, x->dtype, x->u.name->s);
  return anfi_t_tensor(t, (anf_tir_elem)x->dtype.elem, x->sub, x->u.name->s, x->nidx, x->in, NULL);
}

/* One call and its views, with variables of their own: another call may have a view of the same. */
static tstmt own_call(const user *u, const using *w, texpr *param, uint32_t n, const tstmt *s) {
  tvisitor v;
  anfi_t_visitor_init(&v, u->p->t, u->p->scratch, NULL);
  v.fresh = true;
  for (size_t i = 0; i < w->param.n; i++) anfi_t_map_var(&v, w->param.at[i], param[i]);
  return anfi_t_visit_stmt(&v, anfi_t_stmts(u->p->t, n, s));
}

static tfunc function_of(user *u, const using *w) {
  tstore *t = u->p->t;
  texpr *param = ANFI_NEW_N(u->p->scratch, texpr, w->param.n + 1);
  ANFI_VEC(tstmt) body = {0};
  for (size_t i = 0; i < w->param.n; i++) param[i] = param_like(t, w->param.at[i]);
  for (uint32_t i = 0, from = 0; i < w->body.n; i++) {
    if (w->body.at[i]->kind != TS_evaluate) continue;
    tstmt own = own_call(u, w, param, i + 1 - from, &w->body.at[from]);
    for (uint32_t k = 0; k < own->n; k++) anfi_push(u->p->scratch, &body, own->s[k]);
    from = i + 1;
  }
  tstmt own = anfi_t_stmts(t, body.n, body.at);
  tattrs at = anfi_t_attr_set(t, (tattrs){0}, TA_is_private, 1);
  at = anfi_t_attr_set(t, at, TA_inline_level, 0);
  const anfi_str *name =
      anfi_t_name(t, anfi_sprintf(u->p->scratch, "%s_part%u", u->f->name->s, ++u->made));
  if (anfi_t_mod_find(u->p->m, name) || anfi_t_mod_find(u->out, name))
    name = anfi_t_fresh_func(u->out, anfi_t_fresh_func(u->p->m, name->s)->s);
  return anfi_t_func(t, name, anfi_t_dt(ANF_TIR_void), (uint32_t)w->param.n, param, own, at);
}

/* The views of the run stay, for those after it; what nobody reads is dropped later. */
static void finish(user *u, part *k, anfi_arena *a, part *out) {
  using w = {.u = u};
  anfi_map_init(&w.params, a);
  for (size_t i = 0; i < k->stmt.n; i++) {
    texpr call = k->stmt.at[i]->e[0];
    if (k->stmt.at[i]->kind != TS_evaluate) continue;
    anfi_map_init(&w.seen, a);
    for (uint32_t j = 0; j < call->n; j++) use(&w, call->in[j]);
    anfi_push(a, &w.body, k->stmt.at[i]);
  }
  bool worth = k->calls > PART / 4 && w.param.n <= MAX_PARAMS;
  for (size_t i = 0; i < k->stmt.n; i++)
    if (!worth || k->stmt.at[i]->kind != TS_evaluate) anfi_push(a, &out->stmt, k->stmt.at[i]);
  if (worth) {
    tfunc f = function_of(u, &w);
    anfi_t_mod_add(u->out, f);
    anfi_push(a, &out->stmt,
              anfi_t_eval(u->p->t,
                          anfi_t_call(u->p->t, f->name, f->ret, (uint32_t)w.param.n, w.param.at)));
  }
  *k = (part){0};
}

static tstmt enter(tvisitor *v, tstmt s) {
  user *u = (user *)v->user;
  part k = {0}, out = {0};
  if (s->kind != TS_stmts) return s;
  for (uint32_t i = 0; i < s->n; i++)
    if (is_view(s->s[i])) *anfi_map_at(&u->view, anfi_key(s->s[i]->e[0])) = anfi_key(s->s[i]);
  if (s->n <= LONG) return s;
  for (uint32_t i = 0; i < s->n; i++) {
    bool call = is_call(s->s[i]);
    if (call || is_view(s->s[i])) anfi_push(v->scratch, &k.stmt, s->s[i]);
    k.calls += call;
    if (k.calls == PART || (!call && !is_view(s->s[i]))) finish(u, &k, v->scratch, &out);
    if (!call && !is_view(s->s[i])) anfi_push(v->scratch, &out.stmt, s->s[i]);
  }
  finish(u, &k, v->scratch, &out);
  return s->sub ? anfi_t_splice(v->t, out.stmt.n, out.stmt.at)
                : anfi_t_stmts(v->t, out.stmt.n, out.stmt.at);
}

const tmod *anfi_t_pass_function_splitter(tpass_cx *p, const tmod *m) {
  user u = {.p = p, .out = anfi_t_mod_like(m)};
  anfi_map_init(&u.globals, p->scratch);
  anfi_map_init(&u.view, p->scratch);
  for (size_t i = 0; i < m->global.n; i++)
    *anfi_map_at(&u.globals, anfi_key(m->global.at[i]->e[0])) = 1;
  for (size_t i = 0; i < m->func.n; i++) {
    tvisitor v;
    u.f = m->func.at[i];
    anfi_t_visitor_init(&v, p->t, p->scratch, &u);
    v.enter = enter;
    anfi_t_mod_add(u.out, u.f->body ? anfi_t_visit_func(&v, u.f) : u.f);
  }
  return u.out;
}
