// SPDX-License-Identifier: Apache-2.0
/* brgemm as LLVM IR: panels of columns, in each of them tiles of rows, in each of them sums in registers over batch
 * and K.
 *   one step of a 2 x 16 tile of f32:   b = B[k, 0..16]; sum0 += splat(A[0, k]) * b; sum1 += splat(A[1, k]) * b
 * Heights of tiles are balanced, so at most two differ; columns that fill no vector are masked. Vectors are explicit:
 * the machine code follows this file, at any level of optimisation. The form is that of Goto and van de Geijn (2008). */
#include "backend/llvm/kernel/gen.h"

typedef LLVMValueRef V;

/* As lanes of sums: exact. `n` lanes; 1 is a scalar. */
static V widen(const kgen *k, V v, anf_tir_elem e, uint32_t n) {
  lgen *g = k->g;
  LLVMTypeRef i32 = anfi_ll_vector_of(g->i32, n);
  switch (e) { /* dispatch */
  case ANF_TIR_bf16: return anfi_kg_of_bf16(k, v, n);
  case ANF_TIR_u8: return ll.BuildZExt(g->b, v, i32, "");
  case ANF_TIR_s16:
  case ANF_TIR_s8: return ll.BuildSExt(g->b, v, i32, "");
  default: return v;
  }
}

/* ---- sums ---- */

static V product(const kgen *k, V a, V b, V acc) {
  lgen *g = k->g;
  if (k->sum.elem == ANF_TIR_s32) return ll.BuildAdd(g->b, acc, ll.BuildMul(g->b, a, b, ""), "");
  return anfi_kg_fma(k, k->vec, a, b, acc);
}

/* One step of K. `row`: bytes from row to row of A. */
static void step(const kgen *k, ktile *t, V a, V b, const V *row) {
  V bv[VECS];
  for (uint32_t j = 0; j < t->vecs; j++) {
    V p = move(k, b, ci(k, (int64_t)j * k->lanes * k->bytes_b));
    V x = anfi_kg_load(k, anfi_kg_lane(k, k->k->b), p, k->bytes_b, tail_of(t, j));
    bv[j] = widen(k, x, k->k->b, k->lanes);
  }
  for (uint32_t r = 0; r < t->rows; r++) {
    V x = ll.BuildLoad2(k->g->b, anfi_kg_lane(k, k->k->a), move(k, a, row[r]), "");
    ll.SetAlignment(x, k->bytes_a);
    V s = splat(k, widen(k, x, k->k->a, 1));
    for (uint32_t j = 0; j < t->vecs; j++) {
      V *acc = &t->acc[r * t->vecs + j];
      *acc = product(k, s, bv[j], *acc);
    }
  }
}

/* `n` steps from a and b on, `each` at a time. */
static void steps(const kgen *k, ktile *t, V *a, V *b, const V *row, V n, uint32_t each) {
  carried c = {.n = 0};
  kloop l;
  bool ta = k->k->flags & GEMM_TA;
  V da = ta ? mul(k, k->size[GEMM_LDA], k->bytes_a) : ci(k, k->bytes_a),
    db = mul(k, k->size[GEMM_LDB], k->bytes_b);
  V ua[8], ub[8];
  for (uint32_t u = 0; u <= each; u++) ua[u] = mul(k, da, u), ub[u] = mul(k, db, u);
  carry(&c, a), carry(&c, b), anfi_kg_carry_sums(&c, t);
  anfi_kg_begin(k, &l, n, &c);
  V a0 = *a, b0 = *b;
  for (uint32_t u = 0; u < each; u++) {
    uint32_t at = u ^ (each > 1 && k->pairs);
    step(k, t, move(k, a0, ua[at]), move(k, b0, ub[at]), row);
  }
  *a = move(k, a0, ua[each]);
  *b = move(k, b0, ub[each]);
  anfi_kg_end(k, &l);
}

/* All of K of one pair of matrices. */
static void sum_k(const kgen *k, ktile *t, V a, V b, const V *row) {
  int64_t n;
  uint32_t each = t->rows * t->vecs > 16 ? 2 : 4;
  V kk = k->size[GEMM_K];
  if (k->dot.steps) kk = anfi_kg_dots(k, t, &a, &b, row);
  if (!known(kk, &n)) {
    if (!k->dot.steps) {
      steps(k, t, &a, &b, row, ll.BuildLShr(k->g->b, kk, ci(k, 1), ""), 2);
      kk = ll.BuildAnd(k->g->b, kk, ci(k, 1), "");
    }
    steps(k, t, &a, &b, row, kk, 1);
    return;
  }
  if (n / each) steps(k, t, &a, &b, row, ci(k, n / each), each);
  n %= each;
  if (n / 2) steps(k, t, &a, &b, row, ci(k, 1), 2);
  if (n % 2) steps(k, t, &a, &b, row, ci(k, 1), 1);
}

static void sum_batch(const kgen *k, ktile *t, V a, V b, const V *row) {
  carried c = {.n = 0};
  kloop l;
  carry(&c, &a), carry(&c, &b), anfi_kg_carry_sums(&c, t);
  anfi_kg_begin(k, &l, k->size[GEMM_NUM], &c);
  sum_k(k, t, a, b, row);
  a = move(k, a, mul(k, k->size[GEMM_SA], k->bytes_a));
  b = move(k, b, mul(k, k->size[GEMM_SB], k->bytes_b));
  anfi_kg_end(k, &l);
}

/* a and b are offsets into what the lists point to. */
static void sum_list(const kgen *k, ktile *t, const V *row) {
  carried c = {.n = 0};
  kloop l;
  anfi_kg_carry_sums(&c, t);
  anfi_kg_begin(k, &l, k->len, &c);
  V at = mul(k, l.i, 8), a = ll.BuildLoad2(k->g->b, k->g->ptr, move(k, k->a, at), ""),
    b = ll.BuildLoad2(k->g->b, k->g->ptr, move(k, k->b, at), "");
  sum_batch(k, t, move(k, a, t->a), move(k, b, t->b), row);
  anfi_kg_end(k, &l);
}

/* ---- tiles ---- */

static V is_fresh(const kgen *k) {
  return ll.BuildICmp(k->g->b, LLVMIntNE, k->fresh, ci(k, 0), "");
}

/* Sums start from zeros or from C, whose vectors are `at` from c. */
static void start_sums(const kgen *k, ktile *t, V c, const V *at) {
  int64_t fresh;
  uint32_t n = t->rows * t->vecs;
  LLVMTypeRef lane = anfi_kg_lane(k, k->k->c);
  bool fixed = known(k->fresh, &fresh);
  LLVMBasicBlockRef from[2] = {ll.GetInsertBlock(k->g->b), NULL}, after = NULL;
  if (!fixed) {
    from[1] = anfi_kg_block(k), after = anfi_kg_block(k);
    ll.BuildCondBr(k->g->b, is_fresh(k), after, from[1]);
    ll.PositionBuilderAtEnd(k->g->b, from[1]);
  }
  for (uint32_t i = 0; i < n; i++)
    t->acc[i] = fixed && fresh
                    ? ll.ConstNull(k->vec)
                    : anfi_kg_load(k, lane, move(k, c, at[i]), k->bytes_c, tail_of(t, i % t->vecs));
  if (fixed) return;
  ll.BuildBr(k->g->b, after);
  ll.PositionBuilderAtEnd(k->g->b, after);
  for (uint32_t i = 0; i < n; i++) {
    V in[2] = {ll.ConstNull(k->vec), t->acc[i]};
    t->acc[i] = ll.BuildPhi(k->g->b, k->vec, "");
    ll.AddIncoming(t->acc[i], in, from, 2);
  }
}

/* Prefetches rows of C while a tile is computed: those of this tile if it only writes them; those of the next tile if tiles
 * start from C, as this one's had to be there before. */
static void fetch_c(const kgen *k, const ktile *t, V c, V ldc) {
  enum { LINE = 64 };
  int64_t fresh;
  V next = mul(k, ldc, t->rows);
  if (!known(k->fresh, &fresh)) next = ll.BuildSelect(k->g->b, is_fresh(k), ci(k, 0), next, "");
  else if (fresh) next = ci(k, 0);
  c = move(k, c, next);
  for (uint32_t r = 0; r < t->rows; r++) {
    V row = mul(k, ldc, r);
    for (uint32_t at = 0; at < t->vecs * k->lanes * k->bytes_c; at += LINE) {
      V in[] = {move(k, c, sum2(k, row, ci(k, at))), anfi_ll_i32(k->g, 1), anfi_ll_i32(k->g, 3),
                anfi_ll_i32(k->g, 1)};
      anfi_ll_intrinsic(k->g, "llvm.prefetch", k->g->ptr, 4, in);
    }
  }
}

static void run_tile(const kgen *k, ktile *t) {
  V row[ROWS], at[SUMS];
  bool ta = k->k->flags & GEMM_TA;
  V ldc = mul(k, k->size[GEMM_LDC], k->bytes_c),
    lda = ta ? ci(k, k->bytes_a) : mul(k, k->size[GEMM_LDA], k->bytes_a);
  V c = move(k, k->c, t->c);
  for (uint32_t r = 0; r < t->rows; r++) row[r] = mul(k, lda, r);
  for (uint32_t i = 0; i < t->rows * t->vecs; i++) {
    V off = mul(k, ldc, i / t->vecs);
    at[i] = sum2(k, off, ci(k, (int64_t)(i % t->vecs) * k->lanes * k->bytes_c));
  }
  start_sums(k, t, c, at);
  bool biased = anfi_kg_biased(k);
  for (uint32_t j = 0; j < t->vecs && anfi_kg_tiles_sum_excess(k); j++)
    t->excess[j] = ll.ConstNull(k->vec);
  fetch_c(k, t, c, ldc);
  if (k->k->list) sum_list(k, t, row);
  else sum_batch(k, t, move(k, k->a, t->a), move(k, k->b, t->b), row);
  for (uint32_t i = 0; i < t->rows * t->vecs; i++) {
    V x = t->acc[i];
    if (biased) x = ll.BuildSub(k->g->b, x, anfi_kg_excess(k, t, i % t->vecs), "");
    x = anfi_kg_epilogue(
        k, x, &(kplace){sum2(k, t->c, at[i]), t->col, i % t->vecs, tail_of(t, i % t->vecs)});
    anfi_kg_store(k, x, move(k, c, at[i]), k->bytes_c, tail_of(t, i % t->vecs));
  }
}

/* `count` tiles from row m0 on, in the panel that t says. */
static void tiles(const kgen *k, ktile t, V m0, V count) {
  kloop l;
  bool ta = k->k->flags & GEMM_TA;
  anfi_kg_begin(k, &l, count, NULL);
  V m = sum2(k, m0, mul(k, l.i, t.rows));
  t.a = mul(k, ta ? m : mul2(k, m, k->size[GEMM_LDA]), k->bytes_a);
  t.c = sum2(k, mul(k, mul2(k, m, k->size[GEMM_LDC]), k->bytes_c), mul(k, t.col, k->bytes_c));
  run_tile(k, &t);
  anfi_kg_end(k, &l);
}

static ktile panel_at(const kgen *k, V col, uint32_t n) {
  ktile t = {.vecs = (n + k->lanes - 1) / k->lanes, .tail = n % k->lanes, .col = col};
  t.b = mul(k, col, k->bytes_b * (k->k->flags & GEMM_VNNI ? k->dot.steps : 1));
  return t;
}

void anfi_kg_tiles(const kgen *k, V m0, V col, V count) {
  ktile t = panel_at(k, col, (uint32_t)k->k->n);
  t.rows = (uint32_t)k->k->m;
  tiles(k, t, m0, count);
}

static void panel(const kgen *k, V col, uint32_t n) {
  anfi_cut cut[GEMM_CUTS];
  ktile t = panel_at(k, col, n);
  anfi_kg_pack_panel(k, &t);
  uint32_t ncut = anfi_gemm_cuts(&k->isa, k->lanes, k->k, cut);
  for (uint32_t i = 0; i < ncut; i++) {
    if (cut[i].columns != n || anfi_kernel_call_tiles(k, &cut[i], col)) continue;
    t.rows = cut[i].rows;
    tiles(k, t, ci(k, cut[i].from), ci(k, cut[i].count));
  }
}

void anfi_kg_panels(kgen *k) {
  anfi_tile best = anfi_tile_pick(&k->isa, k->lanes, (uint64_t)k->k->m, (uint64_t)k->k->n);
  anfi_kg_alloc_panel(k, &best);
  anfi_kg_blocks(k, k->k->n, best.vecs * k->lanes, panel);
}
