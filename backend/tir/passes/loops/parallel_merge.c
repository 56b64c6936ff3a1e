// SPDX-License-Identifier: Apache-2.0
/* parallel_merge: merges neighbouring parallel loops that are independent, which saves the barrier between them.
 *
 *   for i in (0, 8, 1) parallel { A[i] }     →     for m in (0, 12, 1) parallel {
 *   for i in (0, 4, 1) parallel { B[i] }             if (m < 8) A[m] else B[m - 8]
 *                                                  }
 *
 * Independent: neither loop writes memory that the other accesses. */
#include "backend/tir/tir.h"

static bool independent(const talias *a, anfi_arena *scratch, tstmt x, tstmt y) {
  teffects ex, ey;
  anfi_t_effects_init(&ex, scratch);
  anfi_t_effects_init(&ey, scratch);
  anfi_t_effects_stmt(&ex, a, x->s[0]);
  anfi_t_effects_stmt(&ey, a, y->s[0]);
  return !anfi_t_conflict(&ex, &ey, a);
}

static bool parallel(tstmt s) { return s->kind == TS_for_loop && s->sub; }

static tstmt merge(tvisitor *v, const talias *a, tstmt x, tstmt y) {
  bool legal = parallel(x) && parallel(y) && independent(a, v->scratch, x, y);
  return legal ? anfi_t_loop_parallel_merge(v->t, v->scratch, x, y, NULL) : NULL;
}

tfunc anfi_t_pass_parallel_merge(tpass_cx *p, tfunc f) {
  return anfi_t_merge_neighbours(p, f, merge);
}
