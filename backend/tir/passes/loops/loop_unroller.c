// SPDX-License-Identifier: Apache-2.0
/* loop_unroller: unrolls loops that are marked unroll_loop=n; n = 0 unrolls completely.
 *
 *   for i in (0, 10, 1) @[unroll_loop=4] { A[i] }   →   for i in (0, 8, 4) { A[i] A[i + 1] A[i + 2] A[i + 3] }
 *                                                       for i in (8, 10, 1) { A[i] }
 *
 * Inner loops are unrolled first. */
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
