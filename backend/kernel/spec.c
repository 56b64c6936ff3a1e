// SPDX-License-Identifier: Apache-2.0
/* What a call of brgemm asks for, as far as it is known when code is made. */
#include "backend/kernel/kernel.h"

int64_t anfi_gemm_flags(tattrs a) {
  int64_t v = 0, f = 0;
  if (anfi_t_attr(a, TA_init, &v) && v) f |= GEMM_INIT;
  if (anfi_t_attr(a, TA_post_bias, &v)) f |= v == 2 ? GEMM_BIAS | GEMM_BIAS_IN : GEMM_BIAS;
  if (anfi_t_attr(a, TA_post_scale, NULL)) f |= GEMM_SCALE;
  if (anfi_t_attr(a, TA_post_relu, NULL)) f |= GEMM_RELU;
  if (anfi_t_attr(a, TA_post_binary, &v)) f |= (v << GEMM_BINARY_AT) & GEMM_BINARY;
  if (anfi_t_attr(a, TA_trans_a, &v) && v) f |= GEMM_TA;
  if (anfi_t_attr(a, TA_vnni_b, &v) && v) f |= v == 2 ? GEMM_VNNI | GEMM_COLUMN_SUMS : GEMM_VNNI;
  return f;
}

bool anfi_gemm_supported(const anfi_gemm *g) {
  bool bytes = g->c == ANF_TIR_s32 && (g->a == ANF_TIR_u8 || g->a == ANF_TIR_s8) &&
               (g->b == ANF_TIR_u8 || g->b == ANF_TIR_s8);
  bool same = g->a == g->c && g->b == g->c && (g->c == ANF_TIR_f32 || g->c == ANF_TIR_f64);
  bool small = g->c == ANF_TIR_f32 && (g->a == ANF_TIR_bf16 || g->a == ANF_TIR_f32) &&
               (g->b == ANF_TIR_bf16 || g->b == ANF_TIR_f32);
  if (bytes) return !(g->flags & ~(GEMM_INIT | GEMM_RELU | GEMM_TA | GEMM_VNNI | GEMM_COLUMN_SUMS));
  bool pairs = anfi_sums_pairs((int32_t)g->a, (int32_t)g->b, (int32_t)g->c);
  return same || small || (pairs && g->flags & GEMM_INIT); // bf16 alone has no sums to add to
}

uint32_t anfi_dot_group(const anfi_isa *isa, const anfi_gemm *k) {
  bool bytes = k->c == ANF_TIR_s32 && !(k->a == ANF_TIR_u8 && k->b == ANF_TIR_u8);
  if (k->flags & GEMM_TA) return 0; // A's steps do not lie together
  if (bytes && isa->vnni) return 4;
  return k->a == ANF_TIR_bf16 && k->b == ANF_TIR_bf16 && isa->bf16 ? 2 : 0;
}

uint32_t anfi_vnni_group_of(const anfi_isa *isa, anf_tir_elem a, anf_tir_elem b, anf_tir_elem c) {
  anfi_gemm k = {.a = a, .b = b, .c = c};
  bool tiles = isa->amx && (c == ANF_TIR_s32 || !isa->exact); // they lay B out themselves
  uint32_t steps = tiles ? 0 : anfi_dot_group(isa, &k);
  return steps ? steps : 1;
}

bool anfi_gemm_of(texpr e, anfi_gemm *out) {
  bool list = e->sub == TI_list_brgemm;
  static const uint8_t at[GEMM_NSIZE] = {3, 6, 7, 8, 9, 10, 11};
  *out = (anfi_gemm){.list = list, .flags = anfi_gemm_flags(e->u.attrs)};
  out->c = (anf_tir_elem)e->in[2]->dtype.elem;
  out->a = list ? out->c : (anf_tir_elem)e->in[0]->dtype.elem;
  out->b = list ? out->c : (anf_tir_elem)e->in[1]->dtype.elem;
  for (int i = 0; i < GEMM_NSIZE; i++)
    out->known[i] = anfi_t_const_i64(e->in[at[i]], &out->size[i]);
  uint32_t slot = list ? 13 : 12;
  for (uint32_t k = slot + TSLOT_binary_rhs + 1; k < e->n; k++)
    if (!anfi_t_is_void(e->in[k]->dtype)) return false;
  return anfi_t_const_i64(e->in[4], &out->m) && anfi_t_const_i64(e->in[5], &out->n) &&
         anfi_gemm_supported(out);
}
