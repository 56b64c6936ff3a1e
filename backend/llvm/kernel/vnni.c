// SPDX-License-Identifier: Apache-2.0
/* Sums by dot products: instructions that add a group of k products of narrow elements to a sum of 32 bits.
 *
 *   s32 += u8 * s8, four steps of K       vpdpbusd
 *   f32 += bf16 * bf16, two steps of K    vdpbf16ps
 *   s32 += s16 * s8, two steps of K       vpmovsxbw for a vector of B, then vpmaddwd and vpaddd for each row
 *
 * B is read in VNNI layout: 32 bits hold a group of k of one column. It has that layout already (attribute vnni_b), or
 * the kernel packs a panel on the stack for all its tiles of rows, or interleaves the group's rows in the loop.
 *
 * The hard case is signed A: vpdpbusd reads one factor as unsigned. u8 B swaps places with A; signed A is read as
 * A + 128, whose excess, 128 times the sums of B's columns, is subtracted at the end (oneDNN's s8s8 compensation). */
#include "backend/llvm/kernel/gen.h"

typedef LLVMValueRef V;

static uint32_t vector_bytes(const kgen *k) { return k->lanes * 4; } // of groups of k of A's type
static uint32_t group_bytes(const kgen *k) { return k->dot.steps * k->bytes_b; } // of B in memory
static bool is_vnni(const kgen *k) { return k->k->flags & GEMM_VNNI; }

/* Do column sums follow B? */
static bool has_sums(const kgen *k) {
  int64_t n = 0;
  return k->k->flags & GEMM_COLUMN_SUMS && known(k->size[GEMM_NUM], &n) && n == 1;
}

bool anfi_kg_biased(const kgen *k) { return k->dot.steps == 4 && k->dot.info->form == DOT_BIASED; }
static V bias_of(const kgen *k) { return splat(k, anfi_ll_i32(k->g, 0x80808080)); }

static V dot(const kgen *k, V a, V b, V acc) {
  if (k->dot.info->form == DOT_WIDENED) return anfi_dot_pairs(&k->dot, acc, a, b);
  if (k->dot.steps == 2) return anfi_dot_bf16(&k->dot, acc, a, b);
  return k->dot.info->form == DOT_SWAPPED ? anfi_dot_bytes(&k->dot, acc, b, a)
                                          : anfi_dot_bytes(&k->dot, acc, a, b);
}

/* ---- B ---- */

static V words_load(const kgen *k, V p, uint32_t j, uint32_t align, uint32_t tail) {
  V at = move(k, p, ci(k, (int64_t)j * vector_bytes(k)));
  return anfi_kg_load(k, k->g->i32, at, align, tail);
}

/* Vector j of groups of a B in VNNI layout. */
static V vnni_load(const kgen *k, V p, uint32_t j, uint32_t tail) {
  if (k->dot.info->form != DOT_WIDENED) return words_load(k, p, j, k->bytes_b, tail);
  lgen *g = k->g;
  V at = move(k, p, ci(k, (int64_t)j * k->lanes * group_bytes(k)));
  V x = anfi_kg_load(k, g->i16, at, k->bytes_b, tail);
  return anfi_dot_widen(&k->dot,
                        ll.BuildBitCast(g->b, x, anfi_ll_vector_of(g->i8, 2 * k->lanes), ""));
}

/* Vector j of groups from b on, interleaved unless B is in VNNI layout. */
static V words_at(const kgen *k, const ktile *t, V b, uint32_t j) {
  if (is_vnni(k)) return vnni_load(k, b, j, tail_of(t, j));
  V r[4], db = mul(k, k->size[GEMM_LDB], k->bytes_b);
  for (uint32_t u = 0; u < k->dot.steps; u++) {
    V p = move(k, move(k, b, mul(k, db, u)), ci(k, (int64_t)j * k->lanes * k->bytes_b));
    r[u] = anfi_kg_load(k, anfi_kg_lane(k, k->k->b), p, k->bytes_b, tail_of(t, j));
  }
  return anfi_dot_interleave(&k->dot, r);
}

/* Bytes of B from one dot product to the next. */
static V b_step(const kgen *k) {
  return mul(k, k->size[GEMM_LDB], (int64_t)k->dot.steps * k->bytes_b);
}

/* ---- A ---- */

static V word_of_a(const kgen *k, V p) {
  V x = ll.BuildLoad2(k->g->b, k->g->i32, p, "");
  ll.SetAlignment(x, k->bytes_a);
  return x;
}

/* A last group of `n` steps, filled with zeros: of floats -0, which changes no sum. */
static V part_of_word(const kgen *k, V p, uint32_t n) {
  lgen *g = k->g;
  V word = anfi_ll_i32(g, k->sum.elem == ANF_TIR_f32 ? 0x80000000 : 0);
  for (uint32_t u = 0; u < n; u++) {
    V x = ll.BuildLoad2(g->b, anfi_kg_lane(k, k->k->a), move(k, p, ci(k, u * k->bytes_a)), "");
    ll.SetAlignment(x, k->bytes_a);
    x = ll.BuildShl(g->b, ll.BuildZExt(g->b, x, g->i32, ""), anfi_ll_i32(g, 8 * u * k->bytes_a),
                    "");
    word = ll.BuildOr(g->b, word, x, "");
  }
  return word;
}

/* ---- sums ---- */

/* One dot product of each row and vector; `part`: steps of A in a last group, 0 for all. */
static void dot_step(const kgen *k, ktile *t, V a, V b, const V *row, uint32_t part) {
  lgen *g = k->g;
  V bv[VECS], bias = bias_of(k);
  for (uint32_t j = 0; j < t->vecs; j++) {
    bv[j] = k->packed && !part ? words_load(k, b, j, vector_bytes(k), 0) : words_at(k, t, b, j);
    if (t->excess[0]) t->excess[j] = anfi_dot_bytes(&k->dot, t->excess[j], bias, bv[j]);
  }
  for (uint32_t r = 0; r < t->rows; r++) {
    V p = move(k, a, row[r]), x = splat(k, part ? part_of_word(k, p, part) : word_of_a(k, p));
    if (anfi_kg_biased(k)) x = ll.BuildXor(g->b, x, bias, "");
    for (uint32_t j = 0; j < t->vecs; j++) {
      V *acc = &t->acc[r * t->vecs + j];
      *acc = dot(k, x, bv[j], *acc);
    }
  }
}

static void dot_steps(const kgen *k, ktile *t, V *a, V *b, const V *row, V n) {
  carried c = {.n = 0};
  kloop l;
  V words = k->packed, *from = words ? &words : b;
  carry(&c, a), carry(&c, from), anfi_kg_carry_sums(&c, t);
  anfi_kg_begin(k, &l, n, &c);
  V a0 = *a, b0 = *from;
  dot_step(k, t, a0, b0, row, 0);
  *a = move(k, a0, ci(k, (int64_t)k->dot.steps * k->bytes_a));
  *from = move(k, b0, words ? ci(k, (int64_t)t->vecs * vector_bytes(k)) : b_step(k));
  anfi_kg_end(k, &l);
  if (words) *b = move(k, *b, mul2(k, n, b_step(k)));
}

LLVMValueRef anfi_kg_dots(const kgen *k, ktile *t, V *a, V *b, const V *row) {
  int64_t n;
  V kk = k->size[GEMM_K];
  uint32_t steps = k->dot.steps, shift = steps / 2; // steps are 2 or 4
  bool fixed = known(kk, &n);
  V dots = fixed ? ci(k, n >> shift) : ll.BuildLShr(k->g->b, kk, ci(k, shift), "");
  if (!fixed || n >> shift) dot_steps(k, t, a, b, row, dots);
  if (!fixed) return ll.BuildAnd(k->g->b, kk, ci(k, steps - 1), "");
  if (!is_vnni(k)) return ci(k, n % steps);
  if (n % steps) dot_step(k, t, *a, *b, row, (uint32_t)(n % steps));
  return ci(k, 0);
}

/* ---- panels ---- */

/* Does the excess fit registers beside the sums of a tile? */
static bool excess_fits(const kgen *k, const anfi_tile *t) {
  return !anfi_kg_biased(k) || t->rows * t->vecs + 2 * t->vecs + 2 <= k->isa.regs;
}

void anfi_kg_alloc_panel(kgen *k, const anfi_tile *t) {
  enum { MOST = 64 << 10 };
  const anfi_gemm *s = k->k;
  if (!k->dot.steps || s->list) return;
  if (s->m <= t->rows && (!is_vnni(k) || excess_fits(k, t))) return;
  if (!s->known[GEMM_K] || !s->known[GEMM_NUM] || s->size[GEMM_NUM] != 1) return;
  uint64_t bytes = (uint64_t)s->size[GEMM_K] / k->dot.steps * t->vecs * vector_bytes(k);
  if (!bytes || (bytes > MOST && !is_vnni(k))) return;
  if (!is_vnni(k)) k->packed = anfi_kg_stack(k, bytes);
  if (anfi_kg_biased(k) && !has_sums(k))
    k->excess = anfi_kg_stack(k, (uint64_t)t->vecs * vector_bytes(k));
}

/* One group of k of the panel: packed, and added to the excess. */
static void pack_step(const kgen *k, ktile *t, V b, V to) {
  for (uint32_t j = 0; j < t->vecs; j++) {
    V x = words_at(k, t, b, j), at = ci(k, (int64_t)j * vector_bytes(k));
    if (k->packed) anfi_kg_store(k, x, move(k, to, at), vector_bytes(k), 0);
    if (k->excess) t->excess[j] = anfi_dot_bytes(&k->dot, t->excess[j], bias_of(k), x);
  }
}

void anfi_kg_pack_panel(const kgen *k, ktile *t) {
  carried c = {.n = 0};
  kloop l;
  if (!k->packed && !k->excess) return;
  V b = move(k, k->b, t->b), to = k->packed ? k->packed : k->excess;
  uint32_t steps = k->dot.steps;
  int64_t size = k->k->size[GEMM_K], dots = (size + (is_vnni(k) ? steps - 1 : 0)) / steps;
  for (uint32_t j = 0; j < t->vecs && k->excess; j++) t->excess[j] = ll.ConstNull(k->vec);
  carry(&c, &b), carry(&c, &to);
  for (uint32_t j = 0; j < t->vecs && k->excess; j++) carry(&c, &t->excess[j]);
  anfi_kg_begin(k, &l, ci(k, dots), &c);
  V b0 = b, to0 = to;
  pack_step(k, t, b0, to0);
  b = move(k, b0, b_step(k));
  to = move(k, to0, ci(k, k->packed ? (int64_t)t->vecs * vector_bytes(k) : 0));
  anfi_kg_end(k, &l);
  for (uint32_t j = 0; j < t->vecs && k->excess; j++) {
    V at = move(k, k->excess, ci(k, (int64_t)j * vector_bytes(k)));
    anfi_kg_store(k, t->excess[j], at, vector_bytes(k), 0);
    t->excess[j] = NULL;
  }
}

bool anfi_kg_tiles_sum_excess(const kgen *k) {
  return anfi_kg_biased(k) && !k->excess && !has_sums(k);
}

LLVMValueRef anfi_kg_excess(const kgen *k, const ktile *t, uint32_t j) {
  if (k->excess) return words_load(k, k->excess, j, vector_bytes(k), 0);
  if (!has_sums(k)) return t->excess[j];
  int64_t words = (k->k->size[GEMM_K] + k->dot.steps - 1) / k->dot.steps;
  V p = move(k, move(k, k->b, t->b), mul(k, b_step(k), words));
  return words_load(k, p, j, k->bytes_b, tail_of(t, j));
}
