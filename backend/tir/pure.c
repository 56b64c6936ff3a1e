// SPDX-License-Identifier: Apache-2.0
/* Which functions touch no memory but their own and have no effect (pure), and of those which also end and cannot trap (total).
 *
 *   func half(x: f32): f32 { return x / 2.f }                   total
 *   func fact(n: s32): s32 { ... fact(n - 1) ... }              pure: it need not end
 *   func put(A: [f32 * 4]): void { A[0] = 1.f }                 neither
 *
 * Pure is the greatest fixpoint over calls, so that functions that call each other may be; total is the least. */
#include "backend/tir/tir.h"

typedef struct facts {
  tpure own;       // whatever it calls
  const char *why; // not pure
  bool lenient;    // what passes put there of the run time's says nothing of the program
  bool seen;
  ANFI_VEC(const anfi_str *) calls;
} facts;

typedef struct seer {
  talias alias;
  facts *f;
} seer;

static void at_most(facts *f, tpure level, const char *why) {
  if (f->own <= level) return;
  f->own = level;
  if (level == PURE_NO) f->why = why;
}

static void see_call(facts *f, anfi_arena *a, texpr e) {
  if (!e->u.name) at_most(f, PURE_NO, "calls through a pointer");
  else anfi_push(a, &f->calls, e->u.name);
}

static bool see_expr(tviewer *v, texpr e) {
  seer *s = (seer *)v->user;
  facts *f = s->f;
  if (e->kind == TX_indexing) {
    texpr root = anfi_t_root(&s->alias, e->in[0]);
    bool own = root && anfi_map_find(&s->alias.local, anfi_key(root));
    at_most(f, own ? PURE : PURE_NO, "touches memory of others");
  }
  if (e->kind == TX_intrin_call && anfi_t_intrins[e->sub].purity > TP_MATH2 &&
      e->sub != TI_constant_load)
    at_most(f, PURE_NO, "has an intrinsic that touches memory or has an effect");
  if (e->kind == TX_call) see_call(f, s->alias.scratch, e);
  else if (e->kind != TX_indexing && e->kind != TX_tensor) {
    bool traps = (e->kind == TX_div || e->kind == TX_mod) && anfi_t_may_trap(e);
    if (traps) at_most(f, PURE, NULL);
  }
  return true;
}

static bool see_stmt(tviewer *v, tstmt s) {
  int64_t step;
  facts *f = ((seer *)v->user)->f;
  bool counted = s->kind == TS_for_loop && anfi_t_const_i64(s->e[3], &step) && step > 0;
  if (s->kind == TS_while_loop || (s->kind == TS_for_loop && !counted)) at_most(f, PURE, NULL);
  return true;
}

static tpure claimed(tfunc f) {
  int64_t v = 0;
  if (!anfi_t_attr(f->attrs, TA_pure, &v)) return PURE_NO;
  return v == 2 ? PURE_TOTAL : PURE;
}

static void look(const tmod *m, anfi_arena *a, tfunc f, facts *out) {
  seer s = {.f = out};
  tviewer v = {.user = &s, .enter_expr = see_expr, .enter_stmt = see_stmt};
  out->own = f->body ? PURE_TOTAL : claimed(f);
  out->why = f->body ? NULL : "is defined elsewhere";
  if (!f->body) return;
  anfi_t_alias_init(&s.alias, m->t, a, f);
  anfi_t_view_stmt(&v, f->body);
}

static uint64_t place_of(const tmod *m, const anfi_str *name) {
  uint64_t *at = anfi_map_find(&m->by_name, anfi_key(name));
  return at ? *at - 1 : UINT64_MAX;
}

/* Looks at the function and at what it calls. */
static void look_from(const tmod *m, anfi_arena *a, facts *f, size_t i) {
  ANFI_VEC(size_t) left = {0};
  anfi_push(a, &left, i);
  while (left.n) {
    size_t k = left.at[--left.n];
    if (f[k].seen) continue;
    f[k].seen = true;
    look(m, a, m->func.at[k], &f[k]);
    for (size_t c = 0; c < f[k].calls.n; c++) {
      uint64_t to = place_of(m, f[k].calls.at[c]);
      if (to < m->func.n) anfi_push(a, &left, (size_t)to);
    }
  }
}

/* The purity of a function if the functions that it calls are as `level` says. */
static tpure with_calls(const tmod *m, facts *f, const tpure *level) {
  tpure least = f->own;
  for (size_t i = 0; i < f->calls.n && least; i++) {
    const anfi_str *name = f->calls.at[i];
    uint64_t at = place_of(m, name);
    bool ours = f->lenient && anfi_t_rt_of(name->s) >= 0;
    tpure callee = ours ? PURE_TOTAL : at < m->func.n ? level[at] : PURE_NO;
    if (callee == PURE_NO) f->why = "calls a function that is not pure";
    if (callee < least) least = callee;
  }
  return least;
}

static bool lower_to(tpure *level, tpure now) {
  bool lower = now < *level;
  if (lower) *level = now;
  return lower;
}

/* Total is what calls only what is known to be. */
static void find_total(const tmod *m, facts *f, const tpure *pure, tpure *out) {
  bool again = true;
  for (size_t i = 0; i < m->func.n; i++) out[i] = pure[i] ? PURE : PURE_NO;
  while (again) {
    again = false;
    for (size_t i = 0; i < m->func.n; i++)
      if (out[i] == PURE && with_calls(m, &f[i], out) == PURE_TOTAL)
        out[i] = PURE_TOTAL, again = true;
  }
}

/* Of all functions; or, to verify claims, of those that have some and what they call. */
static facts *infer(const tmod *m, anfi_arena *a, bool verify, tpure *out) {
  facts *f = ANFI_NEW_N(a, facts, m->func.n);
  tpure *pure = ANFI_NEW_N(a, tpure, m->func.n);
  bool again = true;
  for (size_t i = 0; i < m->func.n; i++) {
    f[i].lenient = verify;
    if (!verify || claimed(m->func.at[i])) look_from(m, a, f, i);
  }
  for (size_t i = 0; i < m->func.n; i++) pure[i] = f[i].own;
  while (again) {
    again = false;
    for (size_t i = 0; i < m->func.n; i++) again |= lower_to(&pure[i], with_calls(m, &f[i], pure));
  }
  find_total(m, f, pure, out);
  return f;
}

void anfi_t_infer_pure(const tmod *m, anfi_arena *a, tpure *out) { (void)infer(m, a, false, out); }

size_t anfi_t_wrongly_pure(const tmod *m, anfi_arena *a, const char **why) {
  bool any = false;
  for (size_t i = 0; i < m->func.n; i++) any |= m->func.at[i]->body && claimed(m->func.at[i]);
  if (!any) return SIZE_MAX;
  tpure *level = ANFI_NEW_N(a, tpure, m->func.n);
  const facts *f = infer(m, a, true, level);
  for (size_t i = 0; i < m->func.n; i++) {
    if (claimed(m->func.at[i]) <= level[i]) continue;
    *why = level[i] ? "may not end, or may trap" : f[i].why;
    return i;
  }
  return SIZE_MAX;
}

tpure anfi_t_pure_call(const tmod *m, texpr call) {
  tfunc f = call->kind == TX_call && call->u.name && call->n == call->nidx
                ? anfi_t_mod_find(m, call->u.name)
                : NULL;
  return f ? claimed(f) : PURE_NO;
}
