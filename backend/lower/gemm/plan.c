// SPDX-License-Identifier: Apache-2.0
/* Plans of products by the cost model: element types that kernels read, cache blocks, roles of A and B.
 *   C[2, 4096] = A[2, 512] @ B[4096, 512]^T      ->   exchanged: C^T = B @ A^T, so that B is read as stored */
#include "backend/lower/low.h"
#include "backend/lower/gemm/plan.h"

static uint32_t bytes(anf_tir_elem e) { return (uint32_t)anfi_t_bytes(anfi_t_dt(e)); }

anfi_mm_types anfi_mm_types_of(const anfi_isa *isa, const anfi_mm_shape *s) {
  anfi_mm_types t = {.sum = anfi_t_elem_is_half(s->elem) ? ANF_TIR_f32 : s->elem};
  t.a = t.b = s->elem == ANF_TIR_bf16 && anfi_isa_has(isa, CPU_bf16) ? ANF_TIR_bf16 : t.sum;
  if (s->bytes_a) t.a = anfi_widened_a(isa, s->bytes_a, s->bytes_b, s->small), t.b = s->bytes_b;
  return t;
}

bool anfi_mm_is_small(const anf_value *v) {
  enum { MOST = 64 };
  bool small = true;
  for (size_t i = 0; i < v->n && small; i++)
    small = (int8_t)v->data[i] >= -MOST && (int8_t)v->data[i] <= MOST;
  return small;
}

anfi_blocks anfi_mm_blocks(const anfi_isa *isa, const anfi_mm_shape *s) {
  anfi_mm_types t = anfi_mm_types_of(isa, s);
  anfi_product p = {.m = s->m, .n = s->n, .k = anfi_mm_split_k(s->m, s->n, s->k)};
  p.ta = s->ta, p.tb = s->tb, p.prepacked = s->prepacked;
  anfi_gemm k = {.a = t.a, .b = t.b, .c = t.sum, .flags = s->small ? GEMM_SMALL : 0};
  p.bytes = bytes(t.b), p.sum = bytes(t.sum), p.adds = anfi_dot_adds(isa, &k);
  p.wide_a = bytes(t.a) > p.bytes;
  p.lda = s->ta ? s->m : s->k, p.ldb = s->tb ? s->k : s->n;
  return anfi_blocks_pick(isa, &p);
}

bool anfi_mm_may_exchange(const anfi_mm_shape *s) {
  return !anfi_t_elem_is_half(s->elem) && !s->bytes_a && !s->prepacked;
}

anfi_mm_shape anfi_mm_exchanged(const anfi_mm_shape *s) {
  anfi_mm_shape x = *s;
  x.m = s->n, x.n = s->m;
  x.ta = !s->tb, x.tb = !s->ta;
  return x;
}

/* With swapped roles the result comes out transposed, and is transposed back. That is better where B is
 * transposed and A has few rows, for then B is read as stored and only A is packed; and where columns are so few that they
 * leave much of a vector unused. 0.97: at nearly equal cost operands stay (a guard: no row of bench_gemm depends on it). */
static bool better_exchanged(const anfi_isa *isa, const anfi_mm_shape *s) {
  static const double PER_CYCLE = 2; // elements transposed
  if (!anfi_mm_may_exchange(s)) return false;
  if (s->tb) return s->m * (s->k + s->n) <= s->n * s->k;
  uint32_t lanes = isa->bytes / bytes(s->elem);
  if (!s->ta && anfi_tile_is_transposed(isa, lanes, s->m, s->n)) return false;
  double moved = (double)(s->ta ? 0 : s->m) + (double)(s->m * s->n) / (double)s->k;
  return s->m > s->n && anfi_tile_cost(isa, lanes, s->n, s->m) + moved / PER_CYCLE <
                            0.97 * anfi_tile_cost(isa, lanes, s->m, s->n);
}

anfi_mm_plan anfi_mm_plan_of(const anfi_isa *isa, const anfi_mm_shape *s) {
  anfi_mm_shape x = anfi_mm_exchanged(s);
  bool exchanged = better_exchanged(isa, s);
  return (anfi_mm_plan){exchanged, anfi_mm_blocks(isa, exchanged ? &x : s)};
}
