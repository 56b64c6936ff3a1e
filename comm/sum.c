// SPDX-License-Identifier: Apache-2.0
/* Sums over ranks in pairs: the largest power of two below the number of ranks splits it.
 *   4 ranks: (0 + 1) + (2 + 3)        3 ranks: (0 + 1) + 2
 * Two ranks that each hold the sum of two parts come to the bits of four ranks that hold one part each. Floats are
 * added in f64 and rounded once; integers wrap. In the fast order f32 is added in f32.
 * Loops of floats are over a whole block, a number that compilers know and make vectors for; a last block is filled with zeros. */
#include "base/base.h"
#include "comm/comm.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 256 };

typedef struct sum {
  anf_dtype d; // real
  const void *const *from;
  uint64_t at; // the block's first element
  size_t n;    // of its elements
} sum;

uint64_t anfi_comm_bytes(anf_dtype d) {
  static const uint8_t bytes[ANF_DTYPE_COUNT] = {
#define ANF_DTYPE(name, text, size, ...) [ANF_##name] = (size),
#include "ir/value/dtype.def"
#undef ANF_DTYPE
  };
  return (unsigned)d < ANF_DTYPE_COUNT ? bytes[d] : 0;
}

static anf_dtype real_of(anf_dtype d) {
  return d == ANF_C64 ? ANF_F32 : d == ANF_C128 ? ANF_F64 : d == ANF_COMPLEX ? ANF_FLOAT : d;
}

static bool is_float(anf_dtype d) {
  return d == ANF_F16 || d == ANF_BF16 || d == ANF_F32 || d == ANF_F64 || d == ANF_FLOAT;
}

#define LOAD(T, expr)                                                                              \
  {                                                                                                \
    const T *x = (const T *)p + s->at;                                                             \
    for (size_t i = 0; i < s->n; i++) to[i] = expr;                                                \
    return;                                                                                        \
  }
#define LOAD_BLOCK(T, expr)                                                                        \
  {                                                                                                \
    const T *restrict x = (const T *)p + s->at;                                                    \
    if (s->n == BLOCK)                                                                             \
      for (size_t i = 0; i < BLOCK; i++) to[i] = expr;                                             \
    else                                                                                           \
      for (size_t i = 0; i < BLOCK; i++) to[i] = i < s->n ? expr : 0;                              \
    return;                                                                                        \
  }
static void load_floats(const sum *s, const void *p, double *restrict to) {
  switch (s->d) {
  case ANF_F16: LOAD_BLOCK(uint16_t, (double)anfi_f16_to_f32(x[i]))
  case ANF_BF16: LOAD_BLOCK(uint16_t, (double)anfi_bf16_to_f32(x[i]))
  case ANF_F32: LOAD_BLOCK(float, (double)x[i])
  default: LOAD_BLOCK(double, x[i])
  }
}
static void load_ints(const sum *s, const void *p, uint64_t *to) {
  switch (s->d) {
  case ANF_I8: LOAD(int8_t, (uint64_t)x[i])
  case ANF_I16: LOAD(int16_t, (uint64_t)x[i])
  case ANF_I32: LOAD(int32_t, (uint64_t)x[i])
  case ANF_U8:
  case ANF_BOOL: LOAD(uint8_t, x[i])
  case ANF_U16: LOAD(uint16_t, x[i])
  case ANF_U32: LOAD(uint32_t, x[i])
  default: LOAD(uint64_t, x[i])
  }
}
#undef LOAD
#undef LOAD_BLOCK

static int32_t half_of(int32_t n) {
  int32_t h = 1;
  while (2 * h < n) h *= 2;
  return h;
}

static void add_block(double *restrict to, const double *restrict x) {
  for (size_t i = 0; i < BLOCK; i++) to[i] += x[i];
}

/* Nests as deep as the logarithm of the number of ranks. */
static void add_floats(const sum *s, int32_t first, int32_t n, double *to) {
  double other[BLOCK];
  if (n == 1) {
    load_floats(s, s->from[first], to);
    return;
  }
  int32_t h = half_of(n);
  add_floats(s, first, h, to);
  add_floats(s, first + h, n - h, other);
  add_block(to, other);
}

#define STORE(T, expr)                                                                             \
  {                                                                                                \
    T *restrict y = (T *)to + s->at;                                                               \
    if (s->n == BLOCK)                                                                             \
      for (size_t i = 0; i < BLOCK; i++) y[i] = (T)(expr);                                         \
    else                                                                                           \
      for (size_t i = 0; i < s->n; i++) y[i] = (T)(expr);                                          \
    return;                                                                                        \
  }
static void store_floats(const sum *s, const double *restrict x, void *to) {
  switch (s->d) {
  case ANF_F16: STORE(uint16_t, anfi_f64_to_f16(x[i]))
  case ANF_BF16: STORE(uint16_t, anfi_f64_to_bf16(x[i]))
  case ANF_F32: STORE(float, x[i])
  default: STORE(double, x[i])
  }
}
static void store_ints(const sum *s, const uint64_t *x, void *to) {
  switch (s->d) {
  case ANF_I8:
  case ANF_U8: STORE(uint8_t, x[i])
  case ANF_BOOL: STORE(uint8_t, x[i] != 0)
  case ANF_I16:
  case ANF_U16: STORE(uint16_t, x[i])
  case ANF_I32:
  case ANF_U32: STORE(uint32_t, x[i])
  default: STORE(uint64_t, x[i])
  }
}
#undef STORE

/* A power of two divides as its reciprocal multiplies, in less time. */
static void divide(double *x, double divisor) {
  int e;
  double by = 1 / divisor;
  if (frexp(divisor, &e) == 0.5)
    for (size_t i = 0; i < BLOCK; i++) x[i] *= by;
  else
    for (size_t i = 0; i < BLOCK; i++) x[i] /= divisor;
}

static void block_of_floats(const sum *s, int32_t nfrom, double divisor, void *to) {
  double acc[BLOCK];
  add_floats(s, 0, nfrom, acc);
  if (divisor != 1) divide(acc, divisor);
  store_floats(s, acc, to);
}

/* Integers are associative: no pairs. A mean rounds towards zero. */
static void block_of_ints(const sum *s, int32_t nfrom, double divisor, void *to) {
  uint64_t acc[BLOCK], x[BLOCK];
  bool is_signed = s->d >= ANF_I8 && s->d <= ANF_I64;
  uint64_t by = (uint64_t)divisor;
  load_ints(s, s->from[0], acc);
  for (int32_t k = 1; k < nfrom; k++) {
    load_ints(s, s->from[k], x);
    for (size_t i = 0; i < s->n; i++) acc[i] += x[i];
  }
  for (size_t i = 0; by > 1 && i < s->n; i++)
    acc[i] = is_signed ? (uint64_t)((int64_t)acc[i] / (int64_t)by) : acc[i] / by;
  store_ints(s, acc, to);
}

/* ---- the fast order ---- */

static void load_f32(const sum *s, int32_t k, float *restrict to) {
  const float *restrict x = (const float *)s->from[k] + s->at;
  if (s->n == BLOCK)
    for (size_t i = 0; i < BLOCK; i++) to[i] = x[i];
  else
    for (size_t i = 0; i < BLOCK; i++) to[i] = i < s->n ? x[i] : 0;
}

/* As add_floats, rounded to f32 after each addition. */
static void add_f32(const sum *s, int32_t first, int32_t n, float *restrict to) {
  float other[BLOCK];
  if (n == 1) {
    load_f32(s, first, to);
    return;
  }
  int32_t h = half_of(n);
  add_f32(s, first, h, to);
  add_f32(s, first + h, n - h, other);
  for (size_t i = 0; i < BLOCK; i++) to[i] += other[i];
}

static void block_of_f32(const sum *s, int32_t nfrom, double divisor, void *to) {
  float acc[BLOCK], *y = (float *)to + s->at, by = (float)divisor;
  add_f32(s, 0, nfrom, acc);
  if (divisor != 1)
    for (size_t i = 0; i < BLOCK; i++) acc[i] /= by;
  memcpy(y, acc, s->n * sizeof *y);
}

void anfi_comm_sum(anf_dtype d, anf_comm_order order, int32_t nfrom, const void *const *from,
                   uint64_t n, double divisor, void *to) {
  sum s = {.d = real_of(d), .from = from};
  if (s.d != d) n *= 2;
  for (s.at = 0; s.at < n; s.at += BLOCK) {
    s.n = n - s.at < BLOCK ? (size_t)(n - s.at) : BLOCK;
    if (s.d == ANF_F32 && order == ANF_COMM_FAST) block_of_f32(&s, nfrom, divisor, to);
    else if (is_float(s.d)) block_of_floats(&s, nfrom, divisor, to);
    else block_of_ints(&s, nfrom, divisor, to);
  }
}
