// SPDX-License-Identifier: Apache-2.0
/* ssa_transform: single assignment (SSA): every assignment to a variable becomes a definition of a new variable.
 *
 *   if (c) { x = 1 } else { x = 2 }   →   var x_1 = 1 | var x_2 = 2,   then   var x_3 = phi(x_1, x_2)
 *   while (x < n) { x = x + 1 }       →   first in the body   var x_2 = phi(x_1, x_3 loop)
 *                                         after the loop     var x_4 = phi(x_1, x_3)
 *
 * A phi stands where control flow joins and takes the value of the path that ran: (then, else) after a
 * branch, (before, end of the previous iteration) in a loop, (before, end of the last iteration) after it.
 * INVARIANT: a phi names variables that are out of scope, so names of new variables are unique in a function.
 */
#include "backend/tir/tir.h"

typedef struct ssa {
  tpass_cx *p;
  tstore *t;
  anfi_arena *a;
  talias alias;
  anfi_map now;   // variable → value
  anfi_map names; // used in the function
  anfi_map next;  // base name → last number
} ssa;

typedef ANFI_VEC(tstmt) svec;
typedef ANFI_VEC(texpr) xvec;

static bool renamed(const ssa *s, texpr v) {
  return (v->kind == TX_var || v->kind == TX_tensor) && anfi_map_find(&s->now, anfi_key(v));
}
static texpr value(const ssa *s, texpr v) {
  return (texpr)(uintptr_t)*anfi_map_find(&s->now, anfi_key(v));
}
static void set(ssa *s, texpr v, texpr to) { *anfi_map_at(&s->now, anfi_key(v)) = anfi_key(to); }

static texpr version(ssa *s, texpr v) {
  uint64_t *k = anfi_map_at(&s->next, anfi_key(v->u.name));
  const anfi_str *name;
  do name = anfi_t_name(s->t, anfi_sprintf(s->a, "%s_%u", v->u.name->s, (unsigned)++*k));
  while (*anfi_map_at(&s->names, anfi_key(name)));
  *anfi_map_at(&s->names, anfi_key(name)) = 1;
  return anfi_t_var(s->t, v->dtype, name->s);
}

static texpr read(tvisitor *v, texpr e) {
  ssa *s = (ssa *)v->user;
  return renamed(s, e) ? value(s, e) : e;
}
static texpr rewrite(ssa *s, texpr e) {
  tvisitor v;
  anfi_t_visitor_init(&v, s->t, s->a, s);
  v.expr = read;
  return e ? anfi_t_visit_expr(&v, e) : NULL;
}

/* Variables that the statement assigns and that have a value before it, each once. */
typedef struct assigned {
  ssa *s;
  anfi_map seen;
  xvec all;
} assigned;
static bool see_assign(tviewer *v, tstmt x) {
  assigned *u = (assigned *)v->user;
  if (x->kind != TS_assign || !renamed(u->s, x->e[0])) return true;
  uint64_t *at = anfi_map_at(&u->seen, anfi_key(x->e[0]));
  if (!*at) anfi_push(u->s->a, &u->all, x->e[0]);
  *at = 1;
  return true;
}
static xvec assigned_in(ssa *s, tstmt x) {
  assigned u = {.s = s};
  anfi_map_init(&u.seen, s->a);
  tviewer v = {.user = &u, .enter_stmt = see_assign};
  if (x) anfi_t_view_stmt(&v, x);
  return u.all;
}

static void sequence(ssa *s, tstmt x, svec *out);

static tstmt scope(ssa *s, svec *v) { return anfi_t_stmts(s->t, v->n, v->at); }

static tstmt phi(ssa *s, texpr to, texpr a, texpr b, bool loop) {
  const texpr in[] = {a, b};
  return anfi_t_define(s->t, TL_local, to, anfi_t_phi(s->t, 2, in, loop));
}

static void branch(ssa *s, tstmt x, svec *out) {
  xvec vars = assigned_in(s, x);
  texpr cond = rewrite(s, x->e[0]);
  texpr *before = ANFI_NEW_N(s->a, texpr, vars.n), *then_ = ANFI_NEW_N(s->a, texpr, vars.n);
  svec a = {0}, b = {0};
  for (size_t i = 0; i < vars.n; i++) before[i] = value(s, vars.at[i]);
  sequence(s, x->s[0], &a);
  for (size_t i = 0; i < vars.n; i++) {
    then_[i] = value(s, vars.at[i]);
    set(s, vars.at[i], before[i]);
  }
  if (x->s[1]) sequence(s, x->s[1], &b);
  const tstmt sub[] = {scope(s, &a), x->s[1] ? scope(s, &b) : NULL};
  anfi_push(s->a, out, anfi_t_remake_stmt(s->t, x, (const texpr[4]){cond}, sub));
  for (size_t i = 0; i < vars.n; i++) {
    texpr else_ = value(s, vars.at[i]), joined;
    if (then_[i] == else_) continue;
    anfi_push(s->a, out, phi(s, joined = version(s, vars.at[i]), then_[i], else_, false));
    set(s, vars.at[i], joined);
  }
}

static void loop(ssa *s, tstmt x, svec *out) {
  texpr e[4] = {x->e[0]};
  for (int i = 1; i < 4; i++) e[i] = rewrite(s, x->e[i]);
  xvec vars = assigned_in(s, x->s[0]);
  texpr *before = ANFI_NEW_N(s->a, texpr, vars.n), *head = ANFI_NEW_N(s->a, texpr, vars.n);
  svec inner = {0}, body = {0};
  for (size_t i = 0; i < vars.n; i++) {
    before[i] = value(s, vars.at[i]);
    set(s, vars.at[i], head[i] = version(s, vars.at[i]));
  }
  if (x->kind == TS_while_loop) e[0] = rewrite(s, x->e[0]); // sees the loop's phis
  sequence(s, x->s[0], &inner);
  for (size_t i = 0; i < vars.n; i++)
    anfi_push(s->a, &body, phi(s, head[i], before[i], value(s, vars.at[i]), true));
  for (size_t i = 0; i < inner.n; i++) anfi_push(s->a, &body, inner.at[i]);
  tstmt in = scope(s, &body);
  anfi_push(s->a, out, anfi_t_remake_stmt(s->t, x, e, &in));
  for (size_t i = 0; i < vars.n; i++) {
    texpr after = version(s, vars.at[i]);
    anfi_push(s->a, out, phi(s, after, before[i], value(s, vars.at[i]), false));
    set(s, vars.at[i], after);
  }
}

static void define(ssa *s, tstmt x, svec *out) {
  texpr v = x->e[0], init = rewrite(s, x->e[1]);
  if (v->kind == TX_tensor) { // dims are values too
    texpr *in = ANFI_NEW_N(s->a, texpr, v->n), now;
    bool changed = false;
    for (uint32_t i = 0; i < v->n; i++) changed |= (in[i] = rewrite(s, v->in[i])) != v->in[i];
    if (changed) {
      set(s, v, now = anfi_t_remake(s->t, v, in));
      v = now;
    }
  }
  bool changes = v->kind == TX_var && anfi_t_assigned(&s->alias, v);
  if (v->kind == TX_var && !init) init = anfi_t_int(s->t, v->dtype, 0); // any value: it is not read
  if (changes) {
    texpr first = version(s, v);
    set(s, v, first);
    v = first;
  }
  anfi_push(s->a, out,
            v == x->e[0] && init == x->e[1]
                ? x
                : anfi_t_remake_stmt(s->t, x, (const texpr[4]){v, init}, NULL));
}

static void assign(ssa *s, tstmt x, svec *out) {
  texpr val = rewrite(s, x->e[1]);
  if (x->e[0]->kind != TX_var) {
    texpr to = rewrite(s, x->e[0]);
    anfi_push(s->a, out, anfi_t_remake_stmt(s->t, x, (const texpr[4]){to, val}, NULL));
    return;
  }
  texpr to = version(s, x->e[0]);
  anfi_push(s->a, out, anfi_t_define(s->t, TL_local, to, val));
  set(s, x->e[0], to);
}

static void statement(ssa *s, tstmt x, svec *out) {
  switch ((tskind)x->kind) { /* dispatch */
  case TS_stmts: {
    svec in = {0};
    sequence(s, x, &in);
    anfi_push(s->a, out,
              anfi_t_splice(s->t, in.n, in.at)); // a scope of its own would hide what phis name
    break;
  }
  case TS_define: define(s, x, out); break;
  case TS_assign: assign(s, x, out); break;
  case TS_if_else: branch(s, x, out); break;
  case TS_for_loop:
  case TS_while_loop: loop(s, x, out); break;
  default: {
    texpr e = rewrite(s, x->e[0]);
    anfi_push(s->a, out, e == x->e[0] ? x : anfi_t_remake_stmt(s->t, x, (const texpr[4]){e}, NULL));
  }
  }
}

static void sequence(ssa *s, tstmt x, svec *out) {
  for (uint32_t i = 0; i < x->n; i++) statement(s, x->s[i], out);
}

static bool see_name(tviewer *v, tstmt x) {
  ssa *s = (ssa *)v->user;
  if (x->kind == TS_define || x->kind == TS_for_loop)
    *anfi_map_at(&s->names, anfi_key(x->e[0]->u.name)) = 1;
  return true;
}

tfunc anfi_t_pass_ssa_transform(tpass_cx *p, tfunc f) {
  ssa s = {.p = p, .t = p->t, .a = p->scratch};
  svec out = {0};
  anfi_t_alias_init(&s.alias, p->t, p->scratch, f);
  anfi_map_init(&s.now, s.a);
  anfi_map_init(&s.names, s.a);
  anfi_map_init(&s.next, s.a);
  tviewer v = {.user = &s, .enter_stmt = see_name};
  anfi_t_view_stmt(&v, f->body);
  for (uint32_t i = 0; i < f->n; i++) {
    *anfi_map_at(&s.names, anfi_key(f->param[i]->u.name)) = 1;
    if (f->param[i]->kind == TX_var && anfi_t_assigned(&s.alias, f->param[i]))
      set(&s, f->param[i], f->param[i]);
  }
  sequence(&s, f->body, &out);
  return anfi_t_with_body(p->t, f, scope(&s, &out));
}
