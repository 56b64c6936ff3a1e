// SPDX-License-Identifier: Apache-2.0
/* Code that can be stopped: polls in loops that run long, and for runs with limits a count of turns and calls.
 *
 *   while (again) { r = r + 1s64 }     →     while (again) { poll  while (again && left > 0) { .. r = r + 1s64 } }
 *   for i in (0UL, 100000000UL, 1UL)   →     for i_o in (0UL, 100000000UL, 131072UL) { poll  for i in (i_o, ..) }
 *
 * The number of turns of a loop is known of constant bounds, and of an attribute (turns).
 * A poll is a load and a comparison. Loops whose turns do little work are left as they are, for vectors are made of
 * them: the loop around them polls. Only one that would run for tens of milliseconds is split in two. A recursion needs
 * no polls: each call compares the stack pointer with its limit. Linear in the module. */
#include "backend/jit/jit.h"

/* Work is counted in statements, run once each. */
enum {
  TURN = 1 << 15,        // work of a turn that a poll disappears in
  MOST = 1 << 24,        // work of a loop without polls
  MOST_ROUNDS = 1 << 22, // the same, of a loop whose rounds are no row of an array
  PIECE = 1 << 20,       // work between the polls of a loop that was split
  DIM = 1 << 16,         // turns of an inner loop whose number is not known
  CALL = 64,             // work of a call of a function without loops
  LOOPS = 1 << 12,       // of one with loops, which polls itself if it runs long
  KERNEL = 1 << 14,      // work of a product's kernel
  ENDLESS = INT32_MAX    // work from here on is not distinguished
};

typedef struct stopping {
  tmod *o;
  tstore *t;
  anfi_arena *a;
  uint8_t *loops; // by function: 1 has none, 2 has some
  const anfi_jit_need *need;
  tfunc f;
  bool again;
} stopping;

static uint64_t at_most(uint64_t work) { return work < ENDLESS ? work : ENDLESS; }

/* ---- work ---- */

static bool no_expr(tviewer *v, texpr e) { return (void)v, (void)e, false; }
static bool find_loop(tviewer *v, tstmt s) {
  *(bool *)v->user |= s->kind == TS_for_loop || s->kind == TS_while_loop;
  return true;
}

static bool has_loops(stopping *q, size_t f) {
  bool found = false;
  tviewer v = {.user = &found, .enter_stmt = find_loop, .enter_expr = no_expr};
  if (!q->loops[f]) {
    anfi_t_view_stmt(&v, q->o->func.at[f]->body);
    q->loops[f] = found ? 2 : 1;
  }
  return q->loops[f] == 2;
}

typedef struct weighing {
  stopping *q;
  uint64_t work;
} weighing;

static bool weigh(tviewer *v, texpr e) {
  weighing *w = (weighing *)v->user;
  const tmod *m = w->q->o;
  if (e->kind == TX_intrin_call && anfi_t_is_brgemm(e)) w->work += KERNEL;
  if (e->kind != TX_call) return true;
  uint64_t *at = e->u.name ? anfi_map_find(&m->by_name, anfi_key(e->u.name)) : NULL;
  bool own = at && m->func.at[*at - 1]->body;
  int rt = !own && e->u.name ? anfi_t_rt_of(e->u.name->s) : -1;
  if (rt == TRT_anf_rt_stop) return true; // where an index is wrong, once
  if (rt == TRT_anf_rt_brgemm_call || rt == TRT_anf_rt_brgemm_list_call) w->work += KERNEL;
  w->work += own && has_loops(w->q, *at - 1) ? LOOPS : CALL;
  return true;
}

static uint64_t own_work(stopping *q, tstmt s) {
  weighing w = {q, 1};
  tviewer v = {.user = &w, .enter_expr = weigh};
  for (int i = 0; i < 4; i++)
    if (s->e[i] && !(i == 0 && s->kind == TS_define)) anfi_t_view_expr(&v, s->e[i]);
  return w.work;
}

/* ---- polls ---- */

static tstmt call_rt(stopping *q, trt rt, int32_t what) {
  texpr in = anfi_t_s32(q->t, what);
  return anfi_t_eval(q->t, anfi_t_rt_call(q->t, rt, anfi_t_rt[rt].n, &in));
}

static tstmt with_first(stopping *q, tstmt first, tstmt body) {
  tstmt all[2] = {first, anfi_t_splice(q->t, body->n, body->s)};
  return anfi_t_stmts(q->t, 2, all);
}

static tstmt with_poll(stopping *q, tstmt loop, tstmt body) {
  body = with_first(q, call_rt(q, TRT_anf_rt_poll, 0), body);
  return anfi_t_remake_stmt(q->t, loop, loop->e, &body);
}

/* while (go) { body }  →  while (go) { poll  left = 32768  while (go && left > 0) { left = left - 1  body } }, so that a
 * turn of little work stays a loop that LLVM sees through: it may have a closed form, or be made of vectors. */
static tstmt while_loop(stopping *q, tstmt s, uint64_t *work) {
  tstore *t = q->t;
  tdtype d = anfi_t_dt(ANF_TIR_s32);
  uint64_t turn = *work;
  int64_t turns;
  if (turn >= TURN) return with_poll(q, s, s->s[0]);
  if (anfi_t_attr(s->attrs, TA_turns, &turns) && turns < ENDLESS) {
    *work = at_most((uint64_t)turns * turn);
    if (*work <= MOST_ROUNDS) return s;
    *work = PIECE;
  }
  texpr left = anfi_t_var(t, d, "left");
  texpr go = anfi_t_bin(t, TX_logic_and, s->e[0], anfi_t_bin(t, TX_cmp_gt, left, anfi_t_s32(t, 0)));
  tstmt less = anfi_t_assign(t, left, anfi_t_sub(t, left, anfi_t_s32(t, 1)));
  tstmt inner = anfi_t_while(t, go, with_first(q, less, s->s[0]));
  tstmt all[3] = {call_rt(q, TRT_anf_rt_poll, 0),
                  anfi_t_define(t, TL_local, left, anfi_t_s32(t, (int32_t)(PIECE / turn))), inner};
  tstmt body = anfi_t_stmts(t, 3, all);
  return anfi_t_remake_stmt(t, s, s->e, &body);
}

static uint64_t turns_of(tstmt s) { // 0: not known
  int64_t b, e, step;
  bool known = anfi_t_const_i64(s->e[1], &b) && anfi_t_const_i64(s->e[2], &e) &&
               anfi_t_const_i64(s->e[3], &step) && step > 0;
  return known && e > b ? ((uint64_t)e - (uint64_t)b - 1) / (uint64_t)step + 1 : known;
}

/* The loop with polls if it needs some; *work: of a turn before, then what it does without one. */
static tstmt for_loop(stopping *q, tstmt s, bool inner, uint64_t *work) {
  uint64_t turn = *work, turns = turns_of(s);
  if (turn >= TURN) return with_poll(q, s, s->s[0]);
  if (!turns && inner) turns = DIM;
  *work = at_most(turns * turn); // a turn's work does not reach 2^15
  if (turns && turns < ENDLESS && *work <= MOST) return s;
  tstmt split = anfi_t_loop_split(q->t, q->a, s, (int64_t)(PIECE / turn), NULL);
  if (!split) return s;
  *work = PIECE;
  return with_poll(q, split, split->s[0]);
}

/* Gives what a statement becomes; *work: what it does between polls. Recursion is over nested scopes, which the
 * module bounds. */
static tstmt polled(stopping *q, tstmt s, bool inner, uint64_t *work) {
  bool loop = s->kind == TS_for_loop || s->kind == TS_while_loop, changed = false;
  uint64_t sum = loop ? 1 : own_work(q, s);
  tstmt *sub = ANFI_NEW_N(q->a, tstmt, s->n + 1);
  for (uint32_t i = 0; i < s->n; i++) {
    uint64_t part = 0;
    sub[i] = s->s[i] ? polled(q, s->s[i], inner || loop, &part) : NULL;
    changed |= sub[i] != s->s[i];
    sum = at_most(sum + part);
  }
  if (changed) s = anfi_t_remake_stmt(q->t, s, s->e, sub);
  *work = sum;
  if (s->kind == TS_for_loop) return for_loop(q, s, inner, work);
  return s->kind == TS_while_loop ? while_loop(q, s, work) : s;
}

static bool find_self_tail(tviewer *v, tstmt s) {
  stopping *q = (stopping *)v->user;
  q->again |= anfi_jit_self_tail(q->f, s);
  return !q->again;
}

/* return f(...) in f: the engine jumps to the start. */
static bool begins_again(stopping *q) {
  tviewer v = {.user = q, .enter_stmt = find_self_tail, .enter_expr = no_expr};
  q->again = false;
  anfi_t_view_stmt(&v, q->f->body);
  return q->again;
}

static tstmt poll_body(stopping *q) {
  uint64_t work;
  tstmt body = polled(q, q->f->body, false, &work);
  return begins_again(q) ? with_first(q, call_rt(q, TRT_anf_rt_poll, 0), body) : body;
}

/* ---- counts ---- */

static tstmt count_turn(tvisitor *v, tstmt s) {
  stopping *q = (stopping *)v->user;
  if (s->kind != TS_while_loop) return s;
  tstmt body = with_first(q, call_rt(q, TRT_anf_rt_count, ANF_RT_TURN), s->s[0]);
  return anfi_t_remake_stmt(q->t, s, s->e, &body);
}

/* A call that is a function's last step comes after the end of the function; any other result is computed before. */
static tstmt count_return(stopping *q, tstmt s) {
  tstmt out[3];
  uint32_t n = 0;
  texpr r = s->e[0];
  bool keep = !r || r->kind == TX_constant || r->kind == TX_var || r->kind == TX_call;
  if (!keep) {
    r = anfi_t_var(q->t, q->f->ret, "result");
    out[n++] = anfi_t_define(q->t, TL_local, r, s->e[0]);
  }
  out[n++] = call_rt(q, TRT_anf_rt_count, ANF_RT_LEAVE);
  out[n++] = keep ? s : anfi_t_return(q->t, r);
  return anfi_t_splice(q->t, n, out);
}

static tstmt count_call(tvisitor *v, tstmt s) {
  if (s->kind == TS_returns) return count_return((stopping *)v->user, s);
  return count_turn(v, s);
}

/* Turns of loops; calls where they may recur: all others are as many as a loop or a recursion makes. */
static tstmt count_body(stopping *q, size_t i) {
  tvisitor v;
  bool recurs = q->need[i].recursive;
  anfi_t_visitor_init(&v, q->t, q->a, q);
  v.stmt = recurs ? count_call : count_turn;
  tstmt body = anfi_t_visit_stmt(&v, q->f->body);
  if (!recurs && begins_again(q))
    return with_first(q, call_rt(q, TRT_anf_rt_count, ANF_RT_TURN), body);
  if (!recurs) return body;
  bool returns = body->n && body->s[body->n - 1]->kind == TS_returns;
  tstmt out[3] = {call_rt(q, TRT_anf_rt_count, ANF_RT_CALL), anfi_t_splice(q->t, body->n, body->s),
                  call_rt(q, TRT_anf_rt_count, ANF_RT_LEAVE)};
  return anfi_t_stmts(q->t, returns ? 2 : 3, out);
}

const tmod *anfi_jit_stoppable(anf_ctx *cx, const tmod *m, bool counts) {
  tmod *o = anfi_t_mod_like(m);
  for (size_t i = 0; i < m->func.n; i++) anfi_t_mod_add(o, m->func.at[i]);
  stopping q = {.o = o, .t = o->t, .a = anfi_scratch(cx)};
  o->t->line = o->t->col = 0;
  q.loops = ANFI_NEW_N(q.a, uint8_t, m->func.n + 1);
  if (counts) q.need = anfi_jit_needs(cx, m);
  for (size_t i = 0; i < m->func.n; i++) {
    q.f = m->func.at[i];
    if (!q.f->body) continue;
    tstmt body = counts ? count_body(&q, i) : q.f->body;
    if (body != q.f->body) q.f = anfi_t_with_body(q.t, q.f, body);
    body = poll_body(&q);
    if (body != q.f->body) q.f = anfi_t_with_body(q.t, q.f, body);
    anfi_t_mod_replace(o, i, q.f);
  }
  anfi_t_declare_rt(o);
  return o;
}
