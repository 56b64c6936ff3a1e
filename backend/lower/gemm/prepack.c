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
#include "ir/value/mapped.h"

static uint64_t full_groups(const gemm *p, uint64_t k) {
  return anfi_mm_up(k, p->k_group) * p->k_group;
}

/* The next place in the panels, and how many bytes of the source were read since its pages were dropped. */
typedef struct writer {
  unsigned char *at;
  size_t width;
  uint64_t read;
} writer;

static void put(writer *w, const void *bits) {
  memcpy(w->at, bits, w->width);
  w->at += w->width;
}

static size_t source_width(const anfi_mm *q) {
  return anf_dtype_bytes((anf_dtype)q->const_b->type->dtype);
}

/* An element as kernels read it: they widen bf16 as they load it, f16 is widened here. */
static void put_element(writer *w, const anfi_mm *q, uint64_t k, uint64_t j) {
  size_t bytes = source_width(q);
  const unsigned char *p = q->const_b->data + bytes * (q->tb ? j * q->ldb + k : k * q->ldb + j);
  if (q->elem == ANF_TIR_f16) {
    uint16_t half;
    memcpy(&half, p, sizeof half);
    float wide = anfi_f16_to_f32(half);
    put(w, &wide);
  } else put(w, p);
}

/* 128 times the sum of a column of signed bytes, as the bytes of a 32-bit integer. */
static void column_sum(const gemm *p, writer *w, uint64_t k0, uint64_t kb, uint64_t j) {
  const anfi_mm *q = p->q;
  uint32_t sum = 0;
  for (uint64_t k = k0; k < k0 + kb; k++)
    sum += 128 * (uint32_t)(int8_t)q->const_b->data[q->tb ? j * q->ldb + k : k * q->ldb + j];
  for (int u = 0; u < 4; u++) put(w, &(unsigned char){sum >> 8 * u & 255});
}

uint64_t anfi_gemm_prepacked_steps(const gemm *p, uint64_t k) {
  return full_groups(p, k) + (p->column_sums ? p->k_group : 0);
}

/* Steps of 32-bit numbers, one at a time: most weights. */
static void pack_words(const anfi_mm *q, writer *w, uint64_t k, uint64_t end, uint64_t col,
                       uint64_t nr) {
  const uint32_t *from = (const uint32_t *)(const void *)q->const_b->data;
  uint32_t *to = (uint32_t *)(void *)w->at;
  for (; k < end; k++, to += nr)
    if (!q->tb) memcpy(to, from + k * q->ldb + col, nr * sizeof *to);
    else
      for (uint64_t j = 0; j < nr; j++) to[j] = from[(col + j) * q->ldb + k];
}

/* Steps of K from `k` on of a panel of a block that ends at `last`. */
static void pack_steps(const gemm *p, writer *w, uint64_t k, uint64_t end, uint64_t last,
                       uint64_t col, uint64_t nr) {
  if (w->width == sizeof(uint32_t) && p->k_group == 1 && p->q->elem != ANF_TIR_f16) {
    pack_words(p->q, w, k, end, col, nr);
    return;
  }
  for (; k < end; k += p->k_group)
    for (uint64_t j = col; j < col + nr; j++)
      for (uint64_t u = k; u < k + p->k_group; u++)
        if (u < last) put_element(w, p->q, u, j);
        else w->at += w->width; // zeros
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

enum { OFTEN = 8 << 20 }; // bytes

/* Drops pages of a weight's file that were packed: the weight is in memory once. */
static void leave_source(const anfi_mm *q, writer *w, uint64_t read) {
  anfi_os_block *from = anfi_value_block(q->const_b);
  w->read += read;
  if (!from || w->read < OFTEN) return;
  anfi_os_block_leave(from);
  w->read = 0;
}

/* Steps of a block that are packed for all panels, before others are: of a B that is not transposed few, so that rows are read once. */
static uint64_t steps_at_once(const gemm *p) {
  uint64_t row = p->q->ldb * source_width(p->q), k = OFTEN / 4 / (row ? row : 1);
  return p->q->tb ? full_groups(p, p->q->k) : k / p->k_group * p->k_group + p->k_group;
}

/* The block of steps from k0 on, of which `to` is the first panel. */
static void pack_block(const gemm *p, writer *w, unsigned char *to, uint64_t k0, uint64_t kb) {
  const anfi_mm *q = p->q;
  uint64_t all = full_groups(p, kb), some = steps_at_once(p), bytes = source_width(q);
  for (uint64_t from = 0; from < all; from += some) {
    uint64_t end = all - from < some ? all : from + some;
    for (uint64_t col = 0, nr; col < q->n; col += nr) {
      nr = q->n - col < p->b.nr ? q->n - col : p->b.nr;
      w->at = to + (col * anfi_gemm_prepacked_steps(p, kb) + from * nr) * w->width;
      pack_steps(p, w, k0 + from, k0 + end, k0 + kb, col, nr);
      for (uint64_t j = col; j < col + nr && p->column_sums && end == all; j++)
        column_sum(p, w, k0, kb, j);
      if (q->tb) leave_source(q, w, nr * q->ldb * bytes);
    }
    if (!q->tb) leave_source(q, w, (end - from) * q->ldb * bytes);
  }
}

texpr anfi_gemm_prepack(gemm *p) {
  const anfi_mm *q = p->q;
  tdtype d = anfi_t_dt(anfi_gemm_prepacked_type(p));
  uint64_t n = anfi_gemm_prepacked_size(p), steps = 0;
  anfi_os_block *b = anfi_low_block(p->L, anfi_size_mul(p->L->cx, n, anfi_t_bytes(d)));
  writer w = {.width = anfi_t_bytes(d)};
  for (uint64_t k0 = 0, kb; k0 < q->k; k0 += kb) {
    kb = steps_from(p, k0);
    pack_block(p, &w, anfi_os_block_data(b) + steps * q->n * w.width, k0, kb);
    steps += anfi_gemm_prepacked_steps(p, kb);
  }
  leave_source(q, &w, OFTEN);
  return anfi_low_block_table(p->L, d, steps * q->n, b);
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
