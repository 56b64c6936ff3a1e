// SPDX-License-Identifier: Apache-2.0
/* Loop transforms: split, fuse (collapse), reorder, merge, unroll, parallel merge.
 *
 *   split 4:    for i in (0, 10, 1) { A }  →  for o in (0, 10, 4) { for i in (o, min(o + 4, 10), 1) { A } }
 *   fuse:       for i in (0, 3, 1) { for j in (0, 4, 1) { A } }  →  for k in (0, 12, 1) { A }
 *
 * The caller must know that the order of iterations may change. The map records which new node each old one
 * became. */
#include "backend/tir/tir.h"

bool anfi_t_loop_bounds(tstmt loop, int64_t *b, int64_t *e, int64_t *step) {
  return loop->kind == TS_for_loop && anfi_t_const_i64(loop->e[1], b) &&
         anfi_t_const_i64(loop->e[2], e) && anfi_t_const_i64(loop->e[3], step) && *step > 0 &&
         *b > INT32_MIN && *e < INT64_C(1) << 40 && *step < INT32_MAX;
}
uint64_t anfi_t_trip(int64_t b, int64_t e, int64_t step) {
  return b < e ? ((uint64_t)(e - b) - 1) / (uint64_t)step + 1 : 0;
}

/* ---- old → new ---- */

static void record(tloop_map *m, const void *old, const void *now) {
  if (m && old != now) *anfi_map_at(&m->map, anfi_key(old)) = anfi_key(now);
}
static void tell_expr(tloop_map *m, texpr old, texpr now) {
  if (!m || old == now || !old || !now) return;
  record(m, old, now);
  if (old->kind != now->kind || old->n != now->n) return;
  for (uint32_t i = 0; i < old->n; i++) tell_expr(m, old->in[i], now->in[i]);
}
static void tell_stmt(tloop_map *m, tstmt old, tstmt now) {
  if (!m || old == now || !old || !now) return;
  record(m, old, now);
  if (old->kind != now->kind || old->n != now->n) return;
  for (int i = 0; i < 4; i++) tell_expr(m, old->e[i], now->e[i]);
  for (uint32_t i = 0; i < old->n; i++) tell_stmt(m, old->s[i], now->s[i]);
}

static texpr called_in_parallel(const tmod *m, tstmt s) {
  texpr e = s->kind == TS_evaluate || s->kind == TS_returns ? s->e[0] : NULL;
  tfunc f = anfi_t_isa(e, TX_call) && e->u.name ? anfi_t_mod_find(m, e->u.name) : NULL;
  uint32_t n = 0;
  if (f) anfi_t_triples(e, &n);
  return n && f->n == e->nidx + n ? e : NULL;
}

/* An argument that may stand in a loop's body as it is. */
static bool repeatable(texpr e) {
  return e->kind == TX_constant || e->kind == TX_var || e->kind == TX_tensor ||
         e->kind == TX_func_addr || (e->kind == TX_tensorptr && anfi_t_pure(e));
}

tstmt anfi_t_call_loops(tstore *t, anfi_arena *s, const tmod *m, tstmt x) {
  texpr call = called_in_parallel(m, x);
  if (!call) return x;
  tfunc f = anfi_t_mod_find(m, call->u.name);
  uint32_t n;
  const texpr *tri = anfi_t_triples(call, &n);
  texpr *in = ANFI_NEW_N(s, texpr, f->n), *i = ANFI_NEW_N(s, texpr, n);
  ANFI_VEC(tstmt) out = {0};
  for (uint32_t k = 0; k < call->nidx; k++) {
    texpr arg = in[n + k] = call->in[k];
    if (repeatable(arg)) continue;
    in[n + k] = anfi_t_var(t, arg->dtype, "arg"); // computed once
    anfi_push(s, &out, anfi_t_define(t, TL_local, in[n + k], arg));
  }
  for (uint32_t k = 0; k < n; k++) {
    i[k] = anfi_t_var(t, tri[3 * k]->dtype, "i");
    in[k] = anfi_t_cast(t, f->param[k]->dtype, i[k]);
  }
  tstmt body = anfi_t_eval(t, anfi_t_call(t, f->name, f->ret, f->n, in));
  for (uint32_t k = n; k-- > 0;)
    body = anfi_t_for(t, i[k], tri[3 * k], anfi_t_cast(t, i[k]->dtype, tri[3 * k + 1]),
                      anfi_t_cast(t, i[k]->dtype, tri[3 * k + 2]), body, true, 0);
  anfi_push(s, &out, body);
  if (x->kind == TS_returns) anfi_push(s, &out, anfi_t_return(t, NULL));
  return anfi_t_splice(t, out.n, out.at);
}

tstmt anfi_t_map_stmt(const tloop_map *m, tstmt old) {
  uint64_t *at = anfi_map_find(&m->map, anfi_key(old));
  return at ? (tstmt)(uintptr_t)*at : NULL;
}

static texpr num(tstore *t, texpr like, int64_t v) { return anfi_t_int(t, like->dtype, v); }

static tstmt body_with(tstore *t, anfi_arena *s, tstmt loop, texpr value, tloop_map *map) {
  tstmt body = anfi_t_subst_stmt(t, s, loop->s[0], loop->e[0], value);
  tell_stmt(map, loop->s[0], body);
  return body;
}

static tstmt like(tstore *t, tstmt loop, texpr var, texpr b, texpr e, texpr step, tstmt body) {
  return anfi_t_remake_stmt(t, loop, (const texpr[]){var, b, e, step}, (const tstmt[]){body});
}

/* ---- transforms ---- */

tstmt anfi_t_loop_split(tstore *t, anfi_arena *s, tstmt loop, int64_t block, tloop_map *map) {
  int64_t b, e, step;
  (void)s;
  if (loop->kind != TS_for_loop || block < 1 || !anfi_t_const_i64(loop->e[3], &step) || step < 1)
    return NULL;
  if (block > INT32_MAX / step || anfi_t_bytes(loop->e[0]->dtype) < 4) return NULL;
  texpr i = loop->e[0], wide = num(t, i, step * block);
  texpr out = anfi_t_var(t, i->dtype, anfi_sprintf(&t->arena, "%s_o", i->u.name->s));
  texpr end = anfi_t_add(t, out, wide), last = anfi_t_cast(t, i->dtype, loop->e[2]);
  bool whole =
      anfi_t_loop_bounds(loop, &b, &e, &step) && anfi_t_trip(b, e, step) % (uint64_t)block == 0;
  if (!whole) // not min(i_o + wide, end): the sum may wrap
    end = anfi_t_add(t, out, anfi_t_intrin2(t, TI_min, anfi_t_sub(t, last, out), wide));
  tstmt inner = anfi_t_for(t, i, out, end, loop->e[3], loop->s[0], false, 0);
  record(map, loop, inner);
  return like(t, loop, out, loop->e[1], loop->e[2], wide, anfi_t_stmts(t, 1, &inner));
}

static tstmt only_loop(tstmt loop) {
  tstmt body = loop->s[0];
  return body->n == 1 && body->s[0]->kind == TS_for_loop ? body->s[0] : NULL;
}

/* b + k * step, with k already of the type */
static texpr counted(tstore *t, texpr k, int64_t b, int64_t step) {
  if (step != 1) k = anfi_t_mul(t, k, num(t, k, step));
  return b ? anfi_t_add(t, k, num(t, k, b)) : k;
}

tstmt anfi_t_loop_fuse(tstore *t, anfi_arena *s, tstmt loop, tloop_map *map) {
  int64_t b1, e1, s1, b2, e2, s2;
  tstmt inner = loop->kind == TS_for_loop ? only_loop(loop) : NULL;
  if (!inner || !anfi_t_loop_bounds(loop, &b1, &e1, &s1) ||
      !anfi_t_loop_bounds(inner, &b2, &e2, &s2))
    return NULL;
  texpr i = loop->e[0], j = inner->e[0];
  uint64_t n1 = anfi_t_trip(b1, e1, s1), n2 = anfi_t_trip(b2, e2, s2);
  if (!anfi_t_same(i->dtype, j->dtype) || !n2 || n1 > INT32_MAX / n2 || anfi_t_bytes(i->dtype) < 4)
    return NULL;
  texpr k = anfi_t_var(t, i->dtype, anfi_sprintf(&t->arena, "%s_%s", i->u.name->s, j->u.name->s));
  texpr n = num(t, i, (int64_t)n2);
  tvisitor v;
  anfi_t_visitor_init(&v, t, s, NULL);
  anfi_t_map_var(&v, i, counted(t, anfi_t_bin(t, TX_div, k, n), b1, s1));
  anfi_t_map_var(&v, j, counted(t, anfi_t_bin(t, TX_mod, k, n), b2, s2));
  tstmt body = anfi_t_visit_stmt(&v, inner->s[0]);
  tell_stmt(map, inner->s[0], body);
  tstmt r = anfi_t_for(t, k, num(t, i, 0), num(t, i, (int64_t)(n1 * n2)), num(t, i, 1), body,
                       loop->sub && inner->sub, loop->threads);
  record(map, loop, r);
  record(map, inner, r);
  return r;
}

tstmt anfi_t_loop_reorder(tstore *t, anfi_arena *s, tstmt loop, uint32_t n, const uint32_t *order,
                          tloop_map *map) {
  tstmt *nest = ANFI_NEW_N(s, tstmt, n);
  bool *used = ANFI_NEW_N(s, bool, n);
  for (uint32_t k = 0; k < n; k++, loop = only_loop(loop)) {
    if (!loop || loop->kind != TS_for_loop || order[k] >= n || used[order[k]]) return NULL;
    used[order[k]] = true;
    nest[k] = loop;
    for (uint32_t o = 0; o < k; o++) // bounds must not depend on each other
      for (int x = 1; x < 4; x++)
        if (anfi_t_uses(loop->e[x], nest[o]->e[0])) return NULL;
    if (k + 1 == n) break;
  }
  tstmt body = nest[n - 1]->s[0];
  for (uint32_t k = n; k-- > 0;) {
    tstmt old = nest[order[k]];
    body = anfi_t_body(t, body);
    body = like(t, old, old->e[0], old->e[1], old->e[2], old->e[3], body);
    record(map, old, body);
  }
  return body;
}

tstmt anfi_t_loop_merge(tstore *t, anfi_arena *s, tstmt a, tstmt b, tloop_map *map) {
  if (a->kind != TS_for_loop || b->kind != TS_for_loop || a->sub != b->sub) return NULL;
  if (!anfi_t_same(a->e[0]->dtype, b->e[0]->dtype)) return NULL;
  for (int i = 1; i < 4; i++)
    if (!anfi_t_identical(a->e[i], b->e[i])) return NULL;
  tstmt second = body_with(t, s, b, a->e[0], map);
  tstmt parts[] = {anfi_t_splice(t, a->s[0]->n, a->s[0]->s),
                   anfi_t_splice(t, second->n, second->s)};
  tstmt r = like(t, a, a->e[0], a->e[1], a->e[2], a->e[3], anfi_t_stmts(t, 2, parts));
  record(map, a, r);
  record(map, b, r);
  record(map, a->s[0], r->s[0]);
  record(map, b->s[0], r->s[0]);
  return r;
}

static tstmt unroll_whole(tstore *t, anfi_arena *s, tstmt loop, int64_t b, uint64_t n, int64_t step,
                          tloop_map *map) {
  tstmt *out = ANFI_NEW_N(s, tstmt, n);
  for (uint64_t k = 0; k < n; k++) {
    out[k] =
        anfi_t_copy_stmt(t, s, loop->s[0], loop->e[0], num(t, loop->e[0], b + (int64_t)k * step));
    if (!k) tell_stmt(map, loop->s[0], out[k]);
  }
  return anfi_t_splice(t, n, out);
}

tstmt anfi_t_loop_unroll(tstore *t, anfi_arena *s, tstmt loop, int64_t factor, tloop_map *map) {
  enum { MOST = 1024 };
  int64_t b, e, step;
  if (!anfi_t_loop_bounds(loop, &b, &e, &step) || factor < 0) return NULL;
  uint64_t n = anfi_t_trip(b, e, step), f = (uint64_t)factor;
  if ((f ? f : n) > MOST || loop->s[0]->size > (1u << 20) / ((f ? f : n) + 1)) return NULL;
  if (!f || f >= n) return unroll_whole(t, s, loop, b, n, step, map);
  if (f == 1) return loop;
  texpr i = loop->e[0], main_end = num(t, i, b + (int64_t)(n / f * f) * step);
  texpr iv = anfi_t_var(t, i->dtype, i->u.name->s);
  tstmt *copies = ANFI_NEW_N(s, tstmt, f), both[2];
  for (uint64_t k = 0; k < f; k++) {
    texpr at = k ? anfi_t_add(t, iv, num(t, i, (int64_t)k * step)) : iv;
    copies[k] = anfi_t_copy_stmt(t, s, loop->s[0], i, at);
    if (!k) tell_stmt(map, loop->s[0], copies[k]);
  }
  both[0] =
      like(t, loop, iv, loop->e[1], main_end, num(t, i, step * factor), anfi_t_stmts(t, f, copies));
  record(map, loop, both[0]);
  if (n % f == 0) return both[0];
  both[1] = like(t, loop, i, main_end, loop->e[2], loop->e[3], loop->s[0]);
  return anfi_t_splice(t, 2, both);
}

tstmt anfi_t_loop_parallel_merge(tstore *t, anfi_arena *s, tstmt a, tstmt b, tloop_map *map) {
  int64_t b1, e1, s1, b2, e2, s2;
  if (!anfi_t_loop_bounds(a, &b1, &e1, &s1) || !anfi_t_loop_bounds(b, &b2, &e2, &s2) || !a->sub ||
      !b->sub)
    return NULL;
  if (!anfi_t_same(a->e[0]->dtype, b->e[0]->dtype) || anfi_t_bytes(a->e[0]->dtype) < 4) return NULL;
  int64_t n1 = (int64_t)anfi_t_trip(b1, e1, s1), n2 = (int64_t)anfi_t_trip(b2, e2, s2);
  if (!n1 || !n2) return NULL; // an access in what never runs may be out of bounds
  if (n1 > INT32_MAX / 2 || n2 > INT32_MAX / 2) return NULL;
  texpr i = a->e[0], k = anfi_t_var(t, i->dtype, anfi_sprintf(&t->arena, "%s_m", i->u.name->s));
  tstmt then_ = body_with(t, s, a, counted(t, k, b1, s1), map);
  tstmt else_ = body_with(t, s, b, counted(t, anfi_t_sub(t, k, num(t, i, n1)), b2, s2), map);
  tstmt both = anfi_t_if(t, anfi_t_lt(t, k, num(t, i, n1)), then_, else_);
  tstmt r = anfi_t_for(t, k, num(t, i, 0), num(t, i, n1 + n2), num(t, i, 1),
                       anfi_t_stmts(t, 1, &both), true, a->threads);
  record(map, a, r);
  record(map, b, r);
  return r;
}

/* ---- neighbours ---- */

enum { LARGEST = 4096 }; // nodes of a statement that grows by one neighbour after the other

typedef struct merger {
  talias alias;
  tmerge *merge;
} merger;

static tstmt sequence(tvisitor *v, tstmt s) {
  const merger *m = (const merger *)v->user;
  ANFI_VEC(tstmt) out = {0};
  if (s->kind != TS_stmts) return s;
  for (uint32_t i = 0; i < s->n; i++) {
    tstmt x = out.n ? out.at[out.n - 1] : NULL, y = s->s[i], both = NULL;
    if (x && x->size < LARGEST && y->size < LARGEST) both = m->merge(v, &m->alias, x, y);
    if (both) out.at[out.n - 1] = both;
    else anfi_push(v->scratch, &out, y);
  }
  return out.n == s->n ? s : anfi_t_stmts(v->t, out.n, out.at);
}

tfunc anfi_t_merge_neighbours(tpass_cx *p, tfunc f, tmerge *merge) {
  merger m = {.merge = merge};
  tvisitor v;
  anfi_t_alias_init(&m.alias, p->t, p->scratch, f);
  anfi_t_visitor_init(&v, p->t, p->scratch, &m);
  v.stmt = sequence;
  return anfi_t_visit_func(&v, f);
}
