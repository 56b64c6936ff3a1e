// SPDX-License-Identifier: Apache-2.0
/* How a product is blocked: by the cost model, or by measurement (exec/tune.c). No plan changes a bit of the result. */
#ifndef ANFI_LOWER_PLAN_H
#define ANFI_LOWER_PLAN_H

#include "backend/kernel/kernel.h"

static inline uint64_t anfi_mm_up(uint64_t n, uint64_t by) { return (n + by - 1) / by; }

/* A product, as far as its plan follows from it. */
typedef struct anfi_mm_shape {
  /* types */
  anf_tir_elem elem;             // of the result, and of a and b,
  anf_tir_elem bytes_a, bytes_b; // unless these are not void
  /* sizes and storage */
  uint64_t m, n, k;
  bool ta, tb;    // a is stored k by m; b is stored n by k
  bool prepacked; // b is a constant, packed beforehand
  bool small;     // and no byte of it is outside [-64, 64]
} anfi_mm_shape;

typedef struct anfi_mm_plan {
  bool exchanged; // a and b swap roles: the result is transposed,
  anfi_blocks b;  // and the blocks are those of that product
} anfi_mm_plan;

typedef struct anfi_mm_plans {
  void (*find)(void *user, const anfi_mm_shape *s, anfi_mm_plan *plan); // has the model's before
  void *user;
  bool prepack; // take b for pre-packed, whatever it holds: to measure how long that takes
} anfi_mm_plans;

/* The machine whose kernels run; without an engine one with AVX2. */
struct anfi_low;
anfi_isa anfi_low_isa(const struct anfi_low *L);

/* Types that kernels read, and of their sums. f16 and bf16 are widened when packed, unless there are dot products of
 * bf16; bytes of A to s16, if there is no dot product of bytes (anfi_widened_a). */
typedef struct anfi_mm_types {
  anf_tir_elem a, b, sum;
} anfi_mm_types;
anfi_mm_types anfi_mm_types_of(const anfi_isa *isa, const anfi_mm_shape *s);

/* Is no signed byte outside [-64, 64]? Tools make such weights for machines without dot products of bytes. */
bool anfi_mm_is_small(const anf_value *v);

/* May a and b swap roles? */
bool anfi_mm_may_exchange(const anfi_mm_shape *s);
/* The product that is computed then. */
anfi_mm_shape anfi_mm_exchanged(const anfi_mm_shape *s);
/* The cost model's plan. */
anfi_mm_plan anfi_mm_plan_of(const anfi_isa *isa, const anfi_mm_shape *s);
/* Its blocks, whether it is exchanged or not. */
anfi_blocks anfi_mm_blocks(const anfi_isa *isa, const anfi_mm_shape *s);

/* split_k.c: steps of K of one slice; all, if there are elements enough to share. The shape alone decides, so
 * that the number of threads changes no bit. */
enum { ANFI_LOW_TASKS = 8 }; // that a product is shared out in, if it has as many
uint64_t anfi_mm_split_k(uint64_t m, uint64_t n, uint64_t k);

#endif
