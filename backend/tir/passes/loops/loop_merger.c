// SPDX-License-Identifier: Apache-2.0
/* loop_merger: loop fusion of neighbours that are marked merge_loop and have equal bounds.
 *
 *   for i in (0, 8, 1) { B[i] = A[i] + 1 }     →     for i in (0, 8, 1) { B[i] = A[i] + 1
 *   for j in (0, 8, 1) { C[j] = B[j] * 2 }                                C[i] = B[i] * 2 }
 *
 * Legal if no variable or tensor is written by one loop and accessed by the other, unless every access of that
 * tensor has the loop variable alone as one and the same index: then no dependence crosses iterations. */
#include "backend/tir/tir.h"

typedef struct slices {
  texpr var, root;
  uint32_t possible; // dims at which all accesses so far stand at the variable
  bool aliased;
  const talias *a;
} slices;

static bool see(tviewer *v, texpr e) {
  slices *s = (slices *)v->user;
  if (e->kind == TX_tensorptr && anfi_t_root(s->a, e->in[0]) == s->root) s->aliased = true;
  if (e->kind != TX_indexing || anfi_t_root(s->a, e->in[0]) != s->root) return true;
  if (e->in[0] != s->root) s->aliased = true; // a view has dims of its own
  for (uint32_t k = 0; k < 32; k++) {
    texpr at = k < e->nidx ? e->in[1 + k] : NULL;
    while (at && at->kind == TX_cast) at = at->in[0];
    uint32_t extent = k + 1 == e->nidx ? e->dtype.lanes : e->dtype.rows ? 2 : 1;
    if (at != s->var || extent > 1) s->possible &= ~(UINT32_C(1) << k);
  }
  return true;
}

static uint32_t own_dims(const talias *a, tstmt loop, texpr root) {
  slices s = {loop->e[0], root, UINT32_MAX, false, a};
  tviewer v = {.user = &s, .enter_expr = see};
  anfi_t_view_stmt(&v, loop->s[0]);
  return s.aliased ? 0 : s.possible;
}

static bool independent(const talias *a, anfi_arena *scratch, tstmt x, tstmt y) {
  teffects ex, ey, bounds;
  anfi_t_effects_init(&ex, scratch);
  anfi_t_effects_init(&ey, scratch);
  anfi_t_effects_init(&bounds, scratch); // of the second: read before the first runs, once merged
  for (int i = 1; i < 4; i++) anfi_t_effects_expr(&bounds, a, y->e[i]);
  anfi_t_effects_stmt(&ex, a, x->s[0]);
  anfi_t_effects_stmt(&ey, a, y->s[0]);
  if (ex.returns || ey.returns || ex.effect || ey.effect || ex.writes_unknown ||
      ey.writes_unknown || ex.reads_unknown || ey.reads_unknown)
    return false;
  if (anfi_t_conflict(&ex, &bounds, a)) return false;
  for (size_t i = 0; i < ex.all.n; i++) {
    texpr r = ex.all.at[i];
    bool wx = anfi_t_writes(&ex, a, r), wy = anfi_t_writes(&ey, a, r);
    if (!(wx && (wy || anfi_t_reads(&ey, a, r))) && !(wy && anfi_t_reads(&ex, a, r))) continue;
    if (r->kind != TX_tensor || !(own_dims(a, x, r) & own_dims(a, y, r))) return false;
  }
  return true;
}

static bool marked(tstmt s) {
  return s->kind == TS_for_loop && anfi_t_attr(s->attrs, TA_merge_loop, NULL);
}

static tstmt merge(tvisitor *v, const talias *a, tstmt x, tstmt y) {
  bool legal = marked(x) && marked(y) && independent(a, v->scratch, x, y);
  return legal ? anfi_t_loop_merge(v->t, v->scratch, x, y, NULL) : NULL;
}

tfunc anfi_t_pass_loop_merger(tpass_cx *p, tfunc f) { return anfi_t_merge_neighbours(p, f, merge); }
