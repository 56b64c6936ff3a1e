// SPDX-License-Identifier: Apache-2.0
/* Batch-reduce products of sizes and types that have no kernel: the plain loop (base/brgemm_loop.h).
 *   k = anf_rt_brgemm_kernel(s, M, N, K, ..); anf_rt_brgemm_call(s, k, a, b, c, num, ..)   ->   c = sum of a[h] b[h]
 * A handle is the shape, kept once in a table that only grows; any thread may ask for one. */
#include "base/base.h"
#include "base/gemm.h"
#include "runtime/rt.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "anfora/tir.h"

typedef struct shelf {
  anfi_brgemm k;
  struct shelf *next;
} shelf;

enum { SHELVES = 64 };
static struct {
  pthread_mutex_t lock;
  shelf *at[SHELVES];
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

#if defined(__GNUC__)
__attribute__((destructor)) static void empty_table(void) {
  for (int i = 0; i < SHELVES; i++)
    while (table.at[i]) {
      shelf *next = table.at[i]->next;
      free(table.at[i]);
      table.at[i] = next;
    }
}
#endif

static unsigned slot_of(const anfi_brgemm *k) {
  uint64_t h = 0;
  const int64_t v[] = {k->M, k->N, k->K, k->LDA, k->LDB, k->LDC, k->flags, k->ta};
  for (size_t i = 0; i < ANFI_LEN(v); i++) h = anfi_hash_mix(h, (uint64_t)v[i]);
  return (unsigned)(h % SHELVES);
}

static const anfi_brgemm *find(const anfi_brgemm *k) {
  shelf **at = &table.at[slot_of(k)], *s = *at;
  while (s && memcmp(&s->k, k, sizeof *k) != 0) s = s->next;
  if (s) return &s->k;
  s = (shelf *)malloc(sizeof *s);
  if (!s) return NULL;
  s->k = *k;
  s->next = *at;
  *at = s;
  return &s->k;
}

void *anf_rt_brgemm_kernel(anf_stream *s, int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldb,
                           int64_t ldc, int64_t stride_a, int64_t stride_b, int32_t type_a,
                           int32_t type_b, int32_t type_c, int64_t flags) {
  anfi_brgemm want;
  memset(&want, 0, sizeof want);
  want.M = m, want.N = n, want.K = k, want.LDA = lda, want.LDB = ldb, want.LDC = ldc;
  want.stride_a = stride_a, want.stride_b = stride_b, want.flags = flags;
  want.ta = type_a, want.tb = type_b, want.tc = type_c;
  pthread_mutex_lock(&table.lock);
  const anfi_brgemm *have = find(&want);
  pthread_mutex_unlock(&table.lock);
  if (!have) anf_rt_trap(s, ANF_TRAP_MEMORY, 0, 0, NULL, NULL);
  return (void *)(uintptr_t)have;
}

/* ---- elements ---- */

static double get(const void *p, int32_t type, int64_t i) {
  switch (type) { /* dispatch */
  case ANF_TIR_bool:
  case ANF_TIR_u8: return ((const uint8_t *)p)[i];
  case ANF_TIR_s8: return ((const int8_t *)p)[i];
  case ANF_TIR_s16: return ((const int16_t *)p)[i];
  case ANF_TIR_u16: return ((const uint16_t *)p)[i];
  case ANF_TIR_s32: return ((const int32_t *)p)[i];
  case ANF_TIR_u32: return ((const uint32_t *)p)[i];
  case ANF_TIR_s64: return (double)((const int64_t *)p)[i];
  case ANF_TIR_index:
  case ANF_TIR_u64: return (double)((const uint64_t *)p)[i];
  case ANF_TIR_f16: return (double)anfi_f16_to_f32(((const uint16_t *)p)[i]);
  case ANF_TIR_bf16: return (double)anfi_bf16_to_f32(((const uint16_t *)p)[i]);
  case ANF_TIR_f64: return ((const double *)p)[i];
  default: return (double)((const float *)p)[i];
  }
}

/* Rounds to the type; an integer takes the nearest that it has. */
static int64_t clamp(double v, double lo, double hi) {
  return v != v ? 0 : v < lo ? (int64_t)lo : v > hi ? (int64_t)hi : (int64_t)v;
}
static void put(void *p, int32_t type, int64_t i, double v) {
  switch (type) { /* dispatch */
  case ANF_TIR_u8: ((uint8_t *)p)[i] = (uint8_t)clamp(v, 0, UINT8_MAX); break;
  case ANF_TIR_s8: ((int8_t *)p)[i] = (int8_t)clamp(v, INT8_MIN, INT8_MAX); break;
  case ANF_TIR_s16: ((int16_t *)p)[i] = (int16_t)clamp(v, INT16_MIN, INT16_MAX); break;
  case ANF_TIR_u16: ((uint16_t *)p)[i] = (uint16_t)clamp(v, 0, UINT16_MAX); break;
  case ANF_TIR_s32: ((int32_t *)p)[i] = (int32_t)clamp(v, INT32_MIN, INT32_MAX); break;
  case ANF_TIR_u32: ((uint32_t *)p)[i] = (uint32_t)clamp(v, 0, UINT32_MAX); break;
  case ANF_TIR_f16: ((uint16_t *)p)[i] = anfi_f64_to_f16(v); break;
  case ANF_TIR_bf16: ((uint16_t *)p)[i] = anfi_f64_to_bf16(v); break;
  case ANF_TIR_f64: ((double *)p)[i] = v; break;
  case ANF_TIR_f32: ((float *)p)[i] = (float)v; break;
  case ANF_TIR_s64:
    ((int64_t *)p)[i] = v >= 0x1p63 ? INT64_MAX : v < -0x1p63 ? INT64_MIN : v != v ? 0 : (int64_t)v;
    break;
  default: ((uint64_t *)p)[i] = v >= 0x1p64 ? UINT64_MAX : v > 0 ? (uint64_t)v : 0; break;
  }
}

/* ---- the product ---- */

typedef struct operands {
  const void *a, *b;
  void *c;
  const void *bias, *scales, *rhs;
  bool list;
} operands;

static void run(const anfi_brgemm *g, const operands *o) {
  const bool pairs = anfi_sums_pairs(g->ta, g->tb, g->tc), f32 = g->tc == ANF_TIR_f32 || pairs;
  const bool bf16 = pairs && g->tc == ANF_TIR_bf16;
  const void *a = NULL, *b = NULL;
  int64_t at = 0;
#define FIND_BLOCKS(h)                                                                             \
  (at = o->list ? (h) % g->num : (h),                                                              \
   a = o->list ? ((const void *const *)o->a)[(h) / g->num] : o->a,                                 \
   b = o->list ? ((const void *const *)o->b)[(h) / g->num] : o->b)
#define LOAD_A(x, i)     x = get(a, g->ta, at * g->stride_a + (i))
#define LOAD_B(x, i)     x = get(b, g->tb, at * g->stride_b + (i))
#define LOAD_C(x, i)     x = get(o->c, g->tc, i)
#define LOAD_BIAS(x, i)  x = get(o->bias, g->tc, i)
#define LOAD_SCALE(x, i) x = get(o->scales, ANF_TIR_f32, i)
#define LOAD_RHS(x, i)   x = get(o->rhs, g->tc, i)
#define STORE_C(i, x)    put(o->c, g->tc, i, x)
#define SUMS_F32         f32
#define PAIRS            pairs
#define VNNI_GROUP       anfi_vnni_group(g->ta, g->tb)
#define ROUND(x)                                                                                   \
  (bf16                   ? (double)anfi_bf16_to_f32(anfi_f32_to_bf16((float)(x)))                 \
   : g->tc == ANF_TIR_f32 ? (double)(float)(x)                                                     \
                          : (x))
#include "base/brgemm_loop.h"
}

void anf_rt_brgemm_call(anf_stream *s, void *k, void *a, void *b, void *c, int64_t num, void *bias,
                        void *scales, void *binary_rhs) {
  (void)s;
  anfi_brgemm g = *(const anfi_brgemm *)k;
  g.num = num, g.len = 1;
  run(&g, &(operands){a, b, c, bias, scales, binary_rhs, false});
}

void anf_rt_brgemm_list_call(anf_stream *s, void *k, void *a, void *b, void *c, int64_t num,
                             int64_t len, void *bias, void *scales, void *binary_rhs) {
  (void)s;
  anfi_brgemm g = *(const anfi_brgemm *)k;
  g.num = num, g.len = len;
  g.ta = g.tb = g.tc; // lists hold what C holds
  run(&g, &(operands){a, b, c, bias, scales, binary_rhs, true});
}
