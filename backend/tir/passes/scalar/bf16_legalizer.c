// SPDX-License-Identifier: Apache-2.0
/* bf16_legalizer: arithmetic on bf16 and f16 becomes arithmetic on f32 between casts.
 *
 *   a * b + a       →     bf16(f32(bf16(f32(a) * f32(b))) + f32(a))
 *
 * Each operation rounds on its own: that is the meaning of the operation, so no result changes. */
#include "backend/tir/tir.h"

static texpr legal(tvisitor *v, texpr e) {
  if (!anfi_t_computes_in_half(e)) return e;
  texpr in[3];
  for (uint32_t i = 0; i < e->n; i++)
    in[i] = anfi_t_cast(v->t, anfi_t_with(e->in[i]->dtype, ANF_TIR_f32), e->in[i]);
  texpr r = anfi_t_remake(v->t, e, in);
  return anfi_t_is_half(e->dtype) ? anfi_t_cast(v->t, e->dtype, r) : r;
}

tfunc anfi_t_pass_bf16_legalizer(tpass_cx *p, tfunc f) {
  tvisitor v;
  anfi_t_visitor_init(&v, p->t, p->scratch, p);
  v.expr = legal;
  return anfi_t_visit_func(&v, f);
}
