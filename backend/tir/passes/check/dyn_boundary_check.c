// SPDX-License-Identifier: Apache-2.0
/* dyn_boundary_check: bounds checks at run time, for the interpreter's safety in compiled code.
 *
 *   return A[n]     →     evaluate{anf_rt_check(n, 8UL, 4)}        index, dim, line
 *                         return A[n]
 *
 * An index whose range the enclosing loops prove needs no check. A check is guarded by the same && or ||
 * as its access. The condition of a while is checked before the loop and at the end of each iteration.
 * Masked accesses are not checked: lanes that are off may be out of bounds. */
#include "backend/tir/tir.h"

typedef struct user {
  tranges ranges;
  tvisitor *v;
  ANFI_VEC(tstmt) out;
  ANFI_VEC(texpr) guard;
  uint32_t line;
} user;

/* The call has the location of the access, which engines report. */
static void check_call(user *u, texpr access, texpr at, texpr bound) {
  tstore *t = u->v->t;
  if (access->line) t->line = access->line, t->col = access->col;
  const texpr in[] = {at, bound, anfi_t_s32(t, (int32_t)u->line)};
  tstmt s = anfi_t_eval(t, anfi_t_rt_call(t, TRT_anf_rt_check, 3, in));
  for (size_t g = u->guard.n; g-- > 0;) s = anfi_t_if(t, u->guard.at[g], s, NULL);
  anfi_push(u->v->scratch, &u->out, s);
}

static void check(user *u, texpr e) {
  tstore *t = u->v->t;
  for (uint32_t k = 0; k < e->nidx; k++) {
    uint32_t extent = k + 1 == e->nidx                    ? e->dtype.lanes
                      : k + 2 == e->nidx && e->dtype.rows ? e->dtype.rows
                                                          : 1;
    texpr i = e->in[1 + k], dim = e->in[0]->in[k];
    int64_t d;
    trange r;
    bool known = anfi_t_range(&u->ranges, i, &r) && r.lo >= 0 && r.hi <= INT64_MAX - extent;
    if (known && anfi_t_const_i64(dim, &d) && r.hi + extent <= d) continue;
    if (!anfi_t_no_effect(i)) continue;
    tdtype index = anfi_t_dt(ANF_TIR_index);
    texpr at = anfi_t_cast(t, index, i), bound = anfi_t_cast(t, index, dim);
    if (extent == 1 || !known) check_call(u, e, at, bound); // first: the last lane's place may wrap
    if (extent > 1) check_call(u, e, anfi_t_add(t, at, anfi_t_index(t, extent - 1)), bound);
  }
}

static bool see(tviewer *v, texpr e) {
  user *u = (user *)v->user;
  if (anfi_t_group(e) == TG_LOGIC && anfi_t_total(e->dtype) == 1) {
    anfi_t_view_expr(v, e->in[0]);
    if (!anfi_t_no_effect(e->in[0])) return false;
    anfi_push(u->v->scratch, &u->guard,
              e->kind == TX_logic_and ? e->in[0] : anfi_t_not(u->v->t, e->in[0]));
    anfi_t_view_expr(v, e->in[1]);
    u->guard.n--;
    return false;
  }
  if (e->kind != TX_indexing) return true;
  for (uint32_t i = 1; i < e->n; i++)
    anfi_t_view_expr(v, e->in[i]); // what an index reads is checked first
  if (!anfi_t_mask(e)) check(u, e);
  return false;
}

static void collect(tvisitor *v, tstmt s) {
  user *u = (user *)v->user;
  tviewer view = {.user = u, .enter_expr = see};
  u->out.n = 0;
  u->line = s->line;
  for (int i = 0; i < 4; i++)
    if (s->e[i] && !(i == 0 && (s->kind == TS_define || s->kind == TS_for_loop)))
      anfi_t_view_expr(&view, s->e[i]);
}

static tstmt enter(tvisitor *v, tstmt s) {
  user *u = (user *)v->user;
  if (s->kind == TS_stmts || anfi_t_attr(s->attrs, TA_checked, NULL)) return s;
  if (s->kind == TS_for_loop) anfi_t_ranges_loop(&u->ranges, s);
  collect(v, s);
  for (size_t i = 0; i < u->out.n; i++) anfi_push(v->scratch, &v->pre, u->out.at[i]);
  if (!u->out.n || s->kind != TS_while_loop) return s;
  anfi_push(v->scratch, &u->out, s->s[0]);
  size_t n = u->out.n;
  tstmt *body = ANFI_NEW_N(v->scratch, tstmt, n);
  body[0] = anfi_t_splice(v->t, s->s[0]->n, s->s[0]->s);
  memcpy(body + 1, u->out.at, (n - 1) * sizeof *body);
  tstmt in = anfi_t_stmts(v->t, n, body);
  return anfi_t_remake_stmt(v->t, s, s->e, &in);
}

tfunc anfi_t_pass_dyn_boundary_check(tpass_cx *p, tfunc f) {
  user u = {.line = 0};
  tvisitor v;
  anfi_t_ranges_init(&u.ranges, p->scratch);
  anfi_t_visitor_init(&v, p->t, p->scratch, &u);
  u.v = &v;
  v.enter = enter;
  return anfi_t_visit_func(&v, anfi_t_settle_dims(p->t, p->scratch, f));
}
