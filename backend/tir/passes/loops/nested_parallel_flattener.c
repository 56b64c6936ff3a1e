// SPDX-License-Identifier: Apache-2.0
/* nested_parallel_flattener: collapses a perfect nest of parallel loops into one.
 *
 *   for i in (0, 3, 1) parallel {
 *     for j in (0, 4, 1) parallel { A[i, j] }     →     for k in (0, 12, 1) parallel { A[k / 4, k % 4] }
 *   }
 *
 * A parallel loop inside another that is not all of its body becomes sequential. Parallel calls become loops
 * first. */
#include "backend/tir/tir.h"

typedef struct user {
  uint32_t depth;
  const tmod *m;
} user;

static tstmt serial(tvisitor *v, tstmt s) {
  tstmt r = anfi_t_for(v->t, s->e[0], s->e[1], s->e[2], s->e[3], s->s[0], false, 0);
  return anfi_t_with_comment(v->t, anfi_t_with_attrs(v->t, r, s->attrs), s->comment);
}

static tstmt enter(tvisitor *v, tstmt s) {
  user *u = (user *)v->user;
  if (s->kind == TS_evaluate || s->kind == TS_returns)
    return anfi_t_call_loops(v->t, v->scratch, u->m, s);
  if (s->kind != TS_for_loop || !s->sub) return s;
  if (u->depth) return serial(v, s);
  for (;;) {
    tstmt inner = s->s[0]->n == 1 ? s->s[0]->s[0] : NULL;
    tstmt one = inner && inner->kind == TS_for_loop && inner->sub
                    ? anfi_t_loop_fuse(v->t, v->scratch, s, NULL)
                    : NULL;
    if (!one) break;
    s = one;
  }
  u->depth++;
  return s;
}
static tstmt leave(tvisitor *v, tstmt s) {
  if (s->kind == TS_for_loop && s->sub) ((user *)v->user)->depth--;
  return s;
}

tfunc anfi_t_pass_nested_parallel_flattener(tpass_cx *p, tfunc f) {
  user u = {.m = p->m};
  tvisitor v;
  anfi_t_visitor_init(&v, p->t, p->scratch, &u);
  v.enter = enter;
  v.stmt = leave;
  return anfi_t_visit_func(&v, f);
}
