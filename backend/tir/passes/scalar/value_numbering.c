// SPDX-License-Identifier: Apache-2.0
/* value_numbering: common subexpressions by dominator-scoped value numbering.
 *
 *   var a = (x + y) * x           →     var t = x + y;  var a = t * x
 *   var b = (x + y) * x                 (b becomes a)
 *
 *   A[i] = x;  y = A[i] + A[j]    →     A[i] = x;  y = x + A[j]
 *
 * A value that was computed in an enclosing scope is not computed again; an expression that occurs twice gets a variable.
 * Single assignment makes equal trees equal values, of what is pure; what was loaded or stored is known until a statement
 * that may write there. */
#include "backend/tir/tir.h"

enum { WORTH = 3, MOST_LOADS = 128 }; // nodes of an expression that earns a variable

typedef struct entry {
  texpr e, var;
  struct entry *next; // of the same hash
  uint64_t key;
  bool stale; // memory that it was loaded from may be another now
} entry;

typedef struct user {
  /* expressions in reach */
  tstore *t;
  anfi_arena *a;
  anfi_map count; // hash of a pure expression → how often met
  anfi_map table; // hash → entries in reach
  ANFI_VEC(entry *) scope;
  /* rewriting */
  tvisitor names;
  ANFI_VEC(tstmt) out;
  /* loads */
  talias alias;
  ANFI_VEC(entry *) loads; // of those in reach
  bool writes;             // the statement has a call that may write: no load moves over it
} user;

static bool is_load(texpr e) { return e->kind == TX_indexing; }
static bool loads(texpr e) {
  if (e->kind == TX_tensor) return false;
  for (uint32_t i = 0; i < e->n; i++)
    if (loads(e->in[i])) return true;
  return is_load(e);
}

/* A value that is the same wherever it is computed, until memory changes? */
static bool lasts(const user *u, texpr e) {
  if (e->kind == TX_tensor) return true;
  if (e->kind == TX_call && (e->dtype.ptr || !anfi_t_pure_call(u->alias.m, e))) return false;
  if (is_load(e) &&
      (u->writes || anfi_t_mask(e) || e->dtype.rows || !anfi_t_root(&u->alias, e->in[0])))
    return false;
  if (e->kind == TX_ssa_phi ||
      (e->kind == TX_intrin_call && anfi_t_intrins[e->sub].purity > TP_MATH2))
    return false;
  bool divides = e->kind == TX_div || e->kind == TX_mod;
  if (divides && !anfi_t_is_float(e->dtype) && !anfi_t_const_i64(e->in[1], &(int64_t){0}))
    return false;
  for (uint32_t i = 0; i < e->n; i++)
    if (!lasts(u, e->in[i])) return false;
  return !divides || anfi_t_is_float(e->dtype) || !anfi_t_is_const(e->in[1], 0);
}

static bool candidate(const user *u, texpr e) {
  if (e->kind == TX_constant || e->kind == TX_var || e->kind == TX_tensor ||
      e->kind == TX_func_addr || e->kind == TX_tensorptr)
    return false;
  return !anfi_t_is_void(e->dtype) && e->size <= 64 && lasts(u, e);
}

static bool see(tviewer *v, texpr e) {
  user *u = (user *)v->user;
  if (!v->lvalue && candidate(u, e) && (e->size >= WORTH || e->kind == TX_call))
    ++*anfi_map_at(&u->count, anfi_t_hash_expr(e));
  return true;
}

static entry *lookup(user *u, texpr e, uint64_t key) {
  uint64_t *at = anfi_map_find(&u->table, key);
  for (entry *x = at ? (entry *)(uintptr_t)*at : NULL; x; x = x->next)
    if (!x->stale && anfi_t_identical(x->e, e)) return x;
  return NULL;
}
static void enter(user *u, texpr e, texpr var, uint64_t key) {
  bool load = loads(e);
  if (load && u->loads.n >= MOST_LOADS) return;
  entry *x = ANFI_NEW(u->a, entry);
  uint64_t *at = anfi_map_at(&u->table, key);
  *x = (entry){e, var, (entry *)(uintptr_t)*at, key, false};
  if (load) anfi_push(u->a, &u->loads, x);
  *at = anfi_key(x);
  anfi_push(u->a, &u->scope, x);
}
static void leave_to(user *u, size_t n) {
  while (u->scope.n > n) {
    entry *x = u->scope.at[--u->scope.n];
    x->stale = true;
    *anfi_map_at(&u->table, x->key) = anfi_key(x->next);
  }
}

/* Forgets what was loaded from where these effects write. */
static void forget(user *u, const teffects *e) {
  size_t n = 0;
  for (size_t i = 0; i < u->loads.n; i++) {
    entry *x = u->loads.at[i];
    x->stale = x->stale || anfi_t_writes_part(e, &u->alias, x->e, false);
    if (!x->stale) u->loads.at[n++] = x;
  }
  u->loads.n = n;
}

static void effects_of(user *u, tstmt s, teffects *e) {
  anfi_t_effects_init(e, u->a);
  anfi_t_effects_stmt(e, &u->alias, s);
}

static texpr rewrite(user *u, texpr e, bool hoist, bool top);

/* A place in memory, with the indices that are known put in. */
static texpr place(user *u, texpr e, bool hoist) {
  texpr *in = ANFI_NEW_N(u->a, texpr, e->n);
  bool changed = false;
  if (e->kind == TX_var) return e;
  for (uint32_t i = 0; i < e->n; i++) {
    in[i] = i ? rewrite(u, e->in[i], hoist, false) : e->in[0];
    changed |= in[i] != e->in[i];
  }
  return changed ? anfi_t_remake(u->t, e, in) : e;
}

/* The expression with what is known already put in; `hoist`: variables may be made before the
 * statement. */
static texpr rewrite(user *u, texpr e, bool hoist, bool top) {
  if (e->kind == TX_var) {
    texpr to = anfi_t_mapped(&u->names, e);
    return to ? to : e;
  }
  if (e->kind == TX_tensor || e->kind == TX_constant || e->kind == TX_ssa_phi) return e;
  bool cand = candidate(u, e);
  uint64_t key = cand ? anfi_t_hash_expr(e) : 0;
  entry *known = cand ? lookup(u, e, key) : NULL;
  if (known) return known->var;
  texpr *in = ANFI_NEW_N(u->a, texpr, e->n);
  bool changed = false, lazy = anfi_t_group(e) == TG_LOGIC;
  bool by_place = e->kind == TX_intrin_call && anfi_t_intrins[e->sub].purity > TP_MATH2;
  for (uint32_t i = 0; i < e->n; i++) {
    in[i] = by_place && is_load(e->in[i]) ? place(u, e->in[i], hoist)
                                          : rewrite(u, e->in[i], hoist && !(lazy && i), false);
    changed |= in[i] != e->in[i];
  }
  texpr r = changed ? anfi_t_remake(u->t, e, in) : e;
  uint64_t *n = cand && hoist && !top ? anfi_map_find(&u->count, key) : NULL;
  if (!n || *n < 2) return r;
  texpr var = anfi_t_var(u->t, e->dtype, "t");
  anfi_push(u->a, &u->out, anfi_t_define(u->t, TL_local, var, r));
  enter(u, e, var, key);
  return var;
}

static tstmt sequence(user *u, tstmt s);

static void define(user *u, tstmt s) {
  texpr v = s->e[0], e = s->e[1];
  if (!e || v->kind != TX_var || e->kind == TX_ssa_phi) {
    texpr init = e ? rewrite(u, e, true, true) : NULL;
    anfi_push(u->a, &u->out,
              init == e ? s : anfi_t_remake_stmt(u->t, s, (const texpr[4]){v, init}, NULL));
    return;
  }
  texpr r = rewrite(u, e, true, true);
  bool same = r->kind == TX_var && candidate(u, e) && anfi_t_same(r->dtype, v->dtype);
  if (same) { // known under another name
    anfi_t_map_var(&u->names, v, r);
    return;
  }
  if (candidate(u, e)) enter(u, e, v, anfi_t_hash_expr(e));
  anfi_push(u->a, &u->out, r == e ? s : anfi_t_remake_stmt(u->t, s, (const texpr[4]){v, r}, NULL));
}

/* After a store, a load of the same place gives the value stored. */
static void stored(user *u, texpr to, texpr value) {
  bool known = to->kind == TX_indexing && (value->kind == TX_var || value->kind == TX_constant) &&
               anfi_t_same(to->dtype, value->dtype);
  if (known && candidate(u, to)) enter(u, to, value, anfi_t_hash_expr(to));
}

static void nested(user *u, tstmt s, const teffects *own) {
  texpr e[4] = {0};
  tstmt sub[2] = {0};
  bool changed = false, assign = s->kind == TS_assign, loop = s->kind == TS_for_loop;
  for (int i = 0; i < 4; i++) {
    bool keep = !s->e[i] || (loop && i == 0);
    e[i] = keep           ? s->e[i]
           : assign && !i ? place(u, s->e[0], true)
                          : rewrite(u, s->e[i], s->kind != TS_while_loop, false);
    changed |= e[i] != s->e[i];
  }
  if (s->kind != TS_if_else) forget(u, own);
  for (uint32_t i = 0; i < s->n; i++) {
    sub[i] = s->s[i] ? sequence(u, s->s[i]) : NULL;
    changed |= sub[i] != s->s[i];
  }
  anfi_push(u->a, &u->out, changed ? anfi_t_remake_stmt(u->t, s, e, sub) : s);
  if (s->kind == TS_if_else) forget(u, own);
  if (assign) stored(u, s->e[0], e[1]);
}

static bool calls(texpr e) {
  if (e->kind == TX_call) return true;
  if (e->kind == TX_intrin_call && anfi_t_intrins[e->sub].purity == TP_EFFECT) return true;
  for (uint32_t i = 0; e->kind != TX_tensor && i < e->n; i++)
    if (calls(e->in[i])) return true;
  return false;
}

/* A call whose value nothing reads, which ends and does nothing else? */
static bool is_idle(const user *u, tstmt s) {
  return s->kind == TS_evaluate && s->e[0]->kind == TX_call &&
         anfi_t_pure_call(u->alias.m, s->e[0]) == PURE_TOTAL && lasts(u, s->e[0]);
}

static void statement(user *u, tstmt s) {
  teffects own;
  bool outer = u->writes;
  if (is_idle(u, s)) return;
  effects_of(u, s, &own);
  u->writes = false;
  for (int i = 0; i < 4; i++) u->writes |= s->e[i] && calls(s->e[i]) && own.writes_unknown;
  /* the condition of a while sees what its body wrote */
  if (s->kind == TS_while_loop) forget(u, &own);
  if (s->kind != TS_define) nested(u, s, &own);
  else {
    define(u, s);
    if (u->writes) forget(u, &own);
  }
  u->writes = outer;
}

static tstmt sequence(user *u, tstmt s) {
  size_t mark = u->scope.n;
  user outer = *u;
  u->out.at = NULL;
  u->out.n = u->out.cap = 0;
  for (uint32_t i = 0; i < s->n; i++) {
    if (s->s[i]->kind == TS_stmts) {
      tstmt in = sequence(u, s->s[i]);
      anfi_push(u->a, &u->out, in);
    } else statement(u, s->s[i]);
  }
  tstmt r = anfi_t_stmts(u->t, u->out.n, u->out.at);
  leave_to(u, mark);
  u->out.at = outer.out.at;
  u->out.n = outer.out.n;
  u->out.cap = outer.out.cap;
  return r;
}

tfunc anfi_t_pass_value_numbering(tpass_cx *p, tfunc f) {
  user u = {.t = p->t, .a = p->scratch};
  anfi_map_init(&u.count, u.a);
  anfi_map_init(&u.table, u.a);
  anfi_t_visitor_init(&u.names, p->t, p->scratch, &u);
  anfi_t_alias_init(&u.alias, p->t, p->scratch, f);
  u.alias.m = p->m;
  tviewer v = {.user = &u, .enter_expr = see};
  anfi_t_view_stmt(&v, f->body);
  tstmt body = sequence(&u, f->body);
  return anfi_t_with_body(p->t, f, anfi_t_visit_stmt(&u.names, body)); // phis may name what went
}
