// SPDX-License-Identifier: Apache-2.0
/* loop_invariant_code_motion: hoists invariant values out of loops (LICM).
 *
 *   for i ... { for j ... { A[i, j] = (x + y) * f32(i) } }
 *   →  var inv = x + y
 *      for i ... { var inv_1 = inv * f32(i);  for j ... { A[i, j] = inv_1 } }
 *
 * A pure value moves out of as many loops as its operands are defined outside of. A value that may trap stays.
 * One walk, over single assignment: every variable knows the loop depth of its definition. */
#include "backend/tir/tir.h"

enum { WORTH = 3 };

typedef ANFI_VEC(tstmt) svec;
typedef struct user {
  tstore *t;
  anfi_arena *a;
  anfi_map depth;     // variable → loops around its definition
  ANFI_VEC(svec) pre; // of each open loop: what moves before it
} user;

static uint32_t depth_of(const user *u, texpr e) {
  if (e->kind == TX_var || e->kind == TX_tensor) {
    uint64_t *at = anfi_map_find(&u->depth, anfi_key(e));
    return at ? (uint32_t)*at : 0;
  }
  uint32_t d = 0;
  for (uint32_t i = 0; i < e->n; i++) {
    uint32_t k = depth_of(u, e->in[i]);
    if (k > d) d = k;
  }
  return d;
}
static bool movable(texpr e) {
  if (e->kind == TX_constant || e->kind == TX_var || e->kind == TX_tensor ||
      e->kind == TX_ssa_phi || e->kind == TX_tensorptr)
    return false;
  return e->size <= 256 && !anfi_t_is_void(e->dtype) && anfi_t_pure(e) && !anfi_t_may_trap(e);
}

static void move(user *u, uint32_t to, texpr var, texpr e) {
  anfi_push(u->a, &u->pre.at[to], anfi_t_define(u->t, TL_local, var, e));
  *anfi_map_at(&u->depth, anfi_key(var)) = to;
}

static texpr rewrite_in(user *u, texpr e, uint32_t open);

static texpr rewrite_operands(user *u, texpr e, uint32_t open) {
  texpr *in = ANFI_NEW_N(u->a, texpr, e->n);
  bool changed = false;
  for (uint32_t i = 0; i < e->n; i++) {
    in[i] = rewrite_in(u, e->in[i], open);
    changed |= in[i] != e->in[i];
  }
  return changed ? anfi_t_remake(u->t, e, in) : e;
}

/* The expression as it stands in `open` loops; what moves out of some may hold what moves farther. */
static texpr rewrite_in(user *u, texpr e, uint32_t open) {
  uint32_t d;
  if (e->kind == TX_var || e->kind == TX_tensor || e->kind == TX_constant || e->kind == TX_ssa_phi)
    return e;
  if (e->size < WORTH || !movable(e) || (d = depth_of(u, e)) >= open)
    return rewrite_operands(u, e, open);
  texpr var = anfi_t_var(u->t, e->dtype, "inv");
  move(u, d, var, rewrite_operands(u, e, d));
  return var;
}

static texpr rewrite(user *u, texpr e) { return rewrite_in(u, e, (uint32_t)u->pre.n); }

static tstmt sequence(user *u, tstmt s);

static tstmt define(user *u, tstmt s) {
  texpr v = s->e[0], e = s->e[1];
  uint32_t open = (uint32_t)u->pre.n, d;
  if (v->kind == TX_var && e && movable(e) && (d = depth_of(u, e)) < open) {
    move(u, d, v, rewrite_operands(u, e, d));
    return NULL;
  }
  *anfi_map_at(&u->depth, anfi_key(v)) = open;
  texpr r = e ? rewrite(u, e) : NULL;
  return r == e ? s : anfi_t_remake_stmt(u->t, s, (const texpr[4]){v, r}, NULL);
}

static bool is_loop_phi(tstmt s) {
  return s->kind == TS_define && anfi_t_isa(s->e[1], TX_ssa_phi) && s->e[1]->sub;
}

static void loop(user *u, tstmt s, svec *out) {
  texpr e[4];
  memcpy(e, s->e, sizeof e);
  for (int i = 1; i < 4; i++)
    if (e[i]) e[i] = rewrite(u, e[i]);
  svec none = {0};
  anfi_push(u->a, &u->pre, none);
  uint32_t inside = (uint32_t)u->pre.n;
  if (s->kind == TS_for_loop) *anfi_map_at(&u->depth, anfi_key(e[0])) = inside;
  for (uint32_t i = 0; i < s->s[0]->n && is_loop_phi(s->s[0]->s[i]);
       i++) // the condition may use them
    *anfi_map_at(&u->depth, anfi_key(s->s[0]->s[i]->e[0])) = inside;
  if (s->kind == TS_while_loop) e[0] = rewrite(u, e[0]);
  tstmt body = sequence(u, s->s[0]);
  svec pre = u->pre.at[--u->pre.n];
  for (size_t i = 0; i < pre.n; i++) anfi_push(u->a, out, pre.at[i]);
  anfi_push(u->a, out, anfi_t_remake_stmt(u->t, s, e, &body));
}

static void statement(user *u, tstmt s, svec *out) {
  texpr e[4] = {0};
  tstmt sub[2] = {0};
  if (s->kind == TS_define) {
    tstmt r = define(u, s);
    if (r) anfi_push(u->a, out, r);
    return;
  }
  if (s->kind == TS_for_loop || s->kind == TS_while_loop) {
    loop(u, s, out);
    return;
  }
  for (int i = 0; i < 4; i++) e[i] = s->e[i] ? rewrite(u, s->e[i]) : NULL;
  for (uint32_t i = 0; i < s->n; i++) sub[i] = s->s[i] ? sequence(u, s->s[i]) : NULL;
  anfi_push(u->a, out, anfi_t_remake_stmt(u->t, s, e, sub));
}

static tstmt sequence(user *u, tstmt s) {
  svec out = {0};
  for (uint32_t i = 0; i < s->n; i++) {
    if (s->s[i]->kind == TS_stmts) anfi_push(u->a, &out, sequence(u, s->s[i]));
    else statement(u, s->s[i], &out);
  }
  return anfi_t_stmts(u->t, out.n, out.at);
}

tfunc anfi_t_pass_loop_invariant_code_motion(tpass_cx *p, tfunc f) {
  user u = {.t = p->t, .a = p->scratch};
  anfi_map_init(&u.depth, u.a);
  return anfi_t_with_body(p->t, f, sequence(&u, f->body));
}
