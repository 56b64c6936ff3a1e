// SPDX-License-Identifier: Apache-2.0
/* value_numbering: common subexpressions by dominator-scoped value numbering.
 *
 *   var a = (x + y) * x           →     var t = x + y;  var a = t * x
 *   var b = (x + y) * x                 (b becomes a)
 *
 * A pure value that was computed in an enclosing scope is not computed again; an expression that occurs twice
 * gets a variable. Single assignment makes equal trees equal values. */
#include "backend/tir/tir.h"

enum { WORTH = 3 }; // nodes of an expression that earns a variable

typedef struct entry {
  texpr e, var;
  struct entry *next; // of the same hash
  uint64_t key;
} entry;

typedef struct user {
  tstore *t;
  anfi_arena *a;
  anfi_map count; // hash of a pure expression → how often met
  anfi_map table; // hash → entries in reach
  ANFI_VEC(entry *) scope;
  tvisitor names;
  ANFI_VEC(tstmt) out;
} user;

static bool candidate(texpr e) {
  if (e->kind == TX_constant || e->kind == TX_var || e->kind == TX_tensor ||
      e->kind == TX_func_addr || e->kind == TX_tensorptr)
    return false;
  return !anfi_t_is_void(e->dtype) && e->size <= 64 && anfi_t_pure(e) && !anfi_t_may_trap(e);
}

static bool see(tviewer *v, texpr e) {
  user *u = (user *)v->user;
  if (candidate(e) && e->size >= WORTH) ++*anfi_map_at(&u->count, anfi_t_hash_expr(e));
  return true;
}

static entry *lookup(user *u, texpr e, uint64_t key) {
  uint64_t *at = anfi_map_find(&u->table, key);
  for (entry *x = at ? (entry *)(uintptr_t)*at : NULL; x; x = x->next)
    if (anfi_t_identical(x->e, e)) return x;
  return NULL;
}
static void enter(user *u, texpr e, texpr var, uint64_t key) {
  entry *x = ANFI_NEW(u->a, entry);
  uint64_t *at = anfi_map_at(&u->table, key);
  *x = (entry){e, var, (entry *)(uintptr_t)*at, key};
  *at = anfi_key(x);
  anfi_push(u->a, &u->scope, x);
}
static void leave_to(user *u, size_t n) {
  while (u->scope.n > n) {
    entry *x = u->scope.at[--u->scope.n];
    *anfi_map_at(&u->table, x->key) = anfi_key(x->next);
  }
}

/* The expression with what is known already put in; `hoist`: variables may be made before the
 * statement. */
static texpr rewrite(user *u, texpr e, bool hoist, bool top) {
  if (e->kind == TX_var) {
    texpr to = anfi_t_mapped(&u->names, e);
    return to ? to : e;
  }
  if (e->kind == TX_tensor || e->kind == TX_constant || e->kind == TX_ssa_phi) return e;
  bool cand = candidate(e);
  uint64_t key = cand ? anfi_t_hash_expr(e) : 0;
  entry *known = cand ? lookup(u, e, key) : NULL;
  if (known) return known->var;
  texpr *in = ANFI_NEW_N(u->a, texpr, e->n);
  bool changed = false, lazy = anfi_t_group(e) == TG_LOGIC;
  for (uint32_t i = 0; i < e->n; i++) {
    in[i] = rewrite(u, e->in[i], hoist && !(lazy && i), false);
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
  bool same = r->kind == TX_var && candidate(e) && anfi_t_same(r->dtype, v->dtype);
  if (same) { // known under another name
    anfi_t_map_var(&u->names, v, r);
    return;
  }
  if (candidate(e)) enter(u, e, v, anfi_t_hash_expr(e));
  anfi_push(u->a, &u->out, r == e ? s : anfi_t_remake_stmt(u->t, s, (const texpr[4]){v, r}, NULL));
}

static void statement(user *u, tstmt s) {
  texpr e[4] = {0};
  tstmt sub[2] = {0};
  bool changed = false;
  if (s->kind == TS_define) {
    define(u, s);
    return;
  }
  for (int i = 0; i < 4; i++) {
    bool keep = !s->e[i] || (s->kind == TS_for_loop && i == 0) ||
                (s->kind == TS_assign && i == 0 && s->e[0]->kind == TX_var);
    e[i] = keep ? s->e[i]
                : rewrite(u, s->e[i], s->kind != TS_while_loop, s->kind == TS_assign && i == 0);
    changed |= e[i] != s->e[i];
  }
  for (uint32_t i = 0; i < s->n; i++) {
    sub[i] = s->s[i] ? sequence(u, s->s[i]) : NULL;
    changed |= sub[i] != s->s[i];
  }
  anfi_push(u->a, &u->out, changed ? anfi_t_remake_stmt(u->t, s, e, sub) : s);
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
  tviewer v = {.user = &u, .enter_expr = see};
  anfi_t_view_stmt(&v, f->body);
  tstmt body = sequence(&u, f->body);
  return anfi_t_with_body(p->t, f, anfi_t_visit_stmt(&u.names, body)); // phis may name what went
}
