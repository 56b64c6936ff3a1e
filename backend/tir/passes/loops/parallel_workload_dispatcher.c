// SPDX-License-Identifier: Apache-2.0
/* parallel_workload_dispatcher: chooses the number of threads of a parallel loop from its cost.
 *
 *   for i in (0, 100, 1) parallel @[workload=1000]   →   parallel (2)
 *   for i in (0, 100, 1) parallel @[workload=10]     →   a sequential loop
 *
 * The workload is the cost of one iteration; a thread pays off from 37440 units on, a constant
 * that a peer measured. The count is a hint: only the run knows how many threads there are. */
#include "backend/tir/tir.h"

enum { UNITS_A_THREAD = 37440 };

static tstmt dispatch(tvisitor *v, tstmt s) {
  tpass_cx *p = (tpass_cx *)v->user;
  int64_t b, e, step, cost;
  if (s->kind != TS_for_loop || !s->sub) return s;
  bool serial = anfi_t_attr(s->attrs, TA_no_parallel, NULL) || p->opts->max_threads == 1;
  uint64_t threads = 0;
  if (!serial && anfi_t_attr(s->attrs, TA_workload, &cost) &&
      anfi_t_loop_bounds(s, &b, &e, &step)) {
    uint64_t n = anfi_t_trip(b, e, step);
    uint64_t units = cost > 0 && n > UINT64_MAX / (uint64_t)cost
                         ? UINT64_MAX
                         : n * (uint64_t)(cost > 0 ? cost : 0);
    threads = units / UNITS_A_THREAD;
    if (threads > p->opts->max_threads) threads = p->opts->max_threads;
    if (threads > n) threads = n;
    serial = threads < 2;
  }
  if (!serial && !threads) return s;
  tattrs a = anfi_t_attr_del(v->t, anfi_t_attr_del(v->t, s->attrs, TA_workload), TA_no_parallel);
  tstmt r = anfi_t_for(v->t, s->e[0], s->e[1], s->e[2], s->e[3], s->s[0], !serial,
                       serial ? 0 : (uint32_t)threads);
  return anfi_t_with_comment(v->t, anfi_t_with_attrs(v->t, r, a), s->comment);
}

tfunc anfi_t_pass_parallel_workload_dispatcher(tpass_cx *p, tfunc f) {
  tvisitor v;
  anfi_t_visitor_init(&v, p->t, p->scratch, p);
  v.stmt = dispatch;
  return anfi_t_visit_func(&v, f);
}
