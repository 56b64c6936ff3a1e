// SPDX-License-Identifier: Apache-2.0
/* loop_unroller: a loop marked unroll_loop=n becomes n copies of its body a turn, and a loop for
 * the rest; n = 0 leaves no loop. Loops in an unrolled body are unrolled first. */
#include "backend/tir/tir.h"

static tstmt unroll(tvisitor *v, tstmt s) {
  int64_t n;
  if (s->kind != TS_for_loop || s->sub || !anfi_t_attr(s->attrs, TA_unroll_loop, &n)) return s;
  tstmt bare = anfi_t_with_attrs(v->t, s, anfi_t_attr_del(v->t, s->attrs, TA_unroll_loop));
  tstmt r = anfi_t_loop_unroll(v->t, v->scratch, bare, n, NULL);
  return r ? r : s;
}

tfunc anfi_t_pass_loop_unroller(tpass_cx *p, tfunc f) {
  tvisitor v;
  anfi_t_visitor_init(&v, p->t, p->scratch, p);
  v.stmt = unroll;
  return anfi_t_visit_func(&v, f);
}
