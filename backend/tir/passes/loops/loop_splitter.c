// SPDX-License-Identifier: Apache-2.0
/* loop_splitter: index-set splitting: a branch on the loop variable becomes two loops.
 *
 *   for i in (0, 8, 1) { if (i < 3) A else B }   →   for i in (0, 3, 1) { A }
 *                                                    for i in (3, 8, 1) { B }
 *
 * One branch of a loop at a time; the halves are split again. */
#include "backend/tir/tir.h"

typedef struct cut {
  uint32_t at;     // of the branch in the body
  int64_t bound;   // i < bound
  bool then_first; // the branch is taken below the bound
} cut;

static bool cut_of(tstmt branch, texpr i, cut *c) {
  texpr e = branch->e[0];
  int64_t k;
  if (anfi_t_group(e) != TG_CMP || e->in[0] != i || !anfi_t_const_i64(e->in[1], &k) ||
      k > INT32_MAX || k < INT32_MIN)
    return false;
  bool above = e->kind == TX_cmp_gt || e->kind == TX_cmp_ge;
  if (!above && e->kind != TX_cmp_lt && e->kind != TX_cmp_le) return false;
  c->bound = k + (e->kind == TX_cmp_le || e->kind == TX_cmp_gt);
  c->then_first = !above;
  return true;
}

static tstmt side(tvisitor *v, tstmt branch, bool then_) {
  return then_ ? branch->s[0] : branch->s[1] ? branch->s[1] : anfi_t_stmts(v->t, 0, NULL);
}

static tstmt body_with(tvisitor *v, tstmt body, const cut *c, bool below) {
  tstmt *s = ANFI_NEW_N(v->scratch, tstmt, body->n);
  memcpy(s, body->s, body->n * sizeof *s);
  s[c->at] = side(v, s[c->at], below == c->then_first);
  return anfi_t_stmts(v->t, body->n, s);
}

static tstmt half(tvisitor *v, tstmt loop, int64_t b, int64_t e, tstmt body) {
  texpr i = loop->e[0];
  const texpr x[4] = {i, anfi_t_int(v->t, i->dtype, b), anfi_t_int(v->t, i->dtype, e), loop->e[3]};
  return anfi_t_remake_stmt(v->t, loop, x, &body);
}

static tstmt split(tvisitor *v, tstmt s, int depth) {
  int64_t b, e, step;
  if (s->kind != TS_for_loop || s->sub || depth > 3 || !anfi_t_loop_bounds(s, &b, &e, &step) ||
      b >= e)
    return s;
  for (cut c = {0}; c.at < s->s[0]->n; c.at++) {
    if (s->s[0]->s[c.at]->kind != TS_if_else || !cut_of(s->s[0]->s[c.at], s->e[0], &c)) continue;
    int64_t p = c.bound <= b ? b : b + (int64_t)anfi_t_trip(b, c.bound, step) * step;
    if (p <= b) return split(v, half(v, s, b, e, body_with(v, s->s[0], &c, false)), depth + 1);
    if (p >= e) return split(v, half(v, s, b, e, body_with(v, s->s[0], &c, true)), depth + 1);
    tstmt second = anfi_t_copy_stmt(v->t, v->scratch,
                                    half(v, s, p, e, body_with(v, s->s[0], &c, false)), NULL, NULL);
    tstmt both[] = {split(v, half(v, s, b, p, body_with(v, s->s[0], &c, true)), depth + 1),
                    split(v, second, depth + 1)};
    return anfi_t_splice(v->t, 2, both);
  }
  return s;
}

static tstmt leave(tvisitor *v, tstmt s) { return s->size < 10000 ? split(v, s, 0) : s; }

tfunc anfi_t_pass_loop_splitter(tpass_cx *p, tfunc f) {
  tvisitor v;
  anfi_t_visitor_init(&v, p->t, p->scratch, p);
  v.stmt = leave;
  return anfi_t_visit_func(&v, f);
}
