// SPDX-License-Identifier: Apache-2.0
/* Batch-reduce GEMM in its plain form: the meaning that faster kernels are measured against.
 * C[M, N] (+)= sum over the batch of A[M, K] B[K, N], then scale, bias, binary, relu. Of f32 each
 * product is added with one rounding, as the interpreter does it; so is each step behind the sum. Of two
 * steps of bf16 the second is added first, as dot products do, in f32 also if the result is bf16. A handle
 * is the shape, kept once in a table that only grows; it may be asked for from any thread. */
#include "base/base.h"
#include "base/gemm.h"
#include "runtime/rt.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "anfora/tir.h"

typedef struct kernel {
  int64_t m, n, k, lda, ldb, ldc, sa, sb,
      flags; // GEMM_INIT and so on
  int32_t ta, tb, tc, unused;
} kernel;

typedef struct shelf {
  kernel k;
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

static unsigned place(const kernel *k) {
  uint64_t h = 0;
  const int64_t v[] = {k->m, k->n, k->k, k->lda, k->ldb, k->ldc, k->flags, k->ta};
  for (size_t i = 0; i < ANFI_LEN(v); i++) h = anfi_hash_mix(h, (uint64_t)v[i]);
  return (unsigned)(h % SHELVES);
}

static const kernel *find(const kernel *k) {
  shelf **at = &table.at[place(k)], *s = *at;
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
  kernel want;
  memset(&want, 0, sizeof want);
  want.m = m, want.n = n, want.k = k, want.lda = lda, want.ldb = ldb, want.ldc = ldc;
  want.sa = stride_a, want.sb = stride_b, want.flags = flags;
  want.ta = type_a, want.tb = type_b, want.tc = type_c;
  pthread_mutex_lock(&table.lock);
  const kernel *have = find(&want);
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
  int64_t num, len;
  bool list;
} operands;

static bool sums_pairs(const kernel *g) { return anfi_sums_pairs(g->ta, g->tb, g->tc); }

/* Where B[k, j] is. */
static int64_t at_b(const kernel *g, int64_t k, int64_t j) {
  int64_t steps = g->flags & GEMM_VNNI ? anfi_vnni_group(g->tb) : 1;
  return k / steps * steps * g->ldb + j * steps + k % steps;
}

static double dot(const kernel *g, const operands *o, int64_t i, int64_t j, double acc) {
  bool pairs = sums_pairs(g), f32 = g->tc == ANF_TIR_f32 || pairs;
  for (int64_t b = 0; b < o->num * o->len; b++) {
    const void *pa = o->list ? ((const void *const *)o->a)[b / o->num] : o->a,
               *pb = o->list ? ((const void *const *)o->b)[b / o->num] : o->b;
    int64_t in = o->list ? b % o->num : b, bt = in * g->sb;
    for (int64_t nth = 0; nth < g->k; nth++) {
      int64_t k = pairs && (nth | 1) < g->k ? nth ^ 1 : nth;
      int64_t at = in * g->sa + (g->flags & GEMM_TA ? k * g->lda + i : i * g->lda + k);
      double x = get(pa, g->ta, at), y = get(pb, g->tb, bt + at_b(g, k, j));
      acc = f32 ? (double)fmaf((float)x, (float)y, (float)acc) : fma(x, y, acc);
    }
  }
  return acc;
}

static double step(const kernel *g, double x) { // each is rounded
  if (g->tc == ANF_TIR_bf16 && sums_pairs(g))
    return (double)anfi_bf16_to_f32(anfi_f32_to_bf16((float)x));
  return g->tc == ANF_TIR_f32 ? (double)(float)x : x;
}

static double post(const kernel *g, const operands *o, int64_t i, int64_t j, double acc) {
  int64_t binary = (g->flags & GEMM_BINARY) >> GEMM_BINARY_AT;
  if (g->flags & GEMM_BIAS_IN) acc = (double)(float)(acc + get(o->bias, g->tc, j));
  acc = step(g, acc);
  if (g->flags & GEMM_SCALE) acc = step(g, acc * get(o->scales, ANF_TIR_f32, j));
  if ((g->flags & (GEMM_BIAS | GEMM_BIAS_IN)) == GEMM_BIAS)
    acc = step(g, acc + get(o->bias, g->tc, j));
  if (binary) {
    double y = get(o->rhs, g->tc, i * g->ldc + j);
    acc = binary == 1 ? acc + y : binary == 2 ? acc * y : binary == 3 ? fmax(acc, y) : fmin(acc, y);
    acc = step(g, acc);
  }
  return g->flags & GEMM_RELU && acc < 0 ? 0 : acc;
}

static void run(const kernel *g, const operands *o) {
  for (int64_t i = 0; i < g->m; i++)
    for (int64_t j = 0; j < g->n; j++) {
      double acc = g->flags & GEMM_INIT ? 0 : get(o->c, g->tc, i * g->ldc + j);
      put(o->c, g->tc, i * g->ldc + j, post(g, o, i, j, dot(g, o, i, j, acc)));
    }
}

void anf_rt_brgemm_call(anf_stream *s, void *k, void *a, void *b, void *c, int64_t num, void *bias,
                        void *scales, void *binary_rhs) {
  (void)s;
  run((const kernel *)k, &(operands){a, b, c, bias, scales, binary_rhs, num, 1, false});
}

void anf_rt_brgemm_list_call(anf_stream *s, void *k, void *a, void *b, void *c, int64_t num,
                             int64_t len, void *bias, void *scales, void *binary_rhs) {
  (void)s;
  kernel g = *(const kernel *)k;
  g.ta = g.tb = g.tc; // lists hold what C holds
  run(&g, &(operands){a, b, c, bias, scales, binary_rhs, num, len, true});
}
