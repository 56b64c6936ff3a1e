// SPDX-License-Identifier: Apache-2.0
/* pure_inference: marks the functions that touch no memory but their own and have no effect.
 *
 *   func half(x: f32): f32 { return x / 2.f }     →     func half(x: f32): f32 @[pure=2] ...
 *
 * Calls of them do not stop others from moving: value numbering computes equal ones once, loops compute what does not change
 * before (pure=2), writes that nothing reads go with them (pure=2). */
#include "backend/tir/tir.h"

static tfunc marked(tstore *t, tfunc f, tpure level) {
  int64_t now = 0;
  bool has = anfi_t_attr(f->attrs, TA_pure, &now);
  if (!f->body || level == PURE_NO || (has && now == (int64_t)level)) return f;
  struct anf_tir_func_node *r = ANFI_NEW(&t->arena, struct anf_tir_func_node);
  *r = *f;
  r->attrs = anfi_t_attr_set(t, f->attrs, TA_pure, level == PURE_TOTAL ? 2 : 1);
  return r;
}

const tmod *anfi_t_pass_pure_inference(tpass_cx *p, const tmod *m) {
  tpure *level = ANFI_NEW_N(p->scratch, tpure, m->func.n);
  bool changed = false;
  anfi_t_infer_pure(m, p->scratch, level);
  tmod *o = anfi_t_mod_like(m);
  for (size_t i = 0; i < m->func.n; i++) {
    tfunc f = marked(p->t, m->func.at[i], level[i]);
    changed |= f != m->func.at[i];
    anfi_t_mod_add(o, f);
  }
  if (changed) return o;
  anfi_t_mod_drop(o);
  return m;
}
