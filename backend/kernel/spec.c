// SPDX-License-Identifier: Apache-2.0
/* The kernel that a call of brgemm needs, as far as it is known when code is made; dot products by types (dot.def).
 *   brgemm of u8, s8, s32, M = 4, N = 16, K = 8   ->   {.a = u8, .b = s8, .c = s32, .m = 4, .n = 16, .size[GEMM_K] = 8}
 *   on a processor with VNNI                      ->   groups of four k, anfi_dot_group() = 4 */
#include "backend/kernel/kernel.h"

const uint8_t anfi_gemm_operand[GEMM_NSIZE] = {
    BRGEMM_num, BRGEMM_K, BRGEMM_LDA, BRGEMM_LDB, BRGEMM_LDC, BRGEMM_stride_a, BRGEMM_stride_b};

/* Is there a kernel for these types and flags? */
static bool is_supported(const anfi_gemm *g) {
  bool bytes = g->c == ANF_TIR_s32 &&
               (g->a == ANF_TIR_u8 || g->a == ANF_TIR_s8 || g->a == ANF_TIR_s16) &&
               (g->b == ANF_TIR_u8 || g->b == ANF_TIR_s8);
  bool same = g->a == g->c && g->b == g->c && (g->c == ANF_TIR_f32 || g->c == ANF_TIR_f64);
  bool small = g->c == ANF_TIR_f32 && (g->a == ANF_TIR_bf16 || g->a == ANF_TIR_f32) &&
               (g->b == ANF_TIR_bf16 || g->b == ANF_TIR_f32);
  if (bytes)
    return !(g->flags &
             ~(GEMM_INIT | GEMM_RELU | GEMM_TA | GEMM_VNNI | GEMM_COLUMN_SUMS | GEMM_SMALL));
  bool pairs = anfi_sums_pairs((int32_t)g->a, (int32_t)g->b, (int32_t)g->c);
  return same || small || (pairs && g->flags & GEMM_INIT); // bf16 alone has no sums to add to
}

static const anfi_dot_info dots[] = {
#define ANF_DOT(ta, tb, tc, k, ...)                                                                \
  {.a = ANF_TIR_##ta, .b = ANF_TIR_##tb, .c = ANF_TIR_##tc, .group = k, __VA_ARGS__},
#include "backend/kernel/dot.def"
#undef ANF_DOT
};

const anfi_dot_info *anfi_dot_of(anf_tir_elem a, anf_tir_elem b, anf_tir_elem c) {
  anf_tir_elem sum = c == ANF_TIR_bf16 ? ANF_TIR_f32 : c;
  for (size_t i = 0; i < ANFI_LEN(dots); i++)
    if (dots[i].a == a && dots[i].b == b && dots[i].c == sum) return &dots[i];
  return NULL;
}

bool anfi_dot_has_tile(const anfi_isa *isa, const anfi_dot_info *d) {
  return d && d->tile && anfi_isa_has(isa, d->tile_cpu) && !(d->reorders && isa->exact);
}

bool anfi_dot_is_small(const anfi_isa *isa, const anfi_gemm *k) {
  const anfi_dot_info *d = anfi_dot_of(k->a, k->b, k->c);
  return d && d->group == 4 && d->vector && k->flags & GEMM_SMALL && !anfi_isa_has(isa, d->cpu) &&
         anfi_isa_has(isa, CPU_avx2);
}

uint32_t anfi_dot_group(const anfi_isa *isa, const anfi_gemm *k) {
  const anfi_dot_info *d = anfi_dot_of(k->a, k->b, k->c);
  if (!d || k->flags & GEMM_TA) return 0; // a group of k of A must be contiguous
  bool is_there = anfi_isa_has(isa, d->cpu) || anfi_dot_is_small(isa, k);
  return d->vector && is_there ? d->group : 0;
}

uint32_t anfi_vnni_group_of(const anfi_isa *isa, const anfi_gemm *k) {
  if (anfi_dot_has_tile(isa, anfi_dot_of(k->a, k->b, k->c))) return 1; // tiles pack B themselves
  uint32_t group = anfi_dot_group(isa, k);
  return group ? group : 1;
}

anf_tir_elem anfi_widened_a(const anfi_isa *isa, anf_tir_elem a, anf_tir_elem b, bool small) {
  anfi_gemm k = {.a = a, .b = b, .c = ANF_TIR_s32, .flags = small ? GEMM_SMALL : 0};
  anfi_gemm wide = {.a = ANF_TIR_s16, .b = b, .c = k.c};
  if (anfi_dot_group(isa, &k) || anfi_dot_has_tile(isa, anfi_dot_of(a, b, k.c))) return a;
  return anfi_dot_group(isa, &wide) ? ANF_TIR_s16 : a;
}

bool anfi_dot_adds(const anfi_isa *isa, const anfi_gemm *k) {
  if (!anfi_dot_group(isa, k)) return false;
  return anfi_dot_of(k->a, k->b, k->c)->form == DOT_WIDENED || anfi_dot_is_small(isa, k);
}

bool anfi_gemm_of(texpr e, anfi_gemm *out) {
  anf_tir_elem type[3];
  anfi_t_brgemm_types(e, type);
  *out = (anfi_gemm){.a = type[0], .b = type[1], .c = type[2]};
  out->list = e->sub == TI_list_brgemm, out->flags = anfi_t_brgemm_flags(e->u.attrs);
  for (uint32_t i = 0; i < GEMM_NSIZE; i++)
    out->known[i] = anfi_t_const_i64(anfi_t_brgemm_in(e, anfi_gemm_operand[i]), &out->size[i]);
  return anfi_t_const_i64(anfi_t_brgemm_in(e, BRGEMM_M), &out->m) &&
         anfi_t_const_i64(anfi_t_brgemm_in(e, BRGEMM_N), &out->n) && is_supported(out);
}
