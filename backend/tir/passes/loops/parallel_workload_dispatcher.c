// SPDX-License-Identifier: Apache-2.0
/* parallel_workload_dispatcher: chooses the number of threads of a parallel loop from its cost.
 *
 *   for i in (0, 100, 1) parallel @[workload=1000]   →   parallel (2)
 *   for i in (0, 100, 1) parallel @[workload=10]     →   a sequential loop
 *   for i in (0, 100, 1) parallel @[workload=9999]   →   parallel: on as many threads as there are
 *
 * The workload is the cost of one iteration; a thread pays off from 37440 units on, a constant
 * that a peer measured. The lowering gives it (backend/lower/cost.c). The count is a hint: only the run knows how many threads there are. */
#include "backend/tir/tir.h"

enum { UNITS_A_THREAD = 37440 };

typedef struct user {
  tpass_cx *p;
  uint32_t depth; // of parallel loops that are open
  bool cheap;     // the outermost of them runs in order, and with it those inside
} user;

/* 0: as many as there are; 1: in order. */
static uint32_t threads_for(const tpass_cx *p, tstmt s, int64_t cost) {
  int64_t b, e, step;
  if (!anfi_t_loop_bounds(s, &b, &e, &step)) return 0;
  uint64_t n = anfi_t_trip(b, e, step);
  double units = (double)n * (double)(cost > 0 ? cost : 0);
  uint64_t most = p->opts->max_threads < n ? p->opts->max_threads : n;
  if (most > 1 && units >= (double)UNITS_A_THREAD * (double)most) return 0;
  uint32_t threads = (uint32_t)(units / (double)UNITS_A_THREAD);
  return threads < 2 ? 1 : threads;
}

static bool in_order(const user *u, tstmt s) {
  return anfi_t_attr(s->attrs, TA_no_parallel, NULL) || u->p->opts->max_threads == 1;
}

static uint32_t decide(const user *u, tstmt s) {
  int64_t cost;
  if (in_order(u, s)) return 1;
  return anfi_t_attr(s->attrs, TA_workload, &cost) ? threads_for(u->p, s, cost) : s->threads;
}

static tstmt enter(tvisitor *v, tstmt s) {
  user *u = (user *)v->user;
  if (s->kind == TS_for_loop && s->sub && !u->depth++)
    u->cheap = !in_order(u, s) && decide(u, s) == 1;
  return s;
}

/* Of loops inside another only the other's cost counts: nested_parallel_flattener makes them one. */
static tstmt dispatch(tvisitor *v, tstmt s) {
  user *u = (user *)v->user;
  if (s->kind != TS_for_loop || !s->sub) return s;
  bool inside = --u->depth > 0, serial = inside ? u->cheap || in_order(u, s) : decide(u, s) == 1;
  if (!serial && !anfi_t_attr(s->attrs, TA_workload, NULL)) return s;
  uint32_t threads = serial ? 0 : inside ? s->threads : decide(u, s);
  tattrs a = anfi_t_attr_del(v->t, anfi_t_attr_del(v->t, s->attrs, TA_workload), TA_no_parallel);
  tstmt r = anfi_t_for(v->t, s->e[0], s->e[1], s->e[2], s->e[3], s->s[0], !serial, threads);
  return anfi_t_with_comment(v->t, anfi_t_with_attrs(v->t, r, a), s->comment);
}

tfunc anfi_t_pass_parallel_workload_dispatcher(tpass_cx *p, tfunc f) {
  user u = {.p = p};
  tvisitor v;
  anfi_t_visitor_init(&v, p->t, p->scratch, &u);
  v.enter = enter;
  v.stmt = dispatch;
  return anfi_t_visit_func(&v, f);
}
