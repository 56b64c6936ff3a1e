// SPDX-License-Identifier: Apache-2.0
/* index2var: scalar replacement of tensor elements.
 *
 *   for k ... { C[1] = C[1] + A[k] }   →   var c = C[1];  for k ... { c = c + A[k] };  C[1] = c
 *
 * Around a loop: an element that is the only one of its tensor accessed there, at an invariant index. Within
 * straight-line code: neighbouring accesses of one element share a variable, one slot for a tensor, which is
 * written back before anything may alias it. Look-ahead is bounded, so the pass is linear. */
#include "backend/tir/tir.h"

enum { AHEAD = 16, SLOTS = 8 };

typedef struct slot {
  texpr root, at, var;
  bool dirty;
} slot;

typedef struct user {
  talias alias;
  slot slot[SLOTS];
  uint32_t nslot;
  ANFI_VEC(tstmt) out;
  tstmt seq;
  uint32_t at;
} user;

static void put(tvisitor *v, user *u, tstmt s) { anfi_push(v->scratch, &u->out, s); }

static void flush(tvisitor *v, user *u, uint32_t k) {
  if (u->slot[k].dirty) put(v, u, anfi_t_assign(v->t, u->slot[k].at, u->slot[k].var));
  u->slot[k] = u->slot[--u->nslot];
}
static void flush_all(tvisitor *v, user *u) {
  while (u->nslot) flush(v, u, u->nslot - 1);
}
static bool find(user *u, texpr root, uint32_t *k) {
  for (*k = 0; *k < u->nslot; ++*k)
    if (u->slot[*k].root == root) return true;
  return false;
}

/* ---- what a statement is ---- */

static bool plain_node(const talias *a, texpr e) {
  if (e->kind == TX_call || e->kind == TX_ssa_phi) return false;
  if (e->kind == TX_intrin_call && anfi_t_intrins[e->sub].purity >= TP_MEMORY) return false;
  if (e->kind == TX_indexing && !anfi_t_root(a, e->in[0])) return false;
  for (uint32_t i = 0; i < e->n && e->kind != TX_tensor; i++)
    if (!plain_node(a, e->in[i])) return false;
  return true;
}
static bool simple(const talias *a, tstmt s) {
  if (s->kind != TS_define && s->kind != TS_assign) return false;
  if (s->e[0]->kind == TX_tensor) return false;
  return (!s->e[1] || plain_node(a, s->e[1])) && plain_node(a, s->e[0]);
}

static uint32_t count(texpr e, texpr want) {
  uint32_t n = anfi_t_identical(e, want);
  for (uint32_t i = 0; i < e->n && e->kind != TX_tensor; i++) n += count(e->in[i], want);
  return n;
}
/* Is it met again soon? */
static bool worthwhile(user *u, texpr e) {
  uint32_t n = 0;
  if (e->n > e->nidx + 1u || e->dtype.rows) return false;
  for (uint32_t i = u->at; i < u->seq->n && i < u->at + AHEAD && n < 2; i++) {
    tstmt s = u->seq->s[i];
    if (!simple(&u->alias, s)) break;
    for (int k = 0; k < 2; k++)
      if (s->e[k]) n += s->e[k]->size < 200 ? count(s->e[k], e) : 0;
  }
  return n >= 2;
}

static texpr new_slot(tvisitor *v, user *u, texpr e, texpr value) {
  if (u->nslot == SLOTS) flush(v, u, 0);
  texpr var = anfi_t_var(v->t, e->dtype, anfi_sprintf(v->scratch, "%s_v", e->in[0]->u.name->s));
  put(v, u, anfi_t_define(v->t, TL_local, var, value));
  u->slot[u->nslot++] = (slot){anfi_t_root(&u->alias, e->in[0]), e, var, false};
  return var;
}

static texpr read(tvisitor *v, user *u, texpr e, bool maybe) {
  if (e->kind == TX_tensor || e->kind == TX_var || e->kind == TX_constant) return e;
  texpr *in = ANFI_NEW_N(v->scratch, texpr, e->n);
  bool changed = false, lazy = anfi_t_group(e) == TG_LOGIC;
  for (uint32_t i = 0; i < e->n; i++) {
    in[i] = read(v, u, e->in[i], maybe || (lazy && i));
    changed |= in[i] != e->in[i];
  }
  texpr r = changed ? anfi_t_remake(v->t, e, in) : e;
  if (e->kind != TX_indexing) return r;
  uint32_t k;
  if (find(u, anfi_t_root(&u->alias, e->in[0]), &k)) {
    if (anfi_t_identical(u->slot[k].at, r)) return u->slot[k].var;
    flush(v, u, k);
  }
  return !maybe && worthwhile(u, r) ? new_slot(v, u, r, r) : r;
}

static void write_element(tvisitor *v, user *u, tstmt s, texpr value) {
  texpr *in = ANFI_NEW_N(v->scratch, texpr, s->e[0]->n), to = s->e[0];
  bool changed = false;
  for (uint32_t i = 0; i < to->n; i++) {
    in[i] = read(v, u, to->in[i], false);
    changed |= in[i] != to->in[i];
  }
  if (changed) to = anfi_t_remake(v->t, to, in);
  uint32_t k;
  bool have = find(u, anfi_t_root(&u->alias, to->in[0]), &k),
       same = have && anfi_t_identical(u->slot[k].at, to);
  if (have && !same) flush(v, u, k);
  if (same) {
    put(v, u, anfi_t_assign(v->t, u->slot[k].var, value));
    u->slot[k].dirty = true;
  } else if (worthwhile(u, to)) {
    new_slot(v, u, to, value);
    u->slot[u->nslot - 1].dirty = true;
  } else put(v, u, anfi_t_remake_stmt(v->t, s, (const texpr[4]){to, value}, NULL));
}

static void statement(tvisitor *v, user *u, tstmt s) {
  texpr value = s->e[1] ? read(v, u, s->e[1], false) : NULL;
  if (s->kind == TS_assign && s->e[0]->kind == TX_indexing) {
    write_element(v, u, s, value);
    return;
  }
  for (uint32_t k = u->nslot; k-- > 0;) // an index is about to change
    if (s->kind == TS_assign && anfi_t_uses(u->slot[k].at, s->e[0])) flush(v, u, k);
  put(v, u,
      value == s->e[1] ? s : anfi_t_remake_stmt(v->t, s, (const texpr[4]){s->e[0], value}, NULL));
}

static tstmt sequence(tvisitor *v, user *u, tstmt s) {
  u->out.at = NULL;
  u->out.n = u->out.cap = 0;
  u->nslot = 0;
  u->seq = s;
  for (u->at = 0; u->at < s->n; u->at++) {
    if (simple(&u->alias, s->s[u->at])) statement(v, u, s->s[u->at]);
    else {
      flush_all(v, u);
      put(v, u, s->s[u->at]);
    }
  }
  flush_all(v, u);
  bool same = u->out.n == s->n;
  for (uint32_t i = 0; same && i < s->n; i++) same = u->out.at[i] == s->s[i];
  return same     ? s
         : s->sub ? anfi_t_splice(v->t, u->out.n, u->out.at)
                  : anfi_t_stmts(v->t, u->out.n, u->out.at);
}

/* ---- around a loop ---- */

typedef struct element {
  const talias *a;
  texpr root, at; // the only element of the root that is met
  bool bad, written, first_write, seen;
  uint32_t maybe; // depth of what may not run
} element;

typedef struct scan {
  const talias *a;
  anfi_map by_root;
  ANFI_VEC(element *) all;
  uint32_t maybe;
  bool barrier;
  anfi_map defined; // variables that the loop defines or assigns
} scan;

static void meet(tviewer *v, scan *s, texpr e) {
  texpr root = anfi_t_root(s->a, e->in[0]);
  if (!root) {
    s->barrier = true;
    return;
  }
  uint64_t *at = anfi_map_at(&s->by_root, anfi_key(root));
  element *x = (element *)(uintptr_t)*at;
  bool write = v->lvalue > 0;
  if (!x) {
    x = ANFI_NEW(s->by_root.arena, element);
    *x = (element){.root = root, .at = e, .bad = s->maybe > 0, .first_write = write};
    *at = anfi_key(x);
    anfi_push(s->by_root.arena, &s->all, x);
  }
  x->written |= write;
  x->bad |= !anfi_t_identical(x->at, e) || e->n > e->nidx + 1u || e->dtype.rows;
}

static bool scan_expr(tviewer *v, texpr e) {
  scan *s = (scan *)v->user;
  if (e->kind == TX_call || e->kind == TX_tensorptr || e->kind == TX_tensor) s->barrier = true;
  if (e->kind == TX_intrin_call && anfi_t_intrins[e->sub].purity >= TP_MEMORY) s->barrier = true;
  if (e->kind == TX_var && v->lvalue) *anfi_map_at(&s->defined, anfi_key(e)) = 1;
  if (anfi_t_group(e) == TG_LOGIC) {
    anfi_t_view_expr(v, e->in[0]);
    s->maybe++;
    anfi_t_view_expr(v, e->in[1]);
    s->maybe--;
    return false;
  }
  if (e->kind != TX_indexing) return true;
  uint32_t keep = v->lvalue;
  v->lvalue = 0;
  for (uint32_t i = 1; i < e->n; i++) anfi_t_view_expr(v, e->in[i]);
  v->lvalue = keep;
  meet(v, s, e);
  return false;
}

static bool surely_runs(tstmt s) {
  int64_t b, e, step;
  return anfi_t_loop_bounds(s, &b, &e, &step) && b < e;
}
static bool scan_stmt(tviewer *v, tstmt x) {
  scan *s = (scan *)v->user;
  if (x->kind == TS_returns || (x->kind == TS_for_loop && x->sub)) s->barrier = true;
  if (x->kind == TS_define && x->e[0]->kind == TX_tensor) s->barrier = true;
  if (x->kind == TS_define || x->kind == TS_for_loop)
    *anfi_map_at(&s->defined, anfi_key(x->e[0])) = 1;
  if (x->kind == TS_if_else || x->kind == TS_while_loop ||
      (x->kind == TS_for_loop && !surely_runs(x)))
    s->maybe++;
  return !s->barrier;
}
static void scan_left(tviewer *v, tstmt x) {
  scan *s = (scan *)v->user;
  if (x->kind == TS_if_else || x->kind == TS_while_loop ||
      (x->kind == TS_for_loop && !surely_runs(x)))
    s->maybe--;
}

static bool fixed(const scan *s, texpr e) {
  if (e->kind == TX_var) return !anfi_map_find(&s->defined, anfi_key(e));
  if (e->kind == TX_indexing) return false;
  for (uint32_t i = 0; i < e->n; i++)
    if (!fixed(s, e->in[i])) return false;
  return true;
}
static bool fixed_place(const scan *s, texpr at) {
  for (uint32_t i = 1; i < at->n; i++)
    if (!fixed(s, at->in[i])) return false;
  return true;
}

static texpr to_var(tvisitor *v, texpr e) {
  scan *s = (scan *)v->user;
  uint64_t *at = e->kind == TX_indexing
                     ? anfi_map_find(&s->by_root, anfi_key(anfi_t_root(s->a, e->in[0])))
                     : NULL;
  element *x = at ? (element *)(uintptr_t)*at : NULL;
  return x && x->seen ? (texpr)x->root : e;
}

static tstmt around(tvisitor *v, user *u, tstmt loop) {
  if (loop->sub || !surely_runs(loop)) return loop;
  scan s = {.a = &u->alias};
  anfi_map_init(&s.by_root, v->scratch);
  anfi_map_init(&s.defined, v->scratch);
  tviewer see = {
      .user = &s, .enter_expr = scan_expr, .enter_stmt = scan_stmt, .leave_stmt = scan_left};
  *anfi_map_at(&s.defined, anfi_key(loop->e[0])) = 1;
  anfi_t_view_stmt(&see, loop->s[0]);
  if (s.barrier) return loop;
  ANFI_VEC(tstmt) before = {0}, after = {0};
  for (size_t i = 0; i < s.all.n; i++) {
    element *x = s.all.at[i];
    if (x->bad || !x->written || !fixed_place(&s, x->at)) continue;
    texpr var =
        anfi_t_var(v->t, x->at->dtype, anfi_sprintf(v->scratch, "%s_v", x->at->in[0]->u.name->s));
    anfi_push(v->scratch, &before,
              anfi_t_define(v->t, TL_local, var, x->first_write ? NULL : x->at));
    anfi_push(v->scratch, &after, anfi_t_assign(v->t, x->at, var));
    x->seen = true;
    x->root = var;
  }
  if (!before.n) return loop;
  tvisitor in;
  anfi_t_visitor_init(&in, v->t, v->scratch, &s);
  in.expr = to_var;
  anfi_push(v->scratch, &before, anfi_t_visit_stmt(&in, loop));
  for (size_t i = 0; i < after.n; i++) anfi_push(v->scratch, &before, after.at[i]);
  return anfi_t_splice(v->t, before.n, before.at);
}

static tstmt leave(tvisitor *v, tstmt s) {
  user *u = (user *)v->user;
  return s->kind == TS_stmts ? sequence(v, u, s) : s;
}
static tstmt enter(tvisitor *v,
                   tstmt s) { // outer loops first: what lives around one is no slot inside it
  return s->kind == TS_for_loop ? around(v, (user *)v->user, s) : s;
}

tfunc anfi_t_pass_index2var(tpass_cx *p, tfunc f) {
  user u = {.nslot = 0};
  anfi_t_alias_init(&u.alias, p->t, p->scratch, f);
  tvisitor v;
  anfi_t_visitor_init(&v, p->t, p->scratch, &u);
  v.enter = enter;
  v.stmt = leave;
  return anfi_t_visit_func(&v, f);
}
