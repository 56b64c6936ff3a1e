// SPDX-License-Identifier: Apache-2.0
/* parallel_merge: merges parallel loops that are independent, which saves the barrier between them.
 *
 *   for i in (0, 8, 1) parallel { A[i] }     →     for m in (0, 12, 1) parallel {
 *   for i in (0, 4, 1) parallel { B[i] }             if (m < 8) A[m] else B[m - 8]
 *                                                  }
 *
 * Independent: neither loop writes memory that the other accesses. Loops of equal bounds get one body, so each thread
 * has the same share of both, whatever an iteration costs:
 *
 *   for i in (0, 8, 1) parallel { q = x @ wq }     →     for i in (0, 8, 1) parallel { q = x @ wq
 *   for i in (0, 8, 1) parallel { k = x @ wk }                                         k = x @ wk }
 *
 * Of products (brgemm), whose iterations are long, only such loops are merged; they also move up past statements that
 * they are independent of (horizontal_merge of oneDNN's graph compiler). */
#include "backend/tir/tir.h"

enum { LARGEST = 4096, WINDOW = 24 }; // nodes of a merged loop; statements that a loop moves past

typedef struct entry { // of the new list
  tstmt s;
  teffects *effects; // of a parallel loop's body, or of the statement; NULL: not known yet
} entry;

typedef struct merger {
  talias alias;
  anfi_arena *scratch;
} merger;

static bool parallel(tstmt s) { return s->kind == TS_for_loop && s->sub; }

static const teffects *effects_of(const merger *m, entry *e) {
  if (e->effects) return e->effects;
  e->effects = ANFI_NEW(m->scratch, teffects);
  anfi_t_effects_init(e->effects, m->scratch);
  anfi_t_effects_stmt(e->effects, &m->alias, parallel(e->s) ? e->s->s[0] : e->s);
  return e->effects;
}

static bool independent(const merger *m, entry *x, entry *y) {
  return !anfi_t_conflict(effects_of(m, x), effects_of(m, y), &m->alias);
}

/* May the define of a tensor stand earlier? That of a local tensor of known size without a value may, and that of a view of
 * such a tensor, or of one from outside, at constant indices. */
static bool is_room(const merger *m, tstmt s) {
  uint64_t n;
  int64_t k;
  texpr init = s->e[1];
  if (s->kind != TS_define || s->e[0]->kind != TX_tensor || !anfi_t_const_elems(s->e[0], &n))
    return false;
  if (!init) return true;
  if (init->kind != TX_tensorptr || anfi_t_root(&m->alias, init->in[0]) != init->in[0])
    return false;
  for (uint32_t i = 1; i < init->n; i++)
    if (!anfi_t_const_i64(init->in[i], &k)) return false;
  return anfi_t_const_elems(init->in[0], &n);
}

typedef struct search {
  texpr of;
  bool found;
} search;

static bool see_tensor(tviewer *v, texpr e) {
  search *s = (search *)v->user;
  s->found |= e == s->of;
  return true;
}

/* Effects tell of the tensor that a view is of, not of the view. */
static bool needs_define(tstmt define, tstmt loop) {
  search s = {.of = define->e[0]};
  tviewer v = {.user = &s, .enter_expr = see_tensor};
  if (define->kind == TS_define) anfi_t_view_stmt(&v, loop);
  return s.found;
}

static bool see_brgemm(tviewer *v, texpr e) {
  *(bool *)v->user |= anfi_t_is_brgemm(e);
  return true;
}

static bool has_products(tstmt loop) {
  bool any = false;
  tviewer v = {.user = &any, .enter_expr = see_brgemm};
  anfi_t_view_stmt(&v, loop);
  return any;
}

static bool same_iterations(tstmt x, tstmt y) {
  int64_t b, e, step;
  bool same = x->threads == y->threads && anfi_t_same(x->e[0]->dtype, y->e[0]->dtype);
  for (int i = 1; i < 4; i++) same &= anfi_t_identical(x->e[i], y->e[i]);
  return same && anfi_t_loop_bounds(x, &b, &e, &step) && anfi_t_trip(b, e, step) > 0;
}

/* The loop of the list that y may be merged into, or n. Past other statements only products move. */
static size_t partner(const merger *m, entry *list, size_t n, entry *y) {
  bool products = has_products(y->s);
  for (size_t i = n; i-- > 0 && n - i <= WINDOW;) {
    entry *x = &list[i];
    if (is_room(m, x->s)) continue;
    bool same = parallel(x->s) && same_iterations(x->s, y->s);
    if (!(parallel(x->s) || products) || needs_define(x->s, y->s) || !independent(m, x, y))
      return n;
    if (same || (parallel(x->s) && !products && !has_products(x->s))) return i;
    if (!products) return n;
  }
  return n;
}

static tstmt merged(tvisitor *v, tstmt x, tstmt y) {
  if (x->size >= LARGEST || y->size >= LARGEST) return NULL;
  return same_iterations(x, y) ? anfi_t_loop_merge(v->t, v->scratch, x, y, NULL)
                               : anfi_t_loop_parallel_merge(v->t, v->scratch, x, y, NULL);
}

/* Local tensors from `at` on go before it. */
static void raise_rooms(const merger *m, entry *list, size_t at, size_t n) {
  entry *others = ANFI_NEW_N(m->scratch, entry, n - at + 1);
  size_t rooms = at, other = 0;
  for (size_t i = at; i < n; i++)
    if (i > at && is_room(m, list[i].s)) list[rooms++] = list[i];
    else others[other++] = list[i];
  memcpy(list + rooms, others, other * sizeof *others);
}

static tstmt sequence(tvisitor *v, tstmt s) {
  merger *m = (merger *)v->user;
  ANFI_VEC(entry) out = {0};
  if (s->kind != TS_stmts) return s;
  for (uint32_t i = 0; i < s->n; i++) {
    entry y = {s->s[i], NULL};
    size_t at = parallel(y.s) ? partner(m, out.at, out.n, &y) : out.n;
    tstmt both = at < out.n ? merged(v, out.at[at].s, y.s) : NULL;
    if (!both) {
      anfi_push(v->scratch, &out, y);
      continue;
    }
    out.at[at] = (entry){both, NULL};
    raise_rooms(m, out.at, at, out.n);
  }
  if (out.n == s->n) return s;
  tstmt *all = ANFI_NEW_N(v->scratch, tstmt, out.n + 1);
  for (size_t i = 0; i < out.n; i++) all[i] = out.at[i].s;
  return anfi_t_stmts(v->t, out.n, all);
}

tfunc anfi_t_pass_parallel_merge(tpass_cx *p, tfunc f) {
  merger m = {.scratch = p->scratch};
  tvisitor v;
  anfi_t_alias_init(&m.alias, p->t, p->scratch, f);
  anfi_t_visitor_init(&v, p->t, p->scratch, &m);
  v.stmt = sequence;
  return anfi_t_visit_func(&v, f);
}
