// SPDX-License-Identifier: Apache-2.0
/* Pre-packed B: panels made once, where B never changes.
 *
 *   w = f32[784, 256](..); x @ w         a table of w's panels beside the code; nothing is packed in a call
 *   while ..: h = Tanh(h @ w)            w is packed once, before the loop
 *
 * Of a constant the panels of all blocks of K lie one after the other: the panel of columns `col` and on from step
 * k0 on starts at (steps of the blocks before) * n + col * (steps of its block). Where signed bytes are multiplied
 * by an unsigned dot product, 128 times the sums of its columns follow each panel (vnni.c subtracts them). */
#include "backend/lower/gemm/block.h"

static uint64_t full_groups(const gemm *p, uint64_t k) {
  return anfi_mm_up(k, p->k_group) * p->k_group;
}

/* An element as kernels read it: they widen bf16 as they load it, f16 is widened here. */
static uint64_t constant_at(const anfi_mm *q, uint64_t k, uint64_t j) {
  uint64_t bits = anfi_low_bits(q->const_b, q->tb ? j * q->ldb + k : k * q->ldb + j);
  if (q->elem != ANF_TIR_f16) return bits;
  float wide = anfi_f16_to_f32((uint16_t)bits);
  uint32_t word;
  memcpy(&word, &wide, sizeof word);
  return word;
}

/* 128 times the sum of a column of signed bytes, as the bytes of a 32-bit integer. */
static void column_sum(const gemm *p, uint64_t *to, uint64_t k0, uint64_t kb, uint64_t j) {
  uint32_t sum = 0;
  for (uint64_t k = k0; k < k0 + kb; k++) sum += 128 * (uint32_t)(int8_t)constant_at(p->q, k, j);
  for (int u = 0; u < 4; u++) to[u] = sum >> 8 * u & 255;
}

uint64_t anfi_gemm_prepacked_steps(const gemm *p, uint64_t k) {
  return full_groups(p, k) + (p->column_sums ? p->k_group : 0);
}

static uint64_t *pack_panel(const gemm *p, uint64_t *to, uint64_t k0, uint64_t kb, uint64_t col,
                            uint64_t nr) {
  for (uint64_t k = 0; k < full_groups(p, kb); k += p->k_group)
    for (uint64_t j = col; j < col + nr; j++)
      for (uint64_t u = k; u < k + p->k_group; u++)
        *to++ = u < kb ? constant_at(p->q, k0 + u, j) : 0;
  for (uint64_t j = col; j < col + nr && p->column_sums; j++, to += p->k_group)
    column_sum(p, to, k0, kb, j);
  return to;
}

/* Steps of the block that starts at k0: it ends with its slice, and with K. */
static uint64_t steps_from(const gemm *p, uint64_t k0) {
  uint64_t end = (k0 / p->slice + 1) * p->slice, left = (end < p->q->k ? end : p->q->k) - k0;
  return left < p->b.kb ? left : p->b.kb;
}

anf_tir_elem anfi_gemm_prepacked_type(const gemm *p) {
  return p->q->elem == ANF_TIR_bf16 ? p->q->elem : p->type.b;
}
uint64_t anfi_gemm_prepacked_size(const gemm *p) {
  uint64_t blocks = p->slices * anfi_mm_up(p->slice, p->b.kb);
  return (full_groups(p, p->q->k) + (p->column_sums ? blocks * p->k_group : 0)) * p->q->n;
}

texpr anfi_gemm_prepack(gemm *p) {
  const anfi_mm *q = p->q;
  uint64_t *bits = ANFI_NEW_N(p->L->a, uint64_t, anfi_gemm_prepacked_size(p)), *at = bits;
  for (uint64_t k0 = 0, kb; k0 < q->k; k0 += kb) {
    kb = steps_from(p, k0);
    for (uint64_t col = 0, nr; col < q->n; col += nr) {
      nr = q->n - col < p->b.nr ? q->n - col : p->b.nr;
      at = pack_panel(p, at, k0, kb, col, nr);
    }
  }
  return anfi_low_table(p->L, anfi_t_dt(anfi_gemm_prepacked_type(p)), (uint64_t)(at - bits), bits);
}

/* ---- loop-invariant B ---- */

/* Rows of B with a power-of-two stride map to the same sets of the L1 cache (conflict misses), so a panel does not
 * stay there. With many rows of A the plan packs in any case. */
static bool is_worth_prepacking(const gemm *p) {
  enum { MAX_BYTES = 4 << 20, NEAR_ROWS = 256 };
  const anfi_mm *q = p->q;
  uint64_t bytes = anfi_t_bytes(anfi_t_dt(p->type.b));
  return !q->tb && !q->const_b && !p->wide && !p->b.pack_b && p->panels > 1 && q->k <= p->b.kb &&
         q->ldb * bytes >= NEAR_ROWS && q->k * q->n * bytes <= MAX_BYTES;
}

static void pack_invariant_panel(gemm *p, texpr to, texpr col, uint64_t n) {
  const anfi_mm *q = p->q;
  anfi_loop k, j;
  texpr at = atom(p, mulc(p, col, q->k));
  anfi_low_loop(p->L, &k, q->k, "k");
  anfi_low_loop(p->L, &j, n, "j");
  texpr x = anfi_low_load(p->L, q->b, atom(p, add(p, col, add(p, mulc(p, k.var, q->ldb), j.var))));
  anfi_low_put(p->L, to, atom(p, add(p, at, add(p, mulc(p, k.var, n), j.var))),
               (anfi_elem){anfi_t_cast(p->L->t, anfi_t_dt(p->type.b), x), NULL}, false);
  anfi_low_loop_end(p->L, &j);
  anfi_low_loop_end(p->L, &k);
}

void anfi_gemm_prepack_invariant(gemm *p) {
  const anfi_mm *q = p->q;
  anfi_low *L = p->L;
  anfi_loop l;
  if (!is_worth_prepacking(p)) return;
  anfi_packed_b one = {.b = q->b, .n = q->n, .k = q->k, .ldb = q->ldb, .nr = p->b.nr};
  one.panels = anfi_low_local(L, p->type.b, q->k * q->n, "panels");
  anfi_low_loop(L, &l, p->panels, "p");
  pack_invariant_panel(p, one.panels, atom(p, mulc(p, l.var, p->b.nr)), p->b.nr);
  anfi_low_loop_end(L, &l);
  if (p->tail) pack_invariant_panel(p, one.panels, ix(p, p->panels * p->b.nr), p->tail);
  anfi_push(L->a, &L->packed, one);
}

void anfi_low_gemm_drop_packed(anfi_low *L, size_t before) { L->packed.n = before; }

texpr anfi_gemm_prepacked_invariant(const gemm *p) {
  const anfi_mm *q = p->q;
  if (q->tb || !anfi_t_is_const(q->b0, 0) || p->b.pack_b) return NULL;
  for (size_t i = p->L->packed.n; i-- > 0;) {
    const anfi_packed_b *l = &p->L->packed.at[i];
    if (l->b == q->b && l->n == q->n && l->k == q->k && l->ldb == q->ldb && l->nr == p->b.nr)
      return l->panels;
  }
  return NULL;
}
