// SPDX-License-Identifier: Apache-2.0
/* loop_invariant_code_motion: hoists invariant values out of loops (LICM).
 *
 *   for i ... { for j ... { A[i, j] = (x + y) * f32(i) } }
 *   →  var inv = x + y
 *      for i ... { var inv_1 = inv * f32(i);  for j ... { A[i, j] = inv_1 } }
 *
 * A pure value moves out of as many loops as its operands are defined outside of. A value that may trap stays. A load moves
 * too, of an element that is there, out of loops that surely come to it and do not write there.
 * One walk, over single assignment: every variable knows the loop depth of its definition. */
#include "backend/tir/tir.h"

enum { WORTH = 3 };

typedef ANFI_VEC(tstmt) svec;
typedef struct user {
  tstore *t;
  anfi_arena *a;
  anfi_map depth;             // variable → loops around its definition
  ANFI_VEC(svec) pre;         // of each open loop: what moves before it
  ANFI_VEC(teffects) effects; // of each open loop
  uint32_t sure;              // loops from this one on come to where we are, whenever they begin
  talias alias;
  tranges ranges;
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
/* An element that is there, by the bounds of loops. */
static bool is_there(const user *u, texpr e) {
  if (e->kind != TX_indexing || anfi_t_mask(e) || e->dtype.rows ||
      !anfi_t_root(&u->alias, e->in[0]))
    return false;
  for (uint32_t i = 0; i < e->nidx; i++) {
    trange r;
    int64_t dim, more = i + 1u == e->nidx ? e->dtype.lanes - 1 : 0;
    if (!anfi_t_const_i64(e->in[0]->in[i], &dim) || !anfi_t_range(&u->ranges, e->in[1 + i], &r) ||
        r.lo < 0 || r.hi + more >= dim)
      return false;
  }
  return true;
}

typedef enum { FIXED, PURE_VALUE, LOADS } motion;

/* How e may move out of the loop: the strictest of its own motion and those of its operands. */
static motion motion_of(const user *u, texpr e) {
  motion worst = PURE_VALUE;
  if (e->kind == TX_tensor || e->kind == TX_constant || e->kind == TX_var) return worst;
  bool load = e->kind == TX_indexing;
  if (load ? !is_there(u, e) : e->kind == TX_ssa_phi) return FIXED;
  if (e->kind == TX_call && (e->dtype.ptr || anfi_t_pure_call(u->alias.m, e) != PURE_TOTAL))
    return FIXED;
  if (e->kind == TX_intrin_call && anfi_t_intrins[e->sub].purity > TP_MATH2) return FIXED;
  bool divides = (e->kind == TX_div || e->kind == TX_mod) && !anfi_t_is_float(e->dtype);
  int64_t d = 0;
  if (divides && (!anfi_t_const_i64(e->in[1], &d) || !d)) return FIXED;
  for (uint32_t i = 0; i < e->n; i++) {
    motion m = motion_of(u, e->in[i]);
    if (m == FIXED) return FIXED;
    if (m > worst) worst = m;
  }
  return load ? LOADS : worst;
}

/* The outermost level that the value may stand at; `open`: it stays. */
static uint32_t level_of(const user *u, texpr e, uint32_t open) {
  if (e->kind == TX_constant || e->kind == TX_var || e->kind == TX_tensor ||
      e->kind == TX_ssa_phi || e->kind == TX_tensorptr || e->size > 256 || anfi_t_is_void(e->dtype))
    return open;
  uint32_t d = depth_of(u, e);
  motion m = d < open ? motion_of(u, e) : FIXED;
  if (m == FIXED) return open;
  if (m == LOADS && d < u->sure) d = u->sure;
  while (m == LOADS && d < open && anfi_t_writes_part(&u->effects.at[d], &u->alias, e, false)) d++;
  return d < open ? d : open;
}

static void move(user *u, uint32_t to, texpr var, texpr e) {
  anfi_push(u->a, &u->pre.at[to], anfi_t_define(u->t, TL_local, var, e));
  *anfi_map_at(&u->depth, anfi_key(var)) = to;
}

static texpr rewrite_in(user *u, texpr e, uint32_t open);

/* The second operand of && and || may not be computed; an intrinsic that names a place takes it as it is. */
static texpr rewrite_operands(user *u, texpr e, uint32_t open) {
  texpr *in = ANFI_NEW_N(u->a, texpr, e->n);
  uint32_t sure = u->sure;
  bool changed = false, lazy = anfi_t_group(e) == TG_LOGIC;
  bool by_place = e->kind == TX_intrin_call && anfi_t_intrins[e->sub].purity > TP_MATH2;
  for (uint32_t i = 0; i < e->n; i++) {
    if (lazy && i) u->sure = (uint32_t)u->pre.n;
    in[i] = by_place && e->in[i]->kind == TX_indexing ? rewrite_operands(u, e->in[i], open)
                                                      : rewrite_in(u, e->in[i], open);
    changed |= in[i] != e->in[i];
  }
  u->sure = sure;
  return changed ? anfi_t_remake(u->t, e, in) : e;
}

/* The expression as it stands in `open` loops; what moves out of some may hold what moves farther. */
static texpr rewrite_in(user *u, texpr e, uint32_t open) {
  if (e->kind == TX_var || e->kind == TX_tensor || e->kind == TX_constant || e->kind == TX_ssa_phi)
    return e;
  uint32_t d = e->size < WORTH ? open : level_of(u, e, open);
  if (d >= open) return rewrite_operands(u, e, open);
  texpr var = anfi_t_var(u->t, e->dtype, "inv");
  move(u, d, var, rewrite_operands(u, e, d));
  return var;
}

static texpr rewrite(user *u, texpr e) { return rewrite_in(u, e, (uint32_t)u->pre.n); }

static tstmt sequence(user *u, tstmt s);

static tstmt define(user *u, tstmt s) {
  texpr v = s->e[0], e = s->e[1];
  uint32_t open = (uint32_t)u->pre.n, d = v->kind == TX_var && e ? level_of(u, e, open) : open;
  if (d < open) {
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

static teffects effects_of(const user *u, tstmt s) {
  teffects e;
  anfi_t_effects_init(&e, u->a);
  anfi_t_effects_stmt(&e, &u->alias, s);
  return e;
}

static bool surely_runs(tstmt s) {
  int64_t b, e, step;
  return s->kind == TS_for_loop && anfi_t_loop_bounds(s, &b, &e, &step) && anfi_t_trip(b, e, step);
}

static void loop(user *u, tstmt s, svec *out) {
  texpr e[4];
  memcpy(e, s->e, sizeof e);
  for (int i = 1; i < 4; i++)
    if (e[i]) e[i] = rewrite(u, e[i]);
  svec none = {0};
  uint32_t sure = u->sure;
  anfi_push(u->a, &u->pre, none);
  anfi_push(u->a, &u->effects, effects_of(u, s));
  uint32_t inside = (uint32_t)u->pre.n;
  if (s->kind == TS_for_loop) anfi_t_ranges_loop(&u->ranges, s);
  if (!surely_runs(s) || u->effects.at[inside - 1].returns) u->sure = inside;
  if (s->kind == TS_for_loop) *anfi_map_at(&u->depth, anfi_key(e[0])) = inside;
  for (uint32_t i = 0; i < s->s[0]->n && is_loop_phi(s->s[0]->s[i]);
       i++) // the condition may use them
    *anfi_map_at(&u->depth, anfi_key(s->s[0]->s[i]->e[0])) = inside;
  if (s->kind == TS_while_loop) e[0] = rewrite(u, e[0]);
  tstmt body = sequence(u, s->s[0]);
  svec pre = u->pre.at[--u->pre.n];
  u->effects.n--;
  u->sure = sure;
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
  for (int i = 0; i < 4; i++) {
    bool place = s->kind == TS_assign && i == 0 && s->e[0]->kind == TX_indexing;
    e[i] = !s->e[i] ? NULL
           : place  ? rewrite_operands(u, s->e[0], (uint32_t)u->pre.n)
                    : rewrite(u, s->e[i]);
  }
  uint32_t sure = u->sure;
  if (s->kind == TS_if_else) u->sure = (uint32_t)u->pre.n;
  for (uint32_t i = 0; i < s->n; i++) sub[i] = s->s[i] ? sequence(u, s->s[i]) : NULL;
  u->sure = sure;
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
  anfi_t_ranges_init(&u.ranges, u.a);
  anfi_t_alias_init(&u.alias, p->t, p->scratch, f);
  u.alias.m = p->m;
  return anfi_t_with_body(p->t, f, sequence(&u, f->body));
}
