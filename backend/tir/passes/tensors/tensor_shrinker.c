// SPDX-License-Identifier: Apache-2.0
/* tensor_shrinker: array contraction: a temporary of which each iteration uses its own slice becomes that slice.
 *
 *   tensor T: [f32 * 8 * 4]                 →     for i in (0, 8, 1) {
 *   for i in (0, 8, 1) { T[i, j] ... }              tensor T: [f32 * 1 * 4];  T[0, j] ...
 *                                                 }
 *
 * In general A[i + k, j] becomes A[k, j], where k stays below the step of the loop over i.
 * INVARIANT: that loop is the outermost around all accesses, so no value outlives one run of it; slices of two
 * iterations are disjoint, since a slice is no larger than the step. */
#include "backend/tir/tir.h"

typedef struct cand {
  /* where it is used */
  texpr tensor, now;
  tstmt define, loop;
  size_t depth; // loops open at the definition
  /* what may shrink */
  bool bad;
  uint32_t dim;  // that shrinks
  bool *dim_bad; // those that do not
  int64_t *block;
} cand;

typedef struct shrink {
  tpass_cx *p;
  anfi_map cands; // tensor → cand
  ANFI_VEC(cand *) all;
  ANFI_VEC(tstmt) open;
  tranges ranges;
  talias alias;
} shrink;

static cand *cand_of(shrink *s, texpr tensor) {
  uint64_t *at = anfi_map_find(&s->cands, anfi_key(tensor));
  return at ? (cand *)(uintptr_t)*at : NULL;
}

static void access(shrink *s, cand *c, texpr e) {
  int64_t coef, step;
  texpr rest;
  trange r = {0, 0};
  tstmt loop = s->open.n > c->depth ? s->open.at[c->depth] : NULL;
  if (!loop || loop->kind != TS_for_loop || (c->loop && c->loop != loop) || e->dtype.rows) {
    c->bad = true;
    return;
  }
  c->loop = loop;
  for (uint32_t k = 0; k < e->nidx; k++) {
    bool good = anfi_t_const_i64(loop->e[3], &step) &&
                anfi_t_affine(s->p->t, e->in[1 + k], loop->e[0], &coef, &rest) && coef > 0;
    if (good && rest) good = anfi_t_range(&s->ranges, rest, &r) && r.lo >= 0;
    int64_t extent = r.hi + (k + 1 == e->nidx ? e->dtype.lanes : 1);
    if (!rest) extent = k + 1 == e->nidx ? e->dtype.lanes : 1;
    if (!good || step > INT32_MAX || extent > coef * step) c->dim_bad[k] = true;
    else if (extent > c->block[k]) c->block[k] = extent;
  }
}

static bool see_expr(tviewer *v, texpr e) {
  shrink *s = (shrink *)v->user;
  cand *c = e->kind == TX_indexing ? cand_of(s, e->in[0]) : NULL;
  if (c) access(s, c, e);
  return true;
}

static bool see_stmt(tviewer *v, tstmt x) {
  shrink *s = (shrink *)v->user;
  if (x->kind == TS_for_loop) anfi_t_ranges_loop(&s->ranges, x);
  if (x->kind == TS_for_loop || x->kind == TS_while_loop) anfi_push(s->p->scratch, &s->open, x);
  if (x->kind != TS_define || x->e[0]->kind != TX_tensor) return true;
  if (x->e[1]) { // a view keeps what it looks at as it is
    cand *of = x->e[1]->kind == TX_tensorptr ? cand_of(s, x->e[1]->in[0]) : NULL;
    if (of) of->bad = true;
    return true;
  }
  if (!anfi_t_is_local(&s->alias, x->e[0]) || anfi_t_has_strides(x->e[0])) return true;
  cand *c = ANFI_NEW(s->p->scratch, cand);
  *c = (cand){.tensor = x->e[0], .define = x, .depth = s->open.n};
  c->dim_bad = ANFI_NEW_N(s->p->scratch, bool, x->e[0]->nidx);
  c->block = ANFI_NEW_N(s->p->scratch, int64_t, x->e[0]->nidx);
  anfi_push(s->p->scratch, &s->all, c);
  *anfi_map_at(&s->cands, anfi_key(x->e[0])) = anfi_key(c);
  return true;
}

static void left(tviewer *v, tstmt x) {
  shrink *s = (shrink *)v->user;
  if (x->kind == TS_for_loop || x->kind == TS_while_loop) s->open.n--;
}

static bool choose(cand *c) {
  if (c->bad || !c->loop) return false;
  for (uint32_t k = 0; k < c->tensor->nidx; k++) {
    int64_t dim;
    bool larger = !anfi_t_const_i64(c->tensor->in[k], &dim) || dim > c->block[k];
    if (c->dim_bad[k] || !larger) continue;
    c->dim = k;
    return true;
  }
  return false;
}

static texpr rewrite(tvisitor *v, texpr e) {
  shrink *s = (shrink *)v->user;
  cand *c = e->kind == TX_indexing ? cand_of(s, e->in[0]) : NULL;
  if (!c || !c->now) return e;
  int64_t coef;
  texpr rest, *in = ANFI_NEW_N(v->scratch, texpr, e->n);
  memcpy(in, e->in, e->n * sizeof *in);
  in[0] = c->now;
  anfi_t_affine(v->t, e->in[1 + c->dim], c->loop->e[0], &coef, &rest);
  in[1 + c->dim] = rest ? rest : anfi_t_int(v->t, e->in[1 + c->dim]->dtype, 0);
  return anfi_t_remake(v->t, e, in);
}

static tstmt move(tvisitor *v, tstmt x) {
  shrink *s = (shrink *)v->user;
  cand *c = x->kind == TS_define ? cand_of(s, x->e[0]) : NULL;
  if (c && c->now) return NULL;
  return x;
}

/* The definitions that move stand first in the loop's body. */
static tstmt into_loops(tvisitor *v, tstmt x) {
  shrink *s = (shrink *)v->user;
  if (x->kind != TS_for_loop) return x;
  ANFI_VEC(tstmt) body = {0};
  for (size_t i = 0; i < s->all.n; i++)
    if (s->all.at[i]->now && s->all.at[i]->loop == x)
      anfi_push(v->scratch, &body, anfi_t_define(v->t, TL_local, s->all.at[i]->now, NULL));
  if (!body.n) return x;
  for (uint32_t i = 0; i < x->s[0]->n; i++) anfi_push(v->scratch, &body, x->s[0]->s[i]);
  tstmt in = anfi_t_stmts(v->t, body.n, body.at);
  return anfi_t_remake_stmt(v->t, x, x->e, &in);
}

static tfunc once(tpass_cx *p, tfunc f) {
  shrink s = {.p = p};
  bool any = false;
  anfi_map_init(&s.cands, p->scratch);
  anfi_t_ranges_init(&s.ranges, p->scratch);
  anfi_t_alias_init(&s.alias, p->t, p->scratch, f);
  tviewer v = {.user = &s, .enter_expr = see_expr, .enter_stmt = see_stmt, .leave_stmt = left};
  anfi_t_view_stmt(&v, f->body);
  for (size_t i = 0; i < s.all.n; i++) {
    cand *c = s.all.at[i];
    if (!choose(c)) continue;
    texpr *dims = ANFI_NEW_N(p->scratch, texpr, c->tensor->nidx);
    memcpy(dims, c->tensor->in, c->tensor->nidx * sizeof *dims);
    dims[c->dim] = anfi_t_index(p->t, (uint64_t)c->block[c->dim]);
    c->now = anfi_t_remake(p->t, c->tensor, dims);
    any = true;
  }
  if (!any) return f;
  tvisitor in, out;
  anfi_t_visitor_init(&in, p->t, p->scratch,
                      &s); // definitions into loops while those are the old nodes
  in.enter = into_loops;
  f = anfi_t_visit_func(&in, f);
  anfi_t_visitor_init(&out, p->t, p->scratch, &s);
  out.expr = rewrite;
  out.stmt = move;
  return anfi_t_visit_func(&out, f);
}

tfunc anfi_t_pass_tensor_shrinker(tpass_cx *p, tfunc f) {
  f = anfi_t_settle_dims(p->t, p->scratch, f); // definitions move
  for (int round = 0; round < 4; round++) {    // each round goes one loop inwards
    tfunc r = once(p, f);
    if (r == f) break;
    f = r;
  }
  return f;
}
