// SPDX-License-Identifier: Apache-2.0
/* parallel_merge: neighbouring parallel loops that touch nothing of each other become one loop over
 * the iterations of both, which saves the barrier between them. */
#include "backend/tir/tir.h"

enum { LARGEST = 4096 }; // size of a body that may be wrapped again and again

static bool independent(tvisitor *v, tstmt x, tstmt y) {
  const talias *a = (const talias *)v->user;
  teffects ex, ey;
  anfi_t_effects_init(&ex, v->scratch);
  anfi_t_effects_init(&ey, v->scratch);
  anfi_t_effects_stmt(&ex, a, x->s[0]);
  anfi_t_effects_stmt(&ey, a, y->s[0]);
  return !anfi_t_conflict(&ex, &ey, a);
}

static tstmt sequence(tvisitor *v, tstmt s) {
  ANFI_VEC(tstmt) out = {0};
  if (s->kind != TS_stmts) return s;
  for (uint32_t i = 0; i < s->n; i++) {
    tstmt x = out.n ? out.at[out.n - 1] : NULL, y = s->s[i], both = NULL;
    bool pair = x && x->kind == TS_for_loop && x->sub && y->kind == TS_for_loop && y->sub &&
                x->size < LARGEST && y->size < LARGEST;
    if (pair && independent(v, x, y))
      both = anfi_t_loop_parallel_merge(v->t, v->scratch, x, y, NULL);
    if (both) out.at[out.n - 1] = both;
    else anfi_push(v->scratch, &out, y);
  }
  return out.n == s->n ? s : anfi_t_stmts(v->t, out.n, out.at);
}

tfunc anfi_t_pass_parallel_merge(tpass_cx *p, tfunc f) {
  talias a;
  anfi_t_alias_init(&a, p->t, p->scratch, f);
  tvisitor v;
  anfi_t_visitor_init(&v, p->t, p->scratch, &a);
  v.stmt = sequence;
  return anfi_t_visit_func(&v, f);
}
