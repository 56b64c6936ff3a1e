// SPDX-License-Identifier: Apache-2.0
/* Operands of brgemm and list_brgemm by name (base/brgemm.def).
 *   anfi_t_brgemm_in(e, BRGEMM_LDA)   ->   the expression of LDA          (e, BRGEMM_bias), left out   ->   NULL
 * Calls leave out trailing operands; brgemm has no `len`. */
#include "backend/tir/tir.h"

const anfi_brgemm_kind anfi_t_brgemm_kinds[BRGEMM_COUNT] = {
#define ANF_BRGEMM(name, kind) BRGEMM_IS_##kind,
#include "base/brgemm.def"
#undef ANF_BRGEMM
};

bool anfi_t_is_brgemm(texpr e) {
  return e->kind == TX_intrin_call && (e->sub == TI_brgemm || e->sub == TI_list_brgemm);
}

uint32_t anfi_t_brgemm_at(texpr e, uint32_t operand) {
  bool list = e->sub == TI_list_brgemm;
  if (operand == BRGEMM_len && !list) return UINT32_MAX;
  return operand - (operand > BRGEMM_len && !list);
}

texpr anfi_t_brgemm_in(texpr e, uint32_t operand) {
  uint32_t at = anfi_t_brgemm_at(e, operand);
  return at < e->n && !anfi_t_is_void(e->in[at]->dtype) ? e->in[at] : NULL;
}

void anfi_t_brgemm_types(texpr e, anf_tir_elem type[3]) {
  for (uint32_t i = 0; i < 3; i++)
    type[i] = (anf_tir_elem)e->in[e->sub == TI_list_brgemm ? 2 : i]->dtype.elem;
}

texpr anfi_t_brgemm(tstore *t, const texpr *operand, tattrs a) {
  texpr in[BRGEMM_COUNT];
  bool list = operand[BRGEMM_len] != NULL;
  uint32_t n = 0;
  for (uint32_t i = 0; i < BRGEMM_COUNT; i++)
    if (i != BRGEMM_len || list) in[n++] = operand[i] ? operand[i] : anfi_t_none(t);
  return anfi_t_intrin(t, list ? TI_list_brgemm : TI_brgemm, anfi_t_dt(ANF_TIR_void), n, in, a);
}

int64_t anfi_t_brgemm_flags(tattrs a) {
  int64_t v = 0, f = 0;
  if (anfi_t_attr(a, TA_init, &v) && v) f |= GEMM_INIT;
  if (anfi_t_attr(a, TA_post_bias, &v)) f |= v == 2 ? GEMM_BIAS | GEMM_BIAS_IN : GEMM_BIAS;
  if (anfi_t_attr(a, TA_post_scale, NULL)) f |= GEMM_SCALE;
  if (anfi_t_attr(a, TA_post_relu, NULL)) f |= GEMM_RELU;
  if (anfi_t_attr(a, TA_post_binary, &v)) f |= (v << GEMM_BINARY_AT) & GEMM_BINARY;
  if (anfi_t_attr(a, TA_trans_a, &v) && v) f |= GEMM_TA;
  if (anfi_t_attr(a, TA_vnni_b, &v) && v) f |= v == 2 ? GEMM_VNNI | GEMM_COLUMN_SUMS : GEMM_VNNI;
  if (anfi_t_attr(a, TA_small, &v) && v) f |= GEMM_SMALL;
  return f;
}
